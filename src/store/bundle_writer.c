/* store/bundle_writer.c -- writes a bundle, and merges several into one.
 *
 * Tensors are appended to one data file as they are added; their index entries are kept sorted in memory and written as
 * a table at the end. The final order: data synced and renamed, then the index synced and renamed. A crash anywhere
 * before the last rename leaves the previous bundle of that name intact. */
#include <stdlib.h>

#include "base/map.h"
#include "base/vec.h"
#include "store/bundle_proto.h"
#include "store/table.h"
#include "wire/crc32c.h"
#include "wire/pb.h"

typedef struct pending { /* an index entry to be written */
    char *key;
    size_t key_n;
    mr_str value; /* BundleEntryProto */
    mr_bundle_entry *sliced; /* set for a tensor saved in slices: its entry; `slices` collects their protos */
    mr_str slices;
} pending;

struct mr_bundle_writer {
    char *prefix;
    mr_writer *data;
    MR_VEC(pending *) entries;
    mr_map by_key; /* key -> pending; borrowed keys */
};

/* Creates the folder if it does not exist. The data file has a temporary name until mr_bundle_finish. */
mr_status *mr_bundle_writer_new(const char *prefix, mr_bundle_writer **out)
{
    mr_status *st = NULL;
    mr_sv dir = mr_path_dirname(prefix);
    char *dir_z = mr_strndup(dir.p, dir.n), *path = mr_bundle_data_path(prefix, 0, 1);
    mr_bundle_writer *w = mr_new(mr_bundle_writer);
    w->by_key.borrow_keys = true;
    w->prefix = mr_strdup(prefix);
    if (dir.n)
        MR_GO(mr_dir_make(dir_z));
    MR_GO(mr_writer_open(path, &w->data));
    *out = w;
    w = NULL;
out:
    mr_bundle_writer_free(w);
    mr_free(path);
    mr_free(dir_z);
    return st;
}

static void free_pending(pending *p)
{
    mr_free(p->key);
    mr_str_deinit(&p->value);
    mr_str_deinit(&p->slices);
    mr_free(p->sliced);
    mr_free(p);
}

void mr_bundle_writer_free(mr_bundle_writer *w)
{
    if (!w)
        return;
    for (int i = 0; i < w->entries.n; i++)
        free_pending(w->entries.p[i]);
    mr_vec_deinit(&w->entries);
    mr_map_deinit(&w->by_key);
    mr_writer_free(w->data);
    mr_free(w->prefix);
    mr_free(w);
}

static pending *new_entry(mr_bundle_writer *w, mr_sv key)
{
    pending *p = mr_new(pending);
    p->key = mr_strndup(key.p, key.n);
    p->key_n = key.n;
    mr_vec_push(&w->entries, p);
    mr_map_put(&w->by_key, (mr_sv){p->key, p->key_n}, p);
    return p;
}

/* ---- data ---- */

/* Lengths as varints, a checksum of the lengths, then the bytes of all strings. The checksums do not cover the varints
 * as written: each length enters them as a fixed 32-bit number (64-bit if it does not fit). */
static mr_status *write_strings(mr_writer *f, const mr_tensor *t, uint32_t *crc)
{
    mr_str lengths = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &lengths);
    *crc = 0;
    for (int64_t i = 0; i < t->n; i++) {
        uint64_t n = mr_tensor_str_at(t, i).n;
        mr_pb_put_raw_varint(&w, n);
        *crc = n <= UINT32_MAX ? mr_crc32c_extend(*crc, &(uint32_t){(uint32_t)n}, 4) : mr_crc32c_extend(*crc, &n, 8);
    }
    uint32_t check = mr_crc32c_mask(*crc);
    mr_pb_put_raw(&w, &check, sizeof check);
    *crc = mr_crc32c_extend(*crc, &check, sizeof check);
    mr_status *st = mr_pb_writer_status(&w, "string lengths");
    if (!st)
        st = mr_writer_write(f, lengths.p, lengths.n);
    mr_str_deinit(&lengths);
    MR_TRY(st);
    for (int64_t i = 0; i < t->n; i++) {
        mr_sv s = mr_tensor_str_at(t, i);
        *crc = mr_crc32c_extend(*crc, s.p, s.n);
        MR_TRY(mr_writer_write(f, s.p, s.n));
    }
    return NULL;
}

/* Appends a tensor's bytes to the data file; sets type, position, size and checksum of its entry. */
static mr_status *write_tensor(mr_bundle_writer *w, const mr_tensor *t, mr_bundle_entry *e)
{
    uint32_t crc;
    e->dtype = (mr_dtype)t->dtype;
    e->offset = mr_writer_offset(w->data);
    if (t->dtype == MR_STRING) {
        MR_TRY(write_strings(w->data, t, &crc));
    } else if (mr_dtype_is_plain((mr_dtype)t->dtype)) {
        crc = mr_crc32c(t->data, mr_tensor_bytes(t));
        MR_TRY(mr_writer_write(w->data, t->data, mr_tensor_bytes(t)));
    } else {
        return mr_error(MR_UNIMPLEMENTED, "Cannot save a tensor of type %s", mr_dtype_name(t->dtype));
    }
    e->size = mr_writer_offset(w->data) - e->offset;
    e->crc = mr_crc32c_mask(crc);
    return NULL;
}

static mr_status *add_stored(mr_bundle_writer *w, mr_sv key, const mr_tensor *t)
{
    mr_bundle_entry *e = mr_new(mr_bundle_entry); /* large for the stack */
    mr_shape_set(&e->shape, t->rank, t->dims);
    mr_status *st = write_tensor(w, t, e);
    if (!st)
        mr_bundle_entry_encode(e, MR_SV(""), &new_entry(w, key)->value);
    mr_free(e);
    return st;
}

mr_status *mr_bundle_add(mr_bundle_writer *w, mr_sv name, const mr_tensor *t)
{
    if (name.n == 0)
        return mr_invalid("Cannot save a tensor without a name");
    if (mr_map_has(&w->by_key, name))
        return mr_invalid("Adding duplicate key: %.*s", MR_SV_ARG(name));
    return add_stored(w, name, t);
}

/* The entry for all slices of a tensor; the first slice creates it, later ones must agree with it. */
static mr_status *sliced_entry(mr_bundle_writer *w, mr_sv name, const mr_shape *full, mr_dtype dtype, pending **out)
{
    pending *p = mr_map_get(&w->by_key, name);
    if (!p) {
        p = new_entry(w, name);
        p->sliced = mr_new(mr_bundle_entry);
        p->sliced->dtype = dtype;
        mr_shape_set(&p->sliced->shape, full->rank, full->dims);
    }
    if (!p->sliced)
        return mr_invalid("Adding duplicate key: %.*s", MR_SV_ARG(name));
    if (p->sliced->dtype != dtype ||
        !mr_shape_eq(full->rank, full->dims, p->sliced->shape.rank, p->sliced->shape.dims))
        return mr_invalid("Slices of tensor %.*s have different types or full shapes", MR_SV_ARG(name));
    *out = p;
    return NULL;
}

/* A slice is stored as a separate tensor, under the key mr_slice_key; the tensor's entry lists the slices. */
mr_status *mr_bundle_add_slice(mr_bundle_writer *w, mr_sv name, const mr_shape *full, const mr_slice *slice,
                               const mr_tensor *t)
{
    if (mr_slice_is_all(slice, full->dims))
        return mr_bundle_add(w, name, t);
    pending *p;
    mr_str key = {0};
    mr_slice_key(name, slice, &key);
    mr_status *st = NULL;
    if (mr_map_has(&w->by_key, mr_str_view(&key)))
        MR_GO(mr_invalid("Adding duplicate slice of %.*s", MR_SV_ARG(name)));
    MR_GO(sliced_entry(w, name, full, (mr_dtype)t->dtype, &p));
    MR_GO(add_stored(w, mr_str_view(&key), t));
    mr_pb_writer pw;
    mr_str one = {0};
    mr_slice_encode(slice, &one);
    mr_pb_writer_init(&pw, &p->slices);
    mr_pb_put_bytes(&pw, 7, mr_str_view(&one));
    mr_str_deinit(&one);
out:
    mr_str_deinit(&key);
    return st;
}

/* ---- the index ---- */

static int by_key(const void *a, const void *b)
{
    const pending *x = *(pending *const *)a, *y = *(pending *const *)b;
    return mr_bytes_compare((mr_sv){x->key, x->key_n}, (mr_sv){y->key, y->key_n});
}

/* Sorts the entries by key, as a table needs them, and writes them after the header, whose key is empty. */
static mr_status *write_entries(mr_table_writer *table, const mr_bundle_header *h, pending **entries, int n)
{
    mr_str header = {0};
    mr_bundle_header_encode(h, &header);
    mr_status *st = mr_table_writer_add(table, MR_SV(""), mr_str_view(&header));
    mr_str_deinit(&header);
    MR_TRY(st);
    if (n > 0) /* entries is NULL when there are none */
        qsort(entries, (size_t)n, sizeof *entries, by_key);
    for (int i = 0; i < n; i++) {
        pending *p = entries[i];
        if (p->sliced)
            mr_bundle_entry_encode(p->sliced, mr_str_view(&p->slices), &p->value);
        MR_TRY(mr_table_writer_add(table, (mr_sv){p->key, p->key_n}, mr_str_view(&p->value)));
    }
    return mr_table_writer_finish(table);
}

/* The index is the last file to get its final name: from then on, the bundle exists. */
static mr_status *write_index(const char *prefix, const mr_bundle_header *h, pending **entries, int n)
{
    mr_status *st = NULL;
    char *path = mr_bundle_index_path(prefix);
    mr_writer *f = NULL;
    mr_table_writer *table = NULL;
    MR_GO(mr_writer_open(path, &f));
    table = mr_table_writer_new(f);
    MR_GO(write_entries(table, h, entries, n));
    MR_GO(mr_writer_commit(f));
out:
    mr_table_writer_free(table);
    mr_writer_free(f);
    mr_free(path);
    return st;
}

mr_status *mr_bundle_finish(mr_bundle_writer *w)
{
    mr_bundle_header h = {.n_shards = 1, .producer = MR_BUNDLE_VERSION};
    MR_TRY(mr_writer_commit(w->data));
    return write_index(w->prefix, &h, w->entries.p, w->entries.n);
}

/* ---- merging ---- */

typedef struct part { /* one of the bundles to be merged */
    const char *prefix;
    mr_table index;
    mr_bundle_header header;
    int *new_shard; /* by the part's shard number; -1: no entry refers to it */
} part;

typedef struct merger {
    part *parts;
    int n_parts, n_files; /* data files that hold entries */
    mr_bundle_header header;
    mr_bundle_writer w; /* only its entries and map are used */
} merger;

/* Reads a part's index. Even on an error, mr_bundle_merge releases what p holds. */
static mr_status *open_part(merger *m, part *p, const char *prefix)
{
    char *path = mr_bundle_index_path(prefix);
    p->prefix = prefix;
    mr_status *st = mr_table_read(path, &p->index);
    mr_free(path);
    MR_TRY(st);
    const mr_table_entry *h = mr_table_find(&p->index, MR_SV(""));
    if (!h)
        return mr_error(MR_DATA_LOSS, "%s.index has no header", prefix);
    MR_TRY(mr_bundle_header_decode(h->value, &p->header));
    if (m->n_parts > 0 && (p->header.big_endian != m->header.big_endian || p->header.producer != m->header.producer))
        return mr_invalid("%s: cannot merge bundles of different endianness or version", prefix);
    m->header.big_endian = p->header.big_endian;
    m->header.producer = p->header.producer;
    m->header.n_shards += p->header.n_shards;
    p->new_shard = mr_new_array(int, p->header.n_shards + 1);
    for (int i = 0; i < p->header.n_shards; i++)
        p->new_shard[i] = -1;
    return NULL;
}

typedef struct slice_list {
    mr_str bytes;
} slice_list;

static mr_status *collect_slice(void *ctx, mr_sv slice)
{
    mr_pb_writer w;
    mr_pb_writer_init(&w, &((slice_list *)ctx)->bytes);
    mr_pb_put_bytes(&w, 7, slice);
    return mr_pb_writer_status(&w, "slices");
}

static mr_status *merge_sliced(merger *m, mr_sv key, mr_bundle_entry *e, mr_sv slices)
{
    pending *p;
    MR_TRY(sliced_entry(&m->w, key, &e->shape, e->dtype, &p));
    mr_str_append(&p->slices, slices.p, slices.n);
    return NULL;
}

/* Adds one entry of a part to the merged bundle. Shards are renumbered in the order in which entries refer to them. `e`
 * is scratch memory. */
static mr_status *merge_entry(merger *m, part *p, const mr_table_entry *te, mr_bundle_entry *e)
{
    slice_list slices = {0};
    mr_status *st = NULL;
    MR_GO(mr_bundle_entry_decode(te->value, e, collect_slice, &slices));
    if (e->n_slices > 0) {
        MR_GO(merge_sliced(m, te->key, e, mr_str_view(&slices.bytes)));
        goto out;
    }
    if (e->shard < 0 || e->shard >= p->header.n_shards)
        MR_GO(mr_error(MR_DATA_LOSS, "%s: an entry refers to shard %d, but the checkpoint has %d shards", p->prefix,
                       e->shard, p->header.n_shards));
    if (mr_map_has(&m->w.by_key, te->key))
        MR_GO(mr_invalid("Duplicate tensor keyed by %.*s encountered, when merging prefix: %s", MR_SV_ARG(te->key),
                         p->prefix));
    if (p->new_shard[e->shard] < 0)
        p->new_shard[e->shard] = m->n_files++;
    e->shard = p->new_shard[e->shard];
    mr_bundle_entry_encode(e, MR_SV(""), &new_entry(&m->w, te->key)->value);
out:
    mr_str_deinit(&slices.bytes);
    return st;
}

static mr_status *merge_part(merger *m, part *p)
{
    mr_bundle_entry *e = mr_new(mr_bundle_entry);
    mr_status *st = NULL;
    for (int i = 0; i < p->index.n && !st; i++)
        if (p->index.entries[i].key.n > 0)
            st = merge_entry(m, p, &p->index.entries[i], e);
    mr_free(e);
    return st;
}

/* Only data files that entries refer to are renamed. */
static mr_status *rename_data(merger *m, const char *prefix)
{
    mr_status *st = NULL;
    for (int i = 0; i < m->n_parts; i++)
        for (int s = 0; s < m->parts[i].header.n_shards && !st; s++) {
            if (m->parts[i].new_shard[s] < 0)
                continue;
            char *from = mr_bundle_data_path(m->parts[i].prefix, s, m->parts[i].header.n_shards);
            char *to = mr_bundle_data_path(prefix, m->parts[i].new_shard[s], m->n_files);
            st = mr_file_rename(from, to);
            mr_free(from);
            mr_free(to);
        }
    return st;
}

static void remove_part_indexes(const merger *m)
{
    for (int i = 0; i < m->n_parts; i++) {
        char *path = mr_bundle_index_path(m->parts[i].prefix);
        mr_status_free(mr_file_remove(path)); /* a file that remains does no harm */
        mr_free(path);
    }
}

/* Reads all indexes before it renames anything, so a damaged part leaves all parts as they were. The merged index is
 * written after the data files are in place, and the parts' indexes are removed last. */
mr_status *mr_bundle_merge(const char *const *prefixes, int n, const char *prefix)
{
    mr_status *st = NULL;
    merger m = {.parts = mr_new_array(part, n + 1), .w.by_key.borrow_keys = true};
    mr_sv dir = mr_path_dirname(prefix);
    char *dir_z = mr_strndup(dir.p, dir.n);
    for (int i = 0; i < n; i++) {
        st = open_part(&m, &m.parts[i], prefixes[i]);
        m.n_parts++; /* counted even if it failed, so that it is cleaned up below */
        if (st)
            goto out;
    }
    for (int i = 0; i < n; i++)
        MR_GO(merge_part(&m, &m.parts[i]));
    if (dir.n)
        MR_GO(mr_dir_make(dir_z));
    MR_GO(rename_data(&m, prefix));
    MR_GO(write_index(prefix, &m.header, m.w.entries.p, m.w.entries.n));
    remove_part_indexes(&m);
out:
    for (int i = 0; i < m.n_parts; i++) {
        mr_table_deinit(&m.parts[i].index);
        mr_free(m.parts[i].new_shard);
    }
    for (int i = 0; i < m.w.entries.n; i++)
        free_pending(m.w.entries.p[i]);
    mr_vec_deinit(&m.w.entries);
    mr_map_deinit(&m.w.by_key);
    mr_free(m.parts);
    mr_free(dir_z);
    return st;
}
