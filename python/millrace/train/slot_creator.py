"""Slots: variables that an optimizer keeps beside a variable, in its shape or another one.

A slot of `w` for "Adam" is named w/Adam, the next one w/Adam_1; checkpoints know them by these names.
"""

import contextlib

from .. import initializers
from ..framework import ops
from ..ops import array, variable_scope, variables


def _scope(primary, name):
    return variable_scope.variable_scope(None, primary.op.name + "/" + name)


def _beside(primary, colocate):
    return ops.colocate_with(primary) if colocate else contextlib.nullcontext()


def _make(primary, value, validate_shape, shape=None, dtype=None):
    """The variable of the present scope itself: its name is that of the scope."""
    scope = variable_scope.get_variable_scope()
    partitioner = scope.partitioner
    scope.set_partitioner(None)  # it is cut as its variable is, not once more
    try:
        slot = variable_scope.get_variable("", initializer=value, trainable=False, shape=shape, dtype=dtype,
                                           use_resource=variables.is_resource_variable(primary), validate_shape=validate_shape)
    finally:
        scope.set_partitioner(partitioner)
    info = primary._get_save_slice_info() if isinstance(primary, variables.Variable) else None
    if info is not None:
        own = slot.name[len(primary.op.name + "/"):-2]
        slot._set_save_slice_info(variables.Variable.SaveSliceInfo(
            info.full_name + "/" + own, info.full_shape[:], info.var_offset[:], info.var_shape[:]))
    return slot


def create_slot(primary, val, name, colocate_with_primary=True):
    """A slot with an initial value."""
    with _scope(primary, name), _beside(primary, colocate_with_primary):
        return _make(primary, val, validate_shape=val.shape.is_fully_defined())


def create_slot_with_initializer(primary, initializer, shape, dtype, name, colocate_with_primary=True):
    """Makes a variable that belongs to primary, with the values of an initializer."""
    with _scope(primary, name), _beside(primary, colocate_with_primary):
        known = shape.is_fully_defined()
        return _make(primary, initializer, known, shape if known else None, dtype)


def create_zeros_slot(primary, name, dtype=None, colocate_with_primary=True):
    """A slot of zeros in the variable's shape, which may be known in a run only."""
    dtype = dtype or primary.dtype
    shape = primary.get_shape()
    if shape.is_fully_defined():
        return create_slot_with_initializer(primary, initializers.zeros(), shape, dtype, name, colocate_with_primary)
    value = primary.initialized_value() if isinstance(primary, variables.Variable) else primary
    return create_slot(primary, array.zeros(array.shape(value), dtype.base_dtype), name, colocate_with_primary)
