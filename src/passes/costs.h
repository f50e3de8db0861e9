/* passes/costs.h -- the time of nodes on devices: measured if possible, estimated otherwise.
 *
 * The first estimate comes from the op, its shapes (passes/effort.h) and the device's speed. Measured steps give the
 * real time of a node on a device, as a mean that follows changes. Estimates are scaled by what was measured: by how
 * far the estimates of that device are off on average, and by what the node took on other devices. A device without
 * measurements is assumed to have its nominal speed, so that placement tries it.
 *
 * Not thread-safe: the caller locks. */
#ifndef MR_PASSES_COSTS_H
#define MR_PASSES_COSTS_H

#include "graph/graph.h"
#include "run/device.h"

typedef struct mr_costs mr_costs;
mr_costs *mr_costs_new(void);
void mr_costs_free(mr_costs *c); /* NULL is fine */

/* Adds a measured run of a node on a device (full name). */
void mr_costs_add(mr_costs *c, const char *device, mr_sv node, double seconds);
/* Records the size of an output; the last size counts. */
void mr_costs_add_bytes(mr_costs *c, mr_sv node, int output, int64_t bytes);

/* Fills seconds[node * n_devices + device] for all nodes and devices; c may be NULL: nothing was measured. */
void mr_costs_fill(const mr_costs *c, mr_node *const *nodes, int n_nodes, mr_device *const *devices, int n_devices, double *seconds);
/* The measured or estimated size of a tensor; c may be NULL. */
int64_t mr_costs_bytes(const mr_costs *c, mr_out o);
/* How often the node was measured on the device. */
int64_t mr_costs_runs(const mr_costs *c, mr_sv node, const char *device);

/* A text file with one line per device and node, and one per size. Loading adds to the existing costs; INVALID_ARGUMENT
 * names the line. */
mr_status *mr_costs_save(const mr_costs *c, const char *path);
mr_status *mr_costs_load(mr_costs *c, const char *path);
mr_status *mr_costs_parse(mr_costs *c, mr_sv text, const char *name);

#endif
