/* ops/fft/plan.h -- Fourier transforms of one line of numbers.
 *
 * A plan holds the roots of unity and the factors of one length; it never changes, and any number of threads may
 * run it. All arithmetic is in double; lines of complex64 are converted before and after. */
#ifndef MR_OPS_FFT_PLAN_H
#define MR_OPS_FFT_PLAN_H

#include "base/thread.h"
#include "tensor/dtype.h"

typedef struct mr_fft mr_fft;

/* For lines of n > 0 numbers; RESOURCE_EXHAUSTED. */
mr_status *mr_fft_new(int64_t n, mr_fft **out);
mr_fft *mr_fft_ref(mr_fft *f);
void mr_fft_unref(mr_fft *f);
/* The number of scratch numbers that mr_fft_run needs besides the line. */
int64_t mr_fft_room(const mr_fft *f);
/* x[k] = sum of x[j] exp(-2 pi i j k / n).  (The inverse is the conjugate of the transform of the conjugate,
 * divided by n.) */
void mr_fft_run(const mr_fft *f, mr_c128 *x, mr_c128 *room);

/* The plans of the most recently used lengths; safe from any thread. */
enum { MR_FFT_KEPT = 8 };
typedef struct mr_fft_cache {
    mr_mutex mu;
    struct {
        mr_fft *plan;
        uint64_t used; /* time of last use, by the clock below */
    } kept[MR_FFT_KEPT] MR_GUARDED_BY(mu);
    uint64_t clock MR_GUARDED_BY(mu);
} mr_fft_cache;
void mr_fft_cache_init(mr_fft_cache *c);
void mr_fft_cache_deinit(mr_fft_cache *c);
/* The caller must release *out. */
mr_status *mr_fft_cache_get(mr_fft_cache *c, int64_t n, mr_fft **out);

#endif
