/* capi/attrs_get.c -- TF_OperationGetAttr...: the values of attrs, as single ones and as lists.
 *
 * Errors are reported in two ways, as in TensorFlow: a missing attr is INVALID_ARGUMENT for some
 * functions and NOT_FOUND for others, and most list functions only check that the value is a list,
 * so a list of another element type yields nothing. Programs rely on this.
 *
 * TF_SetAttr may change an attr while another thread reads, so reading takes the graph's lock; the
 * values themselves are immutable and live as long as the graph. */
#include "capi/internal.h"

/* ---- finding ---- */

/* The attr, or NULL. */
static const mr_attr *look_up(const TF_Operation *oper, const char *name, mr_attr *room)
{
    mr_mutex *mu = mr_capi_lock(mr_capi_node(oper));
    const mr_attr *v = mr_node_attr(mr_capi_node(oper), name);
    if (v)
        *room = *v;
    mr_capi_unlock(mu);
    return v ? room : NULL;
}

static mr_status *check_args(const TF_Operation *oper, const char *name)
{
    return oper && name ? NULL : mr_invalid("oper or attr_name is NULL");
}

/* For the functions that answer INVALID_ARGUMENT. */
static mr_status *find_attr(const TF_Operation *oper, const char *name, mr_attr *out)
{
    MR_TRY(check_args(oper, name));
    if (!look_up(oper, name, out))
        return mr_invalid("Operation '%s' has no attr named '%s'.", mr_capi_node(oper)->name, name);
    return NULL;
}

static mr_status *find_any_list(const TF_Operation *oper, const char *name, mr_attr *out)
{
    MR_TRY(find_attr(oper, name, out));
    return out->is_list ? NULL : mr_invalid("Value for '%s' is not a list.", name);
}

/* For functions that return NOT_FOUND and check the kind. An empty list is of every kind. */
static mr_status *find_kind(const TF_Operation *oper, const char *name, mr_attr_kind kind,
                            bool is_list, mr_attr *out)
{
    MR_TRY(check_args(oper, name));
    const char *node = mr_capi_node(oper)->name;
    if (!look_up(oper, name, out))
        return mr_error(MR_NOT_FOUND, "No attr named '%s' in NodeDef:\n\t {{node %s}}", name, node);
    if (out->is_list == is_list && (out->kind == kind || (is_list && out->n == 0)))
        return NULL;
    mr_str have = {0}, want = {0};
    mr_attr_type_name(&have, out->kind, out->is_list);
    mr_attr_type_name(&want, kind, is_list);
    mr_status *st = mr_invalid("AttrValue had value with type '%s' when '%s' expected\n\t for attr "
                               "'%s'\n\t; NodeDef: {{node %s}}",
                               mr_str_z(&have), mr_str_z(&want), name, node);
    mr_str_deinit(&have);
    mr_str_deinit(&want);
    return st;
}

/* How many values of this kind the list has, at most max. */
static int count_values(const mr_attr *v, mr_attr_kind kind, int max)
{
    return v->kind == kind ? MR_MAX(0, MR_MIN(v->n, max)) : 0;
}

/* ---- what there is to know about an attr ---- */

static int64_t total_size(const mr_attr *v)
{
    int64_t sum = 0;
    if (v->kind == MR_ATTR_STRING && !v->is_list)
        return (int64_t)v->s.n;
    if (v->kind == MR_ATTR_SHAPE && !v->is_list)
        return v->shape->rank; /* -1 when unknown */
    if (v->kind != MR_ATTR_STRING && v->kind != MR_ATTR_SHAPE)
        return -1;
    for (int i = 0; i < v->n; i++)
        sum += v->kind == MR_ATTR_STRING ? (int64_t)v->ss[i].n : MR_MAX(v->shapes[i]->rank, 0);
    return sum;
}

/* The value of an empty list does not say what it is a list of; the definition of the op does. */
static mr_attr_kind declared_kind(const mr_node *n, const char *name)
{
    const mr_attr_def *d = mr_op_def_attr(n->def, name);
    return d ? d->kind : MR_ATTR_STRING; /* the first kind: of unknown attrs any will do */
}

static mr_status *describe_attr(const TF_Operation *oper, const char *name, TF_AttrMetadata *m)
{
    mr_attr v;
    MR_TRY(find_attr(oper, name, &v));
    if (!v.is_list && v.kind == MR_ATTR_NONE)
        return mr_invalid("Attribute '%s' has no value set", name);
    /* Lists of functions are reported as empty: an oversight of TensorFlow's that stays. */
    bool empty = v.is_list && (v.n == 0 || v.kind == MR_ATTR_FUNC);
    mr_attr_kind kind = v.is_list && v.n == 0 ? declared_kind(mr_capi_node(oper), name) : v.kind;
    m->is_list = v.is_list;
    m->list_size = !v.is_list ? -1 : empty ? 0 : v.n;
    m->type = (TF_AttrType)(kind - 1);
    m->total_size = empty ? -1 : total_size(&v);
    return NULL;
}

TF_AttrMetadata TF_OperationGetAttrMetadata(TF_Operation *oper, const char *attr_name,
                                            TF_Status *status)
{
    TF_AttrMetadata m = {0};
    mr_capi_set_status(status, describe_attr(oper, attr_name, &m));
    return m;
}

/* ---- names ---- */

int TF_OperationGetNumAttrs(TF_Operation *oper) { return oper ? mr_capi_node(oper)->n_attrs : 0; }

/* The name of attr i; false if there is none. */
static bool name_at(const TF_Operation *oper, int i, mr_sv *out)
{
    const mr_node *n = mr_capi_node(oper);
    if (!n)
        return false;
    mr_mutex *mu = mr_capi_lock(n);
    bool ok = i >= 0 && i < n->n_attrs;
    if (ok)
        *out = mr_sv_of(n->attrs[i].name);
    mr_capi_unlock(mu);
    return ok;
}

int TF_OperationGetAttrNameLength(TF_Operation *oper, int i)
{
    mr_sv name;
    return name_at(oper, i, &name) ? (int)name.n : -1;
}

void TF_OperationGetAttrName(TF_Operation *oper, int i, char *output, TF_Status *status)
{
    mr_sv name;
    mr_status *st = NULL;
    if (!name_at(oper, i, &name))
        st = mr_error(MR_OUT_OF_RANGE, "Operation only has %d attributes, can't get the %dth",
                      TF_OperationGetNumAttrs(oper), i);
    else if (output)
        memcpy(output, name.p, name.n);
    mr_capi_set_status(status, st);
}

/* ---- strings ---- */

void TF_OperationGetAttrString(TF_Operation *oper, const char *attr_name, void *value,
                               size_t max_length, TF_Status *status)
{
    mr_attr v;
    mr_status *st = find_attr(oper, attr_name, &v);
    if (!st && (v.is_list || v.kind != MR_ATTR_STRING))
        st = mr_invalid("Attribute '%s' is not a string", attr_name);
    if (!st && value && MR_MIN(v.s.n, max_length))
        memcpy(value, v.s.p, MR_MIN(v.s.n, max_length));
    mr_capi_set_status(status, st);
}

static mr_status *give_strings(const mr_attr *v, void **values, size_t *lengths, int max,
                               char *storage, size_t room)
{
    if (!values || !lengths)
        return mr_invalid("values or lengths is NULL");
    for (int i = 0; i < count_values(v, MR_ATTR_STRING, max); i++) {
        size_t n = v->ss[i].n;
        values[i] = storage;
        lengths[i] = n;
        if (n > room || (n && !storage))
            return mr_invalid("Not enough storage to hold the requested list of strings");
        if (n)
            memcpy(storage, v->ss[i].p, n);
        storage += n;
        room -= n;
    }
    return NULL;
}

void TF_OperationGetAttrStringList(TF_Operation *oper, const char *attr_name, void **values,
                                   size_t *lengths, int max_values, void *storage,
                                   size_t storage_size, TF_Status *status)
{
    mr_attr v;
    mr_status *st = find_any_list(oper, attr_name, &v);
    if (!st)
        st = give_strings(&v, values, lengths, max_values, storage, storage_size);
    mr_capi_set_status(status, st);
}

/* ---- numbers, booleans, types ---- */

/* GetAttr<Name> and GetAttr<Name>List for values that are copied one by one. */
#define GETTERS(Name, Type, KIND, one, many)                                                      \
    void TF_OperationGetAttr##Name(TF_Operation *oper, const char *attr_name, Type *value,        \
                                   TF_Status *status)                                             \
    {                                                                                             \
        mr_attr v;                                                                                \
        mr_status *st = find_kind(oper, attr_name, KIND, false, &v);                              \
        if (!st && value)                                                                         \
            *value = (Type)v.one;                                                                 \
        mr_capi_set_status(status, st);                                                           \
    }                                                                                             \
    void TF_OperationGetAttr##Name##List(TF_Operation *oper, const char *attr_name, Type *values, \
                                         int max_values, TF_Status *status)                       \
    {                                                                                             \
        mr_attr v;                                                                                \
        mr_status *st = find_any_list(oper, attr_name, &v);                                       \
        for (int i = 0; !st && values && i < count_values(&v, KIND, max_values); i++)                    \
            values[i] = (Type)v.many[i];                                                          \
        mr_capi_set_status(status, st);                                                           \
    }
GETTERS(Int, int64_t, MR_ATTR_INT, i, is)
GETTERS(Float, float, MR_ATTR_FLOAT, f, fs)
GETTERS(Bool, unsigned char, MR_ATTR_BOOL, b, bs)
GETTERS(Type, TF_DataType, MR_ATTR_TYPE, type, types)

/* ---- shapes ---- */

void TF_OperationGetAttrShape(TF_Operation *oper, const char *attr_name, int64_t *value,
                              int num_dims, TF_Status *status)
{
    mr_attr v;
    mr_status *st = find_kind(oper, attr_name, MR_ATTR_SHAPE, false, &v);
    for (int i = 0; !st && value && i < MR_MIN(v.shape->rank, num_dims); i++)
        value[i] = v.shape->dims[i];
    mr_capi_set_status(status, st);
}

static mr_status *give_shapes(const mr_attr *v, int64_t **dims, int *num_dims, int max,
                              int64_t *storage, int room)
{
    if (!dims || !num_dims)
        return mr_invalid("dims or num_dims is NULL");
    for (int i = 0; i < MR_MIN(v->n, max); i++) {
        const mr_pshape *s = v->shapes[i];
        dims[i] = storage;
        num_dims[i] = s->rank;
        if (s->rank > room || (s->rank > 0 && !storage))
            return mr_invalid("Not enough storage to hold the requested list of shapes");
        for (int d = 0; d < s->rank; d++)
            *storage++ = s->dims[d];
        room -= MR_MAX(s->rank, 0);
    }
    return NULL;
}

void TF_OperationGetAttrShapeList(TF_Operation *oper, const char *attr_name, int64_t **dims,
                                  int *num_dims, int num_shapes, int64_t *storage, int storage_size,
                                  TF_Status *status)
{
    mr_attr v;
    mr_status *st = find_kind(oper, attr_name, MR_ATTR_SHAPE, true, &v);
    if (!st)
        st = give_shapes(&v, dims, num_dims, num_shapes, storage, storage_size);
    mr_capi_set_status(status, st);
}

void TF_OperationGetAttrTensorShapeProto(TF_Operation *oper, const char *attr_name,
                                         TF_Buffer *value, TF_Status *status)
{
    mr_attr v;
    mr_str bytes = {0};
    mr_status *st = find_attr(oper, attr_name, &v);
    if (!st && (v.is_list || v.kind != MR_ATTR_SHAPE))
        st = mr_invalid("Value for '%s' is not a shape.", attr_name);
    if (!st) {
        mr_pshape_encode(v.shape, &bytes);
        st = mr_capi_buffer_fill(value, &bytes);
    }
    mr_capi_set_status(status, st);
}

void TF_OperationGetAttrTensorShapeProtoList(TF_Operation *oper, const char *attr_name,
                                             TF_Buffer **values, int max_values, TF_Status *status)
{
    mr_attr v;
    mr_status *st = find_any_list(oper, attr_name, &v);
    for (int i = 0; !st && values && i < count_values(&v, MR_ATTR_SHAPE, max_values); i++) {
        mr_str bytes = {0};
        mr_pshape_encode(v.shapes[i], &bytes);
        values[i] = mr_capi_buffer_new(&bytes);
    }
    mr_capi_set_status(status, st);
}

/* ---- tensors, and any value ---- */

/* A tensor that the client owns and may write to. */
static mr_status *give_tensor(const mr_tensor_attr *v, TF_Tensor **out)
{
    mr_tensor *t;
    MR_TRY(mr_attr_tensor(v, &t));
    return mr_capi_tensor_own(t, out);
}

void TF_OperationGetAttrTensor(TF_Operation *oper, const char *attr_name, TF_Tensor **value,
                               TF_Status *status)
{
    mr_attr v;
    TF_Tensor *t = NULL;
    mr_status *st = find_kind(oper, attr_name, MR_ATTR_TENSOR, false, &v);
    if (!st && value)
        st = give_tensor(v.tensor, &t);
    if (value)
        *value = t;
    mr_capi_set_status(status, st);
}

void TF_OperationGetAttrTensorList(TF_Operation *oper, const char *attr_name, TF_Tensor **values,
                                   int max_values, TF_Status *status)
{
    mr_attr v;
    int done = 0;
    mr_status *st = find_kind(oper, attr_name, MR_ATTR_TENSOR, true, &v);
    int n = st || !values ? 0 : MR_MIN(v.n, max_values);
    for (; !st && done < n; done++)
        st = give_tensor(v.tensors[done], &values[done]);
    while (st && done-- > 0) { /* all or none: the client would not delete the first few */
        TF_DeleteTensor(values[done]);
        values[done] = NULL;
    }
    mr_capi_set_status(status, st);
}

void TF_OperationGetAttrValueProto(TF_Operation *oper, const char *attr_name,
                                   TF_Buffer *output_attr_value, TF_Status *status)
{
    mr_attr v;
    mr_str bytes = {0};
    mr_status *st = find_attr(oper, attr_name, &v);
    if (!st)
        st = mr_attr_encode(&v, &bytes);
    if (!st)
        st = mr_capi_buffer_fill(output_attr_value, &bytes);
    mr_str_deinit(&bytes);
    mr_capi_set_status(status, st);
}
