/* capi/cluster.c -- millrace/cluster.h: tasks, placement and synchronous training on the client's types; supervisors are in
 * supervisor.c. */
#include "millrace/cluster.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/report.h"
#include "capi/cluster_internal.h"
#include "dist/synchrony.h"
#include "train/replicas.h"

/* ---- tasks ---- */

static mr_status *def_from_flags(const mr_cluster_options *o, mr_server_def *def)
{
    if (!o->ps_hosts || !o->worker_hosts || !o->job)
        return mr_invalid("A task needs ps_hosts, worker_hosts and its job");
    *def = (mr_server_def){.job = mr_strdup(o->job), .task = o->index};
    if (o->ps_hosts[0])
        MR_TRY(mr_cluster_add_list(&def->cluster, MR_SV("ps"), mr_sv_of(o->ps_hosts)));
    return mr_cluster_add_list(&def->cluster, MR_SV("worker"), mr_sv_of(o->worker_hosts));
}

static mr_status *def_from_environment(mr_server_def *def)
{
    const char *text = getenv("TF_CONFIG");
    if (!text || !text[0])
        return mr_invalid("Give ps_hosts and worker_hosts, or set TF_CONFIG");
    return mr_server_def_from_json(mr_sv_of(text), def);
}

static mr_status *start_task(mr_cluster_task *t, const mr_cluster_options *o)
{
    mr_status *st = o->ps_hosts || o->worker_hosts ? def_from_flags(o, &t->def) : def_from_environment(&t->def);
    if (st)
        return mr_status_prepend(st, "cluster: ");
    if (mr_cluster_find(&t->def.cluster, mr_sv_of(t->def.job), t->def.task) < 0)
        return mr_invalid("cluster: it has no task %d of job '%s'", t->def.task, t->def.job);
    mr_server_options with = {.zookeeper = o->zookeeper, .zookeeper_ms = o->zookeeper_ms, .address = o->address};
    MR_TRY(mr_server_new(&t->def, &with, &t->server));
    MR_TRY(mr_server_start(t->server));
    mr_info("Started server with target: %s", mr_server_target(t->server));
    return NULL;
}

mr_cluster_task *mr_cluster_task_new(const mr_cluster_options *options, TF_Status *status)
{
    mr_cluster_options o;
    mr_cluster_task *t = mr_new(mr_cluster_task);
    mr_capi_init();
    mr_status *st = mr_capi_take_options(options, &o, sizeof o);
    if (!st)
        st = start_task(t, &o);
    mr_capi_set_status(status, st);
    if (!st)
        return t;
    mr_cluster_task_free(t);
    return NULL;
}

void mr_cluster_task_free(mr_cluster_task *t)
{
    if (!t)
        return;
    mr_server_free(t->server);
    mr_server_def_deinit(&t->def);
    mr_free(t);
}

const char *mr_cluster_task_target(const mr_cluster_task *t) { return t ? mr_server_target(t->server) : ""; }

/* In TF_CONFIG the first worker may be a separate job, "chief". */
static int n_chiefs(const mr_cluster_task *t) { return mr_cluster_count(&t->def.cluster, MR_SV("chief")) > 0; }

int mr_cluster_task_worker(const mr_cluster_task *t)
{
    if (t && strcmp(t->def.job, "worker") == 0)
        return t->def.task + n_chiefs(t);
    return t && strcmp(t->def.job, "chief") == 0 ? 0 : -1;
}

unsigned char mr_cluster_task_is_worker(const mr_cluster_task *t) { return mr_cluster_task_worker(t) >= 0; }

int mr_cluster_task_num_workers(const mr_cluster_task *t)
{
    return t ? mr_cluster_count(&t->def.cluster, MR_SV("worker")) + n_chiefs(t) : 0;
}

int mr_cluster_task_num_ps(const mr_cluster_task *t) { return t ? mr_cluster_count(&t->def.cluster, MR_SV("ps")) : 0; }

void mr_cluster_task_serve(mr_cluster_task *t, TF_Status *status)
{
    mr_capi_set_status(status, t ? mr_server_join(t->server) : mr_invalid("The task is NULL"));
}

void mr_cluster_task_stop(mr_cluster_task *t)
{
    if (t)
        mr_status_free(mr_server_stop(t->server));
}

/* ---- where things go ---- */

const char *mr_capi_variable_job(const mr_cluster_task *t)
{
    return mr_cluster_task_num_ps(t) ? "ps" : n_chiefs(t) ? "chief" : "worker";
}

void mr_replicate_on(mr_model *m, const char *ps_job, int num_ps, const char *worker, mr_placement placement)
{
    if (!m)
        return;
    mr_lock(&m->graph->mu);
    mr_nn_replicate(m->net, ps_job, num_ps, worker, placement == MR_BY_SIZE ? MR_REPLICAS_BY_SIZE : MR_REPLICAS_ROUND_ROBIN);
    mr_unlock(&m->graph->mu);
}

/* Without parameter servers the first worker holds the variables. */
void mr_replicate(mr_model *m, const mr_cluster_task *t, mr_placement placement)
{
    if (!m)
        return;
    if (!mr_cluster_task_is_worker(t)) {
        mr_scope_fail(&m->net->s, mr_invalid("Only workers replicate a model, and this process is not a worker"));
        return;
    }
    char *worker = mr_printf("/job:%s/task:%d", t->def.job, t->def.task);
    mr_replicate_on(m, mr_capi_variable_job(t), MR_MAX(1, mr_cluster_task_num_ps(t)), worker, placement);
    mr_free(worker);
}

/* The option of the program, or else that of the launcher. */
static const char *synchrony_or_told(const char *synchrony)
{
    const char *told = getenv("MILLRACE_SYNCHRONY");
    return synchrony ? synchrony : told && told[0] ? told : "async";
}

void mr_replicate_as(mr_model *m, const mr_cluster_task *t, mr_placement placement, const char *synchrony)
{
    mr_synchrony how;
    if (!m)
        return;
    mr_status *st = mr_synchrony_parse(mr_sv_of(synchrony_or_told(synchrony)), &how);
    if (st)
        mr_scope_fail(&m->net->s, st);
    else if (how.all_reduce)
        mr_model_on_worker(m, t);
    else
        mr_replicate(m, t, placement);
}

void mr_model_device(mr_model *m, const char *device)
{
    if (!m)
        return;
    mr_lock(&m->graph->mu);
    mr_nn_at(m->net, mr_arena_strdup(&m->graph->graph->arena, device ? device : ""));
    mr_unlock(&m->graph->mu);
}

void mr_model_reuse(mr_model *m, unsigned char reuse)
{
    if (m)
        m->net->reuse = reuse != 0;
}

TF_Operation *mr_minimize_towers(mr_model *m, const TF_Output *losses, int num_losses, mr_optimizer optimizer)
{
    TF_Operation *train = NULL;
    if (!m)
        return NULL;
    mr_lock(&m->graph->mu);
    if (num_losses < 1 || !losses)
        mr_scope_fail(&m->net->s, mr_invalid("losses is NULL, or its length %d is less than 1", num_losses));
    for (int i = 0; i < num_losses && mr_scope_ok(&m->net->s); i++)
        mr_model_arg(m, losses[i]);
    mr_nn_optimizer o = mr_model_optimizer(m, optimizer);
    if (mr_scope_ok(&m->net->s))
        train = mr_capi_op(mr_nn_minimize_towers(m->net, mr_capi_outs(losses), num_losses, &o));
    mr_unlock(&m->graph->mu);
    return train;
}

/* ---- synchronous training ---- */

static mr_status *check_barrier(const mr_barrier_options *b)
{
    if (b->aggregate < 0)
        return mr_invalid("aggregate %d is negative", b->aggregate);
    if (b->lease_ms > MR_CAPI_MOST_MS || b->join_ms > MR_CAPI_MOST_MS)
        return mr_invalid("The times of a barrier must be at most %lld ms", (long long)MR_CAPI_MOST_MS);
    return NULL;
}

/* The kind of a barrier: one of three. */
typedef struct barrier_plan {
    mr_nn_sync_options with; /* used unless one of the next two is set */
    bool asynchronous;        /* workers do not wait for each other */
    bool reduces;             /* every worker holds all variables; all_reduce is used */
    mr_all_reduce_options all_reduce;
} barrier_plan;

/* Reads the options of all-reduce; the workers and join_ms come from the options of the barrier. */
static mr_status *read_all_reduce(const mr_barrier_options *b, barrier_plan *p)
{
    MR_TRY(mr_capi_take_options(b->all_reduce, &p->all_reduce, sizeof p->all_reduce));
    p->all_reduce.num_workers = b->num_workers;
    p->all_reduce.worker = b->worker;
    p->all_reduce.join_ms = b->join_ms;
    return NULL;
}

/* Translates options.synchrony into a plan. Without it, the barrier is synchronous and options.aggregate counts. */
static mr_status *read_synchrony(const mr_barrier_options *b, barrier_plan *p)
{
    mr_synchrony how = {.together = true};
    mr_nn_sync_options *with = &p->with;
    if (b->synchrony)
        MR_TRY(mr_synchrony_parse(mr_sv_of(b->synchrony), &how));
    if (b->all_reduce && !how.all_reduce)
        return mr_invalid("Options of all-reduce need synchrony 'all_reduce' (got '%s')",
                          b->synchrony ? b->synchrony : "sync");
    if (!b->synchrony)
        return NULL;
    if (b->aggregate)
        return mr_invalid("Set either synchrony or aggregate, not both (got synchrony '%s', aggregate %d)",
                          b->synchrony, b->aggregate);
    if (how.together && how.n > 0 && how.n >= b->num_workers)
        return mr_invalid("Synchrony '%s' needs more than %lld workers (got %d)", b->synchrony, (long long)how.n,
                          b->num_workers);
    p->reduces = how.all_reduce;
    p->asynchronous = !how.together && !how.bounded && !how.all_reduce;
    with->bounded = how.bounded;
    with->delay = how.adaptive ? MR_DELAY_ADAPTIVE : how.n;
    if (how.together)
        with->aggregate = how.adaptive ? MR_SYNC_ADAPTIVE : how.n ? b->num_workers - (int)how.n : 0;
    return how.all_reduce ? read_all_reduce(b, p) : NULL;
}

static mr_status *read_barrier(const mr_barrier_options *b, barrier_plan *p)
{
    *p = (barrier_plan){.with = {b->num_workers, b->worker, b->aggregate, b->lease_ms > 0 ? b->lease_ms : 3000,
                                 b->join_ms > 0 ? b->join_ms : 60000, false, 0}};
    MR_TRY(check_barrier(b));
    return read_synchrony(b, p);
}

static void begin_as_planned(mr_barrier *b, mr_model *m, TF_Output loss, const barrier_plan *p, mr_nn_gradients *g)
{
    b->asynchronous = p->asynchronous;
    if (p->asynchronous)
        mr_nn_gradients_of(m->net, mr_capi_out(loss), g);
    else if (p->reduces)
        b->all_reduce = mr_capi_all_reduce_begin(m, loss, &p->all_reduce, g);
    else
        b->sync = mr_nn_sync_begin(m->net, mr_capi_out(loss), &p->with, g);
}

/* As far as the gradients. */
static mr_barrier *begin_barrier(mr_model *m, TF_Output loss, const mr_barrier_options *options, mr_nn_gradients *g)
{
    mr_barrier_options b;
    barrier_plan plan;
    mr_barrier *out = mr_new(mr_barrier);
    *out = (mr_barrier){.graph = m->graph, .open = true};
    *g = (mr_nn_gradients){0};
    mr_model_arg(m, loss);
    mr_scope_fail(&m->net->s, mr_capi_take_options(options, &b, sizeof b));
    if (mr_scope_ok(&m->net->s))
        mr_scope_fail(&m->net->s, read_barrier(&b, &plan));
    if (mr_scope_ok(&m->net->s))
        begin_as_planned(out, m, loss, &plan, g);
    if (mr_scope_ok(&m->net->s))
        return out;
    mr_barrier_free(out);
    return NULL;
}

static void end_barrier(mr_barrier *b, mr_model *m, mr_node *update)
{
    if (b->asynchronous)
        b->train = update;
    else if (b->all_reduce)
        b->all_reduce->reduce->train = update;
    else
        b->sync = mr_nn_sync_end(b->sync, m->net, update);
    b->open = false;
}

/* After an error returns NULL; the error is kept in the model. */
mr_barrier *mr_minimize_sync(mr_model *m, TF_Output loss, mr_optimizer optimizer, const mr_barrier_options *options)
{
    mr_nn_gradients g;
    if (!m)
        return NULL;
    mr_lock(&m->graph->mu);
    mr_nn_optimizer o = mr_model_optimizer(m, optimizer);
    mr_barrier *out = begin_barrier(m, loss, options, &g);
    if (out)
        end_barrier(out, m, mr_nn_apply(m->net, &o, &g));
    if (out && !mr_scope_ok(&m->net->s)) {
        mr_barrier_free(out);
        out = NULL;
    }
    mr_nn_gradients_deinit(&g);
    mr_unlock(&m->graph->mu);
    return out;
}

/* ---- the same in two halves ---- */

static mr_status *give_gradients(const mr_nn_gradients *g, mr_barrier_gradient *out, int n)
{
    if (g->n != n || !out)
        return mr_invalid("There is room for %d gradients, but the model has %d variables to train", out ? n : 0, g->n);
    for (int i = 0; i < n; i++) {
        const mr_gradient *v = &g->g[i];
        out[i] = v->dense.node ? (mr_barrier_gradient){.gradient = mr_capi_output(v->dense)}
                               : (mr_barrier_gradient){mr_capi_output(v->values), mr_capi_output(v->indices), mr_capi_output(v->dense_shape)};
    }
    return NULL;
}

/* The first half: adds the gradients and the barrier. mr_barrier_complete adds the update that the client builds from
 * the gradients. */
mr_barrier *mr_barrier_begin(mr_model *m, TF_Output loss, const mr_barrier_options *options, mr_barrier_gradient *gradients, int num_gradients)
{
    mr_nn_gradients g;
    if (!m)
        return NULL;
    mr_lock(&m->graph->mu);
    mr_barrier *out = begin_barrier(m, loss, options, &g);
    mr_status *st = out ? give_gradients(&g, gradients, num_gradients) : NULL;
    if (st) {
        mr_scope_fail(&m->net->s, st);
        mr_barrier_free(out);
        out = NULL;
    }
    mr_nn_gradients_deinit(&g);
    mr_unlock(&m->graph->mu);
    return out;
}

void mr_barrier_complete(mr_barrier *b, mr_model *m, TF_Operation *update)
{
    if (!b || !m)
        return;
    mr_lock(&m->graph->mu);
    mr_status *st =
        b->graph != m->graph ? mr_invalid("The barrier belongs to another model") : mr_capi_check_op(m->graph, update);
    if (!st && !b->open)
        st = mr_invalid("The barrier already has an update");
    mr_scope_fail(&m->net->s, st);
    if (mr_scope_ok(&m->net->s))
        end_barrier(b, m, mr_capi_node(update));
    mr_unlock(&m->graph->mu);
}

/* ---- training by the name of a synchrony ---- */

mr_barrier *mr_minimize_as(mr_model *m, TF_Output loss, mr_optimizer optimizer, const char *synchrony, const mr_cluster_task *task)
{
    if (m && !mr_cluster_task_is_worker(task)) {
        mr_scope_fail(&m->net->s, mr_invalid("Only workers train a model, and this process is not a worker"));
        return NULL;
    }
    mr_barrier_options b = {.struct_size = sizeof b, .num_workers = mr_cluster_task_num_workers(task),
                            .worker = mr_cluster_task_worker(task), .synchrony = synchrony_or_told(synchrony)};
    return mr_minimize_sync(m, loss, optimizer, &b);
}

const mr_all_reduce *mr_barrier_all_reduce(const mr_barrier *b) { return b ? b->all_reduce : NULL; }

void mr_barrier_free(mr_barrier *b)
{
    if (!b)
        return;
    mr_nn_sync_free(b->sync);
    mr_all_reduce_free(b->all_reduce);
    mr_free(b);
}

/* ---- for a launcher ---- */

void mr_tell_step(int64_t step) { mr_report_step(step); }
void mr_tell_progress(double loss, int64_t last_step) { mr_report_progress(loss, last_step); }
void mr_tell_waiting(const char *what) { mr_report_waiting(what ? what : ""); }
