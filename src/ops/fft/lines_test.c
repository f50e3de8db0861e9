/* ops/fft/lines_test.c -- every kind of transform of few and many lines, which leaves the memory beside them alone. */
#include "ops/fft/lines.h"

#include <complex.h>
#include <math.h>

#include "base/memory.h"
#include "ops/kernel_fixture.h"
#include "tests/harness/test.h"

enum { BESIDE = 300 }; /* numbers after the result */

static mr_tensor *new_tensor(mr_dtype type, int64_t n, mr_c128 fill)
{
    mr_tensor *t;
    MR_CHECK_OK(mr_tensor_new(NULL, type, 1, &n, &t));
    for (int64_t i = 0; i < n; i++)
        mr_dtype_convert(MR_COMPLEX128, &fill, type, (char *)t->data + (size_t)i * mr_dtype_size(type), 1, false);
    return t;
}

static mr_c128 at(const mr_tensor *t, int64_t i)
{
    mr_c128 v;
    mr_dtype type = (mr_dtype)t->dtype;
    mr_dtype_convert(type, (const char *)t->data + (size_t)i * mr_dtype_size(type), MR_COMPLEX128, &v, 1, false);
    return v;
}

/* Line l of the result is scale sum of x[j] exp(-2 pi i j k / n), or with the other sign; `first` numbers of x are
 * stored, the others are conjugates. */
static mr_c128 expected(const mr_tensor *x, int64_t l, int64_t stored, int64_t n, int64_t k, bool inverse)
{
    mr_c128 sum = 0;
    for (int64_t j = 0; j < n; j++) {
        mr_c128 v = j < stored ? at(x, l * stored + j) : conj(at(x, l * stored + n - j));
        sum += v * cexp((inverse ? 2 : -2) * M_PI * I * (double)(j * k % n) / (double)n);
    }
    return inverse ? sum / (double)n : sum;
}

static void check_lines(mr_run *r, mr_fft_kind kind, bool inverse, bool narrow, int64_t lines, int64_t n)
{
    mr_fft_cache cache = {0};
    int64_t half = n / 2 + 1, read = kind == MR_FFT_TO_REAL ? half : n, written = kind == MR_FFT_FROM_REAL ? half : n;
    mr_dtype real = narrow ? MR_FLOAT : MR_DOUBLE, complex_ = narrow ? MR_COMPLEX64 : MR_COMPLEX128;
    mr_tensor *x = new_tensor(kind == MR_FFT_FROM_REAL ? real : complex_, lines * read, 0);
    mr_tensor *y = new_tensor(kind == MR_FFT_TO_REAL ? real : complex_, lines * written + BESIDE, 7);
    for (int64_t i = 0; i < x->n; i++) {
        bool first = i % read == 0 || (n % 2 == 0 && i % read == half - 1); /* the transform of real numbers is real there */
        double im = kind == MR_FFT_TO_REAL && first ? 0 : (double)(mr_test_random() % 100) / 100;
        mr_c128 v = __builtin_complex((double)(mr_test_random() % 100) / 100, im);
        mr_dtype_convert(MR_COMPLEX128, &v, (mr_dtype)x->dtype,
                         (char *)x->data + (size_t)i * mr_dtype_size((mr_dtype)x->dtype), 1, false);
    }
    mr_fft_cache_init(&cache);
    MR_CHECK_OK(mr_fft_lines(r, &cache, &(mr_fft_pass){kind, inverse, 3, n},
                             &(mr_fft_array){x, {lines, 1, 1, read}}, &(mr_fft_array){y, {lines, 1, 1, written}}));
    double worst = 0;
    for (int64_t i = 0; i < lines * written; i += 1 + (int64_t)(mr_test_random() % 5))
        worst = fmax(worst, cabs(at(y, i) - expected(x, i / written, read, n, i % written, inverse)));
    MR_CHECK_NEAR(worst, 0, (narrow ? 1e-6 : 1e-14) * (double)n);
    for (int64_t i = 0; i < BESIDE; i++)
        MR_CHECK(at(y, lines * written + i) == 7);
    mr_fft_cache_deinit(&cache);
    mr_tensor_unref(x);
    mr_tensor_unref(y);
}

static void check_kind(mr_fft_kind kind, bool inverse)
{
    static const int64_t lengths[] = {1, 2, 3, 6, 11, 64, 66, 97, 105, 128, 134, 194, 225};
    static const int64_t lines[] = {1, 2, 3, 8, 9, 19};
    mr_kernel_fixture b;
    mr_kernel_fixture_init(&b, 1, "FFT", NULL, 0, 1, (mr_dtype[]){MR_COMPLEX64});
    mr_step step = {.device = b.device};
    mr_run r = {.node = b.node, .kernel = b.kernel->kernel, .step = &step};
    for (int i = 0; i < MR_COUNT(lengths); i++)
        for (int l = 0; l < MR_COUNT(lines); l++) {
            check_lines(&r, kind, inverse, true, lines[l], lengths[i]);
            check_lines(&r, kind, inverse, false, lines[l], lengths[i]);
        }
    mr_kernel_fixture_deinit(&b);
}

MR_TEST(lines_of_complex_numbers_are_transformed) { check_kind(MR_FFT_COMPLEX, false); }
MR_TEST(lines_of_complex_numbers_are_transformed_back) { check_kind(MR_FFT_COMPLEX, true); }
MR_TEST(lines_of_real_numbers_are_transformed) { check_kind(MR_FFT_FROM_REAL, false); }
MR_TEST(lines_of_real_numbers_are_transformed_back) { check_kind(MR_FFT_TO_REAL, true); }
