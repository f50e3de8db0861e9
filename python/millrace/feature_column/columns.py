"""Columns: how features of examples become numbers that models can take.

A categorical column gives ids (sparse_tensors); a dense column gives a float tensor [batch] + shape (dense_tensor).  Columns
ask a Features object for raw features and for what other columns made of them, so that each is computed once.
"""

import collections

import numpy as np

from ..framework import convert, dtypes, ops, sparse
from ..framework.op_defs import call
from ..ops import array, lookup, math
from ..ops import variable_scope as vs
from ..ops.parsing import FixedLenFeature, VarLenFeature
from .. import sparse as sparse_ops


class Features:
    """Raw features, and what columns made of them."""

    def __init__(self, features):
        self._features, self._made = dict(features), {}

    def get(self, key):
        """A feature by its name, as a batch of vectors at least; or what a column makes of features."""
        if key not in self._made:
            if isinstance(key, str):
                if key not in self._features:
                    raise ValueError("Feature %s is not in features dictionary." % key)
                self._made[key] = _as_batch(self._features[key], key)
            else:
                self._made[key] = key.transform(self)
        return self._made[key]


def _as_batch(feature, key):
    tensor = sparse.convert_to_tensor_or_sparse_tensor(feature)
    rank = tensor.shape.ndims
    if rank == 0:
        raise ValueError("Feature (key: %s) cannot have rank 0. Given: %s" % (key, tensor))
    if rank == 1:
        return sparse_ops.expand_dims(tensor, -1) if isinstance(tensor, sparse.SparseTensor) else array.expand_dims(tensor, -1)
    return tensor


def _as_sparse(tensor):
    """The elements that are there: dense ones but "" and -1."""
    if isinstance(tensor, sparse.SparseTensor):
        return tensor
    nothing = "" if tensor.dtype is dtypes.string else np.array(-1, tensor.dtype.as_numpy_dtype)
    indices = array.where(math.not_equal(tensor, nothing))
    return sparse.SparseTensor(indices, array.gather_nd(tensor, indices), array.shape(tensor, out_type=dtypes.int64))


class FeatureColumn:
    """The base of feature columns; they are named tuples, so that columns compare by value."""

    @property
    def name(self):
        """The name of the column."""
        raise NotImplementedError

    @property
    def parse_example_spec(self):
        """The part of the argument of tf.parse_example that reads this column."""
        raise NotImplementedError

    _parse_example_spec = property(lambda self: self.parse_example_spec)
    var_scope_name = property(lambda self: self.name, doc="The name of the variable scope for the column's variables.")

    def __lt__(self, other):
        return str(self) < str(other)


class DenseColumn(FeatureColumn):
    """The base of dense columns: dense_tensor(features) has the shape [batch] + variable_shape."""


class CategoricalColumn(FeatureColumn):
    """The base of columns of categories: ids from 0 to num_buckets - 1."""

    def sparse_tensors(self, features):
        """(ids, weights or None)"""
        return features.get(self), None


# ---- numbers ----

class NumericColumn(DenseColumn, collections.namedtuple("NumericColumn", "key shape default_value dtype normalizer_fn")):
    """A column of numbers."""
    name = property(lambda self: self.key, doc="The name of the column.")
    variable_shape = property(lambda self: self.shape, doc="The shape of the dense tensor, without the batch.")

    @property
    def parse_example_spec(self):
        return {self.key: FixedLenFeature(self.shape, self.dtype, self.default_value)}

    def transform(self, features):
        """Returns the feature as numbers, normalized if there is a normalizer."""
        tensor = features.get(self.key)
        if isinstance(tensor, sparse.SparseTensor):
            raise ValueError("The corresponding Tensor of numerical column must be a Tensor. SparseTensor is not supported. "
                             "key: %s" %
                             self.key)
        tensor = self.normalizer_fn(tensor) if self.normalizer_fn is not None else tensor
        return math.cast(tensor, dtypes.float32)

    def dense_tensor(self, features):
        """Returns the values as a dense tensor."""
        return features.get(self)


class BucketizedColumn(DenseColumn, CategoricalColumn, collections.namedtuple("BucketizedColumn", "source_column boundaries")):
    """A column of numbers put into buckets."""
    name = property(lambda self: self.source_column.name + "_bucketized", doc="The name of the column.")
    parse_example_spec = property(lambda self: self.source_column.parse_example_spec,
                                  doc="The part of the argument of tf.parse_example that reads this column.")
    variable_shape = property(lambda self: tuple(self.source_column.shape) + (len(self.boundaries) + 1,),
                              doc="The shape of the dense tensor, without the batch.")
    num_buckets = property(lambda self: (len(self.boundaries) + 1) * self.source_column.shape[0],
                           doc="The number of categories.")

    def transform(self, features):
        """Returns the number of the bucket of each value."""
        return call("Bucketize", None, input=features.get(self.source_column), boundaries=self.boundaries)

    def dense_tensor(self, features):
        """Returns the buckets as one-hot vectors."""
        return array.one_hot(features.get(self), len(self.boundaries) + 1, 1.0, 0.0)

    def sparse_tensors(self, features):
        """Returns the buckets as ids; each element of the source has its own buckets."""
        buckets = features.get(self)
        n, size = array.shape(buckets)[0], self.source_column.shape[0]
        rows = array.reshape(array.tile(array.expand_dims(math.range(n), 1), [1, size]), [-1])
        columns = array.tile(math.range(size), [n])
        ids = array.reshape(buckets, [-1]) + (len(self.boundaries) + 1) * columns
        indices = math.cast(array.transpose(array.stack([rows, columns])), dtypes.int64)
        return sparse.SparseTensor(indices, math.cast(ids, dtypes.int64),
                                   math.cast(array.stack([n, size]), dtypes.int64)), None


# ---- categories ----

class _KeyedColumn(CategoricalColumn):
    """Of one feature, of any number of values."""

    name = property(lambda self: self.key, doc="The name of the column.")

    @property
    def parse_example_spec(self):
        return {self.key: VarLenFeature(self.dtype)}

    def transform(self, features):
        """Returns the numbers of the categories as a sparse tensor."""
        tensor = _as_sparse(features.get(self.key))
        if self.dtype.is_integer != tensor.dtype.is_integer:
            raise ValueError("Column dtype and SparseTensors dtype must be compatible. key: %s, column dtype: %s, tensor "
                             "dtype: %s" %
                             (self.key, self.dtype, tensor.dtype))
        if not (tensor.dtype is dtypes.string or tensor.dtype.is_integer):
            raise ValueError("SparseTensor dtype must be string or integer. key: %s, tensor dtype: %s" %
                             (self.key, tensor.dtype))
        return self._ids(tensor)


class HashedColumn(_KeyedColumn, collections.namedtuple("HashedColumn", "key hash_bucket_size dtype")):
    """A column of categories, numbered by their hash."""
    num_buckets = property(lambda self: self.hash_bucket_size, doc="The number of categories.")

    def _ids(self, tensor):
        text = tensor.values if tensor.dtype is dtypes.string else call("AsString", None, input=tensor.values)
        ids = call("StringToHashBucketFast", "lookup", input=text, num_buckets=self.hash_bucket_size)
        return sparse.SparseTensor(tensor.indices, ids, tensor.dense_shape)


def _wide(tensor):
    """Integers as int64, which tables have."""
    if not tensor.dtype.is_integer or tensor.dtype is dtypes.int64:
        return tensor
    return sparse.SparseTensor(tensor.indices, math.cast(tensor.values, dtypes.int64), tensor.dense_shape)


class VocabularyFileColumn(_KeyedColumn, collections.namedtuple(
        "VocabularyFileColumn", "key vocabulary_file vocabulary_size num_oov_buckets dtype default_value")):
    """A column of categories, numbered by their line in a file."""
    num_buckets = property(lambda self: self.vocabulary_size + self.num_oov_buckets,
                           doc="The number of categories, with buckets for unknown ones.")

    def _ids(self, tensor):
        table = lookup.index_table_from_file(self.vocabulary_file, self.num_oov_buckets, self.vocabulary_size,
                                             self.default_value,
                                             key_dtype=dtypes.int64 if self.dtype.is_integer else self.dtype,
                                             name="%s_lookup" % self.key)
        return table.lookup(_wide(tensor))


class VocabularyListColumn(_KeyedColumn, collections.namedtuple(
        "VocabularyListColumn", "key vocabulary_list dtype default_value num_oov_buckets")):
    """A column of categories, numbered by their place in a list."""
    num_buckets = property(lambda self: len(self.vocabulary_list) + self.num_oov_buckets,
                           doc="The number of categories, with buckets for unknown ones.")

    def _ids(self, tensor):
        table = lookup.index_table_from_tensor(list(self.vocabulary_list), self.num_oov_buckets, self.default_value,
                                               dtype=dtypes.int64 if self.dtype.is_integer else self.dtype,
                                               name="%s_lookup" % self.key)
        return table.lookup(_wide(tensor))


class IdentityColumn(_KeyedColumn, collections.namedtuple("IdentityColumn", "key number_buckets default_value")):
    """A column of categories that are numbers already."""
    dtype = dtypes.int64
    num_buckets = property(lambda self: self.number_buckets, doc="The number of categories.")

    def _ids(self, tensor):
        ids = math.cast(tensor.values, dtypes.int64)
        inside = math.logical_and(math.greater_equal(ids, 0), math.less(ids, self.number_buckets))
        if self.default_value is None:
            check = call("Assert", None, condition=math.reduce_all(inside),
                         data=["assert_less_than_num_buckets", "key", self.key, "num_buckets", self.number_buckets, ids])
            with ops.control_dependencies([check]):
                ids = array.identity(ids)
        else:
            ids = array.where(inside, ids, array.zeros_like(ids) + self.default_value)
        return sparse.SparseTensor(tensor.indices, ids, tensor.dense_shape)


class WeightedColumn(CategoricalColumn, collections.namedtuple("WeightedColumn",
                                                               "categorical_column weight_feature_key dtype")):
    """A column of categories with weights."""
    name = property(lambda self: "%s_weighted_by_%s" % (self.categorical_column.name, self.weight_feature_key),
                    doc="The name of the column.")
    num_buckets = property(lambda self: self.categorical_column.num_buckets, doc="The number of categories.")

    @property
    def parse_example_spec(self):
        return dict(self.categorical_column.parse_example_spec, **{self.weight_feature_key: VarLenFeature(self.dtype)})

    def transform(self, features):
        """Returns the categories and their weights."""
        weights = features.get(self.weight_feature_key)
        if not weights.dtype.is_compatible_with(self.dtype):
            raise ValueError("Bad dtype, expected %s, but got %s." % (self.dtype, weights.dtype))
        if not isinstance(weights, sparse.SparseTensor):
            indices = array.where(math.greater_equal(math.cast(weights, dtypes.float32),
                                                     float("-inf")))  # zeros are weights too
            weights = sparse.SparseTensor(indices, array.gather_nd(weights, indices),
                                          array.shape(weights, out_type=dtypes.int64))
        if not weights.dtype.is_floating:
            weights = sparse.SparseTensor(weights.indices, math.cast(weights.values, dtypes.float32), weights.dense_shape)
        return features.get(self.categorical_column), weights

    def sparse_tensors(self, features):
        return features.get(self)


class CrossedColumn(CategoricalColumn, collections.namedtuple("CrossedColumn", "keys hash_bucket_size hash_key")):
    """A column of combinations of categories, numbered by their hash."""
    num_buckets = property(lambda self: self.hash_bucket_size, doc="The number of categories.")
    name = property(lambda self: "_X_".join(sorted(k if isinstance(k, str) else k.name for k in self._leaves())),
                    doc="The name of the column.")

    def _leaves(self):
        leaves = []
        for k in self.keys:
            leaves.extend(k._leaves() if isinstance(k, CrossedColumn) else [k])
        return leaves

    @property
    def parse_example_spec(self):
        spec = {}
        for k in self.keys:
            spec.update({k: VarLenFeature(dtypes.string)} if isinstance(k, str) else k.parse_example_spec)
        return spec

    def transform(self, features):
        """Returns the numbers of the combinations as a sparse tensor."""
        tensors = []
        for k in self._leaves():
            if isinstance(k, str):
                tensors.append(features.get(k))
                continue
            ids, weights = k.sparse_tensors(features)
            if weights is not None:
                raise ValueError("crossed_column does not support weight_tensor, but the given column populates weight_tensor. "
                                 "Given column: %s" % k.name)
            tensors.append(ids)
        return sparse_ops.cross_hashed(tensors, self.hash_bucket_size, self.hash_key)


# ---- categories as dense tensors ----

class IndicatorColumn(DenseColumn, collections.namedtuple("IndicatorColumn", "categorical_column")):
    """A dense column that counts the categories of another one."""
    name = property(lambda self: "%s_indicator" % self.categorical_column.name, doc="The name of the column.")
    parse_example_spec = property(lambda self: self.categorical_column.parse_example_spec,
                                  doc="The part of the argument of tf.parse_example that reads this column.")
    variable_shape = property(lambda self: (1, self.categorical_column.num_buckets),
                              doc="The shape of the dense tensor, without the batch.")

    def transform(self, features):
        """Returns how often, or with which weight, each category occurs."""
        ids, weights = self.categorical_column.sparse_tensors(features)
        number = self.categorical_column.num_buckets
        if weights is not None:
            merged = sparse_ops.sparse_merge(ids, weights, number)
            merged = sparse_ops.sparse_retain(merged, math.greater_equal(merged.indices[:, -1], 0))  # -1 is not a category
            return sparse_ops.sparse_tensor_to_dense(merged, validate_indices=False)
        dense = sparse_ops.sparse_tensor_to_dense(ids, -1)
        hot = array.one_hot(dense, number, 1.0, 0.0)
        return math.reduce_sum(hot, [-2])

    def dense_tensor(self, features):
        """Returns the counts as a dense tensor."""
        return features.get(self)


class _EmbeddingLookup(DenseColumn):
    """The rows of a matrix for ids, combined."""

    variable_shape = property(lambda self: (self.dimension,), doc="The shape of the dense tensor, without the batch.")
    parse_example_spec = property(lambda self: self.categorical_column.parse_example_spec,
                                  doc="The part of the argument of tf.parse_example that reads this column.")

    def transform(self, features):
        """Returns the categories of the column that is embedded."""
        return self.categorical_column.sparse_tensors(features)

    def _weights(self, weight_collections, trainable):
        made = vs.get_variable("embedding_weights", shape=(self.categorical_column.num_buckets, self.dimension),
                               dtype=dtypes.float32,
                               initializer=self.initializer, trainable=self.trainable and trainable,
                               collections=weight_collections)
        if self.ckpt_to_load_from is not None:
            from .. import train
            train.init_from_checkpoint(self.ckpt_to_load_from, {self.tensor_name_in_ckpt: made})
        return made

    def dense_tensor(self, features, weight_collections=None, trainable=True):
        """Returns the vectors of the categories, combined for each row."""
        from .. import nn
        ids, weights = features.get(self)
        table = self._weights(weight_collections, trainable)
        matrix = ids.dense_shape.shape.as_list()[0] in (1, 2)  # the plain lookup combines rows of a matrix
        look_up = nn.embedding_lookup_sparse if matrix and not self.use_safe_embedding_lookup else \
            nn.safe_embedding_lookup_sparse
        return look_up(table, ids, weights, combiner=self.combiner, max_norm=self.max_norm, partition_strategy="div",
                       name="%s_weights" % self.name)


class EmbeddingColumn(_EmbeddingLookup, collections.namedtuple(
        "EmbeddingColumn",
        "categorical_column dimension combiner initializer ckpt_to_load_from tensor_name_in_ckpt max_norm trainable "
        "use_safe_embedding_lookup")):
    """A dense column of learned vectors for the categories of another one."""
    name = property(lambda self: "%s_embedding" % self.categorical_column.name, doc="The name of the column.")


class SharedEmbeddingColumn(_EmbeddingLookup, collections.namedtuple(
        "SharedEmbeddingColumn",
        "categorical_column dimension combiner initializer shared_embedding_collection_name ckpt_to_load_from "
        "tensor_name_in_ckpt max_norm trainable use_safe_embedding_lookup")):
    """A dense column of learned vectors that several columns of categories share."""
    name = property(lambda self: "%s_shared_embedding" % self.categorical_column.name, doc="The name of the column.")
    var_scope_name = property(lambda self: self.shared_embedding_collection_name,
                              doc="The name of the variable scope for the shared vectors.")

    def _weights(self, weight_collections, trainable):
        """One for all columns of the collection."""
        found = ops.get_collection(self.shared_embedding_collection_name)
        if found:
            if found[0].shape.as_list() != [self.categorical_column.num_buckets, self.dimension]:
                raise ValueError("Shared embedding collection %s contains an unexpected variable: %s" %
                                 (self.shared_embedding_collection_name, found[0]))
            return found[0]
        made = super()._weights(weight_collections, trainable)
        ops.add_to_collection(self.shared_embedding_collection_name, made)
        return made
