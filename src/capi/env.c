/* capi/env.c -- files, clocks, threads and shared libraries for kernels and plugins of clients.
 *
 * Writable files go straight to their name through stdio, not through base's mr_writer: a client
 * that flushes expects others to see the bytes under that name. Each exported function passes the
 * status of a static function to the client, so that each error is made in one place. */
#include "tensorflow/c/env.h"

#include <dlfcn.h>
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "capi/internal.h"

static mr_status *check_not_null(const void *p, const char *what)
{
    return p ? NULL : mr_invalid("The %s is NULL", what);
}

/* ---- directories and files ---- */

static mr_status *create_dir(const char *path)
{
    MR_TRY(check_not_null(path, "directory name"));
    return mkdir(mr_path_local(path), 0777) == 0 ? NULL
                                                 : mr_errno_status(errno, "make directory", path);
}

static mr_status *delete_dir(const char *path)
{
    MR_TRY(check_not_null(path, "directory name"));
    return mr_dir_remove(path);
}

static mr_status *delete_file(const char *path)
{
    MR_TRY(check_not_null(path, "file name"));
    return mr_file_remove(path);
}

static mr_status *file_stat(const char *path, TF_FileStatistics *out)
{
    struct stat info;
    MR_TRY(check_not_null(path, "file name"));
    if (stat(mr_path_local(path), &info) != 0)
        return mr_errno_status(errno, "stat", path);
    *out = (TF_FileStatistics){
        .length = info.st_size,
        .mtime_nsec = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec,
        .is_directory = S_ISDIR(info.st_mode),
    };
    return NULL;
}

void TF_CreateDir(const char *dirname, TF_Status *status)
{
    mr_capi_set_status(status, create_dir(dirname));
}

void TF_DeleteDir(const char *dirname, TF_Status *status)
{
    mr_capi_set_status(status, delete_dir(dirname));
}

void TF_DeleteFile(const char *filename, TF_Status *status)
{
    mr_capi_set_status(status, delete_file(filename));
}

void TF_FileStat(const char *filename, TF_FileStatistics *stats, TF_Status *status)
{
    mr_capi_set_status(status, file_stat(filename, stats));
}

/* ---- whole trees ---- */

typedef struct sweep {
    int64_t files_left, dirs_left;
    mr_status *first_error;
} sweep;

static _Thread_local sweep *sweeping; /* nftw has no argument for its callback */

/* Continues after an error, so that as little as possible is left. Directories come after their
 * contents; FTW_PHYS reports symbolic links as links. */
static int sweep_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info, (void)where;
    bool is_dir = kind == FTW_D || kind == FTW_DP || kind == FTW_DNR;
    if ((is_dir ? rmdir(path) : unlink(path)) == 0)
        return 0;
    mr_status_update(&sweeping->first_error, mr_errno_status(errno, "remove", path));
    *(is_dir ? &sweeping->dirs_left : &sweeping->files_left) += 1;
    return 0;
}

static mr_status *delete_tree(const char *path, sweep *s)
{
    struct stat info;
    MR_TRY(check_not_null(path, "directory name"));
    if (lstat(mr_path_local(path), &info) != 0) {
        s->dirs_left = 1;
        return mr_errno_status(errno, "remove", path);
    }
    if (!S_ISDIR(info.st_mode)) {
        s->files_left = 1;
        return mr_errno_status(ENOTDIR, "remove", path);
    }
    sweeping = s;
    if (nftw(mr_path_local(path), sweep_one, 16, FTW_DEPTH | FTW_PHYS) != 0) {
        s->dirs_left++;
        mr_status_update(&s->first_error, mr_errno_status(errno, "remove", path));
    }
    sweeping = NULL;
    return s->first_error;
}

void TF_DeleteRecursively(const char *dirname, int64_t *undeleted_file_count,
                          int64_t *undeleted_dir_count, TF_Status *status)
{
    sweep s = {0};
    mr_capi_set_status(status, delete_tree(dirname, &s));
    *undeleted_file_count = s.files_left;
    *undeleted_dir_count = s.dirs_left;
}

/* ---- files being written ---- */

struct TF_WritableFileHandle {
    FILE *file;
    char path[]; /* for messages */
};

static mr_status *open_to_write(const char *path, TF_WritableFileHandle **out)
{
    MR_TRY(check_not_null(path, "file name"));
    size_t bytes = strlen(path) + 1;
    TF_WritableFileHandle *h = mr_try_alloc(sizeof(*h) + bytes);
    if (!h)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a file name of %zu bytes", bytes);
    memcpy(h->path, path, bytes);
    h->file = fopen(mr_path_local(path), "we");
    if (!h->file) {
        mr_status *st = mr_errno_status(errno, "open", path);
        mr_free(h);
        return st;
    }
    *out = h;
    return NULL;
}

static mr_status *append_to_file(TF_WritableFileHandle *h, const char *data, size_t n)
{
    MR_TRY(check_not_null(h, "file"));
    if (n == 0 || fwrite(data, 1, n, h->file) == n)
        return NULL;
    return mr_errno_status(errno, "write", h->path);
}

static mr_status *flush_file(TF_WritableFileHandle *h)
{
    MR_TRY(check_not_null(h, "file"));
    return fflush(h->file) == 0 ? NULL : mr_errno_status(errno, "write", h->path);
}

/* Pipes and devices cannot be synced and need not be: they answer EINVAL. */
static mr_status *sync_to_disk(TF_WritableFileHandle *h)
{
    MR_TRY(flush_file(h));
    if (fsync(fileno(h->file)) == 0 || errno == EINVAL)
        return NULL;
    return mr_errno_status(errno, "sync", h->path);
}

static mr_status *close_file(TF_WritableFileHandle *h)
{
    if (!h)
        return NULL;
    mr_status *st = fclose(h->file) == 0 ? NULL : mr_errno_status(errno, "close", h->path);
    mr_free(h);
    return st;
}

void TF_NewWritableFile(const char *filename, TF_WritableFileHandle **handle, TF_Status *status)
{
    *handle = NULL;
    mr_capi_set_status(status, open_to_write(filename, handle));
}

void TF_CloseWritableFile(TF_WritableFileHandle *handle, TF_Status *status)
{
    mr_capi_set_status(status, close_file(handle));
}

void TF_SyncWritableFile(TF_WritableFileHandle *handle, TF_Status *status)
{
    mr_capi_set_status(status, sync_to_disk(handle));
}

void TF_FlushWritableFile(TF_WritableFileHandle *handle, TF_Status *status)
{
    mr_capi_set_status(status, flush_file(handle));
}

void TF_AppendWritableFile(TF_WritableFileHandle *handle, const char *data, size_t length,
                           TF_Status *status)
{
    mr_capi_set_status(status, append_to_file(handle, data, length));
}

/* ---- lists of names ---- */

struct TF_StringStream {
    mr_str names; /* each with its NUL */
    size_t at;
};

bool TF_StringStreamNext(TF_StringStream *list, const char **result)
{
    *result = NULL;
    if (!list || list->at >= list->names.n)
        return false;
    *result = list->names.p + list->at;
    list->at += strlen(*result) + 1;
    return true;
}

void TF_StringStreamDone(TF_StringStream *list)
{
    if (!list)
        return;
    mr_str_deinit(&list->names);
    mr_free(list);
}

static mr_status *add_name(void *list, const char *name)
{
    if (mr_str_try_append(&((TF_StringStream *)list)->names, name, strlen(name) + 1))
        return NULL;
    return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for the names in a directory");
}

static mr_status *get_children(const char *path, TF_StringStream *list)
{
    MR_TRY(check_not_null(path, "directory name"));
    return mr_dir_each(path, add_name, list);
}

TF_StringStream *TF_GetChildren(const char *filename, TF_Status *status)
{
    TF_StringStream *list = mr_new(TF_StringStream);
    mr_status *st = get_children(filename, list);
    if (st) {
        TF_StringStreamDone(list);
        list = NULL;
    }
    mr_capi_set_status(status, st);
    return list;
}

/* The variables that TensorFlow reads, in its order; /tmp if none names a usable folder. */
static const char *temp_dir(int i)
{
    static const char *const variables[] = {"TEST_TMPDIR", "TMPDIR", "TMP"};
    return i < MR_COUNT(variables) ? getenv(variables[i]) : "/tmp";
}

TF_StringStream *TF_GetLocalTempDirectories(void)
{
    TF_StringStream *list = mr_new(TF_StringStream);
    for (int i = 0; i <= 3; i++) {
        const char *dir = temp_dir(i);
        if (!dir || !dir[0] || !mr_dir_exists(dir) || access(dir, W_OK) != 0)
            continue;
        mr_str_appendz(&list->names, dir);
        if (dir[strlen(dir) - 1] != '/')
            mr_str_appendc(&list->names, '/');
        mr_str_appendc(&list->names, '\0');
    }
    return list;
}

/* The file is created, so that no other process gets the same name. Plain malloc, because the
 * client calls free. */
char *TF_GetTempFileName(const char *extension)
{
    const char *dir, *ext = extension ? extension : "";
    char *path = NULL;
    if (strchr(ext, '/'))
        return NULL;
    TF_StringStream *dirs = TF_GetLocalTempDirectories();
    if (!TF_StringStreamNext(dirs, &dir))
        dir = "/tmp/";
    int n = asprintf(&path, "%smillrace-%d-XXXXXX.%s", dir, (int)getpid(), ext);
    int fd = n < 0 ? -1 : mkstemps(path, (int)strlen(ext) + 1);
    TF_StringStreamDone(dirs);
    if (fd < 0) {
        free(n < 0 ? NULL : path);
        return NULL;
    }
    close(fd);
    return path;
}

/* ---- time ---- */

uint64_t TF_NowNanos(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t TF_NowMicros(void)
{
    return TF_NowNanos() / 1000;
}

uint64_t TF_NowSeconds(void)
{
    return TF_NowNanos() / 1000000000;
}

/* ---- threads ---- */

/* These threads belong to the client: they get the stack size that it asks for and, unlike ours,
 * its signals. */
struct TF_Thread {
    pthread_t id;
    char name[16];
    void (*fn)(void *);
    void *arg;
};

static void *thread_main(void *p)
{
    TF_Thread *t = p;
    if (t->name[0])
        pthread_setname_np(pthread_self(), t->name);
    t->fn(t->arg);
    return NULL;
}

/* Sizes are rounded up to whole pages and to the minimum of the system. 0 or an errno. */
static int set_sizes(pthread_attr_t *attr, const TF_ThreadOptions *o)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), stack = o->stack_size;
    int err = 0;
    if (stack > SIZE_MAX - page || o->guard_size > SIZE_MAX - page)
        return EINVAL;
    if (stack)
        err = pthread_attr_setstacksize(
            attr, (MR_MAX(stack, (size_t)PTHREAD_STACK_MIN) + page - 1) & ~(page - 1));
    if (!err && o->guard_size)
        err = pthread_attr_setguardsize(attr, o->guard_size);
    return err;
}

static int start_thread(TF_Thread *t, const TF_ThreadOptions *options)
{
    pthread_attr_t attr;
    int err = pthread_attr_init(&attr);
    if (err)
        return err;
    if (options)
        err = set_sizes(&attr, options);
    if (!err)
        err = pthread_create(&t->id, &attr, thread_main, t);
    pthread_attr_destroy(&attr);
    return err;
}

void TF_DefaultThreadOptions(TF_ThreadOptions *options)
{
    *options = (TF_ThreadOptions){.numa_node = -1};
}

TF_Thread *TF_StartThread(const TF_ThreadOptions *options, const char *thread_name,
                          void (*work_func)(void *), void *param)
{
    TF_Thread *t = mr_new(TF_Thread);
    t->fn = work_func;
    t->arg = param;
    snprintf(t->name, sizeof(t->name), "%s", thread_name ? thread_name : "");
    if (!work_func || start_thread(t, options) != 0) {
        mr_free(t);
        return NULL;
    }
    return t;
}

void TF_JoinThread(TF_Thread *thread)
{
    if (!thread)
        return;
    pthread_join(thread->id, NULL);
    mr_free(thread);
}

/* ---- shared libraries ---- */

static mr_status *load_library(const char *path, void **out)
{
    MR_TRY(check_not_null(path, "library name"));
    *out = dlopen(mr_path_local(path), RTLD_NOW | RTLD_LOCAL);
    return *out ? NULL : mr_error(MR_NOT_FOUND, "%s", dlerror());
}

/* NULL would mean the whole process to dlsym, where every name resolves to something. */
static mr_status *find_symbol(void *library, const char *name, void **out)
{
    MR_TRY(check_not_null(library, "library"));
    MR_TRY(check_not_null(name, "symbol name"));
    dlerror(); /* clear earlier errors */
    *out = dlsym(library, name);
    if (*out)
        return NULL;
    const char *why = dlerror();
    return mr_error(MR_NOT_FOUND, "%s", why ? why : "the symbol's address is 0");
}

void *TF_LoadSharedLibrary(const char *library_filename, TF_Status *status)
{
    void *library = NULL;
    mr_capi_set_status(status, load_library(library_filename, &library));
    return library;
}

void *TF_GetSymbolFromLibrary(void *handle, const char *symbol_name, TF_Status *status)
{
    void *symbol = NULL;
    mr_capi_set_status(status, find_symbol(handle, symbol_name, &symbol));
    return symbol;
}
