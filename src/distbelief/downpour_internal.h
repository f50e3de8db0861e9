/* distbelief/downpour_internal.h -- the fields of a Downpour replica: downpour.c has its loop, downpour_values.c its
 * job's tables. */
#ifndef MR_DISTBELIEF_DOWNPOUR_INTERNAL_H
#define MR_DISTBELIEF_DOWNPOUR_INTERNAL_H

#include "base/thread.h"
#include "dist/downpour.h"
#include "distbelief/downpour.h"
#include "distbelief/mirror.h"
#include "ps/client.h"

/* Keys of NAME/job.  A float counts exactly only up to 2^24, so each replica counts whole blocks of its pushed steps in
 * one key and the rest in another. */
enum { KEY_STEPS, KEY_BLOCKS, KEY_READY, KEY_GIVEN, JOB_KEYS };
enum { STEPS_A_BLOCK = 4096, WATCH_MS = 5 };

typedef struct mr_downpour_replica_group { /* tasks that end together */
    MR_VEC(mr_ps_task) tasks;
    int left MR_GUARDED_BY(mu);     /* tasks that have not ended; plus one while the group is being begun */
    bool under_way;
} mr_downpour_replica_group;

struct mr_downpour_replica {
    mr_downpour_options o; /* with defaults filled in; the name is owned */
    mr_mirror m;
    mr_session *s;
    mr_ps *ps;
    int vector, job, *tables; /* numbers of tables; `tables` for parts with rows */
    mr_mirror_values fetched, accrued;
    uint8_t **touched; /* for each part with rows: one byte per row */
    mr_tensor **gradients;
    mr_downpour_plan plan;
    mr_downpour_actions todo;
    bool started, step_due, watch_due, ended;
    mr_status *failed; /* the error that ended training; kept until it is started again */
    mr_mutex mu;
    mr_cond changed; /* a group has ended */
    mr_downpour_replica_group fetch, push;
    bool cancelled MR_GUARDED_BY(mu); /* the present call must end */
    mr_cancel *under; /* cancels calls other than steps, which bring their own; may be NULL */
    mr_downpour_stats stats;
    int64_t counted; /* steps of this replica that are in the job's count */
    int64_t last_step_ns;
};

/* CANCELLED when the present call must end. */
mr_status *mr_downpour_replica_check(mr_downpour_replica *p);
/* Makes the job's tables, or finds them. */
mr_status *mr_downpour_replica_make_tables(mr_downpour_replica *p);
mr_status *mr_downpour_replica_read_job(mr_downpour_replica *p, int64_t *steps);
/* What to add to KEY_STEPS and KEY_BLOCKS when this replica has pushed more steps. */
void mr_downpour_replica_count_steps(mr_downpour_replica *p, int64_t steps, float rise[2]);
/* Makes sure that the model's tables have initial values; this replica pushes them if no other does. */
mr_status *mr_downpour_replica_see_values(mr_downpour_replica *p);

#endif

