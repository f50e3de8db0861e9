/* module.c -- the module `_millrace`. */
#define MR_PY_MODULE
#include "core.h"

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_millrace",
                                        .m_doc = "The C API of Millrace: graphs, sessions, servers.", .m_size = -1};

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

/* millrace/built_for.py looks for it in the file, where the version is too old to load it. */
static const char built_for[] = "millrace was built for Python " TEXT(PY_MAJOR_VERSION) "." TEXT(PY_MINOR_VERSION);

/* Objects of another version of Python have another layout, so nothing else may be called before this.  False with an
 * ImportError that names both versions. */
static bool check_version(void)
{
    const char *running = Py_GetVersion();
    int major = 0, minor = 0;
    if (sscanf(running, "%d.%d", &major, &minor) == 2 && major == PY_MAJOR_VERSION && minor == PY_MINOR_VERSION)
        return true;
    PyErr_Format(PyExc_ImportError,
                 "%s, but this is Python %.*s: run `millrace python SCRIPT`, or build with PYTHON=FILE", built_for,
                 (int)strcspn(running, " "), running);
    return false;
}

/* Loads numpy's C API.  False with an ImportError that says which interpreter lacks it. */
static bool load_numpy(void)
{
    if (_import_array() >= 0)
        return true;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *executable = PySys_GetObject("executable"); /* borrowed */
    PyErr_Format(PyExc_ImportError, "%s and its numpy, but %S cannot import a compatible numpy: %S", built_for,
                 executable ? executable : Py_None, value ? value : Py_None);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return false;
}

PyMODINIT_FUNC PyInit__millrace(void);
PyMODINIT_FUNC PyInit__millrace(void)
{
    static PyTypeObject *const types[] = {&py_graph_type, &py_operation_type, &py_output_type, &py_scopes_type,
                                          &py_plan_type, &py_session_type, &py_callable_type,
                                          &py_server_type, &py_function_type,  &py_reader_type,
                                          &py_federated_type, &py_ps_type, &py_ps_task_type,
                                          &py_ps_manager_type, &py_ps_server_type, &py_group_type, &py_cluster_task_type,
                                          &py_training_type, &py_downpour_type,
                                          &py_sandblaster_type, &py_sandblaster_replica_type};
    if (!check_version() || !load_numpy())
        return NULL;
    py_print_log();
    PyObject *m = PyModule_Create(&definition);
    for (size_t i = 0; m && i < sizeof types / sizeof types[0]; i++)
        if (PyModule_AddType(m, types[i]) < 0)
            Py_CLEAR(m);
    if (m && (PyModule_AddFunctions(m, py_misc_methods) < 0 || PyModule_AddFunctions(m, py_signal_methods) < 0 ||
              PyModule_AddFunctions(m, py_function_methods) < 0 || PyModule_AddFunctions(m, py_federated_methods) < 0 ||
              PyModule_AddFunctions(m, py_apply_methods) < 0))
        Py_CLEAR(m);
    return m;
}
