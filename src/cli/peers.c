/* cli/peers.c -- the launchers of one job tell each other when the job ends.
 *
 * Each launcher listens for the call METHOD_END, whose body is the exit code as text. The first call writes the code to
 * a pipe, which the main loop of the launcher polls; later calls are ignored. The handler runs on a thread of the
 * transport, so the pipe and the atomic flag are all that it shares with the main thread. */
#include "cli/peers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "net/keys.h"

#define METHOD_END "/millrace.Launch/End"
#define TELL_NS (3 * INT64_C(1000000000))

struct mr_peers {
    mr_net *net;
    mr_net_server *server;
    mr_net_keys_file keys;
    int wake[2];
    _Atomic bool told;
};

static const mr_net_keys *keys_of(const mr_peers *p) { return p->keys.keys.ca ? &p->keys.keys : NULL; }

/* Handles METHOD_END. Only the first call wakes the launcher. */
static void handle_end_call(void *arg, mr_net_call *c)
{
    mr_peers *p = arg;
    mr_bytes nothing = {0};
    mr_sv body = {0};
    int64_t code = 0;
    mr_status *st = strcmp(c->method, METHOD_END) == 0 ? NULL : mr_error(MR_UNIMPLEMENTED, "There is no method %s", c->method);
    if (!st)
        st = mr_bytes_flat(&c->body, &body);
    if (!st && (!mr_sv_to_i64(body, &code) || code < 0 || code > 255))
        st = mr_invalid("the message that the job has ended has no exit code from 0 to 255");
    if (!st && !atomic_exchange(&p->told, true)) {
        int value = (int)code;
        if (write(p->wake[1], &value, sizeof value) < 0)
            st = mr_error(MR_INTERNAL, "%s", strerror(errno));
    }
    p->net->reply(c, st, &nothing);
}

/* Creates the pipe and listens at the address, with the keys of the task unless TLS is off. After an error, the caller
 * frees p. */
static mr_status *open_peers(mr_peers *p, const char *task, const char *address)
{
    const char *folder = getenv("MILLRACE_TLS_DIR"), *tls = getenv("MILLRACE_TLS");
    int port;
    if (pipe2(p->wake, O_CLOEXEC | O_NONBLOCK) < 0)
        return mr_error(MR_RESOURCE_EXHAUSTED, "cannot create a pipe: %s", strerror(errno));
    MR_TRY(mr_net_grpc(&p->net));
    if (folder && folder[0] && !(tls && strcmp(tls, "off") == 0))
        MR_TRY(mr_net_keys_load(folder, task, &p->keys));
    mr_net_listen l = {.address = address, .keys = keys_of(p), .handle = handle_end_call, .arg = p};
    return p->net->listen(p->net, &l, &p->server, &port);
}

mr_status *mr_peers_new(const char *task, const char *address, mr_peers **out, int *wake)
{
    mr_peers *p = mr_new(mr_peers);
    p->wake[0] = p->wake[1] = -1;
    mr_status *st = open_peers(p, task, address);
    *wake = p->wake[0];
    if (st) {
        mr_peers_free(p);
        p = NULL;
    }
    *out = p;
    return st;
}

bool mr_peers_told(const mr_peers *p) { return atomic_load(&((mr_peers *)(uintptr_t)p)->told); }

/* ---- telling ---- */

typedef struct telling {
    mr_net_request request;
    mr_net_peer *peer;
    mr_mutex mu;
    mr_cond changed;
    bool done MR_GUARDED_BY(mu);
} telling;

static void end_call_done(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    (void)reply;
    telling *t = (telling *)r;
    mr_status_free(st);
    mr_lock(&t->mu);
    t->done = true;
    mr_cond_signal(&t->changed);
    mr_unlock(&t->mu);
}

/* Starts the call to one launcher; finish_telling waits for its end. */
static void begin_telling(mr_peers *p, telling *t, const char *address, int exit_code)
{
    mr_mutex_init(&t->mu);
    mr_cond_init(&t->changed);
    t->request = (mr_net_request){.method = METHOD_END, .deadline_ns = mr_now_ns() + TELL_NS, .done = end_call_done};
    mr_str text = {0};
    mr_str_printf(&text, "%d", exit_code);
    mr_bytes_add_str(&t->request.body, &text);
    mr_status *st = p->net->connect(p->net, address, keys_of(p), NULL, &t->peer);
    if (st)
        end_call_done(&t->request, st, NULL);
    else
        p->net->start(t->peer, &t->request);
}

static void finish_telling(mr_peers *p, telling *t)
{
    mr_lock(&t->mu);
    while (!t->done)
        mr_cond_wait(&t->changed, &t->mu);
    mr_unlock(&t->mu);
    if (t->peer)
        p->net->disconnect(t->peer);
    mr_cond_deinit(&t->changed);
    mr_mutex_deinit(&t->mu);
}

void mr_peers_tell(mr_peers *p, char *const *addresses, int n, int exit_code)
{
    telling *all = mr_new_array(telling, n);
    for (int i = 0; i < n; i++)
        begin_telling(p, &all[i], addresses[i], exit_code);
    for (int i = 0; i < n; i++)
        finish_telling(p, &all[i]);
    mr_free(all);
}

void mr_peers_free(mr_peers *p)
{
    if (!p)
        return;
    if (p->server)
        p->net->stop(p->server, INT64_C(1000000000));
    for (int i = 0; i < 2; i++)
        if (p->wake[i] >= 0)
            close(p->wake[i]);
    mr_net_keys_deinit(&p->keys);
    mr_free(p);
}
