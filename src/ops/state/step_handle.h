/* ops/state/step_handle.h -- handles of what lives for one step: stacks and tensor arrays.
 *
 * Three forms, by the age of the op: a resource, a vector of two strings (container and name), or a reference to such a
 * vector.  Which one it is the node's own types say. */
#ifndef MR_OPS_STATE_STEP_HANDLE_H
#define MR_OPS_STATE_STEP_HANDLE_H

#include "run/run.h"

/* Output 0 is a handle of the object of this name in the step's resources. */
mr_status *mr_step_handle_give(mr_run *r, const mr_object_type *type, const char *name);
/* The object that input 0 is a handle of; the caller owns it. */
mr_status *mr_step_handle_find(mr_run *r, const mr_object_type *type, mr_object **out);

#endif
