/* ops/list/list.h -- lists of tensors that are passed as variants.
 *
 * A list is a value: an op that changes one creates another, which shares the elements. If nobody else holds the
 * input list, it is changed in place (mr_list_take), so that a loop that appends does not copy it. An element may
 * be missing (NULL): it was reserved but never set, and reads as zeros. Its shape is the list's element shape;
 * unknown sizes there come from the elements that are set. */
#ifndef MR_OPS_LIST_LIST_H
#define MR_OPS_LIST_LIST_H

#include "graph/grad.h"
#include "graph/infer.h"
#include "run/run.h"

typedef struct mr_list {
    mr_object base;
    mr_dtype dtype;
    mr_pshape *shape; /* shape of all elements, as far as known; owned */
    int max;          /* maximum number of elements; -1: no limit */
    MR_VEC(mr_tensor *) e;
} mr_list;

extern const mr_object_type mr_list_type;
enum { MR_LIST_MAX = 1 << 26 };

mr_list *mr_list_new(mr_dtype dtype, const mr_pshape *shape, int max);
/* Element i of variant input `in` as a list; INVALID_ARGUMENT when it is something else.  Borrowed. */
mr_status *mr_list_in_at(const mr_run *r, int in, int64_t i, const mr_list **out);
/* Input `in`, which must be one variant, with elements of this type (MR_INVALID: any). */
mr_status *mr_list_in(const mr_run *r, int in, mr_dtype type, const mr_list **out);
/* The same for changing it: the input's own list if nobody else holds it, else a copy. The caller owns it. */
mr_status *mr_list_take(mr_run *r, int in, mr_dtype type, mr_list **out);
/* Sets output i to this list; takes ownership of the reference. */
mr_status *mr_list_give(mr_run *r, int i, mr_list *l);
/* Changes the length to n: adds missing elements at the end, or drops some. RESOURCE_EXHAUSTED. */
mr_status *mr_list_resize(mr_list *l, int64_t n);
/* Appends, or sets an existing element; takes a reference to the tensor. INVALID_ARGUMENT when it does not fit. */
mr_status *mr_list_push(mr_list *l, mr_tensor *t);
mr_status *mr_list_set(mr_list *l, int64_t i, mr_tensor *t);
mr_status *mr_list_check_value(const mr_list *l, const mr_tensor *t);
bool mr_list_fits(const mr_list *l, int rank, const int64_t *dims); /* true if a tensor of that shape may be an
                                                                     * element */

/* An input that gives a shape: a vector with -1 for unknown sizes, or the scalar -1. Release it with mr_free. */
mr_status *mr_list_shape_in(const mr_run *r, int in, mr_pshape **out);
/* The list's element shape merged with another one. Release it with mr_free. */
mr_status *mr_list_merge_shape(const mr_pshape *a, const mr_pshape *b, mr_pshape **out);
/* Merges the dimensions of t from `from` on into *shape, which is owned. */
mr_status *mr_list_refine_shape(const mr_tensor *t, int from, mr_pshape **shape);
mr_pshape *mr_list_copy_shape(const mr_pshape *s);
/* Reads an element: a reference to it, or zeros of the shape, which must be known then. */
mr_status *mr_list_read(mr_run *r, const mr_list *l, int64_t i, const mr_pshape *shape, mr_tensor **out);

/* ---- shape functions (list_shape.c) and helpers of gradients ---- */
mr_status *mr_list_shape_new(mr_infer *c);      /* EmptyTensorList, TensorListReserve: element_shape is input 0 */
mr_status *mr_list_shape_same(mr_infer *c);     /* output 0 is a list like input 0 */
mr_status *mr_list_shape_push(mr_infer *c);     /* ... and the last input fits in it */
mr_status *mr_list_shape_pop(mr_infer *c);
mr_status *mr_list_shape_get(mr_infer *c);
mr_status *mr_list_shape_set(mr_infer *c);
mr_status *mr_list_shape_stack(mr_infer *c);
mr_status *mr_list_shape_gather(mr_infer *c);
mr_status *mr_list_shape_concat(mr_infer *c);
mr_status *mr_list_shape_concat_v2(mr_infer *c);
mr_status *mr_list_shape_split(mr_infer *c);
mr_status *mr_list_shape_from_tensor(mr_infer *c);
mr_status *mr_list_shape_scatter(mr_infer *c);
mr_status *mr_list_shape_scatter_into(mr_infer *c);
mr_status *mr_list_shape_join(mr_infer *c);
mr_status *mr_list_shape_batch(mr_infer *c);
mr_status *mr_list_shape_element(mr_infer *c);

/* The int32 shape of v without its first dimension. */
mr_out mr_list_rest_shape(mr_grad *g, mr_out v);

#endif
