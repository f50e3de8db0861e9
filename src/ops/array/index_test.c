/* ops/array/index_test.c -- gathering rows on threads, TopKV2 against sorting, StridedSlice against Python's rule
 * written plainly. */
#include "ops/array/index.h"

#include <stdlib.h>

#include "base/memory.h"
#include "ops/array/strided_slice.h"
#include "ops/kernel_fixture.h"
#include "tests/harness/test.h"

static int64_t below(int64_t n) { return (int64_t)(mr_test_random() % (uint64_t)n); }

MR_TEST(index_place_names_rows_and_columns)
{
    MR_CHECK_STR(MR_INDEX_PLACE(0, NULL, 0), "");
    MR_CHECK_STR(MR_INDEX_PLACE(2, ((int64_t[]){2, 3}), 4), "[1,1]");
}

MR_TEST(index_check_finds_the_first_bad_one_in_every_type)
{
    static const mr_dtype types[] = {MR_UINT8, MR_INT16, MR_INT32, MR_INT64};
    for (int i = 0; i < MR_COUNT(types); i++) {
        mr_tensor *t = mr_kernel_fixture_random(types[i], 1, (int64_t[]){4});
        memset(t->data, 0, mr_tensor_bytes(t));
        MR_CHECK_OK(mr_index_check(t, "indices", 1));
        int64_t seven = 7;
        mr_dtype_convert(MR_INT64, &seven, types[i], (char *)t->data + 2 * mr_dtype_size(types[i]),
                         1, false);
        MR_CHECK_ERR(mr_index_check(t, "indices", 7), MR_INVALID_ARGUMENT,
                     "indices[2] = 7 is not in [0, 7)");
        mr_tensor_unref(t);
    }
}

MR_TEST(gather_on_threads_equals_a_plain_loop)
{
    mr_kernel_fixture b;
    mr_kernel_fixture_init(&b, 3, "GatherV2", NULL, 0, 3, (mr_dtype[]){MR_FLOAT, MR_INT32, MR_INT32});
    for (int64_t inner = 1; inner < 200; inner = inner * 3 + 1) {
        int64_t n = 300000 / inner;
        mr_tensor *params = mr_kernel_fixture_random(MR_FLOAT, 3, (int64_t[]){2, 50, inner}), *y;
        mr_tensor *indices = mr_kernel_fixture_random(MR_INT32, 1, &n);
        for (int64_t i = 0; i < n; i++)
            MR_DATA(int32_t, indices)[i] = (int32_t)below(50);
        MR_CHECK_OK(mr_kernel_fixture_run(&b, (mr_tensor *[]){mr_tensor_ref(params), mr_tensor_ref(indices),
                                                     mr_tensor_scalar_i32(1)}, &y));
        for (int64_t i = 0; i < y->n; i++) {
            int64_t k = i % inner, row = i / inner % n, o = i / inner / n;
            int64_t at = (o * 50 + MR_DATA(int32_t, indices)[row]) * inner + k;
            MR_CHECK(MR_DATA(float, y)[i] == MR_DATA(float, params)[at]);
        }
        mr_tensor_unref(params);
        mr_tensor_unref(indices);
        mr_tensor_unref(y);
    }
    mr_kernel_fixture_deinit(&b);
}

/* ---- TopKV2 ---- */

static const float *row_of; /* qsort has no context argument */

static int by_value_then_place(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    if (row_of[x] != row_of[y])
        return row_of[x] > row_of[y] ? -1 : 1;
    return x < y ? -1 : 1;
}

MR_TEST(top_k_equals_sorting)
{
    mr_kernel_fixture b;
    mr_kernel_fixture_init(&b, 2, "TopKV2", NULL, 0, 2, (mr_dtype[]){MR_FLOAT, MR_INT32});
    for (int round = 0; round < 60; round++) {
        int64_t n = 1 + below(600), k = below(n + 1), order_n = n;
        mr_tensor *x = mr_kernel_fixture_random(MR_FLOAT, 2, (int64_t[]){3, n}), *y[2], *order;
        MR_CHECK_OK(mr_tensor_new(NULL, MR_INT32, 1, &order_n, &order));
        MR_CHECK_OK(mr_kernel_fixture_run(
            &b, (mr_tensor *[]){mr_tensor_ref(x), mr_tensor_scalar_i32((int32_t)k)}, y));
        for (int r = 0; r < 3; r++) {
            row_of = MR_DATA(float, x) + r * n;
            for (int32_t i = 0; i < n; i++)
                MR_DATA(int32_t, order)[i] = i;
            qsort(order->data, (size_t)n, sizeof(int32_t), by_value_then_place);
            for (int64_t i = 0; i < k; i++) {
                MR_CHECK_INT(MR_DATA(int32_t, y[1])[r * k + i], MR_DATA(int32_t, order)[i]);
                MR_CHECK(MR_DATA(float, y[0])[r * k + i] == row_of[MR_DATA(int32_t, order)[i]]);
            }
        }
        mr_tensor_unref(x);
        mr_tensor_unref(order);
        mr_tensor_unref(y[0]);
        mr_tensor_unref(y[1]);
    }
    mr_kernel_fixture_deinit(&b);
}

/* ---- StridedSlice ---- */

/* range(n)[begin:end:stride], computed by trying every step: an omitted bound (open) is beyond the last element in
 * the direction of the stride. */
static int python_slice(int64_t n, int64_t begin, bool open_begin, int64_t end, bool open_end,
                        int64_t stride, int64_t *out)
{
    int64_t at = begin < 0 ? begin + n : begin, stop = end < 0 ? end + n : end;
    int count = 0;
    if (open_begin)
        at = stride > 0 ? 0 : n - 1;
    while (stride > 0 && at < 0) /* a start before the first element becomes the first element */
        at = 0;
    while (stride < 0 && at > n - 1)
        at = n - 1;
    for (; at >= 0 && at < n && (open_end || (stride > 0 ? at < stop : at > stop)); at += stride)
        out[count++] = at;
    return count;
}

MR_TEST(strided_slice_takes_what_python_takes)
{
    for (int masks = 0; masks < 4; masks++) {
        mr_kernel_fixture b;
        int64_t begin_mask = masks & 1, end_mask = masks >> 1;
        mr_kernel_fixture_init(
            &b, 1, "StridedSlice",
            MR_ATTRS({"begin_mask", mr_a_int(begin_mask)}, {"end_mask", mr_a_int(end_mask)}), 4,
            (mr_dtype[]){MR_INT32, MR_INT32, MR_INT32, MR_INT32});
        for (int64_t i = 0; i < 7 * 17 * 17 * 7; i++) {
            int64_t n = i % 7, begin = i / 7 % 17 - 8, end = i / 119 % 17 - 8,
                    stride = i / 2023 - 3, want[8];
            if (stride == 0 || (i * 7 + masks) % 5) /* a fifth of all cases */
                continue;
            mr_tensor *x = mr_kernel_fixture_random(MR_INT32, 1, &n), *y;
            for (int k = 0; k < n; k++)
                MR_DATA(int32_t, x)[k] = k;
            int32_t args[] = {(int32_t)begin, (int32_t)end, (int32_t)stride};
            MR_CHECK_OK(mr_kernel_fixture_run(&b, (mr_tensor *[]){x, mr_tensor_vector_i32(1, &args[0]),
                                                         mr_tensor_vector_i32(1, &args[1]),
                                                         mr_tensor_vector_i32(1, &args[2])}, &y));
            int count = python_slice(n, begin, begin_mask, end, end_mask, stride, want);
            MR_CHECK_INT(y->n, count);
            for (int k = 0; k < count; k++)
                MR_CHECK_INT(MR_DATA(int32_t, y)[k], want[k]);
            mr_tensor_unref(y);
        }
        mr_kernel_fixture_deinit(&b);
    }
}

MR_TEST(strided_slice_survives_the_extremes_of_int64)
{
    static const int64_t extremes[] = {INT64_MIN, INT64_MIN + 1, -1,       0,
                                       1,         INT64_MAX - 1, INT64_MAX};
    mr_kernel_fixture b;
    mr_kernel_fixture_init(&b, 1, "StridedSlice", NULL, 0, 4,
                  (mr_dtype[]){MR_FLOAT, MR_INT64, MR_INT64, MR_INT64});
    for (int i = 0; i < 343; i++) {
        int64_t begin = extremes[i % 7], end = extremes[i / 7 % 7], stride = extremes[i / 49];
        mr_tensor *y;
        mr_status *st = mr_kernel_fixture_run(
            &b,
            (mr_tensor *[]){mr_kernel_fixture_random(MR_FLOAT, 2, (int64_t[]){3, 2}),
                            mr_tensor_vector_i64(1, &begin), mr_tensor_vector_i64(1, &end),
                            mr_tensor_vector_i64(1, &stride)},
            &y);
        MR_CHECK((st != NULL) == (stride == 0));
        MR_CHECK(st || (y->rank == 2 && y->dims[0] <= 3));
        mr_status_free(st);
        mr_tensor_unref(y);
    }
    mr_kernel_fixture_deinit(&b);
}

/* ---- Gather ---- */

/* Slices of `inner` numbers along the second of three dimensions. */
static void check_gather(mr_dtype type, int64_t outer, int64_t n, int64_t inner, int64_t k)
{
    mr_kernel_fixture b;
    size_t bytes = (size_t)inner * mr_dtype_size(type);
    mr_tensor *x = mr_kernel_fixture_random(type, 3, (int64_t[]){outer, n, inner}), *at, *y;
    MR_CHECK_OK(mr_tensor_new(NULL, MR_INT64, 1, &k, &at));
    for (int64_t i = 0; i < k; i++)
        MR_DATA(int64_t, at)[i] = below(n);
    mr_kernel_fixture_init(&b, 3, "GatherV2", NULL, 0, 3, (mr_dtype[]){type, MR_INT64, MR_INT32});
    MR_CHECK_OK(mr_kernel_fixture_run(
        &b, (mr_tensor *[]){mr_tensor_ref(x), mr_tensor_ref(at), mr_tensor_scalar_i32(1)}, &y));
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < k; i++)
            MR_CHECK(memcmp((char *)y->data + (size_t)(o * k + i) * bytes,
                            (char *)x->data + (size_t)(o * n + MR_DATA(int64_t, at)[i]) * bytes, bytes) == 0);
    mr_tensor_unref(x);
    mr_tensor_unref(at);
    mr_tensor_unref(y);
    mr_kernel_fixture_deinit(&b);
}

MR_TEST(gather_copies_slices_of_every_size)
{
    static const mr_dtype types[] = {MR_UINT8, MR_INT16, MR_FLOAT, MR_DOUBLE};
    for (int t = 0; t < MR_COUNT(types); t++)
        for (int64_t inner = 1; inner < 300; inner += inner < 20 ? 1 : 61)
            check_gather(types[t], 1 + below(5), 1 + below(50), inner, 1 + below(60));
    check_gather(MR_FLOAT, 300, 200, 1, 100);
    check_gather(MR_FLOAT, 1, 5000, 16, 9000);
}
