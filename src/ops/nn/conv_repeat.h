/* ops/nn/conv_repeat.h -- repeats the channels of an image, and sums the copies again.
 *
 * A depthwise convolution with several out channels per in channel equals one with a single out
 * channel each over an image in which each channel is repeated.  That form has fast code. */
#ifndef MR_OPS_NN_CONV_REPEAT_H
#define MR_OPS_NN_CONV_REPEAT_H

#include "run/run.h"

/* to[i times + k] = from[i] for n elements and k < times; elements of 4 or 8 bytes. */
void mr_channels_repeat(mr_run *r, const void *from, void *to, size_t bytes, int64_t n,
                        int64_t times);
/* to[i] = sum over k of from[i times + k]; float, double or int32. */
void mr_channels_fold(mr_run *r, mr_dtype type, const void *from, void *to, int64_t n,
                      int64_t times);

#endif
