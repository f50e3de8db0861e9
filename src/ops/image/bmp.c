/* ops/image/bmp.c -- reads BMP files whose pixels are not compressed: 8 bits (gray), 24 or 32.
 *
 *     offset  bytes                         rows follow each other upwards, or downwards when the height is negative;
 *         10      4  where the pixels begin  each is filled up to a multiple of 4 bytes
 *         18      4  width                  pixels are blue, green, red[, alpha]
 *         22      4  height
 *         28      2  bits a pixel
 *
 * Everything else in the header is ignored, including a palette, as in TensorFlow. */
#include <limits.h>

#include "base/memory.h"
#include "ops/image/codec.h"

typedef struct bmp {
    int64_t start, width, height; /* height >= 0 */
    bool top_down;
    int file_channels, channels;
    int64_t row_bytes;
} bmp;

static int32_t read_i32(mr_sv bytes, size_t at)
{
    const uint8_t *p = (const uint8_t *)bytes.p + at;
    return (int32_t)(p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
}

static mr_status *read_head(mr_sv bytes, int channels, bmp *b)
{
    if (bytes.n < 32)
        return mr_invalid("Incomplete bmp content, requires at least 32 bytes to find the header size, width, height, and "
                          "bpp, got %zu bytes", bytes.n);
    int64_t height = read_i32(bytes, 22);
    int bits = (int16_t)(read_i32(bytes, 28) & 0xffff);
    *b = (bmp){read_i32(bytes, 10), read_i32(bytes, 18), height < 0 ? -height : height, height < 0, bits / 8};
    if (b->file_channels != 1 && b->file_channels != 3 && b->file_channels != 4)
        return mr_invalid("Number of channels inherent in the image must be 1, 3 or 4, was %d", b->file_channels);
    b->channels = channels ? channels : b->file_channels;
    if (b->width <= 0)
        return mr_invalid("Width must be positive");
    if (b->height == 0)
        return mr_invalid("Height must be nonzero");
    if (b->start < 0)
        return mr_invalid("header size must be nonnegative");
    if (b->width * b->height >= INT32_MAX / 8)
        return mr_invalid("Total possible pixel bytes must be less than 2^30");
    b->row_bytes = (b->file_channels * b->width + 3) / 4 * 4;
    int64_t surplus = (int64_t)bytes.n - b->start - b->row_bytes * b->height;
    if (surplus != 0)
        return mr_invalid("Input size should match (header_size + row_size * abs_height) but they differ by %lld",
                          (long long)surplus);
    return NULL;
}

static void read_pixel(const bmp *b, const uint8_t *in, uint8_t *out)
{
    if (b->channels == 1) {
        out[0] = in[0];
        return;
    }
    for (int k = 0; k < 3; k++)
        out[k] = b->file_channels == 1 ? in[0] : in[2 - k];
    if (b->channels == 4)
        out[3] = b->file_channels == 4 ? in[3] : UINT8_MAX;
}

mr_status *mr_bmp_decode(mr_sv bytes, int channels, mr_image_room *room)
{
    bmp b = {0};
    void *out;
    MR_TRY(read_head(bytes, channels, &b));
    MR_TRY(room->make(room, 1, b.height, b.width, b.channels, &out));
    uint8_t *to = out;
    for (int64_t y = 0; y < b.height; y++) {
        const uint8_t *row = (const uint8_t *)bytes.p + b.start + (b.top_down ? y : b.height - 1 - y) * b.row_bytes;
        for (int64_t x = 0; x < b.width; x++, to += b.channels)
            read_pixel(&b, row + x * b.file_channels, to);
    }
    return NULL;
}
