/* fed/fixed_test.c -- fixed point: sums are exact to the unit, and nothing overflows. */
#include "fed/fixed.h"

#include "base/memory.h"
#include "tests/harness/test.h"

MR_TEST(secure_sum_fixed_point_is_exact_to_half_a_unit_for_each_client)
{
    enum { CLIENTS = 7, N = 100 };
    mr_fixed f;
    uint32_t words[N + 1], sum[N + 1] = {0};
    double want[N] = {0};
    float mean[N];
    int64_t total = 0, examples;
    MR_CHECK_OK(mr_fixed_init(&f, CLIENTS, 2, 1000));
    for (int c = 0; c < CLIENTS; c++) {
        float d[N];
        for (int i = 0; i < N; i++) {
            d[i] = (float)((double)(int64_t)mr_test_random() * 0x1p-62); /* -2 .. 2 */
            want[i] += d[i] * (100 + c);
        }
        MR_CHECK_OK(mr_fixed_encode(&f, d, N, 100 + c, words));
        for (int i = 0; i <= N; i++)
            sum[i] += words[i];
        total += 100 + c;
    }
    MR_CHECK_OK(mr_fixed_decode(&f, sum, N, mean, &examples));
    MR_CHECK_INT(examples, total);
    double unit = 1 / f.scale * (double)f.most / (double)total;
    for (int i = 0; i < N; i++)
        MR_CHECK_NEAR(mean[i], want[i] / (double)total, CLIENTS * unit / 2 + 2e-7);
}

MR_TEST(secure_sum_fixed_point_does_not_overflow_at_its_bounds)
{
    for (int64_t clients = 1; clients <= 100000; clients *= 10) {
        mr_fixed f;
        float d[2] = {3.7f, -3.7f}, mean[2];
        uint32_t words[3], sum[3];
        int64_t examples;
        MR_CHECK_OK(mr_fixed_init(&f, clients, 3.7f, 20000));
        MR_CHECK_OK(mr_fixed_encode(&f, d, 2, 30000, words));
        for (int i = 0; i < 3; i++)
            sum[i] = words[i] * (uint32_t)clients;
        MR_CHECK_OK(mr_fixed_decode(&f, sum, 2, mean, &examples));
        MR_CHECK_INT(examples, 20000 * clients);
        MR_CHECK_NEAR(mean[0], 3.7, 3.7 / 256);
        MR_CHECK_NEAR(mean[1], -3.7, 3.7 / 256);
    }
}

MR_TEST(secure_sum_fixed_point_refuses_what_is_not_finite)
{
    mr_fixed f;
    uint32_t words[3];
    MR_CHECK_OK(mr_fixed_init(&f, 3, 1, 100));
    MR_CHECK_ERR(mr_fixed_encode(&f, (float[]){1, NAN}, 2, 5, words), MR_INVALID_ARGUMENT, "1 values that are not finite");
    MR_CHECK_ERR(mr_fixed_encode(&f, (float[]){INFINITY, -INFINITY}, 2, 5, words), MR_INVALID_ARGUMENT, "2 values");
    MR_CHECK_ERR(mr_fixed_encode(&f, (float[]){1, 1}, 2, 0, words), MR_INVALID_ARGUMENT, "at least one example");
    MR_CHECK_ERR(mr_fixed_init(&f, 1 << 20, 1, 1 << 20), MR_INVALID_ARGUMENT, "fixed point");
    MR_CHECK_ERR(mr_fixed_init(&f, 1 << 24, 1, 1), MR_INVALID_ARGUMENT, "too few bits");
}

MR_TEST(secure_sum_fixed_point_cuts_off_what_is_beyond_its_bounds)
{
    mr_fixed f;
    uint32_t words[2];
    float mean[1];
    int64_t examples;
    MR_CHECK_OK(mr_fixed_init(&f, 3, 1, 100));
    MR_CHECK_OK(mr_fixed_encode(&f, (float[]){5}, 1, 100, words));
    MR_CHECK_OK(mr_fixed_decode(&f, words, 1, mean, &examples));
    MR_CHECK_NEAR(mean[0], 1, 1e-6);
}
