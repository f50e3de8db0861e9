"""tf.contrib.learn's estimators and experiments."""

import tempfile
import unittest

import numpy as np

import millrace as tf

tf.logging.set_verbosity(tf.logging.ERROR)
learn, layers = tf.contrib.learn, tf.contrib.layers

R = np.random.RandomState(0)
X = R.rand(80, 2).astype(np.float32)
Y = (X[:, 0] > X[:, 1]).astype(np.int64)


class Case(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_arrays(self):
        c = learn.DNNClassifier([8], learn.infer_real_valued_columns_from_input(X), model_dir=self.folder, n_classes=2,
                                optimizer=tf.train.AdamOptimizer(0.05), config=learn.RunConfig(tf_random_seed=1))
        c.fit(X, Y, steps=150)
        self.assertGreater(c.evaluate(X, Y)["accuracy"], 0.9)
        found = c.evaluate(X, Y, metrics={"own": learn.MetricSpec(tf.metrics.accuracy, prediction_key="classes")})
        self.assertAlmostEqual(found["own"], found["accuracy"])
        classes = list(c.predict(X))
        self.assertGreater((np.array(classes) == Y).mean(), 0.9)

    def test_input_fn_and_columns(self):
        def input_fn():
            return {"a": tf.constant(X[:, :1]), "w": tf.constant(np.where(Y, "x", "y").reshape(-1, 1))}, tf.constant(Y)
        columns = [layers.real_valued_column("a"), layers.sparse_column_with_keys("w", ["x", "y"])]
        c = learn.LinearClassifier(columns, model_dir=self.folder)
        c.fit(input_fn=input_fn, steps=30)
        self.assertEqual(c.evaluate(input_fn=input_fn, steps=1)["accuracy"], 1)

    def test_model_fn(self):
        def model_fn(features, labels, mode):
            p = tf.squeeze(tf.layers.dense(features, 1), -1)
            if mode == learn.ModeKeys.INFER:
                return p, None, None
            loss = tf.losses.mean_squared_error(tf.to_float(labels), p)
            return p, loss, tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
        e = learn.SKCompat(learn.Estimator(model_fn, self.folder)).fit(X, Y, steps=50)
        self.assertLess(e.score(X, Y)["loss"], 0.5)
        self.assertEqual(e.predict(X).shape, (80,))

    def test_experiment(self):
        def experiment_fn(run_config, hparams):
            c = learn.LinearClassifier(learn.infer_real_valued_columns_from_input(X), config=run_config)
            whole = tf.estimator.inputs.numpy_input_fn(X, Y, batch_size=20, num_epochs=None, shuffle=False)
            return learn.Experiment(c, train_input_fn=whole, eval_input_fn=whole, train_steps=30, eval_steps=2,
                                    min_eval_frequency=15)
        found, _ = learn.learn_runner.run(experiment_fn, run_config=learn.RunConfig(model_dir=self.folder), hparams=None)
        self.assertEqual(found["global_step"], 30)

    def test_early_stopping(self):
        c = learn.LinearClassifier(learn.infer_real_valued_columns_from_input(X), model_dir=self.folder,
                                   optimizer=tf.train.GradientDescentOptimizer(0.0),
                                   config=learn.RunConfig(save_checkpoints_steps=5))
        monitor = learn.monitors.ValidationMonitor(X, Y, every_n_steps=5, early_stopping_rounds=10, check_interval_secs=0)
        c.fit(X, Y, steps=1000, monitors=[monitor])
        self.assertTrue(monitor.early_stopped)
        self.assertLess(c.get_variable_value("global_step"), 100)

    def test_batches_of_predictions(self):
        columns = learn.infer_real_valued_columns_from_input(X)
        c = learn.LinearClassifier(columns, model_dir=self.folder).fit(X, Y, steps=2)
        batches = list(c.predict(X, batch_size=30, iterate_batches=True))
        self.assertEqual([len(b) for b in batches], [30, 30, 20])
        np.testing.assert_array_equal(np.concatenate(batches), list(c.predict(X)))
        r = learn.DNNRegressor([2], columns, input_layer_min_slice_size=64).fit(X, X[:, 0], steps=2)
        self.assertEqual(r.predict(X, batch_size=30, iterate_batches=True, as_iterable=False).shape, (80,))

    def test_what_is_refused(self):
        columns = learn.infer_real_valued_columns_from_input(X)
        for setting in (dict(gradient_clip_norm=1.0), dict(enable_centered_bias=True), dict(feature_engineering_fn=len)):
            with self.assertRaisesRegex(NotImplementedError, next(iter(setting))):
                learn.LinearClassifier(columns, model_dir=self.folder, **setting)
        with self.assertRaisesRegex(NotImplementedError, "embedding_lr_multipliers"):
            learn.DNNRegressor([2], columns, model_dir=self.folder, embedding_lr_multipliers={"a": 2.0})
        c = learn.LinearClassifier(columns, model_dir=self.folder)
        with self.assertRaisesRegex(NotImplementedError, "feed_fn"):
            c.evaluate(X, Y, feed_fn=dict)
        with self.assertRaisesRegex(NotImplementedError, "checkpoint_and_export"):
            learn.Experiment(c, len, len, checkpoint_and_export=True)
        with self.assertRaisesRegex(ValueError, "saving_listeners"):
            learn.Experiment(c, len, len, saving_listeners=[tf.train.CheckpointSaverListener()])


if __name__ == "__main__":
    unittest.main()
