/* passes/fold.c -- constant folding: nodes that depend only on constants are computed once, before the first step.
 *
 * Going from producers to consumers, a node is folded if all its data inputs have known values and its op is pure.
 * Shape, Size and Rank are folded also if the static shape of their input is fully known and does not come from a fed
 * value, whose shape may differ from what the graph says. If a folded node feeds one that is not, a Const takes its
 * place. The Const inherits the control inputs of everything it replaces: they determine in which frame, and on which
 * side of a conditional, the value exists. A node whose evaluation fails is left alone: the error belongs to the step
 * that runs it.
 *
 * Invariant: values[id] is set only for nodes that existed before this pass (id < n); new Consts have higher ids. */
#include "passes/passes.h"

#include "base/simd.h"
#include "run/run.h"

typedef struct folder {
    mr_graph *g;
    int64_t max_bytes;
    mr_tensor ***values; /* by node id: n_out tensors (entries may be NULL), or NULL: not constant */
    bool *fed;           /* by node id: the value depends on a feed, so the static shape may be wrong */
    int n;               /* number of ids before this pass; new Consts have higher ids */
    bool control_flow;   /* the graph has control flow */
} folder;

/* A call of a library function has no op and is never folded. */
static bool is_pure(const mr_node *n)
{
    return !(n->def->flags & (MR_STATEFUL | MR_NO_FOLD)) && n->def->op && !mr_node_is_control_flow(n);
}

static bool is_shape_op(const mr_node *n)
{
    return mr_node_is(n, "Shape") || mr_node_is(n, "ShapeN") || mr_node_is(n, "Size") || mr_node_is(n, "Rank");
}

/* Handles and references stand for state, which a Const cannot hold. */
static bool plain_types(const mr_node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (n->out_types[i] == MR_RESOURCE || n->out_types[i] == MR_VARIANT || mr_dtype_is_ref(n->out_types[i]))
            return false;
    return n->n_out > 0;
}

/* True if the static shapes already show that a result would be too large. */
static bool too_large(const folder *w, const mr_node *n)
{
    for (int i = 0; i < n->n_out; i++) {
        const mr_pshape *s = n->out_shapes[i];
        int64_t elements;
        if (!mr_pshape_full(s))
            continue;
        mr_status *st = mr_shape_elements(s->rank, s->dims, &elements);
        bool large = st || elements > w->max_bytes / (int64_t)mr_dtype_size(mr_dtype_base(n->out_types[i]));
        mr_status_free(st);
        if (large)
            return true;
    }
    return false;
}

/* Accepts NULL, and NULL entries. */
static void drop_values(mr_tensor **v, int n)
{
    for (int i = 0; v && i < n; i++)
        mr_tensor_unref(v[i]);
    mr_free(v);
}

/* A tensor with a shape but no data, for ops that never read data. NULL if the type is not plain or the shape is
 * not valid. */
static mr_tensor *shape_only(const mr_pshape *s, mr_dtype t)
{
    mr_tensor *out = NULL;
    if (mr_dtype_is_plain(t))
        mr_status_free(mr_tensor_shape_only(t, s->rank, s->dims, &out));
    return out;
}

/* True if n reads only the shape of o, and that shape is certain. An output of a Switch is excluded: whether it is
 * dead is decided per output, and the control edge of inherit_controls would not carry that. */
static bool shape_is_known(const folder *w, const mr_node *n, mr_out o)
{
    return is_shape_op(n) && !w->fed[o.node->id] && !mr_node_is_switch(o.node) && mr_pshape_full(mr_out_shape(o));
}

/* The inputs of a node as values, which the caller owns, also on failure. false if one is not known. */
static bool gather_inputs(const folder *w, const mr_node *n, mr_tensor **in)
{
    for (int i = 0; i < n->n_in; i++) {
        mr_out o = n->in[i];
        mr_tensor *t = o.node->id < w->n && w->values[o.node->id] ? w->values[o.node->id][o.index] : NULL;
        if (t)
            in[i] = mr_tensor_ref(t);
        else if (shape_is_known(w, n, o))
            in[i] = shape_only(mr_out_shape(o), mr_dtype_base(mr_out_type(o)));
        if (!in[i])
            return false;
    }
    return true;
}

/* Runs the node if all inputs are known, and keeps results that are small enough. Denormals are flushed as in a step,
 * so that folding changes no bit. */
static void evaluate_node(folder *w, mr_node *n)
{
    MR_ASSERT(n->id < w->n && !w->values[n->id]);
    mr_tensor **in = mr_new_array(mr_tensor *, n->n_in + 1), **out = mr_new_array(mr_tensor *, n->n_out + 1);
    bool known = gather_inputs(w, n, in);
    mr_fp_mode mode = mr_denormals_flush();
    mr_status *st = known ? mr_eval_node(n, NULL, in, out) : NULL;
    mr_denormals_restore(mode);
    for (int i = 0; known && !st && i < n->n_out; i++)
        known = out[i] && (int64_t)mr_tensor_bytes(out[i]) <= w->max_bytes;
    if (known && !st) {
        w->values[n->id] = out;
        out = NULL;
    }
    mr_status_free(st);
    drop_values(in, n->n_in);
    drop_values(out, n->n_out);
}

/* Records whether the node depends on a feed, and folds it if that is allowed. Producers have been visited before. */
static void visit_node(folder *w, mr_node *n)
{
    w->control_flow |= mr_node_is_control_flow(n);
    for (int i = 0; i < n->n_in; i++)
        w->fed[n->id] |= w->fed[n->in[i].node->id];
    w->fed[n->id] |= mr_node_is(n, "_Arg") || mr_node_is(n, "_Recv");
    if (!is_pure(n) || !plain_types(n) || too_large(w, n))
        return;
    if (n->n_in > 0 || mr_node_is(n, "Const"))
        evaluate_node(w, n);
}

/* Adds the control inputs of a folded node and of all folded nodes it was computed from. If only a shape was known,
 * the value itself stands for its frame and its deadness, which matters only if there is control flow. A Const that
 * this pass made has inherited already. */
static void inherit_controls(const folder *w, mr_node *to, const mr_node *from, bool *seen)
{
    MR_ASSERT(from->id < w->n);
    if (seen[from->id])
        return;
    seen[from->id] = true;
    for (int i = 0; i < from->n_ctrl; i++)
        mr_node_add_control(to, from->ctrl[i]);
    for (int i = 0; i < from->n_in; i++) {
        mr_node *src = from->in[i].node;
        if (src->id >= w->n) {
            for (int k = 0; k < src->n_ctrl; k++)
                mr_node_add_control(to, src->ctrl[k]);
        } else if (w->values[src->id]) {
            inherit_controls(w, to, src, seen);
        } else if (w->control_flow) {
            mr_node_add_control(to, src);
        }
    }
}

/* Replaces one output of a folded node by a Const on the same device. */
static mr_status *make_const(folder *w, mr_node *n, int output)
{
    char *name = mr_printf("%s/_%d__cf__", n->name, output);
    const char *unique = mr_graph_unique_name(w->g, name);
    mr_node_builder *b = mr_node_begin(w->g, "Const", unique);
    mr_free(name);
    mr_tensor *t = w->values[n->id][output];
    MR_ASSERT(t);
    mr_nb_internal(b);
    mr_nb_device(b, n->device);
    mr_nb_attr(b, "dtype", mr_a_type(t->dtype));
    mr_nb_attr_tensor(b, "value", t);
    mr_node *c;
    MR_TRY(mr_node_finish(b, &c));
    c->placed = n->placed;
    c->mark = n->mark;
    bool *seen = mr_new_array(bool, w->n + 1);
    inherit_controls(w, c, n, seen);
    mr_free(seen);
    return mr_graph_replace_uses((mr_out){n, output}, (mr_out){c, 0});
}

/* True if some node that is not folded itself reads this output. */
static bool feeds_the_rest(const folder *w, const mr_node *n, int output)
{
    for (int i = 0; i < n->uses.n; i++) {
        const mr_use *u = &n->uses.p[i];
        if (u->output == output && u->input >= 0 && (u->node->id >= w->n || !w->values[u->node->id]))
            return true;
    }
    return false;
}

/* Makes a Const for each output that nodes outside of the folded part read. */
static mr_status *replace_node(folder *w, mr_node *n)
{
    if (!w->values[n->id] || mr_node_is(n, "Const"))
        return NULL;
    for (int i = 0; i < n->n_out; i++)
        if (feeds_the_rest(w, n, i))
            MR_TRY(make_const(w, n, i));
    return NULL;
}

/* Removes folded nodes that only folded nodes read; consumers first, so that whole chains go. */
static void sweep_folded(folder *w, mr_node **order, int n, const bool *had_uses)
{
    for (int i = n - 1; i >= 0; i--)
        if (w->values[order[i]->id] && order[i]->uses.n == 0 && had_uses[order[i]->id])
            mr_graph_remove(w->g, order[i]);
}

/* The number of outputs is recorded before anything is removed, because values are dropped after their nodes. */
mr_status *mr_fold(mr_graph *g, int64_t max_bytes)
{
    mr_status *st = NULL;
    folder w = {.g = g, .max_bytes = max_bytes > 0 ? max_bytes : 10 << 20, .n = g->nodes.n};
    mr_node **order = NULL;
    int n = 0, n_ids = g->nodes.n;
    w.values = mr_new_array(mr_tensor **, n_ids + 1);
    w.fed = mr_new_array(bool, n_ids + 1);
    bool *had_uses = mr_new_array(bool, n_ids + 1);
    int *n_out = mr_new_array(int, n_ids + 1);
    MR_GO(mr_graph_topological(g, &order, &n));
    for (int i = 0; i < n; i++) {
        had_uses[order[i]->id] = order[i]->uses.n > 0;
        n_out[order[i]->id] = order[i]->n_out;
        visit_node(&w, order[i]);
    }
    /* All values are known before the first Const is made: feeds_the_rest needs to know which consumers are folded. */
    for (int i = 0; i < n; i++)
        MR_GO(replace_node(&w, order[i]));
    sweep_folded(&w, order, n, had_uses);
out:
    for (int i = 0; i < n_ids; i++)
        drop_values(w.values[i], n_out[i]);
    mr_free(w.values);
    mr_free(w.fed);
    mr_free(had_uses);
    mr_free(n_out);
    mr_free(order);
    return st;
}
