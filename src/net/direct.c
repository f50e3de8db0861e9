/* net/direct.c -- gRPC, and beside it frames over TCP between tasks of ours.
 *
 * gRPC copies every message and makes records of a few KiB, so it moves large messages at half of what TCP can, and a
 * quarter with TLS. A server of ours therefore also listens at a second port, which the system chooses, for frames
 * over TCP (net/tcp.c). A client asks for the port by a call over gRPC (METHOD), and tries to connect to it at the
 * address that answered. From then on its requests go that way. Everything else stays with gRPC: a peer that does not
 * know the method (TensorFlow), a port that cannot be reached, the time until the connection is open and after it was
 * lost. A request is given to one of the two transports once and stays there, so it ends exactly once.
 *
 *     state     leaves it when
 *     IDLE      a request starts, and not_before_ns is over        -> ASKING
 *     ASKING    the server has answered                            -> DIALING, or IDLE
 *     DIALING   the connection is open, or cannot be made          -> OPEN, or IDLE
 *     OPEN      the connection is lost                             -> IDLE
 *
 * After a failure not_before_ns grows, up to a minute. The state is guarded by the peer's lock, the last of this
 * folder's locks; requests are started, and the two transports called, without it.
 *
 * Who may connect is decided as for gRPC: with keys, by both certificates; in plain text, by the job's token. The
 * server's answer contains a random number (`nonce`), and the handshake proves that both sides know it and the token,
 * so a client cannot reach another process that has got the port meanwhile. */
#include <netinet/in.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "net/tcp.h"
#include "wire/pb.h"

#define METHOD "/millrace.Direct/Find"
#define ASK_NS (10 * INT64_C(1000000000))
#define FIRST_PAUSE_NS INT64_C(500000000)
#define LAST_PAUSE_NS (60 * INT64_C(1000000000))

enum { VERSION = 1 };
/* The answer of METHOD: an offer. */
enum { OFFER_VERSION = 1, OFFER_PORT = 2, OFFER_NONCE = 3 };

/* The objects that both transports get; set from the caller's at every listen and connect. */
static mr_net grpc, tcp;
static mr_net direct;

/* ---- offers ---- */

/* What the handshake proves: the nonce, and the job's token, whose text is what gRPC's callers send. */
static void make_token(const char *job, const uint8_t nonce[MR_HELLO_TOKEN], uint8_t out[MR_HELLO_TOKEN])
{
    memcpy(out, nonce, MR_HELLO_TOKEN);
    for (int i = 0; i < 2 * MR_HELLO_TOKEN && job[i]; i++) {
        int digit = job[i] <= '9' ? job[i] - '0' : job[i] - 'a' + 10;
        out[i / 2] ^= (uint8_t)(digit << (i % 2 ? 0 : 4));
    }
}

static mr_status *encode_offer(int port, const uint8_t nonce[MR_HELLO_TOKEN], mr_bytes *out)
{
    mr_str s = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &s);
    mr_pb_put_varint(&w, OFFER_VERSION, VERSION);
    mr_pb_put_varint(&w, OFFER_PORT, (uint64_t)port);
    mr_pb_put_bytes(&w, OFFER_NONCE, (mr_sv){(const char *)nonce, MR_HELLO_TOKEN});
    mr_status *st = mr_pb_writer_status(&w, "Offer");
    mr_bytes_add_str(out, &s);
    return st;
}

/* false: it is not an offer, or of a version that this side does not know. */
static bool decode_offer(mr_bytes *b, int *port, uint8_t nonce[MR_HELLO_TOKEN])
{
    mr_pb_reader r;
    mr_sv bytes, n = {"", 0};
    uint32_t field, wire;
    uint64_t version = 0, p = 0;
    mr_status *st = mr_bytes_flat(b, &bytes);
    if (!st) {
        mr_pb_reader_init(&r, bytes);
        while (mr_pb_next(&r, &field, &wire))
            switch (field) {
            case OFFER_VERSION: version = mr_pb_varint(&r); break;
            case OFFER_PORT: p = mr_pb_varint(&r); break;
            case OFFER_NONCE: n = mr_pb_bytes(&r); break;
            default: mr_pb_skip(&r);
            }
        st = mr_pb_reader_status(&r, "Offer");
    }
    bool ok = !st && version == VERSION && p >= 1 && p <= 65535 && n.n == MR_HELLO_TOKEN;
    if (ok) {
        *port = (int)p;
        memcpy(nonce, n.p, MR_HELLO_TOKEN);
    }
    mr_status_free(st);
    return ok;
}

/* ---- servers ---- */

struct mr_net_server {
    mr_net_listen o;
    mr_net_server *grpc, *tcp; /* tcp NULL: it could not listen */
    int tcp_port;
    uint8_t nonce[MR_HELLO_TOKEN];
};

/* Calls that come through gRPC. */
static void take_call(void *arg, mr_net_call *c)
{
    mr_net_server *s = arg;
    mr_bytes body = {0};
    if (strcmp(c->method, METHOD) != 0) {
        s->o.handle(s->o.arg, c);
        return;
    }
    mr_status *st = s->tcp ? encode_offer(s->tcp_port, s->nonce, &body)
                           : mr_error(MR_UNIMPLEMENTED, "this task is reached by gRPC only");
    c->net->reply(c, st, &body);
    mr_bytes_deinit(&body);
}

/* The address with port 0, where the system chooses one. */
static char *any_port(const char *address)
{
    const char *colon = strrchr(address, ':');
    return mr_printf("%.*s:0", colon ? (int)(colon - address) : 0, address);
}

static mr_status *listen_tcp(mr_net_server *s, const mr_net_listen *o)
{
    mr_net_listen own = *o;
    uint8_t token[MR_HELLO_TOKEN];
    char *at = any_port(o->address);
    own.address = at;
    mr_status *st = mr_random_secret(s->nonce, sizeof(s->nonce));
    make_token(o->keys ? "" : direct.token, s->nonce, token);
    if (!st)
        st = mr_tcp_listen(&tcp, &own, token, &s->tcp, &s->tcp_port);
    mr_free(at);
    return st;
}

/* Only tests change limits, and they do it before others listen or connect. */
static void set_limits(const mr_net *n)
{
    if (grpc.max_message != n->max_message)
        tcp.max_message = grpc.max_message = n->max_message;
    if (grpc.arrival_ns != n->arrival_ns)
        grpc.arrival_ns = n->arrival_ns;
}

/* TCP first, since gRPC's first caller may ask for it. Without it gRPC alone does. */
static mr_status *direct_listen(mr_net *n, const mr_net_listen *o, mr_net_server **out, int *port)
{
    set_limits(n);
    mr_net_server *s = mr_new(mr_net_server);
    mr_net_listen own = *o;
    own.handle = take_call;
    own.arg = s;
    s->o = *o;
    mr_status *st = listen_tcp(s, o);
    if (st)
        mr_info("%s: other tasks reach this one by gRPC only: %s", o->address, mr_status_message(st));
    mr_status_free(st);
    st = grpc.listen(&grpc, &own, &s->grpc, port);
    s->o.address = NULL; /* both belong to the caller */
    s->o.keys = NULL;
    if (st) {
        tcp.stop(s->tcp, 0);
        mr_free(s);
        return st;
    }
    *out = s;
    return NULL;
}

static void direct_stop(mr_net_server *s, int64_t grace_ns)
{
    if (!s)
        return;
    int64_t until;
    if (!mr_i64_add(mr_now_ns(), grace_ns, &until))
        until = INT64_MAX;
    tcp.stop(s->tcp, grace_ns);
    grpc.stop(s->grpc, MR_MAX(until - mr_now_ns(), 0));
    mr_free(s);
}

/* A call has the transport that it came by, so that one is asked. */
static void direct_reply(mr_net_call *c, mr_status *st, mr_bytes *body) { c->net->reply(c, st, body); }

static bool direct_on_cancel(mr_net_call *c, void (*fn)(void *arg, mr_net_call *c), void *arg)
{
    return c->net->on_cancel(c, fn, arg);
}

/* ---- peers ---- */

enum { IDLE, ASKING, DIALING, OPEN };

struct mr_net_peer {
    mr_net_peer *grpc, *tcp;
    char *address;
    bool has_keys;
    _Atomic int64_t not_before_ns; /* read without the lock */
    _Atomic int state;             /* written with it */
    mr_mutex mu;
    int64_t pause_ns MR_GUARDED_BY(mu);
    bool closing MR_GUARDED_BY(mu);
    mr_net_request ask;
    bool has_where;
    struct sockaddr_storage where; /* the address that answered `ask` */
};

/* Back to IDLE; the next try is made after a pause, and not before. */
static void give_up_locked(mr_net_peer *p, bool at_once) MR_REQUIRES(p->mu)
{
    p->pause_ns = at_once ? 0 : MR_MIN(MR_MAX(2 * p->pause_ns, FIRST_PAUSE_NS), LAST_PAUSE_NS);
    p->not_before_ns = mr_now_ns() + p->pause_ns;
    p->state = IDLE;
}

/* The connection over TCP was opened, was lost, or could not be made. In the local transport's thread. */
static void tcp_changed(void *arg, bool open)
{
    mr_net_peer *p = arg;
    mr_lock(&p->mu);
    bool was_open = p->state == OPEN;
    if (open) {
        p->state = OPEN;
        p->pause_ns = 0;
    } else {
        give_up_locked(p, was_open);
    }
    mr_unlock(&p->mu);
}

/* "ipv4:10.0.0.1:2222", "ipv6:[::1]:2222" or "ipv6:%5B::1%5D:2222": the address; the port is replaced later. */
static void keep_address(mr_net_request *r, const char *from)
{
    mr_net_peer *p = (mr_net_peer *)((char *)r - offsetof(mr_net_peer, ask));
    mr_str s = {0};
    p->has_where = false;
    if (!from || (strncmp(from, "ipv4:", 5) != 0 && strncmp(from, "ipv6:", 5) != 0))
        return;
    for (from += 5; *from; from++) {
        bool open = strncmp(from, "%5B", 3) == 0, close = strncmp(from, "%5D", 3) == 0;
        mr_str_append(&s, open ? "[" : close ? "]" : from, 1);
        from += open || close ? 2 : 0;
    }
    mr_status *st = mr_tcp_address(mr_str_z(&s), &p->where);
    p->has_where = !st;
    mr_status_free(st);
    mr_str_deinit(&s);
}

static void set_port(struct sockaddr_storage *a, int port)
{
    if (a->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)a)->sin6_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in *)a)->sin_port = htons((uint16_t)port);
}

/* The server has answered `ask`, or gRPC could not reach it. */
static void ask_done(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    mr_net_peer *p = (mr_net_peer *)((char *)r - offsetof(mr_net_peer, ask));
    uint8_t nonce[MR_HELLO_TOKEN], token[MR_HELLO_TOKEN];
    int port;
    bool ok = !st && p->has_where && decode_offer(reply, &port, nonce);
    mr_status_free(st);
    mr_lock(&p->mu);
    MR_ASSERT(p->state == ASKING);
    ok = ok && !p->closing;
    if (ok)
        p->state = DIALING;
    else
        give_up_locked(p, false);
    mr_unlock(&p->mu);
    if (!ok)
        return;
    set_port(&p->where, port);
    make_token(p->has_keys ? "" : direct.token, nonce, token);
    mr_local_dial(p->tcp, &p->where, token);
}

/* Asks for the server's second port, if it is time for that. */
static void ask_soon(mr_net_peer *p)
{
    if (p->state != IDLE || mr_now_ns() < p->not_before_ns)
        return;
    mr_lock(&p->mu);
    bool mine = p->state == IDLE && !p->closing;
    if (mine)
        p->state = ASKING;
    mr_unlock(&p->mu);
    if (!mine)
        return;
    p->ask = (mr_net_request){
        .method = METHOD, .deadline_ns = mr_now_ns() + ASK_NS, .answered_by = keep_address, .done = ask_done};
    grpc.start(p->grpc, &p->ask);
}

static void set_via(mr_net_request *r, const mr_net *via) { __atomic_store_n(&r->via, via, __ATOMIC_RELEASE); }

static void direct_start(mr_net_peer *p, mr_net_request *r)
{
    if (p->state == OPEN) {
        set_via(r, &tcp);
        if (mr_local_start_open(p->tcp, r))
            return;
    }
    set_via(r, &grpc);
    ask_soon(p);
    grpc.start(p->grpc, r);
}

static void direct_cancel(mr_net_request *r)
{
    const mr_net *via = __atomic_load_n(&r->via, __ATOMIC_ACQUIRE);
    if (via)
        via->cancel(r);
}

static mr_status *direct_connect(mr_net *n, const char *address, const mr_net_keys *keys, const char *name,
                                 mr_net_peer **out)
{
    set_limits(n);
    mr_net_peer *p = mr_new(mr_net_peer);
    mr_status *st = grpc.connect(&grpc, address, keys, name, &p->grpc);
    mr_mutex_init(&p->mu);
    p->has_keys = keys != NULL;
    if (!st)
        st = mr_tcp_connect(&tcp, address, NULL, keys, name, &(mr_dialing){tcp_changed, p}, &p->tcp);
    if (st) {
        grpc.disconnect(p->grpc);
        mr_mutex_deinit(&p->mu);
        mr_free(p);
        return st;
    }
    *out = p;
    return NULL;
}

/* gRPC first: the question ends with it, so nothing dials any more. */
static void direct_disconnect(mr_net_peer *p)
{
    if (!p)
        return;
    mr_lock(&p->mu);
    p->closing = true;
    mr_unlock(&p->mu);
    grpc.disconnect(p->grpc);
    mr_local_disconnect(p->tcp);
    mr_mutex_deinit(&p->mu);
    mr_free(p);
}

/* ---- the transport ---- */

static mr_mutex init_mu = {PTHREAD_MUTEX_INITIALIZER};
static bool is_ready MR_GUARDED_BY(init_mu);

/* `net` has read the token. */
static void make_transports(mr_net *net)
{
    grpc = *net;
    tcp = *mr_net_tcp();
    direct = (mr_net){
        .name = "direct",
        .listen = direct_listen,
        .stop = direct_stop,
        .reply = direct_reply,
        .on_cancel = direct_on_cancel,
        .connect = direct_connect,
        .disconnect = direct_disconnect,
        .start = direct_start,
        .cancel = direct_cancel,
    };
    memcpy(direct.token, net->token, sizeof(direct.token));
}

mr_status *mr_net_direct(mr_net **out)
{
    const char *mode = getenv("MILLRACE_DIRECT");
    MR_TRY(mr_net_grpc(out));
    if (mode && strcmp(mode, "off") == 0)
        return NULL;
    mr_lock(&init_mu);
    if (!is_ready)
        make_transports(*out);
    is_ready = true;
    mr_unlock(&init_mu);
    *out = &direct;
    return NULL;
}
