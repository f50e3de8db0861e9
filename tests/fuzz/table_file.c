/* tests/fuzz/table_file.c -- table files that no writer would produce.
 *
 * src/store/table.c describes the layout; it is deliberately implemented a second time here: with keys in any order,
 * shared prefixes that are too short, restart points where none are needed, and Snappy blocks, which the library only
 * reads. */
#include "tests/fuzz/table_file.h"

#include "base/memory.h"
#include "tests/fuzz/bytes.h"
#include "wire/crc32c.h"
#include "wire/pb.h"

enum { FOOTER_BYTES = 48, TRAILER_BYTES = 5, HANDLES_BYTES = 40 };
static const uint64_t magic = 0xDB4775248B80FB57u;

typedef struct handle {
    uint64_t offset, size;
} handle;

void fuzz_entries_deinit(fuzz_entries *e)
{
    for (int i = 0; i < e->n; i++) {
        mr_str_deinit(&e->p[i].key);
        mr_str_deinit(&e->p[i].value);
    }
    mr_vec_deinit(e);
}

/* ---- writing ---- */

static void put_varint(mr_str *s, uint64_t v)
{
    uint8_t buf[MR_PB_MAX_VARINT];
    mr_str_append(s, buf, (size_t)(mr_pb_encode_varint(buf, v) - buf));
}

static void put_handle(mr_str *s, handle h)
{
    put_varint(s, h.offset);
    put_varint(s, h.size);
}

static size_t common_prefix(const mr_str *a, const mr_str *b)
{
    size_t n = 0;
    while (n < a->n && n < b->n && a->p[n] == b->p[n])
        n++;
    return n;
}

static void put_entry(mr_str *block, size_t shared, mr_sv key, mr_sv value)
{
    put_varint(block, shared);
    put_varint(block, key.n - shared);
    put_varint(block, value.n);
    mr_str_append(block, key.p + shared, key.n - shared);
    mr_str_append(block, value.p, value.n);
}

static void put_restarts(mr_str *block, const uint32_t *restarts, uint32_t n)
{
    mr_str_append(block, restarts, n * sizeof(*restarts));
    mr_str_append(block, &n, sizeof(n));
}

/* Literals of at most 60 bytes, and sometimes a copy of earlier bytes, if they are equal. */
static void compress(fuzz_rng *r, const mr_str *block, mr_str *out)
{
    put_varint(out, block->n);
    for (size_t at = 0; at < block->n;) {
        size_t n = 1 + fuzz_below(r, 60), back = 1 + fuzz_below(r, 16);
        n = MR_MIN(n, block->n - at);
        if (at >= back && n >= 4 && memcmp(block->p + at - back, block->p + at, n) == 0) {
            mr_str_appendc(out, (char)((n - 1) << 2 | 2));
            mr_str_append(out, &(uint16_t){(uint16_t)back}, 2);
        } else {
            mr_str_appendc(out, (char)((n - 1) << 2));
            mr_str_append(out, block->p + at, n);
        }
        at += n;
    }
}

/* Appends a stored block with its trailer. */
static handle put_block(fuzz_rng *r, mr_str *file, mr_str *block, unsigned damage)
{
    mr_str packed = {0};
    bool snappy = fuzz_once_in(r, 6);
    if (damage && fuzz_once_in(r, damage))
        fuzz_damage(r, block);
    if (snappy)
        compress(r, block, &packed);
    if (snappy && damage && fuzz_once_in(r, damage))
        fuzz_damage(r, &packed);
    mr_str *stored = snappy ? &packed : block;
    handle h = {file->n, stored->n};
    mr_str_appendc(stored, (char)snappy);
    uint32_t crc = mr_crc32c_mask(mr_crc32c(stored->p, stored->n));
    mr_str_append(file, stored->p, stored->n);
    mr_str_append(file, &crc, sizeof(crc));
    mr_str_deinit(&packed);
    mr_str_clear(block);
    return h;
}

/* Entries begin..end as a block. */
static handle put_data_block(fuzz_rng *r, mr_str *file, const fuzz_entries *e, int begin, int end,
                             unsigned damage)
{
    mr_str block = {0};
    MR_VEC(uint32_t) restarts = {0};
    for (int i = begin; i < end; i++) {
        bool restart = i == begin || fuzz_once_in(r, 5);
        size_t shared = restart ? 0 : common_prefix(&e->p[i - 1].key, &e->p[i].key);
        if (restart)
            mr_vec_push(&restarts, (uint32_t)block.n);
        if (fuzz_once_in(r, 5))
            shared = fuzz_below(r, shared + 1);
        put_entry(&block, shared, mr_str_view(&e->p[i].key), mr_str_view(&e->p[i].value));
    }
    put_restarts(&block, restarts.p ? restarts.p : &(uint32_t){0}, (uint32_t)restarts.n);
    handle h = put_block(r, file, &block, damage);
    mr_vec_deinit(&restarts);
    mr_str_deinit(&block);
    return h;
}

void fuzz_table_write(fuzz_rng *r, const fuzz_entries *e, unsigned damage, mr_str *out)
{
    mr_str index = {0}, value = {0}, block = {0}, foot = {0};
    for (int i = 0; i < e->n;) {
        int n = 1 + (int)fuzz_below(r, fuzz_once_in(r, 2) ? 4 : 100), end = MR_MIN(e->n, i + n);
        put_handle(&value, put_data_block(r, out, e, i, end, damage));
        put_entry(&index, 0, mr_str_view(&e->p[end - 1].key), mr_str_view(&value));
        mr_str_clear(&value);
        i = end;
    }
    put_restarts(&block, &(uint32_t){0}, 1);
    put_handle(&foot, put_block(r, out, &block, 0));
    put_restarts(&index, &(uint32_t){0}, 1);
    put_handle(&foot, put_block(r, out, &index, damage ? damage * 4 : 0));
    while (foot.n < HANDLES_BYTES)
        mr_str_appendc(&foot, 0);
    mr_str_append(out, foot.p, HANDLES_BYTES);
    mr_str_append(out, &magic, sizeof(magic));
    mr_str_deinit(&index);
    mr_str_deinit(&value);
    mr_str_deinit(&block);
    mr_str_deinit(&foot);
}

/* ---- repairing ---- */

static bool take_handle(mr_pb_reader *c, handle *out)
{
    out->offset = mr_pb_raw_varint(c);
    out->size = mr_pb_raw_varint(c);
    return !c->error;
}

static bool fits(const mr_str *file, handle h)
{
    return h.offset <= file->n && h.size <= file->n - h.offset &&
           file->n - h.offset - h.size >= TRAILER_BYTES;
}

static void repair_block(mr_str *file, handle h)
{
    if (!fits(file, h))
        return;
    char *p = file->p + h.offset;
    uint32_t crc = mr_crc32c_mask(mr_crc32c(p, (size_t)h.size + 1));
    memcpy(p + h.size + 1, &crc, sizeof(crc));
}

/* The data blocks an index block names, as far as it can be read. */
static void repair_named(mr_str *file, handle index)
{
    mr_pb_reader c;
    handle h;
    mr_pb_reader_init(&c, (mr_sv){file->p + index.offset, (size_t)index.size});
    while (mr_pb_more(&c) && !c.error) {
        (void)mr_pb_raw_varint(&c);
        uint64_t key = mr_pb_raw_varint(&c), value = mr_pb_raw_varint(&c);
        if (c.error || key > mr_pb_rest(&c).n || value > mr_pb_rest(&c).n - key)
            return;
        mr_pb_reader v;
        mr_pb_reader_init(&v, (mr_sv){(const char *)c.at + key, (size_t)value});
        if (take_handle(&v, &h))
            repair_block(file, h);
        c.at += key + value;
    }
}

void fuzz_table_repair(mr_str *file)
{
    handle meta, index;
    mr_pb_reader c;
    if (file->n < FOOTER_BYTES)
        return;
    memcpy(file->p + file->n - sizeof(magic), &magic, sizeof(magic));
    mr_pb_reader_init(&c, (mr_sv){file->p + file->n - FOOTER_BYTES, HANDLES_BYTES});
    if (!take_handle(&c, &meta) || !take_handle(&c, &index))
        return;
    repair_block(file, meta);
    if (fits(file, index) && file->p[index.offset + index.size] == 0) /* not compressed */
        repair_named(file, index);
    repair_block(file, index);
}
