/* ops/image/adjust_test.c -- AdjustHue and AdjustSaturation give each pixel of an image what it gets alone. */
#include <math.h>

#include "base/memory.h"
#include "ops/kernel_fixture.h"
#include "tests/harness/test.h"

static void adjust(const char *op, float by, const float *pixels, int64_t n, float *out)
{
    mr_kernel_fixture b;
    mr_tensor *y = NULL;
    mr_tensor *in[] = {mr_tensor_of(MR_FLOAT, 3, (int64_t[]){1, n, 3}, pixels), mr_tensor_of(MR_FLOAT, 0, NULL, &by)};
    mr_kernel_fixture_init(&b, 2, op, NULL, 0, 2, (mr_dtype[]){MR_FLOAT, MR_FLOAT});
    MR_CHECK_OK(mr_kernel_fixture_run(&b, in, &y));
    memcpy(out, y->data, (size_t)n * 3 * sizeof(float));
    mr_tensor_unref(y);
    mr_kernel_fixture_deinit(&b);
}

/* Equal components, zeros, negative colors and values that are no numbers are likely. */
static float random_component(void)
{
    static const float special[] = {0, -0.0f, 1, 0.5f, -1, NAN, INFINITY, 255};
    uint64_t n = mr_test_random() % 40;
    return n < MR_COUNT(special) ? special[n] : n < 20 ? (float)(n % 4) : (float)(mr_test_random() % 1000) / 999;
}

static void check_adjust(const char *op, float by)
{
    enum { MOST = 600 };
    static const int64_t sizes[] = {1, 2, 15, 16, 17, 255, 256, 257, 511, MOST};
    float pixels[MOST * 3], alone[MOST * 3], together[MOST * 3];
    for (int i = 0; i < MOST * 3; i++)
        pixels[i] = random_component();
    for (int i = 0; i < MOST; i++)
        adjust(op, by, pixels + 3 * i, 1, alone + 3 * i);
    for (int k = 0; k < MR_COUNT(sizes); k++) {
        adjust(op, by, pixels, sizes[k], together);
        for (int64_t i = 0; i < sizes[k] * 3; i++)
            MR_CHECK(memcmp(alone + i, together + i, sizeof(float)) == 0 || (isnan(alone[i]) && isnan(together[i])));
    }
}

MR_TEST(adjust_hue_gives_each_pixel_what_it_gets_alone)
{
    check_adjust("AdjustHue", 0.1f);
    check_adjust("AdjustHue", -0.73f);
    check_adjust("AdjustHue", NAN);
}

MR_TEST(adjust_saturation_gives_each_pixel_what_it_gets_alone)
{
    check_adjust("AdjustSaturation", 0.4f);
    check_adjust("AdjustSaturation", 3);
    check_adjust("AdjustSaturation", -1);
}
