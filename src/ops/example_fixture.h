/* ops/example_fixture.h -- one example of an op, built and run in one type.  For tests only. */
#ifndef MR_OPS_EXAMPLE_FIXTURE_H
#define MR_OPS_EXAMPLE_FIXTURE_H

#include "graph/scope.h"
#include "ops/example.h"
#include "run/device.h"

/* The nodes that represent the inputs while the graph is built; shape inference sees them. */
typedef enum mr_trial_mode {
    MR_TRIAL_CONST,   /* constants: values are known */
    MR_TRIAL_SHAPED,  /* placeholders of known shape */
    MR_TRIAL_UNKNOWN, /* placeholders of unknown shape */
} mr_trial_mode;

typedef struct mr_trial_input {
    mr_out out;   /* node NULL: a node is created for t */
    mr_tensor *t; /* owned */
} mr_trial_input;
typedef MR_VEC(mr_trial_input) mr_trial_inputs;

typedef struct mr_trial_step {
    mr_node *node; /* NULL until built */
    int n_in, n_out;
    mr_tensor **in, **out; /* owned */
    const mr_example_value *back; /* names the later step that provides the last input; NULL: none */
} mr_trial_step;

/* For fuzzing: the hooks may change the inputs and attrs of a step before its node is built. mr_trial.subject
 * selects the step. */
typedef struct mr_trial_hooks {
    /* Changes the values for one argument, from `start` on: other values, or more or fewer of them in a list. t is
     * NULL where a node provides the value (mr_trial.whole). */
    void (*inputs)(void *ctx, const mr_arg_def *arg, mr_trial_inputs *in, int start);
    /* Overrides attrs, or sets more of them. */
    void (*attrs)(void *ctx, const mr_op_def *d, mr_node_builder *b);
    /* The shape of the Placeholder for t; NULL: t becomes a constant. */
    const mr_pshape *(*placeholder)(void *ctx, const mr_tensor *t);
    /* Runs the last node; step->out has room for its outputs. */
    mr_status *(*run)(void *ctx, mr_trial_step *step);
    void *ctx;
} mr_trial_hooks;

typedef struct mr_trial {
    const mr_op_def *def;
    const mr_example *example;
    mr_dtype key; /* value of the op's key attr; MR_INVALID: it has none */
    mr_trial_mode mode;
    bool skipped; /* a literal cannot be of this type */
    /* The steps are only built; hooks->run gets the last one and runs the whole graph. A step without a name runs
     * before the next step. An input may name a later step: the back edge of a loop. */
    bool whole;
    const mr_op_def *subject; /* the hooks change the steps of this op; NULL: the last step */
    mr_graph *graph;
    mr_scope scope;
    mr_device *device;
    mr_arena arena;
    mr_trial_step *steps; /* example->n_steps */
    const mr_trial_hooks *hooks; /* NULL: the example is not changed */
    /* Overrides the example: values of type attrs of its last step, ended by a row without a name; every entry of a
     * list(type) gets that value. Literals that cannot have the forced type are replaced by similar ones that can,
     * so only the fact that the example runs is meaningful. */
    const mr_named_attr *forced;
} mr_trial;

void mr_trial_init(mr_trial *t, const mr_op_def *def, const mr_example *e, mr_dtype key,
                   mr_trial_mode mode);
void mr_trial_deinit(mr_trial *t);
/* Builds and runs all steps and compares the results, including the shapes that were inferred before the run; the
 * status describes the difference. */
mr_status *mr_trial_run(mr_trial *t);
/* Builds and runs all steps without comparing the results. */
mr_status *mr_trial_steps(mr_trial *t);
static inline mr_trial_step *mr_trial_last(mr_trial *t)
{
    return &t->steps[t->example->n_steps - 1];
}

/* The types in which an op's examples must run: those of its kernels; n is 0 when the op has no key attr. */
int mr_trial_types(const mr_op_def *def, mr_dtype *out, int max);

/* The reason why an op cannot be run alone and so has no examples; NULL: it can. */
const char *mr_trial_excuse(const char *op);

#endif
