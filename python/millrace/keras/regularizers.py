"""Penalties on weights or outputs."""

import millrace as tf

from .utils import generic


class Regularizer:
    """The base of regularizers: functions from weights to a loss."""

    def __call__(self, x):
        return 0.0

    @classmethod
    def from_config(cls, config):
        """Makes a regularizer from the result of get_config."""
        return cls(**config)


class L1L2(Regularizer):
    """l1 times the sum of sizes, l2 times the sum of squares."""

    def __init__(self, l1=0.0, l2=0.0):
        self.l1, self.l2 = float(l1), float(l2)

    def __call__(self, x):
        total = tf.constant(0.0, dtype=x.dtype.base_dtype)
        if self.l1:
            total = total + self.l1 * tf.reduce_sum(tf.abs(x))
        if self.l2:
            total = total + self.l2 * tf.reduce_sum(tf.square(x))
        return total

    def get_config(self):
        """Returns the arguments of the constructor as a dict."""
        return {"l1": self.l1, "l2": self.l2}


def l1(l=0.01):  # noqa: E741 -- Keras' name
    """Returns a regularizer that adds l times the sum of absolute values to the loss."""
    return L1L2(l1=l)


def l2(l=0.01):  # noqa: E741
    """Returns a regularizer that adds l times the sum of squares to the loss."""
    return L1L2(l2=l)


def l1_l2(l1=0.01, l2=0.01):
    """Returns a regularizer that adds l1 times the sum of absolute values and l2 times the sum of squares to the
    loss."""
    return L1L2(l1=l1, l2=l2)


_NAMES = {"L1L2": L1L2, "l1": l1, "l2": l2, "l1_l2": l1_l2}


def serialize(regularizer):
    """Returns the name and the arguments of a regularizer as a dict."""
    return generic.serialize_keras_object(regularizer)


def deserialize(config, custom_objects=None):
    """Makes a regularizer from the result of serialize, or from its name."""
    return generic.deserialize_keras_object(config, _NAMES, custom_objects, "regularizer")


def get(identifier):
    """Returns a regularizer from a name, a config or a function; None stays None."""
    if identifier is None:
        return None
    if isinstance(identifier, str) and identifier in ("l1", "l2", "l1_l2"):
        return _NAMES[identifier]()
    if isinstance(identifier, (dict, str)):
        return deserialize(identifier)
    if callable(identifier):
        return identifier
    raise ValueError("Could not interpret regularizer identifier: " + str(identifier))
