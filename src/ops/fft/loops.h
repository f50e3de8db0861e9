/* ops/fft/loops.h -- the loops of Fourier transforms, for float and double, and the tables that they read.
 *
 * Lanes: lines are transformed a few at a time, one in each lane of a vector. An array of n numbers in lanes has 64 n
 * bytes and is aligned to 64. Transforms are forward; one with real and imaginary parts exchanged before and after is
 * the inverse times n. */
#ifndef MR_OPS_FFT_LOOPS_H
#define MR_OPS_FFT_LOOPS_H

#include "base/thread.h"
#include "tensor/dtype.h"

enum {
    MR_FFT_LANES = 8,          /* most lanes of a type */
    MR_FFT_LANES_BYTES = 64,   /* of a complex number in lanes */
    MR_FFT_MOST_FACTORS = 64,
};

typedef struct mr_fft mr_fft;

typedef struct mr_fft_loops {
    int lanes;
    /* Transforms x; returns x or room, whichever has the result. */
    void *(*run)(const mr_fft *f, void *x, void *room);
    /* Lanes are neighbours in memory; `step` is the distance along the line, in complex numbers. */
    void (*load_across)(int64_t n, const void *from, int64_t step, bool exchange, void *to);
    void (*store_across)(int64_t n, const void *from, bool exchange, double scale, void *to, int64_t step);
    /* Lines are contiguous: `parts` real numbers of each, which are every `step`-th vector. All lanes are loaded, and
     * the first `count` stored. */
    void (*load_along)(int64_t parts, const void *const *from, int step, bool exchange, void *to);
    void (*store_along)(int64_t parts, const void *from, int step, bool exchange, double scale, void *const *to,
                        int count);
    /* One part (0: real, 1: imaginary) of number j of a lane. */
    void (*set)(void *x, int64_t j, int part, int lane, double value);
    double (*get)(const void *x, int64_t j, int part, int lane);
    /* The transform of 2 h real numbers, of which the first h + 1 are stored, from that of h complex ones, in place;
     * and back, times two; combine_lanes also exchanges the parts. In lanes, and for one line. */
    void (*separate_lanes)(int64_t h, const void *turns, void *x);
    void (*combine_lanes)(int64_t h, const void *turns, void *x);
    void (*separate_line)(int64_t h, const void *turns, void *x);
    void (*combine_line)(int64_t h, const void *turns, void *x);
    /* The transforms of two real lines of odd length n, n / 2 + 1 numbers of each, from that of the complex line of
     * which they are the real and the imaginary part; and back, with exchanged parts. */
    void (*separate_pairs)(int64_t n, const void *from, void *to);
    void (*combine_pairs)(int64_t n, const void *from, void *to);
    /* One line of contiguous complex numbers, which may be transformed in place. */
    void (*run_long)(const mr_fft *f, const void *from, bool exchange, double scale, void *to, void *room);
} mr_fft_loops;

/* A plan (plan.h). The tables are of the plan's type. */
struct mr_fft {
    mr_refs refs;
    int64_t n;
    mr_dtype type; /* MR_FLOAT or MR_DOUBLE */
    const mr_fft_loops *loops;
    int n_factors;
    int factors[MR_FFT_MOST_FACTORS];
    void *factors_of_passes; /* roots of unity in the order of use; NULL if n is too long for lanes */
    void *circles;           /* cosines and sines for each odd factor */
    void *turns;             /* exp(-2 pi i k / 2n), k <= n / 2, for real lines of 2n */
    /* Bluestein's convolution, of a length >= 2n - 1; NULL if all prime factors are small */
    struct mr_fft *inner;
    void *chirp, *filter; /* exp(-pi i k^2 / n); the transform of the convolution's filter */
    /* long lines: n = columns->n * rows->n; NULL if n is short or has no such factors */
    struct mr_fft *columns, *rows;
    void *fine; /* vectors of exp(-2 pi i k l / n) for lanes l */
    int coarse_bits;
    double *coarse, *coarse_low; /* exp(-2 pi i k / n) for multiples k of 2^coarse_bits, and for k below */
};

const mr_fft_loops *mr_fft_loops_of(mr_dtype type);

#endif
