/* model.h -- what Downpour, Sandblaster and Training share: their models, and one thread at a time. */
#ifndef MR_PYTHON_MODEL_H
#define MR_PYTHON_MODEL_H

#include "core.h"
#include "millrace/distbelief.h"

/* An output of this graph, or None, which is none.  false with an exception set. */
bool py_take_output(const py_graph *g, PyObject *o, TF_Output *out);
bool py_take_operation(const py_graph *g, PyObject *o, TF_Operation **out); /* one of this graph */
/* Adds variables to a model; false with an exception set, the model's error too. */
bool py_model_adopt(mr_model *m, const py_graph *g, PyObject *variables);
/* NULL with an exception set. */
mr_model *py_model_of(const py_graph *g, PyObject *variables);
bool py_model_ok(const mr_model *m); /* the model's first error as an exception */
/* One thread at a time is in an object: `busy`, which the interpreter's lock guards. */
bool py_enter(bool open, bool *busy);

#endif
