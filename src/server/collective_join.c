/* server/collective_join.c -- groups whose members come and go: the leader's JoinCollective, and the
 * member's side of it.
 *
 * dist/elastic.c decides about generations. Each generation has a separate group key. When it is to
 * end, the leader tells all members of the group of that key that it is broken, and refuses to
 * complete it again, so they come and ask for the next one.
 *
 * A generation that worker 2 joins late:
 *
 *     worker 0, 1   JoinCollective -> leader                    generation 1, size 2
 *     worker 2      JoinCollective -> leader (waits)
 *     leader        AbortCollective -> worker 0, 1              generation 1 ends
 *     worker 0, 1   JoinCollective -> leader                    generation 2, size 3, for all three
 *
 * A call that waits is answered once: by the thread that sets `answered` under the lock.
 *
 *     JoinCollectiveRequest   1 name, 2 worker, 3 num_workers, 4 generation, 5 step + 1, 6 wait_ms, 7 settle_ms
 *     JoinCollectiveResponse  1 generation, 2 group_key, 3 size, 4 rank, 5 source */
#include "base/clock.h"
#include "base/memory.h"
#include "server/collective_internal.h"

#define TICK_NS (50 * INT64_C(1000000))
#define MAX_WAIT_MS (INT64_C(1) << 32)
enum { MAX_NAME = 256 };

/* Group keys of generations start here; those below belong to the clients. */
enum { KEY_BASE = 0x40000000, SLOT_BITS = 20 };

/* The group key of a generation: the slot of its group, and the low bits of its number. */
static int64_t key_of(int slot, int64_t generation)
{
    MR_ASSERT(slot >= 0 && slot < MR_ELASTIC_SLOTS);
    return KEY_BASE + ((int64_t)slot << SLOT_BITS) + (generation & ((1 << SLOT_BITS) - 1));
}

/* ---- answers ---- */

/* A JoinCollective that waits. */
typedef struct joiner {
    mr_refs refs; /* one for the handler of the call, one for the thread that answers it */
    mr_collectives *all;
    mr_net_call *call;
    int slot;
    bool answered; /* under the lock */
} joiner;

static void joiner_unref(joiner *j)
{
    if (mr_refs_drop(&j->refs))
        mr_free(j);
}

/* Marks the calls as answered, under the lock; reply_all follows without it. */
static void mark_locked(mr_elastic_answers *all)
{
    for (int i = 0; i < all->n; i++)
        ((joiner *)all->p[i].caller)->answered = true;
}

/* Sends the answers and drops the references for it. */
static void reply_all(mr_elastic_answers *all)
{
    for (int i = 0; i < all->n; i++) {
        const mr_elastic_answer *a = &all->p[i];
        joiner *j = a->caller;
        mr_str body = {0};
        mr_pb_writer w;
        mr_pb_writer_init(&w, &body);
        if (!a->st) {
            mr_pb_put_varint(&w, 1, (uint64_t)a->generation);
            mr_pb_put_varint(&w, 2, (uint64_t)key_of(j->slot, a->generation));
            mr_pb_put_varint(&w, 3, (uint64_t)a->size);
            mr_pb_put_varint(&w, 4, (uint64_t)a->rank);
            mr_pb_put_varint(&w, 5, (uint64_t)a->source);
        }
        mr_reply_str(j->call, a->st, &body);
        mr_str_deinit(&body);
        joiner_unref(j);
    }
    mr_vec_deinit(all);
}

/* The caller cancelled: it does not count as waiting any more. */
static void caller_left(void *arg, mr_net_call *call)
{
    joiner *j = arg;
    mr_lock(&j->all->mu);
    bool mine = !j->answered;
    j->answered = true;
    if (mine)
        mr_elastic_leave(&j->all->elastic[j->slot].e, j);
    mr_unlock(&j->all->mu);
    if (!mine)
        return;
    mr_reply(call, mr_error(MR_CANCELLED, "The call was cancelled"), NULL);
    joiner_unref(j);
}

/* ---- time ---- */

static void run_ticker(mr_timer *t);

/* Sets the timer if somebody waits and it is not set. */
static void arm_locked(mr_collectives *c) MR_REQUIRES(c->mu);
static void arm_locked(mr_collectives *c)
{
    bool waits = false;
    for (int i = 0; i < MR_ELASTIC_SLOTS; i++)
        waits |= mr_elastic_next_ns(&c->elastic[i].e) > 0;
    if (!waits || c->ticking || c->stopped)
        return;
    c->ticking = true;
    mr_timers_set(c->worker->host->timers, &c->ticker, mr_now_ns() + TICK_NS, run_ticker);
}

/* The timer: lets dist/elastic form generations whose waiting time is over. */
static void run_ticker(mr_timer *t)
{
    mr_collectives *c = (mr_collectives *)((char *)t - offsetof(mr_collectives, ticker));
    mr_elastic_answers out = {0};
    mr_lock(&c->mu);
    c->ticking = false;
    for (int i = 0; i < MR_ELASTIC_SLOTS && !c->stopped; i++)
        mr_elastic_tick(&c->elastic[i].e, mr_now_ns(), &out);
    mark_locked(&out);
    arm_locked(c);
    mr_unlock(&c->mu);
    reply_all(&out);
}

/* Answers all waiting calls; the task stops. Clearing the timer also waits for one that runs;
 * `stopped` keeps it from being set again. */
void mr_collectives_end_joining(mr_collectives *c, const mr_status *why)
{
    mr_elastic_answers out = {0};
    mr_lock(&c->mu);
    for (int i = 0; i < MR_ELASTIC_SLOTS; i++)
        mr_elastic_end(&c->elastic[i].e, why, &out);
    mark_locked(&out);
    c->ticking = false;
    mr_unlock(&c->mu);
    reply_all(&out);
    mr_timers_clear(c->worker->host->timers, &c->ticker);
}

/* ---- the end of a generation ---- */

/* Group keys from KEY_BASE on belong to generations, so the key alone decides. */
bool mr_collectives_is_generation(int64_t key)
{
    return key >= KEY_BASE && (key - KEY_BASE) >> SLOT_BITS < MR_ELASTIC_SLOTS;
}

/* A generation is over when its group has a newer one, or has no members. */
bool mr_collectives_is_over_locked(const mr_collectives *c, int64_t key)
{
    int64_t slot = (key - KEY_BASE) >> SLOT_BITS;
    if (!mr_collectives_is_generation(key))
        return false;
    const mr_elastic *e = &c->elastic[slot].e;
    return e->members.n == 0 || key_of((int)slot, e->generation) != key;
}

static uint64_t find_members_locked(mr_collectives *c, int64_t key, bool *tasks) MR_REQUIRES(c->mu);
/* The communicator of a generation's group, or 0 if it is not formed yet; marks the tasks of its
 * members. */
static uint64_t find_members_locked(mr_collectives *c, int64_t key, bool *tasks)
{
    uint32_t pos = 0;
    mr_sv text;
    void *v;
    while (mr_map_next(&c->led.records, &pos, &text, &v)) {
        const mr_group_record *g = v;
        if (g->key != key)
            continue;
        for (int i = 0; i < g->members.n; i++) {
            int task = mr_cluster_find_named(&c->worker->host->peers->cluster, mr_sv_of(g->members.p[i].device));
            if (task >= 0)
                tasks[task] = true;
        }
        return g->communicator;
    }
    return 0;
}

/* Ends a generation: its members are told, or, if the group is not complete, those who wait for that.
 * Takes reason. */
static void end_generation(mr_collectives *c, int64_t key, mr_status *reason)
{
    mr_task_peers *p = c->worker->host->peers;
    bool *tasks = mr_new_array(bool, p->cluster.tasks.n + 1);
    mr_lock(&c->mu);
    uint64_t communicator = find_members_locked(c, key, tasks);
    mr_unlock(&c->mu);
    mr_status *why = mr_error(MR_ABORTED, MR_ABORTED_BY "%s: %s", mr_task_peers_name(p), mr_status_message(reason));
    mr_status_free(reason);
    for (int i = 0; communicator && i < p->cluster.tasks.n; i++)
        if (tasks[i])
            mr_collectives_tell(c, p, i, communicator, why, false);
    if (communicator)
        mr_collectives_break_led(c, communicator, why);
    else
        mr_collectives_drop_led(c, key, why);
    mr_status_free(why);
    mr_free(tasks);
}

/* ---- JoinCollective ---- */

/* Parses and checks a JoinCollectiveRequest. It is checked completely here, so that a request that is
 * refused takes no slot. */
static mr_status *parse_join(mr_sv body, mr_sv *name, mr_elastic_ask *a)
{
    mr_pb_reader r;
    uint32_t field, wire;
    int64_t wait_ms = 0, settle_ms = 0;
    *a = (mr_elastic_ask){0};
    *name = MR_SV("");
    mr_pb_reader_init(&r, body);
    while (mr_pb_next(&r, &field, &wire))
        switch (field) {
        case 1: *name = mr_pb_bytes(&r); break;
        case 2: a->worker = mr_pb_int64(&r); break;
        case 3: a->n_workers = mr_pb_int64(&r); break;
        case 4: a->generation = mr_pb_int64(&r); break;
        case 5: a->step = mr_pb_int64(&r); break;
        case 6: wait_ms = mr_pb_int64(&r); break;
        case 7: settle_ms = mr_pb_int64(&r); break;
        default: mr_pb_skip(&r);
        }
    MR_TRY(mr_pb_reader_status(&r, "JoinCollectiveRequest"));
    if (name->n > MAX_NAME)
        return mr_invalid("JoinCollective: the group's name has %zu bytes; the maximum is %d", name->n, MAX_NAME);
    if (wait_ms < 0 || wait_ms > MAX_WAIT_MS || settle_ms < 0 || settle_ms > MAX_WAIT_MS)
        return mr_invalid("JoinCollective: wait_ms is %lld and settle_ms is %lld; both must be between 0 and %lld",
                          (long long)wait_ms, (long long)settle_ms, (long long)MAX_WAIT_MS);
    a->wait_ns = wait_ms * 1000000;
    a->settle_ns = settle_ms * 1000000;
    a->step -= a->step > INT64_MIN; /* it is sent plus 1 */
    return mr_elastic_check(a);
}

static int find_slot_locked(mr_collectives *c, mr_sv name, int64_t now_ns, int64_t *ends) MR_REQUIRES(c->mu);
/* The slot of the group of this name: its own, a free one, or that of an idle group, whose generation
 * (*ends, 0: none) ends then. -1: all slots are in use. */
static int find_slot_locked(mr_collectives *c, mr_sv name, int64_t now_ns, int64_t *ends)
{
    int place = -1;
    *ends = 0;
    /* Downwards, so that of several free slots the first is taken; a free slot is better than an idle one. */
    for (int i = MR_ELASTIC_SLOTS - 1; i >= 0; i--) {
        if (c->elastic[i].name && mr_sv_is(name, c->elastic[i].name)) {
            if (mr_elastic_is_idle(&c->elastic[i].e, now_ns))
                c->elastic[i].e.newest_ns = now_ns; /* it is about to be used, so it is not idle any more */
            return i;
        }
        bool idle = mr_elastic_is_idle(&c->elastic[i].e, now_ns);
        if (!c->elastic[i].name || (idle && (place < 0 || c->elastic[place].name)))
            place = i;
    }
    if (place < 0)
        return -1;
    *ends = mr_elastic_hand_over(&c->elastic[place].e, now_ns);
    mr_free(c->elastic[place].name);
    c->elastic[place].name = mr_strndup(name.p, name.n);
    return place;
}

/* Passes the request to dist/elastic. The call may be answered in here, or may have been cancelled
 * already. */
static void ask_to_join(mr_collectives *c, joiner *j, mr_elastic_ask *a)
{
    mr_elastic_answers out = {0};
    int64_t ends = 0;
    /* The cancellation is registered first: from then on either the answer or the cancellation ends the call. */
    mr_refs_take(&j->refs);
    if (!j->call->net->on_cancel(j->call, caller_left, j))
        caller_left(j, j->call);
    mr_lock(&c->mu);
    if (j->answered)
        ;
    else if (c->stopped)
        mr_vec_push(&out, (mr_elastic_answer){.caller = j, .st = mr_status_copy(c->stopped)});
    else
        mr_elastic_step(&c->elastic[j->slot].e, a, mr_now_ns(), &out, &ends);
    mark_locked(&out);
    arm_locked(c);
    mr_unlock(&c->mu);
    if (ends)
        end_generation(c, key_of(j->slot, ends),
                       mr_error(MR_ABORTED, "worker %lld asks for a new generation", (long long)a->worker));
    reply_all(&out);
}

/* Handles JoinCollective. */
void mr_collectives_join(mr_collectives *c, mr_net_call *call, mr_sv body)
{
    mr_elastic_ask a;
    mr_sv name;
    int64_t ends = 0;
    mr_status *st = parse_join(body, &name, &a);
    mr_lock(&c->mu);
    int slot = st ? -1 : find_slot_locked(c, name, mr_now_ns(), &ends);
    mr_unlock(&c->mu);
    if (ends)
        end_generation(c, key_of(slot, ends), mr_error(MR_ABORTED, "the group was idle, and another one replaced it"));
    if (!st && slot < 0)
        st = mr_error(MR_RESOURCE_EXHAUSTED, "JoinCollective: all %d groups are in use; try again later",
                      MR_ELASTIC_SLOTS);
    if (st) {
        mr_reply(call, st, NULL);
        return;
    }
    joiner *j = mr_new(joiner);
    mr_refs_init(&j->refs);
    j->all = c;
    j->call = call;
    j->slot = slot;
    a.caller = j;
    ask_to_join(c, j, &a);
    joiner_unref(j);
}

/* ---- asking ---- */

/* A JoinCollective that a thread of this task waits for; on its stack. */
typedef struct waited {
    mr_net_request request; /* first */
    mr_mutex mu;
    mr_cond changed;
    bool done;
    mr_status *st;
    mr_joined *out;
    mr_cancel_entry on_cancel;
    mr_task_peers *peers;
    int leader;
} waited;

/* Parses and checks the leader's answer, so that the caller may use its numbers as indices. */
static mr_status *read_answer(mr_bytes *reply, mr_joined *out)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_sv body;
    int64_t v[6] = {0};
    MR_TRY(mr_bytes_flat(reply, &body));
    mr_pb_reader_init(&r, body);
    while (mr_pb_next(&r, &field, &wire))
        if (field >= 1 && field <= 5)
            v[field] = mr_pb_int64(&r);
        else
            mr_pb_skip(&r);
    MR_TRY(mr_pb_reader_status(&r, "JoinCollectiveResponse"));
    if (v[1] < 1 || v[2] < 0 || v[2] > INT32_MAX || v[3] < 1 || v[3] > MR_ELASTIC_MAX_WORKERS || v[4] < 0 ||
        v[4] >= v[3] || v[5] < 0 || v[5] >= v[3])
        return mr_error(MR_INTERNAL, "The group leader's answer is invalid: member %lld of %lld", (long long)v[4],
                        (long long)v[3]);
    *out = (mr_joined){v[1], (int)v[2], (int)v[3], (int)v[4], (int)v[5]};
    return NULL;
}

/* The call has ended. The lock is held until the end of the broadcast, because the waiter frees w when
 * it sees `done`. */
static void join_answered(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    waited *w = (waited *)r;
    if (!st)
        st = read_answer(reply, w->out);
    mr_lock(&w->mu);
    MR_ASSERT(!w->done);
    w->st = st;
    w->done = true;
    mr_cond_broadcast(&w->changed);
    mr_unlock(&w->mu);
}

/* The client gave up: the call ends with CANCELLED, and wakes the waiter. */
static void cancel_asking(mr_cancel_entry *e)
{
    waited *w = (waited *)((char *)e - offsetof(waited, on_cancel));
    mr_task_peers_cancel(w->peers, w->leader, &w->request);
}

/* Encodes a JoinCollectiveRequest. Field 5 is the step plus 1, so that 0 means no state. */
static void encode_ask(const mr_join *q, mr_str *body)
{
    mr_pb_writer pb;
    mr_pb_writer_init(&pb, body);
    mr_pb_put_bytes(&pb, 1, mr_sv_of(q->name ? q->name : ""));
    mr_pb_put_varint(&pb, 2, (uint64_t)q->worker);
    mr_pb_put_varint(&pb, 3, (uint64_t)q->n_workers);
    mr_pb_put_varint(&pb, 4, (uint64_t)q->generation);
    mr_pb_put_varint(&pb, 5, (uint64_t)q->step + 1);
    mr_pb_put_varint(&pb, 6, (uint64_t)q->wait_ms);
    mr_pb_put_varint(&pb, 7, (uint64_t)q->settle_ms);
}

/* Waits for the call, which is cancelled when `cancel` (may be NULL) starts. */
static void wait_until_done(waited *w, mr_cancel *cancel)
{
    if (cancel && !mr_cancel_register(cancel, &w->on_cancel))
        cancel_asking(&w->on_cancel);
    mr_lock(&w->mu);
    while (!w->done)
        mr_cond_wait(&w->changed, &w->mu);
    mr_unlock(&w->mu);
    if (cancel)
        mr_cancel_unregister(cancel, &w->on_cancel);
}

/* Blocks the calling thread, which is the client's. */
mr_status *mr_collectives_ask_to_join(mr_collectives *c, const mr_join *q, mr_joined *out)
{
    mr_task_peers *p = c->worker->host->peers;
    int leader = mr_collectives_leader_of(c, p, NULL);
    int64_t deadline = q->deadline_ms > 0 ? mr_now_ns() + MR_MIN(q->deadline_ms, MAX_WAIT_MS) * 1000000 : 0;
    waited w = {.request = {.method = MR_WORKER_SERVICE "JoinCollective", .done = join_answered, .wait_for_ready = true,
                            .deadline_ns = deadline},
                .out = out, .on_cancel.fn = cancel_asking, .peers = p, .leader = leader};
    mr_str body = {0};
    encode_ask(q, &body);
    mr_bytes_add_str(&w.request.body, &body);
    mr_mutex_init(&w.mu);
    mr_cond_init(&w.changed);
    mr_task_peers_ask(p, leader, &w.request);
    wait_until_done(&w, q->cancel);
    MR_ASSERT(w.done);
    mr_cond_deinit(&w.changed);
    mr_mutex_deinit(&w.mu);
    return w.st ? mr_status_prepend(w.st, "From %s:\n", mr_task_peers_task(p, leader)->name) : NULL;
}
