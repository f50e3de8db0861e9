"""tf.contrib.seq2seq and legacy_seq2seq: decoders, attention, beam search, losses."""

import itertools
import unittest

import numpy as np

import millrace as tf

seq2seq, legacy = tf.contrib.seq2seq, tf.contrib.legacy_seq2seq


def log_softmax(x):
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


class Case(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()
        tf.set_random_seed(1)
        self.random = np.random.RandomState(5)
        self.session = tf.Session()
        self.addCleanup(self.session.close)

    def start(self):
        self.session.run(tf.global_variables_initializer())

    def floats(self, *shape):
        return self.random.randn(*shape).astype(np.float32)


class DecodersTest(Case):
    def test_training_is_dynamic_rnn(self):
        cell, x, lengths = tf.nn.rnn_cell.GRUCell(4), tf.constant(self.floats(3, 5, 2)), [5, 2, 4]
        decoder = seq2seq.BasicDecoder(cell, seq2seq.TrainingHelper(x, lengths), cell.zero_state(3, tf.float32))
        out, state, found = seq2seq.dynamic_decode(decoder, impute_finished=True, scope="d")
        wanted, last = tf.nn.dynamic_rnn(cell, x, sequence_length=lengths, dtype=tf.float32)
        self.start()
        a, b, s, t, n = self.session.run([out.rnn_output, wanted, state, last, found])
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(s, t, rtol=1e-5, atol=1e-6)
        self.assertEqual(n.tolist(), lengths)

    def test_greedy_follows_a_table(self):
        class Next(tf.nn.rnn_cell.RNNCell):
            """Says that after i comes i + 1."""
            state_size = output_size = property(lambda self: 6)

            def __call__(self, inputs, state, scope=None):
                return tf.concat([inputs[:, -1:], inputs[:, :-1]], 1), state

        helper = seq2seq.GreedyEmbeddingHelper(tf.eye(6), tf.constant([0, 3]), 5)
        decoder = seq2seq.BasicDecoder(Next(), helper, tf.zeros([2, 6]))
        out, _, lengths = seq2seq.dynamic_decode(decoder, impute_finished=True, maximum_iterations=20)
        ids, n = self.session.run([out.sample_id, lengths])
        self.assertEqual(ids.tolist(), [[1, 2, 3, 4, 5], [4, 5, 0, 0, 0]])
        self.assertEqual(n.tolist(), [5, 2])
        _, _, lengths = seq2seq.dynamic_decode(decoder, maximum_iterations=3)
        self.assertEqual(self.session.run(lengths).tolist(), [3, 2])

    def test_attention_names_and_gradients(self):
        memory = tf.constant(self.floats(2, 7, 3))
        mechanism = seq2seq.BahdanauAttention(4, memory, memory_sequence_length=[7, 3])
        cell = seq2seq.AttentionWrapper(tf.nn.rnn_cell.GRUCell(4), mechanism, attention_layer_size=5, alignment_history=True)
        helper = seq2seq.TrainingHelper(tf.constant(self.floats(2, 6, 3)), [6, 4])
        decoder = seq2seq.BasicDecoder(cell, helper, cell.zero_state(2, tf.float32), tf.layers.Dense(8, name="out"))
        out, state, _ = seq2seq.dynamic_decode(decoder)
        self.assertEqual([v.op.name for v in tf.trainable_variables()], ["memory_layer/kernel"] + ["decoder/" + n for n in (
            "attention_wrapper/gru_cell/gates/kernel", "attention_wrapper/gru_cell/gates/bias",
            "attention_wrapper/gru_cell/candidate/kernel", "attention_wrapper/gru_cell/candidate/bias",
            "attention_wrapper/bahdanau_attention/query_layer/kernel", "attention_wrapper/bahdanau_attention/attention_v",
            "attention_wrapper/attention_layer/kernel", "out/kernel", "out/bias")])
        gradients = tf.gradients(tf.reduce_sum(out.rnn_output), tf.trainable_variables())
        self.start()
        history, *gradients = self.session.run([state.alignment_history.stack()] + gradients)
        np.testing.assert_allclose(history.sum(2), np.ones((6, 2)), rtol=1e-5)
        self.assertTrue((history[:, 1, 3:] == 0).all())  # after the memory's end
        self.assertTrue(all(np.isfinite(g).all() for g in gradients))

    def test_luong_by_hand(self):
        memory, query = self.floats(2, 4, 3), self.floats(2, 3)
        mechanism = seq2seq.LuongAttention(3, tf.constant(memory))
        weights, _ = mechanism(tf.constant(query), None)
        self.start()
        kernel, found = self.session.run([tf.trainable_variables()[0], weights])
        scores = np.einsum("bd,btd->bt", query, memory @ kernel)
        np.testing.assert_allclose(found, np.exp(log_softmax(scores)), rtol=1e-4)


class BeamSearchTest(Case):
    def test_gather_tree(self):
        ids = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]], np.int32)[:, None]
        parents = np.array([[0, 0, 0], [0, 1, 1], [2, 1, 2]], np.int32)[:, None]
        found = self.session.run(seq2seq.gather_tree(ids, parents, [3], 10))
        self.assertEqual(found[:, 0].tolist(), [[2, 2, 2], [6, 5, 6], [7, 8, 9]])
        found = self.session.run(seq2seq.gather_tree(ids, parents, [2], 10))
        self.assertEqual(found[:, 0].tolist(), [[1, 2, 2], [4, 5, 6], [10, 10, 10]])

    def test_tile_batch(self):
        tiled = self.session.run(seq2seq.tile_batch({"a": tf.constant([[1], [2]])}, 2))
        self.assertEqual(tiled["a"].tolist(), [[1], [1], [2], [2]])

    def test_wide_beams_find_the_best_sequence(self):
        table = 2 * self.floats(4, 4)  # the scores of what comes after each symbol; 3 is the end

        class Markov(tf.nn.rnn_cell.RNNCell):
            state_size = output_size = property(lambda self: 4)

            def __call__(self, inputs, state, scope=None):
                return tf.matmul(inputs, table), state

        decoder = seq2seq.BeamSearchDecoder(Markov(), tf.eye(4), tf.constant([0]), 3, tf.zeros([16, 4]), 16)
        out, state, _ = seq2seq.dynamic_decode(decoder, maximum_iterations=3)
        ids, log_probs = self.session.run([out.predicted_ids, state.log_probs])
        log_p, best = log_softmax(table.astype(np.float64)), {}
        for s in itertools.product(range(4), repeat=3):
            s = s[:s.index(3) + 1] if 3 in s else s
            best[s + (3,) * (3 - len(s))] = sum(log_p[a, b] for a, b in zip((0,) + s, s))
        ranked = sorted(best, key=best.get, reverse=True)
        self.assertEqual(len({tuple(s) for s in ids[0].T}), 16)
        # Sequences of the same steps in another order have the same score: which of them is first is open.
        np.testing.assert_allclose([best[tuple(s)] for s in ids[0].T[:5]], [best[s] for s in ranked[:5]], rtol=1e-6)
        np.testing.assert_allclose(log_probs[0][:5], [best[s] for s in ranked[:5]], rtol=1e-4)


class LossTest(Case):
    def test_averages(self):
        logits, targets = self.floats(2, 3, 4), np.array([[0, 1, 2], [3, 0, 0]])
        weights = np.array([[1, 1, 1], [1, 0, 0]], np.float32)
        costs = -np.take_along_axis(log_softmax(logits), targets[..., None], 2)[..., 0] * weights
        for how, wanted in (({}, costs.sum() / 4), ({"average_across_batch": False}, costs.sum(1) / [3, 1]),
                            ({"average_across_timesteps": False}, costs.sum(0) / [2, 1, 1]),
                            ({"average_across_batch": False, "average_across_timesteps": False}, costs)):
            loss = seq2seq.sequence_loss(tf.constant(logits), tf.constant(targets), tf.constant(weights), **how)
            np.testing.assert_allclose(self.session.run(loss), wanted, rtol=1e-5)

    def test_legacy(self):
        logits, w = [tf.constant([[1., 2.], [0., 0.]])] * 2, [tf.constant([1., 1.]), tf.constant([1., 0.])]
        targets = [tf.constant([1, 0]), tf.constant([1, 1])]
        a, b = np.log1p(np.exp(-1)), np.log(2)
        loss = legacy.sequence_loss_by_example(logits, targets, w)
        np.testing.assert_allclose(self.session.run(loss), [a, b], rtol=1e-5)
        np.testing.assert_allclose(self.session.run(legacy.sequence_loss(logits, targets, w)), (a + b) / 2, rtol=1e-5)
        with self.assertRaisesRegex(ValueError, "Lengths"):
            legacy.sequence_loss(logits, targets[:1], w)


class LegacyTest(Case):
    def test_buckets_share_variables(self):
        encoder = [tf.placeholder(tf.int32, [None]) for _ in range(4)]
        decoder = [tf.placeholder(tf.int32, [None]) for _ in range(5)]
        weights = [tf.ones_like(d, dtype=tf.float32) for d in decoder]
        cell = tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.GRUCell(6) for _ in range(2)])
        feed = tf.placeholder(tf.bool)
        outputs, losses = legacy.model_with_buckets(
            encoder, decoder, decoder, weights, [(2, 3), (4, 5)],
            lambda x, y: legacy.embedding_attention_seq2seq(x, y, cell, 20, 10, 8, feed_previous=feed))
        self.assertEqual([len(o) for o in outputs], [3, 5])
        names = [v.op.name for v in tf.trainable_variables()]
        self.assertEqual(len(names), len(set(names)))
        self.assertIn("embedding_attention_seq2seq/rnn/embedding_wrapper/embedding", names)
        self.assertIn("embedding_attention_seq2seq/embedding_attention_decoder/attention_decoder/AttnW_0", names)
        gradients = tf.gradients(losses[1], tf.trainable_variables())
        self.assertNotIn(None, gradients)
        self.start()
        feeds = {p: self.random.randint(0, 10, 3) for p in encoder + decoder}
        for fed in (True, False):
            loss, _ = self.session.run([losses, gradients], {**feeds, feed: fed})
            self.assertTrue(np.isfinite(loss).all())

    def test_feeding_previous(self):
        cell = tf.nn.rnn_cell.GRUCell(4)
        inputs = [tf.constant(self.floats(2, 4)) for _ in range(3)]
        seen = []
        legacy.rnn_decoder(inputs, cell.zero_state(2, tf.float32), cell, loop_function=lambda prev, i: seen.append(i) or prev)
        self.assertEqual(seen, [1, 2])
        self.assertEqual([v.op.name for v in tf.trainable_variables()][0], "rnn_decoder/gru_cell/gates/kernel")


if __name__ == "__main__":
    unittest.main()
