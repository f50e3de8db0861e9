/* exec/device_sim.c -- simulated devices.
 *
 * Everything that takes time is a job. The job of a node waits in its device's lane until the job before it
 * has ended. It runs the kernel on a thread of its step, then waits for a timer until the time that the device
 * would have taken has passed. The job of a transfer waits for the timer only. Times count from the simulated
 * end of the previous job, not from when a thread woke up, so the delays of late timers do not add up.
 *
 * Three sides may end a waiting job: the timer, the lane and a cancellation. The one that takes it out of its
 * waiting state, under the device's lock, ends it. That thread first starts the next job of the lane, then ends
 * the run. After that the device may be freed.
 *
 * Invariants: at most one job of a lane is active; every other job of the lane is in the list head..tail and
 * QUEUED; a job is PACED exactly while its timer may still end it.
 *
 * Locks: a device's lock comes before that of the links or of the timers. */
#include "exec/device_sim.h"

#include <math.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/timers.h"
#include "exec/executor_state.h"
#include "passes/effort.h"

enum { PRIORITY = 210 /* as an accelerator's: nodes go there if they can */ };

static const mr_speed usual_speed = {.flops_per_s = 1e11, .bytes_per_s = 5e10, .op_s = 5e-6};
static const double usual_latency_s = 1e-5, usual_link = 1e10;

typedef struct link {
    char *from, *to; /* full names */
    double latency_s, bytes_per_s;
    int64_t free_ns; /* when all that was sent has left */
} link;

typedef struct world { /* what the simulated devices of one session or server share */
    mr_refs refs;
    mr_timers *timers;
    mr_device_vec devices; /* borrowed: they are freed together */
    mr_mutex mu;
    MR_VEC(link *) links MR_GUARDED_BY(mu);
} world;

typedef struct sim {
    mr_device base; /* first */
    mr_device_type type;
    world *world;
    mr_device_sim is;
    mr_allocator *budget;
    mr_mutex mu;
    double slower MR_GUARDED_BY(mu);              /* factor on the described times */
    struct job *active MR_GUARDED_BY(mu);         /* of the lane */
    struct job *head MR_GUARDED_BY(mu), *tail MR_GUARDED_BY(mu); /* those that wait for it */
    int64_t free_ns MR_GUARDED_BY(mu);            /* when the last one ended */
} sim;

typedef enum job_state { FRESH, QUEUED, RUNNING, PACED, OVER } job_state;

typedef struct job {
    mr_timer timer;
    mr_cancel_entry entry;
    mr_work work;
    mr_recv recv;
    sim *d;
    mr_run *run;
    job_state state; /* under d->mu, and the next */
    bool cancelled;
    struct job *next;
    int64_t ready_ns, began_ns, ended_ns;
    mr_tensor *received; /* of a Recv that waits */
    link *link;          /* of a transfer in progress */
    int64_t left_ns, takes_ns; /* when its last byte leaves, and how long the link needs for all bytes */
} job;

#define JOB(p, member) ((job *)((char *)(p) - offsetof(job, member)))

static void lane_work(mr_work *w);

static sim *sim_of(const mr_run *r) { return (sim *)r->step->device; }

static int64_t ns_of(double seconds) { return (int64_t)(MR_MIN(seconds, 1e8) * 1e9); }

static mr_status *was_cancelled(void) { return mr_error(MR_CANCELLED, "The step was cancelled while a simulated device was at work"); }

/* Continues a job on a thread of its step, not on that of the timers. */
static void post_job(job *j, void (*fn)(mr_work *))
{
    const mr_exec *x = j->run->step->owner;
    j->work = (mr_work){.fn = fn, .heavy = true};
    mr_runner_post(x->flow->runner, &j->work);
}

/* Ends the run and frees the job. Only a cancellation that is being delivered right now may still know the
 * job; unregistering waits for it. */
static void end_run(job *j, mr_status *st)
{
    mr_run *r = j->run;
    mr_cancel_unregister(r->step->cancel, &j->entry);
    mr_tensor_unref(j->received);
    r->began_ns = j->began_ns;
    r->ended_ns = j->ended_ns;
    mr_small_free(j, sizeof *j);
    mr_run_done(r, st);
}

/* ---- the lane ---- */

/* Makes the first queued job the active one. Returns NULL if the lane is empty. */
static job *next_locked(sim *d)
{
    job *j = d->head;
    MR_ASSERT(!d->head == !d->tail);
    if (j) {
        MR_ASSERT(j->state == QUEUED);
        d->head = j->next;
        d->tail = d->head ? d->tail : NULL;
        j->state = RUNNING;
    }
    return d->active = j;
}

/* Removes a queued job, which must be in the list. */
static void unqueue_locked(sim *d, job *gone)
{
    MR_ASSERT(gone->state == QUEUED && d->head);
    job **at = &d->head, *before = NULL;
    while (*at != gone) {
        before = *at;
        at = &before->next;
    }
    *at = gone->next;
    if (d->tail == gone)
        d->tail = before;
}

/* Ends the active job and starts the next one. A job that was given up takes no longer than until now. */
static void leave_lane(job *j, mr_status *st)
{
    sim *d = j->d;
    mr_lock(&d->mu);
    MR_ASSERT(d->active == j);
    j->state = OVER;
    d->free_ns = j->ended_ns = MR_MIN(j->ended_ns, mr_now_ns());
    job *next = next_locked(d);
    mr_unlock(&d->mu);
    if (next)
        post_job(next, lane_work);
    end_run(j, st);
}

/* The job's time is over. Returns true if the caller may end it, false if a cancellation was faster. */
static bool take_paced(job *j)
{
    mr_lock(&j->d->mu);
    bool mine = j->state == PACED;
    if (mine)
        j->state = OVER;
    mr_unlock(&j->d->mu);
    return mine;
}

/* The simulated time of a node has passed. Runs on the thread of the timers. */
static void lane_timer(mr_timer *t)
{
    job *j = JOB(t, timer);
    if (take_paced(j))
        leave_lane(j, NULL);
}

/* Ends a job that waits. One that is running its kernel only notes the cancellation, and ends when the kernel
 * does. */
static void lane_cancelled(mr_cancel_entry *e)
{
    job *j = JOB(e, entry);
    sim *d = j->d;
    mr_lock(&d->mu);
    job_state was = j->state;
    j->cancelled = true;
    if (was == QUEUED)
        unqueue_locked(d, j);
    if (was == QUEUED || was == PACED)
        j->state = OVER;
    mr_unlock(&d->mu);
    if (was == QUEUED)
        end_run(j, was_cancelled());
    if (was == PACED) {
        mr_timers_clear(d->world->timers, &j->timer);
        leave_lane(j, was_cancelled());
    }
}

/* ---- how long a node takes ---- */

/* NULL for values without a shape: references and dead values. */
static const mr_pshape *shape_of(mr_arena *a, const mr_value *v)
{
    return v->kind == MR_LIVE ? mr_pshape_of(a, v->t->rank, v->t->dims) : NULL;
}

/* The array and the shapes are in the arena. */
static const mr_pshape **shapes_of(mr_arena *a, const mr_value *v, int n)
{
    const mr_pshape **s = mr_arena_array(a, const mr_pshape *, n + 1);
    for (int i = 0; i < n; i++)
        s[i] = shape_of(a, &v[i]);
    return s;
}

/* How long the node takes on the simulated device, from its effort (passes/effort.h) and the shapes seen. */
static int64_t takes_ns(sim *d, const mr_run *r, const mr_pshape *const *in, const mr_pshape *const *out)
{
    const mr_speed *s = &d->base.speed;
    mr_effort e = mr_effort_seen(r->node, in, out, MR_USUAL_DIM);
    mr_lock(&d->mu);
    double slower = d->slower;
    mr_unlock(&d->mu);
    return ns_of(slower * (s->op_s + MR_MAX(e.flops / s->flops_per_s, e.bytes / s->bytes_per_s)));
}

/* Runs the kernel. *took_ns is the simulated time, or the real one if this machine is slower. The shapes of
 * the inputs are noted beforehand, because a kernel may write over its inputs. */
static mr_status *run_kernel(job *j, int64_t *took_ns)
{
    mr_run *r = j->run;
    mr_arena a;
    mr_arena_init(&a, 0);
    const mr_pshape **in = shapes_of(&a, r->in, r->n_in);
    int64_t start = mr_now_ns();
    mr_status *st = r->kernel->run(r);
    int64_t real = mr_now_ns() - start;
    *took_ns = MR_MAX(real, takes_ns(j->d, r, in, shapes_of(&a, r->out, r->n_out)));
    mr_arena_deinit(&a);
    return st;
}

/* Sets the timer that ends the job. Returns false if the time is over already or the job was cancelled; then
 * the caller ends it. */
static bool pace_job(job *j, int64_t until_ns, void (*fn)(mr_timer *))
{
    sim *d = j->d;
    mr_lock(&d->mu);
    bool wait = !j->cancelled && until_ns > mr_now_ns();
    if (wait) {
        j->state = PACED;
        mr_timers_set(d->world->timers, &j->timer, until_ns, fn);
    }
    mr_unlock(&d->mu);
    return wait;
}

/* Runs the active job of the lane, on a thread of its step. */
static void run_active(job *j)
{
    sim *d = j->d;
    int64_t took = 0;
    mr_lock(&d->mu);
    bool cancelled = j->cancelled;
    j->began_ns = MR_MAX(j->ready_ns, d->free_ns);
    mr_unlock(&d->mu);
    mr_status *st = cancelled ? was_cancelled() : run_kernel(j, &took);
    j->ended_ns = j->began_ns + took;
    if (st || !pace_job(j, j->ended_ns, lane_timer))
        leave_lane(j, st);
}

static void lane_work(mr_work *w) { run_active(JOB(w, work)); }

/* The job of a run, in state FRESH. It is ready from now on, also if the device is busy. */
static job *job_new(mr_run *r, void (*cancelled)(mr_cancel_entry *))
{
    job *j = mr_small_alloc(sizeof *j);
    *j = (job){.d = sim_of(r), .run = r, .entry = {.fn = cancelled}, .ready_ns = mr_now_ns()};
    return j;
}

/* Starts a node: at once if the lane is free, else it is queued. A cancellation may arrive between
 * registering and locking; then j->cancelled is set. */
static void start_node(mr_run *r)
{
    job *j = job_new(r, lane_cancelled);
    sim *d = j->d;
    if (!mr_cancel_register(r->step->cancel, &j->entry)) {
        end_run(j, was_cancelled());
        return;
    }
    /* A job that becomes active although it was cancelled ends in run_active, which starts the next one. */
    mr_lock(&d->mu);
    bool now = !d->active;
    j->state = now ? RUNNING : QUEUED;
    if (now)
        d->active = j;
    else if (j->cancelled)
        j->state = OVER;
    else {
        *(d->tail ? &d->tail->next : &d->head) = j;
        d->tail = j;
    }
    bool over = j->state == OVER;
    mr_unlock(&d->mu);
    if (over)
        end_run(j, was_cancelled());
    else if (now)
        run_active(j);
}

/* ---- links ---- */

/* The simulated device of this name, or NULL. */
static const mr_device *sim_named(const world *w, mr_sv name)
{
    for (int i = 0; i < w->devices.n; i++)
        if (mr_sv_is(name, w->devices.p[i]->name))
            return w->devices.p[i];
    return NULL;
}

/* Limits a link by what one of its ends can do: between two simulated devices the slower one counts. */
static void join_ends(const world *w, mr_sv end, link *l)
{
    const sim *d = (const sim *)sim_named(w, end);
    if (d) {
        l->latency_s = MR_MAX(l->latency_s, d->is.latency_s);
        l->bytes_per_s = MR_MIN(l->bytes_per_s, d->is.link_bytes_per_s);
    }
}

/* Finds or makes the link in one direction. Links live as long as the world. */
static link *get_link_locked(world *w, mr_sv from, mr_sv to) MR_REQUIRES(w->mu)
{
    for (int i = 0; i < w->links.n; i++)
        if (mr_sv_is(from, w->links.p[i]->from) && mr_sv_is(to, w->links.p[i]->to))
            return w->links.p[i];
    link *l = mr_new(link);
    *l = (link){.from = mr_strndup(from.p, from.n), .to = mr_strndup(to.p, to.n), .bytes_per_s = INFINITY};
    join_ends(w, from, l);
    join_ends(w, to, l);
    mr_vec_push(&w->links, l);
    return l;
}

/* Queues bytes on the link and returns when they arrive. The time is bounded, however many transfers wait for
 * a link that moves no bytes. */
static int64_t send_over(job *j, mr_sv from, mr_sv to, size_t bytes)
{
    world *w = j->d->world;
    int64_t now_ns = mr_now_ns();
    mr_lock(&w->mu);
    link *l = j->link = get_link_locked(w, from, to);
    j->takes_ns = ns_of((double)bytes / l->bytes_per_s);
    j->left_ns = l->free_ns = MR_MIN(MR_MAX(now_ns, l->free_ns) + j->takes_ns, now_ns + ns_of(INFINITY));
    int64_t arrives = l->free_ns + ns_of(l->latency_s);
    mr_unlock(&w->mu);
    return arrives;
}

/* Gives the link back the time of the bytes that have not left yet: later transfers do not wait for them. */
static void take_back(job *j)
{
    world *w = j->d->world;
    mr_lock(&w->mu);
    MR_ASSERT(j->link);
    int64_t rest_ns = j->left_ns - MR_MAX(mr_now_ns(), j->left_ns - j->takes_ns);
    j->link->free_ns -= MR_MAX(rest_ns, 0);
    mr_unlock(&w->mu);
}

/* What placement by cost sees: the link as it is simulated. */
static bool sim_link(const mr_device *d, const mr_device *from, const mr_device *to, double *latency_s, double *bytes_per_s)
{
    world *w = ((const sim *)d)->world;
    mr_lock(&w->mu);
    const link *l = get_link_locked(w, mr_sv_of(from->name), mr_sv_of(to->name));
    *latency_s = l->latency_s;
    *bytes_per_s = l->bytes_per_s;
    mr_unlock(&w->mu);
    return true;
}

/* ---- transfers ---- */

/* The bytes have arrived: a _Recv outputs its value, a _Send runs its kernel. */
static void move_on(mr_work *w)
{
    job *j = JOB(w, work);
    mr_run *r = j->run;
    MR_ASSERT(j->state != QUEUED);
    mr_status *st = NULL;
    j->ended_ns = mr_now_ns();
    if (j->received) {
        mr_run_set(r, 0, j->received);
        j->received = NULL;
    } else {
        st = r->kernel->run(r); /* a _Send */
    }
    end_run(j, st);
}

/* The last byte has arrived. The rest runs on a thread of the step: a _Send's kernel may make nodes ready. */
static void move_timer(mr_timer *t)
{
    job *j = JOB(t, timer);
    if (take_paced(j))
        post_job(j, move_on);
}

/* Ends a transfer that is under way and frees its time on the link. */
static void move_cancelled(mr_cancel_entry *e)
{
    job *j = JOB(e, entry);
    sim *d = j->d;
    mr_lock(&d->mu);
    bool mine = j->state == PACED;
    j->cancelled = true;
    if (mine)
        j->state = OVER;
    mr_unlock(&d->mu);
    if (mine) {
        mr_timers_clear(d->world->timers, &j->timer);
        take_back(j);
        end_run(j, was_cancelled());
    }
}

/* Starts a transfer and waits, without a thread, until the bytes arrive. */
static void start_transfer(job *j, const mr_rendezvous_key *key, size_t bytes)
{
    j->began_ns = mr_now_ns();
    if (!mr_cancel_register(j->run->step->cancel, &j->entry)) {
        end_run(j, was_cancelled());
        return;
    }
    if (!pace_job(j, send_over(j, key->src_device, key->dst_device, bytes), move_timer)) {
        take_back(j); /* it may have been cancelled just now */
        move_on(&j->work);
    }
}

/* Only transfers between devices take time; what the client feeds and fetches does not. The sending end
 * accounts for the time if it is simulated, else the receiving end. Between tasks each end accounts for its
 * own part of the route. */
static bool is_between_devices(const mr_rendezvous_key *key) { return !mr_sv_eq(key->src_device, key->dst_device); }

/* A dead value, or one that does not leave the device, is sent without delay. */
static void start_send(mr_run *r)
{
    const mr_rendezvous_key *key = r->state;
    if (r->dead || !r->step->rendezvous || !is_between_devices(key))
        mr_run_done(r, r->kernel->run(r));
    else
        start_transfer(job_new(r, move_cancelled), key, mr_tensor_bytes(mr_in(r, 0)));
}

/* The value has arrived in the rendezvous; the simulated transfer begins now. Errors and dead values take no time. */
static void recv_done(mr_recv *w, mr_status *st, mr_tensor *t, bool dead)
{
    job *j = JOB(w, recv);
    const mr_rendezvous_key *key = w->key;
    if (dead)
        mr_run_set_dead(j->run, 0);
    j->received = t;
    if (st || dead)
        end_run(j, st);
    else
        start_transfer(j, key, mr_tensor_bytes(t));
}

/* If the sender is simulated too, it has already waited for the transfer, so the ordinary kernel is enough. */
static void start_recv(mr_run *r)
{
    const mr_rendezvous_key *key = r->state;
    if (!r->step->rendezvous || !is_between_devices(key) || sim_named(sim_of(r)->world, key->src_device)) {
        r->kernel->run_async(r);
        return;
    }
    job *j = job_new(r, move_cancelled);
    j->recv = (mr_recv){recv_done, key, r->frame, r->iteration, NULL};
    mr_rendezvous_recv(r->step->rendezvous, &j->recv);
}

/* ---- the type ---- */

/* mr_device_type.start. Kernels that wait for others do not occupy the device: asynchronous ones are started
 * at once. */
static void sim_start(mr_run *r)
{
    if (mr_node_is(r->node, "_Send") || mr_node_is(r->node, "_HostSend"))
        start_send(r);
    else if (mr_node_is(r->node, "_Recv") || mr_node_is(r->node, "_HostRecv"))
        start_recv(r);
    else if (!r->kernel->run)
        r->kernel->run_async(r);
    else
        start_node(r);
}

/* With the last reference no device is left, so no timer is set and no link is in use. */
static void world_unref(world *w)
{
    if (!mr_refs_drop(&w->refs))
        return;
    mr_timers_free(w->timers);
    for (int i = 0; i < w->links.n; i++) {
        mr_free(w->links.p[i]->from);
        mr_free(w->links.p[i]->to);
        mr_free(w->links.p[i]);
    }
    mr_vec_deinit(&w->links);
    mr_vec_deinit(&w->devices);
    mr_mutex_deinit(&w->mu);
    mr_free(w);
}

/* The devices of a world are freed together, after all steps have ended, so nobody reads the world's list of
 * devices any more. */
static void sim_free(mr_device *base)
{
    sim *d = (sim *)base;
    MR_ASSERT(!d->active && !d->head);
    world *w = d->world;
    mr_budget_free(d->budget);
    mr_mutex_deinit(&d->mu);
    mr_free(d);
    world_unref(w);
}

bool mr_device_is_sim(const mr_device *d) { return d->type->start == sim_start; }

/* The factor applies to nodes that start afterwards. */
mr_status *mr_device_sim_slow(mr_device *base, double factor)
{
    sim *d = (sim *)base;
    if (!mr_device_is_sim(base))
        return mr_invalid("Cannot slow down %s: it is not a simulated device", base->name);
    if (!(factor > 0) || !isfinite(factor))
        return mr_invalid("Cannot slow down %s by a factor of %g: expected a finite number above 0", base->name,
                          factor);
    mr_lock(&d->mu);
    d->slower = factor;
    mr_unlock(&d->mu);
    return NULL;
}

/* ---- making ---- */

static double or_usual(double v, double usual) { return v > 0 ? v : usual; }

/* Sets up the device from its description; what the description leaves at 0 gets the usual value. */
static void fill_in(sim *d, const mr_device_sim *is)
{
    d->is = *is;
    d->is.latency_s = or_usual(is->latency_s, usual_latency_s);
    d->is.link_bytes_per_s = or_usual(is->link_bytes_per_s, usual_link);
    d->base.speed = (mr_speed){or_usual(is->speed.flops_per_s, usual_speed.flops_per_s),
                               or_usual(is->speed.bytes_per_s, usual_speed.bytes_per_s),
                               or_usual(is->speed.op_s, usual_speed.op_s)};
    d->slower = 1;
    d->type = (mr_device_type){.name = d->is.type,
                               .own = "CPU",
                               .kernels = "CPU",
                               .priority = is->priority ? is->priority : PRIORITY,
                               .start = sim_start,
                               .moves = true,
                               .link = sim_link,
                               .free = sim_free};
    d->base.type = &d->type;
    if (is->memory > 0) {
        d->budget = mr_budget_new(mr_cpu_allocator(), d->is.type, is->memory);
        d->base.alloc = d->budget;
        d->base.memory_limit = is->memory;
    }
}

/* Makes one device and appends it to the world and to *out, which owns it. */
static mr_status *make_one(const mr_device_sim *is, world *w, const char *task, mr_pool *pool, mr_device_vec *out)
{
    mr_device *base = NULL;
    char *name = mr_printf("%s/device:%s:%d", task, is->type, is->id);
    mr_status *st = mr_device_new(&mr_device_cpu, name, sizeof(sim), pool, &base);
    mr_free(name);
    if (st)
        return st;
    sim *d = (sim *)base;
    d->world = w;
    mr_refs_take(&w->refs);
    mr_mutex_init(&d->mu);
    fill_in(d, is);
    mr_vec_push(&w->devices, base);
    mr_vec_push(out, base);
    return NULL;
}

/* Applies the description of one link. It is called after all devices exist, so it overrides what they say of
 * themselves. */
static void set_link(world *w, const char *task, const mr_device_sim_link *is)
{
    char *from = mr_printf("%s/device:%s", task, is->from), *to = mr_printf("%s/device:%s", task, is->to);
    mr_lock(&w->mu);
    link *l = get_link_locked(w, mr_sv_of(from), mr_sv_of(to));
    l->latency_s = or_usual(is->latency_s, l->latency_s);
    l->bytes_per_s = or_usual(is->bytes_per_s, l->bytes_per_s);
    mr_unlock(&w->mu);
    mr_free(from);
    mr_free(to);
}

/* Each device holds a reference to the world; the one taken here is dropped at the end. */
mr_status *mr_device_sims_make(const mr_device_sims *s, const char *task, mr_pool *pool, mr_device_vec *out)
{
    mr_status *st = NULL;
    if (!s->devices.n)
        return NULL;
    world *w = mr_new(world);
    mr_refs_init(&w->refs);
    mr_mutex_init(&w->mu);
    MR_GO(mr_timers_new(&w->timers));
    for (int i = 0; i < s->devices.n; i++)
        MR_GO(make_one(&s->devices.p[i], w, task, pool, out));
    for (int i = 0; i < s->links.n; i++)
        set_link(w, task, &s->links.p[i]);
out:
    world_unref(w);
    return st;
}
