/* ops/fft/plan.h -- plans of Fourier transforms: the tables for one length and type.
 *
 * A plan never changes, and any number of threads may run it (through plan->loops, loops.h). */
#ifndef MR_OPS_FFT_PLAN_H
#define MR_OPS_FFT_PLAN_H

#include "ops/fft/loops.h"

enum {
    /* A larger prime factor costs more than a convolution. */
    MR_FFT_LARGEST = 61,
    /* Longer lines are transformed one by one, if possible: so many numbers in lanes do not fit in the second-level
     * cache. */
    MR_FFT_MOST_IN_LANES = 2048,
    /* Real lines of odd length have no good other way. */
    MR_FFT_MOST_IN_PAIRS = 1 << 15,
};

/* For lines of n > 0 complex numbers of MR_FLOAT or MR_DOUBLE; `halves`: also for real lines of 2n. RESOURCE_EXHAUSTED. */
mr_status *mr_fft_new(int64_t n, mr_dtype type, bool halves, mr_fft **out);
mr_fft *mr_fft_ref(mr_fft *f);
void mr_fft_unref(mr_fft *f);

/* True if loops->run may be called, or loops->run_long; one of them is. */
bool mr_fft_has_lanes(const mr_fft *f);
bool mr_fft_has_long(const mr_fft *f);
/* Bytes of memory, aligned to 64, that loops->run needs besides x, or loops->run_long. */
size_t mr_fft_lanes_room(const mr_fft *f);
size_t mr_fft_long_room(const mr_fft *f);

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
mr_status *mr_fft_cache_get(mr_fft_cache *c, int64_t n, mr_dtype type, bool halves, mr_fft **out);

#endif
