/* callable.c -- what Session.make_callable returns: a run whose feeds and fetches were looked up once.
 *
 * The usual call, one value for each feed and nothing else, is made here without lists.  Every other call (with options, or with
 * the wrong number of values) and calls of a closed session go to a function of the package, which reports what is wrong. */
#include "core.h"

enum { MOST = 32 }; /* feeds or fetches; the package makes larger callables itself */

typedef struct feed {
    PyObject *tensor; /* borrowed: `feeds` has it */
    TF_Output output;
    int dtype, n_dims; /* n_dims -1: unknown */
    int64_t *dims;     /* -1: unknown */
} feed;

typedef struct py_callable {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *session, *feeds, *fetches, *targets; /* the last three are tuples, for what they hold on to */
    PyObject *other;  /* the function for other calls */
    PyObject *build;  /* makes the result of a list of arrays; None: the result is None; a tuple: it is the first array */
    PyObject *failed; /* called with the error of a run: raises it, or a better one */
    py_graph *graph;  /* the session's */
    TF_Status *spare; /* of the last call; NULL while it is in use */
    TF_Output *outputs;
    TF_Operation **operations;
    feed *in;
    int n_in, n_outputs, n_operations;
} py_callable;

/* True if the shape is one that the graph allowed when the callable was made. Otherwise the graph is asked, and reports what
 * is wrong. */
static bool shape_fits(const feed *f, const TF_Tensor *t)
{
    if (f->n_dims < 0)
        return true;
    bool fits = f->n_dims == TF_NumDims(t);
    for (int i = 0; fits && i < f->n_dims; i++)
        fits = f->dims[i] < 0 || f->dims[i] == TF_Dim(t, i);
    return fits;
}

static TF_Tensor *take_value(const py_callable *c, const feed *f, PyObject *value)
{
    TF_Tensor *t = py_tensor_from(value, f->dtype);
    if (!t || shape_fits(f, t) || py_check_shape(c->graph, f->tensor, f->output, t))
        return t;
    TF_DeleteTensor(t);
    return NULL;
}

/* Calls c->failed with the exception that is set. */
static PyObject *report_failure(const py_callable *c)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    PyObject *result = value ? PyObject_CallOneArg(c->failed, value) : NULL;
    if (result || !value) { /* it did not raise */
        Py_XDECREF(result);
        PyErr_Restore(type, value, trace);
        return NULL;
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return NULL;
}

/* Takes the results over. */
static PyObject *result_of(const py_callable *c, TF_Tensor **results)
{
    if (c->build == Py_None)
        return Py_NewRef(Py_None);
    if (PyTuple_Check(c->build)) {
        TF_Tensor *t = results[0];
        results[0] = NULL;
        return py_array_from(t);
    }
    PyObject *list = PyList_New(c->n_outputs);
    for (int i = 0; list && i < c->n_outputs; i++) {
        TF_Tensor *t = results[i];
        results[i] = NULL;
        PyObject *a = py_array_from(t);
        if (a)
            PyList_SET_ITEM(list, i, a);
        else
            Py_CLEAR(list);
    }
    PyObject *out = list ? PyObject_CallOneArg(c->build, list) : NULL;
    Py_XDECREF(list);
    return out;
}

static PyObject *run_prepared(py_callable *c, TF_Session *session, const TF_Output *inputs, TF_Tensor *const *values)
{
    TF_Tensor *results[MOST];
    TF_Status *st = c->spare ? c->spare : py_status_new();
    c->spare = NULL;
    if (!st)
        return NULL;
    py_waits();
    Py_BEGIN_ALLOW_THREADS
    TF_SessionRun(session, NULL, inputs, values, c->n_in, c->outputs, results, c->n_outputs,
                  (const TF_Operation *const *)c->operations, c->n_operations, NULL, st);
    Py_END_ALLOW_THREADS
    py_waited();
    if (TF_GetCode(st) != TF_OK) { /* then there are no results */
        py_status_ok(st);
        return report_failure(c);
    }
    if (c->spare) /* of another thread, which was faster */
        TF_DeleteStatus(st);
    else
        c->spare = st;
    PyObject *out = result_of(c, results);
    for (int i = 0; i < c->n_outputs; i++)
        TF_DeleteTensor(results[i]);
    return out;
}

static PyObject *callable_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *keywords)
{
    py_callable *c = (py_callable *)self;
    TF_Session *session = py_session_if_open(c->session);
    if (!session || keywords || PyVectorcall_NARGS(nargsf) != c->n_in)
        return PyObject_Vectorcall(c->other, args, nargsf, keywords);
    TF_Output inputs[MOST];
    TF_Tensor *values[MOST];
    int n = 0;
    py_release_arrays();
    for (; n < c->n_in; n++) {
        inputs[n] = c->in[n].output;
        if (!(values[n] = take_value(c, &c->in[n], args[n])))
            break;
    }
    PyObject *out = n == c->n_in ? run_prepared(c, session, inputs, values) : NULL;
    for (int i = 0; i < n; i++)
        TF_DeleteTensor(values[i]);
    return out;
}

/* ---- life ---- */

static bool take_feeds(py_callable *c)
{
    TF_Output *outputs = NULL;
    bool ok = py_outputs(c->feeds, &outputs, &c->n_in);
    if (ok && !(c->in = PyMem_Calloc((size_t)c->n_in + 1, sizeof *c->in))) {
        PyErr_NoMemory();
        ok = false;
    }
    for (int i = 0; ok && i < c->n_in; i++) {
        feed *f = &c->in[i];
        f->tensor = PyTuple_GET_ITEM(c->feeds, i);
        f->output = outputs[i];
        f->dtype = (int)TF_OperationOutputType(outputs[i]) % 100;
        ok = py_shape_of_output(c->graph, outputs[i], &f->dims, &f->n_dims);
    }
    PyMem_Free(outputs);
    return ok;
}

/* Callable(session, feeds, fetches, targets, other, build, failed); see the struct */
static PyObject *callable_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *session, *feeds, *fetches, *targets, *other, *build, *failed;
    if (!py_no_keywords(type, kwargs) || !PyArg_ParseTuple(args, "O!O!O!O!OOO", &py_session_type, &session, &PyTuple_Type, &feeds,
                                                           &PyTuple_Type, &fetches, &PyTuple_Type, &targets, &other, &build,
                                                           &failed))
        return NULL;
    if (PyTuple_GET_SIZE(feeds) > MOST || PyTuple_GET_SIZE(fetches) > MOST ||
        (PyTuple_Check(build) && PyTuple_GET_SIZE(fetches) != 1)) {
        PyErr_SetString(PyExc_ValueError, "Too many feeds or fetches, or not one fetch");
        return NULL;
    }
    py_callable *c = (py_callable *)type->tp_alloc(type, 0);
    if (!c)
        return NULL;
    c->call = callable_call;
    c->session = Py_NewRef(session);
    c->graph = (py_graph *)Py_NewRef((PyObject *)py_graph_of_session(session));
    c->feeds = Py_NewRef(feeds);
    c->fetches = Py_NewRef(fetches);
    c->targets = Py_NewRef(targets);
    c->other = Py_NewRef(other);
    c->build = Py_NewRef(build);
    c->failed = Py_NewRef(failed);
    if (take_feeds(c) && py_outputs(fetches, &c->outputs, &c->n_outputs) && py_operations(targets, &c->operations, &c->n_operations))
        return (PyObject *)c;
    Py_DECREF(c);
    return NULL;
}

static int callable_traverse(py_callable *c, visitproc visit, void *arg)
{
    PyObject *const held[] = {c->session, (PyObject *)c->graph, c->feeds, c->fetches, c->targets, c->other, c->build, c->failed};
    for (size_t i = 0; i < sizeof held / sizeof held[0]; i++)
        Py_VISIT(held[i]);
    return 0;
}

static int callable_clear(py_callable *c)
{
    Py_CLEAR(c->other);
    Py_CLEAR(c->build);
    Py_CLEAR(c->failed);
    return 0;
}

static void callable_free(py_callable *c)
{
    PyObject_GC_UnTrack(c);
    callable_clear(c);
    for (int i = 0; c->in && i < c->n_in; i++)
        free(c->in[i].dims);
    PyMem_Free(c->in);
    PyMem_Free(c->outputs);
    PyMem_Free(c->operations);
    TF_DeleteStatus(c->spare);
    Py_CLEAR(c->feeds);
    Py_CLEAR(c->fetches);
    Py_CLEAR(c->targets);
    Py_CLEAR(c->session);
    Py_CLEAR(c->graph);
    Py_TYPE(c)->tp_free(c);
}

PyTypeObject py_callable_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_millrace.Callable",
                                 .tp_basicsize = sizeof(py_callable),
                                 .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
                                 .tp_doc = "A function of the values of feeds that runs fetches.",
                                 .tp_new = callable_new,
                                 .tp_call = PyVectorcall_Call,
                                 .tp_vectorcall_offset = offsetof(py_callable, call),
                                 .tp_dealloc = (destructor)callable_free,
                                 .tp_traverse = (traverseproc)callable_traverse,
                                 .tp_clear = (inquiry)callable_clear};
