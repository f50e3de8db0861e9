/* ops/data/functions.c -- datasets that call a function for each element: MapDataset, FilterDataset, FlatMapDataset,
 * InterleaveDataset, ScanDataset, TakeWhileDataset, ReduceDataset. */
#include "base/memory.h"
#include "ops/data/dataset.h"

typedef struct called { /* a dataset with a function */
    mr_dataset base;
    mr_data_fn fn;
    bool keeps_count;
    int64_t cycle, block;
    int n_state; /* number of state components of ScanDataset */
    mr_tensor **state;
} called;


/* Input 0 is a dataset; those of "other_arguments" are captured. */
static mr_status *new_called(mr_run *r, const mr_dataset_kind *k, bool own_types, called **out)
{
    int first, n;
    const mr_dataset_state *s = r->state;
    MR_TRY(mr_node_in_range(r->node, "other_arguments", &first, &n));
    if (s->n_funcs < 1)
        return mr_invalid("%s '%s' has no function", r->node->def->name, r->node->name);
    MR_TRY(mr_dataset_new(r, k, 0, 1, out));
    mr_data_fn_init(&(*out)->fn, &(*out)->base, r, 0, first, n);
    (*out)->keeps_count = s->keeps_count;
    if (own_types)
        mr_dataset_say_types(&(*out)->base, s);
    return NULL;
}

static mr_status *give_called(mr_run *r, const mr_dataset_kind *k, bool own_types)
{
    called *d;
    MR_TRY(new_called(r, k, own_types, &d));
    return mr_dataset_give(r, d, NULL);
}

/* ---- map ---- */

static mr_status *map_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    const called *d = (called *)it->dataset;
    int n = d->base.inputs[0]->n;
    mr_tensor *few[MR_FEW_TENSORS], **in = n <= MR_FEW_TENSORS ? few : mr_element_new(n);
    mr_status *st = mr_data_may_call(&d->fn, it);
    if (!st)
        st = mr_iterator_next(it->input, in, end);
    if (!st && !*end) {
        st = mr_data_out_of_range(mr_data_call(&d->fn, it, in, n, out, d->base.n), d->keeps_count, end);
        mr_element_drop(in, n);
    }
    if (in != few)
        mr_free(in);
    return st;
}

static int64_t map_count(const mr_dataset *d)
{
    return ((const called *)d)->keeps_count ? mr_dataset_cardinality_of_input(d) : MR_CARDINALITY_UNKNOWN;
}

static const mr_dataset_kind map_kind = {"Map", sizeof(called), sizeof(mr_iterator), .next = map_next, .cardinality = map_count,
                                         .tries = true};

static mr_status *map_dataset(mr_run *r) { return give_called(r, &map_kind, true); }

MR_OP(MapDataset,
    .doc     = "f of each element",
    .sig     = "input_dataset: variant, other_arguments: Targuments -> handle: variant",
    .attrs   = "f: func; Targuments: list(type) >= 0; " MR_DATASET_TYPES "; use_inter_op_parallelism: bool = true; "
               "preserve_cardinality: bool = false; metadata: string = ''",
    .flags   = MR_NO_GRADIENT, MR_DATASET(map_dataset));

/* ---- filter, take while ---- */

static mr_status *filter_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    const called *d = (called *)it->dataset;
    for (;;) {
        bool yes = false;
        MR_TRY(mr_data_may_call(&d->fn, it));
        MR_TRY(mr_iterator_next(it->input, out, end));
        if (*end)
            return NULL;
        MR_TRY(mr_data_out_of_range(mr_data_call_bool(&d->fn, it, out, d->base.n, &yes), false, end));
        if (yes || *end)
            return NULL;
        mr_element_drop(out, d->base.n);
    }
}

static const mr_dataset_kind filter_kind = {"Filter", sizeof(called), sizeof(mr_iterator), .next = filter_next, .tries = true};

static mr_status *filter_dataset(mr_run *r) { return give_called(r, &filter_kind, false); }

MR_OP(FilterDataset,
    .doc     = "the elements for which a predicate holds",
    .sig     = "input_dataset: variant, other_arguments: Targuments -> handle: variant",
    .attrs   = "predicate: func; Targuments: list(type) >= 0; " MR_DATASET_ATTRS,
    .flags   = MR_NO_GRADIENT, MR_DATASET(filter_dataset));

typedef struct ending {
    mr_iterator base;
    bool ended;
} ending;

static mr_status *take_while_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    const called *d = (called *)it->dataset;
    ending *e = (ending *)it;
    bool yes = false;
    if ((*end = e->ended))
        return NULL;
    MR_TRY(mr_data_may_call(&d->fn, it));
    MR_TRY(mr_iterator_next(it->input, out, end));
    if (!*end)
        MR_TRY(mr_data_out_of_range(mr_data_call_bool(&d->fn, it, out, d->base.n, &yes), false, end));
    *end = e->ended = !yes;
    return NULL;
}

static const mr_dataset_kind take_while_kind = {"TakeWhile", sizeof(called), sizeof(ending), .next = take_while_next,
                                                .tries = true};

static mr_status *take_while_dataset(mr_run *r) { return give_called(r, &take_while_kind, false); }

MR_OP(TakeWhileDataset,
    .doc     = "the elements before the first for which a predicate does not hold",
    .sig     = "input_dataset: variant, other_arguments: Targuments -> handle: variant",
    .attrs   = "predicate: func; Targuments: list(type) >= 0; " MR_DATASET_ATTRS,
    .flags   = MR_NO_GRADIENT, MR_DATASET(take_while_dataset));

/* ---- flat map ---- */

typedef struct nested {
    mr_iterator base;
    mr_iterator *inner;
} nested;

/* Opens the dataset that f returns for the next element of the input. */
static mr_status *open_next(mr_iterator *it, mr_iterator **out, bool *end)
{
    const called *d = (called *)it->dataset;
    int n = d->base.inputs[0]->n;
    mr_tensor **in = mr_element_new(n);
    mr_status *st = mr_data_may_call(&d->fn, it);
    if (!st)
        st = mr_iterator_next(it->input, in, end);
    if (!st && !*end)
        st = mr_data_call_dataset(&d->fn, it, in, n, out);
    mr_element_drop(in, n);
    mr_free(in);
    return st;
}

static mr_status *flat_map_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    nested *p = (nested *)it;
    for (;;) {
        if (!p->inner)
            MR_TRY(open_next(it, &p->inner, end));
        if (*end)
            return NULL;
        MR_TRY(mr_iterator_next(p->inner, out, end));
        if (!*end)
            return NULL;
        mr_iterator_close(p->inner);
        p->inner = NULL;
        *end = false;
    }
}

static void flat_map_close(mr_iterator *it) { mr_iterator_close(((nested *)it)->inner); }

static const mr_dataset_kind flat_map_kind = {"FlatMap", sizeof(called), sizeof(nested), NULL, flat_map_next, flat_map_close,
                                              .tries = true};

static mr_status *flat_map_dataset(mr_run *r) { return give_called(r, &flat_map_kind, true); }

MR_OP(FlatMapDataset,
    .doc     = "the elements of the datasets that f makes of each element",
    .sig     = "input_dataset: variant, other_arguments: Targuments -> handle: variant",
    .attrs   = "f: func; Targuments: list(type) >= 0; " MR_DATASET_ATTRS,
    .flags   = MR_NO_GRADIENT, MR_DATASET(flat_map_dataset));

/* ---- interleave ---- */

typedef struct interleaving {
    mr_iterator base;
    MR_VEC(mr_iterator *) slots; /* slots of the cycle that were ever open; NULL: closed */
    int64_t at, given;           /* current slot, and the number of its elements in this turn */
    int n_open;
    bool ended;                  /* the input has ended */
} interleaving;

static void advance_cycle(interleaving *p, int64_t cycle)
{
    p->given = 0;
    p->at++;
    if (p->at >= cycle || (p->ended && p->at >= p->slots.n)) /* the rest of the cycle stays empty */
        p->at = 0;
}

static mr_status *open_slot(interleaving *p)
{
    mr_iterator *made = NULL;
    MR_TRY(open_next(&p->base, &made, &p->ended));
    if (p->ended) {
        if (p->at >= p->slots.n)
            p->at = 0;
        return NULL;
    }
    if (p->at >= p->slots.n)
        mr_vec_push(&p->slots, NULL);
    p->slots.p[p->at] = made;
    p->n_open++;
    return NULL;
}

static mr_status *interleave_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    const called *d = (called *)it->dataset;
    interleaving *p = (interleaving *)it;
    while (!p->ended || p->n_open > 0) {
        mr_iterator **slot = p->at < p->slots.n ? &p->slots.p[p->at] : NULL;
        if (slot && *slot) {
            MR_TRY(mr_iterator_next(*slot, out, end)); /* an error is not counted as an element of the block */
            if (!*end) {
                if (++p->given == d->block)
                    advance_cycle(p, d->cycle);
                return NULL;
            }
            mr_iterator_close(*slot);
            *slot = NULL;
            p->n_open--;
            advance_cycle(p, d->cycle);
        } else if (!p->ended) {
            MR_TRY(open_slot(p));
        } else {
            advance_cycle(p, d->cycle);
        }
    }
    *end = true;
    return NULL;
}

static void interleave_close(mr_iterator *it)
{
    interleaving *p = (interleaving *)it;
    for (int i = 0; i < p->slots.n; i++)
        mr_iterator_close(p->slots.p[i]);
    mr_vec_deinit(&p->slots);
}

static const mr_dataset_kind interleave_kind = {"Interleave", sizeof(called), sizeof(interleaving), NULL, interleave_next,
                                                interleave_close, .tries = true};

static mr_status *interleave_dataset(mr_run *r)
{
    called *d;
    int64_t cycle, block;
    MR_TRY(mr_in_scalar_int(r, r->n_in - 2, "cycle_length", &cycle));
    MR_TRY(mr_in_scalar_int(r, r->n_in - 1, "block_length", &block));
    if (cycle == -1) /* as many as can run in parallel */
        cycle = MR_MIN(mr_cpu_count(), 16);
    if (cycle <= 0)
        return mr_invalid("cycle_length must be greater than zero.");
    if (block <= 0)
        return mr_invalid("block_length must be greater than zero.");
    MR_TRY(new_called(r, &interleave_kind, true, &d));
    d->cycle = MR_MIN(cycle, INT32_MAX);
    d->block = block;
    return mr_dataset_give(r, d, NULL);
}

MR_OP(InterleaveDataset,
    .doc     = "elements of the datasets that f makes of each element, block_length of each of cycle_length in turn",
    .sig     = "input_dataset: variant, other_arguments: Targuments, cycle_length: int64, block_length: int64 -> handle: variant",
    .attrs   = "f: func; Targuments: list(type) >= 0; " MR_DATASET_ATTRS,
    .flags   = MR_NO_GRADIENT, MR_DATASET(interleave_dataset));

/* ---- scan ---- */

typedef struct scanning {
    mr_iterator base;
    mr_tensor **state; /* NULL before the first element */
} scanning;

/* f(state, element) returns the new state, followed by the element to give. */
static mr_status *scan_call(scanning *p, const called *d, mr_tensor **args, mr_tensor **out, bool *end)
{
    int n_in = d->base.inputs[0]->n, n_all = d->n_state + d->base.n;
    mr_tensor **rets = mr_element_new(n_all);
    mr_status *st = mr_data_out_of_range(mr_data_call(&d->fn, &p->base, args, d->n_state + n_in, rets, n_all),
                                         d->keeps_count, end);
    if (!st && !*end) {
        mr_element_drop(p->state, d->n_state);
        memcpy(p->state, rets, sizeof *rets * (size_t)d->n_state);
        memcpy(out, rets + d->n_state, sizeof *rets * (size_t)d->base.n);
    }
    mr_free(rets);
    return st;
}

static mr_status *scan_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    const called *d = (called *)it->dataset;
    scanning *p = (scanning *)it;
    int n_in = d->base.inputs[0]->n;
    if (!p->state) {
        p->state = mr_element_new(d->n_state);
        for (int i = 0; i < d->n_state; i++)
            p->state[i] = mr_tensor_ref(d->state[i]);
    }
    mr_tensor **args = mr_element_new(d->n_state + n_in);
    memcpy(args, p->state, sizeof *args * (size_t)d->n_state);
    mr_status *st = mr_data_may_call(&d->fn, it);
    if (!st)
        st = mr_iterator_next(it->input, args + d->n_state, end);
    if (!st && !*end)
        st = scan_call(p, d, args, out, end);
    mr_element_drop(args + d->n_state, n_in);
    mr_free(args);
    return st;
}

static void scan_close(mr_iterator *it)
{
    scanning *p = (scanning *)it;
    if (p->state)
        mr_element_drop(p->state, ((called *)it->dataset)->n_state);
    mr_free(p->state);
}

static const mr_dataset_kind scan_kind = {"Scan", sizeof(called), sizeof(scanning), NULL, scan_next, scan_close, map_count,
                                          .tries = true};

static mr_status *scan_dataset(mr_run *r)
{
    called *d;
    int first, n;
    MR_TRY(mr_node_in_range(r->node, "initial_state", &first, &n));
    MR_TRY(new_called(r, &scan_kind, true, &d));
    d->n_state = n;
    d->state = mr_arena_array(&d->base.arena, mr_tensor *, n + 1);
    for (int i = 0; i < n; i++)
        d->state[i] = mr_dataset_keep(&d->base, mr_in(r, first + i));
    return mr_dataset_give(r, d, NULL);
}

MR_OP(ScanDataset,
    .doc     = "what f gives of a state and each element, beside the next state",
    .sig     = "input_dataset: variant, initial_state: Tstate, other_arguments: Targuments -> handle: variant",
    .attrs   = "f: func; Tstate: list(type) >= 1; Targuments: list(type) >= 0; " MR_DATASET_TYPES
               "; preserve_cardinality: bool = false; use_default_device: bool = true; metadata: string = ''",
    .flags   = MR_NO_GRADIENT, MR_DATASET(scan_dataset));

/* ---- reduce ---- */

/* args: the state, space for an element, captured arguments. */
static mr_status *reduce_loop(mr_run *r, mr_data_env *env, mr_iterator *it, mr_tensor **args, int n_state, int n_args)
{
    const mr_dataset_state *s = r->state;
    int n_in = it->dataset->n;
    mr_tensor **next = mr_element_new(n_state);
    mr_status *st = NULL;
    for (;;) {
        bool end = false;
        MR_GO(mr_iterator_next(it, args + n_state, &end));
        if (end)
            break;
        st = mr_later_run(env->later, &(mr_later_call){.f = s->funcs[0], .args = args, .n_args = n_args, .rets = next,
                                                       .n_rets = n_state, .cancel = env->cancel, .state = env->state,
                                                       .one_thread = s->one_thread});
        mr_element_drop(args + n_state, n_in);
        if (st)
            goto out;
        mr_element_drop(args, n_state);
        memcpy(args, next, sizeof *next * (size_t)n_state);
    }
out:
    mr_free(next);
    return st;
}

static mr_status *give_state(mr_run *r, mr_tensor **state, int n)
{
    if (n != r->n_out)
        return mr_invalid("The number of state components (%d) must be that of outputs (%d)", n, r->n_out);
    for (int i = 0; i < n; i++)
        if (state[i]->dtype != mr_out_dtype(r, i))
            return mr_invalid("Data type mismatch at component %d: expected %s but got %s.", i,
                              mr_dtype_name(mr_out_dtype(r, i)), mr_dtype_name(state[i]->dtype));
    for (int i = 0; i < n; i++)
        mr_run_set(r, i, mr_tensor_ref(state[i]));
    return NULL;
}

static mr_status *reduce_elements(mr_run *r, mr_data_env *env)
{
    mr_dataset *d;
    mr_iterator *it = NULL;
    int first, n_state, other, n_other;
    MR_TRY(mr_dataset_of(mr_in(r, 0), &d));
    MR_TRY(mr_node_in_range(r->node, "initial_state", &first, &n_state));
    MR_TRY(mr_node_in_range(r->node, "other_arguments", &other, &n_other));
    MR_TRY(mr_iterator_open(d, env, NULL, &it));
    int n_args = n_state + d->n + n_other;
    mr_tensor **args = mr_element_new(n_args);
    for (int i = 0; i < n_state; i++)
        args[i] = mr_tensor_ref(mr_in(r, first + i));
    for (int i = 0; i < n_other; i++)
        args[n_state + d->n + i] = mr_tensor_ref(mr_in(r, other + i));
    mr_status *st = reduce_loop(r, env, it, args, n_state, n_args);
    if (!st)
        st = give_state(r, args, n_state);
    mr_element_drop(args, n_args);
    mr_free(args);
    mr_iterator_close(it);
    return st;
}

static void reduce_dataset(mr_run *r) { mr_data_job_start(r, reduce_elements); }

static mr_status *elements_shape(mr_infer *c)
{
    const mr_attr *shapes;
    MR_TRY(mr_node_get_list(c->node, "output_shapes", MR_ATTR_SHAPE, &shapes));
    if (shapes->n != c->n_out)
        return mr_invalid("`output_shapes` must be the same length as `output_types` (%d vs. %d)", shapes->n, c->n_out);
    for (int i = 0; i < c->n_out; i++)
        c->out[i] = shapes->shapes[i];
    return NULL;
}

MR_OP(ReduceDataset,
    .doc     = "the last state, where f makes one of the state before it and each element",
    .sig     = "input_dataset: variant, initial_state: Tstate, other_arguments: Targuments -> components: output_types",
    .attrs   = "f: func; Tstate: list(type) >= 1; Targuments: list(type) >= 0; " MR_DATASET_TYPES
               "; use_inter_op_parallelism: bool = true; metadata: string = ''",
    .flags   = MR_STATEFUL | MR_NO_GRADIENT,
    .shape   = elements_shape,
    .kernels = MR_KERNELS(MR_CPU_ASYNC(reduce_dataset)),
    .state_bytes = sizeof(mr_dataset_state), .init = mr_dataset_init, .deinit = mr_dataset_deinit);
