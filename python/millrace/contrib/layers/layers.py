"""Layers as functions: each makes its variables ("weights", "biases", "beta" ...) as model variables in a scope of its own.

    net = conv2d(images, 32, [3, 3], scope="conv1")

Their arguments can be set by arg_scope.  normalizer_fn takes the place of biases; outputs_collections gather the outputs by the
names of the scopes. """

import functools

import numpy as np

from ...framework import convert, dtypes, ops, sparse
from ...ops import array, math
from ...ops import variable_scope as vs
from ... import initializers as core_initializers
from ... import nn
from ..arg_scope import add_arg_scope
from ..framework import model_variable
from . import initializers, utils

__all__ = ["avg_pool2d", "avg_pool3d", "batch_norm", "bias_add", "bow_encoder", "conv1d", "conv2d", "conv2d_in_plane",
           "conv2d_transpose", "conv3d", "conv3d_transpose", "convolution", "convolution1d", "convolution2d",
           "convolution2d_in_plane", "convolution2d_transpose", "convolution3d", "convolution3d_transpose", "dense_to_sparse",
           "dropout", "elu", "embed_sequence", "embedding_lookup_unique", "flatten", "fully_connected", "group_norm",
           "images_to_sequence", "instance_norm", "layer_norm", "legacy_fully_connected", "legacy_linear", "legacy_relu",
           "linear", "max_pool2d", "max_pool3d", "maxout", "one_hot_encoding", "pool", "poincare_normalize", "relu",
           "relu6", "repeat", "scale_gradient", "separable_conv2d", "separable_convolution2d", "sequence_to_images", "softmax",
           "spatial_softmax", "stack", "unit_norm"]

_zeros, _ones = core_initializers.zeros, core_initializers.ones
_xavier = initializers.xavier_initializer


def _check_format(data_format, allowed):
    if data_format not in allowed:
        raise ValueError("data_format has to be one of %s, not %r" % (", ".join(str(f) for f in allowed), data_format))


def _variable(name, shape, dtype, initializer, regularizer, collections, trainable):
    return model_variable(name, shape=shape, dtype=dtype, initializer=initializer, regularizer=regularizer,
                          collections=utils.get_variable_collections(collections, name), trainable=trainable)


class _How:
    """The arguments that layers with weights have in common."""

    def __init__(self, activation_fn, normalizer_fn, normalizer_params, weights_initializer, weights_regularizer,
                 biases_initializer, biases_regularizer, variables_collections, outputs_collections, trainable):
        self.activation_fn, self.normalizer_fn, self.normalizer_params = activation_fn, normalizer_fn, normalizer_params or {}
        self.weights_initializer, self.weights_regularizer = weights_initializer, weights_regularizer
        self.biases_initializer, self.biases_regularizer = biases_initializer, biases_regularizer
        self.collections, self.outputs_collections, self.trainable = variables_collections, outputs_collections, trainable

    def weights(self, shape, dtype, name="weights", initializer=None, regularizer=None):
        return _variable(name, shape, dtype, initializer or self.weights_initializer, regularizer or self.weights_regularizer,
                         self.collections, self.trainable)

    def finished(self, outputs, depth, scope, data_format=None):
        """Biases or the normalizer, the activation, and the collections of outputs."""
        if self.normalizer_fn is not None:
            outputs = self.normalizer_fn(outputs, **self.normalizer_params)
        elif self.biases_initializer is not None:
            biases = _variable("biases", [depth], outputs.dtype.base_dtype, self.biases_initializer, self.biases_regularizer,
                               self.collections, self.trainable)
            outputs = _with_biases(outputs, biases, data_format)
        if self.activation_fn is not None:
            outputs = self.activation_fn(outputs)
        return utils.collect_named_outputs(self.outputs_collections, scope.name, outputs)


def _with_biases(outputs, biases, data_format):
    return nn.bias_add(outputs, biases, data_format="NCHW" if data_format and data_format.startswith("NC") else None)


# ---- dense ----

@add_arg_scope
def fully_connected(inputs, num_outputs, activation_fn=nn.relu, normalizer_fn=None, normalizer_params=None,
                    weights_initializer=_xavier(), weights_regularizer=None, biases_initializer=_zeros(),
                    biases_regularizer=None,
                    reuse=None, variables_collections=None, outputs_collections=None, trainable=True, scope=None):
    """activation(inputs @ weights + biases), along the last dimension of the inputs."""
    if not isinstance(num_outputs, (int, np.integer)) and not hasattr(num_outputs, "value"):  # a Dimension has one
        raise ValueError("num_outputs type should be one of %s, got %s." % ("int", type(num_outputs)))
    num_outputs = int(num_outputs)
    how = _How(activation_fn, normalizer_fn, normalizer_params, weights_initializer, weights_regularizer, biases_initializer,
               biases_regularizer, variables_collections, outputs_collections, trainable)
    with vs.variable_scope(scope, "fully_connected", [inputs], reuse=reuse) as sc:
        inputs = convert.convert_to_tensor(inputs)
        n = utils.last_dimension(inputs.shape, min_rank=2)
        weights = how.weights([n, num_outputs], inputs.dtype.base_dtype)
        if inputs.shape.ndims == 2:
            outputs = math.matmul(inputs, weights)
        else:
            outputs = math.tensordot(inputs, weights, [[inputs.shape.ndims - 1], [0]])
        return how.finished(outputs, num_outputs, sc)


linear = functools.partial(fully_connected, activation_fn=None)
relu = functools.partial(fully_connected, activation_fn=nn.relu)
relu6 = functools.partial(fully_connected, activation_fn=nn.relu6)
elu = functools.partial(fully_connected, activation_fn=nn.elu)


@add_arg_scope
def legacy_fully_connected(x, num_output_units, activation_fn=None, weight_init=_xavier(), bias_init=_zeros(), name=None,
                           weight_collections=(ops.GraphKeys.WEIGHTS,), bias_collections=(ops.GraphKeys.BIASES,),
                           output_collections=(ops.GraphKeys.ACTIVATIONS,), trainable=True, weight_regularizer=None,
                           bias_regularizer=None):
    """Computes activation_fn(x * w + b) with variables made here; an old form of fully_connected."""
    with vs.variable_scope(name, "fully_connected", [x]):
        x = convert.convert_to_tensor(x)
        dims = x.shape.as_list()
        flat = x if len(dims) == 2 else array.reshape(x, [-1, dims[-1]])
        keys = [ops.GraphKeys.GLOBAL_VARIABLES]
        w = vs.get_variable("weights", shape=[dims[-1], num_output_units], dtype=x.dtype.base_dtype, initializer=weight_init,
                            collections=keys + list(weight_collections or ()), regularizer=weight_regularizer,
                            trainable=trainable)
        y = math.matmul(flat, w)
        if bias_init is not None:
            b = vs.get_variable("bias", shape=[num_output_units], dtype=x.dtype.base_dtype, initializer=bias_init,
                                collections=keys + list(bias_collections or ()), regularizer=bias_regularizer,
                                trainable=trainable)
            y = nn.bias_add(y, b)
        if len(dims) > 2:
            y = array.reshape(y, array.concat([array.shape(x)[:-1], [num_output_units]], 0))
            y.set_shape(dims[:-1] + [num_output_units])
        if activation_fn is not None:
            y = activation_fn(y)
        ops.add_to_collections(list(output_collections or ()), y)
        return y


legacy_linear = functools.partial(legacy_fully_connected, activation_fn=None)
legacy_relu = functools.partial(legacy_fully_connected, activation_fn=nn.relu)


# ---- convolutions ----

@add_arg_scope
def convolution(inputs, num_outputs, kernel_size, stride=1, padding="SAME", data_format=None, rate=1, activation_fn=nn.relu,
                normalizer_fn=None, normalizer_params=None, weights_initializer=_xavier(), weights_regularizer=None,
                biases_initializer=_zeros(), biases_regularizer=None, reuse=None, variables_collections=None,
                outputs_collections=None, trainable=True, scope=None, conv_dims=None):
    """Applies a convolution in as many dimensions as the inputs have between batch and channels."""
    _check_format(data_format, (None, "NWC", "NCW", "NHWC", "NCHW", "NDHWC", "NCDHW"))
    how = _How(activation_fn, normalizer_fn, normalizer_params, weights_initializer, weights_regularizer, biases_initializer,
               biases_regularizer, variables_collections, outputs_collections, trainable)
    with vs.variable_scope(scope, "Conv", [inputs], reuse=reuse) as sc:
        inputs = convert.convert_to_tensor(inputs)
        rank = inputs.shape.ndims
        if conv_dims is not None and conv_dims + 2 != rank:
            raise ValueError("Convolution expects input with rank %d, got %s" % (conv_dims + 2, rank))
        if rank not in (3, 4, 5):
            raise ValueError("Convolution not supported for input with rank %s" % rank)
        n = rank - 2
        channels = utils.channel_dimension(inputs.shape, data_format)
        shape = list(utils.n_positive_integers(n, kernel_size)) + [channels, int(num_outputs)]
        weights = how.weights(shape, inputs.dtype.base_dtype)
        outputs = nn.convolution(inputs, weights, padding=padding, strides=list(utils.n_positive_integers(n, stride)),
                                 dilation_rate=list(utils.n_positive_integers(n, rate)), data_format=data_format)
        return how.finished(outputs, int(num_outputs), sc, data_format)


def _of_dims(n, called):
    @add_arg_scope
    def f(inputs, num_outputs, kernel_size, stride=1, padding="SAME", data_format=None, rate=1, activation_fn=nn.relu,
          normalizer_fn=None, normalizer_params=None, weights_initializer=_xavier(), weights_regularizer=None,
          biases_initializer=_zeros(), biases_regularizer=None, reuse=None, variables_collections=None,
          outputs_collections=None, trainable=True, scope=None):
        return convolution(inputs, num_outputs, kernel_size, stride, padding, data_format, rate, activation_fn, normalizer_fn,
                           normalizer_params, weights_initializer, weights_regularizer, biases_initializer, biases_regularizer,
                           reuse, variables_collections, outputs_collections, trainable, scope, conv_dims=n)
    f.__name__ = f.__qualname__ = called
    f.__doc__ = "Applies a %d-D convolution with variables made here; see convolution for the arguments." % n
    return f


convolution1d, convolution2d, convolution3d = (_of_dims(n, "convolution%dd" % n) for n in (1, 2, 3))


@add_arg_scope
def convolution2d_in_plane(inputs, kernel_size, stride=1, padding="SAME", activation_fn=nn.relu, normalizer_fn=None,
                           normalizer_params=None, weights_initializer=_xavier(), weights_regularizer=None,
                           biases_initializer=_zeros(), biases_regularizer=None, reuse=None, variables_collections=None,
                           outputs_collections=None, trainable=True, scope=None):
    """The same filter for each channel."""
    how = _How(activation_fn, normalizer_fn, normalizer_params, weights_initializer, weights_regularizer, biases_initializer,
               biases_regularizer, variables_collections, outputs_collections, trainable)
    with vs.variable_scope(scope, "ConvInPlane", [inputs], reuse=reuse) as sc:
        inputs = convert.convert_to_tensor(inputs)
        channels = utils.last_dimension(inputs.shape, min_rank=4)
        kernel, strides = utils.two_element_tuple(kernel_size), utils.two_element_tuple(stride)
        weights = how.weights(list(kernel) + [1, 1], inputs.dtype.base_dtype)
        outputs = nn.depthwise_conv2d(inputs, array.tile(weights, [1, 1, channels, 1]), [1, strides[0], strides[1], 1], padding)
        return how.finished(outputs, channels, sc)


def _transposed(n, default_scope, formats, f):
    @add_arg_scope
    def layer(inputs, num_outputs, kernel_size, stride=1, padding="SAME", data_format=formats[0], activation_fn=nn.relu,
              normalizer_fn=None, normalizer_params=None, weights_initializer=_xavier(), weights_regularizer=None,
              biases_initializer=_zeros(), biases_regularizer=None, reuse=None, variables_collections=None,
              outputs_collections=None, trainable=True, scope=None):
        _check_format(data_format, formats)
        how = _How(activation_fn, normalizer_fn, normalizer_params, weights_initializer, weights_regularizer,
                   biases_initializer, biases_regularizer, variables_collections, outputs_collections, trainable)
        with vs.variable_scope(scope, default_scope, [inputs], reuse=reuse) as sc:
            inputs = convert.convert_to_tensor(inputs)
            kernel, strides = utils.n_positive_integers(n, kernel_size), utils.n_positive_integers(n, stride)
            weights = how.weights(list(kernel) + [int(num_outputs), utils.channel_dimension(inputs.shape, data_format)],
                                  inputs.dtype.base_dtype)
            shape, known = _transposed_shape(inputs, kernel, strides, padding, int(num_outputs), data_format)
            outputs = f(inputs, weights, shape, list(strides), padding.upper(), data_format)
            outputs.set_shape(known)
            return how.finished(outputs, int(num_outputs), sc, data_format)
    layer.__name__ = layer.__qualname__ = "convolution%dd_transpose" % n
    layer.__doc__ = """Applies a %d-D transposed convolution with variables made here.

    The result is `stride` times as large. The arguments are those of convolution.""" % n
    return layer


def _transposed_shape(inputs, kernel, strides, padding, depth, data_format):
    """(shape of the result, what is known of it)"""
    from ...layers.utils import deconv_output_length
    first = 2 if data_format.startswith("NC") else 1
    dynamic, static = array.shape(inputs), inputs.shape.as_list()
    spatial, known = [], []
    for i, (k, s) in enumerate(zip(kernel, strides)):
        d = static[first + i]
        known.append(None if d is None else deconv_output_length(d, k, padding.lower(), stride=s))
        spatial.append(known[-1] if d is not None else deconv_output_length(dynamic[first + i], k, padding.lower(), stride=s))
    place = (lambda xs, c, b: [b, c] + xs) if first == 2 else (lambda xs, c, b: [b] + xs + [c])
    return array.stack(place(spatial, depth, dynamic[0])), place(known, depth, static[0])


convolution2d_transpose = _transposed(2, "Conv2d_transpose", ("NHWC", "NCHW"), nn.conv2d_transpose)
convolution3d_transpose = _transposed(3, "Conv3d_transpose", ("NDHWC", "NCDHW"), nn.conv3d_transpose)


@add_arg_scope
def separable_convolution2d(inputs, num_outputs, kernel_size, depth_multiplier=1, stride=1, padding="SAME", data_format="NHWC",
                            rate=1, activation_fn=nn.relu, normalizer_fn=None, normalizer_params=None,
                            weights_initializer=_xavier(), pointwise_initializer=None, weights_regularizer=None,
                            biases_initializer=_zeros(), biases_regularizer=None, reuse=None, variables_collections=None,
                            outputs_collections=None, trainable=True, scope=None):
    """A depthwise convolution, and one of 1 x 1 unless num_outputs is None."""
    _check_format(data_format, ("NHWC", "NCHW"))
    how = _How(activation_fn, normalizer_fn, normalizer_params, weights_initializer, weights_regularizer, biases_initializer,
               biases_regularizer, variables_collections, outputs_collections, trainable)
    with vs.variable_scope(scope, "SeparableConv2d", [inputs], reuse=reuse) as sc:
        inputs = convert.convert_to_tensor(inputs)
        channels = utils.channel_dimension(inputs.shape, data_format, min_rank=4)
        kernel, strides = utils.two_element_tuple(kernel_size), utils.two_element_tuple(stride)
        rates = list(utils.two_element_tuple(rate))
        dtype = inputs.dtype.base_dtype
        depthwise = how.weights(list(kernel) + [channels, depth_multiplier], dtype, "depthwise_weights")
        full = [1, 1] + list(strides) if data_format == "NCHW" else [1] + list(strides) + [1]
        if num_outputs is None:
            outputs = nn.depthwise_conv2d(inputs, depthwise, full, padding, rate=rates, data_format=data_format)
            return how.finished(outputs, channels * depth_multiplier, sc, data_format)
        pointwise = how.weights([1, 1, channels * depth_multiplier, int(num_outputs)], dtype, "pointwise_weights",
                                pointwise_initializer)
        outputs = nn.separable_conv2d(inputs, depthwise, pointwise, full, padding, rate=rates, data_format=data_format)
        return how.finished(outputs, int(num_outputs), sc, data_format)


conv1d, conv2d, conv3d = convolution1d, convolution2d, convolution3d
conv2d_in_plane, conv2d_transpose, conv3d_transpose = convolution2d_in_plane, convolution2d_transpose, convolution3d_transpose
separable_conv2d = separable_convolution2d


# ---- pools ----

def _pool_layer(n, f, default_scope, formats):
    @add_arg_scope
    def layer(inputs, kernel_size, stride=2, padding="VALID", data_format=formats[0], outputs_collections=None, scope=None):
        _check_format(data_format, formats)
        with ops.name_scope(scope, default_scope, [inputs]) as sc:
            inputs = convert.convert_to_tensor(inputs)
            outputs = f(inputs, list(utils.n_positive_integers(n, kernel_size)), list(utils.n_positive_integers(n, stride)),
                        padding, data_format)
            return utils.collect_named_outputs(outputs_collections, sc, outputs)
    layer.__name__ = layer.__qualname__ = default_scope.lower().replace("pool", "_pool")
    layer.__doc__ = """Computes the %s of each window, in %d-D.

    Args:
        inputs: the tensor to pool
        kernel_size: the size of the window, an int or %d of them
        stride: the distance between windows, an int or %d of them
        padding: "VALID" or "SAME"
        outputs_collections: collections that the result is added to
        scope: the name scope
    """ % ("largest element" if default_scope.startswith("Max") else "mean", n, n, n)
    return layer


max_pool2d = _pool_layer(2, nn.max_pool2d, "MaxPool2D", ("NHWC", "NCHW"))
avg_pool2d = _pool_layer(2, nn.avg_pool2d, "AvgPool2D", ("NHWC", "NCHW"))
max_pool3d = _pool_layer(3, nn.max_pool3d, "MaxPool3D", ("NDHWC", "NCDHW"))
avg_pool3d = _pool_layer(3, nn.avg_pool3d, "AvgPool3D", ("NDHWC", "NCDHW"))


@add_arg_scope
def pool(inputs, kernel_size, pooling_type, padding="VALID", data_format=None, dilation_rate=1, stride=1,
         outputs_collections=None, scope=None):
    """Pools in as many dimensions as kernel_size has; pooling_type is "MAX" or "AVG"."""
    with ops.name_scope(scope, "%s_pool" % pooling_type.lower(), [inputs]) as sc:
        inputs = convert.convert_to_tensor(inputs)
        if inputs.shape.ndims is None:
            raise ValueError("Rank of inputs must be known")
        n = inputs.shape.ndims - 2
        outputs = nn.pool(inputs, list(utils.n_positive_integers(n, kernel_size)), pooling_type, padding,
                          dilation_rate=list(utils.n_positive_integers(n, dilation_rate)),
                          strides=list(utils.n_positive_integers(n, stride)), data_format=data_format)
        return utils.collect_named_outputs(outputs_collections, sc, outputs)


# ---- normalization ----

@add_arg_scope
def batch_norm(inputs, decay=0.999, center=True, scale=False, epsilon=0.001, activation_fn=None, param_initializers=None,
               param_regularizers=None, updates_collections=ops.GraphKeys.UPDATE_OPS, is_training=True, reuse=None,
               variables_collections=None, outputs_collections=None, trainable=True, batch_weights=None, fused=None,
               data_format="NHWC", zero_debias_moving_mean=False, scope=None, renorm=False, renorm_clipping=None,
               renorm_decay=0.99, adjustment=None):
    """Batch normalization.  The averages move when the operations in updates_collections run; with None there, when the output
    is computed."""
    _check_format(data_format, ("NHWC", "NCHW"))
    if (renorm or adjustment is not None) and batch_weights is not None:
        raise ValueError("batch_weights are not supported with renorm or adjustment")
    initializers_, regularizers = param_initializers or {}, param_regularizers or {}
    with vs.variable_scope(scope, "BatchNorm", [inputs], reuse=reuse) as sc:
        inputs = convert.convert_to_tensor(inputs)
        if inputs.shape.ndims is None:
            raise ValueError("Inputs %s has undefined rank" % inputs.name)
        if renorm or adjustment is not None:
            outputs, updates = _renormalized(inputs, locals())
        else:
            outputs, updates = _normalized(inputs, decay, center, scale, epsilon, initializers_, regularizers, is_training,
                                           variables_collections, trainable, batch_weights, fused, data_format,
                                           zero_debias_moving_mean)
        if updates_collections is None:
            outputs = utils.identity_after(updates, outputs) if updates else outputs
        else:
            for u in updates:
                ops.add_to_collections(updates_collections, u)
        outputs.set_shape(inputs.shape)
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        return utils.collect_named_outputs(outputs_collections, sc.name, outputs)


def _normalized(inputs, decay, center, scale, epsilon, initializers_, regularizers, is_training, collections, trainable,
                batch_weights, fused, data_format, zero_debias):
    """(outputs, updates of the averages)"""
    rank = inputs.shape.ndims
    channels = utils.channel_dimension(inputs.shape, data_format)
    dtype = dtypes.float32 if inputs.dtype.base_dtype in (dtypes.float16, dtypes.bfloat16) else inputs.dtype.base_dtype

    def made(name, initializer, is_trained):
        return _variable(name, [channels], dtype, initializers_.get(name, initializer),
                         regularizers.get(name) if is_trained else None, collections, trainable and is_trained)

    beta = made("beta", _zeros(), True) if center else None
    gamma = made("gamma", _ones(), True) if scale else None
    averages = made("moving_mean", _zeros(), False), made("moving_variance", _ones(), False)
    # As in TensorFlow `fused` is a wish: what one op cannot do is done by several.
    can_fuse = rank in (2, 4) and batch_weights is None and inputs.dtype.base_dtype is not dtypes.float64
    if can_fuse and fused is not False:
        f = functools.partial(_fused, inputs, beta, gamma, averages, epsilon, data_format)
    else:
        f = functools.partial(_plain, inputs, beta, gamma, averages, epsilon, data_format, batch_weights)
    known = utils.constant_value(is_training)
    if known is False:
        return f(False)[0], []
    if known:
        outputs, mean, variance = f(True)
    else:
        outputs, mean, variance = utils.smart_cond(is_training, lambda: list(f(True)), lambda: list(f(False)))
        decay = utils.smart_cond(is_training, lambda: convert.convert_to_tensor(decay, dtypes.float32),
                                 lambda: convert.constant(1.0))
    from ...train.moving_averages import assign_moving_average
    return outputs, [assign_moving_average(averages[0], mean, decay, zero_debias=zero_debias),
                     assign_moving_average(averages[1], variance, decay, zero_debias=False)]


def _fused(inputs, beta, gamma, averages, epsilon, data_format, training):
    channels = averages[0].shape
    beta = array.zeros(channels, averages[0].dtype.base_dtype) if beta is None else beta
    gamma = array.ones(channels, averages[0].dtype.base_dtype) if gamma is None else gamma
    x, shape = inputs, None
    if inputs.shape.ndims == 2:
        shape, n = array.shape(inputs), channels.as_list()[0]
        x = array.reshape(inputs, [-1, n, 1, 1] if data_format == "NCHW" else [-1, 1, 1, n])
    if training:
        y, mean, variance = nn.fused_batch_norm(x, gamma, beta, epsilon=epsilon, data_format=data_format)
    else:
        y, mean, variance = nn.fused_batch_norm(x, gamma, beta, averages[0], averages[1], epsilon, data_format, False)
    return (y if shape is None else array.reshape(y, shape)), mean, variance


def _plain(inputs, beta, gamma, averages, epsilon, data_format, batch_weights, training):
    rank = inputs.shape.ndims
    channel = 1 if data_format == "NCHW" else rank - 1
    axes = [i for i in range(rank) if i != channel]
    spread = [-1 if i == channel else 1 for i in range(rank)]

    def wide(v):
        return v if v is None or channel == rank - 1 else array.reshape(v, spread)

    if not training:
        mean, variance = array.identity(averages[0]), array.identity(averages[1])
    elif batch_weights is None:
        mean, variance = nn.moments(inputs, axes)
    else:
        weights = array.reshape(batch_weights, [-1] + [1] * (rank - 1))
        mean, variance = nn.weighted_moments(inputs, axes, weights)
    return nn.batch_normalization(inputs, wide(mean), wide(variance), wide(beta), wide(gamma), epsilon), mean, variance


def _renormalized(inputs, how):
    """By the layer of tf.layers, whose variables have the same names."""
    from ...layers.normalization import BatchNormalization
    from ..framework import add_model_variable
    initial, penalty = how["initializers_"], how["regularizers"]
    layer = BatchNormalization(
        axis=1 if how["data_format"] == "NCHW" else -1, momentum=how["decay"], epsilon=how["epsilon"], center=how["center"],
        scale=how["scale"], beta_initializer=initial.get("beta", _zeros()), gamma_initializer=initial.get("gamma", _ones()),
        moving_mean_initializer=initial.get("moving_mean", _zeros()),
        moving_variance_initializer=initial.get("moving_variance", _ones()), beta_regularizer=penalty.get("beta"),
        gamma_regularizer=penalty.get("gamma"), trainable=how["trainable"], renorm=how["renorm"],
        renorm_clipping=how["renorm_clipping"], renorm_momentum=how["renorm_decay"], adjustment=how["adjustment"],
        name=how["sc"].name, _scope=how["sc"], _reuse=how["reuse"], fused=False)
    before = list(ops.get_collection(ops.GraphKeys.UPDATE_OPS))
    outputs = layer(inputs, training=how["is_training"])
    ops.get_collection_ref(ops.GraphKeys.UPDATE_OPS)[:] = before  # they go where updates_collections says
    for v in layer.variables:
        add_model_variable(v)
        keys = utils.get_variable_collections(how["variables_collections"], v.op.name.split("/")[-1])
        if keys:
            ops.add_to_collections(keys, v)
    return outputs, layer.updates


@add_arg_scope
def layer_norm(inputs, center=True, scale=True, activation_fn=None, reuse=None, variables_collections=None,
               outputs_collections=None, trainable=True, begin_norm_axis=1, begin_params_axis=-1, scope=None):
    """Normalizes each example by its own mean and variance."""
    with vs.variable_scope(scope, "LayerNorm", [inputs], reuse=reuse) as sc:
        inputs = convert.convert_to_tensor(inputs)
        rank = inputs.shape.ndims
        if rank is None:
            raise ValueError("Inputs %s has undefined rank." % inputs.name)
        first = begin_norm_axis + rank if begin_norm_axis < 0 else begin_norm_axis
        if begin_params_axis >= rank or first >= rank:
            raise ValueError("begin_params_axis (%d) and begin_norm_axis (%d) must be < rank(inputs) (%d)" %
                             (begin_params_axis, first, rank))
        shape = inputs.shape[begin_params_axis:]
        if not shape.is_fully_defined():
            raise ValueError("Inputs %s: shape(inputs)[%s:] is not fully defined: %s" %
                             (inputs.name, begin_params_axis, inputs.shape))
        dtype = inputs.dtype.base_dtype
        beta = _variable("beta", shape, dtype, _zeros(), None, variables_collections, trainable) if center else None
        gamma = _variable("gamma", shape, dtype, _ones(), None, variables_collections, trainable) if scale else None
        mean, variance = nn.moments(inputs, list(range(first, rank)), keep_dims=True)
        epsilon = 1e-3 if dtype is dtypes.float16 else 1e-12
        outputs = nn.batch_normalization(inputs, mean, variance, offset=beta, scale=gamma, variance_epsilon=epsilon)
        outputs.set_shape(inputs.shape)
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        return utils.collect_named_outputs(outputs_collections, sc.name, outputs)


def _spread_parameters(center, scale, n, dtype, initial, collections, trainable, shape):
    """(beta, gamma) of n channels in the shape in which they meet the inputs; None for what is not wanted."""
    def made(name, initializer):
        initializer = (initial or {}).get(name, initializer)
        return array.reshape(_variable(name, [n], dtype, initializer, None, collections, trainable), shape)
    return made("beta", _zeros()) if center else None, made("gamma", _ones()) if scale else None


@add_arg_scope
def instance_norm(inputs, center=True, scale=True, epsilon=1e-6, activation_fn=None, param_initializers=None, reuse=None,
                  variables_collections=None, outputs_collections=None, trainable=True, data_format="NHWC", scope=None):
    """Normalizes each channel of each example by its own mean and variance."""
    _check_format(data_format, ("NHWC", "NCHW"))
    with vs.variable_scope(scope, "InstanceNorm", [inputs], reuse=reuse) as sc:
        inputs = convert.convert_to_tensor(inputs)
        rank = inputs.shape.ndims
        if rank is None:
            raise ValueError("Inputs %s has undefined rank." % inputs.name)
        channel = rank - 1 if data_format == "NHWC" else 1
        n, dtype = utils.channel_dimension(inputs.shape, data_format), inputs.dtype.base_dtype
        spread = [n if i == channel else 1 for i in range(rank)]
        beta, gamma = _spread_parameters(center, scale, n, dtype, param_initializers, variables_collections, trainable, spread)
        mean, variance = nn.moments(inputs, [i for i in range(1, rank) if i != channel], keep_dims=True)
        outputs = nn.batch_normalization(inputs, mean, variance, beta, gamma, epsilon)
        outputs.set_shape(inputs.shape)
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        return utils.collect_named_outputs(outputs_collections, sc.name, outputs)


@add_arg_scope
def group_norm(inputs, groups=32, channels_axis=-1, reduction_axes=(-3, -2), center=True, scale=True, epsilon=1e-6,
               activation_fn=None, param_initializers=None, reuse=None, variables_collections=None, outputs_collections=None,
               trainable=True, scope=None, mean_close_to_zero=False):
    """Groups of channels of each example by their own mean and variance."""
    with vs.variable_scope(scope, "GroupNorm", [inputs], reuse=reuse) as sc:
        inputs = convert.convert_to_tensor(inputs)
        rank = inputs.shape.ndims
        if rank is None:
            raise ValueError("Inputs %s has undefined rank." % inputs.name)
        channel = channels_axis % rank
        n, dtype = inputs.shape.as_list()[channel], inputs.dtype.base_dtype
        if n is None:
            raise ValueError("Inputs %s has undefined channel dimension: %s." % (inputs.name, inputs.shape))
        if groups > n or n % groups:
            raise ValueError("Invalid groups %d for %d channels." % (groups, n))
        axes = [a % rank for a in reduction_axes]
        if channel in axes:
            raise ValueError("reduction_axes must not contain channels_axis")
        shape = array.shape(inputs)
        parts = [shape[i] if d is None else d for i, d in enumerate(inputs.shape.as_list())]
        split = array.stack(parts[:channel] + [groups, n // groups] + parts[channel + 1:])
        x = array.reshape(inputs, split)
        axes = [a + 1 if a > channel else a for a in axes] + [channel + 1]
        if mean_close_to_zero:  # then the mean of the squares is precise, and one pass finds both
            counts, sums, squares, _ = nn.sufficient_statistics(x, axes, keep_dims=True)
            mean, variance = nn.normalize_moments(counts, sums, squares, shift=None)
        else:
            mean, variance = nn.moments(x, axes, keep_dims=True)
        spread = [1] * (rank + 1)
        spread[channel], spread[channel + 1] = groups, n // groups
        beta, gamma = _spread_parameters(center, scale, n, dtype, param_initializers, variables_collections, trainable, spread)
        outputs = array.reshape(nn.batch_normalization(x, mean, variance, beta, gamma, epsilon), shape)
        outputs.set_shape(inputs.shape)
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        return utils.collect_named_outputs(outputs_collections, sc.name, outputs)


@add_arg_scope
def unit_norm(inputs, dim, epsilon=1e-7, scope=None):
    """Vectors along a dimension, made 1 long."""
    with vs.variable_scope(scope, "UnitNorm", [inputs]):
        inputs = convert.convert_to_tensor(inputs)
        lengths = math.sqrt(epsilon + math.reduce_sum(math.square(inputs), dim, keepdims=True))
        return math.divide(inputs, lengths)


def poincare_normalize(x, axis=1, epsilon=1e-5, name=None):
    """Vectors of at most length 1 - epsilon."""
    with ops.name_scope(name, "poincare_normalize", [x]) as name:
        x = convert.convert_to_tensor(x, name="x")
        squares = math.reduce_sum(math.square(x), axis, keepdims=True)
        return math.multiply(x, math.minimum((1. - epsilon) * math.rsqrt(math.maximum(squares, 1e-30)), 1.), name=name)


# ---- the rest ----

@add_arg_scope
def bias_add(inputs, activation_fn=None, initializer=_zeros(), regularizer=None, reuse=None, variables_collections=None,
             outputs_collections=None, trainable=True, data_format="NHWC", scope=None):
    """Adds a learned bias to the channels, then applies activation_fn."""
    _check_format(data_format, ("NHWC", "NCHW"))
    with vs.variable_scope(scope, "BiasAdd", [inputs], reuse=reuse) as sc:
        inputs = convert.convert_to_tensor(inputs)
        n = utils.channel_dimension(inputs.shape, data_format)
        biases = _variable("biases", [n], inputs.dtype.base_dtype, initializer, regularizer, variables_collections, trainable)
        outputs = _with_biases(inputs, biases, data_format)
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        return utils.collect_named_outputs(outputs_collections, sc.name, outputs)


@add_arg_scope
def dropout(inputs, keep_prob=0.5, noise_shape=None, is_training=True, outputs_collections=None, scope=None, seed=None):
    """Keeps each element with probability keep_prob and scales it, if is_training; returns inputs otherwise."""
    with vs.variable_scope(scope, "Dropout", [inputs]) as sc:
        inputs = convert.convert_to_tensor(inputs)
        outputs = utils.smart_cond(
            is_training, lambda: nn.dropout(inputs, keep_prob=keep_prob, noise_shape=noise_shape, seed=seed),
            lambda: array.identity(inputs))
        return utils.collect_named_outputs(outputs_collections, sc.name, outputs)


@add_arg_scope
def flatten(inputs, outputs_collections=None, scope=None):
    """A row for each example."""
    with ops.name_scope(scope, "Flatten", [inputs]) as sc:
        inputs = convert.convert_to_tensor(inputs)
        from ... import layers as core
        outputs = core.flatten(inputs)
        return utils.collect_named_outputs(outputs_collections, sc, outputs)


@add_arg_scope
def one_hot_encoding(labels, num_classes, on_value=1.0, off_value=0.0, outputs_collections=None, scope=None):
    """Returns vectors that are on_value at the label and off_value elsewhere."""
    with ops.name_scope(scope, "OneHotEncoding", [labels]) as sc:
        labels = convert.convert_to_tensor(labels)
        if labels.dtype is dtypes.int32:
            labels = math.to_int64(labels)
        outputs = array.one_hot(labels, num_classes, on_value=on_value, off_value=off_value)
        return utils.collect_named_outputs(outputs_collections, sc, outputs)


@add_arg_scope
def maxout(inputs, num_units, axis=-1, scope=None):
    """The largest of groups of channels, num_units of them."""
    with vs.variable_scope(scope, "MaxOut", [inputs]):
        inputs = convert.convert_to_tensor(inputs)
        dims = inputs.shape.as_list()
        at = axis % len(dims)
        if dims[at] is None or dims[at] % num_units:
            raise ValueError("number of features(%s) is not a multiple of num_units(%d)" % (dims[at], num_units))
        now = array.shape(inputs)
        known = [now[i] if d is None else d for i, d in enumerate(dims)]
        x = array.reshape(inputs, array.stack(known[:at] + [num_units, dims[at] // num_units] + known[at + 1:]))
        outputs = math.reduce_max(x, at + 1)
        outputs.set_shape(dims[:at] + [num_units] + dims[at + 1:])
        return outputs


@add_arg_scope
def softmax(logits, scope=None):
    """Computes the softmax of the last dimension."""
    with vs.variable_scope(scope, "softmax", [logits]):
        return nn.softmax(logits)


@add_arg_scope
def spatial_softmax(features, temperature=None, name=None, variables_collections=None, trainable=True, data_format="NHWC"):
    """The expected place of each channel's features in the image: [x, y] a channel, in -1 to 1."""
    with vs.variable_scope(name, "spatial_softmax"):
        features = convert.convert_to_tensor(features)
        dims = features.shape.as_list()
        if None in dims[1:]:
            raise NotImplementedError("spatial_softmax needs images of known size")
        _check_format(data_format, ("NHWC", "NCHW"))
        height, width, channels = dims[1:] if data_format == "NHWC" else (dims[2], dims[3], dims[1])
        if temperature is None:
            temperature = _variable("temperature", (), dtypes.float32, _ones(), None, variables_collections, trainable)
        if data_format == "NHWC":
            features = array.transpose(features, [0, 3, 1, 2])
        attention = nn.softmax(array.reshape(features, [-1, height * width]) / temperature)
        xs, ys = np.meshgrid(np.linspace(-1., 1., width), np.linspace(-1., 1., height))
        places = np.stack([xs.ravel(), ys.ravel()], 1).astype(np.float32)
        out = array.reshape(math.matmul(attention, places), [-1, channels * 2])
        out.set_shape([dims[0], channels * 2])
        return out


@add_arg_scope
def dense_to_sparse(tensor, eos_token=0, outputs_collections=None, scope=None):
    """Returns the elements that differ from eos_token as a sparse tensor."""
    with vs.variable_scope(scope, "dense_to_sparse", [tensor]) as sc:
        tensor = convert.convert_to_tensor(tensor)
        at = array.where(math.not_equal(tensor, convert.constant(eos_token, tensor.dtype.base_dtype)))
        outputs = sparse.SparseTensor(at, array.gather_nd(tensor, at), array.shape(tensor, out_type=dtypes.int64))
        return utils.collect_named_outputs(outputs_collections, sc.name, outputs)


def scale_gradient(inputs, gradient_multiplier):
    """The inputs, whose gradients are multiplied."""
    m = convert.convert_to_tensor(gradient_multiplier, inputs.dtype.base_dtype)
    return m * inputs + array.stop_gradient((1 - m) * inputs)


@add_arg_scope
def images_to_sequence(inputs, data_format="NHWC", outputs_collections=None, scope=None):
    """[batch, height, width, channels] -> [width, batch * height, channels]"""
    _check_format(data_format, ("NHWC", "NCHW"))
    with ops.name_scope(scope, "ImagesToSequence", [inputs]) as sc:
        inputs = convert.convert_to_tensor(inputs)
        if data_format == "NCHW":
            inputs = array.transpose(inputs, [0, 2, 3, 1])
        _, _, width, depth = inputs.shape.as_list()
        s = array.shape(inputs)
        outputs = array.reshape(inputs, array.stack([s[0] * s[1], s[2], s[3]]))
        outputs = array.transpose(outputs, [1, 0, 2])
        outputs.set_shape([width, None, depth])
        return utils.collect_named_outputs(outputs_collections, sc, outputs)


@add_arg_scope
def sequence_to_images(inputs, height, output_data_format="NHWC", outputs_collections=None, scope=None):
    """Makes a batch of images from a batch of sequences, with images of this height."""
    with ops.name_scope(scope, "SequenceToImages", [inputs]) as sc:
        inputs = convert.convert_to_tensor(inputs)
        width, _, depth = inputs.shape.as_list()
        s = array.shape(inputs)
        outputs = array.reshape(array.transpose(inputs, [1, 0, 2]), array.stack([-1, height, s[0], s[2]]))
        outputs.set_shape([None, height, width, depth])
        if output_data_format == "NCHW":
            outputs = array.transpose(outputs, [0, 3, 1, 2])
        return utils.collect_named_outputs(outputs_collections, sc, outputs)


# ---- embeddings ----

def embed_sequence(ids, vocab_size=None, embed_dim=None, unique=False, initializer=None, regularizer=None, trainable=True,
                   scope=None, reuse=None):
    """Looks up ids in a variable "embeddings"."""
    if not (reuse or (vocab_size and embed_dim)):
        raise ValueError("Must specify vocab size and embedding dimension when not reusing. Got vocab_size=%s, embed_dim=%s" %
                         (vocab_size, embed_dim))
    with vs.variable_scope(scope, "EmbedSequence", [ids], reuse=reuse):
        shape = [vocab_size, embed_dim] if vocab_size and embed_dim else None
        table = model_variable("embeddings", shape=shape, initializer=initializer, regularizer=regularizer, trainable=trainable)
        return embedding_lookup_unique(table, ids) if unique else nn.embedding_lookup(table, ids)


def embedding_lookup_unique(params, ids, partition_strategy="mod", name=None):
    """embedding_lookup that looks each id up once."""
    with ops.name_scope(name, "EmbeddingLookupUnique", [ids]):
        ids = convert.convert_to_tensor(ids)
        unique, places = array.unique(array.reshape(ids, [-1]))
        rows = array.gather(nn.embedding_lookup(params, unique, partition_strategy), places)
        out = array.reshape(rows, array.concat([array.shape(ids), array.shape(rows)[1:]], 0))
        out.set_shape(ids.shape.concatenate(rows.shape[1:]))
        return out


def bow_encoder(ids, vocab_size, embed_dim, sparse_lookup=True, initializer=None, regularizer=None, trainable=True, scope=None,
                reuse=None):
    """The mean of the rows of a table by the ids of each example."""
    if not vocab_size or not embed_dim:
        raise ValueError("Must specify vocab size and embedding dimension")
    with vs.variable_scope(scope, "bow_encoder", [ids.values if isinstance(ids, sparse.SparseTensor) else ids], reuse=reuse):
        table = model_variable("embeddings", shape=[vocab_size, embed_dim], initializer=initializer, regularizer=regularizer,
                               trainable=trainable)
        if sparse_lookup:
            ids = ids if isinstance(ids, sparse.SparseTensor) else dense_to_sparse(ids)
            return nn.embedding_lookup_sparse([table], ids, None, combiner="mean", name="embedding_lookup")
        if isinstance(ids, sparse.SparseTensor):
            raise TypeError("ids are expected to be dense Tensor, got: %s" % ids)
        return math.reduce_mean(nn.embedding_lookup(table, ids), axis=1)


# ---- layers of layers ----

def _layer_name(layer):
    return getattr(layer, "__name__", None) or getattr(getattr(layer, "func", None), "__name__", "stack")


@add_arg_scope
def repeat(inputs, repetitions, layer, *args, **kwargs):
    """The same layer several times, in scopes scope/scope_1, scope/scope_2, ..."""
    scope = kwargs.pop("scope", None)
    with vs.variable_scope(scope, "Repeat", [inputs]):
        inputs = convert.convert_to_tensor(inputs)
        scope = scope or _layer_name(layer)
        outputs = inputs
        for i in range(repetitions):
            outputs = layer(outputs, *args, scope="%s_%d" % (scope, i + 1), **kwargs)
        return outputs


@add_arg_scope
def stack(inputs, layer, stack_args, **kwargs):
    """A layer with these arguments one after the other."""
    scope = kwargs.pop("scope", None)
    if not isinstance(stack_args, (list, tuple)):
        raise ValueError("stack_args need to be a list or tuple")
    with vs.variable_scope(scope, "Stack", [inputs]):
        inputs = convert.convert_to_tensor(inputs)
        scope = scope or _layer_name(layer)
        outputs = inputs
        for i, args in enumerate(stack_args):
            args = args if isinstance(args, (list, tuple)) else [args]
            outputs = layer(outputs, *args, scope="%s_%d" % (scope, i + 1), **kwargs)
        return outputs
