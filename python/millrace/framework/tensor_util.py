"""Tensors as messages: TensorProto from values, and back."""

import numpy as np

import _millrace as _core
from . import convert, dtypes, ops, shapes
from .convert import constant_value, constant_value_as_shape  # noqa: F401 -- TensorFlow has them here

_INT_VAL = {dtypes.int32, dtypes.int16, dtypes.int8, dtypes.uint16, dtypes.uint8, dtypes.qint8, dtypes.quint8, dtypes.qint16,
            dtypes.quint16, dtypes.qint32}
# Types whose tensors go as one block of bytes; the others go value by value, as TensorFlow writes them.
_IN_BYTES = _INT_VAL - {dtypes.uint16} | {dtypes.float32, dtypes.float64, dtypes.int64, dtypes.uint32, dtypes.uint64}
_FIELDS = {dtypes.float32: "float_val", dtypes.float64: "double_val", dtypes.int64: "int64_val", dtypes.bool_: "bool_val",
           dtypes.uint32: "uint32_val", dtypes.uint64: "uint64_val", **dict.fromkeys(_INT_VAL, "int_val")}


def make_tensor_proto(values, dtype=None, shape=None, verify_shape=False, allow_broadcast=False):
    """The TensorProto of values.  With a shape, fewer values than elements are allowed: the last one fills the rest."""
    from .. import protos
    if isinstance(values, protos.TensorProto):
        return values
    array, dtype = convert.as_array(values, dtype)
    dims = list(array.shape) if shape is None else [int(d) for d in shapes.as_shape(shape).as_list()]
    _check_shape(array, dims, shape is not None, verify_shape, allow_broadcast)
    proto = protos.TensorProto(dtype=int(dtype))
    proto.tensor_shape.SetInParent()
    for d in dims:
        proto.tensor_shape.dim.add().size = d
    n = int(np.prod(dims, dtype=np.int64))
    if dtype in _IN_BYTES and array.size == n > 1:
        proto.tensor_content = np.ascontiguousarray(array).tobytes()
    else:
        _append(proto, dtype, array.ravel())
    return proto


def _check_shape(array, dims, given, verify, allow_broadcast):
    n = int(np.prod(dims, dtype=np.int64))
    if allow_broadcast and given:
        if array.size != 1 and array.size != n:
            raise TypeError("Expected Tensor's shape: %s, got %s." % (tuple(dims), array.shape))
    elif verify and list(array.shape) != dims:
        raise TypeError("Expected Tensor's shape: %s, got %s." % (tuple(dims), array.shape))
    if array.size > n:
        raise ValueError("Too many elements provided. Needed at most %d, but received %d" % (n, array.size))


def _append(proto, dtype, flat):
    """One by one, in the field of the type."""
    if dtype is dtypes.string:
        proto.string_val.extend(v.encode() if isinstance(v, str) else bytes(v) for v in flat)
    elif dtype is dtypes.float16:
        proto.half_val.extend(int(v) for v in flat.view(np.uint16))
    elif dtype is dtypes.bfloat16:  # the upper half of a float, to the nearest even
        bits = np.ascontiguousarray(flat, np.float32).view(np.uint32)
        proto.half_val.extend(int(v) for v in (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)
    elif dtype.is_complex:
        field = proto.scomplex_val if dtype is dtypes.complex64 else proto.dcomplex_val
        for v in flat:
            field.extend([float(v.real), float(v.imag)])
    elif dtype in _FIELDS:
        getattr(proto, _FIELDS[dtype]).extend(v.item() for v in flat)
    else:
        raise TypeError("Unrecognized dtype: %s" % dtype.name)


def make_ndarray(tensor):
    """The array in a TensorProto."""
    value = _core.array_from_proto(tensor.SerializeToString())
    if isinstance(value, np.ndarray):
        return value
    return np.array(value, dtype=object) if tensor.dtype == int(dtypes.string) else np.asarray(value)


MakeNdarray = make_ndarray


def shape_equals(tensor_proto, shape):
    return [d.size for d in tensor_proto.tensor_shape.dim] == shapes.as_shape(shape).as_list()


ShapeEquals = shape_equals


def is_tensor(x):
    """Whether it is a tensor, or one in parts, or a variable."""
    from .sparse import SparseTensor
    return isinstance(x, (ops.Tensor, SparseTensor, ops.IndexedSlices)) or hasattr(x, "_as_graph_element")


is_tf_type = is_tensor


def shape_tensor(shape):
    """A shape as an integer tensor."""
    if isinstance(shape, (tuple, list)) and not shape:
        return convert.constant([], dtypes.int32, name="shape")
    return convert.convert_to_tensor(shape, name="shape")
