/* cluster.c -- ClusterTask: this process as a task of a cluster; Training: a worker that trains with the others (millrace/cluster.h).
 *
 * A Training is made in two halves, for its update is made by an optimizer of the package: the first gives the gradients that it is
 * to be made from, `complete` takes it.  Both are those of a barrier, of all-reduce too.  Calls that wait do so in a
 * thread of their own, and Ctrl-C cancels the training.
 *
 * A training holds its task, which is not closed before.  One thread at a time is in an object: `busy`, which the interpreter's lock
 * guards; only cancel comes from anywhere. */
#include "core.h"

#include <sched.h>

#include "millrace/cluster.h"
#include "model.h"
#include "waiting.h"

/* ---- tasks ---- */

typedef struct py_task {
    PyObject_HEAD
    mr_cluster_task *t;
    int n_held; /* by trainings */
    bool busy;
} py_task;

/* ClusterTask(ps_hosts or None, worker_hosts or None, job or None, index) */
static PyObject *task_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    mr_cluster_options o = {.struct_size = sizeof o};
    if (!py_no_keywords(type, kwargs) || !PyArg_ParseTuple(args, "zzzi", &o.ps_hosts, &o.worker_hosts, &o.job, &o.index))
        return NULL;
    TF_Status *st = py_status_new();
    mr_cluster_task *t = NULL;
    if (!st)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    t = mr_cluster_task_new(&o, st);
    Py_END_ALLOW_THREADS
    py_task *s = py_status_ok(st) ? (py_task *)type->tp_alloc(type, 0) : NULL;
    if (s)
        s->t = t;
    else
        mr_cluster_task_free(t);
    return (PyObject *)s;
}

static void task_end(py_task *s)
{
    mr_cluster_task *t = s->t;
    s->t = NULL;
    Py_BEGIN_ALLOW_THREADS
    mr_cluster_task_free(t);
    Py_END_ALLOW_THREADS
}

static void task_free(py_task *s)
{
    task_end(s);
    Py_TYPE(s)->tp_free(s);
}

static PyObject *task_close(py_task *s, PyObject *unused)
{
    (void)unused;
    if (s->n_held > 0)
        return PyErr_Format(PyExc_RuntimeError, "The task is in use: close its training before the task");
    if (s->t) {
        if (!py_enter(true, &s->busy))
            return NULL;
        task_end(s);
        s->busy = false;
    }
    return Py_NewRef(Py_None);
}

static void run_serve(py_waiting *w) { mr_cluster_task_serve(w->arg, w->st); }

static void stop_serve(py_waiting *w)
{
    Py_BEGIN_ALLOW_THREADS
    mr_cluster_task_stop(w->arg);
    Py_END_ALLOW_THREADS
}

static PyObject *task_serve(py_task *s, PyObject *unused)
{
    (void)unused;
    if (!py_enter(s->t && s->n_held == 0, &s->busy))
        return NULL;
    bool ok = py_wait_for(&(py_waiting){.fn = run_serve, .stop = stop_serve, .arg = s->t});
    s->busy = false;
    return ok ? Py_NewRef(Py_None) : NULL;
}

static PyObject *task_target(py_task *s, void *unused) { return (void)unused, PyUnicode_FromString(mr_cluster_task_target(s->t)); }
static PyObject *task_worker(py_task *s, void *unused) { return (void)unused, PyLong_FromLong(mr_cluster_task_worker(s->t)); }
static PyObject *task_num_workers(py_task *s, void *unused) { return (void)unused, PyLong_FromLong(mr_cluster_task_num_workers(s->t)); }
static PyObject *task_num_ps(py_task *s, void *unused) { return (void)unused, PyLong_FromLong(mr_cluster_task_num_ps(s->t)); }

static PyMethodDef task_methods[] = {{"serve", (PyCFunction)task_serve, METH_NOARGS, "Serves until the process is ended."},
                                     {"close", (PyCFunction)task_close, METH_NOARGS, "Stops it."},
                                     {0}};
static PyGetSetDef task_getset[] = {{"target", (getter)task_target, NULL, "For sessions on it.", NULL},
                                    {"worker", (getter)task_worker, NULL, "Its number among the workers; -1: it is none.", NULL},
                                    {"num_workers", (getter)task_num_workers, NULL, "How many workers there are.", NULL},
                                    {"num_ps", (getter)task_num_ps, NULL, "How many parameter servers there are.", NULL},
                                    {0}};
PyTypeObject py_cluster_task_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_millrace.ClusterTask",
                                     .tp_basicsize = sizeof(py_task),
                                     .tp_flags = Py_TPFLAGS_DEFAULT,
                                     .tp_new = task_new,
                                     .tp_dealloc = (destructor)task_free,
                                     .tp_methods = task_methods,
                                     .tp_getset = task_getset};

/* ---- training: how it is made ---- */

typedef struct py_training {
    PyObject_HEAD
    py_graph *graph;
    py_task *task;
    mr_model *m;
    mr_barrier *barrier;
    mr_supervisor *s; /* NULL: its update is still to come, or it is closed */
    PyObject *gradients;
    bool busy;
    int n_cancelling; /* threads that do; it is not closed meanwhile */
} py_training;

/* [(gradient or None, indices or None, dense shape or None)...] */
static PyObject *wrap_gradients(py_graph *g, const mr_barrier_gradient *v, int n)
{
    PyObject *list = PyList_New(n);
    for (int i = 0; list && i < n; i++) {
        PyObject *a = py_wrap_output(g, v[i].gradient), *b = a ? py_wrap_output(g, v[i].indices) : NULL;
        PyObject *c = b ? py_wrap_output(g, v[i].dense_shape) : NULL, *all = c ? PyTuple_Pack(3, a, b, c) : NULL;
        Py_XDECREF(a);
        Py_XDECREF(b);
        Py_XDECREF(c);
        if (all)
            PyList_SET_ITEM(list, i, all);
        else
            Py_CLEAR(list);
    }
    return list;
}

static bool make_barrier(py_training *s, PyObject *variables, int n_trained, PyObject *loss, mr_barrier_options *o)
{
    TF_Output out;
    mr_barrier_gradient *g = n_trained >= 0 ? PyMem_Calloc((size_t)n_trained + 1, sizeof *g) : NULL;
    if (!g)
        return PyErr_NoMemory(), false;
    s->m = mr_model_new(s->graph->graph);
    mr_replicate_as(s->m, s->task->t, MR_BY_TURNS, o->synchrony);
    o->num_workers = mr_cluster_task_num_workers(s->task->t);
    o->worker = mr_cluster_task_worker(s->task->t);
    if (py_take_output(s->graph, loss, &out) && py_model_adopt(s->m, s->graph, variables)) {
        s->barrier = mr_barrier_begin(s->m, out, o, g, n_trained);
        s->gradients = s->barrier ? wrap_gradients(s->graph, g, n_trained) : NULL;
        if (!s->barrier && py_model_ok(s->m))
            PyErr_NoMemory();
    }
    PyMem_Free(g);
    return s->gradients;
}

/* Training(graph, task, variables, how many of them are trained, loss, synchrony, lease_ms, join_ms,
 *          settle_ms, exchange_ms, bucket_bytes, sparse_as_dense) */
static PyObject *training_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    mr_barrier_options o = {.struct_size = sizeof o};
    mr_all_reduce_options a = {.struct_size = sizeof a};
    PyObject *variables, *loss;
    py_graph *g;
    py_task *task;
    long long lease, join, settle, exchange, bucket;
    int n, dense;
    if (!py_no_keywords(type, kwargs) ||
        !PyArg_ParseTuple(args, "O!O!OiO!sLLLLLp", &py_graph_type, &g, &py_cluster_task_type, &task, &variables, &n, &py_output_type, &loss,
                          &o.synchrony, &lease, &join, &settle, &exchange, &bucket, &dense))
        return NULL;
    o.lease_ms = lease;
    o.join_ms = join;
    a.settle_ms = settle;
    a.exchange_ms = exchange;
    a.bucket_bytes = bucket;
    a.sparse_as_dense = (unsigned char)dense;
    o.all_reduce = settle || exchange || bucket || dense ? &a : NULL; /* with another synchrony they are refused */
    if (!task->t || task->busy)
        return PyErr_Format(PyExc_RuntimeError, "The task is closed or is serving");
    py_training *s = (py_training *)type->tp_alloc(type, 0);
    if (!s)
        return NULL;
    s->graph = (py_graph *)Py_NewRef((PyObject *)g);
    s->task = (py_task *)Py_NewRef((PyObject *)task);
    s->task->n_held++;
    if (!make_barrier(s, variables, n, loss, &o))
        Py_CLEAR(s);
    return (PyObject *)s;
}

static void training_end(py_training *s)
{
    mr_supervisor *ended = s->s;
    s->s = NULL;
    Py_BEGIN_ALLOW_THREADS
    mr_supervisor_free(ended);
    Py_END_ALLOW_THREADS
    mr_barrier_free(s->barrier);
    s->barrier = NULL;
    if (s->task)
        s->task->n_held--;
    Py_CLEAR(s->task);
}

static void training_free(py_training *s)
{
    training_end(s);
    mr_model_free(s->m);
    Py_XDECREF(s->gradients);
    Py_XDECREF((PyObject *)s->graph);
    Py_TYPE(s)->tp_free(s);
}

static PyObject *training_close(py_training *s, PyObject *unused)
{
    (void)unused;
    if (!py_enter(true, &s->busy))
        return NULL;
    while (s->n_cancelling > 0) {
        Py_BEGIN_ALLOW_THREADS
        sched_yield();
        Py_END_ALLOW_THREADS
    }
    training_end(s);
    s->busy = false;
    return Py_NewRef(Py_None);
}

static bool make_supervisor(py_training *s, PyObject *update, PyObject *variables, mr_supervisor_options *o)
{
    TF_Operation *op;
    if (!py_take_operation(s->graph, update, &op) || !py_model_adopt(s->m, s->graph, variables))
        return false;
    mr_barrier_complete(s->barrier, s->m, op);
    TF_Status *st = py_model_ok(s->m) ? py_status_new() : NULL;
    if (!st)
        return false;
    o->task = s->task->t;
    o->barrier = s->barrier;
    s->s = mr_supervisor_new(s->m, o, st);
    return py_status_ok(st);
}

/* complete(update, other variables, checkpoints or None, save_ms, max_to_keep, deadline_ms, chief_ms, chief_saves) */
static PyObject *training_complete(py_training *s, PyObject *args)
{
    mr_supervisor_options o = {.struct_size = sizeof o};
    PyObject *update, *variables;
    long long save, deadline, chief;
    int chief_saves;
    if (!PyArg_ParseTuple(args, "OOzLiLLp", &update, &variables, &o.checkpoints, &save, &o.max_to_keep, &deadline, &chief, &chief_saves))
        return NULL;
    o.save_ms = save;
    o.deadline_ms = deadline;
    o.chief_ms = chief;
    o.chief_saves = (unsigned char)chief_saves;
    if (!py_enter(s->barrier && !s->s, &s->busy))
        return NULL;
    bool ok = make_supervisor(s, update, variables, &o);
    s->busy = false;
    return ok ? Py_NewRef(Py_None) : NULL;
}

/* ---- training: at work ---- */

/* Runs that it ends may be in functions of Python. */
static void cancel(py_training *s)
{
    mr_supervisor *ending = s->s;
    s->n_cancelling++;
    Py_BEGIN_ALLOW_THREADS
    mr_supervisor_cancel(ending);
    Py_END_ALLOW_THREADS
    s->n_cancelling--;
}

static void stop(py_waiting *w) { cancel(w->arg); }
static void run_start(py_waiting *w) { mr_supervisor_start(((py_training *)w->arg)->s, w->st); }
static void run_finish(py_waiting *w) { w->result = mr_supervisor_finish(((py_training *)w->arg)->s, w->st); }
static void run_step(py_waiting *w) { w->result = mr_supervisor_step(((py_training *)w->arg)->s, w->st); }

static PyObject *call(py_training *s, void (*fn)(py_waiting *w))
{
    py_waiting w = {.fn = fn, .stop = stop, .arg = s};
    if (!py_enter(s->s, &s->busy))
        return NULL;
    bool ok = py_wait_for(&w);
    s->busy = false;
    return ok ? PyLong_FromLongLong(w.result) : NULL;
}

static PyObject *training_start(py_training *s, PyObject *unused) { return (void)unused, call(s, run_start); }
static PyObject *training_finish(py_training *s, PyObject *unused) { return (void)unused, call(s, run_finish); }
static PyObject *training_step(py_training *s, PyObject *unused) { return (void)unused, call(s, run_step); }

typedef struct a_run {
    py_training *s;
    bool train;
    int64_t step;
    const TF_Output *feeds, *fetches;
    TF_Tensor *const *values;
    TF_Tensor **results;
    int n_feeds, n_fetches;
} a_run;

static void run_it(py_waiting *w)
{
    a_run *r = w->arg;
    if (r->train)
        r->step = mr_supervisor_train(r->s->s, r->feeds, r->values, r->n_feeds, r->fetches, r->results, r->n_fetches, w->st);
    else
        mr_supervisor_run(r->s->s, r->feeds, r->values, r->n_feeds, r->fetches, r->results, r->n_fetches, NULL, 0, w->st);
}

static void stop_it(py_waiting *w) { cancel(((a_run *)w->arg)->s); }

/* Its errors are set as exceptions here. */
static void run_waiting(void *arg, const TF_Output *feeds, TF_Tensor *const *values, int n_feeds, const TF_Output *fetches,
                        TF_Tensor **results, int n_fetches, TF_Status *st)
{
    (void)st;
    a_run *r = arg;
    r->feeds = feeds, r->values = values, r->n_feeds = n_feeds;
    r->fetches = fetches, r->results = results, r->n_fetches = n_fetches;
    py_wait_for(&(py_waiting){.fn = run_it, .stop = stop_it, .arg = r});
}

static PyObject *run_by_supervisor(py_training *s, PyObject *args, a_run *r)
{
    PyObject *feeds, *values, *fetches;
    if (!PyArg_ParseTuple(args, "OOO", &feeds, &values, &fetches) || !py_enter(s->s, &s->busy))
        return NULL;
    PyObject *out = py_run_on(s->graph, feeds, values, fetches, run_waiting, r);
    s->busy = false;
    return out;
}

/* train(feeds, values, fetches): the global step and a list of arrays */
static PyObject *training_train(py_training *s, PyObject *args)
{
    a_run r = {.s = s, .train = true};
    PyObject *out = run_by_supervisor(s, args, &r);
    return out ? Py_BuildValue("LN", (long long)r.step, out) : NULL;
}

/* run(feeds, values, fetches): a list of arrays */
static PyObject *training_run(py_training *s, PyObject *args) { return run_by_supervisor(s, args, &(a_run){.s = s}); }

/* From any thread. */
static PyObject *training_cancel(py_training *s, PyObject *unused)
{
    (void)unused;
    cancel(s);
    return Py_NewRef(Py_None);
}

/* figures(worker): a dict, or None */
static PyObject *training_figures(py_training *s, PyObject *args)
{
    mr_worker_figures f = {.struct_size = sizeof f};
    int worker;
    if (!PyArg_ParseTuple(args, "i", &worker))
        return NULL;
    if (!mr_supervisor_figures(s->s, worker, &f))
        return Py_NewRef(Py_None);
    return Py_BuildValue("{sLsLsdsdsLsO}", "iterations", (long long)f.iterations, "late", (long long)f.late, "waited_s", f.waited_s,
                         "staleness", f.staleness, "staleness_max", (long long)f.staleness_max, "waited_for",
                         f.waited_for ? Py_True : Py_False);
}

static PyObject *training_is_chief(py_training *s, void *unused) { return (void)unused, PyBool_FromLong(mr_supervisor_is_chief(s->s)); }
static PyObject *training_losses(py_training *s, void *unused) { return (void)unused, PyLong_FromLong(mr_supervisor_losses(s->s)); }
/* How many workers are in the group of an all-reduce, and how often it was formed: a tuple; or None. */
static PyObject *training_group(py_training *s, void *unused)
{
    (void)unused;
    const mr_all_reduce *r = mr_barrier_all_reduce(s->barrier);
    return r ? Py_BuildValue("iL", mr_all_reduce_size(r), (long long)mr_all_reduce_generation(r)) : Py_NewRef(Py_None);
}

static PyObject *training_gradients(py_training *s, void *unused) { return (void)unused, Py_NewRef(s->gradients); }

static PyMethodDef training_methods[] = {
    {"complete", (PyCFunction)training_complete, METH_VARARGS,
     "complete(update, other variables, checkpoints or None, save_ms, max_to_keep, deadline_ms, chief_ms, chief_saves)"},
    {"start", (PyCFunction)training_start, METH_NOARGS, "Waits for the cluster."},
    {"train", (PyCFunction)training_train, METH_VARARGS, "train(feeds, values, fetches): the global step and a list of arrays"},
    {"run", (PyCFunction)training_run, METH_VARARGS, "run(feeds, values, fetches): a list of arrays"},
    {"step", (PyCFunction)training_step, METH_NOARGS, "The global step."},
    {"finish", (PyCFunction)training_finish, METH_NOARGS, "This worker is done; the global step."},
    {"figures", (PyCFunction)training_figures, METH_VARARGS, "figures(worker): a dict, or None"},
    {"cancel", (PyCFunction)training_cancel, METH_NOARGS, "Ends what another thread waits for."},
    {"close", (PyCFunction)training_close, METH_NOARGS, "Ends it."},
    {0}};
static PyGetSetDef training_getset[] = {{"is_chief", (getter)training_is_chief, NULL, "Whether this worker is the chief now.", NULL},
                                        {"losses", (getter)training_losses, NULL, "How often a session was lost.", NULL},
                                        {"group", (getter)training_group, NULL, "Of all-reduce: its size and generation, or None.", NULL},
                                        {"gradients", (getter)training_gradients, NULL, "What the update is to be made from.", NULL},
                                        {0}};
PyTypeObject py_training_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_millrace.Training",
                                 .tp_basicsize = sizeof(py_training),
                                 .tp_flags = Py_TPFLAGS_DEFAULT,
                                 .tp_new = training_new,
                                 .tp_dealloc = (destructor)training_free,
                                 .tp_methods = training_methods,
                                 .tp_getset = training_getset};
