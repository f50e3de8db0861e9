/* train/pipeline.c -- the graph of a pipelined step.
 *
 * Nodes are made task by task (the forward or backward part of one micro-batch in one stage), so a
 * task is a range of node numbers. When all exist, control edges connect each task to the next in the
 * stage's order: from the last nodes of the one to the first nodes of the other, which are those that
 * take values from other tasks. Ranges also contain nodes that no step runs, above all the initial
 * values of variables. Only nodes that the gradients and the loss need are connected; otherwise an
 * edge would make a step run the others.
 *
 * With two stages and two micro-batches (F forward, B backward), 1F1B gives these control edges:
 *
 *     stage 0    F0 -> F1 -> B0 -> B1
 *     stage 1    F0 -> B0 -> F1 -> B1
 *
 * Invariants: the ranges of two tasks do not overlap, a variable that a stage makes belongs to it alone (first_var),
 * and after order_all_tasks the graph still has no cycle, because the order of every stage follows the data flow. */
#include "train/pipeline.h"

#include "base/memory.h"

typedef struct span {
    int from, to; /* node numbers */
} span;

typedef MR_VEC(mr_gradient) gradient_list;

typedef struct builder {
    mr_nn *n;
    const mr_nn_pipeline *p;
    const mr_out *inputs;
    int n_inputs;
    mr_out *parts;    /* [n_micro][n_inputs] */
    mr_out *results;  /* [n_micro][n_stages] */
    span *tasks[2];   /* forward, backward: [n_stages][n_micro] */
    int *first_var;   /* [n_stages + 1] into n->vars */
    gradient_list *sums; /* by variable: dense gradients added up, sparse ones in a list */
    bool *needed;     /* by node: a step runs it */
} builder;

static int count_nodes(const builder *b) { return b->n->s.graph->nodes.n; }

/* The node numbers of a task; empty until it is built. */
static span *task_span(builder *b, bool backward, int stage, int micro)
{
    MR_ASSERT(stage >= 0 && stage < b->p->n_stages && micro >= 0 && micro < b->p->n_micro);
    return &b->tasks[backward][stage * b->p->n_micro + micro];
}

/* ---- forward ---- */

/* Cuts every input into n_micro equal parts along its first dimension. */
static void split_inputs(builder *b)
{
    mr_scope *s = &b->n->s;
    for (int i = 0; i < b->n_inputs; i++) {
        mr_named_attr count = {"num_split", mr_a_int(b->p->n_micro)};
        mr_out all = mr_emit_n(s, "Split", &count, 1, MR_OUTS(mr_const_i32(s, 0), b->inputs[i]));
        for (int m = 0; m < b->p->n_micro; m++)
            b->parts[m * b->n_inputs + i] = mr_nth(all, m);
    }
}

/* Builds one stage for one micro-batch. Variables are made for the first micro-batch and reused by the
 * others. */
static mr_out build_stage(builder *b, int stage, int micro, mr_out x)
{
    mr_nn *n = b->n;
    const char *device = mr_arena_strdup(&n->s.graph->arena, b->p->devices[stage]);
    const char *before = mr_nn_at(n, device), *place = n->place_with;
    bool reuse = n->reuse;
    span *t = task_span(b, false, stage, micro);
    n->place_with = device;
    n->reuse |= micro > 0;
    t->from = count_nodes(b);
    mr_out y = b->p->build(b->p->arg, stage, x, b->parts + micro * b->n_inputs);
    t->to = count_nodes(b);
    MR_ASSERT(t->from <= t->to);
    n->reuse = reuse;
    n->place_with = place;
    mr_nn_at(n, before);
    if (mr_scope_ok(&n->s) && (!y.node || y.node->graph != n->s.graph))
        mr_scope_fail(&n->s, mr_invalid("stage %d of the pipeline returned no output of this graph", stage));
    return y;
}

/* Builds all stages for all micro-batches, and records which variables belong to which stage. */
static void build_forward(builder *b)
{
    int n_stages = b->p->n_stages;
    for (int m = 0; m < b->p->n_micro && mr_scope_ok(&b->n->s); m++) {
        mr_out x = b->parts[m * b->n_inputs];
        for (int s = 0; s < n_stages && mr_scope_ok(&b->n->s); s++) {
            if (m == 0)
                b->first_var[s] = b->n->vars.n;
            x = b->results[m * n_stages + s] = build_stage(b, s, m, x);
        }
        if (m == 0)
            b->first_var[n_stages] = b->n->vars.n;
        else if (mr_scope_ok(&b->n->s) && b->n->vars.n != b->first_var[n_stages])
            mr_scope_fail(&b->n->s, mr_invalid("micro-batch %d of the pipeline added variables: a stage must use the "
                                               "same ones for every micro-batch",
                                               m));
    }
}

/* ---- backward ---- */

/* Adds a micro-batch's gradient to the sum of its variable: dense ones at once, sparse ones to the list, so that their
 * rows can be concatenated. */
static void add_to_sum(builder *b, int var, const mr_gradient *g)
{
    MR_ASSERT(var >= b->first_var[0] && var < b->first_var[b->p->n_stages]);
    gradient_list *sum = &b->sums[var];
    const mr_nn_var *v = &b->n->vars.p[var];
    const char *before = mr_nn_at(b->n, v->device);
    if (g->dense.node && sum->n && sum->p[0].dense.node)
        sum->p[0].dense = mr_emit(&b->n->s, "AddV2", sum->p[0].dense, g->dense);
    else if (g->dense.node || g->values.node)
        mr_vec_push(sum, *g);
    mr_nn_at(b->n, before);
}

/* Adds the gradients of one stage for one micro-batch. dy is the gradient of its result, and becomes
 * that of its input. */
static void build_backward_task(builder *b, int stage, int micro, mr_gradient *dy)
{
    mr_nn *n = b->n;
    int n_vars = b->first_var[stage + 1] - b->first_var[stage], k = 0;
    mr_out *xs = mr_new_array(mr_out, n_vars + 1), y = b->results[micro * b->p->n_stages + stage];
    mr_gradient *g = mr_new_array(mr_gradient, n_vars + 1);
    bool last = stage == b->p->n_stages - 1;
    MR_ASSERT(n_vars >= 0 && y.node);
    span *t = task_span(b, true, stage, micro);
    t->from = count_nodes(b);
    for (int i = 0; i < n_vars; i++)
        if (n->vars.p[b->first_var[stage] + i].trainable)
            xs[k++] = n->vars.p[b->first_var[stage] + i].handle;
    /* The input comes last, so its gradient is g[k - 1]. */
    if (stage > 0)
        xs[k++] = b->results[micro * b->p->n_stages + stage - 1];
    mr_gradient_options o = {.sparse = true, .colocate = true, .grad_ys = last ? NULL : dy};
    mr_scope_fail(&n->s, mr_graph_gradients(n->s.graph, &y, 1, xs, k, &o, g));
    for (int i = 0, at = 0; i < n_vars && mr_scope_ok(&n->s); i++)
        if (n->vars.p[b->first_var[stage] + i].trainable)
            add_to_sum(b, b->first_var[stage] + i, &g[at++]);
    *dy = MR_NO_GRAD;
    if (stage > 0 && mr_scope_ok(&n->s)) {
        const char *before = mr_nn_at(n, mr_arena_strdup(&n->s.graph->arena, b->p->devices[stage]));
        dy->dense = g[k - 1].dense.node ? g[k - 1].dense : g[k - 1].values.node ? mr_gradient_dense(&n->s, &g[k - 1]) : MR_NO_OUT;
        mr_nn_at(n, before);
    }
    t->to = count_nodes(b);
    mr_free(xs);
    mr_free(g);
}

/* Stages before one whose input has no gradient have nothing to do. */
static void build_backward(builder *b)
{
    for (int m = 0; m < b->p->n_micro; m++) {
        mr_gradient dy = MR_NO_GRAD;
        for (int s = b->p->n_stages - 1; s >= 0 && mr_scope_ok(&b->n->s); s--)
            if (s == b->p->n_stages - 1 || dy.dense.node)
                build_backward_task(b, s, m, &dy);
    }
}

/* ---- nodes that a step needs ---- */

/* Marks a node and everything it depends on as needed. */
static void mark_needed(builder *b, const mr_node *n)
{
    MR_VEC(const mr_node *) open = {0};
    mr_vec_push(&open, n);
    while (open.n) {
        n = mr_vec_pop(&open);
        if (!n || b->needed[n->id])
            continue;
        b->needed[n->id] = true;
        for (int i = 0; i < n->n_in; i++)
            mr_vec_push(&open, n->in[i].node);
        for (int i = 0; i < n->n_ctrl; i++)
            mr_vec_push(&open, n->ctrl[i]);
    }
    mr_vec_deinit(&open);
}

/* ---- checking what a stage uses ---- */

/* Whether gradients flow through a node. */
static bool is_open(const mr_node *n)
{
    bool open = false;
    for (int i = 0; i < n->n_out; i++)
        open |= mr_dtype_is_trainable(mr_dtype_base(n->out_types[i]));
    return open && !mr_node_is(n, "StopGradient");
}

/* Whether a node passes gradients to a node that is marked in `trained`. */
static bool depends_on(const mr_node *n, const bool *trained)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i].node && trained[n->in[i].node->id])
            return is_open(n);
    return false;
}

/* For each node, whether it is a trainable variable or depends on one. Loops have edges from later
 * nodes, hence the repeated passes. */
static bool *find_trained(const builder *b)
{
    const mr_graph *g = b->n->s.graph;
    bool *trained = mr_new_array(bool, g->nodes.n), changed = true;
    for (int i = 0; i < b->n->vars.n; i++)
        trained[b->n->vars.p[i].handle.node->id] = b->n->vars.p[i].trainable;
    while (changed) {
        changed = false;
        for (int i = 0; i < g->nodes.n; i++)
            if (!trained[i] && depends_on(g->nodes.p[i], trained))
                trained[i] = changed = true;
    }
    return trained;
}

/* Backward, a stage sees its own variables and the result of the stage before it. Any other input that
 * depends on a trainable variable would lose a part of its gradient, so it is an error. */
static void check_task(builder *b, const bool *trained, const int *stage_of, int stage, int micro)
{
    span t = *task_span(b, false, stage, micro);
    mr_out x = stage ? b->results[micro * b->p->n_stages + stage - 1] : MR_NO_OUT;
    for (int i = t.from; i < t.to && mr_scope_ok(&b->n->s); i++) {
        const mr_node *n = b->n->s.graph->nodes.p[i];
        for (int k = 0; b->needed[i] && is_open(n) && k < n->n_in; k++) {
            const mr_node *from = n->in[k].node;
            if (from && trained[from->id] && stage_of[from->id] != stage && !(x.node && mr_out_eq(n->in[k], x)))
                mr_scope_fail(
                    &b->n->s,
                    mr_invalid("stage %d of the pipeline uses '%s', which depends on a variable of another stage or of "
                               "none: its gradient would be incomplete",
                               stage, from->name));
        }
    }
}

/* Checks every forward task. stage_of gives the stage of each node; -1: it was made outside of all stages. */
static void check_stages(builder *b)
{
    MR_ASSERT(b->needed);
    int n_nodes = count_nodes(b);
    bool *trained = find_trained(b);
    int *stage_of = mr_new_array(int, n_nodes);
    for (int i = 0; i < n_nodes; i++)
        stage_of[i] = -1;
    for (int s = 0; s < b->p->n_stages; s++)
        for (int m = 0; m < b->p->n_micro; m++)
            for (int i = task_span(b, false, s, m)->from; i < task_span(b, false, s, m)->to; i++)
                stage_of[i] = s;
    for (int s = 0; s < b->p->n_stages; s++)
        for (int m = 0; m < b->p->n_micro; m++)
            check_task(b, trained, stage_of, s, m);
    mr_free(trained);
    mr_free(stage_of);
}

/* ---- the order of tasks ---- */

static bool is_in(span t, const mr_node *n) { return n->id >= t.from && n->id < t.to; }

/* Whether a node is one of the last of its task: no needed node of the task uses it. */
static bool is_last(const builder *b, span t, const mr_node *n)
{
    for (int i = 0; i < n->uses.n; i++)
        if (is_in(t, n->uses.p[i].node) && b->needed[n->uses.p[i].node->id])
            return false;
    return true;
}

/* Whether a node is one of the first of its task: it takes a value from another task, not only constants and variables.
 */
static bool is_first(span t, const mr_node *n)
{
    for (int i = 0; i < n->n_in; i++) {
        const mr_node *from = n->in[i].node;
        if (from && !is_in(t, from) && !mr_node_is(from, "Const") && !mr_node_is(from, "VarHandleOp") &&
            !mr_node_is(from, "ReadVariableOp"))
            return true;
    }
    return false;
}

typedef MR_VEC(mr_node *) node_list;

/* Appends the last or the first nodes of a task. Constants and variables are left out: they are ready at any time. */
static void find_nodes(const builder *b, span t, bool last, node_list *out)
{
    MR_ASSERT(t.from <= t.to && t.to <= count_nodes(b));
    for (int i = t.from; i < t.to; i++) {
        mr_node *n = b->n->s.graph->nodes.p[i];
        bool resting = mr_node_is(n, "Const") || mr_node_is(n, "VarHandleOp") || mr_node_is(n, "ReadVariableOp");
        if (b->needed[i] && !resting && (last ? is_last(b, t, n) : is_first(t, n)))
            mr_vec_push(out, n);
    }
}

/* Adds control edges, so that the second task starts when the first is complete. */
static void order_tasks(builder *b, span before, span behind)
{
    node_list last = {0}, first = {0};
    find_nodes(b, before, true, &last);
    find_nodes(b, behind, false, &first);
    for (int i = 0; i < first.n; i++)
        for (int k = 0; k < last.n; k++)
            mr_node_add_control(first.p[i], last.p[k]);
    mr_vec_deinit(&last);
    mr_vec_deinit(&first);
}

/* Connects the tasks of each stage in the order of dist/pipeline.c, after checking the stages. */
static void order_all_tasks(builder *b, mr_out loss)
{
    int n_tasks = 2 * b->p->n_micro;
    mr_pipeline_task *tasks = mr_new_array(mr_pipeline_task, n_tasks);
    b->needed = mr_new_array(bool, count_nodes(b));
    mark_needed(b, loss.node);
    check_stages(b);
    for (int i = 0; i < b->n->vars.n; i++)
        for (int k = 0; k < b->sums[i].n; k++) {
            mark_needed(b, b->sums[i].p[k].dense.node);
            mark_needed(b, b->sums[i].p[k].values.node);
            mark_needed(b, b->sums[i].p[k].indices.node);
        }
    for (int s = 0; s < b->p->n_stages; s++) {
        mr_pipeline_tasks(b->p->order, b->p->n_stages, b->p->n_micro, s, tasks);
        for (int i = 1; i < n_tasks; i++)
            order_tasks(b, *task_span(b, tasks[i - 1].backward, s, tasks[i - 1].micro),
                        *task_span(b, tasks[i].backward, s, tasks[i].micro));
    }
    mr_free(tasks);
}

/* ---- one update ---- */

/* The mean over the losses of the micro-batches, on the device of the last stage. */
static mr_out mean_loss(builder *b)
{
    mr_scope *s = &b->n->s;
    int k = b->p->n_micro, last = b->p->n_stages - 1;
    mr_out *losses = mr_new_array(mr_out, k);
    const char *before = mr_nn_at(b->n, mr_arena_strdup(&s->graph->arena, b->p->devices[last]));
    for (int m = 0; m < k; m++)
        losses[m] = b->results[m * b->p->n_stages + last];
    mr_out sum = mr_emit_n(s, "AddN", NULL, 0, losses, k);
    mr_out loss = mr_scope_ok(s) ? mr_emit(s, "Mul", sum, mr_const_num(s, mr_dtype_base(mr_out_type(sum)), 1.0 / k)) : MR_NO_OUT;
    mr_nn_at(b->n, before);
    mr_free(losses);
    return loss;
}

/* The mean over the micro-batches. Rows of all of them are concatenated; one dense gradient among them makes all dense.
 */
static mr_gradient mean_gradient(builder *b, int var)
{
    mr_scope *s = &b->n->s;
    const gradient_list *g = &b->sums[var];
    MR_ASSERT(g->n > 0);
    mr_gradient out = g->p[0];
    mr_out share = mr_const_num(s, b->n->vars.p[var].dtype, 1.0 / b->p->n_micro);
    bool sparse = !g->p[0].dense.node;
    for (int i = 1; i < g->n; i++) {
        mr_out axis = mr_const_i32(s, 0);
        sparse &= !g->p[i].dense.node;
        if (sparse) {
            mr_out v[2] = {out.values, g->p[i].values}, at[2] = {out.indices, g->p[i].indices};
            out.values = mr_emit_lists(s, "ConcatV2", NULL, 0, (mr_emit_arg[]){{2, v}, {-1, &axis}}, 2);
            out.indices = mr_emit_lists(s, "ConcatV2", NULL, 0, (mr_emit_arg[]){{2, at}, {-1, &axis}}, 2);
            continue;
        }
        mr_out sum = out.dense.node ? out.dense : mr_gradient_dense(s, &out);
        mr_out more = g->p[i].dense.node ? g->p[i].dense : mr_gradient_dense(s, &g->p[i]);
        out = (mr_gradient){.dense = mr_emit(s, "AddV2", sum, more)};
    }
    if (out.dense.node)
        out.dense = mr_emit(s, "Mul", out.dense, share);
    else
        out.values = mr_emit(s, "Mul", out.values, share);
    return out;
}

/* Adds one update from the mean gradients of the variables that the stages made. */
static mr_node *add_update(builder *b, const mr_nn_optimizer *o)
{
    int n_vars = b->first_var[b->p->n_stages];
    mr_nn_gradients g = {.var = mr_new_array(int, n_vars + 1), .g = mr_new_array(mr_gradient, n_vars + 1)};
    for (int i = b->first_var[0]; i < n_vars && mr_scope_ok(&b->n->s); i++) {
        if (!b->sums[i].n)
            continue;
        const char *before = mr_nn_at(b->n, b->n->vars.p[i].device);
        g.var[g.n] = i;
        g.g[g.n++] = mean_gradient(b, i);
        mr_nn_at(b->n, before);
    }
    if (mr_scope_ok(&b->n->s) && g.n == 0)
        mr_scope_fail(&b->n->s, mr_invalid("the loss of the pipeline does not depend on any trainable variable"));
    mr_node *train = mr_scope_ok(&b->n->s) ? mr_nn_apply(b->n, o, &g) : NULL;
    mr_nn_gradients_deinit(&g);
    return train;
}

/* ---- building everything ---- */

/* false: the pipeline is not possible, or the scope had an error already. */
static bool check_pipeline(mr_nn *n, const mr_nn_pipeline *p, int n_inputs)
{
    if (p->n_stages < 1 || p->n_stages > MR_PIPELINE_MAX || p->n_micro < 1 || p->n_micro > MR_PIPELINE_MAX || n_inputs < 1)
        mr_scope_fail(&n->s, mr_invalid("a pipeline of %d stages, %d micro-batches and %d inputs is not possible",
                                        p->n_stages, p->n_micro, n_inputs));
    else if (p->order != MR_ORDER_FILL_DRAIN && p->order != MR_ORDER_1F1B)
        mr_scope_fail(&n->s, mr_invalid("unknown order of a pipeline: %d", (int)p->order));
    return mr_scope_ok(&n->s);
}

/* n_vars: the length of sums, which exists only once the forward pass was built. */
static void deinit_builder(builder *b, int n_vars)
{
    for (int i = 0; b->sums && i < n_vars; i++)
        mr_vec_deinit(&b->sums[i]);
    mr_free(b->sums);
    mr_free(b->parts);
    mr_free(b->results);
    mr_free(b->tasks[0]);
    mr_free(b->tasks[1]);
    mr_free(b->first_var);
    mr_free(b->needed);
}

/* Each phase is skipped after an error, which is in the scope. */
mr_node *mr_nn_pipeline_minimize(mr_nn *n, const mr_nn_pipeline *p, const mr_out *inputs, int n_inputs,
                                  const mr_nn_optimizer *o, mr_out *loss)
{
    builder b = {.n = n, .p = p, .inputs = inputs, .n_inputs = n_inputs};
    mr_node *train = NULL;
    int n_vars = 0;
    *loss = MR_NO_OUT;
    if (!check_pipeline(n, p, n_inputs))
        return NULL;
    b.parts = mr_new_array(mr_out, p->n_micro * n_inputs);
    b.results = mr_new_array(mr_out, p->n_micro * p->n_stages);
    for (int i = 0; i < 2; i++)
        b.tasks[i] = mr_new_array(span, p->n_stages * p->n_micro);
    b.first_var = mr_new_array(int, p->n_stages + 1);
    split_inputs(&b);
    build_forward(&b);
    if (mr_scope_ok(&n->s)) {
        n_vars = n->vars.n;
        b.sums = mr_new_array(gradient_list, n_vars + 1);
        build_backward(&b);
    }
    if (mr_scope_ok(&n->s))
        *loss = mean_loss(&b);
    if (mr_scope_ok(&n->s)) {
        order_all_tasks(&b, *loss);
        train = add_update(&b, o);
    }
    deinit_builder(&b, n_vars);
    return mr_scope_ok(&n->s) ? train : NULL;
}
