/* ops/image/png.h -- the parts of the PNG format that reading and writing share.
 *
 * A file is a signature and chunks:
 *
 *     bytes 4   length of the data, big-endian        IHDR  size and kind of pixels     tRNS  what is transparent
 *           4   type, four letters                    PLTE  up to 256 colors            IEND  the end
 *           n   data                                  IDAT  a zlib stream: rows, each after a byte for its filter
 *           4   CRC of type and data
 *
 * A filter replaces each byte by its difference from a prediction from the bytes to the left, above, and above to
 * the left. */
#ifndef MR_OPS_IMAGE_PNG_H
#define MR_OPS_IMAGE_PNG_H

#include <stdlib.h>

#include "ops/image/codec.h"

#define MR_PNG_SIGNATURE "\x89PNG\r\n\x1a\n"

enum { /* color types: bit 0 palette, bit 1 color, bit 2 alpha */
    MR_PNG_GRAY = 0,
    MR_PNG_RGB = 2,
    MR_PNG_PALETTE = 3,
    MR_PNG_GRAY_ALPHA = 4,
    MR_PNG_RGB_ALPHA = 6,
};

enum { MR_PNG_NONE, MR_PNG_SUB, MR_PNG_UP, MR_PNG_AVERAGE, MR_PNG_PAETH, MR_PNG_FILTERS };

/* The one of left, above and corner that is nearest to left + above - corner. */
static inline uint8_t mr_png_paeth(int left, int above, int corner)
{
    int to_left = abs(above - corner), to_above = abs(left - corner), to_corner = abs(left + above - 2 * corner);
    if (to_left <= to_above && to_left <= to_corner)
        return (uint8_t)left;
    return (uint8_t)(to_above <= to_corner ? above : corner);
}

/* Undoes the filter of a row of n bytes, a whole number of pixels of `step` bytes (1, 2, 3, 4, 6 or 8); `above` is the
 * row before. MR_PNG_SLACK bytes behind both may be read. False: there is no such filter. */
enum { MR_PNG_SLACK = 8 };
bool mr_png_unfilter(int filter, uint8_t *row, const uint8_t *above, size_t n, size_t step);

static inline uint32_t mr_png_u32(const char *p)
{
    const uint8_t *b = (const uint8_t *)p;
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

#endif
