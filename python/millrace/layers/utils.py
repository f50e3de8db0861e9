"""Arguments of layers in their several forms, and the sizes that follow from them."""

from ..ops.control_flow import smart_cond, smart_constant_value as constant_value  # noqa: F401 -- names of TensorFlow's module


def normalize_tuple(value, n, name):
    """n integers: one is meant for all."""
    if isinstance(value, int):
        return (value,) * n
    try:
        values = tuple(value)
    except TypeError:
        raise ValueError("The `%s` argument must be a tuple of %d integers. Received: %s" % (name, n, value)) from None
    if len(values) != n:
        raise ValueError("The `%s` argument must be a tuple of %d integers. Received: %s" % (name, n, value))
    try:
        return tuple(int(v) for v in values)
    except (TypeError, ValueError):
        raise ValueError("The `%s` argument must be a tuple of %d integers. Received: %s" % (name, n, value)) from None


def normalize_data_format(value):
    """Returns "channels_last" or "channels_first" in lower case; other values are a ValueError."""
    data_format = (value or "channels_last").lower()
    if data_format not in ("channels_first", "channels_last"):
        raise ValueError('The `data_format` argument must be one of "channels_first", "channels_last". Received: %s' % value)
    return data_format


def normalize_padding(value, causal=False):
    """Returns "valid" or "same" (or "causal" if allowed) in lower case; other values are a ValueError."""
    padding = value.lower()
    if padding not in ("valid", "same") + (("causal",) if causal else ()):
        raise ValueError("The `padding` argument must be one of %s. Received: %s" %
                         ('"valid", "same", "causal"' if causal else '"valid", "same"', padding))
    return padding


def convert_data_format(data_format, ndim):
    """The name that ops have for it."""
    names = {3: ("NWC", "NCW"), 4: ("NHWC", "NCHW"), 5: ("NDHWC", "NCDHW")}
    if ndim not in names:
        raise ValueError("Input rank not supported: %s" % ndim)
    return names[ndim][data_format == "channels_first"]


def conv_output_length(input_length, filter_size, padding, stride, dilation=1):
    """Returns the length of the output of a convolution; None if the input's is not known."""
    if input_length is None:
        return None
    size = filter_size + (filter_size - 1) * (dilation - 1)
    length = {"same": input_length, "causal": input_length, "valid": input_length - size + 1,
              "full": input_length + size - 1}[padding]
    return (length + stride - 1) // stride


def conv_input_length(output_length, filter_size, padding, stride):
    """Returns the length of the input of a convolution, from that of its output."""
    if output_length is None:
        return None
    pad = {"same": filter_size // 2, "valid": 0, "full": filter_size - 1}[padding]
    return (output_length - 1) * stride - 2 * pad + filter_size


def deconv_output_length(input_length, filter_size, padding, stride, output_padding=None, dilation=1):
    """The same for a transposed convolution; the length may be a tensor."""
    if input_length is None:
        return None
    size = filter_size + (filter_size - 1) * (dilation - 1)
    if output_padding is None:
        more = {"valid": max(size - stride, 0), "full": -(stride + size - 2), "same": 0}[padding]
        return input_length * stride + more
    pad = {"same": size // 2, "valid": 0, "full": size - 1}[padding]
    return (input_length - 1) * stride + size - 2 * pad + output_padding


def activation(identifier):
    """The function meant by itself, a name of tf.nn, or None."""
    if identifier is None or callable(identifier):
        return identifier
    if isinstance(identifier, str):
        from .. import math, nn
        found = None if identifier == "linear" else getattr(nn, identifier, None) or getattr(math, identifier, None)
        if identifier == "linear" or found is not None:
            return found
    raise ValueError("Unknown activation function: %s" % (identifier,))
