"""Columns of tf.contrib.layers: the older names and arguments of tf.feature_column."""

from ... import feature_column as fc
from ...framework import dtypes, sparse
from ...ops import math

UNNAMED = "features"  # the name of the only feature, when features are one tensor


def _only_sum(combiner):
    """Rejects combiners other than sum: a linear model adds the weights of a column's values."""
    if combiner != "sum":
        raise NotImplementedError("tf.contrib.layers: columns with combiner=%r" % combiner)


def real_valued_column(column_name, dimension=1, default_value=None, dtype=dtypes.float32, normalizer=None):
    """Returns a column of numbers; see tf.feature_column.numeric_column."""
    return fc.numeric_column(column_name or UNNAMED, (dimension or 1,), default_value, dtype, normalizer)


def bucketized_column(source_column, boundaries):
    """Returns a column of numbers put into buckets; see tf.feature_column.bucketized_column."""
    return fc.bucketized_column(source_column, sorted(set(boundaries)))


def sparse_column_with_hash_bucket(column_name, hash_bucket_size, combiner="sum", dtype=dtypes.string, hash_keys=None):
    """Returns a column of categories, numbered by their hash."""
    _only_sum(combiner)
    if hash_keys is not None:
        raise NotImplementedError("sparse_column_with_hash_bucket with hash_keys")
    return fc.categorical_column_with_hash_bucket(column_name, hash_bucket_size, dtype)


def sparse_column_with_keys(column_name, keys, default_value=-1, combiner="sum", dtype=dtypes.string):
    """Returns a column of categories, numbered by their place in a list."""
    _only_sum(combiner)
    return fc.categorical_column_with_vocabulary_list(column_name, list(keys), dtype, default_value)


class _IntegerizedColumn(fc.IdentityColumn):
    """Integers modulo the number of buckets."""

    def _ids(self, tensor):
        ids = math.floormod(math.cast(tensor.values, dtypes.int64), self.number_buckets)
        return sparse.SparseTensor(tensor.indices, ids, tensor.dense_shape)


def sparse_column_with_integerized_feature(column_name, bucket_size, combiner="sum", dtype=dtypes.int64):
    """Returns a column of categories that are numbers from 0 to bucket_size - 1."""
    _only_sum(combiner)
    if not dtypes.as_dtype(dtype).is_integer:
        raise ValueError("dtype must be an integer. dtype: %s, column_name: %s" % (dtype, column_name))
    if bucket_size < 1:
        raise ValueError("bucket_size must be at least 1. bucket_size: %s, column_name: %s" % (bucket_size, column_name))
    return _IntegerizedColumn(column_name, bucket_size, None)


def sparse_column_with_vocabulary_file(column_name, vocabulary_file, num_oov_buckets=0, vocab_size=None, default_value=-1,
                                       combiner="sum", dtype=dtypes.string):
    """Returns a column of categories, numbered by their line in a file."""
    _only_sum(combiner)
    return fc.categorical_column_with_vocabulary_file(column_name, vocabulary_file, vocab_size, num_oov_buckets, default_value,
                                                      dtype)


def weighted_sparse_column(sparse_id_column, weight_column_name, dtype=dtypes.float32):
    """Returns a column of categories with weights from another feature."""
    return fc.weighted_categorical_column(sparse_id_column, weight_column_name, dtype)


def crossed_column(columns, hash_bucket_size, combiner="sum", ckpt_to_load_from=None, tensor_name_in_ckpt=None, hash_key=None):
    """Hashed columns are crossed by the strings of their features."""
    _only_sum(combiner)
    if ckpt_to_load_from is not None or tensor_name_in_ckpt is not None:
        raise NotImplementedError("tf.contrib.layers.crossed_column: ckpt_to_load_from and tensor_name_in_ckpt")
    keys = [c.key if isinstance(c, fc.HashedColumn) else c for c in columns]
    return fc.crossed_column(keys, hash_bucket_size, hash_key)


def embedding_column(sparse_id_column, dimension, combiner="mean", initializer=None, ckpt_to_load_from=None,
                     tensor_name_in_ckpt=None, max_norm=None, trainable=True):
    """Returns a column of learned vectors for categories; see tf.feature_column.embedding_column."""
    return fc.embedding_column(sparse_id_column, dimension, combiner, initializer, ckpt_to_load_from, tensor_name_in_ckpt,
                               max_norm, trainable)


def one_hot_column(sparse_id_column):
    """Returns a dense column that counts the categories of another one."""
    return fc.indicator_column(sparse_id_column)


def create_feature_spec_for_parsing(feature_columns):
    """Returns the argument for tf.parse_example that reads the columns."""
    return fc.make_parse_example_spec(feature_columns)


def input_from_feature_columns(columns_to_tensors, feature_columns, weight_collections=None, trainable=True, scope=None,
                               cols_to_outs=None):
    """Returns the dense input layer of a model: the columns joined along the last dimension."""
    from ...ops import variable_scope as vs
    with vs.variable_scope(scope, default_name="input_from_feature_columns"):
        return fc.input_layer(columns_to_tensors, feature_columns, weight_collections, trainable,
                              cols_to_output_tensors=cols_to_outs)


def parse_feature_columns_from_examples(serialized, feature_columns, name=None, example_names=None):
    """Reads the columns from serialized Example messages, and returns {column name: tensor}."""
    from ...ops import parsing
    return parsing.parse_example(serialized, fc.make_parse_example_spec(feature_columns), name, example_names)
