/* core.h -- what the files of the extension module `_millrace` share.
 *
 * The module is the C API as Python objects: graphs, operations, outputs, sessions, servers, functions.  It knows dtypes by
 * their numbers, shapes as tuples, tensors as numpy arrays, protocol messages as bytes; names, scopes and conversions are the
 * business of the package in ../millrace, whose classes Operation and Tensor are subclasses of the ones here.
 *
 * The lock of the interpreter (GIL) is held everywhere but around calls that wait: runs, servers, partial runs. */
#ifndef MR_PYTHON_CORE_H
#define MR_PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL mr_py_array_api
#ifndef MR_PY_MODULE
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "millrace/front_end.h"
#include "millrace/train.h"
#include "tensorflow/c/c_api.h"

/* Operations live as long as their graph, so each object holds on to the graph's. */
typedef struct py_graph {
    PyObject_HEAD
    TF_Graph *graph;
    PyObject *ops;   /* dict: address of an operation -> its object */
    PyObject *dict;
    PyObject *weak;
} py_graph;

typedef struct py_operation {
    PyObject_HEAD
    TF_Operation *op;
    py_graph *graph;
} py_operation;

typedef struct py_output {
    PyObject_HEAD
    py_operation *op;
    int index;
} py_output;

extern PyTypeObject py_graph_type, py_operation_type, py_output_type, py_session_type, py_server_type, py_function_type,
    py_reader_type, py_federated_type, py_ps_type, py_ps_task_type, py_ps_manager_type, py_ps_server_type,
    py_group_type, py_cluster_task_type, py_training_type, py_downpour_type, py_sandblaster_type, py_sandblaster_replica_type;

/* ---- status.c ---- */
/* A status to be handed to the C API; NULL with an exception set. */
TF_Status *py_status_new(void);
/* Deletes it; false with an exception set when it holds an error. */
bool py_status_ok(TF_Status *s);
PyObject *py_set_error_maker(PyObject *module, PyObject *maker);
/* The message of the exception that is set, which is cleared, as a status. */
void py_status_from_exception(TF_Status *s);

/* ---- arrays.c ---- */
/* New references and handles; NULL with an exception set. */
TF_Tensor *py_tensor_from(PyObject *value, int dtype);
PyObject *py_array_from(TF_Tensor *t); /* takes t over; a scalar of numpy for rank 0 */
/* Releases arrays that tensors have let go of in threads without the interpreter's lock. */
void py_release_arrays(void);
PyObject *py_fitting(PyObject *module, PyObject *const *args, Py_ssize_t n_args); /* the function fitting() of the module */
/* The bytes of a Python string of either kind; NULL with an exception set. */
const char *py_string(PyObject *o, Py_ssize_t *n);
PyObject *py_bytes_from(TF_Buffer *b); /* takes b over, which may be NULL */

/* ---- graph.c ---- */
PyObject *py_wrap(py_graph *g, TF_Operation *op); /* new reference; None for NULL */
PyObject *py_wrap_output(py_graph *g, TF_Output o); /* an output of the operation's `outputs`; None for no operation */
/* The items of a sequence as a tuple, which no Python code that runs meanwhile can change; NULL with an exception set. */
PyObject *py_items(PyObject *sequence, const char *complaint);
bool py_no_keywords(PyTypeObject *type, PyObject *kwargs); /* false with an exception set */
bool py_is_tuple(PyObject *o); /* false with an exception set */
const char *py_text(PyObject *o); /* of a str without a NUL, which lasts as long as it does; NULL with an exception set */
/* The outputs or operations in a sequence; the array is to be freed.  false with an exception set. */
bool py_outputs(PyObject *sequence, TF_Output **out, int *n);
bool py_operations(PyObject *sequence, TF_Operation ***out, int *n);
PyObject *py_shape(int n_dims, const int64_t *dims); /* tuple of ints and None; n_dims -1: None */
/* A shape from None or a sequence of ints and None (or -1).  n -1: unknown rank; dims to be freed. */
bool py_shape_from(PyObject *o, int64_t **dims, int *n);

bool py_in_graph(const py_graph *g, const py_operation *op); /* false with an exception set */
bool py_output_of(PyObject *o, TF_Output *out); /* false with an exception set */
/* For functions of the C API that fill a buffer: both new, false with an exception set; then the bytes, or the exception. */
bool py_new_buffer(TF_Buffer **b, TF_Status **s);
PyObject *py_finish_buffer(TF_Buffer *b, TF_Status *s);

/* ---- import.c, gradient.c, function.c: methods of Graph ---- */
PyObject *py_graph_import(py_graph *g, PyObject *args);
PyObject *py_graph_gradients(py_graph *g, PyObject *args);
PyObject *py_graph_to_function(py_graph *g, PyObject *args);
PyObject *py_graph_add_function(py_graph *g, PyObject *args);

/* ---- session.c ---- */
TF_Session *py_session_of(PyObject *session, const py_graph *g); /* an open one of this graph; NULL with an exception set */
/* A run that is made by somebody else: feeds, values and fetches are lists as Session.run has them.  A list of arrays, or NULL with
 * an exception set, which fn may have done. */
typedef void py_runner(void *arg, const TF_Output *feeds, TF_Tensor *const *values, int n_feeds, const TF_Output *fetches,
                       TF_Tensor **results, int n_fetches, TF_Status *st);
PyObject *py_run_on(const py_graph *g, PyObject *feeds, PyObject *values, PyObject *fetches, py_runner *fn, void *arg);
/* The same of a session, and without the interpreter's lock. */
PyObject *py_run_by(PyObject *session, PyObject *feeds, PyObject *values, PyObject *fetches, py_runner *fn, void *arg);

/* ---- ps.c ---- */
/* A client that is not closed before it is released as often; NULL with an exception set. */
struct mr_ps *py_ps_hold(PyObject *ps);
void py_ps_release(PyObject *ps);

/* ---- attrs.c ---- */
bool py_set_attr(TF_OperationDescription *d, const char *name, const char *kind, PyObject *value);
PyObject *py_get_attr(py_operation *o, PyObject *name);

/* ---- callback.c ---- */
/* Whether a thread of the library will never come back, for the interpreter ended while it was in a function of Python. */
bool py_calls_under_way(void);
/* Around a function of Python that a thread of the library calls, without the interpreter's lock.  false: the interpreter is
 * ending, so it must not be called. */
bool py_call_begins(void);
void py_call_ended(void);

/* ---- signals.c ---- */
/* Around a call that waits, both with the lock held: between them Ctrl-C ends runs of the main thread. */
void py_waits(void);
void py_waited(void);

/* From now on what the library logs is printed to standard error (misc.c). */
void py_print_log(void);
extern PyMethodDef py_signal_methods[], py_function_methods[], py_misc_methods[], py_federated_methods[];

#endif
