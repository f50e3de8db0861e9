"""Feature columns: what they make of features, and the variables of the models over them."""

import tempfile
import unittest

import numpy as np

import millrace as tf

fc = tf.feature_column


class Case(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()

    def value(self, tensor):
        with tf.Session() as session:
            session.run([tf.global_variables_initializer(), tf.tables_initializer()])
            return session.run(tensor)

    def assert_layer(self, features, columns, expected):
        np.testing.assert_allclose(self.value(fc.input_layer(features, columns)), expected, atol=1e-6)


class Dense(Case):
    def test_numeric(self):
        b = fc.numeric_column("b", shape=[2])
        a = fc.numeric_column("a", normalizer_fn=lambda x: x * 10)
        self.assert_layer({"a": [1, 2], "b": [[3.0, 4], [5, 6]]}, [b, a], [[10, 3, 4], [20, 5, 6]])
        self.assertRaises(ValueError, fc.numeric_column, 5)
        self.assertRaises(TypeError, fc.numeric_column, "a", shape=[1.5])
        self.assertEqual(fc.numeric_column("a", 2, 0.5).default_value, (0.5, 0.5))
        with self.assertRaisesRegex(ValueError, "not in features"):
            fc.input_layer({}, [a])

    def test_buckets(self):
        c = fc.bucketized_column(fc.numeric_column("a"), boundaries=[0, 10])
        self.assertEqual(c.name, "a_bucketized")
        self.assert_layer({"a": [-1.0, 0, 10]}, [c], [[1, 0, 0], [0, 1, 0], [0, 0, 1]])
        self.assertRaises(ValueError, fc.bucketized_column, fc.numeric_column("a"), [3, 1])

    def test_indicators(self):
        words = fc.categorical_column_with_vocabulary_list("w", ["x", "y", "z"])
        self.assert_layer({"w": [["x", "x"], ["z", "?"]]}, [fc.indicator_column(words)], [[2, 0, 0], [0, 0, 1]])
        numbers = fc.categorical_column_with_identity("n", num_buckets=3)
        self.assert_layer({"n": [2, 0]}, [fc.indicator_column(numbers)], [[0, 0, 1], [1, 0, 0]])
        with self.assertRaises(tf.errors.InvalidArgumentError):
            self.value(fc.input_layer({"n": [5]}, [fc.indicator_column(numbers)]))
        default = fc.categorical_column_with_identity("n", num_buckets=3, default_value=1)
        self.assert_layer({"n": [5]}, [fc.indicator_column(default)], [[0, 1, 0]])
        weighted = fc.weighted_categorical_column(words, "f")
        self.assert_layer({"w": [["x", "z"]], "f": [[0.5, 2.0]]}, [fc.indicator_column(weighted)], [[0.5, 0, 2]])

    def test_vocabulary_file(self):
        with tempfile.NamedTemporaryFile("w") as f:
            f.write("x\ny\n")
            f.flush()
            c = fc.categorical_column_with_vocabulary_file("w", f.name, num_oov_buckets=1)
            self.assert_layer({"w": ["y", "?"]}, [fc.indicator_column(c)], [[0, 1, 0], [0, 0, 1]])

    def test_hashes_and_crosses(self):
        h = fc.categorical_column_with_hash_bucket("h", hash_bucket_size=5)
        v = self.value(fc.input_layer({"h": ["a", "b", "a"]}, [fc.indicator_column(h)]))
        self.assertEqual(v.sum(), 3)
        self.assertEqual(v[0].tolist(), v[2].tolist())
        c = fc.crossed_column(["h", fc.bucketized_column(fc.numeric_column("a"), [0])], 7)
        self.assertEqual(c.name, "a_bucketized_X_h")
        v = self.value(fc.input_layer({"h": ["a", "a"], "a": [1.0, 2.0]}, [fc.indicator_column(c)]))
        self.assertEqual(v[0].tolist(), v[1].tolist())
        self.assertRaises(ValueError, fc.crossed_column, ["h"], 7)
        self.assertRaises(ValueError, fc.crossed_column, ["a", h], 7)

    def test_embeddings(self):
        words = fc.categorical_column_with_vocabulary_list("w", ["x", "y"])
        e = fc.embedding_column(words, dimension=2, initializer=tf.constant_initializer([[1, 2], [3, 4]]))
        self.assert_layer({"w": [["x", "y"], ["y", ""]]}, [e], [[2, 3], [3, 4]])
        self.assertEqual([v.name for v in tf.trainable_variables()], ["input_layer/w_embedding/embedding_weights:0"])

    def test_plain_lookup(self):
        """Without the safe lookup a weight of zero or less counts."""
        ids = fc.categorical_column_with_identity("i", 2)
        weighted = fc.weighted_categorical_column(ids, "n")
        rows = tf.constant_initializer([[1.0], [3.0]])
        given = {"i": tf.SparseTensor([[0, 0], [0, 1]], np.array([0, 1], np.int64), [1, 2]),
                 "n": tf.SparseTensor([[0, 0], [0, 1]], [2.0, -1.0], [1, 2])}
        for safe, result in ((True, 1), (False, -1)):
            e = fc.embedding_column(weighted, 1, initializer=rows, use_safe_embedding_lookup=safe)
            self.assert_layer(given, [e], [[result]])

    def test_shared_embeddings(self):
        a, b = (fc.categorical_column_with_identity(k, 2) for k in "ab")
        columns = fc.shared_embedding_columns([a, b], 1, initializer=tf.constant_initializer([[5.0], [6.0]]))
        self.assert_layer({"a": [0], "b": [1]}, columns, [[5, 6]])
        self.assertEqual([v.name for v in tf.trainable_variables()], ["input_layer/a_b_shared_embedding/embedding_weights:0"])

    def test_errors(self):
        words = fc.categorical_column_with_vocabulary_list("w", ["x", "y"])
        self.assertRaises(ValueError, fc.input_layer, {"w": ["x"]}, [words])
        a = fc.numeric_column("a")
        self.assertRaises(ValueError, fc.input_layer, {"a": [1]}, [a, a])
        self.assertRaises(ValueError, fc.categorical_column_with_vocabulary_list, "w", ["x", "x"])


class Linear(Case):
    def test_names_and_sums(self):
        words = fc.categorical_column_with_vocabulary_list("w", ["x", "y"])
        out = fc.linear_model({"a": [[2.0], [3.0]], "w": [["x"], ["y"]]}, [words, fc.numeric_column("a")])
        names = {v.name: v for v in tf.trainable_variables()}
        self.assertEqual(sorted(names), ["linear_model/a/weights:0", "linear_model/bias_weights:0", "linear_model/w/weights:0"])
        with tf.Session() as session:
            session.run([tf.global_variables_initializer(), tf.tables_initializer()])
            self.assertEqual(session.run(out).tolist(), [[0], [0]])
            names["linear_model/a/weights:0"].load([[10.0]])
            names["linear_model/w/weights:0"].load([[1.0], [2.0]])
            names["linear_model/bias_weights:0"].load([0.5])
            self.assertEqual(session.run(out).tolist(), [[21.5], [32.5]])

    def test_buckets_of_vectors(self):
        c = fc.bucketized_column(fc.numeric_column("a", shape=[2]), [0])
        out = fc.linear_model({"a": [[-1.0, 1.0]]}, [c])
        self.assertEqual(tf.trainable_variables()[0].shape.as_list(), [4, 1])
        self.assertEqual(self.value(out).tolist(), [[0]])


class Specs(Case):
    def test_spec(self):
        spec = fc.make_parse_example_spec([fc.numeric_column("a"), fc.indicator_column(
            fc.categorical_column_with_hash_bucket("h", 5))])
        self.assertEqual(spec, {"a": tf.FixedLenFeature((1,), tf.float32), "h": tf.VarLenFeature(tf.string)})


if __name__ == "__main__":
    unittest.main()
