/* tests/fuzz/picture.c -- allocates the pixels of fuzzed image files. */
#include "tests/fuzz/picture.h"

#include "base/memory.h"

static mr_status *make(mr_image_room *room, int64_t frames, int64_t height, int64_t width, int64_t channels, void **out)
{
    fuzz_picture *p = (fuzz_picture *)room;
    if (p->pixels)
        fuzz_fail("pixels were allocated twice");
    if (frames < 1 || height < 1 || width < 1 || channels < 1 || channels > 4 || height >= 1 << 30 || width >= 1 << 30)
        fuzz_fail("invalid allocation of %lld frames of %lld x %lld x %lld", (long long)frames, (long long)height,
                  (long long)width, (long long)channels);
    p->frames = frames, p->height = height, p->width = width, p->channels = channels;
    int64_t n = height * width; /* both are below 2^30 */
    if (n > FUZZ_PICTURE_LIMIT || n * channels > FUZZ_PICTURE_LIMIT / frames)
        return mr_error(MR_RESOURCE_EXHAUSTED, "more than this test has room for");
    *out = p->pixels = mr_alloc((size_t)fuzz_picture_samples(p) * (size_t)p->sample_bytes);
    return NULL;
}

void fuzz_picture_init(fuzz_picture *p, int sample_bytes)
{
    *p = (fuzz_picture){.room = {make}, .sample_bytes = sample_bytes};
}

void fuzz_picture_deinit(fuzz_picture *p) { mr_free(p->pixels); }

int64_t fuzz_picture_samples(const fuzz_picture *p) { return p->frames * p->height * p->width * p->channels; }

void fuzz_put_le(mr_str *s, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        mr_str_appendc(s, (char)(v >> (8 * i)));
}

void fuzz_put_be(mr_str *s, uint64_t v, int bytes)
{
    for (int i = bytes; i-- > 0;)
        mr_str_appendc(s, (char)(v >> (8 * i)));
}
