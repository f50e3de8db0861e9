/* distbelief/batch_driver_test.c -- a driver and its workers, threads that talk as processes would. */
#include "distbelief/batch_driver.h"

#include <string.h>

#include "base/clock.h"
#include "base/deterministic.h"
#include "base/thread.h"
#include "ops/table.h"
#include "tests/harness/log.h"
#include "tests/harness/test.h"

enum { DIMS = 3, PARTITIONS = 6 };

typedef struct worker { /* a model of its own: the squared distance of w to the mean of what it is fed */
    mr_graph *g;
    mr_nn *n;
    mr_mirror m;
    mr_session *s;
    mr_out in;
    const char *driver;
    mr_thread thread;
    int dies_after, done; /* leaves without a word in its n-th partition; 0: never */
    int late;             /* how it comes among the others */
    mr_status *end;
} worker;

static void build(worker *w)
{
    mr_ops_register();
    w->g = mr_graph_new();
    w->n = mr_nn_new(w->g);
    w->in = mr_nn_input(w->n, "x", MR_FLOAT, 1, (int64_t[]){DIMS});
    mr_out v = mr_nn_variable(w->n, "w", MR_FLOAT, 1, (int64_t[]){DIMS}, (mr_nn_init){MR_NN_CONSTANT, 0, 0}, true);
    mr_mirror_build(w->n, mr_nn_squared_loss(w->n, v, w->in), false, 0, &w->m);
    mr_node *init = mr_nn_initializer(w->n);
    MR_CHECK_OK(mr_status_copy(w->n->s.st));
    MR_CHECK_OK(mr_direct_session_new(w->g, NULL, &(mr_session_config){0}, &w->s));
    MR_CHECK_OK(mr_session_run(w->s, &(mr_run_args){.targets = &init, .n_targets = 1}, NULL, NULL));
}

static mr_status *partition(void *arg, int64_t iteration, int64_t part, int64_t parts, mr_tensor **values)
{
    worker *w = arg;
    (void)iteration, (void)parts;
    if (++w->done == w->dies_after)
        return mr_error(MR_ABORTED, "dies");
    values[0] = mr_tensor_of(MR_FLOAT, 1, (int64_t[]){DIMS}, (const float[]){(float)part, 1, -(float)part});
    return NULL;
}

static void run(void *arg)
{
    worker *w = arg;
    w->end = mr_batch_worker_run(&(mr_batch_worker){&w->m, w->s, w->driver, &w->in, 1, partition, w});
}

static void drop(worker *w)
{
    mr_thread_join(&w->thread);
    mr_session_free(w->s);
    mr_mirror_deinit(&w->m);
    mr_nn_free(w->n);
    mr_graph_unref(w->g);
    mr_status_free(w->end);
}

/* The mean of what is fed is 2.5, 1, -2.5. */
static mr_batch_driver_stats descend(worker *w, int n)
{
    float zero[DIMS] = {0};
    double loss, first = 0;
    mr_batch_driver *d;
    mr_batch_driver_stats stats;
    for (int i = 0; i < n; i++)
        build(&w[i]);
    MR_CHECK_OK(mr_batch_driver_new(&(mr_batch_driver_options){.partitions = PARTITIONS, .rate = 0.5f}, zero, w[0].m.n, &d));
    for (int i = 0; i < n; i++) {
        w[i].driver = mr_batch_driver_address(d);
        MR_CHECK_INT(mr_thread_start(&w[i].thread, "worker", run, &w[i]), 0);
    }
    for (int k = 0; k < 60; k++) {
        MR_CHECK_OK(mr_batch_driver_step(d, &loss));
        first = k ? first : loss;
    }
    MR_CHECK(loss < first);
    MR_CHECK_NEAR(mr_batch_driver_parameters(d)[0], 2.5, 1e-3);
    MR_CHECK_NEAR(mr_batch_driver_parameters(d)[1], 1, 1e-3);
    MR_CHECK_NEAR(mr_batch_driver_parameters(d)[2], -2.5, 1e-3);
    mr_batch_driver_count(d, &stats);
    mr_batch_driver_free(d);
    for (int i = 0; i < n; i++)
        drop(&w[i]);
    return stats;
}

MR_TEST(batch_driver_ships_all_parameters_to_every_worker)
{
    worker w[3] = {0};
    mr_batch_driver_stats stats = descend(w, 3);
    MR_CHECK_INT(stats.iterations, 60);
    MR_CHECK(stats.sent >= 60 * PARTITIONS * DIMS * 4);
    MR_CHECK(stats.received >= 60 * PARTITIONS * DIMS * 4);
}

MR_TEST(batch_driver_gives_a_lost_workers_partition_to_another)
{
    worker w[3] = {0};
    w[1].dies_after = 5;
    mr_batch_driver_stats stats = descend(w, 3);
    MR_CHECK_INT(stats.lost, 1);
}

/* Values whose sum depends on its order, and so on who is done first. */
static mr_status *odd_partition(void *arg, int64_t iteration, int64_t part, int64_t parts, mr_tensor **values)
{
    worker *w = arg;
    (void)iteration, (void)parts;
    mr_sleep_ns(INT64_C(1000000) * ((part * (w->late + 1) + w->late) % 4));
    values[0] = mr_tensor_of(MR_FLOAT, 1, (int64_t[]){DIMS}, (const float[]){1.0f / (float)(3 * part + 1), 1e3f / (float)(part + 1),
                                                                             -(float)part * 0.1f});
    return NULL;
}

static void run_odd(void *arg)
{
    worker *w = arg;
    w->end = mr_batch_worker_run(&(mr_batch_worker){&w->m, w->s, w->driver, &w->in, 1, odd_partition, w});
}

/* The parameters after some steps of n workers that come as `turn` says, and the sum of the losses. */
static void descend_oddly(int n, int turn, float out[DIMS], double *sum)
{
    worker w[3] = {0};
    float zero[DIMS] = {0};
    mr_batch_driver *d;
    for (int i = 0; i < n; i++)
        build(&w[i]);
    MR_CHECK_OK(mr_batch_driver_new(&(mr_batch_driver_options){.partitions = PARTITIONS, .rate = 0.3f}, zero, w[0].m.n, &d));
    for (int i = 0; i < n; i++) {
        w[i].driver = mr_batch_driver_address(d);
        w[i].late = turn + i;
        MR_CHECK_INT(mr_thread_start(&w[i].thread, "worker", run_odd, &w[i]), 0);
    }
    *sum = 0;
    for (int k = 0; k < 8; k++) {
        double loss;
        MR_CHECK_OK(mr_batch_driver_step(d, &loss));
        *sum += loss;
    }
    memcpy(out, mr_batch_driver_parameters(d), DIMS * sizeof *out);
    mr_batch_driver_free(d);
    for (int i = 0; i < n; i++)
        drop(&w[i]);
}

MR_TEST(deterministic_batch_driver_has_the_same_bits_however_workers_come)
{
    float first[DIMS];
    double loss;
    mr_deterministic_set(true);
    descend_oddly(1, 0, first, &loss);
    for (int turn = 0; turn < 3; turn++) {
        float other[DIMS];
        double other_loss;
        descend_oddly(3, turn, other, &other_loss);
        MR_CHECK(memcmp(first, other, sizeof first) == 0);
        MR_CHECK(loss == other_loss);
    }
}

MR_TEST(batch_driver_without_workers_ends_with_a_deadline)
{
    float zero[DIMS] = {0};
    double loss;
    mr_batch_driver *d;
    mr_batch_driver_options o = {.partitions = 2, .rate = 1, .deadline_ms = 500};
    MR_CHECK_OK(mr_batch_driver_new(&o, zero, DIMS, &d));
    mr_test_log_begin(INT64_C(5000000));
    MR_CHECK_ERR(mr_batch_driver_step(d, &loss), MR_DEADLINE_EXCEEDED, "0 of 2 partitions");
    MR_CHECK(mr_test_log_count("Still waiting for the workers: 0 of 2 partitions are complete") > 1);
    mr_test_log_end();
    mr_batch_driver_free(d);
}
