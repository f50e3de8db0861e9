/* ops/queue/crowd_fixture.h -- many threads that call ops at random and cancel each other's calls.
 * For tests only.
 *
 * Nothing depends on time: a member's call ends because others make progress, or because it is
 * cancelled.  A fixed share of all calls is cancelled, so that most of them complete. */
#ifndef MR_OPS_QUEUE_CROWD_FIXTURE_H
#define MR_OPS_QUEUE_CROWD_FIXTURE_H

#include "ops/queue/calls_fixture.h"

typedef struct mr_crowd mr_crowd;

typedef struct mr_crowd_member {
    mr_crowd *crowd;
    int id;
    void *ctx;
    mr_thread thread;
    uint64_t random;
    mr_mutex mu;
    mr_call *call MR_GUARDED_BY(mu); /* may be cancelled */
} mr_crowd_member;

enum { MR_CROWD = 64 };

struct mr_crowd {
    mr_crowd_member members[MR_CROWD];
    void (*work)(mr_crowd_member *m);
    _Atomic bool all_there;
    _Atomic int64_t n_calls, n_cancelled;
};

/* Runs work once in each thread, and returns when all are done. */
void mr_crowd_run(void (*work)(mr_crowd_member *m), void *ctx);
uint64_t mr_crowd_member_random(mr_crowd_member *m, uint64_t below);
/* Begins a call and waits until it has ended, perhaps because it was cancelled. */
mr_call *mr_crowd_member_call(mr_crowd_member *m, mr_call *c, bool may_be_cancelled);

#endif
