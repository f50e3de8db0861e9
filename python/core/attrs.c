/* attrs.c -- attributes of operations as Python values.
 *
 * The kind of a value is a letter: s string, i int, f float, b bool, t dtype (its number), h shape (tuple or None), x tensor (a
 * pair of dtype and value), n name of a function, p a serialized AttrValue; with a [ before it, a list of such. */
#include "core.h"

/* ---- setting ---- */

static bool set_string(TF_OperationDescription *d, const char *name, PyObject *v)
{
    Py_ssize_t n;
    const char *p = py_string(v, &n);
    if (p)
        TF_SetAttrString(d, name, p, (size_t)n);
    return p;
}

static bool set_shape(TF_OperationDescription *d, const char *name, PyObject *v)
{
    int64_t *dims;
    int n;
    if (!py_shape_from(v, &dims, &n))
        return false;
    TF_SetAttrShape(d, name, dims, n);
    PyMem_Free(dims);
    return true;
}

static bool set_tensor(TF_OperationDescription *d, const char *name, PyObject *v)
{
    int dtype;
    PyObject *value;
    if (!py_is_tuple(v) || !PyArg_ParseTuple(v, "iO", &dtype, &value))
        return false;
    TF_Tensor *t = py_tensor_from(value, dtype);
    TF_Status *s = t ? py_status_new() : NULL;
    if (s)
        TF_SetAttrTensor(d, name, t, s);
    TF_DeleteTensor(t);
    return s && py_status_ok(s);
}

static bool set_proto(TF_OperationDescription *d, const char *name, PyObject *v)
{
    char *p;
    Py_ssize_t n;
    TF_Status *s = PyBytes_AsStringAndSize(v, &p, &n) == 0 ? py_status_new() : NULL;
    if (s)
        TF_SetAttrValueProto(d, name, p, (size_t)n, s);
    return s && py_status_ok(s);
}

static bool set_one(TF_OperationDescription *d, const char *name, char kind, PyObject *v)
{
    switch (kind) {
    case 's': return set_string(d, name, v);
    case 'i': TF_SetAttrInt(d, name, PyLong_AsLongLong(v)); break;
    case 'f': TF_SetAttrFloat(d, name, (float)PyFloat_AsDouble(v)); break;
    case 'b': TF_SetAttrBool(d, name, PyObject_IsTrue(v) > 0); break;
    case 't': TF_SetAttrType(d, name, (TF_DataType)PyLong_AsLong(v)); break;
    case 'h': return set_shape(d, name, v);
    case 'x': return set_tensor(d, name, v);
    case 'n': {
        Py_ssize_t n;
        const char *p = py_string(v, &n);
        if (!p)
            return false;
        TF_SetAttrFuncName(d, name, p, (size_t)n);
        break;
    }
    case 'p': return set_proto(d, name, v);
    default: PyErr_Format(PyExc_ValueError, "Unknown attr kind '%c'", kind); return false;
    }
    return !PyErr_Occurred();
}

static bool set_strings(TF_OperationDescription *d, const char *name, PyObject *list, Py_ssize_t n)
{
    const void **p = PyMem_Calloc((size_t)n + 1, sizeof(*p));
    size_t *length = PyMem_Calloc((size_t)n + 1, sizeof(*length));
    bool ok = p && length;
    for (Py_ssize_t i = 0; ok && i < n; i++) {
        Py_ssize_t l = 0;
        ok = (p[i] = py_string(PyTuple_GET_ITEM(list, i), &l));
        length[i] = (size_t)l;
    }
    if (ok)
        TF_SetAttrStringList(d, name, p, length, (int)n);
    PyMem_Free(p);
    PyMem_Free(length);
    return ok || (PyErr_Occurred() ? false : (PyErr_NoMemory(), false));
}

static bool set_shapes(TF_OperationDescription *d, const char *name, PyObject *list, Py_ssize_t n)
{
    int64_t **dims = PyMem_Calloc((size_t)n + 1, sizeof(*dims));
    int *n_dims = PyMem_Calloc((size_t)n + 1, sizeof(*n_dims));
    bool ok = dims && n_dims;
    for (Py_ssize_t i = 0; ok && i < n; i++)
        ok = py_shape_from(PyTuple_GET_ITEM(list, i), &dims[i], &n_dims[i]);
    if (ok)
        TF_SetAttrShapeList(d, name, (const int64_t *const *)dims, n_dims, (int)n);
    for (Py_ssize_t i = 0; dims && i < n; i++)
        PyMem_Free(dims[i]);
    PyMem_Free(dims);
    PyMem_Free(n_dims);
    return ok || (PyErr_Occurred() ? false : (PyErr_NoMemory(), false));
}

/* Numbers of a list, all of one size, converted by the kind. */
static bool set_numbers(TF_OperationDescription *d, const char *name, char kind, PyObject *list, Py_ssize_t n)
{
    int64_t *at = PyMem_Calloc((size_t)n + 1, sizeof(*at)); /* large enough for any kind */
    if (!at)
        return PyErr_NoMemory(), false;
    for (Py_ssize_t i = 0; i < n && !PyErr_Occurred(); i++) {
        PyObject *v = PyTuple_GET_ITEM(list, i);
        if (kind == 'i')
            at[i] = PyLong_AsLongLong(v);
        else if (kind == 'f')
            ((float *)at)[i] = (float)PyFloat_AsDouble(v);
        else if (kind == 'b')
            ((unsigned char *)at)[i] = PyObject_IsTrue(v) > 0;
        else
            ((TF_DataType *)at)[i] = (TF_DataType)PyLong_AsLong(v);
    }
    bool ok = !PyErr_Occurred();
    if (ok && kind == 'i')
        TF_SetAttrIntList(d, name, at, (int)n);
    else if (ok && kind == 'f')
        TF_SetAttrFloatList(d, name, (float *)at, (int)n);
    else if (ok && kind == 'b')
        TF_SetAttrBoolList(d, name, (unsigned char *)at, (int)n);
    else if (ok)
        TF_SetAttrTypeList(d, name, (TF_DataType *)at, (int)n);
    PyMem_Free(at);
    return ok;
}

static bool set_list(TF_OperationDescription *d, const char *name, char kind, PyObject *v)
{
    PyObject *list = py_items(v, "A list is expected for this attr");
    if (!list)
        return false;
    Py_ssize_t n = PyTuple_GET_SIZE(list);
    bool ok = false;
    if (strchr("ifbt", kind))
        ok = set_numbers(d, name, kind, list, n);
    else if (kind == 's')
        ok = set_strings(d, name, list, n);
    else if (kind == 'h')
        ok = set_shapes(d, name, list, n);
    else
        PyErr_Format(PyExc_ValueError, "Unknown attr kind '[%c'", kind);
    Py_DECREF(list);
    return ok;
}

bool py_set_attr(TF_OperationDescription *d, const char *name, const char *kind, PyObject *value)
{
    return kind[0] == '[' && kind[1] ? set_list(d, name, kind[1], value) : set_one(d, name, kind[0], value);
}

/* ---- getting ---- */

static PyObject *get_proto(TF_Operation *op, const char *name)
{
    TF_Buffer *b;
    TF_Status *s;
    if (!py_new_buffer(&b, &s))
        return NULL;
    TF_OperationGetAttrValueProto(op, name, b, s);
    return py_finish_buffer(b, s);
}

static PyObject *get_one(TF_Operation *op, const char *name, const TF_AttrMetadata *m, TF_Status *s)
{
    int64_t i = 0;
    float f = 0;
    unsigned char b = 0;
    TF_DataType t = TF_FLOAT;
    switch (m->type) {
    case TF_ATTR_INT: TF_OperationGetAttrInt(op, name, &i, s); return PyLong_FromLongLong(i);
    case TF_ATTR_FLOAT: TF_OperationGetAttrFloat(op, name, &f, s); return PyFloat_FromDouble(f);
    case TF_ATTR_BOOL: TF_OperationGetAttrBool(op, name, &b, s); return PyBool_FromLong(b);
    case TF_ATTR_TYPE: TF_OperationGetAttrType(op, name, &t, s); return PyLong_FromLong(t);
    case TF_ATTR_STRING: {
        PyObject *o = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)m->total_size);
        if (o)
            TF_OperationGetAttrString(op, name, PyBytes_AS_STRING(o), (size_t)m->total_size, s);
        return o;
    }
    case TF_ATTR_SHAPE: {
        int n = (int)m->total_size;
        int64_t *dims = PyMem_Calloc((size_t)(n > 0 ? n : 1), sizeof(*dims));
        if (!dims)
            return PyErr_NoMemory();
        TF_OperationGetAttrShape(op, name, dims, n, s);
        PyObject *o = py_shape(n, dims);
        PyMem_Free(dims);
        return o;
    }
    case TF_ATTR_TENSOR: {
        TF_Tensor *x = NULL;
        TF_OperationGetAttrTensor(op, name, &x, s);
        return x ? py_array_from(x) : Py_NewRef(Py_None);
    }
    default: return Py_NewRef(Py_None);
    }
}

static char letter_of(TF_AttrType t)
{
    static const char letters[] = {[TF_ATTR_STRING] = 's', [TF_ATTR_INT] = 'i', [TF_ATTR_FLOAT] = 'f', [TF_ATTR_BOOL] = 'b',
                                   [TF_ATTR_TYPE] = 't', [TF_ATTR_SHAPE] = 'h', [TF_ATTR_TENSOR] = 'x'};
    return (size_t)t < sizeof letters && letters[t] ? letters[t] : 'p';
}

/* (kind, value); lists and functions come as a serialized AttrValue. */
PyObject *py_get_attr(py_operation *o, PyObject *name)
{
    const char *n = py_text(name);
    TF_Status *s = n ? py_status_new() : NULL;
    if (!s)
        return NULL;
    TF_AttrMetadata m = TF_OperationGetAttrMetadata(o->op, n, s);
    if (TF_GetCode(s) != TF_OK)
        return py_status_ok(s), NULL;
    char kind = m.is_list ? 'p' : letter_of(m.type);
    PyObject *v = kind == 'p' ? get_proto(o->op, n) : get_one(o->op, n, &m, s);
    if (!py_status_ok(s) || !v) {
        Py_XDECREF(v);
        return NULL;
    }
    return Py_BuildValue("CN", kind, v);
}
