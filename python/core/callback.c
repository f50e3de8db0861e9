/* callback.c -- tf.py_func: operations whose work is done by Python.
 *
 * One callable of the package is given the token of an operation and its inputs as arrays, and returns a sequence of values for
 * its outputs.  Threads of the library call it with the interpreter's lock. */
#include "core.h"

static PyObject *caller;

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
        PyErr_Format(PyExc_ValueError, "The function returned %zd values, the operation has %d outputs", PyTuple_GET_SIZE(list), n);
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

static void hook(void *ctx, mr_function_call *c)
{
    (void)ctx;
    TF_Status *s = TF_NewStatus();
    PyGILState_STATE state = PyGILState_Ensure();
    if (!call_python(c))
        py_status_from_exception(s);
    py_release_arrays();
    PyGILState_Release(state);
    mr_function_call_finish(c, s);
    TF_DeleteStatus(s);
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
    {"set_function_caller", set_function_caller, METH_O, "set_function_caller(callable): callable(token, inputs) -> outputs"}, {0}};
