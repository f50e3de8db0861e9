/* wire/crc32c.h -- the checksum of records, tables and checkpoints: CRC-32C (Castagnoli).
 *
 * Files contain the masked value, because a checksum over bytes that contain a checksum is weak. */
#ifndef MR_WIRE_CRC32C_H
#define MR_WIRE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The checksum of A followed by B is extend(crc(A), B); that of nothing is 0. */
uint32_t mr_crc32c_extend(uint32_t crc, const void *p, size_t n);
static inline uint32_t mr_crc32c(const void *p, size_t n) { return mr_crc32c_extend(0, p, n); }

static inline uint32_t mr_crc32c_mask(uint32_t crc)
{
    return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

static inline uint32_t mr_crc32c_unmask(uint32_t masked)
{
    uint32_t r = masked - 0xA282EAD8u;
    return r << 15 | r >> 17;
}

/* The version without the processor's instruction; exported so that tests can compare the two. */
uint32_t mr_crc32c_extend_portable(uint32_t crc, const void *p, size_t n);

#endif
