"""Random tensors."""

import numpy as np

from ..framework import convert, dtypes, op_defs, ops
from ..framework.random_seed import get_seed, set_random_seed
from .array import _shape_tensor

__all__ = ["get_seed", "set_random_seed"]


def public(f):
    __all__.append(f.__name__)
    return f


def _seeds(seed):
    a, b = get_seed(seed)
    return {"seed": a or 0, "seed2": b or 0}


def _shaped(out, shape):
    """Tells what is known of the shape, also where it is known in part."""
    if isinstance(shape, ops.Tensor):
        known = convert.constant_value_as_shape(shape)
        if known.ndims is not None:
            out.set_shape(known)
    return out


@public
def random_normal(shape, mean=0.0, stddev=1.0, dtype=dtypes.float32, seed=None, name=None):
    """Returns random numbers from a normal distribution."""
    with ops.name_scope(name, "random_normal", [shape, mean, stddev]) as name:
        return _normal("RandomStandardNormal", shape, mean, stddev, dtype, name, lambda: _seeds(seed))


def _normal(op_type, shape, mean, stddev, dtype, name, seeds):
    """The seed of an operation may count the operations before it: it is asked for once all that go into it are there."""
    size = _shape_tensor(shape)
    mean = convert.convert_to_tensor(mean, dtype, name="mean")
    stddev = convert.convert_to_tensor(stddev, dtype, name="stddev")
    numbers = op_defs.call(op_type, None, shape=size, dtype=dtype, **seeds())
    return _shaped(op_defs.call("Add", name, x=op_defs.call("Mul", "mul", x=numbers, y=stddev), y=mean), shape)


@public
def truncated_normal(shape, mean=0.0, stddev=1.0, dtype=dtypes.float32, seed=None, name=None):
    """Returns random numbers from a normal distribution, all within two standard deviations of the mean."""
    with ops.name_scope(name, "truncated_normal", [shape, mean, stddev]) as name:
        return _normal("TruncatedNormal", shape, mean, stddev, dtype, name, lambda: _seeds(seed))


@public
def parameterized_truncated_normal(shape, means=0.0, stddevs=1.0, minvals=-2.0, maxvals=2.0, dtype=dtypes.float32, seed=None,
                                   name=None):
    """Returns random numbers from normal distributions cut off at minvals and maxvals, a set of parameters for
    each batch."""
    with ops.name_scope(name, "parameterized_truncated_normal", [shape]):
        given = [convert.convert_to_tensor(x, dtype) for x in (means, stddevs, minvals, maxvals)]
        return op_defs.call("ParameterizedTruncatedNormal", None, shape=_shape_tensor(shape), means=given[0], stdevs=given[1],
                            minvals=given[2], maxvals=given[3], **_seeds(seed))


@public
def random_uniform(shape, minval=0, maxval=None, dtype=dtypes.float32, seed=None, name=None):
    """Returns random numbers from minval up to, but not including, maxval.

    maxval is 1 by default, but must be given for integers."""
    dtype = dtypes.as_dtype(dtype)
    if maxval is None:
        if dtype.is_integer:
            raise ValueError("Must specify maxval for integer dtype %r" % dtype)
        maxval = 1
    with ops.name_scope(name, "random_uniform", [shape, minval, maxval]) as name:
        size = _shape_tensor(shape)
        low = convert.convert_to_tensor(minval, dtype, name="min")
        high = convert.convert_to_tensor(maxval, dtype, name="max")
        if dtype.is_integer:
            return _shaped(op_defs.call("RandomUniformInt", name, shape=size, minval=low, maxval=high, **_seeds(seed)), shape)
        numbers = op_defs.call("RandomUniform", None, shape=size, dtype=dtype, **_seeds(seed))
        scaled = op_defs.call("Mul", "mul", x=numbers, y=op_defs.call("Sub", "sub", x=high, y=low))
        return _shaped(op_defs.call("Add", name, x=scaled, y=low), shape)


@public
def random_shuffle(value, seed=None, name=None):
    """Shuffles a tensor along its first dimension."""
    return op_defs.call("RandomShuffle", name, value=value, **_seeds(seed))


@public
def random_crop(value, size, seed=None, name=None):
    """A part of the value of that size, anywhere in it."""
    with ops.name_scope(name, "random_crop", [value, size]) as name:
        value = convert.convert_to_tensor(value, name="value")
        size = convert.convert_to_tensor(size, dtypes.int32, name="size")
        room = op_defs.call("Shape", None, input=value) - size
        offset = random_uniform(op_defs.call("Shape", None, input=room), dtype=dtypes.int32, maxval=dtypes.int32.max, seed=seed)
        out = op_defs.call("Slice", name, input=value, begin=op_defs.call("FloorMod", None, x=offset, y=room + 1), size=size)
        known = convert.constant_value_as_shape(size)
        if known.ndims is not None:
            out.set_shape(known)
        return out


@public
def multinomial(logits, num_samples, seed=None, name=None, output_dtype=None):
    """Draws num_samples classes for each row of logits, the unnormalized log probabilities."""
    with ops.name_scope(name, "multinomial", [logits]):
        return op_defs.call("Multinomial", None, logits=logits, num_samples=num_samples,
                            output_dtype=output_dtype or dtypes.int64, **_seeds(seed))


@public
def random_gamma(shape, alpha, beta=None, dtype=dtypes.float32, seed=None, name=None):
    """Returns random numbers from gamma distributions of shape alpha and rate beta.

    The result has the given shape followed by the broadcast shape of alpha and beta."""
    with ops.name_scope(name, "random_gamma", [shape, alpha, beta]):
        alpha = convert.convert_to_tensor(alpha, dtype, name="alpha")
        beta = convert.convert_to_tensor(1 if beta is None else beta, dtype, name="beta")
        sizes = [op_defs.call("Shape", None, input=x) for x in (alpha, beta)]
        both = op_defs.call("BroadcastArgs", None, s0=sizes[0], s1=sizes[1])
        wide = op_defs.call("BroadcastTo", None, input=alpha, shape=both)
        # Gammas are positive: what is too small for the type becomes its smallest normal number.
        tiny = convert.constant(np.finfo(alpha.dtype.as_numpy_dtype).tiny, alpha.dtype)
        drawn = op_defs.call("RandomGamma", None, shape=_shape_tensor(shape), alpha=wide, **_seeds(seed))
        return op_defs.call("Maximum", None, x=tiny, y=op_defs.call("RealDiv", None, x=drawn, y=beta))


@public
def random_poisson(lam, shape, dtype=dtypes.float32, seed=None, name=None):
    """Returns random numbers from Poisson distributions of rate lam.

    The result has the given shape followed by the shape of lam."""
    with ops.name_scope(name, "random_poisson", [lam, shape]):
        return op_defs.call("RandomPoissonV2", None, shape=_shape_tensor(shape), rate=lam, dtype=dtype, **_seeds(seed))


def _stateless(op_type, default):
    def f(shape, seed, mean=0.0, stddev=1.0, dtype=dtypes.float32, name=None):
        with ops.name_scope(name, default, [shape, seed, mean, stddev]) as name:
            return _normal(op_type, shape, mean, stddev, dtype, name, lambda: {"seed": seed})
    f.__name__ = f.__qualname__ = default
    f.__doc__ = """Returns random numbers from a %snormal distribution.

    They depend only on the arguments; seed is two integers.""" % ("truncated " if "truncated" in default else "")
    return public(f)


stateless_random_normal = _stateless("StatelessRandomNormal", "stateless_random_normal")
stateless_truncated_normal = _stateless("StatelessTruncatedNormal", "stateless_truncated_normal")


@public
def stateless_random_uniform(shape, seed, minval=0, maxval=None, dtype=dtypes.float32, name=None):
    """Returns random numbers from minval to maxval that depend only on the arguments; seed is two integers."""
    dtype = dtypes.as_dtype(dtype)
    if maxval is None:
        if dtype.is_integer:
            raise ValueError("Must specify maxval for integer dtype %r" % dtype)
        maxval = 1
    with ops.name_scope(name, "stateless_random_uniform", [shape, seed, minval, maxval]) as name:
        low = convert.convert_to_tensor(minval, dtype, name="min")
        high = convert.convert_to_tensor(maxval, dtype, name="max")
        if dtype.is_integer:
            return op_defs.call("StatelessRandomUniformInt", name, shape=_shape_tensor(shape), seed=seed, minval=low,
                                maxval=high)
        numbers = op_defs.call("StatelessRandomUniform", None, shape=_shape_tensor(shape), seed=seed, dtype=dtype)
        return op_defs.call("Add", name, x=numbers * (high - low), y=low)


@public
def stateless_multinomial(logits, num_samples, seed, output_dtype=dtypes.int64, name=None):
    """Draws classes for each row of logits; the result depends only on the arguments, and seed is two integers."""
    return op_defs.call("StatelessMultinomial", name, logits=logits, num_samples=num_samples, seed=seed,
                        output_dtype=output_dtype)
