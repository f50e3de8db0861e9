/* ops/string/encoding.c -- see encoding.h.
 *
 * An ICU converter has state and can decode only one text at a time.  An encoding keeps one idle converter; a caller
 * that finds none opens another. */
#include "ops/string/encoding.h"

#include <stdatomic.h>

#include "base/memory.h"
#include "ops/string/code_pages.inc"
#include "ops/string/icu.h"

typedef enum form { UTF8, UTF16, UTF32, ONE_BYTE } form;

typedef struct page_of { /* an encoding that this file decodes */
    const char *names; /* in lower case, without dashes; separated by blanks */
    form form;
    bool little, marked; /* marked: a byte order mark at the beginning determines the order */
    const uint16_t *page; /* for single bytes: the codes of 0x80 and above; NULL: there are none */
} page_of;

struct mr_encoding {
    const page_of *here; /* NULL: ICU decodes it */
    const mr_icu *icu;
    char *name;
    _Atomic(mr_icu_converter *) idle;
};

typedef struct mr_decoder {
    const page_of *of;
    bool little; /* this text is little-endian */
    bool begun;
} mr_decoder;
#define MR_MARK 0xfffffffeu /* not a character, but a byte order mark */

static const uint16_t latin1[1] = {0}; /* each byte is its own code */

static const page_of encodings[] = {
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

static const page_of *find_here(mr_sv name)
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

/* Opens an ICU converter, which becomes the idle one. */
static mr_status *open_icu(mr_encoding *e)
{
    mr_status *st = mr_icu_functions(&e->icu);
    if (st) {
        mr_status *why = mr_invalid("Could not create converter for input encoding: %s; %s", e->name,
                                    mr_status_message(st));
        mr_status_free(st);
        return why;
    }
    mr_icu_converter *c = e->icu->open(e->name);
    atomic_init(&e->idle, c);
    return c ? NULL : mr_invalid("Could not create converter for input encoding: %s", e->name);
}

mr_status *mr_encoding_open(mr_sv name, mr_encoding **out)
{
    mr_encoding *e = mr_new(mr_encoding);
    e->name = mr_strndup(name.p, name.n);
    e->here = find_here(name);
    mr_status *st = NULL;
    if (!e->here)
        st = name.n == 0 || memchr(name.p, '\0', name.n)
                 ? mr_invalid("Could not create converter for input encoding: %s", e->name)
                 : open_icu(e);
    if (st)
        mr_encoding_close(e);
    *out = st ? NULL : e;
    return st;
}

void mr_encoding_close(mr_encoding *e)
{
    if (!e)
        return;
    if (e->icu && atomic_load(&e->idle))
        e->icu->close(atomic_load(&e->idle));
    mr_free(e->name);
    mr_free(e);
}

/* ---- decoding ---- */

static uint32_t read_unit(const char *p, int bytes, bool little)
{
    uint32_t v = 0;
    for (int i = 0; i < bytes; i++)
        v = v << 8 | (uint8_t)p[little ? bytes - 1 - i : i];
    return v;
}

/* Reads a byte order mark at the beginning of a text; returns its length or 0. */
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
        if (read_unit(p, bytes, little) == 0xfeff) {
            d->little = little;
            return (size_t)bytes;
        }
    return 0;
}

static size_t next_utf16(const mr_decoder *d, const char *p, size_t n, uint32_t *c)
{
    if (n < 2)
        return n;
    uint32_t a = read_unit(p, 2, d->little), b;
    if (a < 0xd800 || a > 0xdfff) {
        *c = a;
        return 2;
    }
    if (a > 0xdbff || n < 4) /* a low surrogate alone, or a high surrogate without a low one */
        return a > 0xdbff ? 2 : n;
    b = read_unit(p + 2, 2, d->little);
    if (b < 0xdc00 || b > 0xdfff)
        return 2;
    *c = 0x10000 + ((a & 0x3ff) << 10 | (b & 0x3ff));
    return 4;
}

static size_t next_utf32(const mr_decoder *d, const char *p, size_t n, uint32_t *c)
{
    if (n < 4)
        return n;
    uint32_t v = read_unit(p, 4, d->little);
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

/* Decodes the next character of n > 0 bytes and returns how many bytes it has; *c is MR_NO_CODE if they are
 * malformed. */
static size_t decode_next(mr_decoder *d, const char *p, size_t n, uint32_t *c)
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
    return d->of->form == UTF16 ? next_utf16(d, p, n, c) : next_utf32(d, p, n, c);
}

/* ---- encoding ---- */

mr_output_encoding mr_output_encoding_of(mr_sv name)
{
    return mr_sv_is(name, "UTF-8") ? MR_UTF8 : mr_sv_is(name, "UTF-16-BE") ? MR_UTF16_BE : MR_UTF32_BE;
}

static size_t put_utf16(uint32_t c, char *out)
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
        n = put_utf16(c >> 16, text);
        n += put_utf16(c & 0xffff, text + n);
    } else if (c < 0x10000) {
        n = put_utf16(c, text);
    } else {
        n = put_utf16(0xd800 | (c - 0x10000) >> 10, text);
        n += put_utf16(0xdc00 | ((c - 0x10000) & 0x3ff), text + n);
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

typedef struct sink { /* the receiver of the characters */
    const mr_unicode_errors *how;
    mr_status *(*fn)(void *ctx, uint32_t c, size_t at);
    void *ctx;
} sink;

/* Passes on one character or its replacement, or drops it, as the attrs say. */
static mr_status *put_character(const sink *k, uint32_t c, bool bad, size_t at)
{
    bool control = k->how->no_controls && c <= 0x1f;
    if (k->how->strict && (bad || (control && !k->how->controls_pass)))
        return mr_invalid("Invalid formatting on input string");
    if (!bad && !control)
        return k->fn(k->ctx, c, at);
    return k->how->ignore ? NULL : k->fn(k->ctx, k->how->replacement, at);
}

static mr_status *decode_here(const page_of *of, mr_sv s, const sink *k)
{
    mr_decoder d = {.of = of};
    for (size_t at = 0, n; at < s.n; at += n) {
        uint32_t c;
        n = decode_next(&d, s.p + at, s.n - at, &c);
        if (c != MR_MARK)
            MR_TRY(put_character(k, c, c == MR_NO_CODE, at));
    }
    return NULL;
}

static mr_status *decode_icu(mr_encoding *e, mr_sv s, const sink *k)
{
    mr_icu_converter *c = atomic_exchange(&e->idle, NULL);
    mr_status *st = NULL;
    c = c ? c : e->icu->open(e->name);
    if (!c)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a converter of %s", e->name);
    e->icu->reset(c);
    for (const char *p = s.p, *end = s.p + s.n; p < end && !st;) {
        const char *begin = p;
        bool bad;
        uint32_t code = e->icu->next(c, &p, end, &bad);
        st = put_character(k, code, bad, (size_t)(begin - s.p));
    }
    c = atomic_exchange(&e->idle, c);
    if (c)
        e->icu->close(c);
    return st;
}

mr_status *mr_decode_all(mr_encoding *e, const mr_unicode_errors *how, mr_sv s,
                         mr_status *(*fn)(void *ctx, uint32_t c, size_t at), void *ctx)
{
    sink k = {how, fn, ctx};
    return e->here ? decode_here(e->here, s, &k) : decode_icu(e, s, &k);
}
