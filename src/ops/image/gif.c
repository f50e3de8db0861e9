/* ops/image/gif.c -- reads GIF files: all frames, each on top of those before.
 *
 *     "GIF87a" or "GIF89a", width 2, height 2, flags, background, aspect, [global colors]
 *     then blocks:  '!' extension: what it is, data in pieces
 *                   ',' frame: left 2, top 2, width 2, height 2, flags, [own colors], its pixels
 *                   ';' the end
 *
 * As in TensorFlow the canvas has the size of the largest frame, whatever the header says; pixels that a frame does
 * not cover or that are transparent show the previous frame, or black; the disposal method of a frame is ignored.
 * Of a truncated file the complete frames are read.
 *
 * Frames are read twice: first to count the complete ones and get their sizes, then into the allocated memory. */
#include "base/memory.h"
#include "ops/image/codec.h"
#include "ops/image/gif_lzw.h"

typedef struct colors {
    const uint8_t *rgb; /* NULL: none */
    int n;
} colors;

typedef struct frame {
    int64_t left, top, width, height;
    bool interlaced;
    int transparent; /* -1: none */
    colors colors;
    mr_sv pixels;    /* from the code size on */
} frame;

typedef struct gif {
    mr_sv rest;
    size_t bytes;
    colors global;
    int transparent; /* of the next frame; -2: not set yet */
    frame *frames;
    int n_frames, room;
    mr_lzw lzw;
    uint8_t *row;
} gif;

static mr_status *bad_gif(const gif *g, const char *what)
{
    return mr_invalid("Invalid GIF data (size %zu), %s", g->bytes, what);
}

static bool take_bytes(gif *g, size_t n, const uint8_t **out)
{
    if (g->rest.n < n)
        return false;
    *out = (const uint8_t *)g->rest.p;
    g->rest = (mr_sv){g->rest.p + n, g->rest.n - n};
    return true;
}

static int64_t read_u16(const uint8_t *p) { return p[0] | p[1] << 8; }

/* Reads the color table that the flags announce. */
static bool take_colors(gif *g, uint8_t flags, colors *out)
{
    if (!(flags & 0x80))
        return true;
    out->n = 2 << (flags & 7);
    return take_bytes(g, (size_t)out->n * 3, &out->rgb);
}

/* ---- first pass ---- */

/* The first graphic control, if it is well-formed, applies to the next frame. */
static void read_control(gif *g, const uint8_t *data, size_t n)
{
    if (g->transparent == -2)
        g->transparent = n == 4 && (data[0] & 1) ? data[3] : -1;
}

static bool read_extension(gif *g)
{
    const uint8_t *code, *n, *data;
    if (!take_bytes(g, 1, &code))
        return false;
    for (bool first = true;; first = false) {
        if (!take_bytes(g, 1, &n) || !take_bytes(g, *n, &data))
            return false;
        if (*n == 0)
            return true;
        if (first && *code == 0xf9)
            read_control(g, data, *n);
    }
}

static mr_status *keep_frame(gif *g, const frame *f)
{
    if (g->n_frames == g->room) {
        int room = g->room ? 2 * g->room : 4;
        frame *p = mr_try_realloc(g->frames, (size_t)room * sizeof(*p));
        if (!p)
            return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %d frames", room);
        g->frames = p;
        g->room = room;
    }
    g->frames[g->n_frames++] = *f;
    return NULL;
}

/* *whole: false when the data is truncated within the frame. */
static mr_status *read_frame(gif *g, bool *whole)
{
    const uint8_t *d;
    frame f = {.transparent = MR_MAX(g->transparent, -1), .colors = g->global};
    *whole = false;
    if (!take_bytes(g, 9, &d) || !take_colors(g, d[8], &f.colors))
        return NULL;
    f.left = read_u16(d), f.top = read_u16(d + 2), f.width = read_u16(d + 4), f.height = read_u16(d + 6);
    f.interlaced = d[8] & 0x40;
    f.pixels = g->rest;
    if (f.width == 0 || f.height == 0)
        return bad_gif(g, "a frame has no size");
    if (!mr_lzw_init(&g->lzw, f.pixels))
        return bad_gif(g, "a frame has no pixels");
    /* A code has at least 2 bits and represents at most as many pixels as there are codes. */
    if ((uint64_t)(f.width * f.height) / (MR_LZW_CODES * 4) > g->rest.n)
        return NULL;
    if (!mr_lzw_read(&g->lzw, NULL, (size_t)(f.width * f.height)) || !mr_lzw_finish(&g->lzw))
        return NULL;
    g->rest = g->lzw.rest;
    g->transparent = -2;
    *whole = true;
    return keep_frame(g, &f);
}

static mr_status *read_blocks(gif *g)
{
    const uint8_t *kind, *head;
    if (!take_bytes(g, 13, &head) || !take_colors(g, head[10], &g->global))
        return bad_gif(g, "its header is incomplete");
    for (bool whole = true; whole && take_bytes(g, 1, &kind) && *kind != ';';)
        if (*kind == ',')
            MR_TRY(read_frame(g, &whole));
        else
            whole = *kind == '!' && read_extension(g);
    if (g->n_frames == 0)
        return bad_gif(g, "gif file does not contain any image");
    return NULL;
}

/* ---- second pass ---- */

typedef struct canvas {
    int64_t width, height;
    uint8_t *pixels; /* of the frame being drawn */
} canvas;

static mr_status *draw_row(gif *g, const frame *f, const canvas *c, int64_t y)
{
    if (f->top + y >= c->height || f->left >= c->width)
        return NULL;
    uint8_t *out = c->pixels + ((f->top + y) * c->width + f->left) * 3;
    int64_t n = MR_MIN(f->width, c->width - f->left);
    for (int64_t x = 0; x < n; x++, out += 3) {
        int index = g->row[x];
        if (index == f->transparent)
            continue;
        if (index >= f->colors.n)
            return bad_gif(g, "found a color index outside of the color map");
        memcpy(out, f->colors.rgb + 3 * index, 3);
    }
    return NULL;
}

static mr_status *draw_frame(gif *g, const frame *f, const canvas *c)
{
    static const int starts[] = {0, 4, 2, 1}, steps[] = {8, 8, 4, 2};
    if (!f->colors.rgb)
        return bad_gif(g, "missing color map for a frame");
    mr_lzw_init(&g->lzw, f->pixels);
    for (int pass = 0; pass < (f->interlaced ? 4 : 1); pass++)
        for (int64_t y = f->interlaced ? starts[pass] : 0; y < f->height; y += f->interlaced ? steps[pass] : 1) {
            MR_ENSURE(mr_lzw_read(&g->lzw, g->row, (size_t)f->width)); /* it succeeded in the first pass */
            MR_TRY(draw_row(g, f, c, y));
        }
    return NULL;
}

static mr_status *draw_all(gif *g, int n, canvas c)
{
    size_t bytes = (size_t)(c.width * c.height) * 3;
    for (int i = 0; i < n; i++, c.pixels += bytes) {
        if (i == 0)
            memset(c.pixels, 0, bytes);
        else
            memcpy(c.pixels, c.pixels - bytes, bytes);
        MR_TRY(draw_frame(g, &g->frames[i], &c));
    }
    return NULL;
}

static mr_status *decode_gif(gif *g, bool all, mr_image_room *room)
{
    canvas c = {0};
    void *pixels;
    MR_TRY(read_blocks(g));
    for (int i = 0; i < g->n_frames; i++) {
        c.width = MR_MAX(c.width, g->frames[i].width);
        c.height = MR_MAX(c.height, g->frames[i].height);
    }
    int n = all ? g->n_frames : 1;
    MR_TRY(room->make(room, n, c.height, c.width, 3, &pixels));
    c.pixels = pixels;
    g->row = mr_alloc((size_t)c.width); /* 64 KiB at most */
    return draw_all(g, n, c);
}

mr_status *mr_gif_decode(mr_sv bytes, bool all, mr_image_room *room)
{
    gif *g = mr_new(gif);
    g->rest = bytes;
    g->bytes = bytes.n;
    g->transparent = -2;
    mr_status *st = bytes.n < 3 || memcmp(bytes.p, "GIF", 3) != 0 ? bad_gif(g, "no GIF") : decode_gif(g, all, room);
    mr_free(g->frames);
    mr_free(g->row);
    mr_free(g);
    return st;
}
