"""Strings, parsing, files and tables."""

import os
import tempfile
import unittest

import numpy as np

import millrace as tf


class Case(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()

    def value(self, fetches, feeds=None):
        with tf.Session() as session:
            session.run(tf.tables_initializer())
            v = session.run(fetches, feeds)
        return v.tolist() if isinstance(v, (np.ndarray, np.generic)) else v

    def dense(self, s, default=None):
        return self.value(tf.sparse_tensor_to_dense(s, default_value=default))


class Strings(Case):
    def test_split(self):
        s = tf.string_split(["a b", "c d e"])
        self.assertEqual(self.dense(s, ""), [[b"a", b"b", b""], [b"c", b"d", b"e"]])
        self.assertEqual(self.dense(tf.string_split(["a,,b"], ",", skip_empty=False), ""), [[b"a", b"", b"b"]])
        self.assertEqual(self.dense(tf.strings.split(["a  b"]), ""), [[b"a", b"b"]])

    def test_numbers(self):
        self.assertEqual(self.value(tf.string_to_number(["1", "2.5"])), [1, 2.5])
        self.assertEqual(self.value(tf.string_to_number("7", tf.int64)), 7)
        self.assertEqual(self.value(tf.as_string([1, 2])), [b"1", b"2"])
        with self.assertRaises(tf.errors.InvalidArgumentError):
            self.value(tf.string_to_number("x"))

    def test_pieces(self):
        self.assertEqual(self.value(tf.string_join(["a", ["b", "c"]], separator="-")), [b"a-b", b"a-c"])
        self.assertEqual(self.value(tf.substr("hello", 1, 3)), b"ell")
        self.assertEqual(self.value(tf.reduce_join([["a", "b"], ["c", "d"]], 1)), [b"ab", b"cd"])
        self.assertEqual(self.value(tf.reduce_join([["a", "b"], ["c", "d"]])), b"abcd")
        self.assertEqual(self.value(tf.regex_replace("a1b2", r"\d", "#")), b"a#b#")
        self.assertEqual(self.value(tf.strings.regex_full_match(["ab", "b"], "a.*")), [True, False])
        self.assertEqual(self.value(tf.strings.length(["", "abc"])), [0, 3])
        self.assertEqual(self.value(tf.strings.lower("ABC")), b"abc")
        self.assertEqual(self.value(tf.strings.format("x = {}", tf.constant(3))), b"x = 3")
        self.assertEqual(self.value(tf.decode_base64(tf.encode_base64("hi"))), b"hi")
        buckets = self.value(tf.string_to_hash_bucket_fast(["a", "b", "a"], 10))
        self.assertEqual(buckets[0], buckets[2])

    def test_raw(self):
        self.assertEqual(self.value(tf.decode_raw(np.array([1, 2], np.int16).tobytes(), tf.int16)), [1, 2])
        self.assertEqual(self.value(tf.decode_raw(bytes=b"\1\2", out_type=tf.uint8)), [1, 2])


class Parsing(Case):
    def example(self, **features):
        e = tf.train.Example()
        for key, values in features.items():
            f = e.features.feature[key]
            if isinstance(values[0], bytes):
                f.bytes_list.value.extend(values)
            elif isinstance(values[0], float):
                f.float_list.value.extend(values)
            else:
                f.int64_list.value.extend(values)
        return e.SerializeToString()

    def test_single_example(self):
        parsed = tf.parse_single_example(self.example(a=[1, 2], b=[b"x"], c=[0.5]), features={
            "a": tf.FixedLenFeature([2], tf.int64), "b": tf.VarLenFeature(tf.string), "c": tf.FixedLenFeature([], tf.float32),
            "d": tf.FixedLenFeature([], tf.int64, default_value=9)})
        self.assertEqual(parsed["a"].shape.as_list(), [2])
        v = self.value(parsed)
        self.assertEqual(v["a"].tolist(), [1, 2])
        self.assertEqual(v["b"].values.tolist(), [b"x"])
        self.assertEqual((v["c"], v["d"]), (0.5, 9))

    def test_missing(self):
        with self.assertRaisesRegex(tf.errors.InvalidArgumentError, "a"):
            self.value(tf.parse_single_example(self.example(b=[1]), {"a": tf.FixedLenFeature([], tf.int64)}))
        self.assertRaises(ValueError, tf.parse_single_example, "", {})
        self.assertRaises(ValueError, tf.parse_example, [""], {"a": 5})

    def test_batch(self):
        examples = [self.example(a=[1], s=[3, 4]), self.example(a=[2])]
        parsed = tf.parse_example(examples, {
            "a": tf.FixedLenFeature((), tf.int64), "s": tf.FixedLenSequenceFeature([], tf.int64, allow_missing=True)})
        v = self.value(parsed)
        self.assertEqual(v["a"].tolist(), [1, 2])
        self.assertEqual(v["s"].tolist(), [[3, 4], [0, 0]])

    def test_sparse_feature(self):
        examples = [self.example(i=[2, 0], v=[1.5, 2.5]), self.example(i=[1], v=[3.5])]
        s = tf.parse_example(examples, {"x": tf.SparseFeature("i", "v", tf.float32, 4)})["x"]
        self.assertEqual(self.dense(s), [[2.5, 0, 1.5, 0], [0, 3.5, 0, 0]])

    def test_sequence_example(self):
        e = tf.train.SequenceExample()
        e.context.feature["n"].int64_list.value.append(2)
        for x in 1, 2:
            e.feature_lists.feature_list["t"].feature.add().int64_list.value.append(x)
        context, lists = tf.parse_single_sequence_example(
            e.SerializeToString(), context_features={"n": tf.FixedLenFeature([], tf.int64)},
            sequence_features={"t": tf.FixedLenSequenceFeature([], tf.int64)})
        v = self.value([context, lists])
        self.assertEqual((v[0]["n"], v[1]["t"].tolist()), (2, [1, 2]))
        context, lists, lengths = tf.io.parse_sequence_example(
            [e.SerializeToString()], context_features={"n": tf.FixedLenFeature([], tf.int64)},
            sequence_features={"t": tf.FixedLenSequenceFeature([], tf.int64)})
        v = self.value([context, lists, lengths])
        self.assertEqual((v[0]["n"].tolist(), v[1]["t"].tolist(), v[2]["t"].tolist()), ([2], [[1, 2]], [2]))

    def test_csv(self):
        a, b = tf.decode_csv(["1,x", ",y"], record_defaults=[[7], [""]])
        self.assertEqual([x.tolist() for x in self.value([a, b])], [[1, 7], [b"x", b"y"]])
        self.assertRaises(ValueError, tf.decode_csv, "1,2", [[0]], select_cols=[0, 1])

    def test_tensors(self):
        packed = tf.serialize_tensor(tf.constant([1, 2]))
        self.assertEqual(self.value(tf.parse_tensor(packed, tf.int32)), [1, 2])


class Files(Case):
    def test_there_and_back(self):
        with tempfile.TemporaryDirectory() as folder:
            name = os.path.join(folder, "sub", "f")
            self.value(tf.write_file(name, "text"))
            self.assertEqual(self.value(tf.read_file(name)), b"text")
            self.assertEqual(self.value(tf.matching_files(folder + "/sub/*")), [name.encode()])


class Tables(Case):
    def test_from_tensor(self):
        table = tf.contrib.lookup.index_table_from_tensor(mapping=tf.constant(["a", "b"]), default_value=-1)
        self.assertEqual(self.value(table.lookup(tf.constant(["b", "c", "a"]))), [1, -1, 0])
        self.assertEqual(self.value(table.size()), 2)
        buckets = tf.contrib.lookup.index_table_from_tensor(["a", "b"], num_oov_buckets=3)
        v = self.value(buckets.lookup(tf.constant(["b", "zzz"])))
        self.assertTrue(v[0] == 1 and 2 <= v[1] < 5)
        tf.contrib.lookup.index_table_from_tensor(np.array([], np.str_), num_oov_buckets=1)
        with tf.Session() as s, self.assertRaisesRegex(tf.errors.InvalidArgumentError, "keys and values cannot be empty"):
            s.run(tf.tables_initializer())

    def test_from_file(self):
        with tempfile.NamedTemporaryFile("w") as f:
            f.write("x\ny\n")
            f.flush()
            there = tf.contrib.lookup.index_table_from_file(f.name)
            back = tf.contrib.lookup.index_to_string_table_from_file(f.name)
            self.assertEqual(self.value(there.lookup(tf.constant(["y"]))), [1])
            self.assertEqual(self.value(back.lookup(tf.constant([0, 5], tf.int64))), [b"x", b"UNK"])

    def test_hash_table(self):
        table = tf.contrib.lookup.HashTable(tf.contrib.lookup.KeyValueTensorInitializer([1, 2], [10.0, 20.0], tf.int64,
                                                                                        tf.float32), -1)
        self.assertEqual(self.value(table.lookup(tf.constant([2, 3], tf.int64))), [20, -1])
        s = tf.SparseTensor([[0, 1]], tf.constant([1], tf.int64), [1, 2])
        self.assertEqual(self.dense(table.lookup(s)), [[0, 10]])
        self.assertRaises(TypeError, table.lookup, tf.constant(["x"]))

    def test_not_initialized(self):
        table = tf.contrib.lookup.index_table_from_tensor(["a"])
        with tf.Session() as session, self.assertRaises(tf.errors.FailedPreconditionError):
            session.run(table.lookup(tf.constant("a")))

    def test_mutable(self):
        table = tf.contrib.lookup.MutableHashTable(tf.string, tf.int64, -1)
        dense = tf.contrib.lookup.MutableDenseHashTable(tf.int64, tf.float32, [0.0, 0.0], empty_key=-1, deleted_key=-2)
        with tf.Session() as session:
            session.run([table.insert(["a"], [5]), dense.insert([3], [[1.0, 2.0]])])
            self.assertEqual(session.run(table.lookup(tf.constant(["a", "b"]))).tolist(), [5, -1])
            self.assertEqual(session.run(dense.lookup(tf.constant([3, 4], tf.int64))).tolist(), [[1, 2], [0, 0]])
            keys, values = session.run(table.export())
            self.assertEqual((keys.tolist(), values.tolist()), ([b"a"], [5]))
            session.run(table.remove(["a"]))
            self.assertEqual(session.run(table.size()), 0)

    def test_mutable_tables_are_in_checkpoints(self):
        with tf.name_scope("s"):
            table = tf.contrib.lookup.MutableHashTable(tf.string, tf.int64, -1, name="pairs")
        dense = tf.contrib.lookup.MutableDenseHashTable(tf.int64, tf.float32, [0.0, 0.0], empty_key=-1, deleted_key=-2)
        tf.contrib.lookup.MutableHashTable(tf.string, tf.int64, -1, name="pairs", checkpoint=False)
        saver = tf.train.Saver()
        tf.identity(table.lookup(tf.placeholder(tf.string, [1], name="key")), name="found")
        with tempfile.TemporaryDirectory() as folder, tf.Session() as session:
            session.run([table.insert(["a"], [5]), dense.insert([3], [[1.0, 2.0]])])
            prefix = saver.save(session, folder + "/tables")
            with tf.Graph().as_default(), tf.Session() as other:
                tf.train.import_meta_graph(prefix + ".meta").restore(other, prefix)
                found = other.run("found:0", {"key:0": ["a"]})
            self.assertEqual([5], found.tolist())
            self.assertIn("pairs-keys", [name for name, _ in tf.train.list_variables(prefix)])
            session.run([table.remove(["a"]), table.insert(["b"], [6])])
            saver.restore(session, prefix)
            self.assertEqual([5, -1], session.run(table.lookup(tf.constant(["a", "b"]))).tolist())
            self.assertEqual([[1, 2]], session.run(dense.lookup(tf.constant([3], tf.int64))).tolist())


class Sparse(Case):
    def setUp(self):
        super().setUp()
        self.a = tf.SparseTensor([[0, 0], [1, 2]], [1.0, 2.0], [2, 3])
        self.dense_a = np.array([[1, 0, 0], [0, 0, 2]], np.float32)

    def test_dense(self):
        self.assertEqual(self.dense(self.a), self.dense_a.tolist())
        self.assertEqual(self.value(tf.sparse_to_dense([0, 2], [3], 1.0, 0.0)), [1, 0, 1])
        self.assertEqual(self.dense(tf.sparse.from_dense(self.dense_a)), self.dense_a.tolist())

    def test_arithmetic(self):
        self.assertEqual(self.dense(tf.sparse_add(self.a, self.a)), (2 * self.dense_a).tolist())
        self.assertEqual(self.value(tf.sparse_add(self.a, np.ones([2, 3], np.float32))), (1 + self.dense_a).tolist())
        b = np.arange(6, dtype=np.float32).reshape(3, 2)
        self.assertEqual(self.value(tf.sparse_tensor_dense_matmul(self.a, b)), (self.dense_a @ b).tolist())
        self.assertEqual(self.value(tf.sparse_reduce_sum(self.a, 1)), [1, 2])
        self.assertEqual(self.value(tf.sparse_reduce_sum(self.a)), 3)
        self.assertEqual(self.dense(tf.sparse_maximum(self.a, tf.sparse_add(self.a, self.a))), (2 * self.dense_a).tolist())

    def test_forms(self):
        self.assertEqual(self.dense(tf.sparse_transpose(self.a)), self.dense_a.T.tolist())
        self.assertEqual(self.dense(tf.sparse_reshape(self.a, [3, 2])), self.dense_a.reshape(3, 2).tolist())
        wide = tf.SparseTensor([[0, 0]], [1], [1 << 40, 1 << 40])
        self.assertEqual(tf.sparse_reshape(wide, [-1, 1 << 20]).shape.as_list(), [1 << 60, 1 << 20])
        self.assertEqual(self.dense(tf.sparse_concat(1, [self.a, self.a])), np.hstack([self.dense_a] * 2).tolist())
        self.assertEqual(self.dense(tf.sparse_slice(self.a, [0, 0], [2, 2])), self.dense_a[:, :2].tolist())
        parts = tf.sparse_split(sp_input=self.a, num_split=2, axis=0)
        self.assertEqual([self.dense(p) for p in parts], [self.dense_a[:1].tolist(), self.dense_a[1:].tolist()])
        self.assertEqual(self.dense(tf.sparse_retain(self.a, [False, True])), [[0, 0, 0], [0, 0, 2]])
        self.assertEqual(self.dense(tf.sparse_reset_shape(self.a, [2, 4])), [[1, 0, 0, 0], [0, 0, 2, 0]])
        self.assertEqual(self.dense(tf.sparse.expand_dims(self.a, 0)), [self.dense_a.tolist()])
        filled, empty = tf.sparse_fill_empty_rows(tf.SparseTensor([[1, 0]], [5.0], [2, 1]), -1.0)
        self.assertEqual((self.dense(filled), self.value(empty)), ([[-1], [5]], [True, False]))

    def test_lengths_must_agree(self):
        self.assertRaises(ValueError, tf.sparse_retain, self.a, [True])
        self.assertRaises(ValueError, tf.SparseTensor, [[0, 0]], [1.0, 2.0], [2, 2])
        self.assertRaises(ValueError, tf.SparseTensor, [[0, 0]], [1.0], [2, 2, 2])

    def test_with_dense(self):
        dense = np.array([[2.0, 2, 2], [4, 4, 4]], np.float32)
        self.assertEqual(self.dense(self.a * dense), (self.dense_a * dense).tolist())
        self.assertEqual(self.dense(self.a / dense), (self.dense_a / dense).tolist())

    def test_indicator_and_merge(self):
        ids = tf.SparseTensor([[0, 0], [1, 0]], tf.constant([2, 0], tf.int64), [2, 1])
        self.assertEqual(self.value(tf.sparse_to_indicator(ids, 3)), [[False, False, True], [True, False, False]])

    def test_packed(self):
        packed = tf.serialize_many_sparse(self.a)
        self.assertEqual(self.dense(tf.deserialize_many_sparse(packed, tf.float32, rank=2)), self.dense_a.tolist())

    def test_sets(self):
        self.assertEqual(self.dense(tf.sets.set_intersection([[1, 2]], [[2, 3]])), [[2]])
        self.assertEqual(self.dense(tf.sets.set_difference([[1, 2]], [[2, 3]])), [[1]])
        self.assertEqual(self.value(tf.sets.set_size(tf.sets.set_union([[1, 2]], [[2, 3]]))), [3])

    def test_bits(self):
        self.assertEqual(self.value(tf.bitwise.bitwise_and([6], [3])), [2])
        self.assertEqual(self.value(tf.bitwise.left_shift([1], [3])), [8])


class SparseFunctions(unittest.TestCase):
    def test_crosses(self):
        with tf.Graph().as_default(), tf.Session() as sess:
            a = tf.SparseTensor([[0, 0], [0, 1]], ["x", "y"], [1, 2])
            made = sess.run(tf.sparse.cross([a, tf.constant([["z"]])]))
            self.assertEqual(made.values.tolist(), [b"x_X_z", b"y_X_z"])
            hashed = sess.run(tf.sparse.cross_hashed([a, tf.constant([[3]])], num_buckets=10))
            self.assertTrue(((hashed.values >= 0) & (hashed.values < 10)).all())
            self.assertRaises(TypeError, tf.sparse.cross, a)

    def test_static_shapes_and_checks(self):
        with tf.Graph().as_default():
            a = tf.SparseTensor([[0, 1]], [6], [2, 3])
            self.assertEqual(tf.sparse.add(a, a).shape.as_list(), [2, 3])
            self.assertEqual(tf.sparse.reshape(a, [-1, 2]).shape.as_list(), [3, 2])
            self.assertEqual(tf.sparse.reset_shape(a, [4, 3]).shape.as_list(), [4, 3])
            with self.assertRaisesRegex(ValueError, "Cannot reshape a tensor with 6 elements"):
                tf.sparse.reshape(a, [4, 2])
            with self.assertRaisesRegex(ValueError, "At most one dimension can be inferred"):
                tf.sparse.reshape(a, [-1, -1])
            with self.assertRaisesRegex(ValueError, "should have dimension sizes"):
                tf.sparse.reset_shape(a, [1, 3])
            with tf.Session() as sess:
                dense = tf.constant([[1, 4, 1], [1, 1, 1]])
                self.assertEqual(sess.run(a / dense).values.tolist(), [1.5])
                self.assertEqual(sess.run(dense * a).values.tolist(), [24])


class Tables(unittest.TestCase):
    def test_tables_that_a_loop_makes_are_made_once_outside(self):
        with tf.Graph().as_default(), tf.Session() as sess:
            def body(x):
                table = tf.contrib.lookup.HashTable(
                    tf.contrib.lookup.KeyValueTensorInitializer([1, 2], [10, 20], tf.int64, tf.int64), -1)
                return table.lookup(x)

            y = tf.map_fn(body, tf.constant([1, 2, 3], tf.int64))
            sess.run(tf.tables_initializer())
            self.assertEqual(sess.run(y).tolist(), [10, 20, -1])

    def test_a_table_of_checkpoints_is_shared_by_its_name(self):
        server = tf.train.Server.create_local_server()
        for step in range(2):
            with tf.Graph().as_default(), tf.Session(server.target) as sess:
                table = tf.contrib.lookup.MutableHashTable(tf.int64, tf.int64, -1, name="t1")
                if step == 0:
                    sess.run(table.insert(tf.constant([5], tf.int64), tf.constant([6], tf.int64)))
                self.assertEqual(sess.run(table.size()), 1)

    def test_names_and_types_are_checked(self):
        lookup = tf.contrib.lookup
        with tf.Graph().as_default(), tf.name_scope("s"):
            table = lookup.HashTable(lookup.KeyValueTensorInitializer(["a"], [0], tf.string, tf.int64), -1)
            self.assertEqual((table.name, table.resource_handle.op.name), ("hash_table", "s/hash_table"))
            self.assertRaises(TypeError, lookup.IdTableWithHashBuckets, table, 2, key_dtype=tf.float32)
            self.assertRaises(TypeError, lookup.IdTableWithHashBuckets, table, 2, hasher_spec=1)
            self.assertRaises(TypeError, table.lookup, tf.constant([1]))


if __name__ == "__main__":
    unittest.main()
