/* server/round.c -- the same call to several tasks.
 *
 * n_left counts the calls and the function that starts them; the last one calls `done` and frees the
 * round. An error of one task does not end the others. ListDevices and Reset of the whole cluster are
 * rounds. */
#include "server/round.h"

#include "base/memory.h"
#include "server/wire.h"

typedef struct mr_round mr_round;

/* The call to one task. */
typedef struct round_call {
    mr_net_request request; /* first */
    mr_round *round;
    int task;
} round_call;

/* All calls of a round; freed with the last of them. */
struct mr_round {
    mr_host *host;
    mr_round_fn done;
    void *arg;
    int n_tasks;
    mr_mutex mu;
    int n_left MR_GUARDED_BY(mu);
    mr_status *st MR_GUARDED_BY(mu);
    round_call *calls; /* by task */
    mr_str *replies;
};

/* A call has ended. `done` may let the host be freed, so only the round's own memory is used after it. */
static void one_less_call(mr_round *r)
{
    mr_lock(&r->mu);
    MR_ASSERT(r->n_left > 0);
    bool last = --r->n_left == 0;
    mr_unlock(&r->mu);
    if (!last)
        return;
    r->done(r->arg, r->st, r->replies);
    for (int i = 0; i < r->n_tasks; i++)
        mr_str_deinit(&r->replies[i]);
    mr_free(r->replies);
    mr_mutex_deinit(&r->mu);
    mr_free(r->calls);
    mr_free(r);
}

/* Keeps the reply, or the first error. */
static void call_answered(mr_net_request *q, mr_status *st, mr_bytes *reply)
{
    round_call *c = (round_call *)q;
    mr_round *r = c->round;
    mr_sv bytes;
    st = mr_wire_unmark(st);
    if (!st && !(st = mr_bytes_flat(reply, &bytes)))
        mr_str_append(&r->replies[c->task], bytes.p ? bytes.p : "", bytes.n);
    if (st)
        mr_status_prepend(st, "From %s:\n", mr_task_peers_task(r->host->peers, c->task)->name);
    MR_ASSERT(c->task >= 0 && c->task < r->n_tasks);
    mr_lock(&r->mu);
    mr_status_update(&r->st, st);
    mr_unlock(&r->mu);
    one_less_call(r);
}

/* The body is copied for each task, since each call takes its own. n_left is complete before the first call is sent,
 * because a call inside this process may end before mr_task_peers_ask returns. */
void mr_round_start(mr_host *h, const bool *asked, const char *method, mr_sv body, int64_t deadline_ns,
                    mr_round_fn done, void *arg)
{
    int n = h->peers->cluster.tasks.n;
    mr_round *r = mr_new(mr_round);
    *r = (mr_round){.host = h, .done = done, .arg = arg, .n_tasks = n, .n_left = 1}; /* 1: this function */
    mr_mutex_init(&r->mu);
    r->calls = mr_new_array(round_call, n + 1);
    r->replies = mr_new_array(mr_str, n + 1);
    for (int i = 0; i < n; i++)
        r->n_left += asked[i];
    for (int i = 0; i < n; i++) {
        if (!asked[i])
            continue;
        round_call *c = &r->calls[i];
        c->request = (mr_net_request){.method = method, .deadline_ns = deadline_ns, .done = call_answered};
        mr_bytes_add_copy(&c->request.body, body.p ? body.p : "", body.n);
        c->round = r;
        c->task = i;
        mr_task_peers_ask(h->peers, i, &c->request);
    }
    one_less_call(r);
}
