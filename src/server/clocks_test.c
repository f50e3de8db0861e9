/* server/clocks_test.c -- clocks of other tasks, and traces of steps over tasks whose clocks are wrong. */
#include "server/clocks.h"

#include <stdlib.h>

#include "base/file.h"
#include "base/memory.h"
#include "exec/trace_files.h"
#include "server/cluster_fixture.h"

MR_TEST(clocks_differ_by_the_midpoint_of_a_question)
{
    /* asked at 100, there it was 5130 when the question came and 5150 when the answer left, heard at 180 */
    mr_clock_reading v = mr_clock_judge(100, 5130, 5150, 180);
    MR_CHECK(v.known);
    MR_CHECK_INT(v.offset_ns, 5000);
    MR_CHECK_INT(v.error_ns, 30);
}

MR_TEST(clocks_that_make_no_sense_stay_unknown)
{
    MR_CHECK(!mr_clock_judge(100, 150, 140, 180).known);  /* answered before it was asked */
    MR_CHECK(!mr_clock_judge(100, 150, 300, 180).known);  /* took longer than the whole question */
    MR_CHECK(!mr_clock_judge(180, 150, 160, 100).known);
    mr_clock_reading v = mr_clock_judge(INT64_MIN, INT64_MAX, INT64_MAX, INT64_MAX);
    MR_CHECK(v.known && v.error_ns > 0); /* and nothing overflows */
}

MR_TEST(clocks_are_off_by_what_a_test_says)
{
    setenv("MILLRACE_CLOCK_SKEW", "worker:1=2500,ps:0=-40,odd,x:y=,=3", 1);
    MR_CHECK_INT(mr_clock_skew_ns("/job:worker/replica:0/task:1"), 2500000000);
    MR_CHECK_INT(mr_clock_skew_ns("/job:ps/replica:0/task:0"), -40000000);
    MR_CHECK_INT(mr_clock_skew_ns("/job:worker/replica:0/task:0"), 0);
}

/* ---- a step over three tasks ---- */

/* x on the worker, squared on ps:0, summed up on ps:1, and back. */
static void trace_step(cluster_fixture *b, mr_timeline *t)
{
    mr_str metadata = {0};
    mr_tensor *got = NULL;
    mr_out x = mr_placeholder(&b->s, MR_FLOAT, "x", &mr_pshape_scalar);
    b->s.device = "/job:worker/task:0";
    mr_out a = mr_emit(mr_as(&b->s, "a"), "Neg", x);
    b->s.device = "/job:ps/task:0";
    mr_out y = mr_emit(mr_as(&b->s, "y"), "Square", a);
    b->s.device = "/job:ps/task:1";
    mr_out z = mr_emit(mr_as(&b->s, "z"), "Add", y, y);
    b->s.device = "/job:worker/task:0";
    mr_out back = mr_emit(mr_as(&b->s, "back"), "Add", z, a);
    mr_tensor *one = mr_tensor_scalar_f32(3);
    mr_run_args args = {.feeds = &x, .feed_values = &one, .n_feeds = 1, .fetches = &back, .fetched = &got, .n_fetches = 1};
    MR_CHECK_OK(mr_session_run(cluster_fixture_session_of(b), &args, &(mr_run_options){.trace_level = MR_FULL_TRACE},
                               &metadata));
    MR_CHECK_NEAR(*MR_DATA(float, got), 15, 0);
    mr_sv v = mr_str_view(&metadata);
    mr_timeline_init(t);
    MR_CHECK_OK(mr_trace_read(&v, NULL, 1, t));
    mr_tensor_unref(got);
    mr_tensor_unref(one);
    mr_str_deinit(&metadata);
}

/* A value leaves while its Send runs, and no Recv ends before that; *n: how many there are between tasks. */
static void check_arrows(const mr_timeline *t, int *n)
{
    *n = 0;
    for (int i = 0; i < t->arrows.n; i++) {
        const mr_arrow *a = &t->arrows.p[i];
        const mr_span *from = &t->spans.p[a->from], *to = &t->spans.p[a->to];
        if (!a->drawn || t->lanes.p[from->lane].task == t->lanes.p[to->lane].task)
            continue;
        ++*n;
        MR_CHECK(a->at_ns >= from->start_ns && a->at_ns <= from->end_ns && a->at_ns <= to->end_ns);
    }
}

MR_TEST(server_traces_tasks_whose_clocks_are_wrong_by_one_clock)
{
    cluster_fixture b;
    mr_timeline t;
    int n;
    setenv("MILLRACE_CLOCK_SKEW", "ps:0=-700000,ps:1=300000,worker:0=150000", 1);
    cluster_fixture_begin(&b, 2, 1);
    trace_step(&b, &t);
    check_arrows(&t, &n);
    MR_CHECK_INT(n, 3); /* a, y, z */
    MR_CHECK_INT(t.tasks.n, 3);
    int64_t start, end;
    mr_timeline_range(&t, &start, &end);
    MR_CHECK(end - start < INT64_C(100000000000)); /* else the skew of a clock is in it: no test may take so long */
    mr_timeline_deinit(&t);
    cluster_fixture_end(&b);
}

/* As a Chrome trace: each arrow's two ends come one behind the other, "s" and then "f". */
MR_TEST(server_trace_has_no_arrow_back_in_time)
{
    cluster_fixture b;
    mr_timeline t;
    mr_str json = {0};
    mr_chrome c;
    int n = 0;
    unsetenv("MILLRACE_CLOCK_SKEW");
    for (int step = 0; step < 3; step++) {
        cluster_fixture_begin(&b, 2, 1);
        trace_step(&b, &t);
        char *path = mr_printf("%s/trace", mr_test_dir());
        MR_CHECK_OK(mr_chrome_open(&c, path));
        mr_timeline_to_chrome(&t, &c);
        MR_CHECK_OK(mr_chrome_end(&c));
        mr_str_clear(&json);
        MR_CHECK_OK(mr_file_read_all(path, &json));
        double left = -1;
        for (const char *at = mr_str_z(&json), *e; (at = strstr(at, "\"ph\":\"")); at += 6) {
            if ((at[6] != 's' && at[6] != 'f') || at[7] != '"')
                continue;
            MR_CHECK((e = strstr(at, "\"ts\":")) != NULL);
            double ts = strtod(e + 5, NULL);
            MR_CHECK(at[6] == 's' || ts >= left);
            left = ts;
            n++;
        }
        mr_free(path);
        mr_timeline_deinit(&t);
        cluster_fixture_end(&b);
    }
    MR_CHECK(n >= 2 * 3 * 3);
    mr_str_deinit(&json);
}

/* Recorded spans of the timeline come in the order in which values flow. */
MR_TEST(server_trace_of_a_chain_over_tasks_is_in_order)
{
    cluster_fixture b;
    mr_timeline t;
    const char *order[] = {"a", "y", "z", "back"};
    int64_t before = 0;
    setenv("MILLRACE_CLOCK_SKEW", "ps:0=60000,ps:1=-60000", 1);
    cluster_fixture_begin(&b, 2, 1);
    trace_step(&b, &t);
    for (int i = 0; i < 4; i++) {
        const mr_span *found = NULL;
        for (int k = 0; k < t.spans.n && !found; k++)
            if (strcmp(t.spans.p[k].name, order[i]) == 0 && t.spans.p[k].kind == MR_SPAN_COMPUTE)
                found = &t.spans.p[k];
        MR_CHECK(found && found->start_ns >= before);
        before = found->start_ns;
    }
    mr_timeline_deinit(&t);
    cluster_fixture_end(&b);
}

MR_TEST(server_tells_its_clock_when_asked_and_its_devices_otherwise)
{
    cluster_fixture b;
    mr_str body = {0}, reply = {0};
    mr_pb_writer w;
    cluster_fixture_begin(&b, 0, 1);
    mr_pb_writer_init(&w, &body);
    mr_pb_put_varint(&w, MR_CLOCK_FIELD, 1);
    MR_CHECK_OK(cluster_fixture_call(b.net, b.cluster.tasks.p[0].address, "/tensorflow.WorkerService/GetStatus", &body,
                                     &reply));
    MR_CHECK(reply.n > 0 && !memmem(reply.p, reply.n, "CPU", 3));
    MR_CHECK_OK(cluster_fixture_call(b.net, b.cluster.tasks.p[0].address, "/tensorflow.WorkerService/GetStatus", &body,
                                     &reply));
    MR_CHECK(memmem(reply.p, reply.n, "CPU", 3));
    mr_str_deinit(&reply);
    cluster_fixture_end(&b);
}
