/* capi/device_plugin_test.c -- device types of libraries: what is refused, and devices with memory behind addresses
 * that nobody may look at. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/thread.h"
#include "capi/graph_fixture.h"
#include "millrace/device.h"
#include "tensorflow/c/kernels.h"

/* ---- a device: blocks of malloc under false addresses ---- */

#define FALSE_BIT ((uintptr_t)1 << 62)

static _Atomic int n_open, n_blocks, n_own, n_borrowed, refuse_memory, refuse_copies;

static void *truth(const void *p) { return (void *)((uintptr_t)p & ~FALSE_BIT); }

static void *dev_open(void *user, int id, TF_Status *s)
{
    (void)s;
    n_open++;
    return (char *)user + id;
}

static void dev_close(void *d)
{
    (void)d;
    n_open--;
}

static void *dev_alloc(void *d, size_t bytes)
{
    void *p = refuse_memory ? NULL : aligned_alloc(64, (bytes + 64) / 64 * 64);
    (void)d;
    n_blocks += p != NULL;
    return p ? (void *)((uintptr_t)p | FALSE_BIT) : NULL;
}

static void dev_free(void *d, void *p, size_t bytes)
{
    (void)d, (void)bytes;
    n_blocks--;
    free(truth(p));
}

static void dev_in(void *d, void *dst, const void *src, size_t bytes, TF_Status *s)
{
    (void)d;
    if (refuse_copies)
        TF_SetStatus(s, TF_DATA_LOSS, "the bus is broken");
    else
        memcpy(truth(dst), src, bytes);
}

static void dev_out(void *d, void *dst, const void *src, size_t bytes, TF_Status *s)
{
    (void)d, (void)s;
    memcpy(dst, truth(src), bytes);
}

static void dev_start(void *d, const char *node, const char *op, unsigned char own, void (*run)(void *), void *arg)
{
    (void)d, (void)node, (void)op;
    *(own ? &n_own : &n_borrowed) += 1;
    run(arg);
}

static char places[8];

static mr_device_plugin plain(void)
{
    return (mr_device_plugin){.struct_size = sizeof(mr_device_plugin),
                              .version = MR_DEVICE_PLUGIN_VERSION,
                              .type = "TEST",
                              .borrow = 1,
                              .user = places,
                              .open = dev_open,
                              .close = dev_close,
                              .start = dev_start};
}

static mr_device_plugin with_memory(void)
{
    mr_device_plugin p = plain();
    p.alloc = dev_alloc;
    p.free = dev_free;
    p.copy_in = dev_in;
    p.copy_out = dev_out;
    return p;
}

static void add(kit *k, mr_device_plugin p)
{
    mr_register_device(&p, k->s);
    CHECK_OK(k->s);
}

/* Negates; its input and output are on the device. */
static void neg(void *state, TF_OpKernelContext *ctx)
{
    TF_Status *s = TF_NewStatus();
    TF_Tensor *x = NULL;
    (void)state;
    MR_CHECK(mr_kernel_device(ctx) == places);
    TF_GetInput(ctx, 0, &x, s);
    TF_Tensor *y = TF_AllocateOutput(ctx, 0, TF_FLOAT, NULL, 0, 0, s);
    if (TF_GetCode(s) == TF_OK)
        *(float *)truth(TF_TensorData(y)) = -*(const float *)truth(TF_TensorData(x));
    else
        TF_OpKernelContext_Failure(ctx, s);
    TF_DeleteTensor(x);
    TF_DeleteTensor(y);
    TF_DeleteStatus(s);
}

/* Fills; the shape is in host memory, the value on the device. */
static void fill(void *state, TF_OpKernelContext *ctx)
{
    TF_Status *s = TF_NewStatus();
    TF_Tensor *dims = NULL, *value = NULL;
    (void)state;
    TF_GetInput(ctx, 0, &dims, s);
    TF_GetInput(ctx, 1, &value, s);
    int64_t n = *(const int32_t *)TF_TensorData(dims);
    TF_Tensor *y = TF_AllocateOutput(ctx, 0, TF_FLOAT, &n, 1, 0, s);
    for (int64_t i = 0; i < n; i++)
        ((float *)truth(TF_TensorData(y)))[i] = *(const float *)truth(TF_TensorData(value));
    TF_AllocatorAttributes host = {TF_ALLOCATOR_ATTRIBUTES_STRUCT_SIZE, 1};
    TF_Tensor *temp = TF_AllocateTemp(ctx, TF_FLOAT, &n, 1, &host, s);
    memset(TF_TensorData(temp), 0, sizeof(float) * (size_t)n);
    TF_DeleteTensor(temp);
    TF_DeleteTensor(dims);
    TF_DeleteTensor(value);
    TF_DeleteTensor(y);
    TF_DeleteStatus(s);
}

static void add_kernel(kit *k, const char *op, void (*fn)(void *, TF_OpKernelContext *), const char *host)
{
    TF_KernelBuilder *b = TF_NewKernelBuilder(op, "TEST", NULL, fn, NULL);
    if (host)
        TF_KernelBuilder_HostMemory(b, host);
    TF_RegisterKernelBuilder(op, b, k->s);
}

static float run1(kit *k, TF_Session *s, TF_Output x, float v, TF_Output y)
{
    TF_Tensor *t = kit_float(v), *out = kit_run(k, s, x, t, y);
    CHECK_OK(k->s);
    TF_DeleteTensor(t);
    return kit_take_float(out);
}

/* ---- devices ---- */

MR_TEST(capi_plugin_runs_its_own_kernels_and_borrowed_ones)
{
    kit k = kit_new();
    add(&k, with_memory());
    add_kernel(&k, "Neg", neg, NULL);
    CHECK_OK(k.s);
    TF_Output x = kit_placeholder(&k, "x", TF_FLOAT);
    TF_Output y = kit_unary(&k, "Neg", "y", kit_unary(&k, "Square", "q", kit_unary(&k, "Neg", "n", x)));
    TF_Session *s = kit_session(&k);
    MR_CHECK_INT(n_open, 1);
    MR_CHECK_NEAR(run1(&k, s, x, 3, y), -9, 0);
    MR_CHECK_INT(n_own, 2);
    MR_CHECK_INT(n_borrowed, 1);
    kit_close(&k, s);
    MR_CHECK_INT(n_open, 0);
    MR_CHECK_INT(n_blocks, 0);
    kit_free(&k);
}

MR_TEST(capi_plugin_arguments_in_host_memory)
{
    kit k = kit_new();
    add(&k, with_memory());
    add_kernel(&k, "Fill", fill, "dims");
    CHECK_OK(k.s);
    add_kernel(&k, "Neg", neg, NULL);
    TF_Output x = kit_placeholder(&k, "x", TF_FLOAT);
    TF_Output n = kit_const(&k, "n", kit_ints(1, (int64_t[]){1}, (int32_t[]){5}));
    TF_Output y = kit_binary(&k, "Fill", "f", n, kit_unary(&k, "Neg", "m", x));
    TF_Output axis = kit_const(&k, "axis", kit_int(0));
    TF_Session *s = kit_session(&k);
    MR_CHECK_NEAR(run1(&k, s, x, 2, kit_binary(&k, "Sum", "s", y, axis)), -10, 0);
    kit_close(&k, s);
    add_kernel(&k, "Fill", fill, "colour");
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "colour");
    kit_free(&k);
}

MR_TEST(capi_plugin_values_go_through_conditionals_and_variables)
{
    kit k = kit_new();
    add(&k, with_memory());
    add_kernel(&k, "Neg", neg, NULL);
    TF_Output x = kit_placeholder(&k, "x", TF_FLOAT);
    TF_Output n = kit_unary(&k, "Neg", "n", x), zero = kit_const(&k, "zero", kit_float(0));
    TF_Output sw = kit_binary(&k, "Switch", "sw", n,
                              kit_binary(&k, "Less", "less", n, zero)); /* decides by a value of the device */
    TF_OperationDescription *d = TF_NewOperation(k.g, "Merge", "m");
    TF_AddInputList(d,
                    (TF_Output[]){kit_unary(&k, "Neg", "no", kit_out(sw.oper, 0)),
                                  kit_unary(&k, "Square", "yes", kit_out(sw.oper, 1))},
                    2);
    TF_Output m = kit_out(kit_finish(&k, d), 0);
    d = TF_NewOperation(k.g, "VariableV2", "v");
    TF_SetAttrType(d, "dtype", TF_FLOAT);
    TF_SetAttrShape(d, "shape", NULL, 0);
    TF_Output v = kit_out(kit_finish(&k, d), 0);
    TF_Output assigned = kit_binary(&k, "Assign", "a", v, m);
    TF_Output more = kit_unary(&k, "Neg", "again", kit_binary(&k, "AssignAdd", "plus", v, n));
    TF_Session *s = kit_session(&k);
    MR_CHECK_NEAR(run1(&k, s, x, 3, assigned), 9, 0);
    MR_CHECK_NEAR(run1(&k, s, x, 1, more), -8, 0);
    MR_CHECK_NEAR(run1(&k, s, x, -3, assigned), -3, 0);
    kit_close(&k, s);
    MR_CHECK_INT(n_blocks, 0);
    kit_free(&k);
}

MR_TEST(capi_plugin_without_memory_of_its_own)
{
    kit k = kit_new();
    add(&k, plain());
    TF_Output x = kit_placeholder(&k, "x", TF_FLOAT);
    TF_Session *s = kit_session(&k);
    MR_CHECK_NEAR(run1(&k, s, x, 3, kit_unary(&k, "Square", "y", x)), 9, 0);
    MR_CHECK_INT(n_borrowed, 1);
    kit_close(&k, s);
    MR_CHECK_INT(n_open, 0);
    kit_free(&k);
}

/* ---- a start that has threads of its own ---- */

typedef struct later {
    void (*run)(void *);
    void *arg;
} later;

static void *run_later(void *p)
{
    later l = *(later *)p;
    free(p);
    l.run(l.arg);
    return NULL;
}

static void start_in_thread(void *d, const char *node, const char *op, unsigned char own, void (*run)(void *),
                            void *arg)
{
    pthread_t t;
    later *l = malloc(sizeof *l);
    (void)d, (void)node, (void)op, (void)own;
    *l = (later){run, arg};
    MR_CHECK(pthread_create(&t, NULL, run_later, l) == 0);
    pthread_detach(t);
}

MR_TEST(capi_plugin_may_run_operations_in_threads_of_its_own)
{
    kit k = kit_new();
    mr_device_plugin p = with_memory();
    p.start = start_in_thread;
    add(&k, p);
    add_kernel(&k, "Neg", neg, NULL);
    TF_Output x = kit_placeholder(&k, "x", TF_FLOAT), y = x;
    for (int i = 0; i < 20; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%d", i);
        y = kit_unary(&k, i % 2 ? "Neg" : "Square", name, y);
    }
    TF_Session *s = kit_session(&k);
    MR_CHECK_NEAR(run1(&k, s, x, 1, y), -1, 0);
    kit_close(&k, s);
    kit_free(&k);
}

/* ---- troubles ---- */

MR_TEST(capi_plugin_errors_reach_the_step)
{
    kit k = kit_new();
    add(&k, with_memory());
    add_kernel(&k, "Neg", neg, NULL);
    TF_Output x = kit_placeholder(&k, "x", TF_FLOAT), y = kit_unary(&k, "Neg", "y", x);
    TF_Session *s = kit_session(&k);
    TF_Tensor *v = kit_float(1);
    refuse_copies = 1;
    MR_CHECK(!kit_run(&k, s, x, v, y));
    CHECK_CODE(k.s, TF_DATA_LOSS, "the bus is broken");
    refuse_copies = 0;
    refuse_memory = 1;
    MR_CHECK(!kit_run(&k, s, x, v, y));
    CHECK_CODE(k.s, TF_RESOURCE_EXHAUSTED, "OOM");
    refuse_memory = 0;
    MR_CHECK_NEAR(run1(&k, s, x, 1, y), -1, 0);
    TF_DeleteTensor(v);
    kit_close(&k, s);
    MR_CHECK_INT(n_blocks, 0);
    kit_free(&k);
}

static int n_said;
static int count(void *user)
{
    (void)user;
    return n_said;
}

static void *fail_open(void *user, int id, TF_Status *s)
{
    (void)user;
    if (id == 1)
        TF_SetStatus(s, TF_UNAVAILABLE, "its fan stands still");
    else
        n_open++;
    return NULL;
}

static void expect_no_session(kit *k, TF_Code code, const char *text)
{
    TF_SessionOptions *o = TF_NewSessionOptions();
    MR_CHECK(!TF_NewSession(k->g, o, k->s));
    CHECK_CODE(k->s, code, text);
    TF_DeleteSessionOptions(o);
}

MR_TEST(capi_plugin_that_cannot_count_or_open_makes_no_session)
{
    kit k = kit_new();
    mr_device_plugin p = plain();
    p.count = count;
    p.open = fail_open;
    add(&k, p);
    n_said = -1;
    expect_no_session(&k, TF_INVALID_ARGUMENT, "TEST: the library reports -1");
    n_said = 1 << 30;
    expect_no_session(&k, TF_INVALID_ARGUMENT, "TEST: the library reports");
    n_said = 2;
    expect_no_session(&k, TF_UNAVAILABLE, "TEST:1: its fan stands still");
    MR_CHECK_INT(n_open, 0); /* the first was closed again */
    n_said = 0;
    TF_Session *s = kit_session(&k);
    kit_close(&k, s);
    kit_free(&k);
}

MR_TEST(capi_plugin_as_many_as_the_config_wants)
{
    kit k = kit_new();
    static const unsigned char config[] = {1 << 3 | 2, 8, 1 << 3 | 2, 4, 'T', 'E', 'S', 'T', 2 << 3, 3};
    mr_device_plugin p = plain();
    p.count = count;
    n_said = 8;
    add(&k, p);
    TF_SessionOptions *o = TF_NewSessionOptions();
    TF_SetConfig(o, config, sizeof config, k.s); /* device_count { "TEST": 3 } */
    CHECK_OK(k.s);
    TF_Session *s = TF_NewSession(k.g, o, k.s);
    MR_CHECK_INT(n_open, 3);
    kit_close(&k, s);
    MR_CHECK_INT(n_open, 0);
    TF_DeleteSessionOptions(o);
    kit_free(&k);
}

static void refused(kit *k, mr_device_plugin p, const char *text)
{
    mr_register_device(&p, k->s);
    CHECK_CODE(k->s, TF_INVALID_ARGUMENT, text);
}

MR_TEST(capi_plugin_wrong_structs_are_refused)
{
    kit k = kit_new();
    mr_device_plugin p = plain();
    mr_register_device(NULL, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "device plugin");
    refused(&k, (p = plain(), p.struct_size = 0, p), "struct_size");
    refused(&k, (p = plain(), p.struct_size = 8, p), "struct_size");
    refused(&k, (p = plain(), p.struct_size = SIZE_MAX, p), "struct_size");
    refused(&k, (p = plain(), p.version = 0, p), "version 0");
    refused(&k, (p = plain(), p.version = 2, p), "version 2");
    refused(&k, (p = plain(), p.type = NULL, p), "type");
    refused(&k, (p = plain(), p.type = "", p), "type");
    refused(&k, (p = plain(), p.type = "MY-TYPE", p), "type");
    refused(&k, (p = plain(), p.type = "9", p), "type");
    refused(&k, (p = plain(), p.type = "A_very_long_type_of_devices_indeed", p), "type");
    refused(&k, (p = plain(), p.alloc = dev_alloc, p), "copy_in and copy_out, or none");
    refused(&k, (p = with_memory(), p.copy_out = NULL, p), "copy_in and copy_out, or none");
    refused(&k, (p = plain(), p.copy_within = dev_in, p), "copy_within");
    refused(&k, (p = plain(), p.flops_per_s = NAN, p), "speed");
    refused(&k, (p = plain(), p.link_bytes_per_s = -1, p), "speed");
    refused(&k, (p = plain(), p.op_s = INFINITY, p), "speed");
    refused(&k, (p = plain(), p.priority = -1, p), "priority");
    mr_register_device(&(mr_device_plugin){.struct_size = sizeof p, .version = 1, .type = "CPU"}, k.s);
    CHECK_CODE(k.s, TF_ALREADY_EXISTS, "CPU");
    add(&k, plain());
    p = plain();
    mr_register_device(&p, k.s);
    CHECK_CODE(k.s, TF_ALREADY_EXISTS, "TEST");
    kit_free(&k);
}

/* An older library knows less of the struct. */
MR_TEST(capi_plugin_structs_may_be_shorter)
{
    kit k = kit_new();
    mr_device_plugin p = plain();
    p.flops_per_s = NAN; /* not looked at */
    p.struct_size = offsetof(mr_device_plugin, flops_per_s);
    add(&k, p);
    TF_Output x = kit_placeholder(&k, "x", TF_FLOAT);
    TF_Session *s = kit_session(&k);
    MR_CHECK_NEAR(run1(&k, s, x, 3, kit_unary(&k, "Square", "y", x)), 9, 0);
    kit_close(&k, s);
    kit_free(&k);
}

MR_TEST(capi_plugin_libraries_that_are_not_there_make_no_session)
{
    kit k = kit_new();
    setenv("MILLRACE_DEVICES", "/nowhere/libdevice.so", 1);
    for (int i = 0; i < 2; i++)
        expect_no_session(&k, TF_NOT_FOUND, "/nowhere/libdevice.so");
    kit_free(&k);
}
