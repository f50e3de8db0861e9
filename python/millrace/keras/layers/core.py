"""Dense, dropout, changes of form, and functions as layers."""

import inspect
import types

import numpy as np

import millrace as tf

from ...framework import shapes
from ...layers import core as base
from ...layers.base import InputSpec
from .. import activations, regularizers
from .. import backend as K
from ..engine.base_layer import Layer, _MaskMakers
from ..utils import generic
from .arguments import data_format as _data_format
from .arguments import resolved


class Dense(base.DenseBase, Layer):
    """A fully connected layer: activation(inputs * kernel + bias)."""

    def __init__(self, units, activation=None, use_bias=True, kernel_initializer="glorot_uniform", bias_initializer="zeros",
                 kernel_regularizer=None, bias_regularizer=None, activity_regularizer=None, kernel_constraint=None,
                 bias_constraint=None, **kwargs):
        super().__init__(units, use_bias=use_bias, **resolved(
            activation=activation, kernel_initializer=kernel_initializer, bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer, bias_regularizer=bias_regularizer, activity_regularizer=activity_regularizer,
            kernel_constraint=kernel_constraint, bias_constraint=bias_constraint), **kwargs)


class Dropout(base.DropoutBase, Layer):
    """A layer that drops a fraction `rate` of its inputs while training."""

    def __init__(self, rate, noise_shape=None, seed=None, **kwargs):
        super().__init__(rate, noise_shape, seed, **kwargs)

    def call(self, inputs, training=None):
        return super().call(inputs, K.learning_phase() if training is None else training)


class _SpatialDropout(Dropout):
    """Drops whole channels."""

    _ndim = None

    def __init__(self, rate, data_format=None, **kwargs):
        super().__init__(rate, **kwargs)
        self.data_format = _data_format(data_format)
        self.input_spec = InputSpec(ndim=self._ndim)

    def _get_noise_shape(self, inputs):
        size, ones = tf.shape(inputs), [1] * (self._ndim - 2)
        first = self.data_format == "channels_first"
        return tf.stack([size[0], size[1]] + ones if first else [size[0]] + ones + [size[self._ndim - 1]])


class SpatialDropout1D(_SpatialDropout):
    """A layer that drops whole channels of sequences while training."""
    _ndim = 3

    def __init__(self, rate, **kwargs):
        super().__init__(rate, "channels_last", **kwargs)


class SpatialDropout2D(_SpatialDropout):
    """A layer that drops whole channels of images while training."""
    _ndim = 4

    def __init__(self, rate, data_format=None, **kwargs):
        super().__init__(rate, data_format, **kwargs)


class SpatialDropout3D(_SpatialDropout):
    """A layer that drops whole channels of volumes while training."""
    _ndim = 5

    def __init__(self, rate, data_format=None, **kwargs):
        super().__init__(rate, data_format, **kwargs)


class Flatten(base.FlattenBase, Layer):
    """A layer that flattens all dimensions but the first."""

    def __init__(self, data_format=None, **kwargs):
        super().__init__(_data_format(data_format), **kwargs)


class Activation(Layer):
    """A layer that applies an activation function."""

    def __init__(self, activation, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking, self.activation = True, activations.get(activation)

    def call(self, inputs):
        return self.activation(inputs)

    def compute_output_shape(self, input_shape):
        return input_shape


class Reshape(Layer):
    """A layer that reshapes each sample to target_shape; one dimension may be -1."""

    def __init__(self, target_shape, **kwargs):
        super().__init__(**kwargs)
        self.target_shape = tuple(target_shape)

    def _sizes(self, known):
        """The shape without the batch, as far as it is known."""
        if -1 not in self.target_shape:
            if None not in known and int(np.prod(known)) != int(np.prod(self.target_shape)):
                raise ValueError("total size of new array must be unchanged: %s as %s" % (tuple(known), self.target_shape))
            return self.target_shape
        rest = int(np.prod([d for d in self.target_shape if d != -1]))
        if None in known:
            return tuple(None if d == -1 else d for d in self.target_shape)
        if self.target_shape.count(-1) > 1:
            raise ValueError("Can only specify one unknown dimension.")
        if rest == 0 or int(np.prod(known)) % rest:
            raise ValueError("total size of new array must be unchanged: %s as %s" % (tuple(known), self.target_shape))
        return tuple(int(np.prod(known)) // rest if d == -1 else d for d in self.target_shape)

    def compute_output_shape(self, input_shape):
        dims = shapes.as_shape(input_shape).as_list()
        return shapes.TensorShape([dims[0]] + list(self._sizes(dims[1:])))

    def call(self, inputs):
        sizes = self._sizes(inputs.shape.as_list()[1:])
        out = tf.reshape(inputs, tf.stack([tf.shape(inputs)[0]] + [-1 if d is None else d for d in sizes]))
        out.set_shape([inputs.shape.as_list()[0]] + list(sizes))
        return out


class Permute(Layer):
    """A layer that permutes the dimensions of each sample; dims counts them from 1."""

    def __init__(self, dims, **kwargs):
        super().__init__(**kwargs)
        self.dims = tuple(dims)
        if sorted(dims) != list(range(1, len(dims) + 1)):
            raise ValueError("Invalid permutation `dims` for Permute Layer: %s. The set of indices in `dims` must be "
                             "consecutive and start from 1." % (dims,))
        self.input_spec = InputSpec(ndim=len(self.dims) + 1)

    def compute_output_shape(self, input_shape):
        dims = shapes.as_shape(input_shape).as_list()
        return shapes.TensorShape([dims[0]] + [dims[d] for d in self.dims])

    def call(self, inputs):
        return tf.transpose(inputs, perm=(0,) + self.dims)


class RepeatVector(Layer):
    """A layer that repeats its input n times along a new second dimension."""

    def __init__(self, n, **kwargs):
        super().__init__(**kwargs)
        self.n, self.input_spec = n, InputSpec(ndim=2)

    def compute_output_shape(self, input_shape):
        dims = shapes.as_shape(input_shape).as_list()
        return shapes.TensorShape([dims[0], self.n, dims[1]])

    def call(self, inputs):
        return K.repeat(inputs, self.n)


class ActivityRegularization(Layer):
    """A layer that passes its input on, and adds its L1 and L2 norms to the loss."""

    def __init__(self, l1=0.0, l2=0.0, **kwargs):
        super().__init__(activity_regularizer=regularizers.L1L2(l1=l1, l2=l2), **kwargs)
        self.supports_masking, self.l1, self.l2 = True, l1, l2

    def compute_output_shape(self, input_shape):
        return input_shape


class Masking(_MaskMakers, Layer):
    """Steps all of whose features are mask_value do not count."""

    def __init__(self, mask_value=0.0, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking, self.mask_value = True, mask_value

    def compute_mask(self, inputs, mask=None):
        return tf.reduce_any(tf.not_equal(inputs, self.mask_value), axis=-1)

    def call(self, inputs):
        counts = tf.reduce_any(tf.not_equal(inputs, self.mask_value), axis=-1, keepdims=True)
        return inputs * tf.cast(counts, inputs.dtype)

    def compute_output_shape(self, input_shape):
        return input_shape


class Lambda(Layer):
    """A function as a layer."""

    def __init__(self, function, output_shape=None, mask=None, arguments=None, **kwargs):
        super().__init__(**kwargs)
        self.function, self.arguments, self.mask = function, arguments or {}, mask
        self._output_shape = output_shape
        self.supports_masking = mask is not None

    def call(self, inputs, mask=None, training=None):
        arguments, wanted = dict(self.arguments), inspect.signature(self.function).parameters
        if "mask" in wanted:
            arguments["mask"] = mask
        if "training" in wanted:
            arguments["training"] = training
        return self.function(inputs, **arguments)

    def compute_mask(self, inputs, mask=None):
        return self.mask(inputs, mask) if callable(self.mask) else self.mask

    def compute_output_shape(self, input_shape):
        if self._output_shape is None:
            return super().compute_output_shape(input_shape)
        if callable(self._output_shape):
            return self._output_shape(input_shape)
        return shapes.TensorShape([shapes.as_shape(input_shape).as_list()[0]] + list(self._output_shape))

    def get_config(self):
        import marshal
        config = {"name": self.name, "trainable": self.trainable, "dtype": self.dtype,
                  "arguments": generic.plain(self.arguments)}
        if isinstance(self.function, types.LambdaType) and self.function.__name__ == "<lambda>":
            free = [c.cell_contents for c in self.function.__closure__ or ()]
            config["function"] = [marshal.dumps(self.function.__code__).hex(), self.function.__defaults__, free]
            config["function_type"] = "lambda"
            config["module"] = self.function.__module__
        else:
            config["function"], config["function_type"] = self.function.__name__, "function"
        if self._output_shape is not None and not callable(self._output_shape):
            config["output_shape"] = tuple(self._output_shape)
        return config

    @classmethod
    def from_config(cls, config, custom_objects=None):
        """Makes a layer from the result of get_config."""
        config = dict(config)
        kind, function, module = config.pop("function_type"), config.pop("function"), config.pop("module", None)
        if kind == "lambda":
            import marshal
            import sys
            code, defaults, free = function
            cells = tuple(types.CellType(v) for v in free)
            around = vars(sys.modules[module]) if module in sys.modules else {"tf": tf, "K": K}
            function = types.FunctionType(marshal.loads(bytes.fromhex(code)), around, "<lambda>",
                                          tuple(defaults) if defaults else None, cells or None)
        else:
            function = generic.find_object(function, None, custom_objects, "function of a Lambda layer")
        return cls(function, **config)


