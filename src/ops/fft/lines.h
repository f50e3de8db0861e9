/* ops/fft/lines.h -- transforms of all lines of a tensor along one axis.
 *
 * Tensors are viewed as four dimensions: a batch and the last three, with sizes of 1 before those that are
 * transformed. The result may be shorter than the source along any of them: the rest of the source is not read.
 * Real and complex numbers, of float and double, are converted as needed. */
#ifndef MR_OPS_FFT_LINES_H
#define MR_OPS_FFT_LINES_H

#include "ops/fft/plan.h"
#include "run/run.h"

typedef struct mr_fft_array {
    const mr_tensor *t;
    int64_t dims[4];
} mr_fft_array;

typedef enum mr_fft_kind {
    MR_FFT_COMPLEX,   /* n numbers to n numbers */
    MR_FFT_FROM_REAL, /* n real numbers to n/2 + 1 complex ones: the others are their conjugates */
    MR_FFT_TO_REAL,   /* and back */
} mr_fft_kind;

typedef struct mr_fft_pass {
    mr_fft_kind kind;
    bool inverse;
    int axis;  /* 1, 2 or 3; 3 unless complex */
    int64_t n; /* length of the transform */
} mr_fft_pass;

/* src and dst may be the same array when it is transformed in place. */
mr_status *mr_fft_lines(mr_run *r, mr_fft_cache *cache, const mr_fft_pass *p, const mr_fft_array *src,
                        const mr_fft_array *dst);

#endif
