/* ops/array/unique.c -- Unique and similar ops: each value once, in order of first appearance; and ListDiff.
 *
 * A table with open addressing holds hashes and numbers of distinct values; values are compared in place, where they
 * first appear. It grows with the number of distinct values, so that few of them stay in the CPU's caches. A value is a
 * row of `width` elements: UniqueV2 compares slices along an axis. Floats are compared by value: -0 and 0 are
 * equal, and a NaN equals nothing, not even itself. */
#include "base/clock.h"
#include "base/memory.h"
#include "graph/infer.h"
#include "ops/array/blit.h"
#include "ops/array/index.h"
#include "ops/array/layout.h"
#include "run/scratch.h"

/* ---- hash and equality by type ---- */

/* One-to-one. */
static uint64_t mix_hash(uint64_t h)
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

/* Equal elements have equal hashes. The seed differs between runs, so that nobody can choose values that all
 * collide. */
#define HASH_INTEGER(p, seed) mix_hash((uint64_t)*(p) ^ (seed))
#define HASH_FLOATING(p, seed) mix_hash(bits_of((double)MR_LD(p)) ^ (seed))
#define HASH_COMPLEX(p, seed) \
    mix_hash(mix_hash(bits_of((double)creal(*(p))) ^ (seed)) ^ bits_of((double)cimag(*(p))))

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
        h = mix_hash(h ^ word) + seed;
    }
    return mix_hash(h);
}

static bool eq_string(const mr_tensor *t, int64_t a, int64_t b)
{
    return mr_sv_eq(mr_tensor_str_at(t, a), mr_tensor_str_at(t, b));
}

typedef struct comparison {
    uint64_t (*hash)(const mr_tensor *t, int64_t i, uint64_t seed);
    bool (*eq)(const mr_tensor *t, int64_t a, int64_t b);
    bool exact; /* elements with equal hashes are equal */
} comparison;

static comparison comparison_of(mr_dtype t)
{
#define CASE(E, name, number, S, C, exact) \
    case MR_##E: return (comparison){hash_##name, eq_##name, exact};
    switch (t) {
        MR_FLOATS(CASE, false)
        MR_COMPLEXES(CASE, false)
        MR_INTS(CASE, true)
    case MR_QINT8: return (comparison){hash_int8, eq_int8, true};
    case MR_QINT16: return (comparison){hash_int16, eq_int16, true};
    case MR_QUINT16: return (comparison){hash_uint16, eq_uint16, true};
    case MR_QINT32: return (comparison){hash_int32, eq_int32, true};
    case MR_STRING: return (comparison){hash_string, eq_string, false};
    default: MR_ASSERT(t == MR_BOOL || t == MR_QUINT8); return (comparison){hash_uint8, eq_uint8, true};
    }
#undef CASE
}

/* ---- the table ---- */

typedef struct slot {
    uint64_t hash;
    int64_t number; /* of a distinct value + 1; 0: free */
} slot;

typedef struct table {
    const mr_run *run;
    slot *slots; /* at most half of them are used */
    uint64_t mask, seed;
    int64_t *first; /* position where each distinct value first appears */
    int64_t n;
    int64_t width;  /* elements of a value */
} table;

enum { FIRST_SLOTS = 1024, BATCH = 64 };

static mr_status *table_full(int64_t n)
{
    return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a table of %lld values", (long long)n);
}

static mr_status *table_init(const mr_run *r, table *t, int64_t n, int64_t width)
{
    t->run = r;
    t->width = width;
    t->mask = FIRST_SLOTS - 1;
    t->slots = mr_scratch_zeroed(r, FIRST_SLOTS, sizeof(slot));
    t->seed = mix_hash((uint64_t)mr_now_ns() ^ (uint64_t)(uintptr_t)t->slots);
    t->first = mr_scratch_zeroed(r, (size_t)n + 1, sizeof(int64_t));
    return t->slots && t->first ? NULL : table_full(n);
}

static void table_deinit(table *t)
{
    mr_scratch_free(t->slots);
    mr_scratch_free(t->first);
}

/* Doubles the slots; false: out of memory. */
static bool table_grow(table *t)
{
    uint64_t size = t->mask + 1, mask = 2 * size - 1;
    slot *wider = mr_scratch_zeroed(t->run, 2 * size, sizeof(slot));
    if (!wider)
        return false;
    for (uint64_t i = 0; i < size; i++) {
        uint64_t at = t->slots[i].hash & mask;
        if (!t->slots[i].number)
            continue;
        while (wider[at].number)
            at = (at + 1) & mask;
        wider[at] = t->slots[i];
    }
    mr_scratch_free(t->slots);
    t->slots = wider;
    t->mask = mask;
    return true;
}

static uint64_t row_hash(const table *t, const mr_tensor *x, int64_t i, comparison c)
{
    uint64_t h = t->seed;
    for (int64_t k = 0; k < t->width; k++)
        h = c.hash(x, i * t->width + k, h);
    return h;
}

static bool row_eq(const table *t, const mr_tensor *x, int64_t a, int64_t b, comparison c)
{
    bool same = true;
    for (int64_t k = 0; k < t->width && same; k++)
        same = c.eq(x, a * t->width + k, b * t->width + k);
    return same;
}

/* The number of row i's value, whose hash is given; a new number if the value has not been seen before; -1 if there is
 * no memory. A NaN, which does not equal itself, is always new and is not entered into the table. */
static int64_t table_number(table *t, const mr_tensor *x, int64_t i, uint64_t hash, comparison c)
{
    uint64_t at = hash & t->mask;
    bool exact = c.exact && t->width == 1, findable = exact || row_eq(t, x, i, i, c);
    for (; findable && t->slots[at].number; at = (at + 1) & t->mask)
        if (t->slots[at].hash == hash && (exact || row_eq(t, x, t->first[t->slots[at].number - 1], i, c)))
            return t->slots[at].number - 1;
    t->first[t->n++] = i;
    if (findable)
        t->slots[at] = (slot){hash, t->n};
    if (findable && (uint64_t)t->n * 2 > t->mask && !table_grow(t))
        return -1;
    return t->n - 1;
}

/* Sets numbers[k] to the number of row begin + k, for n <= BATCH rows; false: out of memory. All slots are asked for
 * before the first is read. */
static bool number_batch(table *t, const mr_tensor *x, int64_t begin, int n, comparison c, int64_t *numbers)
{
    uint64_t hashes[BATCH];
    for (int k = 0; k < n; k++) {
        hashes[k] = row_hash(t, x, begin + k, c);
        __builtin_prefetch(&t->slots[hashes[k] & t->mask]);
    }
    for (int k = 0; k < n; k++)
        if ((numbers[k] = table_number(t, x, begin + k, hashes[k], c)) < 0)
            return false;
    return true;
}

/* ---- Unique ---- */

static void set_index(mr_tensor *t, int64_t i, int64_t v)
{
    if (t->dtype == MR_INT64)
        MR_DATA(int64_t, t)[i] = v;
    else
        MR_DATA(int32_t, t)[i] = (int32_t)v;
}

static mr_status *number_all(table *t, const mr_tensor *x, mr_tensor *idx)
{
    comparison c = comparison_of(x->dtype);
    int64_t numbers[BATCH];
    for (int64_t at = 0; at < idx->n; at += BATCH) {
        int n = (int)MR_MIN(BATCH, idx->n - at);
        if (!number_batch(t, x, at, n, c, numbers))
            return table_full(idx->n);
        for (int k = 0; k < n; k++)
            set_index(idx, at + k, numbers[k]);
    }
    return NULL;
}

/* Output 2, if there is one: the count of each distinct value. */
static mr_status *give_counts(mr_run *r, const table *t, const mr_tensor *idx)
{
    mr_tensor *count;
    if (r->n_out < 3)
        return NULL;
    MR_TRY(mr_run_output(r, 2, 1, &t->n, &count));
    mr_tensor_zero(count);
    for (int64_t i = 0; i < idx->n; i++) {
        int64_t k = mr_tensor_int_at(idx, i);
        set_index(count, k, mr_tensor_int_at(count, k) + 1);
    }
    return NULL;
}

/* Moves [outer, n, inner] to [n, outer, inner], or back. */
static mr_status *swap_axis(mr_run *r, mr_tensor *dst, const mr_tensor *src, int64_t outer, int64_t n, int64_t inner,
                            bool back)
{
    mr_blit b;
    mr_blit_init(&b);
    mr_blit_dim(&b, outer, back ? inner : n * inner, back ? n * inner : inner);
    mr_blit_dim(&b, n, back ? outer * inner : inner, back ? inner : outer * inner);
    mr_blit_dim(&b, inner, 1, 1);
    return b.empty ? NULL : mr_blit_copy(r, &b, dst, 0, src, 0);
}

/* Sets y to x with only the slices t.first along the axis; rows are x as [n, width]. */
static mr_status *give_slices(mr_run *r, const table *t, const mr_tensor *x, const mr_tensor *rows, int axis)
{
    mr_shape s;
    mr_tensor *y, *picked = NULL;
    int64_t outer = mr_dims_product(x->dims, 0, axis), inner = mr_dims_product(x->dims, axis + 1, x->rank);
    mr_shape_set(&s, x->rank, x->dims);
    s.dims[axis] = t->n;
    MR_TRY(mr_run_output(r, 0, s.rank, s.dims, &y));
    if (y->n == 0)
        return NULL;
    if (outer == 1)
        return mr_gather_rows(r, &(mr_gather){y, rows, inner, t->n, t->first}, 1, 0, 1);
    MR_TRY(mr_run_temp(r, (mr_dtype)x->dtype, 2, (int64_t[]){t->n, t->width}, &picked));
    mr_status *st = mr_gather_rows(r, &(mr_gather){picked, rows, t->width, t->n, t->first}, 1, 0, 1);
    if (!st)
        st = swap_axis(r, y, picked, outer, t->n, inner, true);
    mr_tensor_unref(picked);
    return st;
}

static mr_status *unique_along(mr_run *r, int axis)
{
    const mr_tensor *x = mr_in(r, 0);
    mr_tensor *idx, *rows = NULL;
    table t = {0};
    mr_status *st = NULL;
    int64_t n = x->dims[axis], outer = mr_dims_product(x->dims, 0, axis);
    int64_t inner = mr_dims_product(x->dims, axis + 1, x->rank);
    if (mr_out_dtype(r, 1) == MR_INT32 && n > INT32_MAX)
        return mr_invalid("unique does not support input tensors larger than %d elements",
                          INT32_MAX);
    MR_TRY(mr_run_output(r, 1, 1, &n, &idx));
    MR_GO(table_init(r, &t, n, outer * inner));
    if (outer != 1) {
        MR_GO(mr_run_temp(r, (mr_dtype)x->dtype, 2, (int64_t[]){n, t.width}, &rows));
        MR_GO(swap_axis(r, rows, x, outer, n, inner, false));
    }
    MR_GO(number_all(&t, rows ? rows : x, idx));
    MR_GO(give_counts(r, &t, idx));
    st = give_slices(r, &t, x, rows ? rows : x, axis);
out:
    table_deinit(&t);
    mr_tensor_unref(rows);
    return st;
}

static mr_status *run_unique(mr_run *r)
{
    if (mr_in(r, 0)->rank != 1)
        return mr_invalid("unique expects a 1D vector.");
    return unique_along(r, 0);
}

/* The axis is an empty vector, which means a 1-D input as in Unique, or a vector of one element. */
static mr_status *run_unique_v2(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0), *axis = mr_in(r, 1);
    if (axis->rank != 1)
        return mr_invalid("axis expects a 1D vector.");
    if (axis->n > 1)
        return mr_invalid("axis does not support input tensors larger than 1 elements");
    if (axis->n == 0)
        return run_unique(r);
    int64_t d = mr_tensor_int_at(axis, 0);
    if (d < -x->rank || d >= x->rank)
        return mr_invalid("axis has to be between [0, %d), got %lld", x->rank, (long long)d);
    return unique_along(r, (int)(d < 0 ? d + x->rank : d));
}

static mr_status *unique_shape(mr_infer *c)
{
    mr_infer_out_vector(c, 0, -1);
    if (c->n_out == 3)
        mr_infer_out_vector(c, 2, -1);
    return mr_infer_rank(c, c->in[0], 1, &c->out[1]);
}

static mr_status *unique_v2_shape(mr_infer *c)
{
    const mr_pshape *x = c->in[0], *v;
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &v));
    const mr_tensor *axis = mr_infer_const(c, 1);
    mr_infer_out_vector(c, 1, -1);
    if (c->n_out == 3)
        mr_infer_out_vector(c, 2, -1);
    if (axis && axis->n == 0)
        return unique_shape(c);
    if (x->rank < 0)
        return NULL;
    c->out[0] = mr_pshape_new(c->arena, x->rank);
    if (!axis || axis->n != 1)
        return NULL;
    int64_t d = mr_tensor_int_at(axis, 0);
    if (d < -x->rank || d >= x->rank)
        return mr_invalid("axis has to be between [0, %d), got %lld", x->rank, (long long)d);
    d = d < 0 ? d + x->rank : d;
    c->out[0] = mr_pshape_with(c->arena, x, (int)d, -1);
    mr_infer_out_vector(c, 1, x->dims[d]);
    return NULL;
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

MR_OP(UniqueWithCounts,
    .doc      = "the distinct values in order of appearance, which of them each element is, and how often each stands",
    .sig      = "x: T -> y: T, idx: out_idx, count: out_idx",
    .attrs    = "T: type; out_idx: {int32, int64} = DT_INT32",
    .flags    = MR_NO_GRADIENT,
    .shape    = unique_shape,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_unique, MR_PLAIN) {"CPU", MR_STRING, run_unique},),
    .examples = MR_EXAMPLES(
        "[1, 0, 1] -> [1, 0], int32[0, 1, 0], int32[2, 1]",
        "out_idx=int64: [\"b\", \"a\", \"b\"] -> [\"b\", \"a\"], int64[0, 1, 0], int64[2, 1]",
        "[nan, nan] -> [nan, nan], int32[0, 1], int32[1, 1]", "shape(0) -> shape(0), shape(0), shape(0)",
        "[[1]] -> !INVALID_ARGUMENT must be rank 1"));

#define UNIQUE_V2                                                                              \
    .attrs   = "T: type; Taxis: {int32, int64} = DT_INT64; out_idx: {int32, int64} = DT_INT32", \
    .flags   = MR_NO_GRADIENT, .shape = unique_v2_shape,                                       \
    .kernels = MR_KERNELS(MR_CPU_ONE(run_unique_v2, MR_PLAIN) {"CPU", MR_STRING, run_unique_v2},)

MR_OP(UniqueV2,
    .doc      = "the distinct slices along an axis in order of appearance, and which of them each slice is",
    .sig      = "x: T, axis: Taxis -> y: T, idx: out_idx", UNIQUE_V2,
    .examples = MR_EXAMPLES(
        "[[1, 0], [1, 1], [1, 0]], [0] -> [[1, 0], [1, 1]], int32[0, 1, 0]",
        "Taxis=int32: [[1, 0, 1], [2, 3, 2]], [1] -> [[1, 0], [2, 3]], int32[0, 1, 0]",
        "[4, 2, 4], shape(0) -> [4, 2], int32[0, 1, 0]", "[4, 2, 4], [-1] -> [4, 2], int32[0, 1, 0]",
        "[[\"a\", \"a\"], [\"b\", \"b\"]], [1] -> [[\"a\"], [\"b\"]], int32[0, 0]",
        "out_idx=int64: [[nan], [nan]], [0] -> [[nan], [nan]], int64[0, 1]", "shape(2,0), [0] -> shape(1,0), [0, 0]",
        "shape(0,2), [0] -> shape(0,2), shape(0)",
        "[[[1, 2], [3, 4]], [[5, 6], [3, 4]]], [1] -> [[[1, 2], [3, 4]], [[5, 6], [3, 4]]], int32[0, 1]",
        "[1, 2], [1] -> !INVALID_ARGUMENT axis has to be between [0, 1)", "[[1]], shape(0) -> !INVALID_ARGUMENT",
        "a = PlaceholderWithDefault dtype=int64 shape=?: int64[0, 0]; : [1], a -> !INVALID_ARGUMENT larger than 1 elements"));

MR_OP(UniqueWithCountsV2,
    .doc      = "the distinct slices along an axis, which of them each slice is, and how often each stands",
    .sig      = "x: T, axis: Taxis -> y: T, idx: out_idx, count: out_idx", UNIQUE_V2,
    .examples = MR_EXAMPLES(
        "[[1, 0], [1, 1], [1, 0]], [0] -> [[1, 0], [1, 1]], int32[0, 1, 0], int32[2, 1]",
        "[\"a\", \"a\"], [0] -> [\"a\"], int32[0, 0], int32[2]",
        "Taxis=int32 out_idx=int64: [4, 2, 4], shape(0) -> [4, 2], int64[0, 1, 0], int64[2, 1]"));

/* ---- ListDiff ---- */

/* Concatenates y and x, so that one table numbers both. */
static mr_status *join_lists(mr_run *r, const mr_tensor *y, const mr_tensor *x, mr_tensor **out)
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

/* The *n positions in x whose value is not in y. */
static mr_status *positions_only_in_x(table *t, const mr_tensor *both, int64_t n_y, int64_t *only, int64_t *n)
{
    comparison c = comparison_of(both->dtype);
    int64_t numbers[BATCH];
    *n = 0;
    for (int64_t at = 0; at < both->n; at += BATCH) {
        int m = (int)MR_MIN(BATCH, both->n - at);
        if (!number_batch(t, both, at, m, c, numbers))
            return table_full(both->n);
        for (int k = 0; k < m; k++)
            if (at + k >= n_y && t->first[numbers[k]] >= n_y)
                only[(*n)++] = at + k - n_y;
    }
    return NULL;
}

static mr_status *give_difference(mr_run *r, const mr_tensor *x, const int64_t *only, int64_t n)
{
    mr_tensor *out, *idx;
    MR_TRY(mr_run_output(r, 0, 1, &n, &out));
    MR_TRY(mr_run_output(r, 1, 1, &n, &idx));
    MR_TRY(mr_gather_rows(r, &(mr_gather){out, x, 1, n, only}, 1, 0, 1));
    for (int64_t i = 0; i < n; i++)
        set_index(idx, i, only[i]);
    return NULL;
}

static mr_status *list_diff(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0), *y = mr_in(r, 1);
    mr_tensor *both = NULL;
    int64_t *only = NULL, n;
    table t = {0};
    mr_status *st = NULL;
    if (x->rank != 1 || y->rank != 1)
        return mr_invalid("x and y should be 1D vectors, got %s and %s", MR_TENSOR_SHAPE(x),
                          MR_TENSOR_SHAPE(y));
    if (mr_out_dtype(r, 1) == MR_INT32 && x->n > INT32_MAX)
        return mr_invalid("ListDiff of more than %d elements needs out_idx=int64", INT32_MAX);
    MR_TRY(join_lists(r, y, x, &both));
    MR_GO(table_init(r, &t, both->n, 1));
    only = mr_scratch(r, sizeof *only * (size_t)(x->n + 1));
    if (!only)
        MR_GO(mr_error(MR_RESOURCE_EXHAUSTED, "no memory to compare %lld values", (long long)x->n));
    MR_GO(positions_only_in_x(&t, both, y->n, only, &n));
    MR_GO(give_difference(r, x, only, n));
out:
    table_deinit(&t);
    mr_scratch_free(only);
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
