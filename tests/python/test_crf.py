"""tf.contrib.crf against the sums and maxima over all sequences of tags."""

import itertools
import unittest

import numpy as np

import millrace as tf


class CrfTest(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()
        random = np.random.RandomState(2)
        self.inputs, self.transitions = random.randn(3, 4, 3).astype(np.float32), random.randn(3, 3).astype(np.float32)
        self.lengths = [4, 1, 3]
        self.session = tf.Session()
        self.addCleanup(self.session.close)

    def scores(self, b):
        """{tags: score} of an example."""
        found = {}
        for tags in itertools.product(range(3), repeat=self.lengths[b]):
            found[tags] = sum(self.inputs[b, t, g] for t, g in enumerate(tags)) + sum(
                self.transitions[i, j] for i, j in zip(tags, tags[1:]))
        return found

    def test_norm_and_likelihood(self):
        tags = np.array([[0, 1, 2, 1], [2, 0, 0, 0], [1, 1, 0, 0]])
        norm = tf.contrib.crf.crf_log_norm(self.inputs, self.lengths, self.transitions)
        likelihood, params = tf.contrib.crf.crf_log_likelihood(self.inputs, tags, self.lengths, self.transitions)
        all_scores = [self.scores(b) for b in range(3)]
        wanted = [np.log(sum(np.exp(list(s.values())))) for s in all_scores]
        np.testing.assert_allclose(self.session.run(norm), wanted, rtol=1e-5)
        chosen = [s[tuple(tags[b, :n])] for b, (s, n) in enumerate(zip(all_scores, self.lengths))]
        np.testing.assert_allclose(self.session.run(likelihood), np.array(chosen) - wanted, rtol=1e-4, atol=1e-5)

    def test_decoding(self):
        tags, score = self.session.run(tf.contrib.crf.crf_decode(self.inputs, self.transitions, self.lengths))
        for b, n in enumerate(self.lengths):
            scores = self.scores(b)
            best = max(scores, key=scores.get)
            self.assertEqual(tags[b].tolist(), list(best) + [0] * (4 - n))
            self.assertAlmostEqual(score[b], scores[best], places=4)
            found, value = tf.contrib.crf.viterbi_decode(self.inputs[b, :n], self.transitions)
            self.assertEqual(found, list(best))
            self.assertAlmostEqual(value, scores[best], places=4)

    def test_one_step_whose_number_is_not_known(self):
        inputs = tf.placeholder(tf.float32, [None, None, 3])
        norm = tf.contrib.crf.crf_log_norm(inputs, [1, 1], self.transitions)
        tags, score = tf.contrib.crf.crf_decode(inputs, self.transitions, [1, 1])
        given = self.inputs[:2, :1]
        found = self.session.run([norm, tags, score], {inputs: given})
        np.testing.assert_allclose(found[0], np.log(np.exp(given[:, 0]).sum(1)), rtol=1e-5)
        self.assertEqual(found[1].tolist(), given.argmax(2).tolist())
        np.testing.assert_allclose(found[2], given[:, 0].max(1))

    def test_training(self):
        likelihood, params = tf.contrib.crf.crf_log_likelihood(tf.constant(self.inputs), np.zeros((3, 4), np.int32), self.lengths)
        self.assertEqual(params.name, "transitions:0")
        g = tf.gradients(likelihood, params)[0]
        self.session.run(tf.global_variables_initializer())
        self.assertTrue(np.isfinite(self.session.run(g)).all())


if __name__ == "__main__":
    unittest.main()
