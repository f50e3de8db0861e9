/* passes/passes.h -- graph in, graph out: from the graph a client built to what each device runs.
 *
 * For one signature (feeds, fetches, targets) the session copies the needed part of its graph and sends
 * it through: prune -> place -> fold -> cse -> partition.  Every pass works in place on a graph it owns and can be
 * left out; prune, fold and cse leave the results the same to the bit. */
#ifndef MR_PASSES_PASSES_H
#define MR_PASSES_PASSES_H

#include "graph/graph.h"
#include "run/device.h"

typedef struct mr_signature {
    const mr_out *feeds, *fetches;
    mr_node *const *targets;
    int n_feeds, n_fetches, n_targets;
} mr_signature;

/* Copies what is needed.  Fed outputs become _Arg nodes (attr index = position among the feeds), fetched
 * ones _Retval nodes; with `rendezvous` set they become _Recv and _Send on the client device instead (partial
 * runs, remote sessions).  Errors of runtime.md §1.3.  Nodes keep their names, so that state is found. */
mr_status *mr_prune(const mr_graph *g, const mr_signature *sig, const char *rendezvous_device,
                    uint64_t incarnation, mr_graph **out);

/* Chooses a device for every node (sets node->placed): requested devices, colocation, kernels;
 * runtime.md §6. */
typedef struct mr_place_options {
    mr_device *const *devices;
    int n_devices;
    bool soft;
} mr_place_options;
mr_status *mr_place(mr_graph *g, const mr_place_options *o);

/* Replaces what depends on constants only by its value (runtime.md §9).  max_bytes 0: 10 MiB. */
mr_status *mr_fold(mr_graph *g, int64_t max_bytes);
/* Merges nodes that compute the same (runtime.md §9). */
mr_status *mr_cse(mr_graph *g);

/* Cuts a placed graph into one graph a device, joined by _Send and _Recv (runtime.md §4 loops over several
 * devices, §7).  out[i] belongs to devices[i] and may be NULL when nothing runs there. */
mr_status *mr_partition(mr_graph *g, mr_device *const *devices, int n_devices, mr_graph **out);

/* The frame every node of a graph runs in: result[id] is an index into the list of frames; 0 is the root.
 * INVALID_ARGUMENT "... has inputs from different frames ...". */
typedef struct mr_frame_info {
    const char *name; /* frame_name attr; NULL for the root */
    int parent;       /* index of the enclosing frame */
    int parallel_iterations;
    int n_enters;
    const mr_node *loop_cond; /* NULL when there is none */
} mr_frame_info;
typedef struct mr_frames {
    int n;
    mr_frame_info *info;
    int *of_node; /* by node id; -1: not reached */
} mr_frames;
mr_status *mr_frames_find(const mr_graph *g, mr_frames *out);
void mr_frames_deinit(mr_frames *f);

#endif
