/* graph/attr_wire.c -- AttrValue to and from bytes.
 *
 * A list is read twice: once to count its values and to find its kind, once to fill its array. Nested messages share
 * one budget of levels through the reader, so deeply nested func attrs end with an error, not with a stack overflow. */
#include "graph/attr.h"
#include "wire/pb.h"

static mr_status *no_memory(size_t n)
{
    return mr_error(MR_RESOURCE_EXHAUSTED, "AttrValue: no memory for %zu values", n);
}

static mr_status *read_value(const mr_attr_room *room, mr_pb_reader *r, mr_attr *out);

/* ---- single values ---- */

static mr_status *keep_bytes(const mr_attr_room *room, mr_sv v, mr_sv *out)
{
    char *copy = mr_arena_try_alloc(room->arena, v.n + 1);
    if (!copy)
        return no_memory(v.n);
    memcpy(copy, v.p, v.n);
    copy[v.n] = '\0';
    *out = (mr_sv){copy, v.n};
    return NULL;
}

/* Names are C strings in our structs, so a NUL byte inside one could make two names equal. */
static mr_status *keep_name(const mr_attr_room *room, mr_sv v, const char **out)
{
    mr_sv copy;
    if (memchr(v.p, 0, v.n))
        return mr_invalid("AttrValue: a name holds a NUL byte");
    MR_TRY(keep_bytes(room, v, &copy));
    *out = copy.p;
    return NULL;
}

static mr_status *read_entry(const mr_attr_room *room, mr_pb_reader *r, mr_named_attr *out)
{
    mr_pb_reader value;
    uint32_t field, wire;
    *out = (mr_named_attr){.name = ""};
    while (mr_pb_next(r, &field, &wire)) {
        if (field == 1) {
            MR_TRY(keep_name(room, mr_pb_bytes(r), &out->name));
        } else if (field == 2) {
            mr_pb_message(r, &value);
            MR_TRY(read_value(room, &value, &out->v));
        } else {
            mr_pb_skip(r);
        }
    }
    return mr_pb_reader_status(r, "AttrValue map entry");
}

/* Counts the occurrences of a field; r is a copy, and an error in it also marks its parents. */
static size_t count_field(mr_pb_reader r, uint32_t wanted)
{
    uint32_t field, wire;
    size_t n = 0;
    while (mr_pb_next(&r, &field, &wire)) {
        n += field == wanted;
        mr_pb_skip(&r);
    }
    return n;
}

/* The number of attrs is counted first, so that they are one array in the arena. */
static mr_status *read_func(const mr_attr_room *room, mr_pb_reader *r, const mr_func_ref **out)
{
    mr_pb_reader sub;
    uint32_t field, wire;
    size_t n = count_field(*r, 2);
    mr_func_ref *f = mr_arena_new(room->arena, mr_func_ref);
    mr_named_attr *attrs = n <= INT32_MAX ? mr_arena_try_array(room->arena, mr_named_attr, n) : NULL;
    if (!attrs)
        return no_memory(n);
    *f = (mr_func_ref){.name = "", .attrs = attrs};
    while (mr_pb_next(r, &field, &wire)) {
        if (field == 1) {
            MR_TRY(keep_name(room, mr_pb_bytes(r), &f->name));
        } else if (field == 2 && (size_t)f->n_attrs < n) {
            mr_pb_message(r, &sub);
            MR_TRY(read_entry(room, &sub, &attrs[f->n_attrs++]));
        } else {
            mr_pb_skip(r);
        }
    }
    MR_TRY(mr_pb_reader_status(r, "NameAttrList"));
    MR_TRY(mr_named_attrs_sort(attrs, &f->n_attrs));
    *out = f;
    return NULL;
}

/* ---- lists ---- */

enum { F_LIST = 1, F_S, F_I, F_F, F_B, F_TYPE, F_SHAPE, F_TENSOR, F_PLACEHOLDER, F_FUNC };

/* The numbers of fields 2 to 8 are those of AttrValue; func is 9 in a list and 10 alone. */
static const mr_attr_kind list_kinds[] = {0,
                                          0,
                                          MR_ATTR_STRING,
                                          MR_ATTR_INT,
                                          MR_ATTR_FLOAT,
                                          MR_ATTR_BOOL,
                                          MR_ATTR_TYPE,
                                          MR_ATTR_SHAPE,
                                          MR_ATTR_TENSOR,
                                          MR_ATTR_FUNC};

static bool is_numbers(mr_attr_kind k)
{
    return k == MR_ATTR_INT || k == MR_ATTR_FLOAT || k == MR_ATTR_BOOL || k == MR_ATTR_TYPE;
}

static uint32_t elem_wire(mr_attr_kind k)
{
    return k == MR_ATTR_FLOAT ? MR_WIRE_FIXED32 : MR_WIRE_VARINT;
}

/* Counts packed and unpacked values alike. A list with values of two kinds is an error, although protobuf would accept
 * it. */
static mr_status *count_list(mr_pb_reader r, mr_attr_kind *kind, size_t *n)
{
    mr_pb_reader p;
    uint32_t field, wire;
    *kind = MR_ATTR_NONE;
    *n = 0;
    while (mr_pb_next(&r, &field, &wire)) {
        mr_attr_kind k = field < MR_COUNT(list_kinds) ? list_kinds[field] : MR_ATTR_NONE;
        size_t before = *n;
        if (k == MR_ATTR_NONE) {
            mr_pb_skip(&r);
        } else if (is_numbers(k)) {
            mr_pb_packed(&r, elem_wire(k), &p);
            *n += mr_pb_packed_count(&p);
        } else {
            mr_pb_bytes(&r);
            *n += 1;
        }
        if (*n == before)
            continue;
        if (before && *kind != k)
            return mr_invalid("AttrValue: a list holds values of more than one type");
        *kind = k;
    }
    return mr_pb_reader_status(&r, "AttrValue list");
}

static size_t elem_bytes(mr_attr_kind k)
{
    switch (k) {
    case MR_ATTR_STRING: return sizeof(mr_sv);
    case MR_ATTR_INT: return sizeof(int64_t);
    case MR_ATTR_FLOAT: return sizeof(float);
    case MR_ATTR_BOOL: return sizeof(bool);
    case MR_ATTR_TYPE: return sizeof(int);
    default: return sizeof(void *);
    }
}

/* One value of a list whose array has room for it at index i. */
static mr_status *read_element(const mr_attr_room *room, mr_pb_reader *r, mr_attr_kind kind, void *array,
                               size_t i)
{
    mr_pb_reader sub;
    switch (kind) {
    case MR_ATTR_STRING: return keep_bytes(room, mr_pb_bytes(r), (mr_sv *)array + i);
    case MR_ATTR_SHAPE:
        return mr_pshape_decode(room->arena, mr_pb_bytes(r), (const mr_pshape **)array + i);
    case MR_ATTR_TENSOR:
        return mr_tensor_attr_of(room, mr_pb_bytes(r), (const mr_tensor_attr **)array + i);
    default: mr_pb_message(r, &sub); return read_func(room, &sub, (const mr_func_ref **)array + i);
    }
}

static void read_number(mr_pb_reader *p, mr_attr_kind kind, void *array, size_t i)
{
    if (kind == MR_ATTR_INT)
        ((int64_t *)array)[i] = mr_pb_int64(p);
    else if (kind == MR_ATTR_FLOAT)
        ((float *)array)[i] = mr_pb_float(p);
    else if (kind == MR_ATTR_BOOL)
        ((bool *)array)[i] = mr_pb_bool(p);
    else
        ((int *)array)[i] = mr_pb_int32(p);
}

/* The second pass reads no more than count_list has counted. */
static mr_status *read_list(const mr_attr_room *room, mr_pb_reader *r, mr_attr *out)
{
    mr_attr_kind kind;
    mr_pb_reader p;
    uint32_t field, wire;
    size_t n, i = 0;
    MR_TRY(count_list(*r, &kind, &n));
    void *array = n <= INT32_MAX ? mr_arena_try_calloc(room->arena, n, elem_bytes(kind)) : NULL;
    if (!array)
        return no_memory(n);
    *out = (mr_attr){.kind = kind, .is_list = true, .n = (int)n, .is = array};
    while (i < n && mr_pb_next(r, &field, &wire)) {
        if (field >= MR_COUNT(list_kinds) || list_kinds[field] != kind) {
            mr_pb_skip(r);
        } else if (is_numbers(kind)) {
            mr_pb_packed(r, elem_wire(kind), &p);
            while (i < n && mr_pb_more(&p))
                read_number(&p, kind, array, i++);
        } else {
            MR_TRY(read_element(room, r, kind, array, i++));
        }
    }
    return mr_pb_reader_status(r, "AttrValue list");
}

/* ---- the value ---- */

static mr_status *read_field(const mr_attr_room *room, mr_pb_reader *r, uint32_t field, mr_attr *out)
{
    mr_pb_reader sub;
    switch (field) {
    case F_LIST: mr_pb_message(r, &sub); return read_list(room, &sub, out);
    case F_S:
        *out = (mr_attr){.kind = MR_ATTR_STRING};
        return keep_bytes(room, mr_pb_bytes(r), &out->s);
    case F_I: *out = mr_a_int(mr_pb_int64(r)); return NULL;
    case F_F: *out = mr_a_float(mr_pb_float(r)); return NULL;
    case F_B: *out = mr_a_bool(mr_pb_bool(r)); return NULL;
    case F_TYPE: *out = mr_a_type(mr_pb_int32(r)); return NULL;
    case F_SHAPE:
        *out = (mr_attr){.kind = MR_ATTR_SHAPE};
        return mr_pshape_decode(room->arena, mr_pb_bytes(r), &out->shape);
    case F_TENSOR:
        *out = (mr_attr){.kind = MR_ATTR_TENSOR};
        return mr_tensor_attr_of(room, mr_pb_bytes(r), &out->tensor);
    case F_PLACEHOLDER:
        *out = (mr_attr){.kind = MR_ATTR_PLACEHOLDER};
        return keep_bytes(room, mr_pb_bytes(r), &out->s);
    case F_FUNC:
        *out = (mr_attr){.kind = MR_ATTR_FUNC};
        mr_pb_message(r, &sub);
        return read_func(room, &sub, &out->func);
    default: mr_pb_skip(r); return NULL;
    }
}

/* It is a oneof: the last field counts. */
static mr_status *read_value(const mr_attr_room *room, mr_pb_reader *r, mr_attr *out)
{
    uint32_t field, wire;
    *out = (mr_attr){.kind = MR_ATTR_NONE};
    while (mr_pb_next(r, &field, &wire))
        MR_TRY(read_field(room, r, field, out));
    return mr_pb_reader_status(r, "AttrValue");
}

mr_status *mr_attr_read(const mr_attr_room *room, mr_pb_reader *r, mr_attr *out)
{
    return read_value(room, r, out);
}

mr_status *mr_attr_decode(mr_arena *a, mr_sv bytes, mr_attr *out)
{
    mr_pb_reader r;
    mr_pb_reader_init(&r, bytes);
    return mr_attr_read(&(mr_attr_room){.arena = a}, &r, out);
}

mr_status *mr_named_attr_read(const mr_attr_room *room, mr_pb_reader *r, mr_named_attr *out)
{
    return read_entry(room, r, out);
}

/* ---- writing ---- */

static void write_shape(const mr_pshape *s, mr_pb_writer *w)
{
    size_t mark = mr_pb_begin(w, F_SHAPE);
    mr_pshape_encode(s, w->out);
    mr_pb_end(w, mark);
}

static mr_status *write_tensor(const mr_tensor_attr *v, mr_pb_writer *w)
{
    if (v->raw.p) {
        mr_pb_put_bytes(w, F_TENSOR, v->raw);
        return NULL;
    }
    mr_str bytes = {0};
    mr_status *st = mr_tensor_encode(v->t, &bytes);
    if (!st)
        mr_pb_put_bytes(w, F_TENSOR, mr_str_view(&bytes));
    mr_str_deinit(&bytes);
    return st;
}

static mr_status *write_func(const mr_func_ref *f, uint32_t field, mr_pb_writer *w)
{
    size_t mark = mr_pb_begin(w, field);
    mr_pb_opt_bytes(w, 1, mr_sv_of(f->name));
    mr_status *st = mr_named_attrs_write(f->attrs, f->n_attrs, 2, w);
    mr_pb_end(w, mark);
    return st;
}

/* Numbers are written packed, as protobuf does; an empty list of any kind is an empty message. */
static mr_status *write_list(const mr_attr *v, mr_pb_writer *w)
{
    size_t n = (size_t)v->n, mark;
    mr_status *st = NULL;
    mark = mr_pb_begin(w, F_LIST);
    if (v->kind == MR_ATTR_INT)
        mr_pb_put_packed_int64(w, F_I, v->is, n);
    else if (v->kind == MR_ATTR_FLOAT)
        mr_pb_put_packed_fixed(w, F_F, v->fs, n, sizeof(float));
    else if (v->kind == MR_ATTR_BOOL)
        mr_pb_put_packed_fixed(w, F_B, v->bs, n,
                               sizeof(bool)); /* one byte each, 0 or 1: the same as their varints */
    else if (v->kind == MR_ATTR_TYPE)
        mr_pb_put_packed_int32(w, F_TYPE, v->types, n);
    for (size_t i = 0; i < n && !st; i++) {
        if (v->kind == MR_ATTR_STRING)
            mr_pb_put_bytes(w, F_S, v->ss[i]);
        else if (v->kind == MR_ATTR_SHAPE)
            write_shape(v->shapes[i], w);
        else if (v->kind == MR_ATTR_TENSOR)
            st = write_tensor(v->tensors[i], w);
        else if (v->kind == MR_ATTR_FUNC)
            st = write_func(v->funcs[i], 9, w);
        else
            break;
    }
    mr_pb_end(w, mark);
    return st;
}

mr_status *mr_attr_write(const mr_attr *v, mr_pb_writer *w)
{
    if (v->is_list)
        return write_list(v, w);
    switch (v->kind) {
    case MR_ATTR_NONE: break;
    case MR_ATTR_STRING: mr_pb_put_bytes(w, F_S, v->s); break;
    case MR_ATTR_INT: mr_pb_put_varint(w, F_I, (uint64_t)v->i); break;
    case MR_ATTR_FLOAT: mr_pb_put_float(w, F_F, v->f); break;
    case MR_ATTR_BOOL: mr_pb_put_varint(w, F_B, v->b); break;
    case MR_ATTR_TYPE: mr_pb_put_varint(w, F_TYPE, (uint64_t)(int64_t)v->type); break;
    case MR_ATTR_SHAPE: write_shape(v->shape, w); break;
    case MR_ATTR_TENSOR: return write_tensor(v->tensor, w);
    case MR_ATTR_PLACEHOLDER: mr_pb_put_bytes(w, F_PLACEHOLDER, v->s); break;
    case MR_ATTR_FUNC: return write_func(v->func, F_FUNC, w);
    }
    return NULL;
}

mr_status *mr_attr_encode(const mr_attr *v, mr_str *out)
{
    mr_pb_writer w;
    mr_pb_writer_init(&w, out);
    MR_TRY(mr_attr_write(v, &w));
    return mr_pb_writer_status(&w, "AttrValue");
}

mr_status *mr_named_attrs_write(const mr_named_attr *v, int n, uint32_t field, mr_pb_writer *w)
{
    mr_status *st = NULL;
    for (int i = 0; i < n && !st; i++) {
        size_t entry = mr_pb_begin(w, field), value;
        mr_pb_put_bytes(w, 1, mr_sv_of(v[i].name));
        value = mr_pb_begin(w, 2);
        st = mr_attr_write(&v[i].v, w);
        mr_pb_end(w, value);
        mr_pb_end(w, entry);
    }
    return st;
}
