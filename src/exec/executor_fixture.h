/* exec/executor_fixture.h -- graphs of a few test-only ops on int32 scalars, run straight through a
 * program, so that the executor is tested without sessions, passes and real kernels.
 *
 *     fixture r;
 *     fixture_init(&r, 2);
 *     mr_out x = fixture_arg(&r, 0);
 *     fixture_ret(&r, 0, fixture_op2(&r, "TestAdd", x, fixture_const(&r, 1)));
 *     MR_CHECK_INT(fixture_run1(&r, 41), 42);
 *     fixture_deinit(&r);
 */
#ifndef MR_EXEC_EXECUTOR_FIXTURE_H
#define MR_EXEC_EXECUTOR_FIXTURE_H

#include "exec/program.h"
#include "graph/scope.h"
#include "tests/harness/test.h"

typedef struct fixture {
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
} fixture;

void fixture_init(fixture *r, int n_threads); /* 0: no pool at all */
void fixture_deinit(fixture *r);

/* Nodes; name NULL: made up. */
mr_out fixture_node(fixture *r, const char *op, const char *name, const mr_named_attr *attrs, int n_attrs,
                const mr_out *in, int n_in);
#define fixture_op(r, op, ...) fixture_node(r, op, NULL, NULL, 0, MR_OUTS(__VA_ARGS__))
#define fixture_op0(r, op) fixture_node(r, op, NULL, NULL, 0, NULL, 0)
mr_out fixture_const(fixture *r, int v);
mr_out fixture_arg(fixture *r, int index); /* int32 */
void fixture_ret(fixture *r, int index, mr_out v);
mr_out fixture_merge(fixture *r, mr_out a, mr_out b);
mr_out fixture_enter(fixture *r, mr_out v, const char *frame, bool constant, int parallel);
/* A Merge whose second input comes later, by fixture_close. */
mr_out fixture_loop_merge(fixture *r, mr_out enter);
void fixture_close(mr_out merge, mr_out next);

/* Runs with int arguments; results of values that never came are -1. */
mr_status *fixture_run(fixture *r, const int *args, int *rets);
int fixture_run1(fixture *r, int arg); /* succeeds; the first result */

/* TestHold waits (asynchronously) for this; every TestCount adds one to fixture_counter. */
int fixture_release(void); /* how many */
int fixture_held(void); /* TestHolds waiting now */
extern _Atomic int fixture_counter;
/* TestMeet waits until as many of them as its input says have come since fixture_meet_again; so does TestMeetComputing, which
 * keeps a thread that computes meanwhile. */
void fixture_meet_again(void);
extern _Atomic int64_t fixture_meet_patience_ns;
extern pthread_t fixture_last_meeting_thread;
int fixture_forget_spinners(void); /* how many threads have run TestSpin since the last call */
extern uint64_t fixture_frame; /* id of the frame the last TestFrame ran in */

#endif
