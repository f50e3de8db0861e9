/* run/variable.h -- the state behind Variable, VariableV2 and VarHandleOp.
 *
 * A variable is a mutex and a tensor (NULL while uninitialised). Ref edges carry the variable itself. A reader takes a
 * reference to the tensor. A writer that finds the buffer shared copies it first, so a value that was read never
 * changes, and a checkpoint shows one instant. (In TensorFlow, a reader of a ref variable may see a later update, or
 * half of it. Here, a node that the graph orders after an update does see it: passes/ref_reads.c inserts a separate
 * read for it.) */
#ifndef MR_RUN_VARIABLE_H
#define MR_RUN_VARIABLE_H

#include "base/thread.h"
#include "tensor/tensor.h"

typedef struct mr_variable {
    mr_object base; /* type mr_variable_type */
    mr_mutex mu;
    mr_tensor *t MR_GUARDED_BY(mu); /* NULL: uninitialised */
    mr_dtype dtype;
    bool is_ref;        /* of the ref kind (Variable, VariableV2) */
    bool copy_on_read MR_GUARDED_BY(mu); /* after a sparse update of a resource variable */
    const char *name;   /* owned */
    mr_pshape *shape;   /* declared shape of a ref variable; owned; NULL: unknown */
} mr_variable;

extern const mr_object_type mr_variable_type; /* "tensorflow::Var"; legacy ref variables use the
                                                 same object under mr_ref_variable_type */
extern const mr_object_type mr_ref_variable_type;

mr_variable *mr_variable_new(bool is_ref, mr_dtype dtype, const char *name);
void mr_variable_declare(mr_variable *v, const mr_pshape *shape); /* copied */
static inline mr_variable *mr_variable_ref(mr_variable *v)
{
    return (mr_variable *)mr_object_ref(&v->base);
}
static inline void mr_variable_unref(mr_variable *v) { mr_object_unref(v ? &v->base : NULL); }

/* A reference to the current value (NULL when uninitialised); a copy in copy-on-read mode. */
mr_status *mr_variable_read(mr_variable *v, mr_allocator *a, mr_tensor **out);
/* A tensor of v that may be written in place: v->t itself if it is not shared, else a new copy that replaces it. Needs
 * v->mu. */
mr_status *mr_variable_writable(mr_variable *v, mr_allocator *a, mr_tensor **out)
    MR_REQUIRES(v->mu);
/* Locks several variables in address order (duplicates once); unlock likewise. */
void mr_variables_lock(mr_variable **v, int n) MR_NO_TSA;
void mr_variables_unlock(mr_variable **v, int n) MR_NO_TSA;

#endif
