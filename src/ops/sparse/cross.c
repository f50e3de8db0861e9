/* ops/sparse/cross.c -- crosses of features: SparseCross, SparseCrossV2, SparseCrossHashed,
 * RaggedCross.
 *
 * Every input is a column with some features in each row of a batch.  A cross combines one feature of
 * every column; the result has all combinations, with the last column varying fastest.  A cross is
 * written as the features joined by a separator, or as a chain of their fingerprints; an integer is its
 * own fingerprint. */
#include <stdio.h>

#include "base/memory.h"
#include "base/siphash.h"
#include "ops/ragged/ragged.h"
#include "ops/sparse/sparse.h"
#include "ops/string/hashes.h"
#include "run/scratch.h"

typedef struct column {
    const mr_tensor *values; /* int64 or string */
    int64_t width;           /* dense column: features per row; otherwise -1 */
    int64_t *starts;         /* otherwise: the features of row b are starts[b] .. starts[b + 1] */
} column;

typedef struct crossing {
    const mr_run *run;
    int n;
    column *columns;
    int64_t batch;
    /* How a cross is written. */
    bool hashed,
        seeded; /* hashed: as a number; seeded: the chain starts with hash_key, not with the first fingerprint */
    bool strong;          /* fingerprints are keyed with `salt` */
    uint64_t hash_key, salt[2];
    int64_t num_buckets;
    mr_sv separator;
} crossing;

/* ---- columns ---- */

static mr_status *check_batch(crossing *c, int64_t rows)
{
    if (c->batch >= 0 && c->batch != rows)
        return mr_invalid("Expected batch size %lld, got %lld", (long long)c->batch,
                          (long long)rows);
    c->batch = rows;
    return NULL;
}

static mr_status *dense_column(crossing *c, const mr_tensor *t)
{
    if (t->rank != 2)
        return mr_invalid("Dense inputs should be a matrix but received shape %s",
                          MR_TENSOR_SHAPE(t));
    MR_TRY(check_batch(c, t->dims[0]));
    c->columns[c->n++] = (column){t, t->dims[1], NULL};
    return NULL;
}

/* Reads a sparse column, whose elements must be sorted by row. */
static mr_status *sparse_column(crossing *c, const mr_tensor *indices, const mr_tensor *values,
                                const mr_tensor *shape)
{
    mr_sparse s;
    int64_t *starts, at = 0;
    MR_TRY(mr_sparse_of(indices, values, shape, "", &s));
    if (s.rank != 2)
        return mr_invalid("Input shapes should have 2 dimensions but received %lld",
                          (long long)s.rank);
    MR_TRY(mr_sparse_check_bounds(&s));
    MR_TRY(check_batch(c, s.dims[0]));
    for (int64_t i = 1; i < s.n; i++)
        if (mr_sparse_at(&s, i)[0] < mr_sparse_at(&s, i - 1)[0])
            return mr_invalid("indices[%lld] is out of order: its row is smaller than the one before", (long long)i);
    int64_t n_starts;
    if (!mr_i64_add(s.dims[0], 1, &n_starts))
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld rows", (long long)s.dims[0]);
    MR_TRY(mr_new_i64(c->run, n_starts, &starts));
    for (int64_t b = 0; b < s.dims[0]; b++) {
        starts[b] = at;
        while (at < s.n && mr_sparse_at(&s, at)[0] == b)
            at++;
    }
    starts[s.dims[0]] = at;
    c->columns[c->n++] = (column){values, -1, starts};
    return NULL;
}

static mr_status *ragged_column(crossing *c, mr_tensor *values, mr_tensor *splits)
{
    int64_t *starts;
    if (values->rank != 1)
        return mr_invalid(
            "tf.ragged.cross only supports inputs with rank=2: ragged values of shape %s",
            MR_TENSOR_SHAPE(values));
    MR_TRY(mr_ragged_check(&splits, 1, values));
    MR_TRY(check_batch(c, splits->n - 1));
    MR_TRY(mr_new_i64(c->run, splits->n, &starts));
    for (int64_t i = 0; i < splits->n; i++)
        starts[i] = mr_tensor_int_at(splits, i);
    c->columns[c->n++] = (column){values, -1, starts};
    return NULL;
}

static mr_status *crossing_init(const mr_run *r, crossing *c, int max)
{
    c->run = r;
    c->batch = -1;
    c->columns = mr_scratch_zeroed(r, (size_t)max + 1, sizeof *c->columns);
    return c->columns ? NULL : mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %d columns", max);
}

static void crossing_deinit(crossing *c)
{
    for (int i = 0; i < c->n; i++)
        mr_scratch_free(c->columns[i].starts);
    mr_scratch_free(c->columns);
}

static int64_t first_feature(const column *c, int64_t b)
{
    return c->starts ? c->starts[b] : b * c->width;
}
static int64_t n_features(const column *c, int64_t b)
{
    return c->starts ? c->starts[b + 1] - c->starts[b] : c->width;
}

/* ---- one cross ---- */

static uint64_t shift_mix(uint64_t v) { return v ^ v >> 47; }

/* Combines two fingerprints as TensorFlow does. */
static uint64_t chain_fingerprints(uint64_t a, uint64_t b)
{
    static const uint64_t mul = 0xc6a4a7935bd1e995u;
    uint64_t v = (a ^ mul) ^ shift_mix(b * mul) * mul;
    v = shift_mix(v * mul) * mul;
    return shift_mix(v);
}

static uint64_t feature_fingerprint(const crossing *c, const column *col, int64_t i)
{
    if (col->values->dtype == MR_INT64)
        return (uint64_t)MR_DATA(const int64_t, col->values)[i];
    mr_sv s = mr_tensor_str_at(col->values, i);
    return c->strong ? mr_siphash(c->salt, s.p, s.n) : mr_fingerprint64(s);
}

/* at[k] is the feature of column k. */
static int64_t hash_cross(const crossing *c, const int64_t *at)
{
    uint64_t h = c->hash_key;
    for (int k = 0; k < c->n; k++) {
        uint64_t f = feature_fingerprint(c, &c->columns[k], at[k]);
        h = k == 0 && !c->seeded ? f : chain_fingerprints(h, f);
    }
    return (int64_t)(h % (c->num_buckets > 0 ? (uint64_t)c->num_buckets : (uint64_t)INT64_MAX));
}

static bool text_cross(const crossing *c, const int64_t *at, mr_str *out)
{
    bool ok = true;
    char digits[24];
    mr_str_clear(out);
    for (int k = 0; k < c->n && ok; k++) {
        const column *col = &c->columns[k];
        mr_sv s;
        if (k > 0)
            ok = mr_str_try_append(out, c->separator.p, c->separator.n);
        if (col->values->dtype == MR_STRING) {
            s = mr_tensor_str_at(col->values, at[k]);
        } else {
            int n = snprintf(digits, sizeof digits, "%lld",
                             (long long)(int64_t)feature_fingerprint(c, col, at[k]));
            s = (mr_sv){digits, (size_t)n};
        }
        ok = ok && mr_str_try_append(out, s.p, s.n);
    }
    return ok;
}

/* ---- all crosses ---- */

/* Counts the crosses: counts[b] is their number in row b. */
static mr_status *count_crosses(const crossing *c, int64_t *counts, int64_t *total, int64_t *most)
{
    *total = *most = 0;
    for (int64_t b = 0; b < c->batch; b++) {
        counts[b] = c->n > 0;
        for (int k = 0; k < c->n; k++)
            if (!mr_i64_mul(counts[b], n_features(&c->columns[k], b), &counts[b]))
                return mr_invalid("row %lld has more crosses than can be counted", (long long)b);
        if (!mr_i64_add(*total, counts[b], total))
            return mr_invalid("there are more crosses than can be counted");
        *most = MR_MAX(*most, counts[b]);
    }
    return NULL;
}

/* The features of cross i of row b: the digits of i, where the last column is the lowest digit. */
static void features_of(const crossing *c, int64_t b, int64_t i, int64_t *at)
{
    for (int k = c->n - 1; k >= 0; k--) {
        int64_t n = n_features(&c->columns[k], b);
        at[k] = first_feature(&c->columns[k], b) + i % n;
        i /= n;
    }
}

static mr_status *write_row(const crossing *c, int64_t b, int64_t n, mr_tensor *values, int64_t to,
                            int64_t *at, mr_str *text)
{
    for (int64_t i = 0; i < n; i++) {
        features_of(c, b, i, at);
        if (c->hashed)
            MR_DATA(int64_t, values)[to + i] = hash_cross(c, at);
        else if (!text_cross(c, at, text))
            return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a cross of features");
        else
            MR_TRY(mr_tensor_set_str(values, to + i, mr_str_view(text)));
    }
    return NULL;
}

static mr_status *write_values(mr_run *r, const crossing *c, const int64_t *counts,
                               mr_tensor *values)
{
    int64_t *at, to = 0;
    mr_str text = {0};
    MR_TRY(mr_new_i64(r, c->n, &at));
    mr_status *st = NULL;
    for (int64_t b = 0; b < c->batch && !st; to += counts[b++]) {
        st = write_row(c, b, counts[b], values, to, at, &text);
        if (!st && r->step->cancel && mr_cancel_started(r->step->cancel))
            st = mr_error(MR_CANCELLED, "crossing of features was cancelled");
    }
    mr_scratch_free(at);
    mr_str_deinit(&text);
    return st;
}

static mr_status *give_sparse(mr_run *r, const crossing *c)
{
    int64_t *counts, total, most, to = 0, batch = MR_MAX(c->batch, 0);
    mr_tensor *indices, *values;
    MR_TRY(mr_new_i64(r, batch, &counts));
    mr_status *st = NULL;
    MR_GO(count_crosses(c, counts, &total, &most));
    MR_GO(mr_sparse_output(r, 0, total, 2, &indices, &values));
    for (int64_t b = 0; b < batch; b++)
        for (int64_t i = 0; i < counts[b]; i++, to++) {
            MR_DATA(int64_t, indices)[2 * to] = b;
            MR_DATA(int64_t, indices)[2 * to + 1] = i;
        }
    MR_GO(write_values(r, c, counts, values));
    st = mr_give_vector(r, 2, 2, (int64_t[]){batch, most});
out:
    mr_scratch_free(counts);
    return st;
}

static mr_status *give_ragged(mr_run *r, const crossing *c)
{
    int64_t *counts, *splits = NULL, total, most, batch = MR_MAX(c->batch, 0);
    mr_tensor *values;
    MR_TRY(mr_new_i64(r, batch, &counts));
    mr_status *st = NULL;
    MR_GO(count_crosses(c, counts, &total, &most));
    MR_GO(mr_new_i64(r, batch + 1, &splits));
    splits[0] = 0;
    for (int64_t b = 0; b < batch; b++)
        splits[b + 1] = splits[b] + counts[b];
    MR_GO(mr_give_splits(r, 1, batch + 1, splits));
    MR_GO(mr_run_output(r, 0, 1, &total, &values));
    st = write_values(r, c, counts, values);
out:
    mr_scratch_free(counts);
    mr_scratch_free(splits);
    return st;
}

/* ---- sparse ops ---- */

/* Inputs: n indices, n values, n shapes, n_dense matrices. */
typedef struct cross_state {
    int n, n_dense;
    int64_t num_buckets, hash_key;
    bool hashed;
} cross_state;

static mr_status *read_counts(const mr_node *node, int *n, int *n_dense)
{
    int64_t count;
    const mr_attr *sparse = mr_node_attr(node, "sparse_types"),
                  *dense = mr_node_attr(node, "dense_types");
    MR_TRY(mr_node_get_int(node, "N", &count));
    if (!sparse || !dense || sparse->n != count)
        return mr_invalid("there are %d types of sparse values for %lld sparse inputs",
                          sparse ? sparse->n : 0, (long long)count);
    *n = (int)count;
    *n_dense = dense->n;
    return NULL;
}

static mr_status *counts_init(mr_make *m, void *p)
{
    cross_state *s = p;
    return read_counts(m->node, &s->n, &s->n_dense);
}

static mr_status *cross_init(mr_make *m, void *p)
{
    cross_state *s = p;
    mr_dtype out;
    MR_TRY(counts_init(m, p));
    MR_TRY(mr_node_get_int(m->node, "num_buckets", &s->num_buckets));
    MR_TRY(mr_node_get_int(m->node, "hash_key", &s->hash_key));
    MR_TRY(mr_node_get_type(m->node, "out_type", &out));
    s->hashed = out == MR_INT64;
    return NULL;
}

static mr_status *read_columns(const mr_run *r, crossing *c)
{
    const cross_state *s = r->state;
    MR_TRY(crossing_init(r, c, s->n + s->n_dense));
    for (int i = 0; i < s->n; i++)
        MR_TRY(sparse_column(c, mr_in(r, i), mr_in(r, s->n + i), mr_in(r, 2 * s->n + i)));
    for (int i = 0; i < s->n_dense; i++)
        MR_TRY(dense_column(c, mr_in(r, 3 * s->n + i)));
    return NULL;
}

static mr_status *cross_into_sparse(mr_run *r, crossing *c)
{
    mr_status *st = read_columns(r, c);
    if (!st)
        st = give_sparse(r, c);
    crossing_deinit(c);
    return st;
}

static mr_status *run_cross(mr_run *r)
{
    const cross_state *s = r->state;
    crossing c = {.hashed = s->hashed,
                  .seeded = true,
                  .hash_key = (uint64_t)s->hash_key,
                  .num_buckets = s->num_buckets,
                  .separator = MR_SV("_X_")};
    return cross_into_sparse(r, &c);
}

static mr_status *run_cross_v2(mr_run *r)
{
    const mr_tensor *sep = mr_in(r, r->n_in - 1);
    if (sep->rank != 0)
        return mr_invalid("Input separator should be a scalar. Received: %s", MR_TENSOR_SHAPE(sep));
    crossing c = {.separator = mr_tensor_str_at(sep, 0)};
    return cross_into_sparse(r, &c);
}

static mr_status *run_cross_hashed(mr_run *r)
{
    const mr_tensor *salt = mr_in(r, r->n_in - 1);
    crossing c = {.hashed = true};
    MR_TRY(mr_in_scalar_int(r, r->n_in - 3, "num_buckets", &c.num_buckets));
    MR_TRY(mr_in_scalar_bool(r, r->n_in - 2, "strong_hash", &c.strong));
    if (salt->rank != 1 || salt->n != 2)
        return mr_invalid("Input salt should be a vector of two numbers, got shape %s",
                          MR_TENSOR_SHAPE(salt));
    for (int i = 0; i < 2; i++)
        c.salt[i] = (uint64_t)MR_DATA(const int64_t, salt)[i];
    return cross_into_sparse(r, &c);
}

static mr_status *cross_shape(mr_infer *c)
{
    int n, n_dense;
    MR_TRY(read_counts(c->node, &n, &n_dense));
    mr_infer_out_sparse(c, 0, -1, 2, false);
    mr_infer_out_vector(c, 2, 2);
    return NULL;
}

#define CROSS_IN "indices: N * int64, values: sparse_types, shapes: N * int64, dense_inputs: dense_types"
#define CROSS_OUT(type) " -> output_indices: int64, output_values: " type ", output_shape: int64"
#define CROSS_TYPES "sparse_types: list({int64, string}) >= 0; dense_types: list({int64, string}) >= 0"
#define ONE_SPARSE "([[0, 0], [0, 1], [1, 0]]), (string[\"a\", \"b\", \"c\"]), ([2, 2]), (string[[\"x\"], [\"y\"]])"
#define CROSSED "[[0, 0], [0, 1], [1, 0]]"
/* These numbers are from TensorFlow's own tests. */
#define THREE "(), (), (), (string[[\"batch1-FC1-F1\"]], string[[\"batch1-FC2-F1\"]], string[[\"batch1-FC3-F1\"]])"

MR_OP(SparseCross,
    .doc      = "all combinations of features of sparse and dense columns, joined by _X_ or hashed",
    .sig      = CROSS_IN CROSS_OUT("out_type"),
    .attrs    = "N: int >= 0; hashed_output: bool; num_buckets: int >= 0; hash_key: int; " CROSS_TYPES
                "; out_type: {int64, string}; internal_type: {int64, string}",
    .flags    = MR_NO_GRADIENT,
    .key      = "out_type",
    .shape    = cross_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_cross)),
    .state_bytes = sizeof(cross_state), .init = cross_init,
    .examples = MR_EXAMPLES(
        "out_type=string internal_type=string hashed_output=false num_buckets=0 hash_key=0: " ONE_SPARSE " -> " CROSSED
        ", [\"a_X_x\", \"b_X_x\", \"c_X_y\"], [2, 2]",
        "out_type=int64 internal_type=int64 hashed_output=true num_buckets=100 hash_key=956888297470: " ONE_SPARSE " -> " CROSSED
        ", shape(3), [2, 2]",
        "N=0 out_type=int64 internal_type=int64 hashed_output=true num_buckets=0 hash_key=956888297470: " THREE
        " -> [[0, 0]], [1971693436396284976], [1, 1]",
        "N=0 out_type=int64 internal_type=int64 hashed_output=true num_buckets=100 hash_key=956888297470: " THREE " -> [[0, 0]], [83], [1, 1]",
        "N=0 out_type=int64 internal_type=int64 hashed_output=true num_buckets=100 hash_key=956888297471: " THREE " -> [[0, 0]], [31], [1, 1]",
        "out_type=string internal_type=int64 hashed_output=false num_buckets=0 hash_key=0: ([[0, 0]]), (int64[7]), ([1, 1]), (int64[[8, 9]]) "
        "-> [[0, 0], [0, 1]], [\"7_X_8\", \"7_X_9\"], [1, 2]",
        "out_type=string internal_type=int64 hashed_output=false num_buckets=0 hash_key=0: ([[0, 0]]), (int64[11]), ([1, 1]), "
        "(string[[\"batch1-FC2-F1\"]]) -> [[0, 0]], [\"11_X_batch1-FC2-F1\"], [1, 1]",
        "N=0 out_type=int64 internal_type=string hashed_output=true num_buckets=0 hash_key=1: (), (), (), (int64[[1, 2], [3, 4]]) -> shape(4,2), "
        "shape(4), [2, 2]",
        "out_type=string internal_type=string hashed_output=false num_buckets=0 hash_key=0: ([[0, 0]]), (int64[7]), ([1, 1]), (int64[[8], [9]]) "
        "-> !INVALID_ARGUMENT Expected batch size 1, got 2"));
MR_OP(SparseCrossV2,
    .doc      = "all combinations of features of sparse and dense columns, joined by a separator",
    .sig      = CROSS_IN ", sep: string" CROSS_OUT("string"),
    .attrs    = "N: int >= 0; " CROSS_TYPES,
    .flags    = MR_NO_GRADIENT,
    .shape    = cross_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_cross_v2)),
    .state_bytes = sizeof(cross_state), .init = counts_init,
    .examples = MR_EXAMPLES(
        ONE_SPARSE ", \"-\" -> " CROSSED ", [\"a-x\", \"b-x\", \"c-y\"], [2, 2]",
        "([[0, 0]]), (int64[-7]), ([2, 1]), (int64[[8], [9]]), \"\" -> [[0, 0]], [\"-78\"], [2, 1]",
        "N=0: (), (), (), (), \"-\" -> shape(0,2), shape(0), [0, 0]",
        "([[1, 0], [0, 0]]), (int64[1, 2]), ([2, 1]), (), \"-\" -> !INVALID_ARGUMENT is out of order",
        "([[0, 0]]), (int64[1]), ([1, 1]), (int64[1]), \"-\" -> !INVALID_ARGUMENT Dense inputs should be a matrix"));
MR_OP(SparseCrossHashed,
    .doc      = "all combinations of features of sparse and dense columns, hashed",
    .sig      = CROSS_IN ", num_buckets: int64, strong_hash: bool, salt: int64" CROSS_OUT("int64"),
    .attrs    = "N: int >= 0; " CROSS_TYPES,
    .flags    = MR_NO_GRADIENT,
    .shape    = cross_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_cross_hashed)),
    .state_bytes = sizeof(cross_state), .init = counts_init,
    .examples = MR_EXAMPLES(
        ONE_SPARSE ", 100, false, [1, 2] -> " CROSSED ", shape(3), [2, 2]", ONE_SPARSE ", 0, true, [1, 2] -> " CROSSED ", shape(3), [2, 2]",
        "N=0: (), (), (), (int64[[5, 107]]), 100, false, [1, 2] -> [[0, 0], [0, 1]], [5, 7], [1, 2]",
        ONE_SPARSE ", 100, false, [1] -> !INVALID_ARGUMENT Input salt should be a vector of two numbers"));

/* ---- RaggedCross ---- */

typedef struct ragged_state {
    int n_ragged, n_sparse, n_dense;
    char *order; /* R, S or D for each column */
    int64_t num_buckets, hash_key;
    bool hashed;
} ragged_state;

static void ragged_deinit(void *p) { mr_free(((ragged_state *)p)->order); }

static mr_status *ragged_init(mr_make *m, void *p)
{
    ragged_state *s = p;
    mr_sv order;
    int64_t sparse;
    int found[3] = {0};
    const mr_attr *values = mr_node_attr(m->node, "ragged_values_types"),
                  *splits = mr_node_attr(m->node, "ragged_splits_types");
    const mr_attr *dense = mr_node_attr(m->node, "dense_types"),
                  *types = mr_node_attr(m->node, "sparse_values_types");
    MR_TRY(mr_node_get_int(m->node, "Nsparse", &sparse));
    MR_TRY(mr_node_get_str(m->node, "input_order", &order));
    MR_TRY(mr_node_get_int(m->node, "num_buckets", &s->num_buckets));
    MR_TRY(mr_node_get_int(m->node, "hash_key", &s->hash_key));
    MR_TRY(mr_node_get_bool(m->node, "hashed_output", &s->hashed));
    for (size_t i = 0; i < order.n; i++) {
        const char *at = order.p[i] ? strchr("RSD", order.p[i]) : NULL;
        if (!at)
            return mr_invalid("input_order must consist of R, S and D, got '%.*s'",
                              MR_SV_ARG(order));
        found[*at == 'R' ? 0 : *at == 'S' ? 1 : 2]++;
    }
    if (!values || !splits || !dense || !types || values->n != splits->n || types->n != sparse ||
        found[0] != values->n || found[1] != sparse || found[2] != dense->n)
        return mr_invalid(
            "Invalid input_order '%.*s': it does not name the ragged, sparse and dense inputs",
            MR_SV_ARG(order));
    s->n_ragged = values->n;
    s->n_sparse = (int)sparse;
    s->n_dense = dense->n;
    s->order = mr_strndup(order.p, order.n);
    mr_dtype out;
    MR_TRY(mr_node_get_type(m->node, "out_values_type", &out));
    return s->hashed == (out == MR_INT64)
               ? NULL
               : mr_invalid("out_values_type must be int64 with hashed_output and string without it");
}

static mr_status *ragged_columns(const mr_run *r, crossing *c)
{
    const ragged_state *s = r->state;
    int sparse = 2 * s->n_ragged, dense = sparse + 3 * s->n_sparse, at[3] = {0};
    MR_TRY(crossing_init(r, c, s->n_ragged + s->n_sparse + s->n_dense));
    for (const char *p = s->order; *p; p++) {
        if (*p == 'R') {
            int i = at[0]++;
            MR_TRY(ragged_column(c, mr_in(r, i), mr_in(r, s->n_ragged + i)));
        } else if (*p == 'S') {
            int i = sparse + at[1]++;
            MR_TRY(sparse_column(c, mr_in(r, i), mr_in(r, s->n_sparse + i),
                                 mr_in(r, 2 * s->n_sparse + i)));
        } else {
            MR_TRY(dense_column(c, mr_in(r, dense + at[2]++)));
        }
    }
    return NULL;
}

static mr_status *run_ragged_cross(mr_run *r)
{
    const ragged_state *s = r->state;
    crossing c = {.hashed = s->hashed,
                  .seeded = true,
                  .hash_key = (uint64_t)s->hash_key,
                  .num_buckets = s->num_buckets,
                  .separator = MR_SV("_X_")};
    mr_status *st = ragged_columns(r, &c);
    if (!st)
        st = give_ragged(r, &c);
    crossing_deinit(&c);
    return st;
}

static mr_status *ragged_cross_shape(mr_infer *c)
{
    mr_infer_out_vector(c, 0, -1);
    mr_infer_out_vector(c, 1, -1);
    return NULL;
}

#define RAGGED_ATTRS(order) "out_row_splits_type=int64 num_buckets=0 hash_key=0 input_order=\"" order "\""
MR_OP(RaggedCross,
    .doc      = "all combinations of features of ragged, sparse and dense columns, joined by _X_ or hashed, as a ragged tensor",
    .sig      = "ragged_values: ragged_values_types, ragged_row_splits: ragged_splits_types, sparse_indices: Nsparse * int64, "
                "sparse_values: sparse_values_types, sparse_shape: Nsparse * int64, dense_inputs: dense_types -> "
                "output_values: out_values_type, output_row_splits: out_row_splits_type",
    .attrs    = "Nsparse: int >= 0; input_order: string; hashed_output: bool; num_buckets: int >= 0; hash_key: int; "
                "ragged_values_types: list({int64, string}) >= 0; ragged_splits_types: list({int32, int64}) >= 0; "
                "sparse_values_types: list({int64, string}) >= 0; dense_types: list({int64, string}) >= 0; "
                "out_values_type: {int64, string}; out_row_splits_type: {int32, int64}",
    .flags    = MR_NO_GRADIENT,
    .key      = "out_values_type",
    .shape    = ragged_cross_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_ragged_cross)),
    .state_bytes = sizeof(ragged_state), .init = ragged_init, .deinit = ragged_deinit,
    .examples = MR_EXAMPLES(
        "out_values_type=string hashed_output=false Nsparse=0 " RAGGED_ATTRS("RD") ": (string[\"a\", \"b\", \"c\"]), (int64[0, 2, 3]), (), (), (), "
        "(int64[[1], [2]]) -> [\"a_X_1\", \"b_X_1\", \"c_X_2\"], [0, 2, 3]",
        "out_values_type=string hashed_output=false " RAGGED_ATTRS("DSR") ": (string[\"a\"]), (int32[0, 0, 1]), ([[1, 0], [1, 1]]), "
        "(int64[5, 6]), ([2, 2]), (string[[\"x\"], [\"y\"]]) -> [\"y_X_5_X_a\", \"y_X_6_X_a\"], [0, 0, 2]",
        "out_values_type=int64 hashed_output=true Nsparse=0 out_row_splits_type=int32 num_buckets=50 hash_key=3 input_order=\"D\": (), (), "
        "(), (), (), (int64[[1, 2]]) -> shape(2), int32[0, 2]",
        "out_values_type=string hashed_output=false Nsparse=0 " RAGGED_ATTRS("R") ": (), (), (), (), (), (int64[[1]]) -> !INVALID_ARGUMENT "
        "Invalid input_order"));
