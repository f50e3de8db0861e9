/* capi/graph_fixture.c */
#include "capi/graph_fixture.h"

#include <stdlib.h>

kit kit_new(void) { return (kit){TF_NewGraph(), TF_NewStatus()}; }

void kit_free(kit *r)
{
    TF_DeleteGraph(r->g);
    TF_DeleteStatus(r->s);
}

void kit_check(const char *file, int line, const TF_Status *s, TF_Code code, const char *text)
{
    if (TF_GetCode(s) != code || !strstr(TF_Message(s), text))
        mr_test_fail(file, line, "the status is %d \"%s\", expected %d \"%s\"", (int)TF_GetCode(s),
                     TF_Message(s), (int)code, text);
}

/* ---- tensors ---- */

static TF_Tensor *tensor_of(TF_DataType type, int num_dims, const int64_t *dims, const void *v)
{
    size_t bytes = TF_DataTypeSize(type);
    for (int i = 0; i < num_dims; i++)
        bytes *= (size_t)dims[i];
    TF_Tensor *t = TF_AllocateTensor(type, dims, num_dims, bytes);
    MR_CHECK(t);
    if (bytes)
        memcpy(TF_TensorData(t), v, bytes);
    return t;
}

TF_Tensor *kit_floats(int num_dims, const int64_t *dims, const float *v)
{
    return tensor_of(TF_FLOAT, num_dims, dims, v);
}

TF_Tensor *kit_float(float v) { return kit_floats(0, NULL, &v); }

TF_Tensor *kit_ints(int num_dims, const int64_t *dims, const int32_t *v)
{
    return tensor_of(TF_INT32, num_dims, dims, v);
}

TF_Tensor *kit_int(int32_t v) { return kit_ints(0, NULL, &v); }
TF_Tensor *kit_bool(bool v) { return tensor_of(TF_BOOL, 0, NULL, &v); }

TF_Tensor *kit_string(const char *v)
{
    TF_Tensor *t = TF_AllocateTensor(TF_STRING, NULL, 0, sizeof(TF_TString));
    TF_StringCopy(TF_TensorData(t), v, strlen(v));
    return t;
}

float kit_take_float(TF_Tensor *t)
{
    MR_CHECK(t && TF_TensorType(t) == TF_FLOAT && TF_TensorElementCount(t) == 1);
    float v = *(float *)TF_TensorData(t);
    TF_DeleteTensor(t);
    return v;
}

int32_t kit_take_int(TF_Tensor *t)
{
    MR_CHECK(t && TF_TensorType(t) == TF_INT32 && TF_TensorElementCount(t) == 1);
    int32_t v = *(int32_t *)TF_TensorData(t);
    TF_DeleteTensor(t);
    return v;
}

/* ---- operations ---- */

TF_Operation *kit_finish(kit *r, TF_OperationDescription *d)
{
    TF_Operation *op = TF_FinishOperation(d, r->s);
    CHECK_OK(r->s);
    MR_CHECK(op);
    return op;
}

TF_Output kit_placeholder(kit *r, const char *name, TF_DataType type)
{
    TF_OperationDescription *d = TF_NewOperation(r->g, "Placeholder", name);
    TF_SetAttrType(d, "dtype", type);
    return kit_out(kit_finish(r, d), 0);
}

TF_Output kit_const(kit *r, const char *name, TF_Tensor *value)
{
    TF_OperationDescription *d = TF_NewOperation(r->g, "Const", name);
    TF_SetAttrTensor(d, "value", value, r->s);
    CHECK_OK(r->s);
    TF_SetAttrType(d, "dtype", TF_TensorType(value));
    TF_DeleteTensor(value);
    return kit_out(kit_finish(r, d), 0);
}

TF_Output kit_unary(kit *r, const char *op, const char *name, TF_Output x)
{
    TF_OperationDescription *d = TF_NewOperation(r->g, op, name);
    TF_AddInput(d, x);
    return kit_out(kit_finish(r, d), 0);
}

TF_Output kit_binary(kit *r, const char *op, const char *name, TF_Output x, TF_Output y)
{
    TF_OperationDescription *d = TF_NewOperation(r->g, op, name);
    TF_AddInput(d, x);
    TF_AddInput(d, y);
    return kit_out(kit_finish(r, d), 0);
}

/* ---- running ---- */

TF_Session *kit_session(kit *r)
{
    TF_SessionOptions *o = TF_NewSessionOptions();
    TF_Session *s = TF_NewSession(r->g, o, r->s);
    CHECK_OK(r->s);
    TF_DeleteSessionOptions(o);
    return s;
}

void kit_close(kit *r, TF_Session *s)
{
    TF_CloseSession(s, r->s);
    CHECK_OK(r->s);
    TF_DeleteSession(s, r->s);
    CHECK_OK(r->s);
}

TF_Tensor *kit_run(kit *r, TF_Session *s, TF_Output feed, TF_Tensor *value, TF_Output fetch)
{
    TF_Tensor *out = NULL;
    TF_SessionRun(s, NULL, &feed, &value, feed.oper ? 1 : 0, &fetch, &out, 1, NULL, 0, NULL, r->s);
    return out;
}
