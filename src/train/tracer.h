/* train/tracer.h -- selects the training steps to trace, and writes their files.
 *
 * Every worker of a job writes into the same folder, FOLDER/worker-1.step-00000020.pb: a RunMetadata with the stats of
 * all tasks of that step.  `millrace trace FOLDER` combines them into one trace; `millrace launch --trace FOLDER` does
 * so at the end of the job.  Without a folder nothing is traced. */
#ifndef MR_TRAIN_TRACER_H
#define MR_TRAIN_TRACER_H

#include "base/str.h"
#include "base/vec.h"

#define MR_TRACE_STEPS "20-24" /* the default */

typedef struct mr_traced_range {
    int64_t first, last;
    bool met; /* one of them was traced */
} mr_traced_range;

typedef struct mr_tracer {
    char *folder; /* NULL: nothing is traced */
    int worker;
    MR_VEC(mr_traced_range) ranges;
    int64_t left_ns;   /* when the client's last step ended; 0: there was none */
    mr_str metadata;   /* of the present step */
    int64_t outside_ns; /* time between the last step and this one */
    _Atomic bool failed; /* a failure was logged */
} mr_tracer;

/* folder NULL: MILLRACE_TRACE, if it is set; steps such as "20-24,100", NULL: MILLRACE_TRACE_STEPS, or MR_TRACE_STEPS.
 * INVALID_ARGUMENT when steps cannot be parsed.  Call mr_tracer_deinit in any case. */
mr_status *mr_tracer_init(mr_tracer *t, const char *folder, const char *steps, int worker);
void mr_tracer_deinit(mr_tracer *t);

/* A step begins after global step `done`.  Returns where its metadata goes; NULL: it is not traced.  A worker that
 * skipped a whole range, because others advanced the step, traces its next step for it. */
mr_str *mr_tracer_begin(mr_tracer *t, int64_t done);
/* The step has ended, with this number; if ok, its metadata is written.  The first failure to write is logged. */
void mr_tracer_end(mr_tracer *t, bool ok, int64_t step);

/* Updates that the chief makes from the gradients of all workers, on another thread: those of traced steps go to
 * FOLDER/worker-0.update-00000020.pb.  t may be NULL. */
bool mr_tracer_wants_update(const mr_tracer *t, int64_t step);
void mr_tracer_update(mr_tracer *t, int64_t step, mr_str *metadata);

#endif
