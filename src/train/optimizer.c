/* train/optimizer.c -- turns gradients into updates.
 *
 * mr_nn_minimize differentiates the loss with respect to the handle of every trainable variable and
 * adds one update op for each, then the increment of the global step after all of them. Slots
 * (momenta, accumulators) are variables with TensorFlow's names, so its checkpoints fit. A sparse
 * gradient updates only its rows where TensorFlow's optimizer does so too; duplicate rows are summed
 * first.
 *
 *     optimizer              slots of VAR                       sparse gradient
 *     SGD                                                       updates its rows
 *     momentum, Nesterov     VAR/Momentum                       updates its rows
 *     Adagrad                VAR/Adagrad                        updates its rows
 *     RMSProp                VAR/RMSProp, VAR/RMSProp_1         is made dense
 *     Adam                   VAR/Adam, VAR/Adam_1               is made dense
 *
 * Adam also has beta1_power and beta2_power, one of each for the network.
 *
 * Adding a slot may move n->vars, so functions here copy the mr_nn_var they work on. */
#include "train/nn.h"

typedef struct updater {
    mr_nn *n;
    const mr_nn_optimizer *o;
    mr_out rate; /* float scalar */
    mr_out beta1_power, beta2_power; /* of Adam */
    MR_VEC(mr_node *) done;
} updater;

/* Adds a slot of v, of the same shape and on the same device, and returns its handle. */
static mr_out make_slot(updater *u, const mr_nn_var *v, const char *name, float start)
{
    const mr_pshape *s = mr_out_shape(v->value);
    const char *saved = u->n->s.prefix;
    mr_nn_var var = *v;
    u->n->s.prefix = var.name;
    u->n->place_with = var.device;
    mr_out value = mr_nn_variable(u->n, name, var.dtype, s->rank, s->dims, (mr_nn_init){MR_NN_CONSTANT, start, 0}, false);
    u->n->place_with = NULL;
    u->n->s.prefix = saved;
    const mr_nn_var *made = mr_nn_find(u->n, value);
    return made ? made->handle : MR_NO_OUT;
}

static mr_out number_of_type(updater *u, mr_dtype t, float v) { return mr_const_num(&u->n->s, t, v); }

/* The learning rate in the type of a variable. */
static mr_out rate_for(updater *u, mr_dtype t)
{
    return t == MR_FLOAT ? u->rate
                         : mr_emit_with(&u->n->s, "Cast", MR_ATTRS({"DstT", mr_a_type(t)}), u->rate);
}

/* Adds up rows that occur more than once, because the update ops would apply them one after another. */
void mr_nn_sum_rows(mr_nn *n, mr_gradient *g)
{
    mr_out uniq = mr_emit(&n->s, "Unique", g->indices);
    mr_out count = mr_emit(&n->s, "Size", uniq);
    g->values = mr_emit(&n->s, "UnsortedSegmentSum", g->values, mr_nth(uniq, 1), count);
    g->indices = uniq;
}

/* References support only SGD: slots are resource variables, and no update op accepts both kinds. */
static mr_out update_reference(updater *u, const mr_nn_var *v, mr_gradient g)
{
    mr_scope *s = &u->n->s;
    mr_out rate = rate_for(u, v->dtype);
    if (u->o->kind != MR_NN_SGD) {
        mr_scope_fail(s, mr_error(MR_UNIMPLEMENTED,
                                  "variable '%s' is a reference variable, which only mr_sgd can update", v->name));
        return MR_NO_OUT;
    }
    return g.dense.node ? mr_emit(s, "ApplyGradientDescent", v->handle, rate, g.dense)
                        : mr_emit(s, "ScatterSub", v->handle, g.indices, mr_emit(s, "Mul", g.values, rate));
}

/* Adds the update op of one variable for a dense gradient. */
static mr_out update_dense(updater *u, const mr_nn_var *v, mr_out g)
{
    mr_scope *s = &u->n->s;
    const mr_nn_optimizer *o = u->o;
    mr_dtype t = v->dtype;
    mr_nn_var var = *v;
    mr_out rate = rate_for(u, t), h = var.handle;
    if (mr_nn_var_is_ref(v))
        return update_reference(u, v, (mr_gradient){.dense = g});
    switch (o->kind) {
    case MR_NN_SGD: return mr_emit(s, "ResourceApplyGradientDescent", h, rate, g);
    case MR_NN_MOMENTUM:
    case MR_NN_NESTEROV:
        return mr_emit_with(s, "ResourceApplyMomentum",
                            MR_ATTRS({"use_nesterov", mr_a_bool(o->kind == MR_NN_NESTEROV)}), h,
                            make_slot(u, &var, "Momentum", 0), rate, g, number_of_type(u, t, o->a));
    case MR_NN_ADAGRAD: return mr_emit(s, "ResourceApplyAdagrad", h, make_slot(u, &var, "Adagrad", o->a), rate, g);
    case MR_NN_RMSPROP: {
        mr_out ms = make_slot(u, &var, "RMSProp", 1), mom = make_slot(u, &var, "RMSProp_1", 0);
        return mr_emit(s, "ResourceApplyRMSProp", h, ms, mom, rate, number_of_type(u, t, o->a),
                       number_of_type(u, t, o->b), number_of_type(u, t, o->epsilon), g);
    }
    case MR_NN_ADAM: {
        mr_out m = make_slot(u, &var, "Adam", 0), vv = make_slot(u, &var, "Adam_1", 0);
        mr_out b1 = u->beta1_power, b2 = u->beta2_power;
        if (t != MR_FLOAT) {
            b1 = mr_emit_with(s, "Cast", MR_ATTRS({"DstT", mr_a_type(t)}), b1);
            b2 = mr_emit_with(s, "Cast", MR_ATTRS({"DstT", mr_a_type(t)}), b2);
        }
        return mr_emit(s, "ResourceApplyAdam", h, m, vv, b1, b2, rate, number_of_type(u, t, o->a),
                       number_of_type(u, t, o->b), number_of_type(u, t, o->epsilon), g);
    }
    }
    mr_scope_fail(s, mr_invalid("unknown optimizer %d", (int)o->kind));
    return MR_NO_OUT;
}

/* Adds the update op for the rows of a sparse gradient. RMSProp and Adam move every row in every step,
 * as TensorFlow's do, so they get a dense gradient. */
static mr_out update_sparse(updater *u, const mr_nn_var *v, mr_gradient g)
{
    mr_scope *s = &u->n->s;
    const mr_nn_optimizer *o = u->o;
    mr_nn_var var = *v;
    mr_out rate = rate_for(u, var.dtype), h = var.handle;
    if (mr_nn_var_is_ref(v))
        return update_reference(u, v, g);
    switch (o->kind) {
    case MR_NN_SGD: /* the order of additions does not matter, so duplicates may stay */
        return mr_emit(s, "ResourceScatterAdd", h, g.indices, mr_emit(s, "Neg", mr_emit(s, "Mul", g.values, rate)));
    case MR_NN_MOMENTUM:
    case MR_NN_NESTEROV:
        mr_nn_sum_rows(u->n, &g);
        return mr_emit_with(
            s, "ResourceSparseApplyMomentum", MR_ATTRS({"use_nesterov", mr_a_bool(o->kind == MR_NN_NESTEROV)}), h,
            make_slot(u, &var, "Momentum", 0), rate, g.values, g.indices, number_of_type(u, var.dtype, o->a));
    case MR_NN_ADAGRAD:
        mr_nn_sum_rows(u->n, &g);
        return mr_emit(s, "ResourceSparseApplyAdagrad", h, make_slot(u, &var, "Adagrad", o->a), rate, g.values,
                       g.indices);
    default:
        return update_dense(u, v, mr_gradient_dense(s, &g));
    }
}

/* Scales all gradients so that their global norm is at most clip_norm. */
static void clip_gradients(updater *u, mr_gradient *g, int n)
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

/* A variable with a power of one of Adam's betas, on the device of the first variable. It is read
 * before the updates and multiplied after them. */
static mr_out beta_power(updater *u, const char *name, float beta, const char *device)
{
    u->n->place_with = device;
    mr_out v = mr_nn_variable(u->n, name, MR_FLOAT, 0, NULL, (mr_nn_init){MR_NN_CONSTANT, beta, 0}, false);
    u->n->place_with = NULL;
    return v;
}

/* Multiplies a beta power once more, after the updates that use its present value. */
static void raise_power(updater *u, mr_out power, float beta)
{
    const mr_nn_var *v = mr_nn_find(u->n, power);
    if (!v)
        return;
    const char *before = mr_nn_at(u->n, v->device);
    mr_vec_push(&u->done, mr_emit(&u->n->s, "AssignVariableOp", v->handle,
                                  mr_emit(&u->n->s, "Mul", power, mr_const_f32(&u->n->s, beta))).node);
    mr_nn_at(u->n, before);
}

/* Adds what the updates read: the learning rate, and Adam's powers. */
static void start_updates(updater *u, const mr_nn_gradients *g)
{
    u->rate = u->o->schedule.node ? u->o->schedule : mr_const_f32(mr_as(&u->n->s, "learning_rate"), u->o->rate);
    if (u->o->kind == MR_NN_ADAM) {
        const char *device = g->n ? u->n->vars.p[g->var[0]].device : u->n->s.device;
        u->beta1_power = beta_power(u, "beta1_power", u->o->a, device);
        u->beta2_power = beta_power(u, "beta2_power", u->o->b, device);
    }
}

/* Increments the global step, on its device. */
static void raise_step(updater *u, mr_out step_value)
{
    const mr_nn_var *step = mr_nn_find(u->n, step_value);
    if (!step)
        return;
    const char *before = mr_nn_at(u->n, step->device);
    mr_vec_push(&u->done, mr_nn_assign_add(u->n, step, mr_const_i64(&u->n->s, 1)).node);
    mr_nn_at(u->n, before);
}

/* Adds what follows the updates: Adam's powers, the global step, and the node `train` that depends on
 * everything. */
static mr_node *finish_updates(updater *u, mr_out step_value)
{
    mr_nn *n = u->n;
    int n_updates = u->done.n;
    MR_ASSERT(n->s.controls.n == 0);
    for (int i = 0; i < n_updates; i++)
        mr_vec_push(&n->s.controls, u->done.p[i]);
    if (u->o->kind == MR_NN_ADAM) {
        raise_power(u, u->beta1_power, u->o->a);
        raise_power(u, u->beta2_power, u->o->b);
    }
    raise_step(u, step_value);
    for (int i = n_updates; i < u->done.n; i++)
        mr_vec_push(&n->s.controls, u->done.p[i]);
    mr_out train = mr_scope_ok(&n->s) ? mr_emit0(mr_as(&n->s, "train"), "NoOp") : MR_NO_OUT;
    n->s.controls.n = 0;
    return train.node;
}

/* ---- gradients ---- */

void mr_nn_gradients_deinit(mr_nn_gradients *g)
{
    mr_free(g->var);
    mr_free(g->g);
    *g = (mr_nn_gradients){0};
}

/* If devices are named at all, gradients are computed on the devices of their forward ops. */
void mr_nn_gradients_of(mr_nn *n, mr_out loss, mr_nn_gradients *out)
{
    int n_vars = n->vars.n, n_xs = 0;
    mr_out *xs = mr_new_array(mr_out, n_vars + 1);
    mr_gradient *found = mr_new_array(mr_gradient, n_vars + 1);
    *out = (mr_nn_gradients){.var = mr_new_array(int, n_vars + 1), .g = mr_new_array(mr_gradient, n_vars + 1)};
    for (int i = 0; i < n_vars; i++)
        if (n->vars.p[i].trainable) {
            if (!n->vars.p[i].differentiated)
                xs[n_xs++] = n->vars.p[i].handle;
            out->var[out->n++] = i;
        }
    if (out->n == 0)
        mr_scope_fail(&n->s, mr_invalid("No variables to optimize."));
    mr_gradient_options o = {.sparse = true, .colocate = n->s.device[0] != 0};
    if (mr_scope_ok(&n->s) && n_xs)
        mr_scope_fail(&n->s, mr_graph_gradients(n->s.graph, &loss, 1, xs, n_xs, &o, found));
    for (int i = 0, k = 0; i < out->n; i++) {
        const mr_nn_var *v = &n->vars.p[out->var[i]];
        out->g[i] = v->differentiated ? v->gradient : found[k++];
    }
    MR_ASSERT(out->n <= n_vars && n_xs <= out->n);
    mr_free(found);
    mr_free(xs);
}

/* Adds the update of each variable on its device, after clipping. A variable without a gradient gets none. */
static void update_all(updater *u, mr_nn_gradients *g)
{
    mr_nn *n = u->n;
    clip_gradients(u, g->g, g->n);
    for (int i = 0; i < g->n && mr_scope_ok(&n->s); i++) {
        MR_ASSERT(g->var[i] >= 0 && g->var[i] < n->vars.n);
        mr_nn_var v = n->vars.p[g->var[i]];
        const char *before = mr_nn_at(n, v.device);
        mr_out up = g->g[i].dense.node ? update_dense(u, &v, g->g[i].dense)
                                       : g->g[i].values.node ? update_sparse(u, &v, g->g[i]) : MR_NO_OUT;
        mr_nn_at(n, before);
        if (up.node)
            mr_vec_push(&u->done, up.node);
    }
}

/* A step that changes nothing is a mistake: the loss depends on no variable, or only through ops without a gradient. */
static mr_status *check_any_gradient(const mr_nn *n, const mr_nn_gradients *g)
{
    for (int i = 0; i < g->n; i++)
        if (g->g[i].dense.node || g->g[i].values.node)
            return NULL;
    if (g->n == 0)
        return mr_invalid("No variables to optimize.");
    return mr_invalid("No gradients provided for any variable, check your graph for ops that do not support gradients: "
                      "the first of %d variables is '%s'", g->n, n->vars.p[g->var[0]].name);
}

/* Makes the global step first, if there is none, and then the updates, which append their slots to n->vars. */
mr_node *mr_nn_apply(mr_nn *n, const mr_nn_optimizer *o, mr_nn_gradients *g)
{
    updater u = {.n = n, .o = o};
    if (mr_scope_ok(&n->s))
        mr_scope_fail(&n->s, check_any_gradient(n, g));
    mr_out step = mr_nn_global_step(n);
    if (!mr_scope_ok(&n->s))
        return NULL;
    start_updates(&u, g);
    update_all(&u, g);
    mr_node *train = finish_updates(&u, step);
    mr_vec_deinit(&u.done);
    return mr_scope_ok(&n->s) ? train : NULL;
}

mr_node *mr_nn_minimize(mr_nn *n, mr_out loss, const mr_nn_optimizer *o)
{
    return mr_nn_minimize_towers(n, &loss, 1, o);
}

/* ---- towers ---- */

/* Concatenates the rows of all towers if all are sparse; otherwise adds them up as dense gradients. */
static mr_gradient sum_of(mr_nn *n, const mr_gradient *g, int k)
{
    mr_gradient out = MR_NO_GRAD;
    mr_out *a = mr_new_array(mr_out, k + 1), *b = mr_new_array(mr_out, k + 1);
    int n_dense = 0, n_sparse = 0;
    MR_ASSERT(k >= 1);
    /* A tower without a gradient counts as neither. */
    for (int i = 0; i < k; i++)
        n_sparse += !g[i].dense.node && g[i].values.node;
    for (int i = 0; i < k; i++)
        if (g[i].dense.node || (g[i].values.node && n_sparse < k)) /* mixed: all dense */
            a[n_dense++] = g[i].dense.node ? g[i].dense : mr_gradient_dense(&n->s, &g[i]);
    if (n_dense) {
        out.dense = mr_emit_n(&n->s, "AddN", NULL, 0, a, n_dense);
    } else if (n_sparse) {
        for (int i = 0; i < k; i++) {
            a[i] = g[i].values;
            b[i] = g[i].indices;
        }
        mr_out axis = mr_const_i32(&n->s, 0);
        out.values = mr_emit_lists(&n->s, "ConcatV2", NULL, 0, (mr_emit_arg[]){{k, a}, {-1, &axis}}, 2);
        out.indices = mr_emit_lists(&n->s, "ConcatV2", NULL, 0, (mr_emit_arg[]){{k, b}, {-1, &axis}}, 2);
        out.dense_shape = g[0].dense_shape;
    }
    mr_free(a);
    mr_free(b);
    return out;
}

/* The mean over all towers, on the variable's device; a tower without a gradient adds zero. */
static mr_gradient mean_of(mr_nn *n, const mr_nn_var *v, const mr_gradient *g, int k)
{
    const char *before = mr_nn_at(n, v->device);
    mr_gradient m = sum_of(n, g, k);
    mr_out *value = m.dense.node ? &m.dense : &m.values;
    if (value->node)
        *value = mr_emit(&n->s, "Mul", *value, mr_const_num(&n->s, v->dtype, 1.0 / k));
    mr_nn_at(n, before);
    return m;
}

/* Replaces the gradients of the first tower by the means of all. All towers have the same list of variables. */
static void average_towers(mr_nn *n, mr_nn_gradients *towers, int k)
{
    mr_gradient *one = mr_new_array(mr_gradient, k);
    for (int i = 0; i < towers[0].n && mr_scope_ok(&n->s); i++) {
        mr_nn_var v = n->vars.p[towers[0].var[i]];
        for (int t = 0; t < k; t++) {
            MR_ASSERT(towers[t].n == towers[0].n && towers[t].var[i] == towers[0].var[i]);
            one[t] = towers[t].g[i];
        }
        towers[0].g[i] = mean_of(n, &v, one, k);
    }
    mr_free(one);
}

/* The global step is made before the gradients, so that the order of variables is the same with any
 * number of towers. */
mr_node *mr_nn_minimize_towers(mr_nn *n, const mr_out *losses, int k, const mr_nn_optimizer *o)
{
    mr_nn_global_step(n);
    if (!mr_scope_ok(&n->s))
        return NULL;
    mr_nn_gradients *towers = mr_new_array(mr_nn_gradients, k + 1);
    for (int t = 0; t < k; t++)
        mr_nn_gradients_of(n, losses[t], &towers[t]);
    if (k > 1)
        average_towers(n, towers, k);
    mr_node *train = mr_nn_apply(n, o, &towers[0]);
    for (int t = 0; t < k; t++)
        mr_nn_gradients_deinit(&towers[t]);
    mr_free(towers);
    return train;
}

/* ---- learning rates ---- */

static mr_out step_as_float(mr_nn *n)
{
    return mr_emit_with(&n->s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_FLOAT)}), mr_nn_global_step(n));
}

/* rate * factor^(step / steps); with staircase the exponent is rounded down. */
mr_out mr_nn_exponential_decay(mr_nn *n, float rate, int64_t steps, float factor, bool staircase)
{
    mr_out p = mr_emit(&n->s, "RealDiv", step_as_float(n), mr_const_f32(&n->s, (float)steps));
    if (staircase)
        p = mr_emit(&n->s, "Floor", p);
    return mr_emit(&n->s, "Mul", mr_const_f32(&n->s, rate), mr_emit(&n->s, "Pow", mr_const_f32(&n->s, factor), p));
}

/* (rate - end_rate) * (1 - step / steps)^power + end_rate, and end_rate from `steps` on. */
mr_out mr_nn_polynomial_decay(mr_nn *n, float rate, int64_t steps, float end_rate, float power)
{
    mr_out all = mr_const_f32(&n->s, (float)steps);
    mr_out p = mr_emit(&n->s, "RealDiv", mr_emit(&n->s, "Minimum", step_as_float(n), all), all);
    mr_out left = mr_emit(&n->s, "Pow", mr_emit(&n->s, "Sub", mr_const_f32(&n->s, 1), p), mr_const_f32(&n->s, power));
    return mr_emit(&n->s, "AddV2", mr_emit(&n->s, "Mul", left, mr_const_f32(&n->s, rate - end_rate)),
                   mr_const_f32(&n->s, end_rate));
}

/* rates[i] up to and including step bounds[i], then the last of the n_bounds + 1 rates. */
mr_out mr_nn_piecewise(mr_nn *n, int n_bounds, const int64_t *bounds, const float *rates)
{
    mr_out step = mr_nn_global_step(n), v = mr_const_f32(&n->s, rates[n_bounds]);
    for (int i = n_bounds - 1; i >= 0; i--)
        v = mr_emit(&n->s, "SelectV2", mr_emit(&n->s, "LessEqual", step, mr_const_i64(&n->s, bounds[i])),
                    mr_const_f32(&n->s, rates[i]), v);
    return v;
}
