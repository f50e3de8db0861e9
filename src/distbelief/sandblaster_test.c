/* distbelief/sandblaster_test.c -- a coordinator and replicas, threads of one process that talk as processes would. */
#include <stdio.h>

#include "base/clock.h"
#include "base/thread.h"
#include "distbelief/sandblaster_messages.h"
#include "distbelief/coordinator_service.h"
#include "distbelief/small_problem_fixture.h"
#include "tests/harness/log.h"
#include "tests/harness/test.h"

#define CHECK_STATUS(s) \
    (TF_GetCode(s) == TF_OK ? (void)0 : mr_test_fail(__FILE__, __LINE__, "%s", TF_Message(s)))

typedef struct replica {
    small_model r;
    mr_sandblaster_replica *blaster;
    mr_ps *ps;
    char coordinator[64];
    mr_thread thread;
    int slow_ms;      /* each portion takes so long */
    int fails_at;     /* this portion cannot be read; -1: none */
    int leaves_after; /* it is cancelled in the middle of its n-th portion; 0: never */
    int n;            /* portions begun */
    TF_Code end;
} replica;

static void read_portion(void *arg, int64_t portion, int64_t portions, TF_Tensor **in, double *weight, TF_Status *status)
{
    replica *x = arg;
    int64_t first = SMALL_EXAMPLES * portion / portions, n = SMALL_EXAMPLES * (portion + 1) / portions - first;
    small_batch(first, n, in);
    *weight = (double)n / SMALL_EXAMPLES;
    mr_sleep_ns((int64_t)x->slow_ms * 1000000);
    if (portion == x->fails_at)
        TF_SetStatus(status, TF_DATA_LOSS, "a portion cannot be read");
    if (++x->n == x->leaves_after)
        mr_sandblaster_replica_cancel(x->blaster);
}

static void work(void *arg)
{
    replica *x = arg;
    mr_sandblaster_replica_work(x->blaster, x->r.session, x->ps,
                                &(mr_sandblaster_work){sizeof(mr_sandblaster_work), .coordinator = x->coordinator,
                                                       .portion = read_portion, .arg = x},
                                x->r.status);
    x->end = TF_GetCode(x->r.status);
}

static void begin(replica *x, int hidden, mr_ps *ps, const mr_sandblaster *s)
{
    x->r = small_build(hidden);
    x->blaster = mr_sandblaster_replica_new(x->r.m, x->r.loss, x->r.in, 2);
    small_open(&x->r, NULL);
    x->ps = ps;
    if (!x->fails_at)
        x->fails_at = -1;
    snprintf(x->coordinator, sizeof x->coordinator, "%s", mr_sandblaster_address(s));
    MR_CHECK_INT(mr_thread_start(&x->thread, "replica", work, x), 0);
}

static void end(replica *x)
{
    mr_thread_join(&x->thread);
    mr_sandblaster_replica_free(x->blaster);
    small_close(&x->r);
}

/* The loss found by so many replicas, the first ones as given. */
static double minimize(int n, replica *x, int hidden, mr_sandblaster_options o, mr_sandblaster_stats *stats)
{
    TF_Status *status = TF_NewStatus();
    mr_ps *ps = mr_ps_connect(NULL, status);
    CHECK_STATUS(status);
    o.struct_size = sizeof o;
    mr_sandblaster *s = mr_sandblaster_start(&o, ps, status);
    CHECK_STATUS(status);
    for (int i = 0; i < n; i++)
        begin(&x[i], hidden, ps, s);
    double loss = mr_sandblaster_minimize(s, status);
    CHECK_STATUS(status);
    stats->struct_size = sizeof *stats;
    mr_sandblaster_get_stats(s, stats);
    mr_sandblaster_free(s);
    for (int i = 0; i < n; i++)
        end(&x[i]);
    mr_ps_free(ps);
    TF_DeleteStatus(status);
    return loss;
}

static const mr_sandblaster_options plain = {.portions = 24, .l2 = 0.01};

MR_TEST(sandblaster_finds_the_same_minimum_with_1_4_and_8_replicas)
{
    mr_test_deadline(120);
    double loss[3];
    for (int k = 0; k < 3; k++) {
        replica x[8] = {0};
        mr_sandblaster_stats stats = {0};
        int n = (const int[]){1, 4, 8}[k];
        loss[k] = minimize(n, x, 0, plain, &stats);
        MR_CHECK_INT(stats.joined, n);
        MR_CHECK_INT(stats.lost, 0);
        MR_CHECK(stats.gradient_norm < 1e-4);
        for (int i = 0; i < n; i++)
            MR_CHECK_INT(x[i].end, TF_OK);
    }
    MR_CHECK_NEAR(loss[1], loss[0], 1e-6 * loss[0]);
    MR_CHECK_NEAR(loss[2], loss[0], 1e-6 * loss[0]);
}

/* The coordinator's traffic does not depend on how many parameters there are. */
MR_TEST(sandblaster_coordinator_sees_no_parameters)
{
    mr_test_deadline(120);
    replica x[2] = {0}, y[2] = {0};
    mr_sandblaster_stats small = {0}, large = {0};
    mr_sandblaster_options o = plain;
    o.iterations = 3;
    minimize(2, x, 0, o, &small);
    minimize(2, y, 2000, o, &large); /* 32,003 parameters: 128 kB a vector */
    double a = (double)(small.bytes_sent + small.bytes_received) / (double)small.evaluations;
    double b = (double)(large.bytes_sent + large.bytes_received) / (double)large.evaluations;
    MR_CHECK(b < 3 * a && b < 20000);
}

MR_TEST(sandblaster_survives_replicas_that_leave_in_the_middle)
{
    mr_test_deadline(120);
    replica alone[1] = {0}, x[4] = {0};
    mr_sandblaster_stats stats = {0};
    double expected = minimize(1, alone, 0, plain, &stats);
    x[0].leaves_after = 7;
    x[2].leaves_after = 40;
    double loss = minimize(4, x, 0, plain, &stats);
    MR_CHECK_INT(x[0].end, TF_CANCELLED);
    MR_CHECK_INT(x[1].end, TF_OK);
    MR_CHECK(stats.lost >= 1); /* the second may have outlived the training */
    MR_CHECK_NEAR(loss, expected, 1e-6 * expected);
}

MR_TEST(sandblaster_gives_a_slow_replicas_portions_to_others)
{
    mr_test_deadline(120);
    replica alone[1] = {0}, x[3] = {0};
    mr_sandblaster_stats stats = {0};
    mr_sandblaster_options o = plain;
    o.iterations = 2;
    double expected = minimize(1, alone, 0, o, &stats);
    o.patience_ms = 100;
    x[1].slow_ms = 300; /* the others are done with all portions by then */
    double loss = minimize(3, x, 0, o, &stats);
    MR_CHECK(stats.given_twice > 0);
    MR_CHECK_NEAR(loss, expected, 1e-6 * expected);
}

MR_TEST(sandblaster_says_why_replicas_fail)
{
    mr_test_deadline(60);
    TF_Status *status = TF_NewStatus();
    mr_ps *ps = mr_ps_connect(NULL, status);
    mr_sandblaster_options o = {.struct_size = sizeof o, .portions = 4};
    mr_sandblaster *s = mr_sandblaster_start(&o, ps, status);
    CHECK_STATUS(status);
    replica x[4] = {0};
    for (int i = 0; i < 3; i++) {
        x[i].fails_at = 2;
        begin(&x[i], 0, ps, s);
    }
    MR_CHECK(isnan(mr_sandblaster_minimize(s, status)));
    MR_CHECK_INT(TF_GetCode(status), TF_DATA_LOSS);
    MR_CHECK(strstr(TF_Message(status), "a portion cannot be read"));
    begin(&x[3], 0, ps, s); /* a better one makes good what was begun */
    MR_CHECK(mr_sandblaster_minimize(s, status) > 0);
    CHECK_STATUS(status);
    mr_sandblaster_free(s);
    end(&x[3]);
    for (int i = 0; i < 3; i++) {
        end(&x[i]);
        MR_CHECK_INT(x[i].end, TF_DATA_LOSS);
    }
    mr_ps_free(ps);
    TF_DeleteStatus(status);
}

/* The first to come is to give the initial values, and stands still without dying: the next one does it. */
MR_TEST(sandblaster_begins_without_a_first_replica_that_stands_still)
{
    mr_test_deadline(60);
    TF_Status *status = TF_NewStatus();
    mr_ps *ps = mr_ps_connect(NULL, status);
    mr_sandblaster_options o = {.struct_size = sizeof o, .portions = 4, .iterations = 2, .patience_ms = 50};
    mr_sandblaster *s = mr_sandblaster_start(&o, ps, status);
    CHECK_STATUS(status);
    small_model r = small_build(0);
    mr_blast_hello h = {MR_SV("sandblaster"), (uint64_t)mr_parameter_count(r.m), 1};
    mr_bytes bytes = {0};
    mr_sv hello;
    mr_coordinator_client *still;
    MR_CHECK_OK(mr_blast_put_hello(&h, &bytes));
    MR_CHECK_OK(mr_bytes_flat(&bytes, &hello));
    MR_CHECK_OK(
        mr_coordinator_client_join(&(mr_coordinator_client_rules){mr_sandblaster_address(s), hello, 10000}, &still));
    mr_sandblaster_stats stats = {.struct_size = sizeof stats};
    while (stats.joined < 1)
        mr_sandblaster_get_stats(s, &stats);
    replica x = {0};
    begin(&x, 0, ps, s);
    MR_CHECK(mr_sandblaster_minimize(s, status) > 0);
    CHECK_STATUS(status);
    mr_coordinator_client_leave(still);
    mr_sandblaster_free(s);
    end(&x);
    MR_CHECK_INT(x.end, TF_OK);
    mr_bytes_deinit(&bytes);
    small_close(&r);
    mr_ps_free(ps);
    TF_DeleteStatus(status);
}

MR_TEST(sandblaster_without_replicas_ends_with_a_deadline)
{
    TF_Status *status = TF_NewStatus();
    mr_ps *ps = mr_ps_connect(NULL, status);
    mr_sandblaster *s = mr_sandblaster_start(
        &(mr_sandblaster_options){sizeof(mr_sandblaster_options), .deadline_ms = 500}, ps, status);
    CHECK_STATUS(status);
    mr_test_log_begin(INT64_C(5000000));
    MR_CHECK(isnan(mr_sandblaster_minimize(s, status)));
    MR_CHECK_INT(TF_GetCode(status), TF_DEADLINE_EXCEEDED);
    MR_CHECK(mr_test_log_count("Still waiting for the replicas of 'sandblaster' while one pushes the initial values; "
                               "0 are connected (") > 1);
    mr_test_log_end();
    mr_sandblaster_free(s);
    mr_ps_free(ps);
    TF_DeleteStatus(status);
}

/* A coordinator that ends while nobody minimises lets its replicas go well; one that is gone is an error for them. */
MR_TEST(sandblaster_replica_of_no_coordinator_ends_with_an_error)
{
    TF_Status *status = TF_NewStatus();
    mr_ps *ps = mr_ps_connect(NULL, status);
    CHECK_STATUS(status);
    small_model r = small_build(0);
    mr_sandblaster_replica *b = mr_sandblaster_replica_new(r.m, r.loss, r.in, 2);
    small_open(&r, NULL);
    mr_test_log_begin(INT64_C(5000000));
    mr_sandblaster_replica_work(b, r.session, ps,
                                &(mr_sandblaster_work){sizeof(mr_sandblaster_work), .coordinator = "127.0.0.1:1",
                                                       .portion = read_portion, .deadline_ms = 500},
                                r.status);
    MR_CHECK(TF_GetCode(r.status) == TF_DEADLINE_EXCEEDED || TF_GetCode(r.status) == TF_UNAVAILABLE);
    MR_CHECK(mr_test_log_count("Still waiting for the coordinator at 127.0.0.1:1: it has not answered "
                               "/millrace.Coordinator/Ask (") > 1);
    mr_test_log_end();
    mr_sandblaster_replica_free(b);
    small_close(&r);
    mr_ps_free(ps);
    TF_DeleteStatus(status);
}

MR_TEST(sandblaster_replicas_end_well_with_an_idle_coordinator)
{
    TF_Status *status = TF_NewStatus();
    mr_ps *ps = mr_ps_connect(NULL, status);
    mr_sandblaster *s = mr_sandblaster_start(NULL, ps, status);
    CHECK_STATUS(status);
    replica x[2] = {0};
    mr_sandblaster_stats stats = {.struct_size = sizeof stats};
    for (int i = 0; i < 2; i++)
        begin(&x[i], 0, ps, s);
    while (stats.joined < 2)
        mr_sandblaster_get_stats(s, &stats);
    mr_sandblaster_free(s);
    for (int i = 0; i < 2; i++) {
        end(&x[i]);
        MR_CHECK_INT(x[i].end, TF_OK);
    }
    mr_ps_free(ps);
    TF_DeleteStatus(status);
}

static void cancel(void *arg) { mr_sandblaster_cancel(arg); }

MR_TEST(sandblaster_coordinator_can_be_cancelled)
{
    TF_Status *s = TF_NewStatus();
    mr_ps *ps = mr_ps_connect(NULL, s);
    mr_sandblaster *b = mr_sandblaster_start(&(mr_sandblaster_options){.struct_size = sizeof(mr_sandblaster_options)}, ps, s);
    CHECK_STATUS(s);
    mr_thread thread;
    MR_CHECK_INT(mr_thread_start(&thread, "cancel", cancel, b), 0);
    mr_sandblaster_minimize(b, s); /* no replica will ever come */
    MR_CHECK_INT(TF_GetCode(s), TF_CANCELLED);
    mr_thread_join(&thread);
    mr_sandblaster_free(b);
    mr_ps_free(ps);
    TF_DeleteStatus(s);
}
