/* ops/image/png_write.c -- writes PNG files, byte for byte as libpng does by default.
 *
 * Each row is filtered with every allowed filter, and the result with the smallest sum of magnitudes (bytes as
 * signed numbers) is used, because it compresses best. */
#include <limits.h>
#include <zlib.h>

#include "base/memory.h"
#include "ops/image/png.h"

enum { PIECE = 8192, MOST_CHANNELS = 4 };

typedef struct writer {
    const mr_png_image *image;
    mr_str *out;
    z_stream z;
    bool began;             /* part of the stream is written */
    size_t row_bytes, step; /* bytes of a row, and of a pixel */
    uint8_t *rows;          /* the previous row, this one, one for each filter: each with `step` zeros in front */
    uint8_t piece[PIECE];   /* a part of the zlib stream: one IDAT */
} writer;

static mr_status *no_memory(void) { return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a PNG"); }

static void store_u32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (24 - 8 * i));
}

static mr_status *put_chunk(mr_str *out, const char *type, const void *data, size_t n)
{
    uint8_t head[8], crc[4];
    store_u32(head, (uint32_t)n);
    memcpy(head + 4, type, 4);
    store_u32(crc, (uint32_t)crc32(crc32(crc32(0, NULL, 0), head + 4, 4), data, (uInt)n));
    bool ok = mr_str_try_append(out, head, 8) && mr_str_try_append(out, data, n) && mr_str_try_append(out, crc, 4);
    return ok ? NULL : no_memory();
}

/* ---- deflating ---- */

/* Reduces the window size in the first bytes of the stream, which limits back references, to the size of the image. */
static void shrink_window(writer *w)
{
    uint64_t n = (uint64_t)(w->row_bytes + 1) * (uint64_t)w->image->height;
    uint8_t *head = w->piece;
    unsigned info = head[0] >> 4;
    if (w->began || n > 16384)
        return;
    w->began = true;
    while (info > 0 && n <= (uint64_t)1 << (info + 7))
        info--;
    head[0] = (uint8_t)(info << 4 | (head[0] & 0xf));
    head[1] &= 0xe0; /* the two bytes must be a multiple of 31 */
    head[1] = (uint8_t)(head[1] + 31 - (head[0] << 8 | head[1]) % 31);
}

/* Compresses z.next_in; writes full pieces, and at the end also the last one. */
static mr_status *deflate_bytes(writer *w, int flush)
{
    for (;;) {
        int e = deflate(&w->z, flush);
        if (e != Z_OK && e != Z_BUF_ERROR && e != Z_STREAM_END)
            return mr_error(MR_INTERNAL, "PNG encoding failed");
        if (w->z.avail_out == 0 || e == Z_STREAM_END) {
            shrink_window(w);
            MR_TRY(put_chunk(w->out, "IDAT", w->piece, PIECE - w->z.avail_out));
            w->z.next_out = w->piece;
            w->z.avail_out = PIECE;
        }
        if (e == Z_STREAM_END || (flush == Z_NO_FLUSH && w->z.avail_in == 0))
            return NULL;
    }
}

/* The smallest window that a small image needs. */
static int window_bits(const writer *w)
{
    uint64_t n = (uint64_t)(w->row_bytes + 1) * (uint64_t)w->image->height;
    int bits = 15;
    for (uint64_t half = 1u << 14; n <= 16384 && n + 262 <= half && bits > 9; half >>= 1)
        bits--;
    return bits;
}

/* ---- filtering ---- */

static uint8_t *row_at(const writer *w, int i) { return w->rows + (size_t)i * (w->step + 1 + w->row_bytes) + w->step + 1; }
static uint8_t *row_before(const writer *w) { return row_at(w, 0); }
static uint8_t *plain_row(const writer *w) { return row_at(w, 1); }
static uint8_t *filtered_row(const writer *w, int filter) { return row_at(w, 1 + filter); } /* NONE is the row itself */

static uint8_t predict_byte(int filter, int left, int above, int corner)
{
    switch (filter) {
    case MR_PNG_SUB: return (uint8_t)left;
    case MR_PNG_UP: return (uint8_t)above;
    case MR_PNG_AVERAGE: return (uint8_t)((left + above) >> 1);
    default: return mr_png_paeth(left, above, corner);
    }
}

static uint64_t sum_magnitudes(const uint8_t *p, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += p[i] < 128 ? p[i] : 256 - p[i];
    return sum;
}

/* With a single row or column some filters have nothing to predict from. */
static bool is_allowed(const writer *w, int filter)
{
    if (w->image->height == 1 && filter >= MR_PNG_UP)
        return false;
    return !(w->image->width == 1 && filter != MR_PNG_NONE && filter != MR_PNG_UP);
}

static int choose_filter(const writer *w)
{
    const uint8_t *x = plain_row(w), *up = row_before(w);
    uint64_t best_sum = sum_magnitudes(x, w->row_bytes);
    int best = MR_PNG_NONE;
    for (int f = MR_PNG_SUB; f < MR_PNG_FILTERS; f++) {
        if (!is_allowed(w, f))
            continue;
        uint8_t *out = filtered_row(w, f);
        for (size_t i = 0; i < w->row_bytes; i++)
            out[i] = (uint8_t)(x[i] - predict_byte(f, x[(ptrdiff_t)i - (ptrdiff_t)w->step], up[i],
                                                   up[(ptrdiff_t)i - (ptrdiff_t)w->step]));
        uint64_t sum = sum_magnitudes(out, w->row_bytes);
        if (sum < best_sum)
            best_sum = sum, best = f;
    }
    return best;
}

/* Copies a row of the image with its samples big-endian. */
static void load_row(const writer *w, int64_t y)
{
    const char *from = (const char *)w->image->pixels + (size_t)y * w->row_bytes;
    uint8_t *to = plain_row(w);
    if (w->image->bits == 8) {
        memcpy(to, from, w->row_bytes);
        return;
    }
    for (size_t i = 0; i < w->row_bytes / 2; i++) {
        uint16_t v;
        memcpy(&v, from + 2 * i, 2);
        to[2 * i] = (uint8_t)(v >> 8);
        to[2 * i + 1] = (uint8_t)v;
    }
}

static mr_status *put_rows(writer *w)
{
    for (int64_t y = 0; y < w->image->height; y++) {
        load_row(w, y);
        int f = choose_filter(w);
        uint8_t *row = filtered_row(w, f);
        row[-1] = (uint8_t)f;
        w->z.next_in = row - 1;
        w->z.avail_in = (uInt)w->row_bytes + 1;
        MR_TRY(deflate_bytes(w, Z_NO_FLUSH));
        row[-1] = 0; /* this byte is the corner of the next row's first pixel */
        memcpy(row_before(w), plain_row(w), w->row_bytes);
    }
    return deflate_bytes(w, Z_FINISH);
}

/* ---- the file ---- */

static mr_status *put_header(const writer *w)
{
    static const uint8_t types[] = {MR_PNG_GRAY, MR_PNG_GRAY_ALPHA, MR_PNG_RGB, MR_PNG_RGB_ALPHA};
    uint8_t d[13] = {0};
    store_u32(d, (uint32_t)w->image->width);
    store_u32(d + 4, (uint32_t)w->image->height);
    d[8] = (uint8_t)w->image->bits;
    d[9] = types[w->image->channels - 1];
    if (!mr_str_try_append(w->out, MR_PNG_SIGNATURE, 8))
        return no_memory();
    return put_chunk(w->out, "IHDR", d, sizeof(d));
}

static mr_status *write_image(writer *w)
{
    size_t room = w->step + 1 + w->row_bytes;
    if (!(w->rows = mr_try_calloc(1 + MR_PNG_FILTERS, room)))
        return no_memory();
    if (deflateInit2(&w->z, w->image->compression, Z_DEFLATED, window_bits(w), MAX_MEM_LEVEL, Z_FILTERED) != Z_OK)
        return no_memory();
    w->z.next_out = w->piece;
    w->z.avail_out = PIECE;
    mr_status *st = put_header(w);
    if (!st)
        st = put_rows(w);
    deflateEnd(&w->z);
    return st ? st : put_chunk(w->out, "IEND", "", 0);
}

mr_status *mr_png_encode(const mr_png_image *image, mr_str *out)
{
    MR_ASSERT(image->channels >= 1 && image->channels <= MOST_CHANNELS && (image->bits == 8 || image->bits == 16));
    int64_t samples;
    if (image->width <= 0 || image->height <= 0 || image->width > 1000000 || image->height > 1000000)
        return mr_error(MR_INTERNAL, "PNG encoding failed: cannot encode an image of %lld by %lld pixels",
                        (long long)image->width, (long long)image->height);
    if (!mr_i64_mul(image->width, image->channels, &samples) || samples > INT_MAX / 2)
        return mr_invalid("image too wide to encode");
    writer *w = mr_new(writer);
    w->image = image;
    w->out = out;
    w->step = (size_t)(image->channels * image->bits / 8);
    w->row_bytes = (size_t)image->width * w->step;
    mr_status *st = write_image(w);
    mr_free(w->rows);
    mr_free(w);
    return st;
}
