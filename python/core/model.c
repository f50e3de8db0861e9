/* model.c -- a model of the library (millrace/train.h) made of what the package has in Python.
 *
 * Variables come as a list of tuples, which millrace/ops/adopted.py puts together:
 *
 *     (variable, trainable, gradient or None, indices or None, dense shape or None[, initializer])
 *
 * The package has differentiated the loss already, with the gradients of Python functions among it. */
#include "model.h"

bool py_take_output(const py_graph *g, PyObject *o, TF_Output *out)
{
    *out = (TF_Output){NULL, 0};
    if (o == Py_None)
        return true;
    return py_output_of(o, out) && py_in_graph(g, ((py_output *)o)->op);
}

bool py_take_operation(const py_graph *g, PyObject *o, TF_Operation **out)
{
    if (!PyObject_TypeCheck(o, &py_operation_type)) {
        PyErr_Format(PyExc_TypeError, "An operation is expected, not %R", o);
        return false;
    }
    *out = ((py_operation *)o)->op;
    return py_in_graph(g, (py_operation *)o);
}

static bool adopt(mr_model *m, const py_graph *g, PyObject *tuple)
{
    PyObject *variable, *gradient, *indices, *shape, *initializer = NULL;
    TF_Output v;
    int trainable;
    mr_adopt_options o = {.struct_size = sizeof o, .differentiated = 1};
    if (!py_is_tuple(tuple) || !PyArg_ParseTuple(tuple, "O!pOOO|O", &py_output_type, &variable, &trainable, &gradient, &indices, &shape,
                                                 &initializer))
        return false;
    o.fixed = !trainable;
    bool ok = py_take_output(g, variable, &v) && py_take_output(g, gradient, &o.gradient) && py_take_output(g, indices, &o.indices) &&
              py_take_output(g, shape, &o.dense_shape) && (!initializer || py_take_operation(g, initializer, &o.initializer));
    if (ok)
        mr_model_adopt(m, v, &o);
    return ok;
}

bool py_model_ok(const mr_model *m)
{
    TF_Status *st = py_status_new();
    if (!st)
        return false;
    mr_model_status(m, st);
    return py_status_ok(st);
}

bool py_model_adopt(mr_model *m, const py_graph *g, PyObject *variables)
{
    PyObject *items = py_items(variables, "Variables are a sequence of tuples");
    bool ok = items;
    for (Py_ssize_t i = 0; ok && i < PyTuple_GET_SIZE(items); i++)
        ok = adopt(m, g, PyTuple_GET_ITEM(items, i));
    Py_XDECREF(items);
    return ok && py_model_ok(m);
}

mr_model *py_model_of(const py_graph *g, PyObject *variables)
{
    mr_model *m = mr_model_new(g->graph);
    if (m && py_model_adopt(m, g, variables))
        return m;
    mr_model_free(m);
    return NULL;
}

bool py_enter(bool open, bool *busy)
{
    if (open && !*busy)
        return *busy = true;
    PyErr_SetString(PyExc_RuntimeError, open ? "Another thread is using this object" : "This object is closed");
    return false;
}
