/* capi/eager.c -- TFE_Context and TFE_TensorHandle. */
#include "capi/eager.h"

#include "graph/library.h"
#include "run/device.h"

struct TFE_ContextOptions {
    TF_SessionOptions *session;
    TFE_ContextDevicePlacementPolicy policy;
};

/* ---- options ---- */

TFE_ContextOptions *TFE_NewContextOptions(void)
{
    TFE_ContextOptions *o = mr_new(TFE_ContextOptions);
    *o = (TFE_ContextOptions){TF_NewSessionOptions(), TFE_DEVICE_PLACEMENT_SILENT};
    return o;
}

void TFE_ContextOptionsSetConfig(TFE_ContextOptions *options, const void *proto, size_t proto_len,
                                 TF_Status *status)
{
    TF_SetConfig(options ? options->session : NULL, proto, proto_len, status);
}

void TFE_ContextOptionsSetAsync(TFE_ContextOptions *options, unsigned char enable) { (void)options, (void)enable; }

void TFE_ContextOptionsSetDevicePlacementPolicy(TFE_ContextOptions *options, TFE_ContextDevicePlacementPolicy policy)
{
    if (options)
        options->policy = policy;
}

void TFE_DeleteContextOptions(TFE_ContextOptions *options)
{
    if (!options)
        return;
    TF_DeleteSessionOptions(options->session);
    mr_free(options);
}

/* ---- contexts ---- */

static mr_status *open_context(TFE_Context *c, const TFE_ContextOptions *o)
{
    TF_SessionOptions options = o ? *o->session : (TF_SessionOptions){.target = (char[]){""}}; /* only read */
    options.config.feeds_handles = true;
    MR_TRY(mr_capi_new_session(c->graph, &options, &c->session));
    mr_session *s = c->session->session;
    return s->ops->list_devices(s, &c->devices, &c->n_devices);
}

TFE_Context *TFE_NewContext(const TFE_ContextOptions *opts, TF_Status *status)
{
    TFE_Context *c = mr_new(TFE_Context);
    c->graph = TF_NewGraph();
    c->policy = opts ? opts->policy : TFE_DEVICE_PLACEMENT_SILENT;
    mr_status *st = open_context(c, opts);
    mr_capi_set_status(status, st);
    if (!st)
        return c;
    TFE_DeleteContext(c);
    return NULL;
}

void TFE_DeleteContext(TFE_Context *ctx)
{
    if (!ctx)
        return;
    mr_capi_free_session(ctx->session);
    TF_DeleteGraph(ctx->graph);
    for (int i = 0; i < MR_EAGER_TYPES; i++)
        mr_vec_deinit(&ctx->inputs[i].nodes);
    mr_map_deinit(&ctx->known);
    mr_device_infos_free(ctx->devices, ctx->n_devices);
    mr_str_deinit(&ctx->metadata);
    mr_free(ctx);
}

static mr_status *no_context(const TFE_Context *ctx) { return ctx ? NULL : mr_invalid("ctx is NULL"); }

TF_DeviceList *TFE_ContextListDevices(TFE_Context *ctx, TF_Status *status)
{
    return mr_capi_list_devices(ctx ? ctx->session->session : NULL, status);
}

void TFE_ContextClearCaches(TFE_Context *ctx) { (void)ctx; }

void TFE_ContextSetThreadLocalDevicePlacementPolicy(TFE_Context *ctx, TFE_ContextDevicePlacementPolicy policy)
{
    if (ctx)
        ctx->policy = policy;
}

TFE_ContextDevicePlacementPolicy TFE_ContextGetDevicePlacementPolicy(TFE_Context *ctx)
{
    return ctx ? ctx->policy : TFE_DEVICE_PLACEMENT_SILENT;
}

void TFE_ContextSetServerDef(TFE_Context *ctx, int keep_alive_secs, const void *proto, size_t proto_len, TF_Status *status)
{
    (void)ctx, (void)keep_alive_secs, (void)proto, (void)proto_len;
    mr_capi_set_status(status, mr_error(MR_UNIMPLEMENTED, "An eager context has no remote devices: use a session on grpc://"));
}

void TFE_ContextStartStep(TFE_Context *ctx) { (void)ctx; }
void TFE_ContextEndStep(TFE_Context *ctx) { (void)ctx; }

const char *mr_eager_device(const TFE_Context *ctx, const char *name)
{
    mr_device_name wanted, there;
    if (!mr_device_name_parse(mr_sv_of(name), &wanted))
        return NULL;
    for (int i = 0; i < ctx->n_devices; i++)
        if (mr_device_name_parse(mr_sv_of(ctx->devices[i].name), &there) && mr_device_name_matches(&wanted, &there))
            return ctx->devices[i].name;
    return NULL;
}

/* ---- functions ---- */

void TFE_ContextAddFunctionDef(TFE_Context *ctx, const char *serialized_function_def, size_t size, TF_Status *status)
{
    TF_Function *f = TF_FunctionImportFunctionDef(serialized_function_def, size, status);
    if (f)
        TFE_ContextAddFunction(ctx, f, status);
    TF_DeleteFunction(f);
}

void TFE_ContextAddFunction(TFE_Context *ctx, TF_Function *function, TF_Status *status)
{
    TF_GraphCopyFunction(ctx ? ctx->graph : NULL, function, NULL, status);
}

void TFE_ContextRemoveFunction(TFE_Context *ctx, const char *name, TF_Status *status)
{
    TF_GraphRemoveFunction(ctx ? ctx->graph : NULL, name, status);
    if (!ctx)
        return;
    mr_lock(&ctx->graph->mu); /* known nodes may call it */
    mr_map_deinit(&ctx->known);
    mr_unlock(&ctx->graph->mu);
}

unsigned char TFE_ContextHasFunction(TFE_Context *ctx, const char *name)
{
    if (!ctx || !name)
        return 0;
    mr_lock(&ctx->graph->mu);
    bool there = mr_library_find(ctx->graph->graph->library, mr_sv_of(name)) != NULL;
    mr_unlock(&ctx->graph->mu);
    return there;
}

/* ---- metadata ---- */

void TFE_ContextEnableRunMetadata(TFE_Context *ctx)
{
    if (ctx)
        ctx->wants_metadata = true;
}

void TFE_ContextDisableRunMetadata(TFE_Context *ctx)
{
    if (ctx)
        ctx->wants_metadata = false;
}

void TFE_ContextExportRunMetadata(TFE_Context *ctx, TF_Buffer *buf, TF_Status *status)
{
    mr_status *st = no_context(ctx);
    if (!st && !buf)
        st = mr_invalid("buf is NULL");
    if (!st) {
        mr_lock(&ctx->graph->mu);
        mr_str taken = ctx->metadata;
        ctx->metadata = (mr_str){0};
        mr_unlock(&ctx->graph->mu);
        st = mr_capi_buffer_fill(buf, &taken);
    }
    mr_capi_set_status(status, st);
}

/* ---- handles ---- */

static const char host[] = "/job:localhost/replica:0/task:0/device:CPU:0";

TFE_TensorHandle *mr_eager_handle_new(mr_tensor *t, const char *device)
{
    TFE_TensorHandle *h = mr_new(TFE_TensorHandle);
    *h = (TFE_TensorHandle){t, mr_strdup(device)};
    return h;
}

TFE_TensorHandle *TFE_NewTensorHandle(const TF_Tensor *t, TF_Status *status)
{
    mr_tensor *value = NULL;
    mr_status *st = mr_capi_tensor_value(t, &value);
    mr_capi_set_status(status, st);
    return st ? NULL : mr_eager_handle_new(value, host);
}

void TFE_DeleteTensorHandle(TFE_TensorHandle *h)
{
    if (!h)
        return;
    mr_tensor_unref(h->t);
    mr_free(h->device);
    mr_free(h);
}

/* Sets the status and returns false if the handle is NULL. */
static bool handle_is_valid(const TFE_TensorHandle *h, TF_Status *status)
{
    mr_capi_set_status(status, h ? NULL : mr_invalid("The passed in handle is a nullptr"));
    return h != NULL;
}

TF_DataType TFE_TensorHandleDataType(TFE_TensorHandle *h) { return h ? (TF_DataType)h->t->dtype : (TF_DataType)0; }

int TFE_TensorHandleNumDims(TFE_TensorHandle *h, TF_Status *status)
{
    return handle_is_valid(h, status) ? h->t->rank : -1;
}

int64_t TFE_TensorHandleNumElements(TFE_TensorHandle *h, TF_Status *status)
{
    return handle_is_valid(h, status) ? h->t->n : -1;
}

int64_t TFE_TensorHandleDim(TFE_TensorHandle *h, int dim_index, TF_Status *status)
{
    if (!handle_is_valid(h, status))
        return -1;
    if (dim_index >= 0 && dim_index < h->t->rank)
        return h->t->dims[dim_index];
    mr_capi_set_status(status, mr_invalid("There is no dimension %d in a tensor of rank %d", dim_index, h->t->rank));
    return -1;
}

const char *TFE_TensorHandleDeviceName(TFE_TensorHandle *h, TF_Status *status)
{
    return handle_is_valid(h, status) ? h->device : NULL;
}

/* The results of an execution are in host memory, wherever they were computed. */
const char *TFE_TensorHandleBackingDeviceName(TFE_TensorHandle *h, TF_Status *status)
{
    return handle_is_valid(h, status) ? host : NULL;
}

TFE_TensorHandle *TFE_TensorHandleCopySharingTensor(TFE_TensorHandle *h, TF_Status *status)
{
    return handle_is_valid(h, status) ? mr_eager_handle_new(mr_tensor_ref(h->t), h->device) : NULL;
}

TF_Tensor *TFE_TensorHandleResolve(TFE_TensorHandle *h, TF_Status *status)
{
    return handle_is_valid(h, status) ? mr_capi_tensor_new(mr_tensor_ref(h->t)) : NULL;
}

TFE_TensorHandle *TFE_TensorHandleCopyToDevice(TFE_TensorHandle *h, TFE_Context *ctx, const char *device_name,
                                               TF_Status *status)
{
    if (!handle_is_valid(h, status))
        return NULL;
    const char *device = ctx ? mr_eager_device(ctx, device_name ? device_name : "") : NULL;
    if (device)
        return mr_eager_handle_new(mr_tensor_ref(h->t), device);
    mr_capi_set_status(status, ctx ? mr_invalid("%s unknown device.", device_name ? device_name : "") : no_context(ctx));
    return NULL;
}

/* ---- the layout of a tensor on its device: the same everywhere ---- */

struct TFE_TensorDebugInfo {
    mr_tensor *t;
};

TFE_TensorDebugInfo *TFE_TensorHandleTensorDebugInfo(TFE_TensorHandle *h, TF_Status *status)
{
    if (!handle_is_valid(h, status))
        return NULL;
    TFE_TensorDebugInfo *i = mr_new(TFE_TensorDebugInfo);
    i->t = mr_tensor_ref(h->t);
    return i;
}

void TFE_DeleteTensorDebugInfo(TFE_TensorDebugInfo *debug_info)
{
    if (!debug_info)
        return;
    mr_tensor_unref(debug_info->t);
    mr_free(debug_info);
}

int TFE_TensorDebugInfoOnDeviceNumDims(TFE_TensorDebugInfo *debug_info) { return debug_info ? debug_info->t->rank : -1; }

int64_t TFE_TensorDebugInfoOnDeviceDim(TFE_TensorDebugInfo *debug_info, int dim_index)
{
    if (!debug_info || dim_index < 0 || dim_index >= debug_info->t->rank)
        return -1;
    return debug_info->t->dims[dim_index];
}
