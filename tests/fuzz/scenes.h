/* tests/fuzz/scenes.h -- small graphs around ops that cannot be run alone.
 *
 * An op that uses an array of its step, a frame of the executor or a function of a library has no examples; a scene is
 * an example with the context it needs, run as a whole by a session. An op that has neither gets a scene guessed from
 * its definition, so that every registered op is run. */
#ifndef MR_TESTS_FUZZ_SCENES_H
#define MR_TESTS_FUZZ_SCENES_H

#include "base/str.h"
#include "graph/graph.h"

typedef struct fuzz_scene {
    const char *op;   /* which it is for */
    const char *last; /* the op of the last step, which has no name there; NULL: op */
    const char *text; /* an example (ops/example.h) that may name later steps too */
} fuzz_scene;

/* The scenes of an op, in *out; returns their number. */
int fuzz_scenes_of(const char *op, const fuzz_scene **out, int max);
/* Inputs of the declared types and attrs of the declared kinds; unknown sizes are mostly 1. */
void fuzz_scene_guess(const mr_op_def *d, mr_str *out);

/* Functions for attrs of such a kind; all have an attr T, the type of their arguments. */
void fuzz_add_functions(mr_graph *g);
/* The name of a function with that many arguments, or with the arguments that a dataset provides. */
const char *fuzz_function_for(const mr_op_def *op, const mr_attr_def *attr, int n_args);

#endif
