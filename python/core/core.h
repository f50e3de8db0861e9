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

/* The scopes that a thread is in while it builds a graph (scopes.c). */
typedef struct py_scopes {
    PyObject_HEAD
    PyObject *names;      /* str: the prefix of new names, without a slash at its end */
    PyObject *context;    /* the branch or loop, or None */
    PyObject *controls;   /* list of scopes of control dependencies */
    PyObject *colocation; /* list of operations */
    PyObject *devices;    /* list of functions, innermost last; None forgets those before it */
} py_scopes;

/* Operations live as long as their graph, so each object holds on to the graph's. */
typedef struct py_graph {
    PyObject_HEAD
    TF_Graph *graph;
    PyObject *ops;   /* dict: address of an operation -> its object */
    PyObject *dict;
    PyObject *weak;
    char finalized;             /* refuses new operations */
    PyObject *names;            /* dict: lower-case name in use -> number to try next */
    size_t names_at;            /* of the operations whose names are in it */
    py_scopes *scopes;          /* of the thread that asked last */
    uint64_t scopes_thread;
    PyObject *attr_scopes, *gradient_override, *kernel_labels; /* dicts; attrs that scopes add to new operations */
    struct py_where *last_where; /* of the last new operation: the next is often made at the same place */
    struct py_where_range *ranges; /* where operations were made that have no object yet */
    size_t n_ranges;
} py_graph;

typedef struct py_operation {
    PyObject_HEAD
    TF_Operation *op;
    py_graph *graph;
    PyObject *outputs;       /* list of Outputs; NULL: not made yet */
    PyObject *context;       /* the branch or loop it is in, or None */
    PyObject *original;      /* anything that the package keeps there, or None */
    struct py_where *where;  /* where it was made; NULL: see the graph's ranges */
} py_operation;

typedef struct py_output {
    PyObject_HEAD
    py_operation *op;
    int index;
} py_output;

extern PyTypeObject py_graph_type, py_operation_type, py_output_type, py_scopes_type, py_plan_type, py_session_type, py_callable_type, py_server_type, py_function_type,
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

/* The list of an operation's outputs, which is made when it is first asked for; new reference. */
PyObject *py_outputs_of(py_operation *o);
/* The object of a DType by its number (set_dtypes), borrowed; NULL with an exception set. */
PyObject *py_dtype(int number);
PyObject *py_set_dtypes(PyObject *module, PyObject *by_number);

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

/* ---- scopes.c ---- */
py_scopes *py_scopes_of(py_graph *g); /* of this thread; borrowed; NULL with an exception set */
/* The name under the thread's prefix, made unique; new reference. */
PyObject *py_unique_name(py_graph *g, PyObject *name, bool mark);
/* Makes a name the prefix, as name_scope does; the former prefix, a new reference. */
PyObject *py_push_name(py_graph *g, PyObject *name);
/* Learns the names of operations that the library made by itself; false with an exception set. */
bool py_learn_names(py_graph *g);
/* Whether this is a name that an operation, or a scope below another, can have. */
bool py_valid_name(PyObject *name, bool below);
py_graph *py_default_graph(void); /* new reference; NULL with an exception set */
/* The innermost graph entered in this thread, borrowed; NULL without an exception if there is none. */
PyObject *py_entered_graph(void);
/* Enters a graph in this thread; the list of those entered, a new reference for py_pop_default. */
PyObject *py_push_default(py_graph *g);
void py_pop_default(PyObject *list, py_graph *g);
PyObject *py_set_default_graphs(PyObject *module, PyObject *args);
PyObject *py_get_default_graph(PyObject *module, PyObject *unused);
/* Methods and attributes of Graph. */
enum { PY_SCOPE_NAMES, PY_SCOPE_CONTEXT, PY_SCOPE_CONTROLS, PY_SCOPE_COLOCATION, PY_SCOPE_DEVICES };
PyObject *py_graph_scope(py_graph *g, void *which);
int py_graph_set_scope(py_graph *g, PyObject *value, void *which);
PyObject *py_graph_unique_name(py_graph *g, PyObject *args, PyObject *kwargs);
PyObject *py_graph_number(py_graph *g, PyObject *unused); /* of its operations */

/* ---- where.c ---- */
/* Where Python is now, without frames of the package; NULL if there is no memory.  `same`, which may be NULL, is returned
 * with one more reference if it is the same place. */
struct py_where *py_where_now(struct py_where *same);
struct py_where *py_where_ref(struct py_where *w);
void py_where_unref(struct py_where *w); /* NULL is fine */
PyObject *py_where_list(const struct py_where *w); /* [(code, line)], innermost first */
/* Operations from the first on were made here; they get no objects now. */
void py_where_of_range(py_graph *g, size_t first);
struct py_where *py_where_in_ranges(const py_graph *g, size_t index); /* borrowed, or NULL */
void py_where_free_ranges(py_graph *g);
PyObject *py_set_package(PyObject *module, PyObject *prefix);

/* ---- apply.c: methods of Graph ---- */
PyObject *py_graph_add(py_graph *g, PyObject *args, PyObject *kwargs);
PyObject *py_graph_controls_for(py_graph *g, PyObject *inputs);
PyObject *py_colocation_groups(py_operation *o, PyObject *unused);
extern PyMethodDef py_apply_methods[];

/* ---- session.c ---- */
TF_Session *py_session_if_open(PyObject *session); /* NULL without an exception: it was closed */
py_graph *py_graph_of_session(PyObject *session);  /* borrowed */
/* The shape of an output as the graph has it; n -1: unknown rank, dims -1: unknown; dims to be freed.  false with an exception. */
bool py_shape_of_output(const py_graph *g, TF_Output out, int64_t **dims, int *n);
/* What is fed must have a shape that the graph allows.  false with an exception set. */
bool py_check_shape(const py_graph *g, PyObject *tensor, TF_Output out, const TF_Tensor *t);
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
