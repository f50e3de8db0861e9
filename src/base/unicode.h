/* base/unicode.h -- properties of Unicode code points (category, script, case), and UTF-8.
 *
 * The tables are made by tools/unicode-tables. */
#ifndef MR_BASE_UNICODE_H
#define MR_BASE_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define MR_MAX_CODE 0x10ffffu
#define MR_NO_CODE 0xffffffffu     /* no code point: malformed bytes */
#define MR_REPLACEMENT_CODE 0xfffdu

/* Surrogates are code points, but nothing that a text may hold. */
static inline bool mr_code_valid(uint32_t c)
{
    return c <= MR_MAX_CODE && (c < 0xd800 || c > 0xdfff);
}

/* The first character of n > 0 bytes: how many bytes it has, and *c. Malformed bytes give MR_NO_CODE, and the length of
 * the bytes that could have begun a character, at least 1; they are replaced by one U+FFFD. */
size_t mr_utf8_next(const char *p, size_t n, uint32_t *c);
/* Writes a valid code point; how many bytes, at most 4. */
size_t mr_utf8_put(uint32_t c, char out[4]);

/* The number ICU gives a script (uscript.h); 103 where none is assigned. */
int mr_unicode_script(uint32_t c);
/* Two letters, as "Lu". */
const char *mr_unicode_category(uint32_t c);
/* The case mappings of a single character: how many code points, at most 3. Mappings that depend on
 * neighbours (the sigma at the end of a word) are left to the caller. */
int mr_unicode_lower(uint32_t c, uint32_t out[3]);
int mr_unicode_upper(uint32_t c, uint32_t out[3]);
/* The next character that differs from c only in case, in a cycle; c if there is none. */
uint32_t mr_unicode_fold(uint32_t c);
/* Calls fn for ranges that together are the case folds of lo..hi, without characters that fold to themselves. */
void mr_unicode_fold_range(uint32_t lo, uint32_t hi,
                           void (*fn)(void *ctx, uint32_t lo, uint32_t hi), void *ctx);

/* Calls fn for each range of a class: a category ("Lu", "L") or script ("Greek"), or "Any".  false when
 * there is no such class. */
bool mr_unicode_class(mr_sv name, void (*fn)(void *ctx, uint32_t lo, uint32_t hi), void *ctx);

#endif
