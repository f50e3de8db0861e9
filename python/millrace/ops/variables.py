"""Variables: tensors that keep their value between runs.

`tf.Variable(...)` makes a RefVariable (an operation VariableV2, whose output is a reference to the memory) or, where resources are
asked for, a ResourceVariable (a VarHandleOp, whose output is a handle).  Both are Variables; they differ in how they are read and
changed.  The names of the operations around a variable are TensorFlow's, because checkpoints and graphs of other programs know
them: `v` itself, `v/Assign`, `v/read`, or `v/Read/ReadVariableOp`.

What makes a variable goes through the creators of tf.variable_creator_scope, outermost last.
"""

import contextlib
import enum
import os

import numpy as np

from ..framework import convert, dtypes, ops, shapes
from ..framework.op_defs import call, raw
from . import array, state

__all__ = [
    "Variable", "VariableV1", "VariableAggregation", "VariableSynchronization", "all_variables", "assert_variables_initialized",
    "enable_resource_variables", "disable_resource_variables", "resource_variables_enabled", "global_variables",
    "global_variables_initializer", "initialize_all_variables", "initialize_local_variables", "initialize_variables",
    "is_variable_initialized", "local_variables", "local_variables_initializer", "model_variables", "moving_average_variables",
    "report_uninitialized_variables", "trainable_variables", "variable_creator_scope", "variables_initializer"]


class VariableSynchronization(enum.Enum):
    """When copies of a variable on several devices are made equal."""
    AUTO = 0
    NONE = 1
    ON_WRITE = 2
    ON_READ = 3


class VariableAggregation(enum.Enum):
    """How changes from several devices become one."""
    NONE = 0
    SUM = 1
    MEAN = 2
    ONLY_FIRST_REPLICA = 3
    ONLY_FIRST_TOWER = 3


# ---- which kind is made, and by whom ----

_default_use_resource = False


def enable_resource_variables():
    """From now on variables are ResourceVariables unless use_resource=False."""
    global _default_use_resource
    _default_use_resource = True


def disable_resource_variables():
    global _default_use_resource
    _default_use_resource = False


def resource_variables_enabled():
    return _default_use_resource


def default_variable_creator(next_creator=None, use_resource=None, **kwargs):
    """What makes a variable when no creator of a scope does."""
    from . import variable_scope
    if use_resource is None:
        use_resource = variable_scope.get_variable_scope().use_resource
    if use_resource is None:
        use_resource = _default_use_resource
    return (ResourceVariable if use_resource else RefVariable)(**kwargs)


def _creators(graph):
    return graph._scoped.setdefault("variable_creators", [])


@contextlib.contextmanager
def variable_creator_scope(variable_creator):
    """Under it variable_creator(next_creator, **kwargs) makes the variables."""
    stack = _creators(ops.get_default_graph())
    stack.append(variable_creator)
    try:
        yield
    finally:
        stack.remove(variable_creator)


def _bound(creator, next_creator):
    return lambda **kwargs: creator(next_creator, **kwargs)


class _VariableKind(type):
    """Variable(...) asks the creators; Variable's own classes make their objects directly."""

    def __call__(cls, *args, **kwargs):
        if cls is not Variable:
            return super().__call__(*args, **kwargs)
        given = _arguments(*args, **kwargs)
        creator = lambda **kw: default_variable_creator(None, **kw)
        for c in _creators(ops.get_default_graph()):
            creator = _bound(c, creator)
        return creator(**given)


def _arguments(initial_value=None, trainable=None, collections=None, validate_shape=True, caching_device=None, name=None,
               variable_def=None, dtype=None, expected_shape=None, import_scope=None, constraint=None, use_resource=None,
               synchronization=VariableSynchronization.AUTO, aggregation=VariableAggregation.NONE, shape=None):
    return locals()


# ---- what all variables do ----

class Variable(metaclass=_VariableKind):
    """A variable: `tf.Variable(initial_value, name="w")`."""

    __array_priority__ = 100
    _in_graph_mode = True
    _save_slice_info = None
    _caching_device = None

    def _take_arguments(self, trainable, collections, constraint, synchronization, aggregation, caching_device):
        """Checks and keeps what both kinds take; the collections that it belongs to."""
        if constraint is not None and not callable(constraint):
            raise ValueError("The `constraint` argument must be a callable.")
        if collections is None:
            collections = [ops.GraphKeys.GLOBAL_VARIABLES]
        if not isinstance(collections, (list, tuple, set)):
            raise ValueError("collections argument to Variable constructor must be a list, tuple, or set. Got %s of type %s" %
                             (collections, type(collections)))
        self._synchronization = synchronization or VariableSynchronization.AUTO
        self._aggregation = aggregation or VariableAggregation.NONE
        if trainable is None:
            trainable = self._synchronization is not VariableSynchronization.ON_READ
        self._trainable, self._constraint, self._caching_device = trainable, constraint, caching_device
        collections = list(collections)
        if trainable and ops.GraphKeys.TRAINABLE_VARIABLES not in collections:
            collections.append(ops.GraphKeys.TRAINABLE_VARIABLES)
        return collections

    def _take_initial_value(self, initial_value, dtype, name):
        """The tensor of the initial value, made beside the variable that does not exist yet when a function makes it."""
        if not callable(initial_value):
            return convert.convert_to_tensor(initial_value, dtype, "initial_value")
        graph = ops.get_default_graph()
        with graph._attr_scope({"_class": _class_attr(name)}), ops.name_scope("Initializer"), graph.device(None):
            return convert.convert_to_tensor(initial_value(), dtype, "initial_value")

    def _check_initial_value(self, name):
        if self._initial_value.op._get_control_flow_context() is not None:
            raise ValueError("Initializer for variable %s is from inside a control-flow construct, such as a loop or conditional. "
                             "When creating a variable inside a loop or conditional, use a lambda as the initializer." % name)

    def __repr__(self):
        return "<tf.Variable '%s' shape=%s dtype=%s>" % (self.name, self.get_shape(), self.dtype.name)

    def __iter__(self):
        raise TypeError("'Variable' object is not iterable.")

    def __getitem__(self, key):
        """A slice, which has a method `assign` that changes that part of the variable."""
        return array._slice_tensor(self._as_tensor(), key, var=self)

    trainable = property(lambda self: self._trainable)
    constraint = property(lambda self: self._constraint)
    synchronization = property(lambda self: self._synchronization)
    aggregation = property(lambda self: self._aggregation)
    initial_value = property(lambda self: self._initial_value)
    initializer = property(lambda self: self._initializer_op)
    shape = property(lambda self: self.get_shape())
    _shared_name = property(lambda self: self.name[:self.name.index(":")])
    _unique_id = property(lambda self: self._shared_name)

    @property
    def _graph_key(self):
        return self.graph

    def eval(self, session=None):
        """Its value now, in the session or the default one."""
        return self._as_graph_element().eval(session=session)

    def load(self, value, session=None):
        """Gives it a value without new operations."""
        session = session or ops.get_default_session()
        if session is None:
            raise ValueError("Either session argument should be provided or default session should be established")
        session.run(self.initializer, {self.initializer.inputs[1]: value})

    def initialized_value(self):
        """Its value, or the initial value while it has none."""
        from . import control_flow
        with ops.init_scope():
            return control_flow.cond(is_variable_initialized(self), self.read_value, lambda: self._safe_initial_value)

    def _AsTensor(self):  # noqa: N802 -- TensorFlow's name
        return self.value()

    def _as_tensor(self):
        return self.value()

    def _set_save_slice_info(self, save_slice_info):
        self._save_slice_info = save_slice_info

    def _get_save_slice_info(self):
        return self._save_slice_info

    def to_proto(self, export_scope=None):
        """The VariableDef message that from_proto makes it from, None when it is not in export_scope."""
        from .. import protos
        if export_scope is not None and not self.name.startswith(export_scope):
            return None
        d = protos.VariableDef()
        d.variable_name = ops.strip_name_scope(self._defined_by().name, export_scope)
        if self._initial_value is not None:
            d.initial_value_name = ops.strip_name_scope(self._initial_value.name, export_scope)
        d.initializer_name = ops.strip_name_scope(self.initializer.name, export_scope)
        d.snapshot_name = ops.strip_name_scope(self._snapshot.name, export_scope)
        d.trainable = bool(self.trainable)
        d.synchronization, d.aggregation = self._synchronization.value, self._aggregation.value
        d.is_resource = isinstance(self, ResourceVariable)
        if self._save_slice_info is not None:
            d.save_slice_info_def.MergeFrom(self._save_slice_info.to_proto(export_scope))
        return d

    @staticmethod
    def from_proto(variable_def, import_scope=None):
        """The variable that a VariableDef describes, over operations that are in the graph already."""
        kind = ResourceVariable if variable_def.is_resource else RefVariable
        return kind(variable_def=variable_def, import_scope=import_scope)

    def _from_def(self, d, import_scope):
        """What both kinds keep of a VariableDef."""
        graph = ops.get_default_graph()
        element = lambda name: graph.as_graph_element(ops.prepend_name_scope(name, import_scope))
        self._initializer_op = element(d.initializer_name)
        self._initial_value = element(d.initial_value_name) if d.initial_value_name else None
        self._safe_initial_value = self._initializer_op.inputs[1]
        self._snapshot = element(d.snapshot_name)
        self._trainable, self._constraint = d.trainable, None
        self._synchronization = VariableSynchronization(int(d.synchronization))
        self._aggregation = VariableAggregation(int(d.aggregation))
        if d.HasField("save_slice_info_def"):
            self._save_slice_info = Variable.SaveSliceInfo(save_slice_info_def=d.save_slice_info_def, import_scope=import_scope)
        return element(d.variable_name)

    class SaveSliceInfo:
        """Which part of a larger variable a variable is, for savers."""

        def __init__(self, full_name=None, full_shape=None, var_offset=None, var_shape=None, save_slice_info_def=None,
                     import_scope=None):
            if save_slice_info_def is not None:
                d = save_slice_info_def
                full_name = ops.prepend_name_scope(d.full_name, import_scope)
                full_shape, var_offset, var_shape = list(d.full_shape), list(d.var_offset), list(d.var_shape)
            self.full_name, self.full_shape, self.var_offset, self.var_shape = full_name, full_shape, var_offset, var_shape

        @property
        def spec(self):
            """"full shape offset,length:...", as checkpoints name slices."""
            return " ".join(str(d) for d in self.full_shape) + " " + ":".join(
                "%d,%d" % pair for pair in zip(self.var_offset, self.var_shape))

        def to_proto(self, export_scope=None):
            from .. import protos
            if export_scope is not None and not self.full_name.startswith(export_scope):
                return None
            return protos.SaveSliceInfoDef(full_name=ops.strip_name_scope(self.full_name, export_scope),
                                           full_shape=list(self.full_shape), var_offset=list(self.var_offset),
                                           var_shape=list(self.var_shape))


VariableV1 = Variable


def _class_attr(name):
    from .. import protos
    return protos.AttrValue(list=protos.AttrValue.ListValue(s=[b"loc:@" + name.rstrip("/").encode()]))


def _overloaded(operator):
    def f(self, *args):
        return getattr(ops.Tensor, operator)(self._as_tensor(), *args)
    f.__name__ = operator
    return f


for _operator in ("add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv div rdiv mod rmod pow rpow matmul rmatmul lt le "
                  "gt ge and rand or ror xor rxor neg invert abs").split():
    setattr(Variable, "__%s__" % _operator, _overloaded("__%s__" % _operator))


def _checked_dtype(v, dtype):
    if dtype is not None and not dtype.is_compatible_with(v.dtype.base_dtype):
        raise ValueError("Incompatible type conversion requested to type %r for variable of type %r" %
                         (dtype.name, v.dtype.base_dtype.name))


def _slices_of(sparse_delta):
    if not isinstance(sparse_delta, ops.IndexedSlices):
        raise ValueError("sparse_delta is not IndexedSlices: %s" % (sparse_delta,))
    return {"indices": sparse_delta.indices, "updates": sparse_delta.values}


# ---- references ----

class RefVariable(Variable):
    """A variable that operations change through a reference to its memory."""

    def __init__(self, initial_value=None, trainable=None, collections=None, validate_shape=True, caching_device=None, name=None,
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
        self._variable = raw.variable_v2(shape=shape, dtype=value.dtype.base_dtype, name=scope)
        self._safe_initial_value = _guarded(self._variable.op.name, value)
        self._initializer_op = raw.assign(self._variable, self._safe_initial_value, validate_shape=validate_shape).op
        placed = ops.colocate_with(self._variable.op) if caching_device is None else ops.device(caching_device)
        with placed:
            self._snapshot = raw.identity(self._variable, name="read")

    def _defined_by(self):
        return self._variable

    def value(self):
        """Its value as a tensor; reads of one variable share it."""
        return self._snapshot

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
        return self._changed("Assign", name, use_locking, read_value, value=value)

    def assign_add(self, delta, use_locking=False, name=None, read_value=True):
        return self._changed("AssignAdd", name, use_locking, read_value, value=delta)

    def assign_sub(self, delta, use_locking=False, name=None, read_value=True):
        return self._changed("AssignSub", name, use_locking, read_value, value=delta)

    def _scatter(self, op_type, sparse_delta, use_locking, name):
        return call(op_type, name, ref=self._variable, use_locking=use_locking, **_slices_of(sparse_delta))

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
        s = _slices_of(sparse_delta)
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


# ---- resources ----

class ResourceVariable(Variable):
    """A variable that operations reach through a handle; a read gives the value of that moment."""

    def __init__(self, initial_value=None, trainable=None, collections=None, validate_shape=True, caching_device=None, name=None,
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
            raise ValueError("The initial value's shape (%s) is not compatible with the explicitly supplied `shape` argument (%s)." %
                             (value.shape, self._shape))
        self._handle = raw.var_handle_op(dtype=self._dtype, shape=self._shape, shared_name=scope.rstrip("/"), name=scope)
        with ops.name_scope("IsInitialized"):
            self._is_initialized_op = raw.var_is_initialized_op(self._handle)
        with ops.name_scope("Assign") as n, ops.colocate_with(self._handle.op):
            self._safe_initial_value = _guarded(scope.rstrip("/"), value)
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

    def _read_op(self):
        with ops.device(self._handle.device or None) if self._handle.device else contextlib.nullcontext():
            t = raw.read_variable_op(self._handle, self._dtype)
        t.set_shape(self._shape)
        return t

    def _defined_by(self):
        return self._handle

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
        raise NotImplementedError("A ResourceVariable has no reference: %s" % self.name)

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

    def _changed(self, op_type, value, name, read_value):
        value = convert.convert_to_tensor(value, self._dtype)
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
        s = _slices_of(sparse_delta)
        s["updates"] = convert.convert_to_tensor(s["updates"], self._dtype)
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
        s = _slices_of(sparse_delta)
        return state.batch_scatter_update(self, s["indices"], s["updates"], use_locking, name)

    def _scatter_nd(self, op_type, indices, updates, name):
        return self._lazy_read(call(op_type, name, ref=self._handle, indices=indices,
                                    updates=convert.convert_to_tensor(updates, self._dtype)))

    def scatter_nd_add(self, indices, updates, name=None):
        return self._scatter_nd("ResourceScatterNdAdd", indices, updates, name)

    def scatter_nd_sub(self, indices, updates, name=None):
        return self._scatter_nd("ResourceScatterNdSub", indices, updates, name)

    def scatter_nd_update(self, indices, updates, name=None):
        return self._scatter_nd("ResourceScatterNdUpdate", indices, updates, name)

    def _strided_slice_assign(self, begin, end, strides, value, name, **masks):
        return self._lazy_read(call("ResourceStridedSliceAssign", name, ref=self._handle, begin=begin, end=end, strides=strides,
                                    value=convert.convert_to_tensor(value, self._dtype), **masks))


class _UnreadVariable(ResourceVariable):
    """A resource variable after an operation that changes it: reads wait for that operation."""

    def __init__(self, variable, changed_by):
        self.__dict__.update(variable.__dict__)
        self._parent_op, self._cached_value, self._element = changed_by, None, None

    op = property(lambda self: self._parent_op)
    name = property(lambda self: self._handle.name)

    def _read_op(self):
        with ops.control_dependencies([self._parent_op]):
            return super()._read_op()

    def value(self):
        return self._read_op()

    def read_value(self):
        return raw.identity(self._read_op())

    def _as_graph_element(self):
        if self._element is None:
            self._element = self._read_op()
        return self._element


BaseResourceVariable = ResourceVariable


def is_resource_variable(var):
    return isinstance(var, ResourceVariable)


def _ref_conversion(v, dtype=None, name=None, as_ref=False):
    _checked_dtype(v, dtype)
    return v._ref() if as_ref else v.value()


def _resource_conversion(v, dtype=None, name=None, as_ref=False):
    _checked_dtype(v, dtype)
    return v._handle if as_ref else v.value()


# ---- parts of a larger variable ----

class PartitionedVariable:
    """A variable that is kept in parts along one dimension."""

    def __init__(self, name, shape, dtype, variable_list, partitions):
        if not isinstance(variable_list, (list, tuple)):
            raise TypeError("variable_list is not a list or tuple: %s" % (variable_list,))
        if not isinstance(partitions, (list, tuple)):
            raise TypeError("partitions is not a list or tuple: %s" % (partitions,))
        if not all(p >= 1 for p in partitions):
            raise ValueError("partition values must be positive: %s" % (partitions,))
        if not variable_list:
            raise ValueError("variable_list may not be empty")
        if any(v._get_save_slice_info() is None for v in variable_list):
            raise ValueError("All variables must have a save_slice_info available: %s" % [v.name for v in variable_list])
        self._name, self._shape, self._dtype = name, shapes.as_shape(shape), dtypes.as_dtype(dtype)
        self._variable_list = sorted(variable_list, key=lambda v: v._get_save_slice_info().var_offset)
        self._partitions = partitions
        self._as_one = None

    name = property(lambda self: self._name)
    dtype = property(lambda self: self._dtype)
    shape = property(lambda self: self._shape)
    graph = property(lambda self: self._variable_list[0].graph)

    def get_shape(self):
        return self._shape

    def __iter__(self):
        return iter(self._variable_list)

    def __len__(self):
        return len(self._variable_list)

    def _get_variable_list(self):
        return self._variable_list

    def _get_partitions(self):
        return self._partitions

    def _partition_axes(self):
        axes = [i for i, p in enumerate(self._partitions) if p > 1]
        return axes or [0]

    def as_tensor(self):
        """All parts put together."""
        with ops.name_scope(None):
            return self._concat()

    def _concat(self):
        if len(self._variable_list) == 1:
            with ops.name_scope(None):
                return raw.identity(self._variable_list[0], name=self._name)
        axes = self._partition_axes()
        if len(axes) > 1:
            raise NotImplementedError("Cannot concatenate along more than one dimension: %s." % axes)
        with ops.name_scope(self._name + "/ConcatPartitions/"):
            whole = raw.concat_v2([v.value() for v in self._variable_list], axes[0])
        with ops.name_scope(None):
            return raw.identity(whole, name=self._name)

    def _as_graph_element(self):
        if self._as_one is None:
            with self.graph.as_default():
                self._as_one = self.as_tensor()
        return self._as_one

    def _apply(self, method, value, **kwargs):
        """Calls a method of each part with its part of a value that may come in parts or whole."""
        if not isinstance(value, (list, tuple)):
            value = self._split(value)
        if len(value) != len(self._variable_list):
            raise ValueError("%s has %d parts, %d values were given" % (self._name, len(self._variable_list), len(value)))
        return [getattr(v, method)(x, **kwargs) for v, x in zip(self._variable_list, value)]

    def _split(self, value):
        axis = self._partition_axes()[0]
        sizes = [v.shape.as_list()[axis] for v in self._variable_list]
        return raw.split_v(convert.convert_to_tensor(value, self._dtype.base_dtype), sizes, axis, num_split=len(sizes))

    def assign(self, value, use_locking=False, name=None, read_value=True):
        return self._apply("assign", value, use_locking=use_locking, name=name, read_value=read_value)

    def assign_add(self, value, use_locking=False, name=None, read_value=True):
        return self._apply("assign_add", value, use_locking=use_locking, name=name, read_value=read_value)

    def assign_sub(self, value, use_locking=False, name=None, read_value=True):
        return self._apply("assign_sub", value, use_locking=use_locking, name=name, read_value=read_value)


def _partitioned_conversion(v, dtype=None, name=None, as_ref=False):
    if as_ref:
        raise ValueError("PartitionedVariable has no reference: %s" % v.name)
    _checked_dtype(v, dtype)
    return v.as_tensor()


for _operator in ("add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow matmul rmatmul lt le gt ge neg "
                  "abs getitem").split():
    setattr(PartitionedVariable, "__%s__" % _operator,
            (lambda o: lambda self, *args: getattr(ops.Tensor, o)(self.as_tensor(), *args))("__%s__" % _operator))

convert.register_tensor_conversion_function(RefVariable, _ref_conversion)
convert.register_tensor_conversion_function(ResourceVariable, _resource_conversion)
convert.register_tensor_conversion_function(PartitionedVariable, _partitioned_conversion)


# ---- initial values that are made of other variables ----

def _guarded(name, value):
    """The value with the variables it depends on replaced by their initialized values, so that the order of initializers does not
    matter.  Where it is not made of variables, or of a loop, it stays as it is."""
    return _Guard(name).tensor(value)


class _Guard:
    """Copies what depends on variables; every operation at most once.

    What comes out of a conditional is left alone: it is an initialized value mostly."""

    _AS_IT_IS = ("IsVariableInitialized", "VarIsInitializedOp", "Merge", "RefMerge", "If", "StatelessIf")

    def __init__(self, name):
        self._name, self._copies = name, {}

    def tensor(self, t):
        if not self._has_variable(t.op):
            return t
        return self._copied(t)

    def _has_variable(self, op):
        """Whether a variable is above it, and no loop."""
        seen, stack, found = set(), [op], False
        while stack:
            o = stack.pop()
            if o in seen:
                continue
            seen.add(o)
            if o.type in ("NextIteration", "RefNextIteration"):
                return False
            if o.type in self._AS_IT_IS:
                continue
            found = found or o.type in ("Variable", "VariableV2", "VarHandleOp")
            stack.extend(t.op for t in o.inputs)
        return found

    def _copied(self, t):
        op = t.op
        if op.type in self._AS_IT_IS:
            return t
        if op.type == "ReadVariableOp":
            op = op.inputs[0].op
        if op.type in ("Variable", "VariableV2", "VarHandleOp"):
            initialized = self._initialized(op)
            return t if initialized is None else initialized
        if op not in self._copies:
            inputs = [self._copied(x) for x in op.inputs]
            same = all(a is b for a, b in zip(inputs, op.inputs))
            self._copies[op] = op if same else self._copy(op, inputs)
        return self._copies[op].outputs[t.value_index]

    def _copy(self, op, inputs):
        name = (op.node_def.name + "_" + self._name).replace(":", "_")
        return op.graph.create_op(op.type, _nested_like(op, inputs), name=name, attrs=dict(op.node_def.attr))

    @staticmethod
    def _initialized(op):
        for key in (ops.GraphKeys.GLOBAL_VARIABLES, ops.GraphKeys.LOCAL_VARIABLES):
            for v in op.graph.get_collection(key):
                if getattr(v, "op", None) is op:
                    return v.initialized_value()
        return None


def _nested_like(op, inputs):
    """A flat list of inputs in the form of the op's definition: lists where it has lists."""
    from ..framework import op_defs
    nested, at = [], 0
    for arg in op_defs.plan(op.type, op.graph).inputs:
        if not arg.is_list:
            nested.append(inputs[at])
            at += 1
            continue
        n = op.get_attr(arg.number_attr) if arg.number_attr else len(op.get_attr(arg.types_attr))
        nested.append(inputs[at:at + n])
        at += n
    return nested


# ---- collections of variables, and operations on them ----

def global_variables(scope=None):
    return ops.get_collection(ops.GraphKeys.GLOBAL_VARIABLES, scope)


def all_variables():
    return global_variables()


def local_variables(scope=None):
    return ops.get_collection(ops.GraphKeys.LOCAL_VARIABLES, scope)


def model_variables(scope=None):
    return ops.get_collection(ops.GraphKeys.MODEL_VARIABLES, scope)


def trainable_variables(scope=None):
    return ops.get_collection(ops.GraphKeys.TRAINABLE_VARIABLES, scope)


def moving_average_variables(scope=None):
    return ops.get_collection(ops.GraphKeys.MOVING_AVERAGE_VARIABLES, scope)


def variables_initializer(var_list, name="init"):
    """An operation that runs the initializers of all of them."""
    from . import control_flow
    return control_flow.group(*[v.initializer for v in var_list or []], name=name)


def initialize_variables(var_list, name="init"):
    return variables_initializer(var_list, name=name)


def global_variables_initializer():
    return variables_initializer(global_variables())


def initialize_all_variables():
    return global_variables_initializer()


def local_variables_initializer():
    return variables_initializer(local_variables())


def initialize_local_variables():
    return local_variables_initializer()


is_variable_initialized = state.is_variable_initialized


def assert_variables_initialized(var_list=None):
    """An operation that fails while one of them has no value; None when there are none."""
    if var_list is None:
        var_list = global_variables() + local_variables()
    if not var_list:
        var_list = [op.outputs[0] for op in ops.get_default_graph().get_operations()
                    if op.type in ("Variable", "VariableV2", "AutoReloadVariable")]
    if not var_list:
        return None
    ranks = [raw.rank(v.value() if isinstance(v, ResourceVariable) else v) for v in var_list]
    return ranks[0] if len(ranks) == 1 else raw.pack(ranks)


def report_uninitialized_variables(var_list=None, name="report_uninitialized_variables"):
    """The names of those that have no value yet, as a string vector."""
    if var_list is None:
        var_list = global_variables() + local_variables()
    if not var_list:
        var_list = [op.outputs[0] for op in ops.get_default_graph().get_operations()
                    if op.type in ("Variable", "VariableV2", "AutoReloadVariable")]
    with ops.name_scope(name):
        known = [is_variable_initialized(v) for v in var_list]
        with ops.device(os.environ.get("TF_DEVICE_FOR_UNINITIALIZED_VARIABLE_REPORTING", "/cpu:0")):
            if not var_list:
                return convert.constant(np.array([], dtype=object), dtype=dtypes.string)
            unknown = raw.logical_not(raw.pack(known))
            names = convert.constant([v.op.name for v in var_list])
            return raw.gather_nd(names, raw.where(unknown))
