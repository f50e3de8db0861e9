/* ops/math/pow_test.c -- one exponent for all elements gives what C's pow gives. */
#include <float.h>
#include <math.h>

#include "base/memory.h"
#include "ops/kernel_fixture.h"
#include "tests/harness/test.h"

static const double exponents[] = {0, -0.0, 1, 2, 3, 4, 5, -1, -2, -3, 0.5, -0.5, 1.5, -1.5, INFINITY, NAN};

/* Within 2 units of the last place: `epsilon` is that of 1. Infinities, NaN and the sign of 0 must be exact. */
static void check_value(double got, double want, double epsilon, double least, double x, double y)
{
    bool same = (isnan(got) && isnan(want)) || (got == want && signbit(got) == signbit(want));
    bool near = isfinite(got) && isfinite(want) && signbit(got) == signbit(want) &&
                fabs(got - want) <= MR_MAX(2 * epsilon * fabs(want), 2 * least);
    if (!same && !near)
        mr_test_fail(__FILE__, __LINE__, "%a to the power %g is %a, expected %a", x, y, got, want);
}

static void check_exponent(mr_kernel_fixture *b, mr_dtype type, double y)
{
    static const double special[] = {0, -0.0, 1, -1, INFINITY, -INFINITY, NAN, 2, -2, 0.5, -8, 1e-5, -1e5, 3e38, -1e-38};
    enum { N = 2000 };
    bool wide = type == MR_DOUBLE;
    double xs[N];
    int64_t n = N;
    mr_tensor *in[2], *out;
    for (int i = 0; i < N; i++)
        xs[i] = i < MR_COUNT(special) ? special[i] : ldexp((double)(int64_t)mr_test_random() * 0x1p-63, (int)(mr_test_random() % 200) - 100);
    MR_CHECK_OK(mr_tensor_new(NULL, type, 1, &n, &in[0]));
    MR_CHECK_OK(mr_tensor_new(NULL, type, 0, NULL, &in[1]));
    mr_dtype_convert(MR_DOUBLE, xs, type, in[0]->data, n, false);
    mr_dtype_convert(type, in[0]->data, MR_DOUBLE, xs, n, false);
    mr_dtype_convert(MR_DOUBLE, &y, type, in[1]->data, 1, false);
    MR_CHECK_OK(mr_kernel_fixture_run(b, in, &out));
    for (int i = 0; i < N; i++) {
        double want = pow(xs[i], y);
        check_value(mr_kernel_fixture_at(out, i), wide ? want : (double)(float)want, wide ? DBL_EPSILON : (double)FLT_EPSILON,
                    wide ? 0x1p-1074 : 0x1p-149, xs[i], y);
    }
    mr_tensor_unref(out);
}

MR_TEST(pow_by_one_exponent_equals_pow_of_c)
{
    static const mr_dtype types[] = {MR_FLOAT, MR_DOUBLE};
    for (int t = 0; t < 2; t++) {
        mr_kernel_fixture b;
        mr_kernel_fixture_init(&b, 1, "Pow", NULL, 0, 2, (mr_dtype[]){types[t], types[t]});
        for (int i = 0; i < MR_COUNT(exponents); i++)
            check_exponent(&b, types[t], exponents[i]);
        mr_kernel_fixture_deinit(&b);
    }
}
