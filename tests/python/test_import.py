"""Graphs as messages: importing, cutting, freezing."""

import gc
import os
import subprocess
import tempfile
import unittest

import numpy as np

import millrace as tf
from millrace.framework.function import Defun

MILLRACE = os.path.join(os.environ.get("MILLRACE_BUILD", "build/gcc"), "bin", "millrace")


class Case(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()


def line():
    """GraphDef of y = x * 2 + 1."""
    with tf.Graph().as_default() as g:
        x = tf.placeholder(tf.float32, [None], name="x")
        tf.add(tf.multiply(x, 2.0, name="twice"), 1.0, name="y")
        return g.as_graph_def()


def mapped_bytes(path):
    """How much of the file is mapped into this process."""
    found = [line.split()[0].split("-") for line in open("/proc/self/maps") if line.rstrip().endswith(path)]
    return sum(int(end, 16) - int(start, 16) for start, end in found)


class ImportFile(Case):
    """tf.graph_util.import_graph_file."""

    def write(self, graph_def, *options):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "graph.pb")
        with open(path, "wb") as f:
            f.write(graph_def.SerializeToString())
        if options:
            subprocess.run([MILLRACE, "convert", *options, path, path], check=True, stdout=subprocess.DEVNULL)
        return path

    def test_names_elements_and_maps(self):
        x = tf.placeholder(tf.float32, [None])
        y, = tf.graph_util.import_graph_file(self.write(line()), {"x": x}, ["y:0"], name="a")
        self.assertEqual(y.name, "a/y:0")
        with tf.Session() as s:
            self.assertEqual(list(s.run(y, {x: [1, 2]})), [3, 5])
        dx, = tf.gradients(y, x)
        with tf.Session() as s:
            self.assertEqual(list(s.run(dx, {x: [1, 2]})), [2, 2])

    def test_functions_come_with_it(self):
        with tf.Graph().as_default() as g:
            @Defun(tf.float32)
            def twice(v):
                return v * 2
            tf.identity(twice(tf.constant(4.0)), name="y")
            path = self.write(g.as_graph_def())
        y, = tf.graph_util.import_graph_file(path, return_elements=["y:0"])
        with tf.Session() as s:
            self.assertEqual(s.run(y), 8)
        self.assertEqual(len(tf.get_default_graph().as_graph_def().library.function), 1)

    def test_large_constants_stay_in_the_file(self):
        values = np.arange(4 << 20, dtype=np.float32)  # 16 MiB
        with tf.Graph().as_default() as g:
            tf.reduce_sum(tf.constant(values, name="w"), name="y")
            path = self.write(g.as_graph_def(), "--align")
        del g
        before = mapped_bytes(path)
        w, y = tf.graph_util.import_graph_file(path, return_elements=["w:0", "y:0"])
        self.assertGreater(mapped_bytes(path), before)
        with tf.Session() as s:
            got = s.run(w)
            self.assertTrue((got == values).all())
            if got.flags.writeable:  # the caller's own
                got[:] = 0
            self.assertAlmostEqual(s.run(y) / values.sum(dtype=np.float64), 1, places=5)
        del s, w, y
        tf.reset_default_graph()
        gc.collect()
        self.assertEqual(mapped_bytes(path), 0)

    def test_unaligned_ones_are_copied(self):
        values = np.arange(2000, dtype=np.float32)
        for n in range(1, 70, 7):  # lengths of names move the values to other places
            with tf.Graph().as_default() as g:
                tf.constant(values, name="w" * n)
                path = self.write(g.as_graph_def())
            with tf.Graph().as_default():
                w, = tf.graph_util.import_graph_file(path, return_elements=["w" * n + ":0"], name="")
                with tf.Session() as s:
                    self.assertTrue((s.run(w) == values).all())

    def test_errors(self):
        with self.assertRaisesRegex(OSError, "nowhere"):
            tf.graph_util.import_graph_file("nowhere")
        good = self.write(line())
        data = open(good, "rb").read()
        for n in (1, len(data) // 2, len(data) - 1):
            with open(good, "wb") as f:
                f.write(data[:n])
            with self.assertRaises(ValueError):
                tf.graph_util.import_graph_file(good)
        for bad in (b"\xff" * 30, b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"):
            with open(good, "wb") as f:
                f.write(bad)
            with self.assertRaises(ValueError):
                tf.graph_util.import_graph_file(good)
        with open(good, "wb"):
            pass
        self.assertIsNone(tf.graph_util.import_graph_file(good))  # as an empty GraphDef
        with self.assertRaises(ValueError):
            tf.graph_util.import_graph_file(self.write(line()), return_elements=["z:0"])


class ImportTest(Case):
    def test_operations_were_made_where_they_were_imported(self):
        here = lambda op: [frame for frame in op.traceback if frame[2] == "test_operations_were_made_where_they_were_imported"]
        tf.import_graph_def(line(), name="")
        g = tf.get_default_graph()
        x = g.get_tensor_by_name("x:0")
        dx, = tf.gradients(g.get_tensor_by_name("y:0"), x)
        after = tf.constant(1.0)
        self.assertIn("import_graph_def", here(x.op)[0][3])
        self.assertIn("tf.gradients", here(dx.op)[0][3])
        self.assertIn("tf.constant", here(after.op)[0][3])

    def test_names_of_imported_operations_are_not_used_again(self):
        tf.import_graph_def(line(), name="")
        self.assertEqual([tf.constant(1.0, name=n).op.name for n in ("y", "TWICE", "twice/y")], ["y_1", "TWICE_1", "twice/y_1"])
        self.assertEqual(tf.get_default_graph().version, 8)

    def test_names_and_elements(self):
        x, y = tf.import_graph_def(line(), return_elements=["x:0", "y"])
        self.assertEqual((x.name, y.name), ("import/x:0", "import/y"))
        again, = tf.import_graph_def(line(), return_elements=["y:0"])
        self.assertEqual(again.name, "import_1/y:0")
        plain, = tf.import_graph_def(line(), return_elements=["y:0"], name="")
        self.assertEqual(plain.name, "y:0")
        with tf.name_scope("model"):
            named, = tf.import_graph_def(line(), return_elements=["y:0"], name="net")
        self.assertEqual(named.name, "model/net/y:0")
        with tf.Session() as s:
            np.testing.assert_array_equal(s.run(y.outputs[0], {x: [1, 2]}), [3, 5])

    def test_names_are_taken(self):
        tf.import_graph_def(line(), name="")
        self.assertEqual(tf.constant(1, name="y").op.name, "y_1")
        y, = tf.import_graph_def(line(), name="", return_elements=["y"])
        self.assertNotEqual(y.name, "y")

    def test_input_map_and_gradient(self):
        mine = tf.constant([5.0])
        y, = tf.import_graph_def(line(), input_map={"x": mine}, return_elements=["y:0"])
        z, = tf.import_graph_def(line(), input_map={"x:0": [7.0]}, return_elements=["y:0"])
        with tf.Session() as s:
            got = s.run([y, z] + tf.gradients(y, mine))
        self.assertEqual([v.tolist() for v in got], [[11], [15], [2]])

    def test_devices(self):
        with tf.device("/cpu:0"):
            y, = tf.import_graph_def(line(), return_elements=["y"])
        self.assertEqual(y.device, "/device:CPU:0")

    def test_loops_differentiate(self):
        with tf.Graph().as_default() as g:
            x = tf.constant(3.0, name="x")
            tf.identity(tf.while_loop(lambda i, v: i < 4, lambda i, v: (i + 1, v * x), [0, 1.0])[1], name="y")
        x, y = tf.import_graph_def(g.as_graph_def(), return_elements=["x:0", "y:0"])
        with tf.Session() as s:
            self.assertEqual(s.run([y] + tf.gradients(y, x)), [81, 108])

    def test_within_a_branch_and_a_loop(self):
        p = tf.placeholder(tf.bool, [])
        mine = tf.constant([5.0])
        y = tf.cond(p, lambda: tf.import_graph_def(line(), input_map={"x": mine}, return_elements=["y:0"])[0], lambda: mine)
        _, z = tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, tf.import_graph_def(
            line(), input_map={"x": v}, return_elements=["y:0"])[0]), [0, mine])
        with tf.Session() as s:
            self.assertEqual(s.run([y] + tf.gradients(y, mine), {p: True}), [[11], [2]])
            self.assertEqual(s.run([y] + tf.gradients(y, mine), {p: False}), [[5], [1]])
            self.assertEqual(s.run([z] + tf.gradients(z, mine)), [[47], [8]])

    def test_functions(self):
        from millrace.framework.function import Defun
        with tf.Graph().as_default() as g:
            @Defun(tf.float32)
            def f(a):
                return a * a
            tf.identity(f(3.0), name="y")
        y, = tf.import_graph_def(g.as_graph_def(), return_elements=["y:0"])
        with tf.Session() as s:
            self.assertEqual(s.run(y), 9)

    def test_errors(self):
        with self.assertRaisesRegex(TypeError, "GraphDef"):
            tf.import_graph_def(3)
        with self.assertRaisesRegex(TypeError, "return_elements"):
            tf.import_graph_def(line(), return_elements="y")
        with self.assertRaises(ValueError):
            tf.import_graph_def(line(), return_elements=["nothing"])
        with self.assertRaisesRegex(ValueError, "nowhere"):
            tf.import_graph_def(line(), input_map={"nowhere": tf.constant(1.0)})
        bad = tf.GraphDef()
        bad.node.add(name="a", op="NoSuchOp")
        with self.assertRaises(ValueError):
            tf.import_graph_def(bad)


class FreezeTest(Case):
    def freeze(self, use_resource):
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        w = tf.get_variable("w", initializer=[[1.0], [2.0]], use_resource=use_resource)
        table = tf.get_variable("table", initializer=[10.0, 20.0], use_resource=use_resource)
        p = tf.placeholder(tf.bool, [], name="p")
        y = tf.matmul(x, w) + tf.gather(table, [1])
        y = tf.cond(p, lambda: y + tf.reduce_sum(w), lambda: y)
        tf.identity(y, name="y")
        with tf.Session() as s:
            s.run(tf.global_variables_initializer())
            return tf.graph_util.convert_variables_to_constants(s, s.graph.as_graph_def(), ["y"])

    def test_freeze(self):
        for use_resource in (False, True):
            tf.reset_default_graph()
            frozen = self.freeze(use_resource)
            self.assertFalse({n.op for n in frozen.node} & {"VariableV2", "VarHandleOp", "ReadVariableOp", "Assign"})
            with tf.Graph().as_default(), tf.Session() as s:
                x, p, y = tf.import_graph_def(frozen, return_elements=["x:0", "p:0", "y:0"])
                np.testing.assert_array_equal(s.run(y, {x: [[1, 1]], p: True}), [[26]])
                np.testing.assert_array_equal(s.run(y, {x: [[1, 1]], p: False}), [[23]])
                cut = tf.graph_util.remove_training_nodes(frozen, ["y"])
                self.assertLess(len(cut.node), len(frozen.node))
                x, p, y = tf.import_graph_def(cut, return_elements=["x:0", "p:0", "y:0"])
                np.testing.assert_array_equal(s.run(y, {x: [[1, 1]], p: True}), [[26]])

    def test_extract(self):
        part = tf.graph_util.extract_sub_graph(line(), ["twice"])
        self.assertEqual([n.name for n in part.node], ["x", "twice/y", "twice"])
        with self.assertRaises(AssertionError):
            tf.graph_util.extract_sub_graph(line(), ["nothing"])
        with self.assertRaises(TypeError):
            tf.graph_util.extract_sub_graph(line(), "y")


if __name__ == "__main__":
    unittest.main()
