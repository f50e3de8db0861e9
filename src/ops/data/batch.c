/* ops/data/batch.c -- joins several elements to one, and splits one into several: BatchDataset, PaddedBatchDataset,
 * WindowDataset, SlidingWindowDataset, UnbatchDataset. */
#include "base/memory.h"
#include "ops/data/dataset.h"
#include "ops/data/parallel_map.h"
#include "ops/data/stack.h"

#define R "r = RangeDataset output_types=[int64] output_shapes=[[]]: 0, 10, 1; "
#define TYPES "output_types=[int64] output_shapes=[[?]]"

typedef struct batch {
    mr_dataset base;
    int64_t n;
    bool drop_remainder;
    const mr_pshape **padded; /* shape and padding value of each component; NULL: not padded */
    mr_tensor **padding;
} batch;

typedef struct gathering {
    mr_iterator base;
    mr_gathered some;
    bool ended;
} gathering;

static void gathering_close(mr_iterator *it) { mr_gathered_deinit(&((gathering *)it)->some); }

static mr_status *stack_all(const batch *d, const mr_gathered *e, mr_tensor **out)
{
    for (int i = 0; i < d->base.n; i++)
        MR_TRY(d->padded ? mr_gathered_stack_padded(e, i, d->padded[i], d->padding[i], &out[i])
                         : mr_gathered_stack_last(e, i, &out[i]));
    return NULL;
}

/* An error in the middle of a batch discards the elements before it; they stay if an attempt gives up. */
static mr_status *batch_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    const batch *d = (batch *)it->dataset;
    gathering *g = (gathering *)it;
    mr_status *st = NULL;
    if ((*end = g->ended))
        return NULL;
    st = mr_gathered_fill(&g->some, it->input, d->n, &g->ended);
    if (st && mr_gave_up(it))
        return st;
    *end = !st && (g->some.n == 0 || (d->drop_remainder && g->some.n < d->n));
    if (!st && !*end)
        st = stack_all(d, &g->some, out);
    mr_gathered_drop(&g->some, g->some.n);
    return st;
}

static int64_t batch_count(const mr_dataset *p)
{
    const batch *d = (const batch *)p;
    int64_t n = mr_dataset_cardinality(p->inputs[0]);
    return n < 0 ? n : n / d->n + (!d->drop_remainder && n % d->n > 0);
}

static const mr_dataset_kind batch_kind = {"Batch", sizeof(batch), sizeof(gathering), NULL, batch_next, gathering_close, batch_count, .tries = true};
static const mr_dataset_kind padded_kind = {"PaddedBatch", sizeof(batch), sizeof(gathering), NULL, batch_next, gathering_close,
                                            batch_count, .tries = true};

static mr_status *read_size(mr_run *r, int64_t *out)
{
    MR_TRY(mr_in_scalar_int(r, 1, "batch_size", out));
    return *out > 0 ? NULL : mr_invalid("Batch size must be greater than zero.");
}

/* drop: the input that holds drop_remainder; -1: none. */
static mr_status *new_batch(mr_run *r, const mr_dataset_kind *k, int drop, batch **out)
{
    int64_t n;
    bool drop_remainder = false;
    MR_TRY(read_size(r, &n));
    if (drop >= 0)
        MR_TRY(mr_in_scalar_bool(r, drop, "drop_remainder", &drop_remainder));
    MR_TRY(mr_dataset_new(r, k, 0, 1, out));
    batch *d = *out;
    d->n = n;
    d->drop_remainder = drop_remainder;
    int64_t all = mr_dataset_cardinality(d->base.inputs[0]);
    bool always = drop_remainder || all == MR_CARDINALITY_INFINITE || (all >= 0 && all % n == 0);
    mr_dataset_set_types(&d->base, d->base.n, d->base.types,
                         mr_batch_shapes(&d->base.arena, d->base.inputs[0], always ? n : -1));
    return NULL;
}

static mr_status *make_batch(mr_run *r, int drop)
{
    batch *d;
    MR_TRY(new_batch(r, &batch_kind, drop, &d));
    return mr_dataset_give(r, d, NULL);
}

static mr_status *batch_dataset(mr_run *r) { return make_batch(r, -1); }
static mr_status *batch_dataset_v2(mr_run *r) { return make_batch(r, 2); }

MR_OP(BatchDataset,
    .doc     = "batch_size elements at a time, stacked; the last time perhaps fewer",
    .sig     = "input_dataset: variant, batch_size: int64 -> handle: variant",
    .attrs   = MR_DATASET_ATTRS,
    .flags   = MR_NO_GRADIENT, MR_DATASET(batch_dataset),
    .examples = MR_EXAMPLES(R TYPES ": r, 3 -> shape()", R TYPES ": r, 0 -> !INVALID_ARGUMENT Batch size must be greater than zero."));

MR_OP(BatchDatasetV2,
    .doc     = "batch_size elements at a time, stacked",
    .sig     = "input_dataset: variant, batch_size: int64, drop_remainder: bool -> handle: variant",
    .attrs   = "parallel_copy: bool = false; " MR_DATASET_ATTRS,
    .flags   = MR_NO_GRADIENT, MR_DATASET(batch_dataset_v2),
    .examples = MR_EXAMPLES(R TYPES ": r, 3, true -> shape()", R TYPES ": r, 9223372036854775807, false -> shape()",
                            R TYPES ": r, -1, true -> !INVALID_ARGUMENT Batch size must be greater than zero."));

/* Copying takes less time than handing the work to another thread would. */
static mr_status *parallel_batch(mr_run *r)
{
    int64_t calls;
    MR_TRY(mr_in_scalar_int(r, 2, "num_parallel_calls", &calls));
    MR_TRY(mr_parallel_calls(calls, &calls));
    return make_batch(r, 3);
}

MR_OP(ParallelBatchDataset,
    .doc     = "batch_size elements at a time, stacked",
    .sig     = "input_dataset: variant, batch_size: int64, num_parallel_calls: int64, drop_remainder: bool -> handle: variant",
    .attrs   = "parallel_copy: bool = false; " MR_DATASET_TYPES "; deterministic: string = 'default'; metadata: string = ''",
    .flags   = MR_NO_GRADIENT, MR_DATASET(parallel_batch),
    .examples = MR_EXAMPLES(R TYPES ": r, 3, 2, true -> shape()",
                            R "deterministic=\"often\" " TYPES ": r, 3, 2, true -> !INVALID_ARGUMENT deterministic",
                            R TYPES ": r, 3, 0, true -> !INVALID_ARGUMENT num_parallel_calls must be greater than zero."));

/* ---- padded ---- */

static mr_status *read_padding(batch *d, mr_run *r)
{
    int shapes, n_shapes, values, n_values, n = d->base.n;
    MR_TRY(mr_node_in_range(r->node, "padded_shapes", &shapes, &n_shapes));
    MR_TRY(mr_node_in_range(r->node, "padding_values", &values, &n_values));
    if (n_shapes != n)
        return mr_invalid("Number of padded shapes (%d) must match the number of components in the input dataset's elements (%d)",
                          n_shapes, n);
    if (n_values != n)
        return mr_invalid("Number of padding values (%d) must match the number of components in the input dataset's elements (%d)",
                          n_values, n);
    d->padded = mr_arena_array(&d->base.arena, const mr_pshape *, n + 1);
    d->padding = mr_arena_array(&d->base.arena, mr_tensor *, n + 1);
    for (int i = 0; i < n; i++) {
        const mr_tensor *s = mr_in(r, shapes + i), *v = mr_in(r, values + i);
        if (s->rank != 1)
            return mr_invalid("All padded shapes must be vectors");
        if (s->n >= MR_MAX_RANK)
            return mr_invalid("A padded shape of rank %lld is too large", (long long)s->n);
        for (int64_t k = 0; k < s->n; k++)
            if (MR_DATA(int64_t, s)[k] < -1)
                return mr_invalid("A padded shape must not have a size of %lld", (long long)MR_DATA(int64_t, s)[k]);
        if (v->rank != 0)
            return mr_invalid("All padding values must be scalars");
        if (v->dtype != d->base.types[i])
            return mr_invalid("Mismatched type between padding value %d and input dataset's component %d: %s vs. %s", i, i,
                              mr_dtype_name(v->dtype), mr_dtype_name(d->base.types[i]));
        d->padded[i] = mr_pshape_of(&d->base.arena, (int)s->n, MR_DATA(int64_t, s));
        d->padding[i] = mr_dataset_keep(&d->base, mr_in(r, values + i));
    }
    return NULL;
}

static mr_status *make_padded(mr_run *r, int drop)
{
    batch *d;
    MR_TRY(new_batch(r, &padded_kind, drop, &d));
    mr_status *st = read_padding(d, r);
    if (!st) {
        const mr_dataset padded = {.n = d->base.n, .shapes = d->padded};
        int64_t first = d->base.shapes[0]->rank > 0 ? d->base.shapes[0]->dims[0] : d->drop_remainder ? d->n : -1;
        mr_dataset_set_types(&d->base, d->base.n, d->base.types, mr_batch_shapes(&d->base.arena, &padded, first));
    }
    return mr_dataset_give(r, d, st);
}

static mr_status *padded_dataset(mr_run *r) { return make_padded(r, -1); }
static mr_status *padded_dataset_v2(mr_run *r) { return make_padded(r, r->n_in - 1); }

MR_OP(PaddedBatchDataset,
    .doc     = "batch_size elements at a time, padded to one shape and stacked",
    .sig     = "input_dataset: variant, batch_size: int64, padded_shapes: N * int64, padding_values: Toutput_types -> handle: variant",
    .attrs   = "Toutput_types: list(type) >= 1; output_shapes: list(shape) >= 1; N: int >= 1; metadata: string = ''",
    .flags   = MR_NO_GRADIENT, MR_DATASET(padded_dataset),
    .examples = MR_EXAMPLES(R "output_shapes=[[?]]: r, 3, (shape(0)), (int64[7]) -> !INVALID_ARGUMENT All padding values must be scalars",
                            R "output_shapes=[[?]]: r, 3, (shape(0)), (1.5) -> !INVALID_ARGUMENT Mismatched type",
                            R "output_shapes=[[?]]: r, 3, (shape(0)), (int64 7) -> shape()"));

MR_OP(PaddedBatchDatasetV2,
    .doc     = "batch_size elements at a time, padded to one shape and stacked",
    .sig     = "input_dataset: variant, batch_size: int64, padded_shapes: N * int64, padding_values: Toutput_types, "
               "drop_remainder: bool -> handle: variant",
    .attrs   = "parallel_copy: bool = false; Toutput_types: list(type) >= 1; output_shapes: list(shape) >= 1; N: int >= 1; "
               "metadata: string = ''",
    .flags   = MR_NO_GRADIENT, MR_DATASET(padded_dataset_v2),
    .examples = MR_EXAMPLES(R "output_shapes=[[?]]: r, 3, ([-2]), (int64 7), true -> !INVALID_ARGUMENT must not have a size of -2",
                            R "output_shapes=[[?]]: r, 3, (shape(0)), (int64 7), true -> shape()"));

/* ---- windows ---- */

typedef struct windows {
    mr_dataset base;
    int64_t size, shift, stride, reach; /* reach: elements from the first of a window to its last */
    bool drop_remainder, stacked;
} windows;

typedef struct window { /* the elements of one window, of one component or of all */
    mr_dataset base;
    mr_gathered all;
} window;

typedef struct window_iterator {
    mr_iterator base;
    int64_t at;
} window_iterator;

static mr_status *window_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    const window *w = (window *)it->dataset;
    window_iterator *p = (window_iterator *)it;
    if ((*end = p->at >= w->all.n))
        return NULL;
    for (int i = 0; i < w->base.n; i++)
        out[i] = mr_tensor_ref(mr_gathered_at(&w->all, p->at)[i]);
    p->at++;
    return NULL;
}

static int64_t window_count(const mr_dataset *d) { return ((const window *)d)->all.n; }
static void window_free(mr_dataset *d) { mr_gathered_deinit(&((window *)d)->all); }

static const mr_dataset_kind window_kind = {"Window elements", sizeof(window), sizeof(window_iterator), .next = window_next,
                                            .cardinality = window_count, .free = window_free, .tries = true};

mr_dataset *mr_gathered_dataset(const mr_dataset *like, mr_gathered *e)
{
    window *w = (window *)mr_dataset_make(&window_kind, like->n, like->types, like->shapes);
    w->all = *e;
    w->all.width = like->n;
    *e = (mr_gathered){.width = e->width};
    return &w->base;
}

/* Component i of every stride-th element, as a dataset in a tensor. */
static mr_status *give_window(const windows *d, const mr_gathered *e, int i, int64_t n, mr_tensor **out)
{
    const mr_dataset *in = d->base.inputs[0];
    window *w = (window *)mr_dataset_make(&window_kind, 1, &in->types[i], &in->shapes[i]);
    mr_status *st = NULL;
    w->all.width = 1;
    for (int64_t k = 0; !st && k < n; k++)
        st = mr_gathered_push(&w->all, (mr_tensor *[]){mr_tensor_ref(mr_gathered_at(e, k * d->stride)[i])});
    if (!st)
        st = mr_dataset_tensor(&w->base, out);
    mr_object_unref(&w->base.base);
    return st;
}

/* If windows are datasets, an error counts as an element, as in TensorFlow: every window that contains it fails,
 * and the others do not change. In `some` the error is represented by an element of NULLs. */
typedef struct window_error {
    int64_t at; /* counted from the first element of the input */
    mr_status *st;
} window_error;

typedef struct windowing {
    gathering g;
    MR_VEC(window_error) errors; /* of elements of `some` */
    int64_t first;               /* number of elements before those of `some` */
} windowing;

static void windowing_close(mr_iterator *it)
{
    windowing *w = (windowing *)it;
    for (int i = 0; i < w->errors.n; i++)
        mr_status_free(w->errors.p[i].st);
    mr_vec_deinit(&w->errors);
    gathering_close(it);
}

/* Fills `some` up to `most` elements.  Errors are kept in w->errors; if windows are stacked tensors, the first one is
 * returned. */
static mr_status *fill_windows(windowing *w, const windows *d, int64_t most)
{
    gathering *g = &w->g;
    while (!g->ended && g->some.n < most) {
        mr_status *st = mr_gathered_fill(&g->some, g->base.input, most, &g->ended);
        if (!st)
            return NULL;
        if (d->stacked || mr_cancel_started(g->base.env->cancel))
            return st;
        mr_tensor **none = mr_element_new(g->some.width);
        mr_status *full = mr_gathered_push(&g->some, none);
        mr_free(none);
        if (full) {
            mr_status_free(st);
            return full;
        }
        mr_vec_push(&w->errors, (window_error){w->first + g->some.n - 1, st});
    }
    return NULL;
}

/* Advances by `shift` elements. Those that were not read yet are in no window: they are skipped, errors included. */
static void move_on(windowing *w, const windows *d)
{
    gathering *g = &w->g;
    int64_t left = d->shift - g->some.n;
    mr_gathered_drop(&g->some, MR_MIN(d->shift, g->some.n));
    for (; left > 0 && !g->ended && !mr_cancel_started(g->base.env->cancel); left--) {
        mr_status_free(mr_gathered_fill(&g->some, g->base.input, 1, &g->ended));
        mr_gathered_drop(&g->some, g->some.n);
    }
    w->first += d->shift;
    int gone = 0;
    while (gone < w->errors.n && w->errors.p[gone].at < w->first)
        mr_status_free(w->errors.p[gone++].st);
    w->errors.n -= gone;
    if (gone > 0 && w->errors.n > 0)
        memmove(w->errors.p, w->errors.p + gone, sizeof *w->errors.p * (size_t)w->errors.n);
}

static mr_status *windows_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    const windows *d = (windows *)it->dataset;
    windowing *w = (windowing *)it;
    mr_gathered *some = &w->g.some;
    mr_status *st = NULL;
    MR_TRY(fill_windows(w, d, d->reach));
    if ((*end = some->n == 0 || (d->drop_remainder && some->n < d->reach))) {
        mr_gathered_drop(some, some->n);
        return NULL;
    }
    for (int i = 0; !st && i < w->errors.n; i++)
        if ((w->errors.p[i].at - w->first) % d->stride == 0)
            st = mr_status_copy(w->errors.p[i].st);
    int64_t n = (some->n - 1) / d->stride + 1;
    for (int i = 0; !st && i < d->base.n; i++)
        st = d->stacked ? mr_gathered_stack(some, i, 0, n, d->stride, &out[i]) : give_window(d, some, i, n, &out[i]);
    move_on(w, d);
    return st;
}

static int64_t windows_count(const mr_dataset *p)
{
    const windows *d = (const windows *)p;
    int64_t n = mr_dataset_cardinality(p->inputs[0]);
    if (n < 0)
        return n;
    if (d->drop_remainder)
        return n < d->reach ? 0 : (n - d->reach) / d->shift + 1;
    return n / d->shift + (n % d->shift > 0);
}

static const mr_dataset_kind windows_kind = {"Window", sizeof(windows), sizeof(windowing), NULL, windows_next, windowing_close,
                                             windows_count};

/* Inputs 1 to 3 are size, shift and stride. */
static mr_status *new_windows(mr_run *r, bool drop, bool stacked, const char *what, windows **out)
{
    int64_t size, shift, stride, reach;
    MR_TRY(mr_in_scalar_int(r, 1, "window_size", &size));
    MR_TRY(mr_in_scalar_int(r, 2, "window_shift", &shift));
    MR_TRY(mr_in_scalar_int(r, 3, "window_stride", &stride));
    if (size <= 0)
        return mr_invalid("Window size must be greater than zero.");
    if (shift <= 0)
        return mr_invalid("Window shift must be greater than zero.");
    if (stride <= 0)
        return mr_invalid("Window stride must be greater than zero.");
    if (!mr_i64_mul(size - 1, stride, &reach) || !mr_i64_add(reach, 1, &reach))
        return mr_invalid("%s: size %lld and stride %lld are too large together", what, (long long)size, (long long)stride);
    MR_TRY(mr_dataset_new(r, &windows_kind, 0, 1, out));
    windows *d = *out;
    d->size = size;
    d->shift = shift;
    d->stride = stride;
    d->reach = reach;
    d->drop_remainder = drop;
    d->stacked = stacked;
    return NULL;
}

static mr_status *window_dataset(mr_run *r)
{
    windows *d;
    bool drop;
    MR_TRY(mr_in_scalar_bool(r, 4, "drop_remainder", &drop));
    MR_TRY(new_windows(r, drop, false, "WindowDataset", &d));
    int n = d->base.n;
    int *types = mr_arena_array(&d->base.arena, int, n + 1);
    const mr_pshape **shapes = mr_arena_array(&d->base.arena, const mr_pshape *, n + 1);
    for (int i = 0; i < n; i++) {
        types[i] = MR_VARIANT;
        shapes[i] = &mr_pshape_scalar;
    }
    mr_dataset_set_types(&d->base, n, types, shapes);
    return mr_dataset_give(r, d, NULL);
}

MR_OP(WindowDataset,
    .doc     = "datasets of size elements each, every stride-th of those from where the last began and shift more",
    .sig     = "input_dataset: variant, size: int64, shift: int64, stride: int64, drop_remainder: bool -> handle: variant",
    .attrs   = MR_DATASET_ATTRS,
    .flags   = MR_NO_GRADIENT, MR_DATASET(window_dataset),
    .examples = MR_EXAMPLES(R "output_types=[variant] output_shapes=[[]]: r, 3, 1, 2, true -> shape()",
                            R "output_types=[variant] output_shapes=[[]]: r, 0, 1, 2, true -> !INVALID_ARGUMENT Window size",
                            R "output_types=[variant] output_shapes=[[]]: r, 4611686018427387904, 1, 4, true -> !INVALID_ARGUMENT too large"));

static mr_status *sliding_dataset(mr_run *r)
{
    windows *d;
    bool drop = true;
    const mr_attr *a = mr_node_attr(r->node, "drop_remainder");
    if (a && a->kind == MR_ATTR_BOOL)
        drop = a->b;
    MR_TRY(new_windows(r, drop, true, "SlidingWindowDataset", &d));
    mr_dataset_set_types(&d->base, d->base.n, d->base.types,
                         mr_batch_shapes(&d->base.arena, d->base.inputs[0], drop ? d->size : -1));
    return mr_dataset_give(r, d, NULL);
}

MR_OP(SlidingWindowDataset,
    .doc     = "windows of elements, each stacked",
    .sig     = "input_dataset: variant, window_size: int64, window_shift: int64, window_stride: int64 -> handle: variant",
    .attrs   = "drop_remainder: bool = true; " MR_DATASET_TYPES,
    .flags   = MR_NO_GRADIENT, MR_DATASET(sliding_dataset),
    .examples = MR_EXAMPLES(R TYPES ": r, 3, 1, 2 -> shape()", R TYPES ": r, 3, 0, 2 -> !INVALID_ARGUMENT Window shift"));

/* WindowOp: its inputs are the components of one window, row after row. */
static mr_status *window_op(mr_run *r)
{
    const mr_dataset_state *s = r->state;
    if (s->n < 1 || r->n_in % s->n != 0)
        return mr_invalid("Expected a multiple of %d inputs, got %d", s->n, r->n_in);
    window *w = (window *)mr_dataset_make(&window_kind, s->n, s->types, s->shapes);
    mr_tensor **row = mr_element_new(s->n);
    mr_status *st = NULL;
    w->all.width = s->n;
    for (int i = 0; !st && i < r->n_in; i += s->n) {
        for (int k = 0; k < s->n; k++)
            row[k] = mr_tensor_ref(mr_in(r, i + k));
        st = mr_gathered_push(&w->all, row);
    }
    mr_free(row);
    return mr_dataset_give(r, w, st);
}

MR_OP(WindowOp,
    .doc     = "a dataset of the given elements",
    .sig     = "inputs: Tinputs -> handle: variant",
    .attrs   = MR_DATASET_TYPES "; Tinputs: list(type) >= 1",
    .flags   = MR_NO_FOLD | MR_NO_GRADIENT, MR_DATASET(window_op),
    .examples = MR_EXAMPLES("output_types=[float] output_shapes=[[]]: (1.5, 2.5) -> shape()",
                            "output_types=[float, float] output_shapes=[[], []]: (1.5, 2.5, 3.5) -> !INVALID_ARGUMENT multiple of 2"));

/* ---- unbatch ---- */

typedef struct unbatching {
    mr_iterator base;
    mr_tensor **now; /* the element whose rows are given; NULL: none */
    int64_t at, n;
} unbatching;

static mr_status *check_batch(unbatching *u, int n)
{
    for (int i = 0; i < n; i++) {
        if (u->now[i]->rank == 0)
            return mr_invalid("Input element must have a non-scalar value in each component.");
        if (u->now[i]->dims[0] != u->now[0]->dims[0])
            return mr_invalid("Input element must have the same batch size in each component. Component 0 had size %lld but "
                              "component %d had size, %lld.", (long long)u->now[0]->dims[0], i, (long long)u->now[i]->dims[0]);
    }
    u->n = u->now[0]->dims[0];
    u->at = 0;
    return NULL;
}

static void drop_batch(unbatching *u)
{
    if (u->now)
        mr_element_drop(u->now, u->base.dataset->n);
    mr_free(u->now);
    u->now = NULL;
}

static mr_status *next_batch(unbatching *u, bool *end)
{
    drop_batch(u);
    u->now = mr_element_new(u->base.dataset->n);
    mr_status *st = mr_iterator_next(u->base.input, u->now, end);
    if (!st && !*end)
        st = check_batch(u, u->base.dataset->n);
    if (st || *end)
        drop_batch(u);
    return st;
}

static mr_status *unbatch_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    unbatching *u = (unbatching *)it;
    while (!u->now || u->at >= u->n) {
        MR_TRY(next_batch(u, end));
        if (*end)
            return NULL;
    }
    for (int i = 0; i < it->dataset->n; i++) {
        const mr_tensor *t = u->now[i];
        int64_t n = t->n / u->n;
        MR_TRY(mr_tensor_new(NULL, (mr_dtype)t->dtype, t->rank - 1, t->dims + 1, &out[i]));
        MR_TRY(mr_tensor_try_copy_elements(out[i], 0, t, u->at * n, n));
    }
    u->at++;
    return NULL;
}

static void unbatch_close(mr_iterator *it) { drop_batch((unbatching *)it); }

static int64_t unbatch_count(const mr_dataset *d)
{
    int64_t n = mr_dataset_cardinality(d->inputs[0]), all;
    const mr_pshape *s = d->inputs[0]->shapes[0];
    int64_t rows = s->rank > 0 ? s->dims[0] : -1;
    if (n == MR_CARDINALITY_INFINITE || n == 0)
        return n;
    return n > 0 && rows >= 0 && mr_i64_mul(n, rows, &all) ? all : MR_CARDINALITY_UNKNOWN;
}

static const mr_dataset_kind unbatch_kind = {"Unbatch", sizeof(mr_dataset), sizeof(unbatching), NULL, unbatch_next, unbatch_close,
                                             unbatch_count, .tries = true};

/* As in TensorFlow, a component that is a scalar at run time is an error of the element, not of the dataset. */
static mr_status *unbatch_dataset(mr_run *r)
{
    mr_dataset *d;
    MR_TRY(mr_dataset_new(r, &unbatch_kind, 0, 1, &d));
    const mr_pshape **shapes = mr_arena_array(&d->arena, const mr_pshape *, d->n + 1);
    for (int i = 0; i < d->n; i++) {
        const mr_pshape *s = d->shapes[i];
        shapes[i] = s->rank > 0 ? mr_pshape_of(&d->arena, s->rank - 1, s->dims + 1) : s;
    }
    mr_dataset_set_types(d, d->n, d->types, shapes);
    return mr_dataset_give(r, d, NULL);
}

MR_OP(UnbatchDataset,
    .doc     = "the rows of elements, one after another",
    .sig     = "input_dataset: variant -> handle: variant",
    .attrs   = MR_DATASET_ATTRS,
    .flags   = MR_NO_GRADIENT, MR_DATASET(unbatch_dataset),
    .examples = MR_EXAMPLES("t = TensorDataset output_shapes=[[3]]: (float[1, 2, 3]); output_types=[float] output_shapes=[[]]: t -> shape()",
                            "t = TensorDataset output_shapes=[[]]: (float 1); output_types=[float] output_shapes=[[]]: t -> shape()"));
