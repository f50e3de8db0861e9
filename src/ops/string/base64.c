/* ops/string/base64.c -- EncodeBase64, DecodeBase64: base64 with the URL-safe alphabet. */
#include "graph/infer.h"
#include "ops/string/strings.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* ---- encoding ---- */

/* Encodes n <= 3 bytes as n + 1 characters, or as four with padding. */
static mr_status *encode_group(const char *p, size_t n, bool pad, mr_str *out)
{
    uint32_t v = 0;
    char text[4] = "====";
    for (size_t i = 0; i < 3; i++)
        v = v << 8 | (i < n ? (uint8_t)p[i] : 0);
    for (size_t i = 0; i <= n; i++)
        text[i] = alphabet[v >> (18 - 6 * i) & 63];
    return mr_string_add(out, text, pad ? 4 : n + 1);
}

static mr_status *encode_string(void *ctx, mr_sv in, mr_str *out)
{
    for (size_t i = 0; i < in.n; i += 3)
        MR_TRY(encode_group(in.p + i, MR_MIN(in.n - i, 3), *(bool *)ctx, out));
    return NULL;
}

static mr_status *init_encode(mr_make *m, void *p) { return mr_node_get_bool(m->node, "pad", p); }

static mr_status *run_encode(mr_run *r) { return mr_map_strings(r, encode_string, r->state); }

MR_OP(EncodeBase64,
    .doc      = "encodes strings as URL-safe base64, with = at the end if pad is set",
    .sig      = "input: string -> output: string",
    .attrs    = "pad: bool = false",
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_same,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_encode)),
    .state_bytes = sizeof(bool), .init = init_encode,
    .examples = MR_EXAMPLES(
        "[\"\", \"a\", \"ab\", \"abc\", \"abcd\"] -> [\"\", \"YQ\", \"YWI\", \"YWJj\", \"YWJjZA\"]",
        "pad=true: [\"\", \"a\", \"ab\", \"abc\"] -> [\"\", \"YQ==\", \"YWI=\", \"YWJj\"]",
        "\"\xff\xef\xbe\" -> \"_---\"", "shape(0,2) -> shape(0,2)"));

/* ---- decoding ---- */

static int digit_value(char c)
{
    const char *at = c ? strchr(alphabet, c) : NULL;
    return at ? (int)(at - alphabet) : -1;
}

static mr_status *bad_character(void)
{
    return mr_invalid("Invalid character found in base64.");
}

/* Decodes two to four characters to n - 1 bytes; extra bits are ignored. */
static mr_status *decode_group(const char *p, size_t n, mr_str *out)
{
    uint32_t v = 0;
    char bytes[3];
    if (n < 2)
        return mr_invalid("Base64 string length cannot be 1 modulo 4.");
    for (size_t i = 0; i < 4; i++) {
        int d = i < n ? digit_value(p[i]) : 0;
        if (d < 0)
            return bad_character();
        v = v << 6 | (uint32_t)d;
    }
    for (size_t i = 0; i < 3; i++)
        bytes[i] = (char)(v >> (16 - 8 * i));
    return mr_string_add(out, bytes, n - 1);
}

/* Padding is optional; if present, it fills the last group to four characters. */
static mr_status *decode_string(void *ctx, mr_sv in, mr_str *out)
{
    (void)ctx;
    if (in.n > 0 && in.n % 4 == 0)
        for (int i = 0; i < 2 && in.p[in.n - 1] == '='; i++)
            in.n--;
    for (size_t i = 0; i < in.n; i += 4)
        MR_TRY(decode_group(in.p + i, MR_MIN(in.n - i, 4), out));
    return NULL;
}

static mr_status *run_decode(mr_run *r) { return mr_map_strings(r, decode_string, NULL); }

MR_OP(DecodeBase64,
    .doc      = "decodes URL-safe base64, padded or not",
    .sig      = "input: string -> output: string",
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_same,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_decode)),
    .examples = MR_EXAMPLES(
        "[\"\", \"YQ\", \"YWI\", \"YWJj\", \"YQ==\", \"YWI=\"] -> "
        "[\"\", \"a\", \"ab\", \"abc\", \"a\", \"ab\"]",
        "\"_---\" -> \"\xff\xef\xbe\"",
        "\"YWJ+\" -> !INVALID_ARGUMENT Invalid character found in base64.",
        "\"Y\" -> !INVALID_ARGUMENT Base64 string length cannot be 1 modulo 4.",
        "\"=\" -> !INVALID_ARGUMENT Base64 string length cannot be 1 modulo 4.",
        "\"YQ===\" -> !INVALID_ARGUMENT Invalid character found in base64."));
