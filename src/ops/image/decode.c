/* ops/image/decode.c -- DecodeImage, DecodePng, DecodeJpeg, DecodeAndCropJpeg, DecodeGif, DecodeBmp,
 * ExtractJpegShape.
 *
 * All recognise the format by the first bytes. DecodeImage accepts all four; the ops for PNG, JPEG and GIF accept
 * each other's files; BMP is accepted only by its own op, and only JPEG can be cropped. */
#include "ops/image/jpeg.h"
#include "ops/image/pixels.h"

typedef enum kind { IMAGE, PNG, JPEG, CROP_JPEG, GIF, BMP } kind;

typedef struct state {
    kind kind;
    int channels;
    mr_dtype dtype;
    bool expand; /* a GIF gives all of its frames */
    mr_jpeg_reading jpeg;
} state;

/* ---- formats ---- */

mr_image_format mr_image_format_of(mr_sv bytes)
{
    static const struct {
        const char *magic;
        size_t n;
        mr_image_format format;
    } formats[] = {{"\xff\xd8\xff", 3, MR_IMAGE_JPEG},
                   {"\x89PNG\r\n\x1a\n", 8, MR_IMAGE_PNG},
                   {"GIF8", 4, MR_IMAGE_GIF},
                   {"BM", 2, MR_IMAGE_BMP}};
    for (int i = 0; i < MR_COUNT(formats); i++)
        if (bytes.n >= formats[i].n && memcmp(bytes.p, formats[i].magic, formats[i].n) == 0)
            return formats[i].format;
    return MR_IMAGE_UNKNOWN;
}

/* ---- memory for the pixels ---- */

typedef struct room {
    mr_image_room base;
    mr_run *r;
    const state *s;
    mr_image_format format;
    mr_tensor *out;
    mr_tensor *decoded; /* out itself, or an owned tensor that is converted to out */
} room;

/* The type that the reader fills: 16 bits only for PNG. */
static mr_dtype decoded_type(const room *m)
{
    if (m->s->dtype == MR_UINT8)
        return MR_UINT8;
    return m->format == MR_IMAGE_PNG ? MR_UINT16 : MR_UINT8;
}

static mr_status *make_room(mr_image_room *base, int64_t frames, int64_t height, int64_t width, int64_t channels, void **out)
{
    room *m = (room *)base;
    int64_t dims[] = {frames, height, width, channels};
    bool single = m->s->kind == PNG || m->s->kind == JPEG;
    if (single && frames != 1)
        return mr_invalid("Got %lld frames, but animated gifs can only be decoded by tf.io.decode_gif or "
                          "tf.io.decode_image", (long long)frames);
    bool film = m->s->kind == GIF || (m->s->kind == IMAGE && m->s->expand && m->format == MR_IMAGE_GIF);
    int skip = film ? 0 : 1;
    MR_TRY(mr_run_output(m->r, 0, 4 - skip, dims + skip, &m->out));
    mr_dtype type = decoded_type(m);
    m->decoded = m->out;
    if (type != (mr_dtype)m->out->dtype) {
        m->decoded = NULL;
        MR_TRY(mr_run_temp(m->r, type, 4 - skip, dims + skip, &m->decoded));
    }
    *out = m->decoded->data;
    return NULL;
}

typedef struct scaling {
    const mr_tensor *from;
    mr_tensor *to;
} scaling;

/* 8 bits become 16 by a factor of 256, not 257, and [0, 1] by the reciprocal in float, both as in TensorFlow. */
static void scale_part(void *ctx, int64_t begin, int64_t end)
{
    const scaling *c = ctx;
    const uint8_t *narrow = c->from->data;
    const uint16_t *wide = c->from->data;
    for (int64_t i = begin; i < end; i++)
        if (c->to->dtype == MR_UINT16)
            MR_DATA(uint16_t, c->to)[i] = (uint16_t)(narrow[i] * 256);
        else
            MR_DATA(float, c->to)[i] =
                c->from->dtype == MR_UINT8 ? (float)narrow[i] * (1 / 255.0f) : (float)wide[i] * (1 / 65535.0f);
}

static void finish_room(room *m, bool ok)
{
    if (m->decoded == m->out)
        return;
    scaling c = {m->decoded, m->out};
    if (ok)
        mr_run_for(m->r, m->out->n, 1, scale_part, &c);
    mr_tensor_unref(m->decoded);
}

/* ---- formats that each op accepts ---- */

static const char *const op_names[] = {"DecodeImage", "DecodePng", "DecodeJpeg", "DecodeAndCropJpeg", "DecodeGif", "DecodeBmp"};
static const char *const format_names[] = {"unknown", "JPEG", "PNG", "GIF", "BMP"};

static mr_status *check_format(const state *s, mr_image_format f)
{
    if (s->kind == CROP_JPEG && f != MR_IMAGE_JPEG)
        return mr_invalid("DecodeAndCropJpeg operation can run on JPEG only, but detected %s.", format_names[f]);
    if (s->kind == BMP && f != MR_IMAGE_BMP)
        return mr_invalid("Trying to decode %s format using DecodeBmp op. Use `decode_image` instead.", format_names[f]);
    if (f == MR_IMAGE_BMP && s->kind != BMP && s->kind != IMAGE)
        return mr_invalid("Trying to decode BMP format using a wrong op. Use `decode_bmp` or `decode_image` instead. Op "
                          "used: %s", op_names[s->kind]);
    if (f == MR_IMAGE_JPEG && s->channels == 4)
        return mr_invalid("JPEG does not support 4 channels");
    if (f == MR_IMAGE_GIF && s->channels != 0 && s->channels != 3)
        return mr_invalid("channels must be 0 or 3 for GIF, got %d", s->channels);
    if (f == MR_IMAGE_BMP && s->channels == 1)
        return mr_invalid("`channels` must be 0, 3 or 4 for BMP, but got 1");
    return NULL;
}

static mr_status *decode_jpeg(mr_run *r, const state *s, mr_sv bytes, room *m)
{
    const mr_jpeg *codec;
    mr_jpeg_reading how = s->jpeg;
    how.channels = s->channels;
    if (s->kind == CROP_JPEG) {
        const int32_t *window;
        MR_TRY(mr_in_int32_vector(r, 1, "crop_window", 4, &window));
        how.crop = true;
        how.crop_y = window[0], how.crop_x = window[1], how.crop_height = window[2], how.crop_width = window[3];
    }
    MR_TRY(mr_jpeg_codec(&codec));
    return codec->decode(bytes, &how, &m->base);
}

static mr_status *decode_as(mr_run *r, const state *s, mr_sv bytes, room *m)
{
    switch (m->format) {
    case MR_IMAGE_JPEG: return decode_jpeg(r, s, bytes, m);
    case MR_IMAGE_PNG: return mr_png_decode(bytes, s->channels, s->dtype == MR_UINT8 ? 8 : 16, &m->base);
    case MR_IMAGE_GIF: return mr_gif_decode(bytes, s->expand, &m->base);
    case MR_IMAGE_BMP: return mr_bmp_decode(bytes, s->channels, &m->base);
    default: return mr_invalid("Unknown image file format. One of JPEG, PNG, GIF, BMP required.");
    }
}

static mr_status *read_contents(mr_run *r, mr_sv *out)
{
    const mr_tensor *t = mr_in(r, 0);
    if (t->rank != 0)
        return mr_invalid("`contents` must be scalar but got shape%s", MR_TENSOR_SHAPE(t));
    *out = mr_tensor_str_at(t, 0);
    if (out->n == 0)
        return mr_invalid("Input is empty.");
    if (out->n > INT32_MAX)
        return mr_invalid("Input contents are too large for int: %zu", out->n);
    return NULL;
}

static mr_status *run_decode(mr_run *r)
{
    const state *s = r->state;
    mr_sv bytes;
    MR_TRY(read_contents(r, &bytes));
    room m = {{make_room}, r, s, mr_image_format_of(bytes)};
    if (m.format != MR_IMAGE_UNKNOWN)
        MR_TRY(check_format(s, m.format));
    mr_status *st = decode_as(r, s, bytes, &m);
    finish_room(&m, st == NULL);
    return st;
}

/* ---- attrs ---- */

static mr_status *init_jpeg(const mr_node *n, mr_jpeg_reading *j)
{
    int64_t ratio;
    mr_sv method = MR_SV("");
    MR_TRY(mr_node_get_int(n, "ratio", &ratio));
    if (ratio != 1 && ratio != 2 && ratio != 4 && ratio != 8)
        return mr_invalid("ratio must be 1, 2, 4, or 8, got %lld", (long long)ratio);
    j->ratio = (int)ratio;
    MR_TRY(mr_node_get_bool(n, "fancy_upscaling", &j->fancy_upscaling));
    MR_TRY(mr_node_get_bool(n, "try_recover_truncated", &j->recover));
    MR_TRY(mr_node_get_float(n, "acceptable_fraction", &j->acceptable));
    MR_TRY(mr_node_get_str(n, "dct_method", &method));
    j->accurate = mr_sv_is(method, "INTEGER_ACCURATE");
    if (method.n > 0 && !j->accurate && !mr_sv_is(method, "INTEGER_FAST"))
        return mr_invalid("dct_method must be one of {'', 'INTEGER_FAST', 'INTEGER_ACCURATE'}");
    return NULL;
}

static mr_status *init_decode(mr_make *m, void *room_for_state)
{
    const mr_node *n = m->node;
    state *s = room_for_state;
    int64_t channels = 3;
    *s = (state){.dtype = MR_UINT8, .expand = true, .jpeg = {.ratio = 1, .fancy_upscaling = true, .acceptable = 1}};
    while (strcmp(n->def->name, op_names[s->kind]) != 0)
        s->kind++;
    if (s->kind != GIF)
        MR_TRY(mr_node_get_int(n, "channels", &channels));
    if (channels != 0 && channels != 1 && channels != 3 && channels != 4)
        return mr_invalid("`channels` must be 0, 1, 3 or 4 but got %lld", (long long)channels);
    s->channels = (int)channels;
    if (s->kind == JPEG || s->kind == CROP_JPEG)
        MR_TRY(init_jpeg(n, &s->jpeg));
    if (s->kind == PNG || s->kind == IMAGE)
        MR_TRY(mr_node_get_type(n, "dtype", &s->dtype));
    if (s->kind == IMAGE)
        MR_TRY(mr_node_get_bool(n, "expand_animations", &s->expand));
    return NULL;
}

/* ---- shapes ---- */

static mr_status *image_shape(mr_infer *c)
{
    int64_t channels = 0;
    bool expand = false;
    MR_TRY(mr_infer_ranks(c, 1, (const int[]){0}));
    MR_TRY(mr_node_get_int(c->node, "channels", &channels));
    if (channels < 0)
        return mr_invalid("channels must be non-negative, got %lld", (long long)channels);
    if (mr_node_attr(c->node, "expand_animations"))
        MR_TRY(mr_node_get_bool(c->node, "expand_animations", &expand));
    if (!expand)
        c->out[0] = mr_pshape_of(c->arena, 3, (const int64_t[]){-1, -1, channels ? channels : -1});
    return NULL;
}

static mr_status *gif_shape(mr_infer *c)
{
    MR_TRY(mr_infer_ranks(c, 1, (const int[]){0}));
    c->out[0] = mr_pshape_of(c->arena, 4, (const int64_t[]){-1, -1, -1, 3});
    return NULL;
}

static mr_status *crop_shape(mr_infer *c)
{
    const mr_pshape *window, *image;
    MR_TRY(image_shape(c));
    image = c->out[0];
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &window));
    MR_TRY(mr_infer_dim_is(window->dims[0], 4));
    const mr_tensor *t = mr_infer_const(c, 1);
    int64_t dims[] = {-1, -1, image->dims[2]};
    for (int i = 0; t && i < 2; i++)
        dims[i] = mr_tensor_int_at(t, 2 + i) > 0 ? mr_tensor_int_at(t, 2 + i) : -1; /* the kernel reports the error */
    c->out[0] = mr_pshape_of(c->arena, 3, dims);
    return NULL;
}

/* ---- the ops ---- */

#define JPEG_ATTRS                                                                                                    \
    "channels: int = 0; ratio: int = 1; fancy_upscaling: bool = true; try_recover_truncated: bool = false; "          \
    "acceptable_fraction: float = 1; dct_method: string = ''"
#define DECODES .kernels = MR_KERNELS(MR_CPU_ANY(run_decode)), .state_bytes = sizeof(state), .init = init_decode
/* Two frames of 2 x 1 pixels: red and blue, then a transparent and a red one. */
#define SMALL_GIF                                                                                                     \
    "\"GIF89a\\x02\\x00\\x01\\x00\\x80\\x00\\x00\\xff\\x00\\x00\\x00\\x00\\xff"                                       \
    ",\\x00\\x00\\x00\\x00\\x02\\x00\\x01\\x00\\x00\\x02\\x02D\\n\\x00"                                               \
    "!\\xf9\\x04\\x01\\x00\\x00\\x01\\x00,\\x00\\x00\\x00\\x00\\x02\\x00\\x01\\x00\\x00\\x02\\x02\\x0c\\n\\x00;\""
/* 1 x 2 pixels, the lower one first in the file. */
#define BMP_HEAD "BM>\\x00\\x00\\x00\\x00\\x00\\x00\\x006\\x00\\x00\\x00(\\x00\\x00\\x00"
#define SMALL_BMP                                                                                                     \
    "\"" BMP_HEAD "\\x01\\x00\\x00\\x00\\x02\\x00\\x00\\x00\\x01\\x00\\x18\\x00"                                      \
    "000000000000000000000000\\x01\\x02\\x03\\x00\\x04\\x05\\x06\\x00\""

MR_OP(DecodePng,
    .doc      = "the pixels of a PNG file (or of a JPEG, or a GIF of one frame): [height, width, channels]",
    .sig      = "contents: string -> image: dtype",
    .attrs    = "channels: int = 0; dtype: {uint8, uint16} = DT_UINT8",
    .shape    = image_shape,
    DECODES,
    .examples = MR_EXAMPLES(
        "p = EncodePng T=uint8: uint8[[[1, 2, 3], [40, 50, 255]]]; dtype=uint8: p -> [[[1, 2, 3], [40, 50, 255]]]",
        "p = EncodePng T=uint8: uint8[[[1, 2, 3]]]; dtype=uint16: p -> [[[257, 514, 771]]]",
        "p = EncodePng T=uint16: uint16[[[1, 258]]]; dtype=uint16: p -> [[[1, 258]]]",
        "p = EncodePng T=uint16: uint16[[[513], [4000]]]; channels=3 dtype=uint8: p -> [[[2, 2, 2], [15, 15, 15]]]",
        "p = EncodePng T=uint8: uint8[[[100, 200, 50]]]; channels=1 dtype=uint8: p -> [[[152]]]",
        "p = EncodePng T=uint8: uint8[[[7]]]; channels=4 dtype=uint8: p -> [[[7, 7, 7, 255]]]",
        "p = EncodeJpeg: uint8[[[128]]]; dtype=uint8: p -> [[[128]]]",
        "dtype=uint8: " SMALL_GIF " -> !INVALID_ARGUMENT Got 2 frames, but animated gifs",
        "dtype=uint8: " SMALL_BMP " -> !INVALID_ARGUMENT Op used: DecodePng",
        "channels=2 dtype=uint8: \"x\" -> !INVALID_ARGUMENT `channels` must be 0, 1, 3 or 4 but got 2",
        "dtype=uint8: \"\" -> !INVALID_ARGUMENT Input is empty.",
        "dtype=uint8: \"\\x89PNG\\x0d\\n\\x1a\\n\" -> !INVALID_ARGUMENT Invalid PNG",
        "dtype=uint8: [\"a\"] -> !INVALID_ARGUMENT rank",
        "dtype=uint8: \"no image\" -> !INVALID_ARGUMENT Unknown image file format."));

MR_OP(DecodeJpeg,
    .doc      = "the pixels of a JPEG file (or of a PNG, or a GIF of one frame): [height, width, channels]",
    .sig      = "contents: string -> image: uint8",
    .attrs    = JPEG_ATTRS,
    .shape    = image_shape,
    DECODES,
    .examples = MR_EXAMPLES(
        "p = EncodeJpeg: uint8[[[128], [128]]]; : p -> [[[128], [128]]]",
        "p = EncodeJpeg: uint8[[[128], [128]]]; channels=3: p -> [[[128, 128, 128], [128, 128, 128]]]",
        "p = EncodeJpeg progressive=true: fill(200, 17,9,3); dct_method=\"INTEGER_ACCURATE\" fancy_upscaling=false "
        "ratio=8: p -> fill(200, 3,2,3)",
        "p = EncodePng T=uint8: uint8[[[1, 2, 3]]]; : p -> [[[1, 2, 3]]]",
        "ratio=3: \"x\" -> !INVALID_ARGUMENT ratio must be 1, 2, 4, or 8, got 3",
        "dct_method=\"SLOW\": \"x\" -> !INVALID_ARGUMENT dct_method must be one of",
        "p = EncodeJpeg: uint8[[[128]]]; channels=4: p -> !INVALID_ARGUMENT JPEG does not support 4 channels",
        "\"\\xff\\xd8\\xff\\xe0\" -> !INVALID_ARGUMENT Invalid JPEG data"));

MR_OP(DecodeAndCropJpeg,
    .doc      = "a part of a JPEG file: crop_window is [y, x, height, width]",
    .sig      = "contents: string, crop_window: int32 -> image: uint8",
    .attrs    = JPEG_ATTRS,
    .shape    = crop_shape,
    DECODES,
    .examples = MR_EXAMPLES(
        "p = EncodeJpeg: fill(90, 20,30,3); : p, [3, 11, 2, 5] -> fill(90, 2,5,3)",
        "p = EncodeJpeg: fill(90, 20,30,1); channels=3: p, [18, 0, 2, 30] -> fill(90, 2,30,3)",
        "p = EncodeJpeg: fill(90, 20,30,1); : p, [18, 0, 3, 30] -> !INVALID_ARGUMENT crop window",
        "p = EncodeJpeg: fill(90, 20,30,1); : p, [18, 0, 3] -> !INVALID_ARGUMENT",
        "p = EncodePng T=uint8: uint8[[[1]]]; : p, [0, 0, 1, 1] -> !INVALID_ARGUMENT JPEG only, but detected PNG."));

MR_OP(DecodeGif,
    .doc      = "the frames of a GIF file (or a PNG or JPEG as one): [frames, height, width, 3]",
    .sig      = "contents: string -> image: uint8",
    .shape    = gif_shape,
    DECODES,
    .examples = MR_EXAMPLES(
        SMALL_GIF " -> [[[[255, 0, 0], [0, 0, 255]]], [[[255, 0, 0], [255, 0, 0]]]]",
        "p = EncodePng T=uint8: uint8[[[1, 2, 3]]]; : p -> [[[[1, 2, 3]]]]",
        "p = EncodeJpeg: uint8[[[128]]]; : p -> [[[[128, 128, 128]]]]",
        "\"GIF89a\" -> !INVALID_ARGUMENT Invalid GIF data (size 6)"));

MR_OP(DecodeBmp,
    .doc      = "the pixels of a BMP file: [height, width, channels]",
    .sig      = "contents: string -> image: uint8",
    .attrs    = "channels: int = 0",
    .shape    = image_shape,
    DECODES,
    .examples = MR_EXAMPLES(
        SMALL_BMP " -> [[[6, 5, 4]], [[3, 2, 1]]]",
        "channels=4: " SMALL_BMP " -> [[[6, 5, 4, 255]], [[3, 2, 1, 255]]]",
        "channels=1: " SMALL_BMP " -> !INVALID_ARGUMENT `channels` must be 0, 3 or 4 for BMP, but got 1",
        "p = EncodePng T=uint8: uint8[[[1, 2, 3]]]; : p -> !INVALID_ARGUMENT Trying to decode PNG format using DecodeBmp op",
        "\"BM123\" -> !INVALID_ARGUMENT Incomplete bmp content"));

MR_OP(DecodeImage,
    .doc      = "the pixels of a JPEG, PNG, BMP or GIF file: [height, width, channels], frames before that",
    .sig      = "contents: string -> image: dtype",
    .attrs    = "channels: int = 0; dtype: {uint8, uint16, float} = DT_UINT8; expand_animations: bool = true",
    .shape    = image_shape,
    DECODES,
    .examples = MR_EXAMPLES(
        "p = EncodePng T=uint8: uint8[[[51, 2, 255]]]; dtype=uint8: p -> [[[51, 2, 255]]]",
        "p = EncodePng T=uint8: uint8[[[51, 0, 255]]]; dtype=float: p -> [[[0.2, 0, 1]]]",
        "p = EncodePng T=uint8: uint8[[[51, 0, 255]]]; dtype=uint16: p -> [[[13107, 0, 65535]]]",
        "dtype=uint16: " SMALL_BMP " -> [[[1536, 1280, 1024]], [[768, 512, 256]]]",
        "dtype=float: " SMALL_GIF " -> [[[[1, 0, 0], [0, 0, 1]]], [[[1, 0, 0], [1, 0, 0]]]]",
        "expand_animations=false dtype=uint8: " SMALL_GIF " -> [[[255, 0, 0], [0, 0, 255]]]",
        "channels=1 dtype=uint8: " SMALL_GIF " -> !INVALID_ARGUMENT channels must be 0 or 3 for GIF, got 1",
        "p = EncodeJpeg: uint8[[[255]]]; dtype=float channels=3: p -> [[[1, 1, 1]]]"));

/* ---- ExtractJpegShape ---- */

static mr_status *jpeg_shape(mr_run *r)
{
    const mr_jpeg *codec;
    int64_t dims[3];
    mr_tensor *out;
    mr_sv bytes;
    MR_TRY(read_contents(r, &bytes));
    MR_TRY(mr_jpeg_codec(&codec));
    MR_TRY(codec->shape(bytes, dims));
    MR_TRY(mr_run_output(r, 0, 1, (const int64_t[]){3}, &out));
    mr_dtype_convert(MR_INT64, dims, (mr_dtype)out->dtype, out->data, 3, false);
    return NULL;
}

static mr_status *jpeg_shape_shape(mr_infer *c)
{
    MR_TRY(mr_infer_ranks(c, 1, (const int[]){0}));
    mr_infer_out_vector(c, 0, 3);
    return NULL;
}

MR_OP(ExtractJpegShape,
    .doc      = "[height, width, channels] of a JPEG file, from its head alone",
    .sig      = "contents: string -> image_shape: output_type",
    .attrs    = "output_type: {int32, int64} = DT_INT32",
    .shape    = jpeg_shape_shape,
    .kernels  = MR_KERNELS(MR_CPU_ONE(jpeg_shape, MR_INDEXES)),
    .examples = MR_EXAMPLES(
        "p = EncodeJpeg: fill(90, 20,30,3); : p -> [20, 30, 3]",
        "p = EncodeJpeg: fill(90, 2,3,1); : p -> [2, 3, 1]",
        "\"abc\" -> !INVALID_ARGUMENT Invalid JPEG data"));
