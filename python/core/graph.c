/* graph.c -- Graph, Operation and Output.
 *
 * A graph makes one object an operation, of its class's `_operation_class`, when the operation is first seen; `outputs` of that
 * object is a list of its outputs (the package sees to that). */
#include "core.h"

#include <structmember.h>

/* ---- shapes and sequences ---- */

PyObject *py_shape(int n_dims, const int64_t *dims)
{
    if (n_dims < 0)
        Py_RETURN_NONE;
    PyObject *t = PyTuple_New(n_dims);
    for (int i = 0; t && i < n_dims; i++) {
        PyObject *d = dims[i] < 0 ? Py_NewRef(Py_None) : PyLong_FromLongLong(dims[i]);
        if (!d) {
            Py_CLEAR(t);
            break;
        }
        PyTuple_SET_ITEM(t, i, d);
    }
    return t;
}

bool py_shape_from(PyObject *o, int64_t **dims, int *n)
{
    *dims = NULL;
    *n = -1;
    if (o == Py_None)
        return true;
    PyObject *list = PySequence_Fast(o, "A shape is None or a sequence of dimensions");
    if (!list)
        return false;
    Py_ssize_t size = PySequence_Fast_GET_SIZE(list);
    *dims = size < 1000000 ? PyMem_Calloc((size_t)size + 1, sizeof(**dims)) : NULL;
    if (!*dims)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; *dims && i < size && !PyErr_Occurred(); i++) {
        PyObject *d = PySequence_Fast_GET_ITEM(list, i);
        (*dims)[i] = d == Py_None ? -1 : PyLong_AsLongLong(d);
    }
    Py_DECREF(list);
    *n = (int)size;
    if (!PyErr_Occurred())
        return true;
    PyMem_Free(*dims);
    *dims = NULL;
    return false;
}

static bool take_output(PyObject *o, TF_Output *out)
{
    if (!PyObject_TypeCheck(o, &py_output_type)) {
        PyErr_Format(PyExc_TypeError, "A tensor of the graph is expected, not %R", o);
        return false;
    }
    *out = (TF_Output){((py_output *)o)->op->op, ((py_output *)o)->index};
    return true;
}

bool py_outputs(PyObject *sequence, TF_Output **out, int *n)
{
    PyObject *list = PySequence_Fast(sequence, "A sequence of tensors is expected");
    if (!list)
        return false;
    Py_ssize_t size = PySequence_Fast_GET_SIZE(list);
    *n = (int)size;
    *out = PyMem_Calloc((size_t)size + 1, sizeof(**out));
    bool ok = *out || (PyErr_NoMemory(), false);
    for (Py_ssize_t i = 0; ok && i < size; i++)
        ok = take_output(PySequence_Fast_GET_ITEM(list, i), &(*out)[i]);
    Py_DECREF(list);
    if (!ok) {
        PyMem_Free(*out);
        *out = NULL;
    }
    return ok;
}

bool py_operations(PyObject *sequence, TF_Operation ***out, int *n)
{
    PyObject *list = PySequence_Fast(sequence, "A sequence of operations is expected");
    if (!list)
        return false;
    Py_ssize_t size = PySequence_Fast_GET_SIZE(list);
    *n = (int)size;
    *out = PyMem_Calloc((size_t)size + 1, sizeof(**out));
    bool ok = *out || (PyErr_NoMemory(), false);
    for (Py_ssize_t i = 0; ok && i < size; i++) {
        PyObject *o = PySequence_Fast_GET_ITEM(list, i);
        ok = PyObject_TypeCheck(o, &py_operation_type);
        if (ok)
            (*out)[i] = ((py_operation *)o)->op;
        else
            PyErr_Format(PyExc_TypeError, "An operation of the graph is expected, not %R", o);
    }
    Py_DECREF(list);
    if (!ok) {
        PyMem_Free(*out);
        *out = NULL;
    }
    return ok;
}

/* ---- one object an operation ---- */

static PyObject *new_operation(py_graph *g, TF_Operation *op, PyObject *key)
{
    PyObject *class = PyObject_GetAttrString((PyObject *)g, "_operation_class");
    if (!class)
        return NULL;
    py_operation *o = NULL;
    if (PyType_Check(class) && PyType_IsSubtype((PyTypeObject *)class, &py_operation_type))
        o = (py_operation *)((PyTypeObject *)class)->tp_alloc((PyTypeObject *)class, 0);
    else
        PyErr_SetString(PyExc_TypeError, "_operation_class is no class of operations");
    Py_DECREF(class);
    if (!o)
        return NULL;
    o->op = op;
    o->graph = (py_graph *)Py_NewRef((PyObject *)g);
    PyObject *made = PyDict_SetItem(g->ops, key, (PyObject *)o) == 0 ? PyObject_CallMethod((PyObject *)o, "_made", NULL) : NULL;
    if (!made)
        Py_CLEAR(o);
    Py_XDECREF(made);
    return (PyObject *)o;
}

PyObject *py_wrap(py_graph *g, TF_Operation *op)
{
    if (!op)
        Py_RETURN_NONE;
    PyObject *key = PyLong_FromVoidPtr(op);
    if (!key)
        return NULL;
    PyObject *o = PyDict_GetItemWithError(g->ops, key);
    o = o ? Py_NewRef(o) : PyErr_Occurred() ? NULL : new_operation(g, op, key);
    Py_DECREF(key);
    return o;
}

PyObject *py_wrap_output(py_graph *g, TF_Output o)
{
    if (!o.oper)
        Py_RETURN_NONE;
    PyObject *op = py_wrap(g, o.oper);
    PyObject *outputs = op ? PyObject_GetAttrString(op, "outputs") : NULL;
    PyObject *out = outputs ? PySequence_GetItem(outputs, o.index) : NULL;
    Py_XDECREF(op);
    Py_XDECREF(outputs);
    return out;
}

/* ---- Graph ---- */

static PyObject *graph_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args, (void)kwargs;
    py_graph *g = (py_graph *)type->tp_alloc(type, 0);
    if (!g)
        return NULL;
    g->graph = TF_NewGraph();
    g->ops = PyDict_New();
    if (!g->graph || !g->ops) {
        Py_DECREF(g);
        return PyErr_NoMemory();
    }
    return (PyObject *)g;
}

static int graph_traverse(py_graph *g, visitproc visit, void *arg)
{
    Py_VISIT(g->ops);
    Py_VISIT(g->dict);
    return 0;
}

/* The dict of operations goes; the operations stay until the graph does. */
static int graph_clear(py_graph *g)
{
    Py_CLEAR(g->ops);
    Py_CLEAR(g->dict);
    return 0;
}

static void graph_free(py_graph *g)
{
    PyObject_GC_UnTrack(g);
    if (g->weak)
        PyObject_ClearWeakRefs((PyObject *)g);
    graph_clear(g);
    TF_DeleteGraph(g->graph);
    Py_TYPE(g)->tp_free(g);
}

static bool add_inputs(TF_OperationDescription *d, PyObject *inputs)
{
    Py_ssize_t n = PySequence_Fast_GET_SIZE(inputs);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *o = PySequence_Fast_GET_ITEM(inputs, i);
        TF_Output one, *many;
        int size;
        if (!PyList_Check(o) && !PyTuple_Check(o)) {
            if (!take_output(o, &one))
                return false;
            TF_AddInput(d, one);
            continue;
        }
        if (!py_outputs(o, &many, &size))
            return false;
        TF_AddInputList(d, many, size);
        PyMem_Free(many);
    }
    return true;
}

static bool add_controls(TF_OperationDescription *d, PyObject *controls)
{
    TF_Operation **ops;
    int n;
    if (!py_operations(controls, &ops, &n))
        return false;
    for (int i = 0; i < n; i++)
        TF_AddControlInput(d, ops[i]);
    PyMem_Free(ops);
    return true;
}

static bool add_attrs(TF_OperationDescription *d, PyObject *attrs)
{
    Py_ssize_t n = PySequence_Fast_GET_SIZE(attrs);
    for (Py_ssize_t i = 0; i < n; i++) {
        const char *name, *kind;
        PyObject *value;
        if (!PyArg_ParseTuple(PySequence_Fast_GET_ITEM(attrs, i), "ssO", &name, &kind, &value))
            return false;
        if (!py_set_attr(d, name, kind, value))
            return false;
    }
    return true;
}

static bool describe(TF_OperationDescription *d, PyObject *inputs, PyObject *controls, PyObject *attrs, const char *device)
{
    PyObject *in = PySequence_Fast(inputs, "Inputs are a sequence");
    PyObject *at = in ? PySequence_Fast(attrs, "Attrs are a sequence") : NULL;
    bool ok = at && add_inputs(d, in) && add_controls(d, controls) && add_attrs(d, at);
    if (ok && device && device[0])
        TF_SetDevice(d, device);
    Py_XDECREF(in);
    Py_XDECREF(at);
    return ok;
}

/* new_op(type, name, inputs, controls, attrs, device) */
static PyObject *graph_new_op(py_graph *g, PyObject *args)
{
    const char *type, *name, *device = NULL;
    PyObject *inputs, *controls, *attrs;
    if (!PyArg_ParseTuple(args, "ssOOO|z", &type, &name, &inputs, &controls, &attrs, &device))
        return NULL;
    TF_Status *s = py_status_new();
    if (!s)
        return NULL;
    TF_OperationDescription *d = TF_NewOperation(g->graph, type, name);
    bool ok = d ? describe(d, inputs, controls, attrs, device) : (PyErr_NoMemory(), false);
    /* There is no other end for a description than to finish it; what is wrong with it keeps it out of the graph. */
    if (!ok && d)
        TF_AddInput(d, (TF_Output){NULL, 0});
    TF_Operation *op = d ? TF_FinishOperation(d, s) : NULL;
    if (!ok) {
        TF_DeleteStatus(s);
        return NULL;
    }
    return py_status_ok(s) ? py_wrap(g, op) : NULL;
}

static PyObject *graph_op(py_graph *g, PyObject *name)
{
    const char *n = PyUnicode_AsUTF8(name);
    return n ? py_wrap(g, TF_GraphOperationByName(g->graph, n)) : NULL;
}

static PyObject *graph_has_op(py_graph *g, PyObject *name)
{
    const char *n = PyUnicode_AsUTF8(name);
    return n ? PyBool_FromLong(TF_GraphOperationByName(g->graph, n) != NULL) : NULL;
}

/* ops(position=0) -> (operations from there on, position behind them) */
static PyObject *graph_ops(py_graph *g, PyObject *args)
{
    Py_ssize_t from = 0;
    if (!PyArg_ParseTuple(args, "|n", &from) || from < 0)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "A position cannot be negative");
    size_t at = (size_t)from;
    PyObject *list = PyList_New(0);
    for (TF_Operation *op; list && (op = TF_GraphNextOperation(g->graph, &at));) {
        PyObject *o = py_wrap(g, op);
        if (!o || PyList_Append(list, o) < 0)
            Py_CLEAR(list);
        Py_XDECREF(o);
    }
    return list ? Py_BuildValue("Nn", list, (Py_ssize_t)at) : NULL;
}

/* What a function of the C API wrote into a buffer, as bytes. */
static PyObject *finish_buffer(TF_Buffer *b, TF_Status *s)
{
    if (!py_status_ok(s)) {
        TF_DeleteBuffer(b);
        return NULL;
    }
    return py_bytes_from(b);
}

static bool new_buffer(TF_Buffer **b, TF_Status **s)
{
    *b = NULL;
    if (!(*s = py_status_new()))
        return false;
    if ((*b = TF_NewBuffer()))
        return true;
    TF_DeleteStatus(*s);
    PyErr_NoMemory();
    return false;
}

static PyObject *graph_to_graph_def(py_graph *g, PyObject *unused)
{
    (void)unused;
    TF_Buffer *b;
    TF_Status *s;
    if (!new_buffer(&b, &s))
        return NULL;
    TF_GraphToGraphDef(g->graph, b, s);
    return finish_buffer(b, s);
}

static PyObject *graph_op_def(py_graph *g, PyObject *name)
{
    const char *n = PyUnicode_AsUTF8(name);
    TF_Buffer *b;
    TF_Status *s;
    if (!n || !new_buffer(&b, &s))
        return NULL;
    TF_GraphGetOpDef(g->graph, n, b, s);
    return finish_buffer(b, s);
}

static PyObject *graph_versions(py_graph *g, PyObject *unused)
{
    (void)unused;
    TF_Buffer *b;
    TF_Status *s;
    if (!new_buffer(&b, &s))
        return NULL;
    TF_GraphVersions(g->graph, b, s);
    return finish_buffer(b, s);
}

/* set_shape(output, shape): merges what is known. */
static PyObject *graph_set_shape(py_graph *g, PyObject *args)
{
    PyObject *out, *shape;
    TF_Output o;
    int64_t *dims;
    int n;
    if (!PyArg_ParseTuple(args, "OO", &out, &shape) || !take_output(out, &o) || !py_shape_from(shape, &dims, &n))
        return NULL;
    TF_Status *s = py_status_new();
    if (s)
        TF_GraphSetTensorShape(g->graph, o, dims, n, s);
    PyMem_Free(dims);
    return s && py_status_ok(s) ? Py_NewRef(Py_None) : NULL;
}

/* ---- changing operations ---- */

static PyObject *graph_update_input(py_graph *g, PyObject *args)
{
    py_operation *op;
    PyObject *out;
    int index;
    TF_Output o;
    if (!PyArg_ParseTuple(args, "O!iO", &py_operation_type, &op, &index, &out) || !take_output(out, &o))
        return NULL;
    TF_Status *s = py_status_new();
    if (s)
        TF_UpdateEdge(g->graph, o, (TF_Input){op->op, index}, s);
    return s && py_status_ok(s) ? Py_NewRef(Py_None) : NULL;
}

static PyObject *graph_add_control(py_graph *g, PyObject *args)
{
    py_operation *op, *input;
    if (!PyArg_ParseTuple(args, "O!O!", &py_operation_type, &op, &py_operation_type, &input))
        return NULL;
    TF_AddOperationControlInput(g->graph, op->op, input->op);
    Py_RETURN_NONE;
}

static PyObject *graph_clear_controls(py_graph *g, PyObject *op)
{
    if (!PyObject_TypeCheck(op, &py_operation_type))
        return PyErr_Format(PyExc_TypeError, "An operation is expected, not %R", op);
    TF_RemoveAllControlInputs(g->graph, ((py_operation *)op)->op);
    Py_RETURN_NONE;
}

static PyObject *graph_set_device(py_graph *g, PyObject *args)
{
    py_operation *op;
    const char *device;
    if (!PyArg_ParseTuple(args, "O!s", &py_operation_type, &op, &device))
        return NULL;
    TF_SetRequestedDevice(g->graph, op->op, device);
    Py_RETURN_NONE;
}

/* set_attr(operation, name, AttrValue) */
static PyObject *graph_set_attr(py_graph *g, PyObject *args)
{
    py_operation *op;
    const char *name, *p;
    Py_ssize_t n;
    if (!PyArg_ParseTuple(args, "O!sy#", &py_operation_type, &op, &name, &p, &n))
        return NULL;
    TF_Status *s = py_status_new();
    TF_Buffer *b = s ? TF_NewBufferFromString(p, (size_t)n) : NULL;
    if (b)
        TF_SetAttr(g->graph, op->op, name, b, s);
    TF_DeleteBuffer(b);
    return s && py_status_ok(s) ? Py_NewRef(Py_None) : NULL;
}

static PyObject *graph_clear_attr(py_graph *g, PyObject *args)
{
    py_operation *op;
    const char *name;
    if (!PyArg_ParseTuple(args, "O!s", &py_operation_type, &op, &name))
        return NULL;
    TF_Status *s = py_status_new();
    if (s)
        TF_ClearAttr(g->graph, op->op, name, s);
    return s && py_status_ok(s) ? Py_NewRef(Py_None) : NULL;
}

/* The value of an output that is known without running anything but constants, or None. */
static PyObject *graph_constant(py_graph *g, PyObject *out)
{
    TF_Output o;
    if (!take_output(out, &o))
        return NULL;
    TF_Status *s = py_status_new();
    TF_Tensor *t = NULL;
    bool known = s && TF_TryEvaluateConstant(g->graph, o, &t, s);
    if (!s || !py_status_ok(s))
        return NULL;
    return known ? py_array_from(t) : Py_NewRef(Py_None);
}

/* ---- importing ---- */

static bool each_pair(PyObject *list, bool (*take)(TF_ImportGraphDefOptions *, PyObject *), TF_ImportGraphDefOptions *o)
{
    PyObject *fast = PySequence_Fast(list, "A sequence is expected");
    bool ok = fast;
    for (Py_ssize_t i = 0; ok && i < PySequence_Fast_GET_SIZE(fast); i++)
        ok = take(o, PySequence_Fast_GET_ITEM(fast, i));
    Py_XDECREF(fast);
    return ok;
}

static bool take_mapping(TF_ImportGraphDefOptions *o, PyObject *item)
{
    const char *name;
    int index;
    PyObject *to;
    TF_Output out;
    if (!PyArg_ParseTuple(item, "siO", &name, &index, &to) )
        return false;
    if (PyObject_TypeCheck(to, &py_operation_type)) {
        TF_ImportGraphDefOptionsRemapControlDependency(o, name, ((py_operation *)to)->op);
        return true;
    }
    if (!take_output(to, &out))
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
    if (!PyArg_ParseTuple(item, "si", &name, &index))
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

/* import_graph_def(bytes, prefix, mapping=[(name, index, output or operation)], controls=[], returns=[(name, index)],
 *                  uniquify=False, device="") */
static PyObject *graph_import(py_graph *g, PyObject *args)
{
    const char *p, *prefix, *device = "";
    Py_ssize_t n;
    PyObject *mapping, *controls, *returns;
    int uniquify = 0;
    if (!PyArg_ParseTuple(args, "y#sOOO|ps", &p, &n, &prefix, &mapping, &controls, &returns, &uniquify, &device))
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
        TF_Buffer *b = TF_NewBufferFromString(p, (size_t)n);
        r = TF_GraphImportGraphDefWithResults(g->graph, b, o, s);
        TF_DeleteBuffer(b);
    }
    TF_DeleteImportGraphDefOptions(o);
    PyObject *out = s && py_status_ok(s) ? import_results(g, r) : NULL;
    TF_DeleteImportGraphDefResults(r);
    return out;
}

/* ---- gradients ---- */

typedef struct custom { /* gradients by functions of Python */
    py_graph *graph;
    PyObject *wants, *make;
    bool failed; /* an exception is set */
} custom;

static int wants(void *arg, TF_Operation *op)
{
    custom *c = arg;
    PyObject *o = c->failed ? NULL : py_wrap(c->graph, op);
    PyObject *yes = o ? PyObject_CallOneArg(c->wants, o) : NULL;
    int r = yes ? PyObject_IsTrue(yes) : -1;
    c->failed |= r < 0;
    Py_XDECREF(o);
    Py_XDECREF(yes);
    return r > 0;
}

static PyObject *output_list(py_graph *g, const TF_Output *outs, int n)
{
    PyObject *list = PyList_New(n);
    for (int i = 0; list && i < n; i++) {
        PyObject *o = py_wrap_output(g, outs[i]);
        if (o)
            PyList_SET_ITEM(list, i, o);
        else
            Py_CLEAR(list);
    }
    return list;
}

static bool take_gradients(PyObject *list, TF_Output *dx, int n)
{
    PyObject *fast = PySequence_Fast(list, "Gradients are a sequence");
    bool ok = fast;
    if (ok && PySequence_Fast_GET_SIZE(fast) != n) {
        PyErr_Format(PyExc_ValueError, "Num gradients %zd generated for an op does not match num inputs %d", PySequence_Fast_GET_SIZE(fast), n);
        ok = false;
    }
    for (int i = 0; ok && i < n; i++) {
        PyObject *o = PySequence_Fast_GET_ITEM(fast, i);
        ok = o == Py_None || take_output(o, &dx[i]);
    }
    Py_XDECREF(fast);
    return ok;
}

static int make_gradients(void *arg, TF_Graph *graph, TF_Operation *op, const TF_Output *dy, TF_Output *dx)
{
    (void)graph;
    custom *c = arg;
    if (c->failed)
        return 1;
    PyObject *o = py_wrap(c->graph, op);
    PyObject *in = o ? output_list(c->graph, dy, TF_OperationNumOutputs(op)) : NULL;
    PyObject *out = in ? PyObject_CallFunctionObjArgs(c->make, o, in, NULL) : NULL;
    c->failed = !out || !take_gradients(out, dx, TF_OperationNumInputs(op));
    Py_XDECREF(o);
    Py_XDECREF(in);
    Py_XDECREF(out);
    return 1;
}

static PyObject *gradient_list(py_graph *g, const TF_Output *dense, const mr_sparse_output *sparse, int n)
{
    PyObject *list = PyList_New(n);
    for (int i = 0; list && i < n; i++) {
        PyObject *o = dense[i].oper || !sparse[i].values.oper
                          ? py_wrap_output(g, dense[i])
                          : Py_BuildValue("NNN", py_wrap_output(g, sparse[i].values), py_wrap_output(g, sparse[i].indices),
                                          py_wrap_output(g, sparse[i].dense_shape));
        if (o)
            PyList_SET_ITEM(list, i, o);
        else
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *differentiate(py_graph *g, PyObject *ys, PyObject *xs, PyObject *stop, mr_gradients_options *o, PyObject *grad_ys)
{
    TF_Output *y = NULL, *x = NULL, *halt = NULL, *gy = NULL, *dense = NULL;
    mr_sparse_output *sparse = NULL;
    PyObject *result = NULL;
    int ny, nx, ngy;
    bool ok = py_outputs(ys, &y, &ny) && py_outputs(xs, &x, &nx) && py_outputs(stop, &halt, &o->num_stop) &&
              (grad_ys == Py_None || py_outputs(grad_ys, &gy, &ngy));
    if (ok && gy && ngy != ny) {
        PyErr_Format(PyExc_ValueError, "Passed %d grad_ys for %d ys", ngy, ny);
        ok = false;
    }
    custom *c = o->override_arg;
    TF_Status *s = ok ? py_status_new() : NULL;
    if (s) {
        dense = PyMem_Calloc((size_t)nx + 1, sizeof(*dense));
        sparse = PyMem_Calloc((size_t)nx + 1, sizeof(*sparse));
        o->stop = halt;
        o->grad_ys = gy;
        if (dense && sparse)
            mr_gradients(g->graph, y, ny, x, nx, o, dense, sparse, s);
        else
            TF_SetStatus(s, TF_RESOURCE_EXHAUSTED, "No memory for gradients");
        if (c->failed)
            TF_DeleteStatus(s);
        else if (py_status_ok(s))
            result = gradient_list(g, dense, sparse, nx);
    }
    PyMem_Free(y);
    PyMem_Free(x);
    PyMem_Free(halt);
    PyMem_Free(gy);
    PyMem_Free(dense);
    PyMem_Free(sparse);
    return result;
}

/* gradients(ys, xs, grad_ys or None, stop, prefix, colocate, wants or None, make or None): a list with an output, a triple of
 * values, indices and dense shape, or None for each x. */
static PyObject *graph_gradients(py_graph *g, PyObject *args)
{
    PyObject *ys, *xs, *grad_ys, *stop, *want, *make;
    const char *prefix;
    int colocate;
    if (!PyArg_ParseTuple(args, "OOOOspOO", &ys, &xs, &grad_ys, &stop, &prefix, &colocate, &want, &make))
        return NULL;
    custom c = {.graph = g, .wants = want, .make = make};
    mr_gradients_options o = {.struct_size = sizeof o, .prefix = prefix, .colocate = (unsigned char)colocate, .override_arg = &c};
    if (make != Py_None) {
        o.override = make_gradients;
        o.overrides = wants;
    }
    return differentiate(g, ys, xs, stop, &o, grad_ys);
}

/* ---- functions ---- */

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

static PyObject *function_name(py_function *o, void *unused) { return (void)unused, PyUnicode_FromString(TF_FunctionName(o->f)); }

static PyObject *function_def(py_function *o, PyObject *unused)
{
    (void)unused;
    TF_Buffer *b;
    TF_Status *s;
    if (!new_buffer(&b, &s))
        return NULL;
    TF_FunctionToFunctionDef(o->f, b, s);
    return finish_buffer(b, s);
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

/* Pointers to the texts of a list of str; to be freed.  The strings belong to the list, which must stay. */
static const char **texts_of(PyObject *list, int n)
{
    PyObject *fast = PySequence_Fast(list, "A sequence of names is expected");
    const char **p = fast && PySequence_Fast_GET_SIZE(fast) == n ? PyMem_Calloc((size_t)n + 1, sizeof(*p)) : NULL;
    for (int i = 0; p && i < n; i++)
        if (!(p[i] = PyUnicode_AsUTF8(PySequence_Fast_GET_ITEM(fast, i)))) {
            PyMem_Free(p);
            p = NULL;
        }
    if (!p && !PyErr_Occurred())
        PyErr_Format(PyExc_ValueError, "Expected a list of %d names", n);
    Py_XDECREF(fast);
    return p;
}

/* to_function(name, append_hash, operations or None, inputs, outputs, output names or None, description) */
static PyObject *graph_to_function(py_graph *g, PyObject *args)
{
    const char *name, *description = NULL, **names = NULL;
    int append, n_ops = -1, n_in, n_out;
    PyObject *ops, *inputs, *outputs, *output_names;
    TF_Operation **op = NULL;
    TF_Output *in = NULL, *out = NULL;
    TF_Function *f = NULL;
    TF_Status *s = NULL;
    if (!PyArg_ParseTuple(args, "spOOOO|z", &name, &append, &ops, &inputs, &outputs, &output_names, &description))
        return NULL;
    bool ok = (ops == Py_None || py_operations(ops, &op, &n_ops)) && py_outputs(inputs, &in, &n_in) && py_outputs(outputs, &out, &n_out) &&
              (output_names == Py_None || (names = texts_of(output_names, n_out)));
    if (ok && (s = py_status_new()))
        f = TF_GraphToFunction(g->graph, name, (unsigned char)append, n_ops, (const TF_Operation *const *)op, n_in, in, n_out, out,
                               (const char *const *)names, NULL, description, s);
    PyMem_Free(op);
    PyMem_Free(in);
    PyMem_Free(out);
    PyMem_Free(names);
    return s && py_status_ok(s) ? wrap_function(f) : NULL;
}

/* add_function(function, gradient or None) */
static PyObject *graph_add_function(py_graph *g, PyObject *args)
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

static PyMethodDef graph_methods[] = {
    {"new_op", (PyCFunction)graph_new_op, METH_VARARGS, "new_op(type, name, inputs, controls, attrs, device): adds an operation."},
    {"op", (PyCFunction)graph_op, METH_O, "The operation of that name, or None."},
    {"has_op", (PyCFunction)graph_has_op, METH_O, "Whether there is an operation of that name."},
    {"ops", (PyCFunction)graph_ops, METH_VARARGS, "ops(position=0): the operations from there on, and the position behind them."},
    {"to_graph_def", (PyCFunction)graph_to_graph_def, METH_NOARGS, "The serialized GraphDef."},
    {"op_def", (PyCFunction)graph_op_def, METH_O, "The serialized OpDef of a type of operations."},
    {"versions_proto", (PyCFunction)graph_versions, METH_NOARGS, "The serialized VersionDef."},
    {"merge_shape", (PyCFunction)graph_set_shape, METH_VARARGS, "merge_shape(output, shape)"},
    {"update_input", (PyCFunction)graph_update_input, METH_VARARGS, "update_input(operation, index, output)"},
    {"add_control", (PyCFunction)graph_add_control, METH_VARARGS, "add_control(operation, input)"},
    {"clear_controls", (PyCFunction)graph_clear_controls, METH_O, "Removes all control inputs of an operation."},
    {"set_device", (PyCFunction)graph_set_device, METH_VARARGS, "set_device(operation, device)"},
    {"set_attr", (PyCFunction)graph_set_attr, METH_VARARGS, "set_attr(operation, name, AttrValue)"},
    {"clear_attr", (PyCFunction)graph_clear_attr, METH_VARARGS, "clear_attr(operation, name)"},
    {"constant", (PyCFunction)graph_constant, METH_O, "The value of an output, when it is known before a run, or None."},
    {"import_proto", (PyCFunction)graph_import, METH_VARARGS,
     "import_proto(GraphDef, prefix, mapping, controls, returns, uniquify, device): (outputs, operations, unused keys)"},
    {"gradients", (PyCFunction)graph_gradients, METH_VARARGS, "gradients(ys, xs, grad_ys, stop, prefix, colocate, wants, make)"},
    {"to_function", (PyCFunction)graph_to_function, METH_VARARGS,
     "to_function(name, append_hash, operations, inputs, outputs, output_names, description)"},
    {"add_function", (PyCFunction)graph_add_function, METH_VARARGS, "add_function(function, gradient=None)"},
    {0}};
static PyGetSetDef graph_getset[] = {{"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL}, {0}};
PyTypeObject py_graph_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_millrace.Graph",
                              .tp_basicsize = sizeof(py_graph),
                              .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                              .tp_new = graph_new,
                              .tp_dealloc = (destructor)graph_free,
                              .tp_traverse = (traverseproc)graph_traverse,
                              .tp_clear = (inquiry)graph_clear,
                              .tp_methods = graph_methods,
                              .tp_getset = graph_getset,
                              .tp_dictoffset = offsetof(py_graph, dict),
                              .tp_weaklistoffset = offsetof(py_graph, weak)};
