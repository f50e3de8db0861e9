#include "base/clock.h"
#include "base/memory.h"
#include "exec/executor_fixture.h"

#define CTRL(o) ((mr_out){(o).node, -1})

MR_TEST(executor_computes_what_is_asked)
{
    fixture r;
    fixture_init(&r, 0);
    mr_out x = fixture_arg(&r, 0), y = fixture_op(&r, "TestAdd", x, fixture_const(&r, 1));
    fixture_ret(&r, 0, fixture_op(&r, "TestAdd", y, y));
    for (int i = 0; i < 5; i++)
        MR_CHECK_INT(fixture_run1(&r, i), 2 * (i + 1));
    fixture_deinit(&r);
}

/* A ladder of n adds, two wide. */
static mr_out ladder(fixture *r, mr_out x, int n)
{
    mr_out a = x, b = x;
    for (int i = 0; i < n; i++) {
        mr_out c = fixture_op(r, i % 3 ? "TestAdd" : "TestAdd", a, b);
        a = b;
        b = fixture_op(r, "TestAdd", c, fixture_const(r, i % 2));
    }
    return fixture_op(r, "TestAdd", a, b);
}

MR_TEST(executor_gives_the_same_with_any_number_of_threads)
{
    int want = 0;
    for (int threads = 0; threads <= 4; threads++) {
        fixture r;
        fixture_init(&r, threads);
        fixture_ret(&r, 0, ladder(&r, fixture_arg(&r, 0), 25));
        for (int i = 0; i < 20; i++) {
            int got = fixture_run1(&r, 3);
            if (threads == 0 && i == 0)
                want = got;
            MR_CHECK_INT(got, want);
        }
        fixture_deinit(&r);
    }
}

MR_TEST(executor_shares_heavy_nodes_with_the_pool)
{
    fixture r;
    fixture_init(&r, 3);
    mr_out x = fixture_arg(&r, 0), sum = fixture_const(&r, 0);
    for (int i = 0; i < 40; i++)
        sum = fixture_op(&r, "TestAdd", sum, fixture_op(&r, "TestSpin", fixture_op(&r, "TestSpin", x)));
    fixture_ret(&r, 0, sum);
    for (int i = 0; i < 10; i++)
        MR_CHECK_INT(fixture_run1(&r, 2), 80);
    fixture_deinit(&r);
}

MR_TEST(executor_runs_control_dependencies_first)
{
    fixture r;
    fixture_init(&r, 2);
    mr_out x = fixture_arg(&r, 0), c = fixture_op(&r, "TestCount", x);
    mr_out last = fixture_op(&r, "NoOp", CTRL(c), CTRL(fixture_op(&r, "NoOp", CTRL(c))));
    fixture_ret(&r, 0, fixture_op(&r, "TestAdd", x, x, CTRL(last)));
    for (int i = 1; i <= 3; i++) {
        MR_CHECK_INT(fixture_run1(&r, 4), 8);
        MR_CHECK_INT(fixture_counter, i);
    }
    fixture_deinit(&r);
}

MR_TEST(executor_names_the_node_that_failed)
{
    fixture r;
    fixture_init(&r, 2);
    mr_out x = fixture_arg(&r, 0);
    fixture_ret(&r, 0, fixture_node(&r, "TestFail", "culprit", NULL, 0, &x, 1));
    fixture_ret(&r, 1, fixture_op(&r, "TestHold", x)); /* would wait for ever */
    int ret[2], arg = 1;
    for (int i = 0; i < 3; i++)
        MR_CHECK_ERR(fixture_run(&r, &arg, ret), MR_OUT_OF_RANGE,
                     "test failure\n\t [[{{node culprit}}]]");
    MR_CHECK_INT(fixture_held(), 0);
    fixture_deinit(&r);
}

MR_TEST(executor_checks_the_types_of_outputs)
{
    fixture r;
    fixture_init(&r, 0);
    fixture_ret(&r, 0, fixture_op(&r, "TestBadType", fixture_arg(&r, 0)));
    int ret, arg = 1;
    MR_CHECK_ERR(
        fixture_run(&r, &arg, &ret), MR_INTERNAL,
        "Output 0 of type float does not match declared output type int32 for node TestBadType");
    fixture_deinit(&r);
}

MR_TEST(executor_misses_outputs)
{
    fixture r;
    fixture_init(&r, 0);
    fixture_ret(&r, 0, fixture_op(&r, "TestNoOutput", fixture_arg(&r, 0)));
    int ret, arg = 1;
    MR_CHECK_ERR(fixture_run(&r, &arg, &ret), MR_INTERNAL,
                 "Missing 0-th output from {{node TestNoOutput}}");
    fixture_deinit(&r);
}

MR_TEST(executor_goes_on_after_asynchronous_nodes)
{
    fixture r;
    fixture_init(&r, 2);
    mr_out x = fixture_op(&r, "TestNow", fixture_arg(&r, 0));
    for (int i = 0; i < 1000; i++)
        x = fixture_op(&r, "TestNow", x);
    fixture_ret(&r, 0, fixture_op(&r, "TestAdd", x, x));
    MR_CHECK_INT(fixture_run1(&r, 5), 10);
    fixture_deinit(&r);
}

static void release_all(void *n)
{
    for (int left = *(int *)n; left > 0;) {
        int n_released = fixture_release();
        if (n_released == 0)
            mr_sleep_ns(20000);
        left -= n_released;
    }
}

/* The holds end in another thread, one after the other, whatever the caller has of a pool. */
static void check_holds(int n_threads)
{
    enum { N = 20 };
    fixture r;
    fixture_init(&r, n_threads);
    mr_out x = fixture_arg(&r, 0);
    for (int i = 0; i < N; i++)
        x = fixture_op(&r, "TestHold", x);
    fixture_ret(&r, 0, fixture_op(&r, "TestAdd", x, fixture_const(&r, 1)));
    mr_thread t;
    int n = N;
    MR_CHECK_INT(mr_thread_start(&t, "releaser", release_all, &n), 0);
    MR_CHECK_INT(fixture_run1(&r, 5), 6);
    mr_thread_join(&t);
    fixture_deinit(&r);
}

MR_TEST(executor_is_resumed_by_other_threads_without_a_pool) { check_holds(0); }
MR_TEST(executor_is_resumed_by_other_threads_with_one_thread) { check_holds(1); }
MR_TEST(executor_is_resumed_by_other_threads_with_a_pool) { check_holds(3); }

static void cancel_when_held(void *arg)
{
    while (fixture_held() == 0)
        mr_sleep_ns(20000);
    mr_cancel_start(arg);
}

MR_TEST(executor_stops_when_cancelled)
{
    fixture r;
    fixture_init(&r, 2);
    fixture_ret(&r, 0, fixture_op(&r, "TestHold", fixture_arg(&r, 0)));
    mr_thread t;
    int ret, arg = 1;
    MR_CHECK_INT(mr_thread_start(&t, "canceller", cancel_when_held, r.cancel), 0);
    MR_CHECK_ERR(fixture_run(&r, &arg, &ret), MR_CANCELLED, "cancelled");
    mr_thread_join(&t);
    MR_CHECK_ERR(fixture_run(&r, &arg, &ret), MR_CANCELLED, "cancelled"); /* for ever */
    fixture_deinit(&r);
}

MR_TEST(executor_gives_up_after_the_deadline)
{
    fixture r;
    fixture_init(&r, 2);
    r.timeout_ms = 30;
    mr_out x = fixture_arg(&r, 0);
    fixture_ret(&r, 0, fixture_op(&r, "TestHold", x));
    int ret, arg = 1;
    for (int i = 0; i < 2; i++)
        MR_CHECK_ERR(fixture_run(&r, &arg, &ret), MR_DEADLINE_EXCEEDED, "Timed out");
    fixture_deinit(&r);
}

/* ---- kernels that wait ---- */

/* All of them must run at once, however few threads compute. */
static void check_meeting(int n_threads, int n)
{
    fixture r;
    fixture_init(&r, n_threads);
    mr_out x = fixture_arg(&r, 0), sum = fixture_const(&r, 0);
    for (int i = 0; i < n; i++)
        sum = fixture_op(&r, "TestAdd", sum, fixture_op(&r, "TestMeet", fixture_op(&r, "TestSpin", x)));
    fixture_ret(&r, 0, sum);
    for (int i = 0; i < 5; i++) {
        fixture_meet_again();
        MR_CHECK_INT(fixture_run1(&r, n), n * n);
    }
    fixture_deinit(&r);
}

MR_TEST(executor_runs_kernels_that_wait_for_each_other_without_a_pool) { check_meeting(0, 8); }
MR_TEST(executor_runs_kernels_that_wait_for_each_other_with_one_thread) { check_meeting(1, 8); }
MR_TEST(executor_runs_kernels_that_wait_for_each_other_with_a_pool) { check_meeting(2, 30); }

MR_TEST(executor_runs_a_kernel_that_waits_in_the_caller_when_nothing_else_is_left)
{
    for (int n_threads = 0; n_threads <= 2; n_threads++) {
        fixture r;
        fixture_init(&r, n_threads);
        mr_out x = fixture_op(&r, "TestMeet", fixture_arg(&r, 0));
        fixture_ret(&r, 0, fixture_op(&r, "TestMeet", x));
        fixture_meet_again();
        MR_CHECK_INT(fixture_run1(&r, 1), 1);
        MR_CHECK(pthread_equal(fixture_last_meeting_thread, pthread_self()));
        fixture_deinit(&r);
    }
}

/* What they would wait for never comes: the cancellation ends those that look for it, and starts no others. */
MR_TEST(executor_cancels_kernels_that_wait)
{
    fixture r;
    fixture_init(&r, 2);
    r.timeout_ms = 30;
    mr_out x = fixture_arg(&r, 0), sum = fixture_const(&r, 0);
    for (int i = 0; i < 300; i++) /* more than there are threads */
        sum = fixture_op(&r, "TestAdd", sum, fixture_op(&r, "TestMeet", x));
    fixture_ret(&r, 0, sum);
    fixture_meet_again();
    int ret, arg = 1000;
    MR_CHECK_ERR(fixture_run(&r, &arg, &ret), MR_DEADLINE_EXCEEDED, "Timed out");
    fixture_deinit(&r);
}

/* ---- the caller ---- */

/* Two nodes that compute become ready at the end of a chain, while the other thread has nothing to do: it must take one of
 * them.  They keep their threads, so they meet only then.  A single run may come too early for that. */
static void check_meeting_behind(int long_side)
{
    fixture r;
    fixture_init(&r, 2);
    mr_out x[2] = {fixture_arg(&r, 0)};
    x[1] = x[0];
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < (i == long_side ? 40 : 1); k++)
            x[i] = fixture_op(&r, "TestSpin", x[i]);
    mr_out end = x[long_side];
    fixture_ret(
        &r, 0,
        fixture_op(&r, "TestAdd", fixture_op(&r, "TestMeetComputing", end), fixture_op(&r, "TestMeetComputing", end)));
    fixture_ret(&r, 1, x[1 - long_side]);
    bool met = false;
    for (int i = 0; i < 200 && !met; i++) {
        int rets[2], arg = 2;
        fixture_meet_again();
        MR_CHECK_OK(fixture_run(&r, &arg, rets));
        met = rets[0] == 4;
    }
    MR_CHECK(met);
    fixture_deinit(&r);
}

/* One of the two chains is the worker's, with the caller waiting. */
MR_TEST(executor_gives_nodes_to_the_caller_that_waits)
{
    atomic_store(&fixture_meet_patience_ns, 50000000);
    check_meeting_behind(0);
    check_meeting_behind(1);
    atomic_store(&fixture_meet_patience_ns, 20000000000);
}

/* ---- how many threads compute ---- */

/* Runs nodes that compute before and after ones that leave the thread, and returns how many threads computed. */
static int count_spinners(int n_threads, const char *between, int n_runs)
{
    fixture r;
    fixture_init(&r, n_threads);
    mr_out x = fixture_arg(&r, 0), sum = x;
    for (int i = 0; i < 20; i++)
        sum = fixture_op(&r, "TestAdd", sum,
                         fixture_op(&r, "TestSpin", fixture_op(&r, between, fixture_op(&r, "TestSpin", x))));
    fixture_ret(&r, 0, sum);
    fixture_forget_spinners();
    for (int i = 0; i < n_runs; i++) {
        fixture_meet_again();
        fixture_run1(&r, 1);
    }
    fixture_deinit(&r);
    return fixture_forget_spinners();
}

MR_TEST(executor_computes_in_one_thread_when_there_is_one)
{
    for (int n_threads = 0; n_threads <= 1; n_threads++) {
        MR_CHECK_INT(count_spinners(n_threads, "TestNow", 5), 1);
        MR_CHECK_INT(count_spinners(n_threads, "TestMeet", 5), 1); /* what blocks has other threads, which do not go on */
    }
}

MR_TEST(executor_computes_in_both_threads_of_a_pool_of_two) { MR_CHECK(count_spinners(2, "TestNow", 50) >= 2); }

/* ---- references ---- */

MR_TEST(executor_reads_references_for_ordinary_inputs)
{
    fixture r;
    fixture_init(&r, 2);
    mr_out v = fixture_node(&r, "TestVariable", "v", NULL, 0, NULL, 0);
    mr_out set = fixture_op(&r, "TestAssign", v, fixture_arg(&r, 0));
    fixture_ret(&r, 0, fixture_op(&r, "TestAdd", set, fixture_const(&r, 1)));
    fixture_ret(&r, 1, set);
    int rets[2], arg = 7;
    MR_CHECK_OK(fixture_run(&r, &arg, rets));
    MR_CHECK_INT(rets[0], 8);
    MR_CHECK_INT(rets[1], 7);
    fixture_deinit(&r);
}

MR_TEST(executor_refuses_uninitialized_references)
{
    fixture r;
    fixture_init(&r, 0);
    mr_out v = fixture_node(&r, "TestVariable", "v", NULL, 0, NULL, 0);
    fixture_ret(&r, 0, fixture_op(&r, "TestAdd", v, fixture_arg(&r, 0)));
    int ret, arg = 7;
    MR_CHECK_ERR(fixture_run(&r, &arg, &ret), MR_FAILED_PRECONDITION,
                 "Attempting to use uninitialized value v\n");
    fixture_deinit(&r);
}

/* ---- deadness without loops ---- */

/* cond ? x + 1 : x + 10 */
static mr_out cond(fixture *r, mr_out pred, mr_out x)
{
    mr_out sw = fixture_op(r, "Switch", x, pred);
    mr_out no = fixture_op(r, "TestAdd", sw, fixture_const(r, 10));
    mr_out yes = fixture_op(r, "TestAdd", mr_nth(sw, 1), fixture_const(r, 1));
    return fixture_merge(r, no, yes);
}

MR_TEST(executor_takes_one_side_of_a_conditional)
{
    fixture r;
    fixture_init(&r, 2);
    mr_out x = fixture_arg(&r, 0), m = cond(&r, fixture_op(&r, "TestLess", x, fixture_const(&r, 5)), x);
    fixture_ret(&r, 0, fixture_op(&r, "TestAdd", m, fixture_const(&r, 100)));
    fixture_ret(&r, 1, mr_nth(m, 1));
    int rets[2], arg = 3;
    MR_CHECK_OK(fixture_run(&r, &arg, rets));
    MR_CHECK_INT(rets[0], 104);
    MR_CHECK_INT(rets[1], 1);
    arg = 7;
    MR_CHECK_OK(fixture_run(&r, &arg, rets));
    MR_CHECK_INT(rets[0], 117);
    MR_CHECK_INT(rets[1], 0);
    fixture_deinit(&r);
}

MR_TEST(executor_does_not_run_the_dead_side)
{
    fixture r;
    fixture_init(&r, 0);
    mr_out x = fixture_arg(&r, 0),
           sw = fixture_op(&r, "Switch", x, fixture_op(&r, "TestLess", x, fixture_const(&r, 5)));
    mr_out dead = fixture_op(&r, "TestCount", sw), also = fixture_op(&r, "TestCount", x, CTRL(dead));
    fixture_ret(&r, 0, dead);
    fixture_ret(&r, 1, also); /* deadness goes along control edges too */
    fixture_ret(&r, 2, mr_nth(sw, 1));
    int rets[3], arg = 3;
    MR_CHECK_OK(fixture_run(&r, &arg, rets));
    MR_CHECK_INT(fixture_counter, 0);
    MR_CHECK_INT(r.last_kind[0], MR_ABSENT);
    MR_CHECK_INT(r.last_kind[1], MR_ABSENT);
    MR_CHECK_INT(rets[2], 3);
    fixture_deinit(&r);
}

MR_TEST(executor_keeps_control_edges_of_a_live_switch_alive)
{
    fixture r;
    fixture_init(&r, 0);
    mr_out x = fixture_arg(&r, 0),
           sw = fixture_op(&r, "Switch", x, fixture_op(&r, "TestLess", x, fixture_const(&r, 5)));
    fixture_ret(&r, 0, fixture_op(&r, "TestAdd", x, x, CTRL(sw)));
    MR_CHECK_INT(fixture_run1(&r, 3), 6);
    fixture_deinit(&r);
}

MR_TEST(executor_runs_control_triggers_after_dead_nodes)
{
    fixture r;
    fixture_init(&r, 0);
    mr_out x = fixture_arg(&r, 0),
           sw = fixture_op(&r, "Switch", x, fixture_op(&r, "TestLess", x, fixture_const(&r, 5)));
    mr_out dead = fixture_op(&r, "TestCount", sw);
    mr_out trigger = fixture_op(&r, "ControlTrigger", CTRL(dead)),
           noop = fixture_op(&r, "NoOp", CTRL(dead));
    fixture_ret(&r, 0, fixture_op(&r, "TestAdd", x, x, CTRL(trigger)));
    fixture_ret(&r, 1, fixture_op(&r, "TestAdd", x, x, CTRL(noop)));
    int rets[2], arg = 3;
    MR_CHECK_OK(fixture_run(&r, &arg, rets));
    MR_CHECK_INT(rets[0], 6);
    MR_CHECK_INT(r.last_kind[1], MR_ABSENT);
    fixture_deinit(&r);
}

MR_TEST(executor_makes_a_merge_dead_only_by_all_data_inputs)
{
    fixture r;
    fixture_init(&r, 0);
    mr_out x = fixture_arg(&r, 0),
           sw = fixture_op(&r, "Switch", x, fixture_op(&r, "TestLess", x, fixture_const(&r, 5)));
    mr_out dead = fixture_op(&r, "TestCount", sw), dead2 = fixture_op(&r, "TestCount", sw);
    mr_out m = fixture_merge(&r, dead, mr_nth(sw, 1));
    mr_node_add_control(m.node, dead.node); /* a dead control input only counts as arrived */
    fixture_ret(&r, 0, m);
    fixture_ret(&r, 1, fixture_merge(&r, dead, dead2));
    int rets[2], arg = 3;
    MR_CHECK_OK(fixture_run(&r, &arg, rets));
    MR_CHECK_INT(rets[0], 3);
    MR_CHECK_INT(r.last_kind[1], MR_ABSENT);
    fixture_deinit(&r);
}

MR_TEST(executor_merge_takes_the_first_of_two_live_inputs)
{
    fixture r;
    fixture_init(&r, 0);
    mr_out x = fixture_arg(&r, 0);
    mr_out late = x;
    for (int i = 0; i < 50; i++)
        late = fixture_op(&r, "TestAdd", late, fixture_const(&r, 1));
    mr_out m = fixture_merge(&r, x, x);
    fixture_ret(&r, 0, fixture_op(&r, "TestAdd", m, fixture_const(&r, 1)));
    fixture_ret(&r, 1, late);
    int rets[2], arg = 3;
    MR_CHECK_OK(fixture_run(&r, &arg, rets));
    MR_CHECK_INT(rets[0], 4);
    MR_CHECK_INT(rets[1], 53);
    fixture_deinit(&r);
}

/* ---- transfers ---- */

static mr_named_attr transfer_attr(int i)
{
    const char *cpu = "/job:localhost/replica:0/task:0/device:CPU:0";
    mr_named_attr all[] = {{"tensor_name", mr_a_str("edge_1_x")}, {"send_device", mr_a_str(cpu)},
                           {"recv_device", mr_a_str(cpu)}, {"send_device_incarnation", mr_a_int(1)},
                           {"tensor_type", mr_a_type(MR_INT32)}};
    return all[i];
}

MR_TEST(executor_sends_deadness_through_a_rendezvous)
{
    fixture r;
    fixture_init(&r, 2);
    mr_out x = fixture_arg(&r, 0),
           sw = fixture_op(&r, "Switch", x, fixture_op(&r, "TestLess", x, fixture_const(&r, 5)));
    mr_named_attr attrs[5] = {transfer_attr(0), transfer_attr(1), transfer_attr(2),
                              transfer_attr(3), transfer_attr(4)};
    mr_out side = mr_nth(sw, 1);
    fixture_node(&r, "_Send", "s", attrs, 4, &side, 1);
    mr_out got = fixture_node(&r, "_Recv", "r", attrs, 5, NULL, 0);
    fixture_ret(&r, 0, fixture_op(&r, "TestAdd", got, fixture_const(&r, 1)));
    fixture_ret(&r, 1, fixture_op(&r, "TestAdd", x, x, CTRL(got))); /* its control edges are live */
    int rets[2], arg = 3;
    MR_CHECK_OK(fixture_run(&r, &arg, rets));
    MR_CHECK_INT(rets[0], 4);
    MR_CHECK_INT(rets[1], 6);
    arg = 8;
    MR_CHECK_OK(fixture_run(&r, &arg, rets));
    MR_CHECK_INT(r.last_kind[0], MR_ABSENT);
    MR_CHECK_INT(rets[1], 16);
    fixture_deinit(&r);
}

MR_TEST(executor_dead_recv_consumes_its_key_and_stays_dead)
{
    fixture r;
    fixture_init(&r, 2);
    mr_out x = fixture_arg(&r, 0),
           sw = fixture_op(&r, "Switch", x, fixture_op(&r, "TestLess", x, fixture_const(&r, 5)));
    mr_out dead = fixture_op(&r, "TestCount", sw);
    mr_named_attr attrs[5] = {transfer_attr(0), transfer_attr(1), transfer_attr(2),
                              transfer_attr(3), transfer_attr(4)};
    fixture_node(&r, "_Send", "s", attrs, 4, &x, 1);
    mr_out after = CTRL(dead);
    mr_out got = fixture_node(&r, "_Recv", "r", attrs, 5, &after, 1);
    fixture_ret(&r, 0, fixture_op(&r, "TestAdd", got, fixture_const(&r, 1)));
    int ret, arg = 3;
    MR_CHECK_OK(fixture_run(&r, &arg, &ret));
    MR_CHECK_INT(r.last_kind[0], MR_ABSENT);
    fixture_deinit(&r);
}

/* ---- at random ---- */

/* A random graph of n nodes over one argument: sums, asynchronous and slow nodes, conditionals. */
static void random_graph(fixture *r, uint64_t seed, int n)
{
    mr_out values[64];
    int n_values = 0;
    values[n_values++] = fixture_arg(r, 0);
    values[n_values++] = fixture_const(r, 3);
    for (int i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint64_t pick = seed >> 33;
        mr_out a = values[pick % (uint64_t)n_values], b = values[pick / 64 % (uint64_t)n_values], y;
        switch (pick / 4096 % 8) {
        case 0:
            y = fixture_op(r, "TestNow", a);
            break;
        case 1:
            y = pick % 8 ? fixture_op(r, "TestCount", a) : fixture_op(r, "TestSpin", a);
            break;
        case 2:
            y = cond(r, fixture_op(r, "TestLess", a, b), a);
            break;
        case 3:
            y = fixture_op(r, "TestAdd", a, b, CTRL(values[n_values - 1]));
            break;
        default:
            y = fixture_op(r, "TestAdd", a, b);
        }
        values[n_values < 64 ? n_values++ : (int)(pick % 64)] = y;
    }
    mr_out sum = values[0];
    for (int i = 1; i < n_values; i++)
        sum = fixture_op(r, "TestAdd", sum, values[i]);
    fixture_ret(r, 0, sum);
}

MR_TEST(executor_agrees_with_itself_on_random_graphs)
{
    for (int k = 0; k < 20; k++) {
        fixture alone, many;
        fixture_init(&alone, 0);
        fixture_init(&many, 4);
        uint64_t n = mr_test_random();
        random_graph(&alone, n, 150);
        random_graph(&many, n, 150);
        for (int i = 0; i < 5; i++)
            MR_CHECK_INT(fixture_run1(&many, i), fixture_run1(&alone, i));
        fixture_deinit(&alone);
        fixture_deinit(&many);
    }
}

/* ---- what may run in a thread that must not be kept ---- */

MR_TEST(program_is_light_once_it_was_seen_to_be)
{
    fixture r;
    fixture_init(&r, 0);
    fixture_ret(&r, 0, fixture_op(&r, "TestAdd", fixture_arg(&r, 0), fixture_const(&r, 1)));
    fixture_run1(&r, 1);
    for (int i = 0; i < 10000 && !mr_program_is_light(r.program); i++) /* now and then it is measured */
        fixture_run1(&r, 1);
    MR_CHECK(mr_program_is_light(r.program));
    fixture_deinit(&r);
}

MR_TEST(program_that_was_slow_is_not_light)
{
    fixture r;
    fixture_init(&r, 0);
    mr_out x = fixture_arg(&r, 0);
    fixture_ret(&r, 0, fixture_op(&r, "TestSpin", x));
    for (int i = 0; i < 3; i++)
        fixture_run1(&r, 1);
    MR_CHECK(!mr_program_is_light(r.program));
    fixture_deinit(&r);
}
