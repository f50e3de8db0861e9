/* exec/functional_rig_test.h -- a session over a graph with one float placeholder x, and functions of floats.
 *
 *     frig b;
 *     frig_init(&b);
 *     mr_out a = frig_begin(&b, 1);
 *     frig_end(&b, "Twice", mr_emit(&b.f, "AddV2", a, a));
 *     ... frig_value(&b, 3, y)
 */
#ifndef MR_EXEC_FUNCTIONAL_RIG_TEST_H
#define MR_EXEC_FUNCTIONAL_RIG_TEST_H

#include "exec/session.h"
#include "graph/grad.h"
#include "graph/library.h"
#include "graph/scope.h"
#include "tests/harness/test.h"

typedef struct frig {
    mr_graph *g;
    mr_scope s;
    mr_session *session;
    mr_session_config config;
    mr_out x;
    int64_t timeout_ms;
    /* the function that is being written */
    mr_graph *fg;
    mr_scope f;
    mr_out args[8];
    int n_args;
} frig;

void frig_init(frig *b);
void frig_deinit(frig *b);
/* Runs once with x, of a scalar float. */
mr_status *frig_run(frig *b, float x, mr_out y, float *out);
float frig_value(frig *b, float x, mr_out y);

/* A function of n floats (or of these types); the first argument. */
mr_out frig_begin(frig *b, int n);
mr_out frig_begin_types(frig *b, int n, const int *types);
void frig_end(frig *b, const char *name, mr_out result);
void frig_end2(frig *b, const char *name, mr_out first, mr_out second);
void frig_end_n(frig *b, const char *name, const mr_out *results, int n);

mr_out frig_if(mr_scope *s, const char *op, mr_out cond, const char *yes, const char *no, mr_out x);
mr_out frig_while(mr_scope *s, const char *op, const char *cond, const char *body, mr_out x, mr_out y);
mr_out frig_while1(mr_scope *s, const char *op, const char *cond, const char *body, mr_out x);
mr_out frig_while_n(mr_scope *s, const char *op, const char *cond, const char *body, const mr_out *in, int n);
mr_out frig_call(mr_scope *s, const char *f, mr_out x);
/* The gradient of y with respect to x. */
mr_out frig_gradient(frig *b, mr_out y);

#endif
