"""tf.math: the arithmetic of tf."""

from . import lazy as _lazy

__getattr__ = _lazy.selection(
    __name__, "abs accumulate_n acos acosh add add_n angle argmax argmin asin asinh atan atan2 atanh bessel_i0e bessel_i1e "
              "betainc "
    "bincount ceil confusion_matrix conj cos cosh count_nonzero cross cumprod cumsum digamma div_no_nan divide equal erf erfc "
    "exp "
    "expm1 floor floordiv floormod greater greater_equal igamma igammac imag in_top_k invert_permutation is_finite is_inf "
    "is_nan "
    "is_non_decreasing is_strictly_increasing l2_normalize lbeta less less_equal lgamma log log1p log_sigmoid log_softmax "
    "logical_and logical_not logical_or logical_xor maximum minimum mod multiply multiply_no_nan negative not_equal polygamma "
    "pow "
    "real reciprocal reduce_all reduce_any reduce_logsumexp reduce_max reduce_mean reduce_min reduce_prod reduce_sum rint "
    "round "
    "rsqrt scalar_mul segment_max segment_mean segment_min segment_prod segment_sum sigmoid sign sin sinh softmax softplus "
    "softsign "
    "sqrt square squared_difference subtract tan tanh top_k truediv unsorted_segment_max unsorted_segment_mean "
    "unsorted_segment_min "
    "unsorted_segment_prod unsorted_segment_sqrt_n unsorted_segment_sum xdivy xlogy zero_fraction zeta",
    {"divide_no_nan": "div_no_nan"})


def reduce_variance(input_tensor, axis=None, keepdims=False, name=None):
    """Computes the variance over some axes or all."""
    from .framework import convert, ops
    from .ops import math
    with ops.name_scope(name or "reduce_variance"):
        x = convert.convert_to_tensor(input_tensor)
        return math.reduce_mean(math.squared_difference(x, math.reduce_mean(x, axis, keepdims=True)), axis, keepdims=keepdims)


def reduce_std(input_tensor, axis=None, keepdims=False, name=None):
    """Computes the standard deviation over some axes or all."""
    from .framework import ops
    from .ops import math
    with ops.name_scope(name or "reduce_std"):
        return math.sqrt(reduce_variance(input_tensor, axis, keepdims))


def polyval(coeffs, x, name=None):
    """Computes a polynomial; coeffs start with the highest power."""
    from .framework import convert, ops
    with ops.name_scope(name, "polyval", list(coeffs) + [x]):
        x = convert.convert_to_tensor(x, name="x")
        total = None
        for c in coeffs:
            total = c if total is None else c + total * x
        return convert.convert_to_tensor(0, x.dtype) if total is None else convert.convert_to_tensor(total)
