/* store/checkpoint_v1_writer.c -- writing checkpoints of the first format.
 *
 * Entries must go into the table in the order of their keys, and the entry "" that lists them all comes first: so all
 * entries stay in memory until the end and are then sorted and written. */
#include <stdlib.h>

#include "base/map.h"
#include "base/memory.h"
#include "base/vec.h"
#include "store/checkpoint_v1.h"
#include "store/table.h"
#include "wire/pb.h"

enum { /* fields */
    SLICES_META = 1, SLICES_DATA = 2,
    META_TENSOR = 1, META_VERSIONS = 2,
    TENSOR_NAME = 1, TENSOR_SHAPE = 2, TENSOR_TYPE = 3, TENSOR_SLICE = 4,
    SLICE_NAME = 1, SLICE_SLICE = 2, SLICE_DATA = 3,
};
enum { VERSION = 1 };

typedef struct saved {
    char *name;
    mr_dtype dtype;
    mr_shape shape;
    MR_VEC(mr_slice *) slices;
} saved;

typedef struct entry {
    mr_str key, value;
} entry;

struct mr_v1_writer {
    mr_writer *file;
    mr_map names; /* to saved *, which `tensors` owns */
    MR_VEC(saved *) tensors;
    MR_VEC(entry) entries;
};

mr_status *mr_v1_writer_new(const char *path, mr_v1_writer **out)
{
    mr_v1_writer *w = mr_new(mr_v1_writer);
    mr_status *st = mr_writer_open(path, &w->file);
    if (st)
        mr_v1_writer_free(w);
    else
        *out = w;
    return st;
}

void mr_v1_writer_free(mr_v1_writer *w)
{
    if (!w)
        return;
    for (int i = 0; i < w->tensors.n; i++) {
        for (int k = 0; k < w->tensors.p[i]->slices.n; k++)
            mr_free(w->tensors.p[i]->slices.p[k]);
        mr_vec_deinit(&w->tensors.p[i]->slices);
        mr_free(w->tensors.p[i]->name);
        mr_free(w->tensors.p[i]);
    }
    for (int i = 0; i < w->entries.n; i++) {
        mr_str_deinit(&w->entries.p[i].key);
        mr_str_deinit(&w->entries.p[i].value);
    }
    mr_vec_deinit(&w->tensors);
    mr_vec_deinit(&w->entries);
    mr_map_deinit(&w->names);
    mr_writer_free(w->file);
    mr_free(w);
}

/* ---- values ---- */

/* Packed varints; signed types sign-extended as protobuf wants, 16-bit floats as their bits. */
static void put_ints(mr_pb_writer *w, uint32_t field, const mr_tensor *t)
{
    size_t mark = mr_pb_begin(w, field);
    for (int64_t i = 0; i < t->n; i++) {
        int64_t v = 0;
        const char *p = (const char *)t->data + (size_t)i * mr_dtype_size((mr_dtype)t->dtype);
        switch ((mr_dtype)t->dtype) {
        case MR_INT8: case MR_QINT8: v = *(const int8_t *)p; break;
        case MR_UINT8: case MR_QUINT8: case MR_BOOL: v = *(const uint8_t *)p; break;
        case MR_INT16: case MR_QINT16: v = *(const int16_t *)p; break;
        case MR_UINT16: case MR_QUINT16: case MR_HALF: case MR_BFLOAT16: v = *(const uint16_t *)p; break;
        case MR_INT32: case MR_QINT32: v = *(const int32_t *)p; break;
        case MR_UINT32: v = *(const uint32_t *)p; break;
        default: v = *(const int64_t *)p; break; /* int64, uint64 */
        }
        mr_pb_put_raw_varint(w, (uint64_t)v);
    }
    mr_pb_end(w, mark);
}

/* The field of a TensorProto that holds values of a type; 0 if the type cannot be saved. */
static uint32_t field_of(mr_dtype t)
{
    switch (t) {
    case MR_FLOAT: return 5;
    case MR_DOUBLE: return 6;
    case MR_INT8: case MR_QINT8: case MR_UINT8: case MR_QUINT8: case MR_INT16: case MR_QINT16:
    case MR_UINT16: case MR_QUINT16: case MR_INT32: case MR_QINT32: return 7;
    case MR_STRING: return 8;
    case MR_COMPLEX64: return 9;
    case MR_INT64: return 10;
    case MR_BOOL: return 11;
    case MR_COMPLEX128: return 12;
    case MR_HALF: case MR_BFLOAT16: return 13;
    case MR_UINT32: return 16;
    case MR_UINT64: return 17;
    default: return 0;
    }
}

static void put_values(mr_pb_writer *w, const mr_tensor *t)
{
    mr_dtype type = (mr_dtype)t->dtype;
    uint32_t field = field_of(type);
    if (t->n == 0)
        return;
    if (type == MR_STRING)
        for (int64_t i = 0; i < t->n; i++)
            mr_pb_put_bytes(w, field, mr_tensor_str_at(t, i));
    else if (type == MR_FLOAT || type == MR_DOUBLE || type == MR_COMPLEX64 || type == MR_COMPLEX128)
        mr_pb_put_bytes(w, field, (mr_sv){t->data, mr_tensor_bytes(t)}); /* packed fixed values */
    else
        put_ints(w, field, t);
}

/* ---- adding ---- */

/* Checks that another part of a tensor agrees with the parts before it and does not overlap them. */
static mr_status *check_part(const saved *s, mr_sv name, mr_dtype dtype, const mr_shape *full,
                             const mr_slice *slice)
{
    mr_slice common;
    if (s->dtype != dtype)
        return mr_invalid("Mismatching types: existing type = %s, trying to add name %.*s, type = %s",
                          mr_dtype_name(s->dtype), MR_SV_ARG(name), mr_dtype_name(dtype));
    if (!mr_shape_eq(s->shape.rank, s->shape.dims, full->rank, full->dims))
        return mr_invalid("Mismatching shapes: existing tensor = %s, trying to add name %.*s, shape = "
                          "%s",
                          MR_SHAPE_TEXT(s->shape.rank, s->shape.dims), MR_SV_ARG(name),
                          MR_SHAPE_TEXT(full->rank, full->dims));
    for (int i = 0; i < s->slices.n; i++)
        if (mr_slice_intersect(s->slices.p[i], slice, full->dims, &common))
            return mr_invalid("Overlapping slices of tensor %.*s", MR_SV_ARG(name));
    return NULL;
}

/* Records a part in the list of tensors; the first part creates the tensor's entry. */
static mr_status *note_part(mr_v1_writer *w, mr_sv name, mr_dtype dtype, const mr_shape *full,
                            const mr_slice *slice)
{
    saved *s = mr_map_get(&w->names, name);
    if (s) {
        MR_TRY(check_part(s, name, dtype, full, slice));
    } else {
        s = mr_new(saved);
        s->name = mr_strndup(name.p, name.n);
        s->dtype = dtype;
        s->shape = *full;
        mr_map_put(&w->names, name, s);
        mr_vec_push(&w->tensors, s);
    }
    mr_slice *copy = mr_new(mr_slice);
    *copy = *slice;
    mr_vec_push(&s->slices, copy);
    return NULL;
}

/* Encodes the part at once, so t may change afterwards. */
mr_status *mr_v1_add(mr_v1_writer *w, mr_sv name, const mr_shape *full, const mr_slice *slice,
                     const mr_tensor *t)
{
    entry e = {0};
    mr_str part = {0};
    mr_pb_writer pb;
    if (field_of((mr_dtype)t->dtype) == 0)
        return mr_error(MR_UNIMPLEMENTED, "Trying to save tensor %.*s of unsupported type %s",
                        MR_SV_ARG(name), mr_dtype_name((mr_dtype)t->dtype));
    if (mr_tensor_bytes(t) > INT32_MAX)
        return mr_invalid("Tensor slice is too large to serialize (conservative estimate: %zu bytes)",
                          mr_tensor_bytes(t));
    MR_TRY(note_part(w, name, (mr_dtype)t->dtype, full, slice));
    mr_slice_encode(slice, &part);
    mr_slice_key(name, slice, &e.key);
    mr_pb_writer_init(&pb, &e.value);
    size_t data = mr_pb_begin(&pb, SLICES_DATA);
    mr_pb_opt_bytes(&pb, SLICE_NAME, name);
    mr_pb_put_bytes(&pb, SLICE_SLICE, mr_str_view(&part));
    size_t tensor = mr_pb_begin(&pb, SLICE_DATA);
    put_values(&pb, t);
    mr_pb_end(&pb, tensor);
    mr_pb_end(&pb, data);
    mr_str_deinit(&part);
    mr_vec_push(&w->entries, e);
    return mr_pb_writer_status(&pb, "SavedTensorSlices");
}

/* ---- finishing ---- */

static void put_shape(mr_pb_writer *w, const mr_shape *s)
{
    size_t mark = mr_pb_begin(w, TENSOR_SHAPE);
    for (int i = 0; i < s->rank; i++) {
        size_t dim = mr_pb_begin(w, 2);
        mr_pb_opt_varint(w, 1, (uint64_t)s->dims[i]);
        mr_pb_end(w, dim);
    }
    mr_pb_end(w, mark);
}

static void put_tensor(mr_pb_writer *w, const saved *s)
{
    mr_str part = {0};
    size_t mark = mr_pb_begin(w, META_TENSOR);
    mr_pb_opt_bytes(w, TENSOR_NAME, mr_sv_of(s->name));
    put_shape(w, &s->shape);
    mr_pb_put_varint(w, TENSOR_TYPE, (uint64_t)s->dtype);
    for (int i = 0; i < s->slices.n; i++) {
        mr_str_clear(&part);
        mr_slice_encode(s->slices.p[i], &part);
        mr_pb_put_bytes(w, TENSOR_SLICE, mr_str_view(&part));
    }
    mr_pb_end(w, mark);
    mr_str_deinit(&part);
}

static mr_status *encode_meta(const mr_v1_writer *w, mr_str *out)
{
    mr_pb_writer pb;
    mr_pb_writer_init(&pb, out);
    size_t meta = mr_pb_begin(&pb, SLICES_META);
    for (int i = 0; i < w->tensors.n; i++)
        put_tensor(&pb, w->tensors.p[i]);
    size_t versions = mr_pb_begin(&pb, META_VERSIONS);
    mr_pb_put_varint(&pb, 1, VERSION);
    mr_pb_end(&pb, versions);
    mr_pb_end(&pb, meta);
    return mr_pb_writer_status(&pb, "SavedTensorSlices");
}

static int by_key(const void *a, const void *b)
{
    return mr_bytes_compare(mr_str_view(&((const entry *)a)->key), mr_str_view(&((const entry *)b)->key));
}

/* The file gets its name only when everything is written. */
mr_status *mr_v1_finish(mr_v1_writer *w)
{
    mr_table_writer *t = mr_table_writer_new(w->file);
    mr_str meta = {0};
    mr_status *st = NULL;
    if (w->entries.n > 0)
        qsort(w->entries.p, (size_t)w->entries.n, sizeof(entry), by_key);
    MR_GO(encode_meta(w, &meta));
    MR_GO(mr_table_writer_add(t, MR_SV(""), mr_str_view(&meta)));
    for (int i = 0; i < w->entries.n; i++)
        MR_GO(mr_table_writer_add(t, mr_str_view(&w->entries.p[i].key),
                                  mr_str_view(&w->entries.p[i].value)));
    MR_GO(mr_table_writer_finish(t));
    MR_GO(mr_writer_commit(w->file));
out:
    mr_table_writer_free(t);
    mr_str_deinit(&meta);
    return st;
}
