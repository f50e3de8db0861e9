"""Shapes of tensors that may be known in part.

A TensorShape is a list of Dimensions or, when not even the rank is known, None; a Dimension's value is an int or None.  As in
TensorFlow 1.x, iterating over a shape gives Dimensions, and comparing an unknown dimension gives None.
"""

import itertools

from .dtypes import DType


class Dimension:
    """The size of one dimension: a number, or None if it is not known."""

    __slots__ = ("_value",)

    def __init__(self, value):
        if isinstance(value, Dimension):
            value = value._value
        if value is None:
            self._value = None
            return
        if isinstance(value, DType):
            raise TypeError("Cannot convert %s to Dimension" % value)
        number = int(value)
        if not isinstance(value, (str, bytes)) and number != value:
            raise ValueError("Ambiguous dimension: %s" % value)
        if number < 0:
            raise ValueError("Dimension %d must be >= 0" % number)
        self._value = number

    @property
    def value(self):
        """The size, or None if it is unknown."""
        return self._value

    def is_compatible_with(self, other):
        """Whether both sizes are equal or at least one is unknown."""
        other = as_dimension(other)
        return self._value is None or other._value is None or self._value == other._value

    def assert_is_compatible_with(self, other):
        """Raises ValueError if the sizes are known and differ."""
        if not self.is_compatible_with(other):
            raise ValueError("Dimensions %s and %s are not compatible" % (self, other))

    def merge_with(self, other):
        """Returns the dimension with what is known of either; ValueError if they differ."""
        other = as_dimension(other)
        self.assert_is_compatible_with(other)
        return Dimension(other._value if self._value is None else self._value)

    def _with(self, other, f):
        try:
            other = as_dimension(other)
        except (TypeError, ValueError):
            return NotImplemented
        if self._value is None or other._value is None:
            return Dimension(None)
        return Dimension(f(self._value, other._value))

    def __add__(self, other):
        return self._with(other, lambda a, b: a + b)

    def __radd__(self, other):
        return self + other

    def __sub__(self, other):
        return self._with(other, lambda a, b: a - b)

    def __rsub__(self, other):
        return self._with(other, lambda a, b: b - a)

    def __mul__(self, other):
        return self._with(other, lambda a, b: a * b)

    def __rmul__(self, other):
        return self * other

    def __floordiv__(self, other):
        return self._with(other, lambda a, b: a // b)

    def __rfloordiv__(self, other):
        return self._with(other, lambda a, b: b // a)

    def __truediv__(self, other):
        raise TypeError("unsupported operand type(s) for /: 'Dimension' and '%s', please use // instead" % type(other).__name__)

    def __rtruediv__(self, other):
        raise TypeError("unsupported operand type(s) for /: '%s' and 'Dimension', please use // instead" % type(other).__name__)

    def __mod__(self, other):
        return self._with(other, lambda a, b: a % b)

    def __rmod__(self, other):
        return self._with(other, lambda a, b: b % a)

    def _compared(self, other, f):
        try:
            other = as_dimension(other)
        except (TypeError, ValueError):
            return NotImplemented
        return None if self._value is None or other._value is None else f(self._value, other._value)

    def __eq__(self, other):
        return self._compared(other, lambda a, b: a == b)

    def __ne__(self, other):
        return self._compared(other, lambda a, b: a != b)

    def __lt__(self, other):
        return self._compared(other, lambda a, b: a < b)

    def __le__(self, other):
        return self._compared(other, lambda a, b: a <= b)

    def __gt__(self, other):
        return self._compared(other, lambda a, b: a > b)

    def __ge__(self, other):
        return self._compared(other, lambda a, b: a >= b)

    def __hash__(self):
        return hash(self._value)

    def __int__(self):
        return self._value

    def __index__(self):
        if self._value is None:
            raise TypeError("An unknown Dimension cannot be used as an index")
        return self._value

    def __bool__(self):
        return bool(self._value)

    def __str__(self):
        return "?" if self._value is None else str(self._value)

    def __repr__(self):
        return "Dimension(%s)" % self._value

    def __reduce__(self):
        return Dimension, (self._value,)


def as_dimension(value):
    return value if isinstance(value, Dimension) else Dimension(value)


# Dimensions never change, so most shapes share theirs.  Not unknown ones: lists that share one would be equal.
_SHARED = {n: Dimension(n) for n in range(1025)}


def _dimensions(sizes):
    """The Dimensions of a list or tuple: of sizes, None or -1 for those that are not known, or Dimensions."""
    return [_SHARED[d] if type(d) is int and d in _SHARED
            else as_dimension(None if isinstance(d, int) and d == -1 else d) for d in sizes]


class TensorShape:
    """The shape of a tensor, as far as it is known."""

    __slots__ = ("_dims",)

    def __init__(self, dims):
        if type(dims) is tuple or type(dims) is list:
            self._dims = _dimensions(dims)
        elif dims is None:
            self._dims = None
        elif isinstance(dims, TensorShape):
            self._dims = None if dims._dims is None else list(dims._dims)
        elif hasattr(dims, "unknown_rank") and hasattr(dims, "dim"):  # a TensorShapeProto
            self._dims = None if dims.unknown_rank else [Dimension(d.size if d.size >= 0 else None) for d in dims.dim]
        elif isinstance(dims, (str, bytes)):
            raise TypeError("A string has ambiguous TensorShape, please wrap in a list or convert to an int: %s" % dims)
        elif isinstance(dims, (int, Dimension)) or not hasattr(dims, "__iter__"):
            self._dims = [as_dimension(dims)]
        else:
            self._dims = _dimensions(dims)

    @property
    def dims(self):
        """The list of dimensions, or None if the rank is unknown."""
        return self._dims

    @property
    def ndims(self):
        """The rank, or None if it is unknown."""
        return None if self._dims is None else len(self._dims)

    rank = ndims

    def __len__(self):
        if self._dims is None:
            raise ValueError("Cannot take the length of shape with unknown rank.")
        return len(self._dims)

    def __bool__(self):
        return self._dims is not None

    def __iter__(self):
        if self._dims is None:
            raise ValueError("Cannot iterate over a shape with unknown rank.")
        return iter(self._dims)

    def __getitem__(self, key):
        if self._dims is not None:
            return TensorShape(self._dims[key]) if isinstance(key, slice) else self._dims[key]
        if not isinstance(key, slice):
            return Dimension(None)
        start, stop = key.start or 0, key.stop
        if key.step is not None or stop is None or start < 0 or stop < 0:
            return unknown_shape()
        return unknown_shape(ndims=max(0, stop - start))

    def num_elements(self):
        """Returns the number of elements, or None if the shape is not fully known."""
        if not self.is_fully_defined():
            return None
        n = 1
        for d in self._dims:
            n *= d.value
        return n

    def is_fully_defined(self):
        """Whether the rank and all dimensions are known."""
        if self._dims is None:
            return False
        for d in self._dims:
            if d._value is None:
                return False
        return True

    def assert_is_fully_defined(self):
        """Raises ValueError if the rank or a dimension is unknown."""
        if not self.is_fully_defined():
            raise ValueError("Shape %s is not fully defined" % self)

    def is_compatible_with(self, other):
        """Whether some fully known shape matches both."""
        other = as_shape(other)
        if self._dims is None or other._dims is None:
            return True
        return len(self._dims) == len(other._dims) and all(a.is_compatible_with(b) for a, b in zip(self._dims, other._dims))

    def assert_is_compatible_with(self, other):
        """Raises ValueError if no shape matches both."""
        if not self.is_compatible_with(other):
            raise ValueError("Shapes %s and %s are incompatible" % (self, other))

    def merge_with(self, other):
        """Returns the shape with what is known of either; ValueError if they do not match."""
        other = as_shape(other)
        if self._dims is None:
            return other
        if other._dims is None:
            return self
        if len(self._dims) != len(other._dims) or not self.is_compatible_with(other):
            raise ValueError("Shapes %s and %s are not compatible" % (self, other))
        return TensorShape([a.merge_with(b) for a, b in zip(self._dims, other._dims)])

    def most_specific_compatible_shape(self, other):
        """Returns the most specific shape that covers both: dimensions that differ become unknown."""
        other = as_shape(other)
        if self._dims is None or other._dims is None or len(self._dims) != len(other._dims):
            return unknown_shape()
        return TensorShape([a if a.value is not None and a.value == b.value else None
                            for a, b in zip(self._dims, other._dims)])

    def concatenate(self, other):
        """Returns the dimensions of this shape followed by those of the other."""
        other = as_shape(other)
        if self._dims is None or other._dims is None:
            return unknown_shape()
        return TensorShape(self._dims + other._dims)

    def assert_same_rank(self, other):
        """Raises ValueError if both ranks are known and differ."""
        other = as_shape(other)
        if self.ndims is not None and other.ndims is not None and self.ndims != other.ndims:
            raise ValueError("Shapes %s and %s must have the same rank" % (self, other))

    def assert_has_rank(self, rank):
        """Raises ValueError if the rank is known and is not this one."""
        if self.ndims not in (None, rank):
            raise ValueError("Shape %s must have rank %d" % (self, rank))

    def with_rank(self, rank):
        """Returns this shape with the given rank; ValueError if its rank is known and differs."""
        try:
            return self.merge_with(unknown_shape(ndims=rank))
        except ValueError:
            raise ValueError("Shape %s must have rank %d" % (self, rank)) from None

    def with_rank_at_least(self, rank):
        """Returns this shape; ValueError if its rank is known and smaller."""
        if self.ndims is not None and self.ndims < rank:
            raise ValueError("Shape %s must have rank at least %d" % (self, rank))
        return self

    def with_rank_at_most(self, rank):
        """Returns this shape; ValueError if its rank is known and larger."""
        if self.ndims is not None and self.ndims > rank:
            raise ValueError("Shape %s must have rank at most %d" % (self, rank))
        return self

    def as_list(self):
        """A list of ints and Nones."""
        if self._dims is None:
            raise ValueError("as_list() is not defined on an unknown TensorShape.")
        return [d._value for d in self._dims]

    def as_proto(self):
        """Returns the shape as a TensorShapeProto."""
        from .. import protos
        if self._dims is None:
            return protos.TensorShapeProto(unknown_rank=True)
        dim = protos.TensorShapeProto.Dim
        return protos.TensorShapeProto(dim=[dim(size=-1 if d.value is None else d.value) for d in self._dims])

    def _tuple(self):
        """As the extension wants it."""
        return None if self._dims is None else tuple([d._value for d in self._dims])

    def __eq__(self, other):
        """As in TensorFlow 1.x, a shape with an unknown dimension equals no other; two of unknown rank are equal."""
        try:
            other = as_shape(other)
        except (TypeError, ValueError):
            return NotImplemented
        return self._dims == other._dims

    def __ne__(self, other):
        try:
            other = as_shape(other)
        except (TypeError, ValueError):
            return NotImplemented
        if self._dims is None or other._dims is None:
            raise ValueError("The inequality of unknown TensorShapes is undefined.")
        return self._dims != other._dims

    def __hash__(self):
        return hash(self._tuple())

    def __add__(self, other):
        return self.concatenate(other)

    def __radd__(self, other):
        return as_shape(other).concatenate(self)

    def __str__(self):
        if self._dims is None:
            return "<unknown>"
        if len(self._dims) == 1:
            return "(%s,)" % self._dims[0]
        return "(%s)" % ", ".join(str(d) for d in self._dims)

    def __repr__(self):
        return "TensorShape(%r)" % (self._dims,)

    def __reduce__(self):
        return TensorShape, (self._dims,)


def as_shape(shape):
    return shape if isinstance(shape, TensorShape) else TensorShape(shape)


def unknown_shape(ndims=None, rank=None):
    n = ndims if ndims is not None else rank
    return TensorShape(None) if n is None else TensorShape([None] * n)


def scalar():
    return TensorShape([])


def vector(length):
    return TensorShape([length])


def matrix(rows, cols):
    return TensorShape([rows, cols])


def dimension_value(dimension):
    """The number in a Dimension; anything else as it is."""
    return dimension.value if isinstance(dimension, Dimension) else dimension


# ---- broadcasting ----

def _broadcast_dims(x, y):
    """The dimensions of x and y broadcast to each other, or None.  An unknown one is taken to fit a known one above 1."""
    out = []
    pairs = list(itertools.zip_longest(reversed(x.as_list()), reversed(y.as_list()), fillvalue=1))
    for a, b in reversed(pairs):
        if a is None or b is None:
            known = b if a is None else a
            out.append(known if known is not None and known > 1 else None)
        elif a != b and a != 1 and b != 1:
            return None
        else:
            out.append(b if a == 1 else a)
    return out


def is_broadcast_compatible(shape_x, shape_y):
    if shape_x.ndims is None or shape_y.ndims is None:
        return False
    return _broadcast_dims(shape_x, shape_y) is not None


def broadcast_shape(shape_x, shape_y):
    """The shape of an elementwise operation on both."""
    if shape_x.ndims is None or shape_y.ndims is None:
        return unknown_shape()
    dims = _broadcast_dims(shape_x, shape_y)
    if dims is None:
        raise ValueError("Incompatible shapes for broadcasting: %s and %s" % (shape_x, shape_y))
    return TensorShape(dims)


def has_fully_defined_shape(tensor):
    """Of a tensor, or of something that holds one in `handle`."""
    return tensor.shape.is_fully_defined()


dimension_at_index = lambda shape, index: Dimension(None) if shape.ndims is None else shape.dims[index]
