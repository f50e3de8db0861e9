/* capi/training_replicas_test.c -- networks whose variables lie on parameter servers. */
#include "train/replicas.h"

#include "base/thread.h"
#include "capi/training_fixture.h"
#include "ops/table.h"
#include "tests/harness/test.h"

static mr_out variable(mr_nn *n, const char *name, int64_t size)
{
    return mr_nn_variable(n, name, MR_FLOAT, 1, &size, (mr_nn_init){MR_NN_CONSTANT, 0, 0}, true);
}

static const char *device_of(const mr_nn *n, mr_out v) { return mr_nn_find(n, v)->device; }

MR_TEST(replicas_go_round)
{
    mr_ops_register();
    mr_graph *g = mr_graph_new();
    mr_nn *n = mr_nn_new(g);
    mr_nn_replicate(n, "ps", 2, "/job:worker/task:1", MR_REPLICAS_ROUND_ROBIN);
    mr_out a = variable(n, "a", 100), b = variable(n, "b", 1), c = variable(n, "c", 1);
    MR_CHECK_STR(device_of(n, a), "/job:ps/task:0");
    MR_CHECK_STR(device_of(n, b), "/job:ps/task:1");
    MR_CHECK_STR(device_of(n, c), "/job:ps/task:0");
    mr_out x = mr_emit(&n->s, "AddV2", b, c);
    MR_CHECK_OK(mr_scope_status(&n->s));
    MR_CHECK_STR(x.node->device, "/job:worker/task:1");
    mr_nn_free(n);
    mr_graph_unref(g);
}

MR_TEST(replicas_by_size_fill_the_emptiest)
{
    mr_ops_register();
    mr_graph *g = mr_graph_new();
    mr_nn *n = mr_nn_new(g);
    mr_nn_replicate(n, "ps", 2, "/job:worker/task:0", MR_REPLICAS_BY_SIZE);
    mr_out a = variable(n, "a", 100), b = variable(n, "b", 60), c = variable(n, "c", 30), d = variable(n, "d", 30);
    MR_CHECK_STR(device_of(n, a), "/job:ps/task:0");
    MR_CHECK_STR(device_of(n, b), "/job:ps/task:1");
    MR_CHECK_STR(device_of(n, c), "/job:ps/task:1");
    MR_CHECK_STR(device_of(n, d), "/job:ps/task:1");
    MR_CHECK_STR(device_of(n, variable(n, "e", 1)), "/job:ps/task:0");
    mr_nn_free(n);
    mr_graph_unref(g);
}

MR_TEST(replicas_need_a_parameter_server)
{
    mr_ops_register();
    mr_graph *g = mr_graph_new();
    mr_nn *n = mr_nn_new(g);
    mr_nn_replicate(n, "ps", 0, "/job:worker/task:0", MR_REPLICAS_BY_SIZE);
    MR_CHECK_ERR(mr_scope_status(&n->s), MR_INVALID_ARGUMENT, "must be 1 to 65536, not 0");
    mr_nn_free(n);
    mr_graph_unref(g);
}

/* Every optimizer, with a table of sparse rows beside: all updates are where their variables are. */
static void train_with(mr_nn_optimizer_kind kind)
{
    training_fixture r;
    mr_session *s;
    float loss[2];
    training_fixture_begin(&r, 2, 1);
    line_net l;
    line_begin(&l, 2, 0);
    mr_out rows = mr_nn_embedding(l.net, "rows", mr_const_vec_i32(&l.net->s, 3, (int32_t[]){1, 0, 1}), 4, 2);
    mr_out axes = mr_const_vec_i32(&l.net->s, 2, (int32_t[]){0, 1});
    mr_out sum = mr_emit(&l.net->s, "Mean", mr_emit(&l.net->s, "Square", rows), axes);
    mr_out total = mr_emit(&l.net->s, "AddV2", l.loss, sum);
    mr_nn_optimizer o = {kind, 0.05f, MR_NO_OUT, 0.9f, 0.99f, 1e-8f, 1};
    mr_node *train = mr_nn_minimize(l.net, total, &o), *init = mr_nn_initializer(l.net);
    MR_CHECK_OK(mr_scope_status(&l.net->s));
    MR_CHECK_OK(training_fixture_open(&r, 0, l.graph, &s));
    MR_CHECK_OK(line_run(&l, s, 0, 8, init, NULL, 0, NULL));
    MR_CHECK_OK(line_run(&l, s, 0, 64, NULL, &total, 1, &loss[0]));
    for (int i = 0; i < 30; i++)
        MR_CHECK_OK(line_run(&l, s, i * 8, 8, train, NULL, 0, NULL));
    MR_CHECK_OK(line_run(&l, s, 0, 64, NULL, &total, 1, &loss[1]));
    MR_CHECK(loss[1] < loss[0] * 0.8f);
    mr_session_free(s);
    line_end(&l);
    training_fixture_end(&r);
}

MR_TEST(replicas_train_with_sgd) { train_with(MR_NN_SGD); }
MR_TEST(replicas_train_with_momentum) { train_with(MR_NN_MOMENTUM); }
MR_TEST(replicas_train_with_adagrad) { train_with(MR_NN_ADAGRAD); }
MR_TEST(replicas_train_with_rmsprop) { train_with(MR_NN_RMSPROP); }
MR_TEST(replicas_train_with_adam) { train_with(MR_NN_ADAM); }

/* ---- many workers, no waiting for each other ---- */

enum { N_WORKERS = 3, N_STEPS = 60 };

typedef struct replica {
    training_fixture *fixture;
    int worker;
    mr_thread thread;
} replica;

static void train_replica(void *arg)
{
    replica *w = arg;
    line_net l;
    mr_session *s;
    line_begin(&l, 2, w->worker);
    mr_node *train = mr_nn_minimize(l.net, l.loss, &(mr_nn_optimizer){.kind = MR_NN_SGD, .rate = 0.1f});
    MR_CHECK_OK(mr_scope_status(&l.net->s));
    MR_CHECK_OK(training_fixture_open(w->fixture, w->worker, l.graph, &s));
    for (int i = 0; i < N_STEPS; i++)
        MR_CHECK_OK(line_run(&l, s, (i * N_WORKERS + w->worker) * 8, 8, train, NULL, 0, NULL));
    mr_session_free(s);
    line_end(&l);
}

MR_TEST(replicas_train_asynchronously)
{
    training_fixture r;
    line_net l;
    mr_session *s;
    replica workers[N_WORKERS];
    float v[3];
    training_fixture_begin(&r, 2, N_WORKERS);
    line_begin(&l, 2, 0);
    mr_nn_minimize(l.net, l.loss, &(mr_nn_optimizer){.kind = MR_NN_SGD, .rate = 0.1f});
    mr_node *init = mr_nn_initializer(l.net);
    mr_out step = mr_emit_with(&l.net->s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_FLOAT)}), mr_nn_global_step(l.net));
    MR_CHECK_OK(mr_scope_status(&l.net->s));
    MR_CHECK_OK(training_fixture_open(&r, 0, l.graph, &s));
    MR_CHECK_OK(line_run(&l, s, 0, 1, init, NULL, 0, NULL));
    for (int i = 0; i < N_WORKERS; i++) {
        workers[i] = (replica){&r, i, {0}};
        mr_thread_start(&workers[i].thread, "replica", train_replica, &workers[i]);
    }
    for (int i = 0; i < N_WORKERS; i++)
        mr_thread_join(&workers[i].thread);
    MR_CHECK_OK(line_run(&l, s, 0, 1, NULL, (mr_out[]){l.w, l.b, step}, 3, v));
    MR_CHECK_NEAR(v[0], 2, 0.1);
    MR_CHECK_NEAR(v[1], 1, 0.1);
    MR_CHECK_NEAR(v[2], N_WORKERS * N_STEPS, 0); /* no update was lost */
    mr_session_free(s);
    line_end(&l);
    training_fixture_end(&r);
}
