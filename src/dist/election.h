/* dist/election.h -- which worker is the chief: makes variables ready, saves, leads the barrier.
 *
 * Pure: what a record says and what time it is goes in; what to write into it comes out.  The record lies at a parameter
 * server and is two numbers: the worker that is the chief, and a count that the chief raises several times in each
 * patience.  It is only ever changed by a writer that knows what it was (compare and swap), so of two that want it one
 * gets it.
 *
 * The chief is the lowest of the workers that are alive: a lower one takes the place from a higher one, and the place of
 * one whose count has stood still for longer than the patience is taken by whoever is next, the lower earlier.  A worker
 * that was the chief when it died has its place at once when it is back.  A record that is not there, as with a parameter
 * server that was started again, is for worker 0, for who was the chief, and after the patience for anybody. */
#ifndef MR_DIST_ELECTION_H
#define MR_DIST_ELECTION_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mr_chief_record {
    int64_t worker; /* -1: nobody */
    int64_t count;
} mr_chief_record;

typedef struct mr_election {
    int me;
    int64_t patience_ns;
    bool chief;           /* now, as far as we know */
    bool was_chief;       /* before the record was lost */
    bool looked;          /* there has been a record */
    mr_chief_record now;  /* the newest one seen */
    mr_chief_record tried; /* the newest one wanted; worker -1: none */
    int64_t last_ns;      /* of the newest look, by the caller's clock */
    int64_t listened_ns;  /* since the start; what patience is counted in */
    int64_t since_ns;     /* in listened time: the record has been this */
} mr_election;

void mr_election_init(mr_election *e, int me, int64_t patience_ns, int64_t now_ns);
/* What to do now: if the record is still *expect, make it *want.  False: only look at it. */
bool mr_election_next(mr_election *e, mr_chief_record *expect, mr_chief_record *want);
/* What the record was after that; e->chief says what follows.  True: it is to be tried again at once, since another was
 * quicker, or since this was the first look. */
bool mr_election_saw(mr_election *e, mr_chief_record r, int64_t now_ns);

#endif
