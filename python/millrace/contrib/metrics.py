"""tf.contrib.metrics: the measures of tf.metrics with predictions first, as streaming_...; and sets."""

import inspect

from .. import metrics as _metrics
from ..framework import dtypes
from ..ops import math
from ..ops.math import confusion_matrix  # noqa: F401
from ..ops.weights import as_float, broadcast_weights
from ..sets import set_difference, set_intersection, set_size, set_union  # noqa: F401

__all__ = ["accuracy", "aggregate_metric_map", "aggregate_metrics", "confusion_matrix", "set_difference", "set_intersection",
           "set_size", "set_union"]


def _streaming(name, of):
    """A measure of tf.metrics whose first two arguments are exchanged."""
    parameters = inspect.signature(of).parameters
    order = list(parameters)
    if order[:2] == ["labels", "predictions"]:
        order[:2] = ["predictions", "labels"]

    def f(*args, **kwargs):
        if len(args) > len(order):
            raise TypeError("%s() takes at most %d arguments" % (name, len(order)))
        given = dict(zip(order, args))
        twice = set(given) & set(kwargs)
        if twice:
            raise TypeError("%s() got multiple values for argument %r" % (name, twice.pop()))
        given.update(kwargs)
        if "labels" in order and "labels" not in given:
            raise TypeError("%s() is missing the argument 'labels'" % name)
        return of(**given)
    f.__name__ = f.__qualname__ = name
    f.__doc__ = of.__doc__
    f.__signature__ = inspect.Signature([parameters[n] for n in order])
    return f


for _name in ("accuracy", "auc", "false_negatives", "false_negatives_at_thresholds", "false_positives",
              "false_positives_at_thresholds", "mean", "mean_absolute_error", "mean_cosine_distance", "mean_iou",
              "mean_relative_error", "mean_squared_error", "mean_tensor", "percentage_less", "precision",
              "precision_at_thresholds", "recall", "recall_at_thresholds", "root_mean_squared_error",
              "sensitivity_at_specificity", "sparse_average_precision_at_k", "sparse_precision_at_k", "sparse_recall_at_k",
              "specificity_at_sensitivity", "true_negatives", "true_negatives_at_thresholds", "true_positives",
              "true_positives_at_thresholds"):
    _of = {"percentage_less": "percentage_below", "sparse_recall_at_k": "recall_at_k"}.get(_name, _name)
    globals()["streaming_" + _name] = _streaming("streaming_" + _name, getattr(_metrics, _of))
    __all__.append("streaming_" + _name)


def streaming_recall_at_k(predictions, labels, k, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """Computes how often the label is among the k largest predictions, over all steps."""
    from .. import nn
    hits = math.to_float(nn.in_top_k(predictions, labels, k))
    return _metrics.mean(hits, weights, metrics_collections, updates_collections, name or "recall_at_%d" % k)


def accuracy(predictions, labels, weights=None, name=None):
    """Computes the share of predictions that equal labels, in this batch only."""
    from ..framework import ops
    if not (labels.dtype.is_integer or labels.dtype in (dtypes.bool_, dtypes.string)):
        raise ValueError("Labels should have bool, integer, or string dtype, not %r" % labels.dtype)
    if not labels.dtype.is_compatible_with(predictions.dtype):
        raise ValueError("Dtypes of predictions and labels should match. Given: predictions (%r) and labels (%r)" %
                         (predictions.dtype, labels.dtype))
    with ops.name_scope(name, "accuracy", [predictions, labels]):
        right = math.cast(math.equal(predictions, labels), dtypes.float32)
        if weights is not None:
            weights = broadcast_weights(as_float(weights), right)
            return math.div(math.reduce_sum(right * weights), math.reduce_sum(weights))
        return math.reduce_mean(right)


def aggregate_metrics(*value_update_tuples):
    """([values], [update operations])"""
    if not value_update_tuples:
        raise ValueError("Expected at least one value_tensor/update_op pair")
    values, updates = zip(*value_update_tuples)
    return list(values), list(updates)


def aggregate_metric_map(names_to_tuples):
    """({name: value}, {name: update operation})"""
    return ({n: t[0] for n, t in names_to_tuples.items()}, {n: t[1] for n, t in names_to_tuples.items()})


def __getattr__(name):
    raise AttributeError("module 'tf.contrib.metrics' has no attribute %r" % name)
