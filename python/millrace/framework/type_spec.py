"""What is known of a value before it is there: its kind, type and shape."""

import numpy as np

from . import dtypes, shapes, sparse
from .ops import Tensor


class TypeSpec:
    """The base of specs: what is known of a value's type and shape."""

    value_type = None

    def __init__(self, shape=None, dtype=dtypes.float32):
        self._shape, self._dtype = shapes.as_shape(shape), dtypes.as_dtype(dtype).base_dtype

    shape = property(lambda self: self._shape, doc="The shape of the values that this describes.")
    dtype = property(lambda self: self._dtype, doc="The element type of the values that this describes.")

    def is_compatible_with(self, spec_or_tensor):
        """Whether a tensor or another spec has a matching type and shape."""
        return (isinstance(spec_or_tensor, (type(self), self.value_type)) and
                self._dtype.is_compatible_with(spec_or_tensor.dtype) and
                self._shape.is_compatible_with(spec_or_tensor.shape))

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

    def _serialize(self):
        return self._shape, self._dtype

    # ---- as one tensor, which can be batched; see data/structure.py, which comes after the framework ----

    @property
    def _flat_tensor_specs(self):
        from ..data.structure import shapes_of, types
        return [TensorSpec(s, t) for s, t in zip(shapes_of(self), types(self))]

    def _to_tensor_list(self, value):
        from ..data.structure import encode
        return encode(sparse.SparseTensor.from_value(value) if isinstance(value, sparse.SparseTensorValue) else value)

    def _from_tensor_list(self, tensor_list):
        from ..data.structure import decode
        return decode(self, tensor_list)

    def _batch(self, batch_size):
        """Of so many such values, one behind the other."""
        return type(self)(shapes.TensorShape([batch_size]).concatenate(self._shape), self._dtype)

    def _unbatch(self):
        """Of one of the values in such a one."""
        if self._shape.ndims == 0:
            raise ValueError("Unbatching a tensor is only supported for rank >= 1")
        return type(self)(self._shape[1:], self._dtype)


class TensorSpec(TypeSpec):
    """The type, shape and name of a tensor."""

    value_type = Tensor

    def __init__(self, shape, dtype=dtypes.float32, name=None):
        super().__init__(shape, dtype)
        self.name = name

    @classmethod
    def from_tensor(cls, tensor, name=None):
        """Makes the spec of a tensor, named as its operation unless a name is given."""
        return cls(tensor.shape, tensor.dtype, name or tensor.op.name)

    @classmethod
    def from_spec(cls, spec, name=None):
        """Makes a TensorSpec with the type and shape of another spec."""
        return cls(spec.shape, spec.dtype, name or getattr(spec, "name", None))


class SparseTensorSpec(TypeSpec):
    """The type and shape of a sparse tensor."""

    value_type = sparse.SparseTensor

    @classmethod
    def from_value(cls, value):
        """Returns the spec of a SparseTensor or a SparseTensorValue."""
        if isinstance(value, sparse.SparseTensor):
            return cls(value.shape, value.dtype)
        if not isinstance(value, sparse.SparseTensorValue):
            raise TypeError("Expected SparseTensor or SparseTensorValue")
        if isinstance(value.values, np.ndarray):
            return cls(value.dense_shape, value.values.dtype)
        return cls.from_value(sparse.SparseTensor.from_value(value))

    # ---- as a list of its three tensors ----

    @property
    def _component_specs(self):
        rank = self._shape.ndims
        return [TensorSpec([None, rank], dtypes.int64), TensorSpec([None], self._dtype), TensorSpec([rank], dtypes.int64)]

    def _to_components(self, value):
        if isinstance(value, sparse.SparseTensorValue):
            value = sparse.SparseTensor.from_value(value)
        return [value.indices, value.values, value.dense_shape]

    def _from_components(self, components):
        of_numpy = all(isinstance(c, np.ndarray) for c in components)
        return (sparse.SparseTensorValue if of_numpy else sparse.SparseTensor)(*components)
