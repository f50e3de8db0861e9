/* ops/random/philox_test.c -- Random123's known vectors, and skipping ahead. */
#include "ops/random/philox.h"

#include "tests/harness/test.h"

static void check(mr_philox p, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    uint32_t w[4];
    mr_philox_next(&p, w);
    MR_CHECK_INT(w[0], a);
    MR_CHECK_INT(w[1], b);
    MR_CHECK_INT(w[2], c);
    MR_CHECK_INT(w[3], d);
}

MR_TEST(philox_gives_the_known_vectors)
{
    check((mr_philox){{0}, {0}}, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8);
    check((mr_philox){{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}}, 0x408f276d, 0x41c83b0e, 0xa20bc7c6,
          0x6d5451fd);
    check((mr_philox){{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}},
          0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1);
}

MR_TEST(philox_skip_carries_over_all_words)
{
    mr_philox p = {{~0u, ~0u, ~0u, 7}, {0}};
    mr_philox_skip(&p, 2);
    MR_CHECK_INT(p.counter[0], 1);
    MR_CHECK_INT(p.counter[1], 0);
    MR_CHECK_INT(p.counter[2], 0);
    MR_CHECK_INT(p.counter[3], 8);
}
