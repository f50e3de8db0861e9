/* ops/queue/queue_test.c -- waiting, closing, cancelling: which error each operation gets, and what
 * happens to the elements. */
#include "base/memory.h"
#include "ops/queue/queue_fixture.h"

#define FIFO "FIFOQueueV2"
#define RANDOM "RandomShuffleQueueV2"
#define PRIORITY "PriorityQueueV2"

static void check_waits(mr_call *c) { MR_CHECK(!mr_call_ended(c)); }

static void check_ok(mr_call *c)
{
    MR_CHECK(mr_call_ended(c));
    MR_CHECK_OK(mr_call_end(c, NULL));
}

/* ---- waiting ---- */

MR_TEST(queue_gives_elements_in_their_order)
{
    mr_queue_fixture g;
    mr_queue_fixture_init(&g, FIFO, -1, 0);
    for (int i = 0; i < 100; i++) /* the ring wraps around and grows */
        mr_queue_fixture_put(&g, i);
    for (int i = 0; i < 50; i++)
        MR_CHECK_INT(mr_queue_fixture_take(&g), i);
    for (int i = 100; i < 200; i++)
        mr_queue_fixture_put(&g, i);
    for (int i = 50; i < 200; i++)
        MR_CHECK_INT(mr_queue_fixture_take(&g), i);
    mr_queue_fixture_deinit(&g);
}

MR_TEST(queue_dequeue_waits_for_an_element)
{
    mr_queue_fixture g;
    mr_queue_fixture_init(&g, FIFO, -1, 0);
    mr_call *a = mr_queue_fixture_dequeue(&g), *b = mr_queue_fixture_dequeue(&g);
    check_waits(a);
    mr_queue_fixture_put(&g, 7);
    check_waits(b);
    mr_queue_fixture_put(&g, 8);
    MR_CHECK_GAVE(&g, a, 7);
    MR_CHECK_GAVE(&g, b, 8);
    mr_queue_fixture_deinit(&g);
}

MR_TEST(queue_enqueue_waits_for_room)
{
    mr_queue_fixture g;
    mr_queue_fixture_init(&g, FIFO, 1, 0);
    mr_queue_fixture_put(&g, 1);
    mr_call *a = mr_queue_fixture_enqueue(&g, 2);
    check_waits(a);
    MR_CHECK_INT(mr_queue_fixture_size(&g), 1);
    MR_CHECK_INT(mr_queue_fixture_take(&g), 1);
    check_ok(a);
    MR_CHECK_INT(mr_queue_fixture_take(&g), 2);
    mr_queue_fixture_deinit(&g);
}

MR_TEST(queue_enqueue_many_goes_in_as_room_appears)
{
    mr_queue_fixture g;
    mr_queue_fixture_init(&g, FIFO, 2, 0);
    mr_call *a = mr_queue_fixture_begun(mr_queue_fixture_new_enqueue_many(&g, 5, (int64_t[]){1, 2, 3, 4, 5}));
    mr_call *b = mr_queue_fixture_enqueue(&g, 6);
    for (int i = 1; i <= 3; i++) {
        check_waits(a);
        MR_CHECK_INT(mr_queue_fixture_size(&g), 2);
        MR_CHECK_INT(mr_queue_fixture_take(&g), i);
    }
    check_ok(a);
    check_waits(b);
    MR_CHECK_INT(mr_queue_fixture_take(&g), 4);
    check_ok(b);
    MR_CHECK_GAVE(&g, mr_queue_fixture_dequeue_many(&g, 2), 5, 6);
    mr_queue_fixture_deinit(&g);
}

MR_TEST(queue_of_no_capacity_hands_nothing_over)
{
    mr_queue_fixture g;
    mr_queue_fixture_init(&g, FIFO, 0, 0);
    mr_call *put = mr_queue_fixture_enqueue(&g, 1), *take = mr_queue_fixture_dequeue(&g);
    check_waits(put);
    check_waits(take);
    mr_call_cancel(put);
    mr_call_cancel(take);
    mr_status_free(mr_call_end(put, NULL));
    mr_status_free(mr_call_end(take, NULL));
    mr_queue_fixture_deinit(&g);
}

MR_TEST(queue_large_dequeue_holds_back_small_ones)
{
    mr_queue_fixture g;
    mr_queue_fixture_init(&g, FIFO, -1, 0);
    mr_call *large = mr_queue_fixture_dequeue_many(&g, 3), *small = mr_queue_fixture_dequeue(&g);
    mr_queue_fixture_put(&g, 1);
    mr_queue_fixture_put(&g, 2);
    check_waits(large);
    check_waits(small);
    MR_CHECK_INT(mr_queue_fixture_size(&g), 0); /* it takes elements as they arrive */
    mr_queue_fixture_put(&g, 3);
    MR_CHECK_GAVE(&g, large, 1, 2, 3);
    check_waits(small);
    mr_queue_fixture_put(&g, 4);
    MR_CHECK_GAVE(&g, small, 4);
    mr_queue_fixture_deinit(&g);
}

MR_TEST(queue_dequeue_larger_than_the_capacity_is_served)
{
    mr_queue_fixture g;
    mr_queue_fixture_init(&g, FIFO, 2, 0);
    mr_call *put = mr_queue_fixture_begun(mr_queue_fixture_new_enqueue_many(&g, 5, (int64_t[]){1, 2, 3, 4, 5}));
    check_waits(put);
    MR_CHECK_GAVE(&g, mr_queue_fixture_dequeue_many(&g, 5), 1, 2, 3, 4, 5);
    check_ok(put);
    mr_queue_fixture_deinit(&g);
}

MR_TEST(queue_empty_dequeue_never_waits)
{
    mr_queue_fixture g;
    mr_queue_fixture_init(&g, FIFO, -1, 0);
    mr_call *first = mr_queue_fixture_dequeue(&g);
    mr_tensor *t;
    MR_CHECK_OK(mr_queue_fixture_end(&g, mr_queue_fixture_dequeue_many(&g, 0), &t));
    MR_CHECK_INT(t->n, 0);
    mr_tensor_unref(t);
    mr_call_cancel(first);
    mr_status_free(mr_call_end(first, NULL));
    mr_queue_fixture_deinit(&g);
}

/* ---- closing ---- */

MR_TEST(queue_closed_refuses_elements)
{
    mr_queue_fixture g;
    mr_queue_fixture_init(&g, FIFO, -1, 0);
    check_ok(mr_queue_fixture_close(&g, false));
    MR_CHECK_TEXT(mr_call_end(mr_queue_fixture_enqueue(&g, 1), NULL), MR_CANCELLED,
                  "FIFOQueue 'q' is closed.");
    MR_CHECK_TEXT(
        mr_call_end(mr_queue_fixture_begun(mr_queue_fixture_new_enqueue_many(&g, 2, (int64_t[]){1, 2})), NULL),
        MR_CANCELLED, "FIFOQueue 'q' is closed.");
    mr_queue_fixture_deinit(&g);
}

MR_TEST(queue_closes_once)
{
    mr_queue_fixture g;
    mr_queue_fixture_init(&g, FIFO, -1, 0);
    check_ok(mr_queue_fixture_close(&g, false));
    MR_CHECK_TEXT(mr_call_end(mr_queue_fixture_close(&g, false), NULL), MR_CANCELLED,
                  "Queue 'q' is already closed.");
    check_ok(mr_queue_fixture_close(&g, true)); /* with cancellation, any number of times */
    check_ok(mr_queue_fixture_close(&g, true));
    mr_queue_fixture_deinit(&g);
}

MR_TEST(queue_close_waits_behind_pending_enqueues)
{
    mr_queue_fixture g;
    mr_queue_fixture_init(&g, FIFO, 1, 0);
    mr_queue_fixture_put(&g, 1);
    mr_call *before = mr_queue_fixture_enqueue(&g, 2), *close = mr_queue_fixture_close(&g, false),
            *after = mr_queue_fixture_enqueue(&g, 3);
    check_waits(close);
    MR_CHECK_INT(mr_queue_fixture_take(&g), 1);
    check_ok(before);
    check_ok(close);
    MR_CHECK_TEXT(mr_call_end(after, NULL), MR_CANCELLED, "FIFOQueue 'q' is closed.");
    MR_CHECK_INT(mr_queue_fixture_take(&g), 2);
    mr_queue_fixture_deinit(&g);
}

MR_TEST(queue_close_is_not_cancelled_with_its_step)
{
    mr_queue_fixture g;
    mr_queue_fixture_init(&g, FIFO, 1, 0);
    mr_queue_fixture_put(&g, 1);
    mr_call *put = mr_queue_fixture_enqueue(&g, 2), *close = mr_queue_fixture_close(&g, false);
    mr_call_cancel(close);
    check_waits(close);
    MR_CHECK_INT(mr_queue_fixture_take(&g), 1);
    check_ok(put);
    check_ok(close);
    mr_queue_fixture_deinit(&g);
}

MR_TEST(queue_close_may_send_pending_enqueues_away)
{
    mr_queue_fixture g;
    mr_queue_fixture_init(&g, FIFO, 1, 0);
    mr_queue_fixture_put(&g, 1);
    mr_call *a = mr_queue_fixture_enqueue(&g, 2), *close = mr_queue_fixture_close(&g, false);
    check_ok(mr_queue_fixture_close(&g, true));
    MR_CHECK_TEXT(mr_call_end(a, NULL), MR_CANCELLED, "Enqueue operation was cancelled");
    MR_CHECK_TEXT(mr_call_end(close, NULL), MR_CANCELLED, "Enqueue operation was cancelled");
    MR_CHECK_INT(mr_queue_fixture_take(&g), 1);
    MR_CHECK_INT(mr_queue_fixture_size(&g), 0);
    mr_queue_fixture_deinit(&g);
}

MR_TEST(queue_closed_and_empty_ends_every_wait)
{
    mr_queue_fixture g;
    mr_queue_fixture_init(&g, FIFO, -1, 0);
    mr_call *a = mr_queue_fixture_dequeue(&g), *b = mr_queue_fixture_dequeue_many(&g, 4),
            *c = mr_queue_fixture_dequeue_up_to(&g, 5);
    check_ok(mr_queue_fixture_close(&g, false));
    MR_CHECK_TEXT(mr_call_end(a, NULL), MR_OUT_OF_RANGE,
                  "FIFOQueue 'q' is closed and has insufficient elements (requested 1, current "
                  "size 0)");
    MR_CHECK_TEXT(mr_call_end(b, NULL), MR_OUT_OF_RANGE,
                  "FIFOQueue 'q' is closed and has insufficient elements (requested 4, current "
                  "size 0)");
    MR_CHECK_TEXT(mr_call_end(c, NULL), MR_OUT_OF_RANGE,
                  "FIFOQueue 'q' is closed and has insufficient elements (requested 5, current "
                  "size 0)");
    mr_queue_fixture_deinit(&g);
}

MR_TEST(queue_closed_with_too_few_keeps_them)
{
    mr_queue_fixture g;
    mr_queue_fixture_init(&g, FIFO, -1, 0);
    for (int i = 1; i <= 3; i++)
        mr_queue_fixture_put(&g, i);
    check_ok(mr_queue_fixture_close(&g, false));
    MR_CHECK_TEXT(mr_call_end(mr_queue_fixture_dequeue_many(&g, 4), NULL), MR_OUT_OF_RANGE,
                  "FIFOQueue 'q' is closed and has insufficient elements (requested 4, current "
                  "size 3)");
    MR_CHECK_GAVE(&g, mr_queue_fixture_dequeue_many(&g, 3), 1, 2, 3);
    mr_queue_fixture_deinit(&g);
}

/* TensorFlow reports how many elements were still missing, not how many were requested. */
MR_TEST(queue_starved_dequeue_gives_back_what_it_had)
{
    mr_queue_fixture g;
    mr_queue_fixture_init(&g, FIFO, -1, 0);
    mr_call *large = mr_queue_fixture_dequeue_many(&g, 4), *next = mr_queue_fixture_dequeue_many(&g, 2);
    for (int i = 1; i <= 3; i++)
        mr_queue_fixture_put(&g, i);
    check_ok(mr_queue_fixture_close(&g, false));
    MR_CHECK_TEXT(mr_call_end(large, NULL), MR_OUT_OF_RANGE,
                  "FIFOQueue 'q' is closed and has insufficient elements (requested 1, current "
                  "size 0)");
    MR_CHECK_GAVE(&g, next, 1, 2); /* enough for the next in line */
    MR_CHECK_INT(mr_queue_fixture_take(&g), 3);
    mr_queue_fixture_deinit(&g);
}

MR_TEST(queue_dequeue_up_to_waits_for_all_while_open)
{
    mr_queue_fixture g;
    mr_queue_fixture_init(&g, FIFO, -1, 0);
    mr_call *a = mr_queue_fixture_dequeue_up_to(&g, 3);
    mr_queue_fixture_put(&g, 1);
    mr_queue_fixture_put(&g, 2);
    check_waits(a);
    check_ok(mr_queue_fixture_close(&g, false));
    MR_CHECK_GAVE(&g, a, 1, 2);
    mr_queue_fixture_deinit(&g);
}

/* ---- cancelling ---- */

MR_TEST(queue_cancelled_dequeue_says_so)
{
    mr_queue_fixture g;
    mr_queue_fixture_init(&g, FIFO, -1, 0);
    mr_call *all[] = {mr_queue_fixture_dequeue(&g), mr_queue_fixture_dequeue_many(&g, 2),
                      mr_queue_fixture_dequeue_up_to(&g, 2)};
    for (int i = 0; i < 3; i++) {
        mr_call_cancel(all[i]);
        MR_CHECK(mr_call_ended(all[i]));
        MR_CHECK_TEXT(mr_call_end(all[i], NULL), MR_CANCELLED, "Dequeue operation was cancelled");
    }
    mr_queue_fixture_deinit(&g);
}

MR_TEST(queue_cancelled_enqueue_says_so)
{
    mr_queue_fixture g;
    mr_queue_fixture_init(&g, FIFO, 0, 0);
    mr_call *all[] = {mr_queue_fixture_enqueue(&g, 1),
                      mr_queue_fixture_begun(mr_queue_fixture_new_enqueue_many(&g, 2, (int64_t[]){1, 2}))};
    for (int i = 0; i < 2; i++) {
        mr_call_cancel(all[i]);
        MR_CHECK(mr_call_ended(all[i]));
        MR_CHECK_TEXT(mr_call_end(all[i], NULL), MR_CANCELLED, "Enqueue operation was cancelled");
    }
    mr_queue_fixture_deinit(&g);
}

MR_TEST(queue_step_cancelled_before_puts_and_takes_nothing)
{
    mr_queue_fixture g;
    mr_queue_fixture_init(&g, FIFO, -1, 0);
    mr_queue_fixture_put(&g, 1);
    mr_call *put = mr_queue_fixture_new_enqueue(&g, 2), *take = mr_queue_fixture_new_dequeue(&g);
    mr_call_cancel(put);
    mr_call_cancel(take);
    MR_CHECK_TEXT(mr_call_end(mr_queue_fixture_begun(put), NULL), MR_CANCELLED,
                  "Enqueue operation was cancelled");
    MR_CHECK_TEXT(mr_call_end(mr_queue_fixture_begun(take), NULL), MR_CANCELLED,
                  "Dequeue operation was cancelled");
    MR_CHECK_INT(mr_queue_fixture_size(&g), 1);
    mr_queue_fixture_deinit(&g);
}

MR_TEST(queue_cancelled_batches_leave_what_went_in_and_lose_what_came_out)
{
    mr_queue_fixture g;
    mr_queue_fixture_init(&g, FIFO, 2, 0);
    mr_call *put = mr_queue_fixture_begun(mr_queue_fixture_new_enqueue_many(&g, 3, (int64_t[]){1, 2, 3}));
    mr_call_cancel(put);
    mr_status_free(mr_call_end(put, NULL));
    MR_CHECK_INT(mr_queue_fixture_size(&g), 2);
    mr_call *take = mr_queue_fixture_dequeue_many(&g, 3);
    mr_call_cancel(take);
    mr_status_free(mr_call_end(take, NULL));
    MR_CHECK_INT(mr_queue_fixture_size(&g), 0);
    mr_queue_fixture_deinit(&g);
}

MR_TEST(queue_cancelled_first_in_line_lets_the_others_go)
{
    mr_queue_fixture g;
    mr_queue_fixture_init(&g, FIFO, 1, 0);
    mr_call *large = mr_queue_fixture_dequeue_many(&g, 2), *small = mr_queue_fixture_dequeue(&g);
    mr_queue_fixture_put(&g, 1); /* the large dequeue takes it */
    mr_call_cancel(large);
    mr_status_free(mr_call_end(large, NULL));
    mr_queue_fixture_put(&g, 2);
    MR_CHECK_GAVE(&g, small, 2);
    mr_queue_fixture_put(&g, 3);
    mr_call *many = mr_queue_fixture_begun(mr_queue_fixture_new_enqueue_many(&g, 2, (int64_t[]){4, 5})),
            *close = mr_queue_fixture_close(&g, false);
    mr_call_cancel(many);
    mr_status_free(mr_call_end(many, NULL));
    check_ok(close);
    mr_queue_fixture_deinit(&g);
}

MR_TEST(queue_closing_the_session_ends_every_wait)
{
    mr_queue_fixture g;
    mr_queue_fixture_init(&g, FIFO, 0, 0);
    mr_call *put = mr_queue_fixture_enqueue(&g, 1), *take = mr_queue_fixture_dequeue(&g);
    mr_cancel_start(g.calls.session);
    MR_CHECK_TEXT(mr_call_end(put, NULL), MR_CANCELLED, "Enqueue operation was cancelled");
    MR_CHECK_TEXT(mr_call_end(take, NULL), MR_CANCELLED, "Dequeue operation was cancelled");
    mr_queue_fixture_deinit(&g);
}

MR_TEST(queue_outlives_its_name_while_somebody_waits)
{
    mr_queue_fixture g;
    mr_queue_fixture_init(&g, FIFO, -1, 0);
    mr_call *take = mr_queue_fixture_dequeue(&g);
    mr_resources_clear(g.calls.device->resources, MR_SV(""));
    check_waits(take);
    MR_CHECK_ERR(mr_call_end(mr_queue_fixture_enqueue(&g, 1), NULL), MR_NOT_FOUND, "does not exist");
    mr_call_cancel(take);
    mr_status_free(mr_call_end(take, NULL));
    mr_queue_fixture_deinit(&g);
}

static void begin_call(void *call) { mr_call_begin(call); }

/* 2^40 empty rows. */
MR_TEST(queue_endless_enqueue_is_cancelled)
{
    static const int types[] = {MR_FLOAT};
    mr_calls calls;
    mr_thread thread;
    mr_tensor *h, *rows;
    mr_calls_init(&calls);
    const mr_named_attr attr = {"component_types", mr_a_types(1, types)};
    mr_callee make = mr_callee_make(&calls, FIFO, &attr, 1, MR_NO_OUT, 0, NULL);
    mr_callee put = mr_callee_make(&calls, "QueueEnqueueManyV2", NULL, 0, (mr_out){make.node, 0},
                                   MR_TYPES(MR_FLOAT));
    MR_CHECK_OK(mr_call_end(mr_queue_fixture_begun(mr_call_new(&calls, &make, 0, NULL)), &h));
    MR_CHECK_OK(mr_tensor_new(NULL, MR_FLOAT, 2, (int64_t[]){INT64_C(1) << 40, 0}, &rows));
    mr_call *c = mr_call_new(&calls, &put, MR_VALUES(mr_live(h), mr_live(rows)));
    MR_CHECK_INT(mr_thread_start(&thread, "put", begin_call, c), 0);
    mr_call_cancel(c); /* before it began, or in the middle */
    mr_thread_join(&thread);
    MR_CHECK_TEXT(mr_call_end(c, NULL), MR_CANCELLED, "Enqueue operation was cancelled");
    mr_callee_deinit(&make);
    mr_callee_deinit(&put);
    mr_calls_deinit(&calls);
}

/* ---- at random ---- */

MR_TEST(queue_random_keeps_a_minimum_while_open)
{
    mr_queue_fixture g;
    mr_queue_fixture_init(&g, RANDOM, -1, 2);
    for (int i = 0; i < 3; i++)
        mr_queue_fixture_put(&g, i);
    int64_t sum = mr_queue_fixture_take(&g);
    mr_call *a = mr_queue_fixture_dequeue(&g);
    check_waits(a);
    check_ok(mr_queue_fixture_close(&g, false));
    mr_tensor *t;
    MR_CHECK_OK(mr_queue_fixture_end(&g, a, &t));
    sum += *MR_DATA(int64_t, t) + mr_queue_fixture_take(&g);
    mr_tensor_unref(t);
    MR_CHECK_INT(sum, 0 + 1 + 2);
    mr_queue_fixture_deinit(&g);
}

MR_TEST(queue_random_batch_takes_what_is_above_the_minimum)
{
    mr_queue_fixture g;
    mr_queue_fixture_init(&g, RANDOM, -1, 2);
    for (int i = 0; i < 4; i++)
        mr_queue_fixture_put(&g, i);
    mr_call *a = mr_queue_fixture_dequeue_many(&g, 3);
    check_waits(a);
    MR_CHECK_INT(mr_queue_fixture_size(&g), 2);
    check_ok(mr_queue_fixture_close(&g, false));
    mr_tensor *t;
    MR_CHECK_OK(mr_queue_fixture_end(&g, a, &t));
    int64_t sum = mr_queue_fixture_take(&g);
    for (int i = 0; i < 3; i++)
        sum += MR_DATA(int64_t, t)[i];
    mr_tensor_unref(t);
    MR_CHECK_INT(sum, 0 + 1 + 2 + 3);
    mr_queue_fixture_deinit(&g);
}

MR_TEST(queue_random_starved_batch_gives_back_what_it_had)
{
    mr_queue_fixture g;
    mr_queue_fixture_init(&g, RANDOM, -1, 1);
    mr_call *a = mr_queue_fixture_dequeue_many(&g, 4);
    for (int i = 0; i < 3; i++)
        mr_queue_fixture_put(&g, i);
    MR_CHECK_INT(mr_queue_fixture_size(&g), 1);
    check_ok(mr_queue_fixture_close(&g, false));
    MR_CHECK_TEXT(mr_call_end(a, NULL), MR_OUT_OF_RANGE,
                  "RandomShuffleQueue 'q' is closed and has insufficient elements (requested 2, "
                  "current size 1)");
    int64_t sum = mr_queue_fixture_take(&g) + mr_queue_fixture_take(&g) + mr_queue_fixture_take(&g);
    MR_CHECK_INT(sum, 0 + 1 + 2);
    mr_queue_fixture_deinit(&g);
}

/* Computed by hand: word i of the stream of seeds 1 and 2 chooses among the remaining elements, and the last
 * element takes the place of the chosen one. */
MR_TEST(queue_random_gives_the_elements_of_its_seed)
{
    mr_queue_fixture g;
    mr_queue_fixture_init(&g, RANDOM, -1, 0);
    for (int i = 0; i < 8; i++)
        mr_queue_fixture_put(&g, i);
    MR_CHECK_GAVE(&g, mr_queue_fixture_dequeue_many(&g, 3), 7, 3, 0);
    MR_CHECK_INT(mr_queue_fixture_take(&g), 4);
    MR_CHECK_GAVE(&g, mr_queue_fixture_dequeue_up_to(&g, 4), 6, 1, 2, 5);
    mr_queue_fixture_deinit(&g);
}

/* ---- by priority ---- */

MR_TEST(queue_priority_batch_waits_for_all_and_is_in_order)
{
    mr_queue_fixture g;
    mr_queue_fixture_init(&g, PRIORITY, -1, 0);
    mr_call *a = mr_queue_fixture_dequeue_many(&g, 3);
    mr_queue_fixture_put(&g, 5);
    mr_queue_fixture_put(&g, -7);
    check_waits(a);
    MR_CHECK_INT(mr_queue_fixture_size(&g), 2);
    mr_queue_fixture_put(&g, 0);
    MR_CHECK_GAVE(&g, a, -7, 0, 5);
    mr_queue_fixture_deinit(&g);
}

MR_TEST(queue_priority_sorts)
{
    mr_queue_fixture g;
    mr_queue_fixture_init(&g, PRIORITY, -1, 0);
    for (int i = 0; i < 500; i++)
        mr_queue_fixture_put(&g, (int64_t)(mr_test_random() % 100) - 50);
    for (int64_t i = 0, last = INT64_MIN; i < 500; i++) {
        int64_t v = mr_queue_fixture_take(&g);
        MR_CHECK(v >= last);
        last = v;
    }
    mr_queue_fixture_deinit(&g);
}

/* ---- refused memory ---- */

/* Whichever allocation fails, the op reports it or succeeds, and the queue keeps its elements. */
static void refuse(const char *kind, int64_t n)
{
    mr_queue_fixture g;
    mr_queue_fixture_init(&g, kind, -1, 0);
    int64_t in = 0, v[40];
    for (int i = 0; i < 40; i++)
        v[i] = i;
    mr_call *c = mr_queue_fixture_new_enqueue_many(&g, 40, v);
    mr_memory_fail_after(n);
    mr_call_begin(c);
    mr_memory_fail_after(0);
    mr_status *st = mr_call_end(c, NULL);
    MR_CHECK(!st || mr_status_code(st) == MR_RESOURCE_EXHAUSTED);
    in = mr_queue_fixture_size(&g);
    MR_CHECK(st ? in < 40 : in == 40);
    mr_status_free(st);
    c = mr_queue_fixture_new_dequeue_many(&g, (int)in, false);
    mr_memory_fail_after(n);
    mr_call_begin(c);
    mr_memory_fail_after(0);
    mr_tensor *t;
    st = mr_queue_fixture_end(&g, c, &t);
    MR_CHECK(!st || mr_status_code(st) == MR_RESOURCE_EXHAUSTED);
    MR_CHECK(st || t->n == in);
    mr_tensor_unref(t);
    mr_status_free(st);
    mr_queue_fixture_deinit(&g);
}

MR_TEST(queue_bears_refused_memory)
{
    const char *kinds[] = {FIFO, RANDOM, PRIORITY};
    for (int k = 0; k < MR_COUNT(kinds); k++)
        for (int64_t n = 1; n < 60; n++)
            refuse(kinds[k], n);
}

MR_TEST(queue_refused_batch_leaves_its_elements)
{
    mr_queue_fixture g;
    mr_queue_fixture_init(&g, FIFO, -1, 0);
    for (int i = 1; i <= 9; i++)
        mr_queue_fixture_put(&g, i);
    mr_call *c = mr_queue_fixture_new_dequeue_many(&g, 9, false);
    mr_memory_fail_after(1); /* the list of taken elements */
    mr_call_begin(c);
    mr_memory_fail_after(0);
    MR_CHECK_TEXT(mr_call_end(c, NULL), MR_RESOURCE_EXHAUSTED, "no memory to dequeue 9 elements");
    MR_CHECK_GAVE(&g, mr_queue_fixture_dequeue_many(&g, 9), 1, 2, 3, 4, 5, 6, 7, 8, 9);
    mr_queue_fixture_deinit(&g);
}
