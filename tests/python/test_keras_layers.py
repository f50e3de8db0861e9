"""Layers of tf.keras against numpy."""

import unittest

import numpy as np

import millrace as tf

K, L = tf.keras.backend, tf.keras.layers


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def hard_sigmoid(x):
    return np.clip(0.2 * x + 0.5, 0, 1)


class Case(unittest.TestCase):
    def setUp(self):
        K.clear_session()
        np.random.seed(3)
        tf.set_random_seed(3)

    def model(self, layer, shape, dtype=None):
        x = L.Input(shape, dtype=dtype)
        return tf.keras.Model(x, layer(x))

    def apply(self, layer, x, dtype=None):
        """What the layer makes of x; its configuration makes one that does the same, and says the shape."""
        x = np.asarray(x)
        model = self.model(layer, x.shape[1:], dtype)
        out = model.predict(x)
        copy = tf.keras.layers.deserialize(tf.keras.layers.serialize(layer))
        other = self.model(copy, x.shape[1:], dtype)
        other.set_weights(model.get_weights())
        np.testing.assert_allclose(other.predict(x), out, rtol=1e-5, atol=1e-6)
        self.assertEqual([None] + list(out.shape[1:]), tf.TensorShape(layer.compute_output_shape((None,
                                                                                                  ) + x.shape[1:])).as_list())
        self.assertEqual((None,) + out.shape[1:], model.output_shape)
        return out

    def near(self, a, b, **kw):
        np.testing.assert_allclose(a, b, rtol=kw.get("rtol", 1e-4), atol=kw.get("atol", 1e-5))


class Core(Case):
    def test_dense_over_the_last_dimension(self):
        layer, x = L.Dense(5, activation="tanh", bias_initializer="ones"), np.random.randn(2, 3, 4)
        out = self.apply(layer, x)
        w, b = layer.get_weights()
        self.near(out, np.tanh(x @ w + b))

    def test_forms(self):
        x = np.random.randn(2, 3, 4)
        self.near(self.apply(L.Flatten(), x), x.reshape(2, 12))
        self.near(self.apply(L.Reshape((-1, 2)), x), x.reshape(2, 6, 2))
        self.near(self.apply(L.Permute((2, 1)), x), x.transpose(0, 2, 1))
        self.near(self.apply(L.RepeatVector(3), x[:, 0]), np.repeat(x[:, :1], 3, 1))
        with self.assertRaisesRegex(ValueError, "total size of new array must be unchanged"):
            L.Reshape((5,))(L.Input((3, 4)))

    def test_activations(self):
        x = np.random.randn(3, 4) * 3
        e = np.exp(x - x.max(-1, keepdims=True))
        cases = {"relu": np.maximum(x, 0), "softmax": e / e.sum(-1, keepdims=True), "sigmoid": sigmoid(x),
                 "hard_sigmoid": hard_sigmoid(x), "elu": np.where(x > 0, x, np.expm1(x)), "softplus": np.log1p(np.exp(x)),
                 "softsign": x / (1 + np.abs(x)), "exponential": np.exp(x), "linear": x, "tanh": np.tanh(x)}
        for name, expected in cases.items():
            self.near(self.apply(L.Activation(name), x), expected)
        with self.assertRaisesRegex(ValueError, "Unknown activation function"):
            L.Activation("no such")

    def test_activations_with_parameters(self):
        x = np.random.randn(3, 4) * 3
        self.near(self.apply(L.LeakyReLU(0.2), x), np.where(x > 0, x, 0.2 * x))
        self.near(self.apply(L.ELU(0.5), x), np.where(x > 0, x, 0.5 * np.expm1(x)))
        self.near(self.apply(L.ThresholdedReLU(0.7), x), np.where(x > 0.7, x, 0))
        self.near(self.apply(L.PReLU(alpha_initializer=tf.keras.initializers.Constant(0.3)), x), np.where(x > 0, x, 0.3 * x))
        self.near(self.apply(L.ReLU(max_value=2.0, negative_slope=0.1), x), np.where(x > 0, np.minimum(x, 2), 0.1 * x))
        e = np.exp(x)
        self.near(self.apply(L.Softmax(axis=0), x), e / e.sum(0))

    def test_dropout_only_while_training(self):
        x = tf.ones([100, 100])
        model = tf.keras.Sequential([L.Dropout(0.25, input_shape=(100,))])
        self.near(model.predict(np.ones((2, 100))), np.ones((2, 100)))
        out = K.get_value(L.Dropout(0.25)(x, training=True))
        self.assertEqual({0.0, np.float32(4 / 3)}, set(np.unique(out)))
        self.assertAlmostEqual(0.25, (out == 0).mean(), delta=0.02)
        by_phase = L.Dropout(0.5)(x)
        self.assertEqual(0, (K.get_session().run(by_phase) == 0).sum())
        self.assertLess(0, (K.get_session().run(by_phase, {K.learning_phase(): True}) == 0).sum())

    def test_spatial_dropout_drops_channels(self):
        out = K.get_value(L.SpatialDropout2D(0.5)(tf.ones([4, 3, 3, 50]), training=1))
        self.assertTrue(((out == 0).all(axis=(1, 2)) | (out == 2).all(axis=(1, 2))).all())

    def test_noise_is_not_there_in_tests(self):
        x = np.random.randn(2, 3)
        for layer in (L.GaussianNoise(1.0), L.GaussianDropout(0.5), L.AlphaDropout(0.3)):
            self.near(self.apply(layer, x), x)
            noisy = K.get_value(layer(tf.ones([1000]), training=True))
            self.assertGreater(noisy.std(), 0.3)

    def test_lambda(self):
        x = np.random.randn(2, 3)
        self.near(self.apply(L.Lambda(lambda t: t * 2 + 1), x), 2 * x + 1)

    def test_embedding(self):
        layer, x = L.Embedding(10, 4), np.array([[1, 2], [9, 0]])
        out = self.apply(layer, x, "int32")
        self.near(out, layer.get_weights()[0][x])

    def test_masking(self):
        x = np.array([[[1.0, 2.0], [0, 0], [3, 0]]])
        t = L.Input((3, 2))
        out = L.Masking()(t)
        np.testing.assert_array_equal(K.function([t], [out._keras_mask])([x])[0], [[True, False, True]])

    def test_merging(self):
        a, b = np.random.randn(2, 3), np.random.randn(2, 3)
        x, y = L.Input((3,)), L.Input((3,))
        outs = [L.add([x, y]), L.subtract([x, y]), L.multiply([x, y]), L.average([x, y]), L.maximum([x, y]), L.minimum([x, y]),
                L.concatenate([x, y]), L.dot([x, y], 1)]
        got = tf.keras.Model([x, y], outs).predict([a, b])
        expected = [a + b, a - b, a * b, (a + b) / 2, np.maximum(a, b), np.minimum(a, b), np.concatenate([a, b], 1),
                    (a * b).sum(1, keepdims=True)]
        for g, e in zip(got, expected):
            self.near(g, e)
        with self.assertRaisesRegex(ValueError, "list"):
            L.Add()(x)

    def test_batch_dot(self):
        a, b = np.random.randn(2, 3, 4).astype("f"), np.random.randn(2, 5, 4).astype("f")
        self.near(K.get_value(K.batch_dot(tf.constant(a), tf.constant(b), (2, 2))), np.einsum("bij,bkj->bik", a, b))

    def test_batch_normalization(self):
        x = np.random.randn(64, 3) * 2 + 1
        layer = L.BatchNormalization(momentum=0.5)
        model = self.model(layer, (3,))
        model.compile(tf.keras.optimizers.SGD(0.0), "mse")
        model.train_on_batch(x, x)
        gamma, beta, mean, variance = layer.get_weights()
        self.near(mean, 0.5 * x.mean(0))
        self.near(variance, 0.5 + 0.5 * x.var(0), rtol=0.02)
        self.near(model.predict(x), (x - mean) / np.sqrt(variance + 1e-3))

    def test_layer_normalization(self):
        x = np.random.randn(4, 5)
        self.near(self.apply(L.LayerNormalization(), x),
                  (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-3))

    def test_a_layer_of_ones_own(self):
        class Scale(L.Layer):
            def build(self, input_shape):
                self.scale = self.add_weight("scale", shape=(int(input_shape[-1]),), initializer="ones")
                super().build(input_shape)

            def call(self, x):
                return x * self.scale

        layer = Scale()
        model = self.model(layer, (2,))
        self.assertEqual(["scale/scale:0"], [w.name for w in layer.trainable_weights])
        layer.set_weights([np.array([2.0, 3.0])])
        self.near(model.predict(np.ones((1, 2))), [[2, 3]])
        with self.assertRaisesRegex(ValueError, "not compatible with provided weight shape"):
            layer.set_weights([np.ones(3)])


class Space(Case):
    def conv(self, x, w, stride):
        kh, kw = w.shape[:2]
        h, v = (x.shape[1] - kh) // stride + 1, (x.shape[2] - kw) // stride + 1
        out = np.zeros((len(x), h, v, w.shape[3]))
        for i in range(h):
            for j in range(v):
                part = x[:, i * stride:i * stride + kh, j * stride:j * stride + kw]
                out[:, i, j] = np.einsum("bhwc,hwcf->bf", part, w)
        return out

    def test_conv2d(self):
        layer, x = L.Conv2D(4, (2, 3), strides=2, activation="relu", bias_initializer="ones"), np.random.randn(2, 7, 8, 3)
        out = self.apply(layer, x)
        w, b = layer.get_weights()
        self.near(out, np.maximum(self.conv(x, w, 2) + b, 0))

    def test_conv1d(self):
        layer, x = L.Conv1D(4, 3), np.random.randn(2, 7, 3)
        out = self.apply(layer, x)
        self.near(out, self.conv(x[:, :, None], layer.get_weights()[0][:, None], 1)[:, :, 0])
        causal = L.Conv1D(1, 2, padding="causal", kernel_initializer="ones")
        self.near(self.apply(causal, np.array([[[1.0], [2.0], [4.0]]])), [[[1], [3], [6]]])

    def test_conv3d_and_transposed(self):
        x = np.random.randn(1, 4, 4, 4, 2)
        layer = L.Conv3D(3, 4)
        self.near(self.apply(layer, x)[0, 0, 0, 0], np.einsum("abcd,abcdf->f", x[0], layer.get_weights()[0]))
        up = L.Conv2DTranspose(1, 2, strides=2, kernel_initializer="ones")
        self.near(self.apply(up, np.array([[[[1.0], [2.0]]]])), [[[[1], [1], [2], [2]], [[1], [1], [2], [2]]]])

    def test_separable_and_depthwise(self):
        x = np.random.randn(2, 5, 5, 3)
        layer = L.DepthwiseConv2D(2)
        out = self.apply(layer, x)
        w = layer.get_weights()[0]
        for c in range(3):
            self.near(out[..., c:c + 1], self.conv(x[..., c:c + 1], w[:, :, c:c + 1], 1))
        layer = L.SeparableConv2D(4, 2)
        out = self.apply(layer, x)
        d, p, _ = layer.get_weights()
        each = np.concatenate([self.conv(x[..., c:c + 1], d[:, :, c:c + 1], 1) for c in range(3)], -1)
        self.near(out, each @ p[0, 0])

    def test_locally_connected(self):
        layer, x = L.LocallyConnected1D(2, 2), np.random.randn(3, 4, 5)
        out = self.apply(layer, x)
        w, b = layer.get_weights()
        expected = np.stack([x[:, i:i + 2].reshape(3, 10) @ w[i] + b[i] for i in range(3)], 1)
        self.near(out, expected)

    def test_pooling(self):
        x = np.random.randn(2, 4, 6, 3)
        cut = x.reshape(2, 2, 2, 3, 2, 3)
        self.near(self.apply(L.MaxPooling2D(), x), cut.max((2, 4)))
        self.near(self.apply(L.AveragePooling2D((2, 2), strides=2), x), cut.mean((2, 4)))
        self.near(self.apply(L.MaxPooling1D(2), x[:, 0]), x[:, 0].reshape(2, 3, 2, 3).max(2))
        self.near(self.apply(L.GlobalMaxPooling2D(), x), x.max((1, 2)))
        self.near(self.apply(L.GlobalAveragePooling2D(), x), x.mean((1, 2)))
        self.near(self.apply(L.GlobalAveragePooling1D(), x[:, 0]), x[:, 0].mean(1))
        self.near(self.apply(L.GlobalMaxPooling1D(), x[:, 0]), x[:, 0].max(1))

    def test_padding_cropping_upsampling(self):
        x = np.random.randn(2, 4, 5, 3)
        self.near(self.apply(L.ZeroPadding2D(((1, 2), (0, 3))), x), np.pad(x, ((0, 0), (1, 2), (0, 3), (0, 0))))
        self.near(self.apply(L.ZeroPadding1D(2), x[:, 0]), np.pad(x[:, 0], ((0, 0), (2, 2), (0, 0))))
        self.near(self.apply(L.Cropping2D(((1, 0), (2, 1))), x), x[:, 1:, 2:-1])
        self.near(self.apply(L.Cropping1D((1, 1)), x[:, 0]), x[:, 0, 1:-1])
        self.near(self.apply(L.UpSampling2D((2, 3)), x), x.repeat(2, 1).repeat(3, 2))
        self.near(self.apply(L.UpSampling1D(2), x[:, 0]), x[:, 0].repeat(2, 1))
        self.near(self.apply(L.UpSampling3D(), x[:, None]), x[:, None].repeat(2, 1).repeat(2, 2).repeat(2, 3))


class Recurrent(Case):
    x = np.random.RandomState(1).randn(3, 5, 4)

    def lstm(self, x, w, u, b, act=hard_sigmoid):
        n = u.shape[0]
        h = c = np.zeros((len(x), n))
        out = []
        for t in range(x.shape[1]):
            z = x[:, t] @ w + h @ u + b
            i, f, g, o = (z[:, k * n:(k + 1) * n] for k in range(4))
            c = act(f) * c + act(i) * np.tanh(g)
            h = act(o) * np.tanh(c)
            out.append(h)
        return np.stack(out, 1), h, c

    def gru(self, x, w, u, b):
        n = u.shape[0]
        h, out = np.zeros((len(x), n)), []
        for t in range(x.shape[1]):
            z = x[:, t] @ w + b
            s = hard_sigmoid(z[:, :n] + h @ u[:, :n])
            r = hard_sigmoid(z[:, n:2 * n] + h @ u[:, n:2 * n])
            new = np.tanh(z[:, 2 * n:] + (r * h) @ u[:, 2 * n:])
            h = s * h + (1 - s) * new
            out.append(h)
        return np.stack(out, 1)

    def test_simple(self):
        layer = L.SimpleRNN(2)
        out = self.apply(layer, self.x)
        w, u, b = layer.get_weights()
        h = np.zeros((3, 2))
        for t in range(5):
            h = np.tanh(self.x[:, t] @ w + h @ u + b)
        self.near(out, h)

    def test_lstm(self):
        layer = L.LSTM(2)
        out = self.apply(layer, self.x)
        self.near(out, self.lstm(self.x, *layer.get_weights())[1])
        self.assertEqual(["lstm/kernel:0", "lstm/recurrent_kernel:0", "lstm/bias:0"], [w.name for w in layer.weights])
        self.near(layer.get_weights()[2], [0, 0, 1, 1, 0, 0, 0, 0])

    def test_sequences_and_states(self):
        x = L.Input((5, 4))
        layer = L.LSTM(2, return_sequences=True, return_state=True, recurrent_activation="sigmoid")
        model = tf.keras.Model(x, layer(x))
        for got, expected in zip(model.predict(self.x), self.lstm(self.x, *layer.get_weights(), sigmoid)):
            self.near(got, expected)

    def test_gru(self):
        layer = L.GRU(2, return_sequences=True)
        out = self.apply(layer, self.x)
        self.near(out, self.gru(self.x, *layer.get_weights()))

    def test_gru_with_reset_after(self):
        layer = L.GRU(2, reset_after=True)
        out = self.apply(layer, self.x)
        w, u, b = layer.get_weights()
        self.assertEqual((2, 6), b.shape)
        h = np.zeros((3, 2))
        for t in range(5):
            a, r = self.x[:, t] @ w + b[0], h @ u + b[1]
            z, s = hard_sigmoid(a[:, :2] + r[:, :2]), hard_sigmoid(a[:, 2:4] + r[:, 2:4])
            h = z * h + (1 - z) * np.tanh(a[:, 4:] + s * r[:, 4:])
        self.near(out, h)

    def test_unrolled_is_the_same(self):
        a, b = L.GRU(2, return_sequences=True), L.GRU(2, return_sequences=True, unroll=True)
        out = self.apply(a, self.x)
        model = self.model(b, (5, 4))
        model.set_weights(a.get_weights())
        self.near(model.predict(self.x), out)

    def test_backwards(self):
        a = L.GRU(2, go_backwards=True)
        out = self.apply(a, self.x)
        self.near(out, self.gru(self.x[:, ::-1], *a.get_weights())[:, -1])

    def test_bidirectional(self):
        layer = L.Bidirectional(L.GRU(2, return_sequences=True))
        model = self.model(layer, (5, 4))
        w = layer.get_weights()
        expected = np.concatenate([self.gru(self.x, *w[:3]), self.gru(self.x[:, ::-1], *w[3:])[:, ::-1]], -1)
        self.near(model.predict(self.x), expected)
        total = L.Bidirectional(L.GRU(2), merge_mode="sum")
        model = self.model(total, (5, 4))
        w = total.get_weights()
        self.near(model.predict(self.x), self.gru(self.x, *w[:3])[:, -1] + self.gru(self.x[:, ::-1], *w[3:])[:, -1])

    def test_another_layer_backwards(self):
        layer = L.Bidirectional(L.GRU(2), backward_layer=L.LSTM(3, go_backwards=True))
        model = self.model(layer, (5, 4))
        self.assertEqual(model.output_shape, (None, 5))
        again = L.Bidirectional.from_config(layer.get_config())
        self.assertEqual((type(again.backward_layer).__name__, again.backward_layer.units), ("LSTM", 3))
        for other in (L.LSTM(2), L.LSTM(2, go_backwards=True, return_sequences=True)):
            self.assertRaises(ValueError, L.Bidirectional, L.GRU(2), backward_layer=other)

    def test_constants_reach_stacked_cells_that_take_them(self):
        class Adder(L.Layer):
            state_size = output_size = 4

            def call(self, inputs, states, constants=None):
                return inputs + constants[0], [inputs]
        out = L.RNN([Adder(), Adder()])(tf.constant(self.x, tf.float32), constants=tf.ones([self.x.shape[0], 4]))
        self.near(tf.keras.backend.eval(out), self.x[:, -1] + 2)

    def test_time_distributed(self):
        layer = L.TimeDistributed(L.Dense(3))
        out = self.apply(layer, self.x)
        self.near(out, self.x @ layer.get_weights()[0])

    def test_masked_steps_do_not_count(self):
        short = self.x.copy()
        short[:, 3:] = 0
        layer = L.LSTM(2)
        model = tf.keras.Sequential([L.Masking(input_shape=(5, 4)), layer])
        self.near(model.predict(short), self.lstm(self.x[:, :3], *layer.get_weights())[1])

    def test_loss_of_masked_steps(self):
        model = tf.keras.Sequential([L.Masking(input_shape=(2, 1)), L.TimeDistributed(L.Dense(1, kernel_initializer="ones"))])
        model.compile("sgd", "mse")
        self.assertAlmostEqual(4.0 / 2, model.test_on_batch(np.array([[[2.0], [0.0]]]), np.array([[[0.0], [7.0]]])), places=5)

    def test_given_states(self):
        x, h = L.Input((5, 4)), L.Input((2,))
        layer = L.GRU(2)
        model = tf.keras.Model([x, h], layer(x, initial_state=h))
        first = self.gru(self.x[:, :2], *layer.get_weights())[:, -1]
        whole = self.gru(self.x, *layer.get_weights())[:, -1]
        self.near(model.predict([self.x, np.zeros((3, 2))]), whole)
        y = L.Input((3, 4))
        rest = tf.keras.Model([y, h], layer(y, initial_state=h))
        self.near(rest.predict([self.x[:, 2:], first]), whole)

    def test_stateful(self):
        layer = L.GRU(2, stateful=True)
        model = tf.keras.Sequential([layer])
        model.build((3, None, 4))
        w = layer.get_weights()
        self.assertEqual(3, len(w))
        model.predict(self.x[:, :2], batch_size=3)
        self.near(model.predict(self.x[:, 2:], batch_size=3), self.gru(self.x, *w)[:, -1])
        model.reset_states()
        self.near(model.predict(self.x, batch_size=3), self.gru(self.x, *w)[:, -1])
        with self.assertRaisesRegex(ValueError, "needs to know its batch size"):
            L.GRU(2, stateful=True)(L.Input((5, 4)))

    def test_cells(self):
        layer = L.RNN([L.GRUCell(3), L.LSTMCell(2)], return_sequences=True)
        out = self.apply(layer, self.x)
        w = layer.get_weights()
        self.near(out, self.lstm(self.gru(self.x, *w[:3]), *w[3:])[0])

    def test_a_cell_of_ones_own(self):
        class Sum(L.Layer):
            state_size = 4

            def call(self, inputs, states):
                total = inputs + states[0]
                return total, [total]

        model = self.model(L.RNN(Sum()), (5, 4))
        self.near(model.predict(self.x), self.x.sum(1))

    def test_those_of_cudnn(self):
        layer = L.CuDNNLSTM(2)
        model = self.model(layer, (5, 4))
        w, u, b = layer.get_weights()
        self.near(b, [0] * 10 + [1] * 2 + [0] * 4)
        b = np.random.randn(16)
        layer.set_weights([w, u, b])
        self.near(model.predict(self.x), self.lstm(self.x, w, u, b[:8] + b[8:], sigmoid)[1])
        layer, same = L.CuDNNGRU(2), L.GRU(2, reset_after=True, recurrent_activation="sigmoid")
        model, other = self.model(layer, (5, 4)), self.model(same, (5, 4))
        w, u, _ = layer.get_weights()
        b = np.random.randn(12)
        layer.set_weights([w, u, b])
        same.set_weights([w, u, b.reshape(2, 6)])
        self.near(model.predict(self.x), other.predict(self.x))

    def test_convolutional(self):
        x = np.random.randn(2, 3, 4, 4, 1)
        layer = L.ConvLSTM2D(2, 3, padding="same")
        out = self.apply(layer, x)
        w, u, b = (K.constant(v) for v in layer.get_weights())
        h = c = tf.zeros([2, 4, 4, 2])
        for t in range(3):
            z = K.conv2d(tf.constant(x[:, t], tf.float32), w, padding="same") + K.conv2d(h, u, padding="same") + b
            i, f, g, o = (z[..., 2 * k:2 * k + 2] for k in range(4))
            c = K.hard_sigmoid(f) * c + K.hard_sigmoid(i) * K.tanh(g)
            h = K.hard_sigmoid(o) * K.tanh(c)
        self.near(out, K.get_value(h))

    def test_attention(self):
        q, v = np.random.randn(2, 3, 4), np.random.randn(2, 5, 4)
        a, b = L.Input((3, 4)), L.Input((5, 4))
        got = tf.keras.Model([a, b], [L.Attention()([a, b]), L.AdditiveAttention(use_scale=False)([a, b])]).predict([q, v])
        for scores, out in zip((q @ v.transpose(0, 2, 1), np.tanh(q[:, :, None] + v[:, None]).sum(-1)), got):
            e = np.exp(scores)
            self.near(out, e / e.sum(-1, keepdims=True) @ v)

    def test_gradients_train_an_lstm(self):
        x = np.random.randint(0, 2, (200, 6, 1)).astype("f")
        y = (x.sum((1, 2)) > 3).astype("f")
        model = tf.keras.Sequential([L.LSTM(8, input_shape=(6, 1)), L.Dense(1, activation="sigmoid")])
        model.compile(tf.keras.optimizers.Adam(0.03), "binary_crossentropy", metrics=["accuracy"])
        model.fit(x, y, epochs=12, batch_size=20, verbose=0)
        self.assertGreater(model.evaluate(x, y, verbose=0)[1], 0.97)


if __name__ == "__main__":
    unittest.main()
