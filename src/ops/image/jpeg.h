/* ops/image/jpeg.h -- the interface between libmillrace-image.so and the rest of the library.
 *
 * Only that library uses libjpeg. It is opened at the first use (jpeg_library.c), asked for one symbol, and returns
 * a table of functions on plain memory. Both sides are from the same build; each has its own copy of the few files
 * of base/ that it needs. */
#ifndef MR_OPS_IMAGE_JPEG_H
#define MR_OPS_IMAGE_JPEG_H

#include "ops/image/codec.h"

#define MR_JPEG_ABI 1

typedef struct mr_jpeg_reading {
    int channels; /* 0: as in the file, but 3 at most; 1; 3 */
    int ratio;    /* scale down by this factor: 1, 2, 4, 8 */
    bool fancy_upscaling, accurate;
    bool recover;     /* fills in missing data at the end */
    float acceptable; /* the least fraction of the rows that must exist; the others are black */
    bool crop;
    int crop_y, crop_x, crop_height, crop_width;
} mr_jpeg_reading;

typedef struct mr_jpeg_writing {
    const uint8_t *pixels;
    int64_t height, width;
    int channels; /* 1 or 3 */
    int quality;  /* 0 .. 100 */
    bool progressive, optimize, downsample;
    int density_unit, x_density, y_density; /* 1: per inch, 2: per cm */
    mr_sv xmp;
} mr_jpeg_writing;

typedef struct mr_jpeg {
    int abi;
    mr_status *(*decode)(mr_sv bytes, const mr_jpeg_reading *how, mr_image_room *room);
    mr_status *(*shape)(mr_sv bytes, int64_t out_dims[3]); /* reads only the header */
    mr_status *(*encode)(const mr_jpeg_writing *what, mr_str *out);
} mr_jpeg;

/* The codec; UNIMPLEMENTED, with what is missing, if the library cannot be loaded. */
mr_status *mr_jpeg_codec(const mr_jpeg **out);

/* The only symbol; NULL if it is from another build. */
#define MR_JPEG_SYMBOL "mr_jpeg_get"
typedef const mr_jpeg *(*mr_jpeg_fn)(int abi);

#endif
