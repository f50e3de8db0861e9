/* tests/fuzz/bytes.h -- bytes damaged without knowing what they mean. */
#ifndef MR_TESTS_FUZZ_BYTES_H
#define MR_TESTS_FUZZ_BYTES_H

#include "base/str.h"
#include "tests/fuzz/random.h"

/* One small damage: a bit, a byte, bytes lost, moved or come twice. */
void fuzz_damage(fuzz_rng *r, mr_str *s);
/* A copy with nothing behind its last byte, so that reading past the end is seen; mr_free its p. */
mr_sv fuzz_exact(mr_sv bytes);

#endif
