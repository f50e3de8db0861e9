"""Weights of values: a weight is a scalar, or has the rank of the values with each dimension theirs or 1."""

from ..framework import convert, dtypes, ops
from . import array, control_flow, math

_MESSAGE = "weights can not be broadcast to values."


def _check_static(weights, values):
    """True when the shapes are known to fit, None when they are not known; a ValueError when they do not fit."""
    w, v = weights.shape, values.shape
    if w.ndims == 0:
        return True
    if w.ndims is None or v.ndims is None:
        return None
    if w.ndims != v.ndims:
        raise ValueError("%s values.rank=%s. weights.rank=%s. values.shape=%s. weights.shape=%s." %
                         (_MESSAGE, v.ndims, w.ndims, v, w))
    known = True
    for have, wanted in zip(w.as_list(), v.as_list()):
        if have is None or wanted is None and have != 1:
            known = None
        elif have not in (1, wanted):
            raise ValueError("%s Mismatch at dim. values.shape=%s. weights.shape=%s." % (_MESSAGE, v, w))
    return known


def _fits(weights, values):
    """Whether the shapes fit, as a tensor."""
    def same_rank():
        w, v = array.shape(weights), array.shape(values)
        return math.reduce_all(math.logical_or(math.equal(w, v), math.equal(w, 1)))
    ranks = math.equal(array.rank(weights), array.rank(values))
    fit = control_flow.cond(ranks, same_rank, lambda: convert.constant(False))
    return math.logical_or(math.equal(array.rank(weights), 0), fit)


def assert_broadcastable(weights, values):
    """An operation that fails unless the weights fit the values; what is known now is checked now."""
    with ops.name_scope(None, "assert_broadcastable", [weights, values]) as scope:
        weights = convert.convert_to_tensor(weights, name="weights")
        values = convert.convert_to_tensor(values, name="values")
        if _check_static(weights, values):
            return control_flow.no_op(name="static_checks_determined_all_ok")
        return control_flow.Assert(_fits(weights, values), [_MESSAGE, "weights.shape=", array.shape(weights), "values.shape=",
                                                            array.shape(values)], name=scope)


def broadcast_weights(weights, values):
    """The weights in the shape of the values."""
    with ops.name_scope(None, "broadcast_weights", [weights, values]) as scope:
        values = convert.convert_to_tensor(values, name="values")
        weights = convert.convert_to_tensor(weights, dtype=values.dtype.base_dtype, name="weights")
        if weights.shape.is_fully_defined() and values.shape.is_fully_defined() and weights.shape == values.shape:
            return weights
        with ops.control_dependencies([assert_broadcastable(weights, values)]):
            return math.multiply(weights, array.ones_like(values), name=scope)


def remove_squeezable_dimensions(labels, predictions, expected_rank_diff=0, name=None):
    """(labels, predictions) without a last dimension of 1 that only one of them has."""
    with ops.name_scope(name, "remove_squeezable_dimensions", [labels, predictions]):
        predictions, labels = convert.convert_to_tensor(predictions), convert.convert_to_tensor(labels)
        if predictions.shape.ndims is not None and labels.shape.ndims is not None:
            difference = predictions.shape.ndims - labels.shape.ndims
            if difference == expected_rank_diff + 1 and predictions.shape[-1].is_compatible_with(1):
                predictions = array.squeeze(predictions, [-1])
            elif difference == expected_rank_diff - 1 and labels.shape[-1].is_compatible_with(1):
                labels = array.squeeze(labels, [-1])
            return labels, predictions
        difference = array.rank(predictions) - array.rank(labels)
        if predictions.shape.ndims is None or predictions.shape[-1].is_compatible_with(1):
            predictions = control_flow.cond(math.equal(expected_rank_diff + 1, difference),
                                            lambda: array.squeeze(predictions, [-1]), lambda: predictions)
        if labels.shape.ndims is None or labels.shape[-1].is_compatible_with(1):
            labels = control_flow.cond(math.equal(expected_rank_diff - 1, difference),
                                       lambda: array.squeeze(labels, [-1]), lambda: labels)
        return labels, predictions


def squeezed_weights(weights, values, expand=True):
    """Weights without a last dimension of 1 that the values do not have; with `expand` also with one that they lack."""
    if weights is None:
        return None
    weights = convert.convert_to_tensor(weights)
    if weights.shape.ndims is None or weights.shape.ndims == 0 or values.shape.ndims is None:
        return weights
    difference = weights.shape.ndims - values.shape.ndims
    if difference == 1 and weights.shape[-1].is_compatible_with(1):
        return array.squeeze(weights, [-1])
    if difference == -1 and expand:
        return array.expand_dims(weights, [-1])
    return weights


def as_float(x):
    """Converts a tensor to float32."""
    return math.cast(x, dtypes.float32)
