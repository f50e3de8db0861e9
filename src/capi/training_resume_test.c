/* capi/training_resume_test.c -- networks that are spread over tasks, by stages or by rows, go on when one of the tasks is lost.
 *
 * One worker trains; the tasks that hold the network are of "ps".  While steps are under way one of them is stopped as
 * it stands and started again with nothing: what it held has to come back from the newest checkpoint, and the training
 * to its known end. */
#include <stdio.h>

#include "base/clock.h"
#include "base/memory.h"
#include "capi/training_fixture.h"
#include "tests/harness/test.h"
#include "train/pipeline.h"
#include "train/replicas.h"
#include "train/supervised.h"
#include "train/table.h"

enum { N_PS = 3, POINTS = 16, MIDDLE = 60, TOTAL = 120 };

typedef struct team team;

/* Some network whose end is known: it is built, and looked at when all is over. */
typedef struct spread {
    mr_node *(*build)(team *t);
    void (*check)(team *t);
} spread;

struct team {
    training_fixture fixture;
    const spread *net;
    int lose;   /* a task of "ps" */
    char *folder;
    mr_graph *graph;
    mr_nn *n;
    mr_out x, y;
    mr_out ends[2]; /* what is looked at */
    mr_supervised *s;
    _Atomic int64_t step;
    _Atomic bool back; /* the task was lost and is there again */
    int64_t saved,
        fell_to; /* the newest checkpoint at the loss; the step that training went on from, -1: it did not fall */
};

/* ---- a line in stages: x * w on the first task, + b on the second, the loss on the third ---- */

static mr_out stage(void *arg, int i, mr_out x, const mr_out *parts)
{
    mr_nn *n = ((team *)arg)->n;
    if (i == 0) {
        mr_out w = mr_nn_variable(n, "w", MR_FLOAT, 2, (int64_t[]){1, 1}, (mr_nn_init){MR_NN_CONSTANT, 0, 0}, true);
        return mr_emit(&n->s, "MatMul", x, w);
    }
    if (i == 1) {
        mr_out b = mr_nn_variable(n, "b", MR_FLOAT, 1, (int64_t[]){1}, (mr_nn_init){MR_NN_CONSTANT, 0, 0}, true);
        return mr_emit(&n->s, "BiasAdd", x, b);
    }
    return mr_nn_squared_loss(n, x, parts[1]);
}

static mr_node *build_stages(team *t)
{
    static const char *const devices[] = {"/job:ps/task:0", "/job:ps/task:1", "/job:ps/task:2"};
    mr_nn_pipeline p = {3, 4, devices, MR_ORDER_1F1B, stage, t};
    mr_out loss;
    mr_node *train = mr_nn_pipeline_minimize(t->n, &p, (mr_out[]){t->x, t->y}, 2,
                                             &(mr_nn_optimizer){MR_NN_MOMENTUM, 0.1f, MR_NO_OUT, 0.5f, 0, 0, 0}, &loss);
    for (int i = 0; i < 2 && train; i++)
        t->ends[i] = t->n->vars.p[i].value;
    return train;
}

static void read_ends(team *t, int i, float *out, int64_t n)
{
    mr_tensor *got = NULL;
    MR_CHECK_OK(mr_supervised_run(t->s, &(mr_run_args){.fetches = &t->ends[i], .fetched = &got, .n_fetches = 1}));
    MR_CHECK_INT(got->n, n);
    memcpy(out, got->data, (size_t)n * sizeof *out);
    mr_tensor_unref(got);
}

static void check_stages(team *t)
{
    float w, b;
    read_ends(t, 0, &w, 1);
    read_ends(t, 1, &b, 1);
    MR_CHECK_NEAR(w, 2, 0.01);
    MR_CHECK_NEAR(b, 1, 0.01);
}

static const spread stages = {build_stages, check_stages};

/* ---- a table over three tasks, each of whose rows is to become the y of its number ---- */

static mr_node *build_table(team *t)
{
    mr_nn_table table;
    mr_scope *s = &t->n->s;
    mr_out ids = mr_emit(s, "Range", mr_const_i32(s, 0), mr_const_i32(s, POINTS), mr_const_i32(s, 1));
    mr_nn_table_init(t->n, &table, "table", POINTS, 1, N_PS, MR_NN_MOD, (mr_nn_init){MR_NN_CONSTANT, 0, 0});
    t->ends[0] = mr_nn_table_rows(t->n, &table, ids);
    mr_out loss = mr_nn_squared_loss(t->n, t->ends[0], t->y);
    return mr_nn_minimize(t->n, loss, &(mr_nn_optimizer){MR_NN_ADAGRAD, 1, MR_NO_OUT, 0.1f, 0, 0, 0});
}

static void check_table(team *t)
{
    float rows[POINTS];
    mr_tensor *v[2];
    line_batch(0, POINTS, v);
    read_ends(t, 0, rows, POINTS);
    for (int i = 0; i < POINTS; i++)
        MR_CHECK_NEAR(rows[i], MR_DATA(float, v[1])[i], 0.01);
    mr_tensor_unref(v[0]);
    mr_tensor_unref(v[1]);
}

static const spread table = {build_table, check_table};

/* ---- the story ---- */

static mr_status *open_session(void *arg, mr_cancel *cancel, mr_session **out)
{
    team *t = arg;
    *out = NULL;
    return training_fixture_open_under(&t->fixture, 0, t->graph, cancel, out);
}

/* Beside the training, so that steps are under way when the task is lost. */
static void lose_task(void *arg)
{
    team *t = arg;
    while (t->step < 30 || training_fixture_newest_saved(t->folder) < 10)
        mr_sleep_ns(2000000);
    t->saved = training_fixture_newest_saved(t->folder);
    training_fixture_stop(&t->fixture, "ps", t->lose);
    mr_sleep_ns(20000000);
    training_fixture_start(&t->fixture, "ps", t->lose);
    t->back = true;
}

/* Not beyond the middle before the loss, so that there is always something left to learn behind it. */
static void train(team *t)
{
    mr_tensor *v[2];
    int64_t step = 0;
    mr_out feeds[] = {t->x, t->y};
    line_batch(0, POINTS, v);
    mr_run_args a = {.feeds = feeds, .feed_values = v, .n_feeds = 2};
    while (step < TOTAL) {
        int64_t before = step;
        while (step >= MIDDLE && !t->back)
            mr_sleep_ns(2000000);
        MR_CHECK_OK(mr_supervised_train(t->s, &a, &step));
        if (step <= before)
            t->fell_to = step;
        t->step = step;
        mr_sleep_ns(1000000);
    }
    MR_CHECK_OK(mr_supervised_finish(t->s, &step));
    MR_CHECK_INT(step, TOTAL);
    mr_tensor_unref(v[0]);
    mr_tensor_unref(v[1]);
}

static void begin(team *t, const spread *net, int lose)
{
    *t = (team){.net = net,
                .lose = lose,
                .folder = mr_printf("%s/resume_%d", mr_test_dir(), lose),
                .graph = mr_graph_new(),
                .fell_to = -1};
    training_fixture_begin(&t->fixture, N_PS, 1);
    t->n = mr_nn_new(t->graph);
    mr_nn_replicate(t->n, "ps", N_PS, "/job:worker/task:0", MR_REPLICAS_ROUND_ROBIN);
    t->x = mr_nn_input(t->n, "x", MR_FLOAT, 2, (int64_t[]){-1, 1});
    t->y = mr_nn_input(t->n, "y", MR_FLOAT, 2, (int64_t[]){-1, 1});
    mr_supervised_options o = {.chief = true,
                               .open = open_session,
                               .arg = t,
                               .train = net->build(t),
                               .folder = t->folder,
                               .save_ms = 5,
                               .max_to_keep = 3,
                               .deadline_ms = 20000};
    t->s = mr_scope_ok(&t->n->s) ? mr_supervised_new(t->n, &o) : NULL;
    MR_CHECK_OK(mr_scope_status(&t->n->s));
}

static void story(const spread *net, int lose)
{
    team t;
    mr_thread other;
    begin(&t, net, lose);
    MR_CHECK_OK(mr_supervised_start(t.s));
    mr_thread_start(&other, "fate", lose_task, &t);
    train(&t);
    mr_thread_join(&other);
    net->check(&t);
    MR_CHECK(mr_supervised_losses(t.s) >= 1);
    MR_CHECK(t.fell_to == -1 || t.fell_to > t.saved); /* from the newest checkpoint, not from the start */
    MR_CHECK_INT(training_fixture_newest_saved(t.folder), TOTAL);
    mr_supervised_free(t.s);
    mr_nn_free(t.n);
    mr_graph_unref(t.graph);
    training_fixture_end(&t.fixture);
    mr_free(t.folder);
}

MR_TEST(pipeline_goes_on_without_its_first_stage) { story(&stages, 0); }
MR_TEST(pipeline_goes_on_without_a_stage_in_the_middle) { story(&stages, 1); }
MR_TEST(pipeline_goes_on_without_its_last_stage) { story(&stages, 2); }
MR_TEST(embedding_goes_on_without_a_shard)
{
    for (int lose = 0; lose < N_PS; lose++)
        story(&table, lose);
}
