/* arrays.c -- numpy arrays as tensors and back, without a copy where nobody could tell.
 *
 * A program may write into what it has fed or fetched, while variables, queues and constants keep the tensor: memory is shared
 * only when nobody else has it.  A tensor made of a large array that the conversion itself made borrows its memory and holds a
 * reference; a large array made of a tensor that is nobody else's owns the tensor.  Tensors end in threads that have no right
 * to touch Python objects, so the reference is put on a list that is emptied when the interpreter comes by again
 * (py_release_arrays).  Small arrays are copied: that is cheaper. */
#include "core.h"

#include <stdatomic.h>

enum { COPIED_BYTES = 4096 };

/* ---- dtypes ---- */

static int numpy_type(int dtype)
{
    switch (dtype) {
    case TF_FLOAT: return NPY_FLOAT32;
    case TF_DOUBLE: return NPY_FLOAT64;
    case TF_INT32: case TF_QINT32: return NPY_INT32;
    case TF_UINT8: case TF_QUINT8: return NPY_UINT8;
    case TF_INT16: case TF_QINT16: return NPY_INT16;
    case TF_INT8: case TF_QINT8: return NPY_INT8;
    case TF_STRING: return NPY_OBJECT;
    case TF_COMPLEX64: return NPY_COMPLEX64;
    case TF_INT64: return NPY_INT64;
    case TF_BOOL: return NPY_BOOL;
    case TF_BFLOAT16: return NPY_FLOAT32; /* numpy has none: widened, and rounded on the way back */
    case TF_UINT16: case TF_QUINT16: return NPY_UINT16;
    case TF_COMPLEX128: return NPY_COMPLEX128;
    case TF_HALF: return NPY_FLOAT16;
    case TF_UINT32: return NPY_UINT32;
    case TF_UINT64: return NPY_UINT64;
    }
    return -1;
}

/* ---- arrays that tensors borrow ---- */

typedef struct borrowed {
    PyObject *array;
    struct borrowed *next;
} borrowed;

static _Atomic(borrowed *) released;

static void give_back(void *data, size_t length, void *arg)
{
    (void)data, (void)length;
    borrowed *b = arg;
    b->next = atomic_load_explicit(&released, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&released, &b->next, b, memory_order_release, memory_order_relaxed))
        ;
}

void py_release_arrays(void)
{
    if (!atomic_load_explicit(&released, memory_order_relaxed))
        return;
    borrowed *b = atomic_exchange_explicit(&released, NULL, memory_order_acquire);
    while (b) {
        borrowed *next = b->next;
        Py_DECREF(b->array);
        PyMem_RawFree(b);
        b = next;
    }
}

/* ---- to tensors ---- */

static TF_Tensor *allocate(PyArrayObject *a, int dtype, size_t bytes)
{
    int64_t dims[NPY_MAXDIMS + 1];
    for (int i = 0; i < PyArray_NDIM(a); i++)
        dims[i] = PyArray_DIM(a, i);
    TF_Tensor *t = TF_AllocateTensor((TF_DataType)dtype, dims, PyArray_NDIM(a), bytes);
    if (!t)
        PyErr_NoMemory();
    return t;
}

static TF_Tensor *borrow(PyArrayObject *a, int dtype)
{
    int64_t dims[NPY_MAXDIMS + 1];
    for (int i = 0; i < PyArray_NDIM(a); i++)
        dims[i] = PyArray_DIM(a, i);
    borrowed *b = PyMem_RawMalloc(sizeof(*b));
    if (!b) {
        PyErr_NoMemory();
        return NULL;
    }
    b->array = Py_NewRef((PyObject *)a);
    size_t bytes = (size_t)PyArray_NBYTES(a);
    TF_Tensor *t = TF_NewTensor((TF_DataType)dtype, dims, PyArray_NDIM(a), PyArray_DATA(a), bytes, give_back, b);
    if (!t)
        PyErr_NoMemory(); /* b was given back */
    return t;
}

/* Rounds to the nearest, ties to even; a NaN keeps its upper bits and stays one. */
static uint16_t bfloat16_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    if (f != f)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static TF_Tensor *bfloat16_tensor(PyArrayObject *a)
{
    npy_intp n = PyArray_SIZE(a);
    TF_Tensor *t = allocate(a, TF_BFLOAT16, (size_t)n * 2);
    for (npy_intp i = 0; t && i < n; i++)
        ((uint16_t *)TF_TensorData(t))[i] = bfloat16_of(((const float *)PyArray_DATA(a))[i]);
    return t;
}

const char *py_string(PyObject *o, Py_ssize_t *n)
{
    char *p = NULL;
    if (PyUnicode_Check(o))
        return PyUnicode_AsUTF8AndSize(o, n);
    if (PyBytes_Check(o))
        return PyBytes_AsStringAndSize(o, &p, n) == 0 ? p : NULL;
    if (PyByteArray_Check(o)) {
        *n = PyByteArray_GET_SIZE(o);
        return PyByteArray_AS_STRING(o);
    }
    PyErr_Format(PyExc_TypeError, "Expected a string or bytes, got %R of type '%.200s'", o, Py_TYPE(o)->tp_name);
    return NULL;
}

static TF_Tensor *string_tensor(PyArrayObject *a)
{
    npy_intp n = PyArray_SIZE(a);
    TF_Tensor *t = allocate(a, TF_STRING, (size_t)n * sizeof(TF_TString));
    TF_TString *to = t ? TF_TensorData(t) : NULL;
    for (npy_intp i = 0; to && i < n; i++)
        TF_TString_Init(&to[i]);
    for (npy_intp i = 0; to && i < n; i++) {
        Py_ssize_t length;
        PyObject *o = ((PyObject **)PyArray_DATA(a))[i]; /* numpy means None by NULL */
        const char *p = py_string(o ? o : Py_None, &length);
        if (!p) {
            TF_DeleteTensor(t);
            return NULL;
        }
        TF_TString_Copy(&to[i], p, (size_t)length);
    }
    return t;
}

static TF_Tensor *number_tensor(PyArrayObject *a, int dtype)
{
    size_t bytes = (size_t)PyArray_NBYTES(a);
    bool ours = Py_REFCNT(a) == 1 && PyArray_CHKFLAGS(a, NPY_ARRAY_OWNDATA);
    if (ours && bytes > COPIED_BYTES && (uintptr_t)PyArray_DATA(a) % 16 == 0)
        return borrow(a, dtype);
    TF_Tensor *t = allocate(a, dtype, bytes);
    if (t && bytes)
        memcpy(TF_TensorData(t), PyArray_DATA(a), bytes);
    return t;
}

/* True for an array that can be read as it is. PyArray_FromAny would return it too, but takes ten times as long to see that. */
static bool is_plain_array(PyObject *value, int type)
{
    if (!PyArray_CheckExact(value))
        return false;
    PyArrayObject *a = (PyArrayObject *)value;
    return PyArray_TYPE(a) == type && PyArray_ISCARRAY_RO(a);
}

TF_Tensor *py_tensor_from(PyObject *value, int dtype)
{
    int type = numpy_type(dtype);
    if (type < 0) {
        PyErr_Format(PyExc_TypeError, "A Python value cannot be converted to a tensor of dtype %d", dtype);
        return NULL;
    }
    int layout = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED | NPY_ARRAY_NOTSWAPPED | NPY_ARRAY_FORCECAST;
    PyArrayObject *a = is_plain_array(value, type)
                           ? (PyArrayObject *)Py_NewRef(value)
                           : (PyArrayObject *)PyArray_FromAny(value, PyArray_DescrFromType(type), 0, 0, layout, NULL);
    if (!a)
        return NULL;
    TF_Tensor *t = dtype == TF_STRING     ? string_tensor(a)
                   : dtype == TF_BFLOAT16 ? bfloat16_tensor(a)
                                          : number_tensor(a, dtype);
    Py_DECREF(a);
    return t;
}

/* True if the sizes of an array are those of a tuple of ints and None. */
static bool sizes_fit(int n, const npy_intp *sizes, PyObject *wanted)
{
    if (wanted == Py_None)
        return true;
    if (n != PyTuple_GET_SIZE(wanted))
        return false;
    for (int i = 0; i < n; i++) {
        PyObject *w = PyTuple_GET_ITEM(wanted, i);
        if (w != Py_None && PyLong_AsSsize_t(w) != sizes[i])
            return false;
    }
    return true;
}

/* True for an array, or a scalar of numpy, of exactly this type and shape. type: a numpy dtype, or None, which nothing fits. */
static bool value_fits(PyObject *v, PyObject *type, PyObject *dims)
{
    if (!PyArray_DescrCheck(type))
        return false;
    if (PyArray_CheckExact(v)) {
        PyArrayObject *a = (PyArrayObject *)v;
        bool same = PyArray_DESCR(a) == (PyArray_Descr *)type || PyArray_EquivTypes(PyArray_DESCR(a), (PyArray_Descr *)type);
        return same && sizes_fit(PyArray_NDIM(a), PyArray_DIMS(a), dims);
    }
    return Py_TYPE(v) == ((PyArray_Descr *)type)->typeobj && sizes_fit(0, NULL, dims);
}

/* fitting(value, wanted, convert): the items of a tuple as a list; those that are not of their type and shape are
 * converted. wanted: for each item (dtype or None, sizes or None, what convert gets as its second argument). */
PyObject *py_fitting(PyObject *module, PyObject *const *args, Py_ssize_t n_args)
{
    (void)module;
    if (n_args != 3 || !PyTuple_Check(args[0]) || !PyTuple_Check(args[1]) ||
        PyTuple_GET_SIZE(args[0]) != PyTuple_GET_SIZE(args[1])) {
        PyErr_SetString(PyExc_TypeError, "fitting() expects two tuples of the same length, and a function");
        return NULL;
    }
    Py_ssize_t n = PyTuple_GET_SIZE(args[0]);
    PyObject *list = PyList_New(n);
    for (Py_ssize_t i = 0; list && i < n; i++) {
        PyObject *v = PyTuple_GET_ITEM(args[0], i), *w = PyTuple_GET_ITEM(args[1], i), *made;
        if (!PyTuple_Check(w) || PyTuple_GET_SIZE(w) != 3 ||
            (PyTuple_GET_ITEM(w, 1) != Py_None && !PyTuple_Check(PyTuple_GET_ITEM(w, 1)))) {
            PyErr_SetString(PyExc_TypeError, "fitting() expects a tuple of (dtype, sizes, argument)");
            made = NULL;
        } else if (value_fits(v, PyTuple_GET_ITEM(w, 0), PyTuple_GET_ITEM(w, 1))) {
            made = Py_NewRef(v);
        } else {
            made = PyObject_CallFunctionObjArgs(args[2], v, PyTuple_GET_ITEM(w, 2), NULL);
        }
        if (made)
            PyList_SET_ITEM(list, i, made);
        else
            Py_CLEAR(list);
    }
    return list;
}

/* ---- from tensors ---- */

static void delete_tensor(PyObject *capsule) { TF_DeleteTensor(PyCapsule_GetPointer(capsule, NULL)); }

static PyObject *new_array(const TF_Tensor *t, int type, void *data)
{
    npy_intp dims[NPY_MAXDIMS];
    int n = TF_NumDims(t);
    if (n > NPY_MAXDIMS)
        return PyErr_Format(PyExc_ValueError, "The tensor has rank %d, but numpy supports at most %d", n, NPY_MAXDIMS);
    for (int i = 0; i < n; i++)
        dims[i] = (npy_intp)TF_Dim(t, i);
    return PyArray_New(&PyArray_Type, n, dims, type, NULL, data, 0, data ? NPY_ARRAY_CARRAY : 0, NULL);
}

static PyObject *strings_of(const TF_Tensor *t)
{
    PyObject *a = new_array(t, NPY_OBJECT, NULL);
    const TF_TString *from = TF_TensorData(t);
    PyObject **to = a ? PyArray_DATA((PyArrayObject *)a) : NULL;
    for (npy_intp i = 0, n = a ? PyArray_SIZE((PyArrayObject *)a) : 0; i < n; i++) {
        PyObject *b = PyBytes_FromStringAndSize(TF_TString_GetDataPointer(&from[i]), (Py_ssize_t)TF_TString_GetSize(&from[i]));
        if (!b) {
            Py_CLEAR(a);
            break;
        }
        Py_XSETREF(to[i], b);
    }
    return a;
}

static PyObject *widened(const TF_Tensor *t)
{
    PyObject *a = new_array(t, NPY_FLOAT32, NULL);
    const uint16_t *from = TF_TensorData(t);
    for (npy_intp i = 0, n = a ? PyArray_SIZE((PyArrayObject *)a) : 0; i < n; i++) {
        uint32_t u = (uint32_t)from[i] << 16;
        memcpy((float *)PyArray_DATA((PyArrayObject *)a) + i, &u, sizeof u);
    }
    return a;
}

static PyObject *copied(const TF_Tensor *t, int type)
{
    PyObject *a = new_array(t, type, NULL);
    if (a && TF_TensorByteSize(t))
        memcpy(PyArray_DATA((PyArrayObject *)a), TF_TensorData(t), TF_TensorByteSize(t));
    return a;
}

static PyObject *owning(TF_Tensor *t, int type)
{
    PyObject *a = new_array(t, type, TF_TensorData(t));
    PyObject *owner = a ? PyCapsule_New(t, NULL, delete_tensor) : NULL;
    if (!owner || PyArray_SetBaseObject((PyArrayObject *)a, owner) < 0) {
        Py_XDECREF(a);
        if (!owner)
            TF_DeleteTensor(t);
        return NULL;
    }
    return a;
}

PyObject *py_array_from(TF_Tensor *t)
{
    int dtype = (int)TF_TensorType(t), type = numpy_type(dtype);
    PyObject *a = NULL;
    if (type < 0)
        PyErr_Format(PyExc_TypeError, "A tensor of dtype %d cannot be converted to a Python value", dtype);
    else if (dtype != TF_STRING && dtype != TF_BFLOAT16 && TF_TensorByteSize(t) > COPIED_BYTES && TF_TensorMaybeMove(t))
        return owning(t, type); /* too large to be a scalar */
    else
        a = dtype == TF_STRING ? strings_of(t) : dtype == TF_BFLOAT16 ? widened(t) : copied(t, type);
    TF_DeleteTensor(t);
    return a ? PyArray_Return((PyArrayObject *)a) : NULL;
}

PyObject *py_bytes_from(TF_Buffer *b)
{
    PyObject *o = b ? PyBytes_FromStringAndSize(b->data, (Py_ssize_t)b->length) : Py_NewRef(Py_None);
    TF_DeleteBuffer(b);
    return o;
}
