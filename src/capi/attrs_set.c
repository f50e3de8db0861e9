/* capi/attrs_set.c -- TF_SetAttr...: passes values from the client's arrays and messages to the
 * builder.
 *
 * The builder copies values before it returns, so they are built in temporary memory. Errors are
 * reported in two ways: functions with a status set it and leave the description unchanged; the
 * others leave it to TF_FinishOperation. */
#include "capi/internal.h"

#include "graph/attr.h"
#include "wire/pb.h"

static void fail_description(TF_OperationDescription *desc, mr_status *st) { mr_status_update(&desc->st, st); }

static mr_status *no_memory(const char *attr, int n)
{
    return mr_error(MR_RESOURCE_EXHAUSTED, "No memory for the %d values of attr '%s'", n, attr);
}

static mr_status *bad_list(const char *attr, int n)
{
    return mr_invalid("The list of values for attr '%s' is NULL, or its length %d is negative", attr, n);
}

/* Checks the arguments that all functions here have. n is the length of a list, otherwise 0. */
static bool list_is_valid(TF_OperationDescription *desc, const char *attr, const void *values, int n)
{
    if (!desc)
        return false;
    if (!attr)
        fail_description(desc, mr_invalid("attr_name is NULL"));
    else if (n < 0 || (n && !values))
        fail_description(desc, bad_list(attr, n));
    else
        return true;
    return false;
}

/* ---- single values ---- */

void TF_SetAttrString(TF_OperationDescription *desc, const char *attr_name, const void *value,
                      size_t length)
{
    if (list_is_valid(desc, attr_name, value, length ? 1 : 0))
        mr_nb_attr(desc->b, attr_name, mr_a_sv((mr_sv){value ? value : "", length}));
}

void TF_SetAttrInt(TF_OperationDescription *desc, const char *attr_name, int64_t value)
{
    if (list_is_valid(desc, attr_name, NULL, 0))
        mr_nb_attr(desc->b, attr_name, mr_a_int(value));
}

void TF_SetAttrFloat(TF_OperationDescription *desc, const char *attr_name, float value)
{
    if (list_is_valid(desc, attr_name, NULL, 0))
        mr_nb_attr(desc->b, attr_name, mr_a_float(value));
}

void TF_SetAttrBool(TF_OperationDescription *desc, const char *attr_name, unsigned char value)
{
    if (list_is_valid(desc, attr_name, NULL, 0))
        mr_nb_attr(desc->b, attr_name, mr_a_bool(value != 0));
}

void TF_SetAttrType(TF_OperationDescription *desc, const char *attr_name, TF_DataType value)
{
    if (list_is_valid(desc, attr_name, NULL, 0))
        mr_nb_attr(desc->b, attr_name, mr_a_type((int)value));
}

void TF_SetAttrPlaceholder(TF_OperationDescription *desc, const char *attr_name,
                           const char *placeholder)
{
    if (list_is_valid(desc, attr_name, placeholder, 1))
        mr_nb_attr(desc->b, attr_name, (mr_attr){MR_ATTR_PLACEHOLDER, .s = mr_sv_of(placeholder)});
}

void TF_SetAttrFuncName(TF_OperationDescription *desc, const char *attr_name, const char *value,
                        size_t length)
{
    if (!list_is_valid(desc, attr_name, value, 1))
        return;
    if (memchr(value, '\0', length)) {
        fail_description(desc,
                         mr_invalid("The function for attr '%s' has a name with a NUL inside", attr_name));
        return;
    }
    char *name = mr_strndup(value, length);
    mr_func_ref f = {.name = name};
    mr_nb_attr(desc->b, attr_name, (mr_attr){MR_ATTR_FUNC, .func = &f});
    mr_free(name);
}

/* ---- lists with the same layout as ours ---- */

void TF_SetAttrIntList(TF_OperationDescription *desc, const char *attr_name, const int64_t *values,
                       int num_values)
{
    if (list_is_valid(desc, attr_name, values, num_values))
        mr_nb_attr(desc->b, attr_name, mr_a_ints(num_values, values));
}

void TF_SetAttrFloatList(TF_OperationDescription *desc, const char *attr_name, const float *values,
                         int num_values)
{
    if (list_is_valid(desc, attr_name, values, num_values))
        mr_nb_attr(desc->b, attr_name, (mr_attr){MR_ATTR_FLOAT, true, num_values, .fs = values});
}

void TF_SetAttrTypeList(TF_OperationDescription *desc, const char *attr_name,
                        const TF_DataType *values, int num_values)
{
    if (list_is_valid(desc, attr_name, values, num_values))
        mr_nb_attr(desc->b, attr_name, mr_a_types(num_values, (const int *)values));
}

/* ---- lists that are put together first ---- */

void TF_SetAttrStringList(TF_OperationDescription *desc, const char *attr_name,
                          const void *const *values, const size_t *lengths, int num_values)
{
    if (!list_is_valid(desc, attr_name, values, num_values) ||
        !list_is_valid(desc, attr_name, lengths, num_values))
        return;
    mr_sv *s = mr_try_calloc((size_t)num_values, sizeof(*s));
    if (!s) {
        fail_description(desc, no_memory(attr_name, num_values));
        return;
    }
    for (int i = 0; i < num_values; i++)
        if (values[i])
            s[i] = (mr_sv){values[i], lengths[i]};
        else if (lengths[i])
            fail_description(desc, mr_invalid("String %d for attr '%s' is NULL", i, attr_name));
    mr_nb_attr(desc->b, attr_name, mr_a_strs(num_values, s));
    mr_free(s);
}

/* Any non-zero byte of the client is true; ours are 0 or 1. */
void TF_SetAttrBoolList(TF_OperationDescription *desc, const char *attr_name,
                        const unsigned char *values, int num_values)
{
    if (!list_is_valid(desc, attr_name, values, num_values))
        return;
    bool *b = mr_try_calloc((size_t)num_values, sizeof(*b));
    if (!b) {
        fail_description(desc, no_memory(attr_name, num_values));
        return;
    }
    for (int i = 0; i < num_values; i++)
        b[i] = values[i] != 0;
    mr_nb_attr(desc->b, attr_name, (mr_attr){MR_ATTR_BOOL, true, num_values, .bs = b});
    mr_free(b);
}

/* ---- shapes ---- */

/* A shape in memory of the call. */
static mr_status *make_shape(mr_arena *a, const char *attr, const int64_t *dims, int n,
                             const mr_pshape **out)
{
    *out = &mr_pshape_unknown;
    if (n < 0)
        return NULL;
    if (n > MR_MAX_RANK || (n && !dims))
        return mr_invalid("The shape for attr '%s' is NULL, or its rank %d is larger than %d", attr, n, MR_MAX_RANK);
    for (int i = 0; i < n; i++)
        if (dims[i] < -1)
            return mr_invalid("Dimension %d of the shape for attr '%s' is %lld", i, attr,
                              (long long)dims[i]);
    *out = mr_pshape_of(a, n, dims);
    return NULL;
}

void TF_SetAttrShape(TF_OperationDescription *desc, const char *attr_name, const int64_t *dims,
                     int num_dims)
{
    mr_arena a = {0};
    const mr_pshape *s;
    if (!list_is_valid(desc, attr_name, NULL, 0))
        return;
    mr_status *st = make_shape(&a, attr_name, dims, num_dims, &s);
    if (!st)
        mr_nb_attr(desc->b, attr_name, mr_a_shape(s));
    fail_description(desc, st);
    mr_arena_deinit(&a);
}

void TF_SetAttrShapeList(TF_OperationDescription *desc, const char *attr_name,
                         const int64_t *const *dims, const int *num_dims, int num_shapes)
{
    mr_arena a = {0};
    mr_status *st = NULL;
    if (!list_is_valid(desc, attr_name, dims, num_shapes) ||
        !list_is_valid(desc, attr_name, num_dims, num_shapes))
        return;
    const mr_pshape **s = mr_arena_try_array(&a, const mr_pshape *, num_shapes);
    if (!s)
        st = no_memory(attr_name, num_shapes);
    for (int i = 0; !st && i < num_shapes; i++)
        st = make_shape(&a, attr_name, dims[i], num_dims[i], &s[i]);
    if (!st)
        mr_nb_attr(desc->b, attr_name, mr_a_shapes(num_shapes, s));
    fail_description(desc, st);
    mr_arena_deinit(&a);
}

/* ---- with a status ---- */

/* The same for functions that return the error. */
static mr_status *check_args(const TF_OperationDescription *desc, const char *attr,
                             const void *values, int n)
{
    if (!desc || !attr)
        return mr_invalid("desc or attr_name is NULL");
    return n < 0 || (n && !values) ? bad_list(attr, n) : NULL;
}

static mr_status *parse_shape(mr_arena *a, const void *proto, size_t n, const mr_pshape **out)
{
    mr_status *st = proto || !n ? mr_pshape_decode(a, (mr_sv){proto, n}, out) : mr_invalid("NULL");
    if (!st)
        return NULL;
    mr_status_free(st);
    return mr_invalid("Unparseable TensorShapeProto");
}

void TF_SetAttrTensorShapeProto(TF_OperationDescription *desc, const char *attr_name,
                                const void *proto, size_t proto_len, TF_Status *status)
{
    mr_arena a = {0};
    const mr_pshape *s;
    mr_status *st = check_args(desc, attr_name, NULL, 0);
    if (!st)
        st = parse_shape(&a, proto, proto_len, &s);
    if (!st)
        mr_nb_attr(desc->b, attr_name, mr_a_shape(s));
    mr_arena_deinit(&a);
    mr_capi_set_status(status, st);
}

void TF_SetAttrTensorShapeProtoList(TF_OperationDescription *desc, const char *attr_name,
                                    const void *const *protos, const size_t *proto_lens,
                                    int num_shapes, TF_Status *status)
{
    mr_arena a = {0};
    mr_status *st = NULL;
    MR_GO(check_args(desc, attr_name, protos, num_shapes));
    MR_GO(check_args(desc, attr_name, proto_lens, num_shapes));
    const mr_pshape **s = mr_arena_try_array(&a, const mr_pshape *, num_shapes);
    if (!s)
        MR_GO(no_memory(attr_name, num_shapes));
    for (int i = 0; i < num_shapes; i++)
        MR_GO(parse_shape(&a, protos[i], proto_lens[i], &s[i]));
    mr_nb_attr(desc->b, attr_name, mr_a_shapes(num_shapes, s));
out:
    mr_arena_deinit(&a);
    mr_capi_set_status(status, st);
}

/* The client keeps its tensor and may write to it again, so the graph gets a copy. */
static mr_status *copy_tensor(const TF_Tensor *t, mr_tensor **out)
{
    mr_tensor *value;
    MR_TRY(mr_capi_tensor_value(t, &value));
    mr_status *st = mr_tensor_copy(NULL, value, out);
    mr_tensor_unref(value);
    return st;
}

void TF_SetAttrTensor(TF_OperationDescription *desc, const char *attr_name, TF_Tensor *value,
                      TF_Status *status)
{
    mr_tensor *t = NULL;
    mr_status *st = check_args(desc, attr_name, NULL, 0);
    if (!st)
        st = copy_tensor(value, &t);
    if (!st)
        mr_nb_attr_tensor(desc->b, attr_name, t);
    mr_tensor_unref(t);
    mr_capi_set_status(status, st);
}

void TF_SetAttrTensorList(TF_OperationDescription *desc, const char *attr_name,
                          TF_Tensor *const *values, int num_values, TF_Status *status)
{
    mr_arena a = {0};
    mr_status *st = NULL;
    mr_tensor_attr *t = NULL;
    MR_GO(check_args(desc, attr_name, values, num_values));
    t = mr_arena_try_array(&a, mr_tensor_attr, num_values);
    const mr_tensor_attr **list = mr_arena_try_array(&a, const mr_tensor_attr *, num_values);
    if (!t || !list)
        MR_GO(no_memory(attr_name, num_values));
    for (int i = 0; i < num_values; i++) {
        list[i] = &t[i];
        MR_GO(copy_tensor(values[i], &t[i].t));
    }
    mr_nb_attr(desc->b, attr_name, (mr_attr){MR_ATTR_TENSOR, true, num_values, .tensors = list});
out:
    for (int i = 0; t && i < num_values; i++)
        mr_tensor_unref(t[i].t);
    mr_arena_deinit(&a);
    mr_capi_set_status(status, st);
}

static mr_status *parse_value(mr_arena *a, const void *proto, size_t n, mr_attr *out)
{
    mr_status *st = proto || !n ? mr_attr_decode(a, (mr_sv){proto, n}, out) : mr_invalid("NULL");
    if (!st)
        return NULL;
    mr_status_free(st);
    return mr_invalid("Unparseable AttrValue proto");
}

void TF_SetAttrValueProto(TF_OperationDescription *desc, const char *attr_name, const void *proto,
                          size_t proto_len, TF_Status *status)
{
    mr_arena a = {0};
    mr_attr v;
    mr_status *st = NULL;
    MR_GO(check_args(desc, attr_name, NULL, 0));
    MR_GO(parse_value(&a, proto, proto_len, &v));
    if (strcmp(attr_name, "_class") == 0 && !v.is_list && v.kind != MR_ATTR_NONE)
        MR_GO(mr_invalid("Expected \"list\" field for \"_class\" attribute"));
    if (strcmp(attr_name, "_class") == 0 && !v.is_list)
        v = mr_a_strs(0, NULL);
    mr_nb_attr(desc->b, attr_name, v);
out:
    mr_arena_deinit(&a);
    mr_capi_set_status(status, st);
}
