"""Penalties on weights: functions of a weight that give a scalar, or None for no penalty."""

import numbers

from ...framework import convert, ops
from ...ops import math
from ... import nn

__all__ = ["apply_regularization", "l1_l2_regularizer", "l1_regularizer", "l2_regularizer", "sum_regularizer"]


def _checked(scale, name="scale"):
    if isinstance(scale, numbers.Integral):
        raise ValueError("%s cannot be an integer: %s" % (name, scale))
    if isinstance(scale, numbers.Real) and scale < 0.:
        raise ValueError("Setting a scale less than 0 on a regularizer: %g" % scale)


def _scaled(scale, scope, default_name, size):
    _checked(scale)
    if isinstance(scale, numbers.Real) and scale == 0.:
        return lambda _: None

    def penalty(weights, name=None):
        with ops.name_scope(scope, default_name, [weights]) as name:
            factor = convert.convert_to_tensor(scale, weights.dtype.base_dtype, name="scale")
            return math.multiply(factor, size(weights), name=name)

    return penalty


def l1_regularizer(scale, scope=None):
    """Returns a function from weights to scale times the sum of their absolute values."""
    return _scaled(scale, scope, "l1_regularizer", lambda w: math.reduce_sum(math.abs(w)))


def l2_regularizer(scale, scope=None):
    """scale * sum(w ** 2) / 2"""
    return _scaled(scale, scope, "l2_regularizer", nn.l2_loss)


def l1_l2_regularizer(scale_l1=1.0, scale_l2=1.0, scope=None):
    """Returns a function from weights to the sum of an L1 and an L2 penalty with these scales."""
    _checked(scale_l1, "scale_l1")
    _checked(scale_l2, "scale_l2")
    scope = scope or "l1_l2_regularizer"
    if scale_l1 == 0.:
        return l2_regularizer(scale_l2, scope)
    if scale_l2 == 0.:
        return l1_regularizer(scale_l1, scope)
    return sum_regularizer([l1_regularizer(scale_l1), l2_regularizer(scale_l2)], scope=scope)


def sum_regularizer(regularizer_list, scope=None):
    """Returns a function from weights to the sum of the given regularizers."""
    regularizers = [r for r in regularizer_list if r is not None]
    if not regularizers:
        return None

    def penalty(weights):
        with ops.name_scope(scope, "sum_regularizer", [weights]) as name:
            parts = [p for p in (r(weights) for r in regularizers) if p is not None]
            return math.add_n(parts, name=name) if len(parts) > 1 else parts[0]

    return penalty


def apply_regularization(regularizer, weights_list=None):
    """The sum of the penalties, which is collected as one loss."""
    if weights_list is None:
        weights_list = ops.get_collection(ops.GraphKeys.WEIGHTS)
    if not weights_list:
        raise ValueError("No weights to regularize.")
    with ops.name_scope("get_regularization_penalty", values=weights_list) as scope:
        penalties = [regularizer(w) for w in weights_list]
        penalties = [p if p is not None else convert.constant(0.0) for p in penalties]
        for p in penalties:
            if p.shape.ndims != 0:
                raise ValueError("regularizer must return a scalar Tensor instead of a Tensor with rank %d." % p.shape.ndims)
        total = math.add_n(penalties, name=scope)
        ops.add_to_collection(ops.GraphKeys.REGULARIZATION_LOSSES, total)
        return total
