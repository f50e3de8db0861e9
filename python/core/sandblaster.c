/* sandblaster.c -- Sandblaster and SandblasterReplica (millrace/distbelief.h): L-BFGS with a coordinator.
 *
 * The coordinator holds its client of the parameter server until it is closed; a replica holds a session and a client while
 * work() runs.  An exception of a function of Python is kept, ends the call, and is what its caller sees. */
#include "model.h"

#include <math.h>

#include "waiting.h"

/* ---- functions of Python that the library calls ---- */

typedef struct callback {
    PyObject *function;
    PyObject *type, *value, *trace; /* what it raised first */
} callback;

static void keep_exception(callback *c)
{
    if (c->type)
        PyErr_Clear();
    else
        PyErr_Fetch(&c->type, &c->value, &c->trace);
}

/* Whether the call may be said to have been good: an exception of the function is what the caller sees. */
static bool callback_ok(callback *c, bool ok)
{
    if (c->type && (ok || !PyErr_ExceptionMatches(PyExc_KeyboardInterrupt))) {
        PyErr_Restore(c->type, c->value, c->trace);
        return false;
    }
    Py_XDECREF(c->type);
    Py_XDECREF(c->value);
    Py_XDECREF(c->trace);
    return ok;
}

static bool callback_init(callback *c, PyObject *function, bool may_be_none)
{
    *c = (callback){.function = function};
    if (PyCallable_Check(function) || (may_be_none && function == Py_None))
        return true;
    PyErr_Format(PyExc_TypeError, "A function is expected, not %R", function);
    return false;
}

/* ---- Sandblaster: the coordinator ---- */

typedef struct py_sandblaster {
    PyObject_HEAD
    mr_sandblaster *s;
    PyObject *ps;
    callback *report; /* of the thread that minimises, or NULL */
    bool busy;
} py_sandblaster;

/* From the thread that minimises. */
static void report(void *arg, int64_t iteration, double loss, double norm)
{
    py_sandblaster *s = arg;
    callback *c = s->report;
    if (!c || c->function == Py_None || !py_call_begins())
        return;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *out = PyObject_CallFunction(c->function, "Ldd", (long long)iteration, loss, norm);
    if (!out) {
        keep_exception(c);
        mr_sandblaster_cancel(s->s);
    }
    Py_XDECREF(out);
    PyGILState_Release(state);
    py_call_ended();
}

/* Sandblaster(client, name=, address=, ...) */
static PyObject *sandblaster_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"client", "name", "address", "portions", "history", "iterations", "gradient_norm", "least_gain", "l2",
                            "patience_ms", "deadline_ms", NULL};
    mr_sandblaster_options o = {.struct_size = sizeof o, .report = report};
    PyObject *ps;
    long long iterations = 0, patience = 0, deadline = 0;
    mr_sandblaster *made;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$zziiLdddLL", names, &ps, &o.name, &o.address, &o.portions, &o.history, &iterations,
                                     &o.gradient_norm, &o.least_gain, &o.l2, &patience, &deadline))
        return NULL;
    o.iterations = iterations, o.patience_ms = patience, o.deadline_ms = deadline;
    TF_Status *st = py_status_new();
    mr_ps *client = st ? py_ps_hold(ps) : NULL;
    py_sandblaster *self = client ? (py_sandblaster *)type->tp_alloc(type, 0) : NULL;
    if (!self) {
        TF_DeleteStatus(st);
        if (client)
            py_ps_release(ps);
        return NULL;
    }
    self->ps = Py_NewRef(ps);
    o.arg = self;
    Py_BEGIN_ALLOW_THREADS
    made = mr_sandblaster_start(&o, client, st);
    Py_END_ALLOW_THREADS
    self->s = made;
    if (!py_status_ok(st))
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void sandblaster_end(py_sandblaster *s)
{
    mr_sandblaster *ended = s->s;
    s->s = NULL;
    Py_BEGIN_ALLOW_THREADS
    mr_sandblaster_free(ended);
    Py_END_ALLOW_THREADS
    if (s->ps)
        py_ps_release(s->ps);
    Py_CLEAR(s->ps);
}

static void sandblaster_free(py_sandblaster *s)
{
    sandblaster_end(s);
    Py_TYPE(s)->tp_free(s);
}

static PyObject *sandblaster_close(py_sandblaster *s, PyObject *unused)
{
    (void)unused;
    if (s->s) {
        if (!py_enter(true, &s->busy))
            return NULL;
        sandblaster_end(s);
        s->busy = false;
    }
    return Py_NewRef(Py_None);
}

typedef struct minimum {
    mr_sandblaster *s;
    double loss;
} minimum;

static void run_minimize(py_waiting *w) { ((minimum *)w->arg)->loss = mr_sandblaster_minimize(((minimum *)w->arg)->s, w->st); }
static void stop_minimize(py_waiting *w) { mr_sandblaster_cancel(((minimum *)w->arg)->s); }

/* minimize(report or None): the loss */
static PyObject *sandblaster_minimize(py_sandblaster *s, PyObject *function)
{
    callback c;
    if (!callback_init(&c, function, true) || !py_enter(s->s, &s->busy))
        return NULL;
    minimum m = {s->s, NAN};
    s->report = &c;
    bool ok = py_wait_for(&(py_waiting){.fn = run_minimize, .stop = stop_minimize, .arg = &m});
    s->report = NULL;
    s->busy = false;
    return callback_ok(&c, ok) ? PyFloat_FromDouble(m.loss) : NULL;
}

static PyObject *sandblaster_cancel(py_sandblaster *s, PyObject *unused)
{
    (void)unused;
    mr_sandblaster_cancel(s->s);
    return Py_NewRef(Py_None);
}

static PyObject *sandblaster_stats(py_sandblaster *s, PyObject *unused)
{
    (void)unused;
    mr_sandblaster_stats x = {.struct_size = sizeof x};
    if (!py_enter(s->s, &s->busy))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    mr_sandblaster_get_stats(s->s, &x);
    Py_END_ALLOW_THREADS
    s->busy = false;
    return Py_BuildValue("{sLsLsLsLsLsLsLsLsd}", "iterations", (long long)x.iterations, "evaluations", (long long)x.evaluations, "joined",
                         (long long)x.joined, "lost", (long long)x.lost, "given_twice", (long long)x.given_twice, "dropped",
                         (long long)x.dropped, "bytes_sent", (long long)x.bytes_sent, "bytes_received", (long long)x.bytes_received,
                         "gradient_norm", x.gradient_norm);
}

static PyObject *sandblaster_address(py_sandblaster *s, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(mr_sandblaster_address(s->s));
}

static PyMethodDef sandblaster_methods[] = {
    {"minimize", (PyCFunction)sandblaster_minimize, METH_O, "minimize(report or None): the loss"},
    {"cancel", (PyCFunction)sandblaster_cancel, METH_NOARGS, "Ends a minimize of another thread."},
    {"stats", (PyCFunction)sandblaster_stats, METH_NOARGS, "What happened so far."},
    {"close", (PyCFunction)sandblaster_close, METH_NOARGS, "Lets the replicas go."},
    {0}};
static PyGetSetDef sandblaster_getset[] = {{"address", (getter)sandblaster_address, NULL, "Where replicas reach it.", NULL}, {0}};
PyTypeObject py_sandblaster_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_millrace.Sandblaster",
                                    .tp_basicsize = sizeof(py_sandblaster),
                                    .tp_flags = Py_TPFLAGS_DEFAULT,
                                    .tp_new = sandblaster_new,
                                    .tp_dealloc = (destructor)sandblaster_free,
                                    .tp_methods = sandblaster_methods,
                                    .tp_getset = sandblaster_getset};

/* ---- Sandblaster: a replica ---- */

typedef struct py_replica {
    PyObject_HEAD
    mr_sandblaster_replica *r;
    mr_model *m;
    py_graph *graph;
    TF_Output *inputs;
    int n_inputs;
    bool busy;
} py_replica;

/* SandblasterReplica(graph, variables, loss, inputs) */
static PyObject *replica_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *variables, *loss, *inputs;
    py_graph *g;
    TF_Output out, *in = NULL;
    int n = 0;
    if (!py_no_keywords(type, kwargs) ||
        !PyArg_ParseTuple(args, "O!OO!O", &py_graph_type, &g, &variables, &py_output_type, &loss, &inputs))
        return NULL;
    bool ok = py_take_output(g, loss, &out) && py_outputs(inputs, &in, &n);
    mr_model *m = ok ? py_model_of(g, variables) : NULL;
    py_replica *self = m ? (py_replica *)type->tp_alloc(type, 0) : NULL;
    if (!self) {
        mr_model_free(m);
        PyMem_Free(in);
        return NULL;
    }
    self->m = m;
    self->inputs = in;
    self->n_inputs = n;
    self->graph = (py_graph *)Py_NewRef((PyObject *)g);
    self->r = mr_sandblaster_replica_new(m, out, in, n);
    if (!self->r && py_model_ok(m))
        PyErr_NoMemory();
    if (!self->r)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void replica_free(py_replica *s)
{
    mr_sandblaster_replica_free(s->r);
    mr_model_free(s->m);
    PyMem_Free(s->inputs);
    Py_XDECREF((PyObject *)s->graph);
    Py_TYPE(s)->tp_free(s);
}

typedef struct work { /* one call of work() */
    py_replica *s;
    TF_Session *session;
    mr_ps *ps;
    mr_sandblaster_work w;
    callback portion;
} work;

/* What portion(i, n) returned: values for the inputs, and a weight or None. */
static bool take_portion(const py_replica *s, PyObject *pair, TF_Tensor **out, double *weight)
{
    PyObject *values, *w;
    if (!py_is_tuple(pair) || !PyArg_ParseTuple(pair, "OO;A portion is its values and its weight", &values, &w))
        return false;
    if (w != Py_None)
        *weight = PyFloat_AsDouble(w);
    PyObject *items = PyErr_Occurred() ? NULL : py_items(values, "The values of a portion are a sequence");
    bool ok = items;
    if (ok && PyTuple_GET_SIZE(items) != s->n_inputs) {
        PyErr_Format(PyExc_ValueError, "The portion has %zd arrays, but the model has %d inputs", PyTuple_GET_SIZE(items), s->n_inputs);
        ok = false;
    }
    for (int i = 0; ok && i < s->n_inputs; i++) {
        out[i] = py_tensor_from(PyTuple_GET_ITEM(items, i), (int)TF_OperationOutputType(s->inputs[i]) % 100);
        ok = out[i];
    }
    Py_XDECREF(items);
    return ok;
}

/* From the thread that works. */
static void portion(void *arg, int64_t i, int64_t n, TF_Tensor **values, double *weight, TF_Status *st)
{
    work *k = arg;
    if (!py_call_begins()) {
        TF_SetStatus(st, TF_CANCELLED, "The interpreter of Python is ending");
        return;
    }
    PyGILState_STATE state = PyGILState_Ensure();
    py_release_arrays();
    PyObject *pair = PyObject_CallFunction(k->portion.function, "LL", (long long)i, (long long)n);
    if (!pair || !take_portion(k->s, pair, values, weight)) {
        keep_exception(&k->portion);
        TF_SetStatus(st, TF_UNKNOWN, "The function that reads portions has raised an exception");
    }
    Py_XDECREF(pair);
    PyGILState_Release(state);
    py_call_ended();
}

static void run_work(py_waiting *w)
{
    work *k = w->arg;
    mr_sandblaster_replica_work(k->s->r, k->session, k->ps, &k->w, w->st);
}

static void stop_work(py_waiting *w) { mr_sandblaster_replica_cancel(((work *)w->arg)->s->r); }

static bool open_work(work *k, py_replica *s, PyObject *session, PyObject *ps)
{
    k->s = s;
    k->session = py_session_of(session, s->graph);
    k->ps = k->session ? py_ps_hold(ps) : NULL;
    return k->ps;
}

/* work(session, client, coordinator, portion, name or None, deadline_ms) */
static PyObject *replica_work(py_replica *s, PyObject *args)
{
    PyObject *session, *ps, *function;
    long long deadline;
    work k = {.w = {.struct_size = sizeof k.w, .portion = portion, .arg = &k}};
    if (!PyArg_ParseTuple(args, "OOsOzL", &session, &ps, &k.w.coordinator, &function, &k.w.name, &deadline) ||
        !callback_init(&k.portion, function, false) || !py_enter(s->r, &s->busy))
        return NULL;
    k.w.deadline_ms = deadline;
    bool opened = open_work(&k, s, session, ps);
    bool ok = opened && py_wait_for(&(py_waiting){.fn = run_work, .stop = stop_work, .arg = &k});
    s->busy = false;
    if (!opened)
        return NULL;
    py_ps_release(ps);
    return callback_ok(&k.portion, ok) ? Py_NewRef(Py_None) : NULL;
}

/* fetch(session, client, name or None) */
static PyObject *replica_fetch(py_replica *s, PyObject *args)
{
    PyObject *session, *ps;
    const char *name;
    work k = {.s = s};
    if (!PyArg_ParseTuple(args, "OOz", &session, &ps, &name) || !py_enter(s->r, &s->busy))
        return NULL;
    TF_Status *st = open_work(&k, s, session, ps) ? py_status_new() : NULL;
    if (st) {
        Py_BEGIN_ALLOW_THREADS
        mr_sandblaster_replica_fetch(s->r, k.session, k.ps, name, st);
        Py_END_ALLOW_THREADS
    }
    s->busy = false;
    if (k.ps)
        py_ps_release(ps);
    return st && py_status_ok(st) ? Py_NewRef(Py_None) : NULL;
}

static PyObject *replica_cancel(py_replica *s, PyObject *unused)
{
    (void)unused;
    mr_sandblaster_replica_cancel(s->r);
    return Py_NewRef(Py_None);
}

static PyMethodDef replica_methods[] = {
    {"work", (PyCFunction)replica_work, METH_VARARGS, "work(session, client, coordinator, portion, name or None, deadline_ms)"},
    {"fetch", (PyCFunction)replica_fetch, METH_VARARGS, "fetch(session, client, name or None)"},
    {"cancel", (PyCFunction)replica_cancel, METH_NOARGS, "Ends the work of another thread."},
    {0}};
PyTypeObject py_sandblaster_replica_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_millrace.SandblasterReplica",
                                            .tp_basicsize = sizeof(py_replica),
                                            .tp_flags = Py_TPFLAGS_DEFAULT,
                                            .tp_new = replica_new,
                                            .tp_dealloc = (destructor)replica_free,
                                            .tp_methods = replica_methods};
