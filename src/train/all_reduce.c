/* train/all_reduce.c -- the nodes and runs of training by all-reduce.
 *
 * Dense gradients are concatenated into buckets, reduced to their mean, and split again. Sparse
 * gradients are padded to the same number of rows at all workers, gathered, and added up by each
 * worker in the same order. No variable is updated before all exchanges of a step are complete
 * (hold_back_updates), so a step that fails has changed nothing. The nodes of a step:
 *
 *     gradients -> ConcatV2 -> CollectiveReduceV2 -> SplitV -> Reshape -> Identity (hold_back_updates) -> update
 *     rows      -> number of rows -> pad -> CollectiveGatherV2 -> drop padding -> sum -> Identity -> update
 *
 * Instance keys identify an exchange at all workers, so they depend only on the order in which the
 * network was built: 1 and up for buckets, FIRST_VARIABLE for variables, FIRST_SPARSE (three each) for
 * sparse gradients. */
#include "train/all_reduce.h"

#include "base/memory.h"
#include "base/report.h"

enum { FIRST_SPARSE = 1 << 22, FIRST_VARIABLE = 1 << 20 };

typedef struct maker {
    mr_nn *n;
    mr_nn_reduce *r;
    mr_nn_gradients *g;
    MR_VEC(mr_node *) all; /* gradients that every exchange waits for; empty with overlap */
    MR_VEC(mr_node *) means; /* all exchanges */
} maker;

/* ---- one exchange ---- */

/* Adds a collective op of the group that the caller feeds as size and key. */
static mr_out add_exchange(mr_nn *n, const mr_nn_reduce *r, const char *op, mr_out in, int instance,
                           const mr_named_attr *attrs, int n_attrs)
{
    MR_ASSERT(instance > 0);
    mr_out ins[] = {in, r->size, r->key, mr_const_i32(&n->s, instance)};
    return mr_emit_n(&n->s, op, attrs, n_attrs, ins, 4);
}

/* An exchange of gradients, recorded in m->means for hold_back_updates. Without overlap it runs after all gradients. */
static mr_out exchange_of_step(maker *m, const char *op, mr_out t, int instance, const mr_named_attr *attrs, int n_attrs)
{
    MR_ASSERT(m->n->s.controls.n == 0);
    for (int i = 0; i < m->all.n; i++)
        mr_vec_push(&m->n->s.controls, m->all.p[i]);
    mr_out out = add_exchange(m->n, m->r, op, t, instance, attrs, n_attrs);
    m->n->s.controls.n = 0;
    if (out.node)
        mr_vec_push(&m->means, out.node);
    return out;
}

/* Merges t over all workers; "Add" gives the mean. */
static mr_out merge_over_workers(maker *m, mr_out t, const char *merge, int instance)
{
    bool mean = strcmp(merge, "Add") == 0;
    mr_named_attr attrs[] = {{"merge_op", mr_a_str(merge)},
                             {"final_op", mr_a_str(mean ? "Div" : "Id")},
                             {"Nordering_token", mr_a_int(0)},
                             {"timeout_seconds", mr_a_float(m->r->o.timeout_s)}};
    return exchange_of_step(m, "CollectiveReduceV2", t, instance, attrs, 4);
}

static mr_out mean_over_workers(maker *m, mr_out t, int instance) { return merge_over_workers(m, t, "Add", instance); }

/* Concatenates t of all workers, which have the same shape, in the order of ranks. */
static mr_out gather_over_workers(maker *m, mr_out t, int instance)
{
    mr_named_attr attrs[] = {{"Nordering_token", mr_a_int(0)}, {"timeout_seconds", mr_a_float(m->r->o.timeout_s)}};
    return exchange_of_step(m, "CollectiveGatherV2", t, instance, attrs, 2);
}

/* ---- types ---- */

/* The type as which t travels: types that collectives do not support travel as one of the same size;
 * 0: not possible. */
static mr_dtype plain_as(mr_dtype t)
{
    static const mr_dtype known[] = {MR_BOOL, MR_FLOAT, MR_HALF, MR_DOUBLE, MR_INT32, MR_INT64};
    for (int i = 0; i < MR_COUNT(known); i++)
        if (t == known[i])
            return t;
    switch (mr_dtype_is_plain(t) ? mr_dtype_size(t) : 0) {
    case 2: return MR_HALF;
    case 4: return MR_INT32;
    case 8: return MR_INT64;
    default: return 0;
    }
}

/* plain_as of a variable's type; after an error 0, and the error is in the scope. */
static mr_dtype travels_as(mr_nn *n, const mr_nn_var *v)
{
    mr_dtype t = plain_as(v->dtype);
    if (!t)
        mr_scope_fail(&n->s, mr_invalid("variable %s of type %s cannot be sent between workers", v->name,
                                        mr_dtype_name(v->dtype)));
    return t;
}

/* Reinterprets the bits of t; both types have the same size. */
static mr_out as_type(mr_nn *n, mr_out t, mr_dtype from, mr_dtype to)
{
    MR_ASSERT(!to || mr_dtype_size(from) == mr_dtype_size(to));
    return from == to ? t : mr_emit_with(&n->s, "Bitcast", MR_ATTRS({"type", mr_a_type(to)}), t);
}

/* ---- buckets ---- */

static mr_out flatten(mr_nn *n, mr_out t)
{
    return mr_emit(&n->s, "Reshape", t, mr_const_vec_i32(&n->s, 1, (const int32_t[]){-1}));
}

/* The dimensions of a variable from number `first` on, as a constant. */
static mr_out dims_of(mr_nn *n, const mr_nn_var *v, int first)
{
    const mr_pshape *s = mr_out_shape(v->value);
    int32_t dims[MR_MAX_RANK];
    for (int i = first; i < s->rank; i++) {
        if (s->dims[i] > INT32_MAX)
            mr_scope_fail(&n->s, mr_invalid("variable '%s': dimension %d is %lld, all-reduce supports at most %d",
                                            v->name, i, (long long)s->dims[i], INT32_MAX));
        dims[i] = (int32_t)s->dims[i];
    }
    return mr_const_vec_i32(&n->s, MR_MAX(s->rank - first, 0), dims + first);
}

/* Replaces the gradients in[0..k) (indices into m->g) by their means: one vector, one exchange, split
 * again. */
static void reduce_bucket(maker *m, const int *in, int k)
{
    MR_ASSERT(k > 0);
    mr_nn *n = m->n;
    mr_out *parts = mr_new_array(mr_out, k + 1);
    int instance = ++m->r->n_buckets;
    /* A single gradient needs no vector around it. */
    if (k == 1) {
        m->g->g[in[0]].dense = mean_over_workers(m, m->g->g[in[0]].dense, instance);
        mr_free(parts);
        return;
    }
    int32_t *sizes = mr_new_array(int32_t, k);
    for (int i = 0; i < k; i++) {
        MR_ASSERT(n->vars.p[m->g->var[in[i]]].n <= INT32_MAX); /* reduce_all limits the bytes of a bucket */
        parts[i] = flatten(n, m->g->g[in[i]].dense);
        sizes[i] = (int32_t)n->vars.p[m->g->var[in[i]]].n;
    }
    mr_out axis = mr_const_i32(&n->s, 0);
    mr_out one = mr_emit_lists(&n->s, "ConcatV2", NULL, 0, (mr_emit_arg[]){{k, parts}, {-1, &axis}}, 2);
    mr_out whole = mean_over_workers(m, one, instance);
    mr_out split = mr_emit_with(&n->s, "SplitV", MR_ATTRS({"num_split", mr_a_int(k)}), whole,
                                mr_const_vec_i32(&n->s, k, sizes), axis);
    for (int i = 0; i < k && mr_scope_ok(&n->s); i++)
        m->g->g[in[i]].dense = mr_emit(&n->s, "Reshape", mr_nth(split, i), dims_of(n, &n->vars.p[m->g->var[in[i]]], 0));
    mr_free(parts);
    mr_free(sizes);
}

/* The bytes of gradient i, which has the type and shape of its variable. */
static int64_t bytes_of(const maker *m, int i)
{
    MR_ASSERT(i >= 0 && i < m->g->n && m->g->var[i] < m->n->vars.n);
    const mr_nn_var *v = &m->n->vars.p[m->g->var[i]];
    return v->n * (int64_t)mr_dtype_size(v->dtype);
}

/* Fills the buckets from the last gradient to the first, because back-propagation computes the last
 * one first. */
static void reduce_all(maker *m)
{
    int64_t limit = MR_MIN(m->r->o.bucket_bytes ? m->r->o.bucket_bytes : 4 << 20, 1 << 30); /* sizes are int32 */
    int *in = mr_new_array(int, m->g->n + 1), k = 0;
    int64_t bytes = 0;
    for (int i = m->g->n - 1; i >= 0 && mr_scope_ok(&m->n->s); i--) {
        if (!m->g->g[i].dense.node)
            continue;
        bool fits = k == 0 || (bytes + bytes_of(m, i) <= limit &&
                               m->n->vars.p[m->g->var[i]].dtype == m->n->vars.p[m->g->var[in[0]]].dtype);
        if (!fits) {
            reduce_bucket(m, in, k);
            k = 0;
            bytes = 0;
        }
        in[k++] = i;
        bytes += bytes_of(m, i);
    }
    if (k && mr_scope_ok(&m->n->s))
        reduce_bucket(m, in, k);
    mr_free(in);
}

/* ---- sparse gradients ---- */

/* Workers have different numbers of rows, but a gather needs one shape. So all send as many rows as the one with the
 * most, and one row if none has any: a worker that sends nothing waits for nobody, and could finish its last step and
 * leave before another has begun it. Rows added as padding have the index NO_ROW. */
enum { NO_ROW = -1 };

/* Appends `rows` rows of padding to t, which holds values of the variable's rows, or indices. */
static mr_out pad_rows(mr_nn *n, const mr_nn_var *v, mr_out t, mr_dtype type, mr_out rows, bool indices)
{
    mr_out axis = mr_const_i32(&n->s, 0), shape[] = {rows, dims_of(n, v, 1)};
    mr_out all = mr_emit_lists(&n->s, "ConcatV2", NULL, 0, (mr_emit_arg[]){{2, shape}, {-1, &axis}}, 2);
    mr_out more = mr_emit(&n->s, "Fill", indices ? rows : all, mr_const_num(&n->s, type, indices ? NO_ROW : 0));
    return mr_emit_lists(&n->s, "ConcatV2", NULL, 0, (mr_emit_arg[]){{2, (mr_out[]){t, more}}, {-1, &axis}}, 2);
}

/* The rows of t that are not padding. */
static mr_out take_rows(mr_nn *n, mr_out t, mr_out which)
{
    return mr_emit(&n->s, "GatherV2", t, which, mr_const_i32(&n->s, 0));
}

/* Replaces a sparse gradient by the mean over all workers. Each worker sends a row once; then every
 * worker adds up the rows in the order of ranks, so all get the same bits. */
static void reduce_rows(maker *m, int i)
{
    mr_nn *n = m->n;
    mr_nn_var v = n->vars.p[m->g->var[i]];
    mr_gradient *g = &m->g->g[i];
    mr_dtype as = travels_as(n, &v), index = mr_dtype_base(mr_out_type(g->indices));
    int instance = FIRST_SPARSE + 3 * m->r->n_sparse++;
    mr_nn_sum_rows(n, g);
    mr_out count = mr_emit(&n->s, "Shape", g->indices);
    mr_out most = mr_emit(&n->s, "Maximum", merge_over_workers(m, count, "Max", instance), mr_const_i32(&n->s, 1));
    mr_out more = mr_emit(&n->s, "Sub", most, count);
    mr_out indices = gather_over_workers(m, pad_rows(n, &v, g->indices, index, more, true), instance + 1);
    mr_out values =
        gather_over_workers(m, as_type(n, pad_rows(n, &v, g->values, v.dtype, more, false), v.dtype, as), instance + 2);
    mr_out there = mr_emit(&n->s, "GreaterEqual", indices, mr_const_num(&n->s, index, 0));
    mr_out which = flatten(n, mr_emit(&n->s, "Where", there));
    mr_out size = mr_emit_with(&n->s, "Cast", MR_ATTRS({"DstT", mr_a_type(v.dtype)}), m->r->size);
    g->indices = take_rows(n, indices, which);
    g->values = mr_emit(&n->s, "RealDiv", as_type(n, take_rows(n, values, which), as, v.dtype), size);
    mr_nn_sum_rows(n, g);
}

/* Each sparse gradient has three exchanges: the number of rows, the indices and the values. */
static void reduce_sparse(maker *m)
{
    for (int i = m->g->n - 1; i >= 0 && mr_scope_ok(&m->n->s); i--)
        if (!m->g->g[i].dense.node && m->g->g[i].values.node)
            reduce_rows(m, i);
}

/* ---- building everything ---- */

/* Makes sparse gradients dense if asked to. Without overlap, collects the gradients that all exchanges
 * wait for. */
static void prepare_gradients(maker *m)
{
    int n_found = 0;
    for (int i = 0; i < m->g->n && mr_scope_ok(&m->n->s); i++) {
        mr_gradient *g = &m->g->g[i];
        if (!g->dense.node && g->values.node && m->r->o.sparse_as_dense)
            *g = (mr_gradient){.dense = mr_gradient_dense(&m->n->s, g)};
        mr_node *last = g->dense.node ? g->dense.node : g->values.node;
        if (!last)
            continue;
        n_found++;
        if (m->r->o.no_overlap)
            mr_vec_push(&m->all, last);
    }
    if (mr_scope_ok(&m->n->s) && n_found == 0)
        mr_scope_fail(&m->n->s, mr_invalid("the loss does not depend on any trainable variable"));
}

/* Makes every gradient depend on all exchanges, so no variable is updated before all of them are complete. */
static void hold_back_updates(maker *m)
{
    mr_nn *n = m->n;
    MR_ASSERT(n->s.controls.n == 0);
    for (int i = 0; i < m->means.n; i++)
        mr_vec_push(&n->s.controls, m->means.p[i]);
    for (int i = 0; i < m->g->n && mr_scope_ok(&n->s); i++) {
        mr_gradient *g = &m->g->g[i];
        if (g->dense.node) {
            g->dense = mr_emit(&n->s, "Identity", g->dense);
        } else if (g->values.node) {
            g->values = mr_emit(&n->s, "Identity", g->values);
            g->indices = mr_emit(&n->s, "Identity", g->indices);
        }
    }
    n->s.controls.n = 0;
}

/* An input with a default, for a step that runs without a generation: a group of one. */
static mr_out int_input(mr_nn *n, const char *name, int otherwise)
{
    return mr_emit_with(mr_as(&n->s, name), "PlaceholderWithDefault", MR_ATTRS({"shape", mr_a_shape(&mr_pshape_scalar)}),
                        mr_const_i32(&n->s, otherwise));
}

/* Adds everything up to the means. */
static void make_means(maker *m, mr_out loss)
{
    mr_nn *n = m->n;
    const char *saved;
    m->r->step = mr_nn_global_step(n); /* before the gradients: variables keep their order */
    mr_nn_gradients_of(n, loss, m->g);
    mr_nn_enter(n, "all_reduce", &saved);
    m->r->size = int_input(n, "group_size", 1);
    m->r->key = int_input(n, "group_key", 0);
    prepare_gradients(m);
    reduce_all(m);
    reduce_sparse(m);
    hold_back_updates(m);
    mr_nn_leave(n, saved);
}

/* false: the options are invalid, or the scope had an error already. */
static bool check_options(mr_nn *n, const mr_nn_reduce_options *o)
{
    enum { MAX_WORKERS = 65536 };
    if (o->n_workers < 1 || o->n_workers > MAX_WORKERS || o->worker < 0 || o->worker >= o->n_workers || o->wait_ms < 0 ||
        o->settle_ms < 0 || o->timeout_s < 0)
        mr_scope_fail(&n->s, mr_invalid("all-reduce: worker %d of %d is not possible, or a time is negative", o->worker,
                                        o->n_workers));
    return mr_scope_ok(&n->s);
}

/* r, or NULL (r is freed) after an error, which is in the scope. */
static mr_nn_reduce *reduce_or_null(mr_nn *n, mr_nn_reduce *r)
{
    if (mr_scope_ok(&n->s))
        return r;
    mr_nn_reduce_free(r);
    return NULL;
}

/* g is valid for mr_nn_gradients_deinit also when this returns NULL. */
mr_nn_reduce *mr_nn_reduce_begin(mr_nn *n, mr_out loss, const mr_nn_reduce_options *options, mr_nn_gradients *g)
{
    *g = (mr_nn_gradients){0};
    if (!check_options(n, options))
        return NULL;
    maker m = {.n = n, .r = mr_new(mr_nn_reduce), .g = g};
    m.r->o = *options;
    make_means(&m, loss);
    mr_vec_deinit(&m.all);
    mr_vec_deinit(&m.means);
    return reduce_or_null(n, m.r);
}

mr_nn_reduce *mr_nn_reduce_new(mr_nn *n, mr_out loss, const mr_nn_optimizer *o, const mr_nn_reduce_options *options)
{
    mr_nn_gradients g;
    mr_nn_reduce *r = mr_nn_reduce_begin(n, loss, options, &g);
    if (r) {
        r->train = mr_nn_apply(n, o, &g);
        r = reduce_or_null(n, r);
    }
    mr_nn_gradients_deinit(&g);
    return r;
}

void mr_nn_reduce_free(mr_nn_reduce *r) { mr_free(r); }

/* ---- copying variables from one worker to all ---- */

/* Adds the send and the receive of one variable; a worker runs one of the two. */
static void add_variable_copy(mr_nn_reduce *r, mr_nn *n, int i, mr_node **send, mr_node **receive)
{
    mr_nn_var v = n->vars.p[i];
    mr_dtype t = travels_as(n, &v);
    if (!t)
        return;
    mr_out now = mr_nn_read(n, &v);
    mr_out sent = add_exchange(n, r, "CollectiveBcastSendV2", as_type(n, now, v.dtype, t), FIRST_VARIABLE + i,
                           MR_ATTRS({"timeout_seconds", mr_a_float(r->o.timeout_s)}));
    mr_out ins[] = {r->size, r->key, mr_const_i32(&n->s, FIRST_VARIABLE + i), dims_of(n, &v, 0)};
    mr_named_attr attrs[] = {{"T", mr_a_type(t)}, {"timeout_seconds", mr_a_float(r->o.timeout_s)}};
    mr_out got = mr_emit_n(&n->s, "CollectiveBcastRecvV2", attrs, 2, ins, 4);
    *send = sent.node;
    *receive = mr_nn_assign(n, &v, as_type(n, got, t, v.dtype)).node;
}

/* A NoOp that runs after all k nodes; NULL after an error. */
static mr_node *group_of(mr_nn *n, const char *name, mr_node *const *all, int k)
{
    for (int i = 0; i < k; i++)
        mr_vec_push(&n->s.controls, all[i]);
    mr_out o = mr_scope_ok(&n->s) ? mr_emit0(mr_as(&n->s, name), "NoOp") : MR_NO_OUT;
    n->s.controls.n = 0;
    return o.node;
}

/* Adds the nodes that copy all variables from the source of a generation to the other workers. */
void mr_nn_reduce_complete(mr_nn_reduce *r, mr_nn *n)
{
    const char *saved;
    int k = n->vars.n;
    mr_node **send = mr_new_array(mr_node *, k + 1), **receive = mr_new_array(mr_node *, k + 1);
    mr_nn_enter(n, "all_reduce", &saved);
    for (int i = 0; i < k && mr_scope_ok(&n->s); i++) {
        const char *before = mr_nn_at(n, n->vars.p[i].device);
        add_variable_copy(r, n, i, &send[i], &receive[i]);
        mr_nn_at(n, before);
    }
    r->send = group_of(n, "send", send, k);
    r->receive = group_of(n, "receive", receive, k);
    mr_nn_leave(n, saved);
    mr_free(send);
    mr_free(receive);
}

/* ---- running ---- */

/* Before the first join the group has one member, so a step runs without any exchange. */
void mr_nn_reduce_feeds(const mr_nn_reduce *r, mr_out feeds[2], mr_tensor *values[2])
{
    feeds[0] = r->size;
    feeds[1] = r->key;
    values[0] = mr_tensor_scalar_i32(r->group.generation ? r->group.size : 1);
    values[1] = mr_tensor_scalar_i32(r->group.group_key);
}

/* Runs one node in the present group. */
static mr_status *run_target(const mr_nn_reduce *r, mr_session *s, mr_node *target)
{
    mr_out feeds[2];
    mr_tensor *values[2];
    mr_nn_reduce_feeds(r, feeds, values);
    mr_status *st = mr_session_run(s, &(mr_run_args){.feeds = feeds, .feed_values = values, .n_feeds = 2, .targets = &target,
                                                     .n_targets = 1}, NULL, NULL);
    mr_tensor_unref(values[0]);
    mr_tensor_unref(values[1]);
    return st;
}

/* Reads the global step of this worker's own variables. */
static mr_status *read_step(const mr_nn_reduce *r, mr_session *s, int64_t *step)
{
    mr_tensor *t;
    MR_TRY(mr_session_run(s, &(mr_run_args){.fetches = &r->step, .fetched = &t, .n_fetches = 1}, NULL, NULL));
    mr_status *st =
        t->dtype == MR_INT64 && t->n == 1 ? NULL : mr_error(MR_INTERNAL, "The global step is not an int64 scalar");
    if (!st)
        *step = *MR_DATA(int64_t, t);
    mr_tensor_unref(t);
    return st;
}

/* Asks for a place in the next generation and waits for the answer, which becomes r->group. The request carries this
 * worker's global step, because the members take the variables of the one that is furthest. */
static mr_status *ask_to_join(mr_nn_reduce *r, mr_session *s, int64_t deadline_ms, mr_cancel *cancel)
{
    MR_ASSERT(r->join && r->o.n_workers > 1);
    int64_t step = 0;
    MR_TRY(read_step(r, s, &step));
    mr_reduce_ask a = {r->o.worker,
                       r->o.n_workers,
                       r->group.generation,
                       step,
                       r->o.wait_ms ? r->o.wait_ms : 60000,
                       r->o.settle_ms ? r->o.settle_ms : 500,
                       deadline_ms,
                       cancel};
    mr_report_blocked("the other workers");
    return r->join(r->arg, &a, &r->group);
}

/* Joins a generation, then copies the variables from its source: a collective in which every member
 * takes part. */
mr_status *mr_nn_reduce_join(mr_nn_reduce *r, mr_session *s, int64_t deadline_ms, mr_cancel *cancel)
{
    if (!r->join || r->o.n_workers == 1)
        r->group = (mr_reduce_group){.generation = 1, .size = 1};
    else
        MR_TRY(ask_to_join(r, s, deadline_ms, cancel));
    r->size_now = r->group.size;
    r->generation_now = r->group.generation;
    return r->group.size == 1 ? NULL : run_target(r, s, r->group.rank == r->group.source ? r->send : r->receive);
}
