"""Initializers of Keras: those of tf.initializers, of which the random ones have other defaults here."""

from .. import initializers as _all
from ..framework import dtypes
from ..initializers import (Constant, GlorotNormal, GlorotUniform, Identity, Initializer, Ones, Orthogonal, VarianceScaling,
                            # noqa: F401
                            Zeros, he_normal, he_uniform, lecun_normal, lecun_uniform)
from .utils import generic


class RandomNormal(_all.RandomNormal):
    """Fills with random numbers from a normal distribution."""

    def __init__(self, mean=0.0, stddev=0.05, seed=None, dtype=dtypes.float32):
        super().__init__(mean, stddev, seed, dtype)


class RandomUniform(_all.RandomUniform):
    """Fills with random numbers from minval to maxval."""

    def __init__(self, minval=-0.05, maxval=0.05, seed=None, dtype=dtypes.float32):
        super().__init__(minval, maxval, seed, dtype)


class TruncatedNormal(_all.TruncatedNormal):
    """Fills with random numbers from a normal distribution, all within two standard deviations of the mean."""

    def __init__(self, mean=0.0, stddev=0.05, seed=None, dtype=dtypes.float32):
        super().__init__(mean, stddev, seed, dtype)


zeros = zero = Zeros
ones = one = Ones
constant, identity, orthogonal = Constant, Identity, Orthogonal
uniform = random_uniform = RandomUniform
normal = random_normal = RandomNormal
truncated_normal = TruncatedNormal
glorot_normal, glorot_uniform = GlorotNormal, GlorotUniform

_NAMES = {n: f for n, f in globals().items() if n[0] != "_" and (isinstance(f, type) or n.startswith(("he_", "lecun_")))}


def serialize(initializer):
    """Returns the name and the arguments of an initializer as a dict."""
    return generic.serialize_keras_object(initializer)


def deserialize(config, custom_objects=None):
    """Makes an initializer from the result of serialize, or from its name."""
    if isinstance(config, str):
        made = generic.find_object(config, _NAMES, custom_objects, "initializer")
        return made() if isinstance(made, type) or made in (he_normal, he_uniform, lecun_normal, lecun_uniform) else made
    return generic.deserialize_keras_object(config, _NAMES, custom_objects, "initializer")


def get(identifier):
    """Returns an initializer from a name, a config or a function; None stays None."""
    if identifier is None:
        return None
    if isinstance(identifier, (dict, str)):
        return deserialize(identifier)
    if callable(identifier):
        return identifier() if isinstance(identifier, type) else identifier
    raise ValueError("Could not interpret initializer identifier: " + str(identifier))
