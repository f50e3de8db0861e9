/* Elements that move in blocks between threads, and elements that the asking thread makes: nothing is lost, doubled or
 * reordered, whatever happens inside a block. */
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "exec/dataset_fixture.h"

static mr_dataset_fixture fixture;

static mr_out range(int64_t a, int64_t b) { return mr_dataset_fixture_range(&fixture, a, b); }
static mr_out i64(int64_t v) { return mr_dataset_fixture_i64(&fixture, v); }
static mr_out no(void) { return mr_dataset_fixture_bool(&fixture, false); }

static mr_out fn(const char *op, const char *f, mr_out d, const mr_out *scalars, int n)
{
    return mr_dataset_fixture_fn(&fixture, op, f, d, NULL, 0, scalars, n);
}

#define OP(op, ...) mr_dataset_fixture_op(&fixture, op, __VA_ARGS__)

static void define(void)
{
    static const int types[] = {MR_INT64};
    mr_dbody b = mr_dbody_new(&fixture, 1, MR_INT64);
    mr_dbody_end(&b, &fixture, "Times3", MR_OUTS(mr_emit(&b.s, "Mul", b.args[0], mr_const_i64(&b.s, 3))));
    b = mr_dbody_new(&fixture, 1, MR_INT64); /* x, but an error for every x that 10 divides */
    mr_out rest = mr_emit(&b.s, "FloorMod", b.args[0], mr_const_i64(&b.s, 10));
    mr_out none = mr_emit(&b.s, "FloorDiv", mr_const_i64(&b.s, 0), rest);
    mr_dbody_end(&b, &fixture, "NoTens", MR_OUTS(mr_emit(&b.s, "AddV2", b.args[0], none)));
    b = mr_dbody_new(&fixture, 1, MR_INT64);
    mr_dbody_end(&b, &fixture, "Negative", MR_OUTS(mr_emit(&b.s, "Less", b.args[0], mr_const_i64(&b.s, 0))));
    b = mr_dbody_new(&fixture, 1, MR_INT64); /* waits for ever, from 40 on */
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

/* All elements as text, each error as "!". */
static char *text_of(mr_out d)
{
    mr_diter it = mr_dataset_fixture_iterator(&fixture, d);
    mr_str got = {0};
    mr_status *st = mr_dataset_fixture_run(&fixture, it.make);
    while (mr_status_code(st) != MR_OUT_OF_RANGE) {
        mr_str_append(&got, st ? "! " : " ", st ? 2 : 1);
        mr_status_free(st);
        st = mr_dataset_fixture_get_all(&fixture, &it, &got);
    }
    mr_status_free(st);
    char *text = mr_strndup(mr_str_z(&got), got.n);
    mr_str_deinit(&got);
    return text;
}

static void check_same(mr_out got, mr_out expected)
{
    char *a = text_of(got), *b = text_of(expected);
    MR_CHECK_STR(a, b);
    mr_free(a);
    mr_free(b);
}

static mr_out batch(mr_out d, int64_t n) { return OP("BatchDataset", d, i64(n)); }
static mr_out prefetch(mr_out d, int64_t n) { return OP("PrefetchDataset", d, i64(n)); }
static mr_out in_parallel(const char *f, mr_out d, int64_t n) { return fn("ParallelMapDatasetV2", f, d, MR_OUTS(i64(n))); }
static mr_out one_by_one(const char *f, mr_out d) { return fn("MapDataset", f, d, NULL, 0); }

/* ---- errors and ends inside of blocks ---- */

/* Long enough for a parallel map to measure that its elements are cheap, and to make them in runs. */
enum { MANY = 700 };

MR_TEST(dataset_blocks_of_a_parallel_map_end_with_its_input)
{
    begin(2);
    for (int64_t size = 1; size <= 1000; size = size * 9 + 1) {
        mr_out plain = batch(one_by_one("Times3", range(0, MANY)), size);
        check_same(batch(in_parallel("Times3", range(0, MANY), 4), size), plain);
        check_same(batch(prefetch(in_parallel("Times3", range(0, MANY), 4), 3), size), plain);
        check_same(fn("MapAndBatchDataset", "Times3", range(0, MANY), MR_OUTS(i64(size), i64(4), no())), plain);
    }
    end();
}

/* An error discards the elements before it of its batch, and only those. */
MR_TEST(dataset_blocks_end_at_an_error)
{
    begin(2);
    for (int64_t size = 1; size <= 100; size = size * 4 + 3) {
        mr_out plain = batch(one_by_one("NoTens", range(0, MANY)), size);
        check_same(batch(in_parallel("NoTens", range(0, MANY), 4), size), plain);
        check_same(batch(prefetch(one_by_one("NoTens", range(0, MANY)), 5), size), plain);
        check_same(batch(prefetch(in_parallel("NoTens", range(0, MANY), 2), 500), size), plain);
    }
    end();
}

MR_TEST(dataset_blocks_keep_errors_of_the_input_in_their_places)
{
    begin(2);
    mr_out d = one_by_one("NoTens", range(0, MANY));
    check_same(in_parallel("Times3", d, 3), one_by_one("Times3", d));
    check_same(batch(in_parallel("Times3", d, 3), 4), batch(one_by_one("Times3", d), 4));
    end();
}

MR_TEST(dataset_blocks_in_any_order_have_the_same_elements)
{
    begin(2);
    mr_out d = OP("OptimizeDataset", in_parallel("Times3", range(0, MANY), 4), mr_const_str(&fixture.s, "make_sloppy"));
    mr_diter it = mr_dataset_fixture_iterator(&fixture, batch(d, 7));
    mr_tensor *t = NULL;
    int64_t sum = 0, n = 0;
    mr_status *st = mr_dataset_fixture_run(&fixture, it.make);
    while (!st) {
        st = mr_session_run(fixture.session, &(mr_run_args){.fetches = &it.next, .fetched = &t, .n_fetches = 1}, NULL, NULL);
        for (int64_t i = 0; !st && i < t->n; i++, n++)
            sum += MR_DATA(int64_t, t)[i];
        mr_tensor_unref(st ? NULL : t);
    }
    MR_CHECK_ERR(st, MR_OUT_OF_RANGE, "End of sequence");
    MR_CHECK_INT(n, MANY);
    MR_CHECK_INT(sum, 3 * MANY * (MANY - 1) / 2);
    end();
}

MR_TEST(dataset_blocks_do_not_change_the_order_of_a_shuffle)
{
    begin(2);
    mr_out d = OP("ShuffleDataset", range(0, MANY), i64(50), i64(3), i64(4));
    mr_out plain = batch(one_by_one("Times3", d), 32);
    check_same(prefetch(batch(in_parallel("Times3", d, 2), 32), 2), plain);
    check_same(OP("RepeatDataset", plain, i64(1)), plain);
    end();
}

/* Batches move strings that nobody else has, short and long ones. */
MR_TEST(dataset_blocks_leave_strings_to_their_other_owners)
{
    static const int types[] = {MR_STRING};
    static const mr_pshape *const unknown[] = {&mr_pshape_unknown};
    begin(2);
    mr_out words = mr_const(&fixture.s, mr_tensor_vector_str(3, (const char *[]){"x", "a string of more than 22 bytes", ""}));
    mr_out d = mr_emit_with(&fixture.s, "TensorSliceDataset",
                            MR_ATTRS({"Toutput_types", mr_a_types(1, types)}, {"output_shapes", mr_a_shapes(1, unknown)}), words);
    mr_dataset_fixture_types(&fixture, 1, MR_STRING);
    MR_CHECK_ELEMENTS(&fixture, batch(d, 2), "[x a string of more than 22 bytes] []");
    mr_out cached = batch(OP("CacheDataset", d, mr_const_str(&fixture.s, "")), 2);
    MR_CHECK_ELEMENTS(&fixture, OP("RepeatDataset", cached, i64(3)),
                      "[x a string of more than 22 bytes] [] [x a string of more than 22 bytes] [] "
                      "[x a string of more than 22 bytes] []");
    mr_out windows = OP("SlidingWindowDataset", d, i64(2), i64(1), i64(1));
    MR_CHECK_ELEMENTS(&fixture, windows, "[x a string of more than 22 bytes] [a string of more than 22 bytes ]");
    end();
}

/* ---- cancellation ---- */

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

MR_TEST(dataset_blocks_that_are_waited_for_are_cancelled)
{
    begin(2);
    mr_out some = OP("ConcatenateDataset", range(0, 40), one_by_one("Waits", range(40, 50)));
    closed_while_waiting_for(batch(prefetch(some, 4), 60));
    end();
}

MR_TEST(dataset_blocks_of_a_parallel_map_are_cancelled)
{
    begin(2);
    mr_out some = OP("ConcatenateDataset", range(0, 300), one_by_one("Waits", range(300, 310)));
    closed_while_waiting_for(batch(in_parallel("Times3", some, 3), 400));
    end();
}

/* The thread waits for room, the other for a request; nobody asks again. */
MR_TEST(dataset_blocks_are_full_when_the_session_ends)
{
    begin(2);
    mr_diter i = mr_dataset_fixture_iterator(&fixture, prefetch(batch(in_parallel("Times3", range(0, 100000), 3), 8), 2));
    mr_str got = {0};
    MR_CHECK_OK(mr_dataset_fixture_run(&fixture, i.make));
    for (int k = 0; k < 100; k++)
        MR_CHECK_OK(mr_dataset_fixture_get_all(&fixture, &i, &got));
    mr_str_deinit(&got);
    end();
}

/* ---- places ---- */

/* The place is that of the elements that were given, not of those that were made ahead. */
MR_TEST(dataset_blocks_made_ahead_do_not_count_as_given)
{
    begin(2);
    mr_out d = OP("ShuffleDataset", in_parallel("Times3", range(0, MANY), 3), i64(8), i64(3), i64(4));
    mr_diter i = mr_dataset_fixture_iterator(&fixture, batch(prefetch(d, 50), 4));
    mr_out place = mr_emit(&fixture.s, "SerializeIterator", i.iterator);
    mr_str before = {0}, after = {0};
    mr_tensor *saved = NULL;
    MR_CHECK_OK(mr_dataset_fixture_run(&fixture, i.make));
    for (int k = 0; k < 60; k++)
        MR_CHECK_OK(mr_dataset_fixture_get_all(&fixture, &i, &before));
    mr_str_clear(&before);
    MR_CHECK_OK(mr_session_run(fixture.session, &(mr_run_args){.fetches = &place, .fetched = &saved, .n_fetches = 1}, NULL, NULL));
    for (int k = 0; k < 30; k++)
        MR_CHECK_OK(mr_dataset_fixture_get_all(&fixture, &i, &before));
    mr_out fed = mr_placeholder(&fixture.s, MR_VARIANT, "place", NULL);
    mr_emit(&fixture.s, "DeserializeIterator", i.iterator, fed);
    mr_node *back = fixture.g->nodes.p[fixture.g->nodes.n - 1];
    MR_CHECK_OK(mr_session_run(fixture.session, &(mr_run_args){.feeds = &fed, .feed_values = &saved, .n_feeds = 1, .targets = &back,
                                                           .n_targets = 1}, NULL, NULL));
    for (int k = 0; k < 30; k++)
        MR_CHECK_OK(mr_dataset_fixture_get_all(&fixture, &i, &after));
    MR_CHECK_STR(mr_str_z(&after), mr_str_z(&before));
    mr_tensor_unref(saved);
    mr_str_deinit(&before);
    mr_str_deinit(&after);
    end();
}

/* ---- attempts of the asking thread ---- */

/* 0 .. n - 1, of which only an iterator's thread can make the elements from `from` on. */
static mr_out slow_from(int64_t from, int64_t n)
{
    return OP("ConcatenateDataset", range(0, from), OP("SleepDataset", range(from, n), i64(1000)));
}

MR_TEST(dataset_attempts_that_give_up_lose_nothing_of_a_batch)
{
    begin(2);
    for (int64_t from = 0; from < 6; from++) {
        check_same(batch(slow_from(from, 7), 4), batch(range(0, 7), 4));
        check_same(one_by_one("Times3", slow_from(from, 7)), one_by_one("Times3", range(0, 7)));
        check_same(OP("ShuffleDataset", slow_from(from, 7), i64(3), i64(1), i64(1)),
                   OP("ShuffleDataset", range(0, 7), i64(3), i64(1), i64(1)));
        check_same(OP("SkipDataset", slow_from(from, 7), i64(4)), range(4, 7));
    }
    end();
}

static mr_out zip(mr_out a, mr_out b)
{
    mr_out both[] = {a, b};
    mr_emit_arg args[] = {{2, both}};
    static const int types[] = {MR_INT64, MR_INT64};
    static const mr_pshape *const unknown[] = {&mr_pshape_unknown, &mr_pshape_unknown};
    return mr_emit_lists(&fixture.s, "ZipDataset",
                         MR_ATTRS({"output_types", mr_a_types(2, types)}, {"output_shapes", mr_a_shapes(2, unknown)},
                                  {"N", mr_a_int(2)}), args, 1);
}

MR_TEST(dataset_attempts_that_give_up_keep_the_inputs_of_a_zip_in_step)
{
    begin(2);
    mr_out errors = one_by_one("NoTens", range(8, 13));
    mr_out slow = slow_from(2, 5);
    mr_dataset_fixture_types(&fixture, 2, MR_INT64, MR_INT64);
    MR_CHECK_ELEMENTS(&fixture, zip(range(10, 15), slow), "10,0 11,1 12,2 13,3 14,4");
    MR_CHECK_ELEMENTS_AND_ERRORS(&fixture, zip(errors, slow), "8,0 9,1 ! 11,3 12,4");
    end();
}

static mr_status *get_within(const mr_diter *i, int64_t ms)
{
    mr_tensor *t = NULL;
    mr_run_options o = {.timeout_ms = ms};
    mr_status *st =
        mr_session_run(fixture.session, &(mr_run_args){.fetches = &i->next, .fetched = &t, .n_fetches = 1}, &o, NULL);
    mr_tensor_unref(t);
    return st;
}

/* An attempt ends soon, also if it waits for nothing. */
MR_TEST(dataset_attempts_do_not_outlive_the_deadline_of_a_step)
{
    begin(2);
    mr_out d = fn("FilterDataset", "Negative", OP("RepeatDataset", range(0, 1000), i64(-1)), NULL, 0);
    mr_diter i = mr_dataset_fixture_iterator(&fixture, d);
    MR_CHECK_OK(mr_dataset_fixture_run(&fixture, i.make));
    for (int k = 0; k < 3; k++)
        MR_CHECK_ERR(get_within(&i, 20), MR_DEADLINE_EXCEEDED, "");
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

/* Attempts, the iterator's thread and the line of requests take turns. */
MR_TEST(dataset_attempts_of_many_steps_give_each_element_once)
{
    enum { N = 4 };
    begin(2);
    mr_out d = OP("ConcatenateDataset", OP("SleepDataset", range(0, 50), i64(100)), one_by_one("Times3", range(50, 2000)));
    mr_thread threads[N];
    _Atomic int64_t sum = 0;
    _Atomic int n = 0;
    taker t = {mr_dataset_fixture_iterator(&fixture, d), &sum, &n};
    MR_CHECK_OK(mr_dataset_fixture_run(&fixture, t.i.make));
    for (int k = 0; k < N; k++)
        MR_CHECK_INT(mr_thread_start(&threads[k], "take", take_all, &t), 0);
    for (int k = 0; k < N; k++)
        mr_thread_join(&threads[k]);
    MR_CHECK_INT(atomic_load(&n), 2000);
    MR_CHECK_INT(atomic_load(&sum), 49 * 50 / 2 + 3 * (1999 * 2000 / 2 - 49 * 50 / 2));
    end();
}
