/* graph/function_hash.c -- TensorFlow's hash of a FunctionDef, so that a function created here has the same name as in
 * TensorFlow.
 *
 * Strings are hashed one after the other, each seeded with the hash so far; messages whose parts have no order are
 * sorted first. Messages that are hashed as bytes are in the canonical form that our writers produce. */
#include "graph/function_hash.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/vec.h"
#include "tensor/tensor.h"
#include "wire/pb.h"

typedef struct named { /* a part of a message that is found by its name */
    mr_sv name, value;
} named;
typedef MR_VEC(named) named_vec;

static uint64_t combine_hashes(uint64_t a, uint64_t b)
{
    return a ^ (b + UINT64_C(0x9e3779b97f4a7800) + (a << 10) + (a >> 4));
}

static uint64_t add_sv(uint64_t h, mr_sv s) { return mr_hash64_from(s.n ? s.p : "", s.n, h); }

static int by_name(const void *a, const void *b)
{
    mr_sv x = ((const named *)a)->name, y = ((const named *)b)->name;
    size_t n = MR_MIN(x.n, y.n);
    int order = n ? memcmp(x.p, y.p, n) : 0;
    return order ? order : (x.n > y.n) - (x.n < y.n);
}

static void sort_named(named_vec *v)
{
    if (v->n > 1)
        qsort(v->p, (size_t)v->n, sizeof(named), by_name);
}

/* An entry of a map, or any message whose field 1 is its name: field 1 and field 2. */
static named read_entry(mr_sv bytes)
{
    mr_pb_reader r;
    uint32_t field, wire;
    named e = {MR_SV(""), MR_SV("")};
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire)) {
        if (field == 1 && wire == MR_WIRE_BYTES)
            e.name = mr_pb_bytes(&r);
        else if (field == 2 && wire == MR_WIRE_BYTES)
            e.value = mr_pb_bytes(&r);
        else
            mr_pb_skip(&r);
    }
    return e;
}

/* ---- attrs ---- */

/* Hashes a canonical form of a tensor: type, shape, and the elements as bytes; for strings all lengths, then all
 * bytes. */
static mr_status *tensor_hash(mr_sv bytes, uint64_t *out)
{
    mr_tensor *t;
    mr_pb_writer w, c;
    mr_str proto = {0}, shape = {0}, content = {0};
    MR_TRY(mr_tensor_decode(NULL, bytes, &t));
    mr_pb_writer_init(&w, &proto);
    mr_pb_writer_init(&c, &content);
    mr_shape_encode(t->rank, t->dims, &shape);
    if (t->dtype == MR_STRING) {
        for (int64_t i = 0; i < t->n; i++)
            mr_pb_put_raw_varint(&c, mr_tensor_str_at(t, i).n);
        for (int64_t i = 0; i < t->n; i++)
            mr_pb_put_raw(&c, mr_tensor_str_at(t, i).p, mr_tensor_str_at(t, i).n);
    } else if (mr_dtype_is_plain(t->dtype)) {
        mr_pb_put_raw(&c, t->data, mr_tensor_bytes(t));
    }
    mr_pb_put_varint(&w, 1, (uint64_t)t->dtype);
    mr_pb_put_bytes(&w, 2, mr_str_view(&shape));
    mr_pb_opt_bytes(&w, 4, mr_str_view(&content));
    mr_status *st = mr_pb_writer_status(&w, "TensorProto");
    *out = mr_hash64(proto.p, proto.n);
    mr_tensor_unref(t);
    mr_str_deinit(&proto);
    mr_str_deinit(&shape);
    mr_str_deinit(&content);
    return st;
}

enum { VALUE_TENSOR = 8, VALUE_FUNC = 10 };

static mr_status *value_hash(mr_sv bytes, int depth, uint64_t *out);

/* A function by name, with its attrs by name. */
static mr_status *func_hash(mr_sv bytes, int depth, uint64_t *out)
{
    mr_pb_reader r;
    uint32_t field, wire;
    named_vec attrs = {0};
    mr_status *st = NULL;
    mr_sv name = MR_SV("");
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire)) {
        if (field == 1 && wire == MR_WIRE_BYTES)
            name = mr_pb_bytes(&r);
        else if (field == 2 && wire == MR_WIRE_BYTES)
            mr_vec_push(&attrs, read_entry(mr_pb_bytes(&r)));
        else
            mr_pb_skip(&r);
    }
    sort_named(&attrs);
    uint64_t h = add_sv(MR_HASH64_SEED, name), v = 0;
    for (int i = 0; i < attrs.n; i++) {
        MR_GO(value_hash(attrs.p[i].value, depth + 1, &v));
        h = combine_hashes(v, add_sv(h, attrs.p[i].name));
    }
    *out = h;
out:
    mr_vec_deinit(&attrs);
    return st;
}

/* An AttrValue. */
static mr_status *value_hash(mr_sv bytes, int depth, uint64_t *out)
{
    mr_pb_reader r;
    uint32_t field, wire;
    if (depth > 100)
        return mr_invalid("FunctionDef: attrs are nested too deep");
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire)) {
        if (field == VALUE_TENSOR && wire == MR_WIRE_BYTES)
            return tensor_hash(mr_pb_bytes(&r), out);
        if (field == VALUE_FUNC && wire == MR_WIRE_BYTES)
            return func_hash(mr_pb_bytes(&r), depth, out);
        mr_pb_skip(&r);
    }
    *out = add_sv(MR_HASH64_SEED, bytes);
    return NULL;
}

/* ---- nodes ---- */

/* The order of attrs and control inputs does not matter, the order of data inputs does. */
static mr_status *node_hash(mr_sv bytes, uint64_t *out)
{
    mr_pb_reader r;
    uint32_t field, wire;
    named_vec attrs = {0}, controls = {0};
    MR_VEC(mr_sv) inputs = {0};
    mr_status *st = NULL;
    mr_sv head[3] = {MR_SV(""), MR_SV(""), MR_SV("")}; /* name, op, device */
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire)) {
        if (wire != MR_WIRE_BYTES || field == 0 || field > 5) {
            mr_pb_skip(&r);
            continue;
        }
        mr_sv v = mr_pb_bytes(&r);
        if (field == 3 && v.n && v.p[0] == '^')
            mr_vec_push(&controls, ((named){v, v}));
        else if (field == 3)
            mr_vec_push(&inputs, v);
        else if (field == 5)
            mr_vec_push(&attrs, read_entry(v));
        else
            head[field == 4 ? 2 : field - 1] = v;
    }
    sort_named(&attrs);
    sort_named(&controls);
    uint64_t h = MR_HASH64_SEED, v = 0;
    for (int i = 0; i < 3; i++)
        h = add_sv(h, head[i]);
    for (int i = 0; i < inputs.n; i++)
        h = add_sv(h, inputs.p[i]);
    for (int i = 0; i < controls.n; i++)
        h = add_sv(h, controls.p[i].name);
    for (int i = 0; i < attrs.n; i++) {
        if (mr_sv_starts(attrs.p[i].name, "_"))
            continue;
        MR_GO(value_hash(attrs.p[i].value, 0, &v));
        h = combine_hashes(v, add_sv(h, attrs.p[i].name));
    }
    *out = h;
out:
    mr_vec_deinit(&attrs);
    mr_vec_deinit(&controls);
    mr_vec_deinit(&inputs);
    return st;
}

static mr_status *nodes_hash(named_vec *nodes, uint64_t *out)
{
    uint64_t h = MR_HASH64_SEED, v = 0;
    sort_named(nodes);
    for (int i = 0; i < nodes->n; i++) {
        MR_TRY(node_hash(nodes->p[i].value, &v));
        h = combine_hashes(v, add_sv(h, nodes->p[i].name));
    }
    *out = h;
    return NULL;
}

/* ---- the signature ---- */

/* An attr of a function that was created from a graph has only a name and a type; default, limits and description are
 * empty. */
static uint64_t attr_defs_hash(named_vec *attrs)
{
    const uint64_t nothing = mr_hash64("", 0);
    uint64_t h = MR_HASH64_SEED;
    sort_named(attrs);
    for (int i = 0; i < attrs->n; i++) {
        uint64_t a = add_sv(add_sv(MR_HASH64_SEED, attrs->p[i].name), attrs->p[i].value);
        a = add_sv(combine_hashes(nothing, a), MR_SV(""));
        a = combine_hashes(0, a); /* has_minimum */
        a = combine_hashes(0, a); /* minimum */
        a = combine_hashes(nothing, a);
        h = combine_hashes(a, add_sv(h, attrs->p[i].name));
    }
    return h;
}

/* Arguments, description and flags as bytes; neither its name nor its control outputs, which are hashed later. */
static uint64_t signature_hash(mr_sv bytes)
{
    mr_pb_reader r;
    mr_pb_writer w;
    uint32_t field, wire;
    named_vec attrs = {0};
    mr_str rest = {0};
    mr_pb_writer_init(&w, &rest);
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire)) {
        if (field == 4 && wire == MR_WIRE_BYTES)
            mr_vec_push(&attrs, read_entry(mr_pb_bytes(&r)));
        else if (field == 1 || field == 20 || (wire != MR_WIRE_BYTES && wire != MR_WIRE_VARINT))
            mr_pb_skip(&r);
        else if (wire == MR_WIRE_BYTES)
            mr_pb_put_bytes(&w, field, mr_pb_bytes(&r));
        else
            mr_pb_put_varint(&w, field, mr_pb_varint(&r));
    }
    uint64_t h = add_sv(attr_defs_hash(&attrs), mr_str_view(&rest));
    mr_vec_deinit(&attrs);
    mr_str_deinit(&rest);
    return h;
}

/* Nodes and results are hashed in the order of their names. */
mr_status *mr_function_hash(mr_sv function_def, uint64_t *out)
{
    mr_pb_reader r;
    uint32_t field, wire;
    named_vec nodes = {0}, rets = {0};
    mr_status *st = NULL;
    uint64_t h = 0, v = 0;
    mr_pb_reader_init(&r, function_def);
    while (mr_pb_next(&r, &field, &wire)) {
        if (wire != MR_WIRE_BYTES || (field != 1 && field != 3 && field != 4)) {
            mr_pb_skip(&r);
            continue;
        }
        mr_sv part = mr_pb_bytes(&r);
        if (field == 1)
            h = signature_hash(part);
        else if (field == 3)
            mr_vec_push(&nodes, ((named){read_entry(part).name, part}));
        else
            mr_vec_push(&rets, read_entry(part));
    }
    MR_GO(mr_pb_reader_status(&r, "FunctionDef"));
    MR_GO(nodes_hash(&nodes, &v));
    h = combine_hashes(v, h);
    sort_named(&rets);
    for (int i = 0; i < rets.n; i++)
        h = add_sv(add_sv(h, rets.p[i].name), rets.p[i].value);
    *out = h;
out:
    mr_vec_deinit(&nodes);
    mr_vec_deinit(&rets);
    return st;
}
