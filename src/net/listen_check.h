/* net/listen_check.h -- why a task cannot listen at an address. */
#ifndef MR_NET_LISTEN_CHECK_H
#define MR_NET_LISTEN_CHECK_H

#include "base/status.h"

typedef enum mr_listen_trouble {
    MR_LISTEN_FINE,
    MR_LISTEN_IN_USE,      /* another process has the port */
    MR_LISTEN_NOT_HERE,    /* the address is of another machine */
    MR_LISTEN_NOT_ALLOWED, /* this user may not use the port */
    MR_LISTEN_NO_NAME,     /* the name does not resolve */
    MR_LISTEN_OTHER,
} mr_listen_trouble;

/* Tries to listen at "host:port", and stops at once.  NULL if that succeeded, otherwise UNKNOWN, as in TensorFlow,
 * with the cause; *what (may be NULL) is the cause for code to decide by. */
mr_status *mr_listen_check(const char *address, mr_listen_trouble *what);

#endif
