/* sim/train/ring.c -- training by all-reduce: workers in a ring, without parameter servers.
 *
 * Every worker has all parameters. The members of a generation begin a step together. When all have computed the
 * gradients of a chunk, it is reduced in the ring; chunks follow one after the other, the last one first, as
 * back-propagation computes them. When the last one is reduced, the step is applied and the next begins.
 *
 * dist/elastic.c decides who is a member. A crash of a process is noticed at once, because its connections are refused,
 * the failure of a host and a cut after the lease. Then the generation ends without having changed anything, and the
 * others join the next one. A worker that comes back ends the generation, too. Each generation begins with a copy of the
 * parameters of its source. If no member has any, because all were lost, the newest checkpoint is restored.
 *
 * Events of the ring belong to no task; their argument is the epoch, which rises when the ring stops. */
#include <math.h>

#include "base/memory.h"
#include "sim/train/engine.h"

#define FIRST_WAIT_NS INT64_C(60000000000) /* as train/all_reduce.c: for all workers at the start, and */
#define SETTLE_NS INT64_C(500000000)       /* for the others in a later generation */

enum { ASKS_AN_EVENT = 64 }; /* of dist/elastic.c, which goes through all of them at each ask */

static void ask_to_join(mr_jobsim *s, int worker);

bool mr_jobsim_ring_init(mr_jobsim *s)
{
    mr_jobsim_ring *r = &s->ring;
    const mr_simtrain_job *j = s->job;
    r->lost = -1;
    for (int i = 0; i < j->n_chunks; i++)
        r->bytes += j->chunks[i].bytes;
    return (r->members = mr_try_calloc((size_t)s->n_workers, sizeof *r->members)) &&
           (r->ready = mr_try_calloc((size_t)j->n_chunks + 1, sizeof *r->ready));
}

void mr_jobsim_ring_deinit(mr_jobsim *s)
{
    mr_elastic_deinit(&s->ring.elastic);
    mr_free(s->ring.members);
    mr_free(s->ring.ready);
}

/* Also after it has crashed. */
static bool was_formed_with(const mr_jobsim *s, int worker)
{
    for (int i = 0; i < s->ring.size; i++)
        if (s->ring.members[i] == worker)
            return true;
    return false;
}

/* ---- exchanges ---- */

/* When an exchange of all members ends that begins now. If a member is cut off, it waits; if a cut begins meanwhile, it
 * is repeated. */
static double exchange_end(const mr_jobsim *s, double takes_s)
{
    const mr_jobsim_ring *r = &s->ring;
    double begins_s = s->now_s;
    for (bool waits = r->size > 1 && s->cuts; waits;) {
        waits = false;
        for (int i = 0; i < r->size; i++) {
            double later_s = mr_jobsim_leaves(s, r->members[i], MR_JOBSIM_ALL_PS, begins_s, takes_s);
            waits |= later_s > begins_s;
            begins_s = later_s;
        }
    }
    return begins_s + takes_s;
}

/* 2 (n - 1) phases, in each of which a member sends an n-th of the chunk to the next one. */
static double reduce_s(const mr_jobsim *s, int chunk)
{
    double n = s->ring.size, per_s = s->job->worker_bytes_per_s;
    return 2 * (n - 1) * (s->job->latency_s + (per_s > 0 ? s->job->chunks[chunk].bytes / n / per_s : 0));
}

static int next_chunk(const mr_jobsim *s, int below)
{
    int chunk = below - 1;
    while (chunk >= 0 && !(s->job->chunks[chunk].bytes > 0))
        chunk--;
    return chunk;
}

static void begin_step(mr_jobsim *s)
{
    mr_jobsim_ring *r = &s->ring;
    memset(r->ready, 0, (size_t)s->job->n_chunks * sizeof *r->ready);
    r->at = next_chunk(s, s->job->n_chunks);
    r->n_computed = 0;
    r->is_busy = false;
    for (int i = 0; i < r->size; i++)
        mr_jobsim_begin(s, r->members[i], 0);
}

/* A worker that has computed waits for the others, and then for the rest of the exchange. */
static void end_step(mr_jobsim *s)
{
    mr_jobsim_ring *r = &s->ring;
    for (int i = 0; i < r->size; i++) {
        mr_jobsim_worker *w = &s->workers[r->members[i]];
        int worker = r->members[i], step = (int)w->clock;
        mr_jobsim_span(s, MR_SIMTRAIN_WORKER, worker, MR_SIMTRAIN_WAIT, -1, step, w->free_s, r->computed_s);
        mr_jobsim_span(s, MR_SIMTRAIN_WORKER, worker, MR_SIMTRAIN_REDUCE, -1, step, r->computed_s, s->now_s);
        w->sum.wait_s += MR_MAX(0, r->computed_s - MR_MAX(w->free_s, s->warm_s));
        w->sum.push_s += s->now_s - MR_MAX(r->computed_s, s->warm_s);
        w->sum.steps++;
        w->free_s = s->now_s;
        w->phase = MR_JOBSIM_IDLE;
        w->clock++;
    }
    s->workers[r->last].sum.last++;
    if (s->warm)
        mr_jobsim_sample(&s->steps, s->now_s - s->update_s);
    mr_jobsim_count_updates(s, r->size, 1);
    for (int i = 0; i < r->size; i++)
        s->workers[r->members[i]].held = s->done;
    if (!s->ended)
        begin_step(s);
}

static void chunk_reduced(mr_jobsim *s, int none, int epoch);

/* Begins what can begin: the next chunk, or the next step. */
static void drive_ring(mr_jobsim *s)
{
    mr_jobsim_ring *r = &s->ring;
    if (r->is_busy || r->is_broken)
        return;
    if (r->at < 0) {
        if (r->n_computed == r->size)
            end_step(s);
        return;
    }
    if (r->ready[r->at] < r->size)
        return;
    double takes_s = reduce_s(s, r->at), end_s = exchange_end(s, takes_s);
    r->is_busy = true;
    for (int i = 0; i < r->size; i++) /* in both directions */
        s->workers[r->members[i]].nic_s += 2 * (takes_s - 2 * (r->size - 1) * s->job->latency_s);
    mr_jobsim_after(s, -1, end_s - s->now_s, chunk_reduced, r->epoch);
}

static void chunk_reduced(mr_jobsim *s, int none, int epoch)
{
    (void)none;
    if (epoch != s->ring.epoch)
        return;
    s->ring.is_busy = false;
    s->ring.at = next_chunk(s, s->ring.at);
    drive_ring(s);
}

void mr_jobsim_ring_ready(mr_jobsim *s, int worker, int chunk)
{
    (void)worker;
    MR_ASSERT(s->ring.ready[chunk] < s->ring.size);
    s->ring.ready[chunk]++;
    drive_ring(s);
}

void mr_jobsim_ring_computed(mr_jobsim *s, int worker)
{
    MR_ASSERT(s->ring.n_computed < s->ring.size);
    s->ring.n_computed++;
    s->ring.last = worker;
    s->ring.computed_s = s->now_s;
    drive_ring(s);
}

/* ---- generations ---- */

/* Records what all members did since they were last free, and adds the time to their sums: fetching or waiting. */
static void members_did(mr_jobsim *s, mr_simtrain_doing doing)
{
    for (int i = 0; i < s->ring.size; i++) {
        int worker = s->ring.members[i];
        mr_jobsim_worker *w = &s->workers[worker];
        double *sum = doing == MR_SIMTRAIN_FETCH ? &w->sum.fetch_s : &w->sum.wait_s;
        mr_jobsim_span(s, MR_SIMTRAIN_WORKER, worker, doing, -1, (int)w->clock, w->free_s, s->now_s);
        *sum += s->now_s - MR_MAX(w->free_s, s->warm_s);
        w->free_s = s->now_s;
    }
}

/* All members have the parameters, so the step begins. */
static void parameters_copied(mr_jobsim *s, int none, int epoch)
{
    (void)none;
    mr_jobsim_ring *r = &s->ring;
    if (epoch != r->epoch)
        return;
    members_did(s, MR_SIMTRAIN_FETCH);
    for (int i = 0; i < r->size; i++) {
        mr_jobsim_worker *w = &s->workers[r->members[i]];
        w->held = s->done;
        w->clock = MR_MAX(w->clock, s->done);
    }
    begin_step(s);
}

/* The members forward what they receive, so all have it soon after the first. */
static void copy_parameters(mr_jobsim *s)
{
    mr_jobsim_ring *r = &s->ring;
    double per_s = s->job->worker_bytes_per_s;
    double takes_s = r->size > 1 ? s->job->latency_s + (per_s > 0 ? r->bytes / per_s : 0) : 0;
    mr_jobsim_after(s, -1, exchange_end(s, takes_s) - s->now_s, parameters_copied, r->epoch);
}

static void checkpoint_restored(mr_jobsim *s, int none, int epoch)
{
    (void)none;
    mr_jobsim_ring *r = &s->ring;
    if (epoch != r->epoch)
        return;
    mr_jobsim_restored_ring(s, r->lost);
    r->lost = -1;
    s->workers[r->source].held = s->done;
    copy_parameters(s);
}

/* A worker that still has the parameters, but is cut off, will join: then it is the source. Restoring a checkpoint
 * before would lose what it has. */
static void get_parameters(mr_jobsim *s)
{
    mr_jobsim_ring *r = &s->ring;
    if (s->workers[r->source].held >= 0)
        copy_parameters(s);
    else if (r->lost >= 0)
        mr_jobsim_after(s, -1, isnan(s->checkpoint.at_s) ? 0 : s->job->restore_s, checkpoint_restored, r->epoch);
    else
        r->is_waiting = true;
}

/* The answers have arrived. */
static void generation_formed(mr_jobsim *s, int none, int epoch)
{
    (void)none;
    mr_jobsim_ring *r = &s->ring;
    if (epoch != r->epoch)
        return;
    members_did(s, MR_SIMTRAIN_WAIT);
    get_parameters(s);
}

/* The first member is the chief, which saves checkpoints. */
static void form_generation(mr_jobsim *s, int source)
{
    mr_jobsim_ring *r = &s->ring;
    const mr_elastic *e = &r->elastic;
    r->size = e->members.n;
    r->is_broken = r->is_waiting = false;
    r->epoch++;
    for (int i = 0; i < r->size; i++) {
        r->members[i] = (int)e->members.p[i];
        s->workers[r->members[i]].stamp = e->generation;
        s->workers[r->members[i]].is_member = true;
    }
    r->source = r->members[source];
    mr_jobsim_set_chief(s, r->members[0]);
    mr_jobsim_after(s, -1, s->job->latency_s, generation_formed, r->epoch);
}

/* A worker whose ask is replaced by a later one has asked again itself, so the refusal of the earlier is not needed. */
static void take_answers(mr_jobsim *s, mr_elastic_answers *answers)
{
    int source = -1;
    for (int i = 0; i < answers->n; i++) {
        if (!answers->p[i].st)
            source = answers->p[i].source;
        mr_status_free(answers->p[i].st);
    }
    mr_vec_deinit(answers);
    if (source >= 0)
        form_generation(s, source);
}

/* The step has failed: nothing has changed, and the members that still run ask for the next generation. */
static void end_generation(mr_jobsim *s)
{
    mr_jobsim_ring *r = &s->ring;
    int n = r->size;
    r->size = 0;
    r->epoch++;
    for (int i = 0; i < n; i++) {
        mr_jobsim_worker *w = &s->workers[r->members[i]];
        if (!w->is_member) /* it has crashed; if it is back, it has asked already */
            continue;
        w->is_member = false;
        int64_t generation = w->stamp;
        w->sum.wait_s += s->now_s - MR_MAX(w->free_s, s->warm_s); /* whatever it did was in vain */
        mr_jobsim_stop(s, r->members[i]);
        w->phase = MR_JOBSIM_IDLE;
        w->stamp = generation;
        ask_to_join(s, r->members[i]);
    }
}

static void plan_tick(mr_jobsim *s);

static void tick_elastic(mr_jobsim *s, int none, int tick)
{
    (void)none;
    mr_elastic_answers answers = {0};
    if (tick != s->ring.n_ticks)
        return;
    s->ring.tick_ns = 0;
    mr_elastic_tick(&s->ring.elastic, mr_jobsim_ns(s->now_s), &answers);
    take_answers(s, &answers);
    plan_tick(s);
}

/* One tick is enough, unless another is needed before it: when it comes, it plans the next. It comes slightly late,
 * because times in nanoseconds are rounded down. */
static void plan_tick(mr_jobsim *s)
{
    mr_jobsim_ring *r = &s->ring;
    int64_t next_ns = mr_elastic_next_ns(&r->elastic);
    if (next_ns == 0 || (r->tick_ns > 0 && r->tick_ns <= next_ns))
        return;
    r->tick_ns = next_ns;
    double later_s = (double)(next_ns - mr_jobsim_ns(s->now_s)) / 1e9;
    mr_jobsim_after(s, -1, later_s + 2e-9 + 1e-15 * s->now_s, tick_elastic, ++r->n_ticks);
}

static void ask_arrives(mr_jobsim *s, int worker, int arg)
{
    (void)arg;
    mr_jobsim_worker *w = &s->workers[worker];
    mr_elastic_ask a = {worker, s->n_workers, w->stamp, w->held, FIRST_WAIT_NS, SETTLE_NS, w};
    mr_elastic_answers answers = {0};
    int64_t ends;
    s->budget -= s->ring.elastic.asks.n / ASKS_AN_EVENT;
    mr_elastic_step(&s->ring.elastic, &a, mr_jobsim_ns(s->now_s), &answers, &ends);
    if (ends)
        end_generation(s);
    take_answers(s, &answers);
    plan_tick(s);
}

static void ask_to_join(mr_jobsim *s, int worker)
{
    double arrives_s = mr_jobsim_pass(s, worker, MR_JOBSIM_ALL_PS, s->now_s, s->job->latency_s);
    mr_jobsim_after(s, worker, arrives_s - s->now_s, ask_arrives, 0);
}

void mr_jobsim_ring_join(mr_jobsim *s, int worker) { ask_to_join(s, worker); }

/* ---- losses ---- */

/* The ring stops at once; that a member is missing is noticed later. */
void mr_jobsim_ring_crashed(mr_jobsim *s, int worker, int loss)
{
    mr_jobsim_ring *r = &s->ring;
    bool any = false;
    s->workers[worker].held = -1;
    s->workers[worker].is_member = false;
    mr_elastic_leave(&r->elastic, &s->workers[worker]);
    if (was_formed_with(s, worker)) {
        r->is_broken = true;
        r->epoch++;
    }
    for (int i = 0; i < s->n_workers && !any; i++)
        any = s->workers[i].held >= 0;
    if (any || r->lost >= 0)
        return;
    r->lost = loss;
    if (r->is_waiting && r->size > 0 && !r->is_broken) {
        r->is_waiting = false;
        get_parameters(s);
    }
}

void mr_jobsim_ring_given_up(mr_jobsim *s, int worker)
{
    if (was_formed_with(s, worker))
        end_generation(s);
}
