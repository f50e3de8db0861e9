/* ops/queue/tuple.h -- what a queue's elements may be, and how they are cut from batches and put
 * together to batches. */
#ifndef MR_OPS_QUEUE_TUPLE_H
#define MR_OPS_QUEUE_TUPLE_H

#include "run/run.h"

typedef struct mr_tuple_type {
    int n; /* components, at least 1 */
    const int *types;
    int n_shapes; /* 0: any shapes, or n */
    const mr_pshape *const *shapes;
} mr_tuple_type;

/* A copy in an arena. */
mr_tuple_type mr_tuple_type_copy(mr_arena *a, const mr_tuple_type *t);
/* "float, int32" and "[[], [2,?]]", as in TensorFlow's texts. */
void mr_tuple_print_types(mr_str *out, const mr_tuple_type *t);
void mr_tuple_print_shapes(mr_str *out, const mr_tuple_type *t);

/* INVALID_ARGUMENT "Signature mismatch, have: resource, float-> expected: resource, int32->": the
 * types of a node and those that the object behind its handle asks for. */
mr_status *mr_signature_mismatch(const mr_run *r, int n_in, const int *in, int n_out,
                                 const int *out);
/* The op's inputs after input 0 are one tuple, or rows of many; INVALID_ARGUMENT says how not. */
mr_status *mr_tuple_check_inputs(const mr_tuple_type *t, const mr_run *r, bool many);
/* The op's outputs are of these types. */
mr_status *mr_tuple_check_outputs(const mr_tuple_type *t, const mr_run *r);

/* The inputs after input 0, or row `row` of each, as a tuple; out[..] owned. */
mr_status *mr_tuple_read(const mr_tuple_type *t, mr_run *r, bool many, int64_t row,
                         mr_tensor **out);
/* The outputs of a run are `count` tuples stacked along a new first dimension.  Dimensions that the
 * type leaves open are as large as the largest of them, the others' rest zero (or ""). */
mr_status *mr_tuple_stack(const mr_tuple_type *t, mr_run *r, mr_tensor *const *tuples,
                          int64_t count);

#endif
