/* net/library.h -- the interface between libmillrace-net.so and the rest of the library.
 *
 * The rest never links gRPC or OpenSSL: it opens that library when it first needs it, asks for one
 * symbol and gets a table of functions.  Both are of one build, so structs pass between them
 * unchanged.  Each has its own copy of the few files of base/ that it needs, so what is passed must not
 * depend on which copy made it. */
#ifndef MR_NET_LIBRARY_H
#define MR_NET_LIBRARY_H

#include "base/log.h"
#include "net/net.h"
#include "net/tls.h"

#define MR_NET_LIBRARY_ABI 5

typedef struct mr_net_host { /* what the library may use of ours */
    int abi;
    mr_log_fn log;
    bool has_grpc; /* the process uses gRPC itself: its settings are not ours to change */
} mr_net_host;

typedef struct mr_net_library {
    int abi;
    mr_net *grpc;
    const mr_tls_library *tls;
    mr_status *(*make_keys)(const char *folder, const char *const *names, const char *const *hosts,
                            int n, int days);
} mr_net_library;

/* The one symbol; NULL when it is of another build. */
#define MR_NET_LIBRARY_SYMBOL "mr_net_library_get"
typedef const mr_net_library *(*mr_net_library_fn)(const mr_net_host *host);

#endif
