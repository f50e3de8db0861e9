"""tf.summary and files of events."""
import glob
import os
import shutil
import subprocess
import tempfile
import threading
import unittest
import warnings

import numpy as np

import millrace as tf
from millrace import protos
from millrace.summary.writer import summary_iterator


class Ops(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()

    def run_summary(self, op, feed=None):
        with tf.Session() as sess:
            return protos.Summary.FromString(sess.run(op, feed)).value

    def test_scalar(self):
        with tf.name_scope("outer"):
            s = tf.summary.scalar("loss", tf.constant(2.5))
        self.assertEqual((s.op.name, s.dtype), ("outer/loss", tf.string))
        self.assertEqual(tf.get_collection(tf.GraphKeys.SUMMARIES), [s])
        value, = self.run_summary(s)
        self.assertEqual((value.tag, value.simple_value), ("outer/loss", 2.5))

    def test_names_that_tags_cannot_have(self):
        s = tf.summary.scalar("/my loss", 1.0)
        self.assertEqual(s.op.name, "my_loss")
        self.assertEqual(tf.summary.scalar("my_loss", 1.0).op.name, "my_loss_1")

    def test_family(self):
        with tf.name_scope("outer"):
            s = tf.summary.scalar("a", 1.0, family="fam")
        self.assertEqual(self.run_summary(s)[0].tag, "fam/outer/fam/a")

    def test_histogram(self):
        value, = self.run_summary(tf.summary.histogram("h", tf.constant([1., 2., 4.])))
        self.assertEqual((value.tag, value.histo.min, value.histo.max, value.histo.num, value.histo.sum), ("h", 1, 4, 3, 7))

    def test_image(self):
        values = self.run_summary(tf.summary.image("i", tf.constant(np.zeros([5, 2, 3, 1], np.uint8)), max_outputs=2))
        self.assertEqual([v.tag for v in values], ["i/image/0", "i/image/1"])
        self.assertEqual((values[0].image.height, values[0].image.width, values[0].image.encoded_image_string[1:4]),
                         (2, 3, b"PNG"))

    def test_audio(self):
        values = self.run_summary(tf.summary.audio("a", tf.constant(np.zeros([1, 8, 1], np.float32)), 8000))
        self.assertEqual((values[0].tag, values[0].audio.sample_rate, values[0].audio.encoded_audio_string[:4]),
                         ("a/audio/0", 8000, b"RIFF"))

    def test_text_and_tensor(self):
        value, = self.run_summary(tf.summary.text("t", tf.constant("hello")))
        self.assertEqual((value.tag, value.metadata.plugin_data.plugin_name, list(value.tensor.string_val)),
                         ("t", "text", [b"hello"]))
        with self.assertRaisesRegex(ValueError, "dtype string"):
            tf.summary.text("t", tf.constant(1))
        value, = self.run_summary(tf.summary.tensor_summary("x", tf.constant([1, 2]), "what", display_name="X"))
        self.assertEqual((value.metadata.display_name, value.metadata.summary_description), ("X", "what"))
        from millrace.framework import tensor_util
        self.assertEqual(tensor_util.make_ndarray(value.tensor).tolist(), [1, 2])

    def test_merge(self):
        self.assertIsNone(tf.summary.merge_all())
        a, b = tf.summary.scalar("a", 1.0), tf.summary.scalar("b", 2.0, collections=["mine"])
        self.assertEqual([v.tag for v in self.run_summary(tf.summary.merge_all())], ["a"])
        merged = tf.summary.merge([a, b])
        self.assertEqual([v.simple_value for v in self.run_summary(merged)], [1, 2])
        self.assertEqual(len(tf.summary.merge_all(key="mine").op.inputs), 1)
        self.assertEqual(merged.op.type, "MergeSummary")

    def test_old_names(self):
        tf.scalar_summary("some tag", 1.0)
        tf.histogram_summary("h", [1.0])
        values = self.run_summary(tf.merge_all_summaries())
        self.assertEqual([v.tag for v in values], ["some tag", "h"])


class Projector(unittest.TestCase):
    def test_the_file_beside_the_events(self):
        from tensorflow.contrib.tensorboard.plugins import projector
        with tempfile.TemporaryDirectory() as d:
            config = projector.ProjectorConfig()
            e = config.embeddings.add()
            e.tensor_name, e.metadata_path = "embedding:0", "labels.tsv"
            e.sprite.image_path = "sprite.png"
            e.sprite.single_image_dim.extend([28, 28])
            with tf.summary.FileWriter(d) as w:
                projector.visualize_embeddings(w, config)
            with open(os.path.join(d, "projector_config.pbtxt")) as f:
                back = protos.text_format.Parse(f.read(), projector.ProjectorConfig())
        self.assertEqual(back, config)


class Writer(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()
        self.dir = tempfile.mkdtemp(prefix="millrace-py-")
        self.addCleanup(shutil.rmtree, self.dir, True)

    def events(self):
        files = sorted(glob.glob(os.path.join(self.dir, "events.out.tfevents.*")))
        return [e for f in files for e in summary_iterator(f)]

    def test_what_is_in_the_file(self):
        loss = tf.placeholder(tf.float32, [], name="loss_in")
        merged = tf.summary.scalar("loss", loss)
        with tf.Session() as sess:
            w = tf.summary.FileWriter(self.dir, sess.graph)
            for step in range(3):
                w.add_summary(sess.run(merged, {loss: step * 0.5}), step)
            w.add_summary(tf.Summary(value=[tf.Summary.Value(tag="t", simple_value=4)]), global_step=np.int64(7))
            w.add_session_log(tf.SessionLog(status=tf.SessionLog.START), 1)
            w.add_run_metadata(tf.RunMetadata(), "run", 2)
            with self.assertRaisesRegex(ValueError, "already used"):
                w.add_run_metadata(tf.RunMetadata(), "run", 2)
            w.close()
        e = self.events()
        self.assertEqual([x.WhichOneof("what") for x in e],
                         ["file_version", "graph_def", "meta_graph_def"] + ["summary"] * 4 +
                         ["session_log", "tagged_run_metadata"])
        self.assertEqual(e[0].file_version, "brain.Event:2")
        graph = protos.GraphDef.FromString(e[1].graph_def)
        self.assertEqual([n.name for n in graph.node], ["loss_in", "loss/tags", "loss"])
        self.assertIn("_output_shapes", graph.node[0].attr)
        meta = protos.MetaGraphDef.FromString(e[2].meta_graph_def)
        self.assertEqual([o.name for o in meta.meta_info_def.stripped_op_list.op], ["Const", "Placeholder", "ScalarSummary"])
        self.assertEqual([(x.step, x.summary.value[0].simple_value) for x in e[3:7]], [(0, 0), (1, .5), (2, 1), (7, 4)])
        self.assertTrue(all(x.wall_time > 1e9 for x in e))

    def test_metadata_is_written_once_a_tag(self):
        with tf.summary.FileWriter(self.dir) as w, tf.Session() as sess:
            s = sess.run(tf.summary.text("t", tf.constant("hello")))
            w.add_summary(s, 0)
            w.add_summary(s, 1)
        self.assertEqual([x.summary.value[0].HasField("metadata") for x in self.events()[1:]], [True, False])

    def test_flush_reopen_and_use_after_closing(self):
        w = tf.summary.FileWriter(self.dir, filename_suffix=".one")
        w.add_event(tf.Event(step=1))
        w.flush()
        self.assertEqual(len(self.events()), 2)
        w.close()
        w.close()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            w.add_event(tf.Event(step=2))
            w.add_summary(tf.Summary(), 3)
        self.assertEqual(len(caught), 2)
        w.reopen()
        w.add_event(tf.Event(step=4))
        w.close()
        self.assertEqual([e.step for e in self.events() if not e.file_version], [1, 4])
        self.assertTrue(glob.glob(os.path.join(self.dir, "*.one")))
        self.assertEqual(w.get_logdir(), self.dir)

    def test_many_threads(self):
        w = tf.summary.FileWriter(self.dir, max_queue=2)
        threads = [threading.Thread(target=lambda: [w.add_event(tf.Event(step=1)) for _ in range(50)]) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        w.close()
        self.assertEqual(sum(e.step for e in self.events()), 200)

    def test_the_cache(self):
        a = tf.summary.FileWriterCache.get(self.dir)
        self.assertIs(a, tf.summary.FileWriterCache.get(self.dir))
        tf.summary.FileWriterCache.clear()
        self.assertTrue(a.event_writer.is_closed)

    def test_the_end_of_the_program_flushes(self):
        import sys
        code = ("import millrace as tf\nw = tf.summary.FileWriter(%r)\nfor i in range(5):\n  w.add_event(tf.Event(step=1))" %
                self.dir)
        subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
        self.assertEqual(sum(e.step for e in self.events()), 5)

    @unittest.skipUnless("MILLRACE_BUILD" in os.environ, "needs the build's folder in MILLRACE_BUILD")
    def test_the_command_reads_it(self):
        with tf.summary.FileWriter(self.dir, tf.get_default_graph()) as w:
            w.add_summary(tf.Summary(value=[tf.Summary.Value(tag="accuracy", simple_value=0.5)]), 12)
        file, = glob.glob(os.path.join(self.dir, "*"))
        r = subprocess.run([os.path.join(os.environ["MILLRACE_BUILD"], "bin", "millrace"), "inspect", file],
                           capture_output=True,
                           text=True, timeout=60)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("accuracy", r.stdout)


if __name__ == "__main__":
    unittest.main()
