"""Penalties on weights or outputs."""

import millrace as tf

from .utils import generic


class Regularizer:
    def __call__(self, x):
        return 0.0

    @classmethod
    def from_config(cls, config):
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
        return {"l1": self.l1, "l2": self.l2}


def l1(l=0.01):  # noqa: E741 -- Keras' name
    return L1L2(l1=l)


def l2(l=0.01):  # noqa: E741
    return L1L2(l2=l)


def l1_l2(l1=0.01, l2=0.01):
    return L1L2(l1=l1, l2=l2)


_NAMES = {"L1L2": L1L2, "l1": l1, "l2": l2, "l1_l2": l1_l2}


def serialize(regularizer):
    return generic.serialize_keras_object(regularizer)


def deserialize(config, custom_objects=None):
    return generic.deserialize_keras_object(config, _NAMES, custom_objects, "regularizer")


def get(identifier):
    if identifier is None:
        return None
    if isinstance(identifier, str) and identifier in ("l1", "l2", "l1_l2"):
        return _NAMES[identifier]()
    if isinstance(identifier, (dict, str)):
        return deserialize(identifier)
    if callable(identifier):
        return identifier
    raise ValueError("Could not interpret regularizer identifier: " + str(identifier))
