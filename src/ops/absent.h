/* ops/absent.h -- ops of which only the definition exists. */
#ifndef MR_OPS_ABSENT_H
#define MR_OPS_ABSENT_H

#include "run/run.h"

/* True if the op's only kernel is the one that returns UNIMPLEMENTED. */
bool mr_op_absent(const mr_op_def *d);

/* The priority of a kernel that only reports that the op is missing. A kernel that a client registers for the op
 * always wins over it. */
enum { MR_STAND_IN = INT32_MIN };

#endif
