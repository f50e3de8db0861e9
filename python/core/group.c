/* group.c -- Group: processes that compute together (millrace/group.h).
 *
 * Arrays become tensors and back as for sessions.  An operation lets go of the interpreter's lock while it waits for other
 * members.  One thread at a time is inside of a group: results are sized by its members, who must not change meanwhile. */
#include "core.h"

#include "millrace/group.h"

typedef struct py_group {
    PyObject_HEAD
    mr_group *g;
    bool busy; /* a thread is inside of it: the interpreter's lock guards it */
} py_group;

/* Group(name=None, size=0, rank=0, transport=None, folder=None, addresses=None, min_size=0, join_ms=0, timeout_ms=0) */
static PyObject *group_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"name", "size", "rank", "transport", "folder", "addresses", "min_size", "join_ms", "timeout_ms", NULL};
    mr_group_options o = {.struct_size = sizeof o};
    long long join = 0, timeout = 0;
    mr_group *g;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$ziizzziLL", names, &o.name, &o.size, &o.rank, &o.transport, &o.folder, &o.addresses,
                                     &o.min_size, &join, &timeout))
        return NULL;
    o.join_ms = join;
    o.timeout_ms = timeout;
    TF_Status *st = py_status_new();
    py_group *self = st ? (py_group *)type->tp_alloc(type, 0) : NULL;
    if (!self) {
        TF_DeleteStatus(st);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    g = mr_group_join(&o, st);
    Py_END_ALLOW_THREADS
    self->g = g;
    if (!py_status_ok(st))
        Py_CLEAR(self);
    return (PyObject *)self;
}

static bool enter(py_group *s)
{
    if (s->g && !s->busy)
        return s->busy = true;
    PyErr_SetString(PyExc_RuntimeError, s->g ? "Another thread is using the group" : "The group is closed");
    return false;
}

static void end(py_group *s)
{
    mr_group *g = s->g;
    s->g = NULL;
    Py_BEGIN_ALLOW_THREADS
    if (g)
        mr_group_free(g);
    Py_END_ALLOW_THREADS
}

static PyObject *group_close(py_group *s, PyObject *unused)
{
    (void)unused;
    if (s->g && !enter(s))
        return NULL;
    s->busy = false;
    end(s);
    return Py_NewRef(Py_None);
}

static void group_free(py_group *s)
{
    end(s);
    Py_TYPE(s)->tp_free(s);
}

/* ---- operations ---- */

typedef enum kind { ALL_REDUCE, IN_ORDER, REDUCE_SCATTER, ALL_GATHER, BROADCAST, ALL_TO_ALL, N_KINDS } kind;

typedef struct work {
    kind what;
    int how; /* a reduction, or the root */
    TF_Tensor *in, *out;
    int64_t count;
} work;

static int64_t elements(const TF_Tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < TF_NumDims(t); i++)
        n *= TF_Dim(t, i);
    return n;
}

/* The first dimension is cut or repeated by the group's size; false with an exception set. */
static bool shape_of_result(const work *w, int size, int64_t *dims)
{
    int n = TF_NumDims(w->in);
    for (int i = 0; i < n; i++)
        dims[i] = TF_Dim(w->in, i);
    if (w->what != REDUCE_SCATTER && w->what != ALL_GATHER && w->what != ALL_TO_ALL)
        return true;
    if (n == 0 || (w->what != ALL_GATHER && dims[0] % size != 0)) {
        PyErr_Format(PyExc_ValueError, "The first dimension must be divisible by %d, the size of the group", size);
        return false;
    }
    if (w->what == ALL_GATHER && dims[0] > INT64_MAX / size) {
        PyErr_NoMemory();
        return false;
    }
    dims[0] = w->what == ALL_GATHER ? dims[0] * size : w->what == REDUCE_SCATTER ? dims[0] / size : dims[0];
    return true;
}

static bool make_result(work *w, int size)
{
    int64_t dims[NPY_MAXDIMS], n = 1;
    size_t item = TF_DataTypeSize(TF_TensorType(w->in)), bytes;
    if (!shape_of_result(w, size, dims))
        return false;
    for (int i = 0; i < TF_NumDims(w->in); i++)
        if (__builtin_mul_overflow(n, dims[i], &n))
            return PyErr_NoMemory() != NULL;
    if (__builtin_mul_overflow((size_t)n, item, &bytes))
        return PyErr_NoMemory() != NULL;
    w->count = elements(w->in) / (w->what == ALL_TO_ALL ? size : 1);
    w->out = TF_AllocateTensor(TF_TensorType(w->in), dims, TF_NumDims(w->in), bytes);
    return w->out ? true : PyErr_NoMemory() != NULL;
}

static void run(mr_group *g, const work *w, TF_Status *st)
{
    const void *in = TF_TensorData(w->in);
    void *out = TF_TensorData(w->out);
    TF_DataType type = TF_TensorType(w->in);
    mr_group_reduction how = (mr_group_reduction)w->how;
    switch (w->what) {
    case ALL_REDUCE: mr_group_all_reduce(g, in, out, w->count, type, how, st); break;
    case IN_ORDER: mr_group_all_reduce_in_order(g, in, out, w->count, type, how, st); break;
    case REDUCE_SCATTER: mr_group_reduce_scatter(g, in, out, w->count, type, how, st); break;
    case ALL_GATHER: mr_group_all_gather(g, in, out, w->count, type, st); break;
    case BROADCAST: mr_group_broadcast(g, in, out, w->count, type, w->how, st); break;
    default: mr_group_all_to_all(g, in, out, w->count, type, st); break;
    }
}

static PyObject *run_work(py_group *s, work *w)
{
    TF_Status *st = make_result(w, mr_group_size(s->g)) ? py_status_new() : NULL;
    if (!st)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    run(s->g, w, st);
    Py_END_ALLOW_THREADS
    if (!py_status_ok(st))
        return NULL;
    PyObject *result = py_array_from(w->out);
    w->out = NULL;
    return result;
}

/* compute(what, array, dtype, how): a new array */
static PyObject *group_compute(py_group *s, PyObject *args)
{
    int what, dtype, how;
    PyObject *array, *result = NULL;
    if (!PyArg_ParseTuple(args, "iOii", &what, &array, &dtype, &how))
        return NULL;
    if (what < 0 || what >= N_KINDS || dtype == TF_STRING) {
        PyErr_SetString(PyExc_ValueError, "A group reduces only numeric arrays");
        return NULL;
    }
    work w = {.what = (kind)what, .how = how, .in = py_tensor_from(array, dtype)};
    if (w.in && enter(s)) {
        result = run_work(s, &w);
        s->busy = false;
    }
    TF_DeleteTensor(w.in);
    TF_DeleteTensor(w.out);
    return result;
}

/* ---- who is there ---- */

static PyObject *with_status(py_group *s, void (*fn)(mr_group *g, TF_Status *st))
{
    TF_Status *st = py_status_new();
    if (!st || !enter(s)) {
        TF_DeleteStatus(st);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    fn(s->g, st);
    Py_END_ALLOW_THREADS
    s->busy = false;
    return py_status_ok(st) ? Py_NewRef(Py_None) : NULL;
}

static PyObject *group_barrier(py_group *s, PyObject *unused) { return (void)unused, with_status(s, mr_group_barrier); }
static PyObject *group_reform(py_group *s, PyObject *unused) { return (void)unused, with_status(s, mr_group_reform); }

static PyObject *closed(void)
{
    PyErr_SetString(PyExc_RuntimeError, "The group is closed");
    return NULL;
}

static PyObject *group_waiting(py_group *s, PyObject *unused)
{
    (void)unused;
    return s->g ? PyBool_FromLong(mr_group_waiting(s->g)) : closed();
}

static PyObject *group_rank(py_group *s, void *unused) { return (void)unused, s->g ? PyLong_FromLong(mr_group_rank(s->g)) : closed(); }
static PyObject *group_size(py_group *s, void *unused) { return (void)unused, s->g ? PyLong_FromLong(mr_group_size(s->g)) : closed(); }

static PyObject *group_generation(py_group *s, void *unused)
{
    (void)unused;
    return s->g ? PyLong_FromLongLong(mr_group_generation(s->g)) : closed();
}

static PyMethodDef group_methods[] = {
    {"compute", (PyCFunction)group_compute, METH_VARARGS, "An operation of all members, on an array."},
    {"barrier", (PyCFunction)group_barrier, METH_NOARGS, "Until all are here."},
    {"reform", (PyCFunction)group_reform, METH_NOARGS, "Forms the group again."},
    {"waiting", (PyCFunction)group_waiting, METH_NOARGS, "Whether a process waits to be let in."},
    {"close", (PyCFunction)group_close, METH_NOARGS, "Leaves."},
    {0}};
static PyGetSetDef group_getset[] = {{"rank", (getter)group_rank, NULL, "Of this member.", NULL},
                                     {"size", (getter)group_size, NULL, "How many members there are.", NULL},
                                     {"generation", (getter)group_generation, NULL, "Increases each time the group is formed again.", NULL},
                                     {0}};
PyTypeObject py_group_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_millrace.Group",
                              .tp_basicsize = sizeof(py_group),
                              .tp_flags = Py_TPFLAGS_DEFAULT,
                              .tp_new = group_new,
                              .tp_dealloc = (destructor)group_free,
                              .tp_methods = group_methods,
                              .tp_getset = group_getset};
