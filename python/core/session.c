/* session.c -- Session: runs and partial runs.
 *
 * A run makes tensors of the feeds, lets go of the interpreter's lock, runs, takes the lock again and makes arrays of what was
 * fetched. */
#include "core.h"

typedef struct py_session {
    PyObject_HEAD
    TF_Session *session;
    py_graph *graph;
    bool closed; /* close() was called */
} py_session;

enum { ON_STACK = 32 };

/* What one run works with; `small` serves up to ON_STACK of each. */
typedef struct run {
    TF_Output *feeds, *fetches;
    TF_Operation **targets;
    TF_Tensor **values, **results;
    int n_feeds, n_fetches, n_targets;
    TF_Output small_feeds[ON_STACK], small_fetches[ON_STACK];
    TF_Operation *small_targets[ON_STACK];
    TF_Tensor *small_values[ON_STACK], *small_results[ON_STACK];
} run;

static void *room(void *small, size_t n, size_t size)
{
    if (n <= ON_STACK)
        return memset(small, 0, n * size);
    void *p = PyMem_Calloc(n, size);
    if (!p)
        PyErr_NoMemory();
    return p;
}

static void release(void *p, const void *small)
{
    if (p != small)
        PyMem_Free(p);
}

static bool run_init(run *r, PyObject *feeds, PyObject *fetches, PyObject *targets)
{
    Py_ssize_t most = INT32_MAX / 64;
    if (!PyList_Check(feeds) || !PyList_Check(fetches) || !PyList_Check(targets) || PyList_GET_SIZE(feeds) > most ||
        PyList_GET_SIZE(fetches) > most || PyList_GET_SIZE(targets) > most) {
        PyErr_SetString(PyExc_TypeError, "Feeds, fetches and targets must be lists");
        return false;
    }
    r->n_feeds = (int)PyList_GET_SIZE(feeds);
    r->n_fetches = (int)PyList_GET_SIZE(fetches);
    r->n_targets = (int)PyList_GET_SIZE(targets);
    r->feeds = room(r->small_feeds, (size_t)r->n_feeds, sizeof(TF_Output));
    r->fetches = room(r->small_fetches, (size_t)r->n_fetches, sizeof(TF_Output));
    r->targets = room(r->small_targets, (size_t)r->n_targets, sizeof(TF_Operation *));
    r->values = room(r->small_values, (size_t)r->n_feeds, sizeof(TF_Tensor *));
    r->results = room(r->small_results, (size_t)r->n_fetches, sizeof(TF_Tensor *));
    return r->feeds && r->fetches && r->targets && r->values && r->results;
}

static void run_deinit(run *r)
{
    for (int i = 0; r->values && i < r->n_feeds; i++)
        TF_DeleteTensor(r->values[i]);
    for (int i = 0; r->results && i < r->n_fetches; i++)
        TF_DeleteTensor(r->results[i]);
    release(r->feeds, r->small_feeds);
    release(r->fetches, r->small_fetches);
    release(r->targets, r->small_targets);
    release(r->values, r->small_values);
    release(r->results, r->small_results);
}

/* ---- what goes in ---- */

static bool take_output(const py_graph *g, PyObject *o, TF_Output *out)
{
    if (!PyObject_TypeCheck(o, &py_output_type)) {
        PyErr_Format(PyExc_TypeError, "A tensor is expected, not %R", o);
        return false;
    }
    const py_output *t = (const py_output *)o;
    if (t->op->graph != g) {
        PyErr_Format(PyExc_ValueError, "%R is not an element of this graph.", o);
        return false;
    }
    *out = (TF_Output){t->op->op, t->index};
    return true;
}

enum { MOST_DIMS = 64 };

/* At most MOST_DIMS dims are read. */
static bool read_shape(const py_graph *g, TF_Output out, int64_t *dims, int *n)
{
    TF_Status *st = py_status_new();
    if (!st)
        return false;
    *n = TF_GraphGetTensorNumDims(g->graph, out, st);
    if (*n >= 0 && *n <= MOST_DIMS)
        TF_GraphGetTensorShape(g->graph, out, dims, *n, st);
    return py_status_ok(st);
}

bool py_shape_of_output(const py_graph *g, TF_Output out, int64_t **dims, int *n)
{
    *dims = calloc(MOST_DIMS, sizeof **dims);
    if (!*dims)
        PyErr_NoMemory();
    if (!*dims || !read_shape(g, out, *dims, n))
        return false;
    if (*n > MOST_DIMS)
        *n = -1;
    return true;
}

bool py_check_shape(const py_graph *g, PyObject *o, TF_Output out, const TF_Tensor *t)
{
    int64_t dims[MOST_DIMS];
    int n;
    if (!read_shape(g, out, dims, &n))
        return false;
    bool ok = n < 0 || n == TF_NumDims(t);
    for (int i = 0; ok && i < n && n <= 64; i++)
        ok = dims[i] < 0 || dims[i] == TF_Dim(t, i);
    if (ok)
        return true;
    for (int i = 0; i < TF_NumDims(t) && i < 64; i++)
        dims[i] = TF_Dim(t, i);
    PyObject *given = py_shape(TF_NumDims(t) <= 64 ? TF_NumDims(t) : -1, dims);
    PyObject *name = PyObject_GetAttrString(o, "name"), *shape = PyObject_GetAttrString(o, "shape");
    if (given && name && shape)
        PyErr_Format(PyExc_ValueError, "Cannot feed value of shape %R for Tensor %R, which has shape '%S'", given, name, shape);
    Py_XDECREF(given);
    Py_XDECREF(name);
    Py_XDECREF(shape);
    return false;
}

/* An item of a list that was checked before Python code ran, which may have changed it; a new reference. */
static PyObject *item(PyObject *list, int i)
{
    if (i < PyList_GET_SIZE(list))
        return Py_NewRef(PyList_GET_ITEM(list, i));
    return PyErr_Format(PyExc_RuntimeError, "Feeds or fetches were modified while they were being read");
}

static bool take_feed(const py_graph *g, run *r, int i, PyObject *o, PyObject *value)
{
    if (!take_output(g, o, &r->feeds[i]))
        return false;
    r->values[i] = py_tensor_from(value, (int)TF_OperationOutputType(r->feeds[i]) % 100);
    return r->values[i] && py_check_shape(g, o, r->feeds[i], r->values[i]);
}

static bool take_feeds(const py_graph *g, run *r, PyObject *feeds, PyObject *values)
{
    if (!PyList_Check(values) || PyList_GET_SIZE(values) != r->n_feeds) {
        PyErr_SetString(PyExc_TypeError, "There must be a value for each feed");
        return false;
    }
    bool ok = true;
    for (int i = 0; ok && i < r->n_feeds; i++) {
        PyObject *o = item(feeds, i), *value = o ? item(values, i) : NULL;
        ok = value && take_feed(g, r, i, o, value);
        Py_XDECREF(o);
        Py_XDECREF(value);
    }
    return ok;
}

static bool take_target(const py_graph *g, PyObject *o, TF_Operation **out)
{
    if (!PyObject_TypeCheck(o, &py_operation_type) || ((py_operation *)o)->graph != g) {
        PyErr_Format(PyExc_ValueError, "%R is not an operation of this graph.", o);
        return false;
    }
    *out = ((py_operation *)o)->op;
    return true;
}

static bool take_rest(const py_graph *g, run *r, PyObject *fetches, PyObject *targets)
{
    bool ok = true;
    for (int i = 0; ok && i < r->n_fetches; i++) {
        PyObject *o = item(fetches, i);
        ok = o && take_output(g, o, &r->fetches[i]);
        Py_XDECREF(o);
    }
    for (int i = 0; ok && i < r->n_targets; i++) {
        PyObject *o = item(targets, i);
        ok = o && take_target(g, o, &r->targets[i]);
        Py_XDECREF(o);
    }
    return ok;
}

/* ---- what comes out ---- */

static PyObject *results(run *r)
{
    PyObject *list = PyList_New(r->n_fetches);
    for (int i = 0; list && i < r->n_fetches; i++) {
        TF_Tensor *t = r->results[i];
        r->results[i] = NULL;
        PyObject *a = py_array_from(t);
        if (a)
            PyList_SET_ITEM(list, i, a);
        else
            Py_CLEAR(list);
    }
    return list;
}

/* ---- runs ---- */

static bool is_open(const py_session *s)
{
    if (!s->session)
        PyErr_SetString(PyExc_RuntimeError, "Attempted to use a closed Session.");
    return s->session;
}

static PyObject *finish(run *r, TF_Status *st, TF_Buffer *metadata)
{
    PyObject *list = py_status_ok(st) ? results(r) : NULL;
    if (!metadata)
        return list;
    PyObject *m = list ? py_bytes_from(metadata) : (TF_DeleteBuffer(metadata), NULL);
    return list && m ? Py_BuildValue("NN", list, m) : (Py_XDECREF(list), NULL);
}

/* The serialized RunOptions, or none; whether metadata are wanted.  false with an exception set. */
static bool take_options(PyObject *const *args, Py_ssize_t n, TF_Buffer **options, TF_Buffer **metadata)
{
    PyObject *o = n > 4 ? args[4] : Py_None;
    int wanted = n > 5 ? PyObject_IsTrue(args[5]) : 0;
    if (wanted < 0)
        return false;
    if (o != Py_None && !PyBytes_Check(o)) {
        PyErr_Format(PyExc_TypeError, "Options must be bytes or None, not %R", o);
        return false;
    }
    *options = o == Py_None ? NULL : TF_NewBufferFromString(PyBytes_AS_STRING(o), (size_t)PyBytes_GET_SIZE(o));
    *metadata = wanted ? TF_NewBuffer() : NULL;
    if ((o == Py_None || *options) && (!wanted || *metadata))
        return true;
    PyErr_NoMemory();
    return false;
}

/* run(feeds, values, fetches, targets, options=None, metadata=False): a list of arrays, with metadata a pair of it and bytes */
static PyObject *session_run(py_session *s, PyObject *const *args, Py_ssize_t n)
{
    if (n < 4 || n > 6)
        return PyErr_Format(PyExc_TypeError, "run takes 4 to 6 arguments, not %zd", n);
    run r = {0};
    TF_Status *st = NULL;
    TF_Buffer *options = NULL, *metadata = NULL;
    PyObject *out = NULL;
    py_release_arrays();
    if (!is_open(s) || !run_init(&r, args[0], args[2], args[3]) || !take_feeds(s->graph, &r, args[0], args[1]) ||
        !take_rest(s->graph, &r, args[2], args[3]) || !take_options(args, n, &options, &metadata) || !(st = py_status_new())) {
        TF_DeleteBuffer(metadata);
        goto out;
    }
    py_waits();
    Py_BEGIN_ALLOW_THREADS
    TF_SessionRun(s->session, options, r.feeds, r.values, r.n_feeds, r.fetches, r.results, r.n_fetches,
                  (const TF_Operation *const *)r.targets, r.n_targets, metadata, st);
    Py_END_ALLOW_THREADS
    py_waited();
    out = finish(&r, st, metadata);
out:
    TF_DeleteBuffer(options);
    run_deinit(&r);
    return out;
}

TF_Session *py_session_if_open(PyObject *session)
{
    const py_session *s = (const py_session *)session;
    return s->closed ? NULL : s->session;
}

py_graph *py_graph_of_session(PyObject *session) { return ((py_session *)session)->graph; }

TF_Session *py_session_of(PyObject *o, const py_graph *g)
{
    if (!PyObject_TypeCheck(o, &py_session_type)) {
        PyErr_Format(PyExc_TypeError, "A session is expected, not %R", o);
        return NULL;
    }
    const py_session *s = (const py_session *)o;
    if (!is_open(s))
        return NULL;
    if (s->graph != g)
        PyErr_SetString(PyExc_ValueError, "The session and the model have different graphs");
    return s->graph == g ? s->session : NULL;
}

PyObject *py_run_on(const py_graph *g, PyObject *feeds, PyObject *values, PyObject *fetches, py_runner *fn, void *arg)
{
    run r = {0};
    TF_Status *st = NULL;
    PyObject *out = NULL, *none = PyList_New(0);
    py_release_arrays();
    if (none && run_init(&r, feeds, fetches, none) && take_feeds(g, &r, feeds, values) && take_rest(g, &r, fetches, none) &&
        (st = py_status_new())) {
        fn(arg, r.feeds, r.values, r.n_feeds, r.fetches, r.results, r.n_fetches, st);
        if (PyErr_Occurred())
            TF_DeleteStatus(st);
        else
            out = finish(&r, st, NULL);
    }
    run_deinit(&r);
    Py_XDECREF(none);
    return out;
}

typedef struct unlocked {
    py_runner *fn;
    void *arg;
} unlocked;

static void run_unlocked(void *arg, const TF_Output *feeds, TF_Tensor *const *values, int n_feeds, const TF_Output *fetches,
                         TF_Tensor **results, int n_fetches, TF_Status *st)
{
    const unlocked *u = arg;
    py_waits();
    Py_BEGIN_ALLOW_THREADS
    u->fn(u->arg, feeds, values, n_feeds, fetches, results, n_fetches, st);
    Py_END_ALLOW_THREADS
    py_waited();
}

PyObject *py_run_by(PyObject *session, PyObject *feeds, PyObject *values, PyObject *fetches, py_runner *fn, void *arg)
{
    const py_session *s = (const py_session *)session;
    return is_open(s) ? py_run_on(s->graph, feeds, values, fetches, run_unlocked, &(unlocked){fn, arg}) : NULL;
}

/* prepare_partial(feeds, fetches, targets): a handle */
static PyObject *session_partial_setup(py_session *s, PyObject *args)
{
    PyObject *feeds, *fetches, *targets, *out = NULL;
    run r = {0};
    const char *handle = NULL;
    if (!PyArg_ParseTuple(args, "OOO", &feeds, &fetches, &targets) || !is_open(s))
        return NULL;
    bool ok = run_init(&r, feeds, fetches, targets) && take_rest(s->graph, &r, fetches, targets);
    for (int i = 0; ok && i < r.n_feeds; i++) {
        PyObject *o = item(feeds, i);
        ok = o && take_output(s->graph, o, &r.feeds[i]);
        Py_XDECREF(o);
    }
    TF_Status *st = ok ? py_status_new() : NULL;
    if (st)
        TF_SessionPRunSetup(s->session, r.feeds, r.n_feeds, r.fetches, r.n_fetches, (const TF_Operation *const *)r.targets,
                            r.n_targets, &handle, st);
    if (st && py_status_ok(st))
        out = PyUnicode_FromString(handle);
    TF_DeletePRunHandle(handle);
    run_deinit(&r);
    return out;
}

/* run_partial(handle, feeds, values, fetches, targets) */
static PyObject *session_partial_run(py_session *s, PyObject *args)
{
    PyObject *feeds, *values, *fetches, *targets, *out = NULL;
    const char *handle;
    run r = {0};
    TF_Status *st = NULL;
    if (!PyArg_ParseTuple(args, "sOOOO", &handle, &feeds, &values, &fetches, &targets) || !is_open(s))
        return NULL;
    py_release_arrays();
    if (run_init(&r, feeds, fetches, targets) && take_feeds(s->graph, &r, feeds, values) && take_rest(s->graph, &r, fetches, targets) &&
        (st = py_status_new())) {
        py_waits();
        Py_BEGIN_ALLOW_THREADS
        TF_SessionPRun(s->session, handle, r.feeds, r.values, r.n_feeds, r.fetches, r.results, r.n_fetches,
                       (const TF_Operation *const *)r.targets, r.n_targets, st);
        Py_END_ALLOW_THREADS
        py_waited();
        out = finish(&r, st, NULL);
    }
    run_deinit(&r);
    return out;
}

/* ---- life ---- */

/* Session(graph, target, ConfigProto) */
static PyObject *session_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    py_graph *g;
    const char *target, *config;
    Py_ssize_t n;
    if (!py_no_keywords(type, kwargs) || !PyArg_ParseTuple(args, "O!sy#", &py_graph_type, &g, &target, &config, &n))
        return NULL;
    TF_Status *st = py_status_new();
    if (!st)
        return NULL;
    TF_SessionOptions *o = TF_NewSessionOptions();
    TF_SetTarget(o, target);
    TF_SetConfig(o, config, (size_t)n, st);
    TF_Session *session = NULL;
    if (TF_GetCode(st) == TF_OK) {
        py_waits();
        Py_BEGIN_ALLOW_THREADS
        session = TF_NewSession(g->graph, o, st);
        Py_END_ALLOW_THREADS
        py_waited();
    }
    TF_DeleteSessionOptions(o);
    if (!py_status_ok(st))
        return NULL;
    py_session *s = (py_session *)type->tp_alloc(type, 0);
    if (!s)
        return NULL;
    s->session = session;
    s->graph = (py_graph *)Py_NewRef((PyObject *)g);
    return (PyObject *)s;
}

static void close_and_delete(TF_Session *session)
{
    if (!session || py_calls_under_way()) /* then the end of the process closes it */
        return;
    TF_Status *st = TF_NewStatus();
    Py_BEGIN_ALLOW_THREADS
    TF_CloseSession(session, st);
    TF_DeleteSession(session, st);
    Py_END_ALLOW_THREADS
    TF_DeleteStatus(st);
}

/* Runs of other threads end with an error; the session is deleted with the object, since they may still be in it. */
static PyObject *session_close(py_session *s, PyObject *unused)
{
    (void)unused;
    if (!s->session)
        Py_RETURN_NONE;
    s->closed = true;
    TF_Status *st = py_status_new();
    if (!st)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    TF_CloseSession(s->session, st);
    Py_END_ALLOW_THREADS
    return py_status_ok(st) ? Py_NewRef(Py_None) : NULL;
}

/* A graph may hold on to a session of its own; its dict breaks that circle. */
static int session_traverse(py_session *s, visitproc visit, void *arg)
{
    Py_VISIT(s->graph);
    return 0;
}

static void session_free(py_session *s)
{
    PyObject_GC_UnTrack(s);
    close_and_delete(s->session);
    Py_CLEAR(s->graph);
    py_release_arrays();
    Py_TYPE(s)->tp_free(s);
}

/* [(name, type, memory, incarnation)] */
static PyObject *session_devices(py_session *s, PyObject *unused)
{
    (void)unused;
    TF_Status *st = is_open(s) ? py_status_new() : NULL;
    if (!st)
        return NULL;
    TF_DeviceList *d = NULL;
    Py_BEGIN_ALLOW_THREADS
    d = TF_SessionListDevices(s->session, st);
    Py_END_ALLOW_THREADS
    PyObject *list = d ? PyList_New(0) : NULL;
    for (int i = 0; list && i < TF_DeviceListCount(d); i++) {
        PyObject *o = Py_BuildValue("ssLK", TF_DeviceListName(d, i, st), TF_DeviceListType(d, i, st),
                                    (long long)TF_DeviceListMemoryBytes(d, i, st),
                                    (unsigned long long)TF_DeviceListIncarnation(d, i, st));
        if (!o || PyList_Append(list, o) < 0)
            Py_CLEAR(list);
        Py_XDECREF(o);
    }
    TF_DeleteDeviceList(d);
    return py_status_ok(st) ? list : (Py_XDECREF(list), NULL);
}

static PyMethodDef session_methods[] = {
    {"run", (PyCFunction)(void (*)(void))session_run, METH_FASTCALL,
     "run(feeds, values, fetches, targets, options=None, metadata=False)"},
    {"prepare_partial", (PyCFunction)session_partial_setup, METH_VARARGS, "prepare_partial(feeds, fetches, targets): a handle"},
    {"run_partial", (PyCFunction)session_partial_run, METH_VARARGS, "run_partial(handle, feeds, values, fetches, targets)"},
    {"close", (PyCFunction)session_close, METH_NOARGS, "Ends what runs and refuses new runs."},
    {"devices", (PyCFunction)session_devices, METH_NOARGS, "[(name, type, memory, incarnation)]"},
    {0}};
PyTypeObject py_session_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_millrace.Session",
                                .tp_basicsize = sizeof(py_session),
                                .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                                .tp_new = session_new,
                                .tp_dealloc = (destructor)session_free,
                                .tp_traverse = (traverseproc)session_traverse,
                                .tp_methods = session_methods};
