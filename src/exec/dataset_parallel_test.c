/* Datasets with threads: what they give, in what order, and how they end. */
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "exec/dataset_fixture.h"

static mr_dataset_fixture fixture;

static mr_out range(int64_t a, int64_t b) { return mr_dataset_fixture_range(&fixture, a, b); }
static mr_out i64(int64_t v) { return mr_dataset_fixture_i64(&fixture, v); }

#define GIVES(d, text) MR_CHECK_ELEMENTS(&fixture, d, text)

static void define(void)
{
    static const int types[] = {MR_INT64};
    static const mr_pshape *const shapes[] = {&mr_pshape_scalar};
    mr_dbody b = mr_dbody_new(&fixture, 1, MR_INT64);
    mr_dbody_end(&b, &fixture, "Times3", MR_OUTS(mr_emit(&b.s, "Mul", b.args[0], mr_const_i64(&b.s, 3))));
    b = mr_dbody_new(&fixture, 1, MR_INT64);
    mr_dbody_end(&b, &fixture, "Above4", MR_OUTS(mr_emit(&b.s, "Greater", b.args[0], mr_const_i64(&b.s, 4))));
    b = mr_dbody_new(&fixture, 1, MR_INT64);
    mr_out less = mr_emit(&b.s, "Sub", b.args[0], mr_const_i64(&b.s, 2));
    mr_dbody_end(&b, &fixture, "TenBy", MR_OUTS(mr_emit(&b.s, "FloorDiv", mr_const_i64(&b.s, 10), less)));
    b = mr_dbody_new(&fixture, 1, MR_INT64);
    mr_out d = mr_emit_with(&b.s, "RangeDataset", MR_ATTRS({"output_types", mr_a_types(1, types)},
                                                           {"output_shapes", mr_a_shapes(1, shapes)}),
                            b.args[0], mr_emit(&b.s, "AddV2", b.args[0], b.args[0]), mr_const_i64(&b.s, 1));
    mr_dbody_end(&b, &fixture, "FromRange", &d, 1);
    b = mr_dbody_new(&fixture, 1, MR_INT64); /* waits for ever */
    mr_out q = mr_emit0_with(&b.s, "FIFOQueueV2", MR_ATTRS({"component_types", mr_a_types(1, types)}));
    mr_out v = mr_emit_with(&b.s, "QueueDequeueV2", MR_ATTRS({"component_types", mr_a_types(1, types)}), q);
    mr_dbody_end(&b, &fixture, "Waits", MR_OUTS(mr_emit(&b.s, "AddV2", b.args[0], v)));
}

static void begin(int threads)
{
    mr_dataset_fixture_init(&fixture, threads);
    define();
}

static void end(void) { mr_dataset_fixture_deinit(&fixture); }

static mr_out fn(const char *op, const char *f, mr_out d, const mr_out *scalars, int n)
{
    return mr_dataset_fixture_fn(&fixture, op, f, d, NULL, 0, scalars, n);
}

static void all_kinds(int threads)
{
    begin(threads);
    GIVES(mr_dataset_fixture_op(&fixture, "PrefetchDataset", range(0, 5), i64(2)), "0 1 2 3 4");
    GIVES(mr_dataset_fixture_op(&fixture, "PrefetchDataset", range(0, 5), i64(0)), "0 1 2 3 4");
    GIVES(mr_dataset_fixture_op(&fixture, "PrefetchDataset", mr_dataset_fixture_op(&fixture, "PrefetchDataset", range(0, 5), i64(100)), i64(-1)), "0 1 2 3 4");
    GIVES(fn("ParallelMapDatasetV2", "Times3", range(0, 8), MR_OUTS(i64(3))), "0 3 6 9 12 15 18 21");
    GIVES(fn("ParallelMapDatasetV2", "Times3", range(0, 0), MR_OUTS(i64(-1))), "");
    GIVES(fn("ParallelMapDataset", "Times3", range(0, 3), MR_OUTS(mr_const_i32(&fixture.s, 7))), "0 3 6");
    GIVES(fn("ParallelFilterDataset", "Above4", range(0, 8), MR_OUTS(i64(3))), "5 6 7");
    GIVES(fn("MapAndBatchDataset", "Times3", range(0, 5), MR_OUTS(i64(2), i64(3), mr_dataset_fixture_bool(&fixture, false))), "[0 3] [6 9] [12]");
    GIVES(fn("MapAndBatchDataset", "Times3", range(0, 5), MR_OUTS(i64(2), i64(3), mr_dataset_fixture_bool(&fixture, true))), "[0 3] [6 9]");
    GIVES(fn("ParallelInterleaveDatasetV3", "FromRange", range(1, 5), MR_OUTS(i64(2), i64(1), i64(2))), "1 2 3 3 4 4 5 5 6 7");
    GIVES(fn("ParallelInterleaveDatasetV2", "FromRange", range(1, 5), MR_OUTS(i64(2), i64(2), i64(1))), "1 2 3 3 4 5 4 5 6 7");
    GIVES(fn("ParallelInterleaveDatasetV4", "FromRange", range(1, 4), MR_OUTS(i64(9), i64(1), i64(1), i64(0), i64(4))), "1 2 3 3 4 5");
    GIVES(fn("ParallelInterleaveDataset", "FromRange", range(1, 4),
             MR_OUTS(i64(2), i64(1), mr_dataset_fixture_bool(&fixture, false), i64(2), i64(1))), "1 2 3 3 4 5");
    end();
}

MR_TEST(dataset_threads_give_what_plain_ones_give) { all_kinds(2); }
MR_TEST(dataset_threads_need_no_other_thread_of_the_session) { all_kinds(1); }
MR_TEST(dataset_threads_need_no_pool) { all_kinds(-1); }

MR_TEST(dataset_parallel_map_goes_on_after_an_error)
{
    begin(2);
    mr_diter i =
        mr_dataset_fixture_iterator(&fixture, fn("ParallelMapDatasetV2", "TenBy", range(0, 5), MR_OUTS(i64(4))));
    mr_str got = {0};
    MR_CHECK_OK(mr_dataset_fixture_run(&fixture, i.make));
    MR_CHECK_OK(mr_dataset_fixture_get_all(&fixture, &i, &got));
    MR_CHECK_OK(mr_dataset_fixture_get_all(&fixture, &i, &got));
    MR_CHECK_ERR(mr_dataset_fixture_get_all(&fixture, &i, &got), MR_INVALID_ARGUMENT, "division by zero");
    MR_CHECK_OK(mr_dataset_fixture_get_all(&fixture, &i, &got));
    MR_CHECK_OK(mr_dataset_fixture_get_all(&fixture, &i, &got));
    MR_CHECK_ERR(mr_dataset_fixture_get_all(&fixture, &i, &got), MR_OUT_OF_RANGE, "End of sequence");
    MR_CHECK_STR(mr_str_z(&got), "-5-10105");
    mr_str_deinit(&got);
    end();
}

/* start to stop - 1, where 2 and 4 are errors. */
static mr_out with_errors_from(int64_t start, int64_t stop)
{
    return fn("MapDataset", "NoTwoNoFour", range(start, stop), NULL, 0);
}

/* 1 to 6, where 2 and 4 are errors. */
static mr_out with_errors(void)
{
    mr_dbody b = mr_dbody_new(&fixture, 1, MR_INT64);
    mr_out x = b.args[0], by = mr_emit(&b.s, "Mul", mr_emit(&b.s, "Sub", x, mr_const_i64(&b.s, 2)),
                                       mr_emit(&b.s, "Sub", x, mr_const_i64(&b.s, 4)));
    mr_out none = mr_emit(&b.s, "FloorDiv", mr_const_i64(&b.s, 0), by);
    mr_dbody_end(&b, &fixture, "NoTwoNoFour", MR_OUTS(mr_emit(&b.s, "AddV2", x, none)));
    return with_errors_from(1, 7);
}

/* Of "Itself" a dataset of its argument alone, of "Batched" one of all elements of its argument. */
static void define_datasets(void)
{
    static const int types[] = {MR_INT64};
    static const mr_pshape *const shapes[] = {&mr_pshape_unknown};
#define ATTRS MR_ATTRS({"output_types", mr_a_types(1, types)}, {"output_shapes", mr_a_shapes(1, shapes)})
    mr_dbody b = mr_dbody_new(&fixture, 1, MR_INT64);
    mr_dbody_end(&b, &fixture, "Itself",
                 MR_OUTS(mr_emit_with(&b.s, "RangeDataset", ATTRS, b.args[0],
                                      mr_emit(&b.s, "AddV2", b.args[0], mr_const_i64(&b.s, 1)), mr_const_i64(&b.s, 1))));
    b = mr_dbody_new(&fixture, 1, MR_VARIANT);
    mr_dbody_end(&b, &fixture, "Batched", MR_OUTS(mr_emit_with(&b.s, "BatchDataset", ATTRS, b.args[0], mr_const_i64(&b.s, 10))));
}

/* An error of the input is given where its element would be, and no other element is lost. */
MR_TEST(dataset_errors_of_the_input_are_passed_on)
{
    begin(2);
    define_datasets();
    mr_out d = with_errors();
#define OVER_ERRORS(d, text) MR_CHECK_ELEMENTS_AND_ERRORS(&fixture, d, text)
    OVER_ERRORS(d, "1 ! 3 ! 5 6");
    for (int cycle = 1; cycle <= 3; cycle++)
        for (int block = 1; block <= 3; block += 2) {
            OVER_ERRORS(fn("InterleaveDataset", "Itself", d, MR_OUTS(i64(cycle), i64(block))), "1 ! 3 ! 5 6");
            OVER_ERRORS(fn("ParallelInterleaveDatasetV2", "Itself", d, MR_OUTS(i64(cycle), i64(block), i64(2))), "1 ! 3 ! 5 6");
        }
    for (int calls = 1; calls <= 7; calls++) /* fewer than the cycle has, and as many */
        OVER_ERRORS(fn("ParallelInterleaveDatasetV2", "Itself", d, MR_OUTS(i64(7), i64(2), i64(calls))), "1 ! 3 ! 5 6");
    OVER_ERRORS(fn("ParallelInterleaveDataset", "Itself", d, MR_OUTS(i64(1), i64(1), mr_dataset_fixture_bool(&fixture, false), i64(2), i64(1))),
                "1 ! 3 ! 5 6");
    OVER_ERRORS(fn("FlatMapDataset", "Itself", d, NULL, 0), "1 ! 3 ! 5 6");
    OVER_ERRORS(fn("ParallelMapDatasetV2", "Times3", d, MR_OUTS(i64(2))), "3 ! 9 ! 15 18");
    OVER_ERRORS(mr_dataset_fixture_op(&fixture, "PrefetchDataset", d, i64(2)), "1 ! 3 ! 5 6");
    OVER_ERRORS(mr_dataset_fixture_op(&fixture, "ConcatenateDataset", range(7, 8), d), "7 1 ! 3 ! 5 6");
    OVER_ERRORS(mr_dataset_fixture_op(&fixture, "RepeatDataset", d, i64(2)), "1 ! 3 ! 5 6 1 ! 3 ! 5 6");
    OVER_ERRORS(mr_dataset_fixture_op(&fixture, "RepeatDataset", mr_dataset_fixture_op(&fixture, "CacheDataset", d, mr_const_str(&fixture.s, "")), i64(2)),
                "1 ! 3 ! 5 6 1 3 5 6");
    OVER_ERRORS(mr_dataset_fixture_op(&fixture, "TakeDataset", d, i64(3)), "1 ! 3 ! 5");
    OVER_ERRORS(mr_dataset_fixture_op(&fixture, "ShuffleDataset", d, i64(1), i64(1), i64(1)), "1 ! 3 ! 5 6");
    OVER_ERRORS(mr_dataset_fixture_op(&fixture, "BatchDataset", d, i64(3)), "! ! [5 6]");
    end();
}

/* A MapDataset of f inside of a function. */
static mr_out map_in_body(mr_dbody *b, const char *f, mr_out input)
{
    static const int types[] = {MR_INT64};
    static const mr_pshape *const shapes[] = {&mr_pshape_scalar};
    mr_func_ref ref = {f, 0, NULL};
    mr_emit_arg args[] = {{-1, &input}, {0, NULL}};
    mr_named_attr attrs[] = {{"f", {MR_ATTR_FUNC, .func = &ref}},
                             {"Targuments", mr_a_types(0, NULL)},
                             {"output_types", mr_a_types(1, types)},
                             {"output_shapes", mr_a_shapes(1, shapes)}};
    return mr_emit_lists(&b->s, "MapDataset", attrs, MR_COUNT(attrs), args, MR_COUNT(args));
}

/* "NoTwoNoFour" of the three numbers from its argument on; with_errors comes first. */
static void define_failing_rows(void)
{
    static const int types[] = {MR_INT64};
    static const mr_pshape *const shapes[] = {&mr_pshape_scalar};
    mr_dbody b = mr_dbody_new(&fixture, 1, MR_INT64);
    mr_out rows = mr_emit_with(&b.s, "RangeDataset", ATTRS, b.args[0],
                               mr_emit(&b.s, "AddV2", b.args[0], mr_const_i64(&b.s, 3)), mr_const_i64(&b.s, 1));
    mr_out d = map_in_body(&b, "NoTwoNoFour", rows);
    mr_dbody_end(&b, &fixture, "FailingRows", &d, 1);
}

/* As in TensorFlow: a parallel interleave counts an error as an element of the block, the plain one does not. */
MR_TEST(dataset_errors_count_as_elements_of_parallel_blocks)
{
    begin(2);
    define_datasets();
    mr_out d = with_errors();
    define_failing_rows(); /* 1 ! 3 and ! 3 ! */
    d = range(1, 3);
    for (int calls = 1; calls <= 2; calls++)
        OVER_ERRORS(fn("ParallelInterleaveDatasetV2", "FailingRows", d, MR_OUTS(i64(2), i64(2), i64(calls))),
                    "1 ! ! 3 3 !");
    OVER_ERRORS(fn("ParallelInterleaveDataset", "FailingRows", d,
                   MR_OUTS(i64(2), i64(2), mr_dataset_fixture_bool(&fixture, false), i64(2), i64(1))), "1 ! ! 3 3 !");
    OVER_ERRORS(fn("InterleaveDataset", "FailingRows", d, MR_OUTS(i64(2), i64(2))), "1 ! 3 ! 3 !");
    /* the place of an input that is an error is empty for one visit, like that of a dataset at its end */
    OVER_ERRORS(fn("ParallelInterleaveDatasetV2", "FromRange", with_errors_from(1, 4), MR_OUTS(i64(2), i64(1), i64(2))),
                "1 ! 3 4 5");
    end();
}

/* In batches and windows an error takes the place of its element. */
MR_TEST(dataset_errors_count_as_elements_of_batches_and_windows)
{
    begin(2);
    define_datasets();
    mr_out d = with_errors();
    OVER_ERRORS(fn("MapAndBatchDataset", "Times3", d, MR_OUTS(i64(2), i64(3), mr_dataset_fixture_bool(&fixture, false))), "! ! [15 18]");
    OVER_ERRORS(
        fn("MapAndBatchDataset", "Times3", d, MR_OUTS(i64(4), i64(3), mr_dataset_fixture_bool(&fixture, false))),
        "! [15 18]");
    mr_dataset_fixture_types(&fixture, 1, MR_VARIANT);
    mr_out w = mr_dataset_fixture_op(&fixture, "WindowDataset", d, i64(2), i64(1), i64(1),
                                     mr_dataset_fixture_bool(&fixture, false));
    mr_out apart = mr_dataset_fixture_op(&fixture, "WindowDataset", d, i64(2), i64(1), i64(2),
                                         mr_dataset_fixture_bool(&fixture, true));
    mr_dataset_fixture_types(&fixture, 1, MR_INT64);
    OVER_ERRORS(fn("FlatMapDataset", "Batched", w, NULL, 0), "! ! ! ! [5 6] [6]");
    OVER_ERRORS(fn("FlatMapDataset", "Batched", apart, NULL, 0), "[1 3] ! [3 5] !");
    end();
}

/* A pipeline of everything that has threads, endless. */
static mr_out endless(void)
{
    mr_out d = mr_dataset_fixture_op(&fixture, "RepeatDataset", range(1, 100), i64(-1));
    d = fn("ParallelMapDatasetV2", "Times3", d, MR_OUTS(i64(4)));
    d = fn("ParallelInterleaveDatasetV3", "FromRange", d, MR_OUTS(i64(3), i64(2), i64(3)));
    d = mr_dataset_fixture_op(&fixture, "ShuffleDataset", d, i64(20), i64(1), i64(1));
    return mr_dataset_fixture_op(&fixture, "PrefetchDataset", d, i64(10));
}

MR_TEST(dataset_session_ends_while_threads_work)
{
    begin(3);
    mr_diter i = mr_dataset_fixture_iterator(&fixture, endless());
    mr_str got = {0};
    MR_CHECK_OK(mr_dataset_fixture_run(&fixture, i.make));
    for (int k = 0; k < 20; k++)
        MR_CHECK_OK(mr_dataset_fixture_get_all(&fixture, &i, &got));
    mr_str_deinit(&got);
    end();
}

MR_TEST(dataset_an_iterator_gets_another_dataset_while_threads_work)
{
    begin(2);
    mr_diter i = mr_dataset_fixture_iterator(&fixture, endless());
    mr_str got = {0};
    for (int k = 0; k < 20; k++) {
        MR_CHECK_OK(mr_dataset_fixture_run(&fixture, i.make));
        MR_CHECK_OK(mr_dataset_fixture_get_all(&fixture, &i, &got));
    }
    mr_str_deinit(&got);
    end();
}

static void close_soon(void *arg)
{
    usleep(30000);
    MR_CHECK_OK(mr_session_close(arg));
}

static void closed_while_waiting_for(mr_out d)
{
    mr_diter i = mr_dataset_fixture_iterator(&fixture, d);
    mr_str got = {0};
    mr_thread t;
    MR_CHECK_OK(mr_dataset_fixture_run(&fixture, i.make));
    MR_CHECK_INT(mr_thread_start(&t, "close", close_soon, fixture.session), 0);
    MR_CHECK_ERR(mr_dataset_fixture_get_all(&fixture, &i, &got), MR_CANCELLED, "");
    mr_thread_join(&t);
    mr_str_deinit(&got);
}

static void closed_while_waiting(const char *op, const mr_out *scalars, int n)
{
    closed_while_waiting_for(fn(op, "Waits", range(0, 5), scalars, n));
}

/* Of its argument a dataset of "Waits". */
static void define_waiting_rows(void)
{
    static const int types[] = {MR_INT64};
    static const mr_pshape *const shapes[] = {&mr_pshape_scalar};
    mr_dbody b = mr_dbody_new(&fixture, 1, MR_INT64);
    mr_out rows = mr_emit_with(&b.s, "RangeDataset", ATTRS, mr_const_i64(&b.s, 0), b.args[0], mr_const_i64(&b.s, 1));
    mr_out d = map_in_body(&b, "Waits", rows);
    mr_dbody_end(&b, &fixture, "WaitingRows", &d, 1);
}

/* Two threads make elements, one waits for its turn, and the taker waits for any of them. */
MR_TEST(dataset_close_cancels_an_interleave_in_any_order)
{
    begin(2);
    define_waiting_rows();
    mr_out d = fn("ParallelInterleaveDatasetV2", "WaitingRows", range(1, 9), MR_OUTS(i64(3), i64(1), i64(2)));
    closed_while_waiting_for(
        mr_dataset_fixture_op(&fixture, "OptimizeDataset", d, mr_const_str(&fixture.s, "make_sloppy")));
    end();
}

MR_TEST(dataset_close_cancels_a_function_that_waits)
{
    begin(2);
    closed_while_waiting("MapDataset", NULL, 0);
    end();
}

MR_TEST(dataset_close_cancels_parallel_functions_that_wait)
{
    begin(2);
    closed_while_waiting("ParallelMapDatasetV2", MR_OUTS(i64(3)));
    end();
}

/* A step that gives up leaves the iterator to the next one. */
MR_TEST(dataset_a_step_with_a_deadline_loses_no_element)
{
    begin(2);
    mr_out d = mr_dataset_fixture_op(&fixture, "SleepDataset", range(0, 3), i64(200000));
    mr_diter i = mr_dataset_fixture_iterator(&fixture, d);
    mr_str got = {0};
    mr_tensor *t = NULL;
    MR_CHECK_OK(mr_dataset_fixture_run(&fixture, i.make));
    mr_run_options o = {.timeout_ms = 20};
    MR_CHECK_ERR(mr_session_run(fixture.session, &(mr_run_args){.fetches = &i.next, .fetched = &t, .n_fetches = 1}, &o, NULL),
                 MR_DEADLINE_EXCEEDED, "");
    MR_CHECK_OK(mr_dataset_fixture_get_all(&fixture, &i, &got));
    MR_CHECK_STR(mr_str_z(&got), "0");
    mr_str_deinit(&got);
    end();
}

typedef struct taker {
    mr_diter i;
    _Atomic int64_t *sum;
    _Atomic int *n;
} taker;

static void take_all(void *arg)
{
    taker *t = arg;
    for (;;) {
        mr_tensor *v = NULL;
        mr_status *st = mr_session_run(fixture.session, &(mr_run_args){.fetches = &t->i.next, .fetched = &v, .n_fetches = 1}, NULL, NULL);
        if (st) {
            MR_CHECK(mr_status_code(st) == MR_OUT_OF_RANGE);
            mr_status_free(st);
            return;
        }
        atomic_fetch_add(t->sum, *MR_DATA(int64_t, v));
        atomic_fetch_add(t->n, 1);
        mr_tensor_unref(v);
    }
}

MR_TEST(dataset_many_steps_share_an_iterator)
{
    enum { N = 4 };
    begin(2);
    mr_out d = fn("ParallelMapDatasetV2", "Times3", range(0, 300), MR_OUTS(i64(4)));
    mr_thread threads[N];
    _Atomic int64_t sum = 0;
    _Atomic int n = 0;
    taker t = {mr_dataset_fixture_iterator(&fixture, d), &sum, &n};
    MR_CHECK_OK(mr_dataset_fixture_run(&fixture, t.i.make));
    for (int k = 0; k < N; k++)
        MR_CHECK_INT(mr_thread_start(&threads[k], "take", take_all, &t), 0);
    for (int k = 0; k < N; k++)
        mr_thread_join(&threads[k]);
    MR_CHECK_INT(atomic_load(&n), 300);
    MR_CHECK_INT(atomic_load(&sum), 3 * 299 * 300 / 2);
    end();
}
