/* ops/string/string_case.c -- StringLower, StringUpper, StringStrip.
 *
 * Without an encoding only ASCII letters change.  With utf-8 all of Unicode changes, by the full case
 * mappings: a sharp s becomes two letters, and a sigma at the end of a word has a special form. */
#include "base/memory.h"
#include "base/unicode.h"
#include "graph/infer.h"
#include "ops/string/strings.h"

static mr_status *init_encoding(mr_make *m, void *p)
{
    mr_sv encoding;
    MR_TRY(mr_node_get_str(m->node, "encoding", &encoding));
    if (encoding.n && !mr_sv_is(encoding, "utf-8"))
        return mr_invalid("only utf-8 or '' (no encoding) is supported, received %.*s",
                          MR_SV_ARG(encoding));
    *(bool *)p = encoding.n > 0;
    return NULL;
}

/* ---- bytes ---- */

static mr_status *change_bytes(mr_sv in, char first, mr_str *out)
{
    MR_TRY(mr_string_add(out, in.p, in.n));
    for (size_t i = 0; i < in.n; i++)
        if (out->p[i] >= first && out->p[i] < first + 26)
            out->p[i] ^= 32;
    return NULL;
}

/* ---- characters ---- */

typedef int (*mapping)(uint32_t c, uint32_t out[3]);

static mr_status *put_code(mr_str *out, uint32_t c)
{
    char text[4];
    return mr_string_add(out, text, mr_utf8_put(c, text));
}

static bool is_letter(uint32_t c)
{
    const char *category = mr_unicode_category(c);
    return category[0] == 'L' && strcmp(category, "Lo") != 0;
}

/* Marks, accents and apostrophes are neither letters nor the end of a word. */
static bool is_ignored(uint32_t c)
{
    static const char *const kinds[] = {"Mn", "Me", "Cf", "Lm", "Sk"};
    const char *category = mr_unicode_category(c);
    for (int i = 0; i < MR_COUNT(kinds); i++)
        if (strcmp(category, kinds[i]) == 0)
            return true;
    return c == '\'' || c == '.' || c == ':' || c == 0xb7 || c == 0x2018 || c == 0x2019;
}

/* Whether another letter follows in the same word. */
static bool letter_follows(mr_sv in, size_t at)
{
    for (uint32_t c; at < in.n;) {
        at += mr_utf8_next(in.p + at, in.n - at, &c);
        if (c == MR_NO_CODE || !is_ignored(c))
            return c != MR_NO_CODE && is_letter(c);
    }
    return false;
}

static mr_status *change_chars(mr_sv in, mapping map, mr_str *out)
{
    bool after_letter = false;
    uint32_t c, to[3];
    for (size_t at = 0; at < in.n;) {
        at += mr_utf8_next(in.p + at, in.n - at, &c);
        c = c == MR_NO_CODE ? MR_REPLACEMENT_CODE : c;
        int n = map(c, to);
        if (c == 0x3a3 && map == mr_unicode_lower && after_letter && !letter_follows(in, at))
            to[0] = 0x3c2; /* the final form */
        for (int i = 0; i < n; i++)
            MR_TRY(put_code(out, to[i]));
        after_letter = is_letter(c) || (after_letter && is_ignored(c));
    }
    return NULL;
}

static mr_status *lower_case(void *ctx, mr_sv in, mr_str *out)
{
    return *(bool *)ctx ? change_chars(in, mr_unicode_lower, out) : change_bytes(in, 'A', out);
}

static mr_status *upper_case(void *ctx, mr_sv in, mr_str *out)
{
    return *(bool *)ctx ? change_chars(in, mr_unicode_upper, out) : change_bytes(in, 'a', out);
}

static mr_status *run_lower(mr_run *r) { return mr_map_strings(r, lower_case, r->state); }
static mr_status *run_upper(mr_run *r) { return mr_map_strings(r, upper_case, r->state); }

#define CHANGE(kernel)                                                              \
    .sig = "input: string -> output: string", .attrs = "encoding: string = ''",      \
    .flags = MR_NO_GRADIENT, .shape = mr_shape_same,                                 \
    .kernels = MR_KERNELS(MR_CPU_ANY(kernel)), .state_bytes = sizeof(bool), .init = init_encoding

MR_OP(StringLower,
    .doc      = "converts letters to lower case",
    CHANGE(run_lower),
    .examples = MR_EXAMPLES(
        "[\"Hello WORLD [`\", \"\"] -> [\"hello world [`\", \"\"]", "\"\xc3\x84\" -> \"\xc3\x84\"",
        "encoding=\"utf-8\": \"\xc3\x84\xc3\x96 A\" -> \"\xc3\xa4\xc3\xb6 a\"",
        "encoding=\"utf-8\": \"\xce\xa3\xce\x91\xce\xa3\" -> \"\xcf\x83\xce\xb1\xcf\x82\"",
        "encoding=\"utf-8\": \"A\xff\xc3\" -> \"a\xef\xbf\xbd\xef\xbf\xbd\"",
        "encoding=\"utf-8\": \"\xc4\xb0\" -> \"i\xcc\x87\"", "shape(0,2) -> shape(0,2)",
        "encoding=\"latin-1\": \"a\" -> !INVALID_ARGUMENT only utf-8 or '' (no encoding) is "
        "supported, received latin-1"));
MR_OP(StringUpper,
    .doc      = "converts letters to upper case",
    CHANGE(run_upper),
    .examples = MR_EXAMPLES(
        "[\"Hello world {@\", \"\"] -> [\"HELLO WORLD {@\", \"\"]",
        "encoding=\"utf-8\": \"\xc3\xa4 stra\xc3\x9f\x65\" -> \"\xc3\x84 STRASSE\"",
        "encoding=\"utf-8\": \"\xcf\x83\xcf\x82\" -> \"\xce\xa3\xce\xa3\"", "shape(0) -> shape(0)",
        "encoding=\"UTF-8\": \"a\" -> !INVALID_ARGUMENT received UTF-8"));

/* ---- StringStrip ---- */

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static mr_status *strip_spaces(void *ctx, mr_sv in, mr_str *out)
{
    (void)ctx;
    size_t from = 0;
    while (from < in.n && is_space(in.p[from]))
        from++;
    while (in.n > from && is_space(in.p[in.n - 1]))
        in.n--;
    return mr_string_add(out, in.p + from, in.n - from);
}

static mr_status *run_strip(mr_run *r) { return mr_map_strings(r, strip_spaces, NULL); }

MR_OP(StringStrip,
    .doc      = "without the white space at both ends",
    .sig      = "input: string -> output: string",
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_same,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_strip)),
    .examples = MR_EXAMPLES("[\" a b\\n\", \"\\t\", \"\", \"x\"] -> [\"a b\", \"\", \"\", \"x\"]",
                            "shape(0,2) -> shape(0,2)"));
