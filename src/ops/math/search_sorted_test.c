/* ops/math/search_sorted_test.c -- binary searches against counting. */
#include "base/memory.h"
#include "ops/kernel_fixture.h"
#include "tests/harness/test.h"

/* Sorted rows with equal elements; the bound is the number of elements below (or not above) the value. */
static void check_bound(const char *op, bool upper, mr_dtype type)
{
    mr_kernel_fixture b;
    mr_kernel_fixture_init(&b, 2, op, NULL, 0, 2, (mr_dtype[]){type, type});
    for (int64_t n = 0; n < 70; n++) {
        enum { ROWS = 3, VALUES = 90 };
        mr_tensor *in[2], *out;
        double sorted[ROWS * 70], values[ROWS * VALUES];
        for (int64_t i = 0; i < ROWS * n; i++)
            sorted[i] = i % n == 0 ? 0 : sorted[i - 1] + (double)(mr_test_random() % 2);
        for (int64_t i = 0; i < ROWS * VALUES; i++)
            values[i] = (double)(i % VALUES) / 2;
        MR_CHECK_OK(mr_tensor_new(NULL, type, 2, (int64_t[]){ROWS, n}, &in[0]));
        MR_CHECK_OK(mr_tensor_new(NULL, type, 2, (int64_t[]){ROWS, VALUES}, &in[1]));
        mr_dtype_convert(MR_DOUBLE, sorted, type, in[0]->data, ROWS * n, false);
        mr_dtype_convert(MR_DOUBLE, values, type, in[1]->data, ROWS * VALUES, false);
        mr_dtype_convert(type, in[1]->data, MR_DOUBLE, values, ROWS * VALUES, false);
        MR_CHECK_OK(mr_kernel_fixture_run(&b, in, &out));
        for (int64_t i = 0; i < ROWS * VALUES; i++) {
            int64_t want = 0;
            for (int64_t k = i / VALUES * n; k < (i / VALUES + 1) * n; k++)
                want += upper ? sorted[k] <= values[i] : sorted[k] < values[i];
            MR_CHECK_INT(MR_DATA(int32_t, out)[i], want);
        }
        mr_tensor_unref(out);
    }
    mr_kernel_fixture_deinit(&b);
}

MR_TEST(search_sorted_counts_the_elements_before_each_value)
{
    static const mr_dtype types[] = {MR_FLOAT, MR_DOUBLE, MR_HALF, MR_INT32, MR_UINT8, MR_INT64};
    for (int t = 0; t < MR_COUNT(types); t++) {
        check_bound("LowerBound", false, types[t]);
        check_bound("UpperBound", true, types[t]);
    }
}
