"""Operations whose work is done by a function of Python: tf.py_func.

An operation names its function by a token.  The functions belong to the graph, so they live as long as it does; the table
that tokens are looked up in only knows where they are.  A run in another process than the one that made the graph does not
find them.
"""

import atexit
import itertools
import weakref

import numpy as np

import _millrace as _core
from ..framework import convert, dtypes, errors, op_defs, ops

__all__ = ["numpy_function", "py_func", "py_function"]

_functions = {}  # by token: weak references
_numbers = itertools.count()


class _Function:
    """A function and the types that it is to return."""

    def __init__(self, func, types, takes_values):
        self._func, self._types, self._takes_values = func, types, takes_values

    def __call__(self, token, inputs):
        returned = self._values(inputs) if self._takes_values else self._func(*inputs)
        if not isinstance(returned, (list, tuple)):
            returned = [] if returned is None and not self._types else [returned]
        if len(returned) != len(self._types):
            raise errors.InvalidArgumentError(None, None, "%s returns %d values, but expects to see %d values." %
                                              (token, len(returned), len(self._types)))
        return [_checked(v, t, i, token, self._takes_values) for i, (v, t) in enumerate(zip(returned, self._types))]

    def _values(self, inputs):
        """What the function returns for values.  Operations that it calls are run at its end, in a graph of their own."""
        with ops.Graph().as_default() as graph:
            returned = self._func(*[_Value.of(x) for x in inputs])
            parts = list(returned) if isinstance(returned, (list, tuple)) else [returned]
            for v in parts:
                if hasattr(v, "initializer") and hasattr(v, "read_value"):
                    raise RuntimeError("Attempting to return a variable from an eagerly executed py_func. Only numeric data "
                                       "structures like Tensors or NumPy arrays should be returned; to return the value of "
                                       "a variable, make sure to obtain the Tensor backing it by calling `.read_value()` on "
                                       "the variable in question: %s" % v)
            symbolic = [v for v in parts if isinstance(v, ops.Tensor)]
            if symbolic:
                from ..framework.session import Session
                with Session(graph=graph) as sess:
                    found = iter(sess.run(symbolic))
                parts = [next(found) if isinstance(v, ops.Tensor) else v for v in parts]
        return parts if isinstance(returned, (list, tuple)) else parts[0]


def _checked(value, dtype, i, token, converts):
    """A value of the type that was promised; one of another type is an error, as in TensorFlow."""
    if dtype is dtypes.string:
        return value
    array = np.asarray(value, dtype.as_numpy_dtype if converts else None, order="C")
    if array.dtype == object:
        raise errors.InternalError(None, None, "Unsupported object type %s" % type(value).__name__)
    if array.dtype.kind == "V":
        raise errors.InternalError(None, None, "Unsupported numpy data type %s" % array.dtype)
    if array.dtype != dtype.as_numpy_dtype:
        raise errors.InvalidArgumentError(None, None, "%d-th value returned by %s is %s, but expects %s" %
                                          (i, token, array.dtype.name, dtype.name))
    return array


class _Value(np.ndarray):
    """An array that can be asked for itself, for functions that expect tensors with values."""

    @classmethod
    def of(cls, x):
        return np.asarray(x).view(cls) if not isinstance(x, bytes) else np.asarray(x, object).view(cls)

    def numpy(self):
        plain = self.view(np.ndarray)
        return plain[()] if plain.ndim == 0 else plain


class _Converter:
    """A function that returns a list of arrays of the types that were promised."""

    def __init__(self, func):
        self._func = func

    def __call__(self, token, inputs):
        return self._func(*inputs)


def _find(token):
    reference = _functions.get(token)
    function = reference and reference()
    if function is None:
        raise ValueError("callback %s is not found" % token)
    return function


def _call(token, inputs):
    return _find(token)(token, inputs)


_core.set_function_caller(_call)
atexit.register(_core.end_function_calls)


def _operation(op_type, func, inp, types, name, takes_values=False, converts=False):
    if not callable(func):
        raise ValueError("Expected func to be callable, got func of type %s" % type(func))
    is_list = isinstance(types, (list, tuple))
    types = [dtypes.as_dtype(t) for t in (types if is_list else [types])]
    function = _Converter(func) if converts else _Function(func, types, takes_values)
    token = "pyfunc_%d" % next(_numbers)
    _functions[token] = weakref.ref(function, lambda _: _functions.pop(token, None))
    op, _ = op_defs.add(op_type, name, {"input": list(inp), "token": token, "Tout": types})
    graph = op.graph
    while graph._outer is not None:  # functions' graphs go, what they are used by stays
        graph = graph._outer
    graph._scoped.setdefault("functions of Python", []).append(function)
    if not types:
        return [] if op_type == "PyFuncStateless" else op
    return list(op.outputs) if is_list else op.outputs[0]


def py_func(func, inp, Tout, stateful=True, name=None):  # noqa: N803 -- TensorFlow's names
    """Wraps a Python function of numpy arrays as an operation; a stateful one is called whenever it is needed."""
    return _operation("PyFunc" if stateful else "PyFuncStateless", func, inp, Tout, name)


def converting_py_func(func, inp, types):
    """py_func for a function of this package that returns a list of arrays of exactly these types; strings as arrays of
    objects."""
    return _operation("PyFunc", func, inp, types, None, converts=True)


def numpy_function(func, inp, Tout, name=None):  # noqa: N803
    """Wraps a Python function as an operation that calls it with numpy arrays.

    Args:
        func: a function from arrays to an array or a list of arrays
        inp: the input tensors
        Tout: the type of the result, or a list of types
    """
    return _operation("PyFunc", func, inp, Tout, name)


def py_function(func, inp, Tout, name=None):  # noqa: N803
    """py_func for functions that take values with a method numpy() and may call operations.  A gradient is that of the
    operations that it calls when it is given tensors instead."""
    return _operation("EagerPyFunc", func, inp, Tout, name, takes_values=True)


eager_py_func = py_function


@ops.RegisterGradient("EagerPyFunc")
def _eager_py_func_grad(op, *grads):
    """Rebuilds what the function computes in a separate graph, and differentiates it there."""
    function = _find(op.get_attr("token").decode())
    n = len(op.inputs)

    def backward(*values):
        from .array import zeros_like
        from .gradients import gradients
        xs = [convert.convert_to_tensor(np.asarray(v)) for v in values[:n]]
        ys = function._func(*xs)
        ys = list(ys) if isinstance(ys, (list, tuple)) else [ys]
        pairs = [(y, np.asarray(v)) for y, v in zip(ys, values[n:]) if isinstance(y, ops.Tensor)]
        found = gradients([y for y, _ in pairs], xs, [v for _, v in pairs]) if pairs else [None] * n
        return [zeros_like(x) if g is None else g for g, x in zip(found, xs)]

    return py_function(backward, list(op.inputs) + list(grads), [t.dtype for t in op.inputs])
