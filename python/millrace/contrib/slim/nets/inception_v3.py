"""Inception v3: blocks of convolutions side by side, whose results are joined.

A block is a list of branches, a branch a list of layers (depth, kernel, name, options), written down as tables below; a list of
layers within a branch is a fork, whose results are joined where they end.  Names and shapes of variables are those of the
checkpoints that were published for this network.
"""

from .... import nn
from ....ops import array
from ....ops import variable_scope as vs
from ... import layers
from ...arg_scope import arg_scope

__all__ = ["inception_v3", "inception_v3_arg_scope", "inception_v3_base"]

_AVG, _MAX = "avg", "max"


def _block_a(pool_depth, names=("Conv2d_0a_1x1", "Conv2d_0b_5x5")):
    """35 x 35; `names` are those of the second branch, which differ in one of the blocks."""
    return [[(64, 1, "Conv2d_0a_1x1")],
            [(48, 1, names[0]), (64, 5, names[1])],
            [(64, 1, "Conv2d_0a_1x1"), (96, 3, "Conv2d_0b_3x3"), (96, 3, "Conv2d_0c_3x3")],
            [(_AVG, 3, "AvgPool_0a_3x3"), (pool_depth, 1, "Conv2d_0b_1x1")]]


def _block_c(n):
    """17 x 17, with rows and columns apart."""
    row, column = [1, 7], [7, 1]
    return [[(192, 1, "Conv2d_0a_1x1")],
            [(n, 1, "Conv2d_0a_1x1"), (n, row, "Conv2d_0b_1x7"), (192, column, "Conv2d_0c_7x1")],
            [(n, 1, "Conv2d_0a_1x1"), (n, column, "Conv2d_0b_7x1"), (n, row, "Conv2d_0c_1x7"), (n, column, "Conv2d_0d_7x1"),
             (192, row, "Conv2d_0e_1x7")],
            [(_AVG, 3, "AvgPool_0a_3x3"), (192, 1, "Conv2d_0b_1x1")]]


def _block_e(upper):
    """8 x 8; `upper` is the name of the upright part of the second branch's fork, which differs between the two blocks."""
    return [[(320, 1, "Conv2d_0a_1x1")],
            [(384, 1, "Conv2d_0a_1x1"), [(384, [1, 3], "Conv2d_0b_1x3"), (384, [3, 1], upper)]],
            [(448, 1, "Conv2d_0a_1x1"), (384, 3, "Conv2d_0b_3x3"),
             [(384, [1, 3], "Conv2d_0c_1x3"), (384, [3, 1], "Conv2d_0d_3x1")]],
            [(_AVG, 3, "AvgPool_0a_3x3"), (192, 1, "Conv2d_0b_1x1")]]


_HALF = {"stride": 2, "padding": "VALID"}
_STEM = [(32, 3, "Conv2d_1a_3x3", _HALF), (32, 3, "Conv2d_2a_3x3", {"padding": "VALID"}), (64, 3, "Conv2d_2b_3x3"),
         (_MAX, 3, "MaxPool_3a_3x3", _HALF), (80, 1, "Conv2d_3b_1x1", {"padding": "VALID"}),
         (192, 3, "Conv2d_4a_3x3", {"padding": "VALID"}), (_MAX, 3, "MaxPool_5a_3x3", _HALF)]
_BLOCKS = [
    ("Mixed_5b", _block_a(32)), ("Mixed_5c", _block_a(64, ("Conv2d_0b_1x1", "Conv_1_0c_5x5"))), ("Mixed_5d", _block_a(64)),
    ("Mixed_6a", [[(384, 3, "Conv2d_1a_1x1", _HALF)],
                  [(64, 1, "Conv2d_0a_1x1"), (96, 3, "Conv2d_0b_3x3"), (96, 3, "Conv2d_1a_1x1", _HALF)],
                  [(_MAX, 3, "MaxPool_1a_3x3", _HALF)]]),
    ("Mixed_6b", _block_c(128)), ("Mixed_6c", _block_c(160)), ("Mixed_6d", _block_c(160)), ("Mixed_6e", _block_c(192)),
    ("Mixed_7a", [[(192, 1, "Conv2d_0a_1x1"), (320, 3, "Conv2d_1a_3x3", _HALF)],
                  [(192, 1, "Conv2d_0a_1x1"), (192, [1, 7], "Conv2d_0b_1x7"), (192, [7, 1], "Conv2d_0c_7x1"),
                   (192, 3, "Conv2d_1a_3x3", _HALF)],
                  [(_MAX, 3, "MaxPool_1a_3x3", _HALF)]]),
    ("Mixed_7b", _block_e("Conv2d_0b_3x1")), ("Mixed_7c", _block_e("Conv2d_0c_3x1"))]


def inception_v3_arg_scope(weight_decay=0.00004, use_batch_norm=True, batch_norm_decay=0.9997, batch_norm_epsilon=0.001,
                           activation_fn=nn.relu, batch_norm_updates_collections="update_ops", use_fused_batchnorm=True,
                           batch_norm_var_collection="moving_vars", stddev=0.1):
    """The arguments of layers that the network was trained with."""
    from .... import initializers
    params = {"decay": batch_norm_decay, "epsilon": batch_norm_epsilon, "updates_collections": batch_norm_updates_collections,
              "fused": use_fused_batchnorm,
              "variables_collections": {"beta": None, "gamma": None, "moving_mean": [batch_norm_var_collection],
                                        "moving_variance": [batch_norm_var_collection]}}
    with arg_scope([layers.conv2d, layers.fully_connected], weights_regularizer=layers.l2_regularizer(weight_decay)):
        with arg_scope([layers.conv2d], weights_initializer=initializers.variance_scaling(), activation_fn=activation_fn,
                       normalizer_fn=layers.batch_norm if use_batch_norm else None,
                       normalizer_params=params if use_batch_norm else {}) as scope:
            return scope


class _Builder:
    """Makes layers from the tables, with depths that may be scaled."""

    def __init__(self, min_depth, multiplier):
        self._min_depth, self._multiplier = min_depth, multiplier

    def depth(self, n):
        return max(int(n * self._multiplier), self._min_depth)

    def layer(self, x, kind, kernel, name, options=None):
        if kind in (_AVG, _MAX):
            f = layers.avg_pool2d if kind == _AVG else layers.max_pool2d
            return f(x, [kernel, kernel], scope=name, **(options or {}))
        kernel = [kernel, kernel] if isinstance(kernel, int) else kernel
        return layers.conv2d(x, self.depth(kind), kernel, scope=name, **(options or {}))

    def branch(self, x, steps):
        for step in steps:
            x = array.concat([self.layer(x, *fork) for fork in step], 3) if isinstance(step, list) else self.layer(x, *step)
        return x

    def block(self, x, branches):
        outs = []
        for i, steps in enumerate(branches):
            with vs.variable_scope("Branch_%d" % i):
                outs.append(self.branch(x, steps))
        return array.concat(outs, 3)


def inception_v3_base(inputs, final_endpoint="Mixed_7c", min_depth=16, depth_multiplier=1.0, scope=None):
    """(features, {name: features}) up to a layer."""
    if depth_multiplier <= 0:
        raise ValueError("depth_multiplier is not greater than zero.")
    build, ends, net = _Builder(min_depth, depth_multiplier), {}, inputs
    with vs.variable_scope(scope, "InceptionV3", [inputs]):
        with arg_scope([layers.conv2d, layers.max_pool2d, layers.avg_pool2d], stride=1, padding="SAME"):
            for name, make in [(s[2], lambda x, s=s: build.layer(x, *s)) for s in _STEM] + [
                    (n, lambda x, b=b, n=n: _scoped(n, build, x, b)) for n, b in _BLOCKS]:
                net = ends[name] = make(net)
                if name == final_endpoint:
                    return net, ends
    raise ValueError("Unknown final endpoint %s" % final_endpoint)


def _scoped(name, build, x, branches):
    with vs.variable_scope(name):
        return build.block(x, branches)


def inception_v3(inputs, num_classes=1000, is_training=True, dropout_keep_prob=0.8, min_depth=16, depth_multiplier=1.0,
                 prediction_fn=layers.softmax, spatial_squeeze=True, reuse=None, create_aux_logits=True, scope="InceptionV3"):
    """(logits, {name: features}); the end points have Logits, Predictions and, for training, AuxLogits too."""
    with vs.variable_scope(scope, "InceptionV3", [inputs], reuse=reuse) as scope:
        with arg_scope([layers.batch_norm, layers.dropout], is_training=is_training):
            net, ends = inception_v3_base(inputs, scope=scope, min_depth=min_depth, depth_multiplier=depth_multiplier)
            build = _Builder(min_depth, depth_multiplier)
            if create_aux_logits and num_classes:
                ends["AuxLogits"] = _aux_logits(ends["Mixed_6e"], build, num_classes, spatial_squeeze)
            with vs.variable_scope("Logits"):
                size = _kernel(net, [8, 8])
                net = ends["AvgPool_1a"] = layers.avg_pool2d(net, size, padding="VALID", scope="AvgPool_1a_%dx%d" % tuple(size))
                if not num_classes:
                    return net, ends
                net = layers.dropout(net, keep_prob=dropout_keep_prob, scope="Dropout_1b")
                ends["PreLogits"] = net
                logits = layers.conv2d(net, num_classes, [1, 1], activation_fn=None, normalizer_fn=None, scope="Conv2d_1c_1x1")
                if spatial_squeeze:
                    logits = array.squeeze(logits, [1, 2], name="SpatialSqueeze")
                ends["Logits"] = logits
                ends["Predictions"] = prediction_fn(logits, scope="Predictions")
    return logits, ends


def _aux_logits(x, build, num_classes, spatial_squeeze):
    """A second classifier half way up, which helps the training of the lower layers."""
    from .... import initializers
    narrow = initializers.truncated_normal(0.0, 0.01)
    with arg_scope([layers.conv2d, layers.max_pool2d, layers.avg_pool2d], stride=1,
                   padding="SAME"), vs.variable_scope("AuxLogits"):
        x = layers.avg_pool2d(x, [5, 5], stride=3, padding="VALID", scope="AvgPool_1a_5x5")
        x = layers.conv2d(x, build.depth(128), [1, 1], scope="Conv2d_1b_1x1")
        size = _kernel(x, [5, 5])
        x = layers.conv2d(x, build.depth(768), size, weights_initializer=narrow, padding="VALID",
                          scope="Conv2d_2a_%dx%d" % tuple(size))
        x = layers.conv2d(x, num_classes, [1, 1], activation_fn=None, normalizer_fn=None, weights_initializer=narrow,
                          scope="Conv2d_2b_1x1")
        return array.squeeze(x, [1, 2], name="SpatialSqueeze") if spatial_squeeze else x


def _kernel(x, size):
    """A window that is not larger than the image."""
    height, width = x.shape.as_list()[1:3]
    return list(size) if height is None or width is None else [min(height, size[0]), min(width, size[1])]


inception_v3.default_image_size = 299
