/* tests/capi/client.h -- what the programs of clients here share: a check that says what was wrong, and
 * the few lines that everybody who uses the C API writes first. */
#ifndef TESTS_CAPI_CLIENT_H
#define TESTS_CAPI_CLIENT_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/c/c_api.h"

#define UNUSED __attribute__((unused))

#define CHECK(cond)                                                              \
    do {                                                                         \
        if (!(cond)) {                                                           \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #cond);   \
            exit(1);                                                             \
        }                                                                        \
    } while (0)

#define CHECK_OK(status)                                                                           \
    do {                                                                                           \
        if (TF_GetCode(status) != TF_OK) {                                                         \
            fprintf(stderr, "%s:%d: status %d: %s\n", __FILE__, __LINE__, (int)TF_GetCode(status), \
                    TF_Message(status));                                                           \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define CHECK_NEAR(a, b) CHECK(fabs((double)(a) - (double)(b)) <= 1e-5 * (1 + fabs((double)(b))))

static UNUSED void free_data(void *data, size_t len, void *arg)
{
    (void)len, (void)arg;
    free(data);
}

/* A tensor with a copy of these values. */
static UNUSED TF_Tensor *tensor_of(TF_DataType type, const int64_t *dims, int n, const void *values)
{
    size_t bytes = TF_DataTypeSize(type);
    for (int i = 0; i < n; i++)
        bytes *= (size_t)dims[i];
    void *data = malloc(bytes + 1);
    memcpy(data, values, bytes);
    TF_Tensor *t = TF_NewTensor(type, dims, n, data, bytes, free_data, NULL);
    CHECK(t);
    return t;
}

static UNUSED TF_Tensor *float_of(float v) { return tensor_of(TF_FLOAT, NULL, 0, &v); }
static UNUSED TF_Tensor *int_of(int32_t v) { return tensor_of(TF_INT32, NULL, 0, &v); }

static UNUSED TF_Output placeholder(TF_Graph *g, TF_DataType type, const char *name, TF_Status *s)
{
    TF_OperationDescription *d = TF_NewOperation(g, "Placeholder", name);
    TF_SetAttrType(d, "dtype", type);
    TF_Output o = {TF_FinishOperation(d, s), 0};
    CHECK_OK(s);
    return o;
}

/* A Const of t, which is deleted. */
static UNUSED TF_Output constant(TF_Graph *g, TF_Tensor *t, const char *name, TF_Status *s)
{
    TF_OperationDescription *d = TF_NewOperation(g, "Const", name);
    TF_SetAttrTensor(d, "value", t, s);
    CHECK_OK(s);
    TF_SetAttrType(d, "dtype", TF_TensorType(t));
    TF_Output o = {TF_FinishOperation(d, s), 0};
    CHECK_OK(s);
    TF_DeleteTensor(t);
    return o;
}

static UNUSED TF_Output unary(TF_Graph *g, const char *op, TF_Output x, const char *name, TF_Status *s)
{
    TF_OperationDescription *d = TF_NewOperation(g, op, name);
    TF_AddInput(d, x);
    TF_Output o = {TF_FinishOperation(d, s), 0};
    CHECK_OK(s);
    return o;
}

static UNUSED TF_Output binary(TF_Graph *g, const char *op, TF_Output x, TF_Output y,
                               const char *name, TF_Status *s)
{
    TF_OperationDescription *d = TF_NewOperation(g, op, name);
    TF_AddInput(d, x);
    TF_AddInput(d, y);
    TF_Output o = {TF_FinishOperation(d, s), 0};
    CHECK_OK(s);
    return o;
}

static UNUSED TF_Session *session_on(TF_Graph *g, TF_Status *s)
{
    TF_SessionOptions *o = TF_NewSessionOptions();
    TF_Session *session = TF_NewSession(g, o, s);
    CHECK_OK(s);
    TF_DeleteSessionOptions(o);
    return session;
}

static UNUSED void end_session(TF_Session *session, TF_Status *s)
{
    TF_CloseSession(session, s);
    CHECK_OK(s);
    TF_DeleteSession(session, s);
    CHECK_OK(s);
}

/* One fetch, with at most one feed (oper NULL: none). */
static UNUSED TF_Tensor *run1(TF_Session *session, TF_Output feed, TF_Tensor *value, TF_Output fetch,
                              TF_Status *s)
{
    TF_Tensor *out = NULL;
    TF_SessionRun(session, NULL, &feed, &value, feed.oper ? 1 : 0, &fetch, &out, 1, NULL, 0, NULL, s);
    CHECK_OK(s);
    CHECK(out);
    return out;
}

static UNUSED float take_float(TF_Tensor *t)
{
    CHECK(TF_TensorType(t) == TF_FLOAT && TF_TensorElementCount(t) == 1);
    float v = *(const float *)TF_TensorData(t);
    TF_DeleteTensor(t);
    return v;
}

static const TF_Output NOTHING UNUSED = {NULL, -1};

#endif
