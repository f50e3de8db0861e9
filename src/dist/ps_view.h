/* dist/ps_view.h -- which servers hold what in a parameter server: the view that its manager
 * publishes.
 *
 * The key space of every table is cut into ranges of keys. The cut depends only on num_keys,
 * so tables of equal num_keys are cut alike. A range is the unit of ownership, replication,
 * migration and clocks. It has a chain of servers, the head first; each has all that its successor
 * has. Clients push to the head; what the tail has is acknowledged. At most one more server is
 * catching up behind the tail: it gets the records, but no push waits for it.
 *
 * A server draws its id at random when its process starts, so a server that dies and returns is
 * another one. Views are numbered by their epoch. Each range has an epoch too, that of the view
 * which changed it last: messages about a range carry it, and a view that changes other ranges does
 * not disturb them.
 *
 * A chain changes in three ways only: a member is dropped, a member that has caught up is appended,
 * or the order is changed while the range is drained (then all members hold the same). So what a
 * member holds is always a prefix of what the member before it holds. `since` is the epoch in which
 * a member was added: one that was dropped and added again without having seen it notices by this,
 * and starts empty.
 *
 * A chain whose last member is lost keeps it and is marked lost: requests fail with DATA_LOSS until
 * that very server is back (it was only cut off), or the range is restored. A restored range has
 * another generation, and is empty and without clocks. */
#ifndef MR_DIST_PS_VIEW_H
#define MR_DIST_PS_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/vec.h"

enum { MR_PS_MAX_CHAIN = 8, MR_PS_MAX_REPLICAS = 7, MR_PS_MAX_RANGES = 1 << 16, MR_PS_MAX_SERVERS = 1 << 12 };

typedef struct mr_ps_member {
    uint64_t id;    /* 0: none */
    uint64_t since; /* the epoch in which it was added */
} mr_ps_member;

typedef struct mr_ps_range {
    uint64_t epoch;      /* of the last change to this range */
    uint64_t generation; /* the epoch in which it began empty, with empty clocks */
    int n;               /* members of the chain; 0 only before the ranges were assigned */
    bool draining;       /* the head takes no pushes */
    bool lost;           /* only chain[0] had it, and that server is lost */
    mr_ps_member chain[MR_PS_MAX_CHAIN];
    mr_ps_member catching; /* id 0: none */
} mr_ps_range;

typedef struct mr_ps_peer {
    uint64_t id;
    bool leaving; /* keeps its ranges until others have them */
} mr_ps_peer;

typedef struct mr_ps_view {
    uint64_t epoch; /* 0: ranges are not assigned yet */
    int replicas;
    MR_VEC(mr_ps_peer) servers; /* by rising id */
    MR_VEC(mr_ps_range) ranges;
} mr_ps_view;

/* A zeroed view is an empty one. */
void mr_ps_view_deinit(mr_ps_view *v);
void mr_ps_view_copy(mr_ps_view *to, const mr_ps_view *from); /* replaces the contents of `to` */
/* Checks a view of a peer: sizes; ids (none 0, none twice in a chain, each a server's unless the range is lost); epochs
 * of ranges are not above the view's. */
mr_status *mr_ps_view_check(const mr_ps_view *v);

bool mr_ps_view_has_server(const mr_ps_view *v, uint64_t id);
int mr_ps_range_index(const mr_ps_range *s, uint64_t id); /* in the chain; -1: not in it */
/* The predecessor and the successor of a member; 0: none. The member that catches up comes last. */
uint64_t mr_ps_range_before(const mr_ps_range *s, uint64_t id);
uint64_t mr_ps_range_after(const mr_ps_range *s, uint64_t id);
static inline uint64_t mr_ps_range_head(const mr_ps_range *s) { return s->n > 0 && !s->lost ? s->chain[0].id : 0; }

#endif
