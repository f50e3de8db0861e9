/* ops/string/icu_library.c -- opens libmillrace-icu.so at the first encoding that needs it. */
#include <dlfcn.h>

#include "base/beside.h"
#include "base/memory.h"
#include "base/thread.h"
#include "ops/string/icu.h"

#define FILE_NAME "libmillrace-icu.so"

static mr_mutex mu = {PTHREAD_MUTEX_INITIALIZER};
static const mr_icu *opened MR_GUARDED_BY(mu);

static mr_status *open_at(const char *path) MR_REQUIRES(mu)
{
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* LOCAL: the process may use another ICU */
    if (!lib)
        return mr_error(MR_UNIMPLEMENTED,
                        "it needs " FILE_NAME " (MILLRACE_ICU_LIB gives its path) and the package libicu72: %s",
                        dlerror());
    mr_icu_fn get = (mr_icu_fn)(uintptr_t)dlsym(lib, MR_ICU_SYMBOL);
    const mr_icu *i = get ? get(MR_ICU_ABI) : NULL;
    if (!i) {
        dlclose(lib);
        return mr_error(MR_UNIMPLEMENTED, "%s belongs to another build of the library", path);
    }
    opened = i;
    return NULL;
}

mr_status *mr_icu_functions(const mr_icu **out)
{
    mr_status *st = NULL;
    mr_lock(&mu);
    if (!opened) {
        mr_str path = {0};
        mr_find_beside(FILE_NAME, "MILLRACE_ICU_LIB", &path);
        st = open_at(mr_str_z(&path));
        mr_str_deinit(&path);
    }
    *out = opened;
    mr_unlock(&mu);
    return st;
}
