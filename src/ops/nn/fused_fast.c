/* ops/nn/fused_fast.c -- convolutions and products of floats with what follows them in one pass over memory.
 *
 * Whatever is not plain (another type or layout, a vector of the wrong length, an addend that broadcasts) goes to the
 * graph that defines the op, so that results and errors are the same as without these kernels. */
#include "ops/nn/fused_fast.h"

#include "base/memory.h"
#include "base/simd.h"
#include "base/vmath.h"
#include "ops/linalg/gemm.h"
#include "ops/nn/conv_direct.h"
#include "ops/nn/gelu.h"

/* ---- activations that are more than bounds ---- */

static void tanh_then(float *x, int64_t n, float alpha)
{
    (void)alpha;
    mr_vtanh_f(n, x, x);
}

static void sigmoid_then(float *x, int64_t n, float alpha)
{
    (void)alpha;
    mr_vsigmoid_f(n, x, x);
}

#define GELU_THEN(name)                                       \
    static void name##_then(float *x, int64_t n, float alpha) \
    {                                                         \
        (void)alpha;                                          \
        mr_##name##_f(n, x, x);                               \
    }
GELU_THEN(gelu_tanh)
GELU_THEN(gelu_erf)
GELU_THEN(gelu_sigmoid)
GELU_THEN(swish)

MR_CLONES static void elu_then(float *x, int64_t n, float alpha)
{
    (void)alpha;
    for (int64_t i = 0; i < n; i++)
        x[i] = x[i] < 0 ? mr_expm1f(x[i]) : x[i];
}

MR_CLONES static void leaky_then(float *x, int64_t n, float alpha)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = x[i] > 0 ? x[i] : x[i] * alpha;
}

static bool set_activation(const mr_node *n, mr_sv name, mr_conv_end *end)
{
    if (mr_sv_is(name, "Relu") || mr_sv_is(name, "Relu6")) {
        end->tile.clamp = true;
        end->tile.high = mr_sv_is(name, "Relu") ? INFINITY : 6;
    } else if (mr_sv_is(name, "Tanh")) {
        end->then = tanh_then;
    } else if (mr_sv_is(name, "Sigmoid")) {
        end->then = sigmoid_then;
    } else if (mr_sv_is(name, "Elu")) {
        end->then = elu_then;
    } else if (mr_sv_is(name, "_GeluTanh")) {
        end->then = gelu_tanh_then;
    } else if (mr_sv_is(name, "_GeluErf")) {
        end->then = gelu_erf_then;
    } else if (mr_sv_is(name, "_GeluSigmoid")) {
        end->then = gelu_sigmoid_then;
    } else if (mr_sv_is(name, "_Swish")) {
        end->then = swish_then;
    } else if (mr_sv_is(name, "LeakyRelu") && mr_node_attr(n, "leakyrelu_alpha")) {
        mr_status_free(mr_node_get_float(n, "leakyrelu_alpha", &end->alpha));
        end->then = leaky_then;
    } else {
        return false;
    }
    return true;
}

static void read_fused(const mr_node *n, mr_fused_ops *f)
{
    const mr_attr *ops = NULL;
    int i = 1;
    mr_status *st = mr_node_get_list(n, "fused_ops", MR_ATTR_STRING, &ops);
    if (!st)
        st = mr_node_get_float(n, "epsilon", &f->epsilon);
    if (!st && ops->n >= 1) {
        f->norm = mr_sv_is(ops->ss[0], "FusedBatchNorm");
        f->known = f->norm || mr_sv_is(ops->ss[0], "BiasAdd");
        if (ops->n > i && mr_sv_is(ops->ss[i], "Add"))
            f->add = i++;
        if (ops->n > i)
            f->known &= set_activation(n, ops->ss[i++], &f->end);
        f->known &= i == ops->n && n->n_in == 2 + (f->norm ? 4 : 1) + f->add;
    }
    mr_status_free(st);
}

/* ---- state ---- */

static mr_status *init_fused(mr_make *m, mr_fused_state *s, mr_inside_fn *fn)
{
    mr_layout layout = MR_CHANNELS_LAST;
    MR_TRY(mr_inside_init(m, s, fn));
    read_fused(m->node, &s->how);
    if (mr_node_attr(m->node, "data_format"))
        MR_TRY(mr_layout_get(m->node, &layout));
    s->how.known &= layout == MR_CHANNELS_LAST && mr_dtype_base(m->node->in_types[0]) == MR_FLOAT;
    return NULL;
}

mr_status *mr_fused_conv_init(mr_make *m, void *state, mr_inside_fn *fn)
{
    mr_fused_state *s = state;
    mr_window *w = &s->conv.window;
    MR_TRY(mr_conv2d_init(m, &s->conv));
    const mr_attr *paddings = mr_node_attr(m->node, MR_FUSED_PADDINGS);
    if (paddings && (!paddings->is_list || paddings->kind != MR_ATTR_INT || paddings->n != 8))
        return mr_invalid(MR_FUSED_PADDINGS " must be a list of 8 integers");
    for (int i = 0; paddings && i < 2; i++) {
        w->padding = MR_PAD_EXPLICIT;
        w->before[i] = paddings->is[2 + 2 * i];
        w->after[i] = paddings->is[3 + 2 * i];
    }
    return init_fused(m, s, fn);
}

mr_status *mr_fused_matmul_init(mr_make *m, void *state, mr_inside_fn *fn)
{
    mr_fused_state *s = state;
    mr_packed_init(&s->conv.packed);
    MR_TRY(mr_node_get_bool(m->node, "transpose_a", &s->ta));
    MR_TRY(mr_node_get_bool(m->node, "transpose_b", &s->tb));
    return init_fused(m, s, fn);
}

void mr_fused_deinit(void *state)
{
    mr_fused_state *s = state;
    mr_inside_deinit(&s->inside);
    mr_conv_deinit(&s->conv);
}

/* ---- what follows the sums ---- */

/* The input that is an addend, if the op has one. */
static int addend_input(const mr_fused_ops *f) { return f->norm ? 6 : 3; }

/* True if the arguments of the node are vectors of that many channels and, for an addend, of the output's shape. */
static bool arguments_fit(const mr_run *r, const mr_fused_ops *f, int64_t channels, int rank, const int64_t *dims)
{
    int vectors = f->norm ? 4 : 1;
    for (int i = 2; i < 2 + vectors; i++)
        if (mr_in(r, i)->rank != 1 || mr_in(r, i)->dims[0] != channels)
            return false;
    const mr_tensor *add = f->add ? mr_in(r, 2 + vectors) : NULL;
    return !add || mr_shape_eq(add->rank, add->dims, rank, dims);
}

/* Fills in the vectors. *factors: the caller owns it, NULL if not needed. */
static mr_status *begin_end(mr_run *r, const mr_fused_ops *f, mr_conv_end *end, mr_tensor **factors)
{
    *end = f->end;
    if (f->add)
        end->tile.add = MR_DATA(float, mr_in(r, addend_input(f)));
    if (!f->norm) {
        end->tile.shift = MR_DATA(float, mr_in(r, 2));
        return NULL;
    }
    const mr_tensor *scale = mr_in(r, 2), *variance = mr_in(r, 5);
    MR_TRY(mr_run_temp(r, MR_FLOAT, 1, scale->dims, factors));
    for (int64_t i = 0; i < scale->n; i++)
        MR_DATA(float, *factors)[i] = MR_DATA(float, scale)[i] / sqrtf(MR_DATA(float, variance)[i] + f->epsilon);
    end->tile.center = MR_DATA(float, mr_in(r, 4));
    end->tile.scale = MR_DATA(float, *factors);
    end->tile.shift = MR_DATA(float, mr_in(r, 3));
    return NULL;
}

/* ---- kernels ---- */

static mr_status *run_conv(mr_run *r, bool depthwise)
{
    mr_fused_state *s = r->state;
    const mr_tensor *image = mr_in(r, 0), *filter = mr_in(r, 1);
    int64_t dims[4];
    mr_conv c;
    mr_conv_end end;
    mr_tensor *factors = NULL, *y;
    if (!s->how.known || image->rank != 4 || filter->rank != 4)
        return mr_inside_run(r);
    MR_TRY(mr_conv_resolve(&s->conv.window, depthwise, image->dims, filter->dims, &c));
    mr_conv_out_dims(&s->conv.window, &c, dims);
    if (!arguments_fit(r, &s->how, c.out_channels, 4, dims))
        return mr_inside_run(r);
    if (s->how.add && mr_conv_end_in_place(&c))
        MR_TRY(mr_run_forward(r, addend_input(&s->how), 0, 4, dims, &y));
    else
        MR_TRY(mr_run_output(r, 0, 4, dims, &y));
    if (y->n == 0)
        return NULL;
    MR_TRY(begin_end(r, &s->how, &end, &factors));
    mr_status *st = mr_conv_run_end(r, &s->conv, &c, &end);
    mr_tensor_unref(factors);
    return st;
}

mr_status *mr_fused_conv2d_run(mr_run *r) { return run_conv(r, false); }
mr_status *mr_fused_depthwise_run(mr_run *r) { return run_conv(r, true); }

/* The packed form of a constant b, kept between runs; the caller owns *out. NULL: b is used as it is. */
static mr_status *packed_constant(mr_run *r, mr_packed *kept, const mr_gemm *g, mr_tensor **out)
{
    enum { PRODUCT = 64, FEW_ROWS = 3 }; /* PRODUCT: a format that convolutions do not use */
    const mr_tensor *b = mr_in(r, 1);
    *out = NULL;
    if (!mr_packed_can_keep(b) || g->m <= FEW_ROWS || g->n == 1 || (*out = mr_packed_get(kept, b, PRODUCT + g->tb)))
        return NULL;
    MR_TRY(mr_gemm_pack_b(r, g, b->data, out));
    if (*out)
        mr_packed_keep(kept, b, PRODUCT + g->tb, *out);
    return NULL;
}

mr_status *mr_fused_matmul_run(mr_run *r)
{
    mr_fused_state *s = r->state;
    const mr_tensor *a = mr_in(r, 0), *b = mr_in(r, 1);
    mr_conv_end end;
    mr_status *st = NULL;
    mr_tensor *factors = NULL, *packed = NULL, *y;
    if (!s->how.known || s->ta || a->rank != 2 || b->rank != 2 || b->dims[s->tb] != a->dims[1])
        return mr_inside_run(r);
    mr_gemm g = {.type = MR_FLOAT, .m = a->dims[0], .k = a->dims[1], .n = b->dims[!s->tb], .tb = s->tb};
    const int64_t dims[2] = {g.m, g.n};
    if (!arguments_fit(r, &s->how, g.n, 2, dims))
        return mr_inside_run(r);
    MR_TRY(mr_run_output(r, 0, 2, dims, &y));
    if (y->n == 0)
        return NULL;
    MR_GO(begin_end(r, &s->how, &end, &factors));
    MR_GO(packed_constant(r, &s->conv.packed, &g, &packed));
    g.packed_b = packed;
    MR_GO(mr_gemm_run(r, &(mr_gemm_batch){.one = g, .n_batch = 1, .a = a->data, .b = b->data, .a_n = a->n, .b_n = b->n,
                                          .c = y->data, .end = &end}));
out:
    mr_tensor_unref(factors);
    mr_tensor_unref(packed);
    return st;
}
