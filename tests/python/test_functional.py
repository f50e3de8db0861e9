"""TensorArrays and the loops over elements, against numpy."""

import unittest

import numpy as np

import millrace as tf


class Case(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()

    def run_(self, fetches, feeds=None):
        with tf.Session() as session:
            return session.run(fetches, feeds)


class TensorArrayTest(Case):
    def test_write_read_stack(self):
        a = tf.TensorArray(tf.float32, size=3)
        for i in range(3):
            a = a.write(i, [i, i + 1.0])
        self.assertEqual(a.element_shape.as_list(), [2])
        stacked, size = self.run_([a.stack(), a.size()])
        np.testing.assert_array_equal(stacked, [[0, 1], [1, 2], [2, 3]])
        self.assertEqual(size, 3)

    def test_gather_concat_split_scatter(self):
        x = tf.constant([[1.0, 2], [3, 4], [5, 6]])
        a = tf.TensorArray(tf.float32, 3, clear_after_read=False).unstack(x)
        np.testing.assert_array_equal(self.run_(a.gather([2, 0])), [[5, 6], [1, 2]])
        b = tf.TensorArray(tf.float32, 2, infer_shape=False).split(x, [1, 2])
        first, whole = self.run_([b.read(1), tf.TensorArray(tf.float32, 2, infer_shape=False).split(x, [1, 2]).concat()])
        np.testing.assert_array_equal(first, [[3, 4], [5, 6]])
        np.testing.assert_array_equal(whole, [[1, 2], [3, 4], [5, 6]])
        c = tf.TensorArray(tf.float32, 3).scatter([2, 1, 0], x)
        np.testing.assert_array_equal(self.run_(c.stack()), [[5, 6], [3, 4], [1, 2]])

    def test_grows(self):
        a = tf.TensorArray(tf.int32, size=0, dynamic_size=True)
        _, a = tf.while_loop(lambda i, _: i < 4, lambda i, a: (i + 1, a.write(i, i * i)), [0, a])
        np.testing.assert_array_equal(self.run_(a.stack()), [0, 1, 4, 9])
        self.assertEqual(a.stack().shape.as_list(), [None])

    def test_gradients_of_one_element_add_up(self):
        x = tf.constant([1.0, 2, 3])
        a = tf.TensorArray(tf.float32, 0, dynamic_size=True, clear_after_read=False, infer_shape=False).split(x, [1, 1, 1])
        a = a.write(3, x * x)
        ys = [a.read(0), a.gather([0, 0]), a.concat(), tf.reduce_sum(a.read(0)), a.read(0)[0], a.read(3)]
        np.testing.assert_array_equal(self.run_(tf.gradients(ys, x)[0]), [1 + 2 + 1 + 1 + 1 + 4, 1 + 8, 1 + 12])

    def refused(self, fetch, message, feeds=None):
        with self.assertRaisesRegex(tf.errors.InvalidArgumentError, message):
            self.run_(fetch, feeds)

    def test_gradients_of_one_element_have_one_shape(self):
        g = tf.TensorArray(tf.float32, 3, infer_shape=False).grad("g")
        self.assertEqual(self.run_(g.write(1, 1.0).write(1, 2.0).read(1)), 3)
        self.refused(g.write(1, 1.0).write(1, [1.0]).flow, r"Could not aggregate to TensorArray index 1 because the existing "
                     r"shape is \[\] but the new input shape is \[1\]")

    def test_shapes_that_do_not_fit_together(self):
        array = lambda: tf.TensorArray(tf.float32, 3, infer_shape=False)
        uneven = array().write(0, [3.0]).write(1, [4.0]).write(2, [[3.0]])
        self.refused(uneven.stack(), r"inconsistent shapes.  Index 0 has shape: \[1\] but index 2 has shape: \[1,1\]")
        self.refused(uneven.concat(), r"Index 0 has \(excepting dimension 0\) shape: \[\] but index 2 has "
                     r"\(excepting dimension 0\) shape: \[1\]")
        lengths, value = tf.placeholder(tf.int64), tf.placeholder(tf.float32)
        split = array().split(value, lengths).flow
        self.refused(split, r"Expected lengths to be a vector, received shape: \[\]", {value: [1.0], lengths: 1})
        self.refused(split, r"Expected value to be at least a vector, but received shape: \[\]", {value: 1.0, lengths: [1]})

    def test_second_gradients(self):
        x = tf.constant(2.0)
        a = tf.TensorArray(tf.float32, 2).write(0, x).write(1, x * x).stack()
        first = tf.gradients(tf.reduce_sum(a * a), x)[0]
        self.assertEqual(self.run_([first, tf.gradients(first, x)[0]]), [2 * 2 + 4 * 8, 2 + 12 * 4])

    def test_gradients_in_a_loop(self):
        x = tf.placeholder(tf.float32, [None])
        w = tf.constant(2.0)
        n = tf.shape(x)[0]
        read = tf.TensorArray(tf.float32, n, element_shape=[]).unstack(x)

        def body(i, state, out):
            state = state * w + read.read(i)
            return i + 1, state, out.write(i, state)
        _, _, out = tf.while_loop(lambda i, *_: i < n, body, [0, 0.0, tf.TensorArray(tf.float32, n)])
        y = tf.reduce_sum(out.stack())
        dx, dw = tf.gradients(y, [x, w])
        value, gx, gw = self.run_([y, dx, dw], {x: [1, 2, 3]})
        # states: 1, 1w+2, 1w^2+2w+3
        self.assertEqual(value, 1 + 4 + 11)
        np.testing.assert_array_equal(gx, [1 + 2 + 4, 1 + 2, 1])
        self.assertEqual(gw, 1 + 2 * 2 + 2)

    def test_through_a_branch(self):
        p = tf.placeholder(tf.bool, [])
        a = tf.TensorArray(tf.float32, 1)
        a = tf.cond(p, lambda: a.write(0, 1.0), lambda: a.write(0, 2.0))
        self.assertEqual(self.run_(a.read(0), {p: False}), 2)

    def test_errors(self):
        with self.assertRaisesRegex(ValueError, "Size"):
            tf.TensorArray(tf.float32)
        a = tf.TensorArray(tf.float32, 2).write(0, [1.0])
        with self.assertRaisesRegex(ValueError, "Inconsistent"):
            a.write(1, [1.0, 2.0])
        with self.assertRaises(tf.errors.OpError):
            self.run_(a.read(5))


class FunctionalTest(Case):
    def test_map(self):
        x = tf.constant([1.0, 2, 3])
        y = tf.map_fn(lambda v: v * v, x)
        self.assertEqual(y.shape.as_list(), [3])
        dx, = tf.gradients(y, x)
        value, gradient = self.run_([y, dx])
        np.testing.assert_array_equal(value, [1, 4, 9])
        np.testing.assert_array_equal(gradient, [2, 4, 6])

    def test_map_of_structures(self):
        a, b = tf.map_fn(lambda t: (t[0] + t[1], tf.cast(t[0], tf.int64)), (tf.constant([1, 2]), tf.constant([3, 4])),
                         dtype=(tf.int32, tf.int64))
        np.testing.assert_array_equal(self.run_(a), [4, 6])
        self.assertEqual(self.run_(b).dtype, np.int64)

    def test_map_of_unknown_length(self):
        x = tf.placeholder(tf.float32, [None, 2])
        y = tf.map_fn(lambda row: tf.reduce_sum(row), x)
        np.testing.assert_array_equal(self.run_(y, {x: [[1, 2], [3, 4]]}), [3, 7])
        np.testing.assert_array_equal(self.run_(y, {x: np.zeros([0, 2])}), [])

    def test_nested_map(self):
        x = tf.constant([[1.0, 2], [3, 4]])
        y = tf.map_fn(lambda row: tf.map_fn(lambda v: v * v, row), x)
        dx, = tf.gradients(y, x)
        value, gradient = self.run_([y, dx])
        np.testing.assert_array_equal(value, [[1, 4], [9, 16]])
        np.testing.assert_array_equal(gradient, [[2, 4], [6, 8]])

    def test_scan(self):
        x = tf.constant([1.0, 2, 3])
        y = tf.scan(lambda a, v: a * v, x)
        dx, = tf.gradients(y[2], x)
        np.testing.assert_array_equal(self.run_(y), [1, 2, 6])
        np.testing.assert_array_equal(self.run_(dx), [6, 3, 2])
        np.testing.assert_array_equal(self.run_(tf.scan(lambda a, v: a + v, x, initializer=10.0)), [11, 13, 16])
        np.testing.assert_array_equal(self.run_(tf.scan(lambda a, v: a + v, x, reverse=True)), [6, 5, 3])

    def test_scan_of_structures(self):
        a, b = tf.scan(lambda s, v: (s[1], s[0] + s[1]), tf.zeros([6]), initializer=(tf.constant(0), tf.constant(1)))
        np.testing.assert_array_equal(self.run_(a), [1, 1, 2, 3, 5, 8])

    def test_folds(self):
        x = tf.constant([1.0, 2, 3])
        self.assertEqual(self.run_(tf.foldl(lambda a, v: a - v, x)), -4)
        self.assertEqual(self.run_(tf.foldr(lambda a, v: a - v, x)), 0)
        self.assertEqual(self.run_(tf.foldl(lambda a, v: a - v, x, initializer=10.0)), 4)
        self.assertEqual(self.run_(tf.foldr(lambda a, v: a - v, x, initializer=10.0)), 4)

    def test_errors(self):
        with self.assertRaisesRegex(TypeError, "callable"):
            tf.map_fn(1, [1])
        with self.assertRaisesRegex(ValueError, "scalars"):
            tf.map_fn(lambda x: x, tf.constant(1))
        with self.assertRaises((TypeError, ValueError)):
            tf.map_fn(lambda x: (x, x), tf.constant([1]))

    def test_hessians(self):
        x = tf.constant([1.0, 2.0])
        h, = tf.hessians(x[0] * x[0] * x[1], x)
        np.testing.assert_array_equal(self.run_(h), [[4, 2], [2, 0]])


if __name__ == "__main__":
    unittest.main()
