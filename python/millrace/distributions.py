"""tf.distributions: random variables with samples, densities and moments.

A distribution is a batch of random variables, one for each element of its (broadcast) parameters.  Subclasses say how samples
are drawn (_sample: [n] + batch + event), and what the logarithm of the density is; the base class gives the rest.
"""

import contextlib

import numpy as np

from .framework import convert, dtypes, ops, shapes
from .framework.op_defs import call
from .ops import array, check, control_flow, math, random
from . import nn


class ReparameterizationType:
    """Whether gradients flow through samples to the parameters."""

    def __init__(self, rep_type):
        self._type = rep_type

    def __repr__(self):
        return "<Reparameteriation Type: %s>" % self._type


FULLY_REPARAMETERIZED = ReparameterizationType("FULLY_REPARAMETERIZED")
NOT_REPARAMETERIZED = ReparameterizationType("NOT_REPARAMETERIZED")


class Distribution:
    """A batch of random variables."""

    _event_ndims = 0

    def __init__(self, dtype, reparameterization_type, validate_args, allow_nan_stats, parameters, name):
        self._dtype, self._reparameterization_type = dtype, reparameterization_type
        self._validate_args, self._allow_nan_stats = validate_args, allow_nan_stats
        if not name or not name.endswith("/"):
            with ops.name_scope(name or type(self).__name__) as name:
                pass
        self._parameters, self._name = parameters, name  # the name is a scope, which each method enters again

    name = property(lambda self: self._name, doc="The name of the distribution, the prefix of its operations.")
    dtype = property(lambda self: self._dtype, doc="The type of samples.")
    parameters = property(lambda self: dict(self._parameters, validate_args=self._validate_args,
                                            allow_nan_stats=self._allow_nan_stats, name=self._own_name()),
                          doc="The arguments of the constructor as a dict.")
    reparameterization_type = property(lambda self: self._reparameterization_type,
                                       doc="Whether gradients flow through samples to the parameters.")
    validate_args = property(lambda self: self._validate_args,
                             doc="Whether the arguments are checked when operations run.")
    allow_nan_stats = property(lambda self: self._allow_nan_stats,
                               doc="Whether a statistic that is not defined is NaN instead of an error.")

    def _own_name(self):
        """The name without the enclosing scopes, so that a copy gets its own scope."""
        return self._name.rstrip("/").rpartition("/")[2]

    # ---- what subclasses say ----

    def _sample(self, n, seed):
        raise NotImplementedError("sample is not implemented: %s" % type(self).__name__)

    def _log_prob(self, value):
        raise NotImplementedError("log_prob is not implemented: %s" % type(self).__name__)

    def _cdf(self, value):
        raise NotImplementedError("cdf is not implemented: %s" % type(self).__name__)

    def _shape_of_all(self):
        """A tensor of the shape batch + event."""
        raise NotImplementedError

    # ---- shapes ----

    @property
    def batch_shape(self):
        """The static shape of the batch of distributions."""
        shape = self._shape_of_all().shape
        return shape if not self._event_ndims or shape.ndims is None else shape[:-self._event_ndims]

    @property
    def event_shape(self):
        """The static shape of one sample of one distribution."""
        shape = self._shape_of_all().shape
        return shapes.TensorShape([]) if not self._event_ndims else shape[-self._event_ndims:]

    def batch_shape_tensor(self, name="batch_shape_tensor"):
        """Returns the shape of the batch of distributions, as a tensor."""
        with self._scope(name):
            shape = array.shape(self._shape_of_all())
            return shape[:-self._event_ndims] if self._event_ndims else shape

    def event_shape_tensor(self, name="event_shape_tensor"):
        """Returns the shape of one sample of one distribution, as a tensor."""
        with self._scope(name):
            if not self._event_ndims:
                return convert.constant([], dtypes.int32)
            return array.shape(self._shape_of_all())[-self._event_ndims:]

    def is_scalar_event(self, name="is_scalar_event"):
        """Returns whether samples are scalars, as a tensor."""
        with self._scope(name):
            return convert.constant(self._event_ndims == 0)

    def is_scalar_batch(self, name="is_scalar_batch"):
        """Returns whether this is a single distribution, as a tensor."""
        with self._scope(name):
            return math.equal(array.size(self.batch_shape_tensor()), 0)

    # ---- what everyone can ask ----

    @contextlib.contextmanager
    def _scope(self, name, values=()):
        with ops.name_scope(self._name):
            with ops.name_scope(name, values=list(values)):
                yield

    def sample(self, sample_shape=(), seed=None, name="sample"):
        """Samples [sample_shape] + batch + event."""
        with self._scope(name):
            wanted = convert.convert_to_tensor(sample_shape, dtypes.int32)
            known = convert.constant_value(wanted)
            if wanted.shape.ndims == 0:
                wanted = array.expand_dims(wanted, 0)
                known = None if known is None else known.reshape(1)
            n = int(np.prod(known)) if known is not None else math.reduce_prod(wanted)
            drawn = self._sample(n, seed)
            made = array.reshape(drawn, array.concat([wanted, array.shape(drawn)[1:]], 0))
            if known is not None:
                made.set_shape(shapes.TensorShape([int(d) for d in known]).concatenate(self._shape_of_all().shape))
            return made

    def log_prob(self, value, name="log_prob"):
        """Computes the logarithm of the probability or density of a value."""
        with self._scope(name, [value]):
            return self._log_prob(convert.convert_to_tensor(value, self._value_type(value)))

    def prob(self, value, name="prob"):
        """Computes the probability or density of a value."""
        with self._scope(name, [value]):
            return math.exp(self._log_prob(convert.convert_to_tensor(value, self._value_type(value))))

    def _value_type(self, value):
        return None if isinstance(value, ops.Tensor) else self._dtype

    def cdf(self, value, name="cdf"):
        """Computes the probability of a sample that is at most the value."""
        with self._scope(name, [value]):
            return self._cdf(convert.convert_to_tensor(value, self._value_type(value)))

    def log_cdf(self, value, name="log_cdf"):
        """Computes the logarithm of cdf."""
        with self._scope(name, [value]):
            return math.log(self.cdf(value))

    def survival_function(self, value, name="survival_function"):
        """Computes the probability of a sample that is above the value."""
        with self._scope(name, [value]):
            return 1 - self.cdf(value)

    def log_survival_function(self, value, name="log_survival_function"):
        """Computes the logarithm of survival_function."""
        with self._scope(name, [value]):
            return math.log(self.survival_function(value))

    def stddev(self, name="stddev"):
        """Computes the standard deviation."""
        with self._scope(name):
            return math.sqrt(self._variance())

    def cross_entropy(self, other, name="cross_entropy"):
        """Computes the cross entropy of this distribution and another one."""
        with self._scope(name):
            return self.entropy() + kl_divergence(self, other, self._allow_nan_stats)

    def kl_divergence(self, other, name="kl_divergence"):
        """Computes the Kullback-Leibler divergence from another distribution."""
        with self._scope(name):
            return kl_divergence(self, other, self._allow_nan_stats)

    def copy(self, **override_parameters_kwargs):
        """Returns a distribution with the same arguments, except for those given."""
        return type(self)(**dict(self.parameters, **override_parameters_kwargs))

    def __repr__(self):
        return "<tf.distributions.%s '%s' batch_shape=%s event_shape=%s dtype=%s>" % (
            type(self).__name__, self._name, self.batch_shape, self.event_shape, self._dtype.name)


def _statistic(what):
    def f(self, name=what):
        if not hasattr(self, "_" + what):
            raise NotImplementedError("%s is not implemented: %s" % (what, type(self).__name__))
        with self._scope(name):
            return getattr(self, "_" + what)()
    f.__name__ = what
    f.__doc__ = "Computes the %s of the distribution." % what
    return f


for _what in "mean mode variance entropy covariance".split():
    setattr(Distribution, _what, _statistic(_what))


def _quantile(self, value, name="quantile"):
    """Computes the value that a sample is at most with this probability."""
    if not hasattr(self, "_quantile"):
        raise NotImplementedError("quantile is not implemented: %s" % type(self).__name__)
    with self._scope(name, [value]):
        return self._quantile(convert.convert_to_tensor(value, self._dtype))


Distribution.quantile = _quantile


def _floats(*values):
    """Tensors of one float type."""
    known = [v.dtype.base_dtype for v in values if hasattr(v, "dtype") and isinstance(getattr(v, "dtype"), dtypes.DType)]
    known += [dtypes.as_dtype(v.dtype) for v in values if isinstance(v, (np.ndarray, np.generic)) and v.dtype.kind == "f"]
    dtype = known[0] if known else dtypes.float32
    return [convert.convert_to_tensor(v, dtype) for v in values]


def _checked(validate_args, tensor, *checks):
    """The tensor, which cannot be had unless the checks hold if arguments are to be validated."""
    if not validate_args:
        return tensor
    with ops.control_dependencies([f(tensor) for f in checks]):
        return array.identity(tensor)


def _all_positive(validate_args, *tensors):
    return [_checked(validate_args, t, check.assert_positive) for t in tensors]


def _whole(tensor):
    return check.assert_equal(tensor, math.floor(tensor), message="must be whole numbers")


def _less_than_one(tensor):
    return check.assert_less_equal(tensor, array.ones([], tensor.dtype), message="probs has components greater than 1.")


def _sums_to_one(tensor):
    return check.assert_near(math.reduce_sum(tensor, -1), array.ones([], tensor.dtype), message="probs does not sum to 1.")


def _nan_where_not(defined, value, allow_nan_stats, what):
    """A statistic that is not defined for all parameters is NaN for those, or an error if that is not allowed."""
    defined = math.logical_and(defined, array.ones_like(value, dtype="bool"))
    if allow_nan_stats:
        return array.where(defined, value, array.ones_like(value) * np.nan)
    with ops.control_dependencies([control_flow.Assert(math.reduce_all(defined), [what + " is not defined for all of them"])]):
        return array.identity(value)


_LOG_2PI = float(np.log(2 * np.pi))


class _LocationScale(Distribution):
    """Of loc + scale * a standard variable."""

    def __init__(self, loc, scale, validate_args, allow_nan_stats, parameters, name):
        with ops.name_scope(name, values=[loc, scale]) as scope:
            self._loc, self._scale = _floats(loc, scale)
            (self._scale,) = _all_positive(validate_args, self._scale)
        super().__init__(self._loc.dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, parameters, scope)

    loc = property(lambda self: self._loc, doc="The location parameter.")
    scale = property(lambda self: self._scale, doc="The scale parameter.")

    def _shape_of_all(self):
        return self._loc + self._scale

    def _all(self, n):
        return array.concat([[n], array.shape(self._loc + self._scale)], 0)

    def _z(self, value):
        return (value - self._loc) / self._scale

    def _mean(self):
        return self._loc * array.ones_like(self._scale)

    _mode = _mean


class Normal(_LocationScale):
    """The normal distribution with mean loc and standard deviation scale."""

    def __init__(self, loc=None, scale=None, validate_args=False, allow_nan_stats=True, name="Normal", mu=None, sigma=None):
        loc, scale = mu if loc is None else loc, sigma if scale is None else scale
        super().__init__(loc, scale, validate_args, allow_nan_stats, dict(loc=loc, scale=scale), name)

    mu, sigma = _LocationScale.loc, _LocationScale.scale

    def _sample(self, n, seed):
        return random.random_normal(self._all(n), dtype=self._dtype, seed=seed) * self._scale + self._loc

    def _log_prob(self, value):
        return -0.5 * math.square(self._z(value)) - (0.5 * _LOG_2PI + math.log(self._scale))

    def _cdf(self, value):
        return 0.5 * math.erfc(-self._z(value) * float(np.sqrt(0.5)))

    def _quantile(self, p):
        return self._loc + self._scale * call("Ndtri", None, x=p)

    def _entropy(self):
        return 0.5 + 0.5 * _LOG_2PI + math.log(self._scale * array.ones_like(self._loc))

    def _variance(self):
        return math.square(self._scale * array.ones_like(self._loc))


class Laplace(_LocationScale):
    """The Laplace distribution with mean loc and scale."""

    def __init__(self, loc, scale, validate_args=False, allow_nan_stats=True, name="Laplace"):
        super().__init__(loc, scale, validate_args, allow_nan_stats, dict(loc=loc, scale=scale), name)

    def _sample(self, n, seed):
        u = random.random_uniform(self._all(n), np.nextafter(-1, 0), 1.0, dtype=self._dtype, seed=seed)
        return self._loc - self._scale * math.sign(u) * math.log1p(-math.abs(u))

    def _log_prob(self, value):
        return -math.abs(self._z(value)) - float(np.log(2)) - math.log(self._scale)

    def _cdf(self, value):
        z = self._z(value)
        return 0.5 - 0.5 * math.sign(z) * math.expm1(-math.abs(z))

    def _entropy(self):
        return float(np.log(2)) + 1 + math.log(self._scale + array.zeros_like(self._loc))

    def _variance(self):
        return 2 * math.square(self._scale + array.zeros_like(self._loc))


class StudentT(Distribution):
    """Student's t-distribution with df degrees of freedom, shifted by loc and stretched by scale."""

    def __init__(self, df, loc, scale, validate_args=False, allow_nan_stats=True, name="StudentT"):
        with ops.name_scope(name, values=[df, loc, scale]) as scope:
            self._df, self._loc, self._scale = _floats(df, loc, scale)
            (self._df,) = _all_positive(validate_args, self._df)
        super().__init__(self._loc.dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats,
                         dict(df=df, loc=loc, scale=scale), scope)

    df = property(lambda self: self._df, doc="The degrees of freedom.")
    loc = property(lambda self: self._loc, doc="The location parameter.")
    scale = property(lambda self: self._scale, doc="The scale parameter.")

    def _shape_of_all(self):
        return self._df + self._loc + self._scale

    def _sample(self, n, seed):
        whole = array.concat([[n], array.shape(self._shape_of_all())], 0)
        normal = random.random_normal(whole, dtype=self._dtype, seed=seed)
        df = self._df * array.ones(array.shape(self._shape_of_all()), self._dtype)
        gamma = random.random_gamma([n], 0.5 * df, beta=0.5, dtype=self._dtype, seed=None if seed is None else seed + 1)
        return normal * math.rsqrt(gamma / df) * self._scale + self._loc

    def _log_prob(self, value):
        y = (value - self._loc) / self._scale
        return (-0.5 * (self._df + 1) * math.log1p(math.square(y) / self._df) - math.log(math.abs(self._scale)) - 0.5 *
                math.log(self._df) -
                0.5 * float(np.log(np.pi)) - math.lgamma(0.5 * self._df) + math.lgamma(0.5 * (self._df + 1)))

    def _cdf(self, value):
        y = (value - self._loc) / math.abs(self._scale)
        df = self._df * array.ones_like(y)
        tail = 0.5 * math.betainc(0.5 * df, array.fill(array.shape(y), math.cast(0.5, self._dtype)), df / (df + math.square(y)))
        return array.where(math.less(y, 0), tail, 1 - tail)

    def _entropy(self):
        half, more = 0.5 * self._df, 0.5 * (self._df + 1)
        log_beta = math.lgamma(half) + float(0.5 * np.log(np.pi)) - math.lgamma(more)
        one = self._everywhere(1.0)
        return one * (math.log(math.abs(self._scale)) + 0.5 * math.log(self._df) + log_beta +
                      more * (math.digamma(more) - math.digamma(half)))

    def _everywhere(self, x):
        return x * array.ones(array.shape(self._shape_of_all()), self._dtype)

    def _mean(self):
        return _nan_where_not(self._everywhere(self._df) > 1, self._everywhere(self._loc), self._allow_nan_stats,
                              "the mean of StudentT with df <= 1")

    def _variance(self):
        df = self._everywhere(self._df)
        finite = df > 2
        variance = math.square(self._everywhere(self._scale)) * df / array.where(finite, df - 2, array.ones_like(df))
        return _nan_where_not(df > 1, array.where(finite, variance, array.ones_like(df) * np.inf), self._allow_nan_stats,
                              "the variance of StudentT with df <= 1")

    def _mode(self):
        return self._everywhere(self._loc)


class Uniform(Distribution):
    """The uniform distribution from low to high."""

    def __init__(self, low=0.0, high=1.0, validate_args=False, allow_nan_stats=True, name="Uniform"):
        with ops.name_scope(name, values=[low, high]) as scope:
            self._low, self._high = _floats(low, high)
            if validate_args:
                ordered = check.assert_less(self._low, self._high, message="uniform not defined when low >= high.")
                with ops.control_dependencies([ordered]):
                    self._low, self._high = array.identity(self._low), array.identity(self._high)
        super().__init__(self._low.dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, dict(low=low, high=high),
                         scope)

    low = property(lambda self: self._low, doc="The lower end of the range.")
    high = property(lambda self: self._high, doc="The upper end of the range.")

    def range(self, name="range"):  # noqa: A003 -- TensorFlow's name
        """Computes high - low."""
        with self._scope(name):
            return self._high - self._low

    def _shape_of_all(self):
        return self._low + self._high

    def _sample(self, n, seed):
        u = random.random_uniform(array.concat([[n], array.shape(self._shape_of_all())], 0), dtype=self._dtype, seed=seed)
        return self._low + (self._high - self._low) * u

    def _log_prob(self, value):
        width = (self._high - self._low) * array.ones_like(value)
        inside = math.logical_and(value >= self._low * array.ones_like(value), value < self._high * array.ones_like(value))
        nothing = array.fill(array.shape(width), np.array(-np.inf, self._dtype.as_numpy_dtype))
        return array.where(inside, -math.log(width), nothing + array.zeros_like(width))

    def _cdf(self, value):
        return math.minimum(math.maximum((value - self._low) / (self._high - self._low), 0.0), 1.0)

    def _quantile(self, p):
        return self._low + p * (self._high - self._low)

    def _entropy(self):
        return math.log(self._high - self._low)

    def _mean(self):
        return (self._low + self._high) / 2

    def _variance(self):
        return math.square(self._high - self._low) / 12


class Gamma(Distribution):
    """The gamma distribution with this concentration and rate."""

    def __init__(self, concentration, rate, validate_args=False, allow_nan_stats=True, name="Gamma"):
        with ops.name_scope(name, values=[concentration, rate]) as scope:
            self._concentration, self._rate = _all_positive(validate_args, *_floats(concentration, rate))
        super().__init__(self._rate.dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats,
                         dict(concentration=concentration, rate=rate), scope)

    concentration = property(lambda self: self._concentration, doc="The concentration parameter, often called alpha.")
    rate = property(lambda self: self._rate, doc="The rate parameter, often called beta.")

    def _shape_of_all(self):
        return self._concentration + self._rate

    def _sample(self, n, seed):
        return random.random_gamma([n], self._concentration, beta=self._rate, dtype=self._dtype, seed=seed)

    def _log_prob(self, x):
        a, b = self._concentration, self._rate
        return math.xlogy(a - 1, x) - b * x - math.lgamma(a) + a * math.log(b)

    def _cdf(self, x):
        return math.igamma(self._concentration * array.ones_like(x * self._rate), self._rate * x)

    def _entropy(self):
        a = self._concentration
        return a - math.log(self._rate) + math.lgamma(a) + (1 - a) * math.digamma(a)

    def _mean(self):
        return self._concentration / self._rate

    def _variance(self):
        return self._concentration / math.square(self._rate)

    def _mode(self):
        mode = (self._concentration - 1) / self._rate
        return _nan_where_not(self._concentration * array.ones_like(mode) > 1, mode, self._allow_nan_stats,
                              "the mode of Gamma with concentration <= 1")


class Exponential(Gamma):
    """The exponential distribution with this rate."""

    def __init__(self, rate, validate_args=False, allow_nan_stats=True, name="Exponential"):
        (rate_,) = _floats(rate)
        super().__init__(array.ones_like(rate_), rate_, validate_args, allow_nan_stats, name)
        self._parameters = dict(rate=rate)

    def _sample(self, n, seed):
        u = random.random_uniform(array.concat([[n], array.shape(self._rate)], 0), np.finfo(np.float32).tiny, 1.0,
                                  dtype=self._dtype,
                                  seed=seed)
        return -math.log(u) / self._rate


class Beta(Distribution):
    """The beta distribution with concentrations concentration1 (alpha) and concentration0 (beta)."""

    def __init__(self, concentration1=None, concentration0=None, validate_args=False, allow_nan_stats=True, name="Beta"):
        with ops.name_scope(name, values=[concentration1, concentration0]) as scope:
            self._a, self._b = _all_positive(validate_args, *_floats(concentration1, concentration0))
        super().__init__(self._a.dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats,
                         dict(concentration1=concentration1, concentration0=concentration0), scope)

    concentration1 = property(lambda self: self._a, doc="The concentration at 1, often called alpha.")
    concentration0 = property(lambda self: self._b, doc="The concentration at 0, often called beta.")
    total_concentration = property(lambda self: self._a + self._b, doc="The sum of both concentrations.")

    def _shape_of_all(self):
        return self._a + self._b

    def _sample(self, n, seed):
        one = array.ones_like(self._a + self._b)
        x = random.random_gamma([n], self._a * one, dtype=self._dtype, seed=seed)
        y = random.random_gamma([n], self._b * one, dtype=self._dtype, seed=None if seed is None else seed + 1)
        return x / (x + y)

    def _log_norm(self):
        return math.lgamma(self._a) + math.lgamma(self._b) - math.lgamma(self._a + self._b)

    def _log_prob(self, x):
        return math.xlogy(self._a - 1, x) + (self._b - 1) * math.log1p(-x) - self._log_norm()

    def _cdf(self, x):
        one = array.ones_like(x * self._a * self._b)
        return math.betainc(self._a * one, self._b * one, x * one)

    def _entropy(self):
        a, b = self._a, self._b
        return self._log_norm() - (a - 1) * math.digamma(a) - (b - 1) * math.digamma(b) + (a + b - 2) * math.digamma(a + b)

    def _mean(self):
        return self._a / (self._a + self._b)

    def _variance(self):
        total = self._a + self._b
        return self._a * self._b / (math.square(total) * (total + 1))

    def _mode(self):
        mode = (self._a - 1) / (self._a + self._b - 2)
        return _nan_where_not(math.logical_and(self._a > 1, self._b > 1), mode, self._allow_nan_stats,
                              "the mode of Beta with a concentration <= 1")


def _logits_and_probs(logits, probs, validate_args, many=False):
    if (logits is None) == (probs is None):
        raise ValueError("Must pass probs or logits, but not both.")
    if probs is not None:
        (probs,) = _floats(probs)
        probs = _checked(validate_args, probs, check.assert_non_negative, _sums_to_one if many else _less_than_one)
        return (math.log(probs) if many else math.log(probs) - math.log1p(-probs)), probs
    (logits,) = _floats(logits)
    return logits, nn.softmax(logits) if many else math.sigmoid(logits)


class Bernoulli(Distribution):
    """The distribution of 1 with probability probs and 0 otherwise; logits may be given instead."""

    def __init__(self, logits=None, probs=None, dtype=dtypes.int32, validate_args=False, allow_nan_stats=True,
                 name="Bernoulli"):
        with ops.name_scope(name) as scope:
            self._logits, self._probs = _logits_and_probs(logits, probs, validate_args)
        super().__init__(dtypes.as_dtype(dtype), NOT_REPARAMETERIZED, validate_args, allow_nan_stats,
                         dict(logits=logits, probs=probs, dtype=dtype), scope)

    logits = property(lambda self: self._logits, doc="The log-odds of 1.")
    probs = property(lambda self: self._probs, doc="The probability of 1.")

    def _shape_of_all(self):
        return self._probs

    def _sample(self, n, seed):
        u = random.random_uniform(array.concat([[n], array.shape(self._probs)], 0), dtype=self._probs.dtype, seed=seed)
        return math.cast(math.less(u, self._probs), self._dtype)

    def _log_prob(self, event):
        event = math.cast(event, self._logits.dtype)
        zero = array.zeros_like(event * self._logits)
        return -nn.sigmoid_cross_entropy_with_logits(labels=event + zero, logits=self._logits + zero)

    def _entropy(self):
        return -self._logits * (math.sigmoid(self._logits) - 1) + nn.softplus(-self._logits)

    def _mean(self):
        return array.identity(self._probs)

    def _variance(self):
        return self._probs * (1 - self._probs)

    def _mode(self):
        return math.cast(self._probs > 0.5, self._dtype)


class Categorical(Distribution):
    """The categorical distribution: one of n classes, the last dimension of the parameters."""

    def __init__(self, logits=None, probs=None, dtype=dtypes.int32, validate_args=False, allow_nan_stats=True,
                 name="Categorical"):
        with ops.name_scope(name) as scope:
            self._logits, self._probs = _logits_and_probs(logits, probs, validate_args, many=True)
            self._logits.shape.with_rank_at_least(1)
        super().__init__(dtypes.as_dtype(dtype), NOT_REPARAMETERIZED, validate_args, allow_nan_stats,
                         dict(logits=logits, probs=probs, dtype=dtype), scope)

    logits = property(lambda self: self._logits, doc="The unnormalized log probabilities of the classes.")
    probs = property(lambda self: self._probs, doc="The probabilities of the classes.")

    @property
    def event_size(self):
        """The number of classes, as a tensor."""
        n = self._logits.shape.as_list()[-1]
        return convert.constant(n, dtypes.int32) if n is not None else array.shape(self._logits)[-1]

    def _shape_of_all(self):
        return math.reduce_sum(self._logits, -1)

    def _sample(self, n, seed):
        rows = array.reshape(self._logits, [-1, self.event_size])
        drawn = random.multinomial(rows, n, seed=seed)
        return math.cast(array.reshape(array.transpose(drawn), array.concat([[n], array.shape(self._logits)[:-1]], 0)),
                         self._dtype)

    def _log_prob(self, k):
        k = math.cast(k, dtypes.int32)
        logits = self._logits
        if k.shape.ndims is not None and logits.shape.ndims is not None and k.shape.ndims != logits.shape.ndims - 1 or \
                not k.shape.is_compatible_with(logits.shape[:-1]):
            logits = logits * array.ones_like(array.expand_dims(math.cast(k, logits.dtype), -1))
            k = k * array.ones(array.shape(logits)[:-1], dtypes.int32)
        return -nn.sparse_softmax_cross_entropy_with_logits(labels=k, logits=logits)

    def _entropy(self):
        return -math.reduce_sum(nn.log_softmax(self._logits) * nn.softmax(self._logits), -1)

    def _mode(self):
        return math.cast(math.argmax(self._logits, -1), self._dtype)


class Multinomial(Distribution):
    """The multinomial distribution: how often each class is drawn in total_count draws."""

    _event_ndims = 1

    def __init__(self, total_count, logits=None, probs=None, validate_args=False, allow_nan_stats=True, name="Multinomial"):
        with ops.name_scope(name) as scope:
            self._logits, self._probs = _logits_and_probs(logits, probs, validate_args, many=True)
            self._total = _checked(validate_args, convert.convert_to_tensor(total_count, self._logits.dtype),
                                   check.assert_non_negative, _whole)
        super().__init__(self._logits.dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats,
                         dict(total_count=total_count, logits=logits, probs=probs), scope)

    logits = property(lambda self: self._logits, doc="The unnormalized log probabilities of the classes.")
    probs = property(lambda self: self._probs, doc="The probabilities of the classes.")
    total_count = property(lambda self: self._total, doc="The number of draws.")

    def _shape_of_all(self):
        return self._probs * array.expand_dims(self._total, -1)

    def _sample(self, n, seed):
        if self._total.shape.ndims != 0:
            raise NotImplementedError("Multinomial.sample is not implemented for different total counts")
        classes = array.shape(self._logits)[-1]
        each = math.cast(self._total, dtypes.int32)
        drawn = random.multinomial(array.reshape(self._logits, [-1, classes]), n * each, seed=seed)
        drawn = array.reshape(drawn, array.stack([-1, n, each]))
        counts = math.reduce_sum(array.one_hot(drawn, classes, dtype=self._dtype), -2)
        return array.reshape(array.transpose(counts, [1, 0, 2]), array.concat([[n], array.shape(self._logits)], 0))

    def _log_prob(self, counts):
        ways = math.lgamma(self._total + 1) - math.reduce_sum(math.lgamma(counts + 1), -1)
        return ways + math.reduce_sum(counts * nn.log_softmax(self._logits), -1)

    def _mean(self):
        return array.expand_dims(self._total, -1) * nn.softmax(self._logits)

    def _variance(self):
        p = nn.softmax(self._logits)
        return array.expand_dims(self._total, -1) * p * (1 - p)


class Dirichlet(Distribution):
    """The Dirichlet distribution: probabilities of classes with these concentrations."""
    _event_ndims = 1

    def __init__(self, concentration, validate_args=False, allow_nan_stats=True, name="Dirichlet"):
        with ops.name_scope(name) as scope:
            (self._concentration,) = _all_positive(validate_args, *_floats(concentration))
        super().__init__(self._concentration.dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats,
                         dict(concentration=concentration), scope)

    concentration = property(lambda self: self._concentration, doc="The concentrations of the classes.")
    total_concentration = property(lambda self: math.reduce_sum(self._concentration, -1),
                                   doc="The sum of the concentrations.")

    def _shape_of_all(self):
        return self._concentration

    def _sample(self, n, seed):
        drawn = random.random_gamma([n], self._concentration, dtype=self._dtype, seed=seed)
        return drawn / math.reduce_sum(drawn, -1, keepdims=True)

    def _log_norm(self):
        return math.reduce_sum(math.lgamma(self._concentration), -1) - math.lgamma(self.total_concentration)

    def _log_prob(self, x):
        return math.reduce_sum(math.xlogy(self._concentration - 1, x), -1) - self._log_norm()

    def _entropy(self):
        k = math.cast(array.shape(self._concentration)[-1], self._dtype)
        total = self.total_concentration
        return self._log_norm() + (total - k) * math.digamma(total) - math.reduce_sum(
            (self._concentration - 1) * math.digamma(self._concentration), -1)

    def _mean(self):
        return self._concentration / math.reduce_sum(self._concentration, -1, keepdims=True)

    def _variance(self):
        total = math.reduce_sum(self._concentration, -1, keepdims=True)
        mean = self._concentration / total
        return mean * (1 - mean) / (total + 1)


class DirichletMultinomial(Distribution):
    """The Dirichlet-multinomial distribution: counts of draws with probabilities from a Dirichlet distribution."""

    _event_ndims = 1

    def __init__(self, total_count, concentration, validate_args=False, allow_nan_stats=True, name="DirichletMultinomial"):
        with ops.name_scope(name) as scope:
            (self._concentration,) = _all_positive(validate_args, *_floats(concentration))
            self._total = _checked(validate_args, convert.convert_to_tensor(total_count, self._concentration.dtype),
                                   check.assert_non_negative, _whole)
        super().__init__(self._concentration.dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats,
                         dict(total_count=total_count, concentration=concentration), scope)

    concentration = property(lambda self: self._concentration, doc="The concentrations of the classes.")
    total_count = property(lambda self: self._total, doc="The number of draws.")
    total_concentration = property(lambda self: math.reduce_sum(self._concentration, -1),
                                   doc="The sum of the concentrations.")

    def _shape_of_all(self):
        return self._concentration * array.expand_dims(self._total, -1)

    def _log_prob(self, counts):
        def log_beta(x):
            return math.reduce_sum(math.lgamma(x), -1) - math.lgamma(math.reduce_sum(x, -1))
        ways = math.lgamma(self._total + 1) - math.reduce_sum(math.lgamma(counts + 1), -1)
        return ways + log_beta(self._concentration + counts) - log_beta(self._concentration)

    def _mean(self):
        return array.expand_dims(self._total, -1) * self._concentration / array.expand_dims(self.total_concentration, -1)


class MultivariateNormalDiag(Distribution):
    """Independent normal variables as one event."""

    _event_ndims = 1

    def __init__(self, loc=None, scale_diag=None, scale_identity_multiplier=None, validate_args=False, allow_nan_stats=True,
                 name="MultivariateNormalDiag"):
        with ops.name_scope(name) as scope:
            if loc is None and scale_diag is None:
                raise ValueError("Must specify either loc or scale_diag, or both.")
            multiplier = 1.0 if scale_identity_multiplier is None else scale_identity_multiplier
            (first,) = _floats(scale_diag if loc is None else loc)
            diagonal = array.ones_like(first) if scale_diag is None else convert.convert_to_tensor(scale_diag, first.dtype)
            self._one = Normal(array.zeros_like(first) if loc is None else first, diagonal * multiplier,
                               validate_args)
        super().__init__(first.dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats,
                         dict(loc=loc, scale_diag=scale_diag, scale_identity_multiplier=scale_identity_multiplier),
                         scope)

    loc = property(lambda self: self._one.loc, doc="The means.")

    def _shape_of_all(self):
        return self._one._shape_of_all()

    def _sample(self, n, seed):
        return self._one._sample(n, seed)

    def _log_prob(self, value):
        return math.reduce_sum(self._one._log_prob(value), -1)

    def _entropy(self):
        return math.reduce_sum(self._one._entropy(), -1)

    def _mean(self):
        return self._one._mean()

    _mode = _mean

    def _variance(self):
        return self._one._variance()

    def _covariance(self):
        return math.matrix_diag(self._one._variance())


class Poisson(Distribution):
    """The Poisson distribution with this rate, or the exponential of log_rate."""

    def __init__(self, rate=None, log_rate=None, interpolate_nondiscrete=True, validate_args=False, allow_nan_stats=True,
                 name="Poisson"):
        if (rate is None) == (log_rate is None):
            raise ValueError("Must specify exactly one of `rate` and `log_rate`.")
        with ops.name_scope(name) as scope:
            self._rate = _floats(rate)[0] if rate is not None else math.exp(_floats(log_rate)[0])
            (self._rate,) = _all_positive(validate_args, self._rate)
        self._between_whole_numbers = interpolate_nondiscrete
        super().__init__(self._rate.dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats,
                         dict(rate=rate, log_rate=log_rate, interpolate_nondiscrete=interpolate_nondiscrete), scope)

    rate = property(lambda self: self._rate, doc="The mean number of events.")

    def _shape_of_all(self):
        return self._rate

    def _sample(self, n, seed):
        return random.random_poisson(self._rate, [n], dtype=self._dtype, seed=seed)

    def _log_prob(self, x):
        made = math.xlogy(x, self._rate) - self._rate - math.lgamma(x + 1)
        if self._between_whole_numbers:
            return made
        whole = math.equal(x, math.floor(x) + array.zeros_like(made))
        return array.where(whole, made, array.ones_like(made) * -np.inf)

    def _cdf(self, x):
        """igammac(floor(x) + 1, rate); nothing is below zero."""
        x = math.maximum(x if self._between_whole_numbers else math.floor(x), -1)
        one = array.ones_like(x * self._rate)
        return array.where(one * x < 0, array.zeros_like(one), math.igammac((math.maximum(x, 0) + 1) * one, self._rate * one))

    def _mode(self):
        return math.floor(self._rate)

    def _mean(self):
        return array.identity(self._rate)

    _variance = _mean


# ---- how far two are apart ----

_divergences = {}


class RegisterKL:
    """@RegisterKL(A, B): def _kl(a, b, name=None): ..."""

    def __init__(self, dist_cls_a, dist_cls_b):
        self._key = dist_cls_a, dist_cls_b

    def __call__(self, kl_fn):
        if not callable(kl_fn):
            raise TypeError("kl_fn must be callable, received: %s" % (kl_fn,))
        if self._key in _divergences:
            raise ValueError("KL(%s || %s) has already been registered to: %s" % (self._key[0].__name__, self._key[1].__name__,
                                                                                 _divergences[self._key]))
        _divergences[self._key] = kl_fn
        return kl_fn


def _without_nan(divergence, allow_nan_stats):
    if allow_nan_stats:
        return divergence
    good = math.logical_not(math.reduce_any(math.is_nan(divergence)))
    with ops.control_dependencies([control_flow.Assert(good, ["KL calculation returned NaN values", divergence])]):
        return array.identity(divergence)


def kl_divergence(distribution_a, distribution_b, allow_nan_stats=True, name=None):
    """The Kullback-Leibler divergence KL(a || b)."""
    for a in type(distribution_a).__mro__:
        for b in type(distribution_b).__mro__:
            if (a, b) in _divergences:
                with ops.name_scope(name, "KullbackLeibler"):
                    return _without_nan(_divergences[a, b](distribution_a, distribution_b, name=name), allow_nan_stats)
    raise NotImplementedError("No KL(distribution_a || distribution_b) registered for distribution_a type %s and "
                              "distribution_b type %s" %
                              (type(distribution_a).__name__, type(distribution_b).__name__))


@RegisterKL(Normal, Normal)
def _kl_normal(a, b, name=None):
    ratio = math.square(a.scale / b.scale)
    return math.squared_difference(a.loc, b.loc) / (2 * math.square(b.scale)) + 0.5 * (ratio - 1 - math.log(ratio))


@RegisterKL(MultivariateNormalDiag, MultivariateNormalDiag)
def _kl_diagonal(a, b, name=None):
    return math.reduce_sum(_kl_normal(a._one, b._one), -1)


@RegisterKL(Bernoulli, Bernoulli)
def _kl_bernoulli(a, b, name=None):
    there = nn.softplus(-b.logits) - nn.softplus(-a.logits)
    return math.sigmoid(a.logits) * there + math.sigmoid(-a.logits) * (nn.softplus(b.logits) - nn.softplus(a.logits))


@RegisterKL(Categorical, Categorical)
def _kl_categorical(a, b, name=None):
    return math.reduce_sum(nn.softmax(a.logits) * (nn.log_softmax(a.logits) - nn.log_softmax(b.logits)), -1)


@RegisterKL(Gamma, Gamma)
def _kl_gamma(a, b, name=None):
    return ((a.concentration - b.concentration) * math.digamma(a.concentration) + math.lgamma(b.concentration) -
            math.lgamma(a.concentration) + b.concentration * (math.log(a.rate) - math.log(b.rate)) +
            a.concentration * (b.rate / a.rate - 1))


@RegisterKL(Beta, Beta)
def _kl_beta(a, b, name=None):
    total = a.total_concentration
    return (b._log_norm() - a._log_norm() + (a.concentration1 - b.concentration1) * math.digamma(a.concentration1) +
            (a.concentration0 - b.concentration0) * math.digamma(a.concentration0) -
            (total - b.total_concentration) * math.digamma(total))


@RegisterKL(Dirichlet, Dirichlet)
def _kl_dirichlet(a, b, name=None):
    away = math.digamma(a.concentration) - array.expand_dims(math.digamma(a.total_concentration), -1)
    return math.reduce_sum((a.concentration - b.concentration) * away, -1) - a._log_norm() + b._log_norm()
