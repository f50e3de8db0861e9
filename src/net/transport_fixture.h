/* net/transport_fixture.h -- a server and its callers, for tests of transports. */
#ifndef MR_NET_TRANSPORT_FIXTURE_H
#define MR_NET_TRANSPORT_FIXTURE_H

#include "base/thread.h"
#include "net/net.h"

/* The server knows these methods:
 *     /trial/Echo   gives the body back
 *     /trial/Size   the body's size as 8 bytes
 *     /trial/Fail   the body is a code in its first byte, then a message: ends with that
 *     /trial/Hang   ends when it is cancelled, with ABORTED
 *     /trial/Hold   is kept in `held` until the test answers it
 *     /trial/Die    ends the process
 * Everything else is UNIMPLEMENTED. */
typedef struct trial {
    mr_net *net;
    mr_net_server *server;
    mr_net_peer *peer;
    char address[256];
    mr_mutex mu;
    mr_cond changed;
    mr_net_call *held[4096] MR_GUARDED_BY(mu);
    int n_held MR_GUARDED_BY(mu), n_hanging MR_GUARDED_BY(mu), n_cancelled MR_GUARDED_BY(mu);
    char peer_name[64] MR_GUARDED_BY(mu); /* of the last call */
    char came_by[16] MR_GUARDED_BY(mu);   /* the transport of the last call */
} trial;

/* A request that a test waits for. */
typedef struct ask {
    mr_net_request r; /* set what is to differ before ask_start */
    mr_mutex mu;
    mr_cond changed;
    bool done MR_GUARDED_BY(mu);
    mr_status *st MR_GUARDED_BY(mu);
    mr_bytes reply MR_GUARDED_BY(mu);
} ask;

/* An address nobody uses: a path in the test's folder, or a port that was free just now. */
void trial_address(mr_net *net, char out[256]);
void trial_init(trial *t, mr_net *net); /* only the address */
void trial_listen(trial *t, const mr_net_keys *keys);
void trial_connect(trial *t, const mr_net_keys *keys, const char *name);
void trial_open(trial *t, mr_net *net); /* all of these, plain */
void trial_close(trial *t);
void trial_rest(void); /* until gRPC's threads have gone, or it seems that they will not; also by trial_close */

void trial_wait(trial *t, const int *count, int want); /* until a count above is there */
void trial_answer(trial *t, int i, mr_status *st);     /* a held call */

void ask_init(ask *a, const char *method, const void *body, size_t n);
void ask_start(ask *a, mr_net *net, mr_net_peer *p);
bool ask_is_done(ask *a);
mr_status *ask_wait(ask *a); /* owned by the caller; the reply stays in a */
void ask_deinit(ask *a);
/* All of it; a reply of up to n bytes is copied to out. */
mr_status *ask_once(trial *t, const char *method, const void *body, size_t body_n, void *out,
                    size_t *n);

#endif
