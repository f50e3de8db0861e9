"""Learning rates that follow the number of steps; an optimizer asks for its own each step."""

import math

import millrace as tf

from .utils import generic


class LearningRateSchedule:
    """The base of learning rate schedules: functions from the step to the learning rate."""

    def __call__(self, step):
        raise NotImplementedError("Learning rate schedule must override __call__")

    def get_config(self):
        """Returns the arguments of the constructor as a dict; subclasses define it."""
        raise NotImplementedError("Learning rate schedule must override get_config")

    @classmethod
    def from_config(cls, config):
        """Makes a schedule from the result of get_config."""
        return cls(**config)


class _Kept(LearningRateSchedule):
    """Its configuration is its arguments."""

    def _keep(self, arguments):
        self._arguments = {k: v for k, v in arguments.items() if k not in ("self", "__class__")}
        self.__dict__.update(self._arguments)

    def get_config(self):
        return dict(self._arguments)


class ExponentialDecay(_Kept):
    """Computes initial_learning_rate * decay_rate ** (step / decay_steps); staircase rounds the power down."""

    def __init__(self, initial_learning_rate, decay_steps, decay_rate, staircase=False, name=None):
        self._keep(locals())

    def __call__(self, step):
        p = tf.cast(step, tf.float32) / self.decay_steps
        return self.initial_learning_rate * tf.pow(float(self.decay_rate), tf.floor(p) if self.staircase else p)


class InverseTimeDecay(_Kept):
    """Computes initial_learning_rate / (1 + decay_rate * step / decay_steps); staircase rounds the ratio down."""

    def __init__(self, initial_learning_rate, decay_steps, decay_rate, staircase=False, name=None):
        self._keep(locals())

    def __call__(self, step):
        p = tf.cast(step, tf.float32) / self.decay_steps
        return self.initial_learning_rate / (1.0 + self.decay_rate * (tf.floor(p) if self.staircase else p))


class PolynomialDecay(_Kept):
    """Goes from the initial to the end learning rate in decay_steps steps, along a polynomial of this power."""

    def __init__(self, initial_learning_rate, decay_steps, end_learning_rate=0.0001, power=1.0, cycle=False, name=None):
        self._keep(locals())

    def __call__(self, step):
        step, total = tf.cast(step, tf.float32), float(self.decay_steps)
        if self.cycle:
            total = total * tf.where(tf.equal(step, 0), 1.0, tf.ceil(step / total))
        else:
            step = tf.minimum(step, total)
        return (self.initial_learning_rate - self.end_learning_rate) * tf.pow(1 - step / total,
                                                                              float(self.power)) + self.end_learning_rate


class CosineDecay(_Kept):
    """Goes from the initial learning rate to alpha times it in decay_steps steps, along a cosine."""

    def __init__(self, initial_learning_rate, decay_steps, alpha=0.0, name=None):
        self._keep(locals())

    def __call__(self, step):
        part = tf.minimum(tf.cast(step, tf.float32), float(self.decay_steps)) / self.decay_steps
        return self.initial_learning_rate * ((1 - self.alpha) * 0.5 * (1.0 + tf.cos(math.pi * part)) + self.alpha)


class PiecewiseConstantDecay(_Kept):
    """Gives values[i] from step boundaries[i - 1] to step boundaries[i]."""

    def __init__(self, boundaries, values, name=None):
        if len(boundaries) != len(values) - 1:
            raise ValueError("The length of boundaries should be 1 less than the length of values")
        self._keep(locals())

    def __call__(self, step):
        passed = tf.reduce_sum(tf.cast(tf.cast(step, tf.float32) > tf.constant([float(b) for b in self.boundaries]), tf.int32))
        return tf.gather(tf.constant([float(v) for v in self.values]), passed)


_NAMES = {c.__name__: c for c in (ExponentialDecay, InverseTimeDecay, PolynomialDecay, CosineDecay, PiecewiseConstantDecay)}


def serialize(learning_rate_schedule):
    """Returns the class name and the config of a schedule as a dict."""
    return generic.serialize_keras_object(learning_rate_schedule)


def deserialize(config, custom_objects=None):
    """Makes a schedule from the result of serialize."""
    return generic.deserialize_keras_object(config, _NAMES, custom_objects, "decay")
