/* ops/data/parallel_map.c -- see parallel_map.h.
 *
 * A call is in the queue from before it starts until it is taken; it is done when its results have arrived. The
 * thread, every running call and the consumer hold references. */
#include "ops/data/parallel_map.h"

#include "base/memory.h"

typedef struct call {
    mr_parallel_map *m;
    int n_args; /* arguments of the element, which are owned; captured ones follow and are not */
    mr_tensor **args, **rets;
    mr_status *st;
    bool done, end;
    struct call *next;
} call;

struct mr_parallel_map {
    mr_refs refs;
    mr_parallel_map_spec spec;
    mr_data_env *env;
    mr_iterator *input; /* used by the thread only */
    mr_cancel_entry on_cancel;
    bool registered;
    mr_mutex mu;
    mr_cond changed;
    call *head MR_GUARDED_BY(mu), *tail MR_GUARDED_BY(mu);
    int64_t n MR_GUARDED_BY(mu); /* calls in the queue */
    bool begun, over, ended MR_GUARDED_BY(mu);
};

#define MOST_CALLS 4096

mr_status *mr_parallel_calls(int64_t n, int64_t *out)
{
    if (n == -1)
        n = mr_cpu_count();
    if (n < 1)
        return mr_invalid("num_parallel_calls must be greater than zero.");
    *out = MR_MIN(n, MOST_CALLS);
    return NULL;
}

static void call_free(call *k)
{
    const mr_parallel_map_spec *s = &k->m->spec;
    mr_element_drop(k->args, k->n_args);
    mr_element_drop(k->rets, s->n_rets);
    mr_status_free(k->st);
    mr_free(k->args);
    mr_free(k->rets);
    mr_free(k);
}

static void unref_map(mr_parallel_map *m)
{
    if (!mr_refs_drop(&m->refs))
        return;
    if (m->registered)
        mr_cancel_unregister(m->env->cancel, &m->on_cancel);
    for (call *k = m->head, *next; k; k = next) {
        next = k->next;
        call_free(k);
    }
    mr_iterator_close(m->input);
    mr_object_unref(&m->spec.dataset->base);
    mr_data_env_unref(m->env);
    mr_cond_deinit(&m->changed);
    mr_mutex_deinit(&m->mu);
    mr_free(m);
}

static void cancel_map(mr_cancel_entry *e)
{
    mr_parallel_map *m = (mr_parallel_map *)((char *)e - offsetof(mr_parallel_map, on_cancel));
    mr_lock(&m->mu);
    m->over = true;
    mr_cond_broadcast(&m->changed);
    mr_unlock(&m->mu);
}

mr_status *mr_parallel_map_new(mr_iterator *it, const mr_parallel_map_spec *s, mr_parallel_map **out)
{
    mr_parallel_map *m = mr_new(mr_parallel_map);
    mr_refs_init(&m->refs);
    m->spec = *s;
    m->env = mr_data_env_child(it->env);
    mr_object_ref(&s->dataset->base);
    mr_mutex_init(&m->mu);
    mr_cond_init(&m->changed);
    m->on_cancel.fn = cancel_map;
    m->registered = mr_cancel_register(m->env->cancel, &m->on_cancel);
    m->over = !m->registered;
    mr_status *st = mr_iterator_open(s->dataset->inputs[s->input], m->env, it, &m->input);
    if (st) {
        unref_map(m);
        m = NULL;
    }
    *out = m;
    return st;
}

void mr_parallel_map_close(mr_parallel_map *m)
{
    if (!m)
        return;
    mr_cancel_start(m->env->cancel);
    unref_map(m);
}

/* ---- calls ---- */

static void call_done(void *ctx, mr_status *st)
{
    call *k = ctx;
    mr_parallel_map *m = k->m;
    mr_lock(&m->mu);
    k->st = mr_data_out_of_range(st, m->spec.keeps_count, &k->end);
    k->done = true;
    mr_cond_broadcast(&m->changed);
    mr_unlock(&m->mu);
    unref_map(m);
}

static call *read_one(mr_parallel_map *m)
{
    const mr_parallel_map_spec *s = &m->spec;
    call *k = mr_new(call);
    k->m = m;
    k->n_args = m->input->dataset->n;
    k->args = mr_element_new(k->n_args + s->fn->n_captured);
    k->rets = mr_element_new(s->n_rets);
    k->st = mr_iterator_next(m->input, k->args, &k->end);
    k->done = k->st || k->end;
    return k;
}

static void start_call(mr_parallel_map *m, call *k)
{
    const mr_data_fn *fn = m->spec.fn;
    for (int i = 0; i < fn->n_captured; i++)
        k->args[k->n_args + i] = fn->captured[i];
    mr_refs_take(&m->refs);
    mr_data_start(fn, m->spec.dataset, m->env, k->args, k->n_args + fn->n_captured, k->rets, m->spec.n_rets, call_done, k);
}

static void run_thread(void *arg)
{
    mr_parallel_map *m = arg;
    bool end = false;
    mr_lock(&m->mu);
    while (!m->over && !end) {
        if (m->n >= m->spec.most) {
            mr_cond_wait(&m->changed, &m->mu);
            continue;
        }
        mr_unlock(&m->mu);
        call *k = read_one(m);
        bool calls = !k->done;
        end = k->end;
        mr_lock(&m->mu);
        if (m->tail)
            m->tail->next = k;
        else
            m->head = k;
        m->tail = k;
        m->n++;
        mr_cond_broadcast(&m->changed);
        mr_unlock(&m->mu);
        if (calls)
            start_call(m, k);
        mr_lock(&m->mu);
    }
    mr_unlock(&m->mu);
    unref_map(m);
}

/* ---- taking ---- */

/* Takes the first call of the queue, or any that is done; takes the end only when it is the first. */
static call *take_locked(mr_parallel_map *m)
{
    call *before = NULL;
    for (call *k = m->head; k; before = k, k = k->next) {
        bool may = k->done && (k == m->head || (!m->spec.in_order && !k->end));
        if (!may && m->spec.in_order)
            return NULL;
        if (!may)
            continue;
        if (before)
            before->next = k->next;
        else
            m->head = k->next;
        if (m->tail == k)
            m->tail = before;
        m->n--;
        mr_cond_broadcast(&m->changed);
        return k;
    }
    return NULL;
}

static mr_status *begin_thread(mr_parallel_map *m)
{
    if (m->begun)
        return NULL;
    mr_refs_take(&m->refs);
    mr_status *st = mr_later_thread(m->env->later, "map", run_thread, m);
    m->begun = !st;
    if (st)
        unref_map(m); /* not the last reference */
    return st;
}

static mr_status *hand_out(mr_parallel_map *m, call *k, mr_tensor **out, bool *end)
{
    mr_status *st = k->st;
    int n = m->spec.keeps_args ? k->n_args : 0;
    k->st = NULL;
    *end = k->end;
    for (int i = 0; !st && !*end && i < n; i++) {
        out[i] = k->args[i];
        k->args[i] = NULL;
    }
    for (int i = 0; !st && !*end && i < m->spec.n_rets; i++) {
        out[n + i] = k->rets[i];
        k->rets[i] = NULL;
    }
    call_free(k);
    return st;
}

mr_status *mr_parallel_map_next(mr_parallel_map *m, mr_tensor **out, bool *end)
{
    call *k = NULL;
    MR_TRY(begin_thread(m));
    mr_lock(&m->mu);
    while (!m->ended && !(k = take_locked(m)) && !m->over)
        mr_cond_wait(&m->changed, &m->mu);
    if (k && k->end)
        m->ended = true;
    *end = m->ended;
    mr_unlock(&m->mu);
    if (!k)
        return *end ? NULL : mr_error(MR_CANCELLED, "Iterator was cancelled");
    return hand_out(m, k, out, end);
}
