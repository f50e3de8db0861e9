/* ops/array/top_k.c -- the largest elements of each row: TopKV2.
 *
 * Values become unsigned numbers in the same order, so that one selection serves all types.  The
 * best k so far are kept in a heap with the worst of them on top; most elements are turned away by
 * one comparison.  A NaN counts as larger than any number. */
#include "base/memory.h"
#include "graph/grad.h"
#include "ops/array/layout.h"

#define BLOCK 256

typedef struct entry {
    uint64_t key;
    int64_t index;
} entry;

/* a is to come before b: larger, or as large and further left. */
static bool before(entry a, entry b)
{
    return a.key != b.key ? a.key > b.key : a.index < b.index;
}

/* ---- numbers in the order of the values ---- */

#define KEY_UNSIGNED(v) ((uint64_t)(v))
#define KEY_SIGNED(v) ((uint64_t)(int64_t)(v) ^ (uint64_t)1 << 63)
static inline uint64_t key_floating(double v)
{
    uint64_t bits;
    v += 0.0; /* -0 and 0 are equal */
    memcpy(&bits, &v, sizeof bits);
    if (v != v)
        return UINT64_MAX;
    return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
}
#define KEY_FLOATING(v) key_floating((double)(v))

#define KEYS(E, name, number, S, C, KEY)                                    \
    static void keys_##name(const void *row, int64_t at, int n, uint64_t *out) \
    {                                                                       \
        const S *v = (const S *)row + at;                                   \
        for (int i = 0; i < n; i++)                                         \
            out[i] = KEY(MR_LD(v + i));                                     \
    }
MR_FLOATS(KEYS, KEY_FLOATING)
MR_SIGNED(KEYS, KEY_SIGNED)
MR_UNSIGNED(KEYS, KEY_UNSIGNED)

typedef void keys_fn(const void *row, int64_t at, int n, uint64_t *out);

static keys_fn *keys_of(mr_dtype t)
{
#define CASE(E, name, number, S, C, ...) \
    case MR_##E: return keys_##name;
    switch (t) {
        MR_REALS(CASE, )
    default: return NULL;
    }
#undef CASE
}

/* ---- selection ---- */

/* Puts e in place of the top of a heap of n, whose top is what comes last. */
static void sift(entry *heap, int64_t n, entry e)
{
    int64_t at = 0;
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && before(heap[child], heap[child + 1]))
            child++;
        if (!before(e, heap[child]))
            break;
        heap[at] = heap[child];
    }
    heap[at] = e;
}

static void push(entry *heap, int64_t n, entry e)
{
    int64_t at = n;
    for (; at > 0 && before(heap[(at - 1) / 2], e); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = e;
}

typedef struct selection {
    const mr_tensor *x;
    mr_tensor *values, *indices;
    int64_t n, k;
    keys_fn *keys;
    bool *failed; /* atomic: memory was out */
} selection;

static void select_row(const selection *s, const char *row, entry *heap)
{
    uint64_t keys[BLOCK];
    int64_t have = 0;
    for (int64_t at = 0; at < s->n; at += BLOCK) {
        int m = (int)MR_MIN(BLOCK, s->n - at);
        s->keys(row, at, m, keys);
        for (int i = 0; i < m; i++) {
            entry e = {keys[i], at + i};
            if (have < s->k)
                push(heap, have++, e);
            else if (keys[i] > heap[0].key) /* an equal one further right comes later anyway */
                sift(heap, s->k, e);
        }
    }
    for (int64_t left = s->k - 1; left > 0; left--) { /* the worst to the end, again and again */
        entry last = heap[left];
        entry worst = heap[0];
        sift(heap, left, last);
        heap[left] = worst;
    }
}

static void select_rows(void *ctx, int64_t begin, int64_t end)
{
    const selection *s = ctx;
    size_t elem = mr_dtype_size(s->x->dtype);
    entry *heap = mr_try_calloc((size_t)s->k, sizeof(entry));
    if (!heap)
        __atomic_store_n(s->failed, true, __ATOMIC_RELAXED);
    for (int64_t r = begin; heap && r < end; r++) {
        const char *row = (const char *)s->x->data + (size_t)(r * s->n) * elem;
        char *values = (char *)s->values->data + (size_t)(r * s->k) * elem;
        int32_t *indices = MR_DATA(int32_t, s->indices) + r * s->k;
        select_row(s, row, heap);
        for (int64_t i = 0; i < s->k; i++) {
            indices[i] = (int32_t)heap[i].index;
            memcpy(values + (size_t)i * elem, row + (size_t)heap[i].index * elem, elem);
        }
    }
    mr_free(heap);
}

static mr_status *run_top_k(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0);
    bool failed = false;
    selection s = {.x = x, .keys = keys_of(x->dtype), .failed = &failed};
    mr_shape shape;
    if (x->rank < 1)
        return mr_invalid("input must be >= 1-D, got shape %s", MR_TENSOR_SHAPE(x));
    MR_TRY(mr_in_scalar_int(r, 1, "k", &s.k));
    s.n = x->dims[x->rank - 1];
    if (s.k < 0)
        return mr_invalid("Need k >= 0, got %lld", (long long)s.k);
    if (s.n < s.k)
        return mr_invalid("input must have at least k columns. Had %lld, needed %lld",
                          (long long)s.n, (long long)s.k);
    if (s.n > INT32_MAX)
        return mr_invalid("rows of %lld elements have indices that int32 cannot hold",
                          (long long)s.n);
    mr_shape_set(&shape, x->rank, x->dims);
    shape.dims[x->rank - 1] = s.k;
    MR_TRY(mr_run_output(r, 0, shape.rank, shape.dims, &s.values));
    MR_TRY(mr_run_output(r, 1, shape.rank, shape.dims, &s.indices));
    if (s.values->n == 0)
        return NULL;
    mr_run_for(r, s.values->n / s.k, 2.0 * (double)s.n + 30.0 * (double)s.k, select_rows, &s);
    if (failed)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld entries", (long long)s.k);
    return NULL;
}

static mr_status *top_k_shape(mr_infer *c)
{
    const mr_pshape *x = NULL, *ignored;
    int64_t k = -1;
    MR_TRY(mr_infer_rank_at_least(c, c->in[0], 1, &x));
    MR_TRY(mr_infer_rank(c, c->in[1], 0, &ignored));
    if (mr_infer_int(c, 1, &k) && k < 0)
        return mr_invalid("Need k >= 0, got %lld", (long long)k);
    if (x->rank < 0)
        return NULL;
    int64_t n = x->dims[x->rank - 1];
    if (k >= 0 && n >= 0 && n < k)
        return mr_invalid("input must have last dimension >= k = %lld but is %lld", (long long)k,
                          (long long)n);
    c->out[0] = c->out[1] = mr_pshape_with(c->arena, x, x->rank - 1, k);
    return NULL;
}

static mr_out as_int64(mr_grad *g, mr_out v)
{
    return mr_emit_with(g->s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_INT64)}), v);
}

/* The size of a row, from the shape. */
static mr_out last_entry(mr_grad *g, mr_out shape)
{
    mr_out last = mr_const_vec_i32(g->s, 1, (int32_t[]){-1});
    mr_out end = mr_const_vec_i32(g->s, 1, (int32_t[]){0});
    mr_out step = mr_const_vec_i32(g->s, 1, (int32_t[]){1});
    return mr_emit_with(g->s, "StridedSlice", MR_ATTRS({"shrink_axis_mask", mr_a_int(1)}), shape,
                        last, end, step);
}

/* dy added at the flat places row * n + index; k may be 0, and so may n. */
static void top_k_backward(mr_grad *g)
{
    mr_out shape = as_int64(g, mr_shape_of(g, mr_xi(g, 0))), k = as_int64(g, mr_xi(g, 1));
    mr_out zero = mr_const_i64(g->s, 0), one = mr_const_i64(g->s, 1);
    mr_out axis0 = mr_const_i32(g->s, 0), axis1 = mr_const_i32(g->s, 1);
    mr_out n = last_entry(g, shape), total = mr_emit(g->s, "Prod", shape, axis0);
    mr_out count = mr_emit(g->s, "FloorDiv", total, mr_emit(g->s, "Maximum", n, one));
    mr_out starts = mr_emit(g->s, "Mul", mr_emit(g->s, "Range", zero, count, one), n);
    mr_out rows =
        mr_emit(g->s, "Reshape", as_int64(g, mr_yi(g, 1)), mr_emit(g->s, "Pack", count, k));
    mr_out at = mr_emit(g->s, "Add", rows, mr_emit(g->s, "ExpandDims", starts, axis1));
    mr_out places = mr_emit(g->s, "Reshape", at, mr_const_vec_i32(g->s, 2, (int32_t[]){-1, 1}));
    mr_out flat = mr_const_vec_i32(g->s, 1, (int32_t[]){-1});
    mr_out sum = mr_emit(g->s, "ScatterNd", places, mr_emit(g->s, "Reshape", mr_dyi(g, 0), flat),
                         mr_emit(g->s, "ExpandDims", total, axis0));
    mr_dxi(g, 0, mr_emit(g->s, "Reshape", sum, shape));
}

MR_OP(TopKV2,
    .doc      = "the k largest elements of each row, and where they stand",
    .sig      = "input: T, k: int32 -> values: T, indices: int32",
    .attrs    = "sorted: bool = true; T: realnumbertype",
    .shape    = top_k_shape,
    .grad     = top_k_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_top_k, MR_REALS)),
    .examples = MR_EXAMPLES(
        "nograd: [1, 3, 3, 2], 2 -> [3, 3], int32[1, 2]",
        "[[1, 2, 3], [6, 5, 4]], 2 -> [[3, 2], [6, 5]], int32[[2, 1], [0, 1]]",
        "nograd: [[-1, -3], [2.5, -inf]], 2 -> [[-1, -3], [2.5, -inf]], int32[[0, 1], [0, 1]]",
        "nograd: [0.0, -0.0, -1], 3 -> [0, 0, -1], int32[0, 1, 2]", "[4, 7], 1 -> [7], int32[1]",
        "nograd: [5, nan, 9], 2 -> [nan, 9], int32[1, 2]",
        "[5, 1, 4, 2, 3], 5 -> [5, 4, 3, 2, 1], int32[0, 2, 4, 3, 1]",
        "[1, 2], 0 -> shape(0), shape(0)", "shape(0,3), 2 -> shape(0,2), shape(0,2)",
        "T=int8: [-128, 127, 0], 3 -> [127, 0, -128], int32[1, 2, 0]",
        "T=uint64: [1, 18446744073709551615], 1 -> [18446744073709551615], int32[1]",
        "[1, 2], 3 -> !INVALID_ARGUMENT input must have last dimension >= k = 3 but is 2",
        "k = PlaceholderWithDefault dtype=int32 shape=?: int32 3; : [1, 2], k -> !INVALID_ARGUMENT "
        "input must have at least k columns. Had 2, needed 3",
        "[1, 2], -1 -> !INVALID_ARGUMENT Need k >= 0, got -1",
        "1, 1 -> !INVALID_ARGUMENT at least rank 1"));
