/* graph/backward.h -- one backward walk through a graph; shared by the files that build gradients.
 *
 * Gradients are built at levels. The base level is the frame of the ys; each forward loop on the way gets a separate
 * level, which is a new loop that runs backwards. Nodes emitted at a level belong to that loop; mr_backward_real makes
 * forward values available there.
 *
 * The construction relies on two invariants:
 *   1. a gradient is live exactly when the forward value it belongs to was live (in that iteration);
 *   2. existing nodes are never changed, only used: a client's graph only grows. (The exception is a functional
 *      While, which gets additional variables at the end.)
 *
 * Errors are kept in the scope (mr_scope_fail); after one, calls do nothing. */
#ifndef MR_GRAPH_BACKWARD_H
#define MR_GRAPH_BACKWARD_H

#include "graph/control_flow.h"
#include "graph/grad.h"

typedef struct mr_level mr_level;
struct mr_level {
    mr_level *outer; /* NULL: the base level */
    mr_loop_frame *frame; /* the forward frame that is differentiated here */
    mr_imap sums;    /* forward output -> struct sum: gradients that arrived (gradients.c) */
    mr_imap real;    /* forward output -> its value at this level */
    mr_node *pivot;  /* a node of this level that runs in every iteration; NULL in the root frame */
    /* below: of loops only (gradient_loops.c) */
    const char *name;       /* frame name of the backward loop */
    mr_node *gate;          /* in the forward parent frame: live when the forward loop runs */
    mr_node *tick, *pushed; /* forward: counts an iteration; waits for its pushes */
    mr_out count;           /* forward: iterations made, outside of the loop */
    mr_out start;           /* the same at the outer level: live when the backward loop runs */
    mr_node *cond;          /* backward: LoopCond */
    mr_node *popped;        /* backward: waits for the pops of an iteration */
    mr_imap sides;  /* selector of a conditional -> nodes that are live if a side was taken */
    mr_imap shapes; /* forward output -> forward Shape node */
};

typedef struct mr_backward {
    mr_graph *graph;
    mr_scope s;
    mr_cflow flow;
    mr_arena arena;
    const mr_gradient_options *opt;
    const char *prefix;
    int n_old;     /* number of nodes before the walk */
    int n_edges;   /* edges looked at while marking */
    mr_imap marks; /* id of an old node -> flags: reachable from xs, leads to ys; state of the ordering */
    mr_imap xs, stops;
    mr_level *base, *level; /* level: where nodes are emitted now */
    MR_VEC(mr_level *) levels;
    MR_VEC(mr_level *)
    node_level; /* by id - n_old; NULL: not assigned yet; &forward: placed in a forward frame */
    mr_level forward;
    MR_VEC(mr_node *) merges; /* of the new loops: their second inputs are set when the loop is complete */
} mr_backward;

static inline uint64_t mr_out_key(mr_out o)
{
    return (uint64_t)(uint32_t)o.node->id << 32 | (uint32_t)o.index;
}
static inline bool mr_is_sparse(const mr_gradient *g) { return g->values.node != NULL; }
static inline bool mr_is_grad(const mr_gradient *g) { return g->dense.node || g->values.node; }
static inline mr_gradient mr_dense_grad(mr_out o)
{
    return (mr_gradient){o, MR_NO_OUT, MR_NO_OUT, MR_NO_OUT};
}

/* ---- gradient_sum.c ---- */
mr_level *mr_backward_level(mr_backward *w, mr_level *outer, mr_loop_frame *frame);
void mr_backward_free_levels(mr_backward *w);
/* Adds a gradient of a forward output at a level; ignored if nobody needs it. */
void mr_backward_add(mr_backward *w, mr_level *l, mr_out o, mr_gradient g);
/* The sum of the gradients that arrived; false if there are none. */
bool mr_backward_total(mr_backward *w, mr_level *l, mr_out o, mr_gradient *out);
/* As dense, or MR_NO_OUT. */
mr_out mr_backward_dense(mr_backward *w, const mr_gradient *g);
/* ---- gradients.c ---- */
/* Walks back through the nodes of a level, starting where gradients have arrived. */
void mr_backward_walk(mr_backward *w, mr_level *l);
/* Gradients flow along edges of this type. */
bool mr_backward_carries(const mr_backward *w, int type);
/* A gradient may flow through this node from a y to an x. */
bool mr_backward_between(const mr_backward *w, const mr_node *n);

/* ---- gradient_level.c: values and nodes at the right level ---- */
/* The value of a forward output at a level. */
mr_out mr_backward_real(mr_backward *w, mr_level *l, mr_out v);
/* The value entered its loop from outside and never changes there. */
bool mr_backward_is_invariant(const mr_backward *w, mr_out v);
/* Nodes emitted since `start` are moved to the current level: forward inputs are replaced by their values at that
 * level, and nodes without inputs run only if `anchor` is live (MR_NO_OUT: always). made[id - start] tells which of
 * them belong to this walk; NULL: all. */
void mr_backward_settle(mr_backward *w, int start, const bool *made, mr_out anchor);
/* The int32 shape, and zeros, of a forward value at a level; live if the value was live. */
mr_out mr_backward_shape(mr_backward *w, mr_level *l, mr_out v);
mr_out mr_backward_zeros(mr_backward *w, mr_level *l, mr_out v, mr_dtype type);
/* Whether nodes without inputs must be tied to an anchor at this level. */
bool mr_backward_needs_anchor(mr_backward *w, const mr_level *l, const mr_guard *guard);
/* Records that a node built by hand belongs to a level, */
void mr_backward_claim(mr_backward *w, mr_level *l, const mr_node *n);
bool mr_backward_is_claimed(const mr_backward *w, const mr_node *n);
/* or to a forward frame. */
void mr_backward_claim_forward(mr_backward *w, const mr_node *n, mr_loop_frame *frame,
                               const mr_guard *guard);

/* Builds a node that mr_emit cannot: with controls, back edges or internal ops. */
typedef struct mr_spec {
    const char *op;
    mr_out in[3];           /* up to the first without a node */
    mr_named_attr attrs[4]; /* up to the first without a name */
    mr_node *after;         /* a control input, or NULL */
    const mr_node *colocate;
    int later; /* of a Merge: type of a second input that is set later; 0: none */
} mr_spec;
mr_node *mr_backward_node(mr_backward *w, mr_spec spec); /* NULL after an error */

/* ---- gradient_stack.c: forward values of a loop, kept for its backward loop ---- */
mr_out mr_backward_stash(mr_backward *w, mr_level *l, mr_out v);
/* A node that runs once per iteration together with y; if y is in the loop's body, not in the last iteration. */
mr_node *mr_backward_body_pivot(mr_backward *w, mr_level *l, mr_out y);
/* Makes a node of a level depend on the sides of conditionals that a guard names. */
void mr_backward_tie(mr_backward *w, mr_level *l, const mr_guard *guard, mr_node *n);

/* ---- gradient_loops.c, gradient_cond.c, gradient_call.c ---- */
void mr_backward_loop(mr_backward *w, mr_loop_frame *frame); /* from its Exits to its Enters */
/* After an error: turns incomplete new loops into valid nodes, which nobody runs. */
void mr_backward_close_loops(mr_backward *w);
/* Brings a value of the outer level into a level's loop. */
mr_out mr_backward_enter(mr_backward *w, mr_level *l, mr_out v, bool constant);
/* Extends a gradient of v that is live under `guard` so that it is live whenever v is. */
mr_gradient mr_backward_lift(mr_backward *w, mr_level *l, mr_gradient g, const mr_guard *guard,
                             mr_out v);
void mr_backward_switch(mr_grad *g);
void mr_backward_merge(mr_grad *g);
bool mr_backward_is_call(const mr_node *n); /* calls functions that can be differentiated */
void mr_backward_call(mr_grad *g);
bool mr_backward_is_while(const mr_node *n);
void mr_backward_while(mr_grad *g); /* gradient_while.c */

#endif
