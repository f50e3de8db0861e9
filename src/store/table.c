/* store/table.c -- reads and writes sorted tables.
 *
 * File: data blocks, an empty metaindex block, the index block, a footer of 48 bytes.
 *
 *     block    entries, restart offsets (uint32 each), count of restarts (uint32)
 *     entry    varint32 shared, varint32 unshared, varint32 value length, key rest, value
 *     stored   block, type byte (0 raw, 1 snappy), masked crc32c of both (uint32)
 *     footer   metaindex handle, index handle (varint64 offset, size each), zeros up to 40, magic
 *
 * `shared` counts leading bytes taken from the key before; at restart points it is 0. The index has one entry for each
 * block: a key not below the block's last and below the next block's first, and the block's handle. */
#include "store/table.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/vec.h"
#include "wire/crc32c.h"
#include "wire/pb.h"
#include "wire/snappy.h"

enum { FOOTER_BYTES = 48, TRAILER_BYTES = 5, BLOCK_BYTES = 262144, RESTART_EVERY = 16 };
static const uint64_t magic = 0xDB4775248B80FB57u;

int mr_bytes_compare(mr_sv a, mr_sv b)
{
    size_t n = MR_MIN(a.n, b.n);
    int c = n ? memcmp(a.p, b.p, n) : 0;
    return c ? c : (a.n > b.n) - (a.n < b.n);
}

/* ---- reading ---- */

struct mr_table_memory {
    mr_arena arena;
    MR_VEC(mr_table_entry) entries;
    mr_str file;
};

typedef struct handle {
    uint64_t offset, size;
} handle;

static mr_status *table_corrupt(const char *name, const char *why)
{
    return mr_error(MR_DATA_LOSS, "%s: %s", name, why);
}

static handle read_handle(mr_pb_reader *r)
{
    handle h;
    h.offset = mr_pb_raw_varint(r);
    h.size = mr_pb_raw_varint(r);
    return h;
}

/* A stored block, with its checksum verified; if it was compressed, *tmp holds it. */
static mr_status *load_block(mr_sv file, const char *name, handle h, mr_str *tmp, mr_sv *out)
{
    if (h.offset > file.n || h.size > file.n - h.offset || file.n - h.offset - h.size < TRAILER_BYTES)
        return table_corrupt(name, "a block is outside of the file");
    const char *p = file.p + h.offset;
    uint32_t stored;
    memcpy(&stored, p + h.size + 1, sizeof stored);
    if (mr_crc32c_unmask(stored) != mr_crc32c(p, (size_t)h.size + 1))
        return table_corrupt(name, "block checksum mismatch");
    *out = (mr_sv){p, (size_t)h.size};
    if (p[h.size] == 0)
        return NULL;
    if (p[h.size] != 1)
        return table_corrupt(name, "unknown block compression");
    mr_str_clear(tmp);
    MR_TRY(mr_snappy_uncompress(*out, tmp));
    *out = mr_str_view(tmp);
    return NULL;
}

/* Starts reading the entries of a block, which end where the restart array begins. */
static mr_status *block_entries(mr_sv block, const char *name, mr_pb_reader *r)
{
    uint32_t n_restarts;
    if (block.n < sizeof n_restarts)
        return table_corrupt(name, "a block is too short");
    memcpy(&n_restarts, block.p + block.n - sizeof n_restarts, sizeof n_restarts);
    size_t room = block.n / sizeof n_restarts - 1;
    if (n_restarts > room)
        return table_corrupt(name, "a block has more restart points than room");
    mr_pb_reader_init(r, (mr_sv){block.p, block.n - (n_restarts + 1) * sizeof n_restarts});
    return NULL;
}

typedef struct entry_reader {
    mr_pb_reader r;
    mr_str key;
    mr_sv value;
} entry_reader;

/* Reads one entry; its key reuses the leading bytes of the key before. The value is a view of the block. */
static mr_status *next_entry(entry_reader *e, const char *name, bool *more)
{
    if (!(*more = mr_pb_more(&e->r)))
        return NULL;
    uint64_t shared = mr_pb_raw_varint(&e->r), unshared = mr_pb_raw_varint(&e->r), n_value = mr_pb_raw_varint(&e->r);
    size_t left = mr_pb_rest(&e->r).n;
    if (e->r.error || shared > e->key.n || unshared > left || n_value > left - unshared)
        return table_corrupt(name, "a malformed entry in a block");
    e->key.n = (size_t)shared;
    if (!mr_str_try_append(&e->key, e->r.at, (size_t)unshared))
        return mr_error(MR_RESOURCE_EXHAUSTED, "%s: out of memory for a key", name);
    e->value = (mr_sv){(const char *)e->r.at + unshared, (size_t)n_value};
    e->r.at += unshared + n_value;
    return NULL;
}

static mr_status *keep_bytes(mr_arena *a, mr_sv v, mr_sv *out)
{
    char *p = mr_arena_try_alloc(a, v.n + 1);
    if (!p)
        return mr_error(MR_RESOURCE_EXHAUSTED, "out of memory for a table of %zu bytes", v.n);
    memcpy(p, v.p, v.n);
    *out = (mr_sv){p, v.n};
    return NULL;
}

/* Copies a block's entries to the arena; keys must ascend across all blocks. */
static mr_status *read_data_block(struct mr_table_memory *m, mr_sv block, const char *name)
{
    mr_status *st = NULL;
    entry_reader e = {0};
    bool more;
    MR_GO(block_entries(block, name, &e.r));
    for (;;) {
        mr_table_entry out;
        MR_GO(next_entry(&e, name, &more));
        if (!more)
            break;
        MR_GO(keep_bytes(&m->arena, mr_str_view(&e.key), &out.key));
        MR_GO(keep_bytes(&m->arena, e.value, &out.value));
        if (m->entries.n > 0 && mr_bytes_compare(mr_vec_last(&m->entries).key, out.key) >= 0)
            MR_GO(table_corrupt(name, "keys are not ascending"));
        mr_vec_push(&m->entries, out);
    }
out:
    mr_str_deinit(&e.key);
    return st;
}

/* Reads the blocks in the order of the index. */
static mr_status *read_index(struct mr_table_memory *m, mr_sv file, const char *name, handle index)
{
    mr_status *st = NULL;
    mr_str index_tmp = {0}, tmp = {0};
    entry_reader e = {0};
    mr_sv block;
    bool more;
    MR_GO(load_block(file, name, index, &index_tmp, &block));
    MR_GO(block_entries(block, name, &e.r));
    for (;;) {
        MR_GO(next_entry(&e, name, &more));
        if (!more)
            break;
        mr_pb_reader hr;
        mr_pb_reader_init(&hr, e.value);
        handle h = read_handle(&hr);
        if (hr.error)
            MR_GO(table_corrupt(name, "a malformed block handle"));
        MR_GO(load_block(file, name, h, &tmp, &block));
        MR_GO(read_data_block(m, block, name));
    }
out:
    mr_str_deinit(&e.key);
    mr_str_deinit(&index_tmp);
    mr_str_deinit(&tmp);
    return st;
}

/* The handles are not checked here: load_block compares them with the size of the file. */
static mr_status *parse_footer(mr_sv file, const char *name, handle *meta, handle *index)
{
    if (file.n < FOOTER_BYTES)
        return table_corrupt(name, "file is too short to be an sstable");
    const char *foot = file.p + file.n - FOOTER_BYTES;
    uint64_t found;
    memcpy(&found, foot + FOOTER_BYTES - sizeof found, sizeof found);
    if (found != magic)
        return table_corrupt(name, "not an sstable (bad magic number)");
    mr_pb_reader r;
    mr_pb_reader_init(&r, (mr_sv){foot, FOOTER_BYTES - sizeof found});
    *meta = read_handle(&r);
    *index = read_handle(&r);
    return r.error ? table_corrupt(name, "a malformed footer") : NULL;
}

/* Copies everything out of `bytes`, so the caller may free them. */
mr_status *mr_table_parse(mr_sv bytes, const char *name, mr_table *out)
{
    handle meta, index;
    mr_str tmp = {0};
    mr_sv block;
    *out = (mr_table){0};
    MR_TRY(parse_footer(bytes, name, &meta, &index));
    mr_status *st = load_block(bytes, name, meta, &tmp, &block); /* it has no content, but its checksum must match */
    mr_str_deinit(&tmp);
    MR_TRY(st);
    struct mr_table_memory *m = mr_new(struct mr_table_memory);
    mr_arena_init(&m->arena, 0);
    out->memory = m;
    st = read_index(m, bytes, name, index);
    if (st) {
        mr_table_deinit(out);
        return st;
    }
    out->n = m->entries.n;
    out->entries = m->entries.p;
    return NULL;
}

bool mr_table_is(const char *path)
{
    uint64_t found = 0;
    mr_file *f = NULL;
    mr_status *st = mr_file_open(path, &f);
    if (!st && mr_file_bytes(f) >= FOOTER_BYTES)
        st = mr_file_read_at(f, mr_file_bytes(f) - sizeof found, sizeof found, &found);
    mr_status_free(st);
    mr_file_close(f);
    return found == magic;
}

mr_status *mr_table_read(const char *path, mr_table *out)
{
    mr_str bytes = {0};
    *out = (mr_table){0};
    mr_status *st = mr_file_read_all(path, &bytes);
    if (!st)
        st = mr_table_parse(mr_str_view(&bytes), path, out);
    mr_str_deinit(&bytes);
    return st;
}

void mr_table_deinit(mr_table *t)
{
    if (t->memory) {
        mr_arena_deinit(&t->memory->arena);
        mr_vec_deinit(&t->memory->entries);
        mr_free(t->memory);
    }
    *t = (mr_table){0};
}

const mr_table_entry *mr_table_find(const mr_table *t, mr_sv key)
{
    int lo = 0, hi = t->n;
    while (lo < hi) {
        int mid = lo + (hi - lo) / 2, c = mr_bytes_compare(t->entries[mid].key, key);
        if (c == 0)
            return &t->entries[mid];
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

/* ---- writing ---- */

typedef struct block {
    mr_str bytes, last_key;
    MR_VEC(uint32_t) restarts;
    int since_restart, restart_every;
} block;

struct mr_table_writer {
    mr_writer *file;
    block data, index;
    mr_str last_key;  /* of the block just written, while its index entry waits for the next key */
    bool pending;
    handle pending_handle;
};

static void put_varint(mr_str *s, uint64_t v)
{
    uint8_t buf[MR_PB_MAX_VARINT];
    mr_str_append(s, buf, (size_t)(mr_pb_encode_varint(buf, v) - buf));
}

static void block_reset(block *b)
{
    mr_str_clear(&b->bytes);
    mr_str_clear(&b->last_key);
    b->restarts.n = 0;
    b->since_restart = 0;
    mr_vec_push(&b->restarts, 0);
}

static size_t block_estimate(const block *b) { return b->bytes.n + 4 * (size_t)b->restarts.n + 4; }

/* Shares leading bytes with the key before, except at restart points. */
static void block_add(block *b, mr_sv key, mr_sv value)
{
    size_t shared = 0;
    if (b->since_restart < b->restart_every) {
        size_t n = MR_MIN(key.n, b->last_key.n);
        while (shared < n && key.p[shared] == b->last_key.p[shared])
            shared++;
    } else {
        mr_vec_push(&b->restarts, (uint32_t)b->bytes.n);
        b->since_restart = 0;
    }
    put_varint(&b->bytes, shared);
    put_varint(&b->bytes, key.n - shared);
    put_varint(&b->bytes, value.n);
    mr_str_append(&b->bytes, key.p + shared, key.n - shared);
    mr_str_append(&b->bytes, value.p, value.n);
    mr_str_clear(&b->last_key);
    mr_str_append(&b->last_key, key.p, key.n);
    b->since_restart++;
}

/* Appends the restart array and writes the block with its trailer. */
static mr_status *block_write(mr_table_writer *w, block *b, handle *out)
{
    mr_str_append(&b->bytes, b->restarts.p, 4 * (size_t)b->restarts.n);
    mr_str_append(&b->bytes, &(uint32_t){(uint32_t)b->restarts.n}, 4);
    *out = (handle){mr_writer_offset(w->file), b->bytes.n};
    mr_str_appendc(&b->bytes, 0);
    uint32_t crc = mr_crc32c_mask(mr_crc32c(b->bytes.p, b->bytes.n));
    mr_str_append(&b->bytes, &crc, sizeof crc);
    mr_status *st = mr_writer_write(w->file, b->bytes.p, b->bytes.n);
    block_reset(b);
    return st;
}

/* Shortens `key` to a key that is not below it, but below `limit`. */
static void shortest_separator(mr_str *key, mr_sv limit)
{
    size_t n = MR_MIN(key->n, limit.n), i = 0;
    while (i < n && key->p[i] == limit.p[i])
        i++;
    if (i >= n)
        return;
    uint8_t c = (uint8_t)key->p[i];
    if (c < 0xff && c + 1 < (uint8_t)limit.p[i]) {
        key->p[i] = (char)(c + 1);
        key->n = i + 1;
    }
}

static void short_successor(mr_str *key)
{
    for (size_t i = 0; i < key->n; i++)
        if ((uint8_t)key->p[i] != 0xff) {
            key->p[i]++;
            key->n = i + 1;
            return;
        }
}

static void index_pending(mr_table_writer *w)
{
    mr_str value = {0};
    put_varint(&value, w->pending_handle.offset);
    put_varint(&value, w->pending_handle.size);
    block_add(&w->index, mr_str_view(&w->last_key), mr_str_view(&value));
    mr_str_deinit(&value);
    w->pending = false;
}

static mr_status *flush_data(mr_table_writer *w)
{
    if (w->data.bytes.n == 0)
        return NULL;
    mr_str_clear(&w->last_key);
    mr_str_append(&w->last_key, w->data.last_key.p, w->data.last_key.n);
    w->pending = true;
    return block_write(w, &w->data, &w->pending_handle);
}

mr_table_writer *mr_table_writer_new(mr_writer *file)
{
    mr_table_writer *w = mr_new(mr_table_writer);
    w->file = file;
    w->data.restart_every = RESTART_EVERY;
    w->index.restart_every = 1;
    block_reset(&w->data);
    block_reset(&w->index);
    return w;
}

mr_status *mr_table_writer_add(mr_table_writer *w, mr_sv key, mr_sv value)
{
    bool first = w->data.bytes.n == 0 && !w->pending && w->index.bytes.n == 0;
    mr_sv before = mr_str_view(w->data.bytes.n ? &w->data.last_key : &w->last_key);
    if (!first && mr_bytes_compare(before, key) >= 0)
        return mr_error(MR_INTERNAL, "Table keys must ascend: '%.*s' does not follow its predecessor", MR_SV_ARG(key));
    if (w->pending) {
        shortest_separator(&w->last_key, key);
        index_pending(w);
    }
    block_add(&w->data, key, value);
    return block_estimate(&w->data) >= BLOCK_BYTES ? flush_data(w) : NULL;
}

/* Writes the last data block, the empty metaindex block, the index and the footer, in this order. */
mr_status *mr_table_writer_finish(mr_table_writer *w)
{
    handle meta, index;
    block empty = {.restart_every = 1};
    MR_TRY(flush_data(w));
    block_reset(&empty);
    mr_status *st = block_write(w, &empty, &meta);
    mr_vec_deinit(&empty.restarts);
    mr_str_deinit(&empty.bytes);
    MR_TRY(st);
    if (w->pending) {
        short_successor(&w->last_key);
        index_pending(w);
    }
    MR_TRY(block_write(w, &w->index, &index));
    mr_str foot = {0};
    put_varint(&foot, meta.offset);
    put_varint(&foot, meta.size);
    put_varint(&foot, index.offset);
    put_varint(&foot, index.size);
    while (foot.n < FOOTER_BYTES - sizeof magic)
        mr_str_appendc(&foot, 0);
    mr_str_append(&foot, &magic, sizeof magic);
    st = mr_writer_write(w->file, foot.p, foot.n);
    mr_str_deinit(&foot);
    return st;
}

static void block_deinit(block *b)
{
    mr_str_deinit(&b->bytes);
    mr_str_deinit(&b->last_key);
    mr_vec_deinit(&b->restarts);
}

void mr_table_writer_free(mr_table_writer *w)
{
    if (!w)
        return;
    block_deinit(&w->data);
    block_deinit(&w->index);
    mr_str_deinit(&w->last_key);
    mr_free(w);
}
