/* server.c -- Server: a task of a cluster in this process.
 *
 * A server that was started serves until the process ends, also when its object is gone, as in TensorFlow: programs
 * return server.target from a function and use it later. */
#include "core.h"
#include "millrace/cluster.h"
#include "waiting.h"

#include <pthread.h>

typedef struct py_server {
    PyObject_HEAD
    TF_Server *server;
    bool runs;
} py_server;

typedef struct kept_server { /* of an object that is gone */
    TF_Server *server;
    struct kept_server *next;
} kept_server;
static kept_server *kept; /* with the interpreter's lock; for tools that look for lost memory */

/* Server(ServerDef) */
static PyObject *server_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    const char *p;
    Py_ssize_t n;
    if (!py_no_keywords(type, kwargs) || !PyArg_ParseTuple(args, "y#", &p, &n))
        return NULL;
    TF_Status *st = py_status_new();
    if (!st)
        return NULL;
    TF_Server *server;
    Py_BEGIN_ALLOW_THREADS
    server = TF_NewServer(p, (size_t)n, st);
    Py_END_ALLOW_THREADS
    py_server *s = py_status_ok(st) ? (py_server *)type->tp_alloc(type, 0) : NULL;
    if (s)
        s->server = server;
    else
        TF_DeleteServer(server);
    return (PyObject *)s;
}

static void server_free(py_server *s)
{
    kept_server *k = s->runs ? malloc(sizeof *k) : NULL;
    if (k) {
        *k = (kept_server){s->server, kept};
        kept = k;
    } else if (!s->runs) {
        Py_BEGIN_ALLOW_THREADS
        TF_DeleteServer(s->server);
        Py_END_ALLOW_THREADS
    }
    Py_TYPE(s)->tp_free(s);
}

static PyObject *call(py_server *s, void (*f)(TF_Server *, TF_Status *))
{
    TF_Status *st = py_status_new();
    if (!st)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    f(s->server, st);
    Py_END_ALLOW_THREADS
    return py_status_ok(st) ? Py_NewRef(Py_None) : NULL;
}

static PyObject *server_start(py_server *s, PyObject *unused)
{
    (void)unused;
    PyObject *done = call(s, TF_ServerStart);
    s->runs |= done != NULL;
    return done;
}

static PyObject *server_stop(py_server *s, PyObject *unused)
{
    (void)unused;
    PyObject *done = call(s, mr_stop_server);
    s->runs &= done == NULL;
    return done;
}

/* ---- joining, so that Ctrl-C still works ---- */

typedef struct joining {
    TF_Server *server;
    TF_Status *st;
    pthread_mutex_t mu;
    pthread_cond_t changed;
    bool done, given_up; /* who sees that the other is through frees it */
} joining;

static void joining_free(joining *j)
{
    TF_DeleteStatus(j->st);
    pthread_cond_destroy(&j->changed);
    pthread_mutex_destroy(&j->mu);
    free(j);
}

static void *join_thread(void *arg)
{
    joining *j = arg;
    TF_ServerJoin(j->server, j->st);
    pthread_mutex_lock(&j->mu);
    j->done = true;
    bool alone = j->given_up;
    pthread_cond_signal(&j->changed);
    pthread_mutex_unlock(&j->mu);
    if (alone)
        joining_free(j);
    return NULL;
}

/* A signal's exception is set: the thread is left to itself. */
static PyObject *give_up(joining *j)
{
    pthread_mutex_lock(&j->mu);
    j->given_up = true;
    bool done = j->done;
    pthread_mutex_unlock(&j->mu);
    if (done)
        joining_free(j);
    return NULL;
}

static PyObject *server_join(py_server *s, PyObject *unused)
{
    (void)unused;
    pthread_t thread;
    joining *j = calloc(1, sizeof(*j));
    TF_Status *st = j ? TF_NewStatus() : NULL;
    if (!st) {
        free(j);
        return PyErr_NoMemory();
    }
    *j = (joining){.server = s->server, .st = st};
    pthread_mutex_init(&j->mu, NULL);
    pthread_cond_init(&j->changed, NULL);
    if (pthread_create(&thread, NULL, join_thread, j) != 0) {
        joining_free(j);
        return PyErr_NoMemory();
    }
    pthread_detach(thread);
    for (bool done = false; !done;) {
        Py_BEGIN_ALLOW_THREADS
        done = py_wait_a_little(&j->mu, &j->changed, &j->done);
        Py_END_ALLOW_THREADS
        if (PyErr_CheckSignals() < 0) {
            Py_INCREF(s); /* the thread is in it until the process ends */
            return give_up(j);
        }
    }
    j->st = NULL;
    joining_free(j);
    return py_status_ok(st) ? Py_NewRef(Py_None) : NULL;
}

static PyObject *server_target(py_server *s, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(TF_ServerTarget(s->server));
}

static PyMethodDef server_methods[] = {{"start", (PyCFunction)server_start, METH_NOARGS, "Starts it."},
                                       {"stop", (PyCFunction)server_stop, METH_NOARGS, "Stops it."},
                                       {"join", (PyCFunction)server_join, METH_NOARGS, "Waits until it is stopped."},
                                       {0}};
static PyGetSetDef server_getset[] = {{"target", (getter)server_target, NULL, "For sessions on it.", NULL}, {0}};
PyTypeObject py_server_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_millrace.Server",
                               .tp_basicsize = sizeof(py_server),
                               .tp_flags = Py_TPFLAGS_DEFAULT,
                               .tp_new = server_new,
                               .tp_dealloc = (destructor)server_free,
                               .tp_methods = server_methods,
                               .tp_getset = server_getset};
