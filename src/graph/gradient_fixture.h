/* graph/gradient_fixture.h -- checks gradients against finite differences, without kernels. */
#ifndef MR_GRAPH_GRADIENT_FIXTURE_H
#define MR_GRAPH_GRADIENT_FIXTURE_H

#include "graph/flow_builder_fixture.h"
#include "graph/interpreter_fixture.h"
#include "tests/harness/test.h"

typedef struct mr_gtrial {
    mr_graph *g;
    mr_fb b;
    mr_out x[4]; /* placeholders */
    int n_x;
    mr_mini_feed feed[4];
    int program; /* number of it, for messages */
} mr_gtrial;

void mr_gtrial_init(mr_gtrial *t, int n_x); /* scalars 0.3, 0.7, ... of type double */
void mr_gtrial_vector(mr_gtrial *t, int i, int n, bool known); /* x[i] is a vector instead */
void mr_gtrial_deinit(mr_gtrial *t);
/* All gradients of y agree with finite differences, in several orders of running. */
void mr_gtrial_check(mr_gtrial *t, mr_out y);

static inline mr_out mr_gtrial_num(mr_gtrial *t, double v)
{
    return mr_fb_num(&t->b, MR_DOUBLE, v);
}
static inline mr_out mr_gtrial_i32(mr_gtrial *t, int v) { return mr_fb_num(&t->b, MR_INT32, v); }
static inline mr_out mr_gtrial_ints(mr_gtrial *t, int n, const int32_t *v)
{
    return mr_fb_const(&t->b, mr_tensor_vector_i32(n, v));
}

#endif
