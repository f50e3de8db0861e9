/* ops/parse/encode_proto.c -- EncodeProto: serializes messages from tensors.
 *
 * The values of a field are along the last dimension of its tensor; `sizes` says how many count.  Fields are
 * written in the order of their numbers, as serializers do, independent of the order of the inputs. */
#include <stdlib.h>

#include "base/memory.h"
#include "graph/infer.h"
#include "ops/parse/proto_pool.h"
#include "run/run.h"
#include "wire/pb.h"

typedef struct state {
    mr_proto_pool *pool;
    int n;
    const mr_proto_field **fields; /* in the order of the inputs */
    int *order;                    /* indices into fields, ascending by number: the order of writing */
} state;

/* ---- state ---- */

static mr_status *init_encode_proto(mr_make *m, void *p)
{
    state *s = p;
    const mr_attr *names;
    const mr_proto_message *message;
    mr_sv source, name;
    MR_TRY(mr_node_get_str(m->node, "descriptor_source", &source));
    MR_TRY(mr_node_get_str(m->node, "message_type", &name));
    MR_TRY(mr_node_get_list(m->node, "field_names", MR_ATTR_STRING, &names));
    if (names->n != m->node->n_in - 1)
        return mr_invalid("Length of inputs list must match field_names: %d and %d", m->node->n_in - 1,
                          names->n);
    for (int i = 1; i < m->node->n_in; i++)
        MR_TRY(mr_proto_check_dtype(mr_dtype_base(m->node->in_types[i])));
    MR_TRY(mr_proto_pool_open(source, &s->pool));
    s->n = names->n;
    s->fields = mr_new_array(const mr_proto_field *, s->n + 1);
    s->order = mr_new_array(int, s->n + 1);
    MR_TRY(mr_proto_fields_find(s->pool, name, s->n, names->ss, &message, s->fields));
    for (int i = 0; i < s->n; i++) { /* insertion sort: there are few fields */
        int at = i;
        for (; at > 0 && s->fields[s->order[at - 1]]->number > s->fields[i]->number; at--)
            s->order[at] = s->order[at - 1];
        s->order[at] = i;
        if (!mr_proto_compatible(s->fields[i], mr_dtype_base(m->node->in_types[1 + i])))
            return mr_invalid("Incompatible type for field %.*s.  Saw dtype: %s but field type is: %s",
                              MR_SV_ARG(names->ss[i]), mr_dtype_name(m->node->in_types[1 + i]),
                              mr_proto_type_name(s->fields[i]->type));
    }
    return NULL;
}

static void deinit_encode_proto(void *p)
{
    state *s = p;
    mr_free(s->fields);
    mr_free(s->order);
    mr_proto_pool_free(s->pool);
}

/* ---- values ---- */

/* Element i in wire format: wider tensor types are truncated to the field's type, and sint types are
 * zigzag-encoded. */
static uint64_t bits_at(const mr_tensor *t, int64_t i, mr_proto_type type)
{
    uint64_t bits = 0;
    float f;
    switch ((mr_dtype)t->dtype) {
    case MR_BOOL: return MR_DATA(bool, t)[i];
    case MR_INT32: bits = (uint64_t)(int64_t)MR_DATA(int32_t, t)[i]; break;
    case MR_UINT32: case MR_FLOAT: bits = MR_DATA(uint32_t, t)[i]; break;
    default: bits = MR_DATA(uint64_t, t)[i];
    }
    if (type == MR_PROTO_FLOAT && t->dtype == MR_DOUBLE) {
        uint32_t low;
        f = (float)MR_DATA(double, t)[i];
        memcpy(&low, &f, sizeof(low));
        return low;
    }
    switch (type) {
    case MR_PROTO_INT32: case MR_PROTO_ENUM: return (uint64_t)(int64_t)(int32_t)(uint32_t)bits;
    case MR_PROTO_UINT32: return (uint32_t)bits;
    case MR_PROTO_SINT32: bits = (uint64_t)(int64_t)(int32_t)(uint32_t)bits;
        return (uint32_t)(bits << 1 ^ (uint64_t)((int64_t)bits >> 63));
    case MR_PROTO_SINT64: return bits << 1 ^ (uint64_t)((int64_t)bits >> 63);
    default: return bits;
    }
}

static void put_bits(mr_pb_writer *w, uint32_t wire, uint64_t bits)
{
    if (wire == MR_WIRE_VARINT)
        mr_pb_put_raw_varint(w, bits);
    else
        mr_pb_put_raw(w, &bits, wire == MR_WIRE_FIXED32 ? 4 : 8); /* the low bytes come first */
}

/* The bytes of a group are between two tags, without a length. */
static void put_string(mr_pb_writer *w, const mr_proto_field *f, mr_sv v)
{
    if (f->type != MR_PROTO_GROUP) {
        mr_pb_put_bytes(w, f->number, v);
        return;
    }
    mr_pb_put_tag(w, f->number, MR_WIRE_GROUP);
    mr_pb_put_raw(w, v.p, v.n);
    mr_pb_put_tag(w, f->number, MR_WIRE_GROUP_END);
}

/* Writes the values from..from + n of t as a field. */
static void put_field(mr_pb_writer *w, const mr_proto_field *f, const mr_tensor *t, int64_t from, int64_t n)
{
    uint32_t wire = mr_proto_wire(f->type);
    size_t mark = f->packed ? mr_pb_begin(w, f->number) : 0;
    for (int64_t i = from; i < from + n; i++) {
        if (t->dtype == MR_STRING) {
            put_string(w, f, mr_tensor_str_at(t, i));
            continue;
        }
        if (!f->packed)
            mr_pb_put_tag(w, f->number, wire);
        put_bits(w, wire, bits_at(t, i, f->type));
    }
    if (f->packed)
        mr_pb_end(w, mark);
}

/* ---- the kernel ---- */

/* Checks that all values, and sizes, have the shape of the messages plus one dimension. */
static mr_status *check_shapes(const mr_run *r)
{
    const state *s = r->state;
    const mr_tensor *sizes = mr_in(r, 0), *first = mr_in(r, 1);
    for (int i = 0; i < s->n; i++) {
        const mr_tensor *v = mr_in(r, 1 + i);
        if (v->rank < 2)
            return mr_invalid("Invalid shape for field %.*s.  Saw shape %s but it should be at least a "
                              "matrix.",
                              MR_SV_ARG(s->fields[i]->name), MR_TENSOR_SHAPE(v));
        if (!mr_shape_eq(v->rank - 1, v->dims, first->rank - 1, first->dims))
            return mr_invalid("Values must match up to the last dimension");
    }
    if (sizes->rank != first->rank || sizes->dims[sizes->rank - 1] != s->n ||
        !mr_shape_eq(sizes->rank - 1, sizes->dims, first->rank - 1, first->dims))
        return mr_invalid("sizes should be batch_size + [len(field_names)].  Saw: %s, with values of shape "
                          "%s",
                          MR_TENSOR_SHAPE(sizes), MR_TENSOR_SHAPE(first));
    return NULL;
}

static mr_status *check_sizes(const mr_run *r)
{
    const state *s = r->state;
    const mr_tensor *sizes = mr_in(r, 0);
    for (int64_t k = 0; k < sizes->n; k++) {
        const mr_tensor *v = mr_in(r, 1 + (int)(k % s->n));
        int32_t size = MR_DATA(int32_t, sizes)[k];
        if (size < 0 || size > v->dims[v->rank - 1])
            return mr_invalid("Size to write must not be larger than value tensor; but saw: %d > %lld at "
                              "message %lld field %d",
                              (int)size, (long long)v->dims[v->rank - 1], (long long)(k / s->n),
                              (int)(k % s->n));
    }
    return NULL;
}

static mr_status *encode_proto(mr_run *r)
{
    const state *s = r->state;
    const mr_tensor *sizes = mr_in(r, 0);
    mr_tensor *out;
    mr_str bytes = {0};
    mr_status *st = NULL;
    MR_TRY(check_shapes(r));
    MR_TRY(check_sizes(r));
    MR_TRY(mr_run_output(r, 0, sizes->rank - 1, sizes->dims, &out));
    for (int64_t m = 0; m < out->n && !st; m++) {
        mr_pb_writer w;
        mr_str_clear(&bytes);
        mr_pb_writer_init(&w, &bytes);
        for (int k = 0; k < s->n; k++) {
            int i = s->order[k];
            const mr_tensor *v = mr_in(r, 1 + i);
            int32_t size = MR_DATA(int32_t, sizes)[m * s->n + i];
            if (size > 0)
                put_field(&w, s->fields[i], v, m * v->dims[v->rank - 1], size);
        }
        st = mr_pb_writer_status(&w, "message");
        if (!st)
            st = mr_tensor_set_str(out, m, mr_str_view(&bytes));
    }
    mr_str_deinit(&bytes);
    return st;
}

static mr_status *encode_shape(mr_infer *c)
{
    const mr_pshape *sizes, *v, *prefix;
    MR_TRY(mr_infer_rank_at_least(c, c->in[0], 1, &sizes));
    if (sizes->rank < 0)
        return NULL;
    prefix = mr_infer_sub(c, sizes, 0, sizes->rank - 1);
    for (int i = 1; i < c->n_in; i++) {
        MR_TRY(mr_infer_rank_at_least(c, c->in[i], 1, &v));
        if (v->rank >= 0)
            MR_TRY(mr_infer_merge(c, prefix, mr_infer_sub(c, v, 0, v->rank - 1), &prefix));
    }
    c->out[0] = prefix;
    return NULL;
}

/* The message of DecodeProtoV2's examples. */
#define SOURCE                                                                                     \
    "descriptor_source=\"bytes://"                                                                 \
    "\\nf\\n\\x01x\\x12\\x01p\\x22^\\n\\x01M\\x12\\x0c\\n\\x01i\\x18\\x01 \\x01(\\x05:" \
    "\\x015\\x12\\x09\\n\\x01f\\x18\\x02 \\x03(\\x02\\x12\\x09\\n\\x01s\\x18\\x03 \\x01(" \
    "\\x09\\x12\\x09\\n\\x01z\\x18\\x04 \\x03(\\x12\\x12\\x09\\n\\x01d\\x18\\x05 \\x01(" \
    "\\x01\\x12\\x09\\n\\x01u\\x18\\x06 \\x01(\\x04\\x12\\x09\\n\\x01w\\x18\\x07 \\x01(" \
    "\\x0d\\x12\\x09\\n\\x01b\\x18\\x08 \\x01(\\x08" \
    "\" "
#define ONE(field, type) "message_type=\"p.M\" field_names=[\"" field "\"] Tinput_types=[" type "] " SOURCE

MR_OP(EncodeProto,
    .doc      = "serializes messages from tensors; sizes says how many values of each field count",
    .sig      = "sizes: int32, values: Tinput_types -> bytes: string",
    .attrs    = "field_names: list(string); message_type: string; descriptor_source: string = \"local://\"; "
                "Tinput_types: list(type) >= 1",
    .flags    = MR_NO_GRADIENT,
    .shape    = encode_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(encode_proto)),
    .state_bytes = sizeof(state), .init = init_encode_proto, .deinit = deinit_encode_proto,
    .examples = MR_EXAMPLES(
        "message_type=\"p.M\" field_names=[\"s\", \"i\"] Tinput_types=[string, int32] " SOURCE
        ": [[1, 1], [0, 1]], ([[\"hi\"], [\"\"]], int32[[7], [-1]]) -> [\"\\x08\\x07\\x1a\\x02hi\", "
        "\"\\x08\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\x01\"]",
        ONE("s", "string") ": [[1]], ([[\"hi\"]]) -> [\"\\x1a\\x02hi\"]",
        ONE("z", "int64") ": [[2]], (int64[[-2, 2]]) -> [\" \\x03 \\x04\"]",
        ONE("f", "float") ": [[1]], (float[[3, 4]]) -> [\"\\x15\\x00\\x00@@\"]",
        ONE("f", "double") ": [[1]], (double[[3, 4]]) -> [\"\\x15\\x00\\x00@@\"]",
        ONE("d", "double") ": [[1]], (double[[0]]) -> [\")\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\"]",
        ONE("u", "uint64") ": [[1]], (uint64[[7]]) -> [\"0\\x07\"]",
        ONE("w", "uint32") ": [[1]], (uint32[[7]]) -> [\"8\\x07\"]",
        ONE("b", "bool") ": [[1]], (bool[[true]]) -> [\"@\\x01\"]",
        ONE("i", "int32") ": [[0]], (int32[[7]]) -> [\"\"]",
        ONE("i", "int32") ": shape(0,1), (int32 shape(0,4)) -> shape(0)",
        ONE("i", "int32") ": [[2]], (int32[[7]]) -> !INVALID_ARGUMENT Size to write must not be larger than "
                          "value tensor; but saw: 2 > 1 at message 0 field 0",
        ONE("i", "int32") ": [1], (int32[7]) -> !INVALID_ARGUMENT should be at least a matrix",
        ONE("i", "int32") ": [[1, 1]], (int32[[7]]) -> !INVALID_ARGUMENT sizes should be batch_size + "
                          "[len(field_names)]",
        ONE("i", "string") ": [[1]], ([[\"a\"]]) -> !INVALID_ARGUMENT Incompatible type for field i.  Saw "
                           "dtype: string but field type is: int32",
        "message_type=\"M\" field_names=[\"i\"] Tinput_types=[int32]: [[1]], (int32[[7]]) -> "
        "!INVALID_ARGUMENT descriptor_source \"local://\": no messages are linked in"));
