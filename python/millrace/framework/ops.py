"""Graph, Operation and Tensor, and the scopes that new operations are made under.

The extension keeps the graph itself; what is here is what Python adds to it: names that differ, scopes of names, devices,
control dependencies and colocation, collections, and which graph is the default one.  There is one object for each operation
and each of its outputs, made when it is first seen, so they can be compared by identity.
"""

import contextlib
import re
import sys
import threading

import _millrace as _core
from . import device as device_lib
from . import dtypes, errors, shapes

_VALID_OP_NAME = re.compile(r"^[A-Za-z0-9.][A-Za-z0-9_.\-/]*$")
_VALID_SCOPE_NAME = re.compile(r"^[A-Za-z0-9_.\-/]*$")


# Where an operation was made is told without this package's own frames.
_core.set_package(__file__.rpartition("/framework/")[0] + "/")


class Tensor(_core.Output):
    """An output of an operation: what will flow along an edge of the graph."""

    __array_priority__ = 100
    OVERLOADABLE_OPERATORS = set()  # filled by ops.math

    @property
    def shape(self):
        """The static shape, which may be unknown in part or whole."""
        return shapes.TensorShape(self._dims)

    def get_shape(self):
        """Returns the static shape; the same as the property shape."""
        return shapes.TensorShape(self._dims)

    def _shape_as_list(self):
        return None if self._dims is None else list(self._dims)

    def _shape_tuple(self):
        return self._dims

    def _rank(self):
        return None if self._dims is None else len(self._dims)

    def set_shape(self, shape):
        """Adds to what is known of its shape; a contradiction is a ValueError."""
        shape = shapes.as_shape(shape)
        now = self.shape
        if not now.is_compatible_with(shape):
            raise ValueError("Tensor's shape %s is not compatible with supplied shape %s" % (now, shape))
        if shape._tuple() is not None:
            self.graph.merge_shape(self, shape._tuple())

    @property
    def device(self):
        """The name of the device the operation was placed on, or "" where it is not decided."""
        return self.op.device

    def _as_node_def_input(self):
        return self.op.name if self.value_index == 0 else self.name

    def eval(self, feed_dict=None, session=None):
        """Runs the graph and returns the value, in the given session or in the default one."""
        return _session_for(session, self.graph, "evaluate tensor").run(self, feed_dict)

    def __iter__(self):
        raise errors.OperatorNotAllowedInGraphError(
            "iterating over `tf.Tensor` is not allowed in Graph execution. Tensor objects are only iterable when eager "
            "execution is enabled. To iterate over this tensor use tf.map_fn.")

    def __bool__(self):
        raise errors.OperatorNotAllowedInGraphError(
            "Using a `tf.Tensor` as a Python `bool` is not allowed. Use `if t is not None:` instead of `if t:` to test if "
            "a tensor is defined, and use TensorFlow ops such as tf.cond to execute subgraphs conditioned on the value of a tensor.")

    def __len__(self):
        raise TypeError("object of type 'Tensor' has no len()")

    def __copy__(self):
        return self

    def __array__(self, *unused):
        raise NotImplementedError("Cannot convert a symbolic Tensor (%s) to a numpy array." % self.name)

    def __repr__(self):
        return "<tf.Tensor '%s' shape=%s dtype=%s>" % (self.name, self.shape, self.dtype.name)

    def __str__(self):
        shape = self.shape
        return 'Tensor("%s"%s%s%s)' % (
            self.name,
            ", shape=%s" % shape if shape.ndims is not None else "",
            ", dtype=%s" % self.dtype.name,
            ", device=%s" % self.device if self.device else "")

    @staticmethod
    def _override_operator(operator, function):
        setattr(Tensor, operator, function)
        Tensor.OVERLOADABLE_OPERATORS.add(operator)


class Operation(_core.Operation):
    """A node of the graph."""

    @property
    def inputs(self):
        """The input tensors, in order."""
        return self._inputs()

    @property
    def control_inputs(self):
        """The operations that must run before this one."""
        return self._control_inputs()

    @property
    def traceback(self):
        """Where the operation was made, outermost call first: (file, line, function, text)."""
        import linecache
        return [(code.co_filename, line, code.co_name, linecache.getline(code.co_filename, line).strip())
                for code, line in reversed(self._where)]

    @property
    def node_def(self):
        """The NodeDef message of the operation."""
        from .. import protos
        return protos.NodeDef.FromString(self._node_def())

    @property
    def op_def(self):
        """The OpDef message of the operation's type."""
        from . import op_defs
        return op_defs.op_def(self.type, self.graph)

    def values(self):
        """Returns the outputs as a tuple."""
        return tuple(self.outputs)

    def get_attr(self, name):
        """The value of an attr as Python has it."""
        from . import op_defs
        try:
            kind, value = self._attr(name)
        except errors.InvalidArgumentError as e:
            raise ValueError("Operation %r has no attr named %r." % (self.name, name)) from e
        return op_defs.attr_to_python(kind, value)

    def _set_attr(self, name, attr_value):
        self.graph.set_attr(self, name, attr_value.SerializeToString())

    def _clear_attr(self, name):
        self.graph.clear_attr(self, name)

    def _set_device(self, device):
        self.graph.set_device(self, device_lib.canonical_name(device))

    def _update_input(self, index, tensor):
        self.graph.update_input(self, index, tensor)

    def _add_control_inputs(self, ops):
        for op in ops:
            self.graph.add_control(self, op)

    def _add_control_input(self, op):
        self.graph.add_control(self, op)

    def _remove_all_control_inputs(self):
        self.graph.clear_controls(self)

    def _get_control_flow_context(self):
        return self._control_flow_context

    def _set_control_flow_context(self, context):
        self._control_flow_context = context

    def run(self, feed_dict=None, session=None):
        """Runs the operation, in the given session or in the default one."""
        _session_for(session, self.graph, "execute operation").run(self, feed_dict)

    def __repr__(self):
        return "<tf.Operation '%s' type=%s>" % (self.name, self.type)

    def __str__(self):
        return str(self.node_def)


def _session_for(session, graph, what):
    if session is None:
        session = get_default_session()
        if session is None:
            raise ValueError("Cannot %s using `%s`: No default session is registered. Use `with sess.as_default()` or pass "
                             "an explicit session to it" % (what, "eval()" if "tensor" in what else "run()"))
        if session.graph is not graph:
            raise ValueError("Cannot use the default session to %s: the tensor's graph is different from the session's graph. "
                             "Pass an explicit session." % what)
    elif session.graph is not graph:
        raise ValueError("Cannot use the given session to %s: the tensor's graph is different from the session's graph." % what)
    return session


class IndexedSlices:
    """Rows of a tensor: values[i] belongs to row indices[i].  What gradients of lookups are."""

    def __init__(self, values, indices, dense_shape=None):
        self._values, self._indices, self._dense_shape = values, indices, dense_shape

    values = property(lambda self: self._values, doc="The slices: a tensor whose first dimension goes with indices.")
    indices = property(lambda self: self._indices,
                       doc="The positions of the slices in the first dimension of the dense tensor.")
    dense_shape = property(lambda self: self._dense_shape, doc="The shape of the dense tensor, as a tensor, or None.")
    name = property(lambda self: self._values.name, doc="The name of the values.")
    device = property(lambda self: self._values.device, doc="The device of the values.")
    op = property(lambda self: self._values.op, doc="The operation that makes the values.")
    dtype = property(lambda self: self._values.dtype, doc="The type of the values.")
    graph = property(lambda self: self._values.graph, doc="The graph of the values.")

    @property
    def shape(self):
        """The static shape of the dense tensor that the slices are part of."""
        from . import convert
        return shapes.TensorShape(None) if self._dense_shape is None else convert.constant_value_as_shape(self._dense_shape)

    def _composite_parts(self):
        """For framework.nest."""
        if self._dense_shape is None:
            return [self._values, self._indices], lambda parts: IndexedSlices(*parts)
        return [self._values, self._indices, self._dense_shape], lambda parts: IndexedSlices(*parts)

    def __neg__(self):
        return IndexedSlices(-self._values, self._indices, self._dense_shape)

    def __str__(self):
        return "IndexedSlices(indices=%s, values=%s%s)" % (
            self._indices, self._values, "" if self._dense_shape is None else ", dense_shape=%s" % self._dense_shape)


class _ControlDependencies:
    """One scope of control dependencies: what it asks for, and the operations made under it so far."""

    def __init__(self, graph, controls):
        self._graph, self.clears = graph, controls is None
        self.ops = [] if controls is None else controls
        self.seen = set()
        self._before = None

    def waits_for(self, ops):
        """Whether one of these comes before what is made under the scope, by any way.  Found out once a scope."""
        if self._before is None:
            self._before, waiting = set(self.ops), list(self.ops)
            while waiting:
                op = waiting.pop()
                new = {t.op for t in op.inputs}.union(op.control_inputs) - self._before
                self._before |= new
                waiting += new
        return not self._before.isdisjoint(ops)

    def __enter__(self):
        g = self._graph
        self._former_context = g._control_flow_context
        if self.clears:
            self._former_stack, g._control_stack = g._control_stack, []
            g._control_flow_context = None
        g._control_stack.append(self)

    def __exit__(self, *unused):
        g = self._graph
        g._control_stack.remove(self)
        if self.clears:
            g._control_stack = self._former_stack
        g._control_flow_context = self._former_context


class _ThreadScopes(threading.local):
    """The scopes that a thread is in, of a graph that it builds."""

    def __init__(self, devices):
        super().__init__()
        self.own = _core.Scopes(list(devices))  # where the graph's own thread is when this one begins


class _NameScope(contextlib.ContextDecorator):
    """A prefix of the names of new operations in a graph."""

    def __init__(self, graph, name):
        self._graph, self._name, self._former = graph, name, []

    def __enter__(self):
        graph = self._graph
        self._former.append(graph._push_name(self._name))
        names = graph._name_stack
        return names + "/" if names else ""

    def __exit__(self, *unused):
        self._graph._name_stack = self._former.pop()


class _DeviceScope(contextlib.ContextDecorator):
    """A device for new operations of a graph."""

    def __init__(self, graph, device):
        self._graph, self._device = graph, device

    def __enter__(self):
        d = self._device
        self._graph._device_stack.append(d if d is None or callable(d) else device_lib.merge_device(d))

    def __exit__(self, *unused):
        self._graph._device_stack.pop()


class _Colocation(contextlib.ContextDecorator):
    """An operation that new ones are to be beside; only what is asked for within it can move them to another device."""

    def __init__(self, graph, op, ignore_existing):
        self._graph, self._op, self._ignore_existing, self._former = graph, op, ignore_existing, []

    def __enter__(self):
        graph, op = self._graph, self._op
        if op is None and not self._ignore_existing:
            raise ValueError("Trying to reset colocation (op is None) but ignore_existing is not True")
        if op is not None:
            op = op if isinstance(op, Operation) else _placed_with(op)
        former = graph._colocation_stack
        self._former.append((former, graph._device_stack))
        within = [] if self._ignore_existing else list(former)
        if op is not None:
            within.append(op)
        graph._colocation_stack, graph._device_stack = within, []

    def __exit__(self, *unused):
        self._graph._colocation_stack, self._graph._device_stack = self._former.pop()


class _AttrScope(contextlib.ContextDecorator):
    """Attrs of new operations; None takes one away."""

    def __init__(self, graph, attrs):
        self._graph, self._attrs, self._former = graph, attrs, []

    def __enter__(self):
        graph = self._graph
        self._former.append(graph._attr_scope_map)
        within = dict(graph._attr_scope_map, **self._attrs)
        graph._attr_scope_map = {k: v for k, v in within.items() if v is not None} if None in within.values() else within

    def __exit__(self, *unused):
        self._graph._attr_scope_map = self._former.pop()


class Graph(_core.Graph):
    """A graph of operations and the tensors between them."""

    _operation_class, _output_class = Operation, Tensor

    def __init__(self):
        devices = []
        self._thread = _ThreadScopes(devices)
        self._thread.own = _core.Scopes(devices)  # the very list, which others begin with
        self._collections = {}
        self._container = ""
        self._seed = None
        self._seed_used = False  # by an operation without its own seed
        self._written = {}            # the graph as bytes, while it is finalized
        self._unfeedable, self._unfetchable = set(), set()
        self._handle_feeders, self._handle_operations = {}, {}  # of ops.session_handles
        self._functions = {}
        self._building_function = False
        self._outer = None
        self._scoped = {}             # what other modules keep for a graph

    # ---- names ----

    def _added_since(self, number):
        """The operations from this number on, which the library made by itself; they were made here."""
        self._made_here(number)
        return self.ops(number)[0]

    def name_scope(self, name):
        """Returns a context manager that prefixes the names of new operations with the name.

        A name that ends in "/" replaces the whole prefix; None or "" resets it."""
        return _NameScope(self, name)

    def get_name_scope(self):
        """Returns the current name scope, without a trailing slash."""
        return self._name_stack

    # ---- making operations ----

    def create_op(self, op_type, inputs, dtypes=None, input_types=None, name=None, attrs=None, op_def=None,
                  compute_shapes=True, compute_device=True):
        """Adds an operation; attrs are AttrValue messages by name, as in TensorFlow."""
        coded = [(key, "p", value.SerializeToString()) for key, value in (attrs or {}).items()]
        return self._add(op_type, name or op_type, list(inputs), coded)

    def _own(self, tensor, what):
        """The tensor as one of this graph; a function's graph takes it over."""
        if tensor.graph is not self:
            raise ValueError("%s must be from the same graph as %s." % (tensor, what))
        return tensor

    def _attrs_of_scopes(self, op_type, given):
        """What scopes add to the attrs of a new operation, beside its colocation: triples as the extension has them."""
        attrs = []
        for key, value in self._attr_scope_map.items():
            value = value(op_type) if callable(value) else value
            if key not in given and value is not None:
                attrs.append((key, *value) if type(value) is tuple else (key, "p", value.SerializeToString()))
        if op_type in self._gradient_override and "_gradient_op_type" not in given:
            attrs.append(("_gradient_op_type", "s", self._gradient_override[op_type]))
        if op_type in self._kernel_labels and "_kernel" not in given:
            attrs.append(("_kernel", "s", self._kernel_labels[op_type]))
        return attrs

    def _place(self, op):
        """Gives a new operation the device of its scopes."""
        for function in reversed(self._device_stack):
            if function is None:
                break
            self.set_device(op, device_lib.canonical_name(function(op)))

    # ---- scopes ----

    def device(self, device_name_or_function):
        """New operations go to this device; a function is asked for each; None forgets the outer scopes."""
        return _DeviceScope(self, device_name_or_function)

    def control_dependencies(self, control_inputs):
        """New operations wait for these; None forgets the outer scopes."""
        if control_inputs is None:
            return _ControlDependencies(self, None)
        controls = {}
        for c in control_inputs:
            if isinstance(c, IndexedSlices) or hasattr(c, "handle") and hasattr(c, "op"):
                c = c.op  # of a resource variable its operation, or the one that changed it: not a read
            elif hasattr(c, "_as_graph_element"):
                c = c._as_graph_element()
            c = self.as_graph_element(c)
            c = c.op if isinstance(c, Tensor) else c
            controls[c] = None
        return _ControlDependencies(self, list(controls))

    def colocate_with(self, op, ignore_existing=False):
        """Returns a context manager that places new operations on the device of op.

        Args:
            op: an operation or a tensor; None clears colocation, and then ignore_existing must be True
            ignore_existing: whether to drop the colocation and devices of enclosing blocks"""
        return _Colocation(self, op, ignore_existing)

    def _attr_scope(self, attrs):
        """Values are AttrValues, functions of the type of an operation that return one, or (kind, value) as the extension has
        them."""
        return _AttrScope(self, attrs)

    @contextlib.contextmanager
    def gradient_override_map(self, op_type_map):
        """Returns a context manager in which operations get other gradients: {op type: name of a registered
        gradient}."""
        former = self._gradient_override
        self._gradient_override = dict(former, **op_type_map)
        self._scoped["overrides gradients"] = True
        try:
            yield
        finally:
            self._gradient_override = former

    @contextlib.contextmanager
    def _kernel_label_map(self, op_to_kernel_label_map):
        former = self._kernel_labels
        self._kernel_labels = dict(former, **op_to_kernel_label_map)
        try:
            yield
        finally:
            self._kernel_labels = former

    @contextlib.contextmanager
    def container(self, container_name):
        """Returns a context manager in which stateful operations keep their resources in the named container."""
        former, self._container = self._container, container_name
        try:
            yield container_name
        finally:
            self._container = former

    def as_default(self):
        """Returns a context manager that makes this the default graph of the thread."""
        return _default_graphs.entered(self)

    def _get_control_flow_context(self):
        return self._control_flow_context

    def _set_control_flow_context(self, context):
        self._control_flow_context = context

    # ---- collections ----

    def add_to_collection(self, name, value):
        """Appends a value to the collection of this name."""
        self._check_not_finalized()
        self._collections.setdefault(name, []).append(value)

    def add_to_collections(self, names, value):
        """Appends a value to each of the named collections."""
        names = (names,) if isinstance(names, str) else set(names)
        for name in names:
            self.add_to_collection(name, value)

    def get_collection_ref(self, name):
        """Returns the list that holds a collection, made if it does not exist; changes to it change the collection."""
        return self._collections.setdefault(name, [])

    def get_collection(self, name, scope=None):
        """Returns a copy of a collection.

        With scope, only items whose name matches that regular expression from its start are included."""
        values = self._collections.get(name, [])
        if scope is None:
            return list(values)
        pattern = re.compile(scope)
        return [v for v in values if hasattr(v, "name") and pattern.match(v.name)]

    def get_all_collection_keys(self):
        """Returns the names of all collections."""
        return [k for k in self._collections if isinstance(k, str)]

    @property
    def collections(self):
        """The names of all collections."""
        return list(self._collections)

    def clear_collection(self, name):
        """Removes all values of a collection."""
        self._check_not_finalized()
        self._collections.pop(name, None)

    # ---- finding ----

    def get_operations(self):
        """Returns all operations of the graph, in the order they were added."""
        return self.ops()[0]

    def get_operation_by_name(self, name):
        """Returns the operation with this name; KeyError if there is none."""
        if not isinstance(name, str):
            raise TypeError("Operation names are strings (or similar), not %s." % type(name).__name__)
        return self.as_graph_element(name, allow_tensor=False, allow_operation=True)

    def get_tensor_by_name(self, name):
        """Returns the tensor with this name, such as "x:0"; KeyError if there is none."""
        if not isinstance(name, str):
            raise TypeError("Tensor names are strings (or similar), not %s." % type(name).__name__)
        return self.as_graph_element(name, allow_tensor=True, allow_operation=False)

    def _get_operation_by_name_unsafe(self, name):
        return self.op(name)

    def as_graph_element(self, obj, allow_tensor=True, allow_operation=True):
        """The tensor or operation meant by an object or a name."""
        element = getattr(obj, "_as_graph_element", None)
        if element is not None:
            obj = element()
        if isinstance(obj, bytes):
            obj = obj.decode()
        if isinstance(obj, str):
            return self._element_by_name(obj, allow_tensor, allow_operation)
        if isinstance(obj, Tensor) and allow_tensor or isinstance(obj, Operation) and allow_operation:
            if obj.graph is not self:
                raise ValueError("%s %s is not an element of this graph." % (type(obj).__name__, obj.name))
            return obj
        kinds = " or ".join(k for k, a in (("Tensor", allow_tensor), ("Operation", allow_operation)) if a)
        raise TypeError("Can not convert a %s into a %s." % (type(obj).__name__, kinds))

    def _element_by_name(self, name, allow_tensor, allow_operation):
        if ":" in name and allow_tensor:
            op_name, _, index = name.rpartition(":")
            if not index.isdigit():
                raise ValueError("The name %r looks a like a Tensor name, but is not a valid one. Tensor names must be of the "
                                 "form \"<op_name>:<output_index>\"." % name)
            op = self.op(op_name)
            if op is None:
                raise KeyError("The name %r refers to a Tensor which does not exist. The operation, %r, does not exist in the "
                               "graph." % (name, op_name))
            if int(index) >= len(op.outputs):
                raise KeyError("The name %r refers to a Tensor which does not exist. The operation, %r, exists but only has %s "
                               "outputs." % (name, op_name, len(op.outputs)))
            return op.outputs[int(index)]
        if ":" in name:
            raise ValueError("Name %r appears to refer to a Tensor, not a Operation." % name)
        if not allow_operation:
            raise ValueError("The name %r %s, not a Tensor. Tensor names must be of the form \"<op_name>:<output_index>\"." %
                             (name, "refers to an Operation" if self.has_op(name) else
                              "looks like an (invalid) Operation name"))
        op = self.op(name)
        if op is None:
            raise KeyError("The name %r refers to an Operation not in the graph." % name)
        return op

    # ---- the rest ----

    def prevent_feeding(self, tensor):
        """Marks a tensor as one that may not be fed."""
        self._unfeedable.add(tensor)

    def is_feedable(self, tensor):
        """Whether a tensor may be fed."""
        return tensor not in self._unfeedable

    def prevent_fetching(self, op):
        """Marks an operation as one that may not be fetched."""
        self._unfetchable.add(op)

    def is_fetchable(self, tensor_or_op):
        """Whether a tensor or operation may be fetched."""
        return getattr(tensor_or_op, "op", tensor_or_op) not in self._unfetchable

    def as_graph_def(self, from_version=None, add_shapes=False):
        """The graph as a message; only what came after the graph had that version, if one is given."""
        from .. import protos
        graph_def = protos.GraphDef.FromString(self._graph_def_bytes(add_shapes))
        if from_version is not None:
            del graph_def.node[:from_version]
        return graph_def

    def _graph_def_bytes(self, add_shapes):
        """The serialized GraphDef.  While the graph is finalized it stays the same."""
        key = bool(add_shapes), self.version
        data = self._written.get(key) if self._finalized else None
        if data is None:
            data = self.to_graph_def()
            if add_shapes:
                from . import graph_bytes
                data = graph_bytes.with_shapes(data, lambda name: tuple(t._dims for t in self.op(name).outputs))
            if self._finalized:
                self._written[key] = data
        return data

    @property
    def graph_def_versions(self):
        """The VersionDef message of the graph."""
        from .. import protos
        return protos.VersionDef.FromString(self.versions_proto())

    @property
    def version(self):
        """A number that grows with each operation added."""
        return self._number()

    @property
    def _last_id(self):
        return self._number()

    @property
    def seed(self):
        """The graph-level random seed, or None."""
        return self._seed

    @seed.setter
    def seed(self, seed):
        self._seed = seed

    @property
    def building_function(self):
        """Whether this graph is the body of a function."""
        return self._building_function

    @property
    def finalized(self):
        """Whether the graph is read-only."""
        return self._finalized

    def finalize(self):
        """Makes the graph read-only."""
        self._finalized, self._written = True, {}

    def _unsafe_unfinalize(self):
        self._finalized, self._written = False, {}

    def _check_not_finalized(self):
        if self._finalized:
            raise RuntimeError("Graph is finalized and cannot be modified.")

    def switch_to_thread_local(self):
        """Does nothing: each thread has its own scopes already."""


def _flat(inputs):
    flat = []
    for x in inputs:
        if isinstance(x, (list, tuple)):
            flat.extend(x)
        else:
            flat.append(x)
    return flat


def _placed_with(value):
    """The operation that determines a placement: for a variable its own operation, not a read of it."""
    holder = getattr(value, "handle", value)
    return holder.op if isinstance(getattr(holder, "op", None), Operation) else convert_to_tensor_or_indexed_slices(value).op


# ---- defaults: a stack a thread ----

class _Stack(threading.local):
    """The objects entered in this thread, innermost last."""

    def __init__(self):
        super().__init__()
        self.entries = []

    def get(self):
        return self.entries[-1] if self.entries else None

    def entered(self, value):
        return _Entered(self.entries, value)


class _Entered(contextlib.ContextDecorator):
    """A context in which a value is on a stack."""

    def __init__(self, entries, value):
        self._entries, self._value = entries, value

    def __enter__(self):
        self._entries.append(self._value)
        return self._value

    def __exit__(self, *unused):
        _leave(self._entries, self._value)


def _leave(entries, value):
    # Whoever leaves out of order is usual with interactive sessions.
    for i in range(len(entries) - 1, -1, -1):
        if entries[i] is value:
            del entries[i]
            break


class _GraphStack(_Stack):
    """The default graph: the innermost entered in this thread, else one for the process."""

    _global = None
    _making = threading.Lock()

    def get(self):
        return _core.default_graph()

    @staticmethod
    def of_process():
        """The graph of the process, made when it is first asked for."""
        found = _GraphStack._global
        if found is None:
            with _GraphStack._making:
                found = _GraphStack._global
                if found is None:
                    found = _GraphStack._global = Graph()
        return found

    def reset(self):
        _GraphStack._global = None


_default_graphs = _GraphStack()
_default_sessions = _Stack()
_core.set_default_graphs(_default_graphs, _GraphStack.of_process)


def get_default_graph():
    """Returns the default graph of the current thread."""
    return _core.default_graph()


def reset_default_graph():
    """Begins a new default graph."""
    if _default_graphs.entries:
        raise AssertionError("Do not use tf.reset_default_graph() to clear nested graphs. If you need a cleared graph, exit "
                             "the nesting and create a new graph.")
    _default_graphs.reset()


def get_default_session():
    """Returns the innermost session used as default in the current thread, or None."""
    return _default_sessions.get()


def default_session(session):
    return _default_sessions.entered(session)


def has_default_graph():
    return bool(_default_graphs.entries) or _GraphStack._global is not None


# ---- the same on the default graph ----

def device(device_name_or_function):
    """Returns a context manager that places new operations of the default graph on a device.

    The argument is a device name, a function from operation to device name, or None to ignore enclosing blocks."""
    return get_default_graph().device(device_name_or_function)


def container(container_name):
    """Returns a context manager in which stateful operations of the default graph keep their resources in the
    named container."""
    return get_default_graph().container(container_name)


def control_dependencies(control_inputs):
    """Returns a context manager in which new operations of the default graph run after the given ones.

    Args:
        control_inputs: operations or tensors; None clears the dependencies of enclosing blocks"""
    return get_default_graph().control_dependencies(control_inputs)


def colocate_with(op, ignore_existing=False):
    """Returns a context manager that places new operations of the default graph on the device of op."""
    return get_default_graph().colocate_with(op, ignore_existing)


def add_to_collection(name, value):
    """Appends a value to a collection of the default graph."""
    get_default_graph().add_to_collection(name, value)


def add_to_collections(names, value):
    """Appends a value to several collections of the default graph."""
    get_default_graph().add_to_collections(names, value)


def get_collection_ref(key):
    """Returns the list that holds a collection of the default graph; changes to it change the collection."""
    return get_default_graph().get_collection_ref(key)


def get_collection(key, scope=None):
    """Returns a copy of a collection of the default graph; scope keeps only items whose name matches it."""
    return get_default_graph().get_collection(key, scope)


def get_all_collection_keys():
    return get_default_graph().get_all_collection_keys()


class name_scope:  # noqa: N801 -- TensorFlow's name
    """A scope for names, in the graph of `values` or the default one: `with tf.name_scope(name, "Default", [x]) as scope`."""

    def __init__(self, name, default_name=None, values=None):
        if default_name is not None and not isinstance(default_name, (str, bytes)):
            raise TypeError("`default_name` type (%s) is not a string type. You likely meant to pass this into the `values` "
                            "kwarg." % type(default_name))
        self._name = default_name if name is None else name
        if self._name is None and values is not None:
            raise ValueError("At least one of name (%s) and default_name (%s) must be provided." % (name, default_name))
        self._values = values or ()
        self._entered = []

    @property
    def name(self):
        """The name of the scope as it was given."""
        return self._name

    def __enter__(self):
        graph = graph_of(self._values)
        former = graph._push_name(self._name)
        entries = _default_graphs.entries
        entries.append(graph)
        self._entered.append((graph, former, entries))
        names = graph._name_stack
        return names + "/" if names else ""

    def __exit__(self, *unused):
        graph, graph_names, entries = self._entered.pop()
        graph._name_stack = graph_names
        _leave(entries, graph)


class _InitScope(contextlib.ContextDecorator):
    """Within it new operations go to the outermost graph, in no loop, conditional or scope of control dependencies."""

    def __init__(self):
        self._former = []

    def __enter__(self):
        graph = default = get_default_graph()
        while graph._building_function and graph._outer is not None:
            graph = graph._outer
        entries = _default_graphs.entries
        entries.append(graph)
        self._former.append((graph, entries, graph._name_stack, graph._control_stack, graph._control_flow_context))
        graph._name_stack, graph._control_stack, graph._control_flow_context = default._name_stack, [], None

    def __exit__(self, *unused):
        graph, entries, *former = self._former.pop()
        graph._name_stack, graph._control_stack, graph._control_flow_context = former
        _leave(entries, graph)


def init_scope():
    """Returns a context manager that leaves loops, conditionals and control dependencies, but not the name scope."""
    return _InitScope()


def op_scope(values, name, default_name=None):
    """Returns name_scope(name, default_name, values); its form before TensorFlow 1.0."""
    return name_scope(name, default_name, values)


def graph_of(values):
    """The graph that values are of, the default one when none is.  While a function is built, it takes in what it needs."""
    default = _default_graphs.entries[-1] if _default_graphs.entries else None
    if default is not None and default._building_function:
        return default
    for v in values:
        g = getattr(v, "graph", None)
        if isinstance(g, Graph):
            return g
    return get_default_graph()


def get_name_scope():
    return get_default_graph().get_name_scope()


def strip_name_scope(name, export_scope):
    if not export_scope:
        return name
    return re.sub(r"([\^]|loc:@|^)%s[\/]+" % re.escape(export_scope.rstrip("/")), r"\1", name)


def prepend_name_scope(name, import_scope):
    if not import_scope:
        return name
    return re.sub(r"([\^]|loc:@|^)(.*)", r"\1%s/\2" % import_scope.rstrip("/"), name)


class GraphKeys:
    """Names of the collections that the package itself uses."""
    GLOBAL_VARIABLES = "variables"
    LOCAL_VARIABLES = "local_variables"
    METRIC_VARIABLES = "metric_variables"
    MODEL_VARIABLES = "model_variables"
    TRAINABLE_VARIABLES = "trainable_variables"
    SUMMARIES = "summaries"
    QUEUE_RUNNERS = "queue_runners"
    TABLE_INITIALIZERS = "table_initializer"
    ASSET_FILEPATHS = "asset_filepaths"
    MOVING_AVERAGE_VARIABLES = "moving_average_variables"
    REGULARIZATION_LOSSES = "regularization_losses"
    CONCATENATED_VARIABLES = "concatenated_variables"
    SAVERS = "savers"
    WEIGHTS = "weights"
    BIASES = "biases"
    ACTIVATIONS = "activations"
    UPDATE_OPS = "update_ops"
    LOSSES = "losses"
    SAVEABLE_OBJECTS = "saveable_objects"
    RESOURCES = "resources"
    LOCAL_RESOURCES = "local_resources"
    TRAINABLE_RESOURCE_VARIABLES = "trainable_resource_variables"
    INIT_OP = "init_op"
    LOCAL_INIT_OP = "local_init_op"
    READY_OP = "ready_op"
    READY_FOR_LOCAL_INIT_OP = "ready_for_local_init_op"
    SUMMARY_OP = "summary_op"
    GLOBAL_STEP = "global_step"
    EVAL_STEP = "eval_step"
    TRAIN_OP = "train_op"
    COND_CONTEXT = "cond_context"
    WHILE_CONTEXT = "while_context"
    _SUMMARY_COLLECTION = "_SUMMARY_V2"
    VARIABLES = "variables"
    SPARSE_DATA = "sparse_data"


# How the members of collections are written into a MetaGraphDef: {collection: (message class, to_proto, from_proto)}
_proto_functions = {}


def register_proto_function(collection_name, proto_type=None, to_proto=None, from_proto=None):
    """to_proto(member, export_scope) gives a message, from_proto(message, import_scope) a member of the collection."""
    _proto_functions[collection_name] = (proto_type, to_proto, from_proto)


def get_collection_proto_type(collection_name):
    return _proto_functions.get(collection_name, (None, None, None))[0]


def get_to_proto_function(collection_name):
    return _proto_functions.get(collection_name, (None, None, None))[1]


def get_from_proto_function(collection_name):
    return _proto_functions.get(collection_name, (None, None, None))[2]


def convert_to_tensor_or_indexed_slices(value, dtype=None, name=None):
    """Converts a value to a tensor; IndexedSlices are returned as they are."""
    from . import convert
    return value if isinstance(value, IndexedSlices) else convert.convert_to_tensor(value, dtype, name)


# ---- gradients by functions of Python ----

_gradient_functions = {}
_NO_GRADIENT = object()


class RegisterGradient:
    """@tf.RegisterGradient("MyOp"): def _grad(op, *grads): ... returns a gradient for each input, or None."""

    def __init__(self, op_type):
        if not isinstance(op_type, str):
            raise TypeError("op_type must be a string")
        self._op_type = op_type

    def __call__(self, f):
        if self._op_type in _gradient_functions:
            raise KeyError("Registering two gradient with name '%s'!" % self._op_type)
        _gradient_functions[self._op_type] = f
        return f


def no_gradient(op_type):
    """Declares that gradients do not flow through operations of this type."""
    if not isinstance(op_type, str):
        raise TypeError("op_type must be a string")
    _gradient_functions[op_type] = _NO_GRADIENT


def get_gradient_function(op):
    """The gradient function that Python registered for an operation; None if it registered none, or no gradient."""
    if not op.inputs:
        return None
    try:
        op_type = op.get_attr("_gradient_op_type").decode()
    except ValueError:
        op_type = op.type
    found = _gradient_functions.get(op_type)
    return None if found is _NO_GRADIENT else found


class RegisterShape:
    """@ops.RegisterShape("MyOp") of old programs: shapes are the business of the library that defines the op."""

    def __init__(self, op_type):
        self._op_type = op_type

    def __call__(self, f):
        return f
