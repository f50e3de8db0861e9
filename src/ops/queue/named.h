/* ops/queue/named.h -- the state of a kernel that creates a shared object: its name and its handle.
 *
 * An object is in its device's resources under a container and a name.  The name is the attr
 * shared_name, or a private one; then the object is removed with the kernel.  Ops have two forms that
 * differ only in the handle: a resource, or (the older form) a reference to two strings, container and
 * name. */
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

/* Reads the attrs container and shared_name; the node's output determines the form. */
mr_status *mr_named_init(mr_named *n, const mr_make *m, const mr_object_type *type);
/* If there is no shared_name, the object is shared under this name instead. */
mr_status *mr_named_share(mr_named *n, const char *name);
void mr_named_deinit(mr_named *n); /* all zeros is fine */
/* Finds the object, or creates it with make(ctx, ..); the caller owns *out. */
mr_status *mr_named_open(mr_named *n, mr_status *(*make)(void *ctx, mr_object **out), void *ctx,
                         mr_object **out);
/* Sets output 0 to the handle. */
void mr_named_give(const mr_named *n, mr_run *r);
/* Finds the object of input 0, a handle of either form; the caller owns *out. */
mr_status *mr_named_find(mr_run *r, const mr_object_type *type, mr_object **out);

#endif
