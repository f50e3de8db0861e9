/* net/library.c -- opens libmillrace-net.so. */
#include "net/library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/thread.h"

#define FILE_NAME "libmillrace-net.so"

static mr_mutex mu = {PTHREAD_MUTEX_INITIALIZER};
static const mr_net_library *opened MR_GUARDED_BY(mu);

/* ---- finding it ---- */

/* The folder of the library or program that this code is in; empty when nobody knows. */
static void own_folder(mr_str *out)
{
    Dl_info info;
    char self[4096];
    const char *path = dladdr((void *)(uintptr_t)&mu, &info) ? info.dli_fname : NULL;
    if (!path || path[0] != '/' || strncmp(path, "/proc/", 6) == 0) { /* a program knows only how it was called */
        ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
        self[n > 0 ? n : 0] = '\0';
        path = path && strchr(path, '/') && access(path, F_OK) == 0 ? path : self;
    }
    mr_sv dir = mr_path_dirname(path);
    mr_str_append(out, dir.p, dir.n);
}

/* Beside us, or where programs are installed and built. */
static void find_beside(mr_str *out)
{
    static const char *const places[] = {"/" FILE_NAME, "/lib/" FILE_NAME, "/../lib/" FILE_NAME};
    mr_str folder = {0};
    bool found = false;
    own_folder(&folder);
    for (int i = 0; i < MR_COUNT(places) && !found; i++) {
        mr_str_clear(out);
        mr_str_printf(out, "%s%s", mr_str_z(&folder), places[i]);
        found = access(mr_str_z(out), R_OK) == 0;
    }
    if (!found) {
        mr_str_clear(out);
        mr_str_printf(out, "%s%s", mr_str_z(&folder), places[0]);
    }
    mr_str_deinit(&folder);
}

/* ---- opening it ---- */

static void pass_on(void *arg, mr_log_level level, const char *file, int line, const char *text)
{
    (void)arg;
    mr_log_at(level, file, line, "%s", text);
}

static int is_grpc(struct dl_phdr_info *info, size_t n, void *arg)
{
    (void)n, (void)arg;
    return strstr(info->dlpi_name, "/libgpr.so") != NULL;
}

static mr_status *open_at(const char *path)
{
    static mr_net_host host = {.abi = MR_NET_LIBRARY_ABI, .log = pass_on};
    host.has_grpc = dl_iterate_phdr(is_grpc, NULL) != 0;
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        return mr_error(MR_FAILED_PRECONDITION,
                        "gRPC is not there: %s.  It needs " FILE_NAME
                        " (MILLRACE_NET_LIB says where) and the packages libgrpc29 and libssl3",
                        dlerror());
    mr_net_library_fn get = (mr_net_library_fn)(uintptr_t)dlsym(lib, MR_NET_LIBRARY_SYMBOL);
    const mr_net_library *l = get ? get(&host) : NULL;
    if (!l || l->abi != MR_NET_LIBRARY_ABI) {
        dlclose(lib);
        return mr_error(MR_FAILED_PRECONDITION, "%s is not of this build of the library", path);
    }
    opened = l; /* for good: gRPC does not bear being unloaded */
    return NULL;
}

static mr_status *open_library(const mr_net_library **out)
{
    mr_status *st = NULL;
    mr_lock(&mu);
    if (!opened) {
        const char *named = getenv("MILLRACE_NET_LIB");
        mr_str path = {0};
        if (!named || !named[0])
            find_beside(&path);
        st = open_at(named && named[0] ? named : mr_str_z(&path));
        mr_str_deinit(&path);
    }
    *out = opened;
    mr_unlock(&mu);
    return st;
}

mr_status *mr_net_grpc(mr_net **out)
{
    const mr_net_library *l;
    MR_TRY(open_library(&l));
    *out = l->grpc;
    return NULL;
}

mr_status *mr_net_make_keys(const char *folder, const char *const *names, const char *const *hosts,
                            int n, int days)
{
    const mr_net_library *l;
    MR_TRY(open_library(&l));
    return l->make_keys(folder, names, hosts, n, days);
}
