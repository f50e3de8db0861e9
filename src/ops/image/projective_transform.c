/* ops/image/projective_transform.c -- ImageProjectiveTransformV2 and V3.
 *
 * A transform of eight numbers defines the position in the image from which each pixel of the result is taken:
 *
 *     x' = (a0 x + a1 y + a2) / k     y' = (b0 x + b1 y + b2) / k     k = c0 x + c1 y + 1
 *
 * Outside the image there is a fill value, or the image is extended: mirrored, repeated, or by its edge. */
#include <math.h>

#include "base/memory.h"
#include "graph/grad.h"
#include "ops/image/pixels.h"

typedef enum fill_mode { REFLECT, WRAP, CONSTANT, NEAREST_EDGE } fill_mode;

typedef struct state {
    bool bilinear;
    fill_mode mode;
} state;

static mr_status *init_projective(mr_make *m, void *room)
{
    static const char *const modes[] = {"REFLECT", "WRAP", "CONSTANT", "NEAREST"};
    state *s = room;
    mr_sv how, mode;
    MR_TRY(mr_node_get_str(m->node, "interpolation", &how));
    MR_TRY(mr_node_get_str(m->node, "fill_mode", &mode));
    s->bilinear = mr_sv_is(how, "BILINEAR");
    if (!s->bilinear && !mr_sv_is(how, "NEAREST"))
        return mr_invalid("Invalid interpolation %.*s. Supported types: NEAREST, BILINEAR", MR_SV_ARG(how));
    for (int i = 0; i < MR_COUNT(modes); i++)
        if (mr_sv_is(mode, modes[i])) {
            s->mode = (fill_mode)i;
            return NULL;
        }
    return mr_invalid("Invalid mode %.*s. Supported types: REFLECT, WRAP, CONSTANT, NEAREST", MR_SV_ARG(mode));
}

/* ---- coordinates ---- */

static float clamp_coordinate(float v, int64_t n) { return v < 0 ? 0 : v > (float)(n - 1) ? (float)(n - 1) : v; }

/* [abcd] is extended to [dcba|abcd|dcba]. */
static float reflect_coordinate(float v, int64_t n)
{
    int64_t two = 2 * n;
    if (v >= 0 && v <= (float)(n - 1))
        return v;
    if (n <= 1)
        return 0;
    if (v < 0) {
        v += (float)(two * (int64_t)(-v / (float)two));
        return v < (float)-n ? v + (float)two : -v - 1;
    }
    v -= (float)(two * (int64_t)(v / (float)two));
    return v >= (float)n ? (float)two - v - 1 : v;
}

/* [abcd] is extended to [abcd|abcd|abcd]. */
static float wrap_coordinate(float v, int64_t n)
{
    if (v >= 0 && v <= (float)(n - 1))
        return v;
    if (n <= 1)
        return 0;
    if (v < 0)
        return v + (float)(n * ((int64_t)(-v / (float)(n - 1)) + 1));
    return v - (float)(n * (int64_t)(v / (float)(n - 1)));
}

/* Maps a coordinate into the image; false: it is outside, or not finite. */
static bool map_coordinate(fill_mode mode, int64_t n, float *v)
{
    if (!(fabsf(*v) < 1e9f))
        return false;
    if (mode == REFLECT)
        *v = clamp_coordinate(reflect_coordinate(*v, n), n);
    else if (mode == WRAP)
        *v = clamp_coordinate(wrap_coordinate(*v, n), n);
    else if (mode == NEAREST_EDGE)
        *v = clamp_coordinate(*v, n);
    return *v >= 0 && *v <= (float)(n - 1);
}

/* ---- the pixels ---- */

typedef struct job {
    const state *s;
    const float *transforms;
    int64_t in_h, in_w, out_h, out_w, ch;
    bool one_transform;
    const char *x; /* floats if they are interpolated, else the images' type */
    char *out;
    size_t size;   /* of a sample */
    char fill[8];  /* a sample */
} job;

/* The position from which pixel (row, col) of image b is taken. */
static bool find_source(const job *j, int64_t b, int64_t row, int64_t col, float *y, float *x)
{
    const float *t = j->transforms + (j->one_transform ? 0 : 8 * b);
    float k = t[6] * (float)col + t[7] * (float)row + 1;
    *x = (t[0] * (float)col + t[1] * (float)row + t[2]) / k;
    *y = (t[3] * (float)col + t[4] * (float)row + t[5]) / k;
    return k != 0 && map_coordinate(j->s->mode, j->in_w, x) && map_coordinate(j->s->mode, j->in_h, y);
}

static float read_or_fill(const job *j, const float *image, int64_t y, int64_t x, int64_t k)
{
    float fill;
    memcpy(&fill, j->fill, sizeof(fill));
    return y < j->in_h && x < j->in_w ? image[(y * j->in_w + x) * j->ch + k] : fill;
}

static void interpolate_pixel(const job *j, const float *image, float y, float x, float *out)
{
    int64_t top = (int64_t)floorf(y), left = (int64_t)floorf(x);
    float right_part = x - (float)left, lower_part = y - (float)top;
    for (int64_t k = 0; k < j->ch; k++) {
        float above = (1 - right_part) * read_or_fill(j, image, top, left, k) +
                      right_part * read_or_fill(j, image, top, left + 1, k);
        float below = (1 - right_part) * read_or_fill(j, image, top + 1, left, k) +
                      right_part * read_or_fill(j, image, top + 1, left + 1, k);
        out[k] = (1 - lower_part) * above + lower_part * below;
    }
}

/* Computes rows begin..end, counted over all images. */
static void make_rows(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    size_t pixel = j->size * (size_t)j->ch;
    for (int64_t r = begin; r < end; r++) {
        int64_t b = r / j->out_h;
        const char *image = j->x + (size_t)(b * j->in_h * j->in_w) * pixel;
        char *out = j->out + (size_t)(r * j->out_w) * pixel;
        for (int64_t col = 0; col < j->out_w; col++, out += pixel) {
            float y, x;
            if (!find_source(j, b, r % j->out_h, col, &y, &x))
                for (int64_t k = 0; k < j->ch; k++)
                    memcpy(out + (size_t)k * j->size, j->fill, j->size);
            else if (j->s->bilinear)
                interpolate_pixel(j, (const float *)image, y, x, (float *)out);
            else
                memcpy(out, image + (size_t)((int64_t)roundf(y) * j->in_w + (int64_t)roundf(x)) * pixel, pixel);
        }
    }
}

/* Converts the fill value to the images' type, and then to the computing type. */
static void set_fill(job *j, float value, mr_dtype type)
{
    char own[8] = {0};
    mr_dtype_convert(MR_FLOAT, &value, type, own, 1, false);
    if (j->s->bilinear)
        mr_dtype_convert(type, own, MR_FLOAT, j->fill, 1, false);
    else
        memcpy(j->fill, own, sizeof(own));
}

static mr_status *check_inputs(mr_run *r, job *j, float *fill)
{
    const mr_tensor *x = mr_in(r, 0), *t = mr_in(r, 1);
    const int32_t *size;
    if (x->rank != 4)
        return mr_invalid("Input images must have rank 4");
    if (t->rank != 2 || (t->dims[0] != x->dims[0] && t->dims[0] != 1) || t->dims[1] != 8)
        return mr_invalid("Input transform should be num_images x 8 or 1 x 8");
    MR_TRY(mr_in_int32_vector(r, 2, "output shape", 2, &size));
    if (size[0] <= 0 || size[1] <= 0)
        return mr_invalid("new dimensions must be positive");
    if (r->n_in > 3)
        MR_TRY(mr_in_scalar_float(r, 3, "fill_value", fill));
    j->in_h = x->dims[1], j->in_w = x->dims[2], j->ch = x->dims[3];
    j->out_h = size[0], j->out_w = size[1];
    j->one_transform = t->dims[0] == 1;
    j->transforms = t->data;
    return NULL;
}

static mr_status *run_projective(mr_run *r)
{
    job j = {.s = r->state};
    mr_wide in = {0}, out = {0};
    mr_status *st = NULL;
    float fill = 0;
    mr_dtype type = mr_out_dtype(r, 0), computed = j.s->bilinear ? MR_FLOAT : type;
    MR_TRY(check_inputs(r, &j, &fill));
    MR_GO(mr_pixels_in(r, 0, computed, &in));
    MR_GO(mr_pixels_out(r, 0, computed, 4, (const int64_t[]){mr_in(r, 0)->dims[0], j.out_h, j.out_w, j.ch}, false, &out));
    j.x = in.t->data;
    j.out = out.t->data;
    j.size = mr_dtype_size(computed);
    set_fill(&j, fill, type);
    if (out.t->n > 0)
        mr_run_for(r, mr_in(r, 0)->dims[0] * j.out_h, (double)j.out_w * (10 + 4 * (double)j.ch), make_rows, &j);
    mr_wide_store(r, 0, &out);
out:
    mr_wide_deinit(&in);
    mr_wide_deinit(&out);
    return st;
}

static mr_status *infer_projective(mr_infer *c)
{
    const mr_pshape *x, *t, *size;
    MR_TRY(mr_infer_rank(c, c->in[0], 4, &x));
    MR_TRY(mr_infer_rank(c, c->in[1], 2, &t));
    MR_TRY(mr_infer_dim_is(mr_infer_dim(t, 1), 8));
    MR_TRY(mr_infer_rank(c, c->in[2], 1, &size));
    MR_TRY(mr_infer_dim_is(size->dims[0], 2));
    const mr_tensor *v = mr_infer_const(c, 2);
    mr_pshape *out = mr_pshape_new(c->arena, 4);
    out->dims[0] = mr_infer_dim(x, 0);
    out->dims[3] = mr_infer_dim(x, 3);
    for (int i = 0; v && i < 2; i++)
        if ((out->dims[1 + i] = mr_tensor_int_at(v, i)) <= 0)
            return mr_invalid("new dimensions must be positive");
    c->out[0] = out;
    return NULL;
}

/* ---- gradient ---- */

/* As the gradient, TensorFlow applies the inverse transform to dy, which is exact if pixels are only moved. */
static void projective_backward(mr_grad *g)
{
    mr_scope *s = g->s;
    mr_out x = mr_xi(g, 0), t = mr_xi(g, 1);
#define VEC(n, ...) mr_const_vec_i32(s, n, (const int32_t[]){__VA_ARGS__})
#define JOIN(...) mr_emit_n(s, "ConcatV2", NULL, 0, MR_OUTS(__VA_ARGS__, mr_const_i32(s, 1)))
#define PART(v, from, count) mr_emit(s, "Slice", v, VEC(2, 0, from), VEC(2, -1, count))
    mr_out rows = mr_emit(s, "Slice", mr_shape_of(g, t), VEC(1, 0), VEC(1, 1));
    mr_out one = mr_emit(s, "Fill", mr_emit_n(s, "ConcatV2", NULL, 0, MR_OUTS(rows, VEC(1, 1), mr_const_i32(s, 0))),
                         mr_const_f32(s, 1));
    mr_out matrix = mr_emit(s, "Reshape", JOIN(t, one), VEC(3, -1, 3, 3));
    mr_out inverse = mr_emit(s, "Reshape", mr_emit(s, "MatrixInverse", matrix), VEC(2, -1, 9));
    inverse = PART(mr_emit(s, "RealDiv", inverse, PART(inverse, 8, 1)), 0, 8);
    mr_out size = mr_emit(s, "Slice", mr_shape_of(g, x), VEC(1, 1), VEC(1, 2));
    mr_out in[] = {mr_dyi(g, 0), inverse, size, g->node->n_in > 3 ? mr_xi(g, 3) : MR_NO_OUT};
    mr_dxi(g, 0, mr_emit_like(g, g->node->def->name, "interpolation fill_mode", in, g->node->n_in > 3 ? 4 : 3));
#undef VEC
#undef JOIN
#undef PART
}

#define MOVED_TYPES(M, ...)                                                                        \
    MR_TYPE_UINT8(M, __VA_ARGS__) MR_INDEXES(M, __VA_ARGS__) MR_TYPE_HALF(M, __VA_ARGS__) MR_FLOATS32(M, __VA_ARGS__)
#define COMMON                                                                                                      \
    .attrs =                                                                                                        \
        "dtype: {uint8, int32, int64, half, float, double}; interpolation: string; fill_mode: string = 'CONSTANT'", \
    .shape = infer_projective, .grad = projective_backward,                                                         \
    .kernels = MR_KERNELS(MR_CPU_ONE(run_projective, MOVED_TYPES)), .state_bytes = sizeof(state),                   \
    .init = init_projective
#define ROW "[[[[1], [2], [3]]]]"

MR_OP(ImageProjectiveTransformV2,
    .doc      = "images with each pixel taken from where a projective transform says",
    .sig      = "images: dtype, transforms: float, output_shape: int32 -> transformed_images: dtype",
    COMMON,
    .examples = MR_EXAMPLES(
        "interpolation=\"NEAREST\": " ROW ", [[1, 0, -1, 0, 1, 0, 0, 0]], [1, 5] -> [[[[0], [1], [2], [3], [0]]]]",
        "interpolation=\"NEAREST\": [[[[1, 5], [2, 6]], [[3, 7], [4, 8]]]], [[0, 1, 0, 1, 0, 0, 0, 0]], [2, 2] -> "
        "[[[[1, 5], [3, 7]], [[2, 6], [4, 8]]]]",
        "nograd interpolation=\"BILINEAR\" dtype=float: " ROW ", [[1, 0, 0.5, 0, 1, 0, 0, 0]], [1, 3] -> [[[[1.5], [2.5], [0]]]]",
        "nograd interpolation=\"NEAREST\" fill_mode=\"REFLECT\": " ROW ", [[1, 0, -4, 0, 1, 0, 0, 0]], [1, 10] -> "
        "[[[[3], [3], [2], [1], [1], [2], [3], [3], [2], [1]]]]",
        "nograd interpolation=\"NEAREST\" fill_mode=\"NEAREST\": " ROW ", [[1, 0, -1, 0, 1, 0, 0, 0]], [1, 5] -> "
        "[[[[1], [1], [2], [3], [3]]]]",
        "nograd interpolation=\"NEAREST\" fill_mode=\"WRAP\": " ROW ", [[1, 0, -1, 0, 1, 0, 0, 0]], [1, 5] -> "
        "[[[[3], [1], [2], [3], [1]]]]",
        "nograd interpolation=\"NEAREST\": " ROW ", [[1, 0, nan, 0, 1, 0, 0, 0]], [1, 1] -> [[[[0]]]]",
        "interpolation=\"NEAREST\": shape(0,2,2,1), shape(0,8), [1, 1] -> shape(0,1,1,1)",
        "interpolation=\"CUBIC\": " ROW ", [[1, 0, 0, 0, 1, 0, 0, 0]], [1, 1] -> !INVALID_ARGUMENT Invalid interpolation CUBIC",
        "interpolation=\"NEAREST\" fill_mode=\"x\": " ROW ", [[1, 0, 0, 0, 1, 0, 0, 0]], [1, 1] -> !INVALID_ARGUMENT Invalid mode",
        "interpolation=\"NEAREST\": " ROW ", [[1, 0, 0, 0, 1, 0, 0, 0]], [0, 1] -> !INVALID_ARGUMENT new dimensions must be "
        "positive",
        "interpolation=\"NEAREST\": " ROW ", [[1, 0, 0]], [1, 1] -> !INVALID_ARGUMENT"));

MR_OP(ImageProjectiveTransformV3,
    .doc      = "ImageProjectiveTransformV2 with a value for what comes from outside of the image",
    .sig      = "images: dtype, transforms: float, output_shape: int32, fill_value: float -> transformed_images: dtype",
    COMMON,
    .examples = MR_EXAMPLES(
        "interpolation=\"NEAREST\": " ROW ", [[1, 0, 0, 0, 1, 0, 0, 0]], [1, 3], 7 -> " ROW,
        "nograd interpolation=\"NEAREST\": " ROW ", [[1, 0, -1, 0, 1, 0, 0, 0]], [1, 5], 7 -> [[[[7], [1], [2], [3], [7]]]]",
        "nograd interpolation=\"BILINEAR\" dtype=float: " ROW ", [[1, 0, 1.5, 0, 1, 0, 0, 0]], [1, 2], -4 -> [[[[2.5], [-4]]]]",
        "interpolation=\"NEAREST\": " ROW ", [[1, 0, 0, 0, 1, 0, 0, 0]], [1, 1], [7] -> !INVALID_ARGUMENT"));
