/* base/hash.h -- mr_hash64 (str.h) continued: the hash of a sequence of byte strings, each from the one before. */
#ifndef MR_BASE_HASH_H
#define MR_BASE_HASH_H

#include "base/str.h"

#define MR_HASH64_SEED UINT64_C(0xDECAFCAFFE) /* what mr_hash64 begins with */

uint64_t mr_hash64_from(const void *p, size_t n, uint64_t seed);

#endif
