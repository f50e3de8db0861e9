/* ps/store_pack.c -- a range as bytes: the copy that a member gets to catch up.
 *
 *     message Range { repeated Part parts = 1; }
 *     message Part {
 *       int32 table = 1;
 *       bytes planes = 2;   // floats; absent: the part has its initial values
 *       bytes sum = 3;      // of a table that aggregates: floats
 *       bytes seen = 4;     // a byte per row
 *       int32 pushed = 5;   // pushes in the sum
 *     }
 *
 * Parts with initial values are left out. Reading goes twice over the bytes: the first pass checks
 * everything, the second allocates and copies. Nothing touches the store before
 * mr_ps_store_install, which cannot fail. */
#include "ps/store.h"

static size_t rows_of(const mr_ps_store *s, int table, int range)
{
    MR_ASSERT(table >= 0 && table < s->tables.n && range >= 0 && range < s->n_ranges);
    uint64_t n = s->tables.p[table]->o.num_keys;
    return (size_t)(mr_ps_range_first(n, s->n_ranges, range + 1) - mr_ps_range_first(n, s->n_ranges, range));
}

static size_t planes_bytes(const mr_ps_table_spec *t, size_t n)
{
    return n * mr_ps_table_row_floats(t) * sizeof(float);
}
static size_t sum_bytes(const mr_ps_table_spec *t, size_t n)
{
    return n * (size_t)mr_ps_table_push_width(t) * sizeof(float);
}

/* Writes nothing for a part with initial values. */
static void put_part(mr_pb_writer *w, const mr_ps_store *s, int table, int range)
{
    const mr_ps_table_spec *t = s->tables.p[table];
    const mr_ps_part *p = &s->parts.p[table][range];
    size_t n = rows_of(s, table, range), mark;
    if (!p->planes && !p->n_pushed)
        return;
    mark = mr_pb_begin(w, 1);
    MR_ASSERT(!p->n_pushed || (p->sum && p->seen));
    mr_pb_opt_varint(w, 1, (uint64_t)table);
    if (p->planes)
        mr_pb_put_bytes(w, 2, (mr_sv){(const char *)p->planes, planes_bytes(t, n)});
    if (p->n_pushed) {
        mr_pb_put_bytes(w, 3, (mr_sv){(const char *)p->sum, sum_bytes(t, n)});
        mr_pb_put_bytes(w, 4, (mr_sv){(const char *)p->seen, n});
        mr_pb_put_varint(w, 5, (uint64_t)p->n_pushed);
    }
    mr_pb_end(w, mark);
}

/* All tables of a range, as they are now. On error out may hold a part of it; the caller frees it. */
mr_status *mr_ps_store_pack(const mr_ps_store *s, int range, mr_str *out)
{
    mr_pb_writer w;
    mr_pb_writer_init(&w, out);
    for (int i = 0; i < s->tables.n; i++)
        put_part(&w, s, i, range);
    return mr_pb_writer_status(&w, "Range");
}

/* ---- reading ---- */

typedef struct part_bytes {
    uint64_t table;
    mr_sv planes, sum, seen;
    int pushed;
} part_bytes;

/* The bytes stay in the message. */
static part_bytes read_part(mr_pb_reader *r)
{
    part_bytes b = {.planes = MR_SV(""), .sum = MR_SV(""), .seen = MR_SV("")};
    uint32_t field, wire;
    while (mr_pb_next(r, &field, &wire))
        switch (field) {
        case 1: b.table = mr_pb_varint(r); break;
        case 2: b.planes = mr_pb_bytes(r); break;
        case 3: b.sum = mr_pb_bytes(r); break;
        case 4: b.seen = mr_pb_bytes(r); break;
        case 5: b.pushed = mr_pb_int32(r); break;
        default: mr_pb_skip(r);
        }
    return b;
}

/* Sizes must be exactly those of the table's part; a sum must be of an unfinished round. */
static mr_status *check_part(const mr_ps_store *s, int range, const part_bytes *b)
{
    if (b->table >= (uint64_t)s->tables.n)
        return mr_error(MR_NOT_FOUND, "There is no table %llu", (unsigned long long)b->table);
    const mr_ps_table_spec *t = s->tables.p[b->table];
    size_t n = rows_of(s, (int)b->table, range);
    bool right = b->planes.n == 0 || b->planes.n == planes_bytes(t, n);
    if (b->pushed)
        right = right && b->pushed > 0 && b->pushed < t->o.aggregate && b->sum.n == sum_bytes(t, n) &&
                b->seen.n == n;
    return right ? NULL
                 : mr_invalid("Table '%s': a copy of range %d has the wrong size (%zu bytes of values for %zu rows)",
                              t->name, range, b->planes.n, n);
}

/* ---- staging and installing ---- */

typedef struct staging {
    const mr_ps_store *store;
    int range;
    size_t room; /* bytes that the range may use */
    mr_ps_staged *to;
} staging;

/* A copy of the bytes; counted: what the store counts for it. NULL: no memory, or no room. */
static void *copy_bytes(staging *g, mr_sv bytes, size_t counted)
{
    MR_ASSERT(g->to->used <= g->room);
    void *p = counted <= g->room - g->to->used ? mr_try_alloc(bytes.n) : NULL;
    if (p) {
        memcpy(p, bytes.p, bytes.n);
        g->to->used += counted;
    }
    return p;
}

/* Second pass. A table that occurs twice is refused here, because the first pass keeps no state. */
static mr_status *take_part(staging *g, const part_bytes *b)
{
    mr_ps_part *p = &g->to->parts[b->table];
    bool ok = !p->planes && !p->sum;
    if (ok && b->planes.n)
        ok = (p->planes = copy_bytes(g, b->planes, b->planes.n)) != NULL;
    if (ok && b->pushed) {
        p->sum = copy_bytes(g, b->sum, b->sum.n + b->seen.n);
        p->seen = p->sum ? mr_try_alloc(b->seen.n) : NULL;
        ok = p->seen != NULL;
        if (ok)
            memcpy(p->seen, b->seen.p, b->seen.n);
        p->n_pushed = ok ? b->pushed : 0;
    }
    return ok ? NULL
              : mr_error(MR_RESOURCE_EXHAUSTED, "Table '%s': no memory for a copy of range %d",
                         g->store->tables.p[b->table]->name, g->range);
}

/* First pass. */
static mr_status *check_staged_part(staging *g, const part_bytes *b) { return check_part(g->store, g->range, b); }

/* Calls fn for each part, until it fails. */
static mr_status *each_part(staging *g, mr_sv bytes, mr_status *(*fn)(staging *g, const part_bytes *b))
{
    mr_pb_reader r, sub;
    uint32_t field, wire;
    mr_status *st = NULL;
    mr_pb_reader_init(&r, bytes);
    while (!st && mr_pb_next(&r, &field, &wire)) {
        if (field != 1) {
            mr_pb_skip(&r);
            continue;
        }
        mr_pb_message(&r, &sub);
        part_bytes b = read_part(&sub);
        if (!r.error)
            st = fn(g, &b);
    }
    return st ? st : mr_pb_reader_status(&r, "Range");
}

/* Bytes that the range may use once its present contents are dropped. */
static size_t room_of(const mr_ps_store *s, int range)
{
    size_t others = s->used;
    for (int i = 0; i < s->tables.n; i++) {
        const mr_ps_part *p = &s->parts.p[i][range];
        size_t n = rows_of(s, i, range);
        MR_ASSERT(!p->sum == !p->seen);
        others -= (p->planes ? planes_bytes(s->tables.p[i], n) : 0) + (p->sum ? sum_bytes(s->tables.p[i], n) + n : 0);
    }
    return !s->limit ? SIZE_MAX : s->limit - MR_MIN(s->limit, others);
}

/* On error *out is empty. */
mr_status *mr_ps_store_stage(const mr_ps_store *s, int range, mr_sv bytes, mr_ps_staged *out)
{
    *out = (mr_ps_staged){.n = s->tables.n};
    staging g = {s, range, room_of(s, range), out};
    MR_TRY(each_part(&g, bytes, check_staged_part));
    out->parts = mr_try_calloc((size_t)out->n + 1, sizeof *out->parts);
    if (!out->parts)
        return mr_error(MR_RESOURCE_EXHAUSTED, "No memory for %d tables of a copy of range %d", out->n, range);
    mr_status *st = each_part(&g, bytes, take_part);
    if (st)
        mr_ps_staged_deinit(out);
    return st;
}

/* Frees a range that was not installed; an installed one is empty. May be called twice. */
void mr_ps_staged_deinit(mr_ps_staged *staged)
{
    for (int i = 0; staged->parts && i < staged->n; i++) {
        mr_free(staged->parts[i].planes);
        mr_free(staged->parts[i].sum);
        mr_free(staged->parts[i].seen);
    }
    mr_free(staged->parts);
    *staged = (mr_ps_staged){0};
}

/* Tables that were added after the staging have initial values, as they had before. */
void mr_ps_store_install(mr_ps_store *s, int range, mr_ps_staged *staged)
{
    MR_ASSERT(staged->parts && staged->n <= s->tables.n);
    mr_ps_store_drop(s, range);
    for (int i = 0; i < staged->n; i++)
        s->parts.p[i][range] = staged->parts[i];
    s->used += staged->used;
    mr_free(staged->parts);
    *staged = (mr_ps_staged){0};
}

mr_status *mr_ps_store_unpack(mr_ps_store *s, int range, mr_sv bytes)
{
    mr_ps_staged staged;
    MR_TRY(mr_ps_store_stage(s, range, bytes, &staged));
    mr_ps_store_install(s, range, &staged);
    return NULL;
}
