/* status.c -- errors of the C API as exceptions.
 *
 * The package sets a function that makes an exception of a code and a message (set_error_maker); before that, errors are
 * RuntimeErrors. */
#include "core.h"

static PyObject *error_maker;

PyObject *py_set_error_maker(PyObject *module, PyObject *maker)
{
    (void)module;
    Py_XSETREF(error_maker, Py_NewRef(maker));
    Py_RETURN_NONE;
}

TF_Status *py_status_new(void)
{
    TF_Status *s = TF_NewStatus();
    if (!s)
        PyErr_NoMemory();
    return s;
}

static void raise_error(int code, const char *message)
{
    PyObject *text = PyUnicode_DecodeUTF8(message, (Py_ssize_t)strlen(message), "replace");
    if (!text)
        return;
    PyObject *maker = Py_XNewRef(error_maker); /* another may be set while it works */
    PyObject *e = maker ? PyObject_CallFunction(maker, "iO", code, text) : NULL;
    Py_XDECREF(maker);
    if (e)
        PyErr_SetObject((PyObject *)Py_TYPE(e), e);
    else if (!PyErr_Occurred())
        PyErr_SetObject(PyExc_RuntimeError, text);
    Py_XDECREF(e);
    Py_DECREF(text);
}

bool py_status_ok(TF_Status *s)
{
    bool ok = TF_GetCode(s) == TF_OK;
    /* Whoever pressed Ctrl-C wants to see that, not what it led to. */
    if (!ok && (TF_GetCode(s) != TF_CANCELLED || PyErr_CheckSignals() == 0))
        raise_error((int)TF_GetCode(s), TF_Message(s));
    TF_DeleteStatus(s);
    return ok;
}

/* Which of our codes a function of Python means by its exception. */
static TF_Code code_of(PyObject *type)
{
    if (PyErr_GivenExceptionMatches(type, PyExc_TypeError) || PyErr_GivenExceptionMatches(type, PyExc_ValueError))
        return TF_INVALID_ARGUMENT;
    if (PyErr_GivenExceptionMatches(type, PyExc_StopIteration))
        return TF_OUT_OF_RANGE;
    if (PyErr_GivenExceptionMatches(type, PyExc_MemoryError))
        return TF_RESOURCE_EXHAUSTED;
    if (PyErr_GivenExceptionMatches(type, PyExc_NotImplementedError))
        return TF_UNIMPLEMENTED;
    return TF_UNKNOWN;
}

/* The message of an exception: its type, its text and, if traced, where it was raised.  The caller owns it; NULL on failure. */
static PyObject *text_of(PyObject *type, PyObject *value, PyObject *trace, bool traced)
{
    PyObject *text = value ? PyUnicode_FromFormat("%s: %S", ((PyTypeObject *)type)->tp_name, value) : NULL;
    PyObject *module = text && traced && trace ? PyImport_ImportModule("traceback") : NULL;
    PyObject *lines = module ? PyObject_CallMethod(module, "format_exception", "OOO", type, value, trace) : NULL;
    PyObject *none = lines ? PyUnicode_FromString("") : NULL;
    PyObject *where = none ? PyUnicode_Join(none, lines) : NULL;
    if (where) {
        PyObject *both = PyUnicode_FromFormat("%U\n%U", text, where);
        if (both)
            Py_SETREF(text, both);
    }
    PyErr_Clear(); /* without a trace the text is still right */
    Py_XDECREF(where);
    Py_XDECREF(none);
    Py_XDECREF(lines);
    Py_XDECREF(module);
    return text;
}

/* An error of ours (with an error_code) says what is wrong; of others a user needs to know where they came from. */
void py_status_from_exception(TF_Status *s)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    PyObject *code = value ? PyObject_GetAttrString(value, "error_code") : NULL;
    long number = code ? PyLong_AsLong(code) : -1;
    PyErr_Clear();
    bool known = number > TF_OK && number <= TF_UNAUTHENTICATED;
    PyObject *text = text_of(type, value, trace, !known);
    const char *message = text ? PyUnicode_AsUTF8(text) : NULL;
    TF_Code meant = known ? (TF_Code)number : type ? code_of(type) : TF_UNKNOWN;
    TF_SetStatus(s, meant, message ? message : "An exception without a text");
    PyErr_Clear();
    Py_XDECREF(code);
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
}
