"""tf.profiler, and decorators of functions that are going."""
import contextlib
import io
import json
import os
import tempfile
import unittest

import millrace as tf


class Profiles(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()
        self.x = tf.placeholder(tf.float32, [4, 8])
        with tf.name_scope("layer"):
            w = tf.Variable(tf.zeros([8, 3]), name="w")
            self.y = tf.matmul(self.x, w)
        tf.Variable(tf.zeros([5]), trainable=False)

    def profile(self, options, **args):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            return tf.profiler.profile(tf.get_default_graph(), options=options, **args), out.getvalue()

    def run_step(self):
        metadata = tf.RunMetadata()
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            sess.run(self.y, {self.x: [[1] * 8] * 4}, tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), metadata)
        return metadata

    def test_parameters(self):
        found, text = self.profile(tf.profiler.ProfileOptionBuilder.trainable_variables_parameter())
        self.assertEqual(found.total_parameters, 24)
        self.assertIn("layer/w ((8, 3)) (24/24 params)", text)
        options = tf.profiler.ProfileOptionBuilder().with_accounted_types(["_variables"]).select(["params"]).build()
        self.assertEqual(self.profile(options)[0].total_parameters, 29)

    def test_arithmetic(self):
        found, text = self.profile(tf.profiler.ProfileOptionBuilder.float_operation())
        self.assertEqual(found.total_float_ops, 2 * 4 * 3 * 8)
        self.assertEqual([c.name for c in found.children], ["layer"])

    def test_times(self):
        profiler = tf.profiler.Profiler(tf.get_default_graph())
        profiler.add_step(3, self.run_step())
        b = tf.profiler.ProfileOptionBuilder
        options = b(b.time_and_memory()).with_empty_output().build()
        self.assertGreater(profiler.profile_name_scope(options).total_exec_micros, 0)
        self.assertIn("MatMul", [n.name for n in profiler.profile_operations(options).children])
        self.assertTrue(any(__file__ in n.name for n in profiler.profile_python(options).children))
        with self.assertRaisesRegex(ValueError, "Step 4"):
            profiler.profile_graph(tf.profiler.ProfileOptionBuilder(options).with_step(4).build())
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertIn("MatMul", profiler.advise())

    def test_files(self):
        with tempfile.TemporaryDirectory() as d:
            b = tf.profiler.ProfileOptionBuilder(tf.profiler.ProfileOptionBuilder.time_and_memory())
            self.profile(b.with_timeline_output(os.path.join(d, "t.json")).build(), run_meta=self.run_step())
            with open(os.path.join(d, "t.json")) as f:
                self.assertTrue(json.load(f)["traceEvents"])
            self.profile(b.with_file_output(os.path.join(d, "t.txt")).build(), run_meta=self.run_step())
            self.assertTrue(os.path.getsize(os.path.join(d, "t.txt")))

    def test_an_unknown_view(self):
        with self.assertRaises(tf.errors.InvalidArgumentError):
            tf.profiler.profile(cmd="nothing")


class Deprecation(unittest.TestCase):
    def test_they_tell_once(self):
        from tensorflow.python.util import deprecation

        @deprecation.deprecated("2020-01-01", "Use g.")
        def f(a):
            return a + 1

        @deprecation.deprecated_args(None, "Use axis.", "dim")
        def g(axis=None, dim=None):
            return deprecation.deprecated_argument_lookup("axis", axis, "dim", dim)

        with self.assertLogs("tensorflow", "WARNING") as log:
            self.assertEqual((f(1), f(2), g(dim=3), g(axis=4)), (2, 3, 3, 4))
        self.assertEqual(len(log.output), 2)
        self.assertIn("after 2020-01-01", log.output[0])
        with self.assertRaisesRegex(ValueError, "both 'dim' and 'axis'"):
            g(1, 2)


if __name__ == "__main__":
    unittest.main()
