"""Frozen graphs and a look into checkpoints."""
import contextlib
import io
import os
import shutil
import tempfile
import unittest

import millrace as tf
from millrace.tools import freeze_graph, inspect_checkpoint, optimize_for_inference_lib


class Tools(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="millrace-py-")
        self.addCleanup(shutil.rmtree, self.dir, True)
        with tf.Graph().as_default() as g, tf.Session() as sess:
            x = tf.placeholder(tf.float32, [None, 2], name="x")
            v = tf.Variable([[2.0], [3.0]], name="v")
            r = tf.get_variable("r", initializer=tf.constant(1.0), use_resource=True)
            tf.add(tf.identity(tf.matmul(x, v), name="between"), r, name="y")
            tf.square(x, name="unused")
            saver = tf.train.Saver()
            sess.run(tf.global_variables_initializer())
            sess.run([v.assign([[4.0], [5.0]]), r.assign(0.5)])
            self.checkpoint = saver.save(sess, os.path.join(self.dir, "model.ckpt"))
            self.graph_def, self.saver_def = g.as_graph_def(), saver.as_saver_def()
            tf.saved_model.simple_save(sess, os.path.join(self.dir, "saved"), {"x": x}, {"y": g.get_tensor_by_name("y:0")})
        self.pbtxt = os.path.join(self.dir, "graph.pbtxt")
        with open(self.pbtxt, "w") as f:
            f.write(str(self.graph_def))

    def value(self, graph_def):
        with tf.Graph().as_default(), tf.Session() as sess:
            y, x = tf.import_graph_def(graph_def, return_elements=["y:0", "x:0"], name="")
            return sess.run(y, {x: [[1, 1]]}).tolist()

    def test_freezing_files(self):
        out = os.path.join(self.dir, "frozen.pb")
        freeze_graph.freeze_graph(self.pbtxt, "", False, self.checkpoint, "y", "save/restore_all", "save/Const:0", out, True,
                                  "")
        with open(out, "rb") as f:
            frozen = tf.GraphDef.FromString(f.read())
        self.assertEqual(self.value(frozen), [[9.5]])
        self.assertFalse([n.name for n in frozen.node if n.op in ("VariableV2", "VarHandleOp") or n.name == "unused"])

    def test_freezing_by_a_saver(self):
        path = os.path.join(self.dir, "saver.pbtxt")
        with open(path, "w") as f:
            f.write(str(self.saver_def))
        frozen = freeze_graph.freeze_graph(self.pbtxt, path, False, self.checkpoint, "y", None, None, "", True, "")
        self.assertEqual(self.value(frozen), [[9.5]])
        self.saver_def.restore_op_name = "save/nothing"
        with self.assertRaises((KeyError, ValueError)):
            freeze_graph.freeze_graph_with_def_protos(self.graph_def, self.saver_def, self.checkpoint, "y")

    def test_freezing_a_saved_model(self):
        saved = os.path.join(self.dir, "saved")
        for frozen in (freeze_graph.freeze_graph("", "", True, "", "y", None, None, "", True, "", input_saved_model_dir=saved),
                       freeze_graph.freeze_graph_with_def_protos(None, None, None, "y", input_saved_model_dir=saved,
                                                                 saved_model_tags=["serve"])):
            self.assertEqual(self.value(frozen), [[9.5]])

    def test_what_is_missing_is_named(self):
        with self.assertRaisesRegex(FileNotFoundError, "nothing.pb"):
            freeze_graph.freeze_graph("nothing.pb", "", True, self.checkpoint, "y", "", "", "", True, "")
        with self.assertRaisesRegex(ValueError, "output_node_names"):
            freeze_graph.freeze_graph(self.pbtxt, "", False, self.checkpoint, "", "", "", "", True, "")

    def test_for_inference(self):
        frozen = freeze_graph.freeze_graph_with_def_protos(self.graph_def, None, self.checkpoint, "y")
        small = optimize_for_inference_lib.optimize_for_inference(frozen, ["x"], ["y"], tf.float32.as_datatype_enum)
        self.assertEqual(self.value(small), [[9.5]])
        self.assertNotIn("between", [n.name for n in small.node])
        self.assertLess(len(small.node), len(frozen.node))

    def test_looking_into_a_checkpoint(self):
        def show(*args):
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                inspect_checkpoint.print_tensors_in_checkpoint_file(*args)
            return out.getvalue()
        self.assertIn("tensor_name:  v\n[[4.]\n [5.]]", show(self.checkpoint, "", True))
        self.assertIn("tensor_name:  r\n0.5", show(self.checkpoint, "r", False))
        self.assertIn("# Total number of params: 3", show(self.checkpoint, "", False))


if __name__ == "__main__":
    unittest.main()
