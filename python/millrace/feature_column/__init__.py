"""tf.feature_column: from the features of examples to the inputs of models."""

import numpy as np

from ..framework import dtypes
from .columns import (BucketizedColumn, CategoricalColumn, CrossedColumn, DenseColumn, EmbeddingColumn, FeatureColumn,
                      HashedColumn,
                      IdentityColumn, IndicatorColumn, NumericColumn, SharedEmbeddingColumn, VocabularyFileColumn,
                      VocabularyListColumn,
                      WeightedColumn)
from .layers import InputLayer, input_layer, linear_model

_FeatureColumn, _DenseColumn, _CategoricalColumn = FeatureColumn, DenseColumn, CategoricalColumn  # their names in TensorFlow
_NumericColumn, _BucketizedColumn = NumericColumn, BucketizedColumn
_EmbeddingColumn, _IndicatorColumn = EmbeddingColumn, IndicatorColumn


def _check_key(key):
    if not isinstance(key, str):
        raise ValueError("key must be a string. Got: type %s. Given key: %s." % (type(key), key))


def numeric_column(key, shape=(1,), default_value=None, dtype=dtypes.float32, normalizer_fn=None):
    """Returns a column of numbers, normalized by normalizer_fn if it is given."""
    _check_key(key)
    shape = tuple(shape) if isinstance(shape, (list, tuple, np.ndarray)) else (shape,)
    for d in shape:
        if not isinstance(d, (int, np.integer)):
            raise TypeError("shape dimensions must be integer. shape: %s, key: %s" % (shape, key))
        if d < 1:
            raise ValueError("shape dimensions must be greater than 0. shape: %s, key: %s" % (shape, key))
    dtype = dtypes.as_dtype(dtype)
    if not (dtype.is_integer or dtype.is_floating):
        raise ValueError("dtype must be convertible to float. dtype: %s, key: %s" % (dtype, key))
    if default_value is not None:
        given = np.asarray(default_value)
        if dtype.is_integer and given.dtype.kind == "f":
            raise TypeError("default_value must be compatible with dtype. default_value: %s, dtype: %s, key: %s" %
                            (default_value, dtype, key))
        default_value = tuple(np.broadcast_to(given, shape).astype(dtype.as_numpy_dtype).tolist())
    if normalizer_fn is not None and not callable(normalizer_fn):
        raise TypeError("normalizer_fn must be a callable. Given: %s" % (normalizer_fn,))
    return NumericColumn(key, shape, default_value, dtype, normalizer_fn)


def bucketized_column(source_column, boundaries):
    """Returns a column of the ranges between boundaries that numbers fall into."""
    if not isinstance(source_column, NumericColumn):
        raise ValueError("source_column must be a column generated with numeric_column(). Given: %s" % (source_column,))
    if len(source_column.shape) > 1:
        raise ValueError("source_column must be one-dimensional column. Given: %s" % (source_column,))
    if not isinstance(boundaries, (list, tuple)) or not boundaries or any(a >= b for a, b in zip(boundaries, boundaries[1:])):
        raise ValueError("boundaries must be a sorted list.")
    return BucketizedColumn(source_column, tuple(boundaries))


def _check_type(dtype, name):
    dtype = dtypes.as_dtype(dtype)
    if dtype is not dtypes.string and not dtype.is_integer:
        raise ValueError("dtype must be string or integer. dtype: %s, column_name: %s" % (dtype, name))
    return dtype


def categorical_column_with_hash_bucket(key, hash_bucket_size, dtype=dtypes.string):
    """Returns a column of categories, numbered by the hash of their value."""
    _check_key(key)
    if hash_bucket_size is None:
        raise ValueError("hash_bucket_size must be set. key: %s" % key)
    if hash_bucket_size < 1:
        raise ValueError("hash_bucket_size must be at least 1. hash_bucket_size: %s, key: %s" % (hash_bucket_size, key))
    return HashedColumn(key, hash_bucket_size, _check_type(dtype, key))


def _check_oov(num_oov_buckets, default_value, key):
    if num_oov_buckets:
        if default_value not in (None, -1):
            raise ValueError("Can't specify both num_oov_buckets and default_value in %s." % key)
        if num_oov_buckets < 0:
            raise ValueError("Invalid num_oov_buckets %s in %s." % (num_oov_buckets, key))
    return -1 if default_value is None else default_value


def categorical_column_with_vocabulary_file(key, vocabulary_file, vocabulary_size=None, num_oov_buckets=0, default_value=None,
                                            dtype=dtypes.string):
    """Returns a column of categories, numbered by their line in a file.

    Args:
        key: the name of the feature
        vocabulary_size: the number of lines to use; None is all
        num_oov_buckets: how many numbers unknown values share, chosen by their hash
        default_value: the number of unknown values if there are no such buckets; -1 ignores them
    """
    _check_key(key)
    if not vocabulary_file:
        raise ValueError("Missing vocabulary_file in %s." % key)
    if vocabulary_size is None:
        with open(vocabulary_file, "rb") as f:
            vocabulary_size = sum(1 for _ in f)
    if vocabulary_size < 1:
        raise ValueError("Invalid vocabulary_size in %s." % key)
    return VocabularyFileColumn(key, vocabulary_file, vocabulary_size, num_oov_buckets or 0, _check_type(dtype, key),
                                _check_oov(num_oov_buckets, default_value, key))


def categorical_column_with_vocabulary_list(key, vocabulary_list, dtype=None, default_value=-1, num_oov_buckets=0):
    """Returns a column of categories, numbered by their place in a list.

    Args:
        key: the name of the feature
        default_value: the number of unknown values; -1 ignores them
        num_oov_buckets: how many numbers unknown values share instead, chosen by their hash
    """
    _check_key(key)
    if vocabulary_list is None or len(vocabulary_list) < 1:
        raise ValueError("vocabulary_list %s must be non-empty, column_name: %s" % (vocabulary_list, key))
    if len(set(vocabulary_list)) != len(vocabulary_list):
        raise ValueError("Duplicate keys in vocabulary_list %s, column_name: %s" % (vocabulary_list, key))
    kind = np.array(vocabulary_list).dtype
    found = dtypes.string if kind.kind in "USO" else dtypes.as_dtype(kind)
    dtype = _check_type(found if dtype is None else dtype, key)
    if dtype.is_integer != found.is_integer:
        raise ValueError("dtype %s and vocabulary dtype %s do not match, column_name: %s" % (dtype, found, key))
    return VocabularyListColumn(key, tuple(vocabulary_list), dtype, _check_oov(num_oov_buckets, default_value, key),
                                num_oov_buckets or 0)


def categorical_column_with_identity(key, num_buckets, default_value=None):
    """Returns a column of categories that are numbers from 0 to num_buckets - 1.

    default_value replaces numbers outside of the range, which are an error otherwise."""
    _check_key(key)
    if num_buckets < 1:
        raise ValueError("num_buckets %s < 1, column_name %s" % (num_buckets, key))
    if default_value is not None and not 0 <= default_value < num_buckets:
        raise ValueError("default_value %s not in range [0, %s), column_name %s" % (default_value, num_buckets, key))
    return IdentityColumn(key, num_buckets, default_value)


def weighted_categorical_column(categorical_column, weight_feature_key, dtype=dtypes.float32):
    """Returns a column of categories with weights from another feature."""
    dtype = dtypes.as_dtype(dtype)
    if not (dtype.is_integer or dtype.is_floating):
        raise ValueError("dtype %s is not convertible to float." % dtype)
    return WeightedColumn(categorical_column, weight_feature_key, dtype)


def crossed_column(keys, hash_bucket_size, hash_key=None):
    """Returns a column of all combinations of the values of several features, numbered by their hash."""
    if not hash_bucket_size or hash_bucket_size < 1:
        raise ValueError("hash_bucket_size must be > 1. hash_bucket_size: %s" % hash_bucket_size)
    if not keys or len(keys) < 2:
        raise ValueError("keys must be a list with length > 1. Given: %s" % (keys,))
    for k in keys:
        if not isinstance(k, (str, CategoricalColumn)):
            raise ValueError("Unsupported key type. All keys must be either string, or categorical column except "
                             "HashedCategoricalColumn. Given: %s" % (k,))
        if isinstance(k, HashedColumn):
            raise ValueError("categorical_column_with_hash_bucket is not supported for crossing. Hashing before crossing will "
                             "increase probability of collision. Instead, use the feature name as a string. Given: %s" % (k,))
    return CrossedColumn(tuple(keys), hash_bucket_size, hash_key)


def indicator_column(categorical_column):
    """Returns a dense column that counts the categories of another one."""
    return IndicatorColumn(categorical_column)


def _check_embedding(dimension, initializer, ckpt_to_load_from, tensor_name_in_ckpt):
    if dimension is None or dimension < 1:
        raise ValueError("Invalid dimension %s." % dimension)
    if (ckpt_to_load_from is None) != (tensor_name_in_ckpt is None):
        raise ValueError("Must specify both `ckpt_to_load_from` and `tensor_name_in_ckpt` or none of them.")
    if initializer is not None and not callable(initializer):
        raise ValueError("initializer must be callable if specified.")
    if initializer is None:
        from .. import initializers
        initializer = initializers.truncated_normal(mean=0.0, stddev=1 / np.sqrt(dimension))
    return initializer


def embedding_column(categorical_column, dimension, combiner="mean", initializer=None, ckpt_to_load_from=None,
                     tensor_name_in_ckpt=None, max_norm=None, trainable=True, use_safe_embedding_lookup=True):
    """A row of a matrix that is trained for each category; those of an example are combined."""
    initializer = _check_embedding(dimension, initializer, ckpt_to_load_from, tensor_name_in_ckpt)
    return EmbeddingColumn(categorical_column, dimension, combiner, initializer, ckpt_to_load_from, tensor_name_in_ckpt,
                           max_norm, trainable, use_safe_embedding_lookup)


def shared_embedding_columns(categorical_columns, dimension, combiner="mean", initializer=None,
                             shared_embedding_collection_name=None,
                             ckpt_to_load_from=None, tensor_name_in_ckpt=None, max_norm=None, trainable=True,
                             use_safe_embedding_lookup=True):
    """Embeddings of several columns by one matrix."""
    initializer = _check_embedding(dimension, initializer, ckpt_to_load_from, tensor_name_in_ckpt)
    ordered = sorted(categorical_columns, key=lambda c: c.name)
    if len({c.num_buckets for c in ordered}) != 1:
        raise ValueError("To use shared_embedding_column, all categorical_columns must have the same number of buckets. Given "
                         "columns: %s"
                         % ordered)
    name = shared_embedding_collection_name or "_".join(c.name for c in ordered) + "_shared_embedding"
    return [SharedEmbeddingColumn(c, dimension, combiner, initializer, name, ckpt_to_load_from, tensor_name_in_ckpt, max_norm,
                                  trainable, use_safe_embedding_lookup)
            for c in categorical_columns]


def make_parse_example_spec(feature_columns):
    """Returns the argument for tf.parse_example that reads these columns."""
    spec = {}
    for column in feature_columns:
        if not isinstance(column, FeatureColumn):
            raise ValueError("All feature_columns must be _FeatureColumn instances. Given: %s" % (column,))
        for key, value in column.parse_example_spec.items():
            if spec.setdefault(key, value) != value:
                raise ValueError("feature_columns contain different parse_spec for key %s. Given %s and %s" %
                                 (key, value, spec[key]))
    return spec
