/* graph.c -- Graph, Operation and Output.
 *
 * A graph makes one object an operation, of its class's `_operation_class`, when the operation is first seen; `outputs` of that
 * object is a list of its outputs, of `_output_class`, which is made when it is first asked for. */
#include "core.h"

#include <structmember.h>

/* ---- texts, sequences and shapes ---- */

const char *py_text(PyObject *o)
{
    Py_ssize_t n;
    const char *p = PyUnicode_AsUTF8AndSize(o, &n);
    if (!p || strlen(p) == (size_t)n)
        return p;
    PyErr_SetString(PyExc_ValueError, "A name cannot contain a null character");
    return NULL;
}

bool py_no_keywords(PyTypeObject *type, PyObject *kwargs)
{
    if (kwargs && PyDict_GET_SIZE(kwargs) > 0)
        PyErr_Format(PyExc_TypeError, "%s takes no keyword arguments", type->tp_name);
    return !PyErr_Occurred();
}

bool py_is_tuple(PyObject *o)
{
    if (!PyTuple_Check(o))
        PyErr_Format(PyExc_TypeError, "A tuple is expected, not %R", o);
    return PyTuple_Check(o);
}

PyObject *py_items(PyObject *sequence, const char *complaint)
{
    if (PyTuple_CheckExact(sequence))
        return Py_NewRef(sequence);
    PyObject *items = PySequence_Tuple(sequence);
    if (!items && PyErr_ExceptionMatches(PyExc_TypeError))
        PyErr_SetString(PyExc_TypeError, complaint);
    else if (items && PyTuple_GET_SIZE(items) > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "The sequence is too long");
        Py_CLEAR(items);
    }
    return items;
}

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
    PyObject *list = py_items(o, "A shape is None or a sequence of dimensions");
    if (!list)
        return false;
    Py_ssize_t size = PyTuple_GET_SIZE(list);
    *dims = size < 1000000 ? PyMem_Calloc((size_t)size + 1, sizeof(**dims)) : NULL;
    if (!*dims)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; *dims && i < size && !PyErr_Occurred(); i++) {
        PyObject *d = PyTuple_GET_ITEM(list, i);
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

bool py_in_graph(const py_graph *g, const py_operation *op)
{
    if (op->graph == g)
        return true;
    PyErr_Format(PyExc_ValueError, "Operation '%s' is not an element of this graph.", TF_OperationName(op->op));
    return false;
}

bool py_output_of(PyObject *o, TF_Output *out)
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
    PyObject *list = py_items(sequence, "A sequence of tensors is expected");
    if (!list)
        return false;
    Py_ssize_t size = PyTuple_GET_SIZE(list);
    *n = (int)size;
    *out = PyMem_Calloc((size_t)size + 1, sizeof(**out));
    bool ok = *out || (PyErr_NoMemory(), false);
    for (Py_ssize_t i = 0; ok && i < size; i++)
        ok = py_output_of(PyTuple_GET_ITEM(list, i), &(*out)[i]);
    Py_DECREF(list);
    if (!ok) {
        PyMem_Free(*out);
        *out = NULL;
    }
    return ok;
}

bool py_operations(PyObject *sequence, TF_Operation ***out, int *n)
{
    PyObject *list = py_items(sequence, "A sequence of operations is expected");
    if (!list)
        return false;
    Py_ssize_t size = PyTuple_GET_SIZE(list);
    *n = (int)size;
    *out = PyMem_Calloc((size_t)size + 1, sizeof(**out));
    bool ok = *out || (PyErr_NoMemory(), false);
    for (Py_ssize_t i = 0; ok && i < size; i++) {
        PyObject *o = PyTuple_GET_ITEM(list, i);
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
        PyErr_SetString(PyExc_TypeError, "_operation_class is not a subclass of Operation");
    Py_DECREF(class);
    if (!o)
        return NULL;
    o->op = op;
    o->graph = (py_graph *)Py_NewRef((PyObject *)g);
    o->context = Py_NewRef(Py_None);
    o->original = Py_NewRef(Py_None);
    if (PyDict_SetItem(g->ops, key, (PyObject *)o) < 0)
        Py_CLEAR(o);
    return (PyObject *)o;
}

PyObject *py_wrap(py_graph *g, TF_Operation *op)
{
    if (!op)
        Py_RETURN_NONE;
    if (!g->ops)
        return PyErr_Format(PyExc_RuntimeError, "The graph is being garbage-collected");
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
    PyObject *outputs = op ? py_outputs_of((py_operation *)op) : NULL;
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
    g->names = PyDict_New();
    g->attr_scopes = PyDict_New();
    g->gradient_override = PyDict_New();
    g->kernel_labels = PyDict_New();
    if (!g->graph || !g->ops || !g->names || !g->attr_scopes || !g->gradient_override || !g->kernel_labels) {
        Py_DECREF(g);
        return PyErr_NoMemory();
    }
    return (PyObject *)g;
}

static int graph_traverse(py_graph *g, visitproc visit, void *arg)
{
    Py_VISIT(g->ops);
    Py_VISIT(g->dict);
    Py_VISIT((PyObject *)g->scopes);
    Py_VISIT(g->attr_scopes);
    Py_VISIT(g->gradient_override);
    Py_VISIT(g->kernel_labels);
    return 0;
}

/* The dict of operations goes; the operations stay until the graph does. */
static int graph_clear(py_graph *g)
{
    Py_CLEAR(g->ops);
    Py_CLEAR(g->dict);
    Py_CLEAR(g->scopes);
    Py_CLEAR(g->attr_scopes);
    Py_CLEAR(g->gradient_override);
    Py_CLEAR(g->kernel_labels);
    return 0;
}

static void graph_free(py_graph *g)
{
    PyObject_GC_UnTrack(g);
    if (g->weak)
        PyObject_ClearWeakRefs((PyObject *)g);
    graph_clear(g);
    Py_CLEAR(g->names);
    py_where_unref(g->last_where);
    py_where_free_ranges(g);
    TF_DeleteGraph(g->graph);
    Py_TYPE(g)->tp_free(g);
}

static bool add_inputs(TF_OperationDescription *d, PyObject *inputs)
{
    Py_ssize_t n = PyTuple_GET_SIZE(inputs);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *o = PyTuple_GET_ITEM(inputs, i);
        TF_Output one, *many;
        int size;
        if (!PyList_Check(o) && !PyTuple_Check(o)) {
            if (!py_output_of(o, &one))
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
    Py_ssize_t n = PyTuple_GET_SIZE(attrs);
    for (Py_ssize_t i = 0; i < n; i++) {
        const char *name, *kind;
        PyObject *value, *one = PyTuple_GET_ITEM(attrs, i);
        if (!py_is_tuple(one) || !PyArg_ParseTuple(one, "ssO", &name, &kind, &value) || !py_set_attr(d, name, kind, value))
            return false;
    }
    return true;
}

static bool describe(TF_OperationDescription *d, PyObject *inputs, PyObject *controls, PyObject *attrs, const char *device)
{
    PyObject *in = py_items(inputs, "Inputs are a sequence");
    PyObject *at = in ? py_items(attrs, "Attrs are a sequence") : NULL;
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
    const char *n = py_text(name);
    return n ? py_wrap(g, TF_GraphOperationByName(g->graph, n)) : NULL;
}

static PyObject *graph_has_op(py_graph *g, PyObject *name)
{
    const char *n = py_text(name);
    return n ? PyBool_FromLong(TF_GraphOperationByName(g->graph, n) != NULL) : NULL;
}

/* ops(position=0) -> (operations from there on, position behind them) */
static PyObject *graph_ops(py_graph *g, PyObject *args)
{
    Py_ssize_t from = 0;
    if (!PyArg_ParseTuple(args, "|n", &from) || from < 0)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "The index cannot be negative");
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
PyObject *py_finish_buffer(TF_Buffer *b, TF_Status *s)
{
    if (!py_status_ok(s)) {
        TF_DeleteBuffer(b);
        return NULL;
    }
    return py_bytes_from(b);
}

bool py_new_buffer(TF_Buffer **b, TF_Status **s)
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
    if (!py_new_buffer(&b, &s))
        return NULL;
    TF_GraphToGraphDef(g->graph, b, s);
    return py_finish_buffer(b, s);
}

static PyObject *graph_op_def(py_graph *g, PyObject *name)
{
    const char *n = py_text(name);
    TF_Buffer *b;
    TF_Status *s;
    if (!n || !py_new_buffer(&b, &s))
        return NULL;
    TF_GraphGetOpDef(g->graph, n, b, s);
    return py_finish_buffer(b, s);
}

static PyObject *graph_versions(py_graph *g, PyObject *unused)
{
    (void)unused;
    TF_Buffer *b;
    TF_Status *s;
    if (!py_new_buffer(&b, &s))
        return NULL;
    TF_GraphVersions(g->graph, b, s);
    return py_finish_buffer(b, s);
}

/* set_shape(output, shape): merges what is known. */
static PyObject *graph_set_shape(py_graph *g, PyObject *args)
{
    PyObject *out, *shape;
    TF_Output o;
    int64_t *dims;
    int n;
    if (!PyArg_ParseTuple(args, "OO", &out, &shape) || !py_output_of(out, &o) || !py_shape_from(shape, &dims, &n))
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
    if (!PyArg_ParseTuple(args, "O!iO", &py_operation_type, &op, &index, &out) || !py_output_of(out, &o))
        return NULL;
    TF_Status *s = py_status_new();
    if (s)
        TF_UpdateEdge(g->graph, o, (TF_Input){op->op, index}, s);
    return s && py_status_ok(s) ? Py_NewRef(Py_None) : NULL;
}

static PyObject *graph_add_control(py_graph *g, PyObject *args)
{
    py_operation *op, *input;
    if (!PyArg_ParseTuple(args, "O!O!", &py_operation_type, &op, &py_operation_type, &input) || !py_in_graph(g, op) ||
        !py_in_graph(g, input))
        return NULL;
    TF_AddOperationControlInput(g->graph, op->op, input->op);
    Py_RETURN_NONE;
}

static PyObject *graph_clear_controls(py_graph *g, PyObject *op)
{
    if (!PyObject_TypeCheck(op, &py_operation_type))
        return PyErr_Format(PyExc_TypeError, "An operation is expected, not %R", op);
    if (!py_in_graph(g, (py_operation *)op))
        return NULL;
    TF_RemoveAllControlInputs(g->graph, ((py_operation *)op)->op);
    Py_RETURN_NONE;
}

static PyObject *graph_set_device(py_graph *g, PyObject *args)
{
    py_operation *op;
    const char *device;
    if (!PyArg_ParseTuple(args, "O!s", &py_operation_type, &op, &device) || !py_in_graph(g, op))
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
    if (!py_output_of(out, &o))
        return NULL;
    TF_Status *s = py_status_new();
    TF_Tensor *t = NULL;
    bool known = s && TF_TryEvaluateConstant(g->graph, o, &t, s);
    if (!s || !py_status_ok(s))
        return NULL;
    return known ? py_array_from(t) : Py_NewRef(Py_None);
}

static PyObject *graph_made_here(py_graph *g, PyObject *first)
{
    size_t n = PyLong_AsSize_t(first);
    if (PyErr_Occurred())
        return NULL;
    py_where_of_range(g, n);
    Py_RETURN_NONE;
}

/* ---- the type ---- */

static PyMethodDef graph_methods[] = {
    {"_add", (PyCFunction)(void (*)(void))py_graph_add, METH_VARARGS | METH_KEYWORDS,
     "_add(op_type, name, inputs, attrs, controls=None): adds an operation under the scopes of the thread."},
    {"_controls_for", (PyCFunction)py_graph_controls_for, METH_O,
     "The control inputs that the scopes ask for; not from a scope under which an input was made."},
    {"unique_name", (PyCFunction)(void (*)(void))py_graph_unique_name, METH_VARARGS | METH_KEYWORDS,
     "unique_name($self, name, mark_as_used=True)\n--\n\nA unique name in the current scope."},
    {"_push_name", (PyCFunction)py_push_name, METH_O, "Makes a name the prefix of names; returns the former prefix."},
    {"_number", (PyCFunction)py_graph_number, METH_NOARGS, "How many operations there are."},
    {"_made_here", (PyCFunction)graph_made_here, METH_O, "_made_here(first): operations from that number on were made here."},
    {"new_op", (PyCFunction)graph_new_op, METH_VARARGS,
     "new_op(type, name, inputs, controls, attrs, device): adds an operation."},
    {"op", (PyCFunction)graph_op, METH_O, "The operation of that name, or None."},
    {"has_op", (PyCFunction)graph_has_op, METH_O, "Whether there is an operation of that name."},
    {"ops", (PyCFunction)graph_ops, METH_VARARGS,
     "ops(position=0): the operations from there on, and the position behind them."},
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
    {"import_proto", (PyCFunction)py_graph_import, METH_VARARGS,
     "import_proto(GraphDef, prefix, mapping, controls, returns, uniquify, device): (outputs, operations, unused keys)"},
    {"gradients", (PyCFunction)py_graph_gradients, METH_VARARGS,
     "gradients(ys, xs, grad_ys, stop, prefix, colocate, wants, make)"},
    {"to_function", (PyCFunction)py_graph_to_function, METH_VARARGS,
     "to_function(name, append_hash, operations, inputs, outputs, output_names, description)"},
    {"add_function", (PyCFunction)py_graph_add_function, METH_VARARGS, "add_function(function, gradient=None)"},
    {0}};
#define SCOPE(name, which, doc) {name, (getter)py_graph_scope, (setter)py_graph_set_scope, doc, (void *)(uintptr_t)which}
static PyMemberDef graph_members[] = {
    {"_finalized", T_BOOL, offsetof(py_graph, finalized), 0, "Whether new operations are refused."},
    {"_attr_scope_map", T_OBJECT_EX, offsetof(py_graph, attr_scopes), 0, "Attrs that a scope gives to new operations."},
    {"_gradient_override", T_OBJECT_EX, offsetof(py_graph, gradient_override), 0, "Types of operations with another gradient."},
    {"_kernel_labels", T_OBJECT_EX, offsetof(py_graph, kernel_labels), 0, "Types of operations with other kernels."},
    {0}};
static PyGetSetDef graph_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    SCOPE("_name_stack", PY_SCOPE_NAMES, "The prefix of new names, without a slash at its end."),
    SCOPE("_control_flow_context", PY_SCOPE_CONTEXT, "The branch or loop that new operations are in, or None."),
    SCOPE("_control_stack", PY_SCOPE_CONTROLS, "The scopes of control dependencies."),
    SCOPE("_colocation_stack", PY_SCOPE_COLOCATION, "The operations that new ones are colocated with."),
    SCOPE("_device_stack", PY_SCOPE_DEVICES, "The functions that give new operations a device, innermost last."),
    {0}};
PyTypeObject py_graph_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_millrace.Graph",
                              .tp_basicsize = sizeof(py_graph),
                              .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                              .tp_new = graph_new,
                              .tp_dealloc = (destructor)graph_free,
                              .tp_traverse = (traverseproc)graph_traverse,
                              .tp_clear = (inquiry)graph_clear,
                              .tp_methods = graph_methods,
                              .tp_members = graph_members,
                              .tp_getset = graph_getset,
                              .tp_dictoffset = offsetof(py_graph, dict),
                              .tp_weaklistoffset = offsetof(py_graph, weak)};
