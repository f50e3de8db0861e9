"""Models that are ready to use: linear ones, deep ones, and both together.

Variables are named as in TensorFlow: dnn/hiddenlayer_0/kernel, dnn/logits/kernel, linear/linear_model/COLUMN/weights.
"""

import math as _math

from .. import feature_column, layers, losses, nn, train
from ..framework import ops
from ..ops import control_flow, math, partitioners, state
from ..ops import variable_scope as vs
from . import heads
from .estimator import Estimator

_OPTIMIZERS = {"Adagrad": "AdagradOptimizer", "Adam": "AdamOptimizer", "Ftrl": "FtrlOptimizer", "RMSProp": "RMSPropOptimizer",
               "SGD": "GradientDescentOptimizer"}
_SUM = losses.Reduction.SUM


def optimizer_instance(opt, learning_rate=None):
    """An optimizer: of its name, of a function that makes it, or itself."""
    if isinstance(opt, str):
        if opt not in _OPTIMIZERS:
            raise ValueError("Unsupported optimizer name: %s. Supported names are: %s" % (opt, tuple(sorted(_OPTIMIZERS))))
        return getattr(train, _OPTIMIZERS[opt])(learning_rate=learning_rate)
    opt = opt() if callable(opt) else opt
    if not isinstance(opt, train.Optimizer):
        raise ValueError("The given object is not an Optimizer instance. Given: %s" % (opt,))
    return opt


def _check_features(features):
    if not isinstance(features, dict):
        raise ValueError("features should be a dictionary of `Tensor`s. Given type: %s" % type(features))


def _summaries(value, tag):
    from .. import summary
    summary.scalar("%s/fraction_of_zero_values" % tag, nn.zero_fraction(value))
    summary.histogram("%s/activation" % tag, value)


def _partitioner(given, config):
    servers = config.num_ps_replicas if config else 0
    return given or partitioners.min_max_variable_partitioner(max_partitions=servers or 1, min_slice_size=64 << 20)


def dnn_logits(features, mode, columns, hidden_units, units, activation_fn, dropout, batch_norm, partitioner):
    """Fully connected layers over the columns; inside the scope "dnn"."""
    with vs.variable_scope("input_from_feature_columns", values=tuple(features.values()), partitioner=partitioner):
        net = feature_column.input_layer(features, columns)
    training = mode == "train"
    for i, number in enumerate(hidden_units):
        with vs.variable_scope("hiddenlayer_%d" % i, values=(net,)) as scope:
            net = layers.dense(net, units=number, activation=activation_fn, name=scope)
            if dropout is not None and training:
                net = layers.dropout(net, rate=dropout, training=True)
            if batch_norm:
                net = layers.batch_normalization(net, momentum=0.999, training=training, name="batchnorm_%d" % i)
        _summaries(net, scope.name)
    with vs.variable_scope("logits", values=(net,)) as scope:
        logits = layers.dense(net, units=units, activation=None, name=scope)
    _summaries(logits, scope.name)
    return logits


def _dnn_model(features, labels, mode, head, hidden_units, columns, optimizer, activation_fn, dropout, batch_norm, partitioner,
               config):
    _check_features(features)
    optimizer = optimizer_instance(optimizer, learning_rate=0.05)
    with vs.variable_scope("dnn", values=tuple(features.values()), partitioner=_partitioner(None, config)):
        logits = dnn_logits(features, mode, columns, hidden_units, head.logits_dimension, activation_fn, dropout, batch_norm,
                            _partitioner(partitioner, config))
    return head.create_estimator_spec(features=features, mode=mode, labels=labels, optimizer=optimizer, logits=logits)


def _linear_rate(columns, most):
    return min(most, 1.0 / _math.sqrt(len(columns)))


def _linear_model(features, labels, mode, head, columns, optimizer, partitioner, config, sparse_combiner):
    _check_features(features)
    optimizer = optimizer_instance(optimizer, learning_rate=_linear_rate(columns, 0.2))
    with vs.variable_scope("linear", values=tuple(features.values()), partitioner=_partitioner(partitioner, config)):
        logits = feature_column.linear_model(features, columns, units=head.logits_dimension, sparse_combiner=sparse_combiner)
        _summaries(logits, "linear")
    return head.create_estimator_spec(features=features, mode=mode, labels=labels, optimizer=optimizer, logits=logits)


def _combined_model(features, labels, mode, head, linear_columns, linear_optimizer, dnn_columns, dnn_optimizer, hidden_units,
                    activation_fn, dropout, partitioner, config, batch_norm, sparse_combiner):
    _check_features(features)
    if not linear_columns and not dnn_columns:
        raise ValueError("Either linear_feature_columns or dnn_feature_columns must be defined.")
    parts, trained = [], []
    if dnn_columns:
        if not hidden_units:
            raise ValueError("dnn_hidden_units must be defined when dnn_feature_columns is specified.")
        with vs.variable_scope("dnn", values=tuple(features.values()), partitioner=_partitioner(None, config)) as scope:
            parts.append(dnn_logits(features, mode, dnn_columns, hidden_units, head.logits_dimension, activation_fn, dropout,
                                    batch_norm,
                                    _partitioner(partitioner, config)))
            trained.append((optimizer_instance(dnn_optimizer, learning_rate=0.05), scope.name))
    if linear_columns:
        with vs.variable_scope("linear", values=tuple(features.values()),
                               partitioner=_partitioner(partitioner, config)) as scope:
            logits = feature_column.linear_model(features, linear_columns, units=head.logits_dimension,
                                                 sparse_combiner=sparse_combiner)
            _summaries(logits, scope.name)
            parts.append(logits)
            trained.append((optimizer_instance(linear_optimizer, learning_rate=_linear_rate(linear_columns, 0.005)),
                            scope.name))

    def train_op_fn(loss):
        steps = [optimizer.minimize(loss, var_list=ops.get_collection(ops.GraphKeys.TRAINABLE_VARIABLES, scope=name))
                 for optimizer, name in trained]
        with ops.control_dependencies([control_flow.group(*steps)]):
            return state.assign_add(train.get_global_step(), 1).op

    logits = parts[0] if len(parts) == 1 else math.add(*parts)
    return head.create_estimator_spec(features=features, mode=mode, labels=labels, train_op_fn=train_op_fn, logits=logits)


def _model(build, head, **of):
    """A model function of a builder and its settings."""
    def model_fn(features, labels, mode, config):
        return build(features=features, labels=labels, mode=mode, head=head, config=config, **of)
    return model_fn


class _Canned(Estimator):
    """An Estimator of a builder, a head and settings."""

    def _begin(self, build, head, model_dir, config, warm_start_from, **of):
        Estimator.__init__(self, _model(build, head, **of), model_dir=model_dir, config=config, warm_start_from=warm_start_from)


class DNNEstimator(_Canned):
    """A deep neural network with a head of your own.

    Args:
        head: computes predictions, loss and metrics from the outputs of the network
        hidden_units: the sizes of the hidden layers
        feature_columns: what the network reads of the features
    """

    def __init__(self, head, hidden_units, feature_columns, model_dir=None, optimizer="Adagrad", activation_fn=nn.relu,
                 dropout=None,
                 input_layer_partitioner=None, config=None, warm_start_from=None, batch_norm=False):
        self._begin(_dnn_model, head, model_dir, config, warm_start_from, hidden_units=hidden_units,
                    columns=tuple(feature_columns or []),
                    optimizer=optimizer, activation_fn=activation_fn, dropout=dropout, batch_norm=batch_norm,
                    partitioner=input_layer_partitioner)


class DNNClassifier(DNNEstimator):
    """A deep neural network that chooses one of n_classes.

    Args:
        hidden_units: the sizes of the hidden layers
        feature_columns: what the network reads of the features
        weight_column: the feature with the weight of each sample
        label_vocabulary: the names of the classes, if labels are strings
    """

    def __init__(self, hidden_units, feature_columns, model_dir=None, n_classes=2, weight_column=None, label_vocabulary=None,
                 optimizer="Adagrad", activation_fn=nn.relu, dropout=None, input_layer_partitioner=None, config=None,
                 warm_start_from=None, loss_reduction=_SUM, batch_norm=False):
        super().__init__(heads.classification_head(n_classes, weight_column, label_vocabulary, loss_reduction), hidden_units,
                         feature_columns, model_dir, optimizer, activation_fn, dropout, input_layer_partitioner, config,
                         warm_start_from, batch_norm)


class DNNRegressor(DNNEstimator):
    """A deep neural network that predicts label_dimension numbers.

    Args:
        hidden_units: the sizes of the hidden layers
        feature_columns: what the network reads of the features
        weight_column: the feature with the weight of each sample
    """

    def __init__(self, hidden_units, feature_columns, model_dir=None, label_dimension=1, weight_column=None,
                 optimizer="Adagrad",
                 activation_fn=nn.relu, dropout=None, input_layer_partitioner=None, config=None, warm_start_from=None,
                 loss_reduction=_SUM, batch_norm=False):
        super().__init__(heads.RegressionHead(weight_column, label_dimension, loss_reduction), hidden_units, feature_columns,
                         model_dir,
                         optimizer, activation_fn, dropout, input_layer_partitioner, config, warm_start_from, batch_norm)


class LinearEstimator(_Canned):
    """A linear model with a head of your own."""

    def __init__(self, head, feature_columns, model_dir=None, optimizer="Ftrl", config=None, partitioner=None,
                 sparse_combiner="sum",
                 warm_start_from=None):
        self._begin(_linear_model, head, model_dir, config, warm_start_from, columns=tuple(feature_columns or []),
                    optimizer=optimizer,
                    partitioner=partitioner, sparse_combiner=sparse_combiner)


class LinearClassifier(LinearEstimator):
    """A linear model that chooses one of n_classes."""

    def __init__(self, feature_columns, model_dir=None, n_classes=2, weight_column=None, label_vocabulary=None,
                 optimizer="Ftrl",
                 config=None, partitioner=None, warm_start_from=None, loss_reduction=_SUM, sparse_combiner="sum"):
        super().__init__(heads.classification_head(n_classes, weight_column, label_vocabulary, loss_reduction), feature_columns,
                         model_dir,
                         optimizer, config, partitioner, sparse_combiner, warm_start_from)


class LinearRegressor(LinearEstimator):
    """A linear model that predicts label_dimension numbers."""

    def __init__(self, feature_columns, model_dir=None, label_dimension=1, weight_column=None, optimizer="Ftrl", config=None,
                 partitioner=None, warm_start_from=None, loss_reduction=_SUM, sparse_combiner="sum"):
        super().__init__(heads.RegressionHead(weight_column, label_dimension, loss_reduction), feature_columns, model_dir,
                         optimizer, config,
                         partitioner, sparse_combiner, warm_start_from)


class DNNLinearCombinedEstimator(_Canned):
    """A linear model and a deep neural network whose outputs are added, with a head of your own."""

    def __init__(self, head, model_dir=None, linear_feature_columns=None, linear_optimizer="Ftrl", dnn_feature_columns=None,
                 dnn_optimizer="Adagrad", dnn_hidden_units=None, dnn_activation_fn=nn.relu, dnn_dropout=None,
                 input_layer_partitioner=None, config=None, linear_sparse_combiner="sum", warm_start_from=None,
                 batch_norm=False):
        self._begin(_combined_model, head, model_dir, config, warm_start_from,
                    linear_columns=tuple(linear_feature_columns or []),
                    linear_optimizer=linear_optimizer, dnn_columns=tuple(dnn_feature_columns or []),
                    dnn_optimizer=dnn_optimizer,
                    hidden_units=dnn_hidden_units, activation_fn=dnn_activation_fn, dropout=dnn_dropout,
                    partitioner=input_layer_partitioner, batch_norm=batch_norm, sparse_combiner=linear_sparse_combiner)


class DNNLinearCombinedClassifier(DNNLinearCombinedEstimator):
    """A linear model and a deep neural network whose outputs are added, to choose one of n_classes."""

    def __init__(self, model_dir=None, linear_feature_columns=None, linear_optimizer="Ftrl", dnn_feature_columns=None,
                 dnn_optimizer="Adagrad", dnn_hidden_units=None, dnn_activation_fn=nn.relu, dnn_dropout=None, n_classes=2,
                 weight_column=None, label_vocabulary=None, input_layer_partitioner=None, config=None, warm_start_from=None,
                 loss_reduction=_SUM, batch_norm=False, linear_sparse_combiner="sum"):
        super().__init__(heads.classification_head(n_classes, weight_column, label_vocabulary, loss_reduction), model_dir,
                         linear_feature_columns, linear_optimizer, dnn_feature_columns, dnn_optimizer, dnn_hidden_units,
                         dnn_activation_fn, dnn_dropout, input_layer_partitioner, config, linear_sparse_combiner,
                         warm_start_from,
                         batch_norm)


class DNNLinearCombinedRegressor(DNNLinearCombinedEstimator):
    """A linear model and a deep neural network whose outputs are added, to predict numbers."""

    def __init__(self, model_dir=None, linear_feature_columns=None, linear_optimizer="Ftrl", dnn_feature_columns=None,
                 dnn_optimizer="Adagrad", dnn_hidden_units=None, dnn_activation_fn=nn.relu, dnn_dropout=None, label_dimension=1,
                 weight_column=None, input_layer_partitioner=None, config=None, warm_start_from=None, loss_reduction=_SUM,
                 batch_norm=False, linear_sparse_combiner="sum"):
        super().__init__(heads.RegressionHead(weight_column, label_dimension, loss_reduction), model_dir,
                         linear_feature_columns,
                         linear_optimizer, dnn_feature_columns, dnn_optimizer, dnn_hidden_units, dnn_activation_fn, dnn_dropout,
                         input_layer_partitioner, config, linear_sparse_combiner, warm_start_from, batch_norm)


# ---- what anything better is measured against ----

def _baseline_model(features, labels, mode, head, optimizer, config):
    optimizer = optimizer_instance(optimizer, learning_rate=0.3)
    from .. import initializers
    from ..ops import array
    with vs.variable_scope("baseline"):
        bias = vs.get_variable("bias", shape=[head.logits_dimension], initializer=initializers.zeros())
        first = next(iter(features.values())) if isinstance(features, dict) else features
        rows = first.dense_shape[0] if hasattr(first, "dense_shape") else array.shape(first)[0]
        logits = array.ones(array.stack([math.cast(rows, "int32"), 1])) * bias
    return head.create_estimator_spec(features=features, mode=mode, labels=labels, optimizer=optimizer, logits=logits)


class BaselineEstimator(_Canned):
    """A model that ignores the features and learns only a bias, with a head of your own."""

    def __init__(self, head, model_dir=None, optimizer="Ftrl", config=None):
        self._begin(_baseline_model, head, model_dir, config, None, optimizer=optimizer)


class BaselineClassifier(BaselineEstimator):
    """The shares of the classes, whatever the features."""

    def __init__(self, model_dir=None, n_classes=2, weight_column=None, label_vocabulary=None, optimizer="Ftrl", config=None,
                 loss_reduction=_SUM):
        super().__init__(heads.classification_head(n_classes, weight_column, label_vocabulary, loss_reduction), model_dir,
                         optimizer, config)


class BaselineRegressor(BaselineEstimator):
    """The mean of the labels."""

    def __init__(self, model_dir=None, label_dimension=1, weight_column=None, optimizer="Ftrl", config=None,
                 loss_reduction=_SUM):
        super().__init__(heads.RegressionHead(weight_column, label_dimension, loss_reduction), model_dir, optimizer, config)
