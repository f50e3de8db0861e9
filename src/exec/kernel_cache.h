/* exec/kernel_cache.h -- the kernels that a session keeps.
 *
 * A stateful node (a queue, a random generator) has one kernel per session, whichever plans it appears in:
 * the state of that kernel is the node's state. It is found by the node's name. All other kernels are made
 * for one plan and are freed with it. */
#ifndef MR_EXEC_KERNEL_CACHE_H
#define MR_EXEC_KERNEL_CACHE_H

#include "run/run.h"

typedef struct mr_kernel_cache mr_kernel_cache;
mr_kernel_cache *mr_kernel_cache_new(void);
/* Drops all kernels; those that plans still use live on with them. */
void mr_kernel_cache_clear(mr_kernel_cache *c);
void mr_kernel_cache_free(mr_kernel_cache *c); /* NULL is fine */
/* The kernel of a node, made if there is none yet; the caller owns a reference. c may be NULL. */
mr_status *mr_kernel_cache_get(mr_kernel_cache *c, const mr_make *m, mr_instance **out);

#endif
