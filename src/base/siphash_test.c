/* base/siphash_test.c -- against the vector of the paper. */
#include "base/siphash.h"

#include "tests/harness/test.h"

MR_TEST(siphash_gives_the_value_of_its_paper)
{
    const uint64_t key[2] = {0x0706050403020100u, 0x0f0e0d0c0b0a0908u};
    uint8_t text[15];
    for (int i = 0; i < 15; i++)
        text[i] = (uint8_t)i;
    MR_CHECK(mr_siphash(key, text, 15) == 0xa129ca6149be45e5u);
    MR_CHECK(mr_siphash_quick(key, text, 15) != mr_siphash(key, text, 15));
}
