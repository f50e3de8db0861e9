/* wire/json.c -- JSON read by a cursor. */
#include "wire/json.h"

#include "wire/number.h"

enum { MAX_DEPTH = 64 };

void mr_json_init(mr_json *j, mr_sv text)
{
    *j = (mr_json){.begin = text.p, .at = text.p, .end = text.p + text.n};
}

static void fail_at(mr_json *j, const char *why)
{
    if (j->error)
        return;
    j->error = why;
    j->end = j->at; /* nothing more is read */
}

static void skip_space(mr_json *j)
{
    while (j->at < j->end && (*j->at == ' ' || *j->at == '\n' || *j->at == '\t' || *j->at == '\r'))
        j->at++;
}

static bool take_char(mr_json *j, char c)
{
    skip_space(j);
    if (j->at == j->end || *j->at != c)
        return false;
    j->at++;
    return true;
}

mr_status *mr_json_status(mr_json *j, const char *what)
{
    skip_space(j);
    if (j->at != j->end)
        fail_at(j, "unexpected text after the value");
    if (!j->error && j->depth)
        fail_at(j, "unexpected end");
    return j->error ? mr_invalid("%s: bad JSON at byte %zu: %s", what, (size_t)(j->at - j->begin), j->error) : NULL;
}

char mr_json_peek(mr_json *j)
{
    skip_space(j);
    if (j->at == j->end)
        return 0;
    char c = *j->at;
    if (c == '-' || (c >= '0' && c <= '9'))
        return '0';
    return strchr("{[\"tfn", c) ? c : 0;
}

/* ---- objects and lists ---- */

void mr_json_begin(mr_json *j, char bracket)
{
    if (!take_char(j, bracket))
        fail_at(j, bracket == '{' ? "expected {" : "expected [");
    else if (++j->depth > MAX_DEPTH)
        fail_at(j, "nested too deep");
    j->fresh = true;
}

/* Moves past the comma before the next element; false at the closing bracket. */
static bool next_item(mr_json *j, char end)
{
    if (j->error)
        return false;
    bool first = j->fresh;
    j->fresh = false;
    if (take_char(j, end)) {
        j->depth--;
        return false;
    }
    if (!first && !take_char(j, ','))
        fail_at(j, "expected a comma");
    return !j->error;
}

bool mr_json_more(mr_json *j) { return next_item(j, ']'); }

bool mr_json_key(mr_json *j, mr_str *key)
{
    mr_str_clear(key);
    if (!next_item(j, '}'))
        return false;
    mr_json_string(j, key);
    if (!j->error && !take_char(j, ':'))
        fail_at(j, "expected a colon");
    return !j->error;
}

/* ---- strings ---- */

static int read_hex4(mr_json *j)
{
    int v = 0;
    for (int i = 0; i < 4; i++, j->at++) {
        char c = j->at < j->end ? *j->at : 0;
        int d = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (d < 0) {
            fail_at(j, "expected four hexadecimal digits");
            return 0;
        }
        v = v << 4 | d;
    }
    return v;
}

static void append_utf8(mr_str *out, uint32_t c)
{
    if (c < 0x80) {
        mr_str_appendc(out, (char)c);
    } else if (c < 0x800) {
        mr_str_appendc(out, (char)(0xc0 | c >> 6));
        mr_str_appendc(out, (char)(0x80 | (c & 0x3f)));
    } else if (c < 0x10000) {
        mr_str_appendc(out, (char)(0xe0 | c >> 12));
        mr_str_appendc(out, (char)(0x80 | (c >> 6 & 0x3f)));
        mr_str_appendc(out, (char)(0x80 | (c & 0x3f)));
    } else {
        mr_str_appendc(out, (char)(0xf0 | c >> 18));
        mr_str_appendc(out, (char)(0x80 | (c >> 12 & 0x3f)));
        mr_str_appendc(out, (char)(0x80 | (c >> 6 & 0x3f)));
        mr_str_appendc(out, (char)(0x80 | (c & 0x3f)));
    }
}

/* Reads the code point after \u, which may be a surrogate pair. */
static void read_unicode(mr_json *j, mr_str *out)
{
    uint32_t c = (uint32_t)read_hex4(j);
    if (c >= 0xd800 && c < 0xdc00) {
        if (j->end - j->at < 2 || j->at[0] != '\\' || j->at[1] != 'u') {
            fail_at(j, "unpaired surrogate");
            return;
        }
        j->at += 2;
        uint32_t low = (uint32_t)read_hex4(j);
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        if (low < 0xdc00 || low > 0xdfff)
            fail_at(j, "unpaired surrogate");
    } else if (c >= 0xdc00 && c < 0xe000) {
        fail_at(j, "unpaired surrogate");
    }
    if (c == 0)
        fail_at(j, "a NUL in a string");
    if (!j->error)
        append_utf8(out, c);
}

static void read_escape(mr_json *j, mr_str *out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char c = j->at < j->end ? *j->at++ : 0;
    const char *p = c ? strchr(from, c) : NULL;
    if (p)
        mr_str_appendc(out, to[p - from]);
    else if (c == 'u')
        read_unicode(j, out);
    else
        fail_at(j, "unknown escape");
}

void mr_json_string(mr_json *j, mr_str *out)
{
    mr_str_clear(out);
    if (!take_char(j, '"')) {
        fail_at(j, "expected a string");
        return;
    }
    while (j->at < j->end && *j->at != '"') {
        char c = *j->at++;
        if ((unsigned char)c < 0x20)
            fail_at(j, "a control character in a string");
        else if (c == '\\')
            read_escape(j, out);
        else
            mr_str_appendc(out, c);
    }
    if (!take_char(j, '"'))
        fail_at(j, "unterminated string");
}

/* ---- other values ---- */

static int skip_digits(mr_json *j)
{
    int n = 0;
    for (; j->at < j->end && *j->at >= '0' && *j->at <= '9'; n++)
        j->at++;
    return n;
}

/* Moves past a number and returns its text. */
static mr_sv number_text(mr_json *j, bool *whole)
{
    skip_space(j);
    const char *start = j->at;
    *whole = true;
    if (j->at < j->end && *j->at == '-')
        j->at++;
    bool zero = j->at < j->end && *j->at == '0';
    int n = skip_digits(j);
    bool ok = n > 0 && !(zero && n > 1);
    if (j->at < j->end && *j->at == '.') {
        *whole = false;
        j->at++;
        ok = ok && skip_digits(j) > 0;
    }
    if (j->at < j->end && (*j->at == 'e' || *j->at == 'E')) {
        *whole = false;
        j->at++;
        if (j->at < j->end && (*j->at == '+' || *j->at == '-'))
            j->at++;
        ok = ok && skip_digits(j) > 0;
    }
    if (!ok)
        fail_at(j, "expected a number");
    return (mr_sv){start, (size_t)(j->at - start)};
}

int64_t mr_json_int(mr_json *j)
{
    bool whole;
    int64_t v = 0;
    mr_sv text = number_text(j, &whole);
    if (!j->error && (!whole || !mr_sv_to_i64(text, &v)))
        fail_at(j, "expected a whole number");
    return j->error ? 0 : v;
}

double mr_json_number(mr_json *j)
{
    bool whole;
    double v = 0;
    mr_sv text = number_text(j, &whole);
    if (!j->error && !mr_text_to_double(text, &v))
        fail_at(j, "expected a number");
    return j->error ? 0 : v;
}

static bool take_word(mr_json *j, const char *w)
{
    size_t n = strlen(w);
    skip_space(j);
    if ((size_t)(j->end - j->at) < n || memcmp(j->at, w, n) != 0)
        return false;
    j->at += n;
    return true;
}

bool mr_json_bool(mr_json *j)
{
    if (take_word(j, "true"))
        return true;
    if (!take_word(j, "false"))
        fail_at(j, "expected true or false");
    return false;
}

/* The recursion is limited by the depth that mr_json_begin allows. */
void mr_json_skip(mr_json *j)
{
    mr_str text = {0};
    switch (mr_json_peek(j)) {
    case '{':
        mr_json_begin(j, '{');
        while (mr_json_key(j, &text))
            mr_json_skip(j);
        break;
    case '[':
        mr_json_begin(j, '[');
        while (mr_json_more(j))
            mr_json_skip(j);
        break;
    case '"': mr_json_string(j, &text); break;
    case '0': (void)mr_json_number(j); break;
    case 't':
    case 'f': (void)mr_json_bool(j); break;
    case 'n':
        if (!take_word(j, "null"))
            fail_at(j, "expected null");
        break;
    default: fail_at(j, "expected a value");
    }
    mr_str_deinit(&text);
}

void mr_json_quote(mr_str *out, mr_sv text)
{
    mr_str_appendc(out, '"');
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];
        if (c == '"' || c == '\\')
            mr_str_printf(out, "\\%c", c);
        else if (c < 0x20)
            mr_str_printf(out, "\\u%04x", c);
        else
            mr_str_appendc(out, (char)c);
    }
    mr_str_appendc(out, '"');
}
