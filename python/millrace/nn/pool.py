"""Pooling: the largest or mean value of each window."""

import numpy as np

from ..framework import convert, dtypes, op_defs, ops
from ..ops import array, random
from ..ops.math import deprecated
from .conv import channels_first, padding_attrs, per_dimension, with_space_to_batch

__all__ = ["avg_pool", "avg_pool1d", "avg_pool2d", "avg_pool3d", "avg_pool_v2", "fractional_avg_pool", "fractional_avg_pool_v2",
           "fractional_max_pool", "fractional_max_pool_v2",
           "max_pool", "max_pool1d", "max_pool2d", "max_pool3d", "max_pool_v2", "max_pool_with_argmax",
           "max_pool_with_argmax_v2", "pool"]

_REDUCTION = {"Max": "largest element", "Avg": "mean"}


def _pool(op_type, spatial, name_in_tf, first, default_format):
    """A pooling function; `first` is its input's name, the other name is known too."""
    def f(x, ksize, strides, padding, data_format, name):
        data_format = data_format or default_format
        with ops.name_scope(name, op_type, [x]) as name:
            how = padding_attrs(padding, data_format) if op_type == "MaxPool" else {"padding": padding.upper()}
            return op_defs.call(op_type, name, **{_INPUT[op_type]: convert.convert_to_tensor(x, name="input")},
                                ksize=per_dimension(ksize, spatial, data_format, "ksize"),
                                strides=per_dimension(strides, spatial, data_format, "strides"), data_format=data_format, **how)

    def with_value(value=None, ksize=None, strides=None, padding=None, data_format=default_format, name=None, input=None):
        x = deprecated(input, "input", value, "value")
        if x is None or ksize is None or strides is None or padding is None:
            raise TypeError("%s() needs value, ksize, strides and padding" % name_in_tf)
        return f(x, ksize, strides, padding, data_format, name)

    def with_input(input, ksize, strides, padding, data_format=default_format, name=None):  # noqa: A002
        return f(input, ksize, strides, padding, data_format, name)

    made = with_value if first == "value" else with_input
    made.__name__ = made.__qualname__ = name_in_tf
    made.__doc__ = """Computes the %s of each window, in %d spatial dimensions.

    Args:
        %s: the tensor to pool
        ksize: the size of the window, an int or a list of ints
        strides: the distance between windows, an int or a list of ints
        padding: "SAME" or "VALID"
        data_format: the order of the dimensions, %r by default
    """ % (_REDUCTION[op_type[:3]], spatial, first, default_format)
    return made


_INPUT = {"MaxPool": "input", "AvgPool": "value", "MaxPool3D": "input", "AvgPool3D": "input"}

max_pool = _pool("MaxPool", 2, "max_pool", "value", "NHWC")
avg_pool = _pool("AvgPool", 2, "avg_pool", "value", "NHWC")
max_pool2d = _pool("MaxPool", 2, "max_pool2d", "input", "NHWC")
avg_pool2d = _pool("AvgPool", 2, "avg_pool2d", "value", "NHWC")
max_pool3d = _pool("MaxPool3D", 3, "max_pool3d", "input", "NDHWC")
avg_pool3d = _pool("AvgPool3D", 3, "avg_pool3d", "input", "NDHWC")


def _pool_1d(two, called):
    def f(input, ksize, strides, padding, data_format="NWC", name=None):  # noqa: A002
        with ops.name_scope(name, called, [input]) as name:
            wide = "NCHW" if channels_first(data_format) else "NHWC"
            at = 2 if wide == "NCHW" else 1
            k, s = (per_dimension(v, 1, data_format, n) for v, n in ((ksize, "ksize"), (strides, "strides")))
            out = two(array.expand_dims(input, at), k[:at] + [1] + k[at:], s[:at] + [1] + s[at:], padding, data_format=wide)
            return array.squeeze(out, at)
    f.__name__ = f.__qualname__ = "max_pool1d" if two is max_pool2d else "avg_pool1d"
    f.__doc__ = two.__doc__.replace("in 2 spatial dimensions", "in 1 spatial dimension").replace("NHWC", "NWC")
    return f


max_pool1d, avg_pool1d = _pool_1d(max_pool2d, "MaxPool1d"), _pool_1d(avg_pool2d, "AvgPool1D")


def _any_rank(called, one, two, three):
    def f(input, ksize, strides, padding, data_format=None, name=None):  # noqa: A002
        rank = convert.convert_to_tensor(input).shape.ndims
        n = len(data_format) - 2 if data_format else rank - 2 if rank is not None else 2
        if n not in (1, 2, 3):
            raise ValueError("The input's rank must be 3, 4 or 5, but was %d" % (n + 2))
        chosen, default = {1: (one, "NWC"), 2: (two, "NHWC"), 3: (three, "NDHWC")}[n]
        return chosen(input, ksize, strides, padding, data_format or default, name)
    f.__name__ = f.__qualname__ = called
    f.__doc__ = two.__doc__.replace("in 2 spatial", "in 1 to 3 spatial").replace(
        "'NHWC' by default", "by default 'NWC', 'NHWC' or 'NDHWC'")
    return f


max_pool_v2 = _any_rank("max_pool_v2", max_pool1d, max_pool2d, max_pool3d)
avg_pool_v2 = _any_rank("avg_pool_v2", avg_pool1d, avg_pool2d, avg_pool3d)


def max_pool_with_argmax(input, ksize, strides, padding, data_format="NHWC", Targmax=None, name=None,  # noqa: A002, N803
                         output_dtype=None, include_batch_in_index=False):
    """Returns the largest element of each window and its index in the flattened image."""
    if data_format != "NHWC":
        raise ValueError("Data formats other than 'NHWC' are not yet supported")
    wanted = deprecated(output_dtype, "output_dtype", Targmax, "Targmax") or dtypes.int64
    return op_defs.call("MaxPoolWithArgmax", name, input=input, ksize=per_dimension(ksize, 2, "NHWC", "ksize"),
                        strides=per_dimension(strides, 2, "NHWC", "strides"), padding=padding, Targmax=wanted,
                        include_batch_in_index=include_batch_in_index)


def max_pool_with_argmax_v2(input, ksize, strides, padding, data_format="NHWC", output_dtype=dtypes.int64,  # noqa: A002
                            include_batch_in_index=False, name=None):
    """Returns the largest element of each window and its index in the flattened image."""
    return max_pool_with_argmax(input, ksize, strides, padding, data_format, None, name, output_dtype, include_batch_in_index)


def _fractional(called, op_type):
    def f(value, pooling_ratio, pseudo_random=False, overlapping=False, deterministic=False, seed=0, seed2=0, name=None):
        if seed and not deterministic:
            seeds = dict(zip(("seed", "seed2"), random.get_seed(seed)))
            deterministic = True
        else:
            seeds = {"seed": seed, "seed2": seed2}
        ratio = [1.0, float(pooling_ratio), float(pooling_ratio), 1.0] if isinstance(pooling_ratio, (int, float)) else \
            [1.0] + list(pooling_ratio) + [1.0] if len(pooling_ratio) == 2 else list(pooling_ratio)
        return op_defs.call(op_type, name, value=value, pooling_ratio=ratio, pseudo_random=pseudo_random,
                            overlapping=overlapping, deterministic=deterministic, **seeds)
    f.__name__ = f.__qualname__ = called
    f.__doc__ = """Computes the %s of windows of random sizes.

    So images shrink by a ratio that need not be an integer.

    Args:
        value: a tensor of images [batch, height, width, channels]
        pooling_ratio: the ratio of sizes: a number, one for each of height and width, or one for each dimension
        pseudo_random: whether to choose the windows pseudo-randomly instead of randomly
        overlapping: whether neighbouring windows share their edge
        deterministic: whether every run chooses the same windows

    Returns:
        A named tuple: the result, and the positions of the rows and columns of windows.
    """ % _REDUCTION[op_type[10:13]]
    return f


fractional_max_pool = _fractional("fractional_max_pool", "FractionalMaxPool")
fractional_avg_pool = _fractional("fractional_avg_pool", "FractionalAvgPool")


def _fractional_v2(f):
    def g(value, pooling_ratio, pseudo_random=False, overlapping=False, seed=0, name=None):
        return f(value, pooling_ratio, pseudo_random, overlapping, seed=seed, name=name)
    g.__name__ = g.__qualname__ = f.__name__ + "_v2"
    g.__doc__ = f.__doc__.replace("        deterministic: whether every run chooses the same windows\n",
                                  "        seed: a seed other than 0 makes every run choose the same windows\n")
    return g


fractional_max_pool_v2, fractional_avg_pool_v2 = _fractional_v2(fractional_max_pool), _fractional_v2(fractional_avg_pool)


def pool(input, window_shape, pooling_type, padding, dilation_rate=None, strides=None, name=None, data_format=None,
         dilations=None):
    """Pools in as many dimensions as the window has; dilations leave holes in the window."""
    with ops.name_scope(name, "%s_pool" % pooling_type.lower(), [input]) as scope:
        x = convert.convert_to_tensor(input, name="input")
        n = len(window_shape)
        if not 1 <= n <= 3:
            raise ValueError("It is required that 1 <= num_spatial_dims <= 3.")
        if pooling_type not in ("MAX", "AVG"):
            raise ValueError("pooling_type must be MAX or AVG, not %r" % pooling_type)
        rate = _numbers(deprecated(dilations, "dilations", dilation_rate, "dilation_rate"), n)
        strides = _numbers(strides, n)
        if any(s > 1 for s in strides) and any(r > 1 for r in rate):
            raise ValueError("strides > 1 not supported in conjunction with dilation_rate > 1")
        if padding == "SAME" and any(w > s for w, s in zip(window_shape, strides)) and any(r > 1 for r in rate):
            raise ValueError("pooling with SAME padding is not implemented for dilation_rate > 1")
        is_max = pooling_type == "MAX"
        one, two, three = (max_pool1d, max_pool2d, max_pool3d) if is_max else (avg_pool1d, avg_pool2d, avg_pool3d)
        f, default = {1: (one, "NWC"), 2: (two, "NHWC"), 3: (three, "NDHWC")}[n]
        fmt = data_format or default
        plain = all(r == 1 for r in rate)
        return with_space_to_batch(
            x, rate, padding, lambda y, _, pad: f(y, list(window_shape), strides, pad, fmt, scope if plain else None),
            filter_shape=np.array(window_shape), data_format=data_format)


def _numbers(value, n):
    return [1] * n if value is None else [int(value)] * n if isinstance(value, (int, np.integer)) else [int(v) for v in value]
