/* ops/nn/conv_direct.c -- convolutions of floats by the tiles of matrix products.
 *
 * An image row is stored pixel by pixel, so one row of a window covers a contiguous run of
 * width x channels floats, and the next pixel covers the run one pixel later.  So for each row of
 * the window, a row of the image is a matrix whose rows overlap, and the filter in TensorFlow's
 * layout is the other matrix: a convolution is a product summed over the rows of the window.  The
 * matrix of windows is never written out; only rows that need padding at their sides are copied
 * first.  Rows of the window above or below the image are skipped.
 *
 * The gradient by the image is the convolution of the other gradient with the mirrored filter.
 * The gradient by the filter is, for a row of the window, the product of the transposed matrix of
 * windows with the gradient.  Threads divide it by pieces of the filter, so there are no partial
 * sums to add.  The order of additions does not depend on how the work is divided. */
#include "ops/nn/conv_direct.h"

#include "base/deterministic.h"
#include "base/memory.h"
#include "ops/linalg/gemm.h"
#include "ops/linalg/tiles.h"

enum {
    PANEL_ROWS = 288,       /* a panel of the gradient with this many rows fits the L1 cache */
    SUM_ROWS = 2048,        /* rows of the filter that are summed before C is stored: a panel fits the L2 cache, which.. */
                            /* ..is fast enough for a tile, while storing sums and adding to them later takes time */
    PANELS_FLOATS = 1 << 16, /* several panels fit the L2 cache, beside an image */
    PIXELS = 256,           /* pixels of a block, for which a panel is read once; at most that many.. */
    BLOCK_FLOATS = 1 << 16, /* ..that so much of the image is used with a panel: it fits the L2 cache */
    ROOM_FLOATS = 1 << 17,  /* copied rows of a block */
    SEGMENTS = 8,           /* images of a block */
    ROWS_FLOATS = 1 << 15,  /* copied rows of this many floats fit the L2 cache */
    COLLIDING = 1024,       /* pixels so many floats apart collide in the L1 cache.. */
    COLLIDING_ROWS = 8,     /* ..which has that many ways */
};
#define WORK_NS 0.025 /* per multiplication */

/* A plain convolution: in x filter -> out.  Sizes are of one image. */
typedef struct plain {
    int64_t batch, in_h, in_w, in_c, out_h, out_w, out_c;
    int64_t win_h, win_w, step_y, step_x, holes_y; /* holes_y: dilation */
    int64_t top, left;                             /* padding */
    int64_t wide;                                  /* pixels of a row that the windows cover */
    bool as_it_is;                                 /* rows need no padding */
    int64_t last;                                  /* pixels of the last row of the out image */
} plain;

typedef struct job {
    const mr_tiles *tiles;
    mr_allocator *alloc;
    plain p;
    const float *in, *in_end, *filter; /* filter: packed into panels of all its rows */
    float *out;
    const mr_conv_end *end; /* NULL: nothing */
    int64_t piece, pieces;  /* rows of the filter that are summed at a time, within a row of the window; their number */
    int64_t group_rows;     /* rows of the window that are summed at a time, if pieces = 1 */
    int64_t height;         /* most pixels of a tile */
    const float *grad; /* for the gradient of a filter: the gradient of the out image */
    int64_t group,
        n_groups; /* rows of the filter in a unit of work, units in a row of the window */
    atomic_bool out_of_room;
} job;

static int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

/* ---- geometry ---- */

static plain forward_of(const mr_conv *c)
{
    plain p = {.batch = c->batch,
               .in_h = c->in[1],
               .in_w = c->in[2],
               .in_c = c->in_channels,
               .out_h = c->out[1],
               .out_w = c->out[2],
               .out_c = c->out_channels,
               .win_h = c->window[1],
               .win_w = c->window[2],
               .step_y = c->stride[1],
               .step_x = c->stride[2],
               .holes_y = c->dilation[1],
               .top = c->before[1],
               .left = c->before[2]};
    p.wide = (p.out_w - 1) * p.step_x + p.win_w;
    p.as_it_is = p.left == 0 && p.wide <= p.in_w;
    p.last = p.out_w;
    return p;
}

/* The backward pass as a forward convolution, for strides of 1: the two images swap roles, and the padding
 * is that of the mirrored window. */
static plain backward_of(const mr_conv *c)
{
    plain f = forward_of(c), p = f;
    p.in_h = f.out_h, p.in_w = f.out_w, p.in_c = f.out_c;
    p.out_h = f.in_h, p.out_w = f.in_w, p.out_c = f.in_c;
    p.top = (f.win_h - 1) * f.holes_y - f.top;
    p.left = f.win_w - 1 - f.left;
    p.wide = p.out_w - 1 + p.win_w;
    p.as_it_is = p.left == 0 && p.wide <= p.in_w;
    p.last = p.out_w;
    return p;
}

/* At least 70 % of the columns of the panels, of which the last may be half as wide, are used; otherwise oneDNN is
 * faster. */
static bool fills_panels(int64_t channels)
{
    return 10 * channels >= 7 * round_up(channels, mr_tiles_here()->cols / 2);
}

/* A window of one pixel that moves by one pixel needs no rows: a batch is one image, with rows as long as suits the
 * tiles. */
static plain without_rows(plain p)
{
    if (p.win_h != 1 || p.win_w != 1 || p.step_y != 1 || p.step_x != 1 || p.top != 0 || !p.as_it_is ||
        p.out_h != p.in_h || p.out_w != p.in_w)
        return p;
    int64_t pixels = p.batch * p.out_h * p.out_w, most = mr_tiles_here()->most;
    int64_t wide = p.out_w < most ? MR_MIN(pixels, 2 * most) : p.out_w;
    p.batch = 1;
    p.in_h = p.out_h = (pixels + wide - 1) / wide;
    p.in_w = p.out_w = p.wide = wide;
    p.last = pixels - (p.out_h - 1) * wide;
    return p;
}

/* Padding does not make a row much longer, and sums and products of a few sizes fit 64 bits. */
static bool is_common(const mr_conv *c, int i)
{
    int64_t most = INT64_C(1) << 24;
    if (c->window[i] > most || c->stride[i] > most || c->dilation[i] > most)
        return false;
    int64_t extent = (c->window[i] - 1) * c->dilation[i] + 1;
    return c->before[i] <= extent && c->after[i] <= extent;
}

bool mr_conv_direct_serves(mr_conv_pass pass, const mr_conv *c)
{
    bool flat = c->in[0] == 1 && c->out[0] == 1 && c->window[0] == 1 && c->before[0] == 0;
    if (!flat || c->groups != 1 || (c->dilation[2] != 1 && c->window[2] != 1))
        return false;
    if (!is_common(c, 1) || !is_common(c, 2))
        return false;
    if (pass != MR_CONV_INPUT)
        return fills_panels(c->out_channels);
    plain p = backward_of(c);
    return fills_panels(c->in_channels) && p.step_y == 1 && p.step_x == 1 && p.top >= 0 &&
           p.left >= 0;
}

/* Restricts [from, *end) to the rows of the window that overlap the image at row y of the out image: returns
 * the first such row and lowers *end. */
static int64_t first_window_row(const plain *p, int64_t y, int64_t from, int64_t *end)
{
    int64_t above = p->top - y * p->step_y; /* how far the window starts above the image */
    int64_t first = above > 0 ? (above + p->holes_y - 1) / p->holes_y : 0;
    int64_t last = p->in_h - 1 + above >= 0 ? (p->in_h - 1 + above) / p->holes_y + 1 : 0;
    *end = MR_MIN(*end, last);
    return MR_MAX(from, first);
}

/* ---- rows of an image ---- */

/* Rows [y, y + n) of an image, with the padding that the windows need. */
typedef struct rows {
    const float *data;
    int64_t y, n, pitch; /* pitch: floats from one to the next */
} rows;

/* The rows that rows [y0, y1) of the out image need. */
static rows rows_needed(const plain *p, int64_t y0, int64_t y1)
{
    int64_t y = MR_MAX(0, y0 * p->step_y - p->top);
    int64_t end = MR_MIN(p->in_h, (y1 - 1) * p->step_y - p->top + (p->win_h - 1) * p->holes_y + 1);
    return (rows){
        .y = y, .n = MR_MAX(0, end - y), .pitch = (p->as_it_is ? p->in_w : p->wide) * p->in_c};
}

static void copy_row(const plain *p, const float *from, float *to)
{
    int64_t there = MR_MAX(0, MR_MIN(p->in_w, p->wide - p->left));
    size_t pixel = (size_t)p->in_c * sizeof(float);
    memset(to, 0, (size_t)p->left * pixel);
    memcpy(to + p->left * p->in_c, from, (size_t)there * pixel);
    memset(to + (p->left + there) * p->in_c, 0, (size_t)(p->wide - p->left - there) * pixel);
}

static rows bring_rows(const plain *p, const float *image, int64_t y0, int64_t y1, bool copy,
                       float *room)
{
    rows s = rows_needed(p, y0, y1);
    if (!copy) {
        s.data = image + s.y * s.pitch;
        return s;
    }
    int64_t row = p->in_w * p->in_c;
    s.data = room;
    s.pitch = p->wide * p->in_c;
    for (int64_t i = 0; i < s.n; i++)
        copy_row(p, image + (s.y + i) * row, room + i * s.pitch);
    return s;
}

/* How many rows of the out image to compute at once, and the floats that their copied input rows take. */
static int64_t rows_at_once(const plain *p, int64_t most, size_t *floats)
{
    int64_t fixed = (p->win_h - 1) * p->holes_y + 1, row = p->wide * p->in_c;
    int64_t n = (ROWS_FLOATS / row - fixed) / p->step_y + 1;
    n = MR_MAX(1, MR_MIN(MR_MIN(n, most), p->out_h));
    *floats = (size_t)(MR_MIN(p->in_h, (n - 1) * p->step_y + fixed) * row);
    return n;
}

/* ---- image and filter ---- */

/* Rows [y0, y1) of an out image. */
typedef struct segment {
    rows s;
    int64_t y0, y1;
    float *out; /* the out image */
} segment;

/* A part of the filter: rows [from, from + n) of row `ky` of the window, or all of its rows [ky, end). */
typedef struct piece {
    int64_t ky, end, from, n;
    bool first, last;
} piece;

static int64_t pixels_of_row(const plain *p, int64_t y) { return y == p->out_h - 1 ? p->last : p->out_w; }

/* The part of the filter that is used next, of which tiles bring [at, end) into the cache. */
typedef struct upcoming {
    const float *at, *end;
} upcoming;

/* What the next tile, which reads this many floats of the filter, brings into the cache. */
static const float *take_upcoming(upcoming *u, int64_t floats)
{
    const float *at = u->at;
    if (u->end - at < floats / 2)
        return NULL;
    u->at += floats / 2;
    return at;
}

/* The pixels that the tile after next reads, if the image is read once and pixel by pixel: the first panel reads it from
 * memory, the others from the cache. */
static const float *pixels_ahead(const job *j, const mr_tile *t)
{
    const plain *p = &j->p;
    bool in_order = p->as_it_is && p->win_h == 1 && p->win_w == 1 && p->step_x == 1;
    return in_order && j->in_end - t->a >= 3 * t->rows * t->step ? t->a + 2 * t->rows * t->step : NULL;
}

/* Panels [begin, end) of the filter. */
typedef struct panel_range {
    int64_t begin, end;
} panel_range;

/* Computes row y of the out image, for some panels and one piece of the filter. */
static void make_row(const job *j, const segment *g, int64_t y, const piece *f, panel_range some, upcoming *u)
{
    const plain *p = &j->p;
    const mr_tile_height *h;
    const rows *s = &g->s;
    int64_t run = p->win_w * p->in_c, cols = j->tiles->cols, panel_size = cols * p->win_h * run, end = f->end;
    mr_tile t = {.kc = f->n,
                 .step = p->step_x * p->in_c,
                 .jump = p->holes_y * s->pitch,
                 .ldc = p->out_c,
                 .how = f->first ? MR_C_WRITE : MR_C_ADD,
                 .end = f->last && j->end ? &j->end->tile : NULL};
    int64_t first = first_window_row(p, y, f->ky, &end);
    t.runs = MR_MAX(0, end - first);
    const float *a = s->data, *b = j->filter; /* without a row of the window, nothing is read */
    if (t.runs > 0) {
        b += (first * run + f->from) * cols;
        a += (y * p->step_y - p->top + first * p->holes_y - s->y) * s->pitch + f->from;
    } else if (!f->first && !f->last) {
        return;
    }
    float *out = g->out + y * p->out_w * p->out_c;
    int64_t pixels = pixels_of_row(p, y);
    for (int64_t x = 0; x < pixels; x += h->rows) {
        h = mr_tile_next_of(j->tiles, (int)j->height, pixels - x);
        t.rows = h->rows;
        t.a = a + x * t.step;
        for (int64_t panel = some.begin; panel < some.end; panel++) {
            t.b = b + panel * panel_size;
            t.c = out + x * p->out_c + panel * cols;
            t.col = panel * cols;
            t.ahead = panel == 0 ? pixels_ahead(j, &t) : NULL;
            if (!t.ahead)
                t.ahead = take_upcoming(u, t.runs * t.kc * cols);
            mr_tile_run(j->tiles, h, false, &t, MR_MIN(cols, p->out_c - panel * cols));
        }
    }
}

static bool stores_once(const job *j) { return j->pieces == 1 && j->group_rows == j->p.win_h; }

/* If each sum is stored once, its store takes a large part of the time: then a tile is computed for as many panels as
 * the cache holds before the next tile, so that the out image is written in long runs. Otherwise a panel is used for
 * all tiles while it is in the cache. */
static void make_piece(const job *j, const segment *g, int n, const piece *f)
{
    const plain *p = &j->p;
    int64_t cols = j->tiles->cols, all = round_up(p->out_c, cols) / cols;
    int64_t run = p->win_w * p->in_c, size = cols * p->win_h * run;
    int64_t at_once = stores_once(j) ? MR_MAX(1, PANELS_FLOATS / size) : 1;
    panel_range some = {0};
    for (; some.begin < all; some.begin = some.end) {
        upcoming u = {NULL, NULL};
        some.end = MR_MIN(all, some.begin + at_once);
        if (some.end < all) {
            u.at = j->filter + some.end * size + (f->ky * run + f->from) * cols;
            u.end = u.at + (at_once > 1 ? MR_MIN(at_once, all - some.end) * size : (f->end - f->ky) * f->n * cols);
        }
        for (int i = 0; i < n; i++)
            for (int64_t y = g[i].y0; y < g[i].y1; y++)
                make_row(j, &g[i], y, f, some, &u);
    }
}

/* Computes the segments of a block. */
static void make_block(const job *j, const segment *g, int n)
{
    const plain *p = &j->p;
    int64_t run = p->win_w * p->in_c;
    for (int64_t ky = 0; ky < p->win_h; ky += j->group_rows)
        for (int64_t i = 0; i < j->pieces; i++) {
            piece f = {.ky = ky,
                       .end = MR_MIN(ky + j->group_rows, p->win_h),
                       .from = i * j->piece,
                       .n = MR_MIN(j->piece, run - i * j->piece),
                       .first = ky == 0 && i == 0};
            f.last = f.end == p->win_h && i == j->pieces - 1;
            make_piece(j, g, n, &f);
        }
    for (int i = 0; i < n && j->end && j->end->then; i++) {
        int64_t pixels = (g[i].y1 - 1 - g[i].y0) * p->out_w + pixels_of_row(p, g[i].y1 - 1);
        j->end->then(g[i].out + g[i].y0 * p->out_w * p->out_c, pixels * p->out_c, j->end->alpha);
    }
}

/* Chooses the pieces in which the filter is summed, which do not depend on the number of threads. */
static void choose_pieces(job *j)
{
    const plain *p = &j->p;
    int64_t run = p->win_w * p->in_c, fit = SUM_ROWS;
    j->height = p->step_x * p->in_c % COLLIDING == 0 ? MR_MIN(COLLIDING_ROWS, j->tiles->most) : j->tiles->most;
    j->pieces = (run + fit - 1) / fit;
    j->piece = round_up((run + j->pieces - 1) / j->pieces, 8);
    j->pieces = (run + j->piece - 1) / j->piece;
    int64_t at_once = j->pieces > 1 ? 1 : MR_MAX(1, fit / run), n = (p->win_h + at_once - 1) / at_once;
    j->group_rows = (p->win_h + n - 1) / n;
}

bool mr_conv_direct_stores_once(const mr_conv *c)
{
    job j = {.tiles = mr_tiles_here(), .p = forward_of(c)};
    choose_pieces(&j);
    return stores_once(&j);
}

/* The most rows of an out image in one segment, and the floats that their copied input rows take. */
static int64_t rows_of_segment(const job *j, size_t *floats)
{
    const plain *p = &j->p;
    int64_t pixels = MR_MIN(4 * PIXELS, MR_MAX(PIXELS / 4, BLOCK_FLOATS / MR_MIN(j->piece, p->in_c)));
    int64_t fixed = (p->win_h - 1) * p->holes_y + 1, row = p->wide * p->in_c;
    int64_t n = MR_MIN((pixels + p->out_w - 1) / p->out_w, p->out_h);
    if (!p->as_it_is)
        n = MR_MAX(1, MR_MIN(n, (ROOM_FLOATS / row - fixed) / p->step_y + 1));
    *floats = (size_t)(MR_MIN(p->in_h, (n - 1) * p->step_y + fixed) * row);
    return n;
}

/* Computes rows [begin, end), counted over all out images. */
static void images_part(void *ctx, int64_t begin, int64_t end)
{
    job *j = ctx;
    const plain *p = &j->p;
    size_t floats;
    int64_t most = rows_of_segment(j, &floats), at_once = MR_MAX(1, MR_MIN(SEGMENTS, PIXELS / (most * p->out_w)));
    if (!p->as_it_is)
        at_once = MR_MAX(1, MR_MIN(at_once, ROOM_FLOATS / (int64_t)floats));
    size_t bytes = p->as_it_is ? 0 : floats * (size_t)at_once * sizeof(float);
    float *room = bytes ? j->alloc->alloc(j->alloc, bytes) : NULL;
    if (bytes && !room) {
        j->out_of_room = true;
        return;
    }
    while (begin < end) {
        segment g[SEGMENTS];
        int n = 0;
        for (; n < at_once && begin < end; n++) {
            int64_t image = begin / p->out_h, y = begin % p->out_h;
            int64_t taken = MR_MIN(MR_MIN(most, p->out_h - y), end - begin);
            g[n] = (segment){.y0 = y, .y1 = y + taken, .out = j->out + image * p->out_h * p->out_w * p->out_c};
            g[n].s = bring_rows(p, j->in + image * p->in_h * p->in_w * p->in_c, y, y + taken, !p->as_it_is,
                                room ? room + floats * (size_t)n : NULL);
            begin += taken;
        }
        make_block(j, g, n);
    }
    if (room)
        j->alloc->free(j->alloc, room, bytes);
}

/* Packs the mirrored filter: rows (y, x, out channel), columns in channels. */
static void pack_turned(const job *j, const float *filter, float *to)
{
    const plain *p = &j->p; /* whose in channels are the filter's out channels */
    int64_t taps = p->win_h * p->win_w, cols = j->tiles->cols;
    for (int64_t c = 0; c < p->out_c; c += cols)
        for (int64_t tap = taps - 1; tap >= 0; tap--, to += p->in_c * cols)
            j->tiles->pack_cols(filter + (tap * p->out_c + c) * p->in_c, p->in_c, p->in_c,
                                MR_MIN(cols, p->out_c - c), to);
}

/* What is packed: for TURNED the mirrored filter with its channels swapped. */
typedef enum filter_form { AS_STORED, TURNED } filter_form;

/* The filter, packed in this or an earlier run; the caller owns *out. */
static mr_status *pack_filter(mr_run *r, const job *j, const float *filter, filter_form form, const mr_conv_kept *kept,
                              mr_tensor **out)
{
    const plain *p = &j->p;
    int64_t rows_of_filter = p->win_h * p->win_w * p->in_c;
    int64_t size = rows_of_filter * round_up(p->out_c, j->tiles->cols);
    if (kept && (*out = mr_packed_get(kept->packed, kept->filter, form)))
        return NULL;
    MR_TRY(mr_run_temp(r, MR_FLOAT, 1, &size, out));
    if (form == TURNED)
        pack_turned(j, filter, (*out)->data);
    else
        j->tiles->pack_rows(filter, p->out_c, rows_of_filter, p->out_c, (*out)->data);
    if (kept)
        mr_packed_keep(kept->packed, kept->filter, form, *out);
    return NULL;
}

static mr_status *over_images(mr_run *r, job *j, const float *filter, filter_form form, const mr_conv_kept *kept)
{
    const plain *p = &j->p;
    mr_tensor *packed;
    MR_TRY(pack_filter(r, j, filter, form, kept, &packed));
    j->filter = packed->data;
    j->in_end = j->in + p->batch * p->in_h * p->in_w * p->in_c;
    j->p = without_rows(j->p);
    choose_pieces(j);
    double work = (double)p->out_w * (double)packed->n;
    mr_run_for(r, p->batch * p->out_h, WORK_NS * work, images_part, j);
    mr_tensor_unref(packed);
    return NULL;
}

/* ---- the gradient of a filter ---- */

/* Memory that the next stretch reads, which the units of this one bring into the second-level cache: `share` floats
 * each. */
typedef struct reserve {
    const float *at, *end;
    int64_t share;
} reserve;

/* The work of one thread: rows [y0, y1) of one image, and panels [first, ..) of the gradient. */
typedef struct stretch {
    rows s;
    const float *grad;
    int64_t y0, y1, first;
    bool begun; /* the sums are initialized */
    reserve next_rows, next_grad;
} stretch;

static reserve reserve_of(const float *at, const float *end, int64_t floats, int64_t units)
{
    return (reserve){at, end - at < floats ? end : at + floats, (floats + units - 1) / units};
}

static void bring_share(reserve *v)
{
    enum { LINE = 16 };
    const float *end = v->end - v->at < v->share ? v->end : v->at + v->share;
    for (; v->at < end; v->at += LINE)
        __builtin_prefetch(v->at, 0, 2);
}

/* Adds to rows [from, end) of the filter's gradient in row ky of the window, for one panel. */
static void add_piece(const job *j, const stretch *w, int64_t panel, int64_t ky, int64_t from,
                      int64_t end)
{
    const plain *p = &j->p;
    const mr_tile_height *h;
    int64_t run = p->win_w * p->in_c, cols = j->tiles->cols, y0 = w->y0, y1 = w->y1, last;
    while (y0 < y1 && (last = ky + 1, first_window_row(p, y0, ky, &last) >= last))
        y0++;
    while (y0 < y1 && (last = ky + 1, first_window_row(p, y1 - 1, ky, &last) >= last))
        y1--;
    if (y0 == y1 && w->begun)
        return;
    int64_t pixels = (w->y1 - w->y0) * p->out_w;
    mr_tile t = {.runs = y1 - y0,
                 .kc = p->out_w,
                 .step = p->step_x * p->in_c,
                 .jump = p->step_y * w->s.pitch,
                 .ldc = p->out_c,
                 .how = w->begun ? MR_C_ADD : MR_C_WRITE};
    t.b = w->grad + ((panel - w->first) * pixels + (y0 - w->y0) * p->out_w) * cols;
    const float *a = w->s.data;
    if (t.runs > 0)
        a += (y0 * p->step_y - p->top + ky * p->holes_y - w->s.y) * w->s.pitch;
    for (int64_t i = from; i < end; i += h->rows) {
        h = mr_tile_next(j->tiles, end - i);
        t.rows = MR_MIN(h->rows, end - i);
        t.a = a + i;
        t.c = j->out + (ky * run + i) * p->out_c + panel * cols;
        mr_tile_run(j->tiles, h, true, &t, MR_MIN(cols, p->out_c - panel * cols));
    }
}

/* Units [begin, end): panel by panel, row by row of the window, group by group of its rows. */
static void add_units(const job *j, stretch *w, int64_t begin, int64_t end)
{
    const plain *p = &j->p;
    int64_t run = p->win_w * p->in_c;
    for (int64_t unit = begin; unit < end; unit++) {
        bring_share(&w->next_rows);
        bring_share(&w->next_grad);
        int64_t group = unit % j->n_groups, ky = unit / j->n_groups % p->win_h;
        add_piece(j, w, unit / j->n_groups / p->win_h, ky, group * j->group,
                  MR_MIN(run, (group + 1) * j->group));
    }
}

/* Packs the gradient of the pixels of a stretch, unless it is stored as one panel. */
static void pack_grad(const job *j, stretch *w, const float *grad, int64_t panels, float *packed)
{
    const plain *p = &j->p;
    int64_t cols = j->tiles->cols;
    w->grad = grad;
    if (p->out_c == cols && (uintptr_t)grad % 64 == 0)
        return;
    j->tiles->pack_rows(grad + w->first * cols, p->out_c, (w->y1 - w->y0) * p->out_w,
                        MR_MIN(panels * cols, p->out_c - w->first * cols), packed);
    w->grad = packed;
}

/* Notes what the stretch after this one reads: about as much as this one, from where it ends. */
static void note_next(const job *j, stretch *w, int64_t image, const float *grad, int64_t units)
{
    const plain *p = &j->p;
    int64_t row = p->in_w * p->in_c, n = p->out_w * p->out_c, rows_of_grad = w->y1 - w->y0;
    const float *in_end = j->in + p->batch * p->in_h * row, *grad_end = j->grad + p->batch * p->out_h * n;
    const float *next = j->in + (image * p->in_h + w->s.y + w->s.n) * row;
    w->next_rows = reserve_of(next, in_end, rows_of_grad * p->step_y * row, units);
    w->next_grad = reserve_of(grad + rows_of_grad * n, grad_end, rows_of_grad * n, units);
}

static void filter_part(void *ctx, int64_t begin, int64_t end)
{
    job *j = ctx;
    const plain *p = &j->p;
    int64_t cols = j->tiles->cols, a_panel = p->win_h * j->n_groups;
    int64_t first = begin / a_panel, panels = (end - 1) / a_panel + 1 - first;
    size_t floats;
    int64_t most = rows_at_once(p, MR_MAX(1, PANEL_ROWS / p->out_w), &floats);
    floats = (size_t)round_up((int64_t)floats + MR_TILE_ROWS, 16);
    size_t bytes = (floats + (size_t)(most * p->out_w * panels * cols)) * sizeof(float);
    float *room = j->alloc->alloc(j->alloc, bytes), *packed = room + floats;
    if (!room) {
        j->out_of_room = true;
        return;
    }
    stretch w = {.first = first};
    for (int64_t image = 0; image < p->batch; image++)
        for (w.y0 = 0; w.y0 < p->out_h; w.y0 = w.y1, w.begun = true) {
            w.y1 = MR_MIN(p->out_h, w.y0 + most);
            w.s =
                bring_rows(p, j->in + image * p->in_h * p->in_w * p->in_c, w.y0, w.y1, true, room);
            const float *grad = j->grad + (image * p->out_h + w.y0) * p->out_w * p->out_c;
            pack_grad(j, &w, grad, panels, packed);
            note_next(j, &w, image, grad, end - begin);
            add_units(j, &w, begin, end);
        }
    j->alloc->free(j->alloc, room, bytes);
}

/* If windows have one row and all rows of the image, a batch is one image: the sums then go over rows of several images
 * before they are added to the gradient. */
static plain without_images(plain p)
{
    if (p.win_h != 1 || p.step_y != 1 || p.top != 0 || p.out_h != p.in_h)
        return p;
    p.in_h = p.out_h = p.batch * p.in_h;
    p.batch = 1;
    return p;
}

static void over_filter(mr_run *r, job *j)
{
    j->p = without_images(j->p);
    const plain *p = &j->p;
    int64_t run = p->win_w * p->in_c, panels = round_up(p->out_c, j->tiles->cols) / j->tiles->cols;
    int64_t wanted = 4 * mr_pool_shares(r->step->device->pool);
    int64_t groups = MR_MAX(1, wanted / (panels * p->win_h));
    j->group = round_up(round_up(run, groups) / groups, MR_TILE_ROWS);
    j->n_groups = round_up(run, j->group) / j->group;
    double pixels = (double)p->batch * (double)p->out_h * (double)p->out_w;
    double work = pixels * (double)MR_MIN(j->group, run) * (double)j->tiles->cols;
    mr_run_for(r, panels * p->win_h * j->n_groups, WORK_NS * work, filter_part, j);
}

/* ---- */

mr_status *mr_conv_direct(mr_run *r, mr_conv_pass pass, const mr_conv *c, const float *a,
                          const float *b, float *out, const mr_conv_kept *kept, const mr_conv_end *end)
{
    MR_ASSERT(!end || pass == MR_CONV_FORWARD);
    mr_conv_end own;
    job j = {.tiles = mr_tiles_here(), .alloc = mr_run_allocator(r), .out = out};
    if (end) {
        own = *end;
        own.tile.c = out;
        j.end = &own;
    }
    j.p = pass == MR_CONV_INPUT ? backward_of(c) : forward_of(c);
    if (pass == MR_CONV_FORWARD) {
        j.in = a;
        MR_TRY(over_images(r, &j, b, AS_STORED, kept));
    } else if (pass == MR_CONV_INPUT) {
        j.in = b;
        MR_TRY(over_images(r, &j, a, TURNED, kept));
    } else {
        j.in = a;
        j.grad = b;
        over_filter(r, &j);
    }
    if (j.out_of_room)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a convolution");
    return NULL;
}
