/* ops/linalg/packed.h -- constant weights in the format of the tiles, kept by a kernel between runs.
 *
 * A kernel keeps one packed form of one constant. Packing may happen twice if two runs meet; both forms are equal. */
#ifndef MR_OPS_LINALG_PACKED_H
#define MR_OPS_LINALG_PACKED_H

#include "base/thread.h"
#include "ops/linalg/tiles.h"
#include "tensor/tensor.h"

typedef struct mr_packed { /* part of a kernel's state; safe from any thread */
    mr_mutex mu;
    mr_tensor *source, *form; /* NULL: nothing is kept */
    const mr_tiles *tiles;
    int how;
} mr_packed;

void mr_packed_init(mr_packed *p);
void mr_packed_deinit(mr_packed *p); /* also after zero-initialization */

/* True if a tensor never changes (the value of a Const), so that its packed form may be kept. */
static inline bool mr_packed_can_keep(const mr_tensor *t) { return t->readonly && t->dtype == MR_FLOAT; }
/* The kept form of `source`, owned by the caller, or NULL. `how` tells apart the formats that a kernel uses. */
mr_tensor *mr_packed_get(mr_packed *p, const mr_tensor *source, int how);
/* Keeps a form instead of the one before. A reference to the source is kept too, so that no other tensor can get its
 * address. */
void mr_packed_keep(mr_packed *p, const mr_tensor *source, int how, const mr_tensor *form);

#endif
