/* distbelief/downpour_internal.h -- a replica of Downpour from within: its loop (downpour.c) and its job's tables
 * (downpour_values.c). */
#ifndef MR_DISTBELIEF_DOWNPOUR_INTERNAL_H
#define MR_DISTBELIEF_DOWNPOUR_INTERNAL_H

#include "base/thread.h"
#include "dist/downpour.h"
#include "distbelief/downpour.h"
#include "distbelief/mirror.h"
#include "ps/client.h"

/* Keys of NAME/job.  A float counts by ones to 2^24 only: so of the steps that replicas pushed, each counts whole blocks by
 * themselves, and the rest beside them. */
enum { KEY_STEPS, KEY_BLOCKS, KEY_READY, KEY_GIVEN, JOB_KEYS };
enum { STEPS_A_BLOCK = 4096, WATCH_MS = 5 };

typedef struct mr_pour_group { /* tasks that end together */
    MR_VEC(mr_ps_task) tasks;
    int left MR_GUARDED_BY(mu);     /* that have not ended, and one while it is being begun */
    bool under_way;
} mr_pour_group;

struct mr_pour {
    mr_downpour_options o; /* nothing zero; the name is owned */
    mr_mirror m;
    mr_session *s;
    mr_ps *ps;
    int vector, job, *tables; /* numbers of tables; of parts with rows */
    mr_mirror_values fetched, accrued;
    uint8_t **touched; /* by part with rows: a byte a row */
    mr_tensor **gradients;
    mr_downpour_plan plan;
    mr_downpour_actions todo;
    bool started, step_due, watch_due, ended;
    mr_status *failed; /* what ended the training: kept until it is started again */
    mr_mutex mu;
    mr_cond changed; /* a group has ended */
    mr_pour_group fetch, push;
    bool cancelled MR_GUARDED_BY(mu); /* the wait of the call that is being made */
    mr_cancel *under; /* of calls but steps, which bring one of their own; NULL: none */
    mr_downpour_stats stats;
    int64_t counted; /* steps of this replica that the job's count has */
    int64_t last_step_ns;
};

/* CANCELLED when the call that is being made is to end. */
mr_status *mr_pour_check(mr_pour *p);
/* The job's tables, made or found. */
mr_status *mr_pour_make_tables(mr_pour *p);
mr_status *mr_pour_read_job(mr_pour *p, int64_t *steps);
/* What the job's count rises by, from KEY_STEPS to KEY_BLOCKS, when this replica has pushed more steps. */
void mr_pour_count_steps(mr_pour *p, int64_t steps, float rise[2]);
/* The model's tables have initial values, given by this replica if by nobody else. */
mr_status *mr_pour_see_values(mr_pour *p);

#endif

