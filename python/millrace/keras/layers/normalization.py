"""Normalization over batches and over features."""

import millrace as tf

from ...framework import shapes
from ...layers import normalization as base
from .. import backend as K
from ..engine.base_layer import Layer
from .arguments import resolved


class BatchNormalization(base.BatchNormalizationBase, Layer):
    """A layer that normalizes its inputs by the mean and variance of each batch."""

    def __init__(self, axis=-1, momentum=0.99, epsilon=1e-3, center=True, scale=True, beta_initializer="zeros",
                 gamma_initializer="ones", moving_mean_initializer="zeros", moving_variance_initializer="ones",
                 beta_regularizer=None, gamma_regularizer=None, beta_constraint=None, gamma_constraint=None, renorm=False,
                 renorm_clipping=None, renorm_momentum=0.99, fused=None, trainable=True, virtual_batch_size=None,
                 adjustment=None, name=None, **kwargs):
        self._fused_asked = fused
        super().__init__(axis, momentum, epsilon, center, scale, renorm=renorm, renorm_clipping=renorm_clipping,
                         renorm_momentum=renorm_momentum, fused=fused, trainable=trainable,
                         virtual_batch_size=virtual_batch_size, adjustment=adjustment, name=name, **resolved(
            beta_initializer=beta_initializer, gamma_initializer=gamma_initializer,
            moving_mean_initializer=moving_mean_initializer, moving_variance_initializer=moving_variance_initializer,
            beta_regularizer=beta_regularizer, gamma_regularizer=gamma_regularizer, beta_constraint=beta_constraint,
            gamma_constraint=gamma_constraint), **kwargs)

    def call(self, inputs, training=None):
        return super().call(inputs, K.learning_phase() if training is None else training)

    def get_config(self):
        config = super().get_config()
        config["fused"] = self._fused_asked
        return config


class LayerNormalization(Layer):
    """A layer that normalizes each sample by its mean and variance over the given axes."""

    def __init__(self, axis=-1, epsilon=1e-3, center=True, scale=True, beta_initializer="zeros", gamma_initializer="ones",
                 beta_regularizer=None, gamma_regularizer=None, beta_constraint=None, gamma_constraint=None, trainable=True,
                 name=None, **kwargs):
        super().__init__(name=name, trainable=trainable, **kwargs)
        self.axis, self.epsilon, self.center, self.scale, self.supports_masking = axis, epsilon, center, scale, True
        self.__dict__.update(resolved(beta_initializer=beta_initializer, gamma_initializer=gamma_initializer,
                                      beta_regularizer=beta_regularizer, gamma_regularizer=gamma_regularizer,
                                      beta_constraint=beta_constraint, gamma_constraint=gamma_constraint))

    def build(self, input_shape):
        dims = shapes.as_shape(input_shape).as_list()
        axes = [self.axis] if isinstance(self.axis, int) else list(self.axis)
        self._axes = [a % len(dims) for a in axes]
        size = [dims[a] for a in self._axes]
        self._wide = [dims[i] if i in self._axes else 1 for i in range(len(dims))]
        self.gamma = self.add_weight("gamma", shape=size, initializer=self.gamma_initializer,
                                     regularizer=self.gamma_regularizer,
                                     constraint=self.gamma_constraint) if self.scale else None
        self.beta = self.add_weight("beta", shape=size, initializer=self.beta_initializer, regularizer=self.beta_regularizer,
                                    constraint=self.beta_constraint) if self.center else None
        self.built = True

    def call(self, inputs):
        mean = tf.reduce_mean(inputs, axis=self._axes, keepdims=True)
        variance = tf.reduce_mean(tf.squared_difference(inputs, tf.stop_gradient(mean)), axis=self._axes, keepdims=True)
        out = (inputs - mean) * tf.rsqrt(variance + self.epsilon)
        if self.gamma is not None:
            out = out * tf.reshape(self.gamma, self._wide)
        return out if self.beta is None else out + tf.reshape(self.beta, self._wide)

    def compute_output_shape(self, input_shape):
        return input_shape
