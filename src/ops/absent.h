/* ops/absent.h -- ops that are known by their definition alone. */
#ifndef MR_OPS_ABSENT_H
#define MR_OPS_ABSENT_H

#include "run/run.h"

/* Its one kernel gives UNIMPLEMENTED. */
bool mr_op_absent(const mr_op_def *d);

/* The priority of a kernel that only says what is missing: any kernel that a client registers for the op is better. */
enum { MR_STAND_IN = INT32_MIN };

#endif
