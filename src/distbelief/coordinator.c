/* distbelief/coordinator.c -- Sandblaster's coordinator.
 *
 * Two threads work here. Messages of replicas arrive as turns of the work session, which update the
 * ledger of portions (dist/sandblaster.c) and send orders. The thread that minimizes works on the
 * vectors and waits for evaluations to complete. `mu` guards what both use; the ledger is used only
 * in turns.
 *
 * The first replica pushes its initial values to a lane, as it would a gradient; once that is
 * acknowledged, X becomes a copy of the lane. If it dies meanwhile, the content of its lane is unknown,
 * and another replica does the same with another lane. The same happens if a replica takes longer than
 * patience_ms. The first to finish provides the values.
 *
 * Invariant: until the coordinator ends, a connected replica is either in `starters` or in the ledger; n_replicas
 * counts both. */
#include "distbelief/coordinator.h"

#include <math.h>

#include "base/clock.h"
#include "base/long_wait.h"
#include "base/thread.h"
#include "dist/sandblaster.h"
#include "distbelief/sandblaster_messages.h"
#include "distbelief/coordinator_service.h"
#include "distbelief/lbfgs.h"
#include "ps/client.h"

enum { MOST_FAILURES = 3, PARTING_MS = 2000 };

typedef struct starter { /* a replica that pushes its initial values */
    int64_t replica;
    int lane;
} starter;

struct mr_blast_coordinator {
    mr_sandblaster_options o; /* with defaults filled in; name and address are owned */
    mr_ps *ps;
    mr_coordinator_service *service;
    mr_blast b;       /* used only in turns, like the fields up to failures: */
    MR_VEC(starter) starters; /* not in the ledger yet */
    int64_t start_ns; /* when the last of them got its order */
    int start_lane;   /* of the one that finished first */
    bool ending;
    int failures; /* in this evaluation */
    mr_mutex mu;
    mr_cond changed;
    int n_replicas MR_GUARDED_BY(mu);
    uint64_t keys MR_GUARDED_BY(mu); /* of the vector; 0 until a replica has joined */
    int64_t width MR_GUARDED_BY(mu);
    bool started MR_GUARDED_BY(mu);  /* the initial values are in start_lane */
    bool complete MR_GUARDED_BY(mu);
    double loss MR_GUARDED_BY(mu);
    mr_status *failed MR_GUARDED_BY(mu);
    bool cancelled MR_GUARDED_BY(mu);
    int64_t heard_ns MR_GUARDED_BY(mu);
    mr_sandblaster_stats stats MR_GUARDED_BY(mu);
    int vectors[MR_LBFGS_HISTORY + 2 * MR_LBFGS_MOST_HISTORY]; /* tables; used by the minimizing thread alone */
    MR_VEC(int) lanes;                                         /* likewise */
    bool made;
};

/* ---- orders ---- */

/* Sends an order. If memory is out, the replica counts as slow, and others do its work. */
static void send_order(mr_blast_coordinator *c, int64_t replica, const mr_blast_order *o)
{
    mr_bytes bytes = {0};
    mr_status *st = mr_blast_put_order(o, &bytes);
    if (!st)
        mr_coordinator_service_order(c->service, replica, &bytes);
    mr_status_free(st); /* out of memory: the replica is treated as slow, and others do its work */
}

/* The evaluation has ended: wakes the minimizing thread. */
static void complete_evaluation(mr_blast_coordinator *c, double loss)
{
    mr_lock(&c->mu);
    c->complete = true;
    c->loss = loss;
    mr_cond_broadcast(&c->changed);
    mr_unlock(&c->mu);
}

/* Feeds an event to the ledger and sends the orders that follow. In a turn. */
static void step_ledger(mr_blast_coordinator *c, mr_blast_event e)
{
    mr_blast_actions todo = {0};
    if (c->ending)
        return;
    mr_blast_step(&c->b, &e, mr_now_ns(), &todo);
    for (int i = 0; i < todo.n; i++) {
        const mr_blast_action *a = &todo.p[i];
        if (a->what == MR_BLAST_COMPLETE)
            complete_evaluation(c, a->loss);
        else
            send_order(c, a->replica,
                       &(mr_blast_order){a->what == MR_BLAST_FLUSH ? MR_WISH_FLUSH : MR_WISH_COMPUTE, a->evaluation,
                                         MR_MAX(a->portion, 0), c->b.o.portions, MR_MAX(a->lane, 0), a->keep});
    }
    mr_vec_deinit(&todo);
}

/* Extends the deadline of the minimizing thread's wait. */
static void note_message(mr_blast_coordinator *c)
{
    mr_lock(&c->mu);
    c->heard_ns = mr_now_ns();
    mr_cond_broadcast(&c->changed);
    mr_unlock(&c->mu);
}

/* Turns need not hold mu to use the ledger, but `started` is also read by the minimizing thread. */
static bool has_started(mr_blast_coordinator *c)
{
    mr_lock(&c->mu);
    bool started = c->started;
    mr_unlock(&c->mu);
    return started;
}

/* Orders a replica to push its initial values to a new lane. */
static void let_start(mr_blast_coordinator *c, int64_t replica)
{
    int lane = c->b.n_lanes++;
    mr_vec_push(&c->starters, (starter){replica, lane});
    c->start_ns = mr_now_ns();
    send_order(c, replica, &(mr_blast_order){.kind = MR_WISH_START, .lane = lane});
}

/* The position among the starters; -1: not one. */
static int find_starter(const mr_blast_coordinator *c, int64_t replica)
{
    for (int i = 0; i < c->starters.n; i++)
        if (c->starters.p[i].replica == replica)
            return i;
    return -1;
}

/* ---- turns of the work session ---- */

/* Accepts a replica of this job whose model has the same size as the first one's. */
static mr_status *check_hello(mr_blast_coordinator *c, const mr_blast_hello *h)
{
    mr_status *st = NULL;
    if (!mr_sv_eq(h->name, mr_sv_of(c->o.name)))
        return mr_invalid("The coordinator runs job '%s', but the replica belongs to job '%.*s'", c->o.name,
                          MR_SV_ARG(h->name));
    mr_lock(&c->mu);
    if (c->keys == 0) {
        c->keys = h->keys;
        c->width = h->width;
    } else if (c->keys != h->keys || c->width != h->width) {
        st = mr_invalid("The job has %llu keys of %lld numbers, but the model of this replica has %llu of %lld",
                        (unsigned long long)c->keys, (long long)c->width, (unsigned long long)h->keys,
                        (long long)h->width);
    }
    if (!st) {
        c->stats.joined++;
        c->n_replicas++;
    }
    mr_unlock(&c->mu);
    return st;
}

/* Gives a replica that has nothing to do its next role: to end, to push initial values, or to compute. */
static void give_role(mr_blast_coordinator *c, int64_t replica)
{
    if (c->ending)
        send_order(c, replica, &(mr_blast_order){.kind = MR_WISH_END});
    else if (c->starters.n == 0 && !has_started(c))
        let_start(c, replica);
    else
        step_ledger(c, (mr_blast_event){.kind = MR_BLAST_JOIN, .replica = replica});
}

/* An order that is given here is kept until the replica asks. */
static mr_status *replica_joined(void *arg, int64_t replica, mr_sv bytes)
{
    mr_blast_coordinator *c = arg;
    mr_blast_hello h;
    MR_TRY(mr_blast_get_hello(bytes, &h));
    MR_TRY(check_hello(c, &h));
    note_message(c);
    give_role(c, replica);
    return NULL;
}

/* A replica has pushed its initial values. The first one's count; the lane of a later one is as good
 * as one that was flushed, and becomes a spare lane. */
static void take_started(mr_blast_coordinator *c, int64_t replica)
{
    int i = find_starter(c, replica);
    if (i < 0)
        return;
    int lane = c->starters.p[i].lane;
    MR_ASSERT(lane >= 0 && lane < c->b.n_lanes);
    mr_vec_remove_swap(&c->starters, i);
    if (has_started(c)) {
        mr_vec_push(&c->b.spare, lane);
    } else {
        c->start_lane = lane;
        mr_lock(&c->mu);
        c->started = true;
        mr_cond_broadcast(&c->changed);
        mr_unlock(&c->mu);
    }
    give_role(c, replica);
}

/* A replica could not carry out its order, and leaves. If MOST_FAILURES replicas fail in one
 * evaluation, training ends with the last error. */
static void take_failure(mr_blast_coordinator *c, int64_t replica, const mr_blast_report *r)
{
    send_order(c, replica, &(mr_blast_order){.kind = MR_WISH_END});
    if (++c->failures < MOST_FAILURES)
        return;
    mr_lock(&c->mu);
    if (!c->failed)
        c->failed = mr_error(r->code ? (mr_code)r->code : MR_UNKNOWN,
                             "%d replicas failed in one evaluation, the last one with: %.*s", c->failures,
                             MR_SV_ARG(r->message));
    mr_cond_broadcast(&c->changed);
    mr_unlock(&c->mu);
}

/* Handles a report. An invalid one counts as a failure of its replica. */
static void replica_reported(void *arg, int64_t replica, mr_sv bytes)
{
    mr_blast_coordinator *c = arg;
    mr_blast_report r;
    mr_status *st = mr_blast_get_report(bytes, &r);
    if (st) {
        r = (mr_blast_report){.kind = MR_TOLD_FAILED, .code = (int)mr_status_code(st),
                              .message = mr_sv_of(mr_status_message(st))};
        take_failure(c, replica, &r);
        mr_status_free(st);
        return;
    }
    note_message(c);
    if (c->ending) {
        send_order(c, replica, &(mr_blast_order){.kind = MR_WISH_END});
        return;
    }
    switch (r.kind) {
    case MR_TOLD_NOTHING: break;
    case MR_TOLD_STARTED: take_started(c, replica); break;
    case MR_TOLD_DONE:
        step_ledger(c, (mr_blast_event){MR_BLAST_DONE, replica, r.evaluation, r.portion, r.loss});
        break;
    case MR_TOLD_FLUSHED: step_ledger(c, (mr_blast_event){MR_BLAST_FLUSHED, replica, r.evaluation, 0, 0}); break;
    case MR_TOLD_FAILED: take_failure(c, replica, &r); break;
    }
}

/* Lets a waiting replica start. All replicas in the ledger are idle, because no evaluation has begun. */
static void let_next_start(mr_blast_coordinator *c)
{
    if (c->b.replicas.n == 0)
        return;
    int64_t next = c->b.replicas.p[0].id;
    step_ledger(c, (mr_blast_event){.kind = MR_BLAST_LOST, .replica = next});
    let_start(c, next);
}

/* A replica is lost. If it was the only one pushing initial values, the next one does. */
static void replica_lost(void *arg, int64_t replica)
{
    mr_blast_coordinator *c = arg;
    int i = find_starter(c, replica);
    if (i >= 0) {
        mr_vec_remove_swap(&c->starters, i);
        if (c->starters.n == 0 && !has_started(c))
            let_next_start(c);
    } else {
        step_ledger(c, (mr_blast_event){.kind = MR_BLAST_LOST, .replica = replica});
    }
    mr_lock(&c->mu);
    c->n_replicas--;
    MR_ASSERT(c->n_replicas >= 0);
    c->stats.lost += !c->ending;
    mr_cond_broadcast(&c->changed);
    mr_unlock(&c->mu);
}

/* Called regularly in a turn: replaces a slow starter, and lets the ledger give slow portions to others. */
static void check_progress(void *arg)
{
    mr_blast_coordinator *c = arg;
    bool late = c->starters.n && mr_now_ns() - c->start_ns > c->o.patience_ms * 1000000;
    if (late && !c->ending && !has_started(c))
        let_next_start(c);
    step_ledger(c, (mr_blast_event){.kind = MR_BLAST_TICK, .replica = -1});
}

/* ---- waiting ---- */

/* Asked between two operations on vectors. */
static mr_status *check_cancelled(mr_blast_coordinator *c)
{
    mr_lock(&c->mu);
    bool cancelled = c->cancelled;
    mr_unlock(&c->mu);
    return cancelled ? mr_error(MR_CANCELLED, "The training of '%s' was cancelled", c->o.name) : NULL;
}

/* Waits until the flag is set. The deadline is extended whenever a replica reports. A failure is
 * returned once, so that the next attempt can succeed. */
static mr_status *wait_for(mr_blast_coordinator *c, const bool *flag, const char *what)
{
    mr_status *st = NULL;
    mr_long_wait wait;
    mr_long_wait_begin(&wait, mr_now_ns());
    mr_lock(&c->mu);
    c->heard_ns = mr_now_ns();
    while (!*flag && !c->failed && !c->cancelled && !st) {
        int64_t end = c->heard_ns + c->o.deadline_ms * 1000000;
        if (!mr_long_wait_cond(&wait, &c->changed, &c->mu, end, "the replicas of '%s' while %s; %d are connected",
                               c->o.name, what, c->n_replicas) &&
            !*flag && mr_now_ns() >= c->heard_ns + c->o.deadline_ms * 1000000)
            st = mr_error(MR_DEADLINE_EXCEEDED, "'%s': no replica has reported for %lld ms while %s; %d are connected",
                          c->o.name, (long long)c->o.deadline_ms, what, c->n_replicas);
    }
    if (!*flag && c->failed) {
        mr_status_free(st);
        st = c->failed;
        c->failed = NULL;
    }
    mr_unlock(&c->mu);
    return st ? st : check_cancelled(c);
}

/* From any thread; the minimization ends between two operations. */
void mr_blast_coordinator_cancel(mr_blast_coordinator *c)
{
    mr_lock(&c->mu);
    c->cancelled = true;
    mr_cond_broadcast(&c->changed);
    mr_unlock(&c->mu);
}

/* ---- vectors ---- */

/* An operation of the servers without a result. */
static mr_status *change_vector(mr_blast_coordinator *c, mr_ps_algebra what, int a, int b, double alpha)
{
    double none;
    return mr_ps_compute(c->ps, what, a, b, alpha, &none);
}

/* The functions of mr_lbfgs_space: vectors are numbers of tables, and the parameter servers compute. */
static mr_status *dot_vectors(void *arg, int a, int b, double *out)
{
    mr_blast_coordinator *c = arg;
    return mr_ps_compute(c->ps, MR_PS_DOT, c->vectors[a], c->vectors[b], 0, out);
}

static mr_status *scale_vector(void *arg, int a, double by)
{
    mr_blast_coordinator *c = arg;
    return change_vector(c, MR_PS_SCALE, c->vectors[a], c->vectors[a], by);
}

static mr_status *add_vector(void *arg, int a, int b, double by)
{
    mr_blast_coordinator *c = arg;
    return change_vector(c, MR_PS_AXPY, c->vectors[a], c->vectors[b], by);
}

static mr_status *copy_vector(void *arg, int a, int b)
{
    mr_blast_coordinator *c = arg;
    return change_vector(c, MR_PS_COPY, c->vectors[a], c->vectors[b], 0);
}

/* The table of a lane, looked up once. */
static mr_status *lane_table(mr_blast_coordinator *c, int lane, int *out)
{
    while (c->lanes.n <= lane)
        mr_vec_push(&c->lanes, -1);
    if (c->lanes.p[lane] < 0)
        MR_TRY(mr_blast_table(c->ps, mr_sv_of(c->o.name), "lane", lane, c->keys, c->width, &c->lanes.p[lane]));
    *out = c->lanes.p[lane];
    return NULL;
}

typedef struct counting { /* the lanes whose sum is the gradient of an evaluation */
    mr_blast_coordinator *c;
    MR_VEC(int) lanes;
} counting;

/* In a turn: the lanes that hold gradients of this evaluation. */
static void list_lanes(void *arg)
{
    counting *l = arg;
    for (int i = 0; i < l->c->b.n_lanes; i++)
        if (mr_blast_counts(&l->c->b, i))
            mr_vec_push(&l->lanes, i);
}

/* G becomes the sum of the lanes, plus the gradient of the penalty. */
static mr_status *sum_lanes(mr_blast_coordinator *c)
{
    counting l = {.c = c};
    mr_status *st = change_vector(c, MR_PS_FILL, c->vectors[MR_LBFGS_G], c->vectors[MR_LBFGS_G], 0);
    mr_coordinator_service_turn(c->service, list_lanes, &l);
    for (int i = 0, table; i < l.lanes.n && !st; i++) {
        st = lane_table(c, l.lanes.p[i], &table);
        if (!st)
            st = change_vector(c, MR_PS_AXPY, c->vectors[MR_LBFGS_G], table, 1);
    }
    if (!st && c->o.l2 > 0)
        st = add_vector(c, MR_LBFGS_G, MR_LBFGS_X, c->o.l2);
    mr_vec_deinit(&l.lanes);
    return st;
}

/* In a turn. */
static void begin_evaluation(void *arg)
{
    mr_blast_coordinator *c = arg;
    c->failures = 0;
    mr_lock(&c->mu);
    c->complete = false;
    mr_unlock(&c->mu);
    step_ledger(c, (mr_blast_event){.kind = MR_BLAST_EVALUATE, .replica = -1});
}

/* The loss and the gradient at X: the replicas compute portions, then the servers add up the lanes. */
static mr_status *evaluate_loss(void *arg, double *loss)
{
    mr_blast_coordinator *c = arg;
    double square = 0;
    mr_coordinator_service_turn(c->service, begin_evaluation, c);
    MR_TRY(wait_for(c, &c->complete, "they compute a loss"));
    mr_lock(&c->mu);
    *loss = c->loss;
    c->stats.evaluations++;
    mr_unlock(&c->mu);
    MR_TRY(sum_lanes(c));
    if (c->o.l2 > 0)
        MR_TRY(dot_vectors(c, MR_LBFGS_X, MR_LBFGS_X, &square));
    *loss += c->o.l2 / 2 * square;
    return NULL;
}

/* Passes progress on to the client, and stops a cancelled minimization. */
static mr_status *report_iteration(void *arg, int64_t iteration, double loss, double gradient_norm)
{
    mr_blast_coordinator *c = arg;
    if (c->o.report)
        c->o.report(c->o.arg, iteration, loss, gradient_norm);
    return check_cancelled(c);
}

/* ---- minimizing ---- */

/* In a turn: the lane of the initial values may be used for gradients from now on. */
static void give_lane_back(void *arg)
{
    mr_blast_coordinator *c = arg;
    mr_vec_push(&c->b.spare, c->start_lane);
}

/* The vectors of L-BFGS by their numbers in lbfgs.h. */
static mr_status *make_vector(mr_blast_coordinator *c, int i)
{
    static const char *const names[] = {"x", "g", "x0", "g0", "d"};
    bool pair = i >= MR_LBFGS_HISTORY;
    return mr_blast_table(c->ps, mr_sv_of(c->o.name), pair ? "pair" : names[i], pair ? i - MR_LBFGS_HISTORY : -1, c->keys,
                          c->width, &c->vectors[i]);
}

/* Makes the tables of all vectors, and copies the initial values from the start lane, which becomes a
 * spare lane. */
static mr_status *make_vectors(mr_blast_coordinator *c)
{
    int first;
    MR_ASSERT(!c->made);
    for (int i = 0; i < MR_LBFGS_HISTORY + 2 * c->o.history; i++)
        MR_TRY(make_vector(c, i));
    MR_TRY(lane_table(c, c->start_lane, &first));
    MR_TRY(change_vector(c, MR_PS_COPY, c->vectors[MR_LBFGS_X], first, 0));
    mr_coordinator_service_turn(c->service, give_lane_back, c);
    c->made = true;
    return NULL;
}

/* May be called again; the vectors are made once, and X stays where it is. */
mr_status *mr_blast_coordinator_minimize(mr_blast_coordinator *c, double *loss)
{
    mr_lbfgs_space v = {c, dot_vectors, scale_vector, add_vector, copy_vector, evaluate_loss, report_iteration};
    mr_lbfgs_options o = {c->o.history, c->o.iterations, c->o.gradient_norm, c->o.least_gain, 3e-7};
    mr_lbfgs_result r;
    MR_TRY(wait_for(c, &c->started, "one pushes the initial values"));
    if (!c->made)
        MR_TRY(make_vectors(c));
    MR_TRY(mr_lbfgs_run(&v, &o, &r));
    mr_lock(&c->mu);
    c->stats.iterations += r.iterations;
    c->stats.gradient_norm = r.gradient_norm;
    mr_unlock(&c->mu);
    *loss = r.loss;
    return NULL;
}

/* In a turn. */
static void count_ledger(void *arg)
{
    mr_blast_coordinator *c = arg;
    mr_lock(&c->mu);
    c->stats.given_twice = c->b.given_twice;
    c->stats.dropped = c->b.dropped;
    mr_unlock(&c->mu);
}

/* Not from a callback: it takes a turn. */
void mr_blast_coordinator_count(mr_blast_coordinator *c, mr_sandblaster_stats *out)
{
    mr_coordinator_service_turn(c->service, count_ledger, c);
    mr_lock(&c->mu);
    *out = c->stats;
    mr_unlock(&c->mu);
    out->struct_size = sizeof *out;
    mr_coordinator_service_count(c->service, &out->bytes_sent, &out->bytes_received);
}

/* ---- beginning and end ---- */

/* Fills in defaults, then checks. */
static mr_status *check_options(mr_sandblaster_options *o)
{
    o->portions = o->portions ? o->portions : 32;
    o->history = o->history ? o->history : 10;
    o->iterations = o->iterations ? o->iterations : 200;
    o->gradient_norm = o->gradient_norm > 0 ? o->gradient_norm : 1e-6;
    o->least_gain = o->least_gain > 0 ? o->least_gain : 1e-9;
    o->patience_ms = o->patience_ms ? o->patience_ms : 1000;
    o->deadline_ms = o->deadline_ms ? o->deadline_ms : 60000;
    if (o->portions < 1 || o->portions > 1 << 20 || o->history < 1 || o->history > MR_LBFGS_MOST_HISTORY || o->iterations < 0)
        return mr_invalid("Sandblaster: invalid options: %d portions, a history of %d, %lld iterations", o->portions,
                          o->history, (long long)o->iterations);
    if (!(o->l2 >= 0) || o->patience_ms < 0 || o->deadline_ms < 0 || o->patience_ms > INT32_MAX || o->deadline_ms > INT32_MAX)
        return mr_invalid("Sandblaster: l2 and the waits must not be negative, and a wait is at most 24 days");
    return NULL;
}

/* The service is opened last: replicas may join before this returns. */
mr_status *mr_blast_coordinator_new(const mr_sandblaster_options *o, mr_ps *ps, mr_blast_coordinator **out)
{
    mr_blast_coordinator *c = mr_new(mr_blast_coordinator);
    c->o = *o;
    c->ps = ps;
    c->o.name = mr_strdup(o->name && o->name[0] ? o->name : "sandblaster");
    mr_mutex_init(&c->mu);
    mr_cond_init(&c->changed);
    mr_status *st = check_options(&c->o);
    mr_blast_init(&c->b, &(mr_blast_rules){c->o.portions, c->o.patience_ms * 1000000});
    if (!st)
        st =
            mr_coordinator_service_open(&(mr_coordinator_service_rules){o->address, c, replica_joined, replica_reported,
                                                                        replica_lost, check_progress},
                                        &c->service);
    if (st)
        mr_blast_coordinator_free(c);
    else
        *out = c;
    return st;
}

const char *mr_blast_coordinator_address(const mr_blast_coordinator *c)
{
    return mr_coordinator_service_address(c->service);
}

/* In a turn. Busy replicas get the order with their next report. */
static void tell_end(void *arg)
{
    mr_blast_coordinator *c = arg;
    c->ending = true;
    for (int i = 0; i < c->b.replicas.n; i++)
        if (c->b.replicas.p[i].state == MR_BLAST_IDLE)
            send_order(c, c->b.replicas.p[i].id, &(mr_blast_order){.kind = MR_WISH_END});
}

/* Ends the session: idle replicas are told at once, busy ones with their next report, for up to
 * PARTING_MS. */
static void dismiss_replicas(mr_blast_coordinator *c)
{
    int64_t end = mr_now_ns() + PARTING_MS * 1000000ll;
    mr_coordinator_service_turn(c->service, tell_end, c);
    mr_lock(&c->mu);
    /* Replicas leave by themselves when they get the order; those that do not are cut off. */
    while (c->n_replicas > 0 && mr_cond_wait_until(&c->changed, &c->mu, end))
        ;
    mr_unlock(&c->mu);
    mr_coordinator_service_close(c->service);
}

/* Also frees a coordinator that was made in part. After part(), no turn runs any more. */
void mr_blast_coordinator_free(mr_blast_coordinator *c)
{
    if (!c)
        return;
    if (c->service)
        dismiss_replicas(c);
    mr_blast_deinit(&c->b);
    mr_vec_deinit(&c->starters);
    mr_vec_deinit(&c->lanes);
    mr_status_free(c->failed);
    mr_cond_deinit(&c->changed);
    mr_mutex_deinit(&c->mu);
    mr_free((char *)(uintptr_t)c->o.name);
    mr_free(c);
}
