/* Merges of elements. */
#include "group/merge.h"

#include "base/memory.h"
#include "tests/harness/test.h"

enum { N = 5000 };

MR_TEST(group_merge_adds_in_the_order_of_inputs)
{
    float big[1] = {1e8f}, small[1] = {1}, minus[1] = {-1e8f}, out[1];
    mr_merge_many(MR_FLOAT, MR_MERGE_ADD, (const void *[]){big, small, minus}, 3, 1, out, 1);
    MR_CHECK_NEAR(out[0], 0, 0);
    mr_merge_many(MR_FLOAT, MR_MERGE_ADD, (const void *[]){big, minus, small}, 3, 1, out, 1);
    MR_CHECK_NEAR(out[0], 1, 0);
}

MR_TEST(group_merge_may_write_over_any_input)
{
    for (int over = 0; over < 4; over++) {
        double x[4][N];
        for (int j = 0; j < 4; j++)
            for (int i = 0; i < N; i++)
                x[j][i] = (j + 1) * i;
        mr_merge_many(MR_DOUBLE, MR_MERGE_ADD, (const void *[]){x[0], x[1], x[2], x[3]}, 4, 2, x[over], N);
        for (int i = 0; i < N; i++)
            MR_CHECK_NEAR(x[over][i], 5.0 * i, 0);
    }
}

MR_TEST(group_merge_rounds_halves_once)
{
    mr_half x[3] = {mr_float_to_half(2048), mr_float_to_half(1), mr_float_to_half(1)}, out;
    mr_merge_many(MR_HALF, MR_MERGE_ADD, (const void *[]){x, x + 1, x + 2}, 3, 1, &out, 1);
    MR_CHECK_NEAR(mr_half_to_float(out), 2050, 0); /* 2049 is not a half, and would round to 2048 */
}

MR_TEST(group_merge_wraps_integers)
{
    int32_t a = INT32_MAX, b = 1, out;
    mr_merge_two(MR_INT32, MR_MERGE_ADD, &a, &b, &out, 1);
    MR_CHECK_INT(out, INT32_MIN);
    uint16_t c = 65535, d = 65535, e;
    mr_merge_two(MR_UINT16, MR_MERGE_MUL, &c, &d, &e, 1);
    MR_CHECK_INT(e, 1);
}

MR_TEST(group_merge_keeps_nan_in_maxima)
{
    float a[2] = {NAN, 1}, b[2] = {1, NAN}, out[2];
    mr_merge_two(MR_FLOAT, MR_MERGE_MAX, a, b, out, 2);
    MR_CHECK(isnan(out[0]) && isnan(out[1]));
}

MR_TEST(group_merge_divides_small_integers_by_many_members)
{
    int8_t x[2] = {100, -100};
    mr_merge_divide(MR_INT8, x, 300, 2);
    MR_CHECK_INT(x[0], 0);
    MR_CHECK_INT(x[1], 0);
}

MR_TEST(group_merge_refuses_what_has_no_order)
{
    MR_CHECK_OK(mr_merge_check(MR_COMPLEX64, MR_MERGE_ADD));
    MR_CHECK_ERR(mr_merge_check(MR_COMPLEX64, MR_MERGE_MAX), MR_INVALID_ARGUMENT, "maximum is not defined for type complex64");
    MR_CHECK_ERR(mr_merge_check(MR_STRING, MR_MERGE_ADD), MR_INVALID_ARGUMENT, "sum is not defined for type string");
    MR_CHECK_ERR(mr_merge_check(MR_FLOAT, (mr_merge)9), MR_INVALID_ARGUMENT, "unknown merge 9");
}

#define CHECK_TYPE(E, name, number, S, C, ...)                                                      \
    {                                                                                               \
        S x[3], out;                                                                                \
        for (int i = 0; i < 3; i++)                                                                 \
            MR_ST(x + i, (C)(i + 2));                                                               \
        mr_merge_many(MR_##E, MR_MERGE_MUL, (const void *[]){x, x + 1, x + 2}, 3, 1, &out, 1);      \
        MR_CHECK(MR_LD(&out) == (C)24);                                                             \
        mr_merge_many(MR_##E, MR_MERGE_ADD, (const void *[]){x, x + 1, x + 2}, 3, 3, &out, 1);      \
        MR_CHECK(MR_LD(&out) == (C)3);                                                              \
    }

MR_TEST(group_merge_knows_all_numbers){MR_NUMBERS(CHECK_TYPE, )}
