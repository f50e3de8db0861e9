/* graph/control_flow.h -- loops and conditionals, as found in the graph itself.
 *
 * A graph says nothing of "while" and "cond": there are only Enter, Exit, Switch, Merge and kin. An
 * mr_cflow finds out what they mean together, for any graph, built or imported:
 *
 *  - the frame a node runs in (Enter leads into a child frame, Exit out of it), and for each frame
 * its loop variables, its condition, its ways in and out;
 *  - the guard of a node: which sides of which Switches must have been taken for it to be live.
 * Guards are interned, so equal ones are the same pointer.
 *
 * Two values of one frame with the same guard are live in the same iterations: what gradients of
 * loops rest on when they pair pushes with pops. */
#ifndef MR_GRAPH_CONTROL_FLOW_H
#define MR_GRAPH_CONTROL_FLOW_H

#include "graph/graph.h"

typedef struct mr_loop_var {
    mr_node *merge, *enter,
        *next; /* Merge(Enter, NextIteration); next may be NULL in a broken graph */
} mr_loop_var;

typedef struct mr_loop_frame mr_loop_frame;
struct mr_loop_frame {
    mr_loop_frame *parent; /* NULL for the root frame */
    int id, depth;
    const char *name;
    int64_t parallel_iterations; /* of the first Enter */
    mr_node *cond;               /* LoopCond; NULL when there is none */
    uint8_t mark;                /* free for walks over frames */
    MR_VEC(mr_node *) enters, exits;
    MR_VEC(mr_loop_var) vars;
};

/* One taken side: output `side` of the Switches on this selector (pred, or index of a _SwitchN).
 * An index of -1 stands for "that Merge is live", where nothing better is known. */
typedef struct mr_side {
    int node, index; /* the selector: node id and output, Identities skipped */
    int side, n_sides;
} mr_side;

typedef struct mr_guard {
    int n;           /* -1: too many sides to follow */
    mr_side sides[]; /* sorted */
} mr_guard;

typedef struct mr_cflow {
    mr_graph *graph;
    mr_arena arena;
    bool any; /* there is control flow at all; if not, everything is in the root frame, unguarded */
    MR_VEC(mr_loop_frame *) frames;     /* [0] is the root */
    mr_imap places; /* node id -> struct place, of the nodes that were visited or told of */
    int n_old;      /* nodes when it was made; later ones are told of by mr_cflow_set */
    bool visiting;
    mr_status *st; /* the first error of a visit */
    mr_map by_name; /* "parent id/frame name" -> frame */
    mr_map guards;  /* their bytes -> mr_guard */
    const mr_guard *always, *too_deep;
} mr_cflow;

/* Costs nothing by itself: a node is looked at, with all it depends on, when it is first asked about.  A frame knows those
 * of its loop variables, ways in and ways out that were looked at. */
void mr_cflow_init(mr_cflow *f, mr_graph *g);
void mr_cflow_deinit(mr_cflow *f);
/* Looks at a node and all it depends on.  INVALID_ARGUMENT for a cycle without a NextIteration and for loops that are nested
 * too deep; functions that look at a node by themselves keep the first such error for this call to return. */
mr_status *mr_cflow_visit(mr_cflow *f, mr_node *n);

static inline mr_loop_frame *mr_cflow_root(const mr_cflow *f) { return f->frames.p[0]; }
/* Where a node runs.  Enter and Exit both belong to the inner frame. */
mr_loop_frame *mr_cflow_frame(const mr_cflow *f, const mr_node *n);
/* Where a value is: that of an Exit is in the outer frame. */
mr_loop_frame *mr_cflow_value_frame(const mr_cflow *f, mr_out o);
/* When a node runs, and when an output is live. */
const mr_guard *mr_cflow_guard(const mr_cflow *f, const mr_node *n);
const mr_guard *mr_cflow_value_guard(mr_cflow *f, mr_out o);
/* Tells of a node added after mr_cflow_init. */
void mr_cflow_set(mr_cflow *f, const mr_node *n, mr_loop_frame *frame, const mr_guard *guard);

/* The same value without the Identities in front of it. */
mr_out mr_cflow_origin(mr_out o);
const mr_guard *mr_guard_union(mr_cflow *f, const mr_guard *a, const mr_guard *b);
const mr_guard *mr_guard_add(mr_cflow *f, const mr_guard *g, mr_side s);
const mr_guard *mr_guard_remove(mr_cflow *f, const mr_guard *g, mr_side s);
/* The sides whose selector lives in that frame, the frame's own condition left out. */
const mr_guard *mr_guard_within(mr_cflow *f, const mr_guard *g, const mr_loop_frame *frame);
/* What is left of a guard outside of a frame it came from. */
const mr_guard *mr_guard_outside(mr_cflow *f, const mr_guard *g, const mr_loop_frame *frame);
/* The side a Switch's output stands for. */
mr_side mr_cflow_switch_side(mr_out o);
/* true when the Merge joins all the sides of one selector: input i is side sides[i] of *sel. */
bool mr_cflow_merge_selector(mr_cflow *f, const mr_node *merge, mr_out *sel, int *sides);
/* The NextIteration a loop's Merge takes, or NULL: then it ends a conditional. */
mr_node *mr_cflow_back_edge(const mr_node *merge);
/* true for the Switch that splits a loop's values into "go on" and "done". */
bool mr_cflow_is_loop_switch(const mr_cflow *f, const mr_node *n);

#endif
