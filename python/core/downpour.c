/* downpour.c -- Downpour (millrace/distbelief.h): a replica that pushes and fetches as it goes.
 *
 * Whatever was started with a session and a client of the parameter server holds both until it is closed, so neither can go
 * away under it. */
#include "model.h"

typedef struct py_downpour {
    PyObject_HEAD
    mr_downpour *d;
    mr_model *m;
    py_graph *graph;
    PyObject *session, *ps; /* what it was started with last, or NULL */
    bool busy, running;     /* running: from start to finish, when the library keeps to what it has */
} py_downpour;

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
    mr_model *m = py_take_output(g, loss, &out) ? py_model_of(g, variables) : NULL;
    py_downpour *self = m ? (py_downpour *)type->tp_alloc(type, 0) : NULL;
    if (!self) {
        mr_model_free(m);
        return NULL;
    }
    self->m = m;
    self->graph = (py_graph *)Py_NewRef((PyObject *)g);
    self->d = mr_downpour_new(m, out, &o);
    if (!self->d && py_model_ok(m))
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
        if (!py_enter(true, &s->busy))
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
    if (!PyArg_ParseTuple(args, "OO", &session, &ps) || !py_enter(s->d, &s->busy))
        return NULL;
    if (s->running)
        PyErr_SetString(PyExc_RuntimeError, "Training has already started");
    else
        out = start_with(s, session, ps);
    s->busy = false;
    return out;
}

static bool begin(py_downpour *s)
{
    if (!py_enter(s->d, &s->busy))
        return false;
    if (!s->session)
        PyErr_SetString(PyExc_RuntimeError, "Training has not been started");
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
    if (!py_enter(s->d, &s->busy))
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
