/* ops/fft/plan_test.c -- transforms of all lengths against the definition; the cache of plans. */
#include "ops/fft/plan.h"

#include <complex.h>
#include <math.h>

#include "base/memory.h"
#include "tests/harness/test.h"

static mr_c128 number(int64_t i) { return sin(1.7 * (double)i) + I * cos(0.9 * (double)(i * i)); }

/* The largest difference from the sum of x[j] exp(-2 pi i j k / n). */
static double worst_error(int64_t n)
{
    mr_fft *f;
    double worst = 0;
    MR_CHECK_OK(mr_fft_new(n, &f));
    mr_c128 *x = mr_new_array(mr_c128, n), *room = mr_new_array(mr_c128, mr_fft_room(f));
    for (int64_t i = 0; i < n; i++)
        x[i] = number(i);
    mr_fft_run(f, x, room);
    for (int64_t k = 0; k < n; k++) {
        mr_c128 sum = 0;
        for (int64_t j = 0; j < n; j++)
            sum += number(j) * cexp(-2 * M_PI * I * (double)(j * k % n) / (double)n);
        worst = fmax(worst, cabs(sum - x[k]));
    }
    mr_free(x);
    mr_free(room);
    mr_fft_unref(f);
    return worst;
}

MR_TEST(fft_plan_transforms_every_length)
{
    for (int64_t n = 1; n <= 140; n++)
        MR_CHECK(worst_error(n) < 1e-12 * (double)n);
}

MR_TEST(fft_plan_transforms_lengths_with_large_primes)
{
    const int64_t lengths[] = {67, 2 * 67, 127, 251, 61 * 61, 1009};
    for (int i = 0; i < MR_COUNT(lengths); i++)
        MR_CHECK(worst_error(lengths[i]) < 1e-11 * sqrt((double)lengths[i]));
}

MR_TEST(fft_cache_gives_the_same_plan_again_and_stays_small)
{
    mr_fft_cache c = {0};
    mr_fft *first, *again, *other;
    mr_fft_cache_init(&c);
    MR_CHECK_OK(mr_fft_cache_get(&c, 6, &first));
    MR_CHECK_OK(mr_fft_cache_get(&c, 6, &again));
    MR_CHECK(first == again);
    for (int64_t n = 1; n < 40; n++) {
        MR_CHECK_OK(mr_fft_cache_get(&c, n, &other));
        mr_fft_unref(other);
    }
    MR_CHECK_OK(mr_fft_cache_get(&c, 6, &other));
    mr_fft_unref(first);
    mr_fft_unref(again);
    mr_fft_unref(other);
    mr_fft_cache_deinit(&c);
}
