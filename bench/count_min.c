/* bench/count_min.c -- how many keys a second one core inserts into a count-min sketch.
 *
 * The sketch is far larger than a cache, keys are Zipf-like over many; the best of some rounds, by
 * CPU time of the thread. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/memory.h"
#include "ps/count_min.h"

enum { KEYS = 1 << 22, ROUNDS = 8 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Inserts a second with `width` counters in each of `depth` rows. */
static double measure(const uint64_t *keys, uint64_t width, int depth)
{
    double best = 0;
    mr_count_min *s;
    mr_status *st = mr_count_min_new(width, depth, 1, &s);
    if (st) {
        fprintf(stderr, "count_min: %s\n", mr_status_message(st));
        exit(1);
    }
    for (int round = 0; round < ROUNDS; round++) {
        double start = now();
        mr_count_min_insert(s, keys, KEYS);
        double rate = KEYS / (now() - start);
        best = MR_MAX(best, rate);
    }
    mr_count_min_free(s);
    return best;
}

int main(void)
{
    uint64_t *keys = mr_new_array(uint64_t, KEYS), state = 1;
    for (size_t i = 0; i < KEYS; i++) /* 2^(32 u): every power of two as often */
        keys[i] = next_random(&state) >> 32 >> (next_random(&state) & 31);
    printf("count_min_inserts_per_s_core %.4g inserts/s\n", measure(keys, 1 << 22, 4));
    printf("count_min_inserts_per_s_core_in_cache %.4g inserts/s\n", measure(keys, 1 << 14, 4));
    mr_free(keys);
    return 0;
}
