/* server/collective_break_test.c -- what breaks communicators, told by hand: the test says what other members would. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/memory.h"
#include "server/cluster_fixture.h"
#include "wire/pb.h"

#define WORKER "/tensorflow.WorkerService/"
#define WHY "Collective ops is aborted by: the test"

enum { INSTANCE = 3 };

static const char *const devices[] = {"/job:worker/task:0/device:CPU:0", "/job:worker/task:1/device:CPU:0",
                                      "/job:worker/task:2/device:CPU:0", "/job:worker/task:3/device:CPU:0",
                                      "/job:worker/task:4/device:CPU:0"};

/* A sum of n floats, 1, 2, ..., over workers. */
static mr_out reduce_floats(cluster_fixture *b, int worker, int group, int size, int64_t n)
{
    mr_named_attr attrs[] = {{"merge_op", mr_a_str("Add")}, {"final_op", mr_a_str("Id")}, {"Nordering_token", mr_a_int(0)}};
    b->s.device = devices[worker];
    mr_tensor *t;
    MR_CHECK_OK(mr_tensor_new(NULL, MR_FLOAT, 1, &n, &t));
    for (int64_t i = 0; i < n; i++)
        MR_DATA(float, t)[i] = (float)(i + 1);
    mr_out ins[] = {mr_const(&b->s, t), mr_const_i32(&b->s, size), mr_const_i32(&b->s, group), mr_const_i32(&b->s, INSTANCE)};
    return mr_emit_n(&b->s, "CollectiveReduceV2", attrs, 3, ins, 4);
}

static mr_out reduce(cluster_fixture *b, int worker, int group, int size)
{
    return reduce_floats(b, worker, group, size, 2);
}

/* ---- words ---- */

static void call(cluster_fixture *b, int task, const char *method, mr_str *body, mr_str *reply)
{
    MR_CHECK_OK(cluster_fixture_call(b->net, b->cluster.tasks.p[task].address, method, body, reply));
}

/* The last value of a field of bytes. */
static mr_sv field_of(const mr_str *message, uint32_t wanted)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_sv v = MR_SV("");
    mr_pb_reader_init(&r, mr_str_view(message));
    while (mr_pb_next(&r, &field, &wire))
        if (field == wanted)
            v = mr_pb_bytes(&r);
        else
            mr_pb_skip(&r);
    MR_CHECK(!r.error);
    return v;
}

typedef struct asking { /* CompleteGroup of a task's device */
    cluster_fixture *b;
    int task, group, size;
    uint64_t communicator;
    mr_thread thread;
} asking;

static void ask_group(void *arg)
{
    asking *a = arg;
    mr_str body = {0}, status = {0}, reply = {0};
    mr_pb_writer w;
    call(a->b, a->task, WORKER "GetStatus", &body, &status);
    mr_pb_writer_init(&w, &body);
    mr_pb_put_varint(&w, 1, (uint64_t)a->group);
    mr_pb_put_varint(&w, 2, (uint64_t)(a->size ? a->size : 2));
    mr_pb_put_bytes(&w, 6, field_of(&status, 1));
    call(a->b, 0, WORKER "CompleteGroup", &body, &reply);
    mr_sv communicator = field_of(&reply, 7);
    MR_CHECK_INT(communicator.n, sizeof a->communicator);
    memcpy(&a->communicator, communicator.p, sizeof a->communicator);
    mr_str_deinit(&status);
    mr_str_deinit(&reply);
}

static void say_broken(cluster_fixture *b, int task, uint64_t communicator, bool left)
{
    mr_str body = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &body);
    mr_pb_put_fixed64(&w, 1, communicator);
    mr_pb_put_bytes(&w, 2, MR_SV(WHY));
    mr_pb_opt_varint(&w, 3, left);
    call(b, task, WORKER "AbortCollective", &body, NULL);
}

/* Fetches what a member has in an exchange: "PHASE;SECTION;CHUNK;SIGNATURE", so many bytes. */
static mr_status *fetch_piece(cluster_fixture *b, int rank, uint64_t communicator, int number, const char *what,
                              int bytes)
{
    mr_str body = {0}, key = {0}, reply = {0};
    mr_pb_writer w;
    mr_str_printf(&key, "millrace;%016" PRIx64 ";%d;%d;%d;%s", communicator, INSTANCE, number, rank, what);
    mr_pb_writer_init(&w, &body);
    mr_pb_put_bytes(&w, 2, mr_str_view(&key));
    mr_pb_put_varint(&w, 3, (uint64_t)bytes);
    mr_status *st = cluster_fixture_call(b->net, b->cluster.tasks.p[rank].address, WORKER "RecvBuf", &body, &reply);
    mr_str_deinit(&key);
    mr_str_deinit(&reply);
    return st;
}

static mr_status *fetch_from(cluster_fixture *b, int rank, uint64_t communicator, int number)
{
    return fetch_piece(b, rank, communicator, number, "0;0;0;all-reduce float add [2]", 8);
}

/* ---- runs ---- */

typedef struct running {
    cluster_fixture *b;
    mr_out out;
    mr_status *st;
    mr_thread thread;
} running;

static void run(void *arg)
{
    running *r = arg;
    mr_tensor *got = NULL;
    r->st = mr_session_run(cluster_fixture_session_of(r->b), &(mr_run_args){.fetches = &r->out, .fetched = &got, .n_fetches = 1}, NULL, NULL);
    mr_tensor_unref(got);
}

static void run_together(cluster_fixture *b, const mr_out *outs, int n)
{
    mr_tensor *got[5];
    MR_CHECK_OK(mr_session_run(cluster_fixture_session_of(b), &(mr_run_args){.fetches = outs, .fetched = got, .n_fetches = n}, NULL, NULL));
    for (int i = 0; i < n; i++)
        mr_tensor_unref(got[i]);
}

/* Worker 0 is in its second exchange of group 7, and waits for worker 1; returns their communicator. */
static uint64_t wait_in_exchange(running *r)
{
    asking known = {.b = r->b, .group = 7};
    ask_group(&known);
    MR_CHECK_INT(mr_thread_start(&r->thread, "run", run, r), 0);
    MR_CHECK_OK(fetch_from(r->b, 0, known.communicator, 1)); /* so it has begun */
    return known.communicator;
}

static void check_told(mr_status *st, const char *why)
{
    MR_CHECK_INT(mr_status_code(st), MR_ABORTED);
    MR_CHECK(strstr(mr_status_message(st), why));
    mr_status_free(st);
}

/* Somebody that has left is not needed any more, so the exchange goes on; then another member fails. */
MR_TEST(server_collective_that_goes_on_when_one_has_left_ends_when_another_fails)
{
    cluster_fixture b;
    cluster_fixture_begin(&b, 0, 2);
    mr_out outs[] = {reduce(&b, 0, 7, 2), reduce(&b, 1, 7, 2)};
    run_together(&b, outs, 2);
    running r = {.b = &b, .out = outs[0]};
    uint64_t communicator = wait_in_exchange(&r);
    say_broken(&b, 0, communicator, true);
    say_broken(&b, 0, communicator, false);
    mr_thread_join(&r.thread);
    check_told(r.st, WHY);
    cluster_fixture_end(&b);
}

MR_TEST(server_collective_that_is_over_lets_nobody_wait)
{
    cluster_fixture b;
    cluster_fixture_begin(&b, 0, 2);
    mr_out outs[] = {reduce(&b, 0, 7, 2), reduce(&b, 1, 7, 2)};
    run_together(&b, outs, 2);
    asking known = {.b = &b, .group = 7};
    ask_group(&known);
    mr_status *st = fetch_from(&b, 0, known.communicator, 0);
    MR_CHECK_INT(mr_status_code(st), MR_INVALID_ARGUMENT);
    MR_CHECK(strstr(mr_status_message(st), "has already finished it"));
    mr_status_free(st);
    run_together(&b, outs, 2);
    cluster_fixture_end(&b);
}

MR_TEST(server_collective_that_is_at_work_ends_when_its_group_is_formed_anew)
{
    cluster_fixture b;
    cluster_fixture_begin(&b, 0, 3);
    mr_out two[] = {reduce(&b, 0, 7, 2), reduce(&b, 1, 7, 2)};
    mr_out three[] = {reduce(&b, 0, 7, 3), reduce(&b, 1, 7, 3), reduce(&b, 2, 7, 3)};
    run_together(&b, two, 2);
    running r = {.b = &b, .out = two[0]};
    wait_in_exchange(&r);
    run_together(&b, three, 3);
    mr_thread_join(&r.thread);
    check_told(r.st, "group 7 is being formed again");
    cluster_fixture_end(&b);
}

/* The word comes before the leader's answer, which comes over another connection. */
MR_TEST(server_collective_that_was_broken_before_it_was_known_is_not_begun)
{
    cluster_fixture b;
    cluster_fixture_begin(&b, 0, 2);
    asking first = {.b = &b, .group = 9}, second = {.b = &b, .task = 1, .group = 9};
    MR_CHECK_INT(mr_thread_start(&first.thread, "ask", ask_group, &first), 0);
    ask_group(&second);
    mr_thread_join(&first.thread);
    MR_CHECK(first.communicator && first.communicator == second.communicator);
    say_broken(&b, 1, first.communicator, false);
    running r = {.b = &b, .out = reduce(&b, 1, 9, 2)};
    run(&r);
    check_told(r.st, WHY);
    cluster_fixture_end(&b);
}

/* ---- halving ---- */

#define TO_0 "0;0;0;all-reduce float add [8] by halving"

/* Four of five members in the middle of halving: 4 has given what it has to 0, which is not there, 2 its half, and 1 its quarter,
 * after it got its half from 3.  So all have begun.  `last` is how many bytes are asked of 1, which has 8 for 0. */
static void begin_halving(cluster_fixture *b, running *r, int last)
{
    mr_out outs[5];
    setenv("MILLRACE_COLLECTIVE_ALGORITHM", "halving", 1);
    cluster_fixture_begin(b, 0, 5);
    for (int i = 0; i < 5; i++)
        outs[i] = reduce_floats(b, i, 7, 5, 8);
    run_together(b, outs, 5);
    asking known = {.b = b, .group = 7, .size = 5};
    ask_group(&known);
    for (int i = 0; i < 4; i++) {
        r[i] = (running){.b = b, .out = outs[i + 1]};
        MR_CHECK_INT(mr_thread_start(&r[i].thread, "run", run, &r[i]), 0);
    }
    MR_CHECK_OK(fetch_piece(b, 4, known.communicator, 1, TO_0, 32));
    MR_CHECK_OK(fetch_piece(b, 2, known.communicator, 1, TO_0, 16));
    mr_status *st = fetch_piece(b, 1, known.communicator, 1, TO_0, last);
    MR_CHECK_INT(mr_status_code(st), last == 8 ? MR_OK : MR_INVALID_ARGUMENT);
    mr_status_free(st);
}

static bool names(const mr_status *st, const char *text) { return st && strstr(mr_status_message(st), text); }

/* Member 0 comes at last, with something else. */
MR_TEST(server_collective_by_halving_ends_for_all_when_one_fails_in_the_middle)
{
    cluster_fixture b;
    running r[4];
    begin_halving(&b, r, 8);
    cluster_fixture other = {.net = b.net, .cluster = b.cluster, .n = b.n, .g = mr_graph_new()};
    mr_scope_init(&other.s, other.g, "");
    running late = {.b = &other, .out = reduce_floats(&other, 0, 7, 5, 9)};
    run(&late);
    MR_CHECK(names(late.st, "disagree about instance"));
    mr_status_free(late.st);
    for (int i = 0; i < 4; i++) {
        mr_thread_join(&r[i].thread);
        MR_CHECK(names(r[i].st, "disagree about instance"));
        mr_status_free(r[i].st);
    }
    cluster_fixture_end_session(&other);
    mr_scope_deinit(&other.s);
    mr_graph_unref(other.g);
    cluster_fixture_end(&b);
}

/* Somebody asks for more than there is. */
MR_TEST(server_collective_by_halving_ends_for_all_when_sizes_differ)
{
    cluster_fixture b;
    running r[4];
    begin_halving(&b, r, 12);
    for (int i = 0; i < 4; i++) {
        mr_thread_join(&r[i].thread);
        MR_CHECK(names(r[i].st, "8 bytes exist, but 12 are fetched"));
        mr_status_free(r[i].st);
    }
    cluster_fixture_end(&b);
}
