/* graph/control_flow.h -- loops and conditionals, as found in the graph itself.
 *
 * A graph does not contain "while" and "cond", only Enter, Exit, Switch, Merge and related ops. An mr_cflow derives
 * their meaning, for any graph, built or imported:
 *
 *  - the frame a node runs in (Enter leads into a child frame, Exit out of it), and for each frame its loop
 *    variables, its condition, its Enters and Exits;
 *  - the guard of a node: which sides of which Switches must have been taken for it to be live. Guards are
 *    interned, so equal ones are the same pointer.
 *
 * Two values of one frame with the same guard are live in the same iterations; gradients of loops rely on that when
 * they pair pushes with pops. */
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

/* One taken side: output `side` of the Switches on this selector (pred, or index of a _SwitchN). An index of -1 means
 * "that Merge is live", if nothing better is known. */
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
    bool any; /* there is any control flow; if not, everything is in the root frame, unguarded */
    MR_VEC(mr_loop_frame *) frames;     /* [0] is the root */
    mr_imap places; /* node id -> struct place, of nodes that were visited or set */
    int n_old;      /* number of nodes when it was created; later ones are added by mr_cflow_set */
    bool visiting;
    mr_status *st; /* the first error of a visit */
    mr_map by_name; /* "parent id/frame name" -> frame */
    mr_map guards;  /* their bytes -> mr_guard */
    const mr_guard *always, *too_deep;
} mr_cflow;

/* Cheap: a node is visited, with everything it depends on, at the first query about it. A frame only knows loop
 * variables, Enters and Exits that were visited. */
void mr_cflow_init(mr_cflow *f, mr_graph *g);
void mr_cflow_deinit(mr_cflow *f);
/* Visits a node and everything it depends on. INVALID_ARGUMENT for a cycle without a NextIteration and for loops that
 * are nested too deeply; functions that visit nodes implicitly keep the first such error for this call. */
mr_status *mr_cflow_visit(mr_cflow *f, mr_node *n);

static inline mr_loop_frame *mr_cflow_root(const mr_cflow *f) { return f->frames.p[0]; }
/* The frame of a node. Enter and Exit both belong to the inner frame. */
mr_loop_frame *mr_cflow_frame(const mr_cflow *f, const mr_node *n);
/* The frame of a value: that of an Exit is in the outer frame. */
mr_loop_frame *mr_cflow_value_frame(const mr_cflow *f, mr_out o);
/* The guard of a node, and of an output. */
const mr_guard *mr_cflow_guard(const mr_cflow *f, const mr_node *n);
const mr_guard *mr_cflow_value_guard(mr_cflow *f, mr_out o);
/* Adds a node that was created after mr_cflow_init. */
void mr_cflow_set(mr_cflow *f, const mr_node *n, mr_loop_frame *frame, const mr_guard *guard);

/* The same value without the Identities in front of it. */
mr_out mr_cflow_origin(mr_out o);
const mr_guard *mr_guard_union(mr_cflow *f, const mr_guard *a, const mr_guard *b);
const mr_guard *mr_guard_add(mr_cflow *f, const mr_guard *g, mr_side s);
const mr_guard *mr_guard_remove(mr_cflow *f, const mr_guard *g, mr_side s);
/* The sides whose selector is in that frame, without the frame's own condition. */
const mr_guard *mr_guard_within(mr_cflow *f, const mr_guard *g, const mr_loop_frame *frame);
/* The part of a guard that still holds outside of a frame. */
const mr_guard *mr_guard_outside(mr_cflow *f, const mr_guard *g, const mr_loop_frame *frame);
/* The side that an output of a Switch represents. */
mr_side mr_cflow_switch_side(mr_out o);
/* Whether the Merge joins all sides of one selector: input i is side sides[i] of *sel. */
bool mr_cflow_merge_selector(mr_cflow *f, const mr_node *merge, mr_out *sel, int *sides);
/* The NextIteration that feeds a loop's Merge, or NULL: then the Merge ends a conditional. */
mr_node *mr_cflow_back_edge(const mr_node *merge);
/* Whether this is the Switch that splits a loop's values into "continue" and "done". */
bool mr_cflow_is_loop_switch(const mr_cflow *f, const mr_node *n);

#endif
