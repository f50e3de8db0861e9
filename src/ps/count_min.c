/* ps/count_min.c -- see count_min.h.
 *
 * depth rows of width counters. A key's counter in each row comes from one strong hash, split in
 * two: h1 + i h2. That is nearly as good as independent rows (Kirsch and Mitzenmacher) and costs
 * one multiplication per row.
 *
 * A large sketch is in memory, not in a cache. So keys are handled in groups: the counters of all
 * keys are prefetched before the first is read. Within a group keys are counted one after the
 * other, so the result is the same as inserting them one by one. */
#include "ps/count_min.h"

#include "base/memory.h"
#include "wire/pb.h"

enum { GROUP = 16, VERSION = 1 };
#define MOST_COUNTERS ((uint64_t)1 << 36) /* 256 GiB: more is a mistake or an attack */

struct mr_count_min {
    uint64_t mask; /* width - 1 */
    uint64_t seed, total;
    int depth;
    uint32_t *counts; /* depth * width */
};

/* The product of width and depth cannot overflow after this. */
static mr_status *check_size(uint64_t width, int64_t depth)
{
    if (width < 1 || depth < 1 || depth > MR_COUNT_MIN_MAX_DEPTH || width > MOST_COUNTERS / MR_COUNT_MIN_MAX_DEPTH)
        return mr_invalid("count-min: depth is %lld, expected 1 to %d; width is %llu, expected 1 to %llu",
                          (long long)depth, MR_COUNT_MIN_MAX_DEPTH, (unsigned long long)width,
                          (unsigned long long)(MOST_COUNTERS / MR_COUNT_MIN_MAX_DEPTH));
    return NULL;
}

mr_status *mr_count_min_new(uint64_t width, int depth, uint64_t seed, mr_count_min **out)
{
    MR_TRY(check_size(width, depth));
    uint64_t n = 1;
    while (n < width)
        n *= 2;
    uint32_t *counts = mr_try_calloc((size_t)n * (size_t)depth, sizeof *counts);
    if (!counts)
        return mr_error(MR_RESOURCE_EXHAUSTED, "count-min: no memory for %d rows of %llu counters", depth,
                        (unsigned long long)n);
    *out = mr_new(mr_count_min);
    **out = (mr_count_min){.mask = n - 1, .seed = seed, .depth = depth, .counts = counts};
    return NULL;
}

void mr_count_min_free(mr_count_min *s)
{
    if (s)
        mr_free(s->counts);
    mr_free(s);
}

/* All 64 bits are used, half for the place in the first row and half for the step to the next. */
static inline uint64_t hash_of(uint64_t seed, uint64_t key)
{
    __uint128_t m = (__uint128_t)(key ^ seed ^ 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;
    uint64_t z = (uint64_t)m ^ (uint64_t)(m >> 64) ^ seed;
    z = (z ^ z >> 32) * 0xff51afd7ed558ccdu;
    return z ^ z >> 29;
}

/* The key's counter in each row. */
static inline void find_counters(const mr_count_min *s, uint64_t key, uint32_t **at)
{
    MR_ASSERT(s->depth >= 1 && s->depth <= MR_COUNT_MIN_MAX_DEPTH);
    uint64_t h = hash_of(s->seed, key), step = (h >> 32 | h << 32) | 1;
    for (int i = 0; i < s->depth; i++, h += step)
        at[i] = s->counts + (s->mask + 1) * (uint64_t)i + (h & s->mask);
}

/* The smallest of a key's counters is the best estimate. */
static inline uint32_t least_count(uint32_t *const *at, int depth)
{
    uint32_t v = *at[0];
    for (int i = 1; i < depth; i++)
        v = MR_MIN(v, *at[i]);
    return v;
}

/* Prefetches, then counts; see the head of this file. */
static void insert_group(mr_count_min *s, const uint64_t *keys, size_t n)
{
    MR_ASSERT(n <= GROUP);
    uint32_t *at[GROUP][MR_COUNT_MIN_MAX_DEPTH];
    for (size_t k = 0; k < n; k++) {
        find_counters(s, keys[k], at[k]);
        for (int i = 0; i < s->depth; i++)
            __builtin_prefetch(at[k][i], 1);
    }
    for (size_t k = 0; k < n; k++) {
        uint32_t v = least_count(at[k], s->depth);
        v += v != UINT32_MAX;
        for (int i = 0; i < s->depth; i++)
            *at[k][i] = MR_MAX(*at[k][i], v);
    }
}

void mr_count_min_insert(mr_count_min *s, const uint64_t *keys, size_t n)
{
    for (size_t k = 0; k < n; k += GROUP)
        insert_group(s, keys + k, MR_MIN(n - k, (size_t)GROUP));
    s->total += n;
}

uint32_t mr_count_min_get(const mr_count_min *s, uint64_t key)
{
    uint32_t v;
    mr_count_min_get_many(s, &key, 1, &v);
    return v;
}

/* The counterpart of insert_group: prefetches a group of keys before it reads them. */
void mr_count_min_get_many(const mr_count_min *s, const uint64_t *keys, size_t n, uint32_t *counts)
{
    uint32_t *at[GROUP][MR_COUNT_MIN_MAX_DEPTH];
    for (size_t first = 0; first < n; first += GROUP) {
        size_t m = MR_MIN(n - first, (size_t)GROUP);
        for (size_t k = 0; k < m; k++) {
            find_counters(s, keys[first + k], at[k]);
            for (int i = 0; i < s->depth; i++)
                __builtin_prefetch(at[k][i], 0);
        }
        for (size_t k = 0; k < m; k++)
            counts[first + k] = least_count(at[k], s->depth);
    }
}

uint64_t mr_count_min_total(const mr_count_min *s) { return s->total; }

size_t mr_count_min_size(const mr_count_min *s) { return (size_t)(s->mask + 1) * (size_t)s->depth; }
uint32_t *mr_count_min_counters(const mr_count_min *s) { return s->counts; }

/* Counters add up and saturate; the error bounds add up too. */
mr_status *mr_count_min_merge(mr_count_min *into, const mr_count_min *from)
{
    if (into->mask != from->mask || into->depth != from->depth || into->seed != from->seed)
        return mr_invalid("count-min: cannot merge %d rows of %llu counters, seed %llu, with %d of %llu, seed %llu",
                          into->depth, (unsigned long long)into->mask + 1, (unsigned long long)into->seed,
                          from->depth, (unsigned long long)from->mask + 1, (unsigned long long)from->seed);
    size_t n = mr_count_min_size(into);
    for (size_t i = 0; i < n; i++) {
        uint32_t sum = into->counts[i] + from->counts[i];
        into->counts[i] = sum < from->counts[i] ? UINT32_MAX : sum;
    }
    into->total = into->total + from->total < into->total ? UINT64_MAX : into->total + from->total;
    return NULL;
}

/* ---- as bytes ---- */

/* The format: varints of version, width, depth, seed and total; then the counters, a varint each. A 0 is followed by a
 * varint: how many more zeros follow. */

/* The caller has reserved the room. */
static void put_varint(mr_str *out, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        out->p[out->n++] = (char)(v | 0x80);
    out->p[out->n++] = (char)v;
}

/* Memory is reserved piece by piece, because a sparse sketch needs far fewer bytes than counters.
 * On error out is as it was. */
mr_status *mr_count_min_pack(const mr_count_min *s, mr_str *out)
{
    enum { PIECE = 4096, MOST = 10 };
    size_t n = mr_count_min_size(s), start = out->n, room = 5 * MR_PB_MAX_VARINT;
    const uint64_t head[] = {VERSION, s->mask + 1, (uint64_t)s->depth, s->seed, s->total};
    if (!mr_str_try_reserve(out, room))
        return mr_error(MR_RESOURCE_EXHAUSTED, "count-min: no memory to pack %zu counters", n);
    for (int i = 0; i < MR_COUNT(head); i++)
        put_varint(out, head[i]);
    for (size_t i = 0; i < n; i++) {
        if (i % PIECE == 0 || out->cap - out->n < MOST + 1)
            if (!mr_str_try_reserve(out, PIECE * MOST)) {
                out->n = start;
                return mr_error(MR_RESOURCE_EXHAUSTED, "count-min: no memory to pack %zu counters", n);
            }
        put_varint(out, s->counts[i]);
        size_t zeros = 0;
        while (s->counts[i] == 0 && i + 1 < n && s->counts[i + 1] == 0)
            zeros++, i++;
        if (s->counts[i] == 0)
            put_varint(out, zeros);
    }
    out->p[out->n] = '\0';
    return NULL;
}

/* The counters are zero before. zeros < n - i keeps i within the sketch. */
static mr_status *read_counts(mr_pb_reader *r, mr_count_min *s)
{
    size_t n = mr_count_min_size(s);
    for (size_t i = 0; i < n; i++) {
        uint64_t v = mr_pb_raw_varint(r), zeros = v == 0 ? mr_pb_raw_varint(r) : 0;
        if (r->error || v > UINT32_MAX || zeros >= n - i)
            return mr_invalid("count-min: counter %zu of %zu is invalid", i, n);
        s->counts[i] = (uint32_t)v;
        i += (size_t)zeros;
    }
    return mr_pb_more(r) ? mr_invalid("count-min: bytes follow the last counter") : NULL;
}

/* The size is checked against most_bytes before memory is allocated. */
mr_status *mr_count_min_unpack(mr_sv in, size_t most_bytes, mr_count_min **out)
{
    mr_pb_reader r;
    uint64_t head[5];
    mr_pb_reader_init(&r, in);
    for (int i = 0; i < 5; i++)
        head[i] = mr_pb_raw_varint(&r);
    if (r.error || head[0] != VERSION || head[1] & (head[1] - 1))
        return mr_invalid("count-min: the bytes are not a sketch");
    MR_TRY(check_size(head[1], head[2] > INT64_MAX ? -1 : (int64_t)head[2]));
    if (head[1] * head[2] > most_bytes / sizeof(uint32_t))
        return mr_invalid("count-min: %llu rows of %llu counters take more than %zu bytes", (unsigned long long)head[2],
                          (unsigned long long)head[1], most_bytes);
    mr_count_min *s;
    MR_TRY(mr_count_min_new(head[1], (int)head[2], head[3], &s));
    s->total = head[4];
    mr_status *st = read_counts(&r, s);
    if (st)
        mr_count_min_free(s);
    else
        *out = s;
    return st;
}
