"""Pooling: over windows, or over all places."""

import millrace as tf

from ...framework import shapes
from ...layers import pooling as base
from ...layers.base import InputSpec
from ..engine.base_layer import Layer
from .arguments import data_format as _data_format

_REDUCTIONS = {"Max": "largest element", "Ave": "mean"}


def _windowed(kernel_base, name, rank):
    def __init__(self, pool_size=2 if rank == 1 else (2,) * rank, strides=None, padding="valid", data_format=None, **kwargs):
        fmt = _data_format(data_format) if rank > 1 else data_format or "channels_last"
        kernel_base.__init__(self, pool_size, strides, padding, fmt, **kwargs)

    doc = "A layer that computes the %s of each window, in %d-D; strides are pool_size by default." % (
        _REDUCTIONS[name[:3]], rank)
    return type(name, (kernel_base, Layer), {"__init__": __init__, "__module__": __name__, "__doc__": doc})


MaxPooling1D, MaxPooling2D, MaxPooling3D = (
    _windowed(getattr(base, "MaxPooling%dDBase" % n), "MaxPooling%dD" % n, n) for n in (1, 2, 3))
AveragePooling1D, AveragePooling2D, AveragePooling3D = (
    _windowed(getattr(base, "AveragePooling%dDBase" % n), "AveragePooling%dD" % n, n) for n in (1, 2, 3))


class _Global(Layer):
    """One value a channel."""

    rank = None

    def __init__(self, data_format=None, **kwargs):
        super().__init__(**kwargs)
        self.data_format = _data_format(data_format)
        self.input_spec = InputSpec(ndim=self.rank + 2)

    def _axes(self):
        return list(range(2, self.rank + 2) if self.data_format == "channels_first" else range(1, self.rank + 1))

    def compute_output_shape(self, input_shape):
        dims = shapes.as_shape(input_shape).as_list()
        return shapes.TensorShape([dims[0], dims[1] if self.data_format == "channels_first" else dims[-1]])


def _global(name, rank, reduce):
    def __init__(self, data_format=None, **kwargs):
        _Global.__init__(self, data_format, **kwargs)

    def call(self, inputs):
        """Reduces all positions to one."""
        return reduce(inputs, axis=self._axes())

    doc = "A layer that computes the %s of each channel of %d-D inputs." % (_REDUCTIONS[name[6:9]], rank)
    return type(name, (_Global,), {"rank": rank, "call": call, "__init__": __init__, "__module__": __name__,
                                   "__doc__": doc})


GlobalMaxPooling1D, GlobalMaxPooling2D, GlobalMaxPooling3D = (
    _global("GlobalMaxPooling%dD" % n, n, tf.reduce_max) for n in (1, 2, 3))
GlobalAveragePooling2D, GlobalAveragePooling3D = (_global("GlobalAveragePooling%dD" % n, n, tf.reduce_mean) for n in (2, 3))


class GlobalAveragePooling1D(_Global):
    """The mean over the steps that count."""

    rank = 1

    def __init__(self, data_format="channels_last", **kwargs):
        super().__init__(data_format, **kwargs)
        self.supports_masking = True

    def call(self, inputs, mask=None):
        axis = self._axes()[0]
        if mask is None:
            return tf.reduce_mean(inputs, axis=axis)
        mask = tf.expand_dims(tf.cast(mask, inputs.dtype), 2 if axis == 1 else 1)
        return tf.reduce_sum(inputs * mask, axis=axis) / tf.reduce_sum(mask, axis=axis)

    def compute_mask(self, inputs, mask=None):
        return None
