/* ops/array/unravel_index.c -- UnravelIndex: converts flat indices to coordinates, one row per dimension. */
#include "base/memory.h"
#include "graph/infer.h"
#include "run/run.h"

static mr_status *product_of(const mr_tensor *dims, int64_t *out)
{
    *out = 1;
    for (int64_t d = 0; d < dims->n; d++) {
        int64_t n = mr_tensor_int_at(dims, d);
        if (n == 0)
            return mr_invalid(
                "Input dims cannot contain a dim of zero, but dims contains zero at index %lld",
                (long long)d);
        if (n < 0 || !mr_i64_mul(*out, n, out))
            return mr_invalid("Input dims product is causing integer overflow: dims[%lld] = %lld",
                              (long long)d, (long long)n);
    }
    return NULL;
}

static void set_index(mr_tensor *t, int64_t i, int64_t v)
{
    if (t->dtype == MR_INT64)
        MR_DATA(int64_t, t)[i] = v;
    else
        MR_DATA(int32_t, t)[i] = (int32_t)v;
}

static mr_status *run_unravel(mr_run *r)
{
    const mr_tensor *indices = mr_in(r, 0), *dims = mr_in(r, 1);
    mr_tensor *out;
    int64_t product;
    if (indices->rank > 1)
        return mr_invalid("The indices can only be scalar or vector. Got %s",
                          MR_TENSOR_SHAPE(indices));
    if (dims->rank != 1)
        return mr_invalid("The indices can only be 1-D. Got %s", MR_TENSOR_SHAPE(dims));
    MR_TRY(product_of(dims, &product));
    for (int64_t i = 0; i < indices->n; i++)
        if ((uint64_t)mr_tensor_int_at(indices, i) >= (uint64_t)product)
            return mr_invalid("index is out of bound as with dims: %lld is not in [0, %lld)",
                              (long long)mr_tensor_int_at(indices, i), (long long)product);
    MR_TRY(mr_run_output(r, 0, 1 + indices->rank, (int64_t[]){dims->n, indices->n}, &out));
    for (int64_t i = 0; i < indices->n; i++) {
        int64_t left = mr_tensor_int_at(indices, i);
        for (int64_t d = dims->n - 1; d >= 0; d--) {
            int64_t n = mr_tensor_int_at(dims, d);
            set_index(out, d * indices->n + i, left % n);
            left /= n;
        }
    }
    return NULL;
}

static mr_status *unravel_shape(mr_infer *c)
{
    const mr_pshape *indices = c->in[0], *dims = NULL;
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &dims));
    MR_TRY(mr_infer_rank_at_most(c, indices, 1, &indices));
    if (indices->rank == 0)
        c->out[0] = dims;
    else if (indices->rank == 1)
        c->out[0] = mr_pshape_matrix(c->arena, dims->dims[0], indices->dims[0]);
    return NULL;
}

MR_OP(UnravelIndex,
    .doc      = "coordinates in a tensor of these sizes of flat indices: one row a dimension",
    .sig      = "indices: Tidx, dims: Tidx -> output: Tidx",
    .attrs    = "Tidx: {int32, int64} = DT_INT32",
    .flags    = MR_NO_GRADIENT,
    .shape    = unravel_shape,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_unravel, MR_INDEXES)),
    .examples = MR_EXAMPLES(
        "[2, 5, 7], [3, 3] -> [[0, 1, 2], [2, 2, 1]]", "5, [2, 3] -> [1, 2]", "shape(0), [2, 3] -> shape(2,0)",
        "0, shape(0) -> shape(0)", "[9], [3, 3] -> !INVALID_ARGUMENT index is out of bound as with dims",
        "[-1], [3] -> !INVALID_ARGUMENT index is out of bound", "0, [0, 3] -> !INVALID_ARGUMENT cannot contain a dim of zero",
        "Tidx=int64: 0, [4611686018427387904, 4] -> !INVALID_ARGUMENT overflow"));
