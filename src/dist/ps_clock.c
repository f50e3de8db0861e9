/* dist/ps_clock.c -- range vector clocks.
 *
 * A client's spans are an array in the order of their ranges. Invariants: they do not overlap, none
 * has number 0, and adjacent spans differ, so there are at most as many as ranges. A client without
 * spans is not in the map. Setting a span replaces those that it overlaps by at most three: what
 * is left before it, itself, what is left after it; then equal neighbours are merged. */
#include "dist/ps_clock.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "dist/recent.h"

enum { MOST_CLIENTS = 1000000 };

typedef mr_ps_client_clock line;

void mr_ps_clock_init(mr_ps_clock *c, int num_ranges, int max_clients)
{
    *c = (mr_ps_clock){.num_ranges = num_ranges, .max_clients = max_clients > 0 ? max_clients : MOST_CLIENTS};
}

static void free_line(line *l)
{
    mr_vec_deinit(&l->spans);
    mr_free(l);
}

void mr_ps_clock_deinit(mr_ps_clock *c)
{
    uint64_t key;
    void *l;
    for (uint32_t pos = 0; mr_imap_next(&c->clients, &pos, &key, &l);)
        free_line(l);
    mr_imap_deinit(&c->clients);
}

static line *line_of(const mr_ps_clock *c, uint64_t client) { return mr_imap_get(&c->clients, mr_id_mixed(client)); }

const mr_ps_client_clock *mr_ps_clock_of(const mr_ps_clock *c, uint64_t client) { return line_of(c, client); }

bool mr_ps_clock_room(const mr_ps_clock *c, uint64_t client)
{
    return c->clients.n < (uint32_t)c->max_clients || line_of(c, client) != NULL;
}

/* ---- reading ---- */

/* The first span that ends after the range. */
static int find_span(const line *l, int range)
{
    int low = 0, high = l->spans.n;
    while (low < high) {
        int mid = low + (high - low) / 2;
        if (l->spans.p[mid].end <= range)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* The client's last timestamp at a range; 0: no push of it was applied there. */
static uint64_t ts_at(const line *l, int range)
{
    int i = find_span(l, range);
    return i < l->spans.n && l->spans.p[i].first <= range ? l->spans.p[i].ts : 0;
}

uint64_t mr_ps_clock_get(const mr_ps_clock *c, uint64_t client, int range)
{
    const line *l = line_of(c, client);
    return l ? ts_at(l, range) : 0;
}

/* The heart of "exactly once": at >= ts means applied before; at == prev means nothing is missing. */
mr_ps_turn mr_ps_turn_at(uint64_t at, uint64_t ts, uint64_t prev)
{
    if (ts == 0 || ts <= prev)
        return MR_PS_BAD;
    if (at >= ts)
        return MR_PS_DUPLICATE;
    return at == prev ? MR_PS_NEXT : MR_PS_GAP;
}

mr_ps_turn mr_ps_clock_turn(const mr_ps_clock *c, uint64_t client, int range, uint64_t ts, uint64_t prev)
{
    if (client == 0 || range < 0 || range >= c->num_ranges)
        return MR_PS_BAD;
    return mr_ps_turn_at(mr_ps_clock_get(c, client, range), ts, prev);
}

/* ---- writing ---- */

/* Replaces n_old spans from `at` on by n others. */
static void splice_spans(line *l, int at, int n_old, const mr_ps_clock_span *pieces, int n)
{
    int n_after = l->spans.n - at - n_old;
    MR_ASSERT(at >= 0 && n_old >= 0 && n_after >= 0);
    mr_vec_reserve(&l->spans, l->spans.n - n_old + n);
    if (n_after > 0)
        memmove(l->spans.p + at + n, l->spans.p + at + n_old, sizeof *l->spans.p * (size_t)n_after);
    if (n > 0)
        memcpy(l->spans.p + at, pieces, sizeof *pieces * (size_t)n);
    l->spans.n += n - n_old;
}

/* Appends a piece, or extends the one before it. Empty pieces and number 0 are left out. */
static int add_piece(mr_ps_clock_span *pieces, int n, int first, int end, uint64_t ts)
{
    if (first >= end || ts == 0)
        return n;
    if (n > 0 && pieces[n - 1].end == first && pieces[n - 1].ts == ts) {
        pieces[n - 1].end = end;
        return n;
    }
    pieces[n] = (mr_ps_clock_span){first, end, ts};
    return n + 1;
}

/* Takes the adjacent spans along, in case they merge with the new one: five pieces at most. */
static void set_span(line *l, int first, int end, uint64_t ts)
{
    mr_ps_clock_span pieces[5];
    int from = find_span(l, first), to = from, n = 0;
    while (to < l->spans.n && l->spans.p[to].first < end)
        to++;
    bool left = from > 0 && l->spans.p[from - 1].end == first;
    bool right = to < l->spans.n && l->spans.p[to].first == end;
    if (left)
        n = add_piece(pieces, n, l->spans.p[from - 1].first, l->spans.p[from - 1].end, l->spans.p[from - 1].ts);
    if (to > from)
        n = add_piece(pieces, n, l->spans.p[from].first, first, l->spans.p[from].ts);
    n = add_piece(pieces, n, first, end, ts);
    if (to > from)
        n = add_piece(pieces, n, end, l->spans.p[to - 1].end, l->spans.p[to - 1].ts);
    if (right)
        n = add_piece(pieces, n, l->spans.p[to].first, l->spans.p[to].end, l->spans.p[to].ts);
    MR_ASSERT(n <= (int)MR_COUNT(pieces) && first < end);
    splice_spans(l, from - left, to - from + left + right, pieces, n);
}

static void drop_line(mr_ps_clock *c, uint64_t client)
{
    line *l = mr_imap_remove(&c->clients, mr_id_mixed(client));
    if (l)
        free_line(l);
}

/* A client that has no span left is removed. */
mr_status *mr_ps_clock_set(mr_ps_clock *c, uint64_t client, int first, int end, uint64_t ts)
{
    if (client == 0 || first < 0 || first >= end || end > c->num_ranges)
        return mr_invalid("client %llx: cannot set the clocks of ranges %d to %d, there are %d ranges",
                          (unsigned long long)client, first, end - 1, c->num_ranges);
    line *l = line_of(c, client);
    if (!l) {
        if (ts == 0)
            return NULL;
        l = mr_new(line);
        l->client = client;
        mr_imap_put(&c->clients, mr_id_mixed(client), l);
    }
    set_span(l, first, end, ts);
    if (l->spans.n == 0)
        drop_line(c, client);
    return NULL;
}

/* ---- one range of all clients ---- */

static int by_client(const void *a, const void *b)
{
    const mr_ps_stamp *p = a, *q = b;
    return (p->client > q->client) - (p->client < q->client);
}

/* Sorted by client, so that two members with the same clocks export the same bytes. */
void mr_ps_clock_export(const mr_ps_clock *c, int range, mr_ps_stamps *out)
{
    MR_ASSERT(range >= 0 && range < c->num_ranges);
    uint64_t key, ts;
    void *l;
    out->n = 0;
    for (uint32_t pos = 0; mr_imap_next(&c->clients, &pos, &key, &l);)
        if ((ts = ts_at(l, range)) != 0)
            mr_vec_push(out, (mr_ps_stamp){((line *)l)->client, ts});
    if (out->n > 1)
        qsort(out->p, (size_t)out->n, sizeof *out->p, by_client);
}

/* Goes through an exported list, because setting a clock to 0 may remove its client from the map. */
void mr_ps_clock_drop_range(mr_ps_clock *c, int range)
{
    mr_ps_stamps all = {0};
    mr_ps_clock_export(c, range, &all);
    for (int i = 0; i < all.n; i++)
        mr_status_free(mr_ps_clock_set(c, all.p[i].client, range, range + 1, 0));
    mr_vec_deinit(&all);
}

/* Replaces the clocks of a range. They are checked first, so on error nothing has changed. */
mr_status *mr_ps_clock_import(mr_ps_clock *c, int range, const mr_ps_stamp *stamps, int n)
{
    if (range < 0 || range >= c->num_ranges)
        return mr_invalid("there is no range %d: ranges are 0 to %d", range, c->num_ranges - 1);
    for (int i = 0; i < n; i++)
        if (stamps[i].client <= (i > 0 ? stamps[i - 1].client : 0) || stamps[i].ts == 0)
            return mr_invalid("range %d: clients of its clocks must rise, and timestamps must not be 0", range);
    mr_ps_clock_drop_range(c, range);
    for (int i = 0; i < n; i++)
        MR_TRY(mr_ps_clock_set(c, stamps[i].client, range, range + 1, stamps[i].ts));
    return NULL;
}

void mr_ps_clock_forget(mr_ps_clock *c, uint64_t client) { drop_line(c, client); }
