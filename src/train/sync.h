/* train/sync.h -- synchronous replicas: one update from the gradients of many workers.
 *
 * For each variable an accumulator on its device takes the gradients of the workers; the chief takes their mean and
 * applies it (dist/sync.h says when), so N workers with batches of b do what one process does with batches of N*b.
 * The workers send messages to the chief through one queue, `sync_events`; tokens, which name the next step, go to each
 * worker through its own queue, `sync_token_q_I`.  All queues are on the parameter servers: chief and workers never
 * call each other, and either may be restarted at any time.
 *
 * With a bounded delay there are no accumulators: a worker makes its own update before its message, and the token
 * says that it is not too far ahead. */
#ifndef MR_TRAIN_SYNC_H
#define MR_TRAIN_SYNC_H

#include "dist/sync.h"
#include "exec/session.h"
#include "train/nn.h"

typedef struct mr_nn_sync_options {
    int n_workers, worker; /* this one's number */
    int aggregate; /* gradients for each step; 0: of all workers; MR_SYNC_ADAPTIVE: the number that makes the most
                      progress */
    int64_t lease_ms;      /* a worker that is silent for this long is no longer waited for; 0: always wait */
    int64_t join_ms;       /* workers that have not joined by then are not waited for; 0: always wait */
    bool bounded;          /* every worker makes its own updates, and waits when it is too far ahead (dist/delay.h) */
    int64_t delay;         /* with bounded: as mr_delay_options.bound */
} mr_nn_sync_options;

typedef struct mr_nn_sync mr_nn_sync;

/* In place of mr_nn_minimize.  Errors go to the network's scope; NULL then.  mr_nn_sync_free. */
mr_nn_sync *mr_nn_sync_new(mr_nn *n, mr_out loss, const mr_nn_optimizer *o, const mr_nn_sync_options *options);
void mr_nn_sync_free(mr_nn_sync *y);
/* The two halves, for callers that make the update themselves.  g: the gradients to make it from, the mean over the
 * workers (with `bounded` this worker's own); call mr_nn_gradients_deinit on it even after an error.  `train` makes
 * the update and increments the global step.  The second half frees y when it returns NULL. */
mr_nn_sync *mr_nn_sync_begin(mr_nn *n, mr_out loss, const mr_nn_sync_options *options, mr_nn_gradients *g);
mr_nn_sync *mr_nn_sync_end(mr_nn_sync *y, mr_nn *n, mr_node *train);

/* A worker's state between its steps. */
typedef struct mr_sync_worker {
    int64_t stamp; /* 0: it must join first */
    int64_t step;  /* global, when the last token was given */
    mr_str *trace; /* where the metadata of the next step goes; NULL: it is not traced */
} mr_sync_worker;

/* One step of a worker: joins if it has to, runs a (its feeds and fetches) with the gradients, waits for the
 * token.  After an error the next step joins again. */
mr_status *mr_nn_sync_run(mr_nn_sync *y, mr_session *s, const mr_run_args *a, mr_sync_worker *w);
/* Joins and waits for a token, so that w->step is known; nothing when it has one. */
mr_status *mr_nn_sync_join(mr_nn_sync *y, mr_session *s, mr_sync_worker *w);
/* Sends a message to the chief; worker -1: it only advances the chief's clock. */
mr_status *mr_nn_sync_say(mr_nn_sync *y, mr_session *s, int worker, mr_sync_message message);

/* Figures of one worker, from the present or last time this process led; false: it never led. */
bool mr_nn_sync_figures(mr_nn_sync *y, int worker, mr_sync_figures *out);
/* Appends the other workers that have not left, from the same time: "1, 2". */
void mr_nn_sync_list_present(mr_nn_sync *y, mr_str *out);

/* The chief's part, on a separate thread: returns when all workers have left (NULL), or with the error of
 * a run (CANCELLED when the session is closed). */
mr_status *mr_nn_sync_lead(mr_nn_sync *y, mr_session *s);

#endif
