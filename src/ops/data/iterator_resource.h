/* ops/data/iterator_resource.h -- an iterator as ops see it: a resource that is given a dataset to iterate over,
 * and gives its elements. */
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
extern const mr_object_type mr_iterator_place_type; /* the result of SerializeIterator */

mr_iterator_resource *mr_iterator_resource_new(const mr_dataset_state *s);
/* Checks that its declared elements agree with these; n 0 agrees with all. */
mr_status *mr_iterator_resource_check(const mr_iterator_resource *i, int n, const int *types,
                                      const mr_pshape *const *shapes);
/* Starts at the beginning of d; a previous iteration is closed. only_if_new: keeps the previous one. */
mr_status *mr_iterator_resource_set(mr_iterator_resource *i, mr_dataset *d, mr_later *l, bool only_if_new);
/* Replaces the turn; takes ownership of t. */
void mr_iterator_resource_put(mr_iterator_resource *i, mr_turn *t);
/* The turn, with a reference. FAILED_PRECONDITION when there is none. */
mr_status *mr_iterator_resource_turn(mr_iterator_resource *i, mr_turn **out);
/* Sets the outputs of the run to the tensors of an element, or returns OUT_OF_RANGE. */
mr_status *mr_give_element(mr_run *r, const mr_dataset *d, mr_tensor *const *element);

/* A handle to a new object without a name, which the device keeps until it is deleted; takes a reference to o. */
mr_status *mr_nameless_handle(mr_run *r, mr_object *o, mr_tensor **out);
/* A variant whose last copy deletes the object that a handle refers to. */
mr_status *mr_deleter_tensor(mr_run *r, const mr_tensor *handle, mr_tensor **out);
/* Converts a handle to a string and back. */
mr_status *mr_handle_to_string(mr_run *r, const mr_object_type *type);
mr_status *mr_handle_from_string(mr_run *r, const mr_object_type *type, mr_object **out);
/* Kernel of the ops that delete: the handle is input 0. */
mr_status *mr_delete_handle(mr_run *r);

#endif
