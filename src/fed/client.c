/* fed/client.c -- a client of a server in another process: connects, asks for tasks, carries them out, sends the
 * answers.
 *
 * One Stay call is open all the time; when it ends, training ends between two steps. A client whose
 * server is gone tries to reach it again, with growing pauses, until the deadline. Each connection has
 * a new random name and knows nothing of earlier rounds. */
#include "fed/client.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/long_wait.h"
#include "fed/server.h"
#include "server/routes.h"

#define MS INT64_C(1000000)
#define WORK_NS (60000 * MS)     /* the server keeps a call pending for at most two seconds */
#define QUICK_NS (100 * MS)      /* if the server answers "wait" sooner than this, the client pauses */
#define PAUSE_NS (20 * MS)
#define LOOK_NS (100 * MS)
#define LONGEST_PAUSE_NS (2000 * MS)

/* One call that is waited for. It is on the stack of the waiter, so every path waits for its end before it returns. */
typedef struct asking {
    mr_net_request r; /* first */
    mr_mutex mu;
    mr_cond changed;
    bool done MR_GUARDED_BY(mu);
    mr_status *st;
    mr_bytes reply;
    _Atomic bool *also; /* also set at its end; may be NULL */
} asking;

/* The `done` of a call, on a thread of the transport. Everything is set under the lock, so the waiter may free the
 * call as soon as it has seen `done`. */
static void call_ended(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    asking *a = (asking *)r;
    mr_lock(&a->mu);
    a->st = st;
    mr_bytes_append(&a->reply, reply);
    a->done = true;
    if (a->also)
        *a->also = true;
    mr_cond_broadcast(&a->changed);
    mr_unlock(&a->mu);
}

/* Takes over the body. The call is not started yet. */
static void asking_init(asking *a, const char *method, mr_str *body, int64_t deadline_ns, _Atomic bool *also)
{
    *a = (asking){.r = {.method = method, .done = call_ended, .wait_for_ready = true, .deadline_ns = deadline_ns},
                  .also = also};
    mr_bytes_add_str(&a->r.body, body);
    mr_mutex_init(&a->mu);
    mr_cond_init(&a->changed);
}

/* Waits without a limit: a call that was cancelled ends soon. */
static void asking_wait(asking *a)
{
    mr_lock(&a->mu);
    while (!a->done)
        mr_cond_wait(&a->changed, &a->mu);
    mr_unlock(&a->mu);
}

static bool is_stopped(const mr_fed_client_options *o) { return o->stop && __atomic_load_n(o->stop, __ATOMIC_RELAXED); }

/* Waits for the call; cancels it when the client must stop. */
static void asking_watch(asking *a, const mr_fed_client_options *o, mr_net *net)
{
    mr_long_wait wait;
    mr_long_wait_begin(&wait, mr_now_ns());
    mr_lock(&a->mu);
    while (!a->done && !is_stopped(o))
        mr_long_wait_cond(&wait, &a->changed, &a->mu, mr_now_ns() + LOOK_NS,
                          "the federated server at %s: it does not answer", o->address);
    mr_unlock(&a->mu);
    if (is_stopped(o))
        net->cancel(&a->r);
    asking_wait(a);
}

static void asking_deinit(asking *a)
{
    MR_ASSERT(a->done);
    mr_status_free(a->st);
    mr_bytes_deinit(&a->reply);
    mr_cond_deinit(&a->changed);
    mr_mutex_deinit(&a->mu);
}

typedef struct visit { /* one connection, from Stay to its end */
    const mr_fed_client_options *o;
    mr_net *net;
    mr_net_peer *peer;
    uint64_t name[2];
    mr_fed_worker worker;
    _Atomic bool over; /* Stay has ended */
    int64_t heard_ns;
    mr_long_wait idle; /* for logging, since it has no task */
    int64_t *updates;
} visit;

static mr_sv name_of(const visit *v) { return (mr_sv){(const char *)v->name, sizeof v->name}; }

/* Sends an answer and gets a task. The first call also waits for the server to start. */
static mr_status *ask_for_work(visit *v, const mr_fed_answer *a, mr_fed_task *out)
{
    asking q;
    mr_str body = {0};
    mr_sv flat;
    mr_status *st = mr_fed_answer_encode(name_of(v), a, &body);
    if (st) {
        mr_str_deinit(&body);
        return st;
    }
    /* A server that has answered before keeps calls for two seconds only, so a longer silence means that it is lost. */
    int64_t wait = v->heard_ns ? WORK_NS : v->o->deadline_ns;
    asking_init(&q, MR_FED_WORK_METHOD, &body, mr_now_ns() + wait, NULL);
    v->net->start(v->peer, &q.r);
    asking_watch(&q, v->o, v->net);
    st = q.st;
    q.st = NULL;
    if (!st)
        st = mr_bytes_flat(&q.reply, &flat);
    if (!st)
        st = mr_fed_task_decode(flat, out);
    if (!st)
        v->heard_ns = mr_now_ns();
    asking_deinit(&q);
    return st;
}

/* Asked between two training steps. */
static bool is_over(void *arg)
{
    visit *v = arg;
    return v->over || is_stopped(v->o);
}

/* A client that insists on secure rounds refuses plain ones before it trains. */
static mr_status *do_task(visit *v, const mr_fed_task *t, mr_fed_answer *a)
{
    if (v->o->secure && !t->config.secure) {
        *a = (mr_fed_answer){.ticket = t->ticket, .stage = t->stage, .refused = true};
        mr_str_appendz(&a->body, "this client only takes part in secure rounds");
        return NULL;
    }
    return mr_fed_worker_do(&v->worker, v->o->learner, t, (mr_learner_stop){is_over, v}, a);
}

/* One exchange: sends *a, gets a task, and leaves the answer to it in *a. An update counts as delivered once the
 * server has replied. */
static mr_status *exchange_task(visit *v, mr_fed_answer *a, bool *end)
{
    mr_fed_task t;
    int64_t start_ns = mr_now_ns();
    bool update = a->stage == MR_FED_TRAIN && !a->refused;
    MR_TRY(ask_for_work(v, a, &t));
    *v->updates += update;
    mr_fed_answer_deinit(a);
    mr_status *st = NULL;
    double seconds;
    *end = t.kind == MR_FED_END;
    if (t.kind == MR_FED_WORK) {
        st = do_task(v, &t, a);
        mr_long_wait_begin(&v->idle, mr_now_ns());
    } else if (!*end) {
        if (mr_long_wait_due(&v->idle, mr_now_ns(), &seconds))
            mr_info("Still waiting for the federated server at %s: it has no task for this client (%.0f s)",
                    v->o->address, seconds);
        if (mr_now_ns() - start_ns < QUICK_NS)
            mr_sleep_ns(PAUSE_NS);
    }
    mr_fed_task_deinit(&t);
    return st;
}

/* Reads how Stay ended: with an error, or with a task that may be END. */
static mr_status *how_it_ended(asking *stay, bool *end)
{
    mr_fed_task t;
    mr_sv flat;
    mr_status *st = stay->st;
    MR_ASSERT(stay->done);
    stay->st = NULL;
    if (!st)
        st = mr_bytes_flat(&stay->reply, &flat);
    MR_TRY(st);
    MR_TRY(mr_fed_task_decode(flat, &t));
    *end = t.kind == MR_FED_END;
    mr_fed_task_deinit(&t);
    return NULL;
}

/* Works until the end or an error. If Stay ended first, its result counts, not that of the interrupted
 * training. */
static mr_status *work_until_end(visit *v, asking *stay, bool *end)
{
    mr_fed_answer a = {0};
    mr_status *st = NULL;
    MR_ASSERT(!*end);
    while (!st && !*end && !is_over(v))
        st = exchange_task(v, &a, end);
    mr_fed_answer_deinit(&a);
    if (*end)
        return st;
    /* Whether Stay ended by itself must be read before it is cancelled here. */
    bool over = v->over;
    v->net->cancel(&stay->r);
    asking_wait(stay);
    if (!over)
        return st;
    mr_status_free(st);
    return how_it_ended(stay, end);
}

/* One connection: opens Stay, works until it ends, and disconnects. *heard_ns is updated only if the server has
 * answered. On every path the Stay call has ended before it is freed. */
static mr_status *pay_visit(const mr_fed_client_options *o, int64_t *heard_ns, int64_t *updates, bool *end)
{
    visit v = {.o = o, .name = {mr_random64(), mr_random64()}, .worker.examples = o->examples, .updates = updates};
    asking stay;
    mr_str body = {0};
    mr_long_wait_begin(&v.idle, mr_now_ns());
    MR_TRY(mr_route_to(o->address, NULL, NULL, &v.net, &v.peer));
    mr_status *st = mr_fed_answer_encode(name_of(&v), &(mr_fed_answer){0}, &body);
    if (!st) {
        asking_init(&stay, MR_FED_STAY, &body, 0, &v.over);
        v.net->start(v.peer, &stay.r);
        st = work_until_end(&v, &stay, end);
        v.net->cancel(&stay.r);
        asking_wait(&stay);
        asking_deinit(&stay);
    }
    if (v.heard_ns)
        *heard_ns = v.heard_ns;
    mr_str_deinit(&body);
    v.net->disconnect(v.peer);
    mr_fed_worker_deinit(&v.worker);
    return st;
}

/* True for errors that a new connection may not have: the server restarts, or the network fails for a while. */
static bool may_pass(const mr_status *st)
{
    mr_code c = mr_status_code(st);
    return c == MR_OK || c == MR_UNAVAILABLE || c == MR_CANCELLED || c == MR_DEADLINE_EXCEEDED || c == MR_ABORTED;
}

/* Connects again after errors that may pass, until the server says that it is over, the client is
 * stopped, or the server has been silent for deadline_ns. */
mr_status *mr_fed_client_run(const mr_fed_client_options *o, int64_t *updates)
{
    int64_t heard_ns = mr_now_ns(), pause_ns = PAUSE_NS;
    bool end = false;
    const mr_crypto *crypto;
    *updates = 0;
    if (o->secure)
        MR_TRY(mr_crypto_open(&crypto)); /* it could not do what it insists on */
    for (;;) {
        int64_t before = heard_ns;
        mr_status *st = pay_visit(o, &heard_ns, updates, &end);
        if (end) {
            mr_status_free(st);
            return NULL;
        }
        if (is_stopped(o)) {
            mr_status_free(st);
            return mr_error(MR_CANCELLED, "federated: the client was stopped");
        }
        if (!may_pass(st) || mr_now_ns() - heard_ns >= o->deadline_ns)
            return st ? mr_status_prepend(st, "federated server %s: ", o->address)
                      : mr_error(MR_UNAVAILABLE, "federated server %s does not answer any more", o->address);
        mr_status_free(st);
        /* A server that answered during the last connection is tried again soon; otherwise the pauses grow. */
        pause_ns = heard_ns > before ? PAUSE_NS : MR_MIN(2 * pause_ns, LONGEST_PAUSE_NS);
        mr_sleep_ns(pause_ns);
    }
}
