"""Dense layers, dropout, and changes of form."""

import numpy as np

from .. import initializers
from ..framework import dtypes, shapes
from ..framework.op_defs import raw
from ..framework.sparse import SparseTensor
from ..ops import array, math
from . import utils
from .base import BaseLayer, InputSpec, Layer


def _last_dim(shape, what):
    last = None if shape.ndims is None else shape.as_list()[-1]
    if last is None:
        raise ValueError("The last dimension of the inputs to `%s` should be defined. Found `None`." % what)
    return last


class DenseBase(BaseLayer):
    """activation(inputs * kernel + bias), over the last dimension of the inputs."""

    def __init__(self, units, activation=None, use_bias=True, kernel_initializer=None, bias_initializer=initializers.zeros(),
                 kernel_regularizer=None, bias_regularizer=None, activity_regularizer=None, kernel_constraint=None,
                 bias_constraint=None, trainable=True, name=None, **kwargs):
        super().__init__(trainable=trainable, name=name, activity_regularizer=activity_regularizer, **kwargs)
        self.units = int(units)
        self.activation, self.use_bias = utils.activation(activation), use_bias
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.bias_initializer = initializers.get(bias_initializer)
        self.kernel_regularizer, self.bias_regularizer = kernel_regularizer, bias_regularizer
        self.kernel_constraint, self.bias_constraint = kernel_constraint, bias_constraint
        self.input_spec = InputSpec(min_ndim=2)
        self.supports_masking = True

    def build(self, input_shape):
        dtype = dtypes.as_dtype(self.dtype or dtypes.float32)
        if not (dtype.is_floating or dtype.is_complex):
            raise TypeError("Unable to build `Dense` layer with non-floating point dtype %s" % dtype)
        last = _last_dim(shapes.as_shape(input_shape), "Dense")
        self.input_spec = InputSpec(min_ndim=2, axes={-1: last})
        self.kernel = self.add_weight("kernel", shape=[last, self.units], initializer=self.kernel_initializer, dtype=dtype,
                                      regularizer=self.kernel_regularizer, constraint=self.kernel_constraint, trainable=True)
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight("bias", shape=[self.units], initializer=self.bias_initializer, dtype=dtype,
                                        regularizer=self.bias_regularizer, constraint=self.bias_constraint, trainable=True)
        self.built = True

    def call(self, inputs):
        outputs = self._product(inputs)
        if self.use_bias:
            outputs = raw.bias_add(outputs, self.bias)
        return outputs if self.activation is None else self.activation(outputs)

    def _product(self, inputs):
        if isinstance(inputs, SparseTensor):
            return raw.sparse_tensor_dense_mat_mul(inputs.indices, inputs.values, inputs.dense_shape, self.kernel)
        rank = inputs.shape.ndims
        if rank == 2:
            return raw.mat_mul(inputs, self.kernel)
        outputs = math.tensordot(inputs, self.kernel, [[rank - 1], [0]])
        outputs.set_shape(inputs.shape.as_list()[:-1] + [self.units])
        return outputs

    def compute_output_shape(self, input_shape):
        input_shape = shapes.as_shape(input_shape).with_rank_at_least(2)
        if input_shape.as_list()[-1] is None:
            raise ValueError("The innermost dimension of input_shape must be defined, but saw: %s" % input_shape)
        return input_shape[:-1].concatenate(self.units)


class DropoutBase(BaseLayer):
    """Sets a part of the inputs to zero while training, and makes the others larger in turn."""

    def __init__(self, rate=0.5, noise_shape=None, seed=None, name=None, **kwargs):
        super().__init__(name=name, **kwargs)
        self.rate, self.noise_shape, self.seed = rate, noise_shape, seed
        self.supports_masking = True

    def _get_noise_shape(self, inputs):
        if self.noise_shape is None or not isinstance(self.noise_shape, (list, tuple)):
            return self.noise_shape
        known = array.shape(inputs)
        return [known[i] if d is None else d for i, d in enumerate(self.noise_shape)]

    def call(self, inputs, training=False):
        from .. import nn

        def dropped():
            return nn.dropout(inputs, noise_shape=self._get_noise_shape(inputs), seed=self.seed, rate=self.rate)

        return utils.smart_cond(training, dropped, lambda: array.identity(inputs))

    def compute_output_shape(self, input_shape):
        return input_shape


class FlattenBase(BaseLayer):
    """Flattens all dimensions but the first."""

    def __init__(self, data_format=None, **kwargs):
        super().__init__(**kwargs)
        self.data_format = utils.normalize_data_format(data_format)
        self.input_spec = InputSpec(min_ndim=1)

    def call(self, inputs):
        if self.data_format == "channels_first" and inputs.shape.ndims and inputs.shape.ndims > 1:
            inputs = array.transpose(inputs, [0] + list(range(2, inputs.shape.ndims)) + [1])
        size = self.compute_output_shape(inputs.shape).as_list()
        if size[1] is not None:
            outputs = array.reshape(inputs, [-1, size[1]] if size[0] is None else size)
        else:
            outputs = array.reshape(inputs, array.stack([array.shape(inputs)[0], -1]))
        outputs.set_shape(size)
        return outputs

    def compute_output_shape(self, input_shape):
        dims = shapes.as_shape(input_shape).as_list()
        rest = dims[1:]
        return shapes.TensorShape([dims[0], None if None in rest else int(np.prod(rest, dtype=np.int64))])


class Dense(DenseBase, Layer):
    """A fully connected layer: activation(inputs * kernel + bias)."""


class Dropout(DropoutBase, Layer):
    """A layer that drops a fraction of its inputs while training."""


class Flatten(FlattenBase, Layer):
    """A layer that flattens all dimensions but the first."""


FullyConnected = Dense


def dense(inputs, units, activation=None, use_bias=True, kernel_initializer=None, bias_initializer=initializers.zeros(),
          kernel_regularizer=None, bias_regularizer=None, activity_regularizer=None, kernel_constraint=None,
          bias_constraint=None, trainable=True, name=None, reuse=None):
    """Applies a new fully connected layer to inputs.

    Args:
        units: the size of the output
        activation: a function applied to the output, or None
        name: the name of the layer and of its variable scope
        reuse: whether to use the variables of an existing layer of this name
    """
    layer = Dense(units, activation, use_bias, kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer,
                  activity_regularizer, kernel_constraint, bias_constraint, trainable, name, _scope=name, _reuse=reuse)
    return layer.apply(inputs)


fully_connected = dense


def dropout(inputs, rate=0.5, noise_shape=None, seed=None, training=False, name=None):
    """Drops a fraction `rate` of the inputs if training is true, and scales the others so that the mean stays."""
    return Dropout(rate, noise_shape, seed, name).apply(inputs, training=training)


def flatten(inputs, name=None, data_format="channels_last"):
    """Flattens all dimensions but the first."""
    return Flatten(name=name, data_format=data_format).apply(inputs)
