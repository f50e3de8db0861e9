"""tf.math, tf.random, tf.debugging, tf.dtypes and tf.manip: names of tf in smaller namespaces."""

import unittest

import numpy as np

import millrace as tf


class NamespacesTest(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()
        self.session = tf.Session()
        self.addCleanup(self.session.close)

    def test_the_same_functions(self):
        self.assertIs(tf.math.reduce_sum, tf.reduce_sum)
        self.assertIs(tf.math.softmax, tf.nn.softmax)
        self.assertIs(tf.random.uniform, tf.random_uniform)
        self.assertIs(tf.debugging.assert_equal, tf.assert_equal)
        self.assertIs(tf.dtypes.float32, tf.float32)
        self.assertIs(tf.manip.roll, tf.roll)

    def test_what_is_missing_is_named(self):
        with self.assertRaisesRegex(AttributeError, "'tf.math' has no attribute 'nothing'"):
            tf.math.nothing

    def test_more_of_math(self):
        x = np.array([[1, 3], [2, 8]], np.float32)
        np.testing.assert_allclose(self.session.run(tf.math.reduce_std(x, 1)), x.std(1))
        np.testing.assert_allclose(self.session.run(tf.math.reduce_variance(x)), x.var(), rtol=1e-6)
        self.assertEqual(self.session.run(tf.math.polyval([1., 2., 3.], 2.)), 11)
        np.testing.assert_allclose(self.session.run(tf.lbeta([1., 2.])), np.log(.5), rtol=1e-6)

    def test_finite(self):
        p = tf.placeholder(tf.float32)
        checked = tf.verify_tensor_all_finite(p, "not finite here")
        self.assertEqual(self.session.run(checked, {p: 2}), 2)
        with self.assertRaisesRegex(tf.errors.InvalidArgumentError, "not finite here"):
            self.session.run(checked, {p: np.inf})


if __name__ == "__main__":
    unittest.main()
