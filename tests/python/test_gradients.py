"""tf.gradients, gradients by Python, and operations done by Python."""

import gc
import threading
import unittest
import weakref

import numpy as np

import millrace as tf


class Case(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()

    def run_(self, fetches, feeds=None):
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            return session.run(fetches, feeds)


class GradientsTest(Case):
    def test_sum_of_ys_and_grad_ys(self):
        x = tf.constant([1.0, 2.0])
        y, z = x * x, x * 3.0
        both, = tf.gradients([y, z], x)
        given, = tf.gradients([y, z], x, grad_ys=[tf.constant([10.0, 10.0]), None])
        np.testing.assert_array_equal(self.run_(both), [5, 7])
        np.testing.assert_array_equal(self.run_(given), [23, 43])
        with self.assertRaisesRegex(ValueError, "grad_ys"):
            tf.gradients([y, z], x, grad_ys=[None])
        with self.assertRaises(ValueError):
            tf.gradients(y, x, grad_ys=tf.constant([1.0, 2.0, 3.0]))

    def test_unconnected(self):
        x, z = tf.constant(1.0), tf.constant([2.0, 2.0])
        self.assertEqual(tf.gradients(x * x, [z]), [None])
        zero, = tf.gradients(x * x, z, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        np.testing.assert_array_equal(self.run_(zero), [0, 0])

    def test_stop(self):
        x = tf.constant(2.0)
        y = x * x
        z = y * x
        self.assertEqual(self.run_(tf.gradients(z, x, stop_gradients=[y])), [4])
        self.assertEqual(self.run_(tf.gradients(tf.stop_gradient(y) * x, x)), [4])

    def test_variables(self):
        for use_resource in (False, True):
            tf.reset_default_graph()
            v = tf.Variable([[1.0, 2], [3, 4], [5, 6]], use_resource=use_resource)
            dense, = tf.gradients(v * v, v)
            np.testing.assert_array_equal(self.run_(dense), [[2, 4], [6, 8], [10, 12]])
            rows, = tf.gradients(tf.gather(v, [2, 0, 2]), v)
            self.assertIsInstance(rows, tf.IndexedSlices)
            got = self.run_(rows)
            np.testing.assert_array_equal(got.indices, [2, 0, 2])
            np.testing.assert_array_equal(got.values, np.ones([3, 2]))
            np.testing.assert_array_equal(self.run_(tf.convert_to_tensor(rows)), [[1, 1], [0, 0], [2, 2]])

    def test_variables_in_loops(self):
        for use_resource in (False, True):
            tf.reset_default_graph()
            v = tf.Variable(3.0, use_resource=use_resource)
            _, y = tf.while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, y * v), [0, 1.0])
            p = tf.placeholder(tf.bool, [])
            z = tf.cond(p, lambda: y * v, lambda: v)
            dv, = tf.gradients(z, v)
            self.assertEqual(self.run_([z, dv], {p: True}), [243, 405])
            self.assertEqual(self.run_([z, dv], {p: False}), [3, 1])

    def test_rows_in_loops(self):
        v = tf.Variable([[1.0], [2.0]])
        _, y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y + tf.reduce_sum(tf.gather(v, [i % 2]))), [0, 0.0])
        dv = tf.convert_to_tensor(tf.gradients(y, v)[0])
        value, gradient = self.run_([y, dv])
        self.assertEqual(value, 4)
        np.testing.assert_array_equal(gradient, [[2], [1]])

    def test_variables_assigned_in_loops(self):
        v = tf.Variable(2.0)

        def body(i):
            with tf.control_dependencies([tf.assign(v, tf.square(v))]):
                return i + 1
        n = tf.while_loop(lambda i: i < 4, body, [0])
        w = tf.Variable(0)
        m = tf.while_loop(lambda i: tf.less(w, 5), lambda i: tf.identity(tf.assign_add(w, 1)), [0])
        with tf.Session() as session:
            session.run([v.initializer, w.initializer])
            self.assertEqual(session.run(n), 4)
            self.assertEqual(session.run(v), 65536)
            self.assertEqual(session.run(m), 5)

    def test_conditional_assignment(self):
        v = tf.Variable(1.0)
        p = tf.placeholder(tf.bool, [])
        op = tf.cond(p, lambda: tf.assign(v, 7.0), lambda: tf.identity(v))
        with tf.Session() as session:
            session.run(v.initializer)
            self.assertEqual(session.run(op, {p: False}), 1)
            self.assertEqual(session.run(v), 1)
            self.assertEqual(session.run(op, {p: True}), 7)

    def test_second_derivative(self):
        x = tf.constant(2.0)
        first, = tf.gradients(x ** 3, x)
        self.assertEqual(self.run_(tf.gradients(first, x)), [12])

    def test_names(self):
        x = tf.constant(2.0)
        a, = tf.gradients(x * x, x)
        b, = tf.gradients(x * x, x)
        self.assertTrue(a.name.startswith("gradients/"))
        self.assertTrue(b.name.startswith("gradients_1/"))
        self.assertEqual(tf.constant(1, name="gradients").op.name, "gradients_2")

    def test_py_function(self):
        x, y = tf.constant(3.0), tf.constant(2.0)
        a, b = tf.py_function(lambda x, y: (tf.square(x) * y, x / y), [x, y], [tf.float32, tf.float32])
        self.assertEqual(self.run_([a, b]), [18, 1.5])
        self.assertEqual(self.run_(tf.gradients(a + b, [x, y])), [12.5, 8.25])

    def test_gate(self):
        x, y = tf.constant(2.0), tf.constant(3.0)
        self.assertEqual(self.run_(tf.gradients(x * y, [x, y], gate_gradients=True)), [3, 2])

    def test_no_gradient_is_a_lookup_error(self):
        x = tf.constant([2.0])
        y = tf.raw_ops.MatrixLogarithm(input=tf.cast([x], tf.complex64))
        with self.assertRaisesRegex(LookupError, "No gradient defined for operation"):
            tf.gradients(y, x, grad_ys=y)

    def test_errors(self):
        x = tf.constant(2)
        with self.assertRaises(TypeError):
            tf.gradients(tf.constant("a"), x)
        with self.assertRaisesRegex(TypeError, "complex"):
            tf.gradients(tf.constant(1j), x)


class PythonGradientsTest(Case):
    def test_override(self):
        @tf.RegisterGradient("TestTimesHundred%d" % id(self))
        def times_hundred(op, dy):
            self.assertEqual(op.type, "Square")
            return dy * 100.0
        x = tf.constant(3.0)
        with tf.get_default_graph().gradient_override_map({"Square": "TestTimesHundred%d" % id(self)}):
            y = tf.square(x)
        self.assertEqual(self.run_(tf.gradients(y, x) + tf.gradients(tf.square(x), x)), [100, 6])

    def test_zeros_for_what_does_not_arrive(self):
        name = "TestUnpack%d" % id(self)
        seen = []

        @tf.RegisterGradient(name)
        def unpack(op, *grads):
            seen.extend(grads)
            return tf.stack(grads)
        x = tf.constant([1.0, 2.0])
        with tf.get_default_graph().gradient_override_map({"Unpack": name}):
            a, b = tf.unstack(x)
        dx, = tf.gradients(b * b, x)
        self.assertEqual(len(seen), 2)
        np.testing.assert_array_equal(self.run_(dx), [0, 4])

    def test_rows(self):
        name = "TestGather%d" % id(self)

        @tf.RegisterGradient(name)
        def gather(op, dy):
            return [tf.IndexedSlices(dy * 2.0, op.inputs[1], tf.shape(op.inputs[0])), None, None]
        x = tf.constant([1.0, 2.0, 3.0])
        with tf.get_default_graph().gradient_override_map({"GatherV2": name}):
            y = tf.gather(x, [1, 1])
        rows, = tf.gradients(y, x)
        self.assertIsInstance(rows, tf.IndexedSlices)
        np.testing.assert_array_equal(self.run_(tf.convert_to_tensor(rows)), [0, 4, 0])
        seen = []

        @tf.RegisterGradient(name + "Identity")
        def identity(op, dy):
            seen.append(dy)
            return tf.IndexedSlices(dy.values * 3.0, dy.indices)
        with tf.get_default_graph().gradient_override_map({"Identity": name + "Identity"}):
            z = tf.gather(tf.identity(x), [1, 1])
        dx, = tf.gradients(z, x)
        self.assertIsInstance(seen[0], tf.IndexedSlices)
        np.testing.assert_array_equal(self.run_(tf.convert_to_tensor(dx)), [0, 6, 0])

    def test_in_a_loop(self):
        name = "TestDouble%d" % id(self)

        @tf.RegisterGradient(name)
        def double(op, dy):
            return dy * 2.0 * op.inputs[0] * tf.constant(10.0)
        x = tf.constant(2.0)

        def body(i, v):
            with tf.get_default_graph().gradient_override_map({"Square": name}):
                return i + 1, tf.square(v)
        _, y = tf.while_loop(lambda i, v: i < 2, body, [0, x])
        self.assertEqual(self.run_([y] + tf.gradients(y, x)), [16, 3200])

    def test_rows_in_a_loop(self):
        name = "TestGatherLoop%d" % id(self)

        @tf.RegisterGradient(name)
        def gather(op, dy):
            return [tf.IndexedSlices(dy * 2.0, op.inputs[1]), None, None]
        x = tf.constant([1.0, 2.0, 3.0])

        def body(i, v):
            with tf.get_default_graph().gradient_override_map({"GatherV2": name}):
                return i + 1, v + tf.reduce_sum(tf.gather(x, [i, 0]))
        _, y = tf.while_loop(lambda i, v: i < 2, body, [0, 0.0])
        dx = tf.convert_to_tensor(tf.gradients(y, x)[0])
        value, gradient = self.run_([y, dx])
        self.assertEqual(value, 5)
        np.testing.assert_array_equal(gradient, [6, 2, 0])

    def test_wrong_number(self):
        name = "TestWrong%d" % id(self)
        tf.RegisterGradient(name)(lambda op, dy: [dy, dy])
        x = tf.constant(1.0)
        with tf.get_default_graph().gradient_override_map({"Square": name}):
            y = tf.square(x)
        with self.assertRaisesRegex(ValueError, "Num gradients"):
            tf.gradients(y, x)
        with self.assertRaises(KeyError):
            tf.RegisterGradient(name)(lambda op, dy: dy)

    def test_error_of_the_function(self):
        name = "TestRaises%d" % id(self)

        @tf.RegisterGradient(name)
        def fails(op, dy):
            raise RuntimeError("not this time")
        x = tf.constant(1.0)
        with tf.get_default_graph().gradient_override_map({"Square": name}):
            y = tf.square(x)
        with self.assertRaisesRegex(RuntimeError, "not this time"):
            tf.gradients(y, x)

    def test_custom_gradient(self):
        @tf.custom_gradient
        def clipped(x, y):
            def grad(dz):
                return tf.minimum(dz, 1.0), dz * 7.0
            return x * y * 10.0, grad
        x, y = tf.constant(2.0), tf.constant(3.0)
        z = clipped(x, y)
        self.assertEqual(self.run_([z] + tf.gradients(z * 5.0, [x, y])), [60, 1, 35])

    def test_recompute(self):
        v = tf.get_variable("v", initializer=4.0)
        f = tf.recompute_grad(lambda x: tf.square(x) * v)
        x = tf.constant(3.0)
        y = f(x)
        before = len([op for op in tf.get_default_graph().get_operations() if op.type == "Square"])
        dx, dv = tf.gradients(y, [x, v])
        after = len([op for op in tf.get_default_graph().get_operations() if op.type == "Square"])
        self.assertEqual((before, after), (1, 2))
        self.assertEqual(self.run_([y, dx, dv]), [36, 24, 9])

    def test_custom_gradient_with_variables(self):
        v = tf.get_variable("v", initializer=4.0, use_resource=True)

        @tf.custom_gradient
        def f(x):
            def grad(dy, variables=None):
                self.assertEqual(variables, [v])
                return dy * 3.0, [dy * 5.0]
            return x * v, grad
        x = tf.constant(2.0)
        self.assertEqual(self.run_(tf.gradients(f(x), [x, v])), [3, 5])


class PyFuncTest(Case):
    def test_values(self):
        x = tf.placeholder(tf.float32, [None])
        y = tf.py_func(lambda a: np.sinh(a), [x], tf.float32)
        np.testing.assert_allclose(self.run_(y, {x: [0, 1]}), np.sinh([0, 1]), rtol=1e-6)
        a, b = tf.py_func(lambda v, s: (np.int32(v + 1), s + b"!"), [tf.constant(1), "hi"], [tf.int32, tf.string])
        self.assertEqual(self.run_([a, b]), [2, b"hi!"])

    def test_nothing_returned(self):
        called = []
        op = tf.py_func(lambda x: called.append(int(x)), [tf.constant(3)], [])
        self.run_(op)
        self.assertEqual(called, [3])

    def test_errors(self):
        def fails(kind):
            def f():
                raise kind("oh")
            return tf.py_func(f, [], tf.float32)
        for kind, error in ((ValueError, tf.errors.InvalidArgumentError), (TypeError, tf.errors.InvalidArgumentError),
                            (StopIteration, tf.errors.OutOfRangeError), (NotImplementedError, tf.errors.UnimplementedError),
                            (KeyError, tf.errors.UnknownError)):
            with self.assertRaisesRegex(error, "oh"):
                self.run_(fails(kind))
        with self.assertRaisesRegex(tf.errors.InvalidArgumentError, "expects float32"):
            self.run_(tf.py_func(lambda: 1.0, [], tf.float32))
        with self.assertRaisesRegex(tf.errors.InvalidArgumentError, "2 values"):
            self.run_(tf.py_func(lambda: (1, 2), [], tf.int64))

    def test_py_function(self):
        y = tf.py_function(lambda x: x.numpy() * 2, [tf.constant([1.0, 2.0])], tf.float32)
        np.testing.assert_array_equal(self.run_(y), [2, 4])
        with self.assertRaisesRegex(tf.errors.UnknownError, "Attempting to return a variable"):
            self.run_(tf.py_function(lambda: tf.Variable(0.0), [], tf.float32))

    def test_with_a_gradient(self):
        name = "TestPyFuncGrad%d" % id(self)
        tf.RegisterGradient(name)(lambda op, dy: dy * op.inputs[0] * 2.0)
        x = tf.constant(3.0)
        with tf.get_default_graph().gradient_override_map({"PyFunc": name}):
            y = tf.py_func(lambda v: v * v, [x], tf.float32)
        self.assertEqual(self.run_([y] + tf.gradients(y, x)), [9, 6])

    def test_functions_go_with_the_graph(self):
        class F:
            def __call__(self, x):
                return x
        f = F()
        gone = weakref.ref(f)
        with tf.Graph().as_default():
            y = tf.py_func(f, [tf.constant(1)], tf.int32)
            with tf.Session() as session:
                self.assertEqual(session.run(y), 1)
        del y, f, session
        gc.collect()
        self.assertIsNone(gone())

    def test_many_at_once(self):
        lock, most = threading.Lock(), []
        ys = [tf.py_func(lambda x: (lock.acquire(), most.append(1), lock.release()) and x, [tf.constant(i)], tf.int32)
              for i in range(20)]
        self.assertEqual(self.run_(ys), list(range(20)))
        self.assertEqual(len(most), 20)

    def test_functions_wait_for_each_other(self):
        for threads in (0, 1, 2):
            meeting = threading.Barrier(12, timeout=30)
            ys = [tf.py_func(lambda x: (meeting.wait(), x)[1], [tf.constant(i)], tf.int32) for i in range(12)]
            config = tf.ConfigProto(inter_op_parallelism_threads=threads, intra_op_parallelism_threads=threads)
            with tf.Session(config=config) as s:
                self.assertEqual(s.run(ys), list(range(12)))

    def test_a_function_waits_for_a_step_of_another_thread(self):
        done = threading.Event()
        y = tf.py_func(lambda: done.wait(30), [], tf.bool)
        z = tf.py_func(lambda a: (done.set(), a)[1], [tf.reduce_sum(tf.ones([100]))], tf.float32)
        with tf.Session(config=tf.ConfigProto(inter_op_parallelism_threads=1, intra_op_parallelism_threads=1)) as s:
            waiting = threading.Thread(target=lambda: self.assertTrue(s.run(y)))
            waiting.start()
            self.assertEqual(s.run(z), 100)
            waiting.join()

    def test_one_function_is_called_in_the_thread_that_runs_the_step(self):
        y = tf.py_func(lambda: threading.get_ident(), [], tf.int64)
        self.assertEqual(self.run_(y), threading.get_ident())


if __name__ == "__main__":
    unittest.main()
