/* capi/eager_test.c -- ops run one at a time. */
#include "tensorflow/c/c_api_experimental.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/thread.h"
#include "capi/internal.h"
#include "millrace/front_end.h"
#include "tensorflow/c/eager/c_api.h"
#include "tests/harness/test.h"

typedef struct eager {
    TFE_Context *ctx;
    TF_Status *status;
} eager;

#define OK(e) MR_CHECK_OK(mr_capi_status_copy((e)->status))

static eager begin(void)
{
    eager e = {.status = TF_NewStatus()};
    TFE_ContextOptions *o = TFE_NewContextOptions();
    e.ctx = TFE_NewContext(o, e.status);
    TFE_DeleteContextOptions(o);
    OK(&e);
    return e;
}

static void end(eager *e)
{
    TFE_DeleteContext(e->ctx);
    TF_DeleteStatus(e->status);
}

static TFE_TensorHandle *handle_of(eager *e, mr_tensor *t)
{
    TF_Tensor *tt = mr_capi_tensor_new(t);
    TFE_TensorHandle *h = TFE_NewTensorHandle(tt, e->status);
    TF_DeleteTensor(tt);
    OK(e);
    return h;
}

static TFE_TensorHandle *floats(eager *e, int n, const float *v)
{
    return handle_of(e, mr_tensor_of(MR_FLOAT, 1, (const int64_t[]){n}, v));
}

static float float_at(eager *e, TFE_TensorHandle *h, int i)
{
    TF_Tensor *t = TFE_TensorHandleResolve(h, e->status);
    OK(e);
    float v = ((const float *)TF_TensorData(t))[i];
    TF_DeleteTensor(t);
    return v;
}

static TFE_TensorHandle *run(eager *e, TFE_Op *op)
{
    TFE_TensorHandle *out = NULL;
    int n = 1;
    TFE_Execute(op, &out, &n, e->status);
    OK(e);
    MR_CHECK_INT(n, 1);
    TFE_DeleteOp(op);
    return out;
}

static TFE_TensorHandle *sum(eager *e, TFE_TensorHandle *a, TFE_TensorHandle *b)
{
    TFE_Op *op = TFE_NewOp(e->ctx, "AddV2", e->status);
    TFE_OpAddInput(op, a, e->status);
    TFE_OpAddInput(op, b, e->status);
    return run(e, op);
}

MR_TEST(eager_runs_an_op_again_and_again)
{
    eager e = begin();
    TFE_TensorHandle *x = floats(&e, 2, (const float[]){1, 2});
    for (int i = 0; i < 5; i++) {
        TFE_TensorHandle *y = sum(&e, x, x);
        MR_CHECK_NEAR(float_at(&e, y, 1), 2 * float_at(&e, x, 1), 0);
        MR_CHECK_STR(TFE_TensorHandleDeviceName(y, e.status), "/job:localhost/replica:0/task:0/device:CPU:0");
        TFE_DeleteTensorHandle(x);
        x = y;
    }
    MR_CHECK_INT(TFE_TensorHandleNumDims(x, e.status), 1);
    MR_CHECK_INT(TFE_TensorHandleDim(x, 0, e.status), 2);
    MR_CHECK_INT(TFE_TensorHandleNumElements(x, e.status), 2);
    TFE_DeleteTensorHandle(x);
    end(&e);
}

MR_TEST(eager_tells_ops_of_other_attrs_apart)
{
    eager e = begin();
    TFE_TensorHandle *m = handle_of(&e, mr_tensor_of(MR_FLOAT, 2, (const int64_t[]){2, 2}, (const float[]){1, 2, 3, 4}));
    for (int transposed = 0; transposed < 2; transposed++) {
        TFE_Op *op = TFE_NewOp(e.ctx, "MatMul", e.status);
        TFE_OpSetAttrBool(op, "transpose_a", transposed != 0);
        TFE_OpAddInput(op, m, e.status);
        TFE_OpAddInput(op, m, e.status);
        TFE_TensorHandle *y = run(&e, op);
        MR_CHECK_NEAR(float_at(&e, y, 0), transposed ? 10 : 7, 0);
        TFE_DeleteTensorHandle(y);
    }
    TFE_DeleteTensorHandle(m);
    end(&e);
}

/* Clients add lists as a list, or one by one with the attr that says how many. */
MR_TEST(eager_takes_lists_both_ways)
{
    eager e = begin();
    TFE_TensorHandle *x[] = {floats(&e, 1, (const float[]){1}), floats(&e, 1, (const float[]){2}), floats(&e, 1, (const float[]){4})};
    for (int flat = 0; flat < 2; flat++) {
        TFE_Op *op = TFE_NewOp(e.ctx, "ConcatV2", e.status);
        TFE_TensorHandle *axis = handle_of(&e, mr_tensor_scalar_i32(0));
        if (flat) {
            TFE_OpSetAttrInt(op, "N", 3);
            for (int i = 0; i < 3; i++)
                TFE_OpAddInput(op, x[i], e.status);
        } else {
            TFE_OpAddInputList(op, x, 3, e.status);
        }
        MR_CHECK_INT(TFE_OpGetFlatInputCount(op, e.status), 3);
        TFE_OpAddInput(op, axis, e.status);
        MR_CHECK_INT(TFE_OpGetInputLength(op, "values", e.status), 3);
        TFE_TensorHandle *y = run(&e, op);
        MR_CHECK_INT(TFE_TensorHandleNumElements(y, e.status), 3);
        MR_CHECK_NEAR(float_at(&e, y, 2), 4, 0);
        TFE_DeleteTensorHandle(y);
        TFE_DeleteTensorHandle(axis);
    }
    for (int i = 0; i < 3; i++)
        TFE_DeleteTensorHandle(x[i]);
    end(&e);
}

MR_TEST(eager_variables_live_as_long_as_their_context)
{
    eager e = begin();
    TFE_Op *op = TFE_NewOp(e.ctx, "VarHandleOp", e.status);
    TFE_OpSetAttrType(op, "dtype", TF_FLOAT);
    TFE_OpSetAttrShape(op, "shape", (const int64_t[]){1}, 1, e.status);
    TFE_OpSetAttrString(op, "shared_name", "v", 1);
    TFE_TensorHandle *v = run(&e, op), *x = floats(&e, 1, (const float[]){3});
    op = TFE_NewOp(e.ctx, "AssignVariableOp", e.status);
    TFE_OpAddInput(op, v, e.status);
    TFE_OpAddInput(op, x, e.status);
    int n = 0;
    TFE_Execute(op, NULL, &n, e.status);
    OK(&e);
    TFE_DeleteOp(op);
    op = TFE_NewOp(e.ctx, "ReadVariableOp", e.status);
    TFE_OpSetAttrType(op, "dtype", TF_FLOAT);
    TFE_OpAddInput(op, v, e.status);
    TFE_TensorHandle *y = run(&e, op);
    MR_CHECK_NEAR(float_at(&e, y, 0), 3, 0);
    TFE_DeleteTensorHandle(x);
    TFE_DeleteTensorHandle(y);
    TFE_DeleteTensorHandle(v);
    end(&e);
}

/* As in TensorFlow 1.x, a resource is to a client the bytes of its ResourceHandleProto: a copy of them names it too. */
MR_TEST(eager_takes_resources_as_the_bytes_of_their_handles)
{
    eager e = begin();
    TFE_Op *op = TFE_NewOp(e.ctx, "VarHandleOp", e.status);
    TFE_OpSetAttrType(op, "dtype", TF_FLOAT);
    TFE_OpSetAttrShape(op, "shape", (const int64_t[]){1}, 1, e.status);
    TFE_OpSetAttrString(op, "shared_name", "v", 1);
    TFE_TensorHandle *v = run(&e, op), *x = floats(&e, 1, (const float[]){3});
    op = TFE_NewOp(e.ctx, "AssignVariableOp", e.status);
    TFE_OpAddInput(op, v, e.status);
    TFE_OpAddInput(op, x, e.status);
    int n = 0;
    TFE_Execute(op, NULL, &n, e.status);
    OK(&e);
    TFE_DeleteOp(op);
    TF_Tensor *name = TFE_TensorHandleResolve(v, e.status);
    size_t bytes = TF_TensorByteSize(name);
    MR_CHECK(bytes > 0 && memmem(TF_TensorData(name), bytes, "localhost", 9));
    TF_Tensor *copy = TF_AllocateTensor(TF_RESOURCE, NULL, 0, bytes);
    memcpy(TF_TensorData(copy), TF_TensorData(name), bytes);
    TFE_TensorHandle *again = TFE_NewTensorHandle(copy, e.status);
    OK(&e);
    op = TFE_NewOp(e.ctx, "ReadVariableOp", e.status);
    TFE_OpSetAttrType(op, "dtype", TF_FLOAT);
    TFE_OpAddInput(op, again, e.status);
    TFE_TensorHandle *y = run(&e, op);
    MR_CHECK_NEAR(float_at(&e, y, 0), 3, 0);
    TF_DeleteTensor(name);
    TF_DeleteTensor(copy);
    TFE_DeleteTensorHandle(again);
    TFE_DeleteTensorHandle(x);
    TFE_DeleteTensorHandle(y);
    TFE_DeleteTensorHandle(v);
    end(&e);
}

/* f(x) = x + x */
static void add_function(eager *e)
{
    TF_Graph *g = TF_NewGraph();
    TF_OperationDescription *d = TF_NewOperation(g, "Placeholder", "x");
    TF_SetAttrType(d, "dtype", TF_FLOAT);
    TF_Output x = {TF_FinishOperation(d, e->status), 0};
    OK(e);
    d = TF_NewOperation(g, "AddV2", "y");
    TF_AddInput(d, x);
    TF_AddInput(d, x);
    TF_Output y = {TF_FinishOperation(d, e->status), 0};
    OK(e);
    TF_Function *f = TF_GraphToFunction(g, "twice", 0, -1, NULL, 1, &x, 1, &y, NULL, NULL, NULL, e->status);
    OK(e);
    TFE_ContextAddFunction(e->ctx, f, e->status);
    OK(e);
    TF_DeleteFunction(f);
    TF_DeleteGraph(g);
}

MR_TEST(eager_calls_functions_by_name)
{
    eager e = begin();
    add_function(&e);
    MR_CHECK(TFE_ContextHasFunction(e.ctx, "twice"));
    TFE_TensorHandle *x = floats(&e, 1, (const float[]){21});
    TFE_Op *op = TFE_NewOp(e.ctx, "twice", e.status);
    OK(&e);
    TFE_OpAddInput(op, x, e.status);
    TFE_TensorHandle *y = run(&e, op);
    MR_CHECK_NEAR(float_at(&e, y, 0), 42, 0);
    TFE_DeleteTensorHandle(y);
    TFE_ContextRemoveFunction(e.ctx, "twice", e.status);
    OK(&e);
    MR_CHECK(!TFE_NewOp(e.ctx, "twice", e.status));
    MR_CHECK_INT(TF_GetCode(e.status), TF_NOT_FOUND);
    TFE_DeleteTensorHandle(x);
    end(&e);
}

/* cppflow sets types that its inputs do not have; the inputs' count. */
MR_TEST(eager_types_of_inputs_come_before_those_said_later)
{
    eager e = begin();
    TFE_TensorHandle *dims = handle_of(&e, mr_tensor_vector_i64(1, (const int64_t[]){3})), *x = handle_of(&e, mr_tensor_scalar_f32(7));
    TFE_Op *op = TFE_NewOp(e.ctx, "Fill", e.status);
    TFE_OpAddInput(op, dims, e.status);
    TFE_OpAddInput(op, x, e.status);
    TFE_OpSetAttrType(op, "index_type", TF_INT32);
    TFE_TensorHandle *y = run(&e, op);
    MR_CHECK_INT(TFE_TensorHandleNumElements(y, e.status), 3);
    TFE_DeleteTensorHandle(y);
    op = TFE_NewOp(e.ctx, "Fill", e.status);
    TFE_OpSetAttrType(op, "index_type", TF_INT32);
    TFE_OpAddInput(op, dims, e.status);
    TFE_OpAddInput(op, x, e.status);
    int n = 1;
    TFE_Execute(op, &y, &n, e.status);
    MR_CHECK_INT(TF_GetCode(e.status), TF_INVALID_ARGUMENT);
    TFE_DeleteOp(op);
    TFE_DeleteTensorHandle(dims);
    TFE_DeleteTensorHandle(x);
    end(&e);
}

/* What one may do wrong. */
static void check_fails(eager *e, TFE_Op *op, const char *why)
{
    TFE_TensorHandle *out[2];
    int n = 2;
    TFE_Execute(op, out, &n, e->status);
    MR_CHECK_ERR(mr_capi_status_copy(e->status), MR_INVALID_ARGUMENT, why);
    MR_CHECK_INT(n, 0);
    TFE_DeleteOp(op);
}

MR_TEST(eager_says_what_is_wrong)
{
    eager e = begin();
    TFE_TensorHandle *x = floats(&e, 2, (const float[]){1, 2}), *y = floats(&e, 3, (const float[]){1, 2, 3});
    TFE_Op *op = TFE_NewOp(e.ctx, "AddV2", e.status);
    TFE_OpAddInput(op, x, e.status);
    check_fails(&e, op, "too few for its argument 'y'");
    op = TFE_NewOp(e.ctx, "Neg", e.status);
    TFE_OpAddInput(op, x, e.status);
    TFE_OpAddInput(op, x, e.status);
    check_fails(&e, op, "1 more than it takes");
    op = TFE_NewOp(e.ctx, "AddV2", e.status);
    TFE_OpAddInput(op, x, e.status);
    TFE_OpAddInput(op, y, e.status);
    check_fails(&e, op, "Incompatible shapes: [2] vs. [3]");
    op = TFE_NewOp(e.ctx, "MatMul", e.status);
    TFE_OpSetAttrInt(op, "transpose_a", 1);
    TFE_OpAddInput(op, x, e.status);
    TFE_OpAddInput(op, x, e.status);
    check_fails(&e, op, "transpose_a");
    MR_CHECK(!TFE_TensorHandleCopyToDevice(x, e.ctx, "/GPU:7", e.status));
    MR_CHECK_ERR(mr_capi_status_copy(e.status), MR_INVALID_ARGUMENT, "unknown device");
    TFE_TensorHandleNumDims(NULL, e.status);
    MR_CHECK_ERR(mr_capi_status_copy(e.status), MR_INVALID_ARGUMENT, "nullptr");
    TFE_DeleteTensorHandle(x);
    TFE_DeleteTensorHandle(y);
    end(&e);
}

MR_TEST(eager_hands_out_run_metadata)
{
    eager e = begin();
    TFE_TensorHandle *x = floats(&e, 1, (const float[]){1});
    TFE_ContextEnableRunMetadata(e.ctx);
    TFE_DeleteTensorHandle(sum(&e, x, x));
    TF_Buffer *b = TF_NewBuffer();
    TFE_ContextExportRunMetadata(e.ctx, b, e.status);
    OK(&e);
    MR_CHECK(b->length > 0);
    TF_DeleteBuffer(b);
    TFE_DeleteTensorHandle(x);
    end(&e);
}

MR_TEST(eager_infers_shapes_by_attrs_and_what_it_is_told_of_inputs)
{
    eager e = begin();
    TFE_Op *op = TFE_NewOp(e.ctx, "MatMul", e.status);
    TFE_OpSetAttrType(op, "T", TF_FLOAT);
    TFE_OpSetAttrBool(op, "transpose_b", 1);
    TF_ShapeAndTypeList *in = TF_NewShapeAndTypeList(2), *out = NULL;
    TF_ShapeAndTypeListSetShape(in, 0, (const int64_t[]){-1, 3}, 2);
    TF_ShapeAndTypeListSetShape(in, 1, (const int64_t[]){5, 3}, 2);
    TF_ShapeAndTypeListSetShape(in, 7, NULL, 0); /* out of range: ignored */
    for (int again = 0; again < 2; again++) {
        TFE_InferShapes(op, in, NULL, NULL, NULL, &out, NULL, e.status);
        OK(&e);
        MR_CHECK_INT(out->num_items, 1);
        MR_CHECK(out->items[0].num_dims == 2 && out->items[0].dims[0] == -1 && out->items[0].dims[1] == 5);
        TF_DeleteShapeAndTypeList(out);
    }
    TF_ShapeAndTypeListSetShape(in, 1, (const int64_t[]){5, 4}, 2);
    TFE_InferShapes(op, in, NULL, NULL, NULL, &out, NULL, e.status);
    MR_CHECK_INT(TF_GetCode(e.status), TF_INVALID_ARGUMENT);
    TFE_DeleteOp(op);
    /* a value that is known */
    op = TFE_NewOp(e.ctx, "Fill", e.status);
    TFE_OpSetAttrType(op, "T", TF_FLOAT);
    TF_ShapeAndTypeListSetShape(in, 0, (const int64_t[]){2}, 1);
    TF_ShapeAndTypeListSetShape(in, 1, NULL, 0);
    TF_Tensor *dims = mr_capi_tensor_new(mr_tensor_vector_i32(2, (const int32_t[]){7, 9})), *values[2] = {dims, NULL};
    TFE_InferShapes(op, in, values, NULL, NULL, &out, NULL, e.status);
    OK(&e);
    MR_CHECK(out->items[0].num_dims == 2 && out->items[0].dims[0] == 7 && out->items[0].dims[1] == 9);
    TF_DeleteShapeAndTypeList(out);
    TF_ShapeAndTypeListSetUnknownShape(in, 0);
    TFE_InferShapes(op, in, NULL, NULL, NULL, &out, NULL, e.status);
    OK(&e);
    MR_CHECK_INT(out->items[0].num_dims, -1);
    TF_DeleteShapeAndTypeList(out);
    TF_DeleteShapeAndTypeList(in);
    TF_DeleteTensor(dims);
    TFE_DeleteOp(op);
    TFE_TensorHandle *x = TFE_NewTensorHandleFromScalar(TF_FLOAT, &(float){2.5f}, 4, e.status);
    OK(&e);
    MR_CHECK_NEAR(float_at(&e, x, 0), 2.5, 0);
    TFE_DeleteTensorHandle(x);
    MR_CHECK(!TFE_NewTensorHandleFromScalar(TF_FLOAT, &(double){0}, 8, e.status));
    end(&e);
}

/* ---- ending an op ---- */

typedef struct pipe_read {
    mr_thread thread;
    eager e;
    const char *path;
    mr_interrupter *i;
} pipe_read;

static void read_pipe(void *arg)
{
    pipe_read *p = arg;
    TFE_TensorHandle *path = handle_of(&p->e, mr_tensor_scalar_str(mr_sv_of(p->path))), *out = NULL;
    TFE_Op *op = TFE_NewOp(p->e.ctx, "ReadFile", p->e.status);
    int n = 1;
    TFE_OpAddInput(op, path, p->e.status);
    mr_run_under(p->i);
    TFE_Execute(op, &out, &n, p->e.status);
    mr_run_under(NULL);
    TFE_DeleteOp(op);
    TFE_DeleteTensorHandle(path);
}

/* A pipe whose writer writes nothing; it can be opened without waiting once the op has opened the other end. */
MR_TEST(eager_op_that_waits_for_a_pipe_ends_with_the_interrupter_of_its_thread)
{
    char *path = mr_printf("%s/fifo", mr_test_dir());
    pipe_read p = {.e = begin(), .path = path, .i = mr_interrupter_new()};
    MR_CHECK_INT(mkfifo(path, 0600), 0);
    MR_CHECK_INT(mr_thread_start(&p.thread, "read", read_pipe, &p), 0);
    int writer;
    while ((writer = open(path, O_WRONLY | O_NONBLOCK)) < 0)
        sched_yield();
    mr_interrupter_fire(p.i);
    mr_thread_join(&p.thread);
    MR_CHECK_INT(TF_GetCode(p.e.status), TF_CANCELLED);
    TFE_TensorHandle *x = floats(&p.e, 1, (const float[]){2}), *y = sum(&p.e, x, x); /* the context is as it was */
    MR_CHECK_NEAR(float_at(&p.e, y, 0), 4, 0);
    TFE_DeleteTensorHandle(x);
    TFE_DeleteTensorHandle(y);
    close(writer);
    mr_interrupter_free(p.i);
    end(&p.e);
    mr_free(path);
}
