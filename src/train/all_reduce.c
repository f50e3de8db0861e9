/* train/all_reduce.c -- see all_reduce.h. */
#include "train/all_reduce.h"

#include "base/memory.h"
#include "base/report.h"

enum { FIRST_VARIABLE = 1 << 20 }; /* instance keys: buckets count from 1, variables from here */

typedef struct maker {
    mr_network *n;
    mr_net_reduce *r;
    mr_net_gradients g;
    MR_VEC(mr_node *) all; /* gradients, when they are waited for together */
    MR_VEC(mr_node *) means;
} maker;

/* ---- one exchange ---- */

static mr_out exchange(mr_network *n, const mr_net_reduce *r, const char *op, mr_out in, int instance, const mr_named_attr *attrs,
                       int n_attrs)
{
    mr_out ins[] = {in, r->size, r->key, mr_const_i32(&n->s, instance)};
    return mr_emit_n(&n->s, op, attrs, n_attrs, ins, 4);
}

/* The mean of t over all workers. */
static mr_out mean(maker *m, mr_out t, int instance)
{
    mr_named_attr attrs[] = {{"merge_op", mr_a_str("Add")},
                             {"final_op", mr_a_str("Div")},
                             {"Nordering_token", mr_a_int(0)},
                             {"timeout_seconds", mr_a_float(m->r->o.timeout_s)}};
    for (int i = 0; i < m->all.n; i++)
        mr_vec_push(&m->n->s.controls, m->all.p[i]);
    mr_out out = exchange(m->n, m->r, "CollectiveReduceV2", t, instance, attrs, 4);
    m->n->s.controls.n = 0;
    if (out.node)
        mr_vec_push(&m->means, out.node);
    return out;
}

/* ---- buckets ---- */

static mr_out flat(mr_network *n, mr_out t)
{
    return mr_emit(&n->s, "Reshape", t, mr_const_vec_i32(&n->s, 1, (const int32_t[]){-1}));
}

static mr_out shape_of(mr_network *n, const mr_net_var *v)
{
    const mr_pshape *s = mr_out_shape(v->value);
    int32_t dims[MR_MAX_RANK];
    for (int i = 0; i < s->rank; i++) {
        if (s->dims[i] > INT32_MAX)
            mr_scope_fail(&n->s, mr_invalid("variable %s is too large for all-reduce", v->name));
        dims[i] = (int32_t)s->dims[i];
    }
    return mr_const_vec_i32(&n->s, s->rank, dims);
}

/* Gradients in[0..k) (places in m->g) as one vector, its mean, and back. */
static void reduce_bucket(maker *m, const int *in, int k)
{
    mr_network *n = m->n;
    mr_out *parts = mr_new_array(mr_out, k + 1);
    int instance = ++m->r->n_buckets;
    if (k == 1) {
        m->g.g[in[0]].dense = mean(m, m->g.g[in[0]].dense, instance);
        mr_free(parts);
        return;
    }
    int32_t *sizes = mr_new_array(int32_t, k);
    for (int i = 0; i < k; i++) {
        parts[i] = flat(n, m->g.g[in[i]].dense);
        sizes[i] = (int32_t)n->vars.p[m->g.var[in[i]]].n;
    }
    mr_out axis = mr_const_i32(&n->s, 0);
    mr_out one = mr_emit_lists(&n->s, "ConcatV2", NULL, 0, (mr_emit_arg[]){{k, parts}, {-1, &axis}}, 2);
    mr_out whole = mean(m, one, instance);
    mr_out split = mr_emit_with(&n->s, "SplitV", MR_ATTRS({"num_split", mr_a_int(k)}), whole,
                                mr_const_vec_i32(&n->s, k, sizes), axis);
    for (int i = 0; i < k && mr_scope_ok(&n->s); i++)
        m->g.g[in[i]].dense = mr_emit(&n->s, "Reshape", mr_nth(split, i), shape_of(n, &n->vars.p[m->g.var[in[i]]]));
    mr_free(parts);
    mr_free(sizes);
}

static int64_t bytes_of(const maker *m, int i)
{
    const mr_net_var *v = &m->n->vars.p[m->g.var[i]];
    return v->n * (int64_t)mr_dtype_size(v->dtype);
}

/* Back-propagation makes the last gradients first. */
static void reduce_all(maker *m)
{
    int64_t limit = MR_MIN(m->r->o.bucket_bytes ? m->r->o.bucket_bytes : 4 << 20, 1 << 30); /* counted in int32 */
    int *in = mr_new_array(int, m->g.n + 1), k = 0;
    int64_t bytes = 0;
    for (int i = m->g.n - 1; i >= 0 && mr_scope_ok(&m->n->s); i--) {
        if (!m->g.g[i].dense.node)
            continue;
        bool fits = k == 0 || (bytes + bytes_of(m, i) <= limit &&
                               m->n->vars.p[m->g.var[i]].dtype == m->n->vars.p[m->g.var[in[0]]].dtype);
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

/* ---- all together ---- */

/* Rows of a sparse gradient differ from worker to worker; as a whole they add up. */
static void make_dense(maker *m)
{
    int n_dense = 0;
    for (int i = 0; i < m->g.n && mr_scope_ok(&m->n->s); i++) {
        mr_gradient *g = &m->g.g[i];
        if (!g->dense.node && g->values.node)
            *g = (mr_gradient){.dense = mr_gradient_dense(&m->n->s, g)};
        if (!g->dense.node)
            continue;
        n_dense++;
        if (m->r->o.no_overlap)
            mr_vec_push(&m->all, g->dense.node);
    }
    if (mr_scope_ok(&m->n->s) && n_dense == 0)
        mr_scope_fail(&m->n->s, mr_invalid("the loss depends on no variable"));
}

/* No variable changes before all means are there. */
static void hold_back(maker *m)
{
    mr_network *n = m->n;
    for (int i = 0; i < m->means.n; i++)
        mr_vec_push(&n->s.controls, m->means.p[i]);
    for (int i = 0; i < m->g.n && mr_scope_ok(&n->s); i++)
        if (m->g.g[i].dense.node)
            m->g.g[i].dense = mr_emit(&n->s, "Identity", m->g.g[i].dense);
    n->s.controls.n = 0;
}

/* Whoever runs the step without a generation is alone. */
static mr_out int_input(mr_network *n, const char *name, int otherwise)
{
    return mr_emit_with(mr_as(&n->s, name), "PlaceholderWithDefault", MR_ATTRS({"shape", mr_a_shape(&mr_pshape_scalar)}),
                        mr_const_i32(&n->s, otherwise));
}

static void make_all(maker *m, mr_out loss, const mr_net_optimizer *o)
{
    mr_network *n = m->n;
    const char *saved;
    m->r->step = mr_net_global_step(n); /* before the gradients: variables keep their order */
    mr_net_gradients_of(n, loss, &m->g);
    mr_net_enter(n, "all_reduce", &saved);
    m->r->size = int_input(n, "group_size", 1);
    m->r->key = int_input(n, "group_key", 0);
    make_dense(m);
    reduce_all(m);
    hold_back(m);
    mr_net_leave(n, saved);
    if (mr_scope_ok(&n->s))
        m->r->train = mr_net_apply(n, o, &m->g);
    mr_net_gradients_deinit(&m->g);
}

mr_net_reduce *mr_net_reduce_new(mr_network *n, mr_out loss, const mr_net_optimizer *o, const mr_net_reduce_options *options)
{
    enum { MAX_WORKERS = 65536 };
    if (options->n_workers < 1 || options->n_workers > MAX_WORKERS || options->worker < 0 ||
        options->worker >= options->n_workers || options->wait_ms < 0 || options->settle_ms < 0 || options->timeout_s < 0) {
        mr_scope_fail(&n->s, mr_invalid("all-reduce: worker %d of %d", options->worker, options->n_workers));
        return NULL;
    }
    maker m = {.n = n, .r = mr_new(mr_net_reduce)};
    m.r->o = *options;
    make_all(&m, loss, o);
    mr_vec_deinit(&m.all);
    mr_vec_deinit(&m.means);
    if (!mr_scope_ok(&n->s)) {
        mr_net_reduce_free(m.r);
        m.r = NULL;
    }
    return m.r;
}

void mr_net_reduce_free(mr_net_reduce *r) { mr_free(r); }

/* ---- variables from one worker to all ---- */

/* What collectives do not know travels as something of the same size. */
static mr_dtype travels_as(mr_dtype t)
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

static mr_out as_type(mr_network *n, mr_out t, mr_dtype from, mr_dtype to)
{
    return from == to ? t : mr_emit_with(&n->s, "Bitcast", MR_ATTRS({"type", mr_a_type(to)}), t);
}

static void hand_over(mr_net_reduce *r, mr_network *n, int i, mr_node **send, mr_node **receive)
{
    mr_net_var v = n->vars.p[i];
    mr_dtype t = travels_as(v.dtype);
    if (!t) {
        mr_scope_fail(&n->s, mr_invalid("variable %s of type %s cannot go from worker to worker", v.name, mr_dtype_name(v.dtype)));
        return;
    }
    mr_out now = mr_net_read(n, &v);
    mr_out sent = exchange(n, r, "CollectiveBcastSendV2", as_type(n, now, v.dtype, t), FIRST_VARIABLE + i,
                           MR_ATTRS({"timeout_seconds", mr_a_float(r->o.timeout_s)}));
    mr_out ins[] = {r->size, r->key, mr_const_i32(&n->s, FIRST_VARIABLE + i), shape_of(n, &v)};
    mr_named_attr attrs[] = {{"T", mr_a_type(t)}, {"timeout_seconds", mr_a_float(r->o.timeout_s)}};
    mr_out got = mr_emit_n(&n->s, "CollectiveBcastRecvV2", attrs, 2, ins, 4);
    *send = sent.node;
    *receive = mr_net_assign(n, &v, as_type(n, got, t, v.dtype)).node;
}

static mr_node *group_of(mr_network *n, const char *name, mr_node *const *all, int k)
{
    for (int i = 0; i < k; i++)
        mr_vec_push(&n->s.controls, all[i]);
    mr_out o = mr_scope_ok(&n->s) ? mr_emit0(mr_as(&n->s, name), "NoOp") : MR_NO_OUT;
    n->s.controls.n = 0;
    return o.node;
}

void mr_net_reduce_complete(mr_net_reduce *r, mr_network *n)
{
    const char *saved;
    int k = n->vars.n;
    mr_node **send = mr_new_array(mr_node *, k + 1), **receive = mr_new_array(mr_node *, k + 1);
    mr_net_enter(n, "all_reduce", &saved);
    for (int i = 0; i < k && mr_scope_ok(&n->s); i++) {
        const char *before = mr_net_at(n, n->vars.p[i].device);
        hand_over(r, n, i, &send[i], &receive[i]);
        mr_net_at(n, before);
    }
    r->send = group_of(n, "send", send, k);
    r->receive = group_of(n, "receive", receive, k);
    mr_net_leave(n, saved);
    mr_free(send);
    mr_free(receive);
}

/* ---- at work ---- */

void mr_net_reduce_feeds(const mr_net_reduce *r, mr_out feeds[2], mr_tensor *values[2])
{
    feeds[0] = r->size;
    feeds[1] = r->key;
    values[0] = mr_tensor_scalar_i32(r->group.generation ? r->group.size : 1);
    values[1] = mr_tensor_scalar_i32(r->group.group_key);
}

static mr_status *run(const mr_net_reduce *r, mr_session *s, mr_node *target)
{
    mr_out feeds[2];
    mr_tensor *values[2];
    mr_net_reduce_feeds(r, feeds, values);
    mr_status *st = mr_session_run(s, &(mr_run_args){.feeds = feeds, .feed_values = values, .n_feeds = 2, .targets = &target,
                                                     .n_targets = 1}, NULL, NULL);
    mr_tensor_unref(values[0]);
    mr_tensor_unref(values[1]);
    return st;
}

static mr_status *read_step(const mr_net_reduce *r, mr_session *s, int64_t *step)
{
    mr_tensor *t;
    MR_TRY(mr_session_run(s, &(mr_run_args){.fetches = &r->step, .fetched = &t, .n_fetches = 1}, NULL, NULL));
    mr_status *st = t->dtype == MR_INT64 && t->n == 1 ? NULL : mr_error(MR_INTERNAL, "The global step is no int64");
    if (!st)
        *step = *MR_DATA(int64_t, t);
    mr_tensor_unref(t);
    return st;
}

mr_status *mr_net_reduce_join(mr_net_reduce *r, mr_session *s, int64_t deadline_ms)
{
    int64_t step = 0;
    if (!r->join || r->o.n_workers == 1) {
        r->group = (mr_reduce_group){.generation = 1, .size = 1};
        return NULL;
    }
    MR_TRY(read_step(r, s, &step));
    mr_reduce_ask a = {r->o.worker,
                       r->o.n_workers,
                       r->group.generation,
                       step,
                       r->o.wait_ms ? r->o.wait_ms : 60000,
                       r->o.settle_ms ? r->o.settle_ms : 500,
                       deadline_ms};
    mr_report_blocked("the other workers");
    MR_TRY(r->join(r->arg, &a, &r->group));
    if (r->group.size == 1)
        return NULL;
    return run(r, s, r->group.rank == r->group.source ? r->send : r->receive);
}
