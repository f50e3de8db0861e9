/* fed/simulated.c -- a queue of clients that have a task, and threads that carry the tasks out.
 *
 * A client is queued once for each request. A thread asks the coordinator for the task when it begins,
 * so a client whose stage has ended meanwhile costs nothing.
 *
 * Invariants: entries before `head` have been taken; a client's worker is used only under its `busy` lock. */
#include "fed/simulated.h"

#include "base/memory.h"

struct mr_fed_simulated {
    mr_fed_simulated_options o;
    mr_fed_coordinator *coordinator;
    mr_fed_worker *workers; /* one for each client, guarded by `busy` of the client */
    mr_mutex *busy;         /* a client asked again while it works waits for its earlier task */
    mr_thread *threads;
    int n_threads;
    mr_mutex mu;
    mr_cond work; /* queue is not empty, or stop */
    MR_VEC(int) queue MR_GUARDED_BY(mu);
    int head MR_GUARDED_BY(mu);
    _Atomic bool stop;
};

/* The `asked` callback of the coordinator; called from any thread. */
static void queue_client(void *arg, int client)
{
    mr_fed_simulated *s = arg;
    mr_lock(&s->mu);
    MR_ASSERT(client >= 0 && client < s->o.n_clients && s->head <= s->queue.n);
    if (s->head == s->queue.n)
        s->head = s->queue.n = 0;
    mr_vec_push(&s->queue, client);
    mr_cond_signal(&s->work);
    mr_unlock(&s->mu);
}

/* Waits for a client with a task; -1: the threads must end. */
static int next_client(mr_fed_simulated *s)
{
    int client = -1;
    mr_lock(&s->mu);
    while (s->head == s->queue.n && !s->stop)
        mr_cond_wait(&s->work, &s->mu);
    MR_ASSERT(s->head <= s->queue.n);
    if (!s->stop)
        client = s->queue.p[s->head++];
    mr_unlock(&s->mu);
    return client;
}

/* Decides by a hash of client, ticket and stage, so that a run can be repeated. */
static bool is_lost(const mr_fed_simulated *s, int client, const mr_fed_task *t)
{
    uint64_t key[4] = {s->o.coordinator.rounds.seed, (uint64_t)client, (uint64_t)t->ticket, (uint64_t)t->stage};
    return s->o.lose > 0 && (double)(mr_hash64(key, sizeof key) >> 11) * 0x1p-53 < s->o.lose;
}

/* The task of a thread, for is_useless, which is called between two training steps. */
typedef struct doing {
    mr_fed_simulated *s;
    int client;
    const mr_fed_task *task;
} doing;

/* Whether the result is no longer needed: a round with enough updates does not wait for the rest. */
static bool is_useless(void *arg)
{
    const doing *d = arg;
    return d->s->stop || !mr_fed_coordinator_waits(d->s->coordinator, d->client, d->task);
}

/* Runs one task of a client and delivers the answer. A lost client leaves and joins again. Training that is no
 * longer needed ends with CANCELLED, which is not an error. */
static void do_task(mr_fed_simulated *s, mr_learner *l, int client, const mr_fed_task *t)
{
    mr_fed_answer a;
    if (is_lost(s, client, t)) {
        mr_fed_coordinator_gone(s->coordinator, client);
        mr_fed_coordinator_join_as(s->coordinator, client);
        return;
    }
    doing d = {s, client, t};
    mr_status *st = mr_fed_worker_do(&s->workers[client], l, t, (mr_learner_stop){is_useless, &d}, &a);
    if (mr_status_code(st) == MR_CANCELLED && is_useless(&d))
        mr_status_free(st);
    else if (st) /* an error of the graph or memory would hit every client */
        mr_fed_coordinator_fail(s->coordinator, mr_status_prepend(st, "client %d: ", client));
    mr_status_free(mr_fed_coordinator_answer(s->coordinator, client, &a));
}

typedef struct place { /* of a thread */
    mr_fed_simulated *s;
    int index;
} place;

/* The body of a thread. Each thread has its own learner, because a session runs one client at a time. */
static void run_thread(void *arg)
{
    place p = *(place *)arg;
    mr_free(arg);
    for (int client; (client = next_client(p.s)) >= 0;) {
        mr_fed_task t;
        mr_lock(&p.s->busy[client]);
        if (mr_fed_coordinator_task(p.s->coordinator, client, &t))
            do_task(p.s, &p.s->o.learners[p.index], client, &t);
        mr_unlock(&p.s->busy[client]);
        mr_fed_task_deinit(&t);
    }
}

/* On failure, n_threads counts those that were started and must be joined. */
static mr_status *start_threads(mr_fed_simulated *s)
{
    for (; s->n_threads < s->o.n_learners; s->n_threads++) {
        place *p = mr_new(place);
        *p = (place){s, s->n_threads};
        if (mr_thread_start(&s->threads[s->n_threads], "mr-federated", run_thread, p) != 0) {
            mr_free(p);
            return mr_error(MR_RESOURCE_EXHAUSTED, "federated: cannot start a thread for clients");
        }
    }
    return NULL;
}

/* The examples of all clients are checked before the first round. */
static mr_status *check_options(const mr_fed_simulated_options *o)
{
    if (o->n_clients < 1 || o->n_learners < 1)
        return mr_invalid("federated: there must be at least one simulated client and one thread, not %d and %d",
                          o->n_clients, o->n_learners);
    if (!(o->lose >= 0 && o->lose <= 1))
        return mr_invalid("federated: the probability of losing a client must be 0 to 1, not %g", o->lose);
    for (int i = 0; i < o->n_clients; i++) {
        mr_status *st = mr_learner_check_examples(&o->learners[0], &o->clients[i]);
        if (st)
            return mr_status_prepend(st, "client %d: ", i);
    }
    return NULL;
}

/* Takes over the weights, also on failure. All clients join before the threads start. */
mr_status *mr_fed_simulated_new(const mr_fed_simulated_options *o, mr_fed_weights *weights, mr_fed_simulated **out)
{
    mr_status *st = check_options(o);
    if (st) {
        mr_fed_weights_unref(weights);
        return st;
    }
    mr_fed_simulated *s = mr_new(mr_fed_simulated);
    s->o = *o;
    s->o.coordinator.rounds.n_clients = o->n_clients;
    s->o.coordinator.asked = queue_client;
    s->o.coordinator.arg = s;
    mr_mutex_init(&s->mu);
    mr_cond_init(&s->work);
    s->workers = mr_new_array(mr_fed_worker, o->n_clients);
    s->busy = mr_new_array(mr_mutex, o->n_clients);
    s->threads = mr_new_array(mr_thread, o->n_learners);
    for (int i = 0; i < o->n_clients; i++) {
        s->workers[i].examples = o->clients[i];
        mr_mutex_init(&s->busy[i]);
    }
    /* No round runs yet, so joining asks no client for anything. */
    MR_GO(mr_fed_coordinator_new(&s->o.coordinator, weights, &s->coordinator));
    for (int i = 0; i < o->n_clients; i++)
        mr_fed_coordinator_join_as(s->coordinator, i);
    MR_GO(start_threads(s));
    *out = s;
    s = NULL;
out:
    mr_fed_simulated_free(s);
    return st;
}

/* Also frees what was made in part. The threads end before the coordinator is freed, because they call it. */
void mr_fed_simulated_free(mr_fed_simulated *s)
{
    if (!s)
        return;
    mr_lock(&s->mu);
    s->stop = true;
    mr_cond_broadcast(&s->work);
    mr_unlock(&s->mu);
    for (int i = 0; i < s->n_threads; i++)
        mr_thread_join(&s->threads[i]);
    mr_fed_coordinator_free(s->coordinator);
    for (int i = 0; i < s->o.n_clients; i++) {
        mr_fed_worker_deinit(&s->workers[i]);
        mr_mutex_deinit(&s->busy[i]);
    }
    mr_vec_deinit(&s->queue);
    mr_free(s->workers);
    mr_free(s->busy);
    mr_free(s->threads);
    mr_cond_deinit(&s->work);
    mr_mutex_deinit(&s->mu);
    mr_free(s);
}

mr_fed_coordinator *mr_fed_simulated_coordinator(mr_fed_simulated *s) { return s->coordinator; }
