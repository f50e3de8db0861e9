/* ops/queue/tuple.h -- the type of a queue's elements; splits batches into elements and stacks elements
 * to batches. */
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

/* Returns INVALID_ARGUMENT "Signature mismatch, have: resource, float-> expected: resource, int32->": the
 * types of the node, and those that the object of its handle requires. */
mr_status *mr_signature_mismatch(const mr_run *r, int n_in, const int *in, int n_out,
                                 const int *out);
/* Checks that the op's inputs after input 0 are one tuple, or a batch of them; INVALID_ARGUMENT. */
mr_status *mr_tuple_check_inputs(const mr_tuple_type *t, const mr_run *r, bool many);
/* Checks that the op's outputs have these types. */
mr_status *mr_tuple_check_outputs(const mr_tuple_type *t, const mr_run *r);

/* The inputs after input 0, or row `row` of each, as a tuple; the caller owns out[..]. */
mr_status *mr_tuple_read(const mr_tuple_type *t, mr_run *r, bool many, int64_t row,
                         mr_tensor **out);
/* Sets the outputs of a run to `count` tuples stacked along a new first dimension.  Dimensions that the type
 * leaves unknown get the largest size; smaller tuples are padded with zeros (or ""). */
mr_status *mr_tuple_stack(const mr_tuple_type *t, mr_run *r, mr_tensor *const *tuples,
                          int64_t count);

#endif
