"""tf.contrib.losses: the losses of tf.losses with predictions first."""

from .. import losses as _losses
from ..framework import ops
from .arg_scope import add_arg_scope

__all__ = ["absolute_difference", "add_loss", "compute_weighted_loss", "cosine_distance", "get_losses",
           "get_regularization_losses",
           "get_total_loss", "hinge_loss", "log_loss", "mean_pairwise_squared_error", "mean_squared_error",
           "sigmoid_cross_entropy", "softmax_cross_entropy", "sparse_softmax_cross_entropy"]


@add_arg_scope
def add_loss(loss, loss_collection=ops.GraphKeys.LOSSES):
    """Adds a loss to the collection of losses."""
    _losses.add_loss(loss, loss_collection)


get_losses, get_regularization_losses = _losses.get_losses, _losses.get_regularization_losses
get_total_loss = _losses.get_total_loss


def compute_weighted_loss(losses, weights=1.0, scope=None):
    """Computes the weighted mean of losses; see tf.losses.compute_weighted_loss."""
    return _losses.compute_weighted_loss(losses, weights, scope)


def absolute_difference(predictions, labels=None, weights=1.0, scope=None):
    """Computes the weighted mean of |predictions - labels|; see tf.losses."""
    return _losses.absolute_difference(labels, predictions, weights, scope or "absolute_difference")


def mean_squared_error(predictions, labels=None, weights=1.0, scope=None):
    """Computes the weighted mean of (predictions - labels) squared; see tf.losses."""
    return _losses.mean_squared_error(labels, predictions, weights, scope or "mean_squared_error")


def mean_pairwise_squared_error(predictions, labels=None, weights=1.0, scope=None):
    """Computes the mean squared difference of the differences of pairs of elements; see tf.losses."""
    return _losses.mean_pairwise_squared_error(labels, predictions, weights, scope)


def log_loss(predictions, labels=None, weights=1.0, epsilon=1e-7, scope=None):
    """Computes the weighted mean cross entropy of labels and probabilities; see tf.losses."""
    return _losses.log_loss(labels, predictions, weights, epsilon, scope)


def hinge_loss(logits, labels=None, scope=None):
    """The losses themselves, one each: they are neither summed nor collected."""
    return _losses.hinge_loss(labels, logits, scope=scope, loss_collection=None, reduction=_losses.Reduction.NONE)


def cosine_distance(predictions, labels=None, axis=None, weights=1.0, scope=None, dim=None):
    """Computes the weighted mean of 1 - cosine along an axis; see tf.losses."""
    return _losses.cosine_distance(labels, predictions, axis=dim if axis is None else axis, weights=weights, scope=scope)


def sigmoid_cross_entropy(logits, multi_class_labels, weights=1.0, label_smoothing=0, scope=None):
    """Computes the weighted mean cross entropy of labels 0 or 1 and logits; see tf.losses."""
    return _losses.sigmoid_cross_entropy(multi_class_labels, logits, weights, label_smoothing, scope)


def softmax_cross_entropy(logits, onehot_labels, weights=1.0, label_smoothing=0, scope=None):
    """Computes the weighted mean cross entropy of one-hot labels and logits; see tf.losses."""
    return _losses.softmax_cross_entropy(onehot_labels, logits, weights, label_smoothing, scope)


def sparse_softmax_cross_entropy(logits, labels, weights=1.0, scope=None):
    """Computes the weighted mean cross entropy of integer labels and logits; see tf.losses."""
    return _losses.sparse_softmax_cross_entropy(labels, logits, weights, scope)
