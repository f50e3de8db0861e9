/* ps_task.h -- PsTask, for the client that begins it. */
#ifndef MR_PYTHON_PS_TASK_H
#define MR_PYTHON_PS_TASK_H

#include "core.h"
#include "millrace/ps.h"

typedef struct py_ps_task {
    PyObject_HEAD
    PyObject *ps; /* the client */
    struct py_ps_block *b;
    mr_ps_task number;
    npy_intp n;   /* of rows that are pulled */
    int width;    /* 0: a push */
} py_ps_task;

/* Of n rows; width: floats of a row that is pulled, 0: a push.  NULL with an exception set. */
py_ps_task *py_ps_task_new(PyObject *ps, size_t n, int width);
void py_ps_task_told_by(py_ps_task *t, mr_ps_call *call); /* its end comes from the library, once */
float *py_ps_task_values(py_ps_task *t);                  /* where a pull writes */
void py_ps_task_unbegun(py_ps_task *t);                   /* the library does not know it: frees it; NULL is fine */

#endif
