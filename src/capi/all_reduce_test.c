/* capi/all_reduce_test.c -- data-parallel training by all-reduce, over clusters in one process. */
#include "train/all_reduce.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/memory.h"
#include "capi/training_fixture.h"
#include "ops/table.h"
#include "tests/harness/test.h"
#include "train/supervised.h"
#include "wire/pb.h"

enum { WORKERS = 3, BATCH = 8, MAX_VARS = 24, WORDS = 12, MAX_FEEDS = 4 };

/* A small network, one worker's or that of a process alone. */
typedef struct model {
    mr_graph *graph;
    mr_nn *net;
    mr_out feeds[MAX_FEEDS], loss; /* x, y; with words also their numbers, and whose they are */
    int n_feeds;
} model;

/* To each example is added the sum of its words' rows of a table. */
static mr_out add_words(model *m, mr_out h)
{
    mr_nn *n = m->net;
    mr_out axis = mr_const_i32(&n->s, 0), one = mr_const_i32(&n->s, 1);
    mr_out ids = mr_nn_input(n, "ids", MR_INT32, 1, (int64_t[]){-1}),
           of = mr_nn_input(n, "of", MR_INT32, 1, (int64_t[]){-1});
    mr_out batch = mr_emit(&n->s, "GatherV2", mr_emit(&n->s, "Shape", m->feeds[0]), axis, axis);
    mr_out bag = mr_emit(&n->s, "UnsortedSegmentSum", mr_nn_embedding(n, "words", ids, WORDS, 3), of, batch);
    m->feeds[m->n_feeds++] = ids;
    m->feeds[m->n_feeds++] = of;
    return mr_emit_lists(&n->s, "ConcatV2", NULL, 0, (mr_emit_arg[]){{2, (mr_out[]){h, bag}}, {-1, &one}}, 2);
}

static void model_begin(model *m, const char *device, int64_t seed, bool words)
{
    mr_ops_register();
    *m = (model){.graph = mr_graph_new(), .n_feeds = 2};
    mr_nn *n = m->net = mr_nn_new(m->graph);
    n->seed = seed;
    mr_nn_at(n, mr_arena_strdup(&m->graph->arena, device));
    m->feeds[0] = mr_nn_input(n, "x", MR_FLOAT, 2, (int64_t[]){-1, 1});
    m->feeds[1] = mr_nn_input(n, "y", MR_FLOAT, 2, (int64_t[]){-1, 1});
    mr_out h = mr_nn_dense(n, "fc1", m->feeds[0], 9, MR_NN_TANH);
    if (words)
        h = add_words(m, h);
    m->loss = mr_nn_squared_loss(n, mr_nn_dense(n, "fc2", h, 1, MR_NN_LINEAR), m->feeds[1]);
}

/* How many words an example has: workers differ, one of four has none, and in every seventh step there are none at all.
 */
static int words_of(int64_t example)
{
    int64_t block = example / BATCH;
    return block / WORKERS % 7 == 3 || block % 4 == 1 ? 0 : (int)(example % 3 + block % 2);
}

/* Some words occur twice, and most with several workers. */
static void word_batch(int64_t first, int64_t n, mr_tensor *v[2])
{
    int64_t k = 0, at = 0;
    for (int64_t i = 0; i < n; i++)
        k += words_of(first + i);
    for (int i = 0; i < 2; i++)
        MR_CHECK_OK(mr_tensor_new(mr_cpu_allocator(), MR_INT32, 1, &k, &v[i]));
    for (int64_t i = 0; i < n; i++)
        for (int w = 0; w < words_of(first + i); w++, at++) {
            MR_DATA(int32_t, v[0])[at] = (int32_t)((first + i + 5 * w) % (WORDS - 1)); /* the last is never used */
            MR_DATA(int32_t, v[1])[at] = (int32_t)i;
        }
}

static void fill(const model *m, int64_t first, int64_t n, mr_tensor *v[MAX_FEEDS])
{
    line_batch(first, n, v);
    if (m->n_feeds > 2)
        word_batch(first, n, v + 2);
}

static void unfill(const model *m, mr_tensor *v[MAX_FEEDS])
{
    for (int i = 0; i < m->n_feeds; i++)
        mr_tensor_unref(v[i]);
}

static void model_end(model *m)
{
    mr_nn_free(m->net);
    mr_graph_unref(m->graph);
}

static const mr_nn_optimizer momentum = {.kind = MR_NN_MOMENTUM, .rate = 0.1f, .a = 0.9f};
static const mr_nn_optimizer sgd = {.kind = MR_NN_SGD, .rate = 0.1f};
static const mr_nn_optimizer adagrad = {.kind = MR_NN_ADAGRAD, .rate = 0.05f, .a = 0.1f};
static const mr_nn_optimizer adam = {.kind = MR_NN_ADAM, .rate = 0.01f, .a = 0.9f, .b = 0.999f, .epsilon = 1e-7f};

/* ---- a team ---- */

typedef struct team {
    training_fixture fixture;
    mr_nn_reduce_options o;
    const mr_nn_optimizer *optimizer; /* NULL: momentum */
    bool words;
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
    mr_nn_reduce *reduce;
    int n_vars, losses;
    mr_tensor *vars[MAX_VARS]; /* in the end */
} player;

/* Only its own task is the business of a worker's session. */
static mr_status *open_session(void *arg, mr_cancel *cancel, mr_session **out)
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
    training_fixture *r = &p->t->fixture;
    int i = mr_cluster_find(&r->cluster, MR_SV("worker"), p->worker);
    mr_status *st = mr_remote_session_new(mr_net_loop(), r->cluster.tasks.p[i].address, p->m.graph, NULL,
                                          mr_str_view(&config), cancel, out);
    mr_str_deinit(&config);
    return st;
}

static mr_status *join(void *arg, const mr_reduce_ask *a, mr_reduce_group *out)
{
    player *p = arg;
    training_fixture *r = &p->t->fixture;
    mr_joined in;
    mr_join q = {"train",    a->worker,    a->n_workers,   a->generation, a->step,
                 a->wait_ms, a->settle_ms, a->deadline_ms, a->cancel};
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
    model_begin(&p->m, own, p->worker + 1, p->t->words); /* others begin elsewhere, and take what worker 0 has */
    mr_nn_reduce_options o = p->t->o;
    o.worker = p->worker;
    o.n_workers = WORKERS;
    p->reduce = mr_nn_reduce_new(p->m.net, p->m.loss, p->t->optimizer ? p->t->optimizer : &momentum, &o);
    MR_CHECK(p->reduce);
    p->reduce->join = join;
    p->reduce->arg = p;
    mr_supervised_options with = {.worker = p->worker,
                                  .open = open_session,
                                  .arg = p,
                                  .reduce = p->reduce,
                                  .deadline_ms = 20000,
                                  .folder = p->t->folder,
                                  .save_ms = p->t->folder ? 5 : 0,
                                  .max_to_keep = 3};
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
    mr_tensor *v[MAX_FEEDS];
    mr_supervised *s = supervise(p);
    mr_status *st = mr_supervised_start(s);
    if (!st)
        st = mr_supervised_step(s, &step);
    while (!st && (step < t->total || t->hold) && !t->crash[p->worker]) {
        fill(&p->m, (step * WORKERS + p->worker) * BATCH, BATCH, v);
        st = mr_supervised_train(s, &(mr_run_args){.feeds = p->m.feeds, .feed_values = v, .n_feeds = p->m.n_feeds},
                                 &step);
        t->seen[p->worker] = step;
        t->size[p->worker] = p->reduce->group.size;
        unfill(&p->m, v);
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
    mr_nn_reduce_free(p->reduce);
    model_end(&p->m);
}

static void start(player *p) { MR_CHECK_INT(mr_thread_start(&p->thread, "player", play, p), 0); }

static void team_begin(team *t, player *p, int n_ps)
{
    training_fixture_begin(&t->fixture, n_ps, WORKERS);
    t->o.settle_ms = 200;
    for (int i = 0; i < WORKERS; i++)
        p[i] = (player){.t = t, .worker = i};
}

static void team_end(team *t, player *p)
{
    for (int i = 0; i < WORKERS; i++)
        for (int k = 0; k < p[i].n_vars; k++)
            mr_tensor_unref(p[i].vars[k]);
    training_fixture_end(&t->fixture);
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
static void check_against_one(const player *p, const mr_nn_optimizer *o, int64_t total)
{
    model m;
    mr_session *s;
    mr_tensor *v[MAX_FEEDS], *got[MAX_VARS];
    mr_out outs[MAX_VARS];
    model_begin(&m, "", 1, p->t->words);
    mr_node *train = mr_nn_minimize(m.net, m.loss, o), *init = mr_nn_initializer(m.net);
    MR_CHECK_OK(mr_scope_status(&m.net->s));
    MR_CHECK_OK(mr_direct_session_new(m.graph, NULL, &(mr_session_config){0}, &s));
    MR_CHECK_OK(mr_session_run(s, &(mr_run_args){.targets = &init, .n_targets = 1}, NULL, NULL));
    for (int64_t step = 0; step < total; step++) {
        fill(&m, step * WORKERS * BATCH, WORKERS * BATCH, v);
        MR_CHECK_OK(mr_session_run(
            s,
            &(mr_run_args){.feeds = m.feeds, .feed_values = v, .n_feeds = m.n_feeds, .targets = &train, .n_targets = 1},
            NULL, NULL));
        unfill(&m, v);
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

static void check_training_of(mr_nn_reduce_options o, const mr_nn_optimizer *optimizer, bool words)
{
    team t = {.o = o, .optimizer = optimizer, .words = words, .total = 25};
    player p[WORKERS];
    team_begin(&t, p, 0);
    for (int i = 0; i < WORKERS; i++)
        start(&p[i]);
    for (int i = 0; i < WORKERS; i++)
        mr_thread_join(&p[i].thread);
    check_same_bits(p);
    check_against_one(&p[0], optimizer, t.total);
    for (int i = 0; i < WORKERS; i++)
        MR_CHECK_INT(t.seen[i], t.total);
    team_end(&t, p);
}

static void check_training(mr_nn_reduce_options o) { check_training_of(o, &momentum, false); }

MR_TEST(train_all_reduce_is_one_process_with_the_batches_of_all) { check_training((mr_nn_reduce_options){0}); }
MR_TEST(train_all_reduce_of_each_gradient_by_itself) { check_training((mr_nn_reduce_options){.bucket_bytes = -1}); }
MR_TEST(train_all_reduce_behind_the_last_gradient) { check_training((mr_nn_reduce_options){.no_overlap = true}); }

static void check_words(mr_nn_reduce_options o, const mr_nn_optimizer *with) { check_training_of(o, with, true); }

MR_TEST(train_all_reduce_of_rows_is_one_process_with_the_batches_of_all)
{
    check_words((mr_nn_reduce_options){0}, &momentum);
}
MR_TEST(train_all_reduce_of_rows_with_sgd) { check_words((mr_nn_reduce_options){0}, &sgd); }
MR_TEST(train_all_reduce_of_rows_with_adagrad) { check_words((mr_nn_reduce_options){.no_overlap = true}, &adagrad); }
MR_TEST(train_all_reduce_of_rows_with_adam) { check_words((mr_nn_reduce_options){0}, &adam); }
MR_TEST(train_all_reduce_of_rows_made_dense) { check_words((mr_nn_reduce_options){.sparse_as_dense = true}, &sgd); }

MR_TEST(train_all_reduce_sends_rows_unless_they_are_to_be_dense)
{
    for (int dense = 0; dense < 2; dense++) {
        model m;
        model_begin(&m, "", 1, true);
        mr_nn_reduce *r =
            mr_nn_reduce_new(m.net, m.loss, &momentum,
                             &(mr_nn_reduce_options){.n_workers = 2, .bucket_bytes = -1, .sparse_as_dense = dense});
        MR_CHECK_OK(mr_scope_status(&m.net->s));
        MR_CHECK_INT(r->n_sparse, !dense);
        MR_CHECK_INT(r->n_buckets, 4 + dense);
        mr_nn_reduce_free(r);
        model_end(&m);
    }
}

MR_TEST(train_all_reduce_buckets_hold_what_fits)
{
    static const struct {
        int64_t bytes;
        int n;
    } cases[] = {{0, 1}, {-1, 4}, {40, 3}, {1 << 20, 1}}; /* of 9, 9, 9 and 1 floats */
    for (int i = 0; i < MR_COUNT(cases); i++) {
        model m;
        model_begin(&m, "", 1, false);
        mr_nn_reduce *r = mr_nn_reduce_new(m.net, m.loss, &momentum,
                                             &(mr_nn_reduce_options){.n_workers = 2, .bucket_bytes = cases[i].bytes});
        MR_CHECK_OK(mr_scope_status(&m.net->s));
        MR_CHECK_INT(r->n_buckets, cases[i].n);
        mr_nn_reduce_free(r);
        model_end(&m);
    }
}

MR_TEST(train_all_reduce_refuses_what_cannot_be)
{
    model m;
    model_begin(&m, "", 1, false);
    MR_CHECK(!mr_nn_reduce_new(m.net, m.loss, &momentum, &(mr_nn_reduce_options){.n_workers = 2, .worker = 2}));
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
static void lose_and_find(int n_ps, int lost, const char *folder, bool words)
{
    team t = {.total = 40, .hold = true, .folder = folder, .words = words};
    player p[WORKERS];
    int a = (lost + 1) % WORKERS, b = (lost + 2) % WORKERS;
    team_begin(&t, p, n_ps);
    for (int i = 0; i < WORKERS; i++)
        start(&p[i]);
    wait_until(&t.seen[lost], 5);
    t.crash[lost] = true;
    training_fixture_stop(&t.fixture, "worker", lost);
    mr_thread_join(&p[lost].thread);
    wait_for_size(&t, a, b, WORKERS - 1);
    wait_until(&t.seen[a], t.seen[a] + 5); /* they make steps without it */
    t.crash[lost] = false;
    training_fixture_start(&t.fixture, "worker", lost);
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

MR_TEST(train_all_reduce_goes_on_without_a_worker_and_with_it_again) { lose_and_find(0, 1, NULL, false); }
MR_TEST(train_all_reduce_goes_on_without_the_first_worker_where_another_task_leads)
{
    lose_and_find(1, 0, NULL, false);
}
MR_TEST(train_all_reduce_saves_while_workers_come_and_go) { lose_and_find(1, 2, mr_test_dir(), false); }
MR_TEST(train_all_reduce_of_rows_goes_on_without_a_worker_and_with_it_again) { lose_and_find(0, 2, NULL, true); }

/* ---- waits that are cancelled ---- */

static void cancel_when_waiting(void *arg)
{
    mr_sleep_ns(100000000); /* likely in the wait for others; if not yet, that ends as soon as it begins */
    mr_supervised_cancel(arg);
}

MR_TEST(train_all_reduce_can_be_cancelled_while_it_waits_for_others)
{
    team t = {.o = {.wait_ms = 600000}};
    player p[WORKERS];
    mr_thread thread;
    team_begin(&t, p, 0);
    mr_supervised *s = supervise(&p[1]); /* the only one that comes, and not the leader */
    int64_t then = mr_now_ns();
    MR_CHECK_INT(mr_thread_start(&thread, "cancel", cancel_when_waiting, s), 0);
    MR_CHECK_ERR(mr_supervised_start(s), MR_CANCELLED, "was cancelled");
    mr_thread_join(&thread);
    MR_CHECK(mr_now_ns() - then < 15 * INT64_C(1000000000)); /* deadline_ms is 20000 */
    mr_supervised_free(s);
    mr_nn_reduce_free(p[1].reduce);
    model_end(&p[1].m);
    team_end(&t, p);
}
