/* gradient.c -- gradients by the library, with functions of Python for the operations that have one. */
#include "core.h"

typedef struct custom { /* gradients by functions of Python */
    py_graph *graph;
    PyObject *wants, *make;
    bool failed; /* an exception is set */
} custom;

static int wants(void *arg, TF_Operation *op)
{
    custom *c = arg;
    PyObject *o = c->failed ? NULL : py_wrap(c->graph, op);
    PyObject *yes = o ? PyObject_CallOneArg(c->wants, o) : NULL;
    int r = yes ? PyObject_IsTrue(yes) : -1;
    c->failed |= r < 0;
    Py_XDECREF(o);
    Py_XDECREF(yes);
    return r > 0;
}

/* A tensor, or a triple of values, indices and dense shape, or None. */
static PyObject *wrap_gradient(py_graph *g, TF_Output dense, const mr_sparse_output *sparse)
{
    if (dense.oper || !sparse->values.oper)
        return py_wrap_output(g, dense);
    return Py_BuildValue("NNN", py_wrap_output(g, sparse->values), py_wrap_output(g, sparse->indices),
                         py_wrap_output(g, sparse->dense_shape));
}

static PyObject *arrived(py_graph *g, const mr_gradient_value *dy, int n)
{
    PyObject *list = PyList_New(n);
    for (int i = 0; list && i < n; i++) {
        PyObject *o = wrap_gradient(g, dy[i].dense, &dy[i].sparse);
        if (o)
            PyList_SET_ITEM(list, i, o);
        else
            Py_CLEAR(list);
    }
    return list;
}

static bool take_gradient(PyObject *o, mr_gradient_value *dx)
{
    if (o == Py_None)
        return true;
    if (!PyTuple_Check(o))
        return py_output_of(o, &dx->dense);
    PyObject *values, *indices, *shape;
    return PyArg_ParseTuple(o, "OOO", &values, &indices, &shape) && py_output_of(values, &dx->sparse.values) &&
           py_output_of(indices, &dx->sparse.indices) && py_output_of(shape, &dx->sparse.dense_shape);
}

static bool take_gradients(PyObject *list, mr_gradient_value *dx, int n)
{
    PyObject *items = py_items(list, "Gradients are a sequence");
    bool ok = items;
    if (ok && PyTuple_GET_SIZE(items) != n) {
        PyErr_Format(PyExc_ValueError, "Num gradients %zd generated for an op does not match num inputs %d",
                     PyTuple_GET_SIZE(items), n);
        ok = false;
    }
    for (int i = 0; ok && i < n; i++)
        ok = take_gradient(PyTuple_GET_ITEM(items, i), &dx[i]);
    Py_XDECREF(items);
    return ok;
}

static int make_gradients(void *arg, TF_Graph *graph, TF_Operation *op, const mr_gradient_value *dy, mr_gradient_value *dx)
{
    (void)graph;
    custom *c = arg;
    if (c->failed)
        return 1;
    PyObject *o = py_wrap(c->graph, op);
    PyObject *in = o ? arrived(c->graph, dy, TF_OperationNumOutputs(op)) : NULL;
    PyObject *out = in ? PyObject_CallFunctionObjArgs(c->make, o, in, NULL) : NULL;
    c->failed = !out || !take_gradients(out, dx, TF_OperationNumInputs(op));
    Py_XDECREF(o);
    Py_XDECREF(in);
    Py_XDECREF(out);
    return 1;
}

static PyObject *gradient_list(py_graph *g, const TF_Output *dense, const mr_sparse_output *sparse, int n)
{
    PyObject *list = PyList_New(n);
    for (int i = 0; list && i < n; i++) {
        PyObject *o = wrap_gradient(g, dense[i], &sparse[i]);
        if (o)
            PyList_SET_ITEM(list, i, o);
        else
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *differentiate(py_graph *g, PyObject *ys, PyObject *xs, PyObject *stop, mr_gradients_options *o,
                               PyObject *grad_ys)
{
    TF_Output *y = NULL, *x = NULL, *halt = NULL, *gy = NULL, *dense = NULL;
    mr_sparse_output *sparse = NULL;
    PyObject *result = NULL;
    int ny, nx, ngy;
    bool ok = py_outputs(ys, &y, &ny) && py_outputs(xs, &x, &nx) && py_outputs(stop, &halt, &o->num_stop) &&
              (grad_ys == Py_None || py_outputs(grad_ys, &gy, &ngy));
    if (ok && gy && ngy != ny) {
        PyErr_Format(PyExc_ValueError, "Passed %d grad_ys for %d ys", ngy, ny);
        ok = false;
    }
    custom *c = o->override_arg;
    TF_Status *s = ok ? py_status_new() : NULL;
    if (s) {
        dense = PyMem_Calloc((size_t)nx + 1, sizeof(*dense));
        sparse = PyMem_Calloc((size_t)nx + 1, sizeof(*sparse));
        o->stop = halt;
        o->grad_ys = gy;
        if (dense && sparse)
            mr_gradients(g->graph, y, ny, x, nx, o, dense, sparse, s);
        else
            TF_SetStatus(s, TF_RESOURCE_EXHAUSTED, "No memory for gradients");
        if (c->failed)
            TF_DeleteStatus(s);
        else if (py_status_ok(s))
            result = gradient_list(g, dense, sparse, nx);
    }
    PyMem_Free(y);
    PyMem_Free(x);
    PyMem_Free(halt);
    PyMem_Free(gy);
    PyMem_Free(dense);
    PyMem_Free(sparse);
    return result;
}

/* gradients(ys, xs, grad_ys or None, stop, prefix, colocate, wants or None, make or None): a list with an output, a triple of
 * values, indices and dense shape, or None for each x. */
PyObject *py_graph_gradients(py_graph *g, PyObject *args)
{
    PyObject *ys, *xs, *grad_ys, *stop, *want, *make;
    const char *prefix;
    int colocate;
    if (!PyArg_ParseTuple(args, "OOOOspOO", &ys, &xs, &grad_ys, &stop, &prefix, &colocate, &want, &make))
        return NULL;
    custom c = {.graph = g, .wants = want, .make = make};
    mr_gradients_options o = {.struct_size = sizeof o, .prefix = prefix, .colocate = (unsigned char)colocate,
                              .override_arg = &c};
    if (make != Py_None) {
        o.override_any = make_gradients;
        o.overrides = wants;
    }
    return differentiate(g, ys, xs, stop, &o, grad_ys);
}
