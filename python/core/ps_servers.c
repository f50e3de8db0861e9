/* ps_servers.c -- PsManager and PsServer: those who hold parameters (millrace/ps.h).
 *
 * Both live until they are closed or nobody has them any more.  Starting, leaving and ending wait for others and let go of the
 * interpreter's lock; a server in leave() cannot be closed by another thread. */
#include "core.h"

#include "millrace/ps.h"

/* ---- PsManager ---- */

typedef struct py_ps_manager {
    PyObject_HEAD
    mr_ps_manager *m;
} py_ps_manager;

static PyObject *manager_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"address", "replicas", "servers", "lost_ms", "num_ranges", NULL};
    mr_ps_manager_options o = {.struct_size = sizeof o};
    long long lost = 0;
    mr_ps_manager *m;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$ziiLi", names, &o.address, &o.replicas, &o.servers, &lost, &o.num_ranges))
        return NULL;
    o.lost_ms = lost;
    TF_Status *st = py_status_new();
    py_ps_manager *self = st ? (py_ps_manager *)type->tp_alloc(type, 0) : NULL;
    if (!self) {
        TF_DeleteStatus(st);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    m = mr_ps_manager_start(&o, st);
    Py_END_ALLOW_THREADS
    self->m = m;
    if (!py_status_ok(st))
        Py_CLEAR(self);
    return (PyObject *)self;
}

static PyObject *manager_close(py_ps_manager *s, PyObject *unused)
{
    (void)unused;
    mr_ps_manager *m = s->m;
    s->m = NULL;
    Py_BEGIN_ALLOW_THREADS
    mr_ps_manager_free(m);
    Py_END_ALLOW_THREADS
    return Py_NewRef(Py_None);
}

static void manager_free(py_ps_manager *s)
{
    Py_DECREF(manager_close(s, NULL));
    Py_TYPE(s)->tp_free(s);
}

static PyObject *manager_address(py_ps_manager *s, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(s->m ? mr_ps_manager_address(s->m) : "");
}

static PyMethodDef manager_methods[] = {{"close", (PyCFunction)manager_close, METH_NOARGS, "Ends it."}, {0}};
static PyGetSetDef manager_getset[] = {{"address", (getter)manager_address, NULL, "Where it is.", NULL}, {0}};
PyTypeObject py_ps_manager_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_millrace.PsManager",
                                   .tp_basicsize = sizeof(py_ps_manager),
                                   .tp_flags = Py_TPFLAGS_DEFAULT,
                                   .tp_new = manager_new,
                                   .tp_dealloc = (destructor)manager_free,
                                   .tp_methods = manager_methods,
                                   .tp_getset = manager_getset};

/* ---- PsServer ---- */

typedef struct py_ps_server {
    PyObject_HEAD
    mr_ps_server *s;
    bool leaving; /* a thread is in leave() */
} py_ps_server;

static PyObject *server_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"manager", "address", "memory", NULL};
    mr_ps_server_options o = {.struct_size = sizeof o};
    long long memory = 0;
    mr_ps_server *s;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|$zL", names, &o.manager, &o.address, &memory))
        return NULL;
    o.memory = memory;
    TF_Status *st = py_status_new();
    py_ps_server *self = st ? (py_ps_server *)type->tp_alloc(type, 0) : NULL;
    if (!self) {
        TF_DeleteStatus(st);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    s = mr_ps_server_start(&o, st);
    Py_END_ALLOW_THREADS
    self->s = s;
    if (!py_status_ok(st))
        Py_CLEAR(self);
    return (PyObject *)self;
}

static bool server_idle(const py_ps_server *s)
{
    if (s->s && !s->leaving)
        return true;
    PyErr_SetString(PyExc_RuntimeError, s->s ? "Another thread is closing this server" : "The server is closed");
    return false;
}

static PyObject *server_leave(py_ps_server *s, PyObject *unused)
{
    (void)unused;
    TF_Status *st = server_idle(s) ? py_status_new() : NULL;
    if (!st)
        return NULL;
    s->leaving = true;
    Py_BEGIN_ALLOW_THREADS
    mr_ps_server_leave(s->s, st);
    Py_END_ALLOW_THREADS
    s->leaving = false;
    return py_status_ok(st) ? Py_NewRef(Py_None) : NULL;
}

static void server_end(py_ps_server *s)
{
    mr_ps_server *server = s->s;
    s->s = NULL;
    Py_BEGIN_ALLOW_THREADS
    mr_ps_server_free(server);
    Py_END_ALLOW_THREADS
}

static PyObject *server_close(py_ps_server *s, PyObject *unused)
{
    (void)unused;
    if (s->s && !server_idle(s))
        return NULL;
    server_end(s);
    return Py_NewRef(Py_None);
}

static void server_free(py_ps_server *s)
{
    server_end(s);
    Py_TYPE(s)->tp_free(s);
}

static PyObject *server_address(py_ps_server *s, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(s->s ? mr_ps_server_address(s->s) : "");
}

static PyMethodDef server_methods[] = {
    {"leave", (PyCFunction)server_leave, METH_NOARGS, "Hands over what it holds."},
    {"close", (PyCFunction)server_close, METH_NOARGS, "Ends it; without leave() others take it as lost."},
    {0}};
static PyGetSetDef server_getset[] = {{"address", (getter)server_address, NULL, "Where it is.", NULL}, {0}};
PyTypeObject py_ps_server_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_millrace.PsServer",
                                  .tp_basicsize = sizeof(py_ps_server),
                                  .tp_flags = Py_TPFLAGS_DEFAULT,
                                  .tp_new = server_new,
                                  .tp_dealloc = (destructor)server_free,
                                  .tp_methods = server_methods,
                                  .tp_getset = server_getset};
