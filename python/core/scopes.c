/* scopes.c -- what new operations are made under: the default graph, prefixes of names and the other scopes of a thread.
 *
 * Which scopes a thread is in is in a threading.local of the package.  Looking into one takes longer than adding an operation
 * otherwise would, so a graph keeps the scopes of the thread that asked last, and this file the same of the default graphs.
 * Threads are told apart by the numbers of their states, which are never used again. */
#include "core.h"

static uint64_t this_thread(void) { return PyThreadState_GetID(PyThreadState_Get()); }

/* ---- Scopes ---- */

/* Scopes(devices, /): none but these devices. */
static PyObject *scopes_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *devices;
    if (!py_no_keywords(type, kwargs) || !PyArg_ParseTuple(args, "O!", &PyList_Type, &devices))
        return NULL;
    py_scopes *s = (py_scopes *)type->tp_alloc(type, 0);
    if (!s)
        return NULL;
    s->devices = Py_NewRef(devices);
    s->context = Py_NewRef(Py_None);
    s->names = PyUnicode_FromString("");
    s->controls = PyList_New(0);
    s->colocation = PyList_New(0);
    if (!s->names || !s->controls || !s->colocation)
        Py_CLEAR(s);
    return (PyObject *)s;
}

static int scopes_traverse(py_scopes *s, visitproc visit, void *arg)
{
    Py_VISIT(s->context);
    Py_VISIT(s->controls);
    Py_VISIT(s->colocation);
    Py_VISIT(s->devices);
    return 0;
}

/* Leaves it usable: code that runs while the garbage is collected may still see it. */
static int scopes_clear(py_scopes *s)
{
    Py_XSETREF(s->context, Py_NewRef(Py_None));
    Py_CLEAR(s->controls);
    Py_CLEAR(s->colocation);
    Py_CLEAR(s->devices);
    return 0;
}

static void scopes_free(py_scopes *s)
{
    PyObject_GC_UnTrack(s);
    Py_CLEAR(s->names);
    scopes_clear(s);
    Py_CLEAR(s->context);
    Py_TYPE(s)->tp_free(s);
}

PyTypeObject py_scopes_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_millrace.Scopes",
                               .tp_basicsize = sizeof(py_scopes),
                               .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                               .tp_doc = "Scopes(devices, /)\n--\n\nThe scopes of a graph that a thread is in.",
                               .tp_new = scopes_new,
                               .tp_dealloc = (destructor)scopes_free,
                               .tp_traverse = (traverseproc)scopes_traverse,
                               .tp_clear = (inquiry)scopes_clear};

py_scopes *py_scopes_of(py_graph *g)
{
    uint64_t thread = this_thread();
    if (g->scopes && g->scopes_thread == thread)
        return g->scopes;
    PyObject *local = PyObject_GetAttrString((PyObject *)g, "_thread");
    PyObject *own = local ? PyObject_GetAttrString(local, "own") : NULL;
    Py_XDECREF(local);
    if (own && !Py_IS_TYPE(own, &py_scopes_type)) {
        PyErr_Format(PyExc_TypeError, "The scopes of a thread are no Scopes but %R", own);
        Py_CLEAR(own);
    }
    if (!own)
        return NULL;
    PyObject *former = (PyObject *)g->scopes;
    g->scopes = (py_scopes *)own;
    g->scopes_thread = thread;
    Py_XDECREF(former);
    return (py_scopes *)own;
}

/* ---- a graph's attributes that each thread has for itself ---- */

static const struct {
    size_t offset;
    PyTypeObject *type; /* NULL: any object */
} fields[] = {[PY_SCOPE_NAMES] = {offsetof(py_scopes, names), &PyUnicode_Type},
              [PY_SCOPE_CONTEXT] = {offsetof(py_scopes, context), NULL},
              [PY_SCOPE_CONTROLS] = {offsetof(py_scopes, controls), &PyList_Type},
              [PY_SCOPE_COLOCATION] = {offsetof(py_scopes, colocation), &PyList_Type},
              [PY_SCOPE_DEVICES] = {offsetof(py_scopes, devices), &PyList_Type}};

PyObject *py_graph_scope(py_graph *g, void *which)
{
    py_scopes *s = py_scopes_of(g);
    PyObject *value = s ? *(PyObject **)((char *)s + fields[(uintptr_t)which].offset) : NULL;
    if (s && !value)
        PyErr_SetString(PyExc_RuntimeError, "The scopes of the graph are being garbage-collected");
    return Py_XNewRef(value);
}

int py_graph_set_scope(py_graph *g, PyObject *value, void *which)
{
    PyTypeObject *type = fields[(uintptr_t)which].type;
    py_scopes *s = py_scopes_of(g);
    if (!s)
        return -1;
    if (!value || (type && !Py_IS_TYPE(value, type))) {
        PyErr_Format(PyExc_TypeError, "A scope of this kind is a %s", type ? type->tp_name : "value");
        return -1;
    }
    PyObject **at = (PyObject **)((char *)s + fields[(uintptr_t)which].offset), *former = *at;
    *at = Py_NewRef(value);
    Py_XDECREF(former);
    return 0;
}

/* ---- names ---- */

static bool in_name(Py_UCS4 c, bool first)
{
    bool starts = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.';
    return starts || (!first && (c == '_' || c == '-' || c == '/'));
}

bool py_valid_name(PyObject *name, bool below)
{
    Py_ssize_t n = PyUnicode_GET_LENGTH(name);
    if (!n || !PyUnicode_IS_ASCII(name))
        return n == 0 && below;
    const Py_UCS1 *p = PyUnicode_1BYTE_DATA(name);
    for (Py_ssize_t i = 0; i < n; i++)
        if (!in_name(p[i], i == 0 && !below))
            return false;
    return true;
}

/* The key of a name: names that differ only in case are the same to file systems, where summaries and checkpoints are. */
static PyObject *lowered(PyObject *name)
{
    static PyObject *method;
    bool plain = PyUnicode_IS_ASCII(name);
    const Py_UCS1 *p = plain ? PyUnicode_1BYTE_DATA(name) : NULL;
    for (Py_ssize_t i = 0; plain && i < PyUnicode_GET_LENGTH(name); i++)
        plain = p[i] < 'A' || p[i] > 'Z';
    if (plain)
        return Py_NewRef(name);
    if (!method && !(method = PyUnicode_InternFromString("lower")))
        return NULL;
    return PyObject_CallMethodNoArgs(name, method);
}

/* Takes a name and the scopes it is in, as far as they are not known. */
static bool learn_name(py_graph *g, const char *text)
{
    PyObject *whole = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    PyObject *name = whole ? lowered(whole) : NULL, *one = PyLong_FromLong(1);
    bool ok = name && one;
    while (ok && PyUnicode_GET_LENGTH(name)) {
        int known = PyDict_Contains(g->names, name);
        if (known)
            ok = known > 0;
        else
            ok = PyDict_SetItem(g->names, name, one) == 0;
        Py_ssize_t slash = known || !ok ? -1 : PyUnicode_FindChar(name, '/', 0, PyUnicode_GET_LENGTH(name), -1);
        if (slash < 0)
            break;
        Py_SETREF(name, PyUnicode_Substring(name, 0, slash));
        ok = name;
    }
    Py_XDECREF(whole);
    Py_XDECREF(name);
    Py_XDECREF(one);
    return ok;
}

bool py_learn_names(py_graph *g)
{
    TF_Operation *op;
    bool ok = true;
    while (ok && (op = TF_GraphNextOperation(g->graph, &g->names_at)))
        ok = learn_name(g, TF_OperationName(op));
    return ok;
}

/* What has been counted for a key, 0 if it is not in use; -1 with an exception set. */
static long count_of(py_graph *g, PyObject *key)
{
    PyObject *n = PyDict_GetItemWithError(g->names, key);
    return n ? PyLong_AsLong(n) : PyErr_Occurred() ? -1 : 0;
}

static bool set_count(py_graph *g, PyObject *key, long count)
{
    PyObject *n = PyLong_FromLong(count);
    bool ok = n && PyDict_SetItem(g->names, key, n) == 0;
    Py_XDECREF(n);
    return ok;
}

/* The first of base_i, base_(i+1) ... that is not in use.  *i becomes the number behind it. */
static PyObject *free_key(py_graph *g, PyObject *base, long *i)
{
    PyObject *key = Py_NewRef(base);
    int used = 1;
    while (key && (used = PyDict_Contains(g->names, key)) > 0)
        Py_SETREF(key, PyUnicode_FromFormat("%U_%ld", base, (*i)++));
    if (used < 0)
        Py_CLEAR(key);
    return key;
}

/* A free name, as TensorFlow finds it: name, name_1, name_2 ... */
static PyObject *unique(py_graph *g, PyObject *name, bool mark)
{
    PyObject *base = lowered(name), *key = NULL, *found = NULL;
    long i = base && py_learn_names(g) ? count_of(g, base) : -1;
    bool ok = i >= 0 && (!mark || set_count(g, base, i + 1));
    if (ok && i == 0)
        found = Py_NewRef(name);
    else if (ok && (key = free_key(g, base, &i)) && (!mark || set_count(g, key, 1)))
        found = PyUnicode_FromFormat("%U_%ld", name, i - 1);
    Py_XDECREF(base);
    Py_XDECREF(key);
    return found;
}

PyObject *py_unique_name(py_graph *g, PyObject *name, bool mark)
{
    py_scopes *s = py_scopes_of(g);
    if (!s)
        return NULL;
    if (!PyUnicode_GET_LENGTH(s->names))
        return unique(g, name, mark);
    PyObject *whole = PyUnicode_FromFormat("%U/%U", s->names, name);
    PyObject *found = whole ? unique(g, whole, mark) : NULL;
    Py_XDECREF(whole);
    return found;
}

/* unique_name(name, mark_as_used=True) */
PyObject *py_graph_unique_name(py_graph *g, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = {"name", "mark_as_used", NULL};
    PyObject *name;
    int mark = 1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "U|p", keywords, &name, &mark))
        return NULL;
    return py_unique_name(g, name, mark);
}

static PyObject *name_error(PyObject *name)
{
    return PyErr_Format(PyExc_ValueError, "'%U' is not a valid scope name", name);
}

PyObject *py_push_name(py_graph *g, PyObject *name)
{
    py_scopes *s = py_scopes_of(g);
    if (!s)
        return NULL;
    int given = PyObject_IsTrue(name);
    if (given < 0)
        return NULL;
    PyObject *text = !given               ? PyUnicode_FromString("")
                     : PyBytes_Check(name) ? PyUnicode_FromEncodedObject(name, "utf-8", "strict")
                     : PyUnicode_Check(name)
                         ? PyUnicode_FromObject(name)
                         : PyErr_Format(PyExc_TypeError, "The name of a scope is a string, not %R", name);
    if (text && given && !py_valid_name(text, PyUnicode_GET_LENGTH(s->names) > 0)) {
        name_error(text);
        Py_CLEAR(text);
    }
    Py_ssize_t n = text ? PyUnicode_GET_LENGTH(text) : 0;
    if (n && PyUnicode_READ_CHAR(text, n - 1) == '/')
        Py_SETREF(text, PyUnicode_Substring(text, 0, n - 1));
    else if (n)
        Py_SETREF(text, py_unique_name(g, text, true));
    if (!text)
        return NULL;
    PyObject *former = s->names;
    s->names = text;
    return former;
}

PyObject *py_graph_number(py_graph *g, PyObject *unused)
{
    (void)unused;
    return py_learn_names(g) ? PyLong_FromSize_t(g->names_at) : NULL;
}

/* ---- the default graph ---- */

static struct {
    PyObject *local;   /* a threading.local whose `entries` are the graphs entered in a thread */
    PyObject *global;  /* a function: the graph of the process, which it makes when it is first asked for */
    PyObject *entries; /* of the thread that asked last */
    uint64_t thread;
} defaults;

/* set_default_graphs(local, global) */
PyObject *py_set_default_graphs(PyObject *module, PyObject *args)
{
    PyObject *local, *global;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO", &local, &global))
        return NULL;
    Py_XSETREF(defaults.local, Py_NewRef(local));
    Py_XSETREF(defaults.global, Py_NewRef(global));
    Py_CLEAR(defaults.entries);
    Py_RETURN_NONE;
}

/* The graphs that this thread has entered; borrowed, NULL with an exception set. */
static PyObject *entries(void)
{
    uint64_t thread = this_thread();
    if (defaults.entries && defaults.thread == thread)
        return defaults.entries;
    PyObject *list = defaults.local ? PyObject_GetAttrString(defaults.local, "entries")
                                    : PyErr_Format(PyExc_RuntimeError, "There are no default graphs");
    if (list && !PyList_CheckExact(list)) {
        PyErr_Format(PyExc_TypeError, "The entries of a stack are no list but %R", list);
        Py_CLEAR(list);
    }
    if (!list)
        return NULL;
    PyObject *former = defaults.entries;
    defaults.entries = list;
    defaults.thread = thread;
    Py_XDECREF(former);
    return list;
}

PyObject *py_entered_graph(void)
{
    PyObject *list = entries();
    Py_ssize_t n = list ? PyList_GET_SIZE(list) : 0;
    return n ? PyList_GET_ITEM(list, n - 1) : NULL;
}

py_graph *py_default_graph(void)
{
    PyObject *g = py_entered_graph();
    if (g)
        Py_INCREF(g);
    else if (!PyErr_Occurred())
        g = PyObject_CallNoArgs(defaults.global);
    if (g && !PyObject_TypeCheck(g, &py_graph_type)) {
        PyErr_Format(PyExc_TypeError, "The default graph is no Graph but %R", g);
        Py_CLEAR(g);
    }
    return (py_graph *)g;
}

PyObject *py_push_default(py_graph *g)
{
    PyObject *list = entries();
    return list && PyList_Append(list, (PyObject *)g) == 0 ? Py_NewRef(list) : NULL;
}

/* The last one: who leaves out of order is usual with interactive sessions. */
void py_pop_default(PyObject *list, py_graph *g)
{
    for (Py_ssize_t i = PyList_GET_SIZE(list) - 1; i >= 0; i--)
        if (PyList_GET_ITEM(list, i) == (PyObject *)g) {
            PyList_SetSlice(list, i, i + 1, NULL);
            return;
        }
}

PyObject *py_get_default_graph(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return (PyObject *)py_default_graph();
}
