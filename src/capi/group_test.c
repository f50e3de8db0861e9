/* millrace/group.h as a client has it. */
#include "millrace/group.h"

#include <stdlib.h>

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
    MR_CHECK_ERR(mr_place_find(&p), MR_FAILED_PRECONDITION, "is no worker");
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
