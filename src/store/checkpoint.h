/* store/checkpoint.h -- a checkpoint of either format, for inspection and reading.
 *
 * If PATH.index exists, it is a bundle with that prefix (bundle.h); otherwise PATH is a pattern of files of the first
 * format (checkpoint_v1.h), as TensorFlow decides. */
#ifndef MR_STORE_CHECKPOINT_H
#define MR_STORE_CHECKPOINT_H

#include "tensor/tensor.h"

typedef struct mr_checkpoint mr_checkpoint;
typedef struct mr_checkpoint_entry {
    mr_dtype dtype;
    bool in_slices;
    uint64_t bytes; /* as stored */
    mr_shape shape;
} mr_checkpoint_entry;

/* NOT_FOUND "Unsuccessful TensorSliceReader constructor: Failed to find any matching files for PATH". */
mr_status *mr_checkpoint_open(const char *path, mr_checkpoint **out);
void mr_checkpoint_close(mr_checkpoint *c); /* accepts NULL */
int mr_checkpoint_count(const mr_checkpoint *c);
mr_sv mr_checkpoint_name(const mr_checkpoint *c, int i); /* ascending */
/* NOT_FOUND when there is no such tensor. */
mr_status *mr_checkpoint_lookup(const mr_checkpoint *c, mr_sv name, mr_checkpoint_entry *out);
/* The whole tensor, assembled from its parts if it was saved in slices. */
mr_status *mr_checkpoint_read(mr_checkpoint *c, mr_sv name, mr_allocator *a, mr_tensor **out);

#endif
