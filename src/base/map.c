/* base/map.c -- linear probing over power-of-two tables.
 *
 * A slot is free, in use or removed; a removed one stays in its probe chain until the table is
 * rebuilt. Invariant: used (in use + removed) is at most 3/4 of cap, so every probe ends at a free
 * slot. A rebuild is sized by n alone, which also drops removed slots.
 *
 * The hash is fixed, so that a run can be repeated; then whoever writes the keys (the node names of
 * a graph, say) can choose a million that collide, and n puts cost n^2.  When a put meets a chain
 * that chance does not make, the map therefore changes to SipHash with a random secret and
 * rehashes. */
#include "base/map.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/siphash.h"

/* Chance makes chains of about 27 ln n slots at a load of 3/4: under 600 for 2^32 keys. */
#define MAX_CHAIN 1024

static const char removed_key[1]; /* its address marks a removed slot of mr_map */

static bool in_use(const mr_map_slot *s) { return s->key && s->key != removed_key; }

static uint32_t hash_of(const mr_map *m, mr_sv key)
{
    const uint64_t secret[2] = {m->secret, m->secret};
    uint64_t h = MR_LIKELY(!m->secret) ? mr_hash64(key.p, key.n) : mr_siphash_quick(secret, key.p, key.n);
    return (uint32_t)(h ^ h >> 32);
}

/* Capacity for n entries: a power of two that n fills to at most a half, so that a rebuilt table
 * has room to grow before the next rebuild. */
static uint32_t cap_for(uint32_t n)
{
    uint32_t cap = 8;
    MR_ASSERT(n <= UINT32_MAX / 4);
    while (cap / 2 < n)
        cap *= 2;
    return cap;
}

static bool is_full(uint32_t used, uint32_t cap) { return used + 1 > cap / 4 * 3; }

/* ---- byte strings ---- */

void mr_map_deinit(mr_map *m)
{
    for (uint32_t i = 0; i < m->cap && !m->borrow_keys; i++)
        if (in_use(&m->slots[i]))
            mr_free((void *)(uintptr_t)m->slots[i].key);
    mr_free(m->slots);
    *m = (mr_map){.borrow_keys = m->borrow_keys};
}

/* The slot that holds the key, or NULL. */
static mr_map_slot *find_slot(const mr_map *m, mr_sv key, uint32_t hash)
{
    if (!m->cap)
        return NULL;
    for (uint32_t i = hash;; i++) {
        mr_map_slot *s = &m->slots[i & (m->cap - 1)];
        if (!s->key)
            return NULL;
        if (s->hash == hash && s->key != removed_key && s->key_n == key.n &&
            (key.n == 0 || memcmp(s->key, key.p, key.n) == 0))
            return s;
    }
}

/* The first free slot of a hash's chain, and how far along it is; the table has one and does not
 * hold the key. */
static mr_map_slot *free_slot(const mr_map *m, uint32_t hash, uint32_t *distance)
{
    uint32_t i = hash;
    MR_ASSERT(m->n <= m->used && m->used < m->cap);
    while (m->slots[i & (m->cap - 1)].key)
        i++;
    *distance = i - hash;
    return &m->slots[i & (m->cap - 1)];
}

/* A new table with room for one more. */
static void rebuild_slots(mr_map *m)
{
    mr_map old = *m;
    uint32_t distance;
    m->cap = cap_for(old.n + 1);
    m->used = old.n;
    m->slots = mr_new_array(mr_map_slot, m->cap);
    for (uint32_t i = 0; i < old.cap; i++)
        if (in_use(&old.slots[i]))
            *free_slot(m, old.slots[i].hash, &distance) = old.slots[i];
    mr_free(old.slots);
}

static void change_hash(mr_map *m)
{
    m->secret = mr_random64() | 1;
    for (uint32_t i = 0; i < m->cap; i++)
        if (in_use(&m->slots[i]))
            m->slots[i].hash = hash_of(m, (mr_sv){m->slots[i].key, m->slots[i].key_n});
    rebuild_slots(m);
}

/* A free slot for a key that is not in the table. */
static mr_map_slot *add_slot(mr_map *m, mr_sv key, uint32_t *hash)
{
    uint32_t distance;
    if (is_full(m->used, m->cap))
        rebuild_slots(m);
    mr_map_slot *s = free_slot(m, *hash, &distance);
    if (MR_LIKELY(distance < MAX_CHAIN) || m->secret)
        return s;
    change_hash(m);
    *hash = hash_of(m, key);
    return free_slot(m, *hash, &distance);
}

void *mr_map_get(const mr_map *m, mr_sv key)
{
    const mr_map_slot *s = m->n ? find_slot(m, key, hash_of(m, key)) : NULL;
    return s ? s->value : NULL;
}

void *mr_map_getz(const mr_map *m, const char *key) { return mr_map_get(m, mr_sv_of(key)); }

bool mr_map_has(const mr_map *m, mr_sv key)
{
    return m->n && find_slot(m, key, hash_of(m, key)) != NULL;
}

void *mr_map_put(mr_map *m, mr_sv key, void *value)
{
    MR_ASSERT(key.n <= UINT32_MAX);
    if (!key.p)
        key.p = ""; /* NULL would look like a free slot */
    uint32_t hash = hash_of(m, key);
    mr_map_slot *s = find_slot(m, key, hash);
    if (s) {
        void *old = s->value;
        s->value = value;
        if (m->borrow_keys) /* the old key may be part of the value that is replaced */
            s->key = key.p;
        return old;
    }
    s = add_slot(m, key, &hash);
    const char *own = m->borrow_keys ? key.p : mr_strndup(key.p, key.n);
    *s = (mr_map_slot){own, (uint32_t)key.n, hash, value};
    m->used++;
    m->n++;
    return NULL;
}

void *mr_map_putz(mr_map *m, const char *key, void *value)
{
    return mr_map_put(m, mr_sv_of(key), value);
}

void *mr_map_remove(mr_map *m, mr_sv key)
{
    mr_map_slot *s = find_slot(m, key, hash_of(m, key));
    if (!s)
        return NULL;
    if (!m->borrow_keys)
        mr_free((void *)(uintptr_t)s->key);
    void *value = s->value;
    *s = (mr_map_slot){.key = removed_key};
    m->n--;
    return value;
}

bool mr_map_next(const mr_map *m, uint32_t *pos, mr_sv *key, void **value)
{
    while (*pos < m->cap) {
        const mr_map_slot *s = &m->slots[(*pos)++];
        if (!in_use(s))
            continue;
        *key = (mr_sv){s->key, s->key_n};
        *value = s->value;
        return true;
    }
    return false;
}

/* ---- numbers ---- */

enum { FREE, IN_USE, REMOVED };
typedef struct mr_imap_slot islot;

/* Ids are often consecutive or multiples of a power of two: mix all bits down (splitmix64). */
static uint32_t hash_number(uint64_t key)
{
    key = (key ^ key >> 30) * 0xbf58476d1ce4e5b9u;
    key = (key ^ key >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)(key ^ key >> 31);
}

void mr_imap_deinit(mr_imap *m)
{
    mr_free(m->slots);
    *m = (mr_imap){0};
}

static islot *find_number_slot(const mr_imap *m, uint64_t key)
{
    if (!m->n)
        return NULL;
    for (uint32_t i = hash_number(key);; i++) {
        islot *s = &m->slots[i & (m->cap - 1)];
        if (s->state == FREE)
            return NULL;
        if (s->state == IN_USE && s->key == key)
            return s;
    }
}

static islot *ifree_slot(const mr_imap *m, uint64_t key)
{
    uint32_t i = hash_number(key) & (m->cap - 1);
    MR_ASSERT(m->n <= m->used && m->used < m->cap);
    while (m->slots[i].state != FREE)
        i = (i + 1) & (m->cap - 1);
    return &m->slots[i];
}

static void rebuild_number_slots(mr_imap *m)
{
    mr_imap old = *m;
    m->cap = cap_for(old.n + 1);
    m->used = old.n;
    m->slots = mr_new_array(islot, m->cap);
    for (uint32_t i = 0; i < old.cap; i++)
        if (old.slots[i].state == IN_USE)
            *ifree_slot(m, old.slots[i].key) = old.slots[i];
    mr_free(old.slots);
}

void *mr_imap_get(const mr_imap *m, uint64_t key)
{
    const islot *s = find_number_slot(m, key);
    return s ? s->value : NULL;
}

void *mr_imap_put(mr_imap *m, uint64_t key, void *value)
{
    islot *s = find_number_slot(m, key);
    if (s) {
        void *old = s->value;
        s->value = value;
        return old;
    }
    if (is_full(m->used, m->cap))
        rebuild_number_slots(m);
    *ifree_slot(m, key) = (islot){.key = key, .value = value, .state = IN_USE};
    m->used++;
    m->n++;
    return NULL;
}

void *mr_imap_remove(mr_imap *m, uint64_t key)
{
    islot *s = find_number_slot(m, key);
    if (!s)
        return NULL;
    s->state = REMOVED;
    m->n--;
    return s->value;
}

bool mr_imap_next(const mr_imap *m, uint32_t *pos, uint64_t *key, void **value)
{
    while (*pos < m->cap) {
        const islot *s = &m->slots[(*pos)++];
        if (s->state != IN_USE)
            continue;
        *key = s->key;
        *value = s->value;
        return true;
    }
    return false;
}
