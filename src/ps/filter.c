/* ps/filter.c -- see filter.h.
 *
 * Residuals are a hash table by key (open addressing, at most two thirds full) of indices into an
 * array of rows that only grows: a worker's keys come again, so a row that has been sent keeps its
 * place. An ASSIGN row has the value sent last behind the one that waits. n_waiting is the number
 * of rows whose `waits` is 1. */
#include "ps/filter.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* ---- KKT ---- */

/* The test has no branches; a NaN compares false and is therefore sent. */
size_t mr_ps_filter_kkt(const float *values, const float *pushed, size_t n, int width, int push_width,
                        float threshold, uint8_t *present, mr_ps_filter_stats *stats)
{
    size_t left_out = 0;
    for (size_t i = 0; i < n; i++) {
        const float *w = values + i * (size_t)width, *g = pushed + i * (size_t)push_width;
        bool stays = present[i];
        for (int j = 0; j < width; j++)
            stays &= (w[j] == 0) & (fabsf(g[j]) <= threshold);
        present[i] &= !stays;
        left_out += stays;
    }
    stats->kkt += (int64_t)left_out;
    return left_out;
}

/* ---- random skip ---- */

/* The mixing function of splitmix64. */
static uint64_t mix_bits(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* keep outside of (0, 1) means that every row is kept. Rows that an earlier filter left out draw nothing, but they do
 * not shift the draws of the others. */
size_t mr_ps_filter_skip(float *pushed, size_t n, int push_width, float keep, uint64_t seed, uint8_t *present,
                         mr_ps_filter_stats *stats)
{
    if (!(keep > 0 && keep < 1))
        return 0;
    size_t left_out = 0, w = (size_t)push_width;
    uint64_t start = mix_bits(seed + 0x9e3779b97f4a7c15u);
    for (size_t i = 0; i < n; i++) {
        if (!present[i])
            continue;
        double chance = (double)(mix_bits(start + i * 0x9e3779b97f4a7c15u) >> 11) * 0x1p-53;
        present[i] = chance < (double)keep;
        left_out += !present[i];
        for (size_t j = 0; j < w && present[i]; j++)
            pushed[i * w + j] /= keep;
    }
    stats->skipped += (int64_t)left_out;
    return left_out;
}

/* ---- significantly modified ---- */

struct mr_ps_residuals {
    int width;
    bool assign;
    uint32_t *table; /* index + 1 into the arrays below; 0: free */
    size_t n_table;  /* a power of two */
    size_t n, room;  /* rows */
    uint64_t *keys;
    uint8_t *waits;
    float *rows; /* row_stride(r) floats each */
    size_t n_waiting;
};

/* Floats from one row to the next. */
static size_t row_stride(const mr_ps_residuals *r) { return (size_t)r->width * (r->assign ? 2 : 1); }

mr_ps_residuals *mr_ps_residuals_new(int push_width, bool assign)
{
    mr_ps_residuals *r = mr_new(mr_ps_residuals);
    r->width = push_width;
    r->assign = assign;
    return r;
}

void mr_ps_residuals_free(mr_ps_residuals *r)
{
    if (!r)
        return;
    mr_free(r->table);
    mr_free(r->keys);
    mr_free(r->waits);
    mr_free(r->rows);
    mr_free(r);
}

/* The table's entry of the key, or the free one where it would go. */
static uint32_t *find_entry(const mr_ps_residuals *r, uint64_t key)
{
    MR_ASSERT(r->n_table > r->n);
    size_t at = mix_bits(key) & (r->n_table - 1);
    while (r->table[at] && r->keys[r->table[at] - 1] != key)
        at = (at + 1) & (r->n_table - 1);
    return &r->table[at];
}

/* Makes room for `want` keys in all. On failure the old table stays. */
static bool grow_table(mr_ps_residuals *r, size_t want)
{
    size_t n = MR_MAX(r->n_table, (size_t)64);
    while (n / 3 * 2 < want)
        n *= 2;
    if (n == r->n_table)
        return true;
    uint32_t *table = mr_try_calloc(n, sizeof *table);
    if (!table)
        return false;
    mr_free(r->table);
    r->table = table;
    r->n_table = n;
    for (size_t i = 0; i < r->n; i++)
        *find_entry(r, r->keys[i]) = (uint32_t)i + 1;
    return true;
}

static bool grow_array(void **p, size_t n, size_t element)
{
    size_t bytes;
    void *q = mr_size_mul(n, element, &bytes) ? mr_try_realloc(*p, bytes) : NULL;
    *p = q ? q : *p;
    return q;
}

/* Room for n more rows. On failure everything is as it was, though some arrays may be larger. */
static mr_status *reserve_rows(mr_ps_residuals *r, size_t n)
{
    size_t want, room = MR_MAX(r->room, (size_t)64);
    bool fits = mr_size_add(r->n, n, &want) && want < UINT32_MAX;
    while (fits && room < want)
        room *= 2;
    if (fits && room > r->room)
        fits = grow_array((void **)&r->keys, room, sizeof *r->keys) &&
               grow_array((void **)&r->waits, room, 1) &&
               grow_array((void **)&r->rows, room, row_stride(r) * sizeof(float));
    if (!fits || !grow_table(r, want))
        return mr_error(MR_RESOURCE_EXHAUSTED, "filter: no memory to hold back %zu more rows", n);
    r->room = room;
    return NULL;
}

/* The index of a key's row. A new key gets a row of zeros; reserve_rows has made the room. */
static size_t place_of(mr_ps_residuals *r, uint64_t key, bool *is_new)
{
    uint32_t *at = find_entry(r, key);
    *is_new = !*at;
    if (*is_new) {
        MR_ASSERT(r->n < r->room);
        r->keys[r->n] = key;
        r->waits[r->n] = 0;
        memset(r->rows + r->n * row_stride(r), 0, row_stride(r) * sizeof(float));
        *at = (uint32_t)++r->n;
    }
    return *at - 1;
}

/* Changes the flag of a row, and n_waiting with it. */
static void set_waits(mr_ps_residuals *r, size_t place, bool waits)
{
    MR_ASSERT(place < r->n && r->n_waiting <= r->n);
    r->n_waiting += (size_t)waits - r->waits[place];
    r->waits[place] = waits;
}

/* Adds what is held back to the pushed row. true: the row is sent, and nothing of it is held back. */
static bool join_additive(mr_ps_residuals *r, size_t place, float *row, int judged, float threshold)
{
    float *kept = r->rows + place * row_stride(r);
    bool small = true, any = false;
    for (int j = 0; j < r->width; j++) {
        row[j] += kept[j];
        any |= row[j] != 0;
        small &= j >= judged || fabsf(row[j]) <= threshold;
    }
    for (int j = 0; j < r->width; j++)
        kept[j] = small ? row[j] : 0;
    set_waits(r, place, small && any);
    return !small;
}

/* The same for ASSIGN. The first value of a key is always sent, because there is none to compare it
 * with. */
static bool join_assign(mr_ps_residuals *r, size_t place, bool is_new, const float *row, int judged, float threshold)
{
    float *newest = r->rows + place * row_stride(r), *sent = newest + r->width;
    bool small = !is_new, any = false;
    for (int j = 0; j < r->width; j++) {
        newest[j] = row[j];
        any |= row[j] != sent[j];
        small &= j >= judged || fabsf(row[j] - sent[j]) <= threshold;
    }
    if (!small)
        memcpy(sent, newest, (size_t)r->width * sizeof(float));
    set_waits(r, place, small && any);
    return !small;
}

/* Memory for all rows is reserved before the first one changes. */
mr_status *mr_ps_filter_modified(mr_ps_residuals *r, const uint64_t *keys, size_t n, float *pushed, int judged,
                                 float threshold, uint8_t *present, mr_ps_filter_stats *stats)
{
    MR_TRY(reserve_rows(r, n));
    for (size_t i = 0; i < n; i++) {
        if (!present[i])
            continue;
        bool is_new;
        size_t place = place_of(r, keys[i], &is_new);
        float *row = pushed + i * (size_t)r->width;
        present[i] = r->assign ? join_assign(r, place, is_new, row, judged, threshold)
                               : join_additive(r, place, row, judged, threshold);
        stats->unmodified += !present[i];
    }
    return NULL;
}

size_t mr_ps_residuals_count(const mr_ps_residuals *r) { return r->n_waiting; }

static int by_key(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* ASSIGN rows remember what is taken out as sent; additive rows start again at 0. */
mr_status *mr_ps_residuals_flush(mr_ps_residuals *r, uint64_t **keys, float **values, size_t *n)
{
    size_t w = (size_t)r->width, at = 0;
    uint64_t *k = mr_try_alloc(r->n_waiting * sizeof *k);
    float *v = mr_try_alloc(r->n_waiting * w * sizeof *v);
    if (!k || !v) {
        mr_free(k);
        mr_free(v);
        return mr_error(MR_RESOURCE_EXHAUSTED, "filter: no memory to flush %zu rows", r->n_waiting);
    }
    for (size_t i = 0; i < r->n; i++)
        if (r->waits[i])
            k[at++] = r->keys[i];
    MR_ASSERT(at == r->n_waiting);
    qsort(k, at, sizeof *k, by_key);
    for (size_t i = 0; i < at; i++) {
        size_t place = *find_entry(r, k[i]) - 1;
        float *row = r->rows + place * row_stride(r);
        memcpy(v + i * w, row, w * sizeof *v);
        if (r->assign)
            memcpy(row + w, row, w * sizeof *v);
        else
            memset(row, 0, w * sizeof *v);
        set_waits(r, place, false);
    }
    *keys = k;
    *values = v;
    *n = at;
    return NULL;
}
