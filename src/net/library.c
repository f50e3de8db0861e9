/* net/library.c -- opens libmillrace-net.so, once, when gRPC is first needed.
 *
 * The library is never closed, because gRPC cannot be unloaded. It has to be of the same build, since
 * both share structs (MR_NET_LIBRARY_ABI). */
#include "net/library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/thread.h"
#include "base/beside.h"
#include "net/keys.h"

#define FILE_NAME "libmillrace-net.so"

static mr_mutex mu = {PTHREAD_MUTEX_INITIALIZER};
static const mr_net_library *opened MR_GUARDED_BY(mu);
static bool has_token MR_GUARDED_BY(mu); /* it was read, or there is none */

/* ---- opening it ---- */

/* The library's log goes to ours. */
static void pass_on(void *arg, mr_log_level level, const char *file, int line, const char *text)
{
    (void)arg;
    mr_log_at(level, file, line, "%s", text);
}

/* Whether the process has loaded gRPC by itself: then its log settings are left alone. */
static int is_grpc(struct dl_phdr_info *info, size_t n, void *arg)
{
    (void)n, (void)arg;
    return strstr(info->dlpi_name, "/libgpr.so") != NULL;
}

/* Opens the library at a path; mu is held. */
static mr_status *open_at(const char *path)
{
    static mr_net_host host = {.abi = MR_NET_LIBRARY_ABI, .log = pass_on};
    host.has_grpc = dl_iterate_phdr(is_grpc, NULL) != 0;
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        return mr_error(MR_FAILED_PRECONDITION,
                        "cannot load gRPC: %s.  Install " FILE_NAME
                        " (MILLRACE_NET_LIB is its path) and the packages libgrpc29 and libssl3",
                        dlerror());
    mr_net_library_fn get = (mr_net_library_fn)(uintptr_t)dlsym(lib, MR_NET_LIBRARY_SYMBOL);
    const mr_net_library *l = get ? get(&host) : NULL;
    if (!l || l->abi != MR_NET_LIBRARY_ABI) {
        dlclose(lib);
        return mr_error(MR_FAILED_PRECONDITION,
                        "%s is of another build than this library: install both from the same build", path);
    }
    MR_ASSERT(!opened);
    opened = l;
    return NULL;
}

/* Opens the library if it is not open. A failure is tried again at the next call. */
static mr_status *open_library(const mr_net_library **out)
{
    mr_status *st = NULL;
    mr_lock(&mu);
    if (!opened) {
        mr_str path = {0};
        mr_find_beside(FILE_NAME, "MILLRACE_NET_LIB", &path);
        st = open_at(mr_str_z(&path));
        mr_str_deinit(&path);
    }
    *out = opened;
    mr_unlock(&mu);
    return st;
}

/* ---- the job's token ---- */

/* Every user of a host can reach gRPC in plain text, so tasks of one job then send each other its
 * token. A token that cannot be read is an error: without it the port would be open to all. */
static mr_status *read_token(mr_net *grpc)
{
    static const char digits[] = "0123456789abcdef";
    const char *tls = getenv("MILLRACE_TLS");
    mr_str token = {0};
    if (!tls || strcmp(tls, "off") != 0)
        return NULL;
    mr_status *st = mr_net_token_load(getenv("MILLRACE_TLS_DIR"), &token);
    MR_ASSERT(st || 2 * token.n < sizeof(grpc->token));
    /* As hexadecimal digits, because gRPC's metadata are text; the last byte of grpc->token stays 0. */
    for (size_t i = 0; !st && i < 2 * token.n; i++)
        grpc->token[i] = digits[(unsigned char)token.p[i / 2] >> (i % 2 ? 0 : 4) & 15];
    mr_str_deinit(&token);
    return st;
}

/* The token is read before anybody gets the transport, so no server listens without it. */
mr_status *mr_net_grpc(mr_net **out)
{
    const mr_net_library *l;
    MR_TRY(open_library(&l));
    mr_lock(&mu);
    mr_status *st = has_token ? NULL : read_token(l->grpc);
    has_token = !st;
    mr_unlock(&mu);
    *out = st ? NULL : l->grpc;
    return st;
}

mr_status *mr_net_tls(const mr_tls_library **out)
{
    const mr_net_library *l;
    MR_TRY(open_library(&l));
    *out = l->tls;
    return NULL;
}

mr_status *mr_net_make_keys(const char *folder, const char *const *names, const char *const *hosts,
                            int n, int days)
{
    const mr_net_library *l;
    MR_TRY(open_library(&l));
    return l->make_keys(folder, names, hosts, n, days);
}
