/* federated.c -- Federated: federated averaging with clients here or elsewhere; federated_client: one of those elsewhere.
 *
 * What a client does comes as one tuple, which millrace/federated.py puts together:
 *
 *     (graph, [(value, feed, assign)...], init, reset or None, train, [inputs...], loss or None, rate or None)
 *
 * and examples as lists of arrays, one an input.  Arrays are kept as tensors, without a copy where numpy allows. */
#include "core.h"

#include "millrace/federated.h"
#include "waiting.h"

typedef struct work { /* a tuple taken apart */
    mr_federated_work w;
    py_graph *graph;
    mr_federated_parameter *parameters;
    TF_Output *inputs;
} work;

static bool output_or_none(PyObject *o, TF_Output *out)
{
    *out = (TF_Output){NULL, 0};
    return o == Py_None || py_output_of(o, out);
}

static bool operation_or_none(PyObject *o, TF_Operation **out)
{
    *out = NULL;
    if (o == Py_None)
        return true;
    if (!PyObject_TypeCheck(o, &py_operation_type)) {
        PyErr_Format(PyExc_TypeError, "An operation is expected, not %R", o);
        return false;
    }
    *out = ((py_operation *)o)->op;
    return true;
}

static bool take_parameter(PyObject *o, mr_federated_parameter *p)
{
    PyObject *value, *feed, *assign;
    return py_is_tuple(o) && PyArg_ParseTuple(o, "OOO", &value, &feed, &assign) && py_output_of(value, &p->value) &&
           py_output_of(feed, &p->feed) && operation_or_none(assign, &p->assign);
}

static bool take_parameters(PyObject *list, work *k)
{
    PyObject *items = py_items(list, "Parameters are a sequence");
    Py_ssize_t n = items ? PyTuple_GET_SIZE(items) : 0;
    bool ok = items && n < INT32_MAX / 64;
    k->parameters = ok ? PyMem_Calloc((size_t)n + 1, sizeof *k->parameters) : NULL;
    if (ok && !k->parameters)
        PyErr_NoMemory();
    ok = k->parameters;
    for (Py_ssize_t i = 0; ok && i < n; i++)
        ok = take_parameter(PyTuple_GET_ITEM(items, i), &k->parameters[i]);
    Py_XDECREF(items);
    k->w.parameters = k->parameters;
    k->w.num_parameters = (int)n;
    return ok;
}

static void work_deinit(work *k)
{
    PyMem_Free(k->parameters);
    PyMem_Free(k->inputs);
}

static bool work_init(work *k, PyObject *tuple)
{
    PyObject *graph, *parameters, *init, *reset, *train, *inputs, *loss, *rate;
    *k = (work){.w.struct_size = sizeof k->w};
    if (!py_is_tuple(tuple) ||
        !PyArg_ParseTuple(tuple, "O!OOOOOOO", &py_graph_type, &graph, &parameters, &init, &reset, &train, &inputs, &loss, &rate))
        return false;
    k->graph = (py_graph *)graph;
    k->w.graph = k->graph->graph;
    bool ok = take_parameters(parameters, k) && operation_or_none(init, &k->w.init) && operation_or_none(reset, &k->w.reset) &&
              operation_or_none(train, &k->w.train) && py_outputs(inputs, &k->inputs, &k->w.num_inputs) &&
              output_or_none(loss, &k->w.loss) && output_or_none(rate, &k->w.rate);
    k->w.inputs = k->inputs;
    return ok;
}

/* ---- examples ---- */

typedef struct examples {
    mr_federated_examples *e;
    int n, n_inputs;
} examples;

static void examples_deinit(examples *x)
{
    for (int i = 0; i < x->n; i++) {
        for (int k = 0; x->e[i].values && k < x->n_inputs; k++)
            TF_DeleteTensor(x->e[i].values[k]);
        PyMem_Free((void *)(uintptr_t)x->e[i].values);
    }
    PyMem_Free(x->e);
    *x = (examples){0};
}

static bool take_client(PyObject *arrays, const work *k, mr_federated_examples *out)
{
    PyObject *items = py_items(arrays, "The examples of a client are a sequence of arrays");
    if (!items)
        return false;
    bool ok = PyTuple_GET_SIZE(items) == k->w.num_inputs;
    if (!ok)
        PyErr_Format(PyExc_ValueError, "The client has %zd arrays, but the model has %d inputs", PyTuple_GET_SIZE(items), k->w.num_inputs);
    TF_Tensor **values = ok ? PyMem_Calloc((size_t)k->w.num_inputs + 1, sizeof *values) : NULL;
    if (ok && !values)
        PyErr_NoMemory();
    *out = (mr_federated_examples){sizeof *out, values, NULL, 0};
    ok = values;
    for (int i = 0; ok && i < k->w.num_inputs; i++) {
        values[i] = py_tensor_from(PyTuple_GET_ITEM(items, i), (int)TF_OperationOutputType(k->w.inputs[i]));
        ok = values[i];
    }
    Py_DECREF(items);
    return ok;
}

static bool examples_init(examples *x, PyObject *clients, const work *k)
{
    PyObject *items = py_items(clients, "Clients are a sequence");
    Py_ssize_t n = items ? PyTuple_GET_SIZE(items) : 0;
    *x = (examples){.n_inputs = k->w.num_inputs};
    bool ok = items && n < INT32_MAX / 64;
    x->e = ok ? PyMem_Calloc((size_t)n + 1, sizeof *x->e) : NULL;
    if (ok && !x->e)
        PyErr_NoMemory();
    ok = x->e;
    for (Py_ssize_t i = 0; ok && i < n; i++) {
        x->n = (int)i + 1;
        ok = take_client(PyTuple_GET_ITEM(items, i), k, &x->e[i]);
    }
    Py_XDECREF(items);
    return ok;
}

/* ---- Federated ---- */

typedef struct py_federated {
    PyObject_HEAD
    mr_federated *f;
    py_graph *graph; /* outlives the sessions */
    TF_Output *values;
    int n_values;
    bool busy; /* a thread makes a round: its lock is the interpreter's */
} py_federated;

static PyObject *make_federated(PyTypeObject *type, work *k, mr_federated_options *o)
{
    mr_federated *f;
    TF_Status *st = py_status_new();
    py_federated *self = st ? (py_federated *)type->tp_alloc(type, 0) : NULL;
    if (!self) {
        TF_DeleteStatus(st);
        return NULL;
    }
    self->values = PyMem_Calloc((size_t)k->w.num_parameters + 1, sizeof *self->values);
    for (int i = 0; self->values && i < k->w.num_parameters; i++)
        self->values[i] = k->parameters[i].value;
    self->n_values = k->w.num_parameters;
    self->graph = (py_graph *)Py_NewRef(k->graph);
    Py_BEGIN_ALLOW_THREADS
    f = self->values ? mr_federated_new(o, st) : NULL;
    Py_END_ALLOW_THREADS
    self->f = f;
    if (!py_status_ok(st))
        Py_CLEAR(self);
    else if (!f) {
        Py_CLEAR(self);
        PyErr_NoMemory();
    }
    return (PyObject *)self;
}

/* Federated(work, clients or None, fraction=, ...) */
static PyObject *federated_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"work", "clients", "fraction", "at_least", "over", "suffice", "deadline_ms", "most_tries", "seed", "epochs",
                            "batch", "rate", "server_rate", "server_momentum", "most_examples", "secure", "threshold", "clip", "threads",
                            "lose", "address", "most_clients", "wait_for", "wait_ms", NULL};
    PyObject *tuple, *clients, *made = NULL;
    int secure = 0;
    long long deadline = 0, most_examples = 0, wait = 0;
    unsigned long long seed = 0;
    work k = {.parameters = NULL};
    examples x = {0};
    mr_federated_options o = {.struct_size = sizeof o};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|$fiffLiKiifffLpffifziiL", names, &tuple, &clients, &o.fraction, &o.at_least, &o.over,
                                     &o.suffice, &deadline, &o.most_tries, &seed, &o.epochs, &o.batch, &o.rate, &o.server_rate,
                                     &o.server_momentum, &most_examples, &secure, &o.threshold, &o.clip, &o.threads, &o.lose, &o.address,
                                     &o.most_clients, &o.wait_for, &wait))
        return NULL;
    o.deadline_ms = deadline;
    o.most_examples = most_examples;
    o.wait_ms = wait;
    o.seed = seed;
    o.secure = (unsigned char)secure;
    o.work = &k.w;
    if (work_init(&k, tuple) && (clients == Py_None || examples_init(&x, clients, &k))) {
        o.clients = x.e;
        o.num_clients = x.n;
        made = make_federated(type, &k, &o);
    }
    examples_deinit(&x);
    work_deinit(&k);
    return made;
}

static void federated_free(py_federated *s)
{
    Py_BEGIN_ALLOW_THREADS
    mr_federated_free(s->f);
    Py_END_ALLOW_THREADS
    PyMem_Free(s->values);
    Py_XDECREF(s->graph);
    Py_TYPE(s)->tp_free(s);
}

static mr_federated_report *report_of(py_waiting *w) { return (mr_federated_report *)(((void **)w->arg)[1]); }
static void run_round(py_waiting *w) { mr_federated_round(((void **)w->arg)[0], report_of(w), w->st); }
static void stop_round(py_waiting *w) { mr_federated_stop(((void **)w->arg)[0]); }

static bool begin(py_federated *s)
{
    if (s->f && !s->busy)
        return s->busy = true;
    PyErr_SetString(PyExc_RuntimeError, s->f ? "Another thread is running a round" : "It is closed");
    return false;
}

/* (round, tries, asked, updates, there, examples, loss, seconds) */
static PyObject *federated_round(py_federated *s, PyObject *unused)
{
    (void)unused;
    mr_federated_report r = {.struct_size = sizeof r};
    if (!begin(s))
        return NULL;
    Py_INCREF(s);
    bool ok = py_wait_for(&(py_waiting){.fn = run_round, .stop = stop_round, .arg = (void *[]){s->f, &r}});
    s->busy = false;
    Py_DECREF(s);
    if (!ok)
        return NULL;
    return Py_BuildValue("LiiiiLdd", (long long)r.round, r.tries, r.asked, r.updates, r.there, (long long)r.examples, r.loss, r.seconds);
}

/* The averaged model: a list of arrays. */
static PyObject *federated_weights(py_federated *s, PyObject *unused)
{
    (void)unused;
    if (!begin(s))
        return NULL;
    TF_Status *st = py_status_new();
    TF_Tensor **out = PyMem_Calloc((size_t)s->n_values + 1, sizeof *out);
    bool ok = st && out;
    if (ok) {
        Py_BEGIN_ALLOW_THREADS
        TF_SessionRun(mr_federated_session(s->f), NULL, NULL, NULL, 0, s->values, out, s->n_values, NULL, 0, NULL, st);
        Py_END_ALLOW_THREADS
        ok = py_status_ok(st);
    } else {
        TF_DeleteStatus(st);
        PyErr_NoMemory();
    }
    s->busy = false;
    PyObject *list = ok ? PyList_New(s->n_values) : NULL;
    for (int i = 0; out && i < s->n_values; i++) {
        PyObject *a = list ? py_array_from(out[i]) : NULL;
        if (!list)
            TF_DeleteTensor(out[i]);
        else if (a)
            PyList_SET_ITEM(list, i, a);
        else
            Py_CLEAR(list);
    }
    PyMem_Free(out);
    return list;
}

static PyObject *federated_set_rate(py_federated *s, PyObject *rate)
{
    double v = PyFloat_AsDouble(rate);
    if (PyErr_Occurred())
        return NULL;
    mr_federated_set_rate(s->f, (float)v);
    return Py_NewRef(Py_None);
}

static PyObject *federated_stop(py_federated *s, PyObject *unused)
{
    (void)unused;
    mr_federated_stop(s->f);
    return Py_NewRef(Py_None);
}

static PyObject *federated_close(py_federated *s, PyObject *unused)
{
    (void)unused;
    if (s->f && !begin(s))
        return NULL;
    mr_federated *f = s->f;
    s->f = NULL;
    s->busy = false;
    Py_BEGIN_ALLOW_THREADS
    mr_federated_free(f);
    Py_END_ALLOW_THREADS
    return Py_NewRef(Py_None);
}

static PyObject *federated_address(py_federated *s, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(mr_federated_address(s->f));
}

static PyMethodDef federated_methods[] = {
    {"round", (PyCFunction)federated_round, METH_NOARGS, "Makes a round."},
    {"weights", (PyCFunction)federated_weights, METH_NOARGS, "The averaged model, an array a parameter."},
    {"set_rate", (PyCFunction)federated_set_rate, METH_O, "The clients' learning rate."},
    {"stop", (PyCFunction)federated_stop, METH_NOARGS, "Ends a round of another thread."},
    {"close", (PyCFunction)federated_close, METH_NOARGS, "Tells clients that it is over."},
    {0}};
static PyGetSetDef federated_getset[] = {{"address", (getter)federated_address, NULL, "Where clients reach it.", NULL}, {0}};
PyTypeObject py_federated_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_millrace.Federated",
                                  .tp_basicsize = sizeof(py_federated),
                                  .tp_flags = Py_TPFLAGS_DEFAULT,
                                  .tp_new = federated_new,
                                  .tp_dealloc = (destructor)federated_free,
                                  .tp_methods = federated_methods,
                                  .tp_getset = federated_getset};

/* ---- a client ---- */

static void run_client(py_waiting *w) { w->result = mr_federated_client(w->arg, w->st); }
static void stop_client(py_waiting *w) { __atomic_store_n(&w->stopped, 1, __ATOMIC_RELAXED); }

/* federated_client(work, arrays, address, deadline_ms, secure): how many updates it has sent */
static PyObject *federated_client(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *tuple, *arrays, *result = NULL;
    long long deadline;
    int secure;
    const char *address;
    work k = {.parameters = NULL};
    examples x = {0};
    if (!PyArg_ParseTuple(args, "OOsLp", &tuple, &arrays, &address, &deadline, &secure))
        return NULL;
    PyObject *one = PyTuple_Pack(1, arrays);
    if (one && work_init(&k, tuple) && examples_init(&x, one, &k)) {
        py_waiting w = {.fn = run_client, .stop = stop_client};
        mr_federated_client_options o = {sizeof o, &k.w, x.e, address, deadline, (unsigned char)secure, &w.stopped};
        w.arg = &o;
        Py_INCREF(k.graph);
        if (py_wait_for(&w))
            result = PyLong_FromLongLong(w.result);
        Py_DECREF(k.graph);
    }
    Py_XDECREF(one);
    examples_deinit(&x);
    work_deinit(&k);
    return result;
}

PyMethodDef py_federated_methods[] = {{"federated_client", federated_client, METH_VARARGS, "Works for a server of federated averaging."}, {0}};
