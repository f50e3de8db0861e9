"""Means and variances, and what normalizes by them."""

from ..framework import convert, dtypes, op_defs, ops
from ..ops import array, math
from ..ops.math import deprecated

__all__ = ["batch_norm_with_global_normalization", "batch_normalization", "fused_batch_norm", "l2_normalize",
           "local_response_normalization", "lrn", "moments", "normalize_moments", "sufficient_statistics", "weighted_moments"]


def _axes(axes):
    return list(axes) if isinstance(axes, (list, tuple)) else axes


def moments(x, axes, shift=None, name=None, keep_dims=None, keepdims=None):
    """(mean, variance) over some axes.  `shift` is not needed and not used, as in TensorFlow."""
    keep = bool(deprecated(keepdims, "keepdims", keep_dims, "keep_dims"))
    with ops.name_scope(name, "moments", [x, axes]):
        x = convert.convert_to_tensor(x, name="x")
        y = math.cast(x, dtypes.float32) if x.dtype.base_dtype is dtypes.float16 else x
        axes = _axes(axes)
        mean = math.reduce_mean(y, axes, keepdims=True, name="mean")
        variance = math.reduce_mean(math.squared_difference(y, array.stop_gradient(mean)), axes, keepdims=True, name="variance")
        if not keep:
            mean, variance = _squeezed(mean, axes), _squeezed(variance, axes)
        if y is not x:
            return math.cast(mean, x.dtype.base_dtype), math.cast(variance, x.dtype.base_dtype)
        return mean, variance


def _squeezed(t, axes):
    """Without the axes, which are 1 long."""
    if isinstance(axes, ops.Tensor):
        known = convert.constant_value(axes)
        if known is None:
            return math.reduce_sum(t, axes)
        axes = [int(a) for a in known.ravel()]
    axes = [axes] if isinstance(axes, int) else list(axes)
    return array.squeeze(t, [int(a) for a in axes]) if axes else t


def weighted_moments(x, axes, frequency_weights, name=None, keep_dims=None, keepdims=None):
    """Computes the weighted mean and variance of x over some axes, and returns both."""
    keep = bool(deprecated(keepdims, "keepdims", keep_dims, "keep_dims"))
    with ops.name_scope(name, "weighted_moments", [x, frequency_weights, axes]):
        x = convert.convert_to_tensor(x, name="x")
        w = convert.convert_to_tensor(frequency_weights, name="frequency_weights")
        wanted = x.dtype.base_dtype
        y = math.cast(x, dtypes.float32) if wanted is dtypes.float16 else x
        w = math.cast(w, y.dtype.base_dtype)
        axes = _axes(axes)
        total = math.reduce_sum(w + array.zeros_like(y), axes, keepdims=True, name="broadcasted_weights")
        mean = math.reduce_sum(w * y, axes, keepdims=True, name="weighted_input_sum") / total
        variance = math.reduce_sum(w * math.squared_difference(y, mean), axes, keepdims=True, name="weighted_distsq") / total
        if not keep:
            mean, variance = _squeezed(mean, axes), _squeezed(variance, axes)
        return math.cast(mean, wanted), math.cast(variance, wanted)


def sufficient_statistics(x, axes, shift=None, keep_dims=None, name=None, keepdims=None):
    """(number of elements, their sum, sum of their squares, shift): what the moments follow from."""
    keep = bool(deprecated(keepdims, "keepdims", keep_dims, "keep_dims"))
    axes = list(set(_axes(axes)))
    with ops.name_scope(name, "sufficient_statistics", [x, shift]):
        x = convert.convert_to_tensor(x, name="x")
        dims = None if x.shape.ndims is None else [x.shape.as_list()[a] for a in axes]
        if dims is not None and None not in dims:
            count = 1
            for d in dims:
                count *= d
            counts = convert.constant(count, x.dtype.base_dtype, name="count")
        else:
            counts = math.cast(math.reduce_prod(array.gather(array.shape(x), axes)), x.dtype.base_dtype, name="count")
        if shift is not None:
            shift = convert.convert_to_tensor(shift, name="shift")
            sums, squares = x - shift, math.squared_difference(x, shift)
        else:
            sums, squares = x, math.square(x)
        return (counts, math.reduce_sum(sums, axes, keepdims=keep, name="mean_ss"),
                math.reduce_sum(squares, axes, keepdims=keep, name="var_ss"), shift)


def normalize_moments(counts, mean_ss, variance_ss, shift, name=None):
    """Returns mean and variance from the sums that sufficient_statistics computes."""
    with ops.name_scope(name, "normalize", [counts, mean_ss, variance_ss, shift]):
        divisor = math.reciprocal(counts, name="divisor")
        if shift is not None:
            shifted = math.multiply(mean_ss, divisor, name="shifted_mean")
            mean = math.add(shifted, shift, name="mean")
        else:
            shifted = mean = math.multiply(mean_ss, divisor, name="mean")
        variance = math.subtract(math.multiply(variance_ss, divisor), math.square(shifted), name="variance")
    return mean, variance


def batch_normalization(x, mean, variance, offset, scale, variance_epsilon, name=None):
    """Computes (x - mean) / sqrt(variance + variance_epsilon) * scale + offset.

    Args:
        offset: a tensor, or None to add nothing
        scale: a tensor, or None to multiply by nothing
    """
    with ops.name_scope(name, "batchnorm", [x, mean, variance, scale, offset]):
        inv = math.rsqrt(convert.convert_to_tensor(variance) + variance_epsilon)
        if scale is not None:
            inv = inv * scale
        x = convert.convert_to_tensor(x)
        shift = -mean * inv if offset is None else offset - mean * inv
        return x * math.cast(inv, x.dtype.base_dtype) + math.cast(shift, x.dtype.base_dtype)


def fused_batch_norm(x, scale, offset, mean=None, variance=None, epsilon=0.001, data_format="NHWC", is_training=True, name=None,
                     exponential_avg_factor=1.0):
    """(y, mean, variance); in training mean and variance are those of the batch."""
    x = convert.convert_to_tensor(x, name="input")
    scale = convert.convert_to_tensor(scale, name="scale")
    offset = convert.convert_to_tensor(offset, name="offset")
    if is_training and exponential_avg_factor == 1.0 and (mean is not None or variance is not None):
        raise ValueError("Both 'mean' and 'variance' must be None if is_training is True and exponential_avg_factor == 1.0.")
    mean = convert.constant([]) if mean is None else mean
    variance = convert.constant([]) if variance is None else variance
    # Below this the results of other implementations differ too much.
    epsilon = max(epsilon, 1.001e-5)
    more = {} if exponential_avg_factor == 1.0 else {"exponential_avg_factor": exponential_avg_factor}
    y, batch_mean, batch_var = op_defs.call(
        "FusedBatchNormV3", name, x=x, scale=scale, offset=offset, mean=mean, variance=variance, epsilon=epsilon,
        data_format=data_format, is_training=is_training, **more)[:3]
    return y, batch_mean, batch_var


def batch_norm_with_global_normalization(t=None, m=None, v=None, beta=None, gamma=None, variance_epsilon=None,
                                         scale_after_normalization=None, name=None, input=None, mean=None,  # noqa: A002
                                         variance=None):
    """Normalizes a tensor with a given mean and variance; an old form of batch_normalization.

    Args:
        t: the tensor; input is another name
        m: the mean; mean is another name
        v: the variance; variance is another name
        beta: what is added after normalizing
        gamma: what is multiplied by, if scale_after_normalization is True
    """
    t = deprecated(input, "input", t, "t")
    m = deprecated(mean, "mean", m, "m")
    v = deprecated(variance, "variance", v, "v")
    return batch_normalization(t, m, v, beta, gamma if scale_after_normalization else None, variance_epsilon, name)


def l2_normalize(x, axis=None, epsilon=1e-12, name=None, dim=None):
    """x / sqrt(max(sum(x ** 2), epsilon))"""
    axis = deprecated(axis, "axis", dim, "dim")
    with ops.name_scope(name, "l2_normalize", [x]) as name:
        x = convert.convert_to_tensor(x, name="x")
        if x.dtype.is_complex:
            sums = math.reduce_sum(math.real(x * math.conj(x)), axis, keepdims=True)
            inv = math.rsqrt(math.maximum(sums, epsilon))
            return math.multiply(x, math.cast(inv, x.dtype.base_dtype), name=name)
        sums = math.reduce_sum(math.square(x), axis, keepdims=True)
        return math.multiply(x, math.rsqrt(math.maximum(sums, epsilon)), name=name)


def lrn(input, depth_radius=5, bias=1, alpha=1, beta=0.5, name=None):  # noqa: A002 -- tf's argument name
    """Local response normalization: each value by those of its neighbouring channels."""
    return op_defs.call("LRN", name, input=input, depth_radius=depth_radius, bias=bias, alpha=alpha, beta=beta)


local_response_normalization = lrn
