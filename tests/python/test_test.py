"""tf.test."""
import os
import subprocess
import sys
import unittest

import numpy as np

import millrace as tf


class Assertions(tf.test.TestCase):
    def fails(self, f, *args, **kwargs):
        with self.assertRaises(AssertionError) as e:
            f(*args, **kwargs)
        return str(e.exception)

    def test_close(self):
        self.assertAllClose([1, 2.0], np.array([1, 2.0000001]))
        self.assertAllClose({"a": [1, (2, 3)]}, {"a": (1, [2, 3])})
        self.assertAllClose([np.zeros([2]), np.zeros([3])], [[0, 0], [0, 0, 0]])
        self.assertAllClose(float("nan"), float("nan"))
        self.assertIn("first at [1]: 2.0 and 2.1", self.fails(self.assertAllClose, [1., 2.], [1., 2.1]))
        self.assertIn("Shape mismatch", self.fails(self.assertAllClose, [1., 2.], [1.]))
        self.assertIn("keys", self.fails(self.assertAllClose, {"a": 1}, {"b": 1}))
        self.assertAllClose(1.0, 1.05, rtol=0.1)
        self.assertAllCloseAccordingToType(np.float16(1), np.float16(1.001))
        self.assertNotAllClose([1.], [2.])

    def test_equal(self):
        self.assertAllEqual([[1, 2]], np.array([[1, 2]]))
        self.assertAllEqual(["a", b"b"], np.array([b"a", b"b"], object))
        self.assertAllEqual([True, False], [True, False])
        self.fails(self.assertAllEqual, [1, 2], [1, 3])
        self.fails(self.assertAllEqual, ["a"], ["b"])
        self.fails(self.assertAllEqual, [1, 2], [[1, 2]])

    def test_bounds(self):
        self.assertAllGreater([2, 3], 1)
        self.assertAllLessEqual([2, 3], 3)
        self.assertAllInRange([0., 1.], 0, 1)
        self.assertAllInSet([1, 2, 1], [1, 2])
        self.fails(self.assertAllInRange, [0., 1.], 0, 1, open_upper_bound=True)
        self.assertNear(1, 1.1, 0.2)
        self.assertArrayNear([1, 2], [1.1, 2], 0.2)
        self.fails(self.assertNear, 1, 2, 0.5)

    def test_messages_and_devices(self):
        self.assertProtoEquals("name: 'a' op: 'Const'", tf.NodeDef(name="a", op="Const"))
        self.fails(self.assertProtoEquals, "name: 'b'", tf.NodeDef(name="a"))
        self.assertDeviceEqual("/job:a/cpu:0", "/job:a/device:CPU:0")
        self.assertStartsWith("abc", "ab")

    def test_errors_of_ops(self):
        x = tf.placeholder(tf.int32, [])
        y = tf.raw_ops.gather([1, 2], x)
        with self.test_session() as sess:
            with self.assertRaisesOpError("indices"):
                sess.run(y, {x: 5})
            with self.assertRaises(AssertionError):
                with self.assertRaisesOpError("something else"):
                    sess.run(y, {x: 5})

    def test_threads(self):
        t = self.checkedThread(lambda: 1 / 0)
        t.start()
        with self.assertRaisesRegex(AssertionError, "division"):
            t.join()


class Sessions(tf.test.TestCase):
    def test_each_test_has_an_empty_graph_a(self):
        self.assertEqual(tf.get_default_graph().get_operations(), [])
        tf.constant(1)

    def test_each_test_has_an_empty_graph_b(self):
        self.assertEqual(tf.get_default_graph().get_operations(), [])
        tf.constant(1)

    def test_one_session_a_test(self):
        with self.test_session() as a:
            x = tf.constant([1., 2.]) * 2
            self.assertAllEqual(x.eval(), [2, 4])
        with self.cached_session() as b:
            self.assertIs(a, b)
        self.assertAllEqual(self.evaluate({"x": x})["x"], [2, 4])
        self.assertAllEqual(x, [2, 4])
        with self.session() as c:
            self.assertIsNot(a, c)
        with self.test_session(graph=tf.Graph()) as d:
            self.assertIsNot(a, d)

    def test_what_is_fed_or_not_asked_for_needs_no_run(self):
        with self.session() as sess:
            x = tf.placeholder(tf.float32, [2])
            self.assertAllEqual(sess.run(x, {x: [1, 2]}), [1, 2])
            self.assertEqual(sess.run([]), [])
            self.assertEqual(sess.run({}), {})
            self.assertAllEqual(sess.make_callable([x, x + 1], [x])([1, 2]), [[1, 2], [2, 3]])

    def test_wrong_use_of_sessions(self):
        with tf.Session(graph=tf.Graph()) as sess, self.assertRaisesRegex(RuntimeError, "graph is empty"):
            sess.run([])
        with self.assertRaisesRegex(TypeError, "config must be a tf.ConfigProto"):
            tf.Session(config=37)
        with self.session() as sess:
            text = tf.placeholder(tf.string)
            with self.assertRaisesRegex(TypeError, "Type of feed value 1"):
                sess.run(text, {text: 1})

    def test_classes_of_programs_in_feeds_and_fetches(self):
        from tensorflow.python.client import session

        class Squared:
            def __init__(self, x):
                self.x, self.y = x, tf.square(x)

        session.register_session_run_conversion_functions(
            Squared, lambda s: ([s.y], lambda values: values[0]), lambda s, value: [(s.x, value)])
        with self.session() as sess:
            s = Squared(tf.placeholder(tf.float32, []))
            self.assertEqual(sess.run(s, {s: 3.0}), 9.0)
            self.assertEqual(sess.run([s], {s.x: 4.0}), [16.0])
        with self.assertRaisesRegex(ValueError, "already been registered"):
            session.register_session_run_conversion_functions(Squared, None)

    def test_a_folder_of_its_own(self):
        self.assertTrue(os.path.isdir(self.get_temp_dir()))
        self.assertTrue(self.get_temp_dir().startswith(tf.test.get_temp_dir()))

    def test_devices(self):
        self.assertFalse(tf.test.is_built_with_cuda())
        self.assertEqual(tf.test.is_gpu_available(), bool(tf.test.gpu_device_name()))


class Util(unittest.TestCase):
    """tensorflow.python.framework.test_util"""

    def test_decorators_run_graphs_and_skip_the_rest(self):
        from millrace.test import util

        class Case(util.TensorFlowTestCase):
            @util.run_in_graph_and_eager_modes
            def test_graph(self):
                self.assertEqual(tf.get_default_session().run(tf.constant(1)), 1)

            @util.run_deprecated_v1
            def test_v1(self):
                pass

            @util.run_v2_only
            def test_v2(self):
                self.fail("this needs version 2")

        result = unittest.TestResult()
        unittest.defaultTestLoader.loadTestsFromTestCase(Case).run(result)
        self.assertEqual(([], []), (result.failures, result.errors))
        self.assertEqual(["test_session", "test_v2"], sorted(t._testMethodName for t, _ in result.skipped))

    def test_layouts_and_operations(self):
        from millrace.test import util
        with tf.Graph().as_default() as graph:
            self.assertEqual(util.NHWCToNCHW([1, 2, 3, 4]), [1, 4, 2, 3])
            self.assertEqual(util.NCHWToNHWC(tf.zeros([1, 4, 2, 3])).shape, [1, 2, 3, 4])
            tf.constant(1, name="a")
            self.assertEqual(util.assert_ops_in_graph({"a": "Const"}, graph)["a"].op, "Const")
            self.assertRaises(ValueError, util.assert_ops_in_graph, {"b": "Const"}, graph)


class Gradients(tf.test.TestCase):
    def test_right_and_wrong_gradients(self):
        with self.test_session():
            x = tf.placeholder(tf.float32, [2, 2])
            y = tf.matmul(x, x)
            analytic, numeric = tf.test.compute_gradient(x, [2, 2], y, [2, 2], x_init_value=np.array([[1., 2.], [3., 4.]]))
            self.assertAllClose(analytic, numeric, rtol=1e-2, atol=1e-2)
            self.assertAllClose(analytic[0], [2., 2., 3., 0.])
            self.assertLess(tf.test.compute_gradient_error(x, [2, 2], y, [2, 2]), 1e-2)
            given = [np.array([[1., 2.], [3., 4.]])]
            self.assertLess(tf.test.compute_gradient_error([x], [[2, 2]], y, [2, 2], x_init_value=given), 1e-2)
            wrong = tf.stop_gradient(y) + x
            self.assertGreater(tf.test.compute_gradient_error(x, [2, 2], wrong, [2, 2], np.ones([2, 2])), 0.5)


class Main(unittest.TestCase):
    def test_it_runs_the_tests_of_a_script(self):
        code = ("import millrace as tf\nclass T(tf.test.TestCase):\n  def test_a(self):\n    self.assertAllEqual([1], [%d])\n"
                "tf.test.main()")
        for value, exit_code in ((1, 0), (2, 1)):
            r = subprocess.run([sys.executable, "-c", code % value], capture_output=True, text=True, timeout=60)
            self.assertEqual(r.returncode, exit_code, r.stderr)
            self.assertIn("Ran 2 tests", r.stderr)  # one of them is test_session, which is skipped


class Graphs(tf.test.TestCase):
    def made(self):
        with tf.Graph().as_default() as g:
            tf.train.Saver([tf.Variable(1.0, name="v")], sharded=True)
            return g.as_graph_def()

    def test_names_that_are_drawn_by_lot(self):
        first, second = self.made(), self.made()
        with self.assertRaises(AssertionError):
            tf.test.assert_equal_graph_def(first, second)
        tf.test.assert_equal_graph_def(first, second, checkpoint_v2=True)
        second.node[0].op = "Other"
        with self.assertRaises(AssertionError):
            tf.test.assert_equal_graph_def(first, second, checkpoint_v2=True)


if __name__ == "__main__":
    unittest.main()
