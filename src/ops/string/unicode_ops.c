/* ops/string/unicode_ops.c -- UnicodeDecode, UnicodeEncode, UnicodeTranscode, UnicodeScript. */
#include "base/memory.h"
#include "base/unicode.h"
#include "graph/infer.h"
#include "ops/string/encoding.h"

typedef struct state {
    mr_encoding *from;
    mr_output_encoding to;
    mr_unicode_errors errors;
} state;

static mr_status *read_input_encoding(mr_make *m, state *s)
{
    mr_sv name;
    MR_TRY(mr_node_get_str(m->node, "input_encoding", &name));
    return mr_encoding_open(name, &s->from);
}

static mr_status *read_output_encoding(mr_make *m, state *s)
{
    mr_sv name;
    MR_TRY(mr_node_get_str(m->node, "output_encoding", &name));
    s->to = mr_output_encoding_of(name);
    return NULL;
}

static mr_status *init_decode(mr_make *m, void *p)
{
    state *s = p;
    MR_TRY(mr_unicode_errors_init(m, &s->errors));
    s->errors.controls_pass = true;
    return read_input_encoding(m, p);
}

static mr_status *init_encode(mr_make *m, void *p)
{
    MR_TRY(mr_unicode_errors_init(m, &((state *)p)->errors));
    return read_output_encoding(m, p);
}

static mr_status *init_transcode(mr_make *m, void *p)
{
    MR_TRY(init_encode(m, p));
    return read_input_encoding(m, p);
}

static void deinit_unicode(void *p) { mr_encoding_close(((state *)p)->from); }

#define STATE(make) .state_bytes = sizeof(state), .init = make, .deinit = deinit_unicode, .flags = MR_NO_GRADIENT
#define ERRORS \
    "errors: {'strict', 'replace', 'ignore'} = 'replace'; replacement_char: int = 65533; " \
    "replace_control_characters: bool = false"
#define SPLITS "; Tsplits: {int32, int64} = DT_INT64"

/* ---- transcoding ---- */

typedef struct target {
    mr_output_encoding to;
    mr_str *out;
} target;

static mr_status *put_code(void *ctx, uint32_t c, size_t at)
{
    target *t = ctx;
    (void)at;
    return mr_encode_code(t->to, c, t->out);
}

static mr_status *transcode_string(void *ctx, mr_sv in, mr_str *out)
{
    const state *s = ctx;
    target t = {s->to, out};
    return mr_decode_all(s->from, &s->errors, in, put_code, &t);
}

static mr_status *run_transcode(mr_run *r) { return mr_map_strings(r, transcode_string, r->state); }

MR_OP(UnicodeTranscode,
    .doc      = "converts texts from one encoding to another",
    .sig      = "input: string -> output: string",
    .attrs    = "input_encoding: string; output_encoding: {'UTF-8', 'UTF-16-BE', 'UTF-32-BE'}; " ERRORS,
    .shape    = mr_shape_same, STATE(init_transcode),
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_transcode)),
    .examples = MR_EXAMPLES(
        "input_encoding=\"UTF-8\" output_encoding=\"UTF-16-BE\": \"a\xc3\xa4\xf0\x9f\x98\x80\" -> "
        "\"\\x00\x61\\x00\xe4\xd8\x3d\xde\\x00\"",
        "input_encoding=\"UTF-8\" output_encoding=\"UTF-32-BE\": \"\xe2\x82\xac\" -> \"\\x00\\x00\\x20\xac\"",
        "input_encoding=\"UTF-16LE\" output_encoding=\"UTF-8\": \"\x61\\x00\xe4\\x00\" -> \"a\xc3\xa4\"",
        "input_encoding=\"utf-16\" output_encoding=\"UTF-8\": [\"\xff\xfe\x61\\x00\", \"\\x00\x61\"] -> "
        "[\"a\", \"a\"]",
        "input_encoding=\"ISO-8859-1\" output_encoding=\"UTF-8\": \"\xe4\" -> \"\xc3\xa4\"",
        "input_encoding=\"windows-1252\" output_encoding=\"UTF-8\": \"\x80\" -> \"\xe2\x82\xac\"",
        "input_encoding=\"US-ASCII\" output_encoding=\"UTF-8\": \"a\xe4\" -> \"a\xef\xbf\xbd\"",
        "input_encoding=\"UTF-8\" output_encoding=\"UTF-8\" replacement_char=63: [\"a\xff\x62\", \"\xe2\x82\"] -> "
        "[\"a?b\", \"?\"]",
        "input_encoding=\"UTF-8\" output_encoding=\"UTF-8\" errors=\"ignore\": \"a\xff\x62\" -> \"ab\"",
        "input_encoding=\"UTF-8\" output_encoding=\"UTF-8\" replace_control_characters=true "
        "replacement_char=32: \"a\\nb\" -> \"a b\"",
        "input_encoding=\"UTF-8\" output_encoding=\"UTF-8\": shape(0,2) -> shape(0,2)",
        "input_encoding=\"UTF-8\" output_encoding=\"UTF-8\" errors=\"strict\": \"a\xff\" -> !INVALID_ARGUMENT "
        "Invalid formatting on input string",
        "input_encoding=\"UTF-8\" output_encoding=\"UTF-8\" errors=\"strict\" replace_control_characters=true: "
        "\"a\\n\" -> "
        "!INVALID_ARGUMENT Invalid formatting on input string",
        "input_encoding=\"none\" output_encoding=\"UTF-8\": \"a\" -> !INVALID_ARGUMENT Could not create "
        "converter for input encoding: none",
        "input_encoding=\"UTF-8\" output_encoding=\"UTF-8\" replacement_char=1114112: \"a\" -> "
        "!INVALID_ARGUMENT replacement_char out of unicode codepoint range"));

/* ---- decoding ---- */

typedef struct codes { /* the code points of all texts, concatenated */
    int32_t *c;
    int64_t *start;
    size_t n, cap;
} codes;

static mr_status *add_code(void *ctx, uint32_t c, size_t at)
{
    codes *l = ctx;
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 256;
        int32_t *p = mr_try_realloc(l->c, cap * sizeof *p);
        l->c = p ? p : l->c;
        int64_t *s = p ? mr_try_realloc(l->start, cap * sizeof *s) : NULL;
        l->start = s ? s : l->start;
        MR_TRY(mr_string_room(s != NULL));
        l->cap = cap;
    }
    l->c[l->n] = (int32_t)c;
    l->start[l->n++] = (int64_t)at;
    return NULL;
}

static mr_status *put_split(mr_tensor *t, int64_t i, size_t v)
{
    if (t->dtype == MR_INT64)
        MR_DATA(int64_t, t)[i] = (int64_t)v;
    else if (v <= INT32_MAX)
        MR_DATA(int32_t, t)[i] = (int32_t)v;
    else
        return mr_invalid("%zu characters are more than splits of type int32 can count", v);
    return NULL;
}

static mr_status *decode_all(mr_run *r, codes *l)
{
    const mr_tensor *in = mr_in(r, 0);
    const state *s = r->state;
    mr_tensor *splits;
    MR_TRY(mr_run_output(r, 0, 1, (int64_t[]){in->n + 1}, &splits));
    MR_TRY(put_split(splits, 0, 0));
    for (int64_t i = 0; i < in->n; i++) {
        MR_TRY(mr_decode_all(s->from, &s->errors, mr_tensor_str_at(in, i), add_code, l));
        MR_TRY(put_split(splits, i + 1, l->n));
    }
    return NULL;
}

static mr_status *give_codes(mr_run *r, const codes *l)
{
    int64_t n = (int64_t)l->n;
    mr_tensor *values, *starts;
    MR_TRY(mr_run_output(r, 1, 1, &n, &values));
    if (n > 0)
        memcpy(values->data, l->c, l->n * sizeof *l->c);
    if (r->n_out < 3)
        return NULL;
    MR_TRY(mr_run_output(r, 2, 1, &n, &starts));
    if (n > 0)
        memcpy(starts->data, l->start, l->n * sizeof *l->start);
    return NULL;
}

static mr_status *run_decode(mr_run *r)
{
    codes l = {0};
    mr_status *st = decode_all(r, &l);
    if (!st)
        st = give_codes(r, &l);
    mr_free(l.c);
    mr_free(l.start);
    return st;
}

static mr_status *decode_shape(mr_infer *c)
{
    int64_t n = mr_pshape_full(c->in[0]) ? 1 : -1;
    for (int d = 0; n >= 0 && d < c->in[0]->rank; d++)
        if (!mr_i64_mul(n, c->in[0]->dims[d], &n))
            n = -1;
    mr_infer_out_vector(c, 0, n < 0 || n == INT64_MAX ? -1 : n + 1);
    for (int i = 1; i < c->n_out; i++)
        mr_infer_out_vector(c, i, -1);
    return NULL;
}

#define DECODE                                                                            \
    .attrs = "input_encoding: string; " ERRORS SPLITS, .shape = decode_shape,               \
    STATE(init_decode), .kernels = MR_KERNELS(MR_CPU_ONE(run_decode, MR_INDEXES))

MR_OP(UnicodeDecode,
    .doc      = "the characters of texts, as a ragged tensor of code points",
    .sig      = "input: string -> row_splits: Tsplits, char_values: int32", DECODE,
    .examples = MR_EXAMPLES(
        "input_encoding=\"UTF-8\": [\"a\xc3\xa4\", \"\", \"\xf0\x9f\x98\x80\"] -> [0, 2, 2, 3], [97, 228, 128512]",
        "input_encoding=\"UTF-8\" errors=\"ignore\": [[\"\xff\x61\"]] -> [0, 1], [97]",
        "input_encoding=\"UTF-8\" replacement_char=0: \"\xff\x61\" -> [0, 2], [0, 97]",
        "input_encoding=\"UTF-16-BE\": \"\xd8\x3d\xde\\x00\xdc\\x00\" -> [0, 2], [128512, 65533]",
        "input_encoding=\"UTF-8\" errors=\"strict\" replace_control_characters=true replacement_char=63: \"a\\n\" -> "
        "[0, 2], [97, 63]",
        "input_encoding=\"UTF-8\": shape(0) -> [0], shape(0)",
        "input_encoding=\"UTF-8\" errors=\"strict\": \"\xff\" -> !INVALID_ARGUMENT Invalid formatting",
        "input_encoding=\"xyz\": \"a\" -> !INVALID_ARGUMENT Could not create converter"));
MR_OP(UnicodeDecodeWithOffsets,
    .doc      = "the characters of texts, and the byte each of them starts at",
    .sig      = "input: string -> row_splits: Tsplits, char_values: int32, char_to_byte_starts: int64",
    DECODE,
    .examples = MR_EXAMPLES(
        "input_encoding=\"UTF-8\": [\"a\xc3\xa4\x62\", \"c\"] -> [0, 3, 4], [97, 228, 98, 99], [0, 1, 3, 0]",
        "input_encoding=\"UTF-32LE\": \"\x61\\x00\\x00\\x00\x62\" -> [0, 2], [97, 65533], [0, 4]",
        "input_encoding=\"UTF-8\": shape(0,2) -> [0], shape(0), shape(0)"));

/* ---- encoding ---- */

/* Whether a code point may represent a character: it is in range and not a noncharacter. */
static bool is_character(int32_t c)
{
    return c >= 0 && mr_code_valid((uint32_t)c) && !(c >= 0xfdd0 && c <= 0xfdef) &&
           (c & 0xfffe) != 0xfffe;
}

static mr_status *encode_row(const state *s, const int32_t *c, int64_t n, mr_str *out)
{
    mr_str_clear(out);
    for (int64_t i = 0; i < n; i++) {
        if (is_character(c[i])) {
            MR_TRY(mr_encode_code(s->to, (uint32_t)c[i], out));
            continue;
        }
        if (s->errors.strict)
            return mr_invalid("Code point is out of range for Unicode, or a noncharacter.");
        if (!s->errors.ignore)
            MR_TRY(mr_encode_code(s->to, s->errors.replacement, out));
    }
    return NULL;
}

static mr_status *check_splits(const mr_tensor *splits, const mr_tensor *values)
{
    int64_t last = 0;
    if (splits->rank != 1 || values->rank != 1)
        return mr_invalid("input_values and input_splits must be vectors, got shapes %s and %s",
                          MR_TENSOR_SHAPE(values), MR_TENSOR_SHAPE(splits));
    if (splits->n == 0)
        return mr_invalid("input_splits should contain elements, but given input_splits has 0 elements");
    if (mr_tensor_int_at(splits, 0) != 0)
        return mr_invalid("First value in input_splits must be zero.");
    for (int64_t i = 1; i < splits->n; i++) {
        int64_t v = mr_tensor_int_at(splits, i);
        if (v < last)
            return mr_invalid("Values in input_splits must be equal or in ascending order.");
        if (v > values->n)
            return mr_invalid("Values in input_splits must be less than or equal to input_tensor length.");
        last = v;
    }
    return NULL;
}

static mr_status *run_encode(mr_run *r)
{
    const mr_tensor *values = mr_in(r, 0), *splits = mr_in(r, 1);
    mr_tensor *out;
    mr_str s = {0};
    mr_status *st = NULL;
    MR_TRY(check_splits(splits, values));
    MR_TRY(mr_run_output(r, 0, 1, (int64_t[]){splits->n - 1}, &out));
    for (int64_t i = 0; i < out->n; i++) {
        int64_t from = mr_tensor_int_at(splits, i), to = mr_tensor_int_at(splits, i + 1);
        MR_GO(encode_row(r->state, MR_DATA(int32_t, values) + from, to - from, &s));
        MR_GO(mr_tensor_set_str(out, i, mr_str_view(&s)));
    }
out:
    mr_str_deinit(&s);
    return st;
}

static mr_status *encode_shape(mr_infer *c)
{
    const mr_pshape *ignored, *splits;
    MR_TRY(mr_infer_rank(c, c->in[0], 1, &ignored));
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &splits));
    int64_t n = mr_infer_dim(splits, 0);
    mr_infer_out_vector(c, 0, n > 0 ? n - 1 : -1);
    return NULL;
}

MR_OP(UnicodeEncode,
    .doc      = "encodes a ragged tensor of code points as texts",
    .sig      = "input_values: int32, input_splits: Tsplits -> output: string",
    .attrs    = "errors: {'ignore', 'replace', 'strict'} = 'replace'; "
                "output_encoding: {'UTF-8', 'UTF-16-BE', 'UTF-32-BE'}; replacement_char: int = 65533" SPLITS,
    .shape    = encode_shape, STATE(init_encode),
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_encode, MR_INDEXES)),
    .examples = MR_EXAMPLES(
        "output_encoding=\"UTF-8\": [97, 228, 128512], [0, 2, 2, 3] -> [\"a\xc3\xa4\", \"\", \"\xf0\x9f\x98\x80\"]",
        "output_encoding=\"UTF-16-BE\": [97, 128512], [0, 2] -> [\"\\x00\x61\xd8\x3d\xde\\x00\"]",
        "output_encoding=\"UTF-8\" replacement_char=63: [-1, 55296, 97, 1114112], [0, 4] -> [\"??a?\"]",
        "output_encoding=\"UTF-8\" errors=\"ignore\": [-1, 65535, 97], [0, 3] -> [\"a\"]",
        "output_encoding=\"UTF-8\" errors=\"strict\": [-1], [0, 1] -> !INVALID_ARGUMENT Code point is out of "
        "range for Unicode, or a noncharacter.",
        "output_encoding=\"UTF-8\": shape(0), [0] -> shape(0)",
        "output_encoding=\"UTF-8\": [97], [1] -> !INVALID_ARGUMENT First value in input_splits must be zero.",
        "output_encoding=\"UTF-8\": [97], [0, 2] -> !INVALID_ARGUMENT less than or equal to",
        "output_encoding=\"UTF-8\": [97], [0, 1, 0] -> !INVALID_ARGUMENT in ascending order",
        "output_encoding=\"UTF-8\": [97], shape(0) -> !INVALID_ARGUMENT has 0 elements"));

/* ---- scripts ---- */

static mr_status *run_script(mr_run *r)
{
    const mr_tensor *in = mr_in(r, 0);
    mr_tensor *out;
    MR_TRY(mr_run_forward(r, 0, 0, in->rank, in->dims, &out));
    for (int64_t i = 0; i < in->n; i++) {
        uint32_t c = (uint32_t)MR_DATA(int32_t, in)[i];
        MR_DATA(int32_t, out)[i] = c <= MR_MAX_CODE ? mr_unicode_script(c) : -1;
    }
    return NULL;
}

MR_OP(UnicodeScript,
    .doc      = "the script of each code point, by ICU's number; -1 for an invalid code point",
    .sig      = "input: int32 -> output: int32",
    .flags    = MR_NO_GRADIENT, .shape = mr_shape_same,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_script)),
    .examples = MR_EXAMPLES("[[97, 945], [1041, 0]] -> [[25, 14], [8, 0]]", "[-1, 1114112] -> [-1, -1]",
                            "[888, 768] -> [103, 1]", "shape(0,2) -> shape(0,2)"));
