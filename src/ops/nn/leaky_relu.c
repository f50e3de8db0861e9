/* ops/nn/leaky_relu.c -- LeakyRelu and its gradient, which takes the forward op's INPUT (alpha may
 * be negative or zero, so the output does not determine the sign of the input). */
#ifndef T /* ---- included once: the ops ---- */
#include "ops/nn/each_same.h"
#include "ops/nn/wide.h"

#define ELEMENT_NS 0.4

typedef struct job {
    const void *g, *x; /* g NULL: forward */
    void *y;
    float alpha;
} job;

#define MR_TYPED_FILE "ops/nn/leaky_relu.c"
#include "ops/nn/each_wide.h"

static mr_status *init_alpha(mr_make *m, void *state)
{
    return mr_node_get_float(m->node, "alpha", state);
}

static mr_status *run_leaky_relu(mr_run *r, int n_in)
{
    mr_status *st = NULL;
    mr_wide in[2] = {{0}}, y = {0};
    for (int i = 0; i < n_in; i++)
        MR_GO(mr_wide_in(r, i, &in[i]));
    const mr_tensor *x = in[n_in - 1].t;
    MR_GO(mr_wide_out(r, 0, 0, x->rank, x->dims, &y));
    job j = {n_in == 2 ? in[0].t->data : NULL, x->data, y.t->data, *(const float *)r->state};
    mr_run_for(r, x->n, ELEMENT_NS, x->dtype == MR_DOUBLE ? leaky_double : leaky_float, &j);
    mr_wide_store(r, 0, &y);
out:
    mr_wide_deinit(&in[0]);
    mr_wide_deinit(&in[1]);
    mr_wide_deinit(&y);
    return st;
}

static mr_status *leaky_relu(mr_run *r) { return run_leaky_relu(r, 1); }

static mr_status *leaky_relu_grad(mr_run *r)
{
    MR_TRY(mr_check_same_shape(r));
    return run_leaky_relu(r, 2);
}

static void leaky_relu_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_emit_like(g, "LeakyReluGrad", "alpha", MR_OUTS(mr_dyi(g, 0), mr_xi(g, 0))));
}

/* The op is linear in the gradient, and constant in the features except at the kink. */
static void grad_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_emit_like(g, "LeakyReluGrad", "alpha", MR_OUTS(mr_dyi(g, 0), mr_xi(g, 1))));
    mr_dxi(g, 1, mr_zeros_like(g, mr_xi(g, 1)));
}

MR_OP(LeakyRelu,
    .doc         = "x where it is positive, alpha x elsewhere",
    .sig         = "features: T -> activations: T",
    .attrs       = "alpha: float = 0.2; T: {half, bfloat16, float, double} = DT_FLOAT",
    .shape       = mr_shape_same,
    .grad        = leaky_relu_backward,
    .kernels     = MR_KERNELS(MR_CPU_ONE(leaky_relu, MR_FLOATS)),
    .state_bytes = sizeof(float),
    .init        = init_alpha,
    .examples    = MR_EXAMPLES(
        "[1.5, -1, -2] -> [1.5, -0.2, -0.4]",
        "alpha=0.5: [[2, -1]] -> [[2, -0.5]]",
        "alpha=-1: [3, -3] -> [3, 3]",
        "T=float: [nan, inf, -inf] -> [nan, inf, -inf]",
        "shape(0) -> shape(0)"));

MR_OP(LeakyReluGrad,
    .doc         = "gradients where features > 0, alpha gradients elsewhere",
    .sig         = "gradients: T, features: T -> backprops: T",
    .attrs       = "alpha: float = 0.2; T: {half, bfloat16, float, double} = DT_FLOAT",
    .shape       = mr_shape_merge_all,
    .grad        = grad_backward,
    .kernels     = MR_KERNELS(MR_CPU_ONE(leaky_relu_grad, MR_FLOATS)),
    .state_bytes = sizeof(float),
    .init        = init_alpha,
    .examples    = MR_EXAMPLES(
        "alpha=0.25: [1, 2], [3, -4] -> [1, 0.5]",
        "nograd: [1], [0] -> [0.2]",
        "[1, 2], [1] -> !INVALID_ARGUMENT"));

#else /* ---- included once per type ---- */

MR_CLONES static void FN(leaky)(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    const T *x = j->x, *g = j->g, alpha = j->alpha;
    T *y = j->y;
    if (g) {
        MR_IVDEP
        for (int64_t i = begin; i < end; i++)
            y[i] = x[i] > 0 ? g[i] : alpha * g[i];
    } else {
        MR_IVDEP
        for (int64_t i = begin; i < end; i++)
            y[i] = x[i] > 0 ? x[i] : alpha * x[i];
    }
}
#endif
