/* capi/training_deterministic_test.c -- the same bits with any number of threads, and however workers come. */
#include "base/clock.h"
#include "base/deterministic.h"
#include "base/memory.h"
#include "capi/training_fixture.h"
#include "exec/session.h"
#include "ops/table.h"
#include "tests/harness/test.h"
#include "train/sync.h"
#include "train/table.h"

enum { BATCH = 96, SIDE = 12, STEPS = 4 };

typedef enum kind { MLP, CNN, ROWS } kind;

typedef struct model {
    mr_graph *graph;
    mr_nn *net;
    mr_out x, labels, loss;
    mr_node *train;
} model;

static mr_out image(mr_nn *n, mr_out x)
{
    return mr_emit(&n->s, "Reshape", x, mr_const_vec_i32(&n->s, 4, (int32_t[]){-1, SIDE, SIDE, 1}));
}

static mr_out body(mr_nn *n, kind k, mr_out x)
{
    if (k == MLP)
        return mr_nn_dense(n, "h", x, 160, MR_NN_RELU);
    if (k == CNN) {
        mr_out h =
            mr_nn_pool(n, "MaxPool", mr_nn_conv2d(n, "c1", image(n, x), 16, 5, 1, "SAME", MR_NN_RELU), 2, 2, "SAME");
        return mr_nn_flatten(n, mr_nn_conv2d(n, "c2", h, 24, 3, 1, "SAME", MR_NN_RELU));
    }
    mr_nn_table t;
    mr_out ids = mr_emit_with(&n->s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_INT32)}),
                              mr_emit(&n->s, "Mul", x, mr_const_f32(&n->s, 99)));
    mr_nn_table_init(n, &t, "table", 100, 8, 3, MR_NN_MOD, (mr_nn_init){MR_NN_UNIFORM, -0.1f, 0.1f});
    return mr_emit(&n->s, "Reshape", mr_nn_table_rows(n, &t, ids),
                   mr_const_vec_i32(&n->s, 2, (int32_t[]){-1, SIDE * SIDE * 8}));
}

static void build(model *m, kind k)
{
    mr_ops_register();
    m->graph = mr_graph_new();
    m->net = mr_nn_new(m->graph);
    m->x = mr_nn_input(m->net, "x", MR_FLOAT, 2, (int64_t[]){-1, SIDE * SIDE});
    m->labels = mr_nn_input(m->net, "labels", MR_INT32, 1, (int64_t[]){-1});
    mr_out h = body(m->net, k, m->x);
    mr_out unseeded = mr_emit_with(&m->net->s, "RandomUniform", MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}),
                                   mr_emit(&m->net->s, "Shape", h));
    h = mr_emit(&m->net->s, "Mul", h, mr_emit(&m->net->s, "AddV2", unseeded, mr_const_f32(&m->net->s, 0.5f)));
    m->loss = mr_nn_softmax_loss(m->net, mr_nn_dense(m->net, "out", h, 10, MR_NN_LINEAR), m->labels);
    m->train = mr_nn_minimize(m->net, m->loss, &(mr_nn_optimizer){MR_NN_MOMENTUM, 0.05f, MR_NO_OUT, 0.9f, 0, 0, 0});
}

static void make_batch(mr_tensor *v[2])
{
    uint32_t seed = 7;
    MR_CHECK_OK(mr_tensor_new(mr_cpu_allocator(), MR_FLOAT, 2, (int64_t[]){BATCH, SIDE * SIDE}, &v[0]));
    MR_CHECK_OK(mr_tensor_new(mr_cpu_allocator(), MR_INT32, 1, (int64_t[]){BATCH}, &v[1]));
    for (int i = 0; i < BATCH * SIDE * SIDE; i++) {
        seed = seed * 1664525u + 1013904223u;
        MR_DATA(float, v[0])[i] = (float)(seed >> 8) / (1 << 24);
    }
    for (int i = 0; i < BATCH; i++)
        MR_DATA(int32_t, v[1])[i] = i % 10;
}

/* All variables after some steps, one behind the other. */
static void train_with(kind k, int threads, mr_str *out)
{
    model m;
    mr_session *s;
    mr_tensor *v[2], *t;
    build(&m, k);
    mr_node *init = mr_nn_initializer(m.net);
    MR_CHECK_OK(mr_scope_status(&m.net->s));
    mr_session_config c = {.intra_threads = threads, .inter_threads = threads, .per_session_threads = true};
    MR_CHECK_OK(mr_direct_session_new(m.graph, NULL, &c, &s));
    MR_CHECK_OK(mr_session_run(s, &(mr_run_args){.targets = &init, .n_targets = 1}, NULL, NULL));
    make_batch(v);
    mr_out feeds[] = {m.x, m.labels};
    for (int i = 0; i < STEPS; i++)
        MR_CHECK_OK(mr_session_run(
            s, &(mr_run_args){.feeds = feeds, .feed_values = v, .n_feeds = 2, .targets = &m.train, .n_targets = 1},
            NULL, NULL));
    for (int i = 0; i < m.net->vars.n; i++) {
        MR_CHECK_OK(mr_session_run(s, &(mr_run_args){.fetches = &m.net->vars.p[i].value, .fetched = &t, .n_fetches = 1},
                                   NULL, NULL));
        mr_str_append(out, t->data, mr_tensor_bytes(t));
        mr_tensor_unref(t);
    }
    mr_tensor_unref(v[0]);
    mr_tensor_unref(v[1]);
    mr_session_free(s);
    mr_nn_free(m.net);
    mr_graph_unref(m.graph);
}

static void check_threads(kind k)
{
    mr_str one = {0};
    mr_deterministic_set(true);
    mr_test_deadline(60);
    train_with(k, 1, &one);
    const int threads[] = {2, 5};
    for (int i = 0; i < MR_COUNT(threads); i++) {
        mr_str other = {0};
        train_with(k, threads[i], &other);
        MR_CHECK_INT(other.n, one.n);
        MR_CHECK(memcmp(one.p, other.p, one.n) == 0);
        mr_str_deinit(&other);
    }
    mr_str_deinit(&one);
}

MR_TEST(deterministic_mlp_has_the_same_bits_with_any_threads) { check_threads(MLP); }
MR_TEST(deterministic_cnn_has_the_same_bits_with_any_threads) { check_threads(CNN); }
MR_TEST(deterministic_embedding_has_the_same_bits_with_any_threads) { check_threads(ROWS); }

/* ---- workers that come in any order ---- */

enum { WORKERS = 4, ROUNDS = 6 };

typedef struct crew {
    training_fixture fixture;
    bool rows;
    int turn; /* who is how late */
} crew;

typedef struct member {
    crew *c;
    int worker;
    mr_thread thread;
    line_net l;
    mr_nn_sync *sync;
    mr_node *init;
    mr_session *s;
    mr_nn_table table;
} member;

static void build_member(member *m)
{
    line_begin(&m->l, 1, m->worker);
    mr_nn *n = m->l.net;
    mr_out loss = m->l.loss;
    if (m->c->rows) {
        mr_out ids = mr_emit_with(
            &n->s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_INT32)}),
            mr_emit(&n->s, "Mul", mr_emit(&n->s, "AddV2", m->l.x, mr_const_f32(&n->s, 1)), mr_const_f32(&n->s, 3)));
        mr_nn_table_init(n, &m->table, "table", 8, 2, 2, MR_NN_DIV, (mr_nn_init){MR_NN_UNIFORM, -1, 1});
        mr_out axes = mr_const_vec_i32(&n->s, 3, (int32_t[]){0, 1, 2});
        loss = mr_emit(&n->s, "AddV2", loss,
                       mr_emit(&n->s, "Sum", mr_emit(&n->s, "Exp", mr_nn_table_rows(n, &m->table, ids)), axes));
    }
    m->sync = mr_nn_sync_new(n, loss, &(mr_nn_optimizer){MR_NN_SGD, 0.037f, MR_NO_OUT, 0, 0, 0, 0},
                              &(mr_nn_sync_options){.n_workers = WORKERS, .worker = m->worker});
    m->init = mr_nn_initializer(n);
    MR_CHECK_OK(mr_scope_status(&n->s));
    MR_CHECK_OK(training_fixture_open(&m->c->fixture, m->worker, m->l.graph, &m->s));
}

/* In each turn another one comes first, as far as sleep can do it; the result may not depend on whether it could. */
static void work(void *arg)
{
    member *m = arg;
    mr_sync_worker w = {0};
    for (int i = 0; i < ROUNDS; i++) {
        mr_tensor *v[2];
        mr_out feeds[] = {m->l.x, m->l.y};
        line_batch((i * WORKERS + m->worker) * 3, 5, v);
        mr_sleep_ns(INT64_C(4000000) * ((m->worker * (1 + m->c->turn) + m->c->turn) % WORKERS));
        MR_CHECK_OK(mr_nn_sync_run(m->sync, m->s, &(mr_run_args){.feeds = feeds, .feed_values = v, .n_feeds = 2}, &w));
        mr_tensor_unref(v[0]);
        mr_tensor_unref(v[1]);
    }
    MR_CHECK_OK(mr_nn_sync_say(m->sync, m->s, m->worker, MR_SYNC_LEAVE));
}

static void train_together(bool rows, int turn, mr_str *out)
{
    crew c = {.rows = rows, .turn = turn};
    member m[WORKERS + 1] = {0};
    mr_tensor *t;
    training_fixture_begin(&c.fixture, 1, WORKERS);
    for (int i = 0; i <= WORKERS; i++) { /* the last leads */
        m[i] = (member){.c = &c, .worker = i % WORKERS};
        build_member(&m[i]);
    }
    MR_CHECK_OK(mr_session_run(m[0].s, &(mr_run_args){.targets = &m[0].init, .n_targets = 1}, NULL, NULL));
    for (int i = 0; i < WORKERS; i++)
        mr_thread_start(&m[i].thread, "worker", work, &m[i]);
    MR_CHECK_OK(mr_nn_sync_lead(m[WORKERS].sync, m[WORKERS].s));
    for (int i = 0; i < WORKERS; i++)
        mr_thread_join(&m[i].thread);
    mr_nn *n = m[0].l.net;
    for (int i = 0; i < n->vars.n; i++) {
        MR_CHECK_OK(mr_session_run(
            m[0].s, &(mr_run_args){.fetches = &n->vars.p[i].value, .fetched = &t, .n_fetches = 1}, NULL, NULL));
        mr_str_append(out, t->data, mr_tensor_bytes(t));
        mr_tensor_unref(t);
    }
    for (int i = 0; i <= WORKERS; i++) {
        mr_session_free(m[i].s);
        mr_nn_sync_free(m[i].sync);
        line_end(&m[i].l);
    }
    training_fixture_end(&c.fixture);
}

MR_TEST(deterministic_sync_training_has_the_same_bits_however_workers_come)
{
    mr_deterministic_set(true);
    for (int rows = 0; rows < 2; rows++) {
        mr_str first = {0};
        train_together(rows, 0, &first);
        for (int turn = 1; turn < 4; turn++) {
            mr_str other = {0};
            train_together(rows, turn, &other);
            MR_CHECK_INT(other.n, first.n);
            MR_CHECK(memcmp(first.p, other.p, first.n) == 0);
            mr_str_deinit(&other);
        }
        mr_str_deinit(&first);
    }
}
