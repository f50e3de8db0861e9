"""tf.metrics: measures over many batches.

Each function makes local variables that add up what the batches give, and returns (value, update_op): running update_op takes a
batch in and gives the measure so far, value only reads.  The variables are in LOCAL_VARIABLES and METRIC_VARIABLES, which
tf.local_variables_initializer() sets to zero.
"""

import numpy as np

from .framework import convert, dtypes, ops
from .framework.op_defs import raw
from .framework.sparse import SparseTensor
from .ops import array, check, math, state
from .ops import variable_scope as vs
from .ops.variables import Variable
from . import sets
from .ops.weights import as_float, broadcast_weights, remove_squeezable_dimensions, squeezed_weights

__all__ = ["accuracy", "auc", "average_precision_at_k", "false_negatives", "false_negatives_at_thresholds", "false_positives",
           "false_positives_at_thresholds", "mean", "mean_absolute_error", "mean_cosine_distance", "mean_iou",
           "mean_per_class_accuracy", "mean_relative_error", "mean_squared_error", "mean_tensor", "percentage_below",
           "precision", "precision_at_k", "precision_at_thresholds", "precision_at_top_k", "recall", "recall_at_k",
           "recall_at_thresholds", "recall_at_top_k", "root_mean_squared_error", "sensitivity_at_specificity",
           "sparse_average_precision_at_k", "sparse_precision_at_k", "specificity_at_sensitivity", "true_negatives",
           "true_negatives_at_thresholds", "true_positives", "true_positives_at_thresholds"]

_EPSILON = 1e-7


def metric_variable(shape, dtype, validate_shape=True, name=None):
    """A variable that a measure adds up in."""
    return Variable(lambda: array.zeros(shape, dtype), trainable=False, validate_shape=validate_shape, name=name,
                    collections=[ops.GraphKeys.LOCAL_VARIABLES, ops.GraphKeys.METRIC_VARIABLES])


def _collected(value, update, metrics_collections, updates_collections):
    if metrics_collections:
        ops.add_to_collections(metrics_collections, value)
    if updates_collections:
        ops.add_to_collections(updates_collections, update)
    return value, update


def _matched(predictions, labels, weights):
    """Without last dimensions of 1 that not all of them have."""
    predictions = convert.convert_to_tensor(predictions)
    if labels is not None:
        labels, predictions = remove_squeezable_dimensions(labels, predictions)
        predictions.shape.assert_is_compatible_with(labels.shape)
    return predictions, labels, squeezed_weights(weights, predictions)


# ---- means ----

def mean(values, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """Computes the weighted mean of values over all steps.

    Args:
        values: what to average
        weights: a tensor that broadcasts to values; None is 1
        metrics_collections: collections that the value is added to
        updates_collections: collections that the update is added to
        name: the name of the variable scope

    Returns:
        The value, and the operation that updates it with the values of this step and gives the new value.
    """
    with vs.variable_scope(name, "mean", [values, weights]):
        values = math.to_float(values)
        total = metric_variable([], dtypes.float32, name="total")
        count = metric_variable([], dtypes.float32, name="count")
        if weights is None:
            number = math.to_float(array.size(values))
        else:
            values, _, weights = _matched(values, None, weights)
            weights = broadcast_weights(as_float(weights), values)
            values = math.multiply(values, weights)
            number = math.reduce_sum(weights)
        new_total = state.assign_add(total, math.reduce_sum(values))
        with ops.control_dependencies([values]):
            new_count = state.assign_add(count, number)
        return _collected(math.div_no_nan(total, count, name="value"), math.div_no_nan(new_total, new_count, name="update_op"),
                          metrics_collections, updates_collections)


def mean_tensor(values, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """The mean of tensors, element by element."""
    with vs.variable_scope(name, "mean", [values, weights]):
        values = math.to_float(values)
        total = metric_variable(values.shape, dtypes.float32, name="total_tensor")
        count = metric_variable(values.shape, dtypes.float32, name="count_tensor")
        number = array.ones_like(values)
        if weights is not None:
            values, _, weights = _matched(values, None, weights)
            weights = broadcast_weights(as_float(weights), values)
            values, number = math.multiply(values, weights), math.multiply(number, weights)
        new_total = state.assign_add(total, values)
        with ops.control_dependencies([values]):
            new_count = state.assign_add(count, number)
        return _collected(math.div_no_nan(total, count, name="value"), math.div_no_nan(new_total, new_count, name="update_op"),
                          metrics_collections, updates_collections)


def accuracy(labels, predictions, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """Computes the share of predictions that equal labels, over all steps."""
    predictions, labels, weights = _matched(predictions, labels, weights)
    if labels.dtype != predictions.dtype:
        predictions = math.cast(predictions, labels.dtype)
    return mean(math.to_float(math.equal(predictions, labels)), weights, metrics_collections, updates_collections,
                name or "accuracy")


def mean_absolute_error(labels, predictions, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """Computes the mean of |predictions - labels| over all steps; see mean for the other arguments and the result."""
    predictions, labels, weights = _matched(predictions, labels, weights)
    return mean(math.abs(predictions - labels), weights, metrics_collections, updates_collections,
                name or "mean_absolute_error")


def mean_squared_error(labels, predictions, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """Computes the mean of (predictions - labels) squared over all steps; see mean for the other arguments and the
    result."""
    predictions, labels, weights = _matched(predictions, labels, weights)
    return mean(math.squared_difference(labels, predictions), weights, metrics_collections, updates_collections,
                name or "mean_squared_error")


def root_mean_squared_error(labels, predictions, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """Computes the square root of the mean squared error over all steps; see mean for the other arguments and the
    result."""
    value, update = mean_squared_error(labels, predictions, weights, None, None, name or "root_mean_squared_error")
    return _collected(math.sqrt(value), math.sqrt(update), metrics_collections, updates_collections)


def mean_relative_error(labels, predictions, normalizer, weights=None, metrics_collections=None, updates_collections=None,
                        name=None):
    """Absolute errors divided by the normalizer; where that is 0 the error counts as 0."""
    predictions, labels, weights = _matched(predictions, labels, weights)
    predictions, normalizer = remove_squeezable_dimensions(predictions, normalizer)
    predictions.shape.assert_is_compatible_with(normalizer.shape)
    errors = array.where(math.equal(normalizer, 0.0), array.zeros_like(labels),
                         math.divide(math.abs(labels - predictions), normalizer))
    return mean(errors, weights, metrics_collections, updates_collections, name or "mean_relative_error")


def mean_cosine_distance(labels, predictions, dim, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """Computes the mean cosine distance along dimension dim over all steps; see mean for the other arguments and
    the result.

    Labels and predictions must have length 1 along dim."""
    predictions, labels, weights = _matched(predictions, labels, weights)
    product = math.reduce_sum(math.multiply(predictions, labels), axis=[dim], keepdims=True)
    value, update = mean(product, weights, None, None, name or "mean_cosine_distance")
    return _collected(math.subtract(1.0, value), math.subtract(1.0, update), metrics_collections, updates_collections)


def percentage_below(values, threshold, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """Computes the share of values below a threshold over all steps; see mean for the other arguments and the
    result."""
    return mean(math.to_float(math.less(values, threshold)), weights, metrics_collections, updates_collections,
                name or "percentage_below_threshold")


# ---- by class ----

def _confusion(labels, predictions, num_classes, weights):
    """The matrix of counts [label, prediction] so far: a variable, and the operation that adds a batch."""
    total = metric_variable([num_classes, num_classes], dtypes.float64, name="total_confusion_matrix")

    def flat(x, dtype):
        x = math.cast(x, dtype)
        return array.reshape(x, [-1]) if x.shape.ndims is None or x.shape.ndims > 1 else x

    predictions, labels = flat(predictions, dtypes.int64), flat(labels, dtypes.int64)
    weights = None if weights is None else flat(weights, dtypes.float64)
    now = math.confusion_matrix(labels, predictions, num_classes, weights=weights, dtype=dtypes.float64)
    return total, state.assign_add(total, now)


def mean_iou(labels, predictions, num_classes, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """The mean over classes of true positives / (all that are of the class or were said to be)."""
    with vs.variable_scope(name, "mean_iou", [predictions, labels, weights]):
        predictions, labels = convert.convert_to_tensor(predictions), convert.convert_to_tensor(labels)
        predictions.shape.assert_is_compatible_with(labels.shape)
        total, update = _confusion(labels, predictions, num_classes, weights)
        rows = math.to_float(math.reduce_sum(total, 0))
        columns = math.to_float(math.reduce_sum(total, 1))
        hits = math.to_float(math.diag_part(total))
        union = rows + columns - hits
        present = math.reduce_sum(math.cast(math.not_equal(union, 0), dtypes.float32))
        union = array.where(math.greater(union, 0), union, array.ones_like(union))
        ious = math.divide(hits, union)
        value = array.where(math.greater(present, 0), math.divide(math.reduce_sum(ious, name="mean_iou"), present),
                            convert.constant(0.0))
        return _collected(value, update, metrics_collections, updates_collections)


def mean_per_class_accuracy(labels, predictions, num_classes, weights=None, metrics_collections=None, updates_collections=None,
                            name=None):
    """Computes the mean of the accuracies of all classes over all steps; see mean for the other arguments and the
    result."""
    with vs.variable_scope(name, "mean_accuracy", [predictions, labels, weights]):
        labels = math.cast(convert.convert_to_tensor(labels), dtypes.int64)
        predictions = math.cast(convert.convert_to_tensor(predictions), dtypes.int64)
        labels, predictions = (array.reshape(x, [-1]) for x in (labels, predictions))
        total = metric_variable([num_classes], dtypes.float32, name="total")
        count = metric_variable([num_classes], dtypes.float32, name="count")
        ones = array.ones([array.size(labels)], dtypes.float32)
        hits = math.cast(math.equal(predictions, labels), dtypes.float32)
        if weights is not None:
            weights = array.reshape(as_float(weights), [-1])
            hits, ones = hits * weights, ones * weights
        new_total = state.scatter_add(total, labels, hits)
        new_count = state.scatter_add(count, labels, ones)
        value = math.reduce_mean(math.div_no_nan(total, count), name="mean_accuracy")
        update = math.div_no_nan(new_total, new_count, name="update_op")
        return _collected(value, update, metrics_collections, updates_collections)


# ---- counts of right and wrong ----

def _count(values, weights, metrics_collections, updates_collections):
    """How many are true, or the sum of their weights."""
    count = metric_variable([], dtypes.float32, name="count")
    values = math.to_float(values)
    if weights is not None:
        weights = squeezed_weights(as_float(weights), values)
        values = math.multiply(values, broadcast_weights(weights, values))
    value = array.identity(count)
    update = state.assign_add(count, math.reduce_sum(values))
    return _collected(value, update, metrics_collections, updates_collections)


def _counter(name_in_tf, default_name, label, prediction):
    def f(labels, predictions, weights=None, metrics_collections=None, updates_collections=None, name=None):
        with vs.variable_scope(name, default_name, [predictions, labels, weights]):
            predictions, labels, weights = _matched(math.cast(predictions, dtypes.bool_), math.cast(labels, dtypes.bool_),
                                                    weights)
            both = math.logical_and(math.equal(labels, label), math.equal(predictions, prediction))
            return _count(both, weights, metrics_collections, updates_collections)
    f.__name__ = f.__qualname__ = name_in_tf
    f.__doc__ = "How many predictions are %s where the label is %s." % (prediction, label)
    return f


true_positives = _counter("true_positives", "true_positives", True, True)
true_negatives = _counter("true_negatives", "true_negatives", False, False)
false_positives = _counter("false_positives", "false_positives", False, True)
false_negatives = _counter("false_negatives", "false_negatives", True, False)


def _share(labels, predictions, weights, collections, updates, name, default_name, other):
    """True positives among themselves and what `other` counts."""
    with vs.variable_scope(name, default_name, [predictions, labels, weights]):
        predictions, labels, weights = _matched(math.cast(predictions, dtypes.bool_), math.cast(labels, dtypes.bool_), weights)
        hits, more_hits = true_positives(labels, predictions, weights)
        wrong, more_wrong = other(labels, predictions, weights)
        return _collected(math.div_no_nan(hits, hits + wrong, name="value"),
                          math.div_no_nan(more_hits, more_hits + more_wrong, name="update_op"), collections, updates)


def precision(labels, predictions, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """Computes the share of positive predictions that are right, over all steps."""
    return _share(labels, predictions, weights, metrics_collections, updates_collections, name, "precision", false_positives)


def recall(labels, predictions, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """Computes the share of positive labels that were predicted, over all steps."""
    return _share(labels, predictions, weights, metrics_collections, updates_collections, name, "recall", false_negatives)


# ---- at thresholds ----

def _at_thresholds(labels, predictions, thresholds, weights, includes=("tp", "fn", "tn", "fp")):
    """({which: counts for each threshold}, {which: the same after the batch}); predictions above a threshold are positive."""
    predictions = math.to_float(predictions)
    with ops.control_dependencies([f(predictions, limit, message="predictions must be in [0, 1]") for f, limit in (
            (check.assert_greater_equal, 0.0), (check.assert_less_equal, 1.0))]):
        predictions, labels, weights = _matched(array.identity(predictions), math.cast(labels, dtypes.bool_), weights)
    n = len(thresholds)
    flat_predictions = array.reshape(predictions, [1, -1])
    flat_labels = array.reshape(labels, [1, -1])
    above = math.greater(flat_predictions, convert.constant([[t] for t in thresholds], dtypes.float32))
    is_so = array.tile(flat_labels, [n, 1])
    if weights is not None:
        weights = array.reshape(broadcast_weights(as_float(weights), predictions), [1, -1])
    found = {"tp": ("true_positives", is_so, above), "fn": ("false_negatives", is_so, math.logical_not(above)),
             "tn": ("true_negatives", math.logical_not(is_so), math.logical_not(above)),
             "fp": ("false_positives", math.logical_not(is_so), above)}
    values, updates = {}, {}
    for which in includes:
        name, a, b = found[which]
        total = metric_variable([n], dtypes.float32, name=name)
        both = math.to_float(math.logical_and(a, b))
        values[which] = convert.convert_to_tensor(total)
        updates[which] = state.assign_add(total, math.reduce_sum(both if weights is None else both * weights, 1))
    return values, updates


def _thresholds(n):
    """n thresholds over [0, 1], whose ends are outside so that 0 and 1 are on a side."""
    return [0.0 - _EPSILON] + [(i + 1) * 1.0 / (n - 1) for i in range(n - 2)] + [1.0 + _EPSILON]


def auc(labels, predictions, weights=None, num_thresholds=200, metrics_collections=None, updates_collections=None, curve="ROC",
        name=None, summation_method="trapezoidal", thresholds=None):
    """The area under a curve over thresholds."""
    with vs.variable_scope(name, "auc", [labels, predictions, weights]):
        if curve not in ("ROC", "PR"):
            raise ValueError("curve must be either ROC or PR, %s unknown" % curve)
        if thresholds is not None:
            if any(not 0.0 <= t <= 1.0 for t in thresholds):
                raise ValueError("All thresholds must be in [0, 1].")
            thresholds = [0.0 - _EPSILON] + sorted(thresholds) + [1.0 + _EPSILON]
        else:
            thresholds = _thresholds(num_thresholds)
        values, updates = _at_thresholds(labels, predictions, thresholds, weights)
        with ops.name_scope("value"):
            value = _area(values, curve, summation_method, len(thresholds))
        with ops.name_scope("update_op"):
            update = _area(updates, curve, summation_method, len(thresholds))
        return _collected(value, update, metrics_collections, updates_collections)


def _area(counts, curve, method, n):
    tp, fn, tn, fp = (counts[k] for k in ("tp", "fn", "tn", "fp"))
    if curve == "PR" and method == "careful_interpolation":
        return _interpolated_pr_area(tp, fp, fn, n)
    sensitivity = math.divide(tp + _EPSILON, tp + fn + _EPSILON)
    if curve == "ROC":
        x, y = math.divide(fp, fp + tn + _EPSILON), sensitivity
    else:
        x, y = sensitivity, math.divide(tp + _EPSILON, tp + fp + _EPSILON)
    if method in ("trapezoidal", "careful_interpolation"):
        heights = (y[:n - 1] + y[1:]) / 2.0
    elif method == "minoring":
        heights = math.minimum(y[:n - 1], y[1:])
    elif method == "majoring":
        heights = math.maximum(y[:n - 1], y[1:])
    else:
        raise ValueError("Invalid summation_method: %s" % method)
    return math.reduce_sum(math.multiply(x[:n - 1] - x[1:], heights))


def _interpolated_pr_area(tp, fp, fn, n):
    """Between two thresholds true positives grow in proportion to all positives, precision does not: its integral is known."""
    dtp = tp[:n - 1] - tp[1:]
    p = tp + fp
    slope = math.div_no_nan(dtp, math.maximum(p[:n - 1] - p[1:], 0.0))
    intercept = tp[1:] - math.multiply(slope, p[1:])
    safe = array.where(math.logical_and(p[:n - 1] > 0, p[1:] > 0), math.div_no_nan(p[:n - 1], math.maximum(p[1:], 0.0)),
                       array.ones_like(p[1:]))
    return math.reduce_sum(math.div_no_nan(slope * (dtp + intercept * math.log(safe)), math.maximum(tp[1:] + fn[1:], 0.0)),
                           name="interpolate_pr_auc")


def _share_at_thresholds(default_name, other):
    def f(labels, predictions, thresholds, weights=None, metrics_collections=None, updates_collections=None, name=None):
        with vs.variable_scope(name, default_name, [predictions, labels, weights]):
            values, updates = _at_thresholds(labels, predictions, thresholds, weights, ("tp", other))

            def share(counts, name):
                return math.divide(counts["tp"], _EPSILON + counts["tp"] + counts[other], name=name)
            suffix = default_name.split("_")[0]
            return _collected(share(values, suffix + "_value"), share(updates, suffix + "_update_op"), metrics_collections,
                              updates_collections)
    f.__name__ = f.__qualname__ = default_name
    f.__doc__ = """Computes the %s at each of the thresholds, over all steps.

    See mean for the other arguments and the result.""" % default_name.split("_")[0]
    return f


precision_at_thresholds = _share_at_thresholds("precision_at_thresholds", "fp")
recall_at_thresholds = _share_at_thresholds("recall_at_thresholds", "fn")


def _counts_at_thresholds(name_in_tf, which):
    def f(labels, predictions, thresholds, weights=None, metrics_collections=None, updates_collections=None, name=None):
        with vs.variable_scope(name, name_in_tf[:-len("_at_thresholds")], [predictions, labels, weights]):
            values, updates = _at_thresholds(labels, predictions, thresholds, weights, (which,))
            return _collected(values[which], updates[which], metrics_collections, updates_collections)
    f.__name__ = f.__qualname__ = name_in_tf
    f.__doc__ = """Counts the %s at each of the thresholds, over all steps.

    See mean for the other arguments and the result.""" % name_in_tf[:-len("_at_thresholds")].replace("_", " ")
    return f


true_positives_at_thresholds = _counts_at_thresholds("true_positives_at_thresholds", "tp")
true_negatives_at_thresholds = _counts_at_thresholds("true_negatives_at_thresholds", "tn")
false_positives_at_thresholds = _counts_at_thresholds("false_positives_at_thresholds", "fp")
false_negatives_at_thresholds = _counts_at_thresholds("false_negatives_at_thresholds", "fn")


def sensitivity_at_specificity(labels, predictions, specificity, weights=None, num_thresholds=200, metrics_collections=None,
                               updates_collections=None, name=None):
    """The share of positives found at the threshold where this share of negatives is left out."""
    if specificity < 0 or specificity > 1:
        raise ValueError("`specificity` must be in the range [0, 1].")
    with vs.variable_scope(name, "sensitivity_at_specificity", [predictions, labels, weights]):
        values, updates = _at_thresholds(labels, predictions, _thresholds(num_thresholds), weights)

        def at(c, name):
            specificities = math.divide(c["tn"], c["tn"] + c["fp"] + _EPSILON)
            place = math.cast(math.argmin(math.abs(specificities - specificity), 0), dtypes.int32)
            return math.divide(c["tp"][place], c["tp"][place] + c["fn"][place] + _EPSILON, name=name)
        return _collected(at(values, "value"), at(updates, "update_op"), metrics_collections, updates_collections)


def specificity_at_sensitivity(labels, predictions, sensitivity, weights=None, num_thresholds=200, metrics_collections=None,
                               updates_collections=None, name=None):
    """Computes the specificity at the threshold with this sensitivity, over all steps.

    num_thresholds is the number of thresholds tried; see mean for the other arguments and the result."""
    if sensitivity < 0 or sensitivity > 1:
        raise ValueError("`sensitivity` must be in the range [0, 1].")
    with vs.variable_scope(name, "specificity_at_sensitivity", [predictions, labels, weights]):
        values, updates = _at_thresholds(labels, predictions, _thresholds(num_thresholds), weights)

        def at(c, name):
            sensitivities = math.divide(c["tp"], c["tp"] + c["fn"] + _EPSILON)
            # The highest threshold with the nearest sensitivity leaves out most negatives.
            nearest = math.reduce_min(math.abs(sensitivities - sensitivity))
            fits = math.equal(math.abs(sensitivities - sensitivity), nearest)
            numbers = math.range(array.size(sensitivities))
            place = math.reduce_max(array.where(fits, numbers, array.zeros_like(numbers)))
            return math.divide(c["tn"][place], c["tn"][place] + c["fp"][place] + _EPSILON, name=name)
        return _collected(at(values, "value"), at(updates, "update_op"), metrics_collections, updates_collections)


# ---- among the best k ----

def _labels_as_sets(labels, rank):
    """Labels [..., how many]; one label an example may come without the last dimension."""
    if isinstance(labels, SparseTensor):
        return SparseTensor(labels.indices, math.cast(labels.values, dtypes.int64), labels.dense_shape)
    labels = math.cast(convert.convert_to_tensor(labels), dtypes.int64)
    return array.expand_dims(labels, -1) if rank is not None and labels.shape.ndims == rank - 1 else labels


def _only(ids, class_id):
    """Of sets, what is this class, as sparse sets."""
    if class_id is None:
        return ids
    if isinstance(ids, SparseTensor):
        at = array.reshape(array.where(math.equal(ids.values, class_id)), [-1])
        return SparseTensor(array.gather(ids.indices, at), array.gather(ids.values, at), ids.dense_shape)
    at = array.where(math.equal(ids, math.cast(class_id, ids.dtype.base_dtype)))
    return SparseTensor(at, array.gather_nd(ids, at), array.shape(ids, out_type=dtypes.int64))


def _at_k(labels, predictions_idx, k, class_id, weights, collections, updates_collections, what):
    """precision or recall of the k classes predictions_idx, streaming."""
    labels = _labels_as_sets(labels, predictions_idx.shape.ndims)
    predictions_idx = math.to_int64(predictions_idx)
    ids, wanted = _only(predictions_idx, class_id), _only(labels, class_id)
    hits = math.to_double(sets.set_size(sets.set_intersection(ids, wanted)))
    missed = math.to_double(sets.set_size(sets.set_difference(ids, wanted, aminusb=what == "precision")))
    if weights is not None:
        weights = math.to_double(weights)
        hits = hits * broadcast_weights(weights, hits)
        missed = missed * broadcast_weights(weights, missed)
    place = "_class%d" % class_id if class_id is not None else ""
    other = "false_positive" if what == "precision" else "false_negative"
    total = metric_variable([], dtypes.float64, name="true_positive_at_%s%s" % (k, place))
    wrong = metric_variable([], dtypes.float64, name="%s_at_%s%s" % (other, k, place))
    new_total = state.assign_add(total, math.reduce_sum(hits))
    new_wrong = state.assign_add(wrong, math.reduce_sum(missed))
    return _collected(math.divide(total, math.add(total, wrong), name=what),
                      math.divide(new_total, math.add(new_total, new_wrong), name="update"), collections, updates_collections)


def _k_name(name, k, class_id):
    return "%s_at_%d_class%d" % (name, k, class_id) if class_id is not None else "%s_at_%d" % (name, k)


def recall_at_k(labels, predictions, k, class_id=None, weights=None, metrics_collections=None, updates_collections=None,
                name=None):
    """Computes the share of labels that are among the k largest predictions, over all steps."""
    with ops.name_scope(name, _k_name("recall", k, class_id), [predictions, labels, weights]):
        _, best = raw.top_kv2(predictions, k)
        return _at_k(labels, best, k, class_id, weights, metrics_collections, updates_collections, "recall")


def precision_at_k(labels, predictions, k, class_id=None, weights=None, metrics_collections=None, updates_collections=None,
                   name=None):
    """Computes the share of the k largest predictions that are labels, over all steps."""
    with ops.name_scope(name, _k_name("precision", k, class_id), [predictions, labels, weights]):
        _, best = raw.top_kv2(predictions, k)
        return _at_k(labels, best, k, class_id, weights, metrics_collections, updates_collections, "precision")


def recall_at_top_k(labels, predictions_idx, k=None, class_id=None, weights=None, metrics_collections=None,
                    updates_collections=None, name=None):
    """Computes the share of labels that are among the top k predictions, over all steps.

    Args:
        labels: the classes of each sample
        predictions_idx: the indices of the top k classes
        k: only used for the name
        class_id: count only this class

    See mean for the other arguments and the result.
    """
    with ops.name_scope(name, "recall_at_%s" % ("top_k" if k is None else k), [predictions_idx, labels, weights]):
        best = convert.convert_to_tensor(predictions_idx)
        return _at_k(labels, best, k or "top_k", class_id, weights, metrics_collections, updates_collections, "recall")


def precision_at_top_k(labels, predictions_idx, k=None, class_id=None, weights=None, metrics_collections=None,
                       updates_collections=None, name=None):
    """Computes the share of the top k predictions that are labels, over all steps.

    Args:
        labels: the classes of each sample
        predictions_idx: the indices of the top k classes
        k: only used for the name
        class_id: count only this class

    See mean for the other arguments and the result.
    """
    with ops.name_scope(name, "precision_at_%s" % ("top_k" if k is None else k), [predictions_idx, labels, weights]):
        best = convert.convert_to_tensor(predictions_idx)
        return _at_k(labels, best, k or "top_k", class_id, weights, metrics_collections, updates_collections, "precision")


def sparse_precision_at_k(labels, predictions, k, class_id=None, weights=None, metrics_collections=None,
                          updates_collections=None, name=None):
    """Computes the share of the top k predictions that are labels; an old name of precision_at_k."""
    return precision_at_k(labels, predictions, k, class_id, weights, metrics_collections, updates_collections, name)


def _average_precision(labels, best, k):
    """For each example: the mean of the precisions at the positions of labels."""
    if isinstance(labels, SparseTensor):
        dense = raw.sparse_to_dense(labels.indices, labels.dense_shape, labels.values, convert.constant(-1, dtypes.int64))
        number = raw.set_size(labels.indices, labels.values, labels.dense_shape)
    else:
        dense = labels
        number = raw.set_size(*raw.dense_to_dense_set_operation(labels, labels, "intersection"))
    hit = math.reduce_any(math.equal(array.expand_dims(best, -1), array.expand_dims(dense, -2)), -1)
    hit = math.to_double(hit)
    hits_so_far = math.cumsum(hit, axis=-1)
    places = convert.constant(np.arange(1, k + 1, dtype=np.float64))
    total = math.reduce_sum(hit * hits_so_far / places, -1)
    return math.div_no_nan(total, math.to_double(math.minimum(number, k)))


def average_precision_at_k(labels, predictions, k, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """Computes the mean of the average precisions of the top k predictions, over all steps.

    See mean for the other arguments and the result."""
    if k < 1:
        raise ValueError("Invalid k=%s." % k)
    with ops.name_scope(name, "average_precision_at_%s" % k, [predictions, labels, weights]):
        _, best = raw.top_kv2(predictions, k)
        values = _average_precision(_labels_as_sets(labels, best.shape.ndims), math.to_int64(best), k)
        if weights is not None:
            weights = broadcast_weights(math.to_double(weights), values)
            values = values * weights
            number = math.reduce_sum(weights)
        else:
            number = math.to_double(array.size(values))
        with ops.name_scope("max"):
            most = metric_variable([], dtypes.float64, name="max")
            new_most = state.assign_add(most, number)
        with ops.name_scope("total"):
            total = metric_variable([], dtypes.float64, name="total")
            new_total = state.assign_add(total, math.reduce_sum(values))
        return _collected(math.div_no_nan(total, most, name="mean"), math.div_no_nan(new_total, new_most, name="update"),
                          metrics_collections, updates_collections)


def sparse_average_precision_at_k(labels, predictions, k, weights=None, metrics_collections=None, updates_collections=None,
                                  name=None):
    """Computes the mean of the average precisions; an old name of average_precision_at_k."""
    return average_precision_at_k(labels, predictions, k, weights, metrics_collections, updates_collections, name)
