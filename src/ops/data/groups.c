/* ops/data/groups.c -- elements by key: GroupByWindowDataset, GroupByReducerDataset; and GeneratorDataset, whose
 * functions keep their own state.
 *
 * Groups are sorted by key: the remaining ones are given in this order at the end. */
#include "base/memory.h"
#include "ops/data/dataset.h"
#include "ops/data/stack.h"

typedef struct grouped {
    mr_dataset base;
    mr_data_fn fns[4];
} grouped;

typedef struct group {
    int64_t key, size; /* size of its windows */
    bool has_size;
    mr_gathered some;  /* elements so far */
    mr_tensor **state; /* or a state */
} group;

typedef struct grouping {
    mr_iterator base;
    MR_VEC(group) groups;
    mr_iterator *inner; /* the window whose elements are being given */
    bool ended;
    int at;       /* the group whose result comes next, once the input has ended */
    int n_state;
} grouping;

/* Function i captures the inputs named by args[i]. */
static mr_status *new_grouped(mr_run *r, const mr_dataset_kind *k, const char *const *args, int n, grouped **out)
{
    const mr_dataset_state *s = r->state;
    if (s->n_funcs != n)
        return mr_invalid("%s '%s' needs %d functions", r->node->def->name, r->node->name, n);
    MR_TRY(mr_dataset_new(r, k, 0, mr_node_attr(r->node, "init_func") && n == 3 ? 0 : 1, out));
    for (int i = 0; i < n; i++) {
        int first, count;
        mr_status *st = mr_node_in_range(r->node, args[i], &first, &count);
        if (st)
            return mr_dataset_give(r, *out, st);
        mr_data_fn_init(&(*out)->fns[i], &(*out)->base, r, i, first, count);
    }
    mr_dataset_say_types(&(*out)->base, s);
    return NULL;
}

static group *find_group(grouping *p, int64_t key, bool *is_new)
{
    int low = 0, high = p->groups.n;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (p->groups.p[middle].key < key)
            low = middle + 1;
        else
            high = middle;
    }
    *is_new = low == p->groups.n || p->groups.p[low].key != key;
    if (*is_new) {
        mr_vec_push(&p->groups, (group){0});
        memmove(p->groups.p + low + 1, p->groups.p + low, sizeof(group) * (size_t)(p->groups.n - 1 - low));
        p->groups.p[low] = (group){.key = key, .some = {.width = p->base.dataset->inputs[0]->n}};
    }
    return &p->groups.p[low];
}

static void grouping_close(mr_iterator *it)
{
    grouping *p = (grouping *)it;
    mr_iterator_close(p->inner);
    for (int i = 0; i < p->groups.n; i++) {
        group *g = &p->groups.p[i];
        mr_gathered_deinit(&g->some);
        if (g->state)
            mr_element_drop(g->state, p->n_state);
        mr_free(g->state);
    }
    mr_vec_deinit(&p->groups);
}

static mr_status *read_one(mr_iterator *it, mr_tensor **in, int64_t *key, bool *end)
{
    const grouped *d = (grouped *)it->dataset;
    MR_TRY(mr_iterator_next(it->input, in, end));
    return *end ? NULL : mr_data_call_int(&d->fns[0], it, in, d->base.inputs[0]->n, key);
}

/* ---- windows ---- */

static mr_status *window_size(grouping *p, group *g)
{
    const grouped *d = (grouped *)p->base.dataset;
    mr_tensor *key = mr_tensor_scalar_i64(g->key);
    mr_status *st = mr_data_call_int(&d->fns[2], &p->base, &key, 1, &g->size);
    mr_tensor_unref(key);
    if (!st && g->size <= 0)
        st = mr_invalid("Window size must be greater than zero, but got %lld.", (long long)g->size);
    g->has_size = !st;
    return st;
}

/* Calls reduce_func with the elements of a group; the elements of its result are given next. */
static mr_status *flush_group(grouping *p, group *g)
{
    const grouped *d = (grouped *)p->base.dataset;
    mr_dataset *some = mr_gathered_dataset(d->base.inputs[0], &g->some);
    mr_tensor *args[2] = {mr_tensor_scalar_i64(g->key), NULL};
    mr_status *st = mr_dataset_tensor(some, &args[1]);
    if (!st)
        st = mr_data_call_dataset(&d->fns[1], &p->base, args, 2, &p->inner);
    mr_element_drop(args, 2);
    mr_object_unref(&some->base);
    return st;
}

static mr_status *add_to_window(grouping *p, mr_tensor **in, int64_t key)
{
    bool is_new;
    group *g = find_group(p, key, &is_new);
    if (!g->has_size) {
        mr_status *st = window_size(p, g);
        if (st) {
            mr_element_drop(in, g->some.width);
            return st;
        }
    }
    MR_TRY(mr_gathered_push(&g->some, in));
    return g->some.n == g->size ? flush_group(p, g) : NULL;
}

static mr_status *window_step(grouping *p)
{
    mr_iterator *it = &p->base;
    int n = it->dataset->inputs[0]->n;
    int64_t key = 0;
    if (p->ended) {
        group *g = &p->groups.p[p->at++];
        return g->some.n > 0 ? flush_group(p, g) : NULL;
    }
    mr_tensor **in = mr_element_new(n);
    mr_status *st = read_one(it, in, &key, &p->ended);
    if (!st && !p->ended)
        st = add_to_window(p, in, key); /* this takes the tensors */
    else
        mr_element_drop(in, n);
    mr_free(in);
    return st;
}

static mr_status *window_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    grouping *p = (grouping *)it;
    for (;;) {
        if (p->inner) {
            MR_TRY(mr_iterator_next(p->inner, out, end));
            if (!*end)
                return NULL;
            mr_iterator_close(p->inner);
            p->inner = NULL;
            *end = false;
        }
        if ((*end = p->ended && p->at >= p->groups.n))
            return NULL;
        MR_TRY(window_step(p));
    }
}

static const mr_dataset_kind window_kind = {"GroupByWindow", sizeof(grouped), sizeof(grouping), NULL, window_next, grouping_close};

static mr_status *group_by_window(mr_run *r)
{
    grouped *d;
    MR_TRY(new_grouped(r, &window_kind, (const char *const[]){"key_func_other_arguments", "reduce_func_other_arguments",
                                                              "window_size_func_other_arguments"}, 3, &d));
    return mr_dataset_give(r, d, NULL);
}

MR_OP(GroupByWindowDataset,
    .doc     = "what reduce_func makes of window_size_func(key) elements of one key at a time",
    .sig     = "input_dataset: variant, key_func_other_arguments: Tkey_func_other_arguments, reduce_func_other_arguments: "
               "Treduce_func_other_arguments, window_size_func_other_arguments: Twindow_size_func_other_arguments -> handle: variant",
    .attrs   = "key_func: func; reduce_func: func; window_size_func: func; Tkey_func_other_arguments: list(type) >= 0; "
               "Treduce_func_other_arguments: list(type) >= 0; Twindow_size_func_other_arguments: list(type) >= 0; " MR_DATASET_ATTRS,
    .flags   = MR_NO_GRADIENT, MR_DATASET(group_by_window));

/* ---- reducers ---- */

/* Computes the initial state of a new key. */
static mr_status *init_state(grouping *p, group *g)
{
    const grouped *d = (grouped *)p->base.dataset;
    mr_tensor *key = mr_tensor_scalar_i64(g->key), **state = mr_element_new(p->n_state);
    mr_status *st = mr_data_call(&d->fns[1], &p->base, &key, 1, state, p->n_state);
    mr_tensor_unref(key);
    if (st)
        mr_free(state);
    else
        g->state = state;
    return st;
}

static mr_status *reduce_one(grouping *p, mr_tensor **in, int64_t key)
{
    const grouped *d = (grouped *)p->base.dataset;
    bool is_new;
    int n = d->base.inputs[0]->n;
    group *g = find_group(p, key, &is_new);
    if (!g->state)
        MR_TRY(init_state(p, g));
    mr_tensor **args = mr_element_new(p->n_state + n), **next = mr_element_new(p->n_state);
    memcpy(args, g->state, sizeof *args * (size_t)p->n_state);
    memcpy(args + p->n_state, in, sizeof *args * (size_t)n);
    mr_status *st = mr_data_call(&d->fns[2], &p->base, args, p->n_state + n, next, p->n_state);
    if (!st) {
        mr_element_drop(g->state, p->n_state);
        memcpy(g->state, next, sizeof *next * (size_t)p->n_state);
    }
    mr_free(next);
    mr_free(args);
    return st;
}

static mr_status *reduce_all(grouping *p)
{
    mr_iterator *it = &p->base;
    int n = it->dataset->inputs[0]->n;
    mr_tensor **in = mr_element_new(n);
    mr_status *st = NULL;
    while (!st && !p->ended) {
        int64_t key = 0;
        st = read_one(it, in, &key, &p->ended);
        if (!st && !p->ended)
            st = reduce_one(p, in, key);
        mr_element_drop(in, n);
    }
    mr_free(in);
    return st;
}

static mr_status *reducer_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    grouping *p = (grouping *)it;
    const grouped *d = (grouped *)it->dataset;
    if (!p->ended) {
        p->n_state = mr_data_fn_results(&d->fns[1], it->dataset);
        MR_TRY(reduce_all(p));
    }
    while (p->at < p->groups.n && !p->groups.p[p->at].state) /* its first element failed */
        p->at++;
    if ((*end = p->at >= p->groups.n))
        return NULL;
    group *g = &p->groups.p[p->at++];
    return mr_data_call(&d->fns[3], it, g->state, p->n_state, out, d->base.n);
}

static const mr_dataset_kind reducer_kind = {"GroupByReducer", sizeof(grouped), sizeof(grouping), NULL, reducer_next, grouping_close};

static mr_status *group_by_reducer(mr_run *r)
{
    grouped *d;
    MR_TRY(new_grouped(r, &reducer_kind, (const char *const[]){"key_func_other_arguments", "init_func_other_arguments",
                                                               "reduce_func_other_arguments", "finalize_func_other_arguments"}, 4, &d));
    return mr_dataset_give(r, d, NULL);
}

MR_OP(GroupByReducerDataset,
    .doc     = "one element a key: what finalize_func makes of the state that all its elements were reduced to",
    .sig     = "input_dataset: variant, key_func_other_arguments: Tkey_func_other_arguments, init_func_other_arguments: "
               "Tinit_func_other_arguments, reduce_func_other_arguments: Treduce_func_other_arguments, "
               "finalize_func_other_arguments: Tfinalize_func_other_arguments -> handle: variant",
    .attrs   = "key_func: func; init_func: func; reduce_func: func; finalize_func: func; Tkey_func_other_arguments: list(type) >= 0; "
               "Tinit_func_other_arguments: list(type) >= 0; Treduce_func_other_arguments: list(type) >= 0; "
               "Tfinalize_func_other_arguments: list(type) >= 0; " MR_DATASET_TYPES,
    .flags   = MR_STATEFUL | MR_NO_GRADIENT, MR_DATASET(group_by_reducer));

/* ---- a generator ---- */

typedef struct generating {
    mr_iterator base;
    mr_tensor **state; /* NULL: not started */
    int n_state;
    bool ended;
} generating;

/* The last call, for an iterator that is closed early: nobody waits for it. */
typedef struct farewell {
    mr_dataset *d;
    int n, n_rets;
    mr_tensor **args, **rets;
} farewell;

static void farewell_done(void *ctx, mr_status *st)
{
    farewell *f = ctx;
    mr_status_free(st);
    mr_element_drop(f->args, f->n);
    mr_element_drop(f->rets, f->n_rets);
    mr_object_unref(&f->d->base);
    mr_free(f->args);
    mr_free(f->rets);
    mr_free(f);
}

static void generator_close(mr_iterator *it)
{
    generating *g = (generating *)it;
    const mr_data_fn *fn = &((grouped *)it->dataset)->fns[2];
    if (!g->state)
        return;
    if (g->ended) {
        mr_element_drop(g->state, g->n_state);
        mr_free(g->state);
        return;
    }
    farewell *f = mr_new(farewell);
    *f = (farewell){(mr_dataset *)mr_object_ref(&it->dataset->base), g->n_state + fn->n_captured,
                    mr_data_fn_results(fn, it->dataset)};
    f->args = mr_element_new(f->n);
    f->rets = mr_element_new(f->n_rets);
    memcpy(f->args, g->state, sizeof *f->args * (size_t)g->n_state);
    for (int i = 0; i < fn->n_captured; i++)
        f->args[g->n_state + i] = mr_tensor_ref(fn->captured[i]);
    mr_free(g->state);
    mr_data_start(fn, f->d, NULL, f->args, f->n, f->rets, f->n_rets, farewell_done, f);
}

static mr_status *finalize_generator(generating *g)
{
    const grouped *d = (grouped *)g->base.dataset;
    int n = mr_data_fn_results(&d->fns[2], &d->base);
    mr_tensor **rets = mr_element_new(n);
    g->ended = true;
    mr_status *st = mr_data_call(&d->fns[2], &g->base, g->state, g->n_state, rets, n);
    mr_element_drop(rets, n);
    mr_free(rets);
    return st;
}

static mr_status *begin_generator(generating *g)
{
    const grouped *d = (grouped *)g->base.dataset;
    g->n_state = mr_data_fn_results(&d->fns[0], &d->base);
    g->state = mr_element_new(g->n_state);
    mr_status *st = mr_data_call(&d->fns[0], &g->base, NULL, 0, g->state, g->n_state);
    if (st) {
        mr_free(g->state);
        g->state = NULL;
    }
    return st;
}

static mr_status *generator_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    generating *g = (generating *)it;
    const grouped *d = (grouped *)it->dataset;
    if ((*end = g->ended))
        return NULL;
    if (!g->state)
        MR_TRY(begin_generator(g));
    MR_TRY(mr_data_out_of_range(mr_data_call(&d->fns[1], it, g->state, g->n_state, out, d->base.n), false, end));
    return *end ? finalize_generator(g) : NULL;
}

static const mr_dataset_kind generator_kind = {"Generator", sizeof(grouped), sizeof(generating), NULL, generator_next, generator_close};

static mr_status *generator_dataset(mr_run *r)
{
    grouped *d;
    MR_TRY(new_grouped(r, &generator_kind, (const char *const[]){"init_func_other_args", "next_func_other_args",
                                                                 "finalize_func_other_args"}, 3, &d));
    return mr_dataset_give(r, d, NULL);
}

MR_OP(GeneratorDataset,
    .doc     = "what next_func gives, called again and again until it says OUT_OF_RANGE",
    .sig     = "init_func_other_args: Tinit_func_args, next_func_other_args: Tnext_func_args, finalize_func_other_args: "
               "Tfinalize_func_args -> handle: variant",
    .attrs   = "init_func: func; next_func: func; finalize_func: func; Tinit_func_args: list(type) >= 0; Tnext_func_args: "
               "list(type) >= 0; Tfinalize_func_args: list(type) >= 0; " MR_DATASET_ATTRS,
    .flags   = MR_STATEFUL | MR_NO_GRADIENT, MR_DATASET(generator_dataset));
