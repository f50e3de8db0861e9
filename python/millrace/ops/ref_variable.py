"""RefVariable: a variable that is an operation VariableV2, whose output refers to its memory."""

from ..framework import convert, dtypes, ops, shapes
from ..framework.op_defs import call, raw
from . import state
from .variable_base import Variable, checked_dtype, guarded, slices_of

# How the ops begin that change what a reference refers to.
_CHANGES = ("Apply", "Assign", "CountUpTo", "Scatter", "SparseApply", "StridedSliceAssign")


class RefVariable(Variable):
    """A variable that operations change through a reference to its memory."""

    _takes_any_shape = False  # made with shape=TensorShape(None)

    def __init__(self, initial_value=None, trainable=None, collections=None, validate_shape=True, caching_device=None,
                 name=None,
                 variable_def=None, dtype=None, expected_shape=None, import_scope=None, constraint=None,
                 synchronization=None, aggregation=None, shape=None):
        if variable_def is not None:
            if initial_value is not None:
                raise ValueError("variable_def and initial_value are mutually exclusive.")
            self._variable = self._from_def(variable_def, import_scope)
            return
        if initial_value is None:
            raise ValueError("initial_value must be specified.")
        collections = self._take_arguments(trainable, collections, constraint, synchronization, aggregation, caching_device)
        with ops.init_scope():
            with ops.name_scope(name, "Variable", [] if callable(initial_value) else [initial_value]) as scope:
                self._build(scope, initial_value, validate_shape, caching_device, dtype, shape)
            ops.add_to_collections(collections, self)

    def _build(self, scope, initial_value, validate_shape, caching_device, dtype, shape):
        dtype = None if dtype is None else dtypes.as_dtype(dtype)
        self._initial_value = value = self._take_initial_value(initial_value, dtype, scope)
        self._check_initial_value(scope)
        if shape is None:
            shape = value.shape if validate_shape else shapes.unknown_shape()
        if validate_shape and not value.shape.is_fully_defined():
            raise ValueError("initial_value must have a shape specified: %s" % value)
        self._takes_any_shape = not shapes.as_shape(shape).is_fully_defined() and validate_shape
        self._variable = raw.variable_v2(shape=shape, dtype=value.dtype.base_dtype, name=scope)
        self._safe_initial_value = guarded(self._variable.op.name, value)
        self._initializer_op = raw.assign(self._variable, self._safe_initial_value, validate_shape=validate_shape).op
        placed = ops.colocate_with(self._variable.op) if caching_device is None else ops.device(caching_device)
        with placed:
            self._snapshot = raw.identity(self._variable, name="read")

    def _defined_by(self):
        return self._variable

    def value(self):
        """Its value as a tensor.  Reads of one variable share it, but for those that wait for a change of the variable."""
        if self.graph._control_stack and self._caching_device is None and self._waits_for_change():
            with ops.colocate_with(self._variable.op):
                return self.read_value()
        return self._snapshot

    def _waits_for_change(self):
        changes = [op for op in self._variable.consumers() if op is not self._initializer_op and op.type.startswith(_CHANGES)]
        return bool(changes) and any(scope.waits_for(changes) for scope in self.graph._control_stack)

    def read_value(self):
        """A tensor of its value when that operation runs."""
        return raw.identity(self._variable, name="read")

    def _ref(self):
        return self._variable

    def _as_graph_element(self):
        return self._variable

    dtype = property(lambda self: self._variable.dtype)
    name = property(lambda self: self._variable.name)
    op = property(lambda self: self._variable.op)
    graph = property(lambda self: self._variable.graph)
    device = property(lambda self: self._variable.device)

    def get_shape(self):
        return self._variable.shape

    def set_shape(self, shape):
        self._variable.set_shape(shape)
        self.value().set_shape(shape)

    def is_initialized(self, name=None):
        return raw.is_variable_initialized(self._variable, name=name)

    def _changed(self, op_type, name, use_locking, read_value, **inputs):
        result = call(op_type, name, ref=self._variable, use_locking=use_locking, **inputs)
        return result if read_value else result.op

    def assign(self, value, use_locking=False, name=None, read_value=True):
        return self._changed("Assign", name, use_locking, read_value, value=value, validate_shape=not self._takes_any_shape)

    def assign_add(self, delta, use_locking=False, name=None, read_value=True):
        return self._changed("AssignAdd", name, use_locking, read_value, value=delta)

    def assign_sub(self, delta, use_locking=False, name=None, read_value=True):
        return self._changed("AssignSub", name, use_locking, read_value, value=delta)

    def _scatter(self, op_type, sparse_delta, use_locking, name):
        return call(op_type, name, ref=self._variable, use_locking=use_locking, **slices_of(sparse_delta))

    def scatter_add(self, sparse_delta, use_locking=False, name=None):
        return self._scatter("ScatterAdd", sparse_delta, use_locking, name)

    def scatter_sub(self, sparse_delta, use_locking=False, name=None):
        return self._scatter("ScatterSub", sparse_delta, use_locking, name)

    def scatter_mul(self, sparse_delta, use_locking=False, name=None):
        return self._scatter("ScatterMul", sparse_delta, use_locking, name)

    def scatter_div(self, sparse_delta, use_locking=False, name=None):
        return self._scatter("ScatterDiv", sparse_delta, use_locking, name)

    def scatter_min(self, sparse_delta, use_locking=False, name=None):
        return self._scatter("ScatterMin", sparse_delta, use_locking, name)

    def scatter_max(self, sparse_delta, use_locking=False, name=None):
        return self._scatter("ScatterMax", sparse_delta, use_locking, name)

    def scatter_update(self, sparse_delta, use_locking=False, name=None):
        return self._scatter("ScatterUpdate", sparse_delta, use_locking, name)

    def batch_scatter_update(self, sparse_delta, use_locking=False, name=None):
        s = slices_of(sparse_delta)
        return state.batch_scatter_update(self, s["indices"], s["updates"], use_locking, name)

    def scatter_nd_add(self, indices, updates, name=None):
        return raw.scatter_nd_add(self._variable, indices, updates, use_locking=True, name=name)

    def scatter_nd_sub(self, indices, updates, name=None):
        return raw.scatter_nd_sub(self._variable, indices, updates, use_locking=True, name=name)

    def scatter_nd_update(self, indices, updates, name=None):
        return raw.scatter_nd_update(self._variable, indices, updates, use_locking=True, name=name)

    def _strided_slice_assign(self, begin, end, strides, value, name, **masks):
        return call("StridedSliceAssign", name, ref=self._ref(), begin=begin, end=end, strides=strides, value=value, **masks)

    def count_up_to(self, limit):
        return raw.count_up_to(self._variable, limit=limit)


def _conversion(v, dtype=None, name=None, as_ref=False):
    checked_dtype(v, dtype)
    return v._ref() if as_ref else v.value()


convert.register_tensor_conversion_function(RefVariable, _conversion)
