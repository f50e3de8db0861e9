/* ops/data/iterator_resource.h -- an iterator as ops know it: a resource that gets a dataset to go
 * over, and gives its elements. */
#ifndef MR_OPS_DATA_ITERATOR_RESOURCE_H
#define MR_OPS_DATA_ITERATOR_RESOURCE_H

#include "ops/data/turn.h"

typedef struct mr_iterator_resource {
    mr_object base;
    mr_arena arena;
    int n; /* 0: any elements */
    const int *types;
    const mr_pshape *const *shapes;
    mr_mutex mu;
    mr_turn *turn MR_GUARDED_BY(mu); /* NULL: no dataset yet */
} mr_iterator_resource;
extern const mr_object_type mr_iterator_resource_type;
extern const mr_object_type mr_iterator_place_type; /* what SerializeIterator gives */

mr_iterator_resource *mr_iterator_resource_new(const mr_dataset_state *s);
/* What it says of its elements agrees with that; n 0 agrees with all. */
mr_status *mr_iterator_resource_check(const mr_iterator_resource *i, int n, const int *types,
                                      const mr_pshape *const *shapes);
/* Goes over d from its beginning; what it went over before is closed.  only_if_new: keeps that. */
mr_status *mr_iterator_resource_set(mr_iterator_resource *i, mr_dataset *d, mr_later *l, bool only_if_new);
/* Replaces the turn, which is taken over. */
void mr_iterator_resource_put(mr_iterator_resource *i, mr_turn *t);
/* The turn, referenced.  FAILED_PRECONDITION when there is none. */
mr_status *mr_iterator_resource_turn(mr_iterator_resource *i, mr_turn **out);
/* Outputs of the run from the tensors of an element, or OUT_OF_RANGE. */
mr_status *mr_give_element(mr_run *r, const mr_dataset *d, mr_tensor *const *element);

/* A handle to a new object without a name, which is the device's until it is deleted; o is referenced. */
mr_status *mr_nameless_handle(mr_run *r, mr_object *o, mr_tensor **out);
/* A variant that deletes what a handle leads to with its last copy. */
mr_status *mr_deleter_tensor(mr_run *r, const mr_tensor *handle, mr_tensor **out);
/* A handle as a string and back. */
mr_status *mr_handle_to_string(mr_run *r, const mr_object_type *type);
mr_status *mr_handle_from_string(mr_run *r, const mr_object_type *type, mr_object **out);
/* Kernel of the ops that delete: the handle is input 0. */
mr_status *mr_delete_handle(mr_run *r);

#endif
