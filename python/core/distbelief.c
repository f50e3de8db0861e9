/* distbelief.c -- Downpour, Sandblaster and SandblasterReplica (millrace/distbelief.h).
 *
 * Variables come as a list of tuples, which millrace/distbelief.py puts together:
 *
 *     (variable, trainable, gradient or None, indices or None, dense shape or None)
 *
 * The package has differentiated the loss already, with the gradients of Python functions among it.
 *
 * Whatever was started with a session and a client of the parameter server holds both until it is closed, so neither can go
 * away under it.  One thread at a time is in an object: `busy`, which the interpreter's lock guards. */
#include "core.h"

#include <math.h>

#include "millrace/distbelief.h"
#include "waiting.h"

/* ---- models ---- */

static bool take_output(const py_graph *g, PyObject *o, TF_Output *out)
{
    *out = (TF_Output){NULL, 0};
    if (o == Py_None)
        return true;
    return py_output_of(o, out) && py_in_graph(g, ((py_output *)o)->op);
}

static bool adopt(mr_model *m, const py_graph *g, PyObject *tuple)
{
    PyObject *variable, *gradient, *indices, *shape;
    TF_Output v;
    int trainable;
    mr_adopt_options o = {.struct_size = sizeof o, .differentiated = 1};
    if (!py_is_tuple(tuple) || !PyArg_ParseTuple(tuple, "O!pOOO", &py_output_type, &variable, &trainable, &gradient, &indices, &shape))
        return false;
    o.fixed = !trainable;
    bool ok = take_output(g, variable, &v) && take_output(g, gradient, &o.gradient) && take_output(g, indices, &o.indices) &&
              take_output(g, shape, &o.dense_shape);
    if (ok)
        mr_model_adopt(m, v, &o);
    return ok;
}

/* The model's first error as an exception. */
static bool model_ok(const mr_model *m)
{
    TF_Status *st = py_status_new();
    if (!st)
        return false;
    mr_model_status(m, st);
    return py_status_ok(st);
}

static mr_model *model_of(const py_graph *g, PyObject *variables)
{
    PyObject *items = py_items(variables, "Variables are a sequence of tuples");
    mr_model *m = items ? mr_model_new(g->graph) : NULL;
    bool ok = m;
    for (Py_ssize_t i = 0; ok && i < PyTuple_GET_SIZE(items); i++)
        ok = adopt(m, g, PyTuple_GET_ITEM(items, i));
    Py_XDECREF(items);
    if (m && (!ok || !model_ok(m))) {
        mr_model_free(m);
        m = NULL;
    }
    return m;
}

/* ---- Downpour ---- */

typedef struct py_downpour {
    PyObject_HEAD
    mr_downpour *d;
    mr_model *m;
    py_graph *graph;
    PyObject *session, *ps; /* what it was started with last, or NULL */
    bool busy, running;     /* running: from start to finish, when the library keeps to what it has */
} py_downpour;

static bool enter(bool open, bool *busy)
{
    if (open && !*busy)
        return *busy = true;
    PyErr_SetString(PyExc_RuntimeError, open ? "Another thread is using it" : "It is closed");
    return false;
}

/* Downpour(graph, variables, loss, name=, ...) */
static PyObject *downpour_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"graph", "variables", "loss", "name", "replica", "n_fetch", "n_push", "most_behind", "warm_steps",
                            "patience_ms", "update", "rate", "a", "b", "epsilon", "local_rate", "deadline_ms", NULL};
    mr_downpour_options o = {.struct_size = sizeof o};
    PyObject *variables, *loss;
    py_graph *g;
    TF_Output out;
    long long fetch = 0, push = 0, behind = 0, warm = 0, patience = 0, deadline = 0;
    int update = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!OO!|$ziLLLLLifffffL", names, &py_graph_type, &g, &variables, &py_output_type, &loss,
                                     &o.name, &o.replica, &fetch, &push, &behind, &warm, &patience, &update, &o.rate, &o.a, &o.b,
                                     &o.epsilon, &o.local_rate, &deadline))
        return NULL;
    o.n_fetch = fetch, o.n_push = push, o.most_behind = behind, o.warm_steps = warm;
    o.patience_ms = patience, o.deadline_ms = deadline, o.update = (mr_ps_update)update;
    mr_model *m = take_output(g, loss, &out) ? model_of(g, variables) : NULL;
    py_downpour *self = m ? (py_downpour *)type->tp_alloc(type, 0) : NULL;
    if (!self) {
        mr_model_free(m);
        return NULL;
    }
    self->m = m;
    self->graph = (py_graph *)Py_NewRef((PyObject *)g);
    self->d = mr_downpour_new(m, out, &o);
    if (!self->d && model_ok(m))
        PyErr_NoMemory();
    if (!self->d)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void let_go(PyObject **session, PyObject **ps)
{
    if (*ps)
        py_ps_release(*ps);
    Py_CLEAR(*ps);
    Py_CLEAR(*session);
}

/* Waits for what is under way. */
static void downpour_end(py_downpour *s)
{
    mr_downpour *d = s->d;
    s->d = NULL;
    Py_BEGIN_ALLOW_THREADS
    mr_downpour_free(d);
    Py_END_ALLOW_THREADS
    let_go(&s->session, &s->ps);
}

static void downpour_free(py_downpour *s)
{
    downpour_end(s);
    mr_model_free(s->m);
    Py_XDECREF((PyObject *)s->graph);
    Py_TYPE(s)->tp_free(s);
}

static PyObject *downpour_close(py_downpour *s, PyObject *unused)
{
    (void)unused;
    if (s->d) {
        if (!enter(true, &s->busy))
            return NULL;
        downpour_end(s);
        s->busy = false;
    }
    return Py_NewRef(Py_None);
}

static PyObject *start_with(py_downpour *s, PyObject *session, PyObject *ps)
{
    TF_Session *with = py_session_of(session, s->graph);
    TF_Status *st = with ? py_status_new() : NULL;
    mr_ps *client = st ? py_ps_hold(ps) : NULL;
    if (!client) {
        TF_DeleteStatus(st);
        return NULL;
    }
    py_waits();
    Py_BEGIN_ALLOW_THREADS
    mr_downpour_start(s->d, with, client, st);
    Py_END_ALLOW_THREADS
    py_waited();
    /* It is held even if that failed: the library knows them now. */
    let_go(&s->session, &s->ps);
    s->session = Py_NewRef(session);
    s->ps = Py_NewRef(ps);
    s->running = py_status_ok(st);
    return s->running ? Py_NewRef(Py_None) : NULL;
}

/* start(session, client) */
static PyObject *downpour_start(py_downpour *s, PyObject *args)
{
    PyObject *session, *ps, *out = NULL;
    if (!PyArg_ParseTuple(args, "OO", &session, &ps) || !enter(s->d, &s->busy))
        return NULL;
    if (s->running)
        PyErr_SetString(PyExc_RuntimeError, "It is training already");
    else
        out = start_with(s, session, ps);
    s->busy = false;
    return out;
}

static bool begin(py_downpour *s)
{
    if (!enter(s->d, &s->busy))
        return false;
    if (!s->session)
        PyErr_SetString(PyExc_RuntimeError, "It has not been started");
    return s->busy = s->session;
}

static void train(void *arg, const TF_Output *feeds, TF_Tensor *const *values, int n_feeds, const TF_Output *fetches, TF_Tensor **results,
                  int n_fetches, TF_Status *st)
{
    mr_downpour_train(arg, feeds, values, n_feeds, fetches, results, n_fetches, st);
}

/* train(feeds, values, fetches): a list of arrays */
static PyObject *downpour_train(py_downpour *s, PyObject *args)
{
    PyObject *feeds, *values, *fetches;
    if (!PyArg_ParseTuple(args, "OOO", &feeds, &values, &fetches) || !begin(s))
        return NULL;
    PyObject *out = py_run_by(s->session, feeds, values, fetches, train, s->d);
    s->busy = false;
    return out;
}

static PyObject *call(py_downpour *s, void (*fn)(mr_downpour *d, TF_Status *st))
{
    TF_Status *st = begin(s) ? py_status_new() : NULL;
    if (st) {
        py_waits();
        Py_BEGIN_ALLOW_THREADS
        fn(s->d, st);
        Py_END_ALLOW_THREADS
        py_waited();
        s->busy = false;
    }
    return st && py_status_ok(st) ? Py_NewRef(Py_None) : NULL;
}

static PyObject *downpour_finish(py_downpour *s, PyObject *unused)
{
    (void)unused;
    PyObject *out = call(s, mr_downpour_finish);
    s->running = s->running && s->busy; /* busy: another thread is in it, and this call was refused */
    return out;
}

static PyObject *downpour_fetch(py_downpour *s, PyObject *unused)
{
    (void)unused;
    return call(s, mr_downpour_fetch);
}

static PyObject *downpour_stats(py_downpour *s, PyObject *unused)
{
    (void)unused;
    mr_downpour_stats x = {.struct_size = sizeof x};
    if (!enter(s->d, &s->busy))
        return NULL;
    mr_downpour_get_stats(s->d, &x);
    s->busy = false;
    return Py_BuildValue("{sLsLsLsLsdsdsdsO}", "steps", (long long)x.steps, "fetches", (long long)x.fetches, "pushes",
                         (long long)x.pushes, "steps_of_all", (long long)x.steps_of_all, "waited_s", x.waited_s, "longest_wait_s",
                         x.longest_wait_s, "longest_step_s", x.longest_step_s, "gave_values", x.gave_values ? Py_True : Py_False);
}

static PyMethodDef downpour_methods[] = {
    {"start", (PyCFunction)downpour_start, METH_VARARGS, "start(session, client)"},
    {"train", (PyCFunction)downpour_train, METH_VARARGS, "train(feeds, values, fetches): a list of arrays"},
    {"finish", (PyCFunction)downpour_finish, METH_NOARGS, "Pushes what is left, and waits until the servers have it."},
    {"fetch", (PyCFunction)downpour_fetch, METH_NOARGS, "The session's variables become what the servers have."},
    {"stats", (PyCFunction)downpour_stats, METH_NOARGS, "What happened so far."},
    {"close", (PyCFunction)downpour_close, METH_NOARGS, "Lets go of the session and the client."},
    {0}};
PyTypeObject py_downpour_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_millrace.Downpour",
                                 .tp_basicsize = sizeof(py_downpour),
                                 .tp_flags = Py_TPFLAGS_DEFAULT,
                                 .tp_new = downpour_new,
                                 .tp_dealloc = (destructor)downpour_free,
                                 .tp_methods = downpour_methods};

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
        if (!enter(true, &s->busy))
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
    if (!callback_init(&c, function, true) || !enter(s->s, &s->busy))
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
    if (!enter(s->s, &s->busy))
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
    bool ok = take_output(g, loss, &out) && py_outputs(inputs, &in, &n);
    mr_model *m = ok ? model_of(g, variables) : NULL;
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
    if (!self->r && model_ok(m))
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
        PyErr_Format(PyExc_ValueError, "A portion has %zd arrays for %d inputs", PyTuple_GET_SIZE(items), s->n_inputs);
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
        !callback_init(&k.portion, function, false) || !enter(s->r, &s->busy))
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
    if (!PyArg_ParseTuple(args, "OOz", &session, &ps, &name) || !enter(s->r, &s->busy))
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
