/* graph/scope.h -- a short way to write graphs in C.
 *
 * A scope adds nodes under a name prefix, on a device, after some control inputs.  It keeps its
 * first error: calls after that return MR_NO_OUT and add nothing; ask mr_scope_status once at the
 * end.
 *
 *     mr_out y = mr_emit(s, "MatMul", x, w);
 *     mr_out z = mr_emit_with(s, "Sum", MR_ATTRS({"keep_dims", mr_a_bool(true)}), y, axes);
 */
#ifndef MR_GRAPH_SCOPE_H
#define MR_GRAPH_SCOPE_H

#include "graph/graph.h"

typedef struct mr_scope {
    mr_graph *graph;
    mr_status *st;              /* first error; owned */
    const char *prefix;         /* "" or "a/b" (no trailing slash), in the graph's arena */
    const char *device;         /* "" for none */
    const char *name;           /* for the next node only; NULL: the op's name */
    const mr_node *colocate;    /* new nodes are colocated with it; NULL: none */
    MR_VEC(mr_node *) controls; /* control inputs of every new node */
} mr_scope;

/* The prefix is made unique if it is used. */
void mr_scope_init(mr_scope *s, mr_graph *g, const char *prefix);
void mr_scope_deinit(mr_scope *s);
/* Returns the first error, which the caller then owns, or NULL. */
mr_status *mr_scope_status(mr_scope *s);
void mr_scope_fail(mr_scope *s, mr_status *st); /* keeps the first */
static inline bool mr_scope_ok(const mr_scope *s) { return s->st == NULL; }
/* Names the next node: mr_emit(mr_as(s, "loss"), ...). */
mr_scope *mr_as(mr_scope *s, const char *name);

/* A list argument ("values: N * T") takes consecutive outs; its length comes from the op definition
 * when it can be told (one list argument), else use mr_emit_lists. */
mr_out mr_emit_n(mr_scope *s, const char *op, const mr_named_attr *attrs, int n_attrs,
                 const mr_out *in, int n_in);
typedef struct mr_emit_arg {
    int n; /* -1: a single input */
    const mr_out *in;
} mr_emit_arg;
mr_out mr_emit_lists(mr_scope *s, const char *op, const mr_named_attr *attrs, int n_attrs,
                     const mr_emit_arg *args, int n_args);

#define MR_ATTRS(...) \
    ((const mr_named_attr[]){__VA_ARGS__}), MR_COUNT(((const mr_named_attr[]){__VA_ARGS__}))
#define MR_OUTS(...) ((const mr_out[]){__VA_ARGS__}), MR_COUNT(((const mr_out[]){__VA_ARGS__}))
#define mr_emit(s, op, ...) mr_emit_n(s, op, NULL, 0, MR_OUTS(__VA_ARGS__))
#define mr_emit0(s, op) mr_emit_n(s, op, NULL, 0, NULL, 0)
/* attrs is MR_ATTRS({"name", value}, ...) */
#define mr_emit_with(s, op, attrs, ...) mr_emit_n(s, op, attrs, MR_OUTS(__VA_ARGS__))
#define mr_emit0_with(s, op, attrs) mr_emit_n(s, op, attrs, NULL, 0)
static inline mr_out mr_nth(mr_out o, int i) { return o.node ? (mr_out){o.node, i} : o; }

/* Constants. */
mr_out mr_const(mr_scope *s, mr_tensor *t); /* takes the reference */
mr_out mr_const_f32(mr_scope *s, float v);
mr_out mr_const_i32(mr_scope *s, int32_t v);
mr_out mr_const_i64(mr_scope *s, int64_t v);
mr_out mr_const_vec_i32(mr_scope *s, int n, const int32_t *v);
mr_out mr_const_str(mr_scope *s, const char *v);
/* A scalar of any numeric type. */
mr_out mr_const_num(mr_scope *s, mr_dtype t, double v);
/* The shape may be NULL. */
mr_out mr_placeholder(mr_scope *s, mr_dtype t, const char *name, const mr_pshape *shape);

#endif
