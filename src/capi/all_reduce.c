/* capi/all_reduce.c -- training by all-reduce of millrace/cluster.h on the client's types. */
#include "capi/cluster_internal.h"

static mr_status *check_options(const mr_all_reduce_options *a)
{
    if (a->join_ms > MR_CAPI_MOST_MS || a->settle_ms > MR_CAPI_MOST_MS || a->exchange_ms > MR_CAPI_MOST_MS)
        return mr_invalid("The times of an all-reduce must be at most %lld ms", (long long)MR_CAPI_MOST_MS);
    return NULL;
}

/* Adds the exchange of the gradients. The caller holds the lock of the graph, adds the update of the variables, and
 * frees *g. After an error returns NULL; the error is kept in the model. */
mr_all_reduce *mr_capi_all_reduce_begin(mr_model *m, TF_Output loss, const mr_all_reduce_options *a, mr_nn_gradients *g)
{
    mr_nn_reduce_options with = {.n_workers = a->num_workers,
                                  .worker = a->worker,
                                  .bucket_bytes = a->bucket_bytes,
                                  .no_overlap = a->no_overlap != 0,
                                  .sparse_as_dense = a->sparse_as_dense != 0,
                                  .wait_ms = a->join_ms,
                                  .settle_ms = a->settle_ms,
                                  .timeout_s = (float)((double)a->exchange_ms / 1000)};
    *g = (mr_nn_gradients){0};
    mr_scope_fail(&m->net->s, check_options(a));
    mr_nn_reduce *reduce = mr_scope_ok(&m->net->s) ? mr_nn_reduce_begin(m->net, mr_capi_out(loss), &with, g) : NULL;
    if (!reduce)
        return NULL;
    mr_all_reduce *out = mr_new(mr_all_reduce);
    out->reduce = reduce;
    out->graph = m->graph;
    return out;
}

static mr_all_reduce *make_all_reduce(mr_model *m, TF_Output loss, const mr_nn_optimizer *o,
                                      const mr_all_reduce_options *a)
{
    mr_nn_gradients g;
    mr_all_reduce *out = mr_capi_all_reduce_begin(m, loss, a, &g);
    if (out)
        out->reduce->train = mr_nn_apply(m->net, o, &g);
    mr_nn_gradients_deinit(&g);
    if (mr_scope_ok(&m->net->s))
        return out;
    mr_all_reduce_free(out);
    return NULL;
}

mr_all_reduce *mr_minimize_all_reduce(mr_model *m, TF_Output loss, mr_optimizer optimizer, const mr_all_reduce_options *options)
{
    mr_all_reduce_options a;
    mr_all_reduce *out = NULL;
    if (!m)
        return NULL;
    mr_lock(&m->graph->mu);
    mr_model_arg(m, loss);
    mr_nn_optimizer o = mr_model_optimizer(m, optimizer);
    mr_scope_fail(&m->net->s, mr_capi_take_options(options, &a, sizeof a));
    if (mr_scope_ok(&m->net->s))
        out = make_all_reduce(m, loss, &o, &a);
    mr_unlock(&m->graph->mu);
    return out;
}

int mr_all_reduce_size(const mr_all_reduce *r) { return r ? r->reduce->size_now : 0; }

int64_t mr_all_reduce_generation(const mr_all_reduce *r) { return r ? r->reduce->generation_now : 0; }

void mr_all_reduce_free(mr_all_reduce *r)
{
    if (!r)
        return;
    mr_nn_reduce_free(r->reduce);
    mr_free(r);
}

void mr_model_on_worker(mr_model *m, const mr_cluster_task *t)
{
    if (!m)
        return;
    if (!mr_cluster_task_is_worker(t)) {
        mr_scope_fail(&m->net->s, mr_invalid("Only workers train a model, and this process is not a worker"));
        return;
    }
    char *worker = mr_printf("/job:%s/task:%d", t->def.job, t->def.task);
    mr_model_device(m, worker);
    mr_free(worker);
}
