/* ops/data/order.c -- datasets that select or reorder elements: TakeDataset, SkipDataset, RepeatDataset,
 * ShardDataset, ConcatenateDataset, ZipDataset, DirectedInterleaveDataset. */
#include "base/memory.h"
#include "ops/data/dataset.h"

#define R "r = RangeDataset output_types=[int64] output_shapes=[[]]: 0, 10, 1; "
#define TYPES "output_types=[int64] output_shapes=[[]]"

typedef struct counted { /* a dataset with one or two numbers */
    mr_dataset base;
    int64_t n, index;
} counted;

typedef struct counting {
    mr_iterator base;
    int64_t n;   /* elements seen */
    bool any;    /* this pass over the input had an element */
} counting;

/* ---- take ---- */

static mr_status *take_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    const counted *d = (counted *)it->dataset;
    counting *c = (counting *)it;
    if ((*end = d->n >= 0 && c->n >= d->n))
        return NULL;
    MR_TRY(mr_iterator_next(it->input, out, end));
    c->n += !*end;
    return NULL;
}

static int64_t take_count(const mr_dataset *d)
{
    int64_t n = mr_dataset_cardinality(d->inputs[0]), most = ((const counted *)d)->n;
    if (n == MR_CARDINALITY_UNKNOWN)
        return n;
    if (n == MR_CARDINALITY_INFINITE)
        return most < 0 ? n : most;
    return most < 0 ? n : MR_MIN(n, most);
}

static const mr_dataset_kind take_kind = {"Take", sizeof(counted), sizeof(counting), .next = take_next, .cardinality = take_count, .tries = true};

static mr_status *one_number(mr_run *r, const mr_dataset_kind *k)
{
    counted *d;
    int64_t n;
    MR_TRY(mr_in_scalar_int(r, 1, "count", &n));
    MR_TRY(mr_dataset_new(r, k, 0, 1, &d));
    d->n = n;
    return mr_dataset_give(r, d, NULL);
}

static mr_status *take_dataset(mr_run *r) { return one_number(r, &take_kind); }

MR_OP(TakeDataset,
    .doc     = "the first count elements; all when count is negative",
    .sig     = "input_dataset: variant, count: int64 -> handle: variant",
    .attrs   = MR_DATASET_ATTRS,
    .flags   = MR_NO_GRADIENT, MR_DATASET(take_dataset),
    .examples = MR_EXAMPLES(R TYPES ": r, 3 -> shape()", R TYPES ": r, -1 -> shape()",
                            "o = OptionalNone; " TYPES ": o, 3 -> !INVALID_ARGUMENT Tensor must be a Dataset object",
                            R TYPES ": r, [1, 2] -> !INVALID_ARGUMENT"));

/* ---- skip ---- */

static mr_status *skip_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    const counted *d = (counted *)it->dataset;
    counting *c = (counting *)it;
    if ((*end = d->n < 0))
        return NULL;
    while (!*end && c->n < d->n) {
        MR_TRY(mr_iterator_next(it->input, out, end));
        mr_element_drop(out, it->dataset->n);
        c->n++;
    }
    return *end ? NULL : mr_iterator_next(it->input, out, end);
}

static int64_t skip_count(const mr_dataset *d)
{
    int64_t n = mr_dataset_cardinality(d->inputs[0]), skipped = ((const counted *)d)->n;
    if (skipped < 0)
        return 0;
    return n < 0 ? n : MR_MAX(n - skipped, 0);
}

static const mr_dataset_kind skip_kind = {"Skip", sizeof(counted), sizeof(counting), .next = skip_next, .cardinality = skip_count, .tries = true};

static mr_status *skip_dataset(mr_run *r) { return one_number(r, &skip_kind); }

MR_OP(SkipDataset,
    .doc     = "all but the first count elements; none when count is negative",
    .sig     = "input_dataset: variant, count: int64 -> handle: variant",
    .attrs   = MR_DATASET_ATTRS,
    .flags   = MR_NO_GRADIENT, MR_DATASET(skip_dataset),
    .examples = MR_EXAMPLES(R TYPES ": r, 3 -> shape()", R TYPES ": r, -1 -> shape()"));

/* ---- repeat ---- */

static mr_status *repeat_open(mr_iterator *it)
{
    return ((counted *)it->dataset)->n == 0 ? NULL : mr_iterator_open_input(it, 0, &it->input);
}

/* An input without elements ends, even if it is repeated forever. */
static mr_status *repeat_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    const counted *d = (counted *)it->dataset;
    counting *c = (counting *)it;
    for (;;) {
        if ((*end = !it->input))
            return NULL;
        MR_TRY(mr_iterator_next(it->input, out, end));
        if (!*end) {
            c->any = true;
            return NULL;
        }
        mr_iterator_close(it->input);
        it->input = NULL;
        if (d->n < 0 ? !c->any : ++c->n >= d->n)
            return NULL;
        c->any = false;
        MR_TRY(mr_iterator_open_input(it, 0, &it->input));
    }
}

static int64_t repeat_count(const mr_dataset *d)
{
    int64_t n = mr_dataset_cardinality(d->inputs[0]), times = ((const counted *)d)->n, all;
    if (times < 0)
        return n == 0 ? 0 : MR_CARDINALITY_INFINITE;
    if (times == 0)
        return 0;
    if (n < 0)
        return n;
    return mr_i64_mul(n, times, &all) ? all : MR_CARDINALITY_INFINITE;
}

static const mr_dataset_kind repeat_kind = {"Repeat", sizeof(counted), sizeof(counting), repeat_open, repeat_next,
                                            .cardinality = repeat_count, .tries = true};

static mr_status *repeat_dataset(mr_run *r) { return one_number(r, &repeat_kind); }

MR_OP(RepeatDataset,
    .doc     = "all elements count times; without end when count is negative",
    .sig     = "input_dataset: variant, count: int64 -> handle: variant",
    .attrs   = MR_DATASET_ATTRS,
    .flags   = MR_NO_GRADIENT, MR_DATASET(repeat_dataset),
    .examples = MR_EXAMPLES(R TYPES ": r, 3 -> shape()", R TYPES ": r, -1 -> shape()", R TYPES ": r, 0 -> shape()"));

/* ---- shard ---- */

typedef struct shard {
    counted base;
    bool require_non_empty;
} shard;

static mr_status *shard_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    const shard *d = (shard *)it->dataset;
    const counted *k = &d->base;
    counting *c = (counting *)it;
    for (;;) {
        MR_TRY(mr_iterator_next(it->input, out, end));
        if (*end) {
            if (d->require_non_empty && c->n > 0 && c->n < k->n)
                return mr_invalid("Could not apply FILE based sharding: the dataset only has %lld file(s), which is not "
                                  "enough for the required %lld shards/workers.", (long long)c->n, (long long)k->n);
            return NULL;
        }
        if (c->n++ % k->n == k->index)
            return NULL;
        mr_element_drop(out, it->dataset->n);
    }
}

static int64_t shard_count(const mr_dataset *d)
{
    const counted *k = (const counted *)d;
    int64_t n = mr_dataset_cardinality(d->inputs[0]);
    return n < 0 ? n : n / k->n + (k->index < n % k->n);
}

static const mr_dataset_kind shard_kind = {"Shard", sizeof(shard), sizeof(counting), .next = shard_next, .cardinality = shard_count, .tries = true};

static mr_status *shard_dataset(mr_run *r)
{
    shard *d;
    int64_t n, index;
    MR_TRY(mr_in_scalar_int(r, 1, "num_shards", &n));
    MR_TRY(mr_in_scalar_int(r, 2, "index", &index));
    if (n <= 0)
        return mr_invalid("Number of shards must be greater than zero (currently num_shards = %lld).", (long long)n);
    if (index < 0 || index >= n)
        return mr_invalid("Index must be between 0 and %lld (currently index = %lld).", (long long)(n - 1), (long long)index);
    MR_TRY(mr_dataset_new(r, &shard_kind, 0, 1, &d));
    d->base.n = n;
    d->base.index = index;
    d->require_non_empty = ((mr_dataset_state *)r->state)->flag;
    return mr_dataset_give(r, d, NULL);
}

MR_OP(ShardDataset,
    .doc     = "every num_shards-th element, from that with this index on",
    .sig     = "input_dataset: variant, num_shards: int64, index: int64 -> handle: variant",
    .attrs   = "require_non_empty: bool = false; " MR_DATASET_ATTRS,
    .flags   = MR_NO_GRADIENT, MR_DATASET(shard_dataset),
    .examples = MR_EXAMPLES(R TYPES ": r, 3, 1 -> shape()",
                            R TYPES ": r, 0, 0 -> !INVALID_ARGUMENT Number of shards must be greater than zero",
                            R TYPES ": r, 3, 3 -> !INVALID_ARGUMENT Index must be between 0 and 2"));

/* ---- concatenate ---- */

static mr_status *concatenate_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    counting *c = (counting *)it;
    while (it->input) {
        MR_TRY(mr_iterator_next(it->input, out, end));
        if (!*end)
            return NULL;
        mr_iterator_close(it->input);
        it->input = NULL;
        if (++c->n < it->dataset->n_inputs)
            MR_TRY(mr_iterator_open_input(it, (int)c->n, &it->input));
    }
    *end = true;
    return NULL;
}

static int64_t concatenate_count(const mr_dataset *d)
{
    int64_t a = mr_dataset_cardinality(d->inputs[0]), b = mr_dataset_cardinality(d->inputs[1]), sum;
    if (a == MR_CARDINALITY_INFINITE || b == MR_CARDINALITY_INFINITE)
        return MR_CARDINALITY_INFINITE;
    if (a < 0 || b < 0)
        return MR_CARDINALITY_UNKNOWN;
    return mr_i64_add(a, b, &sum) ? sum : MR_CARDINALITY_INFINITE;
}

static const mr_dataset_kind concatenate_kind = {"Concatenate", sizeof(mr_dataset), sizeof(counting), .next = concatenate_next,
                                                 .cardinality = concatenate_count, .tries = true};

/* The shapes that hold for the elements of all inputs from `first` on, which have the same types. */
static mr_status *relax_shapes(mr_dataset *d, int first)
{
    const mr_dataset *like = d->inputs[first];
    const mr_pshape **shapes = mr_arena_array(&d->arena, const mr_pshape *, like->n + 1);
    for (int i = 0; i < like->n; i++)
        shapes[i] = like->shapes[i];
    for (int k = first + 1; k < d->n_inputs; k++) {
        MR_TRY(mr_dataset_check_types(like->n, like->types, d->inputs[k]));
        for (int i = 0; i < like->n; i++)
            shapes[i] = mr_pshape_relax(&d->arena, shapes[i], d->inputs[k]->shapes[i]);
    }
    mr_dataset_set_types(d, like->n, like->types, shapes);
    return NULL;
}

static mr_status *concatenate_dataset(mr_run *r)
{
    mr_dataset *d;
    MR_TRY(mr_dataset_new(r, &concatenate_kind, 0, 2, &d));
    mr_status *st = relax_shapes(d, 0);
    if (st) {
        mr_status_free(st);
        st = mr_invalid("input dataset and dataset to concatenate have different output types");
    }
    return mr_dataset_give(r, d, st);
}

MR_OP(ConcatenateDataset,
    .doc     = "the elements of one dataset, then those of another",
    .sig     = "input_dataset: variant, another_dataset: variant -> handle: variant",
    .attrs   = MR_DATASET_ATTRS,
    .flags   = MR_NO_GRADIENT, MR_DATASET(concatenate_dataset),
    .examples = MR_EXAMPLES(R TYPES ": r, r -> shape()",
                            R "s = TensorDataset output_shapes=[[]]: (1.5); " TYPES ": r, s -> !INVALID_ARGUMENT different output types"));

/* ---- zip ---- */

enum { MOST_COMPONENTS = 1 << 20 }; /* zipping a dataset with itself doubles their number each time */

typedef struct many { /* an iterator over several datasets */
    mr_iterator base;
    mr_iterator **all; /* n_inputs of them; NULL: ended */
    bool ended;
    /* what zip has of an element when an attempt gave up: */
    int n_asked; /* inputs that were asked */
    mr_tensor **kept; /* the tensors of all inputs; NULL: not made yet */
    mr_status *kept_error;
} many;

static mr_status *many_open(mr_iterator *it)
{
    many *m = (many *)it;
    m->all = mr_new_array(mr_iterator *, it->dataset->n_inputs + 1);
    for (int i = 0; i < it->dataset->n_inputs; i++)
        MR_TRY(mr_iterator_open_input(it, i, &m->all[i]));
    return NULL;
}

static void many_close(mr_iterator *it)
{
    many *m = (many *)it;
    for (int i = 0; m->all && i < it->dataset->n_inputs; i++)
        mr_iterator_close(m->all[i]);
    mr_free(m->all);
    if (m->kept)
        mr_element_drop(m->kept, it->dataset->n);
    mr_free(m->kept);
    mr_status_free(m->kept_error);
}

/* The first n_asked inputs were asked before an attempt gave up: keeps what they gave. */
static void keep_parts(many *m, mr_tensor **out, int n, int n_asked, mr_status *error)
{
    if (!m->kept)
        m->kept = mr_element_new(n);
    memcpy(m->kept, out, sizeof *out * (size_t)n);
    memset(out, 0, sizeof *out * (size_t)n);
    m->n_asked = n_asked;
    m->kept_error = error;
}

/* All inputs are asked before an error of one is returned, so that they stay in step. */
static mr_status *zip_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    many *m = (many *)it;
    if ((*end = m->ended))
        return NULL;
    mr_status *st = m->kept_error;
    m->kept_error = NULL;
    for (int i = 0, at = 0; i < it->dataset->n_inputs; at += it->dataset->inputs[i++]->n) {
        bool ended = false;
        size_t bytes = sizeof *out * (size_t)it->dataset->inputs[i]->n;
        if (i < m->n_asked) {
            memcpy(out + at, m->kept + at, bytes);
            memset(m->kept + at, 0, bytes);
            continue;
        }
        mr_status *failed = mr_iterator_next(m->all[i], out + at, &ended);
        if (failed && mr_gave_up(it)) {
            keep_parts(m, out, it->dataset->n, i, st);
            return failed;
        }
        mr_status_update(&st, failed);
        m->ended |= ended;
        if (ended)
            break;
    }
    m->n_asked = 0;
    *end = !st && m->ended;
    return st;
}

static int64_t zip_count(const mr_dataset *d)
{
    int64_t least = MR_CARDINALITY_INFINITE;
    for (int i = 0; i < d->n_inputs; i++) {
        int64_t n = mr_dataset_cardinality(d->inputs[i]);
        if (n == MR_CARDINALITY_UNKNOWN)
            return n;
        if (n != MR_CARDINALITY_INFINITE && (least == MR_CARDINALITY_INFINITE || n < least))
            least = n;
    }
    return least;
}

static const mr_dataset_kind zip_kind = {"Zip", sizeof(mr_dataset), sizeof(many), many_open, zip_next, many_close, zip_count, .tries = true};

static mr_status *zip_dataset(mr_run *r)
{
    mr_dataset *d;
    MR_TRY(mr_dataset_new(r, &zip_kind, 0, r->n_in, &d));
    int n = 0;
    for (int i = 0; i < d->n_inputs && n <= MOST_COMPONENTS; i++)
        n += d->inputs[i]->n;
    if (n > MOST_COMPONENTS)
        return mr_dataset_give(
            r, d,
            mr_error(MR_RESOURCE_EXHAUSTED, "Zipped elements would have more than %d components", MOST_COMPONENTS));
    int *types = mr_arena_array(&d->arena, int, n + 1);
    const mr_pshape **shapes = mr_arena_array(&d->arena, const mr_pshape *, n + 1);
    n = 0;
    for (int i = 0; i < d->n_inputs; i++)
        for (int k = 0; k < d->inputs[i]->n; k++, n++) {
            types[n] = d->inputs[i]->types[k];
            shapes[n] = d->inputs[i]->shapes[k];
        }
    mr_dataset_set_types(d, n, types, shapes);
    return mr_dataset_give(r, d, NULL);
}

MR_OP(ZipDataset,
    .doc     = "elements that are one of each dataset, until the first of them ends",
    .sig     = "input_datasets: N * variant -> handle: variant",
    .attrs   = MR_DATASET_TYPES "; N: int >= 1; metadata: string = ''",
    .flags   = MR_NO_GRADIENT, MR_DATASET(zip_dataset),
    .examples = MR_EXAMPLES(R "output_types=[int64, int64] output_shapes=[[], []]: (r, r) -> shape()", R TYPES ": (r) -> shape()"));

/* ---- directed interleave ---- */

typedef struct directed {
    mr_dataset base;
    bool stop_on_empty;
} directed;

static mr_status *choose_input(mr_iterator *selector, int64_t n, int64_t *out, bool *end)
{
    mr_tensor *t = NULL;
    MR_TRY(mr_iterator_next(selector, &t, end));
    if (*end)
        return NULL;
    *out = t->n == 1 ? *MR_DATA(int64_t, t) : -1;
    mr_tensor_unref(t);
    if (*out < 0 || *out >= n)
        return mr_invalid("Selector index out of range: %lld >= %lld", (long long)*out, (long long)n);
    return NULL;
}

/* Input 0 selects which of the others gives the next element; an input that has ended is skipped. */
static mr_status *directed_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    const directed *d = (directed *)it->dataset;
    many *m = (many *)it;
    while (!m->ended) {
        int64_t which = 0;
        bool open = false;
        MR_TRY(choose_input(m->all[0], d->base.n_inputs - 1, &which, &m->ended));
        if (m->ended)
            break;
        mr_iterator **chosen = &m->all[which + 1];
        if (!*chosen)
            continue;
        MR_TRY(mr_iterator_next(*chosen, out, end));
        if (!*end)
            return NULL;
        mr_iterator_close(*chosen);
        *chosen = NULL;
        for (int i = 1; i < d->base.n_inputs; i++)
            open |= m->all[i] != NULL;
        m->ended = d->stop_on_empty || !open;
    }
    *end = true;
    return NULL;
}

static const mr_dataset_kind directed_kind = {"DirectedInterleave", sizeof(directed), sizeof(many), many_open, directed_next,
                                              many_close};

static mr_status *directed_dataset(mr_run *r)
{
    directed *d;
    MR_TRY(mr_dataset_new(r, &directed_kind, 0, r->n_in, &d));
    const mr_dataset *s = d->base.inputs[0];
    mr_status *st = s->n == 1 && s->types[0] == MR_INT64
                        ? relax_shapes(&d->base, 1)
                        : mr_invalid("The selector dataset must give scalars of type int64");
    d->stop_on_empty = ((mr_dataset_state *)r->state)->flag;
    return mr_dataset_give(r, d, st);
}

MR_OP(DirectedInterleaveDataset,
    .doc     = "elements of several datasets, in the order that another one says",
    .sig     = "selector_input_dataset: variant, data_input_datasets: N * variant -> handle: variant",
    .attrs   = MR_DATASET_TYPES "; N: int >= 1; stop_on_empty_dataset: bool = false",
    .flags   = MR_NO_GRADIENT, MR_DATASET(directed_dataset),
    .examples = MR_EXAMPLES(R TYPES ": r, (r, r) -> shape()",
                            R "s = TensorDataset output_shapes=[[]]: (1.5); " TYPES ": s, (r, r) -> !INVALID_ARGUMENT selector"));
