/* server/cluster_fixture.c -- whole clusters in one process. */
#include "server/cluster_fixture.h"

#include <unistd.h>

#include "base/memory.h"
#include "ops/table.h"

void cluster_fixture_start_task(cluster_fixture *b, int i)
{
    mr_server_def def = {.job = b->cluster.tasks.p[i].job, .task = b->cluster.tasks.p[i].number};
    MR_CHECK_OK(mr_cluster_copy(&b->cluster, &def.cluster));
    mr_str_append(&def.config, b->task_config.p ? b->task_config.p : "", b->task_config.n);
    MR_CHECK_OK(mr_server_new(&def, &b->options, &b->servers[i]));
    MR_CHECK_OK(mr_server_start(b->servers[i]));
    mr_str_deinit(&def.config);
    mr_cluster_deinit(&def.cluster);
}

void cluster_fixture_stop_task(cluster_fixture *b, int i)
{
    mr_server_free(b->servers[i]);
    b->servers[i] = NULL;
}

/* Sockets lie in a folder of the test's own. */
void cluster_fixture_begin_with(cluster_fixture *b, const mr_server_options *o, int n_ps, int n_workers)
{
    *b = (cluster_fixture){.net = o->net, .options = *o, .n = n_ps + n_workers};
    mr_ops_register();
    MR_CHECK_INT(chdir(mr_test_dir()), 0);
    for (int i = 0; i < b->n; i++) {
        bool ps = i < n_ps;
        char *address = ps ? mr_printf("ps%d:1", i) : mr_printf("worker%d:1", i - n_ps);
        MR_CHECK_OK(mr_cluster_add(&b->cluster, ps ? MR_SV("ps") : MR_SV("worker"), ps ? i : i - n_ps, mr_sv_of(address)));
        mr_free(address);
    }
    for (int i = 0; i < b->n; i++)
        cluster_fixture_start_task(b, i);
    b->g = mr_graph_new();
    mr_scope_init(&b->s, b->g, "");
}

void cluster_fixture_begin_on(cluster_fixture *b, mr_net *net, int n_ps, int n_workers)
{
    cluster_fixture_begin_with(b, &(mr_server_options){.net = net}, n_ps, n_workers);
}

void cluster_fixture_begin(cluster_fixture *b, int n_ps, int n_workers)
{
    cluster_fixture_begin_on(b, mr_net_loop(), n_ps, n_workers);
}

mr_session *cluster_fixture_session_of(cluster_fixture *b)
{
    if (b->session) /* maybe in several threads */
        return b->session;
    MR_CHECK_OK(mr_scope_status(&b->s));
    MR_CHECK_OK(mr_remote_session_new(b->net, b->cluster.tasks.p[b->n - 1].address, b->g, NULL, mr_str_view(&b->config), NULL,
                                      &b->session));
    return b->session;
}

void cluster_fixture_end_session(cluster_fixture *b)
{
    mr_session_free(b->session);
    b->session = NULL;
}

void cluster_fixture_end(cluster_fixture *b)
{
    cluster_fixture_end_session(b);
    for (int i = 0; i < b->n; i++)
        mr_server_free(b->servers[i]);
    mr_scope_deinit(&b->s);
    mr_graph_unref(b->g);
    mr_cluster_deinit(&b->cluster);
    mr_str_deinit(&b->config);
}

mr_status *cluster_fixture_run(cluster_fixture *b, mr_out feed, float value, mr_out fetch, mr_node *target, float *out)
{
    mr_tensor *v = mr_tensor_scalar_f32(value), *got = NULL;
    mr_run_args a = {.feeds = &feed, .feed_values = &v, .n_feeds = feed.node != NULL,
                     .fetches = &fetch, .fetched = &got, .n_fetches = fetch.node != NULL,
                     .targets = &target, .n_targets = target != NULL};
    mr_session *s = cluster_fixture_session_of(b);
    mr_status *st = mr_session_run(s, &a, NULL, NULL);
    if (!st && fetch.node)
        *out = *MR_DATA(float, got);
    mr_tensor_unref(got);
    mr_tensor_unref(v);
    return st;
}

/* ---- calls by hand ---- */

typedef struct waited {
    mr_net_request request; /* first */
    mr_mutex mu;
    mr_cond changed;
    bool done;
    mr_status *st;
    mr_str *reply;
} waited;

static void came(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    waited *w = (waited *)r;
    mr_sv bytes;
    mr_lock(&w->mu);
    w->st = st ? st : mr_bytes_flat(reply, &bytes);
    if (w->reply)
        mr_str_clear(w->reply);
    if (!w->st && w->reply)
        mr_str_append(w->reply, bytes.p, bytes.n);
    w->done = true;
    mr_cond_broadcast(&w->changed);
    mr_unlock(&w->mu);
}

mr_status *cluster_fixture_call(mr_net *net, const char *address, const char *method, mr_str *body, mr_str *reply)
{
    waited w = {.request = {.method = method, .done = came}, .reply = reply};
    mr_net_peer *p;
    MR_TRY(net->connect(net, address, NULL, NULL, &p));
    mr_bytes_add_str(&w.request.body, body);
    mr_mutex_init(&w.mu);
    mr_cond_init(&w.changed);
    net->start(p, &w.request);
    mr_lock(&w.mu);
    while (!w.done)
        mr_cond_wait(&w.changed, &w.mu);
    mr_unlock(&w.mu);
    net->disconnect(p);
    mr_cond_deinit(&w.changed);
    mr_mutex_deinit(&w.mu);
    return w.st;
}
