"""Convolutional layers."""

import inspect

from .. import initializers
from ..framework import ops, shapes
from ..framework.op_defs import raw
from ..ops import array
from . import utils
from .base import BaseLayer, InputSpec, Layer


class ConvBase(BaseLayer):
    """A convolution of any rank, or what is like one: kernel, bias, activation."""

    def __init__(self, rank, filters, kernel_size, strides=1, padding="valid", data_format=None, dilation_rate=1,
                 activation=None, use_bias=True, kernel_initializer=None, bias_initializer=initializers.zeros(),
                 kernel_regularizer=None, bias_regularizer=None, activity_regularizer=None, kernel_constraint=None,
                 bias_constraint=None, trainable=True, name=None, **kwargs):
        super().__init__(trainable=trainable, name=name, activity_regularizer=activity_regularizer, **kwargs)
        self.rank = rank
        self.filters = None if filters is None else int(filters)
        self.kernel_size = utils.normalize_tuple(kernel_size, rank, "kernel_size")
        self.strides = utils.normalize_tuple(strides, rank, "strides")
        self.padding = utils.normalize_padding(padding, causal=rank == 1)
        self.data_format = utils.normalize_data_format(data_format)
        self.dilation_rate = utils.normalize_tuple(dilation_rate, rank, "dilation_rate")
        self.activation, self.use_bias = utils.activation(activation), use_bias
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.bias_initializer = initializers.get(bias_initializer)
        self.kernel_regularizer, self.bias_regularizer = kernel_regularizer, bias_regularizer
        self.kernel_constraint, self.bias_constraint = kernel_constraint, bias_constraint
        self.input_spec = InputSpec(ndim=rank + 2)

    @property
    def _channel_axis(self):
        return 1 if self.data_format == "channels_first" else -1

    def _channels(self, input_shape):
        """The number of input channels, which from then on is asked for."""
        shape = shapes.as_shape(input_shape)
        n = None if shape.ndims is None else shape.as_list()[self._channel_axis]
        if n is None:
            raise ValueError("The channel dimension of the inputs should be defined. Found `None`.")
        self.input_spec = InputSpec(ndim=self.rank + 2, axes={self._channel_axis: n})
        return n

    def _add_kernel(self, shape, name="kernel"):
        return self.add_weight(name, shape=shape, initializer=self.kernel_initializer, regularizer=self.kernel_regularizer,
                               constraint=self.kernel_constraint, trainable=True, dtype=self.dtype)

    def _add_bias(self, n):
        if not self.use_bias:
            return None
        return self.add_weight("bias", shape=(n,), initializer=self.bias_initializer, regularizer=self.bias_regularizer,
                               constraint=self.bias_constraint, trainable=True, dtype=self.dtype)

    def build(self, input_shape):
        self.kernel = self._add_kernel(self.kernel_size + (self._channels(input_shape), self.filters))
        self.bias = self._add_bias(self.filters)
        self.built = True

    def call(self, inputs):
        if self.padding == "causal":
            inputs = self._padded(inputs)
        return self._finish(self._convolve(inputs, self.kernel))

    def _padded(self, inputs):
        """So that an output depends on no later input."""
        left = self.dilation_rate[0] * (self.kernel_size[0] - 1)
        sides = [[0, 0], [0, 0], [left, 0]] if self.data_format == "channels_first" else [[0, 0], [left, 0], [0, 0]]
        return array.pad(inputs, sides)

    def _finish(self, outputs):
        """Adds the bias and applies the activation."""
        if self.use_bias:
            outputs = self._with_bias(outputs)
        return outputs if self.activation is None else self.activation(outputs)

    def _with_bias(self, outputs):
        if self.data_format == "channels_first":
            if outputs.shape.ndims != 4:
                return outputs + array.reshape(self.bias, [1, self.filters] + [1] * self.rank)
            return raw.bias_add(outputs, self.bias, data_format="NCHW")
        return raw.bias_add(outputs, self.bias)

    def _convolve(self, inputs, kernel):
        if any(s > 1 for s in self.strides) and any(d > 1 for d in self.dilation_rate):
            raise ValueError("strides > 1 not supported in conjunction with dilation_rate > 1")
        padding = "VALID" if self.padding == "causal" else self.padding.upper()
        how = dict(strides=self._per_dim(self.strides), padding=padding, dilations=self._per_dim(self.dilation_rate),
                   data_format=utils.convert_data_format(self.data_format, self.rank + 2))
        if self.rank == 2:
            return raw.conv2d(inputs, kernel, **how)
        if self.rank == 3:
            return raw.conv3d(inputs, kernel, **how)
        return self._convolve_1d(inputs, kernel, how)

    def _convolve_1d(self, inputs, kernel, how):
        """As an image of height one."""
        axis = 2 if self.data_format == "channels_first" else 1
        for key in ("strides", "dilations"):
            how[key].insert(axis, 1)
        how["data_format"] = utils.convert_data_format(self.data_format, 4)
        with ops.name_scope("conv1d") as scope:
            outputs = raw.conv2d(array.expand_dims(inputs, axis), array.expand_dims(kernel, 0), name=scope, **how)
            return array.squeeze(outputs, [axis])

    def _per_dim(self, values):
        """Values for the spatial dimensions as a list for all."""
        return [1, 1] + list(values) if self.data_format == "channels_first" else [1] + list(values) + [1]

    def compute_output_shape(self, input_shape):
        dims = shapes.as_shape(input_shape).as_list()
        first = self.data_format == "channels_first"
        space = [utils.conv_output_length(d, self.kernel_size[i], self.padding, self.strides[i], self.dilation_rate[i])
                 for i, d in enumerate(dims[2:] if first else dims[1:-1])]
        return shapes.TensorShape([dims[0], self.filters] + space if first else [dims[0]] + space + [self.filters])


def _ranked(rank, base):
    """A decorator of constructors for a known rank: their signature is that of the base, without the rank."""
    def decorate(init):
        defaults = {"strides": (1,) * rank, "dilation_rate": (1,) * rank} if rank > 1 else {}
        defaults["data_format"] = "channels_last"
        parameters = [p for p in inspect.signature(base.__init__).parameters.values() if p.name != "rank"]
        init.__signature__ = inspect.Signature([p.replace(default=defaults.get(p.name, p.default)) for p in parameters])
        return init
    return decorate


def _of_rank(n):
    """A ConvBase whose rank is known: its arguments begin with filters."""

    class Conv(ConvBase):
        @_ranked(n, ConvBase)
        def __init__(self, filters, kernel_size, strides=1, padding="valid", data_format="channels_last", *args, **kwargs):
            super().__init__(n, filters, kernel_size, strides, padding, data_format, *args, **kwargs)

    Conv.__name__ = Conv.__qualname__ = "Conv%dDBase" % n
    Conv.__doc__ = "The computation of a %d-D convolution." % n
    return Conv


Conv1DBase, Conv2DBase, Conv3DBase = _of_rank(1), _of_rank(2), _of_rank(3)


class ConvTransposeBase(ConvBase):
    """The transpose of a convolution: what its gradient is."""

    def __init__(self, rank, filters, kernel_size, strides=1, padding="valid", data_format="channels_last", activation=None,
                 use_bias=True, kernel_initializer=None, bias_initializer=initializers.zeros(), kernel_regularizer=None,
                 bias_regularizer=None, activity_regularizer=None, kernel_constraint=None, bias_constraint=None, trainable=True,
                 name=None, output_padding=None, dilation_rate=1, **kwargs):
        super().__init__(rank, filters, kernel_size, strides, padding, data_format, dilation_rate, activation, use_bias,
                         kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer, activity_regularizer,
                         kernel_constraint, bias_constraint, trainable, name, **kwargs)
        self.output_padding = output_padding
        if output_padding is not None:
            self.output_padding = utils.normalize_tuple(output_padding, rank, "output_padding")
            for stride, more in zip(self.strides, self.output_padding):
                if more >= stride:
                    raise ValueError("Stride %s must be greater than output padding %s" % (self.strides, self.output_padding))

    def build(self, input_shape):
        self.kernel = self._add_kernel(self.kernel_size + (self.filters, self._channels(input_shape)))
        self.bias = self._add_bias(self.filters)
        self.built = True

    def _lengths(self, lengths):
        more = self.output_padding or [None] * self.rank
        return [utils.deconv_output_length(d, self.kernel_size[i], self.padding, self.strides[i], more[i],
                                           self.dilation_rate[i])
                for i, d in enumerate(lengths)]

    def call(self, inputs):
        first = self.data_format == "channels_first"
        dims, now = inputs.shape.as_list(), array.shape(inputs)
        at = range(2, 2 + self.rank) if first else range(1, 1 + self.rank)
        space = self._lengths([now[i] if dims[i] is None else dims[i] for i in at])
        batch = now[0] if dims[0] is None else dims[0]
        sizes = array.stack([batch, self.filters] + space if first else [batch] + space + [self.filters])
        how = dict(strides=self._per_dim(self.strides), padding=self.padding.upper(),
                   dilations=self._per_dim(self.dilation_rate),
                   data_format=utils.convert_data_format(self.data_format, self.rank + 2))
        if self.rank == 2:
            outputs = raw.conv2d_backprop_input(sizes, self.kernel, inputs, name="conv2d_transpose", **how)
        else:
            outputs = raw.conv3d_backprop_input_v2(sizes, self.kernel, inputs, name="conv3d_transpose", **how)
        outputs.set_shape(self.compute_output_shape(inputs.shape))
        return self._finish(outputs)

    def compute_output_shape(self, input_shape):
        dims = shapes.as_shape(input_shape).as_list()
        first = self.data_format == "channels_first"
        space = self._lengths(dims[2:] if first else dims[1:-1])
        return shapes.TensorShape([dims[0], self.filters] + space if first else [dims[0]] + space + [self.filters])


class Conv2DTransposeBase(ConvTransposeBase):
    """The computation of a 2-D transposed convolution."""

    @_ranked(2, ConvTransposeBase)
    def __init__(self, filters, kernel_size, *args, **kwargs):
        super().__init__(2, filters, kernel_size, *args, **kwargs)


class Conv3DTransposeBase(ConvTransposeBase):
    """The computation of a 3-D transposed convolution."""

    @_ranked(3, ConvTransposeBase)
    def __init__(self, filters, kernel_size, *args, **kwargs):
        super().__init__(3, filters, kernel_size, *args, **kwargs)


class SeparableConvBase(ConvBase):
    """A convolution of each channel by itself, then one that mixes channels."""

    def __init__(self, rank, filters, kernel_size, strides=1, padding="valid", data_format="channels_last", dilation_rate=1,
                 depth_multiplier=1, activation=None, use_bias=True, depthwise_initializer=None, pointwise_initializer=None,
                 bias_initializer=initializers.zeros(), depthwise_regularizer=None, pointwise_regularizer=None,
                 bias_regularizer=None, activity_regularizer=None, depthwise_constraint=None, pointwise_constraint=None,
                 bias_constraint=None, trainable=True, name=None, **kwargs):
        super().__init__(rank, filters, kernel_size, strides, padding, data_format, dilation_rate, activation, use_bias,
                         bias_initializer=bias_initializer, bias_regularizer=bias_regularizer,
                         activity_regularizer=activity_regularizer, bias_constraint=bias_constraint, trainable=trainable,
                         name=name, **kwargs)
        self.depth_multiplier = depth_multiplier
        self.depthwise_initializer = initializers.get(depthwise_initializer)
        self.pointwise_initializer = initializers.get(pointwise_initializer)
        self.depthwise_regularizer, self.pointwise_regularizer = depthwise_regularizer, pointwise_regularizer
        self.depthwise_constraint, self.pointwise_constraint = depthwise_constraint, pointwise_constraint

    def build(self, input_shape):
        channels = self._channels(input_shape)
        self.depthwise_kernel = self.add_weight(
            "depthwise_kernel", shape=self.kernel_size + (channels, self.depth_multiplier), dtype=self.dtype, trainable=True,
            initializer=self.depthwise_initializer, regularizer=self.depthwise_regularizer,
            constraint=self.depthwise_constraint)
        self.pointwise_kernel = self.add_weight(
            "pointwise_kernel", shape=(1,) * self.rank + (channels * self.depth_multiplier, self.filters), dtype=self.dtype,
            initializer=self.pointwise_initializer, regularizer=self.pointwise_regularizer, trainable=True,
            constraint=self.pointwise_constraint)
        self.bias = self._add_bias(self.filters)
        self.built = True

    def call(self, inputs):
        if self.padding == "causal":
            inputs = self._padded(inputs)
        if self.rank == 2:
            return self._finish(self._separable(inputs, self.depthwise_kernel, self.pointwise_kernel, self.strides,
                                                self.dilation_rate))
        axis = 2 if self.data_format == "channels_first" else 1
        outputs = self._separable(array.expand_dims(inputs, axis), array.expand_dims(self.depthwise_kernel, 0),
                                  array.expand_dims(self.pointwise_kernel, 0), self.strides * 2, (1,) + self.dilation_rate)
        return self._finish(array.squeeze(outputs, [axis]))

    def _separable(self, inputs, depthwise, pointwise, strides, dilations):
        data_format = utils.convert_data_format(self.data_format, 4)
        padding = "VALID" if self.padding == "causal" else self.padding.upper()
        with ops.name_scope("separable_conv2d") as scope:
            each = raw.depthwise_conv2d_native(inputs, depthwise, strides=self._per_dim(strides), padding=padding,
                                               data_format=data_format, dilations=self._per_dim(dilations), name="depthwise")
            return raw.conv2d(each, pointwise, strides=[1, 1, 1, 1], padding="VALID", data_format=data_format, name=scope)


class SeparableConv1DBase(SeparableConvBase):
    """The computation of a 1-D separable convolution."""

    @_ranked(1, SeparableConvBase)
    def __init__(self, filters, kernel_size, *args, **kwargs):
        super().__init__(1, filters, kernel_size, *args, **kwargs)


class SeparableConv2DBase(SeparableConvBase):
    """The computation of a 2-D separable convolution."""

    @_ranked(2, SeparableConvBase)
    def __init__(self, filters, kernel_size, *args, **kwargs):
        super().__init__(2, filters, kernel_size, *args, **kwargs)


class DepthwiseConv2DBase(ConvBase):
    """A convolution of each channel by itself."""

    def __init__(self, kernel_size, strides=1, padding="valid", depth_multiplier=1, data_format=None, dilation_rate=1,
                 activation=None, use_bias=True, depthwise_initializer=None, bias_initializer=initializers.zeros(),
                 depthwise_regularizer=None, bias_regularizer=None, activity_regularizer=None, depthwise_constraint=None,
                 bias_constraint=None, **kwargs):
        super().__init__(2, None, kernel_size, strides, padding, data_format, dilation_rate, activation, use_bias,
                         bias_initializer=bias_initializer, bias_regularizer=bias_regularizer,
                         activity_regularizer=activity_regularizer, bias_constraint=bias_constraint, **kwargs)
        self.depth_multiplier = depth_multiplier
        self.depthwise_initializer = initializers.get(depthwise_initializer)
        self.depthwise_regularizer, self.depthwise_constraint = depthwise_regularizer, depthwise_constraint

    def build(self, input_shape):
        channels = self._channels(input_shape)
        self.filters = channels * self.depth_multiplier
        self.depthwise_kernel = self.add_weight(
            "depthwise_kernel", shape=self.kernel_size + (channels, self.depth_multiplier), dtype=self.dtype, trainable=True,
            initializer=self.depthwise_initializer, regularizer=self.depthwise_regularizer,
            constraint=self.depthwise_constraint)
        self.bias = self._add_bias(self.filters)
        self.built = True

    def call(self, inputs):
        return self._finish(raw.depthwise_conv2d_native(
            inputs, self.depthwise_kernel, strides=self._per_dim(self.strides), padding=self.padding.upper(), name="depthwise",
            data_format=utils.convert_data_format(self.data_format, 4), dilations=self._per_dim(self.dilation_rate)))

    def compute_output_shape(self, input_shape):
        if self.filters is None:
            self.filters = shapes.as_shape(input_shape).as_list()[self._channel_axis] * self.depth_multiplier
        return super().compute_output_shape(input_shape)


# ---- tf.layers ----

class Conv1D(Conv1DBase, Layer):
    """A 1-D convolution layer, with bias and activation."""


class Conv2D(Conv2DBase, Layer):
    """A 2-D convolution layer, with bias and activation."""


class Conv3D(Conv3DBase, Layer):
    """A 3-D convolution layer, with bias and activation."""


class Conv2DTranspose(Conv2DTransposeBase, Layer):
    """A 2-D transposed convolution layer, also called a deconvolution."""


class Conv3DTranspose(Conv3DTransposeBase, Layer):
    """A 3-D transposed convolution layer, also called a deconvolution."""


class SeparableConv1D(SeparableConv1DBase, Layer):
    """A layer that convolves each channel separately in 1-D, then mixes the channels."""


class SeparableConv2D(SeparableConv2DBase, Layer):
    """A layer that convolves each channel separately in 2-D, then mixes the channels."""


def conv1d(inputs, filters, kernel_size, strides=1, padding="valid", data_format="channels_last", dilation_rate=1,
           activation=None, use_bias=True, kernel_initializer=None, bias_initializer=initializers.zeros(),
           kernel_regularizer=None, bias_regularizer=None, activity_regularizer=None, kernel_constraint=None,
           bias_constraint=None, trainable=True, name=None, reuse=None):
    """Applies a new 1-D convolution layer to inputs [batch, width, channels].

    Args:
        filters: the number of output channels
        kernel_size: the width of the window
        padding: "valid" or "same"
        data_format: "channels_last" or "channels_first"
        name: the name of the layer and of its variable scope
        reuse: whether to use the variables of an existing layer of this name
    """
    return Conv1D(filters, kernel_size, strides, padding, data_format, dilation_rate, activation, use_bias, kernel_initializer,
                  bias_initializer, kernel_regularizer, bias_regularizer, activity_regularizer, kernel_constraint,
                  bias_constraint, trainable, name, _reuse=reuse, _scope=name).apply(inputs)


def conv2d(inputs, filters, kernel_size, strides=(1, 1), padding="valid", data_format="channels_last", dilation_rate=(1, 1),
           activation=None, use_bias=True, kernel_initializer=None, bias_initializer=initializers.zeros(),
           kernel_regularizer=None, bias_regularizer=None, activity_regularizer=None, kernel_constraint=None,
           bias_constraint=None, trainable=True, name=None, reuse=None):
    """Applies a new 2-D convolution layer to inputs [batch, height, width, channels].

    Args:
        filters: the number of output channels
        kernel_size: the size of the window, an int or a pair
        padding: "valid" or "same"
        data_format: "channels_last" or "channels_first"
        name: the name of the layer and of its variable scope
        reuse: whether to use the variables of an existing layer of this name
    """
    return Conv2D(filters, kernel_size, strides, padding, data_format, dilation_rate, activation, use_bias, kernel_initializer,
                  bias_initializer, kernel_regularizer, bias_regularizer, activity_regularizer, kernel_constraint,
                  bias_constraint, trainable, name, _reuse=reuse, _scope=name).apply(inputs)


def conv3d(inputs, filters, kernel_size, strides=(1, 1, 1), padding="valid", data_format="channels_last",
           dilation_rate=(1, 1, 1), activation=None, use_bias=True, kernel_initializer=None,
           bias_initializer=initializers.zeros(), kernel_regularizer=None, bias_regularizer=None, activity_regularizer=None,
           kernel_constraint=None, bias_constraint=None, trainable=True, name=None, reuse=None):
    """Applies a new 3-D convolution layer to inputs [batch, depth, height, width, channels].

    Args:
        filters: the number of output channels
        kernel_size: the size of the window, an int or three
        padding: "valid" or "same"
        data_format: "channels_last" or "channels_first"
        name: the name of the layer and of its variable scope
        reuse: whether to use the variables of an existing layer of this name
    """
    return Conv3D(filters, kernel_size, strides, padding, data_format, dilation_rate, activation, use_bias, kernel_initializer,
                  bias_initializer, kernel_regularizer, bias_regularizer, activity_regularizer, kernel_constraint,
                  bias_constraint, trainable, name, _reuse=reuse, _scope=name).apply(inputs)


def conv2d_transpose(inputs, filters, kernel_size, strides=(1, 1), padding="valid", data_format="channels_last",
                     activation=None, use_bias=True, kernel_initializer=None, bias_initializer=initializers.zeros(),
                     kernel_regularizer=None, bias_regularizer=None, activity_regularizer=None, kernel_constraint=None,
                     bias_constraint=None, trainable=True, name=None, reuse=None):
    """Applies a new 2-D transposed convolution layer to inputs; the arguments are those of conv2d."""
    return Conv2DTranspose(filters, kernel_size, strides, padding, data_format, activation, use_bias, kernel_initializer,
                           bias_initializer, kernel_regularizer, bias_regularizer, activity_regularizer, kernel_constraint,
                           bias_constraint, trainable, name, _reuse=reuse, _scope=name).apply(inputs)


def conv3d_transpose(inputs, filters, kernel_size, strides=(1, 1, 1), padding="valid", data_format="channels_last",
                     activation=None, use_bias=True, kernel_initializer=None, bias_initializer=initializers.zeros(),
                     kernel_regularizer=None, bias_regularizer=None, activity_regularizer=None, kernel_constraint=None,
                     bias_constraint=None, trainable=True, name=None, reuse=None):
    """Applies a new 3-D transposed convolution layer to inputs; the arguments are those of conv3d."""
    return Conv3DTranspose(filters, kernel_size, strides, padding, data_format, activation, use_bias, kernel_initializer,
                           bias_initializer, kernel_regularizer, bias_regularizer, activity_regularizer, kernel_constraint,
                           bias_constraint, trainable, name, _reuse=reuse, _scope=name).apply(inputs)


def separable_conv1d(inputs, filters, kernel_size, strides=1, padding="valid", data_format="channels_last", dilation_rate=1,
                     depth_multiplier=1, activation=None, use_bias=True, depthwise_initializer=None, pointwise_initializer=None,
                     bias_initializer=initializers.zeros(), depthwise_regularizer=None, pointwise_regularizer=None,
                     bias_regularizer=None, activity_regularizer=None, depthwise_constraint=None, pointwise_constraint=None,
                     bias_constraint=None, trainable=True, name=None, reuse=None):
    """Applies a new 1-D separable convolution layer to inputs.

    depth_multiplier is the number of outputs of each channel before they are mixed; the others are those of conv1d."""
    return SeparableConv1D(filters, kernel_size, strides, padding, data_format, dilation_rate, depth_multiplier, activation,
                           use_bias, depthwise_initializer, pointwise_initializer, bias_initializer, depthwise_regularizer,
                           pointwise_regularizer, bias_regularizer, activity_regularizer, depthwise_constraint,
                           pointwise_constraint, bias_constraint, trainable, name, _reuse=reuse, _scope=name).apply(inputs)


def separable_conv2d(inputs, filters, kernel_size, strides=(1, 1), padding="valid", data_format="channels_last",
                     dilation_rate=(1, 1), depth_multiplier=1, activation=None, use_bias=True, depthwise_initializer=None,
                     pointwise_initializer=None, bias_initializer=initializers.zeros(), depthwise_regularizer=None,
                     pointwise_regularizer=None, bias_regularizer=None, activity_regularizer=None, depthwise_constraint=None,
                     pointwise_constraint=None, bias_constraint=None, trainable=True, name=None, reuse=None):
    """Applies a new 2-D separable convolution layer to inputs.

    depth_multiplier is the number of outputs of each channel before they are mixed; the others are those of conv2d."""
    return SeparableConv2D(filters, kernel_size, strides, padding, data_format, dilation_rate, depth_multiplier, activation,
                           use_bias, depthwise_initializer, pointwise_initializer, bias_initializer, depthwise_regularizer,
                           pointwise_regularizer, bias_regularizer, activity_regularizer, depthwise_constraint,
                           pointwise_constraint, bias_constraint, trainable, name, _reuse=reuse, _scope=name).apply(inputs)


Convolution1D, Convolution2D, Convolution3D = Conv1D, Conv2D, Conv3D
Convolution2DTranspose = Deconvolution2D = Deconv2D = Conv2DTranspose
Convolution3DTranspose = Deconvolution3D = Deconv3D = Conv3DTranspose
SeparableConvolution1D, SeparableConvolution2D = SeparableConv1D, SeparableConv2D
convolution1d, convolution2d, convolution3d, separable_convolution2d = conv1d, conv2d, conv3d, separable_conv2d
convolution2d_transpose = deconvolution2d = deconv2d = conv2d_transpose
convolution3d_transpose = deconvolution3d = deconv3d = conv3d_transpose
