"""Convolutions, forward and transposed, in one to three dimensions.

The arguments came to have several names over the versions (filter and filters, value and input, rate and dilations): each
function takes all of them.  Strides and dilations may be given for all dimensions, for the spatial ones, or as one number.
"""

import numpy as np

from ..framework import convert, dtypes, op_defs, ops, shapes
from ..ops import array, math
from ..ops.math import deprecated

__all__ = ["atrous_conv2d", "atrous_conv2d_transpose", "conv1d", "conv1d_transpose", "conv2d", "conv2d_backprop_filter",
           "conv2d_backprop_input", "conv2d_transpose", "conv3d", "conv3d_backprop_filter", "conv3d_backprop_filter_v2",
           "conv3d_transpose", "conv_transpose", "convolution", "deconv2d", "depthwise_conv2d",
           "depthwise_conv2d_backprop_filter", "depthwise_conv2d_backprop_input", "depthwise_conv2d_native",
           "depthwise_conv2d_native_backprop_filter", "depthwise_conv2d_native_backprop_input", "dilation2d", "erosion2d",
           "separable_conv2d", "with_space_to_batch"]


def required(**values):
    """A TypeError for what must be given."""
    for name, value in values.items():
        if value is None:
            raise TypeError("The argument %r is missing" % name)


def channels_first(data_format):
    """Whether a data format, such as "NCHW", has the channels before the spatial dimensions."""
    return bool(data_format) and data_format.startswith("NC")


def per_dimension(value, spatial, data_format, name):
    """A number for each dimension: from one for all spatial ones, one for each of them, or the whole list."""
    if value is None:
        value = 1
    values = [value] if isinstance(value, (int, np.integer, shapes.Dimension)) else list(value)
    values = [int(v) for v in values]
    if len(values) == 1:
        values = values * spatial
    if len(values) == spatial:
        return [1, 1] + values if channels_first(data_format) else [1] + values + [1]
    if len(values) != spatial + 2:
        raise ValueError("%s should be of length 1, %d or %d but was %d" % (name, spatial, spatial + 2, len(values)))
    return values


def padding_attrs(padding, data_format):
    """padding and explicit_paddings of an op: numbers for each dimension are explicit ones."""
    if isinstance(padding, (str, bytes)):
        if padding in ("EXPLICIT", b"EXPLICIT"):
            raise ValueError('"EXPLICIT" is not a valid value for the padding parameter. To use explicit padding, the padding '
                             'parameter must be a list.')
        return {"padding": padding.upper() if isinstance(padding, str) else padding}
    flat = []
    for i, pair in enumerate(padding):
        wrong = "is not a list/tuple" if not isinstance(pair, (list, tuple)) else "has size %d" % len(pair)
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise ValueError("When padding is a list, each element of padding must be a list/tuple of size 2. Element with "
                             "index %d of padding %s" % (i, wrong))
        flat += [int(n) for n in pair]
    if len(padding) != 4:
        raise ValueError("When padding is a list, it must be of size 4. Got padding of size: %d" % len(padding))
    channel = 1 if channels_first(data_format) else 3
    if any(flat[:2]) or any(flat[2 * channel:2 * channel + 2]):
        raise ValueError("Padding of the batch or channel dimension must be zero: %s" % (padding,))
    return {"padding": "EXPLICIT", "explicit_paddings": flat}


# ---- forward ----

def conv2d(input, filter=None, strides=None, padding=None, use_cudnn_on_gpu=True, data_format="NHWC",  # noqa: A002
           dilations=[1, 1, 1, 1], name=None, filters=None):  # noqa: B006 -- tf's signature
    """Computes a 2-D convolution.

    Args:
        input: a tensor of images [batch, height, width, in_channels], or as data_format says
        filter: [height, width, in_channels, out_channels]; filters is another name
        strides: an int, or a list of 1, 2 or 4 ints
        padding: "SAME", "VALID", or a list of pairs of ints, one for each dimension of input
        data_format: "NHWC" or "NCHW"
        dilations: the spacing of the filter's elements, in the same forms as strides
    """
    filter = deprecated(filters, "filters", filter, "filter")  # noqa: A001
    required(filter=filter, padding=padding)
    data_format = data_format or "NHWC"
    return op_defs.call("Conv2D", name, input=input, filter=filter, strides=per_dimension(strides, 2, data_format, "strides"),
                        use_cudnn_on_gpu=use_cudnn_on_gpu, data_format=data_format,
                        dilations=per_dimension(dilations, 2, data_format, "dilations"),
                        **padding_attrs(padding, data_format))


def conv3d(input, filter=None, strides=None, padding=None, data_format="NDHWC", dilations=[1, 1, 1, 1, 1],  # noqa: A002, B006
           name=None, filters=None):
    """Computes a 3-D convolution.

    Args:
        input: a tensor [batch, depth, height, width, in_channels], or as data_format says
        filter: [depth, height, width, in_channels, out_channels]; filters is another name
        strides: an int, or a list of 1, 3 or 5 ints
        padding: "SAME" or "VALID"
        data_format: "NDHWC" or "NCDHW"
        dilations: the spacing of the filter's elements, in the same forms as strides
    """
    filter = deprecated(filters, "filters", filter, "filter")  # noqa: A001
    required(filter=filter, padding=padding)
    data_format = data_format or "NDHWC"
    return op_defs.call("Conv3D", name, input=input, filter=filter, strides=per_dimension(strides, 3, data_format, "strides"),
                        padding=padding.upper(), data_format=data_format,
                        dilations=per_dimension(dilations, 3, data_format, "dilations"))


_WIDER = {None: "NHWC", "NWC": "NHWC", "NHWC": "NHWC", "NCW": "NCHW", "NCHW": "NCHW"}


def conv1d(value=None, filters=None, stride=None, padding=None, use_cudnn_on_gpu=None, data_format=None, name=None,
           input=None, dilations=None):  # noqa: A002
    """conv2d of images that are one high."""
    value = deprecated(value, "value", input, "input")
    required(filters=filters, padding=padding)
    if data_format not in _WIDER:
        raise ValueError("data_format must be \"NWC\" or \"NCW\".")
    data_format = _WIDER[data_format]
    at = 2 if data_format == "NCHW" else 1
    with ops.name_scope(name, "conv1d", [value, filters]) as name:
        out = op_defs.call(
            "Conv2D", None, input=array.expand_dims(value, at), filter=array.expand_dims(filters, 0),
            strides=_one_high(stride, data_format, "stride"), padding=padding.upper(), data_format=data_format,
            use_cudnn_on_gpu=use_cudnn_on_gpu, dilations=_one_high(dilations, data_format, "dilations"))
        return array.squeeze(out, [at])


def _one_high(value, data_format, name):
    given = per_dimension(value, 1, data_format, name)
    return given[:2] + [1] + given[2:] if data_format == "NCHW" else given[:1] + [1] + given[1:]


def convolution(input, filter=None, padding=None, strides=None, dilation_rate=None, name=None, data_format=None,  # noqa: A002
                filters=None, dilations=None):
    """Computes a convolution in as many dimensions as the filter has."""
    filter = deprecated(filters, "filters", filter, "filter")  # noqa: A001
    rate = deprecated(dilations, "dilations", dilation_rate, "dilation_rate")
    required(filter=filter, padding=padding)
    with ops.name_scope(name, "convolution", [input, filter]) as name:
        input = convert.convert_to_tensor(input, name="input")  # noqa: A001
        filter = convert.convert_to_tensor(filter, input.dtype.base_dtype, name="filter")  # noqa: A001
        n = spatial_rank(input, filter)
        strides, rate = _for_each(strides, n, "strides"), _for_each(rate, n, "dilation_rate")
        if any(s > 1 for s in strides) and any(r > 1 for r in rate):
            raise ValueError("strides > 1 not supported in conjunction with dilation_rate > 1")
        if n == 1:
            return conv1d(input, filter, strides, padding, data_format=data_format, dilations=rate, name=name)
        f = conv2d if n == 2 else conv3d
        return f(input, filter, strides, padding, data_format=data_format, dilations=rate, name=name)


def spatial_rank(x, filter):  # noqa: A002
    """Returns the number of spatial dimensions, 1 to 3, from the rank of a filter or its input."""
    n = filter.shape.ndims - 2 if filter.shape.ndims is not None else x.shape.ndims and x.shape.ndims - 2
    if n is None:
        raise ValueError("rank of input or filter must be known")
    if not 1 <= n <= 3:
        raise ValueError("num_spatial_dims must be one of 1, 2 or 3 but was %d" % n)
    if x.shape.ndims is not None and x.shape.ndims != n + 2:
        raise ValueError("The input has rank %d, a filter of %d spatial dimensions needs %d" % (x.shape.ndims, n, n + 2))
    return n


def _for_each(value, n, name):
    values = [1] * n if value is None else [int(value)] * n if isinstance(value, (int, np.integer)) else [int(v) for v in value]
    if len(values) == 1:
        values = values * n
    if len(values) != n or any(v < 1 for v in values):
        raise ValueError("%s must be %d positive numbers: %s" % (name, n, value))
    return values


def atrous_conv2d(value, filters, rate, padding, name=None):
    """Computes a 2-D convolution whose filter elements are `rate` apart."""
    return convolution(value, filters, padding, dilation_rate=[rate, rate], name=name)


# ---- transposed: the gradients of the above as functions ----

def _output_shape(shape):
    return shape if isinstance(shape, ops.Tensor) else array._shape_tensor(shape) if _is_known(shape) else array.stack(shape)


def _is_known(shape):
    if isinstance(shape, (shapes.TensorShape, np.ndarray)):
        return True
    return all(isinstance(d, (int, np.integer, shapes.Dimension)) for d in shape)


def conv2d_transpose(value=None, filter=None, output_shape=None, strides=None, padding="SAME", data_format="NHWC",  # noqa: A002
                     name=None, input=None, filters=None, dilations=None):  # noqa: A002
    """Computes the gradient of conv2d with respect to its input, also called a deconvolution.

    Args:
        value: the tensor to convolve; input is another name
        filter: [height, width, out_channels, in_channels]; filters is another name
        output_shape: the shape of the result
        strides: an int, or a list of 1, 2 or 4 ints
        padding: "SAME" or "VALID"
    """
    value = deprecated(input, "input", value, "value")
    filter = deprecated(filters, "filters", filter, "filter")  # noqa: A001
    required(value=value, filter=filter, output_shape=output_shape)
    if data_format not in ("NCHW", "NHWC", "NCHW_VECT_C"):
        raise ValueError("data_format has to be either NCHW or NHWC.")
    with ops.name_scope(name, "conv2d_transpose", [value, filter, output_shape]) as name:
        value, filter = convert.convert_to_tensor(value, name="value"), convert.convert_to_tensor(filter, name="filter")
        _check_transposed(value, filter, output_shape, 2, data_format)
        return op_defs.call("Conv2DBackpropInput", name, input_sizes=_output_shape(output_shape), filter=filter,
                            out_backprop=value,
                            strides=per_dimension(strides, 2, data_format, "strides"), data_format=data_format,
                            dilations=per_dimension(dilations, 2, data_format, "dilations"),
                            **padding_attrs(padding, data_format))


def _check_transposed(value, filter, output_shape, n, data_format):  # noqa: A002
    """What can be known before: padding, channels of the value and of the result."""
    axis = 1 if channels_first(data_format) else n + 1
    if value.shape.ndims is not None and filter.shape.ndims is not None:
        if not value.shape[axis].is_compatible_with(filter.shape[n + 1]):
            raise ValueError("input channels does not match filter's input channels, %s != %s" %
                             (value.shape[axis], filter.shape[n + 1]))
    if not isinstance(output_shape, ops.Tensor) and _is_known(output_shape):
        dims = [int(d) for d in output_shape]
        if len(dims) != n + 2:
            raise ValueError("output_shape must have shape (%d,), got (%d,)" % (n + 2, len(dims)))
        if filter.shape.ndims is not None and not filter.shape[n].is_compatible_with(dims[axis]):
            raise ValueError("output_shape does not match filter's output channels, %s != %s" % (dims[axis], filter.shape[n]))


deconv2d = conv2d_transpose  # its first name


def conv3d_transpose(value=None, filter=None, output_shape=None, strides=None, padding="SAME", data_format="NDHWC",
                     name=None, input=None, filters=None, dilations=None):  # noqa: A002
    """Computes the gradient of conv3d with respect to its input, also called a deconvolution.

    Args:
        value: the tensor to convolve; input is another name
        filter: [depth, height, width, out_channels, in_channels]; filters is another name
        output_shape: the shape of the result
        strides: an int, or a list of 1, 3 or 5 ints
        padding: "SAME" or "VALID"
    """
    value = deprecated(input, "input", value, "value")
    filter = deprecated(filters, "filters", filter, "filter")  # noqa: A001
    required(value=value, filter=filter, output_shape=output_shape)
    with ops.name_scope(name, "conv3d_transpose", [value, filter, output_shape]) as name:
        value, filter = convert.convert_to_tensor(value, name="value"), convert.convert_to_tensor(filter, name="filter")
        _check_transposed(value, filter, output_shape, 3, data_format)
        return op_defs.call("Conv3DBackpropInputV2", name, input_sizes=_output_shape(output_shape), filter=filter,
                            out_backprop=value, strides=per_dimension(strides, 3, data_format, "strides"),
                            padding=padding.upper(), data_format=data_format,
                            dilations=per_dimension(dilations, 3, data_format, "dilations"))


def conv1d_transpose(input, filters, output_shape, strides, padding="SAME", data_format="NWC", dilations=None,  # noqa: A002
                     name=None):
    """Computes the gradient of conv1d with respect to its input, also called a deconvolution.

    Args:
        input: the tensor to convolve, [batch, width, in_channels] for the format "NWC"
        filters: [width, out_channels, in_channels]
        output_shape: the shape of the result
    """
    if data_format not in _WIDER:
        raise ValueError("data_format must be \"NWC\" or \"NCW\".")
    data_format = _WIDER[data_format]
    at = 2 if data_format == "NCHW" else 1
    with ops.name_scope(name, "conv1d_transpose", [input, filters, output_shape]) as name:
        shape = convert.convert_to_tensor(output_shape, dtypes.int32)
        shape = array.concat([shape[:at], [1], shape[at:]], 0)
        out = op_defs.call("Conv2DBackpropInput", None, input_sizes=shape, filter=array.expand_dims(filters, 0),
                           out_backprop=array.expand_dims(input, at), strides=_one_high(strides, data_format, "strides"),
                           padding=padding.upper(), data_format=data_format,
                           dilations=_one_high(dilations, data_format, "dilations"))
        return array.squeeze(out, [at])


def conv_transpose(input, filters, output_shape, strides, padding="SAME", data_format=None, dilations=None,  # noqa: A002
                   name=None):
    """Computes a transposed convolution in as many dimensions as output_shape has."""
    with ops.name_scope(name, "conv_transpose", [input, filters, output_shape]) as name:
        n = len(output_shape) if not isinstance(output_shape, ops.Tensor) else output_shape.shape.as_list()[0]
        f = {3: conv1d_transpose, 4: conv2d_transpose, 5: conv3d_transpose}.get(n)
        if f is None:
            raise ValueError("output_shape must be of length 3, 4 or 5 but was %s" % n)
        data_format = data_format or {3: "NWC", 4: "NHWC", 5: "NDHWC"}[n]
        first = {"input": input, "filters": filters}
        return f(**first, output_shape=output_shape, strides=strides, padding=padding, data_format=data_format,
                 dilations=dilations, name=name)


def atrous_conv2d_transpose(value, filters, output_shape, rate, padding, name=None):
    """Computes the transpose of a 2-D convolution whose filter elements are `rate` apart."""
    with ops.name_scope(name, "atrous_conv2d_transpose", [value, filters, output_shape]) as name:
        return conv2d_transpose(value, filters, output_shape, 1, padding, dilations=rate, name=name)


def conv2d_backprop_input(input_sizes, filter=None, out_backprop=None, strides=None, padding=None,  # noqa: A002
                          use_cudnn_on_gpu=True, data_format="NHWC", dilations=[1, 1, 1, 1], name=None, filters=None):
    """Computes the gradient of conv2d with respect to its input.

    Args:
        input_sizes: the shape of the input
        filter: the filter of the convolution; filters is another name
        out_backprop: the gradient of the output
    """
    filter = deprecated(filters, "filters", filter, "filter")  # noqa: A001
    return op_defs.call("Conv2DBackpropInput", name, input_sizes=input_sizes, filter=filter, out_backprop=out_backprop,
                        strides=per_dimension(strides, 2, data_format, "strides"), use_cudnn_on_gpu=use_cudnn_on_gpu,
                        data_format=data_format, dilations=per_dimension(dilations, 2, data_format, "dilations"),
                        **padding_attrs(padding, data_format))


def conv2d_backprop_filter(input, filter_sizes, out_backprop, strides, padding, use_cudnn_on_gpu=True,  # noqa: A002
                           data_format="NHWC", dilations=[1, 1, 1, 1], name=None):  # noqa: B006
    """Computes the gradient of conv2d with respect to its filter.

    Args:
        input: the input of the convolution
        filter_sizes: the shape of the filter
        out_backprop: the gradient of the output
    """
    return op_defs.call("Conv2DBackpropFilter", name, input=input, filter_sizes=filter_sizes, out_backprop=out_backprop,
                        strides=per_dimension(strides, 2, data_format, "strides"), use_cudnn_on_gpu=use_cudnn_on_gpu,
                        data_format=data_format, dilations=per_dimension(dilations, 2, data_format, "dilations"),
                        **padding_attrs(padding, data_format))


def conv3d_backprop_filter(input, filter_sizes, out_backprop, strides, padding, data_format="NDHWC",  # noqa: A002
                           dilations=[1, 1, 1, 1, 1], name=None):  # noqa: B006
    """Computes the gradient of conv3d with respect to its filter.

    Args:
        input: the input of the convolution
        filter_sizes: the shape of the filter
        out_backprop: the gradient of the output
    """
    return op_defs.call("Conv3DBackpropFilterV2", name, input=input, filter_sizes=filter_sizes, out_backprop=out_backprop,
                        strides=strides, padding=padding, data_format=data_format, dilations=dilations)


conv3d_backprop_filter_v2 = conv3d_backprop_filter


# ---- a channel at a time ----

def depthwise_conv2d(input, filter, strides, padding, rate=None, name=None, data_format=None, dilations=None):  # noqa: A002
    """Convolves each channel with its own filters: filter [height, width, channels, multiplier]."""
    rate = deprecated(dilations, "dilations", rate, "rate")
    with ops.name_scope(name, "depthwise", [input, filter]) as name:
        data_format = data_format or "NHWC"
        rate = _for_each(rate, 2, "rate") if rate is None or isinstance(rate, int) or len(rate) < 4 else rate
        return depthwise_conv2d_native(input, filter, strides, padding, data_format, rate, name)


def depthwise_conv2d_native(input, filter, strides, padding, data_format="NHWC", dilations=[1, 1, 1, 1],  # noqa: A002, B006
                            name=None):
    """Convolves each channel with its own filters.

    Args:
        input: a tensor of images [batch, height, width, channels]
        filter: [height, width, channels, multiplier]; the result has channels * multiplier channels
    """
    return op_defs.call("DepthwiseConv2dNative", name, input=input, filter=filter, data_format=data_format,
                        strides=per_dimension(strides, 2, data_format, "strides"),
                        dilations=per_dimension(dilations, 2, data_format, "dilations"),
                        **padding_attrs(padding, data_format))


def depthwise_conv2d_native_backprop_input(input_sizes, filter, out_backprop, strides, padding, data_format="NHWC",
                                           dilations=[1, 1, 1, 1], name=None):  # noqa: B006
    """Computes the gradient of depthwise_conv2d_native with respect to its input."""
    return op_defs.call("DepthwiseConv2dNativeBackpropInput", name, input_sizes=input_sizes, filter=filter,
                        out_backprop=out_backprop, strides=strides, padding=padding, data_format=data_format,
                        dilations=dilations)


def depthwise_conv2d_native_backprop_filter(input, filter_sizes, out_backprop, strides, padding, data_format="NHWC",
                                            dilations=[1, 1, 1, 1], name=None):  # noqa: B006
    """Computes the gradient of depthwise_conv2d_native with respect to its filter."""
    return op_defs.call("DepthwiseConv2dNativeBackpropFilter", name, input=input, filter_sizes=filter_sizes,
                        out_backprop=out_backprop, strides=strides, padding=padding, data_format=data_format,
                        dilations=dilations)


depthwise_conv2d_backprop_input = depthwise_conv2d_native_backprop_input
depthwise_conv2d_backprop_filter = depthwise_conv2d_native_backprop_filter


def separable_conv2d(input, depthwise_filter, pointwise_filter, strides, padding, rate=None, name=None,  # noqa: A002
                     data_format=None, dilations=None):
    """A depthwise convolution, and then one of 1 x 1."""
    rate = deprecated(dilations, "dilations", rate, "rate")
    with ops.name_scope(name, "separable_conv2d", [input, depthwise_filter, pointwise_filter]) as name:
        pointwise = convert.convert_to_tensor(pointwise_filter, name="pointwise_filter")
        pointwise.shape.with_rank(4)
        for i in (0, 1):
            if pointwise.shape.ndims is not None:
                pointwise.shape[i].assert_is_compatible_with(1)
        depthwise = depthwise_conv2d(input, depthwise_filter, strides, padding, rate, "depthwise", data_format)
        return conv2d(depthwise, pointwise, 1, "VALID", data_format=data_format or "NHWC", name=name)


# ---- grey-scale morphology ----

def dilation2d(input, filter=None, strides=None, rates=None, padding=None, name=None, filters=None, dilations=None):
    """Computes the grayscale dilation: the largest sum of the image and the filter in each window.

    Args:
        input: a tensor of images [batch, height, width, channels]
        filter: [height, width, channels]; filters is another name
        rates: the spacing of the filter's elements, a list of 4 ints; dilations is another name
    """
    filter = deprecated(filters, "filters", filter, "filter")  # noqa: A001
    rates = deprecated(dilations, "dilations", rates, "rates")
    return op_defs.call("Dilation2D", name, input=input, filter=filter, strides=strides, rates=rates, padding=padding)


def erosion2d(value, kernel, strides, rates, padding, name=None):
    """Computes the grayscale erosion: the smallest difference of the image and the kernel in each window."""
    with ops.name_scope(name, "erosion2d", [value, kernel]) as name:
        return math.negative(dilation2d(math.negative(value), array.reverse(kernel, [0, 1]), strides, rates, padding),
                             name=name)


# ---- dilation by moving blocks into the batch ----

def with_space_to_batch(input, dilation_rate, padding, op, filter_shape=None, spatial_dims=None, data_format=None):
    """op(x, number of spatial dimensions, padding) with holes: it runs on every rate-th element, once for each offset."""
    input = convert.convert_to_tensor(input, name="input")  # noqa: A001
    rate = [int(r) for r in convert.constant_value(convert.convert_to_tensor(dilation_rate, dtypes.int32))]
    first = 2 if channels_first(data_format) else 1
    spatial = sorted(spatial_dims) if spatial_dims is not None else list(range(first, first + len(rate)))
    if len(spatial) != len(rate):
        raise ValueError("spatial_dims has %d elements, dilation_rate %d" % (len(spatial), len(rate)))
    if all(r == 1 for r in rate):
        return op(input, len(rate), padding)
    start, last = spatial[0], spatial[-1]
    block = [rate[spatial.index(d)] if d in spatial else 1 for d in range(start, last + 1)]
    base = _paddings_for(input, rate, spatial, padding, filter_shape)
    moved, perm = input, None
    if start != 1:  # blocks consist of the dimensions after the batch: the dimensions between move to the end
        rank = input.shape.ndims
        perm = [0] + list(range(start, last + 1)) + list(range(1, start)) + list(range(last + 1, rank))
        moved = array.transpose(input, perm)
    shape = array.shape(moved)[1:1 + len(block)]
    pads, crops = array.required_space_to_batch_paddings(shape, block, base)
    x = op_defs.call("SpaceToBatchND", None, input=moved, block_shape=block, paddings=pads)
    if perm is not None:
        back = list(np.argsort(perm))
        x = op(array.transpose(x, back), len(rate), "VALID")
        x = array.transpose(x, perm)
    else:
        x = op(x, len(rate), "VALID")
    out = op_defs.call("BatchToSpaceND", None, input=x, block_shape=block, crops=crops)
    return out if perm is None else array.transpose(out, back)


def _paddings_for(x, rate, spatial, padding, filter_shape):
    """[[before, after], ...] of the dimensions from the first spatial one to the last."""
    found = []
    for d in range(spatial[0], spatial[-1] + 1):
        if padding == "VALID" or d not in spatial:
            found.append([0, 0])
            continue
        if filter_shape is None:
            raise ValueError("filter_shape must be specified for SAME padding")
        i = spatial.index(d)
        size = int(convert.constant_value(convert.convert_to_tensor(filter_shape))[i])
        extra = (size - 1) * rate[i]
        found.append([extra // 2, extra - extra // 2])
    if padding not in ("VALID", "SAME"):
        raise ValueError("Invalid padding method %r" % padding)
    return convert.constant(np.array(found, np.int32))
