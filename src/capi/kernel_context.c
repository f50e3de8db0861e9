/* capi/kernel_context.c -- gives a client's compute function its inputs, outputs and device.
 *
 * Handles share the tensor with the run, so while a kernel keeps the handle of an input, that input
 * is not overwritten (TF_ForwardInputOrAllocateOutput). */
#include "capi/kernels.h"
#include "graph/library.h"
#include "exec/device_plugin.h"

void TF_OpKernelContext_Failure(TF_OpKernelContext *ctx, TF_Status *status)
{
    if (ctx && status)
        mr_status_update(&ctx->st, mr_capi_status_copy(status));
}

/* ---- inputs ---- */

int TF_NumInputs(TF_OpKernelContext *ctx) { return ctx->run->n_in; }
int TF_NumOutputs(TF_OpKernelContext *ctx) { return ctx->run->n_out; }

static mr_status *check_input(const mr_run *r, int i)
{
    return i >= 0 && i < r->n_in ? NULL : mr_error(MR_OUT_OF_RANGE, "input index out of range");
}

static mr_status *check_output(const mr_run *r, int i)
{
    return i >= 0 && i < r->n_out ? NULL : mr_error(MR_OUT_OF_RANGE, "output index out of range");
}

/* A variable is given by its value, as it is now. */
static mr_status *share_ref(const mr_run *r, int i, TF_Tensor **out)
{
    mr_tensor *t;
    MR_TRY(mr_variable_read(mr_in_ref(r, i), mr_run_allocator(r), &t));
    if (!t)
        return mr_error(MR_FAILED_PRECONDITION, "Attempting to use uninitialized value %s",
                        mr_in_ref(r, i)->name);
    *out = mr_capi_tensor_new(t);
    return NULL;
}

static mr_status *share_input(const mr_run *r, int i, TF_Tensor **out)
{
    MR_TRY(check_input(r, i));
    switch (r->in[i].kind) {
    case MR_LIVE: *out = mr_capi_share(mr_in(r, i)); return NULL;
    case MR_REF: return share_ref(r, i, out);
    default:
        return mr_error(MR_FAILED_PRECONDITION, "Input %d of '%s' has no value, or its value was taken", i,
                        r->node->name);
    }
}

void TF_GetInput(TF_OpKernelContext *ctx, int i, TF_Tensor **tensor, TF_Status *status)
{
    TF_Tensor *t = NULL;
    mr_capi_set_status(status, share_input(ctx->run, i, &t));
    *tensor = t;
}

static mr_status *find_input(const mr_run *r, const char *name, int *out)
{
    int start, count;
    const mr_op_def *d = r->node->def;
    int arg = name ? mr_op_def_input(d, name) : -1;
    if (arg < 0)
        return mr_invalid("Unknown input name: %s", name ? name : "");
    if (d->in[arg].number_attr || d->in[arg].type_list_attr)
        return mr_invalid("OpKernel used list-valued input name '%s' when single-valued input was "
                          "expected",
                          name);
    MR_TRY(mr_node_in_range(r->node, name, &start, &count));
    *out = start;
    return NULL;
}

void TF_GetInputByName(TF_OpKernelContext *ctx, const char *inputName, TF_Tensor **tensor,
                       TF_Status *status)
{
    int i = -1;
    TF_Tensor *t = NULL;
    mr_status *st = find_input(ctx->run, inputName, &i);
    if (!st)
        st = share_input(ctx->run, i, &t);
    *tensor = t;
    mr_capi_set_status(status, st);
}

void TF_InputRange(TF_OpKernelContext *ctx, const char *name, TF_InputRange_Args *args)
{
    int start = 0, count = 0;
    mr_status *st = name ? mr_node_in_range(ctx->run->node, name, &start, &count) : mr_invalid("name is NULL");
    args->start = start;
    args->stop = start + count;
    if (args->status)
        mr_capi_set_status(args->status, st);
    else
        mr_status_free(st);
}

bool TF_IsHostMemoryInput(TF_OpKernelContext *ctx, int i, TF_Status *status)
{
    mr_status *st = check_input(ctx->run, i);
    bool host = !st && mr_run_host_in(ctx->run, i);
    mr_capi_set_status(status, st);
    return host;
}

bool TF_IsHostMemoryOutput(TF_OpKernelContext *ctx, int i, TF_Status *status)
{
    mr_status *st = check_output(ctx->run, i);
    bool host = !st && mr_run_host_out(ctx->run, i);
    mr_capi_set_status(status, st);
    return host;
}

static mr_status *encode_handle(const mr_run *r, int i, mr_str *out)
{
    MR_TRY(check_input(r, i));
    if (r->in[i].kind != MR_LIVE || mr_in(r, i)->dtype != MR_RESOURCE || mr_in(r, i)->n != 1)
        return mr_invalid("Input %d of '%s' is not a resource", i, r->node->name);
    const mr_handle *h = *MR_DATA(mr_handle *, mr_in(r, i));
    if (h)
        mr_handle_encode(h, out);
    return NULL;
}

void TF_GetSerializedResourceHandleProto(TF_OpKernelContext *ctx, int i, TF_Buffer *serialized_resource_handle_proto,
                                         TF_Status *status)
{
    mr_str bytes = {0};
    mr_status *st = encode_handle(ctx->run, i, &bytes);
    if (!st)
        st = mr_capi_buffer_fill(serialized_resource_handle_proto, &bytes);
    mr_str_deinit(&bytes);
    mr_capi_set_status(status, st);
}

void TF_GetSerializedFunctionDefLibrary(TF_OpKernelContext *ctx, TF_Buffer *serialized_function_def_library, TF_Status *status)
{
    mr_str bytes = {0};
    mr_status *st = mr_library_encode(ctx->run->node->graph->library, &bytes);
    if (!st)
        st = mr_capi_buffer_fill(serialized_function_def_library, &bytes);
    mr_str_deinit(&bytes);
    mr_capi_set_status(status, st);
}

TF_DataType TF_InputDatatype(TF_OpKernelContext *ctx, int index)
{
    const mr_run *r = ctx->run;
    return (TF_DataType)(index >= 0 && index < r->n_in ? r->node->in_types[index] : 0);
}

bool TF_IsRefInput(TF_OpKernelContext *ctx, int i, TF_Status *status)
{
    mr_status *st = check_input(ctx->run, i);
    bool is_ref = !st && mr_dtype_is_ref(ctx->run->node->in_types[i]);
    mr_capi_set_status(status, st);
    return is_ref;
}

/* ---- outputs ---- */

TF_DataType TF_ExpectedOutputDataType(TF_OpKernelContext *ctx, int i)
{
    const mr_run *r = ctx->run;
    return (TF_DataType)(i >= 0 && i < r->n_out ? r->node->out_types[i] : 0);
}

static mr_status *check_type(const mr_run *r, int i, mr_dtype type)
{
    MR_TRY(check_output(r, i));
    int want = r->node->out_types[i];
    if (want == (int)type)
        return NULL;
    return mr_invalid("Output %d of '%s' must be %s, not %s", i, r->node->name,
                      mr_dtype_name(want), mr_dtype_name((int)type));
}

void TF_SetOutput(TF_OpKernelContext *ctx, int i, const TF_Tensor *tensor, TF_Status *status)
{
    mr_tensor *value = NULL;
    mr_status *st = mr_capi_tensor_value(tensor, &value);
    if (!st)
        st = check_type(ctx->run, i, (mr_dtype)value->dtype);
    if (st)
        mr_tensor_unref(value);
    else
        mr_run_set(ctx->run, i, value);
    mr_capi_set_status(status, st);
}

TF_Tensor *TF_GetMutableOutput(TF_OpKernelContext *ctx, int i, TF_Status *status)
{
    mr_status *st = check_output(ctx->run, i);
    if (!st && ctx->run->out[i].kind != MR_LIVE)
        st = mr_error(MR_FAILED_PRECONDITION, "Output %d of '%s' is not set yet", i,
                      ctx->run->node->name);
    mr_capi_set_status(status, st);
    return st ? NULL : mr_capi_share(ctx->run->out[i].t);
}

static mr_status *check_dims(const int64_t *dims, int n)
{
    return n < 0 || (n && !dims) ? mr_invalid("dims is NULL, or num_dims %d is negative", n) : NULL;
}

/* Room for an output: of a kernel that a library of devices brought, in the memory of its device. */
static mr_status *new_output(mr_run *r, int i, int rank, const int64_t *dims, mr_tensor **out)
{
    mr_allocator *a = mr_plugin_allocator(r, i, mr_out_dtype(r, i));
    if (!a)
        return mr_run_output(r, i, rank, dims, out);
    MR_TRY(mr_tensor_new(a, mr_out_dtype(r, i), rank, dims, out));
    mr_run_set(r, i, *out);
    return NULL;
}

TF_Tensor *TF_AllocateOutput(TF_OpKernelContext *context, int index, TF_DataType dtype,
                             const int64_t *dims, int num_dims, size_t len, TF_Status *status)
{
    (void)len; /* follows from the type and the shape */
    mr_tensor *t = NULL;
    mr_status *st = check_type(context->run, index, (mr_dtype)dtype);
    if (!st)
        st = check_dims(dims, num_dims);
    if (!st)
        st = new_output(context->run, index, num_dims, dims, &t);
    mr_capi_set_status(status, st);
    return st ? NULL : mr_capi_share(t);
}

/* Whether the output can use the memory of input i; mr_run_forward then does so. */
static bool input_fits(const mr_run *r, int i, int output, const int64_t *dims, int rank)
{
    if (i < 0 || i >= r->n_in || r->in[i].kind != MR_LIVE)
        return false;
    const mr_tensor *t = r->in[i].t;
    int64_t n;
    mr_status *st = mr_shape_elements(rank, dims, &n);
    mr_status_free(st);
    return !st && t->n == n && t->dtype == mr_out_dtype(r, output) && mr_tensor_sole(t);
}

static mr_status *forward_input(mr_run *r, const int *candidates, int n, int output, const int64_t *dims,
                                int rank, int *used, mr_tensor **out)
{
    MR_TRY(check_output(r, output));
    MR_TRY(check_dims(dims, rank));
    bool on_host = !mr_plugin_allocator(r, output, mr_out_dtype(r, output)); /* elsewhere outputs are always new */
    *used = -1;
    for (int k = 0; k < n && *used < 0 && on_host; k++)
        if (input_fits(r, candidates[k], output, dims, rank))
            *used = candidates[k];
    return *used < 0 ? new_output(r, output, rank, dims, out)
                     : mr_run_forward(r, *used, output, rank, dims, out);
}

TF_Tensor *TF_ForwardInputOrAllocateOutput(TF_OpKernelContext *context,
                                           const int *candidate_input_indices,
                                           int num_candidate_input_indices, int output_index,
                                           const int64_t *output_dims, int output_num_dims,
                                           int *forwarded_input, TF_Status *status)
{
    int used = -1;
    mr_tensor *t = NULL;
    mr_status *st = forward_input(context->run, candidate_input_indices, num_candidate_input_indices,
                                  output_index, output_dims, output_num_dims, &used, &t);
    if (forwarded_input)
        *forwarded_input = used;
    mr_capi_set_status(status, st);
    return st ? NULL : mr_capi_share(t);
}

TF_Tensor *TF_AllocateTemp(TF_OpKernelContext *context, TF_DataType dtype, const int64_t *dims,
                           int num_dims, TF_AllocatorAttributes *alloc_attrs, TF_Status *status)
{
    bool on_host = alloc_attrs && alloc_attrs->struct_size >= TF_ALLOCATOR_ATTRIBUTES_STRUCT_SIZE && alloc_attrs->on_host;
    mr_tensor *t = NULL;
    mr_status *st = check_dims(dims, num_dims);
    mr_allocator *a = on_host ? NULL : mr_plugin_allocator(context->run, -1, (mr_dtype)dtype);
    if (!st && a)
        st = mr_tensor_new(a, (mr_dtype)dtype, num_dims, dims, &t);
    else if (!st)
        st = mr_run_temp(context->run, (mr_dtype)dtype, num_dims, dims, &t);
    mr_capi_set_status(status, st);
    return st ? NULL : mr_capi_tensor_new(t);
}

/* ---- where we are ---- */

static TF_StringView view_of(const char *s) { return (TF_StringView){s, strlen(s)}; }

int64_t TF_GetStepId(TF_OpKernelContext *ctx) { return ctx->run->step->id; }
int64_t TF_StepId(TF_OpKernelContext *ctx) { return TF_GetStepId(ctx); }
uint64_t TF_GetFrameId(TF_OpKernelContext *ctx) { return ctx->run->frame; }
int64_t TF_GetIterId(TF_OpKernelContext *ctx) { return ctx->run->iteration; }

int TF_GetDeviceId(TF_OpKernelContext *ctx)
{
    mr_device_name name;
    bool ok = mr_device_name_parse(mr_sv_of(ctx->run->step->device->name), &name);
    return ok && name.id >= 0 ? name.id : 0;
}

TF_StringView TF_GetDeviceName(TF_OpKernelContext *ctx)
{
    return view_of(ctx->run->step->device->name);
}

int TF_GetGraphDefVersion(TF_OpKernelContext *ctx)
{
    return ctx->run->node->graph->versions.producer;
}

TF_StringView TF_GetOpKernelName(TF_OpKernelContext *ctx) { return view_of(ctx->run->node->name); }

TF_StringView TF_GetOpKernelRequestedInput(TF_OpKernelContext *ctx, size_t index)
{
    const mr_node *n = ctx->run->node;
    bool there = index < (size_t)n->n_in && n->in[index].node;
    return view_of(there ? n->in[index].node->name : "");
}

TF_StringView TF_GetResourceMgrDefaultContainerName(TF_OpKernelContext *ctx)
{
    (void)ctx; /* the same on all devices */
    return view_of("localhost");
}
