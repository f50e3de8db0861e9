/* ops/nn/global_norm.c -- BatchNormWithGlobalNormalization, which image models of 2015 used, and its
 * gradient.
 *
 * With x = (t - m) / sqrt(v + epsilon) the result is x gamma + beta, or x + beta. */
#include "graph/grad.h"
#include "ops/nn/inside.h"

typedef struct parts {
    mr_dtype type;
    bool scaled;
    mr_out root; /* 1 / sqrt(v + epsilon) */
} parts;

static parts read_parts(mr_scope *s, const mr_node *n, mr_out v)
{
    float epsilon = 0;
    parts p = {.type = mr_dtype_base(mr_out_type(v))};
    mr_scope_fail(s, mr_node_get_float(n, "variance_epsilon", &epsilon));
    mr_scope_fail(s, mr_node_get_bool(n, "scale_after_normalization", &p.scaled));
    p.root = mr_emit(s, "Rsqrt", mr_emit(s, "AddV2", v, mr_const_num(s, p.type, epsilon)));
    return p;
}

/* in: t, m, v, beta, gamma */
static void emit_global_norm(mr_scope *s, const mr_node *n, const mr_out *in, mr_out *out)
{
    parts p = read_parts(s, n, in[2]);
    mr_out factor = p.scaled ? mr_emit(s, "Mul", p.root, in[4]) : p.root;
    mr_out x = mr_emit(s, "Mul", mr_emit(s, "Sub", in[0], in[1]), factor);
    out[0] = mr_emit(s, "AddV2", x, in[3]);
}

/* in: t, m, v, gamma, backprop */
static void emit_global_norm_grad(mr_scope *s, const mr_node *n, const mr_out *in, mr_out *out)
{
    parts p = read_parts(s, n, in[2]);
    mr_out axes = mr_const_vec_i32(s, 3, (int32_t[]){0, 1, 2});
    mr_out factor = p.scaled ? mr_emit(s, "Mul", p.root, in[3]) : p.root;
    mr_out db = mr_emit(s, "Sum", in[4], axes);
    mr_out moved = mr_emit(s, "Mul", in[4], mr_emit(s, "Sub", in[0], in[1]));
    mr_out sum = mr_emit(s, "Sum", moved, axes);
    mr_out cube = mr_emit(s, "Mul", factor, mr_emit(s, "Square", p.root));
    out[0] = mr_emit(s, "Mul", in[4], factor);
    out[1] = mr_emit(s, "Neg", mr_emit(s, "Mul", db, factor));
    out[2] = mr_emit(s, "Mul", mr_emit(s, "Mul", sum, cube), mr_const_num(s, p.type, -0.5));
    out[3] = db;
    out[4] = p.scaled ? mr_emit(s, "Mul", sum, p.root) : mr_emit(s, "ZerosLike", in[3]);
}

static mr_status *run_checked(mr_run *r)
{
    static const char *const vectors[] = {"mean", "var", "beta", "gamma"};
    const mr_tensor *t = mr_in(r, 0);
    bool grad = r->n_out > 1; /* in the gradient op, the third vector is gamma, and the gradient follows it */
    if (t->rank != 4)
        return mr_invalid("input must be 4-dimensional%s", MR_TENSOR_SHAPE(t));
    for (int i = 0; i < (grad ? 3 : 4); i++) {
        const mr_tensor *v = mr_in(r, 1 + i);
        if (v->rank != 1 || v->n != t->dims[3])
            return mr_invalid("%s must be a vector of %lld elements, got %s",
                              grad && i == 2 ? "gamma" : vectors[i], (long long)t->dims[3],
                              MR_TENSOR_SHAPE(v));
    }
    if (grad && !mr_tensor_same_shape(t, mr_in(r, 4)))
        return mr_invalid("out_backprop must have the shape of input, got %s",
                          MR_TENSOR_SHAPE(mr_in(r, 4)));
    return mr_inside_run(r);
}

static mr_status *forward_init(mr_make *m, void *s) { return mr_inside_init(m, s, emit_global_norm); }
static mr_status *backward_init(mr_make *m, void *s) { return mr_inside_init(m, s, emit_global_norm_grad); }
static mr_status *forward_shape(mr_infer *c)
{
    const mr_pshape *v;
    int64_t channels;
    MR_TRY(mr_infer_rank(c, c->in[0], 4, &c->out[0]));
    for (int i = 1; i < 5; i++) {
        MR_TRY(mr_infer_rank(c, c->in[i], 1, &v));
        MR_TRY(mr_infer_merge_dim(mr_infer_dim(c->out[0], 3), mr_infer_dim(v, 0), &channels));
    }
    return NULL;
}

static mr_status *backward_shape(mr_infer *c)
{
    const mr_pshape *t, *dy;
    MR_TRY(mr_infer_rank(c, c->in[0], 4, &t));
    MR_TRY(mr_infer_rank(c, c->in[4], 4, &dy));
    MR_TRY(mr_infer_merge(c, t, dy, &c->out[0]));
    for (int i = 1; i < 5; i++)
        mr_infer_out_vector(c, i, mr_infer_dim(c->out[0], 3));
    return NULL;
}

static void global_norm_grad(mr_grad *g)
{
    mr_out d = mr_emit_like(g, "BatchNormWithGlobalNormalizationGrad",
                            "variance_epsilon scale_after_normalization",
                            MR_OUTS(mr_xi(g, 0), mr_xi(g, 1), mr_xi(g, 2), mr_xi(g, 4),
                                    mr_dyi(g, 0)));
    for (int i = 0; i < 5; i++)
        mr_dxi(g, i, mr_nth(d, i));
}

#define ATTRS "T: numbertype; variance_epsilon: float; scale_after_normalization: bool"
#define OLD .deprecated = 9, .deprecation = "Use tf.nn.batch_normalization()"

MR_OP(BatchNormWithGlobalNormalization,
    .doc      = "images normalized by a given mean and variance for each channel",
    .sig      = "t: T, m: T, v: T, beta: T, gamma: T -> result: T",
    .attrs    = ATTRS, OLD,
    MR_INSIDE_OP(forward),
    .grad     = global_norm_grad,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_checked, MR_FLOATS)),
    .examples = MR_EXAMPLES(
        "variance_epsilon=0 scale_after_normalization=true: [[[[1, 2], [5, 3]]]], [3, 1], [4, 1], "
        "[1, 0], [2, 3] -> [[[[-1, 3], [3, 6]]]]",
        "variance_epsilon=0 scale_after_normalization=false: [[[[1, 2], [5, 3]]]], [3, 1], [4, 1], "
        "[1, 0], [2, 3] -> [[[[0, 1], [2, 2]]]]",
        "variance_epsilon=0 scale_after_normalization=true: [[[1]]], [3], [4], [1], [2] -> "
        "!INVALID_ARGUMENT",
        "variance_epsilon=0 scale_after_normalization=true: [[[[1]]]], [3, 1], [4], [1], [2] -> "
        "!INVALID_ARGUMENT"));

MR_OP(BatchNormWithGlobalNormalizationGrad,
    .doc      = "gradients of BatchNormWithGlobalNormalization",
    .sig      = "t: T, m: T, v: T, gamma: T, backprop: T -> dx: T, dm: T, dv: T, db: T, dg: T",
    .attrs    = ATTRS, OLD,
    MR_INSIDE_OP(backward),
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_checked, MR_FLOATS)),
    .examples = MR_EXAMPLES(
        "variance_epsilon=0 scale_after_normalization=true: [[[[1], [5]]]], [3], [4], [2], "
        "[[[[1], [2]]]] -> [[[[1], [2]]]], [-3], [-0.25], [3], [1]",
        "variance_epsilon=0 scale_after_normalization=false: [[[[1], [5]]]], [3], [4], [2], "
        "[[[[1], [2]]]] -> [[[[0.5], [1]]]], [-1.5], [-0.125], [3], [0]",
        "variance_epsilon=0 scale_after_normalization=true: [[[[1], [5]]]], [3], [4], [2], "
        "[[[[1]]]] -> !INVALID_ARGUMENT"));
