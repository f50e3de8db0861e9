"""tf.contrib.layers, slim, losses and metrics: names and collections of variables, values against numpy, loops of training."""

import tempfile
import threading
import unittest
from unittest import mock

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


class NormalizationTest(Case):
    def test_fused_is_a_wish(self):
        x = self.floats(3, 5, 4)
        y = layers.batch_norm(tf.constant(x), fused=True)
        self.start()
        np.testing.assert_allclose(self.session.run(y), (x - x.mean((0, 1))) / np.sqrt(x.var((0, 1)) + .001), rtol=1e-3,
                                   atol=1e-4)
        layers.batch_norm(tf.zeros([2, 4, 4, 3]), fused=True, renorm=True)
        layers.batch_norm(tf.zeros([2, 4, 4, 3]), fused=True, batch_weights=tf.ones([2]))
        with self.assertRaises(ValueError):
            layers.batch_norm(tf.zeros([2, 4, 4, 3]), renorm=True, batch_weights=tf.ones([2]))

    def test_decay_that_is_a_tensor(self):
        is_training = tf.placeholder_with_default(True, [])
        y = layers.batch_norm(tf.ones([2, 3]), decay=tf.constant(.5), is_training=is_training, updates_collections=None)
        self.start()
        self.session.run(y, {is_training: False})
        mean = tf.contrib.framework.get_variables_by_name("moving_mean")[0]
        self.assertEqual(self.session.run(mean).tolist(), [0] * 3)
        self.session.run(y)
        self.assertEqual(self.session.run(mean).tolist(), [.5] * 3)

    def test_groups(self):
        x = self.floats(2, 3, 3, 4)
        plain, other = layers.group_norm(tf.constant(x), 2), layers.group_norm(tf.constant(x), 2, mean_close_to_zero=True)
        self.start()
        plain, other = self.session.run([plain, other])
        np.testing.assert_allclose(plain, other, rtol=1e-3, atol=1e-4)
        cut = x.reshape(2, 3, 3, 2, 2)
        wanted = (cut - cut.mean((1, 2, 4), keepdims=True)) / np.sqrt(cut.var((1, 2, 4), keepdims=True) + 1e-6)
        np.testing.assert_allclose(plain, wanted.reshape(x.shape), rtol=1e-3, atol=1e-4)


class ColumnsTest(Case):
    def test_integers_are_taken_modulo_the_buckets(self):
        column = layers.one_hot_column(layers.sparse_column_with_integerized_feature("x", 3))
        outs = {}
        found = layers.input_from_feature_columns({"x": tf.constant([[4], [2], [8]])}, [column], cols_to_outs=outs)
        self.assertEqual(self.session.run(found).tolist(), [[0, 1, 0], [0, 0, 1], [0, 0, 1]])
        self.assertEqual(list(outs), [column])
        with self.assertRaises(ValueError):
            layers.sparse_column_with_integerized_feature("x", 3, dtype=tf.float32)

    def test_other_combiners(self):
        for make in (lambda: layers.sparse_column_with_hash_bucket("x", 3, combiner="mean"),
                     lambda: layers.sparse_column_with_keys("x", ["a"], combiner="sqrtn"),
                     lambda: layers.crossed_column(["x", "y"], 5, combiner="mean"),
                     lambda: layers.crossed_column(["x", "y"], 5, ckpt_to_load_from="a")):
            with self.assertRaises(NotImplementedError):
                make()


class OptimizeLossTest(Case):
    def test_summaries_of_norms(self):
        w = tf.get_variable("w", initializer=[3.0, 4.0])
        layers.optimize_loss(tf.reduce_sum(w * w) / 2, tf.train.get_or_create_global_step(), .1, "SGD", clip_gradients=1.0,
                             summaries=["global_gradient_norm"])
        self.start()
        merged = tf.Summary.FromString(self.session.run(tf.summary.merge_all()))
        found = {v.tag.split("global_norm/")[1]: v.simple_value for v in merged.value}
        self.assertEqual(found.keys(), {"gradient_norm", "clipped_gradient_norm"})
        self.assertAlmostEqual(found["gradient_norm"], 5.0, places=5)
        self.assertAlmostEqual(found["clipped_gradient_norm"], 1.0, places=5)

    def test_names_of_optimizers(self):
        from millrace.contrib.layers.optimizers import OPTIMIZER_CLS_NAMES
        self.assertIn("Adam", OPTIMIZER_CLS_NAMES)
        self.assertEqual(OPTIMIZER_CLS_NAMES["SGD"], tf.train.GradientDescentOptimizer)
        with self.assertRaisesRegex(ValueError, "Optimizer name should be one of"):
            layers.optimize_loss(tf.constant(1.0), None, .1, "Best")


class _Endless:
    """A queue runner whose thread waits for an event, whatever the coordinator says."""

    def __init__(self, event):
        self._event = event

    def create_threads(self, sess, coord=None, daemon=False, start=False):
        thread = threading.Thread(target=self._event.wait, daemon=daemon)
        coord.register_thread(thread)
        thread.start()
        return [thread]


class _Hasty(tf.train.Supervisor):
    def __init__(self, **kwargs):
        super().__init__(stop_grace_secs=0.1, **kwargs)


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
            found = slim.evaluation.evaluate_once("", path, None, num_evals=2, eval_op=list(updates.values()), final_op=values,
                                                  initial_op=tf.global_variables_initializer())
        self.assertAlmostEqual(found["mse"], loss, delta=.02)

    def test_variables(self):
        slim.fully_connected(tf.zeros([2, 3]), 4, scope="a")
        slim.model_variable("b", [2], initializer=tf.zeros_initializer())
        self.assertEqual([v.op.name for v in slim.get_variables("a")], ["a/weights", "a/biases"])
        self.assertEqual(slim.model_analyzer.analyze_vars(slim.get_model_variables()), (18, 72))

    def test_with_shape(self):
        with_shape = tf.contrib.framework.with_shape
        x = tf.placeholder(tf.float32)
        self.assertEqual(with_shape([2, 3], x).shape.as_list(), [2, 3])
        expected = tf.placeholder(tf.int64, [None])
        for got in (with_shape([3, 3], x), with_shape(expected, x)):
            self.assertEqual(self.session.run(got, {x: np.ones([3, 3]), expected: [3, 3]}).shape, (3, 3))
            for wrong in (np.ones([3]), np.ones([3, 2]), np.ones([1, 3, 3])):
                with self.assertRaisesRegex(tf.errors.InvalidArgumentError, "Wrong shape"):
                    self.session.run(got, {x: wrong, expected: [3, 3]})
        with self.assertRaisesRegex(ValueError, "Incompatible shapes"):
            with_shape([2, 3], tf.zeros([3, 2]))
        self.assertEqual(with_shape([None, 3], tf.placeholder(tf.float32, [2, None])).shape.as_list(), [2, 3])

    def test_live_threads(self):
        """A runner that does not end: training ends all the same if it is told to."""
        blocked = threading.Event()
        self.addCleanup(blocked.set)

        def trained(**how):
            with tf.Graph().as_default():
                tf.train.add_queue_runner(_Endless(blocked))
                step = tf.train.get_or_create_global_step()
                return slim.learning.train(tf.assign_add(step, 1), None, number_of_steps=2, log_every_n_steps=0, **how)

        with mock.patch.object(tf.train, "Supervisor", _Hasty):
            self.assertEqual(trained(ignore_live_threads=True), 2)
            with self.assertRaisesRegex(RuntimeError, "threads still running"):
                trained()

    def test_names_that_live_elsewhere(self):
        f, t = tf.contrib.framework, tf.contrib.training
        self.assertEqual(f.smart_cond(True, lambda: 1, lambda: 2), 1)
        self.assertEqual(f.smart_constant_value(tf.constant(False)), False)
        self.assertEqual(self.session.run(f.broadcast_to(tf.constant(1), [2])).tolist(), [1, 1])
        labels, predictions = f.remove_squeezable_dimensions(tf.zeros([2, 1]), tf.zeros([2]))
        self.assertEqual(labels.shape.as_list(), [2])
        with tempfile.TemporaryDirectory() as folder:
            self.assertIsNone(t.wait_for_new_checkpoint(folder, seconds_to_sleep=.01, timeout=.02))
            self.assertEqual(list(slim.evaluation.checkpoints_iterator(folder, timeout=0)), [])
        both = tf.contrib.metrics.set_intersection(tf.constant([[1, 2]]), tf.constant([[2, 3]]))
        self.assertEqual(self.session.run(tf.contrib.metrics.set_size(both)).tolist(), [1])

    def test_streaming_measures_have_predictions_first(self):
        value, update = tf.contrib.metrics.streaming_precision(tf.constant([1, 1, 0, 0]), tf.constant([1, 0, 1, 1]))
        self.session.run(tf.local_variables_initializer())
        self.assertEqual(self.session.run(update), .5)


if __name__ == "__main__":
    unittest.main()
