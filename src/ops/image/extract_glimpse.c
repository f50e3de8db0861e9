/* ops/image/extract_glimpse.c -- ExtractGlimpse and its second version: a window of fixed size from each image.
 *
 * The part of a window outside the image is noise: uniform between the image's minimum and maximum, normal with the
 * mean and deviation of each channel, or zero. The op has no seed and is not stateful, so its noise is always the
 * same: it may be folded and merged like any other op. An offset is [y, x]; with `normalized` it is a fraction of
 * the image, with `centered` it counts from the middle. The first version uses it as the window's center, the
 * second as its corner unless it is normalized and centered. */
#include <math.h>

#include "base/memory.h"
#include "ops/image/pixels.h"
#include "ops/random/philox.h"

typedef enum noise { UNIFORM, GAUSSIAN, ZERO } noise;

typedef struct state {
    bool centered, normalized, first;
    noise noise;
} state;

static mr_status *init_extract_glimpse(mr_make *m, void *room)
{
    state *s = room;
    bool uniform;
    mr_sv name = MR_SV("");
    s->first = strcmp(m->node->def->name, "ExtractGlimpse") == 0;
    MR_TRY(mr_node_get_bool(m->node, "centered", &s->centered));
    MR_TRY(mr_node_get_bool(m->node, "normalized", &s->normalized));
    MR_TRY(mr_node_get_bool(m->node, "uniform_noise", &uniform));
    MR_TRY(mr_node_get_str(m->node, "noise", &name));
    if (uniform && name.n > 0 && !mr_sv_is(name, "uniform"))
        return mr_invalid("The uniform_noise and noise should not be specified at the same time");
    if (name.n > 0 && !mr_sv_is(name, "uniform") && !mr_sv_is(name, "gaussian") && !mr_sv_is(name, "zero"))
        return mr_invalid("Unknown noise type %.*s", MR_SV_ARG(name));
    s->noise = mr_sv_is(name, "zero") ? ZERO : mr_sv_is(name, "gaussian") || (name.n == 0 && !uniform) ? GAUSSIAN : UNIFORM;
    return NULL;
}

typedef struct job {
    const state *s;
    int64_t in_h, in_w, out_h, out_w, ch;
    const float *x, *offsets;
    float *out;
    mr_words words;
} job;

/* The start of the window along one side; false: it is far outside the image. */
static bool begin_of(const state *s, float offset, int64_t in, int64_t out, int64_t *at)
{
    float v = s->normalized ? offset * (float)in : offset;
    bool half_way = s->centered && (s->normalized || s->first);
    if (half_way)
        v = v / 2 + (float)in / 2;
    else if (s->centered)
        v += (float)in / 2;
    if (s->first || half_way)
        v -= (float)out / 2;
    *at = fabsf(v) < 1e15f ? (int64_t)v : 0;
    return fabsf(v) < 1e15f;
}

/* ---- noise ---- */

static void fill_uniform(job *j, const float *image, float *out)
{
    float least = image[0], most = image[0];
    for (int64_t i = 1; i < j->in_h * j->in_w * j->ch; i++) {
        least = fminf(least, image[i]);
        most = fmaxf(most, image[i]);
    }
    for (int64_t i = 0; i < j->out_h * j->out_w * j->ch; i++)
        out[i] = least + mr_philox_float(mr_words_next(&j->words)) * (most - least);
}

static void fill_channel(job *j, const float *image, float *out, int64_t k)
{
    int64_t n = j->in_h * j->in_w;
    double sum = 0, squares = 0;
    float least = image[k], most = image[k], two[2];
    for (int64_t i = 0; i < n; i++) {
        sum += (double)image[i * j->ch + k];
        least = fminf(least, image[i * j->ch + k]);
        most = fmaxf(most, image[i * j->ch + k]);
    }
    double mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++)
        squares += ((double)image[i * j->ch + k] - mean) * ((double)image[i * j->ch + k] - mean);
    float deviation = (float)sqrt(squares / (double)n);
    for (int64_t i = 0; i < j->out_h * j->out_w; i++) {
        uint32_t w = mr_words_next(&j->words);
        mr_philox_normal(w, mr_words_next(&j->words), two);
        out[i * j->ch + k] = fmaxf(fminf((float)mean + two[0] * deviation, most), least);
    }
}

static void fill_noise(job *j, const float *image, float *out)
{
    if (j->s->noise == ZERO)
        memset(out, 0, (size_t)(j->out_h * j->out_w * j->ch) * sizeof(float));
    else if (j->s->noise == UNIFORM)
        fill_uniform(j, image, out);
    else
        for (int64_t k = 0; k < j->ch; k++)
            fill_channel(j, image, out, k);
}

/* ---- the window ---- */

static void extract_one(job *j, int64_t b)
{
    const float *image = j->x + b * j->in_h * j->in_w * j->ch;
    float *out = j->out + b * j->out_h * j->out_w * j->ch;
    int64_t top, left;
    bool near = begin_of(j->s, j->offsets[2 * b], j->in_h, j->out_h, &top);
    near &= begin_of(j->s, j->offsets[2 * b + 1], j->in_w, j->out_w, &left);
    bool whole = near && top >= 0 && left >= 0 && top + j->out_h < j->in_h && left + j->out_w < j->in_w;
    if (!whole)
        fill_noise(j, image, out);
    if (!near)
        return;
    int64_t first = MR_MAX(left, 0), n = MR_MIN(left + j->out_w, j->in_w) - first;
    for (int64_t y = MR_MAX(top, 0); n > 0 && y < MR_MIN(top + j->out_h, j->in_h); y++)
        memcpy(out + ((y - top) * j->out_w + first - left) * j->ch, image + (y * j->in_w + first) * j->ch,
               (size_t)(n * j->ch) * sizeof(float));
}

static mr_status *extract_glimpse(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0), *offsets = mr_in(r, 2);
    const int32_t *size;
    mr_tensor *out;
    if (x->rank != 4)
        return mr_invalid("input must be 4-dimensional (batch_size, height, width, depth), got %s", MR_TENSOR_SHAPE(x));
    MR_TRY(mr_in_int32_vector(r, 1, "input", 2, &size));
    if (size[0] <= 0 || size[1] <= 0)
        return mr_invalid("glimpse size must be positive, got %d and %d", size[0], size[1]);
    if (offsets->rank != 2 || offsets->dims[0] != x->dims[0] || offsets->dims[1] != 2)
        return mr_invalid("input must be a 2-dimensional tensor of offsets, one of two for each image, got %s",
                          MR_TENSOR_SHAPE(offsets));
    if (x->dims[1] == 0 || x->dims[2] == 0)
        return mr_invalid("input image must be of non-zero size");
    job j = {r->state, x->dims[1], x->dims[2], size[0], size[1], x->dims[3], x->data, offsets->data};
    MR_TRY(mr_run_output(r, 0, 4, (const int64_t[]){x->dims[0], j.out_h, j.out_w, j.ch}, &out));
    j.words = mr_words_at((mr_philox){{0}, {0x6c1a95e1, 0x3f58d2b7}}, 0);
    j.out = out->data;
    for (int64_t b = 0; out->n > 0 && b < x->dims[0]; b++)
        extract_one(&j, b);
    return NULL;
}

static mr_status *infer_extract_glimpse(mr_infer *c)
{
    const mr_pshape *x, *size, *offsets;
    int64_t batch;
    MR_TRY(mr_infer_rank(c, c->in[0], 4, &x));
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &size));
    MR_TRY(mr_infer_rank(c, c->in[2], 2, &offsets));
    MR_TRY(mr_infer_dim_is(size->dims[0], 2));
    MR_TRY(mr_infer_dim_is(offsets->dims[1], 2));
    MR_TRY(mr_infer_merge_dim(x->dims[0], offsets->dims[0], &batch));
    const mr_tensor *t = mr_infer_const(c, 1);
    mr_pshape *out = mr_pshape_new(c->arena, 4);
    out->dims[0] = batch;
    out->dims[3] = x->dims[3];
    for (int i = 0; t && i < 2; i++)
        if ((out->dims[1 + i] = mr_tensor_int_at(t, i)) <= 0)
            return mr_invalid("glimpse size must be positive, got %lld", (long long)out->dims[1 + i]);
    c->out[0] = out;
    return NULL;
}

#define GLIMPSE_ATTRS                                                                                              \
    "centered: bool = true; normalized: bool = true; uniform_noise: bool = true; noise: string = 'uniform'"
#define COMMON                                                                                                        \
    .sig = "input: float, size: int32, offsets: float -> glimpse: float", .attrs = GLIMPSE_ATTRS,                     \
    .shape = infer_extract_glimpse, .kernels = MR_KERNELS(MR_CPU_ANY(extract_glimpse)), .state_bytes = sizeof(state), \
    .init = init_extract_glimpse
#define NINE "[[[[0], [1], [2]], [[3], [4], [5]], [[6], [7], [8]]]]"

MR_OP(ExtractGlimpse,
    .doc      = "windows of one size, one an image, around the offsets",
    .flags    = MR_NO_GRADIENT,
    COMMON,
    .examples = MR_EXAMPLES(
        "centered=false normalized=false: " NINE ", [2, 2], [[1, 1]] -> [[[[0], [1]], [[3], [4]]]]",
        NINE ", [1, 1], [[0, 0]] -> [[[[4]]]]",
        "uniform_noise=false noise=\"zero\": " NINE ", [1, 2], [[-1, -1]] -> [[[[0], [0]]]]",
        "uniform_noise=false noise=\"zero\" centered=false normalized=false: " NINE ", [2, 2], [[3, 3]] -> "
        "[[[[8], [0]], [[0], [0]]]]",
        NINE ", [2, 3], [[9, nan]] -> [[[[?], [?], [?]], [[?], [?], [?]]]]",
        "uniform_noise=false noise=\"\": " NINE ", [1, 1], [[9, 0]] -> [[[[?]]]]",
        "shape(0,2,2,1), [1, 1], shape(0,2) -> shape(0,1,1,1)",
        "noise=\"zero\": " NINE ", [1, 1], [[0, 0]] -> !INVALID_ARGUMENT should not be specified at the same time",
        NINE ", [0, 1], [[0, 0]] -> !INVALID_ARGUMENT glimpse size must be positive",
        NINE ", [1, 1], [[0, 0], [0, 0]] -> !INVALID_ARGUMENT"));

MR_OP(ExtractGlimpseV2,
    .doc      = "ExtractGlimpse where an offset that is not normalized and centered is the corner of the window",
    COMMON,
    .examples = MR_EXAMPLES(
        "centered=false normalized=false: " NINE ", [2, 2], [[1, 1]] -> [[[[4], [5]], [[7], [8]]]]",
        "centered=true normalized=false: " NINE ", [1, 1], [[0, 1]] -> [[[[5]]]]",
        "centered=false normalized=true: " NINE ", [1, 2], [[0.4, 0]] -> [[[[3], [4]]]]",
        NINE ", [1, 1], [[0, 0]] -> [[[[4]]]]"));
