"""Activations that have parameters."""

import numpy as np

import millrace as tf

from ...framework import shapes
from ...framework.op_defs import raw
from ...layers.base import InputSpec
from .. import backend as K
from ..engine.base_layer import Layer
from .arguments import resolved


class _Elementwise(Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def compute_output_shape(self, input_shape):
        return input_shape


class LeakyReLU(_Elementwise):
    """A layer that multiplies negative inputs by alpha."""

    def __init__(self, alpha=0.3, **kwargs):
        super().__init__(**kwargs)
        self.alpha = float(alpha)

    def call(self, inputs):
        return raw.leaky_relu(inputs, alpha=self.alpha)


class PReLU(_Elementwise):
    """The slope below zero is learnt, for each feature or shared along axes."""

    def __init__(self, alpha_initializer="zeros", alpha_regularizer=None, alpha_constraint=None, shared_axes=None, **kwargs):
        super().__init__(**kwargs)
        self.__dict__.update(resolved(alpha_initializer=alpha_initializer, alpha_regularizer=alpha_regularizer,
                                      alpha_constraint=alpha_constraint))
        self.shared_axes = None if shared_axes is None else list(np.atleast_1d(shared_axes).tolist())

    def build(self, input_shape):
        dims = shapes.as_shape(input_shape).as_list()
        size = [1 if i in (self.shared_axes or ()) else d for i, d in enumerate(dims)][1:]
        self.alpha = self.add_weight("alpha", shape=size, initializer=self.alpha_initializer,
                                     regularizer=self.alpha_regularizer, constraint=self.alpha_constraint)
        self.input_spec = InputSpec(ndim=len(dims), axes={i: dims[i] for i in range(1, len(dims))
                                                          if i not in (self.shared_axes or ())})
        self.built = True

    def call(self, inputs):
        return raw.relu(inputs) - self.alpha * raw.relu(-inputs)


class ELU(_Elementwise):
    """A layer that computes x where it is positive, and alpha * (exp(x) - 1) elsewhere."""

    def __init__(self, alpha=1.0, **kwargs):
        super().__init__(**kwargs)
        self.alpha = float(alpha)

    def call(self, inputs):
        return K.elu(inputs, self.alpha)


class ThresholdedReLU(_Elementwise):
    """A layer that sets inputs that are not above theta to 0."""

    def __init__(self, theta=1.0, **kwargs):
        super().__init__(**kwargs)
        self.theta = float(theta)

    def call(self, inputs):
        return inputs * tf.cast(tf.greater(inputs, self.theta), inputs.dtype)


class Softmax(_Elementwise):
    """A layer that computes the softmax along an axis."""

    def __init__(self, axis=-1, **kwargs):
        super().__init__(**kwargs)
        self.axis = axis

    def call(self, inputs):
        return K.softmax(inputs, axis=self.axis)


class ReLU(_Elementwise):
    """A layer that computes max(x, 0), with a largest value, a slope below the threshold, and a threshold."""

    def __init__(self, max_value=None, negative_slope=0, threshold=0, **kwargs):
        super().__init__(**kwargs)
        if max_value is not None and max_value < 0.0:
            raise ValueError("max_value of Relu layer cannot be negative value: " + str(max_value))
        if negative_slope < 0.0:
            raise ValueError("negative_slope of Relu layer cannot be negative value: " + str(negative_slope))
        self.max_value, self.negative_slope, self.threshold = max_value, negative_slope, threshold

    def call(self, inputs):
        return K.relu(inputs, alpha=self.negative_slope, max_value=self.max_value, threshold=self.threshold)
