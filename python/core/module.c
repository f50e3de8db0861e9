/* module.c -- the module `_millrace`. */
#define MR_PY_MODULE
#include "core.h"

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_millrace",
                                        .m_doc = "The C API of Millrace: graphs, sessions, servers.", .m_size = -1};

PyMODINIT_FUNC PyInit__millrace(void);
PyMODINIT_FUNC PyInit__millrace(void)
{
    static PyTypeObject *const types[] = {&py_graph_type,  &py_operation_type, &py_output_type, &py_session_type,
                                          &py_server_type, &py_function_type,  &py_reader_type,
                                          &py_federated_type, &py_ps_type, &py_ps_task_type,
                                          &py_ps_manager_type, &py_ps_server_type, &py_group_type, &py_cluster_task_type,
                                          &py_training_type, &py_downpour_type,
                                          &py_sandblaster_type, &py_sandblaster_replica_type};
    import_array();
    PyObject *m = PyModule_Create(&definition);
    for (size_t i = 0; m && i < sizeof types / sizeof types[0]; i++)
        if (PyModule_AddType(m, types[i]) < 0)
            Py_CLEAR(m);
    if (m && (PyModule_AddFunctions(m, py_misc_methods) < 0 || PyModule_AddFunctions(m, py_signal_methods) < 0 ||
              PyModule_AddFunctions(m, py_function_methods) < 0 || PyModule_AddFunctions(m, py_federated_methods) < 0))
        Py_CLEAR(m);
    return m;
}
