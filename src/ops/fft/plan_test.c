/* ops/fft/plan_test.c -- transforms of all lengths against the definition; the cache of plans. */
#include "ops/fft/plan.h"

#include <complex.h>
#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "tests/harness/test.h"

static mr_c128 number(int64_t i) { return sin(1.7 * (double)i) + I * cos(0.9 * (double)(i * i)); }

/* The largest difference between the transform in y and the sum of x[j] exp(-2 pi i j k / n), where y has its parts
 * in turn. */
static double worst_error(const mr_fft *f, const void *y)
{
    double worst = 0;
    mr_c128 *x = mr_new_array(mr_c128, f->n), *roots = mr_new_array(mr_c128, f->n);
    for (int64_t i = 0; i < f->n; i++) {
        x[i] = number(i);
        roots[i] = cexp(-2 * M_PI * I * (double)i / (double)f->n);
    }
    for (int64_t k = 0; k < f->n; k++) {
        mr_c128 sum = 0, got;
        for (int64_t j = 0, power = 0; j < f->n; j++, power = (power + k) % f->n)
            sum += x[j] * roots[power];
        if (f->type == MR_FLOAT)
            got = ((const mr_c64 *)y)[k];
        else
            got = ((const mr_c128 *)y)[k];
        worst = fmax(worst, cabs(sum - got));
    }
    mr_free(x);
    mr_free(roots);
    return worst;
}

/* Checks both ways to transform a line, as far as this length has them. */
static void check_length(int64_t n, mr_dtype type)
{
    mr_fft *f;
    MR_CHECK_OK(mr_fft_new(n, type, false, &f));
    size_t size = mr_dtype_size(type == MR_FLOAT ? MR_COMPLEX64 : MR_COMPLEX128) * (size_t)n;
    void *line = mr_alloc(size), *y = mr_alloc(size);
    double limit = (type == MR_FLOAT ? 1.2e-6 : 2e-15) * (double)(n + 3); /* the largest number of the result is about n / 2 */
    for (int64_t i = 0; i < n; i++)
        if (type == MR_FLOAT)
            ((mr_c64 *)line)[i] = (mr_c64)number(i);
        else
            ((mr_c128 *)line)[i] = number(i);
    MR_CHECK(mr_fft_has_lanes(f) || mr_fft_has_long(f));
    if (mr_fft_has_lanes(f)) {
        const void *lines[MR_FFT_LANES];
        void *to[MR_FFT_LANES] = {0};
        for (int l = 0; l < MR_FFT_LANES; l++)
            lines[l] = line;
        to[0] = y;
        char *x = aligned_alloc(64, (size_t)n * MR_FFT_LANES_BYTES);
        char *room = aligned_alloc(64, mr_fft_lanes_room(f));
        f->loops->load_along(2 * n, lines, 1, false, x);
        f->loops->store_along(2 * n, f->loops->run(f, x, room), 1, false, 1, to, 1);
        MR_CHECK_NEAR(worst_error(f, y), 0, limit);
        free(x);
        free(room);
    }
    if (mr_fft_has_long(f)) {
        char *room = aligned_alloc(64, mr_fft_long_room(f));
        f->loops->run_long(f, line, false, 1, y, room);
        MR_CHECK_NEAR(worst_error(f, y), 0, limit);
        f->loops->run_long(f, line, false, 1, line, room); /* in place */
        MR_CHECK(memcmp(line, y, size) == 0);
        free(room);
    }
    mr_free(line);
    mr_free(y);
    mr_fft_unref(f);
}

MR_TEST(fft_plan_transforms_every_length_in_float)
{
    for (int64_t n = 1; n <= 140; n++)
        check_length(n, MR_FLOAT);
}

MR_TEST(fft_plan_transforms_every_length_in_double)
{
    for (int64_t n = 1; n <= 140; n++)
        check_length(n, MR_DOUBLE);
}

MR_TEST(fft_plan_transforms_long_lines_and_large_primes)
{
    const int64_t lengths[] = {251, 61 * 61, 1009, 1024, 2047, 2048, 2310, 3000, 4 * 61 * 11, 4096, 4099};
    for (int i = 0; i < MR_COUNT(lengths); i++) {
        check_length(lengths[i], MR_FLOAT);
        check_length(lengths[i], MR_DOUBLE);
    }
}

MR_TEST(fft_cache_gives_the_same_plan_again_and_stays_small)
{
    mr_fft_cache c = {0};
    mr_fft *first, *again, *other;
    mr_fft_cache_init(&c);
    MR_CHECK_OK(mr_fft_cache_get(&c, 6, MR_FLOAT, false, &first));
    MR_CHECK_OK(mr_fft_cache_get(&c, 6, MR_FLOAT, false, &again));
    MR_CHECK(first == again);
    MR_CHECK_OK(mr_fft_cache_get(&c, 6, MR_DOUBLE, false, &other));
    MR_CHECK(other != first);
    mr_fft_unref(other);
    MR_CHECK_OK(mr_fft_cache_get(&c, 6, MR_FLOAT, true, &other)); /* has more tables */
    MR_CHECK(other != first && other->turns);
    mr_fft_unref(other);
    for (int64_t n = 1; n < 40; n++) {
        MR_CHECK_OK(mr_fft_cache_get(&c, n, MR_FLOAT, false, &other));
        mr_fft_unref(other);
    }
    MR_CHECK_OK(mr_fft_cache_get(&c, 6, MR_FLOAT, false, &other));
    mr_fft_unref(first);
    mr_fft_unref(again);
    mr_fft_unref(other);
    mr_fft_cache_deinit(&c);
}
