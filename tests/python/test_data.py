"""tf.data: sources, transformations, structures and iterators."""

import gzip
import os
import struct
import tempfile
import threading
import unittest
import warnings

import numpy as np

import millrace as tf
import tensorflow  # noqa: F401 -- private paths are found after it
from millrace.data import experimental, functions

Dataset = tf.data.Dataset


def as_lists(x):
    if isinstance(x, tuple) and not isinstance(x, tf.SparseTensorValue):
        return tuple(as_lists(v) for v in x)
    if isinstance(x, dict):
        return {k: as_lists(v) for k, v in x.items()}
    return x.tolist() if isinstance(x, (np.ndarray, np.generic)) else x


class Case(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()

    def items(self, dataset, iterator=None):
        iterator = iterator or dataset.make_one_shot_iterator()
        following, out = iterator.get_next(), []
        with tf.Session() as session:
            try:
                while True:
                    out.append(as_lists(session.run(following)))
            except tf.errors.OutOfRangeError:
                return out

    def assert_items(self, dataset, expected):
        self.assertEqual(self.items(dataset), expected)


class Sources(Case):
    def test_range(self):
        self.assert_items(Dataset.range(3), [0, 1, 2])
        self.assert_items(Dataset.range(1, 7, 2), [1, 3, 5])
        self.assertRaises(ValueError, Dataset.range)

    def test_slices_of_a_structure(self):
        d = Dataset.from_tensor_slices(([1, 2], {"a": np.arange(4).reshape(2, 2)}))
        self.assertEqual(d.output_types, (tf.int32, {"a": tf.int64}))
        self.assertEqual(d.output_shapes, (tf.TensorShape([]), {"a": tf.TensorShape([2])}))
        self.assert_items(d, [(1, {"a": [0, 1]}), (2, {"a": [2, 3]})])

    def test_slices_must_agree(self):
        self.assertRaises(ValueError, Dataset.from_tensor_slices, ([1, 2], [1, 2, 3]))
        self.assertRaises(ValueError, Dataset.from_tensor_slices, 1)

    def test_sparse_tensors(self):
        x = tf.SparseTensor([[0, 0], [1, 2]], [1.0, 2.0], [2, 3])
        self.assertIs(Dataset.from_tensors(x).output_classes, tf.SparseTensor)
        (value,) = self.items(Dataset.from_tensor_slices(x).batch(2))
        np.testing.assert_array_equal(value.indices, [[0, 0], [1, 2]])
        np.testing.assert_array_equal(value.values, [1, 2])
        np.testing.assert_array_equal(value.dense_shape, [2, 3])

    def test_generator(self):
        def pairs():
            for i in range(3):
                yield i, [i] * i
        d = Dataset.from_generator(pairs, (tf.int32, tf.float32), ([], [None]))
        self.assertEqual(d.output_shapes[1].as_list(), [None])
        self.assert_items(d.repeat(2).skip(2).take(2), [(2, [2.0, 2.0]), (0, [])])
        self.assert_items(Dataset.from_generator(lambda n: iter(range(n)), tf.int64, args=(3,)), [0, 1, 2])
        self.assertRaises(TypeError, Dataset.from_generator, 5, tf.int32)

    def test_generator_that_breaks_its_promise(self):
        d = Dataset.from_generator(lambda: iter([[1, 2, 3]]), tf.int32, [2])
        with tf.Session() as session, self.assertRaisesRegex(tf.errors.InvalidArgumentError, "expected"):
            session.run(d.make_one_shot_iterator().get_next())

    def test_generator_of_arrays_that_break_their_promise(self):
        wrong = [(np.zeros([2], np.float32), 1), (np.zeros([3], np.float64), np.int64(1)), (np.zeros([3], np.complex64), 1),
                 (np.zeros([3], np.float32), np.array([1])), (np.zeros([3], np.float32),), (np.zeros([3], np.float32), "a")]
        for value, fails in zip(wrong, [True, False, True, True, True, True]):
            d = Dataset.from_generator(lambda v=value: iter([v]), (tf.float32, tf.int64), ([3], []))
            if not fails:  # a double may become a float
                self.assert_items(d, [([0.0, 0.0, 0.0], 1)])
                continue
            with tf.Session() as session, self.assertRaises(tf.errors.InvalidArgumentError):
                session.run(d.make_one_shot_iterator().get_next())

    def test_generator_that_writes_into_what_it_yielded(self):
        def rows():
            small, large = np.zeros([2], np.float32), np.zeros([3000], np.float32)
            for i in range(6):
                small[:], large[:] = i, -i
                yield small, large, np.int32(i)
        d = Dataset.from_generator(rows, (tf.float32, tf.float32, tf.int32), ([2], [None], [])).batch(4)
        for (small, large, number), numbers in zip(self.items(d), [[0, 1, 2, 3], [4, 5]]):
            self.assertEqual(number, numbers)
            self.assertEqual(small, [[i, i] for i in numbers])
            self.assertEqual(large, [[-i] * 3000 for i in numbers])

    def test_generator_of_all_types(self):
        types = [tf.float16, tf.float64, tf.uint8, tf.int8, tf.bool, tf.complex64, tf.string]
        values = [np.array([1, 0]).astype(t.as_numpy_dtype) for t in types[:-1]] + [np.array([b"x", b"yy"], object)]
        d = Dataset.from_generator(lambda: iter([tuple(values)]), tuple(types))
        (got,) = self.items(d)
        for g, v in zip(got, values):
            np.testing.assert_array_equal(g, v)
        swapped = np.array([1, 2], ">i4")
        self.assert_items(Dataset.from_generator(lambda: iter([swapped]), tf.int32, [2]), [[1, 2]])
        strided = np.arange(6, dtype=np.int32)[::2]
        self.assert_items(Dataset.from_generator(lambda: iter([strided, [7, 8, 9]]), tf.int32, [3]), [[0, 2, 4], [7, 8, 9]])

    def test_generators_of_one_thread_share_its_python_state(self):
        local, made = threading.local(), []

        def numbers():
            for i in range(20):
                if not hasattr(local, "name"):
                    local.name = object()
                    made.append(local.name)
                yield i
        self.assertEqual(len(self.items(Dataset.from_generator(numbers, tf.int64))), 20)
        self.assertLess(len(made), 4)  # the first call may be made by another thread

    def test_probing_of_csv_files(self):
        with tempfile.TemporaryDirectory() as folder:
            name = os.path.join(folder, "c.gz")
            with gzip.open(name, "wt") as f:
                f.write("a,b\n1,x\n")
            whole = experimental.make_csv_dataset(name, 1, num_epochs=1, shuffle=False, compression_type="GZIP")
            self.assertEqual([d.name for d in whole.output_types.values()], ["int32", "string"])
            with gzip.open(name, "at") as f:
                f.write("2\n")
            with self.assertRaisesRegex(ValueError, "Problem inferring types"):
                experimental.make_csv_dataset(name, 1, compression_type="GZIP")
            with self.assertRaisesRegex(ValueError, "ZLIB"):
                experimental.make_csv_dataset(name, 1, compression_type="ZLIB")

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in ("a.txt", "1\n2\n"), ("b.txt", "3\n"):
                with open(os.path.join(folder, name), "w") as f:
                    f.write(text)
            names = [os.path.join(folder, n) for n in ("a.txt", "b.txt")]
            self.assert_items(Dataset.list_files(folder + "/*.txt", shuffle=False), [n.encode() for n in names])
            self.assert_items(tf.data.TextLineDataset(names), [b"1", b"2", b"3"])
            self.assert_items(tf.data.TextLineDataset(names, num_parallel_reads=2), [b"1", b"3", b"2"])
            self.assert_items(Dataset.list_files(folder + "/*.txt", shuffle=False).flat_map(tf.data.TextLineDataset),
                              [b"1", b"2", b"3"])
            self.assert_items(tf.data.TextLineDataset(Dataset.from_tensor_slices(names)), [b"1", b"2", b"3"])
            self.assert_items(tf.data.FixedLengthRecordDataset(names[0], 2, header_bytes=2), [b"2\n"])
            record = os.path.join(folder, "r")
            with tf.Session() as session:
                session.run(experimental.TFRecordWriter(record).write(Dataset.from_tensor_slices(["x", "y"])))
            self.assert_items(tf.data.TFRecordDataset([record]), [b"x", b"y"])
            self.assert_items(tf.data.TFRecordDataset(record, num_parallel_reads=2), [b"x", b"y"])
            with tf.Session() as session, self.assertRaisesRegex(tf.errors.InvalidArgumentError, "No files matched"):
                session.run(Dataset.list_files(folder + "/none*").make_one_shot_iterator().get_next())

    def test_lmdb(self):
        def page(number, flags, lower, body):
            return struct.pack("<QHHHH", number, 0, flags, lower, 0) + body

        def meta(number):
            free = struct.pack("<IHH5Q", 4096, 0, 0, 0, 0, 0, 0, 2 ** 64 - 1)
            head = struct.pack("<IIQQ", 0xbeefc0de, 1, 0, 1 << 20)
            main = struct.pack("<IHH5Q", 0, 0, 1, 0, 1, 0, 2, 2)
            return page(number, 8, 0, head + free + main + struct.pack("<QQ", 2, number)).ljust(4096, b"\0")

        def entry(key, value):
            return struct.pack("<IHH", len(value), 0, len(key)) + key + value

        first, second = entry(b"k1", b"v1"), entry(b"k2", b"")
        entries = (first + second).rjust(4096 - 20, b"\0")
        offsets = struct.pack("<HH", 4096 - len(first + second), 4096 - len(second))
        with tempfile.TemporaryDirectory() as folder, tf.Graph().as_default():
            with open(os.path.join(folder, "data.mdb"), "wb") as f:
                f.write(meta(0) + meta(1) + page(2, 2, 20, offsets + entries))
            self.assert_items(tf.contrib.data.LMDBDataset([folder]), [(b"k1", b"v1"), (b"k2", b"")])
            queue = tf.FIFOQueue(1, [tf.string], [[]])
            read = tf.LMDBReader().read_up_to(queue, 9)
            with tf.Session() as session:
                session.run(queue.enqueue(folder))
                session.run(queue.close())
                keys, values = session.run(read)
                self.assertEqual((list(keys), list(values)), ([b"k1", b"k2"], [b"v1", b""]))

    def test_csv(self):
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as f:
            f.write("a,b,c\n1,x,2.5\n3,y,1e3\n")
            f.flush()
            d = experimental.make_csv_dataset(f.name, 2, label_name="c", shuffle=False, num_epochs=1)
            self.assert_items(d, [({"a": [1, 3], "b": [b"x", b"y"]}, [2.5, 1000.0])])
            self.assert_items(experimental.CsvDataset(f.name, [tf.int32, [""]], header=True, select_cols=[0, 1]),
                              [(1, b"x"), (3, b"y")])


class Transformations(Case):
    def test_map_takes_tuples_apart(self):
        d = Dataset.from_tensor_slices(([1, 2], [3, 4]))
        self.assert_items(d.map(lambda x, y: x + y), [4, 6])
        self.assert_items(d.map(lambda x, y: {"s": x * y}, num_parallel_calls=2), [{"s": 3}, {"s": 8}])
        self.assert_items(d.map(lambda x, y: [x, tf.to_float(y)]), [(1, 3.0), (2, 4.0)])

    def test_map_captures(self):
        y = tf.constant(10, tf.int64)
        self.assert_items(Dataset.range(2).map(lambda x: x + y), [10, 11])

    def test_map_of_nothing(self):
        self.assertRaises(TypeError, Dataset.range(2).map, lambda x: None)

    def test_py_func_inside(self):
        d = Dataset.range(3).map(lambda x: tf.py_func(lambda v: v * 2, [x], tf.int64))
        self.assert_items(d, [0, 2, 4])

    def test_py_funcs_of_a_parallel_map_wait_for_each_other(self):
        meeting = threading.Barrier(4, timeout=30)
        f = lambda x: tf.py_func(lambda v: (meeting.wait(), v)[1], [x], tf.int64)  # noqa: E731
        self.assert_items(Dataset.range(8).map(f, num_parallel_calls=4), list(range(8)))
        self.assert_items(Dataset.range(4).apply(tf.data.experimental.map_and_batch(f, 4, num_parallel_calls=4)), [[0, 1, 2, 3]])

    def test_without_inter_op_parallelism_py_funcs_share_a_thread(self):
        f, specs = functions.built(
            lambda x: [tf.py_func(lambda: np.int64(threading.get_ident()), [], tf.int64) for _ in range(10)],
            Dataset.range(1).element_spec, "Dataset.map()")
        arguments = dict(f=f, other_arguments=[], use_inter_op_parallelism=False)
        calls = tf.constant(4)
        for d in (Dataset.range(8)._new("MapDataset", specs, **arguments),
                  Dataset.range(8)._new("ParallelMapDataset", specs, num_parallel_calls=calls, **arguments)):
            for threads in self.items(d):
                self.assertEqual(len(set(threads)), 1)

    def test_filter(self):
        self.assert_items(Dataset.range(5).filter(lambda x: tf.equal(x % 2, 0)), [0, 2, 4])
        self.assertRaises(ValueError, Dataset.range(5).filter, lambda x: x)

    def test_flat_map_and_interleave(self):
        self.assert_items(Dataset.range(4).flat_map(Dataset.range), [0, 0, 1, 0, 1, 2])
        repeated = lambda x: Dataset.from_tensors(x).repeat(3)  # noqa: E731
        self.assert_items(Dataset.range(2).interleave(repeated, cycle_length=2, block_length=2), [0, 0, 1, 1, 0, 1])
        self.assert_items(Dataset.range(2).interleave(repeated, 2, 1, num_parallel_calls=2), [0, 1, 0, 1, 0, 1])
        self.assertRaises(TypeError, Dataset.range(2).flat_map, lambda x: x)

    def test_a_parallel_interleave_passes_errors_on(self):
        d = Dataset.from_tensor_slices([1., np.nan, 2., np.nan, 3.]).map(lambda x: tf.check_numerics(x, "bad"))
        d = d.interleave(Dataset.from_tensors, 7, 2, num_parallel_calls=3)
        following, got = d.make_one_shot_iterator().get_next(), []
        with tf.Session() as session:
            for _ in range(5):
                try:
                    got.append(session.run(following))
                except tf.errors.InvalidArgumentError:
                    got.append("error")
            self.assertEqual(got, [1., "error", 2., "error", 3.])
            self.assertRaises(tf.errors.OutOfRangeError, session.run, following)

    def test_batch(self):
        d = Dataset.range(5).batch(2)
        self.assertEqual(d.output_shapes.as_list(), [None])
        self.assert_items(d, [[0, 1], [2, 3], [4]])
        d = Dataset.range(5).batch(2, drop_remainder=True)
        self.assertEqual(d.output_shapes.as_list(), [2])
        self.assert_items(d, [[0, 1], [2, 3]])
        self.assert_items(d.unbatch(), [0, 1, 2, 3])

    def test_padded_batch(self):
        d = Dataset.range(1, 4).map(lambda n: tf.fill([n], n))
        self.assert_items(d.padded_batch(2, [None], np.int64(-1)), [[[1, -1], [2, 2]], [[3, 3, 3]]])
        self.assert_items(d.padded_batch(3, [4]), [[[1, 0, 0, 0], [2, 2, 0, 0], [3, 3, 3, 0]]])
        self.assertRaises(TypeError, d.padded_batch, 2, [None], 0.5)
        self.assertRaises(ValueError, d.padded_batch, 2, [None, None])

    def test_order_and_number(self):
        d = Dataset.range(4)
        self.assert_items(d.repeat(2), [0, 1, 2, 3] * 2)
        self.assert_items(d.skip(1).take(2), [1, 2])
        self.assert_items(d.shard(2, 1), [1, 3])
        self.assertEqual(sorted(self.items(d.shuffle(4))), [0, 1, 2, 3])
        self.assertEqual(self.items(d.shuffle(4, seed=5)), self.items(d.shuffle(4, seed=5)))
        self.assert_items(d.concatenate(Dataset.range(1)), [0, 1, 2, 3, 0])
        self.assert_items(d.take(2).enumerate(start=5), [(5, 0), (6, 1)])
        self.assert_items(d.cache().prefetch(2), [0, 1, 2, 3])
        with self.assertRaises(tf.errors.InvalidArgumentError):  # when it runs: the numbers may be tensors
            self.items(d.shard(2, 2))
        self.assertRaises(TypeError, d.concatenate, Dataset.from_tensors(1.0))

    def test_unbatch_refuses_elements_whose_rows_differ(self):
        first, second = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.int32)
        it = Dataset.from_tensors((first, second)).unbatch().make_initializable_iterator()
        following = it.get_next()
        with tf.Session() as session:
            for value, message in ((np.arange(8), "Component 0 had size 7 but component 1 had size, 8"),
                                   (7, "must have a non-scalar value in each component")):
                session.run(it.initializer, {first: np.arange(7), second: value})
                with self.assertRaisesRegex(tf.errors.InvalidArgumentError, message):
                    session.run(following)

    def test_what_cannot_be_put_together_is_refused(self):
        d = Dataset.range(4)
        with self.assertRaisesRegex(TypeError, "Two datasets to concatenate have different types"):
            d.concatenate(Dataset.from_tensors(1.0))
        with self.assertRaisesRegex(ValueError, "Cannot unbatch an input with scalar components"):
            d.unbatch()
        self.assertRaises(ValueError, Dataset.from_tensors(([1, 2], [1, 2, 3])).unbatch)
        one, other = tf.data.Options(), tf.data.Options()
        one.experimental_deterministic, other.experimental_deterministic = True, False
        self.assertTrue(d.with_options(one).with_options(one).options().experimental_deterministic)
        with self.assertRaisesRegex(ValueError, "Cannot merge incompatible values"):
            d.with_options(one).with_options(other)
        self.assertEqual(d.map(lambda x: x)._inputs(), [d])

    def test_the_end_that_a_function_meets_is_the_end_of_the_dataset(self):
        def up_to_3(i):
            if i == 3:
                raise StopIteration()
            return i

        for calls in (None, 2):
            self.assert_items(Dataset.range(9).map(lambda x: tf.py_func(up_to_3, [x], tf.int64), calls), [0, 1, 2])

    def test_datasets_and_sparse_tensors_have_rows(self):
        several = Dataset.from_tensor_slices([Dataset.range(2), Dataset.range(1)])
        self.assert_items(several.flat_map(lambda d: d), [0, 1, 0])
        again = Dataset.range(3).map(Dataset.from_tensors).batch(3).map(lambda d: d).unbatch().flat_map(lambda d: d)
        self.assert_items(again, [0, 1, 2])
        rows = Dataset.from_tensors(tf.SparseTensor([[0, 0], [1, 1]], [5, 6], [2, 2])).unbatch()
        self.assertEqual([s.indices.tolist() + s.values.tolist() for s in self.items(rows)], [[[0], 5], [[1], 6]])

    def test_a_seed_of_the_graph_around_a_function_is_warned_of(self):
        def without_seed(x):
            tf.get_default_graph().seed = None
            return tf.random_shuffle(x)

        numbers = tf.data.Dataset.range(10).batch(2)
        text = "Seed 10 from outer graph might be getting used by function <lambda>.*Explicitly set the seed in the function"
        tf.set_random_seed(10)
        with self.assertWarnsRegex(UserWarning, text):
            numbers.map(lambda x: tf.random_shuffle(x))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for f in (tf.square, without_seed, lambda x: tf.random_shuffle(x, seed=37)):
                numbers.map(f)
            tf.set_random_seed(None)
            numbers.map(tf.random_shuffle)

    def test_a_table_made_in_a_function_is_warned_of(self):
        def with_table(x):
            tf.contrib.lookup.HashTable(tf.contrib.lookup.KeyValueTensorInitializer(["a"], [1.]), 0.0)
            return x

        with self.assertWarnsRegex(UserWarning, "Creating resources inside a function passed to Dataset.map"):
            Dataset.range(2).map(with_table)

    def test_optionals(self):
        Optional = tf.data.experimental.Optional
        some = Optional.from_value((tf.constant(1), {"a": tf.constant([2.0])}))
        none = Optional.none_from_structure(some.value_structure)
        with tf.Session() as sess:
            self.assertEqual(sess.run([some.has_value(), none.has_value()]), [True, False])
            number, rest = sess.run(some.get_value())
            self.assertEqual((number, rest["a"].tolist()), (1, [2.0]))
            with self.assertRaises(tf.errors.InvalidArgumentError):
                sess.run(none.get_value())
            following = tf.data.experimental.get_next_as_optional(Dataset.range(1).make_one_shot_iterator())
            self.assertEqual([sess.run(following.has_value()) for _ in range(3)], [True, False, False])

    def test_an_iterator_has_one_string_handle(self):
        it = Dataset.range(4).make_one_shot_iterator()
        self.assertIs(it.string_handle(), it.string_handle())

    def test_nests_of_elements_have_lists_at_their_leaves(self):
        from tensorflow.python.data.util import nest
        self.assertEqual(nest.flatten(([1, 2], {"b": 3, "a": [4]})), [[1, 2], [4], 3])
        self.assertEqual(nest.map_structure(len, ([1, 2], {"a": [4]})), (2, {"a": 1}))
        self.assertRaises(ValueError, nest.assert_same_structure, (1, 2), (1, (2, 3)))

    def test_zip(self):
        d = Dataset.zip((Dataset.range(3), {"b": Dataset.range(5, 7)}))
        self.assert_items(d, [(0, {"b": 5}), (1, {"b": 6})])
        self.assertRaises(TypeError, Dataset.zip, [Dataset.range(1)])

    def test_window(self):
        windows = Dataset.range(5).window(2, shift=2, drop_remainder=True)
        self.assert_items(windows.flat_map(lambda w: w.batch(2)), [[0, 1], [2, 3]])

    def test_reduce(self):
        total, count = Dataset.range(5).reduce((np.int64(0), 0), lambda s, x: (s[0] + x, s[1] + 1))
        with tf.Session() as session:
            self.assertEqual(session.run([total, count]), [10, 5])

    def test_options(self):
        options = tf.data.Options()
        options.experimental_deterministic = False
        self.assertFalse(Dataset.range(2).with_options(options).map(lambda x: x).options().experimental_deterministic)
        with self.assertRaises(AttributeError):
            options.nonsense = 1


class Experimental(Case):
    def test_fused(self):
        self.assert_items(Dataset.range(5).apply(experimental.map_and_batch(lambda x: x + 1, 3)), [[1, 2, 3], [4, 5]])
        d = Dataset.range(3).apply(experimental.shuffle_and_repeat(3, 2, seed=1))
        self.assertEqual(sorted(self.items(d)), [0, 0, 1, 1, 2, 2])

    def test_groups(self):
        d = Dataset.range(6)
        self.assert_items(d.apply(experimental.group_by_window(lambda x: x % 2, lambda k, g: g.batch(3), 3)),
                          [[0, 2, 4], [1, 3, 5]])
        adds = experimental.Reducer(lambda k: np.int64(0), lambda s, x: s + x, lambda s: s)
        self.assert_items(d.apply(experimental.group_by_reducer(lambda x: x % 2, adds)), [6, 9])

    def test_buckets(self):
        d = Dataset.range(1, 6).map(lambda n: tf.fill([n], n))
        d = d.apply(experimental.bucket_by_sequence_length(tf.size, [3], [2, 2]))
        self.assert_items(d, [[[1, 0], [2, 2]], [[3, 3, 3, 0], [4, 4, 4, 4]], [[5] * 5]])

    def test_single_ones(self):
        d = Dataset.range(5)
        self.assert_items(d.apply(experimental.scan(np.int64(0), lambda s, x: (s + x, s))), [0, 0, 1, 3, 6])
        self.assert_items(d.apply(experimental.take_while(lambda x: x < 2)), [0, 1])
        self.assert_items(Dataset.from_tensor_slices([1, 1, 2]).apply(experimental.unique()), [1, 2])
        self.assert_items(experimental.choose_from_datasets([d, d], Dataset.from_tensor_slices(np.array([0, 1, 0]))), [0, 0, 1])
        self.assertEqual(sorted(self.items(experimental.sample_from_datasets([d, d], seed=1))), sorted(2 * [0, 1, 2, 3, 4]))
        failing = Dataset.from_tensor_slices([1.0, 0.0]).map(lambda x: tf.check_numerics(1 / x, "no"))
        self.assert_items(failing.apply(experimental.ignore_errors()), [1.0])
        self.assert_items(experimental.Counter(3).take(2), [3, 4])
        with tf.Session() as session:
            self.assertEqual(session.run(experimental.cardinality(d)), 5)
            self.assertEqual(session.run(experimental.get_single_element(d.batch(5))).tolist(), [0, 1, 2, 3, 4])


class AnyOrder(Case):
    """The first element is ready only when all others were taken; datasets that keep the order would wait for ever."""

    def setUp(self):
        super().setUp()
        self.all_taken = threading.Event()

    def late(self, x):
        def first_waits(v):
            if v == 0 and not self.all_taken.wait(30):
                raise ValueError("0 was waited for before the others were taken")
            return v
        return tf.py_func(first_waits, [x], tf.int64)

    def assert_first_is_last(self, dataset, n, one_shot=True):
        iterator = dataset.make_one_shot_iterator() if one_shot else dataset.make_initializable_iterator()
        following, got = iterator.get_next(), []
        with tf.Session() as session:
            if not one_shot:
                session.run(iterator.initializer)
            for i in range(n):
                if i == n - 1:
                    self.all_taken.set()
                got.append(session.run(following))
            self.assertRaises(tf.errors.OutOfRangeError, session.run, following)
        self.assertEqual(sorted(got), list(range(n)))
        self.assertEqual(got[-1], 0)

    @staticmethod
    def not_deterministic():
        options = tf.data.Options()
        options.experimental_deterministic = False
        return options

    def test_map(self):
        d = Dataset.range(6).map(self.late, num_parallel_calls=2).with_options(self.not_deterministic())
        self.assert_first_is_last(d, 6)
        self.all_taken.clear()
        self.assert_first_is_last(d, 6, one_shot=False)

    def test_options_reach_what_comes_before_and_behind_them(self):
        d = Dataset.range(6).with_options(self.not_deterministic()).map(self.late, num_parallel_calls=2)
        self.assert_first_is_last(d.map(lambda x: x + 0).prefetch(1).batch(1).unbatch(), 6)

    def rows(self, x):
        return Dataset.range(2 * x, 2 * x + 1).concatenate(Dataset.range(2 * x + 1, 2 * x + 2)).map(self.late)

    def test_interleave(self):
        """0 holds one of the two calls, and 1 comes behind it."""
        d = Dataset.range(5).interleave(lambda x: Dataset.from_tensors(x).map(self.late), 3, num_parallel_calls=2)
        self.assert_first_is_last(d.with_options(self.not_deterministic()), 5)

    def test_interleave_gives_the_rest_of_a_late_dataset(self):
        d = Dataset.range(3).interleave(self.rows, 3, 2, num_parallel_calls=3).with_options(self.not_deterministic())
        following, got = d.make_one_shot_iterator().get_next(), []
        with tf.Session() as session:
            for i in range(6):
                if i == 4:
                    self.all_taken.set()
                got.append(session.run(following))
        self.assertEqual(sorted(got[:4]), [2, 3, 4, 5])
        self.assertEqual(got[4:], [0, 1])

    def test_sloppy_parallel_interleave(self):
        one = lambda x: Dataset.from_tensors(x).map(self.late)  # noqa: E731
        self.assert_first_is_last(Dataset.range(5).apply(experimental.parallel_interleave(one, 3, sloppy=True)), 5)
        d = Dataset.range(5).apply(experimental.parallel_interleave(lambda x: Dataset.from_tensors(x), 3, sloppy=False))
        self.assert_items(d.with_options(self.not_deterministic()), [0, 1, 2, 3, 4])


class Iterators(Case):
    def test_random_numbers_of_functions_restart_with_each_iterator(self):
        one = lambda x: tf.random_uniform([], seed=7)
        for d in (Dataset.range(4).map(one), Dataset.range(4).map(one, num_parallel_calls=1),
                  Dataset.range(4).map(lambda x: tf.cond(x < 9, lambda: tf.random_uniform([], seed=7), lambda: 0.0)),
                  Dataset.range(2).flat_map(lambda x: Dataset.range(2).map(one))):
            it = d.make_initializable_iterator()
            n = it.get_next()
            with tf.Session() as s:
                runs = []
                for _ in range(2):
                    s.run(it.initializer)
                    runs.append([float(s.run(n)) for _ in range(4)])
            self.assertEqual(runs[0], runs[1])
            self.assertEqual(len(set(runs[0])), 4)

    def test_initializable_with_a_feed(self):
        n = tf.placeholder(tf.int64, [])
        iterator = Dataset.range(n).make_initializable_iterator()
        following = iterator.get_next()
        with tf.Session() as session:
            for count in 2, 3:
                session.run(iterator.initializer, {n: count})
                for i in range(count):
                    self.assertEqual(session.run(following), i)
                with self.assertRaises(tf.errors.OutOfRangeError):
                    session.run(following)

    def test_not_initialized(self):
        following = Dataset.range(1).make_initializable_iterator().get_next()
        with tf.Session() as session, self.assertRaises(tf.errors.FailedPreconditionError):
            session.run(following)

    def test_reinitializable(self):
        iterator = tf.data.Iterator.from_structure(tf.int64, [])
        a, b = iterator.make_initializer(Dataset.range(2)), iterator.make_initializer(Dataset.range(7, 9))
        following = iterator.get_next()
        with tf.Session() as session:
            session.run(a)
            self.assertEqual(session.run(following), 0)
            session.run(b)
            self.assertEqual(session.run(following), 7)
        self.assertRaises(TypeError, iterator.make_initializer, Dataset.from_tensors(1.0))
        self.assertRaises(TypeError, iterator.make_initializer, Dataset.range(2).batch(2))
        with self.assertRaisesRegex(ValueError, "does not have an initializer"):
            iterator.initializer

    def test_handles(self):
        first, second = Dataset.range(2).make_one_shot_iterator(), Dataset.range(5, 7).make_initializable_iterator()
        handle = tf.placeholder(tf.string, [])
        following = tf.data.Iterator.from_string_handle(handle, first.output_types, first.output_shapes).get_next()
        with tf.Session() as session:
            one, two = session.run([first.string_handle(), second.string_handle()])
            session.run(second.initializer)
            self.assertEqual([session.run(following, {handle: h}) for h in (one, two, one, two)], [0, 5, 1, 6])

    def test_one_shot_takes_no_state(self):
        with self.assertRaisesRegex(ValueError, "make_initializable_iterator"):
            Dataset.from_tensors(tf.placeholder(tf.int32)).make_one_shot_iterator()
        v = tf.Variable(3, dtype=tf.int64)
        with self.assertRaisesRegex(ValueError, "make_initializable_iterator"):
            Dataset.range(2).map(lambda x: x + v).make_one_shot_iterator()

    def test_variables_in_functions(self):
        v = tf.Variable(np.int64(3))
        iterator = Dataset.range(2).map(lambda x: x + v).make_initializable_iterator()
        following = iterator.get_next()
        with tf.Session() as session:
            session.run(v.initializer)
            session.run(iterator.initializer)
            self.assertEqual(session.run(following), 3)


if __name__ == "__main__":
    unittest.main()
