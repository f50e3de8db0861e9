/* train/supervised.h -- training that goes on when tasks are lost.
 *
 * A supervised session opens a session, waits for the cluster and prepares the variables: the chief restores the newest
 * checkpoint or initializes them, the other workers wait for that.  When a task is lost, it does all this again and
 * repeats the run that failed.  Meanwhile the chief saves regularly, without stopping training.  With synchronous
 * training the chief also leads the barrier, and every worker sends heartbeats to it.
 *
 * The chief is fixed (`chief`), or the workers elect it (`chief_ms`, dist/election.h): the lowest worker that is alive,
 * so training continues without one that never comes back.
 *
 * With all-reduce each worker has its own variables, and belongs to a generation (train/all_reduce.h) while its session
 * is open.  The loss of another worker ends the era here too; with the next session this worker joins the next
 * generation.
 *
 * A variable `ready` on each task with variables is set when they have been prepared.  A task that restarted does not
 * have it, so a loss at any point is noticed. */
#ifndef MR_TRAIN_SUPERVISED_H
#define MR_TRAIN_SUPERVISED_H

#include "train/all_reduce.h"
#include "train/saver.h"
#include "train/sync.h"

typedef struct mr_supervised mr_supervised;

typedef struct mr_supervised_options {
    bool chief;          /* without an election: this worker is the chief */
    int worker;          /* number of this worker, for the election */
    int64_t chief_ms;    /* a chief that is silent for this long is replaced; 0: no election */
    mr_status *(*open)(void *arg, mr_cancel *cancel,
                       mr_session **out); /* opens a session of the same graph; cancel ends its waits */
    void *arg;
    mr_node *train;      /* one step, unless `sync` or `reduce` is set */
    mr_nn_sync *sync;   /* borrowed */
    mr_nn_reduce *reduce; /* borrowed: every worker prepares its own variables, then takes those of the source; rank 0
                              of a generation is the chief */
    const char *folder;  /* of checkpoints; NULL: neither save nor restore */
    int64_t save_ms;     /* between two checkpoints; 0: only one at the end */
    int max_to_keep;
    int64_t deadline_ms; /* for the cluster to start or recover; 0: ten minutes */
    const char *trace, *trace_steps; /* as mr_tracer_init */
    bool chief_saves; /* the chief saves all variables; else every task with variables saves its own, to the same folder
                       */
} mr_supervised_options;

/* Adds its nodes to the graph; call it after everything that adds variables.  NULL after an error, which is in the
 * network's scope. */
mr_supervised *mr_supervised_new(mr_nn *n, const mr_supervised_options *o);
/* Opens the session and returns when training may begin.  If the cluster did not start, it may be called again. */
mr_status *mr_supervised_start(mr_supervised *s);
/* One training step with the feeds and fetches of a; *step becomes the global step. */
mr_status *mr_supervised_train(mr_supervised *s, const mr_run_args *a, int64_t *step);
/* Any other run. */
mr_status *mr_supervised_run(mr_supervised *s, const mr_run_args *a);
/* The global step now; a synchronous worker joins for it. */
mr_status *mr_supervised_step(mr_supervised *s, int64_t *step);
/* This worker is done: it leaves the barrier; the chief waits until all workers have left, and saves.  *step is the
 * global step of that checkpoint.  It can be lower than before, if variables were lost meanwhile and restored from an
 * earlier checkpoint; then training may continue and finish again. */
mr_status *mr_supervised_finish(mr_supervised *s, int64_t *step);
/* From any thread: every call in progress, and every later one, fails with CANCELLED. */
void mr_supervised_cancel(mr_supervised *s);
/* Ends its threads and closes the session; without mr_supervised_finish this looks like a crash to the others.  Accepts
 * NULL. */
void mr_supervised_free(mr_supervised *s);
/* Whether this is the chief now. */
bool mr_supervised_is_chief(mr_supervised *s);
/* Figures of a worker: of any worker, where this process is or was the chief of synchronous training; of this worker
 * alone, in asynchronous training.  false: not known. */
bool mr_supervised_figures(mr_supervised *s, int worker, mr_sync_figures *out);
/* How often it had to recover. */
int mr_supervised_losses(const mr_supervised *s);

#endif
