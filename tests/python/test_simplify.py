"""Gradients with and without RewriterConfig.arithmetic_optimization: the same bits."""
import unittest

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import rewriter_config_pb2


def session(on):
    config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    if not on:
        config.graph_options.rewrite_options.arithmetic_optimization = rewriter_config_pb2.RewriterConfig.OFF
    return tf.Session(config=config)


class SimplifyTest(unittest.TestCase):
    def check(self, build, feeds):
        """build() returns (placeholders, fetches); feeds is a list of lists of arrays."""
        with tf.Graph().as_default():
            placeholders, fetches = build()
            init = tf.global_variables_initializer()
            values = tf.global_variables()
            with session(False) as plain, session(True) as simplified:
                plain.run(init)
                first = plain.run(values)
                simplified.run([v.initializer for v in values], dict(zip([v.initial_value for v in values], first)))
                for arrays in feeds:
                    want = plain.run(fetches, dict(zip(placeholders, arrays)))
                    got = simplified.run(fetches, dict(zip(placeholders, arrays)))
                    for a, b in zip(want, got):
                        np.testing.assert_array_equal(a, b)
                        self.assertEqual(np.shape(a), np.shape(b))

    def test_operands_that_may_or_may_not_be_broadcast(self):
        random = np.random.RandomState(1)
        shapes = [((4, 3), (4, 3)), ((4, 3), (1, 3)), ((1, 3), (4, 3)), ((1, 3), (1, 3)), ((0, 3), (0, 3)), ((0, 3), (1, 3))]

        def build():
            x, y = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [None, 3])
            z = tf.tanh(x * y + x) * tf.sigmoid(x - y) / (1.5 + tf.square(y))
            z = tf.maximum(z, x) + tf.pow(x, 2.0) * 1.0
            return [x, y], [z, *tf.gradients(z, [x, y])]
        self.check(build, [[random.randn(*a).astype("f"), random.randn(*b).astype("f")] for a, b in shapes])

    def test_values_of_any_rank(self):
        def build():
            x, y = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
            z = tf.exp(x * y) + x - y * 1.0
            return [x, y], [z, *tf.gradients(z, [x, y])]
        random = np.random.RandomState(2)
        shapes = [((), ()), ((3,), ()), ((2, 3), (3,)), ((2, 1), (1, 3)), ((2, 3), (2, 3)), ((1, 1), (1,))]
        self.check(build, [[np.float32(random.randn(*a)), np.float32(random.randn(*b))] for a, b in shapes])

    def test_a_bias_and_rows_of_unknown_number(self):
        def build():
            x = tf.placeholder(tf.float32, [None, 4])
            w, b = tf.get_variable("w", [4, 5]), tf.get_variable("b", [5], initializer=tf.ones_initializer())
            y = tf.nn.relu(tf.matmul(x, w) + b)
            y = y / tf.reduce_sum(y + 1, 1, keepdims=True)
            loss = tf.reduce_mean(tf.square(y - tf.stop_gradient(y) * 0.5))
            return [x], [loss, *tf.gradients(loss, [x, w, b])]
        random = np.random.RandomState(3)
        self.check(build, [[random.randn(n, 4).astype("f")] for n in (7, 1, 2)])

    def test_a_loop_whose_value_grows(self):
        """In the first iteration the operand is broadcast, later it is not."""
        def build():
            x, b = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.float32, [None])
            _, y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, (y + b) * y), [0, x],
                                 shape_invariants=[tf.TensorShape([]), tf.TensorShape([None])])
            return [x, b], [y, *tf.gradients(y, [x, b])]
        random = np.random.RandomState(4)
        self.check(build, [[random.randn(a).astype("f"), random.randn(b).astype("f")] for a, b in ((1, 5), (5, 5), (5, 1), (1, 1))])

    def test_a_loop_that_only_sometimes_runs(self):
        def build():
            x, n = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.int32, [])
            _, y = tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, tf.sin(y) * x + y), [0, x])
            z = tf.cond(n > 1, lambda: y * x, lambda: tf.reduce_sum(x, keepdims=True) - y)
            return [x, n], [z, *tf.gradients(z, x)]
        self.check(build, [[np.arange(m, dtype="f"), n] for m in (1, 3) for n in (0, 1, 2)])

    def test_recurrent_networks(self):
        cells = [tf.nn.rnn_cell.GRUCell, tf.nn.rnn_cell.BasicLSTMCell]
        for cell in cells:
            for form in ("dynamic", "static", "keras"):
                def build(cell=cell, form=form):
                    tf.set_random_seed(5)
                    x = tf.placeholder(tf.float32, [None, 4, 3])
                    if form == "dynamic":
                        y = tf.nn.dynamic_rnn(tf.nn.rnn_cell.MultiRNNCell([cell(5), cell(5)]), x, dtype=tf.float32)[0]
                    elif form == "static":
                        y = tf.nn.static_rnn(cell(5), tf.unstack(x, 4, 1), dtype=tf.float32)[0][-1]
                    else:
                        y = (tf.keras.layers.GRU if cell is cells[0] else tf.keras.layers.LSTM)(5)(x)
                    loss = tf.reduce_sum(tf.square(y))
                    return [x], [loss, *tf.gradients(loss, [x, *tf.trainable_variables()])]
                random = np.random.RandomState(6)
                self.check(build, [[random.randn(n, 4, 3).astype("f")] for n in (6, 1)])

    def test_a_sequence_of_different_lengths(self):
        def build():
            x, lengths = tf.placeholder(tf.float32, [None, None, 3]), tf.placeholder(tf.int32, [None])
            y, s = tf.nn.dynamic_rnn(tf.nn.rnn_cell.LSTMCell(4), x, lengths, dtype=tf.float32)
            loss = tf.reduce_sum(y) + tf.reduce_sum(s.c * s.h)
            return [x, lengths], [y, *tf.gradients(loss, [x, *tf.trainable_variables()])]
        random = np.random.RandomState(7)
        self.check(build, [[random.randn(3, 5, 3).astype("f"), np.array([5, 0, 2], "i")], [random.randn(1, 2, 3).astype("f"), np.array([1], "i")]])


if __name__ == "__main__":
    unittest.main()
