/* ops/image/codec.h -- the interface of the image file readers.
 *
 * A reader gets the bytes of a whole file, parses its header, requests memory for the pixels and fills it with rows
 * of pixels, channel by channel. Nothing in a file is trusted: sizes are checked before memory is requested, and an
 * image that is too large for so few bytes is refused at once. */
#ifndef MR_OPS_IMAGE_CODEC_H
#define MR_OPS_IMAGE_CODEC_H

#include <stdint.h>

#include "base/str.h"

/* The receiver of the pixels: `make` is called once, when the size is known; *out holds frames * height * width *
 * channels samples. */
typedef struct mr_image_room mr_image_room;
struct mr_image_room {
    mr_status *(*make)(mr_image_room *room, int64_t frames, int64_t height, int64_t width, int64_t channels, void **out);
};

/* The formats, recognised by their first bytes. */
typedef enum mr_image_format { MR_IMAGE_UNKNOWN, MR_IMAGE_JPEG, MR_IMAGE_PNG, MR_IMAGE_GIF, MR_IMAGE_BMP } mr_image_format;
mr_image_format mr_image_format_of(mr_sv bytes);

/* PNG: channels 0 (as in the file), 1, 3 or 4; bits 8 or 16 (samples of uint8_t, uint16_t). Any file, interlaced
 * too. */
mr_status *mr_png_decode(mr_sv bytes, int channels, int bits, mr_image_room *room);
typedef struct mr_png_image {
    const void *pixels; /* uint8_t, or uint16_t for 16 bits */
    int64_t width, height;
    int channels, bits; /* 1 .. 4; 8 or 16 */
    int compression;    /* -1: zlib's default, else 0 .. 9 */
} mr_png_image;
mr_status *mr_png_encode(const mr_png_image *image, mr_str *out);

/* GIF: [frames, height, width, 3]; only the first frame unless `all`. */
mr_status *mr_gif_decode(mr_sv bytes, bool all, mr_image_room *room);

/* Uncompressed BMP of 8, 24 or 32 bits per pixel: channels 0, 3 or 4. */
mr_status *mr_bmp_decode(mr_sv bytes, int channels, mr_image_room *room);

#endif
