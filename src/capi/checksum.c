/* capi/checksum.c -- the checksum of files, for front ends that write them. */
#include "millrace/front_end.h"
#include "wire/crc32c.h"

uint32_t mr_masked_crc32c(const void *data, size_t length)
{
    return mr_crc32c_mask(mr_crc32c(data, length));
}
