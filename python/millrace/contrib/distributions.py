"""tf.contrib.distributions: those of tf.distributions and some more."""

from ..distributions import (FULLY_REPARAMETERIZED, NOT_REPARAMETERIZED, Bernoulli, Beta, Categorical, Dirichlet,
                             DirichletMultinomial,
                             Distribution, Exponential, Gamma, Laplace, Multinomial, MultivariateNormalDiag, Normal, Poisson,
                             RegisterKL,
                             ReparameterizationType, StudentT, Uniform, kl_divergence)

kl = kl_divergence


def softplus_inverse(x, name=None):
    """The x of which softplus is that."""
    from ..ops import math
    return math.log(math.expm1(x), name=name)
