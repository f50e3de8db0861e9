/* graph/op_def_wire.c -- OpDef to and from bytes.
 *
 * Decoding keeps fields we do not interpret (descriptions, control outputs, full types, handle data) as bytes in
 * `extra` and encoding writes them back, so that no part of a function is lost. */
#include "graph/op_text.h"
#include "graph/wire.h"

/* Every value of a node is compared with all allowed values, so their number is limited. */
#define MAX_ALLOWED 1000

/* ---- decoding ---- */

/* "" stands for an absent name on the wire, NULL in our structs. */
static mr_status *read_opt_name(mr_arena *a, mr_pb_reader *r, const char **out)
{
    mr_sv v = mr_pb_bytes(r);
    *out = NULL;
    return v.n ? mr_wire_name(a, v, out) : NULL;
}

/* Fields that we do not interpret are kept in `extra`. */
static mr_status *read_arg(mr_arena *a, mr_pb_reader *r, mr_arg_def *out)
{
    mr_status *st = NULL;
    uint32_t field, wire;
    mr_str extra = {0};
    const uint8_t *from;
    out->name = "";
    for (from = r->at; mr_pb_next(r, &field, &wire); from = r->at) {
        switch (field) {
        case 1: MR_GO(mr_wire_name(a, mr_pb_bytes(r), &out->name)); break;
        case 3: out->type = mr_pb_int32(r); break;
        case 4: MR_GO(read_opt_name(a, r, &out->type_attr)); break;
        case 5: MR_GO(read_opt_name(a, r, &out->number_attr)); break;
        case 6: MR_GO(read_opt_name(a, r, &out->type_list_attr)); break;
        case 16: out->is_ref = mr_pb_bool(r); break;
        default: MR_GO(mr_wire_extra(r, from, &extra));
        }
    }
    MR_GO(mr_pb_reader_status(r, "OpDef.ArgDef"));
    MR_GO(mr_wire_keep(a, mr_str_view(&extra), &out->extra));
out:
    mr_str_deinit(&extra);
    return st;
}

/* "int", "list(shape)" */
static mr_status *read_attr_type(mr_sv text, mr_attr_def *out)
{
    mr_sv word = text;
    out->is_list = mr_sv_starts(text, "list(") && text.p[text.n - 1] == ')';
    if (out->is_list)
        word = (mr_sv){text.p + 5, text.n - 6};
    out->kind = mr_attr_kind_from_name(word);
    return out->kind ? NULL
                     : mr_invalid("OpDef.AttrDef: unknown attr type '%.*s'", MR_SV_ARG(text));
}

/* An AttrValue list whose kind has to match the attr's. */
static mr_status *set_allowed(const mr_attr *v, mr_attr_def *out)
{
    if (!v->is_list || v->n == 0)
        return NULL;
    if (v->kind != out->kind || (v->kind != MR_ATTR_TYPE && v->kind != MR_ATTR_STRING))
        return mr_invalid("OpDef.AttrDef '%s': allowed values do not match its type", out->name);
    if (v->n > MAX_ALLOWED)
        return mr_invalid("OpDef.AttrDef '%s': too many allowed values", out->name);
    out->n_allowed = v->n;
    if (v->kind == MR_ATTR_TYPE)
        out->types = v->types;
    else
        out->names = v->ss;
    return NULL;
}

/* The allowed values are checked after the whole message has been read, because the type may follow them. */
static mr_status *read_attr_def(mr_arena *a, mr_pb_reader *r, mr_attr_def *out)
{
    mr_status *st = NULL;
    uint32_t field, wire;
    mr_pb_reader sub;
    mr_str extra = {0};
    mr_attr allowed = {0};
    const uint8_t *from;
    out->name = "";
    for (from = r->at; mr_pb_next(r, &field, &wire); from = r->at) {
        switch (field) {
        case 1: MR_GO(mr_wire_name(a, mr_pb_bytes(r), &out->name)); break;
        case 2: MR_GO(read_attr_type(mr_pb_bytes(r), out)); break;
        case 3:
            mr_pb_message(r, &sub);
            MR_GO(mr_attr_read(&(mr_attr_room){.arena = a}, &sub, &out->deflt));
            out->has_default = true;
            break;
        case 5: out->has_min = mr_pb_bool(r); break;
        case 6: out->min = mr_pb_int64(r); break;
        case 7:
            mr_pb_message(r, &sub);
            MR_GO(mr_attr_read(&(mr_attr_room){.arena = a}, &sub, &allowed));
            break;
        default: MR_GO(mr_wire_extra(r, from, &extra));
        }
    }
    MR_GO(mr_pb_reader_status(r, "OpDef.AttrDef"));
    if (!out->kind)
        MR_GO(mr_invalid("OpDef.AttrDef '%s' has no type", out->name));
    MR_GO(set_allowed(&allowed, out));
    MR_GO(mr_wire_keep(a, mr_str_view(&extra), &out->extra));
out:
    mr_str_deinit(&extra);
    return st;
}

static mr_status *read_deprecation(mr_arena *a, mr_pb_reader *r, mr_op_def *out)
{
    uint32_t field, wire;
    while (mr_pb_next(r, &field, &wire)) {
        if (field == 1)
            out->deprecated = mr_pb_int32(r);
        else if (field == 2)
            MR_TRY(read_opt_name(a, r, &out->deprecation_text));
        else
            mr_pb_skip(r);
    }
    return mr_pb_reader_status(r, "OpDeprecation");
}

static void set_flag(mr_op_def *out, unsigned flag, bool on)
{
    out->flags = on ? out->flags | flag : out->flags & ~flag;
}

/* The arrays, with room counted beforehand; *n is how many are filled. */
typedef struct lists {
    mr_arg_def *in, *out;
    mr_attr_def *attrs;
    size_t max_in, max_out, max_attrs;
} lists;

/* Counted first, so that each list is one array in the arena. */
static mr_status *make_lists(mr_arena *a, const mr_pb_reader *r, lists *l, mr_op_def *out)
{
    l->max_in = mr_wire_count(*r, 2);
    l->max_out = mr_wire_count(*r, 3);
    l->max_attrs = mr_wire_count(*r, 4);
    if (l->max_in > INT32_MAX || l->max_out > INT32_MAX || l->max_attrs > INT32_MAX)
        return mr_invalid("OpDef: too many arguments");
    out->in = l->in = mr_arena_try_array(a, mr_arg_def, l->max_in);
    out->out = l->out = mr_arena_try_array(a, mr_arg_def, l->max_out);
    out->attrs = l->attrs = mr_arena_try_array(a, mr_attr_def, l->max_attrs);
    if (!l->in || !l->out || !l->attrs)
        return mr_error(MR_RESOURCE_EXHAUSTED, "OpDef: out of memory");
    return NULL;
}

static mr_status *read_field(mr_arena *a, mr_pb_reader *r, uint32_t field, const uint8_t *from,
                             lists *l, mr_str *extra, mr_op_def *out)
{
    mr_pb_reader sub;
    switch (field) {
    case 1: return mr_wire_name(a, mr_pb_bytes(r), &out->name);
    case 2:
        MR_ENSURE((size_t)out->n_in < l->max_in);
        mr_pb_message(r, &sub);
        return read_arg(a, &sub, &l->in[out->n_in++]);
    case 3:
        MR_ENSURE((size_t)out->n_out < l->max_out);
        mr_pb_message(r, &sub);
        return read_arg(a, &sub, &l->out[out->n_out++]);
    case 4:
        MR_ENSURE((size_t)out->n_attrs < l->max_attrs);
        mr_pb_message(r, &sub);
        return read_attr_def(a, &sub, &l->attrs[out->n_attrs++]);
    case 5: return read_opt_name(a, r, &out->summary);
    case 8: mr_pb_message(r, &sub); return read_deprecation(a, &sub, out);
    case 16: set_flag(out, MR_AGGREGATE, mr_pb_bool(r)); return NULL;
    case 17: set_flag(out, MR_STATEFUL, mr_pb_bool(r)); return NULL;
    case 18: set_flag(out, MR_COMMUTATIVE, mr_pb_bool(r)); return NULL;
    case 19: set_flag(out, MR_UNINIT_OK, mr_pb_bool(r)); return NULL;
    case 21: set_flag(out, MR_DISTCOMM, mr_pb_bool(r)); return NULL;
    default: return mr_wire_extra(r, from, extra);
    }
}

mr_status *mr_op_def_decode(mr_arena *a, mr_sv bytes, mr_op_def *out)
{
    mr_status *st = NULL;
    mr_pb_reader r;
    uint32_t field, wire;
    mr_str extra = {0};
    lists l = {0};
    const uint8_t *from;
    *out = (mr_op_def){.name = ""};
    mr_pb_reader_init(&r, bytes);
    MR_GO(make_lists(a, &r, &l, out));
    for (from = r.at; mr_pb_next(&r, &field, &wire); from = r.at)
        MR_GO(read_field(a, &r, field, from, &l, &extra, out));
    MR_GO(mr_pb_reader_status(&r, "OpDef"));
    MR_GO(mr_wire_keep(a, mr_str_view(&extra), &out->extra));
    MR_GO(mr_op_def_finish(a, out));
out:
    mr_str_deinit(&extra);
    return st;
}

/* ---- encoding ---- */

static void write_arg(mr_pb_writer *w, uint32_t field, const mr_arg_def *a)
{
    size_t mark = mr_pb_begin(w, field);
    mr_pb_opt_bytes(w, 1, mr_sv_of(a->name));
    mr_pb_opt_varint(w, 3, (uint64_t)a->type);
    mr_pb_opt_bytes(w, 4, mr_sv_of(a->type_attr));
    mr_pb_opt_bytes(w, 5, mr_sv_of(a->number_attr));
    mr_pb_opt_bytes(w, 6, mr_sv_of(a->type_list_attr));
    mr_pb_opt_varint(w, 16, a->is_ref);
    mr_pb_put_raw(w, a->extra.p, a->extra.n);
    mr_pb_end(w, mark);
}

/* Values that we hold can always be written: their tensors are serialized already. */
static void write_value(mr_pb_writer *w, uint32_t field, const mr_attr *v)
{
    size_t mark = mr_pb_begin(w, field);
    mr_status *st = mr_attr_write(v, w);
    if (st)
        w->failed = true;
    mr_status_free(st);
    mr_pb_end(w, mark);
}

static void write_attr_def(mr_pb_writer *w, const mr_attr_def *a)
{
    size_t mark = mr_pb_begin(w, 4);
    mr_str type = {0};
    mr_attr_type_name(&type, a->kind, a->is_list);
    mr_pb_opt_bytes(w, 1, mr_sv_of(a->name));
    mr_pb_put_bytes(w, 2, mr_str_view(&type));
    mr_str_deinit(&type);
    if (a->has_default)
        write_value(w, 3, &a->deflt);
    mr_pb_opt_varint(w, 5, a->has_min);
    mr_pb_opt_varint(w, 6, (uint64_t)a->min);
    if (a->n_allowed && a->kind == MR_ATTR_TYPE)
        write_value(w, 7, &(mr_attr){MR_ATTR_TYPE, true, a->n_allowed, .types = a->types});
    else if (a->n_allowed)
        write_value(w, 7, &(mr_attr){MR_ATTR_STRING, true, a->n_allowed, .ss = a->names});
    mr_pb_put_raw(w, a->extra.p, a->extra.n);
    mr_pb_end(w, mark);
}

void mr_op_def_encode(const mr_op_def *d, mr_str *out)
{
    mr_pb_writer w;
    mr_pb_writer_init(&w, out);
    mr_pb_opt_bytes(&w, 1, mr_sv_of(d->name));
    for (int i = 0; i < d->n_in; i++)
        write_arg(&w, 2, &d->in[i]);
    for (int i = 0; i < d->n_out; i++)
        write_arg(&w, 3, &d->out[i]);
    for (int i = 0; i < d->n_attrs; i++)
        write_attr_def(&w, &d->attrs[i]);
    mr_pb_opt_bytes(&w, 5, mr_sv_of(d->summary));
    if (d->deprecated) {
        size_t mark = mr_pb_begin(&w, 8);
        mr_pb_put_varint(&w, 1, (uint64_t)d->deprecated);
        mr_pb_opt_bytes(&w, 2, mr_sv_of(d->deprecation_text));
        mr_pb_end(&w, mark);
    }
    mr_pb_opt_varint(&w, 16, (d->flags & MR_AGGREGATE) != 0);
    mr_pb_opt_varint(&w, 17, (d->flags & MR_STATEFUL) != 0);
    mr_pb_opt_varint(&w, 18, (d->flags & MR_COMMUTATIVE) != 0);
    mr_pb_opt_varint(&w, 19, (d->flags & MR_UNINIT_OK) != 0);
    mr_pb_opt_varint(&w, 21, (d->flags & MR_DISTCOMM) != 0);
    mr_pb_put_raw(&w, d->extra.p, d->extra.n);
}
