/* ops/array/top_k.c -- the largest elements of each row: TopKV2 and TopK; the n-th of them: NthElement.
 *
 * Values become unsigned numbers in the same order, so that one selection serves all types.  The best k so far are
 * kept in a heap with the worst of them at the top.  Once it is full, groups of elements are compared with its top, and
 * only groups with a larger element are looked at one by one.  Where k is a large part of the row, sorting the whole
 * row is faster.  A NaN counts as larger than any number. */
#include "base/memory.h"
#include "base/simd.h"
#include "graph/grad.h"
#include "ops/array/layout.h"
#include "ops/array/order.h"
#include "run/scratch.h"

enum {
    BLOCK = 256,
    GROUP = 32,         /* elements that are compared at once */
    SORT_FRACTION = 16, /* for more than this part of a row, sorting is faster than the heap */
};

typedef struct entry {
    uint64_t key, index;
} entry;

/* True if a comes before b: it is larger, or equal and further left. */
static bool comes_before(entry a, entry b)
{
    return a.key != b.key ? a.key > b.key : a.index < b.index;
}

/* ---- selection ---- */

/* Replaces the top of a heap of n by e; the top is the entry that comes last. */
static void sift_down(entry *heap, int64_t n, entry e)
{
    int64_t at = 0;
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && comes_before(heap[child], heap[child + 1]))
            child++;
        if (!comes_before(e, heap[child]))
            break;
        heap[at] = heap[child];
    }
    heap[at] = e;
}

static void push_entry(entry *heap, int64_t n, entry e)
{
    int64_t at = n;
    for (; at > 0 && comes_before(heap[(at - 1) / 2], e); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = e;
}

typedef struct selection {
    const mr_run *run;
    const mr_tensor *x;
    mr_tensor *values, *indices;
    int64_t n, k;
    mr_order_fn *keys;
    bool wants_values, wants_indices;
    bool *failed; /* atomic: out of memory */
} selection;

/* Lists the positions of the keys above `limit`, group by group, because most groups have none. Returns how many. */
MR_CLONES static int list_above(const uint64_t *keys, int n, uint64_t limit, int *places)
{
    int found = 0;
    for (int at = 0; at < n; at += GROUP) {
        int m = MR_MIN(GROUP, n - at);
        uint64_t largest = 0;
        for (int i = 0; i < m; i++)
            largest = MR_MAX(largest, keys[at + i]);
        for (int i = 0; largest > limit && i < m; i++) {
            places[found] = at + i;
            found += keys[at + i] > limit;
        }
    }
    return found;
}

/* Leaves the best k of the row in `heap`, in order. */
static void select_row(const selection *s, const char *row, entry *heap)
{
    uint64_t keys[BLOCK];
    int places[BLOCK];
    int64_t have = 0;
    for (int64_t at = 0; at < s->n; at += BLOCK) {
        int m = (int)MR_MIN(BLOCK, s->n - at), first = 0;
        s->keys(row, at, m, keys);
        for (; have < s->k && first < m; first++)
            push_entry(heap, have++, (entry){keys[first], (uint64_t)(at + first)});
        int found = list_above(keys + first, m - first, heap[0].key, places);
        for (int i = 0; i < found; i++) { /* an equal element further right comes later anyway */
            int place = first + places[i];
            if (keys[place] > heap[0].key)
                sift_down(heap, s->k, (entry){keys[place], (uint64_t)(at + place)});
        }
    }
    for (int64_t left = s->k - 1; left > 0; left--) { /* repeatedly moves the worst entry to the end */
        entry last = heap[left];
        entry worst = heap[0];
        sift_down(heap, left, last);
        heap[left] = worst;
    }
}

static const char *row_at(const selection *s, int64_t r)
{
    return (const char *)s->x->data + (size_t)(r * s->n) * mr_dtype_size((mr_dtype)s->x->dtype);
}

static char *values_at(const selection *s, int64_t r)
{
    return (char *)s->values->data + (size_t)(r * s->k) * mr_dtype_size((mr_dtype)s->x->dtype);
}

static void select_rows(void *ctx, int64_t begin, int64_t end)
{
    const selection *s = ctx;
    size_t elem = mr_dtype_size((mr_dtype)s->x->dtype);
    entry *heap = mr_scratch(s->run, (size_t)s->k * sizeof(entry));
    if (!heap)
        __atomic_store_n(s->failed, true, __ATOMIC_RELAXED);
    for (int64_t r = begin; heap && r < end; r++) {
        const char *row = row_at(s, r);
        select_row(s, row, heap);
        for (int64_t i = 0; i < s->k; i++) {
            MR_DATA(int32_t, s->indices)[r * s->k + i] = (int32_t)heap[i].index;
            memcpy(values_at(s, r) + (size_t)i * elem, row + heap[i].index * elem, elem);
        }
    }
    mr_scratch_free(heap);
}

static void sort_rows(void *ctx, int64_t begin, int64_t end)
{
    const selection *s = ctx;
    mr_dtype type = (mr_dtype)s->x->dtype;
    uint64_t *words = mr_scratch(s->run, (size_t)s->n * 2 * sizeof *words);
    if (!words)
        __atomic_store_n(s->failed, true, __ATOMIC_RELAXED);
    for (int64_t r = begin; words && r < end; r++) {
        mr_order_descending(type, row_at(s, r), s->n, words, words + s->n);
        if (s->wants_values)
            mr_order_values(type, row_at(s, r), words, s->k, values_at(s, r));
        for (int64_t i = 0; s->wants_indices && i < s->k; i++)
            MR_DATA(int32_t, s->indices)[r * s->k + i] = (int32_t)words[i];
    }
    mr_scratch_free(words);
}

static mr_status *select_k(mr_run *r, int64_t k)
{
    const mr_tensor *x = mr_in(r, 0);
    bool failed = false;
    selection s = {.run = r, .x = x, .k = k, .keys = mr_order_of(x->dtype), .failed = &failed};
    s.wants_values = mr_run_wants(r, 0);
    s.wants_indices = mr_run_wants(r, 1);
    mr_shape shape;
    if (x->rank < 1)
        return mr_invalid("input must be >= 1-D, got shape %s", MR_TENSOR_SHAPE(x));
    s.n = x->dims[x->rank - 1];
    if (s.k < 0)
        return mr_invalid("Need k >= 0, got %lld", (long long)s.k);
    if (s.n < s.k)
        return mr_invalid("input must have at least k columns. Had %lld, needed %lld",
                          (long long)s.n, (long long)s.k);
    if (s.n > INT32_MAX)
        return mr_invalid("the indices of rows of %lld elements do not fit into int32",
                          (long long)s.n);
    mr_shape_set(&shape, x->rank, x->dims);
    shape.dims[x->rank - 1] = s.k;
    MR_TRY(mr_run_output(r, 0, shape.rank, shape.dims, &s.values));
    MR_TRY(mr_run_output(r, 1, shape.rank, shape.dims, &s.indices));
    if (s.values->n == 0)
        return NULL;
    if (s.k > s.n / SORT_FRACTION)
        mr_run_for(r, s.values->n / s.k, 6.0 * (double)s.n, sort_rows, &s);
    else
        mr_run_for(r, s.values->n / s.k, 0.5 * (double)s.n + 30.0 * (double)s.k, select_rows, &s);
    if (failed)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld entries", (long long)s.k);
    return NULL;
}

static mr_status *run_top_k(mr_run *r)
{
    int64_t k;
    MR_TRY(mr_in_scalar_int(r, 1, "k", &k));
    return select_k(r, k);
}

typedef struct k_state { /* state of TopK, whose k is an attr */
    int64_t k;
} k_state;

static mr_status *init_k(mr_make *m, void *s) { return mr_node_get_int(m->node, "k", &((k_state *)s)->k); }
static mr_status *run_top_k_v1(mr_run *r) { return select_k(r, ((k_state *)r->state)->k); }

static mr_status *top_k_shape_of(mr_infer *c, int64_t k)
{
    const mr_pshape *x = NULL;
    MR_TRY(mr_infer_rank_at_least(c, c->in[0], 1, &x));
    if (x->rank < 0)
        return NULL;
    int64_t n = x->dims[x->rank - 1];
    if (k >= 0 && n >= 0 && n < k)
        return mr_invalid("input must have last dimension >= k = %lld but is %lld", (long long)k,
                          (long long)n);
    c->out[0] = c->out[1] = mr_pshape_with(c->arena, x, x->rank - 1, k);
    return NULL;
}

static mr_status *top_k_shape(mr_infer *c)
{
    const mr_pshape *ignored;
    int64_t k = -1;
    MR_TRY(mr_infer_rank(c, c->in[1], 0, &ignored));
    if (mr_infer_int(c, 1, &k) && k < 0)
        return mr_invalid("Need k >= 0, got %lld", (long long)k);
    return top_k_shape_of(c, k);
}

static mr_status *top_k_v1_shape(mr_infer *c)
{
    int64_t k;
    MR_TRY(mr_node_get_int(c->node, "k", &k));
    return top_k_shape_of(c, k);
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

/* Adds dy at the flat positions row * n + index; k and n may be 0. */
static void scatter_back(mr_grad *g, mr_out k)
{
    mr_out shape = as_int64(g, mr_shape_of(g, mr_xi(g, 0)));
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

static void top_k_backward(mr_grad *g) { scatter_back(g, as_int64(g, mr_xi(g, 1))); }

static void top_k_v1_backward(mr_grad *g)
{
    int64_t k = 0;
    mr_scope_fail(g->s, mr_node_get_int(g->node, "k", &k));
    scatter_back(g, mr_const_i64(g->s, k));
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

MR_OP(TopK,
    .doc      = "the k largest elements of each row, and where they stand; k is an attr",
    .sig      = "input: T -> values: T, indices: int32",
    .attrs    = "k: int >= 0; sorted: bool = true; T: realnumbertype",
    .deprecated = 7, .deprecation = "Use TopKV2 instead",
    .shape    = top_k_v1_shape,
    .grad     = top_k_v1_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_top_k_v1, MR_REALS)),
    .state_bytes = sizeof(k_state), .init = init_k,
    .examples = MR_EXAMPLES(
        "k=2: [[1, 2, 3], [6, 5, 4]] -> [[3, 2], [6, 5]], int32[[2, 1], [0, 1]]",
        "k=0: [1, 2] -> shape(0), shape(0)", "k=2: shape(0,3) -> shape(0,2), shape(0,2)",
        "k=3: [1, 2] -> !INVALID_ARGUMENT input must have last dimension >= k = 3 but is 2",
        "k=1: 1 -> !INVALID_ARGUMENT at least rank 1"));

/* ---- NthElement ---- */

typedef struct nth {
    const mr_run *run;
    const mr_tensor *x;
    mr_tensor *out;
    int64_t n, at; /* the length of a row, and the position of the wanted element in sorted order */
    mr_order_fn *keys;
    bool *failed;
} nth;

/* Hoare's selection: elements to the left of `at` are not larger, those to the right not smaller. */
static uint64_t select_key(uint64_t *keys, int64_t n, int64_t at)
{
    int64_t low = 0, high = n - 1;
    while (low < high) {
        uint64_t a = keys[low], b = keys[low + (high - low) / 2], c = keys[high];
        uint64_t pivot = a < b ? (b < c ? b : MR_MAX(a, c)) : (a < c ? a : MR_MAX(b, c));
        int64_t i = low, j = high;
        while (i <= j) {
            while (keys[i] < pivot)
                i++;
            while (keys[j] > pivot)
                j--;
            if (i <= j) {
                uint64_t t = keys[i];
                keys[i++] = keys[j];
                keys[j--] = t;
            }
        }
        if (at <= j)
            high = j;
        else if (at >= i)
            low = i;
        else
            break;
    }
    return keys[at];
}

static void nth_rows(void *ctx, int64_t begin, int64_t end)
{
    const nth *s = ctx;
    size_t elem = mr_dtype_size(s->x->dtype);
    uint64_t *keys = mr_scratch_zeroed(s->run, (size_t)s->n, sizeof(uint64_t)), one;
    if (!keys)
        __atomic_store_n(s->failed, true, __ATOMIC_RELAXED);
    for (int64_t r = begin; keys && r < end; r++) {
        const char *row = (const char *)s->x->data + (size_t)(r * s->n) * elem;
        for (int64_t at = 0; at < s->n; at += BLOCK)
            s->keys(row, at, (int)MR_MIN(BLOCK, s->n - at), keys + at);
        uint64_t wanted = select_key(keys, s->n, s->at);
        int64_t found = 0; /* the key gives the order, not the value */
        for (; found < s->n - 1; found++) {
            s->keys(row, found, 1, &one);
            if (one == wanted)
                break;
        }
        memcpy((char *)s->out->data + (size_t)r * elem, row + (size_t)found * elem, elem);
    }
    mr_scratch_free(keys);
}

typedef struct nth_state {
    bool reverse;
} nth_state;

static mr_status *init_nth(mr_make *m, void *s)
{
    return mr_node_get_bool(m->node, "reverse", &((nth_state *)s)->reverse);
}

static mr_status *run_nth(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0);
    bool failed = false;
    nth s = {.run = r, .x = x, .keys = mr_order_of(x->dtype), .failed = &failed};
    MR_TRY(mr_in_scalar_int(r, 1, "n", &s.at));
    if (s.at < 0)
        return mr_invalid("n must be non-negative, got %lld", (long long)s.at);
    if (x->rank < 1)
        return mr_invalid("Input must be >= 1-D, got shape %s", MR_TENSOR_SHAPE(x));
    s.n = x->dims[x->rank - 1];
    if (s.n <= s.at)
        return mr_invalid("Input must have at least n+1 = %lld columns, but has %lld",
                          (long long)s.at + 1, (long long)s.n);
    if (((nth_state *)r->state)->reverse)
        s.at = s.n - 1 - s.at;
    MR_TRY(mr_run_output(r, 0, x->rank - 1, x->dims, &s.out));
    mr_run_for(r, s.out->n, 6.0 * (double)s.n, nth_rows, &s);
    if (failed)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld entries", (long long)s.n);
    return NULL;
}

static mr_status *nth_shape(mr_infer *c)
{
    const mr_pshape *x = NULL, *ignored;
    int64_t n = -1;
    MR_TRY(mr_infer_rank_at_least(c, c->in[0], 1, &x));
    MR_TRY(mr_infer_rank(c, c->in[1], 0, &ignored));
    if (mr_infer_int(c, 1, &n) && n < 0)
        return mr_invalid("n must be non-negative, got %lld", (long long)n);
    if (x->rank < 0)
        return NULL;
    int64_t have = mr_infer_dim(x, -1);
    if (n >= 0 && have >= 0 && have <= n)
        return mr_invalid("Input must have last dimension > n = %lld but is %lld", (long long)n,
                          (long long)have);
    c->out[0] = mr_infer_sub(c, x, 0, -1);
    return NULL;
}

/* Distributes dy in equal parts over all elements that equal the n-th of their row. */
static void nth_backward(mr_grad *g)
{
    mr_scope *s = g->s;
    mr_out last = mr_const_i32(s, -1), x = mr_xi(g, 0);
    mr_attr type = mr_a_type(mr_dtype_base(mr_out_type(x)));
    mr_out same = mr_emit(s, "Equal", mr_emit(s, "ExpandDims", mr_yi(g, 0), last), x);
    same = mr_emit_with(s, "Cast", MR_ATTRS({"DstT", type}), same);
    mr_out count = mr_emit_with(s, "Sum", MR_ATTRS({"keep_dims", mr_a_bool(true)}), same, last);
    mr_out dy = mr_emit(s, "ExpandDims", mr_dyi(g, 0), last);
    mr_dxi(g, 0, mr_emit(s, "Mul", mr_emit(s, "RealDiv", same, count), dy));
}

MR_OP(NthElement,
    .doc      = "the element of each row that n others precede in order, or follow when reverse",
    .sig      = "input: T, n: int32 -> values: T",
    .attrs    = "reverse: bool = false; T: realnumbertype",
    .key      = "T",
    .shape    = nth_shape,
    .grad     = nth_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_nth, MR_REALS)),
    .state_bytes = sizeof(nth_state), .init = init_nth,
    .examples = MR_EXAMPLES(
        "[5, 1, 4, 2], 1 -> 2", "reverse=true: [5, 1, 4, 2], 0 -> 5",
        "[[1, 3, 2], [6, 5, 4]], 2 -> [3, 6]", "nograd: [2, 2, 1, 2, 7], 2 -> 2",
        "T=int8: [-128, 127, 0], 0 -> -128", "T=float nograd: [nan, 1, -inf], [0] -> !INVALID_ARGUMENT",
        "T=float nograd: [nan, 1, -inf], 2 -> nan", "shape(0,3), 1 -> shape(0)",
        "[1, 2], 2 -> !INVALID_ARGUMENT Input must have last dimension > n = 2 but is 2",
        "[1, 2], -1 -> !INVALID_ARGUMENT n must be non-negative, got -1",
        "n = PlaceholderWithDefault dtype=int32 shape=?: int32 3; : [1, 2], n -> !INVALID_ARGUMENT "
        "Input must have at least n+1",
        "1, 0 -> !INVALID_ARGUMENT at least rank 1"));
