/* net/listen_check.c -- why a task cannot listen at an address.
 *
 * gRPC reports only that it failed. This repeats what gRPC tried, and reads errno. The file is also
 * part of libmillrace-net.so. */
#include "net/listen_check.h"

#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/str.h"

/* The error. It begins like TensorFlow's. */
static mr_status *cannot_listen(const char *address, mr_listen_trouble *what, mr_listen_trouble trouble,
                                const char *why)
{
    *what = trouble;
    return mr_error(MR_UNKNOWN, "Could not start gRPC server: cannot listen at %s: %s", address, why);
}

/* Translates errno into the cause, and says what the user can do. */
static mr_status *explain_errno(const char *address, const char *host, const char *port, int err,
                                mr_listen_trouble *what)
{
    mr_str why = {0};
    mr_listen_trouble trouble = MR_LISTEN_OTHER;
    switch (err) {
    case EADDRINUSE:
        trouble = MR_LISTEN_IN_USE;
        mr_str_printf(&why, "another process uses port %s", port);
        break;
    case EADDRNOTAVAIL:
        trouble = MR_LISTEN_NOT_HERE;
        mr_str_printf(
            &why, "%s is not an address of this machine (MILLRACE_BIND=0.0.0.0 listens at all of its addresses)", host);
        break;
    case EACCES:
    case EPERM:
        trouble = MR_LISTEN_NOT_ALLOWED;
        mr_str_printf(&why, "this user may not use port %s: ports below 1024 are usually reserved for root", port);
        break;
    default: mr_str_appendz(&why, strerror(err));
    }
    mr_status *st = cannot_listen(address, what, trouble, mr_str_z(&why));
    mr_str_deinit(&why);
    return st;
}

/* Tries to listen at one address; returns 0 or errno. */
static int try_one(const struct addrinfo *a)
{
    int on = 1, err = 0;
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); /* as gRPC does: a port in TIME_WAIT is free */
    if (bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, 1) < 0)
        err = errno;
    close(fd);
    return err;
}

/* Tries all addresses of a name; one is enough, as for gRPC. A port that is in use says more than an
 * address family that is switched off, so that error is preferred. */
static mr_status *try_all(const char *address, const char *host, const char *port, mr_listen_trouble *what)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV}, *list = NULL;
    int rc = getaddrinfo(host, port, &hints, &list), err = 0;
    if (rc != 0) {
        char *why = rc == EAI_SYSTEM ? mr_printf("the name %s does not resolve: %s", host, strerror(errno))
                                     : mr_printf("the name %s does not resolve: %s", host, gai_strerror(rc));
        mr_status *st = cannot_listen(address, what, MR_LISTEN_NO_NAME, why);
        mr_free(why);
        return st;
    }
    /* The first error is kept, unless a later address succeeds or is in use. */
    for (const struct addrinfo *a = list; a; a = a->ai_next) {
        int one = try_one(a);
        if (one == 0 || !err || one == EADDRINUSE)
            err = one;
        if (one == 0)
            break;
    }
    freeaddrinfo(list);
    return err ? explain_errno(address, host, port, err, what) : NULL;
}

/* The port is checked first, because getaddrinfo would blame the name. */
mr_status *mr_listen_check(const char *address, mr_listen_trouble *what)
{
    mr_listen_trouble unused;
    const char *colon = strrchr(address, ':');
    what = what ? what : &unused;
    *what = MR_LISTEN_FINE;
    if (!colon || colon == address)
        return cannot_listen(address, what, MR_LISTEN_OTHER, "it is not host:port");
    int64_t port;
    if (!mr_sv_to_i64(mr_sv_of(colon + 1), &port) || port < 0 || port > UINT16_MAX)
        return cannot_listen(address, what, MR_LISTEN_OTHER, "the port is not a number from 0 to 65535");
    bool six = address[0] == '[' && colon[-1] == ']' && colon - address > 2;
    char *host = mr_strndup(address + six, (size_t)(colon - address) - 2 * (size_t)six);
    mr_status *st = try_all(address, host, colon + 1, what);
    mr_free(host);
    return st;
}
