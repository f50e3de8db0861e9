/* ops/batch/batcher.h -- the queue in which the rows of many runs become batches.
 *
 * Each run brings rows. They join an open batch, which is closed when it is full or its timeout expires, then waits
 * for one of num_batch_threads turns, and is processed as the op defines. Then each run gets its own results. No
 * thread blocks meanwhile: a batch is a record that passes from its alarm to a pool to the end of its processing.
 *
 *     run --piece--> open batch --full, or alarm--> closed batches --turn--> process --> mr_batch_end, runs end
 *
 * If large batches are split, a run's rows may be in several batches; then the run ends with the last of them. A
 * cancelled run is removed from the batches whose processing has not begun. */
#ifndef MR_OPS_BATCH_BATCHER_H
#define MR_OPS_BATCH_BATCHER_H

#include "ops/batch/alarm.h"
#include "ops/queue/named.h"

typedef struct mr_batcher mr_batcher;
typedef struct mr_batch mr_batch;
typedef struct mr_batch_piece mr_batch_piece;

typedef struct mr_batch_request { /* one run */
    mr_cancel_entry entry;
    mr_batcher *b; /* referenced */
    mr_run *r;
    int n_in; /* number of batched inputs, which are the first of the node */
    int64_t rows;
    int n_pieces, n_left;
    mr_status *st;
    mr_batch_piece *pieces;
} mr_batch_request;

struct mr_batch_piece { /* rows of a run that belong to one batch */
    mr_batch_request *q;
    mr_batch *in; /* NULL: processing has begun */
    int64_t start, rows;
    mr_tensor **outs; /* the run's rows of each result; set by the code that processes the batch */
    mr_batch_piece *next; /* next piece in the batch */
};

struct mr_batch {
    mr_batcher *b; /* referenced */
    mr_batch_piece *first, *last;
    int64_t rows, padded; /* padded to an allowed size */
    int64_t deadline_ns;
    mr_later *later;
    mr_batch *next;
};

typedef struct mr_batch_options {
    int64_t max_rows, max_waiting, n_turns, timeout_ns;
    bool split;
    int n_allowed;
    int64_t *allowed;
} mr_batch_options;

/* Must call mr_batch_end, now or later and on any thread. */
typedef void (*mr_batch_process)(mr_batch *x);

typedef struct mr_batching { /* the state of a kernel that batches */
    mr_named named;
    mr_batch_options o;
    mr_batch_process process;
} mr_batching;
/* Reads the attrs that all these ops have. */
mr_status *mr_batching_init(mr_batching *s, mr_make *m, const mr_object_type *type, bool split, mr_batch_process process);
void mr_batching_deinit(void *state);
/* The kernel: adds the rows of r's in_tensors to a batch. */
void mr_batching_run(mr_run *r);
void mr_batcher_free(mr_object *o); /* for the object types of batchers; there is one type per kind of processing */

/* INVALID_ARGUMENT unless all runs of a batch have the same number of inputs and outputs. */
mr_status *mr_batch_check(const mr_batch *x);
/* Joins the rows of input i of all pieces, and repeats the first row as padding. */
mr_status *mr_batch_join(const mr_batch *x, int i, mr_tensor **out);
/* Ends the runs whose pieces are all complete now; st (ownership is taken) applies to all of them. */
void mr_batch_end(mr_batch *x, mr_status *st);

/* ---- shapes ---- */
struct mr_infer;
/* Input i with any number of rows. */
mr_status *mr_batch_any_rows(struct mr_infer *c, int i, const mr_pshape **out);
/* A result from another run may contradict the types and shapes known for this one: INVALID_ARGUMENT. */
mr_status *mr_batch_check_output(const mr_run *r, mr_dtype t, int rank, const int64_t *dims);

#endif
