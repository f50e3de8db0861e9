"""Learning rates that fall with the global step: functions of tf.train that give a tensor."""

import math as _math

from ..framework import convert, dtypes, ops
from ..ops import array, control_flow, math, random

__all__ = ["cosine_decay", "cosine_decay_restarts", "exponential_decay", "inverse_time_decay", "linear_cosine_decay",
           "natural_exp_decay", "noisy_linear_cosine_decay", "piecewise_constant", "piecewise_constant_decay",
           "polynomial_decay"]


def _steps_asked(global_step, what):
    if global_step is None:
        raise ValueError("global_step is required for %s." % what)


def _progress(global_step, decay_steps, dtype, staircase=False):
    p = math.cast(global_step, dtype) / math.cast(decay_steps, dtype)
    return math.floor(p) if staircase else p


def exponential_decay(learning_rate, global_step, decay_steps, decay_rate, staircase=False, name=None):
    """learning_rate * decay_rate ^ (step / decay_steps)"""
    _steps_asked(global_step, "exponential_decay")
    with ops.name_scope(name, "ExponentialDecay", [learning_rate, global_step, decay_steps, decay_rate]) as scope:
        rate = convert.convert_to_tensor(learning_rate, name="learning_rate")
        p = _progress(global_step, decay_steps, rate.dtype, staircase)
        return math.multiply(rate, math.pow(math.cast(decay_rate, rate.dtype), p), name=scope)


def natural_exp_decay(learning_rate, global_step, decay_steps, decay_rate, staircase=False, name=None):
    """learning_rate * exp(-decay_rate * step / decay_steps)"""
    _steps_asked(global_step, "natural_exp_decay")
    with ops.name_scope(name, "NaturalExpDecay", [learning_rate, global_step, decay_rate]) as scope:
        rate = convert.convert_to_tensor(learning_rate, name="learning_rate")
        p = _progress(global_step, decay_steps, rate.dtype, staircase)
        return math.multiply(rate, math.exp(-math.cast(decay_rate, rate.dtype) * p), name=scope)


def inverse_time_decay(learning_rate, global_step, decay_steps, decay_rate, staircase=False, name=None):
    """learning_rate / (1 + decay_rate * step / decay_steps)"""
    _steps_asked(global_step, "inverse_time_decay")
    with ops.name_scope(name, "InverseTimeDecay", [learning_rate, global_step, decay_rate]) as scope:
        rate = convert.convert_to_tensor(learning_rate, name="learning_rate")
        p = _progress(global_step, decay_steps, rate.dtype, staircase)
        return math.divide(rate, 1 + math.cast(decay_rate, rate.dtype) * p, name=scope)


def piecewise_constant(x, boundaries, values, name=None):
    """values[0] up to boundaries[0], values[1] up to boundaries[1], ..., then the last one."""
    if len(boundaries) != len(values) - 1:
        raise ValueError("The length of boundaries should be 1 less than the length of values")
    with ops.name_scope(name, "PiecewiseConstant", [x, boundaries, values]):
        x = convert.convert_to_tensor(x)
        bounds = [_boundary(b, x.dtype.base_dtype) for b in boundaries]
        rates = [convert.convert_to_tensor(v) for v in values]
        for v in rates[1:]:
            if v.dtype.base_dtype != rates[0].dtype.base_dtype:
                raise ValueError("Values must have elements all with the same dtype (%s vs %s)." %
                                 (rates[0].dtype.base_dtype, v.dtype.base_dtype))
        result = rates[-1]
        for b, v in zip(reversed(bounds), reversed(rates[:-1])):
            result = array.where(math.less_equal(x, b), v, result)
        return array.identity(result)


def _boundary(b, dtype):
    b = convert.convert_to_tensor(b)
    if b.dtype.base_dtype == dtype:
        return b
    if b.dtype.base_dtype == dtypes.int32 and dtype == dtypes.int64:
        return math.cast(b, dtype)
    raise ValueError("Boundaries (%s) must have the same dtype as x (%s)." % (b.dtype.base_dtype, dtype))


piecewise_constant_decay = piecewise_constant


def polynomial_decay(learning_rate, global_step, decay_steps, end_learning_rate=0.0001, power=1.0, cycle=False, name=None):
    """Goes from learning_rate to end_learning_rate in decay_steps, then stays there, or starts again with cycle."""
    _steps_asked(global_step, "polynomial_decay")
    with ops.name_scope(name, "PolynomialDecay", [learning_rate, global_step, decay_steps, end_learning_rate, power]) as scope:
        rate = convert.convert_to_tensor(learning_rate, name="learning_rate")
        end, step = math.cast(end_learning_rate, rate.dtype), math.cast(global_step, rate.dtype)
        steps = math.cast(decay_steps, rate.dtype)
        if cycle:
            times = array.where(math.equal(step, 0), array.ones_like(step), math.ceil(step / steps))
            steps = steps * times
        else:
            step = math.minimum(step, steps)
        return math.add((rate - end) * math.pow(1 - step / steps, math.cast(power, rate.dtype)), end, name=scope)


def cosine_decay(learning_rate, global_step, decay_steps, alpha=0.0, name=None):
    """Along half a cosine to alpha * learning_rate."""
    _steps_asked(global_step, "cosine decay")
    with ops.name_scope(name, "CosineDecay", [learning_rate, global_step]):
        rate = convert.convert_to_tensor(learning_rate, name="learning_rate")
        steps = math.cast(decay_steps, rate.dtype)
        p = math.minimum(math.cast(global_step, rate.dtype), steps) / steps
        return rate * ((1 - alpha) * _half_cosine(p) + alpha)


def _half_cosine(p):
    return 0.5 * (1.0 + math.cos(convert.constant(_math.pi, p.dtype) * p))


def cosine_decay_restarts(learning_rate, global_step, first_decay_steps, t_mul=2.0, m_mul=1.0, alpha=0.0, name=None):
    """Cosine decays one after the other: each t_mul as long and from m_mul as high as the one before."""
    _steps_asked(global_step, "cosine decay restarts")
    with ops.name_scope(name, "SGDRDecay", [learning_rate, global_step]) as scope:
        rate = convert.convert_to_tensor(learning_rate, name="initial_learning_rate")
        dtype = rate.dtype
        p = math.cast(global_step, dtype) / math.cast(first_decay_steps, dtype)
        t_mul, m_mul, alpha = (math.cast(x, dtype) for x in (t_mul, m_mul, alpha))

        def equal_lengths():
            n = math.floor(p)
            return n, p - n

        def growing_lengths():
            n = math.floor(math.log(1.0 - p * (1.0 - t_mul)) / math.log(t_mul))
            before = (1.0 - math.pow(t_mul, n)) / (1.0 - t_mul)
            return n, (p - before) / math.pow(t_mul, n)

        n, p = control_flow.cond(math.equal(t_mul, 1.0), equal_lengths, growing_lengths)
        cosine = math.pow(m_mul, n) * _half_cosine(p)
        return math.multiply(rate, (1 - alpha) * cosine + alpha, name=scope)


def linear_cosine_decay(learning_rate, global_step, decay_steps, num_periods=0.5, alpha=0.0, beta=0.001, name=None):
    """A line down, times periods of a cosine."""
    _steps_asked(global_step, "linear cosine decay")
    with ops.name_scope(name, "LinearCosineDecay", [learning_rate, global_step]) as scope:
        return _linear_cosine(learning_rate, global_step, decay_steps, num_periods, alpha, beta, None, scope)


def noisy_linear_cosine_decay(learning_rate, global_step, decay_steps, initial_variance=1.0, variance_decay=0.55,
                              num_periods=0.5,
                              alpha=0.0, beta=0.001, name=None):
    """linear_cosine_decay with noise that gets smaller."""
    _steps_asked(global_step, "noisy linear cosine decay")

    def noise(step, dtype):
        variance = math.cast(initial_variance, dtype) / math.pow(1.0 + step, math.cast(variance_decay, dtype))
        return random.random_normal(step.shape, stddev=1.0, dtype=dtype) * math.sqrt(variance)

    with ops.name_scope(name, "NoisyLinearCosineDecay", [learning_rate, global_step]) as scope:
        return _linear_cosine(learning_rate, global_step, decay_steps, num_periods, alpha, beta, noise, scope)


def _linear_cosine(learning_rate, global_step, decay_steps, num_periods, alpha, beta, noise, scope):
    rate = convert.convert_to_tensor(learning_rate, name="learning_rate")
    dtype = rate.dtype
    steps = math.cast(decay_steps, dtype)
    step = math.minimum(math.cast(global_step, dtype), steps)
    line = (steps - step) / steps
    if noise is not None:
        line = line + noise(step, dtype)
    periods = 2.0 * math.cast(num_periods, dtype) * step / steps
    return math.multiply(rate, (math.cast(alpha, dtype) + line) * _half_cosine(periods) + math.cast(beta, dtype), name=scope)
