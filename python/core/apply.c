/* apply.c -- adding operations: from the arguments of a Python function to a node of the graph.
 *
 * A Plan is what the definition of an op asks for; the class of the package that describes ops is a subclass, so that its
 * functions for rare cases get the same object.  `call` finds the graph, enters a scope of names, takes inputs and attrs, and
 * adds the operation.  What programs do most is done here: tensors as inputs, numbers that become constants, attrs that follow
 * from inputs or are plain values.  All else is left to functions of the package (set_helpers): conversions, lists of inputs,
 * other attrs, and every error that needs words.
 *
 * The scopes of a thread decide what an operation gets beside its arguments.  Functions of the package run in between and may
 * change them, so nothing of a scope is kept across a call of Python but by a reference. */
#include "core.h"

/* ---- helpers of the package ---- */

static struct {
    PyObject *plans;     /* dict: type of operations -> Plan */
    PyObject *plan;      /* plan(type, graph): one that is not in the dict */
    PyObject *convert;   /* convert(plan, arg, value, dtype, preferred): a tensor */
    PyObject *take_list; /* take_list(plan, arg, value, types, numbers, lists, given): a list of tensors */
    PyObject *mismatch;  /* mismatch(plan, arg, tensor, dtype): raises */
    PyObject *code;      /* code(plan, attr, value): (name, kind, value) */
    PyObject *results;   /* results(operation, plan): for several outputs */
    PyObject *dtype;     /* the class of DTypes */
    PyObject *shape;     /* the class of shapes */
    bool plain_numbers;  /* numbers become constants: no program has registered another conversion for them */
} helpers;

static PyObject *str_number, *str_graph, *str_seen, *str_ops, *str_container, *str_own, *str_place;

static bool make_strings(void)
{
    struct {
        PyObject **at;
        const char *text;
    } all[] = {{&str_number, "_number"}, {&str_graph, "graph"}, {&str_seen, "seen"}, {&str_ops, "ops"},
               {&str_container, "_container"}, {&str_own, "_own"}, {&str_place, "_place"}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (!*all[i].at && !(*all[i].at = PyUnicode_InternFromString(all[i].text)))
            return false;
    return true;
}

static PyObject *set_helpers(PyObject *module, PyObject *args)
{
    PyObject *p[9];
    (void)module;
    if (!make_strings() || !PyArg_ParseTuple(args, "O!OOOOOOOO", &PyDict_Type, &p[0], &p[1], &p[2], &p[3], &p[4], &p[5], &p[6],
                                             &p[7], &p[8]))
        return NULL;
    PyObject **to[] = {&helpers.plans, &helpers.plan, &helpers.convert, &helpers.take_list, &helpers.mismatch,
                       &helpers.code,  &helpers.results, &helpers.dtype, &helpers.shape};
    for (int i = 0; i < 9; i++)
        Py_XSETREF(*to[i], Py_NewRef(p[i]));
    Py_RETURN_NONE;
}

static PyObject *set_plain_numbers(PyObject *module, PyObject *yes)
{
    (void)module;
    int plain = PyObject_IsTrue(yes);
    if (plain < 0)
        return NULL;
    helpers.plain_numbers = plain;
    Py_RETURN_NONE;
}

/* ---- dtypes ---- */

enum { N_DTYPES = 256 }; /* references have 100 more than their types */
static PyObject *all_dtypes[N_DTYPES];

PyObject *py_set_dtypes(PyObject *module, PyObject *by_number)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    (void)module;
    if (!PyDict_Check(by_number))
        return PyErr_Format(PyExc_TypeError, "A dict is expected, not %R", by_number);
    while (PyDict_Next(by_number, &at, &key, &value)) {
        long n = PyLong_AsLong(key);
        if (n < 0 || n >= N_DTYPES)
            return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "There is no dtype %ld", n);
        Py_XSETREF(all_dtypes[n], Py_NewRef(value));
    }
    Py_RETURN_NONE;
}

PyObject *py_dtype(int number)
{
    PyObject *t = number >= 0 && number < N_DTYPES ? all_dtypes[number] : NULL;
    return t ? t : PyErr_Format(PyExc_TypeError, "Cannot convert value %d to a TensorFlow DType.", number);
}

static int base_of(int number) { return number > 100 ? number - 100 : number; }

/* The number of a DType without reference; 0 for what is no DType, -1 with an exception set. */
static int number_of(PyObject *value)
{
    if ((PyObject *)Py_TYPE(value) != helpers.dtype)
        return 0;
    PyObject *n = PyObject_GetAttr(value, str_number);
    long number = n ? PyLong_AsLong(n) : -1;
    Py_XDECREF(n);
    return PyErr_Occurred() ? -1 : base_of((int)number);
}

/* ---- Plan ---- */

typedef struct plan_arg {
    PyObject *object, *name; /* owned; the name interned */
    int type;                /* 0: see type_attr */
    int type_attr, number_attr, types_attr; /* indexes of attrs, or -1 */
    bool is_ref;
} plan_arg;

typedef struct plan_attr {
    PyObject *object, *name, *deflt; /* owned; the name interned; no default: None */
    const char *text;                /* of the name */
    char kind;
    bool is_list, has_default, inferred, any; /* any: nothing but a type is asked of a value */
    uint64_t types;                  /* bit n: the type n is allowed */
    bool has_minimum;
    int64_t minimum;
} plan_attr;

typedef struct py_plan {
    PyObject_HEAD
    PyObject *dict;
    char *op_type;
    plan_arg *args;
    plan_attr *attrs;
    int n_args, n_attrs, n_out;
    bool is_list;  /* of one output: it is a list */
    int container; /* the index of that attr of a stateful op, or -1 */
} py_plan;

static void forget_definition(py_plan *p)
{
    for (int i = 0; i < p->n_args; i++) {
        Py_CLEAR(p->args[i].object);
        Py_CLEAR(p->args[i].name);
    }
    for (int i = 0; i < p->n_attrs; i++) {
        Py_CLEAR(p->attrs[i].object);
        Py_CLEAR(p->attrs[i].name);
        Py_CLEAR(p->attrs[i].deflt);
    }
    PyMem_Free(p->args);
    PyMem_Free(p->attrs);
    PyMem_Free(p->op_type);
    p->args = NULL;
    p->attrs = NULL;
    p->op_type = NULL;
    p->n_args = p->n_attrs = 0;
}

static int plan_traverse(py_plan *p, visitproc visit, void *arg)
{
    Py_VISIT(p->dict);
    return 0;
}

static int plan_clear(py_plan *p)
{
    Py_CLEAR(p->dict);
    return 0;
}

static void plan_free(py_plan *p)
{
    PyObject_GC_UnTrack(p);
    plan_clear(p);
    forget_definition(p);
    Py_TYPE(p)->tp_free(p);
}

/* An attribute that is a str, interned; a new reference. */
static PyObject *get_name(PyObject *o, const char *attribute)
{
    PyObject *name = PyObject_GetAttrString(o, attribute);
    if (name && !PyUnicode_CheckExact(name)) {
        PyErr_Format(PyExc_TypeError, "A name is a str, not %R", name);
        Py_CLEAR(name);
    }
    if (name)
        PyUnicode_InternInPlace(&name);
    return name;
}

static bool get_flag(PyObject *o, const char *attribute, bool *out)
{
    PyObject *v = PyObject_GetAttrString(o, attribute);
    int yes = v ? PyObject_IsTrue(v) : -1;
    Py_XDECREF(v);
    *out = yes > 0;
    return yes >= 0;
}

/* The index of the attr that an argument's attribute names; -1 for "". */
static bool get_attr_index(const py_plan *p, PyObject *arg, const char *attribute, int *out)
{
    PyObject *name = get_name(arg, attribute);
    *out = -1;
    if (!name)
        return false;
    for (int i = 0; i < p->n_attrs; i++)
        if (p->attrs[i].name == name)
            *out = i;
    bool ok = *out >= 0 || PyUnicode_GET_LENGTH(name) == 0;
    if (!ok)
        PyErr_Format(PyExc_ValueError, "%s has no attr %U", p->op_type, name);
    Py_DECREF(name);
    return ok;
}

static bool read_arg(const py_plan *p, PyObject *o, plan_arg *a)
{
    PyObject *type;
    a->object = Py_NewRef(o);
    if (!(a->name = get_name(o, "name")) || !get_flag(o, "is_ref", &a->is_ref) ||
        !get_attr_index(p, o, "type_attr", &a->type_attr) || !get_attr_index(p, o, "number_attr", &a->number_attr) ||
        !get_attr_index(p, o, "types_attr", &a->types_attr) || !(type = PyObject_GetAttrString(o, "type")))
        return false;
    a->type = base_of((int)PyLong_AsLong(type));
    Py_DECREF(type);
    return !PyErr_Occurred();
}

/* What is allowed: types become bits, all else is left to the package. */
static bool read_allowed(PyObject *o, plan_attr *a)
{
    PyObject *allowed = PyObject_GetAttrString(o, "allowed");
    if (!allowed)
        return false;
    a->any = allowed == Py_None;
    a->types = a->any ? ~(uint64_t)0 : 0;
    PyObject *items = !a->any && a->kind == 't' ? py_items(allowed, "Allowed values are a sequence") : NULL;
    for (Py_ssize_t i = 0; items && i < PyTuple_GET_SIZE(items); i++) {
        long t = PyLong_AsLong(PyTuple_GET_ITEM(items, i));
        a->types |= t > 0 && t < 64 ? (uint64_t)1 << t : 0;
    }
    Py_XDECREF(items);
    Py_DECREF(allowed);
    return !PyErr_Occurred();
}

static bool read_attr(PyObject *o, plan_attr *a)
{
    a->object = Py_NewRef(o);
    if (!(a->name = get_name(o, "name")) || !(a->text = py_text(a->name)) || !get_flag(o, "is_list", &a->is_list) ||
        !get_flag(o, "has_default", &a->has_default) || !get_flag(o, "inferred", &a->inferred) ||
        !(a->deflt = PyObject_GetAttrString(o, "default")))
        return false;
    PyObject *kind = get_name(o, "kind");
    const char *text = kind ? py_text(kind) : NULL;
    a->kind = text ? text[0] : 0;
    Py_XDECREF(kind);
    PyObject *minimum = text && read_allowed(o, a) ? PyObject_GetAttrString(o, "minimum") : NULL;
    if (!minimum)
        return false;
    a->has_minimum = minimum != Py_None;
    a->minimum = a->has_minimum ? PyLong_AsLongLong(minimum) : 0;
    Py_DECREF(minimum);
    return !PyErr_Occurred();
}

static bool read_outputs(py_plan *p, PyObject *outputs)
{
    p->n_out = (int)PyTuple_GET_SIZE(outputs);
    p->is_list = false;
    return p->n_out != 1 || get_flag(PyTuple_GET_ITEM(outputs, 0), "is_list", &p->is_list);
}

static bool read_definition(py_plan *p, const char *type, PyObject *inputs, PyObject *attrs, PyObject *outputs, bool stateful)
{
    Py_ssize_t n_args = PyTuple_GET_SIZE(inputs), n_attrs = PyTuple_GET_SIZE(attrs);
    p->op_type = PyMem_Malloc(strlen(type) + 1);
    p->args = PyMem_Calloc((size_t)n_args + 1, sizeof(*p->args));
    p->attrs = PyMem_Calloc((size_t)n_attrs + 1, sizeof(*p->attrs));
    if (!p->op_type || !p->args || !p->attrs)
        return PyErr_NoMemory(), false;
    strcpy(p->op_type, type);
    p->container = -1;
    for (Py_ssize_t i = 0; i < n_attrs; i++) {
        p->n_attrs++;
        if (!read_attr(PyTuple_GET_ITEM(attrs, i), &p->attrs[i]))
            return false;
        if (stateful && strcmp(p->attrs[i].text, "container") == 0)
            p->container = (int)i;
    }
    for (Py_ssize_t i = 0; i < n_args; i++) {
        p->n_args++;
        if (!read_arg(p, PyTuple_GET_ITEM(inputs, i), &p->args[i]))
            return false;
    }
    return read_outputs(p, outputs);
}

/* _define(type, inputs, attrs, outputs, is_stateful): sets what `call` works by; inputs and the rest are tuples of what the
 * package has for each. */
static PyObject *plan_define(py_plan *p, PyObject *args)
{
    const char *type;
    PyObject *inputs, *attrs, *outputs;
    int stateful;
    if (!make_strings() || !PyArg_ParseTuple(args, "sO!O!O!p", &type, &PyTuple_Type, &inputs, &PyTuple_Type, &attrs,
                                             &PyTuple_Type, &outputs, &stateful))
        return NULL;
    if (p->op_type)
        return PyErr_Format(PyExc_RuntimeError, "The plan of %s is defined already", p->op_type);
    if (!read_definition(p, type, inputs, attrs, outputs, stateful)) {
        forget_definition(p);
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef plan_methods[] = {
    {"_define", (PyCFunction)plan_define, METH_VARARGS, "_define(type, inputs, attrs, outputs, is_stateful)"}, {0}};
static PyGetSetDef plan_getset[] = {{"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL}, {0}};
PyTypeObject py_plan_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_millrace.Plan",
                             .tp_basicsize = sizeof(py_plan),
                             .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                             .tp_new = PyType_GenericNew,
                             .tp_dealloc = (destructor)plan_free,
                             .tp_traverse = (traverseproc)plan_traverse,
                             .tp_clear = (inquiry)plan_clear,
                             .tp_methods = plan_methods,
                             .tp_getset = plan_getset,
                             .tp_dictoffset = offsetof(py_plan, dict)};

/* ---- a new operation ---- */

/* An attr of a new operation: a number or a tensor of ours, or a value of Python as attrs.c takes it. */
typedef struct new_attr {
    const char *name;
    enum { TYPE, INT, TENSOR, VALUE } how;
    int64_t number;
    TF_Tensor *tensor; /* borrowed */
    const char *kind;
    PyObject *value; /* borrowed */
} new_attr;

typedef struct new_op {
    py_graph *graph;
    py_scopes *scopes;
    const char *type;
    PyObject *name;    /* str; ends in a slash if it is complete */
    PyObject *inputs;  /* tuple or list of outputs and lists of them, owned */
    PyObject *controls; /* list, owned; NULL: those of the scopes */
    const new_attr *attrs;
    int n_attrs;
    PyObject *more; /* triples that scopes add, owned, or NULL */
} new_op;

/* Calls f for each output among the inputs; stops with false at the first that is false. */
static bool each_input(PyObject *inputs, bool (*f)(void *arg, py_output *o), void *arg)
{
    bool ok = true;
    for (Py_ssize_t i = 0; ok && i < PySequence_Fast_GET_SIZE(inputs); i++) {
        PyObject *x = PySequence_Fast_GET_ITEM(inputs, i);
        bool many = PyList_Check(x) || PyTuple_Check(x);
        for (Py_ssize_t k = 0; ok && k < (many ? PySequence_Fast_GET_SIZE(x) : 1); k++) {
            PyObject *o = many ? PySequence_Fast_GET_ITEM(x, k) : x;
            ok = PyObject_TypeCheck(o, &py_output_type);
            if (!ok)
                PyErr_Format(PyExc_TypeError, "A tensor of the graph is expected, not %R", o);
            ok = ok && f(arg, (py_output *)o);
        }
    }
    return ok;
}

/* The same as the graph's own tensor. */
static PyObject *owned_input(new_op *n, PyObject *o)
{
    if (!PyObject_TypeCheck(o, &py_output_type) || ((py_output *)o)->op->graph == n->graph)
        return Py_NewRef(o);
    PyObject *type = PyUnicode_FromString(n->type);
    PyObject *own = type ? PyObject_CallMethodObjArgs((PyObject *)n->graph, str_own, o, type, NULL) : NULL;
    Py_XDECREF(type);
    return own;
}

static PyObject *owned_inputs(new_op *n, PyObject *inputs)
{
    PyObject *fast = PySequence_Fast(inputs, "Inputs are a sequence");
    PyObject *out = fast ? PyList_New(0) : NULL;
    for (Py_ssize_t i = 0; out && i < PySequence_Fast_GET_SIZE(fast); i++) {
        PyObject *x = PySequence_Fast_GET_ITEM(fast, i);
        PyObject *own = PyList_Check(x) || PyTuple_Check(x) ? owned_inputs(n, x) : owned_input(n, x);
        if (!own || PyList_Append(out, own) < 0)
            Py_CLEAR(out);
        Py_XDECREF(own);
    }
    Py_XDECREF(fast);
    return out;
}

static bool is_own(void *graph, py_output *o) { return o->op->graph == graph; }

/* A graph that is the body of a function takes tensors of others over. */
static bool take_over(new_op *n)
{
    if (each_input(n->inputs, is_own, n->graph))
        return true;
    if (PyErr_Occurred())
        return false;
    PyObject *inputs = owned_inputs(n, n->inputs);
    if (inputs)
        Py_SETREF(n->inputs, inputs);
    return inputs;
}

/* ---- control inputs ---- */

static bool not_made_by(void *op, py_output *o) { return (PyObject *)o->op != op; }

typedef struct scope_view {
    PyObject *seen; /* set of operations made under the scope */
    bool failed;
} scope_view;

static bool not_seen(void *arg, py_output *o)
{
    scope_view *v = arg;
    int seen = PySet_Contains(v->seen, (PyObject *)o->op);
    v->failed = seen < 0;
    return seen == 0;
}

/* Appends what a scope waits for, but for the makers of the inputs.  Nothing, if one of them was made under the scope. */
static bool controls_of(PyObject *scope, PyObject *inputs, PyObject *controls)
{
    scope_view v = {.seen = PyObject_GetAttr(scope, str_seen)};
    PyObject *ops = v.seen ? PyObject_GetAttr(scope, str_ops) : NULL;
    bool ok = ops && PyList_Check(ops) && PyAnySet_Check(v.seen);
    if (ops && !ok)
        PyErr_SetString(PyExc_TypeError, "A scope of control dependencies has a list and a set");
    bool applies = ok && each_input(inputs, not_seen, &v);
    ok = ok && !v.failed && !PyErr_Occurred();
    bool several = ok && applies && PyList_GET_SIZE(controls) > 0;
    for (Py_ssize_t i = 0; ok && applies && i < PyList_GET_SIZE(ops); i++) {
        PyObject *op = PyList_GET_ITEM(ops, i);
        int have = several ? PySequence_Contains(controls, op) : 0;
        if (have == 0 && each_input(inputs, not_made_by, op))
            have = PyList_Append(controls, op);
        ok = have >= 0;
    }
    Py_XDECREF(v.seen);
    Py_XDECREF(ops);
    return ok;
}

/* The control inputs that the scopes ask for; a new list. */
static PyObject *controls_for(py_scopes *s, PyObject *inputs)
{
    PyObject *controls = PyList_New(0);
    for (Py_ssize_t i = 0; controls && s->controls && i < PyList_GET_SIZE(s->controls); i++)
        if (!controls_of(PyList_GET_ITEM(s->controls, i), inputs, controls))
            Py_CLEAR(controls);
    return controls;
}

PyObject *py_graph_controls_for(py_graph *g, PyObject *inputs)
{
    PyObject *fast = PySequence_Fast(inputs, "Inputs are a sequence");
    py_scopes *s = fast ? py_scopes_of(g) : NULL;
    PyObject *controls = s ? controls_for(s, fast) : NULL;
    Py_XDECREF(fast);
    return controls;
}

/* Operations made under a scope do not wait for it a second time. */
static bool tell_control_scopes(py_scopes *s, PyObject *op)
{
    bool ok = true;
    for (Py_ssize_t i = 0; ok && s->controls && i < PyList_GET_SIZE(s->controls); i++) {
        PyObject *seen = PyObject_GetAttr(PyList_GET_ITEM(s->controls, i), str_seen);
        ok = seen && PySet_Add(seen, op) == 0;
        Py_XDECREF(seen);
    }
    return ok;
}

/* ---- branches and loops ---- */

typedef struct use_check {
    new_op *n;
    PyObject *context;
} use_check;

/* A value that was made in a branch or loop asks whether it may be used here. */
static bool check_use(void *arg, py_output *o)
{
    use_check *c = arg;
    PyObject *there = o->op->context;
    if (there == c->context || there == Py_None || !there)
        return true;
    Py_ssize_t size = PyUnicode_GET_LENGTH(c->n->name);
    bool complete = size && PyUnicode_READ_CHAR(c->n->name, size - 1) == '/';
    PyObject *name = complete ? PyUnicode_Substring(c->n->name, 0, size - 1) : py_unique_name(c->n->graph, c->n->name, false);
    Py_INCREF(there);
    PyObject *r = name ? PyObject_CallMethod(there, "check_use", "OOOs", o, name, c->context, c->n->type) : NULL;
    Py_DECREF(there);
    Py_XDECREF(name);
    Py_XDECREF(r);
    return r;
}

/* The inputs as they are in the branch or loop that the operation is made in. */
static bool enter_context(new_op *n, PyObject *context)
{
    use_check c = {n, context};
    if (!each_input(n->inputs, check_use, &c))
        return false;
    if (context == Py_None)
        return true;
    PyObject *inputs = PySequence_List(n->inputs);
    PyObject *r = inputs ? PyObject_CallMethod(context, "take_inputs", "sOO", n->type, inputs, n->controls) : NULL;
    PyObject *taken = NULL, *controls = NULL;
    bool ok = r && py_is_tuple(r) && PyArg_ParseTuple(r, "OO", &taken, &controls);
    PyObject *fast = ok ? PySequence_Fast(taken, "Inputs are a sequence") : NULL;
    PyObject *list = fast ? PySequence_List(controls) : NULL;
    if (list) {
        Py_SETREF(n->inputs, Py_NewRef(fast));
        Py_SETREF(n->controls, Py_NewRef(list));
    }
    Py_XDECREF(inputs);
    Py_XDECREF(r);
    Py_XDECREF(fast);
    Py_XDECREF(list);
    return list;
}

/* ---- colocation ---- */

static bool append_bytes(PyObject *list, const char *text, size_t n)
{
    PyObject *b = PyBytes_FromStringAndSize(text, (Py_ssize_t)n);
    bool ok = b && PyList_Append(list, b) == 0;
    Py_XDECREF(b);
    return ok;
}

/* Appends the strings of an operation's _class that say where it is. */
static bool append_classes(PyObject *list, TF_Operation *op, TF_Status *s)
{
    TF_AttrMetadata m = TF_OperationGetAttrMetadata(op, "_class", s);
    if (TF_GetCode(s) != TF_OK || !m.is_list || m.list_size <= 0)
        return true;
    size_t n = (size_t)m.list_size;
    void **values = PyMem_Calloc(n, sizeof(*values));
    size_t *lengths = PyMem_Calloc(n, sizeof(*lengths));
    char *storage = PyMem_Malloc((size_t)m.total_size + 1);
    bool ok = values && lengths && storage;
    if (ok)
        TF_OperationGetAttrStringList(op, "_class", values, lengths, m.list_size, storage, (size_t)m.total_size, s);
    else
        PyErr_NoMemory();
    for (size_t i = 0; ok && TF_GetCode(s) == TF_OK && i < n; i++)
        if (lengths[i] >= 5 && memcmp(values[i], "loc:@", 5) == 0)
            ok = append_bytes(list, values[i], lengths[i]);
    PyMem_Free(values);
    PyMem_Free(lengths);
    PyMem_Free(storage);
    return ok;
}

/* Appends the operation's own group. */
static bool append_own_group(PyObject *list, TF_Operation *op)
{
    PyObject *b = PyBytes_FromFormat("loc:@%s", TF_OperationName(op));
    bool ok = b && PyList_Append(list, b) == 0;
    Py_XDECREF(b);
    return ok;
}

static bool append_groups(PyObject *list, TF_Operation *op)
{
    Py_ssize_t before = PyList_GET_SIZE(list);
    TF_Status *s = py_status_new();
    bool ok = s && append_classes(list, op, s);
    TF_DeleteStatus(s);
    if (ok && PyList_GET_SIZE(list) == before)
        ok = append_own_group(list, op);
    return ok;
}

PyObject *py_colocation_groups(py_operation *o, PyObject *unused)
{
    (void)unused;
    PyObject *list = PyList_New(0);
    if (list && !append_groups(list, o->op))
        Py_CLEAR(list);
    return list;
}

/* The groups of all operations that new ones are colocated with, sorted, each once. */
static PyObject *groups_of(PyObject *stack)
{
    PyObject *list = PyList_New(0);
    for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(stack); i++) {
        PyObject *op = PyList_GET_ITEM(stack, i);
        bool ok = PyObject_TypeCheck(op, &py_operation_type);
        if (!ok)
            PyErr_Format(PyExc_TypeError, "An operation of the graph is expected, not %R", op);
        if (!ok || !append_groups(list, ((py_operation *)op)->op))
            Py_CLEAR(list);
    }
    if (list && PyList_GET_SIZE(list) > 1) {
        PyObject *set = PySet_New(list);
        Py_SETREF(list, set ? PySequence_List(set) : NULL);
        Py_XDECREF(set);
        if (list && PyList_Sort(list) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static bool is_given(const new_op *n, const char *name)
{
    for (int i = 0; i < n->n_attrs; i++)
        if (strcmp(n->attrs[i].name, name) == 0)
            return true;
    return false;
}

static bool append_triple(new_op *n, const char *name, const char *kind, PyObject *value)
{
    if (!n->more && !(n->more = PyList_New(0)))
        return false;
    PyObject *triple = Py_BuildValue("ssO", name, kind, value);
    bool ok = triple && PyList_Append(n->more, triple) == 0;
    Py_XDECREF(triple);
    return ok;
}

/* What attr scopes, gradient_override_map and kernel labels add: the package knows. */
static bool ask_attr_scopes(new_op *n)
{
    PyObject *given = PySet_New(NULL);
    bool ok = given;
    for (int i = 0; ok && i < n->n_attrs + (n->more ? 1 : 0); i++) {
        PyObject *name = PyUnicode_FromString(i < n->n_attrs ? n->attrs[i].name : "_class");
        ok = name && PySet_Add(given, name) == 0;
        Py_XDECREF(name);
    }
    PyObject *found = ok ? PyObject_CallMethod((PyObject *)n->graph, "_attrs_of_scopes", "sO", n->type, given) : NULL;
    PyObject *items = found ? py_items(found, "Attrs are a sequence") : NULL;
    for (Py_ssize_t i = 0; items && i < PyTuple_GET_SIZE(items); i++) {
        const char *name, *kind;
        PyObject *value, *one = PyTuple_GET_ITEM(items, i);
        if (!py_is_tuple(one) || !PyArg_ParseTuple(one, "ssO", &name, &kind, &value) || !append_triple(n, name, kind, value))
            Py_CLEAR(items);
    }
    Py_XDECREF(given);
    Py_XDECREF(found);
    ok = items;
    Py_XDECREF(items);
    return ok;
}

static bool has_items(PyObject *dict) { return dict && (!PyDict_CheckExact(dict) || PyDict_GET_SIZE(dict) > 0); }

static bool is_colocated(const py_scopes *s) { return s->colocation && PyList_GET_SIZE(s->colocation) > 0; }

static bool add_scoped_attrs(new_op *n)
{
    if (is_colocated(n->scopes) && !is_given(n, "_class")) {
        PyObject *groups = groups_of(n->scopes->colocation);
        bool ok = groups && append_triple(n, "_class", "[s", groups);
        Py_XDECREF(groups);
        if (!ok)
            return false;
    }
    py_graph *g = n->graph;
    bool asks = has_items(g->attr_scopes) || has_items(g->gradient_override) || has_items(g->kernel_labels);
    return !asks || ask_attr_scopes(n);
}

/* ---- the node ---- */

static bool add_input(TF_OperationDescription *d, PyObject *o)
{
    TF_Output one, *many;
    int size;
    if (!PyList_Check(o) && !PyTuple_Check(o)) {
        if (!py_output_of(o, &one))
            return false;
        TF_AddInput(d, one);
        return true;
    }
    if (!py_outputs(o, &many, &size))
        return false;
    TF_AddInputList(d, many, size);
    PyMem_Free(many);
    return true;
}

static bool set_new_attr(TF_OperationDescription *d, const new_attr *a)
{
    if (a->how == TYPE)
        TF_SetAttrType(d, a->name, (TF_DataType)a->number);
    else if (a->how == INT)
        TF_SetAttrInt(d, a->name, a->number);
    else if (a->how == VALUE)
        return py_set_attr(d, a->name, a->kind, a->value);
    else {
        TF_Status *s = py_status_new();
        if (s)
            TF_SetAttrTensor(d, a->name, a->tensor, s);
        return s && py_status_ok(s);
    }
    return true;
}

static bool set_triples(TF_OperationDescription *d, PyObject *list)
{
    bool ok = true;
    for (Py_ssize_t i = 0; ok && list && i < PyList_GET_SIZE(list); i++) {
        const char *name, *kind;
        PyObject *value;
        ok = PyArg_ParseTuple(PyList_GET_ITEM(list, i), "ssO", &name, &kind, &value) && py_set_attr(d, name, kind, value);
    }
    return ok;
}

static bool add_control_inputs(TF_OperationDescription *d, PyObject *controls)
{
    for (Py_ssize_t i = 0; controls && i < PyList_GET_SIZE(controls); i++) {
        PyObject *op = PyList_GET_ITEM(controls, i);
        if (!PyObject_TypeCheck(op, &py_operation_type)) {
            PyErr_Format(PyExc_TypeError, "An operation of the graph is expected, not %R", op);
            return false;
        }
        TF_AddControlInput(d, ((py_operation *)op)->op);
    }
    return true;
}

static bool describe(TF_OperationDescription *d, const new_op *n)
{
    bool ok = true;
    for (Py_ssize_t i = 0; ok && i < PySequence_Fast_GET_SIZE(n->inputs); i++)
        ok = add_input(d, PySequence_Fast_GET_ITEM(n->inputs, i));
    ok = ok && add_control_inputs(d, n->controls);
    for (int i = 0; ok && i < n->n_attrs; i++)
        ok = set_new_attr(d, &n->attrs[i]);
    return ok && set_triples(d, n->more);
}

/* The operation's device follows that of the one it is colocated with last.  Whether it has one now. */
static bool set_device(TF_OperationDescription *d, const py_scopes *s)
{
    if (!is_colocated(s))
        return false;
    PyObject *last = PyList_GET_ITEM(s->colocation, PyList_GET_SIZE(s->colocation) - 1);
    const char *device = TF_OperationDevice(((py_operation *)last)->op);
    if (device[0])
        TF_SetDevice(d, device);
    return device[0];
}

/* An error of the program in shapes or types is a ValueError. */
static bool is_fine(TF_Status *s)
{
    if (TF_GetCode(s) != TF_INVALID_ARGUMENT)
        return py_status_ok(s);
    PyObject *text = PyUnicode_DecodeUTF8(TF_Message(s), (Py_ssize_t)strlen(TF_Message(s)), "replace");
    if (text)
        PyErr_SetObject(PyExc_ValueError, text);
    Py_XDECREF(text);
    TF_DeleteStatus(s);
    return false;
}

/* A description has no other end than to be finished; what is wrong with it keeps it out of the graph. */
static TF_Operation *finish(const new_op *n, const char *name, bool *placed)
{
    TF_Status *s = py_learn_names(n->graph) ? py_status_new() : NULL;
    TF_OperationDescription *d = s ? TF_NewOperation(n->graph->graph, n->type, name) : NULL;
    if (!d) {
        TF_DeleteStatus(s);
        return PyErr_Occurred() ? NULL : (TF_Operation *)PyErr_NoMemory();
    }
    bool ok = describe(d, n);
    if (ok)
        *placed = set_device(d, n->scopes);
    else
        TF_AddInput(d, (TF_Output){NULL, 0});
    TF_Operation *op = TF_FinishOperation(d, s);
    if (!ok) {
        TF_DeleteStatus(s);
        return NULL;
    }
    if (!is_fine(s))
        return NULL;
    n->graph->names_at++; /* its name is known */
    return op;
}

/* The object of a new operation, told to all that asked for it. */
static PyObject *made(new_op *n, TF_Operation *op, PyObject *context, bool placed)
{
    py_operation *o = (py_operation *)py_wrap(n->graph, op);
    if (!o)
        return NULL;
    struct py_where *where = py_where_now(n->graph->last_where), *former = n->graph->last_where;
    n->graph->last_where = py_where_ref(where);
    py_where_unref(former);
    o->where = where;
    bool ok = true;
    if (context != Py_None) {
        Py_XSETREF(o->context, Py_NewRef(context));
        PyObject *r = PyObject_CallMethod(context, "op_added", "O", o);
        ok = r;
        Py_XDECREF(r);
    }
    ok = ok && tell_control_scopes(n->scopes, (PyObject *)o);
    if (ok && !placed && n->scopes->devices && PyList_GET_SIZE(n->scopes->devices) > 0) {
        PyObject *r = PyObject_CallMethodOneArg((PyObject *)n->graph, str_place, (PyObject *)o);
        ok = r;
        Py_XDECREF(r);
    }
    if (!ok)
        Py_CLEAR(o);
    return (PyObject *)o;
}

/* The name without the slash that says that it is complete, or made unique; a new reference. */
static PyObject *final_name(new_op *n)
{
    Py_ssize_t size = PyUnicode_GET_LENGTH(n->name);
    bool complete = size && PyUnicode_READ_CHAR(n->name, size - 1) == '/';
    PyObject *name = complete ? PyUnicode_Substring(n->name, 0, size - 1) : py_unique_name(n->graph, n->name, true);
    if (name && (!PyUnicode_GET_LENGTH(name) || !py_valid_name(name, false))) {
        PyErr_Format(PyExc_ValueError, "'%U' is not a valid node name", name);
        Py_CLEAR(name);
    }
    return name;
}

/* Adds the operation; releases what n owns.  Returns its object. */
static PyObject *add_operation(new_op *n)
{
    PyObject *op = NULL, *name = NULL;
    bool placed = false;
    PyObject *context = Py_NewRef(n->scopes->context ? n->scopes->context : Py_None);
    Py_INCREF(n->scopes);
    if (n->graph->finalized)
        PyErr_SetString(PyExc_RuntimeError, "Graph is finalized and cannot be modified.");
    else if (take_over(n) && (n->controls || (n->controls = controls_for(n->scopes, n->inputs))) &&
             enter_context(n, context) && (name = final_name(n)) && add_scoped_attrs(n)) {
        TF_Operation *node = finish(n, PyUnicode_AsUTF8(name), &placed);
        op = node ? made(n, node, context, placed) : NULL;
    }
    Py_XDECREF(name);
    Py_DECREF(context);
    Py_DECREF(n->scopes);
    Py_CLEAR(n->inputs);
    Py_CLEAR(n->controls);
    Py_CLEAR(n->more);
    return op;
}

/* ---- Graph._add ---- */

static bool read_triples(PyObject *triples, new_attr *attrs)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(triples); i++) {
        new_attr *a = &attrs[i];
        PyObject *one = PyTuple_GET_ITEM(triples, i);
        a->how = VALUE;
        if (!py_is_tuple(one) || !PyArg_ParseTuple(one, "ssO", &a->name, &a->kind, &a->value))
            return false;
    }
    return true;
}

/* _add(type, name, inputs, attrs, controls=None): inputs are tensors or lists of them, attrs triples as attrs.c has them. */
PyObject *py_graph_add(py_graph *g, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = {"op_type", "name", "inputs", "attrs", "controls", NULL};
    PyObject *name, *inputs, *triples, *controls = Py_None, *op = NULL;
    new_op n = {.graph = g};
    if (!make_strings() ||
        !PyArg_ParseTupleAndKeywords(args, kwargs, "sOOO|O", keywords, &n.type, &name, &inputs, &triples, &controls))
        return NULL;
    PyObject *text = PyBytes_Check(name)    ? PyUnicode_FromEncodedObject(name, "utf-8", "strict")
                     : PyUnicode_Check(name) ? PyUnicode_FromObject(name)
                                            : PyErr_Format(PyExc_TypeError, "A name is a string, not %R", name);
    PyObject *items = text ? py_items(triples, "Attrs are a sequence") : NULL;
    new_attr *attrs = items ? PyMem_Calloc((size_t)PyTuple_GET_SIZE(items) + 1, sizeof(*attrs)) : NULL;
    if (items && !attrs)
        PyErr_NoMemory();
    if (attrs && read_triples(items, attrs) && (n.scopes = py_scopes_of(g)) &&
        (n.inputs = py_items(inputs, "Inputs are a sequence"))) {
        n.name = text;
        n.attrs = attrs;
        n.n_attrs = (int)PyTuple_GET_SIZE(items);
        n.controls = controls == Py_None ? NULL : PySequence_List(controls);
        if (controls == Py_None || n.controls)
            op = add_operation(&n);
        else
            Py_CLEAR(n.inputs);
    }
    PyMem_Free(attrs);
    Py_XDECREF(items);
    Py_XDECREF(text);
    return op;
}

/* ---- constants ---- */

static TF_Tensor *scalar(int type, PyObject *value)
{
    TF_Tensor *t = TF_AllocateTensor((TF_DataType)type, NULL, 0, type == TF_DOUBLE || type == TF_INT64 ? 8 : 4);
    if (!t)
        return (TF_Tensor *)PyErr_NoMemory();
    bool is_int = PyLong_CheckExact(value);
    int64_t i = is_int ? PyLong_AsLongLong(value) : 0;
    double f = is_int ? 0 : PyFloat_AS_DOUBLE(value);
    void *to = TF_TensorData(t);
    switch (type) {
    case TF_FLOAT: *(float *)to = is_int ? (float)i : (float)f; break;
    case TF_DOUBLE: *(double *)to = is_int ? (double)i : f; break;
    case TF_INT32: *(int32_t *)to = (int32_t)i; break;
    default: *(int64_t *)to = i; break;
    }
    return t;
}

/* The type of the constant that a number becomes where this one is asked for (0: any); 0 if that is left to the package. */
static int scalar_type(PyObject *value, int asked)
{
    if (PyFloat_CheckExact(value))
        return asked == 0 ? TF_FLOAT : asked == TF_FLOAT || asked == TF_DOUBLE ? asked : 0;
    if (!PyLong_CheckExact(value))
        return 0;
    int overflow;
    long long i = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow)
        return 0;
    bool is_small = i >= INT32_MIN && i <= INT32_MAX;
    if (asked == 0)
        return is_small ? TF_INT32 : TF_INT64;
    bool fits = asked == TF_FLOAT || asked == TF_DOUBLE || asked == TF_INT64 || (asked == TF_INT32 && is_small);
    return fits ? asked : 0;
}

/* A constant of a number, named like the argument it is for; a new reference to its output. */
static PyObject *add_constant(py_graph *g, py_scopes *s, PyObject *name, int type, PyObject *value)
{
    TF_Tensor *t = scalar(type, value);
    if (!t)
        return NULL;
    new_attr attrs[] = {{.name = "value", .how = TENSOR, .tensor = t}, {.name = "dtype", .how = TYPE, .number = type}};
    new_op n = {.graph = g, .scopes = s, .type = "Const", .name = name, .inputs = PyTuple_New(0), .attrs = attrs, .n_attrs = 2};
    PyObject *op = n.inputs ? add_operation(&n) : NULL;
    PyObject *outputs = op ? py_outputs_of((py_operation *)op) : NULL;
    PyObject *out = outputs ? Py_XNewRef(PyList_GetItem(outputs, 0)) : NULL;
    TF_DeleteTensor(t);
    Py_XDECREF(op);
    Py_XDECREF(outputs);
    return out;
}

/* ---- call ---- */

enum { MOST = 64 }; /* inputs, and attrs, of a definition; TensorFlow's largest have about 20 */

typedef struct call {
    py_plan *plan;
    py_graph *graph;
    py_scopes *scopes;
    PyObject *given[MOST];        /* value for each input, borrowed, or NULL */
    PyObject *given_attrs[MOST];  /* and for each attr */
    PyObject *inputs;             /* list */
    int types[MOST];              /* of attrs that are types: what is known, or 0 */
    int64_t numbers[MOST];        /* of attrs that are numbers of inputs; -1 */
    PyObject *lists[MOST];        /* of attrs that are lists of types: list, owned, or NULL */
    PyObject *coded[MOST];        /* triples of the package, owned */
    int n_coded;
    new_attr attrs[MOST + 1];
    int n_attrs;
} call;

/* Where the value of an argument or attr of this name belongs; NULL: nowhere.  Names in the text of a program are interned. */
static PyObject **place_of_given(call *c, PyObject *name, bool interned)
{
    const py_plan *p = c->plan;
    for (int i = 0; i < p->n_args; i++)
        if (interned ? p->args[i].name == name : PyUnicode_Compare(p->args[i].name, name) == 0)
            return &c->given[i];
    for (int i = 0; i < p->n_attrs; i++)
        if (interned ? p->attrs[i].name == name : PyUnicode_Compare(p->attrs[i].name, name) == 0)
            return &c->given_attrs[i];
    return NULL;
}

static bool take_given(call *c, PyObject *name, PyObject *value)
{
    const py_plan *p = c->plan;
    PyObject **to = place_of_given(c, name, true);
    if (!to && !(to = place_of_given(c, name, false)) && PyErr_Occurred())
        return false;
    if (to) {
        *to = value;
        return true;
    }
    PyErr_Format(PyExc_TypeError, "%s got an unexpected argument %R", p->op_type, name);
    return false;
}

/* The graph of a value, borrowed; NULL if it says nothing, or with an exception set. */
static PyObject *graph_of(PyObject *v)
{
    if (PyObject_TypeCheck(v, &py_output_type))
        return (PyObject *)((py_output *)v)->op->graph;
    if (v == Py_None || PyBool_Check(v) || PyLong_CheckExact(v) || PyFloat_CheckExact(v) || PyUnicode_Check(v) ||
        PyBytes_Check(v) || PyArray_Check(v) || (PyObject *)Py_TYPE(v) == helpers.dtype ||
        (PyObject *)Py_TYPE(v) == helpers.shape)
        return NULL;
    PyObject *g = PyObject_GetAttr(v, str_graph);
    bool is_graph = g && PyObject_TypeCheck(g, &py_graph_type) && !PyObject_HasAttrString(v, "add_to_graph");
    if (!g && PyErr_ExceptionMatches(PyExc_AttributeError))
        PyErr_Clear();
    Py_XDECREF(g); /* the value holds it */
    return is_graph ? g : NULL;
}

/* The first graph that a value is of; a list says what the first of its members does that says anything. */
static PyObject *graph_of_given(PyObject *v)
{
    if (!PyList_Check(v) && !PyTuple_Check(v))
        return graph_of(v);
    PyObject *g = NULL;
    for (Py_ssize_t i = 0; !g && !PyErr_Occurred() && i < PySequence_Fast_GET_SIZE(v); i++) {
        PyObject *x = Py_NewRef(PySequence_Fast_GET_ITEM(v, i));
        g = graph_of(x);
        Py_DECREF(x);
    }
    return g;
}

/* The graph that the operation goes into: that of its inputs, but while a function is built, the function's. */
static py_graph *graph_for(PyObject *const *values, Py_ssize_t n)
{
    PyObject *entered = py_entered_graph();
    if (!entered && PyErr_Occurred())
        return NULL;
    if (entered) {
        PyObject *building = PyObject_GetAttrString(entered, "_building_function");
        int yes = building ? PyObject_IsTrue(building) : -1;
        Py_XDECREF(building);
        if (yes < 0)
            return NULL;
        if (yes && PyObject_TypeCheck(entered, &py_graph_type))
            return (py_graph *)Py_NewRef(entered);
    }
    PyObject *g = NULL;
    for (Py_ssize_t i = 0; !g && i < n; i++) {
        g = graph_of_given(values[i]);
        if (!g && PyErr_Occurred())
            return NULL;
    }
    return g ? (py_graph *)Py_NewRef(g) : py_default_graph();
}

/* ---- inputs ---- */

static int output_type(py_output *o) { return base_of((int)TF_OperationOutputType((TF_Output){o->op->op, o->index})); }

static PyObject *dtype_or_none(int type) { return type ? py_dtype(type) : Py_None; }

static bool refuse_type(call *c, const plan_arg *a, PyObject *tensor, int known)
{
    PyObject *t = py_dtype(known);
    PyObject *r = t ? PyObject_CallFunctionObjArgs(helpers.mismatch, c->plan, a->object, tensor, t, NULL) : NULL;
    if (r)
        PyErr_Format(PyExc_TypeError, "Input '%U' of '%s' has another type", a->name, c->plan->op_type);
    Py_XDECREF(r);
    return false;
}

/* The tensor of an input that is no tensor yet. */
static PyObject *converted(call *c, const plan_arg *a, PyObject *value, int known)
{
    PyObject *preferred = a->type_attr >= 0 && !known ? c->plan->attrs[a->type_attr].deflt : Py_None;
    int type = helpers.plain_numbers && !a->is_ref && preferred == Py_None ? scalar_type(value, known) : 0;
    if (type)
        return add_constant(c->graph, c->scopes, a->name, type, value);
    PyObject *dtype = dtype_or_none(known);
    if (!dtype)
        return NULL;
    PyObject *t = PyObject_CallFunctionObjArgs(helpers.convert, c->plan, a->object, value, dtype, preferred, NULL);
    if (t && !PyObject_TypeCheck(t, &py_output_type)) {
        PyErr_Format(PyExc_TypeError, "A conversion to a tensor gave %R", t);
        Py_CLEAR(t);
    }
    return t;
}

static bool take_single(call *c, const plan_arg *a, PyObject *value)
{
    int known = a->type_attr >= 0 ? c->types[a->type_attr] : a->type;
    PyObject *t = PyObject_TypeCheck(value, &py_output_type) ? Py_NewRef(value) : converted(c, a, value, known);
    if (!t)
        return false;
    int type = output_type((py_output *)t);
    bool ok = (!known || type == known || refuse_type(c, a, t, known)) && PyList_Append(c->inputs, t) == 0;
    if (ok && a->type_attr >= 0)
        c->types[a->type_attr] = type;
    Py_DECREF(t);
    return ok;
}

/* The type that all of a list are of; 0 if they are not all tensors of one type (`known`, if that is not 0). */
static int type_of_all(PyObject *list, int known)
{
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list); i++) {
        PyObject *o = PySequence_Fast_GET_ITEM(list, i);
        int type = PyObject_TypeCheck(o, &py_output_type) ? output_type((py_output *)o) : 0;
        if (!type || (known && type != known))
            return 0;
        known = type;
    }
    return known;
}

/* What is known so far, for the package: {name of an attr: value}. */
static PyObject *known_types(const call *c)
{
    PyObject *dict = PyDict_New();
    for (int i = 0; dict && i < c->plan->n_attrs; i++) {
        PyObject *t = c->types[i] ? py_dtype(c->types[i]) : NULL;
        if (c->types[i] && (!t || PyDict_SetItem(dict, c->plan->attrs[i].name, t) < 0))
            Py_CLEAR(dict);
    }
    return dict;
}

static PyObject *known_numbers(const call *c)
{
    PyObject *dict = PyDict_New();
    for (int i = 0; dict && i < c->plan->n_attrs; i++) {
        PyObject *n = c->numbers[i] >= 0 ? PyLong_FromLongLong(c->numbers[i]) : NULL;
        if (c->numbers[i] >= 0 && (!n || PyDict_SetItem(dict, c->plan->attrs[i].name, n) < 0))
            Py_CLEAR(dict);
        Py_XDECREF(n);
    }
    return dict;
}

/* The types of an attr that is a list: as they were given, or as another argument has them; borrowed, Py_None if neither. */
static PyObject *wanted_types(const call *c, int attr)
{
    PyObject *given = c->given_attrs[attr];
    return given && given != Py_None ? given : c->lists[attr] ? c->lists[attr] : Py_None;
}

/* A list as the package takes it: with conversions, or with the error that is due. */
static PyObject *list_by_package(call *c, const plan_arg *a, PyObject *value)
{
    PyObject *types = known_types(c), *numbers = types ? known_numbers(c) : NULL;
    PyObject *wanted = a->types_attr >= 0 ? wanted_types(c, a->types_attr) : Py_None;
    PyObject *list = numbers ? PyObject_CallFunctionObjArgs(helpers.take_list, c->plan, a->object, value, types, numbers, wanted,
                                                            NULL)
                             : NULL;
    Py_XDECREF(types);
    Py_XDECREF(numbers);
    if (list && !PyList_CheckExact(list)) {
        PyErr_Format(PyExc_TypeError, "Inputs are a list, not %R", list);
        Py_CLEAR(list);
    }
    return list;
}

/* So many tensors of one type. */
static bool take_many(call *c, const plan_arg *a, PyObject *value)
{
    int known = a->type_attr >= 0 ? c->types[a->type_attr] : a->type;
    const plan_attr *number = &c->plan->attrs[a->number_attr];
    int64_t *count = &c->numbers[a->number_attr];
    PyObject *list = NULL;
    if (PyList_CheckExact(value) || PyTuple_CheckExact(value)) {
        Py_ssize_t n = PySequence_Fast_GET_SIZE(value);
        bool fits = n > 0 && (*count < 0 || *count == n) && (!number->has_minimum || n >= number->minimum);
        list = fits && type_of_all(value, known) ? PySequence_List(value) : NULL;
    }
    if (!list && (PyErr_Occurred() || !(list = list_by_package(c, a, value))))
        return false;
    *count = PyList_GET_SIZE(list);
    int type = type_of_all(list, 0);
    if (a->type_attr >= 0 && type)
        c->types[a->type_attr] = type;
    bool ok = PyList_Append(c->inputs, list) == 0;
    Py_DECREF(list);
    return ok;
}

/* Tensors of any types. */
static bool take_any(call *c, const plan_arg *a, PyObject *value)
{
    PyObject *list = list_by_package(c, a, value);
    PyObject *types = list ? PyList_New(PyList_GET_SIZE(list)) : NULL;
    for (Py_ssize_t i = 0; types && i < PyList_GET_SIZE(list); i++) {
        PyObject *o = PyList_GET_ITEM(list, i);
        bool is_tensor = PyObject_TypeCheck(o, &py_output_type);
        if (!is_tensor)
            PyErr_Format(PyExc_TypeError, "A tensor of the graph is expected, not %R", o);
        PyObject *n = is_tensor ? PyLong_FromLong(output_type((py_output *)o)) : NULL;
        if (n)
            PyList_SET_ITEM(types, i, n);
        else
            Py_CLEAR(types);
    }
    bool ok = types && PyList_Append(c->inputs, list) == 0;
    Py_XDECREF(list);
    if (ok)
        Py_XSETREF(c->lists[a->types_attr], types);
    else
        Py_XDECREF(types);
    return ok;
}

/* A type that is given decides over values. */
static bool take_given_types(call *c)
{
    for (int i = 0; i < c->plan->n_attrs; i++) {
        const plan_attr *a = &c->plan->attrs[i];
        PyObject *value = c->given_attrs[i];
        if (!a->inferred || !value || value == Py_None || a->kind != 't' || a->is_list)
            continue;
        c->types[i] = number_of(value);
        if (c->types[i] == 0) {
            PyObject *triple = PyObject_CallFunctionObjArgs(helpers.code, c->plan, a->object, value, NULL);
            PyObject *number = triple && PyTuple_Check(triple) && PyTuple_GET_SIZE(triple) == 3 ? PyTuple_GET_ITEM(triple, 2) : NULL;
            c->types[i] = number ? base_of((int)PyLong_AsLong(number)) : -1;
            Py_XDECREF(triple);
        }
        if (c->types[i] < 0 || PyErr_Occurred())
            return false;
    }
    return true;
}

static bool take_inputs(call *c)
{
    const py_plan *p = c->plan;
    if (!take_given_types(c) || !(c->inputs = PyList_New(0)))
        return false;
    for (int i = 0; i < p->n_args; i++) {
        const plan_arg *a = &p->args[i];
        PyObject *value = c->given[i];
        if (!value) {
            PyErr_Format(PyExc_TypeError, "No argument for input %U of %s", a->name, p->op_type);
            return false;
        }
        bool ok = a->number_attr >= 0 ? take_many(c, a, value) : a->types_attr >= 0 ? take_any(c, a, value) : take_single(c, a, value);
        if (!ok)
            return false;
    }
    return true;
}

/* ---- attrs ---- */

static new_attr *next_attr(call *c, const plan_attr *a)
{
    new_attr *n = &c->attrs[c->n_attrs++];
    *n = (new_attr){.name = a->text};
    return n;
}

/* An attr as the package codes it. */
static bool code_attr(call *c, const plan_attr *a, PyObject *value)
{
    PyObject *triple = PyObject_CallFunctionObjArgs(helpers.code, c->plan, a->object, value, NULL);
    if (!triple)
        return false;
    c->coded[c->n_coded++] = triple;
    new_attr *n = next_attr(c, a);
    n->how = VALUE;
    return py_is_tuple(triple) && PyArg_ParseTuple(triple, "ssO", &n->name, &n->kind, &n->value);
}

static bool type_attr(call *c, const plan_attr *a, int type)
{
    if (type <= 0 || type >= 64 || !(a->types >> type & 1)) {
        PyObject *t = py_dtype(type);
        return t && code_attr(c, a, t); /* which refuses it */
    }
    new_attr *n = next_attr(c, a);
    n->how = TYPE;
    n->number = type;
    return true;
}

static bool plain_attr(call *c, const plan_attr *a, const char *kind, PyObject *value)
{
    new_attr *n = next_attr(c, a);
    n->how = VALUE;
    n->kind = kind;
    n->value = value;
    return true;
}

static bool int_attr(call *c, const plan_attr *a, int64_t value)
{
    new_attr *n = next_attr(c, a);
    n->how = INT;
    n->number = value;
    return true;
}

static bool given_attr(call *c, const plan_attr *a, PyObject *value)
{
    if (a->is_list)
        return code_attr(c, a, value);
    if (a->kind == 't') {
        int type = number_of(value);
        return type < 0 ? false : type ? type_attr(c, a, type) : code_attr(c, a, value);
    }
    if (a->kind == 'b' && PyBool_Check(value))
        return plain_attr(c, a, "b", value);
    if (a->kind == 'f' && PyFloat_CheckExact(value))
        return plain_attr(c, a, "f", value);
    if (a->kind == 's' && a->any && (PyUnicode_CheckExact(value) || PyBytes_CheckExact(value)))
        return plain_attr(c, a, "s", value);
    if (a->kind == 'i' && PyLong_CheckExact(value)) {
        int overflow;
        long long i = PyLong_AsLongLongAndOverflow(value, &overflow);
        if (!overflow && (!a->has_minimum || i >= a->minimum))
            return int_attr(c, a, i);
    }
    return code_attr(c, a, value);
}

/* Attrs in the order of the definition.  What has a default and is not given is left to the library. */
static bool take_attrs(call *c)
{
    const py_plan *p = c->plan;
    for (int i = 0; i < p->n_attrs; i++) {
        const plan_attr *a = &p->attrs[i];
        PyObject *value = c->given_attrs[i];
        bool given = value && (value != Py_None || (a->kind == 'h' && !a->is_list)), ok = true;
        if (c->types[i])
            ok = type_attr(c, a, c->types[i]);
        else if (c->numbers[i] >= 0)
            ok = int_attr(c, a, c->numbers[i]);
        else if (c->lists[i])
            ok = a->has_minimum && PyList_GET_SIZE(c->lists[i]) < a->minimum ? code_attr(c, a, c->lists[i])
                                                                             : plain_attr(c, a, "[t", c->lists[i]);
        else if (given)
            ok = given_attr(c, a, value);
        else if (!a->has_default)
            ok = PyErr_Format(PyExc_TypeError, "No argument for attr %U of %s", a->name, p->op_type);
        if (!ok)
            return false;
    }
    return true;
}

/* The container of the scope, for a stateful op that was given none. */
static bool take_container(call *c)
{
    int i = c->plan->container;
    if (i < 0)
        return true;
    int given = c->given_attrs[i] ? PyObject_IsTrue(c->given_attrs[i]) : 0;
    PyObject *container = given == 0 ? PyObject_GetAttr((PyObject *)c->graph, str_container) : NULL;
    int named = container ? PyObject_IsTrue(container) : given > 0 ? 0 : -1;
    if (named > 0) {
        const char *text = c->plan->attrs[i].text;
        for (int k = 0; k < c->n_attrs; k++)
            if (c->attrs[k].name == text)
                c->attrs[k] = c->attrs[--c->n_attrs];
        plain_attr(c, &c->plan->attrs[i], "s", container);
        c->coded[c->n_coded++] = container; /* owned until the end */
        return true;
    }
    Py_XDECREF(container);
    return named >= 0;
}

/* ---- adding ---- */

/* The operations whose references are taken: what changes a variable runs where the variable is.  NULL if there are none, or
 * with an exception set; a new list. */
static PyObject *with_references(const call *c)
{
    PyObject *list = NULL;
    for (int i = 0; i < c->plan->n_args; i++) {
        const plan_arg *a = &c->plan->args[i];
        if (!a->is_ref || a->number_attr >= 0 || a->types_attr >= 0)
            continue;
        if (!list && !(list = PySequence_List(c->scopes->colocation)))
            return NULL;
        if (PyList_Append(list, (PyObject *)((py_output *)PyList_GET_ITEM(c->inputs, i))->op) < 0) {
            Py_DECREF(list);
            return NULL;
        }
    }
    return list;
}

static PyObject *add_node(call *c)
{
    new_op n = {.graph = c->graph, .scopes = c->scopes, .type = c->plan->op_type, .inputs = Py_NewRef(c->inputs),
                .attrs = c->attrs, .n_attrs = c->n_attrs};
    if ((n.name = PyUnicode_FromFormat("%U/", c->scopes->names))) {
        PyObject *op = add_operation(&n);
        Py_DECREF(n.name);
        return op;
    }
    Py_DECREF(n.inputs);
    return NULL;
}

/* Adds it colocated with the references it takes; devices of the scopes do not count then. */
static PyObject *add_colocated(call *c)
{
    PyObject *with = c->scopes->colocation ? with_references(c) : NULL;
    if (!with)
        return PyErr_Occurred() ? NULL : add_node(c);
    PyObject *none = PyList_New(0);
    if (!none) {
        Py_DECREF(with);
        return NULL;
    }
    PyObject *colocation = c->scopes->colocation, *devices = c->scopes->devices;
    c->scopes->colocation = with;
    c->scopes->devices = none;
    PyObject *op = add_node(c);
    Py_SETREF(c->scopes->colocation, colocation);
    Py_SETREF(c->scopes->devices, devices);
    return op;
}

/* Makes the graph the default one of the thread, for conversions.  *list: where it was added, or NULL if it was that already. */
static bool enter_graph(py_graph *g, PyObject **list)
{
    py_graph *now = py_default_graph();
    *list = NULL;
    Py_XDECREF(now);
    return now && (now == g || (*list = py_push_default(g)));
}

static PyObject *run_call(call *c, PyObject *name)
{
    PyObject *entered, *op = NULL;
    PyObject *former = enter_graph(c->graph, &entered) ? py_push_name(c->graph, name) : NULL;
    c->scopes = former ? py_scopes_of(c->graph) : NULL;
    Py_XINCREF(c->scopes);
    if (c->scopes && take_inputs(c) && take_attrs(c) && take_container(c))
        op = add_colocated(c);
    if (former && c->scopes)
        Py_SETREF(c->scopes->names, former);
    else
        Py_XDECREF(former);
    if (entered)
        py_pop_default(entered, c->graph);
    Py_XDECREF(entered);
    Py_XDECREF(c->scopes);
    Py_XDECREF(c->inputs);
    for (int i = 0; i < c->plan->n_attrs; i++)
        Py_XDECREF(c->lists[i]);
    for (int i = 0; i < c->n_coded; i++)
        Py_DECREF(c->coded[i]);
    return op;
}

/* The plan of a type of operations; a new reference. */
static py_plan *find_plan(PyObject *type, py_graph *g)
{
    PyObject *p = helpers.plans ? PyDict_GetItemWithError(helpers.plans, type) : NULL;
    if (p)
        Py_INCREF(p);
    else if (!PyErr_Occurred() && helpers.plan)
        p = PyObject_CallFunctionObjArgs(helpers.plan, type, g, NULL);
    else if (!PyErr_Occurred())
        PyErr_SetString(PyExc_RuntimeError, "There are no plans");
    if (p && (!PyObject_TypeCheck(p, &py_plan_type) || !((py_plan *)p)->op_type)) {
        PyErr_Format(PyExc_TypeError, "A Plan is expected, not %R", p);
        Py_CLEAR(p);
    }
    if (p && (((py_plan *)p)->n_args > MOST || ((py_plan *)p)->n_attrs > MOST)) {
        PyErr_Format(PyExc_ValueError, "Op %U has too many inputs or attrs", type);
        Py_CLEAR(p);
    }
    return (py_plan *)p;
}

/* The operation of a type with these arguments; values and names of keywords are borrowed. */
static PyObject *add_call(PyObject *type, PyObject *name, PyObject *const *values, PyObject *const *names, Py_ssize_t n,
                          py_plan **plan)
{
    call c;
    *plan = NULL;
    if (!PyUnicode_Check(type))
        return PyErr_Format(PyExc_TypeError, "The type of an operation is a string, not %R", type);
    if (!(c.graph = graph_for(values, n)))
        return NULL;
    PyObject *op = NULL;
    if ((c.plan = find_plan(type, c.graph))) {
        int n_attrs = c.plan->n_attrs;
        memset(c.given, 0, (size_t)c.plan->n_args * sizeof(*c.given));
        memset(c.given_attrs, 0, (size_t)n_attrs * sizeof(*c.given_attrs));
        memset(c.types, 0, (size_t)n_attrs * sizeof(*c.types));
        memset(c.numbers, 0xff, (size_t)n_attrs * sizeof(*c.numbers));
        memset(c.lists, 0, (size_t)n_attrs * sizeof(*c.lists));
        c.inputs = NULL;
        c.n_coded = c.n_attrs = 0;
        bool ok = true;
        for (Py_ssize_t i = 0; ok && i < n; i++)
            ok = take_given(&c, names[i], values[i]);
        int named = ok ? PyObject_IsTrue(name) : -1;
        if (named >= 0)
            op = run_call(&c, named ? name : type);
        *plan = c.plan;
    }
    Py_DECREF(c.graph);
    return op;
}

/* What an operation makes, in the form of its definition; takes over op. */
static PyObject *results_of(PyObject *op, py_plan *p)
{
    if (p->n_out == 0)
        return op;
    PyObject *out = NULL;
    if (p->n_out > 1)
        out = PyObject_CallFunctionObjArgs(helpers.results, op, p, NULL);
    else {
        PyObject *outputs = py_outputs_of((py_operation *)op);
        if (outputs)
            out = p->is_list ? PySequence_List(outputs) : PySequence_GetItem(outputs, 0);
        Py_XDECREF(outputs);
    }
    Py_DECREF(op);
    return out;
}

/* call(op_type, name=None, **given): adds an operation and returns what it makes. */
static PyObject *core_call(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *keywords)
{
    Py_ssize_t n_given = keywords ? PyTuple_GET_SIZE(keywords) : 0;
    PyObject *name = n > 1 ? args[1] : Py_None, *const *names = keywords ? &PyTuple_GET_ITEM(keywords, 0) : NULL;
    PyObject *const *values = args + n;
    PyObject *left_values[MOST], *left_names[MOST];
    (void)module;
    if (n < 1 || n > 2)
        return PyErr_Format(PyExc_TypeError, "call() takes the type and the name of an operation, and keywords");
    for (Py_ssize_t i = 0; n == 1 && i < n_given; i++) {
        if (PyUnicode_CompareWithASCIIString(names[i], "name") != 0 || n_given > MOST)
            continue;
        Py_ssize_t left = 0; /* the name among the keywords is none of the op's arguments */
        for (Py_ssize_t k = 0; k < n_given; k++)
            if (k != i) {
                left_values[left] = values[k];
                left_names[left++] = names[k];
            }
        name = values[i];
        values = left_values;
        names = left_names;
        n_given = left;
        break;
    }
    py_plan *p;
    PyObject *op = add_call(args[0], name, values, names, n_given, &p);
    PyObject *out = op ? results_of(op, p) : NULL;
    Py_XDECREF(p);
    return out;
}

/* add(op_type, name, given): adds an operation and returns it with its plan. */
static PyObject *core_add(PyObject *module, PyObject *args)
{
    PyObject *type, *name, *given;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOO!", &type, &name, &PyDict_Type, &given))
        return NULL;
    PyObject *names = PySequence_Tuple(given), *values = names ? PyTuple_New(PyTuple_GET_SIZE(names)) : NULL;
    for (Py_ssize_t i = 0; values && i < PyTuple_GET_SIZE(names); i++) {
        PyObject *v = PyDict_GetItemWithError(given, PyTuple_GET_ITEM(names, i));
        bool ok = v && PyUnicode_Check(PyTuple_GET_ITEM(names, i));
        if (ok)
            PyTuple_SET_ITEM(values, i, Py_NewRef(v));
        else
            Py_CLEAR(values);
    }
    if (names && !values && !PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError, "Names of arguments are strings");
    py_plan *p = NULL;
    PyObject *op = values ? add_call(type, name, &PyTuple_GET_ITEM(values, 0), &PyTuple_GET_ITEM(names, 0),
                                     PyTuple_GET_SIZE(names), &p)
                          : NULL;
    PyObject *out = op ? Py_BuildValue("NO", op, p) : NULL;
    Py_XDECREF(p);
    Py_XDECREF(names);
    Py_XDECREF(values);
    return out;
}

PyMethodDef py_apply_methods[] = {
    {"call", (PyCFunction)(void (*)(void))core_call, METH_FASTCALL | METH_KEYWORDS,
     "call(op_type, name=None, **given): adds an operation; what it makes."},
    {"add", core_add, METH_VARARGS, "add(op_type, name, given): adds an operation; it and its plan."},
    {"set_helpers", set_helpers, METH_VARARGS,
     "set_helpers(plans, plan, convert, take_list, mismatch, code, results, dtype, shape): what `call` asks of the package."},
    {"set_plain_numbers", set_plain_numbers, METH_O, "Whether numbers become constants without asking the package."},
    {"set_dtypes", py_set_dtypes, METH_O, "set_dtypes(by_number): the objects of the types of elements."},
    {0}};
