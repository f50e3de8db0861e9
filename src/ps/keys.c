/* ps/keys.c -- see keys.h.
 *
 * The cache is a hash table with chains. Its entries are also in one ring by use, in which
 * ring.older is the newest and ring.newer the oldest. Invariants: every entry is in exactly one
 * chain and in the ring; stats.bytes is the cost of all entries and at most the budget. */
#include "ps/keys.h"

#include "base/memory.h"
#include "base/siphash.h"
#include "wire/pb.h"

/* The first loop has no early exit, so that the compiler vectorises it; the place of an error is
 * searched afterwards. */
mr_status *mr_ps_keys_check(const uint64_t *keys, size_t n, uint64_t num_keys)
{
    bool rising = true;
    for (size_t i = 1; i < n; i++)
        rising &= keys[i - 1] < keys[i];
    if (!rising) {
        size_t i = 1;
        while (keys[i - 1] < keys[i])
            i++;
        return mr_invalid("keys: %llu at %zu follows %llu, but keys must rise strictly",
                          (unsigned long long)keys[i], i, (unsigned long long)keys[i - 1]);
    }
    if (n > 0 && keys[n - 1] >= num_keys)
        return mr_invalid("keys: %llu is out of range, the table has %llu keys", (unsigned long long)keys[n - 1],
                          (unsigned long long)num_keys);
    return NULL;
}

/* The first index from `at` on whose key is not below `key`. Steps of doubling length, then
 * bisection: fast if the answer is near. */
static size_t lower_bound(const uint64_t *keys, size_t at, size_t n, uint64_t key)
{
    size_t step = 1, high = at;
    while (high < n && keys[high] < key) {
        at = high + 1;
        high = step < n - high ? high + step : n;
        step *= 2;
    }
    while (at < high) {
        size_t middle = at + (high - at) / 2;
        if (keys[middle] < key)
            at = middle + 1;
        else
            high = middle;
    }
    return at;
}

void mr_ps_keys_split(const uint64_t *keys, size_t n, const uint64_t *bounds, int n_ranges, size_t *cuts)
{
    for (int i = 0; i <= n_ranges; i++)
        cuts[i] = lower_bound(keys, i ? cuts[i - 1] : 0, n, bounds[i]);
}

uint64_t mr_ps_keys_hash(const uint64_t *keys, size_t n)
{
    /* A constant, because both ends must agree. It prevents accidental collisions, not deliberate
     * ones: see `owner`. */
    static const uint64_t key[2] = {0x6d696c6c72616365u, 0x6b65796c69737473u};
    _Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "keys are hashed as they are in memory");
    return mr_siphash_quick(key, keys, n * sizeof *keys);
}

/* ---- packed ---- */

/* The first key as it is; then each difference less 1, because keys rise by at least 1. */
mr_status *mr_ps_keys_pack(const uint64_t *keys, size_t n, mr_str *out)
{
    size_t most;
    if (!mr_size_mul(n, MR_PB_MAX_VARINT, &most) || !mr_str_try_reserve(out, most))
        return mr_error(MR_RESOURCE_EXHAUSTED, "keys: no memory to pack %zu keys", n);
    uint8_t *p = (uint8_t *)out->p + out->n;
    for (size_t i = 0; i < n; i++) {
        uint64_t v = i ? keys[i] - keys[i - 1] - 1 : keys[i];
        for (; v >= 0x80; v >>= 7)
            *p++ = (uint8_t)(v | 0x80);
        *p++ = (uint8_t)v;
    }
    out->n = (size_t)((char *)p - out->p);
    out->p[out->n] = '\0';
    return NULL;
}

/* A key takes at least one byte, so at most 8 times the received bytes are allocated. */
mr_status *mr_ps_keys_unpack(mr_sv in, size_t n, uint64_t num_keys, uint64_t **out)
{
    if (n > in.n)
        return mr_invalid("keys: %zu bytes cannot hold %zu keys", in.n, n);
    uint64_t *keys = mr_try_alloc(n * sizeof *keys);
    if (!keys)
        return mr_error(MR_RESOURCE_EXHAUSTED, "keys: no memory for %zu keys", n);
    mr_pb_reader r;
    mr_pb_reader_init(&r, in);
    uint64_t next = 0; /* the least key that may follow; at most num_keys */
    bool fits = true;
    for (size_t i = 0; i < n && fits; i++) {
        uint64_t v = mr_pb_raw_varint(&r);
        fits = !r.error && v < num_keys - next;
        keys[i] = next + v;
        next = keys[i] + 1;
    }
    if (!fits || mr_pb_more(&r)) {
        mr_free(keys);
        return mr_invalid("keys: %s", r.error ? r.error : fits ? "bytes follow the last key" : "a key is out of range");
    }
    *out = keys;
    return NULL;
}

/* ---- shared lists ---- */

/* One allocation for the head and the keys. With keys NULL, the hash stays 0 until the caller sets it. */
mr_ps_key_list *mr_ps_key_list_new(const uint64_t *keys, size_t n)
{
    size_t bytes;
    if (!mr_size_mul(n, sizeof *keys, &bytes) || !mr_size_add(bytes, sizeof(mr_ps_key_list), &bytes))
        return NULL;
    mr_ps_key_list *l = mr_try_alloc(bytes);
    if (!l)
        return NULL;
    *l = (mr_ps_key_list){.refs = 1, .n = n};
    if (keys) {
        memcpy(l->keys, keys, n * sizeof *keys);
        l->hash = mr_ps_keys_hash(keys, n);
    }
    return l;
}

mr_ps_key_list *mr_ps_key_list_ref(mr_ps_key_list *l)
{
    MR_ASSERT(__atomic_load_n(&l->refs, __ATOMIC_RELAXED) > 0);
    __atomic_add_fetch(&l->refs, 1, __ATOMIC_RELAXED);
    return l;
}

void mr_ps_key_list_unref(mr_ps_key_list *l)
{
    MR_ASSERT(!l || __atomic_load_n(&l->refs, __ATOMIC_RELAXED) > 0);
    if (l && __atomic_sub_fetch(&l->refs, 1, __ATOMIC_ACQ_REL) == 0)
        mr_free(l);
}

/* ---- the cache ---- */

typedef struct entry {
    struct entry *newer, *older; /* the ring */
    struct entry *next;          /* the chain */
    uint64_t owner, hash;
    mr_ps_key_list *list; /* NULL: the hash alone */
} entry;

struct mr_ps_key_cache {
    entry **chains;
    size_t n_chains; /* a power of two */
    entry ring;      /* head of the ring: ring.older is the newest entry, ring.newer the oldest */
    size_t budget;
    uint64_t secret[2]; /* picks the chains: peers choose owners and hashes */
    mr_ps_key_cache_stats stats;
};

/* The memory of an entry, with the allocator's overhead, so that the budget is kept in fact. */
static size_t entry_cost(const mr_ps_key_list *l)
{
    return sizeof(entry) + 2 * sizeof(void *) + (l ? sizeof *l + 2 * sizeof(void *) + l->n * sizeof(uint64_t) : 0);
}

mr_ps_key_cache *mr_ps_key_cache_new(size_t budget_bytes)
{
    mr_ps_key_cache *c = mr_new(mr_ps_key_cache);
    c->n_chains = 64;
    c->chains = mr_new_array(entry *, c->n_chains);
    c->ring.newer = c->ring.older = &c->ring;
    c->budget = budget_bytes;
    c->secret[0] = (uint64_t)(uintptr_t)c; /* peers do not know addresses */
    c->secret[1] = (uint64_t)(uintptr_t)c->chains;
    return c;
}

/* The chain of an owner and a hash. Peers cannot choose their chain, because they do not know the secret. */
static entry **chain_of(const mr_ps_key_cache *c, uint64_t owner, uint64_t hash)
{
    const uint64_t both[2] = {owner, hash};
    return &c->chains[mr_siphash_quick(c->secret, both, sizeof both) & (c->n_chains - 1)];
}

/* The link that leads to the entry, or the end of its chain. */
static entry **find_entry(const mr_ps_key_cache *c, uint64_t owner, uint64_t hash)
{
    entry **at = chain_of(c, owner, hash);
    while (*at && ((*at)->hash != hash || (*at)->owner != owner))
        at = &(*at)->next;
    return at;
}

static void ring_add(mr_ps_key_cache *c, entry *e)
{
    e->older = c->ring.older;
    e->newer = &c->ring;
    e->older->newer = e->newer->older = e;
}

static void ring_remove(entry *e)
{
    e->newer->older = e->older;
    e->older->newer = e->newer;
}

/* Frees the entry that a link leads to. */
static void remove_at(mr_ps_key_cache *c, entry **at)
{
    entry *e = *at;
    MR_ASSERT(e && c->stats.entries > 0 && c->stats.bytes >= entry_cost(e->list));
    *at = e->next;
    ring_remove(e);
    c->stats.bytes -= entry_cost(e->list);
    c->stats.entries--;
    mr_ps_key_list_unref(e->list);
    mr_free(e);
}

void mr_ps_key_cache_free(mr_ps_key_cache *c)
{
    if (!c)
        return;
    while (c->ring.newer != &c->ring)
        remove_at(c, find_entry(c, c->ring.newer->owner, c->ring.newer->hash));
    MR_ASSERT(c->stats.entries == 0 && c->stats.bytes == 0);
    mr_free(c->chains);
    mr_free(c);
}

/* Doubles the number of chains. Without memory it stays: long chains are slow but correct. */
static void grow_chains(mr_ps_key_cache *c)
{
    entry **chains = mr_try_calloc(c->n_chains * 2, sizeof *chains);
    if (!chains)
        return;
    mr_free(c->chains);
    c->chains = chains;
    c->n_chains *= 2;
    for (entry *e = c->ring.older; e != &c->ring; e = e->older) {
        entry **at = chain_of(c, e->owner, e->hash);
        e->next = *at;
        *at = e;
    }
}

/* A hit moves the entry to the newest end of the ring, so it is evicted last. */
bool mr_ps_key_cache_get(mr_ps_key_cache *c, uint64_t owner, uint64_t hash, mr_ps_key_list **list)
{
    entry *e = *find_entry(c, owner, hash);
    if (list)
        *list = e ? e->list : NULL;
    c->stats.hits += e != NULL;
    c->stats.misses += e == NULL;
    if (e) {
        ring_remove(e);
        ring_add(c, e);
    }
    return e != NULL;
}

/* Replaces an entry of the same owner and hash. Evicts the least recently used until the new one
 * fits. */
void mr_ps_key_cache_put(mr_ps_key_cache *c, uint64_t owner, uint64_t hash, mr_ps_key_list *list)
{
    mr_ps_key_cache_drop(c, owner, hash);
    entry *e = entry_cost(list) <= c->budget ? mr_try_calloc(1, sizeof *e) : NULL;
    if (!e)
        return;
    while (c->stats.bytes + entry_cost(list) > c->budget) {
        remove_at(c, find_entry(c, c->ring.newer->owner, c->ring.newer->hash));
        c->stats.evictions++;
    }
    if (c->stats.entries >= c->n_chains)
        grow_chains(c);
    entry **at = chain_of(c, owner, hash);
    *e = (entry){.next = *at, .owner = owner, .hash = hash, .list = list ? mr_ps_key_list_ref(list) : NULL};
    *at = e;
    ring_add(c, e);
    c->stats.bytes += entry_cost(list);
    c->stats.entries++;
    MR_ASSERT(c->stats.bytes <= c->budget);
}

void mr_ps_key_cache_drop(mr_ps_key_cache *c, uint64_t owner, uint64_t hash)
{
    entry **at = find_entry(c, owner, hash);
    if (*at)
        remove_at(c, at);
}

/* Goes through the ring, because entries of one owner are spread over all chains. */
void mr_ps_key_cache_drop_owner(mr_ps_key_cache *c, uint64_t owner)
{
    for (entry *e = c->ring.older, *older; e != &c->ring; e = older) {
        older = e->older;
        if (e->owner == owner)
            remove_at(c, find_entry(c, e->owner, e->hash));
    }
}

mr_ps_key_cache_stats mr_ps_key_cache_get_stats(const mr_ps_key_cache *c) { return c->stats; }
