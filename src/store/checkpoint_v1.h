/* store/checkpoint_v1.h -- checkpoints of the first format: one sorted table a file.
 *
 * The entry "" lists the tensors with type, shape and parts (SavedTensorSlices.meta); each part has an
 * entry of its own whose key is mr_slice_key and whose value holds the numbers as fields of a
 * TensorProto without type and shape.  The parts of one tensor may lie in several files, which are named
 * by a pattern.  docs/formats/checkpoint_v1.md. */
#ifndef MR_STORE_CHECKPOINT_V1_H
#define MR_STORE_CHECKPOINT_V1_H

#include "store/slice.h"

/* ---- writing ---- */
typedef struct mr_v1_writer mr_v1_writer;
mr_status *mr_v1_writer_new(const char *path, mr_v1_writer **out);
/* t is the part `slice` of a tensor of the full shape.  INVALID_ARGUMENT when the name came before with
 * another type or shape, or a part that overlaps; UNIMPLEMENTED for a type that is not saved. */
mr_status *mr_v1_add(mr_v1_writer *w, mr_sv name, const mr_shape *full, const mr_slice *slice,
                     const mr_tensor *t);
mr_status *mr_v1_finish(mr_v1_writer *w);
void mr_v1_writer_free(mr_v1_writer *w); /* unfinished: nothing is left behind; NULL is fine */

/* ---- reading ---- */
typedef struct mr_v1_reader mr_v1_reader;
/* NOT_FOUND "Unsuccessful TensorSliceReader constructor: Failed to find any matching files for P". */
mr_status *mr_v1_open(mr_sv pattern, mr_v1_reader **out);
/* One file, from its bytes; `name` stands in error texts. */
mr_status *mr_v1_of_bytes(mr_sv bytes, const char *name, mr_v1_reader **out);
void mr_v1_close(mr_v1_reader *r); /* NULL is fine */
int mr_v1_count(const mr_v1_reader *r);
mr_sv mr_v1_name(const mr_v1_reader *r, int i); /* in no order */
/* false when there is no such tensor. */
bool mr_v1_lookup(const mr_v1_reader *r, mr_sv name, mr_dtype *dtype, const mr_shape **shape);
/* Whether a tensor lies in parts, and how many bytes the entries of its parts have.  NOT_FOUND, DATA_LOSS. */
mr_status *mr_v1_stored(const mr_v1_reader *r, mr_sv name, bool *in_slices, uint64_t *bytes);
/* The part of a tensor, or all of it (NULL); put together from parts where it was saved so. */
mr_status *mr_v1_read(mr_v1_reader *r, mr_sv name, const mr_slice *slice, mr_allocator *a,
                      mr_tensor **out);

#endif
