/* tests/fuzz/random.h -- the random numbers of one run.
 *
 * A run draws all its random numbers from one generator that starts from (seed, target, number of the run), so any
 * single run can be done again without those before it. */
#ifndef MR_TESTS_FUZZ_RANDOM_H
#define MR_TESTS_FUZZ_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

typedef struct fuzz_rng {
    uint64_t state;
} fuzz_rng;

/* splitmix64: any state is valid, so states may be created by mixing numbers. */
static inline uint64_t fuzz_mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline uint64_t fuzz_u64(fuzz_rng *r) { return fuzz_mix(r->state += 0x9e3779b97f4a7c15u); }

/* 0 .. n-1; 0 for n 0. */
static inline uint64_t fuzz_below(fuzz_rng *r, uint64_t n) { return n ? fuzz_u64(r) % n : 0; }

/* lo .. hi */
static inline int64_t fuzz_between(fuzz_rng *r, int64_t lo, int64_t hi)
{
    return lo + (int64_t)fuzz_below(r, (uint64_t)(hi - lo) + 1);
}

/* True once in n times. */
static inline bool fuzz_once_in(fuzz_rng *r, uint64_t n) { return fuzz_below(r, n) == 0; }

#define fuzz_pick(r, array) ((array)[fuzz_below(r, sizeof(array) / sizeof((array)[0]))])

/* An integer that has broken programs before: near powers of two, near the ends of types, or small.
 */
int64_t fuzz_odd_int(fuzz_rng *r);

#endif
