"""Estimators of tf.contrib.learn: those of tf.estimator, with fit(x, y) and predictions as it had them."""

import collections
import copy
import inspect

import numpy as np

from ... import estimator as core
from ...framework import ops
from ...ops import array, partitioners
from ..layers.feature_columns import UNNAMED, real_valued_column


class ModeKeys:
    """The modes that a model function is called with."""
    TRAIN, EVAL, INFER = "train", "eval", "infer"


class PredictionKey:
    """The names of predictions."""
    CLASSES, PROBABILITIES, LOGITS, LOGISTIC, SCORES = "classes", "probabilities", "logits", "logistic", "scores"


class ModelFnOps(collections.namedtuple("ModelFnOps", ["predictions", "loss", "train_op", "eval_metric_ops",
                                                       "output_alternatives",
                                                       "training_chief_hooks", "training_hooks", "scaffold", "mode"])):
    """What a model function of tf.contrib.learn returns."""

    def __new__(cls, mode, predictions=None, loss=None, train_op=None, eval_metric_ops=None, output_alternatives=None,
                training_chief_hooks=None, training_hooks=None, scaffold=None):
        return super().__new__(cls, predictions, loss, train_op, eval_metric_ops or {}, output_alternatives,
                               training_chief_hooks or [],
                               training_hooks or [], scaffold, mode)

    def spec(self):
        """Returns the same as an EstimatorSpec."""
        predictions = self.predictions if self.predictions is not None else {}
        return core.EstimatorSpec(self.mode, predictions=predictions, loss=self.loss, train_op=self.train_op,
                                  eval_metric_ops=self.eval_metric_ops, training_chief_hooks=self.training_chief_hooks,
                                  training_hooks=self.training_hooks, scaffold=self.scaffold)


class MetricSpec:
    """A metric by its function, and which predictions, labels and weights it is of."""

    def __init__(self, metric_fn, prediction_key=None, label_key=None, weight_key=None):
        self.metric_fn, self.prediction_key, self.label_key, self.weight_key = metric_fn, prediction_key, label_key, weight_key

    def create_metric_ops(self, inputs, labels, predictions):
        """Returns the value and the update operation of the metric for these tensors."""
        predictions = predictions[self.prediction_key] if self.prediction_key else predictions
        labels = labels[self.label_key] if self.label_key else labels
        names = list(inspect.signature(self.metric_fn).parameters)
        given = {"weights": inputs[self.weight_key]} if self.weight_key else {}
        if "predictions" in names and "labels" in names:
            return self.metric_fn(predictions=predictions, labels=labels, **given)
        return self.metric_fn(predictions, labels, **given)


def _class_predictions(predictions):
    """Predictions with classes as numbers, as tf.contrib.learn has them."""
    if not isinstance(predictions, dict) or "class_ids" not in predictions:
        return predictions
    return dict(predictions, classes=array.squeeze(predictions["class_ids"], [-1]))


class BaseEstimator(core.Estimator):
    """An Estimator that is trained by fit."""

    def _call_model_fn(self, features, labels, mode, config):
        features = features if isinstance(features, dict) else {UNNAMED: features} if self._wants_dict else features
        return super()._call_model_fn(features, labels, mode, config)

    _wants_dict = True

    def fit(self, x=None, y=None, input_fn=None, steps=None, batch_size=None, monitors=None, max_steps=None):
        """Trains the model.

        Args:
            x: arrays of features, or give input_fn
            y: arrays of labels
            input_fn: a function that returns features and labels
            steps: the number of steps
            batch_size: the number of samples in a step, for arrays
            monitors: a list of monitors or hooks
            max_steps: the global step to stop at
        """
        hooks = list(monitors or [])
        for h in hooks:
            if hasattr(h, "set_estimator"):
                h.set_estimator(self)
        return self.train(_input_fn(x, y, input_fn, batch_size, True, None), hooks=hooks, steps=steps, max_steps=max_steps)

    partial_fit = fit

    def evaluate(self, x=None, y=None, input_fn=None, feed_fn=None, batch_size=None, steps=None, metrics=None, name=None,
                 checkpoint_path=None, hooks=None, log_progress=True):
        """{metric: value}; log_progress is of an older interface, and what is logged does not depend on it."""
        _no(feed_fn=feed_fn)
        if callable(x) and input_fn is None:
            x, input_fn = None, x
        whole = _input_fn(x, y, input_fn, batch_size, False, 1)
        measured = self if not metrics else self._with_metrics(metrics)
        return core.Estimator.evaluate(measured, whole, steps=steps, hooks=hooks, checkpoint_path=checkpoint_path, name=name)

    def _with_metrics(self, metrics):
        other = copy.copy(self)

        def call(features, labels, mode, config):
            spec = type(self)._call_model_fn(self, features, labels, mode, config)
            if mode != ModeKeys.EVAL:
                return spec
            more = dict(spec.eval_metric_ops)
            for key, metric in metrics.items():
                if not isinstance(metric, MetricSpec):
                    name, key_ = key if isinstance(key, tuple) else (key, None)
                    metric, key = MetricSpec(metric, key_), name
                more[key] = metric.create_metric_ops(features, labels, _class_predictions(spec.predictions))
            return spec._replace(eval_metric_ops=more)
        other._call_model_fn = call
        return other

    def predict(self, x=None, input_fn=None, batch_size=None, outputs=None, as_iterable=True, iterate_batches=False):
        if callable(x) and input_fn is None:
            x, input_fn = None, x
        made = core.Estimator.predict(self, _input_fn(x, None, input_fn, batch_size, False, 1),
                                      yield_single_examples=not iterate_batches)
        made = (self._prediction(p, outputs) for p in made)
        if as_iterable:
            return made
        rows, join = list(made), np.concatenate if iterate_batches else np.array
        return {k: join([r[k] for r in rows]) for k in rows[0]} if rows and isinstance(rows[0], dict) else join(rows)

    _key = None

    def _prediction(self, p, outputs):
        """Of an example or of a batch: the class is the last dimension in both."""
        if isinstance(p, dict) and "class_ids" in p:
            p = dict(p, classes=p["class_ids"][..., 0])
        if outputs:
            return {k: p[k] for k in outputs}
        return p[self._key] if self._key else p


def _input_fn(x, y, input_fn, batch_size, shuffle, num_epochs):
    if (x is None) == (input_fn is None):
        raise ValueError("Either x or input_fn must be provided.")
    if input_fn is not None:
        return input_fn
    x = {k: np.asarray(v) for k, v in x.items()} if isinstance(x, dict) else np.asarray(x)
    number = len(next(iter(x.values()))) if isinstance(x, dict) else len(x)
    return core.inputs.numpy_input_fn(x, None if y is None else np.asarray(y), batch_size or number, num_epochs, shuffle)


class Estimator(BaseEstimator):
    """An estimator with a model function that returns ModelFnOps or (predictions, loss, train_op)."""

    _wants_dict = False

    def __init__(self, model_fn=None, model_dir=None, config=None, params=None, feature_engineering_fn=None):
        if feature_engineering_fn is not None:
            raise NotImplementedError("Estimator with a feature_engineering_fn")
        names = list(inspect.signature(model_fn).parameters)

        def spec_fn(features, labels, mode, params, config):
            more = {k: v for k, v in (("mode", mode), ("params", params), ("config", config), ("model_dir", model_dir))
                    if k in names}
            made = model_fn(features, labels, **more)
            if isinstance(made, core.EstimatorSpec):
                return made
            return (made if isinstance(made, ModelFnOps) else ModelFnOps(mode, *made)).spec()
        super().__init__(spec_fn, model_dir, config, params)


class _Classifier(BaseEstimator):
    _key = "classes"

    def predict_classes(self, x=None, input_fn=None, batch_size=None, as_iterable=True):
        """Returns the predicted classes, as an iterator or an array."""
        return self.predict(x, input_fn, batch_size, as_iterable=as_iterable)

    def predict_proba(self, x=None, input_fn=None, batch_size=None, as_iterable=True):
        """Returns the predicted probabilities of the classes, as an iterator or an array."""
        made = (p["probabilities"] for p in self.predict(x, input_fn, batch_size, ["probabilities"]))
        return made if as_iterable else np.array(list(made))


class _Regressor(BaseEstimator):
    _key = "scores"

    def _prediction(self, p, outputs):
        made = p["predictions"]
        return super()._prediction({"scores": made[..., 0] if made.shape[-1] == 1 else made}, outputs)

    def predict_scores(self, x=None, input_fn=None, batch_size=None, as_iterable=True):
        """Returns the predicted values, as an iterator or an array."""
        return self.predict(x, input_fn, batch_size, as_iterable=as_iterable)


def _optimizer(given, default):
    return default if given is None else given


class DNNClassifier(_Classifier, core.DNNClassifier):
    """A deep neural network that chooses one of n_classes."""

    def __init__(self, hidden_units, feature_columns, model_dir=None, n_classes=2, weight_column_name=None, optimizer=None,
                 activation_fn=None, dropout=None, gradient_clip_norm=None, enable_centered_bias=False, config=None,
                 feature_engineering_fn=None, embedding_lr_multipliers=None, input_layer_min_slice_size=None, label_keys=None):
        _no(gradient_clip_norm=gradient_clip_norm, enable_centered_bias=enable_centered_bias,
            feature_engineering_fn=feature_engineering_fn, embedding_lr_multipliers=embedding_lr_multipliers)
        core.DNNClassifier.__init__(self, hidden_units, feature_columns, model_dir, n_classes, weight_column_name, label_keys,
                                    _optimizer(optimizer, "Adagrad"), activation_fn or _relu(), dropout,
                                    _slices(input_layer_min_slice_size, config), config)


class DNNRegressor(_Regressor, core.DNNRegressor):
    """A deep neural network that predicts numbers."""

    def __init__(self, hidden_units, feature_columns, model_dir=None, weight_column_name=None, optimizer=None,
                 activation_fn=None,
                 dropout=None, gradient_clip_norm=None, enable_centered_bias=False, config=None, feature_engineering_fn=None,
                 label_dimension=1, embedding_lr_multipliers=None, input_layer_min_slice_size=None):
        _no(gradient_clip_norm=gradient_clip_norm, enable_centered_bias=enable_centered_bias,
            feature_engineering_fn=feature_engineering_fn, embedding_lr_multipliers=embedding_lr_multipliers)
        core.DNNRegressor.__init__(self, hidden_units, feature_columns, model_dir, label_dimension, weight_column_name,
                                   _optimizer(optimizer, "Adagrad"), activation_fn or _relu(), dropout,
                                   _slices(input_layer_min_slice_size, config), config)


class LinearClassifier(_Classifier, core.LinearClassifier):
    """A linear model that chooses one of n_classes."""

    def __init__(self, feature_columns, model_dir=None, n_classes=2, weight_column_name=None, optimizer=None,
                 gradient_clip_norm=None,
                 enable_centered_bias=False, _joint_weight=False, config=None, feature_engineering_fn=None, label_keys=None):
        _no(gradient_clip_norm=gradient_clip_norm, enable_centered_bias=enable_centered_bias,
            feature_engineering_fn=feature_engineering_fn, _joint_weight=_joint_weight)
        core.LinearClassifier.__init__(self, feature_columns, model_dir, n_classes, weight_column_name, label_keys,
                                       _optimizer(optimizer, "Ftrl"), config)


class LinearRegressor(_Regressor, core.LinearRegressor):
    """A linear model that predicts numbers."""

    def __init__(self, feature_columns, model_dir=None, weight_column_name=None, optimizer=None, gradient_clip_norm=None,
                 enable_centered_bias=False, label_dimension=1, _joint_weights=False, config=None, feature_engineering_fn=None):
        _no(gradient_clip_norm=gradient_clip_norm, enable_centered_bias=enable_centered_bias,
            feature_engineering_fn=feature_engineering_fn, _joint_weights=_joint_weights)
        core.LinearRegressor.__init__(self, feature_columns, model_dir, label_dimension, weight_column_name,
                                      _optimizer(optimizer, "Ftrl"), config)


class DNNLinearCombinedClassifier(_Classifier, core.DNNLinearCombinedClassifier):
    """A linear model and a deep neural network whose outputs are added, to choose one of n_classes."""

    def __init__(self, model_dir=None, n_classes=2, weight_column_name=None, linear_feature_columns=None, linear_optimizer=None,
                 _joint_linear_weights=False, dnn_feature_columns=None, dnn_optimizer=None, dnn_hidden_units=None,
                 dnn_activation_fn=None, dnn_dropout=None, gradient_clip_norm=None, enable_centered_bias=False, config=None,
                 feature_engineering_fn=None, embedding_lr_multipliers=None, input_layer_min_slice_size=None, label_keys=None,
                 fix_global_step_increment_bug=False):
        _no(gradient_clip_norm=gradient_clip_norm, enable_centered_bias=enable_centered_bias,
            feature_engineering_fn=feature_engineering_fn, embedding_lr_multipliers=embedding_lr_multipliers,
            _joint_linear_weights=_joint_linear_weights)
        core.DNNLinearCombinedClassifier.__init__(
            self, model_dir, linear_feature_columns, _optimizer(linear_optimizer, "Ftrl"), dnn_feature_columns,
            _optimizer(dnn_optimizer, "Adagrad"), dnn_hidden_units, dnn_activation_fn or _relu(), dnn_dropout, n_classes,
            weight_column_name, label_keys, _slices(input_layer_min_slice_size, config), config)


class DNNLinearCombinedRegressor(_Regressor, core.DNNLinearCombinedRegressor):
    """A linear model and a deep neural network whose outputs are added, to predict numbers."""

    def __init__(self, model_dir=None, weight_column_name=None, linear_feature_columns=None, linear_optimizer=None,
                 _joint_linear_weights=False, dnn_feature_columns=None, dnn_optimizer=None, dnn_hidden_units=None,
                 dnn_activation_fn=None, dnn_dropout=None, gradient_clip_norm=None, enable_centered_bias=False,
                 label_dimension=1,
                 config=None, feature_engineering_fn=None, embedding_lr_multipliers=None, input_layer_min_slice_size=None,
                 fix_global_step_increment_bug=False):
        _no(gradient_clip_norm=gradient_clip_norm, enable_centered_bias=enable_centered_bias,
            feature_engineering_fn=feature_engineering_fn, embedding_lr_multipliers=embedding_lr_multipliers,
            _joint_linear_weights=_joint_linear_weights)
        core.DNNLinearCombinedRegressor.__init__(
            self, model_dir, linear_feature_columns, _optimizer(linear_optimizer, "Ftrl"), dnn_feature_columns,
            _optimizer(dnn_optimizer, "Adagrad"), dnn_hidden_units, dnn_activation_fn or _relu(), dnn_dropout, label_dimension,
            weight_column_name, _slices(input_layer_min_slice_size, config), config)


def _no(**settings):
    """Refuses settings that would change the model, unless they are off."""
    for name, value in settings.items():
        if value is not None and value is not False:
            raise NotImplementedError("tf.contrib.learn's estimators with %s" % name)


def _slices(min_slice_size, config):
    """A partitioner for the inputs of deep models, when their smallest part is given."""
    if min_slice_size is None:
        return None
    servers = (core.RunConfig() if config is None else config).num_ps_replicas
    return partitioners.min_max_variable_partitioner(max_partitions=servers or 1, min_slice_size=min_slice_size)


def _relu():
    from ... import nn
    return nn.relu


class SKCompat:
    """fit, score and predict as scikit-learn has them, of arrays."""

    def __init__(self, estimator):
        self._estimator = estimator

    def fit(self, x, y, batch_size=128, steps=None, max_steps=None, monitors=None):
        """Trains the model on arrays."""
        self._estimator.fit(x, y, batch_size=batch_size, steps=steps, max_steps=max_steps, monitors=monitors)
        return self

    def score(self, x, y, batch_size=128, steps=None, metrics=None, name=None):
        """Evaluates the model on arrays, and returns {name: metric}."""
        return self._estimator.evaluate(x, y, batch_size=batch_size, steps=steps, metrics=metrics,
                                        name="score" if name is None else name)

    def predict(self, x, batch_size=128, outputs=None):
        """Returns the predictions for an array."""
        return self._estimator.predict(x, batch_size=batch_size, outputs=outputs, as_iterable=False)


def infer_real_valued_columns_from_input(x):
    """Columns for an array, or for a dict of them."""
    if isinstance(x, dict):
        return [real_valued_column(k, int(np.prod(np.asarray(v).shape[1:]) or 1)) for k, v in sorted(x.items())]
    return [real_valued_column("", int(np.prod(np.asarray(x).shape[1:]) or 1))]


def infer_real_valued_columns_from_input_fn(input_fn):
    """Returns columns of numbers for all features that input_fn returns."""
    with ops.Graph().as_default():
        features = input_fn()[0]
        features = features if isinstance(features, dict) else {UNNAMED: features}
        return [real_valued_column(k, v.shape[1:].num_elements() or 1) for k, v in sorted(features.items())]
