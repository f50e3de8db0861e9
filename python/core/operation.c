/* operation.c -- Operation and Output: what the graph knows of them. */
#include "core.h"

#include <structmember.h>

/* Operations and outputs are equal to themselves only, also beside an array, which would compare its elements with them. */
static PyObject *same_object(PyObject *a, PyObject *b, int how)
{
    if (how != Py_EQ && how != Py_NE)
        Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong((a == b) == (how == Py_EQ));
}

/* ---- Operation ---- */

static int operation_traverse(py_operation *o, visitproc visit, void *arg)
{
    Py_VISIT(o->graph);
    Py_VISIT(o->outputs);
    Py_VISIT(o->context);
    Py_VISIT(o->original);
    return 0;
}

/* The graph stays: it must outlive what points into it. */
static int operation_clear(py_operation *o)
{
    Py_CLEAR(o->outputs);
    Py_CLEAR(o->context);
    Py_CLEAR(o->original);
    return 0;
}

static void operation_free(py_operation *o)
{
    PyObject_GC_UnTrack(o);
    operation_clear(o);
    py_where_unref(o->where);
    Py_CLEAR(o->graph);
    Py_TYPE(o)->tp_free(o);
}

static PyObject *operation_name(py_operation *o, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(TF_OperationName(o->op));
}

static PyObject *operation_type(py_operation *o, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(TF_OperationOpType(o->op));
}

static PyObject *operation_device(py_operation *o, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(TF_OperationDevice(o->op));
}

static PyObject *operation_graph(py_operation *o, void *unused) { return (void)unused, Py_NewRef((PyObject *)o->graph); }

static PyObject *new_output(PyTypeObject *class, py_operation *op, int index)
{
    py_output *o = (py_output *)class->tp_alloc(class, 0);
    if (!o)
        return NULL;
    o->op = (py_operation *)Py_NewRef((PyObject *)op);
    o->index = index;
    return (PyObject *)o;
}

PyObject *py_outputs_of(py_operation *o)
{
    if (o->outputs)
        return Py_NewRef(o->outputs);
    PyObject *class = PyObject_GetAttrString((PyObject *)o->graph, "_output_class");
    if (class && !(PyType_Check(class) && PyType_IsSubtype((PyTypeObject *)class, &py_output_type))) {
        PyErr_SetString(PyExc_TypeError, "_output_class is not a subclass of Output");
        Py_CLEAR(class);
    }
    int n = TF_OperationNumOutputs(o->op);
    PyObject *list = class ? PyList_New(n) : NULL;
    for (int i = 0; list && i < n; i++) {
        PyObject *out = new_output((PyTypeObject *)class, o, i);
        if (out)
            PyList_SET_ITEM(list, i, out);
        else
            Py_CLEAR(list);
    }
    Py_XDECREF(class);
    if (list && !o->outputs) /* garbage collection may have run code that asked for them */
        o->outputs = Py_NewRef(list);
    Py_XSETREF(list, list ? Py_NewRef(o->outputs) : NULL);
    return list;
}

static PyObject *operation_outputs(py_operation *o, void *unused) { return (void)unused, py_outputs_of(o); }

/* [(code, line)], innermost first: where it was made. */
static PyObject *operation_where(py_operation *o, void *unused)
{
    (void)unused;
    return py_where_list(o->where ? o->where : py_where_in_ranges(o->graph, mr_operation_index(o->op)));
}

static PyObject *operation_num_outputs(py_operation *o, void *unused)
{
    (void)unused;
    return PyLong_FromLong(TF_OperationNumOutputs(o->op));
}

static PyObject *operation_inputs(py_operation *o, PyObject *unused)
{
    (void)unused;
    int n = TF_OperationNumInputs(o->op);
    PyObject *list = PyList_New(n);
    for (int i = 0; list && i < n; i++) {
        PyObject *x = py_wrap_output(o->graph, TF_OperationInput((TF_Input){o->op, i}));
        if (x)
            PyList_SET_ITEM(list, i, x);
        else
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *wrap_all(py_graph *g, TF_Operation **ops, int n)
{
    PyObject *list = PyList_New(n);
    for (int i = 0; list && i < n; i++) {
        PyObject *x = py_wrap(g, ops[i]);
        if (x)
            PyList_SET_ITEM(list, i, x);
        else
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *controls(py_operation *o, int n, int (*get)(TF_Operation *, TF_Operation **, int))
{
    TF_Operation **ops = PyMem_Calloc((size_t)n + 1, sizeof(TF_Operation *));
    if (!ops)
        return PyErr_NoMemory();
    int got = get(o->op, ops, n);
    PyObject *list = wrap_all(o->graph, ops, got < n ? got : n);
    PyMem_Free(ops);
    return list;
}

static PyObject *operation_control_inputs(py_operation *o, PyObject *unused)
{
    (void)unused;
    return controls(o, TF_OperationNumControlInputs(o->op), TF_OperationGetControlInputs);
}

static PyObject *operation_control_outputs(py_operation *o, PyObject *unused)
{
    (void)unused;
    return controls(o, TF_OperationNumControlOutputs(o->op), TF_OperationGetControlOutputs);
}

static PyObject *operation_node_def(py_operation *o, PyObject *unused)
{
    (void)unused;
    TF_Buffer *b;
    TF_Status *s;
    if (!py_new_buffer(&b, &s))
        return NULL;
    TF_OperationToNodeDef(o->op, b, s);
    return py_finish_buffer(b, s);
}

static PyObject *operation_input_length(py_operation *o, PyObject *name)
{
    const char *n = py_text(name);
    TF_Status *s = n ? py_status_new() : NULL;
    int length = s ? TF_OperationInputListLength(o->op, n, s) : 0;
    return s && py_status_ok(s) ? PyLong_FromLong(length) : NULL;
}

static PyObject *operation_output_length(py_operation *o, PyObject *name)
{
    const char *n = py_text(name);
    TF_Status *s = n ? py_status_new() : NULL;
    int length = s ? TF_OperationOutputListLength(o->op, n, s) : 0;
    return s && py_status_ok(s) ? PyLong_FromLong(length) : NULL;
}

static PyMethodDef operation_methods[] = {
    {"_inputs", (PyCFunction)operation_inputs, METH_NOARGS, "The tensors it takes."},
    {"_control_inputs", (PyCFunction)operation_control_inputs, METH_NOARGS, "The operations it waits for."},
    {"_control_outputs", (PyCFunction)operation_control_outputs, METH_NOARGS, "The operations that wait for it."},
    {"_attr", (PyCFunction)py_get_attr, METH_O, "(kind, value) of an attr."},
    {"colocation_groups", (PyCFunction)py_colocation_groups, METH_NOARGS,
     "colocation_groups($self)\n--\n\nIts colocation groups: [b\"loc:@name\"]; its own name if none was requested."},
    {"_node_def", (PyCFunction)operation_node_def, METH_NOARGS, "The serialized NodeDef."},
    {"_input_length", (PyCFunction)operation_input_length, METH_O, "How many tensors a named input has."},
    {"_output_length", (PyCFunction)operation_output_length, METH_O, "How many tensors a named output has."},
    {0}};
static PyGetSetDef operation_getset[] = {{"name", (getter)operation_name, NULL, "Its full name.", NULL},
                                         {"type", (getter)operation_type, NULL, "Its type, as \"MatMul\".", NULL},
                                         {"device", (getter)operation_device, NULL, "The device asked for, or \"\".", NULL},
                                         {"graph", (getter)operation_graph, NULL, "The graph it is in.", NULL},
                                         {"_num_outputs", (getter)operation_num_outputs, NULL, "How many it makes.", NULL},
                                         {"outputs", (getter)operation_outputs, NULL, "The tensors it makes.", NULL},
                                         {"_where", (getter)operation_where, NULL, "Where it was made: [(code, line)].", NULL},
                                         {0}};
static PyMemberDef operation_members[] = {
    {"_control_flow_context", T_OBJECT, offsetof(py_operation, context), 0, "The branch or loop it is in, or None."},
    {"_original_op", T_OBJECT, offsetof(py_operation, original), 0, "What the package keeps of it."},
    {0}};
PyTypeObject py_operation_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_millrace.Operation",
                                  .tp_basicsize = sizeof(py_operation),
                                  .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                                  .tp_dealloc = (destructor)operation_free,
                                  .tp_traverse = (traverseproc)operation_traverse,
                                  .tp_clear = (inquiry)operation_clear,
                                  .tp_methods = operation_methods,
                                  .tp_members = operation_members,
                                  .tp_hash = (hashfunc)_Py_HashPointer,
                                  .tp_richcompare = same_object,
                                  .tp_getset = operation_getset};

/* ---- Output ---- */

static PyObject *output_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    py_operation *op;
    int index;
    if (!py_no_keywords(type, kwargs) || !PyArg_ParseTuple(args, "O!i", &py_operation_type, &op, &index))
        return NULL;
    if (index < 0 || index >= TF_OperationNumOutputs(op->op))
        return PyErr_Format(PyExc_IndexError, "The operation has no output %d", index);
    return new_output(type, op, index);
}

static int output_traverse(py_output *o, visitproc visit, void *arg)
{
    Py_VISIT(o->op);
    return 0;
}

static void output_free(py_output *o)
{
    PyObject_GC_UnTrack(o);
    Py_CLEAR(o->op);
    Py_TYPE(o)->tp_free(o);
}

static TF_Output handle(const py_output *o) { return (TF_Output){o->op->op, o->index}; }

static PyObject *output_op(py_output *o, void *unused) { return (void)unused, Py_NewRef((PyObject *)o->op); }
static PyObject *output_graph(py_output *o, void *unused) { return (void)unused, Py_NewRef((PyObject *)o->op->graph); }
static PyObject *output_index(py_output *o, void *unused) { return (void)unused, PyLong_FromLong(o->index); }
static PyObject *output_dtype(py_output *o, void *unused)
{
    (void)unused;
    return PyLong_FromLong(TF_OperationOutputType(handle(o)));
}

static PyObject *output_dtype_object(py_output *o, void *unused)
{
    (void)unused;
    return Py_XNewRef(py_dtype((int)TF_OperationOutputType(handle(o))));
}

static PyObject *output_name(py_output *o, void *unused)
{
    (void)unused;
    return PyUnicode_FromFormat("%s:%d", TF_OperationName(o->op->op), o->index);
}

static PyObject *output_shape(py_output *o, void *unused)
{
    (void)unused;
    TF_Graph *g = o->op->graph->graph;
    int64_t dims[64];
    TF_Status *s = py_status_new();
    int n = s ? TF_GraphGetTensorNumDims(g, handle(o), s) : -1;
    bool fits = n <= (int)(sizeof dims / sizeof dims[0]);
    if (s && n > 0 && fits && TF_GetCode(s) == TF_OK)
        TF_GraphGetTensorShape(g, handle(o), dims, n, s);
    return s && py_status_ok(s) ? py_shape(fits ? n : -1, dims) : NULL;
}

/* The operations that take it; one that takes it twice comes twice. */
static PyObject *output_consumers(py_output *o, PyObject *unused)
{
    (void)unused;
    int n = TF_OperationOutputNumConsumers(handle(o));
    TF_Input *in = PyMem_Calloc((size_t)n + 1, sizeof(*in));
    PyObject *list = in ? PyList_New(0) : PyErr_NoMemory();
    int got = in ? TF_OperationOutputConsumers(handle(o), in, n) : 0;
    for (int i = 0; list && i < got && i < n; i++) {
        PyObject *x = py_wrap(o->op->graph, in[i].oper);
        if (!x || PyList_Append(list, x) < 0)
            Py_CLEAR(list);
        Py_XDECREF(x);
    }
    PyMem_Free(in);
    return list;
}

static PyMethodDef output_methods[] = {
    {"consumers", (PyCFunction)output_consumers, METH_NOARGS, "The operations that take this tensor."}, {0}};
static PyGetSetDef output_getset[] = {{"op", (getter)output_op, NULL, "The operation that makes it.", NULL},
                                      {"graph", (getter)output_graph, NULL, "The graph it is in.", NULL},
                                      {"value_index", (getter)output_index, NULL, "Which output of its operation it is.", NULL},
                                      {"name", (getter)output_name, NULL, "Its name, as \"MatMul:0\".", NULL},
                                      {"_dtype_number", (getter)output_dtype, NULL, "Its dtype, a reference's plus 100.", NULL},
                                      {"dtype", (getter)output_dtype_object, NULL, "The type of the elements.", NULL},
                                      {"_dims", (getter)output_shape, NULL, "Its shape as a tuple, or None.", NULL},
                                      {0}};
PyTypeObject py_output_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_millrace.Output",
                               .tp_basicsize = sizeof(py_output),
                               .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                               .tp_doc = "Output(op, value_index, /)\n--\n\nAn output of an operation.",
                               .tp_new = output_new,
                               .tp_dealloc = (destructor)output_free,
                               .tp_traverse = (traverseproc)output_traverse,
                               .tp_methods = output_methods,
                               .tp_hash = (hashfunc)_Py_HashPointer,
                               .tp_richcompare = same_object,
                               .tp_getset = output_getset};
