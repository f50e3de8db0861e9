/* base/file.c -- reading files, and walking and changing directories.  Writing is writer.c. */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/memory.h"

/* The error codes that TensorFlow uses for the errors of a file system. */
mr_code mr_errno_code(int err)
{
    switch (err) {
    /* clang-format off */
    case ENOENT: case ENXIO: case ENODEV: case ESRCH:
        return MR_NOT_FOUND;
    case EEXIST: case EALREADY: case EADDRNOTAVAIL:
        return MR_ALREADY_EXISTS;
    case EACCES: case EPERM: case EROFS:
        return MR_PERMISSION_DENIED;
    case ENOSPC: case EDQUOT: case EMFILE: case ENFILE: case EMLINK: case ENOBUFS: case ENOMEM:
    case ENODATA: case ENOSR: case EUSERS:
        return MR_RESOURCE_EXHAUSTED;
    case EINVAL: case ENAMETOOLONG: case E2BIG: case EILSEQ: case ESPIPE: case EFAULT: case EDOM:
    case EDESTADDRREQ: case ENOPROTOOPT: case ENOSTR: case ENOTSOCK: case ENOTTY: case EPROTOTYPE:
        return MR_INVALID_ARGUMENT;
    case ENOTEMPTY: case EISDIR: case ENOTDIR: case EBADF: case EBUSY: case EPIPE: case ETXTBSY:
    case EADDRINUSE: case ECHILD: case EISCONN: case ENOTBLK: case ENOTCONN: case ESHUTDOWN:
        return MR_FAILED_PRECONDITION;
    case EFBIG: case EOVERFLOW: case ERANGE:
        return MR_OUT_OF_RANGE;
    case ENOSYS: case EOPNOTSUPP: case EXDEV: case EAFNOSUPPORT: case EPFNOSUPPORT:
    case EPROTONOSUPPORT: case ESOCKTNOSUPPORT:
        return MR_UNIMPLEMENTED;
    case EAGAIN: case EINTR: case ENOLCK: case ENOLINK: case ECONNREFUSED: case ECONNRESET:
    case ECONNABORTED: case EHOSTDOWN: case EHOSTUNREACH: case ENETDOWN: case ENETUNREACH:
    case ENETRESET: case ENONET:
        return MR_UNAVAILABLE;
    case ETIMEDOUT: case ETIME:
        return MR_DEADLINE_EXCEEDED;
    case ESTALE: case EDEADLK:
        return MR_ABORTED;
    case ECANCELED:
        return MR_CANCELLED;
    default:
        return MR_UNKNOWN;
        /* clang-format on */
    }
}

mr_status *mr_errno_status(int err, const char *what, const char *path)
{
    char buf[128];
    return mr_error(mr_errno_code(err), "%s %s: %s", what, path, strerror_r(err, buf, sizeof(buf)));
}

const char *mr_path_local(const char *path)
{
    return strncmp(path, "file://", 7) == 0 ? path + 7 : path;
}

mr_sv mr_path_dirname(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return (mr_sv){path, 0};
    while (slash > path && slash[-1] == '/')
        slash--;
    return (mr_sv){path, slash == path ? 1 : (size_t)(slash - path)};
}

mr_sv mr_path_basename(const char *path)
{
    const char *slash = strrchr(path, '/');
    return mr_sv_of(slash ? slash + 1 : path);
}

/* ---- waits that can be ended ---- */

enum { ASK_EVERY_MS = 50 };

static _Thread_local mr_stop stop;

mr_stop mr_stop_swap(mr_stop s)
{
    mr_stop before = stop;
    stop = s;
    return before;
}

mr_status *mr_fd_wait(int fd, short events, const char *what, const char *path)
{
    for (;;) {
        if (stop.asked && stop.asked(stop.arg))
            return mr_error(MR_CANCELLED, "%s %s: cancelled while it waited for another process", what, path);
        struct pollfd p = {fd, events, 0};
        int n = poll(&p, fd >= 0, ASK_EVERY_MS);
        if (n > 0 || fd < 0)
            return NULL; /* an error or hang-up is for the read or write that follows */
        if (n < 0 && errno != EINTR)
            return mr_errno_status(errno, what, path);
    }
}

/* ---- reading in order ---- */

/* How large one result may get: the announced size and 1 GiB more, since a log grows while it is read and files of
 * /proc announce 0 bytes.  A device that has not ended after 64 MiB (/dev/zero) counts as endless. */
enum { DEVICE_BYTES = 64 << 20, UNANNOUNCED_BYTES = 1 << 30 };

/* Opens for reading without waiting in the kernel: a FIFO would otherwise block the thread until it has a writer.  A file
 * on which another process has a lease is tried again until that is given up or mr_stop ends the wait.  A directory
 * is refused here, because open(2) would accept it. */
static mr_status *open_to_read(const char *path, int *fd, struct stat *info)
{
    while ((*fd = open(mr_path_local(path), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)) < 0) {
        if (errno == EWOULDBLOCK)
            MR_TRY(mr_fd_wait(-1, 0, "open", path));
        else if (errno != EINTR)
            return mr_errno_status(errno, "open", path);
    }
    int err = fstat(*fd, info) != 0 ? errno : S_ISDIR(info->st_mode) ? EISDIR : 0;
    if (err) {
        close(*fd);
        return mr_errno_status(err, "open", path);
    }
    return NULL;
}

mr_status *mr_source_open(const char *path, mr_source *out)
{
    struct stat info;
    int fd;
    MR_TRY(open_to_read(path, &fd, &info));
    uint64_t announced = info.st_size > 0 ? (uint64_t)info.st_size : 0;
    *out = (mr_source){.path = path,
                       .fd = fd,
                       .waits = !S_ISREG(info.st_mode),
                       .most = S_ISCHR(info.st_mode) ? DEVICE_BYTES : announced + UNANNOUNCED_BYTES,
                       .at_least = announced};
    return NULL;
}

void mr_source_close(mr_source *s)
{
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
}

/* A read from a FIFO without a writer returns 0 bytes, even before the first writer has opened it; poll waits for the
 * writer. Some files that claim to be regular (/proc/kmsg) make the reader wait as well. */
mr_status *mr_source_read(mr_source *s, void *to, size_t n, size_t *got)
{
    for (bool wait = s->waits;; wait = true) {
        if (wait)
            MR_TRY(mr_fd_wait(s->fd, POLLIN, "read", s->path));
        ssize_t r = read(s->fd, to, n);
        if (r >= 0) {
            *got = (size_t)r;
            return NULL;
        }
        if (errno != EINTR && errno != EAGAIN)
            return mr_errno_status(errno, "read", s->path);
    }
}

mr_status *mr_source_check_size(const mr_source *s, uint64_t bytes)
{
    if (bytes <= s->most)
        return NULL;
    return mr_error(MR_RESOURCE_EXHAUSTED, "read %s: it has more than %llu bytes", s->path,
                    (unsigned long long)s->most);
}

/* ---- random access ---- */

struct mr_file {
    int fd;
    uint64_t bytes;
    char *path;
};

mr_status *mr_file_open(const char *path, mr_file **out)
{
    int fd;
    struct stat info;
    MR_TRY(open_to_read(path, &fd, &info));
    if (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode) || (S_ISCHR(info.st_mode) && lseek(fd, 0, SEEK_CUR) < 0)) {
        close(fd);
        return mr_errno_status(ESPIPE, "open", path);
    }
    mr_file *f = mr_new(mr_file);
    f->fd = fd;
    f->bytes = (uint64_t)info.st_size;
    f->path = mr_strdup(path);
    *out = f;
    return NULL;
}

void mr_file_close(mr_file *f)
{
    if (!f)
        return;
    close(f->fd);
    mr_free(f->path);
    mr_free(f);
}

uint64_t mr_file_bytes(const mr_file *f) { return f->bytes; }

const char *mr_file_path(const mr_file *f) { return f->path; }

static mr_status *past_end(const mr_file *f, uint64_t offset, size_t n)
{
    return mr_error(MR_OUT_OF_RANGE, "read %s: %zu bytes at %llu go past the end", f->path, n,
                    (unsigned long long)offset);
}

mr_status *mr_file_read_at(mr_file *f, uint64_t offset, size_t n, void *out)
{
    if (offset > INT64_MAX || n > INT64_MAX - offset)
        return past_end(f, offset, n);
    for (size_t done = 0; done < n;) {
        ssize_t got = pread(f->fd, (char *)out + done, n - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return mr_errno_status(errno, "read", f->path);
        if (got == 0)
            return past_end(f, offset, n);
        done += (size_t)got;
    }
    return NULL;
}

mr_status *mr_file_map(const char *path, void **data, size_t *n)
{
    mr_file *f;
    mr_status *st = NULL;
    *data = NULL;
    *n = 0;
    MR_TRY(mr_file_open(path, &f));
    uint64_t bytes = mr_file_bytes(f);
    if (bytes > SIZE_MAX / 2)
        MR_GO(mr_error(MR_RESOURCE_EXHAUSTED, "map %s: %llu bytes are too many", path, (unsigned long long)bytes));
    if (bytes) {
        void *p = mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, f->fd, 0);
        if (p == MAP_FAILED)
            MR_GO(mr_errno_status(errno, "map", path));
        *data = p;
        *n = (size_t)bytes;
    }
out:
    mr_file_close(f);
    return st;
}

void mr_file_unmap(void *data, size_t n)
{
    if (data)
        munmap(data, n);
}

/* ---- whole files ---- */

/* A sparse file, or one of /proc, can announce any size: refused before it takes all memory there is. */
static mr_status *check_fits(const mr_source *s)
{
    struct sysinfo info;
    if (sysinfo(&info) != 0 || s->at_least / info.mem_unit <= (uint64_t)info.totalram + info.totalswap)
        return NULL;
    return mr_error(MR_RESOURCE_EXHAUSTED, "read %s: %llu bytes are more than this machine's memory", s->path,
                    (unsigned long long)s->at_least);
}

/* Reads to the end in pieces: files of /proc report a size of 0 bytes, and a log may grow while it is read. */
static mr_status *read_to_end(mr_source *s, mr_str *out)
{
    char piece[16384];
    size_t got, all = 0;
    MR_TRY(check_fits(s));
    for (;;) {
        MR_TRY(mr_source_read(s, piece, sizeof(piece), &got));
        if (got == 0)
            return NULL;
        MR_TRY(mr_source_check_size(s, all += got));
        if (!mr_str_try_append(out, piece, got))
            return mr_error(MR_RESOURCE_EXHAUSTED, "read %s: no memory for %zu bytes", s->path, out->n + got);
    }
}

mr_status *mr_file_read_all(const char *path, mr_str *out)
{
    mr_source s;
    MR_TRY(mr_source_open(path, &s));
    size_t before = out->n;
    mr_status *st = read_to_end(&s, out);
    mr_source_close(&s);
    if (st && out->p) { /* all or nothing */
        out->n = before;
        out->p[before] = '\0';
    }
    return st;
}

bool mr_file_exists(const char *path)
{
    struct stat info;
    return stat(mr_path_local(path), &info) == 0;
}

bool mr_dir_exists(const char *path)
{
    struct stat info;
    return stat(mr_path_local(path), &info) == 0 && S_ISDIR(info.st_mode);
}

mr_status *mr_file_size(const char *path, uint64_t *out)
{
    struct stat info;
    if (stat(mr_path_local(path), &info) != 0)
        return mr_errno_status(errno, "stat", path);
    *out = (uint64_t)info.st_size;
    return NULL;
}

mr_status *mr_file_remove(const char *path)
{
    return unlink(mr_path_local(path)) == 0 ? NULL : mr_errno_status(errno, "remove", path);
}

/* ---- directories ---- */

/* Makes one level. A directory that exists already, or that another process makes at the same time, is no error. */
static mr_status *make_one(const char *path)
{
    if (mkdir(path, 0777) == 0)
        return NULL;
    int err = errno;
    if ((err == EEXIST || err == EISDIR || err == EROFS) && mr_dir_exists(path))
        return NULL;
    return mr_errno_status(err == EEXIST ? ENOTDIR : err, "make directory", path);
}

mr_status *mr_dir_make(const char *path)
{
    mr_status *st = NULL;
    char *p = mr_strdup(mr_path_local(path));
    for (char *at = p + 1; p[0] && *at; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        MR_GO(make_one(p));
        *at = '/';
    }
    MR_GO(make_one(p));
out:
    mr_free(p);
    return st;
}

mr_status *mr_dir_remove(const char *path)
{
    return rmdir(mr_path_local(path)) == 0 ? NULL
                                           : mr_errno_status(errno, "remove directory", path);
}

mr_status *mr_dir_each(const char *path, mr_status *(*fn)(void *ctx, const char *name), void *ctx)
{
    DIR *dir = opendir(mr_path_local(path));
    if (!dir)
        return mr_errno_status(errno, "open directory", path);
    mr_status *st = NULL;
    while (!st) {
        errno = 0; /* only errno distinguishes a failed read from the end */
        const struct dirent *e = readdir(dir);
        if (!e) {
            st = errno ? mr_errno_status(errno, "read directory", path) : NULL;
            break;
        }
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            st = fn(ctx, e->d_name);
    }
    closedir(dir);
    return st;
}
