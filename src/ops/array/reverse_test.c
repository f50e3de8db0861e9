/* ops/array/reverse_test.c -- ReverseV2 of images: pixels of three elements are moved several at a time. */
#include "base/memory.h"
#include "ops/kernel_fixture.h"
#include "tests/harness/test.h"

static void check_mirror(mr_dtype type, int64_t height, int64_t width, int64_t channels)
{
    size_t pixel = (size_t)channels * mr_dtype_size(type);
    mr_kernel_fixture b;
    mr_tensor *x = mr_kernel_fixture_random(type, 3, (int64_t[]){height, width, channels}), *y = NULL;
    mr_tensor *axis = mr_tensor_of(MR_INT32, 1, (int64_t[]){1}, (int32_t[]){1});
    mr_kernel_fixture_init(&b, 2, "ReverseV2", NULL, 0, 2, (mr_dtype[]){type, MR_INT32});
    MR_CHECK_OK(mr_kernel_fixture_run(&b, (mr_tensor *[]){mr_tensor_ref(x), axis}, &y));
    for (int64_t r = 0; r < height; r++)
        for (int64_t i = 0; i < width; i++)
            MR_CHECK(memcmp((char *)y->data + (size_t)(r * width + i) * pixel,
                            (char *)x->data + (size_t)(r * width + width - 1 - i) * pixel, pixel) == 0);
    mr_kernel_fixture_deinit(&b);
    mr_tensor_unref(x), mr_tensor_unref(y);
}

MR_TEST(reverse_mirrors_images_of_every_width)
{
    static const mr_dtype types[] = {MR_UINT8, MR_HALF, MR_INT16, MR_FLOAT, MR_DOUBLE};
    for (int t = 0; t < MR_COUNT(types); t++)
        for (int64_t channels = 1; channels <= 4; channels++)
            for (int64_t width = 1; width <= 40; width++)
                check_mirror(types[t], 3, width, channels);
}

MR_TEST(reverse_mirrors_large_images_on_threads)
{
    check_mirror(MR_UINT8, 2, 100001, 3);
    check_mirror(MR_HALF, 2, 50001, 3);
    check_mirror(MR_FLOAT, 5, 30001, 3);
}
