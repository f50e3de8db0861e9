"""tf.losses and tf.metrics, against numbers worked out by hand."""

import unittest

import numpy as np

import millrace as tf


class Case(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()
        self.session = tf.Session()
        self.addCleanup(self.session.close)


class LossesTest(Case):
    labels = np.array([[1, 2], [3, 4]], np.float32)
    predictions = np.array([[0, 2], [1, 8]], np.float32)

    def check(self, loss, wanted):
        np.testing.assert_allclose(self.session.run(loss), wanted, rtol=1e-5, atol=1e-6)

    def test_values(self):
        a, b, losses = self.labels, self.predictions, tf.losses
        self.check(losses.mean_squared_error(a, b), 21 / 4)
        self.check(losses.absolute_difference(labels=a, predictions=b), 7 / 4)
        self.check(losses.huber_loss(a, b), (.5 + 0 + 1.5 + 3.5) / 4)
        self.check(losses.log_loss([[1.]], [[.5]]), np.log(2))
        self.check(losses.hinge_loss([[1., 0.]], [[.5, .5]]), 1)
        self.check(losses.cosine_distance([[1., 0]], [[.6, .8]], dim=1), .4)
        self.check(losses.sigmoid_cross_entropy([[1, 0]], [[0., 0.]]), np.log(2))
        self.check(losses.softmax_cross_entropy([[0, 1]], [[1., 2.]]), np.log1p(np.exp(-1)))
        self.check(losses.sparse_softmax_cross_entropy([[1]], [[1., 2.]]), np.log1p(np.exp(-1)))
        self.check(losses.mean_pairwise_squared_error(a, b), 1 + 36)

    def test_label_smoothing(self):
        self.check(tf.losses.softmax_cross_entropy([[0, 1]], [[1., 2.]], label_smoothing=.1), np.log1p(np.exp(-1)) + .05)

    def test_reductions(self):
        squares, w, r = (self.labels - self.predictions) ** 2, np.array([[2.], [0.]], np.float32), tf.losses.Reduction
        for reduction, wanted in ((r.NONE, squares * w), (r.SUM, 2), (r.MEAN, 2 / 4), (r.SUM_OVER_BATCH_SIZE, 2 / 4),
                                  (r.SUM_BY_NONZERO_WEIGHTS, 2 / 2)):
            self.check(tf.losses.mean_squared_error(self.labels, self.predictions, weights=w, reduction=reduction), wanted)
        with self.assertRaisesRegex(ValueError, "Reduction"):
            tf.losses.mean_squared_error(self.labels, self.predictions, reduction="other")

    def test_nothing_that_counts_gives_zero(self):
        self.check(tf.losses.mean_squared_error(self.labels, self.predictions, weights=0.), 0)

    def test_weights_must_fit(self):
        with self.assertRaisesRegex(ValueError, "can not be broadcast"):
            tf.losses.mean_squared_error(self.labels, self.predictions, weights=np.ones((2, 3)))
        with self.assertRaisesRegex(ValueError, "can not be broadcast"):
            tf.losses.mean_squared_error(self.labels, self.predictions, weights=[1., 1.])
        p = tf.placeholder(tf.float32)
        loss = tf.losses.mean_squared_error(self.labels, self.predictions, weights=p)
        with self.assertRaises(tf.errors.InvalidArgumentError):
            self.session.run(loss, {p: [1., 2.]})
        self.assertEqual(self.session.run(loss, {p: [[1.], [1.]]}), 21 / 4)

    def test_collection_and_total(self):
        a = tf.losses.mean_squared_error(self.labels, self.predictions)
        tf.losses.mean_squared_error(self.labels, self.predictions, loss_collection=None)
        tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, tf.constant(10.))
        self.assertEqual(tf.losses.get_losses(), [a])
        self.assertEqual(a.name, "mean_squared_error/value:0")
        self.check(tf.losses.get_total_loss(), 15.25)
        self.check(tf.losses.get_total_loss(add_regularization_losses=False), 5.25)
        self.check(tf.losses.get_regularization_loss(), 10)

    def test_labels_must_be_there(self):
        with self.assertRaisesRegex(ValueError, "labels must not be None"):
            tf.losses.mean_squared_error(None, self.predictions)


class MetricsTest(Case):
    labels, guesses = np.array([1, 0, 1, 1, 0]), np.array([1, 1, 1, 0, 0])
    scores = np.array([.9, .8, .7, .2, .1], np.float32)

    def check(self, metric, wanted, feeds=({},)):
        value, update = metric
        self.session.run(tf.local_variables_initializer())
        for feed in feeds:
            last = self.session.run(update, feed)
        found = self.session.run(value)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
        return last

    def test_accuracy_over_batches(self):
        labels, guesses = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.int64, [None])
        last = self.check(tf.metrics.accuracy(labels=labels, predictions=guesses), 4 / 5,
                          [{labels: [1, 2], guesses: [1, 3]}, {labels: [0, 0, 5], guesses: [0, 0, 5]}])
        self.assertAlmostEqual(last, .8)

    def test_variables_are_local(self):
        tf.metrics.accuracy(self.labels, self.guesses)
        self.assertEqual([v.name for v in tf.local_variables()], ["accuracy/total:0", "accuracy/count:0"])
        self.assertEqual(tf.get_collection(tf.GraphKeys.METRIC_VARIABLES), tf.local_variables())
        self.assertEqual(tf.global_variables(), [])

    def test_counts(self):
        m, a, b = tf.metrics, self.labels, self.guesses
        self.check(m.true_positives(a, b), 2)
        self.check(m.false_positives(a, b), 1)
        self.check(m.false_negatives(a, b, weights=[0, 0, 0, 2.5, 0]), 2.5)
        self.check(m.true_negatives(a, b), 1)
        self.check(m.precision(a, b), 2 / 3)
        self.check(m.recall(a, b), 2 / 3)

    def test_by_class(self):
        self.check(tf.metrics.mean_iou(self.labels, self.guesses, 2), (1 / 3 + 2 / 4) / 2)
        self.check(tf.metrics.mean_per_class_accuracy(self.labels, self.guesses, 2), (1 / 2 + 2 / 3) / 2)

    def test_areas_and_thresholds(self):
        m, a, s = tf.metrics, self.labels, self.scores
        self.check(m.auc(a, s), 4 / 6)  # of six pairs, four in the right order
        self.check(m.precision_at_thresholds(a, s, [.5, .75]), [2 / 3, 1 / 2])
        self.check(m.recall_at_thresholds(a, s, [.5, .75]), [2 / 3, 1 / 3])
        self.check(m.false_positives_at_thresholds(a, s, [.5]), [1])
        self.check(m.sensitivity_at_specificity(a, s, .5), 1)
        self.check(m.specificity_at_sensitivity(a, s, .66), .5)
        with self.assertRaises(tf.errors.InvalidArgumentError):
            self.check(m.auc([1, 0], tf.placeholder_with_default([2., .5], [2])), 0)

    def test_means(self):
        m, s = tf.metrics, self.scores
        self.check(m.mean([1., 2., 4.], weights=[1., 0., 1.]), 2.5)
        self.check(m.mean_tensor(s), s)
        self.check(m.root_mean_squared_error(s, s + 2), 2)
        self.check(m.mean_absolute_error(s, s - 2), 2)
        self.check(m.mean_relative_error(s, 2 * s, s), 1)
        self.check(m.mean_cosine_distance([[1., 0.]], [[.6, .8]], 1), .4)
        self.check(m.percentage_below(s, .5), .4)

    def test_best_k(self):
        m, scores, labels = tf.metrics, np.array([[.1, .5, .4], [.6, .3, .1]], np.float32), np.array([[2], [1]])
        self.check(m.recall_at_k(labels, scores, 1), 0)
        self.check(m.recall_at_k(labels[:, 0], scores, 2), 1)
        self.check(m.precision_at_k(labels, scores, 2), .5)
        self.check(m.precision_at_k(labels, scores, 2, class_id=2), 1)
        several = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], np.array([2, 0, 1]), [2, 2])
        self.check(m.recall_at_k(several, scores, 2), 2 / 3)
        self.check(m.average_precision_at_k(several, scores, 3), ((1 / 2 + 2 / 3) / 2 + 1 / 2) / 2)

    def test_collections(self):
        value, update = tf.metrics.mean([1.], metrics_collections=["m"], updates_collections=["u"])
        self.assertEqual((tf.get_collection("m"), tf.get_collection("u")), ([value], [update]))


if __name__ == "__main__":
    unittest.main()
