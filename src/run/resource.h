/* run/resource.h -- objects that outlive a step: variables, queues, tables, by container and name.
 *
 * Every device has one manager. A resource is an mr_object (reference-counted). The name of its type is part of its
 * key, so a queue and a variable may have the same name. Per-step objects (stacks, tensor arrays) are in a separate
 * manager that is freed with the step (mr_step.resources). */
#ifndef MR_RUN_RESOURCE_H
#define MR_RUN_RESOURCE_H

#include "tensor/tensor.h"

typedef struct mr_resources mr_resources;

mr_resources *mr_resources_new(const char *default_container); /* "localhost" */
void mr_resources_free(mr_resources *m);                       /* NULL is fine */
const char *mr_resources_default(const mr_resources *m);

/* container "" is the default one.  The caller owns *out.  NOT_FOUND "Resource
 * <container>/<name>/<type> does not exist." */
mr_status *mr_resources_lookup(mr_resources *m, mr_sv container, mr_sv name,
                               const mr_object_type *type, mr_object **out);
/* Takes a reference.  ALREADY_EXISTS "Resource <container>/<name>/<type> already exists." */
mr_status *mr_resources_create(mr_resources *m, mr_sv container, mr_sv name, mr_object *o);
/* Looks the object up. If it does not exist, calls make(ctx, &o) under the manager's lock; make must not call the
 * manager. */
mr_status *mr_resources_find_or_make(mr_resources *m, mr_sv container, mr_sv name,
                                     const mr_object_type *type,
                                     mr_status *(*make)(void *ctx, mr_object **out), void *ctx,
                                     mr_object **out);
/* What a kernel found when it last looked for a name, kept in its state; zero at first. The manager's lock guards it. */
typedef struct mr_resource_memo {
    const mr_resources *manager;
    mr_object *object; /* the manager's reference */
    uint64_t n_removals;
} mr_resource_memo;
/* The same for a kernel that always looks for the same name: it does not search again if nothing has been removed. */
mr_status *mr_resources_find_or_make_again(mr_resources *m, mr_sv container, mr_sv name, const mr_object_type *type,
                                           mr_status *(*make)(void *ctx, mr_object **out), void *ctx,
                                           mr_resource_memo *memo, mr_object **out);
mr_status *mr_resources_remove(mr_resources *m, mr_sv container, mr_sv name,
                               const mr_object_type *type);
/* Removes the object that a handle names, of any type (DestroyResourceOp). */
mr_status *mr_resources_remove_handle(mr_resources *m, const mr_handle *h);
void mr_resources_clear(mr_resources *m,
                        mr_sv container); /* TF_Reset; "" is the default container */

/* A private name for a resource without shared_name: "_<process counter>_<node name>"; mr_free. */
char *mr_resource_private_name(const char *node_name);
/* Checks the attrs container and shared_name by TensorFlow's rules. */
mr_status *mr_resource_check_names(mr_sv container, mr_sv shared_name);

#endif
