"""tf.bitwise: integers as rows of bits."""

from .ops.math import _delayed

bitwise_and, bitwise_or, bitwise_xor = (_delayed(n, o) for n, o in (
    ("bitwise_and", "BitwiseAnd"), ("bitwise_or", "BitwiseOr"), ("bitwise_xor", "BitwiseXor")))
invert, left_shift, right_shift = (_delayed(n, o) for n, o in (
    ("invert", "Invert"), ("left_shift", "LeftShift"), ("right_shift", "RightShift")))
