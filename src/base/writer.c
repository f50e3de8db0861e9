/* base/writer.c -- writes files that appear completely or not at all.
 *
 * A new file is written under a temporary name in the same directory, synced, renamed to its own
 * name, and then the directory is synced: after a crash at any time, the name refers either to the
 * old bytes or to all of the new ones. Everything that changes the disk goes through do_write,
 * do_sync and do_rename, which is where tests make it fail. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"

#define BUFFER_BYTES ((size_t)256 << 10)

struct mr_writer {
    int fd;     /* -1 once a new file is committed */
    char *path; /* as the caller gave it */
    char *temp; /* local; NULL: writing in place */
    char *buf;
    size_t buf_n;
    uint64_t offset;   /* of the next byte, including those in buf */
    bool dir_synced;   /* in place: the file's name is known to survive */
    mr_status *failed; /* the first error; a copy of it answers every later call */
};

/* ---- failures on order ---- */

static _Atomic int fail_err; /* 0: off */
static _Atomic int64_t fail_left;

void mr_file_fail_after(int64_t n_bytes, int err)
{
    atomic_store(&fail_err, 0);
    atomic_store(&fail_left, n_bytes);
    atomic_store(&fail_err, err);
}

/* How many of n bytes may still be written before the injected failure; 0 with errno set when it is due. */
static size_t allowed_bytes(size_t n)
{
    int err = atomic_load(&fail_err);
    if (MR_LIKELY(err == 0))
        return n;
    int64_t left = atomic_load(&fail_left);
    if (left <= 0) {
        if (err == EINTR)
            atomic_store(&fail_err, 0);
        errno = err;
        return 0;
    }
    size_t granted = MR_MIN(n, (size_t)left);
    atomic_fetch_sub(&fail_left, (int64_t)granted);
    return granted;
}

/* The three calls below continue after a signal, so that callers need not handle EINTR. */
static ssize_t do_write(int fd, const char *p, size_t n)
{
    ssize_t done;
    do {
        size_t granted = allowed_bytes(n);
        done = granted ? write(fd, p, granted) : -1;
    } while (done < 0 && errno == EINTR);
    return done;
}

/* The same for a pipe: if it has no reader, the result is EPIPE without a SIGPIPE, which would end the process. A
 * SIGPIPE that was pending before is left alone. */
static ssize_t do_write_pipe(int fd, const char *p, size_t n)
{
    sigset_t only, before, pending;
    sigemptyset(&only);
    sigaddset(&only, SIGPIPE);
    sigemptyset(&pending);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &only, &before);
    ssize_t done = do_write(fd, p, n);
    int err = errno;
    if (done < 0 && err == EPIPE && !sigismember(&pending, SIGPIPE))
        while (sigtimedwait(&only, NULL, &(struct timespec){0, 0}) < 0 && errno == EINTR)
            ;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = err;
    return done;
}

static int do_sync(int fd)
{
    int rc;
    do
        rc = allowed_bytes(1) ? fsync(fd) : -1;
    while (rc != 0 && errno == EINTR);
    return rc;
}

static int do_rename(const char *from, const char *to)
{
    int rc;
    do
        rc = allowed_bytes(1) ? rename(from, to) : -1;
    while (rc != 0 && errno == EINTR);
    return rc;
}

/* ---- directories ---- */

mr_status *mr_dir_sync(const char *path)
{
    int fd = open(mr_path_local(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) /* one may write into a directory that one may not read: nothing to be done */
        return errno == EACCES ? NULL : mr_errno_status(errno, "open directory", path);
    int err = do_sync(fd) == 0 ? 0 : errno;
    close(fd);
    if (err == EINVAL || err == EOPNOTSUPP) /* file systems without such a thing */
        err = 0;
    return err ? mr_errno_status(err, "sync directory", path) : NULL;
}

static mr_status *sync_dir_of(const char *path)
{
    mr_sv dir = mr_path_dirname(mr_path_local(path));
    char *z = dir.n ? mr_strndup(dir.p, dir.n) : mr_strdup(".");
    mr_status *st = mr_dir_sync(z);
    mr_free(z);
    return st;
}

mr_status *mr_file_rename(const char *from, const char *to)
{
    if (do_rename(mr_path_local(from), mr_path_local(to)) != 0)
        return mr_status_append(mr_errno_status(errno, "rename", from), " (to %s)", to);
    return sync_dir_of(to);
}

/* ---- the writer ---- */

/* Opens for writing without waiting in the kernel.  A FIFO without a reader is ENXIO, and a file on which another
 * process has a lease is EWOULDBLOCK; both are tried again until they can be opened or mr_stop ends the wait. */
static mr_status *open_to_write(const char *path, int flags, const char *what, int *fd)
{
    for (;;) {
        *fd = open(mr_path_local(path), flags | O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
        if (*fd >= 0)
            return NULL;
        struct stat info;
        int err = errno;
        if (err == EWOULDBLOCK || (err == ENXIO && stat(mr_path_local(path), &info) == 0 && S_ISFIFO(info.st_mode)))
            MR_TRY(mr_fd_wait(-1, 0, what, path));
        else if (err != EINTR)
            return mr_errno_status(err, what, path);
    }
}

/* Whether it is a FIFO or a device: bytes are then written directly to it. */
static bool is_special(const char *path)
{
    struct stat info;
    return stat(mr_path_local(path), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

/* Takes over fd and temp. */
static mr_status *make_writer(const char *path, int fd, char *temp, mr_writer **out)
{
    char *buf = mr_try_alloc(BUFFER_BYTES);
    if (!buf) {
        close(fd);
        if (temp)
            unlink(temp);
        mr_free(temp);
        return mr_error(MR_RESOURCE_EXHAUSTED, "write %s: no memory for a buffer", path);
    }
    mr_writer *w = mr_new(mr_writer);
    *w = (mr_writer){.fd = fd, .path = mr_strdup(path), .temp = temp, .buf = buf};
    *out = w;
    return NULL;
}

mr_status *mr_writer_open(const char *path, mr_writer **out)
{
    int fd;
    if (is_special(path)) {
        MR_TRY(open_to_write(path, 0, "write", &fd));
        return make_writer(path, fd, NULL, out);
    }
    for (;;) {
        char *temp = mr_printf("%s.tempstate%llu", mr_path_local(path), (unsigned long long)mr_random64());
        fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0)
            return make_writer(path, fd, temp, out);
        int err = errno;
        mr_free(temp);
        if (err != EEXIST && err != EINTR)
            return mr_errno_status(err, "write", path);
    }
}

mr_status *mr_writer_open_append(const char *path, mr_writer **out)
{
    int fd;
    MR_TRY(open_to_write(path, O_APPEND | O_CREAT, "append to", &fd));
    off_t end = lseek(fd, 0, SEEK_END);
    MR_TRY(make_writer(path, fd, NULL, out));
    (*out)->offset = end < 0 ? 0 : (uint64_t)end; /* a pipe has no offset */
    return NULL;
}

/* Remembers the first error and hands a copy to the caller. */
static mr_status *fail_writer(mr_writer *w, mr_status *st)
{
    MR_ASSERT(st && !w->failed);
    w->failed = st;
    return mr_status_copy(st);
}

static mr_status *fail_errno(mr_writer *w, const char *what)
{
    return fail_writer(w, mr_errno_status(errno, what, w->path));
}

/* All of it, however many calls that takes; a full pipe is waited for. */
static mr_status *write_out(mr_writer *w, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t done = w->temp ? do_write(w->fd, p, n) : do_write_pipe(w->fd, p, n);
        if (done < 0 && errno == EAGAIN) {
            mr_status *st = mr_fd_wait(w->fd, POLLOUT, "write", w->path);
            if (st)
                return fail_writer(w, st);
            continue;
        }
        if (done < 0)
            return fail_errno(w, "write");
        p += done;
        n -= (size_t)done;
    }
    return NULL;
}

/* NULL when the writer can go on. */
static mr_status *check_usable(const mr_writer *w)
{
    if (w->failed)
        return mr_status_copy(w->failed);
    if (w->fd < 0)
        return mr_error(MR_FAILED_PRECONDITION, "write %s: already committed", w->path);
    return NULL;
}

mr_status *mr_writer_flush(mr_writer *w)
{
    MR_TRY(check_usable(w));
    MR_TRY(write_out(w, w->buf, w->buf_n));
    w->buf_n = 0;
    return NULL;
}

mr_status *mr_writer_write(mr_writer *w, const void *p, size_t n)
{
    MR_TRY(check_usable(w));
    MR_ASSERT(w->buf_n <= BUFFER_BYTES && w->buf_n <= w->offset);
    if (n > BUFFER_BYTES - w->buf_n)
        MR_TRY(mr_writer_flush(w));
    if (n >= BUFFER_BYTES) { /* large pieces need no copy */
        MR_TRY(write_out(w, p, n));
    } else if (n) {
        memcpy(w->buf + w->buf_n, p, n);
        w->buf_n += n;
    }
    w->offset += n;
    return NULL;
}

uint64_t mr_writer_offset(const mr_writer *w) { return w->offset; }

static mr_status *sync_file(mr_writer *w)
{
    if (do_sync(w->fd) == 0 || errno == EINVAL || errno == EROFS) /* a pipe or device cannot */
        return NULL;
    return fail_errno(w, "sync");
}

/* Gives the temporary file its name. After the rename the file is not removed any more, even if
 * syncing the directory fails and the caller gets an error. */
static mr_status *publish_file(mr_writer *w)
{
    MR_ASSERT(w->buf_n == 0 && w->fd >= 0);
    int fd = w->fd;
    w->fd = -1;
    if (close(fd) != 0 && errno != EINTR)
        return fail_errno(w, "close");
    if (do_rename(w->temp, mr_path_local(w->path)) != 0)
        return fail_errno(w, "rename to");
    mr_free(w->temp);
    w->temp = NULL;
    mr_status *st = sync_dir_of(w->path);
    return st ? fail_writer(w, st) : NULL;
}

mr_status *mr_writer_commit(mr_writer *w)
{
    MR_TRY(mr_writer_flush(w));
    MR_TRY(sync_file(w));
    if (w->temp)
        return publish_file(w);
    if (!w->dir_synced) {
        mr_status *st = sync_dir_of(w->path);
        if (st)
            return fail_writer(w, st);
        w->dir_synced = true;
    }
    return NULL;
}

/* A temporary file that was not committed is removed. For a file that is appended to, the buffer is written; an error
 * is ignored here. */
void mr_writer_free(mr_writer *w)
{
    if (!w)
        return;
    if (!w->temp && w->fd >= 0)
        mr_status_free(mr_writer_flush(w));
    if (w->fd >= 0)
        close(w->fd);
    if (w->temp)
        unlink(w->temp);
    mr_status_free(w->failed);
    mr_free(w->temp);
    mr_free(w->path);
    mr_free(w->buf);
    mr_free(w);
}

mr_status *mr_file_write_all(const char *path, mr_sv bytes)
{
    mr_writer *w;
    MR_TRY(mr_writer_open(path, &w));
    mr_status *st = mr_writer_write(w, bytes.p, bytes.n);
    if (!st)
        st = mr_writer_commit(w);
    mr_writer_free(w);
    return st;
}
