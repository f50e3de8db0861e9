"""Queues, barriers, accumulators, staging, readers, coordinators, queue runners, and batches of input."""

import os
import shutil
import tempfile
import threading
import unittest

import numpy as np

import millrace as tf
from millrace.ops import data_flow


class Base(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()
        self.dir = tempfile.mkdtemp(prefix="queues")
        self.addCleanup(shutil.rmtree, self.dir)

    def file(self, name, content):
        path = os.path.join(self.dir, name)
        with open(path, "wb") as f:
            f.write(content)
        return path


class Queues(Base):
    def test_fifo(self):
        q = tf.FIFOQueue(10, [tf.int32, tf.float32], shapes=[[], [2]])
        put = q.enqueue((1, [1.0, 2.0]))
        many = q.enqueue_many(([2, 3], [[3.0, 4.0], [5.0, 6.0]]))
        one, two = q.dequeue(), q.dequeue_many(2)
        self.assertEqual((q.name, put.name, one[0].op.name), ("fifo_queue", "fifo_queue_enqueue", "fifo_queue_Dequeue"))
        self.assertEqual(two[1].shape.as_list(), [2, 2])
        with tf.Session() as sess:
            sess.run(put)
            sess.run(many)
            self.assertEqual(sess.run(q.size()), 3)
            self.assertEqual(sess.run(one)[0], 1)
            self.assertEqual(sess.run(two)[1].tolist(), [[3, 4], [5, 6]])
            self.assertFalse(sess.run(q.is_closed()))
            sess.run(q.close())
            self.assertTrue(sess.run(q.is_closed()))
            self.assertRaises(tf.errors.OutOfRangeError, sess.run, one)
            self.assertRaises(tf.errors.CancelledError, sess.run, put)

    def test_one_type_in_any_form(self):
        for form in (tf.int32, np.int32, np.dtype("int32"), "int32", tf.int32.as_datatype_enum, [3], (tf.int32,)):
            self.assertEqual(tf.FIFOQueue(1, form, shapes=[()]).dtypes, [tf.int32])

    def test_up_to(self):
        q = tf.FIFOQueue(10, tf.int32, shapes=[()])
        with tf.Session() as sess:
            sess.run(q.enqueue_many([[1, 2, 3]]))
            sess.run(q.close())
            self.assertEqual(sess.run(q.dequeue_up_to(2)).tolist(), [1, 2])
            self.assertEqual(sess.run(q.dequeue_up_to(2)).tolist(), [3])

    def test_names(self):
        q = tf.FIFOQueue(10, [tf.int32, tf.string], names=["i", "s"])
        with tf.Session() as sess:
            sess.run(q.enqueue({"i": 5, "s": "x"}))
            self.assertEqual(sess.run(q.dequeue()), {"i": 5, "s": b"x"})
        self.assertRaises(ValueError, q.enqueue, {"i": 5})
        self.assertRaises(ValueError, q.enqueue, (5, "x"))

    def test_shared(self):
        a, b = tf.FIFOQueue(3, tf.int32, shared_name="s"), tf.FIFOQueue(3, tf.int32, shared_name="s")
        with tf.Session() as sess:
            sess.run(a.enqueue(4))
            self.assertEqual(sess.run(b.dequeue()), 4)

    def test_padding(self):
        q = tf.PaddingFIFOQueue(5, tf.int32, shapes=[[None]])
        with tf.Session() as sess:
            x = tf.placeholder(tf.int32, [None])
            put = q.enqueue(x)
            sess.run(put, {x: [1]})
            sess.run(put, {x: [2, 3]})
            self.assertEqual(sess.run(q.dequeue_many(2)).tolist(), [[1, 0], [2, 3]])

    def test_priority(self):
        q = tf.PriorityQueue(5, tf.string, shapes=[()])
        with tf.Session() as sess:
            sess.run(q.enqueue_many(([3, 1, 2], ["c", "a", "b"])))
            self.assertEqual([sess.run(q.dequeue())[1] for _ in range(3)], [b"a", b"b", b"c"])

    def test_shuffle(self):
        q = tf.RandomShuffleQueue(100, 0, tf.int32, shapes=[()], seed=1)
        with tf.Session() as sess:
            sess.run(q.enqueue_many([np.arange(50)]))
            got = sess.run(q.dequeue_many(50)).tolist()
            self.assertNotEqual(got, sorted(got))
            self.assertEqual(sorted(got), list(range(50)))

    def test_errors(self):
        self.assertRaises(ValueError, tf.FIFOQueue, 1, tf.int32, [[None]])
        self.assertRaises(ValueError, tf.FIFOQueue, 1, [tf.int32], [[], []])
        q = tf.FIFOQueue(1, tf.int32, [[2]])
        self.assertRaises(ValueError, q.enqueue, [[1, 2, 3]])
        self.assertRaises(ValueError, q.enqueue, ([1, 2], 3))

    def test_barrier(self):
        b = tf.Barrier((tf.float32, tf.int32), shapes=((), ()))
        taken = b.take_many(2)
        with tf.Session() as sess:
            sess.run(b.insert_many(0, ["a", "b"], [1.0, 2.0]))
            self.assertEqual(sess.run([b.ready_size(), b.incomplete_size()]), [0, 2])
            sess.run(b.insert_many(1, ["b", "a"], [20, 10]))
            _, keys, values = sess.run(taken)
            self.assertEqual(sorted(zip(keys.tolist(), values[0].tolist(), values[1].tolist())),
                             [(b"a", 1.0, 10), (b"b", 2.0, 20)])

    def test_barrier_that_is_closed_gives_what_is_ready(self):
        b = tf.Barrier((tf.float32, tf.float32), shapes=((), ()))
        taken = b.take_many(3, allow_small_batch=True)
        with tf.Session() as sess:
            sess.run(b.insert_many(0, ["a", "b", "c", "d"], [1.0, 2.0, 3.0, 4.0]))
            sess.run(b.insert_many(1, ["a", "b"], [1.0, 2.0]))
            sess.run(b.close())
            self.assertEqual(sess.run(taken[1]).tolist(), [b"a", b"b"])
            sess.run(b.insert_many(1, ["c"], [3.0]))
            self.assertEqual(sess.run(taken[1]).tolist(), [b"c"])
            self.assertRaises(tf.errors.OutOfRangeError, sess.run, taken[1])
        self.assertRaisesRegex(ValueError, "Empty tensors are not supported, but received shape '.0,.' at index 1",
                               tf.Barrier, (tf.float32, tf.float32), ((1,), (0,)))

    def test_accumulators(self):
        a = tf.ConditionalAccumulator(tf.float32, shape=[2])
        s = tf.SparseConditionalAccumulator(tf.float32, shape=[3, 1])
        with tf.Session() as sess:
            sess.run([a.apply_grad([1.0, 2.0], local_step=0), s.apply_indexed_slices_grad(
                tf.IndexedSlices(tf.constant([[1.0], [2.0]]), tf.constant([0, 2]), tf.constant([3, 1])))])
            sess.run([a.apply_grad([3.0, 4.0]), s.apply_grad([2], [[4.0]], [3, 1])])
            self.assertEqual(sess.run(a.num_accumulated()), 2)
            self.assertEqual(sess.run(a.take_grad(2)).tolist(), [2, 3])
            taken = sess.run(s.take_indexed_slices_grad(2))
            self.assertEqual((taken.indices.tolist(), taken.values.tolist()),
                             ([0, 2], [[1.0], [3.0]]))  # by how often each row came
            sess.run(a.set_global_step(5))
            sess.run(a.apply_grad([1.0, 1.0], local_step=4))  # too old
            self.assertEqual(sess.run(a.num_accumulated()), 0)

    def test_staging(self):
        area = data_flow.StagingArea([tf.int32, tf.float32], shapes=[[], [2]])
        put, get = area.put([7, [1.0, 2.0]]), area.get()
        self.assertEqual(get[1].shape.as_list(), [2])
        with tf.Session() as sess:
            sess.run(put)
            self.assertEqual(sess.run(area.size()), 1)
            self.assertEqual(sess.run(get)[0], 7)


class Readers(Base):
    def read(self, reader, files, n):
        queue = tf.FIFOQueue(10, tf.string, shapes=[()])
        key, value = reader.read(queue)
        with tf.Session() as sess:
            sess.run(queue.enqueue_many([files]))
            sess.run(queue.close())
            got = [sess.run([key, value]) for _ in range(n)]
            self.assertRaises(tf.errors.OutOfRangeError, sess.run, value)
            self.assertEqual(sess.run(reader.num_records_produced()), n)
            return [bytes(v) for _, v in got], [k for k, _ in got]

    def test_lines(self):
        values, keys = self.read(tf.TextLineReader(skip_header_lines=1), [self.file("a", b"head\nx\ny\n")], 2)
        self.assertEqual(values, [b"x", b"y"])
        self.assertTrue(keys[0].endswith(b"a:2"))

    def test_others(self):
        path = self.file("a", b"HHaabbF")
        self.assertEqual(self.read(tf.FixedLengthRecordReader(2, header_bytes=2, footer_bytes=1), [path], 2)[0], [b"aa", b"bb"])
        self.assertEqual(self.read(tf.WholeFileReader(), [path], 1)[0], [b"HHaabbF"])
        self.assertEqual(self.read(tf.IdentityReader(), ["w"], 1)[0], [b"w"])

    def test_records(self):
        path = os.path.join(self.dir, "r")
        with tf.python_io.TFRecordWriter(path) as w:
            w.write(b"one")
            w.write(b"two")
        self.assertEqual(self.read(tf.TFRecordReader(), [path], 2)[0], [b"one", b"two"])


class Threads(Base):
    def test_coordinator(self):
        coord = tf.train.Coordinator()

        def work(bad):
            with coord.stop_on_exception():
                if bad:
                    raise KeyError("mine")
                coord.wait_for_stop()

        threads = [threading.Thread(target=work, args=(bad,)) for bad in (False, True)]
        for t in threads:
            t.start()
        self.assertRaisesRegex(KeyError, "mine", coord.join, threads)
        self.assertTrue(coord.should_stop() and coord.joined)
        coord.clear_stop()
        self.assertFalse(coord.should_stop())
        coord.request_stop(tf.errors.OutOfRangeError(None, None, "end"))  # a good end
        coord.join()

    def test_straggler(self):
        coord, go = tf.train.Coordinator(), threading.Event()
        t = threading.Thread(target=go.wait)
        t.start()
        coord.request_stop()
        self.assertRaisesRegex(RuntimeError, "still running", coord.join, [t], stop_grace_period_secs=0.01)
        coord.join([t], stop_grace_period_secs=0.01, ignore_live_threads=True)
        go.set()

    def test_looper(self):
        coord, seen = tf.train.Coordinator(), []

        def count(x):
            seen.append(x)
            if len(seen) == 3:
                coord.request_stop()

        tf.train.LooperThread.loop(coord, None, count, args=("x",))
        coord.join()
        self.assertEqual(seen, ["x"] * 3)

    def test_queue_runner(self):
        q = tf.FIFOQueue(3, tf.int64, shapes=[()])
        v = tf.Variable(0, dtype=tf.int64, name="n")
        qr = tf.train.QueueRunner(q, [q.enqueue(v.count_up_to(10))] * 2)
        tf.train.add_queue_runner(qr)
        got = q.dequeue()
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            coord = tf.train.Coordinator()
            threads = tf.train.start_queue_runners(sess=sess, coord=coord)
            self.assertEqual(len(threads), 3)
            values = []
            try:
                while not coord.should_stop():
                    values.append(int(sess.run(got)))
            except tf.errors.OutOfRangeError:
                coord.request_stop()
            coord.join(threads)
            self.assertEqual(sorted(values), list(range(10)))

    def test_queue_runner_message(self):
        q = tf.FIFOQueue(3, tf.int32, name="q")
        d = tf.train.QueueRunner(q, [q.enqueue(1)]).to_proto()
        self.assertEqual((d.queue_name, list(d.enqueue_op_name), d.close_op_name), ("q", ["q_enqueue"], "q_Close"))
        again = tf.train.QueueRunner.from_proto(d)
        self.assertEqual(again.enqueue_ops[0].name, "q_enqueue")
        self.assertEqual(again.to_proto(), d)

    def test_failing_enqueue(self):
        q = tf.FIFOQueue(3, tf.int32)
        tf.train.add_queue_runner(tf.train.QueueRunner(q, [q.enqueue(tf.Variable(1).value())]))
        with tf.Session() as sess:
            coord = tf.train.Coordinator()
            threads = tf.train.start_queue_runners(sess, coord)
            self.assertRaises(tf.errors.FailedPreconditionError, coord.join, threads)


class MapStaging(Base):
    def test_entries_by_key_in_order(self):
        area = tf.contrib.staging.MapStagingArea([tf.int32, tf.float32], shapes=[[], [2]], names=["a", "b"], ordered=True)
        first = area.put(7, {"a": tf.constant(1)})
        rest = area.put(7, {"b": tf.constant([2.0, 3.0])})
        whole = area.put(3, {"a": tf.constant(4), "b": tf.constant([5.0, 6.0])})
        key, entry = area.get()
        with tf.Session() as sess:
            sess.run(first)
            self.assertEqual(sess.run([area.size(), area.incomplete_size()]), [0, 1])
            sess.run([rest, whole])
            self.assertEqual(sess.run(area.peek(3, ["a"])["a"]), 4)
            got = [sess.run([key, entry["b"]]) for _ in range(2)]
            self.assertEqual([(k, b.tolist()) for k, b in got], [(3, [5, 6]), (7, [2, 3])])
        self.assertEqual(entry["b"].shape, [2])
        self.assertRaises(ValueError, area.put, 1, [tf.constant(1)])
        self.assertRaises(ValueError, area.get, 1, ["c"])


class StaticShapes(Base):
    def test_batches_of_sparse_tensors_keep_their_rank(self):
        x = tf.SparseTensor([[0, 1]], [1.], [3, 4])
        self.assertEqual(tf.train.batch([x], 8).shape.as_list(), [None] * 3)
        y = tf.train.batch([x], 8, enqueue_many=True)
        self.assertEqual((y.indices.shape.as_list(), y.dense_shape.shape.as_list()), ([None, 2], [2]))

    def test_elements_must_have_a_rank_and_agree(self):
        with self.assertRaisesRegex(ValueError, "Cannot infer Tensor's rank"):
            tf.train.batch([tf.placeholder(tf.float32)], 2)
        with self.assertRaises(ValueError):
            tf.train.batch_join([[tf.zeros([2])], [tf.zeros([3])]], 2)


class Input(Base):
    def run_all(self, fetch):
        """All values until the input ends."""
        out = []
        with tf.Session() as sess:
            sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            coord = tf.train.Coordinator()
            threads = tf.train.start_queue_runners(sess=sess, coord=coord)
            try:
                while True:
                    out.append(sess.run(fetch))
            except tf.errors.OutOfRangeError:
                pass
            finally:
                coord.request_stop()
            coord.join(threads)
        return out

    def test_lines_of_files(self):
        files = [self.file("f%d.csv" % i, b"%d,1\n%d,2\n" % (i, i)) for i in range(2)]
        names = tf.train.match_filenames_once(os.path.join(self.dir, "*.csv"))
        queue = tf.train.string_input_producer(names, num_epochs=2, shuffle=False)
        _, line = tf.TextLineReader().read(queue)
        batch = tf.train.batch([line], 4)
        got = self.run_all(batch)
        self.assertEqual([b.tolist() for b in got], [[b"0,1", b"0,2", b"1,1", b"1,2"]] * 2)
        self.assertTrue(files)

    def test_slices_and_smaller_last_batch(self):
        x, y = tf.train.slice_input_producer([np.arange(5), np.arange(5) * 10], num_epochs=1, shuffle=False)
        batch = tf.train.batch({"x": x, "y": y}, 2, allow_smaller_final_batch=True)
        self.assertEqual([b["y"].tolist() for b in self.run_all(batch)], [[0, 10], [20, 30], [40]])

    def test_range_shuffled(self):
        queue = tf.train.range_input_producer(6, num_epochs=1, seed=3)
        got = [int(x) for x in self.run_all(queue.dequeue())]
        self.assertEqual(sorted(got), list(range(6)))

    def test_shuffle_batch(self):
        x = tf.train.input_producer(np.arange(20), num_epochs=1, shuffle=False).dequeue()
        batch = tf.train.shuffle_batch([x], 5, capacity=30, min_after_dequeue=10, num_threads=2, seed=1)
        self.assertEqual(batch.shape.as_list(), [5])
        got = np.concatenate(self.run_all(batch)).tolist()
        self.assertEqual(sorted(got), list(range(20)))
        self.assertNotEqual(got, sorted(got))
        self.assertRaises(ValueError, tf.train.shuffle_batch, [x], 5, capacity=5, min_after_dequeue=10)

    def test_join_and_pad(self):
        a = tf.train.input_producer([1, 3], num_epochs=1, shuffle=False).dequeue()
        b = tf.train.input_producer([2, 4], num_epochs=1, shuffle=False).dequeue()
        batch = tf.train.batch_join([[tf.fill([a], a)], [tf.fill([b], b)]], 4, dynamic_pad=True)
        got = self.run_all(batch)[0]
        self.assertEqual(sorted(got.tolist()), [[1, 0, 0, 0], [2, 2, 0, 0], [3, 3, 3, 0], [4, 4, 4, 4]])

    def test_maybe_and_many(self):
        x = tf.train.input_producer(np.arange(8), num_epochs=1, shuffle=False).dequeue()
        even = tf.train.maybe_batch([x], tf.equal(x % 2, 0), 2)
        self.assertEqual([b.tolist() for b in self.run_all(even)], [[0, 2], [4, 6]])
        tf.reset_default_graph()
        x = tf.train.input_producer(np.arange(8).reshape(2, 4), num_epochs=1, shuffle=False).dequeue()
        odd = tf.train.maybe_batch([x], tf.equal(x % 2, 1), 2, enqueue_many=True)
        self.assertEqual([b.tolist() for b in self.run_all(odd)], [[1, 3], [5, 7]])

    def test_buckets(self):
        n = tf.train.input_producer([1, 5, 2, 6], num_epochs=1, shuffle=False).dequeue()
        lengths, (values,) = tf.contrib.training.bucket_by_sequence_length(n, [tf.fill([n], n)], 2, [4], dynamic_pad=True)
        got = self.run_all([lengths, values])
        self.assertEqual(sorted((a.tolist(), b.tolist()) for a, b in got),
                         [([1, 2], [[1, 0], [2, 2]]), ([5, 6], [[5] * 5 + [0], [6] * 6])])

    def test_sparse(self):
        x = tf.train.input_producer([1, 2], num_epochs=1, shuffle=False).dequeue()
        s = tf.SparseTensor(tf.cast([[x]], tf.int64), [x * 10], [4])
        got = self.run_all(tf.train.batch([s, x], 2))[0]
        self.assertEqual((got[0].indices.tolist(), got[0].values.tolist(), got[0].dense_shape.tolist()),
                         ([[0, 1], [1, 2]], [10, 20], [2, 4]))

    def test_empty(self):
        self.assertRaises(ValueError, tf.train.string_input_producer, [])
        self.assertRaises(ValueError, tf.train.limit_epochs, tf.constant(1), 0)


if __name__ == "__main__":
    unittest.main()
