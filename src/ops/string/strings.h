/* ops/string/strings.h -- code that kernels over strings share: one string in, one string out. */
#ifndef MR_OPS_STRING_STRINGS_H
#define MR_OPS_STRING_STRINGS_H

#include "run/run.h"

/* Appends the result for `in` to `out`, which is empty, with mr_str_try_append. */
typedef mr_status *(*mr_string_fn)(void *ctx, mr_sv in, mr_str *out);

/* Sets output 0 to fn of each element of input 0, one after another. */
mr_status *mr_map_strings(mr_run *r, mr_string_fn fn, void *ctx);

/* RESOURCE_EXHAUSTED unless ok. */
mr_status *mr_string_room(bool ok);
/* mr_str_try_append as a status. */
static inline mr_status *mr_string_add(mr_str *out, const void *p, size_t n)
{
    return mr_string_room(mr_str_try_append(out, p, n));
}

/* Parses s and stores the number in element i of out (float, double, int32, int64); false if s is not a number. */
bool mr_string_to_number(mr_sv s, mr_tensor *out, int64_t i);

/* Bytes 80..BF continue a character of UTF-8; all others begin one. */
static inline bool mr_utf8_trails(char c) { return ((unsigned char)c & 0xc0) == 0x80; }

#endif
