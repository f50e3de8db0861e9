"""tf.distributions: densities against closed forms, samples against moments."""

import math
import unittest

import numpy as np

import millrace as tf

d = tf.distributions


class Case(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()
        tf.set_random_seed(3)

    def value(self, x):
        with tf.Session() as session:
            return session.run(x)

    def close(self, tensor, expected, tolerance=1e-4):
        np.testing.assert_allclose(self.value(tensor), expected, atol=tolerance, rtol=tolerance)

    def check_samples(self, dist, tolerance=0.06):
        drawn, mean, variance = self.value([dist.sample(20000, seed=5), dist.mean(), dist.variance()])
        np.testing.assert_allclose(drawn.mean(0), mean, atol=tolerance)
        np.testing.assert_allclose(drawn.var(0), variance, atol=2 * tolerance)

    def test_normal(self):
        n = d.Normal(loc=[1.0, -2.0], scale=[2.0, 0.5])
        self.assertEqual(n.batch_shape.as_list(), [2])
        self.assertEqual(n.sample([3, 4]).shape.as_list(), [3, 4, 2])
        self.close(n.log_prob([1.0, -2.0]), -np.log([2, 0.5]) - 0.5 * math.log(2 * math.pi))
        self.close(n.prob(0.0), [math.exp(-0.125) / (2 * math.sqrt(2 * math.pi)),
                                 math.exp(-8) / (0.5 * math.sqrt(2 * math.pi))])
        self.close(n.cdf([1.0, -2.0]), [0.5, 0.5])
        self.close(n.quantile([0.975, 0.5]), [1 + 2 * 1.959964, -2], 1e-3)
        self.close(n.stddev(), [2, 0.5])
        self.check_samples(n)
        self.close(d.kl_divergence(d.Normal(0.0, 1.0), d.Normal(1.0, 2.0)), math.log(2) + 2 / 8 - 0.5)
        grad = tf.gradients(tf.reduce_sum(n.sample(5, seed=1)), n.loc)[0]
        self.close(grad, [5, 5])

    def test_continuous(self):
        self.close(d.Uniform(1.0, 3.0).log_prob([0.0, 2.0]), [-np.inf, -math.log(2)])
        self.close(d.Exponential(2.0).prob(1.0), 2 * math.exp(-2))
        self.close(d.Gamma(3.0, 2.0).prob(1.5), 8 / 2 * 1.5 ** 2 * math.exp(-3))
        self.close(d.Beta(2.0, 3.0).prob(0.25), 12 * 0.25 * 0.75 ** 2)
        self.close(d.Laplace(0.0, 1.0).prob(1.0), 0.5 * math.exp(-1))
        self.close(d.StudentT(1.0, 0.0, 1.0).prob(0.0), 1 / math.pi)
        self.close(d.Dirichlet([1.0, 1.0, 1.0]).prob([0.2, 0.3, 0.5]), 2.0)
        for dist in (d.Uniform(1.0, 3.0), d.Exponential(2.0), d.Gamma(3.0, 2.0), d.Beta(2.0, 3.0), d.Laplace(0.5, 0.5),
                     d.Dirichlet([1.0, 2.0, 3.0])):
            self.check_samples(dist)

    def test_discrete(self):
        b = d.Bernoulli(probs=[0.2, 0.7])
        self.close(b.prob([1, 0]), [0.2, 0.3])
        self.check_samples(b)
        c = d.Categorical(logits=np.log([[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]]).astype(np.float32))
        self.assertEqual(c.sample(4).shape.as_list(), [4, 2])
        self.close(c.prob([2, 0]), [0.7, 0.5])
        self.close(c.entropy(), [-(0.1 * math.log(0.1) + 0.2 * math.log(0.2) + 0.7 * math.log(0.7)),
                                 -(0.5 * math.log(0.5) + 0.5 * math.log(0.25))])
        drawn = self.value(c.sample(20000, seed=1))
        np.testing.assert_allclose([(drawn[:, 0] == k).mean() for k in range(3)], [0.1, 0.2, 0.7], atol=0.02)
        m = d.Multinomial(3.0, probs=[0.5, 0.5])
        self.close(m.prob([1.0, 2.0]), 3 / 8)
        self.check_samples(m)
        self.close(tf.contrib.distributions.Poisson(2.0).prob(3.0), math.exp(-2) * 8 / 6)

    def test_divergences(self):
        for a in (d.Bernoulli(probs=0.3), d.Categorical(probs=[0.3, 0.7]), d.Gamma(2.0, 1.0), d.Beta(2.0, 3.0),
                  d.Dirichlet([1.0, 2.0])):
            self.close(d.kl_divergence(a, a), 0)
        self.close(d.kl_divergence(d.Categorical(probs=[0.5, 0.5]), d.Categorical(probs=[0.25, 0.75])),
                   0.5 * math.log(2) + 0.5 * math.log(0.5 / 0.75))
        self.assertRaises(NotImplementedError, d.kl_divergence, d.Normal(0.0, 1.0), d.Beta(1.0, 1.0))

    def test_vectors(self):
        n = tf.contrib.distributions.MultivariateNormalDiag([0.0, 1.0], [1.0, 2.0])
        self.assertEqual((n.batch_shape.as_list(), n.event_shape.as_list()), ([], [2]))
        self.close(n.log_prob([0.0, 1.0]), -math.log(2 * math.pi) - math.log(2))

    def test_names_are_scopes_and_copies_keep_the_arguments(self):
        with tf.name_scope("outer"):
            n = d.Normal(0.0, 1.0, validate_args=True)
        self.assertEqual(n.name, "outer/Normal/")
        self.assertTrue(n.sample().name.startswith("outer/Normal/sample/"))
        other = n.copy(loc=3.0)
        self.assertTrue(other.validate_args)
        self.assertEqual(other.name, "Normal/")
        self.close(other.mean(), 3.0)

    def test_validated_arguments(self):
        for make in (lambda v: d.Normal(0.0, v), lambda v: d.StudentT(v, 0.0, 1.0), lambda v: d.Uniform(0.0, v),
                     lambda v: d.Gamma(v, 1.0), lambda v: d.Beta(1.0, v), lambda v: d.Bernoulli(probs=v),
                     lambda v: d.Categorical(probs=[v, 2.0]), lambda v: d.Dirichlet([v, 1.0]),
                     lambda v: tf.contrib.distributions.Poisson(v)):
            bad = tf.placeholder(tf.float32, [])
            for strict in (False, True):
                dist = make(bad).copy(validate_args=strict)
                drawn = dist.log_prob(array_for(dist))
                with tf.Session() as session:
                    if strict:
                        with self.assertRaises(tf.errors.InvalidArgumentError, msg=str(dist)):
                            session.run(drawn, {bad: -1.0})
                    else:
                        session.run(drawn, {bad: -1.0})

    def test_undefined_statistics(self):
        for make in (lambda **kw: d.StudentT([0.5, 3.0], 2.0, 1.0, **kw).mean(),
                     lambda **kw: d.Gamma([0.5, 3.0], 1.0, **kw).mode(),
                     lambda **kw: d.Beta([0.5, 3.0], 2.0, **kw).mode()):
            np.testing.assert_array_equal(np.isnan(self.value(make())), [True, False])
            with self.assertRaises(tf.errors.InvalidArgumentError):
                self.value(make(allow_nan_stats=False))
        self.close(d.StudentT(np.array([1.5, 4.0]), 0.0, 2.0).variance(), [np.inf, 8.0])
        self.close(d.StudentT(1.0, 0.0, 1.0).cdf([-1.0, 0.0, 1.0]), [0.25, 0.5, 0.75])
        self.close(d.StudentT(1.0, 0.0, 1.0).entropy(), math.log(4 * math.pi))

    def test_one_number_is_no_category(self):
        self.assertRaises(ValueError, d.Categorical, logits=1.0)

    def test_poisson(self):
        p = tf.contrib.distributions.Poisson([2.0], interpolate_nondiscrete=False)
        self.close(p.prob([[1.0], [1.5]]), [[2 * math.exp(-2)], [0.0]])
        self.close(p.cdf([[-1.0], [1.5]]), [[0.0], [3 * math.exp(-2)]])


def array_for(dist):
    """A value of the shape of an event."""
    return np.full(dist.event_shape.as_list(), 0.5 if dist.dtype.is_floating else 1, dist.dtype.as_numpy_dtype)


if __name__ == "__main__":
    unittest.main()
