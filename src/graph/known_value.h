/* graph/known_value.h -- what is known about a value before anything runs.
 *
 * Shape functions need the values of their shape and axis arguments. These come from constants, often through a chain
 * of Shape, Pack, StridedSlice and arithmetic, and are often known in part only: of Shape(x) with x: [?,3] the second
 * entry. An mr_known answers such questions for one inference call and remembers the answers. Inside graph/ only;
 * others use mr_infer_const and mr_out_value. */
#ifndef MR_GRAPH_KNOWN_VALUE_H
#define MR_GRAPH_KNOWN_VALUE_H

#include "graph/infer.h"

/* An int32 or int64 scalar or vector whose entries may be unknown. */
typedef struct mr_ints {
    int rank; /* 0 or 1 */
    int n;    /* entries; 1 for a scalar */
    int64_t *v;
    bool *known;
} mr_ints;

typedef struct mr_known {
    mr_arena arena;  /* holds the mr_ints */
    mr_imap ints;    /* output -> mr_ints *, or the marker for "nothing" */
    mr_imap tensors; /* output -> mr_tensor * owned, or the marker */
    int left;        /* number of nodes it may still visit */
} mr_known;

void mr_known_init(mr_known *k); /* allocates nothing */
void mr_known_deinit(mr_known *k);
/* NULL when nothing is known; borrowed. */
const mr_ints *mr_known_ints(mr_known *k, mr_out o);
/* The whole value; NULL when not all of it is known; borrowed. */
mr_tensor *mr_known_tensor(mr_known *k, mr_out o);
/* True if the value has exactly one entry, which is known. */
bool mr_known_int(mr_known *k, mr_out o, int64_t *out);

#endif
