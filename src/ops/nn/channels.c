/* ops/nn/channels.c -- loops over images with separate numbers for each channel.
 *
 * All loops exist twice: over rows of one period (channels last), and over planes with one number
 * (channels first).  A piece of work is a run of whole rows, or one plane. */
#include "ops/nn/channels.h"

#include "base/memory.h"
#include "base/simd.h"
#include "ops/nn/lanes.h"

#define T float
#define FN(f) f##_float
#define V mr_v8f
#define MASK mr_v8i
#define LANES 8
#include "ops/nn/row.h"

enum {
    LONG_ENOUGH = 256, /* elements of a period */
    PIECES = 64,       /* per sum; more if they would get too long */
    MIN_PIECE = 4096,  /* elements */
    MAX_ROWS = 256,    /* per piece: long chains of additions lose digits */
};
#define ELEMENT_NS 0.3

void mr_channels_init(mr_channels *c, mr_layout layout, const mr_tensor *x)
{
    MR_ASSERT(x->rank >= 2 && x->n > 0);
    c->layout = layout;
    c->batch = x->dims[0];
    c->channels = x->dims[mr_layout_channel(layout, x->rank)];
    c->pixels = x->n / c->batch / c->channels;
    int64_t times = layout == MR_CHANNELS_LAST ? (LONG_ENOUGH + c->channels - 1) / c->channels : 1;
    c->period = times * c->channels;
}

mr_status *mr_channels_numbers(mr_run *r, const mr_channels *c, mr_tensor **out)
{
    return mr_run_temp(r, MR_FLOAT, 1, &c->period, out);
}

void mr_channels_spread(const mr_channels *c, float *numbers)
{
    for (int64_t i = c->channels; i < c->period; i++)
        numbers[i] = numbers[i - c->channels];
}

static int64_t count_elements(const mr_channels *c) { return c->batch * c->channels * c->pixels; }

/* ---- sums ---- */

typedef enum sum_kind { SUM, SQUARES, PRODUCTS } sum_kind;

typedef struct sum_job {
    const mr_channels *c;
    sum_kind kind;
    const float *x, *g, *shift;
    float *parts;  /* per piece: two times a period */
    int64_t piece; /* elements of a piece */
} sum_job;

MR_INLINE void add_row(sum_kind kind, const float *x, const float *g, const float *shift, int64_t n,
                       float *a, float *b)
{
    switch (kind) {
    case SUM:
        for (int64_t k = 0; k < n; k++)
            a[k] += x[k];
        break;
    case SQUARES:
        for (int64_t k = 0; k < n; k++)
            a[k] += (x[k] - shift[k]) * (x[k] - shift[k]);
        break;
    case PRODUCTS:
        for (int64_t k = 0; k < n; k++) {
            a[k] += g[k];
            b[k] += g[k] * (x[k] - shift[k]);
        }
    }
}

MR_CLONES static void sum_rows(void *ctx, int64_t begin, int64_t end)
{
    const sum_job *j = ctx;
    int64_t period = j->c->period, n = count_elements(j->c);
    for (int64_t piece = begin; piece < end; piece++) {
        float *a = j->parts + piece * 2 * period, *b = a + period;
        memset(a, 0, 2 * (size_t)period * sizeof(float));
        int64_t last = MR_MIN(n, (piece + 1) * j->piece);
        for (int64_t at = piece * j->piece; at < last; at += period)
            add_row(j->kind, j->x + at, j->g + at, j->shift, MR_MIN(period, last - at), a, b);
    }
}

/* The sums of (x - shift)^2 and of g (x - shift) over a plane. */
MR_INLINE float plane_squares(const float *x, float shift, int64_t n)
{
    mr_v8f sum = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        mr_v8f d = *(const mr_v8f *)(x + i) - shift;
        sum += d * d;
    }
    float s = lanes_sum_float((const float *)&sum);
    for (; i < n; i++)
        s += (x[i] - shift) * (x[i] - shift);
    return s;
}

MR_INLINE float plane_products(const float *g, const float *x, float shift, int64_t n)
{
    mr_v8f sum = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        sum += *(const mr_v8f *)(g + i) * (*(const mr_v8f *)(x + i) - shift);
    float s = lanes_sum_float((const float *)&sum);
    for (; i < n; i++)
        s += g[i] * (x[i] - shift);
    return s;
}

MR_CLONES static void sum_planes(void *ctx, int64_t begin, int64_t end)
{
    const sum_job *j = ctx;
    int64_t channels = j->c->channels, n = j->c->pixels;
    for (int64_t plane = begin; plane < end; plane++) {
        const float *x = j->x + plane * n, *g = j->g + plane * n;
        float *a = j->parts + plane / channels * 2 * channels + plane % channels, *b = a + channels;
        if (j->kind == SQUARES)
            *a = plane_squares(x, j->shift[plane % channels], n);
        else
            *a = row_sum_float(g, n); /* if only x is summed, g is x */
        *b = j->kind == PRODUCTS ? plane_products(g, x, j->shift[plane % channels], n) : 0;
    }
}

/* Adds the sums of the pieces in order: entry i of a period belongs to channel i % channels. */
static void add_pieces(const mr_channels *c, const float *parts, int64_t pieces, double *sums)
{
    for (int64_t i = 0; i < 2 * c->channels; i++)
        sums[i] = 0;
    for (int64_t piece = 0; piece < pieces; piece++, parts += 2 * c->period)
        for (int64_t i = 0; i < c->period; i++) {
            sums[i % c->channels] += (double)parts[i];
            sums[c->channels + i % c->channels] += (double)parts[c->period + i];
        }
}

static mr_status *run_sums(mr_run *r, sum_job *j, double *sums)
{
    const mr_channels *c = j->c;
    bool rows = c->layout == MR_CHANNELS_LAST;
    int64_t n = count_elements(c), pieces = c->batch;
    if (rows) {
        int64_t wanted = MR_MAX(MIN_PIECE, n / PIECES) / c->period + 1;
        j->piece = MR_MIN(MAX_ROWS, wanted) * c->period;
        pieces = (n + j->piece - 1) / j->piece;
    }
    mr_tensor *parts;
    MR_TRY(mr_run_temp(r, MR_FLOAT, 2, (const int64_t[]){pieces, 2 * c->period}, &parts));
    j->parts = parts->data;
    if (rows)
        mr_run_for(r, pieces, ELEMENT_NS * (double)j->piece, sum_rows, j);
    else
        mr_run_for(r, c->batch * c->channels, ELEMENT_NS * (double)c->pixels, sum_planes, j);
    add_pieces(c, parts->data, pieces, sums);
    mr_tensor_unref(parts);
    return NULL;
}

mr_status *mr_channels_sum(mr_run *r, const mr_channels *c, const float *x, double *sums)
{
    return run_sums(r, &(sum_job){.c = c, .kind = SUM, .x = x, .g = x}, sums);
}

mr_status *mr_channels_squares(mr_run *r, const mr_channels *c, const float *x, const float *shift,
                               double *sums)
{
    return run_sums(r, &(sum_job){.c = c, .kind = SQUARES, .x = x, .g = x, .shift = shift}, sums);
}

mr_status *mr_channels_products(mr_run *r, const mr_channels *c, const float *g, const float *x,
                                const float *shift, double *sums)
{
    return run_sums(r, &(sum_job){.c = c, .kind = PRODUCTS, .x = x, .g = g, .shift = shift}, sums);
}

/* ---- element by element ---- */

typedef struct map_job {
    const mr_channels *c;
    const float *x, *g; /* g NULL: y = (x - shift) scale + offset */
    const float *scale, *shift, *slope, *offset;
    float *y;
} map_job;

/* A plane is a row in which all numbers are the same: step is 0 then. */
MR_INLINE void map_row(const map_job *j, int64_t at, int64_t n, int64_t number, int64_t step)
{
    const float *x = j->x + at, *shift = j->shift + number, *scale = j->scale + number;
    const float *offset = j->offset + number;
    float *y = j->y + at;
    if (!j->g) {
        MR_IVDEP
        for (int64_t k = 0; k < n; k++)
            y[k] = (x[k] - shift[k * step]) * scale[k * step] + offset[k * step];
        return;
    }
    const float *g = j->g + at, *slope = j->slope + number;
    MR_IVDEP
    for (int64_t k = 0; k < n; k++)
        y[k] =
            g[k] * scale[k * step] + (x[k] - shift[k * step]) * slope[k * step] + offset[k * step];
}

MR_CLONES static void map_rows(void *ctx, int64_t begin, int64_t end)
{
    const map_job *j = ctx;
    int64_t period = j->c->period, n = count_elements(j->c);
    for (int64_t row = begin; row < end; row++)
        map_row(j, row * period, MR_MIN(period, n - row * period), 0, 1);
}

MR_CLONES static void map_planes(void *ctx, int64_t begin, int64_t end)
{
    const map_job *j = ctx;
    for (int64_t plane = begin; plane < end; plane++)
        map_row(j, plane * j->c->pixels, j->c->pixels, plane % j->c->channels, 0);
}

static void run_map(mr_run *r, map_job *j)
{
    const mr_channels *c = j->c;
    if (c->layout == MR_CHANNELS_LAST)
        mr_run_for(r, (count_elements(c) + c->period - 1) / c->period, ELEMENT_NS * (double)c->period,
                   map_rows, j);
    else
        mr_run_for(r, c->batch * c->channels, ELEMENT_NS * (double)c->pixels, map_planes, j);
}

void mr_channels_scale(mr_run *r, const mr_channels *c, const float *x, const float *shift,
                       const float *scale, const float *offset, float *y)
{
    run_map(r,
            &(map_job){.c = c, .x = x, .shift = shift, .scale = scale, .offset = offset, .y = y});
}

void mr_channels_mix(mr_run *r, const mr_channels *c, const float *g, const float *x,
                     const float *scale, const float *shift, const float *slope,
                     const float *offset, float *y)
{
    run_map(r, &(map_job){c, x, g, scale, shift, slope, offset, y});
}
