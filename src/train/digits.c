/* train/digits.c -- handwritten digits: MNIST's idx files, or digits drawn here.
 *
 *     idx file   uint32 big-endian each: 0x00000800 + number of dims, then the dims; then bytes
 *
 * The checksums are those of the original files. A file that differs is refused, because results on other data would
 * not be comparable with MNIST's. Drawn digits are a 5x7 font, shifted, rotated, stretched and blurred by a generator
 * with a fixed seed: good enough to see a network learn where MNIST is not available. */
#include "train/digits.h"

#include <math.h>

#include "base/file.h"
#include "base/memory.h"
#include "wire/crc32c.h"

static const struct idx_file {
    const char *name;
    uint32_t crc;
    bool images;
    int part;
} files[] = {
    {"train-images-idx3-ubyte", 0xf09c5efc, true, 0},
    {"train-labels-idx1-ubyte", 0x469b0e4e, false, 0},
    {"t10k-images-idx3-ubyte", 0x355b09ab, true, 1},
    {"t10k-labels-idx1-ubyte", 0x402a70e0, false, 1},
};

static uint32_t big_endian(const char *p)
{
    const uint8_t *b = (const uint8_t *)p;
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* Checks one file and copies its data into d. */
static mr_status *take_file(struct mr_digits *d, const struct idx_file *f, const char *path, mr_sv bytes)
{
    size_t dims = f->images ? 3 : 1, head = 4 + 4 * dims;
    if (mr_crc32c(bytes.p, bytes.n) != f->crc)
        return mr_error(MR_DATA_LOSS, "%s: checksum mismatch, this is not the MNIST file of that name", path);
    if (bytes.n < head || big_endian(bytes.p) != 0x800 + dims)
        return mr_error(MR_DATA_LOSS, "%s is not an idx file", path);
    mr_digits_part *p = &d->part[f->part];
    size_t each = f->images ? MR_DIGIT_PIXELS : 1;
    p->n = big_endian(bytes.p + 4);
    if (bytes.n - head != (size_t)p->n * each)
        return mr_error(MR_DATA_LOSS, "%s has %zu bytes, which does not fit %lld examples", path, bytes.n,
                        (long long)p->n);
    uint8_t *copy = mr_try_alloc(bytes.n - head);
    if (!copy)
        return mr_error(MR_RESOURCE_EXHAUSTED, "%s: out of memory", path);
    memcpy(copy, bytes.p + head, bytes.n - head);
    *(f->images ? &p->images : &p->labels) = copy;
    return NULL;
}

/* Loads all four files, or none. */
mr_status *mr_digits_load(const char *folder, struct mr_digits **out)
{
    mr_status *st = NULL;
    struct mr_digits *d = mr_new(struct mr_digits);
    for (int i = 0; i < MR_COUNT(files) && !st; i++) {
        char *path = mr_printf("%s/%s", folder, files[i].name);
        mr_str bytes = {0};
        st = mr_file_read_all(path, &bytes);
        if (!st)
            st = take_file(d, &files[i], path, mr_str_view(&bytes));
        mr_str_deinit(&bytes);
        mr_free(path);
    }
    if (st)
        mr_digits_drop(d);
    else
        *out = d;
    return st;
}

void mr_digits_drop(struct mr_digits *d)
{
    for (int i = 0; d && i < 2; i++) {
        mr_free(d->part[i].images);
        mr_free(d->part[i].labels);
    }
    mr_free(d);
}

/* ---- drawing ---- */

static uint64_t next_random(uint64_t *s) /* xorshift64* */
{
    *s ^= *s >> 12;
    *s ^= *s << 25;
    *s ^= *s >> 27;
    return *s * 0x2545F4914F6CDD1Du;
}

static float random_uniform(uint64_t *s, float lo, float hi)
{
    return lo + (hi - lo) * (float)(next_random(s) >> 40) * 0x1p-24f;
}

static const uint8_t font[10][7] = { /* rows of five pixels, the leftmost in bit 4 */
    {14, 17, 19, 21, 25, 17, 14}, {4, 12, 4, 4, 4, 4, 14},      {14, 17, 1, 6, 8, 16, 31}, {31, 2, 4, 2, 1, 17, 14},
    {2, 6, 10, 18, 31, 2, 2},     {31, 16, 30, 1, 1, 17, 14},   {6, 8, 16, 30, 17, 17, 14}, {31, 1, 2, 4, 8, 8, 8},
    {14, 17, 17, 14, 17, 17, 14}, {14, 17, 17, 15, 1, 2, 12},
};

/* Ink at a point of the font's grid, smooth between pixel centres. */
static float ink_at(int digit, float x, float y)
{
    float sum = 0;
    for (int r = 0; r < 7; r++)
        for (int c = 0; c < 5; c++)
            if (font[digit][r] >> (4 - c) & 1) {
                float dx = x - (float)c, dy = y - (float)r;
                sum += expf(-2.2f * (dx * dx + dy * dy));
            }
    return sum > 1 ? 1 : sum;
}

/* Draws one digit with random rotation, size, skew, position and noise. */
static void draw_digit(int digit, uint64_t *seed, uint8_t *out)
{
    MR_ASSERT(digit >= 0 && digit < MR_COUNT(font));
    float turn = random_uniform(seed, -0.25f, 0.25f), scale = random_uniform(seed, 0.27f, 0.36f),
          skew = random_uniform(seed, -0.2f, 0.2f);
    float cx = random_uniform(seed, 12, 16), cy = random_uniform(seed, 12, 16),
          wide = random_uniform(seed, 0.85f, 1.15f);
    float cs = cosf(turn) * scale, sn = sinf(turn) * scale;
    for (int y = 0; y < MR_DIGIT_SIDE; y++)
        for (int x = 0; x < MR_DIGIT_SIDE; x++) {
            float dx = (float)x - cx, dy = (float)y - cy;
            float v =
                ink_at(digit, 2 + wide * (cs * dx + sn * dy) + skew * (-sn * dx + cs * dy), 3 - sn * dx + cs * dy);
            v = 255 * v + random_uniform(seed, -12, 12);
            out[y * MR_DIGIT_SIDE + x] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
        }
}

/* Both parts come from one generator, so the test digits differ from the training digits. */
struct mr_digits *mr_digits_generate(int64_t n_train, int64_t n_test)
{
    struct mr_digits *d = mr_new(struct mr_digits);
    uint64_t seed = 88172645463325252u;
    d->generated = true;
    for (int p = 0; p < 2; p++) {
        int64_t n = p ? n_test : n_train;
        d->part[p] = (mr_digits_part){n, mr_alloc((size_t)n * MR_DIGIT_PIXELS), mr_alloc((size_t)n)};
        for (int64_t i = 0; i < n; i++) {
            d->part[p].labels[i] = (uint8_t)(next_random(&seed) % 10);
            draw_digit(d->part[p].labels[i], &seed, d->part[p].images + i * MR_DIGIT_PIXELS);
        }
    }
    return d;
}

/* ---- batches ---- */

/* The position of example i in the order given by a seed: a permutation made of a few reversible steps
 * on the smallest power of two that holds n, repeated until the result is below n. It needs no table,
 * so any batch of any epoch can be computed directly. */
static int64_t shuffled_index(int64_t i, int64_t n, uint64_t seed)
{
    MR_ASSERT(i >= 0 && i < n);
    uint64_t mask = 1;
    while (mask < (uint64_t)n)
        mask <<= 1;
    mask--;
    int half = MR_MAX(1, __builtin_popcountll(mask) / 2);
    uint64_t x = (uint64_t)i;
    do
        for (int round = 0; round < 4; round++) {
            x = (x * ((seed << 2 | 1) + 0x9E3779B1u * 2 * (uint64_t)round) + (seed >> 7) + (uint64_t)round) & mask;
            x ^= x >> half;
        }
    while (x >= (uint64_t)n);
    return (int64_t)x;
}

/* Batches wrap around at the end of the data. Pixels become 0 to 1. */
mr_status *mr_digits_take(const struct mr_digits *d, int part, uint64_t seed, int64_t first, int64_t n,
                          mr_tensor **images, mr_tensor **labels)
{
    if (part < 0 || part > 1 || n < 0 || first < 0)
        return mr_invalid("invalid batch: %lld digits from number %lld of part %d", (long long)n, (long long)first,
                          part);
    const mr_digits_part *p = &d->part[part];
    MR_ASSERT(p->n > 0 && p->images && p->labels);
    mr_tensor *x, *y;
    MR_TRY(mr_tensor_new(NULL, MR_FLOAT, 4, (int64_t[]){n, MR_DIGIT_SIDE, MR_DIGIT_SIDE, 1}, &x));
    mr_status *st = mr_tensor_new(NULL, MR_INT32, 1, &n, &y);
    if (st) {
        mr_tensor_unref(x);
        return st;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t at = (first + i) % p->n;
        if (seed)
            at = shuffled_index(at, p->n, seed);
        const uint8_t *src = p->images + at * MR_DIGIT_PIXELS;
        float *dst = MR_DATA(float, x) + i * MR_DIGIT_PIXELS;
        for (int k = 0; k < MR_DIGIT_PIXELS; k++)
            dst[k] = (float)src[k] * (1 / 255.0f);
        MR_DATA(int32_t, y)[i] = p->labels[at];
    }
    *images = x;
    *labels = y;
    return NULL;
}
