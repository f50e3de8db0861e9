"""Partitioners: functions that say into how many parts each dimension of a variable is cut."""

from ..framework import dtypes, ops, shapes
from . import variable_scope as vs

__all__ = ["create_partitioned_variables", "fixed_size_partitioner", "min_max_variable_partitioner",
           "variable_axis_size_partitioner"]


def _bytes_each(dtype, bytes_per_string_element):
    return bytes_per_string_element if dtype.base_dtype is dtypes.string else dtype.size


def variable_axis_size_partitioner(max_shard_bytes, axis=0, bytes_per_string_element=16, max_shards=None):
    """Parts of at most so many bytes."""
    if max_shard_bytes < 1 or bytes_per_string_element < 1:
        raise ValueError("Both max_shard_bytes and bytes_per_string_element must be positive.")
    if max_shards is not None and max_shards < 1:
        raise ValueError("max_shards must be positive.")

    def partitioner(shape, dtype):
        shape = _partitioned_shape(shape)
        parts = [1] * shape.ndims
        each = _bytes_each(dtype, bytes_per_string_element)
        row = shape.num_elements() // max(shape.as_list()[axis], 1) * each
        if max_shard_bytes < each or shape.num_elements() == 0:
            return parts
        rows_each = max(1, max_shard_bytes // row)
        parts[axis] = min(-(-shape.as_list()[axis] // rows_each), shape.as_list()[axis])
        if max_shards is not None:
            parts[axis] = min(parts[axis], max_shards)
        return parts

    return partitioner


def min_max_variable_partitioner(max_partitions=1, axis=0, min_slice_size=256 << 10, bytes_per_string_element=16):
    """Returns a partitioner with at most max_partitions parts, none smaller than min_slice_size bytes."""
    def partitioner(shape, dtype):
        shape = _partitioned_shape(shape)
        whole = shape.num_elements() * _bytes_each(dtype, bytes_per_string_element)
        parts = [1] * shape.ndims
        parts[axis] = max(1, min(shape.as_list()[axis], max_partitions, -(-whole // min_slice_size)))
        return parts

    return partitioner


def fixed_size_partitioner(num_shards, axis=0):
    """Always so many parts, at most one a row."""
    def partitioner(shape, **unused):
        parts = [1] * len(shape)
        parts[axis] = min(num_shards, shapes.as_shape(shape).as_list()[axis])
        return parts

    return partitioner


def _partitioned_shape(shape):
    shape = shapes.as_shape(shape)
    if not shape.is_fully_defined():
        raise ValueError("The shape of a partitioned variable must be known: %s" % shape)
    return shape


def create_partitioned_variables(shape, slicing, initializer, dtype=dtypes.float32, trainable=True, collections=None, name=None,
                                 reuse=None):
    """The parts of a variable that is cut as `slicing` says."""
    if len(shape) != len(slicing):
        raise ValueError("The 'shape' and 'slicing' of a partitioned Variable must have the length: shape: %s, slicing: %s" %
                         (shape, slicing))
    if len(shape) < 1:
        raise ValueError("A partitioned Variable must have rank at least 1: shape: %s" % (shape,))
    with vs.variable_scope(name, "PartitionedVariable", reuse=reuse) as scope, ops.name_scope(None):
        given = dict(shape=shape) if callable(initializer) else {}
        return list(vs._variable_store().get_variable(
            scope.name, dtype=dtype, initializer=initializer, trainable=trainable, collections=collections, reuse=scope.reuse,
            partitioner=lambda **unused: list(slicing), use_resource=scope.use_resource, **given))
