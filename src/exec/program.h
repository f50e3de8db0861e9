/* exec/program.h -- what runs for one signature or one function: a plan for each device that takes part.
 *
 * A program runs through an mr_flow: the caller takes one, fills in the arguments, starts it and gives it
 * back. Flows are kept and used again. A flow that was cancelled rests until no thread can still be inside
 * its cancellation. */
#ifndef MR_EXEC_PROGRAM_H
#define MR_EXEC_PROGRAM_H

#include "exec/executor_state.h"

typedef struct mr_program {
    int n_plans;
    mr_plan **plans;
    int n_args, n_rets;
    mr_caller *caller;
    size_t flow_bytes; /* about the memory of one flow */
    bool may_be_light; /* no node can wait or run for ever */
    _Atomic uint32_t n_runs;
    _Atomic int64_t n_counted; /* runs, for GraphOptions.build_cost_model */
    mr_mutex mu;
    mr_flow *spare MR_GUARDED_BY(mu);
    mr_flow *resting MR_GUARDED_BY(mu); /* flows that were cancelled; see program.c */
} mr_program;

/* parts: one graph per device, NULL if nothing runs there; references are taken over, also on failure. */
mr_status *mr_program_new(mr_graph **parts, mr_device *const *devices, int n_devices, int n_args,
                          int n_rets, mr_kernel_cache *kernels, mr_caller *caller,
                          mr_program **out);
void mr_program_free(mr_program *p); /* no flow is running; NULL is fine */

/* True if the program was measured to take less than a hand-over to another thread is worth, so it may run on a thread
 * that must not be occupied for long. It has no loops, calls no functions, and waits for nothing but other tasks. */
bool mr_program_is_light(const mr_program *p);

/* A flow with room for arguments and results, all absent. RESOURCE_EXHAUSTED. */
mr_status *mr_program_take(mr_program *p, mr_flow **out);
/* Returns a flow that is not running to its program. Results still in it are dropped, arguments are not. */
void mr_program_give(mr_flow *f);

typedef struct mr_flow_start_args {
    mr_runner *runner;
    mr_cancel *parent; /* cancelling it cancels the flow; must outlive the run */
    mr_step *root;     /* the step a function is called in, or NULL */
    void (*done)(mr_flow *f);
    void *ctx;
    /* Of a step that runs on several tasks, else NULL and 0: */
    mr_rendezvous *rendezvous; /* used in place of the flow's own; a reference is taken */
    int64_t step_id;
} mr_flow_start_args;
/* done(f) is called once, from any thread, when nothing of the flow runs any more. Then mr_flow_take_status returns how
 * it went. Arguments are borrowed until then: they are cleared without being dropped. */
void mr_flow_start(mr_flow *f, const mr_flow_start_args *a);
/* The first root error; the caller owns it. */
mr_status *mr_flow_take_status(mr_flow *f);
/* For a flow that is run without mr_flow_start (straight.c): an id for the next run, and the end of a run. */
int64_t mr_flow_next_id(void);
void mr_flow_end_step(mr_flow *f);

#endif
