/* board/listen.c -- the sockets that the board listens at. */
#include "board/listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 511 };

void mr_board_sockets_close(mr_board_sockets *s)
{
    for (int i = 0; i < s->n; i++)
        close(s->fds[i]);
    s->n = 0;
}

static void set_port(struct sockaddr_storage *a, int port)
{
    if (a->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)a)->sin6_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in *)a)->sin_port = htons((uint16_t)port);
}

static int port_of(int fd)
{
    struct sockaddr_storage a;
    socklen_t n = sizeof a;
    if (getsockname(fd, (struct sockaddr *)&a, &n) < 0)
        return 0;
    return ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port
                                         : ((struct sockaddr_in *)&a)->sin_port);
}

/* Adds a socket that listens at the address and s->port; 0 or an errno. Port 0 becomes the one that was taken, so that
 * the next address gets the same. */
static int add_socket(mr_board_sockets *s, const struct sockaddr *address, socklen_t n)
{
    struct sockaddr_storage a = {0};
    int on = 1;
    if (n > sizeof a || s->n == MR_BOARD_MAX_SOCKETS)
        return EINVAL;
    memcpy(&a, address, n);
    set_port(&a, s->port);
    int fd = socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (a.ss_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&a, n) < 0 || listen(fd, BACKLOG) < 0) {
        int err = errno;
        close(fd);
        return err;
    }
    s->fds[s->n++] = fd;
    s->port = port_of(fd);
    return 0;
}

/* All addresses at this port; 0 or an errno. An address that this machine does not have (IPv6 is often off) is left
 * out, if another one works. */
static int listen_at(const struct addrinfo *list, int port, mr_board_sockets *s)
{
    int lacks = 0;
    s->port = port;
    for (const struct addrinfo *a = list; a; a = a->ai_next) {
        if (a->ai_family != AF_INET && a->ai_family != AF_INET6)
            continue;
        int err = add_socket(s, a->ai_addr, a->ai_addrlen);
        if (err == EADDRNOTAVAIL || err == EAFNOSUPPORT) {
            lacks = err;
        } else if (err) {
            mr_board_sockets_close(s);
            return err;
        }
    }
    return s->n ? 0 : lacks ? lacks : EADDRNOTAVAIL;
}

static mr_status *listen_at_host(const char *host, const struct addrinfo *list, int port, int more,
                                 mr_board_sockets *out)
{
    int err = EADDRINUSE;
    for (int i = 0; i <= more && port + i <= 65535 && err == EADDRINUSE; i++)
        err = listen_at(list, port + i, out);
    if (!err)
        return NULL;
    if (err == EADDRINUSE && more)
        return mr_error(MR_UNAVAILABLE, "ports %d to %d of %s are taken: choose another with --port", port, port + more,
                        host);
    return mr_error(err == EADDRINUSE ? MR_UNAVAILABLE : MR_INVALID_ARGUMENT, "cannot listen at port %d of %s: %s",
                    port, host, strerror(err));
}

/* The loopback addresses are written here and not looked up: a wrong entry for localhost must not open the port to
 * others. */
mr_status *mr_board_listen(const char *host, int port, int more, mr_board_sockets *out)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct addrinfo second = {.ai_family = AF_INET6, .ai_addr = (struct sockaddr *)&v6, .ai_addrlen = sizeof v6};
    struct addrinfo loopback = {
        .ai_family = AF_INET, .ai_addr = (struct sockaddr *)&v4, .ai_addrlen = sizeof v4, .ai_next = &second};
    struct addrinfo *found, hints = {.ai_socktype = SOCK_STREAM};
    *out = (mr_board_sockets){0};
    if (port < 0 || port > 65535)
        return mr_invalid("port %d is out of range: give 0 to 65535", port);
    if (!host)
        return listen_at_host("localhost", &loopback, port, more, out);
    int err = getaddrinfo(host, NULL, &hints, &found);
    if (err)
        return mr_invalid("--host %s: %s", host, gai_strerror(err));
    mr_status *st = listen_at_host(host, found, port, more, out);
    freeaddrinfo(found);
    return st;
}
