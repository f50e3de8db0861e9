/* ops/array/mirror_pad.c -- a border that mirrors the inside of a tensor: MirrorPad, and its gradient.
 *
 * The border is written one dimension after another: for dimension d whole slices of the result are copied into its
 * border, including the corners. The gradient does the reverse: the border of dimension d is added to the inside,
 * then dropped. */
#include "base/memory.h"
#include "graph/grad.h"
#include "ops/array/add_run.h"
#include "ops/array/blit.h"
#include "ops/array/pad.h"

/* REFLECT skips the edge element, SYMMETRIC repeats it. */
static mr_status *edge_offset(const mr_node *n, int *out)
{
    mr_sv mode = MR_SV("");
    MR_TRY(mr_node_get_str(n, "mode", &mode));
    *out = mr_sv_is(mode, "REFLECT");
    return NULL;
}

/* The inside must be large enough for the border to mirror. */
static mr_status *check_width(int64_t n, int64_t before, int64_t after, int offset)
{
    if (before <= n - offset && after <= n - offset)
        return NULL;
    if (offset)
        return mr_invalid(
            "paddings must be less than the dimension size: %lld, %lld not less than %lld",
            (long long)before, (long long)after, (long long)n);
    return mr_invalid(
        "paddings must be no greater than the dimension size: %lld, %lld greater than %lld",
        (long long)before, (long long)after, (long long)n);
}

/* One side of the border of dimension d: element k of it (counted from inside) mirrors element k of the inside.
 * Dimensions before d are without their border, those after d include it. */
typedef struct side {
    int64_t border, inside; /* position of element 0, in elements of the padded tensor */
    int64_t step; /* -1 or 1 times the stride of d: the step outwards in the border; inside it is the opposite */
    int64_t n;
} side;

static void padded_sides(const mr_pads *p, const int64_t *size, int d, int64_t stride, int offset,
                         side out[2])
{
    int64_t first = p->before[d], last = first + size[d] - 1;
    out[0] = (side){(first - 1) * stride, (first + offset) * stride, -stride, p->before[d]};
    out[1] = (side){(last + 1) * stride, (last - offset) * stride, stride, p->after[d]};
}

/* ---- MirrorPad ---- */

static mr_status *write_side(mr_run *r, mr_tensor *out, const mr_pads *p, const int64_t *size, int d,
                             const int64_t *to, side s)
{
    mr_blit b;
    int64_t base = 0;
    mr_blit_init(&b);
    for (int k = 0; k < out->rank; k++) {
        if (k == d)
            mr_blit_dim(&b, s.n, -s.step, s.step);
        else
            mr_blit_dim(&b, k < d ? size[k] : p->dims[k], to[k], to[k]);
        base += k < d ? p->before[k] * to[k] : 0;
    }
    return s.n > 0 ? mr_blit_copy(r, &b, out, base + s.border, out, base + s.inside) : NULL;
}

static mr_status *run_mirror_pad(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0);
    mr_pads p;
    int offset = 0, rank = x->rank;
    int64_t from[MR_MAX_RANK], to[MR_MAX_RANK], at = 0;
    mr_tensor *out;
    mr_blit b;
    MR_TRY(edge_offset(r->node, &offset));
    MR_TRY(mr_pads_read(x, mr_in(r, 1), &p));
    for (int d = 0; d < rank; d++)
        MR_TRY(check_width(x->dims[d], p.before[d], p.after[d], offset));
    if (mr_shape_eq(rank, x->dims, rank, p.dims)) {
        mr_run_pass(r, 0, 0);
        return NULL;
    }
    MR_TRY(mr_run_output(r, 0, rank, p.dims, &out));
    if (out->n == 0)
        return NULL;
    mr_dims_strides(rank, x->dims, from);
    mr_dims_strides(rank, p.dims, to);
    mr_blit_init(&b);
    for (int d = 0; d < rank; d++) {
        mr_blit_dim(&b, x->dims[d], from[d], to[d]);
        at += p.before[d] * to[d];
    }
    MR_TRY(mr_blit_copy(r, &b, out, at, x, 0));
    for (int d = rank - 1; d >= 0; d--) {
        side s[2];
        padded_sides(&p, x->dims, d, to[d], offset, s);
        MR_TRY(write_side(r, out, &p, x->dims, d, to, s[0]));
        MR_TRY(write_side(r, out, &p, x->dims, d, to, s[1]));
    }
    return NULL;
}

/* ---- MirrorPadGrad ---- */

/* Adds one side of d's border to the elements it mirrors, row by row. */
static void fold_side(mr_tensor *t, const mr_pads *p, const int64_t *size, int d, const int64_t *to,
                      side s)
{
    mr_add_run *add = mr_add_run_of(t->dtype);
    size_t elem = mr_dtype_size(t->dtype);
    int last = t->rank - 1;
    int64_t n[MR_MAX_RANK], index[MR_MAX_RANK] = {0}, base = 0, rows = 1;
    for (int k = 0; k < t->rank; k++) {
        n[k] = k < d ? size[k] : k == d ? s.n : p->dims[k];
        base += k < d ? p->before[k] * to[k] : 0;
        rows *= k < last ? n[k] : 1;
    }
    int64_t run = d == last ? 1 : n[last], repeat = d == last ? n[last] : 1;
    for (int64_t row = 0; row < rows && run > 0; row++) {
        int64_t a = base + s.inside, b = base + s.border;
        for (int k = 0; k < last; k++) {
            a += index[k] * (k == d ? -s.step : to[k]);
            b += index[k] * (k == d ? s.step : to[k]);
        }
        for (int64_t i = 0; i < repeat; i++)
            add((char *)t->data + (size_t)(a - i * s.step) * elem,
                (const char *)t->data + (size_t)(b + i * s.step) * elem, 1, run);
        for (int k = last - 1; k >= 0 && ++index[k] == n[k]; k--)
            index[k] = 0;
    }
}

/* Reads the paddings of a padded tensor x; size gets the sizes without the border. */
static mr_status *unpadded_sizes(const mr_tensor *x, mr_pads *p, int offset, int64_t *size)
{
    for (int d = 0; d < x->rank; d++) {
        p->dims[d] = x->dims[d];
        size[d] = x->dims[d] - p->before[d] - p->after[d];
        if (size[d] < 0)
            return mr_invalid("Dimension %d of size %lld has no room for paddings %lld and %lld", d,
                              (long long)x->dims[d], (long long)p->before[d],
                              (long long)p->after[d]);
        MR_TRY(check_width(size[d], p->before[d], p->after[d], offset));
    }
    return NULL;
}

static mr_status *run_mirror_pad_grad(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0);
    mr_pads p;
    int offset = 0, rank = x->rank;
    int64_t from[MR_MAX_RANK], to[MR_MAX_RANK], size[MR_MAX_RANK], at = 0;
    mr_tensor *out, *t = NULL;
    mr_blit b;
    MR_TRY(edge_offset(r->node, &offset));
    MR_TRY(mr_pads_read(x, mr_in(r, 1), &p));
    MR_TRY(unpadded_sizes(x, &p, offset, size));
    if (mr_shape_eq(rank, x->dims, rank, size)) {
        mr_run_pass(r, 0, 0);
        return NULL;
    }
    MR_TRY(mr_run_output(r, 0, rank, size, &out));
    if (out->n == 0)
        return NULL;
    MR_TRY(mr_tensor_copy(mr_run_allocator(r), x, &t));
    mr_dims_strides(rank, x->dims, from);
    mr_dims_strides(rank, size, to);
    mr_blit_init(&b);
    for (int d = 0; d < rank; d++) {
        side s[2];
        padded_sides(&p, size, d, from[d], offset, s);
        fold_side(t, &p, size, d, from, s[0]);
        fold_side(t, &p, size, d, from, s[1]);
        mr_blit_dim(&b, size[d], from[d], to[d]);
        at += p.before[d] * from[d];
    }
    mr_status *st = mr_blit_copy(r, &b, out, 0, t, at);
    mr_tensor_unref(t);
    return st;
}

static mr_status *mirror_pad_shape(mr_infer *c) { return mr_pads_shape(c, 1); }
static mr_status *mirror_pad_grad_shape(mr_infer *c) { return mr_pads_shape(c, -1); }

static void mirror_pad_backward(mr_grad *g)
{
    mr_out in[] = {mr_dyi(g, 0), mr_xi(g, 1)};
    mr_dxi(g, 0, mr_emit_like(g, "MirrorPadGrad", "mode", in, 2));
}

static void mirror_pad_grad_backward(mr_grad *g)
{
    mr_out in[] = {mr_dyi(g, 0), mr_xi(g, 1)};
    mr_dxi(g, 0, mr_emit_like(g, "MirrorPad", "mode", in, 2));
}

#define MIRROR_ATTRS "T: type; Tpaddings: {int32, int64} = DT_INT32; mode: {'REFLECT', 'SYMMETRIC'}"

MR_OP(MirrorPad,
    .doc      = "the input in a border that mirrors it",
    .sig      = "input: T, paddings: Tpaddings -> output: T",
    .attrs    = MIRROR_ATTRS,
    .shape    = mirror_pad_shape,
    .grad     = mirror_pad_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_mirror_pad)),
    .examples = MR_EXAMPLES(
        "mode=\"REFLECT\": [1, 2, 3], [[2, 2]] -> [3, 2, 1, 2, 3, 2, 1]",
        "mode=\"SYMMETRIC\": [1, 2, 3], [[2, 3]] -> [2, 1, 1, 2, 3, 3, 2, 1]",
        "mode=\"SYMMETRIC\": [[1, 2, 3], [4, 5, 6]], [[1, 1], [2, 2]] -> [[2, 1, 1, 2, 3, 3, 2], "
        "[2, 1, 1, 2, 3, 3, 2], [5, 4, 4, 5, 6, 6, 5], [5, 4, 4, 5, 6, 6, 5]]",
        "mode=\"REFLECT\": [[1, 2, 3], [4, 5, 6]], [[1, 0], [0, 2]] -> [[4, 5, 6, 5, 4], [1, 2, 3, "
        "2, 1], [4, 5, 6, 5, 4]]",
        "mode=\"SYMMETRIC\": [\"a\", \"b\"], [[1, 0]] -> [\"a\", \"a\", \"b\"]",
        "mode=\"SYMMETRIC\": [1, 0], [[0, 0]] -> [1, 0]",
        "mode=\"SYMMETRIC\": shape(0), [[0, 0]] -> shape(0)",
        "mode=\"REFLECT\": [1, 2], [[2, 0]] -> !INVALID_ARGUMENT paddings must be less than the "
        "dimension size: 2, 0 not less than 2",
        "mode=\"SYMMETRIC\": [1, 2], [[0, 3]] -> !INVALID_ARGUMENT paddings must be no greater "
        "than the dimension size: 0, 3 greater than 2"));

MR_OP(MirrorPadGrad,
    .doc      = "what MirrorPad mirrored, added up: the gradient of MirrorPad",
    .sig      = "input: T, paddings: Tpaddings -> output: T",
    .attrs    = MIRROR_ATTRS,
    .shape    = mirror_pad_grad_shape,
    .grad     = mirror_pad_grad_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_mirror_pad_grad, MR_PLAIN)),
    .examples = MR_EXAMPLES(
        "mode=\"REFLECT\": [1, 2, 3, 4, 5], [[2, 0]] -> [3, 6, 6]",
        "mode=\"SYMMETRIC\": [1, 2, 3, 4, 5], [[1, 1]] -> [3, 3, 9]",
        "mode=\"SYMMETRIC\" T=bool: [true, false, false], [[1, 0]] -> [true, false]",
        "mode=\"SYMMETRIC\": [[1, 2, 3], [4, 5, 6]], [[1, 0], [0, 1]] -> [[5, 16]]",
        "mode=\"REFLECT\": [[1, 2, 3], [4, 5, 6], [7, 8, 9]], [[1, 0], [0, 1]] -> [[10, 5], [20, "
        "10]]",
        "mode=\"REFLECT\": [1, 2], [[1, 1]] -> !INVALID_ARGUMENT must be less than"));
