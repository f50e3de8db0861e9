/* server/transfers.h -- which tensors came from other tasks and how long that took, while a client records it
 * (Logging).
 *
 * One NodeExecStats per tensor, under the device that received it; the newest MR_TRANSFERS_KEPT are kept. */
#ifndef MR_SERVER_TRANSFERS_H
#define MR_SERVER_TRANSFERS_H

#include "base/str.h"
#include "base/thread.h"
#include "base/vec.h"

enum { MR_TRANSFERS_KEPT = 4096 };

typedef struct mr_arrival {
    int64_t step, start_us, end_us; /* of the wall clock */
    size_t bytes;
    char *tensor, *from, *to;
} mr_arrival;

typedef struct mr_transfers {
    _Atomic bool on;
    mr_mutex mu;
    MR_VEC(mr_arrival) all MR_GUARDED_BY(mu); /* the oldest first */
} mr_transfers;

void mr_transfers_init(mr_transfers *t);
void mr_transfers_deinit(mr_transfers *t);
/* Does nothing unless recording is on. */
void mr_transfers_add(mr_transfers *t, int64_t step, mr_sv tensor, mr_sv from, mr_sv to, size_t bytes, int64_t start_us);
/* Answers a LoggingRequest with a LoggingResponse; steps that are fetched are removed. */
mr_status *mr_transfers_answer(mr_transfers *t, mr_sv request, mr_str *out);

#endif
