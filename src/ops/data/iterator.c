/* ops/data/iterator.c -- iterates over datasets, and calls their functions. */
#include "base/clock.h"
#include "base/memory.h"
#include "graph/library.h"
#include "ops/data/dataset.h"

#define MAX_DEPTH 2000        /* iterators that call each other on one stack */
#define MAX_OPEN (1 << 20)    /* open iterators: datasets that share their inputs may need any number of them */

/* ---- the environment that iterators share ---- */

static mr_data_env *new_env(mr_data_env *parent, mr_later *l)
{
    mr_data_env *e = mr_new(mr_data_env);
    mr_refs_init(&e->refs);
    e->parent = parent ? mr_data_env_ref(parent) : NULL;
    e->root = parent ? parent->root : e;
    e->asker = e;
    e->any_order = parent && parent->any_order;
    e->state = parent ? parent->state : mr_later_state_new();
    e->later = mr_later_ref(l);
    e->cancel = mr_cancel_new(parent ? parent->cancel : mr_later_cancel(l));
    return e;
}

mr_data_env *mr_data_env_new(mr_later *l) { return new_env(NULL, l); }
mr_data_env *mr_data_env_child(mr_data_env *parent) { return new_env(parent, parent->later); }

mr_data_env *mr_data_env_ref(mr_data_env *e)
{
    mr_refs_take(&e->refs);
    return e;
}

void mr_data_env_unref(mr_data_env *e)
{
    for (mr_data_env *parent; e && mr_refs_drop(&e->refs); e = parent) {
        parent = e->parent;
        if (!parent)
            mr_later_state_forget(e->later, e->state);
        mr_cancel_free(e->cancel);
        mr_later_unref(e->later);
        mr_free(e);
    }
}

/* ---- iterators ---- */

static void close_functions(mr_iterator *it);

mr_status *mr_iterator_open(mr_dataset *d, mr_data_env *env, const mr_iterator *parent, mr_iterator **out)
{
    int depth = parent ? parent->depth + 1 : 0;
    *out = NULL;
    if (depth > MAX_DEPTH)
        return mr_error(MR_RESOURCE_EXHAUSTED, "More than %d iterators are nested", MAX_DEPTH);
    if (atomic_load_explicit(&env->root->n_open, memory_order_relaxed) >= MAX_OPEN)
        return mr_error(MR_RESOURCE_EXHAUSTED, "One iterator has opened more than %d others", MAX_OPEN);
    atomic_fetch_add_explicit(&env->root->n_open, 1, memory_order_relaxed);
    mr_iterator *it = mr_calloc(1, d->kind->iterator_bytes);
    it->dataset = (mr_dataset *)mr_object_ref(&d->base);
    it->env = mr_data_env_ref(env);
    it->depth = depth;
    it->is_entry = !parent || parent->env != env;
    mr_status *st = NULL;
    if (d->kind->open)
        st = d->kind->open(it);
    else if (d->n_inputs > 0)
        st = mr_iterator_open_input(it, 0, &it->input);
    if (st)
        mr_iterator_close(it);
    else
        *out = it;
    return st;
}

mr_status *mr_iterator_open_input(mr_iterator *it, int i, mr_iterator **out)
{
    return mr_iterator_open(it->dataset->inputs[i], it->env, it, out);
}

void mr_iterator_close(mr_iterator *it)
{
    if (!it)
        return;
    if (it->dataset->kind->close)
        it->dataset->kind->close(it);
    mr_iterator_close(it->input);
    close_functions(it);
    atomic_fetch_sub_explicit(&it->env->root->n_open, 1, memory_order_relaxed);
    mr_object_unref(&it->dataset->base);
    mr_data_env_unref(it->env);
    mr_free(it);
}

void mr_element_drop(mr_tensor **t, int n)
{
    for (int i = 0; i < n; i++) {
        mr_tensor_unref(t[i]);
        t[i] = NULL;
    }
}

/* A function may return other types than the calling node declares. */
mr_status *mr_element_check(const mr_dataset *d, mr_tensor **out)
{
    for (int i = 0; i < d->n; i++) {
        if (MR_LIKELY(out[i] && out[i]->dtype == mr_dtype_base(d->types[i])))
            continue;
        mr_status *st = mr_invalid("Data type mismatch at component %d: expected %s but got %s.", i,
                                   mr_dtype_name(d->types[i]), out[i] ? mr_dtype_name(out[i]->dtype) : "nothing");
        mr_element_drop(out, d->n);
        return st;
    }
    return NULL;
}

/* ---- attempts ---- */

enum { MOST_CALLS_WITHOUT_CLOCK = 16, MAX_ATTEMPT_DEPTH = 64 }; /* depth: the thread's stack is not ours */

mr_status *mr_give_up(mr_iterator *it)
{
    mr_attempt *a = mr_iterator_attempt(it);
    if (!a)
        return NULL;
    a->gave_up = true;
    return mr_error(MR_CANCELLED, "The attempt was given up");
}

/* Gives up if the kind does not work in attempts, the time is over, or nobody wants the element any longer. */
static mr_status *continue_attempt(mr_iterator *it, mr_attempt *a)
{
    if (!it->dataset->kind->tries || it->depth > MAX_ATTEMPT_DEPTH || a->gave_up)
        return mr_give_up(it);
    if (--a->patience > 0)
        return NULL;
    a->patience = MOST_CALLS_WITHOUT_CLOCK;
    return mr_cancel_started(a->run) || mr_now_ns() > a->until_ns ? mr_give_up(it) : NULL;
}

/* Waits for pipes on this thread end when the environment is cancelled. Within an environment the entry has arranged
 * that. */
static mr_status *enter_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    mr_stop outer = mr_stop_swap(mr_cancel_stop(it->env->cancel));
    mr_status *st = it->dataset->kind->next(it, out, end);
    mr_stop_swap(outer);
    return st;
}

mr_status *mr_iterator_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    const mr_dataset *d = it->dataset;
    *end = false;
    for (int i = 0; i < d->n; i++)
        out[i] = NULL;
    if (MR_UNLIKELY(mr_cancel_started(it->env->cancel)))
        return mr_error(MR_CANCELLED, "Iterator was cancelled");
    if (mr_iterator_attempt(it))
        MR_TRY(continue_attempt(it, mr_iterator_attempt(it)));
    mr_status *st = it->is_entry ? enter_next(it, out, end) : d->kind->next(it, out, end);
    if (MR_UNLIKELY(st || *end)) {
        mr_element_drop(out, d->n);
        *end = *end && !st; /* one part may have ended before another part failed */
        return st;
    }
    return mr_element_check(d, out);
}

static mr_status *next_one_by_one(mr_iterator *it, int64_t most, mr_tensor **out, int64_t *n, bool *end)
{
    for (*n = 0; *n < most; ++*n) {
        MR_TRY(mr_iterator_next(it, out + *n * it->dataset->n, end));
        if (*end)
            break;
    }
    return NULL;
}

/* Attempts go one by one, because mr_iterator_next counts them. */
mr_status *mr_iterator_next_block(mr_iterator *it, int64_t most, mr_tensor **out, int64_t *n, bool *end)
{
    const mr_dataset *d = it->dataset;
    *n = 0;
    *end = false;
    if (!d->kind->next_block || mr_iterator_attempt(it))
        return next_one_by_one(it, most, out, n, end);
    if (MR_UNLIKELY(mr_cancel_started(it->env->cancel)))
        return mr_error(MR_CANCELLED, "Iterator was cancelled");
    mr_stop outer = mr_stop_swap(mr_cancel_stop(it->env->cancel));
    mr_status *st = d->kind->next_block(it, most, out, n, end);
    mr_stop_swap(outer);
    MR_ASSERT(*n <= most && (st || *end || *n == most));
    *end = *end && !st;
    return st;
}

/* ---- functions ---- */

void mr_data_fn_init(mr_data_fn *fn, mr_dataset *d, mr_run *r, int i, int first_in, int n)
{
    const mr_dataset_state *s = r->state;
    mr_attr f = {MR_ATTR_FUNC, .func = s->funcs[i]};
    if (!d->later)
        d->later = mr_later_new(r);
    fn->f = mr_attr_copy(&d->arena, &d->held, &f).func;
    fn->n_captured = n;
    fn->one_thread = s->one_thread;
    fn->captured = mr_arena_array(&d->arena, mr_tensor *, n + 1);
    for (int k = 0; k < n; k++)
        fn->captured[k] = mr_dataset_keep(d, mr_in(r, first_in + k));
}

int mr_data_fn_results(const mr_data_fn *fn, const mr_dataset *d)
{
    const mr_library *l = mr_later_library(d->later);
    const mr_function *f = l ? mr_library_find(l, mr_sv_of(fn->f->name)) : NULL;
    return f ? f->def.n_out : 0;
}

mr_status *mr_data_out_of_range(mr_status *st, bool keeps_count, bool *end)
{
    if (mr_status_code(st) != MR_OUT_OF_RANGE)
        return st;
    mr_status *said = keeps_count ? mr_invalid("Function invocation produced OutOfRangeError: %s", mr_status_message(st)) : NULL;
    *end = !keeps_count;
    mr_status_free(st);
    return said;
}

/* A function that an iterator has called before; a kind has one to four functions. It is opened at its second call: many
 * iterators, inside of a flat map for example, have few elements. */
typedef struct mr_data_opened {
    const mr_data_fn *fn;
    int n_args, n_rets;
    mr_later_fn *f; /* NULL: not opened yet */
    struct mr_data_opened *next;
} opened;

static opened *find_opened(const mr_iterator *it, const mr_data_fn *fn)
{
    opened *o = it->opened;
    while (o && o->fn != fn)
        o = o->next;
    return o;
}

mr_status *mr_data_fn_open(const mr_data_fn *fn, const mr_dataset *d, const mr_data_env *env, int n_args, int n_rets,
                           mr_later_fn **out)
{
    return mr_later_fn_open(d->later, &(mr_later_call){.f = fn->f, .args = fn->captured, .n_args = fn->n_captured,
                                                       .n_rets = n_rets, .cancel = env->cancel, .state = env->state,
                                                       .one_thread = fn->one_thread},
                            n_args, out);
}

/* The first call of an iterator. */
static mr_status *call_first(const mr_data_fn *fn, mr_iterator *it, mr_tensor *const *args, int n_args,
                             mr_tensor **rets, int n_rets)
{
    int n = n_args + fn->n_captured;
    mr_tensor *few[MR_FEW_TENSORS], **all = n <= MR_FEW_TENSORS ? few : mr_element_new(n);
    for (int i = 0; i < n; i++)
        all[i] = i < n_args ? args[i] : fn->captured[i - n_args];
    opened *o = mr_new(opened);
    *o = (opened){fn, n_args, n_rets, NULL, it->opened};
    it->opened = o;
    mr_status *st = mr_later_run(it->dataset->later, &(mr_later_call){.f = fn->f, .args = all, .n_args = n, .rets = rets,
                                                                      .n_rets = n_rets, .cancel = it->env->cancel,
                                                                      .state = it->env->state, .one_thread = fn->one_thread});
    if (all != few)
        mr_free(all);
    return st;
}

static void close_functions(mr_iterator *it)
{
    for (opened *o = it->opened, *next; o; o = next) {
        next = o->next;
        mr_later_fn_close(o->f);
        mr_free(o);
    }
}

/* Opening a function may take long, so it is left to a thread that may wait. */
mr_status *mr_data_may_call(const mr_data_fn *fn, mr_iterator *it)
{
    mr_attempt *a = mr_iterator_attempt(it);
    if (MR_LIKELY(!a))
        return NULL;
    const opened *o = find_opened(it, fn);
    return o && o->f && mr_later_fn_cost_ns(o->f) <= MR_ATTEMPT_NS ? NULL : mr_give_up(it);
}

mr_status *mr_data_call(const mr_data_fn *fn, mr_iterator *it, mr_tensor *const *args, int n_args,
                        mr_tensor **rets, int n_rets)
{
    opened *o = find_opened(it, fn);
    for (int i = 0; i < n_rets; i++)
        rets[i] = NULL;
    if (!o)
        return call_first(fn, it, args, n_args, rets, n_rets);
    MR_ASSERT(o->n_args == n_args && o->n_rets == n_rets);
    if (!o->f)
        MR_TRY(mr_data_fn_open(fn, it->dataset, it->env, n_args, n_rets, &o->f));
    return mr_later_fn_run(o->f, args, rets);
}

void mr_data_start(const mr_data_fn *fn, const mr_dataset *d, const mr_data_env *e, mr_tensor *const *args, int n_args,
                   mr_tensor **rets, int n_rets, void (*done)(void *ctx, mr_status *st), void *ctx)
{
    mr_later_start(d->later, &(mr_later_call){.f = fn->f, .args = args, .n_args = n_args, .rets = rets,
                                              .n_rets = n_rets, .cancel = e ? e->cancel : NULL,
                                              .state = e ? e->state : 0, .one_thread = fn->one_thread},
                   done, ctx);
}

/* Calls a function with one result, which must be a scalar of this type. */
static mr_status *call_scalar(const mr_data_fn *fn, mr_iterator *it, mr_tensor *const *args, int n,
                              mr_dtype type, mr_tensor **out)
{
    MR_TRY(mr_data_call(fn, it, args, n, out, 1));
    if ((*out)->dtype == type && (*out)->n == 1)
        return NULL;
    mr_status *st = mr_invalid("Function `%s` must return a scalar %s, but it returned a %s of shape %s", fn->f->name,
                               mr_dtype_name(type), mr_dtype_name((*out)->dtype), MR_TENSOR_SHAPE(*out));
    mr_element_drop(out, 1);
    return st;
}

mr_status *mr_data_call_bool(const mr_data_fn *fn, mr_iterator *it, mr_tensor *const *args, int n, bool *out)
{
    mr_tensor *t = NULL;
    MR_TRY(call_scalar(fn, it, args, n, MR_BOOL, &t));
    *out = *MR_DATA(bool, t);
    mr_tensor_unref(t);
    return NULL;
}

mr_status *mr_data_call_int(const mr_data_fn *fn, mr_iterator *it, mr_tensor *const *args, int n, int64_t *out)
{
    mr_tensor *t = NULL;
    MR_TRY(call_scalar(fn, it, args, n, MR_INT64, &t));
    *out = *MR_DATA(int64_t, t);
    mr_tensor_unref(t);
    return NULL;
}

mr_status *mr_data_call_dataset(const mr_data_fn *fn, mr_iterator *it, mr_tensor *const *args, int n,
                                mr_iterator **out)
{
    mr_tensor *t = NULL;
    mr_dataset *d = NULL;
    MR_TRY(mr_data_call(fn, it, args, n, &t, 1));
    mr_status *st = NULL;
    MR_GO(mr_dataset_of(t, &d));
    MR_GO(mr_dataset_check_types(it->dataset->n, it->dataset->types, d));
    MR_GO(mr_iterator_open(d, it->env, it, out));
out:
    mr_tensor_unref(t);
    return st;
}

/* ---- jobs ---- */

typedef struct job {
    mr_run *r;
    mr_data_job fn;
    mr_data_env *env;
    mr_cancel_entry on_cancel;
    bool registered;
} job;

static void step_cancelled(mr_cancel_entry *e)
{
    mr_cancel_start(((job *)((char *)e - offsetof(job, on_cancel)))->env->cancel);
}

static void end_job(job *j, mr_status *st)
{
    mr_run *r = j->r;
    if (j->registered)
        mr_cancel_unregister(r->step->cancel, &j->on_cancel);
    mr_data_env_unref(j->env);
    mr_free(j);
    mr_run_done(r, st);
}

static void run_job(void *arg)
{
    job *j = arg;
    end_job(j, j->fn(j->r, j->env));
}

void mr_data_job_start(mr_run *r, mr_data_job fn)
{
    job *j = mr_new(job);
    mr_later *l = mr_later_new(r);
    *j = (job){.r = r, .fn = fn, .env = mr_data_env_new(l), .on_cancel = {.fn = step_cancelled}};
    j->registered = mr_cancel_register(r->step->cancel, &j->on_cancel);
    mr_status *st = j->registered ? mr_later_thread(l, "data", run_job, j)
                                  : mr_error(MR_CANCELLED, "Run call was cancelled");
    mr_later_unref(l);
    if (st)
        end_job(j, st);
}
