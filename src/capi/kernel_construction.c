/* capi/kernel_construction.c -- gives a client's create function the attrs of its node.
 *
 * These do not go through the functions for TF_Operation: those take the lock of the client's
 * graph, which may be held while a kernel is made (constants are evaluated as shapes are inferred). */
#include "capi/kernels.h"
#include "graph/graph_def.h"
#include "wire/pb.h"

void TF_OpKernelConstruction_Failure(TF_OpKernelConstruction *ctx, TF_Status *status)
{
    if (ctx && status)
        mr_status_update(&ctx->st, mr_capi_status_copy(status));
}

TF_StringView TF_OpKernelConstruction_GetName(TF_OpKernelConstruction *ctx)
{
    const char *name = ctx->make->node->name;
    return (TF_StringView){name, strlen(name)};
}

bool TF_OpKernelConstruction_HasAttr(TF_OpKernelConstruction *ctx, const char *attr_name,
                                     TF_Status *status)
{
    mr_capi_set_status(status, attr_name ? NULL : mr_invalid("attr_name is NULL"));
    return attr_name && mr_node_attr(ctx->make->node, attr_name);
}

static mr_status *check_name(const char *attr_name)
{
    return attr_name ? NULL : mr_invalid("attr_name is NULL");
}

/* ---- sizes ---- */

static int64_t bytes_of(const mr_attr *v)
{
    int64_t sum = v->is_list ? 0 : (int64_t)v->s.n;
    for (int i = 0; v->is_list && i < v->n; i++)
        sum += (int64_t)v->ss[i].n;
    return sum;
}

static int64_t ranks_of(const mr_attr *v)
{
    int64_t sum = v->is_list ? 0 : v->shape->rank;
    for (int i = 0; v->is_list && i < v->n; i++)
        sum += MR_MAX(v->shapes[i]->rank, 0);
    return sum;
}

static mr_status *get_size(const mr_node *n, const char *name, int32_t *list_size,
                           int32_t *total_size)
{
    MR_TRY(check_name(name));
    const mr_attr *v = mr_node_attr(n, name);
    if (!v)
        return mr_invalid("Operation '%s' has no attr named '%s'.", n->name, name);
    bool empty = v->is_list && v->n == 0;
    int64_t total = empty                       ? -1
                    : v->kind == MR_ATTR_STRING ? bytes_of(v)
                    : v->kind == MR_ATTR_SHAPE  ? ranks_of(v)
                                                : -1;
    if (total > INT32_MAX)
        return mr_invalid("Attr '%s' of '%s' is larger than 2 GiB", name, n->name);
    *list_size = v->is_list ? v->n : -1;
    *total_size = (int32_t)total;
    return NULL;
}

void TF_OpKernelConstruction_GetAttrSize(TF_OpKernelConstruction *ctx, const char *attr_name,
                                         int32_t *list_size, int32_t *total_size, TF_Status *status)
{
    mr_capi_set_status(status, get_size(ctx->make->node, attr_name, list_size, total_size));
}

/* ---- single values ---- */

/* Defines a getter that reads a value of type Ours and returns it as Type. */
#define GETTER(Name, Type, Ours, get)                                                      \
    void TF_OpKernelConstruction_GetAttr##Name(                                            \
        TF_OpKernelConstruction *ctx, const char *attr_name, Type *val, TF_Status *status) \
    {                                                                                      \
        Ours v;                                                                            \
        mr_status *st = check_name(attr_name);                                             \
        if (!st)                                                                           \
            st = get(ctx->make->node, attr_name, &v);                                      \
        if (!st)                                                                           \
            *val = (Type)v;                                                                \
        mr_capi_set_status(status, st);                                                    \
    }
GETTER(Type, TF_DataType, mr_dtype, mr_node_get_type)
GETTER(Int64, int64_t, int64_t, mr_node_get_int)
GETTER(Float, float, float, mr_node_get_float)
GETTER(Bool, TF_Bool, bool, mr_node_get_bool)

static mr_status *narrow_to_i32(const char *name, int64_t v, int32_t *out)
{
    if (v < INT32_MIN || v > INT32_MAX)
        return mr_invalid("Attr %s has value %lld out of range for an int32", name, (long long)v);
    *out = (int32_t)v;
    return NULL;
}

void TF_OpKernelConstruction_GetAttrInt32(TF_OpKernelConstruction *ctx, const char *attr_name,
                                          int32_t *val, TF_Status *status)
{
    int64_t v;
    mr_status *st = check_name(attr_name);
    if (!st)
        st = mr_node_get_int(ctx->make->node, attr_name, &v);
    mr_capi_set_status(status, st ? st : narrow_to_i32(attr_name, v, val));
}

void TF_OpKernelConstruction_GetAttrString(TF_OpKernelConstruction *ctx, const char *attr_name,
                                           char *val, size_t max_length, TF_Status *status)
{
    mr_sv s;
    mr_status *st = check_name(attr_name);
    if (!st)
        st = mr_node_get_str(ctx->make->node, attr_name, &s);
    if (!st && MR_MIN(s.n, max_length))
        memcpy(val, s.p, MR_MIN(s.n, max_length));
    mr_capi_set_status(status, st);
}

void TF_OpKernelConstruction_GetAttrTensor(TF_OpKernelConstruction *ctx, const char *attr_name,
                                           TF_Tensor **val, TF_Status *status)
{
    mr_tensor *t;
    *val = NULL;
    mr_status *st = check_name(attr_name);
    if (!st)
        st = mr_node_get_tensor(ctx->make->node, attr_name, &t);
    if (!st)
        st = mr_capi_tensor_own(t, val);
    mr_capi_set_status(status, st);
}

void TF_OpKernelConstruction_GetAttrTensorShape(TF_OpKernelConstruction *ctx, const char *attr_name,
                                                int64_t *dims, size_t num_dims, TF_Status *status)
{
    const mr_pshape *s;
    mr_status *st = check_name(attr_name);
    if (!st)
        st = mr_node_get_shape(ctx->make->node, attr_name, &s);
    for (int i = 0; !st && i < s->rank && (size_t)i < num_dims; i++)
        dims[i] = s->dims[i];
    mr_capi_set_status(status, st);
}

/* ---- lists ---- */

/* The list, and in *n how many of its values there is room for. */
static mr_status *get_list(const TF_OpKernelConstruction *ctx, const char *name, mr_attr_kind kind,
                           int max, const mr_attr **out, int *n)
{
    *n = 0;
    MR_TRY(check_name(name));
    MR_TRY(mr_node_get_list(ctx->make->node, name, kind, out));
    *n = MR_MAX(0, MR_MIN((*out)->n, max));
    return NULL;
}

#define LIST_GETTER(Name, Type, KIND, member)                                           \
    void TF_OpKernelConstruction_GetAttr##Name##List(TF_OpKernelConstruction *ctx,      \
                                                     const char *attr_name, Type *vals, \
                                                     int max_vals, TF_Status *status)   \
    {                                                                                   \
        const mr_attr *v = NULL;                                                        \
        int n;                                                                          \
        mr_status *st = get_list(ctx, attr_name, KIND, max_vals, &v, &n);               \
        for (int i = 0; i < n; i++)                                                     \
            vals[i] = (Type)v->member[i];                                               \
        mr_capi_set_status(status, st);                                                 \
    }
LIST_GETTER(Type, TF_DataType, MR_ATTR_TYPE, types)
LIST_GETTER(Int64, int64_t, MR_ATTR_INT, is)
LIST_GETTER(Float, float, MR_ATTR_FLOAT, fs)
LIST_GETTER(Bool, TF_Bool, MR_ATTR_BOOL, bs)

void TF_OpKernelConstruction_GetAttrInt32List(TF_OpKernelConstruction *ctx, const char *attr_name,
                                              int32_t *vals, int max_vals, TF_Status *status)
{
    const mr_attr *v = NULL;
    int n;
    mr_status *st = get_list(ctx, attr_name, MR_ATTR_INT, max_vals, &v, &n);
    for (int i = 0; !st && i < n; i++)
        st = narrow_to_i32(attr_name, v->is[i], &vals[i]);
    mr_capi_set_status(status, st);
}

void TF_OpKernelConstruction_GetAttrStringList(TF_OpKernelConstruction *ctx, const char *attr_name,
                                               char **vals, size_t *lengths, int max_values,
                                               void *storage, size_t storage_size,
                                               TF_Status *status)
{
    const mr_attr *v = NULL;
    char *at = storage;
    int n;
    mr_status *st = get_list(ctx, attr_name, MR_ATTR_STRING, max_values, &v, &n);
    for (int i = 0; !st && i < n; i++) {
        lengths[i] = v->ss[i].n;
        vals[i] = at;
        if (lengths[i] > storage_size) {
            st = mr_invalid("Not enough storage to hold the requested list of strings");
        } else if (lengths[i]) {
            memcpy(at, v->ss[i].p, lengths[i]);
            at += lengths[i];
            storage_size -= lengths[i];
        }
    }
    mr_capi_set_status(status, st);
}

void TF_OpKernelConstruction_GetAttrTensorList(TF_OpKernelConstruction *ctx, const char *attr_name,
                                               TF_Tensor **vals, int max_values, TF_Status *status)
{
    const mr_attr *v = NULL;
    int n, done = 0;
    mr_status *st = get_list(ctx, attr_name, MR_ATTR_TENSOR, max_values, &v, &n);
    for (; !st && done < n; done++) {
        mr_tensor *t;
        vals[done] = NULL;
        st = mr_attr_tensor(v->tensors[done], &t);
        if (!st)
            st = mr_capi_tensor_own(t, &vals[done]);
    }
    while (st && done-- > 0) { /* all or none */
        TF_DeleteTensor(vals[done]);
        vals[done] = NULL;
    }
    mr_capi_set_status(status, st);
}

/* ---- messages ---- */

/* A new buffer with the bytes, or NULL after an error; s is empty afterwards. */
static TF_Buffer *give_buffer(mr_str *s, mr_status *st, TF_Status *status)
{
    mr_capi_set_status(status, st);
    TF_Buffer *b = st ? NULL : mr_capi_buffer_new(s);
    mr_str_deinit(s);
    return b;
}

/* An AttrValue has the NameAttrList in field 10. */
static mr_status *encode_function(const mr_node *n, const char *name, mr_str *out)
{
    const mr_func_ref *f;
    mr_str value = {0};
    mr_pb_reader r;
    uint32_t field, wire;
    MR_TRY(check_name(name));
    MR_TRY(mr_node_get_func(n, name, &f));
    mr_status *st = mr_attr_encode(&(mr_attr){MR_ATTR_FUNC, .func = f}, &value);
    mr_pb_reader_init(&r, mr_str_view(&value));
    while (!st && mr_pb_next(&r, &field, &wire)) {
        if (field == 10 && wire == MR_WIRE_BYTES) {
            mr_sv list = mr_pb_bytes(&r);
            mr_str_append(out, list.p, list.n);
        } else {
            mr_pb_skip(&r);
        }
    }
    mr_str_deinit(&value);
    return st;
}

TF_Buffer *TF_OpKernelConstruction_GetAttrFunction(TF_OpKernelConstruction *ctx, const char *attr_name, TF_Status *status)
{
    mr_str bytes = {0};
    mr_status *st = encode_function(ctx->make->node, attr_name, &bytes);
    return give_buffer(&bytes, st, status);
}

TF_Buffer *TF_OpKernelConstruction_GetNodeDef(TF_OpKernelConstruction *ctx, TF_Status *status)
{
    mr_str bytes = {0};
    mr_status *st = mr_node_encode(ctx->make->node, &bytes);
    return give_buffer(&bytes, st, status);
}
