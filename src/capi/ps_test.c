/* capi/ps_test.c -- millrace/ps.h as programs use it. */
#include "millrace/ps.h"

#include "tests/harness/test.h"

static void check_ok(TF_Status *s)
{
    if (TF_GetCode(s) != TF_OK)
        mr_test_fail(__FILE__, __LINE__, "%s", TF_Message(s));
}

static int make_table(mr_ps *ps, const char *name, uint64_t keys, int width, mr_ps_update update, TF_Status *s)
{
    mr_ps_table_options o = {.struct_size = sizeof o, .num_keys = keys, .width = width, .update = update, .rate = 0.5f};
    int t = mr_ps_table(ps, name, &o, s);
    check_ok(s);
    return t;
}

static void push(mr_ps *ps, int t, const uint64_t *keys, size_t n, const float *values, TF_Status *s)
{
    mr_ps_task k = mr_ps_push(ps, t, keys, n, values, NULL, s);
    check_ok(s);
    mr_ps_wait(ps, k, s);
    check_ok(s);
}

static void pull(mr_ps *ps, int t, const uint64_t *keys, size_t n, float *values, TF_Status *s)
{
    mr_ps_task k = mr_ps_pull(ps, t, keys, n, values, NULL, s);
    check_ok(s);
    mr_ps_wait(ps, k, s);
    check_ok(s);
}

MR_TEST(ps_capi_pushes_and_pulls_in_process)
{
    TF_Status *s = TF_NewStatus();
    mr_ps *ps = mr_ps_connect(NULL, s);
    check_ok(s);
    int t = make_table(ps, "w", 1000, 2, MR_PS_ADD, s);
    const uint64_t keys[3] = {0, 17, 999};
    float got[6];
    push(ps, t, keys, 3, (const float[]){1, 2, 3, 4, 5, 6}, s);
    push(ps, t, keys + 1, 2, (const float[]){10, 20, 30, 40}, s);
    pull(ps, t, keys, 3, got, s);
    const float want[6] = {1, 2, 13, 24, 35, 46};
    for (int i = 0; i < 6; i++)
        MR_CHECK_NEAR(got[i], want[i], 0);
    mr_ps_free(ps);
    TF_DeleteStatus(s);
}

MR_TEST(ps_capi_table_is_found_again_or_refused)
{
    TF_Status *s = TF_NewStatus();
    mr_ps *ps = mr_ps_connect(NULL, s);
    int a = make_table(ps, "w", 10, 1, MR_PS_SGD, s), b = make_table(ps, "v", 10, 1, MR_PS_ADD, s);
    MR_CHECK(a != b);
    MR_CHECK_INT(make_table(ps, "w", 10, 1, MR_PS_SGD, s), a);
    mr_ps_table_options o = {.struct_size = sizeof o, .num_keys = 11, .update = MR_PS_SGD, .rate = 0.5f};
    MR_CHECK_INT(mr_ps_table(ps, "w", &o, s), -1);
    MR_CHECK_INT(TF_GetCode(s), TF_INVALID_ARGUMENT);
    mr_ps_free(ps);
    TF_DeleteStatus(s);
}

MR_TEST(ps_capi_algebra_where_the_parameters_are)
{
    TF_Status *s = TF_NewStatus();
    mr_ps *ps = mr_ps_connect(NULL, s);
    int a = make_table(ps, "a", 700, 1, MR_PS_ASSIGN, s), b = make_table(ps, "b", 700, 1, MR_PS_ASSIGN, s);
    double dot = 0;
    float got[2];
    mr_ps_vector(ps, MR_PS_FILL, a, 0, 3, NULL, s);
    mr_ps_vector(ps, MR_PS_FILL, b, 0, -2, NULL, s);
    mr_ps_vector(ps, MR_PS_AXPY, a, b, 0.5, NULL, s);
    mr_ps_vector(ps, MR_PS_SCALE, b, 0, 2, NULL, s);
    mr_ps_vector(ps, MR_PS_MULTIPLY, b, a, 0, NULL, s);
    mr_ps_vector(ps, MR_PS_DOT, a, b, 0, &dot, s);
    check_ok(s);
    MR_CHECK_NEAR(dot, 700 * 2 * -8, 0);
    mr_ps_vector(ps, MR_PS_NORM1, b, 0, 0, &dot, s);
    MR_CHECK_NEAR(dot, 700 * 8, 0);
    mr_ps_vector(ps, MR_PS_COPY, a, b, 0, NULL, s);
    pull(ps, a, (const uint64_t[]){0, 699}, 2, got, s);
    MR_CHECK_NEAR(got[0] + got[1], -16, 0);
    mr_ps_free(ps);
    TF_DeleteStatus(s);
}

MR_TEST(ps_capi_refuses_keys_out_of_order_or_range)
{
    TF_Status *s = TF_NewStatus();
    mr_ps *ps = mr_ps_connect(NULL, s);
    int t = make_table(ps, "w", 10, 1, MR_PS_ADD, s);
    const float v[2] = {1, 1};
    MR_CHECK_INT(mr_ps_push(ps, t, (const uint64_t[]){3, 3}, 2, v, NULL, s), 0);
    MR_CHECK_INT(TF_GetCode(s), TF_INVALID_ARGUMENT);
    MR_CHECK_INT(mr_ps_push(ps, t, (const uint64_t[]){3, 10}, 2, v, NULL, s), 0);
    MR_CHECK_INT(TF_GetCode(s), TF_INVALID_ARGUMENT);
    MR_CHECK_INT(mr_ps_push_range(ps, t, 9, 2, v, NULL, s), 0);
    MR_CHECK_INT(TF_GetCode(s), TF_INVALID_ARGUMENT);
    MR_CHECK_INT(mr_ps_push(ps, 7, (const uint64_t[]){3, 4}, 2, v, NULL, s), 0);
    mr_ps_free(ps);
    TF_DeleteStatus(s);
}
