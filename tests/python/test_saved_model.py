"""tf.saved_model."""
import os
import shutil
import subprocess
import tempfile
import unittest

import millrace as tf
from millrace import protos, saved_model as sm


class Models(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()
        self.dir = tempfile.mkdtemp(prefix="millrace-py-")
        self.addCleanup(shutil.rmtree, self.dir, True)
        self.model = os.path.join(self.dir, "model")

    def build(self, **args):
        """y = v x + 1, written with v = 3."""
        with tf.Graph().as_default(), tf.Session() as sess:
            x = tf.placeholder(tf.float32, [None], name="x")
            v = tf.Variable(1.0, name="v")
            y = tf.add(v * x, 1.0, name="y")
            sess.run(v.initializer)
            sess.run(v.assign(3.0))
            builder = tf.saved_model.builder.SavedModelBuilder(self.model)
            signature = sm.predict_signature_def({"in": x}, {"out": y})
            builder.add_meta_graph_and_variables(sess, [sm.tag_constants.SERVING], {"serving_default": signature}, **args)
            builder.add_meta_graph(["train", "gpu"])
            return builder

    def test_writing_and_reading(self):
        path = self.build().save()
        self.assertEqual(path, os.path.join(self.model, "saved_model.pb").encode())
        self.assertTrue(sm.maybe_saved_model_directory(self.model))
        with tf.Graph().as_default() as g, tf.Session() as sess:
            meta = tf.saved_model.loader.load(sess, ["serve"], self.model)
            signature = meta.signature_def["serving_default"]
            self.assertEqual(signature.method_name, "tensorflow/serving/predict")
            x = sm.get_tensor_from_tensor_info(signature.inputs["in"])
            y = signature.outputs["out"].name
            self.assertEqual(sess.run(y, {x: [1, 2]}).tolist(), [4, 7])
            self.assertEqual([v.name for v in g.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)], ["v:0"])

    def test_a_damaged_file(self):
        """Every error is one of reading a file or of a graph, wherever the message is wrong."""
        path = self.build().save()
        with open(path, "rb") as f:
            whole = f.read()
        for at in range(0, len(whole), len(whole) // 40):
            with open(path, "wb") as f:
                f.write(whole[:at] + bytes([whole[at] ^ 0xff]) + whole[at + 1:])
            with tf.Graph().as_default(), tf.Session() as sess:
                try:
                    tf.saved_model.loader.load(sess, ["serve"], self.model)
                except (IOError, ValueError, KeyError, RuntimeError, TypeError, tf.errors.OpError):
                    pass  # which of them depends on the byte; some bytes do no harm

    def test_a_scope_and_other_tags(self):
        self.build().save()
        with tf.Graph().as_default(), tf.Session() as sess:
            meta = sm.load(sess, ["gpu", "train"], self.model, import_scope="loaded")
            self.assertEqual(sess.run("loaded/y:0", {"loaded/x:0": [2]}).tolist(), [7])
            self.assertEqual(sorted(meta.meta_info_def.tags), ["gpu", "train"])
            with self.assertRaisesRegex(RuntimeError, "'nothing' could not be found.*serve"):
                sm.load(sess, ["nothing"], self.model)

    def test_text(self):
        self.build().save(as_text=True)
        self.assertTrue(os.path.exists(os.path.join(self.model, "saved_model.pbtxt")))
        with tf.Graph().as_default(), tf.Session() as sess:
            sm.load(sess, [sm.SERVING], self.model)
            self.assertEqual(sess.run("y:0", {"x:0": [0]}).tolist(), [1])

    def test_assets_and_main_op(self):
        file = os.path.join(self.dir, "words.txt")
        with open(file, "w") as f:
            f.write("hello")
        with tf.Graph().as_default(), tf.Session() as sess:
            path = tf.constant(file, name="path")
            tf.add_to_collection(tf.GraphKeys.ASSET_FILEPATHS, path)
            text = tf.Variable("", name="text", collections=[tf.GraphKeys.LOCAL_VARIABLES])
            main = tf.group(text.assign(tf.raw_ops.read_file(path)))
            builder = sm.builder.SavedModelBuilder(self.model)
            builder.add_meta_graph_and_variables(sess, ["serve"],
                                                 assets_collection=tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS),
                                                 main_op=main)
            with self.assertRaisesRegex(ValueError, "already contains"):
                builder.add_meta_graph(["other"], main_op=main)
            builder.save()
        os.remove(file)
        with tf.Graph().as_default(), tf.Session() as sess:
            meta = sm.load(sess, ["serve"], self.model)
            self.assertEqual(sess.run("text:0"), b"hello")
            packed = meta.collection_def["saved_model_assets"].any_list.value[0]
            self.assertEqual(protos.AssetFileDef.FromString(packed.value).filename, "words.txt")

    def test_order_and_arguments(self):
        builder = self.build()
        with self.assertRaisesRegex(AssertionError, "isn't empty"):
            sm.builder.SavedModelBuilder(self.model)
        with tf.Session() as sess, self.assertRaisesRegex(AssertionError, "already been saved"):
            builder.add_meta_graph_and_variables(sess, ["a"])
        other = sm.builder.SavedModelBuilder(os.path.join(self.dir, "other"))
        with self.assertRaisesRegex(AssertionError, "not been saved"):
            other.add_meta_graph(["a"])
        bad = sm.build_signature_def(inputs={"x": tf.TensorInfo(dtype=1)})
        with tf.Session() as sess, self.assertRaisesRegex(AssertionError, "encoding"):
            other.add_meta_graph_and_variables(sess, ["a"], {"s": bad})
        with self.assertRaisesRegex(IOError, "does not exist"):
            sm.loader.load(None, ["serve"], os.path.join(self.dir, "nothing"))

    def test_in_one_call(self):
        with tf.Graph().as_default(), tf.Session() as sess:
            x = tf.placeholder(tf.float32, [2])
            v = tf.get_variable("v", initializer=[2.0, 3.0], use_resource=True)
            sess.run(tf.global_variables_initializer())
            tf.saved_model.simple_save(sess, self.model, {"x": x}, {"y": x * v})
        with tf.Graph().as_default(), tf.Session() as sess:
            s = sm.load(sess, ["serve"], self.model).signature_def["serving_default"]
            self.assertEqual(sess.run(s.outputs["y"].name, {s.inputs["x"].name: [1, 1]}).tolist(), [2, 3])

    @unittest.skipUnless("MILLRACE_BUILD" in os.environ, "needs the build's folder in MILLRACE_BUILD")
    def test_the_command_reads_it(self):
        self.build().save()
        r = subprocess.run([os.path.join(os.environ["MILLRACE_BUILD"], "bin", "millrace"), "inspect", self.model],
                           capture_output=True, text=True, timeout=60)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("serving_default", r.stdout)


class Signatures(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()

    def test_kinds(self):
        text, real = tf.placeholder(tf.string, [None]), tf.placeholder(tf.float32, [None, 3])
        s = sm.classification_signature_def(text, None, real)
        self.assertEqual((s.method_name, list(s.inputs), list(s.outputs)),
                         ("tensorflow/serving/classify", ["inputs"], ["scores"]))
        self.assertTrue(sm.is_valid_signature(s))
        s = sm.regression_signature_def(text, real)
        self.assertTrue(sm.is_valid_signature(s))
        self.assertFalse(sm.is_valid_signature(sm.build_signature_def({}, {}, "tensorflow/serving/predict")))
        for f, args in ((sm.regression_signature_def, (real, real)), (sm.classification_signature_def, (text, real, None)),
                        (sm.predict_signature_def, ({}, {"a": real}))):
            with self.assertRaises(ValueError):
                f(*args)

    def test_tensors(self):
        info = sm.utils.build_tensor_info(tf.placeholder(tf.int64, [None, 3], name="p"))
        self.assertEqual((info.name, info.dtype, [d.size for d in info.tensor_shape.dim]), ("p:0", 9, [-1, 3]))
        sparse = tf.SparseTensor([[0, 1]], [1.0], [2, 2])
        back = sm.get_tensor_from_tensor_info(sm.build_tensor_info(sparse))
        self.assertIs(back.values, sparse.values)


if __name__ == "__main__":
    unittest.main()
