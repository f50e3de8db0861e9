"""Convolutions, and layers that change the size of images."""

import millrace as tf

from ...framework import shapes
from ...layers import convolutional as base
from ...layers import utils
from ...layers.base import InputSpec
from .. import backend as K
from ..engine.base_layer import Layer
from .arguments import data_format as _data_format
from .arguments import resolved


def _conv(kernel_base, name, one):
    """A class of Keras from one of the computing classes; `one` is the default for strides and dilation."""
    def __init__(self, filters, kernel_size, strides=one, padding="valid", data_format=None, dilation_rate=one, activation=None,
                 use_bias=True, kernel_initializer="glorot_uniform", bias_initializer="zeros", kernel_regularizer=None,
                 bias_regularizer=None, activity_regularizer=None, kernel_constraint=None, bias_constraint=None, **kwargs):
        fmt = _data_format(data_format) if kernel_base is not base.Conv1DBase else data_format or "channels_last"
        kernel_base.__init__(self, filters, kernel_size, strides, padding, fmt, dilation_rate, use_bias=use_bias, **resolved(
            activation=activation, kernel_initializer=kernel_initializer, bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer, bias_regularizer=bias_regularizer, activity_regularizer=activity_regularizer,
            kernel_constraint=kernel_constraint, bias_constraint=bias_constraint), **kwargs)

    doc = "A %s-D convolution layer, with bias and activation." % name[4]
    return type(name, (kernel_base, Layer), {"__init__": __init__, "__module__": __name__, "__doc__": doc})


Conv1D = _conv(base.Conv1DBase, "Conv1D", 1)
Conv2D = _conv(base.Conv2DBase, "Conv2D", (1, 1))
Conv3D = _conv(base.Conv3DBase, "Conv3D", (1, 1, 1))


class Conv2DTranspose(base.Conv2DTransposeBase, Layer):
    """A 2-D transposed convolution layer, also called a deconvolution."""

    def __init__(self, filters, kernel_size, strides=(1, 1), padding="valid", output_padding=None, data_format=None,
                 dilation_rate=(1, 1), activation=None, use_bias=True, kernel_initializer="glorot_uniform",
                 bias_initializer="zeros", kernel_regularizer=None, bias_regularizer=None, activity_regularizer=None,
                 kernel_constraint=None, bias_constraint=None, **kwargs):
        super().__init__(filters, kernel_size, strides=strides, padding=padding, data_format=_data_format(data_format),
                         use_bias=use_bias, output_padding=output_padding, dilation_rate=dilation_rate, **resolved(
            activation=activation, kernel_initializer=kernel_initializer, bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer, bias_regularizer=bias_regularizer, activity_regularizer=activity_regularizer,
            kernel_constraint=kernel_constraint, bias_constraint=bias_constraint), **kwargs)


class Conv3DTranspose(base.Conv3DTransposeBase, Layer):
    """A 3-D transposed convolution layer, also called a deconvolution."""

    def __init__(self, filters, kernel_size, strides=(1, 1, 1), padding="valid", output_padding=None, data_format=None,
                 activation=None, use_bias=True, kernel_initializer="glorot_uniform", bias_initializer="zeros",
                 kernel_regularizer=None, bias_regularizer=None, activity_regularizer=None, kernel_constraint=None,
                 bias_constraint=None, **kwargs):
        super().__init__(filters, kernel_size, strides=strides, padding=padding, data_format=_data_format(data_format),
                         use_bias=use_bias, output_padding=output_padding, **resolved(
            activation=activation, kernel_initializer=kernel_initializer, bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer, bias_regularizer=bias_regularizer, activity_regularizer=activity_regularizer,
            kernel_constraint=kernel_constraint, bias_constraint=bias_constraint), **kwargs)


def _separable(kernel_base, name, one):
    def __init__(self, filters, kernel_size, strides=one, padding="valid", data_format=None, dilation_rate=one,
                 depth_multiplier=1, activation=None, use_bias=True, depthwise_initializer="glorot_uniform",
                 pointwise_initializer="glorot_uniform", bias_initializer="zeros", depthwise_regularizer=None,
                 pointwise_regularizer=None, bias_regularizer=None, activity_regularizer=None, depthwise_constraint=None,
                 pointwise_constraint=None, bias_constraint=None, **kwargs):
        kernel_base.__init__(
            self, filters, kernel_size, strides, padding, _data_format(data_format), dilation_rate, depth_multiplier,
            use_bias=use_bias, **resolved(
                activation=activation, depthwise_initializer=depthwise_initializer, pointwise_initializer=pointwise_initializer,
                bias_initializer=bias_initializer, depthwise_regularizer=depthwise_regularizer,
                pointwise_regularizer=pointwise_regularizer, bias_regularizer=bias_regularizer,
                activity_regularizer=activity_regularizer, depthwise_constraint=depthwise_constraint,
                pointwise_constraint=pointwise_constraint, bias_constraint=bias_constraint), **kwargs)

    doc = "A layer that convolves each channel separately in %s-D, then mixes the channels." % name[13]
    return type(name, (kernel_base, Layer), {"__init__": __init__, "__module__": __name__, "__doc__": doc})


SeparableConv1D = _separable(base.SeparableConv1DBase, "SeparableConv1D", 1)
SeparableConv2D = _separable(base.SeparableConv2DBase, "SeparableConv2D", (1, 1))


class DepthwiseConv2D(base.DepthwiseConv2DBase, Layer):
    """A layer that convolves each channel separately, without mixing them."""

    def __init__(self, kernel_size, strides=(1, 1), padding="valid", depth_multiplier=1, data_format=None, activation=None,
                 use_bias=True, depthwise_initializer="glorot_uniform", bias_initializer="zeros", depthwise_regularizer=None,
                 bias_regularizer=None, activity_regularizer=None, depthwise_constraint=None, bias_constraint=None,
                 dilation_rate=(1, 1), **kwargs):
        super().__init__(kernel_size, strides, padding, depth_multiplier, _data_format(data_format), dilation_rate,
                         use_bias=use_bias, **resolved(
            activation=activation, depthwise_initializer=depthwise_initializer, bias_initializer=bias_initializer,
            depthwise_regularizer=depthwise_regularizer, bias_regularizer=bias_regularizer,
            activity_regularizer=activity_regularizer, depthwise_constraint=depthwise_constraint,
            bias_constraint=bias_constraint), **kwargs)


# ---- layers whose weights are not shared between places ----

class _LocallyConnected(Layer):
    rank = None

    def __init__(self, filters, kernel_size, strides=1, padding="valid", data_format=None, activation=None, use_bias=True,
                 kernel_initializer="glorot_uniform", bias_initializer="zeros", kernel_regularizer=None, bias_regularizer=None,
                 activity_regularizer=None, kernel_constraint=None, bias_constraint=None, implementation=1, **kwargs):
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        if padding.lower() != "valid" or implementation != 1:
            raise ValueError("Invalid border mode for %s (only \"valid\" is supported if implementation is 1): %s" %
                             (type(self).__name__, padding))
        self.filters, self.padding, self.use_bias, self.implementation = filters, padding, use_bias, implementation
        self.kernel_size = utils.normalize_tuple(kernel_size, self.rank, "kernel_size")
        self.strides = utils.normalize_tuple(strides, self.rank, "strides")
        self.data_format = _data_format(data_format)
        self.__dict__.update(resolved(
            activation=activation, kernel_initializer=kernel_initializer, bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer, bias_regularizer=bias_regularizer, kernel_constraint=kernel_constraint,
            bias_constraint=bias_constraint))
        self.input_spec = InputSpec(ndim=self.rank + 2)

    def _space(self, dims):
        first = self.data_format == "channels_first"
        given = dims[2:] if first else dims[1:-1]
        if None in given:
            raise ValueError("The spatial dimensions of the inputs to %s should be fully-defined, but layer received the "
                             "inputs shape %s" %
                             (type(self).__name__, dims))
        return [(d - k) // s + 1 for d, k, s in zip(given, self.kernel_size, self.strides)], dims[1 if first else -1]

    def build(self, input_shape):
        space, channels = self._space(shapes.as_shape(input_shape).as_list())
        places = window = 1
        for n, k in zip(space, self.kernel_size):
            places, window = places * n, window * k
        self.kernel = self.add_weight("kernel", shape=(places, window * channels, self.filters),
                                      initializer=self.kernel_initializer, regularizer=self.kernel_regularizer,
                                      constraint=self.kernel_constraint)
        self.bias = self.add_weight("bias", shape=tuple(space) + (self.filters,), initializer=self.bias_initializer,
                                    regularizer=self.bias_regularizer,
                                    constraint=self.bias_constraint) if self.use_bias else None
        self.built = True

    def call(self, inputs):
        out = K.local_conv(inputs, self.kernel, self.kernel_size, self.strides, None, self.data_format)
        if self.use_bias:
            out = K.bias_add(out, self.bias, data_format=self.data_format)
        return self.activation(out)

    def compute_output_shape(self, input_shape):
        dims = shapes.as_shape(input_shape).as_list()
        space, _ = self._space(dims)
        return shapes.TensorShape([dims[0], self.filters] + space if self.data_format == "channels_first" else
                                  [dims[0]] + space + [self.filters])


class LocallyConnected1D(_LocallyConnected):
    """A 1-D convolution layer with separate weights for each position."""
    rank = 1
    __init__ = _LocallyConnected.__init__


class LocallyConnected2D(_LocallyConnected):
    """A 2-D convolution layer with separate weights for each position."""
    rank = 2
    __init__ = _LocallyConnected.__init__


# ---- sizes ----

def _pairs(value, rank, name):
    """Two numbers for each dimension, from one number, one a dimension, or all of them."""
    if isinstance(value, int):
        return ((value, value),) * rank
    if rank == 1:
        return (tuple(utils.normalize_tuple(value, 2, name)),)
    if len(value) != rank:
        raise ValueError("`%s` should have %d elements. Found: %s" % (name, rank, value))
    return tuple((v, v) if isinstance(v, int) else tuple(utils.normalize_tuple(v, 2, name)) for v in value)


class _Resized(Layer):
    """A layer along the dimensions of space."""

    rank = None

    def _at(self, dims):
        return range(2, 2 + self.rank) if self.data_format == "channels_first" else range(1, 1 + self.rank)

    def compute_output_shape(self, input_shape):
        dims = shapes.as_shape(input_shape).as_list()
        for i, axis in enumerate(self._at(dims)):
            dims[axis] = None if dims[axis] is None else self._resized(i, dims[axis])
        return shapes.TensorShape(dims)


def _zero_padding(rank_):
    class ZeroPadding(_Resized):
        rank = rank_

        def __init__(self, padding=1 if rank_ == 1 else (1,) * rank_, data_format=None, **kwargs):
            super().__init__(**kwargs)
            self.data_format = _data_format(data_format) if rank_ > 1 else "channels_last"
            self._pads = _pairs(padding, rank_, "padding")
            self.padding = self._pads[0] if rank_ == 1 else self._pads
            self.input_spec = InputSpec(ndim=rank_ + 2)

        def _resized(self, i, d):
            return d + sum(self._pads[i])

        def call(self, inputs):
            """Adds the zeros."""
            pads = [[0, 0] for _ in range(rank_ + 2)]
            for axis, p in zip(self._at(None), self._pads):
                pads[axis] = list(p)
            return tf.pad(inputs, pads)

    return _named(ZeroPadding, "ZeroPadding%dD" % rank_, "A layer that adds zeros around %d-D inputs." % rank_)


def _cropping(rank_):
    class Cropping(_Resized):
        rank = rank_

        def __init__(self, cropping=(1, 1) if rank_ == 1 else ((0, 0) if rank_ == 2 else (1, 1, 1)), data_format=None,
                     **kwargs):
            super().__init__(**kwargs)
            self.data_format = _data_format(data_format) if rank_ > 1 else "channels_last"
            self._cuts = _pairs(cropping, rank_, "cropping")
            self.cropping = self._cuts[0] if rank_ == 1 else self._cuts
            self.input_spec = InputSpec(ndim=rank_ + 2)

        def _resized(self, i, d):
            return d - sum(self._cuts[i])

        def call(self, inputs):
            """Cuts off the edges."""
            key = [slice(None)] * (rank_ + 2)
            for axis, (a, b) in zip(self._at(None), self._cuts):
                key[axis] = slice(a, -b if b else None)
            return inputs[tuple(key)]

    return _named(Cropping, "Cropping%dD" % rank_, "A layer that cuts elements off the edges of %d-D inputs." % rank_)


def _named(cls, name, doc):
    cls.__name__ = cls.__qualname__ = name
    cls.__doc__ = doc
    return cls


ZeroPadding1D, ZeroPadding2D, ZeroPadding3D = (_zero_padding(n) for n in (1, 2, 3))
Cropping1D, Cropping2D, Cropping3D = (_cropping(n) for n in (1, 2, 3))


class UpSampling1D(_Resized):
    """A layer that repeats each time step `size` times."""
    rank, data_format = 1, "channels_last"

    def __init__(self, size=2, **kwargs):
        super().__init__(**kwargs)
        self.size, self.input_spec = int(size), InputSpec(ndim=3)

    def _resized(self, i, d):
        return d * self.size

    def call(self, inputs):
        return K.repeat_elements(inputs, self.size, axis=1)


class UpSampling2D(_Resized):
    """A layer that enlarges images by integer factors; interpolation is "nearest" or "bilinear"."""
    rank = 2

    def __init__(self, size=(2, 2), data_format=None, interpolation="nearest", **kwargs):
        super().__init__(**kwargs)
        if interpolation not in ("nearest", "bilinear"):
            raise ValueError('`interpolation` argument should be one of `"nearest"` or `"bilinear"`.')
        self.size, self.data_format = utils.normalize_tuple(size, 2, "size"), _data_format(data_format)
        self.interpolation, self.input_spec = interpolation, InputSpec(ndim=4)

    def _resized(self, i, d):
        return d * self.size[i]

    def call(self, inputs):
        return K.resize_images(inputs, self.size[0], self.size[1], self.data_format, interpolation=self.interpolation)


class UpSampling3D(_Resized):
    """A layer that enlarges volumes by integer factors, repeating elements."""
    rank = 3

    def __init__(self, size=(2, 2, 2), data_format=None, **kwargs):
        super().__init__(**kwargs)
        self.size, self.data_format = utils.normalize_tuple(size, 3, "size"), _data_format(data_format)
        self.input_spec = InputSpec(ndim=5)

    def _resized(self, i, d):
        return d * self.size[i]

    def call(self, inputs):
        return K.resize_volumes(inputs, self.size[0], self.size[1], self.size[2], self.data_format)
