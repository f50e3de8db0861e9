/* ops/array/concat_test.c -- many rows joined from pieces of different lengths, some of them short or empty. */
#include "base/memory.h"
#include "ops/kernel_fixture.h"
#include "tests/harness/test.h"

static void check_join(int64_t rows, const int64_t *widths)
{
    mr_kernel_fixture b;
    mr_tensor *in[4], *out;
    int64_t total = 0, at = 0;
    float *want = mr_new_array(float, rows *(widths[0] + widths[1] + widths[2]) + 1);
    for (int i = 0; i < 3; i++)
        total += widths[i];
    for (int i = 0; i < 3; at += widths[i++]) {
        in[i] = mr_kernel_fixture_random(MR_FLOAT, 2, (int64_t[]){rows, widths[i]});
        for (int64_t r = 0; r < rows; r++)
            for (int64_t k = 0; k < widths[i]; k++)
                want[r * total + at + k] = MR_DATA(float, in[i])[r * widths[i] + k];
    }
    in[3] = mr_tensor_scalar_i32(1);
    mr_kernel_fixture_init(&b, 3, "ConcatV2", MR_ATTRS({"N", mr_a_int(3)}), 4,
                           (mr_dtype[]){MR_FLOAT, MR_FLOAT, MR_FLOAT, MR_INT32});
    MR_CHECK_OK(mr_kernel_fixture_run(&b, in, &out));
    MR_CHECK_INT(out->n, rows * total);
    MR_CHECK(memcmp(out->data, want, (size_t)(rows * total) * sizeof(float)) == 0);
    mr_tensor_unref(out);
    mr_free(want);
    mr_kernel_fixture_deinit(&b);
}

MR_TEST(concat_joins_rows_of_long_and_short_pieces)
{
    static const int64_t rows[] = {1, 15, 16, 17, 5000};
    for (int i = 0; i < MR_COUNT(rows); i++) {
        check_join(rows[i], (int64_t[]){16, 17, 100});
        check_join(rows[i], (int64_t[]){64, 64, 15});
        check_join(rows[i], (int64_t[]){1, 2, 3});
        check_join(rows[i], (int64_t[]){20, 0, 20});
    }
}
