/* ps.c -- Ps: a client of the parameter server (millrace/ps.h).
 *
 * Keys are arrays of uint64, values of float32.  What is pushed is copied by the library before a call returns; what is pulled is
 * a task's (ps_task.c).
 *
 * Methods that wait let go of the interpreter's lock; a client that is in use by another thread cannot be closed. */
#include "core.h"
#include "ps_task.h"

/* ---- Ps: a client ---- */

enum { MOST_TABLES = 4096 };

typedef struct table_shape {
    int width, pushed; /* floats a key, of values and of what is pushed */
    uint64_t num_keys;
} table_shape;

typedef struct py_ps {
    PyObject_HEAD
    mr_ps *ps;
    int users; /* threads inside of it: the interpreter's lock guards it */
    table_shape *tables;
    int n_tables;
} py_ps;

static bool enter(py_ps *s)
{
    if (s->ps) {
        s->users++;
        return true;
    }
    PyErr_SetString(PyExc_RuntimeError, "The parameter server's client is closed");
    return false;
}

static bool leave(py_ps *s, TF_Status *st)
{
    s->users--;
    return py_status_ok(st);
}

mr_ps *py_ps_hold(PyObject *o)
{
    if (!PyObject_TypeCheck(o, &py_ps_type)) {
        PyErr_Format(PyExc_TypeError, "A client of the parameter server is expected, not %R", o);
        return NULL;
    }
    return enter((py_ps *)o) ? ((py_ps *)o)->ps : NULL;
}

void py_ps_release(PyObject *o) { ((py_ps *)o)->users--; }

/* Ps(manager=None, name=None, delay=0, cache_keys=0, compress=0, half=0, observer=0, timeout_ms=0, max_bytes=0) */
static PyObject *ps_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"manager", "name", "delay", "cache_keys", "compress", "half", "observer", "timeout_ms", "max_bytes", NULL};
    mr_ps_options o = {.struct_size = sizeof o};
    int cache = 0, compress = 0, half = 0, observer = 0;
    long long timeout = 0, bytes = 0;
    mr_ps *ps;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$zzippipLL", names, &o.manager, &o.name, &o.delay, &cache, &compress, &half,
                                     &observer, &timeout, &bytes))
        return NULL;
    if (half < 0 || half > 2) {
        PyErr_SetString(PyExc_ValueError, "half must be 0, 1 (bfloat16) or 2 (fixed point)");
        return NULL;
    }
    o.cache_keys = (unsigned char)cache, o.compress = (unsigned char)compress, o.half = (unsigned char)half;
    o.observer = (unsigned char)observer, o.timeout_ms = timeout, o.max_bytes = bytes;
    TF_Status *st = py_status_new();
    py_ps *self = st ? (py_ps *)type->tp_alloc(type, 0) : NULL;
    if (!self) {
        TF_DeleteStatus(st);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    ps = mr_ps_connect(&o, st);
    Py_END_ALLOW_THREADS
    self->ps = ps;
    if (!py_status_ok(st))
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void end(py_ps *s)
{
    mr_ps *ps = s->ps;
    s->ps = NULL;
    Py_BEGIN_ALLOW_THREADS
    mr_ps_free(ps);
    Py_END_ALLOW_THREADS
}

static void ps_free(py_ps *s)
{
    end(s);
    PyMem_Free(s->tables);
    Py_TYPE(s)->tp_free(s);
}

static PyObject *ps_close(py_ps *s, PyObject *unused)
{
    (void)unused;
    if (s->users) {
        PyErr_SetString(PyExc_RuntimeError, "The client is in use by another thread or by an object that was started with it");
        return NULL;
    }
    end(s);
    return Py_NewRef(Py_None);
}

static bool remember_table(py_ps *s, int number, const mr_ps_table_options *o)
{
    if (number < 0 || number >= MOST_TABLES) {
        PyErr_SetString(PyExc_ValueError, "Too many tables");
        return false;
    }
    if (number >= s->n_tables) {
        table_shape *t = PyMem_Realloc(s->tables, sizeof *t * (size_t)(number + 1));
        if (!t)
            return PyErr_NoMemory() != NULL;
        memset(t + s->n_tables, 0, sizeof *t * (size_t)(number + 1 - s->n_tables));
        s->tables = t;
        s->n_tables = number + 1;
    }
    int width = o->width ? o->width : 1;
    s->tables[number] = (table_shape){width, o->update == MR_PS_PROXIMAL ? 2 * width : width, o->num_keys};
    return true;
}

/* table(name, num_keys, width=, update=, ...): its number */
static PyObject *ps_table(py_ps *s, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"name", "num_keys", "width", "update", "rate", "a", "b", "epsilon", "l1", "l2", "start", "spread", "seed",
                            "aggregate", "graph", "graph_slots", NULL};
    mr_ps_table_options o = {.struct_size = sizeof o};
    const char *name;
    PyObject *keys;
    Py_buffer graph = {0};
    unsigned long long seed = 0;
    int update = 0, number = -1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sO!|$iiffffffffKiz*i", names, &name, &PyLong_Type, &keys, &o.width, &update, &o.rate,
                                     &o.a, &o.b, &o.epsilon, &o.l1, &o.l2, &o.start, &o.spread, &seed, &o.aggregate, &graph,
                                     &o.graph_slots))
        return NULL;
    o.num_keys = PyLong_AsUnsignedLongLong(keys);
    o.update = (mr_ps_update)update;
    o.seed = seed;
    o.graph = graph.buf;
    o.graph_bytes = (size_t)graph.len;
    TF_Status *st = PyErr_Occurred() ? NULL : py_status_new();
    bool ok = st && enter(s);
    if (ok) {
        Py_BEGIN_ALLOW_THREADS
        number = mr_ps_table(s->ps, name, &o, st);
        Py_END_ALLOW_THREADS
        ok = leave(s, st) && remember_table(s, number, &o);
    } else
        TF_DeleteStatus(st);
    PyBuffer_Release(&graph);
    return ok ? PyLong_FromLong(number) : NULL;
}

/* ---- pushes and pulls ---- */

typedef struct request {
    table_shape table; /* a copy: other threads make tables while keys are turned into arrays */
    int number;
    uint64_t first;
    size_t n;
    PyArrayObject *keys, *values, *kkt; /* keys NULL: a range from `first` on */
    mr_ps_task *after;
    mr_ps_call call;
} request;

static void request_deinit(request *r)
{
    Py_XDECREF((PyObject *)r->keys);
    Py_XDECREF((PyObject *)r->values);
    Py_XDECREF((PyObject *)r->kkt);
    PyMem_Free(r->after);
}

/* Floats are rounded to ours; a negative key becomes one that no table has. */
static PyArrayObject *array_of(PyObject *o, int type)
{
    return (PyArrayObject *)PyArray_FROMANY(o, type, 0, 2, NPY_ARRAY_CARRAY_RO | NPY_ARRAY_FORCECAST);
}

static PyArrayObject *keys_of(PyObject *o)
{
    PyArrayObject *any = (PyArrayObject *)PyArray_FROM_O(o), *keys = NULL;
    if (any && PyArray_SIZE(any) && !PyArray_ISINTEGER(any))
        PyErr_SetString(PyExc_TypeError, "Keys must be integers");
    else if (any && PyArray_NDIM(any) != 1)
        PyErr_SetString(PyExc_ValueError, "Keys must be one-dimensional");
    else if (any)
        keys = array_of((PyObject *)any, NPY_UINT64);
    Py_XDECREF((PyObject *)any);
    return keys;
}

/* Keys are an array, or a pair of ints (first, n): a range. */
static bool take_keys(PyObject *o, request *r)
{
    if (PyTuple_Check(o)) {
        unsigned long long first, n;
        if (!PyArg_ParseTuple(o, "KK;A range of keys is (first, n)", &first, &n))
            return false;
        r->first = first;
        r->n = (size_t)n;
    } else {
        if (!(r->keys = keys_of(o)))
            return false;
        r->n = (size_t)PyArray_SIZE(r->keys);
    }
    if (r->n <= r->table.num_keys)
        return true;
    PyErr_SetString(PyExc_ValueError, "There are more keys than the table can hold");
    return false;
}

/* n * width floats of the right number, or NULL with an exception. */
static PyArrayObject *take_floats(PyObject *o, size_t n, int width)
{
    PyArrayObject *a = array_of(o, NPY_FLOAT32);
    if (a && (size_t)PyArray_SIZE(a) != n * (size_t)width) {
        PyErr_Format(PyExc_ValueError, "Got %zd values, expected %zu keys times %d values", (Py_ssize_t)PyArray_SIZE(a), n, width);
        Py_CLEAR(a);
    }
    return a;
}

static bool take_after(const py_ps *s, PyObject *o, request *r)
{
    PyObject *items = o == Py_None ? PyTuple_New(0) : py_items(o, "`after` is a sequence of tasks");
    Py_ssize_t n = items ? PyTuple_GET_SIZE(items) : -1;
    bool ok = n >= 0 && n < INT32_MAX / 64 && (r->after = PyMem_Calloc((size_t)n + 1, sizeof *r->after));
    for (Py_ssize_t i = 0; ok && i < n; i++) {
        PyObject *t = PyTuple_GET_ITEM(items, i);
        ok = PyObject_TypeCheck(t, &py_ps_task_type) && ((py_ps_task *)t)->ps == (const PyObject *)s;
        if (ok)
            r->after[i] = ((py_ps_task *)t)->number;
        else
            PyErr_SetString(PyExc_TypeError, "`after` must be a sequence of tasks of the same client");
    }
    Py_XDECREF(items);
    if (!ok && !PyErr_Occurred())
        PyErr_NoMemory();
    r->call.after = r->after;
    r->call.num_after = (int)n;
    return ok;
}

static bool take_table(const py_ps *s, int number, request *r)
{
    bool ok = number >= 0 && number < s->n_tables && s->tables[number].width > 0;
    if (!ok)
        PyErr_Format(PyExc_ValueError, "Table %d does not exist", number);
    else
        r->table = s->tables[number];
    r->number = number;
    return ok;
}

static mr_ps_task begin_call(py_ps *s, const request *r, float *out, TF_Status *st)
{
    const uint64_t *keys = r->keys ? PyArray_DATA(r->keys) : NULL;
    const float *values = r->values ? PyArray_DATA(r->values) : NULL;
    if (r->keys)
        return values ? mr_ps_push(s->ps, r->number, keys, r->n, values, &r->call, st)
                      : mr_ps_pull(s->ps, r->number, keys, r->n, out, &r->call, st);
    return values ? mr_ps_push_range(s->ps, r->number, r->first, r->n, values, &r->call, st)
                  : mr_ps_pull_range(s->ps, r->number, r->first, r->n, out, &r->call, st);
}

static PyObject *begin(py_ps *s, request *r)
{
    TF_Status *st = py_status_new();
    py_ps_task *t = st ? py_ps_task_new((PyObject *)s, r->n, r->values ? 0 : r->table.width) : NULL;
    if (!t || !enter(s)) {
        TF_DeleteStatus(st);
        py_ps_task_unbegun(t);
        return NULL;
    }
    r->call.struct_size = sizeof r->call;
    py_ps_task_told_by(t, &r->call);
    Py_BEGIN_ALLOW_THREADS
    t->number = begin_call(s, r, py_ps_task_values(t), st);
    Py_END_ALLOW_THREADS
    if (leave(s, st))
        return (PyObject *)t;
    py_ps_task_unbegun(t);
    return NULL;
}

/* push(table, keys, values, after=None, modified=0, keep=0, kkt=None, kkt_threshold=0) */
static PyObject *ps_push(py_ps *s, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"table", "keys", "values", "after", "modified", "keep", "kkt", "kkt_threshold", NULL};
    PyObject *keys, *values, *after = Py_None, *kkt = Py_None, *t = NULL;
    request r = {0};
    int table;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "iOO|$OffOf", names, &table, &keys, &values, &after, &r.call.modified, &r.call.keep, &kkt,
                                     &r.call.kkt_threshold))
        return NULL;
    bool ok = take_table(s, table, &r) && take_keys(keys, &r) && take_after(s, after, &r) &&
              (r.values = take_floats(values, r.n, r.table.pushed)) &&
              (kkt == Py_None || (r.kkt = take_floats(kkt, r.n, r.table.width)));
    if (ok) {
        r.call.kkt = r.kkt ? PyArray_DATA(r.kkt) : NULL;
        t = begin(s, &r);
    }
    request_deinit(&r);
    return t;
}

/* pull(table, keys, after=None) */
static PyObject *ps_pull(py_ps *s, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"table", "keys", "after", NULL};
    PyObject *keys, *after = Py_None, *t = NULL;
    request r = {0};
    int table;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "iO|$O", names, &table, &keys, &after))
        return NULL;
    if (take_table(s, table, &r) && take_keys(keys, &r) && take_after(s, after, &r))
        t = begin(s, &r);
    request_deinit(&r);
    return t;
}

/* ---- the rest ---- */

typedef struct call_args {
    int what, a, b;
    double alpha, result;
    int64_t number;
    const char *text;
} call_args;

/* Runs fn without the interpreter's lock; false with an exception set. */
static bool call(py_ps *s, void (*fn)(mr_ps *ps, call_args *a, TF_Status *st), call_args *a)
{
    TF_Status *st = py_status_new();
    if (!st || !enter(s)) {
        TF_DeleteStatus(st);
        return false;
    }
    Py_BEGIN_ALLOW_THREADS
    fn(s->ps, a, st);
    Py_END_ALLOW_THREADS
    return leave(s, st);
}

static void do_wait_all(mr_ps *ps, call_args *a, TF_Status *st) { (void)a, mr_ps_wait_all(ps, st); }
static void do_iteration(mr_ps *ps, call_args *a, TF_Status *st) { a->number = mr_ps_iteration(ps, st); }
static void do_settled(mr_ps *ps, call_args *a, TF_Status *st) { a->number = mr_ps_settled(ps, st); }
static void do_snapshot(mr_ps *ps, call_args *a, TF_Status *st) { mr_ps_snapshot(ps, a->text, st); }
static void do_restore(mr_ps *ps, call_args *a, TF_Status *st) { mr_ps_restore(ps, a->text, st); }
static void do_bind(mr_ps *ps, call_args *a, TF_Status *st) { mr_ps_bind(ps, a->text, st); }

static void do_flush(mr_ps *ps, call_args *a, TF_Status *st)
{
    mr_ps_task t = mr_ps_flush(ps, a->a, st);
    if (t)
        mr_ps_wait(ps, t, st);
}

static void do_vector(mr_ps *ps, call_args *a, TF_Status *st)
{
    mr_ps_vector(ps, (mr_ps_algebra)a->what, a->a, a->b, a->alpha, &a->result, st);
}

static PyObject *ps_wait_all(py_ps *s, PyObject *unused)
{
    (void)unused;
    return call(s, do_wait_all, &(call_args){0}) ? Py_NewRef(Py_None) : NULL;
}

static PyObject *ps_iteration(py_ps *s, PyObject *unused)
{
    (void)unused;
    call_args a = {0};
    return call(s, do_iteration, &a) ? PyLong_FromLongLong(a.number) : NULL;
}

static PyObject *ps_settled(py_ps *s, PyObject *unused)
{
    (void)unused;
    call_args a = {0};
    return call(s, do_settled, &a) ? PyBool_FromLong((long)a.number) : NULL;
}

static PyObject *with_text(py_ps *s, PyObject *text, void (*fn)(mr_ps *, call_args *, TF_Status *))
{
    call_args a = {.text = py_text(text)};
    return a.text && call(s, fn, &a) ? Py_NewRef(Py_None) : NULL;
}

static PyObject *ps_snapshot(py_ps *s, PyObject *folder) { return with_text(s, folder, do_snapshot); }
static PyObject *ps_restore(py_ps *s, PyObject *folder) { return with_text(s, folder, do_restore); }
static PyObject *ps_bind(py_ps *s, PyObject *name) { return with_text(s, name, do_bind); }

static PyObject *ps_flush(py_ps *s, PyObject *args)
{
    call_args a = {0};
    return PyArg_ParseTuple(args, "i", &a.a) && call(s, do_flush, &a) ? Py_NewRef(Py_None) : NULL;
}

/* vector(what, a, b, alpha): the result of those that have one */
static PyObject *ps_vector(py_ps *s, PyObject *args)
{
    call_args a = {0};
    return PyArg_ParseTuple(args, "iiid", &a.what, &a.a, &a.b, &a.alpha) && call(s, do_vector, &a) ? PyFloat_FromDouble(a.result) : NULL;
}

static PyObject *ps_stats(py_ps *s, PyObject *unused)
{
    (void)unused;
    mr_ps_stats x = {.struct_size = sizeof x};
    if (!enter(s))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    mr_ps_get_stats(s->ps, &x);
    Py_END_ALLOW_THREADS
    s->users--;
    return Py_BuildValue("{sLsLsLsLsLsLsLsLsLsdsLsLsLsi}", "bytes_sent", (long long)x.bytes_sent, "bytes_received",
                         (long long)x.bytes_received, "pushes", (long long)x.pushes, "pulls", (long long)x.pulls, "retries",
                         (long long)x.retries, "rows_offered", (long long)x.rows_offered, "rows_sent", (long long)x.rows_sent, "key_lists",
                         (long long)x.key_lists, "key_hits", (long long)x.key_hits, "waited_s", x.waited_s, "iteration",
                         (long long)x.iteration, "delay", (long long)x.delay, "epoch", (long long)x.epoch, "servers", x.servers);
}

static PyMethodDef ps_methods[] = {
    {"table", (PyCFunction)(void (*)(void))ps_table, METH_VARARGS | METH_KEYWORDS, "Makes or finds a table: its number."},
    {"push", (PyCFunction)(void (*)(void))ps_push, METH_VARARGS | METH_KEYWORDS, "Begins a push: a task."},
    {"pull", (PyCFunction)(void (*)(void))ps_pull, METH_VARARGS | METH_KEYWORDS, "Begins a pull: a task."},
    {"wait_all", (PyCFunction)ps_wait_all, METH_NOARGS, "Waits for all that was begun."},
    {"flush", (PyCFunction)ps_flush, METH_VARARGS, "Pushes what `modified` has kept back."},
    {"vector", (PyCFunction)ps_vector, METH_VARARGS, "Vector algebra at the servers."},
    {"iteration", (PyCFunction)ps_iteration, METH_NOARGS, "Ends an iteration and waits until the next may begin."},
    {"settled", (PyCFunction)ps_settled, METH_NOARGS, "Whether every range has all its copies."},
    {"snapshot", (PyCFunction)ps_snapshot, METH_O, "Writes all tables to a folder."},
    {"restore", (PyCFunction)ps_restore, METH_O, "Reads a snapshot."},
    {"bind", (PyCFunction)ps_bind, METH_O, "Operations of this store use this client."},
    {"stats", (PyCFunction)ps_stats, METH_NOARGS, "What happened so far."},
    {"close", (PyCFunction)ps_close, METH_NOARGS, "Leaves."},
    {0}};
PyTypeObject py_ps_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_millrace.Ps",
                           .tp_basicsize = sizeof(py_ps),
                           .tp_flags = Py_TPFLAGS_DEFAULT,
                           .tp_new = ps_new,
                           .tp_dealloc = (destructor)ps_free,
                           .tp_methods = ps_methods};
