"""tf.bitwise: integers as rows of bits."""

from .ops.op_functions import bitwise_and, bitwise_or, bitwise_xor, invert, left_shift, right_shift  # noqa: F401
