/* ops/parse/decode_proto.c -- DecodeProtoV2: decodes fields of serialized messages to tensors.
 *
 * Each message is read twice: the first pass counts the values of each field, the second stores them.  Both
 * passes use the same function, so the second writes exactly as many values as the first counted. */
#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "graph/infer.h"
#include "ops/parse/proto_pool.h"
#include "run/run.h"
#include "wire/pb.h"
#include "wire/text_lexer.h"

typedef struct wanted {
    const mr_proto_field *f;
    mr_tensor *deflt; /* one element of the output's type */
    int next;         /* the next wanted field with the same number; -1: none */
} wanted;

typedef struct state {
    mr_proto_pool *pool;
    const mr_proto_message *message;
    int n;
    wanted *fields;
    mr_imap numbers; /* field number -> index of the first wanted field with it, plus 1 */
    bool text, sanitize;
} state;

/* ---- values ---- */

/* Converts the bits of a value on the wire to the number that they encode, sign-extended. */
static uint64_t decode_bits(mr_proto_type t, uint64_t bits)
{
    switch (t) {
    case MR_PROTO_INT32: case MR_PROTO_SFIXED32: case MR_PROTO_ENUM:
        return (uint64_t)(int64_t)(int32_t)(uint32_t)bits;
    case MR_PROTO_UINT32: case MR_PROTO_FIXED32: return (uint32_t)bits;
    case MR_PROTO_SINT32: bits = (uint32_t)bits; /* fall through */
    case MR_PROTO_SINT64: return bits >> 1 ^ (0 - (bits & 1));
    default: return bits;
    }
}

static void put_number(mr_tensor *out, int64_t at, mr_proto_type t, uint64_t bits)
{
    float f;
    double d;
    memcpy(&d, &bits, sizeof(d));
    memcpy(&f, &(uint32_t){(uint32_t)bits}, sizeof(f));
    uint64_t v = decode_bits(t, bits);
    switch ((mr_dtype)out->dtype) {
    case MR_FLOAT: MR_DATA(float, out)[at] = f; break;
    case MR_DOUBLE: MR_DATA(double, out)[at] = t == MR_PROTO_FLOAT ? (double)f : d; break;
    case MR_BOOL: MR_DATA(bool, out)[at] = v != 0; break;
    case MR_INT32: case MR_UINT32: MR_DATA(uint32_t, out)[at] = (uint32_t)v; break;
    default: MR_DATA(uint64_t, out)[at] = v;
    }
}

/* One value of a packed or plain field. */
static uint64_t take_bits(mr_pb_reader *r, uint32_t wire)
{
    return wire == MR_WIRE_VARINT    ? mr_pb_varint(r)
           : wire == MR_WIRE_FIXED32 ? mr_pb_fixed32(r)
                                     : mr_pb_fixed64(r);
}

/* The content of a group, without its start and end tags. */
static mr_sv take_group(mr_pb_reader *r)
{
    const uint8_t *from = r->at;
    size_t tag = mr_pb_varint_size((uint64_t)r->field << 3 | MR_WIRE_GROUP_END);
    mr_pb_skip(r);
    return r->error || (size_t)(r->at - from) < tag
               ? MR_SV("")
               : (mr_sv){(const char *)from, (size_t)(r->at - from) - tag};
}

/* ---- the pass ---- */

typedef struct pass {
    const state *s;
    int32_t *counts;  /* values of each field so far, in this message */
    mr_tensor **out;  /* NULL: only count */
    int64_t message;
    mr_status *st;
} pass;

/* The index at which to store the next value of a field; -1 if this pass only counts. */
static int64_t next_place(pass *p, int i)
{
    bool repeated = p->s->fields[i].f->repeated;
    int64_t at = repeated ? p->counts[i] : 0; /* a non-repeated field keeps its last value */
    p->counts[i] = repeated ? p->counts[i] + 1 : 1;
    if (!p->out)
        return -1;
    return p->message * p->out[i]->dims[p->out[i]->rank - 1] + at;
}

static void put_numbers(pass *p, int i, mr_pb_reader *r, bool packed)
{
    mr_proto_type type = p->s->fields[i].f->type;
    uint32_t wire = mr_proto_wire(type);
    mr_pb_reader values;
    if (!packed) {
        uint64_t bits = take_bits(r, wire);
        int64_t at = next_place(p, i);
        if (at >= 0 && !r->error)
            put_number(p->out[i], at, type, bits);
        return;
    }
    mr_pb_packed(r, wire, &values);
    while (mr_pb_more(&values) && p->counts[i] < INT32_MAX) {
        uint64_t bits = take_bits(&values, wire);
        int64_t at = next_place(p, i);
        if (at >= 0 && !r->error)
            put_number(p->out[i], at, type, bits);
    }
}

/* Reads one occurrence of wanted field i.  If several wanted fields have the same number, each gets a copy
 * of the reader. */
static void put_field(pass *p, int i, mr_pb_reader *r, uint32_t wire)
{
    const mr_proto_field *f = p->s->fields[i].f;
    uint32_t natural = mr_proto_wire(f->type);
    if (wire == natural && (natural == MR_WIRE_BYTES || natural == MR_WIRE_GROUP)) {
        mr_sv v = natural == MR_WIRE_GROUP ? take_group(r) : mr_pb_bytes(r);
        int64_t at = next_place(p, i);
        if (at >= 0 && !p->st && !r->error)
            p->st = mr_tensor_set_str(p->out[i], at, v);
    } else if (wire == natural) {
        put_numbers(p, i, r, false);
    } else if (wire == MR_WIRE_BYTES && natural != MR_WIRE_GROUP) {
        put_numbers(p, i, r, true);
    } else {
        mr_pb_skip(r);
    }
}

static mr_status *go_through(pass *p, mr_sv bytes)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_pb_reader_init(&r, bytes);
    while (!p->st && mr_pb_next(&r, &field, &wire)) {
        int i = (int)(intptr_t)mr_imap_get(&p->s->numbers, field) - 1;
        if (i < 0) {
            mr_pb_skip(&r);
            continue;
        }
        for (; p->s->fields[i].next >= 0; i = p->s->fields[i].next) {
            mr_pb_reader again = r;
            put_field(p, i, &again, wire);
        }
        put_field(p, i, &r, wire);
    }
    if (!p->st && r.error)
        p->st = mr_error(MR_DATA_LOSS, "Unable to parse binary protobuf: %s at byte %zu", r.error,
                         r.error_at);
    return p->st;
}

/* ---- the kernel ---- */

/* The bytes of message i: those of the input, or, if it is text, converted into *held. */
static mr_status *bytes_of(const mr_run *r, int64_t i, mr_str *held, mr_sv *out)
{
    const state *s = r->state;
    *out = mr_tensor_str_at(mr_in(r, 0), i);
    if (s->text) {
        mr_str_clear(held);
        MR_TRY(mr_proto_from_text(s->message, *out, held));
        *out = mr_str_view(held);
    } else if (s->sanitize && !mr_proto_is_message(s->message, *out)) {
        return mr_error(MR_DATA_LOSS, "Unable to parse binary protobuf");
    }
    return NULL;
}

static mr_status *make_output(mr_run *r, int i, int64_t width, mr_tensor **out)
{
    const mr_tensor *in = mr_in(r, 0);
    mr_shape s = {.rank = in->rank + 1};
    if (in->rank >= MR_MAX_RANK)
        return mr_invalid("bytes of shape %s have too many dimensions", MR_TENSOR_SHAPE(in));
    for (int k = 0; k < in->rank; k++)
        s.dims[k] = in->dims[k];
    s.dims[in->rank] = width;
    return mr_run_output(r, i, s.rank, s.dims, out);
}

/* Counts the values of all messages into `sizes`; widths[i] is the largest count of field i, at least 1. */
static mr_status *count_all(mr_run *r, mr_tensor *sizes, int64_t *widths)
{
    const state *s = r->state;
    mr_str held = {0};
    mr_sv bytes;
    mr_status *st = NULL;
    mr_tensor_zero(sizes);
    for (int i = 0; i < s->n; i++)
        widths[i] = 1;
    for (int64_t m = 0; m < mr_in(r, 0)->n; m++) {
        pass p = {.s = s, .counts = MR_DATA(int32_t, sizes) + m * s->n, .message = m};
        MR_GO(bytes_of(r, m, &held, &bytes));
        MR_GO(go_through(&p, bytes));
        for (int i = 0; i < s->n; i++)
            widths[i] = MR_MAX(widths[i], p.counts[i]);
    }
out:
    mr_str_deinit(&held);
    return st;
}

static mr_status *decode_all(mr_run *r, mr_tensor **out, int32_t *counts)
{
    const state *s = r->state;
    mr_str held = {0};
    mr_sv bytes;
    mr_status *st = NULL;
    for (int64_t m = 0; m < mr_in(r, 0)->n; m++) {
        pass p = {.s = s, .counts = counts, .out = out, .message = m};
        memset(counts, 0, sizeof(*counts) * (size_t)s->n);
        MR_GO(bytes_of(r, m, &held, &bytes));
        MR_GO(go_through(&p, bytes));
        for (int i = 0; i < s->n; i++) {
            int64_t width = out[i]->dims[out[i]->rank - 1];
            for (int64_t k = counts[i]; k < width; k++)
                MR_GO(mr_tensor_try_copy_elements(out[i], m * width + k, s->fields[i].deflt, 0, 1));
        }
    }
out:
    mr_str_deinit(&held);
    return st;
}

static mr_status *decode_proto(mr_run *r)
{
    const state *s = r->state;
    mr_tensor *sizes, **out = mr_new_array(mr_tensor *, s->n + 1);
    int64_t *widths = mr_new_array(int64_t, s->n + 1);
    int32_t *counts = mr_new_array(int32_t, s->n + 1);
    mr_status *st = NULL;
    if (mr_in(r, 0)->n < 1)
        MR_GO(mr_invalid("Bufs argument must contain at least one value"));
    MR_GO(make_output(r, 0, s->n, &sizes));
    MR_GO(count_all(r, sizes, widths));
    for (int i = 0; i < s->n; i++)
        MR_GO(make_output(r, 1 + i, widths[i], &out[i]));
    MR_GO(decode_all(r, out, counts));
out:
    mr_free(out);
    mr_free(widths);
    mr_free(counts);
    return st;
}

/* ---- defaults ---- */

static mr_status *bytes_default(mr_sv text, mr_tensor *t)
{
    mr_str quoted = {0}, s = {0};
    mr_str_appendc(&quoted, '"');
    mr_str_append(&quoted, text.p, text.n);
    mr_str_appendc(&quoted, '"');
    mr_token token = {.kind = MR_TOKEN_STRING, .text = mr_str_view(&quoted)};
    mr_status *st = mr_token_unescape(&token, &s);
    if (!st)
        st = mr_tensor_set_str(t, 0, mr_str_view(&s));
    mr_str_deinit(&quoted);
    mr_str_deinit(&s);
    return st;
}

static int64_t enum_default(const mr_proto_field *f)
{
    const mr_proto_enum *e = f->enumeration;
    for (int i = 0; f->has_default && i < e->names.n; i++)
        if (mr_sv_eq(e->names.p[i], f->deflt))
            return e->numbers.p[i];
    return e->numbers.n > 0 ? e->numbers.p[0] : 0;
}

static mr_status *make_default(const mr_proto_field *f, mr_dtype dtype, mr_tensor **out)
{
    char text[64] = "";
    MR_TRY(mr_tensor_zeros(NULL, dtype, 0, NULL, out));
    memcpy(text, f->deflt.p ? f->deflt.p : "", MR_MIN(f->deflt.n, sizeof(text) - 1));
    bool given = f->has_default && !f->repeated;
    if (f->type == MR_PROTO_ENUM)
        *MR_DATA(int32_t, *out) = (int32_t)enum_default(f);
    else if (!given || f->type == MR_PROTO_MESSAGE || f->type == MR_PROTO_GROUP)
        return NULL;
    else if (f->type == MR_PROTO_BYTES)
        return bytes_default(f->deflt, *out);
    else if (dtype == MR_STRING)
        return mr_tensor_set_str(*out, 0, f->deflt);
    else if (dtype == MR_FLOAT)
        *MR_DATA(float, *out) = strtof(text, NULL);
    else if (dtype == MR_DOUBLE)
        *MR_DATA(double, *out) =
            f->type == MR_PROTO_FLOAT ? (double)strtof(text, NULL) : strtod(text, NULL);
    else if (dtype == MR_BOOL)
        *MR_DATA(bool, *out) = strcmp(text, "true") == 0;
    else if (dtype == MR_INT32 || dtype == MR_UINT32)
        *MR_DATA(uint32_t, *out) = (uint32_t)strtoll(text, NULL, 10);
    else
        *MR_DATA(uint64_t, *out) =
            text[0] == '-' ? (uint64_t)strtoll(text, NULL, 10) : strtoull(text, NULL, 10);
    return NULL;
}

/* ---- state ---- */

static mr_status *find_fields(const mr_node *n, state *s)
{
    const mr_attr *names, *types;
    mr_sv message;
    MR_TRY(mr_node_get_str(n, "message_type", &message));
    MR_TRY(mr_node_get_list(n, "field_names", MR_ATTR_STRING, &names));
    MR_TRY(mr_node_get_list(n, "output_types", MR_ATTR_TYPE, &types));
    if (names->n != types->n)
        return mr_invalid("field_names and output_types attributes must have the same length");
    for (int i = 0; i < types->n; i++)
        MR_TRY(mr_proto_check_dtype(types->types[i]));
    s->fields = mr_new_array(wanted, names->n + 1);
    s->n = names->n;
    const mr_proto_field **fields = mr_new_array(const mr_proto_field *, names->n + 1);
    mr_status *st = mr_proto_fields_find(s->pool, message, names->n, names->ss, &s->message, fields);
    for (int i = 0; i < names->n && !st; i++) {
        s->fields[i].f = fields[i];
        if (!mr_proto_compatible(fields[i], types->types[i]))
            st = mr_invalid("Unexpected output type for %.*s: %s to %s", MR_SV_ARG(fields[i]->name),
                            mr_proto_type_name(fields[i]->type), mr_dtype_name(types->types[i]));
        else
            st = make_default(fields[i], types->types[i], &s->fields[i].deflt);
        s->fields[i].next = (int)(intptr_t)mr_imap_put(&s->numbers, fields[i]->number,
                                                       (void *)(intptr_t)(i + 1)) - 1;
    }
    mr_free(fields);
    return st;
}

static mr_status *init_decode_proto(mr_make *m, void *p)
{
    state *s = p;
    mr_sv source, format;
    MR_TRY(mr_node_get_str(m->node, "descriptor_source", &source));
    MR_TRY(mr_node_get_str(m->node, "message_format", &format));
    MR_TRY(mr_node_get_bool(m->node, "sanitize", &s->sanitize));
    s->text = mr_sv_is(format, "text");
    if (!s->text && !mr_sv_is(format, "binary"))
        return mr_invalid("format must be one of binary or text");
    MR_TRY(mr_proto_pool_open(source, &s->pool));
    return find_fields(m->node, s);
}

static void deinit_decode_proto(void *p)
{
    state *s = p;
    for (int i = 0; i < s->n; i++)
        mr_tensor_unref(s->fields[i].deflt);
    mr_free(s->fields);
    mr_imap_deinit(&s->numbers);
    mr_proto_pool_free(s->pool);
}

static mr_status *decode_shape(mr_infer *c)
{
    const mr_pshape *open = mr_pshape_vector(c->arena, -1);
    c->out[0] = mr_infer_concat(c, c->in[0], mr_pshape_vector(c->arena, c->n_out - 1));
    for (int i = 1; i < c->n_out; i++)
        c->out[i] = mr_infer_concat(c, c->in[0], open);
    return NULL;
}

/* package p; message M { optional int32 i = 1 [default = 5]; repeated float f = 2; optional string s = 3;
 * repeated sint64 z = 4; optional double d = 5; optional uint64 u = 6; optional uint32 w = 7;
 * optional bool b = 8; } */
#define SOURCE                                                                                     \
    "descriptor_source=\"bytes://"                                                                 \
    "\\nf\\n\\x01x\\x12\\x01p\\x22^\\n\\x01M\\x12\\x0c\\n\\x01i\\x18\\x01 \\x01(\\x05:" \
    "\\x015\\x12\\x09\\n\\x01f\\x18\\x02 \\x03(\\x02\\x12\\x09\\n\\x01s\\x18\\x03 \\x01(" \
    "\\x09\\x12\\x09\\n\\x01z\\x18\\x04 \\x03(\\x12\\x12\\x09\\n\\x01d\\x18\\x05 \\x01(" \
    "\\x01\\x12\\x09\\n\\x01u\\x18\\x06 \\x01(\\x04\\x12\\x09\\n\\x01w\\x18\\x07 \\x01(" \
    "\\x0d\\x12\\x09\\n\\x01b\\x18\\x08 \\x01(\\x08" \
    "\" "
#define ALL                                                                                        \
    "message_type=\"p.M\" field_names=[\"f\", \"i\", \"s\"] output_types=[float, int32, string] " SOURCE
#define ONE(field, type) "message_type=\"p.M\" field_names=[\"" field "\"] output_types=[" type "] " SOURCE
#define FULL "\"\\x08\\x07\\x12\\x08\\x00\\x00\\x80\\x3f\\x00\\x00\\x00@\\x1a\\x02hi\""
#define F_3 "\"\\x15\\x00\\x00@@\""

MR_OP(DecodeProtoV2,
    .doc      = "fields of serialized messages: how many values each has, and the values, padded by defaults",
    .sig      = "bytes: string -> sizes: int32, values: output_types",
    .attrs    = "message_type: string; field_names: list(string); output_types: list(type) >= 0; "
                "descriptor_source: string = \"local://\"; message_format: string = \"binary\"; "
                "sanitize: bool = false",
    .flags    = MR_NO_GRADIENT,
    .shape    = decode_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(decode_proto)),
    .state_bytes = sizeof(state), .init = init_decode_proto, .deinit = deinit_decode_proto,
    .examples = MR_EXAMPLES(
        ALL ": [" FULL ", " F_3 "] -> [[2, 1, 1], [1, 0, 0]], float[[1, 2], [3, 0]], int32[[7], [5]], "
            "[[\"hi\"], [\"\"]]",
        ALL ": " FULL " -> [2, 1, 1], float[1, 2], int32[7], [\"hi\"]",
        ALL "sanitize=true: [[\"\"]] -> [[[0, 0, 0]]], float[[[0]]], int32[[[5]]], [[[\"\"]]]",
        ALL "message_format=\"text\": \"f: [1, 2.5] i: -3 s: 'a' 'b' # c\" -> [2, 1, 1], float[1, 2.5], "
            "int32[-3], [\"ab\"]",
        ONE("z", "int64") ": \" \\x03 \\x04\" -> [2], int64[-2, 2]",
        ONE("i", "int64") ": \"\" -> [0], int64[5]", ONE("f", "double") ": " F_3 " -> [1], double[3]",
        ONE("d", "double") ": \"\" -> [0], double[0]", ONE("u", "uint64") ": \"0\\x07\" -> [1], uint64[7]",
        ONE("w", "uint32") ": \"8\\x07\" -> [1], uint32[7]", ONE("b", "bool") ": \"@\\x01\" -> [1], bool[true]",
        "message_type=\"p.M\" field_names=[] output_types=[] " SOURCE ": [\"\", \"\"] -> shape(2,0)",
        ALL ": shape(0) -> !INVALID_ARGUMENT Bufs argument must contain at least one value",
        ALL ": \"abc\" -> !DATA_LOSS Unable to parse binary protobuf",
        ALL "message_format=\"text\": \"x: 1\" -> !DATA_LOSS Unable to parse text protobuf",
        ALL "message_format=\"json\": \"\" -> !INVALID_ARGUMENT format must be one of binary or text",
        ONE("q", "float") ": \"\" -> !INVALID_ARGUMENT Unknown field: q in message type p.M",
        ONE("f", "string") ": \"\" -> !INVALID_ARGUMENT Unexpected output type for f: float to string",
        "message_type=\"M\" field_names=[] output_types=[] " SOURCE ": \"\" -> !INVALID_ARGUMENT No "
        "descriptor found for message type M",
        "message_type=\"M\" field_names=[] output_types=[]: \"\" -> !INVALID_ARGUMENT descriptor_source "
        "\"local://\": no messages are linked in",
        "message_type=\"M\" field_names=[] output_types=[] descriptor_source=\"/nowhere/at/all\": \"\" -> "
        "!NOT_FOUND /nowhere/at/all"));
