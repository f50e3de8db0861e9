/* exec/gradient_fixture.h -- gradients run by a session and compared with finite differences. */
#ifndef MR_EXEC_GRADIENT_FIXTURE_H
#define MR_EXEC_GRADIENT_FIXTURE_H

#include "exec/session.h"
#include "graph/flow_builder_fixture.h"
#include "graph/grad.h"
#include "tests/harness/test.h"

enum { MR_GRADIENT_FIXTURE_INPUTS = 4 };

typedef struct mr_gradient_fixture {
    mr_graph *g;
    mr_fb b;
    mr_session *session; /* made by the first check */
    mr_session_config config;
    mr_out x[MR_GRADIENT_FIXTURE_INPUTS]; /* placeholders of type double */
    mr_tensor *feed[MR_GRADIENT_FIXTURE_INPUTS];
    int n_x, program;
} mr_gradient_fixture;

void mr_gradient_fixture_init(mr_gradient_fixture *r);
void mr_gradient_fixture_deinit(mr_gradient_fixture *r);
/* Another input of this shape, with numbers around 0.5; known: so is its shape beforehand. */
mr_out mr_gradient_fixture_input(mr_gradient_fixture *r, int rank, const int64_t *dims, bool known);
/* The gradients of the sum of y agree with finite differences. */
void mr_gradient_fixture_check(mr_gradient_fixture *r, mr_out y);
/* Runs with the inputs fed; for what is not a gradient to be checked. */
mr_status *mr_gradient_fixture_run(mr_gradient_fixture *r, const mr_out *fetches, int n, mr_tensor **out);
mr_status *mr_gradient_fixture_target(mr_gradient_fixture *r, mr_node *n);
static inline mr_out mr_gradient_fixture_num(mr_gradient_fixture *r, double v)
{
    return mr_fb_num(&r->b, MR_DOUBLE, v);
}
static inline mr_out mr_gradient_fixture_i32(mr_gradient_fixture *r, int v) { return mr_fb_num(&r->b, MR_INT32, v); }

#endif
