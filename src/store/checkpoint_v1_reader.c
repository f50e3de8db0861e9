/* store/checkpoint_v1_reader.c -- reading checkpoints of the first format.
 *
 * Nothing in a file is trusted. The list of tensors says where their parts are. A part's bytes must hold all of its
 * values, so no tensor becomes larger than the files it is read from. */
#include "base/map.h"
#include "base/memory.h"
#include "base/vec.h"
#include "store/checkpoint_v1.h"
#include "store/matching.h"
#include "store/table.h"
#include "wire/pb.h"

typedef struct part {
    int file;
    mr_sv slice; /* TensorSliceProto, in the file's table */
} part;

typedef struct listed {
    mr_sv name; /* in a file's table */
    mr_dtype dtype;
    mr_shape shape;
    MR_VEC(part) parts;
} listed;

struct mr_v1_reader {
    MR_VEC(mr_table) files;
    MR_VEC(char *) paths;
    uint64_t bytes; /* of all values in all files */
    mr_map names;   /* to listed *, owned by `tensors` */
    MR_VEC(listed *) tensors;
};

void mr_v1_close(mr_v1_reader *r)
{
    if (!r)
        return;
    for (int i = 0; i < r->tensors.n; i++) {
        mr_vec_deinit(&r->tensors.p[i]->parts);
        mr_free(r->tensors.p[i]);
    }
    for (int i = 0; i < r->files.n; i++)
        mr_table_deinit(&r->files.p[i]);
    for (int i = 0; i < r->paths.n; i++)
        mr_free(r->paths.p[i]);
    mr_vec_deinit(&r->tensors);
    mr_vec_deinit(&r->files);
    mr_vec_deinit(&r->paths);
    mr_map_deinit(&r->names);
    mr_free(r);
}

static mr_status *file_corrupt(const mr_v1_reader *r, int file, const char *why)
{
    return mr_error(MR_DATA_LOSS, "%s: %s", r->paths.p[file], why);
}

static mr_status *not_found(mr_sv name)
{
    return mr_error(MR_NOT_FOUND, "Tensor name \"%.*s\" not found in checkpoint files", MR_SV_ARG(name));
}

/* ---- the list of tensors ---- */

static void read_shape(mr_pb_reader *r, mr_shape *out)
{
    mr_pb_reader dim;
    uint32_t field, wire;
    out->rank = 0;
    while (mr_pb_next(r, &field, &wire)) {
        if (field != 2) {
            mr_pb_skip(r);
            continue;
        }
        if (out->rank == MR_MAX_RANK) {
            mr_pb_fail(r, "too many dimensions");
            return;
        }
        int64_t *size = &out->dims[out->rank++];
        *size = 0;
        mr_pb_message(r, &dim);
        while (mr_pb_next(&dim, &field, &wire))
            if (field == 1)
                *size = mr_pb_int64(&dim);
            else
                mr_pb_skip(&dim);
        if (*size < 0)
            mr_pb_fail(r, "a dimension is negative");
    }
}

/* Reads a SavedSliceMeta into t and appends its parts. */
static void read_listed(mr_pb_reader *r, int file, listed *t)
{
    mr_pb_reader shape;
    uint32_t field, wire;
    t->name = MR_SV("");
    while (mr_pb_next(r, &field, &wire))
        if (field == 1) {
            t->name = mr_pb_bytes(r);
        } else if (field == 2) {
            mr_pb_message(r, &shape);
            read_shape(&shape, &t->shape);
        } else if (field == 3) {
            t->dtype = (mr_dtype)mr_pb_int32(r);
        } else if (field == 4) {
            mr_sv slice = mr_pb_bytes(r);
            mr_vec_push(&t->parts, (part){file, slice});
        } else {
            mr_pb_skip(r);
        }
}

/* Takes t over, or only its parts if another file has already listed the tensor. The caller keeps t in that case, and
 * on an error. */
static mr_status *keep_listed(mr_v1_reader *r, int file, listed *t)
{
    int64_t n;
    listed *known = mr_map_get(&r->names, t->name);
    mr_status *st = mr_shape_elements(t->shape.rank, t->shape.dims, &n);
    if (st || !mr_dtype_valid(t->dtype)) {
        mr_status_free(st);
        return file_corrupt(r, file, "a tensor has an impossible type or shape");
    }
    if (!known) {
        mr_map_put(&r->names, t->name, t);
        mr_vec_push(&r->tensors, t);
        return NULL;
    }
    if (known->dtype != t->dtype ||
        !mr_shape_eq(known->shape.rank, known->shape.dims, t->shape.rank, t->shape.dims))
        return file_corrupt(r, file, "a tensor has a different type or shape in another file");
    for (int i = 0; i < t->parts.n; i++)
        mr_vec_push(&known->parts, t->parts.p[i]);
    return NULL;
}

/* Reads a SavedTensorSliceMeta. keep_listed takes a tensor over or copies its parts to the known one; in the second
 * case it is freed here. */
static mr_status *read_meta(mr_v1_reader *r, int file, mr_pb_reader *meta)
{
    mr_pb_reader sub;
    uint32_t field, wire;
    while (mr_pb_next(meta, &field, &wire)) {
        if (field != 1) { /* versions: every existing version is readable */
            mr_pb_skip(meta);
            continue;
        }
        listed *t = mr_new(listed);
        mr_pb_message(meta, &sub);
        read_listed(&sub, file, t);
        mr_status *st = meta->error ? NULL : keep_listed(r, file, t);
        if (meta->error || mr_map_get(&r->names, t->name) != t) {
            mr_vec_deinit(&t->parts);
            mr_free(t);
        }
        MR_TRY(st);
    }
    return NULL;
}

/* Adds the tensors that a table lists. r already owns the table. */
static mr_status *register_file(mr_v1_reader *r, int file)
{
    const mr_table *table = &r->files.p[file];
    const mr_table_entry *e = mr_table_find(table, MR_SV(""));
    mr_pb_reader pb, meta;
    uint32_t field, wire;
    bool found = false;
    mr_status *st = NULL;
    if (!e)
        return file_corrupt(r, file, "not a checkpoint: it has no list of tensors");
    for (int i = 0; i < table->n; i++)
        r->bytes += table->entries[i].value.n;
    mr_pb_reader_init(&pb, e->value);
    while (!st && mr_pb_next(&pb, &field, &wire))
        if (field == 1) {
            found = true;
            mr_pb_message(&pb, &meta);
            st = read_meta(r, file, &meta);
        } else {
            mr_pb_skip(&pb);
        }
    if (!st && (pb.error || !found))
        st = file_corrupt(r, file, "the list of tensors is malformed");
    return st;
}

static mr_status *add_file(mr_v1_reader *r, const char *path, mr_table *table)
{
    mr_vec_push(&r->paths, mr_strdup(path));
    mr_vec_push(&r->files, *table);
    return register_file(r, r->files.n - 1);
}

static mr_status *open_all(mr_v1_reader *r, const mr_file_names *names)
{
    for (int i = 0; i < names->v.n; i++) {
        mr_table table;
        mr_status *st = mr_table_read(names->v.p[i], &table);
        if (!st)
            st = add_file(r, names->v.p[i], &table);
        if (st)
            return mr_status_prepend(st, "Unable to open table file %s: ", names->v.p[i]);
    }
    return NULL;
}

/* Opens all files of the pattern in the order of their names, so that errors do not depend on the order of the
 * folder. */
mr_status *mr_v1_open(mr_sv pattern, mr_v1_reader **out)
{
    mr_v1_reader *r = mr_new(mr_v1_reader);
    mr_file_names names = {0};
    mr_status *st = NULL;
    MR_GO(mr_files_match(pattern, &names));
    if (names.v.n == 0)
        MR_GO(mr_error(MR_NOT_FOUND,
                       "Unsuccessful TensorSliceReader constructor: Failed to find any matching files "
                       "for %.*s",
                       MR_SV_ARG(pattern)));
    mr_file_names_sort(&names);
    MR_GO(open_all(r, &names));
    *out = r;
    r = NULL;
out:
    mr_file_names_deinit(&names);
    mr_v1_close(r);
    return st;
}

mr_status *mr_v1_of_bytes(mr_sv bytes, const char *name, mr_v1_reader **out)
{
    mr_table table;
    MR_TRY(mr_table_parse(bytes, name, &table));
    mr_v1_reader *r = mr_new(mr_v1_reader);
    mr_status *st = add_file(r, name, &table);
    if (st)
        mr_v1_close(r);
    else
        *out = r;
    return st;
}

int mr_v1_count(const mr_v1_reader *r) { return r->tensors.n; }
mr_sv mr_v1_name(const mr_v1_reader *r, int i) { return r->tensors.p[i]->name; }

bool mr_v1_lookup(const mr_v1_reader *r, mr_sv name, mr_dtype *dtype, const mr_shape **shape)
{
    const listed *t = mr_map_get(&r->names, name);
    if (!t)
        return false;
    *dtype = t->dtype;
    *shape = &t->shape;
    return true;
}

/* ---- values ---- */

typedef struct assembly {
    mr_v1_reader *r;
    const listed *t;
    const mr_slice *want;
    mr_tensor *out;
    int64_t filled;
    mr_allocator *a;
} assembly;

static mr_status *part_entry(const mr_v1_reader *r, int file, mr_sv name, const mr_slice *slice, mr_sv *out)
{
    mr_str key = {0};
    mr_slice_key(name, slice, &key);
    const mr_table_entry *e = mr_table_find(&r->files.p[file], mr_str_view(&key));
    mr_str_deinit(&key);
    if (!e)
        return file_corrupt(r, file, "a part of a tensor is listed but missing");
    *out = e->value;
    return NULL;
}

/* The sizes are those of the entries, which also hold the name and the slice of each part. */
mr_status *mr_v1_stored(const mr_v1_reader *r, mr_sv name, bool *in_slices, uint64_t *bytes)
{
    const listed *t = mr_map_get(&r->names, name);
    if (!t)
        return not_found(name);
    *in_slices = t->parts.n > 1;
    *bytes = 0;
    for (int i = 0; i < t->parts.n; i++) {
        mr_slice slice;
        mr_sv entry;
        MR_TRY(mr_slice_decode(t->parts.p[i].slice, &slice));
        MR_TRY(part_entry(r, t->parts.p[i].file, t->name, &slice, &entry));
        *bytes += entry.n;
    }
    return NULL;
}

/* The TensorProto inside a part's entry. */
static mr_status *part_values(const assembly *s, int file, const mr_slice *slice, mr_sv *out)
{
    mr_pb_reader r, data;
    mr_sv entry;
    uint32_t field, wire;
    MR_TRY(part_entry(s->r, file, s->t->name, slice, &entry));
    *out = MR_SV("");
    mr_pb_reader_init(&r, entry);
    while (mr_pb_next(&r, &field, &wire)) {
        if (field != 2) {
            mr_pb_skip(&r);
            continue;
        }
        mr_pb_message(&r, &data);
        while (mr_pb_next(&data, &field, &wire))
            if (field == 3)
                *out = mr_pb_bytes(&data);
            else
                mr_pb_skip(&data);
    }
    return r.error ? file_corrupt(s->r, file, "a part is malformed") : NULL;
}

/* Copies the elements that a stored part and the wanted region have in common. */
static mr_status *take_part(assembly *s, const part *p)
{
    mr_slice slice, common;
    mr_shape shape;
    mr_sv values;
    mr_tensor *t = NULL;
    int64_t n, copied = 1;
    MR_TRY(mr_slice_decode(p->slice, &slice));
    MR_TRY(mr_slice_shape(&slice, s->t->shape.rank, s->t->shape.dims, &shape));
    if (!mr_slice_intersect(&slice, s->want, s->t->shape.dims, &common))
        return NULL;
    MR_TRY(part_values(s, p->file, &slice, &values));
    MR_TRY(mr_shape_elements(shape.rank, shape.dims, &n));
    if ((uint64_t)n > values.n) /* a value takes at least one byte */
        return file_corrupt(s->r, p->file, "a part has fewer values than its shape");
    MR_TRY(mr_tensor_decode_as(s->a, s->t->dtype, shape.rank, shape.dims, values, &t));
    mr_status *st = mr_slice_copy(t, &slice, s->out, s->want, &common);
    for (int i = 0; i < common.rank; i++)
        copied *= common.length[i];
    s->filled += copied;
    mr_tensor_unref(t);
    return st;
}

/* Collects the wanted region from the listed parts. NOT_FOUND if they do not cover it. On an error the caller releases
 * s->out. */
static mr_status *assemble_tensor(assembly *s)
{
    mr_shape shape;
    int64_t n;
    MR_TRY(mr_slice_shape(s->want, s->t->shape.rank, s->t->shape.dims, &shape));
    MR_TRY(mr_shape_elements(shape.rank, shape.dims, &n));
    if ((uint64_t)n > s->r->bytes)
        return mr_error(MR_DATA_LOSS, "Tensor %.*s has more elements than its files have bytes", MR_SV_ARG(s->t->name));
    MR_TRY(mr_tensor_zeros(s->a, s->t->dtype, shape.rank, shape.dims, &s->out));
    for (int i = 0; i < s->t->parts.n && s->filled < n; i++)
        MR_TRY(take_part(s, &s->t->parts.p[i]));
    if (s->filled < n)
        return mr_error(MR_NOT_FOUND, "Parts of tensor %.*s are missing from the checkpoint", MR_SV_ARG(s->t->name));
    return NULL;
}

/* Even a tensor that is stored whole goes through assemble_tensor: it has one part. */
mr_status *mr_v1_read(mr_v1_reader *r, mr_sv name, const mr_slice *slice, mr_allocator *a,
                      mr_tensor **out)
{
    mr_slice all;
    const listed *t = mr_map_get(&r->names, name);
    if (!t)
        return not_found(name);
    mr_slice_all(&all, t->shape.rank);
    assembly s = {.r = r, .t = t, .want = slice ? slice : &all, .a = a};
    mr_status *st = assemble_tensor(&s);
    if (st)
        mr_tensor_unref(s.out);
    else
        *out = s.out;
    return st;
}
