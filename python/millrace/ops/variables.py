"""Variables: tensors that keep their value between runs.

`tf.Variable(...)` makes a RefVariable (an operation VariableV2, whose output is a reference to the memory) or, where resources
are asked for, a ResourceVariable (a VarHandleOp, whose output is a handle).  Both are Variables; they differ in how they are
read and changed.  The names of the operations around a variable are TensorFlow's, because checkpoints and graphs of other
programs know them: `v` itself, `v/Assign`, `v/read`, or `v/Read/ReadVariableOp`.

Here are the collections of variables and what is done with many of them; a module for each kind has the rest.
"""

import os

import numpy as np

from ..framework import convert, dtypes, ops
from ..framework.op_defs import raw
from .partitioned_variable import PartitionedVariable  # noqa: F401 -- these are public names of this module
from .ref_variable import RefVariable  # noqa: F401
from .resource_variable import BaseResourceVariable, ResourceVariable, is_resource_variable  # noqa: F401
from .state import is_variable_initialized
from .variable_base import (Variable, VariableAggregation, VariableSynchronization, VariableV1, default_variable_creator,
                            disable_resource_variables, enable_resource_variables, resource_variables_enabled,
                            variable_creator_scope)

__all__ = [
    "Variable", "VariableV1", "VariableAggregation", "VariableSynchronization", "all_variables", "assert_variables_initialized",
    "enable_resource_variables", "disable_resource_variables", "resource_variables_enabled", "global_variables",
    "global_variables_initializer", "initialize_all_variables", "initialize_local_variables", "initialize_variables",
    "is_variable_initialized", "local_variables", "local_variables_initializer", "model_variables", "moving_average_variables",
    "report_uninitialized_variables", "trainable_variables", "variable_creator_scope", "variables_initializer"]


def global_variables(scope=None):
    """Returns the global variables, of all scopes or of those whose name matches scope."""
    return ops.get_collection(ops.GraphKeys.GLOBAL_VARIABLES, scope)


def all_variables():
    """Returns the global variables; an old name of global_variables."""
    return global_variables()


def local_variables(scope=None):
    """Returns the local variables, of all scopes or of those whose name matches scope."""
    return ops.get_collection(ops.GraphKeys.LOCAL_VARIABLES, scope)


def model_variables(scope=None):
    """Returns the model variables, of all scopes or of those whose name matches scope."""
    return ops.get_collection(ops.GraphKeys.MODEL_VARIABLES, scope)


def trainable_variables(scope=None):
    """Returns the trainable variables, of all scopes or of those whose name matches scope."""
    return ops.get_collection(ops.GraphKeys.TRAINABLE_VARIABLES, scope)


def moving_average_variables(scope=None):
    """Returns the variables with moving averages, of all scopes or of those whose name matches scope."""
    return ops.get_collection(ops.GraphKeys.MOVING_AVERAGE_VARIABLES, scope)


def variables_initializer(var_list, name="init"):
    """An operation that runs the initializers of all of them."""
    from . import control_flow
    return control_flow.group(*[v.initializer for v in var_list or []], name=name)


def initialize_variables(var_list, name="init"):
    """Returns an operation that initializes the variables; an old name of variables_initializer."""
    return variables_initializer(var_list, name=name)


def global_variables_initializer():
    """Returns an operation that initializes all global variables."""
    return variables_initializer(global_variables())


def initialize_all_variables():
    """Returns an operation that initializes all global variables; an old name."""
    return global_variables_initializer()


def local_variables_initializer():
    """Returns an operation that initializes all local variables."""
    return variables_initializer(local_variables())


def initialize_local_variables():
    """Returns an operation that initializes all local variables; an old name."""
    return local_variables_initializer()


def assert_variables_initialized(var_list=None):
    """An operation that fails while one of them has no value; None when there are none."""
    if var_list is None:
        var_list = global_variables() + local_variables() or [
            op.outputs[0] for op in ops.get_default_graph().get_operations()
            if op.type in ("Variable", "VariableV2", "AutoReloadVariable")]
    if not var_list:
        return None
    ranks = [raw.rank(v.value() if isinstance(v, ResourceVariable) else v) for v in var_list]
    return ranks[0] if len(ranks) == 1 else raw.pack(ranks)


def report_uninitialized_variables(var_list=None, name="report_uninitialized_variables"):
    """The names of those that have no value yet, as a string vector."""
    if var_list is None:
        var_list = global_variables() + local_variables() or [
            op.outputs[0] for op in ops.get_default_graph().get_operations()
            if op.type in ("Variable", "VariableV2", "AutoReloadVariable")]
    with ops.name_scope(name):
        known = [is_variable_initialized(v) for v in var_list]
        with ops.device(os.environ.get("TF_DEVICE_FOR_UNINITIALIZED_VARIABLE_REPORTING", "/cpu:0")):
            if not var_list:
                return convert.constant(np.array([], dtype=object), dtype=dtypes.string)
            unknown = raw.logical_not(raw.pack(known))
            names = convert.constant([v.op.name for v in var_list])
            return raw.gather_nd(names, raw.where(unknown))
