/* tensor/buffer.h -- the memory under tensors.  For the files of this folder only. */
#ifndef MR_TENSOR_BUFFER_H
#define MR_TENSOR_BUFFER_H

#include "tensor/tensor.h"

/* Follows the header it was created with, in one block. The header may be dead while views keep the
 * buffer alive; its memory is freed with the buffer. */
struct mr_buffer {
    mr_refs refs;    /* one for each header */
    uint8_t dtype;   /* of the elements, which the buffer owns */
    uint8_t rank;    /* of the first header */
    bool embedded;   /* the data is in the block too, which is then the allocator's */
    mr_allocator *a; /* of the data; NULL: the memory and its elements belong to someone else */
    char *data;
    size_t bytes; /* as given at creation */
    size_t used;  /* by the first header's elements */
    void (*free)(void *data, size_t bytes, void *arg); /* for memory that belongs to someone else */
    void *arg;
};

/* Number of elements and their bytes; INVALID_ARGUMENT for a bad type or shape, RESOURCE_EXHAUSTED
 * when the bytes do not fit in a size_t. */
mr_status *mr_tensor_measure(mr_dtype dtype, int rank, const int64_t *dims, int64_t *n,
                             size_t *bytes);

/* ---- elements.c: arrays of elements, of any type ---- */

/* Copies n elements from any address; dst must contain valid elements. An OFFSET string must be in
 * [lo, hi), the memory that src is part of; otherwise it is read as "". */
mr_status *mr_elements_copy(mr_dtype dtype, void *dst, const void *src, int64_t n, const char *lo,
                            const char *hi);
/* Makes them 0, "" or NULL and frees what they own. */
void mr_elements_clear(mr_dtype dtype, void *p, int64_t n);
/* The text of the string at this address. */
mr_sv mr_element_str(const void *at, const char *lo, const char *hi);
mr_status *mr_element_set_str(TF_TString *dst, mr_sv v);

#endif
