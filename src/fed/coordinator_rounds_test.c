/* fed/coordinator_rounds_test.c -- whole rounds on a small model: clients of this process, of threads with calls, and of processes that die. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "exec/session.h"
#include "fed/client.h"
#include "fed/server.h"
#include "fed/simulated.h"
#include "ops/table.h"
#include "tests/harness/log.h"
#include "tests/harness/test.h"
#include "train/nn.h"

#define MS INT64_C(1000000)
enum { CLIENTS = 8, ROWS = 20, LEARNERS = 2 };

typedef struct line { /* y = 2x - 1, learnt by two weights; client c has points around x = c / 4 */
    mr_graph *graph;
    mr_nn *net;
    mr_learner_parameter parameters[2];
    mr_out inputs[2], loss, rate;
    mr_node *train, *init;
    mr_session *sessions[LEARNERS];
    mr_learner learners[LEARNERS];
    mr_tensor *values[CLIENTS][2];
    mr_learner_examples examples[CLIENTS];
} line;

static void build(line *l)
{
    mr_nn *n = l->net = mr_nn_new(l->graph);
    l->inputs[0] = mr_nn_input(n, "x", MR_FLOAT, 2, (int64_t[]){-1, 1});
    l->inputs[1] = mr_nn_input(n, "y", MR_FLOAT, 2, (int64_t[]){-1, 1});
    l->rate = mr_nn_setting(n, "rate", 0.1f);
    l->loss = mr_nn_squared_loss(n, mr_nn_dense(n, "fc", l->inputs[0], 1, MR_NN_LINEAR), l->inputs[1]);
    l->train = mr_nn_minimize(n, l->loss, &(mr_nn_optimizer){.kind = MR_NN_SGD, .schedule = l->rate});
    MR_CHECK_OK(mr_scope_status(&n->s));
    for (int i = 0; i < 2; i++) {
        mr_nn_var *v = &n->vars.p[i];
        l->parameters[i].value = v->value;
        l->parameters[i].feed = mr_placeholder(&n->s, MR_FLOAT, "feed", mr_out_shape(v->value));
        l->parameters[i].assign = mr_emit(&n->s, "AssignVariableOp", v->handle, l->parameters[i].feed).node;
    }
    l->init = mr_nn_initializer(n);
    MR_CHECK_OK(mr_scope_status(&n->s));
}

static void make_points(line *l, int c)
{
    int n = ROWS + c; /* weights differ */
    for (int k = 0; k < 2; k++)
        MR_CHECK_OK(mr_tensor_new(NULL, MR_FLOAT, 2, (int64_t[]){n, 1}, &l->values[c][k]));
    for (int i = 0; i < n; i++) {
        float x = (float)c / 4 + (float)i / (float)n - 1.5f;
        MR_DATA(float, l->values[c][0])[i] = x;
        MR_DATA(float, l->values[c][1])[i] = 2 * x - 1;
    }
    l->examples[c] = (mr_learner_examples){l->values[c], NULL, n};
}

static line *begin(void)
{
    line *l = mr_new(line);
    mr_ops_register();
    l->graph = mr_graph_new();
    build(l);
    for (int i = 0; i < LEARNERS; i++) {
        MR_CHECK_OK(mr_direct_session_new(l->graph, NULL, &(mr_session_config){.intra_threads = 1, .inter_threads = 1}, &l->sessions[i]));
        MR_CHECK_OK(mr_session_run(l->sessions[i], &(mr_run_args){.targets = &l->init, .n_targets = 1}, NULL, NULL));
        l->learners[i] = (mr_learner){l->sessions[i], l->parameters, 2, NULL, l->train, l->inputs, 2, l->loss, l->rate};
    }
    for (int c = 0; c < CLIENTS; c++)
        make_points(l, c);
    return l;
}

static void end(line *l)
{
    for (int i = 0; i < LEARNERS; i++)
        mr_session_free(l->sessions[i]);
    for (int c = 0; c < CLIENTS; c++)
        for (int k = 0; k < 2; k++)
            mr_tensor_unref(l->values[c][k]);
    mr_nn_free(l->net);
    mr_graph_unref(l->graph);
    mr_free(l);
}

static mr_fed_weights *zeros(void)
{
    mr_fed_weights *w = mr_fed_weights_new(2);
    w->v[0] = w->v[1] = 0;
    return w;
}

static mr_fed_coordinator_options plain(void)
{
    return (mr_fed_coordinator_options){
        .rounds = {.n_clients = CLIENTS, .fraction = 1, .stage_ns = 15000 * MS, .most_tries = 50, .seed = 3},
        .config = {.learn = {.epochs = 2, .batch = 5, .rate = 0.1f}, .clip = 4, .most_examples = 1000},
        .wait_ns = 15000 * MS};
}

static mr_fed_coordinator_options secure(void)
{
    mr_fed_coordinator_options o = plain();
    o.rounds.secure = true;
    o.rounds.threshold = 0.5;
    return o;
}

static mr_status *simulate(line *l, mr_fed_coordinator_options o, double lose, mr_fed_simulated **out)
{
    return mr_fed_simulated_new(&(mr_fed_simulated_options){o, l->examples, CLIENTS, l->learners, LEARNERS, lose}, zeros(), out);
}

static void check_line(mr_fed_coordinator *c, double tolerance)
{
    mr_fed_weights *w = mr_fed_coordinator_weights(c);
    MR_CHECK_NEAR(w->v[0], 2, tolerance);
    MR_CHECK_NEAR(w->v[1], -1, tolerance);
    mr_fed_weights_unref(w);
}

static void run_rounds(mr_fed_coordinator *c, int n)
{
    for (int i = 0; i < n; i++)
        MR_CHECK_OK(mr_fed_coordinator_round(c, NULL));
}

/* ---- in this process ---- */

MR_TEST(federated_clients_of_this_process_learn_a_line)
{
    line *l = begin();
    mr_fed_simulated *s;
    mr_fed_coordinator_report r;
    MR_CHECK_OK(simulate(l, plain(), 0, &s));
    MR_CHECK_OK(mr_fed_coordinator_round(mr_fed_simulated_coordinator(s), &r));
    MR_CHECK_INT(r.round, 1);
    MR_CHECK_INT(r.updates, CLIENTS);
    MR_CHECK_INT(r.examples, CLIENTS * ROWS + CLIENTS * (CLIENTS - 1) / 2);
    double first = r.loss;
    run_rounds(mr_fed_simulated_coordinator(s), 30);
    MR_CHECK_OK(mr_fed_coordinator_round(mr_fed_simulated_coordinator(s), &r));
    MR_CHECK_INT(r.round, 32);
    MR_CHECK(r.loss < first / 100);
    check_line(mr_fed_simulated_coordinator(s), 0.01);
    mr_fed_simulated_free(s);
    end(l);
}

/* The mean by hand of what each client makes of the same weights. */
MR_TEST(federated_average_is_weighted_by_examples)
{
    line *l = begin();
    mr_fed_simulated *s;
    mr_fed_coordinator_options o = plain();
    float zero[2] = {0}, d[2];
    double sum[2] = {0}, total = 0;
    mr_learner_result unused;
    o.config.learn.batch = 0; /* without batches no order */
    for (int c = 0; c < CLIENTS; c++) {
        MR_CHECK_OK(mr_learner_train(&l->learners[0], &o.config.learn, &l->examples[c], zero, 2, d, (mr_learner_stop){0}, &unused));
        for (int i = 0; i < 2; i++)
            sum[i] += d[i] * (double)l->examples[c].n;
        total += (double)l->examples[c].n;
    }
    for (int k = 0; k < 2; k++) { /* the server's rate is a factor on it */
        o.server_rate = k ? 0.5 : 0;
        MR_CHECK_OK(simulate(l, o, 0, &s));
        run_rounds(mr_fed_simulated_coordinator(s), 1);
        mr_fed_weights *w = mr_fed_coordinator_weights(mr_fed_simulated_coordinator(s));
        for (int i = 0; i < 2; i++)
            MR_CHECK_NEAR(w->v[i], sum[i] / total * (k ? 0.5 : 1), 1e-6);
        mr_fed_weights_unref(w);
        mr_fed_simulated_free(s);
    }
    end(l);
}

MR_TEST(federated_server_momentum_adds_former_updates)
{
    line *l = begin();
    mr_fed_simulated *s;
    mr_fed_coordinator_options o = plain();
    o.config.learn.rate = 0; /* clients change nothing: what moves is momentum */
    o.server_momentum = 0.5;
    MR_CHECK_OK(simulate(l, o, 0, &s));
    mr_fed_coordinator *c = mr_fed_simulated_coordinator(s);
    mr_fed_coordinator_rate(c, 0.1f);
    run_rounds(c, 1);
    mr_fed_weights *w1 = mr_fed_coordinator_weights(c);
    mr_fed_coordinator_rate(c, 0);
    run_rounds(c, 1);
    mr_fed_weights *w2 = mr_fed_coordinator_weights(c);
    for (int i = 0; i < 2; i++)
        MR_CHECK_NEAR(w2->v[i] - w1->v[i], w1->v[i] * 0.5, 1e-6);
    mr_fed_weights_unref(w1);
    mr_fed_weights_unref(w2);
    mr_fed_simulated_free(s);
    end(l);
}

MR_TEST(federated_runs_repeat_for_their_seed)
{
    float got[2][2];
    for (int k = 0; k < 2; k++) {
        line *l = begin();
        mr_fed_simulated *s;
        mr_fed_coordinator_options o = plain();
        o.rounds.fraction = 0.5;
        MR_CHECK_OK(simulate(l, o, 0, &s));
        run_rounds(mr_fed_simulated_coordinator(s), 5);
        mr_fed_weights *w = mr_fed_coordinator_weights(mr_fed_simulated_coordinator(s));
        memcpy(got[k], w->v, sizeof got[k]);
        mr_fed_weights_unref(w);
        mr_fed_simulated_free(s);
        end(l);
    }
    MR_CHECK(memcmp(got[0], got[1], sizeof got[0]) == 0);
}

MR_TEST(federated_secure_rounds_give_the_plain_average_to_the_quantum)
{
    float got[2][2];
    for (int k = 0; k < 2; k++) {
        line *l = begin();
        mr_fed_simulated *s;
        mr_fed_coordinator_report r;
        MR_CHECK_OK(simulate(l, k ? secure() : plain(), 0, &s));
        MR_CHECK_OK(mr_fed_coordinator_round(mr_fed_simulated_coordinator(s), &r));
        mr_fed_weights *w = mr_fed_coordinator_weights(mr_fed_simulated_coordinator(s));
        memcpy(got[k], w->v, sizeof got[k]);
        MR_CHECK_INT(r.updates, CLIENTS);
        mr_fed_weights_unref(w);
        mr_fed_simulated_free(s);
        end(l);
    }
    for (int i = 0; i < 2; i++) /* half a unit for each client, of 2^-25 * 1000 examples in 188 */
        MR_CHECK_NEAR(got[1][i], got[0][i], CLIENTS * 0.5 * 0x1p-25 * 1000 / 188 + 2e-7);
}

MR_TEST(federated_rounds_go_on_when_clients_are_lost)
{
    mr_test_deadline(60);
    for (int k = 0; k < 2; k++) {
        line *l = begin();
        mr_fed_simulated *s;
        mr_fed_coordinator_options o = k ? secure() : plain();
        o.rounds.over = 0.25;
        o.rounds.fraction = 0.75;
        MR_CHECK_OK(simulate(l, o, k ? 0.05 : 0.3, &s));
        run_rounds(mr_fed_simulated_coordinator(s), k ? 8 : 30);
        check_line(mr_fed_simulated_coordinator(s), k ? 0.4 : 0.05);
        mr_fed_simulated_free(s);
        end(l);
    }
}

MR_TEST(federated_round_fails_when_all_are_always_lost)
{
    line *l = begin();
    mr_fed_simulated *s;
    mr_fed_coordinator_options o = plain();
    o.rounds.most_tries = 5;
    MR_CHECK_OK(simulate(l, o, 1, &s));
    MR_CHECK_ERR(mr_fed_coordinator_round(mr_fed_simulated_coordinator(s), NULL), MR_ABORTED, "round 1 was given up after 5 attempts");
    mr_fed_simulated_free(s);
    end(l);
}

MR_TEST(federated_trouble_of_the_program_ends_the_round_with_its_cause)
{
    line *l = begin();
    mr_fed_simulated *s;
    mr_out wrong[2] = {l->inputs[1], l->inputs[1]}; /* x is not fed */
    l->learners[0].inputs = l->learners[1].inputs = wrong;
    MR_CHECK_OK(simulate(l, plain(), 0, &s));
    MR_CHECK_ERR(mr_fed_coordinator_round(mr_fed_simulated_coordinator(s), NULL), MR_INVALID_ARGUMENT, "client ");
    mr_fed_simulated_free(s);
    end(l);
}

MR_TEST(federated_examples_that_do_not_fit_are_refused)
{
    line *l = begin();
    mr_fed_simulated *s;
    l->examples[2].n = 1000;
    MR_CHECK_ERR(simulate(l, plain(), 0, &s), MR_INVALID_ARGUMENT, "client 2: federated: input 'x' has 22 examples, not 1000");
    l->examples[2] = (mr_learner_examples){l->values[2], (int64_t[]){5, 22}, 2};
    MR_CHECK_ERR(simulate(l, plain(), 0, &s), MR_INVALID_ARGUMENT, "example 22 does not exist");
    end(l);
}

/* ---- answers that a coordinator must not believe ---- */

static mr_fed_coordinator *alone(mr_fed_coordinator_options o)
{
    mr_fed_coordinator *c;
    MR_CHECK_OK(mr_fed_coordinator_new(&o, zeros(), &c));
    return c;
}

static void make_round(void *arg)
{
    mr_status_free(mr_fed_coordinator_round(arg, NULL)); /* some of them are ended by stop */
}

static mr_fed_answer update(int64_t ticket, float a, float b)
{
    mr_fed_answer u = {.ticket = ticket, .stage = MR_FED_TRAIN, .examples = 10, .loss = 1};
    mr_str_append(&u.body, (float[]){a, b}, 2 * sizeof(float));
    return u;
}

static mr_fed_task wait_for_task(mr_fed_coordinator *c, int client)
{
    mr_fed_task t;
    while (!mr_fed_coordinator_task(c, client, &t))
        mr_sleep_ns(MS);
    return t;
}

MR_TEST(federated_malformed_late_and_doubled_updates_change_nothing)
{
    mr_fed_coordinator_options o = plain();
    mr_fed_coordinator *c = alone(o);
    mr_thread thread;
    for (int i = 0; i < 3; i++)
        MR_CHECK_INT(mr_fed_coordinator_join(c), i);
    mr_thread_start(&thread, "round", make_round, c);
    mr_fed_task t = wait_for_task(c, 2);
    mr_fed_answer a = update(t.ticket, NAN, 1);
    MR_CHECK_ERR(mr_fed_coordinator_answer(c, 2, &a), MR_INVALID_ARGUMENT, "not finite");
    a = update(t.ticket, 7, 7);
    MR_CHECK_OK(mr_fed_coordinator_answer(c, 2, &a)); /* it is out of the try */
    a = update(t.ticket + 1, 7, 7);
    MR_CHECK_OK(mr_fed_coordinator_answer(c, 0, &a));
    a = update(t.ticket, 1, 2);
    MR_CHECK_OK(mr_fed_coordinator_answer(c, 0, &a));
    a = update(t.ticket, 7, 7);
    MR_CHECK_OK(mr_fed_coordinator_answer(c, 0, &a));
    a = update(t.ticket, 3, 4);
    a.body.n -= 1;
    MR_CHECK_ERR(mr_fed_coordinator_answer(c, 77, &a), MR_INVALID_ARGUMENT, "unknown client 77");
    a = update(t.ticket, 3, 4);
    MR_CHECK_OK(mr_fed_coordinator_answer(c, 1, &a));
    mr_thread_join(&thread);
    mr_fed_weights *w = mr_fed_coordinator_weights(c);
    MR_CHECK_NEAR(w->v[0], 2, 1e-6);
    MR_CHECK_NEAR(w->v[1], 3, 1e-6);
    mr_fed_weights_unref(w);
    mr_fed_task_deinit(&t);
    mr_fed_coordinator_free(c);
}

static void make_and_report(void *arg)
{
    void **a = arg;
    MR_CHECK_OK(mr_fed_coordinator_round(a[0], a[1]));
}

MR_TEST(federated_examples_of_a_client_count_up_to_the_most)
{
    mr_fed_coordinator *c = alone(plain());
    mr_fed_coordinator_report r;
    mr_thread thread;
    for (int i = 0; i < 2; i++)
        MR_CHECK_INT(mr_fed_coordinator_join(c), i);
    mr_thread_start(&thread, "round", make_and_report, (void *[]){c, &r});
    for (int i = 0; i < 2; i++) {
        mr_fed_task t = wait_for_task(c, i);
        mr_fed_answer a = update(t.ticket, 1, 2);
        a.examples = INT64_MAX;
        MR_CHECK_OK(mr_fed_coordinator_answer(c, i, &a));
        mr_fed_task_deinit(&t);
    }
    mr_thread_join(&thread);
    MR_CHECK_INT(r.examples, 2000);
    mr_fed_coordinator_free(c);
}

MR_TEST(federated_round_that_waits_can_be_stopped)
{
    mr_fed_coordinator *c = alone(plain());
    mr_thread thread;
    mr_thread_start(&thread, "round", make_round, c);
    mr_fed_coordinator_stop(c);
    mr_thread_join(&thread);
    mr_fed_coordinator_free(c);
}

MR_TEST(federated_round_does_not_wait_for_clients_for_ever)
{
    mr_fed_coordinator_options o = plain();
    o.wait_ns = 10 * MS;
    o.rounds.wait_for = 2;
    mr_fed_coordinator *c = alone(o);
    mr_fed_coordinator_join(c);
    MR_CHECK_ERR(mr_fed_coordinator_round(c, NULL), MR_DEADLINE_EXCEEDED, "1 are connected");
    mr_fed_coordinator_free(c);
}

MR_TEST(federated_round_without_answers_is_given_up_in_time)
{
    mr_fed_coordinator_options o = plain();
    o.rounds.stage_ns = 5 * MS;
    o.rounds.most_tries = 3;
    mr_fed_coordinator *c = alone(o);
    mr_fed_coordinator_join(c);
    MR_CHECK_ERR(mr_fed_coordinator_round(c, NULL), MR_ABORTED, "too few updates in time");
    mr_fed_coordinator_free(c);
}

/* ---- clients with calls ---- */

typedef struct caller {
    mr_thread thread;
    const char *address;
    line *l;
    int number;
    bool secure;
    volatile int *stop;
    mr_status *st;
    int64_t updates;
} caller;

static void be_client(void *arg)
{
    caller *c = arg;
    mr_fed_client_options o = {c->address, &c->l->learners[0], c->l->examples[c->number], 15000 * MS, c->secure, c->stop};
    c->st = mr_fed_client_run(&o, &c->updates);
}

static void learn_over_calls(mr_fed_coordinator_options o, int rounds)
{
    enum { N = 4 };
    line *own = begin(), *lines[N];
    caller callers[N];
    mr_fed_server *s;
    o.rounds.wait_for = N;
    MR_CHECK_OK(mr_fed_server_new(&o, "127.0.0.1:0", zeros(), &s));
    for (int i = 0; i < N; i++) {
        lines[i] = begin();
        callers[i] = (caller){.address = mr_fed_server_address(s), .l = lines[i], .number = 2 * i, .secure = o.rounds.secure};
        mr_thread_start(&callers[i].thread, "client", be_client, &callers[i]);
    }
    run_rounds(mr_fed_server_coordinator(s), rounds);
    check_line(mr_fed_server_coordinator(s), rounds < 30 ? 0.4 : 0.1);
    char *address = mr_strdup(mr_fed_server_address(s)); /* the callers still say it in errors */
    for (int i = 0; i < N; i++)
        callers[i].address = address;
    mr_fed_server_free(s);
    for (int i = 0; i < N; i++) {
        mr_thread_join(&callers[i].thread);
        MR_CHECK_OK(callers[i].st);
        MR_CHECK(callers[i].updates >= rounds - 1 && callers[i].updates <= rounds);
        end(lines[i]);
    }
    mr_free(address);
    end(own);
}

MR_TEST(federated_clients_with_calls_learn_a_line) { learn_over_calls(plain(), 30); }
MR_TEST(federated_clients_with_calls_learn_a_line_by_secure_sums) { learn_over_calls(secure(), 12); }

MR_TEST(federated_client_that_wants_secure_rounds_refuses_plain_ones)
{
    line *l = begin();
    mr_fed_coordinator_options o = plain();
    mr_fed_server *s;
    o.rounds.most_tries = 2;
    o.rounds.stage_ns = 10000 * MS;
    MR_CHECK_OK(mr_fed_server_new(&o, "127.0.0.1:0", zeros(), &s));
    char *address = mr_strdup(mr_fed_server_address(s));
    caller c = {.address = address, .l = l, .secure = true};
    mr_thread_start(&c.thread, "client", be_client, &c);
    MR_CHECK_ERR(mr_fed_coordinator_round(mr_fed_server_coordinator(s), NULL), MR_ABORTED, "only takes part in secure rounds");
    mr_fed_server_free(s);
    mr_thread_join(&c.thread);
    MR_CHECK_OK(c.st);
    MR_CHECK_INT(c.updates, 0);
    mr_free(address);
    end(l);
}

MR_TEST(federated_client_without_a_server_gives_up)
{
    line *l = begin();
    int64_t updates;
    mr_fed_client_options o = {"127.0.0.1:1", &l->learners[0], l->examples[0], 500 * MS, false, NULL};
    mr_test_log_begin(5 * MS);
    mr_status *st = mr_fed_client_run(&o, &updates);
    MR_CHECK(mr_test_log_count("Still waiting for the federated server at 127.0.0.1:1: it does not answer") > 1);
    mr_test_log_end();
    MR_CHECK(st != NULL);
    MR_CHECK(strstr(mr_status_message(st), "127.0.0.1:1"));
    mr_status_free(st);
    end(l);
}

MR_TEST(federated_client_that_waits_can_be_stopped)
{
    line *l = begin();
    mr_fed_coordinator_options o = plain();
    mr_fed_server *s;
    volatile int stop = 0;
    mr_test_log_begin(5 * MS);
    MR_CHECK_OK(mr_fed_server_new(&o, "127.0.0.1:0", zeros(), &s)); /* and no round is made */
    caller c = {.address = mr_fed_server_address(s), .l = l, .stop = &stop};
    mr_thread_start(&c.thread, "client", be_client, &c);
    while (!mr_fed_coordinator_there(mr_fed_server_coordinator(s)))
        mr_sleep_ns(MS);
    char *said = mr_printf("Still waiting for the federated server at %s: it has no task for this client (", c.address);
    mr_test_log_wait(said, 1);
    mr_test_log_end();
    mr_free(said);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    mr_thread_join(&c.thread);
    MR_CHECK_ERR(c.st, MR_CANCELLED, "stopped");
    while (mr_fed_coordinator_there(mr_fed_server_coordinator(s))) /* it is missed */
        mr_sleep_ns(MS);
    mr_fed_server_free(s);
    end(l);
}

/* ---- the log of a long wait for clients ---- */

typedef struct round_maker {
    mr_fed_coordinator *c;
    mr_status *st;
    mr_thread thread;
} round_maker;

static void make_one_round(void *arg)
{
    round_maker *m = arg;
    m->st = mr_fed_coordinator_round(m->c, NULL);
}

/* First one client is missing; then it comes, all are asked, and none answers. */
static void wait_for_clients(mr_fed_coordinator_options o, int first, const char *missing, const char *owing)
{
    round_maker m;
    o.rounds.stage_ns = 0;
    o.wait_ns = 0;
    o.rounds.wait_for = first + 1;
    MR_CHECK_OK(mr_fed_coordinator_new(&o, zeros(), &m.c));
    for (int i = 0; i < first; i++)
        mr_fed_coordinator_join_as(m.c, 2 * i + 1);
    mr_test_log_begin(5 * MS);
    MR_CHECK_INT(mr_thread_start(&m.thread, "round", make_one_round, &m), 0);
    mr_test_log_wait(missing, 2);
    mr_fed_coordinator_join_as(m.c, 6);
    mr_test_log_wait(owing, 2);
    mr_fed_coordinator_stop(m.c);
    mr_thread_join(&m.thread);
    MR_CHECK_ERR(m.st, MR_CANCELLED, "rounds were stopped");
    mr_test_log_end();
    mr_fed_coordinator_free(m.c);
}

#define WAITING "Still waiting for clients "

MR_TEST(federated_server_logs_a_long_wait_for_clients)
{
    wait_for_clients(plain(), 0, WAITING "of federated round 1: it needs 1, 0 are connected (none), 1 are missing (",
                     WAITING "6 of federated round 1: they have not answered its stage 'training' (");
    wait_for_clients(plain(), 2, WAITING "of federated round 1: it needs 3, 2 are connected (1, 3), 1 are missing (",
                     WAITING "1, 3, 6 of federated round 1: they have not answered its stage 'training' (");
}

MR_TEST(federated_server_logs_a_long_wait_for_clients_of_secure_sums)
{
    wait_for_clients(secure(), 2, WAITING "of federated round 1: it needs 3, 2 are connected (1, 3), 1 are missing (",
                     WAITING "1, 3, 6 of federated round 1: they have not answered its stage 'keys' (");
}

/* ---- clients that are killed in the middle of a round ---- */

typedef struct deadly { /* a session whose steps from some on kill the process */
    mr_session base;
    mr_session *real;
    const mr_node *train;
    int steps_left;
} deadly;

static mr_status *run_or_die(mr_session *s, const mr_run_args *a, const mr_run_options *o, mr_str *metadata)
{
    deadly *d = (deadly *)s;
    if (a->n_targets == 1 && a->targets[0] == d->train && d->steps_left-- <= 0)
        raise(SIGKILL);
    return mr_session_run(d->real, a, o, metadata);
}

/* Reads the address from the pipe; dies at that step, if ever. */
static void be_process(int in, int number, int steps)
{
    static const mr_session_ops ops = {.run = run_or_die};
    char address[64] = "";
    int64_t updates;
    if (read(in, address, sizeof address - 1) <= 0)
        _exit(2);
    line *l = begin();
    deadly d = {{&ops}, l->sessions[0], l->train, steps};
    mr_learner learner = l->learners[0];
    learner.session = &d.base;
    mr_fed_client_options o = {address, &learner, l->examples[number], 15000 * MS, false, NULL};
    mr_status *st = mr_fed_client_run(&o, &updates);
    _exit(st ? 1 : 0);
}

static void rounds_with_deaths(mr_fed_coordinator_options o)
{
    enum { N = 6 };
    static const int steps[N] = {1000000, 1000000, 30, 1000000, 7, 1000000}; /* ten a round: two die in the middle of one */
    pid_t pids[N];
    int pipes[N][2], status;
    mr_fed_server *s;
    mr_test_deadline(60);
    for (int i = 0; i < N; i++) { /* before there are threads */
        MR_CHECK(pipe(pipes[i]) == 0);
        if ((pids[i] = fork()) == 0)
            be_process(pipes[i][0], i, steps[i]);
    }
    o.rounds.wait_for = 4;
    o.rounds.pause_ns = MS;
    MR_CHECK_OK(mr_fed_server_new(&o, "127.0.0.1:0", zeros(), &s));
    const char *address = mr_fed_server_address(s);
    for (int i = 0; i < N; i++)
        MR_CHECK(write(pipes[i][1], address, strlen(address)) > 0);
    while (mr_fed_coordinator_there(mr_fed_server_coordinator(s)) < N)
        mr_sleep_ns(MS);
    run_rounds(mr_fed_server_coordinator(s), 20);
    check_line(mr_fed_server_coordinator(s), 0.2);
    mr_fed_server_free(s);
    for (int i = 0; i < N; i++) {
        MR_CHECK_INT(waitpid(pids[i], &status, 0), pids[i]);
        if (steps[i] > 1000) /* they were told the end */
            MR_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        else
            MR_CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        close(pipes[i][0]);
        close(pipes[i][1]);
    }
}

MR_TEST(federated_rounds_end_though_processes_are_killed_in_them) { rounds_with_deaths(plain()); }
MR_TEST(federated_secure_rounds_end_though_processes_are_killed_in_them) { rounds_with_deaths(secure()); }
