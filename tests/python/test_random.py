"""Random tensors: seeds of the graph and of operations give the numbers that TensorFlow 1.x gives."""
import unittest

import numpy as np

import millrace as tf


class RandomTest(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()

    def test_numbers_of_a_seeded_graph_are_tensorflows(self):
        """W and b as TensorFlow 1.x initializes them in a published exercise: the second seed counts operations."""
        tf.set_random_seed(777)
        w = tf.Variable(tf.random_normal([1]), name="weight")
        b = tf.Variable(tf.random_normal([1]), name="bias")
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            np.testing.assert_allclose(sess.run([w, b]), [[2.2086694], [-0.8204183]], rtol=1e-6)

    def test_several_numbers_of_one_operation(self):
        tf.set_random_seed(777)
        with tf.Session() as sess:
            np.testing.assert_allclose(sess.run(tf.random_normal([3])), [2.20866942, -0.73225045, 0.33533147], rtol=1e-6)

    def test_inputs_come_before_the_operation(self):
        for f, op_type in ((tf.random_normal, "RandomStandardNormal"), (tf.truncated_normal, "TruncatedNormal"),
                           (tf.random_uniform, "RandomUniform")):
            tf.reset_default_graph()
            tf.set_random_seed(1)
            f([2])
            types = [op.type for op in tf.get_default_graph().get_operations()]
            self.assertEqual(types[:4], ["Const"] * 3 + [op_type])
            self.assertEqual(tf.get_default_graph().get_operations()[3].get_attr("seed2"), 3)

    def test_a_seed_of_its_own_counts_alone(self):
        with tf.Session() as sess:
            a, b = sess.run([tf.random_normal([4], seed=5), tf.random_normal([4], seed=5)])
        np.testing.assert_array_equal(a, b)

    def test_means_and_deviations(self):
        with tf.Session() as sess:
            x = sess.run(tf.random_normal([20000], mean=3.0, stddev=2.0, seed=1))
            y = sess.run(tf.truncated_normal([20000], mean=-1.0, stddev=0.5, seed=1))
        self.assertAlmostEqual(x.mean(), 3, delta=0.06)
        self.assertAlmostEqual(x.std(), 2, delta=0.06)
        self.assertLessEqual(np.abs(y + 1).max(), 1)


if __name__ == "__main__":
    unittest.main()
