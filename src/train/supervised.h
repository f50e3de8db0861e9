/* train/supervised.h -- training that goes on when tasks are lost.
 *
 * A supervised session opens itself, waits for the cluster, makes variables ready (the chief: from the newest checkpoint,
 * else from their initial values; others wait for that), and when a task is lost does the same again: a run that failed so
 * is run once more in the new session.  Beside it the chief saves now and then, without stopping anything, and with
 * synchronous training leads the barrier, of which every worker says that it lives.
 *
 * Who is the chief is settled beforehand (`chief`), or by the workers themselves (`chief_ms`, dist/election.h): then it is
 * the lowest worker that is alive, so training goes on without one that never comes back.
 *
 * With all-reduce each worker has its own variables, and is in a generation (train/all_reduce.h) from the moment its session
 * is open; the loss of another worker ends the era here too, and with the next session it is in the next generation.
 *
 * A variable `ready` on each task that holds variables is set when they have been made ready; a task that was restarted
 * has none, so a loss between any two steps of the way is seen. */
#ifndef MR_TRAIN_SUPERVISED_H
#define MR_TRAIN_SUPERVISED_H

#include "train/all_reduce.h"
#include "train/saver.h"
#include "train/sync.h"

typedef struct mr_supervised mr_supervised;

typedef struct mr_supervised_options {
    bool chief;          /* without an election: this one is */
    int worker;          /* its number, for the election */
    int64_t chief_ms;    /* a chief that is not heard of for so long is replaced; 0: there is no election */
    mr_status *(*open)(void *arg, mr_cancel *cancel, mr_session **out); /* a new session of the same graph; cancel ends its waits */
    void *arg;
    mr_node *train;      /* one step, unless `sync` or `reduce` is set */
    mr_net_sync *sync;   /* borrowed */
    mr_net_reduce *reduce; /* likewise: every worker makes its own variables ready, then takes those of the source; the first
                              of a generation is the chief */
    const char *folder;  /* of checkpoints; NULL: none are made or read */
    int64_t save_ms;     /* between two of them; 0: one at the end */
    int max_to_keep;
    int64_t deadline_ms; /* for the cluster to come up or back; 0: ten minutes */
    const char *trace, *trace_steps; /* as mr_tracer_init */
    bool chief_saves;    /* all by itself; else every task with variables writes its own, to the same folder */
} mr_supervised_options;

/* Adds what it needs to the graph, behind everything that has variables; errors go to the network's scope, NULL
 * then. */
mr_supervised *mr_supervised_new(mr_network *n, const mr_supervised_options *o);
/* Opens the session and returns when training may begin.  When the cluster did not come up, it may be tried again. */
mr_status *mr_supervised_start(mr_supervised *s);
/* One training step with the feeds and fetches of a; *step is the global step then. */
mr_status *mr_supervised_train(mr_supervised *s, const mr_run_args *a, int64_t *step);
/* Any other run. */
mr_status *mr_supervised_run(mr_supervised *s, const mr_run_args *a);
/* The global step now; a synchronous worker joins for it. */
mr_status *mr_supervised_step(mr_supervised *s, int64_t *step);
/* This worker has no more to do: leaves the barrier; the chief waits until all have, and saves.  *step is the global one
 * then, of the chief's last checkpoint: below what it was, when variables were lost meanwhile and came back from an earlier one.
 * Then training may go on, and be finished again. */
mr_status *mr_supervised_finish(mr_supervised *s, int64_t *step);
/* Ends what waits in it, from any thread: that fails with CANCELLED, and so does whatever follows. */
void mr_supervised_cancel(mr_supervised *s);
/* Ends its threads and closes the session; without mr_supervised_finish as if it had crashed.  NULL is fine. */
void mr_supervised_free(mr_supervised *s);
/* Whether this is the chief now. */
bool mr_supervised_is_chief(mr_supervised *s);
/* How a worker fares with the others: of all, where this is or was the chief of synchronous training; of itself, when it trains
 * by itself.  False: nothing is known. */
bool mr_supervised_figures(mr_supervised *s, int worker, mr_sync_figures *out);
/* How often it had to recover. */
int mr_supervised_losses(const mr_supervised *s);

#endif
