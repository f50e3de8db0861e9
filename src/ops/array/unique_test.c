/* ops/array/unique_test.c -- Unique and ListDiff beside their definition, while the table grows. */
#include <math.h>

#include "base/memory.h"
#include "ops/kernel_fixture.h"
#include "tests/harness/test.h"

/* n numbers below `limit`, some of them NaN and -0 in floating types. */
static mr_tensor *random_numbers(mr_dtype type, int64_t n, uint64_t limit)
{
    mr_tensor *x;
    MR_CHECK_OK(mr_tensor_new(NULL, type, 1, &n, &x));
    for (int64_t i = 0; i < n; i++) {
        double v = (double)(mr_test_random() % limit);
        if (type == MR_FLOAT && mr_test_random() % 10 == 0)
            v = mr_test_random() % 2 ? NAN : -0.0;
        mr_dtype_convert(MR_DOUBLE, &v, type, (char *)x->data + (size_t)i * mr_dtype_size(type), 1, false);
    }
    return x;
}

static void check_unique(mr_dtype type, int64_t n, uint64_t limit)
{
    mr_kernel_fixture b;
    mr_tensor *x = random_numbers(type, n, limit), *y[3];
    int64_t next = 0, *counts = mr_new_array(int64_t, n + 1);
    memset(counts, 0, (size_t)(n + 1) * sizeof *counts);
    mr_kernel_fixture_init(&b, 1, "UniqueWithCounts", NULL, 0, 1, &type);
    MR_CHECK_OK(mr_kernel_fixture_run(&b, (mr_tensor *[]){mr_tensor_ref(x)}, y));
    for (int64_t i = 0; i < n; i++) { /* each number is next, or one that has been given to an equal value */
        int64_t k = MR_DATA(int32_t, y[1])[i];
        double v = mr_kernel_fixture_at(x, i), listed = mr_kernel_fixture_at(y[0], k);
        MR_CHECK(k <= next);
        MR_CHECK(v == listed || (isnan(v) && isnan(listed) && k == next));
        next += k == next;
        counts[k]++;
    }
    MR_CHECK_INT(y[0]->n, next);
    for (int64_t k = 0; k < next; k++) {
        MR_CHECK_INT(MR_DATA(int32_t, y[2])[k], counts[k]);
        for (int64_t i = 0; n < 500 && i < k; i++)
            MR_CHECK(mr_kernel_fixture_at(y[0], i) != mr_kernel_fixture_at(y[0], k));
    }
    for (int i = 0; i < 3; i++)
        mr_tensor_unref(y[i]);
    mr_tensor_unref(x);
    mr_free(counts);
    mr_kernel_fixture_deinit(&b);
}

MR_TEST(unique_numbers_values_in_order_of_appearance)
{
    static const mr_dtype types[] = {MR_INT8, MR_UINT16, MR_INT32, MR_INT64, MR_FLOAT, MR_DOUBLE};
    for (int t = 0; t < MR_COUNT(types); t++) {
        for (int64_t n = 0; n < 400; n += 1 + n / 3)
            check_unique(types[t], n, 100);
        if (mr_dtype_size(types[t]) >= 4)
            check_unique(types[t], 30000, 20000);
    }
}

MR_TEST(unique_finds_each_of_many_values_once)
{
    mr_kernel_fixture b;
    int64_t n = 20000;
    mr_tensor *x, *y[2];
    MR_CHECK_OK(mr_tensor_new(NULL, MR_INT64, 1, &n, &x));
    for (int64_t i = 0; i < n; i++)
        MR_DATA(int64_t, x)[i] = i % 5000 << 40;
    mr_kernel_fixture_init(&b, 1, "Unique", NULL, 0, 1, (mr_dtype[]){MR_INT64});
    MR_CHECK_OK(mr_kernel_fixture_run(&b, &x, y));
    MR_CHECK_INT(y[0]->n, 5000);
    for (int64_t i = 0; i < n; i++)
        MR_CHECK_INT(MR_DATA(int32_t, y[1])[i], i % 5000);
    mr_tensor_unref(y[0]);
    mr_tensor_unref(y[1]);
    mr_kernel_fixture_deinit(&b);
}

MR_TEST(list_diff_keeps_what_is_only_in_the_first_list)
{
    mr_kernel_fixture b;
    mr_kernel_fixture_init(&b, 1, "ListDiff", NULL, 0, 2, (mr_dtype[]){MR_INT32, MR_INT32});
    for (int64_t n = 0; n < 6000; n += 1 + n) {
        mr_tensor *x = random_numbers(MR_INT32, n, 3000), *y = random_numbers(MR_INT32, n / 2, 3000), *out[2];
        bool *listed = mr_new_array(bool, 3000);
        int64_t kept = 0;
        memset(listed, 0, 3000);
        for (int64_t i = 0; i < y->n; i++)
            listed[MR_DATA(int32_t, y)[i]] = true;
        MR_CHECK_OK(mr_kernel_fixture_run(&b, (mr_tensor *[]){mr_tensor_ref(x), y}, out));
        for (int64_t i = 0; i < n; i++) {
            if (listed[MR_DATA(int32_t, x)[i]])
                continue;
            MR_CHECK_INT(MR_DATA(int32_t, out[0])[kept], MR_DATA(int32_t, x)[i]);
            MR_CHECK_INT(MR_DATA(int32_t, out[1])[kept++], i);
        }
        MR_CHECK_INT(out[0]->n, kept);
        mr_tensor_unref(x);
        mr_tensor_unref(out[0]);
        mr_tensor_unref(out[1]);
        mr_free(listed);
    }
    mr_kernel_fixture_deinit(&b);
}
