/* sim/ps.c -- the state of a parameter server: a counter, an accumulator, queues of messages and tokens.
 *
 * It behaves like the ops of a graph: each piece of work happens at one instant or, if it has to wait, when its
 * condition holds; a cancelled wait has no effect. */
#include "sim/world.h"

typedef struct gradient {
    int64_t stamp, amount;
} gradient;

typedef struct waiter {
    mr_sim_worker_run *step;
    mr_sim_work work;
    mr_sim_value v;
} waiter;

typedef MR_VEC(mr_sim_value) values;

struct mr_sim_ps {
    int64_t counter;
    bool initialised;
    int64_t updates, stamp;
    MR_VEC(gradient) gradients;
    values words, tokens[MR_SIM_MAX_TASKS];
    MR_VEC(waiter) waiters; /* in the order of arrival */
};

struct mr_sim_ps *mr_sim_ps_new(void) { return mr_new(struct mr_sim_ps); }

void mr_sim_ps_free(struct mr_sim_ps *p)
{
    mr_vec_deinit(&p->gradients);
    mr_vec_deinit(&p->words);
    mr_vec_deinit(&p->waiters);
    for (int i = 0; i < MR_SIM_MAX_TASKS; i++)
        mr_vec_deinit(&p->tokens[i]);
    mr_free(p);
}

static mr_sim_value take_first(values *q)
{
    mr_sim_value v = q->p[0];
    memmove(q->p, q->p + 1, sizeof v * (size_t)--q->n);
    return v;
}

static void drop_gradients_before(struct mr_sim_ps *p, int64_t stamp)
{
    p->stamp = stamp;
    for (int i = p->gradients.n; i-- > 0;)
        if (p->gradients.p[i].stamp < stamp)
            mr_vec_remove_swap(&p->gradients, i);
}

/* Applies all accumulated gradients; from then on, gradients for that stamp are dropped. */
static void apply_gradients(mr_sim *s, mr_sim_task *t, int64_t next_stamp)
{
    struct mr_sim_ps *p = t->ps;
    for (int i = 0; i < p->gradients.n; i++) {
        if (p->gradients.p[i].stamp != next_stamp - 1)
            mr_sim_fail(s, "%s applies a gradient for another step", s->nodes[t->node].name);
        mr_sim_ledger_applied(s, t->node, p->gradients.p[i].amount);
    }
    p->gradients.n = 0;
    p->stamp = next_stamp;
    p->updates++;
    mr_sim_say(s, t->node, "update %lld, next stamp %lld", (long long)p->updates, (long long)next_stamp);
}

/* True if the work could be done; then v is its result. */
static bool try_work(mr_sim *s, mr_sim_task *t, mr_sim_work work, mr_sim_value *v)
{
    struct mr_sim_ps *p = t->ps;
    switch (work) {
    case MR_SIM_ADD:
        p->counter += v->a;
        mr_sim_ledger_applied(s, t->node, v->a);
        return true;
    case MR_SIM_INIT:
        if (!p->initialised)
            p->updates = v->a;
        p->initialised = true;
        return true;
    case MR_SIM_READ: *v = (mr_sim_value){p->initialised, p->updates}; return true;
    case MR_SIM_STAMP: drop_gradients_before(p, v->a); return true;
    case MR_SIM_PUSH:
        if (v->a >= p->stamp) {
            gradient g = {v->a, v->b};
            mr_vec_push(&p->gradients, g);
        }
        return true;
    case MR_SIM_APPLY:
        if (p->gradients.n < v->a)
            return false;
        apply_gradients(s, t, v->b);
        return true;
    case MR_SIM_SAY: mr_vec_push(&p->words, *v); return true;
    case MR_SIM_HEAR:
        if (p->words.n == 0)
            return false;
        *v = take_first(&p->words);
        return true;
    case MR_SIM_TOKEN:
        for (int i = 0; i < MR_SIM_MAX_TASKS; i++)
            if (v->b >> i & 1)
                mr_vec_push(&p->tokens[i], *v);
        return true;
    case MR_SIM_WAIT:
        if (p->tokens[v->a].n == 0)
            return false;
        *v = take_first(&p->tokens[v->a]);
        return true;
    }
    return true;
}

/* Retries all waiters after the state has changed. */
static void wake_waiters(mr_sim *s, mr_sim_task *t)
{
    struct mr_sim_ps *p = t->ps;
    for (int i = 0; i < p->waiters.n; i++) {
        waiter w = p->waiters.p[i];
        if (!try_work(s, t, w.work, &w.v))
            continue;
        memmove(&p->waiters.p[i], &p->waiters.p[i + 1], sizeof w * (size_t)(p->waiters.n - 1 - i));
        p->waiters.n--;
        mr_sim_work_done(s, w.step, NULL, w.v);
        i = -1;
    }
}

/* Without its state, a restarted server rejects all work except counting, initialisation and reading. */
void mr_sim_ps_work(mr_sim *s, mr_sim_task *t, mr_sim_worker_run *w, mr_sim_work work, const mr_sim_value *v)
{
    struct mr_sim_ps *p = t->ps;
    mr_sim_value out = *v;
    bool needs_state = work != MR_SIM_ADD && work != MR_SIM_INIT && work != MR_SIM_READ;
    if (needs_state && !p->initialised) {
        mr_sim_work_done(s, w, mr_error(MR_FAILED_PRECONDITION, "%s is not initialised", s->nodes[t->node].name), out);
    } else if (try_work(s, t, work, &out)) {
        mr_sim_work_done(s, w, NULL, out);
        wake_waiters(s, t);
    } else {
        waiter wait = {w, work, *v};
        mr_vec_push(&p->waiters, wait);
    }
}

void mr_sim_ps_forget(mr_sim_task *t, const mr_sim_worker_run *w)
{
    struct mr_sim_ps *p = t->ps;
    for (int i = p->waiters.n; i-- > 0;)
        if (p->waiters.p[i].step == w) {
            memmove(&p->waiters.p[i], &p->waiters.p[i + 1], sizeof(waiter) * (size_t)(p->waiters.n - 1 - i));
            p->waiters.n--;
        }
}
