/* train/sync.c -- the nodes of synchronous training.
 *
 * Every worker builds all of them, including the chief's, and each runs its part. A worker's step, in
 * one run:
 *
 *     gradients -> ApplyGradient (dropped if stale) -> message "arrived" -> token -> the client
 *
 * Whether a worker has left is also recorded beside the queue of messages, for a chief that starts
 * later: as a variable that is created when the worker leaves and destroyed when it joins again. So it
 * needs no initial value.
 *
 * What all processes share by name:
 *
 *     VARIABLE/grad_accum     accumulator, on the device of the variable
 *     sync_events             queue of messages, on the device of the global step
 *     sync_token_q_I          queue of tokens of worker I, likewise
 *     sync_left_I             exists while worker I has left, likewise
 *
 * A token queue has one reader, so "everything in the queue, at least one" is a QueueSize and a
 * DequeueMany: a worker that was slow sees only the newest token. The same holds for the chief and the
 * messages. */
#include "train/sync.h"

#include "train/sync_internal.h"

typedef struct maker {
    mr_nn *n;
    mr_nn_sync *y;
    const mr_nn_var *step; /* the global one; set by mr_nn_sync_end */
} maker;

static mr_out int64_input(mr_nn *n, const char *name)
{
    return mr_placeholder(&n->s, MR_INT64, name, &mr_pshape_scalar);
}

/* Nodes added from now on run after these. */
static void add_controls(mr_nn *n, mr_node *const *nodes, int k)
{
    for (int i = 0; i < k; i++)
        if (nodes[i])
            mr_vec_push(&n->s.controls, nodes[i]);
}

/* A NoOp that runs after all these nodes; NULL after an error. */
static mr_node *group_nodes(mr_nn *n, const char *name, mr_node *const *nodes, int k)
{
    MR_ASSERT(n->s.controls.n == 0);
    add_controls(n, nodes, k);
    mr_out g = mr_scope_ok(&n->s) ? mr_emit0(mr_as(&n->s, name), "NoOp") : MR_NO_OUT;
    n->s.controls.n = 0;
    return g.node;
}

/* ---- queues of int64 tuples ---- */

/* A queue that all processes share by its name. It needs no initial value, and is empty after a restart of its task. */
static mr_out make_queue(mr_nn *n, const char *name, int width)
{
    MR_ASSERT(width >= 1 && width <= 3);
    int types[] = {MR_INT64, MR_INT64, MR_INT64};
    const mr_pshape *shapes[] = {&mr_pshape_scalar, &mr_pshape_scalar, &mr_pshape_scalar};
    return mr_emit0_with(mr_as(&n->s, name), "FIFOQueueV2",
                         MR_ATTRS({"component_types", mr_a_types(width, types)}, {"shapes", mr_a_shapes(width, shapes)},
                                  {"shared_name", mr_a_str(mr_arena_strdup(&n->s.graph->arena, name))}));
}

/* Takes everything in the queue, at least one tuple: one vector for each component. */
static mr_out dequeue_all(mr_nn *n, mr_out q, int width)
{
    int types[] = {MR_INT64, MR_INT64, MR_INT64};
    mr_out count = mr_emit(&n->s, "Maximum", mr_emit(&n->s, "QueueSizeV2", q), mr_const_i32(&n->s, 1));
    return mr_emit_with(&n->s, "QueueDequeueManyV2", MR_ATTRS({"component_types", mr_a_types(width, types)}), q, count);
}

/* Takes all tokens and keeps the last one, which is the newest. Not the largest: after a loss the
 * global step may fall. */
static void dequeue_token(mr_nn *n, mr_out q, mr_out out[2])
{
    mr_out all = dequeue_all(n, q, 2);
    mr_out last = mr_const_vec_i32(&n->s, 1, (int32_t[]){-1}), end = mr_const_vec_i32(&n->s, 1, (int32_t[]){0});
    mr_out one = mr_const_vec_i32(&n->s, 1, (int32_t[]){1});
    for (int i = 0; i < 2; i++)
        out[i] = mr_emit_with(&n->s, "StridedSlice", MR_ATTRS({"shrink_axis_mask", mr_a_int(1)}), mr_nth(all, i), last, end,
                              one);
}

static mr_out add_enqueue(mr_nn *n, const char *op, mr_out q, const mr_out *values, int width)
{
    return mr_emit_lists(&n->s, op, NULL, 0, (mr_emit_arg[]){{-1, &q}, {width, values}}, 2);
}

/* A vector of to[worker] copies of a scalar: 0 copies enqueue nothing. */
static mr_out copies_for_worker(mr_nn *n, mr_out to, int worker, mr_out v)
{
    MR_ASSERT(worker >= 0);
    mr_out k = mr_emit(&n->s, "Slice", to, mr_const_vec_i32(&n->s, 1, (int32_t[]){worker}),
                       mr_const_vec_i32(&n->s, 1, (int32_t[]){1}));
    return mr_emit(&n->s, "Fill", k, v);
}

/* Adds the nodes that give tokens to the workers named by `to`, after the node `behind` if there is
 * one. The step in a token is read from the variable when the token is given: the chief's own count
 * would miss the last update of a chief that it replaced, and send workers back by a step. *step
 * receives that read. */
static mr_node *give_tokens(maker *m, const char *name, const mr_out *queues, mr_node *behind, mr_out *step)
{
    mr_nn *n = m->n;
    mr_sync_nodes given = {0};
    add_controls(n, &behind, behind != NULL);
    *step = mr_nn_read(n, m->step);
    n->s.controls.n = 0;
    for (int i = 0; i < m->y->o.n_workers; i++) {
        mr_out v[2] = {copies_for_worker(n, m->y->to, i, m->y->give), copies_for_worker(n, m->y->to, i, *step)};
        mr_vec_push(&given, add_enqueue(n, "QueueEnqueueManyV2", queues[i], v, 2).node);
    }
    mr_node *g = group_nodes(n, name, given.p, given.n);
    mr_vec_deinit(&given);
    return g;
}

/* ---- workers that have left ---- */

/* The variable that exists while the worker has left. */
static mr_out left_flag(mr_nn *n, int worker)
{
    const char *name = mr_arena_printf(&n->s.graph->arena, "sync_left_%d", worker);
    return mr_emit0_with(mr_as(&n->s, name), "VarHandleOp",
                         MR_ATTRS({"dtype", mr_a_type(MR_INT64)}, {"shape", mr_a_shape(&mr_pshape_scalar)},
                                  {"shared_name", mr_a_str(name)}));
}

/* Enqueues a message after the change that it reports. */
static mr_node *say_behind(maker *m, mr_out events, mr_node *change)
{
    add_controls(m->n, &change, change != NULL);
    mr_node *said = add_enqueue(m->n, "QueueEnqueueV2", events, m->y->message, 3).node;
    m->n->s.controls.n = 0;
    return said;
}

/* Adds the nodes by which this worker leaves and joins, and `left`, which reads the flags of all
 * workers. */
static void make_left(maker *m, mr_out events)
{
    mr_nn_sync *y = m->y;
    mr_nn *n = m->n;
    mr_out *flags = mr_new_array(mr_out, y->o.n_workers);
    for (int i = 0; i < y->o.n_workers; i++) {
        mr_out h = left_flag(n, i);
        flags[i] = mr_emit(&n->s, "VarIsInitializedOp", h);
        if (i != y->o.worker)
            continue;
        y->say_leave = say_behind(m, events, mr_emit(&n->s, "AssignVariableOp", h, mr_const_i64(&n->s, 1)).node);
        y->say_join = say_behind(m, events, mr_emit(&n->s, "DestroyResourceOp", h).node);
    }
    y->left = mr_emit_lists(&n->s, "Pack", NULL, 0, (mr_emit_arg[]){{y->o.n_workers, flags}}, 1);
    mr_free(flags);
}

/* ---- accumulators ---- */

/* An accumulator beside a variable, shared by all processes under the variable's name. */
static mr_out make_accumulator(mr_nn *n, const mr_nn_var *v, const mr_pshape *shape, const char *op,
                               const char *reduction)
{
    const char *name = mr_arena_printf(&n->s.graph->arena, "%s/grad_accum", v->name);
    return mr_emit0_with(mr_as(&n->s, name), op,
                         MR_ATTRS({"dtype", mr_a_type(v->dtype)}, {"shape", mr_a_shape(shape)},
                                  {"shared_name", mr_a_str(name)}, {"reduction_type", mr_a_str(reduction)}));
}

/* What the chief needs of every accumulator besides its sum. */
static void add_accumulator(maker *m, mr_out acc, mr_node *drain)
{
    mr_sync_accumulator a = {.count = mr_emit(&m->n->s, "AccumulatorNumAccumulated", acc), .drain = drain};
    mr_vec_push(&m->y->set, mr_emit(&m->n->s, "AccumulatorSetGlobalStep", acc, m->y->stamp).node);
    mr_vec_push(&m->y->accumulators, a);
}

/* Sends this worker's gradient to an accumulator beside the variable, and replaces it in g by the mean
 * taken from there. */
static void sync_dense(maker *m, const mr_nn_var *v, mr_gradient *g)
{
    mr_nn *n = m->n;
    mr_out acc = make_accumulator(n, v, mr_out_shape(v->value), "ConditionalAccumulator", "MEAN");
    mr_out push = mr_emit_with(&n->s, "AccumulatorApplyGradient", MR_ATTRS({"dtype", mr_a_type(v->dtype)}), acc,
                               m->y->local, g->dense);
    mr_vec_push(&m->y->pushed, push.node);
    mr_named_attr type = {"dtype", mr_a_type(v->dtype)};
    g->dense = mr_emit_n(&n->s, "AccumulatorTakeGradient", &type, 1, MR_OUTS(acc, m->y->required));
    mr_out drain = mr_emit_n(&n->s, "AccumulatorTakeGradient", &type, 1, MR_OUTS(acc, mr_const_i32(&n->s, 1)));
    add_accumulator(m, acc, drain.node);
}

/* Sorts the rows and adds up duplicates, as the accumulator requires; on the worker, so that less data travels. */
static void sort_rows(mr_nn *n, mr_gradient *g)
{
    g->indices = mr_emit_with(&n->s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_INT64)}), g->indices);
    mr_nn_sum_rows(n, g);
    mr_out order = mr_emit(&n->s, "TopKV2", mr_emit(&n->s, "Neg", g->indices), mr_emit(&n->s, "Size", g->indices));
    g->indices = mr_emit(&n->s, "Neg", order);
    g->values = mr_emit(&n->s, "GatherV2", g->values, mr_nth(order, 1), mr_const_i32(&n->s, 0));
}

static mr_out concat_rows(mr_nn *n, mr_out a, mr_out b)
{
    mr_out both[] = {a, b}, axis = mr_const_i32(&n->s, 0);
    return mr_emit_lists(&n->s, "ConcatV2", NULL, 0, (mr_emit_arg[]){{2, both}, {-1, &axis}}, 2);
}

/* Rows from `from` to the end; from 0: all but the last row. */
static mr_out cut_rows(mr_nn *n, mr_out x, int32_t from)
{
    mr_out begin = mr_const_vec_i32(&n->s, 1, &from), end = mr_const_vec_i32(&n->s, 1, (int32_t[]){from ? 0 : -1});
    mr_out one = mr_const_vec_i32(&n->s, 1, (int32_t[]){1});
    return mr_emit_with(&n->s, "StridedSlice", MR_ATTRS({"end_mask", mr_a_int(from ? 1 : 0)}), x, begin, end, one);
}

/* Appends a row of ones, so that the sum contains the number of gradients in it. Asking the
 * accumulator for its count instead could include a gradient that arrives in between. */
static void add_count(mr_nn *n, mr_gradient *g, const mr_pshape *s, int64_t *dims)
{
    MR_ASSERT(s->rank >= 1 && s->rank <= MR_MAX_RANK);
    mr_out at = mr_const(&n->s, mr_tensor_vector_i64(1, &s->dims[0]));
    for (int i = 0; i < s->rank; i++)
        dims[i] = i ? s->dims[i] : 1;
    mr_out ones = mr_emit(&n->s, "Fill", mr_const(&n->s, mr_tensor_vector_i64(s->rank, dims)), mr_const_num(&n->s, mr_out_type(g->values), 1));
    g->indices = concat_rows(n, g->indices, at);
    g->values = concat_rows(n, g->values, ones);
    dims[0] = s->dims[0] + 1;
}

/* Like sync_dense for rows. The accumulator's own mean is over the workers that touched a row. We need
 * the mean over all workers, as for dense gradients, so the sum is taken and divided by the row of
 * add_count. */
static void sync_sparse(maker *m, const mr_nn_var *v, mr_gradient *g, const char *worker)
{
    mr_nn *n = m->n;
    const mr_pshape *s = mr_out_shape(v->value);
    int64_t dims[MR_MAX_RANK];
    const char *device = mr_nn_at(n, worker);
    sort_rows(n, g);
    if (!mr_scope_ok(&n->s))
        return;
    add_count(n, g, s, dims);
    /* From here on at the variable: only sorted rows, each once, travel to it. */
    mr_nn_at(n, device);
    mr_named_attr type = {"dtype", mr_a_type(v->dtype)};
    mr_out acc =
        make_accumulator(n, v, mr_pshape_of(&n->s.graph->arena, s->rank, dims), "SparseConditionalAccumulator", "SUM");
    mr_out shape = mr_const(&n->s, mr_tensor_vector_i64(s->rank, dims));
    mr_out push = mr_emit_with(&n->s, "SparseAccumulatorApplyGradient",
                               MR_ATTRS({"dtype", mr_a_type(v->dtype)}, {"has_known_shape", mr_a_bool(true)}), acc,
                               m->y->local, g->indices, g->values, shape);
    mr_vec_push(&m->y->pushed, push.node);
    mr_out drain = mr_emit_n(&n->s, "SparseAccumulatorTakeGradient", &type, 1, MR_OUTS(acc, mr_const_i32(&n->s, 1)));
    add_accumulator(m, acc, drain.node);
    mr_out sum = mr_emit_n(&n->s, "SparseAccumulatorTakeGradient", &type, 1, MR_OUTS(acc, m->y->required));
    mr_out count = cut_rows(n, mr_nth(sum, 1), -1);
    g->indices = cut_rows(n, sum, 0);
    g->values = cut_rows(n, mr_emit(&n->s, "RealDiv", mr_nth(sum, 1), count), 0);
    shape = mr_const(&n->s, mr_tensor_vector_i64(s->rank, s->dims));
    g->dense_shape = mr_emit_with(&n->s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_INT32)}), shape);
}

/* Replaces each gradient of this worker by the mean over all workers, on the device of its variable. */
static void sync_gradients(maker *m, mr_nn_gradients *g)
{
    for (int i = 0; i < g->n && mr_scope_ok(&m->n->s); i++) {
        mr_nn_var v = m->n->vars.p[g->var[i]];
        const char *worker = mr_nn_at(m->n, v.device);
        if (g->g[i].dense.node)
            sync_dense(m, &v, &g->g[i]);
        else if (g->g[i].values.node)
            sync_sparse(m, &v, &g->g[i], worker);
        mr_nn_at(m->n, worker);
    }
    if (mr_scope_ok(&m->n->s) && m->y->pushed.n == 0)
        mr_scope_fail(&m->n->s, mr_invalid("the loss does not depend on any trainable variable"));
}

/* ---- building everything ---- */

/* Adds the placeholders. */
static void make_inputs(maker *m)
{
    mr_nn_sync *y = m->y;
    mr_nn *n = m->n;
    const char *messages[] = {"word/worker", "word/what", "word/stamp"};
    y->local = int64_input(n, "local_step");
    for (int i = 0; i < 3; i++)
        y->message[i] = int64_input(n, messages[i]);
    y->give = int64_input(n, "token/stamp");
    y->stamp = int64_input(n, "stamp");
    y->required = mr_placeholder(&n->s, MR_INT32, "required", &mr_pshape_scalar);
    y->to = mr_placeholder(&n->s, MR_INT32, "token/to", mr_pshape_of(&n->s.graph->arena, 1, (int64_t[]){y->o.n_workers}));
}

/* The message "arrived" runs after all gradients, and the token after the message. */
static void make_worker(maker *m, mr_out events, mr_out tokens)
{
    mr_nn_sync *y = m->y;
    mr_nn *n = m->n;
    y->say = add_enqueue(n, "QueueEnqueueV2", events, y->message, 3).node;
    dequeue_token(n, tokens, y->wait);
    mr_out said[3] = {mr_const_i64(&n->s, y->o.worker), mr_const_i64(&n->s, MR_SYNC_ARRIVED), y->local};
    add_controls(n, m->y->pushed.p, m->y->pushed.n);
    mr_node *arrived = add_enqueue(n, "QueueEnqueueV2", events, said, 3).node;
    n->s.controls.n = 0;
    add_controls(n, &arrived, arrived != NULL);
    dequeue_token(n, tokens, y->token);
    n->s.controls.n = 0;
}

/* The chief's nodes: reading messages, moving the accumulators to a new stamp, giving tokens, and the update. */
static void make_chief(maker *m, mr_out events, const mr_out *tokens, mr_node *train)
{
    mr_out unused, messages = dequeue_all(m->n, events, 3);
    for (int i = 0; i < 3; i++)
        m->y->events[i] = mr_nth(messages, i);
    m->y->set_stamp = group_nodes(m->n, "set_stamp", m->y->set.p, m->y->set.n);
    m->y->tell = give_tokens(m, "tell", tokens, NULL, &unused);
    if (!m->y->o.bounded)
        m->y->apply = give_tokens(m, "apply", tokens, train, &m->y->step_after);
}

/* y, or NULL (y is freed) after an error, which is in the scope. */
static mr_nn_sync *sync_or_null(mr_nn *n, mr_nn_sync *y)
{
    if (mr_scope_ok(&n->s))
        return y;
    mr_nn_sync_free(y);
    return NULL;
}

/* false: the options are invalid, or the scope had an error already. */
static bool check_options(mr_nn *n, const mr_nn_sync_options *o)
{
    enum { MAX_WORKERS = 65536 };
    if (o->n_workers < 1 || o->n_workers > MAX_WORKERS || o->worker < 0 || o->worker >= o->n_workers ||
        o->aggregate < MR_SYNC_ADAPTIVE || o->aggregate > o->n_workers)
        mr_scope_fail(
            &n->s, mr_invalid("synchronous training: worker %d of %d with %d gradients for each step is not possible",
                              o->worker, o->n_workers, o->aggregate));
    return mr_scope_ok(&n->s);
}

/* The first half: inputs, gradients and accumulators. g receives the gradients to make the update
 * from. */
mr_nn_sync *mr_nn_sync_begin(mr_nn *n, mr_out loss, const mr_nn_sync_options *options, mr_nn_gradients *g)
{
    const char *saved;
    *g = (mr_nn_gradients){0};
    if (!check_options(n, options))
        return NULL;
    maker m = {.n = n, .y = mr_new(mr_nn_sync)};
    m.y->o = *options;
    mr_mutex_init(&m.y->mu);
    m.y->knew_left = mr_new_array(bool, options->n_workers);
    m.y->step = mr_nn_global_step(n);
    mr_nn_gradients_of(n, loss, g);
    mr_nn_enter(n, "sync", &saved);
    make_inputs(&m);
    if (!options->bounded)
        sync_gradients(&m, g);
    mr_nn_leave(n, saved);
    return sync_or_null(n, m.y);
}

/* The nodes of the worker and of the chief, on the device of the global step. With a bounded delay
 * each worker makes its own update, so the message follows that update. */
static void make_both(maker *m, mr_node *train)
{
    mr_nn *n = m->n;
    mr_nn_sync *y = m->y;
    const char *saved, *worker = mr_nn_at(n, m->step->device);
    mr_out *tokens = mr_new_array(mr_out, y->o.n_workers);
    mr_nn_enter(n, "sync", &saved);
    if (y->o.bounded)
        mr_vec_push(&y->pushed, train);
    MR_ASSERT(y->pushed.n > 0); /* else the message "arrived" would not wait for anything */
    mr_out events = make_queue(n, "sync_events", 3);
    for (int i = 0; i < y->o.n_workers; i++)
        tokens[i] = make_queue(n, mr_arena_printf(&n->s.graph->arena, "sync_token_q_%d", i), 2);
    make_worker(m, events, tokens[y->o.worker]);
    make_left(m, events);
    make_chief(m, events, tokens, train);
    mr_nn_leave(n, saved);
    mr_nn_at(n, worker);
    mr_free(tokens);
}

/* train is NULL only if the caller's update failed; then the error is in the scope. */
mr_nn_sync *mr_nn_sync_end(mr_nn_sync *y, mr_nn *n, mr_node *train)
{
    maker m = {n, y, mr_scope_ok(&n->s) ? mr_nn_find(n, y->step) : NULL};
    if (train && m.step)
        make_both(&m, train);
    return sync_or_null(n, y);
}

mr_nn_sync *mr_nn_sync_new(mr_nn *n, mr_out loss, const mr_nn_optimizer *o, const mr_nn_sync_options *options)
{
    mr_nn_gradients g;
    mr_nn_sync *y = mr_nn_sync_begin(n, loss, options, &g);
    if (y)
        y = mr_nn_sync_end(y, n, mr_nn_apply(n, o, &g));
    mr_nn_gradients_deinit(&g);
    return y;
}

void mr_nn_sync_free(mr_nn_sync *y)
{
    if (!y)
        return;
    mr_vec_deinit(&y->accumulators);
    mr_vec_deinit(&y->pushed);
    mr_vec_deinit(&y->set);
    mr_mutex_deinit(&y->mu);
    mr_free(y->figures);
    mr_free(y->present);
    mr_free(y->knew_left);
    mr_free(y);
}
