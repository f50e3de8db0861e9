"""The types of tensors' elements.

A DType is known by its number in the protocol (types.proto); a reference to a variable's memory has 100 more.  There is one
object for each, so `is` and `==` agree.
"""

import numpy as np

import _millrace as _core

_BFLOAT16 = np.float32  # numpy has none: values are widened when they come to Python


class DType:
    """The type of a tensor's elements."""

    __slots__ = ("_number", "name", "_numpy")

    def __init__(self, number, name, numpy_type):
        self._number, self.name, self._numpy = number, name, numpy_type

    @property
    def as_datatype_enum(self):
        """The number of the type in the protocol."""
        return self._number

    @property
    def as_numpy_dtype(self):
        """The numpy type of such values; `object` for strings."""
        if self._numpy is None:
            raise TypeError("numpy has no type for %s" % self.name)
        return self._numpy

    @property
    def is_numpy_compatible(self):
        """Whether numpy has a matching type."""
        return self._numpy is not None

    @property
    def _is_ref_dtype(self):
        return self._number > 100

    @property
    def _as_ref(self):
        return self if self._is_ref_dtype else _BY_NUMBER[self._number + 100]

    @property
    def base_dtype(self):
        """The type without reference."""
        return _BY_NUMBER[self._number - 100] if self._is_ref_dtype else self

    @property
    def real_dtype(self):
        """The type of the parts of a complex number; of others the type itself."""
        return {complex64: float32, complex128: float64}.get(self.base_dtype, self)

    @property
    def is_floating(self):
        """Whether this is a floating-point type that is not quantized."""
        return self.base_dtype in (float16, float32, float64, bfloat16)

    @property
    def is_complex(self):
        """Whether this is a complex type."""
        return self.base_dtype in (complex64, complex128)

    @property
    def is_quantized(self):
        """Whether this is a quantized type, such as qint8."""
        return self.base_dtype in (qint8, quint8, qint16, quint16, qint32)

    @property
    def is_bool(self):
        """Whether this is the bool type."""
        return self.base_dtype is bool_

    @property
    def is_integer(self):
        """Whether this is an integer type that is not quantized, signed or unsigned."""
        return not self.is_quantized and self._numpy is not None and np.issubdtype(self._numpy, np.integer)

    @property
    def is_unsigned(self):
        """Whether this is an unsigned integer type."""
        return self.is_integer and np.issubdtype(self._numpy, np.unsignedinteger)

    @property
    def size(self):
        """The number of bytes of an element; 1 for strings and other types without a fixed size."""
        if self.base_dtype is bfloat16:
            return 2
        return 1 if self._numpy in (None, object) else np.dtype(self._numpy).itemsize

    def _limits(self):
        if self.base_dtype is bfloat16:
            return float.fromhex("-0x1.fep127"), float.fromhex("0x1.fep127")
        if self.is_floating:
            info = np.finfo(self._numpy)
        elif self.is_integer or self.is_quantized:
            info = np.iinfo(self._numpy)
        elif self.is_bool:
            return False, True
        else:
            raise TypeError("Cannot find minimum and maximum value of %s." % self.name)
        return info.min, info.max

    @property
    def min(self):
        """The smallest value of the type."""
        return self._limits()[0]

    @property
    def max(self):
        """The largest value of the type."""
        return self._limits()[1]

    @property
    def limits(self, clip_negative=True):
        """(smallest, largest) brightness that an image of this type has: floats are between 0 and 1."""
        low, high = (-1, 1) if self.is_floating else self._limits()
        return (0 if clip_negative and low < 0 else low), high

    def is_compatible_with(self, other):
        """Whether tensors of the other type will do: a reference for its type, but not the type for a reference."""
        other = as_dtype(other)
        return self is other or self is other.base_dtype

    def __eq__(self, other):
        if other is None:
            return False
        try:
            return self is as_dtype(other)
        except TypeError:
            return False

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return self._number

    def __int__(self):
        return self._number

    def __repr__(self):
        return "tf." + self.name

    def __str__(self):
        return "<dtype: %r>" % self.name

    def __reduce__(self):
        return as_dtype, (self.name,)


_TYPES = [
    (1, "float32", np.float32), (2, "float64", np.float64), (3, "int32", np.int32), (4, "uint8", np.uint8),
    (5, "int16", np.int16), (6, "int8", np.int8), (7, "string", object), (8, "complex64", np.complex64),
    (9, "int64", np.int64), (10, "bool", np.bool_), (11, "qint8", np.int8), (12, "quint8", np.uint8),
    (13, "qint32", np.int32), (14, "bfloat16", _BFLOAT16), (15, "qint16", np.int16), (16, "quint16", np.uint16),
    (17, "uint16", np.uint16), (18, "complex128", np.complex128), (19, "float16", np.float16),
    (20, "resource", None), (21, "variant", None), (22, "uint32", np.uint32), (23, "uint64", np.uint64),
]
_BY_NUMBER = {}
for _number, _name, _np in _TYPES:
    _BY_NUMBER[_number] = DType(_number, _name, _np)
    _BY_NUMBER[_number + 100] = DType(_number + 100, _name + "_ref", _np)
_core.set_dtypes(_BY_NUMBER)
_BY_NAME = {t.name: t for t in _BY_NUMBER.values()}
_BY_NAME.update(float=_BY_NAME["float32"], double=_BY_NAME["float64"], half=_BY_NAME["float16"],
                float_ref=_BY_NAME["float32_ref"], double_ref=_BY_NAME["float64_ref"], half_ref=_BY_NAME["float16_ref"])
# Several types share a numpy type; the plain one is meant when numpy's is given.
_BY_NUMPY = {np.dtype(t): _BY_NUMBER[n] for n, name, t in reversed(_TYPES)
             if t is not None and not name.startswith("q") and name != "bfloat16"}
_BY_PYTHON = {float: _BY_NAME["float32"], bool: _BY_NAME["bool"], str: _BY_NAME["string"], bytes: _BY_NAME["string"],
              object: _BY_NAME["string"], int: _BY_NAME["int64"], complex: _BY_NAME["complex128"]}

float32, float64, int32, uint8 = (_BY_NUMBER[n] for n in (1, 2, 3, 4))
int16, int8, string, complex64, int64 = (_BY_NUMBER[n] for n in (5, 6, 7, 8, 9))
bool_, qint8, quint8, qint32, bfloat16 = (_BY_NUMBER[n] for n in (10, 11, 12, 13, 14))
qint16, quint16, uint16, complex128, float16 = (_BY_NUMBER[n] for n in (15, 16, 17, 18, 19))
resource, variant, uint32, uint64 = (_BY_NUMBER[n] for n in (20, 21, 22, 23))
half, double = float16, float64
QUANTIZED_DTYPES = frozenset([qint8, quint8, qint16, quint16, qint32])


def as_dtype(type_value):
    """The DType meant by a DType, a number, a name, or a type of numpy or Python."""
    if isinstance(type_value, DType):
        return type_value
    if isinstance(type_value, (int, float, np.number)) and type_value in _BY_NUMBER:  # 1.0 equals 1, as in TensorFlow
        return _BY_NUMBER[type_value]
    if isinstance(type_value, str) and type_value in _BY_NAME:
        return _BY_NAME[type_value]
    if isinstance(type_value, type) and type_value in _BY_PYTHON:
        return _BY_PYTHON[type_value]
    try:
        t = np.dtype(type_value) if type_value is not None else None
    except (TypeError, ValueError, SyntaxError):  # numpy raises various errors for a text that begins like one of its types
        t = None
    if t is not None:
        if t.kind in "SUO":
            return string
        if t in _BY_NUMPY:
            return _BY_NUMPY[t]
    raise TypeError("Cannot convert value %r to a TensorFlow DType." % (type_value,))


def public_names():
    """{name in tf: DType}: the types, also as references, and their other names."""
    names = {t.name: t for t in _BY_NUMBER.values()}
    names.update(half=half, double=double)
    return names
