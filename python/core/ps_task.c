/* ps_task.c -- PsTask: a push or pull that is under way.
 *
 * A task has a block of its own, which the object and the library's callback share by count: the callback comes from a thread
 * without the interpreter's lock, maybe after the object is gone, so a block holds plain memory and nothing of Python.  Pulled
 * values are written there and become an array's memory when they are waited for. */
#include "core.h"
#include "ps_task.h"
#include "waiting.h"

#include <pthread.h>

/* ---- what a task and its end share ---- */

typedef struct py_ps_block {
    pthread_mutex_t mu;
    pthread_cond_t ended;
    int holders; /* the object, the callback */
    bool done, taken;
    TF_Code code;
    char *message; /* of an error; NULL: none, or no memory for it */
    float *values; /* of a pull */
} block;

/* With room for n rows of so many floats. */
static block *block_new(size_t n, size_t width)
{
    size_t bytes;
    block *b = __builtin_mul_overflow(n, width * sizeof(float), &bytes) ? NULL : calloc(1, sizeof *b);
    if (b && bytes && !(b->values = malloc(bytes))) {
        free(b);
        b = NULL;
    }
    if (!b) {
        PyErr_NoMemory();
        return NULL;
    }
    b->holders = 2;
    pthread_mutex_init(&b->mu, NULL);
    pthread_cond_init(&b->ended, NULL);
    return b;
}

static void block_drop(block *b, int n)
{
    pthread_mutex_lock(&b->mu);
    b->holders -= n;
    bool last = b->holders == 0;
    pthread_mutex_unlock(&b->mu);
    if (!last)
        return;
    pthread_cond_destroy(&b->ended);
    pthread_mutex_destroy(&b->mu);
    free(b->message);
    free(b->values);
    free(b);
}

static void on_done(void *arg, mr_ps_task t, const TF_Status *st)
{
    (void)t;
    block *b = arg;
    pthread_mutex_lock(&b->mu);
    b->done = true;
    b->code = TF_GetCode(st);
    b->message = b->code == TF_OK ? NULL : strdup(TF_Message(st));
    pthread_cond_broadcast(&b->ended);
    pthread_mutex_unlock(&b->mu);
    block_drop(b, 1);
}

/* ---- PsTask ---- */

static void task_free(py_ps_task *t)
{
    if (t->b)
        block_drop(t->b, 1);
    Py_XDECREF(t->ps);
    Py_TYPE(t)->tp_free(t);
}

static void free_values(PyObject *capsule) { free(PyCapsule_GetPointer(capsule, NULL)); }

static PyObject *take_values(py_ps_task *t)
{
    npy_intp dims[2] = {t->n, t->width};
    if (t->b->taken || !t->b->values) { /* waited for before, or no rows */
        if (t->n == 0)
            return PyArray_SimpleNew(2, dims, NPY_FLOAT32);
        PyErr_SetString(PyExc_RuntimeError, "The values of this pull have already been taken");
        return NULL;
    }
    PyObject *capsule = PyCapsule_New(t->b->values, NULL, free_values);
    PyObject *a = capsule ? PyArray_SimpleNewFromData(2, dims, NPY_FLOAT32, t->b->values) : NULL;
    if (capsule) {
        t->b->taken = true;
        t->b->values = NULL;
    }
    if (!a || PyArray_SetBaseObject((PyArrayObject *)a, capsule) < 0) { /* the latter takes the capsule in any case */
        if (!a)
            Py_XDECREF(capsule);
        Py_CLEAR(a);
    }
    return a;
}

static PyObject *task_wait(py_ps_task *t, PyObject *unused)
{
    (void)unused;
    for (bool done = false; !done;) {
        Py_BEGIN_ALLOW_THREADS
        done = py_wait_a_little(&t->b->mu, &t->b->ended, &t->b->done);
        Py_END_ALLOW_THREADS
        if (!done && PyErr_CheckSignals() < 0)
            return NULL;
    }
    if (t->b->code != TF_OK) {
        TF_Status *st = py_status_new();
        if (st) {
            TF_SetStatus(st, t->b->code, t->b->message ? t->b->message : "");
            py_status_ok(st);
        }
        return NULL;
    }
    return t->width ? take_values(t) : Py_NewRef(Py_None);
}

static PyObject *task_done(py_ps_task *t, PyObject *unused)
{
    (void)unused;
    pthread_mutex_lock(&t->b->mu);
    bool done = t->b->done;
    pthread_mutex_unlock(&t->b->mu);
    return PyBool_FromLong(done);
}

static PyMethodDef task_methods[] = {
    {"wait", (PyCFunction)task_wait, METH_NOARGS, "Waits for its end: the values of a pull, or None; raises its error."},
    {"done", (PyCFunction)task_done, METH_NOARGS, "Whether it has ended."},
    {0}};
PyTypeObject py_ps_task_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_millrace.PsTask",
                                .tp_basicsize = sizeof(py_ps_task),
                                .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                .tp_dealloc = (destructor)task_free,
                                .tp_methods = task_methods};

/* ---- for who begins it ---- */

py_ps_task *py_ps_task_new(PyObject *ps, size_t n, int width)
{
    py_ps_task *t = (py_ps_task *)py_ps_task_type.tp_alloc(&py_ps_task_type, 0);
    if (!t)
        return NULL;
    t->ps = Py_NewRef(ps);
    t->n = (npy_intp)n;
    t->width = width;
    t->b = block_new(n, (size_t)width);
    if (!t->b)
        Py_CLEAR(t);
    return t;
}

void py_ps_task_told_by(py_ps_task *t, mr_ps_call *call)
{
    call->done = on_done;
    call->arg = t->b;
}

float *py_ps_task_values(py_ps_task *t) { return t->b->values; }

void py_ps_task_unbegun(py_ps_task *t)
{
    if (t)
        block_drop(t->b, 1); /* the callback will not come */
    Py_XDECREF((PyObject *)t);
}
