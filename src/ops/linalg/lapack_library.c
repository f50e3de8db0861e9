/* ops/linalg/lapack_library.c -- opens libmillrace-lapack.so at the first decomposition that needs it. */
#include <dlfcn.h>
#include <stdatomic.h>

#include "base/beside.h"
#include "base/log.h"
#include "base/thread.h"
#include "ops/linalg/lapack.h"

#define FILE_NAME "libmillrace-lapack.so"

static mr_mutex mu = {PTHREAD_MUTEX_INITIALIZER};
static bool tried MR_GUARDED_BY(mu);
static const mr_lapack *opened MR_GUARDED_BY(mu);
static atomic_bool refused;

/* RTLD_LOCAL: the host may have its own LAPACK. */
static const mr_lapack *open_at(const char *path)
{
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        return NULL;
    mr_lapack_fn get = (mr_lapack_fn)(uintptr_t)dlsym(lib, MR_LAPACK_SYMBOL);
    const mr_lapack *l = get ? get(MR_LAPACK_ABI) : NULL;
    if (!l)
        dlclose(lib);
    return l;
}

const mr_lapack *mr_lapack_here(void)
{
    if (atomic_load_explicit(&refused, memory_order_relaxed))
        return NULL;
    mr_lock(&mu);
    if (!tried) {
        mr_str path = {0};
        mr_find_beside(FILE_NAME, "MILLRACE_LAPACK_LIB", &path);
        opened = open_at(mr_str_z(&path));
        mr_str_deinit(&path);
        tried = true;
    }
    const mr_lapack *l = opened;
    mr_unlock(&mu);
    return l;
}

void mr_lapack_use(bool use) { refused = !use; }
