/* run/result.h -- checks the results of a function against the declared outputs of the calling node. */
#ifndef MR_RUN_RESULT_H
#define MR_RUN_RESULT_H

#include "run/run.h"

/* The body of a function decides the type of its results, which may differ from the declared type of output i of the
 * run: INTERNAL then, as in TensorFlow. Shapes are not checked: the attrs output_shapes and _output_shapes are only
 * hints for building the graph, and SavedModels with wrong ones are in use. */
mr_status *mr_run_check_result(const mr_run *r, int i, const mr_tensor *t);

#endif
