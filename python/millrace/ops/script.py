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
from ..framework import dtypes, errors, op_defs

__all__ = ["numpy_function", "py_func", "py_function"]

_functions = weakref.WeakValueDictionary()
_numbers = itertools.count()


class _Function:
    """A function and the types that it is to return."""

    def __init__(self, func, types, takes_values):
        self._func, self._types, self._takes_values = func, types, takes_values

    def __call__(self, token, inputs):
        if self._takes_values:
            inputs = [_Value.of(x) for x in inputs]
        returned = self._func(*inputs)
        if not isinstance(returned, (list, tuple)):
            returned = [] if returned is None and not self._types else [returned]
        if len(returned) != len(self._types):
            raise errors.InvalidArgumentError(None, None, "%s returns %d values, but expects to see %d values." %
                                              (token, len(returned), len(self._types)))
        return [_checked(v, t, i, token, self._takes_values) for i, (v, t) in enumerate(zip(returned, self._types))]


def _checked(value, dtype, i, token, convert):
    """A value of the type that was promised; one of another type is an error, as in TensorFlow."""
    if dtype is dtypes.string:
        return value
    array = np.asarray(value, dtype.as_numpy_dtype if convert else None, order="C")
    if array.dtype == object:
        raise errors.UnimplementedError(None, None, "Unsupported object type %s" % type(value).__name__)
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


def _call(token, inputs):
    function = _functions.get(token)
    if function is None:
        raise ValueError("callback %s is not found" % token)
    return function(token, inputs)


_core.set_function_caller(_call)
atexit.register(_core.end_function_calls)


def _operation(op_type, func, inp, types, name, takes_values=False):
    if not callable(func):
        raise ValueError("Expected func to be callable, got func of type %s" % type(func))
    is_list = isinstance(types, (list, tuple))
    types = [dtypes.as_dtype(t) for t in (types if is_list else [types])]
    function = _Function(func, types, takes_values)
    token = "pyfunc_%d" % next(_numbers)
    _functions[token] = function
    op, _ = op_defs.add(op_type, name, {"input": list(inp), "token": token, "Tout": types})
    graph = op.graph
    while graph._outer is not None:  # functions' graphs go, what they are used by stays
        graph = graph._outer
    graph._scoped.setdefault("functions of Python", []).append(function)
    if not types:
        return op
    return list(op.outputs) if is_list else op.outputs[0]


def py_func(func, inp, Tout, stateful=True, name=None):  # noqa: N803 -- TensorFlow's names
    """What func returns for the values of inp, as numpy arrays; a stateful function runs whenever it is asked for."""
    return _operation("PyFunc" if stateful else "PyFuncStateless", func, inp, Tout, name)


def numpy_function(func, inp, Tout, name=None):  # noqa: N803
    return _operation("PyFunc", func, inp, Tout, name)


def py_function(func, inp, Tout, name=None):  # noqa: N803
    """py_func for functions that take values with a method numpy(); no gradient flows through it."""
    return _operation("EagerPyFunc", func, inp, Tout, name, takes_values=True)


eager_py_func = py_function
