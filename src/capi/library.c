/* capi/library.c -- shared libraries with ops and kernels.
 *
 * A library registers its ops from its constructors, while it is being loaded: the ops that this
 * thread registers during that time belong to it. It is never unloaded, so loading it again
 * registers nothing; the list of the first time is kept for that case. */
#include "capi/op_definition.h"

#include <dlfcn.h>

#include "base/file.h"
#include "wire/pb.h"

struct TF_Library {
    TF_Buffer op_list; /* points into a record below, which stays */
};

typedef struct record {
    void *handle;
    char *ops; /* a serialized OpList */
    size_t n;
} record;

static mr_mutex mu = {PTHREAD_MUTEX_INITIALIZER}; /* one library at a time */
static MR_VEC(record) loaded MR_GUARDED_BY(mu);

/* Where ops registered in this thread are noted; NULL when no library is being loaded in it. */
static _Thread_local mr_str *noting;

void mr_capi_note_op(const char *name)
{
    const mr_op_def *d = noting ? mr_op_find(mr_sv_of(name)) : NULL;
    mr_pb_writer w;
    if (!d)
        return;
    mr_pb_writer_init(&w, noting);
    mr_capi_put_op(&w, d);
}

static const record *find_record(const void *handle)
{
    for (int i = 0; i < loaded.n; i++)
        if (loaded.p[i].handle == handle)
            return &loaded.p[i];
    return NULL;
}

/* Loads a library and collects the ops that it registers. dlopen returns the same handle for a library that is loaded
 * already; then the list of the first time is returned. */
static mr_status *load_locked(const char *path, record *out) MR_REQUIRES(mu)
{
    mr_str ops = {0};
    mr_str *before = noting; /* a library may load another one */
    noting = &ops;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    noting = before;
    if (!handle) {
        const char *why = dlerror();
        mr_str_deinit(&ops);
        return mr_error(MR_NOT_FOUND, "%s", why ? why : path);
    }
    const record *old = find_record(handle);
    if (old) {
        mr_str_deinit(&ops);
        *out = *old;
        return NULL;
    }
    size_t n = ops.n; /* before taking it, which empties it */
    *out = (record){handle, mr_str_take(&ops), n};
    mr_vec_push(&loaded, *out);
    return NULL;
}

TF_Library *TF_LoadLibrary(const char *library_filename, TF_Status *status)
{
    record r = {0};
    mr_capi_init();
    mr_status *st = library_filename ? NULL : mr_invalid("library_filename is NULL");
    if (!st) {
        mr_lock(&mu);
        st = load_locked(mr_path_local(library_filename), &r);
        mr_unlock(&mu);
    }
    mr_capi_set_status(status, st);
    if (st)
        return NULL;
    TF_Library *l = mr_new(TF_Library);
    l->op_list = (TF_Buffer){r.ops, r.n, NULL};
    return l;
}

TF_Buffer TF_GetOpList(TF_Library *lib_handle)
{
    return lib_handle ? lib_handle->op_list : (TF_Buffer){0};
}

void TF_DeleteLibraryHandle(TF_Library *lib_handle) { mr_free(lib_handle); }
