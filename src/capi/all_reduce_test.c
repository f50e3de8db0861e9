/* capi/all_reduce_test.c -- data-parallel training by all-reduce, over clusters in one process. */
#include "train/all_reduce.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/memory.h"
#include "capi/cluster_rig_test.h"
#include "ops/table.h"
#include "tests/harness/test.h"
#include "train/supervised.h"
#include "wire/pb.h"

enum { WORKERS = 3, BATCH = 8, MAX_VARS = 16 };

/* A small network, one worker's or that of a process alone. */
typedef struct model {
    mr_graph *graph;
    mr_network *net;
    mr_out x, y, loss;
} model;

static void model_begin(model *m, const char *device, int64_t seed)
{
    mr_ops_register();
    *m = (model){.graph = mr_graph_new()};
    mr_network *n = m->net = mr_net_new(m->graph);
    n->seed = seed;
    mr_net_at(n, mr_arena_strdup(&m->graph->arena, device));
    m->x = mr_net_input(n, "x", MR_FLOAT, 2, (int64_t[]){-1, 1});
    m->y = mr_net_input(n, "y", MR_FLOAT, 2, (int64_t[]){-1, 1});
    mr_out h = mr_net_dense(n, "fc1", m->x, 9, MR_NET_TANH);
    m->loss = mr_net_squared_loss(n, mr_net_dense(n, "fc2", h, 1, MR_NET_LINEAR), m->y);
}

static void model_end(model *m)
{
    mr_net_free(m->net);
    mr_graph_unref(m->graph);
}

static const mr_net_optimizer momentum = {.kind = MR_NET_MOMENTUM, .rate = 0.1f, .a = 0.9f};

/* ---- a team ---- */

typedef struct team {
    cluster_rig rig;
    mr_net_reduce_options o;
    _Atomic int64_t total;
    _Atomic int64_t seen[WORKERS]; /* the newest step of each */
    _Atomic int size[WORKERS];     /* of its group */
    _Atomic bool crash[WORKERS];   /* ends as if killed */
    _Atomic bool hold;             /* nobody ends yet */
    const char *folder;
} team;

typedef struct player {
    team *t;
    int worker;
    mr_thread thread;
    model m;
    mr_net_reduce *reduce;
    int n_vars, losses;
    mr_tensor *vars[MAX_VARS]; /* in the end */
} player;

/* Only its own task is the business of a worker's session. */
static mr_status *open_session(void *arg, mr_session **out)
{
    player *p = arg;
    mr_str config = {0};
    mr_pb_writer w;
    char own[64];
    *out = NULL;
    if (p->t->crash[p->worker])
        return mr_error(MR_FAILED_PRECONDITION, "This process has crashed");
    snprintf(own, sizeof own, "/job:worker/task:%d", p->worker);
    mr_pb_writer_init(&w, &config);
    mr_pb_put_bytes(&w, 4, mr_sv_of(own));
    cluster_rig *r = &p->t->rig;
    int i = mr_cluster_find(&r->cluster, MR_SV("worker"), p->worker);
    mr_status *st = mr_remote_session_new(mr_net_loop(), r->cluster.tasks.p[i].address, p->m.graph, NULL, mr_str_view(&config),
                                          out);
    mr_str_deinit(&config);
    return st;
}

static mr_status *join(void *arg, const mr_reduce_ask *a, mr_reduce_group *out)
{
    player *p = arg;
    cluster_rig *r = &p->t->rig;
    mr_joined in;
    mr_join q = {"train", a->worker, a->n_workers, a->generation, a->step, a->wait_ms, a->settle_ms, a->deadline_ms};
    if (p->t->crash[p->worker])
        return mr_error(MR_FAILED_PRECONDITION, "This process has crashed");
    MR_TRY(mr_server_join_group(r->servers[mr_cluster_find(&r->cluster, MR_SV("worker"), p->worker)], &q, &in));
    *out = (mr_reduce_group){in.generation, in.group_key, in.size, in.rank, in.source};
    return NULL;
}

static mr_supervised *supervise(player *p)
{
    char own[64];
    snprintf(own, sizeof own, "/job:worker/task:%d", p->worker);
    model_begin(&p->m, own, p->worker + 1); /* others begin elsewhere, and take what worker 0 has */
    mr_net_reduce_options o = p->t->o;
    o.worker = p->worker;
    o.n_workers = WORKERS;
    p->reduce = mr_net_reduce_new(p->m.net, p->m.loss, &momentum, &o);
    MR_CHECK(p->reduce);
    p->reduce->join = join;
    p->reduce->arg = p;
    mr_supervised_options with = {.worker = p->worker, .open = open_session, .arg = p, .reduce = p->reduce, .deadline_ms = 20000,
                                  .folder = p->t->folder, .save_ms = p->t->folder ? 5 : 0, .max_to_keep = 3};
    mr_supervised *s = mr_supervised_new(p->m.net, &with);
    MR_CHECK_OK(mr_scope_status(&p->m.net->s));
    return s;
}

static void keep_variables(player *p, mr_supervised *s)
{
    mr_out outs[MAX_VARS];
    p->n_vars = p->m.net->vars.n;
    for (int i = 0; i < p->n_vars; i++)
        outs[i] = p->m.net->vars.p[i].value;
    MR_CHECK_OK(mr_supervised_run(s, &(mr_run_args){.fetches = outs, .fetched = p->vars, .n_fetches = p->n_vars}));
}

static void play(void *arg)
{
    player *p = arg;
    team *t = p->t;
    int64_t step = 0;
    mr_tensor *v[2];
    mr_supervised *s = supervise(p);
    mr_out feeds[] = {p->m.x, p->m.y};
    mr_status *st = mr_supervised_start(s);
    if (!st)
        st = mr_supervised_step(s, &step);
    while (!st && (step < t->total || t->hold) && !t->crash[p->worker]) {
        line_batch((step * WORKERS + p->worker) * BATCH, BATCH, v);
        st = mr_supervised_train(s, &(mr_run_args){.feeds = feeds, .feed_values = v, .n_feeds = 2}, &step);
        t->seen[p->worker] = step;
        t->size[p->worker] = p->reduce->group.size;
        mr_tensor_unref(v[0]);
        mr_tensor_unref(v[1]);
        if (t->hold)
            mr_sleep_ns(1000000);
    }
    if (t->crash[p->worker]) {
        mr_status_free(st);
    } else {
        MR_CHECK_OK(st);
        keep_variables(p, s);
        MR_CHECK_OK(mr_supervised_finish(s, &step));
    }
    p->losses = mr_supervised_losses(s);
    mr_supervised_free(s);
    mr_net_reduce_free(p->reduce);
    model_end(&p->m);
}

static void start(player *p) { MR_CHECK_INT(mr_thread_start(&p->thread, "player", play, p), 0); }

static void team_begin(team *t, player *p, int n_ps)
{
    rig_begin(&t->rig, n_ps, WORKERS);
    t->o.settle_ms = 200;
    for (int i = 0; i < WORKERS; i++)
        p[i] = (player){.t = t, .worker = i};
}

static void team_end(team *t, player *p)
{
    for (int i = 0; i < WORKERS; i++)
        for (int k = 0; k < p[i].n_vars; k++)
            mr_tensor_unref(p[i].vars[k]);
    rig_end(&t->rig);
}

static void check_same_bits(const player *p)
{
    for (int i = 1; i < WORKERS; i++) {
        MR_CHECK_INT(p[i].n_vars, p[0].n_vars);
        for (int k = 0; k < p[0].n_vars; k++)
            MR_CHECK(memcmp(p[0].vars[k]->data, p[i].vars[k]->data, mr_tensor_bytes(p[0].vars[k])) == 0);
    }
}

/* ---- as one process ---- */

/* The same steps in one process with the batches of all together, from worker 0's initial values. */
static void check_against_one(const player *p, int64_t total)
{
    model m;
    mr_session *s;
    mr_tensor *v[2], *got[MAX_VARS];
    mr_out outs[MAX_VARS];
    model_begin(&m, "", 1);
    mr_node *train = mr_net_minimize(m.net, m.loss, &momentum), *init = mr_net_initializer(m.net);
    mr_out feeds[] = {m.x, m.y};
    MR_CHECK_OK(mr_scope_status(&m.net->s));
    MR_CHECK_OK(mr_direct_session_new(m.graph, NULL, &(mr_session_config){0}, &s));
    MR_CHECK_OK(mr_session_run(s, &(mr_run_args){.targets = &init, .n_targets = 1}, NULL, NULL));
    for (int64_t step = 0; step < total; step++) {
        line_batch(step * WORKERS * BATCH, WORKERS * BATCH, v);
        MR_CHECK_OK(mr_session_run(s, &(mr_run_args){.feeds = feeds, .feed_values = v, .n_feeds = 2, .targets = &train,
                                                     .n_targets = 1}, NULL, NULL));
        mr_tensor_unref(v[0]);
        mr_tensor_unref(v[1]);
    }
    MR_CHECK_INT(m.net->vars.n, p->n_vars);
    for (int i = 0; i < m.net->vars.n; i++)
        outs[i] = m.net->vars.p[i].value;
    MR_CHECK_OK(mr_session_run(s, &(mr_run_args){.fetches = outs, .fetched = got, .n_fetches = p->n_vars}, NULL, NULL));
    for (int i = 0; i < p->n_vars; i++) {
        for (int64_t k = 0; got[i]->dtype == MR_FLOAT && k < got[i]->n; k++)
            MR_CHECK_NEAR(MR_DATA(float, got[i])[k], MR_DATA(float, p->vars[i])[k], 1e-4);
        mr_tensor_unref(got[i]);
    }
    mr_session_free(s);
    model_end(&m);
}

static void check_training(mr_net_reduce_options o)
{
    team t = {.o = o, .total = 25};
    player p[WORKERS];
    team_begin(&t, p, 0);
    for (int i = 0; i < WORKERS; i++)
        start(&p[i]);
    for (int i = 0; i < WORKERS; i++)
        mr_thread_join(&p[i].thread);
    check_same_bits(p);
    check_against_one(&p[0], t.total);
    for (int i = 0; i < WORKERS; i++)
        MR_CHECK_INT(t.seen[i], t.total);
    team_end(&t, p);
}

MR_TEST(train_all_reduce_is_one_process_with_the_batches_of_all) { check_training((mr_net_reduce_options){0}); }
MR_TEST(train_all_reduce_of_each_gradient_by_itself) { check_training((mr_net_reduce_options){.bucket_bytes = -1}); }
MR_TEST(train_all_reduce_behind_the_last_gradient) { check_training((mr_net_reduce_options){.no_overlap = true}); }

MR_TEST(train_all_reduce_buckets_hold_what_fits)
{
    static const struct {
        int64_t bytes;
        int n;
    } cases[] = {{0, 1}, {-1, 4}, {40, 3}, {1 << 20, 1}}; /* of 9, 9, 9 and 1 floats */
    for (int i = 0; i < MR_COUNT(cases); i++) {
        model m;
        model_begin(&m, "", 1);
        mr_net_reduce *r = mr_net_reduce_new(m.net, m.loss, &momentum,
                                             &(mr_net_reduce_options){.n_workers = 2, .bucket_bytes = cases[i].bytes});
        MR_CHECK_OK(mr_scope_status(&m.net->s));
        MR_CHECK_INT(r->n_buckets, cases[i].n);
        mr_net_reduce_free(r);
        model_end(&m);
    }
}

MR_TEST(train_all_reduce_refuses_what_cannot_be)
{
    model m;
    model_begin(&m, "", 1);
    MR_CHECK(!mr_net_reduce_new(m.net, m.loss, &momentum, &(mr_net_reduce_options){.n_workers = 2, .worker = 2}));
    mr_status *st = mr_scope_status(&m.net->s);
    MR_CHECK_INT(mr_status_code(st), MR_INVALID_ARGUMENT);
    mr_status_free(st);
    model_end(&m);
}

/* ---- losses ---- */

static void wait_until(const _Atomic int64_t *what, int64_t least)
{
    while (*what < least)
        mr_sleep_ns(1000000);
}

static void wait_for_size(team *t, int a, int b, int size)
{
    while (t->size[a] != size || t->size[b] != size)
        mr_sleep_ns(1000000);
}

/* A worker is killed, the rest goes on; it is started again, and is in again.  lost: its number. */
static void lose_and_find(int n_ps, int lost, const char *folder)
{
    team t = {.total = 40, .hold = true, .folder = folder};
    player p[WORKERS];
    int a = (lost + 1) % WORKERS, b = (lost + 2) % WORKERS;
    team_begin(&t, p, n_ps);
    for (int i = 0; i < WORKERS; i++)
        start(&p[i]);
    wait_until(&t.seen[lost], 5);
    t.crash[lost] = true;
    rig_stop(&t.rig, "worker", lost);
    mr_thread_join(&p[lost].thread);
    wait_for_size(&t, a, b, WORKERS - 1);
    wait_until(&t.seen[a], t.seen[a] + 5); /* they make steps without it */
    t.crash[lost] = false;
    rig_start(&t.rig, "worker", lost);
    start(&p[lost]);
    wait_for_size(&t, a, b, WORKERS);
    int64_t then = t.seen[a];
    wait_until(&t.seen[lost], then + 3);
    t.total = t.seen[a] + 20; /* farther than anybody can be ahead */
    t.hold = false;
    for (int i = 0; i < WORKERS; i++)
        mr_thread_join(&p[i].thread);
    check_same_bits(p);
    MR_CHECK(p[a].losses > 0);
    team_end(&t, p);
}

MR_TEST(train_all_reduce_goes_on_without_a_worker_and_with_it_again) { lose_and_find(0, 1, NULL); }
MR_TEST(train_all_reduce_goes_on_without_the_first_worker_where_another_task_leads) { lose_and_find(1, 0, NULL); }
MR_TEST(train_all_reduce_saves_while_workers_come_and_go) { lose_and_find(1, 2, mr_test_dir()); }
