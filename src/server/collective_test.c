/* server/collective_test.c -- members of groups on several tasks: what they get, and what they are told when one fails. */
#include <stdlib.h>
#include <unistd.h>

#include "base/memory.h"
#include "server/cluster_fixture.h"
#include "wire/pb.h"

enum { MAX_MEMBERS = 5 };

/* A worker's client: a graph with one collective, and a session with its own task's master. */
typedef struct member {
    cluster_fixture *b;
    int worker;
    mr_graph *g;
    mr_scope s;
    mr_out x, out;
    mr_session *session;
    mr_tensor *in, *got;
    mr_status *st;
    int64_t timeout_ms, graph_key;
    mr_thread thread;
} member;

static mr_named_attr reduce_attrs[] = {{"merge_op", {.kind = MR_ATTR_STRING, .s = {"Add", 3}}},
                                       {"final_op", {.kind = MR_ATTR_STRING, .s = {"Id", 2}}},
                                       {"Nordering_token", {.kind = MR_ATTR_INT, .i = 0}}};

static const char *device_of(int worker)
{
    static const char *const names[MAX_MEMBERS] = {"/job:worker/task:0/device:CPU:0", "/job:worker/task:1/device:CPU:0",
                                                   "/job:worker/task:2/device:CPU:0", "/job:worker/task:3/device:CPU:0",
                                                   "/job:worker/task:4/device:CPU:0"};
    return names[worker];
}

/* A collective with its group as inputs; attrs: those of the op. */
static mr_out collective(mr_scope *s, const char *op, mr_out in, int size, int group, int instance, const mr_named_attr *attrs,
                         int n)
{
    mr_out ins[] = {in, mr_const_i32(s, size), mr_const_i32(s, group), mr_const_i32(s, instance)};
    return mr_emit_n(s, op, attrs, n, ins, 4);
}

static void member_begin(member *m, cluster_fixture *b, int worker)
{
    *m = (member){.b = b, .worker = worker, .g = mr_graph_new()};
    mr_scope_init(&m->s, m->g, "");
    m->s.device = device_of(worker);
    m->x = mr_placeholder(&m->s, MR_FLOAT, "x", NULL);
}

static void member_open(member *m)
{
    MR_CHECK_OK(mr_scope_status(&m->s));
    MR_CHECK_OK(mr_remote_session_new(m->b->net, m->b->cluster.tasks.p[m->worker].address, m->g, NULL, MR_SV(""), NULL, &m->session));
}

static void member_end(member *m)
{
    mr_session_free(m->session);
    mr_tensor_unref(m->in);
    mr_tensor_unref(m->got);
    mr_status_free(m->st);
    mr_scope_deinit(&m->s);
    mr_graph_unref(m->g);
}

static void run_member(void *arg)
{
    member *m = arg;
    mr_run_args a = {.feeds = &m->x, .feed_values = &m->in, .n_feeds = 1, .fetches = &m->out, .fetched = &m->got, .n_fetches = 1};
    mr_tensor_unref(m->got);
    m->got = NULL;
    mr_status_free(m->st);
    m->st = mr_session_run(m->session, &a, &(mr_run_options){.timeout_ms = m->timeout_ms, .graph_key = m->graph_key}, NULL);
}

static void start_run(member *m) { MR_CHECK_INT(mr_thread_start(&m->thread, "member", run_member, m), 0); }

static void run_all(member *m, int n)
{
    for (int i = 0; i < n; i++)
        start_run(&m[i]);
    for (int i = 0; i < n; i++)
        mr_thread_join(&m[i].thread);
}

/* n floats that tell worker and place apart, small enough to add exactly. */
static mr_tensor *numbers(int worker, int64_t rows, int64_t columns)
{
    mr_tensor *t;
    MR_CHECK_OK(mr_tensor_new(NULL, MR_FLOAT, 2, (int64_t[]){rows, columns}, &t));
    for (int64_t i = 0; i < t->n; i++)
        MR_DATA(float, t)[i] = (float)((worker + 1) * 1000 + i % 997);
    return t;
}

static void give(member *m, mr_tensor *in)
{
    mr_tensor_unref(m->in);
    m->in = in;
}

static void begin_reduce(cluster_fixture *b, member *m, int n)
{
    for (int i = 0; i < n; i++) {
        member_begin(&m[i], b, i);
        m[i].out = collective(&m[i].s, "CollectiveReduceV2", m[i].x, n, 7, 3, reduce_attrs, 3);
        member_open(&m[i]);
    }
}

static void end_all(cluster_fixture *b, member *m, int n)
{
    for (int i = 0; i < n; i++)
        member_end(&m[i]);
    cluster_fixture_end(b);
}

static void check_sums(member *m, int n, int64_t rows, int64_t columns)
{
    for (int i = 0; i < n; i++)
        give(&m[i], numbers(i, rows, columns));
    run_all(m, n);
    for (int i = 0; i < n; i++) {
        MR_CHECK_OK(m[i].st);
        m[i].st = NULL;
        MR_CHECK_INT(m[i].got->n, rows * columns);
        for (int64_t k = 0; k < rows * columns; k++) {
            float want = 0;
            for (int w = 0; w < n; w++)
                want += (float)((w + 1) * 1000 + k % 997);
            MR_CHECK(MR_DATA(float, m[i].got)[k] == want);
        }
    }
}

static void check_reduce_on(mr_net *net, int n)
{
    cluster_fixture b;
    member m[MAX_MEMBERS];
    cluster_fixture_begin_on(&b, net, 0, n);
    begin_reduce(&b, m, n);
    for (int round = 0; round < 3; round++)
        check_sums(m, n, 1, 2);
    check_sums(m, n, 3, 20001);
    check_sums(m, n, 1, 0);
    check_sums(m, n, 7, 1000);
    end_all(&b, m, n);
}

static void check_reduce(int n) { check_reduce_on(mr_net_loop(), n); }

MR_TEST(server_collective_sum_goes_through_shared_memory) { check_reduce_on(mr_net_local(), 3); }

MR_TEST(server_collective_clients_of_their_own_get_the_sum_of_all)
{
    check_reduce(2);
    check_reduce(3);
}

MR_TEST(server_collective_sum_comes_in_chunks)
{
    setenv("MILLRACE_COLLECTIVE_CHUNK", "4096", 1);
    check_reduce(3);
}

MR_TEST(server_collective_sum_goes_around_a_ring)
{
    setenv("MILLRACE_COLLECTIVE_CHUNK", "10000", 1);
    setenv("MILLRACE_COLLECTIVE_ALGORITHM", "ring", 1);
    check_reduce(2);
    check_reduce(5);
}

/* All members get the same bits, also where the order of adding matters. */
MR_TEST(server_collective_bits_are_the_same_for_all_and_repeat)
{
    cluster_fixture b;
    member m[3];
    cluster_fixture_begin(&b, 0, 3);
    begin_reduce(&b, m, 3);
    mr_tensor *first = NULL;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 3; i++) {
            give(&m[i], numbers(i, 1, 50000));
            for (int64_t k = 0; k < m[i].in->n; k++)
                MR_DATA(float, m[i].in)[k] = 1.0f / (float)(k + 1 + 7 * i);
        }
        run_all(m, 3);
        for (int i = 0; i < 3; i++) {
            MR_CHECK_OK(m[i].st);
            if (!first)
                first = mr_tensor_ref(m[0].got);
            MR_CHECK(memcmp(first->data, m[i].got->data, mr_tensor_bytes(first)) == 0);
        }
    }
    mr_tensor_unref(first);
    end_all(&b, m, 3);
}

/* ---- one client for all, and the other kinds ---- */

static mr_out input(cluster_fixture *b, int worker, int64_t rows, int64_t columns)
{
    b->s.device = device_of(worker);
    return mr_const(&b->s, numbers(worker, rows, columns));
}

static void run_outs(cluster_fixture *b, const mr_out *outs, int n, mr_tensor **got)
{
    MR_CHECK_OK(mr_session_run(cluster_fixture_session_of(b), &(mr_run_args){.fetches = outs, .fetched = got, .n_fetches = n}, NULL, NULL));
}

static void unref_all(mr_tensor **t, int n)
{
    for (int i = 0; i < n; i++)
        mr_tensor_unref(t[i]);
}

MR_TEST(server_collective_of_one_step_over_tasks_gathers)
{
    cluster_fixture b;
    mr_out outs[3];
    mr_tensor *got[3];
    cluster_fixture_begin(&b, 0, 3);
    for (int i = 0; i < 3; i++)
        outs[i] = collective(&b.s, "CollectiveGatherV2", input(&b, i, 2, 5000), 3, 1, 1, reduce_attrs + 2, 1);
    run_outs(&b, outs, 3, got);
    for (int i = 0; i < 3; i++) {
        MR_CHECK_INT(got[i]->dims[0], 6);
        for (int w = 0; w < 3; w++)
            MR_CHECK(MR_DATA(float, got[i])[w * 10000 + 5] == (float)((w + 1) * 1000 + 5));
    }
    unref_all(got, 3);
    cluster_fixture_end(&b);
}

MR_TEST(server_collective_all_to_all_and_reduce_scatter_give_each_its_rows)
{
    cluster_fixture b;
    mr_out outs[6];
    mr_tensor *got[6];
    cluster_fixture_begin(&b, 0, 3);
    for (int i = 0; i < 3; i++) {
        mr_out x = input(&b, i, 3, 2);
        outs[i] = collective(&b.s, "CollectiveAllToAllV2", x, 3, 1, 1, reduce_attrs + 2, 1);
        outs[3 + i] = collective(&b.s, "CollectiveReduceScatterV2", x, 3, 1, 2, reduce_attrs, 3);
    }
    run_outs(&b, outs, 6, got);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            MR_CHECK(MR_DATA(float, got[i])[k * 2 + 1] == (float)((k + 1) * 1000 + i * 2 + 1));
            MR_CHECK(MR_DATA(float, got[3 + i])[1] == (float)(6000 + 3 * (i * 2 + 1)));
        }
    unref_all(got, 6);
    cluster_fixture_end(&b);
}

MR_TEST(server_collective_broadcast_goes_down_a_tree)
{
    cluster_fixture b;
    mr_out outs[5];
    mr_tensor *got[5];
    setenv("MILLRACE_COLLECTIVE_CHUNK", "1000", 1);
    cluster_fixture_begin(&b, 0, 5);
    mr_named_attr type[] = {{"T", mr_a_type(MR_FLOAT)}, {"Tshape", mr_a_type(MR_INT32)}};
    for (int i = 0; i < 5; i++) {
        mr_out x = input(&b, i, 3, 700);
        mr_out group[] = {mr_const_i32(&b.s, 5), mr_const_i32(&b.s, 1), mr_const_i32(&b.s, 9),
                          mr_const_vec_i32(&b.s, 2, (const int32_t[]){3, 700})};
        outs[i] = i == 2 ? collective(&b.s, "CollectiveBcastSendV2", x, 5, 1, 9, NULL, 0)
                         : mr_emit_n(&b.s, "CollectiveBcastRecvV2", type, 2, group, 4);
    }
    for (int round = 0; round < 2; round++) {
        run_outs(&b, outs, 5, got);
        for (int i = 0; i < 5; i++) {
            MR_CHECK_INT(got[i]->dims[1], 700);
            for (int64_t k = 0; k < got[i]->n; k++)
                MR_CHECK(MR_DATA(float, got[i])[k] == (float)(3000 + k % 997));
        }
        unref_all(got, 5);
    }
    cluster_fixture_end(&b);
}

/* ---- trouble ---- */

static bool says(const mr_status *st, const char *text) { return st && strstr(mr_status_message(st), text); }

MR_TEST(server_collective_ends_for_all_when_one_is_cancelled_and_works_again)
{
    cluster_fixture b;
    member m[2];
    cluster_fixture_begin(&b, 0, 2);
    begin_reduce(&b, m, 2);
    check_sums(m, 2, 1, 2);
    for (int i = 0; i < 2; i++)
        give(&m[i], numbers(i, 1, 2));
    m[0].timeout_ms = 30; /* the other does not come */
    run_member(&m[0]);
    MR_CHECK_INT(mr_status_code(m[0].st), MR_DEADLINE_EXCEEDED);
    m[0].timeout_ms = 0;
    check_sums(m, 2, 1, 3);
    end_all(&b, m, 2);
}

static void reopen(member *m)
{
    mr_session_free(m->session);
    m->session = NULL;
    member_open(m);
}

/* True when both that waited were told of the loss: a run that begins behind it waits for the task to be back. */
static bool lose_one(cluster_fixture *b, member *m)
{
    for (int i = 0; i < 2; i++) {
        give(&m[i], numbers(i, 1, 2));
        m[i].timeout_ms = 3000;
        start_run(&m[i]);
    }
    usleep(30000);
    cluster_fixture_stop_task(b, 2);
    bool told = true;
    for (int i = 0; i < 2; i++) {
        mr_thread_join(&m[i].thread);
        MR_CHECK(m[i].st);
        told &= says(m[i].st, "/job:worker/replica:0/task:2");
        m[i].timeout_ms = 0;
    }
    cluster_fixture_start_task(b, 2);
    for (int i = 0; i < 3; i++)
        reopen(&m[i]);
    return told;
}

MR_TEST(server_collective_names_the_task_that_is_gone_and_works_when_it_is_back)
{
    cluster_fixture b;
    member m[3];
    bool told = false;
    cluster_fixture_begin(&b, 0, 3);
    begin_reduce(&b, m, 3);
    for (int i = 0; i < 4 && !told; i++) {
        check_sums(m, 3, 1, 2);
        told = lose_one(&b, m);
    }
    MR_CHECK(told);
    check_sums(m, 3, 1, 5);
    end_all(&b, m, 3);
}

MR_TEST(server_collective_who_closes_its_session_is_not_waited_for)
{
    cluster_fixture b;
    member m[2];
    cluster_fixture_begin(&b, 0, 2);
    begin_reduce(&b, m, 2);
    check_sums(m, 2, 1, 2);
    give(&m[0], numbers(0, 1, 2));
    start_run(&m[0]);
    mr_session_free(m[1].session);
    m[1].session = NULL;
    /* The word may come before the run has begun, which then waits for the group: so it is ended here at last. */
    member_open(&m[1]);
    m[1].timeout_ms = 2000;
    give(&m[1], numbers(1, 1, 2));
    run_member(&m[1]);
    mr_thread_join(&m[0].thread);
    if (m[0].st) {
        MR_CHECK_INT(mr_status_code(m[0].st), MR_ABORTED);
        MR_CHECK(says(m[0].st, "/job:worker/replica:0/task:1: its session was closed"));
    }
    end_all(&b, m, 2);
}

MR_TEST(server_collective_members_of_other_shapes_are_told)
{
    cluster_fixture b;
    member m[2];
    cluster_fixture_begin(&b, 0, 2);
    begin_reduce(&b, m, 2);
    give(&m[0], numbers(0, 1, 2));
    give(&m[1], numbers(1, 1, 3));
    run_all(m, 2);
    MR_CHECK(m[0].st && m[1].st);
    MR_CHECK(says(m[0].st, "disagree about instance") || says(m[1].st, "disagree about instance"));
    check_sums(m, 2, 1, 2);
    end_all(&b, m, 2);
}

MR_TEST(server_collective_members_of_other_sizes_are_told)
{
    cluster_fixture b;
    member m[2];
    cluster_fixture_begin(&b, 0, 2);
    for (int i = 0; i < 2; i++) {
        member_begin(&m[i], &b, i);
        m[i].out = collective(&m[i].s, "CollectiveReduceV2", m[i].x, 2 + i, 7, 3, reduce_attrs, 3);
        member_open(&m[i]);
        give(&m[i], numbers(i, 1, 2));
        m[i].timeout_ms = 5000; /* for the one that came first: it is told nothing */
    }
    run_all(m, 2);
    MR_CHECK(says(m[0].st, "disagree on its size") || says(m[1].st, "disagree on its size"));
    end_all(&b, m, 2);
}

MR_TEST(server_collective_timeout_of_an_op_ends_it)
{
    cluster_fixture b;
    member m;
    mr_named_attr attrs[4] = {reduce_attrs[0], reduce_attrs[1], reduce_attrs[2],
                              {"timeout_seconds", {.kind = MR_ATTR_FLOAT, .f = 0.02f}}};
    cluster_fixture_begin(&b, 0, 2);
    member_begin(&m, &b, 1);
    m.out = collective(&m.s, "CollectiveReduceV2", m.x, 2, 7, 3, attrs, 4);
    member_open(&m);
    give(&m, numbers(1, 1, 2));
    run_member(&m);
    MR_CHECK_INT(mr_status_code(m.st), MR_DEADLINE_EXCEEDED);
    MR_CHECK(says(m.st, "Collective has timed out"));
    end_all(&b, &m, 1);
}

/* ---- communicators, and several devices in a task ---- */

MR_TEST(server_collective_communicators_of_two_tasks_work_in_parts)
{
    cluster_fixture b;
    mr_out outs[4];
    mr_tensor *got[4];
    cluster_fixture_begin(&b, 0, 4);
    for (int i = 0; i < 4; i++) {
        mr_out x = input(&b, i, 2, 3);
        mr_out c = mr_emit(&b.s, "CollectiveInitializeCommunicator", mr_const_i32(&b.s, 5), mr_const_i32(&b.s, i),
                           mr_const_i32(&b.s, 4));
        mr_tensor *parts;
        MR_CHECK_OK(mr_tensor_new(NULL, MR_INT32, 2, (int64_t[]){2, 2}, &parts));
        memcpy(parts->data, (const int32_t[]){0, 2, 3, 1}, 16);
        outs[i] = mr_emit_with(&b.s, "CollectiveReduceV3", MR_ATTRS({"reduction", mr_a_str("Add")}), x, c, mr_const(&b.s, parts));
    }
    for (int round = 0; round < 2; round++) {
        run_outs(&b, outs, 4, got);
        for (int i = 0; i < 4; i++)
            MR_CHECK(MR_DATA(float, got[i])[1] == (float)((i % 2 ? 6000 : 4000) + 2));
        unref_all(got, 4);
    }
    cluster_fixture_end(&b);
}

MR_TEST(server_collective_has_several_members_in_a_task)
{
    cluster_fixture b;
    mr_out outs[4];
    mr_tensor *got[4];
    mr_str config = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &config);
    size_t count = mr_pb_begin(&w, 1); /* device_count { CPU: 2 } */
    mr_pb_put_bytes(&w, 1, MR_SV("CPU"));
    mr_pb_put_varint(&w, 2, 2);
    mr_pb_end(&w, count);
    cluster_fixture_begin(&b, 0, 0);
    b.task_config = mr_str_view(&config);
    for (int i = 0; i < 2; i++) {
        char *address = mr_printf("worker%d:1", i);
        MR_CHECK_OK(mr_cluster_add(&b.cluster, MR_SV("worker"), i, mr_sv_of(address)));
        mr_free(address);
    }
    for (b.n = 0; b.n < 2; b.n++)
        cluster_fixture_start_task(&b, b.n);
    for (int i = 0; i < 4; i++) {
        static const char *const devices[] = {"/job:worker/task:0/device:CPU:0", "/job:worker/task:0/device:CPU:1",
                                              "/job:worker/task:1/device:CPU:0", "/job:worker/task:1/device:CPU:1"};
        b.s.device = devices[i];
        mr_out x = mr_const(&b.s, numbers(i, 1, 30000));
        outs[i] = collective(&b.s, "CollectiveReduceV2", x, 4, 1, 1, reduce_attrs, 3);
    }
    run_outs(&b, outs, 4, got);
    for (int i = 0; i < 4; i++)
        MR_CHECK(MR_DATA(float, got[i])[7] == 10028);
    unref_all(got, 4);
    cluster_fixture_end(&b);
    mr_str_deinit(&config);
}

/* ---- leaders, and ids of steps ---- */

/* ConfigProto { experimental { collective_group_leader } } */
static void put_leader(mr_str *config, const char *task)
{
    mr_pb_writer w;
    mr_pb_writer_init(&w, config);
    size_t mark = mr_pb_begin(&w, 16);
    mr_pb_put_bytes(&w, 1, mr_sv_of(task));
    mr_pb_end(&w, mark);
}

/* The group is known to the task that the session names: the first worker need not be there. */
MR_TEST(server_collective_group_is_known_to_the_leader_of_the_session)
{
    cluster_fixture b;
    member m[2];
    mr_str config = {0};
    put_leader(&config, "/job:worker/replica:0/task:2");
    cluster_fixture_begin(&b, 0, 3);
    cluster_fixture_stop_task(&b, 0);
    for (int i = 0; i < 2; i++) {
        mr_str filtered = {0};
        mr_pb_writer w;
        member_begin(&m[i], &b, i + 1);
        m[i].out = collective(&m[i].s, "CollectiveReduceV2", m[i].x, 2, 7, 3, reduce_attrs, 3);
        mr_str_append(&filtered, config.p, config.n);
        mr_pb_writer_init(&w, &filtered);
        mr_pb_put_bytes(&w, 4, MR_SV("/job:worker/task:1"));
        mr_pb_put_bytes(&w, 4, MR_SV("/job:worker/task:2"));
        MR_CHECK_OK(mr_remote_session_new(b.net, b.cluster.tasks.p[i + 1].address, m[i].g, NULL, mr_str_view(&filtered), NULL,
                                          &m[i].session));
        mr_str_deinit(&filtered);
        give(&m[i], numbers(i, 1, 2));
    }
    run_all(m, 2);
    for (int i = 0; i < 2; i++) {
        MR_CHECK_OK(m[i].st);
        MR_CHECK(*MR_DATA(float, m[i].got) == 3000);
    }
    mr_str_deinit(&config);
    end_all(&b, m, 2);
}

static int64_t step_of_key(cluster_fixture *b, int task, int64_t key)
{
    mr_str body = {0}, reply = {0};
    mr_pb_writer w;
    mr_pb_reader r, one;
    uint32_t field, wire;
    int64_t id = 0;
    mr_pb_writer_init(&w, &body);
    mr_pb_put_varint(&w, 1, (uint64_t)key);
    MR_CHECK_OK(cluster_fixture_call(b->net, b->cluster.tasks.p[task].address, "/tensorflow.WorkerService/GetStepSequence", &body, &reply));
    mr_pb_reader_init(&r, mr_str_view(&reply));
    MR_CHECK(mr_pb_next(&r, &field, &wire) && mr_pb_message(&r, &one));
    while (mr_pb_next(&one, &field, &wire))
        if (field == 2)
            id = mr_pb_int64(&one);
        else
            MR_CHECK_INT(mr_pb_int64(&one), key);
    mr_str_deinit(&reply);
    return id;
}

MR_TEST(server_collective_steps_of_a_graph_key_have_the_same_ids_everywhere)
{
    cluster_fixture b;
    member m[2];
    cluster_fixture_begin(&b, 0, 2);
    begin_reduce(&b, m, 2);
    int64_t first = step_of_key(&b, 0, 77);
    MR_CHECK(first > 0);
    MR_CHECK_INT(step_of_key(&b, 0, 77), first);
    for (int i = 0; i < 2; i++) {
        m[i].graph_key = 77;
        give(&m[i], numbers(i, 1, 2));
    }
    for (int round = 1; round <= 3; round++) {
        run_all(m, 2);
        for (int i = 0; i < 2; i++) {
            MR_CHECK_OK(m[i].st);
            MR_CHECK_INT(step_of_key(&b, i, 77), first + round); /* each counts by itself */
        }
    }
    end_all(&b, m, 2);
}

MR_TEST(server_collective_in_a_fixed_order_gives_the_same)
{
    cluster_fixture b;
    mr_out outs[6];
    mr_tensor *got[6];
    cluster_fixture_begin(&b, 0, 2);
    mr_pb_writer w;
    mr_pb_writer_init(&w, &b.config);
    size_t mark = mr_pb_begin(&w, 16);
    mr_pb_put_varint(&w, 6, 1); /* collective_deterministic_sequential_execution */
    mr_pb_end(&w, mark);
    for (int i = 0; i < 6; i++) /* made in another order by each */
        outs[i] = collective(&b.s, "CollectiveReduceV2", input(&b, i % 2, 1, 2), 2, 1, i % 2 ? i : 5 - i, reduce_attrs, 3);
    run_outs(&b, outs, 6, got);
    for (int i = 0; i < 6; i++)
        MR_CHECK(*MR_DATA(float, got[i]) == 3000);
    unref_all(got, 6);
    cluster_fixture_end(&b);
}
