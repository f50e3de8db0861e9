"""What weights are made to keep to after each step of training."""

import millrace as tf

from . import backend as K
from .utils import generic


class Constraint:
    """The base of constraints: functions applied to weights after each update."""

    def __call__(self, w):
        return w

    def get_config(self):
        """Returns the arguments of the constructor as a dict."""
        return {}


def _norm(w, axis):
    return tf.sqrt(tf.reduce_sum(tf.square(w), axis=axis, keepdims=True))


class MaxNorm(Constraint):
    """Norms along the axis are at most max_value."""

    def __init__(self, max_value=2, axis=0):
        self.max_value, self.axis = max_value, axis

    def __call__(self, w):
        norms = _norm(w, self.axis)
        return w * (K.clip(norms, 0, self.max_value) / (K.epsilon() + norms))

    def get_config(self):
        return {"max_value": self.max_value, "axis": self.axis}


class NonNeg(Constraint):
    """Makes weights non-negative."""

    def __call__(self, w):
        return w * tf.cast(tf.greater_equal(w, 0.0), w.dtype.base_dtype)


class UnitNorm(Constraint):
    """Makes the norm of weights along an axis 1."""

    def __init__(self, axis=0):
        self.axis = axis

    def __call__(self, w):
        return w / (K.epsilon() + _norm(w, self.axis))

    def get_config(self):
        return {"axis": self.axis}


class MinMaxNorm(Constraint):
    """Norms are drawn into [min_value, max_value], by a part `rate` of the way each time."""

    def __init__(self, min_value=0.0, max_value=1.0, rate=1.0, axis=0):
        self.min_value, self.max_value, self.rate, self.axis = min_value, max_value, rate, axis

    def __call__(self, w):
        norms = _norm(w, self.axis)
        wanted = self.rate * K.clip(norms, self.min_value, self.max_value) + (1 - self.rate) * norms
        return w * (wanted / (K.epsilon() + norms))

    def get_config(self):
        return {"min_value": self.min_value, "max_value": self.max_value, "rate": self.rate, "axis": self.axis}


class RadialConstraint(Constraint):
    """Kernels of two dimensions that are the same in all directions from their middle."""

    def __call__(self, w):
        shape = w.shape.as_list()
        if len(shape) != 4 or shape[0] != shape[1]:
            raise ValueError("The weight tensor must be of rank 4 with a square kernel, got %s" % shape)
        n = shape[0]
        rows = []
        for i in range(n):
            ring = lambda j: min(min(i, n - 1 - i), min(j, n - 1 - j))
            rows.append(tf.stack([w[ring(j), n // 2] for j in range(n)]))
        return tf.stack(rows)


max_norm, non_neg, unit_norm, min_max_norm, radial_constraint = MaxNorm, NonNeg, UnitNorm, MinMaxNorm, RadialConstraint
_NAMES = {f.__name__: f for f in (MaxNorm, NonNeg, UnitNorm, MinMaxNorm, RadialConstraint)}
_NAMES.update(max_norm=MaxNorm, non_neg=NonNeg, unit_norm=UnitNorm, min_max_norm=MinMaxNorm, maxnorm=MaxNorm, nonneg=NonNeg,
              unitnorm=UnitNorm, radial_constraint=RadialConstraint)


def serialize(constraint):
    """Returns the name and the arguments of a constraint as a dict."""
    return generic.serialize_keras_object(constraint)


def deserialize(config, custom_objects=None):
    """Makes a constraint from the result of serialize, or from its name."""
    return generic.deserialize_keras_object(config, _NAMES, custom_objects, "constraint")


def get(identifier):
    """Returns a constraint from a name, a config or a function; None stays None."""
    if identifier is None or callable(identifier) and not isinstance(identifier, type):
        return identifier
    if isinstance(identifier, type):
        return identifier()
    if isinstance(identifier, (dict, str)):
        return deserialize(identifier)
    raise ValueError("Could not interpret constraint identifier: " + str(identifier))
