/* ops/image/jpeg_library.c -- opens libmillrace-image.so at the first JPEG. */
#include <dlfcn.h>

#include "base/beside.h"
#include "base/memory.h"
#include "base/thread.h"
#include "ops/image/jpeg.h"

#define FILE_NAME "libmillrace-image.so"

static mr_mutex mu = {PTHREAD_MUTEX_INITIALIZER};
static const mr_jpeg *opened MR_GUARDED_BY(mu);

static mr_status *open_at(const char *path) MR_REQUIRES(mu)
{
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* LOCAL: the host may have its own libjpeg */
    if (!lib)
        return mr_error(MR_UNIMPLEMENTED,
                        "JPEG support is not available: %s.  It needs " FILE_NAME
                        " (MILLRACE_IMAGE_LIB sets its path) and the package libjpeg62-turbo",
                        dlerror());
    mr_jpeg_fn get = (mr_jpeg_fn)(uintptr_t)dlsym(lib, MR_JPEG_SYMBOL);
    const mr_jpeg *j = get ? get(MR_JPEG_ABI) : NULL;
    if (!j) {
        dlclose(lib);
        return mr_error(MR_UNIMPLEMENTED, "%s is not of this build of the library", path);
    }
    opened = j;
    return NULL;
}

mr_status *mr_jpeg_codec(const mr_jpeg **out)
{
    mr_status *st = NULL;
    mr_lock(&mu);
    if (!opened) {
        mr_str path = {0};
        mr_find_beside(FILE_NAME, "MILLRACE_IMAGE_LIB", &path);
        st = open_at(mr_str_z(&path));
        mr_str_deinit(&path);
    }
    *out = opened;
    mr_unlock(&mu);
    return st;
}
