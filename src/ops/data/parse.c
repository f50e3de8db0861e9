/* ops/data/parse.c -- parses examples: ParseExampleDataset, ParseExampleDatasetV2; and builds sparse batches:
 * DenseToSparseBatchDataset.
 *
 * A sparse tensor is one component here: a variant tensor of its indices, values and shape; a ragged one is a
 * variant of its splits and values. */
#include "base/memory.h"
#include "ops/data/dataset.h"
#include "ops/data/parallel_map.h"
#include "ops/data/stack.h"
#include "ops/parse/features.h"
#include "ops/ragged/ragged.h"
#include "ops/sparse/parts.h"

static mr_status *box_sparse(mr_tensor *indices, mr_tensor *values, mr_tensor *shape, mr_tensor **out)
{
    MR_TRY(mr_tensor_new(NULL, MR_VARIANT, 1, (int64_t[]){3}, out));
    mr_sparse_box(*out, 0, indices);
    mr_sparse_box(*out, 1, values);
    mr_sparse_box(*out, 2, shape);
    return NULL;
}

/* ---- examples ---- */

typedef struct parser {
    mr_dataset base;
    int n;
    mr_feature *features; /* in the dataset's arena */
    int *place;           /* index of each feature among the components: sorted by key */
} parser;

static mr_status *give_result(const mr_feature *f, mr_feature_result *res, mr_tensor **out)
{
    if (f->form == MR_FEATURE_SPARSE)
        return box_sparse(res->indices, res->values, res->shape, out);
    if (f->form == MR_FEATURE_DENSE) {
        *out = mr_tensor_ref(res->values);
        return NULL;
    }
    MR_TRY(mr_tensor_new(NULL, MR_VARIANT, 0, NULL, out));
    mr_tensor *splits = mr_tensor_ref(res->splits);
    *MR_DATA(mr_object *, *out) = mr_ragged_object(1, &splits, mr_tensor_ref(res->values));
    return NULL;
}

static mr_status *parse_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    const parser *d = (parser *)it->dataset;
    mr_tensor *in = NULL;
    mr_status *st = NULL;
    MR_TRY(mr_iterator_next(it->input, &in, end));
    if (*end)
        return NULL;
    mr_feature_result *results = mr_new_array(mr_feature_result, d->n + 1);
    mr_examples x = {.serialized = in};
    if (in->rank != 1)
        MR_GO(mr_invalid("Expected serialized to be a vector, got shape: %s", MR_TENSOR_SHAPE(in)));
    MR_GO(mr_examples_parse(&x, d->features, d->n, results));
    for (int i = 0; i < d->n; i++)
        MR_GO(give_result(&d->features[i], &results[i], &out[d->place[i]]));
out:
    mr_feature_results_free(results, d->n);
    mr_free(results);
    mr_tensor_unref(in);
    return st;
}

static const mr_dataset_kind parser_kind = {"ParseExample", sizeof(parser), sizeof(mr_iterator), .next = parse_next,
                                            .cardinality = mr_dataset_cardinality_of_input};

typedef struct parser_state {
    mr_dataset_state base;
    mr_feature_group g;
    const mr_attr *keys[3]; /* sparse, dense, ragged */
} parser_state;

static const mr_attr *copy_attr(parser_state *s, const mr_attr *v)
{
    if (!v)
        return NULL;
    mr_attr *copy = mr_arena_new(&s->base.arena, mr_attr);
    *copy = mr_attr_copy(&s->base.arena, &s->base.held, v);
    return copy;
}

/* Copies the group, because it points at attrs of the node, which the kernel may outlive. */
static mr_status *parser_init(mr_make *m, void *state)
{
    parser_state *s = state;
    static const char *const names[] = {"sparse_keys", "dense_keys", "ragged_keys"};
    static const mr_feature_attrs attrs = {"sparse_types", "Tdense", "dense_shapes", "ragged_value_types", "ragged_split_types"};
    MR_TRY(mr_dataset_init(m, &s->base));
    MR_TRY(mr_feature_group_init(&s->g, m->node, &attrs, false));
    s->g.sparse_types = copy_attr(s, s->g.sparse_types);
    s->g.dense_types = copy_attr(s, s->g.dense_types);
    s->g.dense_shapes = copy_attr(s, s->g.dense_shapes);
    s->g.ragged_types = copy_attr(s, s->g.ragged_types);
    s->g.split_types = copy_attr(s, s->g.split_types);
    int counts[] = {s->g.n_sparse, s->g.n_dense, s->g.n_ragged};
    for (int i = 0; i < 3; i++) {
        const mr_attr *keys;
        MR_TRY(mr_node_get_list(m->node, names[i], MR_ATTR_STRING, &keys));
        if (keys->n != counts[i])
            return mr_invalid("len(%s) != len(types): %d and %d", names[i], keys->n, counts[i]);
        s->keys[i] = copy_attr(s, keys);
    }
    return NULL;
}

static int compare_keys(mr_sv a, mr_sv b)
{
    int c = memcmp(a.p ? a.p : "", b.p ? b.p : "", MR_MIN(a.n, b.n));
    return c ? c : (a.n > b.n) - (a.n < b.n);
}

/* Components are sorted by key, regardless of their form. */
static mr_status *find_places(parser *d)
{
    d->place = mr_arena_array(&d->base.arena, int, d->n + 1);
    for (int i = 0; i < d->n; i++)
        for (int k = 0; k < d->n; k++) {
            int c = compare_keys(d->features[k].key, d->features[i].key);
            if (c == 0 && k != i)
                return mr_invalid("Duplicate key not allowed: %.*s", MR_SV_ARG(d->features[i].key));
            d->place[i] += c < 0;
        }
    return NULL;
}

static mr_status *copy_features(parser *d, mr_run *r, const parser_state *s)
{
    int first, n_defaults;
    d->n = mr_feature_group_size(&s->g);
    d->features = mr_arena_array(&d->base.arena, mr_feature, d->n + 1);
    mr_feature_group_list(&s->g, d->features);
    mr_feature *dense = d->features + s->g.n_sparse;
    mr_feature_keys_attr(s->keys[0], d->features);
    mr_feature_keys_attr(s->keys[1], dense);
    mr_feature_keys_attr(s->keys[2], dense + s->g.n_dense);
    MR_TRY(mr_node_in_range(r->node, "dense_defaults", &first, &n_defaults));
    if (n_defaults != s->g.n_dense)
        return mr_invalid("len(dense_keys) != len(dense_defaults): %d and %d", s->g.n_dense, n_defaults);
    MR_TRY(mr_feature_defaults(r, first, &s->g, dense));
    for (int i = 0; i < n_defaults; i++)
        mr_dataset_keep(&d->base, mr_in(r, first + i));
    for (int i = 0; i < d->n; i++) {
        mr_feature *f = &d->features[i];
        f->key = (mr_sv){mr_arena_strndup(&d->base.arena, f->key.p, f->key.n), f->key.n};
        if (f->shape && f->shape->rank >= 0)
            f->shape = mr_pshape_of(&d->base.arena, f->shape->rank, f->shape->dims);
    }
    return find_places(d);
}

static mr_status *check_outputs(const parser *d)
{
    if (d->base.n != d->n)
        return mr_invalid("%d features are requested, but output_types has %d components", d->n, d->base.n);
    for (int i = 0; i < d->n; i++) {
        int type = d->features[i].form == MR_FEATURE_DENSE ? (int)d->features[i].dtype : MR_VARIANT;
        if (d->base.types[d->place[i]] != type)
            return mr_invalid("Feature %.*s has type %s, but component %d has type %s", MR_SV_ARG(d->features[i].key),
                              mr_dtype_name(type), d->place[i], mr_dtype_name(d->base.types[d->place[i]]));
    }
    return NULL;
}

static mr_status *parse_dataset(mr_run *r)
{
    parser *d;
    const parser_state *s = r->state;
    int64_t calls;
    MR_TRY(mr_in_scalar_int(r, 1, "num_parallel_calls", &calls));
    MR_TRY(mr_parallel_calls(calls, &calls));
    MR_TRY(mr_dataset_new(r, &parser_kind, 0, 1, &d));
    mr_status *st = NULL;
    if (d->base.n != 1 || d->base.types[0] != MR_STRING)
        st = mr_invalid("Input dataset must give vectors of strings");
    if (!st)
        st = copy_features(d, r, s);
    mr_dataset_say_types(&d->base, &s->base);
    if (!st)
        st = check_outputs(d);
    return mr_dataset_give(r, d, st);
}

#define PARSE_ATTRS                                                                                                          \
    "sparse_keys: list(string) >= 0; dense_keys: list(string) >= 0; sparse_types: list({float, int64, string}) >= 0; "        \
    "Tdense: list({float, int64, string}) >= 0; dense_shapes: list(shape) >= 0; " MR_DATASET_TYPES "; "
#define RAGGED_ATTRS                                                                                        \
    "ragged_keys: list(string) >= 0 = []; ragged_value_types: list({float, int64, string}) >= 0 = []; "     \
    "ragged_split_types: list({int32, int64}) >= 0 = []"
#define S "s = TensorDataset output_shapes=[[1]]: (string[\"\"]); "
#define PARSE(order)                                                                                                        \
    .sig = "input_dataset: variant, num_parallel_calls: int64, dense_defaults: Tdense -> handle: variant",                  \
    .attrs = PARSE_ATTRS order "; " RAGGED_ATTRS, .flags = MR_NO_GRADIENT, .shape = mr_dataset_shape,                        \
    .kernels = MR_KERNELS(MR_CPU_ANY(parse_dataset)), .state_bytes = sizeof(parser_state), .init = parser_init,              \
    .deinit = mr_dataset_deinit,                                                                                            \
    .examples = MR_EXAMPLES(                                                                                                \
        S "sparse_keys=[\"a\"] dense_keys=[\"b\"] sparse_types=[int64] dense_shapes=[[]] output_types=[variant, float] "        \
          "output_shapes=[?, [1]]: s, 1, (float 7) -> shape()",                                                             \
        S "sparse_keys=[\"a\"] dense_keys=[\"a\"] sparse_types=[int64] dense_shapes=[[]] output_types=[variant, float] "        \
          "output_shapes=[?, [1]]: s, 1, (float 7) -> !INVALID_ARGUMENT Duplicate key",                                     \
        S "sparse_keys=[\"a\"] dense_keys=[\"b\"] sparse_types=[int64] dense_shapes=[[]] output_types=[float, float] "          \
          "output_shapes=[?, [1]]: s, 1, (float 7) -> !INVALID_ARGUMENT has type variant")

MR_OP(ParseExampleDataset, .doc = "Examples taken apart: each element is a batch of them, serialized", PARSE("sloppy: bool = false"));
MR_OP(ParseExampleDatasetV2, .doc = "Examples taken apart: each element is a batch of them, serialized",
      PARSE("deterministic: string = 'default'"));

/* ---- dense to sparse ---- */

typedef struct to_sparse {
    mr_dataset base;
    int64_t n;
    const mr_pshape *row;
} to_sparse;

typedef struct gathering {
    mr_iterator base;
    mr_gathered some;
    bool ended;
} gathering;

static mr_status *check_row(const mr_tensor *t, const mr_pshape *row, int64_t *dims)
{
    if (t->rank != row->rank)
        return mr_invalid("Input element had shape (%s) that is incompatible with the row shape (%s).", MR_TENSOR_SHAPE(t),
                          MR_PSHAPE_TEXT(row));
    for (int k = 0; k < t->rank; k++) {
        if (row->dims[k] >= 0 && t->dims[k] > row->dims[k])
            return mr_error(MR_DATA_LOSS, "Input element had shape (%s) that is larger than the row shape (%s).",
                            MR_TENSOR_SHAPE(t), MR_PSHAPE_TEXT(row));
        dims[k] = MR_MAX(dims[k], row->dims[k] >= 0 ? row->dims[k] : t->dims[k]);
    }
    return NULL;
}

/* Writes the indices of all elements of t, each preceded by the number of its row. */
static void put_indices(int64_t *out, int64_t row, const mr_tensor *t)
{
    int64_t at[MR_MAX_RANK] = {0};
    for (int64_t i = 0; i < t->n; i++) {
        *out++ = row;
        for (int k = 0; k < t->rank; k++)
            *out++ = at[k];
        for (int k = t->rank - 1; k >= 0 && ++at[k] == t->dims[k]; k--)
            at[k] = 0;
    }
}

static mr_status *put_together(const to_sparse *d, const mr_gathered *some, mr_tensor **part)
{
    int rank = d->row->rank;
    int64_t total = 0, at = 0, dims[MR_MAX_RANK] = {0};
    for (int64_t i = 0; i < some->n; i++) {
        MR_TRY(check_row(mr_gathered_at(some, i)[0], d->row, dims));
        if (!mr_i64_add(total, mr_gathered_at(some, i)[0]->n, &total))
            return mr_error(MR_RESOURCE_EXHAUSTED, "Too many values for a sparse tensor");
    }
    MR_TRY(mr_tensor_new(NULL, MR_INT64, 2, (int64_t[]){total, rank + 1}, &part[0]));
    MR_TRY(mr_tensor_new(NULL, (mr_dtype)mr_gathered_at(some, 0)[0]->dtype, 1, &total, &part[1]));
    MR_TRY(mr_tensor_new(NULL, MR_INT64, 1, (int64_t[]){rank + 1}, &part[2]));
    for (int64_t i = 0; i < some->n; i++) {
        const mr_tensor *t = mr_gathered_at(some, i)[0];
        put_indices(MR_DATA(int64_t, part[0]) + at * (rank + 1), i, t);
        MR_TRY(mr_tensor_try_copy_elements(part[1], at, t, 0, t->n));
        at += t->n;
    }
    MR_DATA(int64_t, part[2])[0] = some->n;
    memcpy(MR_DATA(int64_t, part[2]) + 1, dims, sizeof(int64_t) * (size_t)rank);
    return NULL;
}

static mr_status *to_sparse_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    const to_sparse *d = (to_sparse *)it->dataset;
    gathering *g = (gathering *)it;
    mr_tensor *part[3] = {0};
    if ((*end = g->ended))
        return NULL;
    mr_status *st = mr_gathered_fill(&g->some, it->input, d->n, &g->ended);
    *end = !st && g->some.n == 0;
    if (!st && !*end)
        st = put_together(d, &g->some, part);
    if (!st && !*end)
        st = box_sparse(part[0], part[1], part[2], &out[0]);
    mr_element_drop(part, 3);
    mr_gathered_drop(&g->some, g->some.n);
    return st;
}

static void to_sparse_close(mr_iterator *it) { mr_gathered_deinit(&((gathering *)it)->some); }

static int64_t to_sparse_count(const mr_dataset *p)
{
    int64_t n = mr_dataset_cardinality(p->inputs[0]), size = ((const to_sparse *)p)->n;
    return n < 0 ? n : n / size + (n % size > 0);
}

static const mr_dataset_kind to_sparse_kind = {"DenseToSparseBatch", sizeof(to_sparse), sizeof(gathering), NULL, to_sparse_next,
                                               to_sparse_close, to_sparse_count};

static mr_status *to_sparse_dataset(mr_run *r)
{
    to_sparse *d;
    int64_t n;
    const mr_tensor *row = mr_in(r, 2);
    MR_TRY(mr_in_scalar_int(r, 1, "batch_size", &n));
    if (n <= 0)
        return mr_invalid("Batch size must be greater than zero.");
    if (row->rank != 1 || row->n >= MR_MAX_RANK)
        return mr_invalid("row_shape must be a vector");
    for (int64_t i = 0; i < row->n; i++)
        if (MR_DATA(int64_t, row)[i] < -1)
            return mr_invalid("Dimension %lld of row_shape must be >= -1", (long long)i);
    MR_TRY(mr_dataset_new(r, &to_sparse_kind, 0, 1, &d));
    mr_status *st = d->base.n == 1 ? NULL : mr_invalid("DenseToSparseDataset only supports inputs with a single component");
    d->n = n;
    d->row = mr_pshape_of(&d->base.arena, (int)row->n, MR_DATA(int64_t, row));
    const mr_pshape *any = &mr_pshape_unknown;
    mr_dataset_set_types(&d->base, 1, (int[]){MR_VARIANT}, &any);
    return mr_dataset_give(r, d, st);
}

#define T "t = TensorSliceDataset output_shapes=[[2]]: (float[[1, 2], [3, 4]]); "
MR_OP(DenseToSparseBatchDataset,
    .doc     = "batch_size elements of any sizes up to row_shape at a time, as one sparse tensor",
    .sig     = "input_dataset: variant, batch_size: int64, row_shape: int64 -> handle: variant",
    .attrs   = MR_DATASET_TYPES,
    .flags   = MR_NO_GRADIENT, MR_DATASET(to_sparse_dataset),
    .examples = MR_EXAMPLES(T "output_types=[variant] output_shapes=[?]: t, 2, [3] -> shape()",
                            T "output_types=[variant] output_shapes=[?]: t, 0, [3] -> !INVALID_ARGUMENT Batch size must be greater than zero.",
                            T "output_types=[variant] output_shapes=[?]: t, 2, [-2] -> !INVALID_ARGUMENT must be >= -1"));
