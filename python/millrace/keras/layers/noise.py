"""Noise that is there in training only."""

import math

import millrace as tf

from .. import backend as K
from ..engine.base_layer import Layer


class _Noise(Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs, training=None):
        return K.in_train_phase(lambda: self._noised(inputs), lambda: tf.identity(inputs), training=training)

    def compute_output_shape(self, input_shape):
        return input_shape


class GaussianNoise(_Noise):
    """A layer that adds normal noise while training."""

    def __init__(self, stddev, **kwargs):
        super().__init__(**kwargs)
        self.stddev = stddev

    def _noised(self, inputs):
        return inputs + tf.random_normal(tf.shape(inputs), 0.0, self.stddev, dtype=inputs.dtype)


class GaussianDropout(_Noise):
    """A layer that multiplies by normal noise around 1 while training."""

    def __init__(self, rate, **kwargs):
        super().__init__(**kwargs)
        self.rate = rate

    def _noised(self, inputs):
        if not 0 < self.rate < 1:
            return tf.identity(inputs)
        return inputs * tf.random_normal(tf.shape(inputs), 1.0, math.sqrt(self.rate / (1.0 - self.rate)), dtype=inputs.dtype)


class AlphaDropout(_Noise):
    """Dropout that keeps mean and variance of what selu gives."""

    def __init__(self, rate, noise_shape=None, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.rate, self.noise_shape, self.seed = rate, noise_shape, seed

    def _noised(self, inputs):
        if not 0.0 < self.rate < 1.0:
            return tf.identity(inputs)
        low = -1.6732632423543772848170429916717 * 1.0507009873554804934193349852946
        size = tf.shape(inputs) if self.noise_shape is None else tf.stack(
            [tf.shape(inputs)[i] if d is None else d for i, d in enumerate(self.noise_shape)])
        kept = tf.cast(tf.random_uniform(size, seed=self.seed) >= self.rate, inputs.dtype)
        a = ((1 - self.rate) * (1 + self.rate * low ** 2)) ** -0.5
        return a * (inputs * kept + low * (1 - kept)) - a * low * self.rate
