/* ops/nn/batch_norm_grad_grad.c -- second derivatives: the gradient of FusedBatchNormGrad.
 *
 * The op gives, with n = (x - mean) i, i = 1 / sqrt(variance + epsilon) and means over a channel,
 *
 *     dx = scale i (dy - mean(dy) - n mean(dy n))     dscale = sum(dy n)     doffset = sum(dy)
 *
 * Let A, B, C be the incoming gradients of these three.  dx is linear and symmetric in dy, so
 *
 *     by dy       scale i (A - mean(A) - n mean(A n)) + B n + C
 *     by scale    sum(A i (dy - mean(dy) - n mean(dy n)))
 *
 * In training, mean and variance are those of x itself, so x acts through n and through i:
 *
 *     by x        i (h - mean(h) - n mean(h n)) - scale i^2 (mean(A dy) - mean(A) mean(dy) - p q) n
 *     with        p = mean(A n), q = mean(dy n), h = B dy - scale i (A q + dy p)
 *
 * If mean and variance are inputs, the terms after dy, A and h inside the parentheses are left out,
 * and h is B dy. The statistics get no gradient, as in TensorFlow: the formulas above already include
 * their dependence on x. */
#include "ops/nn/batch_norm.h"

typedef struct second {
    mr_grad *g;
    mr_scope *s;
    bool training;
    mr_out axes;            /* all axes except the channels */
    mr_out spread;          /* the shape in which a vector of channels broadcasts against x */
    mr_out dy, n, i, scale; /* float; vectors are reshaped to `spread` */
} second;

static mr_out emit_mul(const second *z, mr_out a, mr_out b) { return mr_emit(z->s, "Mul", a, b); }
static mr_out emit_sub(const second *z, mr_out a, mr_out b) { return mr_emit(z->s, "Sub", a, b); }

static mr_out cast_to(const second *z, mr_dtype to, mr_out v)
{
    if (!mr_scope_ok(z->s) || mr_dtype_base(mr_out_type(v)) == to)
        return v;
    return mr_emit_with(z->s, "Cast", MR_ATTRS({"DstT", mr_a_type(to)}), v);
}

static mr_out channel_mean(const second *z, mr_out v)
{
    return mr_emit_with(z->s, "Mean", MR_ATTRS({"keep_dims", mr_a_bool(true)}), v, z->axes);
}

static mr_out channel_sum(const second *z, mr_out v) { return mr_emit(z->s, "Sum", v, z->axes); }

static mr_out spread_vector(const second *z, mr_out vector)
{
    return mr_emit(z->s, "Reshape", cast_to(z, MR_FLOAT, vector), z->spread);
}

/* In training: v minus its projections on the constant 1 and on n, per channel.  Otherwise v itself. */
static mr_out remove_projections(const second *z, mr_out v)
{
    if (!z->training)
        return v;
    return emit_sub(z, emit_sub(z, v, channel_mean(z, v)), emit_mul(z, z->n, channel_mean(z, emit_mul(z, v, z->n))));
}

static void fixed_axes(second *z, int rank, int channel)
{
    int32_t axes[MR_MAX_RANK], shape[MR_MAX_RANK];
    for (int d = 0, k = 0; d < rank; d++) {
        shape[d] = d == channel ? -1 : 1;
        if (d != channel)
            axes[k++] = d;
    }
    z->axes = mr_const_vec_i32(z->s, rank - 1, axes);
    z->spread = mr_const_vec_i32(z->s, rank, shape);
}

/* The same for a rank that is known only when the step runs: data_format does not determine it, because
 * the ops take 4 or 5 dimensions with either layout.  A plain vector broadcasts against the last
 * dimension. */
static void found_axes(second *z, mr_out x, bool channels_first)
{
    mr_scope *s = z->s;
    mr_out rank = mr_emit(s, "Rank", x), one = mr_const_i32(s, 1), two = mr_const_i32(s, 2);
    if (!channels_first) {
        z->axes = mr_emit(s, "Range", mr_const_i32(s, 0), mr_emit(s, "Sub", rank, one), one);
        z->spread = mr_const_vec_i32(s, 1, (int32_t[]){-1});
        return;
    }
    mr_out rest = mr_emit(s, "Range", two, rank, one);
    mr_out batch = mr_const_vec_i32(s, 1, (int32_t[]){0});
    mr_out channels = mr_const_vec_i32(s, 2, (int32_t[]){1, -1});
    z->axes = mr_emit(s, "ConcatV2", batch, rest, mr_const_i32(s, 0));
    z->spread = mr_emit(s, "ConcatV2", channels, mr_emit(s, "OnesLike", rest), mr_const_i32(s, 0));
}

static void find_axes(second *z)
{
    mr_sv format = MR_SV("");
    mr_out x = mr_xi(z->g, 1);
    mr_scope_fail(z->s, mr_node_get_str(z->g->node, "data_format", &format));
    int rank = mr_out_shape(x)->rank;
    bool channels_first = format.n > 1 && format.p[1] == 'C';
    if (rank > 0)
        fixed_axes(z, rank, channels_first ? 1 : rank - 1);
    else
        found_axes(z, x, channels_first);
}

static void second_init(second *z, mr_grad *g)
{
    float epsilon = 0;
    *z = (second){.g = g, .s = g->s};
    mr_scope_fail(z->s, mr_node_get_bool(g->node, "is_training", &z->training));
    mr_scope_fail(z->s, mr_node_get_float(g->node, "epsilon", &epsilon));
    find_axes(z);
    mr_out x = cast_to(z, MR_FLOAT, mr_xi(g, 1)), variance = spread_vector(z, mr_xi(g, 4));
    z->dy = cast_to(z, MR_FLOAT, mr_xi(g, 0));
    z->scale = spread_vector(z, mr_xi(g, 2));
    z->i = mr_emit(z->s, "Rsqrt", mr_emit(z->s, "Add", variance, mr_const_f32(z->s, epsilon)));
    z->n = emit_mul(z, emit_sub(z, x, spread_vector(z, mr_xi(g, 3))), z->i);
}

/* The gradient by x; see the formula at the head of the file. */
static mr_out by_x(const second *z, mr_out a, mr_out b)
{
    mr_out h = emit_mul(z, b, z->dy), steep = emit_mul(z, z->scale, z->i);
    if (!z->training)
        return emit_mul(z, h, z->i);
    mr_out p = channel_mean(z, emit_mul(z, a, z->n)), q = channel_mean(z, emit_mul(z, z->dy, z->n));
    mr_out cross = mr_emit(z->s, "Add", emit_mul(z, a, q), emit_mul(z, z->dy, p));
    h = emit_sub(z, h, emit_mul(z, steep, cross));
    mr_out both =
        emit_sub(z, channel_mean(z, emit_mul(z, a, z->dy)), emit_mul(z, channel_mean(z, a), channel_mean(z, z->dy)));
    mr_out through_i = emit_mul(z, emit_mul(z, steep, z->i), emit_sub(z, both, emit_mul(z, p, q)));
    return emit_sub(z, emit_mul(z, remove_projections(z, h), z->i), emit_mul(z, through_i, z->n));
}

void mr_norm_grad_backward(mr_grad *g)
{
    second z;
    second_init(&z, g);
    mr_dtype type = mr_dtype_base(g->node->in_types[1]);
    mr_out a = cast_to(&z, MR_FLOAT, mr_dyi(g, 0)), b = spread_vector(&z, mr_dyi(g, 1));
    mr_out c = spread_vector(&z, mr_dyi(g, 2));
    mr_out slope = emit_mul(&z, emit_mul(&z, z.scale, z.i), remove_projections(&z, a));
    mr_out line = mr_emit(z.s, "Add", emit_mul(&z, b, z.n), c);
    mr_dxi(g, 0, cast_to(&z, type, mr_emit(z.s, "Add", slope, line)));
    mr_dxi(g, 1, cast_to(&z, type, by_x(&z, a, b)));
    mr_dxi(g, 2, channel_sum(&z, emit_mul(&z, emit_mul(&z, a, z.i), remove_projections(&z, z.dy))));
}
