"""Functions that layers end with."""

from ..framework.op_defs import raw
from . import backend as K
from .utils import generic


def softmax(x, axis=-1):
    """Computes exp(x) / sum(exp(x)) along an axis."""
    rank = K.ndim(x)
    if rank is not None and rank < 2:
        raise ValueError("Cannot apply softmax to a tensor that is 1D. Received input: %s" % (x,))
    return K.softmax(x, axis=axis)


def elu(x, alpha=1.0):
    """Computes x where it is positive, and alpha * (exp(x) - 1) elsewhere."""
    return K.elu(x, alpha)


def selu(x):
    """Computes the scaled exponential linear unit, whose outputs keep mean 0 and variance 1."""
    return raw.selu(x)


def softplus(x):
    """Computes log(exp(x) + 1)."""
    return raw.softplus(x)


def softsign(x):
    """Computes x / (|x| + 1)."""
    return raw.softsign(x)


def relu(x, alpha=0.0, max_value=None, threshold=0):
    """Computes max(x, 0), with some variations.

    Args:
        alpha: the slope below the threshold
        max_value: the largest result, or None
        threshold: the value below which the slope is alpha
    """
    return K.relu(x, alpha=alpha, max_value=max_value, threshold=threshold)


def tanh(x):
    """Computes the hyperbolic tangent."""
    return raw.tanh(x)


def sigmoid(x):
    """Computes 1 / (1 + exp(-x))."""
    return raw.sigmoid(x)


def exponential(x):
    """Computes exp(x)."""
    return raw.exp(x)


def hard_sigmoid(x):
    """Computes 0.2 * x + 0.5, limited to the range from 0 to 1."""
    return K.hard_sigmoid(x)


def linear(x):
    """Returns x as it is."""
    return x


_NAMES = {f.__name__: f for f in (softmax, elu, selu, softplus, softsign, relu, tanh, sigmoid, exponential, hard_sigmoid,
                                  linear)}


def serialize(activation):
    """Returns the name of an activation function."""
    if hasattr(activation, "get_config"):
        return generic.serialize_keras_object(activation)
    return getattr(activation, "__name__", activation)


def deserialize(name, custom_objects=None):
    """Returns the activation function with this name."""
    known = {**_NAMES, **generic.get_custom_objects(), **(custom_objects or {})}
    if isinstance(name, str) and name not in known:
        import millrace
        found = getattr(millrace.nn, name, None)
        if found is not None:
            return found
    return generic.deserialize_keras_object(name, _NAMES, custom_objects, "activation function")


def get(identifier):
    """Returns an activation function: a name is looked up, None is linear, a function is returned as it is."""
    if identifier is None:
        return linear
    if callable(identifier):
        return identifier
    if isinstance(identifier, dict):
        from .layers import serialization
        return serialization.deserialize(identifier)
    if isinstance(identifier, str):
        return deserialize(identifier)
    raise TypeError("Could not interpret activation function identifier: %s" % repr(identifier))
