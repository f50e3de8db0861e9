/* train/tracer.h -- which training steps are traced, and the files they go to.
 *
 * Every worker of a job writes into the same folder, FOLDER/worker-1.step-00000020.pb: a RunMetadata each, with the stats of
 * all tasks of that step.  `millrace trace FOLDER` makes one picture of them, `millrace launch --trace FOLDER` does so at
 * the end of the job.  Without a folder nothing is done. */
#ifndef MR_TRAIN_TRACER_H
#define MR_TRAIN_TRACER_H

#include "base/str.h"
#include "base/vec.h"

#define MR_TRACE_STEPS "20-24" /* unless others are asked for */

typedef struct mr_traced_range {
    int64_t first, last;
    bool met; /* one of them was traced */
} mr_traced_range;

typedef struct mr_tracer {
    char *folder; /* NULL: nothing is traced */
    int worker;
    MR_VEC(mr_traced_range) ranges;
    int64_t left_ns;   /* when the client got its last step back; 0: it has none yet */
    mr_str metadata;   /* of the step that runs */
    int64_t outside_ns; /* how long the client was elsewhere before it */
    _Atomic bool failed; /* it was told */
} mr_tracer;

/* folder NULL: the environment's MILLRACE_TRACE, if that is set; steps "20-24,100" NULL: MILLRACE_TRACE_STEPS, or MR_TRACE_STEPS.
 * INVALID_ARGUMENT when steps cannot be read.  mr_tracer_deinit, also then. */
mr_status *mr_tracer_init(mr_tracer *t, const char *folder, const char *steps, int worker);
void mr_tracer_deinit(mr_tracer *t);

/* A step begins behind this global one.  Where its metadata is to go; NULL: it is not traced.  A worker that others have
 * carried past a whole range traces its next step for it. */
mr_str *mr_tracer_begin(mr_tracer *t, int64_t done);
/* It has ended, and was this one; ok: its metadata is written.  A folder that cannot be written to is told in the log, once. */
void mr_tracer_end(mr_tracer *t, bool ok, int64_t step);

/* Updates that the chief makes of all workers' gradients, in a thread of its own: those of the steps that are traced go to
 * FOLDER/worker-0.update-00000020.pb.  t may be NULL. */
bool mr_tracer_wants_update(const mr_tracer *t, int64_t step);
void mr_tracer_update(mr_tracer *t, int64_t step, mr_str *metadata);

#endif
