/* tests/fuzz/bytes.h -- damages bytes without knowledge of their format. */
#ifndef MR_TESTS_FUZZ_BYTES_H
#define MR_TESTS_FUZZ_BYTES_H

#include "base/str.h"
#include "tests/fuzz/random.h"

/* One small change: a bit, a byte, or bytes lost, moved or duplicated. */
void fuzz_damage(fuzz_rng *r, mr_str *s);
/* A copy that ends exactly at the end of its allocation, so that reading past the end is detected; free p with
 * mr_free. */
mr_sv fuzz_exact(mr_sv bytes);

#endif
