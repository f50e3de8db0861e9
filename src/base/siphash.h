/* base/siphash.h -- SipHash by Aumasson and Bernstein: a keyed hash that cannot be predicted without the key. */
#ifndef MR_BASE_SIPHASH_H
#define MR_BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

/* SipHash-2-4.  The key's words are its bytes in little-endian order. */
uint64_t mr_siphash(const uint64_t key[2], const void *data, size_t n);
/* SipHash-1-3: half the work, for tables whose keys may have been made to collide. */
uint64_t mr_siphash_quick(const uint64_t key[2], const void *data, size_t n);

#endif
