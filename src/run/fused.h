/* run/fused.h -- several nodes run as one: what the passes that make such a node (passes/fuse_elementwise.c,
 * passes/fuse_updates.c) and the kernels that run it (ops/fused/elementwise.c, ops/optim/fused_update.c) agree on.
 *
 * The node _FusedElementwise has its members in attr `body`, a GraphDef: a node _Arg for each input, named "_0", "_1" and
 * so on, and the members with their names and attrs, producers first. Attr `outputs` says for each output which member
 * yields it, counted from 0. Attr `_members` lists "name:Op" of each member, for people.
 *
 * The node _FusedUpdate has such a body of nodes that update variables and have outputs that nobody reads. The arguments
 * for references, which come first, are VariableV2 nodes. */
#ifndef MR_RUN_FUSED_H
#define MR_RUN_FUSED_H

#include "run/run.h"

#define MR_FUSED_ELEMENTWISE "_FusedElementwise"
#define MR_FUSED_MEMBERS "_members"

#define MR_FUSED_UPDATE "_FusedUpdate"
enum { MR_FUSED_UPDATE_MAX_INPUTS = 16 }; /* of one member */

enum { MR_FUSED_MAX_INPUTS = 64, MR_FUSED_MAX_MEMBERS = 64 };

/* The form of a node's CPU kernel if the node may be a member: it has one output, all types are plain, and no input is a
 * reference. MR_FORM_NONE otherwise. The kernel of such a node neither waits nor has side effects, and its output is
 * dead only if one of its inputs is. */
mr_each_form mr_fused_form(const mr_node *n);

#endif
