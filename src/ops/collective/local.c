/* ops/collective/local.c -- members of a group inside one process meet by group and instance key.
 *
 * The first member to arrive creates a meeting, which the others find in a table; when all have arrived their
 * tensors are combined and all members are released. A meeting that one member leaves early (its step was
 * cancelled, or it timed out) can never be complete: the others are released with an error, and members that arrive
 * later start a new one.
 *
 * Locks: the table's, then a meeting's. */
#include <stdio.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/timers.h"
#include "ops/collective/combine.h"
#include "ops/queue/waiting.h"

typedef struct meeting {
    mr_waited on;
    char key[100];
    mr_collective_call call; /* call of the first member; the others must agree */
    int64_t n_joined;        /* guarded by the table's lock */
    bool over MR_GUARDED_BY(on.mu);
    int64_t n_came MR_GUARDED_BY(on.mu);
    mr_waiters line MR_GUARDED_BY(on.mu);
} meeting;

typedef struct member {
    mr_waiter w;
    mr_timer timer;
    bool timed, counted, late;
    int64_t rank;
    const mr_tensor *in;
    mr_tensor *out;
} member;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static mr_mutex table_mu;
static mr_map table;      /* key -> meeting, with a reference */
static mr_timers *timers; /* those of the process; created with the first timeout and kept */

static void make_table(void) { mr_mutex_init(&table_mu); }

/* ---- all members have arrived ---- */

/* Orders members by rank; without ranks by device, then by arrival. */
static bool comes_before(const member *a, const member *b)
{
    if (a->rank >= 0 || b->rank >= 0)
        return a->rank < b->rank;
    return strcmp(a->w.r->step->device->name, b->w.r->step->device->name) < 0;
}

static void sort_members(member **m, int64_t n)
{
    for (int64_t i = 1; i < n; i++)
        for (int64_t k = i; k > 0 && comes_before(m[k], m[k - 1]); k--) {
            member *t = m[k];
            m[k] = m[k - 1];
            m[k - 1] = t;
        }
}

static mr_status *combine_locked(meeting *t, int64_t n)
{
    member **m = mr_try_calloc((size_t)n, sizeof *m);
    const mr_tensor **in = mr_try_calloc((size_t)n, sizeof *in);
    mr_tensor **out = mr_try_calloc((size_t)n, sizeof *out);
    mr_status *st = NULL;
    int64_t i = 0;
    if (!m || !in || !out)
        MR_GO(mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a group of %lld", (long long)n));
    for (mr_waiter *w = t->line.first; w; w = w->next)
        m[i++] = (member *)w;
    sort_members(m, n);
    for (i = 0; i < n; i++)
        in[i] = m[i]->in;
    MR_GO(mr_collective_combine(&t->call, n, in, out));
out:
    for (i = 0; out && m && i < n; i++) {
        if (st)
            mr_tensor_unref(out[i]);
        else
            m[i]->out = out[i];
    }
    mr_free(m);
    mr_free(in);
    mr_free(out);
    return st;
}

static mr_status *left_early(const meeting *t)
{
    return mr_error(MR_ABORTED, "Collective ops is aborted by: a member of group %lld left instance %lld "
                                "before all %lld were there",
                    (long long)t->call.group_key, (long long)t->call.instance_key,
                    (long long)t->call.group_size);
}

static void end_all_locked(meeting *t, mr_status *st, mr_waiters *gone)
{
    t->over = true;
    while (t->line.first)
        mr_waiter_let_go(t->line.first, mr_status_copy(st), gone);
    mr_status_free(st);
}

static void advance_meeting(mr_waited *on, mr_waiters *gone)
{
    meeting *t = (meeting *)on;
    int64_t n = 0;
    for (mr_waiter *w = t->line.first, *next; w; w = next) {
        member *m = (member *)w;
        next = w->next;
        t->n_came += !m->counted;
        m->counted = true;
        if (m->late)
            mr_waiter_let_go(w, mr_error(MR_DEADLINE_EXCEEDED,
                                         "Collective has timed out during execution."), gone);
        else
            n++;
    }
    if (t->over)
        end_all_locked(t, n ? left_early(t) : NULL, gone);
    else if (n < t->n_came)
        end_all_locked(t, left_early(t), gone);
    else if (n == t->call.group_size)
        end_all_locked(t, combine_locked(t, n), gone);
}

/* ---- ending ---- */

static mr_status *give_result(mr_waiter *w)
{
    member *m = (member *)w;
    mr_run_set(w->r, 0, m->out);
    m->out = NULL;
    return NULL;
}

/* The first member that leaves a finished meeting removes it from the table. */
static void leave_table(meeting *t)
{
    mr_lock(&table_mu);
    bool there = mr_map_get(&table, mr_sv_of(t->key)) == t;
    if (there)
        mr_map_remove(&table, mr_sv_of(t->key));
    mr_unlock(&table_mu);
    if (there)
        mr_object_unref(&t->on.base);
}

static void forget_member(mr_waiter *w)
{
    member *m = (member *)w;
    if (m->timed)
        mr_timers_clear(timers, &m->timer);
    mr_tensor_unref(m->out);
    leave_table((meeting *)w->on);
}

static const mr_waited_kind waiting = {sizeof(member), advance_meeting, give_result, forget_member};

/* The timer may fire before its member joins the line; then the member leaves at once. */
static void on_timeout(mr_timer *timer)
{
    member *m = (member *)((char *)timer - offsetof(member, timer));
    mr_waited *on = m->w.on;
    mr_object_ref(&on->base); /* m may be freed once this is unlocked */
    mr_lock(&on->mu);
    m->late = true;
    mr_waited_unlock(on, NULL);
    mr_object_unref(&on->base);
}

/* ---- joining ---- */

static void free_meeting(mr_object *o)
{
    meeting *t = (meeting *)o;
    mr_waited_deinit(&t->on);
    mr_free(t);
}

static const mr_object_type meeting_type = {"millrace::Meeting", free_meeting};

static meeting *new_meeting(const char *key, const mr_collective_call *call)
{
    meeting *t = mr_new(meeting);
    mr_waited_init(&t->on, &meeting_type, &waiting);
    snprintf(t->key, sizeof t->key, "%s", key);
    t->call = *call;
    t->call.in = NULL;
    return t;
}

static bool is_over(meeting *t)
{
    mr_lock(&t->on.mu);
    bool over = t->over;
    mr_unlock(&t->on.mu);
    return over;
}

static mr_status *check_agreement(const mr_collective_call *a, const mr_collective_call *b)
{
    if (a->group_size != b->group_size)
        return mr_invalid("members of group %lld disagree on its size: %lld and %lld",
                          (long long)a->group_key, (long long)a->group_size, (long long)b->group_size);
    if (a->kind != b->kind || a->merge != b->merge || a->mean != b->mean || a->type != b->type)
        return mr_invalid("members of group %lld call different collectives in instance %lld",
                          (long long)a->group_key, (long long)a->instance_key);
    return NULL;
}

static mr_status *join_meeting(const mr_collective_call *call, meeting **out)
{
    char key[100];
    mr_status *st = NULL;
    meeting *old = NULL;
    snprintf(key, sizeof key, "%lld %lld %lld", (long long)call->group_key,
             (long long)call->instance_key, (long long)call->subgroup);
    mr_lock(&table_mu);
    meeting *t = mr_map_get(&table, mr_sv_of(key));
    if (t && (t->n_joined == t->call.group_size || is_over(t)))
        t = NULL; /* it is full or over: the next round begins */
    if (!t) {
        t = new_meeting(key, call);
        old = mr_map_put(&table, mr_sv_of(key), t);
    }
    st = check_agreement(&t->call, call);
    if (!st) {
        t->n_joined++;
        *out = (meeting *)mr_object_ref(&t->on.base);
    }
    mr_unlock(&table_mu);
    mr_object_unref(old ? &old->on.base : NULL);
    return st;
}

static mr_status *make_timers(void)
{
    mr_status *st = NULL;
    mr_lock(&table_mu);
    if (!timers)
        st = mr_timers_new(&timers);
    mr_unlock(&table_mu);
    return st;
}

static mr_status *check_call(const mr_run *r, const mr_collective_call *call)
{
    mr_device_name name;
    if (call->group_size <= 0)
        return mr_invalid("group_size must be positive integer but got %lld",
                          (long long)call->group_size);
    if (call->group_size > 1 && mr_device_name_parse(mr_sv_of(r->step->device->name), &name) &&
        name.has_job && strcmp(name.job, "localhost") != 0)
        return mr_error(MR_UNIMPLEMENTED,
                        "a collective of %lld members works only inside one process, but the device belongs "
                        "to a cluster: %s", (long long)call->group_size, r->step->device->name);
    return call->timeout_s > 0 ? make_timers() : NULL;
}

static void start_local(mr_collective *c, mr_run *r, const mr_collective_call *call)
{
    meeting *t = NULL;
    (void)c;
    pthread_once(&once, make_table);
    mr_status *st = check_call(r, call);
    if (!st)
        st = join_meeting(call, &t);
    if (st) {
        mr_run_done(r, st);
        return;
    }
    member *m = mr_waiter_new(&t->on, r, "Collective op was cancelled");
    m->rank = call->rank;
    m->in = call->in;
    m->timed = call->timeout_s > 0;
    if (m->timed) {
        int64_t ns = call->timeout_s > 1e9 ? (int64_t)1e18 : (int64_t)(call->timeout_s * 1e9);
        m->timer.place = -1;
        mr_timers_set(timers, &m->timer, mr_now_ns() + ns, on_timeout);
    }
    mr_wait(&m->w, &t->line);
}

mr_collective *mr_collective_local(void)
{
    static mr_collective local = {"local", start_local};
    return &local;
}
