/* capi/experimental.c -- c_api_experimental.h but for checkpoints: options, texts, questions about ops. */
#include "tensorflow/c/c_api_experimental.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "capi/internal.h"
#include "graph/graph_def.h"
#include "proto/config.pb-c.h"
#include "proto/graph.pb-c.h"
#include "wire/message.h"
#include "wire/text_format.h"

/* ---- settings of a compiler that is not here ---- */

static _Atomic unsigned char lazy = 1, cpu_jit, auto_jit, no_folding;

void TF_EnableXLACompilation(TF_SessionOptions *options, unsigned char enable) { (void)options, (void)enable; }
unsigned char TF_SetXlaEnableLazyCompilation(unsigned char enable) { return atomic_exchange(&lazy, enable); }
unsigned char TF_SetTfXlaCpuGlobalJit(unsigned char enable) { return atomic_exchange(&cpu_jit, enable); }
void TF_SetXlaAutoJitMode(const char *mode) { auto_jit = mode && mode[0] && strcmp(mode, "0") != 0 && strcmp(mode, "-1") != 0; }
unsigned char TF_GetXlaAutoJitEnabled(void) { return auto_jit; }
void TF_SetXlaMinClusterSize(int size) { (void)size; }
unsigned char TF_GetXlaConstantFoldingDisabled(void) { return no_folding; }
void TF_SetXlaConstantFoldingDisabled(unsigned char should_enable) { no_folding = should_enable; }

/* ---- options ---- */

static TF_Buffer *pack_message(const ProtobufCMessage *m)
{
    mr_str bytes = {0};
    mr_status_free(mr_message_pack(m, &bytes)); /* a few bytes: it cannot fail */
    return mr_capi_buffer_new(&bytes);
}

TF_Buffer *TF_CreateConfig(unsigned char enable_xla_compilation, unsigned char gpu_memory_allow_growth, unsigned int num_cpu_devices)
{
    Tensorflow__ConfigProto c = TENSORFLOW__CONFIG_PROTO__INIT;
    Tensorflow__GPUOptions gpu = TENSORFLOW__GPUOPTIONS__INIT;
    Tensorflow__GraphOptions graph = TENSORFLOW__GRAPH_OPTIONS__INIT;
    Tensorflow__OptimizerOptions optimizer = TENSORFLOW__OPTIMIZER_OPTIONS__INIT;
    Tensorflow__ConfigProto__DeviceCountEntry cpus = TENSORFLOW__CONFIG_PROTO__DEVICE_COUNT_ENTRY__INIT;
    Tensorflow__ConfigProto__DeviceCountEntry *counts[] = {&cpus};
    gpu.allow_growth = gpu_memory_allow_growth != 0;
    optimizer.global_jit_level = enable_xla_compilation ? TENSORFLOW__OPTIMIZER_OPTIONS__GLOBAL_JIT_LEVEL__ON_1
                                                        : TENSORFLOW__OPTIMIZER_OPTIONS__GLOBAL_JIT_LEVEL__OFF;
    graph.optimizer_options = &optimizer;
    cpus.key = (char[]){"CPU"};
    cpus.value = num_cpu_devices > INT32_MAX ? INT32_MAX : (int32_t)num_cpu_devices;
    c.gpu_options = &gpu;
    c.graph_options = &graph;
    c.device_count = counts;
    c.n_device_count = 1;
    c.use_per_session_threads = true;
    return pack_message(&c.base);
}

TF_Buffer *TF_CreateRunOptions(unsigned char enable_full_trace)
{
    Tensorflow__RunOptions o = TENSORFLOW__RUN_OPTIONS__INIT;
    o.trace_level = enable_full_trace ? TENSORFLOW__RUN_OPTIONS__TRACE_LEVEL__FULL_TRACE
                                      : TENSORFLOW__RUN_OPTIONS__TRACE_LEVEL__NO_TRACE;
    return pack_message(&o.base);
}

/* ---- texts ---- */

/* By malloc, as clients free it. */
static char *text_of(mr_status *st, mr_str *text, size_t *len)
{
    const char *s = st ? mr_status_message(st) : mr_str_z(text);
    char *out = strdup(s);
    if (len)
        *len = out ? strlen(out) : 0;
    mr_status_free(st);
    mr_str_deinit(text);
    return out;
}

const char *TF_GraphDebugString(TF_Graph *graph, size_t *len)
{
    mr_str text = {0};
    mr_status *st = NULL;
    if (graph) {
        mr_lock(&graph->mu);
        st = mr_graph_export_text(graph->graph, &text);
        mr_unlock(&graph->mu);
    }
    return text_of(st, &text, len);
}

char *TF_FunctionDebugString(TF_Function *func, size_t *len)
{
    mr_str text = {0};
    ProtobufCMessage *m = NULL;
    mr_status *st = NULL;
    TF_Buffer *b = TF_NewBuffer();
    TF_Status *status = TF_NewStatus();
    TF_FunctionToFunctionDef(func, b, status);
    MR_GO(mr_capi_status_copy(status));
    MR_GO(mr_message_unpack(&tensorflow__function_def__descriptor, mr_capi_buffer_view(b), "FunctionDef", &m));
    MR_GO(mr_text_print(m, &text));
out:
    mr_message_free(m);
    TF_DeleteBuffer(b);
    TF_DeleteStatus(status);
    return text_of(st, &text, len);
}

void TF_MakeInternalErrorStatus(TF_Status *status, const char *errMsg)
{
    mr_capi_set_status(status, mr_error(MR_INTERNAL, "%s", errMsg ? errMsg : ""));
}

void TF_InitMain(const char *usage, int *argc, char ***argv) { (void)usage, (void)argc, (void)argv; }

int TF_PickUnusedPortOrDie(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port = 0;
    if (fd >= 0 && bind(fd, (struct sockaddr *)&a, n) == 0 && getsockname(fd, (struct sockaddr *)&a, &n) == 0)
        port = ntohs(a.sin_port);
    if (fd >= 0)
        close(fd);
    return port;
}

/* ---- queues by number ---- */

static mr_status *find_queue_output(TF_Session *s, const char *prefix, int id, TF_Output *out)
{
    char name[64];
    snprintf(name, sizeof name, "%s_%d", prefix, id);
    *out = (TF_Output){s ? TF_GraphOperationByName(s->graph, name) : NULL, 0};
    return out->oper ? NULL : mr_error(MR_NOT_FOUND, "There is no operation '%s' in the session's graph", name);
}

TF_Tensor *TF_DequeueNamedTensor(TF_Session *session, int tensor_id, TF_Status *status)
{
    TF_Output from;
    TF_Tensor *t = NULL;
    mr_status *st = find_queue_output(session, "fifo_queue_dequeue", tensor_id, &from);
    mr_capi_set_status(status, st);
    if (!st)
        TF_SessionRun(session, NULL, NULL, NULL, 0, &from, &t, 1, NULL, 0, NULL, status);
    return t;
}

void TF_EnqueueNamedTensor(TF_Session *session, int tensor_id, TF_Tensor *tensor, TF_Status *status)
{
    TF_Output to, enqueue;
    mr_status *st = find_queue_output(session, "arg_tensor_enqueue", tensor_id, &to);
    if (!st)
        st = find_queue_output(session, "fifo_queue_enqueue", tensor_id, &enqueue);
    mr_capi_set_status(status, st);
    if (!st)
        TF_SessionRun(session, NULL, &to, &tensor, 1, NULL, NULL, 0, (const TF_Operation *const *)&enqueue.oper, 1, NULL, status);
}

/* ---- questions about ops ---- */

struct TF_AttrBuilder {
    char *op;
    mr_arena arena;
    MR_VEC(mr_named_attr) attrs;
};

TF_AttrBuilder *TF_NewAttrBuilder(const char *op_name)
{
    mr_capi_init();
    TF_AttrBuilder *b = mr_new(TF_AttrBuilder);
    b->op = mr_strdup(op_name ? op_name : "");
    return b;
}

void TF_DeleteAttrBuilder(TF_AttrBuilder *builder)
{
    if (!builder)
        return;
    mr_vec_deinit(&builder->attrs);
    mr_arena_deinit(&builder->arena);
    mr_free(builder->op);
    mr_free(builder);
}

static void set_attr(TF_AttrBuilder *b, const char *name, mr_attr v)
{
    mr_vec_push(&b->attrs, (mr_named_attr){mr_arena_strdup(&b->arena, name), v});
}

void TF_AttrBuilderSetType(TF_AttrBuilder *builder, const char *attr_name, TF_DataType value)
{
    if (builder && attr_name)
        set_attr(builder, attr_name, mr_a_type((int)value));
}

void TF_AttrBuilderSetTypeList(TF_AttrBuilder *builder, const char *attr_name, const TF_DataType *values, int num_values)
{
    if (!builder || !attr_name || num_values < 0 || (num_values && !values))
        return;
    int *types = mr_arena_array(&builder->arena, int, num_values + 1);
    for (int i = 0; i < num_values; i++)
        types[i] = (int)values[i];
    set_attr(builder, attr_name, mr_a_types(num_values, types));
}

/* Whether there is a kernel for the device and for the types that were set. */
typedef struct asked {
    const TF_AttrBuilder *b;
    const mr_op_def *def;
    const char *device;
    bool found;
} asked;

static const mr_attr *find_set_attr(const TF_AttrBuilder *b, const char *name)
{
    for (int i = b->attrs.n - 1; i >= 0; i--)
        if (strcmp(b->attrs.p[i].name, name) == 0)
            return &b->attrs.p[i].v;
    return NULL;
}

static void check_kernel(void *ctx, const mr_kernel *k)
{
    asked *q = ctx;
    const mr_attr *key = q->def->key ? find_set_attr(q->b, q->def->key->name) : NULL;
    bool fits = !key || key->is_list || k->type == 0 || k->type == key->type;
    for (const mr_named_attr *c = k->constraints; c && c->name && fits; c++) {
        const mr_attr *v = find_set_attr(q->b, c->name);
        bool among = !v || v->is_list;
        for (int i = 0; i < c->v.n && !among; i++)
            among = c->v.types[i] == v->type;
        fits = among;
    }
    q->found |= fits && strcmp(k->device, q->device) == 0;
}

void TF_AttrBuilderCheckCanRunOnDevice(TF_AttrBuilder *builder, const char *device_type, TF_Status *status)
{
    asked q = {builder, builder ? mr_op_find(mr_sv_of(builder->op)) : NULL, device_type ? device_type : "", false};
    if (q.def)
        mr_kernel_each(q.def, check_kernel, &q);
    mr_status *st = NULL;
    if (!q.def)
        st = mr_op_unknown(mr_sv_of(builder ? builder->op : ""));
    else if (!q.found)
        st = mr_invalid("No OpKernel registered on %s that supports the given types of op %s", q.device, builder->op);
    mr_capi_set_status(status, st);
}

const char *TF_GetNumberAttrForOpListInput(const char *op_name, int input_index, TF_Status *status)
{
    mr_capi_init();
    const mr_op_def *d = op_name ? mr_op_find(mr_sv_of(op_name)) : NULL;
    mr_status *st = NULL;
    if (!d)
        st = mr_op_unknown(mr_sv_of(op_name ? op_name : ""));
    else if (input_index < 0 || input_index >= d->n_in)
        st = mr_invalid("There is no input %d of op %s, which has %d inputs", input_index, op_name, d->n_in);
    mr_capi_set_status(status, st);
    return st ? NULL : d->in[input_index].number_attr;
}

int TF_OpIsStateful(const char *op_type, TF_Status *status)
{
    mr_capi_init();
    const mr_op_def *d = op_type ? mr_op_find(mr_sv_of(op_type)) : NULL;
    mr_capi_set_status(status, d ? NULL : mr_op_unknown(mr_sv_of(op_type ? op_type : "")));
    return d && (d->flags & MR_STATEFUL);
}

/* ---- plugins ---- */

TF_Library *TF_LoadPluggableDeviceLibrary(const char *library_filename, TF_Status *status)
{
    mr_capi_set_status(status, mr_error(MR_UNIMPLEMENTED,
                                        "%s: StreamExecutor devices cannot be loaded; use millrace/device.h "
                                        "to add one",
                                        library_filename ? library_filename : ""));
    return NULL;
}

void TF_DeletePluggableDeviceLibraryHandle(TF_Library *lib_handle) { TF_DeleteLibraryHandle(lib_handle); }

void TF_RegisterFilesystemPlugin(const char *plugin_filename, TF_Status *status)
{
    mr_capi_set_status(status, mr_error(MR_UNIMPLEMENTED, "%s: filesystems cannot be added; files are local",
                                        plugin_filename ? plugin_filename : ""));
}
