/* ops/array/resize_taps_test.c -- the resizing ops give the same bits on every kind of CPU as with the plain loops. */
#include "ops/array/resize_taps.h"

#include <math.h>

#include "base/memory.h"
#include "ops/kernel_fixture.h"
#include "run/scratch.h"
#include "tests/harness/test.h"

typedef struct resize {
    const char *op;
    bool align_corners, half_pixel_centers;
    mr_dtype type;
    int64_t batch, in_h, in_w, out_h, out_w, channels;
} resize;

static const char *const kinds[] = {"avx512vbmi", "avx512", "avx2"};

/* Small integers, and for floats some values that do not survive a product with 0. */
static mr_tensor *make_images(const resize *z)
{
    mr_tensor *x = mr_kernel_fixture_random(z->type, 4, (int64_t[]){z->batch, z->in_h, z->in_w, z->channels});
    float *f = z->type == MR_FLOAT ? MR_DATA(float, x) : NULL;
    for (int64_t i = 0; f && i < x->n; i++) {
        uint64_t n = mr_test_random() % 300;
        f[i] = n == 0 ? NAN : n == 1 ? INFINITY : n == 2 ? -0.0f : f[i] * 0.37f + 0.001f * (float)n;
    }
    return x;
}

static mr_tensor *resized(const resize *z, int threads, const char *kind, const mr_tensor *x)
{
    mr_kernel_fixture b;
    const int32_t wanted[] = {(int32_t)z->out_h, (int32_t)z->out_w};
    mr_tensor *y = NULL, *size = mr_tensor_of(MR_INT32, 1, (int64_t[]){2}, wanted);
    const mr_named_attr attrs[] = {{"align_corners", mr_a_bool(z->align_corners)},
                                   {"half_pixel_centers", mr_a_bool(z->half_pixel_centers)}};
    int n = strcmp(z->op, "ResizeArea") == 0 ? 1 : 2;
    MR_CHECK(mr_taps_use(kind));
    mr_kernel_fixture_init(&b, threads, z->op, attrs, n, 2, (mr_dtype[]){z->type, MR_INT32});
    MR_CHECK_OK(mr_kernel_fixture_run(&b, (mr_tensor *[]){mr_tensor_ref(x), size}, &y));
    mr_kernel_fixture_deinit(&b);
    mr_taps_use(NULL);
    return y;
}

/* NaN equals NaN: which of its bits an operation keeps is not defined. */
static bool same_bits(const mr_tensor *a, const mr_tensor *b)
{
    const float *p = MR_DATA(const float, a), *q = MR_DATA(const float, b);
    for (int64_t i = 0; i < a->n; i++)
        if (memcmp(p + i, q + i, sizeof(float)) != 0 && !(isnan(p[i]) && isnan(q[i])))
            return false;
    return a->n == b->n;
}

static void check_resize(const resize *z)
{
    mr_tensor *x = make_images(z), *plain = resized(z, 1, "plain", x);
    for (int i = 0; i < MR_COUNT(kinds); i++)
        for (int threads = 1; threads <= 3 && mr_taps_use(kinds[i]); threads += 2) {
            mr_tensor *y = resized(z, threads, kinds[i], x);
            if (!same_bits(plain, y))
                mr_test_fail(__FILE__, __LINE__, "%s of %s on %s: [%d, %d, %d, %d] to [%d, %d]%s%s differs", z->op,
                             mr_dtype_name(z->type), kinds[i], (int)z->batch, (int)z->in_h, (int)z->in_w,
                             (int)z->channels, (int)z->out_h, (int)z->out_w,
                             z->align_corners ? " with aligned corners" : "",
                             z->half_pixel_centers ? " with half pixel centers" : "");
            mr_tensor_unref(y);
        }
    mr_tensor_unref(plain), mr_tensor_unref(x);
}

static int64_t random_to(int64_t most) { return 1 + (int64_t)(mr_test_random() % (uint64_t)most); }

static void check_many(const char *op, bool centers)
{
    static const mr_dtype types[] = {MR_FLOAT, MR_UINT8, MR_UINT8, MR_INT16, MR_HALF, MR_DOUBLE};
    for (int i = 0; i < 250; i++) {
        resize z = {.op = op, .type = types[i % MR_COUNT(types)], .batch = random_to(2), .in_h = random_to(9),
                    .in_w = random_to(i % 2 ? 300 : 30), .out_h = random_to(40), .out_w = random_to(i % 3 ? 100 : 700),
                    .channels = random_to(i % 5 ? 4 : 18)};
        int corners = (int)(mr_test_random() % 3);
        z.align_corners = corners == 1;
        z.half_pixel_centers = centers && corners == 2;
        check_resize(&z);
    }
}

MR_TEST(resize_bilinear_gives_the_same_bits_on_every_kind_of_cpu) { check_many("ResizeBilinear", true); }
MR_TEST(resize_bicubic_gives_the_same_bits_on_every_kind_of_cpu) { check_many("ResizeBicubic", true); }
MR_TEST(resize_area_gives_the_same_bits_on_every_kind_of_cpu) { check_many("ResizeArea", false); }

/* Rows of more elements than a block has room for, and sources that are too far apart for any window. */
MR_TEST(resize_of_long_rows_gives_the_same_bits_on_every_kind_of_cpu)
{
    static const char *const ops[] = {"ResizeBilinear", "ResizeBicubic", "ResizeArea"};
    static const int64_t widths[][2] = {{3000, 2900}, {9001, 4000}, {400, 3001}, {5000, 3}, {1, 2000}, {16, 1500}};
    for (int i = 0; i < MR_COUNT(ops); i++)
        for (int k = 0; k < MR_COUNT(widths); k++)
            for (int64_t channels = 1; channels <= 4; channels++)
                for (int type = 0; type < 2; type++)
                    check_resize(&(resize){.op = ops[i], .type = type ? MR_UINT8 : MR_FLOAT, .batch = 1, .in_h = 3,
                                           .in_w = widths[k][0], .out_h = 700 / widths[k][1] + 4, .out_w = widths[k][1],
                                           .channels = channels});
}

static void check_found(const char *kind, mr_dtype type, int64_t out_w, int64_t in_w, bool expected)
{
    mr_kernel_fixture b;
    mr_kernel_fixture_init(&b, 1, "Identity", NULL, 0, 1, (mr_dtype[]){MR_FLOAT});
    mr_step step = {.device = b.device};
    mr_run r = {.step = &step, .node = b.node};
    int64_t pixels[100];
    mr_taps *t = NULL;
    for (int64_t i = 0; i < out_w; i++)
        pixels[i] = i * in_w / out_w;
    if (mr_taps_use(kind)) {
        MR_CHECK_OK(mr_taps_new(&r, type, 1, pixels, out_w, in_w, 3, &t));
        MR_CHECK((t != NULL) == expected);
    }
    mr_scratch_free(t);
    mr_taps_use(NULL);
    mr_kernel_fixture_deinit(&b);
}

MR_TEST(taps_are_found_where_windows_are_wide_enough)
{
    check_found("plain", MR_FLOAT, 90, 100, false);
    check_found("avx2", MR_FLOAT, 90, 100, true);
    check_found("avx2", MR_FLOAT, 90, 200, true);
    check_found("avx2", MR_FLOAT, 90, 500, false);
    check_found("avx2", MR_UINT8, 90, 100, true);
    check_found("avx2", MR_UINT8, 90, 500, false);
    check_found("avx512", MR_FLOAT, 90, 100, true);
    check_found("avx512", MR_FLOAT, 90, 300, true);
    check_found("avx512", MR_FLOAT, 90, 500, false);
    check_found("avx512", MR_FLOAT, 90, 10, false);
    check_found("avx512", MR_UINT8, 90, 100, true);
    check_found("avx512vbmi", MR_UINT8, 90, 100, true);
    check_found("avx512vbmi", MR_UINT8, 90, 500, true);
}
