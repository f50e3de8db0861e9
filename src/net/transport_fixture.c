/* net/transport_fixture.c -- a server and its callers, for tests of transports. */
#include "net/transport_fixture.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/harness/test.h"

/* ---- the server ---- */

static void hold(trial *t, mr_net_call *c)
{
    mr_lock(&t->mu);
    MR_CHECK(t->n_held < MR_COUNT(t->held));
    t->held[t->n_held++] = c;
    mr_cond_broadcast(&t->changed);
    mr_unlock(&t->mu);
}

static void end_hang(void *arg, mr_net_call *c)
{
    trial *t = arg;
    mr_bytes none = {0};
    c->net->reply(c, mr_error(MR_ABORTED, "was cancelled"), &none);
    mr_lock(&t->mu);
    t->n_cancelled++;
    mr_cond_broadcast(&t->changed);
    mr_unlock(&t->mu);
}

static void hang(trial *t, mr_net_call *c)
{
    mr_lock(&t->mu);
    t->n_hanging++;
    mr_cond_broadcast(&t->changed);
    mr_unlock(&t->mu);
    if (!c->net->on_cancel(c, end_hang, t))
        end_hang(t, c);
}

static void fail(mr_net_call *c)
{
    mr_bytes none = {0};
    mr_sv v;
    MR_CHECK_OK(mr_bytes_flat(&c->body, &v));
    MR_CHECK(v.n > 0);
    c->net->reply(c, mr_error((mr_code)v.p[0], "%.*s", (int)v.n - 1, v.p + 1), &none);
}

static void give(mr_net_call *c, mr_bytes body) { c->net->reply(c, NULL, &body); }

static void handle(void *arg, mr_net_call *c)
{
    trial *t = arg;
    mr_bytes body = c->body;
    mr_lock(&t->mu);
    snprintf(t->peer_name, sizeof(t->peer_name), "%s", c->peer_name);
    snprintf(t->came_by, sizeof(t->came_by), "%s", c->net->name);
    mr_unlock(&t->mu);
    if (strcmp(c->method, "/trial/Echo") == 0) {
        c->body = (mr_bytes){0};
        give(c, body);
    } else if (strcmp(c->method, "/trial/Size") == 0) {
        uint64_t n = body.n;
        mr_bytes reply = {0};
        MR_CHECK(mr_bytes_add_copy(&reply, &n, 8));
        give(c, reply);
    } else if (strcmp(c->method, "/trial/Fail") == 0) {
        fail(c);
    } else if (strcmp(c->method, "/trial/Hang") == 0) {
        hang(t, c);
    } else if (strcmp(c->method, "/trial/Hold") == 0) {
        hold(t, c);
    } else if (strcmp(c->method, "/trial/Die") == 0) {
        kill(getpid(), SIGKILL);
    } else {
        mr_bytes none = {0};
        c->net->reply(c, mr_error(MR_UNIMPLEMENTED, "no method %s", c->method), &none);
    }
}

/* ---- both ends ---- */

void trial_address(mr_net *net, char out[256])
{
    static int n;
    if (strcmp(net->name, "local") == 0) {
        snprintf(out, 256, "%s/socket%d", mr_test_dir(), n++);
        return;
    }
    mr_net_server *s;
    int port;
    MR_CHECK_OK(
        net->listen(net, &(mr_net_listen){.address = "127.0.0.1:0", .handle = handle}, &s, &port));
    net->stop(s, 0);
    snprintf(out, 256, "127.0.0.1:%d", port);
}

void trial_init(trial *t, mr_net *net)
{
    memset(t, 0, sizeof(*t));
    t->net = net;
    mr_mutex_init(&t->mu);
    mr_cond_init(&t->changed);
    if (strcmp(net->name, "local") == 0)
        trial_address(net, t->address);
    else
        snprintf(t->address, sizeof(t->address), "127.0.0.1:0");
}

void trial_listen(trial *t, const mr_net_keys *keys)
{
    int port;
    mr_net_listen o = {.address = t->address, .keys = keys, .handle = handle, .arg = t};
    MR_CHECK_OK(t->net->listen(t->net, &o, &t->server, &port));
    MR_CHECK((port != 0) == (strcmp(t->net->name, "local") != 0));
    if (port)
        snprintf(t->address, sizeof(t->address), "127.0.0.1:%d", port);
}

void trial_connect(trial *t, const mr_net_keys *keys, const char *name)
{
    MR_CHECK_OK(t->net->connect(t->net, t->address, keys, name, &t->peer));
}

void trial_open(trial *t, mr_net *net)
{
    trial_init(t, net);
    trial_listen(t, NULL);
    trial_connect(t, NULL, NULL);
}

/* Names tell threads of others: ours are joined by now, and bear the program's. */
static bool has_named_threads(void)
{
    char own[32] = "", path[300], name[32];
    bool found = false;
    DIR *d = opendir("/proc/self/task");
    FILE *f = fopen("/proc/self/comm", "r");
    MR_CHECK(d && f && fgets(own, sizeof(own), f));
    fclose(f);
    for (struct dirent *e; (e = readdir(d));) {
        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", e->d_name);
        if ((f = fopen(path, "r"))) {
            found |= fgets(name, sizeof(name), f) && strcmp(name, own) != 0;
            fclose(f);
        }
    }
    closedir(d);
    return found;
}

/* gRPC's threads are on their last steps when it says that it has ended; the leak sanitizer, which
 * looks into all threads when a test exits, does not bear that.  They stay, asleep, when a
 * connection was given up while it was made: gRPC finishes it when somebody uses gRPC again. */
void trial_rest(void)
{
    for (int64_t until = mr_now_ns() + INT64_C(1000000000); has_named_threads();) {
        if (mr_now_ns() > until)
            return;
        mr_sleep_ns(1000000);
    }
}

void trial_close(trial *t)
{
    if (t->peer)
        t->net->disconnect(t->peer);
    if (t->server)
        t->net->stop(t->server, INT64_C(10000000000));
    if (strcmp(t->net->name, "grpc") == 0 || strcmp(t->net->name, "direct") == 0)
        trial_rest();
    mr_cond_deinit(&t->changed);
    mr_mutex_deinit(&t->mu);
}

void trial_wait(trial *t, const int *count, int want)
{
    mr_lock(&t->mu);
    while (*count < want)
        mr_cond_wait(&t->changed, &t->mu);
    mr_unlock(&t->mu);
}

void trial_answer(trial *t, int i, mr_status *st)
{
    mr_lock(&t->mu);
    mr_net_call *c = t->held[i];
    t->held[i] = NULL;
    mr_unlock(&t->mu);
    mr_bytes body = c->body;
    c->body = (mr_bytes){0};
    t->net->reply(c, st, &body);
}

/* ---- asking ---- */

static void done(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    ask *a = (ask *)r;
    mr_lock(&a->mu);
    MR_CHECK(!a->done); /* exactly once */
    MR_CHECK(!st || reply->n == 0);
    a->done = true;
    a->st = st;
    a->reply = *reply;
    *reply = (mr_bytes){0};
    mr_cond_broadcast(&a->changed);
    mr_unlock(&a->mu);
}

void ask_init(ask *a, const char *method, const void *body, size_t n)
{
    memset(a, 0, sizeof(*a));
    mr_mutex_init(&a->mu);
    mr_cond_init(&a->changed);
    a->r.method = method;
    a->r.done = done;
    MR_CHECK(mr_bytes_add_copy(&a->r.body, body, n));
}

void ask_start(ask *a, mr_net *net, mr_net_peer *p) { net->start(p, &a->r); }

bool ask_is_done(ask *a)
{
    mr_lock(&a->mu);
    bool is = a->done;
    mr_unlock(&a->mu);
    return is;
}

mr_status *ask_wait(ask *a)
{
    mr_lock(&a->mu);
    while (!a->done)
        mr_cond_wait(&a->changed, &a->mu);
    mr_status *st = a->st;
    a->st = NULL;
    mr_unlock(&a->mu);
    return st;
}

void ask_deinit(ask *a)
{
    mr_status_free(a->st);
    mr_bytes_deinit(&a->reply);
    mr_cond_deinit(&a->changed);
    mr_mutex_deinit(&a->mu);
}

mr_status *ask_once(trial *t, const char *method, const void *body, size_t body_n, void *out,
                    size_t *n)
{
    ask a;
    ask_init(&a, method, body, body_n);
    ask_start(&a, t->net, t->peer);
    mr_status *st = ask_wait(&a);
    if (!st && n) {
        MR_CHECK(a.reply.n <= *n && mr_bytes_read(&a.reply, 0, out, a.reply.n));
        *n = a.reply.n;
    }
    ask_deinit(&a);
    return st;
}
