"""input_layer and linear_model: columns of a batch as one matrix, and weighted sums of them."""

import collections.abc

from ..framework import dtypes, ops
from ..framework.op_defs import call
from ..ops import array, math
from ..ops import variable_scope as vs
from .. import sparse as sparse_ops
from .columns import CategoricalColumn, DenseColumn, FeatureColumn, Features, _EmbeddingLookup


def _checked(feature_columns):
    """A list of columns whose names differ, in the order of the names."""
    if isinstance(feature_columns, FeatureColumn):
        feature_columns = [feature_columns]
    if isinstance(feature_columns, collections.abc.Iterator):
        feature_columns = list(feature_columns)
    if isinstance(feature_columns, collections.abc.Mapping):
        raise ValueError("Expected feature_columns to be iterable, found dict.")
    columns = list(feature_columns)
    for c in columns:
        if not isinstance(c, FeatureColumn):
            raise ValueError("Items of feature_columns must be a _FeatureColumn. Given (type %s): %s." % (type(c), c))
    if not columns:
        raise ValueError("feature_columns must not be empty.")
    names = [c.name for c in columns]
    for name in names:
        if names.count(name) > 1:
            raise ValueError("Duplicate feature column name found for columns: %s. This usually means that these columns refer "
                             "to same "
                             "base feature. Either one must be discarded or a duplicated but renamed item must be inserted in "
                             "features "
                             "dict." % name)
    return sorted(columns, key=lambda c: c.name)


def _weight_collections(given):
    collections_ = list(given or [])
    for key in (ops.GraphKeys.GLOBAL_VARIABLES, ops.GraphKeys.MODEL_VARIABLES):
        if key not in collections_:
            collections_.append(key)
    return collections_


def _elements(shape):
    n = 1
    for d in shape:
        n *= d
    return n


def _flat(column, features, weight_collections, trainable):
    """A dense column as [batch, elements]."""
    if isinstance(column, _EmbeddingLookup):
        tensor = column.dense_tensor(features, weight_collections, trainable)
    else:
        tensor = column.dense_tensor(features)
    return array.reshape(tensor, [array.shape(tensor)[0], _elements(column.variable_shape)])


def input_layer(features, feature_columns, weight_collections=None, trainable=True, cols_to_vars=None,
                cols_to_output_tensors=None):
    """Dense columns side by side, in the order of their names: [batch, elements of all]."""
    columns = _checked(feature_columns)
    for c in columns:
        if not isinstance(c, DenseColumn):
            raise ValueError("Items of feature_columns must be a _DenseColumn. You can wrap a categorical column with an "
                             "embedding_column "
                             "or indicator_column. Given: %s" % (c,))
    features = features if isinstance(features, Features) else Features(features)
    collections_ = _weight_collections(weight_collections)
    made = []
    with vs.variable_scope(None, default_name="input_layer", values=list(features._features.values())):
        for c in columns:
            before = len(ops.get_collection(ops.GraphKeys.GLOBAL_VARIABLES))
            with vs.variable_scope(None, default_name=c.var_scope_name):
                tensor = _flat(c, features, collections_, trainable)
            made.append(tensor)
            if cols_to_vars is not None:
                cols_to_vars[c] = ops.get_collection(ops.GraphKeys.GLOBAL_VARIABLES)[before:]
            if cols_to_output_tensors is not None:
                cols_to_output_tensors[c] = tensor
        return array.concat(made, 1)


class InputLayer:
    """input_layer as an object that keeps its variables from call to call."""

    def __init__(self, feature_columns, weight_collections=None, trainable=True, cols_to_vars=None,
                 name="feature_column_input_layer",
                 create_scope_now=True):
        from ..ops import template
        self._call = template.make_template(name, input_layer, create_scope_now_=create_scope_now,
                                            feature_columns=feature_columns,
                                            weight_collections=weight_collections, trainable=trainable,
                                            cols_to_vars=cols_to_vars)

    def __call__(self, features):
        return self._call(features)


def linear_model(features, feature_columns, units=1, sparse_combiner="sum", weight_collections=None, trainable=True,
                 cols_to_vars=None):
    """Sums of columns times weights that begin at zero, and a bias: [batch, units]."""
    columns = _checked(feature_columns)
    for c in columns:
        if not isinstance(c, (DenseColumn, CategoricalColumn)):
            raise ValueError("Items of feature_columns must be either a _DenseColumn or _CategoricalColumn. Given: %s" % (c,))
    features = features if isinstance(features, Features) else Features(features)
    collections_ = _weight_collections(weight_collections)
    zeros = _zeros()
    with vs.variable_scope(None, default_name="linear_model", values=list(features._features.values())):
        sums = []
        for c in columns:
            before = len(ops.get_collection(ops.GraphKeys.GLOBAL_VARIABLES))
            with vs.variable_scope(None, default_name=c.var_scope_name):
                sums.append(_weighted(c, features, units, sparse_combiner, collections_, trainable, zeros))
            if cols_to_vars is not None:
                cols_to_vars[c] = ops.get_collection(ops.GraphKeys.GLOBAL_VARIABLES)[before:]
        bias = vs.get_variable("bias_weights", shape=[units], initializer=zeros, trainable=trainable, collections=collections_)
        if cols_to_vars is not None:
            cols_to_vars["bias"] = [bias]
        total = math.add_n(sums, name="weighted_sum_no_bias") if len(sums) > 1 else sums[0]
        return call("BiasAdd", "weighted_sum", value=total, bias=bias)


def _zeros():
    from .. import initializers
    return initializers.zeros()


def _two_dimensions(x):
    if x is None or x.shape.ndims == 2:
        return x
    return sparse_ops.sparse_reshape(x, array.stack([x.dense_shape[0], math.reduce_prod(x.dense_shape[1:])]))


def _weighted(column, features, units, combiner, collections_, trainable, zeros):
    def weights(rows):
        return vs.get_variable("weights", shape=(rows, units), dtype=dtypes.float32, initializer=zeros, trainable=trainable,
                               collections=collections_)
    if isinstance(column, CategoricalColumn):
        from .. import nn
        ids, id_weights = (_two_dimensions(x) for x in column.sparse_tensors(features))
        return nn.safe_embedding_lookup_sparse(weights(column.num_buckets), ids, id_weights, combiner=combiner,
                                               name="weighted_sum")
    tensor = _flat(column, features, collections_, trainable)
    return math.matmul(tensor, weights(_elements(column.variable_shape)), name="weighted_sum")
