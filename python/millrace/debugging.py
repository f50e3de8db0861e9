"""tf.debugging: checks of values, shapes and types."""

from . import lazy as _lazy

__getattr__ = _lazy.selection(
    __name__, "assert_equal assert_greater assert_greater_equal assert_integer assert_less assert_less_equal assert_near "
    "assert_negative assert_non_negative assert_non_positive assert_none_equal assert_positive assert_proper_iterable "
    "assert_rank "
    "assert_rank_at_least assert_rank_in assert_same_float_dtype assert_scalar assert_type check_numerics is_finite is_inf "
    "is_nan "
    "is_non_decreasing is_numeric_tensor is_strictly_increasing", {"Assert": "Assert"})


def assert_all_finite(t=None, msg=None, name=None, x=None, message=None):
    """Returns the tensor with a check that it has no NaN or infinity; t and msg are old names of x and message."""
    from .ops.check import verify_tensor_all_finite
    return verify_tensor_all_finite(t, msg, name, x, message)
