/* ps/server_aggregate.c -- replication after aggregation: passes on the resulting rows of a record
 * instead of its pushes.
 *
 * The head has applied the pushes of a record one by one. The other members of the chain need only
 * the resulting rows. Where several pushes of a record touched the same rows of a table, those rows
 * are passed on once, as they are now, if that takes fewer bytes than the pushes. So the traffic
 * along a chain does not grow with the number of workers.
 *
 * Every push keeps its entry, because the clocks follow from the entries. The last entry of a table
 * carries the rows, the earlier ones carry nothing. Members then hold the same rows, to the bit, as
 * if they had applied every push. */
#include "ps/server_internal.h"

typedef struct merging {
    const mr_ps_store *store;
    mr_ps_record *r;
    int range, table;
    const mr_ps_table_spec *spec;
    uint64_t first; /* key of the range */
    size_t n_rows;  /* of the range */
    size_t pushes, bytes; /* of the table in the record */
    size_t n_keys;        /* of all of them */
    int last;             /* entry */
} merging;

/* Whether the entry changes rows of the table and may be merged. */
static bool is_of(const mr_ps_entry *e, int table)
{
    return (e->change.kind == MR_PS_CHANGE_PUSH || e->change.kind == MR_PS_CHANGE_SET) && e->change.table == table;
}

/* Counts what the record has of the table. false: these pushes must go as they are, because there
 * is only one, or because aggregation rounds do not match the record. */
static bool count_pushes(merging *m)
{
    bool sets = false;
    for (int i = 0; i < m->r->entries.n; i++) {
        const mr_ps_change *c = &m->r->entries.p[i].change;
        if (!is_of(&m->r->entries.p[i], m->table))
            continue;
        sets |= c->kind == MR_PS_CHANGE_SET;
        m->pushes++;
        m->n_keys += c->keys.n;
        m->bytes += c->keys.n * ((c->keys.list ? sizeof(uint64_t) : 0) +
                                 mr_ps_change_width(m->spec, c->kind) * sizeof(float));
        m->last = i;
    }
    /* With `aggregate`, a row changes once per round of pushes. The record must hold whole rounds: otherwise
     * the rows contain pushes of other records, or some of its pushes are in no row yet. */
    size_t round = m->spec->o.aggregate > 1 ? (size_t)m->spec->o.aggregate : 1;
    if (round > 1 && (sets || m->pushes % round != 0 || m->store->parts.p[m->table][m->range].n_pushed != 0))
        return false;
    return m->pushes > 1;
}

/* ---- the rows that were touched ---- */

enum { WORD = 64 };

/* Sets the bit of each row that the keys name. The store has checked that they are in the range. */
static void mark_rows(uint64_t *map, const merging *m, const mr_ps_keys *k)
{
    for (size_t i = 0; i < k->n; i++) {
        uint64_t row = (k->list ? k->list[i] : k->first + i) - m->first;
        MR_ASSERT(row < m->n_rows);
        map[row / WORD] |= UINT64_C(1) << (row % WORD);
    }
}

/* Returns the number of distinct rows. */
static size_t mark_all(uint64_t *map, size_t words, const merging *m)
{
    size_t n = 0;
    for (int i = 0; i < m->r->entries.n; i++)
        if (is_of(&m->r->entries.p[i], m->table))
            mark_rows(map, m, &m->r->entries.p[i].change.keys);
    for (size_t i = 0; i < words; i++)
        n += (size_t)__builtin_popcountll(map[i]);
    return n;
}

/* Writes the keys of the set bits in rising order. */
static void list_keys(const uint64_t *map, size_t words, uint64_t first, uint64_t *out)
{
    for (size_t i = 0; i < words; i++)
        for (uint64_t bits = map[i]; bits; bits &= bits - 1)
            *out++ = first + i * WORD + (uint64_t)__builtin_ctzll(bits);
}

/* ---- in place of the pushes ---- */

/* Puts the rows in place of the pushes. all: every row of the range was touched, so no key list is
 * needed. Without memory the pushes go as they are. */
static void replace_pushes(merging *m, const uint64_t *map, size_t words, size_t n, bool all)
{
    MR_ASSERT(n > 0 && n <= m->n_rows && m->pushes > 1);
    size_t row = mr_ps_table_row_floats(m->spec), keys = all ? 0 : n * sizeof(uint64_t);
    mr_ps_blob *b = mr_ps_blob_new(keys + n * row * sizeof(float));
    if (!b)
        return;
    mr_ps_change c = {.kind = MR_PS_CHANGE_SET, .table = m->table, .keys = {.first = m->first, .n = n},
                      .floats = (const float *)(b->data + keys)};
    if (!all) {
        list_keys(map, words, m->first, (uint64_t *)b->data);
        c.keys.list = (const uint64_t *)b->data;
    }
    mr_ps_store_read(m->store, m->table, m->range, c.keys, true, (float *)(b->data + keys));
    for (int i = 0; i < m->r->entries.n; i++) {
        mr_ps_entry *e = &m->r->entries.p[i];
        if (!is_of(e, m->table))
            continue;
        mr_ps_blob_unref(e->blob);
        e->blob = i == m->last ? b : NULL;
        e->change = i == m->last ? c : (mr_ps_change){.kind = MR_PS_CHANGE_NONE};
    }
}

/* A bitmap over the range pays only if the record has at least one key for each of its 64-bit words; fewer
 * keys hardly overlap. */
static void merge_table(merging *m)
{
    if (!count_pushes(m))
        return;
    size_t words = (m->n_rows + WORD - 1) / WORD;
    if (words > m->n_keys)
        return;
    uint64_t *map = mr_try_calloc(words, sizeof *map);
    if (!map)
        return;
    size_t n = mark_all(map, words, m);
    bool all = n == m->n_rows;
    size_t bytes = n * ((all ? 0 : sizeof(uint64_t)) + mr_ps_table_row_floats(m->spec) * sizeof(float));
    if (bytes < m->bytes)
        replace_pushes(m, map, words, n, all);
    mr_free(map);
}

/* A record with ALGEBRA stays as it is: ALGEBRA reads rows as they were between two pushes. */
void mr_ps_record_aggregate(const mr_ps_store *store, int range, mr_ps_record *r)
{
    for (int i = 0; i < r->entries.n; i++)
        if (r->entries.p[i].change.kind == MR_PS_CHANGE_ALGEBRA)
            return;
    for (int i = 0; i < r->entries.n - 1; i++) {
        int table = r->entries.p[i].change.table;
        if (!is_of(&r->entries.p[i], table))
            continue;
        const mr_ps_table_spec *t = store->tables.p[table];
        uint64_t first = mr_ps_range_first(t->o.num_keys, store->n_ranges, range);
        merging m = {.store = store, .r = r, .range = range, .table = table, .spec = t, .first = first,
                     .n_rows = (size_t)(mr_ps_range_first(t->o.num_keys, store->n_ranges, range + 1) - first)};
        merge_table(&m);
    }
}
