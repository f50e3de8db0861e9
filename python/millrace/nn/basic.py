"""Sums and choices of neural networks: biases, dropout, l2_loss, the best k."""

import numbers

import numpy as np

from ..framework import convert, dtypes, op_defs, ops, shapes
from ..ops import array, math, random

__all__ = ["bias_add", "bias_add_v1", "dropout", "in_top_k", "l2_loss", "nth_element", "top_k", "xw_plus_b", "xw_plus_b_v1"]


def bias_add(value, bias, data_format=None, name=None):
    """Adds a vector to the channels: the last dimension, or the second with "NC..."."""
    if data_format is not None:
        if data_format not in ("NHWC", "NCHW", "NDHWC", "NCDHW", "NWC", "NCW", "N..C", "NC.."):
            raise ValueError("data_format must be of the form `N...C` or `NC...`")
        data_format = "NCHW" if data_format.startswith("NC") else "NHWC"
    with ops.name_scope(name, "BiasAdd", [value, bias]) as name:
        value = convert.convert_to_tensor(value, name="input")
        bias = convert.convert_to_tensor(bias, value.dtype.base_dtype, name="bias")
        return op_defs.call("BiasAdd", name, value=value, bias=bias, data_format=data_format)


def bias_add_v1(value, bias, name=None):
    """Adds a vector to the last dimension of value, with the op of graphs made before data formats existed."""
    with ops.name_scope(name, "BiasAddV1", [value, bias]) as name:
        return op_defs.call("BiasAddV1", name, value=value, bias=bias)


def xw_plus_b(x, weights, biases, name=None):
    """Computes x * weights + biases."""
    with ops.name_scope(name, "xw_plus_b", [x, weights, biases]) as name:
        return bias_add(math.matmul(x, weights), biases, name=name)


def xw_plus_b_v1(x, weights, biases, name=None):
    """Computes x * weights + biases with the old op BiasAddV1."""
    with ops.name_scope(name, "xw_plus_b_v1", [x, weights, biases]) as name:
        return bias_add_v1(math.matmul(x, weights), biases, name=name)


def l2_loss(t, name=None):
    """sum(t ** 2) / 2"""
    return op_defs.call("L2Loss", name, t=t)


# ---- dropout ----

def dropout(x, keep_prob=None, noise_shape=None, seed=None, name=None, rate=None):
    """Sets elements to 0 by chance, and scales the others so that the expected sum is the same."""
    if rate is not None and keep_prob is not None:
        raise ValueError("Cannot specify both 'keep_prob' and 'rate'")
    if rate is None:
        if keep_prob is None:
            raise ValueError("You must provide a rate to dropout.")
        rate = 1 - keep_prob
    return _dropout(x, rate, noise_shape, seed, name)


def dropout_v2(x, rate, noise_shape=None, seed=None, name=None):
    """Sets each element to 0 with probability rate, and scales the others by 1 / (1 - rate).

    Args:
        x: a floating-point tensor
        rate: the fraction of elements to drop
        noise_shape: the shape of the random decisions, broadcast to that of x; None decides for each element
        seed: the random seed"""
    return _dropout(x, rate, noise_shape, seed, name)


def _dropout(x, rate, noise_shape, seed, name):
    with ops.name_scope(name, "dropout", [x]) as name:
        x = convert.convert_to_tensor(x, name="x")
        if not x.dtype.is_floating:
            raise ValueError("x has to be a floating point tensor since it's going to be scaled. Got a %s tensor instead." %
                             x.dtype)
        if isinstance(rate, (numbers.Real, np.number)):
            if not 0 <= rate < 1:
                raise ValueError("rate must be a scalar tensor or a float in the range [0, 1), got %g" % rate)
            if rate == 0:
                return x
        rate = convert.convert_to_tensor(rate, x.dtype.base_dtype, name="rate")
        rate.shape.assert_has_rank(0)
        if convert.constant_value(rate) == 0:
            return x
        chance = random.random_uniform(_noise_shape(x, noise_shape), seed=seed, dtype=x.dtype.base_dtype)
        scale = 1 / (1 - rate)
        out = x * scale * math.cast(chance >= rate, x.dtype.base_dtype)
        out.set_shape(x.shape)
        return out


def _noise_shape(x, noise_shape):
    """The shape of the random values; None in it means x's dimension."""
    if noise_shape is None:
        return array.shape(x)
    if isinstance(noise_shape, ops.Tensor):
        return noise_shape
    try:
        given = shapes.as_shape(noise_shape)
    except (TypeError, ValueError):
        return noise_shape
    if given.ndims is None or given.ndims != x.shape.ndims:
        return noise_shape
    dims = [own if asked is None else asked for asked, own in zip(given.as_list(), x.shape.as_list())]
    if None not in dims:
        return dims
    now = array.shape(x)
    return [now[i] if d is None else d for i, d in enumerate(dims)]


# ---- the best ----

def top_k(input, k=1, sorted=True, name=None):  # noqa: A002 -- tf's argument names are Python's here and below
    """Finds the k largest elements of each row of the last dimension.

    Returns a named tuple of the values and their indices, the largest first."""
    return op_defs.call("TopKV2", name, input=input, k=k, sorted=sorted)


def in_top_k(predictions, targets, k, name=None):
    """Whether the target of each row is among its k largest predictions."""
    with ops.name_scope(name, "in_top_k") as name:
        return op_defs.call("InTopKV2", name, predictions=predictions, targets=targets, k=k)


def nth_element(input, n, reverse=False, name=None):  # noqa: A002
    """Finds the element that would be at index n of each row if it were sorted; reverse sorts in descending order."""
    return op_defs.call("NthElement", name, input=input, n=convert.convert_to_tensor(n, dtypes.int32), reverse=reverse)
