"""Initializers: objects that make the initial value of a variable of a given shape and type.

`initializer(shape, dtype=None, partition_info=None)`; partition_info (ops.variable_scope.PartitionInfo) tells of the whole
variable when the value is of a part of it, so that the spread of the values follows the size of the whole.  get_config() gives
the arguments that make an equal one.
"""

import math

import numpy as np

from .framework import convert, dtypes
from .framework.op_defs import raw

__all__ = ["Initializer", "constant", "global_variables", "glorot_normal", "glorot_uniform", "he_normal", "he_uniform",
           "identity", "lecun_normal", "lecun_uniform", "local_variables", "ones", "orthogonal", "random_normal",
           "random_uniform", "tables_initializer", "truncated_normal", "uniform_unit_scaling", "variables",
           "variance_scaling", "zeros"]


class Initializer:
    """Makes initial values."""

    def __call__(self, shape, dtype=None, partition_info=None):
        raise NotImplementedError

    def get_config(self):
        """Returns the arguments of the constructor as a dict."""
        return {}

    @classmethod
    def from_config(cls, config):
        """Makes an initializer from the result of get_config."""
        return cls(**config)

    def _config(self, *names):
        config = {n: getattr(self, n) for n in names}
        config["dtype"] = self.dtype.name
        return config


def _float_dtype(dtype):
    dtype = dtypes.as_dtype(dtype)
    if not dtype.is_floating:
        raise ValueError("Expected floating point type, got %s." % dtype)
    return dtype


def _random():
    from .ops import random
    return random


class Zeros(Initializer):
    """Fills with zeros."""

    def __init__(self, dtype=dtypes.float32):
        self.dtype = dtypes.as_dtype(dtype)

    def __call__(self, shape, dtype=None, partition_info=None):
        from .ops import array
        return array.zeros(shape, self.dtype if dtype is None else dtype)

    def get_config(self):
        return self._config()


class Ones(Initializer):
    """Fills with ones."""

    def __init__(self, dtype=dtypes.float32):
        self.dtype = dtypes.as_dtype(dtype)

    def __call__(self, shape, dtype=None, partition_info=None):
        from .ops import array
        return array.ones(shape, self.dtype if dtype is None else dtype)

    def get_config(self):
        return self._config()


class Constant(Initializer):
    """A value, or values that the last one is repeated after."""

    def __init__(self, value=0, dtype=dtypes.float32, verify_shape=False):
        if not (np.isscalar(value) or isinstance(value, (list, tuple, np.ndarray))):
            raise TypeError("Invalid type for initial value: %s (expected Python scalar, list or tuple of values, or "
                            "numpy.ndarray)." % type(value))
        self.value, self.dtype, self._verify_shape = value, dtypes.as_dtype(dtype), verify_shape

    def __call__(self, shape, dtype=None, partition_info=None, verify_shape=None):
        verify = self._verify_shape if verify_shape is None else verify_shape
        return convert.constant(self.value, self.dtype if dtype is None else dtype, shape, verify_shape=verify)

    def get_config(self):
        return self._config("value")


class RandomUniform(Initializer):
    """Evenly from [minval, maxval)."""

    def __init__(self, minval=0, maxval=None, seed=None, dtype=dtypes.float32):
        self.minval, self.maxval, self.seed, self.dtype = minval, maxval, seed, dtypes.as_dtype(dtype)

    def __call__(self, shape, dtype=None, partition_info=None):
        return _random().random_uniform(shape, self.minval, self.maxval, self.dtype if dtype is None else dtype, seed=self.seed)

    def get_config(self):
        return self._config("minval", "maxval", "seed")


class RandomNormal(Initializer):
    """Normally distributed."""

    def __init__(self, mean=0.0, stddev=1.0, seed=None, dtype=dtypes.float32):
        self.mean, self.stddev, self.seed, self.dtype = mean, stddev, seed, _float_dtype(dtype)

    def __call__(self, shape, dtype=None, partition_info=None):
        return _random().random_normal(shape, self.mean, self.stddev, self.dtype if dtype is None else dtype, seed=self.seed)

    def get_config(self):
        return self._config("mean", "stddev", "seed")


class TruncatedNormal(RandomNormal):
    """Normally distributed, without what is more than two standard deviations away."""

    def __call__(self, shape, dtype=None, partition_info=None):
        return _random().truncated_normal(shape, self.mean, self.stddev, self.dtype if dtype is None else dtype, seed=self.seed)


class UniformUnitScaling(Initializer):
    """Evenly, so that a layer's output has the variance of its input."""

    def __init__(self, factor=1.0, seed=None, dtype=dtypes.float32):
        self.factor, self.seed, self.dtype = factor, seed, _float_dtype(dtype)

    def __call__(self, shape, dtype=None, partition_info=None):
        size = 1.0
        for d in _whole(shape, partition_info)[:-1]:
            size *= float(d)
        limit = math.sqrt(3 / max(size, 1.0)) * self.factor
        return _random().random_uniform(shape, -limit, limit, self.dtype if dtype is None else dtype, seed=self.seed)

    def get_config(self):
        return self._config("factor", "seed")


def _whole(shape, partition_info):
    return [int(d) for d in (shape if partition_info is None else partition_info.full_shape)]


def _fans(shape):
    """The number of inputs and outputs of a layer whose weights have this shape."""
    if len(shape) < 1:
        return 1.0, 1.0
    if len(shape) == 1:
        return shape[0], shape[0]
    field = float(np.prod(shape[:-2], dtype=float)) if len(shape) > 2 else 1
    return shape[-2] * field, shape[-1] * field


class VarianceScaling(Initializer):
    """Fills with random numbers of variance scale / n; n is the number of inputs, of outputs, or their mean."""

    def __init__(self, scale=1.0, mode="fan_in", distribution="truncated_normal", seed=None, dtype=dtypes.float32):
        if scale <= 0.0:
            raise ValueError("`scale` must be positive float.")
        if mode not in ("fan_in", "fan_out", "fan_avg"):
            raise ValueError("Invalid `mode` argument: %s" % mode)
        distribution = distribution.lower()
        if distribution not in ("normal", "uniform", "truncated_normal", "untruncated_normal"):
            raise ValueError("Invalid `distribution` argument: %s" % distribution)
        self.scale, self.mode, self.distribution = scale, mode, distribution
        self.seed, self.dtype = seed, _float_dtype(dtype)

    def __call__(self, shape, dtype=None, partition_info=None):
        dtype = self.dtype if dtype is None else dtype
        fan_in, fan_out = _fans(_whole(shape, partition_info))
        n = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2.0}[self.mode]
        scale = self.scale / max(1.0, n)
        if self.distribution == "uniform":
            limit = math.sqrt(3.0 * scale)
            return _random().random_uniform(shape, -limit, limit, dtype, seed=self.seed)
        if self.distribution == "untruncated_normal":
            return _random().random_normal(shape, 0.0, math.sqrt(scale), dtype, seed=self.seed)
        # Cutting the tails off makes the spread smaller: this is the deviation of what is left.
        return _random().truncated_normal(shape, 0.0, math.sqrt(scale) / .87962566103423978, dtype, seed=self.seed)

    def get_config(self):
        return self._config("scale", "mode", "distribution", "seed")


class GlorotUniform(VarianceScaling):
    """Fills with uniform random numbers whose range depends on the sizes of input and output; also called Xavier."""

    def __init__(self, seed=None, dtype=dtypes.float32):
        super().__init__(1.0, "fan_avg", "uniform", seed, dtype)

    def get_config(self):
        return self._config("seed")


class GlorotNormal(VarianceScaling):
    """Fills with truncated normal numbers whose spread depends on the sizes of input and output; also called Xavier."""

    def __init__(self, seed=None, dtype=dtypes.float32):
        super().__init__(1.0, "fan_avg", "truncated_normal", seed, dtype)

    def get_config(self):
        return self._config("seed")


class Orthogonal(Initializer):
    """A matrix with orthonormal rows or columns, times gain; further dimensions count as rows."""

    def __init__(self, gain=1.0, seed=None, dtype=dtypes.float32):
        self.gain, self.seed, self.dtype = gain, seed, _float_dtype(dtype)

    def __call__(self, shape, dtype=None, partition_info=None):
        dtype = dtypes.as_dtype(self.dtype if dtype is None else dtype)
        shape = [int(d) for d in shape]
        if len(shape) < 2:
            raise ValueError("The tensor to initialize must be at least two-dimensional")
        rows, cols = int(np.prod(shape[:-1])), shape[-1]
        a = _random().random_normal([max(rows, cols), min(rows, cols)], dtype=dtype, seed=self.seed)
        q, r = raw.qr(a, full_matrices=False)
        q = raw.mul(q, raw.sign(raw.matrix_diag_part(r)))  # makes the choice of signs even
        if rows < cols:
            q = raw.transpose(q, [1, 0])
        return raw.mul(convert.constant(self.gain, dtype), raw.reshape(q, shape))

    def get_config(self):
        return self._config("gain", "seed")


class Identity(Initializer):
    """The identity matrix, times gain."""

    def __init__(self, gain=1.0, dtype=dtypes.float32):
        self.gain, self.dtype = gain, _float_dtype(dtype)

    def __call__(self, shape, dtype=None, partition_info=None):
        full = _whole(shape, partition_info)
        if len(full) != 2:
            raise ValueError("Identity matrix initializer can only be used for 2D matrices.")
        dtype = dtypes.as_dtype(self.dtype if dtype is None else dtype)
        whole = convert.constant(self.gain * np.eye(*full), dtype)
        return whole if partition_info is None else raw.slice(whole, partition_info.var_offset, [int(d) for d in shape])

    def get_config(self):
        return self._config("gain")


def lecun_normal(seed=None):
    """Returns an initializer with truncated normal numbers of variance 1 / inputs."""
    return VarianceScaling(1.0, "fan_in", "truncated_normal", seed)


def lecun_uniform(seed=None):
    """Returns an initializer with uniform numbers of variance 1 / inputs."""
    return VarianceScaling(1.0, "fan_in", "uniform", seed)


def he_normal(seed=None):
    """Returns an initializer with truncated normal numbers of variance 2 / inputs."""
    return VarianceScaling(2.0, "fan_in", "truncated_normal", seed)


def he_uniform(seed=None):
    """Returns an initializer with uniform numbers of variance 2 / inputs."""
    return VarianceScaling(2.0, "fan_in", "uniform", seed)


zeros, ones, constant, identity, orthogonal = Zeros, Ones, Constant, Identity, Orthogonal
random_uniform, random_normal, truncated_normal = RandomUniform, RandomNormal, TruncatedNormal
uniform_unit_scaling, variance_scaling = UniformUnitScaling, VarianceScaling
glorot_uniform, glorot_normal = GlorotUniform, GlorotNormal


def get(identifier):
    """The initializer meant by an object, a name, or {"class_name": ..., "config": ...}; None stays None."""
    if identifier is None or callable(identifier):
        return identifier() if isinstance(identifier, type) else identifier
    if isinstance(identifier, dict):
        return _named(identifier["class_name"]).from_config(identifier.get("config", {}))
    if isinstance(identifier, str):
        return _named(identifier)()
    raise ValueError("Could not interpret initializer identifier: %s" % (identifier,))


def _named(name):
    aliases = {"normal": "random_normal", "uniform": "random_uniform", "one": "ones", "zero": "zeros", "eye": "identity"}
    found = globals().get(aliases.get(name, name)) if name in aliases or name in __all__ or name[:1].isupper() else None
    if not callable(found):
        raise ValueError("Unknown initializer: %s" % name)
    return found


def __getattr__(name):
    if name in ("global_variables", "local_variables", "variables"):
        from .ops import variables as v
        return {"global_variables": v.global_variables_initializer, "local_variables": v.local_variables_initializer,
                "variables": v.variables_initializer}[name]
    if name.endswith("_initializer") and name[:-12] in __all__:
        return globals()[name[:-12]]
    if name == "tables_initializer":
        from . import tables_initializer
        return tables_initializer
    raise AttributeError("module 'tf.initializers' has no attribute %r" % name)
