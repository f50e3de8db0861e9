/* ops/string/hashes_test.c -- fingerprints of strings in every range of lengths, compared with FarmHash's. */
#include "ops/string/hashes.h"

#include "tests/harness/test.h"

static uint64_t of_length(int n)
{
    unsigned char b[400];
    for (int i = 0; i < n; i++)
        b[i] = (unsigned char)(i * 37 + n * 11 + (i * i >> 3));
    return mr_fingerprint64((mr_sv){(const char *)b, (size_t)n});
}

MR_TEST(fingerprint64_of_each_kind_of_length)
{
    static const struct {
        int n;
        uint64_t expected;
    } cases[] = {
        {0, 11160318154034397263u},
        {1, 4787810249829893994u},
        {3, 1391590960341357285u},
        {4, 16027861914246743170u},
        {7, 8787419012276351894u},
        {8, 3988117593630574691u},
        {16, 7964405909508647461u},
        {17, 12594756528408631288u},
        {32, 16933393012184692845u},
        {33, 10324522151481945196u},
        {64, 12448442959570582999u},
        {65, 1793700284172094385u},
        {128, 3311562372528923238u},
        {129, 3411883887263413467u},
        {200, 17571144716844838413u},
        {399, 14143299175129811111u},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        MR_CHECK(of_length(cases[i].n) == cases[i].expected);
}
