/* capi/training_fixture.c -- clusters in one process, and a network to train on them. */
#include "capi/training_fixture.h"

#include <stdio.h>

#include "base/memory.h"
#include "ops/table.h"
#include "store/checkpoint_state.h"
#include "tests/harness/test.h"
#include "train/replicas.h"
#include "wire/pb.h"

static void start_at(training_fixture *r, int i)
{
    mr_server_def def = {.job = r->cluster.tasks.p[i].job, .task = r->cluster.tasks.p[i].number};
    MR_CHECK_OK(mr_cluster_copy(&r->cluster, &def.cluster));
    MR_CHECK_OK(mr_server_new(&def, &(mr_server_options){mr_net_loop()}, &r->servers[i]));
    MR_CHECK_OK(mr_server_start(r->servers[i]));
    mr_cluster_deinit(&def.cluster);
}

void training_fixture_begin(training_fixture *r, int n_ps, int n_workers)
{
    *r = (training_fixture){0};
    mr_ops_register();
    for (int i = 0; i < n_ps; i++)
        MR_CHECK_OK(mr_cluster_add(&r->cluster, MR_SV("ps"), i, MR_SV("ps:1")));
    for (int i = 0; i < n_workers; i++)
        MR_CHECK_OK(mr_cluster_add(&r->cluster, MR_SV("worker"), i, MR_SV("worker:1")));
    for (int i = 0; i < r->cluster.tasks.n; i++) { /* addresses are any text here */
        mr_task_address *t = &r->cluster.tasks.p[i];
        mr_free(t->address);
        t->address = mr_printf("%s%d:1", t->job, t->number);
    }
    for (int i = 0; i < r->cluster.tasks.n; i++)
        start_at(r, i);
}

void training_fixture_end(training_fixture *r)
{
    for (int i = 0; i < r->cluster.tasks.n; i++)
        mr_server_free(r->servers[i]);
    mr_cluster_deinit(&r->cluster);
}

void training_fixture_stop(training_fixture *r, const char *job, int task)
{
    int i = mr_cluster_find(&r->cluster, mr_sv_of(job), task);
    mr_server_free(r->servers[i]);
    r->servers[i] = NULL;
}

void training_fixture_start(training_fixture *r, const char *job, int task)
{
    start_at(r, mr_cluster_find(&r->cluster, mr_sv_of(job), task));
}

mr_status *training_fixture_open_under(training_fixture *r, int worker, mr_graph *g, mr_cancel *cancel,
                                       mr_session **out)
{
    mr_str config = {0};
    mr_pb_writer w;
    char own[64];
    snprintf(own, sizeof own, "/job:worker/task:%d", worker);
    mr_pb_writer_init(&w, &config);
    mr_pb_put_bytes(&w, 4, MR_SV("/job:ps")); /* ConfigProto.device_filters */
    mr_pb_put_bytes(&w, 4, mr_sv_of(own));
    int i = mr_cluster_find(&r->cluster, MR_SV("worker"), worker);
    mr_status *st =
        mr_remote_session_new(mr_net_loop(), r->cluster.tasks.p[i].address, g, NULL, mr_str_view(&config), cancel, out);
    mr_str_deinit(&config);
    return st;
}

mr_status *training_fixture_open(training_fixture *r, int worker, mr_graph *g, mr_session **out)
{
    return training_fixture_open_under(r, worker, g, NULL, out);
}

int64_t training_fixture_newest_saved(const char *folder)
{
    mr_checkpoint_state state;
    long long step = -1;
    mr_status *st = mr_checkpoint_state_read(folder, &state);
    if (!st && state.paths.n)
        sscanf(state.paths.p[state.paths.n - 1], "model.ckpt-%lld", &step);
    mr_status_free(st);
    mr_checkpoint_state_deinit(&state);
    return step;
}

/* ---- a line ---- */

void line_begin(line_net *l, int n_ps, int worker)
{
    char own[64];
    *l = (line_net){.graph = mr_graph_new()};
    l->net = mr_nn_new(l->graph);
    snprintf(own, sizeof own, "/job:worker/task:%d", worker);
    if (n_ps)
        mr_nn_replicate(l->net, "ps", n_ps, own, MR_REPLICAS_ROUND_ROBIN);
    l->x = mr_nn_input(l->net, "x", MR_FLOAT, 2, (int64_t[]){-1, 1});
    l->y = mr_nn_input(l->net, "y", MR_FLOAT, 2, (int64_t[]){-1, 1});
    l->w = mr_nn_variable(l->net, "w", MR_FLOAT, 2, (int64_t[]){1, 1}, (mr_nn_init){MR_NN_CONSTANT, 0, 0}, true);
    l->b = mr_nn_variable(l->net, "b", MR_FLOAT, 1, (int64_t[]){1}, (mr_nn_init){MR_NN_CONSTANT, 0, 0}, true);
    mr_out v = mr_emit(&l->net->s, "BiasAdd", mr_emit(&l->net->s, "MatMul", l->x, l->w), l->b);
    l->loss = mr_nn_squared_loss(l->net, v, l->y);
}

void line_end(line_net *l)
{
    mr_nn_free(l->net);
    mr_graph_unref(l->graph);
}

void line_batch(int64_t first, int64_t n, mr_tensor *values[2])
{
    for (int k = 0; k < 2; k++)
        MR_CHECK_OK(mr_tensor_new(mr_cpu_allocator(), MR_FLOAT, 2, (int64_t[]){n, 1}, &values[k]));
    for (int64_t i = 0; i < n; i++) {
        float x = (float)((first + i) * 37 % 64) / 32 - 1;
        MR_DATA(float, values[0])[i] = x;
        MR_DATA(float, values[1])[i] = 2 * x + 1;
    }
}

mr_status *line_run(const line_net *l, mr_session *s, int64_t first, int64_t n, mr_node *target, const mr_out *fetches,
                    int n_fetches, float *out)
{
    mr_tensor *v[2], *got[4] = {0};
    mr_out feeds[] = {l->x, l->y};
    line_batch(first, n, v);
    mr_run_args a = {.feeds = feeds, .feed_values = v, .n_feeds = 2, .fetches = fetches, .fetched = got,
                     .n_fetches = n_fetches, .targets = &target, .n_targets = target != NULL};
    mr_status *st = mr_session_run(s, &a, NULL, NULL);
    for (int i = 0; i < n_fetches; i++) {
        if (!st)
            out[i] = *MR_DATA(float, got[i]);
        mr_tensor_unref(got[i]);
    }
    mr_tensor_unref(v[0]);
    mr_tensor_unref(v[1]);
    return st;
}
