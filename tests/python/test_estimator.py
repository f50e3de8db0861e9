"""Estimators: model functions, canned models, configurations, exports."""

import json
import os
import tempfile
import unittest
from unittest import mock

import numpy as np

import millrace as tf

tf.logging.set_verbosity(tf.logging.ERROR)
fc, estimator = tf.feature_column, tf.estimator

X = np.random.RandomState(0).rand(64, 1).astype(np.float32)
Y = (3 * X[:, 0] + 1).astype(np.float32)


def linear_model_fn(features, labels, mode, params):
    p = tf.squeeze(tf.layers.dense(features["x"], 1), -1)
    if mode == estimator.ModeKeys.PREDICT:
        return estimator.EstimatorSpec(mode, predictions={"p": p})
    loss = tf.losses.mean_squared_error(labels, p)
    train_op = tf.train.GradientDescentOptimizer(params["rate"]).minimize(loss, global_step=tf.train.get_global_step())
    return estimator.EstimatorSpec(mode=mode, predictions=p, loss=loss, train_op=train_op,
                                   eval_metric_ops={"rmse": tf.metrics.root_mean_squared_error(labels, p)})


def arrays(shuffle=False, num_epochs=1, y=Y, **kwargs):
    return estimator.inputs.numpy_input_fn({"x": X}, y, batch_size=16, num_epochs=num_epochs, shuffle=shuffle, **kwargs)


class Case(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def linear(self, **config):
        return estimator.Estimator(linear_model_fn, self.folder, params={"rate": 0.3},
                                   config=estimator.RunConfig(tf_random_seed=1, **config))


class Own(Case):
    def test_learns_and_goes_on(self):
        e = self.linear()
        e.train(arrays(shuffle=True, num_epochs=None), steps=200)
        found = e.evaluate(arrays())
        self.assertEqual(found["global_step"], 200)
        self.assertLess(found["rmse"], 0.01)
        self.assertAlmostEqual(found["loss"], found["rmse"] ** 2, places=4)
        self.assertAlmostEqual(float(e.get_variable_value("dense/kernel")[0, 0]), 3, places=1)
        again = self.linear()
        again.train(arrays(num_epochs=None), steps=10)
        self.assertEqual(again.evaluate(arrays(), steps=1)["global_step"], 210)
        again.train(arrays(num_epochs=None), max_steps=210)
        self.assertEqual(again.get_variable_value("global_step"), 210)

    def test_predicts(self):
        e = self.linear()
        e.train(lambda: tf.data.Dataset.from_tensors(({"x": X}, Y)).repeat(100))
        made = list(e.predict(arrays(y=None)))
        self.assertEqual(len(made), 64)
        np.testing.assert_allclose([m["p"] for m in made], Y, atol=0.1)
        whole = next(e.predict(arrays(y=None), yield_single_examples=False))
        self.assertEqual(whole["p"].shape, (16,))

    def test_the_end_of_the_input_ends_training(self):
        e = self.linear()
        e.train(arrays(num_epochs=2))
        self.assertEqual(e.get_variable_value("global_step"), 8)

    def test_export(self):
        e = self.linear()
        e.train(arrays(num_epochs=None), steps=100)
        spec = {"x": tf.FixedLenFeature([1], tf.float32)}
        path = e.export_savedmodel(os.path.join(self.folder, "export"),
                                   estimator.export.build_parsing_serving_input_receiver_fn(spec))
        example = tf.train.Example()
        example.features.feature["x"].float_list.value.append(0.5)
        with tf.Session(graph=tf.Graph()) as session:
            meta = tf.saved_model.loader.load(session, ["serve"], path.decode())
            signature = meta.signature_def["serving_default"]
            out = session.run(signature.outputs["p"].name, {signature.inputs["examples"].name: [example.SerializeToString()]})
        np.testing.assert_allclose(out, [e.get_variable_value("dense/kernel")[0, 0] * 0.5 +
                                         e.get_variable_value("dense/bias")[0]],
                                   rtol=1e-5)

    def test_errors(self):
        self.assertRaises(ValueError, estimator.Estimator, lambda x: None)
        self.assertRaises(ValueError, estimator.Estimator, lambda features: None, params={"a": 1})
        self.assertRaises(ValueError, self.linear().train, arrays(), steps=1, max_steps=1)
        self.assertRaisesRegex(ValueError, "Missing loss", estimator.EstimatorSpec, estimator.ModeKeys.EVAL)
        self.assertRaisesRegex(ValueError, "Missing train_op", estimator.EstimatorSpec, estimator.ModeKeys.TRAIN)
        self.assertRaises(ValueError, estimator.inputs.numpy_input_fn, X, Y)
        with self.assertRaisesRegex(ValueError, "mismatched"):
            estimator.inputs.numpy_input_fn({"x": X}, Y[:3], shuffle=False)()

    def test_train_and_evaluate(self):
        e = self.linear(save_checkpoints_steps=20)
        receiver = estimator.export.build_raw_serving_input_receiver_fn({"x": tf.placeholder(tf.float32, [None, 1], name="x")})
        found, exports = estimator.train_and_evaluate(
            e, estimator.TrainSpec(arrays(num_epochs=None), max_steps=50),
            estimator.EvalSpec(arrays(), steps=None, throttle_secs=0, exporters=estimator.FinalExporter("last", receiver)))
        self.assertEqual(found["global_step"], 50)
        self.assertTrue(os.path.isdir(exports[0]))


    def test_best_exporter(self):
        e = self.linear()
        e.train(arrays(), steps=1)
        receiver = estimator.export.build_raw_serving_input_receiver_fn({"x": tf.placeholder(tf.float32, [None, 1])})
        path = os.path.join(self.folder, "export")

        def exported(exporter):
            return exporter.export(e, path, e.latest_checkpoint(), e.evaluate(arrays()), False)
        first = estimator.BestExporter("best", receiver, event_file_pattern="eval/*.tfevents.*")
        self.assertIsNotNone(exported(first))
        self.assertIsNone(exported(first))
        again = estimator.BestExporter("best", receiver, event_file_pattern="eval/*.tfevents.*")
        self.assertIsNone(exported(again))  # as good as that of the first one, which the files tell
        e.train(arrays(), steps=3)
        self.assertIsNotNone(exported(again))
        self.assertRaises(ValueError, estimator.BestExporter, "best", receiver, exports_to_keep=0)
        self.assertRaisesRegex(ValueError, "best_eval_result", estimator.BestExporter, "b", receiver, compare_fn=lambda a, b: 1)

    def test_default_attrs_of_exports(self):
        e = self.linear()
        e.train(arrays(), steps=1)
        receiver = estimator.export.build_raw_serving_input_receiver_fn({"x": tf.placeholder(tf.float32, [None, 1])})

        def stripped(path):
            model = tf.saved_model.loader.SavedModelLoader(path)
            return model.saved_model.meta_graphs[0].meta_info_def.stripped_default_attrs
        self.assertTrue(stripped(e.export_saved_model(self.folder + "/a", receiver)))
        self.assertFalse(stripped(e.export_savedmodel(self.folder + "/b", receiver)))
        self.assertTrue(stripped(e.export_savedmodel(self.folder + "/c", receiver, strip_default_attrs=True)))


class Heads(Case):
    def test_thresholds(self):
        head = estimator.MultiLabelHead(2, thresholds=[0.4])
        spec = head.create_estimator_spec({}, "eval", tf.constant([[0.0, 9.0], [-9.0, 9.0]]), labels=[[1, 1], [0, 0]])
        values = {k: v[1] for k, v in spec.eval_metric_ops.items()}
        with tf.Session() as session:
            session.run(tf.local_variables_initializer())
            found = session.run(values)
        self.assertAlmostEqual(float(found["accuracy/positive_threshold_0.4"]), 0.75)
        self.assertAlmostEqual(float(found["precision/positive_threshold_0.4"]), 2 / 3, places=6)
        self.assertAlmostEqual(float(found["recall/positive_threshold_0.4"]), 1.0)
        self.assertRaises(ValueError, estimator.MultiLabelHead, 2, thresholds=[1.0])

    def test_reductions(self):
        logits = tf.constant([[1.0], [3.0]])
        for reduction, expected in ((None, 5.0), ("sum_over_batch_size", 5.0), ("sum", 10.0), (tf.losses.Reduction.SUM, 10.0)):
            more = {} if reduction is None else {"loss_reduction": reduction}
            spec = estimator.RegressionHead(**more).create_estimator_spec({}, "eval", logits, labels=[0.0, 0.0])
            with tf.Session() as session:
                self.assertAlmostEqual(float(session.run(spec.loss)), expected, places=5)

    def test_links(self):
        logits, labels = tf.constant([[0.0], [0.0]]), [[1.0], [0.0]]
        logistic = estimator.LogisticRegressionHead().create_estimator_spec({}, "eval", logits, labels=labels)
        counts = estimator.PoissonRegressionHead(compute_full_loss=False)
        poisson = counts.create_estimator_spec({}, "eval", logits, labels=labels)
        with tf.Session() as session:
            np.testing.assert_allclose(session.run([logistic.loss, poisson.loss]), [np.log(2), 1.0], rtol=1e-6)
            np.testing.assert_allclose(session.run(logistic.predictions["predictions"]), [[0.5], [0.5]])
            np.testing.assert_allclose(session.run(poisson.predictions["predictions"]), [[1.0], [1.0]])

    def test_what_is_trained_and_updated(self):
        tf.train.create_global_step()
        a, b, c = (tf.get_variable(n, initializer=1.0) for n in "abc")
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign(c, 7.0))
        spec = estimator.RegressionHead().create_estimator_spec(
            {}, "train", tf.reshape(a + b, [1, 1]), labels=[0.0], optimizer=tf.train.GradientDescentOptimizer(0.1),
            trainable_variables=[a], update_ops=[])
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run(spec.train_op)
            np.testing.assert_allclose(session.run([a, b, c]), [0.6, 1, 1], rtol=1e-6)


class HeadNames(Case):
    def test_the_average_loss_counts_weights_and_is_head_truediv(self):
        with tf.Graph().as_default():
            tf.train.create_global_step()
            head = estimator.BinaryClassHead(weight_column="w", loss_reduction=tf.losses.Reduction.SUM)
            logits = tf.Variable([[0.0], [4.0]])
            head.create_estimator_spec({"w": tf.constant([[3.0], [1.0]])}, "train", logits, labels=tf.constant([[1], [0]]),
                                       optimizer=tf.train.GradientDescentOptimizer(0.0))
            average = tf.get_default_graph().get_tensor_by_name("head/truediv:0")
            with tf.Session() as sess:
                sess.run(tf.global_variables_initializer())
                self.assertAlmostEqual(sess.run(average), (3 * np.log(2) + np.log(1 + np.exp(4))) / 4, places=5)


class Inputs(Case):
    def test_batches_go_over_the_end_of_epochs(self):
        x = np.arange(3)
        batch = estimator.inputs.numpy_input_fn(x, x * 2, batch_size=2, num_epochs=2, shuffle=False)()
        with tf.Session() as session:
            found = [tuple(v.tolist() for v in session.run(batch)) for _ in range(3)]
            self.assertEqual(found, [([0, 1], [0, 2]), ([2, 0], [4, 0]), ([1, 2], [2, 4])])
            with self.assertRaises(tf.errors.OutOfRangeError):
                session.run(batch)

    def test_strings(self):
        batch = estimator.inputs.numpy_input_fn({"s": np.array(["a", "b"])}, shuffle=False)()
        with tf.Session() as session:
            self.assertEqual(session.run(batch)["s"].tolist(), [b"a", b"b"])


class Config(Case):
    def config(self, **tf_config):
        with mock.patch.dict(os.environ, {"TF_CONFIG": json.dumps(tf_config)}):
            return estimator.RunConfig()

    def test_alone(self):
        c = self.config()
        self.assertEqual((c.task_type, c.task_id, c.master, c.is_chief, c.num_ps_replicas, c.num_worker_replicas),
                         ("worker", 0, "", True, 0, 1))
        self.assertEqual((c.save_checkpoints_secs, c.save_checkpoints_steps), (600, None))
        self.assertEqual(c.replace(save_checkpoints_steps=5).save_checkpoints_secs, None)
        self.assertRaises(ValueError, c.replace, master="x")

    def test_cluster(self):
        cluster = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"]}
        c = self.config(cluster=cluster, task={"type": "worker", "index": 1})
        self.assertEqual((c.master, c.is_chief, c.num_ps_replicas, c.num_worker_replicas, c.global_id_in_cluster),
                         ("grpc://c:1", False, 1, 3, 2))
        self.assertEqual(list(c.session_config.device_filters), ["/job:ps", "/job:worker/task:1"])
        self.assertTrue(self.config(cluster=cluster, task={"type": "chief", "index": 0}).is_chief)
        c = self.config(cluster=cluster, task={"type": "evaluator", "index": 0})
        self.assertEqual((c.master, c.is_chief, c.num_worker_replicas), ("", False, 0))
        self.assertRaises(ValueError, self.config, cluster={"worker": ["a:1"]}, task={"type": "worker", "index": 0})
        self.assertRaises(ValueError, self.config, cluster=cluster, task={"type": "worker", "index": 7})


class Canned(Case):
    def test_dnn_classifier(self):
        r = np.random.RandomState(1)
        x = r.rand(120, 2).astype(np.float32)
        y = (x[:, 0] > x[:, 1]).astype(np.int32) + (x[:, 0] > x[:, 1] + 0.5)
        fn = estimator.inputs.numpy_input_fn({"x": x}, y, batch_size=40, num_epochs=None, shuffle=True)
        c = estimator.DNNClassifier([16], [fc.numeric_column("x", shape=[2])], self.folder, n_classes=3,
                                    config=estimator.RunConfig(tf_random_seed=1), optimizer=tf.train.AdamOptimizer(0.05))
        c.train(fn, steps=150)
        self.assertEqual(sorted(n for n in c.get_variable_names() if "Adam" not in n and "power" not in n),
                         ["dnn/hiddenlayer_0/bias", "dnn/hiddenlayer_0/kernel", "dnn/logits/bias", "dnn/logits/kernel",
                          "global_step"])
        found = c.evaluate(estimator.inputs.numpy_input_fn({"x": x}, y, shuffle=False))
        self.assertGreater(found["accuracy"], 0.9)
        self.assertAlmostEqual(found["loss"], found["average_loss"] * 120, places=2)
        first = next(c.predict(estimator.inputs.numpy_input_fn({"x": x}, shuffle=False)))
        self.assertEqual(first["classes"].tolist(), [str(first["class_ids"][0]).encode()])
        self.assertAlmostEqual(first["probabilities"].sum(), 1, places=5)

    def test_linear_binary_with_words(self):
        words = np.array(["good", "bad", "fine", "awful"] * 10)
        labels = np.array(["yes", "no", "yes", "no"] * 10)
        column = fc.categorical_column_with_vocabulary_list("w", ["good", "bad", "fine", "awful"])
        c = estimator.LinearClassifier([column], self.folder, label_vocabulary=["no", "yes"])
        c.train(estimator.inputs.numpy_input_fn({"w": words}, labels, batch_size=8, num_epochs=None, shuffle=False), steps=30)
        found = c.evaluate(estimator.inputs.numpy_input_fn({"w": words}, labels, shuffle=False))
        self.assertEqual(found["accuracy"], 1)
        self.assertGreater(found["auc"], 0.99)
        self.assertAlmostEqual(found["label/mean"], 0.5)
        self.assertIn("linear/linear_model/w/weights", c.get_variable_names())
        first = next(c.predict(estimator.inputs.numpy_input_fn({"w": words}, shuffle=False)))
        self.assertEqual(first["classes"].tolist(), [b"yes"])

    def test_regressors(self):
        column = fc.numeric_column("x")
        e = estimator.LinearRegressor([column], optimizer=tf.train.GradientDescentOptimizer(0.02), model_dir=self.folder)
        e.train(arrays(num_epochs=None), steps=200)
        self.assertLess(e.evaluate(arrays())["average_loss"], 0.01)
        d = estimator.DNNRegressor([8, 4], [column], config=estimator.RunConfig(tf_random_seed=2), optimizer="Adam")
        d.train(arrays(num_epochs=None), steps=5)
        self.assertEqual(next(d.predict(arrays(y=None)))["predictions"].shape, (1,))

    def test_both_together(self):
        words = np.array(["a", "b"] * 20)
        x = np.random.RandomState(0).rand(40).astype(np.float32)
        labels = ((words == "a") & (x > 0.3)).astype(np.int32)
        category = fc.categorical_column_with_hash_bucket("w", 10)
        c = estimator.DNNLinearCombinedClassifier(
            model_dir=self.folder, linear_feature_columns=[category, fc.crossed_column(["w", fc.bucketized_column(
                fc.numeric_column("x"), [0.3])], 50)],
            dnn_feature_columns=[fc.numeric_column("x"), fc.embedding_column(category, 3)], dnn_hidden_units=[8],
            linear_optimizer=tf.train.FtrlOptimizer(0.3), config=estimator.RunConfig(tf_random_seed=1))
        c.train(estimator.inputs.numpy_input_fn({"w": words, "x": x}, labels, batch_size=40, num_epochs=None, shuffle=False),
                steps=300)
        self.assertEqual(c.get_variable_value("global_step"), 300)
        self.assertIn("dnn/input_from_feature_columns/input_layer/w_embedding/embedding_weights", c.get_variable_names())
        found = c.evaluate(estimator.inputs.numpy_input_fn({"w": words, "x": x}, labels, shuffle=False))
        self.assertGreater(found["accuracy"], 0.95)

    def test_baseline(self):
        c = estimator.BaselineRegressor(model_dir=self.folder)
        c.train(arrays(num_epochs=None), steps=100)
        self.assertAlmostEqual(float(next(c.predict(arrays(y=None)))["predictions"][0]), Y.mean(), places=1)


if __name__ == "__main__":
    unittest.main()
