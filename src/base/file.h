/* base/file.h -- files: whole reads, random reads, and writes that appear whole or not at all.
 *
 * Paths are local; a leading "file://" is dropped.  errno becomes a status whose message names the
 * path: ENOENT NOT_FOUND, ENOSPC RESOURCE_EXHAUSTED, EACCES PERMISSION_DENIED, EEXIST ALREADY_EXISTS,
 * others UNKNOWN or UNAVAILABLE. */
#ifndef MR_BASE_FILE_H
#define MR_BASE_FILE_H

#include <stdint.h>

#include "base/str.h"

mr_status *mr_errno_status(int err, const char *what, const char *path); /* "what PATH: strerror" */

mr_status *mr_file_read_all(const char *path, mr_str *out); /* appended to out */
bool mr_file_exists(const char *path);
bool mr_dir_exists(const char *path);
mr_status *mr_file_size(const char *path, uint64_t *out);
mr_status *mr_file_remove(const char *path);
mr_status *mr_file_rename(const char *from, const char *to); /* replaces `to`, syncs its directory */
mr_status *mr_dir_make(const char *path);                    /* with parents; existing is fine */
mr_status *mr_dir_remove(const char *path);                  /* empty ones */
/* Calls fn for each entry but . and .., in no order; a non-NULL status ends the walk. */
mr_status *mr_dir_each(const char *path, mr_status *(*fn)(void *ctx, const char *name), void *ctx);
mr_sv mr_path_dirname(const char *path);  /* "." never: "" when there is no slash */
mr_sv mr_path_basename(const char *path);

/* Random access. */
typedef struct mr_file mr_file;
mr_status *mr_file_open(const char *path, mr_file **out);
void mr_file_close(mr_file *f); /* NULL is fine */
uint64_t mr_file_bytes(const mr_file *f);
const char *mr_file_path(const mr_file *f);
/* All n bytes or OUT_OF_RANGE. */
mr_status *mr_file_read_at(mr_file *f, uint64_t offset, size_t n, void *out);

/* Writing.  Bytes go to PATH.tempstateN; mr_writer_commit syncs and renames to PATH; mr_writer_free
 * without commit removes the temporary file. */
typedef struct mr_writer mr_writer;
mr_status *mr_writer_open(const char *path, mr_writer **out);
/* Appends to an existing or new file in place (logs, records): no temporary name, commit only syncs. */
mr_status *mr_writer_open_append(const char *path, mr_writer **out);
mr_status *mr_writer_write(mr_writer *w, const void *p, size_t n);
mr_status *mr_writer_flush(mr_writer *w);
uint64_t mr_writer_offset(const mr_writer *w);
mr_status *mr_writer_commit(mr_writer *w);
void mr_writer_free(mr_writer *w);

/* Tests: the next write, sync or rename after n bytes (or calls) fails with this errno (0: off). */
void mr_file_fail_after(int64_t n_bytes, int err);

#endif
