"""tf.gradients: what the library derives, and gradients that are functions of Python.

The library walks back through the graph (conditionals and loops are found in the graph itself) and asks `wants` of each
operation on the way whether Python has a gradient for it; if so, `make` gives the gradients of its inputs.  A gradient of
rows (IndexedSlices) is a triple there.
"""

from ..framework import convert, dtypes, errors, op_defs, ops
from . import contexts

__all__ = ["AggregationMethod", "UnconnectedGradients", "gradients", "hessians", "stop_gradient"]


class AggregationMethod:
    """How gradients of one variable are added up; all values give the same result here."""
    ADD_N = 0
    DEFAULT = ADD_N
    EXPERIMENTAL_TREE = 1
    EXPERIMENTAL_ACCUMULATE_N = 2


class UnconnectedGradients:
    """What tf.gradients gives for an x that no y depends on."""
    NONE = "none"
    ZERO = "zero"


def _as_list(x):
    return list(x) if isinstance(x, (list, tuple)) else [x]


def _handle(x, name):
    """The tensor that gradients of x arrive at: of a variable, its reference or handle."""
    handle = getattr(x, "handle", None)
    if isinstance(handle, ops.Tensor) and handle.dtype == dtypes.resource:
        return handle
    if isinstance(x, ops.Tensor):
        return x
    if hasattr(x, "_composite_parts"):
        return x.values
    return convert.internal_convert_to_tensor(x, name=name, as_ref=True)


def gradients(ys, xs, grad_ys=None, name="gradients", colocate_gradients_with_ops=False, gate_gradients=False,
              aggregation_method=None, stop_gradients=None, unconnected_gradients=UnconnectedGradients.NONE):
    """d(sum of ys)/dx for each x: a tensor, IndexedSlices, or None where no y hangs on x."""
    if unconnected_gradients not in (UnconnectedGradients.NONE, UnconnectedGradients.ZERO):
        raise ValueError("Unknown value for unconnected_gradients: %r" % (unconnected_gradients,))
    if aggregation_method not in (None, 0, 1, 2):
        raise ValueError("Invalid aggregation_method specified %s." % (aggregation_method,))
    ys, xs, stops = _as_list(ys), _as_list(xs), [] if stop_gradients is None else _as_list(stop_gradients)
    grad_ys = [None] * len(ys) if grad_ys is None else _as_list(grad_ys)
    if len(grad_ys) != len(ys):
        raise ValueError("Passed %d grad_ys for %d ys" % (len(grad_ys), len(ys)))
    with ops.name_scope(name, "gradients", ys + xs + stops + grad_ys) as scope:
        targets = [_handle(x, "x") for x in xs]
        values = [_target(y) for y in ys]
        seeds = _seeds(values, grad_ys)
        found = _differentiate(values, targets, seeds, [_handle(x, "stop") for x in stops], scope, colocate_gradients_with_ops)
        for i, x in enumerate(xs):
            if isinstance(x, ops.IndexedSlices) and isinstance(found[i], ops.Tensor):
                found[i] = ops.IndexedSlices(found[i], x.indices, x.dense_shape)
        if gate_gradients and any(g is not None for g in found):
            from .control_flow import tuple as gated
            found = gated(found)
        if unconnected_gradients == UnconnectedGradients.ZERO:
            found = [_zeros_for(x) if g is None else g for x, g in zip(xs, found)]
    return found


def _target(y):
    if isinstance(y, ops.Tensor) or hasattr(y, "_composite_parts"):
        return getattr(y, "values", y)
    handle = getattr(y, "handle", None)
    if isinstance(handle, ops.Tensor) and handle.dtype == dtypes.resource and not hasattr(y, "read_value"):
        return handle
    return convert.convert_to_tensor(y, name="y")  # of a variable its value


def _zeros_for(x):
    return op_defs.call("ZerosLike", None, x=convert.convert_to_tensor(x))


def _seeds(ys, grad_ys):
    """The gradients that come in, one a y; None for all when each is to be ones."""
    for y, g in zip(ys, grad_ys):
        t = y.dtype.base_dtype
        if g is None and t.is_complex:
            raise TypeError("Gradients of complex tensors must set grad_ys (y.dtype = %r)" % t)
        if g is None and not (t.is_floating or t.is_integer or t in (dtypes.resource, dtypes.variant)):
            raise TypeError("Gradients of tensors of type %s are not supported: %s" % (t.name, y.name))
    if all(g is None for g in grad_ys):
        return None
    return [_seed(y, g, i) for i, (y, g) in enumerate(zip(ys, grad_ys))]


def _seed(y, g, i):
    if g is None:
        return op_defs.call("OnesLike", "grad_ys_%d" % i, x=y)
    if isinstance(g, ops.IndexedSlices):
        dense = _dense(g, y)
        dense.set_shape(y.shape)
        return dense
    t = y.dtype.base_dtype
    g = convert.convert_to_tensor(g, None if t == dtypes.resource else t, name="grad_y")
    if g.dtype.is_complex != t.is_complex and t != dtypes.resource:
        raise TypeError("Gradient type %s generated for tensor %s with type %s must be the same kind" %
                        (g.dtype.name, y, t.name))
    return g


def _differentiate(ys, xs, seeds, stops, scope, colocate):
    if not xs:
        return []
    if not ys:
        return [None] * len(xs)
    graph = xs[0].graph
    graph._check_not_finalized()
    python = _PythonGradients(graph, scope, colocate)
    asked = (python.wants, python.make) if python.are_there() else (None, None)
    stops = stops + [t for t in graph._scoped.get("loops without gradients", ()) if t.graph is graph]
    before = graph._number()
    try:
        found = graph.gradients(ys, xs, seeds, stops, scope[:-1] if scope else "gradients", bool(colocate), *asked)
    except errors.OpError as e:
        if e.error_code == errors.NOT_FOUND:
            raise LookupError(_no_gradient_message(e.message)) from None
        if e.error_code == errors.INVALID_ARGUMENT:
            raise ValueError(e.message) from None
        raise
    finally:
        graph._made_here(before)
    # What the library adds is where ys are.  A loop's context must know of results there; a branch takes them in by itself.
    context = contexts.output_context(ys[0].op)
    loop = None if context is None else context.while_context
    new = set(graph.ops(before)[0]) if loop is not None else ()
    return [_result(g, new, loop) for g in found]


def _no_gradient_message(message):
    return message.replace("No gradient defined for op: ", "No gradient defined for operation of type ", 1)


def _result(g, new, loop):
    if g is None:
        return None
    parts = g if isinstance(g, tuple) else (g,)
    for t in parts:
        if t.op in new:
            t.op._control_flow_context = loop
            loop.op_added(t.op)
    return ops.IndexedSlices(*parts) if len(parts) == 3 else g


# ---- gradients by functions of Python ----

def _override_name(op):
    """What gradient_override_map says of an operation, or None."""
    try:
        kind, value = op._attr("_gradient_op_type")
    except errors.InvalidArgumentError:  # most have no such attr
        return None
    return value.decode()


def _function_for(op):
    """The gradient function of Python for an operation; None: the library's own; ops._NO_GRADIENT: nothing flows."""
    name = _override_name(op) if op.graph._scoped.get("overrides gradients") else None
    if name is not None:
        function = op.graph._scoped.get("gradient functions", {}).get(name) or ops._gradient_functions.get(name)
        if function is not None:
            return function
        if name == op.type:
            return None
        return _known_gradient(name)
    declared = op.graph._functions.get(op.type)
    if declared is not None and getattr(declared, "python_grad_func", None) is not None:
        return declared.python_grad_func
    return ops._gradient_functions.get(op.type)


def _known_gradient(op_type):
    raise LookupError("No gradient defined for operation type %r (from gradient_override_map)" % op_type)


class _PythonGradients:
    """What the library asks while it walks back."""

    def __init__(self, graph, scope, colocate):
        self._graph, self._scope, self._colocate = graph, scope, colocate
        self._functions = {}

    def are_there(self):
        """Whether there are any at all; asking for each operation takes its time."""
        graph = self._graph
        return bool(ops._gradient_functions or graph._scoped.get("overrides gradients") or
                    any(f.python_grad_func is not None for f in graph._functions.values()))

    def wants(self, op):
        found = _function_for(op)
        self._functions[op] = found
        return found is not None

    def make(self, op, grads):
        function = self._functions[op]
        inputs = op.inputs
        if function is ops._NO_GRADIENT:
            return [None] * len(inputs)
        graph = self._graph
        context, graph._control_flow_context = graph._control_flow_context, None
        try:
            with graph.as_default(), contexts.Anywhere(), graph.name_scope(self._scope), graph.name_scope(op.name + "_grad"):
                grads = [_arrived(op, i, g) for i, g in enumerate(grads)]
                with _maybe_colocate(graph, op, self._colocate):
                    made = _as_list(function(op, *grads))
                if len(made) != len(inputs):
                    raise ValueError("Num gradients %d generated for op %s do not match num inputs %d" %
                                     (len(made), op.node_def, len(inputs)))
                return [_checked(g, x) for g, x in zip(made, inputs)]
        finally:
            graph._control_flow_context = context


def _maybe_colocate(graph, op, colocate):
    import contextlib
    return graph.colocate_with(op) if colocate else contextlib.nullcontext()


def _arrived(op, i, g):
    """A gradient as a function of Python gets it."""
    if g is None:
        return _zeros_like(op, i)
    return ops.IndexedSlices(*g) if isinstance(g, tuple) else g


def _zeros_like(op, i):
    """Zeros for an output that no gradient arrived at, as far as its type has zeros."""
    y = op.outputs[i]
    if y.dtype.base_dtype in (dtypes.resource, dtypes.variant, dtypes.string):
        return None
    return op_defs.call("ZerosLike", None, x=y)


def _dense(g, x):
    """Rows as a tensor of the form of x."""
    shape = op_defs.call("Shape", None, input=x) if g.dense_shape is None else g.dense_shape
    rows = op_defs.call("StridedSlice", None, input=shape, begin=[0], end=[1], strides=[1], shrink_axis_mask=1)
    return op_defs.call("UnsortedSegmentSum", None, data=g.values, segment_ids=g.indices, num_segments=rows)


def _checked(g, x):
    """A gradient as the library takes it."""
    if g is None:
        return None
    t = x.dtype.base_dtype
    if isinstance(g, ops.IndexedSlices):
        shape = op_defs.call("Shape", None, input=x) if g.dense_shape is None else convert.convert_to_tensor(g.dense_shape)
        if shape.dtype != dtypes.int32:
            shape = op_defs.call("Cast", None, x=shape, DstT=dtypes.int32)
        return convert.convert_to_tensor(g.values), convert.convert_to_tensor(g.indices), shape
    return convert.convert_to_tensor(g, None if t in (dtypes.resource, dtypes.variant) else t)


def stop_gradient(input, name=None):  # noqa: A002 -- TensorFlow's name
    """The input; no gradient flows back through it."""
    return op_defs.call("StopGradient", name, input=input)


def hessians(ys, xs, name="hessians", colocate_gradients_with_ops=False, gate_gradients=False, aggregation_method=None):
    """d2(sum of ys)/dx2 for each x: of shape x.shape + x.shape."""
    from . import control_flow, tensor_array
    xs = _as_list(xs)
    kwargs = dict(colocate_gradients_with_ops=colocate_gradients_with_ops, gate_gradients=gate_gradients,
                  aggregation_method=aggregation_method)
    firsts, out = gradients(ys, xs, **kwargs), []
    for first, x in zip(firsts, [convert.convert_to_tensor(x) if not isinstance(x, ops.Tensor) else x for x in xs]):
        shape = op_defs.call("Shape", None, input=x)
        flat = op_defs.call("Reshape", None, tensor=first, shape=[-1])
        n = op_defs.call("Size", None, input=x)
        rows = tensor_array.TensorArray(x.dtype, n)
        source = xs[len(out)]

        def row(j, array, flat=flat, source=source):
            return j + 1, array.write(j, gradients(flat[j], source)[0])
        _, rows = control_flow.while_loop(lambda j, _, n=n: j < n, row, [0, rows])
        whole = op_defs.call("ConcatV2", None, values=[shape, shape], axis=0)
        out.append(op_defs.call("Reshape", None, tensor=rows.stack(), shape=whole))
    return out
