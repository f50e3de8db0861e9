"""Functions: graphs with arguments and results, called by operations or given to them as attrs.

    f = build(lambda x: x + y, [tf.float32], [[None]], "add_y")     # y of the graph outside is captured
    f.name, f.captured_inputs, f.outputs, f.structured_outputs
    f.add_to_graph(graph)                                           # as op_defs does with one given as an attr

A function is built in a graph of its own.  A tensor of another graph that is used there becomes an argument behind the declared
ones; `captured_inputs` are the tensors to be given for those, in their order.  Defun declares functions that are called like
Python's and differentiated by the library, by another function (grad_func) or by Python (python_grad_func).
"""

import inspect

import _millrace as _core
from . import convert, dtypes, nest, op_defs, ops, shapes


class FunctionGraph(ops.Graph):
    """The graph that a function is built in."""

    def __init__(self, outer, capture_by_value=False):
        super().__init__()
        self._building_function = True
        self._outer = outer
        self._seed = outer._seed
        self._by_value = capture_by_value
        self._gradient_override = outer._gradient_override
        self._scoped = outer._scoped  # variables, their scopes and what else belongs to the program, not to this graph
        self._collections = {key: list(members) for key, members in outer._collections.items()}
        self.inputs, self.captures = [], {}  # outside tensor -> the argument that replaces it

    outer_graph = property(lambda self: self._outer)

    @property
    def captured_inputs(self):
        return list(self.captures)

    extra_inputs = captured_inputs

    @property
    def extra_args(self):
        return list(self.captures.values())

    def _own(self, tensor, what):
        return tensor if tensor.graph is self else self.capture(tensor)

    def capture(self, tensor, name=None):
        """A tensor of a graph around this one, as an argument (or a copy of what makes it)."""
        found = self.captures.get(tensor)
        if found is not None:
            return found
        if self._by_value:
            return self._copy(tensor.op).outputs[tensor.value_index]
        if tensor.graph is not self._outer:  # of a graph further out: all between take it in too
            tensor = self._take_from_further_out(tensor)
            if tensor in self.captures:
                return self.captures[tensor]
        argument = self._argument(name or tensor.op.name.rpartition("/")[2], tensor.dtype.base_dtype, tensor.shape)
        self.captures[tensor] = argument
        return argument

    def _take_from_further_out(self, tensor):
        graph = self._outer
        while graph is not None and graph is not tensor.graph:
            graph = graph._outer
        if graph is None:
            raise ValueError("%s belongs to a graph that does not contain the function." % tensor)
        return self._outer.capture(tensor)

    def _argument(self, name, dtype, shape):
        """A placeholder that becomes an argument; no branch, loop or device of the function's body is its place."""
        with self.as_default(), self.control_dependencies(None), self.device(None):
            former, self._name_stack = self._name_stack, ""
            try:
                attrs = [("dtype", "t", int(dtype)), ("shape", "h", shape._tuple())]
                return self._add("Placeholder", name, [], attrs).outputs[0]
            finally:
                self._name_stack = former

    def _copy(self, op):
        """The operation and what it takes, in this graph: for functions that may capture nothing."""
        copies = self.__dict__.setdefault("_copies", {})
        if op in copies:
            return copies[op]
        if op_defs.plan(op.type, op.graph).is_stateful:
            raise ValueError("Cannot capture a stateful node (name:%s, type:%s) by value." % (op.name, op.type))
        if op.type in ("Placeholder", "PlaceholderV2"):
            raise ValueError("Cannot capture a placeholder (name:%s, type:%s) by value." % (op.name, op.type))
        inputs = [self._copy(t.op).outputs[t.value_index] for t in op.inputs]
        attrs = [(key, "p", value.SerializeToString()) for key, value in op.node_def.attr.items()]
        with self.as_default(), self.control_dependencies(None):
            copies[op] = self._add(op.type, op.name, _grouped(op, inputs), attrs)
        return copies[op]


def _grouped(op, inputs):
    """Flat inputs as the op's definition has them: lists for arguments that are lists."""
    out, at = [], 0
    for arg in op_defs.plan(op.type, op.graph).inputs:
        if arg.is_list:
            n = op._input_length(arg.name)
            out.append(inputs[at:at + n])
            at += n
        else:
            out.append(inputs[at])
            at += 1
    return out


class Function:
    """A function that is built, of no graph or of several."""

    def __init__(self, handle, graph, outputs, structured):
        self._handle, self._graph = handle, graph
        self.outputs, self.structured_outputs = outputs, structured
        self.gradient = self.python_grad_func = None

    name = property(lambda self: self._handle.name)
    graph = property(lambda self: self._graph)
    captured_inputs = property(lambda self: self._graph.captured_inputs)
    inputs = property(lambda self: self._graph.inputs)
    output_types = property(lambda self: [t.dtype for t in self.outputs])
    output_shapes = property(lambda self: [t.shape for t in self.outputs])

    @property
    def definition(self):
        from .. import protos
        return protos.FunctionDef.FromString(self._handle.to_def())

    @property
    def stateful_ops(self):
        return [(op.name, op.type) for op in self._graph.get_operations() if op_defs.plan(op.type, self._graph).is_stateful]

    def add_to_graph(self, graph):
        """Lets operations of the graph call it, and with it the functions it calls itself."""
        if graph._functions.get(self.name) is self:
            return
        if self.name in graph._functions and graph._functions[self.name].definition != self.definition:
            raise ValueError("Another function is already defined with that name: %r" % self.name)
        graph._functions[self.name] = self
        for inner in self._graph._functions.values():
            inner.add_to_graph(graph)
        if self.gradient is not None:
            self.gradient.add_to_graph(graph)
        graph.add_function(self._handle, None if self.gradient is None else self.gradient._handle)


class ImportedFunction:
    """A function that came with a graph."""

    def __init__(self, definition):
        self.definition = definition
        self.python_grad_func = None

    name = property(lambda self: self.definition.signature.name)
    captured_inputs = ()

    def add_to_graph(self, graph):
        if self.name not in graph._functions:
            graph._functions[self.name] = self
            graph.add_function(_core.Function.from_def(self.definition.SerializeToString()))


def build(fn, arg_dtypes, arg_shapes=None, name=None, arg_names=None, out_names=None, capture_by_value=False, graph=None,
          unique=True, attrs=None, description=None):
    """The function of what fn returns for arguments of these types; arguments and results are flat lists of tensors.

    structured_outputs is what fn returned, with tensors of the function's graph at its leaves.  With `unique` the name gets a
    suffix that says what the function does, so that two of one name can be in a graph.
    """
    outer = graph or ops.get_default_graph()
    body = FunctionGraph(outer, capture_by_value)
    arg_dtypes = [dtypes.as_dtype(t).base_dtype for t in arg_dtypes]
    arg_shapes = [None] * len(arg_dtypes) if arg_shapes is None else list(arg_shapes)
    if len(arg_shapes) != len(arg_dtypes):
        raise ValueError("%d types and %d shapes of arguments" % (len(arg_dtypes), len(arg_shapes)))
    arg_names = arg_names or ["arg%d" % i for i in range(len(arg_dtypes))]
    with body.as_default():
        body.inputs = [body._argument(n, t, shapes.as_shape(s)) for n, t, s in zip(arg_names, arg_dtypes, arg_shapes)]
        returned = fn(*body.inputs)
        leaves = [] if returned is None else nest.flatten(returned, expand_composites=True)
        converted = [x if isinstance(x, ops.Operation) else convert.convert_to_tensor(x) for x in leaves]
        outputs = _after_effects(body, [body._own(x, "the function's result") for x in converted if isinstance(x, ops.Tensor)])
    given = iter(outputs)
    converted = [next(given) if isinstance(x, ops.Tensor) else x for x in converted]
    structured = None if returned is None else nest.pack_sequence_as(returned, converted, expand_composites=True)
    name = name or _name_of(fn)
    handle = body.to_function(name, unique, None, body.inputs + body.extra_args, outputs, out_names, description)
    for key, value in (attrs or {}).items():
        handle.set_attr(key, value.SerializeToString())
    body._finalized = True
    return Function(handle, body, outputs, structured)


_EFFECTS = ("PyFunc", "Print", "Assign", "AssignAdd", "AssignSub")


def _after_effects(body, outputs):
    """The results, after all that the function does beside computing them; arguments go through an operation."""
    effects = [op for op in body.get_operations()
               if (not op.outputs or op.type in _EFFECTS) and op._control_flow_context is None and op.type != "NoOp"]
    arguments = set(body.inputs + body.extra_args)
    with body.control_dependencies(effects):
        return [op_defs.call("Identity", None, input=t) if effects or t in arguments else t for t in outputs]


def _name_of(fn):
    name = getattr(fn, "__name__", "") or type(fn).__name__
    return "".join(c if c.isalnum() else "_" for c in name).strip("_") or "function"


def call(function, args, name=None):
    """An operation that calls a function with these arguments and what it captured."""
    graph = ops.graph_of(args)
    function.add_to_graph(graph)
    op_type = function.name
    with graph.as_default(), graph.name_scope(name or op_type) as scope:
        wanted = [t.dtype.base_dtype for t in function.inputs]
        if len(args) != len(wanted):
            raise ValueError("Expected number of arguments: %d, received: %d" % (len(wanted), len(args)))
        inputs = [convert.convert_to_tensor(a, t) for a, t in zip(args, wanted)] + list(function.captured_inputs)
        op = graph._add(op_type, scope, inputs, [])
    for out, known in zip(op.outputs, function.output_shapes):
        out.set_shape(known)
    return op


class Defun:
    """@Defun(tf.float32, tf.float32): def f(x, y): return x + y -- then f(a, b) is an operation that calls it."""

    def __init__(self, *input_types, **kwargs):
        self._types, self._kwargs = input_types, kwargs

    def __call__(self, func):
        if not callable(func):
            raise ValueError("function %s must be callable" % (func,))
        return DefinedFunction(func, self._types, **self._kwargs)


class DefinedFunction:
    """A declared function; its body is built for the types it is declared with, or for those of a call."""

    def __init__(self, func, input_types, func_name=None, grad_func=None, python_grad_func=None, out_names=None,
                 shape_func=None, capture_by_value=False, noinline=False, **attrs):
        self._func, self._types, self._func_name = func, input_types, func_name
        self._grad_func, self._python_grad_func = grad_func, python_grad_func
        self._out_names, self._shape_func, self._by_value = out_names, shape_func, capture_by_value
        self._attrs = dict(attrs, **({"_noinline": True} if noinline else {}))
        self.__name__, self.__doc__ = _name_of(func), func.__doc__
        names = list(inspect.signature(func).parameters.values())
        self._takes_any = any(p.kind is p.VAR_POSITIONAL for p in names)
        self._arg_names = [p.name for p in names if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        if input_types and not self._takes_any and len(input_types) != len(self._arg_names):
            raise ValueError("The function has %d arguments, but %d types are declared" %
                             (len(self._arg_names), len(input_types)))

    def instantiate(self, types=None, graph=None):
        """The function for these types, in a graph."""
        graph = graph or ops.get_default_graph()
        types = tuple(dtypes.as_dtype(t).base_dtype for t in (self._types or types or ()))
        found = graph._scoped.get((self, types))  # kept by the graph, so that it can go
        if found is None:
            names = self._arg_names if len(self._arg_names) == len(types) else None
            found = build(self._func, types, name=self._func_name or self.__name__, arg_names=names, out_names=self._out_names,
                          capture_by_value=self._by_value, graph=graph, unique=self._func_name is None,
                          description=self.__doc__,
                          attrs={k: _attr_value(v) for k, v in self._attrs.items()})
            found.python_grad_func = self._python_grad_func
            if self._grad_func is not None:
                found.gradient = self._grad_func.instantiate(list(types) + found.output_types, graph)
            graph._scoped[self, types] = found
        return found

    def __call__(self, *args, **kwargs):
        name = kwargs.pop("name", None)
        if kwargs:
            raise ValueError("Unknown keyword arguments: %s" % list(kwargs))
        wanted = len(self._types or self._arg_names)
        if len(args) != wanted and not (self._takes_any and not self._types):
            raise ValueError("Expected number of arguments: %d, received: %d" % (wanted, len(args)))
        args = [convert.convert_to_tensor(a, t) for a, t in zip(args, self._types or [None] * len(args))]
        f = self.instantiate([a.dtype for a in args], ops.graph_of(args))
        op = call(f, args, name)
        if self._shape_func is not None:
            for out, shape in zip(op.outputs, self._shape_func(op)):
                out.set_shape(shape)
        if not op.outputs:
            return op
        return op.outputs[0] if len(op.outputs) == 1 else list(op.outputs)

    # What makes it usable as an attr, when its types are declared.
    def add_to_graph(self, graph):
        self.instantiate(graph=graph).add_to_graph(graph)

    name = property(lambda self: self.instantiate().name)
    captured_inputs = property(lambda self: self.instantiate().captured_inputs)
    definition = property(lambda self: self.instantiate().definition)
    stateful_ops = property(lambda self: self.instantiate().stateful_ops)
    declared_input_types = property(lambda self: list(self._types))
    python_grad_func = property(lambda self: self._python_grad_func)


def _function_graph():
    graph = ops.get_default_graph()
    return graph if isinstance(graph, FunctionGraph) else None


def get_extra_inputs():
    """Within the body of a function: the tensors that it has captured so far."""
    graph = _function_graph()
    return [] if graph is None else graph.captured_inputs


def get_extra_args():
    """The arguments that stand for them."""
    graph = _function_graph()
    return [] if graph is None else graph.extra_args


def _attr_value(value):
    from .. import protos
    if isinstance(value, bool):
        return protos.AttrValue(b=value)
    if isinstance(value, int):
        return protos.AttrValue(i=value)
    if isinstance(value, float):
        return protos.AttrValue(f=value)
    if isinstance(value, (str, bytes)):
        return protos.AttrValue(s=value.encode() if isinstance(value, str) else value)
    if isinstance(value, dtypes.DType):
        return protos.AttrValue(type=int(value))
    raise ValueError("Unsupported attribute type for %r" % (value,))


class Declare:
    """The signature of a function that is defined later: Declare("f", [("x", tf.float32)], [("y", tf.float32)])."""

    def __init__(self, func_name, inputs, outputs):
        self._name = func_name
        self._inputs = [dtypes.as_dtype(t) for _, t in inputs]
        self._outputs = [dtypes.as_dtype(t) for _, t in outputs]

    def __call__(self, *inputs, **kwargs):
        raise NotImplementedError("Function %r is called before it is defined" % self._name)
