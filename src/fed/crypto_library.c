/* fed/crypto_library.c -- opens libmillrace-crypto.so at the first secure sum. */
#include <dlfcn.h>

#include "base/beside.h"
#include "base/thread.h"
#include "fed/crypto.h"

#define FILE_NAME "libmillrace-crypto.so"

static mr_mutex mu = {PTHREAD_MUTEX_INITIALIZER};
static const mr_crypto *opened MR_GUARDED_BY(mu);

#define NOT_AVAILABLE "secure sums of federated averaging are not available: "

static mr_status *open_at(const char *path) MR_REQUIRES(mu)
{
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* LOCAL: the host may have its own libcrypto */
    if (!lib)
        return mr_error(MR_UNIMPLEMENTED,
                        NOT_AVAILABLE "%s.  They need " FILE_NAME
                                      " (MILLRACE_CRYPTO_LIB sets its path) and the package libssl3",
                        dlerror());
    mr_crypto_fn get = (mr_crypto_fn)(uintptr_t)dlsym(lib, MR_CRYPTO_SYMBOL);
    const mr_crypto *c = get ? get(MR_CRYPTO_ABI) : NULL;
    if (!c) {
        dlclose(lib);
        return mr_error(MR_UNIMPLEMENTED, NOT_AVAILABLE "%s is not of this build of the library", path);
    }
    mr_status *st = c->start();
    if (st)
        return mr_status_prepend(st, NOT_AVAILABLE);
    opened = c;
    return NULL;
}

/* A library that cannot be opened is looked for again the next time. */
mr_status *mr_crypto_open(const mr_crypto **out)
{
    mr_status *st = NULL;
    mr_lock(&mu);
    if (!opened) {
        mr_str path = {0};
        mr_find_beside(FILE_NAME, "MILLRACE_CRYPTO_LIB", &path);
        st = open_at(mr_str_z(&path));
        mr_str_deinit(&path);
    }
    *out = opened;
    mr_unlock(&mu);
    return st;
}
