/* ops/nn/channel_sums.c -- sums over all pixels of each channel of an image.
 *
 * An image is divided into pieces that stay in the L1 cache: some rows of one period (channels last), or one plane
 * (channels first). Within a piece sums are floats, over at most MAX_ROWS rows; the pieces are added in order, in
 * double. The pieces do not depend on the number of threads.
 *
 * The variance of a channel comes from sums around the mean of each piece, which are then moved to the mean of all:
 * sum (x - mean)^2 = sum over pieces of (sum (x - m)^2 + n (m - mean)^2). So the image is read from memory once, and
 * unlike E[x^2] - E[x]^2 nothing is lost for a large mean. */
#include "base/memory.h"
#include "base/simd.h"
#include "ops/maths.h"
#include "ops/nn/channels.h"
#include "ops/nn/lanes.h"

#define T float
#define FN(f) f##_float
#define V mr_v8f
#define MASK mr_v8i
#define LANES 8
#include "ops/nn/row.h"

enum {
    PIECES = 64,       /* per image; more if they would get too long */
    MIN_PIECE = 4096,  /* elements */
    MIN_ROWS = 16,     /* per piece: what is done once for each channel of a piece takes little time */
    MAX_ROWS = 256,    /* per piece: long chains of additions lose digits */
    AHEAD = 1024,      /* elements from an addition to a later prefetch: a page, because hardware prefetches stop at its end */
    LINE = 16,         /* elements of a line of the cache */
    MAX_COLUMNS = 512, /* columns of a period whose sums are computed at once; a period of more is one of channels */
};
#define ELEMENT_NS 0.3

typedef struct sum_job {
    const mr_channels *c;
    const float *x, *g, *shift; /* g NULL: mean and squares around it, else sums of g and of g (x - shift) */
    double *parts;              /* per piece: the first numbers of all channels, then the second ones */
    int64_t piece;              /* elements of a piece, with channels last */
    int64_t pieces;
} sum_job;

static int64_t count_elements(const mr_channels *c) { return c->batch * c->channels * c->pixels; }

/* The mean of some elements and the sum of their squared distances to it, from these sums around a center; inverse: 1 /
 * their number. If a sum is not finite, the center is the mean: infinite or NaN. Without branches, so that loops become
 * vectors. */
MR_INLINE void store_moments(double center, double distance, double squares, double inverse, double *mean, double *out)
{
    bool finite = distance - distance == 0;
    double moved = center + distance * inverse, around = squares - distance * distance * inverse;
    around = around > 0 ? around : 0;
    *mean = finite ? moved : center;
    *out = finite ? around : squares;
}

/* ---- channels last ---- */

/* Rows of a piece: row r begins at r * period, and the last one ends at n. */
typedef struct piece_rows {
    const float *x, *g;
    int64_t period, n;
} piece_rows;

/* Sums of `width` columns: a multiple of the channels, or a part of them. */
typedef struct columns {
    int64_t width;
    float shift[MAX_COLUMNS], a[MAX_COLUMNS], b[MAX_COLUMNS];
} columns;

MR_INLINE void clear_columns(columns *s)
{
    memset(s->a, 0, (size_t)s->width * sizeof(float));
    memset(s->b, 0, (size_t)s->width * sizeof(float));
}

/* Addresses behind the image do no harm. */
MR_INLINE void prefetch_row(const float *x, int64_t n)
{
    for (int64_t k = 0; k < n; k += LINE)
        __builtin_prefetch(x + k);
}

/* a: sums of x. */
MR_INLINE void sum_columns(const piece_rows *p, columns *s)
{
    for (int64_t at = 0; at < p->n; at += p->period) {
        const float *x = p->x + at;
        int64_t n = MR_MIN(s->width, p->n - at);
        prefetch_row(x + AHEAD, n);
        MR_IVDEP
        for (int64_t k = 0; k < n; k++)
            s->a[k] += x[k];
    }
}

/* a: sums of x - shift; b: sums of (x - shift)^2. */
MR_INLINE void sum_squares(const piece_rows *p, columns *s)
{
    for (int64_t at = 0; at < p->n; at += p->period) {
        const float *x = p->x + at;
        int64_t n = MR_MIN(s->width, p->n - at);
        MR_IVDEP
        for (int64_t k = 0; k < n; k++) {
            float d = x[k] - s->shift[k];
            s->a[k] += d;
            s->b[k] += d * d;
        }
    }
}

/* a: sums of g; b: sums of g (x - shift). */
MR_INLINE void sum_products(const piece_rows *p, columns *s)
{
    for (int64_t at = 0; at < p->n; at += p->period) {
        const float *x = p->x + at, *g = p->g + at;
        int64_t n = MR_MIN(s->width, p->n - at);
        prefetch_row(x + AHEAD, n);
        prefetch_row(g + AHEAD, n);
        MR_IVDEP
        for (int64_t k = 0; k < n; k++) {
            s->a[k] += g[k];
            s->b[k] += g[k] * (x[k] - s->shift[k]);
        }
    }
}

/* Adds the columns of each of n channels, in order. */
MR_INLINE void fold_columns(const float *a, int64_t width, int64_t n, double *sums)
{
    MR_IVDEP
    for (int64_t k = 0; k < n; k++)
        sums[k] = (double)a[k];
    for (int64_t at = n; at < width; at += n) {
        MR_IVDEP
        for (int64_t k = 0; k < n; k++)
            sums[k] += (double)a[at + k];
    }
}

/* Sets the shift of each column to the mean of its channel in the piece. */
MR_INLINE void center_columns(const piece_rows *p, columns *s, int64_t n, double inverse, double *sums)
{
    sum_columns(p, s);
    fold_columns(s->a, s->width, n, sums);
    MR_IVDEP
    for (int64_t k = 0; k < n; k++)
        s->shift[k] = (float)(sums[k] * inverse);
    for (int64_t k = n; k < s->width; k++)
        s->shift[k] = s->shift[k - n];
    clear_columns(s);
}

/* Computes the numbers of channels [from, from + n) in a piece of p->n elements. */
MR_INLINE void sum_piece(const sum_job *j, const piece_rows *p, int64_t from, int64_t n, columns *s, double *part)
{
    int64_t channels = j->c->channels;
    double *restrict first = part + from, *restrict second = first + channels;
    double inverse = 1 / (double)((p->n + from) / channels);
    clear_columns(s);
    if (j->g) {
        memcpy(s->shift, j->shift + from, (size_t)s->width * sizeof(float));
        sum_products(p, s);
    } else {
        center_columns(p, s, n, inverse, first);
        sum_squares(p, s);
    }
    fold_columns(s->a, s->width, n, first);
    fold_columns(s->b, s->width, n, second);
    if (j->g)
        return;
    MR_IVDEP
    for (int64_t k = 0; k < n; k++)
        store_moments((double)s->shift[k], first[k], second[k], inverse, &first[k], &second[k]);
}

MR_CLONES static void sum_rows(void *ctx, int64_t begin, int64_t end)
{
    const sum_job *j = ctx;
    int64_t period = j->c->period, channels = j->c->channels, elements = count_elements(j->c);
    columns s;
    for (int64_t piece = begin; piece < end; piece++) {
        int64_t at = piece * j->piece, last = MR_MIN(elements, at + j->piece);
        for (int64_t from = 0; from < period; from += s.width) {
            s.width = MR_MIN(MAX_COLUMNS, period - from);
            piece_rows p = {j->x + at + from, j->g ? j->g + at + from : NULL, period, last - at - from};
            sum_piece(j, &p, from, MR_MIN(s.width, channels), &s, j->parts + piece * 2 * channels);
        }
    }
}

/* ---- channels first ---- */

/* The sums of x - shift and of (x - shift)^2 over a plane. */
MR_INLINE void plane_squares(const float *x, float shift, int64_t n, double *distance, double *squares)
{
    mr_v8f a = {0}, b = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        mr_v8f d = *(const mr_v8f *)(x + i) - shift;
        a += d;
        b += d * d;
    }
    float s = lanes_sum_float((const float *)&a), q = lanes_sum_float((const float *)&b);
    for (; i < n; i++) {
        s += x[i] - shift;
        q += (x[i] - shift) * (x[i] - shift);
    }
    *distance = (double)s;
    *squares = (double)q;
}

/* The sum of g (x - shift) over a plane. */
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
        int64_t channel = plane % channels;
        const float *x = j->x + plane * n;
        double *first = j->parts + plane / channels * 2 * channels + channel, *second = first + channels;
        if (j->g) {
            *first = (double)row_sum_float(j->g + plane * n, n);
            *second = (double)plane_products(j->g + plane * n, x, j->shift[channel], n);
        } else {
            float center = row_sum_float(x, n) / (float)n;
            plane_squares(x, center, n, first, second);
            store_moments((double)center, *first, *second, 1 / (double)n, first, second);
        }
    }
}

/* ---- all pieces ---- */

static mr_status *run_pieces(mr_run *r, sum_job *j, mr_tensor **parts)
{
    const mr_channels *c = j->c;
    bool rows = c->layout == MR_CHANNELS_LAST;
    int64_t n = count_elements(c);
    MR_ASSERT(!rows || c->period <= MAX_COLUMNS || c->period == c->channels);
    j->piece = n / c->batch;
    if (rows) {
        int64_t wanted = MR_MAX(MIN_PIECE, n / PIECES) / c->period + 1;
        j->piece = MR_MIN(MAX_ROWS, MR_MAX(MIN_ROWS, wanted)) * c->period;
    }
    j->pieces = (n + j->piece - 1) / j->piece;
    MR_TRY(mr_run_temp(r, MR_DOUBLE, 2, (const int64_t[]){j->pieces, 2 * c->channels}, parts));
    j->parts = (*parts)->data;
    if (rows)
        mr_run_for(r, j->pieces, ELEMENT_NS * (double)j->piece, sum_rows, j);
    else
        mr_run_for(r, c->batch * c->channels, ELEMENT_NS * (double)c->pixels, sum_planes, j);
    return NULL;
}

/* Elements of one channel in a piece. */
static double count_of(const sum_job *j, int64_t piece)
{
    return (double)(MR_MIN(j->piece, count_elements(j->c) - piece * j->piece) / j->c->channels);
}

MR_CLONES static void add_moments(const sum_job *j, double *means, double *variances)
{
    int64_t channels = j->c->channels;
    double m = (double)(j->c->batch * j->c->pixels);
    memset(means, 0, (size_t)channels * sizeof(double));
    memset(variances, 0, (size_t)channels * sizeof(double));
    for (int64_t i = 0; i < j->pieces; i++) {
        const double *part = j->parts + i * 2 * channels, share = count_of(j, i) / m;
        MR_IVDEP
        for (int64_t k = 0; k < channels; k++)
            means[k] += part[k] * share;
    }
    for (int64_t i = 0; i < j->pieces; i++) {
        const double *part = j->parts + i * 2 * channels, share = count_of(j, i) / m;
        MR_IVDEP
        for (int64_t k = 0; k < channels; k++)
            variances[k] += part[channels + k] / m + (part[k] - means[k]) * (part[k] - means[k]) * share;
    }
}

mr_status *mr_channels_moments(mr_run *r, const mr_channels *c, const float *x, double *means, double *variances)
{
    sum_job j = {.c = c, .x = x};
    mr_tensor *parts;
    MR_TRY(run_pieces(r, &j, &parts));
    add_moments(&j, means, variances);
    mr_tensor_unref(parts);
    return NULL;
}

MR_CLONES static void add_products(const sum_job *j, double *sums)
{
    int64_t n = 2 * j->c->channels;
    memset(sums, 0, (size_t)n * sizeof(double));
    for (int64_t i = 0; i < j->pieces; i++) {
        const double *part = j->parts + i * n;
        MR_IVDEP
        for (int64_t k = 0; k < n; k++)
            sums[k] += part[k];
    }
}

mr_status *mr_channels_products(mr_run *r, const mr_channels *c, const float *g, const float *x,
                                const float *shift, double *sums)
{
    sum_job j = {.c = c, .x = x, .g = g, .shift = shift};
    mr_tensor *parts;
    MR_TRY(run_pieces(r, &j, &parts));
    add_products(&j, sums);
    mr_tensor_unref(parts);
    return NULL;
}
