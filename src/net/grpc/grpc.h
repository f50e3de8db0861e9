/* net/grpc/grpc.h -- the parts of the gRPC transport; all in libmillrace-net.so.
 *
 *     queue.c   when gRPC is initialised and shut down; completion queues and their threads
 *     body.c    messages as lists of pieces and as gRPC's slices
 *     args.c    settings and credentials of channels and servers
 *     client.c  asking        server.c  answering
 *     tls.c     TLS for net/tcp.c
 *     keys.c    certificates  library.c the table that the rest of the library gets */
#ifndef MR_NET_GRPC_GRPC_H
#define MR_NET_GRPC_GRPC_H

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include "base/thread.h"
#include "net/net.h"
#include "net/tls.h"

/* gRPC orders what one thread gives it before what another gets from it.  The thread sanitizer does
 * not see gRPC's locks, so these macros declare the order. */
#if defined(__SANITIZE_THREAD__)
#define MR_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MR_TSAN 1
#endif
#endif
#ifdef MR_TSAN
void __tsan_acquire(void *p);
void __tsan_release(void *p);
#define MR_GIVE(p) __tsan_release(p)
#define MR_GET(p) __tsan_acquire(p)
#else
#define MR_GIVE(p) ((void)(p))
#define MR_GET(p) ((void)(p))
#endif

#define MR_GRPC_TOKEN "millrace-token" /* the header with mr_net.token */

/* ---- queue.c ---- */

/* gRPC is initialised while it has users: servers, peers, and received bodies in gRPC's memory. */
void mr_grpc_use(void);
void mr_grpc_unuse(void);

/* The callback of an operation: embedded in what waits for it, and given (MR_GIVE) when the operation starts. */
typedef struct mr_tag {
    void (*fn)(struct mr_tag *t, bool ok);
} mr_tag;

typedef struct mr_grpc_queue { /* a completion queue and the thread that looks at it */
    grpc_completion_queue *cq;
    mr_thread thread;
    /* Set before init: called in the thread about every every_ns; NULL: never. */
    void (*tick)(void *arg);
    void *arg;
    int64_t every_ns;
} mr_grpc_queue;
mr_status *mr_grpc_queue_init(mr_grpc_queue *q, const char *thread_name);
void mr_grpc_queue_deinit(mr_grpc_queue *q); /* all callbacks have run when it returns */
/* The clients' queue, made for the first of them. */
mr_status *mr_grpc_queue_clients_get(grpc_completion_queue **out);
void mr_grpc_queue_clients_put(void);

gpr_timespec mr_grpc_time(int64_t at_ns); /* of mr_now_ns; 0: never */

/* ---- body.c ---- */

/* Takes over the pieces, which are dropped when gRPC has sent them. */
grpc_byte_buffer *mr_body_to_grpc(mr_bytes *b);
/* Takes over the buffer.  RESOURCE_EXHAUSTED. */
mr_status *mr_body_from_grpc(grpc_byte_buffer *g, mr_bytes *out);
mr_sv mr_slice_view(const grpc_slice *s); /* lives as long as *s */

/* ---- args.c ---- */

typedef struct mr_grpc_args {
    grpc_arg args[24];
    grpc_channel_args list;
} mr_grpc_args;
/* name: as in mr_net.connect; host stays the caller's and must outlive out. */
void mr_grpc_client_args(mr_grpc_args *out, size_t max_message, bool tls, const char *host);
void mr_grpc_server_args(mr_grpc_args *out, size_t max_message);
mr_status *mr_grpc_client_credentials(const mr_net_keys *keys, grpc_channel_credentials **out);
mr_status *mr_grpc_server_credentials(const mr_net_keys *keys, grpc_server_credentials **out);

/* ---- the two halves of mr_net ---- */

mr_status *mr_grpc_listen(mr_net *n, const mr_net_listen *o, mr_net_server **out, int *port);
void mr_grpc_stop(mr_net_server *s, int64_t grace_ns);
void mr_grpc_reply(mr_net_call *c, mr_status *st, mr_bytes *body);
bool mr_grpc_on_cancel(mr_net_call *c, void (*fn)(void *arg, mr_net_call *c), void *arg);

mr_status *mr_grpc_connect(mr_net *n, const char *address, const mr_net_keys *keys,
                           const char *name, mr_net_peer **out);
void mr_grpc_disconnect(mr_net_peer *p);
void mr_grpc_start(mr_net_peer *p, mr_net_request *r);
void mr_grpc_cancel(mr_net_request *r);

/* ---- library.c ---- */

/* Between these two, gRPC's messages on this thread are not logged: the caller reports the error in fewer words. */
void mr_grpc_hush(void);
void mr_grpc_unhush(void);

/* ---- tls.c ---- */

extern const mr_tls_library mr_grpc_tls;

/* ---- keys.c ---- */

/* INVALID_ARGUMENT naming the one that is missing or invalid, or does not belong to the others. */
mr_status *mr_grpc_check_keys(const mr_net_keys *k);
mr_status *mr_grpc_make_keys(const char *folder, const char *const *names, const char *const *hosts,
                             int n, int days);

#endif
