/* dist/ps_ring.c -- which servers should hold a range.
 *
 * First the heads, then the other places. For each: a present member that is within its bound
 * stays; for the places that are left, the ring is walked until a server with room is found. A range that needs a
 * new head looks among its present members first, to which nothing has to be copied.
 *
 * The bounds add up to the number of ranges, so a walk for a head always finds one. */
#include "dist/ps_ring.h"

#include <stdlib.h>
#include <string.h>

enum { POINTS = 32 }; /* of each server */

typedef struct point {
    uint64_t at;
    int server;
} point;

typedef struct deal {
    const uint64_t *ids;
    int n, num_ranges, k;
    const mr_ps_range *now;
    uint64_t *order;
    int n_dealt;   /* ranges that are not lost */
    point *ring;
    int *heads;    /* by server: ranges that it is head of */
    int *copies;   /* by server: ranges that it holds */
    int *seen;     /* by server: the walk that met it last */
    int walk;
    int low, extra; /* each server is head of `low` ranges, `extra` servers of one more */
    int most_copies;
} deal;

/* Mixes 64 bits into 64 (splitmix64): points must not depend on how ids were made. */
static uint64_t mix_bits(uint64_t z)
{
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static int by_place(const void *a, const void *b)
{
    const point *p = a, *q = b;
    if (p->at != q->at)
        return p->at < q->at ? -1 : 1;
    return (p->server > q->server) - (p->server < q->server);
}

/* POINTS points for each server, sorted by their place on the ring. */
static void make_ring(deal *d)
{
    for (int i = 0; i < d->n; i++)
        for (int k = 0; k < POINTS; k++)
            d->ring[i * POINTS + k] = (point){mix_bits(d->ids[i] ^ mix_bits((uint64_t)k)), i};
    qsort(d->ring, (size_t)d->n * POINTS, sizeof *d->ring, by_place);
}

/* The index of a server; -1: it is not among those that get ranges. */
static int index_of(const deal *d, uint64_t id)
{
    int low = 0, high = d->n;
    while (low < high) {
        int mid = low + (high - low) / 2;
        if (d->ids[mid] < id)
            low = mid + 1;
        else
            high = mid;
    }
    return low < d->n && d->ids[low] == id ? low : -1;
}

static bool is_lost(const deal *d, int range) { return d->now && d->now[range].lost; }

/* Member i of a range at present, as an index; the one that catches up comes last. -1: no longer a
 * server; -2: no more members. */
static int present_member(const deal *d, int range, int i)
{
    if (!d->now || i > d->now[range].n)
        return -2;
    const mr_ps_range *s = &d->now[range];
    return index_of(d, i < s->n ? s->chain[i].id : s->catching.id);
}

static uint64_t *places_of(const deal *d, int range) { return d->order + (size_t)range * (size_t)d->k; }

static bool is_placed(const deal *d, int range, int server)
{
    for (int i = 0; i < d->k; i++)
        if (places_of(d, range)[i] == d->ids[server])
            return true;
    return false;
}

/* Puts a server at place i of a range. */
static void place_server(deal *d, int range, int i, int server)
{
    MR_ASSERT(server >= 0 && server < d->n && places_of(d, range)[i] == 0);
    places_of(d, range)[i] = d->ids[server];
    d->copies[server]++;
    d->heads[server] += i == 0;
}

/* ---- the walk ---- */

/* The first point of the ring at or after the range's own. */
static int start_of(const deal *d, int range)
{
    uint64_t at = mix_bits(~(uint64_t)range);
    int low = 0, high = d->n * POINTS;
    while (low < high) {
        int mid = low + (high - low) / 2;
        if (d->ring[mid].at < at)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* The first server on the range's walk for which will_do is true; -1: none. Servers are met once. */
static int walk_ring(deal *d, int range, bool (*will_do)(const deal *d, int range, int server))
{
    int n_points = d->n * POINTS, start = start_of(d, range), met = 0;
    d->walk++;
    for (int i = 0; i < n_points && met < d->n; i++) {
        int server = d->ring[(start + i) % n_points].server;
        if (d->seen[server] == d->walk)
            continue;
        d->seen[server] = d->walk;
        met++;
        if (will_do(d, range, server))
            return server;
    }
    return -1;
}

/* ---- heads ---- */

/* Whether a server is within its bound of heads. */
static bool may_head(const deal *d, int range, int server)
{
    (void)range;
    return d->heads[server] < d->low || (d->heads[server] == d->low && d->extra > 0);
}

/* `extra` counts the servers that may still be head of one range more than `low`. */
static void place_head(deal *d, int range, int server)
{
    MR_ASSERT(server >= 0 && may_head(d, range, server));
    d->extra -= d->heads[server] == d->low;
    place_server(d, range, 0, server);
}

/* A head stays if it is within its bound. The extra places go to the heads that are met first. */
static void keep_heads(deal *d)
{
    for (int range = 0; range < d->num_ranges; range++) {
        int head = is_lost(d, range) ? -1 : present_member(d, range, 0);
        if (head >= 0 && d->now[range].n > 0 && may_head(d, range, head))
            place_head(d, range, head);
    }
}

/* Prefers a present member, to which nothing has to be copied. */
static int new_head(deal *d, int range)
{
    for (int i = 1, server; (server = present_member(d, range, i)) != -2; i++)
        if (server >= 0 && may_head(d, range, server))
            return server;
    return walk_ring(d, range, may_head);
}

static void find_heads(deal *d)
{
    for (int range = 0; range < d->num_ranges; range++)
        if (!is_lost(d, range) && places_of(d, range)[0] == 0)
            place_head(d, range, new_head(d, range));
}

/* ---- the other places ---- */

static bool may_copy(const deal *d, int range, int server)
{
    return d->copies[server] < d->most_copies && !is_placed(d, range, server);
}

/* The first free place behind the head; -1: all are taken. */
static int next_free(const deal *d, int range)
{
    for (int i = 1; i < d->k; i++)
        if (places_of(d, range)[i] == 0)
            return i;
    return -1;
}

/* Present members keep their places, as far as they have room. */
static void keep_copies(deal *d, int range)
{
    for (int i = 0, server, at; (server = present_member(d, range, i)) != -2 && (at = next_free(d, range)) > 0; i++)
        if (server >= 0 && may_copy(d, range, server))
            place_server(d, range, at, server);
}

/* No server with room is left for this range: the one with the fewest copies takes it. */
static int least_loaded(const deal *d, int range)
{
    int best = -1;
    for (int i = 0; i < d->n; i++)
        if (!is_placed(d, range, i) && (best < 0 || d->copies[i] < d->copies[best]))
            best = i;
    return best;
}

/* Fills the places that are left. k <= n, so there is always a server that does not hold the range yet. */
static void find_copies(deal *d, int range)
{
    for (int at; (at = next_free(d, range)) > 0;) {
        int server = walk_ring(d, range, may_copy);
        place_server(d, range, at, server >= 0 ? server : least_loaded(d, range));
    }
}

/* Heads are placed before copies, because their bounds are tight. */
static void deal_all(deal *d)
{
    make_ring(d);
    d->low = d->n_dealt / d->n;
    d->extra = d->n_dealt % d->n;
    d->most_copies = (int)(((int64_t)d->n_dealt * d->k + d->n - 1) / d->n);
    keep_heads(d);
    find_heads(d);
    for (int range = 0; range < d->num_ranges; range++)
        if (!is_lost(d, range))
            keep_copies(d, range);
    for (int range = 0; range < d->num_ranges; range++)
        if (!is_lost(d, range))
            find_copies(d, range);
}

/* Deterministic; on error `order` is zeros. */
mr_status *mr_ps_ring_deal(const uint64_t *ids, int n, int num_ranges, int k, const mr_ps_range *now, uint64_t *order)
{
    bool sizes = n >= 1 && n <= MR_PS_MAX_SERVERS && num_ranges >= 1 && num_ranges <= MR_PS_MAX_RANGES;
    if (!sizes || k < 1 || k > MR_PS_MAX_REPLICAS || k > n)
        return mr_invalid("cannot assign %d ranges with %d copies each to %d servers", num_ranges, k, n);
    deal d = {.ids = ids, .n = n, .num_ranges = num_ranges, .k = k, .now = now, .order = order};
    memset(order, 0, sizeof *order * (size_t)num_ranges * (size_t)k);
    for (int range = 0; range < num_ranges; range++)
        d.n_dealt += !is_lost(&d, range);
    d.ring = mr_try_alloc(sizeof *d.ring * (size_t)n * POINTS);
    d.heads = mr_try_calloc((size_t)n * 3, sizeof *d.heads);
    mr_status *st = NULL;
    if (d.ring && d.heads) {
        d.copies = d.heads + n;
        d.seen = d.copies + n;
        deal_all(&d);
    } else {
        st = mr_error(MR_RESOURCE_EXHAUSTED, "no memory to assign %d ranges to %d servers", num_ranges, n);
    }
    mr_free(d.ring);
    mr_free(d.heads);
    return st;
}
