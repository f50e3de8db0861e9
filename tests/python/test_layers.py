"""tf.layers: names and shapes of variables, results against numpy, updates, losses, sharing."""

import unittest

import numpy as np

import millrace as tf


class Case(unittest.TestCase):
    """A new graph for each test."""

    def setUp(self):
        self._graph = tf.Graph().as_default()
        self._graph.__enter__()
        self.random = np.random.RandomState(1)

    def tearDown(self):
        self._graph.__exit__(None, None, None)

    def numbers(self, *shape):
        return self.random.rand(*shape).astype(np.float32)

    def run_all(self, *fetches, **kwargs):
        with tf.Session() as s:
            s.run(tf.global_variables_initializer())
            return s.run(list(fetches), kwargs.get("feed"))

    def variables(self):
        return [(v.op.name, v.shape.as_list()) for v in tf.global_variables()]

    def close(self, got, expected, tolerance=1e-5):
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


class Dense(Case):
    def test_result(self):
        x = self.numbers(3, 4)
        y = tf.layers.dense(tf.constant(x), 2, bias_initializer=tf.constant_initializer(0.5))
        kernel, got = self.run_all(tf.global_variables()[0], y)
        self.close(got, x @ kernel + 0.5)

    def test_activation(self):
        x = self.numbers(3, 4)
        y = tf.layers.dense(tf.constant(x), 2, activation=tf.nn.relu, use_bias=False)
        kernel, got = self.run_all(tf.global_variables()[0], y)
        self.close(got, np.maximum(x @ kernel, 0))
        self.assertEqual((y.name, len(tf.global_variables())), ("dense/Relu:0", 1))

    def test_more_dimensions(self):
        x = self.numbers(2, 3, 4)
        y = tf.layers.dense(tf.constant(x), 5)
        kernel, got = self.run_all(tf.global_variables()[0], y)
        self.assertEqual(y.shape.as_list(), [2, 3, 5])
        self.close(got, np.einsum("abi,ij->abj", x, kernel))

    def test_names_by_default(self):
        x = tf.zeros([1, 2])
        a, b = tf.layers.dense(x, 3), tf.layers.dense(x, 3)
        self.assertEqual(self.variables(), [("dense/kernel", [2, 3]), ("dense/bias", [3]), ("dense_1/kernel", [2, 3]),
                                            ("dense_1/bias", [3])])
        self.assertEqual((a.name, b.name), ("dense/BiasAdd:0", "dense_1/BiasAdd:0"))

    def test_names_in_scopes(self):
        x = tf.zeros([1, 2])
        with tf.variable_scope("net"):
            tf.layers.dense(x, 3)
            y = tf.layers.dense(x, 3, name="out")
        with tf.name_scope("not"):
            tf.layers.dense(x, 3)
        self.assertEqual([n for n, _ in self.variables()[::2]], ["net/dense/kernel", "net/out/kernel", "dense/kernel"])
        self.assertEqual(y.op.name, "net/out/BiasAdd")

    def test_reuse(self):
        x = tf.zeros([1, 2])
        tf.layers.dense(x, 3, name="d")
        tf.layers.dense(x, 3, name="d", reuse=True)
        self.assertEqual(len(tf.global_variables()), 2)
        with self.assertRaisesRegex(ValueError, "already exists"):
            tf.layers.dense(x, 3, name="d")

    def test_reuse_of_a_scope_finds_the_default_names(self):
        x = tf.zeros([1, 2])
        for reuse in (False, True):
            with tf.variable_scope("tower", reuse=reuse):
                tf.layers.dense(x, 3)
                tf.layers.dense(x, 3)
        self.assertEqual([n for n, _ in self.variables()[::2]], ["tower/dense/kernel", "tower/dense_1/kernel"])

    def test_objects_are_called_again(self):
        layer = tf.layers.Dense(3, name="d")
        a, b = layer(tf.ones([1, 2])), layer(tf.ones([1, 2]))
        self.assertEqual(len(tf.global_variables()), 2)
        a, b = self.run_all(a, b)
        self.close(a, b)
        self.assertEqual([v.op.name for v in layer.weights], ["d/kernel", "d/bias"])
        self.assertEqual(layer.count_params(), 9)

    def test_scope_of_an_object(self):
        layer = tf.layers.Dense(3)
        with self.assertRaises(ValueError):
            layer.scope_name
        with tf.variable_scope("s"):
            layer(tf.ones([1, 2]))
        self.assertEqual(layer.scope_name, "s/dense")

    def test_regularizers_once(self):
        x = tf.ones([1, 2])
        for reuse in (None, True):
            tf.layers.dense(x, 3, kernel_regularizer=lambda w: tf.reduce_sum(w * 0 + 1), name="d", reuse=reuse)
        losses = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
        self.assertEqual(len(losses), 1)
        self.assertTrue(losses[0].name.startswith("d/kernel/Regularizer/"))
        self.assertEqual(self.run_all(losses[0]), [6])

    def test_activity_regularizer(self):
        layer = tf.layers.Dense(3, activity_regularizer=lambda y: tf.reduce_sum(y), kernel_initializer=tf.ones_initializer())
        layer(tf.ones([2, 2]))
        self.assertEqual(self.run_all(*layer.losses), [6])  # 12 over a batch of 2

    def test_not_trained(self):
        tf.layers.dense(tf.ones([1, 2]), 3, trainable=False)
        self.assertEqual((len(tf.global_variables()), tf.trainable_variables()), (2, []))

    def test_initializer_of_the_scope(self):
        with tf.variable_scope("s", initializer=tf.constant_initializer(2.0)):
            y = tf.layers.dense(tf.ones([1, 2]), 1)
        self.assertEqual(self.run_all(y)[0], 4)

    def test_inputs_that_do_not_fit(self):
        with self.assertRaisesRegex(ValueError, "expected min_ndim=2, found ndim=1"):
            tf.layers.dense(tf.ones([2]), 3)
        with self.assertRaisesRegex(ValueError, "last dimension"):
            tf.layers.dense(tf.placeholder(tf.float32, [None, None]), 3)
        with self.assertRaises(TypeError):
            tf.layers.dense(tf.constant([[1, 2]]), 3)
        layer = tf.layers.Dense(3)
        layer(tf.ones([1, 2]))
        with self.assertRaisesRegex(ValueError, "expected axis -1"):
            layer(tf.ones([1, 4]))

    def test_unknown_arguments(self):
        with self.assertRaises(TypeError):
            tf.layers.Dense(3, kernel=1)

    def test_resources(self):
        with tf.variable_scope("s", use_resource=True):
            tf.layers.dense(tf.ones([1, 2]), 3)
        self.assertEqual({v.op.type for v in tf.global_variables()}, {"VarHandleOp"})

    def test_weights_are_set(self):
        layer = tf.layers.Dense(1)
        y = layer(tf.constant([[1.0, 2.0]]))
        with tf.Session() as s:
            layer.set_weights([[[3.0], [4.0]], [5.0]])
            self.assertEqual(s.run(y), 16)
            self.close(layer.get_weights()[0], [[3], [4]])

    def test_training(self):
        x = self.numbers(64, 3)
        t = x @ np.array([[1.0], [-2.0], [0.5]], np.float32) + 3
        y = tf.layers.dense(tf.constant(x), 1)
        loss = tf.reduce_mean(tf.square(y - t))
        step = tf.train.GradientDescentOptimizer(0.3).minimize(loss)
        with tf.Session() as s:
            s.run(tf.global_variables_initializer())
            for _ in range(800):
                s.run(step)
            self.assertLess(s.run(loss), 1e-3)


class OwnLayers(Case):
    def test_a_class_of_the_program(self):
        class Scale(tf.layers.Layer):
            def build(self, input_shape):
                self.by = self.add_variable("by", [int(input_shape[-1])], initializer=tf.constant_initializer(3.0))
                super().build(input_shape)

            def call(self, inputs):
                return inputs * self.by

        layer = Scale()
        y = layer(tf.ones([2, 2]))
        self.assertEqual(self.variables(), [("scale/by", [2])])
        self.close(self.run_all(y)[0], np.full([2, 2], 3))
        self.assertTrue(layer.built)

    def test_weights_of_its_parts(self):
        class Two(tf.layers.Layer):
            def build(self, input_shape):
                self.factor = tf.get_variable("factor", [])
                self.steps = [tf.layers.Dense(2, name="a"), tf.layers.Dense(2, name="b", trainable=False)]
                super().build(input_shape)

            def call(self, inputs):
                return self.steps[1](self.steps[0](inputs)) * self.factor

        layer = Two(name="two")
        layer(tf.ones([1, 2]))
        self.assertEqual([v.op.name for v in layer.trainable_weights], ["two/factor", "two/a/kernel", "two/a/bias"])
        self.assertEqual([v.op.name for v in layer.non_trainable_weights], ["two/b/kernel", "two/b/bias"])

    def test_updates_and_losses_of_inputs(self):
        class Counted(tf.layers.Layer):
            def build(self, input_shape):
                self.count = self.add_variable("count", [], initializer=tf.zeros_initializer(), trainable=False)
                self.add_loss(self.count * 2)

            def call(self, inputs):
                self.add_update(tf.assign_add(self.count, tf.reduce_sum(inputs)))
                return inputs

        layer, x = Counted(), tf.placeholder(tf.float32, [2])
        layer(x)
        self.assertEqual([len(layer.get_updates_for(i)) for i in (None, [x])], [0, 1])
        self.assertEqual([len(layer.get_losses_for(i)) for i in (None, [x])], [1, 0])
        self.assertEqual(tf.get_collection(tf.GraphKeys.UPDATE_OPS), layer.updates)

    def test_copies(self):
        import copy
        layer = tf.layers.Dense(2, name="d")
        layer(tf.ones([1, 2]))
        self.assertIs(copy.deepcopy(layer).kernel, layer.kernel)

    def test_scope_is_handed_to_call(self):
        class Named(tf.layers.Layer):
            def call(self, inputs, scope=None):
                self.seen = scope.name
                return inputs

        layer = Named(name="n")
        layer(tf.ones([1]))
        self.assertEqual(layer.seen, "n")


class Convolutions(Case):
    def conv(self, x, kernel, stride=1, dilation=1):
        """Valid convolution of images, by hand."""
        n, h, w, _ = x.shape
        kh, kw = (kernel.shape[0] - 1) * dilation + 1, (kernel.shape[1] - 1) * dilation + 1
        out = np.zeros([n, (h - kh) // stride + 1, (w - kw) // stride + 1, kernel.shape[3]])
        for i in range(out.shape[1]):
            for j in range(out.shape[2]):
                window = x[:, i * stride:i * stride + kh:dilation, j * stride:j * stride + kw:dilation, :]
                out[:, i, j, :] = np.einsum("nhwc,hwcf->nf", window, kernel)
        return out

    def test_2d(self):
        x = self.numbers(2, 6, 5, 3)
        for how in ({}, {"strides": 2}, {"dilation_rate": 2}):
            y = tf.layers.conv2d(tf.constant(x), 4, 2, bias_initializer=tf.constant_initializer(1.0), **how)
            kernel, got = self.run_all(tf.global_variables()[-2], y)
            self.close(got, self.conv(x, kernel, how.get("strides", 1), how.get("dilation_rate", 1)) + 1)
        self.assertEqual(self.variables()[:2], [("conv2d/kernel", [2, 2, 3, 4]), ("conv2d/bias", [4])])
        self.assertEqual(self.variables()[2][0], "conv2d_1/kernel")

    def test_same_padding(self):
        x = self.numbers(1, 5, 5, 1)
        y = tf.layers.conv2d(tf.constant(x), 2, 3, padding="same", activation=tf.nn.relu)
        kernel, got = self.run_all(tf.global_variables()[0], y)
        self.close(got, np.maximum(self.conv(np.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)]), kernel), 0))

    def test_channels_first(self):
        x = self.numbers(2, 3, 6, 5)
        y = tf.layers.conv2d(tf.constant(x), 4, 2, data_format="channels_first", bias_initializer=tf.ones_initializer())
        kernel, got = self.run_all(tf.global_variables()[0], y)
        self.close(got, self.conv(x.transpose(0, 2, 3, 1), kernel).transpose(0, 3, 1, 2) + 1)

    def test_1d(self):
        x = self.numbers(2, 6, 3)
        y = tf.layers.conv1d(tf.constant(x), 4, 2, bias_initializer=tf.ones_initializer())
        kernel, got = self.run_all(tf.global_variables()[0], y)
        self.close(got, self.conv(x[:, None], kernel[None])[:, 0] + 1)

    def test_causal(self):
        x = self.numbers(2, 6, 3)
        y = tf.layers.conv1d(tf.constant(x), 4, 2, padding="causal", dilation_rate=2)
        kernel, got = self.run_all(tf.global_variables()[0], y)
        before = np.concatenate([np.zeros([2, 2, 3]), x[:, :-2]], 1)
        self.close(got, before @ kernel[0] + x @ kernel[1])

    def test_3d(self):
        x = self.numbers(1, 3, 3, 3, 2)
        y = tf.layers.conv3d(tf.constant(x), 4, 3)
        kernel, got = self.run_all(tf.global_variables()[0], y)
        self.close(got[0, 0, 0, 0], np.einsum("dhwc,dhwcf->f", x[0], kernel))

    def test_transpose_is_the_gradient(self):
        x = self.numbers(1, 3, 3, 2)
        y = tf.layers.conv2d_transpose(tf.constant(x), 3, 2, strides=2)
        self.assertEqual(self.variables()[0], ("conv2d_transpose/kernel", [2, 2, 3, 2]))
        kernel, got = self.run_all(tf.global_variables()[0], y)
        expected = np.einsum("nijc,abfc->niajbf", x, kernel).reshape(1, 6, 6, 3)
        self.close(got, expected)

    def test_shapes_of_transposes(self):
        x = tf.placeholder(tf.float32, [None, None, 5, 2])
        for padding, expected in (("same", 10), ("valid", 11)):
            y = tf.layers.conv2d_transpose(x, 3, 3, strides=2, padding=padding)
            self.assertEqual(y.shape.as_list(), [None, None, expected, 3])
            got, = self.run_all(y, feed={x: np.zeros([2, 4, 5, 2])})
            self.assertEqual(got.shape, (2, {10: 8, 11: 9}[expected], expected, 3))
        y = tf.layers.conv3d_transpose(tf.zeros([1, 2, 2, 2, 1]), 3, 2, strides=2)
        self.assertEqual(self.run_all(y)[0].shape, (1, 4, 4, 4, 3))

    def test_separable(self):
        x = self.numbers(2, 5, 5, 3)
        y = tf.layers.separable_conv2d(tf.constant(x), 4, 2, depth_multiplier=2)
        self.assertEqual(self.variables(), [("separable_conv2d/depthwise_kernel", [2, 2, 3, 2]),
                                            ("separable_conv2d/pointwise_kernel", [1, 1, 6, 4]), ("separable_conv2d/bias",
                                                                                                  [4])])
        depth, point, got = self.run_all(*tf.global_variables()[:2], y)
        each = np.concatenate([self.conv(x[..., c:c + 1], depth[:, :, c:c + 1]) for c in range(3)], 3)
        self.close(got, each @ point[0, 0])
        self.assertEqual(tf.layers.separable_conv1d(tf.zeros([2, 6, 3]), 4, 3, padding="same").shape.as_list(), [2, 6, 4])

    def test_refused(self):
        x = tf.zeros([1, 5, 5, 3])
        with self.assertRaisesRegex(ValueError, "strides > 1 not supported"):
            tf.layers.conv2d(x, 4, 2, strides=2, dilation_rate=2)
        with self.assertRaises(ValueError):
            tf.layers.conv2d(x, 4, (2, 2, 2))
        with self.assertRaises(ValueError):
            tf.layers.conv2d(x, 4, 2, padding="some")
        with self.assertRaises(ValueError):
            tf.layers.conv2d(x, 4, 2, data_format="NHWC")
        with self.assertRaisesRegex(ValueError, "expected ndim=4, found ndim=3"):
            tf.layers.conv2d(x[0], 4, 2)
        with self.assertRaisesRegex(ValueError, "channel dimension"):
            tf.layers.conv2d(tf.placeholder(tf.float32, [1, 5, 5, None]), 4, 2)

    def test_output_shapes(self):
        for layer, shape, expected in (
                (tf.layers.Conv2D(4, 3, strides=2, padding="same"), [None, 7, None, 3], [None, 4, None, 4]),
                (tf.layers.Conv1D(4, 3, dilation_rate=2), [2, 9, 3], [2, 5, 4]),
                (tf.layers.Conv2D(4, 3, data_format="channels_first"), [2, 3, 9, 9], [2, 4, 7, 7]),
                (tf.layers.MaxPooling2D(2, 2), [None, 5, 5, 3], [None, 2, 2, 3]),
                (tf.layers.Dense(4), [None, 3], [None, 4]), (tf.layers.Flatten(), [None, 3, 4], [None, 12])):
            self.assertEqual(layer.compute_output_shape(tf.TensorShape(shape)).as_list(), expected)


class Pooling(Case):
    def test_2d(self):
        x = self.numbers(2, 4, 4, 3)
        cut = x.reshape(2, 2, 2, 2, 2, 3)
        biggest, mean = self.run_all(tf.layers.max_pooling2d(tf.constant(x), 2, 2),
                                     tf.layers.average_pooling2d(tf.constant(x), 2, 2))
        self.close(biggest, cut.max((2, 4)))
        self.close(mean, cut.mean((2, 4)))

    def test_1d_and_3d(self):
        x, z = self.numbers(2, 4, 3), self.numbers(1, 2, 2, 2, 3)
        a, b, c = self.run_all(tf.layers.max_pooling1d(tf.constant(x), 2, 2), tf.layers.average_pooling1d(tf.constant(x), 2, 2),
                               tf.layers.average_pooling3d(tf.constant(z), 2, 2))
        self.close(a, x.reshape(2, 2, 2, 3).max(2))
        self.close(b, x.reshape(2, 2, 2, 3).mean(2))
        self.close(c[0, 0, 0, 0], z.mean((0, 1, 2, 3)))

    def test_channels_first_and_same(self):
        x = self.numbers(2, 3, 5, 5)
        got, = self.run_all(tf.layers.max_pooling2d(tf.constant(x), (2, 3), (2, 1), padding="same",
                                                    data_format="channels_first"))
        self.assertEqual(got.shape, (2, 3, 3, 5))

    def test_names(self):
        x = tf.zeros([1, 4, 4, 1])
        self.assertEqual([tf.layers.max_pooling2d(x, 2, 2).name, tf.layers.average_pooling2d(x, 2, 2, name="p").name],
                         ["max_pooling2d/MaxPool:0", "p/AvgPool:0"])


class Others(Case):
    def test_flatten(self):
        x = self.numbers(2, 3, 4)
        y = tf.layers.flatten(tf.constant(x))
        self.close(self.run_all(y)[0], x.reshape(2, 12))
        p = tf.placeholder(tf.float32, [None, 3, 4])
        self.assertEqual(tf.layers.flatten(p).shape.as_list(), [None, 12])
        self.assertEqual(self.run_all(tf.layers.flatten(p), feed={p: np.zeros([0, 3, 4])})[0].shape, (0, 12))
        q = tf.placeholder(tf.float32, [None, None, 4])
        self.assertEqual(self.run_all(tf.layers.flatten(q), feed={q: x})[0].shape, (2, 12))
        self.assertEqual(tf.layers.flatten(tf.zeros([3])).shape.as_list(), [3, 1])

    def test_dropout(self):
        x = tf.ones([1000])
        on = tf.placeholder(tf.bool, [])
        still, dropped, asked = (tf.layers.dropout(x, 0.25, training=t, seed=3) for t in (False, True, on))
        with tf.Session() as s:
            self.close(s.run(still), np.ones(1000))
            got = s.run(dropped)
            self.assertEqual(set(np.round(got, 4)), {0, np.float32(1.3333)})
            self.assertTrue(180 < np.sum(got == 0) < 320)
            self.close(s.run(asked, {on: False}), np.ones(1000))
            self.assertTrue(180 < np.sum(s.run(asked, {on: True}) == 0) < 320)

    def test_dropout_of_whole_rows(self):
        got, = self.run_all(tf.layers.dropout(tf.ones([50, 4]), 0.5, noise_shape=[None, 1], training=True))
        self.assertTrue(np.all(got == got[:, :1]))


class BatchNormalization(Case):
    def check(self, shape, axis, **how):
        """Training and inference against numpy."""
        x = self.numbers(*shape) * 3 + 1
        others = tuple(i for i in range(len(shape)) if i != axis % len(shape))
        p, on = tf.placeholder(tf.float32, shape), tf.placeholder(tf.bool, [])
        y = tf.layers.batch_normalization(p, axis=axis, training=on, momentum=0.9,
                                          gamma_initializer=tf.constant_initializer(2.0),
                                          beta_initializer=tf.constant_initializer(1.0), name="bn", **how)
        mean, variance = x.mean(others, keepdims=True), x.var(others, keepdims=True)
        updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        self.assertEqual(len(updates), 2)
        averages = tf.global_variables()[2:]
        n = x.size // x.shape[axis]
        with tf.Session() as s:
            s.run(tf.global_variables_initializer())
            got = s.run([y] + updates, {p: x, on: True})[0]
            self.close(got, (x - mean) / np.sqrt(variance + 1e-3) * 2 + 1, 1e-4)
            moved = s.run(averages)
            self.close(moved[0], 0.1 * mean.ravel(), 1e-4)
            corrected = variance.ravel() * (n / (n - 1) if how.get("fused", len(shape) == 4) else 1)
            self.close(moved[1], 0.9 + 0.1 * corrected, 1e-4)
            got = s.run([y] + updates, {p: x, on: False})[0]
            wide = [1] * len(shape)
            wide[axis] = -1
            m, v = (a.reshape(wide) for a in moved)
            self.close(got, (x - m) / np.sqrt(v + 1e-3) * 2 + 1, 1e-4)
            for a, b in zip(s.run(averages), moved):
                self.close(a, b)

    def test_fused(self):
        self.check([4, 3, 3, 2], -1)

    def test_fused_channels_first(self):
        self.check([4, 2, 3, 3], 1)

    def test_not_fused(self):
        self.check([4, 3, 3, 2], 3, fused=False)

    def test_not_fused_channels_first(self):
        self.check([4, 2, 3, 3], 1, fused=False)

    def test_matrices(self):
        self.check([16, 5], -1)

    def test_variables(self):
        tf.layers.batch_normalization(tf.zeros([2, 3]))
        self.assertEqual([n for n, _ in self.variables()], ["batch_normalization/gamma", "batch_normalization/beta",
                                                            "batch_normalization/moving_mean",
                                                            "batch_normalization/moving_variance"])
        self.assertEqual(len(tf.trainable_variables()), 2)
        self.assertEqual(tf.get_collection(tf.GraphKeys.UPDATE_OPS), [])

    def test_without_center_and_scale(self):
        y = tf.layers.batch_normalization(tf.constant(self.numbers(2, 2, 2, 3)), center=False, scale=False, training=True)
        self.assertEqual(len(tf.global_variables()), 2)
        self.assertEqual(self.run_all(y)[0].shape, (2, 2, 2, 3))

    def test_training_known(self):
        x = tf.constant(self.numbers(8, 3))
        tf.layers.batch_normalization(x, training=True)
        self.assertEqual(len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)), 2)
        self.assertNotIn("Switch", [op.type for op in tf.get_default_graph().get_operations()])

    def test_frozen_has_no_updates(self):
        tf.layers.batch_normalization(tf.constant(self.numbers(8, 3)), training=True, trainable=False)
        self.assertEqual(tf.get_collection(tf.GraphKeys.UPDATE_OPS), [])

    def test_gradients_reach_the_parameters(self):
        x = tf.constant(self.numbers(4, 3, 3, 2))
        for fused in (True, False):
            y = tf.layers.batch_normalization(x, training=True, fused=fused)
            for g in self.run_all(*tf.gradients(tf.reduce_sum(y * y), tf.trainable_variables()[-2:])):
                self.assertEqual(g.shape, (2,))

    def test_several_axes(self):
        x = self.numbers(8, 3, 2)
        y = tf.layers.batch_normalization(tf.constant(x), axis=[1, 2], training=True)
        self.assertEqual(self.variables()[0][1], [1, 3, 2])
        self.close(self.run_all(y)[0], (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-3), 1e-4)

    def test_renorm(self):
        x = self.numbers(8, 3)
        y = tf.layers.batch_normalization(tf.constant(x), renorm=True, renorm_clipping={"rmax": 1.0, "rmin": 1.0, "dmax": 0.0},
                                          training=True)
        self.close(self.run_all(y)[0], (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-3), 1e-4)

    def test_refused(self):
        with self.assertRaises(ValueError):
            tf.layers.batch_normalization(tf.zeros([2, 3]), axis=2)
        with self.assertRaises(ValueError):
            tf.layers.batch_normalization(tf.placeholder(tf.float32, [2, None]))
        with self.assertRaises(ValueError):
            tf.layers.batch_normalization(tf.zeros([2, 3]), virtual_batch_size=0)

    def test_fused_where_it_can_be(self):
        layer = tf.layers.BatchNormalization(fused=True)
        layer(tf.zeros([2, 3]))
        self.assertFalse(layer.fused)

    def test_virtual_batches(self):
        x = self.numbers(6, 3)
        y = tf.layers.batch_normalization(tf.constant(x), virtual_batch_size=2, training=True)
        cut = x.reshape(2, 3, 3)
        expected = (cut - cut.mean(0)) / np.sqrt(cut.var(0) + 1e-3)
        self.close(self.run_all(y)[0], expected.reshape(6, 3), 1e-4)

    def test_averages_are_not_cut(self):
        with tf.variable_scope("s", partitioner=tf.fixed_size_partitioner(2)):
            tf.layers.batch_normalization(tf.zeros([2, 4]))
        self.assertEqual([n for n, _ in self.variables()][-2:], ["s/batch_normalization/moving_mean",
                                                                 "s/batch_normalization/moving_variance"])
        self.assertEqual(len(tf.global_variables()), 6)


if __name__ == "__main__":
    unittest.main()
