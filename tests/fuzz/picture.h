/* tests/fuzz/picture.h -- what a reader of image files is given room with, and what it must keep to. */
#ifndef MR_TESTS_FUZZ_PICTURE_H
#define MR_TESTS_FUZZ_PICTURE_H

#include "ops/image/codec.h"
#include "tests/fuzz/fuzz.h"

enum { FUZZ_PICTURE_LIMIT = 1 << 22 }; /* samples; more is refused, as a budget would */

typedef struct fuzz_picture {
    mr_image_room room;
    int sample_bytes;
    int64_t frames, height, width, channels;
    void *pixels; /* exactly as much as was asked for */
} fuzz_picture;

void fuzz_picture_init(fuzz_picture *p, int sample_bytes);
void fuzz_picture_deinit(fuzz_picture *p);
/* How many samples there are; room asked for twice, or of no size, ends the child. */
int64_t fuzz_picture_samples(const fuzz_picture *p);

/* Bytes of numbers. */
void fuzz_put_le(mr_str *s, uint64_t v, int bytes);
void fuzz_put_be(mr_str *s, uint64_t v, int bytes);

#endif
