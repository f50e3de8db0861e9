"""Losses as functions, which give one value a sample, and as classes, which reduce them."""

import millrace as tf

from . import backend as K
from .utils import generic


class Reduction:
    """How the losses of a batch are combined."""
    AUTO, NONE, SUM, SUM_OVER_BATCH_SIZE = "auto", "none", "sum", "sum_over_batch_size"

    @classmethod
    def all(cls):
        """Returns all kinds of reduction."""
        return (cls.AUTO, cls.NONE, cls.SUM, cls.SUM_OVER_BATCH_SIZE)

    @classmethod
    def validate(cls, key):
        """Raises ValueError unless key is a kind of reduction."""
        if key not in cls.all():
            raise ValueError("Invalid Reduction Key %s." % key)


def weighted(values, weights):
    """values * weights; the weights' last dimensions may be missing."""
    if weights is None:
        return values
    weights = tf.cast(weights, values.dtype)
    while weights.shape.ndims is not None and values.shape.ndims is not None and 0 < weights.shape.ndims < values.shape.ndims:
        weights = tf.expand_dims(weights, -1)
    if weights.shape.ndims is not None and values.shape.ndims is not None and weights.shape.ndims == values.shape.ndims + 1:
        weights = tf.squeeze(weights, [-1])
    return values * weights


def reduced(values, reduction):
    """Combines losses as a kind of reduction says."""
    if reduction == Reduction.NONE:
        return values
    if reduction == Reduction.SUM:
        return tf.reduce_sum(values)
    return tf.div_no_nan(tf.reduce_sum(values), tf.cast(tf.size(values), values.dtype))


class Loss:
    """loss(y_true, y_pred, sample_weight=None)"""

    def __init__(self, reduction=Reduction.AUTO, name=None):
        Reduction.validate(reduction)
        self.reduction, self.name = reduction, name

    def __call__(self, y_true, y_pred, sample_weight=None):
        with tf.name_scope(self.name or type(self).__name__):
            return reduced(weighted(self.call(y_true, y_pred), sample_weight), self.reduction)

    def call(self, y_true, y_pred):
        """Computes the loss of each sample; subclasses define it."""
        raise NotImplementedError("Must be implemented in subclasses.")

    def get_config(self):
        """Returns the arguments of the constructor as a dict."""
        return {"reduction": self.reduction, "name": self.name}

    @classmethod
    def from_config(cls, config):
        """Makes a loss from the result of get_config."""
        return cls(**config)


class LossFunctionWrapper(Loss):
    """A function as a class."""

    def __init__(self, fn, reduction=Reduction.AUTO, name=None, **kwargs):
        super().__init__(reduction=reduction, name=name)
        self.fn, self._fn_kwargs = fn, kwargs

    def call(self, y_true, y_pred):
        y_pred = tf.convert_to_tensor(y_pred)
        return self.fn(_like(y_true, y_pred), y_pred, **self._fn_kwargs)

    def get_config(self):
        return dict(super().get_config(), **self._fn_kwargs)


def _like(y_true, y_pred):
    """Drops or adds a last dimension of one where only that differs."""
    y_true = tf.convert_to_tensor(y_true)
    a, b = y_true.shape.ndims, y_pred.shape.ndims
    if a is not None and b is not None and b - a == -1 and y_true.shape.as_list()[-1] == 1:
        return tf.squeeze(y_true, [-1])
    return y_true


def _cast(y_true, y_pred):
    y_pred = tf.convert_to_tensor(y_pred)
    return tf.cast(y_true, y_pred.dtype), y_pred


def _mean_last(x):
    return tf.reduce_mean(x, axis=-1)


# ---- functions ----

def mean_squared_error(y_true, y_pred):
    """Computes the mean of (y_pred - y_true) squared over the last axis."""
    y_true, y_pred = _cast(y_true, y_pred)
    return _mean_last(tf.squared_difference(y_pred, y_true))


def mean_absolute_error(y_true, y_pred):
    """Computes the mean of |y_pred - y_true| over the last axis."""
    y_true, y_pred = _cast(y_true, y_pred)
    return _mean_last(tf.abs(y_pred - y_true))


def mean_absolute_percentage_error(y_true, y_pred):
    """Computes the mean of 100 * |y_true - y_pred| / |y_true| over the last axis."""
    y_true, y_pred = _cast(y_true, y_pred)
    return 100.0 * _mean_last(tf.abs((y_true - y_pred) / tf.maximum(tf.abs(y_true), K.epsilon())))


def mean_squared_logarithmic_error(y_true, y_pred):
    """Computes the mean of (log(y_pred + 1) - log(y_true + 1)) squared over the last axis."""
    y_true, y_pred = _cast(y_true, y_pred)
    log = lambda x: tf.log(tf.maximum(x, K.epsilon()) + 1.0)
    return _mean_last(tf.squared_difference(log(y_pred), log(y_true)))


def _signs(y_true):
    """Labels 0 and 1 as -1 and 1."""
    binary = tf.reduce_all(tf.logical_or(tf.equal(y_true, 0), tf.equal(y_true, 1)))
    return tf.cond(binary, lambda: 2.0 * y_true - 1.0, lambda: tf.identity(y_true))


def squared_hinge(y_true, y_pred):
    """Computes the mean of max(1 - y_true * y_pred, 0) squared over the last axis; labels are -1 or 1, or 0 or 1."""
    y_true, y_pred = _cast(y_true, y_pred)
    return _mean_last(tf.square(tf.maximum(1.0 - _signs(y_true) * y_pred, 0.0)))


def hinge(y_true, y_pred):
    """Computes the mean of max(1 - y_true * y_pred, 0) over the last axis; labels are -1 or 1, or 0 or 1."""
    y_true, y_pred = _cast(y_true, y_pred)
    return _mean_last(tf.maximum(1.0 - _signs(y_true) * y_pred, 0.0))


def categorical_hinge(y_true, y_pred):
    """Computes max(wrong - right + 1, 0), from the scores of the best wrong class and of the right one."""
    y_true, y_pred = _cast(y_true, y_pred)
    right = tf.reduce_sum(y_true * y_pred, axis=-1)
    wrong = tf.reduce_max((1.0 - y_true) * y_pred, axis=-1)
    return tf.maximum(0.0, wrong - right + 1.0)


def huber_loss(y_true, y_pred, delta=1.0):
    """Computes the squared error where it is small, and a linear one where it exceeds delta."""
    y_true, y_pred = _cast(y_true, y_pred)
    error = tf.abs(y_pred - y_true)
    near = tf.minimum(error, delta)
    return 0.5 * tf.square(near) + delta * (error - near)


def logcosh(y_true, y_pred):
    """Computes the mean of log(cosh(y_pred - y_true)) over the last axis."""
    y_true, y_pred = _cast(y_true, y_pred)
    x = y_pred - y_true
    return _mean_last(x + K.softplus(-2.0 * x) - tf.log(2.0))


def _smoothed(y_true, smoothing, n):
    return y_true * (1.0 - smoothing) + smoothing / n if smoothing else y_true


def categorical_crossentropy(y_true, y_pred, from_logits=False, label_smoothing=0):
    """Computes the cross entropy of one-hot labels and predictions.

    y_pred holds probabilities, or logits if from_logits is True; label_smoothing moves labels towards 1 / classes."""
    y_true, y_pred = _cast(y_true, y_pred)
    n = tf.cast(tf.shape(y_true)[1], y_pred.dtype) if label_smoothing else 1
    return K.categorical_crossentropy(_smoothed(y_true, label_smoothing, n), y_pred, from_logits=from_logits)


def sparse_categorical_crossentropy(y_true, y_pred, from_logits=False, axis=-1):
    """Computes the cross entropy of integer labels and predictions.

    y_pred holds probabilities, or logits if from_logits is True; axis is the dimension of the classes."""
    return K.sparse_categorical_crossentropy(y_true, tf.convert_to_tensor(y_pred), from_logits=from_logits, axis=axis)


def binary_crossentropy(y_true, y_pred, from_logits=False, label_smoothing=0):
    """Computes the mean cross entropy of labels 0 or 1 and predictions over the last axis.

    y_pred holds probabilities, or logits if from_logits is True; label_smoothing moves labels towards 0.5."""
    y_true, y_pred = _cast(y_true, y_pred)
    return _mean_last(K.binary_crossentropy(_smoothed(y_true, label_smoothing, 2), y_pred, from_logits=from_logits))


def kullback_leibler_divergence(y_true, y_pred):
    """Computes the sum of y_true * log(y_true / y_pred) over the last axis."""
    y_true, y_pred = _cast(y_true, y_pred)
    y_true, y_pred = K.clip(y_true, K.epsilon(), 1), K.clip(y_pred, K.epsilon(), 1)
    return tf.reduce_sum(y_true * tf.log(y_true / y_pred), axis=-1)


def poisson(y_true, y_pred):
    """Computes the mean of y_pred - y_true * log(y_pred) over the last axis."""
    y_true, y_pred = _cast(y_true, y_pred)
    return _mean_last(y_pred - y_true * tf.log(y_pred + K.epsilon()))


def cosine_proximity(y_true, y_pred, axis=-1):
    """Computes the negative cosine of the angle between y_true and y_pred along an axis."""
    y_true, y_pred = _cast(y_true, y_pred)
    return -tf.reduce_sum(K.l2_normalize(y_true, axis) * K.l2_normalize(y_pred, axis), axis=axis)


cosine = cosine_similarity = cosine_proximity


# ---- classes ----

def _class(name, fn, arguments=()):
    """The class of a function, with its arguments before the reduction."""
    signature = generic.signature([*arguments, ("reduction", Reduction.AUTO), ("name", fn.__name__)])

    def __init__(self, *args, **kwargs):
        values = generic.bound(name, signature, self, args, kwargs)
        LossFunctionWrapper.__init__(self, fn, values.pop("reduction"), values.pop("name"), **values)

    __init__.__signature__ = signature
    return type(name, (LossFunctionWrapper,), {"__init__": __init__, "__module__": __name__, "__doc__": fn.__doc__})


MeanSquaredError = _class("MeanSquaredError", mean_squared_error)
MeanAbsoluteError = _class("MeanAbsoluteError", mean_absolute_error)
MeanAbsolutePercentageError = _class("MeanAbsolutePercentageError", mean_absolute_percentage_error)
MeanSquaredLogarithmicError = _class("MeanSquaredLogarithmicError", mean_squared_logarithmic_error)
BinaryCrossentropy = _class("BinaryCrossentropy", binary_crossentropy, (("from_logits", False), ("label_smoothing", 0)))
CategoricalCrossentropy = _class("CategoricalCrossentropy", categorical_crossentropy,
                                 (("from_logits", False), ("label_smoothing", 0)))
SparseCategoricalCrossentropy = _class("SparseCategoricalCrossentropy", sparse_categorical_crossentropy,
                                       (("from_logits", False),))
Hinge, SquaredHinge = _class("Hinge", hinge), _class("SquaredHinge", squared_hinge)
CategoricalHinge = _class("CategoricalHinge", categorical_hinge)
Poisson, LogCosh = _class("Poisson", poisson), _class("LogCosh", logcosh)
KLDivergence = _class("KLDivergence", kullback_leibler_divergence)
Huber = _class("Huber", huber_loss, (("delta", 1.0),))
CosineSimilarity = _class("CosineSimilarity", cosine_proximity, (("axis", -1),))

mse = MSE = mean_squared_error
mae = MAE = mean_absolute_error
mape = MAPE = mean_absolute_percentage_error
msle = MSLE = mean_squared_logarithmic_error
kld = KLD = kullback_leibler_divergence
bce = BCE = binary_crossentropy

_NAMES = {n: f for n, f in globals().items() if n[0] != "_" and callable(f) and n not in ("weighted", "reduced", "Reduction")}


def serialize(loss):
    """Returns the name of a loss function, or the name and arguments of a loss object."""
    return generic.serialize_keras_object(loss)


def deserialize(name, custom_objects=None):
    """Makes a loss from the result of serialize, or from its name."""
    return generic.deserialize_keras_object(name, _NAMES, custom_objects, "loss function")


def get(identifier):
    """Returns a loss from a name, a config or a function; None stays None."""
    if identifier is None:
        return None
    if isinstance(identifier, (str, dict)):
        return deserialize(identifier)
    if callable(identifier):
        return identifier
    raise ValueError("Could not interpret loss function identifier: %s" % (identifier,))
