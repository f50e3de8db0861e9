/* ops/queue/calls_fixture.h -- calls ops that wait, one by one.  For tests only.
 *
 * Each call is a separate step, with its own cancellation under that of a session, and reports when it
 * has ended.  Nothing here sleeps: a waiting call has ended when the call that released it returned. */
#ifndef MR_OPS_QUEUE_CALLS_FIXTURE_H
#define MR_OPS_QUEUE_CALLS_FIXTURE_H

#include "graph/scope.h"
#include "run/run.h"
#include "tests/harness/test.h"

typedef struct mr_calls { /* state that the ops of a test share */
    mr_graph *graph;
    mr_scope scope;
    mr_device *device;
    mr_cancel *session;
} mr_calls;

void mr_calls_init(mr_calls *c);
void mr_calls_deinit(mr_calls *c);

typedef struct mr_callee { /* an op, ready to be called */
    mr_node *node;
    mr_instance *kernel;
} mr_callee;

/* Input 0 is `handle`, the output of the op that creates the object (none if it has no node); then inputs of
 * these types. */
mr_callee mr_callee_make(mr_calls *c, const char *op, const mr_named_attr *attrs, int n_attrs,
                         mr_out handle, int n_types, const mr_dtype *types);
void mr_callee_deinit(mr_callee *k);
#define MR_TYPES(...) \
    MR_COUNT(((const mr_dtype[]){__VA_ARGS__})), ((const mr_dtype[]){__VA_ARGS__})

typedef struct mr_call {
    mr_run run;
    mr_step step;
    mr_mutex mu;
    mr_cond changed;
    bool ended MR_GUARDED_BY(mu);
    mr_status *st MR_GUARDED_BY(mu);
    mr_value in[8], out[8];
} mr_call;

/* Creates a call that has not begun yet.  Takes over the references of its inputs, the handle first. */
mr_call *mr_call_new(mr_calls *c, const mr_callee *k, int n_in, const mr_value *in);
void mr_call_begin(mr_call *c);
void mr_call_cancel(mr_call *c);
bool mr_call_ended(mr_call *c);
/* Waits for the call, frees it and returns its status.  The caller owns out[i], output i (out may be NULL). */
mr_status *mr_call_end(mr_call *c, mr_tensor **out);

static inline mr_value mr_live(mr_tensor *t) { return (mr_value){.t = t, .kind = MR_LIVE}; }
#define MR_VALUES(...) \
    MR_COUNT(((const mr_value[]){__VA_ARGS__})), ((const mr_value[]){__VA_ARGS__})

/* Checks that st has exactly this code and text. */
void mr_check_error(const char *file, int line, mr_status *st, mr_code code, const char *text);
#define MR_CHECK_TEXT(call, code, text) mr_check_error(__FILE__, __LINE__, call, code, text)

#endif
