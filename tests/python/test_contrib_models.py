"""k-means and random forests."""

import unittest

import numpy as np

import millrace as tf


class KMeans(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()

    def points(self):
        r = np.random.RandomState(0)
        return np.concatenate([r.normal(c, 0.1, [50, 2]) for c in ((0, 0), (3, 0), (0, 3))]).astype(np.float32)

    def run_(self, steps, **kwargs):
        x = tf.placeholder(tf.float32, [None, 2])
        graph = tf.contrib.factorization.KMeans(inputs=x, num_clusters=3, random_seed=1, **kwargs).training_graph()
        all_scores, index, scores, initialized, centers, init_op, train_op = graph
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            feed = {x: self.points()}
            session.run(init_op, feed)
            self.assertTrue(session.run(initialized))
            for _ in range(steps):
                _, d, i = session.run([train_op, tf.reduce_mean(scores), index[0]], feed)
            return session.run(centers), d, i

    def check(self, centers):
        np.testing.assert_allclose(sorted(map(tuple, np.round(centers).tolist())), [(0, 0), (0, 3), (3, 0)], atol=0.1)

    def test_batches(self):
        centers, distance, index = self.run_(10, initial_clusters="kmeans_plus_plus")
        self.check(centers)
        self.assertLess(distance, 0.05)
        self.assertEqual(len(set(index[:50])), 1)

    def test_draws_of_a_beginning(self):
        for retries in (0, 5, -1):
            tf.reset_default_graph()
            self.check(self.run_(10, initial_clusters="kmeans_plus_plus", kmeans_plus_plus_num_retries=retries)[0])

    def test_mini_batches(self):
        centers, distance, _ = self.run_(30, initial_clusters="kmeans_plus_plus", use_mini_batch=True)
        self.check(centers)

    def test_given_beginning_and_cosine(self):
        centers, _, index = self.run_(3, initial_clusters=[[1.0, 1], [1, 0], [0, 1]], distance_metric="cosine")
        self.assertEqual(set(index[50:100]), {1})
        self.assertEqual(set(index[100:]), {2})
        np.testing.assert_allclose(centers[1], [1, 0], atol=0.2)


class Forest(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()
        tf.set_random_seed(1)
        r = np.random.RandomState(0)
        self.x = r.rand(600, 4).astype(np.float32)
        self.y = ((self.x[:, 0] > 0.5).astype(np.int32) + 2 * (self.x[:, 1] > 0.5)).astype(np.int32)

    def params(self):
        from millrace.contrib.tensor_forest.python import tensor_forest
        return tensor_forest.ForestHParams(num_classes=4, num_features=4, num_trees=3, max_nodes=50,
                                           split_after_samples=50).fill()

    def test_graphs(self):
        from millrace.contrib.tensor_forest.python import tensor_forest
        x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.int32, [None])
        forest = tensor_forest.RandomForestGraphs(self.params())
        train_op, loss = forest.training_graph(x, y), forest.training_loss(x, y)
        made, _, _ = forest.inference_graph(x)
        with tf.train.MonitoredSession() as session:
            for i in range(30):
                at = np.arange(100) + 100 * (i % 6)
                _, l = session.run([train_op, loss], {x: self.x[at], y: self.y[at]})
            p = session.run(made, {x: self.x})
        np.testing.assert_allclose(p.sum(1), 1, atol=1e-4)
        self.assertGreater((p.argmax(1) == self.y).mean(), 0.9)
        self.assertTrue(-50 <= l < -5)

    def test_estimator(self):
        from millrace.contrib.tensor_forest.client import eval_metrics, random_forest
        from millrace.contrib.tensor_forest.python import tensor_forest
        tf.logging.set_verbosity(tf.logging.ERROR)
        e = random_forest.TensorForestEstimator(self.params(), graph_builder_class=tensor_forest.TrainingLossForest,
                                                config=tf.contrib.learn.RunConfig(tf_random_seed=1))
        e.fit(self.x, self.y, batch_size=100, steps=30)
        metric = {"accuracy": tf.contrib.learn.MetricSpec(eval_metrics.get_metric("accuracy"),
                                                          prediction_key=eval_metrics.get_prediction_key("accuracy"))}
        self.assertGreater(e.evaluate(self.x, self.y, metrics=metric)["accuracy"], 0.9)

    def test_what_is_refused(self):
        from millrace.contrib.tensor_forest.client import random_forest
        from millrace.contrib.tensor_forest.python import tensor_forest
        given = dict(num_classes=2, num_features=2, num_trees=1)
        for setting in (dict(feature_bagging_fraction=0.5), dict(split_name="oblique"), dict(max_fertile_nodes=3)):
            with self.assertRaisesRegex(NotImplementedError, next(iter(setting))):
                tensor_forest.ForestHParams(**given, **setting).fill()
        graphs = tensor_forest.RandomForestGraphs(tensor_forest.ForestHParams(**given).fill())
        with self.assertRaisesRegex(NotImplementedError, "data_spec"):
            graphs.inference_graph([[1.0, 2.0]], data_spec=object())
        with self.assertRaisesRegex(NotImplementedError, "weights_name"):
            random_forest.TensorForestEstimator(self.params(), weights_name="w")

    def test_training_ends_when_it_does_not_get_better(self):
        from millrace.contrib.tensor_forest.client import random_forest
        e = random_forest.TensorForestEstimator(self.params(), early_stopping_rounds=3)
        whole = tf.estimator.inputs.numpy_input_fn(self.x, np.zeros(600, np.int32), 100, num_epochs=None, shuffle=False)
        e.fit(input_fn=whole, steps=1000)  # one class only: trees do not grow
        self.assertLess(e.get_variable_value("global_step"), 20)


if __name__ == "__main__":
    unittest.main()
