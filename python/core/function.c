/* function.c -- Function: a body that graphs share. */
#include "core.h"

typedef struct py_function {
    PyObject_HEAD
    TF_Function *f;
} py_function;

static PyObject *wrap_function(TF_Function *f)
{
    py_function *o = PyObject_New(py_function, &py_function_type);
    if (o)
        o->f = f;
    else
        TF_DeleteFunction(f);
    return (PyObject *)o;
}

static void function_free(py_function *o)
{
    TF_DeleteFunction(o->f);
    PyObject_Free(o);
}

static PyObject *function_name(py_function *o, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(TF_FunctionName(o->f));
}

static PyObject *function_def(py_function *o, PyObject *unused)
{
    (void)unused;
    TF_Buffer *b;
    TF_Status *s;
    if (!py_new_buffer(&b, &s))
        return NULL;
    TF_FunctionToFunctionDef(o->f, b, s);
    return py_finish_buffer(b, s);
}

/* set_attr(name, AttrValue) */
static PyObject *function_set_attr(py_function *o, PyObject *args)
{
    const char *name, *p;
    Py_ssize_t n;
    if (!PyArg_ParseTuple(args, "sy#", &name, &p, &n))
        return NULL;
    TF_Status *s = py_status_new();
    if (s)
        TF_FunctionSetAttrValueProto(o->f, name, p, (size_t)n, s);
    return s && py_status_ok(s) ? Py_NewRef(Py_None) : NULL;
}

/* from_def(bytes) */
static PyObject *function_from_def(PyObject *class, PyObject *args)
{
    (void)class;
    const char *p;
    Py_ssize_t n;
    if (!PyArg_ParseTuple(args, "y#", &p, &n))
        return NULL;
    TF_Status *s = py_status_new();
    TF_Function *f = s ? TF_FunctionImportFunctionDef(p, (size_t)n, s) : NULL;
    return s && py_status_ok(s) ? wrap_function(f) : NULL;
}

static PyMethodDef function_methods[] = {
    {"to_def", (PyCFunction)function_def, METH_NOARGS, "The serialized FunctionDef."},
    {"set_attr", (PyCFunction)function_set_attr, METH_VARARGS, "set_attr(name, AttrValue)"},
    {"from_def", (PyCFunction)function_from_def, METH_VARARGS | METH_CLASS, "A function from a serialized FunctionDef."},
    {0}};
static PyGetSetDef function_getset[] = {{"name", (getter)function_name, NULL, "Its name.", NULL}, {0}};
PyTypeObject py_function_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_millrace.Function",
                                 .tp_basicsize = sizeof(py_function),
                                 .tp_flags = Py_TPFLAGS_DEFAULT,
                                 .tp_dealloc = (destructor)function_free,
                                 .tp_methods = function_methods,
                                 .tp_getset = function_getset};

/* Pointers to the texts of a tuple of str; to be freed.  The strings belong to the tuple, which must stay. */
static const char **texts_of(PyObject *names, int n)
{
    if (PyTuple_GET_SIZE(names) != n)
        return (void *)PyErr_Format(PyExc_ValueError, "Expected a list of %d names", n);
    const char **p = PyMem_Calloc((size_t)n + 1, sizeof(*p));
    if (!p)
        return (void *)PyErr_NoMemory();
    for (int i = 0; i < n; i++)
        if (!(p[i] = py_text(PyTuple_GET_ITEM(names, i)))) {
            PyMem_Free(p);
            return NULL;
        }
    return p;
}

/* to_function(name, append_hash, operations or None, inputs, outputs, output names or None, description) */
PyObject *py_graph_to_function(py_graph *g, PyObject *args)
{
    const char *name, *description = NULL, **names = NULL;
    int append, n_ops = -1, n_in, n_out;
    PyObject *ops, *inputs, *outputs, *output_names, *items = NULL;
    TF_Operation **op = NULL;
    TF_Output *in = NULL, *out = NULL;
    TF_Function *f = NULL;
    TF_Status *s = NULL;
    if (!PyArg_ParseTuple(args, "spOOOO|z", &name, &append, &ops, &inputs, &outputs, &output_names, &description))
        return NULL;
    bool ok = (ops == Py_None || py_operations(ops, &op, &n_ops)) && py_outputs(inputs, &in, &n_in) &&
              py_outputs(outputs, &out, &n_out) &&
              (output_names == Py_None ||
               ((items = py_items(output_names, "A sequence of names is expected")) && (names = texts_of(items, n_out))));
    if (ok && (s = py_status_new()))
        f = TF_GraphToFunction(g->graph, name, (unsigned char)append, n_ops, (const TF_Operation *const *)op, n_in, in, n_out,
                               out, (const char *const *)names, NULL, description, s);
    PyMem_Free(op);
    PyMem_Free(in);
    PyMem_Free(out);
    PyMem_Free(names);
    Py_XDECREF(items);
    return s && py_status_ok(s) ? wrap_function(f) : NULL;
}

/* add_function(function, gradient or None) */
PyObject *py_graph_add_function(py_graph *g, PyObject *args)
{
    py_function *f;
    PyObject *gradient = Py_None;
    if (!PyArg_ParseTuple(args, "O!|O", &py_function_type, &f, &gradient))
        return NULL;
    if (gradient != Py_None && !PyObject_TypeCheck(gradient, &py_function_type))
        return PyErr_Format(PyExc_TypeError, "A function is expected, not %R", gradient);
    TF_Status *s = py_status_new();
    if (s)
        TF_GraphCopyFunction(g->graph, f->f, gradient == Py_None ? NULL : ((py_function *)gradient)->f, s);
    return s && py_status_ok(s) ? Py_NewRef(Py_None) : NULL;
}
