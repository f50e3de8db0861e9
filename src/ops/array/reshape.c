/* ops/array/reshape.c -- the same elements with another shape: Reshape, Squeeze, ExpandDims.
 *
 * The buffer is shared, and the gradient is a reshape back. */
#include "base/memory.h"
#include "graph/grad.h"
#include "ops/array/layout.h"

static void reshape_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_emit(g->s, "Reshape", mr_dyi(g, 0), mr_shape_of(g, mr_xi(g, 0))));
}

/* ---- Reshape ---- */

/* A requested shape with at most one unknown size. */
typedef struct request {
    mr_shape *shape;
    int open;        /* the index of the size -1, or -1 */
    int64_t product; /* of the sizes that are neither 0 nor unknown */
    bool has_zero;
} request;

static mr_status *read_size(request *q, int d, int64_t size)
{
    if (size == -1) {
        if (q->open >= 0)
            return mr_invalid("Only one input size may be -1, not both %d and %d", q->open, d);
        q->open = d;
    } else if (size < 0) {
        return mr_invalid("Size %d must be non-negative, not %lld", d, (long long)size);
    } else if (size == 0) {
        q->has_zero = true;
    } else if (!mr_i64_mul(q->product, size, &q->product)) {
        return mr_invalid("The requested shape has too many elements");
    }
    return mr_shape_push(q->shape, size);
}

/* If one of the sizes is 0, the unknown size is computed as if all zeros were removed on both sides. */
static mr_status *fill_open(request *q, const mr_tensor *t)
{
    int64_t n = 1;
    for (int d = 0; d < t->rank; d++)
        if (t->dims[d] > 0 || !q->has_zero)
            n *= t->dims[d];
    if (n % q->product != 0 && !q->has_zero && t->n > 0)
        return mr_invalid(
            "Input to reshape is a tensor with %lld values, but the requested shape requires a "
            "multiple of %lld",
            (long long)t->n, (long long)q->product);
    q->shape->dims[q->open] = n / q->product;
    return NULL;
}

static mr_status *run_reshape(mr_run *r)
{
    const mr_tensor *t = mr_in(r, 0), *sizes = mr_in(r, 1);
    mr_shape shape;
    request q = {&shape, -1, 1, false};
    shape.rank = 0;
    if (sizes->rank > 1)
        return mr_invalid("sizes input must be 1-D, not %s", MR_TENSOR_SHAPE(sizes));
    for (int64_t d = 0; d < sizes->n; d++)
        MR_TRY(read_size(&q, (int)d, mr_tensor_int_at(sizes, d)));
    if (q.open >= 0)
        MR_TRY(fill_open(&q, t));
    int64_t n;
    MR_TRY(mr_shape_elements(shape.rank, shape.dims, &n));
    if (n != t->n)
        return mr_invalid(
            "Input to reshape is a tensor with %lld values, but the requested shape has %lld",
            (long long)t->n, (long long)n);
    return mr_run_reshape(r, 0, 0, shape.rank, shape.dims);
}

/* Multiplies the known sizes; *unknown is the number of the others, *last the index of the last one. */
static mr_status *known_product(const mr_pshape *s, int64_t *product, int *unknown, int *last)
{
    *product = 1;
    *unknown = 0;
    for (int d = 0; d < s->rank; d++) {
        if (s->dims[d] < 0) {
            ++*unknown;
            *last = d;
        } else if (!mr_i64_mul(*product, s->dims[d], product)) {
            return mr_invalid("Shape %s has too many elements", MR_PSHAPE_TEXT(s));
        }
    }
    return NULL;
}

static mr_status *reshape_shape(mr_infer *c)
{
    const mr_pshape *x = c->in[0], *want = NULL;
    int64_t have_n, want_n;
    int have_open, want_open, at = -1;
    MR_TRY(mr_infer_shape_value(c, 1, &want));
    c->out[0] = want;
    if (x->rank < 0 || want->rank < 0)
        return NULL;
    MR_TRY(known_product(x, &have_n, &have_open, &at));
    MR_TRY(known_product(want, &want_n, &want_open, &at));
    if (have_open > 0 || want_open > 1)
        return NULL;
    if (want_open == 0 && have_n != want_n)
        return mr_invalid("Cannot reshape a tensor with %lld elements to shape %s (%lld elements)",
                          (long long)have_n, MR_PSHAPE_TEXT(want), (long long)want_n);
    if (want_open == 0 || want_n == 0)
        return NULL;
    if (have_n % want_n != 0)
        return mr_invalid("Dimension size must be evenly divisible by %lld but is %lld",
                          (long long)want_n, (long long)have_n);
    c->out[0] = mr_pshape_with(c->arena, want, at, have_n / want_n);
    return NULL;
}

MR_OP(Reshape,
    .doc      = "the same elements in another shape; one size may be -1: the rest",
    .sig      = "tensor: T, shape: Tshape -> output: T",
    .attrs    = "T: type; Tshape: {int32, int64} = DT_INT32",
    .flags    = MR_CHEAP | MR_HOST_ONLY,
    .shape    = reshape_shape,
    .grad     = reshape_backward,
    .kernels  = MR_KERNELS({.device = "CPU", .run = run_reshape, .host_in = 2},),
    .examples = MR_EXAMPLES(
        "[1, 0, 0, 1, 1, 0], [2, 3] -> [[1, 0, 0], [1, 1, 0]]",
        "Tshape=int64: [[1, 0], [0, 1]], [-1] -> [1, 0, 0, 1]",
        "[\"a\", \"b\"], [2, -1] -> [[\"a\"], [\"b\"]]", "[1], shape(0) -> 1", "1, [1, 1] -> [[1]]",
        "shape(0,3), [0, -1] -> shape(0,3)", "shape(2,0,3), [0, -1] -> shape(0,6)",
        "shape(0,3), [-1, 7] -> shape(0,7)",
        "[1, 0, 1], [2, 2] -> !INVALID_ARGUMENT Cannot reshape a tensor with 3 elements to shape "
        "[2,2] (4 elements)",
        "s = PlaceholderWithDefault dtype=int32 shape=?: int32[2, 2]; : [1, 0, 1], s -> "
        "!INVALID_ARGUMENT Input to reshape is a tensor with 3 values, but the requested shape has "
        "4",
        "s = PlaceholderWithDefault dtype=int32 shape=?: int32[2, -1]; : [1, 0, 1], s -> "
        "!INVALID_ARGUMENT Input to reshape is a tensor with 3 values, but the requested shape "
        "requires a multiple of 2",
        "s = PlaceholderWithDefault dtype=int32 shape=?: int32[-1, -1]; : [1, 0, 1], s -> "
        "!INVALID_ARGUMENT Only one input size may be -1, not both 0 and 1",
        "s = PlaceholderWithDefault dtype=int32 shape=?: int32[-2]; : [1, 0, 1], s -> "
        "!INVALID_ARGUMENT non-negative, not -2",
        "s = PlaceholderWithDefault dtype=int32 shape=?: int32[2000000000, 2000000000, "
        "2000000000]; : shape(0), s -> !INVALID_ARGUMENT too many elements"));

/* ---- Squeeze ---- */

typedef struct squeeze {
    int n;
    const int64_t *dims; /* of the node's attr */
} squeeze;

static mr_status *squeeze_init(mr_make *m, void *state)
{
    squeeze *s = state;
    const mr_attr *dims = NULL;
    MR_TRY(mr_node_get_list(m->node, "squeeze_dims", MR_ATTR_INT, &dims));
    *s = (squeeze){dims->n, dims->is};
    return NULL;
}

/* Marks the given dimensions, counted from either end. */
static mr_status *mark_squeezed(int n, const int64_t *which, int rank, bool *marked)
{
    memset(marked, 0, (size_t)rank);
    for (int i = 0; i < n; i++) {
        int64_t d = which[i];
        if (d < -rank || d >= rank)
            return mr_invalid("Tried to squeeze dim index %lld for tensor with %d dimensions.",
                              (long long)d, rank);
        marked[d < 0 ? d + rank : d] = true;
    }
    return NULL;
}

static mr_status *cannot_squeeze(int d, int64_t size)
{
    return mr_invalid("Can not squeeze dim[%d], expected a dimension of 1, got %lld", d,
                      (long long)size);
}

static mr_status *run_squeeze(mr_run *r)
{
    const squeeze *s = r->state;
    const mr_tensor *t = mr_in(r, 0);
    bool marked[MR_MAX_RANK];
    int64_t dims[MR_MAX_RANK];
    int rank = 0;
    MR_TRY(mark_squeezed(s->n, s->dims, t->rank, marked));
    for (int d = 0; d < t->rank; d++) {
        if (marked[d] && t->dims[d] != 1)
            return cannot_squeeze(d, t->dims[d]);
        if (!marked[d] && (s->n > 0 || t->dims[d] != 1))
            dims[rank++] = t->dims[d];
    }
    return mr_run_reshape(r, 0, 0, rank, dims);
}

static mr_status *squeeze_shape(mr_infer *c)
{
    const mr_pshape *x = c->in[0];
    const mr_attr *which = NULL;
    bool marked[MR_MAX_RANK];
    int64_t dims[MR_MAX_RANK];
    int rank = 0;
    MR_TRY(mr_node_get_list(c->node, "squeeze_dims", MR_ATTR_INT, &which));
    if (x->rank < 0)
        return NULL;
    for (int i = 0; i < which->n; i++)
        if (which->is[i] < -x->rank || which->is[i] >= x->rank)
            return mr_invalid("squeeze_dims[%d] not in [%d,%d).", i, -x->rank, x->rank);
    MR_TRY(mark_squeezed(which->n, which->is, x->rank, marked));
    for (int d = 0; d < x->rank; d++) {
        if (marked[d] && x->dims[d] >= 0 && x->dims[d] != 1)
            return cannot_squeeze(d, x->dims[d]);
        if (which->n == 0 && x->dims[d] < 0)
            return NULL; /* it may be 1, so the rank is unknown */
        if (!marked[d] && (which->n > 0 || x->dims[d] != 1))
            dims[rank++] = x->dims[d];
    }
    c->out[0] = mr_pshape_of(c->arena, rank, dims);
    return NULL;
}

MR_OP(Squeeze,
    .doc         = "drops dimensions of size 1: all, or those named",
    .sig         = "input: T -> output: T",
    .attrs       = "T: type; squeeze_dims: list(int) = [] >= 0",
    .flags       = MR_CHEAP | MR_HOST_ONLY,
    .shape       = squeeze_shape,
    .grad        = reshape_backward,
    .state_bytes = sizeof(squeeze),
    .init        = squeeze_init,
    .kernels     = MR_KERNELS(MR_CPU_ANY(run_squeeze)),
    .examples    = MR_EXAMPLES(
        "[[[1], [0]]] -> [1, 0]", "squeeze_dims=[-1]: [[[1], [0]]] -> [[1, 0]]", "[[1]] -> 1",
        "squeeze_dims=[0]: shape(1,0,1) -> shape(0,1)", "1 -> 1",
        "squeeze_dims=[1]: [[1, 0]] -> !INVALID_ARGUMENT Can not squeeze dim[1], expected a "
        "dimension of 1, got 2",
        "squeeze_dims=[2]: [[1, 0]] -> !INVALID_ARGUMENT squeeze_dims[0] not in [-2,2).",
        "x = PlaceholderWithDefault dtype=$T shape=?: [[1, 0]]; squeeze_dims=[2]: x -> !INVALID_ARGUMENT Tried to "
        "squeeze dim index 2 for tensor with 2 dimensions.",
        "x = PlaceholderWithDefault dtype=$T shape=?: [[1, 0]]; squeeze_dims=[1]: x -> "
        "!INVALID_ARGUMENT Can not squeeze dim[1], expected a dimension of 1, got 2"));

/* ---- ExpandDims ---- */

static mr_status *resolve_insertion(int64_t at, int rank, int *out)
{
    if (at < -1 - rank || at > rank)
        return mr_invalid("Tried to expand dim index %lld for tensor with %d dimensions.",
                          (long long)at, rank);
    *out = (int)(at < 0 ? at + rank + 1 : at);
    return NULL;
}

static mr_status *run_expand_dims(mr_run *r)
{
    const mr_tensor *t = mr_in(r, 0), *dim = mr_in(r, 1);
    mr_shape s;
    int at = 0;
    if (dim->n != 1)
        return mr_invalid("'dim' must be a tensor with a single value");
    MR_TRY(resolve_insertion(mr_tensor_int_at(dim, 0), t->rank, &at));
    s.rank = 0;
    for (int d = 0; d <= t->rank; d++) {
        if (d == at)
            MR_TRY(mr_shape_push(&s, 1));
        if (d < t->rank)
            MR_TRY(mr_shape_push(&s, t->dims[d]));
    }
    return mr_run_reshape(r, 0, 0, s.rank, s.dims);
}

/* A vector of several axes is refused as soon as its length is known. */
static mr_status *expand_dims_shape(mr_infer *c)
{
    const mr_pshape *x = c->in[0];
    const mr_tensor *value = mr_infer_const(c, 1);
    int at = 0;
    int64_t n = value ? value->n : mr_infer_elements(c->in[1]);
    if (n >= 0 && n != 1)
        return mr_invalid("'dim' input must be a tensor with a single value");
    if (x->rank < 0)
        return NULL;
    if (x->rank == MR_MAX_RANK)
        return mr_invalid("a tensor of %d dimensions cannot get another dimension", x->rank);
    mr_pshape *out = mr_pshape_new(c->arena, x->rank + 1);
    c->out[0] = out;
    if (!value)
        return NULL;
    int64_t dim = mr_tensor_int_at(value, 0);
    if (dim < -1 - x->rank || dim > x->rank)
        return mr_invalid("dim %lld not in the interval [%d, %d].", (long long)dim, -1 - x->rank, x->rank);
    MR_TRY(resolve_insertion(dim, x->rank, &at));
    for (int d = 0; d <= x->rank; d++)
        out->dims[d] = d == at ? 1 : x->dims[d - (d > at)];
    return NULL;
}

MR_OP(ExpandDims,
    .doc      = "inserts a dimension of size 1",
    .sig      = "input: T, dim: Tdim -> output: T",
    .attrs    = "T: type; Tdim: {int32, int64} = DT_INT32",
    .flags    = MR_CHEAP | MR_HOST_ONLY,
    .shape    = expand_dims_shape,
    .grad     = reshape_backward,
    .kernels  = MR_KERNELS({.device = "CPU", .run = run_expand_dims, .host_in = 2},),
    .examples = MR_EXAMPLES(
        "[1, 0], 0 -> [[1, 0]]", "[1, 0], -1 -> [[1], [0]]", "Tdim=int64: [1, 0], 1 -> [[1], [0]]",
        "1, [0] -> [1]", "shape(0), -2 -> shape(1,0)",
        "[1, 0], 2 -> !INVALID_ARGUMENT dim 2 not in the interval [-2, 1].",
        "i = PlaceholderWithDefault dtype=int32 shape=?: int32 2; : [1, 0], i -> !INVALID_ARGUMENT Tried to expand "
        "dim index 2 for tensor with 1 dimensions.",
        "[1, 0], [0, 0] -> !INVALID_ARGUMENT 'dim' input must be a tensor with a single value",
        "i = PlaceholderWithDefault dtype=int32 shape=[2]: int32[0, 0]; : [1, 0], i -> !INVALID_ARGUMENT 'dim' input "
        "must be a tensor with a single value"));
