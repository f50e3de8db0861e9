/* store/bundle.h -- checkpoints: TensorFlow's TensorBundle (V2), to the byte.
 *
 * A bundle with prefix P is an index P.index (a sorted table) and data files P.data-?????-of-?????. Writing goes to
 * temporary names; data files are synced and renamed first, the index last, so a bundle whose index exists is
 * complete. */
#ifndef MR_STORE_BUNDLE_H
#define MR_STORE_BUNDLE_H

#include "store/slice.h"

/* ---- writing ---- */
typedef struct mr_bundle_writer mr_bundle_writer;
mr_status *mr_bundle_writer_new(const char *prefix, mr_bundle_writer **out);
/* INVALID_ARGUMENT for a duplicate name or a type that cannot be saved. */
mr_status *mr_bundle_add(mr_bundle_writer *w, mr_sv name, const mr_tensor *t);
/* t is the part `slice` of a tensor of the full shape. */
mr_status *mr_bundle_add_slice(mr_bundle_writer *w, mr_sv name, const mr_shape *full, const mr_slice *slice,
                               const mr_tensor *t);
mr_status *mr_bundle_finish(mr_bundle_writer *w);
void mr_bundle_writer_free(mr_bundle_writer *w); /* if unfinished, leaves no files behind */

/* Makes one bundle of several; the parts' data files are renamed, their indexes removed. */
mr_status *mr_bundle_merge(const char *const *prefixes, int n, const char *prefix);

/* ---- reading ---- */
typedef struct mr_bundle mr_bundle;
typedef struct mr_bundle_entry {
    mr_dtype dtype;
    int shard;
    uint64_t offset, size;
    uint32_t crc; /* masked */
    int n_slices; /* 0: stored whole */
    mr_shape shape;
} mr_bundle_entry;

/* NOT_FOUND "Unsuccessful TensorSliceReader constructor: Failed to find any matching files for P". */
mr_status *mr_bundle_open(const char *prefix, mr_bundle **out);
void mr_bundle_close(mr_bundle *b);
int mr_bundle_count(const mr_bundle *b);          /* tensors; the header and slice entries do not count */
mr_sv mr_bundle_name(const mr_bundle *b, int i);  /* ascending */
/* NOT_FOUND "Key N not found in checkpoint". */
mr_status *mr_bundle_lookup(const mr_bundle *b, mr_sv name, mr_bundle_entry *out);
/* The whole tensor, assembled from its parts if it was saved in slices. */
mr_status *mr_bundle_read(mr_bundle *b, mr_sv name, mr_allocator *a, mr_tensor **out);
mr_status *mr_bundle_read_slice(mr_bundle *b, mr_sv name, const mr_slice *slice, mr_allocator *a, mr_tensor **out);
bool mr_bundle_exists(const char *prefix);

#endif
