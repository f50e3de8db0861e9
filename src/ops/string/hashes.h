/* ops/string/hashes.h -- the hashes of strings that graphs rely on: the results must never change. */
#ifndef MR_OPS_STRING_HASHES_H
#define MR_OPS_STRING_HASHES_H

#include "base/str.h"

/* Fingerprint64 of FarmHash (the `na` variant). */
uint64_t mr_fingerprint64(mr_sv s);

#endif
