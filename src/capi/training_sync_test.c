/* capi/training_sync_test.c -- synchronous training over clusters in one process. */
#include "train/sync.h"

#include "base/memory.h"
#include "base/clock.h"
#include "capi/training_fixture.h"
#include "tests/harness/test.h"
#include "ops/table.h"
#include "train/sync_internal.h"

enum { MAX_WORKERS = 4, MAX_STEPS = 64 };

typedef struct crew {
    training_fixture fixture;
    int n_workers, aggregate, n_ps;
    int batch;
    int steps[MAX_WORKERS]; /* how many each has data for */
    bool embedding;
    mr_nn_optimizer_kind kind;
    int64_t lease_ms;
    float losses[MAX_WORKERS][MAX_STEPS];
    int64_t last_step[MAX_WORKERS];
    bool bounded;
    int64_t delay;
    int held; /* this worker stops after 6 steps: until all others are done, or with `bounded` for a while; 0: none */
    _Atomic int64_t at[MAX_WORKERS]; /* the stamp each may begin: who comes late begins where the slowest is */
    _Atomic int n_done;
} crew;

typedef struct member {
    crew *c;
    int worker;
    mr_thread thread;
} member;

typedef struct built {
    line_net l;
    mr_nn_sync *sync;
    mr_node *train, *init;
    mr_out total;
} built;

/* The loss of a line, and of rows that the points choose: sparse gradients with rows of only some workers. */
static void build(crew *c, built *b, int n_ps, int worker, bool sync)
{
    line_begin(&b->l, n_ps, worker);
    mr_scope *s = &b->l.net->s;
    b->total = b->l.loss;
    if (c->embedding) {
        mr_out ids =
            mr_emit_with(s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_INT32)}),
                         mr_emit(s, "Mul", mr_emit(s, "AddV2", b->l.x, mr_const_f32(s, 1)), mr_const_f32(s, 8)));
        mr_out rows = mr_nn_embedding(b->l.net, "rows", ids, 16, 2);
        mr_out d = mr_emit(s, "Sub", rows, mr_const_f32(s, 0.5f));
        mr_out axes = mr_const_vec_i32(s, 3, (int32_t[]){0, 1, 2});
        b->total = mr_emit(s, "AddV2", b->total, mr_emit(s, "Mean", mr_emit(s, "Square", d), axes));
    }
    mr_nn_optimizer o = {c->kind, 0.1f, MR_NO_OUT, 0.9f, 0.99f, 1e-3f, 0};
    if (sync)
        b->sync = mr_nn_sync_new(
            b->l.net, b->total, &o,
            &(mr_nn_sync_options){c->n_workers, worker, c->aggregate, c->lease_ms, 0, c->bounded, c->delay});
    else
        b->train = mr_nn_minimize(b->l.net, b->total, &o);
    b->init = mr_nn_initializer(b->l.net);
    MR_CHECK_OK(mr_scope_status(&b->l.net->s));
}

static mr_status *one_step(crew *c, built *b, mr_session *s, int worker, int i, mr_sync_worker *w)
{
    mr_tensor *v[2], *loss;
    mr_out feeds[] = {b->l.x, b->l.y};
    line_batch((i * c->n_workers + worker) * c->batch, c->batch, v);
    mr_run_args a = {
        .feeds = feeds, .feed_values = v, .n_feeds = 2, .fetches = &b->total, .fetched = &loss, .n_fetches = 1};
    mr_status *st = mr_nn_sync_run(b->sync, s, &a, w);
    if (!st)
        c->losses[worker][i] = *MR_DATA(float, loss);
    mr_tensor_unref(loss);
    mr_tensor_unref(v[0]);
    mr_tensor_unref(v[1]);
    return st;
}

/* The others go on as far as they may; how far that was is looked at, whatever time they had for it. */
static void hold(crew *c)
{
    for (int k = 0; c->bounded ? k < 200 : c->n_done < c->n_workers - 1; k++)
        mr_sleep_ns(1000000);
    for (int i = 0; c->bounded && c->delay >= 0 && i < c->n_workers; i++)
        MR_CHECK(c->at[i] - c->at[c->held] <= c->delay);
}

static void work(void *arg)
{
    member *m = arg;
    built b = {0};
    mr_session *s;
    mr_sync_worker w = {0};
    build(m->c, &b, m->c->n_ps, m->worker, true);
    MR_CHECK_OK(training_fixture_open(&m->c->fixture, m->worker, b.l.graph, &s));
    for (int i = 0; i < m->c->steps[m->worker]; i++) {
        if (m->c->held && m->worker == m->c->held && i == 6)
            hold(m->c);
        MR_CHECK_OK(one_step(m->c, &b, s, m->worker, i, &w));
        m->c->at[m->worker] = w.stamp;
    }
    m->c->n_done++;
    m->c->last_step[m->worker] = w.step;
    MR_CHECK_OK(mr_nn_sync_say(b.sync, s, m->worker, MR_SYNC_LEAVE));
    mr_session_free(s);
    mr_nn_sync_free(b.sync);
    line_end(&b.l);
}

/* The chief leads from the test's own thread. */
static void train_crew(crew *c)
{
    built b = {0};
    mr_session *s;
    member members[MAX_WORKERS];
    build(c, &b, c->n_ps, 0, true);
    MR_CHECK_OK(training_fixture_open(&c->fixture, 0, b.l.graph, &s));
    MR_CHECK_OK(line_run(&b.l, s, 0, 1, b.init, NULL, 0, NULL));
    for (int i = 0; i < c->n_workers; i++) {
        members[i] = (member){c, i, {0}};
        mr_thread_start(&members[i].thread, "worker", work, &members[i]);
    }
    MR_CHECK_OK(mr_nn_sync_lead(b.sync, s));
    for (int i = 0; i < c->n_workers; i++)
        mr_thread_join(&members[i].thread);
    mr_session_free(s);
    mr_nn_sync_free(b.sync);
    line_end(&b.l);
}

/* The losses of one process with batches as large as all workers' together. */
static void train_alone(crew *c, float *losses, int n)
{
    built b = {0};
    mr_session *s;
    build(c, &b, 0, 0, false);
    MR_CHECK_OK(mr_direct_session_new(b.l.graph, NULL, &(mr_session_config){0}, &s));
    MR_CHECK_OK(line_run(&b.l, s, 0, 1, b.init, NULL, 0, NULL));
    int size = c->n_workers * c->batch;
    for (int i = 0; i < n; i++)
        MR_CHECK_OK(line_run(&b.l, s, i * size, size, b.train, &b.total, 1, &losses[i]));
    mr_session_free(s);
    line_end(&b.l);
}

static crew crew_of(int n_ps, int n_workers, int steps)
{
    crew c = {.n_ps = n_ps, .n_workers = n_workers, .batch = 4};
    training_fixture_begin(&c.fixture, n_ps, n_workers);
    for (int i = 0; i < n_workers; i++)
        c.steps[i] = steps;
    return c;
}

static void check_equal_to_one_process(int n_ps, int n_workers, mr_nn_optimizer_kind kind, bool embedding)
{
    float alone[MAX_STEPS];
    int n = 24;
    crew c = crew_of(n_ps, n_workers, n);
    c.kind = kind;
    c.embedding = embedding;
    train_crew(&c);
    train_alone(&c, alone, n);
    for (int i = 0; i < n; i++) {
        double mean = 0;
        for (int w = 0; w < n_workers; w++)
            mean += c.losses[w][i] / n_workers;
        MR_CHECK_NEAR(mean, alone[i], 2e-6);
    }
    MR_CHECK_INT(c.last_step[0], n);
    training_fixture_end(&c.fixture);
}

MR_TEST(sync_training_equals_one_process_with_sgd) { check_equal_to_one_process(1, 2, MR_NN_SGD, false); }
MR_TEST(sync_training_equals_one_process_with_adam) { check_equal_to_one_process(2, 3, MR_NN_ADAM, false); }
MR_TEST(sync_training_equals_one_process_with_rows) { check_equal_to_one_process(2, 3, MR_NN_SGD, true); }
MR_TEST(sync_training_equals_one_process_with_rows_and_adagrad)
{
    check_equal_to_one_process(2, 2, MR_NN_ADAGRAD, true);
}

static bool needs(mr_node *n, const char *op)
{
    bool found = mr_node_is(n, op);
    if (n->mark)
        return false;
    n->mark = 1;
    for (int i = 0; i < n->n_in; i++)
        found |= needs(n->in[i].node, op);
    for (int i = 0; i < n->n_ctrl; i++)
        found |= needs(n->ctrl[i], op);
    return found;
}

/* With backup workers one more gradient may come while the chief takes the sum: how many there are is within it. */
MR_TEST(sync_update_does_not_count_gradients_beside_their_sum)
{
    crew c = {.n_workers = 2, .embedding = true};
    built b = {0};
    mr_ops_register();
    build(&c, &b, 1, 0, true);
    MR_CHECK(!needs(b.sync->apply, "AccumulatorNumAccumulated"));
    for (int i = 0; i < b.l.graph->nodes.n; i++)
        b.l.graph->nodes.p[i]->mark = 0;
    MR_CHECK(needs(b.sync->apply, "SparseAccumulatorTakeGradient"));
    mr_nn_sync_free(b.sync);
    line_end(&b.l);
}

/* Who has less data leaves, and the others go on. */
MR_TEST(sync_training_ends_with_uneven_data)
{
    crew c = crew_of(1, 3, 20);
    c.steps[1] = 5;
    c.steps[2] = 11;
    train_crew(&c);
    MR_CHECK_INT(c.last_step[0], 20); /* it gave to every step */
    MR_CHECK(c.losses[0][19] < c.losses[0][0]);
    training_fixture_end(&c.fixture);
}

/* Two of three complete a step; every worker still ends. */
MR_TEST(sync_training_has_backup_workers)
{
    crew c = crew_of(2, 3, 20);
    c.aggregate = 2;
    train_crew(&c);
    int64_t most = 0;
    for (int i = 0; i < 3; i++)
        most = MR_MAX(most, c.last_step[i]);
    MR_CHECK(most >= 20); /* as many as the quickest gave, at least */
    MR_CHECK(c.losses[0][19] < c.losses[0][0]);
    training_fixture_end(&c.fixture);
}

/* Leads in a separate thread, with a separate graph and session. */
static void lead(void *arg)
{
    member *m = arg;
    built b = {0};
    mr_session *s;
    build(m->c, &b, m->c->n_ps, m->worker, true);
    MR_CHECK_OK(training_fixture_open(&m->c->fixture, m->worker, b.l.graph, &s));
    MR_CHECK_OK(mr_nn_sync_lead(b.sync, s));
    mr_session_free(s);
    mr_nn_sync_free(b.sync);
    line_end(&b.l);
}

/* An update that a replaced chief had begun ends while the new chief leads: the next tokens count it too. */
MR_TEST(sync_tokens_count_the_last_update_of_a_replaced_chief)
{
    crew c = crew_of(1, 1, 4);
    member leader = {&c, 0, {0}};
    built b = {0};
    mr_session *s;
    mr_sync_worker w = {0};
    build(&c, &b, c.n_ps, 0, true);
    const mr_nn_var *step = mr_nn_find(b.l.net, b.sync->step);
    mr_nn_at(b.l.net, step->device);
    mr_node *add = mr_emit(&b.l.net->s, "AssignAddVariableOp", step->handle, mr_const_i64(&b.l.net->s, 1)).node;
    MR_CHECK_OK(mr_scope_status(&b.l.net->s));
    MR_CHECK_OK(training_fixture_open(&c.fixture, 0, b.l.graph, &s));
    MR_CHECK_OK(line_run(&b.l, s, 0, 1, b.init, NULL, 0, NULL));
    mr_thread_start(&leader.thread, "chief", lead, &leader);
    MR_CHECK_OK(one_step(&c, &b, s, 0, 0, &w));
    MR_CHECK_INT(w.step, 1);
    MR_CHECK_OK(line_run(&b.l, s, 0, 1, add, NULL, 0, NULL));
    MR_CHECK_OK(one_step(&c, &b, s, 0, 1, &w));
    MR_CHECK_INT(w.step, 3);
    w.stamp = 0; /* the tokens of those that join again count it as well */
    MR_CHECK_OK(line_run(&b.l, s, 0, 1, add, NULL, 0, NULL));
    MR_CHECK_OK(mr_nn_sync_join(b.sync, s, &w));
    MR_CHECK_INT(w.step, 4);
    MR_CHECK_OK(mr_nn_sync_say(b.sync, s, 0, MR_SYNC_LEAVE));
    mr_thread_join(&leader.thread);
    mr_session_free(s);
    mr_nn_sync_free(b.sync);
    line_end(&b.l);
    training_fixture_end(&c.fixture);
}

/* The counts come from a queue: first one gradient in each accumulator, then none, as if a replaced chief had taken
 * them in between. */
MR_TEST(sync_chief_counts_again_when_the_gradients_it_counted_are_gone)
{
    crew c = crew_of(1, 1, 4);
    built b = {0};
    mr_session *s;
    int int32 = MR_INT32;
    const mr_pshape *scalar = &mr_pshape_scalar;
    build(&c, &b, c.n_ps, 0, true);
    mr_scope *scope = &b.l.net->s;
    int n = b.sync->accumulators.n;
    int32_t counts[16];
    MR_CHECK(n > 0 && n <= 8);
    for (int i = 0; i < 2 * n; i++)
        counts[i] = i < n;
    mr_out q = mr_emit0_with(mr_as(scope, "counts"), "FIFOQueueV2",
                             MR_ATTRS({"component_types", mr_a_types(1, &int32)}, {"shapes", mr_a_shapes(1, &scalar)}));
    mr_out values = mr_const_vec_i32(scope, 2 * n, counts);
    mr_node *fill = mr_emit_lists(scope, "QueueEnqueueManyV2", NULL, 0, (mr_emit_arg[]){{-1, &q}, {1, &values}}, 2).node;
    for (int i = 0; i < n; i++)
        b.sync->accumulators.p[i].count =
            mr_emit_with(scope, "QueueDequeueV2", MR_ATTRS({"component_types", mr_a_types(1, &int32)}), q);
    MR_CHECK_OK(mr_scope_status(scope));
    MR_CHECK_OK(training_fixture_open(&c.fixture, 0, b.l.graph, &s));
    MR_CHECK_OK(line_run(&b.l, s, 0, 1, b.init, NULL, 0, NULL));
    MR_CHECK_OK(line_run(&b.l, s, 0, 1, fill, NULL, 0, NULL));
    MR_CHECK_OK(mr_nn_sync_say(b.sync, s, 0, MR_SYNC_LEAVE));
    MR_CHECK_OK(mr_nn_sync_lead(b.sync, s));
    mr_session_free(s);
    mr_nn_sync_free(b.sync);
    line_end(&b.l);
    training_fixture_end(&c.fixture);
}

typedef struct ticker {
    mr_nn_sync *sync;
    mr_session *s;
    crew *c;
} ticker;

/* The chief's own words, so that time passes for the barrier. */
static void tick(void *arg)
{
    ticker *t = arg;
    while (t->c->n_done < t->c->n_workers) {
        mr_status_free(mr_nn_sync_say(t->sync, t->s, -1, MR_SYNC_ALIVE));
        mr_sleep_ns(2000000);
    }
}

/* One worker gives nothing before all others are done: a barrier that waits for it, or drops none by itself, never
 * ends. */
MR_TEST(backups_adaptive_training_goes_on_without_who_does_not_come)
{
    crew c = crew_of(1, 4, 30);
    mr_thread thread;
    built b = {0};
    ticker t = {.c = &c};
    c.aggregate = MR_SYNC_ADAPTIVE;
    c.held = 3;
    build(&c, &b, c.n_ps, 0, true);
    t.sync = b.sync;
    MR_CHECK_OK(training_fixture_open(&c.fixture, 0, b.l.graph, &t.s));
    mr_thread_start(&thread, "ticker", tick, &t);
    train_crew(&c);
    mr_thread_join(&thread);
    for (int i = 0; i < 3; i++)
        MR_CHECK(c.last_step[i] >= 30);
    MR_CHECK(c.losses[0][29] < c.losses[0][0]);
    mr_session_free(t.s);
    mr_nn_sync_free(b.sync);
    line_end(&b.l);
    training_fixture_end(&c.fixture);
}

/* One worker stands still after 6 iterations; the bound holds the others, and lets them go on with it. */
MR_TEST(delay_of_training_holds_workers_together)
{
    const int64_t bounds[] = {0, 2, MR_DELAY_ADAPTIVE, MR_DELAY_EVENTUAL};
    for (int i = 0; i < MR_COUNT(bounds); i++) {
        crew c = crew_of(2, 3, 24);
        c.bounded = true;
        c.delay = bounds[i];
        c.held = 2;
        c.embedding = i == 1;
        train_crew(&c);
        for (int k = 0; k < 3; k++)
            MR_CHECK(c.last_step[k] >= 24); /* all updates of its own, and those of others that came before */
        MR_CHECK(MR_MAX(MR_MAX(c.last_step[0], c.last_step[1]), c.last_step[2]) == 3 * 24);
        MR_CHECK(c.losses[0][23] < c.losses[0][0]);
        training_fixture_end(&c.fixture);
    }
}
