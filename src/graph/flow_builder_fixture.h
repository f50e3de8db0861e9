/* graph/flow_builder_fixture.h -- writes conditionals and loops as TensorFlow's Python does.  For
 * tests.
 *
 *     mr_fb_while(&b, init, 2, 10, v);                   v: the loop variables, before the
 * condition mr_fb_while_body(&b, mr_fb2(&b, "Less", v[0], n), v);  v: now those of the body next[0]
 * = mr_fb2(&b, "Add", v[0], one); mr_fb_while_end(&b, next, out);
 *
 * Any value made before may be used: it is brought in by a Switch or a constant Enter, a reference
 * by their Ref forms. */
#ifndef MR_GRAPH_FLOW_BUILDER_FIXTURE_H
#define MR_GRAPH_FLOW_BUILDER_FIXTURE_H

#include "graph/scope.h"

typedef struct mr_fb_context mr_fb_context;

typedef struct mr_fb {
    mr_scope s;
    mr_arena arena;
    mr_fb_context *top; /* NULL at the root */
    MR_VEC(mr_fb_context *) contexts;
    mr_imap owner; /* node id -> context it was made in */
    int n_names;
    bool lazy; /* half of the values get no Switch: nodes of a side hang on its pivot instead */
} mr_fb;

void mr_fb_init(mr_fb *b, mr_graph *g);
void mr_fb_deinit(mr_fb *b); /* checks that nothing failed */
mr_out mr_fb_emit(mr_fb *b, const char *op, const mr_named_attr *attrs, int n_attrs,
                  const mr_out *in, int n_in);
/* Says that a value made elsewhere belongs to where we are. */
void mr_fb_adopt(mr_fb *b, mr_out o);
mr_out mr_fb_const(mr_fb *b, mr_tensor *t);
mr_out mr_fb_num(mr_fb *b, mr_dtype t, double v);
static inline mr_out mr_fb1(mr_fb *b, const char *op, mr_out x)
{
    return mr_fb_emit(b, op, NULL, 0, &x, 1);
}
static inline mr_out mr_fb2(mr_fb *b, const char *op, mr_out x, mr_out y)
{
    return mr_fb_emit(b, op, NULL, 0, (mr_out[]){x, y}, 2);
}

/* if (pred) { then } else { otherwise }: results of `then` are handed to _else, those of the other
 * side to _end, which gives the merged ones. */
void mr_fb_cond(mr_fb *b, mr_out pred);
void mr_fb_cond_else(mr_fb *b, const mr_out *then_results, int n);
void mr_fb_cond_end(mr_fb *b, const mr_out *else_results, mr_out *out);

void mr_fb_while(mr_fb *b, const mr_out *init, int n, int parallel_iterations, mr_out *vars);
void mr_fb_while_body(mr_fb *b, mr_out pred, mr_out *vars);
void mr_fb_while_end(mr_fb *b, const mr_out *next, mr_out *out);

/* for (i = 0; i < n; i++) between the two; vars[-1] is the counter. */
void mr_fb_for(mr_fb *b, mr_out n, int parallel_iterations, mr_out *vars, int n_vars);
void mr_fb_end_for(mr_fb *b, mr_out *vars, int n_vars);

#endif
