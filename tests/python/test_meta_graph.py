"""MetaGraphDefs: what is written can be read, with collections, loops and scopes."""

import os
import tempfile
import unittest

import millrace as tf
from millrace.framework import meta_graph


class MetaGraphTest(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()

    def build(self):
        v = tf.get_variable("v", initializer=3.0)
        r = tf.get_variable("r", initializer=2.0, use_resource=True, trainable=False)
        _, y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.cond(i > 0, lambda: y * v, lambda: y * r)), [0, 1.0])
        tf.add_to_collection("result", y)
        tf.add_to_collection("numbers", 7)
        tf.add_to_collection("texts", "hello")
        tf.add_to_collection("strange", object())
        return y

    def check(self, scope=""):
        y, = tf.get_collection("result")
        v, r = tf.global_variables()
        self.assertEqual((v.name, r.name), (scope + "v:0", scope + "r:0"))
        self.assertIs(tf.trainable_variables()[0], v)
        self.assertEqual(tf.get_collection("numbers"), [7])
        self.assertEqual(tf.get_collection("texts"), [b"hello"])
        with tf.Session() as s:
            s.run(tf.global_variables_initializer())
            self.assertEqual(s.run([y] + tf.gradients(y, [v, r])), [18, 12, 9])

    def test_round_trip(self):
        self.build()
        m = meta_graph.export_meta_graph()
        self.assertEqual(m.meta_info_def.tensorflow_version, "1.15.0")
        self.assertIn("VariableV2", [d.name for d in m.meta_info_def.stripped_op_list.op])
        self.assertNotIn("strange", m.collection_def)
        with tf.Graph().as_default():
            meta_graph.import_scoped_meta_graph(m)
            again = meta_graph.export_meta_graph()
            self.check()
            for key in ("cond_context", "while_context", "variables", "result"):
                self.assertEqual(key in again.collection_def, key in m.collection_def)
            self.assertEqual(len(again.graph_def.node), len(m.graph_def.node))
            d = tf.protos.WhileContextDef.FromString(m.collection_def["while_context"].bytes_list.value[0])
            self.assertEqual((d.context_name, len(d.nested_contexts)), ("while/while_context", 2))
            self.assertEqual(again.collection_def["while_context"], m.collection_def["while_context"])

    def test_files(self):
        self.build()
        with tempfile.TemporaryDirectory() as folder:
            for as_text in (False, True):
                path = os.path.join(folder, "graph%d.meta" % as_text)
                meta_graph.export_meta_graph(path, as_text=as_text)
                with tf.Graph().as_default():
                    meta_graph.import_scoped_meta_graph(path)
                    self.check()
        with self.assertRaises(IOError):
            meta_graph.read_meta_graph_file("/nowhere/at/all.meta")

    def test_import_scope(self):
        self.build()
        m = meta_graph.export_meta_graph()
        with tf.Graph().as_default():
            found = meta_graph.import_scoped_meta_graph(m, import_scope="model")
            self.assertEqual(sorted(found), ["r:0", "v:0"])
            self.check("model/")

    def test_export_scope(self):
        with tf.name_scope("a"):
            x = tf.constant(2.0, name="x")
        with tf.variable_scope("b"):
            v = tf.get_variable("v", initializer=4.0)
            tf.multiply(v, x, name="y")
        m, variables = meta_graph.export_scoped_meta_graph(export_scope="b")
        self.assertEqual(variables, {"v:0": v})
        with tf.Graph().as_default() as g, tf.Session() as s:
            with self.assertRaisesRegex(ValueError, "unbound"):
                meta_graph.import_scoped_meta_graph(m, import_scope="c")
            meta_graph.import_scoped_meta_graph(m, import_scope="d", input_map={"a/x": tf.constant(5.0)})
            s.run(tf.global_variables_initializer())
            self.assertEqual(s.run("d/y:0"), 20)

    def test_clear_devices_and_defaults(self):
        with tf.device("/job:ps/task:3"):
            tf.matmul([[1.0]], [[1.0]], name="m")
        plain = meta_graph.export_meta_graph()
        m = meta_graph.export_meta_graph(clear_devices=True, strip_default_attrs=True)
        before = [n for n in plain.graph_def.node if n.name == "m"][0]
        after = [n for n in m.graph_def.node if n.name == "m"][0]
        self.assertEqual((before.device, after.device), ("/job:ps/task:3", ""))
        self.assertIn("transpose_a", before.attr)
        self.assertNotIn("transpose_a", after.attr)
        self.assertTrue(m.meta_info_def.stripped_default_attrs)


if __name__ == "__main__":
    unittest.main()
