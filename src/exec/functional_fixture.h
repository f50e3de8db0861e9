/* exec/functional_fixture.h -- a session over a graph with one float placeholder x, and functions of floats.
 *
 *     function_fixture b;
 *     function_fixture_init(&b);
 *     mr_out a = function_fixture_begin(&b, 1);
 *     function_fixture_end(&b, "Twice", mr_emit(&b.f, "AddV2", a, a));
 *     ... function_fixture_value(&b, 3, y)
 */
#ifndef MR_EXEC_FUNCTIONAL_FIXTURE_H
#define MR_EXEC_FUNCTIONAL_FIXTURE_H

#include "exec/session.h"
#include "graph/grad.h"
#include "graph/library.h"
#include "graph/scope.h"
#include "tests/harness/test.h"

typedef struct function_fixture {
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
} function_fixture;

void function_fixture_init(function_fixture *b);
void function_fixture_deinit(function_fixture *b);
/* Runs once with x, of a scalar float. */
mr_status *function_fixture_run(function_fixture *b, float x, mr_out y, float *out);
float function_fixture_value(function_fixture *b, float x, mr_out y);

/* A function of n floats (or of these types); the first argument. */
mr_out function_fixture_begin(function_fixture *b, int n);
mr_out function_fixture_begin_types(function_fixture *b, int n, const int *types);
void function_fixture_end(function_fixture *b, const char *name, mr_out result);
void function_fixture_end2(function_fixture *b, const char *name, mr_out first, mr_out second);
void function_fixture_end_n(function_fixture *b, const char *name, const mr_out *results, int n);

mr_out function_fixture_if(mr_scope *s, const char *op, mr_out cond, const char *yes, const char *no, mr_out x);
mr_out function_fixture_while(mr_scope *s, const char *op, const char *cond, const char *body, mr_out x, mr_out y);
mr_out function_fixture_while1(mr_scope *s, const char *op, const char *cond, const char *body, mr_out x);
mr_out function_fixture_while_n(mr_scope *s, const char *op, const char *cond, const char *body, const mr_out *in,
                                int n);
mr_out function_fixture_call(mr_scope *s, const char *f, mr_out x);
/* The gradient of y with respect to x. */
mr_out function_fixture_gradient(function_fixture *b, mr_out y);

#endif
