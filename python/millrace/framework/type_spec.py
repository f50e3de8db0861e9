"""What is known of a value before it is there: its kind, type and shape."""

from . import dtypes, shapes, sparse
from .ops import Tensor


class TypeSpec:
    """Of a value with a type and a shape."""

    value_type = None

    def __init__(self, shape=None, dtype=dtypes.float32):
        self._shape, self._dtype = shapes.as_shape(shape), dtypes.as_dtype(dtype).base_dtype

    shape = property(lambda self: self._shape)
    dtype = property(lambda self: self._dtype)

    def is_compatible_with(self, other):
        return (isinstance(other, (type(self), self.value_type)) and self._dtype.is_compatible_with(other.dtype) and
                self._shape.is_compatible_with(other.shape))

    def __eq__(self, other):
        return type(self) is type(other) and self._dtype == other._dtype and self._key() == other._key()

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash((type(self).__name__, self._dtype, self._key()))

    def _key(self):
        return self._shape._tuple()

    def __repr__(self):
        return "%s(shape=%s, dtype=%r)" % (type(self).__name__, self._shape, self._dtype)


class TensorSpec(TypeSpec):
    """Of a tensor."""

    value_type = Tensor

    def __init__(self, shape, dtype=dtypes.float32, name=None):
        super().__init__(shape, dtype)
        self.name = name

    @classmethod
    def from_tensor(cls, tensor, name=None):
        return cls(tensor.shape, tensor.dtype, name or tensor.op.name)

    @classmethod
    def from_spec(cls, spec, name=None):
        return cls(spec.shape, spec.dtype, name or getattr(spec, "name", None))


class SparseTensorSpec(TypeSpec):
    """Of a sparse tensor."""

    value_type = sparse.SparseTensor
