/* import.c -- GraphDefs into a graph. */
#include "core.h"
#include "millrace/saved_model.h"

static bool each_pair(PyObject *list, bool (*take)(TF_ImportGraphDefOptions *, PyObject *), TF_ImportGraphDefOptions *o)
{
    PyObject *items = py_items(list, "A sequence is expected");
    bool ok = items;
    for (Py_ssize_t i = 0; ok && i < PyTuple_GET_SIZE(items); i++)
        ok = take(o, PyTuple_GET_ITEM(items, i));
    Py_XDECREF(items);
    return ok;
}

static bool take_mapping(TF_ImportGraphDefOptions *o, PyObject *item)
{
    const char *name;
    int index;
    PyObject *to;
    TF_Output out;
    if (!py_is_tuple(item) || !PyArg_ParseTuple(item, "siO", &name, &index, &to))
        return false;
    if (PyObject_TypeCheck(to, &py_operation_type)) {
        TF_ImportGraphDefOptionsRemapControlDependency(o, name, ((py_operation *)to)->op);
        return true;
    }
    if (!py_output_of(to, &out))
        return false;
    TF_ImportGraphDefOptionsAddInputMapping(o, name, index, out);
    return true;
}

static bool take_control(TF_ImportGraphDefOptions *o, PyObject *item)
{
    if (!PyObject_TypeCheck(item, &py_operation_type)) {
        PyErr_Format(PyExc_TypeError, "An operation is expected, not %R", item);
        return false;
    }
    TF_ImportGraphDefOptionsAddControlDependency(o, ((py_operation *)item)->op);
    return true;
}

/* A pair of name and index; index -1 means the operation. */
static bool take_return(TF_ImportGraphDefOptions *o, PyObject *item)
{
    const char *name;
    int index;
    if (!py_is_tuple(item) || !PyArg_ParseTuple(item, "si", &name, &index))
        return false;
    if (index < 0)
        TF_ImportGraphDefOptionsAddReturnOperation(o, name);
    else
        TF_ImportGraphDefOptionsAddReturnOutput(o, name, index);
    return true;
}

/* (outputs asked for, operations asked for, unused keys of the map) */
static PyObject *import_results(py_graph *g, TF_ImportGraphDefResults *r)
{
    int n;
    TF_Output *outs;
    TF_Operation **ops;
    const char **names;
    int *indexes;
    PyObject *o = PyList_New(0), *p = PyList_New(0), *u = PyList_New(0);
    bool ok = o && p && u;
    TF_ImportGraphDefResultsReturnOutputs(r, &n, &outs);
    for (int i = 0; ok && i < n; i++) {
        PyObject *x = py_wrap_output(g, outs[i]);
        ok = x && PyList_Append(o, x) == 0;
        Py_XDECREF(x);
    }
    TF_ImportGraphDefResultsReturnOperations(r, &n, &ops);
    for (int i = 0; ok && i < n; i++) {
        PyObject *x = py_wrap(g, ops[i]);
        ok = x && PyList_Append(p, x) == 0;
        Py_XDECREF(x);
    }
    TF_ImportGraphDefResultsMissingUnusedInputMappings(r, &n, &names, &indexes);
    for (int i = 0; ok && i < n; i++) {
        PyObject *x = Py_BuildValue("si", names[i], indexes[i]);
        ok = x && PyList_Append(u, x) == 0;
        Py_XDECREF(x);
    }
    if (ok)
        return Py_BuildValue("NNN", o, p, u);
    Py_XDECREF(o);
    Py_XDECREF(p);
    Py_XDECREF(u);
    return NULL;
}

/* The bytes of a GraphDef, or those of the file that a text names. */
static TF_Buffer *graph_bytes(PyObject *from, TF_Status *s)
{
    char *p;
    Py_ssize_t n;
    if (PyUnicode_Check(from)) {
        const char *path = PyUnicode_AsUTF8(from);
        return path ? mr_map_file(path, s) : NULL;
    }
    return PyBytes_AsStringAndSize(from, &p, &n) < 0 ? NULL : TF_NewBufferFromString(p, (size_t)n);
}

/* import_graph_def(bytes or path, prefix, mapping=[(name, index, output or operation)], controls=[], returns=[(name, index)],
 *                  uniquify=False, device="") */
PyObject *py_graph_import(py_graph *g, PyObject *args)
{
    const char *prefix, *device = "";
    PyObject *from, *mapping, *controls, *returns;
    int uniquify = 0;
    if (!PyArg_ParseTuple(args, "OsOOO|ps", &from, &prefix, &mapping, &controls, &returns, &uniquify, &device))
        return NULL;
    TF_ImportGraphDefOptions *o = TF_NewImportGraphDefOptions();
    TF_ImportGraphDefOptionsSetPrefix(o, prefix);
    TF_ImportGraphDefOptionsSetUniquifyNames(o, (unsigned char)uniquify);
    if (device[0])
        TF_ImportGraphDefOptionsSetDefaultDevice(o, device);
    TF_ImportGraphDefResults *r = NULL;
    TF_Status *s = NULL;
    if (each_pair(mapping, take_mapping, o) && each_pair(controls, take_control, o) && each_pair(returns, take_return, o) &&
        (s = py_status_new())) {
        TF_Buffer *b = graph_bytes(from, s);
        if (b)
            r = TF_GraphImportGraphDefWithResults(g->graph, b, o, s);
        TF_DeleteBuffer(b);
    }
    TF_DeleteImportGraphDefOptions(o);
    PyObject *out = s && py_status_ok(s) && r ? import_results(g, r) : NULL;
    TF_DeleteImportGraphDefResults(r);
    return out;
}
