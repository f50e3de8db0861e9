"""tf.nn against numpy: activations, cross entropies, convolutions, pools, normalization, lookups, samplers, CTC."""

import unittest

import numpy as np

import millrace as tf


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def conv2d(image, kernel, stride, rate=1):
    """VALID, by definition."""
    n, h, w, _ = image.shape
    kh, kw, _, c = kernel.shape
    oh, ow = (h - (kh - 1) * rate - 1) // stride + 1, (w - (kw - 1) * rate - 1) // stride + 1
    out = np.zeros([n, oh, ow, c])
    for i in range(oh):
        for j in range(ow):
            part = image[:, i * stride:i * stride + (kh - 1) * rate + 1:rate, j * stride:j * stride + (kw - 1) * rate + 1:rate]
            out[:, i, j] = np.tensordot(part, kernel, 3)
    return out


class NnTest(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()
        self.random = np.random.RandomState(7)
        self.session = tf.Session()
        self.addCleanup(self.session.close)

    def floats(self, *shape):
        return self.random.randn(*shape).astype(np.float32)

    def check(self, tensor, wanted, tolerance=1e-5):
        np.testing.assert_allclose(self.session.run(tensor), wanted, rtol=tolerance, atol=tolerance)


class ActivationsTest(NnTest):
    def test_softmax_along_each_axis(self):
        x = self.floats(2, 3, 4)
        for axis in (0, 1, 2, -1, -2):
            self.check(tf.nn.softmax(x, axis=axis), softmax(x, axis))
            self.check(tf.nn.log_softmax(x, dim=axis), np.log(softmax(x, axis)))

    def test_softmax_of_unknown_rank(self):
        x = self.floats(2, 3, 4)
        p = tf.placeholder(tf.float32)
        np.testing.assert_allclose(self.session.run(tf.nn.softmax(p, axis=1), {p: x}), softmax(x, 1), rtol=1e-5)

    def test_rectifiers(self):
        x = np.array([-2, -.5, 0, 3], np.float32)
        self.check(tf.nn.relu(x), [0, 0, 0, 3])
        self.check(tf.nn.leaky_relu(x, alpha=.5), [-1, -.25, 0, 3])
        self.check(tf.nn.crelu(x), [0, 0, 0, 3, 2, .5, 0, 0])
        self.check(tf.nn.zero_fraction(x), .25)

    def test_dropout_keeps_the_expected_sum(self):
        x = tf.nn.dropout(tf.ones([100, 100]), keep_prob=.25, seed=3)
        value = self.session.run(x)
        self.assertEqual(set(np.unique(value)), {0, 4})
        self.assertAlmostEqual(value.mean(), 1, delta=.1)
        rows = self.session.run(tf.nn.dropout(tf.ones([8, 50]), rate=.5, noise_shape=[None, 1]))
        self.assertTrue((rows == rows[:, :1]).all())

    def test_dropout_errors(self):
        with self.assertRaises(ValueError):
            tf.nn.dropout(tf.ones([2]), keep_prob=0.)
        with self.assertRaises(ValueError):
            tf.nn.dropout(tf.ones([2]), keep_prob=.5, rate=.5)
        x = tf.ones([2])
        self.assertIs(tf.nn.dropout(x, 1.0), x)


class CrossEntropyTest(NnTest):
    def test_labels_of_another_rank_are_rows_all_the_same(self):
        x, y = self.floats(3, 4), np.eye(4, dtype=np.float32)[[0, 2, 3]]
        self.check(tf.nn.softmax_cross_entropy_with_logits_v2(labels=y[np.newaxis], logits=x), -(y * np.log(softmax(x, 1))).sum(1))

    def test_softmax_along_an_axis(self):
        x, y = self.floats(2, 3, 4), softmax(self.floats(2, 3, 4), 1)
        self.check(tf.nn.softmax_cross_entropy_with_logits(labels=y, logits=x, dim=1), -(y * np.log(softmax(x, 1))).sum(1))

    def test_labels_get_gradients_in_v2_only(self):
        x, y = tf.constant(self.floats(2, 3)), tf.constant(softmax(self.floats(2, 3), 1))
        old = tf.nn.softmax_cross_entropy_with_logits(labels=y, logits=x)
        new = tf.nn.softmax_cross_entropy_with_logits_v2(labels=y, logits=x)
        self.assertIsNone(tf.gradients(old, [y])[0])
        self.assertIsNotNone(tf.gradients(new, [y])[0])

    def test_sparse_of_rank_3(self):
        x, y = self.floats(2, 3, 4), np.array([[1, 2, 0], [3, 3, 1]])
        wanted = -np.log(np.take_along_axis(softmax(x, 2), y[..., None], 2))[..., 0]
        cost = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=x)
        self.assertEqual(cost.shape.as_list(), [2, 3])
        self.check(cost, wanted)

    def test_sigmoid(self):
        x, z = 30 * self.floats(5), np.array([0, 1, 0, 1, .5], np.float32)
        wanted = np.maximum(x, 0) - x * z + np.log1p(np.exp(-np.abs(x)))
        self.check(tf.nn.sigmoid_cross_entropy_with_logits(labels=z, logits=x), wanted)
        self.check(tf.nn.weighted_cross_entropy_with_logits(targets=z, logits=x, pos_weight=1), wanted, 1e-4)

    def test_arguments_must_be_named(self):
        for f in (tf.nn.softmax_cross_entropy_with_logits, tf.nn.sparse_softmax_cross_entropy_with_logits,
                  tf.nn.sigmoid_cross_entropy_with_logits):
            with self.assertRaisesRegex(ValueError, "named arguments"):
                f([[1.]], [[1.]])

    def test_shapes_must_fit(self):
        with self.assertRaisesRegex(ValueError, "Rank mismatch"):
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[1], logits=self.floats(1, 2, 3))
        with self.assertRaisesRegex(ValueError, "same shape"):
            tf.nn.sigmoid_cross_entropy_with_logits(labels=self.floats(2), logits=self.floats(3))


class ConvolutionTest(NnTest):
    def test_windows_that_do_not_fit_are_refused_when_the_graph_is_built(self):
        image, kernel = tf.placeholder(tf.float32, [1, 2, 3, 1]), tf.placeholder(tf.float32, [3, 1, 1, 1])
        message = "Negative dimension size caused by subtracting 3 from 2"
        with self.assertRaisesRegex(ValueError, message):
            tf.nn.conv2d(image, kernel, [1, 1, 1, 1], "VALID")
        with self.assertRaisesRegex(ValueError, message):
            tf.nn.max_pool(image, [1, 3, 1, 1], [1, 1, 1, 1], "VALID")
        self.assertEqual(tf.nn.conv2d(image, kernel, [1, 1, 1, 1], "SAME").shape.as_list(), [1, 2, 3, 1])

    def test_explicit_paddings_that_are_none_are_refused(self):
        image, kernel = tf.zeros([1, 2, 2, 1]), tf.zeros([1, 1, 1, 1])
        for padding, message in [("EXPLICIT", "not a valid value for the padding parameter"),
                                 ([0, 0, 0, 0], "Element with index 0 of padding is not a list/tuple"),
                                 ([[0, 0], [1], [0, 0], [0, 0]], "Element with index 1 of padding has size 1"),
                                 ([[0, 0]] * 3, "Got padding of size: 3")]:
            with self.assertRaisesRegex(ValueError, message):
                tf.nn.conv2d(image, kernel, [1, 1, 1, 1], padding)

    def test_conv2d_and_atrous(self):
        image, kernel = self.floats(2, 9, 8, 3), self.floats(3, 2, 3, 4)
        self.check(tf.nn.conv2d(image, kernel, [1, 2, 2, 1], "VALID"), conv2d(image, kernel, 2), 1e-4)
        self.check(tf.nn.conv2d(input=image, filter=kernel, strides=1, padding="VALID"), conv2d(image, kernel, 1), 1e-4)
        self.check(tf.nn.atrous_conv2d(image, kernel, 2, "VALID"), conv2d(image, kernel, 1, 2), 1e-4)
        blocks = tf.nn.with_space_to_batch(image, [2, 2], "VALID", lambda x, n, pad: tf.nn.conv2d(x, kernel, 1, pad))
        self.check(blocks, conv2d(image, kernel, 1, 2), 1e-4)

    def test_conv1d(self):
        x, kernel = self.floats(2, 9, 3), self.floats(3, 3, 4)
        self.check(tf.nn.conv1d(x, kernel, 2, "VALID"), conv2d(x[:, None], kernel[None], 2)[:, 0], 1e-4)

    def test_transpose_is_the_gradient(self):
        image, kernel = tf.constant(self.floats(1, 8, 8, 2)), tf.constant(self.floats(3, 3, 2, 5))
        g = self.floats(1, 4, 4, 5)
        y = tf.nn.conv2d(image, kernel, [1, 2, 2, 1], "SAME")
        transposed = tf.nn.conv2d_transpose(g, kernel, [1, 8, 8, 2], [1, 2, 2, 1])
        self.check(transposed, self.session.run(tf.gradients(y, image, g)[0]))

    def test_transpose_with_shape_of_tensors(self):
        x = tf.placeholder(tf.float32, [None, 4, 4, 3])
        y = tf.nn.conv2d_transpose(x, self.floats(2, 2, 6, 3), tf.stack([tf.shape(x)[0], 8, 8, 6]), strides=[1, 2, 2, 1])
        self.assertEqual(self.session.run(y, {x: self.floats(5, 4, 4, 3)}).shape, (5, 8, 8, 6))

    def test_depthwise_is_a_convolution_for_each_channel(self):
        image, kernel = self.floats(1, 6, 6, 2), self.floats(3, 3, 2, 2)
        wanted = np.concatenate([conv2d(image[..., i:i + 1], kernel[:, :, i:i + 1], 1) for i in range(2)], 3)
        self.check(tf.nn.depthwise_conv2d(image, kernel, [1, 1, 1, 1], "VALID"), wanted, 1e-4)
        point = self.floats(1, 1, 4, 3)
        self.check(tf.nn.separable_conv2d(image, kernel, point, [1, 1, 1, 1], "VALID"), wanted @ point[0, 0], 1e-4)

    def test_pools(self):
        x = np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1)
        self.check(tf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")[0, :, :, 0], [[5, 7], [13, 15]])
        self.check(tf.nn.avg_pool(x, ksize=2, strides=2, padding="VALID")[0, :, :, 0], [[2.5, 4.5], [10.5, 12.5]])
        self.check(tf.nn.pool(x, [2, 2], "MAX", "VALID", dilation_rate=[2, 2])[0, :, :, 0], [[10, 11], [14, 15]])
        self.check(tf.nn.max_pool1d(x[0], 2, 2, "SAME")[:, :, 0], x[0, :, 1::2, 0])
        self.check(tf.nn.erosion2d(x, np.zeros((2, 2, 1), np.float32), [1, 1, 1, 1], [1, 1, 1, 1], "VALID")[0, 0, :, 0], [0, 1, 2])


class NormalizationTest(NnTest):
    def test_moments(self):
        x = self.floats(4, 5, 6)
        mean, variance = tf.nn.moments(tf.constant(x), [0, 1])
        self.check(mean, x.mean((0, 1)))
        self.check(variance, x.var((0, 1)))
        self.assertEqual(tf.nn.moments(tf.constant(x), [0, 1], keep_dims=True)[0].shape.as_list(), [1, 1, 6])
        counts, sums, squares, shift = tf.nn.sufficient_statistics(x, [0])
        mean, variance = tf.nn.normalize_moments(counts, sums, squares, shift)
        self.check(variance, x.var(0), 1e-4)

    def test_batch_norms_agree(self):
        x, scale, offset = self.floats(4, 3, 3, 2), self.floats(2), self.floats(2)
        wanted = (x - x.mean((0, 1, 2))) / np.sqrt(x.var((0, 1, 2)) + .001) * scale + offset
        self.check(tf.nn.fused_batch_norm(x, scale, offset)[0], wanted, 1e-4)
        mean, variance = tf.nn.moments(tf.constant(x), [0, 1, 2])
        self.check(tf.nn.batch_normalization(x, mean, variance, offset, scale, .001), wanted, 1e-4)
        self.check(tf.nn.batch_norm_with_global_normalization(x, mean, variance, offset, scale, .001, True), wanted, 1e-4)

    def test_l2(self):
        self.check(tf.nn.l2_normalize([[3., 4.], [0., 2.]], dim=1), [[.6, .8], [0, 1]])
        self.check(tf.nn.l2_loss([1., 2.]), 2.5)


class LookupTest(NnTest):
    def setUp(self):
        super().setUp()
        self.table = np.arange(20, dtype=np.float32).reshape(10, 2)

    def test_parts(self):
        ids = np.array([[1, 9], [3, 4]])
        self.check(tf.nn.embedding_lookup([self.table[i::3] for i in range(3)], ids), self.table[ids])
        parts = [self.table[:4], self.table[4:7], self.table[7:]]
        self.check(tf.nn.embedding_lookup(parts, ids, partition_strategy="div"), self.table[ids])
        with self.assertRaisesRegex(ValueError, "partition strategy"):
            tf.nn.embedding_lookup(parts, ids, partition_strategy="other")

    def test_partitioned_variable(self):
        v = tf.get_variable("v", initializer=self.table, partitioner=tf.fixed_size_partitioner(3))
        self.session.run(tf.global_variables_initializer())
        self.check(tf.nn.embedding_lookup(v, [0, 5, 9], partition_strategy="div"), self.table[[0, 5, 9]])

    def test_max_norm(self):
        self.check(tf.nn.embedding_lookup(np.array([[3., 4.], [.3, .4]], np.float32), [0, 1], max_norm=1.), [[.6, .8], [.3, .4]])

    def test_gradient_of_a_variable_is_rows(self):
        v = tf.Variable(self.table)
        g = tf.gradients(tf.nn.embedding_lookup(v, [3, 3, 1]), v)[0]
        self.assertIsInstance(g, tf.IndexedSlices)
        self.check(g.indices, [3, 3, 1])

    def test_sparse(self):
        ids = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], np.array([1, 3, 2]), [2, 2])
        weights = tf.SparseTensor(ids.indices, [1., 2., 3.], [2, 2])
        a, b, c = self.table[[1, 3, 2]]
        for combiner, plain, weighted in (("sum", a + b, a + 2 * b), ("mean", (a + b) / 2, (a + 2 * b) / 3),
                                          ("sqrtn", (a + b) / np.sqrt(2), (a + 2 * b) / np.sqrt(5))):
            self.check(tf.nn.embedding_lookup_sparse(self.table, ids, None, combiner=combiner)[0], plain)
            self.check(tf.nn.embedding_lookup_sparse(self.table, ids, weights, combiner=combiner)[0], weighted)

    def test_safe_sparse(self):
        ids = tf.SparseTensor([[0, 0], [0, 1], [2, 0]], np.array([1, -3, 2]), [3, 2])
        self.check(tf.nn.safe_embedding_lookup_sparse([tf.constant(self.table)], ids), [[2, 3], [0, 0], [4, 5]])


class SamplingTest(NnTest):
    def losses(self, f, **more):
        weights, biases = self.floats(6, 3), self.floats(6)
        inputs = self.floats(2, 3)
        sampled = (np.array([4, 1]), np.array([[.5], [.25]], np.float32), np.array([.125, .5], np.float32))
        loss = f(weights=weights, biases=biases, labels=np.array([[1], [2]]), inputs=inputs, num_sampled=2, num_classes=6,
                 sampled_values=sampled, **more)
        ids = np.array([[1, 4, 1], [2, 4, 1]])
        logits = np.einsum("bd,bcd->bc", inputs, weights[ids]) + biases[ids] - np.log([[.5, .125, .5], [.25, .125, .5]])
        return loss, logits

    def test_nce(self):
        loss, x = self.losses(tf.nn.nce_loss)
        z = np.array([[1, 0, 0], [1, 0, 0]])
        self.check(loss, (np.maximum(x, 0) - x * z + np.log1p(np.exp(-np.abs(x)))).sum(1), 1e-4)

    def test_sampled_softmax_without_and_with_hits(self):
        loss, x = self.losses(tf.nn.sampled_softmax_loss, remove_accidental_hits=False)
        self.check(loss, -np.log(softmax(x, 1)[:, 0]), 1e-4)
        loss, x = self.losses(tf.nn.sampled_softmax_loss)
        x[0, 2] = -1e30  # class 1 is the true one of the first row
        self.check(loss, -np.log(softmax(x, 1)[:, 0]), 1e-4)

    def test_samplers(self):
        for f, more in ((tf.nn.uniform_candidate_sampler, {}), (tf.nn.log_uniform_candidate_sampler, {}),
                        (tf.nn.learned_unigram_candidate_sampler, {}),
                        (tf.nn.fixed_unigram_candidate_sampler, {"unigrams": [1, 2, 3, 4, 5], "distortion": .75})):
            ids, true, counts = self.session.run(f(true_classes=np.array([[1], [2]]), num_true=1, num_sampled=5, unique=True,
                                                   range_max=5, **more))
            self.assertEqual(sorted(ids), list(range(5)))


class CtcTest(NnTest):
    def test_loss_of_one_step(self):
        x = self.floats(1, 1, 3)
        labels = tf.SparseTensor([[0, 0]], np.array([1], np.int32), [1, 1])
        self.check(tf.nn.ctc_loss(labels, x, [1]), -np.log(softmax(x[0], 1)[:, 1]))
        moved = np.roll(x, 1, 2)  # the blank first
        self.check(tf.nn.ctc_loss_v2(np.array([[2]], np.int32), moved, [1], [1]), -np.log(softmax(x[0], 1)[:, 1]))

    def test_decoders_join_repetitions(self):
        x = np.full([5, 1, 3], -9, np.float32)
        for t, c in enumerate([0, 0, 2, 0, 1]):
            x[t, 0, c] = 9
        for found, _ in (tf.nn.ctc_greedy_decoder(x, [5]), tf.nn.ctc_beam_search_decoder(x, [5], merge_repeated=False)):
            self.check(found[0].values, [0, 0, 1])

    def test_labels(self):
        unique, places = tf.nn.ctc_unique_labels([[3, 4, 4, 3]])
        self.check(unique, [[3, 4, 0, 0]])
        self.check(places, [[0, 1, 1, 0]])
        labels, lengths = tf.nn.collapse_repeated([[1, 1, 2, 2, 3], [4, 4, 0, 0, 0]], [4, 2])
        self.check(labels, [[1, 2], [4, 0]])
        self.check(lengths, [2, 1])

    def test_top(self):
        self.check(tf.nn.top_k([1., 5., 3.], k=2).indices, [1, 2])
        self.check(tf.nn.in_top_k([[1., 2., 3.], [3., 2., 1.]], [1, 2], k=2), [True, False])


if __name__ == "__main__":
    unittest.main()
