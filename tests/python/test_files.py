"""tf.gfile, tf.logging, tf.python_io, tensors as messages, tf.sysconfig and tf.compat."""
import gzip
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import zlib

import numpy as np

import millrace as tf
from millrace import file_io


class Folder(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="millrace-py-")
        self.addCleanup(shutil.rmtree, self.dir, True)

    def path(self, *names):
        return os.path.join(self.dir, *names)


class Files(Folder):
    def test_newer_names(self):
        g = tf.io.gfile
        g.makedirs(self.path("deep/er"))
        with g.GFile(self.path("deep/a"), "w") as f:
            f.write("x")
        g.copy(src=self.path("deep/a"), dst=self.path("deep/b"))
        g.rename(src=self.path("deep/b"), dst=self.path("deep/c"))
        self.assertEqual(sorted(g.listdir(self.path("deep"))), ["a", "c", "er"])
        self.assertEqual(g.glob(self.path("deep/?")), [self.path("deep/a"), self.path("deep/c")])
        self.assertEqual([(d, sorted(f)) for _, d, f in g.walk(self.path("deep"))], [(["er"], ["a", "c"]), ([], [])])
        g.remove(self.path("deep/a"))
        self.assertTrue(g.isdir(self.path("deep/er")) and not g.exists(self.path("deep/a"))
                        and g.stat(self.path("deep/c")).length == 1)
        g.rmtree(self.path("deep"))
        self.assertFalse(g.exists(self.path("deep")))
        told = []
        self.assertEqual(list(g.walk(self.path("deep"), onerror=told.append)) + list(g.walk(self.path("deep"))), [])
        self.assertEqual([type(e) for e in told], [tf.errors.NotFoundError])

    def test_text_and_bytes(self):
        with tf.gfile.GFile(self.path("a"), "w") as f:
            f.write("h\u00e4llo\nworld\n")
        self.assertEqual(tf.gfile.GFile(self.path("a")).read(), "h\u00e4llo\nworld\n")
        self.assertEqual(tf.gfile.FastGFile(self.path("a"), "rb").read(), "h\u00e4llo\nworld\n".encode())
        self.assertEqual(list(tf.gfile.Open(self.path("a"))), ["h\u00e4llo\n", "world\n"])
        with tf.gfile.GFile(self.path("a"), mode="a") as f:
            f.write(b"more")
        f = tf.gfile.GFile(self.path("a"))
        self.assertEqual((f.size(), f.readline(), f.readlines()), (17, "h\u00e4llo\n", ["world\n", "more"]))
        f.seek(0)
        self.assertEqual((f.read(1), f.tell()), ("h", 1))

    def test_reading_and_writing_have_a_place_each(self):
        with tf.gfile.GFile(self.path("a"), "w+") as f:
            f.write("one\ntwo\n")
            self.assertEqual((f.size(), f.readline()), (8, "one\n"))
            f.write("three")
            self.assertEqual((f.readline(), f.read(), f.tell()), ("two\n", "three", 13))
        self.assertEqual(file_io.file_crc32(self.path("a")), hex(zlib.crc32(b"one\ntwo\nthree")))

    def test_a_file_is_opened_when_it_is_used(self):
        f = tf.gfile.GFile(self.path("missing"))
        with self.assertRaisesRegex(tf.errors.NotFoundError, "missing; No such file or directory"):
            f.read()
        tf.gfile.GFile(self.path("new"), "w").close()
        self.assertFalse(tf.gfile.Exists(self.path("new")))
        with self.assertRaises(tf.errors.PermissionDeniedError):
            tf.gfile.GFile(self.path("new"), "w").read()
        with self.assertRaises(tf.errors.PermissionDeniedError):
            tf.gfile.GFile(self.path("new")).write("x")
        with self.assertRaises(tf.errors.InvalidArgumentError):
            tf.gfile.GFile(self.path("new"), "x")

    def test_folders(self):
        with self.assertRaises(tf.errors.NotFoundError):
            tf.gfile.MkDir(self.path("a", "b"))
        tf.gfile.MakeDirs(self.path("a", "b"))
        tf.gfile.MakeDirs(self.path("a", "b"))
        with self.assertRaises(tf.errors.AlreadyExistsError):
            tf.gfile.MkDir(self.path("a"))
        file_io.write_string_to_file(self.path("a", "x.txt"), "1")
        file_io.write_string_to_file(self.path("a", "b", ".y.txt"), "2")
        self.assertEqual(tf.gfile.ListDirectory(self.path("a")), ["b", "x.txt"])
        self.assertTrue(tf.gfile.IsDirectory(self.path("a")))
        self.assertFalse(tf.gfile.IsDirectory(self.path("a", "x.txt")))
        self.assertEqual(list(tf.gfile.Walk(self.path("a"))),
                         [(self.path("a"), ["b"], ["x.txt"]), (self.path("a", "b"), [], [".y.txt"])])
        self.assertEqual([d for d, _, _ in tf.gfile.Walk(self.path("a"), in_order=False)],
                         [self.path("a", "b"), self.path("a")])
        self.assertEqual(tf.gfile.Glob(self.path("*", "*.txt")), [self.path("a", "x.txt")])
        self.assertEqual(tf.gfile.Glob(self.path("a", "b", "*")), [self.path("a", "b", ".y.txt")])
        self.assertEqual(tf.gfile.Glob([self.path("nothing*"), self.path("a")]), [self.path("a")])
        with self.assertRaises(tf.errors.NotFoundError):
            tf.gfile.ListDirectory(self.path("z"))
        tf.gfile.DeleteRecursively(self.path("a"))
        self.assertFalse(tf.gfile.Exists(self.path("a")))
        with self.assertRaises(tf.errors.NotFoundError):
            tf.gfile.DeleteRecursively(self.path("a"))
        self.assertEqual(list(tf.gfile.Walk(self.path("a"))), [])

    def test_copy_rename_remove(self):
        file_io.write_string_to_file(self.path("a"), "1")
        tf.gfile.Copy(self.path("a"), self.path("b"))
        with self.assertRaises(tf.errors.AlreadyExistsError):
            tf.gfile.Copy(self.path("a"), self.path("b"))
        tf.gfile.Copy(self.path("a"), self.path("b"), overwrite=True)
        with self.assertRaises(tf.errors.AlreadyExistsError):
            tf.gfile.Rename(self.path("a"), self.path("b"))
        tf.gfile.Rename(self.path("a"), "file://" + self.path("c"))
        tf.gfile.Remove(self.path("b"))
        with self.assertRaises(tf.errors.NotFoundError):
            tf.gfile.Remove(self.path("b"))
        self.assertEqual(tf.gfile.Stat(self.path("c")).length, 1)
        file_io.atomic_write_string_to_file(self.path("c"), "two")
        self.assertEqual(file_io.read_file_to_string(self.path("c"), True), b"two")

    def test_other_file_systems_are_refused(self):
        with self.assertRaisesRegex(tf.errors.UnimplementedError, "'gs'"):
            tf.gfile.Exists("gs://bucket/file")


class Records(Folder):
    def check_round(self, options, records):
        with tf.python_io.TFRecordWriter(self.path("r"), options) as w:
            for r in records:
                w.write(r)
        self.assertEqual(list(tf.python_io.tf_record_iterator(self.path("r"), options)), records)

    def test_plain_and_packed(self):
        kind = tf.python_io.TFRecordCompressionType
        records = [b"", b"a", b"x" * 100000, bytes(range(256)) * 3]
        for options in (None, tf.python_io.TFRecordOptions(kind.NONE), tf.python_io.TFRecordOptions(kind.ZLIB),
                        tf.python_io.TFRecordOptions(kind.GZIP), tf.python_io.TFRecordOptions("GZIP", compression_level=9),
                        "ZLIB"):
            self.check_round(options, records)

    def test_the_bytes(self):
        with tf.python_io.TFRecordWriter(self.path("r")) as w:
            w.write(b"abc")
        with open(self.path("r"), "rb") as f:
            data = f.read()
        self.assertEqual((len(data), data[:8], data[12:15]), (19, b"\x03" + 7 * b"\0", b"abc"))

    def test_gzip_is_gzip(self):
        with tf.python_io.TFRecordWriter(self.path("r"),
                                         tf.python_io.TFRecordOptions(tf.python_io.TFRecordCompressionType.GZIP)) as w:
            w.write(b"abc")
        with gzip.open(self.path("r")) as f:
            self.assertEqual(f.read()[12:15], b"abc")

    def test_damage_is_found(self):
        with tf.python_io.TFRecordWriter(self.path("r")) as w:
            w.write(b"abc")
            w.write(b"defg")
        with open(self.path("r"), "rb") as f:
            good = f.read()
        for bad in (good[:-1], good[:25], good[:-6] + b"?" + good[-5:], b"\xff" + good[1:]):
            with open(self.path("r"), "wb") as f:
                f.write(bad)
            with self.assertRaises(tf.errors.DataLossError):
                list(tf.python_io.tf_record_iterator(self.path("r")))
        with self.assertRaises(tf.errors.NotFoundError):
            list(tf.python_io.tf_record_iterator(self.path("none")))
        with self.assertRaises(ValueError):
            tf.python_io.TFRecordOptions("LZ4")

    def test_a_closed_writer_refuses(self):
        w = tf.python_io.TFRecordWriter(self.path("r"))
        w.close()
        w.close()
        for f in (w.flush, lambda: w.write(b"x")):
            with self.assertRaises(tf.errors.FailedPreconditionError):
                f()


class Messages(unittest.TestCase):
    def test_tensors_there_and_back(self):
        from millrace.framework import tensor_util
        for dtype in (np.float32, np.float64, np.float16, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64,
                      np.uint64, np.bool_, np.complex64, np.complex128):
            for value in (np.array([[1, 0, 1]], dtype), np.array(1, dtype), np.zeros([0, 2], dtype), np.array([1], dtype)):
                proto = tensor_util.make_tensor_proto(value)
                back = tensor_util.make_ndarray(proto)
                self.assertEqual(back.dtype, value.dtype)
                self.assertEqual(back.shape, value.shape)
                np.testing.assert_array_equal(back, value)

    def test_texts(self):
        from millrace.framework import tensor_util
        proto = tensor_util.make_tensor_proto(["a", b"b"], shape=[2])
        self.assertEqual(list(proto.string_val), [b"a", b"b"])
        self.assertEqual(tensor_util.make_ndarray(proto).tolist(), [b"a", b"b"])
        self.assertEqual(tensor_util.make_ndarray(tensor_util.make_tensor_proto("x")).item(), b"x")

    def test_which_types_go_as_bytes(self):
        from millrace.framework import tensor_util
        for dtype, field in ((np.float16, "half_val"), (np.complex64, "scomplex_val"), (np.bool_, "bool_val"),
                             (np.uint16, "int_val")):
            proto = tensor_util.make_tensor_proto(np.array([1, 0], dtype))
            self.assertEqual(proto.tensor_content, b"")
            self.assertTrue(len(getattr(proto, field)), field)
        self.assertTrue(tensor_util.ShapeEquals(proto, [2]))
        self.assertTrue(tensor_util.ShapeEquals(proto, proto.tensor_shape))

    def test_values_that_are_known(self):
        with tf.Graph().as_default():
            self.assertIsNone(tf.get_static_value(tf.Variable(1.0)))
            self.assertEqual(tf.get_static_value(tf.constant([1, 2])).tolist(), [1, 2])
            # An array takes on the type of the tensors beside it.
            self.assertEqual(tf.stack([np.ones(2), tf.placeholder(tf.float32, [2])]).dtype, tf.float32)

    def test_shapes(self):
        from millrace.framework import tensor_util
        proto = tensor_util.make_tensor_proto(3, dtype=tf.int32, shape=[2, 2])
        self.assertEqual(list(proto.int_val), [3])
        self.assertEqual(tensor_util.make_ndarray(proto).tolist(), [[3, 3], [3, 3]])
        with self.assertRaisesRegex(ValueError, "Too many elements"):
            tensor_util.make_tensor_proto([1, 2, 3], shape=[2])
        with self.assertRaisesRegex(TypeError, "Expected Tensor's shape"):
            tensor_util.make_tensor_proto([1, 2], shape=[1, 2], verify_shape=True)
        self.assertEqual(len(tensor_util.make_tensor_proto([1., 2.], tf.float32).tensor_content), 8)


class Logging(unittest.TestCase):
    def run_code(self, code):
        return subprocess.run([sys.executable, "-c", "import millrace as tf\n" + code], capture_output=True, text=True,
                              timeout=60)

    def test_warnings_are_shown_and_infos_when_asked_for(self):
        r = self.run_code("tf.logging.info('one')\ntf.logging.warn('two %d', 2)\ntf.logging.set_verbosity(tf.logging.INFO)\n"
                          "tf.logging.info('three')\ntf.logging.debug('four')\ntf.logging.fatal('five')\n"
                          "assert tf.logging.get_verbosity() == tf.logging.INFO")
        self.assertEqual(r.stderr, "WARNING:tensorflow:two 2\nINFO:tensorflow:three\nCRITICAL:tensorflow:five\n")
        self.assertEqual((r.stdout, r.returncode), ("", 0))

    def test_some_of_many(self):
        r = self.run_code("for i in range(7):\n  tf.logging.log_every_n(tf.logging.ERROR, 'a%d', 3, i)\n"
                          "  tf.logging.log_first_n(tf.logging.ERROR, 'b%d', 2, i)\n  tf.logging.log_if(tf.logging.ERROR, "
                          "'c', i == 6)")
        self.assertEqual([line.rpartition(":")[2] for line in r.stderr.splitlines()], ["a0", "b0", "b1", "a3", "a6", "c"])


class Rest(unittest.TestCase):
    def test_texts_and_bytes(self):
        c = tf.compat
        self.assertEqual((c.as_bytes("\u00e4"), c.as_text(b"a"), c.as_str(b"a"), c.as_str_any(3), c.as_str_any(b"x")),
                         ("\u00e4".encode(), "a", "a", "3", "x"))
        for f in (c.as_bytes, c.as_text):
            with self.assertRaisesRegex(TypeError, "Expected binary or unicode string, got 3"):
                f(3)
        self.assertIs(c.v1, tf)

    def test_where_things_are(self):
        self.assertTrue(os.path.exists(os.path.join(tf.sysconfig.get_include(), "tensorflow", "c", "c_api.h")))
        self.assertTrue(os.path.exists(os.path.join(tf.sysconfig.get_lib(), "libtensorflow.so.2")))
        self.assertEqual(tf.resource_loader.get_path_to_datafile("test_files.py"), os.path.abspath(__file__))

    def test_devices(self):
        from millrace.client import device_lib
        devices = device_lib.list_local_devices()
        self.assertEqual((devices[0].name, devices[0].device_type), ("/device:CPU:0", "CPU"))

    def test_timeline(self):
        import json
        from millrace.client import timeline
        with tf.Graph().as_default() as g:
            a = tf.raw_ops.placeholder(tf.float32, [1, 2], name="a")
            b = tf.raw_ops.mat_mul(a, tf.raw_ops.transpose(a, [1, 0]), name="product")
            metadata = tf.RunMetadata()
            with tf.Session(graph=g) as sess:
                sess.run(b, {a: [[1, 2]]}, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=metadata)
        trace = json.loads(timeline.Timeline(metadata.step_stats).generate_chrome_trace_format(show_memory=True))
        with self.assertRaises(ValueError):
            timeline.Timeline(metadata.step_stats).generate_chrome_trace_format(op_time="other")
        self.assertIn("traceEvents", timeline.Timeline(metadata.step_stats).generate_chrome_trace_format(op_time="gpu"))
        ops = [e for e in trace["traceEvents"] if e["ph"] == "X"]
        self.assertIn("product", [e["args"]["name"] for e in ops])
        self.assertTrue(all(e["dur"] >= 1 for e in ops))
        self.assertIn("M", [e["ph"] for e in trace["traceEvents"]])


if __name__ == "__main__":
    unittest.main()
