/* dist/elastic.h -- groups whose members come and go: which worker is in which generation.
 *
 * Pure.  Workers ask to join (JoinCollective).  The first generation waits for all expected workers, but only for a
 * limited time.  A later one waits a short while, because the members of the last one learn at once that it has ended.
 * If a worker that comes back, or was too slow, asks while a generation is working, that generation ends, and the next
 * one has all workers that ask again.  So a loss and a return cost one step each.  If workers take longer to join than
 * they are waited for, generations end as soon as they are formed; then each one waits twice as long as the one before.
 *
 * Each generation has a source, whose variables all other members take: the member with the highest step. */
#ifndef MR_DIST_ELASTIC_H
#define MR_DIST_ELASTIC_H

#include <stdint.h>

#include "base/status.h"
#include "base/vec.h"

enum { MR_ELASTIC_MAX_WORKERS = 65536, MR_ELASTIC_MAX_STRETCH = 64 };
#define MR_ELASTIC_MAX_GENERATION (INT64_C(1) << 30) /* after it comes 1 */
#define MR_ELASTIC_IDLE_NS INT64_C(3600000000000)
#define MR_ELASTIC_MAX_WAIT_NS (INT64_C(1) << 52) /* 52 days */

typedef struct mr_elastic_ask {
    int64_t worker, n_workers; /* its number; how many are expected */
    int64_t generation;        /* its last one; 0: none */
    int64_t step;              /* its global step; -1: it has no variables */
    int64_t wait_ns;           /* how long the first generation waits for all workers */
    int64_t settle_ns;         /* how long a later one waits for others */
    void *caller;
} mr_elastic_ask;

typedef struct mr_elastic {
    int64_t generation;          /* the newest; 0: none yet */
    MR_VEC(int64_t) members;     /* of it: workers, ascending */
    MR_VEC(mr_elastic_ask) asks; /* for the next one */
    int64_t newest_ns;           /* when the last of them asked */
    int64_t formed_ns;           /* when the newest generation was formed */
    int64_t settled_ns;          /* how long that one had waited for others */
    int stretch;                 /* factor on settle_ns; 0: not used yet */
    bool formed_once;
} mr_elastic;

typedef struct mr_elastic_answer {
    void *caller;
    mr_status *st; /* NULL: it is a member */
    int64_t generation;
    int size, rank, source; /* source: the rank of the source */
} mr_elastic_answer;
typedef MR_VEC(mr_elastic_answer) mr_elastic_answers;

void mr_elastic_deinit(mr_elastic *e); /* no caller may be waiting */
/* INVALID_ARGUMENT for a request that no correct worker makes; mr_elastic_step refuses it, too. */
mr_status *mr_elastic_check(const mr_elastic_ask *a);
/* *ends: the working generation, which the caller must end; 0: none. */
void mr_elastic_step(mr_elastic *e, const mr_elastic_ask *a, int64_t now_ns, mr_elastic_answers *out, int64_t *ends);
/* Time has passed. */
void mr_elastic_tick(mr_elastic *e, int64_t now_ns, mr_elastic_answers *out);
/* When to call it next; 0: no caller waits. */
int64_t mr_elastic_next_ns(const mr_elastic *e);
/* A caller that waits has gone. */
void mr_elastic_leave(mr_elastic *e, const void *caller);
/* No caller waits, and none has asked for a long time: its place may be given to another group. */
bool mr_elastic_is_idle(const mr_elastic *e, int64_t now_ns);
/* Gives an idle one to another group.  The numbering continues, because workers may still be in the last generation.
 * Returns that generation, which the caller must end; 0: none. */
int64_t mr_elastic_hand_over(mr_elastic *e, int64_t now_ns);
/* Fails all waiting callers with copies of why. */
void mr_elastic_end(mr_elastic *e, const mr_status *why, mr_elastic_answers *out);

#endif
