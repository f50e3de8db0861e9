/* ops/image/extract_patches.c -- ExtractImagePatches and ExtractVolumePatches: the pixels in a sliding window, in
 * the last dimension.
 *
 * Both map [batch, space.., channels] to [batch, places.., window * channels]. An image is a volume of one plane
 * here. Elements are moved by size; pixels of the window outside the image are 0. */
#include "base/memory.h"
#include "graph/grad.h"
#include "ops/image/pixels.h"

enum { SPACE = 3 };

typedef struct patches {
    int n; /* spatial dimensions of the op */
    mr_padding padding;
    int64_t size[SPACE], stride[SPACE], rate[SPACE]; /* for the op's dimensions, after leading ones of size 1 */
} patches;

static mr_status *read_list(const mr_node *node, const char *name, int n, int64_t *out)
{
    const mr_attr *a;
    MR_TRY(mr_node_get_list(node, name, MR_ATTR_INT, &a));
    if (a->n != n + 2)
        return mr_invalid("%s must have %d elements, got %d", name, n + 2, a->n);
    if (a->is[0] != 1 || a->is[n + 1] != 1)
        return mr_error(MR_UNIMPLEMENTED, "Only support %s across space.", name);
    for (int i = 0; i < n; i++) {
        out[SPACE - n + i] = a->is[1 + i];
        if (a->is[1 + i] < 1 || a->is[1 + i] > INT32_MAX)
            return mr_error(MR_OUT_OF_RANGE, "%s must be positive, got %lld", name, (long long)a->is[1 + i]);
    }
    return NULL;
}

static mr_status *read_attrs(const mr_node *node, patches *p)
{
    bool image = mr_node_attr(node, "rates") != NULL;
    mr_sv padding;
    *p = (patches){image ? 2 : 3, MR_PAD_VALID, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}};
    MR_TRY(read_list(node, "ksizes", p->n, p->size));
    MR_TRY(read_list(node, "strides", p->n, p->stride));
    if (image)
        MR_TRY(read_list(node, "rates", p->n, p->rate));
    MR_TRY(mr_node_get_str(node, "padding", &padding));
    p->padding = mr_sv_is(padding, "SAME") ? MR_PAD_SAME : MR_PAD_VALID;
    return NULL;
}

static mr_status *init_extract_patches(mr_make *m, void *state) { return read_attrs(m->node, state); }

/* The last dimension of the result. */
static mr_status *window_channels(const patches *p, int64_t channels, int64_t *out)
{
    int64_t n = channels;
    for (int i = 0; i < SPACE; i++)
        if (channels >= 0 && !mr_i64_mul(n, p->size[i], &n))
            return mr_invalid("the window is too large");
    *out = channels < 0 ? -1 : n;
    return NULL;
}

static mr_status *infer_extract_patches(mr_infer *c)
{
    patches p;
    const mr_pshape *x;
    MR_TRY(read_attrs(c->node, &p));
    MR_TRY(mr_infer_rank(c, c->in[0], p.n + 2, &x));
    mr_pshape *out = mr_pshape_new(c->arena, p.n + 2);
    out->dims[0] = mr_infer_dim(x, 0);
    for (int i = 0; i < p.n; i++) {
        int k = SPACE - p.n + i;
        MR_TRY(mr_window_size(mr_infer_dim(x, 1 + i), p.size[k], p.rate[k], p.stride[k], p.padding, NULL, NULL,
                              &out->dims[1 + i]));
    }
    MR_TRY(window_channels(&p, mr_infer_dim(x, p.n + 1), &out->dims[p.n + 1]));
    c->out[0] = out;
    return NULL;
}

/* ---- forward ---- */

typedef struct job {
    const patches *p;
    int64_t in[SPACE], places[SPACE], before[SPACE];
    size_t pixel; /* bytes */
    const char *x;
    char *y;
} job;

/* The position of a pixel of the window along dimension d; false if it is outside the image. */
static bool is_inside(const job *j, int d, int64_t place, int64_t in_window, int64_t *at)
{
    *at = place * j->p->stride[d] - j->before[d] + in_window * j->p->rate[d];
    return *at >= 0 && *at < j->in[d];
}

static void copy_window(const job *j, const char *image, const int64_t *place, char *out)
{
    const int64_t *size = j->p->size;
    int64_t at[SPACE] = {0};
    for (int64_t a = 0; a < size[0]; a++)
        for (int64_t b = 0; b < size[1]; b++) {
            bool row = is_inside(j, 0, place[0], a, &at[0]) && is_inside(j, 1, place[1], b, &at[1]);
            for (int64_t c = 0; c < size[2]; c++, out += j->pixel) {
                if (row && is_inside(j, 2, place[2], c, &at[2]))
                    memcpy(out, image + (size_t)((at[0] * j->in[1] + at[1]) * j->in[2] + at[2]) * j->pixel, j->pixel);
                else
                    memset(out, 0, j->pixel);
            }
        }
}

/* Copies places begin..end, counted over all images. */
static void copy_places(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    const int64_t *n = j->places;
    size_t window = j->pixel, image = j->pixel;
    for (int i = 0; i < SPACE; i++) {
        window *= (size_t)j->p->size[i];
        image *= (size_t)j->in[i];
    }
    for (int64_t i = begin; i < end; i++) {
        int64_t place[SPACE] = {i / n[2] / n[1] % n[0], i / n[2] % n[1], i % n[2]};
        copy_window(j, j->x + (size_t)(i / n[2] / n[1] / n[0]) * image, place, j->y + (size_t)i * window);
    }
}

static mr_status *run_extract_patches(mr_run *r)
{
    const patches *p = r->state;
    const mr_tensor *x = mr_in(r, 0);
    mr_tensor *y;
    int64_t dims[SPACE + 2];
    if (x->rank != p->n + 2)
        return mr_invalid("input must be %d-dimensional, got shape %s", p->n + 2, MR_TENSOR_SHAPE(x));
    job j = {p, {1, 1, 1}, {1, 1, 1}, {0}, (size_t)x->dims[x->rank - 1] * mr_dtype_size((mr_dtype)x->dtype), x->data};
    dims[0] = x->dims[0];
    for (int i = 0; i < p->n; i++) {
        int k = SPACE - p->n + i;
        j.in[k] = x->dims[1 + i];
        MR_TRY(mr_window_size(j.in[k], p->size[k], p->rate[k], p->stride[k], p->padding, &j.before[k], NULL, &j.places[k]));
        dims[1 + i] = j.places[k];
    }
    MR_TRY(window_channels(p, x->dims[p->n + 1], &dims[p->n + 1]));
    MR_TRY(mr_run_output(r, 0, p->n + 2, dims, &y));
    j.y = y->data;
    if (y->n > 0)
        mr_run_for(r, y->n / dims[p->n + 1], 4 + (double)dims[p->n + 1] * 0.3, copy_places, &j);
    return NULL;
}

/* ---- gradient ---- */

/* A pixel's gradient is the sum of those of all windows that contain it. Patches of the pixels' numbers tell which
 * these are: 1, 2 .. with 0 outside, so after subtracting 1 the sum ignores negative numbers. */
static void extract_patches_backward(mr_grad *g)
{
    mr_scope *s = g->s;
    mr_out x = mr_xi(g, 0), shape = mr_shape_of(g, x), zero = mr_const_i32(s, 0), one = mr_const_i32(s, 1);
    int n = mr_node_attr(g->node, "rates") ? 2 : 3;
#define VEC1(v) mr_const_vec_i32(s, 1, (const int32_t[]){v})
#define PART(from, count) mr_emit(s, "Slice", shape, VEC1(from), VEC1(count))
    mr_out batch = PART(0, 1), space = PART(1, n), channels = PART(1 + n, 1);
    mr_out pixels = mr_emit(s, "Prod", space, zero);
    mr_out numbers = mr_emit(s, "Range", one, mr_emit(s, "Add", pixels, one), one);
    mr_out as_image = mr_emit_n(s, "ConcatV2", NULL, 0, MR_OUTS(VEC1(1), space, VEC1(1), zero));
    mr_out seen = mr_emit(s, "Reshape", numbers, as_image);
    seen = mr_emit_like(g, g->node->def->name, n == 2 ? "ksizes strides rates padding" : "ksizes strides padding", &seen, 1);
    mr_out ids = mr_emit(s, "Sub", mr_emit(s, "Reshape", seen, VEC1(-1)), one);
    mr_out rows = mr_emit(s, "Shape", ids);
    mr_out turn = mr_const_vec_i32(s, 3, (const int32_t[]){1, 0, 2});
    mr_out by_batch = mr_emit_n(s, "ConcatV2", NULL, 0, MR_OUTS(batch, rows, channels, zero));
    mr_out dy = mr_emit(s, "Transpose", mr_emit(s, "Reshape", mr_dyi(g, 0), by_batch), turn);
    mr_out sums = mr_emit(s, "Transpose", mr_emit(s, "UnsortedSegmentSum", dy, ids, pixels), turn);
    mr_dxi(g, 0, mr_emit(s, "Reshape", sums, shape));
#undef VEC1
#undef PART
}

MR_OP(ExtractImagePatches,
    .doc         = "for every place of a sliding window, what it sees of the image, in the last dimension",
    .sig         = "images: T -> patches: T",
    .attrs       = "ksizes: list(int) >= 4; strides: list(int) >= 4; rates: list(int) >= 4; T: {bfloat16, half, float, "
                   "double, int8, int16, int32, int64, uint8, uint16, uint32, uint64, complex64, complex128, bool}; "
                   "padding: {'SAME', 'VALID'}",
    .shape       = infer_extract_patches,
    .grad        = extract_patches_backward,
    .kernels     = MR_KERNELS(MR_CPU_ANY(run_extract_patches)),
    .state_bytes = sizeof(patches),
    .init        = init_extract_patches,
    .examples    = MR_EXAMPLES(
        "ksizes=[1,2,2,1] strides=[1,1,1,1] rates=[1,1,1,1] padding=\"VALID\": "
        "[[[[1], [2], [3]], [[4], [5], [6]]]] -> [[[[1, 2, 4, 5], [2, 3, 5, 6]]]]",
        "ksizes=[1,2,2,1] strides=[1,2,2,1] rates=[1,1,1,1] padding=\"SAME\": "
        "[[[[1, 11], [2, 12], [3, 13]]]] -> [[[[1, 11, 2, 12, 0, 0, 0, 0], [3, 13, 0, 0, 0, 0, 0, 0]]]]",
        "ksizes=[1,1,2,1] strides=[1,1,1,1] rates=[1,1,2,1] padding=\"VALID\": "
        "[[[[1], [2], [3]]], [[[4], [5], [6]]]] -> [[[[1, 3]]], [[[4, 6]]]]",
        "T=bool ksizes=[1,1,2,1] strides=[1,1,1,1] rates=[1,1,1,1] padding=\"SAME\": [[[[true], [false]]]] -> "
        "[[[[true, false], [false, false]]]]",
        "ksizes=[1,1,2,1] strides=[1,1,1,1] rates=[1,1,1,1] padding=\"VALID\": shape(0,1,2,1) -> shape(0,1,1,2)",
        "ksizes=[1,1,1,2] strides=[1,1,1,1] rates=[1,1,1,1] padding=\"VALID\": [[[[1]]]] -> "
        "!UNIMPLEMENTED Only support ksizes across space.",
        "ksizes=[1,1,1,1,1] strides=[1,1,1,1] rates=[1,1,1,1] padding=\"VALID\": [[[[1]]]] -> !INVALID_ARGUMENT ksizes must",
        "ksizes=[1,1,1,1] strides=[1,0,1,1] rates=[1,1,1,1] padding=\"VALID\": [[[[1]]]] -> !OUT_OF_RANGE strides must be "
        "positive",
        "ksizes=[1,3,1,1] strides=[1,1,1,1] rates=[1,1,1,1] padding=\"VALID\": [[[[1]]]] -> !INVALID_ARGUMENT"));

MR_OP(ExtractVolumePatches,
    .doc         = "for every place of a sliding window, what it sees of the volume, in the last dimension",
    .sig         = "input: T -> patches: T",
    .attrs       = "ksizes: list(int) >= 5; strides: list(int) >= 5; T: realnumbertype; padding: {'SAME', 'VALID'}",
    .shape       = infer_extract_patches,
    .grad        = extract_patches_backward,
    .kernels     = MR_KERNELS(MR_CPU_ANY(run_extract_patches)),
    .state_bytes = sizeof(patches),
    .init        = init_extract_patches,
    .examples    = MR_EXAMPLES(
        "ksizes=[1,2,1,2,1] strides=[1,1,1,1,1] padding=\"VALID\": [[[[[1], [2], [3]]], [[[4], [5], [6]]]]] -> "
        "[[[[[1, 2, 4, 5], [2, 3, 5, 6]]]]]",
        "ksizes=[1,2,1,1,1] strides=[1,1,1,2,1] padding=\"SAME\": [[[[[1], [2], [3]]], [[[4], [5], [6]]]]] -> "
        "[[[[[1, 4], [3, 6]]], [[[4, 0], [6, 0]]]]]",
        "ksizes=[1,1,1,1,1] strides=[1,1,1,1,1] padding=\"SAME\": shape(2,0,1,1,3) -> shape(2,0,1,1,3)",
        "ksizes=[1,3,2,2,1] strides=[1,1,1,1,1] padding=\"VALID\": [[[[[1]]]]] -> !INVALID_ARGUMENT",
        "ksizes=[1,1,1,1,1] strides=[2,1,1,1,1] padding=\"SAME\": [[[[[1]]]]] -> !UNIMPLEMENTED strides"));
