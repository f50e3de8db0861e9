/* ops/image/image_summary.c -- ImageSummary: images as PNG files in a Summary.
 *
 * Images of floats are scaled, each separately, so that their largest value is 255; if some values are negative, so
 * that the largest magnitude is 127 and 0 becomes 128. A pixel that is not finite gets the bad color. */
#include <math.h>

#include "base/memory.h"
#include "ops/image/codec.h"
#include "ops/image/pixels.h"
#include "ops/summary/summary.h"

enum { MOST_CHANNELS = 4, MR_SUMMARY_IMAGE = 4 };

typedef struct state {
    int64_t max_images;
    int n_bad;
    uint8_t bad[MOST_CHANNELS]; /* the color of pixels that are not finite */
} state;

typedef struct images {
    const mr_tensor *t;
    int64_t n, height, width;
    int channels;
    uint8_t *scaled; /* one image; NULL if the images are of bytes */
} images;

/* ---- scaling ---- */

#define PIXEL_OF(E, name, number, S, C, ...)                                                   \
    static bool load_##name(const images *m, int64_t pixel, double *out)                       \
    {                                                                                          \
        bool finite = true;                                                                    \
        for (int k = 0; k < m->channels; k++) {                                                \
            out[k] = (double)MR_LD(MR_DATA(const S, m->t) + pixel * m->channels + k);          \
            finite &= isfinite(out[k]) != 0;                                                   \
        }                                                                                      \
        return finite;                                                                         \
    }
MR_TYPE_HALF(PIXEL_OF, )
MR_FLOATS32(PIXEL_OF, )

/* False: the pixel is not finite. */
static bool load_pixel(const images *m, int64_t pixel, double *out)
{
    return m->t->dtype == MR_HALF    ? load_half(m, pixel, out)
           : m->t->dtype == MR_FLOAT ? load_float(m, pixel, out)
                                     : load_double(m, pixel, out);
}

/* Factor and offset for the pixels from `first` on, rounded to the image's type. */
static void choose_scale(const images *m, int64_t first, double *scale, double *offset)
{
    float least = INFINITY, most = -INFINITY;
    double v[MOST_CHANNELS];
    for (int64_t i = 0; i < m->height * m->width; i++)
        for (int k = 0; load_pixel(m, first + i, v) && k < m->channels; k++) {
            least = fminf(least, (float)v[k]);
            most = fmaxf(most, (float)v[k]);
        }
    bool negative = least < 0;
    float top = negative ? fmaxf(fabsf(least), fabsf(most)) : most, factor = top < 1e-6f ? 0 : (negative ? 127 : 255) / top;
    *scale = m->t->dtype == MR_HALF ? (double)mr_half_to_float(mr_float_to_half(factor)) : (double)factor;
    *offset = negative ? 128 : 0;
}

/* Computes in the image's type, then truncates to an integer. */
static uint8_t scale_value(const images *m, double v, double scale, double offset)
{
    double y = m->t->dtype == MR_DOUBLE  ? v * scale + offset
               : m->t->dtype == MR_FLOAT ? (double)((float)v * (float)scale + (float)offset)
                                         : 0;
    if (m->t->dtype == MR_HALF) {
        float product = mr_half_to_float(mr_float_to_half((float)(v * scale)));
        y = (double)mr_half_to_float(mr_float_to_half(product + (float)offset));
    }
    return y >= 0 && y < 256 ? (uint8_t)y : y >= 256 ? 255 : 0;
}

static void scale_image(const images *m, const state *s, int64_t first)
{
    double scale, offset, v[MOST_CHANNELS];
    choose_scale(m, first, &scale, &offset);
    for (int64_t i = 0; i < m->height * m->width; i++) {
        bool finite = load_pixel(m, first + i, v);
        for (int k = 0; k < m->channels; k++)
            m->scaled[i * m->channels + k] = finite ? scale_value(m, v[k], scale, offset) : s->bad[k];
    }
}

/* ---- the message ---- */

static mr_status *put_image(mr_summary *out, mr_sv base, const images *m, const state *s, int64_t i)
{
    mr_str tag = {0}, file = {0};
    int64_t first = i * m->height * m->width;
    mr_png_image image = {m->scaled, m->width, m->height, m->channels, 8, -1};
    if (m->scaled)
        scale_image(m, s, first);
    else
        image.pixels = MR_DATA(const uint8_t, m->t) + first * m->channels;
    mr_status *st = mr_png_encode(&image, &file);
    mr_str_append(&tag, base.p, base.n);
    mr_str_appendz(&tag, "/image");
    if (s->max_images > 1)
        mr_str_printf(&tag, "/%lld", (long long)i);
    size_t value = mr_summary_begin(out, mr_str_view(&tag)), body = mr_pb_begin(&out->w, MR_SUMMARY_IMAGE);
    mr_pb_put_varint(&out->w, 1, (uint64_t)m->height);
    mr_pb_put_varint(&out->w, 2, (uint64_t)m->width);
    mr_pb_put_varint(&out->w, 3, (uint64_t)m->channels);
    mr_pb_put_bytes(&out->w, 4, mr_str_view(&file));
    mr_pb_end(&out->w, body);
    mr_pb_end(&out->w, value);
    mr_str_deinit(&tag);
    mr_str_deinit(&file);
    return st;
}

static mr_status *check_images(const state *s, const mr_tensor *t, images *m)
{
    m->t = t;
    if (t->rank != 4 || (t->dims[3] != 1 && t->dims[3] != 3 && t->dims[3] != 4))
        return mr_invalid("Tensor must be 4-D with last dim 1, 3, or 4, not %s", MR_TENSOR_SHAPE(t));
    if (t->dims[1] >= (int64_t)1 << 31 || t->dims[2] >= (int64_t)1 << 31 || t->dims[1] * t->dims[2] >= (int64_t)1 << 29)
        return mr_invalid("Tensor too large for summary %s", MR_TENSOR_SHAPE(t));
    m->n = MR_MIN(t->dims[0], s->max_images);
    m->height = t->dims[1], m->width = t->dims[2], m->channels = (int)t->dims[3];
    if (t->dtype != MR_UINT8 && s->n_bad < m->channels)
        return mr_invalid("expected depth <= bad_color.size, got depth = %d, bad_color.size = %d", m->channels, s->n_bad);
    return NULL;
}

static mr_status *put_images(mr_summary *out, mr_sv tag, const mr_tensor *t, const state *s)
{
    images m = {0};
    mr_status *st = NULL;
    MR_TRY(check_images(s, t, &m));
    if (t->dtype != MR_UINT8 && !(m.scaled = mr_try_alloc((size_t)(m.height * m.width * m.channels))))
        MR_GO(mr_error(MR_RESOURCE_EXHAUSTED, "no memory for an image of %lld by %lld", (long long)m.height, (long long)m.width));
    for (int64_t i = 0; i < m.n; i++)
        MR_GO(put_image(out, tag, &m, s, i));
out:
    mr_free(m.scaled);
    return st;
}

static mr_status *set_bad_color(state *s, const mr_tensor *bad)
{
    if (bad->dtype != MR_UINT8)
        return mr_invalid("bad_color must be uint8, got %s", mr_dtype_name(bad->dtype));
    if (bad->rank != 1)
        return mr_invalid("bad_color must be a vector, got shape %s", MR_TENSOR_SHAPE(bad));
    s->n_bad = (int)MR_MIN(bad->n, MOST_CHANNELS);
    memcpy(s->bad, bad->data, (size_t)s->n_bad);
    return NULL;
}

mr_status *mr_summary_put_images(mr_summary *out, mr_sv tag, const mr_tensor *t, int64_t max_images, const mr_tensor *bad)
{
    state s = {.max_images = max_images};
    MR_TRY(set_bad_color(&s, bad));
    return put_images(out, tag, t, &s);
}

static mr_status *image_summary(mr_run *r)
{
    const mr_tensor *tag = mr_in(r, 0);
    mr_summary out;
    if (tag->rank != 0)
        return mr_invalid("Tags must be a scalar");
    mr_summary_init(&out);
    mr_status *st = put_images(&out, mr_tensor_str_at(tag, 0), mr_in(r, 1), r->state);
    if (!st)
        return mr_summary_finish(&out, r);
    mr_str_deinit(&out.bytes);
    return st;
}

static mr_status *init_image_summary(mr_make *m, void *room)
{
    state *s = room;
    mr_tensor *bad;
    MR_TRY(mr_node_get_int(m->node, "max_images", &s->max_images));
    if (s->max_images >= (int64_t)1 << 31)
        return mr_invalid("max_images must be < 2^31");
    MR_TRY(mr_node_get_tensor(m->node, "bad_color", &bad));
    mr_status *st = set_bad_color(s, bad);
    mr_tensor_unref(bad);
    return st;
}

#define SUMMARY_TYPES(M, ...)                                                                      \
    MR_TYPE_UINT8(M, __VA_ARGS__) MR_TYPE_HALF(M, __VA_ARGS__) MR_FLOATS32(M, __VA_ARGS__)

MR_OP(ImageSummary,
    .doc         = "a Summary of images [batch, height, width, channels], as PNG files",
    .sig         = "tag: string, tensor: T -> summary: string",
    .attrs       = "max_images: int >= 1 = 3; T: {uint8, float, half, double} = DT_FLOAT; "
                   "bad_color: tensor = uint8[4]{255,0,0,255}",
    .flags       = MR_NO_GRADIENT,
    .shape       = mr_shape_scalar,
    .kernels     = MR_KERNELS(MR_CPU_ONE(image_summary, SUMMARY_TYPES)),
    .state_bytes = sizeof(state),
    .init        = init_image_summary,
    .examples    = MR_EXAMPLES(
        "\"a\", [[[[1, 2, 3]]]] -> ?", "max_images=1: \"a\", [[[[1]]], [[[2]]]] -> ?",
        "T=float: \"a\", [[[[1], [-2]], [[nan], [inf]]]] -> ?", "\"a\", shape(0,2,2,1) -> \"\"",
        "T=float: \"b\", [[[[2]]]] -> \"\\nX\\n\\x09b/image/0\\\"K\\x08\\x01\\x10\\x01\\x18\\x01\\\"C"
        "\\x89PNG\\x0d\\x0a\\x1a\\x0a\\x00\\x00\\x00\\x0dIHDR\\x00\\x00\\x00\\x01\\x00\\x00\\x00\\x01\\x08"
        "\\x00\\x00\\x00\\x00:~\\x9bU\\x00\\x00\\x00\\x0aIDAT\\x08\\x99c\\xf8\\x0f\\x00\\x01\\x01\\x01\\x00"
        "\\x0d\\xe66\\xc3\\x00\\x00\\x00\\x00IEND\\xaeB`\\x82\"",
        "[\"a\"], [[[[1]]]] -> !INVALID_ARGUMENT Tags must be a scalar",
        "\"a\", [[[[1, 2]]]] -> !INVALID_ARGUMENT Tensor must be 4-D with last dim 1, 3, or 4, not [1,1,1,2]",
        "\"a\", shape(1,0,2,1) -> !INTERNAL PNG encoding failed"));
