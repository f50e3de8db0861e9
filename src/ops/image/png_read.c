/* ops/image/png_read.c -- reads PNG files.
 *
 * Which files are accepted, and how pixels are converted, is as in libpng 1.6 with TensorFlow's settings: a wrong
 * CRC or an unknown chunk is an error only if the chunk is critical, data after the image is read to the end, 16
 * bits become 8 by dropping the lower ones, color becomes gray by 0.299 R + 0.587 G + 0.114 B. Gamma is ignored.
 *
 * Rows are inflated some at a time, because zlib is fast only while it has room for long matches, and unfiltered one
 * by one; the pixels of a row become up to four samples each and are stored at their position, which in an interlaced
 * image is every eighth, fourth or second one. */
#include <zlib.h>

#include "base/memory.h"
#include "base/simd.h"
#include "ops/image/png.h"

enum {
    MOST_COLORS = 256,
    MAX_SIDE = 1000000,      /* libpng's limit of width and height */
    INFLATED_BYTES = 1 << 16 /* at a time, or one row if that is longer */
};

typedef struct chunk {
    char type[5];
    mr_sv data;
    bool sound; /* the CRC is right */
} chunk;

typedef struct reader {
    mr_sv rest;
    /* IHDR */
    int64_t width, height;
    int depth, type, interlaced;
    uint8_t palette[MOST_COLORS][3];
    uint8_t alphas[MOST_COLORS]; /* of the palette's colors */
    int n_colors;
    bool has_key;    /* tRNS: one color, or the alphas, define what is transparent */
    uint16_t key[3];
    bool seen_palette;
    chunk next;      /* the one being read */
    z_stream z;
    bool ended;      /* the zlib stream has ended */
    /* the result */
    int channels, bits;
    void *out;
} reader;

static mr_status *bad_png(const char *what)
{
    return mr_invalid("Invalid PNG. Failed to initialize decoder: %s", what);
}
static mr_status *bad_data(const char *what) { return mr_invalid("Invalid PNG data: %s", what); }

/* ---- chunks ---- */

static bool is_critical(const chunk *c) { return (c->type[0] & 0x20) == 0; }
static bool is_type(const chunk *c, const char *type) { return memcmp(c->type, type, 4) == 0; }

static mr_status *next_chunk(reader *p)
{
    chunk *c = &p->next;
    if (p->rest.n < 12)
        return bad_data("it ends too early");
    size_t n = mr_png_u32(p->rest.p);
    if (n > INT32_MAX || n > p->rest.n - 12)
        return bad_data("a chunk is longer than the file");
    memcpy(c->type, p->rest.p + 4, 4);
    for (int i = 0; i < 4; i++)
        if (!((c->type[i] | 0x20) >= 'a' && (c->type[i] | 0x20) <= 'z'))
            return bad_data("a chunk has no name");
    c->data = (mr_sv){p->rest.p + 8, n};
    uint32_t crc = (uint32_t)crc32(crc32(0, NULL, 0), (const uint8_t *)p->rest.p + 4, (uInt)n + 4);
    c->sound = crc == mr_png_u32(p->rest.p + 8 + n);
    p->rest = (mr_sv){p->rest.p + n + 12, p->rest.n - n - 12};
    if (!c->sound && is_critical(c))
        return bad_data("a chunk has a wrong CRC");
    return NULL;
}

static bool depth_fits(int type, int depth)
{
    bool small = depth == 1 || depth == 2 || depth == 4;
    switch (type) {
    case MR_PNG_GRAY: return small || depth == 8 || depth == 16;
    case MR_PNG_PALETTE: return small || depth == 8;
    case MR_PNG_RGB:
    case MR_PNG_GRAY_ALPHA:
    case MR_PNG_RGB_ALPHA: return depth == 8 || depth == 16;
    default: return false;
    }
}

static mr_status *read_header(reader *p)
{
    MR_TRY(next_chunk(p));
    const uint8_t *d = (const uint8_t *)p->next.data.p;
    if (!is_type(&p->next, "IHDR") || p->next.data.n != 13)
        return bad_png("no IHDR");
    p->width = mr_png_u32(p->next.data.p);
    p->height = mr_png_u32(p->next.data.p + 4);
    p->depth = d[8], p->type = d[9], p->interlaced = d[12];
    if (p->width == 0 || p->height == 0 || p->width > MAX_SIDE || p->height > MAX_SIDE)
        return mr_invalid("Invalid PNG. Failed to initialize decoder: invalid size of %lld by %lld pixels",
                          (long long)p->width, (long long)p->height);
    if (!depth_fits(p->type, p->depth) || d[10] != 0 || d[11] != 0 || p->interlaced > 1)
        return bad_png("an unknown kind of pixels");
    return NULL;
}

static mr_status *read_palette(reader *p)
{
    const chunk *c = &p->next;
    if (p->seen_palette)
        return bad_png("two palettes");
    p->seen_palette = true;
    if (!(p->type & MR_PNG_RGB)) /* a gray image needs none */
        return NULL;
    bool odd = c->data.n % 3 != 0 || c->data.n > MOST_COLORS * 3;
    if (c->data.n == 0 || (odd && p->type == MR_PNG_PALETTE))
        return bad_png("a palette of a wrong size");
    if (p->type != MR_PNG_PALETTE)
        return NULL; /* a suggestion for displays with fewer colors */
    p->n_colors = MR_MIN((int)(c->data.n / 3), 1 << p->depth);
    memcpy(p->palette, c->data.p, (size_t)p->n_colors * 3);
    return NULL;
}

/* A tRNS chunk of a wrong kind is ignored. */
static void read_transparency(reader *p)
{
    const chunk *c = &p->next;
    const uint8_t *d = (const uint8_t *)c->data.p;
    if (p->has_key)
        return;
    if (p->type == MR_PNG_PALETTE && c->data.n > 0 && c->data.n <= (size_t)p->n_colors) {
        memcpy(p->alphas, d, c->data.n);
        p->has_key = true;
    }
    size_t n = p->type == MR_PNG_GRAY ? 1 : p->type == MR_PNG_RGB ? 3 : 0;
    if (n == 0 || c->data.n != 2 * n)
        return;
    for (size_t i = 0; i < n; i++)
        p->key[i] = (uint16_t)(d[2 * i] << 8 | d[2 * i + 1]) & (uint16_t)((1u << p->depth) - 1);
    p->has_key = true;
}

/* Reads chunks up to the first IDAT, which is left in p->next. */
static mr_status *read_before_data(reader *p)
{
    for (;;) {
        MR_TRY(next_chunk(p));
        if (is_type(&p->next, "IDAT"))
            break;
        if (is_type(&p->next, "PLTE"))
            MR_TRY(read_palette(p));
        else if (is_type(&p->next, "tRNS") && p->next.sound)
            read_transparency(p);
        else if (is_critical(&p->next))
            return bad_png("a chunk that is unknown or in a wrong place");
    }
    if (p->type == MR_PNG_PALETTE && p->n_colors == 0)
        return bad_png("no palette");
    return NULL;
}

/* After the image: all chunks must be well-formed up to the end, but their contents are ignored. */
static mr_status *read_to_end(reader *p)
{
    while (!is_type(&p->next, "IEND")) {
        MR_TRY(next_chunk(p));
        bool palette = is_type(&p->next, "PLTE") && !p->seen_palette; /* too late, but harmless */
        if (is_critical(&p->next) && !is_type(&p->next, "IEND") && !is_type(&p->next, "IDAT") && !palette)
            return bad_data("a chunk in a wrong place");
        p->seen_palette |= palette;
    }
    return NULL;
}

/* ---- rows ---- */

/* Continues with the next IDAT when this one is used up. */
static mr_status *more_data(reader *p)
{
    while (p->z.avail_in == 0) {
        MR_TRY(next_chunk(p));
        if (!is_type(&p->next, "IDAT"))
            return bad_data("not enough image data");
        p->z.next_in = (uint8_t *)(uintptr_t)p->next.data.p;
        p->z.avail_in = (uInt)p->next.data.n;
    }
    return NULL;
}

/* Inflates exactly n bytes, from as many IDATs as needed. */
static mr_status *inflate_bytes(reader *p, uint8_t *out, size_t n)
{
    p->z.next_out = out;
    p->z.avail_out = (uInt)n;
    while (p->z.avail_out > 0) {
        if (p->ended)
            return bad_data("not enough image data");
        MR_TRY(more_data(p));
        int e = inflate(&p->z, Z_NO_FLUSH);
        if (e == Z_MEM_ERROR)
            return mr_error(MR_RESOURCE_EXHAUSTED, "no memory to inflate a PNG");
        if (e != Z_OK && e != Z_STREAM_END)
            return bad_data("its pixels cannot be inflated");
        p->ended = e == Z_STREAM_END;
    }
    return NULL;
}

/* The stream must have an end; errors in it, or data beyond the image, are ignored. */
static mr_status *finish_data(reader *p)
{
    uint8_t surplus[1024];
    if (p->ended)
        return NULL;
    MR_TRY(more_data(p));
    p->z.next_out = surplus;
    p->z.avail_out = sizeof(surplus);
    inflate(&p->z, Z_NO_FLUSH);
    return NULL;
}

/* ---- pixels ---- */

static int samples_of(int type)
{
    return type == MR_PNG_RGB ? 3 : type == MR_PNG_RGB_ALPHA ? 4 : type == MR_PNG_GRAY_ALPHA ? 2 : 1;
}

static unsigned sample_at(const uint8_t *row, int depth, int64_t i)
{
    if (depth == 8)
        return row[i];
    if (depth == 16)
        return (unsigned)row[2 * i] << 8 | row[2 * i + 1];
    int64_t bit = i * depth;
    return (unsigned)row[bit / 8] >> (8 - depth - bit % 8) & ((1u << depth) - 1);
}

typedef struct pixel { /* in `depth` bits, 8 at least */
    unsigned color[3]; /* all equal if gray */
    unsigned alpha;
} pixel;

/* Pixel i of a row. If there is no alpha it gets the value with which TensorFlow makes libpng fill it: the largest
 * sample in the file's own depth, so 1, 3 or 15 where samples of less than 8 bits were expanded to 8. */
static pixel pixel_at(const reader *p, const uint8_t *row, int64_t i)
{
    int n = samples_of(p->type);
    pixel x = {.alpha = (1u << p->depth) - 1};
    unsigned s[4] = {0};
    for (int k = 0; k < n; k++)
        s[k] = sample_at(row, p->depth, i * n + k);
    if (p->type == MR_PNG_PALETTE) {
        for (int k = 0; k < 3; k++)
            x.color[k] = p->palette[s[0]][k];
        x.alpha = p->has_key ? p->alphas[s[0]] : x.alpha;
        return x;
    }
    bool gray = !(p->type & MR_PNG_RGB), keyed = p->has_key;
    for (int k = 0; k < 3; k++) {
        x.color[k] = s[gray ? 0 : k];
        keyed &= x.color[k] == p->key[gray ? 0 : k];
        if (p->depth < 8)
            x.color[k] *= 255u / ((1u << p->depth) - 1);
    }
    if (p->type & 4)
        x.alpha = s[n - 1];
    else if (p->has_key)
        x.alpha = keyed ? 0 : p->depth == 16 ? 0xffff : 0xff;
    return x;
}

/* Weights of 15 bits, which libpng derives from 0.299 and 0.587; for 8-bit samples it does not round the sum. */
static unsigned gray_of(const pixel *x, int depth)
{
    unsigned r = x->color[0], g = x->color[1], b = x->color[2];
    if (r == g && r == b)
        return r;
    return (9797 * r + 19234 * g + 3737 * b + (depth == 16 ? 16384 : 0)) >> 15;
}

static void put_sample(const reader *p, int64_t at, unsigned v)
{
    bool wide = p->depth == 16;
    if (p->bits == 8)
        ((uint8_t *)p->out)[at] = (uint8_t)(wide ? v >> 8 : v);
    else
        ((uint16_t *)p->out)[at] = (uint16_t)(wide ? v : v * 257);
}

static void put_pixel(const reader *p, int64_t at, const pixel *x)
{
    bool color = p->channels >= 3, file_color = p->type & MR_PNG_RGB;
    at *= p->channels;
    if (color)
        for (int k = 0; k < 3; k++)
            put_sample(p, at + k, x->color[k]);
    else
        put_sample(p, at, file_color ? gray_of(x, p->depth) : x->color[0]);
    if (p->channels % 2 == 0)
        put_sample(p, at + p->channels - 1, x->alpha);
}

/* ---- rows of 8-bit samples, which need no arithmetic ---- */

MR_INLINE void copy_pixels(const uint8_t *restrict x, uint8_t *restrict y, int64_t n, int in, int out)
{
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < out; k++)
            y[i * out + k] = k == 3 && in < 4 ? 0xff : x[i * in + (in >= 3 ? k : 0)];
}

static void copy_colors(const reader *p, const uint8_t *row, uint8_t *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++, out += 3)
        memcpy(out, p->palette[row[i]], 3);
}

/* Puts a row of adjacent pixels whose samples are only moved. False: it has other pixels. */
static bool put_plain_row(const reader *p, const uint8_t *row, int64_t at, int64_t n)
{
    int in = samples_of(p->type), out = p->channels;
    if (p->depth != 8 || p->bits != 8)
        return false;
    uint8_t *y = (uint8_t *)p->out + at * out;
    if (p->type == MR_PNG_PALETTE && out == 3)
        copy_colors(p, row, y, n);
    else if (p->type == MR_PNG_PALETTE)
        return false;
    else if (in == out)
        memcpy(y, row, (size_t)(n * out));
    else if (in == 1 && out == 3)
        copy_pixels(row, y, n, 1, 3);
    else if (in == 4 && out == 3)
        copy_pixels(row, y, n, 4, 3);
    else if (in == 3 && out == 4 && !p->has_key)
        copy_pixels(row, y, n, 3, 4);
    else
        return false;
    return true;
}

/* ---- the image ---- */

typedef struct pass { /* the pixels of a pass: from x0, y0 on, every dx-th of every dy-th row */
    int64_t x0, y0, dx, dy;
} pass;

static const pass whole[] = {{0, 0, 1, 1}};
static const pass adam7[] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}};

static int64_t count_in_pass(int64_t size, int64_t first, int64_t step)
{
    return size > first ? (size - first + step - 1) / step : 0;
}

static size_t row_bytes(const reader *p, int64_t width)
{
    return ((size_t)width * (size_t)(samples_of(p->type) * p->depth) + 7) / 8;
}

/* Puts a row of a pass, w pixels of which the first has position `at`. */
static void put_row(const reader *p, const pass *s, const uint8_t *row, int64_t at, int64_t w)
{
    if (s->dx == 1 && put_plain_row(p, row, at, w))
        return;
    for (int64_t x = 0; x < w; x++) {
        pixel v = pixel_at(p, row, x);
        put_pixel(p, at + x * s->dx, &v);
    }
}

typedef struct rows_room {
    uint8_t *inflated; /* whole rows, each after a byte for its filter */
    size_t bytes;
    uint8_t *above; /* the last row of those inflated before */
} rows_room;

static mr_status *read_pass(reader *p, const pass *s, const rows_room *room)
{
    int64_t w = count_in_pass(p->width, s->x0, s->dx), h = count_in_pass(p->height, s->y0, s->dy);
    size_t n = row_bytes(p, w), step = (size_t)MR_MAX(samples_of(p->type) * p->depth / 8, 1);
    if (w == 0 || h == 0)
        return NULL;
    int64_t most = (int64_t)(room->bytes / (n + 1));
    memset(room->above, 0, n);
    for (int64_t y = 0; y < h; y += most) {
        int64_t end = MR_MIN(h, y + most);
        const uint8_t *above = room->above;
        uint8_t *row = room->inflated;
        MR_TRY(inflate_bytes(p, row, (size_t)(end - y) * (n + 1)));
        for (int64_t i = y; i < end; i++, above = row + 1, row += n + 1) {
            if (!mr_png_unfilter(row[0], row + 1, above, n, step))
                return bad_data("an unknown filter");
            put_row(p, s, row + 1, (s->y0 + i * s->dy) * p->width + s->x0, w);
        }
        memcpy(room->above, above, n);
    }
    return NULL;
}

static mr_status *read_image(reader *p)
{
    const pass *passes = p->interlaced ? adam7 : whole;
    int n = p->interlaced ? MR_COUNT(adam7) : 1;
    size_t row = row_bytes(p, p->width) + 1;
    size_t bytes = MR_MIN(row * (size_t)p->height, MR_MAX(row, (size_t)INFLATED_BYTES));
    uint8_t *all = mr_try_calloc(1, bytes + row + 2 * MR_PNG_SLACK);
    if (!all)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a row of %lld pixels", (long long)p->width);
    rows_room room = {all, bytes, all + bytes + MR_PNG_SLACK};
    mr_status *st = NULL;
    for (int i = 0; i < n && !st; i++)
        st = read_pass(p, &passes[i], &room);
    mr_free(all);
    return st;
}

/* Deflate expands a byte to at most 1032: a file too short for its image is refused before memory is allocated for
 * it. */
static mr_status *check_fill(const reader *p)
{
    uint64_t rows = (uint64_t)row_bytes(p, p->width) * (uint64_t)p->height;
    if (rows / 1040 > p->next.data.n + p->rest.n)
        return bad_data("not enough image data");
    return NULL;
}

static mr_status *decode_png(reader *p, int channels, mr_image_room *room)
{
    MR_TRY(read_header(p));
    MR_TRY(read_before_data(p));
    if (p->width * p->height >= (int64_t)1 << 29)
        return mr_invalid("PNG size too large for int: %lld by %lld", (long long)p->width, (long long)p->height);
    p->channels = channels                       ? channels
                  : p->type == MR_PNG_PALETTE    ? (p->has_key ? 4 : 3)
                                                 : samples_of(p->type);
    MR_TRY(check_fill(p));
    MR_TRY(room->make(room, 1, p->height, p->width, p->channels, &p->out));
    p->z.next_in = (uint8_t *)(uintptr_t)p->next.data.p;
    p->z.avail_in = (uInt)p->next.data.n;
    MR_TRY(read_image(p));
    MR_TRY(finish_data(p));
    return read_to_end(p);
}

mr_status *mr_png_decode(mr_sv bytes, int channels, int bits, mr_image_room *room)
{
    if (bytes.n < 8 || memcmp(bytes.p, MR_PNG_SIGNATURE, 8) != 0)
        return bad_png("no PNG");
    reader *p = mr_new(reader);
    p->rest = (mr_sv){bytes.p + 8, bytes.n - 8};
    p->bits = bits;
    memset(p->alphas, 0xff, sizeof(p->alphas));
    mr_status *st = inflateInit(&p->z) == Z_OK ? NULL : mr_error(MR_RESOURCE_EXHAUSTED, "no memory to inflate a PNG");
    if (!st) {
        st = decode_png(p, channels, room);
        inflateEnd(&p->z);
    }
    mr_free(p);
    return st;
}
