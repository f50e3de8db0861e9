"""tf.quantization: tensors of small integers that stand for floats."""

from .framework.op_defs import call
from .ops.array import (dequantize, fake_quant_with_min_max_args, fake_quant_with_min_max_args_gradient,
                        fake_quant_with_min_max_vars,
                        fake_quant_with_min_max_vars_gradient, fake_quant_with_min_max_vars_per_channel, quantized_concat)
from .ops.op_functions import fake_quant_with_min_max_vars_per_channel_gradient



def quantize(input, min_range, max_range, T, mode="MIN_COMBINED", round_mode="HALF_AWAY_FROM_ZERO",
             name=None):  # noqa: A002, N803
    """Converts floats to codes of type T that cover the range from min_range to max_range.

    Returns a named tuple: the codes, and the range that was used."""
    return call("QuantizeV2", name, input=input, min_range=min_range, max_range=max_range, T=T, mode=mode,
                round_mode=round_mode)
