"""Functions that change variables: tf.assign and its kin.

A reference (RefVariable, or the tensor of one) is changed by the op of that name; anything else that is given, a
ResourceVariable most of all, by its own method.  Both give what the variable is afterwards.
"""

from ..framework import convert, ops, shapes
from ..framework.op_defs import call, raw

__all__ = [
    "assign", "assign_add", "assign_sub", "batch_scatter_update", "count_up_to", "scatter_add", "scatter_div", "scatter_max",
    "scatter_min", "scatter_mul", "scatter_nd_add", "scatter_nd_sub", "scatter_nd_update", "scatter_sub", "scatter_update"]


def _is_ref(ref):
    return ref.dtype._is_ref_dtype


def variable_op_v2(shape, dtype, name="Variable", container="", shared_name=""):
    """The operation of a variable by itself: a reference, without initializer or read."""
    return raw.variable_v2(shape=shape, dtype=dtype, container=container, shared_name=shared_name, name=name)


def variable_op(shape, dtype, name="Variable", set_shape=True, container="", shared_name=""):
    """The same, of a shape that the graph may not know."""
    return variable_op_v2(shape if set_shape else shapes.unknown_shape(), dtype, name, container, shared_name)


def init_variable(v, init, name="init"):
    """An operation that gives a variable its first value: a tensor, or what a function of shape and type makes."""
    with ops.name_scope(None, v.op.name + "/", [v, init]), ops.name_scope(name) as scope, ops.colocate_with(v):
        if callable(init):
            if not v.get_shape().is_fully_defined():
                raise ValueError("The shape of %s must be known for a function that initializes it" % v.op.name)
            init = init(v.get_shape().as_list(), v.dtype.base_dtype)
        return assign(v, convert.convert_to_tensor(init, name="init"), name=scope).op


def assign(ref, value, validate_shape=None, use_locking=None, name=None):
    """Returns an operation that sets a variable to a value, and gives the new value.

    validate_shape=False allows a value of another shape, for reference variables."""
    if _is_ref(ref):
        return call("Assign", name, ref=ref, value=value, validate_shape=validate_shape, use_locking=use_locking)
    return ref.assign(value, name=name)


def assign_add(ref, value, use_locking=None, name=None):
    """Returns an operation that adds a value to a variable, and gives the new value."""
    if _is_ref(ref):
        return call("AssignAdd", name, ref=ref, value=value, use_locking=use_locking)
    return ref.assign_add(value)


def assign_sub(ref, value, use_locking=None, name=None):
    """Returns an operation that subtracts a value from a variable, and gives the new value."""
    if _is_ref(ref):
        return call("AssignSub", name, ref=ref, value=value, use_locking=use_locking)
    return ref.assign_sub(value)


def count_up_to(ref, limit, name=None):
    """Adds one and gives what it was before; at the limit it is an OutOfRangeError."""
    if _is_ref(ref):
        return raw.count_up_to(ref, limit=limit, name=name)
    return raw.resource_count_up_to(ref.handle, limit=limit, T=ref.dtype, name=name)


def is_variable_initialized(ref, name=None):
    """Whether the variable has a value."""
    if _is_ref(ref):
        return raw.is_variable_initialized(ref, name=name)
    return ref.is_initialized(name=name)


def _scatter(what):
    """tf.scatter_<what>."""

    def scatter(ref, indices, updates, use_locking=what == "Update", name=None):
        if _is_ref(ref):
            return call("Scatter" + what, name, ref=ref, indices=indices, updates=updates, use_locking=use_locking)
        updates = convert.convert_to_tensor(updates, ref.dtype)
        return ref._lazy_read(call("ResourceScatter" + what, name, resource=ref.handle, indices=indices, updates=updates))

    scatter.__name__ = scatter.__qualname__ = "scatter_" + what.lower()
    scatter.__doc__ = "Changes rows `indices` of the variable by `updates`: %s." % what.lower()
    return scatter


scatter_update, scatter_add, scatter_sub = _scatter("Update"), _scatter("Add"), _scatter("Sub")
scatter_mul, scatter_div, scatter_min, scatter_max = _scatter("Mul"), _scatter("Div"), _scatter("Min"), _scatter("Max")


def _scatter_nd(what):
    """tf.scatter_nd_<what>."""

    def scatter(ref, indices, updates, use_locking=what == "Update", name=None):
        op_type = "ScatterNd" + what
        if _is_ref(ref):
            return call(op_type, name, ref=ref, indices=indices, updates=updates, use_locking=use_locking)
        updates = convert.convert_to_tensor(updates, ref.dtype)
        return ref._lazy_read(call("Resource" + op_type, name, ref=ref.handle, indices=indices, updates=updates))

    scatter.__name__ = scatter.__qualname__ = "scatter_nd_" + what.lower()
    scatter.__doc__ = "Changes the elements or slices at `indices` of the variable by `updates`: %s." % what.lower()
    return scatter


scatter_nd_update, scatter_nd_add, scatter_nd_sub = _scatter_nd("Update"), _scatter_nd("Add"), _scatter_nd("Sub")


def batch_scatter_update(ref, indices, updates, use_locking=True, name=None):
    """scatter_update for each of a batch: row indices[b, i] of ref[b] becomes updates[b, i]."""
    with ops.name_scope(name):
        indices = convert.convert_to_tensor(indices, name="indices")
        dims = raw.shape(indices)
        n = indices.shape.ndims
        if n is None:
            raise ValueError("batch_scatter_update needs indices of known rank")
        # For every position of indices the position in the batch, and then the index itself.
        columns = []
        for axis in range(n - 1):
            size = raw.strided_slice(dims, [axis], [axis + 1], [1], shrink_axis_mask=1)
            along = raw.reshape(raw.range(0, size, 1), [-1 if i == axis else 1 for i in range(n)])
            columns.append(raw.add(raw.zeros_like(indices), raw.cast(along, DstT=indices.dtype)))
        where = raw.pack(columns + [indices], axis=n)
        return scatter_nd_update(ref, where, updates, use_locking=use_locking)
