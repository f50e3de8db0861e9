/* ps/keys.h -- lists of keys: checked, split, hashed, packed and cached.
 *
 * A worker of a training run uses the same keys again and again, so a list that was sent before
 * goes as its hash. The sender remembers that the peer has the list (mr_ps_key_cache_put with list
 * NULL); the receiver keeps the list itself. Each side forgets the least recently used lists when
 * its budget is spent. If the receiver no longer knows a hash, it says so, and the sender forgets
 * the hash and sends the list. */
#ifndef MR_PS_KEYS_H
#define MR_PS_KEYS_H

#include "base/str.h"

/* NULL if keys rise strictly and are all below num_keys; else INVALID_ARGUMENT, which names the first bad one. */
mr_status *mr_ps_keys_check(const uint64_t *keys, size_t n, uint64_t num_keys);

/* Splits a sorted list at the borders of the ranges: keys [cuts[i], cuts[i + 1]) of the list are in
 * [bounds[i], bounds[i + 1]). Both have n_ranges + 1 entries; cuts[0] is the first key not below bounds[0]. */
void mr_ps_keys_split(const uint64_t *keys, size_t n, const uint64_t *bounds, int n_ranges,
                      size_t *cuts);

/* The hash of a list is the same on every machine. */
uint64_t mr_ps_keys_hash(const uint64_t *keys, size_t n);

/* Appends the packed list to out: differences as varints. */
mr_status *mr_ps_keys_pack(const uint64_t *keys, size_t n, mr_str *out);
/* Unpacks bytes of an untrusted peer: exactly n keys that rise and are below num_keys, else INVALID_ARGUMENT.
 * *out has n entries (mr_free). An n that the bytes cannot hold is refused before memory is allocated. */
mr_status *mr_ps_keys_unpack(mr_sv in, size_t n, uint64_t num_keys, uint64_t **out);

/* ---- shared lists ---- */

typedef struct mr_ps_key_list {
    int refs; /* atomic */
    size_t n;
    uint64_t hash;
    uint64_t keys[];
} mr_ps_key_list;
/* Copies the keys and sets the hash. keys NULL: the caller fills in n entries and the hash. NULL: no memory. */
mr_ps_key_list *mr_ps_key_list_new(const uint64_t *keys, size_t n);
mr_ps_key_list *mr_ps_key_list_ref(mr_ps_key_list *l);
void mr_ps_key_list_unref(mr_ps_key_list *l); /* NULL is fine */

/* ---- the cache; not thread-safe ---- */

/* `owner` separates peers that must not see each other's lists, because collisions of hashes can be made on purpose.
 * A server uses the client's id, a client the id of the server that it sends to. */
typedef struct mr_ps_key_cache mr_ps_key_cache;
mr_ps_key_cache *mr_ps_key_cache_new(size_t budget_bytes);
void mr_ps_key_cache_free(mr_ps_key_cache *c);
/* true: known, and now the most recently used. list may be NULL; *list is borrowed until the next call, and is NULL
 * for a hash without a list. */
bool mr_ps_key_cache_get(mr_ps_key_cache *c, uint64_t owner, uint64_t hash, mr_ps_key_list **list);
/* Takes its own reference to the list; NULL: only the hash. A list larger than the budget is not kept. */
void mr_ps_key_cache_put(mr_ps_key_cache *c, uint64_t owner, uint64_t hash, mr_ps_key_list *list);
void mr_ps_key_cache_drop(mr_ps_key_cache *c, uint64_t owner, uint64_t hash);
/* Drops all entries of an owner that is gone. */
void mr_ps_key_cache_drop_owner(mr_ps_key_cache *c, uint64_t owner);

typedef struct mr_ps_key_cache_stats {
    int64_t hits, misses, evictions;
    size_t entries, bytes;
} mr_ps_key_cache_stats;
mr_ps_key_cache_stats mr_ps_key_cache_get_stats(const mr_ps_key_cache *c);

#endif
