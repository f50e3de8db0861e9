/* ops/random/blocks_test.c -- blocks at vector speed against single ones, and normal numbers of all words. */
#include "ops/random/blocks.h"

#include "base/memory.h"
#include "tests/harness/test.h"

static void check_blocks(mr_philox p)
{
    for (int64_t n = 0; n <= 100; n += n < 40 ? 13 : 1) {
        uint32_t got[400], want[4];
        mr_philox_blocks(p, n, got);
        mr_philox q = p;
        for (int64_t i = 0; i < n; i++) {
            mr_philox_next(&q, want);
            MR_CHECK(memcmp(want, got + 4 * i, sizeof want) == 0);
        }
    }
}

MR_TEST(philox_blocks_are_those_of_single_steps)
{
    check_blocks((mr_philox){{0}, {0}});
    check_blocks((mr_philox){{1, 2, 3, 4}, {0xdeadbeef, 77}});
    check_blocks((mr_philox){{~0u - 50, ~0u, ~0u, 7}, {5, 6}}); /* all words carry */
    check_blocks((mr_philox){{~0u - 33, 0, 0, 0}, {~0u, ~0u}});
}

static int32_t distance(float a, float b)
{
    int32_t x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    return x > y ? x - y : y - x;
}

/* Every value that a word can have, as the first word and as the second. A C library that computes differently may
 * round differently. */
MR_TEST(philox_normals_are_those_of_the_c_library)
{
    enum { N = 4096 };
    static uint32_t words[2 * N];
    static float got[2 * N];
    int64_t different = 0;
    mr_test_deadline(120);
    for (uint32_t at = 0; at < 1u << 23; at += N) {
        for (uint32_t i = 0; i < N; i++) {
            words[2 * i] = at + i;
            words[2 * i + 1] = (at + i) * 2654435761u;
        }
        mr_philox_normals(N, words, got);
        for (int i = 0; i < N; i++) {
            float want[2];
            mr_philox_normal(words[2 * i], words[2 * i + 1], want);
            for (int k = 0; k < 2; k++) {
                different += got[2 * i + k] != want[k];
                MR_CHECK(distance(got[2 * i + k], want[k]) <= 3);
            }
        }
    }
#if defined(__GLIBC__)
    MR_CHECK(different < 100);
#endif
}
