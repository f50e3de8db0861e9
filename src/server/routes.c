/* server/routes.c -- which transport leads to an address, and what a task listens on.
 *
 * The local transport is used if the address is on this host and its socket can be trusted: the folder
 * of sockets must belong to this user and be closed to others, because the connection relies on the
 * file system for who may connect. If that fails, gRPC is used, with a warning once per process.
 *
 *     address           MILLRACE_SHM   socket file   transport
 *     another host      any            -             gRPC
 *     this host         off            -             gRPC
 *     this host         on             -             local: the caller waits until the socket exists
 *     this host         auto           exists        local
 *     this host         auto           missing       gRPC
 *
 * A task listens at both, so every caller finds it. The socket is named after the port, because the port
 * is what the callers know. */
#include "server/routes.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/report.h"
#include "base/thread.h"
#include "net/keys.h"
#include "net/listen_check.h"

/* ---- keys ---- */

/* Loads the keys of a task of this process from MILLRACE_TLS_DIR. *out stays empty in plain text. */
static mr_status *load_keys(const char *own, mr_net_keys_file *out)
{
    const char *folder = getenv("MILLRACE_TLS_DIR"), *tls = getenv("MILLRACE_TLS"), *task = getenv("MILLRACE_TASK");
    *out = (mr_net_keys_file){0};
    if (!folder || !folder[0] || (tls && strcmp(tls, "off") == 0))
        return NULL;
    return mr_net_keys_load(folder, own ? own : task ? task : "client", out);
}

static const mr_net_keys *keys_of(const mr_net_keys_file *f) { return f->keys.ca ? &f->keys : NULL; }

/* Loads the cluster's secret for calls within the host, if there is one beside the keys. */
static void load_token(void)
{
    mr_str token = {0};
    mr_status *st = mr_net_token_load(getenv("MILLRACE_TLS_DIR"), &token);
    if (st)
        mr_warn("calls within this host are made without the job's token: %s", mr_status_message(st));
    else if (token.n)
        mr_net_local_token((const uint8_t *)token.p);
    mr_status_free(st);
    mr_str_deinit(&token);
}

/* The local transport; the token is loaded before its first use. */
static mr_net *local_net(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_token);
    return mr_net_local();
}

/* ---- addresses ---- */

/* A parsed address; views into it. */
typedef struct place {
    mr_sv host;
    int64_t port;
} place;

/* Splits host:port at the last colon, since an IPv6 host contains some. */
static mr_status *take_apart(const char *address, place *out)
{
    mr_sv a = mr_sv_of(address);
    size_t at = a.n;
    while (at > 0 && a.p[at - 1] != ':')
        at--;
    out->host = (mr_sv){a.p, at ? at - 1 : 0};
    if (at < 2 || !mr_sv_to_i64((mr_sv){a.p + at, a.n - at}, &out->port) || out->port < 0 || out->port > 65535)
        return mr_invalid("'%s' is not host:port", address);
    return NULL;
}

/* Only this host can reach such an address. */
static bool is_loopback(mr_sv host)
{
    return mr_sv_is(host, "localhost") || mr_sv_starts(host, "127.") || mr_sv_is(host, "[::1]");
}

/* Another name of this host, or its address in a network, counts as another host: then gRPC is used. */
static bool is_this_host(mr_sv host)
{
    char name[256] = "";
    return is_loopback(host) || (gethostname(name, sizeof name - 1) == 0 && mr_sv_is(host, name));
}

/* ---- sockets of this user ---- */

/* The folder of sockets; the caller frees it. */
static char *socket_folder(void)
{
    const char *told = getenv("MILLRACE_SOCKETS"), *base = getenv("XDG_RUNTIME_DIR");
    if (told && told[0])
        return mr_strdup(told);
    return base && base[0] == '/' ? mr_printf("%s/millrace", base) : mr_printf("/tmp/millrace-%u", (unsigned)getuid());
}

/* The socket of the task that listens at this port; the caller frees it. */
static char *socket_path(int64_t port)
{
    char *folder = socket_folder();
    char *path = mr_printf("%s/%lld", folder, (long long)port);
    mr_free(folder);
    return path;
}

/* Whether MILLRACE_SHM has this value. */
static bool shm_is(const char *value)
{
    const char *mode = getenv("MILLRACE_SHM");
    return mode && strcmp(mode, value) == 0;
}

/* Checks that only this user can enter the folder: one that another user made, or a link, could lead
 * to another user's socket. make: create it if it does not exist; otherwise a missing folder is fine. */
static mr_status *check_folder(bool make)
{
    struct stat s;
    struct sockaddr_un longest;
    char *folder = socket_folder();
    mr_status *st = NULL;
    if (strlen(folder) + sizeof "/65535" > sizeof longest.sun_path)
        st = mr_error(MR_FAILED_PRECONDITION, "the path %s is too long for a socket in it", folder);
    else if (make && mkdir(folder, 0700) < 0 && errno != EEXIST)
        st = mr_error(MR_FAILED_PRECONDITION, "cannot create %s: %s", folder, strerror(errno));
    else if (lstat(folder, &s) < 0)
        st = make || errno != ENOENT ? mr_error(MR_FAILED_PRECONDITION, "%s: %s", folder, strerror(errno)) : NULL;
    else if (!S_ISDIR(s.st_mode))
        st = mr_error(MR_FAILED_PRECONDITION, "%s is not a folder", folder);
    else if (s.st_uid != getuid())
        st = mr_error(MR_FAILED_PRECONDITION, "%s belongs to another user", folder);
    else if (s.st_mode & 077)
        st = mr_error(MR_FAILED_PRECONDITION, "other users may enter %s", folder);
    mr_free(folder);
    return st;
}

/* Warns once per process, since all connections share the folder. Takes st. */
static void warn_of_folder(mr_status *st)
{
    static _Atomic bool warned;
    if (!atomic_exchange(&warned, true))
        mr_warn("tasks of this host are reached through gRPC, not through shared memory: %s", mr_status_message(st));
    mr_status_free(st);
}

/* Whether to use the local transport for a port of this host. With MILLRACE_SHM=on a caller waits
 * until the socket exists, so not if the folder is unsafe, where no task would make one. */
static bool wants_socket(int64_t port)
{
    if (shm_is("off"))
        return false;
    mr_status *st = check_folder(false);
    if (st) {
        warn_of_folder(st);
        return false;
    }
    if (shm_is("on"))
        return true;
    char *path = socket_path(port);
    bool there = access(path, F_OK) == 0;
    mr_free(path);
    return there;
}

/* ---- connecting ---- */

/* The keys are freed here: the transport keeps no pointer to them. A task of this host is not asked for a
 * certificate: the socket's folder and the token protect that connection. */
mr_status *mr_route_to(const char *address, const char *own, const char *name, mr_net **net, mr_net_peer **out)
{
    place p;
    mr_net_keys_file keys;
    MR_TRY(take_apart(address, &p));
    if (is_this_host(p.host) && wants_socket(p.port)) {
        char *path = socket_path(p.port);
        *net = local_net();
        mr_status *st = (*net)->connect(*net, path, NULL, name, out);
        mr_free(path);
        return st;
    }
    MR_TRY(mr_net_direct(net));
    MR_TRY(load_keys(own, &keys));
    mr_status *st = (*net)->connect(*net, address, keys_of(&keys), name, out);
    mr_net_keys_deinit(&keys);
    return st;
}

/* ---- listening ---- */

/* Refuses to listen in plain text at an address that other hosts can reach, unless that is explicitly
 * wanted. */
static mr_status *check_plain(const char *address, mr_sv host)
{
    const char *tls = getenv("MILLRACE_TLS");
    if (is_loopback(host) || (tls && strcmp(tls, "off") == 0))
        return NULL;
    return mr_error(MR_FAILED_PRECONDITION,
                    "%s can be reached from outside and there are no keys: make some with `millrace keys` and set "
                    "MILLRACE_TLS_DIR, or set MILLRACE_TLS=off to run in plain text",
                    address);
}

/* MILLRACE_BIND replaces the host; the port stays. */
mr_status *mr_listeners_address(const char *address, char **out)
{
    place p;
    const char *host = getenv("MILLRACE_BIND");
    MR_TRY(take_apart(address, &p));
    *out = host && host[0] ? mr_printf("%s:%lld", host, (long long)p.port) : mr_strdup(address);
    return NULL;
}

/* For a launcher, which checks before it starts processes. The keys themselves are not read here. */
mr_status *mr_listeners_check(const char *address)
{
    place p;
    char *at;
    const char *folder = getenv("MILLRACE_TLS_DIR");
    MR_TRY(mr_listeners_address(address, &at));
    mr_status *st = take_apart(at, &p);
    if (!st && !(folder && folder[0]))
        st = check_plain(at, p.host);
    mr_free(at);
    return st;
}

/* Listens with one transport. */
static mr_status *open_listener(mr_listeners *d, mr_net *net, const mr_net_listen *o, int *port)
{
    MR_ASSERT(d->n < MR_COUNT(d->servers));
    mr_status *st = net->listen(net, o, &d->servers[d->n], port);
    if (!st)
        d->nets[d->n++] = net;
    return st;
}

/* Listens with gRPC at the port. If gRPC is not installed, a task at a loopback address does without
 * it. */
static mr_status *open_port(mr_listeners *d, const mr_net_listen *o, mr_sv host, int *port)
{
    mr_net *grpc;
    mr_status *st = mr_net_direct(&grpc);
    d->plain = !st && !o->keys && !grpc->token[0];
    if (!st) {
        /* MR_UNKNOWN is the code of a port that could not be bound; the cause decides whether another port helps. */
        mr_listen_trouble what = MR_LISTEN_FINE;
        st = open_listener(d, grpc, o, port);
        if (mr_status_code(st) == MR_UNKNOWN)
            mr_status_free(mr_listen_check(o->address, &what));
        if (what == MR_LISTEN_IN_USE)
            mr_report_port_taken(); /* lets the launcher choose another port */
        return st;
    }
    if (!is_loopback(host))
        return st;
    mr_warn("%s; only tasks of this host can reach %s", mr_status_message(st), o->address);
    mr_status_free(st);
    return NULL;
}

/* Listens at the socket for tasks of this host. A failure is only a warning if the port is open. */
static mr_status *open_socket(mr_listeners *d, mr_net_listen *o, int port)
{
    int unused;
    /* Without gRPC the socket is the only way to reach this task, so it is opened even with MILLRACE_SHM=off. */
    if (shm_is("off") && d->n)
        return NULL;
    char *path = socket_path(port);
    o->address = path;
    mr_status *st = check_folder(true);
    if (!st)
        st = open_listener(d, local_net(), o, &unused);
    mr_free(path);
    if (st && d->n) {
        warn_of_folder(st);
        st = NULL;
    }
    return st;
}

/* Listens with both transports. The keys are used by gRPC only and freed here. */
static mr_status *open_listeners(const char *address, const char *own, mr_net_listen o, mr_listeners *d, int *port)
{
    place p;
    mr_net_keys_file keys;
    MR_TRY(take_apart(address, &p));
    MR_TRY(load_keys(own, &keys));
    o.address = address;
    o.keys = keys_of(&keys);
    *port = (int)p.port;
    mr_status *st = o.keys ? NULL : check_plain(address, p.host);
    /* The port first: with port 0 the system chooses it, and the socket is named after it. */
    if (!st)
        st = open_port(d, &o, p.host, port);
    if (st && o.keys && mr_status_code(st) == MR_INVALID_ARGUMENT)
        st = mr_status_prepend(st, "%s in %s: ", own ? own : "the task", getenv("MILLRACE_TLS_DIR"));
    o.keys = NULL;
    mr_net_keys_deinit(&keys);
    return st ? st : open_socket(d, &o, *port);
}

/* On failure the caller closes what is open already (mr_listeners_close). */
mr_status *mr_listeners_open(const char *address, const char *own, void (*handle)(void *arg, mr_net_call *c), void *arg,
                         mr_listeners *d, int *port)
{
    char *at;
    *d = (mr_listeners){0};
    MR_TRY(mr_listeners_address(address, &at));
    mr_status *st = open_listeners(at, own, (mr_net_listen){.handle = handle, .arg = arg}, d, port);
    mr_free(at);
    return st;
}

/* gRPC and the local transport one after the other, so this may take twice grace_ns. */
void mr_listeners_close(mr_listeners *d, int64_t grace_ns)
{
    for (int i = 0; i < d->n; i++)
        d->nets[i]->stop(d->servers[i], grace_ns);
    *d = (mr_listeners){0};
}
