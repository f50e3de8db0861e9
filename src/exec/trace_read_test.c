/* exec/trace_read_test.c -- RunMetadata as a timeline, and the blame of it. */
#include "base/memory.h"
#include "exec/trace_files.h"
#include "exec/trace.h"
#include "tests/harness/test.h"

#define PS "/job:ps/replica:0/task:0/device:CPU:0"
#define W0 "/job:worker/replica:0/task:0/device:CPU:0"
#define W1 "/job:worker/replica:0/task:1/device:CPU:0"

/* ---- messages by hand ---- */

typedef struct message {
    mr_str bytes;
    mr_pb_writer w;
    size_t stats, device;
} message;

static void begin(message *m)
{
    *m = (message){0};
    mr_pb_writer_init(&m->w, &m->bytes);
    m->stats = mr_pb_begin(&m->w, 1);
}

static void on(message *m, const char *device)
{
    if (m->device)
        mr_pb_end(&m->w, m->device);
    m->device = mr_pb_begin(&m->w, 1);
    mr_pb_put_bytes(&m->w, 1, mr_sv_of(device));
}

/* In microseconds. */
static void node(message *m, const char *label, int64_t start, int64_t end)
{
    mr_sv rest = mr_sv_of(label), name;
    mr_sv_cut(&rest, ' ', &name);
    size_t at = mr_pb_begin(&m->w, 2);
    mr_pb_put_bytes(&m->w, 1, name);
    mr_pb_put_bytes(&m->w, 8, mr_sv_of(label));
    mr_pb_put_varint(&m->w, 13, (uint64_t)start * 1000);
    mr_pb_opt_varint(&m->w, 16, (uint64_t)(end - start) * 1000);
    mr_pb_end(&m->w, at);
}

/* Whose value was there before it ended. */
static void send_node(message *m, const char *label, int64_t start, int64_t made, int64_t end)
{
    mr_sv rest = mr_sv_of(label), name;
    mr_sv_cut(&rest, ' ', &name);
    size_t at = mr_pb_begin(&m->w, 2);
    mr_pb_put_bytes(&m->w, 1, name);
    mr_pb_put_bytes(&m->w, 8, mr_sv_of(label));
    mr_pb_put_varint(&m->w, 13, (uint64_t)start * 1000);
    mr_pb_opt_varint(&m->w, 15, (uint64_t)(made - start) * 1000);
    mr_pb_opt_varint(&m->w, 16, (uint64_t)(end - start) * 1000);
    mr_pb_end(&m->w, at);
}

static void end(message *m, const mr_trace_info *info)
{
    if (m->device)
        mr_pb_end(&m->w, m->device);
    mr_pb_end(&m->w, m->stats);
    if (info)
        mr_trace_info_encode(info, &m->w);
    MR_CHECK_OK(mr_pb_writer_status(&m->w, "metadata"));
}

static void read_one(message *m, mr_timeline *t)
{
    mr_sv v = mr_str_view(&m->bytes);
    mr_timeline_init(t);
    MR_CHECK_OK(mr_trace_read(&v, NULL, 1, t));
    mr_str_deinit(&m->bytes);
}

static const mr_span *find(const mr_timeline *t, const char *name, mr_span_kind kind)
{
    for (int i = 0; i < t->spans.n; i++)
        if (strcmp(t->spans.p[i].name, name) == 0 && t->spans.p[i].kind == kind)
            return &t->spans.p[i];
    mr_test_fail(__FILE__, __LINE__, "there is no span %s", name);
}

/* worker:0 reads w of ps:0, which had to compute it, and squares it. */
static void two_tasks(message *m)
{
    begin(m);
    on(m, PS);
    node(m, "w = Slow()", 100, 500);
    node(m, "w/_1 = _Send(edge_7_w @" W0 ", w)", 510, 520);
    on(m, W0);
    node(m, "w/_2 = _Recv(edge_7_w @" PS ")", 110, 600);
    node(m, "y = Square(w/_2)", 600, 900);
    end(m, &(mr_trace_info){.home = MR_SV("/job:worker/replica:0/task:0"),
                            .number = 7,
                            .start_ns = 100000,
                            .end_ns = 900000});
}

/* ---- reading ---- */

MR_TEST(trace_read_splits_a_recv_into_wait_and_transfer)
{
    message m;
    mr_timeline t;
    two_tasks(&m);
    read_one(&m, &t);
    const mr_span *wait = find(&t, "w", MR_SPAN_WAIT), *go = find(&t, "w", MR_SPAN_SEND);
    if (go->outgoing) /* the Send itself is of that kind too: it comes first */
        for (go = go + 1; go->kind != MR_SPAN_SEND; go++)
            ;
    MR_CHECK_INT(wait->start_ns, 110000);
    MR_CHECK_INT(wait->end_ns, 520000);
    MR_CHECK_INT(go->start_ns, 520000);
    MR_CHECK_INT(go->end_ns, 600000);
    MR_CHECK_STR(t.tasks.p[go->peer - 1], "ps:0");
    MR_CHECK_STR(t.lanes.p[go->lane].name, "from ps:0");
    mr_timeline_deinit(&t);
}

MR_TEST(trace_read_draws_an_arrow_from_each_send_to_its_recv)
{
    message m;
    mr_timeline t;
    int drawn = 0;
    two_tasks(&m);
    read_one(&m, &t);
    for (int i = 0; i < t.arrows.n; i++) {
        const mr_span *from = &t.spans.p[t.arrows.p[i].from], *to = &t.spans.p[t.arrows.p[i].to];
        if (!t.arrows.p[i].drawn)
            continue;
        drawn++;
        MR_CHECK(from->outgoing && !to->outgoing && to->end_ns >= from->start_ns);
        MR_CHECK_STR(from->name, "w");
    }
    MR_CHECK_INT(drawn, 1);
    mr_timeline_deinit(&t);
}

/* The value was sent at 513, and whoever waited for it ran inside of the Send, which ended only at 8000. */
static void long_send(message *m)
{
    begin(m);
    on(m, PS);
    node(m, "w = Slow()", 100, 500);
    send_node(m, "w/_1 = _Send(edge_7_w @" W0 ", w)", 510, 513, 8000);
    on(m, W0);
    node(m, "w/_2 = _Recv(edge_7_w @" PS ")", 110, 520);
    node(m, "y = Square(w/_2)", 520, 7900);
    end(m, &(mr_trace_info){.home = MR_SV("/job:worker/replica:0/task:0"), .number = 7, .start_ns = 100000, .end_ns = 7900000});
}

MR_TEST(trace_read_lets_an_arrow_leave_when_the_value_was_there)
{
    message m;
    mr_timeline t;
    long_send(&m);
    read_one(&m, &t);
    int drawn = 0;
    for (int i = 0; i < t.arrows.n; i++)
        if (t.arrows.p[i].drawn) {
            MR_CHECK_INT(t.arrows.p[i].at_ns, 513000);
            MR_CHECK_INT(t.spans.p[t.arrows.p[i].to].start_ns, 513000);
            MR_CHECK_INT(t.spans.p[t.arrows.p[i].to].end_ns, 520000);
            drawn++;
        }
    MR_CHECK_INT(drawn, 1);
    mr_timeline_deinit(&t);
}

/* Both clocks cannot be right, and no move helps: each sends before it receives what the other sent. */
MR_TEST(trace_read_draws_no_arrow_back_in_time)
{
    message m;
    mr_timeline t;
    begin(&m);
    on(&m, PS);
    node(&m, "r = _Recv(x @" W0 ")", 100, 150);
    node(&m, "s = _Send(e @" W0 ", r)", 160, 170);
    on(&m, W0);
    node(&m, "y = _Recv(e @" PS ")", 100, 150);
    node(&m, "x/_1 = _Send(x @" PS ", y)", 160, 170);
    end(&m, NULL);
    read_one(&m, &t);
    for (int i = 0; i < t.arrows.n; i++) {
        const mr_arrow *a = &t.arrows.p[i];
        MR_CHECK(!a->drawn || (a->at_ns <= t.spans.p[a->to].end_ns && a->at_ns >= t.spans.p[a->from].start_ns));
    }
    mr_timeline_deinit(&t);
}

MR_TEST(trace_read_matches_uses_of_a_key_in_order)
{
    message m;
    mr_timeline t;
    begin(&m);
    on(&m, PS);
    node(&m, "s = _Send(e @" W0 ")", 10, 20);
    node(&m, "s = _Send(e @" W0 ")", 110, 120);
    on(&m, W0);
    node(&m, "r = _Recv(e @" PS ")", 100, 150);
    node(&m, "r = _Recv(e @" PS ")", 0, 50);
    end(&m, NULL);
    read_one(&m, &t);
    MR_CHECK_INT(t.arrows.n, 2);
    for (int i = 0; i < 2; i++) {
        const mr_span *from = &t.spans.p[t.arrows.p[i].from], *to = &t.spans.p[t.arrows.p[i].to];
        MR_CHECK_INT(to->end_ns - from->end_ns, 30000);
    }
    mr_timeline_deinit(&t);
}

MR_TEST(trace_read_takes_a_recv_from_its_own_device_as_a_feed)
{
    message m;
    mr_timeline t;
    begin(&m);
    on(&m, W0);
    node(&m, "x/_1 = _Recv(edge_1_x @" W0 ")", 10, 12);
    end(&m, NULL);
    read_one(&m, &t);
    MR_CHECK_INT(t.spans.n, 1);
    MR_CHECK_INT(t.spans.p[0].kind, MR_SPAN_INPUT);
    mr_timeline_deinit(&t);
}

MR_TEST(trace_read_knows_kinds_by_their_ops)
{
    static const struct {
        const char *op, *inputs;
        mr_span_kind kind;
        bool blocks;
    } rows[] = {{"MatMul", "a, b", MR_SPAN_COMPUTE, false},
                {"QueueDequeueManyV2", "sync_token_q_1, n", MR_SPAN_WAIT, true},
                {"QueueDequeueV2", "examples", MR_SPAN_INPUT, true},
                {"AccumulatorTakeGradient", "acc, n", MR_SPAN_WAIT, true},
                {"IteratorGetNext", "it", MR_SPAN_INPUT, true},
                {"SaveV2", "", MR_SPAN_SAVE, false},
                {"_Arg", "", MR_SPAN_INPUT, false},
                {"_Send", "", MR_SPAN_SEND, false},
                {"", "", MR_SPAN_COMPUTE, false}};
    for (int i = 0; i < MR_COUNT(rows); i++) {
        bool blocks;
        MR_CHECK_INT(mr_trace_kind(mr_sv_of(rows[i].op), mr_sv_of(rows[i].inputs), &blocks),
                     rows[i].kind);
        MR_CHECK_INT(blocks, rows[i].blocks);
    }
}

MR_TEST(trace_read_names_tasks_shortly)
{
    static const char *const rows[][3] = {
        {PS, "ps:0", "CPU:0"},
        {"/job:localhost/replica:0/task:0/device:GPU:1", "localhost", "GPU:1"},
        {"/device:CPU:0", "localhost", "CPU:0"},
        {"/job:w/replica:0/task:12/device:GPU:0/stream:3", "w:12", "GPU:0/stream:3"},
        {"", "localhost", ""}};
    mr_str task = {0};
    for (int i = 0; i < MR_COUNT(rows); i++) {
        mr_sv rest;
        mr_trace_split_device(mr_sv_of(rows[i][0]), &task, &rest);
        MR_CHECK_STR(mr_str_z(&task), rows[i][1]);
        MR_CHECK(mr_sv_is(rest, rows[i][2]));
    }
    mr_str_deinit(&task);
}

/* worker:1's clock is 5 s ahead; both know that of ps:0, which is 2 s ahead of worker:0's. */
MR_TEST(trace_read_sets_two_masters_to_one_clock_by_a_task_they_share)
{
    message m[2];
    mr_timeline t;
    mr_trace_clock of_w0 = {MR_SV("/job:ps/replica:0/task:0"), 2000000000, 1000};
    mr_trace_clock of_w1 = {MR_SV("/job:ps/replica:0/task:0"), -3000000000, 1000};
    begin(&m[0]);
    on(&m[0], W0);
    node(&m[0], "a = Square()", 1000, 2000);
    end(&m[0], &(mr_trace_info){.home = MR_SV("/job:worker/replica:0/task:0"),
                                .number = 5,
                                .n_clocks = 1,
                                .clocks = &of_w0});
    begin(&m[1]);
    on(&m[1], W1);
    node(&m[1], "b = Square()", 5001500, 5002500);
    end(&m[1], &(mr_trace_info){.home = MR_SV("/job:worker/replica:0/task:1"),
                                .number = 5,
                                .n_clocks = 1,
                                .clocks = &of_w1});
    mr_sv views[] = {mr_str_view(&m[0].bytes), mr_str_view(&m[1].bytes)};
    mr_timeline_init(&t);
    MR_CHECK_OK(mr_trace_read(views, NULL, 2, &t));
    MR_CHECK_INT(find(&t, "b", MR_SPAN_COMPUTE)->start_ns -
                     find(&t, "a", MR_SPAN_COMPUTE)->start_ns,
                 500000);
    mr_timeline_deinit(&t);
    mr_str_deinit(&m[0].bytes);
    mr_str_deinit(&m[1].bytes);
}

/* ps:0's clock is 3 s ahead and nobody measured it: what it sends comes before it is sent. */
MR_TEST(trace_read_lets_nothing_be_received_before_it_is_sent)
{
    message m;
    mr_timeline t;
    begin(&m);
    on(&m, PS);
    node(&m, "r = _Recv(x @" W0 ")", 3000100, 3000150);
    node(&m, "s = _Send(e @" W0 ", r)", 3000160, 3000170);
    on(&m, W0);
    node(&m, "x/_1 = _Send(x @" PS ")", 90, 100);
    node(&m, "y = _Recv(e @" PS ")", 95, 250);
    node(&m, "z = Neg(y)", 250, 260);
    end(&m, NULL);
    read_one(&m, &t);
    for (int i = 0; i < t.arrows.n; i++)
        MR_CHECK(t.spans.p[t.arrows.p[i].to].end_ns >= t.spans.p[t.arrows.p[i].from].start_ns);
    MR_CHECK(find(&t, "z", MR_SPAN_COMPUTE)->start_ns >= 3000160000);
    mr_timeline_deinit(&t);
}

MR_TEST(trace_read_puts_steps_that_lie_far_apart_behind_each_other)
{
    message m[2];
    mr_timeline t;
    for (int i = 0; i < 2; i++) {
        begin(&m[i]);
        on(&m[i], W0);
        node(&m[i], "a = Square()", 1000 + i * 60000000, 2000 + i * 60000000);
        end(&m[i], NULL);
    }
    mr_sv views[] = {mr_str_view(&m[0].bytes), mr_str_view(&m[1].bytes)};
    mr_timeline_init(&t);
    MR_CHECK_OK(mr_trace_read(views, NULL, 2, &t));
    MR_CHECK_INT(t.spans.p[1].start_ns - t.spans.p[0].end_ns, 100000); /* a tenth of a step */
    MR_CHECK_INT(t.steps.p[1].start_ns, t.spans.p[1].start_ns);
    mr_timeline_deinit(&t);
    mr_str_deinit(&m[0].bytes);
    mr_str_deinit(&m[1].bytes);
}

MR_TEST(trace_read_keeps_lanes_free_of_overlaps)
{
    message m;
    mr_timeline t;
    begin(&m);
    on(&m, W0);
    for (int i = 0; i < 10; i++)
        node(&m, "a = Square()", 10 * i, 10 * i + 25);
    end(&m, NULL);
    read_one(&m, &t);
    MR_CHECK_INT(t.lanes.n, 3);
    for (int i = 0; i < t.spans.n; i++)
        for (int k = 0; k < i; k++)
            MR_CHECK(t.spans.p[i].lane != t.spans.p[k].lane ||
                     t.spans.p[i].start_ns >= t.spans.p[k].end_ns);
    mr_timeline_deinit(&t);
}

MR_TEST(trace_read_names_the_message_that_is_malformed)
{
    mr_timeline t;
    mr_sv views[] = {MR_SV(""), MR_SV("\x0a\x7f")};
    mr_timeline_init(&t);
    MR_CHECK_ERR(mr_trace_read(views, (const char *[]){"one.pb", "two.pb"}, 2, &t),
                 MR_INVALID_ARGUMENT, "two.pb");
    mr_timeline_deinit(&t);
}

MR_TEST(trace_read_bears_times_of_any_size)
{
    message m;
    mr_timeline t;
    mr_str out = {0};
    mr_blame *b;
    int n;
    begin(&m);
    on(&m, W0);
    const uint64_t times[] = {INT64_MAX, (uint64_t)INT64_MIN, UINT64_MAX, 0, 1};
    for (int i = 0; i < 25; i++) {
        size_t at = mr_pb_begin(&m.w, 2);
        mr_pb_put_varint(&m.w, i % 2 ? 13 : 2, times[i % 5]);
        mr_pb_put_varint(&m.w, i % 2 ? 16 : 5, times[i / 5]);
        mr_pb_end(&m.w, at);
    }
    mr_trace_clock far = {MR_SV("/job:ps"), INT64_MIN, INT64_MAX};
    end(&m, &(mr_trace_info){.home = MR_SV("/job:w"),
                             .start_ns = INT64_MIN,
                             .end_ns = INT64_MAX,
                             .n_clocks = 1,
                             .clocks = &far});
    read_one(&m, &t);
    mr_timeline_text(&t, NULL, &out);
    mr_blame_steps(&t, &b, &n);
    mr_blame_text(&t, b, &out);
    mr_blame_deinit(b);
    mr_free(b);
    mr_str_deinit(&out);
    mr_timeline_deinit(&t);
}

/* ---- shifting ---- */

MR_TEST(trace_shift_moves_all_moments_and_nothing_else)
{
    message m;
    mr_str moved = {0};
    int64_t first, last;
    two_tasks(&m);
    mr_pb_reader r;
    uint32_t field, wire;
    mr_pb_reader_init(&r, mr_str_view(&m.bytes));
    mr_pb_next(&r, &field, &wire);
    mr_sv stats = mr_pb_bytes(&r);
    MR_CHECK_OK(mr_trace_shift(stats, 2000000000, &moved));
    MR_CHECK(mr_trace_span(mr_str_view(&moved), &first, &last));
    MR_CHECK_INT(first, 2000100000);
    MR_CHECK_INT(last, 2000900000);
    mr_str back = {0};
    MR_CHECK_OK(mr_trace_shift(mr_str_view(&moved), -2000000000, &back));
    MR_CHECK(mr_sv_eq(mr_str_view(&back), stats));
    MR_CHECK_ERR(mr_trace_shift(MR_SV("\x0a\x05x"), 1, &back), MR_INVALID_ARGUMENT, "StepStats");
    mr_str_deinit(&back);
    mr_str_deinit(&moved);
    mr_str_deinit(&m.bytes);
}

/* ---- blame ---- */

static void blame_of(const mr_timeline *t, mr_str *out) { mr_trace_tell(t, 100, out); }

MR_TEST(blame_divides_the_critical_path)
{
    message m;
    mr_timeline t;
    mr_str out = {0};
    two_tasks(&m);
    read_one(&m, &t);
    blame_of(&t, &out);
    MR_CHECK_STR(mr_str_z(&out),
                 "step 7 of worker:0: 800 us = compute 88 % (ps:0 50 %, worker:0 38 %), send 11 % "
                 "(ps:0 -> worker:0), "
                 "wait 1 % (ps:0 between nodes)\n"
                 "    slowest task: ps:0, 400 us of the critical path; longest node: w (Slow, 400 us)\n"
                 "    costliest edge: w, ps:0 -> worker:0, 80.0 us\n");
    mr_str_deinit(&out);
    mr_timeline_deinit(&t);
}

MR_TEST(blame_counts_a_transfer_from_when_the_value_was_there)
{
    message m;
    mr_timeline t;
    mr_str out = {0};
    long_send(&m);
    read_one(&m, &t);
    blame_of(&t, &out);
    MR_CHECK_STR(mr_str_z(&out),
                 "step 7 of worker:0: 7.90 ms = compute 98 % (worker:0 93 %, ps:0 5 %), wait 1 % (starting and answering)\n"
                 "    slowest task: worker:0, 7.38 ms of the critical path; longest node: y (Square, 7.38 ms)\n");
    mr_str_deinit(&out);
    mr_timeline_deinit(&t);
}

MR_TEST(blame_parts_are_the_whole_step)
{
    message m;
    mr_timeline t;
    mr_blame *b;
    int n;
    int64_t sum = 0;
    two_tasks(&m);
    read_one(&m, &t);
    mr_blame_steps(&t, &b, &n);
    MR_CHECK_INT(n, 1);
    for (int i = 0; i < b->parts.n; i++)
        sum += b->parts.p[i].ns;
    MR_CHECK_INT(sum, b->total_ns);
    mr_blame_deinit(b);
    mr_free(b);
    mr_timeline_deinit(&t);
}

/* Two workers meet in a queue of tokens; worker:1 comes late. */
MR_TEST(blame_of_a_barrier_names_who_came_last)
{
    message m[2];
    mr_timeline t;
    mr_str out = {0};
    const char *homes[] = {"/job:worker/replica:0/task:0", "/job:worker/replica:0/task:1"};
    for (int i = 0; i < 2; i++) {
        begin(&m[i]);
        on(&m[i], i ? W1 : W0);
        int64_t late = i ? 600 : 0;
        node(&m[i], "grad = MatMul()", 1000, 1280 + late);
        node(&m[i], "s = _Send(g @" PS ", grad)", 1280 + late, 1290 + late);
        on(&m[i], PS);
        node(&m[i], i ? "r = _Recv(g @" W1 ")" : "r = _Recv(g @" W0 ")", 1000, 1300 + late);
        node(&m[i], "token = QueueDequeueManyV2(sync_token_q_0, ^r)", 1300 + late, 2000);
        end(&m[i], &(mr_trace_info){.home = mr_sv_of(homes[i]),
                                    .number = 3,
                                    .start_ns = 1000000,
                                    .end_ns = 2000000,
                                    .outside_ns = i * 500000});
    }
    mr_sv views[] = {mr_str_view(&m[0].bytes), mr_str_view(&m[1].bytes)};
    mr_timeline_init(&t);
    MR_CHECK_OK(mr_trace_read(views, NULL, 2, &t));
    blame_of(&t, &out);
    MR_CHECK_STR(
        mr_str_z(&out),
        "step 3 of worker:0: 1.00 ms = wait 70 % (worker:0 for worker:1), compute 28 % (worker:0), "
        "send 2 % (worker:0 -> ps:0)\n"
        "    slowest task: worker:1, waited for 700 us\n"
        "    costliest edge: g, worker:0 -> ps:0, 10.0 us\n"
        "step 3 of worker:1: 1.00 ms = compute 88 % (worker:1), wait 10 % (ps:0 in token), "
        "send 2 % (worker:1 -> ps:0)\n"
        "    slowest task: worker:1, 880 us of the critical path; longest node: grad (MatMul, 880 us)\n"
        "    costliest edge: g, worker:1 -> ps:0, 10.0 us\n"
        "    before it: 500 us outside of steps (such as reading input)\n"
        "2 steps, on average 1.00 ms = compute 58 %, send 2 %, wait 40 %\n"
        "    slowest task: worker:1, in 2 of 2 steps\n"
        "    between steps: 250 us (such as reading input)\n");
    mr_str_deinit(&out);
    mr_timeline_deinit(&t);
    mr_str_deinit(&m[0].bytes);
    mr_str_deinit(&m[1].bytes);
}

/* All have come, and the chief lets ps:0 make the update. */
MR_TEST(blame_of_a_barrier_names_who_makes_the_update_too)
{
    message m[3];
    mr_timeline t;
    mr_str out = {0};
    mr_sv homes[] = {MR_SV("/job:worker/replica:0/task:0"), MR_SV("/job:worker/replica:0/task:1")},
          views[3];
    for (int i = 0; i < 3; i++) {
        begin(&m[i]);
        on(&m[i], i == 1 ? W1 : i ? PS : W0);
        node(&m[i], i < 2 ? "grad = MatMul()" : "adam = ResourceApplyAdam()", i < 2 ? 1000 : 1600,
             i == 1 ? 1500
             : i    ? 1990
                    : 1100);
        if (i < 2)
            node(&m[i], "token = QueueDequeueManyV2(sync_token_q_0, ^grad)", i ? 1500 : 1100, 2000);
        end(&m[i], &(mr_trace_info){.home = homes[i % 2],
                                    .number = 3,
                                    .start_ns = 1000000,
                                    .end_ns = 2000000,
                                    .what = i < 2 ? MR_SV("") : MR_SV("update")});
        views[i] = mr_str_view(&m[i].bytes);
    }
    mr_timeline_init(&t);
    MR_CHECK_OK(mr_trace_read(views, NULL, 3, &t));
    blame_of(&t, &out);
    MR_CHECK(strstr(
        mr_str_z(&out),
        "step 3 of worker:0: 1.00 ms = wait 90 % (worker:0 for ps:0 50 %, worker:0 for worker:1 "
        "40 %), compute 10 % (worker:0)\n"));
    MR_CHECK(strstr(mr_str_z(&out), "update 3 of worker:0: 1.00 ms = "));
    MR_CHECK(strstr(mr_str_z(&out), "2 steps, on average 1.00 ms"));
    mr_str_deinit(&out);
    mr_timeline_deinit(&t);
    for (int i = 0; i < 3; i++)
        mr_str_deinit(&m[i].bytes);
}

MR_TEST(blame_of_arrows_in_a_circle_ends)
{
    mr_timeline t;
    mr_blame *b;
    int n;
    mr_timeline_init(&t);
    int lane = mr_timeline_lane(&t, mr_timeline_task(&t, MR_SV("a")), MR_SV("b"));
    int x = mr_timeline_span(&t, (mr_span){.name = "x", .lane = lane, .start_ns = 5, .end_ns = 5});
    int y = mr_timeline_span(&t, (mr_span){.name = "y", .lane = lane, .start_ns = 5, .end_ns = 5});
    mr_timeline_span(&t, (mr_span){.name = "z", .lane = lane, .start_ns = 0, .end_ns = 3});
    mr_timeline_arrow(&t, x, y, false);
    mr_timeline_arrow(&t, y, x, false);
    mr_timeline_arrow(&t, x, x, false);
    mr_blame_steps(&t, &b, &n);
    MR_CHECK_INT(n, 1);
    MR_CHECK_INT(b->total_ns, 5);
    mr_blame_deinit(b);
    mr_free(b);
    mr_timeline_deinit(&t);
}

MR_TEST(blame_of_nothing_is_nothing)
{
    mr_timeline t;
    mr_str out = {0};
    mr_timeline_init(&t);
    blame_of(&t, &out);
    MR_CHECK_STR(mr_str_z(&out), "0 ns\n");
    mr_str_deinit(&out);
    mr_timeline_deinit(&t);
}
