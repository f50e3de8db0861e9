/* tests/capi/user_op.c -- ops of the program's own: defined in C, computed in C, at once or later; one comes from
 * a library. */
#define _GNU_SOURCE
#include <pthread.h>

#include "client.h"
#include "tensorflow/c/kernels.h"
#include "tensorflow/c/ops.h"

/* ---- Scale: y = factor * x, with state made from an attr ---- */

static int n_made, n_freed;

static void *scale_create(TF_OpKernelConstruction *ctx)
{
    TF_Status *s = TF_NewStatus();
    float *factor = malloc(sizeof *factor);
    TF_OpKernelConstruction_GetAttrFloat(ctx, "factor", factor, s);
    if (TF_GetCode(s) != TF_OK)
        TF_OpKernelConstruction_Failure(ctx, s);
    else if (*factor == 0) {
        TF_SetStatus(s, TF_INVALID_ARGUMENT, "a factor of 0 makes no sense");
        TF_OpKernelConstruction_Failure(ctx, s);
    }
    TF_DeleteStatus(s);
    __atomic_add_fetch(&n_made, 1, __ATOMIC_RELAXED);
    return factor;
}

static void scale_compute(void *kernel, TF_OpKernelContext *ctx)
{
    const float factor = *(const float *)kernel;
    TF_Status *s = TF_NewStatus();
    TF_Tensor *x = NULL;
    int64_t dims[4];
    int forwarded = -2, candidates[] = {0};
    TF_GetInputByName(ctx, "x", &x, s);
    CHECK_OK(s);
    int n = TF_NumDims(x);
    int64_t count = TF_TensorElementCount(x);
    const float *in = TF_TensorData(x);
    for (int i = 0; i < n; i++)
        dims[i] = TF_Dim(x, i);
    TF_Tensor *y = TF_ForwardInputOrAllocateOutput(ctx, candidates, 1, 0, dims, n, &forwarded, s);
    CHECK_OK(s);
    CHECK(forwarded == -1); /* we hold x ourselves */
    CHECK(TF_ExpectedOutputDataType(ctx, 0) == TF_FLOAT && TF_NumInputs(ctx) == 1);
    for (int64_t i = 0; i < count; i++)
        ((float *)TF_TensorData(y))[i] = factor * in[i];
    TF_DeleteTensor(x);
    TF_DeleteTensor(y);
    TF_DeleteStatus(s);
}

static void scale_delete(void *kernel)
{
    free(kernel);
    __atomic_add_fetch(&n_freed, 1, __ATOMIC_RELAXED);
}

static void same_shape(TF_ShapeInferenceContext *ctx, TF_Status *s)
{
    TF_ShapeHandle *h = TF_NewShapeHandle();
    TF_ShapeInferenceContextGetInput(ctx, 0, h, s);
    if (TF_GetCode(s) == TF_OK)
        TF_ShapeInferenceContextWithRankAtMost(ctx, h, 4, h, s);
    if (TF_GetCode(s) == TF_OK)
        TF_ShapeInferenceContextSetOutput(ctx, 0, h, s);
    TF_DeleteShapeHandle(h);
}

static void define(const char *name, int with_factor)
{
    TF_Status *s = TF_NewStatus();
    TF_OpDefinitionBuilder *b = TF_NewOpDefinitionBuilder(name);
    TF_OpDefinitionBuilderAddInput(b, "x: T");
    TF_OpDefinitionBuilderAddOutput(b, "y: T");
    TF_OpDefinitionBuilderAddAttr(b, "T: {float, double}");
    if (with_factor)
        TF_OpDefinitionBuilderAddAttr(b, "factor: float = 2.0");
    TF_OpDefinitionBuilderSetShapeInferenceFunction(b, same_shape);
    TF_RegisterOpDefinition(b, s);
    CHECK_OK(s);
    TF_DeleteStatus(s);
}

static void add_kernel(TF_KernelBuilder *k, const char *name)
{
    TF_Status *s = TF_NewStatus();
    TF_KernelBuilder_TypeConstraint(k, "T", TF_FLOAT, s);
    CHECK_OK(s);
    TF_RegisterKernelBuilder(name, k, s);
    CHECK_OK(s);
    TF_DeleteStatus(s);
}

/* ---- Later: the same value, from another thread ---- */

typedef struct job {
    TF_OpKernelContext *ctx;
    TF_AsyncOpKernelDoneCallback *done;
} job;

static void *finish_later(void *arg)
{
    job *j = arg;
    TF_Status *s = TF_NewStatus();
    TF_Tensor *x = NULL;
    TF_GetInput(j->ctx, 0, &x, s);
    CHECK_OK(s);
    TF_SetOutput(j->ctx, 0, x, s);
    CHECK_OK(s);
    if (*(const float *)TF_TensorData(x) < 0) {
        TF_SetStatus(s, TF_OUT_OF_RANGE, "negative");
        TF_OpKernelContext_Failure(j->ctx, s);
    }
    TF_DeleteTensor(x);
    TF_DeleteStatus(s);
    TF_RunAsyncOpKernelDoneCallback(j->done);
    free(j);
    return NULL;
}

static void later_compute(void *kernel, TF_OpKernelContext *ctx, TF_AsyncOpKernelDoneCallback *done)
{
    (void)kernel;
    pthread_t t;
    job *j = malloc(sizeof *j);
    *j = (job){ctx, done};
    CHECK(pthread_create(&t, NULL, finish_later, j) == 0);
    pthread_detach(t);
}

/* ---- using them ---- */

static void check_scale(TF_Graph *g, TF_Status *s)
{
    TF_OperationDescription *d = TF_NewOperation(g, "ClientScale", "scale");
    TF_Output x = placeholder(g, TF_FLOAT, "x", s);
    TF_AddInput(d, x);
    TF_SetAttrFloat(d, "factor", 3);
    TF_Output y = {TF_FinishOperation(d, s), 0};
    CHECK_OK(s);
    TF_Session *session = session_on(g, s);
    const float v[] = {1, 2, 3};
    TF_Tensor *in = tensor_of(TF_FLOAT, (const int64_t[]){3}, 1, v), *out = run1(session, x, in, y, s);
    CHECK(TF_Dim(out, 0) == 3 && ((const float *)TF_TensorData(out))[2] == 9);
    TF_DeleteTensor(out);
    TF_DeleteTensor(in);
    end_session(session, s);
    CHECK(n_made == n_freed && n_made >= 1);
}

static void check_failures(TF_Graph *g, TF_Status *s)
{
    TF_Output c = constant(g, float_of(-1), "minus", s);
    TF_OperationDescription *d = TF_NewOperation(g, "ClientScale", "zero");
    TF_AddInput(d, placeholder(g, TF_FLOAT, "p", s));
    TF_SetAttrFloat(d, "factor", 0);
    TF_Output zero = {TF_FinishOperation(d, s), 0};
    CHECK_OK(s);
    TF_Output late = unary(g, "ClientLater", c, "late", s), fine = NOTHING;
    TF_Output one = constant(g, float_of(1), "one", s);
    fine = unary(g, "ClientLater", one, "fine", s);
    TF_Session *session = session_on(g, s);
    TF_Tensor *out = NULL;
    TF_SessionRun(session, NULL, NULL, NULL, 0, &zero, &out, 1, NULL, 0, NULL, s);
    CHECK(TF_GetCode(s) == TF_INVALID_ARGUMENT && strstr(TF_Message(s), "a factor of 0"));
    TF_SessionRun(session, NULL, NULL, NULL, 0, &late, &out, 1, NULL, 0, NULL, s);
    CHECK(TF_GetCode(s) == TF_OUT_OF_RANGE && strstr(TF_Message(s), "negative"));
    CHECK(!out);
    CHECK_NEAR(take_float(run1(session, NOTHING, NULL, fine, s)), 1);
    end_session(session, s);
    TF_Graph *other = TF_NewGraph(); /* a node that no device has a kernel for fails every step of its graph */
    d = TF_NewOperation(other, "ClientScale", "double");
    TF_AddInput(d, placeholder(other, TF_DOUBLE, "q", s));
    TF_Output no_kernel = {TF_FinishOperation(d, s), 0};
    CHECK_OK(s);
    session = session_on(other, s);
    TF_SessionRun(session, NULL, NULL, NULL, 0, &no_kernel, &out, 1, NULL, 0, NULL, s);
    CHECK(TF_GetCode(s) == TF_NOT_FOUND || TF_GetCode(s) == TF_INVALID_ARGUMENT);
    CHECK(strstr(TF_Message(s), "ClientScale"));
    end_session(session, s);
    TF_DeleteGraph(other);
}

static void check_library(const char *program, TF_Graph *g, TF_Status *s)
{
    char path[4096];
    snprintf(path, sizeof path, "%s_lib.so", program);
    TF_Library *l = TF_LoadLibrary(path, s), *again = NULL;
    CHECK_OK(s);
    TF_Buffer ops = TF_GetOpList(l);
    CHECK(ops.length > 13 && memmem(ops.data, ops.length, "LibraryNegate", 13));
    again = TF_LoadLibrary(path, s);
    CHECK_OK(s);
    TF_Buffer same = TF_GetOpList(again);
    CHECK(same.length == ops.length && memcmp(same.data, ops.data, ops.length) == 0);
    TF_DeleteLibraryHandle(l);
    TF_DeleteLibraryHandle(again);
    CHECK(!TF_LoadLibrary("/nowhere/none.so", s));
    CHECK(TF_GetCode(s) == TF_NOT_FOUND);

    TF_Output x = placeholder(g, TF_FLOAT, "lx", s), y = unary(g, "LibraryNegate", x, "ly", s);
    TF_Session *session = session_on(g, s);
    TF_Tensor *t = float_of(7);
    CHECK_NEAR(take_float(run1(session, x, t, y, s)), -7);
    TF_DeleteTensor(t);
    end_session(session, s);
}

int main(int argc, char **argv)
{
    (void)argc;
    define("ClientScale", 1);
    define("ClientLater", 0);
    add_kernel(TF_NewKernelBuilder("ClientScale", "CPU", scale_create, scale_compute, scale_delete),
               "scale");
    add_kernel(TF_NewAsyncKernelBuilder("ClientLater", "CPU", NULL, later_compute, NULL), "later");
    TF_Status *s = TF_NewStatus();
    TF_Graph *g = TF_NewGraph();
    check_scale(g, s);
    check_failures(g, s);
    check_library(argv[0], g, s);
    TF_Buffer *k = TF_GetRegisteredKernelsForOp("ClientScale", s);
    CHECK_OK(s);
    CHECK(k->length > 0 && memmem(k->data, k->length, "ClientScale", 11));
    TF_DeleteBuffer(k);
    TF_DeleteGraph(g);
    TF_DeleteStatus(s);
    return 0;
}
