/* graph/grad.h -- automatic differentiation.
 *
 * mr_graph_gradients walks back from ys to xs and adds the nodes that compute d(sum of ys)/dxs. For each node between
 * them, it calls the op's .grad with an mr_grad: it reads the node's inputs (x), outputs (y) and the gradients that
 * arrived at the outputs (dy), emits nodes, and sets the gradients of its inputs (dx); inputs it does not set get no
 * gradient. Conditionals and loops are derived from the graph itself, so imported graphs can be differentiated, too. */
#ifndef MR_GRAPH_GRAD_H
#define MR_GRAPH_GRAD_H

#include "graph/scope.h"

/* A gradient: nothing, a dense tensor, or rows of one (IndexedSlices). */
typedef struct mr_gradient {
    mr_out dense; /* node NULL: not dense */
    mr_out values; /* node NULL: not sparse */
    mr_out indices, dense_shape; /* dense_shape: int32 vector */
} mr_gradient;
#define MR_NO_GRAD ((mr_gradient){MR_NO_OUT, MR_NO_OUT, MR_NO_OUT, MR_NO_OUT})

struct mr_grad {
    mr_scope *s;         /* mr_emit(g->s, ...) */
    const mr_node *node; /* the forward node */
    /* the rest belongs to gradients.c */
    mr_gradient *dy, *dx;
    int n_in; /* the number of inputs when the walk reached the node: a While may get more */
    struct mr_backward *walk;
};

/* By argument name (its first element if it is a list), or by flat index. Inside a loop the gradient runs after the
 * forward loop has ended; the walk arranges for the values of the right iteration after .grad returns, so .grad may use
 * forward values freely. */
mr_out mr_x(mr_grad *g, const char *arg);
mr_out mr_y(mr_grad *g, const char *arg);
mr_out mr_dy(mr_grad *g, const char *arg);
mr_out mr_xi(mr_grad *g, int i);
mr_out mr_yi(mr_grad *g, int i);
mr_out mr_dyi(mr_grad *g, int i); /* dense; zeros if no gradient arrived */
bool mr_has_dy(mr_grad *g, int i);
const mr_gradient *mr_dy_any(mr_grad *g, int i);   /* dense or sparse, as it arrived */
void mr_dx(mr_grad *g, const char *arg, mr_out v); /* v.node may be NULL: no gradient */
void mr_dxi(mr_grad *g, int i, mr_out v);
void mr_dxi_sparse(mr_grad *g, int i, mr_out values, mr_out indices, mr_out dense_shape);
/* Whether the gradient of input i is needed: otherwise a costly one need not be emitted. */
bool mr_needs_dx(mr_grad *g, int i);
/* A name that is unique to this call of mr_graph_gradients (TensorArrayGradV3's source). */
const char *mr_grad_source(mr_grad *g);
void mr_grad_fail(mr_grad *g, mr_code code, const char *fmt, ...) MR_PRINTF(3, 4);

/* Helpers for the gradients of ops. */
/* Emits `op` with the named attrs (space-separated) copied from the forward node. */
mr_out mr_emit_like(mr_grad *g, const char *op, const char *attr_names, const mr_out *in, int n_in);
/* Sets the gradients of inputs 0 and 1 of a binary op from gradients computed as if nothing had been broadcast: sums
 * over the axes along which an input was broadcast. Either may be MR_NO_OUT. */
void mr_dx_broadcast(mr_grad *g, mr_out dx, mr_out dy);
mr_out mr_zeros_like(mr_grad *g, mr_out v);
mr_out mr_ones_like(mr_grad *g, mr_out v);
mr_out mr_scalar_like(mr_grad *g, double value, mr_out v); /* constant of v's type */
mr_out mr_shape_of(mr_grad *g, mr_out v);                  /* int32 vector, constant when known */
/* conj(v) for complex types, v otherwise. */
mr_out mr_conj(mr_grad *g, mr_out v);

/* Standard gradients for .grad of an op. */
void mr_grad_identity(mr_grad *g); /* input i gets the gradient of output i */
void mr_grad_zero(mr_grad *g);     /* differentiable, but the gradient is zero: none flows */

typedef struct mr_gradient_options {
    const char *prefix;         /* of new nodes; NULL: "gradients", made unique */
    const mr_gradient *grad_ys; /* n_y incoming gradients, or NULL: ones */
    int n_stop;
    const mr_out *stop; /* gradients do not flow past these */
    bool colocate;      /* new nodes with their forward op */
    bool sparse;        /* results may be sparse; otherwise all are made dense */
    bool tf_semantics;  /* TF_AddGradients: an x that cannot reach any y is an error */
    /* Called before an op's own gradient; returns true if it handled the node. */
    bool (*override)(void *ctx, mr_grad *g);
    void *ctx;
    int *n_looked_at; /* if not NULL, set to the number of nodes visited, or of edges if it is larger, for tests of the cost */
} mr_gradient_options;

/* Registers the gradient of an op that has none, in all graphs; fn NULL: no gradient flows through it. Nodes that fn
 * emits stay in the graph even if they are not needed. ALREADY_EXISTS. Thread-safe. */
typedef void mr_gradient_fn(void *ctx, mr_grad *g);
mr_status *mr_gradient_register(const char *op, mr_gradient_fn *fn, void *ctx);

/* out[i] is the gradient of xs[i]; MR_NO_GRAD where none arrives. */
mr_status *mr_graph_gradients(mr_graph *g, const mr_out *ys, int n_y, const mr_out *xs, int n_x,
                              const mr_gradient_options *options, mr_gradient *out);
struct mr_body;
/* The body of SymbolicGradient: it takes the arguments of f and the gradients of its results and returns the gradients
 * of the arguments, zeros where none flows. args[i] is NULL for a gradient that is not used. */
mr_status *mr_function_gradient(const struct mr_library *l, const mr_function *f,
                                const mr_named_attr *attrs, int n_attrs, struct mr_body *out);
/* A sparse gradient made dense. */
mr_out mr_gradient_dense(mr_scope *s, const mr_gradient *g);

#endif
