/* ops/image/png_filter_test.c -- compares unfiltered rows with the definition, and images with what was written. */
#include "base/memory.h"
#include "ops/image/png.h"
#include "tests/harness/test.h"

static void unfilter_plainly(int filter, uint8_t *row, const uint8_t *above, size_t n, size_t step)
{
    for (size_t i = 0; i < n; i++) {
        int left = i < step ? 0 : row[i - step], corner = i < step ? 0 : above[i - step], up = above[i];
        int predicted = filter == MR_PNG_SUB       ? left
                        : filter == MR_PNG_UP      ? up
                        : filter == MR_PNG_AVERAGE ? (left + up) / 2
                        : filter == MR_PNG_PAETH   ? mr_png_paeth(left, up, corner)
                                                   : 0;
        row[i] = (uint8_t)(row[i] + predicted);
    }
}

/* Bytes that are often equal or extreme, because the predictions then have ties and carries. */
static void fill_bytes(uint8_t *p, size_t n)
{
    static const uint8_t some[] = {0, 1, 127, 128, 254, 255};
    for (size_t i = 0; i < n; i++) {
        uint64_t x = mr_test_random();
        p[i] = x % 2 ? some[x / 2 % MR_COUNT(some)] : (uint8_t)(x >> 8);
    }
}

MR_TEST(png_filters_are_undone_as_defined_for_pixels_of_every_size)
{
    static const size_t steps[] = {1, 2, 3, 4, 6, 8};
    for (int s = 0; s < MR_COUNT(steps); s++)
        for (int filter = 0; filter < MR_PNG_FILTERS; filter++)
            for (size_t pixels = 1; pixels <= 40; pixels++) {
                size_t n = pixels * steps[s], room = n + MR_PNG_SLACK;
                uint8_t *row = mr_alloc(room), *above = mr_alloc(room), *expected = mr_alloc(room);
                fill_bytes(row, room);
                fill_bytes(above, room);
                memcpy(expected, row, room);
                unfilter_plainly(filter, expected, above, n, steps[s]);
                MR_CHECK(mr_png_unfilter(filter, row, above, n, steps[s]));
                MR_CHECK(memcmp(row, expected, room) == 0);
                mr_free(row), mr_free(above), mr_free(expected);
            }
    MR_CHECK(!mr_png_unfilter(MR_PNG_FILTERS, NULL, NULL, 0, 1));
}

/* ---- whole images ---- */

typedef struct pixels {
    mr_image_room room;
    uint8_t *p;
    size_t bits;
} pixels;

static mr_status *make(mr_image_room *room, int64_t frames, int64_t height, int64_t width, int64_t channels, void **out)
{
    pixels *x = (pixels *)room;
    *out = x->p = mr_alloc((size_t)(frames * height * width * channels) * x->bits / 8);
    return NULL;
}

/* Smooth with some noise, so that the writer chooses among all filters. */
static void fill_samples(uint8_t *p, int64_t height, int64_t row)
{
    for (int64_t y = 0; y < height; y++)
        for (int64_t i = 0; i < row; i++) {
            uint64_t noise = mr_test_random();
            p[y * row + i] = (uint8_t)(y * y / 50 + i * (y % 5) / 7 + (int64_t)(noise % 8 ? 0 : noise / 8 % 9));
        }
}

static void check_image(int64_t width, int64_t height, int channels, int bits)
{
    size_t n = (size_t)(width * height * channels * bits / 8);
    uint8_t *image = mr_alloc(n);
    mr_str file = {0};
    pixels got = {{make}, NULL, (size_t)bits};
    fill_samples(image, height, (int64_t)n / height);
    MR_CHECK_OK(mr_png_encode(&(mr_png_image){image, width, height, channels, bits, -1}, &file));
    MR_CHECK_OK(mr_png_decode(mr_str_view(&file), channels, bits, &got.room));
    MR_CHECK(memcmp(got.p, image, n) == 0);
    mr_free(got.p);
    if (channels != 2 && bits == 8) { /* color from gray, or with its alpha added or dropped */
        int other = channels == 3 ? 4 : 3;
        MR_CHECK_OK(mr_png_decode(mr_str_view(&file), other, bits, &got.room));
        for (int64_t i = 0; i < width * height; i++)
            for (int k = 0; k < other; k++) {
                int expected = k >= channels && k == 3 ? 255 : image[i * channels + (channels == 1 ? 0 : k)];
                MR_CHECK_INT(got.p[i * other + k], expected);
            }
        mr_free(got.p);
    }
    mr_str_deinit(&file);
    mr_free(image);
}

MR_TEST(png_images_of_many_inflated_blocks_are_read_as_written)
{
    for (int channels = 1; channels <= 4; channels++)
        for (int bits = 8; bits <= 16; bits += 8) {
            check_image(1, 1, channels, bits);
            check_image(301, 517, channels, bits);
            check_image(70001, 3, channels, bits);
            check_image(3, 70001, channels, bits);
        }
}
