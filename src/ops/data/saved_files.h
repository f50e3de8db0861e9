/* ops/data/saved_files.h -- the files of a saved dataset, as TensorFlow lays them out.
 *
 *     PATH/snapshot.metadata                      a SnapshotMetadataRecord: which run is the one to read
 *     PATH/RUN/00000000.shard/00000000.snapshot   TFRecords: a TensorProto for each tensor of each element
 *
 * RUN is a random number, so that a previously saved dataset stays complete until the new metadata file replaces
 * the old one, which is written last. A shard may have further files, 00000001.snapshot and so on; we write one. */
#ifndef MR_OPS_DATA_SAVED_FILES_H
#define MR_OPS_DATA_SAVED_FILES_H

#include "base/vec.h"
#include "store/record.h"
#include "tensor/tensor.h"

enum { MR_SAVED_VERSION = 2, MR_SAVED_MAX_SHARDS = 1024 };

typedef struct mr_saved_meta {
    char *run; /* owned */
    int64_t created_us, version, n_elements;
    bool finished;
} mr_saved_meta;
/* NOT_FOUND "Could not find metadata file [PATH]", DATA_LOSS. */
mr_status *mr_saved_meta_read(const char *path, mr_saved_meta *out);

/* ---- writing ---- */
typedef struct mr_saved_writer mr_saved_writer;
/* Elements of n tensors of these types, which are borrowed. */
mr_status *mr_saved_writer_new(const char *path, mr_compression c, int n, const int *types, mr_saved_writer **out);
/* RESOURCE_EXHAUSTED for too many shards, because each is an open file. */
mr_status *mr_saved_add(mr_saved_writer *w, int64_t shard, mr_tensor *const *element);
mr_status *mr_saved_finish(mr_saved_writer *w);
void mr_saved_writer_free(mr_saved_writer *w); /* removes files that were not finished; NULL is fine */

/* ---- reading ---- */
typedef MR_VEC(char *) mr_saved_names;
/* The directories of the shards of a run, in order; the caller owns the names. */
mr_status *mr_saved_shards(const char *path, const char *run, mr_saved_names *out);

typedef struct mr_saved_reader mr_saved_reader;
mr_saved_reader *mr_saved_reader_new(const char *dir, mr_compression c, int n); /* dir, of a shard, is borrowed */
mr_status *mr_saved_read(mr_saved_reader *r, mr_tensor **out, bool *end);
void mr_saved_reader_free(mr_saved_reader *r); /* NULL is fine */

#endif
