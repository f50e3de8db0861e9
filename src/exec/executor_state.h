/* exec/executor_state.h -- one run of a plan: the state that changes while it runs.
 *
 * mr_exec is one run of one plan on one device. The execs of one step (or of one function call) belong to an
 * mr_flow, which holds what they share: status, cancellation, rendezvous. Both are kept by their program and
 * used again, so a warm step allocates nothing.
 *
 * Threads: a value in a slot is written by the one thread that delivers it and read by the one that runs the
 * node; the atomic counters order the two. The frame's lock guards everything in a frame except its
 * iterations' counters and slots. */
#ifndef MR_EXEC_EXECUTOR_STATE_H
#define MR_EXEC_EXECUTOR_STATE_H

#include "base/vec.h"
#include "exec/plan.h"
#include "exec/runner.h"

typedef struct mr_exec mr_exec;
typedef struct mr_exec_frame mr_exec_frame;
struct mr_trace;

/* One iteration of a frame; the root has one. */
typedef struct mr_iter {
    mr_exec_frame *frame; /* NULL: the root */
    int64_t number;
    uint64_t frame_id;
    _Atomic int busy; /* nodes ready or running; becomes 0 only under the frame's lock.  Not kept
                         for the root */
    int n_child_frames;   /* under the frame's lock */
    struct mr_iter *next; /* the following iteration, or the next spare one */
    mr_exec_frame **children;  /* by mr_plan_frame.child; under the frame's lock (root: the exec's) */
    _Atomic uint32_t *words;
    mr_value *slots; /* all MR_ABSENT before and after */
} mr_iter;

typedef struct mr_pending_value { /* the output of an Enter or NextIteration, for an iteration to come */
    const mr_plan_node *node;
    mr_value value;
} mr_pending_value;

/* A loop that is running (its ids are those of TensorFlow 2.9). */
struct mr_exec_frame {
    const mr_plan_frame *plan;
    int index; /* in mr_plan.frames */
    uint64_t id;
    mr_iter *parent;
    mr_mutex mu;
    int n_enters_left;
    int n_iters;              /* that are not done */
    int64_t n_started;        /* since the frame began */
    mr_iter *oldest, *newest; /* oldest that is not done; newest started */
    MR_VEC(mr_pending_value) invariants;
    MR_VEC(mr_pending_value) pending; /* NextIterations that wait for an older iteration to end */
    MR_VEC(const mr_plan_node *) dead_exits; /* of the newest iteration */
    bool *exited;             /* by Exit: its value has left the loop; under the lock */
    mr_exec_frame *next;          /* spare ones */
};

/* A node that may run now, in one iteration. */
typedef struct mr_ready {
    mr_iter *it;
    uint32_t node;
} mr_ready;

typedef MR_VEC(mr_ready) mr_ready_vec;

/* One thread's share of an exec. It runs cheap nodes first (they may make more ready), then those that may block, then
 * the heavy ones, newest first (their inputs are in the cache, and memory is freed soon), then the first nodes of new
 * iterations, oldest first (so that a loop does not starve the rest of the step). */
typedef struct mr_exec_worker {
    mr_work work;
    mr_exec *x;
    const mr_plan *plan;
    mr_ready_vec cheap, heavy, fresh;
    mr_ready_vec blocking;      /* nodes that may block: they wait until the cheap ones are done */
    int heavy_from, fresh_from; /* entries before these are gone */
    int patience;               /* nodes until the deadline is checked */
    bool watched;               /* this step is measured or traced */
    bool no_memory;             /* a loop could not continue; reported once no lock is held */
    const mr_plan_node *exits_twice; /* an Exit that was live twice; reported likewise */
    MR_VEC(mr_value) trash;     /* to be dropped when no lock is held */
    mr_run run;
    mr_value *out; /* plan->max_out */
    struct mr_exec_worker *next;
} mr_exec_worker;

struct mr_exec {
    mr_step step; /* what kernels see */
    const mr_plan *plan;
    struct mr_flow *flow;
    _Atomic int active; /* workers and running asynchronous nodes; the last one to leave ends the exec */
    mr_iter *root;
    mr_mutex mu;
    mr_exec_worker *idle MR_GUARDED_BY(mu);
    mr_exec_frame **spare_frames MR_GUARDED_BY(mu); /* by index */
    mr_iter **spare_iters MR_GUARDED_BY(mu);
};

/* One run of a program: what the execs of one step, or of one function call, share. */
typedef struct mr_flow {
    struct mr_program *program;
    mr_runner *runner; /* own_runner, or that of the step a function is called in */
    mr_runner own_runner;
    mr_cancel *cancel;
    mr_cancel_entry on_cancel;
    bool listens; /* on_cancel is registered with `cancel` */
    mr_cancel *parent; /* while it runs */
    mr_cancel_entry in_parent;
    mr_rendezvous *own_rendezvous; /* kept with the flow */
    mr_rendezvous *rendezvous;     /* own_rendezvous, or that of a step on several tasks */
    _Atomic bool stop; /* no further node starts */
    _Atomic int parts_left; /* execs that have not ended, and mr_flow_start itself */
    int64_t deadline_ns; /* 0: none */
    int depth;           /* of nested function calls */
    size_t depth_bytes;  /* about the memory of their flows together */
    uint64_t state;      /* of a function called later (run/later.h); 0: the session's */
    bool measured;       /* this run updates the costs in its plans */
    struct mr_trace *trace; /* NULL: not traced */
    mr_mutex mu;
    mr_status *st MR_GUARDED_BY(mu);
    mr_value *args, *rets;
    mr_exec **execs; /* one per plan of the program */
    void (*done)(struct mr_flow *f);
    void *ctx;            /* of done */
    struct mr_flow *next; /* in the program's list of spare or resting flows */
} mr_flow;

/* ---- exec/executor.c ---- */
mr_exec *mr_exec_new(const mr_plan *p, mr_flow *f); /* NULL if memory is out */
void mr_exec_free(mr_exec *x);
/* Posts the first work. mr_flow_part_done is called, from any thread, when everything has ended. */
void mr_exec_start(mr_exec *x);

/* ---- exec/program.c ---- */
/* Keeps the first root error of the step and stops it; takes st. From any thread, any number of times. */
void mr_flow_fail(mr_flow *f, mr_status *st);
/* One part has ended. The last call ends the flow; f may be gone afterwards. */
void mr_flow_part_done(mr_flow *f);

/* For functions that run once per node and have no array: the compiler's stack check would cost them a tenth. */
#if defined(__has_attribute) && __has_attribute(no_stack_protector)
#define MR_PER_NODE __attribute__((no_stack_protector))
#else
#define MR_PER_NODE
#endif

/* ---- exec/frames.c: Enter, Exit and NextIteration, and the ends of iterations ---- */
mr_iter *mr_iter_new(const mr_plan *p, int frame); /* NULL if memory is out */
void mr_iter_free(mr_iter *it);
/* Passes on the outputs of a node that is done. If it was the last node of an iteration, ends the iteration. */
MR_PER_NODE void mr_frames_propagate(mr_exec_worker *w, mr_iter *it, const mr_plan_node *n, mr_value *out, bool dead);
/* Empties the root and gives back all remaining frames (a step that failed leaves some). No worker is left. */
void mr_frames_clear(mr_exec *x);
void mr_frames_free_spare(mr_exec *x);

#endif
