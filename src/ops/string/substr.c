/* ops/string/substr.c -- Substr: a piece of each string, counted in bytes or in characters of UTF-8.
 *
 * pos and len have the same shape, against which the strings are broadcast. */
#include "base/memory.h"
#include "graph/infer.h"
#include "ops/string/strings.h"

/* Moves *at forward over n characters; false if the string ends before. */
static bool skip_chars(mr_sv s, int64_t n, size_t *at)
{
    for (; n > 0 && *at < s.n; n--)
        do
            ++*at;
        while (*at < s.n && mr_utf8_trails(s.p[*at]));
    return n <= 0;
}

static bool skip_chars_back(mr_sv s, int64_t n, size_t *at)
{
    for (; n > 0 && *at > 0; n--)
        do
            --*at;
        while (*at > 0 && mr_utf8_trails(s.p[*at]));
    return n <= 0;
}

/* The substring in characters; false if pos is outside of the string. */
static bool cut_chars(mr_sv s, int64_t pos, int64_t len, mr_sv *out)
{
    size_t from = pos < 0 ? s.n : 0;
    if (pos == INT64_MIN || !(pos < 0 ? skip_chars_back(s, -pos, &from) : skip_chars(s, pos, &from)))
        return false;
    size_t to = from;
    skip_chars(s, len, &to);
    *out = (mr_sv){s.p + from, to - from};
    return true;
}

/* The substring in bytes.  A negative len means the rest, as a len that is too large does. */
static bool cut_bytes(mr_sv s, int64_t pos, int64_t len, mr_sv *out)
{
    int64_t n = (int64_t)s.n;
    if (pos < -n || pos > n)
        return false;
    pos += pos < 0 ? n : 0;
    *out = (mr_sv){s.p + pos, (size_t)(len < 0 || len > n - pos ? n - pos : len)};
    return true;
}

static mr_status *cut_element(const mr_run *r, int64_t i, int64_t k, int64_t m, mr_tensor *out)
{
    bool chars = *(bool *)r->state;
    mr_sv s = mr_tensor_str_at(mr_in(r, 0), k), piece;
    int64_t pos = mr_tensor_int_at(mr_in(r, 1), m), len = mr_tensor_int_at(mr_in(r, 2), m);
    if (!(chars ? cut_chars : cut_bytes)(s, pos, len, &piece))
        return mr_invalid("pos %lld out of range for string b'%.*s' at index %lld", (long long)pos,
                          (int)MR_MIN(s.n, 200), s.p, (long long)i);
    return mr_tensor_set_str(out, i, piece);
}

/* The strides of a broadcast operand: 0 along dimensions of size 1. */
static void operand_steps(const mr_tensor *t, const mr_shape *to, int64_t *steps)
{
    int64_t step = 1;
    for (int d = to->rank - 1, k = t->rank - 1; d >= 0; d--, k--) {
        steps[d] = k >= 0 && t->dims[k] != 1 ? step : 0;
        step *= k >= 0 ? t->dims[k] : 1;
    }
}

static mr_status *broadcast_substr(mr_run *r, const mr_shape *to, mr_tensor *out)
{
    int64_t a[MR_MAX_RANK], b[MR_MAX_RANK];
    operand_steps(mr_in(r, 0), to, a);
    operand_steps(mr_in(r, 1), to, b);
    for (int64_t i = 0; i < out->n; i++) {
        int64_t k = 0, m = 0, rest = i;
        for (int d = to->rank - 1; d >= 0; rest /= to->dims[d], d--) {
            k += rest % to->dims[d] * a[d];
            m += rest % to->dims[d] * b[d];
        }
        MR_TRY(cut_element(r, i, k, m, out));
    }
    return NULL;
}

static mr_status *run_substr(mr_run *r)
{
    const mr_tensor *in = mr_in(r, 0), *pos = mr_in(r, 1), *len = mr_in(r, 2);
    mr_tensor *out;
    mr_shape to;
    if (!mr_tensor_same_shape(pos, len))
        return mr_invalid("pos and len should have the same shape, got: %s vs. %s",
                          MR_TENSOR_SHAPE(pos), MR_TENSOR_SHAPE(len));
    MR_TRY(mr_shape_broadcast(in->rank, in->dims, pos->rank, pos->dims, &to));
    MR_TRY(mr_run_output(r, 0, to.rank, to.dims, &out));
    return broadcast_substr(r, &to, out);
}

static mr_status *init_unit(mr_make *m, void *p)
{
    mr_sv unit;
    MR_TRY(mr_node_get_str(m->node, "unit", &unit));
    *(bool *)p = mr_sv_is(unit, "UTF8_CHAR");
    return NULL;
}

static mr_status *substr_shape(mr_infer *c)
{
    const mr_pshape *pos;
    MR_TRY(mr_infer_merge(c, c->in[1], c->in[2], &pos));
    return mr_infer_broadcast(c, c->in[0], pos, &c->out[0]);
}

MR_OP(Substr,
    .doc      = "the part of each string from pos on, of at most len bytes or characters",
    .sig      = "input: string, pos: T, len: T -> output: string",
    .attrs    = "T: {int32, int64}; unit: {'BYTE', 'UTF8_CHAR'} = 'BYTE'",
    .flags    = MR_NO_GRADIENT,
    .shape    = substr_shape,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_substr, MR_INDEXES)),
    .state_bytes = sizeof(bool), .init = init_unit,
    .examples = MR_EXAMPLES(
        "[\"Hello\", \"World\"], 1, 3 -> [\"ell\", \"orl\"]",
        "[[\"ten\", \"eleven\", \"twelve\"], [\"x13\", \"x14\", \"x15\"]], [[1, 2, 3], [0, 1, 2]], "
        "[[2, 3, 4], [1, 1, 9]] -> [[\"en\", \"eve\", \"lve\"], [\"x\", \"1\", \"5\"]]",
        "\"thirteen\", [1, 5, 7], [3, 2, 1] -> [\"hir\", \"ee\", \"n\"]",
        "[[\"ab\"], [\"cd\"]], [0, 1], [1, 1] -> [[\"a\", \"b\"], [\"c\", \"d\"]]",
        "\"Hello\", -3, 2 -> \"ll\"", "\"Hello\", 5, 1 -> \"\"", "\"abc\", 1, -1 -> \"bc\"",
        "unit=\"UTF8_CHAR\": \"\xc3\xa4\xe2\x82\xac\x62\", 1, 1 -> \"\xe2\x82\xac\"",
        "unit=\"UTF8_CHAR\": \"\xc3\xa4\xe2\x82\xac\x62\", -2, 9 -> \"\xe2\x82\xac\x62\"",
        "unit=\"UTF8_CHAR\": \"\xc3\xa4\", 2, 1 -> !INVALID_ARGUMENT pos 2 out of range",
        "shape(0), shape(0), shape(0) -> shape(0)",
        "\"abc\", 4, 1 -> !INVALID_ARGUMENT pos 4 out of range for string b'abc' at index 0",
        "\"abc\", -4, 1 -> !INVALID_ARGUMENT pos -4 out of range for string b'abc' at index 0",
        "[\"a\", \"b\"], [0, 0, 0], [1, 1, 1] -> !INVALID_ARGUMENT must be equal",
        "[\"a\"], [0], 1 -> !INVALID_ARGUMENT must be equal"));

/* ---- StringLength ---- */

static mr_status *run_length(mr_run *r)
{
    const mr_tensor *in = mr_in(r, 0);
    bool chars = *(bool *)r->state;
    mr_tensor *out;
    MR_TRY(mr_run_output(r, 0, in->rank, in->dims, &out));
    for (int64_t i = 0; i < in->n; i++) {
        mr_sv s = mr_tensor_str_at(in, i);
        size_t n = chars ? 0 : s.n;
        for (size_t k = 0; chars && k < s.n; k++)
            n += !mr_utf8_trails(s.p[k]);
        MR_DATA(int32_t, out)[i] = (int32_t)n;
    }
    return NULL;
}

MR_OP(StringLength,
    .doc      = "how many bytes, or characters of UTF-8, each string has",
    .sig      = "input: string -> output: int32",
    .attrs    = "unit: {'BYTE', 'UTF8_CHAR'} = 'BYTE'",
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_same,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_length)),
    .state_bytes = sizeof(bool), .init = init_unit,
    .examples = MR_EXAMPLES("[\"Hello\", \"\", \"\xc3\xa4\"] -> [5, 0, 2]",
                            "unit=\"UTF8_CHAR\": [\"Hello\", \"\", \"\xc3\xa4\"] -> [5, 0, 1]",
                            "shape(0,3) -> shape(0,3)"));
