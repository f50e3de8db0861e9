/* capi/supervisor.c -- mr_supervisor: train/supervised.h on the client's types. */
#include "base/deterministic.h"
#include "capi/cluster_internal.h"
#include "run/device.h"
#include "train/supervised.h"
#include "wire/pb.h"

struct mr_supervisor {
    TF_Graph *graph;
    TF_SessionOptions options; /* without a task */
    mr_cluster_task *task;
    mr_str config; /* ConfigProto for the task's master */
    mr_supervised *supervised;
};

/* Its session uses only the tasks that hold variables and its own task, so that the death of another worker does not
 * affect it. With all-reduce the two are the same. */
static void filter_devices(mr_supervisor *s, const mr_cluster_task *t, bool own_only)
{
    mr_pb_writer w;
    char *own = mr_printf("/job:%s/task:%d", t->def.job, t->def.task);
    char *variables = mr_printf("/job:%s%s", mr_capi_variable_job(t), mr_cluster_task_num_ps(t) ? "" : "/task:0");
    mr_pb_writer_init(&w, &s->config);
    mr_pb_put_bytes(&w, 4, mr_sv_of(own_only ? own : variables)); /* ConfigProto.device_filters */
    mr_pb_put_bytes(&w, 4, mr_sv_of(own));
    mr_free(own);
    mr_free(variables);
}

static mr_status *open_session(void *arg, mr_cancel *cancel, mr_session **out)
{
    mr_supervisor *s = arg;
    *out = NULL;
    if (!s->task)
        return mr_capi_open_session(&s->options, s->graph->graph, &s->graph->mu, cancel, out);
    return mr_server_session(s->task->server, s->graph->graph, &s->graph->mu, mr_str_view(&s->config), cancel, out);
}

static mr_status *join_group(void *arg, const mr_reduce_ask *a, mr_reduce_group *out)
{
    mr_supervisor *s = arg;
    mr_joined in;
    mr_join q = {"train", a->worker, a->n_workers, a->generation, a->step, a->wait_ms, a->settle_ms, a->deadline_ms, a->cancel};
    MR_TRY(mr_server_join_group(s->task->server, &q, &in));
    *out = (mr_reduce_group){in.generation, in.group_key, in.size, in.rank, in.source};
    return NULL;
}

/* However it was made; NULL: training is of another kind. */
static mr_nn_reduce *reduce_of(const mr_supervisor_options *o)
{
    const mr_all_reduce *r = o->all_reduce ? o->all_reduce : mr_barrier_all_reduce(o->barrier);
    return r ? r->reduce : NULL;
}

/* With all-reduce a worker's session has its own task alone. */
static mr_status *check_places(const mr_nn *n, const mr_cluster_task *t)
{
    for (int i = 0; i < n->vars.n; i++) {
        const mr_nn_var *v = &n->vars.p[i];
        mr_device_name at;
        if (!mr_device_name_parse(mr_sv_of(v->device), &at) || (at.has_job && strcmp(at.job, t->def.job) != 0) ||
            (at.task >= 0 && at.task != t->def.task))
            return mr_invalid(
                "Variable '%s' is on %s: with all-reduce, each worker must hold all variables, here on /job:%s/task:%d",
                v->name, v->device, t->def.job, t->def.task);
    }
    return NULL;
}

static mr_status *check_options(const mr_model *m, const mr_supervisor_options *o)
{
    if (o->train)
        MR_TRY(mr_capi_check_op(m->graph, o->train));
    if (o->barrier && o->barrier->graph != m->graph)
        return mr_invalid("The barrier belongs to another model");
    if (o->barrier && (o->barrier->open || (!o->barrier->sync && !o->barrier->train && !o->barrier->all_reduce)))
        return mr_invalid("The barrier has no update");
    if (o->all_reduce && (o->all_reduce->graph != m->graph || o->train || o->barrier))
        return mr_invalid("The all-reduce belongs to another model, or is combined with train or a barrier");
    if (o->barrier && o->train)
        return mr_invalid("Set either train or barrier of a supervisor, not both");
    if (o->task && !mr_cluster_task_is_worker(o->task))
        return mr_invalid("Only workers have a supervisor, and this process is not a worker");
    if (o->save_ms < 0 || o->max_to_keep < 0 || o->deadline_ms < 0)
        return mr_invalid("The times and counts of a supervisor must not be negative");
    if (o->save_ms > MR_CAPI_MOST_MS || o->deadline_ms > MR_CAPI_MOST_MS || o->chief_ms > MR_CAPI_MOST_MS)
        return mr_invalid("The times of a supervisor must be at most %lld ms", (long long)MR_CAPI_MOST_MS);
    return NULL;
}

/* Checks the options and creates the supervised training under the lock of the graph. Returns a copy of the error of
 * the model, if it has one. */
static mr_status *make_supervisor(mr_supervisor *s, mr_model *m, const mr_supervisor_options *o)
{
    mr_nn_reduce *reduce = reduce_of(o);
    MR_TRY(check_options(m, o));
    if (reduce && o->task)
        MR_TRY(check_places(m->net, o->task));
    s->options.target = mr_strdup(o->target ? o->target : "");
    s->task = o->task;
    if (s->task)
        filter_devices(s, s->task, reduce != NULL);
    if (reduce) {
        reduce->join = s->task ? join_group : NULL;
        reduce->arg = s;
    }
    mr_supervised_options with = {.chief = o->task ? mr_cluster_task_worker(o->task) == 0 : o->chief != 0,
                                  .worker = o->task ? mr_cluster_task_worker(o->task) : 0,
                                  .chief_ms = !o->task || o->chief_ms < 0 ? 0 : o->chief_ms ? o->chief_ms : 5000,
                                  .open = open_session,
                                  .arg = s,
                                  .train = o->barrier && o->barrier->train ? o->barrier->train : mr_capi_node(o->train),
                                  .sync = o->barrier ? o->barrier->sync : NULL,
                                  .reduce = reduce,
                                  .folder = o->checkpoints,
                                  .save_ms = o->save_ms,
                                  .max_to_keep = o->max_to_keep,
                                  .deadline_ms = o->deadline_ms,
                                  .trace = o->trace,
                                  .trace_steps = o->trace_steps,
                                  .chief_saves = o->chief_saves != 0};
    mr_lock(&m->graph->mu);
    if (mr_scope_ok(&m->net->s))
        s->supervised = mr_supervised_new(m->net, &with);
    mr_status *st = mr_status_copy(m->net->s.st);
    mr_unlock(&m->graph->mu);
    return st;
}

/* The graph lives as long as its sessions, even if the client frees it. */
static void hold_graph(mr_supervisor *s, TF_Graph *g)
{
    mr_lock(&g->mu);
    g->n_sessions++;
    mr_unlock(&g->mu);
    s->graph = g;
}

mr_supervisor *mr_supervisor_new(mr_model *m, const mr_supervisor_options *options, TF_Status *status)
{
    mr_supervisor_options o;
    mr_supervisor *s = mr_new(mr_supervisor);
    mr_status *st = m ? mr_capi_take_options(options, &o, sizeof o) : mr_invalid("The model is NULL");
    if (!st) {
        if (o.deterministic)
            mr_deterministic_set(true);
        hold_graph(s, m->graph);
        st = make_supervisor(s, m, &o);
    }
    mr_capi_set_status(status, st);
    if (!st)
        return s;
    mr_supervisor_free(s);
    return NULL;
}

void mr_supervisor_free(mr_supervisor *s)
{
    if (!s)
        return;
    mr_supervised_free(s->supervised);
    mr_free(s->options.target);
    mr_str_deinit(&s->config);
    if (s->graph) {
        mr_lock(&s->graph->mu);
        s->graph->n_sessions--;
        mr_capi_graph_release(s->graph);
    }
    mr_free(s);
}

static mr_status *no_supervisor(void) { return mr_invalid("The supervisor is NULL"); }

void mr_supervisor_start(mr_supervisor *s, TF_Status *status)
{
    mr_capi_set_status(status, s ? mr_supervised_start(s->supervised) : no_supervisor());
}

int64_t mr_supervisor_finish(mr_supervisor *s, TF_Status *status)
{
    int64_t step = -1;
    mr_status *st = s ? mr_supervised_finish(s->supervised, &step) : no_supervisor();
    mr_capi_set_status(status, st);
    return st ? -1 : step;
}

void mr_supervisor_cancel(mr_supervisor *s)
{
    if (s)
        mr_supervised_cancel(s->supervised);
}

unsigned char mr_supervisor_is_chief(mr_supervisor *s) { return s && mr_supervised_is_chief(s->supervised); }

int mr_supervisor_losses(const mr_supervisor *s) { return s ? mr_supervised_losses(s->supervised) : 0; }

unsigned char mr_supervisor_figures(mr_supervisor *s, int worker, mr_worker_figures *out)
{
    mr_sync_figures f;
    size_t size = out ? out->struct_size : 0;
    if (!s || size < sizeof(size_t) || size > (1 << 16) || !mr_supervised_figures(s->supervised, worker, &f))
        return 0;
    mr_worker_figures all = {size, f.iterations, f.late, (double)f.waited_ns * 1e-9, f.staleness, f.staleness_max, f.waited_for};
    memset(out, 0, size);
    memcpy(out, &all, MR_MIN(size, sizeof all));
    return 1;
}

int64_t mr_supervisor_step(mr_supervisor *s, TF_Status *status)
{
    int64_t step = -1;
    mr_status *st = s ? mr_supervised_step(s->supervised, &step) : no_supervisor();
    mr_capi_set_status(status, st);
    return st ? -1 : step;
}

/* ---- runs ---- */

static mr_status *check_outs(const mr_supervisor *s, const TF_Output *o, int n, const char *what)
{
    if (n < 0 || (n && !o))
        return mr_invalid("The list of %ss is NULL, or its length %d is negative", what, n);
    for (int i = 0; i < n; i++)
        MR_TRY(mr_capi_check_output(s->graph, o[i]));
    return NULL;
}

static mr_status *check_run(const mr_supervisor *s, const mr_run_args *a, TF_Tensor *const *in, TF_Tensor **out)
{
    if (!s)
        return no_supervisor();
    MR_TRY(check_outs(s, (const TF_Output *)a->feeds, a->n_feeds, "feed"));
    MR_TRY(check_outs(s, (const TF_Output *)a->fetches, a->n_fetches, "fetch"));
    if ((a->n_feeds && !in) || (a->n_fetches && !out) || a->n_targets < 0 || (a->n_targets && !a->targets))
        return mr_invalid("The values or targets are NULL, or their number is negative");
    for (int i = 0; i < a->n_targets; i++)
        MR_TRY(mr_capi_check_op(s->graph, mr_capi_op(a->targets[i])));
    for (int i = 0; i < a->n_feeds; i++)
        if (!in[i])
            return mr_invalid("The tensor of feed %d is NULL", i);
    return mr_capi_check_cycles(s->graph);
}

/* step NULL: no training. */
static mr_status *run_step(mr_supervisor *s, mr_run_args a, TF_Tensor *const *in, TF_Tensor **out, int64_t *step)
{
    for (int i = 0; out && i < a.n_fetches; i++)
        out[i] = NULL;
    MR_TRY(check_run(s, &a, in, out));
    mr_tensor **values = mr_new_array(mr_tensor *, a.n_feeds + a.n_fetches + 1);
    mr_status *st = NULL;
    for (int i = 0; i < a.n_feeds && !st; i++)
        st = mr_capi_tensor_value(in[i], &values[i]);
    a.feed_values = values;
    a.fetched = values + a.n_feeds;
    if (!st)
        st = step ? mr_supervised_train(s->supervised, &a, step) : mr_supervised_run(s->supervised, &a);
    for (int i = 0; i < a.n_fetches && !st; i++)
        out[i] = mr_capi_tensor_new(a.fetched[i]);
    for (int i = 0; i < a.n_feeds; i++)
        mr_tensor_unref(values[i]);
    mr_free(values);
    return st;
}

int64_t mr_supervisor_train(mr_supervisor *s, const TF_Output *inputs, TF_Tensor *const *input_values, int ninputs,
                            const TF_Output *outputs, TF_Tensor **output_values, int noutputs, TF_Status *status)
{
    int64_t step = -1;
    mr_run_args a = {.feeds = mr_capi_outs(inputs), .n_feeds = ninputs, .fetches = mr_capi_outs(outputs), .n_fetches = noutputs};
    mr_status *st = run_step(s, a, input_values, output_values, &step);
    mr_capi_set_status(status, st);
    return st ? -1 : step;
}

void mr_supervisor_run(mr_supervisor *s, const TF_Output *inputs, TF_Tensor *const *input_values, int ninputs,
                       const TF_Output *outputs, TF_Tensor **output_values, int noutputs,
                       const TF_Operation *const *targets, int ntargets, TF_Status *status)
{
    mr_run_args a = {.feeds = mr_capi_outs(inputs), .n_feeds = ninputs, .fetches = mr_capi_outs(outputs), .n_fetches = noutputs,
                     .targets = (mr_node *const *)(uintptr_t)targets, .n_targets = ntargets};
    mr_capi_set_status(status, run_step(s, a, input_values, output_values, NULL));
}
