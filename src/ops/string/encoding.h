/* ops/string/encoding.h -- decodes and encodes texts, character by character. */
#ifndef MR_OPS_STRING_ENCODING_H
#define MR_OPS_STRING_ENCODING_H

#include "base/unicode.h"
#include "ops/string/strings.h"

typedef struct mr_encoding mr_encoding;

/* Opens an encoding by its name in ICU; case, dashes and blanks do not matter.  The encodings of Unicode and the most
 * common code pages are decoded here, the others by ICU's converters.  INVALID_ARGUMENT if neither has it.  Several
 * threads may use an encoding at once. */
mr_status *mr_encoding_open(mr_sv name, mr_encoding **out);
void mr_encoding_close(mr_encoding *e); /* NULL is fine */

typedef enum mr_output_encoding { MR_UTF8, MR_UTF16_BE, MR_UTF32_BE } mr_output_encoding;
/* The output encoding with this name, one of the three that ops allow. */
mr_output_encoding mr_output_encoding_of(mr_sv name);
mr_status *mr_encode_code(mr_output_encoding e, uint32_t c, mr_str *out);

/* How to handle malformed input: the attrs errors, replacement_char, replace_control_characters. */
typedef struct mr_unicode_errors {
    bool strict, ignore, no_controls;
    bool controls_pass; /* "strict" replaces control characters instead of rejecting them: only UnicodeDecode */
    uint32_t replacement;
} mr_unicode_errors;
mr_status *mr_unicode_errors_init(mr_make *m, mr_unicode_errors *e);

/* Calls fn(ctx, c, at) for each character c of a text, which starts at byte `at`.  Malformed ones are replaced or
 * left out, or give INVALID_ARGUMENT. */
mr_status *mr_decode_all(mr_encoding *e, const mr_unicode_errors *how, mr_sv s,
                         mr_status *(*fn)(void *ctx, uint32_t c, size_t at), void *ctx);

#endif
