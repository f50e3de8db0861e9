"""Examples, CSV and raw bytes as tensors.

What is wanted of an Example is told by a dict {key: FixedLenFeature | VarLenFeature | ...}.  _Wanted sorts it into the lists
that the ops take: sparse features (of any length) and dense ones (of a fixed shape, or of a varying number of such shapes).
"""

import collections

import numpy as np

from ..framework import convert, dtypes, op_defs, ops, shapes, sparse
from ..framework.op_defs import call, results

__all__ = ["FixedLenFeature", "FixedLenSequenceFeature", "SparseFeature", "VarLenFeature", "decode_compressed", "decode_csv",
           "decode_json_example", "decode_raw", "parse_example", "parse_sequence_example", "parse_single_example",
           "parse_single_sequence_example", "parse_tensor"]


class VarLenFeature(collections.namedtuple("VarLenFeature", ["dtype"])):
    """Any number of values: a SparseTensor."""


class SparseFeature(collections.namedtuple("SparseFeature", ["index_key", "value_key", "dtype", "size", "already_sorted"])):
    """Values of one key at the positions of others: a SparseTensor with a dimension of `size` for each index key."""

    def __new__(cls, index_key, value_key, dtype, size, already_sorted=False):
        return super().__new__(cls, index_key, value_key, dtype, size, already_sorted)


class FixedLenFeature(collections.namedtuple("FixedLenFeature", ["shape", "dtype", "default_value"])):
    """Values of a fixed shape: a Tensor.  Without a default it must be there."""

    def __new__(cls, shape, dtype, default_value=None):
        return super().__new__(cls, shape, dtype, default_value)


class FixedLenSequenceFeature(collections.namedtuple("FixedLenSequenceFeature",
                                                     ["shape", "dtype", "allow_missing", "default_value"])):
    """Any number of values of a fixed shape: a Tensor, padded with the default where examples of a batch differ."""

    def __new__(cls, shape, dtype, allow_missing=False, default_value=None):
        return super().__new__(cls, shape, dtype, allow_missing, default_value)


class _Wanted:
    """Features as the lists of an op's arguments."""

    def __init__(self, features, allowed=(VarLenFeature, SparseFeature, FixedLenFeature, FixedLenSequenceFeature)):
        self.features = features or {}
        self.sparse, self.dense = {}, {}  # key -> type; key -> (type, shape, default)
        self.may_miss = []
        for key in sorted(self.features):
            feature = self.features[key]
            if not isinstance(feature, allowed):
                raise ValueError("Unsupported %s %s for key %r." % (type(feature).__name__, feature, key))
            self._take(key, feature)

    def _take(self, key, feature):
        if isinstance(feature, VarLenFeature):
            self._take_sparse(key, feature.dtype)
        elif isinstance(feature, SparseFeature):
            for k in _index_keys(feature):
                self._take_sparse(k, dtypes.int64)
            self._take_sparse(feature.value_key, feature.dtype)
        else:
            if feature.dtype is None:
                raise ValueError("Missing type for feature %s." % key)
            if feature.shape is None:
                raise ValueError("Missing shape for feature %s." % key)
            self.dense[key] = feature
            if getattr(feature, "allow_missing", False):
                self.may_miss.append(key)

    def _take_sparse(self, key, dtype):
        if not dtype:
            raise ValueError("Missing type for feature %s." % key)
        dtype = dtypes.as_dtype(dtype)
        if self.sparse.setdefault(key, dtype) is not dtype:
            raise ValueError("Conflicting type %s vs %s for feature %s." % (self.sparse[key], dtype, key))

    sparse_keys = property(lambda self: sorted(self.sparse))
    dense_keys = property(lambda self: sorted(self.dense))
    sparse_types = property(lambda self: [self.sparse[k] for k in self.sparse_keys])
    dense_types = property(lambda self: [dtypes.as_dtype(self.dense[k].dtype) for k in self.dense_keys])

    def dense_shapes(self, sequences=True):
        """A sequence has one dimension more, of any length."""
        out = []
        for k in self.dense_keys:
            shape = shapes.as_shape(self.dense[k].shape)
            if sequences and isinstance(self.dense[k], FixedLenSequenceFeature):
                shape = shapes.TensorShape([None]).concatenate(shape)
            out.append(shape)
        return out

    def dense_defaults(self):
        return [self._default(k, s) for k, s in zip(self.dense_keys, self.dense_shapes())]

    def _default(self, key, shape):
        feature = self.dense[key]
        dtype, default = dtypes.as_dtype(feature.dtype), feature.default_value
        name = "key_" + "".join(c if c.isalnum() or c in "._-" else "_" for c in key)
        if isinstance(feature, FixedLenSequenceFeature):
            if not feature.allow_missing:
                raise ValueError("Unsupported: FixedLenSequenceFeature requires allow_missing to be True.")
            if default is None:
                default = "" if dtype is dtypes.string else np.zeros((), dtype.as_numpy_dtype)
            return call("Reshape", None, tensor=convert.convert_to_tensor(default, dtype, name=name),
                        shape=np.zeros(0, np.int32))
        if default is None:
            return convert.constant([], dtype)
        default = convert.convert_to_tensor(default, dtype, name=name)
        return default if shape.ndims is None or default.shape == shape else call("Reshape", None, tensor=default,
                                                                                  shape=shape.as_list())

    def collected(self, indices, values, sparse_shapes, dense):
        """What the op made, by the keys of the features."""
        found = {k: sparse.SparseTensor(*parts) for k, *parts in zip(self.sparse_keys, indices, values, sparse_shapes)}
        found.update(zip(self.dense_keys, dense))
        return {k: _merged(f, found) if isinstance(f, SparseFeature) else found[k] for k, f in self.features.items()}


def _index_keys(feature):
    return [feature.index_key] if isinstance(feature.index_key, str) else list(feature.index_key)


def _merged(feature, found):
    from .. import sparse as sparse_ops
    sizes = [feature.size] if isinstance(feature.size, (int, np.integer)) else list(feature.size)
    return sparse_ops.sparse_merge([found[k] for k in _index_keys(feature)], found[feature.value_key], sizes,
                                   already_sorted=feature.already_sorted)


def _outputs(op, plan):
    """The outputs as lists, also where there are none."""
    made = results(op, plan)
    return [list(x) if isinstance(x, (list, tuple)) else [x] for x in made]


def parse_example(serialized, features, name=None, example_names=None):
    """A dict of tensors for a vector of serialized Examples."""
    if not features:
        raise ValueError("Missing: features was %s." % (features,))
    wanted = _Wanted(features)
    with ops.name_scope(name, "ParseExample", [serialized, example_names]) as scope:
        op, plan = op_defs.add("ParseExample", scope, dict(
            serialized=serialized, names=convert.convert_to_tensor([] if example_names is None else example_names,
                                                                   dtypes.string),
            sparse_keys=[convert.constant(k) for k in wanted.sparse_keys],
            dense_keys=[convert.constant(k) for k in wanted.dense_keys],
            dense_defaults=wanted.dense_defaults(), sparse_types=wanted.sparse_types, dense_shapes=wanted.dense_shapes()))
        return wanted.collected(*_outputs(op, plan))


def parse_single_example(serialized, features, name=None, example_names=None):
    """A dict of tensors for one serialized Example."""
    if not features:
        raise ValueError("Missing features.")
    wanted = _Wanted(features)
    with ops.name_scope(name, "ParseSingleExample", [serialized, example_names]) as scope:
        serialized = convert.convert_to_tensor(serialized, dtypes.string, name="serialized")
        if serialized.shape.ndims not in (None, 0):
            raise ValueError("Input serialized must be a scalar")
        op, plan = op_defs.add("ParseSingleExample", scope, dict(
            serialized=serialized, dense_defaults=wanted.dense_defaults(), num_sparse=len(wanted.sparse),
            sparse_keys=wanted.sparse_keys,
            dense_keys=wanted.dense_keys, sparse_types=wanted.sparse_types, dense_shapes=wanted.dense_shapes()))
        return wanted.collected(*_outputs(op, plan))


def _sequence_features(context_features, sequence_features):
    if not (context_features or sequence_features):
        raise ValueError("Missing features.")
    context = _Wanted(context_features, (VarLenFeature, SparseFeature, FixedLenFeature))
    return context, _Wanted(sequence_features, (VarLenFeature, SparseFeature, FixedLenSequenceFeature))


def _no_defaults(lists):
    for key, feature in lists.dense.items():
        if feature.default_value is not None:
            raise ValueError("Value feature_list_dense_default[%s] must be None" % key)


def parse_single_sequence_example(serialized, context_features=None, sequence_features=None, example_name=None, name=None):
    """(dict of the context, dict of the sequences) of one serialized SequenceExample."""
    context, lists = _sequence_features(context_features, sequence_features)
    _no_defaults(lists)
    with ops.name_scope(name, "ParseSingleSequenceExample", [serialized]) as scope:
        text = lambda keys: [convert.constant(k) for k in keys]  # noqa: E731
        op, plan = op_defs.add("ParseSingleSequenceExample", scope, dict(
            serialized=serialized, feature_list_dense_missing_assumed_empty=convert.constant(lists.may_miss, dtypes.string),
            context_sparse_keys=text(context.sparse_keys), context_dense_keys=text(context.dense_keys),
            feature_list_sparse_keys=text(lists.sparse_keys), feature_list_dense_keys=text(lists.dense_keys),
            context_dense_defaults=context.dense_defaults(), debug_name=example_name or "",
            context_sparse_types=context.sparse_types,
            feature_list_dense_types=lists.dense_types, context_dense_shapes=context.dense_shapes(),
            feature_list_sparse_types=lists.sparse_types, feature_list_dense_shapes=lists.dense_shapes(sequences=False)))
        made = _outputs(op, plan)
        return context.collected(*made[:4]), lists.collected(*made[4:])


def parse_sequence_example(serialized, context_features=None, sequence_features=None, example_names=None, name=None):
    """(context, sequences, lengths of the dense sequences) of a vector of serialized SequenceExamples."""
    context, lists = _sequence_features(context_features, sequence_features)
    _no_defaults(lists)
    with ops.name_scope(name, "ParseSequenceExample", [serialized]) as scope:
        op, plan = op_defs.add("ParseSequenceExample", scope, dict(
            serialized=serialized, debug_name=convert.convert_to_tensor([] if example_names is None else example_names,
                                                                        dtypes.string),
            feature_list_dense_missing_assumed_empty=lists.may_miss, context_sparse_keys=context.sparse_keys,
            context_dense_keys=context.dense_keys, feature_list_sparse_keys=lists.sparse_keys,
            feature_list_dense_keys=lists.dense_keys,
            Ncontext_sparse=len(context.sparse), Ncontext_dense=len(context.dense), Nfeature_list_sparse=len(lists.sparse),
            Nfeature_list_dense=len(lists.dense), context_dense_defaults=context.dense_defaults(),
            context_sparse_types=context.sparse_types, feature_list_dense_types=lists.dense_types,
            context_dense_shapes=context.dense_shapes(), feature_list_sparse_types=lists.sparse_types,
            feature_list_dense_shapes=lists.dense_shapes(sequences=False)))
        made = _outputs(op, plan)
        lengths = dict(zip(lists.dense_keys, made[8]))
        return context.collected(*made[:4]), lists.collected(*made[4:8]), lengths


# ---- other forms ----

def decode_csv(records, record_defaults, field_delim=",", use_quote_delim=True, name=None, na_value="", select_cols=None):
    """A tensor for each column; a default that is a type or an empty list means: it must be there."""
    if select_cols is not None:
        if any(a >= b for a, b in zip(select_cols, select_cols[1:])):
            raise ValueError("select_cols is not strictly increasing.")
        if select_cols and select_cols[0] < 0:
            raise ValueError("select_cols contains negative values.")
        if len(select_cols) != len(record_defaults):
            raise ValueError("Length of select_cols and record_defaults do not match.")
    defaults = [convert.constant([], d) if isinstance(d, dtypes.DType) else convert.convert_to_tensor(d)
                for d in record_defaults]
    return call("DecodeCSV", name, records=records, record_defaults=defaults, field_delim=field_delim,
                use_quote_delim=use_quote_delim,
                na_value=na_value, select_cols=select_cols or [])


def decode_raw(input_bytes=None, out_type=None, little_endian=True, name=None, bytes=None):  # noqa: A002
    """The bytes of strings as numbers, with one dimension more."""
    if bytes is not None:
        if input_bytes is not None:
            raise ValueError("Cannot specify both 'input_bytes' and 'bytes'")
        input_bytes = bytes
    if input_bytes is None or out_type is None:
        raise ValueError("decode_raw() missing required argument: 'input_bytes' or 'out_type'")
    return call("DecodeRaw", name, bytes=input_bytes, out_type=out_type, little_endian=little_endian)


def decode_compressed(bytes, compression_type="", name=None):  # noqa: A002
    """Decompresses strings; compression_type is "", "ZLIB" or "GZIP"."""
    return call("DecodeCompressed", name, bytes=bytes, compression_type=compression_type)


def decode_json_example(json_examples, name=None):
    """Converts Example messages from JSON to the binary format."""
    return call("DecodeJSONExample", name, json_examples=json_examples)


def parse_tensor(serialized, out_type, name=None):
    """Converts a serialized TensorProto to a tensor of type out_type."""
    return call("ParseTensor", name, serialized=serialized, out_type=out_type)
