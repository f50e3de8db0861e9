/* ps/keys.h -- lists of keys: checked, cut, hashed, packed and remembered.
 *
 * A worker of a training run names the same keys again and again, so a list that was sent before
 * goes as its hash.  Who sends remembers that the peer has the list (mr_ps_key_cache_put with keys
 * NULL); who receives keeps the list itself.  Both forget the least recently used when their budget
 * is spent, each by itself: a hash that the receiver no longer knows is answered so that the sender
 * forgets it too and sends the list whole. */
#ifndef MR_PS_KEYS_H
#define MR_PS_KEYS_H

#include "base/str.h"

/* NULL when keys rise strictly and all are below num_keys; else INVALID_ARGUMENT names the place. */
mr_status *mr_ps_keys_check(const uint64_t *keys, size_t n, uint64_t num_keys);

/* Where a sorted list is cut by slots: keys [cuts[i], cuts[i + 1]) of the list are in
 * [bounds[i], bounds[i + 1]); n_slots + 1 of both; cuts[0] is the first key not below bounds[0]. */
void mr_ps_keys_split(const uint64_t *keys, size_t n, const uint64_t *bounds, int n_slots,
                      size_t *cuts);

/* Of a list, the same on every machine. */
uint64_t mr_ps_keys_hash(const uint64_t *keys, size_t n);

/* A list packed: differences as varints; appended to out. */
mr_status *mr_ps_keys_pack(const uint64_t *keys, size_t n, mr_str *out);
/* Takes packed bytes from a stranger: exactly n keys, which rise and are below num_keys, or
 * INVALID_ARGUMENT.  (*out has n entries: mr_free.)  n beyond what the bytes could hold is refused
 * before memory is taken. */
mr_status *mr_ps_keys_unpack(mr_sv in, size_t n, uint64_t num_keys, uint64_t **out);

/* ---- lists that are shared ---- */

typedef struct mr_ps_key_list {
    int refs; /* atomic */
    size_t n;
    uint64_t hash;
    uint64_t keys[];
} mr_ps_key_list;
/* Copies; keys NULL: n entries for the caller to fill, who sets the hash.  NULL: no memory. */
mr_ps_key_list *mr_ps_key_list_new(const uint64_t *keys, size_t n);
mr_ps_key_list *mr_ps_key_list_ref(mr_ps_key_list *l);
void mr_ps_key_list_unref(mr_ps_key_list *l); /* NULL is fine */

/* ---- the cache; its user holds a lock ---- */

/* `owner` separates those who must not see each other's lists: a hash can be made to collide by whoever
 * tries, so a server takes the client, and a client the server and slot that it sends to. */
typedef struct mr_ps_key_cache mr_ps_key_cache;
mr_ps_key_cache *mr_ps_key_cache_new(size_t budget_bytes);
void mr_ps_key_cache_free(mr_ps_key_cache *c);
/* true: known, and now the most recently used; *list (may be NULL) is borrowed until the next call,
 * and is NULL for a hash without a list. */
bool mr_ps_key_cache_get(mr_ps_key_cache *c, uint64_t owner, uint64_t hash, mr_ps_key_list **list);
/* Takes a reference of its own; list NULL: the hash alone.  A list over the budget is not kept. */
void mr_ps_key_cache_put(mr_ps_key_cache *c, uint64_t owner, uint64_t hash, mr_ps_key_list *list);
void mr_ps_key_cache_drop(mr_ps_key_cache *c, uint64_t owner, uint64_t hash);
/* All of an owner that is gone. */
void mr_ps_key_cache_drop_owner(mr_ps_key_cache *c, uint64_t owner);

typedef struct mr_ps_key_cache_stats {
    int64_t hits, misses, evictions;
    size_t entries, bytes;
} mr_ps_key_cache_stats;
mr_ps_key_cache_stats mr_ps_key_cache_get_stats(const mr_ps_key_cache *c);

#endif
