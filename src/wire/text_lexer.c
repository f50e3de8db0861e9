/* wire/text_lexer.c -- splits protobuf text into tokens, and computes the values of tokens.
 *
 *     name      [A-Za-z_][A-Za-z0-9_]*
 *     integer   [0-9]+ | 0x[0-9a-f]+                       octal when it begins with 0
 *     float     digits [. digits] [e[+-]digits] [f]        with at least one of the three
 *     string    "..." or '...' with the escapes below
 *     symbol    any other printable character; the parser knows { } < > [ ] : , ; -
 *
 *     \a \b \f \n \r \t \v \\ \? \' \"        as in C
 *     \o \oo \ooo   \xh \xhh                  one byte
 *     \uhhhh   \Uhhhhhhhh                     a character, written in UTF-8
 *
 * The rules are those of C++ protobuf's Tokenizer as TextFormat sets it up: # comments to the end
 * of the line, `f` after a float, strings within one line, and white space needed between a number
 * and a name. */
#include "wire/text_lexer.h"

#include "wire/number.h"

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_octal(char c) { return c >= '0' && c <= '7'; }
static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static int hex_value(char c) /* -1: none */
{
    if (is_digit(c))
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* ---- cutting --------------------------------------------------------------------------------- */

void mr_lexer_init(mr_lexer *l, mr_sv text)
{
    const char *p = text.p ? text.p : "";
    *l = (mr_lexer){.at = p, .end = p + text.n, .line_start = p, .line = 1};
}

/* The character k ahead, '\0' at the end. */
static char peek_char(const mr_lexer *l, size_t k)
{
    return (size_t)(l->end - l->at) > k ? l->at[k] : '\0';
}

/* Skips white space and comments, and keeps track of the line. */
static void skip_white(mr_lexer *l)
{
    for (; l->at < l->end; l->at++) {
        char c = *l->at;
        if (c == '#') {
            const char *eol = memchr(l->at, '\n', (size_t)(l->end - l->at));
            l->at = eol ? eol : l->end;
            if (!eol)
                return;
            c = '\n';
        }
        if (c == '\n') {
            l->line++;
            l->line_start = l->at + 1;
        } else if (c != ' ' && c != '\t' && c != '\r' && c != '\v' && c != '\f') {
            return;
        }
    }
}

/* The position of a token is set before it is read, so errors name where it begins. */
static mr_status *bad_token(const mr_lexer *l, const char *why)
{
    return mr_invalid("%d:%d: %s", l->token.line, l->token.column, why);
}

/* Only finds the end of the string; escapes are decoded when the parser needs the string. */
static mr_status *lex_string(mr_lexer *l)
{
    char quote = *l->at++;
    for (; l->at < l->end && *l->at != '\n'; l->at++) {
        if (*l->at == quote) {
            l->at++;
            return NULL;
        }
        if (*l->at == '\\' && peek_char(l, 1) != '\n' && l->at + 1 < l->end)
            l->at++; /* an escaped character does not end the string */
    }
    return bad_token(l, "string without its closing quote on the same line");
}

static void skip_digits(mr_lexer *l)
{
    while (l->at < l->end && is_digit(*l->at))
        l->at++;
}

/* Reads what follows the integral digits: .digits, exponent, f. */
static mr_status *lex_fraction(mr_lexer *l)
{
    if (peek_char(l, 0) == '.') {
        l->token.kind = MR_TOKEN_FLOAT;
        l->at++;
        skip_digits(l);
    }
    if (peek_char(l, 0) == 'e' || peek_char(l, 0) == 'E') {
        l->token.kind = MR_TOKEN_FLOAT;
        l->at += peek_char(l, 1) == '-' || peek_char(l, 1) == '+' ? 2 : 1;
        if (!is_digit(peek_char(l, 0)))
            return bad_token(l, "exponent without digits");
        skip_digits(l);
    }
    if (peek_char(l, 0) == 'f' || peek_char(l, 0) == 'F') {
        l->token.kind = MR_TOKEN_FLOAT;
        l->at++;
    }
    return NULL;
}

/* A leading 0 makes an octal number only when the parser asks for an integer, so 08 passes here. */
static mr_status *lex_number(mr_lexer *l)
{
    l->token.kind = MR_TOKEN_INTEGER;
    if (peek_char(l, 0) == '0' && (peek_char(l, 1) | 0x20) == 'x') {
        l->at += 2;
        if (hex_value(peek_char(l, 0)) < 0)
            return bad_token(l, "0x without digits");
        while (hex_value(peek_char(l, 0)) >= 0)
            l->at++;
    } else {
        skip_digits(l);
        MR_TRY(lex_fraction(l));
    }
    if (is_letter(peek_char(l, 0)) || is_digit(peek_char(l, 0)) || peek_char(l, 0) == '.')
        return bad_token(l, "a space is needed between a number and what follows");
    return NULL;
}

static mr_status *lex_token(mr_lexer *l)
{
    char c = *l->at;
    if (is_letter(c)) {
        l->token.kind = MR_TOKEN_NAME;
        while (is_letter(peek_char(l, 0)) || is_digit(peek_char(l, 0)))
            l->at++;
        return NULL;
    }
    if (is_digit(c) || (c == '.' && is_digit(peek_char(l, 1))))
        return lex_number(l);
    if (c == '"' || c == '\'') {
        l->token.kind = MR_TOKEN_STRING;
        return lex_string(l);
    }
    if (c <= ' ' || c > '~') /* also all above ASCII, where char is signed */
        return bad_token(l, "invalid character");
    l->token.kind = MR_TOKEN_SYMBOL;
    l->at++;
    return NULL;
}

mr_status *mr_lexer_next(mr_lexer *l)
{
    skip_white(l);
    const char *from = l->at;
    l->token = (mr_token){.kind = MR_TOKEN_END,
                          .text = {from, 0},
                          .line = l->line,
                          .column = (int)(from - l->line_start) + 1};
    if (l->at == l->end)
        return NULL;
    MR_TRY(lex_token(l));
    l->token.text.n = (size_t)(l->at - from);
    return NULL;
}

/* ---- values of tokens ------------------------------------------------------------------------ */

/* Up to 0x10FFFF, which the caller has checked; returns the number of bytes. */
static size_t encode_utf8(uint32_t c, char out[4])
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3F));
    static const uint8_t lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    out[0] = (char)(lead[n] | c);
    return n;
}

/* Exactly n hex digits at *p; false when there are fewer. */
static bool take_hex(const char **p, const char *end, int n, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < n; i++, ++*p) {
        if (*p == end || hex_value(**p) < 0)
            return false;
        *out = *out << 4 | (uint32_t)hex_value(**p);
    }
    return true;
}

/* \uXXXX (two of them for a surrogate pair) or \UXXXXXXXX; *p is at the u. */
static bool unescape_unicode(const char **p, const char *end, char out[4], size_t *n)
{
    uint32_t c, low;
    int digits = *(*p)++ == 'u' ? 4 : 8;
    if (!take_hex(p, end, digits, &c) || c > 0x10FFFF)
        return false;
    if (c >= 0xD800 && c < 0xDC00 && end - *p >= 6 && (*p)[0] == '\\' && (*p)[1] == 'u') {
        const char *q = *p + 2;
        if (take_hex(&q, end, 4, &low) && low >= 0xDC00 && low < 0xE000) {
            c = 0x10000 + ((c - 0xD800) << 10 | (low - 0xDC00));
            *p = q;
        }
    }
    *n = encode_utf8(c, out); /* a lone surrogate is written as it is, as C++ does */
    return true;
}

/* Up to three octal digits; a value above 255 wraps, as C++ lets it. */
static char unescape_octal(const char **p, const char *end)
{
    unsigned v = 0;
    for (int i = 0; i < 3 && *p < end && is_octal(**p); i++, ++*p)
        v = v * 8 + (unsigned)(**p - '0');
    return (char)v;
}

/* Reads one or two hex digits; *p is at the x. */
static bool unescape_hex(const char **p, const char *end, char *out)
{
    unsigned v = 0;
    ++*p;
    if (*p == end || hex_value(**p) < 0)
        return false;
    for (int i = 0; i < 2 && *p < end && hex_value(**p) >= 0; i++, ++*p)
        v = v * 16 + (unsigned)hex_value(**p);
    *out = (char)v;
    return true;
}

/* *p is after the backslash and is moved past the escape. */
static bool unescape_one(const char **p, const char *end, char out[4], size_t *n)
{
    static const char from[] = "abfnrtv\\?'\"", to[] = "\a\b\f\n\r\t\v\\?'\"";
    *n = 1;
    if (*p == end)
        return false;
    if (is_octal(**p)) {
        out[0] = unescape_octal(p, end);
        return true;
    }
    if (**p == 'x' || **p == 'X')
        return unescape_hex(p, end, out);
    if (**p == 'u' || **p == 'U')
        return unescape_unicode(p, end, out, n);
    const char *known = **p ? strchr(from, **p) : NULL;
    if (!known)
        return false;
    out[0] = to[known - from];
    ++*p;
    return true;
}

/* Runs without a backslash are copied as a whole; most strings have no backslash. */
mr_status *mr_token_unescape(const mr_token *t, mr_str *out)
{
    MR_ASSERT(t->kind == MR_TOKEN_STRING && t->text.n >= 2);
    const char *p = t->text.p + 1, *end = t->text.p + t->text.n - 1;
    /* What an escape means is never longer than the escape, so this is all the memory needed. */
    if (!mr_str_try_reserve(out, (size_t)(end - p)))
        return mr_error(MR_RESOURCE_EXHAUSTED, "is too large: no memory for %zu bytes", t->text.n);
    while (p < end) {
        const char *plain = memchr(p, '\\', (size_t)(end - p));
        size_t n = (size_t)((plain ? plain : end) - p);
        mr_str_append(out, p, n);
        p += n;
        if (p == end)
            break;
        char buf[4];
        const char *backslash = p++;
        if (!unescape_one(&p, end, buf, &n))
            return mr_invalid("%d:%d: unknown or incomplete escape", t->line,
                              t->column + (int)(backslash - t->text.p));
        mr_str_append(out, buf, n);
    }
    return NULL;
}

/* Reads decimal, octal (leading 0) and hexadecimal (0x) numbers; false if the number is malformed or too large. */
bool mr_token_to_u64(const mr_token *t, uint64_t *out)
{
    MR_ASSERT(t->kind == MR_TOKEN_INTEGER);
    mr_sv v = t->text;
    uint64_t base = 10, sum = 0;
    if (v.n > 1 && v.p[0] == '0') {
        bool hex = (v.p[1] | 0x20) == 'x';
        base = hex ? 16 : 8;
        v.p += hex ? 2 : 1;
        v.n -= hex ? 2 : 1;
    }
    for (size_t i = 0; i < v.n; i++) {
        int digit = hex_value(v.p[i]);
        if (digit < 0 || (uint64_t)digit >= base || __builtin_mul_overflow(sum, base, &sum) ||
            __builtin_add_overflow(sum, (uint64_t)digit, &sum))
            return false;
    }
    *out = sum;
    return v.n > 0;
}

bool mr_token_to_double(const mr_token *t, double *out)
{
    mr_sv v = t->text;
    /* In the place of a float 010 could mean 8 or 10, so C++ takes neither, nor hexadecimal. */
    if (t->kind == MR_TOKEN_INTEGER && v.n > 1 && v.p[0] == '0')
        return false;
    if (t->kind == MR_TOKEN_FLOAT && (v.p[v.n - 1] | 0x20) == 'f')
        v.n--;
    return mr_text_to_double(v, out);
}
