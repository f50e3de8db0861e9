/* ops/queue/named.h -- what a kernel that makes a shared object keeps: its name and its handle.
 *
 * An object lives in its device's resources under a container and a name: the attr shared_name, or
 * a name of its own, and then it goes with the kernel.  Ops have two forms that differ only in the
 * handle: a resource, or (the older form) a reference to two strings, container and name. */
#ifndef MR_OPS_QUEUE_NAMED_H
#define MR_OPS_QUEUE_NAMED_H

#include "run/run.h"

typedef struct mr_named {
    mr_device *device;
    const mr_object_type *type;
    char *container, *name;
    bool is_private;
    mr_tensor *handle; /* a resource; else NULL */
    mr_variable *ref;  /* two strings; else NULL */
} mr_named;

/* Reads the attrs container and shared_name; the form is that of the node's output. */
mr_status *mr_named_init(mr_named *n, const mr_make *m, const mr_object_type *type);
/* Without a shared_name: the object is shared all the same, under this name. */
mr_status *mr_named_share(mr_named *n, const char *name);
void mr_named_deinit(mr_named *n); /* of zeros too */
/* The object, which make(ctx, ..) makes when it is missing; the caller owns it. */
mr_status *mr_named_open(mr_named *n, mr_status *(*make)(void *ctx, mr_object **out), void *ctx,
                         mr_object **out);
/* Output 0 is the handle. */
void mr_named_give(const mr_named *n, mr_run *r);
/* The object behind input 0, a handle of either form; the caller owns it. */
mr_status *mr_named_find(mr_run *r, const mr_object_type *type, mr_object **out);

#endif
