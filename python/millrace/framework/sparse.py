"""Sparse tensors: the indices and values of the elements that are there, and the shape of the whole."""

import collections

from . import convert, dtypes, ops

SparseTensorValue = collections.namedtuple("SparseTensorValue", ["indices", "values", "dense_shape"])
IndexedSlicesValue = collections.namedtuple("IndexedSlicesValue", ["values", "indices", "dense_shape"])


class SparseTensor:
    """indices [n, rank] int64, values [n], dense_shape [rank] int64."""

    def __init__(self, indices, values, dense_shape):
        with ops.name_scope(None, "SparseTensor", [indices, values, dense_shape]):
            self._indices = convert.convert_to_tensor(indices, dtypes.int64, "indices")
            self._values = convert.convert_to_tensor(values, name="values")
            self._dense_shape = convert.convert_to_tensor(dense_shape, dtypes.int64, "dense_shape")
        elements, rank = self._indices.shape.with_rank(2)
        elements.merge_with(self._values.shape.with_rank(1)[0])
        rank.merge_with(self._dense_shape.shape.with_rank(1)[0])

    @classmethod
    def from_value(cls, sparse_tensor_value):
        """Makes a SparseTensor from a SparseTensorValue or another SparseTensor."""
        if not isinstance(sparse_tensor_value, (SparseTensor, SparseTensorValue)):
            raise TypeError("Neither a SparseTensor nor SparseTensorValue: %s." % (sparse_tensor_value,))
        return cls(sparse_tensor_value.indices, sparse_tensor_value.values, sparse_tensor_value.dense_shape)

    indices = property(lambda self: self._indices, doc="The positions of the values: int64 [number of values, rank].")
    values = property(lambda self: self._values, doc="The values, a vector.")
    dense_shape = property(lambda self: self._dense_shape, doc="The shape of the dense tensor, as an int64 vector.")
    op = property(lambda self: self._values.op, doc="The operation that makes the values.")
    dtype = property(lambda self: self._values.dtype, doc="The type of the values.")
    graph = property(lambda self: self._values.graph, doc="The graph of the values.")
    name = property(lambda self: self._values.name, doc="The name of the values.")

    @property
    def shape(self):
        """The static shape of the dense tensor."""
        return convert.constant_value_as_shape(self._dense_shape)

    def get_shape(self):
        """Returns the static shape of the dense tensor; the same as the property shape."""
        return self.shape

    def eval(self, feed_dict=None, session=None):
        """Runs the graph and returns a SparseTensorValue, in the given session or in the default one."""
        return ops._session_for(session, self.graph, "evaluate tensor").run(self, feed_dict)

    def consumers(self):
        """Returns the operations that take the values as an input."""
        return self._values.consumers()

    def _with_dense(self, op_type, dense):
        """Element by element with a tensor, where this one has elements."""
        from .op_defs import call
        values = call(op_type, None, sp_indices=self._indices, sp_values=self._values, sp_shape=self._dense_shape, dense=dense)
        return SparseTensor(self._indices, values, self._dense_shape)

    def __mul__(self, dense):
        return self._with_dense("SparseDenseCwiseMul", dense)

    def __rmul__(self, dense):
        return self._with_dense("SparseDenseCwiseMul", dense)

    def __truediv__(self, dense):
        """As for tensors: integers are divided as floating-point numbers."""
        from ..ops import math
        dense = convert.convert_to_tensor(dense, name="y")
        kinds = self.dtype.base_dtype, dense.dtype.base_dtype
        if kinds[0] is not kinds[1]:
            raise TypeError("x and y must have the same dtype, got %r != %r" % kinds)
        if not kinds[0].is_integer:
            return self._with_dense("SparseDenseCwiseDiv", dense)
        wide = dtypes.float32 if kinds[0].size <= 2 else dtypes.float64
        numbers = SparseTensor(self._indices, math.cast(self._values, wide), self._dense_shape)
        return numbers._with_dense("SparseDenseCwiseDiv", math.cast(dense, wide))

    def __repr__(self):
        return "SparseTensor(indices=%s, values=%s, dense_shape=%s)" % (self._indices, self._values, self._dense_shape)

    def _composite_parts(self):
        """For framework.nest."""
        return [self._indices, self._values, self._dense_shape], lambda parts: SparseTensor(*parts)

    # What a session fetches and feeds in its place.

    def _fetch_parts(self):
        return [self._indices, self._values, self._dense_shape], lambda parts: SparseTensorValue(*parts)

    def _feed_parts(self, value):
        if isinstance(value, SparseTensor):
            raise TypeError("The value of a feed cannot be a SparseTensor")
        return list(zip([self._indices, self._values, self._dense_shape], value))


def convert_to_tensor_or_sparse_tensor(value, dtype=None, name=None):
    """Converts a value to a tensor; a sparse value becomes or stays a SparseTensor."""
    if isinstance(value, SparseTensorValue):
        value = SparseTensor.from_value(value)
    if isinstance(value, SparseTensor):
        if dtype is not None and not dtypes.as_dtype(dtype).is_compatible_with(value.dtype):
            raise RuntimeError("Sparse dtype: requested = %s, actual = %s" % (dtype, value.dtype))
        return value
    return convert.convert_to_tensor(value, dtype, name)


def is_sparse(x):
    return isinstance(x, (SparseTensor, SparseTensorValue))


def _slices_fetch(self):
    if self.dense_shape is None:
        return [self.values, self.indices], lambda p: IndexedSlicesValue(p[0], p[1], None)
    return [self.values, self.indices, self.dense_shape], lambda p: IndexedSlicesValue(*p)


def _slices_feed(self, value):
    tensors = [self.values, self.indices] + ([] if self.dense_shape is None else [self.dense_shape])
    return list(zip(tensors, value))


ops.IndexedSlices._fetch_parts = _slices_fetch
ops.IndexedSlices._feed_parts = _slices_feed


def _refuse(value, dtype=None, name=None, as_ref=False):
    raise TypeError("Failed to convert object of type %s to Tensor. Contents: %s. Consider casting elements to a supported "
                    "type." % (type(value), value))


convert.register_tensor_conversion_function(SparseTensor, _refuse, 90)
