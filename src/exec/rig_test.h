/* exec/rig_test.h -- graphs of a few test-only ops on int32 scalars, run straight through a
 * program, so that the executor is tested without sessions, passes and real kernels.
 *
 *     rig r;
 *     rig_init(&r, 2);
 *     mr_out x = rig_arg(&r, 0);
 *     rig_ret(&r, 0, rig_op2(&r, "TestAdd", x, rig_const(&r, 1)));
 *     MR_CHECK_INT(rig_run1(&r, 41), 42);
 *     rig_deinit(&r);
 */
#ifndef MR_EXEC_RIG_TEST_H
#define MR_EXEC_RIG_TEST_H

#include "exec/program.h"
#include "graph/scope.h"
#include "tests/harness/test.h"

typedef struct rig {
    mr_graph *g;
    mr_device *device;
    mr_pool *pool;
    mr_program *program; /* made by the first run */
    mr_cancel *cancel;
    struct mr_trace *trace; /* of the next runs */
    int64_t timeout_ms;
    int refused; /* this many-th allocation of a run is refused; 0: none */
    int n_args, n_rets;
    int last_kind[8]; /* of the results: mr_value_kind */
} rig;

void rig_init(rig *r, int n_threads); /* 0: no pool at all */
void rig_deinit(rig *r);

/* Nodes; name NULL: made up. */
mr_out rig_node(rig *r, const char *op, const char *name, const mr_named_attr *attrs, int n_attrs,
                const mr_out *in, int n_in);
#define rig_op(r, op, ...) rig_node(r, op, NULL, NULL, 0, MR_OUTS(__VA_ARGS__))
#define rig_op0(r, op) rig_node(r, op, NULL, NULL, 0, NULL, 0)
mr_out rig_const(rig *r, int v);
mr_out rig_arg(rig *r, int index); /* int32 */
void rig_ret(rig *r, int index, mr_out v);
mr_out rig_merge(rig *r, mr_out a, mr_out b);
mr_out rig_enter(rig *r, mr_out v, const char *frame, bool constant, int parallel);
/* A Merge whose second input comes later, by rig_close. */
mr_out rig_loop_merge(rig *r, mr_out enter);
void rig_close(mr_out merge, mr_out next);

/* Runs with int arguments; results of values that never came are -1. */
mr_status *rig_run(rig *r, const int *args, int *rets);
int rig_run1(rig *r, int arg); /* succeeds; the first result */

/* TestHold waits (asynchronously) for this; every TestCount adds one to rig_counter. */
int rig_release(void); /* how many */
int rig_held(void); /* TestHolds waiting now */
extern _Atomic int rig_counter;
/* TestMeet waits until as many of them as its input says have come since rig_meet_again; so does TestMeetComputing, which
 * keeps a thread that computes meanwhile. */
void rig_meet_again(void);
extern _Atomic int64_t rig_meet_patience_ns;
extern pthread_t rig_last_meeting_thread;
int rig_forget_spinners(void); /* how many threads have run TestSpin since the last call */
extern uint64_t rig_frame; /* id of the frame the last TestFrame ran in */

#endif
