/* run/variable.c -- the state behind Variable, VariableV2 and VarHandleOp.
 *
 * Copy on write: a reader takes a reference to the tensor, and a writer that finds the tensor shared replaces
 * it by a copy first. So a value that was read never changes. */
#include "run/variable.h"

#include "base/memory.h"

/* The last reference: nobody holds the lock or reads the tensor. */
static void variable_free(mr_object *o)
{
    mr_variable *v = (mr_variable *)o;
    mr_tensor_unref(v->t);
    mr_mutex_deinit(&v->mu);
    mr_free((char *)(uintptr_t)v->name);
    mr_free(v->shape);
    mr_free(v);
}

const mr_object_type mr_variable_type = {"tensorflow::Var", variable_free};
const mr_object_type mr_ref_variable_type = {"tensorflow::LegacyVar", variable_free};

/* Uninitialised. The type of the object decides whether a handle or a reference finds it. */
mr_variable *mr_variable_new(bool is_ref, mr_dtype dtype, const char *name)
{
    mr_variable *v = mr_new(mr_variable);
    mr_object_init(&v->base, is_ref ? &mr_ref_variable_type : &mr_variable_type);
    mr_mutex_init(&v->mu);
    v->dtype = dtype;
    v->is_ref = is_ref;
    v->name = mr_strdup(name);
    return v;
}

/* For a new variable, before other threads see it. */
void mr_variable_declare(mr_variable *v, const mr_pshape *shape)
{
    size_t bytes = sizeof *shape + sizeof shape->dims[0] * (size_t)MR_MAX(shape->rank, 0);
    mr_free(v->shape);
    v->shape = mr_alloc(bytes);
    memcpy(v->shape, shape, bytes);
}

/* In copy_on_read mode the reader gets a copy, so that later sparse updates can be made in place. */
mr_status *mr_variable_read(mr_variable *v, mr_allocator *a, mr_tensor **out)
{
    *out = NULL;
    mr_lock(&v->mu);
    mr_status *st = NULL;
    if (v->t && v->copy_on_read)
        st = mr_tensor_copy(a, v->t, out);
    else
        *out = mr_tensor_ref(v->t);
    mr_unlock(&v->mu);
    return st;
}

/* Dropping the shared tensor under the lock frees nothing: somebody else holds it. */
mr_status *mr_variable_writable(mr_variable *v, mr_allocator *a, mr_tensor **out)
{
    *out = v->t;
    if (!v->t || mr_tensor_sole(v->t))
        return NULL;
    mr_tensor *fresh;
    MR_TRY(mr_tensor_copy(a, v->t, &fresh));
    mr_tensor_unref(v->t);
    *out = v->t = fresh;
    MR_ASSERT(mr_tensor_sole(fresh));
    return NULL;
}

/* The variable after `last` in address order, NULL at the end. An op names a handful of variables, so a
 * search is faster than sorting, and the caller's array keeps its order. */
static mr_variable *next_by_address(mr_variable **v, int n, const mr_variable *last)
{
    mr_variable *best = NULL;
    for (int i = 0; i < n; i++)
        if ((uintptr_t)v[i] > (uintptr_t)last && (!best || (uintptr_t)v[i] < (uintptr_t)best))
            best = v[i];
    return best;
}

/* One order for all ops, so two ops that lock the same variables cannot wait for each other. A variable that
 * occurs twice is locked once. */
void mr_variables_lock(mr_variable **v, int n)
{
    for (mr_variable *x = NULL; (x = next_by_address(v, n, x));)
        mr_lock(&x->mu);
}

void mr_variables_unlock(mr_variable **v, int n)
{
    for (mr_variable *x = NULL; (x = next_by_address(v, n, x));)
        mr_unlock(&x->mu);
}
