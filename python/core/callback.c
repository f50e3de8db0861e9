/* callback.c -- tf.py_func: operations whose work is done by Python.
 *
 * One callable of the package is given the token of an operation and its inputs as arrays, and returns a sequence of values for
 * its outputs.  Threads of the library call it with the interpreter's lock.
 *
 * A thread of the library that calls Python keeps its thread state until it ends: making one takes longer than a short call.
 * It may end while the thread that joins it holds the interpreter's lock, so it only puts the state on a list, which is emptied
 * when the interpreter comes by again.
 *
 * An interpreter that ends kills threads that ask for its lock, and whoever waits for such a thread waits for ever.  So before
 * it ends, calls are refused (CANCELLED) and those under way are waited for, a while. */
#include "core.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

enum { PATIENCE_SECONDS = 3 };

static PyObject *caller;
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t fewer = PTHREAD_COND_INITIALIZER;
static int under_way; /* guarded by mu */
static bool ending;   /* guarded by mu */

static PyObject *inputs_of(const mr_function_call *c)
{
    int n = mr_function_call_num_inputs(c);
    PyObject *list = PyList_New(n);
    for (int i = 0; list && i < n; i++) {
        TF_Tensor *t = mr_function_call_input(c, i);
        PyObject *a = t ? py_array_from(t) : PyErr_NoMemory();
        if (a)
            PyList_SET_ITEM(list, i, a);
        else
            Py_CLEAR(list);
    }
    return list;
}

static bool give_outputs(mr_function_call *c, PyObject *values)
{
    PyObject *list = py_items(values, "A function of py_func returns a sequence");
    int n = mr_function_call_num_outputs(c);
    bool ok = list;
    if (ok && PyTuple_GET_SIZE(list) != n) {
        PyErr_Format(PyExc_ValueError, "The function returned %zd values, the operation has %d outputs",
                     PyTuple_GET_SIZE(list), n);
        ok = false;
    }
    for (int i = 0; ok && i < n; i++) {
        TF_Tensor *t = py_tensor_from(PyTuple_GET_ITEM(list, i), (int)mr_function_call_output_type(c, i));
        ok = t;
        if (ok)
            mr_function_call_set_output(c, i, t);
    }
    Py_XDECREF(list);
    return ok;
}

static bool call_python(mr_function_call *c)
{
    size_t n;
    const char *token = mr_function_call_token(c, &n);
    PyObject *in = inputs_of(c);
    PyObject *f = Py_NewRef(caller); /* another may be set while it works */
    PyObject *out = in ? PyObject_CallFunction(f, "s#O", token, (Py_ssize_t)n, in) : NULL;
    bool ok = out && give_outputs(c, out);
    Py_DECREF(f);
    Py_XDECREF(in);
    Py_XDECREF(out);
    return ok;
}

/* ---- thread states ---- */

typedef struct kept {
    PyThreadState *state;
    struct kept *next;
} kept;

static pthread_key_t kept_key; /* of a thread: its `kept` */
static pthread_once_t kept_once = PTHREAD_ONCE_INIT;
static bool has_key;
static _Atomic(kept *) left_over; /* of threads that have ended */

static void thread_ends(void *arg)
{
    kept *k = arg;
    k->next = atomic_load_explicit(&left_over, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&left_over, &k->next, k, memory_order_release, memory_order_relaxed))
        ;
}

static void make_key(void) { has_key = pthread_key_create(&kept_key, thread_ends) == 0; }

/* With the interpreter's lock. */
static void delete_left_over(void)
{
    if (!atomic_load_explicit(&left_over, memory_order_relaxed))
        return;
    kept *k = atomic_exchange_explicit(&left_over, NULL, memory_order_acquire);
    for (kept *next; k; k = next) {
        next = k->next;
        PyThreadState_Clear(k->state);
        PyThreadState_Delete(k->state);
        free(k);
    }
}

/* Takes the interpreter's lock. A thread that Python did not know gets a state, which stays: one PyGILState_Release is left
 * out. */
static PyGILState_STATE take_interpreter(void)
{
    bool known = PyGILState_GetThisThreadState() != NULL;
    PyGILState_STATE state = PyGILState_Ensure();
    pthread_once(&kept_once, make_key);
    kept *k = known || !has_key ? NULL : malloc(sizeof *k);
    if (k) {
        *k = (kept){PyThreadState_Get(), NULL};
        if (pthread_setspecific(kept_key, k) == 0) {
            PyEval_SaveThread(); /* the count of the thread stays above 0 from here on */
            return PyGILState_Ensure();
        }
        free(k);
    }
    return state;
}

bool py_call_begins(void)
{
    pthread_mutex_lock(&mu);
    bool ok = !ending;
    under_way += ok;
    pthread_mutex_unlock(&mu);
    return ok;
}

void py_call_ended(void)
{
    pthread_mutex_lock(&mu);
    under_way--;
    pthread_cond_signal(&fewer);
    pthread_mutex_unlock(&mu);
}

static void hook(void *ctx, mr_function_call *c)
{
    (void)ctx;
    TF_Status *s = TF_NewStatus();
    if (py_call_begins()) {
        PyGILState_STATE state = take_interpreter();
        delete_left_over();
        if (!call_python(c))
            py_status_from_exception(s);
        py_release_arrays();
        PyGILState_Release(state);
        py_call_ended();
    } else
        TF_SetStatus(s, TF_CANCELLED, "The interpreter of Python is ending");
    mr_function_call_finish(c, s);
    TF_DeleteStatus(s);
}

static void wait_for_calls(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_SECONDS;
    pthread_mutex_lock(&mu);
    ending = true;
    for (int r = 0; under_way > 0 && r == 0;)
        r = pthread_cond_timedwait(&fewer, &mu, &until);
    pthread_mutex_unlock(&mu);
}

bool py_calls_under_way(void)
{
    pthread_mutex_lock(&mu);
    bool some = ending && under_way > 0;
    pthread_mutex_unlock(&mu);
    return some;
}

/* end_function_calls(): for atexit; no function is called after it. */
static PyObject *end_function_calls(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    Py_BEGIN_ALLOW_THREADS
    wait_for_calls();
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

/* set_function_caller(callable): callable(token, inputs) -> outputs */
static PyObject *set_function_caller(PyObject *module, PyObject *callable)
{
    (void)module;
    Py_XSETREF(caller, Py_NewRef(callable));
    mr_set_function_hook(hook, NULL);
    Py_RETURN_NONE;
}

PyMethodDef py_function_methods[] = {
    {"set_function_caller", set_function_caller, METH_O, "set_function_caller(callable): callable(token, inputs) -> outputs"},
    {"fitting", (PyCFunction)(void (*)(void))py_fitting, METH_FASTCALL,
     "fitting(value, wanted, convert): the items of a tuple as a list, converted where they are not as wanted"},
    {"end_function_calls", end_function_calls, METH_NOARGS, "For atexit: waits for calls, and refuses those that follow."},
    {0}};
