/* capi/session_test.c */
#include <stdio.h>
#include <malloc.h>
#include <pthread.h>

#include "capi/graph_fixture.h"

static const TF_Output none = {NULL, -1};

MR_TEST(capi_session_feeds_and_fetches)
{
    kit k = kit_new();
    TF_Output x = kit_placeholder(&k, "x", TF_FLOAT);
    TF_Output y = kit_binary(&k, "Add", "y", x, kit_const(&k, "two", kit_float(2)));
    TF_Session *s = kit_session(&k);
    TF_Tensor *v = kit_float(40);
    MR_CHECK_NEAR(kit_take_float(kit_run(&k, s, x, v, y)), 42, 0);
    CHECK_OK(k.s);
    MR_CHECK_NEAR(*(float *)TF_TensorData(v), 40, 0); /* still the caller's */
    TF_DeleteTensor(v);
    kit_close(&k, s);
    kit_free(&k);
}

MR_TEST(capi_session_sees_operations_added_later)
{
    kit k = kit_new();
    TF_Output one = kit_const(&k, "one", kit_float(1));
    TF_Session *s = kit_session(&k);
    MR_CHECK_NEAR(kit_take_float(kit_run(&k, s, none, NULL, one)), 1, 0);
    TF_Output two = kit_binary(&k, "Add", "two", one, one);
    TF_ExtendSession(s, k.s);
    CHECK_OK(k.s);
    MR_CHECK_NEAR(kit_take_float(kit_run(&k, s, none, NULL, two)), 2, 0);
    kit_close(&k, s);
    kit_free(&k);
}

MR_TEST(capi_session_outlives_the_deletion_of_its_graph)
{
    kit k = kit_new();
    TF_Output one = kit_const(&k, "one", kit_float(1));
    TF_Session *s = kit_session(&k);
    TF_DeleteGraph(k.g);
    MR_CHECK_NEAR(kit_take_float(kit_run(&k, s, none, NULL, one)), 1, 0);
    TF_DeleteSession(s, k.s);
    CHECK_OK(k.s);
    k.g = NULL;
    kit_free(&k);
}

MR_TEST(capi_session_error_leaves_the_outputs_null)
{
    kit k = kit_new();
    TF_Output x = kit_placeholder(&k, "x", TF_FLOAT);
    TF_Session *s = kit_session(&k);
    TF_Tensor *out = (TF_Tensor *)&k; /* overwritten, whatever it was */
    TF_SessionRun(s, NULL, NULL, NULL, 0, &x, &out, 1, NULL, 0, NULL, k.s);
    MR_CHECK_INT(TF_GetCode(k.s), TF_INVALID_ARGUMENT);
    MR_CHECK(!out);
    kit_close(&k, s);
    kit_free(&k);
}

MR_TEST(capi_session_metadata_must_be_empty_and_is_filled_also_on_failure)
{
    kit k = kit_new();
    TF_Output x = kit_placeholder(&k, "x", TF_FLOAT);
    TF_Session *s = kit_session(&k);
    TF_Tensor *out = NULL;
    TF_Buffer *full = TF_NewBufferFromString("x", 1), *meta = TF_NewBuffer();
    TF_Buffer *options = TF_NewBufferFromString("\010\003", 2); /* trace_level: FULL_TRACE */
    TF_SessionRun(s, NULL, NULL, NULL, 0, &x, &out, 1, NULL, 0, full, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "Passing non-empty run_metadata is invalid.");
    TF_SessionRun(s, options, NULL, NULL, 0, &x, &out, 1, NULL, 0, meta, k.s);
    MR_CHECK_INT(TF_GetCode(k.s), TF_INVALID_ARGUMENT); /* x is not fed */
    MR_CHECK(meta->length > 0);
    TF_DeleteBuffer(full);
    TF_DeleteBuffer(meta);
    TF_DeleteBuffer(options);
    kit_close(&k, s);
    kit_free(&k);
}

MR_TEST(capi_session_refuses_bytes_that_are_no_options)
{
    kit k = kit_new();
    TF_Output x = kit_const(&k, "x", kit_float(1));
    TF_Session *s = kit_session(&k);
    TF_Tensor *out = NULL;
    TF_Buffer *bad = TF_NewBufferFromString("\377", 1);
    TF_SessionRun(s, bad, NULL, NULL, 0, &x, &out, 1, NULL, 0, NULL, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "Unparseable RunOptions proto");
    TF_DeleteBuffer(bad);
    kit_close(&k, s);
    TF_SessionOptions *o = TF_NewSessionOptions();
    TF_SetConfig(o, "\377", 1, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "Unparseable ConfigProto");
    TF_SetTarget(o, "nowhere://x");
    MR_CHECK(!TF_NewSession(k.g, o, k.s));
    CHECK_CODE(k.s, TF_NOT_FOUND, "No session factory registered");
    TF_DeleteSessionOptions(o);
    kit_free(&k);
}

MR_TEST(capi_session_survives_nulls)
{
    kit k = kit_new();
    TF_Tensor *out = NULL;
    TF_Output x = kit_const(&k, "x", kit_float(1));
    TF_Session *s = kit_session(&k);
    MR_CHECK(!TF_NewSession(NULL, NULL, k.s));
    MR_CHECK_INT(TF_GetCode(k.s), TF_INVALID_ARGUMENT);
    TF_CloseSession(NULL, k.s);
    MR_CHECK_INT(TF_GetCode(k.s), TF_INVALID_ARGUMENT);
    TF_DeleteSession(NULL, k.s);
    CHECK_OK(k.s);
    TF_SessionRun(NULL, NULL, NULL, NULL, 0, &x, &out, 1, NULL, 0, NULL, k.s);
    MR_CHECK_INT(TF_GetCode(k.s), TF_INVALID_ARGUMENT);
    TF_SessionRun(s, NULL, NULL, NULL, 0, NULL, &out, 1, NULL, 0, NULL, k.s);
    MR_CHECK_INT(TF_GetCode(k.s), TF_INVALID_ARGUMENT);
    TF_SessionRun(s, NULL, NULL, NULL, 0, &x, NULL, 1, NULL, 0, NULL, k.s);
    MR_CHECK_INT(TF_GetCode(k.s), TF_INVALID_ARGUMENT);
    TF_SessionRun(s, NULL, &x, &out, 1, NULL, NULL, 0, NULL, 0, NULL, k.s);
    MR_CHECK_INT(TF_GetCode(k.s), TF_INVALID_ARGUMENT);
    TF_SessionRun(s, NULL, NULL, NULL, -1, &x, &out, 1, NULL, 0, NULL, k.s);
    MR_CHECK_INT(TF_GetCode(k.s), TF_INVALID_ARGUMENT);
    TF_SessionRun(s, NULL, NULL, NULL, 0, &x, &out, 1, NULL, 2, NULL, k.s);
    MR_CHECK_INT(TF_GetCode(k.s), TF_INVALID_ARGUMENT);
    TF_SessionPRunSetup(s, NULL, 0, &x, 1, NULL, 0, NULL, k.s);
    MR_CHECK_INT(TF_GetCode(k.s), TF_INVALID_ARGUMENT);
    TF_SessionPRun(s, NULL, NULL, NULL, 0, &x, &out, 1, NULL, 0, k.s);
    MR_CHECK_INT(TF_GetCode(k.s), TF_INVALID_ARGUMENT);
    kit_close(&k, s);
    kit_free(&k);
}

MR_TEST(capi_session_takes_no_operation_of_another_graph)
{
    kit k = kit_new(), other = kit_new();
    TF_Output x = kit_const(&other, "x", kit_float(1));
    TF_Session *s = kit_session(&k);
    MR_CHECK(!kit_run(&k, s, none, NULL, x));
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "not an operation of the session's graph");
    kit_close(&k, s);
    kit_free(&k);
    kit_free(&other);
}

/* More of them than have room on the stack. */
MR_TEST(capi_session_takes_a_hundred_feeds_and_fetches)
{
    enum { N = 100 };
    kit k = kit_new();
    TF_Output in[N], out[N];
    TF_Tensor *values[N], *results[N];
    for (int i = 0; i < N; i++) {
        char name[16];
        snprintf(name, sizeof name, "x%d", i);
        in[i] = kit_placeholder(&k, name, TF_FLOAT);
        snprintf(name, sizeof name, "y%d", i);
        out[i] = kit_unary(&k, "Neg", name, in[i]);
        values[i] = kit_float((float)i);
    }
    TF_Session *s = kit_session(&k);
    TF_SessionRun(s, NULL, in, values, N, out, results, N, NULL, 0, NULL, k.s);
    CHECK_OK(k.s);
    for (int i = 0; i < N; i++) {
        MR_CHECK_NEAR(kit_take_float(results[i]), -i, 0);
        TF_DeleteTensor(values[i]);
    }
    kit_close(&k, s);
    kit_free(&k);
}

MR_TEST(capi_session_partial_run_gives_and_takes_in_parts)
{
    kit k = kit_new();
    TF_Output a = kit_placeholder(&k, "a", TF_FLOAT), b = kit_placeholder(&k, "b", TF_FLOAT);
    TF_Output two = kit_const(&k, "two", kit_float(2));
    TF_Output c = kit_binary(&k, "Add", "c", a, two), d = kit_binary(&k, "Add", "d", c, b);
    TF_Session *s = kit_session(&k);
    TF_Output feeds[2] = {a, b}, fetches[2] = {c, d};
    const char *handle = NULL;
    TF_SessionPRunSetup(s, feeds, 2, fetches, 2, NULL, 0, &handle, k.s);
    CHECK_OK(k.s);
    MR_CHECK(handle);
    TF_Tensor *one = kit_float(1), *ten = kit_float(10), *r = NULL;
    TF_SessionPRun(s, handle, &a, &one, 1, &c, &r, 1, NULL, 0, k.s);
    CHECK_OK(k.s);
    MR_CHECK_NEAR(kit_take_float(r), 3, 0);
    TF_SessionPRun(s, handle, &b, &ten, 1, &d, &r, 1, NULL, 0, k.s);
    CHECK_OK(k.s);
    MR_CHECK_NEAR(kit_take_float(r), 13, 0);
    TF_SessionPRun(s, handle, &b, &ten, 1, &d, &r, 1, NULL, 0, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "Must run 'setup' before performing partial runs!");
    TF_DeletePRunHandle(handle);
    TF_DeletePRunHandle(NULL);
    TF_DeleteTensor(one);
    TF_DeleteTensor(ten);
    kit_close(&k, s);
    kit_free(&k);
}

MR_TEST(capi_session_lists_its_devices)
{
    kit k = kit_new();
    TF_SessionOptions *o = TF_NewSessionOptions();
    /* device_count { key: "CPU" value: 2 } */
    TF_SetConfig(o, "\012\007\012\003CPU\020\002", 9, k.s);
    CHECK_OK(k.s);
    TF_Session *s = TF_NewSession(k.g, o, k.s);
    TF_DeviceList *l = TF_SessionListDevices(s, k.s);
    CHECK_OK(k.s);
    MR_CHECK_INT(TF_DeviceListCount(l), 2);
    MR_CHECK_STR(TF_DeviceListName(l, 1, k.s), "/job:localhost/replica:0/task:0/device:CPU:1");
    MR_CHECK_STR(TF_DeviceListType(l, 0, k.s), "CPU");
    MR_CHECK(TF_DeviceListMemoryBytes(l, 0, k.s) > 0);
    MR_CHECK(TF_DeviceListIncarnation(l, 0, k.s) != TF_DeviceListIncarnation(l, 1, k.s));
    CHECK_OK(k.s);
    MR_CHECK(!TF_DeviceListName(l, 2, k.s));
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "index out of bounds");
    MR_CHECK_INT(TF_DeviceListMemoryBytes(l, -1, k.s), -1);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "index out of bounds");
    MR_CHECK_INT(TF_DeviceListCount(NULL), 0);
    TF_DeleteDeviceList(l);
    TF_DeleteDeviceList(NULL);
    TF_DeleteSessionOptions(o);
    kit_close(&k, s);
    kit_free(&k);
}

/* ---- many threads ---- */

typedef struct shared {
    kit *k;
    TF_Session *s;
    TF_Output x, y;
} shared;

static void *run_often(void *arg)
{
    shared *sh = arg;
    TF_Status *st = TF_NewStatus();
    for (int i = 0; i < 50; i++) {
        TF_Tensor *v = kit_float((float)i), *r = NULL;
        TF_SessionRun(sh->s, NULL, &sh->x, &v, 1, &sh->y, &r, 1, NULL, 0, NULL, st);
        CHECK_OK(st);
        MR_CHECK_NEAR(kit_take_float(r), i + 1, 0);
        TF_DeleteTensor(v);
    }
    TF_DeleteStatus(st);
    return NULL;
}

static void *build_meanwhile(void *arg)
{
    shared *sh = arg;
    kit own = {sh->k->g, TF_NewStatus()};
    for (int i = 0; i < 50; i++) {
        char name[16];
        snprintf(name, sizeof name, "more%d", i);
        kit_unary(&own, "Neg", name, sh->x);
        MR_CHECK(TF_OperationOutputNumConsumers(sh->x) >= i + 2);
    }
    TF_DeleteStatus(own.s);
    return NULL;
}

MR_TEST(capi_session_runs_from_many_threads_while_the_graph_grows)
{
    kit k = kit_new();
    shared sh = {.k = &k, .x = kit_placeholder(&k, "x", TF_FLOAT)};
    sh.y = kit_binary(&k, "Add", "y", sh.x, kit_const(&k, "one", kit_float(1)));
    sh.s = kit_session(&k);
    pthread_t t[4];
    for (int i = 0; i < 4; i++)
        MR_CHECK(pthread_create(&t[i], NULL, i ? run_often : build_meanwhile, &sh) == 0);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    kit_close(&k, sh.s);
    kit_free(&k);
}
