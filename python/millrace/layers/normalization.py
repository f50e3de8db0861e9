"""Batch normalization."""

import math as pymath

from .. import initializers
from ..framework import convert, dtypes, ops, shapes
from ..framework.op_defs import raw
from ..ops import array, math, state
from . import utils
from .base import BaseLayer, InputSpec, Layer


class BatchNormalizationBase(BaseLayer):
    """Shifts and scales its inputs so that each channel has mean `beta` and deviation `gamma` in a batch; outside of training
    by averages over the batches of training.  Operations that update these averages are the layer's updates.

    Where it can, one op does it all (fused): four dimensions, channels last or second.
    """

    def __init__(self, axis=-1, momentum=0.99, epsilon=1e-3, center=True, scale=True, beta_initializer=initializers.zeros(),
                 gamma_initializer=initializers.ones(), moving_mean_initializer=initializers.zeros(),
                 moving_variance_initializer=initializers.ones(), beta_regularizer=None, gamma_regularizer=None,
                 beta_constraint=None, gamma_constraint=None, renorm=False, renorm_clipping=None, renorm_momentum=0.99,
                 fused=None, trainable=True, virtual_batch_size=None, adjustment=None, name=None, **kwargs):
        super().__init__(name=name, trainable=trainable, **kwargs)
        self.axis = list(axis) if isinstance(axis, (list, tuple)) else axis
        self.momentum, self.epsilon, self.center, self.scale = momentum, epsilon, center, scale
        self.beta_initializer, self.gamma_initializer = initializers.get(beta_initializer), initializers.get(gamma_initializer)
        self.moving_mean_initializer = initializers.get(moving_mean_initializer)
        self.moving_variance_initializer = initializers.get(moving_variance_initializer)
        self.beta_regularizer, self.gamma_regularizer = beta_regularizer, gamma_regularizer
        self.beta_constraint, self.gamma_constraint = beta_constraint, gamma_constraint
        self.renorm, self.renorm_momentum, self.renorm_clipping = renorm, renorm_momentum, renorm_clipping or {}
        self.adjustment, self.virtual_batch_size = adjustment, virtual_batch_size
        self.supports_masking = True
        unknown = set(self.renorm_clipping) - {"rmax", "rmin", "dmax"}
        if unknown:
            raise ValueError("renorm_clipping %s contains keys not in %s" % (renorm_clipping, ["dmax", "rmax", "rmin"]))
        if virtual_batch_size is not None:
            raise NotImplementedError("tf.layers.BatchNormalization: virtual_batch_size")
        if fused and (renorm or adjustment is not None):
            raise ValueError("Passing both fused=True and %s is not supported" % ("renorm=True" if renorm else "`adjustment`"))
        self._fused_asked = False if renorm or adjustment is not None else fused
        self.fused = self._fused_asked

    # ---- building ----

    def _find_axes(self, shape):
        axes = self.axis if isinstance(self.axis, list) else [self.axis]
        axes = [a + shape.ndims if a < 0 else a for a in axes]
        for a in axes:
            if a < 0 or a >= shape.ndims:
                raise ValueError("Invalid axis: %d" % a)
        if len(set(axes)) != len(axes):
            raise ValueError("Duplicate axis: %s" % axes)
        self.axis = axes

    def _decide_fused(self, shape):
        can = shape.ndims == 4 and self.axis in ([1], [3])
        if self._fused_asked and not can:
            raise ValueError("Batch normalization layers support fused operations only for 4 dimensional inputs with axis 1 or "
                             "3; got %d dimensions and axis %s" % (shape.ndims, self.axis))
        self.fused = can if self._fused_asked is None else bool(self._fused_asked)
        self._data_format = "NCHW" if self.axis == [1] else "NHWC"

    def build(self, input_shape):
        shape = shapes.as_shape(input_shape)
        if not shape.ndims:
            raise ValueError("Input has undefined rank: %s" % shape)
        self._find_axes(shape)
        self._decide_fused(shape)
        dims = {a: shape.as_list()[a] for a in self.axis}
        if None in dims.values():
            raise ValueError("Input has undefined `axis` dimension. Input shape: %s" % shape)
        self.input_spec = InputSpec(ndim=shape.ndims, axes=dims)
        if len(dims) == 1:
            size = (dims[self.axis[0]],)
        else:
            size = tuple(dims.get(i, 1) for i in range(shape.ndims))
        self._add_weights(size)
        self.built = True

    @property
    def _param_dtype(self):
        return dtypes.float32 if self.dtype in (None, "float16", "bfloat16") else dtypes.as_dtype(self.dtype)

    def _add_weights(self, size):
        def weight(name, initializer, trainable=False, regularizer=None, constraint=None):
            return self.add_weight(name, shape=size, dtype=self._param_dtype, initializer=initializer, regularizer=regularizer,
                                   constraint=constraint, trainable=trainable)

        self.gamma = self.beta = None
        if self.scale:
            self.gamma = weight("gamma", self.gamma_initializer, True, self.gamma_regularizer, self.gamma_constraint)
        if self.center:
            self.beta = weight("beta", self.beta_initializer, True, self.beta_regularizer, self.beta_constraint)
        self.moving_mean = weight("moving_mean", self.moving_mean_initializer)
        self.moving_variance = weight("moving_variance", self.moving_variance_initializer)
        if self.renorm:
            self.renorm_mean = weight("renorm_mean", initializers.zeros())
            self.renorm_stddev = weight("renorm_stddev", initializers.ones())

    # ---- calling ----

    def call(self, inputs, training=False):
        if self.fused:
            return self._fused(inputs, training)
        return self._plain(inputs, training)

    def _assign_moving_average(self, variable, value, momentum):
        with ops.name_scope("AssignMovingAvg") as scope, ops.colocate_with(variable.op):
            decay = math.cast(1.0 - convert.convert_to_tensor(momentum), variable.dtype.base_dtype)
            delta = (variable - math.cast(value, variable.dtype.base_dtype)) * decay
            return state.assign_sub(variable, delta, name=scope)

    def _add_average_updates(self, training, mean, variance):
        """The averages move towards the batch's while training."""
        known = utils.constant_value(training)
        if known is False:
            return
        momentum = self.momentum if known else utils.smart_cond(
            training, lambda: convert.constant(self.momentum), lambda: convert.constant(1.0))
        self.add_update([self._assign_moving_average(self.moving_mean, mean, momentum),
                         self._assign_moving_average(self.moving_variance, variance, momentum)])

    def _fused(self, inputs, training):
        n = self.moving_mean.shape
        gamma = array.ones(n, self._param_dtype) if self.gamma is None else self.gamma
        beta = array.zeros(n, self._param_dtype) if self.beta is None else self.beta
        epsilon = max(self.epsilon, 1.001e-5)  # what the kernels of TensorFlow can do

        def normalized(is_training, mean, variance):
            return list(raw.fused_batch_norm_v3(inputs, gamma, beta, mean, variance, epsilon=epsilon, is_training=is_training,
                                                data_format=self._data_format)[:3])

        def in_training():
            none = convert.constant([], self._param_dtype)
            return normalized(True, none, none)

        outputs, mean, variance = utils.smart_cond(
            training, in_training, lambda: normalized(False, self.moving_mean, self.moving_variance))
        self._add_average_updates(training, mean, variance)
        return outputs

    def _plain(self, inputs, training):
        from .. import nn
        ndims = inputs.shape.ndims
        others = [i for i in range(ndims) if i not in self.axis]
        spread = [inputs.shape.as_list()[i] if i in self.axis else 1 for i in range(ndims)]

        def wide(v):
            """A parameter in the form in which it meets the inputs."""
            if v is None or v.shape.ndims == ndims or others == list(range(ndims - 1)):
                return v
            return array.reshape(v, spread)

        scale, offset = wide(self.gamma), wide(self.beta)
        if utils.constant_value(training) is False:
            mean, variance = self.moving_mean, self.moving_variance
        else:
            if self.adjustment is not None:
                scale, offset = self._adjusted(array.shape(inputs), training, scale, offset)
            mean, variance = nn.moments(inputs, others, keep_dims=len(self.axis) > 1)
            batch = mean, variance
            mean, variance = utils.smart_cond(training, lambda: list(batch),
                                              lambda: [array.identity(self.moving_mean), array.identity(self.moving_variance)])
            new_mean, new_variance = mean, variance
            if self.renorm:
                r, d, new_mean, new_variance = self._renorm(mean, variance, training)
                scale, offset = _composed(wide(raw.stop_gradient(r)), wide(raw.stop_gradient(d)), scale, offset)
            self._add_average_updates(training, new_mean, new_variance)
        cast = lambda v: v if v is None else math.cast(v, inputs.dtype)
        outputs = nn.batch_normalization(inputs, cast(wide(mean)), cast(wide(variance)), cast(offset), cast(scale),
                                         self.epsilon)
        outputs.set_shape(inputs.shape)
        return outputs

    def _adjusted(self, shape, training, scale, offset):
        """A random change of scale and offset while training, as `adjustment` has it."""
        adj_scale, adj_bias = self.adjustment(shape)
        adj_scale = utils.smart_cond(training, lambda: adj_scale, lambda: array.ones_like(adj_scale))
        adj_bias = utils.smart_cond(training, lambda: adj_bias, lambda: array.zeros_like(adj_bias))
        return _composed(adj_scale, adj_bias, scale, offset)

    def _renorm(self, mean, variance, training):
        """How the batch's moments differ from their averages, as a factor and a shift that gradients do not see."""
        deviation = math.sqrt(variance + self.epsilon)
        usual = math.maximum(self.renorm_stddev, pymath.sqrt(self.epsilon))
        r, d = deviation / usual, (mean - self.renorm_mean) / usual
        with ops.control_dependencies([r, d]):
            mean, deviation = array.identity(mean), array.identity(deviation)
        rmin, rmax, dmax = (self.renorm_clipping.get(k) for k in ("rmin", "rmax", "dmax"))
        if rmin is not None:
            r = math.maximum(r, rmin)
        if rmax is not None:
            r = math.minimum(r, rmax)
        if dmax is not None:
            d = math.minimum(math.maximum(d, -dmax), dmax)
        clipped = r, d
        r = utils.smart_cond(training, lambda: clipped[0], lambda: array.ones_like(clipped[0]))
        d = utils.smart_cond(training, lambda: clipped[1], lambda: array.zeros_like(clipped[1]))
        moved = [self._renorm_update(v, value, training)
                 for v, value in ((self.renorm_mean, mean), (self.renorm_stddev, deviation))]
        with ops.control_dependencies(moved):
            return r, d, array.identity(mean), array.identity(variance)

    def _renorm_update(self, variable, value, training):
        return utils.smart_cond(training,
                                lambda: array.identity(self._assign_moving_average(variable, value, self.renorm_momentum)),
                                lambda: array.identity(variable.value()))

    def compute_output_shape(self, input_shape):
        return input_shape


def _composed(scale, offset, then_scale, then_offset):
    """x * scale + offset, and then x * then_scale + then_offset, as one."""
    if then_scale is not None:
        scale, offset = scale * then_scale, offset * then_scale
    if then_offset is not None:
        offset = offset + then_offset
    return scale, offset


class BatchNormalization(BatchNormalizationBase, Layer):
    pass


BatchNorm = BatchNormalization


def batch_normalization(inputs, axis=-1, momentum=0.99, epsilon=1e-3, center=True, scale=True,
                        beta_initializer=initializers.zeros(), gamma_initializer=initializers.ones(),
                        moving_mean_initializer=initializers.zeros(), moving_variance_initializer=initializers.ones(),
                        beta_regularizer=None, gamma_regularizer=None, beta_constraint=None, gamma_constraint=None,
                        training=False, trainable=True, name=None, reuse=None, renorm=False, renorm_clipping=None,
                        renorm_momentum=0.99, fused=None, virtual_batch_size=None, adjustment=None):
    layer = BatchNormalization(
        axis, momentum, epsilon, center, scale, beta_initializer, gamma_initializer, moving_mean_initializer,
        moving_variance_initializer, beta_regularizer, gamma_regularizer, beta_constraint, gamma_constraint, renorm,
        renorm_clipping, renorm_momentum, fused, trainable, virtual_batch_size, adjustment, name, _reuse=reuse, _scope=name)
    return layer.apply(inputs, training=training)


batch_norm = batch_normalization
