/* ops/array/transpose.c -- changes the order of dimensions: Transpose, ConjugateTranspose, InvertPermutation. */
#include "base/memory.h"
#include "graph/grad.h"
#include "ops/array/blit.h"
#include "ops/array/layout.h"
#include "run/accel.h"

/* ---- the permutation ---- */

static mr_status *missing_dim(const mr_tensor *perm, int d)
{
    mr_str list = {0};
    for (int64_t i = 0; i < perm->n; i++)
        mr_str_printf(&list, "%s%lld", i ? "," : "", (long long)mr_tensor_int_at(perm, i));
    mr_status *st = mr_invalid("%d is missing from {%s}.", d, mr_str_z(&list));
    mr_str_deinit(&list);
    return st;
}

/* Output dimension d is input dimension perm[d]. */
static mr_status *read_perm(const mr_tensor *t, int rank, int *perm)
{
    bool seen[MR_MAX_RANK] = {0};
    if (t->rank != 1)
        return mr_invalid("perm must be rank 1, got shape %s", MR_TENSOR_SHAPE(t));
    if (t->n != rank)
        return mr_invalid(
            "transpose expects a vector of size %d. But input(1) is a vector of size %lld", rank,
            (long long)t->n);
    for (int i = 0; i < rank; i++) {
        int64_t d = mr_tensor_int_at(t, i);
        if (d < 0 || d >= rank)
            return mr_invalid("%lld is out of range [0 .. %d)", (long long)d, rank);
        perm[i] = (int)d;
        seen[d] = true;
    }
    for (int d = 0; d < rank; d++)
        if (!seen[d])
            return missing_dim(t, d);
    return NULL;
}

/* True if the dimensions above size 1 keep their order, so that the bytes do not change. */
static bool is_reshape(const mr_tensor *t, const int *perm)
{
    int last = -1;
    for (int i = 0; i < t->rank; i++) {
        if (t->dims[perm[i]] == 1)
            continue;
        if (perm[i] < last)
            return false;
        last = perm[i];
    }
    return true;
}

/* ---- kernels ---- */

static void conjugate_c64(void *ctx, int64_t begin, int64_t end)
{
    float *v = ctx; /* pairs: only the second of each changes */
    for (int64_t i = begin; i < end; i++)
        v[2 * i + 1] = -v[2 * i + 1];
}

static void conjugate_c128(void *ctx, int64_t begin, int64_t end)
{
    double *v = ctx;
    for (int64_t i = begin; i < end; i++)
        v[2 * i + 1] = -v[2 * i + 1];
}

static mr_status *transpose_input(mr_run *r, bool conjugate)
{
    const mr_tensor *x = mr_in(r, 0);
    int perm[MR_MAX_RANK];
    int64_t dims[MR_MAX_RANK], from[MR_MAX_RANK], to[MR_MAX_RANK];
    mr_tensor *y;
    mr_blit b;
    MR_TRY(read_perm(mr_in(r, 1), x->rank, perm));
    for (int i = 0; i < x->rank; i++)
        dims[i] = x->dims[perm[i]];
    conjugate = conjugate && mr_dtype_is_complex(x->dtype);
    if (!conjugate && is_reshape(x, perm))
        return mr_run_reshape(r, 0, 0, x->rank, dims);
    MR_TRY(mr_run_output(r, 0, x->rank, dims, &y));
    mr_dims_strides(x->rank, x->dims, from);
    mr_dims_strides(x->rank, dims, to);
    mr_blit_init(&b);
    for (int i = 0; i < x->rank; i++)
        mr_blit_dim(&b, dims[i], from[perm[i]], to[i]);
    MR_TRY(mr_blit_copy(r, &b, y, 0, x, 0));
    if (conjugate)
        mr_run_for(r, y->n, 1, x->dtype == MR_COMPLEX64 ? conjugate_c64 : conjugate_c128, y->data);
    return NULL;
}

static mr_status *run_transpose(mr_run *r) { return transpose_input(r, false); }
static mr_status *run_conjugate_transpose(mr_run *r) { return transpose_input(r, true); }

/* ---- shape and gradient ---- */

/* Either input determines the rank; with the permutation the sizes are known too. */
static mr_status *transpose_shape(mr_infer *c)
{
    const mr_pshape *x = c->in[0], *p = NULL;
    const mr_tensor *value = mr_infer_const(c, 1);
    int64_t n = mr_infer_elements(c->in[1]);
    int perm[MR_MAX_RANK], rank = x->rank;
    if (rank < 0 && n >= 2 && n <= MR_MAX_RANK) /* one element fits a scalar as well as a vector */
        rank = (int)n;
    if (rank < 0)
        return NULL;
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &p));
    MR_TRY(mr_infer_dim_is(p->dims[0], rank));
    mr_pshape *out = mr_pshape_new(c->arena, rank);
    c->out[0] = out;
    if (rank <= 1 && x->rank >= 0)
        c->out[0] = x; /* there is only one permutation */
    if (!value || x->rank < 0)
        return NULL;
    for (int i = 0; i < rank && i < value->n; i++)
        if (mr_tensor_int_at(value, i) >= rank)
            return mr_invalid("perm dim %lld is out of range of input rank %d", (long long)mr_tensor_int_at(value, i),
                              rank);
    mr_status *st = read_perm(value, rank, perm);
    if (st) { /* the kernel refuses it */
        mr_status_free(st);
        return NULL;
    }
    for (int i = 0; i < rank; i++)
        out->dims[i] = x->dims[perm[i]];
    c->out[0] = out;
    return NULL;
}

static void transpose_backward(mr_grad *g)
{
    mr_out inverse = mr_emit(g->s, "InvertPermutation", mr_xi(g, 1));
    mr_dxi(g, 0, mr_emit(g->s, g->node->def->name, mr_dyi(g, 0), inverse));
}

MR_OP(Transpose,
    .doc      = "dimension i of the result is dimension perm[i] of x",
    .sig      = "x: T, perm: Tperm -> y: T",
    .attrs    = "T: type; Tperm: {int32, int64} = DT_INT32",
    .shape    = transpose_shape,
    .grad     = transpose_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_transpose) MR_GPU_HOST(run_transpose, FLOAT, 2, 0)),
    .examples = MR_EXAMPLES(
        "[[1, 2, 3], [4, 5, 6]], [1, 0] -> [[1, 4], [2, 5], [3, 6]]",
        "[[\"a\", \"b\"], [\"c\", \"d\"]], [1, 0] -> [[\"a\", \"c\"], [\"b\", \"d\"]]",
        "Tperm=int64: iota(2,3,4), [2, 0, 1] -> [[[0, 4, 8], [12, 16, 20]], [[1, 5, 9], [13, 17, "
        "21]], [[2, 6, 10], [14, 18, 22]], [[3, 7, 11], [15, 19, 23]]]",
        "iota(2,2,2), [0, 2, 1] -> [[[0, 2], [1, 3]], [[4, 6], [5, 7]]]",
        "iota(2,2,2), [1, 0, 2] -> [[[0, 1], [4, 5]], [[2, 3], [6, 7]]]",
        "[[1, 2]], [1, 0] -> [[1], [2]]", "1, shape(0) -> 1", "shape(0,3), [1, 0] -> shape(3,0)",
        "[[1]], [0, 2] -> !INVALID_ARGUMENT perm dim 2 is out of range of input rank 2",
        "[[1]], [0, 0] -> !INVALID_ARGUMENT 1 is missing from {0,0}.",
        "[[1]], [0] -> !INVALID_ARGUMENT must be 2 but is 1",
        "p = PlaceholderWithDefault dtype=int32 shape=?: int32[-1, 0]; : [[1]], p -> "
        "!INVALID_ARGUMENT -1 is out of range [0 .. 2)"));

MR_OP(ConjugateTranspose,
    .doc      = "Transpose, of complex numbers the conjugate",
    .sig      = "x: T, perm: Tperm -> y: T",
    .attrs    = "T: type; Tperm: {int32, int64} = DT_INT32",
    .shape    = transpose_shape,
    .grad     = transpose_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_conjugate_transpose)),
    .examples = MR_EXAMPLES("[[1, 2], [4, 5]], [1, 0] -> [[1, 4], [2, 5]]",
                            "[[1+2i, 3-1i]], [1, 0] -> [[1-2i], [3+1i]]", "[1+2i], [0] -> [1-2i]"));

/* ---- InvertPermutation ---- */

static mr_status *run_invert(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0);
    mr_tensor *y;
    if (x->rank != 1)
        return mr_invalid("invert_permutation expects a 1D vector.");
    MR_TRY(mr_run_output(r, 0, 1, x->dims, &y));
    bool wide = y->dtype == MR_INT64;
    memset(y->data, 0xff, mr_tensor_bytes(y)); /* -1: not set yet */
    for (int64_t i = 0; i < x->n; i++) {
        int64_t d = mr_tensor_int_at(x, i);
        if (d < 0 || d >= x->n)
            return mr_invalid("%lld is not between 0 and %lld", (long long)d, (long long)x->n);
        if (mr_tensor_int_at(y, d) >= 0)
            return mr_invalid("%lld is duplicated in the input.", (long long)d);
        if (wide)
            MR_DATA(int64_t, y)[d] = i;
        else
            MR_DATA(int32_t, y)[d] = (int32_t)i;
    }
    return NULL;
}

static mr_status *invert_shape(mr_infer *c) { return mr_infer_rank(c, c->in[0], 1, &c->out[0]); }

MR_OP(InvertPermutation,
    .doc      = "y[x[i]] = i",
    .sig      = "x: T -> y: T",
    .attrs    = "T: {int32, int64} = DT_INT32",
    .flags    = MR_NO_GRADIENT,
    .shape    = invert_shape,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_invert, MR_INDEXES)),
    .examples = MR_EXAMPLES("[3, 4, 0, 2, 1] -> [2, 4, 3, 0, 1]", "shape(0) -> shape(0)",
                            "[0, 2] -> !INVALID_ARGUMENT 2 is not between 0 and 2",
                            "[0, 0] -> !INVALID_ARGUMENT 0 is duplicated in the input.",
                            "[[0]] -> !INVALID_ARGUMENT must be rank 1"));
