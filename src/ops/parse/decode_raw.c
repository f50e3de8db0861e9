/* ops/parse/decode_raw.c -- DecodeRaw, DecodePaddedRaw: reinterpret the bytes of strings as numbers. */
#include "base/memory.h"
#include "graph/infer.h"
#include "run/run.h"

typedef struct state {
    mr_dtype type;
    size_t size; /* of an element */
    size_t unit; /* bytes that are swapped together; 1: no swapping */
} state;

static mr_status *init_decode_raw(mr_make *m, void *p)
{
    state *s = p;
    bool little;
    MR_TRY(mr_node_get_type(m->node, "out_type", &s->type));
    MR_TRY(mr_node_get_bool(m->node, "little_endian", &little));
    s->size = mr_dtype_size(s->type);
    /* The real and imaginary parts of a complex number are swapped separately. */
    bool is_complex = s->type == MR_COMPLEX64 || s->type == MR_COMPLEX128;
    s->unit = little ? 1 : is_complex ? s->size / 2 : s->size;
    return NULL;
}

/* Swaps the bytes of big-endian elements. */
static void turn_around(const state *s, char *to, size_t n)
{
    for (size_t i = 0; s->unit > 1 && i + s->unit <= n; i += s->unit)
        for (size_t k = 0; k < s->unit / 2; k++) {
            char c = to[i + k];
            to[i + k] = to[i + s->unit - 1 - k];
            to[i + s->unit - 1 - k] = c;
        }
}

static mr_status *make_output(mr_run *r, const mr_tensor *in, int64_t n, mr_tensor **out)
{
    mr_shape s = {0};
    if (in->rank >= MR_MAX_RANK)
        return mr_invalid("The input's shape %s has no room for one more dimension",
                          MR_TENSOR_SHAPE(in));
    s.rank = in->rank + 1;
    for (int i = 0; i < in->rank; i++)
        s.dims[i] = in->dims[i];
    s.dims[in->rank] = n;
    return mr_run_output(r, 0, s.rank, s.dims, out);
}

static mr_status *decode_raw(mr_run *r)
{
    const state *s = r->state;
    const mr_tensor *in = mr_in(r, 0);
    mr_tensor *out;
    size_t n = in->n ? mr_tensor_str_at(in, 0).n : 0;
    for (int64_t i = 1; i < in->n; i++)
        if (mr_tensor_str_at(in, i).n != n)
            return mr_invalid("DecodeRaw requires input strings to all be the same size, but element "
                              "%lld has size %zu != %zu",
                              (long long)i, n, mr_tensor_str_at(in, i).n);
    if (n % s->size != 0)
        return mr_invalid("Input to DecodeRaw has length %zu that is not a multiple of %zu, the "
                          "size of %s",
                          n, s->size, mr_dtype_name(s->type));
    MR_TRY(make_output(r, in, (int64_t)(n / s->size), &out));
    for (int64_t i = 0; n > 0 && i < in->n; i++)
        memcpy((char *)out->data + (size_t)i * n, mr_tensor_str_at(in, i).p, n);
    turn_around(s, out->data, mr_tensor_bytes(out));
    return NULL;
}

static mr_status *raw_shape(mr_infer *c)
{
    c->out[0] = mr_infer_concat(c, c->in[0], mr_pshape_vector(c->arena, -1));
    return NULL;
}

MR_OP(DecodeRaw,
    .doc      = "the bytes of strings, all of one length, as numbers",
    .sig      = "bytes: string -> output: out_type",
    .attrs    = "out_type: {half, float, double, int32, uint16, uint8, int16, int8, int64, complex64, "
                "complex128, bool, bfloat16}; little_endian: bool = true",
    .flags    = MR_NO_GRADIENT,
    .shape    = raw_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(decode_raw)),
    .state_bytes = sizeof(state), .init = init_decode_raw,
    .examples = MR_EXAMPLES(
        "out_type=uint8: \"ABC\" -> [65, 66, 67]",
        "out_type=int16: [\"\\x01\\x00\\x02\\x00\", \"\\xff\\xff\\x03\\x01\"] -> [[1, 2], [-1, 259]]",
        "out_type=int16 little_endian=false: [\"\\x01\\x00\\x02\\x00\"] -> [[256, 512]]",
        "out_type=float: \"\\x00\\x00\\x80?\\x00\\x00\\x00@\" -> [1, 2]",
        "out_type=double little_endian=false: \"?\\xf0\\x00\\x00\\x00\\x00\\x00\\x00\" -> [1]",
        "out_type=complex64 little_endian=false: \"?\\x80\\x00\\x00@\\x00\\x00\\x00\" -> [1+2i]",
        "\"\" -> shape(0)", "shape(0) -> shape(0,0)", "[\"\", \"\"] -> shape(2,0)",
        "out_type=bool: \"\\x01\\x00\" -> [true, false]",
        "out_type=int32: \"abc\" -> !INVALID_ARGUMENT Input to DecodeRaw has length 3 that is not a "
        "multiple of 4, the size of int32",
        "out_type=int8: [\"a\", \"bc\"] -> !INVALID_ARGUMENT DecodeRaw requires input strings to all "
        "be the same size, but element 1 has size 1 != 2"));

/* ---- DecodePaddedRaw ---- */

static mr_status *decode_padded(mr_run *r)
{
    const state *s = r->state;
    const mr_tensor *in = mr_in(r, 0);
    mr_tensor *out;
    int64_t length;
    MR_TRY(mr_in_scalar_int(r, 1, "fixed_length", &length));
    if (length <= 0)
        return mr_invalid("`fixed_length` (%lld) must be greater than zero", (long long)length);
    if ((size_t)length % s->size != 0)
        return mr_invalid("`fixed_length` (%lld) must be a multiple of the size of `out_type` (%zu)",
                          (long long)length, s->size);
    MR_TRY(make_output(r, in, length / (int64_t)s->size, &out));
    for (int64_t i = 0; i < in->n; i++) {
        mr_sv v = mr_tensor_str_at(in, i);
        char *to = (char *)out->data + i * length;
        size_t n = MR_MIN(v.n, (size_t)length);
        memset(to + n, 0, (size_t)length - n);
        if (n > 0)
            memcpy(to, v.p, n);
    }
    turn_around(s, out->data, mr_tensor_bytes(out));
    return NULL;
}

static mr_status *padded_shape(mr_infer *c)
{
    const mr_pshape *ignored;
    mr_dtype type;
    int64_t n;
    MR_TRY(mr_infer_rank(c, c->in[1], 0, &ignored));
    MR_TRY(mr_node_get_type(c->node, "out_type", &type));
    bool known = mr_infer_int(c, 1, &n) && n > 0;
    c->out[0] = mr_infer_concat(
        c, c->in[0], mr_pshape_vector(c->arena, known ? n / (int64_t)mr_dtype_size(type) : -1));
    return NULL;
}

MR_OP(DecodePaddedRaw,
    .doc      = "the bytes of strings as numbers; each is cut to fixed_length bytes, or padded with 0",
    .sig      = "input_bytes: string, fixed_length: int32 -> output: out_type",
    .attrs    = "out_type: {half, float, double, int32, uint16, uint8, int16, int8, int64, bfloat16}; "
                "little_endian: bool = true",
    .flags    = MR_NO_GRADIENT,
    .shape    = padded_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(decode_padded)),
    .state_bytes = sizeof(state), .init = init_decode_raw,
    .examples = MR_EXAMPLES(
        "out_type=uint8: [\"a\", \"bcd\"], 2 -> [[97, 0], [98, 99]]",
        "out_type=int16 little_endian=false: \"\\x01\", 4 -> [256, 0]",
        "out_type=int32: shape(0), 8 -> shape(0,2)",
        "out_type=half: \"\\x00<\", 4 -> [1, 0]", "out_type=bfloat16: \"\\x80?\", 4 -> [1, 0]",
        "out_type=float: [\"\\x00\\x00\\x80?\"], 8 -> [[1, 0]]",
        "out_type=double: \"\", 8 -> [0]", "out_type=uint16: \"\\xff\\xff\\xff\", 2 -> [65535]",
        "out_type=int8: \"\\xff\", 2 -> [-1, 0]",
        "out_type=int64 little_endian=false: \"\\x00\\x00\\x00\\x00\\x00\\x00\\x01\\x02\", 8 -> [258]",
        "out_type=int16: \"a\", 3 -> !INVALID_ARGUMENT `fixed_length` (3) must be a multiple of the "
        "size of `out_type` (2)",
        "out_type=int8: \"a\", 0 -> !INVALID_ARGUMENT `fixed_length` (0) must be greater than zero"));
