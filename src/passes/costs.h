/* passes/costs.h -- what nodes take on devices: measured where it was, estimated elsewhere.
 *
 * The first estimate comes from op and shapes (passes/effort.h) and the device's speed.  Steps that were measured tell
 * what a node really took on a device; the mean follows changes.  What was not measured is scaled by what was: by how far
 * the estimates of that device are off as a whole, and by what the node took elsewhere.  A device on which nothing was
 * measured is believed to be what it promises, so that it is tried.
 *
 * Not locked. */
#ifndef MR_PASSES_COSTS_H
#define MR_PASSES_COSTS_H

#include "graph/graph.h"
#include "run/device.h"

typedef struct mr_costs mr_costs;
mr_costs *mr_costs_new(void);
void mr_costs_free(mr_costs *c); /* NULL is fine */

/* A node ran on a device (its full name) for so long. */
void mr_costs_add(mr_costs *c, const char *device, mr_sv node, double seconds);
/* An output of a node was so large. */
void mr_costs_add_bytes(mr_costs *c, mr_sv node, int output, int64_t bytes);

/* seconds[node * n_devices + device] for all; c may be NULL: nothing was measured. */
void mr_costs_fill(const mr_costs *c, mr_node *const *nodes, int n_nodes, mr_device *const *devices, int n_devices, double *seconds);
/* Of a tensor. */
int64_t mr_costs_bytes(const mr_costs *c, mr_out o);
/* How often the node was measured there. */
int64_t mr_costs_runs(const mr_costs *c, mr_sv node, const char *device);

/* A text file: one line a device and node.  Loading adds to what is there; INVALID_ARGUMENT names the line. */
mr_status *mr_costs_save(const mr_costs *c, const char *path);
mr_status *mr_costs_load(mr_costs *c, const char *path);
mr_status *mr_costs_parse(mr_costs *c, mr_sv text, const char *name);

#endif
