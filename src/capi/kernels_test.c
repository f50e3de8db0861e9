/* capi/kernels_test.c -- kernels written in C by clients. */
#include "tensorflow/c/kernels.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/thread.h"
#include "capi/graph_fixture.h"
#include "tensorflow/c/ops.h"

static const TF_Output none = {NULL, -1};

static void unknown_shape(TF_ShapeInferenceContext *ctx, TF_Status *s)
{
    TF_ShapeInferenceContextSetUnknownShape(ctx, s);
}

/* Registers an op from a list of texts, "name: spec" with i, o or a in front; stateful, so that
 * nothing runs it while the graph is built. */
static void define(kit *k, const char *name, const char *const *specs)
{
    TF_OpDefinitionBuilder *b = TF_NewOpDefinitionBuilder(name);
    for (; *specs; specs++) {
        const char *spec = *specs + 1;
        if (**specs == 'i')
            TF_OpDefinitionBuilderAddInput(b, spec);
        else if (**specs == 'o')
            TF_OpDefinitionBuilderAddOutput(b, spec);
        else
            TF_OpDefinitionBuilderAddAttr(b, spec);
    }
    TF_OpDefinitionBuilderSetIsStateful(b, true);
    TF_OpDefinitionBuilderSetShapeInferenceFunction(b, unknown_shape);
    TF_RegisterOpDefinition(b, k->s);
    CHECK_OK(k->s);
}
#define DEFINE(k, name, ...) define(k, name, (const char *const[]){__VA_ARGS__, NULL})

static void register_kernel(kit *k, const char *op, void *(*create)(TF_OpKernelConstruction *),
                            void (*compute)(void *, TF_OpKernelContext *))
{
    TF_RegisterKernelBuilder(op, TF_NewKernelBuilder(op, "CPU", create, compute, NULL), k->s);
    CHECK_OK(k->s);
}

/* Runs one target. */
static void run_op(kit *k, TF_Operation *op)
{
    TF_Session *s = kit_session(k);
    const TF_Operation *targets[] = {op};
    TF_SessionRun(s, NULL, NULL, NULL, 0, NULL, NULL, 0, targets, 1, NULL, k->s);
    TF_Status *st = TF_NewStatus();
    TF_CloseSession(s, st);
    TF_DeleteSession(s, st);
    TF_DeleteStatus(st);
}

/* ---- attrs ---- */

static void check_lists(TF_OpKernelConstruction *c, TF_Status *s)
{
    TF_DataType types[2];
    int32_t i32[2];
    int64_t i64[2], dims[2];
    float f[2];
    TF_Bool b[2];
    char *strings[2], room[5];
    size_t lengths[2];
    TF_OpKernelConstruction_GetAttrTypeList(c, "types", types, 2, s);
    MR_CHECK(types[0] == TF_FLOAT && types[1] == TF_INT32);
    TF_OpKernelConstruction_GetAttrInt32List(c, "ints", i32, 2, s);
    TF_OpKernelConstruction_GetAttrInt64List(c, "ints", i64, 2, s);
    MR_CHECK(i32[1] == -2 && i64[1] == -2);
    TF_OpKernelConstruction_GetAttrFloatList(c, "floats", f, 1, s);
    MR_CHECK_NEAR(f[0], 1, 0);
    TF_OpKernelConstruction_GetAttrBoolList(c, "bools", b, 2, s);
    MR_CHECK(b[0] == 1 && b[1] == 0);
    TF_OpKernelConstruction_GetAttrTensorShape(c, "shape", dims, 2, s);
    MR_CHECK(dims[0] == 2 && dims[1] == -1);
    CHECK_OK(s);
    TF_OpKernelConstruction_GetAttrStringList(c, "strings", strings, lengths, 2, room, 5, s);
    CHECK_OK(s);
    MR_CHECK(lengths[0] == 2 && lengths[1] == 3 && memcmp(room, "abcde", 5) == 0);
    TF_OpKernelConstruction_GetAttrStringList(c, "strings", strings, lengths, 2, room, 4, s);
    CHECK_CODE(s, TF_INVALID_ARGUMENT, "Not enough storage");
}

static void check_sizes(TF_OpKernelConstruction *c, TF_Status *s)
{
    int32_t n, total;
    TF_OpKernelConstruction_GetAttrSize(c, "strings", &n, &total, s);
    MR_CHECK(n == 2 && total == 5);
    TF_OpKernelConstruction_GetAttrSize(c, "shape", &n, &total, s);
    MR_CHECK(n == -1 && total == 2);
    TF_OpKernelConstruction_GetAttrSize(c, "ints", &n, &total, s);
    MR_CHECK(n == 2 && total == -1);
    TF_OpKernelConstruction_GetAttrSize(c, "none", &n, &total, s);
    CHECK_CODE(s, TF_INVALID_ARGUMENT, "has no attr named 'none'");
}

static void *check_attrs(TF_OpKernelConstruction *c)
{
    TF_Status *s = TF_NewStatus();
    int32_t i32;
    int64_t i64;
    float f;
    TF_Bool b;
    TF_DataType t;
    char text[4];
    TF_Tensor *tensor = NULL, *tensors[1];
    TF_StringView name = TF_OpKernelConstruction_GetName(c);
    MR_CHECK(name.len == 5 && memcmp(name.data, "attrs", 5) == 0);
    TF_OpKernelConstruction_GetAttrInt32(c, "int", &i32, s);
    MR_CHECK_INT(i32, 5);
    TF_OpKernelConstruction_GetAttrInt64(c, "large", &i64, s);
    MR_CHECK_INT(i64, 1ll << 40);
    CHECK_OK(s);
    TF_OpKernelConstruction_GetAttrInt32(c, "large", &i32, s);
    CHECK_CODE(s, TF_INVALID_ARGUMENT, "out of range for an int32");
    TF_OpKernelConstruction_GetAttrFloat(c, "float", &f, s);
    MR_CHECK_NEAR(f, 0.5, 0);
    TF_OpKernelConstruction_GetAttrBool(c, "bool", &b, s);
    MR_CHECK_INT(b, 1);
    TF_OpKernelConstruction_GetAttrType(c, "type", &t, s);
    MR_CHECK_INT(t, TF_HALF);
    TF_OpKernelConstruction_GetAttrString(c, "string", text, 4, s);
    MR_CHECK(memcmp(text, "long", 4) == 0);
    TF_OpKernelConstruction_GetAttrTensor(c, "tensor", &tensor, s);
    CHECK_OK(s);
    MR_CHECK_NEAR(kit_take_float(tensor), 7, 0);
    TF_OpKernelConstruction_GetAttrTensorList(c, "_tensors", tensors, 1, s);
    CHECK_OK(s);
    MR_CHECK_NEAR(kit_take_float(tensors[0]), 8, 0);
    MR_CHECK(TF_OpKernelConstruction_HasAttr(c, "int", s));
    MR_CHECK(!TF_OpKernelConstruction_HasAttr(c, "none", s));
    CHECK_OK(s);
    TF_OpKernelConstruction_GetAttrInt64(c, "none", &i64, s);
    MR_CHECK_INT(TF_GetCode(s), TF_NOT_FOUND);
    TF_OpKernelConstruction_GetAttrInt64(c, "float", &i64, s);
    MR_CHECK_INT(TF_GetCode(s), TF_INVALID_ARGUMENT);
    TF_OpKernelConstruction_GetAttrFloatList(c, "ints", &f, 1, s);
    MR_CHECK_INT(TF_GetCode(s), TF_INVALID_ARGUMENT);
    check_lists(c, s);
    check_sizes(c, s);
    TF_DeleteStatus(s);
    return NULL;
}

static void nothing(void *kernel, TF_OpKernelContext *c) { (void)kernel, (void)c; }

MR_TEST(capi_kernel_sees_the_attrs_of_its_node)
{
    kit k = kit_new();
    DEFINE(&k, "TestAttrs", "aint: int = 5", "alarge: int = 1099511627776", "afloat: float = 0.5",
           "abool: bool = true", "atype: type = DT_HALF", "astring: string = 'longer'",
           "atypes: list(type) = [DT_FLOAT, DT_INT32]", "aints: list(int) = [1, -2]",
           "afloats: list(float) = [1, 2]", "abools: list(bool) = [true, false]",
           "astrings: list(string) = ['ab', 'cde']", "ashape: shape", "atensor: tensor");
    register_kernel(&k, "TestAttrs", check_attrs, nothing);
    TF_OperationDescription *d = TF_NewOperation(k.g, "TestAttrs", "attrs");
    TF_Tensor *seven = kit_float(7), *eight = kit_float(8);
    TF_SetAttrShape(d, "shape", (int64_t[]){2, -1}, 2);
    TF_SetAttrTensor(d, "tensor", seven, k.s);
    TF_SetAttrTensorList(d, "_tensors", &eight, 1, k.s);
    run_op(&k, kit_finish(&k, d));
    CHECK_OK(k.s);
    TF_DeleteTensor(seven);
    TF_DeleteTensor(eight);
    kit_free(&k);
}

/* ---- inputs and outputs ---- */

static void check_context(void *kernel, TF_OpKernelContext *c)
{
    (void)kernel;
    TF_Status *s = TF_NewStatus();
    TF_Tensor *x = NULL, *none_such = NULL;
    MR_CHECK(TF_NumInputs(c) == 3 && TF_NumOutputs(c) == 3);
    MR_CHECK(TF_InputDatatype(c, 0) == TF_FLOAT && TF_InputDatatype(c, 9) == 0);
    MR_CHECK(!TF_IsRefInput(c, 0, s));
    TF_IsRefInput(c, 3, s);
    CHECK_CODE(s, TF_OUT_OF_RANGE, "input index out of range");
    TF_GetInput(c, 3, &none_such, s);
    CHECK_CODE(s, TF_OUT_OF_RANGE, "input index out of range");
    TF_GetInputByName(c, "xs", &none_such, s);
    CHECK_CODE(s, TF_INVALID_ARGUMENT, "list-valued input name 'xs'");
    TF_GetInputByName(c, "zz", &none_such, s);
    CHECK_CODE(s, TF_INVALID_ARGUMENT, "Unknown input name: zz");
    TF_GetInputByName(c, "x", &x, s);
    CHECK_OK(s);
    TF_SetOutput(c, 1, x, s); /* another type */
    MR_CHECK_INT(TF_GetCode(s), TF_INVALID_ARGUMENT);
    TF_SetOutput(c, 7, x, s);
    CHECK_CODE(s, TF_OUT_OF_RANGE, "output index out of range");
    TF_SetOutput(c, 0, x, s);
    CHECK_OK(s);
    TF_DeleteTensor(x);
    MR_CHECK(!TF_GetMutableOutput(c, 1, s)); /* not set yet */
    MR_CHECK_INT(TF_GetCode(s), TF_FAILED_PRECONDITION);
    TF_Tensor *y = TF_AllocateOutput(c, 1, TF_INT32, (int64_t[]){2}, 1, 8, s);
    CHECK_OK(s);
    ((int32_t *)TF_TensorData(y))[0] = 1;
    TF_Tensor *same = TF_GetMutableOutput(c, 1, s);
    MR_CHECK(TF_TensorData(same) == TF_TensorData(y));
    ((int32_t *)TF_TensorData(same))[1] = 2;
    MR_CHECK(!TF_AllocateOutput(c, 1, TF_FLOAT, NULL, 0, 4, s));
    MR_CHECK(!TF_AllocateOutput(c, 1, TF_INT32, (int64_t[]){-3}, 1, 4, s));
    MR_CHECK_INT(TF_GetCode(s), TF_INVALID_ARGUMENT);
    TF_Tensor *temp = TF_AllocateTemp(c, TF_DOUBLE, (int64_t[]){5}, 1, NULL, s);
    CHECK_OK(s);
    MR_CHECK_INT(TF_TensorByteSize(temp), 40);
    TF_DeleteTensor(y);
    TF_DeleteTensor(same);
    TF_DeleteTensor(temp);
    int forwarded = 0;
    TF_Tensor *z = TF_ForwardInputOrAllocateOutput(c, (int[]){9, -1}, 2, 2, NULL, 0, &forwarded, s);
    CHECK_OK(s);
    MR_CHECK_INT(forwarded, -1);
    *(float *)TF_TensorData(z) = 3;
    TF_DeleteTensor(z);
    TF_StringView name = TF_GetOpKernelName(c), device = TF_GetDeviceName(c);
    MR_CHECK(name.len == 1 && name.data[0] == 'n');
    MR_CHECK(device.len > 0 && TF_GetDeviceId(c) == 0);
    MR_CHECK_INT(TF_GetStepId(c), TF_StepId(c));
    MR_CHECK(TF_GetFrameId(c) == 0 && TF_GetIterId(c) == 0);
    MR_CHECK_INT(TF_GetGraphDefVersion(c), 1087);
    TF_DeleteStatus(s);
}

MR_TEST(capi_kernel_takes_inputs_and_gives_outputs)
{
    kit k = kit_new();
    DEFINE(&k, "TestContext", "ix: float", "ixs: N * int32", "oy: float", "oz: int32", "ow: float",
           "aN: int");
    register_kernel(&k, "TestContext", NULL, check_context);
    TF_OperationDescription *d = TF_NewOperation(k.g, "TestContext", "n");
    TF_Output i = kit_const(&k, "i", kit_int(4)), two[2] = {i, i}, fetches[3];
    TF_AddInput(d, kit_const(&k, "x", kit_float(2)));
    TF_AddInputList(d, two, 2);
    TF_Operation *op = kit_finish(&k, d);
    TF_Session *s = kit_session(&k);
    TF_Tensor *out[3];
    for (int n = 0; n < 3; n++)
        fetches[n] = (TF_Output){op, n};
    TF_SessionRun(s, NULL, NULL, NULL, 0, fetches, out, 3, NULL, 0, NULL, k.s);
    CHECK_OK(k.s);
    MR_CHECK_NEAR(kit_take_float(out[0]), 2, 0);
    MR_CHECK(((int32_t *)TF_TensorData(out[1]))[1] == 2);
    TF_DeleteTensor(out[1]);
    MR_CHECK_NEAR(kit_take_float(out[2]), 3, 0);
    kit_close(&k, s);
    kit_free(&k);
}

/* y = x in the memory of x where nobody else has it. */
static int n_forwarded;

static void forward(void *kernel, TF_OpKernelContext *c)
{
    (void)kernel;
    TF_Status *s = TF_NewStatus();
    int forwarded = -1;
    TF_Tensor *y =
        TF_ForwardInputOrAllocateOutput(c, (int[]){0}, 1, 0, (int64_t[]){4}, 1, &forwarded, s);
    CHECK_OK(s);
    if (forwarded == 0)
        n_forwarded++;
    else
        memset(TF_TensorData(y), 0, TF_TensorByteSize(y));
    TF_DeleteTensor(y);
    TF_DeleteStatus(s);
}

MR_TEST(capi_kernel_writes_over_an_input_nobody_needs)
{
    kit k = kit_new();
    DEFINE(&k, "TestForward", "ix: float", "oy: float");
    register_kernel(&k, "TestForward", NULL, forward);
    TF_Output x = kit_placeholder(&k, "x", TF_FLOAT), y = kit_unary(&k, "Neg", "y", x);
    TF_Output z = kit_unary(&k, "TestForward", "z", y);
    TF_Session *s = kit_session(&k);
    TF_Tensor *v = kit_floats(1, (int64_t[]){4}, (float[]){1, 2, 3, 4});
    TF_Tensor *r = kit_run(&k, s, x, v, z);
    CHECK_OK(k.s);
    MR_CHECK_INT(n_forwarded, 1);
    MR_CHECK_NEAR(((float *)TF_TensorData(r))[3], -4, 0);
    TF_DeleteTensor(r);
    TF_DeleteTensor(v);
    kit_close(&k, s);
    kit_free(&k);
}

static void fails(void *kernel, TF_OpKernelContext *c)
{
    (void)kernel;
    TF_Status *s = TF_NewStatus();
    TF_SetStatus(s, TF_DATA_LOSS, "first");
    TF_OpKernelContext_Failure(c, s);
    TF_SetStatus(s, TF_ABORTED, "second");
    TF_OpKernelContext_Failure(c, s);
    TF_DeleteStatus(s);
}

MR_TEST(capi_kernel_failure_is_that_of_the_run)
{
    kit k = kit_new();
    DEFINE(&k, "TestFails", "oy: float");
    DEFINE(&k, "TestForgets", "oy: float");
    register_kernel(&k, "TestFails", NULL, fails);
    register_kernel(&k, "TestForgets", NULL, nothing);
    run_op(&k, kit_finish(&k, TF_NewOperation(k.g, "TestFails", "f")));
    CHECK_CODE(k.s, TF_DATA_LOSS, "first\n\t [[{{node f}}]]");
    run_op(&k, kit_finish(&k, TF_NewOperation(k.g, "TestForgets", "g")));
    CHECK_CODE(k.s, TF_INTERNAL, "Missing 0-th output from {{node g}}");
    kit_free(&k);
}

/* ---- kernels that wait ---- */

static mr_mutex meet_mu = {PTHREAD_MUTEX_INITIALIZER};
static int n_present;

/* Returns when both are in here, or after ten seconds. */
static void meets(void *kernel, TF_OpKernelContext *c)
{
    (void)kernel;
    bool both = false;
    mr_lock(&meet_mu);
    n_present++;
    mr_unlock(&meet_mu);
    for (int64_t until = mr_now_ns() + 10000000000; !both && mr_now_ns() < until; mr_sleep_ns(100000)) {
        mr_lock(&meet_mu);
        both = n_present == 2;
        mr_unlock(&meet_mu);
    }
    if (both)
        return;
    TF_Status *s = TF_NewStatus();
    TF_SetStatus(s, TF_ABORTED, "the other one did not come");
    TF_OpKernelContext_Failure(c, s);
    TF_DeleteStatus(s);
}

MR_TEST(capi_kernels_that_wait_for_each_other_run_at_once)
{
    kit k = kit_new();
    DEFINE(&k, "TestMeets", "tT: type");
    register_kernel(&k, "TestMeets", NULL, meets);
    unsigned char one_thread[] = {0x10, 1, 0x28, 1}; /* ConfigProto: intra and inter threads */
    const TF_Operation *both[2];
    for (int i = 0; i < 2; i++) {
        TF_OperationDescription *d = TF_NewOperation(k.g, "TestMeets", i ? "b" : "a");
        TF_SetAttrType(d, "T", TF_FLOAT);
        both[i] = kit_finish(&k, d);
    }
    TF_SessionOptions *o = TF_NewSessionOptions();
    TF_SetConfig(o, one_thread, sizeof one_thread, k.s);
    TF_Session *s = TF_NewSession(k.g, o, k.s);
    CHECK_OK(k.s);
    TF_DeleteSessionOptions(o);
    TF_SessionRun(s, NULL, NULL, NULL, 0, NULL, NULL, 0, both, 2, NULL, k.s);
    CHECK_OK(k.s);
    kit_close(&k, s);
    kit_free(&k);
}

/* ---- which kernel ---- */

static void give(TF_OpKernelContext *c, float v)
{
    TF_Status *s = TF_NewStatus();
    TF_Tensor *y = TF_AllocateOutput(c, 0, TF_FLOAT, NULL, 0, 4, s);
    CHECK_OK(s);
    *(float *)TF_TensorData(y) = v;
    TF_DeleteTensor(y);
    TF_DeleteStatus(s);
}

static void give1(void *kernel, TF_OpKernelContext *c) { (void)kernel, give(c, 1); }
static void give2(void *kernel, TF_OpKernelContext *c) { (void)kernel, give(c, 2); }
static void give3(void *kernel, TF_OpKernelContext *c) { (void)kernel, give(c, 3); }

static float choose(kit *k, const char *name, TF_DataType t, const char *label)
{
    TF_OperationDescription *d = TF_NewOperation(k->g, "TestChoice", name);
    TF_SetAttrType(d, "T", t);
    if (label)
        TF_SetAttrString(d, "_kernel", label, strlen(label));
    TF_Output y = {kit_finish(k, d), 0};
    TF_Session *s = kit_session(k);
    TF_Tensor *r = kit_run(k, s, none, NULL, y);
    float v = r ? kit_take_float(r) : -1;
    TF_DeleteSession(s, TF_GetCode(k->s) ? NULL : k->s);
    return v;
}

MR_TEST(capi_kernel_is_chosen_by_type_priority_and_label)
{
    kit k = kit_new();
    DEFINE(&k, "TestChoice", "aT: type", "oy: float");
    TF_KernelBuilder *a = TF_NewKernelBuilder("TestChoice", "CPU", NULL, give1, NULL);
    TF_KernelBuilder_TypeConstraint(a, "T", TF_FLOAT, k.s);
    TF_KernelBuilder_TypeConstraint(a, "T", TF_INT32, k.s); /* either */
    CHECK_OK(k.s);
    TF_KernelBuilder_TypeConstraint(a, "T", (TF_DataType)99, k.s);
    CHECK_CODE(k.s, TF_UNIMPLEMENTED, "Unexpected type 99");
    TF_KernelBuilder *b = TF_NewKernelBuilder("TestChoice", "CPU", NULL, give2, NULL);
    TF_KernelBuilder_TypeConstraint(b, "T", TF_INT32, k.s);
    TF_KernelBuilder_Priority(b, 5);
    TF_KernelBuilder *c = TF_NewKernelBuilder("TestChoice", "CPU", NULL, give3, NULL);
    TF_KernelBuilder_Label(c, "special");
    TF_KernelBuilder_HostMemory(c, "y");
    TF_RegisterKernelBuilder("a", a, k.s);
    TF_RegisterKernelBuilder("b", b, k.s);
    TF_RegisterKernelBuilder("c", c, k.s);
    CHECK_OK(k.s);
    MR_CHECK_NEAR(choose(&k, "f", TF_FLOAT, NULL), 1, 0);
    MR_CHECK_NEAR(choose(&k, "i", TF_INT32, NULL), 2, 0);
    MR_CHECK_NEAR(choose(&k, "l", TF_FLOAT, "special"), 3, 0);
    MR_CHECK_NEAR(choose(&k, "d", TF_DOUBLE, NULL), -1, 0); /* none */
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "No OpKernel was registered to support Op 'TestChoice'");
    TF_Buffer *list = TF_GetRegisteredKernelsForOp("TestChoice", k.s);
    MR_CHECK(memmem(list->data, list->length, "special", 7));
    MR_CHECK(memmem(list->data, list->length, "\x22\x01y", 3)); /* host_memory_arg */
    TF_DeleteBuffer(list);
    kit_free(&k);
}

MR_TEST(capi_kernel_builders_that_make_no_sense_are_refused)
{
    kit k = kit_new();
    TF_RegisterKernelBuilder("x", NULL, k.s);
    MR_CHECK_INT(TF_GetCode(k.s), TF_INVALID_ARGUMENT);
    TF_RegisterKernelBuilder("x", TF_NewKernelBuilder("NoOp", "CPU", NULL, NULL, NULL), k.s);
    MR_CHECK_INT(TF_GetCode(k.s), TF_INVALID_ARGUMENT);
    TF_RegisterKernelBuilder(NULL, TF_NewKernelBuilder(NULL, NULL, NULL, nothing, NULL), k.s);
    MR_CHECK_INT(TF_GetCode(k.s), TF_INVALID_ARGUMENT);
    TF_DeleteKernelBuilder(NULL);
    TF_KernelBuilder *b = TF_NewKernelBuilder("NoOp", "CPU", NULL, nothing, NULL);
    TF_KernelBuilder_TypeConstraint(b, "T", TF_FLOAT, k.s);
    TF_KernelBuilder_HostMemory(b, "x");
    TF_KernelBuilder_Label(b, "l");
    TF_DeleteKernelBuilder(b);
    kit_free(&k);
}

/* ---- variables ---- */

static int n_copies;

static void copy(TF_OpKernelContext *c, TF_Tensor *from, TF_Tensor *to)
{
    (void)c;
    n_copies++;
    memcpy(TF_TensorData(to), TF_TensorData(from), TF_TensorByteSize(from));
}

static void set_variable(void *kernel, TF_OpKernelContext *c)
{
    (void)kernel;
    TF_Status *s = TF_NewStatus();
    TF_AssignVariable(c, 0, 1, copy, s);
    if (TF_GetCode(s) != TF_OK)
        TF_OpKernelContext_Failure(c, s);
    TF_DeleteStatus(s);
}

static void add_to(TF_OpKernelContext *c, TF_Tensor *t, TF_Tensor *value, int op)
{
    (void)c;
    MR_CHECK_INT(op, 42);
    *(float *)TF_TensorData(t) += *(float *)TF_TensorData(value);
}

static void update_variable(void *kernel, TF_OpKernelContext *c)
{
    (void)kernel;
    TF_Status *s = TF_NewStatus();
    TF_AssignUpdateVariable(c, 0, 1, 42, 0, copy, add_to, s);
    if (TF_GetCode(s) != TF_OK)
        TF_OpKernelContext_Failure(c, s);
    TF_DeleteStatus(s);
}

static void scale_variable(void *kernel, TF_OpKernelContext *c)
{
    (void)kernel;
    TF_Status *s = TF_NewStatus();
    TF_VariableInputLockHolder *held = NULL;
    TF_Tensor *t = NULL, *value = NULL;
    TF_MaybeLockVariableInputMutexesInOrder(c, true, true, (int[]){7}, 1, copy, &held, s);
    CHECK_CODE(s, TF_OUT_OF_RANGE, "input index out of range");
    MR_CHECK(!held);
    TF_MaybeLockVariableInputMutexesInOrder(c, true, true, (int[]){0, 0}, 2, copy, &held, s);
    CHECK_OK(s);
    TF_GetInputTensorFromVariable(c, 0, true, false, true, copy, &t, s);
    CHECK_OK(s);
    TF_GetInput(c, 1, &value, s);
    *(float *)TF_TensorData(t) *= *(float *)TF_TensorData(value);
    TF_ReleaseVariableInputLockHolder(held);
    TF_ReleaseVariableInputLockHolder(NULL);
    TF_DeleteTensor(t);
    TF_DeleteTensor(value);
    TF_DeleteStatus(s);
}

static TF_Output handle(kit *k)
{
    TF_OperationDescription *d = TF_NewOperation(k->g, "VarHandleOp", "v");
    TF_SetAttrType(d, "dtype", TF_FLOAT);
    TF_SetAttrShape(d, "shape", NULL, 0);
    TF_SetAttrString(d, "shared_name", "v", 1);
    return (TF_Output){kit_finish(k, d), 0};
}

static void run_target(kit *k, TF_Session *s, TF_Output o)
{
    const TF_Operation *t[] = {o.oper};
    TF_SessionRun(s, NULL, NULL, NULL, 0, NULL, NULL, 0, t, 1, NULL, k->s);
}

MR_TEST(capi_kernel_assigns_and_updates_variables)
{
    kit k = kit_new();
    DEFINE(&k, "TestSet", "iv: resource", "ix: float");
    DEFINE(&k, "TestUpdate", "iv: resource", "ix: float");
    DEFINE(&k, "TestScale", "iv: resource", "ix: float");
    register_kernel(&k, "TestSet", NULL, set_variable);
    register_kernel(&k, "TestUpdate", NULL, update_variable);
    register_kernel(&k, "TestScale", NULL, scale_variable);
    TF_Output v = handle(&k), x = kit_const(&k, "x", kit_float(10));
    TF_Output set = kit_binary(&k, "TestSet", "set", v, x);
    TF_Output update = kit_binary(&k, "TestUpdate", "update", v, x);
    TF_Output scale = kit_binary(&k, "TestScale", "scale", v, x);
    TF_OperationDescription *d = TF_NewOperation(k.g, "ReadVariableOp", "read");
    TF_AddInput(d, v);
    TF_SetAttrType(d, "dtype", TF_FLOAT);
    TF_Output read = {kit_finish(&k, d), 0};
    TF_Session *s = kit_session(&k);
    run_target(&k, s, update);
    MR_CHECK_INT(TF_GetCode(k.s), TF_NOT_FOUND); /* there is no variable yet */
    run_target(&k, s, set);
    CHECK_OK(k.s);
    TF_Tensor *before = kit_run(&k, s, none, NULL, read);
    run_target(&k, s, update);
    CHECK_OK(k.s);
    MR_CHECK(n_copies > 0); /* x and `before` share the value: it was copied first */
    MR_CHECK_NEAR(kit_take_float(before), 10, 0);
    MR_CHECK_NEAR(kit_take_float(kit_run(&k, s, none, NULL, read)), 20, 0);
    run_target(&k, s, scale);
    CHECK_OK(k.s);
    MR_CHECK_NEAR(kit_take_float(kit_run(&k, s, none, NULL, read)), 200, 0);
    run_target(&k, s, set);
    CHECK_OK(k.s);
    MR_CHECK_NEAR(kit_take_float(kit_run(&k, s, none, NULL, read)), 10, 0);
    kit_close(&k, s);
    kit_free(&k);
}

static void pass_ref(void *kernel, TF_OpKernelContext *c)
{
    (void)kernel;
    TF_Status *s = TF_NewStatus();
    TF_Tensor *x = NULL;
    MR_CHECK(TF_IsRefInput(c, 0, s));
    TF_GetInput(c, 0, &x, s);
    CHECK_OK(s);
    MR_CHECK_NEAR(kit_take_float(x), 3, 0);
    TF_OpKernelContext_ForwardRefInputToRefOutput(c, 5, 0); /* nothing happens */
    TF_OpKernelContext_ForwardRefInputToRefOutput(c, 0, 0);
    TF_DeleteStatus(s);
}

MR_TEST(capi_kernel_passes_references_on)
{
    kit k = kit_new();
    DEFINE(&k, "TestPassRef", "ix: Ref(float)", "oy: Ref(float)");
    register_kernel(&k, "TestPassRef", NULL, pass_ref);
    TF_OperationDescription *d = TF_NewOperation(k.g, "VariableV2", "v");
    TF_SetAttrType(d, "dtype", TF_FLOAT);
    TF_SetAttrShape(d, "shape", NULL, 0);
    TF_Output v = {kit_finish(&k, d), 0};
    TF_Output init = kit_binary(&k, "Assign", "init", v, kit_const(&k, "three", kit_float(3)));
    TF_Output ref = kit_unary(&k, "TestPassRef", "pass", init);
    TF_Session *s = kit_session(&k);
    MR_CHECK_NEAR(kit_take_float(kit_run(&k, s, none, NULL, ref)), 3, 0);
    CHECK_OK(k.s);
    kit_close(&k, s);
    kit_free(&k);
}

/* ---- ops that we only know of ---- */

static void answer_7(void *state, TF_OpKernelContext *ctx)
{
    (void)state;
    TF_Status *s = TF_NewStatus();
    TF_Tensor *t = TF_AllocateOutput(ctx, 0, TF_INT32, NULL, 0, 4, s);
    if (t)
        *(int32_t *)TF_TensorData(t) = 7;
    TF_DeleteTensor(t);
    TF_DeleteStatus(s);
}

/* A front end of others brings its own PyFunc; ours says only that there is none. */
MR_TEST(capi_kernels_of_a_client_come_before_those_that_say_what_is_missing)
{
    kit k = kit_new();
    TF_OperationDescription *d = TF_NewOperation(k.g, "PyFuncStateless", "f");
    TF_AddInputList(d, NULL, 0);
    TF_SetAttrString(d, "token", "t", 1);
    TF_SetAttrTypeList(d, "Tin", NULL, 0);
    TF_SetAttrTypeList(d, "Tout", (TF_DataType[]){TF_INT32}, 1);
    TF_Output y = kit_out(kit_finish(&k, d), 0);
    register_kernel(&k, "PyFuncStateless", NULL, answer_7);
    TF_Session *s = kit_session(&k);
    TF_Tensor *t = kit_run(&k, s, none, NULL, y);
    CHECK_OK(k.s);
    MR_CHECK_INT(kit_take_int(t), 7);
    kit_close(&k, s);
    kit_free(&k);
}

/* ---- what later headers ask ---- */

static void *look_at_the_node(TF_OpKernelConstruction *c)
{
    TF_Status *s = TF_NewStatus();
    TF_Buffer *def = TF_OpKernelConstruction_GetNodeDef(c, s);
    CHECK_OK(s);
    MR_CHECK(memmem(def->data, def->length, "TestQuestions", 13) != NULL);
    TF_DeleteBuffer(def);
    TF_Buffer *f = TF_OpKernelConstruction_GetAttrFunction(c, "f", s);
    CHECK_OK(s);
    MR_CHECK(f->length == 6 && memcmp(f->data, "\012\004Func", 6) == 0);
    TF_DeleteBuffer(f);
    MR_CHECK(!TF_OpKernelConstruction_GetAttrFunction(c, "none", s));
    MR_CHECK(TF_GetCode(s) != TF_OK);
    TF_DeleteStatus(s);
    return NULL;
}

static void look_at_the_run(void *state, TF_OpKernelContext *c)
{
    (void)state;
    TF_Status *s = TF_NewStatus(), *of_range = TF_NewStatus();
    TF_InputRange_Args range = {TF_InputRange_Args_STRUCT_SIZE, NULL, -1, -1, of_range};
    TF_InputRange(c, "xs", &range);
    CHECK_OK(of_range);
    MR_CHECK(range.start == 1 && range.stop == 3);
    TF_InputRange(c, "nothing", &range);
    MR_CHECK_INT(TF_GetCode(of_range), TF_INVALID_ARGUMENT);
    MR_CHECK(!TF_IsHostMemoryInput(c, 0, s));
    MR_CHECK(TF_IsHostMemoryInput(c, 1, s) && TF_IsHostMemoryInput(c, 2, s));
    MR_CHECK(TF_IsHostMemoryOutput(c, 0, s));
    CHECK_OK(s);
    TF_IsHostMemoryInput(c, 9, s);
    MR_CHECK_INT(TF_GetCode(s), TF_OUT_OF_RANGE);
    TF_StringView name = TF_GetOpKernelRequestedInput(c, 1), where = TF_GetResourceMgrDefaultContainerName(c);
    MR_CHECK(name.len == 3 && memcmp(name.data, "one", 3) == 0);
    MR_CHECK(where.len == 9 && memcmp(where.data, "localhost", 9) == 0);
    TF_Buffer *b = TF_NewBuffer();
    TF_GetSerializedResourceHandleProto(c, 0, b, s);
    CHECK_OK(s);
    MR_CHECK(memmem(b->data, b->length, "localhost", 9) != NULL);
    TF_DeleteBuffer(b);
    b = TF_NewBuffer();
    TF_GetSerializedFunctionDefLibrary(c, b, s);
    CHECK_OK(s);
    TF_DeleteBuffer(b);
    TF_Tensor *y = TF_AllocateOutput(c, 0, TF_INT32, NULL, 0, 4, s);
    *(int32_t *)TF_TensorData(y) = 1;
    TF_DeleteTensor(y);
    TF_DeleteStatus(s);
    TF_DeleteStatus(of_range);
}

MR_TEST(capi_kernel_answers_what_later_headers_ask)
{
    kit k = kit_new();
    DEFINE(&k, "TestQuestions", "ir: resource", "ixs: N * T", "oy: int32", "aN: int", "aT: type", "af: func");
    /* op TestQuestions, device CPU, T is int32 or float, xs and y in host memory, priority 3 */
    const char def[] = "\012\015TestQuestions\022\003CPU\032\013\012\001T\022\006\012\0042\002\003\001"
                       "\042\002xs\042\001y\060\003";
    TF_RegisterKernelBuilderWithKernelDef(def, "q",
                                          TF_NewKernelBuilder("x", "y", look_at_the_node, look_at_the_run, NULL), k.s);
    CHECK_OK(k.s);
    TF_RegisterKernelBuilderWithKernelDef("\377", "q", TF_NewKernelBuilder("x", "y", NULL, look_at_the_run, NULL), k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "Error parsing serialized KernelDef.");
    TF_OperationDescription *d = TF_NewOperation(k.g, "VarHandleOp", "v");
    TF_SetAttrType(d, "dtype", TF_FLOAT);
    TF_SetAttrShape(d, "shape", NULL, 0);
    TF_Output v = kit_out(kit_finish(&k, d), 0), one = kit_const(&k, "one", kit_int(1)), xs[2] = {one, one};
    d = TF_NewOperation(k.g, "TestQuestions", "q");
    TF_AddInput(d, v);
    TF_AddInputList(d, xs, 2);
    TF_SetAttrFuncName(d, "f", "Func", 4);
    TF_Output y = kit_out(kit_finish(&k, d), 0);
    TF_Session *s = kit_session(&k);
    TF_Tensor *t = kit_run(&k, s, none, NULL, y);
    CHECK_OK(k.s);
    MR_CHECK_INT(kit_take_int(t), 1);
    kit_close(&k, s);
    kit_free(&k);
}
