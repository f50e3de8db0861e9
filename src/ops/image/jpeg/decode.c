/* ops/image/jpeg/decode.c -- reads JPEG files with libjpeg, in the way TensorFlow does.
 *
 * When the data ends too early libjpeg is told to suspend: the rows it can give without more data are used, and the
 * caller decides whether they are enough (`acceptable`). If the rest must be filled in (`recover`), an end marker
 * is put behind the data.
 *
 * libjpeg's memory is limited, and so is the number of scans of a progressive file: a short file cannot keep a
 * machine busy. */
#include "base/memory.h"
#include "ops/image/jpeg/internal.h"

enum { MOST_SCANS = 500 };
#define MOST_MEMORY ((uint64_t)1 << 31)

typedef struct work {
    struct jpeg_decompress_struct info;
    mr_jpeg_errors errors;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    mr_sv bytes;
    const mr_jpeg_reading *how;
    mr_image_room *room;
    int64_t *out_dims;   /* set if only the size is requested */
    int components;      /* of the result */
    int64_t height, width; /* of the result */
    int64_t n_read;      /* rows */
    uint8_t *out, *line; /* line: one row from libjpeg, if it must be converted; owned */
} work;

/* ---- the source: all bytes at once ---- */

static void ignore_source(j_decompress_ptr info) { (void)info; }

static boolean no_more(j_decompress_ptr info)
{
    static const JOCTET end[] = {0xff, JPEG_EOI};
    work *w = (work *)info->client_data;
    if (!w->how->recover)
        return FALSE;
    info->src->next_input_byte = end;
    info->src->bytes_in_buffer = sizeof(end);
    return TRUE;
}

static void skip_input(j_decompress_ptr info, long n)
{
    struct jpeg_source_mgr *s = info->src;
    if (n <= 0)
        return;
    size_t now = MR_MIN((size_t)n, s->bytes_in_buffer);
    s->next_input_byte += now;
    s->bytes_in_buffer -= now;
    /* Skipping beyond the end means reaching the end. */
}

static void on_progress(j_common_ptr info)
{
    if (((j_decompress_ptr)info)->input_scan_number > MOST_SCANS)
        mr_jpeg_leave(info, mr_invalid("Invalid JPEG data: more than %d scans", MOST_SCANS));
}

static void open_source(work *w)
{
    jpeg_create_decompress(&w->info);
    w->source = (struct jpeg_source_mgr){(const JOCTET *)w->bytes.p, w->bytes.n, ignore_source, no_more, skip_input,
                                         jpeg_resync_to_restart, ignore_source};
    w->progress.progress_monitor = on_progress;
    w->info.src = &w->source;
    w->info.progress = &w->progress;
    if (jpeg_read_header(&w->info, TRUE) != JPEG_HEADER_OK)
        mr_jpeg_leave((j_common_ptr)&w->info, mr_invalid("Invalid JPEG data: its header is incomplete"));
}

/* ---- the size ---- */

static bool is_cmyk(const work *w)
{
    return w->info.jpeg_color_space == JCS_CMYK || w->info.jpeg_color_space == JCS_YCCK;
}

static void choose_output(work *w)
{
    const mr_jpeg_reading *how = w->how;
    w->components = how->channels ? how->channels : MR_MIN(w->info.num_components, 3);
    if (w->components != 1 && w->components != 3)
        mr_jpeg_leave((j_common_ptr)&w->info, mr_invalid("Invalid JPEG data: %d components", w->components));
    /* libjpeg does not convert CMYK to RGB: that is done here. */
    w->info.out_color_space = w->components == 1 ? JCS_GRAYSCALE : is_cmyk(w) ? JCS_CMYK : JCS_RGB;
    w->info.do_fancy_upsampling = how->fancy_upscaling;
    w->info.scale_num = 1;
    w->info.scale_denom = (unsigned)how->ratio;
    w->info.dct_method = how->accurate ? JDCT_ISLOW : JDCT_IFAST;
    jpeg_calc_output_dimensions(&w->info);
}

/* Every block of 8 x 8 samples takes at least one bit of Huffman codes. If all rows are required, a file that is
 * too short for its blocks is refused before memory is allocated for them. */
static bool can_be_filled(const work *w)
{
    uint64_t blocks = 0;
    if (w->how->recover || w->how->acceptable < 1 || w->info.arith_code)
        return true;
    for (int i = 0; i < w->info.num_components; i++) {
        const jpeg_component_info *c = &w->info.comp_info[i];
        blocks += (uint64_t)c->width_in_blocks * (uint64_t)c->height_in_blocks;
    }
    return blocks <= 8 * (uint64_t)w->bytes.n;
}

static void check_size(work *w)
{
    uint64_t samples = (uint64_t)w->info.output_height * w->info.output_width * (uint64_t)w->info.num_components;
    j_common_ptr info = (j_common_ptr)&w->info;
    if (samples == 0 || samples >= (uint64_t)1 << 29)
        mr_jpeg_leave(info, mr_invalid("Invalid JPEG data: image too large: %u x %u x %d", w->info.output_height,
                                       w->info.output_width, w->info.num_components));
    if (!can_be_filled(w))
        mr_jpeg_leave(info, mr_invalid("Invalid JPEG data: %zu bytes for an image of %u x %u", w->bytes.n,
                                       w->info.image_height, w->info.image_width));
    /* The coefficients of a whole image (progressive files) take 2 bytes per sample, for at most four planes. */
    uint64_t pixels = (uint64_t)(w->info.image_width + 128) * (w->info.image_height + 128);
    uint64_t most = pixels * 2 * (uint64_t)w->info.num_components + (16u << 20);
    w->info.mem->max_memory_to_use = (long)MR_MIN(most, MOST_MEMORY);
}

/* ---- cropping ---- */

static void begin_crop(work *w)
{
    const mr_jpeg_reading *c = w->how;
    bool inside = c->crop_width > 0 && c->crop_height > 0 && c->crop_x >= 0 && c->crop_y >= 0 &&
                  (int64_t)c->crop_y + c->crop_height <= w->info.output_height &&
                  (int64_t)c->crop_x + c->crop_width <= w->info.output_width;
    if (!inside)
        mr_jpeg_leave((j_common_ptr)&w->info,
                      mr_invalid("Invalid JPEG data or crop window: x=%d, y=%d, w=%d, h=%d for image_width: %u and "
                                 "image_height: %u", c->crop_x, c->crop_y, c->crop_width, c->crop_height,
                                 w->info.output_width, w->info.output_height));
    JDIMENSION x = (JDIMENSION)c->crop_x, width = (JDIMENSION)c->crop_width;
    jpeg_crop_scanline(&w->info, &x, &width); /* to whole blocks: the excess is at the left */
    if (jpeg_skip_scanlines(&w->info, (JDIMENSION)c->crop_y) != (JDIMENSION)c->crop_y)
        mr_jpeg_leave((j_common_ptr)&w->info, mr_invalid("Invalid JPEG data: it ends before the crop window"));
    w->height = c->crop_height;
    w->width = c->crop_width;
}

/* ---- rows ---- */

/* Adobe's files store inverted values (light), others the amount of ink. */
static void cmyk_to_rgb(const work *w, const uint8_t *in, uint8_t *out)
{
    for (int64_t x = 0; x < w->width; x++, in += 4, out += 3)
        for (int i = 0; i < 3; i++)
            out[i] = (uint8_t)(w->info.saw_Adobe_marker ? in[3] * in[i] / 255 : (255 - in[3]) * (255 - in[i]) / 255);
}

static bool read_row(work *w, uint8_t *out)
{
    bool cmyk = w->info.out_color_space == JCS_CMYK;
    size_t samples = cmyk ? 4 : (size_t)w->components, surplus = (size_t)w->info.output_width - (size_t)w->width;
    JSAMPROW row = w->line ? w->line : out;
    if (jpeg_read_scanlines(&w->info, &row, 1) != 1)
        return false;
    if (cmyk)
        cmyk_to_rgb(w, w->line + surplus * samples, out);
    else if (w->line)
        memcpy(out, w->line + surplus * samples, (size_t)w->width * samples);
    return true;
}

static void make_room(work *w)
{
    void *out;
    bool changed = w->info.out_color_space == JCS_CMYK || w->width != (int64_t)w->info.output_width;
    mr_status *st = w->room->make(w->room, 1, w->height, w->width, w->components, &out);
    if (st)
        mr_jpeg_leave((j_common_ptr)&w->info, st);
    w->out = out;
    if (changed && !(w->line = mr_try_alloc((size_t)w->info.output_width * 4)))
        mr_jpeg_leave((j_common_ptr)&w->info, mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a row of a JPEG"));
}

static void read_rows(work *w)
{
    size_t stride = (size_t)w->width * (size_t)w->components;
    while (w->n_read < w->height && read_row(w, w->out + (size_t)w->n_read * stride))
        w->n_read++;
    for (int64_t y = w->n_read; y < w->height; y++) /* with `recover` the last row is repeated */
        if (y > 0 && w->how->recover)
            memcpy(w->out + (size_t)y * stride, w->out + (size_t)(y - 1) * stride, stride);
        else
            memset(w->out + (size_t)y * stride, 0, stride);
    if ((float)w->n_read / (float)w->height < MR_MIN(1.0f, w->how->acceptable) && !w->how->recover)
        mr_jpeg_leave((j_common_ptr)&w->info, mr_invalid("Invalid JPEG data: it contains only %lld of %lld rows",
                                                         (long long)w->n_read, (long long)w->height));
}

static void decode_image(void *ctx)
{
    work *w = ctx;
    open_source(w);
    choose_output(w);
    check_size(w);
    if (!jpeg_start_decompress(&w->info))
        mr_jpeg_leave((j_common_ptr)&w->info, mr_invalid("Invalid JPEG data: it ends too early"));
    w->height = w->info.output_height;
    w->width = w->info.output_width;
    if (w->how->crop)
        begin_crop(w);
    make_room(w);
    read_rows(w);
    if (w->info.output_scanline == w->info.output_height)
        jpeg_finish_decompress(&w->info); /* data after the image must be valid too */
}

/* ---- entry points ---- */

static mr_status *run_guarded(work *w, void (*fn)(void *))
{
    mr_jpeg_errors_init(&w->errors);
    w->info.err = &w->errors.base;
    w->info.client_data = w;
    mr_jpeg_guard(&w->errors, fn, w);
    jpeg_destroy_decompress(&w->info); /* also if it was not created: all zero is accepted */
    mr_free(w->line);
    mr_status *st = w->errors.st;
    mr_free(w);
    return st;
}

mr_status *mr_jpeg_decode(mr_sv bytes, const mr_jpeg_reading *how, mr_image_room *room)
{
    work *w = mr_new(work);
    w->bytes = bytes;
    w->how = how;
    w->room = room;
    return run_guarded(w, decode_image);
}

/* The number of components is libjpeg's default. */
static void read_shape(void *ctx)
{
    work *w = ctx;
    open_source(w);
    jpeg_calc_output_dimensions(&w->info);
    w->out_dims[0] = w->info.output_height;
    w->out_dims[1] = w->info.output_width;
    w->out_dims[2] = w->info.output_components;
}

mr_status *mr_jpeg_shape(mr_sv bytes, int64_t out_dims[3])
{
    static const mr_jpeg_reading plain = {.ratio = 1};
    work *w = mr_new(work);
    w->bytes = bytes;
    w->how = &plain;
    w->out_dims = out_dims;
    return run_guarded(w, read_shape);
}
