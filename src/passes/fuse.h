/* passes/fuse.h -- what the passes share that replace several nodes by one.
 *
 * A fusing pass runs on a placed graph before it is cut. It may use that
 * - feeds and fetches are nodes (_Arg and _Retval, _Recv and _Send): a fetched output has one more consumer;
 * - nodes joined by a data edge are in the same loop frame unless one of them is Enter or Exit;
 * - an output without consumers need not exist.
 *
 * A fused node must be dead exactly when each node it replaces would be, and wait for nothing that one of them would
 * not wait for. If all consumers of a node's outputs are replaced with it, both hold for that node whatever its inputs
 * are. */
#ifndef MR_PASSES_FUSE_H
#define MR_PASSES_FUSE_H

#include "passes/passes.h"

/* A list of "name:Op" of the nodes that a fused node replaces, for traces. */
#define MR_FUSED_MEMBERS "_members"

/* True if the node is placed on a CPU that computes itself: kernels read and write host memory there, and no device
 * type stands between the executor and the kernel. */
bool mr_fuse_on_cpu(const mr_prepare_options *o, const mr_node *n);
/* True if both nodes are placed on the same device. */
static inline bool mr_fuse_same_device(const mr_node *a, const mr_node *b)
{
    return a->placed == b->placed || (a->placed && b->placed && strcmp(a->placed, b->placed) == 0);
}
/* The node that alone reads the outputs of n, once, with no control edge from n; NULL: there is none. */
mr_node *mr_fuse_sole_consumer(const mr_node *n);

/* Nodes that wait for `from` wait for `to` instead. */
void mr_fuse_move_controls(mr_node *from, mr_node *to);

/* ---- making a fused node ---- */
/* The GraphDef of members, producers first. Each of the inputs is an argument before them, named "_0", "_1" and so on: an
 * _Arg, or a VariableV2 for a reference. Notes about placement are left out. */
mr_status *mr_fuse_write_body(const mr_graph *g, const mr_out *in, int n_in, mr_node *const *members, int n, mr_str *out);
/* "name:Op", for MR_FUSED_MEMBERS; it lives as long as the graph. */
mr_sv mr_fuse_label(mr_graph *g, const mr_node *n);
/* Removes the nodes that others replace. instead[id], for ids below n_ids: the node that replaces it, or NULL. All readers of
 * data have been redirected; nodes that wait for a removed node are redirected here. New nodes (with higher ids) get the names
 * that their tags are. */
mr_status *mr_fuse_finish(mr_graph *g, mr_node *const *instead, int n_ids);

/* ---- the passes ---- */
/* Products of matrices read and write through Transposes (passes/fuse_transpose.c). */
mr_status *mr_fuse_transpose(mr_graph *g, const mr_prepare_options *o);
/* GELU and swish as people write them, and their gradients (passes/fuse_gelu.c). */
mr_status *mr_fuse_gelu(mr_graph *g, const mr_prepare_options *o);
/* Convolutions and products of matrices take over what follows them (passes/fuse_conv.c). */
mr_status *mr_fuse_conv(mr_graph *g, const mr_prepare_options *o);
/* Chains of nodes that treat each element alike (passes/fuse_elementwise.c). */
mr_status *mr_fuse_elementwise(mr_graph *g, const mr_prepare_options *o);
/* Updates of small variables (passes/fuse_updates.c). */
mr_status *mr_fuse_updates(mr_graph *g, const mr_prepare_options *o);

#endif
