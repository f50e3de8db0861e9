"""Assertions about tensors: at once where values are known, else operations that fail the step."""

import numpy as np

from ..framework import convert, dtypes, errors, op_defs, ops
from . import array, math

__all__ = []


def public(f):
    __all__.append(f.__name__)
    return f


def _assert(condition, data, name, summarize=3):
    return op_defs.call("Assert", name, condition=condition, data=data, summarize=summarize or 3)


def _binary(called, holds, text, op):
    def f(x, y, data=None, summarize=None, message=None, name=None):
        with ops.name_scope(name, called, [x, y, data]) as scope:
            x = convert.convert_to_tensor(x, name="x")
            y = convert.convert_to_tensor(y, name="y")
            a, b = convert.constant_value(x), convert.constant_value(y)
            known = a is not None and b is not None
            if known and not np.all(holds(a, b)):
                raise errors.InvalidArgumentError(None, None, "%s\nCondition x %s y did not hold.\nx: %s\ny: %s" %
                                                  (message or "", text, a, b))
            if known:
                return op_defs.call("NoOp", scope)
            shown = data or [message or "", "Condition x %s y did not hold element-wise:" % text,
                             "x (%s) = " % x.name, x, "y (%s) = " % y.name, y]
            return _assert(math.reduce_all(op(x, y)), shown, scope, summarize)
    f.__name__ = f.__qualname__ = called
    f.__doc__ = "An operation that fails unless x %s y everywhere." % text
    return public(f)


assert_equal = _binary("assert_equal", lambda a, b: a == b, "==", math.equal)
assert_none_equal = _binary("assert_none_equal", lambda a, b: a != b, "!=", math.not_equal)
assert_less = _binary("assert_less", lambda a, b: a < b, "<", lambda x, y: x < y)
assert_less_equal = _binary("assert_less_equal", lambda a, b: a <= b, "<=", lambda x, y: x <= y)
assert_greater = _binary("assert_greater", lambda a, b: a > b, ">", lambda x, y: x > y)
assert_greater_equal = _binary("assert_greater_equal", lambda a, b: a >= b, ">=", lambda x, y: x >= y)


def _sign(called, compare, text):
    def f(x, data=None, summarize=None, message=None, name=None):
        with ops.name_scope(name, called, [x, data]):
            x = convert.convert_to_tensor(x, name="x")
            return compare(convert.convert_to_tensor(0, x.dtype.base_dtype), x, data=data, summarize=summarize,
                           message=message or "Condition for %s did not hold." % x.name)
    f.__name__ = f.__qualname__ = called
    f.__doc__ = "Returns an operation that fails unless x %s 0 everywhere." % text
    return public(f)


assert_positive = _sign("assert_positive", assert_less, ">")
assert_negative = _sign("assert_negative", assert_greater, "<")
assert_non_negative = _sign("assert_non_negative", assert_less_equal, ">=")
assert_non_positive = _sign("assert_non_positive", assert_greater_equal, "<=")


@public
def assert_near(x, y, rtol=None, atol=None, data=None, summarize=None, message=None, name=None):
    """Returns an operation that fails unless |x - y| <= atol + rtol * |y| everywhere.

    The default of both limits is 10 times the precision of the type of x."""
    with ops.name_scope(name, "assert_near", [x, y]):
        x = convert.convert_to_tensor(x, name="x")
        y = convert.convert_to_tensor(y, x.dtype.base_dtype, name="y")
        eps = np.finfo(x.dtype.as_numpy_dtype).eps
        limit = (10 * eps if atol is None else atol) + (10 * eps if rtol is None else rtol) * math.abs(y)
        return assert_less_equal(math.abs(x - y), limit, data=data, summarize=summarize, message=message)


def _rank_check(called, fits, text):
    def f(x, rank, data=None, summarize=None, message=None, name=None):
        with ops.name_scope(name, called, [x, rank]) as scope:
            x = convert.convert_to_tensor(x, name="x")
            wanted = convert.constant_value(convert.convert_to_tensor(rank))
            if x._rank() is not None and wanted is not None:
                if not fits(x._rank(), wanted):
                    raise ValueError("%s. Tensor %s must have rank %s %s. Received rank %d, shape %s" %
                                     (message or "", x.name, text, wanted, x._rank(), x.shape))
                return op_defs.call("NoOp", scope)
            n = array.rank(x)
            held = {"": math.equal(n, rank), "at least": n >= rank}[text]
            shown = data or [message or "", "Tensor %s must have rank %s" % (x.name, text), rank, n]
            return _assert(held, shown, scope, summarize)
    f.__name__ = f.__qualname__ = called
    f.__doc__ = "Returns an operation that fails unless x has rank %s`rank`; a static rank is checked at once." % (
        text and text + " ")
    return public(f)


assert_rank = _rank_check("assert_rank", lambda n, w: n == w, "")
assert_rank_at_least = _rank_check("assert_rank_at_least", lambda n, w: n >= w, "at least")


@public
def assert_rank_in(x, ranks, data=None, summarize=None, message=None, name=None):
    """Returns an operation that fails unless the rank of x is one of ranks; a static rank is checked at once."""
    with ops.name_scope(name, "assert_rank_in", [x]) as scope:
        x = convert.convert_to_tensor(x, name="x")
        known = [convert.constant_value(convert.convert_to_tensor(r)) for r in ranks]
        if x._rank() is not None and all(r is not None for r in known):
            if x._rank() not in known:
                raise ValueError("%s. Tensor %s must have rank in %s. Received rank %d, shape %s" %
                                 (message or "", x.name, tuple(int(r) for r in known), x._rank(), x.shape))
            return op_defs.call("NoOp", scope)
        n = array.rank(x)
        held = math.reduce_any(array.stack([math.equal(n, r) for r in ranks]))
        return _assert(held, data or [message or "", "Tensor %s has the wrong rank" % x.name, n], scope, summarize)


@public
def assert_integer(x, message=None, name=None):
    """Raises TypeError unless x has an integer type; returns an operation that does nothing."""
    x = convert.convert_to_tensor(x, name="x")
    if not x.dtype.is_integer:
        raise TypeError("%s  Expected \"x\" to be integer type.  Found: %s of dtype %s" % (message or "", x.name, x.dtype))
    return op_defs.call("NoOp", name or "assert_type")


@public
def assert_type(tensor, tf_type, message=None, name=None):
    """Raises TypeError unless the tensor has type tf_type; returns an operation that does nothing."""
    tensor = convert.convert_to_tensor(tensor, name="tensor")
    if tensor.dtype.base_dtype is not dtypes.as_dtype(tf_type).base_dtype:
        raise TypeError("%s  %s must be of type %s" % (message or "", tensor.name, tf_type))
    return op_defs.call("NoOp", name or "assert_type")


@public
def assert_scalar(tensor, name=None, message=None):
    """Raises ValueError if the static shape is not that of a scalar; returns the tensor."""
    with ops.name_scope(name, "assert_scalar", [tensor]):
        tensor = convert.convert_to_tensor(tensor)
    if tensor.shape.ndims not in (None, 0):
        raise ValueError("%sExpected scalar shape, saw shape: %s." % (message or "", tensor.shape))
    return tensor


@public
def assert_same_float_dtype(tensors=None, dtype=None):
    """The one floating-point type of all tensors."""
    for t in tensors or ():
        if t is None:
            continue
        t = t.dtype.base_dtype
        if dtype is None:
            dtype = t
        elif dtypes.as_dtype(dtype).base_dtype is not t:
            raise ValueError("Expected %s, got %s." % (dtypes.as_dtype(dtype).name, t.name))
    dtype = dtypes.float32 if dtype is None else dtypes.as_dtype(dtype)
    if not dtype.is_floating:
        raise ValueError("Expected floating point type, got %s." % dtype)
    return dtype


@public
def is_numeric_tensor(tensor):
    """Whether the argument is a tensor of numbers."""
    if not isinstance(tensor, ops.Tensor):
        return False
    d = tensor.dtype
    return d.is_floating or d.is_integer or d.is_complex or d.is_quantized


@public
def is_non_decreasing(x, name=None):
    """Returns whether each element of x, flattened, is at least as large as the one before it."""
    with ops.name_scope(name, "is_non_decreasing", [x]):
        x = array.reshape(x, [-1])
        return math.reduce_all(x[1:] >= x[:-1])


@public
def is_strictly_increasing(x, name=None):
    """Returns whether each element of x, flattened, is larger than the one before it."""
    with ops.name_scope(name, "is_strictly_increasing", [x]):
        x = array.reshape(x, [-1])
        return math.reduce_all(x[1:] > x[:-1])


@public
def ensure_shape(x, shape, name=None):
    """Returns x with its static shape refined, and fails the step if the value has another shape."""
    return op_defs.call("EnsureShape", name, input=x, shape=shape)


def assert_proper_iterable(values):
    """Raises TypeError unless values is an iterable other than a tensor, an array or a string."""
    if isinstance(values, (ops.Tensor, np.ndarray, bytes, str)) or not hasattr(values, "__iter__"):
        raise TypeError("Expected argument \"values\" to be a \"proper\" iterable.  Found: %s" % type(values))


__all__.append("assert_proper_iterable")


@public
def verify_tensor_all_finite(t=None, msg=None, name=None, x=None, message=None):
    """Returns the tensor; its computation fails if it contains an infinity or NaN."""
    t = t if x is None else x
    with ops.name_scope(name, "VerifyFinite", [t]):
        t = convert.convert_to_tensor(t, name="t")
        checked = op_defs.call("CheckNumerics", None, tensor=t, message=msg if message is None else message)
        with ops.control_dependencies([checked]):
            return op_defs.call("Identity", None, input=t)
