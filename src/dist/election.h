/* dist/election.h -- which worker is the chief, which prepares variables, saves checkpoints and leads the barrier.
 *
 * Pure: the record and the time go in, and what to write into the record comes out.  The record is kept at a parameter
 * server and has two numbers: the worker that is the chief, and a count that the chief raises several times in each
 * patience.  It is only changed by compare and swap, so of two workers that want it exactly one gets it.
 *
 * The chief is the lowest worker that is alive: a lower worker replaces a higher one.  If the count has not changed for
 * longer than the patience, the chief is replaced by the next worker; lower workers try earlier.  A worker that was the
 * chief when it died takes its place at once when it is back.  If there is no record, because the parameter server was
 * restarted, worker 0 and the former chief may write it at once, and any worker after the patience. */
#ifndef MR_DIST_ELECTION_H
#define MR_DIST_ELECTION_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mr_chief_record {
    int64_t worker; /* -1: there is no chief */
    int64_t count;
} mr_chief_record;

typedef struct mr_election {
    int me;
    int64_t patience_ns;
    bool chief;           /* this worker is the chief, as far as it knows */
    bool was_chief;       /* it was, before the record was lost */
    bool looked;          /* a record has been seen */
    mr_chief_record now;  /* the newest record seen */
    mr_chief_record tried; /* the newest record that this worker wanted to write; worker -1: none */
    int64_t last_ns;      /* when it last looked, by the caller's clock */
    int64_t listened_ns;  /* listened time since the start, in which patience is measured */
    int64_t since_ns;     /* in listened time: since when the record has not changed */
} mr_election;

void mr_election_init(mr_election *e, int me, int64_t patience_ns, int64_t now_ns);
/* What to do now: if the record is still *expect, change it to *want.  False: only read it. */
bool mr_election_next(mr_election *e, mr_chief_record *expect, mr_chief_record *want);
/* The record as it is after that; the result is in e->chief.  True: try again at once, because another worker was
 * quicker, or because this was the first look. */
bool mr_election_saw(mr_election *e, mr_chief_record r, int64_t now_ns);

#endif
