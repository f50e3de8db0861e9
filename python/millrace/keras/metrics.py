"""Metrics: functions of a batch, and objects that keep totals over many batches in variables.

A metric object's update_state makes the operation that adds a batch to its totals, result a tensor of what they mean;
calling it does both, the result coming after the update.
"""

import inspect
import re

import numpy as np

import millrace as tf

from ..framework.op_defs import raw
from . import backend as K
from .engine.base_layer import Layer
from .losses import (MAE, MAPE, MSE, MSLE, binary_crossentropy, categorical_crossentropy, categorical_hinge,  # noqa: F401
                     cosine, cosine_proximity, cosine_similarity, hinge, kullback_leibler_divergence, logcosh, mae, mape,
                     mean_absolute_error, mean_absolute_percentage_error, mean_squared_error, mean_squared_logarithmic_error,
                     mse, msle, poisson, sparse_categorical_crossentropy, squared_hinge, weighted, kld, KLD)
from .losses import _like
from .utils import generic


# ---- functions ----

def accuracy(y_true, y_pred):
    """Computes whether predictions equal labels, element by element, as 0 or 1."""
    if y_true.dtype != y_pred.dtype:
        y_pred = tf.cast(y_pred, y_true.dtype)
    return tf.cast(tf.equal(y_true, y_pred), K.floatx())


def binary_accuracy(y_true, y_pred, threshold=0.5):
    """Computes the share of predictions on the right side of the threshold, over the last axis."""
    decided = tf.cast(y_pred > tf.cast(threshold, y_pred.dtype), y_pred.dtype)
    return tf.reduce_mean(tf.cast(tf.equal(tf.cast(y_true, y_pred.dtype), decided), K.floatx()), axis=-1)


def categorical_accuracy(y_true, y_pred):
    """Computes whether the largest prediction is at the 1 of the one-hot label, as 0 or 1."""
    return tf.cast(tf.equal(tf.argmax(y_true, axis=-1), tf.argmax(y_pred, axis=-1)), K.floatx())


def sparse_categorical_accuracy(y_true, y_pred):
    """Computes whether the largest prediction is at the index of the integer label, as 0 or 1."""
    y_pred, y_true = tf.convert_to_tensor(y_pred), tf.convert_to_tensor(y_true)
    if y_true.shape.ndims is not None and y_true.shape.ndims == y_pred.shape.ndims:
        y_true = tf.squeeze(y_true, [-1])
    return tf.cast(tf.equal(tf.cast(y_true, tf.int64), tf.argmax(y_pred, axis=-1)), K.floatx())


def top_k_categorical_accuracy(y_true, y_pred, k=5):
    """Computes whether the class of the one-hot label is among the k largest predictions, as 0 or 1."""
    return tf.cast(raw.in_top_kv2(y_pred, tf.argmax(y_true, axis=-1), tf.cast(k, tf.int64)), K.floatx())


def sparse_top_k_categorical_accuracy(y_true, y_pred, k=5):
    """Computes whether the class of the integer label is among the k largest predictions, as 0 or 1."""
    return tf.cast(raw.in_top_kv2(y_pred, tf.cast(tf.reshape(y_true, [-1]), tf.int64), tf.cast(k, tf.int64)), K.floatx())


# ---- objects ----

class Metric(Layer):
    """Totals in variables, which are in no collection; reset_states makes them zero."""

    _is_metric = True

    def __init__(self, name=None, dtype=None, **kwargs):
        super().__init__(name=name, dtype=dtype or K.floatx(), **kwargs)
        self.stateful, self.built = True, True
        self._scope = re.sub("[^A-Za-z0-9_.-]", "", self.name) or "metric"  # a function may be called <lambda>

    def add_weight(self, name, shape=(), aggregation=None, synchronization=None, initializer="zeros", dtype=None):
        """A total; how replicas would share it (aggregation, synchronization) is of no matter to one."""
        with tf.name_scope(self._scope):
            return super().add_weight(name, shape=shape, dtype=dtype or self.dtype, initializer=initializer, trainable=False,
                                      collections=[])

    def __call__(self, *args, **kwargs):
        with tf.name_scope("metrics/" + self._scope):
            update = self.update_state(*args, **kwargs)
            with tf.control_dependencies([update] if not isinstance(update, (list, tuple)) else list(update)):
                return self.result()

    def update_state(self, *args, **kwargs):
        """Returns an operation that adds values to the metric; subclasses define it and its arguments."""
        raise NotImplementedError("Must be implemented in subclasses.")

    def result(self):
        """Returns the value of the metric, as a tensor; subclasses define it."""
        raise NotImplementedError("Must be implemented in subclasses.")

    def reset_states(self):
        """Sets all state variables to zero."""
        K.batch_set_value([(v, np.zeros(v.shape.as_list())) for v in self.weights])

    def get_config(self):
        return {"name": self.name, "dtype": self.dtype}


class Sum(Metric):
    """The weighted sum of values."""

    def __init__(self, name="sum", dtype=None):
        super().__init__(name, dtype)
        self.total = self.add_weight("total")

    def update_state(self, values, sample_weight=None):
        """Returns an operation that adds values, weighted by sample_weight."""
        values = weighted(tf.cast(values, self.dtype), sample_weight)
        return tf.assign_add(self.total, tf.reduce_sum(values)).op

    def result(self):
        return self.total.read_value()


class Mean(Metric):
    """The weighted mean of values."""

    def __init__(self, name="mean", dtype=None):
        super().__init__(name, dtype)
        self.total, self.count = self.add_weight("total"), self.add_weight("count")

    def update_state(self, values, sample_weight=None):
        """Returns an operation that adds values, weighted by sample_weight."""
        values = tf.cast(values, self.dtype)
        if sample_weight is None:
            n, total = tf.cast(tf.size(values), self.dtype), tf.reduce_sum(values)
        else:
            w = weighted(tf.ones_like(values), sample_weight)
            n, total = tf.reduce_sum(w), tf.reduce_sum(values * w)
        return tf.group(tf.assign_add(self.total, total).op, tf.assign_add(self.count, n).op)

    def result(self):
        return tf.div_no_nan(self.total.read_value(), self.count.read_value())


class MeanMetricWrapper(Mean):
    """The mean of a function."""

    def __init__(self, fn, name=None, dtype=None, **kwargs):
        super().__init__(name=name or fn.__name__, dtype=dtype)
        self._fn, self._fn_kwargs = fn, kwargs

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Returns an operation that adds the function's values for these labels and predictions."""
        y_pred = tf.cast(y_pred, self.dtype)
        y_true = tf.convert_to_tensor(y_true)
        return super().update_state(self._fn(_like(y_true, y_pred), y_pred, **self._fn_kwargs), sample_weight=sample_weight)

    def get_config(self):
        return dict(super().get_config(), **self._fn_kwargs)


def _class(name, fn, arguments=(), called=None):
    """The class of a function.  Its arguments come after the name and the type, but k comes before them."""
    default_name = called or fn.__name__
    own = [("name", default_name), ("dtype", None)]
    signature = generic.signature([*arguments, *own] if arguments and arguments[0][0] == "k" else [*own, *arguments])

    def __init__(self, *args, **kwargs):
        values = generic.bound(name, signature, self, args, kwargs)
        MeanMetricWrapper.__init__(self, fn, values.pop("name") or default_name, values.pop("dtype"), **values)

    __init__.__signature__ = signature
    return type(name, (MeanMetricWrapper,), {"__init__": __init__, "__module__": __name__, "__doc__": fn.__doc__})


Accuracy = _class("Accuracy", accuracy)
BinaryAccuracy = _class("BinaryAccuracy", binary_accuracy, (("threshold", 0.5),))
CategoricalAccuracy = _class("CategoricalAccuracy", categorical_accuracy)
SparseCategoricalAccuracy = _class("SparseCategoricalAccuracy", sparse_categorical_accuracy)
TopKCategoricalAccuracy = _class("TopKCategoricalAccuracy", top_k_categorical_accuracy, (("k", 5),))
SparseTopKCategoricalAccuracy = _class("SparseTopKCategoricalAccuracy", sparse_top_k_categorical_accuracy, (("k", 5),))
MeanSquaredError = _class("MeanSquaredError", mean_squared_error)
MeanAbsoluteError = _class("MeanAbsoluteError", mean_absolute_error)
MeanAbsolutePercentageError = _class("MeanAbsolutePercentageError", mean_absolute_percentage_error)
MeanSquaredLogarithmicError = _class("MeanSquaredLogarithmicError", mean_squared_logarithmic_error)
Hinge, SquaredHinge = _class("Hinge", hinge), _class("SquaredHinge", squared_hinge)
CategoricalHinge, LogCoshError = _class("CategoricalHinge", categorical_hinge), _class("LogCoshError", logcosh)
Poisson, KLDivergence = _class("Poisson", poisson), _class("KLDivergence", kullback_leibler_divergence)
BinaryCrossentropy = _class("BinaryCrossentropy", binary_crossentropy, (("from_logits", False), ("label_smoothing", 0)))
CategoricalCrossentropy = _class("CategoricalCrossentropy", categorical_crossentropy,
                                 (("from_logits", False), ("label_smoothing", 0)))
SparseCategoricalCrossentropy = _class("SparseCategoricalCrossentropy", sparse_categorical_crossentropy,
                                       (("from_logits", False), ("axis", -1)))


def _cosine(y_true, y_pred, axis=-1):
    """Computes the cosine of the angle between y_true and y_pred along an axis."""
    return -cosine_proximity(y_true, y_pred, axis=axis)


CosineSimilarity = _class("CosineSimilarity", _cosine, (("axis", -1),), "cosine_similarity")


class RootMeanSquaredError(Mean):
    """The square root of the mean squared error."""

    def __init__(self, name="root_mean_squared_error", dtype=None):
        super().__init__(name, dtype)

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Returns an operation that adds the squared errors of these predictions."""
        y_pred = tf.cast(y_pred, self.dtype)
        return super().update_state(tf.squared_difference(y_pred, tf.cast(_like(y_true, y_pred), self.dtype)), sample_weight)

    def result(self):
        return tf.sqrt(super().result())


def _thresholds(given, default):
    return [default] if given is None else [float(t) for t in (given if isinstance(given, (list, tuple)) else [given])]


class _Confusion(Metric):
    """Counts of right and wrong decisions at thresholds."""

    _counts = ("true_positives", "false_positives", "true_negatives", "false_negatives")

    def _make(self, thresholds, names):
        self._at = np.asarray(thresholds, np.float32)
        self._names = names
        for n in names:
            setattr(self, n, self.add_weight(n, shape=(len(thresholds),)))

    def _prepared(self, y_true, y_pred):
        return tf.cast(y_true, self.dtype), tf.cast(y_pred, self.dtype)

    def update_state(self, y_true, y_pred, sample_weight=None):
        y_true, y_pred = self._prepared(y_true, y_pred)
        w = tf.ones_like(y_pred) if sample_weight is None else weighted(tf.ones_like(y_pred), sample_weight)
        flat = lambda x: tf.reshape(x, [1, -1])
        truth, weights = tf.cast(flat(y_true), "bool"), flat(w)
        yes = flat(y_pred) > tf.constant(self._at[:, None])
        cases = {"true_positives": (True, True), "false_positives": (True, False),
                 "true_negatives": (False, False), "false_negatives": (False, True)}
        changes = []
        for n in self._names:
            decided, is_true = cases[n]
            hit = tf.logical_and(yes if decided else tf.logical_not(yes), truth if is_true else tf.logical_not(truth))
            changes.append(tf.assign_add(getattr(self, n), tf.reduce_sum(tf.cast(hit, self.dtype) * weights, axis=1)).op)
        return tf.group(*changes)

    def _one(self, values):
        return values[0] if len(self._at) == 1 else values


def _count_class(name, count):
    def __init__(self, thresholds=None, name=None, dtype=None):
        _Confusion.__init__(self, name=name or count, dtype=dtype)
        self.thresholds = thresholds
        self._make(_thresholds(thresholds, 0.5), [count])

    def result(self):
        """Returns the count, one for each threshold, as a tensor."""
        return self._one(getattr(self, count).read_value())

    doc = "Counts %s: a prediction above a threshold is positive." % count.replace("_", " ")
    return type(name, (_Confusion,), {"__init__": __init__, "result": result, "__module__": __name__, "__doc__": doc})


TruePositives, FalsePositives = _count_class("TruePositives", "true_positives"), _count_class("FalsePositives",
                                                                                              "false_positives")
TrueNegatives, FalseNegatives = _count_class("TrueNegatives", "true_negatives"), _count_class("FalseNegatives",
                                                                                              "false_negatives")


class _Share(_Confusion):
    """true positives / (true positives + others), of the k largest predictions or one class only if asked for."""

    _other = None

    def __init__(self, thresholds=None, top_k=None, class_id=None, name=None, dtype=None):
        super().__init__(name=name or type(self).__name__.lower(), dtype=dtype)
        self.thresholds, self.top_k, self.class_id = thresholds, top_k, class_id
        default = 0.5 if top_k is None else -np.inf
        self._make(_thresholds(thresholds, default), ["true_positives", self._other])

    def _prepared(self, y_true, y_pred):
        y_true, y_pred = super()._prepared(y_true, y_pred)
        if self.top_k is not None:
            least = raw.top_kv2(y_pred, self.top_k)[0][..., -1:]
            y_pred = tf.where(y_pred >= least, y_pred, tf.fill(tf.shape(y_pred), np.float32(-np.inf)))
        if self.class_id is not None:
            y_true, y_pred = y_true[..., self.class_id], y_pred[..., self.class_id]
        return y_true, y_pred

    def result(self):
        tp = self.true_positives.read_value()
        return self._one(tf.div_no_nan(tp, tp + getattr(self, self._other).read_value()))


class Precision(_Share):
    """The share of positive predictions that are right."""
    _other = "false_positives"


class Recall(_Share):
    """The share of positive labels that were predicted."""
    _other = "false_negatives"


class AUC(_Confusion):
    """The area under the curve of receiver operating characteristic, or of precision and recall."""

    def __init__(self, num_thresholds=200, curve="ROC", summation_method="interpolation", name="auc", dtype=None,
                 thresholds=None):
        super().__init__(name=name, dtype=dtype)
        if curve not in ("ROC", "PR"):
            raise ValueError('Invalid AUC curve value "%s".' % curve)
        if summation_method not in ("interpolation", "minoring", "majoring"):
            raise ValueError('Invalid AUC summation method value "%s".' % summation_method)
        self.curve, self.summation_method = curve, summation_method
        between = sorted(thresholds) if thresholds is not None else [(i + 1) / (num_thresholds - 1)
                                                                     for i in range(num_thresholds - 2)]
        self.num_thresholds = len(between) + 2
        self._make([-K.epsilon()] + list(between) + [1.0 + K.epsilon()], list(self._counts))

    def result(self):
        tp, fp, tn, fn = (getattr(self, n).read_value() for n in self._counts)
        if self.curve == "PR" and self.summation_method == "interpolation":
            return self._interpolated(tp, fp, fn)
        recall = tf.div_no_nan(tp, tp + fn)
        x = tf.div_no_nan(fp, fp + tn) if self.curve == "ROC" else recall
        y = recall if self.curve == "ROC" else tf.div_no_nan(tp, tp + fp)
        height = {"interpolation": lambda a, b: (a + b) / 2.0, "minoring": tf.minimum,
                  "majoring": tf.maximum}[self.summation_method]
        return tf.reduce_sum((x[:-1] - x[1:]) * height(y[:-1], y[1:]))

    @staticmethod
    def _interpolated(tp, fp, fn):
        """Between two thresholds precision follows the counts, not a straight line."""
        dtp, p = tp[:-1] - tp[1:], tp + fp
        slope = tf.div_no_nan(dtp, tf.maximum(p[:-1] - p[1:], 0))
        intercept = tp[1:] - slope * p[1:]
        ratio = tf.where(tf.logical_and(p[:-1] > 0, p[1:] > 0), tf.div_no_nan(p[:-1], tf.maximum(p[1:], 0)),
                         tf.ones_like(p[1:]))
        return tf.reduce_sum(tf.div_no_nan(slope * (dtp + intercept * tf.log(ratio)), tf.maximum(tp[1:] + fn[1:], 0)))


class MeanIoU(Metric):
    """The mean over classes of intersection over union."""

    def __init__(self, num_classes, name=None, dtype=None):
        super().__init__(name=name or "mean_io_u", dtype=dtype)
        self.num_classes = num_classes
        self.total_cm = self.add_weight("total_confusion_matrix", shape=(num_classes, num_classes))

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Returns an operation that adds labels and predictions to the confusion matrix."""
        flat = lambda x: tf.reshape(tf.cast(x, tf.int64), [-1])
        weights = None if sample_weight is None else tf.reshape(tf.cast(sample_weight, self.dtype), [-1])
        cm = tf.confusion_matrix(flat(y_true), flat(y_pred), self.num_classes, weights=weights, dtype=tf.as_dtype(self.dtype))
        return tf.assign_add(self.total_cm, cm).op

    def result(self):
        cm = self.total_cm.read_value()
        right = tf.matrix_diag_part(cm)
        union = tf.reduce_sum(cm, axis=0) + tf.reduce_sum(cm, axis=1) - right
        valid = tf.reduce_sum(tf.cast(tf.not_equal(union, 0), self.dtype))
        return tf.div_no_nan(tf.reduce_sum(tf.div_no_nan(right, union)), valid)


acc, ACC = accuracy, accuracy
_NAMES = {n: f for n, f in globals().items() if n[0] != "_" and callable(f) and (
    inspect.isfunction(f) or isinstance(f, type) and issubclass(f, Metric))}


def serialize(metric):
    """Returns the name and the arguments of a metric as a dict."""
    return generic.serialize_keras_object(metric)


def deserialize(config, custom_objects=None):
    """Makes a metric from the result of serialize, or from its name."""
    return generic.deserialize_keras_object(config, _NAMES, custom_objects, "metric function")


def get(identifier):
    """Returns a metric from a name, a config or a function."""
    if isinstance(identifier, (dict, str)):
        return deserialize(identifier)
    if callable(identifier):
        return identifier
    raise ValueError("Could not interpret metric function identifier: %s" % identifier)
