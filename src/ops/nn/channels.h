/* ops/nn/channels.h -- loops over images with separate numbers for each channel.
 *
 * With channels last, an image is a flat array and element i belongs to channel i % channels.  Long
 * inner loops are faster, so the numbers of the channels are repeated to a period of a few hundred
 * elements, a multiple of the number of channels: element i takes entry i % period.  With channels
 * first, each plane of a channel is a separate array and needs no period.
 *
 * Sums are computed in pieces of a fixed size, which are added in order, in double: they are accurate
 * and do not depend on the number of threads. */
#ifndef MR_OPS_NN_CHANNELS_H
#define MR_OPS_NN_CHANNELS_H

#include "ops/nn/layout.h"

typedef struct mr_channels {
    mr_layout layout;
    int64_t batch, channels, pixels; /* pixels: of one channel of one image */
    int64_t period;                  /* entries of numbers[]; with channels first: `channels` */
} mr_channels;

void mr_channels_init(mr_channels *c, mr_layout layout, const mr_tensor *x);
/* Allocates one period of numbers; the caller owns *out. */
mr_status *mr_channels_numbers(mr_run *r, const mr_channels *c, mr_tensor **out);
/* Repeats the first `channels` entries of numbers to fill the period. */
void mr_channels_spread(const mr_channels *c, float *numbers);

/* For each channel: the mean of x, and the mean of (x - mean)^2. */
mr_status *mr_channels_moments(mr_run *r, const mr_channels *c, const float *x, double *means, double *variances);
/* For each channel: the sums of g, then the sums of g (x - shift). sums has room for 2 * channels doubles. */
mr_status *mr_channels_products(mr_run *r, const mr_channels *c, const float *g, const float *x,
                                const float *shift, double *sums);

/* y = (x - shift) scale + offset; y may be x. */
void mr_channels_scale(mr_run *r, const mr_channels *c, const float *x, const float *shift,
                       const float *scale, const float *offset, float *y);
/* y = g scale + (x - shift) slope + offset; y may be g or x. */
void mr_channels_mix(mr_run *r, const mr_channels *c, const float *g, const float *x,
                     const float *scale, const float *shift, const float *slope,
                     const float *offset, float *y);

#endif
