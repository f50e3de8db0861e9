/* group/transport_conformance_test.c -- all operations, over whatever transport is given. */
#include "group/transport_conformance_test.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "group/post.h"
#include "group/shm.h"
#include "tests/harness/log.h"
#include "tests/harness/test.h"

enum { MOST = 16 };
static const int64_t counts[] = {1, 3, 1000, 20000, 300001};

static int64_t soon(void) { return mr_now_ns() + INT64_C(60000000000); }

static float value(int rank, int64_t i) { return (float)((i * 7 + rank * 13) % 101); }

static float *values(mr_transport *t, int64_t n)
{
    float *x = mr_new_array(float, n + 1);
    for (int64_t i = 0; i < n; i++)
        x[i] = value(t->rank, i);
    return x;
}

static float total(mr_transport *t, int64_t i)
{
    float s = 0;
    for (int r = 0; r < t->size; r++)
        s += value(r, i);
    return s;
}

static void check_all_reduce(mr_transport *t, int64_t n, mr_group_algorithm a, bool in_place, bool mean)
{
    float *in = values(t, n), *out = in_place ? in : mr_new_array(float, n + 1);
    out[n] = -1; /* the one after the last must stay */
    mr_group_work w = {.kind = MR_GROUP_ALL_REDUCE, .type = MR_FLOAT, .in = in, .out = out, .count = n, .algorithm = a, .mean = mean};
    MR_CHECK_OK(mr_group_run_on(t, &w, soon()));
    for (int64_t i = 0; i < n; i++)
        MR_CHECK_NEAR(out[i], mean ? total(t, i) / (float)t->size : total(t, i), 1e-4);
    MR_CHECK_NEAR(out[n], -1, 0);
    if (!in_place)
        mr_free(out);
    mr_free(in);
}

static void check_reduce_scatter(mr_transport *t, int64_t n, bool deterministic)
{
    int64_t at, part;
    float *in = values(t, n), *out = mr_new_array(float, n + 1);
    mr_group_work w = {.kind = MR_GROUP_REDUCE_SCATTER, .type = MR_FLOAT, .in = in, .out = out, .count = n, .deterministic = deterministic};
    MR_CHECK_OK(mr_group_run_on(t, &w, soon()));
    mr_group_part(n, t->size, t->rank, &at, &part);
    for (int64_t i = 0; i < part; i++)
        MR_CHECK_NEAR(out[i], total(t, at + i), 0);
    mr_free(in);
    mr_free(out);
}

static void check_all_gather(mr_transport *t, int64_t n)
{
    float *in = values(t, n), *out = mr_new_array(float, n * t->size + 1);
    mr_group_work w = {.kind = MR_GROUP_ALL_GATHER, .type = MR_FLOAT, .in = in, .out = out, .count = n};
    MR_CHECK_OK(mr_group_run_on(t, &w, soon()));
    for (int r = 0; r < t->size; r++)
        for (int64_t i = 0; i < n; i++)
            MR_CHECK_NEAR(out[r * n + i], value(r, i), 0);
    mr_free(in);
    mr_free(out);
}

static void check_broadcast(mr_transport *t, int64_t n, int root)
{
    float *x = values(t, n);
    mr_group_work w = {.kind = MR_GROUP_BROADCAST, .type = MR_FLOAT, .in = x, .out = x, .count = n, .root = root};
    MR_CHECK_OK(mr_group_run_on(t, &w, soon()));
    for (int64_t i = 0; i < n; i++)
        MR_CHECK_NEAR(x[i], value(root, i), 0);
    mr_free(x);
}

static void check_all_to_all(mr_transport *t, int64_t n)
{
    float *in = values(t, n * t->size), *out = mr_new_array(float, n * t->size + 1);
    mr_group_work w = {.kind = MR_GROUP_ALL_TO_ALL, .type = MR_FLOAT, .in = in, .out = out, .count = n};
    MR_CHECK_OK(mr_group_run_on(t, &w, soon()));
    for (int r = 0; r < t->size; r++)
        for (int64_t i = 0; i < n; i++)
            MR_CHECK_NEAR(out[r * n + i], value(r, t->rank * n + i), 0);
    mr_free(in);
    mr_free(out);
}

/* The bits are those of adding from rank 0 on, whatever the algorithm and the transport. */
static void check_deterministic(mr_transport *t, int64_t n)
{
    float *x = mr_new_array(float, n);
    for (int64_t i = 0; i < n; i++)
        x[i] = 1.0f / (float)(t->rank * 3 + i % 17 + 1);
    mr_group_work w = {.kind = MR_GROUP_ALL_REDUCE, .type = MR_FLOAT, .in = x, .out = x, .count = n, .deterministic = true,
                       .algorithm = MR_GROUP_RING};
    MR_CHECK_OK(mr_group_run_on(t, &w, soon()));
    for (int64_t i = 0; i < n; i++) {
        float s = 1.0f / (float)(i % 17 + 1);
        for (int r = 1; r < t->size; r++)
            s += 1.0f / (float)(r * 3 + i % 17 + 1);
        MR_CHECK_NEAR(x[i], s, 0);
    }
    mr_free(x);
}

/* Sums that cannot be exact are still the same at all members. */
static void check_same_bits(mr_transport *t, int64_t n, mr_group_algorithm a)
{
    float *x = mr_new_array(float, n), *first = mr_new_array(float, n);
    for (int64_t i = 0; i < n; i++)
        x[i] = 1.0f / (float)(t->rank * 3 + i % 17 + 1);
    mr_group_work w = {.kind = MR_GROUP_ALL_REDUCE, .type = MR_FLOAT, .in = x, .out = x, .count = n, .algorithm = a};
    MR_CHECK_OK(mr_group_run_on(t, &w, soon()));
    w = (mr_group_work){.kind = MR_GROUP_BROADCAST, .type = MR_FLOAT, .in = x, .out = first, .count = n};
    MR_CHECK_OK(mr_group_run_on(t, &w, soon()));
    MR_CHECK(memcmp(x, first, (size_t)n * sizeof(float)) == 0);
    mr_free(x);
    mr_free(first);
}

#define CHECK_TYPE(E, name, number, S, C, ...)                                                                             \
    {                                                                                                                      \
        S x[5];                                                                                                            \
        for (int i = 0; i < 5; i++)                                                                                        \
            MR_ST(x + i, (C)(i + 1));                                                                                      \
        mr_group_work w = {.kind = MR_GROUP_ALL_REDUCE, .type = MR_##E, .in = x, .out = x, .count = 5, .algorithm = a};    \
        MR_CHECK_OK(mr_group_run_on(t, &w, soon()));                                                                       \
        for (int i = 0; i < 5; i++)                                                                                        \
            MR_CHECK(MR_LD(x + i) == (C)(t->size * (i + 1)));                                                              \
    }

static void check_types(mr_transport *t, mr_group_algorithm a) { MR_NUMBERS(CHECK_TYPE, ) }

static void check_merges(mr_transport *t, mr_group_algorithm a)
{
    static const mr_merge merges[] = {MR_MERGE_MUL, MR_MERGE_MAX, MR_MERGE_MIN};
    int64_t product = 1;
    for (int r = 0; r < t->size; r++)
        product *= 2;
    for (int m = 0; m < 3; m++) {
        int64_t x = m == 0 ? 2 : t->rank + 5;
        mr_group_work w = {.kind = MR_GROUP_ALL_REDUCE, .type = MR_INT64, .merge = merges[m], .in = &x, .out = &x, .count = 1,
                           .algorithm = a};
        MR_CHECK_OK(mr_group_run_on(t, &w, soon()));
        MR_CHECK_INT(x, m == 0 ? product : m == 1 ? t->size + 4 : 5);
    }
}

void conformance_run(mr_transport *t)
{
    mr_group_work barrier = {.kind = MR_GROUP_BARRIER};
    for (int a = MR_GROUP_AUTO; a <= MR_GROUP_DIRECT; a++) {
        for (int c = 0; c < MR_COUNT(counts); c++) {
            check_all_reduce(t, counts[c], (mr_group_algorithm)a, c % 2 == 0, c % 3 == 0);
            check_same_bits(t, counts[c], (mr_group_algorithm)a);
        }
        check_types(t, (mr_group_algorithm)a);
        check_merges(t, (mr_group_algorithm)a);
    }
    for (int c = 0; c < MR_COUNT(counts); c++) {
        check_reduce_scatter(t, counts[c], c % 2 == 0);
        check_all_gather(t, counts[c]);
        check_broadcast(t, counts[c], c % t->size);
        check_all_to_all(t, counts[c]);
        check_deterministic(t, counts[c]);
        MR_CHECK_OK(mr_group_run_on(t, &barrier, soon()));
    }
}

/* ---- members as threads ---- */

typedef struct seat {
    mr_thread thread;
    mr_transport *t;
    void (*member)(mr_transport *t);
} seat;

static void sit(void *arg)
{
    seat *s = arg;
    s->member(s->t);
}

void conformance_threads(mr_transport **transports, int size, void (*member)(mr_transport *t))
{
    seat seats[MOST];
    for (int i = 0; i < size; i++) {
        seats[i] = (seat){.t = transports[i], .member = member};
        MR_CHECK_INT(mr_thread_start(&seats[i].thread, "member", sit, &seats[i]), 0);
    }
    for (int i = 0; i < size; i++)
        mr_thread_join(&seats[i].thread);
    for (int i = 0; i < size; i++)
        mr_transport_free(transports[i]);
}

static void open_shm(mr_transport **out, int size)
{
    int files[MOST], fds[MOST];
    for (int i = 0; i < size; i++)
        files[i] = mr_shm_file_new(size);
    for (int r = 0; r < size; r++) {
        for (int i = 0; i < size; i++)
            fds[i] = dup(files[i]);
        MR_CHECK_OK(mr_shm_new(r, size, fds, NULL, &out[r]));
    }
    for (int i = 0; i < size; i++)
        close(files[i]);
}

static void run_shm(int size, void (*member)(mr_transport *t))
{
    mr_transport *t[MOST];
    mr_test_deadline(120);
    open_shm(t, size);
    conformance_threads(t, size, member);
}

MR_TEST(group_conformance_shm_2_members) { run_shm(2, conformance_run); }
MR_TEST(group_conformance_shm_3_members) { run_shm(3, conformance_run); }
MR_TEST(group_conformance_shm_5_members) { run_shm(5, conformance_run); }

MR_TEST(group_conformance_one_member_is_alone)
{
    run_shm(1, conformance_run);
}

/* ---- what goes wrong ---- */

static void differ(mr_transport *t)
{
    float x[8] = {0};
    mr_group_work w = {.kind = MR_GROUP_ALL_REDUCE, .type = MR_FLOAT, .in = x, .out = x, .count = t->rank ? 8 : 7};
    MR_CHECK_ERR(mr_group_run_on(t, &w, soon()), MR_INVALID_ARGUMENT, "run different operations");
}

MR_TEST(group_shm_members_that_do_different_things_find_out) { run_shm(2, differ); }

static void stay_away(mr_transport *t)
{
    mr_group_work w = {.kind = MR_GROUP_BARRIER};
    if (t->rank == 0)
        MR_CHECK_ERR(mr_group_run_on(t, &w, mr_now_ns() + 20000000), MR_DEADLINE_EXCEEDED, "member 1 of 2");
}

MR_TEST(group_shm_a_wait_ends_by_its_deadline) { run_shm(2, stay_away); }

/* All are in memory that all see (they are threads), but member 1 does not find that of member 2. */
static float everywhere[3][5000];

static char *find_or_not(void *arg, int rank, uint64_t id, size_t *bytes)
{
    *bytes = sizeof(everywhere[0]);
    return *(int *)arg == 1 && rank == 2 ? NULL : (char *)everywhere[id - 1];
}

static bool always_own(void *arg, const void *p, size_t n, uint64_t *id, size_t *at)
{
    (void)p, (void)n;
    *id = (uint64_t)*(int *)arg + 1;
    *at = 0;
    return true;
}

static void reduce_everywhere(mr_transport *t)
{
    float *x = everywhere[t->rank];
    mr_group_work w = {.kind = MR_GROUP_ALL_REDUCE, .type = MR_FLOAT, .in = x, .out = x, .count = 5000};
    MR_CHECK_ERR(mr_group_run_on(t, &w, 0), MR_UNAVAILABLE, t->rank == 1 ? "of member 2 cannot be mapped" : "member 1 of 3 cannot map");
}

MR_TEST(group_shm_all_end_when_one_cannot_map_a_buffer)
{
    static int ranks[] = {0, 1, 2};
    mr_transport *t[MOST];
    int files[3] = {mr_shm_file_new(3), mr_shm_file_new(3), mr_shm_file_new(3)};
    for (int i = 0; i < 3; i++) {
        mr_shm_memory memory = {find_or_not, always_own, &ranks[i]};
        MR_CHECK_OK(mr_shm_new(i, 3, (int[]){dup(files[0]), dup(files[1]), dup(files[2])}, &memory, &t[i]));
    }
    for (int i = 0; i < 3; i++)
        close(files[i]);
    conformance_threads(t, 3, reduce_everywhere); /* without a deadline */
}

static void fail_from_outside(mr_transport *t)
{
    mr_group_work w = {.kind = MR_GROUP_BARRIER};
    if (t->rank == 0) {
        MR_CHECK_ERR(mr_group_run_on(t, &w, soon()), MR_ABORTED, "member 1 is gone");
        return;
    }
    mr_sleep_ns(20000000);
}

static mr_transport *failing;
static void fail_later(void *arg)
{
    mr_status *st = mr_error(MR_ABORTED, "member 1 is gone");
    (void)arg;
    mr_sleep_ns(10000000);
    failing->of->fail(failing, st);
    mr_status_free(st);
}

MR_TEST(group_shm_a_wait_ends_when_it_is_told_to)
{
    mr_transport *t[MOST];
    mr_thread thread;
    open_shm(t, 2);
    failing = t[0];
    MR_CHECK_INT(mr_thread_start(&thread, "fail", fail_later, NULL), 0);
    fail_from_outside(t[0]);
    mr_thread_join(&thread);
    mr_transport_free(t[0]);
    mr_transport_free(t[1]);
}

MR_TEST(group_shm_refuses_counts_that_make_no_sense)
{
    mr_transport *t[MOST];
    int files[2] = {mr_shm_file_new(2), mr_shm_file_new(2)};
    char junk[64];
    memset(junk, 0xee, sizeof(junk));
    /* The head of the pipe to member 0 in member 1's segment. */
    MR_CHECK_INT(pwrite(files[1], junk, sizeof(junk), 4096), sizeof(junk));
    MR_CHECK_OK(mr_shm_new(0, 2, (int[]){files[0], files[1]}, NULL, &t[0]));
    mr_group_work w = {.kind = MR_GROUP_BARRIER};
    MR_CHECK_ERR(mr_group_run_on(t[0], &w, soon()), MR_DATA_LOSS, "member 1 of 2");
    mr_transport_free(t[0]);
}

MR_TEST(group_shm_refuses_files_that_can_shrink)
{
    mr_transport *t;
    char path[512];
    snprintf(path, sizeof(path), "%s/file", mr_test_dir());
    FILE *f = fopen(path, "w+");
    MR_CHECK(f != NULL);
    MR_CHECK_ERR(mr_shm_new(0, 2, (int[]){mr_shm_file_new(2), dup(fileno(f))}, NULL, &t), MR_INVALID_ARGUMENT, "not sealed");
    fclose(f);
}

MR_TEST(group_refuses_what_cannot_be_done)
{
    mr_group_work w = {.kind = MR_GROUP_ALL_REDUCE, .type = MR_STRING};
    MR_CHECK_ERR(mr_group_work_check(&w, 2, 0), MR_INVALID_ARGUMENT, "string");
    w = (mr_group_work){.kind = MR_GROUP_ALL_REDUCE, .type = MR_FLOAT, .count = INT64_MAX / 4};
    MR_CHECK_ERR(mr_group_work_check(&w, 2, 0), MR_INVALID_ARGUMENT, "elements");
    w = (mr_group_work){.kind = MR_GROUP_BROADCAST, .type = MR_FLOAT, .root = 2};
    MR_CHECK_ERR(mr_group_work_check(&w, 2, 0), MR_INVALID_ARGUMENT, "root of the broadcast is 2");
    w = (mr_group_work){.kind = MR_GROUP_ALL_REDUCE, .type = MR_FLOAT, .merge = MR_MERGE_MAX, .mean = true};
    MR_CHECK_ERR(mr_group_work_check(&w, 2, 0), MR_INVALID_ARGUMENT, "mean");
}

/* ---- by calls ---- */

typedef struct office {
    mr_post *post;
    mr_net_server *server;
    char address[256];
    mr_post_route routes[MOST];
} office;

static void hand_over(void *arg, mr_net_call *c) { mr_post_handle(arg, c); }

static void office_open(office *o, mr_net *net, int number)
{
    int port = 0;
    o->post = mr_post_new();
    snprintf(o->address, sizeof(o->address), "%s/%d", mr_test_dir(), number);
    if (strcmp(net->name, "local") != 0)
        snprintf(o->address, sizeof(o->address), "127.0.0.1:0");
    mr_net_listen listen = {.address = o->address, .handle = hand_over, .arg = o->post};
    MR_CHECK_OK(net->listen(net, &listen, &o->server, &port));
    if (port)
        snprintf(o->address, sizeof(o->address), "127.0.0.1:%d", port);
}

static void run_calls(mr_net *net, int size, void (*member)(mr_transport *t))
{
    office offices[MOST];
    mr_transport *t[MOST];
    mr_test_deadline(300);
    for (int i = 0; i < size; i++)
        office_open(&offices[i], net, i);
    for (int i = 0; i < size; i++) {
        for (int j = 0; j < size; j++) {
            offices[i].routes[j].net = net;
            MR_CHECK_OK(net->connect(net, offices[j].address, NULL, NULL, &offices[i].routes[j].peer));
        }
        t[i] = mr_post_transport(offices[i].post, 7, i, size, offices[i].routes);
    }
    conformance_threads(t, size, member);
    for (int i = 0; i < size; i++)
        for (int j = 0; j < size; j++)
            net->disconnect(offices[i].routes[j].peer);
    for (int i = 0; i < size; i++) {
        net->stop(offices[i].server, 0);
        mr_post_free(offices[i].post);
    }
}

static void run_grpc(int size, void (*member)(mr_transport *t))
{
    mr_net *net;
    MR_CHECK_OK(mr_net_grpc(&net));
    run_calls(net, size, member);
}

/* The first letters go by gRPC and later ones beside it, so some overtake others. */
static void run_direct(int size, void (*member)(mr_transport *t))
{
    mr_net *net;
    MR_CHECK_OK(mr_net_direct(&net));
    run_calls(net, size, member);
}

MR_TEST(group_conformance_grpc_2_members) { run_grpc(2, conformance_run); }
MR_TEST(group_conformance_grpc_3_members) { run_grpc(3, conformance_run); }
MR_TEST(group_conformance_direct_3_members) { run_direct(3, conformance_run); }
MR_TEST(group_conformance_local_calls_3_members) { run_calls(mr_net_local(), 3, conformance_run); }
MR_TEST(group_grpc_a_wait_ends_by_its_deadline) { run_grpc(2, stay_away); }
MR_TEST(group_direct_a_wait_ends_by_its_deadline) { run_direct(2, stay_away); }

static void send_less(mr_transport *t)
{
    char bytes[4] = {0};
    mr_transfer x = {.sending = t->rank == 0, .peer = 1 - t->rank, .data = bytes, .n = t->rank == 0 ? 3 : 4};
    t->of->start(t, &x);
    if (t->rank == 0)
        MR_CHECK_OK(t->of->finish(t, &x, soon()));
    else
        MR_CHECK_ERR(t->of->finish(t, &x, soon()), MR_INVALID_ARGUMENT, "it sent 3 bytes, expected 4");
}

/* The receiver takes the message when the sender has logged that it waits. */
static void take_late(mr_transport *t)
{
    char byte = 1;
    mr_transfer x = {.sending = t->rank == 0, .peer = 1 - t->rank, .data = &byte, .n = 1};
    if (!x.sending)
        mr_test_log_wait("Still waiting for member 1 of 2 of the group: it has not received what was sent (", 2);
    t->of->start(t, &x);
    MR_CHECK_OK(t->of->finish(t, &x, 0));
}

MR_TEST(group_post_logs_a_long_wait_for_who_does_not_take)
{
    mr_test_log_begin(INT64_C(5000000));
    run_calls(mr_net_local(), 2, take_late);
    mr_test_log_end();
}

MR_TEST(group_post_another_size_is_an_error) { run_calls(mr_net_local(), 2, send_less); }
MR_TEST(group_shm_another_size_is_an_error) { run_shm(2, send_less); }

MR_TEST(group_post_refuses_heads_of_nobody)
{
    mr_post_head h = {.from = 1, .bytes = 5}, got;
    uint8_t bytes[MR_POST_HEAD];
    mr_bytes body = {0};
    mr_post_head_write(&h, bytes);
    MR_CHECK(mr_bytes_add_copy(&body, bytes, 20));
    MR_CHECK_ERR(mr_post_head_read(&body, &got), MR_INVALID_ARGUMENT, "no valid header");
    MR_CHECK(mr_bytes_add_copy(&body, bytes + 20, 12));
    MR_CHECK_ERR(mr_post_head_read(&body, &got), MR_INVALID_ARGUMENT, "announces 5 bytes, but 0 follow");
    MR_CHECK(mr_bytes_add_copy(&body, bytes, 5));
    MR_CHECK_OK(mr_post_head_read(&body, &got));
    MR_CHECK_INT(got.from, 1);
    mr_bytes_deinit(&body);
}
