/* base/map.h -- hash maps: byte strings to pointers, and 64-bit numbers to pointers.
 *
 * Open addressing, power-of-two tables.  Keys of mr_map are copied unless the map was made to borrow
 * them, and are shorter than 4 GiB.  Values are pointers owned by the caller.  Iteration order is
 * unspecified; it is the same in every run unless keys were made to collide.  Such keys do not slow
 * mr_map down; mr_imap is for ids that we gave out ourselves. */
#ifndef MR_BASE_MAP_H
#define MR_BASE_MAP_H

#include <stdint.h>

#include "base/str.h"

typedef struct mr_map_slot {
    const char *key; /* NULL: never used */
    uint32_t key_n;
    uint32_t hash;
    void *value;
} mr_map_slot;

typedef struct mr_map {
    mr_map_slot *slots;
    uint32_t cap, used, n; /* used counts removed slots too */
    bool borrow_keys;      /* keys outlive the map, do not copy them */
    uint64_t secret;       /* 0 until keys collide more than chance explains */
} mr_map;

/* A zeroed mr_map is an empty one. */
void mr_map_deinit(mr_map *m);
void *mr_map_get(const mr_map *m, mr_sv key); /* NULL when absent */
void *mr_map_getz(const mr_map *m, const char *key);
bool mr_map_has(const mr_map *m, mr_sv key);
/* Sets the value and returns the one it replaces, or NULL.  A borrowed key is replaced too. */
void *mr_map_put(mr_map *m, mr_sv key, void *value);
void *mr_map_putz(mr_map *m, const char *key, void *value);
void *mr_map_remove(mr_map *m, mr_sv key);
/* Start with *pos = 0; false at the end. */
bool mr_map_next(const mr_map *m, uint32_t *pos, mr_sv *key, void **value);

typedef struct mr_imap {
    struct mr_imap_slot {
        uint64_t key;
        void *value;
        uint8_t state; /* 0 never used, 1 in use, 2 removed */
    } *slots;
    uint32_t cap, used, n;
} mr_imap;

void mr_imap_deinit(mr_imap *m);
void *mr_imap_get(const mr_imap *m, uint64_t key);
void *mr_imap_put(mr_imap *m, uint64_t key, void *value);
void *mr_imap_remove(mr_imap *m, uint64_t key);
bool mr_imap_next(const mr_imap *m, uint32_t *pos, uint64_t *key, void **value);

#endif
