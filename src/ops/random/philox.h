/* ops/random/philox.h -- TensorFlow's random numbers: Philox-4x32-10, counted in blocks of four words.
 *
 * A stream is a key and a 128-bit counter; block k of it depends on nothing else, so any thread can
 * compute any part of it.  Seeds, counter increments and conversions match TensorFlow bit for bit. */
#ifndef MR_OPS_RANDOM_PHILOX_H
#define MR_OPS_RANDOM_PHILOX_H

#include <math.h>
#include <stdint.h>

#include "base/thread.h"
#include "run/run.h"

typedef struct mr_philox {
    uint32_t counter[4], key[2];
} mr_philox;

static inline void mr_philox_skip(mr_philox *p, uint64_t blocks)
{
    uint64_t low = (uint64_t)p->counter[1] << 32 | p->counter[0], sum = low + blocks;
    p->counter[0] = (uint32_t)sum;
    p->counter[1] = (uint32_t)(sum >> 32);
    if (sum < low && ++p->counter[2] == 0)
        ++p->counter[3];
}

/* Computes the block at the counter, and increments the counter. */
static inline void mr_philox_next(mr_philox *p, uint32_t out[4])
{
    uint32_t c0 = p->counter[0], c1 = p->counter[1], c2 = p->counter[2], c3 = p->counter[3];
    uint32_t k0 = p->key[0], k1 = p->key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c0, b = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(b >> 32) ^ c1 ^ k0, n2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)b;
        c3 = (uint32_t)a;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
    mr_philox_skip(p, 1);
}

static inline float mr_philox_float(uint32_t w) /* in [0, 1) */
{
    uint32_t bits = 0x3f800000u | (w & 0x7fffffu);
    float f;
    memcpy(&f, &bits, sizeof f);
    return f - 1;
}

static inline double mr_philox_double(uint32_t w0, uint32_t w1) /* in [0, 1) */
{
    uint64_t bits = (uint64_t)1023 << 52 | (uint64_t)(w0 & 0xfffffu) << 32 | w1;
    double d;
    memcpy(&d, &bits, sizeof d);
    return d - 1;
}

/* Two normally distributed numbers: floats from two words, doubles from four. */
static inline void mr_philox_normal(uint32_t w0, uint32_t w1, float out[2])
{
    float u = mr_philox_float(w0);
    u = u < 1.0e-7f ? 1.0e-7f : u;
    float angle = (float)(2.0f * M_PI * mr_philox_float(w1)), r = sqrtf(-2.0f * logf(u));
    out[0] = sinf(angle) * r;
    out[1] = cosf(angle) * r;
}

static inline void mr_philox_normal_double(const uint32_t w[4], double out[2])
{
    double u = mr_philox_double(w[0], w[1]);
    u = u < 1.0e-7 ? 1.0e-7 : u;
    double angle = 2 * M_PI * mr_philox_double(w[2], w[3]), r = sqrt(-2 * log(u));
    out[0] = sin(angle) * r;
    out[1] = cos(angle) * r;
}

/* ---- the words of a stream, one after another, four per block ---- */
typedef struct mr_words {
    mr_philox p;
    uint32_t w[4];
    int used;
} mr_words;

/* The words of a stream from number `first` on. */
static inline mr_words mr_words_at(mr_philox p, uint64_t first)
{
    mr_words s = {.p = p, .used = 4};
    mr_philox_skip(&s.p, first / 4);
    if (first % 4) {
        mr_philox_next(&s.p, s.w);
        s.used = (int)(first % 4);
    }
    return s;
}

static inline uint32_t mr_words_next(mr_words *s)
{
    if (s->used == 4) {
        mr_philox_next(&s->p, s->w);
        s->used = 0;
    }
    return s->w[s->used++];
}

static inline double mr_words_double(mr_words *s) /* in [0, 1) */
{
    uint32_t w0 = mr_words_next(s), w1 = mr_words_next(s);
    return mr_philox_double(w0, w1);
}

static inline uint64_t mr_words_64(mr_words *s)
{
    uint64_t low = mr_words_next(s), high = mr_words_next(s);
    return low | high << 32;
}

/* A number below n (> 0), uniformly: values that would make some results more likely are drawn again. */
static inline uint64_t mr_words_below(mr_words *s, uint64_t n)
{
    uint64_t surplus = (n & (n - 1)) ? UINT64_MAX % n + 1 : 0, v;
    do
        v = mr_words_64(s);
    while (v < surplus);
    return v % n;
}

/* ---- the stream of a kernel: attrs seed and seed2; if both are 0, a random seed of the system ---- */
typedef struct mr_random_state {
    mr_mutex mu;
    mr_philox next MR_GUARDED_BY(mu);
} mr_random_state;

mr_status *mr_random_init(mr_make *m, void *state);
void mr_random_deinit(void *state);
/* The stream for one run; advances the kernel's stream by `blocks`. */
mr_philox mr_random_reserve(mr_random_state *s, uint64_t blocks);

#endif
