/* net/tcp.c -- frames over TCP, or over TLS: the sockets of this transport.
 *
 * Everything but the sockets is shared with the local transport (local*.c): requests and calls, frames, the thread
 * that waits. What differs: nothing travels in shared memory, a client's connection takes a round trip, and a link may
 * have TLS (net/tls.h), with the keys and the checks of names that gRPC's connections have. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "net/tcp.h"

enum { BACKLOG = 256 };

void mr_tcp_set_options(int fd)
{
    static const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},    {SOL_SOCKET, SO_KEEPALIVE, 1},       {IPPROTO_TCP, TCP_KEEPIDLE, 10},
        {IPPROTO_TCP, TCP_KEEPINTVL, 3},  {IPPROTO_TCP, TCP_KEEPCNT, 3},       {IPPROTO_TCP, TCP_USER_TIMEOUT, 20000},
    };
    /* A connection without them still works. */
    for (int i = 0; i < MR_COUNT(options); i++)
        setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int));
}

/* ---- addresses ---- */

/* Splits host:port at the last colon, and takes the brackets of an IPv6 host away. Both are the caller's. */
static mr_status *split_address(const char *address, char **host, char **port)
{
    const char *colon = strrchr(address, ':');
    if (!colon || colon == address)
        return mr_invalid("'%s' is not host:port", address);
    size_t n = (size_t)(colon - address);
    bool six = address[0] == '[' && colon[-1] == ']' && n > 2;
    *host = mr_strndup(address + six, n - 2 * (size_t)six);
    *port = mr_strdup(colon + 1);
    return NULL;
}

/* The addresses of "host:port"; freeaddrinfo. */
static mr_status *find_addresses(const char *address, int flags, struct addrinfo **out)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
    char *host = NULL, *port = NULL;
    MR_TRY(split_address(address, &host, &port));
    int rc = getaddrinfo(host, port, &hints, out);
    mr_free(host);
    mr_free(port);
    return rc == 0 ? NULL : mr_error(MR_UNAVAILABLE, "%s: %s", address, gai_strerror(rc));
}

/* ---- listening ---- */

/* A socket that listens at one address; -1: errno says why not. */
static int listen_at(const struct addrinfo *a, int *port)
{
    struct sockaddr_storage bound;
    socklen_t n = sizeof(bound);
    int on = 1, fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, a->ai_addr, a->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0 ||
        getsockname(fd, (struct sockaddr *)&bound, &n) != 0) {
        int err = errno;
        close(fd);
        errno = err;
        return -1;
    }
    *port = ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
                                              : ((struct sockaddr_in *)&bound)->sin_port);
    return fd;
}

/* The first of the host's addresses that can be listened at. */
static mr_status *open_listener(const char *address, int *fd, int *port)
{
    struct addrinfo *all;
    int err = EADDRNOTAVAIL;
    *fd = -1;
    MR_TRY(find_addresses(address, AI_PASSIVE, &all));
    for (const struct addrinfo *a = all; a && *fd < 0; a = a->ai_next) {
        *fd = listen_at(a, port);
        err = errno;
    }
    freeaddrinfo(all);
    return *fd >= 0 ? NULL : mr_errno_status(err, "listen at", address);
}

mr_status *mr_tcp_listen(mr_net *n, const mr_net_listen *o, const uint8_t token[MR_HELLO_TOKEN], mr_net_server **out,
                         int *port)
{
    const mr_tls_library *lib;
    mr_link link = {.tcp = true};
    int fd;
    if (token)
        memcpy(link.token, token, MR_HELLO_TOKEN);
    MR_TRY(open_listener(o->address, &fd, port));
    mr_status *st = o->keys ? mr_net_tls(&lib) : NULL;
    if (!st && o->keys)
        st = lib->context_new(o->keys, true, NULL, &link.tls);
    if (st) {
        close(fd);
        return st;
    }
    return mr_local_serve(n, o, fd, &link, out);
}

static mr_status *tcp_listen(mr_net *n, const mr_net_listen *o, mr_net_server **out, int *port)
{
    return mr_tcp_listen(n, o, NULL, out, port);
}

/* ---- connecting ---- */

mr_status *mr_tcp_address(const char *address, struct sockaddr_storage *out)
{
    struct addrinfo *a;
    MR_TRY(find_addresses(address, AI_NUMERICHOST, &a));
    *out = (struct sockaddr_storage){0};
    memcpy(out, a->ai_addr, a->ai_addrlen);
    freeaddrinfo(a);
    return NULL;
}

mr_status *mr_tcp_connect(mr_net *n, const char *address, const struct sockaddr_storage *to, const mr_net_keys *keys,
                          const char *name, const mr_dialing *dialing, mr_net_peer **out)
{
    const mr_tls_library *lib;
    mr_link link = {.tcp = true};
    if (keys) {
        MR_TRY(mr_net_tls(&lib));
        MR_TRY(lib->context_new(keys, false, name, &link.tls));
    }
    return mr_local_connect_tcp(n, address, to, &link, dialing, out);
}

static mr_status *tcp_connect(mr_net *n, const char *address, const mr_net_keys *keys, const char *name,
                              mr_net_peer **out)
{
    struct sockaddr_storage to;
    MR_TRY(mr_tcp_address(address, &to));
    return mr_tcp_connect(n, address, &to, keys, name, NULL, out);
}

mr_net *mr_net_tcp(void)
{
    static mr_net tcp = {
        .name = "tcp",
        .listen = tcp_listen,
        .stop = mr_local_stop,
        .reply = mr_local_reply,
        .on_cancel = mr_local_on_cancel,
        .connect = tcp_connect,
        .disconnect = mr_local_disconnect,
        .start = mr_local_start,
        .cancel = mr_local_cancel,
    };
    return &tcp;
}
