/* ops/array/unique.c -- Unique: each value once, in order of first appearance; and ListDiff.
 *
 * A table with open addressing holds the positions of first appearance; values are compared in
 * place. Floats are told apart by value: -0 and 0 are the same, a NaN is equal to none, itself
 * included. */
#include "base/clock.h"
#include "base/memory.h"
#include "graph/infer.h"
#include "ops/array/index.h"
#include "run/run.h"

/* ---- hash and equality by type ---- */

static uint64_t mix(uint64_t h)
{
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93u;
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93u;
    return h ^ h >> 32;
}

static uint64_t bits_of(double v)
{
    uint64_t bits;
    v += 0.0; /* -0 becomes 0 */
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

/* Equal elements have equal hashes.  The seed differs between runs, so that nobody can choose
 * values that all fall together. */
#define HASH_INTEGER(p, seed) mix((uint64_t)*(p) ^ (seed))
#define HASH_FLOATING(p, seed) mix(bits_of((double)MR_LD(p)) ^ (seed))
#define HASH_COMPLEX(p, seed) \
    mix(mix(bits_of((double)creal(*(p))) ^ (seed)) ^ bits_of((double)cimag(*(p))))

#define HASH_AND_EQ(E, name, number, S, C, HASH)                                     \
    static uint64_t hash_##name(const mr_tensor *t, int64_t i, uint64_t seed)        \
    {                                                                                \
        return HASH(MR_DATA(const S, t) + i, seed);                                  \
    }                                                                                \
    static bool eq_##name(const mr_tensor *t, int64_t a, int64_t b)                  \
    {                                                                                \
        return MR_LD(MR_DATA(const S, t) + a) == MR_LD(MR_DATA(const S, t) + b);     \
    }
MR_FLOATS(HASH_AND_EQ, HASH_FLOATING)
MR_COMPLEXES(HASH_AND_EQ, HASH_COMPLEX)
MR_INTS(HASH_AND_EQ, HASH_INTEGER)

static uint64_t hash_string(const mr_tensor *t, int64_t i, uint64_t seed)
{
    mr_sv s = mr_tensor_str_at(t, i);
    uint64_t h = seed ^ s.n;
    for (size_t at = 0; at < s.n; at += 8) {
        uint64_t word = 0;
        memcpy(&word, s.p + at, MR_MIN(s.n - at, (size_t)8));
        h = mix(h ^ word) + seed;
    }
    return mix(h);
}

static bool eq_string(const mr_tensor *t, int64_t a, int64_t b)
{
    return mr_sv_eq(mr_tensor_str_at(t, a), mr_tensor_str_at(t, b));
}

typedef struct comparison {
    uint64_t (*hash)(const mr_tensor *t, int64_t i, uint64_t seed);
    bool (*eq)(const mr_tensor *t, int64_t a, int64_t b);
} comparison;

static comparison comparison_of(mr_dtype t)
{
#define CASE(E, name, number, S, C, ...) \
    case MR_##E: return (comparison){hash_##name, eq_##name};
    switch (t) {
        MR_NUMBERS(CASE, )
    case MR_QINT8: return (comparison){hash_int8, eq_int8};
    case MR_QINT16: return (comparison){hash_int16, eq_int16};
    case MR_QUINT16: return (comparison){hash_uint16, eq_uint16};
    case MR_QINT32: return (comparison){hash_int32, eq_int32};
    case MR_STRING: return (comparison){hash_string, eq_string};
    default: MR_ASSERT(t == MR_BOOL || t == MR_QUINT8); return (comparison){hash_uint8, eq_uint8};
    }
#undef CASE
}

/* ---- the table ---- */

typedef struct table {
    int64_t *slots; /* number of a distinct value + 1; 0: free */
    uint64_t mask, seed;
    int64_t *first; /* where each distinct value first stands */
    int64_t n;
} table;

static mr_status *table_init(table *t, int64_t n)
{
    size_t size = 16;
    while (size < (size_t)n * 2)
        size *= 2;
    t->mask = size - 1;
    t->slots = mr_try_calloc(size, sizeof(int64_t));
    t->seed = mix((uint64_t)mr_now_ns() ^ (uint64_t)(uintptr_t)t->slots);
    t->first = mr_try_calloc((size_t)n + 1, sizeof(int64_t));
    return t->slots && t->first ? NULL
                                : mr_error(MR_RESOURCE_EXHAUSTED,
                                           "no memory for a table of %lld values", (long long)n);
}

static void table_deinit(table *t)
{
    mr_free(t->slots);
    mr_free(t->first);
}

/* The number of element i's value, which is a new one if it was not met before.  A NaN, which does
 * not even equal itself, is new every time and is not looked for again. */
static int64_t table_number(table *t, const mr_tensor *x, int64_t i, comparison c)
{
    uint64_t at = c.hash(x, i, t->seed) & t->mask;
    bool findable = c.eq(x, i, i);
    for (; findable && t->slots[at]; at = (at + 1) & t->mask)
        if (c.eq(x, t->first[t->slots[at] - 1], i))
            return t->slots[at] - 1;
    t->first[t->n++] = i;
    if (findable)
        t->slots[at] = t->n;
    return t->n - 1;
}

/* ---- Unique ---- */

static void number_all(table *t, const mr_tensor *x, mr_tensor *idx)
{
    comparison c = comparison_of(x->dtype);
    for (int64_t i = 0; i < x->n; i++) {
        int64_t k = table_number(t, x, i, c);
        if (idx->dtype == MR_INT64)
            MR_DATA(int64_t, idx)[i] = k;
        else
            MR_DATA(int32_t, idx)[i] = (int32_t)k;
    }
}

static mr_status *run_unique(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0);
    table t = {0};
    mr_status *st = NULL;
    mr_tensor *y, *idx;
    if (x->rank != 1)
        return mr_invalid("unique expects a 1D vector.");
    if (mr_out_dtype(r, 1) == MR_INT32 && x->n > INT32_MAX)
        return mr_invalid("unique does not support input tensors larger than %d elements",
                          INT32_MAX);
    MR_TRY(mr_run_output(r, 1, 1, x->dims, &idx));
    MR_GO(table_init(&t, x->n));
    number_all(&t, x, idx);
    MR_GO(mr_run_output(r, 0, 1, &t.n, &y));
    mr_gather_rows(r, &(mr_gather){y, x, 1, t.n, t.first}, 1, 0, 1);
out:
    table_deinit(&t);
    return st;
}

static mr_status *unique_shape(mr_infer *c)
{
    mr_infer_out_vector(c, 0, -1);
    return mr_infer_rank(c, c->in[0], 1, &c->out[1]);
}

MR_OP(Unique,
    .doc      = "the distinct values in order of appearance, and which of them each element is",
    .sig      = "x: T -> y: T, idx: out_idx",
    .attrs    = "T: type; out_idx: {int32, int64} = DT_INT32",
    .flags    = MR_NO_GRADIENT,
    .shape    = unique_shape,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_unique, MR_PLAIN) {"CPU", MR_STRING, run_unique},),
    .examples = MR_EXAMPLES(
        "[1, 0, 1] -> [1, 0], int32[0, 1, 0]", "[4, 2, 4, 1] -> [4, 2, 1], int32[0, 1, 0, 2]",
        "out_idx=int64: [\"b\", \"a\", \"b\"] -> [\"b\", \"a\"], int64[0, 1, 0]",
        "[nan, 0.0, nan, -0.0] -> [nan, 0, nan], int32[0, 1, 2, 1]",
        "[1i, 1, 1i] -> [1i, 1], int32[0, 1, 0]", "shape(0) -> shape(0), shape(0)",
        "iota(100) -> iota(100), shape(100)", "[[1]] -> !INVALID_ARGUMENT must be rank 1"));

/* ---- ListDiff ---- */

/* y, then x, in one tensor, so that one table numbers both. */
static mr_status *join(mr_run *r, const mr_tensor *y, const mr_tensor *x, mr_tensor **out)
{
    int64_t n;
    if (!mr_i64_add(y->n, x->n, &n))
        return mr_error(MR_RESOURCE_EXHAUSTED, "lists too long to compare");
    MR_TRY(mr_run_temp(r, x->dtype, 1, &n, out));
    mr_status *st = mr_tensor_try_copy_elements(*out, 0, y, 0, y->n);
    if (!st)
        st = mr_tensor_try_copy_elements(*out, y->n, x, 0, x->n);
    if (st)
        mr_tensor_unref(*out);
    return st;
}

/* Positions in x whose value does not stand in y; t.first is used up for them. */
static int64_t positions_only_in_x(table *t, const mr_tensor *both, int64_t n_y, int64_t *only)
{
    comparison c = comparison_of(both->dtype);
    int64_t n = 0;
    for (int64_t i = 0; i < both->n; i++) {
        int64_t k = table_number(t, both, i, c);
        if (i >= n_y && t->first[k] >= n_y)
            only[n++] = i - n_y;
    }
    return n;
}

static mr_status *give_difference(mr_run *r, const mr_tensor *x, const int64_t *only, int64_t n)
{
    mr_tensor *out, *idx;
    MR_TRY(mr_run_output(r, 0, 1, &n, &out));
    MR_TRY(mr_run_output(r, 1, 1, &n, &idx));
    mr_gather_rows(r, &(mr_gather){out, x, 1, n, only}, 1, 0, 1);
    for (int64_t i = 0; i < n; i++)
        if (idx->dtype == MR_INT64)
            MR_DATA(int64_t, idx)[i] = only[i];
        else
            MR_DATA(int32_t, idx)[i] = (int32_t)only[i];
    return NULL;
}

static mr_status *list_diff(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0), *y = mr_in(r, 1);
    mr_tensor *both = NULL;
    int64_t *only = NULL;
    table t = {0};
    mr_status *st = NULL;
    if (x->rank != 1 || y->rank != 1)
        return mr_invalid("x and y should be 1D vectors, got %s and %s", MR_TENSOR_SHAPE(x),
                          MR_TENSOR_SHAPE(y));
    if (mr_out_dtype(r, 1) == MR_INT32 && x->n > INT32_MAX)
        return mr_invalid("ListDiff of more than %d elements needs out_idx=int64", INT32_MAX);
    MR_TRY(join(r, y, x, &both));
    MR_GO(table_init(&t, both->n));
    only = mr_try_alloc(sizeof *only * (size_t)(x->n + 1));
    if (!only)
        MR_GO(mr_error(MR_RESOURCE_EXHAUSTED, "no memory to compare %lld values", (long long)x->n));
    MR_GO(give_difference(r, x, only, positions_only_in_x(&t, both, y->n, only)));
out:
    table_deinit(&t);
    mr_free(only);
    mr_tensor_unref(both);
    return st;
}

static mr_status *list_diff_shape(mr_infer *c)
{
    const mr_pshape *ignored;
    MR_TRY(mr_infer_rank(c, c->in[0], 1, &ignored));
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &ignored));
    mr_infer_out_vector(c, 0, -1);
    mr_infer_out_vector(c, 1, -1);
    return NULL;
}

MR_OP(ListDiff,
    .doc      = "what stands in x and not in y, in order, and where it stands in x",
    .sig      = "x: T, y: T -> out: T, idx: out_idx",
    .attrs    = "T: type; out_idx: {int32, int64} = DT_INT32",
    .flags    = MR_NO_GRADIENT,
    .shape    = list_diff_shape,
    .kernels  = MR_KERNELS(MR_CPU_ONE(list_diff, MR_PLAIN) {"CPU", MR_STRING, list_diff},),
    .examples = MR_EXAMPLES(
        "[1, 0, 1, 1], [0] -> [1, 1, 1], int32[0, 2, 3]", "[1, 0], [1, 0] -> shape(0), shape(0)",
        "[1, 2, 3, 4, 5, 6], [1, 3, 5] -> [2, 4, 6], int32[1, 3, 5]",
        "out_idx=int64: [\"b\", \"a\", \"b\"], [\"a\"] -> [\"b\", \"b\"], int64[0, 2]",
        "[[1]], [1] -> !INVALID_ARGUMENT must be rank 1"));
