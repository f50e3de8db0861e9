/* tensor/tensor_proto.c -- TensorProto, both ways.
 *
 *      1 dtype          5 float_val      9 scomplex_val   13 half_val              17 uint64_val
 *      2 tensor_shape   6 double_val    10 int64_val      14 resource_handle_val   18 float8_val
 *      3 version        7 int_val       11 bool_val       15 variant_val
 *      4 content        8 string_val    12 dcomplex_val   16 uint32_val
 *
 * Elements stand in tensor_content, as they are in memory, or in the one typed field that belongs
 * to the dtype.  Fields come in any order and the dtype may come last, so a proto is read twice:
 * first for what it says, then for its values.
 *
 * Nothing is allocated before the bytes are known to be worth it: content has exactly the size of
 * the elements, a typed field has at least a byte a value, and what is added to the values that are
 * there is limited (MR_SPLAT_MAX). */
#include "tensor/tensor.h"

#include "base/memory.h"
#include "tensor/buffer.h"
#include "tensor/handle_proto.h"
#include "tensor/variant.h"
#include "wire/pb.h"

enum {
    F_DTYPE = 1,
    F_SHAPE = 2,
    F_CONTENT = 4,
    F_FLOAT = 5,
    F_DOUBLE = 6,
    F_INT = 7,
    F_STRING = 8,
    F_SCOMPLEX = 9,
    F_INT64 = 10,
    F_BOOL = 11,
    F_DCOMPLEX = 12,
    F_HALF = 13,
    F_RESOURCE = 14,
    F_VARIANT = 15,
    F_UINT32 = 16,
    F_UINT64 = 17,
    F_FLOAT8 = 18,
};

/* The typed field of a plain dtype and how its values are written: complex ones are two each. */
typedef struct value_field {
    uint32_t field, wire;
    int per_element;
} value_field;

static value_field field_of(mr_dtype t)
{
    switch (t) {
    case MR_FLOAT: return (value_field){F_FLOAT, MR_WIRE_FIXED32, 1};
    case MR_DOUBLE: return (value_field){F_DOUBLE, MR_WIRE_FIXED64, 1};
    case MR_COMPLEX64: return (value_field){F_SCOMPLEX, MR_WIRE_FIXED32, 2};
    case MR_COMPLEX128: return (value_field){F_DCOMPLEX, MR_WIRE_FIXED64, 2};
    case MR_HALF:
    case MR_BFLOAT16: return (value_field){F_HALF, MR_WIRE_VARINT, 1};
    case MR_BOOL: return (value_field){F_BOOL, MR_WIRE_VARINT, 1};
    case MR_INT64: return (value_field){F_INT64, MR_WIRE_VARINT, 1};
    case MR_UINT32: return (value_field){F_UINT32, MR_WIRE_VARINT, 1};
    case MR_UINT64: return (value_field){F_UINT64, MR_WIRE_VARINT, 1};
    case MR_FLOAT8_E5M2:
    case MR_FLOAT8_E4M3FN: return (value_field){F_FLOAT8, MR_WIRE_BYTES, 1};
    default: return (value_field){F_INT, MR_WIRE_VARINT, 1};
    }
}

/* ---- decoding -------------------------------------------------------------------------------- */

typedef struct decoder {
    mr_allocator *a;
    mr_sv bytes;   /* the whole proto */
    mr_sv content; /* tensor_content */
    mr_dtype dtype;
    int rank;
    const int64_t *dims;
    int64_t n;
    size_t n_bytes; /* of n elements in memory */
} decoder;

/* First reading.  Of a field given twice the last counts. */
static mr_status *read_head(mr_sv bytes, int32_t *dtype, mr_sv *shape, mr_sv *content)
{
    mr_pb_reader r;
    uint32_t field, wire;
    *dtype = MR_INVALID;
    *shape = *content = MR_SV("");
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire)) {
        switch (field) {
        case F_DTYPE: *dtype = mr_pb_int32(&r); break;
        case F_SHAPE: *shape = mr_pb_bytes(&r); break;
        case F_CONTENT: *content = mr_pb_bytes(&r); break;
        default: mr_pb_skip(&r);
        }
    }
    return mr_pb_reader_status(&r, "TensorProto");
}

/* Called only once the bytes are known to fill it. */
static mr_status *new_tensor(const decoder *d, mr_tensor **out)
{
    return mr_tensor_new(d->a, d->dtype, d->rank, d->dims, out);
}

/* `each` is the memory that each element without its own value takes. */
static mr_status *check_splat(const decoder *d, int64_t n_values, size_t each)
{
    size_t added;
    if (n_values >= d->n ||
        (mr_size_mul((size_t)(d->n - n_values), each, &added) && added <= MR_SPLAT_MAX))
        return NULL;
    return mr_error(
        MR_RESOURCE_EXHAUSTED,
        "TensorProto: %lld values for shape %s of type %s would grow to more than %zu bytes",
        (long long)n_values, MR_SHAPE_TEXT(d->rank, d->dims), mr_dtype_name((int)d->dtype),
        MR_SPLAT_MAX);
}

/* Repeats the element before p n times. Copies everything that is already repeated, so each copy is
 * twice as long as the last. */
static void repeat_last(char *p, size_t size, size_t n)
{
    const char *from = p - size; /* the elements from here to p are all equal */
    for (size_t left = n * size, step = size; left > 0; left -= step, p += step) {
        step = MR_MIN((size_t)(p - from), left);
        memcpy(p, from, step);
    }
}

/* ---- plain types ---- */

/* Any non-zero byte becomes true, because a C bool must be 0 or 1. */
static void clean_bools(mr_tensor *t)
{
    uint8_t *p = t->data;
    if (t->dtype == MR_BOOL)
        for (int64_t i = 0; i < t->n; i++)
            p[i] = p[i] != 0;
}

/* The common case: one copy. */
static mr_status *decode_content(const decoder *d, mr_tensor **out)
{
    if (d->content.n != d->n_bytes)
        return mr_invalid(
            "TensorProto: tensor_content has %zu bytes, but shape %s of type %s takes %zu",
            d->content.n, MR_SHAPE_TEXT(d->rank, d->dims), mr_dtype_name((int)d->dtype),
            d->n_bytes);
    MR_TRY(new_tensor(d, out));
    memcpy((*out)->data, d->content.p, d->content.n);
    clean_bools(*out);
    return NULL;
}

/* The values of one occurrence of the field: a reader over them, and how many they are. */
static size_t open_values(mr_pb_reader *r, value_field f, mr_pb_reader *values)
{
    if (f.wire == MR_WIRE_BYTES) {
        mr_sv v = mr_pb_bytes(r);
        mr_pb_reader_init(values, v);
        return v.n;
    }
    mr_pb_packed(r, f.wire, values);
    if (f.wire == MR_WIRE_VARINT && mr_pb_more(values) && values->end[-1] >= 0x80)
        mr_pb_fail(values, "truncated");
    return mr_pb_packed_count(values);
}

/* Old writers give each value a separate tag, and both forms may be mixed: all occurrences count. */
static mr_status *count_values(const decoder *d, value_field f, int64_t *out)
{
    mr_pb_reader r, values;
    uint32_t field, wire;
    size_t n = 0;
    mr_pb_reader_init(&r, d->bytes);
    while (mr_pb_next(&r, &field, &wire)) {
        if (field == f.field)
            n += open_values(&r, f, &values);
        else
            mr_pb_skip(&r);
    }
    *out = (int64_t)(n / (size_t)f.per_element);
    return mr_pb_reader_status(&r, "TensorProto");
}

/* Varints keep their low bytes, which are first in memory. */
static void store_varints(mr_pb_reader *values, mr_dtype dtype, char *dst, size_t size, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t v = mr_pb_varint(values);
        if (dtype == MR_BOOL)
            v = v != 0;
        switch (size) {
        case 1: memcpy(dst + i, &v, 1); break;
        case 2: memcpy(dst + 2 * i, &v, 2); break;
        case 4: memcpy(dst + 4 * i, &v, 4); break;
        default: memcpy(dst + 8 * i, &v, 8);
        }
    }
}

/* Second reading: up to `room` values go to dst. */
static mr_status *store_values(const decoder *d, value_field f, char *dst, size_t size, size_t room)
{
    mr_pb_reader r, values;
    uint32_t field, wire;
    mr_pb_reader_init(&r, d->bytes);
    while (mr_pb_next(&r, &field, &wire)) {
        if (field != f.field) {
            mr_pb_skip(&r);
            continue;
        }
        size_t n = open_values(&r, f, &values);
        n = MR_MIN(n, room);
        if (f.wire == MR_WIRE_VARINT)
            store_varints(&values, d->dtype, dst, size, n);
        else if (n > 0)
            memcpy(dst, mr_pb_rest(&values).p, n * size);
        dst += n * size;
        room -= n;
    }
    return mr_pb_reader_status(&r, "TensorProto");
}

/* A typed field of a plain type, and the splat rule. */
static mr_status *decode_values(const decoder *d, mr_tensor **out)
{
    value_field f = field_of(d->dtype);
    size_t size = mr_dtype_size(d->dtype);
    int64_t n_values;
    mr_tensor *t;
    MR_TRY(count_values(d, f, &n_values));
    MR_TRY(check_splat(d, n_values, size));
    MR_TRY(new_tensor(d, &t));
    size_t n = (size_t)MR_MIN(n_values, d->n), per = (size_t)f.per_element;
    mr_status *st = store_values(d, f, t->data, size / per, n * per);
    if (st) {
        mr_tensor_unref(t);
        return st;
    }
    if (n == 0)
        memset(t->data, 0, d->n_bytes);
    else
        repeat_last((char *)t->data + n * size, size, (size_t)d->n - n);
    *out = t;
    return NULL;
}

/* ---- strings, resources, variants: elements of any length ---- */

/* Element i, which is still empty, from its bytes. */
static mr_status *set_element(mr_tensor *t, int64_t i, mr_sv v)
{
    if (t->dtype == MR_STRING)
        return mr_tensor_set_str(t, i, v);
    if (v.n == 0)
        return NULL; /* an empty handle or variant is NULL */
    if (t->dtype == MR_RESOURCE)
        return mr_handle_decode(v, &MR_DATA(mr_handle *, t)[i]);
    return mr_variant_decode(v, &MR_DATA(mr_object *, t)[i]);
}

/* The memory of one more element like v: its place in the array, and a block for a long string. */
static size_t element_cost(mr_dtype dtype, mr_sv v)
{
    return mr_dtype_size(dtype) +
           (dtype == MR_STRING && v.n > TF_TString_SmallCapacity ? v.n + 16 : 0);
}

/* Elements after the given ones are as the last of them; variants are empty. */
static mr_status *splat_elements(mr_tensor *t, int64_t n_values)
{
    if (n_values == 0 || t->dtype == MR_VARIANT)
        return NULL;
    for (int64_t i = n_values; i < t->n; i++)
        MR_TRY(mr_tensor_try_copy_elements(t, i, t, n_values - 1, 1));
    return NULL;
}

/* Surplus values are passed over, unread. */
static mr_status *fill_fields(const decoder *d, uint32_t wanted, mr_tensor *t)
{
    mr_pb_reader r;
    uint32_t field, wire;
    int64_t i = 0;
    mr_pb_reader_init(&r, d->bytes);
    while (mr_pb_next(&r, &field, &wire)) {
        if (field == wanted && i < d->n)
            MR_TRY(set_element(t, i++, mr_pb_bytes(&r)));
        else
            mr_pb_skip(&r);
    }
    MR_TRY(mr_pb_reader_status(&r, "TensorProto"));
    return splat_elements(t, i);
}

/* How many values there are, and the last one that counts. */
static mr_status *count_fields(const decoder *d, uint32_t wanted, int64_t *n, mr_sv *last)
{
    mr_pb_reader r;
    uint32_t field, wire;
    *n = 0;
    *last = MR_SV("");
    mr_pb_reader_init(&r, d->bytes);
    while (mr_pb_next(&r, &field, &wire)) {
        if (field != wanted) {
            mr_pb_skip(&r);
            continue;
        }
        *last = mr_pb_bytes(&r);
        ++*n;
    }
    return mr_pb_reader_status(&r, "TensorProto");
}

static mr_status *decode_fields(const decoder *d, mr_tensor **out)
{
    uint32_t wanted = d->dtype == MR_STRING     ? F_STRING
                      : d->dtype == MR_RESOURCE ? F_RESOURCE
                                                : F_VARIANT;
    int64_t n_values;
    mr_sv last;
    mr_tensor *t;
    MR_TRY(count_fields(d, wanted, &n_values, &last));
    MR_TRY(check_splat(d, n_values, element_cost(d->dtype, last)));
    MR_TRY(new_tensor(d, &t));
    mr_status *st = fill_fields(d, wanted, t);
    if (st)
        mr_tensor_unref(t);
    else
        *out = t;
    return st;
}

/* tensor_content of strings and resources: n lengths, then the bytes of all.  Leaves r at the
 * bytes. */
static mr_status *check_framing(const decoder *d, mr_pb_reader *r)
{
    uint64_t total = 0;
    mr_pb_reader_init(r, d->content);
    for (int64_t i = 0; i < d->n && mr_pb_more(r) && total <= d->content.n; i++) {
        uint64_t n = mr_pb_raw_varint(r);
        if (n > UINT32_MAX)
            mr_pb_fail(r, "a length of more than 32 bits");
        total += n;
        if (i == d->n - 1 && !r->error && total == mr_pb_rest(r).n)
            return NULL;
    }
    MR_TRY(mr_pb_reader_status(r, "TensorProto: tensor_content"));
    return mr_invalid(
        "TensorProto: %zu bytes of tensor_content are not %lld lengths and their bytes",
        d->content.n, (long long)d->n);
}

/* Lengths and bytes are read side by side; check_framing has seen that both are there. */
static mr_status *decode_framed(const decoder *d, mr_tensor **out)
{
    mr_pb_reader lengths, data;
    mr_tensor *t;
    mr_status *st = NULL;
    if (d->dtype == MR_VARIANT)
        return mr_error(MR_UNIMPLEMENTED, "TensorProto: variants in tensor_content cannot be read");
    MR_TRY(check_framing(d, &data));
    MR_TRY(new_tensor(d, &t));
    const char *p = mr_pb_rest(&data).p;
    MR_ASSERT(d->n > 0 && d->content.n > 0);
    mr_pb_reader_init(&lengths, d->content);
    for (int64_t i = 0; i < d->n && !st; i++) {
        size_t n = (size_t)mr_pb_raw_varint(&lengths);
        st = set_element(t, i, (mr_sv){p, n});
        p += n;
    }
    if (st)
        mr_tensor_unref(t);
    else
        *out = t;
    return st;
}

/* ---- any type ---- */

static mr_status *decode_tensor(decoder *d, mr_tensor **out)
{
    bool plain = mr_dtype_is_plain(d->dtype);
    if (d->a && !d->a->host) /* bytes are written to it here and now */
        d->a = NULL;
    MR_TRY(mr_tensor_measure(d->dtype, d->rank, d->dims, &d->n, &d->n_bytes));
    if (d->n == 0) /* needs no data, so none is looked at */
        return new_tensor(d, out);
    if (d->content.n > 0)
        return plain ? decode_content(d, out) : decode_framed(d, out);
    return plain ? decode_values(d, out) : decode_fields(d, out);
}

mr_status *mr_tensor_decode(mr_allocator *a, mr_sv bytes, mr_tensor **out)
{
    decoder d = {.a = a, .bytes = bytes};
    int32_t dtype;
    mr_sv shape_bytes;
    mr_shape shape;
    MR_TRY(read_head(bytes, &dtype, &shape_bytes, &d.content));
    if (!mr_dtype_valid(dtype)) /* references too: a value has no such type */
        return mr_invalid("TensorProto: dtype %d (%s) is not a type of tensors", dtype,
                          mr_dtype_name(dtype));
    MR_TRY(mr_shape_decode(shape_bytes, &shape));
    d.dtype = (mr_dtype)dtype;
    d.rank = shape.rank;
    d.dims = shape.dims;
    return decode_tensor(&d, out);
}

mr_status *mr_tensor_decode_as(mr_allocator *a, mr_dtype dtype, int rank, const int64_t *dims,
                               mr_sv bytes, mr_tensor **out)
{
    decoder d = {.a = a, .bytes = bytes, .dtype = dtype, .rank = rank, .dims = dims};
    int32_t ignored_dtype;
    mr_sv ignored_shape;
    MR_TRY(read_head(bytes, &ignored_dtype, &ignored_shape, &d.content));
    return decode_tensor(&d, out);
}

/* ---- encoding -------------------------------------------------------------------------------- */

/* The one element of a plain tensor in its typed field. */
static void put_value(mr_pb_writer *w, const mr_tensor *t)
{
    value_field f = field_of(t->dtype);
    int64_t v;
    if (f.wire == MR_WIRE_FIXED32 || f.wire == MR_WIRE_FIXED64) {
        mr_pb_put_packed_fixed(w, f.field, t->data, (size_t)f.per_element,
                               mr_dtype_size(t->dtype) / (size_t)f.per_element);
        return;
    }
    if (t->dtype == MR_HALF || t->dtype == MR_BFLOAT16)
        v = *MR_DATA(uint16_t, t); /* the bits, not the number */
    else
        mr_dtype_convert(t->dtype, t->data, MR_INT64, &v, 1, false); /* uint64 keeps its bits */
    mr_pb_put_packed_int64(w, f.field, &v, 1);
}

/* Strings, resources and variants, one field each. */
static mr_status *put_elements(mr_pb_writer *w, const mr_tensor *t)
{
    for (int64_t i = 0; i < t->n; i++) {
        if (t->dtype == MR_STRING) {
            mr_pb_put_bytes(w, F_STRING, mr_tensor_str_at(t, i));
        } else if (t->dtype == MR_RESOURCE) {
            const mr_handle *h = MR_DATA(mr_handle *, t)[i];
            size_t mark = mr_pb_begin(w, F_RESOURCE);
            if (h)
                mr_handle_write(h, w);
            mr_pb_end(w, mark);
        } else {
            const mr_object *o = MR_DATA(mr_object *, t)[i];
            mr_str bytes = {0};
            mr_status *st = o ? mr_variant_encode(o, &bytes) : NULL;
            if (!st)
                mr_pb_put_bytes(w, F_VARIANT, mr_str_view(&bytes));
            mr_str_deinit(&bytes);
            MR_TRY(st);
        }
    }
    return NULL;
}

/* 8-bit floats and 4-bit integers have typed fields that not all readers know. */
static bool stored_only(mr_dtype t)
{
    return t == MR_FLOAT8_E5M2 || t == MR_FLOAT8_E4M3FN || t == MR_INT4 || t == MR_UINT4;
}

/* In the order of the field numbers, as protobuf itself writes. */
static mr_status *encode_head(const mr_tensor *t, mr_str *out, mr_sv *content)
{
    mr_pb_writer w;
    mr_str shape = {0};
    *content = MR_SV("");
    mr_pb_writer_init(&w, out);
    mr_pb_put_varint(&w, F_DTYPE, t->dtype);
    mr_shape_encode(t->rank, t->dims, &shape);
    mr_pb_put_bytes(&w, F_SHAPE, mr_str_view(&shape)); /* a scalar's is empty, but there */
    mr_str_deinit(&shape);
    if (t->n > 0 && !mr_dtype_is_plain(t->dtype)) {
        MR_TRY(put_elements(&w, t));
    } else if (t->n > 1 || (t->n == 1 && stored_only(t->dtype))) {
        *content = (mr_sv){t->data, mr_tensor_bytes(t)};
        mr_pb_put_header(&w, F_CONTENT, content->n);
    } else if (t->n == 1) {
        put_value(&w, t);
    }
    return mr_pb_writer_status(&w, "TensorProto");
}

/* Takes a failed message off again. */
static mr_status *whole_or_nothing(mr_str *out, size_t n, mr_status *st)
{
    if (st && out->p) {
        out->n = n;
        out->p[n] = '\0';
    }
    return st;
}

mr_status *mr_tensor_encode_head(const mr_tensor *t, mr_str *out, mr_sv *content)
{
    return whole_or_nothing(out, out->n, encode_head(t, out, content));
}

mr_status *mr_tensor_encode(const mr_tensor *t, mr_str *out)
{
    size_t n = out->n;
    mr_sv content;
    mr_status *st = encode_head(t, out, &content);
    if (!st && !mr_str_try_append(out, content.p, content.n))
        st = mr_error(MR_RESOURCE_EXHAUSTED, "TensorProto: no memory for %zu bytes", content.n);
    return whole_or_nothing(out, n, st);
}
