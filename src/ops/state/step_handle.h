/* ops/state/step_handle.h -- handles of objects that exist for one step: stacks and tensor arrays.
 *
 * There are three forms, by the age of the op: a resource, a vector of two strings (container and name), or a reference
 * to such a vector.  The types of the node determine the form. */
#ifndef MR_OPS_STATE_STEP_HANDLE_H
#define MR_OPS_STATE_STEP_HANDLE_H

#include "run/run.h"

/* Sets output 0 to a handle of the object with this name in the step's resources. */
mr_status *mr_step_handle_give(mr_run *r, const mr_object_type *type, const char *name);
/* Finds the object of the handle in input 0; the caller owns *out. */
mr_status *mr_step_handle_find(mr_run *r, const mr_object_type *type, mr_object **out);

#endif
