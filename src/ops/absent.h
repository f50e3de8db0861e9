/* ops/absent.h -- ops that are known by their definition alone. */
#ifndef MR_OPS_ABSENT_H
#define MR_OPS_ABSENT_H

#include "run/run.h"

/* Its one kernel gives UNIMPLEMENTED. */
bool mr_op_absent(const mr_op_def *d);

#endif
