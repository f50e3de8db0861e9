"""tf.losses: losses of a batch as one number each, collected under GraphKeys.LOSSES.

All take weights (a scalar, or fitting the losses) and a Reduction that says how the weighted losses become a number.
"""

from .framework import convert, dtypes, ops
from .ops import array, math
from .ops.weights import as_float, assert_broadcastable, remove_squeezable_dimensions, squeezed_weights
from . import nn

__all__ = ["Reduction", "absolute_difference", "add_loss", "compute_weighted_loss", "cosine_distance", "get_losses",
           "get_regularization_loss", "get_regularization_losses", "get_total_loss", "hinge_loss", "huber_loss", "log_loss",
           "mean_pairwise_squared_error", "mean_squared_error", "sigmoid_cross_entropy", "softmax_cross_entropy",
           "sparse_softmax_cross_entropy"]

_LOSSES = ops.GraphKeys.LOSSES


class Reduction:
    """How weighted losses are combined."""

    NONE = "none"
    SUM = "weighted_sum"
    SUM_OVER_BATCH_SIZE = "weighted_sum_over_batch_size"
    MEAN = "weighted_mean"
    SUM_BY_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"
    SUM_OVER_NONZERO_WEIGHTS = SUM_BY_NONZERO_WEIGHTS

    @classmethod
    def all(cls):
        """Returns all kinds of reduction."""
        return (cls.NONE, cls.SUM, cls.MEAN, cls.SUM_OVER_BATCH_SIZE, cls.SUM_OVER_NONZERO_WEIGHTS, cls.SUM_BY_NONZERO_WEIGHTS)

    @classmethod
    def validate(cls, key):
        """Raises ValueError unless key is a kind of reduction."""
        if key not in cls.all():
            raise ValueError("Invalid Reduction Key %s." % key)


_BY_NONZERO = Reduction.SUM_BY_NONZERO_WEIGHTS


# ---- the collection ----

def add_loss(loss, loss_collection=_LOSSES):
    """Adds a loss to the collection of losses."""
    if loss_collection:
        ops.add_to_collection(loss_collection, loss)


def get_losses(scope=None, loss_collection=_LOSSES):
    """Returns the losses of the collection; scope keeps only those whose name matches it."""
    return ops.get_collection(loss_collection, scope)


def get_regularization_losses(scope=None):
    """Returns the regularization losses; scope keeps only those whose name matches it."""
    return ops.get_collection(ops.GraphKeys.REGULARIZATION_LOSSES, scope)


def get_regularization_loss(scope=None, name="total_regularization_loss"):
    """Returns the sum of the regularization losses, or 0 if there is none."""
    losses = get_regularization_losses(scope)
    return math.add_n(losses, name=name) if losses else convert.constant(0.0)


def get_total_loss(add_regularization_losses=True, name="total_loss", scope=None):
    """Returns the sum of all losses, with the regularization losses unless told otherwise."""
    losses = get_losses(scope=scope)
    if add_regularization_losses:
        losses += get_regularization_losses(scope=scope)
    return math.add_n(losses, name=name)


# ---- weights and reduction ----

def _num_present(losses, weights, per_batch=False):
    """How many losses have a weight other than 0, altogether or a row each."""
    present = array.where(math.equal(weights, 0.0), array.zeros_like(weights), array.ones_like(weights))
    present = math.multiply(present, array.ones_like(losses))
    if per_batch:
        return math.reduce_sum(present, math.range(1, array.rank(present)), keepdims=True, name="num_present")
    return math.reduce_sum(present, name="num_present")


def compute_weighted_loss(losses, weights=1.0, scope=None, loss_collection=_LOSSES, reduction=_BY_NONZERO):
    """Computes a weighted sum or mean of losses, and adds it to the collection of losses.

    Args:
        losses: the loss of each element
        weights: a number, or a tensor that broadcasts to losses
        scope: the name scope
        loss_collection: the collection that the result is added to, or None
        reduction: how to combine the losses, one of tf.losses.Reduction
    """
    Reduction.validate(reduction)
    with ops.name_scope(scope, "weighted_loss", [losses, weights]):
        losses = convert.convert_to_tensor(losses)
        with ops.control_dependencies([assert_broadcastable(weights, losses)]):
            input_dtype = losses.dtype.base_dtype
            losses, weights = as_float(losses), as_float(weights)
            losses = math.multiply(losses, weights)
            loss = _reduced(losses, weights, reduction)
            loss = math.cast(loss, input_dtype)
            add_loss(loss, loss_collection)
            return loss


def _reduced(losses, weights, reduction):
    if reduction == Reduction.NONE:
        return losses
    loss = math.reduce_sum(losses)
    if reduction == Reduction.SUM:
        return loss
    if reduction == Reduction.MEAN:
        n = math.reduce_sum(array.ones_like(losses) * weights)
    elif reduction == Reduction.SUM_OVER_BATCH_SIZE:
        n = math.cast(array.size(losses, name="num_elements"), losses.dtype.base_dtype)
    else:
        n = _num_present(losses, weights)
    return math.div_no_nan(loss, n, name="value")  # nothing that counts gives 0


def _pair(labels, predictions, labels_name="labels", predictions_name="predictions"):
    if labels is None:
        raise ValueError("%s must not be None." % labels_name)
    if predictions is None:
        raise ValueError("%s must not be None." % predictions_name)


# ---- losses ----

def _floats(labels, predictions):
    predictions, labels = math.to_float(predictions), math.to_float(labels)
    predictions.shape.assert_is_compatible_with(labels.shape)
    return labels, predictions


def absolute_difference(labels, predictions, weights=1.0, scope=None, loss_collection=_LOSSES, reduction=_BY_NONZERO):
    """Computes the weighted mean of |predictions - labels|; see compute_weighted_loss for the other arguments."""
    _pair(labels, predictions)
    with ops.name_scope(scope, "absolute_difference", [predictions, labels, weights]) as scope:
        labels, predictions = _floats(labels, predictions)
        return compute_weighted_loss(math.abs(predictions - labels), weights, scope, loss_collection, reduction)


def mean_squared_error(labels, predictions, weights=1.0, scope=None, loss_collection=_LOSSES, reduction=_BY_NONZERO):
    """Computes the weighted mean of (predictions - labels) squared; see compute_weighted_loss for the other
    arguments."""
    _pair(labels, predictions)
    with ops.name_scope(scope, "mean_squared_error", [predictions, labels, weights]) as scope:
        labels, predictions = _floats(labels, predictions)
        return compute_weighted_loss(math.squared_difference(predictions, labels), weights, scope, loss_collection, reduction)


def cosine_distance(labels, predictions, axis=None, weights=1.0, scope=None, loss_collection=_LOSSES, reduction=_BY_NONZERO,
                    dim=None):
    """1 - the product of vectors along an axis, which are of length 1 already."""
    axis = math.deprecated(axis, "axis", dim, "dim")
    if axis is None:
        raise ValueError("You must specify 'axis'.")
    _pair(labels, predictions)
    with ops.name_scope(scope, "cosine_distance_loss", [predictions, labels, weights]) as scope:
        labels, predictions = _floats(labels, predictions)
        losses = 1 - math.reduce_sum(math.multiply(predictions, labels), axis=[axis], keepdims=True)
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def hinge_loss(labels, logits, weights=1.0, scope=None, loss_collection=_LOSSES, reduction=_BY_NONZERO):
    """Labels are 0 and 1."""
    _pair(labels, logits, predictions_name="logits")
    with ops.name_scope(scope, "hinge_loss", [logits, labels, weights]) as scope:
        labels, logits = _floats(labels, logits)
        signs = math.subtract(2 * labels, array.ones_like(labels))
        losses = nn.relu(math.subtract(array.ones_like(labels), math.multiply(signs, logits)))
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def huber_loss(labels, predictions, weights=1.0, delta=1.0, scope=None, loss_collection=_LOSSES, reduction=_BY_NONZERO):
    """Squares of small errors, and lines for those above delta."""
    _pair(labels, predictions)
    with ops.name_scope(scope, "huber_loss", [predictions, labels, weights]) as scope:
        labels, predictions = _floats(labels, predictions)
        error = math.abs(math.subtract(predictions, labels))
        quadratic = math.minimum(error, delta)
        linear = math.subtract(error, quadratic)
        losses = math.add(math.multiply(convert.constant(0.5), math.multiply(quadratic, quadratic)),
                          math.multiply(convert.convert_to_tensor(delta, dtypes.float32), linear))
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def log_loss(labels, predictions, weights=1.0, epsilon=1e-7, scope=None, loss_collection=_LOSSES, reduction=_BY_NONZERO):
    """Computes the weighted mean cross entropy of labels and probabilities.

    epsilon avoids log(0); see compute_weighted_loss for the other arguments."""
    _pair(labels, predictions)
    with ops.name_scope(scope, "log_loss", [predictions, labels, weights]) as scope:
        labels, predictions = _floats(labels, predictions)
        losses = -math.multiply(labels, math.log(predictions + epsilon)) - math.multiply(
            1 - labels, math.log(1 - predictions + epsilon))
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def mean_pairwise_squared_error(labels, predictions, weights=1.0, scope=None, loss_collection=_LOSSES):
    """Of the differences between pairs of elements in an example, how much they differ from those of the labels."""
    _pair(labels, predictions)
    with ops.name_scope(scope, "mean_pairwise_squared_error", [predictions, labels, weights]) as scope:
        weights, labels = math.to_float(weights), math.to_float(labels)
        with ops.control_dependencies([assert_broadcastable(weights, labels)]):
            predictions = math.to_float(predictions)
            predictions.shape.assert_is_compatible_with(labels.shape)
            diffs = math.subtract(predictions, labels)
            axis = math.range(1, array.rank(diffs))
            squares = math.reduce_sum(math.square(diffs), axis=axis, keepdims=True)
            present = _num_present(diffs, weights, per_batch=True)
            term1 = 2.0 * math.div_no_nan(squares, math.maximum(present - 1, 0), name="value")
            sums = math.reduce_sum(diffs, axis=axis, keepdims=True)
            term2 = 2.0 * math.div_no_nan(math.square(sums), math.maximum(math.multiply(present, present - 1), 0), name="value")
            weighted = math.multiply(term1 - term2, weights)
            loss = math.reduce_sum(weighted)
            mean = array.where(math.reduce_sum(present) > 0, loss, array.zeros_like(loss), name="value")
            add_loss(mean, loss_collection)
            return mean


def sigmoid_cross_entropy(multi_class_labels, logits, weights=1.0, label_smoothing=0, scope=None, loss_collection=_LOSSES,
                          reduction=_BY_NONZERO):
    """Computes the weighted mean cross entropy of labels 0 or 1 and logits, for classes that do not exclude each
    other.

    label_smoothing moves labels towards 0.5; see compute_weighted_loss for the other arguments."""
    _pair(multi_class_labels, logits, "multi_class_labels", "logits")
    with ops.name_scope(scope, "sigmoid_cross_entropy_loss", [logits, multi_class_labels, weights]) as scope:
        logits = convert.convert_to_tensor(logits)
        labels = math.cast(multi_class_labels, logits.dtype.base_dtype)
        logits.shape.assert_is_compatible_with(labels.shape)
        if label_smoothing > 0:
            labels = labels * (1 - label_smoothing) + 0.5 * label_smoothing
        losses = nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits, name="xentropy")
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def softmax_cross_entropy(onehot_labels, logits, weights=1.0, label_smoothing=0, scope=None, loss_collection=_LOSSES,
                          reduction=_BY_NONZERO):
    """Computes the weighted mean cross entropy of one-hot labels and logits.

    label_smoothing moves labels towards 1 / classes; see compute_weighted_loss for the other arguments."""
    _pair(onehot_labels, logits, "onehot_labels", "logits")
    with ops.name_scope(scope, "softmax_cross_entropy_loss", [logits, onehot_labels, weights]) as scope:
        logits = convert.convert_to_tensor(logits)
        labels = math.cast(onehot_labels, logits.dtype.base_dtype)
        logits.shape.assert_is_compatible_with(labels.shape)
        if label_smoothing > 0:
            classes = math.cast(array.shape(labels)[-1], logits.dtype.base_dtype)
            labels = labels * (1.0 - label_smoothing) + label_smoothing / classes
        labels = array.stop_gradient(labels, name="labels_stop_gradient")
        losses = nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits, name="xentropy")
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def sparse_softmax_cross_entropy(labels, logits, weights=1.0, scope=None, loss_collection=_LOSSES, reduction=_BY_NONZERO):
    """Computes the weighted mean cross entropy of integer labels and logits.

    See compute_weighted_loss for the other arguments."""
    _pair(labels, logits, predictions_name="logits")
    with ops.name_scope(scope, "sparse_softmax_cross_entropy_loss", [logits, labels, weights]) as scope:
        labels, logits = remove_squeezable_dimensions(labels, logits, expected_rank_diff=1)
        weights = squeezed_weights(weights, labels, expand=False)
        losses = nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits, name="xentropy")
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)
