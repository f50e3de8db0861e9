/* train/digits_test.c -- the digits: drawn ones are digits, batches are permutations. */
#include "train/digits.h"

#include "tests/harness/test.h"

MR_TEST(digits_of_a_seed_are_all_seen_once)
{
    struct mr_digits *d = mr_digits_generate(100, 10);
    mr_tensor *x, *y;
    int seen[256] = {0}, all[256] = {0};
    MR_CHECK_OK(mr_digits_take(d, 0, 7, 0, 100, &x, &y));
    for (int i = 0; i < 100; i++) {
        seen[MR_DATA(int32_t, y)[i]]++;
        all[d->part[0].labels[i]]++;
    }
    for (int i = 0; i < 10; i++)
        MR_CHECK_INT(seen[i], all[i]);
    MR_CHECK_INT(x->dims[1], 28);
    mr_tensor_unref(x);
    mr_tensor_unref(y);
    mr_digits_drop(d);
}

MR_TEST(digits_differ_between_seeds)
{
    struct mr_digits *d = mr_digits_generate(64, 1);
    mr_tensor *x1, *y1, *x2, *y2;
    MR_CHECK_OK(mr_digits_take(d, 0, 1, 0, 64, &x1, &y1));
    MR_CHECK_OK(mr_digits_take(d, 0, 2, 0, 64, &x2, &y2));
    MR_CHECK(!mr_tensor_equal(x1, x2));
    mr_tensor_unref(x1), mr_tensor_unref(y1), mr_tensor_unref(x2), mr_tensor_unref(y2);
    mr_digits_drop(d);
}

MR_TEST(digits_refuse_a_folder_without_files)
{
    struct mr_digits *d;
    MR_CHECK_ERR(mr_digits_load(mr_test_dir(), &d), MR_NOT_FOUND, "train-images-idx3-ubyte");
}
