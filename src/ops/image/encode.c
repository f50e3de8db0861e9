/* ops/image/encode.c -- EncodePng, EncodeJpeg, EncodeJpegVariableQuality. */
#include "base/memory.h"
#include "ops/image/jpeg.h"
#include "ops/image/pixels.h"

/* ---- PNG ---- */

typedef struct png_job {
    mr_png_image image; /* the first image */
    size_t image_bytes;
    mr_tensor *out;
    mr_mutex mu;
    mr_status *st MR_GUARDED_BY(mu); /* the first error */
} png_job;

static mr_status *encode_one(const png_job *j, int64_t i)
{
    mr_str file = {0};
    mr_png_image image = j->image;
    image.pixels = (const char *)image.pixels + (size_t)i * j->image_bytes;
    mr_status *st = mr_png_encode(&image, &file);
    if (!st)
        st = mr_tensor_set_str(j->out, i, mr_str_view(&file));
    mr_str_deinit(&file);
    return st;
}

static void encode_images(void *ctx, int64_t begin, int64_t end)
{
    png_job *j = ctx;
    for (int64_t i = begin; i < end; i++) {
        mr_status *st = encode_one(j, i);
        if (st) {
            mr_lock(&j->mu);
            mr_status_update(&j->st, st);
            mr_unlock(&j->mu);
        }
    }
}

static mr_status *encode_png(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0);
    int bits = x->dtype == MR_UINT8 ? 8 : 16;
    png_job j = {.image = {.pixels = x->data, .bits = bits, .compression = *(const int *)r->state}};
    if (x->rank < 3)
        return mr_invalid("images must be at least rank 3%s", MR_TENSOR_SHAPE(x));
    if (x->n >= INT32_MAX)
        return mr_invalid("image cannot have >= int32 max elements");
    const int64_t *dims = x->dims + x->rank - 3;
    if (dims[2] < 1 || dims[2] > 4)
        return mr_invalid("image must have 1, 2, 3, or 4 channels, got %lld", (long long)dims[2]);
    j.image.height = dims[0], j.image.width = dims[1], j.image.channels = (int)dims[2];
    j.image_bytes = (size_t)(dims[0] * dims[1] * dims[2] * bits / 8);
    MR_TRY(mr_run_output(r, 0, x->rank - 3, x->dims, &j.out));
    mr_mutex_init(&j.mu);
    mr_run_for(r, j.out->n, 20.0 * (double)j.image_bytes, encode_images, &j);
    mr_mutex_deinit(&j.mu);
    return j.st;
}

static mr_status *init_png(mr_make *m, void *state)
{
    int64_t level;
    MR_TRY(mr_node_get_int(m->node, "compression", &level));
    if (level < -1 || level > 9)
        return mr_invalid("compression should be in [-1,9], got %lld", (long long)level);
    *(int *)state = (int)level;
    return NULL;
}

static mr_status *png_shape(mr_infer *c)
{
    const mr_pshape *x;
    MR_TRY(mr_infer_rank_at_least(c, c->in[0], 3, &x));
    c->out[0] = mr_infer_sub(c, x, 0, -3);
    return NULL;
}

MR_OP(EncodePng,
    .doc         = "images [.., height, width, channels] as PNG files; 1, 2, 3 or 4 channels, the even ones with alpha",
    .sig         = "image: T -> contents: string",
    .attrs       = "compression: int = -1; T: {uint8, uint16} = DT_UINT8",
    .shape       = png_shape,
    .kernels     = MR_KERNELS({"CPU", MR_UINT8, encode_png}, {"CPU", MR_UINT16, encode_png},),
    .state_bytes = sizeof(int),
    .init        = init_png,
    .examples    = MR_EXAMPLES(
        "T=uint8: [[[1, 2, 3]]] -> \"\\x89PNG\\x0d\\x0a\\x1a\\x0a\\x00\\x00\\x00\\x0dIHDR\\x00\\x00\\x00\\x01\\x00\\x00\\x00\\x01\\x08"
        "\\x02\\x00\\x00\\x00\\x90wS\\xde\\x00\\x00\\x00\\x0cIDAT\\x08\\x99c`db\\x06\\x00\\x00\\x0e\\x00\\x07"
        "\\x82r\\xc9\\xce\\x00\\x00\\x00\\x00IEND\\xaeB`\\x82\"",
        "compression=0: [[[7], [8]], [[9], [10]]] -> ?", "compression=9: fill(3, 2,5,4,2) -> [?, ?]",
        "shape(0,2,2,1) -> shape(0)",
        "[[[1, 2, 3, 4, 5]]] -> !INVALID_ARGUMENT image must have 1, 2, 3, or 4 channels, got 5",
        "[[1, 2]] -> !INVALID_ARGUMENT rank",
        "shape(0,2,1) -> !INTERNAL PNG encoding failed",
        "compression=10: [[[1]]] -> !INVALID_ARGUMENT compression should be in [-1,9], got 10"));

/* ---- JPEG ---- */

typedef struct jpeg_state {
    mr_jpeg_writing how; /* its xmp is in the node */
    int channels;        /* 0: those of the image */
    mr_sv format;
} jpeg_state;

static mr_status *read_density(const mr_node *n, const char *name, int *out)
{
    int64_t v;
    MR_TRY(mr_node_get_int(n, name, &v));
    *out = (int)(uint16_t)v; /* the file has 16 bits for it */
    return NULL;
}

static mr_status *init_jpeg(mr_make *m, void *state)
{
    const mr_node *n = m->node;
    jpeg_state *s = state;
    int64_t quality;
    mr_sv unit = MR_SV("in");
    MR_TRY(mr_node_get_str(n, "format", &s->format));
    s->channels = mr_sv_is(s->format, "grayscale") ? 1 : mr_sv_is(s->format, "rgb") ? 3 : 0;
    MR_TRY(mr_node_get_int(n, "quality", &quality));
    if (quality < 0 || quality > 100)
        return mr_invalid("quality must be in [0,100], got %lld", (long long)quality);
    s->how.quality = (int)quality;
    MR_TRY(mr_node_get_bool(n, "progressive", &s->how.progressive));
    MR_TRY(mr_node_get_bool(n, "optimize_size", &s->how.optimize));
    MR_TRY(mr_node_get_bool(n, "chroma_downsampling", &s->how.downsample));
    MR_TRY(mr_node_get_str(n, "density_unit", &unit));
    s->how.density_unit = mr_sv_is(unit, "cm") ? 2 : 1;
    MR_TRY(read_density(n, "x_density", &s->how.x_density));
    MR_TRY(read_density(n, "y_density", &s->how.y_density));
    return mr_node_get_str(n, "xmp_metadata", &s->how.xmp);
}

static mr_status *check_channels(const mr_tensor *x, const jpeg_state *s)
{
    if (x->rank != 3)
        return mr_invalid("image must be 3-dimensional%s", MR_TENSOR_SHAPE(x));
    if (x->n >= INT32_MAX)
        return mr_invalid("Cannot encode images with >= max int32 elements");
    if (s->channels && s->channels != x->dims[2])
        return mr_invalid("format %.*s expects %d channels, got %s", MR_SV_ARG(s->format), s->channels, MR_TENSOR_SHAPE(x));
    if (x->dims[2] != 1 && x->dims[2] != 3)
        return mr_invalid("image must have 1 or 3 channels, got %s", MR_TENSOR_SHAPE(x));
    return NULL;
}

static mr_status *encode_jpeg_as(mr_run *r, const jpeg_state *s)
{
    const mr_tensor *x = mr_in(r, 0);
    const mr_jpeg *codec;
    mr_jpeg_writing what = s->how;
    mr_tensor *out;
    mr_str file = {0};
    MR_TRY(check_channels(x, s));
    MR_TRY(mr_jpeg_codec(&codec));
    MR_TRY(mr_run_output(r, 0, 0, NULL, &out));
    what.pixels = x->data;
    what.height = x->dims[0], what.width = x->dims[1], what.channels = (int)x->dims[2];
    mr_status *st = codec->encode(&what, &file);
    if (!st)
        st = mr_tensor_set_str(out, 0, mr_str_view(&file));
    mr_str_deinit(&file);
    return st;
}

static mr_status *encode_jpeg(mr_run *r) { return encode_jpeg_as(r, r->state); }

static mr_status *encode_jpeg_quality(mr_run *r)
{
    jpeg_state s = {.how = {.downsample = true, .density_unit = 1, .x_density = 300, .y_density = 300}};
    int64_t quality;
    MR_TRY(mr_in_scalar_int(r, 1, "quality", &quality));
    if (quality < 0 || quality > 100)
        return mr_invalid("quality must be in [0,100], got %lld", (long long)quality);
    s.how.quality = (int)quality;
    return encode_jpeg_as(r, &s);
}

static mr_status *jpeg_shape(mr_infer *c)
{
    MR_TRY(mr_infer_ranks(c, c->n_in, (const int[]){3, 0}));
    mr_infer_out_scalar(c, 0);
    return NULL;
}

MR_OP(EncodeJpeg,
    .doc         = "an image [height, width, channels] as a JPEG file, gray or RGB",
    .sig         = "image: uint8 -> contents: string",
    .attrs       = "format: {'', 'grayscale', 'rgb'} = ''; quality: int = 95; progressive: bool = false; "
                   "optimize_size: bool = false; chroma_downsampling: bool = true; density_unit: {'in', 'cm'} = 'in'; "
                   "x_density: int = 300; y_density: int = 300; xmp_metadata: string = ''",
    .shape       = jpeg_shape,
    .kernels     = MR_KERNELS(MR_CPU_ANY(encode_jpeg)),
    .state_bytes = sizeof(jpeg_state),
    .init        = init_jpeg,
    .examples    = MR_EXAMPLES(
        "[[[1], [2]]] -> ?", "progressive=true optimize_size=true chroma_downsampling=false: fill(9, 20,20,3) -> ?",
        "format=\"rgb\" quality=0 density_unit=\"cm\" x_density=1 xmp_metadata=\"<a/>\": [[[1, 2, 3]]] -> ?",
        "format=\"grayscale\": [[[1, 2, 3]]] -> !INVALID_ARGUMENT format grayscale expects 1 channels, got [1,1,3]",
        "[[[1, 2]]] -> !INVALID_ARGUMENT image must have 1 or 3 channels, got [1,1,2]",
        "[[1, 2]] -> !INVALID_ARGUMENT rank",
        "shape(0,1,3) -> !INTERNAL JPEG encoding failed",
        "quality=101: [[[1]]] -> !INVALID_ARGUMENT quality must be in [0,100], got 101"));

MR_OP(EncodeJpegVariableQuality,
    .doc      = "EncodeJpeg with the quality as an input",
    .sig      = "images: uint8, quality: int32 -> contents: string",
    .shape    = jpeg_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(encode_jpeg_quality)),
    .examples = MR_EXAMPLES(
        "[[[1], [2]]], 50 -> ?", "fill(200, 9,9,3), 100 -> ?",
        "[[[1]]], -1 -> !INVALID_ARGUMENT quality must be in [0,100], got -1",
        "[[[1]]], [1] -> !INVALID_ARGUMENT"));
