/* store/checkpoint_v1.h -- checkpoints of the first format: each file is one sorted table.
 *
 * The entry "" lists the tensors with type, shape and parts (SavedTensorSlices.meta); each part has an separate entry
 * whose key is mr_slice_key and whose value holds the numbers as fields of a TensorProto without type and shape. The
 * parts of one tensor may be in several files, which are named by a pattern. docs/formats/checkpoint_v1.md. */
#ifndef MR_STORE_CHECKPOINT_V1_H
#define MR_STORE_CHECKPOINT_V1_H

#include "store/slice.h"

/* ---- writing ---- */
typedef struct mr_v1_writer mr_v1_writer;
mr_status *mr_v1_writer_new(const char *path, mr_v1_writer **out);
/* t is the part `slice` of a tensor of the full shape. INVALID_ARGUMENT if an earlier part of that name has another
 * type or shape, or overlaps; UNIMPLEMENTED for a type that cannot be saved. */
mr_status *mr_v1_add(mr_v1_writer *w, mr_sv name, const mr_shape *full, const mr_slice *slice,
                     const mr_tensor *t);
mr_status *mr_v1_finish(mr_v1_writer *w);
void mr_v1_writer_free(mr_v1_writer *w); /* if unfinished, leaves no file behind; accepts NULL */

/* ---- reading ---- */
typedef struct mr_v1_reader mr_v1_reader;
/* NOT_FOUND "Unsuccessful TensorSliceReader constructor: Failed to find any matching files for P". */
mr_status *mr_v1_open(mr_sv pattern, mr_v1_reader **out);
/* One file, from its bytes; error messages call it `name`. */
mr_status *mr_v1_of_bytes(mr_sv bytes, const char *name, mr_v1_reader **out);
void mr_v1_close(mr_v1_reader *r); /* accepts NULL */
int mr_v1_count(const mr_v1_reader *r);
mr_sv mr_v1_name(const mr_v1_reader *r, int i); /* in no order */
/* false when there is no such tensor. */
bool mr_v1_lookup(const mr_v1_reader *r, mr_sv name, mr_dtype *dtype, const mr_shape **shape);
/* Whether a tensor is stored in parts, and the total size of their entries.  NOT_FOUND, DATA_LOSS. */
mr_status *mr_v1_stored(const mr_v1_reader *r, mr_sv name, bool *in_slices, uint64_t *bytes);
/* A part of a tensor, or all of it (NULL), assembled from the stored parts. */
mr_status *mr_v1_read(mr_v1_reader *r, mr_sv name, const mr_slice *slice, mr_allocator *a,
                      mr_tensor **out);

#endif
