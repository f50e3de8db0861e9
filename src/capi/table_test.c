/* capi/table_test.c -- sharded tables: rows come from the right shard, and only they travel and change. */
#include "train/table.h"

#include "base/memory.h"
#include "capi/training_fixture.h"
#include "capi/graph_fixture.h"
#include "exec/session.h"
#include "millrace/train.h"
#include "ops/table.h"
#include "train/replicas.h"

enum { ROWS = 11, COLUMNS = 3 };

typedef struct bench {
    mr_graph *graph;
    mr_nn *net;
    mr_nn_table t;
    mr_out ids;
    mr_session *s;
} bench;

static void begin(bench *b, int shards, mr_nn_split split)
{
    mr_ops_register();
    *b = (bench){.graph = mr_graph_new()};
    b->net = mr_nn_new(b->graph);
    b->ids = mr_nn_input(b->net, "ids", MR_INT32, 2, (int64_t[]){-1, 2});
    MR_CHECK(
        mr_nn_table_init(b->net, &b->t, "table", ROWS, COLUMNS, shards, split, (mr_nn_init){MR_NN_UNIFORM, -1, 1}));
}

static void open_session(bench *b)
{
    mr_node *init = mr_nn_initializer(b->net);
    MR_CHECK_OK(mr_scope_status(&b->net->s));
    MR_CHECK_OK(mr_direct_session_new(b->graph, NULL, &(mr_session_config){0}, &b->s));
    MR_CHECK_OK(mr_session_run(b->s, &(mr_run_args){.targets = &init, .n_targets = 1}, NULL, NULL));
}

static void end(bench *b)
{
    mr_session_free(b->s);
    mr_nn_free(b->net);
    mr_graph_unref(b->graph);
}

/* Runs with ids [n/2, 2]. */
static mr_status *run(bench *b, int n, const int32_t *ids, mr_node *target, const mr_out *fetches, mr_tensor **out,
                      int n_out)
{
    mr_tensor *t;
    MR_CHECK_OK(mr_tensor_new(mr_cpu_allocator(), MR_INT32, 2, (int64_t[]){n / 2, 2}, &t));
    memcpy(MR_DATA(int32_t, t), ids, sizeof *ids * (size_t)n);
    mr_status *st = mr_session_run(b->s,
                                   &(mr_run_args){.feeds = &b->ids,
                                                  .feed_values = &t,
                                                  .n_feeds = 1,
                                                  .fetches = fetches,
                                                  .fetched = out,
                                                  .n_fetches = n_out,
                                                  .targets = &target,
                                                  .n_targets = target != NULL},
                                   NULL, NULL);
    mr_tensor_unref(t);
    return st;
}

/* The whole table in order, read shard by shard. */
static void read_all(bench *b, float out[ROWS][COLUMNS])
{
    int next[ROWS] = {0};
    mr_tensor *parts[ROWS] = {0};
    mr_out values[ROWS];
    for (int i = 0; i < b->t.n_shards; i++)
        values[i] = b->net->vars.p[b->t.shards[i]].value;
    MR_CHECK_OK(mr_session_run(b->s, &(mr_run_args){.fetches = values, .fetched = parts, .n_fetches = b->t.n_shards},
                               NULL, NULL));
    for (int row = 0, shard = 0; row < ROWS; row++) {
        if (b->t.split == MR_NN_MOD)
            shard = row % b->t.n_shards;
        else if (next[shard] == parts[shard]->dims[0])
            shard++;
        memcpy(out[row], MR_DATA(float, parts[shard]) + COLUMNS * next[shard]++, sizeof out[row]);
    }
    for (int i = 0; i < b->t.n_shards; i++) {
        MR_CHECK_INT(next[i], parts[i]->dims[0]); /* nothing is left over */
        mr_tensor_unref(parts[i]);
    }
}

static void check_rows(int shards, mr_nn_split split)
{
    const int32_t ids[] = {0, 10, 3, 3, 7, 1, 2, 0, 5, 4, 6, 8, 9, 9};
    float all[ROWS][COLUMNS];
    mr_tensor *got;
    bench b;
    begin(&b, shards, split);
    mr_out rows = mr_nn_table_rows(b.net, &b.t, b.ids);
    open_session(&b);
    read_all(&b, all);
    MR_CHECK_OK(run(&b, MR_COUNT(ids), ids, NULL, &rows, &got, 1));
    MR_CHECK_INT(got->rank, 3);
    for (int i = 0; i < MR_COUNT(ids); i++)
        MR_CHECK(memcmp(MR_DATA(float, got) + COLUMNS * i, all[ids[i]], sizeof all[0]) == 0);
    mr_tensor_unref(got);
    end(&b);
}

MR_TEST(embedding_rows_come_from_their_shards)
{
    for (int shards = 1; shards <= ROWS; shards++) {
        check_rows(shards, MR_NN_MOD);
        check_rows(shards, MR_NN_DIV);
    }
}

MR_TEST(embedding_of_no_ids_is_empty)
{
    mr_tensor *got;
    bench b;
    begin(&b, 3, MR_NN_DIV);
    mr_out rows = mr_nn_table_rows(b.net, &b.t, b.ids);
    open_session(&b);
    MR_CHECK_OK(run(&b, 0, (int32_t[]){0}, NULL, &rows, &got, 1));
    MR_CHECK_INT(got->n, 0);
    mr_tensor_unref(got);
    end(&b);
}

MR_TEST(embedding_refuses_numbers_that_are_no_rows)
{
    for (int split = MR_NN_MOD; split <= MR_NN_DIV; split++)
        for (int i = 0; i < 3; i++) {
            mr_tensor *got;
            bench b;
            begin(&b, 1 + i, (mr_nn_split)split);
            mr_out rows = mr_nn_table_rows(b.net, &b.t, b.ids);
            open_session(&b);
            const int32_t bad[] = {-1, ROWS, ROWS + 1, 1000000, -1000000};
            for (int k = 0; k < MR_COUNT(bad); k++)
                MR_CHECK_ERR(run(&b, 2, (int32_t[]){1, bad[k]}, NULL, &rows, &got, 1), MR_INVALID_ARGUMENT, "");
            end(&b);
        }
}

/* Their shard, or their row in it, has another value when it is cut to 32 bits. */
MR_TEST(embedding_refuses_numbers_of_more_than_32_bits)
{
    const int64_t bad[] = {INT64_C(1) << 32, -(INT64_C(1) << 32), (INT64_C(1) << 32) * ROWS, INT64_MAX, INT64_MIN};
    for (int split = MR_NN_MOD; split <= MR_NN_DIV; split++)
        for (int shards = 1; shards <= ROWS; shards++) {
            bench b;
            begin(&b, shards, (mr_nn_split)split);
            mr_out wide = mr_nn_input(b.net, "wide", MR_INT64, 0, NULL), rows = mr_nn_table_rows(b.net, &b.t, wide);
            open_session(&b);
            for (int k = 0; k < MR_COUNT(bad); k++) {
                mr_tensor *got = NULL, *id = mr_tensor_scalar_i64(bad[k]);
                mr_run_args a = {.feeds = &wide,
                                 .feed_values = &id,
                                 .n_feeds = 1,
                                 .fetches = &rows,
                                 .fetched = &got,
                                 .n_fetches = 1};
                MR_CHECK_ERR(mr_session_run(b.s, &a, NULL, NULL), MR_INVALID_ARGUMENT, "");
                mr_tensor_unref(id);
            }
            end(&b);
        }
}

/* The loss is the sum of the rows, so each row moves by the rate for each time it is asked for, and no other moves. */
static void check_updates(mr_nn_optimizer_kind kind)
{
    float before[ROWS][COLUMNS], after[ROWS][COLUMNS];
    bench b;
    begin(&b, 3, MR_NN_MOD);
    mr_out axes = mr_const_vec_i32(&b.net->s, 3, (int32_t[]){0, 1, 2});
    mr_out loss = mr_emit(&b.net->s, "Sum", mr_nn_table_rows(b.net, &b.t, b.ids), axes);
    mr_node *train = mr_nn_minimize(b.net, loss, &(mr_nn_optimizer){kind, 0.5f, MR_NO_OUT, 0, 0, 1e-7f, 0});
    open_session(&b);
    read_all(&b, before);
    MR_CHECK_OK(run(&b, 4, (int32_t[]){4, 9, 4, 2}, train, NULL, NULL, 0));
    read_all(&b, after);
    for (int i = 0; i < ROWS; i++) {
        int times = (i == 4) * 2 + (i == 9) + (i == 2);
        for (int k = 0; k < COLUMNS; k++)
            if (!times)
                MR_CHECK(before[i][k] == after[i][k]);
            else if (kind == MR_NN_SGD)
                MR_CHECK_NEAR(before[i][k] - after[i][k], 0.5 * times, 1e-6);
            else
                MR_CHECK(before[i][k] > after[i][k]);
    }
    end(&b);
}

MR_TEST(embedding_changes_only_rows_that_were_asked_for)
{
    check_updates(MR_NN_SGD);
    check_updates(MR_NN_MOMENTUM);
}

/* Whether a run of n runs `what`. */
static bool needs(mr_node *n, const mr_node *what)
{
    if (n == what)
        return true;
    if (n->mark == 1)
        return false;
    n->mark = 1;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i].node && needs(n->in[i].node, what))
            return true;
    for (int i = 0; i < n->n_ctrl; i++)
        if (needs(n->ctrl[i], what))
            return true;
    return false;
}

/* A step that reads a whole shard would send it. */
MR_TEST(embedding_steps_read_no_whole_shard)
{
    bench b;
    begin(&b, 4, MR_NN_DIV);
    mr_out axes = mr_const_vec_i32(&b.net->s, 3, (int32_t[]){0, 1, 2});
    mr_out loss = mr_emit(&b.net->s, "Sum", mr_emit(&b.net->s, "Square", mr_nn_table_rows(b.net, &b.t, b.ids)), axes);
    mr_node *train = mr_nn_minimize(b.net, loss, &(mr_nn_optimizer){MR_NN_ADAGRAD, 0.1f, MR_NO_OUT, 0.1f, 0, 0, 0});
    MR_CHECK_OK(mr_scope_status(&b.net->s));
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < b.graph->nodes.n; k++)
            b.graph->nodes.p[k]->mark = 0;
        MR_CHECK(!needs(train, b.net->vars.p[b.t.shards[i]].value.node));
    }
    end(&b);
}

/* ---- a sample of the rows ---- */

enum { EXAMPLES = 5, SAMPLE = 6 };

typedef struct drawing {
    float x[EXAMPLES][COLUMNS], w[ROWS][COLUMNS], b[ROWS];
    const int64_t *labels, *classes; /* of the examples; drawn */
    const float *expected_true, *expected;
} drawing;

static double logit(const drawing *d, int example, int64_t class, float expected)
{
    double sum = d->b[class] - log(expected);
    for (int k = 0; k < COLUMNS; k++)
        sum += (double)d->x[example][k] * d->w[class][k];
    return sum;
}

/* The mean of log(sum of exp) - the true logit, over the true class and those drawn that are not the true one. */
static double textbook(const drawing *d, int *hits)
{
    double loss = 0;
    for (int i = 0; i < EXAMPLES; i++) {
        double right = logit(d, i, d->labels[i], d->expected_true[i]), sum = exp(right);
        for (int k = 0; k < SAMPLE; k++) {
            bool hit = d->classes[k] == d->labels[i];
            *hits += hit;
            sum += hit ? 0 : exp(logit(d, i, d->classes[k], d->expected[k]));
        }
        loss += (log(sum) - right) / EXAMPLES;
    }
    return loss;
}

static mr_node *find_op(mr_graph *g, const char *op)
{
    for (int i = 0; i < g->nodes.n; i++)
        if (mr_node_is(g->nodes.p[i], op))
            return g->nodes.p[i];
    return NULL;
}

MR_TEST(embedding_sampled_softmax_is_that_of_the_textbook)
{
    static const int64_t labels[EXAMPLES] = {0, 1, 10, 0, 4};
    bench b;
    drawing d = {.labels = labels};
    mr_nn_table biases;
    mr_tensor *out[5], *in[2];
    int hits = 0;
    begin(&b, 3, MR_NN_MOD);
    MR_CHECK(mr_nn_table_init(b.net, &biases, "biases", ROWS, 1, 1, MR_NN_MOD, (mr_nn_init){MR_NN_UNIFORM, -1, 1}));
    mr_out feeds[2] = {mr_nn_input(b.net, "x", MR_FLOAT, 2, (int64_t[]){-1, COLUMNS}),
                       mr_nn_input(b.net, "labels", MR_INT64, 1, (int64_t[]){-1})};
    mr_out loss = mr_nn_sampled_softmax(b.net, &b.t, &biases, feeds[0], feeds[1], SAMPLE);
    mr_out drawn = {find_op(b.graph, "LogUniformCandidateSampler"), 0};
    mr_out fetches[5] = {loss, drawn, mr_nth(drawn, 1), mr_nth(drawn, 2), b.net->vars.p[biases.shards[0]].value};
    open_session(&b);
    read_all(&b, d.w);
    MR_CHECK_OK(mr_tensor_new(mr_cpu_allocator(), MR_FLOAT, 2, (int64_t[]){EXAMPLES, COLUMNS}, &in[0]));
    in[1] = mr_tensor_vector_i64(EXAMPLES, labels);
    for (int i = 0; i < EXAMPLES * COLUMNS; i++)
        MR_DATA(float, in[0])[i] = (float)(i * 7 % 11) / 11 - 0.5f;
    memcpy(d.x, MR_DATA(float, in[0]), sizeof d.x);
    for (int round = 0; round < 20; round++) {
        MR_CHECK_OK(mr_session_run(
            b.s,
            &(mr_run_args){
                .feeds = feeds, .feed_values = in, .n_feeds = 2, .fetches = fetches, .fetched = out, .n_fetches = 5},
            NULL, NULL));
        d.classes = MR_DATA(int64_t, out[1]);
        d.expected_true = MR_DATA(float, out[2]);
        d.expected = MR_DATA(float, out[3]);
        memcpy(d.b, MR_DATA(float, out[4]), sizeof d.b);
        MR_CHECK_NEAR(*MR_DATA(float, out[0]), textbook(&d, &hits), 1e-5);
        for (int i = 0; i < 5; i++)
            mr_tensor_unref(out[i]);
    }
    MR_CHECK(hits > 0); /* else nothing was left out */
    mr_tensor_unref(in[0]);
    mr_tensor_unref(in[1]);
    end(&b);
}

/* ---- over parameter servers ---- */

/* The losses of some steps with a table over n_ps servers (0: all in one process), three shards in any case. */
static void train_over(int n_ps, float *losses, int n)
{
    training_fixture fixture;
    bench b = {.graph = mr_graph_new()};
    if (n_ps)
        training_fixture_begin(&fixture, n_ps, 1);
    mr_ops_register();
    b.net = mr_nn_new(b.graph);
    if (n_ps)
        mr_nn_replicate(b.net, "ps", n_ps, "/job:worker/task:0", MR_REPLICAS_ROUND_ROBIN);
    b.ids = mr_nn_input(b.net, "ids", MR_INT32, 2, (int64_t[]){-1, 2});
    MR_CHECK(mr_nn_table_init(b.net, &b.t, "table", ROWS, COLUMNS, 3, MR_NN_MOD, (mr_nn_init){MR_NN_UNIFORM, -1, 1}));
    mr_out axes = mr_const_vec_i32(&b.net->s, 3, (int32_t[]){0, 1, 2});
    mr_out loss = mr_emit(&b.net->s, "Sum", mr_emit(&b.net->s, "Square", mr_nn_table_rows(b.net, &b.t, b.ids)), axes);
    mr_node *train = mr_nn_minimize(b.net, loss, &(mr_nn_optimizer){MR_NN_ADAGRAD, 0.1f, MR_NO_OUT, 0.1f, 0, 0, 0});
    mr_node *init = mr_nn_initializer(b.net);
    MR_CHECK_OK(mr_scope_status(&b.net->s));
    MR_CHECK_OK(n_ps ? training_fixture_open(&fixture, 0, b.graph, &b.s)
                     : mr_direct_session_new(b.graph, NULL, &(mr_session_config){0}, &b.s));
    MR_CHECK_OK(mr_session_run(b.s, &(mr_run_args){.targets = &init, .n_targets = 1}, NULL, NULL));
    for (int i = 0; i < n; i++) {
        mr_tensor *t;
        MR_CHECK_OK(run(&b, 4, (int32_t[]){i % ROWS, 3 * i % ROWS, 7, i % 2}, train, &loss, &t, 1));
        losses[i] = *MR_DATA(float, t);
        mr_tensor_unref(t);
    }
    end(&b);
    if (n_ps)
        training_fixture_end(&fixture);
}

MR_TEST(embedding_over_parameter_servers_is_the_same_to_the_bit)
{
    enum { STEPS = 20 };
    float here[STEPS], there[STEPS];
    train_over(0, here, STEPS);
    train_over(2, there, STEPS);
    MR_CHECK(memcmp(here, there, sizeof here) == 0);
    MR_CHECK(here[STEPS - 1] < here[0]);
}

/* ---- layers with many classes, by the public functions ---- */

typedef struct words {
    kit k;
    mr_model *m;
    TF_Output ids, labels, loss, logits;
    const TF_Operation *train;
    TF_Session *s;
} words;

enum { CLASSES = 50, SAMPLED = 12, BATCH = 25 };

static void begin_words(words *w, const mr_table_options *o)
{
    *w = (words){.k = kit_new()};
    w->m = mr_model_new(w->k.g);
    w->ids = mr_input(w->m, "ids", TF_INT32, 1, (int64_t[]){-1});
    w->labels = mr_input(w->m, "labels", TF_INT32, 1, (int64_t[]){-1});
    TF_Output x = mr_embedding_sharded(w->m, "in", w->ids, CLASSES, 16, o);
    TF_Output loss = mr_sampled_softmax_loss(w->m, "out", x, w->labels, CLASSES, SAMPLED, o);
    w->logits = mr_sharded_logits(w->m, "out", x, CLASSES, o);
    w->loss = mr_softmax_loss(w->m, w->logits, w->labels);
    w->train = mr_minimize(w->m, loss, mr_adagrad(0.5f));
    mr_model_status(w->m, w->k.s);
    CHECK_OK(w->k.s);
}

static float run_words(words *w, int first, bool train)
{
    int32_t v[2][BATCH];
    TF_Tensor *out = NULL;
    for (int i = 0; i < BATCH; i++) {
        v[0][i] = (first + i) % CLASSES;
        v[1][i] = (v[0][i] * 7 + 3) % CLASSES; /* what is to be learnt */
    }
    TF_Tensor *in[2] = {kit_ints(1, (int64_t[]){BATCH}, v[0]), kit_ints(1, (int64_t[]){BATCH}, v[1])};
    TF_Output feeds[2] = {w->ids, w->labels};
    TF_SessionRun(w->s, NULL, feeds, in, 2, &w->loss, &out, 1, &w->train, train, NULL, w->k.s);
    CHECK_OK(w->k.s);
    TF_DeleteTensor(in[0]);
    TF_DeleteTensor(in[1]);
    return kit_take_float(out);
}

static void end_words(words *w)
{
    kit_close(&w->k, w->s);
    mr_model_free(w->m);
    kit_free(&w->k);
}

/* Trained with a quarter of the classes in each step, judged with all of them. */
MR_TEST(embedding_sampled_softmax_learns_the_whole_softmax)
{
    for (int sharding = MR_SHARD_MOD; sharding <= MR_SHARD_DIV; sharding++) {
        words w;
        begin_words(&w, &(mr_table_options){sizeof(mr_table_options), .shards = 3, .sharding = (mr_sharding)sharding});
        const TF_Operation *init = mr_initializer(w.m);
        w.s = kit_session(&w.k);
        TF_SessionRun(w.s, NULL, NULL, NULL, 0, NULL, NULL, 0, &init, 1, NULL, w.k.s);
        CHECK_OK(w.k.s);
        MR_CHECK_NEAR(run_words(&w, 0, false), logf(CLASSES), 0.1);
        for (int i = 0; i < 200; i++)
            run_words(&w, BATCH * (i % 2), true);
        MR_CHECK(run_words(&w, 0, false) < 0.5f);
        end_words(&w);
    }
}

/* It would have the rows of other classes: shards are alike both ways. */
MR_TEST(embedding_layer_used_again_is_split_the_same_way)
{
    kit k = kit_new();
    mr_model *m = mr_model_new(k.g);
    mr_table_options o = {sizeof o, .shards = 3, .sharding = MR_SHARD_DIV};
    TF_Output x = mr_input(m, "x", TF_FLOAT, 2, (int64_t[]){-1, 4}),
              labels = mr_input(m, "labels", TF_INT32, 1, (int64_t[]){-1});
    MR_CHECK(mr_sampled_softmax_loss(m, "out", x, labels, CLASSES, SAMPLED, &o).oper != NULL);
    MR_CHECK(mr_sharded_logits(m, "out", x, CLASSES, &o).oper != NULL);
    o.sharding = MR_SHARD_MOD;
    MR_CHECK(mr_sharded_logits(m, "out", x, CLASSES, &o).oper == NULL);
    mr_model_status(m, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "reused with another split");
    mr_model_free(m);
    kit_free(&k);
}

static void refuse(int64_t rows, int64_t columns, const mr_table_options *o, const char *text)
{
    kit k = kit_new();
    mr_model *m = mr_model_new(k.g);
    TF_Output ids = mr_input(m, "ids", TF_INT32, 1, (int64_t[]){-1});
    TF_Output y = mr_embedding_sharded(m, "table", ids, rows, columns, o);
    MR_CHECK(y.oper == NULL);
    mr_model_status(m, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, text);
    mr_model_free(m);
    kit_free(&k);
}

MR_TEST(embedding_refuses_tables_that_cannot_be)
{
    mr_table_options o = {sizeof o, .shards = 3};
    refuse(0, 4, NULL, "'table': 0 rows");
    refuse(4, -1, NULL, "-1 columns");
    refuse(2, 4, &o, "into 3 shards");
    refuse(INT64_MAX, INT64_MAX, NULL, "table");
    o.shards = -1;
    refuse(9, 4, &o, "the number of shards -1");
    o = (mr_table_options){sizeof o, .sharding = (mr_sharding)7};
    refuse(9, 4, &o, "unknown split");
    o = (mr_table_options){.struct_size = SIZE_MAX};
    refuse(9, 4, &o, "struct");
    MR_CHECK(mr_embedding_sharded(NULL, "t", (TF_Output){NULL, -1}, 1, 1, NULL).oper == NULL);
}
