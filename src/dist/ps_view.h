/* dist/ps_view.h -- who holds what in a parameter server: the view that its manager publishes.
 *
 * The key space of every table is cut into slots, ranges of keys.  The cut depends on num_keys alone, so that tables
 * of equal num_keys lie together.  A slot is the unit of ownership, replication, migration and clocks: it has a chain
 * of servers, the head first, of which each has all that its successor has.  Clients push to the head; what the tail
 * has is acknowledged.  At most one more server is catching up behind the tail: it gets the records but nobody waits
 * for it.
 *
 * A server's id is drawn at random when its process starts: who dies and returns is another server.  Views are
 * numbered by their epoch.  Each slot has an epoch too, that of the view which changed it last: messages about a slot
 * carry it, and a view that changes other slots disturbs none of them.
 *
 * A chain changes in three ways only: any member is dropped, a member that has caught up is appended, or the order is
 * changed while the slot is drained (its members hold the same).  So what a member holds is always the beginning of
 * what the one before it holds.  `since` is the epoch in which a member was taken in: one that was dropped and taken
 * in again without having seen it notices, and begins with nothing.
 *
 * A chain whose last member is lost keeps it and is marked lost: requests fail with DATA_LOSS until that very server
 * is back (it was only cut off), or the slot is restored: then it is of another generation, empty and without clocks.
 */
#ifndef MR_DIST_PS_VIEW_H
#define MR_DIST_PS_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/vec.h"

enum { MR_PS_MAX_CHAIN = 8, MR_PS_MAX_REPLICAS = 7, MR_PS_MAX_SLOTS = 1 << 16, MR_PS_MAX_SERVERS = 1 << 12 };

typedef struct mr_ps_member {
    uint64_t id;    /* 0: nobody */
    uint64_t since; /* the epoch that took it in */
} mr_ps_member;

typedef struct mr_ps_slot {
    uint64_t epoch;      /* of the last change to this slot */
    uint64_t generation; /* the epoch in which it began empty; clocks begin anew with it */
    int n;               /* members of the chain; 0 only before slots were dealt out */
    bool draining;       /* the head takes no pushes */
    bool lost;           /* chain[0] alone had it, and is lost */
    mr_ps_member chain[MR_PS_MAX_CHAIN];
    mr_ps_member catching; /* id 0: none */
} mr_ps_slot;

typedef struct mr_ps_peer {
    uint64_t id;
    bool leaving; /* holds what it holds until others do */
} mr_ps_peer;

typedef struct mr_ps_view {
    uint64_t epoch; /* 0: nothing was dealt out yet */
    int replicas;
    MR_VEC(mr_ps_peer) servers; /* by rising id */
    MR_VEC(mr_ps_slot) slots;
} mr_ps_view;

/* A zeroed view is an empty one. */
void mr_ps_view_deinit(mr_ps_view *v);
void mr_ps_view_copy(mr_ps_view *to, const mr_ps_view *from); /* `to` is a view already */
/* What came from a peer: sizes, ids (none 0, none twice in a chain, each a server's unless the slot is lost), epochs of
 * slots within the view's. */
mr_status *mr_ps_view_check(const mr_ps_view *v);

bool mr_ps_view_has_server(const mr_ps_view *v, uint64_t id);
int mr_ps_slot_index(const mr_ps_slot *s, uint64_t id); /* in the chain; -1: not there */
/* Who sends records to this one, or gets them from it; 0: nobody.  The one that catches up comes last. */
uint64_t mr_ps_slot_before(const mr_ps_slot *s, uint64_t id);
uint64_t mr_ps_slot_after(const mr_ps_slot *s, uint64_t id);
static inline uint64_t mr_ps_slot_head(const mr_ps_slot *s) { return s->n > 0 && !s->lost ? s->chain[0].id : 0; }

#endif
