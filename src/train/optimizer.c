/* train/optimizer.c -- gradients become updates.
 *
 * mr_net_minimize differentiates the loss with respect to every trainable variable's handle and adds one
 * update op a variable, then the raise of the global step behind all of them.  Slots (momenta, accumulators)
 * are variables named as TensorFlow names them, so that its checkpoints fit.  A sparse gradient updates only
 * its rows where TensorFlow's optimizer does so too; its duplicate rows are summed first. */
#include "train/net.h"

typedef struct updater {
    mr_net *n;
    const mr_net_optimizer *o;
    mr_out rate; /* scalar of the variable's type, cached for float */
    mr_out beta1_power, beta2_power; /* of Adam */
    MR_VEC(mr_node *) done;
} updater;

static mr_out slot(updater *u, const mr_net_var *v, const char *name, float start)
{
    const mr_pshape *s = mr_out_shape(v->value);
    const char *saved = u->n->s.prefix;
    mr_net_var var = *v; /* the list may move while a slot is added */
    u->n->s.prefix = var.name;
    mr_out value = mr_net_variable(u->n, name, var.dtype, s->rank, s->dims, (mr_net_init){MR_NET_CONSTANT, start, 0}, false);
    u->n->s.prefix = saved;
    const mr_net_var *made = mr_net_find(u->n, value);
    return made ? made->handle : MR_NO_OUT;
}

static mr_out number(updater *u, mr_dtype t, float v) { return mr_const_num(&u->n->s, t, v); }

static mr_out rate_for(updater *u, mr_dtype t)
{
    return t == MR_FLOAT ? u->rate
                         : mr_emit_with(&u->n->s, "Cast", MR_ATTRS({"DstT", mr_a_type(t)}), u->rate);
}

/* Rows that occur more than once are added up, since the update ops apply them one after another. */
static void sum_duplicates(updater *u, mr_gradient *g)
{
    mr_out uniq = mr_emit(&u->n->s, "Unique", g->indices);
    mr_out count = mr_emit(&u->n->s, "Size", uniq);
    g->values = mr_emit(&u->n->s, "UnsortedSegmentSum", g->values, mr_nth(uniq, 1), count);
    g->indices = uniq;
}

static mr_out update_dense(updater *u, const mr_net_var *v, mr_out g)
{
    mr_scope *s = &u->n->s;
    const mr_net_optimizer *o = u->o;
    mr_dtype t = v->dtype;
    mr_net_var var = *v;
    mr_out rate = rate_for(u, t), h = var.handle;
    switch (o->kind) {
    case MR_NET_SGD: return mr_emit(s, "ResourceApplyGradientDescent", h, rate, g);
    case MR_NET_MOMENTUM:
    case MR_NET_NESTEROV:
        return mr_emit_with(s, "ResourceApplyMomentum",
                            MR_ATTRS({"use_nesterov", mr_a_bool(o->kind == MR_NET_NESTEROV)}), h,
                            slot(u, &var, "Momentum", 0), rate, g, number(u, t, o->a));
    case MR_NET_ADAGRAD: return mr_emit(s, "ResourceApplyAdagrad", h, slot(u, &var, "Adagrad", o->a), rate, g);
    case MR_NET_RMSPROP: {
        mr_out ms = slot(u, &var, "RMSProp", 1), mom = slot(u, &var, "RMSProp_1", 0);
        return mr_emit(s, "ResourceApplyRMSProp", h, ms, mom, rate, number(u, t, o->a), number(u, t, o->b),
                       number(u, t, o->epsilon), g);
    }
    case MR_NET_ADAM: {
        mr_out m = slot(u, &var, "Adam", 0), vv = slot(u, &var, "Adam_1", 0);
        mr_out b1 = u->beta1_power, b2 = u->beta2_power;
        if (t != MR_FLOAT) {
            b1 = mr_emit_with(s, "Cast", MR_ATTRS({"DstT", mr_a_type(t)}), b1);
            b2 = mr_emit_with(s, "Cast", MR_ATTRS({"DstT", mr_a_type(t)}), b2);
        }
        return mr_emit(s, "ResourceApplyAdam", h, m, vv, b1, b2, rate, number(u, t, o->a), number(u, t, o->b),
                       number(u, t, o->epsilon), g);
    }
    }
    mr_scope_fail(s, mr_invalid("unknown optimizer %d", (int)o->kind));
    return MR_NO_OUT;
}

static mr_out update_sparse(updater *u, const mr_net_var *v, mr_gradient g)
{
    mr_scope *s = &u->n->s;
    const mr_net_optimizer *o = u->o;
    mr_net_var var = *v;
    mr_out rate = rate_for(u, var.dtype), h = var.handle;
    switch (o->kind) {
    case MR_NET_SGD: /* additions may come in any order and number */
        return mr_emit(s, "ResourceScatterAdd", h, g.indices, mr_emit(s, "Neg", mr_emit(s, "Mul", g.values, rate)));
    case MR_NET_MOMENTUM:
    case MR_NET_NESTEROV:
        sum_duplicates(u, &g);
        return mr_emit_with(s, "ResourceSparseApplyMomentum",
                            MR_ATTRS({"use_nesterov", mr_a_bool(o->kind == MR_NET_NESTEROV)}), h,
                            slot(u, &var, "Momentum", 0), rate, g.values, g.indices, number(u, var.dtype, o->a));
    case MR_NET_ADAGRAD:
        sum_duplicates(u, &g);
        return mr_emit(s, "ResourceSparseApplyAdagrad", h, slot(u, &var, "Adagrad", o->a), rate, g.values, g.indices);
    default: /* RMSProp and Adam move every row in every step, as TensorFlow's do */
        return update_dense(u, v, mr_gradient_dense(s, &g));
    }
}

/* Scales all gradients so that their common norm is at most clip_norm. */
static void clip(updater *u, mr_gradient *g, int n)
{
    mr_scope *s = &u->n->s;
    mr_out sum = MR_NO_OUT;
    if (!(u->o->clip_norm > 0))
        return;
    for (int i = 0; i < n; i++) {
        mr_out v = g[i].dense.node ? g[i].dense : g[i].values;
        if (!v.node)
            continue;
        mr_out l = mr_emit_with(s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_FLOAT)}), mr_emit(s, "L2Loss", v));
        sum = sum.node ? mr_emit(s, "AddV2", sum, l) : l;
    }
    if (!sum.node)
        return;
    mr_out norm = mr_emit(s, "Sqrt", mr_emit(s, "Mul", sum, mr_const_f32(s, 2)));
    mr_out limit = mr_const_f32(s, u->o->clip_norm);
    mr_out scale = mr_emit(s, "RealDiv", limit, mr_emit(s, "Maximum", norm, limit));
    for (int i = 0; i < n; i++) {
        mr_out *v = g[i].dense.node ? &g[i].dense : &g[i].values;
        if (v->node)
            *v = mr_emit(s, "Mul", *v,
                         mr_emit_with(s, "Cast", MR_ATTRS({"DstT", mr_a_type(mr_dtype_base(mr_out_type(*v)))}), scale));
    }
}

/* Adam's powers of its betas: read before the updates, multiplied after them. */
static mr_out beta_power(updater *u, const char *name, float beta)
{
    return mr_net_variable(u->n, name, MR_FLOAT, 0, NULL, (mr_net_init){MR_NET_CONSTANT, beta, 0}, false);
}

static void raise_power(updater *u, mr_out power, float beta)
{
    const mr_net_var *v = mr_net_find(u->n, power);
    if (v)
        mr_vec_push(&u->done, mr_emit(&u->n->s, "AssignVariableOp", v->handle,
                                      mr_emit(&u->n->s, "Mul", power, mr_const_f32(&u->n->s, beta))).node);
}

static void start_updates(updater *u)
{
    u->rate = u->o->schedule.node ? u->o->schedule : mr_const_f32(mr_as(&u->n->s, "learning_rate"), u->o->rate);
    if (u->o->kind == MR_NET_ADAM) {
        u->beta1_power = beta_power(u, "beta1_power", u->o->a);
        u->beta2_power = beta_power(u, "beta2_power", u->o->b);
    }
}

static mr_node *finish_updates(updater *u, mr_out step_value)
{
    mr_net *n = u->n;
    int n_updates = u->done.n;
    for (int i = 0; i < n_updates; i++)
        mr_vec_push(&n->s.controls, u->done.p[i]);
    if (u->o->kind == MR_NET_ADAM) {
        raise_power(u, u->beta1_power, u->o->a);
        raise_power(u, u->beta2_power, u->o->b);
    }
    const mr_net_var *step = mr_net_find(n, step_value);
    if (step)
        mr_vec_push(&u->done, mr_emit(&n->s, "AssignAddVariableOp", step->handle, mr_const_i64(&n->s, 1)).node);
    for (int i = n_updates; i < u->done.n; i++)
        mr_vec_push(&n->s.controls, u->done.p[i]);
    mr_out train = mr_scope_ok(&n->s) ? mr_emit0(mr_as(&n->s, "train"), "NoOp") : MR_NO_OUT;
    n->s.controls.n = 0;
    return train.node;
}

static void update_all(updater *u, mr_out loss)
{
    mr_net *n = u->n;
    int n_vars = n->vars.n, k = 0;
    mr_out *xs = mr_new_array(mr_out, n_vars + 1);
    int *which = mr_new_array(int, n_vars + 1);
    mr_gradient *g = mr_new_array(mr_gradient, n_vars + 1);
    for (int i = 0; i < n_vars; i++)
        if (n->vars.p[i].trainable) {
            xs[k] = n->vars.p[i].handle;
            which[k++] = i;
        }
    mr_scope_fail(&n->s, mr_graph_gradients(n->s.graph, &loss, 1, xs, k, &(mr_gradient_options){.sparse = true}, g));
    start_updates(u);
    clip(u, g, k);
    for (int i = 0; i < k && mr_scope_ok(&n->s); i++) {
        mr_net_var v = n->vars.p[which[i]];
        mr_out up = g[i].dense.node ? update_dense(u, &v, g[i].dense)
                                    : g[i].values.node ? update_sparse(u, &v, g[i]) : MR_NO_OUT;
        if (up.node)
            mr_vec_push(&u->done, up.node);
    }
    mr_free(xs);
    mr_free(which);
    mr_free(g);
}

mr_node *mr_net_minimize(mr_net *n, mr_out loss, const mr_net_optimizer *o)
{
    updater u = {.n = n, .o = o};
    mr_out step = mr_net_global_step(n);
    if (!mr_scope_ok(&n->s))
        return NULL;
    update_all(&u, loss);
    mr_node *train = finish_updates(&u, step);
    mr_vec_deinit(&u.done);
    return mr_scope_ok(&n->s) ? train : NULL;
}

/* ---- learning rates ---- */

static mr_out step_as_float(mr_net *n)
{
    return mr_emit_with(&n->s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_FLOAT)}), mr_net_global_step(n));
}

mr_out mr_net_exponential_decay(mr_net *n, float rate, int64_t steps, float factor, bool staircase)
{
    mr_out p = mr_emit(&n->s, "RealDiv", step_as_float(n), mr_const_f32(&n->s, (float)steps));
    if (staircase)
        p = mr_emit(&n->s, "Floor", p);
    return mr_emit(&n->s, "Mul", mr_const_f32(&n->s, rate), mr_emit(&n->s, "Pow", mr_const_f32(&n->s, factor), p));
}

mr_out mr_net_polynomial_decay(mr_net *n, float rate, int64_t steps, float end_rate, float power)
{
    mr_out all = mr_const_f32(&n->s, (float)steps);
    mr_out p = mr_emit(&n->s, "RealDiv", mr_emit(&n->s, "Minimum", step_as_float(n), all), all);
    mr_out left = mr_emit(&n->s, "Pow", mr_emit(&n->s, "Sub", mr_const_f32(&n->s, 1), p), mr_const_f32(&n->s, power));
    return mr_emit(&n->s, "AddV2", mr_emit(&n->s, "Mul", left, mr_const_f32(&n->s, rate - end_rate)),
                   mr_const_f32(&n->s, end_rate));
}

mr_out mr_net_piecewise(mr_net *n, int n_bounds, const int64_t *bounds, const float *rates)
{
    mr_out step = mr_net_global_step(n), v = mr_const_f32(&n->s, rates[n_bounds]);
    for (int i = n_bounds - 1; i >= 0; i--)
        v = mr_emit(&n->s, "SelectV2", mr_emit(&n->s, "LessEqual", step, mr_const_i64(&n->s, bounds[i])),
                    mr_const_f32(&n->s, rates[i]), v);
    return v;
}
