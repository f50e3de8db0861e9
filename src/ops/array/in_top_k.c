/* ops/array/in_top_k.c -- whether targets are among the best predictions: InTopK, InTopKV2. */
#include <math.h>

#include "graph/infer.h"
#include "ops/array/index.h"
#include "run/run.h"

/* True if fewer than k scores are greater than the target's; a score that is not finite makes it false. */
static bool is_in(const float *scores, int64_t n, int64_t target, int64_t k)
{
    int64_t better = 0;
    if (target < 0 || target >= n || !isfinite(scores[target]))
        return false;
    for (int64_t i = 0; i < n && better <= k; i++) {
        if (!isfinite(scores[i]))
            return false;
        better += scores[i] > scores[target];
    }
    return better < k;
}

static mr_status *in_top_k(mr_run *r, int64_t k)
{
    const mr_tensor *predictions = mr_in(r, 0), *targets = mr_in(r, 1);
    mr_tensor *out;
    if (predictions->rank != 2)
        return mr_invalid("predictions must be 2-dimensional");
    if (targets->rank != 1)
        return mr_invalid("targets must be 1-dimensional");
    if (predictions->dims[0] != targets->dims[0])
        return mr_invalid("First dimension of predictions %lld must match length of targets %lld",
                          (long long)predictions->dims[0], (long long)targets->dims[0]);
    MR_TRY(mr_run_output(r, 0, 1, targets->dims, &out));
    int64_t n = predictions->dims[1];
    for (int64_t i = 0; i < targets->n; i++)
        MR_DATA(bool, out)[i] = is_in(MR_DATA(const float, predictions) + i * n, n,
                                      mr_index_at(targets, i), k);
    return NULL;
}

static mr_status *run_in_top_k(mr_run *r)
{
    int64_t k;
    MR_TRY(mr_node_get_int(r->node, "k", &k));
    return in_top_k(r, k);
}

static mr_status *run_in_top_k_v2(mr_run *r)
{
    int64_t k;
    MR_TRY(mr_in_scalar_int(r, 2, "k", &k));
    return in_top_k(r, k);
}

static mr_status *in_top_k_shape(mr_infer *c)
{
    const mr_pshape *predictions = NULL, *targets = NULL, *ignored;
    int64_t n;
    MR_TRY(mr_infer_rank(c, c->in[0], 2, &predictions));
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &targets));
    if (c->n_in > 2)
        MR_TRY(mr_infer_rank(c, c->in[2], 0, &ignored));
    MR_TRY(mr_infer_merge_dim(predictions->dims[0], targets->dims[0], &n));
    mr_infer_out_vector(c, 0, n);
    return NULL;
}

MR_OP(InTopK,
    .doc      = "whether the target is among the k best of its row; ties are in its favour",
    .sig      = "predictions: float, targets: T -> precision: bool",
    .attrs    = "k: int; T: {int32, int64} = DT_INT32",
    .flags    = MR_NO_GRADIENT,
    .shape    = in_top_k_shape,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_in_top_k, MR_INDEXES)),
    .examples = MR_EXAMPLES(
        "k=1: [[0.1, 0.3, 0.2], [0.1, 0.3, 0.3]], [2, 2] -> [false, true]",
        "k=2: [[0.1, 0.3, 0.2], [0.1, nan, 0.2]], [2, 0] -> [true, false]",
        "k=5: [[0.1, 0.3], [inf, 0.1]], [0, 1] -> [true, false]",
        "k=1: [[0.5], [0.5]], [1, -1] -> [false, false]", "k=1: shape(0,3), shape(0) -> shape(0)",
        "k=0: [[0.5]], [0] -> [false]", "k=1: [[0.5]], [0, 0] -> !INVALID_ARGUMENT must be equal"));

MR_OP(InTopKV2,
    .doc      = "InTopK with k as an input",
    .sig      = "predictions: float, targets: T, k: T -> precision: bool",
    .attrs    = "T: {int32, int64} = DT_INT32",
    .flags    = MR_NO_GRADIENT,
    .shape    = in_top_k_shape,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_in_top_k_v2, MR_INDEXES)),
    .examples = MR_EXAMPLES(
        "[[0.1, 0.3, 0.2], [0.1, 0.3, 0.3]], [2, 2], 1 -> [false, true]",
        "[[0.5]], [0], [1] -> !INVALID_ARGUMENT must be rank 0"));
