/* ops/array/order_test.c -- sorted rows of every type, with many equal values, beside their definition. */
#include "ops/array/order.h"

#include <math.h>

#include "base/memory.h"
#include "tests/harness/test.h"

static bool is_before(mr_order_fn *numbers, const void *row, int64_t a, int64_t b)
{
    uint64_t x, y;
    numbers(row, a, 1, &x);
    numbers(row, b, 1, &y);
    return x != y ? x > y : a < b;
}

/* Every position once, each before the next: there is only one such order. */
static void check_row(mr_dtype type, const char *row, int64_t n)
{
    size_t elem = mr_dtype_size(type);
    uint64_t *words = mr_new_array(uint64_t, 2 * n + 1);
    bool *seen = mr_new_array(bool, n + 1);
    char *sorted = mr_new_array(char, n * (int64_t)elem + 1);
    mr_order_fn *numbers = mr_order_of(type);
    mr_order_descending(type, row, n, words, words + n);
    mr_order_values(type, row, words, n, sorted);
    memset(seen, 0, (size_t)n + 1);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = (uint32_t)words[i];
        MR_CHECK(at < n && !seen[at]);
        seen[at] = true;
        if (i > 0 && !is_before(numbers, row, (uint32_t)words[i - 1], at))
            mr_test_fail(__FILE__, __LINE__, "%s: %lld of %lld is not in order", mr_dtype_name(type), (long long)i,
                         (long long)n);
        MR_CHECK(memcmp(sorted + (size_t)i * elem, row + (size_t)at * elem, elem) == 0);
    }
    mr_free(sorted);
    mr_free(seen);
    mr_free(words);
}

/* Random bytes; masked, so that only some bytes of the numbers differ and many numbers are equal. */
static void check_masked(mr_dtype type, int64_t n, uint64_t mask)
{
    size_t elem = mr_dtype_size(type);
    char *row = mr_new_array(char, n * (int64_t)elem + 1);
    for (int64_t i = 0; i < n; i++) {
        uint64_t v = mr_test_random() & mask;
        memcpy(row + (size_t)i * elem, &v, elem);
    }
    check_row(type, row, n);
    mr_free(row);
}

static void check_type(mr_dtype type)
{
    static const uint64_t masks[] = {UINT64_MAX,         0,     7,           0xff00,
                                     0xff000000ff000000, 0x300, 0x700000000, 0x8000000000000001};
    for (int m = 0; m < MR_COUNT(masks); m++)
        for (int64_t n = 0; n < 700; n += n < 100 ? 1 : 97)
            check_masked(type, n, masks[m]);
    check_masked(type, 20000, UINT64_MAX);
    check_masked(type, 20000, 0xff0000ff);
}

MR_TEST(order_sorts_rows_of_every_type)
{
#define CASE(E, ...) check_type(MR_##E);
    MR_REALS(CASE, )
#undef CASE
}

MR_TEST(order_keeps_the_sign_of_zeros_and_the_bits_of_nan)
{
    uint32_t row[300];
    static const uint32_t odd[] = {0, 0x80000000, 0x7fc00000, 0xffc00001, 0x7fffffff, 0x7f800000, 0xff800000, 0x3f800000};
    for (int i = 0; i < MR_COUNT(row); i++)
        row[i] = odd[mr_test_random() % MR_COUNT(odd)];
    check_row(MR_FLOAT, (const char *)row, MR_COUNT(row));
}

MR_TEST(order_of_doubles_whose_upper_halves_are_equal)
{
    double row[500];
    for (int i = 0; i < MR_COUNT(row); i++)
        row[i] = 1 + (double)(mr_test_random() % 300) * 0x1p-50;
    check_row(MR_DOUBLE, (const char *)row, MR_COUNT(row));
}
