/* ops/data/stack.h -- collects elements, and stacks them to batches. */
#ifndef MR_OPS_DATA_STACK_H
#define MR_OPS_DATA_STACK_H

#include "ops/data/dataset.h"

/* Elements in order, owned. */
typedef struct mr_gathered {
    mr_tensor **p; /* n rows of `width` tensors */
    int64_t n, cap;
    int width; /* number of tensors of an element */
} mr_gathered;
static inline mr_tensor **mr_gathered_at(const mr_gathered *e, int64_t i) { return e->p + i * e->width; }
void mr_gathered_deinit(mr_gathered *e);
void mr_gathered_drop(mr_gathered *e, int64_t n); /* the first n */
/* Takes ownership of the tensors of one element, also on failure. */
mr_status *mr_gathered_push(mr_gathered *e, mr_tensor *const *t);
/* Reads from an iterator until there are `most` elements or it ends. e->width must be set. */
mr_status *mr_gathered_fill(mr_gathered *e, mr_iterator *from, int64_t most, bool *end);

/* Makes room for at least `rows` more elements, whose tensors are NULL; the caller adds to e->n. */
mr_status *mr_gathered_reserve(mr_gathered *e, int64_t rows);

/* Stacks component i of elements first, first + step .. (n of them) along a new first dimension. */
mr_status *mr_gathered_stack(const mr_gathered *e, int i, int64_t first, int64_t n, int64_t step, mr_tensor **out);
/* The same of all elements, which are dropped afterwards: strings that nobody else has are moved. */
mr_status *mr_gathered_stack_last(const mr_gathered *e, int i, mr_tensor **out);
/* The same with each element padded to shape: a dimension of -1 is as large as the largest of them. */
mr_status *mr_gathered_stack_padded(const mr_gathered *e, int i, const mr_pshape *shape, const mr_tensor *padding,
                                    mr_tensor **out);
/* A dataset of these elements, of which it takes ownership; types and shapes are those of `like`. */
mr_dataset *mr_gathered_dataset(const mr_dataset *like, mr_gathered *e);
/* Shapes of batches of n (-1: unknown) elements of d. */
const mr_pshape *const *mr_batch_shapes(mr_arena *a, const mr_dataset *d, int64_t n);

#endif
