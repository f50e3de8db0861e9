/* run/result.h -- whether what a function returned is what was promised. */
#ifndef MR_RUN_RESULT_H
#define MR_RUN_RESULT_H

#include "run/run.h"

/* What a function returns has the type and shape that its body says, which need not be those that were promised for
 * output i of the run: INVALID_ARGUMENT then. */
mr_status *mr_run_check_result(const mr_run *r, int i, const mr_tensor *t);

#endif
