/* run/result.h -- whether what a function returned is what was promised. */
#ifndef MR_RUN_RESULT_H
#define MR_RUN_RESULT_H

#include "run/run.h"

/* What a function returns has the type that its body says, which need not be the type that was declared for output i of
 * the run: INTERNAL then, as in TensorFlow.  Shapes are not checked: what a node says of them (output_shapes,
 * _output_shapes) are hints for building the graph, and SavedModels with wrong ones are in use. */
mr_status *mr_run_check_result(const mr_run *r, int i, const mr_tensor *t);

#endif
