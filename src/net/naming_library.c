/* net/naming_library.c -- opens libmillrace-zookeeper.so, once, when a naming service is first needed.
 *
 * The library is never closed, because ZooKeeper's client has threads. It has to be of the same build
 * (MR_NAMING_LIBRARY_ABI). */
#include <dlfcn.h>
#include <link.h>

#include "base/memory.h"
#include "base/thread.h"
#include "base/beside.h"
#include "net/naming.h"

#define FILE_NAME "libmillrace-zookeeper.so"

static mr_mutex mu = {PTHREAD_MUTEX_INITIALIZER};
static const mr_naming_library *opened MR_GUARDED_BY(mu);

/* The library has its own copy of base/log; what it logs goes to ours. */
static void pass_on(void *arg, mr_log_level level, const char *file, int line, const char *text)
{
    (void)arg;
    mr_log_at(level, file, line, "%s", text);
}

/* Whether the process has loaded ZooKeeper's client by itself: then its log settings are left alone. */
static int is_zookeeper(struct dl_phdr_info *info, size_t n, void *arg)
{
    (void)n, (void)arg;
    return strstr(info->dlpi_name, "/libzookeeper_") != NULL;
}

/* Opens the library at a path; mu is held. RTLD_LOCAL keeps its symbols, and those of the client, out of the
 * program's. */
static mr_status *open_at(const char *path)
{
    static mr_naming_host host = {.abi = MR_NAMING_LIBRARY_ABI, .log = pass_on};
    host.has_zookeeper = dl_iterate_phdr(is_zookeeper, NULL) != 0;
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        return mr_error(MR_FAILED_PRECONDITION,
                        "cannot load ZooKeeper's client: %s.  Install " FILE_NAME
                        " (MILLRACE_ZOOKEEPER_LIB is its path) and the package libzookeeper-mt2",
                        dlerror());
    mr_naming_library_fn get = (mr_naming_library_fn)(uintptr_t)dlsym(lib, MR_NAMING_LIBRARY_SYMBOL);
    const mr_naming_library *l = get ? get(&host) : NULL;
    if (!l || l->abi != MR_NAMING_LIBRARY_ABI) {
        dlclose(lib);
        return mr_error(MR_FAILED_PRECONDITION,
                        "%s is of another build than this library: install both from the same build", path);
    }
    MR_ASSERT(!opened);
    opened = l;
    return NULL;
}

/* A library that could not be opened is tried again at the next call. The lock is not held while the service is
 * opened. */
mr_status *mr_naming_zookeeper(const mr_naming_options *o, mr_naming **out)
{
    mr_status *st = NULL;
    mr_lock(&mu);
    if (!opened) {
        mr_str path = {0};
        mr_find_beside(FILE_NAME, "MILLRACE_ZOOKEEPER_LIB", &path);
        st = open_at(mr_str_z(&path));
        mr_str_deinit(&path);
    }
    const mr_naming_library *l = opened;
    mr_unlock(&mu);
    *out = NULL;
    return st ? st : l->open(o, out);
}
