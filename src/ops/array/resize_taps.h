/* ops/array/resize_taps.h -- picks the source pixels of a row of a resized image by vector permutations.
 *
 * Every pixel of a result's row depends on a few pixels of a source row, its taps (two for bilinear interpolation,
 * four for bicubic). Which ones is the same for all rows, so it is stored once, for each channel of each pixel; then
 * "tap k of all elements" is taken from a row a vector at a time, and the arithmetic is loops over arrays.
 *
 * A row is processed in blocks whose arrays stay in the first-level cache. A block's elements and the part of the
 * source row that it reads have at most MR_TAPS_OUT and MR_TAPS_IN elements. */
#ifndef MR_OPS_ARRAY_RESIZE_TAPS_H
#define MR_OPS_ARRAY_RESIZE_TAPS_H

#include "run/run.h"

enum { MR_TAPS_OUT = 1024, MR_TAPS_IN = 4096 };

typedef struct mr_taps_block {
    int64_t out, n;       /* elements of the result's row; `out` is a multiple of 8 */
    int64_t from, n_from; /* elements of the source row */
} mr_taps_block;

typedef struct mr_taps mr_taps;

/* Source pixels of a row: taps * out_w numbers in [0, in_w), tap by tap, which do not fall from one pixel to the
 * next. `type` is that of the source rows, MR_FLOAT or MR_UINT8. *out is NULL if this CPU has no such permutations,
 * or none for pixels so far apart: the caller then needs another loop. Freed by mr_scratch_free. */
mr_status *mr_taps_new(const mr_run *r, mr_dtype type, int taps, const int64_t *pixels, int64_t out_w, int64_t in_w,
                       int64_t channels, mr_taps **out);

int mr_taps_blocks(const mr_taps *t);
const mr_taps_block *mr_taps_block_at(const mr_taps *t, int i);
/* Writes tap k of a block's elements to `out`, as floats: n of them and up to 15 more. `row` is where the block's part
 * of the source row begins. It is fastest if `out` is aligned to 64 bytes. */
void mr_taps_take(const mr_taps *t, int k, const mr_taps_block *b, const void *row, float *out);

/* Selects another kind of CPU for new taps: "avx512vbmi", "avx512", "avx2" or "plain"; NULL: the best. False if this
 * CPU cannot. For tests. */
bool mr_taps_use(const char *name);

#endif
