"""tf.contrib.distributions: those of tf.distributions and some more."""

from ..distributions import (FULLY_REPARAMETERIZED, NOT_REPARAMETERIZED, Bernoulli, Beta, Categorical, Dirichlet,
                             DirichletMultinomial, Distribution, Exponential, Gamma, Laplace, Multinomial,
                             MultivariateNormalDiag, Normal, Poisson, RegisterKL, ReparameterizationType, StudentT, Uniform,
                             kl_divergence)

kl = kl_divergence


def softplus_inverse(x, name=None):
    """The x of which softplus is that; written so that large numbers do not overflow."""
    from ..framework import convert, ops
    from ..ops import math
    with ops.name_scope(name, "softplus_inverse", [x]) as scope:
        x = convert.convert_to_tensor(x, name="x")
        return math.add(x, math.log(-math.expm1(-x)), name=scope)
