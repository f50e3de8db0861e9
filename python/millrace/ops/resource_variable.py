"""ResourceVariable: a variable that is reached through the handle that an operation VarHandleOp gives."""

import contextlib
import functools

from ..framework import convert, dtypes, ops, shapes
from ..framework.op_defs import call, raw
from . import state
from .variable_base import Variable, checked_dtype, guarded, slices_of


class ResourceVariable(Variable):
    """A variable that operations reach through a handle; a read gives the value of that moment."""

    def __init__(self, initial_value=None, trainable=None, collections=None, validate_shape=True, caching_device=None,
                 name=None,
                 dtype=None, variable_def=None, import_scope=None, constraint=None, distribute_strategy=None,
                 synchronization=None, aggregation=None, shape=None, expected_shape=None):
        if variable_def is not None:
            if initial_value is not None:
                raise ValueError("variable_def and initial_value are mutually exclusive.")
            self._from_resource_def(variable_def, import_scope)
            return
        if initial_value is None:
            raise ValueError("initial_value must be specified.")
        collections = self._take_arguments(trainable, collections, constraint, synchronization, aggregation, caching_device)
        with ops.init_scope():
            with ops.name_scope(name, "Variable", [] if callable(initial_value) else [initial_value]) as scope:
                self._build(scope, initial_value, caching_device, dtype, shape)
            ops.add_to_collections(collections, self)

    def _build(self, scope, initial_value, caching_device, dtype, shape):
        dtype = None if dtype is None else dtypes.as_dtype(dtype)
        given = initial_value if callable(initial_value) else lambda: initial_value
        self._initial_value = value = self._take_initial_value(given, dtype, scope)
        self._check_initial_value(scope)
        self._dtype = value.dtype.base_dtype
        self._shape = value.shape if shape is None else shapes.as_shape(shape)
        if not self._shape.is_compatible_with(value.shape):
            raise ValueError("The initial value's shape (%s) is not compatible with the explicitly supplied `shape` argument "
                             "(%s)." % (value.shape, self._shape))
        self._handle = raw.var_handle_op(dtype=self._dtype, shape=self._shape, shared_name=scope.rstrip("/"), name=scope)
        with ops.name_scope("IsInitialized"), self._where_it_is():
            self._is_initialized_op = raw.var_is_initialized_op(self._handle)
        with ops.name_scope("Assign") as n, ops.colocate_with(self._handle.op):
            self._safe_initial_value = guarded(scope.rstrip("/"), value)
            self._initializer_op = raw.assign_variable_op(self._handle, self._safe_initial_value, name=n)
        with ops.name_scope("Read"):
            self._snapshot = self._graph_element = self._read_op()
            self._cached_value = None
            if caching_device is not None:
                with ops.colocate_with(None, ignore_existing=True), ops.device(caching_device):
                    self._cached_value = raw.identity(self._graph_element)

    def _from_resource_def(self, d, import_scope):
        self._handle = self._from_def(d, import_scope)
        op = self._handle.op
        self._dtype, self._shape = op.get_attr("dtype"), shapes.TensorShape(op.get_attr("shape"))
        self._graph_element, self._cached_value = self._snapshot, None
        if self._snapshot.op.type != "ReadVariableOp":
            self._cached_value, self._graph_element = self._snapshot, self._snapshot.op.inputs[0]
        self._is_initialized_op = next((t for o in op.graph.get_operations() if o.type == "VarIsInitializedOp"
                                        and o.inputs[0] is self._handle for t in o.outputs), None)

    def _where_it_is(self):
        """What touches a resource is on its device, whatever the device of other operations."""
        return ops.device(self._handle.device) if self._handle.device else contextlib.nullcontext()

    def _read_op(self):
        with self._where_it_is():
            t = raw.read_variable_op(self._handle, self._dtype)
        t.set_shape(self._shape)
        return t

    def _defined_by(self):
        return self._handle

    def _snapshot_tensor(self):
        return self._snapshot if self._cached_value is None else self._cached_value

    handle = property(lambda self: self._handle)
    dtype = property(lambda self: self._dtype)
    name = property(lambda self: self._handle.name)
    op = property(lambda self: self._handle.op)
    graph = property(lambda self: self._handle.graph)
    device = property(lambda self: self._handle.device)
    create = property(lambda self: self._initializer_op)

    def get_shape(self):
        return self._shape

    def set_shape(self, shape):
        self._shape = self._shape.merge_with(shape)

    def value(self):
        if self._cached_value is not None:
            return self._cached_value
        with ops.colocate_with(None, ignore_existing=True):
            return self._read_op()

    def read_value(self):
        with ops.name_scope("Read"):
            return raw.identity(self._read_op())

    def _as_graph_element(self):
        return self._graph_element

    def _ref(self):
        raise NotImplementedError("A ResourceVariable cannot be used as a reference: %s" % self.name)

    def is_initialized(self, name=None):
        return raw.var_is_initialized_op(self._handle, name=name)

    def sparse_read(self, indices, name=None):
        """Rows of it, without the others."""
        with ops.name_scope("Gather" if name is None else name) as scope:
            return raw.identity(raw.resource_gather(self._handle, indices, dtype=self._dtype, name=scope))

    def gather_nd(self, indices, name=None):
        with ops.name_scope("GatherNd" if name is None else name) as scope:
            return raw.identity(raw.resource_gather_nd(self._handle, indices, dtype=self._dtype, name=scope))

    def count_up_to(self, limit):
        return raw.resource_count_up_to(self._handle, limit=limit, T=self._dtype)

    def _lazy_read(self, op):
        return _UnreadVariable(self, op)

    def _tensor(self, value):
        """A value for it, made in its graph."""
        with self.graph.as_default():
            return convert.convert_to_tensor(value, self._dtype)

    def _changed(self, op_type, value, name, read_value):
        value = self._tensor(value)
        if not self._shape.is_compatible_with(value.shape):
            raise ValueError("Shapes %s and %s are incompatible" % (self._shape, value.shape))
        op = call(op_type, name, resource=self._handle, value=value)
        return self._lazy_read(op) if read_value else op

    def assign(self, value, use_locking=None, name=None, read_value=True):
        return self._changed("AssignVariableOp", value, name, read_value)

    def assign_add(self, delta, use_locking=None, name=None, read_value=True):
        return self._changed("AssignAddVariableOp", delta, name, read_value)

    def assign_sub(self, delta, use_locking=None, name=None, read_value=True):
        return self._changed("AssignSubVariableOp", delta, name, read_value)

    def _scatter(self, op_type, sparse_delta, name):
        s = slices_of(sparse_delta)
        s["updates"] = self._tensor(s["updates"])
        return self._lazy_read(call(op_type, name, resource=self._handle, **s))

    def scatter_add(self, sparse_delta, use_locking=False, name=None):
        return self._scatter("ResourceScatterAdd", sparse_delta, name)

    def scatter_sub(self, sparse_delta, use_locking=False, name=None):
        return self._scatter("ResourceScatterSub", sparse_delta, name)

    def scatter_mul(self, sparse_delta, use_locking=False, name=None):
        return self._scatter("ResourceScatterMul", sparse_delta, name)

    def scatter_div(self, sparse_delta, use_locking=False, name=None):
        return self._scatter("ResourceScatterDiv", sparse_delta, name)

    def scatter_min(self, sparse_delta, use_locking=False, name=None):
        return self._scatter("ResourceScatterMin", sparse_delta, name)

    def scatter_max(self, sparse_delta, use_locking=False, name=None):
        return self._scatter("ResourceScatterMax", sparse_delta, name)

    def scatter_update(self, sparse_delta, use_locking=False, name=None):
        return self._scatter("ResourceScatterUpdate", sparse_delta, name)

    def batch_scatter_update(self, sparse_delta, use_locking=False, name=None):
        s = slices_of(sparse_delta)
        return state.batch_scatter_update(self, s["indices"], s["updates"], use_locking, name)

    def _scatter_nd(self, op_type, indices, updates, name):
        return self._lazy_read(call(op_type, name, ref=self._handle, indices=indices,
                                    updates=self._tensor(updates)))

    def scatter_nd_add(self, indices, updates, name=None):
        return self._scatter_nd("ResourceScatterNdAdd", indices, updates, name)

    def scatter_nd_sub(self, indices, updates, name=None):
        return self._scatter_nd("ResourceScatterNdSub", indices, updates, name)

    def scatter_nd_update(self, indices, updates, name=None):
        return self._scatter_nd("ResourceScatterNdUpdate", indices, updates, name)

    def _strided_slice_assign(self, begin, end, strides, value, name, **masks):
        return self._lazy_read(call("ResourceStridedSliceAssign", name, ref=self._handle, begin=begin, end=end, strides=strides,
                                    value=self._tensor(value), **masks))


class _UnreadVariable(ResourceVariable):
    """A resource variable after an operation that changes it: reads, and further changes, wait for that operation.

    What a session fetches of it is made at once: the graph may be finalized by then."""

    def __init__(self, variable, changed_by):
        self.__dict__.update(variable.__dict__)
        self._parent_op, self._cached_value = changed_by, None
        with changed_by.graph.as_default():
            self._graph_element = self._read_op()

    op = property(lambda self: self._parent_op)
    name = property(lambda self: self._parent_op.name)
    _shared_name = property(lambda self: self._handle.op.name)

    def _after(self):
        return ops.control_dependencies([self._parent_op])

    def _read_op(self):
        with self._after():
            return super()._read_op()

    def value(self):
        return self._read_op()

    def read_value(self):
        return self._read_op()


def _waiting(method):
    """A method of ResourceVariable, whose operations come after the one that made an _UnreadVariable."""
    change = getattr(ResourceVariable, method)

    @functools.wraps(change)
    def f(self, *args, **kwargs):
        with self._after():
            return change(self, *args, **kwargs)
    return f


for _method in ("assign assign_add assign_sub scatter_add scatter_sub scatter_mul scatter_div scatter_min scatter_max "
                "scatter_update batch_scatter_update scatter_nd_add scatter_nd_sub scatter_nd_update count_up_to sparse_read "
                "gather_nd _strided_slice_assign").split():
    setattr(_UnreadVariable, _method, _waiting(_method))


BaseResourceVariable = ResourceVariable


def is_resource_variable(var):
    """Whether the argument is a resource variable."""
    return isinstance(var, ResourceVariable)


def _conversion(v, dtype=None, name=None, as_ref=False):
    checked_dtype(v, dtype)
    return v._handle if as_ref else v.value()


convert.register_tensor_conversion_function(ResourceVariable, _conversion)
