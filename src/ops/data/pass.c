/* ops/data/pass.c -- datasets that pass on the elements of their input and add something: options, checks, delays. */
#include "base/clock.h"
#include "base/map.h"
#include "base/memory.h"
#include "ops/data/dataset.h"

#define R "r = RangeDataset output_types=[int64] output_shapes=[[]]: 0, 10, 1; "
#define TYPES "output_types=[int64] output_shapes=[[]]"

typedef struct pass {
    mr_dataset base;
    int64_t n;       /* the numeric argument, for ops that have one */
    mr_sv options;   /* serialized Options, of OptionsDataset */
    bool has_options;
} pass;

static mr_status *pass_next(mr_iterator *it, mr_tensor **out, bool *end) { return mr_iterator_next(it->input, out, end); }

static mr_status *pass_next_block(mr_iterator *it, int64_t most, mr_tensor **out, int64_t *n, bool *end)
{
    return mr_iterator_next_block(it->input, most, out, n, end);
}

#define PASS(name) {name, sizeof(pass), sizeof(mr_iterator), .next = pass_next, .cardinality = mr_dataset_cardinality_of_input, \
                    .next_block = pass_next_block, .tries = true}

static const mr_dataset_kind model_kind = PASS("Model"), finalize_kind = PASS("Finalize"),
                             options_kind = PASS("Options"), intra_kind = PASS("MaxIntraOpParallelism"),
                             threads_kind = PASS("PrivateThreadPool");

static mr_status *give_pass(mr_run *r, const mr_dataset_kind *k)
{
    pass *d;
    MR_TRY(mr_dataset_new(r, k, 0, 1, &d));
    return mr_dataset_give(r, d, NULL);
}

/* ---- ops without an effect here: this runtime does no tuning ---- */

static mr_status *model_dataset(mr_run *r) { return give_pass(r, &model_kind); }
static mr_status *finalize_dataset(mr_run *r) { return give_pass(r, &finalize_kind); }

MR_OP(ModelDataset,
    .doc     = "the same elements; tuning is left to the runtime",
    .sig     = "input_dataset: variant -> handle: variant",
    .attrs   = "algorithm: int = 0; cpu_budget: int = 0; ram_budget: int = 0; " MR_DATASET_TYPES,
    .flags   = MR_NO_GRADIENT, MR_DATASET(model_dataset),
    .examples = MR_EXAMPLES(R TYPES ": r -> shape()"));

/* ---- rewriting: of TensorFlow's rewrites only make_sloppy has a visible effect ---- */

typedef struct optimize {
    mr_dataset base;
    bool any_order; /* make_sloppy: elements below may come in any order, unless a node requires the order of the
                     * input */
} optimize;

/* Opens the input, and everything below it, in an environment that allows any order. */
static mr_status *optimize_open(mr_iterator *it)
{
    if (!((optimize *)it->dataset)->any_order || it->env->any_order)
        return mr_iterator_open_input(it, 0, &it->input);
    mr_data_env *env = mr_data_env_child(it->env);
    env->any_order = true;
    env->asker = it->env->asker;
    mr_status *st = mr_iterator_open(it->dataset->inputs[0], env, it, &it->input);
    mr_data_env_unref(env);
    return st;
}

static const mr_dataset_kind optimize_kind = {"Optimize", sizeof(optimize), sizeof(mr_iterator), .open = optimize_open,
                                              .next = pass_next, .cardinality = mr_dataset_cardinality_of_input,
                                              .next_block = pass_next_block, .tries = true};

static mr_status *optimize_dataset(mr_run *r)
{
    optimize *d;
    const mr_tensor *names = mr_in(r, 1);
    MR_TRY(mr_dataset_new(r, &optimize_kind, 0, 1, &d));
    for (int64_t i = 0; i < names->n; i++)
        d->any_order |= mr_sv_is(mr_tensor_str_at(names, i), "make_sloppy");
    return mr_dataset_give(r, d, NULL);
}

MR_OP(OptimizeDataset,
    .doc     = "the same elements; rewriting is left to the runtime",
    .sig     = "input_dataset: variant, optimizations: string -> handle: variant",
    .attrs   = MR_DATASET_TYPES "; optimization_configs: list(string) = []",
    .flags   = MR_NO_GRADIENT, MR_DATASET(optimize_dataset),
    .examples = MR_EXAMPLES(R TYPES ": r, [\"map_fusion\"] -> shape()"));

MR_OP(OptimizeDatasetV2,
    .doc     = "the same elements; rewriting is left to the runtime",
    .sig     = "input_dataset: variant, optimizations_enabled: string, optimizations_disabled: string, optimizations_default: string"
               " -> handle: variant",
    .attrs   = MR_DATASET_TYPES "; optimization_configs: list(string) = []",
    .flags   = MR_NO_GRADIENT, MR_DATASET(optimize_dataset),
    .examples = MR_EXAMPLES(R TYPES ": r, [\"map_fusion\"], shape(0), shape(0) -> shape()"));

MR_OP(FinalizeDataset,
    .doc     = "the same elements, with the options of the dataset in force",
    .sig     = "input_dataset: variant -> handle: variant",
    .attrs   = "has_captured_ref: bool = false; " MR_DATASET_TYPES,
    .flags   = MR_NO_GRADIENT, MR_DATASET(finalize_dataset),
    .examples = MR_EXAMPLES(R TYPES ": r -> shape()"));

static mr_status *give_checked(mr_run *r, const mr_dataset_kind *k, const char *what)
{
    int64_t n;
    MR_TRY(mr_in_scalar_int(r, 1, what, &n));
    return n >= 0 ? give_pass(r, k) : mr_invalid("`%s` must be >= 0", what);
}

static mr_status *intra_dataset(mr_run *r) { return give_checked(r, &intra_kind, "max_intra_op_parallelism"); }
static mr_status *threads_dataset(mr_run *r) { return give_checked(r, &threads_kind, "num_threads"); }

MR_OP(MaxIntraOpParallelismDataset,
    .doc     = "the same elements; functions use the session's threads",
    .sig     = "input_dataset: variant, max_intra_op_parallelism: int64 -> handle: variant",
    .attrs   = MR_DATASET_TYPES,
    .flags   = MR_NO_GRADIENT, MR_DATASET(intra_dataset),
    .examples = MR_EXAMPLES(R TYPES ": r, 2 -> shape()", R TYPES ": r, -1 -> !INVALID_ARGUMENT `max_intra_op_parallelism` must be >= 0"));

MR_OP(PrivateThreadPoolDataset,
    .doc     = "the same elements; functions use the session's threads",
    .sig     = "input_dataset: variant, num_threads: int64 -> handle: variant",
    .attrs   = MR_DATASET_TYPES,
    .flags   = MR_NO_GRADIENT, MR_DATASET(threads_dataset),
    .examples = MR_EXAMPLES(R TYPES ": r, 2 -> shape()", R TYPES ": r, -1 -> !INVALID_ARGUMENT `num_threads` must be >= 0"));

/* ---- options ---- */

typedef struct options_state {
    mr_dataset_state base;
    mr_sv text;
} options_state;

static mr_status *options_init(mr_make *m, void *state)
{
    options_state *s = state;
    mr_sv text;
    MR_TRY(mr_dataset_init(m, &s->base));
    MR_TRY(mr_node_get_str(m->node, "serialized_options", &text));
    s->text = (mr_sv){mr_arena_strndup(&s->base.arena, text.p, text.n), text.n};
    return NULL;
}

static mr_status *options_dataset(mr_run *r)
{
    pass *d;
    const options_state *s = r->state;
    MR_TRY(mr_dataset_new(r, &options_kind, 0, 1, &d));
    d->options = (mr_sv){mr_arena_strndup(&d->base.arena, s->text.p, s->text.n), s->text.n};
    d->has_options = true;
    return mr_dataset_give(r, d, NULL);
}

MR_OP(OptionsDataset,
    .doc     = "the same elements, with options for who goes over them",
    .sig     = "input_dataset: variant -> handle: variant",
    .attrs   = "serialized_options: string; " MR_DATASET_ATTRS,
    .flags   = MR_NO_GRADIENT,
    .shape   = mr_dataset_shape,
    .kernels = MR_KERNELS(MR_CPU_ANY(options_dataset)),
    .state_bytes = sizeof(options_state), .init = options_init, .deinit = mr_dataset_deinit,
    .examples = MR_EXAMPLES(R "serialized_options=\"\" " TYPES ": r -> shape()"));

/* The options nearest to the end win: serialized messages that are concatenated form one message, whose later
 * fields win. */
static void append_options(const mr_dataset *d, mr_imap *seen, mr_str *out)
{
    if (mr_imap_put(seen, (uint64_t)(uintptr_t)d, seen))
        return;
    for (int i = 0; i < d->n_inputs; i++)
        append_options(d->inputs[i], seen, out);
    if (d->kind == &options_kind)
        mr_str_append(out, ((const pass *)d)->options.p, ((const pass *)d)->options.n);
}

static mr_status *get_options(mr_run *r)
{
    mr_dataset *d;
    mr_tensor *t;
    mr_str all = {0};
    MR_TRY(mr_dataset_of(mr_in(r, 0), &d));
    mr_imap seen = {0};
    append_options(d, &seen, &all);
    mr_imap_deinit(&seen);
    mr_status *st = mr_run_output(r, 0, 0, NULL, &t);
    if (!st)
        st = mr_tensor_set_str(t, 0, mr_str_view(&all));
    mr_str_deinit(&all);
    return st;
}

MR_OP(GetOptions,
    .doc     = "the options of a dataset and of those it is made of",
    .sig     = "input_dataset: variant -> serialized_options: string",
    .flags   = MR_NO_GRADIENT,
    .shape   = mr_shape_scalar,
    .kernels = MR_KERNELS(MR_CPU_ANY(get_options)),
    .examples = MR_EXAMPLES(R ": r -> \"\"",
                            R "o = OptionsDataset serialized_options=\"a\" " TYPES ": r; p = OptionsDataset serialized_options=\"b\" "
                              TYPES ": o; : p -> \"ab\""));

/* ---- cardinality ---- */

static mr_status *give_cardinality(mr_run *r)
{
    mr_dataset *d;
    mr_tensor *t;
    MR_TRY(mr_dataset_of(mr_in(r, 0), &d));
    MR_TRY(mr_run_output(r, 0, 0, NULL, &t));
    *MR_DATA(int64_t, t) = mr_dataset_cardinality(d);
    return NULL;
}

#define OF(op) R "d = " op " " TYPES ": r"
MR_OP(DatasetCardinality,
    .doc     = "how many elements there are; -1: without end, -2: not known",
    .sig     = "input_dataset: variant -> cardinality: int64",
    .flags   = MR_NO_GRADIENT,
    .shape   = mr_shape_scalar,
    .kernels = MR_KERNELS(MR_CPU_ANY(give_cardinality)),
    .examples = MR_EXAMPLES(R ": r -> 10", OF("TakeDataset") ", 3; : d -> 3", OF("SkipDataset") ", 3; : d -> 7",
                            OF("RepeatDataset") ", -1; : d -> -1", OF("RepeatDataset") ", 3; : d -> 30",
                            OF("ShardDataset") ", 3, 0; : d -> 4", OF("BatchDataset") ", 3; : d -> 4",
                            OF("BatchDatasetV2") ", 3, true; : d -> 3", OF("ConcatenateDataset") ", r; : d -> 20",
                            OF("ShuffleDataset") ", 3, 1, 1; : d -> 10", OF("PrefetchDataset") ", 3; : d -> 10",
                            OF("AssertCardinalityDataset") ", 7; : d -> 7", OF("SamplingDataset") ", 0.5, 1, 1; : d -> -2",
                            R "d = WindowDataset output_types=[variant] output_shapes=[[]]: r, 3, 2, 1, false; : d -> 5",
                            R "d = WindowDataset output_types=[variant] output_shapes=[[]]: r, 3, 2, 1, true; : d -> 4",
                            R "b = BatchDatasetV2 " TYPES ": r, 5, true; d = UnbatchDataset " TYPES ": b; : d -> 10",
                            "r = RangeDataset " TYPES ": 10, 0, -3; : r -> 4",
                            "r = RangeDataset " TYPES ": -9223372036854775808, 9223372036854775807, 9223372036854775807; : r -> 3"));

typedef struct counting {
    mr_iterator base;
    int64_t n;
} counting;

static mr_status *assert_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    int64_t said = ((pass *)it->dataset)->n;
    counting *c = (counting *)it;
    MR_TRY(mr_iterator_next(it->input, out, end));
    c->n += !*end;
    if (*end && c->n != said)
        return mr_error(MR_FAILED_PRECONDITION, "Input dataset was expected to contain %lld elements but contained only %lld elements.",
                        (long long)said, (long long)c->n);
    if (c->n > said)
        return mr_error(MR_FAILED_PRECONDITION, "Input dataset was expected to contain %lld elements but contained at least %lld elements.",
                        (long long)said, (long long)c->n);
    return NULL;
}

static int64_t assert_count(const mr_dataset *d) { return ((const pass *)d)->n; }

static const mr_dataset_kind assert_kind = {"AssertCardinality", sizeof(pass), sizeof(counting), .next = assert_next,
                                            .cardinality = assert_count};

static mr_status *give_number(mr_run *r, const mr_dataset_kind *k, const char *what)
{
    pass *d;
    int64_t n;
    MR_TRY(mr_in_scalar_int(r, 1, what, &n));
    MR_TRY(mr_dataset_new(r, k, 0, 1, &d));
    d->n = n;
    return mr_dataset_give(r, d, NULL);
}

static mr_status *assert_dataset(mr_run *r) { return give_number(r, &assert_kind, "cardinality"); }

MR_OP(AssertCardinalityDataset,
    .doc     = "the same elements, and an error if there are more or fewer than said",
    .sig     = "input_dataset: variant, cardinality: int64 -> handle: variant",
    .attrs   = MR_DATASET_TYPES,
    .flags   = MR_NO_GRADIENT, MR_DATASET(assert_dataset),
    .examples = MR_EXAMPLES(R TYPES ": r, 10 -> shape()"));

/* ---- errors ---- */

static mr_status *ignore_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    for (;;) {
        mr_status *st = mr_iterator_next(it->input, out, end);
        if (!st || mr_cancel_started(it->env->cancel))
            return st;
        mr_status_free(st);
    }
}

static const mr_dataset_kind ignore_kind = {"IgnoreErrors", sizeof(pass), sizeof(mr_iterator), .next = ignore_next};

static mr_status *ignore_dataset(mr_run *r) { return give_pass(r, &ignore_kind); }

MR_OP(IgnoreErrorsDataset,
    .doc     = "the elements that can be had, without those that are errors",
    .sig     = "input_dataset: variant -> handle: variant",
    .attrs   = MR_DATASET_TYPES "; log_warning: bool = false",
    .flags   = MR_NO_GRADIENT, MR_DATASET(ignore_dataset),
    .examples = MR_EXAMPLES(R TYPES ": r -> shape()"));

/* ---- delays ---- */

typedef struct sleeper {
    mr_cancel_entry entry;
    mr_mutex mu;
    mr_cond woken;
    bool over;
} sleeper;

static void wake_sleeper(mr_cancel_entry *e)
{
    sleeper *s = (sleeper *)e;
    mr_lock(&s->mu);
    s->over = true;
    mr_cond_signal(&s->woken);
    mr_unlock(&s->mu);
}

static mr_status *sleep_for(mr_cancel *c, int64_t us)
{
    sleeper s = {.entry = {.fn = wake_sleeper}};
    int64_t until = mr_now_ns() + MR_MIN(us, INT64_MAX / 4000) * 1000;
    mr_mutex_init(&s.mu);
    mr_cond_init(&s.woken);
    bool registered = mr_cancel_register(c, &s.entry);
    mr_lock(&s.mu);
    s.over |= !registered;
    while (!s.over && mr_cond_wait_until(&s.woken, &s.mu, until))
        ;
    mr_unlock(&s.mu);
    if (registered)
        mr_cancel_unregister(c, &s.entry);
    mr_cond_deinit(&s.woken);
    mr_mutex_deinit(&s.mu);
    return mr_cancel_started(c) ? mr_error(MR_CANCELLED, "Operation was cancelled") : NULL;
}

static mr_status *sleep_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    MR_TRY(sleep_for(it->env->cancel, ((pass *)it->dataset)->n));
    return mr_iterator_next(it->input, out, end);
}

static const mr_dataset_kind sleep_kind = {"Sleep", sizeof(pass), sizeof(mr_iterator), .next = sleep_next,
                                           .cardinality = mr_dataset_cardinality_of_input};

static mr_status *sleep_dataset(mr_run *r) { return give_number(r, &sleep_kind, "sleep_microseconds"); }

MR_OP(SleepDataset,
    .doc     = "the same elements, each after some time",
    .sig     = "input_dataset: variant, sleep_microseconds: int64 -> handle: variant",
    .attrs   = MR_DATASET_TYPES,
    .flags   = MR_NO_GRADIENT, MR_DATASET(sleep_dataset),
    .examples = MR_EXAMPLES(R TYPES ": r, 10 -> shape()"));

/* ---- variants of variants ---- */

typedef struct wrapped {
    mr_object base;
    mr_tensor *t;
} wrapped;

static void wrapped_free(mr_object *o)
{
    mr_tensor_unref(((wrapped *)o)->t);
    mr_free(o);
}

static const mr_object_type wrapped_type = {.name = "WrappedDatasetVariantWrapper", .free = wrapped_free};

static mr_status *wrap_dataset(mr_run *r)
{
    mr_dataset *d;
    mr_tensor *t;
    MR_TRY(mr_dataset_of(mr_in(r, 0), &d));
    MR_TRY(mr_run_output(r, 0, 0, NULL, &t));
    wrapped *w = mr_new(wrapped);
    mr_object_init(&w->base, &wrapped_type);
    w->t = mr_tensor_ref(mr_in(r, 0));
    *MR_DATA(mr_object *, t) = &w->base;
    return NULL;
}

MR_OP(WrapDatasetVariant,
    .doc     = "a dataset as something that is not looked into",
    .sig     = "input_handle: variant -> output_handle: variant",
    .flags   = MR_NO_GRADIENT,
    .shape   = mr_shape_scalar,
    .kernels = MR_KERNELS(MR_CPU_ANY(wrap_dataset)),
    .examples = MR_EXAMPLES(R ": r -> shape()"));

static mr_status *unwrap_dataset(mr_run *r)
{
    const mr_tensor *t = mr_in(r, 0);
    mr_object *o = t->rank == 0 ? *MR_DATA(mr_object *, t) : NULL;
    if (!o || o->type != &wrapped_type)
        return mr_invalid("Tensor must be a wrapped Dataset object.");
    mr_run_set(r, 0, mr_tensor_ref(((wrapped *)o)->t));
    return NULL;
}

MR_OP(UnwrapDatasetVariant,
    .doc     = "the dataset that WrapDatasetVariant took",
    .sig     = "input_handle: variant -> output_handle: variant",
    .flags   = MR_NO_GRADIENT,
    .shape   = mr_shape_scalar,
    .kernels = MR_KERNELS(MR_CPU_ANY(unwrap_dataset)),
    .examples = MR_EXAMPLES(R "w = WrapDatasetVariant: r; : w -> shape()", R ": r -> !INVALID_ARGUMENT wrapped"));
