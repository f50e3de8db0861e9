"""Initializers: values, spread, types, seeds, what they say of themselves."""

import unittest

import numpy as np

import millrace as tf


class Initializers(unittest.TestCase):
    def setUp(self):
        self._graph = tf.Graph().as_default()
        self._graph.__enter__()

    def tearDown(self):
        self._graph.__exit__(None, None, None)

    def value(self, initializer, shape, **kwargs):
        with tf.Session() as s:
            return s.run(initializer(shape, **kwargs))

    def test_the_same_everywhere(self):
        np.testing.assert_array_equal(self.value(tf.zeros_initializer(), [2, 2]), np.zeros([2, 2]))
        np.testing.assert_array_equal(self.value(tf.ones_initializer(), [3]), np.ones([3]))
        np.testing.assert_array_equal(self.value(tf.constant_initializer(7), [2]), [7, 7])

    def test_types(self):
        self.assertEqual(tf.zeros_initializer(tf.int32)([2]).dtype, tf.int32)
        self.assertEqual(tf.zeros_initializer()([2], tf.float64).dtype, tf.float64)
        self.assertEqual(tf.constant_initializer(True, tf.bool)([2]).dtype, tf.bool)
        self.assertEqual(tf.random_normal_initializer(dtype=tf.float64)([2]).dtype, tf.float64)
        with self.assertRaisesRegex(ValueError, "Expected floating point type"):
            tf.truncated_normal_initializer(dtype=tf.int32)

    def test_constants(self):
        np.testing.assert_array_equal(self.value(tf.constant_initializer([1, 2, 3, 4]), [2, 2]), [[1, 2], [3, 4]])
        np.testing.assert_array_equal(self.value(tf.constant_initializer([1, 2]), [4]), [1, 2, 2, 2])
        np.testing.assert_array_equal(self.value(tf.constant_initializer(np.eye(2)), [2, 2]), np.eye(2))
        with self.assertRaises(ValueError):
            tf.constant_initializer([1, 2, 3])([2])
        with self.assertRaises(TypeError):
            tf.constant_initializer([1, 2], verify_shape=True)([4])
        with self.assertRaises(TypeError):
            tf.constant_initializer({})

    def test_random_spread(self):
        n = [100, 100]
        u = self.value(tf.random_uniform_initializer(-2, 3, seed=1), n)
        self.assertTrue(u.min() >= -2 and u.max() < 3 and abs(u.mean() - 0.5) < 0.1)
        x = self.value(tf.random_normal_initializer(5.0, 2.0, seed=1), n)
        self.assertTrue(abs(x.mean() - 5) < 0.1 and abs(x.std() - 2) < 0.1)
        t = self.value(tf.truncated_normal_initializer(5.0, 2.0, seed=1), n)
        self.assertTrue(np.all(np.abs(t - 5) <= 4) and abs(t.std() - 2 * 0.8796) < 0.1)

    def test_variance_scaling(self):
        for make, variance in ((tf.variance_scaling_initializer, 1 / 50), (tf.initializers.he_normal, 2 / 50),
                               (tf.initializers.he_uniform, 2 / 50), (tf.initializers.lecun_normal, 1 / 50),
                               (tf.initializers.lecun_uniform, 1 / 50), (tf.glorot_normal_initializer, 2 / 250),
                               (tf.glorot_uniform_initializer, 2 / 250), (tf.uniform_unit_scaling_initializer, 1 / 50)):
            x = self.value(make(seed=2), [50, 200])
            self.assertAlmostEqual(x.var() / variance, 1, delta=0.1, msg=str(make))

    def test_convolution_kernels_count_their_field(self):
        x = self.value(tf.variance_scaling_initializer(mode="fan_out", distribution="uniform", seed=2), [3, 3, 10, 40])
        self.assertAlmostEqual(x.var() * 3 * 3 * 40, 1, delta=0.1)
        with self.assertRaises(ValueError):
            tf.variance_scaling_initializer(mode="fan")
        with self.assertRaises(ValueError):
            tf.variance_scaling_initializer(scale=0.0)

    def test_parts_are_scaled_as_the_whole(self):
        v = tf.get_variable("v", [4000, 2], partitioner=tf.fixed_size_partitioner(400),
                            initializer=tf.variance_scaling_initializer(seed=1))
        with tf.Session() as s:
            s.run(tf.global_variables_initializer())
            self.assertLess(s.run(v.as_tensor()).std(), 0.02)

    def test_orthogonal(self):
        tall = self.value(tf.orthogonal_initializer(gain=2.0), [6, 3])
        np.testing.assert_allclose(tall.T @ tall, 4 * np.eye(3), atol=1e-5)
        wide = self.value(tf.initializers.orthogonal(), [2, 2, 8]).reshape(4, 8)
        np.testing.assert_allclose(wide @ wide.T, np.eye(4), atol=1e-5)
        with self.assertRaises(ValueError):
            tf.orthogonal_initializer()([5])

    def test_identity(self):
        np.testing.assert_array_equal(self.value(tf.initializers.identity(gain=3.0), [2, 3]), 3 * np.eye(2, 3))

    def test_seeds(self):
        with tf.Session() as s:
            a, b = (tf.random_normal_initializer(seed=5)([4]) for _ in range(2))
            a, b = s.run([a, b])
        np.testing.assert_array_equal(a, b)

    def test_configurations(self):
        for x in (tf.random_uniform_initializer(-1, 1, seed=3), tf.variance_scaling_initializer(2.0, "fan_avg", "uniform"),
                  tf.constant_initializer(4), tf.glorot_uniform_initializer(seed=1), tf.orthogonal_initializer(0.5)):
            self.assertEqual(type(x).from_config(x.get_config()).get_config(), x.get_config())
        self.assertEqual(tf.zeros_initializer().get_config(), {"dtype": "float32"})

    def test_names(self):
        self.assertIs(tf.initializers.zeros, tf.zeros_initializer)
        self.assertIs(tf.initializers.variables, tf.variables_initializer)
        with self.assertRaisesRegex(AttributeError, "nothing_such"):
            tf.initializers.nothing_such


if __name__ == "__main__":
    unittest.main()
