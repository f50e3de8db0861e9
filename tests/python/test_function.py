"""Functions: captures, calls, gradients."""

import unittest

import millrace as tf
from millrace.framework import function
from millrace.framework.function import Defun


class FunctionTest(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()

    def run_(self, fetches, feeds=None):
        with tf.Session() as session:
            return session.run(fetches, feeds)

    def test_build_captures_and_keeps_the_structure(self):
        y = tf.constant(5.0)
        f = function.build(lambda x: {"a": x * y, "b": x}, [tf.float32], [[None]], "scale")
        self.assertEqual(f.captured_inputs, [y])
        self.assertEqual(sorted(f.structured_outputs), ["a", "b"])
        self.assertEqual([s.as_list() for s in f.output_shapes], [[None], [None]])
        self.assertTrue(f.name.startswith("scale_"))

    def test_captures_of_a_function_in_a_function(self):
        y = tf.constant(5.0)

        @Defun(tf.float32)
        def outer(x):
            inner = function.build(lambda z: z * y, [tf.float32], name="inner")
            return function.call(inner, [x]).outputs[0]
        self.assertEqual(self.run_(outer(2.0)), 10)

    def test_by_value(self):
        y = tf.constant(2.0) * 3.0
        f = function.build(lambda x: x * y, [tf.float32], capture_by_value=True)
        self.assertEqual(f.captured_inputs, [])
        self.assertEqual(self.run_(function.call(f, [2.0]).outputs[0]), 12)
        p = tf.placeholder(tf.float32, [])
        with self.assertRaisesRegex(ValueError, "by value"):
            function.build(lambda x: x * p, [tf.float32], capture_by_value=True)

    def test_call_and_gradient(self):
        y = tf.constant(5.0)

        @Defun(tf.float32, tf.float32)
        def f(a, b):
            return a * b, a * y
        x = tf.constant(3.0)
        p, q = f(x, 7.0)
        self.assertEqual(self.run_([p, q] + tf.gradients([p, q], [x, y])), [21, 15, 12, 3])

    def test_gradient_functions(self):
        x = tf.constant(3.0)

        @Defun(tf.float32, python_grad_func=lambda op, dy: dy * 100.0)
        def f(a):
            return a * a

        @Defun(tf.float32, tf.float32)
        def dg(a, dy):
            return dy * 1000.0

        @Defun(tf.float32, grad_func=dg)
        def g(a):
            return a * a
        self.assertEqual(self.run_(tf.gradients(f(x), x) + tf.gradients(g(x), x)), [100, 1000])

    def test_types_of_the_call(self):
        @Defun()
        def double(a):
            return a + a
        self.assertEqual(self.run_([double(tf.constant(2)), double(tf.constant(1.5))]), [4, 3])

    def test_in_a_loop_and_a_branch(self):
        @Defun(tf.float32)
        def double(a):
            return a + a

        def body(i, v):
            v = double(v)
            v.set_shape([])
            return i + 1, v
        x = tf.constant(1.0)
        _, y = tf.while_loop(lambda i, v: i < 3, body, [0, x])
        p = tf.placeholder(tf.bool, [])
        z = tf.cond(p, lambda: double(y), lambda: y)
        self.assertEqual(self.run_([z] + tf.gradients(z, x), {p: True}), [16, 16])

    def test_variables(self):
        @Defun(tf.float32)
        def f(x):
            return x * tf.get_variable("w", initializer=tf.constant_initializer(3.0), shape=[])
        with tf.variable_scope("layer"):
            y = f(2.0)
            z = f(5.0)
        w, = tf.global_variables()
        self.assertEqual(w.name, "layer/w:0")
        dw, = tf.gradients(y + z, w)
        with tf.Session() as session:
            session.run(w.initializer)
            self.assertEqual(session.run([y, z, dw]), [6, 15, 7])

    def test_errors(self):
        @Defun(tf.float32)
        def f(a):
            return a
        with self.assertRaisesRegex(ValueError, "number of arguments"):
            f(1.0, 2.0)
        with self.assertRaises(ValueError):
            f(1.0, nothing=1)


if __name__ == "__main__":
    unittest.main()
