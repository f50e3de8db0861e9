"""Batch normalization."""

import contextlib
import math as pymath

from .. import initializers
from ..framework import convert, dtypes, ops, shapes
from ..framework.op_defs import raw
from ..ops import array, math, state
from ..ops.variables import VariableAggregation, VariableSynchronization
from . import utils
from .base import BaseLayer, InputSpec, Layer


class BatchNormalizationBase(BaseLayer):
    """Shifts and scales its inputs so that each channel has mean `beta` and deviation `gamma` in a batch; outside of training
    by averages over the batches of training.  Operations that update these averages are the layer's updates.

    Where it can, one op does it all (fused): four dimensions, channels last or second, and no renorm or the like.
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
        self.fused = fused is not False

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
        simple = not self.renorm and self.adjustment is None and self.virtual_batch_size is None
        self.fused = self.fused and simple and shape.ndims == 4 and self.axis in ([1], [3])
        self._data_format = "NCHW" if self.axis == [1] else "NHWC"

    def _check_virtual_batches(self):
        if self.virtual_batch_size <= 0:
            raise ValueError("virtual_batch_size must be a positive integer that divides the true batch size of the input "
                             "Tensor")
        if 0 in self.axis:
            raise ValueError("When using virtual_batch_size, the batch dimension must be 0 and thus axis cannot include 0")
        if self.adjustment is not None:
            raise ValueError("When using virtual_batch_size, adjustment cannot be specified")

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
        size = [dims.get(i, 1) for i in range(shape.ndims)]
        if self.virtual_batch_size is not None:
            self._check_virtual_batches()
            size.insert(1, 1)  # a dimension more: which of the virtual batches
            self.axis = [a + 1 for a in self.axis]
        elif len(dims) == 1:
            size = [dims[self.axis[0]]]
        self._add_weights(size)
        self.built = True

    @property
    def _param_dtype(self):
        return dtypes.float32 if self.dtype in (None, "float16", "bfloat16") else dtypes.as_dtype(self.dtype)

    def _add_weights(self, size):
        def weight(name, initializer, trainable=False, regularizer=None, constraint=None, **how):
            return self.add_weight(name, shape=size, dtype=self._param_dtype, initializer=initializer, regularizer=regularizer,
                                   constraint=constraint, trainable=trainable, **how)

        def average(name, initializer):
            return weight(name, initializer, synchronization=VariableSynchronization.ON_READ,
                          aggregation=VariableAggregation.MEAN)

        def deviation(shape, dtype=None, partition_info=None):
            return math.sqrt(self.moving_variance_initializer(shape, dtype=dtype, partition_info=partition_info))

        self.gamma = self.beta = None
        if self.scale:
            self.gamma = weight("gamma", self.gamma_initializer, True, self.gamma_regularizer, self.gamma_constraint)
        if self.center:
            self.beta = weight("beta", self.beta_initializer, True, self.beta_regularizer, self.beta_constraint)
        with self._whole_variables():
            self.moving_mean = average("moving_mean", self.moving_mean_initializer)
            self.moving_variance = average("moving_variance", self.moving_variance_initializer)
            if self.renorm:
                self.moving_stddev = average("moving_stddev", deviation)
                self.renorm_mean = average("renorm_mean", self.moving_mean_initializer)
                self.renorm_stddev = average("renorm_stddev", deviation)

    @contextlib.contextmanager
    def _whole_variables(self):
        """Averages are not kept in parts, whatever the scope says."""
        scope = getattr(self, "_scope", None)
        partitioner = None if scope is None else scope.partitioner
        if partitioner is not None:
            scope.set_partitioner(None)
        try:
            yield
        finally:
            if partitioner is not None:
                scope.set_partitioner(partitioner)

    # ---- calling ----

    def call(self, inputs, training=False):
        if self.fused:
            return self._fused(inputs, training)
        if self.virtual_batch_size is None:
            return self._plain(inputs, training)
        shape = [-1] + inputs.shape.as_list()[1:]
        cut = array.reshape(inputs, [self.virtual_batch_size, -1] + shape[1:])
        return array.reshape(self._plain(cut, training), shape)

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
        self.add_update(self._assign_moving_average(self.moving_mean, mean, momentum))
        if not self.renorm:
            self.add_update(self._assign_moving_average(self.moving_variance, variance, momentum))
            return
        self.add_update(utils.smart_cond(training, lambda: self._move_variance_of_renorm(variance),
                                         lambda: array.identity(self.moving_variance)))

    def _move_variance_of_renorm(self, variance):
        """With renorm the deviation is averaged, and the variance follows from it."""
        deviation = self._assign_moving_average(self.moving_stddev, math.sqrt(variance + self.epsilon), self.momentum)
        with ops.name_scope("AssignNewValue") as scope, ops.colocate_with(self.moving_variance.op):
            value = raw.relu(deviation * deviation - self.epsilon)
            return array.identity(state.assign(self.moving_variance, value, name=scope))

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
        if self.virtual_batch_size is not None:
            del others[1]  # each virtual batch by itself
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
            keep = self.virtual_batch_size is not None or len(self.axis) > 1
            mean, variance = nn.moments(math.cast(inputs, self._param_dtype), others, keep_dims=keep)
            batch = mean, variance
            mean, variance = utils.smart_cond(training, lambda: list(batch),
                                              lambda: [array.identity(self.moving_mean), array.identity(self.moving_variance)])
            new_mean, new_variance = mean, variance
            if self.virtual_batch_size is not None:
                new_mean = math.reduce_mean(mean, axis=1, keepdims=True)
                new_variance = math.reduce_mean(variance, axis=1, keepdims=True)
            if self.renorm:
                r, d, new_mean, new_variance = self._renorm(new_mean, new_variance, training)
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
    """A layer that normalizes its inputs by the mean and variance of each batch."""


BatchNorm = BatchNormalization


def batch_normalization(inputs, axis=-1, momentum=0.99, epsilon=1e-3, center=True, scale=True,
                        beta_initializer=initializers.zeros(), gamma_initializer=initializers.ones(),
                        moving_mean_initializer=initializers.zeros(), moving_variance_initializer=initializers.ones(),
                        beta_regularizer=None, gamma_regularizer=None, beta_constraint=None, gamma_constraint=None,
                        training=False, trainable=True, name=None, reuse=None, renorm=False, renorm_clipping=None,
                        renorm_momentum=0.99, fused=None, virtual_batch_size=None, adjustment=None):
    """Applies a new batch normalization layer to inputs.

    Args:
        axis: the dimension of the features
        momentum: the weight of the old value in the moving averages
        center: whether to add a learned offset
        scale: whether to multiply by a learned factor
        training: whether to normalize by the batch, or by the moving averages
        name: the name of the layer and of its variable scope
        reuse: whether to use the variables of an existing layer of this name
        fused: whether to use the fused op; None decides by the shape

    The updates of the moving averages are in the collection UPDATE_OPS, to be run with each training step.
    """
    layer = BatchNormalization(
        axis, momentum, epsilon, center, scale, beta_initializer, gamma_initializer, moving_mean_initializer,
        moving_variance_initializer, beta_regularizer, gamma_regularizer, beta_constraint, gamma_constraint, renorm,
        renorm_clipping, renorm_momentum, fused, trainable, virtual_batch_size, adjustment, name, _reuse=reuse, _scope=name)
    return layer.apply(inputs, training=training)


batch_norm = batch_normalization
