/* ops/string/encoding.c -- see encoding.h. */
#include "ops/string/encoding.h"

#include "base/memory.h"
#include "ops/string/code_pages.inc"

typedef enum form { UTF8, UTF16, UTF32, ONE_BYTE } form;

struct mr_encoding {
    const char *names; /* in small letters, without dashes; separated by blanks */
    form form;
    bool little, marked; /* marked: a mark at the beginning tells the order of bytes */
    const uint16_t *page; /* of one byte: the upper half; NULL: there is none */
};

static const uint16_t latin1[1] = {0}; /* all bytes mean themselves */

static const mr_encoding encodings[] = {
    {"utf8", UTF8, false, false, NULL},
    {"utf16", UTF16, false, true, NULL},
    {"utf16be", UTF16, false, false, NULL},
    {"utf16le", UTF16, true, false, NULL},
    {"utf32", UTF32, false, true, NULL},
    {"utf32be", UTF32, false, false, NULL},
    {"utf32le", UTF32, true, false, NULL},
    {"usascii ascii ansix3.41968 iso646us us", ONE_BYTE, false, false, NULL},
    {"iso88591 latin1 l1 cp819 ibm819", ONE_BYTE, false, false, latin1},
    {"iso88592 latin2 l2", ONE_BYTE, false, false, page_iso8859_2},
    {"iso88595 cyrillic", ONE_BYTE, false, false, page_iso8859_5},
    {"iso88597 greek", ONE_BYTE, false, false, page_iso8859_7},
    {"iso885915 latin9 l9", ONE_BYTE, false, false, page_iso8859_15},
    {"windows1250 cp1250", ONE_BYTE, false, false, page_cp1250},
    {"windows1251 cp1251", ONE_BYTE, false, false, page_cp1251},
    {"windows1252 cp1252", ONE_BYTE, false, false, page_cp1252},
    {"koi8r koi8", ONE_BYTE, false, false, page_koi8_r},
};

static bool has_word(const char *words, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = n ? strstr(words, word) : NULL; p; p = strstr(p + 1, word))
        if ((p == words || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0'))
            return true;
    return false;
}

const mr_encoding *mr_encoding_find(mr_sv name)
{
    char plain[40];
    size_t n = 0;
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        if (c == '-' || c == '_' || c == ' ')
            continue;
        if (n + 1 == sizeof plain || c == '\0')
            return NULL;
        plain[n++] = (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
    }
    plain[n] = '\0';
    for (int i = 0; i < MR_COUNT(encodings); i++)
        if (has_word(encodings[i].names, plain))
            return &encodings[i];
    return NULL;
}

/* ---- decoding ---- */

static uint32_t unit(const char *p, int bytes, bool little)
{
    uint32_t v = 0;
    for (int i = 0; i < bytes; i++)
        v = v << 8 | (uint8_t)p[little ? bytes - 1 - i : i];
    return v;
}

/* A mark of the order of bytes at the beginning. */
static size_t read_mark(mr_decoder *d, const char *p, size_t n)
{
    int bytes = d->of->form == UTF16 ? 2 : 4;
    if (d->begun)
        return 0;
    d->begun = true;
    d->little = d->of->little;
    if (!d->of->marked || n < (size_t)bytes)
        return 0;
    for (int little = 0; little < 2; little++)
        if (unit(p, bytes, little) == 0xfeff) {
            d->little = little;
            return (size_t)bytes;
        }
    return 0;
}

static size_t next16(const mr_decoder *d, const char *p, size_t n, uint32_t *c)
{
    if (n < 2)
        return n;
    uint32_t a = unit(p, 2, d->little), b;
    if (a < 0xd800 || a > 0xdfff) {
        *c = a;
        return 2;
    }
    if (a > 0xdbff || n < 4) /* the second half alone, or no second half */
        return a > 0xdbff ? 2 : n;
    b = unit(p + 2, 2, d->little);
    if (b < 0xdc00 || b > 0xdfff)
        return 2;
    *c = 0x10000 + ((a & 0x3ff) << 10 | (b & 0x3ff));
    return 4;
}

static size_t next32(const mr_decoder *d, const char *p, size_t n, uint32_t *c)
{
    if (n < 4)
        return n;
    uint32_t v = unit(p, 4, d->little);
    if (mr_code_valid(v))
        *c = v;
    return 4;
}

static size_t next_byte(const mr_decoder *d, const char *p, uint32_t *c)
{
    uint8_t b = (uint8_t)p[0];
    const uint16_t *page = d->of->page;
    if (b < 0x80 || page == latin1)
        *c = b;
    else if (page && page[b - 128])
        *c = page[b - 128];
    return 1;
}

size_t mr_decode_next(mr_decoder *d, const char *p, size_t n, uint32_t *c)
{
    *c = MR_NO_CODE;
    if (d->of->form == UTF8)
        return mr_utf8_next(p, n, c);
    if (d->of->form == ONE_BYTE)
        return next_byte(d, p, c);
    size_t mark = read_mark(d, p, n);
    if (mark) {
        *c = MR_MARK;
        return mark;
    }
    return d->of->form == UTF16 ? next16(d, p, n, c) : next32(d, p, n, c);
}

/* ---- encoding ---- */

mr_output_encoding mr_output_encoding_of(mr_sv name)
{
    return mr_sv_is(name, "UTF-8") ? MR_UTF8 : mr_sv_is(name, "UTF-16-BE") ? MR_UTF16_BE : MR_UTF32_BE;
}

static size_t put16(uint32_t c, char *out)
{
    out[0] = (char)(c >> 8);
    out[1] = (char)c;
    return 2;
}

mr_status *mr_encode_code(mr_output_encoding e, uint32_t c, mr_str *out)
{
    char text[4];
    size_t n = 0;
    c = mr_code_valid(c) ? c : MR_REPLACEMENT_CODE;
    if (e == MR_UTF8) {
        n = mr_utf8_put(c, text);
    } else if (e == MR_UTF32_BE) {
        n = put16(c >> 16, text);
        n += put16(c & 0xffff, text + n);
    } else if (c < 0x10000) {
        n = put16(c, text);
    } else {
        n = put16(0xd800 | (c - 0x10000) >> 10, text);
        n += put16(0xdc00 | ((c - 0x10000) & 0x3ff), text + n);
    }
    return mr_string_add(out, text, n);
}

/* ---- errors ---- */

mr_status *mr_unicode_errors_init(mr_make *m, mr_unicode_errors *e)
{
    mr_sv errors;
    int64_t c;
    MR_TRY(mr_node_get_str(m->node, "errors", &errors));
    MR_TRY(mr_node_get_int(m->node, "replacement_char", &c));
    if (c < 0 || c > MR_MAX_CODE)
        return mr_invalid("replacement_char out of unicode codepoint range");
    e->strict = mr_sv_is(errors, "strict");
    e->ignore = mr_sv_is(errors, "ignore");
    e->replacement = (uint32_t)c;
    if (mr_node_attr(m->node, "replace_control_characters"))
        MR_TRY(mr_node_get_bool(m->node, "replace_control_characters", &e->no_controls));
    return NULL;
}

mr_status *mr_decode_all(const mr_encoding *e, const mr_unicode_errors *how, mr_sv s,
                         mr_status *(*fn)(void *ctx, uint32_t c, size_t at), void *ctx)
{
    mr_decoder d = {.of = e};
    for (size_t at = 0, n; at < s.n; at += n) {
        uint32_t c;
        n = mr_decode_next(&d, s.p + at, s.n - at, &c);
        if (c == MR_MARK)
            continue;
        if (c == MR_NO_CODE || (how->no_controls && c <= 0x1f)) {
            if (how->strict)
                return mr_invalid("Invalid formatting on input string");
            if (how->ignore)
                continue;
            c = how->replacement;
        }
        MR_TRY(fn(ctx, c, at));
    }
    return NULL;
}
