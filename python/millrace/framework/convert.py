"""Values of Python as tensors: constants, and the conversions that classes register.

convert_to_tensor asks the conversions registered for the value's class in the order of their priority; numbers, lists and
arrays become constants.
"""

import numpy as np

import _millrace as _core
from . import dtypes, ops, shapes

_conversions = []  # (priority, number, class, function), sorted
_by_type = {}      # type of a value -> the conversions for it


def register_tensor_conversion_function(base_type, conversion_func, priority=100):
    """conversion_func(value, dtype=None, name=None, as_ref=False) makes a tensor of it, or returns NotImplemented."""
    _conversions.append((priority, len(_conversions), base_type, conversion_func))
    _conversions.sort(key=lambda c: c[:2])
    _by_type.clear()
    _core.set_plain_numbers(_for_type(float) == _for_type(int) == [_constant_conversion])


def _for_type(t):
    found = _by_type.get(t)
    if found is None:
        found = _by_type[t] = [f for _, _, base, f in _conversions if issubclass(t, base)]
    return found


def convert_to_tensor(value, dtype=None, name=None, preferred_dtype=None, dtype_hint=None):
    """Converts a value to a tensor: an array, a number, a list, a variable, or anything with a registered
    conversion.

    Args:
        value: what to convert; a tensor of the right type is returned as it is
        dtype: the element type of the result; None takes the type of the value
        name: the name of the constant, if one is made
        preferred_dtype: the type to try first when dtype is None; another is taken if the value does not fit
        dtype_hint: the same as preferred_dtype"""
    return internal_convert_to_tensor(value, dtype, name, False, preferred_dtype or dtype_hint)


def internal_convert_to_tensor(value, dtype=None, name=None, as_ref=False, preferred_dtype=None, ctx=None):
    if dtype is not None:
        dtype = dtypes.as_dtype(dtype).base_dtype
    if isinstance(value, ops.Tensor):
        if dtype is not None and not dtype.is_compatible_with(value.dtype.base_dtype):
            raise ValueError("Tensor conversion requested dtype %s for Tensor with dtype %s: %r" %
                             (dtype.name, value.dtype.name, str(value)))
        return value
    attempts = [dtype]
    if dtype is None and preferred_dtype is not None:
        attempts = [dtypes.as_dtype(preferred_dtype), None]
    for wanted in attempts:
        try:
            t = _converted(value, wanted, name, as_ref)
        except (TypeError, ValueError):
            if wanted is attempts[-1]:
                raise
            continue
        if wanted is not None and wanted is not dtype and t.dtype.base_dtype is not wanted.base_dtype:
            continue
        return t


def _converted(value, dtype, name, as_ref):
    for f in _for_type(type(value)):
        t = f(value, dtype=dtype, name=name, as_ref=as_ref)
        if t is NotImplemented:
            continue
        if dtype is not None and not dtype.is_compatible_with(t.dtype.base_dtype):
            raise TypeError("%s: Conversion function returned a tensor of dtype %s, %s was asked for" %
                            (name, t.dtype.name, dtype.name))
        return t
    raise TypeError("Cannot convert %r with type %s to Tensor" % (value, type(value)))


def convert_n_to_tensor(values, dtype=None, name=None, preferred_dtype=None):
    return [convert_to_tensor(v, dtype, None if name is None else "%s_%d" % (name, i), preferred_dtype)
            for i, v in enumerate(values)]


def convert_to_tensor_or_indexed_slices(value, dtype=None, name=None):
    return ops.convert_to_tensor_or_indexed_slices(value, dtype, name)


# ---- constants ----

def _scalar(x):
    while isinstance(x, (list, tuple)) and x:
        x = x[0]
    return x


def _wrong(value, dtype):
    bad = _find_wrong(value, dtype)
    raise TypeError("Expected %s, got %s of type '%s' instead." % (dtype.name, bad if not isinstance(bad, str) else repr(bad),
                                                                   type(bad).__name__))


def _is_fit(x, dtype):
    if x is None:
        return False
    if dtype is dtypes.string:
        return isinstance(x, (str, bytes, np.str_, np.bytes_, bytearray))
    if dtype is dtypes.bool_:
        return isinstance(x, (bool, np.bool_))
    if isinstance(x, (str, bytes)):
        return False
    if dtype.is_integer or dtype.is_quantized:
        return isinstance(x, (int, np.integer, shapes.Dimension))  # True is 1 here, as Python has it
    if dtype.is_floating:
        return isinstance(x, (int, float, np.integer, np.floating))
    return isinstance(x, (int, float, complex, np.number))


def _find_wrong(value, dtype):
    if isinstance(value, (list, tuple)):
        for v in value:
            bad = _find_wrong(v, dtype)
            if bad is not _FINE:
                return bad
        return _FINE
    if isinstance(value, np.ndarray):
        return _FINE
    return _FINE if _is_fit(value, dtype) else value


_FINE = object()


def _none_inside(value):
    if isinstance(value, (list, tuple)):
        return any(_none_inside(v) for v in value)
    return value is None


def as_array(value, dtype=None):
    """The value as a numpy array, and its DType: as TensorFlow would choose when none is given."""
    if dtype is not None:
        return _as_array_of(value, dtypes.as_dtype(dtype).base_dtype)
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        if array.dtype.kind in "SU":
            array = array.astype(object)
        return array, dtypes.as_dtype(array.dtype)
    if _none_inside(value):
        raise ValueError("None values not supported.")
    if isinstance(value, (str, bytes)) or isinstance(_scalar(value), (str, bytes)):
        return _as_array_of(value, dtypes.string)
    try:
        array = np.array(value)
    except ValueError as e:
        raise ValueError("Can't convert non-rectangular Python sequence to Tensor.") from e
    if array.dtype.kind == "O":
        raise TypeError("Failed to convert object of type %s to Tensor. Contents: %s. Consider casting elements to a supported "
                        "type." % (type(value), value))
    if array.dtype.kind in "SU":
        raise TypeError("Can't convert Python sequence with mixed types to Tensor.")
    # A list means float32 and int32, also one of numpy's own numbers: TensorFlow does not look at what is in it.
    if array.dtype == np.float64:
        array = array.astype(np.float32)
    elif array.dtype == np.int64:
        small = array.astype(np.int32)
        array = small if np.array_equal(small, array) else array
    return array, dtypes.as_dtype(array.dtype)


def _as_array_of(value, dtype):
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        if dtype is not dtypes.string and array.dtype.kind in "SU":
            raise TypeError("Expected %s, got an array of %s instead." % (dtype.name, array.dtype))
        return (array.astype(object) if dtype is dtypes.string else array.astype(dtype.as_numpy_dtype)), dtype
    if _none_inside(value):
        raise ValueError("None values not supported.")
    if _find_wrong(value, dtype) is not _FINE:
        _wrong(value, dtype)
    if dtype is dtypes.string:
        return np.array(value, dtype=object), dtype
    try:
        array = np.array(value)
    except ValueError as e:
        raise ValueError("Can't convert non-rectangular Python sequence to Tensor.") from e
    wanted = dtype.as_numpy_dtype
    if dtype.is_integer and array.size and (array.min() < dtype.min or array.max() > dtype.max):
        raise ValueError("A value does not fit into %s: %r" % (dtype.name, value))
    return array.astype(wanted), dtype


def constant(value, dtype=None, shape=None, name="Const", verify_shape=False):
    """A constant tensor.  With a shape, fewer values than elements are repeated: the last one fills the rest."""
    array, dtype = as_array(value, dtype)
    if shape is not None:
        array = _shaped(array, shapes.as_shape(shape), verify_shape)
    return _const(array, dtype, name)


def _const(array, dtype, name):
    g = ops.get_default_graph()
    op = g._add("Const", name or "Const", [], [("value", "x", (int(dtype), array)), ("dtype", "t", int(dtype))])
    return op.outputs[0]


def _shaped(array, shape, verify):
    dims = shape.as_list()
    if verify and list(array.shape) != dims:
        raise TypeError("Expected Tensor's shape: %s, got %s." % (tuple(dims), array.shape))
    n = shape.num_elements()
    if array.size == n:
        return array.reshape(dims)
    if array.size > n:
        raise ValueError("Too many elements provided. Needed at most %d, but received %d" % (n, array.size))
    if array.size == 0:
        raise ValueError("An empty list of values cannot fill shape %s" % dims)
    flat = np.full(n, array.flat[array.size - 1], dtype=array.dtype)
    flat[:array.size] = array.ravel()
    return flat.reshape(dims)


def is_constant(tensor_or_op):
    return getattr(tensor_or_op, "op", tensor_or_op).type == "Const"


# ---- values that are known already ----

def constant_value(tensor, partial=False):
    """The value of a tensor when it is known before any run, else None; `partial` allows None for parts of a packed one."""
    if not isinstance(tensor, ops.Tensor):
        return None if hasattr(tensor, "_as_graph_element") else np.asarray(tensor)
    value = tensor.graph.constant(tensor)
    if value is None and partial and tensor.op.type == "Pack" and tensor.op.get_attr("axis") == 0:
        parts = np.empty(len(tensor.op.inputs), object)
        for i, x in enumerate(tensor.op.inputs):
            part = constant_value(x, partial)
            parts[i] = part.item() if part is not None and part.ndim == 0 else part
        return parts
    return None if value is None else np.asarray(value)


def constant_value_as_shape(tensor):
    """The shape that an integer vector means, as far as it is known."""
    if not isinstance(tensor, ops.Tensor):
        return shapes.TensorShape([None if int(d) < 0 else int(d) for d in np.asarray(tensor)])
    value = constant_value(tensor)
    if value is not None:
        return shapes.TensorShape([None if int(d) < 0 else int(d) for d in value.ravel()])
    op = tensor.op
    if op.type == "Shape":
        return op.inputs[0].shape
    if op.type == "Pack":
        dims = [constant_value(x) for x in op.inputs]
        return shapes.TensorShape([None if d is None or int(d) < 0 else int(d) for d in dims])
    if op.type == "ConcatV2":
        out = shapes.TensorShape([])
        for x in op.inputs[:-1]:
            out = out.concatenate(constant_value_as_shape(x))
        return out
    n = tensor.shape
    return shapes.unknown_shape(ndims=n.dims[0].value if n.ndims == 1 else None)


# ---- the conversions that are always there ----

def _constant_conversion(value, dtype=None, name=None, as_ref=False):
    return constant(value, dtype, name=name or "Const")


def _contains_tensor(value):
    if isinstance(value, (list, tuple)):
        return any(_contains_tensor(v) for v in value)
    return isinstance(value, ops.Tensor) or hasattr(value, "_as_graph_element") or hasattr(value, "_dense_var_to_tensor")


def _sequence_conversion(value, dtype=None, name=None, as_ref=False):
    """A list with tensors in it is packed."""
    if not _contains_tensor(value):
        if any(isinstance(v, shapes.Dimension) for v in value):
            value = [v.value if isinstance(v, shapes.Dimension) else v for v in value]
            if any(v is None for v in value):
                raise ValueError("Cannot convert a partially known shape to a Tensor: %s" % (value,))
        return constant(value, dtype, name=name or "Const")
    inside = _dtype_inside(value)
    dtype = inside if dtype is None else dtype
    return _packed(value, dtype, name or "packed", casts=not dtype.is_compatible_with(inside))


def _packed(value, dtype, name, casts):
    from . import op_defs
    parts = []
    for v in value:
        nested = isinstance(v, (list, tuple)) and _contains_tensor(v)
        parts.append(_packed(v, dtype, None, casts) if nested else _packable(v, dtype, casts))
    return op_defs.call("Pack", name or "packed", values=parts)


def _packable(v, dtype, casts):
    """A member of a list with tensors.  A tensor of another type is cast if the caller asked for a type that the first
    tensor does not have; tensors of different types do not go together."""
    if isinstance(v, ops.Tensor) and not dtype.is_compatible_with(v.dtype.base_dtype):
        if not casts:
            raise TypeError("Cannot convert a list containing a tensor of dtype %s to %s (Tensor is: %r)" % (v.dtype, dtype, v))
        from . import op_defs
        return op_defs.call("Cast", None, x=v, DstT=dtype)
    return internal_convert_to_tensor(v, dtype)


def _dtype_inside(value):
    for v in value:
        if isinstance(v, (list, tuple)):
            found = _dtype_inside(v)
            if found is not None:
                return found
        elif hasattr(v, "dtype") and not isinstance(v, (np.generic, np.ndarray)):
            return dtypes.as_dtype(v.dtype).base_dtype
    return None


def _shape_conversion(value, dtype=None, name=None, as_ref=False):
    if not value.is_fully_defined():
        raise ValueError("Cannot convert a partially known TensorShape to a Tensor: %s" % value)
    dims = value.as_list()
    if dtype is None:
        dtype = dtypes.int64 if any(d > dtypes.int32.max for d in dims) else dtypes.int32
    elif dtype not in (dtypes.int32, dtypes.int64):
        raise TypeError("Cannot convert a TensorShape to dtype: %s" % dtype.name)
    return constant(dims, dtype, name=name or "shape_as_tensor")


def _dimension_conversion(value, dtype=None, name=None, as_ref=False):
    if value.value is None:
        raise ValueError("Cannot convert an unknown Dimension to a Tensor: %s" % value)
    return constant(value.value, dtype or dtypes.int32, name=name or "shape_as_tensor")


def _indexed_slices_conversion(value, dtype=None, name=None, as_ref=False):
    from . import op_defs
    if dtype is not None and not dtype.is_compatible_with(value.dtype.base_dtype):
        raise ValueError("Tensor conversion requested dtype %s for IndexedSlices with dtype %s" %
                         (dtype.name, value.dtype.name))
    if value.dense_shape is None:
        raise ValueError("Tensor conversion requested for IndexedSlices without dense_shape: %s" % value)
    return op_defs.call("UnsortedSegmentSum", name, data=value.values, segment_ids=value.indices,
                        num_segments=value.dense_shape[0])


register_tensor_conversion_function((list, tuple), _sequence_conversion, 100)
register_tensor_conversion_function(object, _constant_conversion, 200)
register_tensor_conversion_function(shapes.TensorShape, _shape_conversion, 100)
register_tensor_conversion_function(shapes.Dimension, _dimension_conversion, 100)
register_tensor_conversion_function(ops.IndexedSlices, _indexed_slices_conversion, 100)
