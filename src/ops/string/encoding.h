/* ops/string/encoding.h -- texts in encodings, character by character. */
#ifndef MR_OPS_STRING_ENCODING_H
#define MR_OPS_STRING_ENCODING_H

#include "base/unicode.h"
#include "ops/string/strings.h"

typedef struct mr_encoding mr_encoding;

/* NULL: not one we know.  Names as ICU takes them: in any case, dashes and blanks are no matter. */
const mr_encoding *mr_encoding_find(mr_sv name);

typedef struct mr_decoder {
    const mr_encoding *of;
    bool little; /* the lowest byte comes first, for this text */
    bool begun;
} mr_decoder;
/* The next character of n > 0 bytes: how many bytes it has; *c MR_NO_CODE: they are malformed, or (*c
 * MR_MARK) a mark of the order of bytes. */
#define MR_MARK 0xfffffffeu
size_t mr_decode_next(mr_decoder *d, const char *p, size_t n, uint32_t *c);

typedef enum mr_output_encoding { MR_UTF8, MR_UTF16_BE, MR_UTF32_BE } mr_output_encoding;
/* One of the three names that ops allow. */
mr_output_encoding mr_output_encoding_of(mr_sv name);
mr_status *mr_encode_code(mr_output_encoding e, uint32_t c, mr_str *out);

/* What to do about malformed input: the attrs errors, replacement_char, replace_control_characters. */
typedef struct mr_unicode_errors {
    bool strict, ignore, no_controls;
    uint32_t replacement;
} mr_unicode_errors;
mr_status *mr_unicode_errors_init(mr_make *m, mr_unicode_errors *e);

/* Calls fn(ctx, c, at) for each character of a text, which starts at byte `at`, malformed ones replaced or left
 * out; INVALID_ARGUMENT when those are errors. */
mr_status *mr_decode_all(const mr_encoding *e, const mr_unicode_errors *how, mr_sv s,
                         mr_status *(*fn)(void *ctx, uint32_t c, size_t at), void *ctx);

#endif
