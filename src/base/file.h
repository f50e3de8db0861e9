/* base/file.h -- files: whole reads, random reads, and writes that appear whole or not at all.
 *
 * Paths are local; a leading "file://" is dropped.  errno becomes a status whose message names the
 * path: ENOENT NOT_FOUND, ENOSPC RESOURCE_EXHAUSTED, EACCES PERMISSION_DENIED, EEXIST ALREADY_EXISTS;
 * the others go where TensorFlow puts them. */
#ifndef MR_BASE_FILE_H
#define MR_BASE_FILE_H

#include <stdint.h>

#include "base/str.h"

mr_code mr_errno_code(int err);
mr_status *mr_errno_status(int err, const char *what, const char *path); /* "what PATH: strerror" */

const char *mr_path_local(const char *path); /* without "file://"; points into path */
/* Appends the contents to out.  Pipes and terminals are read until their end (see mr_source); a device
 * or pipe that has no end is RESOURCE_EXHAUSTED, and so is a file larger than the machine's memory. */
mr_status *mr_file_read_all(const char *path, mr_str *out);
bool mr_file_exists(const char *path);
bool mr_dir_exists(const char *path);
mr_status *mr_file_size(const char *path, uint64_t *out);
mr_status *mr_file_remove(const char *path);
mr_status *mr_file_rename(const char *from, const char *to); /* replaces `to`, syncs its directory */
mr_status *mr_dir_make(const char *path);                    /* with parents; an existing one is no error */
mr_status *mr_dir_remove(const char *path);                  /* empty ones */
mr_status *mr_dir_sync(const char *path);                    /* its entries survive a power cut */
/* Calls fn for each entry but . and .., in no order; a non-NULL status ends the walk. */
mr_status *mr_dir_each(const char *path, mr_status *(*fn)(void *ctx, const char *name), void *ctx);
mr_sv mr_path_dirname(const char *path);  /* never ".": "" if there is no slash */
mr_sv mr_path_basename(const char *path);

/* Lets this thread's waits be cancelled. Reading or writing a pipe or a terminal waits for another process; while it
 * waits, it calls `asked` several times a second, and returns CANCELLED once that returns true. */
typedef struct mr_stop {
    bool (*asked)(const void *arg); /* NULL: nothing ends them */
    const void *arg;
} mr_stop;
mr_stop mr_stop_swap(mr_stop s); /* for this thread; returns the previous one */

/* Reading in order.  Opening never waits.  A FIFO is read from its first writer to the last one's close, as a
 * blocking read would do, but every wait can be ended by mr_stop. */
typedef struct mr_source {
    const char *path; /* borrowed */
    int fd;
    bool waits;        /* not a regular file: poll before reading */
    uint64_t most;     /* bytes that one result made of it (a line, the whole) may have */
    uint64_t at_least; /* bytes it has, as far as is known */
} mr_source;
mr_status *mr_source_open(const char *path, mr_source *out);
mr_status *mr_source_read(mr_source *s, void *to, size_t n, size_t *got); /* what is available now; 0 bytes: the end */
mr_status *mr_source_check_size(const mr_source *s, uint64_t bytes);      /* RESOURCE_EXHAUSTED beyond `most` */
void mr_source_close(mr_source *s);
/* Waits until poll(2) reports one of these events, or an error, of fd; -1: for a moment.  CANCELLED by mr_stop. */
mr_status *mr_fd_wait(int fd, short events, const char *what, const char *path);

/* Random access; FIFOs, sockets and character devices that cannot seek are refused. */
typedef struct mr_file mr_file;
mr_status *mr_file_open(const char *path, mr_file **out);
void mr_file_close(mr_file *f); /* NULL is fine */
uint64_t mr_file_bytes(const mr_file *f);
const char *mr_file_path(const mr_file *f);
/* All n bytes or OUT_OF_RANGE. */
mr_status *mr_file_read_at(mr_file *f, uint64_t offset, size_t n, void *out);
/* The bytes of a file where the system has them, read-only, for as long as they are mapped: a write to the file may show,
 * and one that shortens it kills whoever reads what is gone. An empty file gives NULL. */
mr_status *mr_file_map(const char *path, void **data, size_t *n);
void mr_file_unmap(void *data, size_t n); /* NULL is fine */

/* Writing. Bytes go to PATH.tempstateN; mr_writer_commit syncs and renames to PATH; mr_writer_free without commit
 * removes the temporary file. If PATH is a FIFO or a device, the bytes are written directly to it. A writer keeps its
 * first error and returns it from every later call, so checking commit is enough. Writes are buffered in 256 KiB. */
typedef struct mr_writer mr_writer;
mr_status *mr_writer_open(const char *path, mr_writer **out);
/* Appends to an existing or new file in place (logs, records): no temporary name, commit only syncs
 * and may be called again; mr_writer_free tries to write what is buffered. */
mr_status *mr_writer_open_append(const char *path, mr_writer **out);
mr_status *mr_writer_write(mr_writer *w, const void *p, size_t n);
mr_status *mr_writer_flush(mr_writer *w); /* passes what is buffered to the system */
uint64_t mr_writer_offset(const mr_writer *w); /* of the next byte, from the file's beginning */
mr_status *mr_writer_commit(mr_writer *w);
void mr_writer_free(mr_writer *w); /* NULL is fine */

/* The whole of a file, which appears whole or not at all. */
mr_status *mr_file_write_all(const char *path, mr_sv bytes);

/* Tests: writes, syncs and renames, in all threads, fail with this errno once n bytes were written (a sync or rename
 * counts as one) until it is switched off (err 0). EINTR occurs only once. */
void mr_file_fail_after(int64_t n_bytes, int err);

#endif
