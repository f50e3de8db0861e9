/* run/fused.h -- nodes that treat each element alike, run as one: what the pass that makes such a node
 * (passes/fuse_elementwise.c) and the kernel that runs it (ops/fused/elementwise.c) agree on.
 *
 * The node _FusedElementwise has its members in attr `body`, a GraphDef: a node _Arg for each input, named "_0", "_1" and
 * so on, and the members with their names and attrs, producers first. Attr `outputs` says for each output which member
 * yields it, counted from 0. Attr `_members` lists "name:Op" of each member, for people. */
#ifndef MR_RUN_FUSED_H
#define MR_RUN_FUSED_H

#include "run/run.h"

#define MR_FUSED_ELEMENTWISE "_FusedElementwise"
#define MR_FUSED_MEMBERS "_members"

enum { MR_FUSED_MAX_INPUTS = 64, MR_FUSED_MAX_MEMBERS = 64 };

/* The form of a node's CPU kernel if the node may be a member: it has one output, all types are plain, and no input is a
 * reference. MR_FORM_NONE otherwise. The kernel of such a node neither waits nor has side effects, and its output is
 * dead only if one of its inputs is. */
mr_each_form mr_fused_form(const mr_node *n);

#endif
