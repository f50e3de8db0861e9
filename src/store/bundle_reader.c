/* store/bundle_reader.c -- reading a bundle.
 *
 * Nothing in an index is trusted: sizes are compared with the shape and with the data file before memory is allocated,
 * and every tensor's checksum is verified. Data files are opened when first needed. */
#include "base/thread.h"
#include "base/vec.h"
#include "store/bundle_proto.h"
#include "store/table.h"
#include "wire/crc32c.h"
#include "wire/pb.h"

struct mr_bundle {
    char *prefix;
    mr_table index;
    mr_bundle_header header;
    MR_VEC(int) names; /* positions of the tensors in the index (without the header and slice entries) */
    mr_mutex mu;
    mr_file **shards MR_GUARDED_BY(mu); /* NULL until opened */
};

bool mr_bundle_exists(const char *prefix)
{
    char *path = mr_bundle_index_path(prefix);
    bool there = mr_file_exists(path);
    mr_free(path);
    return there;
}

/* The key of a slice starts with the number 0, which is encoded as a zero byte; names of tensors never do. */
static void list_names(mr_bundle *b)
{
    for (int i = 0; i < b->index.n; i++)
        if (b->index.entries[i].key.n > 0 && b->index.entries[i].key.p[0] != 0)
            mr_vec_push(&b->names, i);
}

/* Reads and checks the whole index. Data files are opened later, by shard_file. */
mr_status *mr_bundle_open(const char *prefix, mr_bundle **out)
{
    mr_status *st = NULL;
    char *path = mr_bundle_index_path(prefix);
    mr_bundle *b = mr_new(mr_bundle);
    mr_mutex_init(&b->mu);
    b->prefix = mr_strdup(prefix);
    if (!mr_file_exists(path))
        MR_GO(mr_error(MR_NOT_FOUND,
                       "Unsuccessful TensorSliceReader constructor: Failed to find any matching files for %s", prefix));
    MR_GO(mr_table_read(path, &b->index));
    const mr_table_entry *h = mr_table_find(&b->index, MR_SV(""));
    if (!h)
        MR_GO(mr_error(MR_DATA_LOSS, "%s: the index has no header", path));
    MR_GO(mr_bundle_header_decode(h->value, &b->header));
    if (b->header.big_endian)
        MR_GO(mr_error(MR_UNIMPLEMENTED, "%s: checkpoints written on big-endian machines are not supported", path));
    b->shards = mr_new_array(mr_file *, b->header.n_shards + 1);
    list_names(b);
    *out = b;
    b = NULL;
out:
    mr_bundle_close(b);
    mr_free(path);
    return st;
}

void mr_bundle_close(mr_bundle *b)
{
    if (!b)
        return;
    for (int i = 0; b->shards && i < b->header.n_shards; i++)
        mr_file_close(b->shards[i]);
    mr_free(b->shards);
    mr_vec_deinit(&b->names);
    mr_table_deinit(&b->index);
    mr_mutex_deinit(&b->mu);
    mr_free(b->prefix);
    mr_free(b);
}

int mr_bundle_count(const mr_bundle *b) { return b->names.n; }
mr_sv mr_bundle_name(const mr_bundle *b, int i) { return b->index.entries[b->names.p[i]].key; }

static mr_status *find_entry(const mr_bundle *b, mr_sv key, mr_sv *out)
{
    const mr_table_entry *e = key.n ? mr_table_find(&b->index, key) : NULL;
    if (!e)
        return mr_error(MR_NOT_FOUND, "Key %.*s not found in checkpoint", MR_SV_ARG(key));
    *out = e->value;
    return NULL;
}

mr_status *mr_bundle_lookup(const mr_bundle *b, mr_sv name, mr_bundle_entry *out)
{
    mr_sv value;
    MR_TRY(find_entry(b, name, &value));
    return mr_bundle_entry_decode(value, out, NULL, NULL);
}

/* Opens a data file on first use. The file is borrowed: it stays open until the bundle is closed. */
static mr_status *shard_file(mr_bundle *b, int shard, mr_file **out)
{
    mr_status *st = NULL;
    if (shard < 0 || shard >= b->header.n_shards)
        return mr_error(MR_DATA_LOSS, "%s: an entry refers to shard %d, but the checkpoint has %d shards", b->prefix,
                        shard, b->header.n_shards);
    mr_lock(&b->mu);
    if (!b->shards[shard]) {
        char *path = mr_bundle_data_path(b->prefix, shard, b->header.n_shards);
        st = mr_file_open(path, &b->shards[shard]);
        mr_free(path);
    }
    *out = b->shards[shard];
    mr_unlock(&b->mu);
    return st;
}

static mr_status *bundle_corrupt(const mr_bundle *b, mr_sv name, const char *why)
{
    return mr_error(MR_DATA_LOSS, "%s: tensor %.*s: %s", b->prefix, MR_SV_ARG(name), why);
}

/* ---- string tensors; bundle_writer.c describes the layout ---- */

/* Fills t from the stored bytes and extends *crc as the writer did. On malformed bytes, *why says what is wrong and the
 * status is NULL: only the caller knows the tensor's name. */
static mr_status *parse_strings(mr_sv bytes, mr_tensor *t, uint32_t *crc, const char **why)
{
    mr_pb_reader r;
    MR_VEC(uint64_t) lengths = {0};
    mr_status *st = NULL;
    uint32_t stored;
    uint64_t total = 0;
    mr_pb_reader_init(&r, bytes);
    *why = "string lengths are malformed";
    for (int64_t i = 0; i < t->n; i++) {
        uint64_t n = mr_pb_raw_varint(&r);
        if (r.error || n > bytes.n || (total += n) > bytes.n)
            goto out;
        *crc = n <= UINT32_MAX ? mr_crc32c_extend(*crc, &(uint32_t){(uint32_t)n}, 4) : mr_crc32c_extend(*crc, &n, 8);
        mr_vec_push(&lengths, n);
    }
    mr_sv rest = mr_pb_rest(&r);
    if (rest.n < sizeof stored || rest.n - sizeof stored != total)
        goto out;
    memcpy(&stored, rest.p, sizeof stored);
    *why = "the checksum of its string lengths does not match";
    if (mr_crc32c_unmask(stored) != *crc)
        goto out;
    *crc = mr_crc32c_extend(*crc, rest.p, rest.n); /* the stored checksum, then all bytes */
    *why = NULL;
    const char *p = rest.p + sizeof stored;
    for (int64_t i = 0; i < t->n; p += lengths.p[i++])
        MR_GO(mr_tensor_set_str(t, i, (mr_sv){p, (size_t)lengths.p[i]}));
out:
    mr_vec_deinit(&lengths);
    return st;
}

/* Reads all bytes of a string tensor before it creates any string; check_size has compared them with the file. */
static mr_status *read_strings(mr_bundle *b, mr_sv name, const mr_bundle_entry *e, mr_file *f, mr_tensor *t)
{
    char *bytes = mr_try_alloc((size_t)e->size);
    const char *why = NULL;
    uint32_t crc = 0;
    if (!bytes)
        return mr_error(MR_RESOURCE_EXHAUSTED, "out of memory for %llu bytes of strings", (unsigned long long)e->size);
    mr_status *st = mr_file_read_at(f, e->offset, (size_t)e->size, bytes);
    if (!st)
        st = parse_strings((mr_sv){bytes, (size_t)e->size}, t, &crc, &why);
    if (!st && !why && mr_crc32c_unmask(e->crc) != crc)
        why = "checksum does not match";
    mr_free(bytes);
    return st ? st : why ? bundle_corrupt(b, name, why) : NULL;
}

/* ---- stored tensors ---- */

/* Compares type, shape and size of an entry with each other and with the data file, before anything is allocated. */
static mr_status *check_size(mr_bundle *b, mr_sv name, const mr_bundle_entry *e, mr_file *f)
{
    int64_t n;
    size_t need;
    if (!mr_dtype_valid(e->dtype))
        return bundle_corrupt(b, name, "unknown type");
    if (!mr_dtype_is_plain(e->dtype) && e->dtype != MR_STRING)
        return mr_error(MR_UNIMPLEMENTED, "%s: tensor %.*s has type %s", b->prefix, MR_SV_ARG(name),
                        mr_dtype_name(e->dtype));
    mr_status *st = mr_shape_elements(e->shape.rank, e->shape.dims, &n);
    if (st) {
        mr_status_free(st);
        return bundle_corrupt(b, name, "impossible shape");
    }
    if (e->offset > mr_file_bytes(f) || e->size > mr_file_bytes(f) - e->offset)
        return bundle_corrupt(b, name, "its bytes are outside of its data file");
    if (e->dtype == MR_STRING)
        return (uint64_t)n > e->size ? bundle_corrupt(b, name, "too small for its shape") : NULL;
    if (!mr_size_mul((size_t)n, mr_dtype_size(e->dtype), &need) || need != e->size)
        return bundle_corrupt(b, name, "size does not match its shape");
    return NULL;
}

/* Reads bytes and their checksum, in parts that are still in the cache when the checksum reads them. */
static mr_status *read_checked(mr_file *f, uint64_t offset, size_t n, char *to, uint32_t *crc)
{
    enum { PART = 256 << 10 };
    *crc = 0;
    for (size_t done = 0, part; done < n; done += part) {
        part = MR_MIN(n - done, (size_t)PART);
        MR_TRY(mr_file_read_at(f, offset + done, part, to + done));
        *crc = mr_crc32c_extend(*crc, to + done, part);
    }
    return NULL;
}

/* Reads a tensor that is stored whole, and verifies its checksum. The caller owns *out. */
static mr_status *read_stored(mr_bundle *b, mr_sv name, const mr_bundle_entry *e, mr_allocator *a, mr_tensor **out)
{
    mr_file *f;
    mr_tensor *t = NULL;
    MR_TRY(shard_file(b, e->shard, &f));
    MR_TRY(check_size(b, name, e, f));
    MR_TRY(mr_tensor_new(a, e->dtype, e->shape.rank, e->shape.dims, &t));
    mr_status *st;
    if (e->dtype == MR_STRING) {
        st = read_strings(b, name, e, f, t);
    } else {
        uint32_t crc = 0;
        st = read_checked(f, e->offset, (size_t)e->size, t->data, &crc);
        if (!st && mr_crc32c_unmask(e->crc) != crc)
            st = bundle_corrupt(b, name, "checksum does not match");
    }
    if (st) {
        mr_tensor_unref(t);
        return st;
    }
    *out = t;
    return NULL;
}

/* ---- slices ---- */

typedef struct assembly { /* a region that is assembled from stored parts */
    mr_bundle *b;
    mr_sv name;
    const mr_bundle_entry *e;
    const mr_slice *want;
    mr_tensor *t;
    int64_t filled;
    mr_allocator *a;
} assembly;

/* Copies the elements that a stored part and the wanted region have in common. */
static mr_status *take_part(assembly *s, const mr_slice *part, const mr_slice *common)
{
    mr_bundle_entry *e = mr_new(mr_bundle_entry);
    mr_tensor *t = NULL;
    mr_str key = {0};
    mr_status *st = NULL;
    mr_shape shape;
    mr_slice_key(s->name, part, &key);
    MR_GO(mr_bundle_lookup(s->b, mr_str_view(&key), e));
    MR_GO(mr_slice_shape(part, s->e->shape.rank, s->e->shape.dims, &shape));
    if (e->dtype != s->e->dtype || !mr_shape_eq(shape.rank, shape.dims, e->shape.rank, e->shape.dims))
        MR_GO(bundle_corrupt(s->b, s->name, "the type or shape of a slice does not match its tensor"));
    MR_GO(read_stored(s->b, s->name, e, s->a, &t));
    MR_GO(mr_slice_copy(t, part, s->t, s->want, common));
    int64_t n = 1;
    for (int i = 0; i < common->rank; i++)
        n *= common->length[i];
    s->filled += n;
out:
    mr_tensor_unref(t);
    mr_str_deinit(&key);
    mr_free(e);
    return st;
}

static mr_status *on_slice(void *ctx, mr_sv proto)
{
    assembly *s = ctx;
    mr_slice part, common;
    mr_shape shape;
    MR_TRY(mr_slice_decode(proto, &part));
    MR_TRY(mr_slice_shape(&part, s->e->shape.rank, s->e->shape.dims, &shape));
    if (!mr_slice_intersect(&part, s->want, s->e->shape.dims, &common))
        return NULL;
    return take_part(s, &part, &common);
}

/* A sliced tensor may not have more elements than the data files have bytes: that bounds the allocation. */
static mr_status *check_assembled_size(const assembly *s, const mr_shape *shape)
{
    int64_t n;
    MR_TRY(mr_shape_elements(shape->rank, shape->dims, &n));
    uint64_t have = 0;
    for (int i = 0; i < s->b->header.n_shards; i++) {
        mr_file *f;
        MR_TRY(shard_file(s->b, i, &f));
        have += mr_file_bytes(f);
    }
    if (!mr_dtype_valid(s->e->dtype) || (uint64_t)n > have)
        return bundle_corrupt(s->b, s->name, "is larger than the data files");
    return NULL;
}

/* Collects the wanted region from all slices that overlap it. NOT_FOUND if they do not cover it. On an error the caller
 * releases s->t. */
static mr_status *assemble_region(assembly *s, mr_sv entry)
{
    mr_shape shape;
    mr_bundle_entry *scratch = mr_new(mr_bundle_entry);
    mr_status *st = NULL;
    MR_GO(mr_slice_shape(s->want, s->e->shape.rank, s->e->shape.dims, &shape));
    MR_GO(check_assembled_size(s, &shape));
    MR_GO(mr_tensor_zeros(s->a, s->e->dtype, shape.rank, shape.dims, &s->t));
    MR_GO(mr_bundle_entry_decode(entry, scratch, on_slice, s));
    if (s->filled < s->t->n)
        MR_GO(mr_error(MR_NOT_FOUND, "%s: parts of tensor %.*s are missing", s->b->prefix, MR_SV_ARG(s->name)));
out:
    mr_free(scratch);
    return st;
}

/* A copy of a part of `whole`. */
static mr_status *cut_slice(mr_tensor *whole, const mr_slice *slice, mr_allocator *a, mr_tensor **out)
{
    mr_shape shape;
    mr_slice all, region;
    mr_tensor *part;
    mr_status *st = NULL;
    MR_TRY(mr_slice_shape(slice, whole->rank, whole->dims, &shape));
    MR_TRY(mr_tensor_new(a, (mr_dtype)whole->dtype, shape.rank, shape.dims, &part));
    mr_slice_all(&all, whole->rank);
    if (mr_slice_intersect(&all, slice, whole->dims, &region))
        st = mr_slice_copy(whole, &all, part, slice, &region);
    if (st)
        mr_tensor_unref(part);
    else
        *out = part;
    return st;
}

/* Reads a tensor, or a slice of it (NULL: all): from its slices, as it is stored, or by cutting a stored tensor. */
static mr_status *read_region(mr_bundle *b, mr_sv name, const mr_slice *slice, mr_allocator *a, mr_tensor **out)
{
    mr_bundle_entry *e = mr_new(mr_bundle_entry);
    mr_tensor *whole = NULL;
    mr_status *st = NULL;
    mr_slice all;
    mr_sv value;
    MR_GO(find_entry(b, name, &value));
    MR_GO(mr_bundle_entry_decode(value, e, NULL, NULL));
    mr_slice_all(&all, e->shape.rank);
    if (e->n_slices > 0) {
        assembly s = {b, name, e, slice ? slice : &all, NULL, 0, a};
        st = assemble_region(&s, value);
        if (st)
            mr_tensor_unref(s.t);
        else
            *out = s.t;
    } else if (!slice || (slice->rank == e->shape.rank && mr_slice_is_all(slice, e->shape.dims))) {
        st = read_stored(b, name, e, a, out);
    } else {
        MR_GO(read_stored(b, name, e, a, &whole));
        MR_GO(cut_slice(whole, slice, a, out));
    }
out:
    mr_tensor_unref(whole);
    mr_free(e);
    return st;
}

mr_status *mr_bundle_read(mr_bundle *b, mr_sv name, mr_allocator *a, mr_tensor **out)
{
    return read_region(b, name, NULL, a, out);
}

mr_status *mr_bundle_read_slice(mr_bundle *b, mr_sv name, const mr_slice *slice, mr_allocator *a, mr_tensor **out)
{
    return read_region(b, name, slice, a, out);
}
