"""What references and resources have in common: Variable, by whom variables are made, and safe initial values.

What makes a variable goes through the creators of tf.variable_creator_scope, outermost last.
"""

import contextlib
import enum
import inspect

from ..framework import convert, ops
from . import array, state


class VariableSynchronization(enum.Enum):
    """When copies of a variable on several devices are combined."""
    AUTO = 0
    NONE = 1
    ON_WRITE = 2
    ON_READ = 3


class VariableAggregation(enum.Enum):
    """How updates from several devices are combined."""
    NONE = 0
    SUM = 1
    MEAN = 2
    ONLY_FIRST_REPLICA = 3
    ONLY_FIRST_TOWER = 3


# ---- which kind is made, and by whom ----

_default_use_resource = False


def enable_resource_variables():
    """Makes new variables resource variables unless they are made with use_resource=False."""
    global _default_use_resource
    _default_use_resource = True


def disable_resource_variables():
    """Makes new variables reference variables unless they ask for resources."""
    global _default_use_resource
    _default_use_resource = False


def resource_variables_enabled():
    """Whether new variables are resource variables by default."""
    return _default_use_resource


def default_variable_creator(next_creator=None, use_resource=None, **kwargs):
    """What makes a variable when no creator of a scope does."""
    from . import variable_scope, variables
    if use_resource is None:
        use_resource = variable_scope.get_variable_scope().use_resource
    if use_resource is None:
        use_resource = _default_use_resource
    return (variables.ResourceVariable if use_resource else variables.RefVariable)(**kwargs)


def _creators(graph):
    return graph._scoped.setdefault("variable_creators", [])


@contextlib.contextmanager
def variable_creator_scope(variable_creator):
    """Returns a context manager in which variable_creator(next_creator, **kwargs) makes the variables."""
    stack = _creators(ops.get_default_graph())
    stack.append(variable_creator)
    try:
        yield
    finally:
        if stack[-1] is not variable_creator:
            raise RuntimeError("Exiting variable_creator_scope without proper nesting.")
        stack.pop()


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

    @property
    def __signature__(cls):
        """The arguments of the constructor; inspect would show those of __call__."""
        if cls is Variable:
            return inspect.signature(_arguments)
        own = inspect.signature(cls.__init__)
        return own.replace(parameters=list(own.parameters.values())[1:])


def _arguments(initial_value=None, trainable=None, collections=None, validate_shape=True, caching_device=None, name=None,
               variable_def=None, dtype=None, expected_shape=None, import_scope=None, constraint=None, use_resource=None,
               synchronization=VariableSynchronization.AUTO, aggregation=VariableAggregation.NONE, shape=None):
    return locals()


# ---- what all variables do ----

class Variable(metaclass=_VariableKind):
    """A variable: `tf.Variable(initial_value, name="w")`.

    Args:
        initial_value: a value, a tensor, or a function that returns one
        trainable: whether optimizers change the variable; by default yes
        collections: the collections it is added to; by default GLOBAL_VARIABLES
        validate_shape: whether the shape must be known
        caching_device: the device that reads are cached on
        name: the name of the variable
        variable_def: a VariableDef to make the variable from instead
        dtype: the type that initial_value is converted to
        expected_shape: ignored
        import_scope: the name scope that variable_def was imported to
        constraint: a function applied to the variable after each update of an optimizer
        use_resource: whether to make a resource variable; None leaves it to the variable scope
        synchronization: when copies of the variable are combined
        aggregation: how copies of the variable are combined
        shape: the shape of the variable, where it differs from that of initial_value
    """

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
            raise ValueError("Initializer for variable %s is from inside a control-flow construct, such as a loop or "
                             "conditional. When creating a variable inside a loop or conditional, use a lambda as the "
                             "initializer." % name)

    def __repr__(self):
        return "<tf.Variable '%s' shape=%s dtype=%s>" % (self.name, self.get_shape(), self.dtype.name)

    def __iter__(self):
        raise TypeError("'Variable' object is not iterable.")

    def __getitem__(self, key):
        """A slice, which has a method `assign` that changes that part of the variable."""
        return array._slice_tensor(self._as_tensor(), key, var=self)

    trainable = property(lambda self: self._trainable, doc="Whether optimizers change the variable by default.")
    constraint = property(lambda self: self._constraint,
                          doc="The function applied to the variable after each update of an optimizer, or None.")
    synchronization = property(lambda self: self._synchronization,
                               doc="When copies of the variable are combined, a VariableSynchronization.")
    aggregation = property(lambda self: self._aggregation,
                           doc="How copies of the variable are combined, a VariableAggregation.")
    initial_value = property(lambda self: self._initial_value, doc="The tensor that the variable is initialized with.")
    initializer = property(lambda self: self._initializer_op, doc="The operation that initializes the variable.")
    shape = property(lambda self: self.get_shape(), doc="The static shape of the variable.")
    _shared_name = property(lambda self: self.name[:self.name.index(":")])
    _unique_id = property(lambda self: self._shared_name)

    @property
    def _graph_key(self):
        return self.graph

    def eval(self, session=None):
        """Returns the current value, in the given session or in the default one."""
        return self._as_graph_element().eval(session=session)

    def load(self, value, session=None):
        """Sets the variable to a value without adding operations to the graph."""
        session = session or ops.get_default_session()
        if session is None:
            raise ValueError("Either session argument should be provided or default session should be established")
        session.run(self.initializer, {self.initializer.inputs[1]: value})

    def initialized_value(self):
        """Returns the value, or the initial value while the variable is not initialized."""
        from . import control_flow
        with ops.init_scope():
            return control_flow.cond(state.is_variable_initialized(self), self.read_value, lambda: self._safe_initial_value)

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
        d.snapshot_name = ops.strip_name_scope(self._snapshot_tensor().name, export_scope)
        d.trainable = bool(self.trainable)
        d.synchronization, d.aggregation = self._synchronization.value, self._aggregation.value
        d.is_resource = hasattr(self, "handle")
        if self._save_slice_info is not None:
            d.save_slice_info_def.MergeFrom(self._save_slice_info.to_proto(export_scope))
        return d

    def _snapshot_tensor(self):
        return self._snapshot

    @staticmethod
    def from_proto(variable_def, import_scope=None):
        """The variable that a VariableDef describes, over operations that are in the graph already."""
        from . import variables
        kind = variables.ResourceVariable if variable_def.is_resource else variables.RefVariable
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
            """Returns the slice as a SaveSliceInfoDef, or None if it is outside of export_scope."""
            from .. import protos
            if export_scope is not None and not self.full_name.startswith(export_scope):
                return None
            return protos.SaveSliceInfoDef(full_name=ops.strip_name_scope(self.full_name, export_scope),
                                           full_shape=list(self.full_shape), var_offset=list(self.var_offset),
                                           var_shape=list(self.var_shape))


VariableV1 = Variable


def _class_attr(name):
    return "[s", [b"loc:@" + name.rstrip("/").encode()]


def _overloaded(operator):
    def f(self, *args):
        return getattr(ops.Tensor, operator)(self._as_tensor(), *args)
    f.__name__ = operator
    return f


for _operator in ("add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv div rdiv mod rmod pow rpow matmul rmatmul "
                  "lt le gt ge and rand or ror xor rxor neg invert abs").split():
    setattr(Variable, "__%s__" % _operator, _overloaded("__%s__" % _operator))


def checked_dtype(v, dtype):
    if dtype is not None and not dtype.is_compatible_with(v.dtype.base_dtype):
        raise ValueError("Incompatible type conversion requested to type %r for variable of type %r" %
                         (dtype.name, v.dtype.base_dtype.name))


def slices_of(sparse_delta):
    if not isinstance(sparse_delta, ops.IndexedSlices):
        raise ValueError("sparse_delta is not IndexedSlices: %s" % (sparse_delta,))
    return {"indices": sparse_delta.indices, "updates": sparse_delta.values}


# ---- initial values that are made of other variables ----

def guarded(name, value):
    """The value with the variables it depends on replaced by their initialized values, so that the order of initializers does
    not matter.  Where it is not made of variables, or of a loop, it stays as it is."""
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
