/* ps/server_aggregate.c -- replication after aggregation: what the pushes of a record came to, instead of the pushes.
 *
 * The head has applied the pushes of a record one by one; the others of the chain need only the rows that came of them.  Where
 * several pushes of a record touched the same rows of a table, those rows are passed on once, as they are now, if that takes fewer
 * bytes than the pushes.  So what goes along a chain does not grow with the number of workers.
 *
 * Every push keeps its entry, which clocks follow from; the last one of its table has the rows, those before it have nothing.
 * Members hold the same rows then, to the bit, as if they had applied all pushes. */
#include "ps/server_internal.h"

typedef struct merging {
    const mr_ps_store *store;
    mr_ps_record *r;
    int slot, table;
    const mr_ps_table_spec *spec;
    uint64_t first; /* key of the slot */
    size_t n_rows;  /* of the slot */
    size_t pushes, bytes; /* of the table in the record */
    size_t n_keys;        /* of all of them */
    int last;             /* entry */
} merging;

static bool is_of(const mr_ps_entry *e, int table)
{
    return (e->change.kind == MR_PS_CHANGE_PUSH || e->change.kind == MR_PS_CHANGE_SET) && e->change.table == table;
}

/* Counts what the table has in the record; false: it must stay as it is. */
static bool count(merging *m)
{
    bool sets = false;
    for (int i = 0; i < m->r->entries.n; i++) {
        const mr_ps_change *c = &m->r->entries.p[i].change;
        if (!is_of(&m->r->entries.p[i], m->table))
            continue;
        sets |= c->kind == MR_PS_CHANGE_SET;
        m->pushes++;
        m->n_keys += c->keys.n;
        m->bytes += c->keys.n * ((c->keys.list ? sizeof(uint64_t) : 0) + mr_ps_change_width(m->spec, c->kind) * sizeof(float));
        m->last = i;
    }
    /* Rows that are set end a round of aggregation.  Here one must end with the record and have begun with it: else there are
     * pushes of other records in the rows, or sums that are not in any row yet. */
    size_t round = m->spec->o.aggregate > 1 ? (size_t)m->spec->o.aggregate : 1;
    if (round > 1 && (sets || m->pushes % round != 0 || m->store->parts.p[m->table][m->slot].n_pushed != 0))
        return false;
    return m->pushes > 1;
}

/* ---- the rows that were touched ---- */

enum { WORD = 64 };

static void mark(uint64_t *map, const merging *m, const mr_ps_keys *k)
{
    for (size_t i = 0; i < k->n; i++) {
        uint64_t row = (k->list ? k->list[i] : k->first + i) - m->first;
        map[row / WORD] |= UINT64_C(1) << (row % WORD);
    }
}

static size_t mark_all(uint64_t *map, size_t words, const merging *m)
{
    size_t n = 0;
    for (int i = 0; i < m->r->entries.n; i++)
        if (is_of(&m->r->entries.p[i], m->table))
            mark(map, m, &m->r->entries.p[i].change.keys);
    for (size_t i = 0; i < words; i++)
        n += (size_t)__builtin_popcountll(map[i]);
    return n;
}

static void list_keys(const uint64_t *map, size_t words, uint64_t first, uint64_t *out)
{
    for (size_t i = 0; i < words; i++)
        for (uint64_t bits = map[i]; bits; bits &= bits - 1)
            *out++ = first + i * WORD + (uint64_t)__builtin_ctzll(bits);
}

/* ---- in place of the pushes ---- */

static void replace(merging *m, const uint64_t *map, size_t words, size_t n, bool all)
{
    size_t row = mr_ps_table_row_floats(m->spec), keys = all ? 0 : n * sizeof(uint64_t);
    mr_ps_blob *b = mr_ps_blob_new(keys + n * row * sizeof(float));
    if (!b) /* then the pushes go as they are */
        return;
    mr_ps_change c = {.kind = MR_PS_CHANGE_SET, .table = m->table, .keys = {.first = m->first, .n = n},
                      .floats = (const float *)(b->data + keys)};
    if (!all) {
        list_keys(map, words, m->first, (uint64_t *)b->data);
        c.keys.list = (const uint64_t *)b->data;
    }
    mr_ps_store_read(m->store, m->table, m->slot, c.keys, true, (float *)(b->data + keys));
    for (int i = 0; i < m->r->entries.n; i++) {
        mr_ps_entry *e = &m->r->entries.p[i];
        if (!is_of(e, m->table))
            continue;
        mr_ps_blob_unref(e->blob);
        e->blob = i == m->last ? b : NULL;
        e->change = i == m->last ? c : (mr_ps_change){.kind = MR_PS_CHANGE_NONE};
    }
}

static void merge_table(merging *m)
{
    if (!count(m))
        return;
    size_t words = (m->n_rows + WORD - 1) / WORD;
    if (words > m->n_keys) /* few keys of a large slot hardly meet */
        return;
    uint64_t *map = mr_try_calloc(words, sizeof *map);
    if (!map)
        return;
    size_t n = mark_all(map, words, m);
    bool all = n == m->n_rows;
    size_t bytes = n * ((all ? 0 : sizeof(uint64_t)) + mr_ps_table_row_floats(m->spec) * sizeof(float));
    if (bytes < m->bytes)
        replace(m, map, words, n, all);
    mr_free(map);
}

void mr_ps_record_aggregate(const mr_ps_store *store, int slot, mr_ps_record *r)
{
    for (int i = 0; i < r->entries.n; i++)
        if (r->entries.p[i].change.kind == MR_PS_CHANGE_ALGEBRA) /* it reads rows as they were in between */
            return;
    for (int i = 0; i < r->entries.n - 1; i++) {
        int table = r->entries.p[i].change.table;
        if (!is_of(&r->entries.p[i], table))
            continue;
        const mr_ps_table_spec *t = store->tables.p[table];
        uint64_t first = mr_ps_slot_first(t->o.num_keys, store->n_slots, slot);
        merging m = {.store = store, .r = r, .slot = slot, .table = table, .spec = t, .first = first,
                     .n_rows = (size_t)(mr_ps_slot_first(t->o.num_keys, store->n_slots, slot + 1) - first)};
        merge_table(&m);
    }
}
