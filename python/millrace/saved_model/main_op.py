"""What is run when a model has been loaded: the initializers of what is not in the checkpoint."""
from ..framework import ops
from ..ops.control_flow import group
from ..ops.variables import local_variables_initializer


def _tables_initializer():
    tables = ops.get_collection(ops.GraphKeys.TABLE_INITIALIZERS)
    return group(*tables, name="init_all_tables")


def main_op():
    """Local variables and tables."""
    return group(local_variables_initializer(), _tables_initializer())


def main_op_with_restore(restore_op_name):
    """The same after the op that restores variables."""
    restore = ops.get_default_graph().get_operation_by_name(restore_op_name)
    with ops.control_dependencies([restore]):
        return group(main_op())
