/* dist/elastic.h -- groups whose members come and go: who is in which generation.
 *
 * Pure.  Workers ask to be in (JoinCollective).  The first generation waits for all who are expected, but not for ever; a later
 * one for those who come within a short while, since whoever was in the former one hears at once that it has ended.  A
 * worker that comes back, or one that was too slow, asks while a generation is at work: that one ends, and the next has
 * everybody who asks again.  So a loss and a return cost one step each.  Where workers take longer to come than they are
 * waited for, generations end as soon as they are formed; then each waits for twice as long as the one before.
 *
 * Each generation has a source, whose variables all others take: the one that has come farthest. */
#ifndef MR_DIST_ELASTIC_H
#define MR_DIST_ELASTIC_H

#include <stdint.h>

#include "base/status.h"
#include "base/vec.h"

enum { MR_ELASTIC_MAX_WORKERS = 65536, MR_ELASTIC_MAX_STRETCH = 64 };
#define MR_ELASTIC_MAX_GENERATION (INT64_C(1) << 30) /* behind it comes 1 */
#define MR_ELASTIC_IDLE_NS INT64_C(3600000000000)
#define MR_ELASTIC_MAX_WAIT_NS (INT64_C(1) << 52) /* 52 days */

typedef struct mr_elastic_ask {
    int64_t worker, n_workers; /* its number; how many are expected */
    int64_t generation;        /* in which it was; 0: in none */
    int64_t step;              /* how far it has come; -1: it has nothing */
    int64_t wait_ns;           /* for all, at first */
    int64_t settle_ns;         /* for others, later */
    void *caller;
} mr_elastic_ask;

typedef struct mr_elastic {
    int64_t generation;          /* the newest; 0: none yet */
    MR_VEC(int64_t) members;     /* of it: workers, ascending */
    MR_VEC(mr_elastic_ask) asks; /* for the next one */
    int64_t newest_ns;           /* when the last of them came */
    int64_t formed_ns;           /* when the newest generation was formed, */
    int64_t settled_ns;          /* and how long it had waited for others */
    int stretch;                 /* times as long as asked for; 0: not yet */
    bool formed_once;
} mr_elastic;

typedef struct mr_elastic_answer {
    void *caller;
    mr_status *st; /* NULL: it is in */
    int64_t generation;
    int size, rank, source; /* source: its rank */
} mr_elastic_answer;
typedef MR_VEC(mr_elastic_answer) mr_elastic_answers;

void mr_elastic_deinit(mr_elastic *e); /* nobody waits any more */
/* INVALID_ARGUMENT when no worker would ask so; mr_elastic_step refuses it, too. */
mr_status *mr_elastic_check(const mr_elastic_ask *a);
/* *ends: the generation at work, which is to be ended, or 0. */
void mr_elastic_step(mr_elastic *e, const mr_elastic_ask *a, int64_t now_ns, mr_elastic_answers *out, int64_t *ends);
/* Time has passed. */
void mr_elastic_tick(mr_elastic *e, int64_t now_ns, mr_elastic_answers *out);
/* When to call it next; 0: nobody waits. */
int64_t mr_elastic_next_ns(const mr_elastic *e);
/* Who asked has gone. */
void mr_elastic_leave(mr_elastic *e, const void *caller);
/* Nobody waits, and nobody has asked for long: its place may be given to another group. */
bool mr_elastic_is_idle(const mr_elastic *e, int64_t now_ns);
/* Makes an idle one that of another group.  Numbers go on, since some may still be in the generation at work; that one is to be
 * ended: returned, or 0. */
int64_t mr_elastic_hand_over(mr_elastic *e, int64_t now_ns);
/* Fails all who wait, with copies of why. */
void mr_elastic_end(mr_elastic *e, const mr_status *why, mr_elastic_answers *out);

#endif
