/* passes/readiness.h -- which nodes become ready, or dead, for the same reasons.
 *
 * The gates of a node are what decides when it runs and whether it is dead: the sides of Switches, the Merges, and the
 * nodes that may wait (a Dequeue, a Recv, a call of a function) through which its inputs and control inputs come. Other
 * nodes pass on readiness and deadness at once. Two nodes with the same gates are dead together, and one of them can wait
 * for nothing that the other does not wait for, so one node can do the work of both. */
#ifndef MR_PASSES_READINESS_H
#define MR_PASSES_READINESS_H

#include "passes/passes.h"

typedef struct mr_gate_set {
    int n; /* -1: a set that equals no other */
    const int *gates;
} mr_gate_set;

typedef struct mr_readiness {
    int *gates; /* by node id: the number of its set of gates; 0 is the empty set */
    mr_arena arena;
    mr_gate_set *sets; /* by number */
    int n_sets;
} mr_readiness;

/* order: all nodes of the graph, producers first. RESOURCE_EXHAUSTED. */
mr_status *mr_readiness_find(const mr_graph *g, mr_node *const *order, int n, mr_readiness *out);
void mr_readiness_deinit(mr_readiness *r);
/* True if all gates of the set `part` are in the set `whole`: a node with the second one may also do the work of one with the
 * first. */
bool mr_readiness_includes(const mr_readiness *r, int whole, int part);

#endif
