/* ops/nn/channels.c -- loops over images with separate numbers for each channel; sums are in channel_sums.c.
 *
 * All loops exist twice: over rows of one period (channels last), and over planes with one number
 * (channels first).  A piece of work is a run of whole rows, or one plane. */
#include "ops/nn/channels.h"

#include "base/memory.h"
#include "base/simd.h"

enum { LONG_ENOUGH = 256 }; /* elements of a period */
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
