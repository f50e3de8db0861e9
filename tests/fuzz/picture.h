/* tests/fuzz/picture.h -- allocates pixels for readers of image files, and checks how they use them. */
#ifndef MR_TESTS_FUZZ_PICTURE_H
#define MR_TESTS_FUZZ_PICTURE_H

#include "ops/image/codec.h"
#include "tests/fuzz/fuzz.h"

enum { FUZZ_PICTURE_LIMIT = 1 << 22 }; /* maximum number of samples; more is rejected, as by a budget */

typedef struct fuzz_picture {
    mr_image_room room;
    int sample_bytes;
    int64_t frames, height, width, channels;
    void *pixels; /* exactly as much as was requested */
} fuzz_picture;

void fuzz_picture_init(fuzz_picture *p, int sample_bytes);
void fuzz_picture_deinit(fuzz_picture *p);
/* The number of samples; a second allocation, or one of size 0, ends the child. */
int64_t fuzz_picture_samples(const fuzz_picture *p);

/* Bytes of numbers. */
void fuzz_put_le(mr_str *s, uint64_t v, int bytes);
void fuzz_put_be(mr_str *s, uint64_t v, int bytes);

#endif
