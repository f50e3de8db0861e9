/* misc.c -- what is asked of the library itself: messages, ops, libraries of ops, checkpoints, checksums, predictions. */
#include "core.h"

#include <limits.h>
#include <time.h>
#include <unistd.h>

#include "millrace/cluster.h"
#include "millrace/data.h"
#include "tensorflow/c/c_api_experimental.h"
#include "tensorflow/c/logging.h"

/* ---- messages ---- */

static PyObject *message_describe(PyObject *module, PyObject *name)
{
    (void)module;
    const char *n = py_text(name);
    TF_Status *s = n ? py_status_new() : NULL;
    return s ? py_finish_buffer(mr_message_describe(n, s), s) : NULL;
}

static PyObject *enum_describe(PyObject *module, PyObject *name)
{
    (void)module;
    const char *n = py_text(name);
    TF_Status *s = n ? py_status_new() : NULL;
    return s ? py_finish_buffer(mr_enum_describe(n, s), s) : NULL;
}

/* message_to_text(name, bytes) -> str */
static PyObject *message_to_text(PyObject *module, PyObject *args)
{
    (void)module;
    const char *name, *p;
    Py_ssize_t n;
    if (!PyArg_ParseTuple(args, "sy#", &name, &p, &n))
        return NULL;
    TF_Status *s = py_status_new();
    TF_Buffer *b = s ? mr_message_to_text(name, p, (size_t)n, s) : NULL;
    PyObject *text = b ? PyUnicode_DecodeUTF8(b->data ? b->data : "", (Py_ssize_t)b->length, "replace") : NULL;
    TF_DeleteBuffer(b);
    if (s && py_status_ok(s))
        return text;
    Py_XDECREF(text);
    return NULL;
}

/* message_from_text(name, str) -> bytes */
static PyObject *message_from_text(PyObject *module, PyObject *args)
{
    (void)module;
    const char *name, *p;
    Py_ssize_t n;
    if (!PyArg_ParseTuple(args, "ss#", &name, &p, &n))
        return NULL;
    TF_Status *s = py_status_new();
    return s ? py_finish_buffer(mr_message_from_text(name, p, (size_t)n, s), s) : NULL;
}

/* ---- ops ---- */

static PyObject *all_ops(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return py_bytes_from(TF_GetAllOpList());
}

/* A library of ops; the serialized OpList of what it added. */
static PyObject *load_library(PyObject *module, PyObject *path)
{
    (void)module;
    const char *p = py_text(path);
    TF_Status *s = p ? py_status_new() : NULL;
    TF_Library *l = s ? TF_LoadLibrary(p, s) : NULL;
    if (!s || !py_status_ok(s))
        return NULL;
    TF_Buffer b = TF_GetOpList(l); /* the library stays: its ops do */
    return PyBytes_FromStringAndSize(b.data, (Py_ssize_t)b.length);
}

static PyObject *kernels_of(PyObject *module, PyObject *name)
{
    (void)module;
    const char *n = py_text(name);
    TF_Status *s = n ? py_status_new() : NULL;
    return s ? py_finish_buffer(TF_GetRegisteredKernelsForOp(n, s), s) : NULL;
}

/* reset(target, ConfigProto, containers) */
static PyObject *reset(PyObject *module, PyObject *args)
{
    (void)module;
    const char *target, *config;
    Py_ssize_t n;
    PyObject *containers;
    if (!PyArg_ParseTuple(args, "sy#O", &target, &config, &n, &containers))
        return NULL;
    PyObject *list = py_items(containers, "Containers are a sequence of names");
    if (!list)
        return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(list);
    const char **names = PyMem_Calloc((size_t)count + 1, sizeof(*names));
    TF_Status *s = names ? py_status_new() : (TF_Status *)PyErr_NoMemory();
    bool ok = s;
    for (Py_ssize_t i = 0; ok && i < count; i++)
        ok = (names[i] = py_text(PyTuple_GET_ITEM(list, i)));
    if (ok) {
        TF_SessionOptions *o = TF_NewSessionOptions();
        TF_SetTarget(o, target);
        TF_SetConfig(o, config, (size_t)n, s);
        if (TF_GetCode(s) == TF_OK) {
            Py_BEGIN_ALLOW_THREADS
            TF_Reset(o, names, (int)count, s);
            Py_END_ALLOW_THREADS
        }
        TF_DeleteSessionOptions(o);
        ok = py_status_ok(s);
    } else if (s)
        TF_DeleteStatus(s);
    PyMem_Free(names);
    Py_DECREF(list);
    return ok ? Py_NewRef(Py_None) : NULL;
}

static PyObject *version(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return Py_BuildValue("ss", mr_version(), TF_Version());
}

/* The masked CRC-32C of TFRecord files. */
static PyObject *masked_crc(PyObject *module, PyObject *data)
{
    (void)module;
    Py_buffer b;
    if (PyObject_GetBuffer(data, &b, PyBUF_SIMPLE) < 0)
        return NULL;
    uint32_t crc = mr_masked_crc32c(b.buf, (size_t)b.len);
    PyBuffer_Release(&b);
    return PyLong_FromUnsignedLong(crc);
}

/* A tensor of a serialized TensorProto, as an array. */
static PyObject *array_from_proto(PyObject *module, PyObject *bytes)
{
    (void)module;
    char *p;
    Py_ssize_t n;
    TF_Status *s = PyBytes_AsStringAndSize(bytes, &p, &n) == 0 ? py_status_new() : NULL;
    if (!s)
        return NULL;
    TF_Buffer *b = TF_NewBufferFromString(p, (size_t)n);
    TF_Tensor *t = TF_AllocateTensor(TF_FLOAT, NULL, 0, sizeof(float)); /* takes on what the message says */
    if (t && b)
        TF_TensorFromProto(b, t, s);
    else
        TF_SetStatus(s, TF_RESOURCE_EXHAUSTED, "No memory for a tensor");
    TF_DeleteBuffer(b);
    if (!py_status_ok(s)) {
        TF_DeleteTensor(t);
        return NULL;
    }
    return py_array_from(t);
}

/* Digits that are drawn here, for programs that cannot have MNIST: (images, labels); with `test` those to test with. */
static PyObject *generated_digits(PyObject *module, PyObject *test)
{
    (void)module;
    int split = PyObject_IsTrue(test);
    TF_Status *s = split >= 0 ? py_status_new() : NULL;
    mr_digits *d = s ? mr_digits_open(NULL, s) : NULL;
    TF_Tensor *images = NULL, *labels = NULL;
    if (d) {
        mr_split which = split ? MR_SPLIT_TEST : MR_SPLIT_TRAIN;
        mr_digits_batch(d, which, 0, 0, mr_digits_count(d, which), &images, &labels, s);
        mr_digits_free(d);
    }
    if (!s || !py_status_ok(s))
        return NULL;
    PyObject *i = py_array_from(images), *l = py_array_from(labels), *both = i && l ? PyTuple_Pack(2, i, l) : NULL;
    Py_XDECREF(i);
    Py_XDECREF(l);
    return both;
}

/* Seconds in a sequence, as an array to be freed.  *n is how many there must be; -1: any number, which it becomes.  NULL with an
 * exception set. */
static double *seconds_of(PyObject *sequence, Py_ssize_t *n)
{
    PyObject *items = py_items(sequence, "Seconds are a sequence of numbers");
    Py_ssize_t count = items ? PyTuple_GET_SIZE(items) : 0;
    double *of = items ? PyMem_Calloc((size_t)count + 1, sizeof *of) : NULL;
    if (items && !of)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; of && i < count; i++) {
        of[i] = PyFloat_AsDouble(PyTuple_GET_ITEM(items, i));
        if (of[i] == -1 && PyErr_Occurred()) {
            PyMem_Free(of);
            of = NULL;
        }
    }
    Py_XDECREF(items);
    if (of && *n >= 0 && *n != count) {
        PyErr_Format(PyExc_ValueError, "The lists of forward and backward seconds differ in length (%zd and %zd)", *n, count);
        PyMem_Free(of);
        return NULL;
    }
    *n = count;
    return of;
}

/* pipeline_predict(forward, backward, micro_batches, order, transfer) -> dict */
static PyObject *pipeline_predict(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *forward, *backward;
    int micro, order;
    double transfer;
    Py_ssize_t n = -1;
    if (!PyArg_ParseTuple(args, "OOiid", &forward, &backward, &micro, &order, &transfer))
        return NULL;
    double *f = seconds_of(forward, &n), *b = f ? seconds_of(backward, &n) : NULL;
    TF_Status *s = b ? py_status_new() : NULL;
    mr_pipeline_figures out = {.struct_size = sizeof out};
    if (s) {
        mr_pipeline_options o = {.struct_size = sizeof o, .num_stages = (int)Py_MIN(n, INT_MAX), .micro_batches = micro,
                                 .kind = (mr_pipeline_kind)order};
        mr_pipeline_predict(&o, f, b, transfer, &out, s);
    }
    PyMem_Free(f);
    PyMem_Free(b);
    if (!s || !py_status_ok(s))
        return NULL;
    return Py_BuildValue("{sdsdsdsi}", "step", out.step_s, "alone", out.alone_s, "bubble", out.bubble, "kept", out.most_kept);
}

/* ---- the log, and a launcher's table ---- */

/* As TensorFlow does: a line on standard error, unless TF_CPP_MIN_LOG_LEVEL leaves its level out.  From any thread,
 * with or without the interpreter's lock, so nothing of Python is touched. */
static void print_log(int level, const char *text)
{
    char line[2048];
    struct timespec now;
    struct tm tm;
    const char *least = getenv("TF_CPP_MIN_LOG_LEVEL");
    if (least && level < atoi(least))
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &tm);
    size_t n = strftime(line, sizeof line, "%Y-%m-%d %H:%M:%S", &tm);
    char letter = level <= 0 ? 'I' : level == 1 ? 'W' : 'E';
    int all = snprintf(line + n, sizeof line - n - 1, ".%06ld: %c millrace: %s", now.tv_nsec / 1000, letter, text);
    n += (size_t)Py_MIN(all, (int)(sizeof line - n - 2)); /* a line that is too long is cut */
    line[n++] = '\n';
    if (write(2, line, n) < 0)
        return; /* there is nobody to tell */
}

void py_print_log(void) { mr_register_log_listener(print_log); }

static PyObject *log_info(PyObject *module, PyObject *text)
{
    (void)module;
    const char *t = py_text(text);
    if (!t)
        return NULL;
    TF_Log(TF_INFO, "%s", t);
    return Py_NewRef(Py_None);
}

static PyObject *tell_step(PyObject *module, PyObject *step)
{
    (void)module;
    long long v = PyLong_AsLongLong(step);
    if (v == -1 && PyErr_Occurred())
        return NULL;
    mr_tell_step(v);
    return Py_NewRef(Py_None);
}

/* tell_progress(loss, last_step) */
static PyObject *tell_progress(PyObject *module, PyObject *args)
{
    (void)module;
    double loss;
    long long last_step;
    if (!PyArg_ParseTuple(args, "dL", &loss, &last_step))
        return NULL;
    mr_tell_progress(loss, last_step);
    return Py_NewRef(Py_None);
}

static PyObject *tell_waiting(PyObject *module, PyObject *what)
{
    (void)module;
    const char *t = py_text(what);
    if (!t)
        return NULL;
    mr_tell_waiting(t);
    return Py_NewRef(Py_None);
}

PyMethodDef py_misc_methods[] = {
    {"log_info", log_info, METH_O, "A line of the library's log."},
    {"tell_step", tell_step, METH_O, "A step is done, for the table of millrace launch."},
    {"tell_progress", tell_progress, METH_VARARGS,
     "tell_progress(loss, last_step): NaN and -1 where they are not known"},
    {"tell_waiting", tell_waiting, METH_O, "What this task waits for."},
    {"set_package", py_set_package, METH_O, "set_package(prefix): files whose frames are not where an operation was made."},
    {"set_default_graphs", py_set_default_graphs, METH_VARARGS,
     "set_default_graphs(local, global): `entries` of the thread, and what gives the graph of the process."},
    {"default_graph", py_get_default_graph, METH_NOARGS, "The default graph of this thread."},
    {"set_error_maker", py_set_error_maker, METH_O, "set_error_maker(callable): callable(code, message) -> exception"},
    {"message_describe", message_describe, METH_O, "The fields of a message, a line each."},
    {"enum_describe", enum_describe, METH_O, "The values of an enum, a line each."},
    {"message_to_text", message_to_text, METH_VARARGS, "message_to_text(name, bytes) -> str"},
    {"message_from_text", message_from_text, METH_VARARGS, "message_from_text(name, str) -> bytes"},
    {"all_ops", all_ops, METH_NOARGS, "The serialized OpList of all ops."},
    {"load_library", load_library, METH_O, "Loads a library of ops; the serialized OpList of what it added."},
    {"kernels_of", kernels_of, METH_O, "The serialized KernelList of an op."},
    {"reset", reset, METH_VARARGS, "reset(target, ConfigProto, containers)"},
    {"version", version, METH_NOARGS, "(of Millrace, of the C API)"},
    {"masked_crc32c", masked_crc, METH_O, "masked_crc32c(data)\n--\n\nThe masked checksum of TFRecord files."},
    {"generated_digits", generated_digits, METH_O, "generated_digits(test) -> (images, labels)"},
    {"pipeline_predict", pipeline_predict, METH_VARARGS, "pipeline_predict(forward, backward, micro_batches, order, transfer) -> dict"},
    {"array_from_proto", array_from_proto, METH_O, "The array in a serialized TensorProto."},
    {0}};

/* ---- checkpoints ---- */

typedef struct py_reader {
    PyObject_HEAD
    TF_CheckpointReader *reader;
} py_reader;

static PyObject *reader_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    const char *path;
    if (!py_no_keywords(type, kwargs) || !PyArg_ParseTuple(args, "s", &path))
        return NULL;
    TF_Status *s = py_status_new();
    TF_CheckpointReader *r = s ? TF_NewCheckpointReader(path, s) : NULL;
    py_reader *o = s && py_status_ok(s) ? (py_reader *)type->tp_alloc(type, 0) : NULL;
    if (o)
        o->reader = r;
    return (PyObject *)o;
}

static void reader_free(py_reader *o)
{
    TF_DeleteCheckpointReader(o->reader);
    Py_TYPE(o)->tp_free(o);
}

/* {name: (dtype, shape)} */
static PyObject *reader_variables(py_reader *o, PyObject *unused)
{
    (void)unused;
    PyObject *d = PyDict_New();
    for (int i = 0; d && i < TF_CheckpointReaderSize(o->reader); i++) {
        const char *name = TF_CheckpointReaderGetVariable(o->reader, i);
        int n = TF_CheckpointReaderGetVariableNumDims(o->reader, name);
        int64_t dims[256];
        TF_Status *s = n <= 256 ? py_status_new() : (TF_Status *)PyErr_NoMemory();
        if (s)
            TF_CheckpointReaderGetVariableShape(o->reader, name, dims, n, s);
        PyObject *v = s && py_status_ok(s)
                          ? Py_BuildValue("iN", (int)TF_CheckpointReaderGetVariableDataType(o->reader, name), py_shape(n, dims))
                          : NULL;
        if (!v || PyDict_SetItemString(d, name, v) < 0)
            Py_CLEAR(d);
        Py_XDECREF(v);
    }
    return d;
}

static PyObject *reader_get(py_reader *o, PyObject *name)
{
    const char *n = py_text(name);
    TF_Status *s = n ? py_status_new() : NULL;
    TF_Tensor *t = s ? TF_CheckpointReaderGetTensor(o->reader, n, s) : NULL;
    return s && py_status_ok(s) ? py_array_from(t) : NULL;
}

static PyMethodDef reader_methods[] = {{"variables", (PyCFunction)reader_variables, METH_NOARGS, "{name: (dtype, shape)}"},
                                       {"get_tensor", (PyCFunction)reader_get, METH_O, "The value of a variable."},
                                       {0}};
PyTypeObject py_reader_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_millrace.CheckpointReader",
                               .tp_basicsize = sizeof(py_reader),
                               .tp_flags = Py_TPFLAGS_DEFAULT,
                               .tp_new = reader_new,
                               .tp_dealloc = (destructor)reader_free,
                               .tp_methods = reader_methods};
