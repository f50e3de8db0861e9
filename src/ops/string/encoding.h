/* ops/string/encoding.h -- texts in encodings, character by character. */
#ifndef MR_OPS_STRING_ENCODING_H
#define MR_OPS_STRING_ENCODING_H

#include "base/unicode.h"
#include "ops/string/strings.h"

typedef struct mr_encoding mr_encoding;

/* An encoding by its name in ICU; case, dashes and blanks do not matter.  The encodings of Unicode and the most common
 * code pages are decoded here, the others by ICU's converters.  INVALID_ARGUMENT if neither has it.  An encoding may be
 * used by several threads at once. */
mr_status *mr_encoding_open(mr_sv name, mr_encoding **out);
void mr_encoding_close(mr_encoding *e); /* NULL is fine */

typedef enum mr_output_encoding { MR_UTF8, MR_UTF16_BE, MR_UTF32_BE } mr_output_encoding;
/* One of the three names that ops allow. */
mr_output_encoding mr_output_encoding_of(mr_sv name);
mr_status *mr_encode_code(mr_output_encoding e, uint32_t c, mr_str *out);

/* What to do about malformed input: the attrs errors, replacement_char, replace_control_characters. */
typedef struct mr_unicode_errors {
    bool strict, ignore, no_controls;
    bool controls_pass; /* strict does not refuse controls but replaces them: UnicodeDecode, not UnicodeTranscode */
    uint32_t replacement;
} mr_unicode_errors;
mr_status *mr_unicode_errors_init(mr_make *m, mr_unicode_errors *e);

/* Calls fn(ctx, c, at) for each character of a text, which starts at byte `at`, malformed ones replaced or left
 * out; INVALID_ARGUMENT when those are errors. */
mr_status *mr_decode_all(mr_encoding *e, const mr_unicode_errors *how, mr_sv s,
                         mr_status *(*fn)(void *ctx, uint32_t c, size_t at), void *ctx);

#endif
