/* wire/crc32c.c -- CRC-32C with the processor's instruction where it has one, else by tables.
 *
 * The polynomial is 0x1EDC6F41; bits are reflected, so code sees 0x82F63B78. The tables take eight
 * bytes a step ("slicing"): table k holds the effect of a byte that is followed by k zero bytes;
 * because the checksum is linear, the eight contributions are xored. */
#include "wire/crc32c.h"

#include <pthread.h>
#include <string.h>

#include "base/memory.h"

static uint32_t table[8][256];
static pthread_once_t table_made = PTHREAD_ONCE_INIT;

/* Table 0 by division, bit by bit; each next table shifts the one before by a zero byte. */
static void make_table(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t c = b;
        for (int bit = 0; bit < 8; bit++)
            c = c >> 1 ^ (c & 1 ? 0x82F63B78u : 0);
        table[0][b] = c;
    }
    for (int k = 1; k < 8; k++)
        for (int b = 0; b < 256; b++)
            table[k][b] = table[k - 1][b] >> 8 ^ table[0][table[k - 1][b] & 0xFF];
}

/* The checksum is kept inverted between calls (initial and final xor with ones), hence the ~. */
uint32_t mr_crc32c_extend_portable(uint32_t crc, const void *data, size_t n)
{
    const uint8_t *p = data;
    uint32_t c = ~crc;
    pthread_once(&table_made, make_table);
    for (; n >= 8; n -= 8, p += 8) {
        uint32_t a = c ^ (p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24);
        c = table[7][a & 0xFF] ^ table[6][a >> 8 & 0xFF] ^ table[5][a >> 16 & 0xFF] ^
            table[4][a >> 24] ^ table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
    }
    for (; n; n--)
        c = c >> 8 ^ table[0][(c ^ *p++) & 0xFF];
    return ~c;
}

#if defined(__x86_64__)
/* One instruction takes eight bytes; about 8 GB/s, which no disk or socket here outruns. */
__attribute__((target("sse4.2"))) static uint32_t extend_sse42(uint32_t crc, const void *data,
                                                               size_t n)
{
    const uint8_t *p = data;
    uint64_t c = ~crc;
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t v;
        memcpy(&v, p, 8);
        c = __builtin_ia32_crc32di(c, v);
    }
    for (; n; n--)
        c = __builtin_ia32_crc32qi((uint32_t)c, *p++);
    return ~(uint32_t)c;
}

uint32_t mr_crc32c_extend(uint32_t crc, const void *p, size_t n)
{
    if (MR_LIKELY(__builtin_cpu_supports("sse4.2")))
        return extend_sse42(crc, p, n);
    return mr_crc32c_extend_portable(crc, p, n);
}
#else
uint32_t mr_crc32c_extend(uint32_t crc, const void *p, size_t n)
{
    return mr_crc32c_extend_portable(crc, p, n);
}
#endif
