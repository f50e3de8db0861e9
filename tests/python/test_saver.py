"""Savers and checkpoints: what is written and read back, under which names, which are kept, and starting from checkpoints."""

import os
import shutil
import tempfile
import unittest

import numpy as np

import millrace as tf


class Base(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()
        self.dir = tempfile.mkdtemp(prefix="saver")
        self.addCleanup(shutil.rmtree, self.dir)

    def path(self, *parts):
        return os.path.join(self.dir, *parts)

    def saved(self, values, name="ckpt", **kwargs):
        """Writes a checkpoint of variables with these names and values."""
        with tf.Graph().as_default(), tf.Session() as sess:
            for key, value in values.items():
                tf.Variable(value, name=key)
            sess.run(tf.global_variables_initializer())
            return tf.train.Saver(**kwargs).save(sess, self.path(name))


class Saving(Base):
    def roundtrip(self, resource=False, **kwargs):
        a = tf.get_variable("a", initializer=np.arange(6.0).reshape(2, 3), use_resource=resource)
        b = tf.get_variable("s/b", initializer=tf.constant(["x", "yz"]), use_resource=resource)
        p = tf.get_variable("p", [4], initializer=tf.ones_initializer(), partitioner=tf.fixed_size_partitioner(2),
                            use_resource=resource)
        saver = tf.train.Saver(**kwargs)
        change = [a.assign(a * 0), b.assign(["", ""]), p.assign([[0, 0], [0, 0]])]
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            path = saver.save(sess, self.path("model"), global_step=7)
            self.assertEqual(path, self.path("model-7"))
            sess.run([x.op for x in change[:2]] + [x.op for x in change[2]])
            saver.restore(sess, path)
            self.assertEqual(sess.run(a).tolist(), [[0, 1, 2], [3, 4, 5]])
            self.assertEqual(sess.run(b).tolist(), [b"x", b"yz"])
            self.assertEqual(sess.run(tf.convert_to_tensor(p)).tolist(), [1, 1, 1, 1])
        return path

    def test_references(self):
        path = self.roundtrip()
        self.assertEqual(sorted(os.listdir(self.dir)),
                         ["checkpoint", "model-7.data-00000-of-00001", "model-7.index", "model-7.meta"])
        self.assertEqual(tf.train.list_variables(path), [("a", [2, 3]), ("p", [4]), ("s/b", [2])])
        self.assertEqual(tf.train.load_variable(self.dir, "p").tolist(), [1] * 4)

    def test_resources(self):
        self.roundtrip(resource=True)

    def test_sharded(self):
        self.roundtrip(sharded=True)
        self.assertIn("model-7.index", os.listdir(self.dir))

    def test_old_format(self):
        path = self.roundtrip(write_version=tf.train.SaverDef.V1)
        self.assertIn("model-7", os.listdir(self.dir))
        self.assertTrue(tf.train.checkpoint_exists(path))

    def test_old_format_in_shards(self):
        a = tf.Variable(1.0, name="a")
        saver = tf.train.Saver(sharded=True, write_version=tf.train.SaverDef.V1, max_to_keep=1)
        with tf.Session() as sess:
            sess.run(a.initializer)
            paths = [saver.save(sess, self.path("m"), global_step=i) for i in range(2)]
            self.assertEqual(paths[1], self.path("m-1-?????-of-00001"))
            sess.run(a.assign(0.0))
            saver.restore(sess, tf.train.latest_checkpoint(self.dir))
            self.assertEqual(sess.run(a), 1.0)
        self.assertEqual(sorted(os.listdir(self.dir)), ["checkpoint", "m-1-00000-of-00001", "m-1.meta"])

    def test_names_in_the_graph(self):
        tf.Variable(1.0, name="v")
        saver = tf.train.Saver()
        names = [op.name for op in tf.get_default_graph().get_operations() if op.name.startswith("save/")]
        for name in ("filename", "Const", "SaveV2", "SaveV2/tensor_names", "SaveV2/shape_and_slices", "control_dependency",
                     "RestoreV2", "RestoreV2/tensor_names", "Assign", "restore_all"):
            self.assertIn("save/" + name, names)
        d = saver.as_saver_def()
        self.assertEqual((d.filename_tensor_name, d.save_tensor_name, d.restore_op_name, d.max_to_keep),
                         ("save/Const:0", "save/control_dependency:0", "save/restore_all", 5))
        self.assertEqual(tf.train.Saver().as_saver_def().filename_tensor_name, "save_1/Const:0")

    def test_other_names(self):
        v = tf.Variable(5.0, name="v")
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            path = tf.train.Saver({"other": v}).save(sess, self.path("m"), write_meta_graph=False)
        self.assertEqual(tf.train.list_variables(path), [("other", [])])
        self.assertFalse(os.path.exists(path + ".meta"))

    def test_reshape(self):
        path = self.saved({"v": np.arange(6.0)})
        v = tf.Variable(np.zeros((2, 3)), name="v")
        with tf.Session() as sess:
            with self.assertRaisesRegex(tf.errors.InvalidArgumentError, "mismatch"):
                tf.train.Saver().restore(sess, path)
            tf.train.Saver(reshape=True).restore(sess, path)
            self.assertEqual(sess.run(v).tolist(), [[0, 1, 2], [3, 4, 5]])

    def test_keeps_the_last(self):
        tf.Variable(1.0)
        saver = tf.train.Saver(max_to_keep=2)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for i in range(4):
                saver.save(sess, self.path("m"), global_step=i)
        self.assertEqual(saver.last_checkpoints, [self.path("m-2"), self.path("m-3")])
        self.assertFalse(tf.train.checkpoint_exists(self.path("m-1")))
        self.assertFalse(os.path.exists(self.path("m-1.meta")))
        state = tf.train.get_checkpoint_state(self.dir)
        self.assertEqual(list(state.all_model_checkpoint_paths), saver.last_checkpoints)
        self.assertEqual(state.model_checkpoint_path, self.path("m-3"))
        self.assertEqual(tf.train.latest_checkpoint(self.dir), self.path("m-3"))
        other = tf.train.Saver(max_to_keep=2)
        other.recover_last_checkpoints(state.all_model_checkpoint_paths)
        self.assertEqual(other.last_checkpoints, saver.last_checkpoints)
        tf.train.remove_checkpoint(self.path("m-3"))
        self.assertFalse(tf.train.checkpoint_exists(self.path("m-3")))

    def test_keeps_one_in_some_hours(self):
        tf.Variable(1.0)
        saver = tf.train.Saver(max_to_keep=1, keep_checkpoint_every_n_hours=1e-9)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for i in range(3):
                saver.save(sess, self.path("m"), global_step=i)
        self.assertTrue(all(tf.train.checkpoint_exists(self.path("m-%d" % i)) for i in range(3)))

    def test_relative_paths(self):
        tf.Variable(1.0)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            tf.train.Saver(save_relative_paths=True).save(sess, self.path("m"))
        with open(self.path("checkpoint")) as f:
            self.assertEqual(f.read().splitlines()[0], 'model_checkpoint_path: "m"')
        self.assertEqual(tf.train.latest_checkpoint(self.dir), self.path("m"))

    def test_errors(self):
        self.assertRaisesRegex(ValueError, "No variables to save", tf.train.Saver)
        v = tf.Variable(1.0, name="v")
        self.assertRaises(TypeError, tf.train.Saver, {"c": tf.constant(1.0)})
        self.assertRaises(ValueError, tf.train.Saver, {"a": v, "b": v})
        saver = tf.train.Saver()
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            open(self.path("file"), "w").close()
            self.assertRaisesRegex(ValueError, "Parent directory", saver.save, sess, self.path("file", "m"))
            self.assertRaises(ValueError, saver.save, sess, self.path("m"), latest_filename="a/b")
            self.assertRaises(ValueError, saver.save, sess, self.path("checkpoint"))
            self.assertRaises(ValueError, saver.restore, sess, None)
            self.assertRaisesRegex(ValueError, "not a valid checkpoint", saver.restore, sess, self.path("m"))
            path = self.saved({"w": 1.0})
            with self.assertRaisesRegex(tf.errors.NotFoundError, "missing from the checkpoint"):
                saver.restore(sess, path)
        self.assertIsNone(tf.train.latest_checkpoint(self.path("none")))

    def test_meta_graph(self):
        v = tf.Variable([1.0, 2.0], name="v")
        tf.add_to_collection("out", tf.identity(v * 2, name="out"))
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            path = tf.train.Saver().save(sess, self.path("m"))
        tf.reset_default_graph()
        saver = tf.train.import_meta_graph(path + ".meta")
        with tf.Session() as sess:
            saver.restore(sess, path)
            self.assertEqual(sess.run(tf.get_collection("out")[0]).tolist(), [2.0, 4.0])
            self.assertEqual([x.name for x in tf.trainable_variables()], ["v:0"])

    def test_own_saveable(self):
        kept = tf.Variable(3.0, name="kept", collections=[])

        class Own(tf.train.BaseSaverBuilder.SaveableObject):
            def __init__(self):
                super().__init__(kept, [tf.train.BaseSaverBuilder.SaveSpec(kept.value() * 2, "", "own")], "own")

            def restore(self, tensors, shapes):
                return kept.assign(tensors[0] + 1)

        tf.add_to_collection(tf.GraphKeys.SAVEABLE_OBJECTS, Own())
        saver = tf.train.Saver()
        with tf.Session() as sess:
            sess.run(kept.initializer)
            saver.restore(sess, saver.save(sess, self.path("m")))
            self.assertEqual(sess.run(kept), 7.0)


class Reading(Base):
    def test_reader(self):
        path = self.saved({"a": np.float32([1, 2]), "b": 3})
        reader = tf.train.NewCheckpointReader(path)
        self.assertEqual(reader.get_variable_to_shape_map(), {"a": [2], "b": []})
        self.assertEqual(reader.get_variable_to_dtype_map(), {"a": tf.float32, "b": tf.int32})
        self.assertTrue(reader.has_tensor("a"))
        self.assertEqual(reader.get_tensor("a").tolist(), [1, 2])
        self.assertRaises(tf.errors.NotFoundError, reader.get_tensor, "c")
        self.assertRaises(tf.errors.OpError, tf.train.NewCheckpointReader, self.path("none"))

    def check_init(self, mapping, build, expected):
        path = self.saved({"a": [1.0, 2.0], "s/b": [3.0], "s/c": [[4.0], [5.0]]})
        with tf.Graph().as_default(), tf.Session() as sess:
            made = build()
            tf.train.init_from_checkpoint(path, mapping(made) if callable(mapping) else mapping)
            sess.run(tf.global_variables_initializer())
            self.assertEqual([sess.run(tf.convert_to_tensor(v)).tolist() for v in made], expected)

    def test_init_by_scope(self):
        def build():
            with tf.variable_scope("t"):
                return [tf.get_variable("b", [1]), tf.get_variable("c", [2, 1], use_resource=True)]
        self.check_init({"s/": "t/"}, build, [[3.0], [[4.0], [5.0]]])

    def test_init_by_name_and_variable(self):
        def build():
            return [tf.get_variable("x", [2]), tf.get_variable("y", [1])]
        self.check_init(lambda made: {"a": "x", "s/b": made[1]}, build, [[1.0, 2.0], [3.0]])

    def test_init_parts_and_whole_checkpoint(self):
        def build():
            with tf.variable_scope("n"):
                with tf.variable_scope("s"):
                    return [tf.get_variable("c", [2, 1], partitioner=tf.fixed_size_partitioner(2))]
        self.check_init({"/": "n/"}, build, [[[4.0], [5.0]]])

    def test_reader_says_what_is_there(self):
        reader = tf.train.NewCheckpointReader(self.saved({"a": [[1.0, 2.0]], "b": 3.0}))
        self.assertEqual(reader.debug_string(), b"a (DT_FLOAT) [1,2]\nb (DT_FLOAT) []\n")

    def test_init_errors(self):
        path = self.saved({"a": [1.0, 2.0]})
        v = tf.get_variable("v", [3])
        self.assertRaisesRegex(ValueError, "hape", tf.train.init_from_checkpoint, path, {"a": v})
        self.assertRaisesRegex(ValueError, "not found", tf.train.init_from_checkpoint, path, {"z": v})

    def test_warm_start(self):
        path = self.saved({"a": [1.0, 2.0], "b": 3.0})
        a, b = tf.get_variable("a", [2]), tf.get_variable("other", [])
        tf.train.warm_start(path, var_name_to_prev_var_name={"other": "b"})
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            self.assertEqual(sess.run(a).tolist(), [1.0, 2.0])
            self.assertEqual(sess.run(b), 3.0)


if __name__ == "__main__":
    unittest.main()
