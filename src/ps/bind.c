/* ps/bind.c -- a client as a store that ops use (run/parameter_store.h).
 *
 * The store is embedded in the client. Ops find it by name; mr_parameter_store_bind(name, NULL)
 * returns only when no op is using it, so the client can be closed after that. */
#include "ps/client_internal.h"

#include "base/clock.h"

static mr_ps *client_of(mr_parameter_store *s) { return (mr_ps *)((char *)s - offsetof(mr_ps, store)); }

/* Tables may be added at any time, so the number is looked up for each op. */
static mr_status *find_table(mr_parameter_store *s, mr_sv table, int *number, int *width, int *push_width)
{
    mr_ps *ps = client_of(s);
    for (int i = 0; i < mr_ps_n_tables(ps); i++) {
        const mr_ps_table_spec *t = mr_ps_table_at(ps, i);
        if (!mr_sv_is(table, t->name))
            continue;
        *number = i;
        *width = t->o.width;
        *push_width = mr_ps_table_push_width(t);
        return NULL;
    }
    return mr_error(MR_NOT_FOUND, "The parameter server has no table '%.*s'", MR_SV_ARG(table));
}

typedef struct call {
    void (*done)(void *arg, mr_status *st);
    void *arg;
} call;

/* On the client's thread. The op's callback may start other ops, so the memory is freed before it
 * runs. */
static void on_done(void *arg, mr_ps_task t, const mr_status *st)
{
    call c = *(call *)arg;
    (void)t;
    mr_free(arg);
    c.done(c.arg, mr_status_copy(st));
}

/* Begins an op's pull or push and returns its task. `done` is called exactly once, also after an error; if that has
 * happened already, the result is 0. */
static int64_t start_call(mr_parameter_store *s, const mr_parameter_call *c)
{
    mr_ps_task task = 0;
    call *x = mr_new(call);
    *x = (call){c->done, c->arg};
    mr_ps_job j = {.pull = !c->push,
                   .table = c->table,
                   .keys = {.list = c->keys, .n = c->n},
                   .floats = c->values,
                   .out = c->out,
                   .done = on_done,
                   .arg = x};
    mr_status *st = mr_ps_begin(client_of(s), &j, &task);
    MR_ASSERT(st || task > 0);
    if (!st)
        return task;
    mr_free(x);
    c->done(c->arg, st);
    return 0;
}

static void cancel_call(mr_parameter_store *s, int64_t task) { mr_ps_cancel(client_of(s), task); }

/* A task that has ended, or never existed, is ignored. */
void mr_ps_cancel(mr_ps *ps, mr_ps_task t)
{
    mr_lock(&ps->mu);
    if (mr_imap_get(&ps->tasks, (uint64_t)t)) {
        mr_psc_cancel(ps->psc, t, mr_now_ns(), &ps->actions);
        mr_ps_nudge_locked(ps);
    }
    mr_unlock(&ps->mu);
}

/* Replaces an earlier name. The lock is not held while the old name is unbound, because that waits
 * for ops, and ops take the lock. */
mr_status *mr_ps_bind_store(mr_ps *ps, const char *name)
{
    mr_lock(&ps->mu);
    if (!ps->store.find) /* only once, because ops may be reading it */
        ps->store = (mr_parameter_store){find_table, start_call, cancel_call};
    char *before = ps->bound;
    ps->bound = NULL;
    mr_unlock(&ps->mu);
    if (before)
        mr_status_free(mr_parameter_store_bind(before, NULL));
    mr_free(before);
    if (!name)
        return NULL;
    MR_TRY(mr_parameter_store_bind(name, &ps->store));
    mr_lock(&ps->mu);
    ps->bound = mr_strdup(name);
    mr_unlock(&ps->mu);
    return NULL;
}
