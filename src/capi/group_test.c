/* millrace/group.h as a client has it. */
#include "millrace/group.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/deterministic.h"
#include "base/memory.h"
#include "base/thread.h"
#include "group/place.h"
#include "tests/harness/test.h"

enum { SIZE = 2 };

#define OK() MR_CHECK_STR(TF_Message(s), "")

static void member(void *arg)
{
    int rank = *(int *)arg;
    TF_Status *s = TF_NewStatus();
    mr_group_options o = {sizeof(o), .size = SIZE, .rank = rank, .folder = mr_test_dir(), .join_ms = 20000};
    mr_group *g = mr_group_join(&o, s);
    OK();
    float x[4] = {1, 2, 3, 4}, y[8] = {0}, one = (float)rank;
    mr_group_all_reduce(g, x, x, 4, TF_FLOAT, MR_GROUP_MEAN, s);
    OK();
    MR_CHECK_NEAR(x[3], 4, 0);
    mr_group_all_reduce(g, &one, y, 1, TF_FLOAT, MR_GROUP_MIN, s);
    MR_CHECK_NEAR(y[0], 0, 0);
    mr_group_all_reduce_in_order(g, &one, y, 1, TF_FLOAT, MR_GROUP_MAX, s);
    MR_CHECK_NEAR(y[0], 1, 0);
    mr_group_reduce_scatter(g, x, y, 4, TF_FLOAT, MR_GROUP_SUM, s);
    OK();
    MR_CHECK_NEAR(y[0], rank ? 6 : 2, 0);
    mr_group_reduce_scatter(g, x, y, 3, TF_FLOAT, MR_GROUP_SUM, s);
    MR_CHECK_INT(TF_GetCode(s), TF_INVALID_ARGUMENT);
    mr_group_all_gather(g, &one, y, 1, TF_FLOAT, s);
    OK();
    MR_CHECK_NEAR(y[1], 1, 0);
    mr_group_broadcast(g, &one, y, 1, TF_FLOAT, 1, s);
    OK();
    MR_CHECK_NEAR(y[0], 1, 0);
    mr_group_all_to_all(g, x, y, 2, TF_FLOAT, s);
    OK();
    MR_CHECK_NEAR(y[2], rank ? 3 : 1, 0);
    mr_group_pending *p = mr_group_all_reduce_async(g, "x", x, x, 4, TF_FLOAT, MR_GROUP_PRODUCT, s);
    OK();
    mr_group_wait(p, s);
    OK();
    MR_CHECK_NEAR(x[3], 16, 0);
    mr_group_all_reduce(g, x, x, 4, TF_STRING, MR_GROUP_SUM, s);
    MR_CHECK_INT(TF_GetCode(s), TF_INVALID_ARGUMENT);
    void *shared = mr_group_alloc(g, 100);
    MR_CHECK(shared != NULL);
    mr_group_release(g, shared);
    mr_group_barrier(g, s);
    OK();
    MR_CHECK_INT(mr_group_generation(g), 1);
    MR_CHECK_INT(mr_group_waiting(g), 0);
    mr_group_free(g);
    TF_DeleteStatus(s);
}

MR_TEST(group_capi_does_all_operations)
{
    mr_thread threads[SIZE];
    int ranks[SIZE] = {0, 1};
    mr_test_dir();
    for (int i = 0; i < SIZE; i++)
        MR_CHECK_INT(mr_thread_start(&threads[i], "member", member, &ranks[i]), 0);
    for (int i = 0; i < SIZE; i++)
        mr_thread_join(&threads[i]);
}

/* ---- bits ---- */

enum { TRIO = 3, N = 3000 };

static char places[TRIO * 32]; /* of members over gRPC; empty: they share memory */

/* Sums that depend on their order. */
static float fraction(int rank, int i) { return 1.0f / (float)(rank * 3 + i % 17 + 1); }

static float in_order(int i)
{
    float s = fraction(0, i);
    for (int r = 1; r < TRIO; r++)
        s += fraction(r, i);
    return s;
}

static void fill(float *x, int rank)
{
    for (int i = 0; i < N; i++)
        x[i] = fraction(rank, i);
}

static void check_bits(const float *x, int from, int n)
{
    for (int i = 0; i < n; i++)
        MR_CHECK_NEAR(x[i], in_order(from + i), 0);
}

static void deterministic_member(void *arg)
{
    int rank = *(int *)arg;
    float x[N], part[N / TRIO];
    TF_Status *s = TF_NewStatus();
    mr_group *g = mr_group_join(&(mr_group_options){sizeof(mr_group_options), .size = TRIO, .rank = rank, .folder = mr_test_dir(),
                                                    .transport = places[0] ? "grpc" : "shm", .addresses = places[0] ? places : NULL,
                                                    .join_ms = 20000}, s);
    OK();
    fill(x, rank);
    mr_group_all_reduce(g, x, x, N, TF_FLOAT, MR_GROUP_SUM, s);
    OK();
    check_bits(x, 0, N);
    fill(x, rank);
    mr_group_reduce_scatter(g, x, part, N, TF_FLOAT, MR_GROUP_SUM, s);
    OK();
    check_bits(part, rank * (N / TRIO), N / TRIO);
    mr_group_pending *halves[2]; /* together or one by one, as the cycles fall */
    for (int k = 0; k < 2; k++) {
        int which = rank % 2 ? 1 - k : k;
        halves[which] = mr_group_all_reduce_async(g, which ? "upper" : "lower", x + which * N / 2, x + which * N / 2, N / 2, TF_FLOAT,
                                                  MR_GROUP_SUM, s);
        OK();
    }
    for (int k = 0; k < 2; k++) {
        mr_group_wait(halves[k], s);
        OK();
    }
    check_bits(x, 0, N);
    mr_group_barrier(g, s);
    mr_group_free(g);
    TF_DeleteStatus(s);
}

static void run_trio(void)
{
    mr_thread threads[TRIO];
    int ranks[TRIO] = {0, 1, 2};
    mr_test_dir();
    mr_deterministic_set(true);
    for (int i = 0; i < TRIO; i++)
        MR_CHECK_INT(mr_thread_start(&threads[i], "member", deterministic_member, &ranks[i]), 0);
    for (int i = 0; i < TRIO; i++)
        mr_thread_join(&threads[i]);
}

MR_TEST(deterministic_groups_add_in_the_order_of_ranks) { run_trio(); }

/* A ring would begin each part of the sum with another member. */
MR_TEST(deterministic_groups_add_in_the_order_of_ranks_over_grpc)
{
    int fds[TRIO];
    setenv("MILLRACE_GROUP_ALGORITHM", "ring", 1);
    for (int i = 0; i < TRIO; i++) { /* ports that were free just now, all of them at once */
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
        socklen_t n = sizeof a;
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        MR_CHECK(fds[i] >= 0 && bind(fds[i], (struct sockaddr *)&a, n) == 0 && getsockname(fds[i], (struct sockaddr *)&a, &n) == 0);
        snprintf(places + strlen(places), sizeof places - strlen(places), "%s127.0.0.1:%d", i ? "," : "", ntohs(a.sin_port));
    }
    for (int i = 0; i < TRIO; i++)
        close(fds[i]);
    run_trio();
}

MR_TEST(group_capi_survives_null)
{
    TF_Status *s = TF_NewStatus();
    unsetenv("TF_CONFIG");
    unsetenv("OMPI_COMM_WORLD_RANK");
    MR_CHECK(mr_group_join(NULL, s) == NULL);
    MR_CHECK_INT(TF_GetCode(s), TF_FAILED_PRECONDITION);
    mr_group_barrier(NULL, s);
    MR_CHECK_INT(TF_GetCode(s), TF_INVALID_ARGUMENT);
    MR_CHECK(mr_group_all_reduce_async(NULL, "x", NULL, NULL, 0, TF_FLOAT, MR_GROUP_SUM, s) == NULL);
    mr_group_wait(NULL, s);
    mr_group_free(NULL);
    mr_group_release(NULL, NULL);
    MR_CHECK_INT(mr_group_rank(NULL), -1);
    mr_group_options bad = {sizeof(bad), .size = 2, .join_ms = -1};
    MR_CHECK(mr_group_join(&bad, s) == NULL);
    MR_CHECK_INT(TF_GetCode(s), TF_INVALID_ARGUMENT);
    TF_DeleteStatus(s);
}

MR_TEST(group_place_is_that_of_a_worker_of_tf_config)
{
    mr_place p;
    setenv("TF_CONFIG", "{\"cluster\": {\"ps\": [\"a:1\"], \"worker\": [\"127.0.0.1:1\", \"127.0.0.1:2\"]}, "
                        "\"task\": {\"type\": \"worker\", \"index\": 1}}", 1);
    MR_CHECK_OK(mr_place_find(&p));
    MR_CHECK_INT(p.rank, 1);
    MR_CHECK_INT(p.size, 2);
    MR_CHECK(p.one_host);
    MR_CHECK_STR(p.addresses.p[0], "127.0.0.1:1");
    mr_place_deinit(&p);
    setenv("TF_CONFIG", "{\"cluster\": {\"ps\": [\"a:1\"], \"worker\": [\"b:1\"]}, \"task\": {\"type\": \"ps\", \"index\": 0}}", 1);
    MR_CHECK_ERR(mr_place_find(&p), MR_FAILED_PRECONDITION, "is not a chief or worker");
    mr_place_deinit(&p);
}

MR_TEST(group_place_is_that_of_mpirun)
{
    mr_place p;
    unsetenv("TF_CONFIG");
    setenv("OMPI_COMM_WORLD_RANK", "3", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
    MR_CHECK_OK(mr_place_find(&p));
    MR_CHECK_INT(p.rank, 3);
    MR_CHECK(!p.one_host);
    mr_place_deinit(&p);
    setenv("OMPI_COMM_WORLD_RANK", "4", 1);
    MR_CHECK_ERR(mr_place_find(&p), MR_INVALID_ARGUMENT, "4 of 4");
    mr_place_deinit(&p);
}
