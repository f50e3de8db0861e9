/* net/transport_conformance_test.c -- what every transport must do, run over each of them.
 *
 * No test measures time: what must happen is waited for, under the deadline of the test itself. */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/keys.h"
#include "net/transport_fixture.h"
#include "tests/harness/test.h"

#define SECOND INT64_C(1000000000)

static mr_net *local(void) { return mr_net_local(); }

static mr_net *grpc(void)
{
    mr_net *net;
    MR_CHECK_OK(mr_net_grpc(&net));
    return net;
}

static mr_net *tcp(void) { return mr_net_tcp(); }

static mr_net *direct(void)
{
    mr_net *net;
    MR_CHECK_OK(mr_net_direct(&net));
    MR_CHECK(strcmp(net->name, "direct") == 0);
    return net;
}

/* The same transports with TLS at both ends, for tests that give no keys. */

static mr_net_keys_file server_keys, client_keys;

static mr_status *listen_secured(mr_net *n, const mr_net_listen *o, mr_net_server **out, int *port)
{
    mr_net_listen own = *o;
    mr_net *under = strcmp(n->name, "tcp") == 0 ? tcp() : direct();
    own.keys = &server_keys.keys;
    under->max_message = n->max_message;
    return under->listen(under, &own, out, port);
}

static mr_status *connect_secured(mr_net *n, const char *address, const mr_net_keys *keys, const char *name,
                                  mr_net_peer **out)
{
    mr_net *under = strcmp(n->name, "tcp") == 0 ? tcp() : direct();
    MR_CHECK(!keys && !name);
    under->max_message = n->max_message;
    return under->connect(under, address, &client_keys.keys, "ps/0", out);
}

/* A test that forks calls this before: the two processes must not make keys at the same time. */
static void load_keys(void)
{
    static const char *const names[] = {"ps/0", "worker/1"};
    if (server_keys.keys.ca)
        return;
    char *folder = mr_printf("%s/keys", mr_test_dir());
    MR_CHECK_OK(mr_net_make_keys(folder, names, NULL, 2, 1));
    MR_CHECK_OK(mr_net_keys_load(folder, "ps/0", &server_keys));
    MR_CHECK_OK(mr_net_keys_load(folder, "worker/1", &client_keys));
    mr_free(folder);
}

static mr_net *secured(const mr_net *under, mr_net *out)
{
    load_keys();
    *out = *under;
    out->listen = listen_secured;
    out->connect = connect_secured;
    return out;
}

static mr_net *tls(void)
{
    static mr_net net;
    return net.name ? &net : secured(tcp(), &net);
}

static mr_net *direct_tls(void)
{
    static mr_net net;
    return net.name ? &net : secured(direct(), &net);
}

/* ---- bodies ---- */

static void echo(mr_net *net)
{
    trial t;
    char out[16];
    trial_open(&t, net);
    for (int i = 0; i < 10; i++) {
        size_t n = sizeof(out);
        MR_CHECK_OK(ask_once(&t, "/trial/Echo", "hello", 5, out, &n));
        MR_CHECK(n == 5 && memcmp(out, "hello", 5) == 0);
    }
    trial_close(&t);
}

static void small_bodies(mr_net *net)
{
    trial t;
    char out[16];
    size_t n = sizeof(out);
    trial_open(&t, net);
    MR_CHECK_OK(ask_once(&t, "/trial/Echo", NULL, 0, out, &n));
    MR_CHECK_INT(n, 0);
    n = sizeof(out);
    MR_CHECK_OK(ask_once(&t, "/trial/Echo", "x", 1, out, &n));
    MR_CHECK(n == 1 && out[0] == 'x');
    trial_close(&t);
}

/* Byte i of every body made here. */
static uint8_t pattern(size_t i) { return (uint8_t)(i * 31 + (i >> 8) * 7 + (i >> 16)); }

static int drops;
static mr_mutex drops_mu = {PTHREAD_MUTEX_INITIALIZER};

static void count_drop(void *p)
{
    mr_lock(&drops_mu);
    drops++;
    mr_unlock(&drops_mu);
    mr_free(p);
}

/* Pieces of all sizes, on both sides of what a transport may treat differently. */
static int add_pieces(mr_bytes *b, size_t total)
{
    static const size_t sizes[] = {1,     100,   4096,  16383,   16384,
                                   65535, 65536, 65537, 1 << 20, 3 << 20};
    int n = 0;
    for (size_t at = 0; at < total; n++) {
        size_t size = MR_MIN(sizes[n % MR_COUNT(sizes)], total - at);
        uint8_t *p = mr_alloc(size);
        for (size_t i = 0; i < size; i++)
            p[i] = pattern(at + i);
        mr_bytes_add(b, (mr_piece){p, size, count_drop, p});
        at += size;
    }
    return n;
}

static void check_pattern(const mr_bytes *b, size_t total)
{
    size_t at = 0;
    MR_CHECK_INT(b->n, total);
    for (int k = 0; k < b->pieces.n; k++) {
        const uint8_t *p = b->pieces.p[k].data;
        for (size_t i = 0; i < b->pieces.p[k].n; i++)
            if (p[i] != pattern(at + i))
                mr_test_fail(__FILE__, __LINE__, "byte %zu of %zu differs", at + i, total);
        at += b->pieces.p[k].n;
    }
    MR_CHECK_INT(at, total);
}

static void echo_of_size(mr_net *net, size_t total, int rounds)
{
    trial t;
    int n = 0;
    mr_test_deadline(60);
    trial_open(&t, net);
    for (int i = 0; i < rounds; i++) {
        ask a;
        ask_init(&a, "/trial/Echo", NULL, 0);
        n += add_pieces(&a.r.body, total);
        ask_start(&a, net, t.peer);
        MR_CHECK_OK(ask_wait(&a));
        check_pattern(&a.reply, total);
        ask_deinit(&a);
    }
    trial_close(&t);
    MR_CHECK_INT(drops, n); /* each piece, once */
}

/* ---- many ---- */

static void many_at_once(mr_net *net)
{
    enum { N = 1000 };
    trial t;
    ask *a = mr_new_array(ask, N);
    trial_open(&t, net);
    for (int i = 0; i < N; i++) {
        ask_init(&a[i], "/trial/Hold", &i, sizeof(i));
        ask_start(&a[i], net, t.peer);
    }
    trial_wait(&t, &t.n_held, N); /* all of them at once */
    for (int i = 0; i < N; i++)
        trial_answer(&t, (i * 7) % N, NULL);
    for (int i = 0; i < N; i++) {
        int got = -1;
        MR_CHECK_OK(ask_wait(&a[i]));
        MR_CHECK(a[i].reply.n == sizeof(got) && mr_bytes_read(&a[i].reply, 0, &got, sizeof(got)));
        MR_CHECK_INT(got, i);
        ask_deinit(&a[i]);
    }
    trial_close(&t);
    mr_free(a);
}

/* Many peers send large bodies to one server at once. */
static void fan_in(mr_net *net)
{
    enum { PEERS = 8, EACH = 12, BYTES = 300000 };
    trial t;
    mr_net_peer *peers[PEERS];
    ask *a = mr_new_array(ask, PEERS * EACH);
    mr_test_deadline(60);
    trial_open(&t, net);
    for (int p = 0; p < PEERS; p++)
        MR_CHECK_OK(net->connect(net, t.address, NULL, NULL, &peers[p]));
    for (int i = 0; i < PEERS * EACH; i++) {
        ask_init(&a[i], "/trial/Echo", NULL, 0);
        add_pieces(&a[i].r.body, BYTES + (size_t)i * 1000);
        ask_start(&a[i], net, peers[i % PEERS]);
    }
    for (int i = 0; i < PEERS * EACH; i++) {
        MR_CHECK_OK(ask_wait(&a[i]));
        check_pattern(&a[i].reply, BYTES + (size_t)i * 1000);
        ask_deinit(&a[i]);
    }
    for (int p = 0; p < PEERS; p++)
        net->disconnect(peers[p]);
    trial_close(&t);
    mr_free(a);
}

/* The next request is started by the callback of the last. */
typedef struct chain {
    ask a;
    trial *t;
    int left;
} chain;

static void next_link(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    chain *c = (chain *)r;
    MR_CHECK_OK(st);
    MR_CHECK_INT(reply->n, 3);
    if (--c->left > 0) {
        MR_CHECK(mr_bytes_add_copy(&r->body, "abc", 3));
        c->t->net->start(c->t->peer, r);
        return;
    }
    mr_lock(&c->a.mu);
    c->a.done = true;
    mr_cond_broadcast(&c->a.changed);
    mr_unlock(&c->a.mu);
}

static void callbacks_start_requests(mr_net *net)
{
    trial t;
    chain c = {.t = &t, .left = 500};
    trial_open(&t, net);
    ask_init(&c.a, "/trial/Echo", "abc", 3);
    c.a.r.done = next_link;
    ask_start(&c.a, net, t.peer);
    MR_CHECK_OK(ask_wait(&c.a));
    ask_deinit(&c.a);
    trial_close(&t);
}

/* ---- errors ---- */

static void every_code(mr_net *net)
{
    trial t;
    char body[] = "?what went wrong: \xc3\xa9 100%";
    trial_open(&t, net);
    for (int code = MR_CANCELLED; code <= MR_UNAUTHENTICATED; code++) {
        body[0] = (char)code;
        MR_CHECK_ERR(ask_once(&t, "/trial/Fail", body, strlen(body), NULL, NULL), (mr_code)code,
                     body + 1);
    }
    MR_CHECK_ERR(ask_once(&t, "/trial/Nothing", "", 0, NULL, NULL), MR_UNIMPLEMENTED,
                 "/trial/Nothing");
    trial_close(&t);
}

static void long_messages(mr_net *net)
{
    trial t;
    char *body = mr_alloc(10000);
    memset(body, 'x', 10000);
    body[0] = MR_INTERNAL;
    trial_open(&t, net);
    mr_status *st = ask_once(&t, "/trial/Fail", body, 1 + 3072, NULL, NULL);
    MR_CHECK_INT(strlen(mr_status_message(st)), 3072);
    mr_status_free(st);
    st = ask_once(&t, "/trial/Fail", body, 10000, NULL, NULL);
    MR_CHECK_INT(strlen(mr_status_message(st)), 3072 + strlen(" ... [truncated]"));
    MR_CHECK(strstr(mr_status_message(st), "xxx ... [truncated]"));
    mr_status_free(st);
    memset(body + 1, '\n', 9999); /* bytes that some encodings make three of */
    st = ask_once(&t, "/trial/Fail", body, 10000, NULL, NULL);
    MR_CHECK_INT(mr_status_code(st), MR_INTERNAL);
    MR_CHECK_INT(strspn(mr_status_message(st), "\n"), 3072);
    mr_status_free(st);
    trial_close(&t);
    mr_free(body);
}

static void too_large(mr_net *net)
{
    trial t;
    char *body = mr_calloc(1, 2 << 20);
    uint64_t size = 0;
    size_t n = sizeof(size);
    net->max_message = 1 << 20;
    trial_open(&t, net);
    MR_CHECK_ERR(ask_once(&t, "/trial/Size", body, 2 << 20, NULL, NULL), MR_RESOURCE_EXHAUSTED, "");
    MR_CHECK_OK(
        ask_once(&t, "/trial/Size", body, 1 << 20, &size, &n)); /* the way there is not lost */
    MR_CHECK_INT(size, 1 << 20);
    trial_close(&t);
    mr_free(body);
}

/* ---- ending early ---- */

static void cancel(mr_net *net)
{
    trial t;
    ask a;
    trial_open(&t, net);
    ask_init(&a, "/trial/Hang", "x", 1);
    ask_start(&a, net, t.peer);
    trial_wait(&t, &t.n_hanging, 1);
    net->cancel(&a.r);
    MR_CHECK_ERR(ask_wait(&a), MR_CANCELLED, "");
    net->cancel(&a.r);                 /* too late: nothing */
    trial_wait(&t, &t.n_cancelled, 1); /* the server heard of it */
    MR_CHECK_OK(ask_once(&t, "/trial/Echo", "x", 1, NULL, NULL));
    ask_deinit(&a);
    trial_close(&t);
}

static void cancel_many(mr_net *net)
{
    enum { N = 300 };
    trial t;
    ask *a = mr_new_array(ask, N);
    trial_open(&t, net);
    for (int i = 0; i < N; i++) {
        ask_init(&a[i], "/trial/Hang", "x", 1);
        ask_start(&a[i], net, t.peer);
        if (i % 3 == 0)
            net->cancel(&a[i].r); /* wherever it may be just now */
    }
    for (int i = 0; i < N; i++) {
        net->cancel(&a[i].r);
        MR_CHECK_ERR(ask_wait(&a[i]), MR_CANCELLED, "");
        ask_deinit(&a[i]);
    }
    trial_close(&t);
    MR_CHECK_INT(t.n_cancelled, t.n_hanging);
    mr_free(a);
}

static void deadline(mr_net *net)
{
    trial t;
    ask a;
    trial_open(&t, net);
    ask_init(&a, "/trial/Hang", "x", 1);
    a.r.deadline_ns = mr_now_ns() + SECOND / 10;
    ask_start(&a, net, t.peer);
    MR_CHECK_ERR(ask_wait(&a), MR_DEADLINE_EXCEEDED, "");
    MR_CHECK(mr_now_ns() >= a.r.deadline_ns - SECOND / 100);
    ask_deinit(&a);
    ask_init(&a, "/trial/Echo", "x", 1); /* one that has passed already */
    a.r.deadline_ns = mr_now_ns() - SECOND;
    ask_start(&a, net, t.peer);
    MR_CHECK_ERR(ask_wait(&a), MR_DEADLINE_EXCEEDED, "");
    ask_deinit(&a);
    trial_close(&t);
}

static void server_hears_of_a_deadline(mr_net *net)
{
    trial t;
    ask a;
    trial_open(&t, net);
    ask_init(&a, "/trial/Hold", "x", 1);
    a.r.deadline_ns = mr_now_ns() + 1000 * SECOND;
    ask_start(&a, net, t.peer);
    trial_wait(&t, &t.n_held, 1);
    int64_t told = t.held[0]->deadline_ns - a.r.deadline_ns;
    MR_CHECK(told > -60 * SECOND && told < 60 * SECOND); /* gRPC tells some three digits of it */
    trial_answer(&t, 0, NULL);
    MR_CHECK_OK(ask_wait(&a));
    ask_deinit(&a);
    trial_close(&t);
}

static void disconnect_ends_requests(mr_net *net)
{
    trial t;
    ask a, b;
    trial_open(&t, net);
    ask_init(&a, "/trial/Hang", "x", 1);
    ask_start(&a, net, t.peer);
    trial_wait(&t, &t.n_hanging, 1);
    mr_net_peer *nobody;
    char address[256];
    trial_address(net, address);
    MR_CHECK_OK(net->connect(net, address, NULL, NULL, &nobody));
    ask_init(&b, "/trial/Echo", "x", 1);
    b.r.wait_for_ready = true;
    ask_start(&b, net, nobody);
    net->disconnect(nobody);
    MR_CHECK(ask_is_done(&b));
    MR_CHECK_ERR(ask_wait(&b), MR_CANCELLED, "");
    net->disconnect(t.peer);
    t.peer = NULL;
    MR_CHECK(ask_is_done(&a));
    MR_CHECK_ERR(ask_wait(&a), MR_CANCELLED, "");
    trial_wait(&t, &t.n_cancelled, 1);
    ask_deinit(&a);
    ask_deinit(&b);
    trial_close(&t);
}

/* ---- peers that are not there ---- */

static void nobody_there(mr_net *net)
{
    trial t;
    trial_init(&t, net);
    trial_address(net, t.address);
    trial_connect(&t, NULL, NULL);
    MR_CHECK_ERR(ask_once(&t, "/trial/Echo", "x", 1, NULL, NULL), MR_UNAVAILABLE, "");
    ask a;
    ask_init(&a, "/trial/Echo", "x", 1);
    a.r.wait_for_ready = true;
    a.r.deadline_ns = mr_now_ns() + SECOND / 10;
    ask_start(&a, net, t.peer);
    MR_CHECK_ERR(ask_wait(&a), MR_DEADLINE_EXCEEDED, "");
    ask_deinit(&a);
    ask_init(&a, "/trial/Echo", "x", 1);
    a.r.wait_for_ready = true;
    ask_start(&a, net, t.peer);
    net->cancel(&a.r);
    MR_CHECK_ERR(ask_wait(&a), MR_CANCELLED, "");
    ask_deinit(&a);
    trial_close(&t);
}

static void wait_until_up(mr_net *net)
{
    trial t;
    ask a;
    trial_init(&t, net);
    trial_address(net, t.address);
    trial_connect(&t, NULL, NULL);
    ask_init(&a, "/trial/Echo", "x", 1);
    a.r.wait_for_ready = true;
    ask_start(&a, net, t.peer);
    /* It has tried in vain, for this one has. */
    MR_CHECK_ERR(ask_once(&t, "/trial/Echo", "x", 1, NULL, NULL), MR_UNAVAILABLE, "");
    MR_CHECK(!ask_is_done(&a));
    trial_listen(&t, NULL);
    MR_CHECK_OK(ask_wait(&a));
    ask_deinit(&a);
    trial_close(&t);
}

/* A server in a process of its own; the parent has no threads yet. */
static pid_t serve_in_child(mr_net *(*which)(void), trial *t, int tells[2])
{
    MR_CHECK(pipe(tells) == 0);
    pid_t pid = fork();
    MR_CHECK(pid >= 0);
    if (pid != 0)
        return pid;
    trial_init(t, which());
    trial_listen(t, NULL);
    MR_CHECK(write(tells[1], t->address, sizeof(t->address)) == sizeof(t->address));
    for (;;)
        pause();
}

static void killed_in_the_middle(mr_net *(*which)(void))
{
    enum { N = 20 };
    trial t = {0}, *child = mr_new(trial);
    int tells[2];
    ask a[N];
    pid_t pid = serve_in_child(which, child, tells);
    mr_net *net = which();
    trial_init(&t, net);
    MR_CHECK(read(tells[0], t.address, sizeof(t.address)) == sizeof(t.address));
    trial_connect(&t, NULL, NULL);
    MR_CHECK_OK(ask_once(&t, "/trial/Echo", "x", 1, NULL, NULL));
    for (int i = 0; i < N; i++) {
        ask_init(&a[i], i < N - 1 ? "/trial/Hold" : "/trial/Die", NULL, 0);
        add_pieces(&a[i].r.body, 100000);
        ask_start(&a[i], net, t.peer);
    }
    for (int i = 0; i < N; i++) {
        MR_CHECK_ERR(ask_wait(&a[i]), MR_UNAVAILABLE, "");
        ask_deinit(&a[i]);
    }
    MR_CHECK(waitpid(pid, NULL, 0) == pid);
    MR_CHECK_ERR(ask_once(&t, "/trial/Echo", "x", 1, NULL, NULL), MR_UNAVAILABLE, "");
    trial_listen(&t, NULL); /* and when it is up again, so is the way there */
    ask b;
    ask_init(&b, "/trial/Echo", "x", 1);
    b.r.wait_for_ready = true;
    ask_start(&b, net, t.peer);
    MR_CHECK_OK(ask_wait(&b));
    ask_deinit(&b);
    trial_close(&t);
    mr_free(child);
}

/* The caller dies: its calls are cancelled. */
static void caller_killed(mr_net *(*which)(void))
{
    trial t;
    int tells[2];
    MR_CHECK(pipe(tells) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        trial_init(&t, which());
        MR_CHECK(read(tells[0], t.address, sizeof(t.address)) == sizeof(t.address));
        trial_connect(&t, NULL, NULL);
        ask a;
        ask_init(&a, "/trial/Hang", "x", 1);
        ask_start(&a, t.net, t.peer);
        MR_CHECK_OK(ask_wait(&a));
    }
    trial_init(&t, which());
    trial_listen(&t, NULL);
    MR_CHECK(write(tells[1], t.address, sizeof(t.address)) == sizeof(t.address));
    trial_wait(&t, &t.n_hanging, 1);
    kill(pid, SIGKILL);
    MR_CHECK(waitpid(pid, NULL, 0) == pid);
    trial_wait(&t, &t.n_cancelled, 1);
    trial_close(&t);
}

/* Answers held calls from a thread of its own, until it is told to end. */
typedef struct answerer {
    trial *t;
    bool ending MR_GUARDED_BY(t->mu);
    int n; /* answered */
} answerer;

static void answer_held(void *arg)
{
    answerer *a = arg;
    trial *t = a->t;
    for (bool ending = false; !ending;) {
        mr_lock(&t->mu);
        while (a->n == t->n_held && !a->ending)
            mr_cond_wait(&t->changed, &t->mu);
        ending = a->n == t->n_held;
        mr_unlock(&t->mu);
        if (!ending)
            trial_answer(t, a->n++, NULL);
    }
}

/* Replies, cancellations and lost connections meet in all orders. */
static void answers_to_those_who_left(mr_net *net)
{
    enum { ROUNDS = 40, EACH = 15 };
    trial t;
    mr_thread thread;
    trial_open(&t, net);
    answerer who = {.t = &t};
    MR_CHECK(mr_thread_start(&thread, "answers", answer_held, &who) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        mr_net_peer *p;
        ask a[EACH];
        MR_CHECK_OK(net->connect(net, t.address, NULL, NULL, &p));
        for (int k = 0; k < EACH; k++) {
            ask_init(&a[k], "/trial/Hold", "x", 1);
            ask_start(&a[k], net, p);
        }
        trial_wait(&t, &t.n_held, 1);
        if (i % 2)
            mr_status_free(ask_wait(&a[0]));
        net->cancel(&a[EACH - 1].r);
        net->disconnect(p);
        for (int k = 0; k < EACH; k++) {
            mr_status_free(ask_wait(&a[k]));
            ask_deinit(&a[k]);
        }
    }
    net->stop(t.server, 100 * SECOND);
    t.server = NULL;
    mr_lock(&t.mu);
    who.ending = true;
    mr_cond_broadcast(&t.changed);
    mr_unlock(&t.mu);
    mr_thread_join(&thread);
    MR_CHECK_INT(who.n, t.n_held);
    trial_close(&t);
}

/* ---- stopping ---- */

static void stop_cancels(mr_net *net)
{
    enum { N = 50 };
    trial t;
    ask a[N];
    trial_open(&t, net);
    for (int i = 0; i < N; i++) {
        ask_init(&a[i], "/trial/Hang", "x", 1);
        ask_start(&a[i], net, t.peer);
    }
    trial_wait(&t, &t.n_hanging, N);
    net->stop(t.server, 100 * SECOND);
    t.server = NULL;
    MR_CHECK_INT(t.n_cancelled, N);
    for (int i = 0; i < N; i++) {
        mr_status *st = ask_wait(&a[i]); /* the handler's answer, if it was still told */
        MR_CHECK(mr_status_code(st) != MR_OK);
        mr_status_free(st);
        ask_deinit(&a[i]);
    }
    MR_CHECK_ERR(ask_once(&t, "/trial/Echo", "x", 1, NULL, NULL), MR_UNAVAILABLE, "");
    trial_close(&t);
}

/* Calls are accepted, read and answered at every instant of a stop without grace. `reset` is what the caller
 * of a request gets that has arrived but was not accepted: gRPC itself resets such a call, which gives CANCELLED. */
static void stop_while_calls_arrive(mr_net *net, mr_code reset)
{
    enum { ROUNDS = 40, N = 30 };
    mr_test_deadline(60);
    for (int round = 0; round < ROUNDS; round++) {
        trial t;
        ask a[N];
        trial_open(&t, net);
        for (int i = 0; i < N; i++) {
            ask_init(&a[i], "/trial/Echo", "x", 1);
            ask_start(&a[i], net, t.peer);
        }
        if (round % 2) /* else the connection is being made */
            mr_status_free(ask_wait(&a[0]));
        net->stop(t.server, 0);
        t.server = NULL;
        for (int i = round % 2; i < N; i++) {
            mr_status *st = ask_wait(&a[i]);
            if (mr_status_code(st) != reset)
                MR_CHECK_INT(mr_status_code(st), st ? MR_UNAVAILABLE : MR_OK);
            mr_status_free(st);
        }
        for (int i = 0; i < N; i++)
            ask_deinit(&a[i]);
        trial_close(&t);
    }
}

static void stop_leaves_the_stubborn(mr_net *net)
{
    trial t;
    ask a;
    trial_open(&t, net);
    ask_init(&a, "/trial/Hold", "x", 1);
    ask_start(&a, net, t.peer);
    trial_wait(&t, &t.n_held, 1);
    net->stop(t.server, SECOND / 20);
    t.server = NULL;
    MR_CHECK_ERR(ask_wait(&a), MR_UNAVAILABLE, "");
    trial_answer(&t, 0, NULL); /* into the void */
    ask_deinit(&a);
    trial_close(&t);
}

static void listen_again(mr_net *net)
{
    trial t;
    mr_net_server *other;
    int port;
    trial_open(&t, net);
    MR_CHECK_OK(ask_once(&t, "/trial/Echo", "x", 1, NULL, NULL));
    mr_status *st = net->listen(net, &(mr_net_listen){.address = t.address}, &other, &port);
    MR_CHECK(st && strstr(mr_status_message(st), t.address)); /* it is taken */
    mr_status_free(st);
    net->stop(t.server, SECOND);
    trial_listen(&t, NULL);
    ask a;
    ask_init(&a, "/trial/Echo", "x", 1);
    a.r.wait_for_ready = true;
    ask_start(&a, net, t.peer);
    st = ask_wait(&a); /* the old connection may be noticed to be dead by this request */
    MR_CHECK(!st || mr_status_code(st) == MR_UNAVAILABLE);
    mr_status_free(st);
    ask_deinit(&a);
    trial_close(&t);
}

/* ---- the local transport ---- */

MR_TEST(net_local_echoes) { echo(local()); }
MR_TEST(net_local_carries_small_bodies) { small_bodies(local()); }
MR_TEST(net_local_carries_many_pieces) { echo_of_size(local(), 5 << 20, 20); }
MR_TEST(net_local_carries_100_MiB) { echo_of_size(local(), 100 << 20, 2); }
MR_TEST(net_local_has_1000_calls_at_once) { many_at_once(local()); }
MR_TEST(net_local_bears_a_fan_in) { fan_in(local()); }
MR_TEST(net_local_callbacks_start_requests) { callbacks_start_requests(local()); }
MR_TEST(net_local_carries_every_code) { every_code(local()); }
MR_TEST(net_local_cuts_long_messages) { long_messages(local()); }
MR_TEST(net_local_refuses_what_is_too_large) { too_large(local()); }
MR_TEST(net_local_cancels) { cancel(local()); }
MR_TEST(net_local_cancels_many) { cancel_many(local()); }
MR_TEST(net_local_keeps_deadlines) { deadline(local()); }
MR_TEST(net_local_tells_deadlines) { server_hears_of_a_deadline(local()); }
MR_TEST(net_local_disconnect_ends_requests) { disconnect_ends_requests(local()); }
MR_TEST(net_local_says_when_nobody_is_there) { nobody_there(local()); }
MR_TEST(net_local_waits_for_a_peer) { wait_until_up(local()); }
MR_TEST(net_local_survives_its_server) { killed_in_the_middle(local); }
MR_TEST(net_local_survives_its_caller) { caller_killed(local); }
MR_TEST(net_local_answers_those_who_left) { answers_to_those_who_left(local()); }
MR_TEST(net_local_stop_cancels_calls) { stop_cancels(local()); }
MR_TEST(net_local_stops_while_calls_arrive) { stop_while_calls_arrive(local(), MR_UNAVAILABLE); }
MR_TEST(net_local_stop_leaves_the_stubborn) { stop_leaves_the_stubborn(local()); }
MR_TEST(net_local_listens_again) { listen_again(local()); }

/* ---- gRPC ---- */

MR_TEST(net_grpc_echoes) { echo(grpc()); }
MR_TEST(net_grpc_carries_small_bodies) { small_bodies(grpc()); }
MR_TEST(net_grpc_carries_many_pieces) { echo_of_size(grpc(), 5 << 20, 20); }
MR_TEST(net_grpc_carries_100_MiB) { echo_of_size(grpc(), 100 << 20, 2); }
MR_TEST(net_grpc_has_1000_calls_at_once) { many_at_once(grpc()); }
MR_TEST(net_grpc_bears_a_fan_in) { fan_in(grpc()); }
MR_TEST(net_grpc_callbacks_start_requests) { callbacks_start_requests(grpc()); }
MR_TEST(net_grpc_carries_every_code) { every_code(grpc()); }
MR_TEST(net_grpc_cuts_long_messages) { long_messages(grpc()); }
MR_TEST(net_grpc_refuses_what_is_too_large) { too_large(grpc()); }
MR_TEST(net_grpc_cancels) { cancel(grpc()); }
MR_TEST(net_grpc_cancels_many) { cancel_many(grpc()); }
MR_TEST(net_grpc_keeps_deadlines) { deadline(grpc()); }
MR_TEST(net_grpc_tells_deadlines) { server_hears_of_a_deadline(grpc()); }
MR_TEST(net_grpc_disconnect_ends_requests) { disconnect_ends_requests(grpc()); }
MR_TEST(net_grpc_says_when_nobody_is_there) { nobody_there(grpc()); }
MR_TEST(net_grpc_waits_for_a_peer) { wait_until_up(grpc()); }
MR_TEST(net_grpc_survives_its_server) { killed_in_the_middle(grpc); }
MR_TEST(net_grpc_survives_its_caller) { caller_killed(grpc); }
MR_TEST(net_grpc_answers_those_who_left) { answers_to_those_who_left(grpc()); }
MR_TEST(net_grpc_stop_cancels_calls) { stop_cancels(grpc()); }
MR_TEST(net_grpc_stops_while_calls_arrive) { stop_while_calls_arrive(grpc(), MR_CANCELLED); }
MR_TEST(net_grpc_stop_leaves_the_stubborn) { stop_leaves_the_stubborn(grpc()); }
MR_TEST(net_grpc_listens_again) { listen_again(grpc()); }

/* ---- frames over TCP ---- */

MR_TEST(net_tcp_echoes) { echo(tcp()); }
MR_TEST(net_tcp_carries_small_bodies) { small_bodies(tcp()); }
MR_TEST(net_tcp_carries_many_pieces) { echo_of_size(tcp(), 5 << 20, 20); }
MR_TEST(net_tcp_carries_100_MiB) { echo_of_size(tcp(), 100 << 20, 2); }
MR_TEST(net_tcp_has_1000_calls_at_once) { many_at_once(tcp()); }
MR_TEST(net_tcp_bears_a_fan_in) { fan_in(tcp()); }
MR_TEST(net_tcp_callbacks_start_requests) { callbacks_start_requests(tcp()); }
MR_TEST(net_tcp_carries_every_code) { every_code(tcp()); }
MR_TEST(net_tcp_cuts_long_messages) { long_messages(tcp()); }
MR_TEST(net_tcp_refuses_what_is_too_large) { too_large(tcp()); }
MR_TEST(net_tcp_cancels) { cancel(tcp()); }
MR_TEST(net_tcp_cancels_many) { cancel_many(tcp()); }
MR_TEST(net_tcp_keeps_deadlines) { deadline(tcp()); }
MR_TEST(net_tcp_tells_deadlines) { server_hears_of_a_deadline(tcp()); }
MR_TEST(net_tcp_disconnect_ends_requests) { disconnect_ends_requests(tcp()); }
MR_TEST(net_tcp_says_when_nobody_is_there) { nobody_there(tcp()); }
MR_TEST(net_tcp_waits_for_a_peer) { wait_until_up(tcp()); }
MR_TEST(net_tcp_survives_its_server) { killed_in_the_middle(tcp); }
MR_TEST(net_tcp_survives_its_caller) { caller_killed(tcp); }
MR_TEST(net_tcp_answers_those_who_left) { answers_to_those_who_left(tcp()); }
MR_TEST(net_tcp_stop_cancels_calls) { stop_cancels(tcp()); }
MR_TEST(net_tcp_stops_while_calls_arrive) { stop_while_calls_arrive(tcp(), MR_UNAVAILABLE); }
MR_TEST(net_tcp_stop_leaves_the_stubborn) { stop_leaves_the_stubborn(tcp()); }
MR_TEST(net_tcp_listens_again) { listen_again(tcp()); }

/* ---- frames over TLS ---- */

MR_TEST(net_tls_echoes) { echo(tls()); }
MR_TEST(net_tls_carries_small_bodies) { small_bodies(tls()); }
MR_TEST(net_tls_carries_many_pieces) { echo_of_size(tls(), 5 << 20, 20); }
MR_TEST(net_tls_carries_100_MiB) { echo_of_size(tls(), 100 << 20, 2); }
MR_TEST(net_tls_has_1000_calls_at_once) { many_at_once(tls()); }
MR_TEST(net_tls_bears_a_fan_in) { fan_in(tls()); }
MR_TEST(net_tls_callbacks_start_requests) { callbacks_start_requests(tls()); }
MR_TEST(net_tls_carries_every_code) { every_code(tls()); }
MR_TEST(net_tls_cuts_long_messages) { long_messages(tls()); }
MR_TEST(net_tls_refuses_what_is_too_large) { too_large(tls()); }
MR_TEST(net_tls_cancels) { cancel(tls()); }
MR_TEST(net_tls_cancels_many) { cancel_many(tls()); }
MR_TEST(net_tls_keeps_deadlines) { deadline(tls()); }
MR_TEST(net_tls_tells_deadlines) { server_hears_of_a_deadline(tls()); }
MR_TEST(net_tls_disconnect_ends_requests) { disconnect_ends_requests(tls()); }
MR_TEST(net_tls_says_when_nobody_is_there) { nobody_there(tls()); }
MR_TEST(net_tls_waits_for_a_peer) { wait_until_up(tls()); }
MR_TEST(net_tls_survives_its_server) { load_keys(), killed_in_the_middle(tls); }
MR_TEST(net_tls_survives_its_caller) { load_keys(), caller_killed(tls); }
MR_TEST(net_tls_answers_those_who_left) { answers_to_those_who_left(tls()); }
MR_TEST(net_tls_stop_cancels_calls) { stop_cancels(tls()); }
MR_TEST(net_tls_stops_while_calls_arrive) { stop_while_calls_arrive(tls(), MR_UNAVAILABLE); }
MR_TEST(net_tls_stop_leaves_the_stubborn) { stop_leaves_the_stubborn(tls()); }
MR_TEST(net_tls_listens_again) { listen_again(tls()); }

/* ---- gRPC with frames beside it ---- */

MR_TEST(net_direct_echoes) { echo(direct()); }
MR_TEST(net_direct_carries_small_bodies) { small_bodies(direct()); }
MR_TEST(net_direct_carries_many_pieces) { echo_of_size(direct(), 5 << 20, 20); }
MR_TEST(net_direct_carries_100_MiB) { echo_of_size(direct(), 100 << 20, 2); }
MR_TEST(net_direct_has_1000_calls_at_once) { many_at_once(direct()); }
MR_TEST(net_direct_bears_a_fan_in) { fan_in(direct()); }
MR_TEST(net_direct_callbacks_start_requests) { callbacks_start_requests(direct()); }
MR_TEST(net_direct_carries_every_code) { every_code(direct()); }
MR_TEST(net_direct_cuts_long_messages) { long_messages(direct()); }
MR_TEST(net_direct_refuses_what_is_too_large) { too_large(direct()); }
MR_TEST(net_direct_cancels) { cancel(direct()); }
MR_TEST(net_direct_cancels_many) { cancel_many(direct()); }
MR_TEST(net_direct_keeps_deadlines) { deadline(direct()); }
MR_TEST(net_direct_tells_deadlines) { server_hears_of_a_deadline(direct()); }
MR_TEST(net_direct_disconnect_ends_requests) { disconnect_ends_requests(direct()); }
MR_TEST(net_direct_says_when_nobody_is_there) { nobody_there(direct()); }
MR_TEST(net_direct_waits_for_a_peer) { wait_until_up(direct()); }
MR_TEST(net_direct_survives_its_server) { killed_in_the_middle(direct); }
MR_TEST(net_direct_survives_its_caller) { caller_killed(direct); }
MR_TEST(net_direct_answers_those_who_left) { answers_to_those_who_left(direct()); }
MR_TEST(net_direct_stop_cancels_calls) { stop_cancels(direct()); }
MR_TEST(net_direct_stops_while_calls_arrive) { stop_while_calls_arrive(direct(), MR_CANCELLED); }
MR_TEST(net_direct_stop_leaves_the_stubborn) { stop_leaves_the_stubborn(direct()); }
MR_TEST(net_direct_listens_again) { listen_again(direct()); }

/* ---- the same with TLS ---- */

MR_TEST(net_direct_tls_echoes) { echo(direct_tls()); }
MR_TEST(net_direct_tls_carries_small_bodies) { small_bodies(direct_tls()); }
MR_TEST(net_direct_tls_carries_many_pieces) { echo_of_size(direct_tls(), 5 << 20, 20); }
MR_TEST(net_direct_tls_carries_100_MiB) { echo_of_size(direct_tls(), 100 << 20, 2); }
MR_TEST(net_direct_tls_has_1000_calls_at_once) { many_at_once(direct_tls()); }
MR_TEST(net_direct_tls_bears_a_fan_in) { fan_in(direct_tls()); }
MR_TEST(net_direct_tls_callbacks_start_requests) { callbacks_start_requests(direct_tls()); }
MR_TEST(net_direct_tls_carries_every_code) { every_code(direct_tls()); }
MR_TEST(net_direct_tls_cuts_long_messages) { long_messages(direct_tls()); }
MR_TEST(net_direct_tls_refuses_what_is_too_large) { too_large(direct_tls()); }
MR_TEST(net_direct_tls_cancels) { cancel(direct_tls()); }
MR_TEST(net_direct_tls_cancels_many) { cancel_many(direct_tls()); }
MR_TEST(net_direct_tls_keeps_deadlines) { deadline(direct_tls()); }
MR_TEST(net_direct_tls_tells_deadlines) { server_hears_of_a_deadline(direct_tls()); }
MR_TEST(net_direct_tls_disconnect_ends_requests) { disconnect_ends_requests(direct_tls()); }
MR_TEST(net_direct_tls_says_when_nobody_is_there) { nobody_there(direct_tls()); }
MR_TEST(net_direct_tls_waits_for_a_peer) { wait_until_up(direct_tls()); }
MR_TEST(net_direct_tls_survives_its_server) { load_keys(), killed_in_the_middle(direct_tls); }
MR_TEST(net_direct_tls_survives_its_caller) { load_keys(), caller_killed(direct_tls); }
MR_TEST(net_direct_tls_answers_those_who_left) { answers_to_those_who_left(direct_tls()); }
MR_TEST(net_direct_tls_stop_cancels_calls) { stop_cancels(direct_tls()); }
MR_TEST(net_direct_tls_stops_while_calls_arrive) { stop_while_calls_arrive(direct_tls(), MR_CANCELLED); }
MR_TEST(net_direct_tls_stop_leaves_the_stubborn) { stop_leaves_the_stubborn(direct_tls()); }
MR_TEST(net_direct_tls_listens_again) { listen_again(direct_tls()); }
