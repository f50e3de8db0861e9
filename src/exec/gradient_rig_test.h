/* exec/gradient_rig_test.h -- gradients run by a session and compared with finite differences. */
#ifndef MR_EXEC_GRADIENT_RIG_TEST_H
#define MR_EXEC_GRADIENT_RIG_TEST_H

#include "exec/session.h"
#include "graph/flow_builder_test.h"
#include "graph/grad.h"
#include "tests/harness/test.h"

enum { MR_GRIG_INPUTS = 4 };

typedef struct mr_grig {
    mr_graph *g;
    mr_fb b;
    mr_session *session; /* made by the first check */
    mr_session_config config;
    mr_out x[MR_GRIG_INPUTS]; /* placeholders of type double */
    mr_tensor *feed[MR_GRIG_INPUTS];
    int n_x, program;
} mr_grig;

void mr_grig_init(mr_grig *r);
void mr_grig_deinit(mr_grig *r);
/* Another input of this shape, with numbers around 0.5; known: so is its shape beforehand. */
mr_out mr_grig_input(mr_grig *r, int rank, const int64_t *dims, bool known);
/* The gradients of the sum of y agree with finite differences. */
void mr_grig_check(mr_grig *r, mr_out y);
/* Runs with the inputs fed; for what is not a gradient to be checked. */
mr_status *mr_grig_run(mr_grig *r, const mr_out *fetches, int n, mr_tensor **out);
mr_status *mr_grig_target(mr_grig *r, mr_node *n);
static inline mr_out mr_grig_num(mr_grig *r, double v) { return mr_fb_num(&r->b, MR_DOUBLE, v); }
static inline mr_out mr_grig_i32(mr_grig *r, int v) { return mr_fb_num(&r->b, MR_INT32, v); }

#endif
