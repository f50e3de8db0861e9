"""tf.contrib.layers, slim, losses and metrics: names and collections of variables, values against numpy, loops of training."""

import tempfile
import unittest

import numpy as np

import millrace as tf

layers, slim = tf.contrib.layers, tf.contrib.slim


class Case(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()
        tf.set_random_seed(1)
        self.random = np.random.RandomState(5)
        self.session = tf.Session()
        self.addCleanup(self.session.close)

    def floats(self, *shape):
        return self.random.rand(*shape).astype(np.float32)

    def start(self):
        self.session.run(tf.global_variables_initializer())


class LayersTest(Case):
    def names(self):
        return [v.op.name for v in tf.global_variables()]

    def test_fully_connected(self):
        x = self.floats(3, 4)
        y = layers.fully_connected(tf.constant(x), 5, biases_initializer=tf.constant_initializer(.25))
        self.assertEqual(self.names(), ["fully_connected/weights", "fully_connected/biases"])
        self.assertEqual(tf.get_collection(tf.GraphKeys.MODEL_VARIABLES), tf.global_variables())
        self.start()
        value, w = self.session.run([y, tf.global_variables()[0]])
        np.testing.assert_allclose(value, np.maximum(x @ w + .25, 0), rtol=1e-5)
        self.assertEqual(layers.fully_connected(tf.zeros([2, 3, 4]), 5).shape.as_list(), [2, 3, 5])

    def test_names_of_convolutions(self):
        x = tf.zeros([2, 8, 8, 3])
        self.assertEqual(layers.conv2d(x, 4, [3, 3]).shape.as_list(), [2, 8, 8, 4])
        self.assertEqual(layers.conv2d_transpose(x, 6, 3, stride=2, scope="up").shape.as_list(), [2, 16, 16, 6])
        self.assertEqual(layers.separable_conv2d(x, 6, [3, 3], 2, stride=2).shape.as_list(), [2, 4, 4, 6])
        self.assertEqual(layers.separable_conv2d(x, None, [3, 3], depth_multiplier=2, scope="dw").shape.as_list(), [2, 8, 8, 6])
        self.assertEqual(self.names(), ["Conv/weights", "Conv/biases", "up/weights", "up/biases",
                                        "SeparableConv2d/depthwise_weights",
                                        "SeparableConv2d/pointwise_weights", "SeparableConv2d/biases", "dw/depthwise_weights",
                                        "dw/biases"])

    def test_scopes_of_arguments_and_end_points(self):
        with tf.contrib.framework.arg_scope([layers.conv2d], weights_regularizer=layers.l2_regularizer(.5),
                                            normalizer_fn=layers.batch_norm, outputs_collections="ends"):
            net = layers.repeat(tf.zeros([2, 8, 8, 3]), 2, layers.conv2d, 4, [3, 3], scope="conv")
        layers.flatten(layers.max_pool2d(net, 2))
        self.assertEqual(self.names()[:5], ["conv/conv_1/weights", "conv/conv_1/BatchNorm/beta",
                                            "conv/conv_1/BatchNorm/moving_mean",
                                            "conv/conv_1/BatchNorm/moving_variance", "conv/conv_2/weights"])
        self.assertEqual(list(layers.utils.convert_collection_to_dict("ends")), ["conv/conv_1", "conv/conv_2"])
        losses = tf.losses.get_regularization_losses()
        self.start()
        w = self.session.run(tf.global_variables()[0])
        self.assertAlmostEqual(self.session.run(losses[0]), .25 * (w ** 2).sum(), places=4)

    def test_batch_norm_in_training_and_after(self):
        x = self.floats(6, 3)
        training = tf.placeholder(tf.bool)
        y = layers.batch_norm(tf.constant(x), decay=.9, scale=True, is_training=training, updates_collections=None)
        self.start()
        mean, variance = x.mean(0), x.var(0)
        value = self.session.run(y, {training: True})
        np.testing.assert_allclose(value, (x - mean) / np.sqrt(variance + .001), rtol=1e-4, atol=1e-4)
        moving = {v.op.name.split("/")[-1]: self.session.run(v) for v in tf.global_variables()}
        np.testing.assert_allclose(moving["moving_mean"], .1 * mean, rtol=1e-4)
        np.testing.assert_allclose(moving["moving_variance"], .9 + .1 * variance * 6 / 5, rtol=1e-4)
        value = self.session.run(y, {training: False})
        np.testing.assert_allclose(value, (x - .1 * mean) / np.sqrt(moving["moving_variance"] + .001), rtol=1e-4, atol=1e-4)
        self.assertEqual(self.session.run(tf.global_variables()[2]).tolist(), moving["moving_mean"].tolist())

    def test_updates_are_collected(self):
        layers.batch_norm(tf.zeros([2, 4, 4, 3]))
        self.assertEqual(len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)), 2)
        layers.batch_norm(tf.zeros([2, 4, 4, 3]), is_training=False)
        self.assertEqual(len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)), 2)

    def test_other_norms(self):
        x = self.floats(2, 4, 4, 6)
        tests = [(layers.layer_norm(x), (1, 2, 3), 1e-12), (layers.instance_norm(x), (1, 2), 1e-6)]
        self.start()
        for y, axes, epsilon in tests:
            wanted = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)
            np.testing.assert_allclose(self.session.run(y), wanted, rtol=1e-3, atol=1e-3)
        groups = x.reshape(2, 4, 4, 3, 2)
        wanted = (groups - groups.mean((1, 2, 4), keepdims=True)) / np.sqrt(groups.var((1, 2, 4), keepdims=True) + 1e-6)
        y = layers.group_norm(x, groups=3)
        self.start()
        np.testing.assert_allclose(self.session.run(y), wanted.reshape(x.shape), rtol=1e-3, atol=1e-3)

    def test_regularizers(self):
        w = tf.constant([[1., -2.], [3., 0.]])
        for f, wanted in ((layers.l1_regularizer(.5), 3), (layers.l2_regularizer(.5), 3.5),
                          (layers.l1_l2_regularizer(.5, .5), 6.5)):
            self.assertAlmostEqual(self.session.run(f(w)), wanted, places=5)
        self.assertIsNone(layers.l2_regularizer(0.)(w))
        with self.assertRaises(ValueError):
            layers.l2_regularizer(1)
        total = layers.apply_regularization(layers.l2_regularizer(.5), [w, w])
        self.assertEqual(self.session.run(total), 7)
        self.assertEqual(tf.losses.get_regularization_losses(), [total])

    def test_xavier(self):
        value = self.session.run(layers.xavier_initializer()([200, 100]))
        self.assertLess(np.abs(value).max(), np.sqrt(6 / 300))
        self.assertAlmostEqual(value.std(), np.sqrt(2 / 300), delta=.002)

    def test_optimize_loss(self):
        w = tf.get_variable("w", initializer=[1., 2.])
        step = tf.train.get_or_create_global_step()
        train = layers.optimize_loss(tf.reduce_sum(w * w), step, .1, "SGD", clip_gradients=1.)
        self.start()
        self.assertEqual(self.session.run(train), 5)
        np.testing.assert_allclose(self.session.run(w), np.array([1, 2]) * (1 - .1 / np.sqrt(5)), rtol=1e-5)
        self.assertEqual(self.session.run(step), 1)
        with self.assertRaisesRegex(ValueError, "Optimizer name"):
            layers.optimize_loss(tf.reduce_sum(w), step, .1, "Other", name="o")

    def test_embedding(self):
        ids = np.array([[1, 2], [2, 0]])
        e = layers.embed_sequence(ids, vocab_size=4, embed_dim=3, scope="e")
        again = layers.embed_sequence(ids, vocab_size=4, embed_dim=3, unique=True, scope="e", reuse=True)
        self.assertEqual(self.names(), ["e/embeddings"])
        self.start()
        a, b, table = self.session.run([e, again, tf.global_variables()[0]])
        np.testing.assert_array_equal(a, table[ids])
        np.testing.assert_array_equal(b, table[ids])


class SlimTest(Case):
    def model(self):
        x = np.random.RandomState(0).rand(32, 4).astype(np.float32)
        net = slim.stack(tf.constant(x), slim.fully_connected, [8, 8])
        return slim.fully_connected(net, 1, activation_fn=None), (x.sum(1, keepdims=True) > 2).astype(np.float32)

    def test_train_and_evaluate(self):
        out, y = self.model()
        slim.losses.mean_squared_error(out, y)
        train = slim.learning.create_train_op(slim.losses.get_total_loss(), tf.train.AdamOptimizer(.02), clip_gradient_norm=1.)
        with tempfile.TemporaryDirectory() as folder:
            loss = slim.learning.train(train, folder, number_of_steps=60, log_every_n_steps=0)
            self.assertLess(loss, .2)
            tf.reset_default_graph()
            out, y = self.model()
            tf.train.get_or_create_global_step()
            values, updates = slim.metrics.aggregate_metric_map(
                {"mse": slim.metrics.streaming_mean_squared_error(out, tf.constant(y))})
            path = tf.train.latest_checkpoint(folder)
            self.assertTrue(path.endswith("-60"))
            found = slim.evaluation.evaluate_once("", path, None, num_evals=2, eval_op=list(updates.values()), final_op=values)
        self.assertAlmostEqual(found["mse"], loss, delta=.02)

    def test_variables(self):
        slim.fully_connected(tf.zeros([2, 3]), 4, scope="a")
        slim.model_variable("b", [2], initializer=tf.zeros_initializer())
        self.assertEqual([v.op.name for v in slim.get_variables("a")], ["a/weights", "a/biases"])
        self.assertEqual(slim.model_analyzer.analyze_vars(slim.get_model_variables()), (18, 72))

    def test_streaming_measures_have_predictions_first(self):
        value, update = tf.contrib.metrics.streaming_precision(tf.constant([1, 1, 0, 0]), tf.constant([1, 0, 1, 1]))
        self.session.run(tf.local_variables_initializer())
        self.assertEqual(self.session.run(update), .5)


if __name__ == "__main__":
    unittest.main()
