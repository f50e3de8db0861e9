"""Initializers by the number of a layer's inputs and outputs."""

import math as pymath

from ...framework import dtypes
from ...ops import random

__all__ = ["variance_scaling_initializer", "xavier_initializer", "xavier_initializer_conv2d"]


def xavier_initializer(uniform=True, seed=None, dtype=dtypes.float32):
    """Keeps the scale of gradients about the same in all layers."""
    return variance_scaling_initializer(factor=1.0, mode="FAN_AVG", uniform=uniform, seed=seed, dtype=dtype)


xavier_initializer_conv2d = xavier_initializer


def variance_scaling_initializer(factor=2.0, mode="FAN_IN", uniform=False, seed=None, dtype=dtypes.float32):
    """A spread of factor / n, n being the number of inputs, outputs or their mean."""
    if not dtypes.as_dtype(dtype).is_floating:
        raise TypeError("Cannot create initializer for non-floating point type.")
    if mode not in ("FAN_IN", "FAN_OUT", "FAN_AVG"):
        raise TypeError("Unknown mode %s [FAN_IN, FAN_OUT, FAN_AVG]" % mode)

    def initializer(shape, dtype=dtype, partition_info=None):
        if not dtypes.as_dtype(dtype).is_floating:
            raise TypeError("Cannot create initializer for non-floating point type.")
        dims = [float(d) for d in (shape if partition_info is None else partition_info.full_shape)]
        if dims:
            fan_in, fan_out = dims[-2] if len(dims) > 1 else dims[-1], dims[-1]
        else:
            fan_in = fan_out = 1.0
        for d in dims[:-2]:
            fan_in, fan_out = fan_in * d, fan_out * d
        n = {"FAN_IN": fan_in, "FAN_OUT": fan_out, "FAN_AVG": (fan_in + fan_out) / 2.0}[mode]
        if uniform:
            limit = pymath.sqrt(3.0 * factor / n)
            return random.random_uniform(shape, -limit, limit, dtype, seed=seed)
        # Cutting the tails off takes about that much of the variance.
        return random.truncated_normal(shape, 0.0, pymath.sqrt(1.3 * factor / n), dtype, seed=seed)

    return initializer
