"""Losses, metrics, optimizers, callbacks and preprocessing of tf.keras, and its backend, against numpy."""

import contextlib
import csv
import io
import os
import tempfile
import unittest
import zipfile

import numpy as np

import millrace as tf

keras = tf.keras
K, L = keras.backend, keras.layers


class Case(unittest.TestCase):
    def setUp(self):
        K.clear_session()
        np.random.seed(5)
        tf.set_random_seed(5)

    def near(self, a, b, **kw):
        np.testing.assert_allclose(a, b, rtol=kw.get("rtol", 1e-4), atol=kw.get("atol", 1e-5))


class Losses(Case):
    def test_functions(self):
        t, p = np.random.rand(4, 3).astype("f"), np.random.rand(4, 3).astype("f")
        q = p / p.sum(-1, keepdims=True)
        unit = lambda x: x / np.sqrt((x ** 2).sum(-1, keepdims=True))
        cases = {
            "mse": ((t - p) ** 2).mean(-1), "mae": np.abs(t - p).mean(-1), "mape": 100 * np.abs((t - p) / t).mean(-1),
            "msle": ((np.log1p(t) - np.log1p(p)) ** 2).mean(-1), "hinge": np.maximum(1 - t * p, 0).mean(-1),
            "squared_hinge": (np.maximum(1 - t * p, 0) ** 2).mean(-1),
            "categorical_hinge": np.maximum(0, ((1 - t) * p).max(-1) - (t * p).sum(-1) + 1),
            "logcosh": np.log(np.cosh(p - t)).mean(-1), "poisson": (p - t * np.log(p)).mean(-1),
            "kullback_leibler_divergence": (t * np.log(t / p)).sum(-1), "categorical_crossentropy": -(t * np.log(q)).sum(-1),
            "binary_crossentropy": -(t * np.log(p) + (1 - t) * np.log(1 - p)).mean(-1),
            "cosine_proximity": -(unit(t) * unit(p)).sum(-1)}
        for name, expected in cases.items():
            with self.subTest(name):
                self.near(K.get_value(keras.losses.get(name)(tf.constant(t), tf.constant(p))), expected, rtol=1e-3)

    def test_crossentropy_of_an_activation_is_exact(self):
        logits = tf.constant([[100.0, -100.0]])
        loss = keras.losses.sparse_categorical_crossentropy(tf.constant([1]), keras.activations.softmax(logits))
        self.near(K.get_value(loss), [200.0])
        loss = keras.losses.binary_crossentropy(tf.constant([[0.0]]), tf.sigmoid(tf.constant([[50.0]])))
        self.near(K.get_value(loss), [50.0])

    def test_classes(self):
        t, p = np.array([[0.0], [1.0]]), np.array([[2.0], [4.0]])
        self.near(K.get_value(keras.losses.MeanSquaredError()(tf.constant(t), tf.constant(p))), (4 + 9) / 2)
        loss = keras.losses.MeanSquaredError(reduction=keras.losses.Reduction.SUM)
        self.near(K.get_value(loss(tf.constant(t), tf.constant(p), sample_weight=tf.constant([1.0, 2.0], tf.float64))), 4 + 18)
        self.near(K.get_value(keras.losses.Huber(delta=1.0)(tf.constant(t), tf.constant(p))), (1.5 + 2.5) / 2)
        logits = np.array([[1.0, 2.0], [3.0, 0.0]], "f")
        e = np.exp(logits)
        expected = -np.log(e[[0, 1], [1, 1]] / e.sum(1)).mean()
        self.near(K.get_value(keras.losses.SparseCategoricalCrossentropy(from_logits=True)(tf.constant([1, 1]),
                                                                                           tf.constant(logits))), expected)

    def test_unknown(self):
        with self.assertRaisesRegex(ValueError, "Unknown loss function"):
            keras.losses.get("no such")


class Metrics(Case):
    def value(self, metric, *batches, **kw):
        results = [metric(*[tf.constant(x) for x in b]) for b in batches]
        session = K.get_session()
        for r in results:
            out = session.run(r)
        return out

    def test_totals_over_batches(self):
        m = keras.metrics.SparseCategoricalAccuracy()
        p = np.array([[0.9, 0.1], [0.2, 0.8]], "f")
        self.near(self.value(m, ([0, 0], p), ([1], p[:1])), 1 / 3)
        m.reset_states()
        self.near(K.get_value(m.result()), 0.0)

    def test_functions(self):
        p = tf.constant([[0.1, 0.6, 0.3], [0.5, 0.2, 0.3]])
        self.near(K.get_value(keras.metrics.categorical_accuracy(tf.constant([[0, 1, 0], [0, 1, 0]]), p)), [1, 0])
        self.near(K.get_value(keras.metrics.top_k_categorical_accuracy(tf.constant([[0.0, 0, 1], [0, 1, 0]]), p, k=2)), [1, 0])
        self.near(K.get_value(keras.metrics.binary_accuracy(tf.constant([[0.0, 1.0, 1.0]]), p[:1])), [2 / 3])

    def test_precision_and_recall(self):
        y, p = [1, 1, 0, 0, 1], np.array([0.9, 0.4, 0.8, 0.1, 0.7], "f")
        self.near(self.value(keras.metrics.Precision(), (y, p)), 2 / 3)
        self.near(self.value(keras.metrics.Recall(), (y, p)), 2 / 3)
        self.near(self.value(keras.metrics.FalseNegatives(), (y, p)), 1)
        self.near(self.value(keras.metrics.TruePositives(thresholds=[0.3, 0.8]), (y, p)), [3, 1])

    def test_area_under_curve(self):
        y, p = [0, 0, 1, 1], np.array([0.1, 0.4, 0.35, 0.8], "f")
        self.near(self.value(keras.metrics.AUC(), (y, p)), 0.75, rtol=0.01)

    def test_others(self):
        self.near(self.value(keras.metrics.RootMeanSquaredError(), ([[1.0], [2.0]], [[2.0], [4.0]])), np.sqrt(2.5))
        self.near(self.value(keras.metrics.MeanIoU(2), ([0, 0, 1, 1], [0, 1, 0, 1])), 1 / 3)
        self.near(self.value(keras.metrics.Mean(), ([1.0, 3.0],), ([8.0],)), 4.0)
        self.near(self.value(keras.metrics.Sum(), ([1.0, 3.0],), ([8.0],)), 12.0)

    def test_metrics_of_a_model(self):
        model = keras.Sequential([L.Dense(1, use_bias=False, kernel_initializer="ones", input_shape=(1,))])
        model.compile("sgd", "mse", metrics=["mse", keras.metrics.MeanAbsoluteError(name="off"), lambda t, p: tf.reduce_max(p)])
        values = model.evaluate(np.array([[1.0], [2.0], [6.0]]), np.zeros((3, 1)), batch_size=2, verbose=0)
        self.near(values[:3], [41 / 3, 41 / 3, 3.0])
        self.assertEqual(["loss", "mean_squared_error", "off", "<lambda>"], model.metrics_names)


class Optimizers(Case):
    def run_steps(self, optimizer, steps=3, grads=(0.5, -1.0, 0.25), start=1.0):
        v = tf.Variable(start, use_resource=True)
        g = tf.placeholder(tf.float32, [])
        step = optimizer.apply_gradients([(g, v)])
        session, out = K.get_session(), []
        for x in grads[:steps]:
            session.run(step, {g: x})
            out.append(float(session.run(v)))
        return out

    def test_sgd_with_momentum(self):
        w, m, out = 1.0, 0.0, []
        for g in (0.5, -1.0, 0.25):
            m = 0.9 * m - 0.1 * g
            w += m
            out.append(w)
        self.near(self.run_steps(keras.optimizers.SGD(0.1, momentum=0.9)), out)

    def test_nesterov(self):
        w, m, out = 1.0, 0.0, []
        for g in (0.5, -1.0, 0.25):
            m = 0.9 * m - 0.1 * g
            w += 0.9 * m - 0.1 * g
            out.append(w)
        self.near(self.run_steps(keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True)), out)

    def test_adam(self):
        w, m, v, out = 1.0, 0.0, 0.0, []
        for t, g in enumerate((0.5, -1.0, 0.25), 1):
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            w -= 0.1 * np.sqrt(1 - 0.999 ** t) / (1 - 0.9 ** t) * m / (np.sqrt(v) + 1e-7)
            out.append(w)
        self.near(self.run_steps(keras.optimizers.Adam(lr=0.1)), out)

    def test_rmsprop(self):
        w, s, out = 1.0, 0.0, []
        for g in (0.5, -1.0, 0.25):
            s = 0.9 * s + 0.1 * g * g
            w -= 0.1 * g / (np.sqrt(s) + 1e-7)
            out.append(w)
        self.near(self.run_steps(keras.optimizers.RMSprop(0.1)), out)

    def test_adagrad_and_decay(self):
        w, s, out = 1.0, 0.1, []
        for i, g in enumerate((0.5, -1.0, 0.25)):
            s += g * g
            w -= 0.1 / (1 + 0.5 * i) * g / (np.sqrt(s) + 1e-7)
            out.append(w)
        self.near(self.run_steps(keras.optimizers.Adagrad(0.1, decay=0.5)), out)

    def test_adadelta(self):
        w, a, d, out = 1.0, 0.0, 0.0, []
        for g in (0.5, -1.0, 0.25):
            a = 0.95 * a + 0.05 * g * g
            step = np.sqrt(d + 1e-7) / np.sqrt(a + 1e-7) * g
            d = 0.95 * d + 0.05 * step * step
            w -= step
            out.append(w)
        self.near(self.run_steps(keras.optimizers.Adadelta(1.0)), out)

    def test_adamax(self):
        w, m, u, out = 1.0, 0.0, 0.0, []
        for t, g in enumerate((0.5, -1.0, 0.25), 1):
            m, u = 0.9 * m + 0.1 * g, max(0.999 * u, abs(g))
            w -= 0.1 / (1 - 0.9 ** t) * m / (u + 1e-7)
            out.append(w)
        self.near(self.run_steps(keras.optimizers.Adamax(0.1)), out)

    def test_nadam(self):
        w, m, v, p, out = 1.0, 0.0, 0.0, 1.0, []
        for t, g in enumerate((0.5, -1.0, 0.25), 1):
            u, u1 = (0.9 * (1 - 0.5 * 0.96 ** (0.004 * k)) for k in (t, t + 1))
            p *= u
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            bar = (1 - u) * g / (1 - p) + u1 * m / (1 - p * u1)
            w -= 0.1 * bar / (np.sqrt(v / (1 - 0.999 ** t)) + 1e-7)
            out.append(w)
        self.near(self.run_steps(keras.optimizers.Nadam(0.1)), out)

    def test_ftrl_moves_against_the_gradient(self):
        self.assertLess(self.run_steps(keras.optimizers.Ftrl(0.1), 1, start=0.0)[0], 0.0)

    def test_clipping(self):
        v = tf.Variable([3.0, 4.0], use_resource=True)
        loss = tf.reduce_sum(v * [3.0, 4.0])
        self.near(K.get_value(keras.optimizers.SGD(clipnorm=1.0).get_gradients(loss, [v])[0]), [0.6, 0.8])
        self.near(K.get_value(keras.optimizers.SGD(clipvalue=3.5).get_gradients(loss, [v])[0]), [3.0, 3.5])

    def test_rate_can_be_changed(self):
        o = keras.optimizers.SGD(lr=0.5)
        v = tf.Variable(0.0, use_resource=True)
        step = o.apply_gradients([(tf.constant(1.0), v)])
        K.set_value(o.lr, 0.25)
        K.get_session().run(step)
        self.near(K.get_value(v), -0.25)
        o.learning_rate = 1.0
        K.get_session().run(step)
        self.near(K.get_value(v), -1.25)
        self.assertEqual(2, K.get_value(o.iterations))

    def test_slices_of_rows(self):
        for make in (lambda: keras.optimizers.SGD(1.0), lambda: keras.optimizers.Adam(0.1),
                     lambda: keras.optimizers.Adagrad(0.1), lambda: keras.optimizers.SGD(0.1, momentum=0.5),
                     lambda: keras.optimizers.Adadelta(1.0)):
            v = tf.Variable(np.ones((3, 2), "f"), use_resource=True)
            loss = tf.reduce_sum(tf.gather(v, [1, 1]))
            o = make()
            step = o.get_updates(loss, [v])
            K.get_session().run(step)
            value = K.get_value(v)
            self.near(value[[0, 2]], np.ones((2, 2)))
            self.assertTrue((value[1] < 1).all())

    def test_configuration(self):
        o = keras.optimizers.Adam(lr=0.25, beta_1=0.5, clipnorm=2.0)
        other = keras.optimizers.deserialize(keras.optimizers.serialize(o))
        self.assertEqual(o.get_config(), other.get_config())
        with self.assertRaises(TypeError):
            keras.optimizers.Adam(speed=3)

    def test_schedules(self):
        s = keras.optimizers.schedules
        at = lambda f, n: float(K.get_value(f(tf.constant(n, tf.int64))))
        self.near(at(s.ExponentialDecay(1.0, 10, 0.5), 20), 0.25)
        self.near([at(s.PiecewiseConstantDecay([2, 4], [1.0, 0.5, 0.1]), n) for n in (2, 3, 5)], [1.0, 0.5, 0.1])
        self.near(at(s.PolynomialDecay(1.0, 10, 0.0), 5), 0.5)


class Callbacks(Case):
    def fit(self, callbacks, epochs=6, lr=0.1, y=1.0):
        model = keras.Sequential([L.Dense(1, input_shape=(1,), kernel_initializer="zeros")])
        model.compile(keras.optimizers.SGD(lr), "mse")
        return model, model.fit(np.ones((4, 1)), np.full((4, 1), y), epochs=epochs, verbose=0, callbacks=callbacks,
                                validation_data=(np.ones((2, 1)), np.full((2, 1), y)))

    def test_early_stopping(self):
        _, h = self.fit([keras.callbacks.EarlyStopping(monitor="val_loss", patience=2)], epochs=50, lr=0.0)
        self.assertEqual(3, len(h.epoch))

    def test_best_weights_come_back(self):
        seen = []

        class Spoil(keras.callbacks.Callback):
            def on_epoch_begin(self, epoch, logs=None):
                if epoch == 2:
                    self.model.set_weights([w + 100 for w in self.model.get_weights()])

            def on_epoch_end(self, epoch, logs=None):
                seen.append([w.copy() for w in self.model.get_weights()])

        model, h = self.fit([Spoil(), keras.callbacks.EarlyStopping(patience=1, restore_best_weights=True)], epochs=9, lr=0.01)
        self.assertEqual(3, len(h.epoch))
        for a, b in zip(model.get_weights(), seen[1]):
            self.near(a, b)

    def test_rates(self):
        _, h = self.fit([keras.callbacks.LearningRateScheduler(lambda epoch: 0.1 / (epoch + 1))], epochs=3)
        self.near(h.history["lr"], [0.1, 0.05, 0.1 / 3])
        model, h = self.fit([keras.callbacks.ReduceLROnPlateau(monitor="val_loss", factor=0.5, patience=1, min_lr=0.02)],
                            lr=0.0, epochs=4)
        self.near(h.history["lr"], [0, 0, 0, 0])
        stuck = keras.callbacks.ReduceLROnPlateau(monitor="loss", factor=0.5, patience=1, min_lr=0.02, min_delta=1e9)
        model, h = self.fit([stuck], epochs=4)
        self.near(h.history["lr"], [0.1, 0.1, 0.05, 0.025])
        self.near(K.get_value(model.optimizer.lr), 0.02)

    def test_checkpoints(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "w-{epoch:02d}-{val_loss:.2f}")
            self.fit([keras.callbacks.ModelCheckpoint(filepath=path, save_weights_only=True, verbose=0, monitor="val_loss")],
                     epochs=2)
            made = sorted(f for f in os.listdir(folder) if f.endswith(".index"))
            self.assertEqual(["w-01", "w-02"], [f[:4] for f in made])
            best = os.path.join(folder, "best")
            model, h = self.fit([keras.callbacks.ModelCheckpoint(best, save_best_only=True, save_weights_only=True)], epochs=3)
            kept = model.get_weights()
            model.set_weights([w * 0 for w in kept])
            model.load_weights(best)
            for a, b in zip(model.get_weights(), kept):
                self.near(a, b)

    def test_csv_and_lambda(self):
        with tempfile.TemporaryDirectory() as folder:
            path, seen = os.path.join(folder, "log.csv"), []
            self.fit([keras.callbacks.CSVLogger(path), keras.callbacks.LambdaCallback(on_epoch_end=lambda e,
                                                                                      logs: seen.append(e))], epochs=2)
            with open(path, newline="") as f:
                rows = list(csv.DictReader(f))
            self.assertEqual([["epoch", "loss", "val_loss"], ["0", "1"]], [list(rows[0]), [r["epoch"] for r in rows]])
            self.assertEqual([0, 1], seen)

    def test_nan_ends_training(self):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            _, h = self.fit([keras.callbacks.TerminateOnNaN()], y=np.nan, epochs=5)
        self.assertEqual("Batch 0: Invalid loss, terminating training\n", out.getvalue())
        self.assertEqual(1, len(h.epoch))

    def test_tensorboard(self):
        with tempfile.TemporaryDirectory() as folder:
            self.fit([keras.callbacks.TensorBoard(log_dir=folder, histogram_freq=1, write_graph=True, write_images=True,
                                                  write_grads=True)],
                     epochs=2)
            file, = [os.path.join(folder, f) for f in os.listdir(folder)]
            tags = {}
            for event in tf.train.summary_iterator(file):
                for v in event.summary.value:
                    tags.setdefault(v.tag, []).append(v.simple_value)
            self.assertEqual(2, len(tags["epoch_val_loss"]))
            self.assertTrue(any("kernel" in t for t in tags), tags)


class Preprocessing(Case):
    def test_pad_sequences(self):
        pad = keras.preprocessing.sequence.pad_sequences
        np.testing.assert_array_equal(pad([[1], [2, 3, 4]]), [[0, 0, 1], [2, 3, 4]])
        np.testing.assert_array_equal(pad([[1], [2, 3, 4]], maxlen=2, padding="post", truncating="post", value=9),
                                      [[1, 9], [2, 3]])
        with self.assertRaises(ValueError):
            pad([[1]], padding="middle")

    def test_tokenizer(self):
        t = keras.preprocessing.text.Tokenizer(num_words=4, oov_token="?")
        t.fit_on_texts(["The cat, the dog.", "the CAT"])
        self.assertEqual({"?": 1, "the": 2, "cat": 3, "dog": 4}, t.word_index)
        self.assertEqual([[2, 3, 1, 1]], t.texts_to_sequences(["the cat dog bird"]))
        np.testing.assert_array_equal(t.texts_to_matrix(["the the cat"], mode="count"), [[0, 0, 2, 1]])
        copy = keras.preprocessing.text.tokenizer_from_json(t.to_json())
        self.assertEqual([[2, 3, 1]], copy.texts_to_sequences(["the cat dog"]))
        self.assertEqual(["a", "b", "c"], keras.preprocessing.text.text_to_word_sequence("A b!c"))
        self.assertTrue(all(0 < n < 10 for n in keras.preprocessing.text.one_hot("a b c", 10)))

    def test_images(self):
        x = np.arange(2 * 3 * 4 * 1, dtype="f").reshape(2, 3, 4, 1)
        g = keras.preprocessing.image.ImageDataGenerator(rescale=0.5)
        images, labels = next(g.flow(x, [7, 8], batch_size=2, shuffle=False))
        self.near(images, x / 2)
        np.testing.assert_array_equal(labels, [7, 8])
        turn = keras.preprocessing.image.apply_affine_transform
        self.near(turn(x[0, :3, :3], theta=90), np.rot90(x[0, :3, :3], -1))
        self.near(turn(x[0], tx=1, fill_mode="constant", cval=-1)[:2], x[0, 1:])
        self.near(turn(x[0], tx=1, fill_mode="constant", cval=-1)[2], np.full((4, 1), -1))
        g = keras.preprocessing.image.ImageDataGenerator(rotation_range=20, width_shift_range=0.1, height_shift_range=0.1,
                                                         shear_range=5, zoom_range=0.2, horizontal_flip=True,
                                                         vertical_flip=True, fill_mode="reflect")
        out = g.random_transform(x[0])
        self.assertEqual(x[0].shape, out.shape)
        self.assertTrue(out.min() >= 0 and out.max() <= 11)
        g = keras.preprocessing.image.ImageDataGenerator(featurewise_center=True)
        g.fit(x)
        self.near(g.standardize(x).mean(), 0)

    def test_to_categorical(self):
        np.testing.assert_array_equal(keras.utils.to_categorical([2, 0], 3), [[0, 0, 1], [1, 0, 0]])
        self.near(keras.utils.normalize(np.array([[3.0, 4.0]])), [[0.6, 0.8]])

    def test_files_are_not_fetched(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(FileNotFoundError, "does not download files: download it from http://x/y"):
                keras.utils.get_file("y", "http://x/y", cache_dir=folder)
            os.makedirs(os.path.join(folder, "datasets"))
            path = os.path.join(folder, "datasets", "y")
            with open(path, "w") as f:
                f.write("there")
            self.assertEqual(path, keras.utils.get_file("y", "http://x/y", cache_dir=folder))
            with self.assertRaisesRegex(ValueError, "hash"):
                keras.utils.get_file("y", "http://x/y", cache_dir=folder, md5_hash="0" * 32)

    def test_names_are_listed_before_they_are_used(self):
        self.assertLessEqual({"Sequential", "layers", "backend"}, set(dir(keras)))
        self.assertLessEqual({"Dense", "LSTM", "Input", "add", "deserialize", "MaxPool2D"}, set(dir(keras.layers)))
        for name in dir(keras.layers):
            self.assertIsNotNone(getattr(keras.layers, name))

    def test_archives(self):
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(os.path.join(folder, "datasets"))
            inner = os.path.join(folder, "datasets", "inner")
            with zipfile.ZipFile(os.path.join(folder, "datasets", "a.zip"), "w") as f:
                f.writestr("inner", "text")
            for kind, there in ((None, False), ("tar", False), (["zip", "tar"], True)):
                keras.utils.get_file("a.zip", "", cache_dir=folder, extract=True, archive_format=kind)
                self.assertEqual(os.path.exists(inner), there)
            with self.assertRaises(ValueError):
                keras.utils.get_file("a.zip", "", cache_dir=folder, extract=True, archive_format="rar")

    def test_vgg(self):
        model = keras.applications.VGG16(weights=None, include_top=False, input_shape=(32, 32, 3))
        self.assertEqual(14714688, model.count_params())
        self.assertEqual((None, 1, 1, 512), model.get_layer("block5_pool").output_shape)
        x = keras.applications.vgg16.preprocess_input(np.full((1, 1, 1, 3), [1.0, 2.0, 3.0]))
        self.near(x[0, 0, 0], [3 - 103.939, 2 - 116.779, 1 - 123.68])


class ScikitLearn(Case):
    def test_classifier_and_regressor(self):
        x = np.random.randn(200, 2)
        names = np.where(x[:, 0] > 0, "right", "left")

        def build(size=4, loss="binary_crossentropy", end="sigmoid"):
            model = keras.Sequential([L.Dense(size, activation="tanh", input_shape=(2,)), L.Dense(1, activation=end)])
            model.compile(keras.optimizers.Adam(0.05), loss, metrics=["accuracy"] if end == "sigmoid" else None)
            return model

        c = keras.wrappers.scikit_learn.KerasClassifier(build, size=3, epochs=10, verbose=0)
        c.fit(x, names)
        self.assertGreater(c.score(x, names), 0.95)
        self.assertGreater((c.predict(x)[:, 0] == names).mean(), 0.95)
        r = keras.wrappers.scikit_learn.KerasRegressor(build, loss="mse", end="linear", epochs=20, verbose=0)
        r.fit(x, x[:, 1])
        self.assertGreater(r.score(x, x[:, 1]), -0.1)
        with self.assertRaisesRegex(ValueError, "no_such is not a legal parameter"):
            keras.wrappers.scikit_learn.KerasClassifier(build, no_such=1)


class Backend(Case):
    def test_function_and_updates(self):
        x, v = K.placeholder((2,)), K.variable([1.0, 2.0])
        f = K.function([x], [K.sum(x * v)], updates=[K.update_add(v, x)])
        self.near(f([np.array([1.0, 1.0])]), [3.0])
        self.near(K.get_value(v), [2.0, 3.0])

    def test_settings(self):
        self.assertEqual(("float32", 1e-7, "channels_last"), (K.floatx(), K.epsilon(), K.image_data_format()))
        K.set_floatx("float64")
        try:
            self.assertEqual("float64", L.Input((1,)).dtype.name)
        finally:
            K.set_floatx("float32")
        with self.assertRaises(ValueError):
            K.set_floatx("int8")

    def test_learning_phase(self):
        self.assertEqual("keras_learning_phase:0", K.learning_phase().name)
        y = K.in_train_phase(tf.constant(1.0), tf.constant(2.0))
        self.near(K.get_session().run([y]), [2.0])
        self.near(K.get_session().run([y], {K.learning_phase(): True}), [1.0])
        K.set_learning_phase(1)
        self.assertEqual(1, K.learning_phase())
        K.clear_session()
        self.assertIsInstance(K.learning_phase(), tf.Tensor)

    def test_the_programs_session(self):
        with tf.Session() as s:
            x = tf.placeholder(tf.float32, [None, 2])
            y = L.Dense(1, kernel_initializer="ones")(x)
            self.assertIs(s, K.get_session())
            self.near(s.run(y, {x: [[1, 2]]}), [[3]])

    def test_ctc_labels(self):
        s = K.ctc_label_dense_to_sparse(tf.constant([[1, 2, 3], [4, 5, 6]]), tf.constant([2, 1]))
        indices, values, shape = K.get_session().run([s.indices, s.values, s.dense_shape])
        np.testing.assert_array_equal(indices, [[0, 0], [0, 1], [1, 0]])
        np.testing.assert_array_equal(values, [1, 2, 4])
        np.testing.assert_array_equal(shape, [2, 3])

    def test_small_functions(self):
        x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
        self.assertEqual((2, 2), K.int_shape(x))
        for value, expected in ((K.mean(x), 2.5), (K.sum(x, axis=0), [4, 6]), (K.square(x), [[1, 4], [9, 16]]),
                                (K.clip(x, 2, 3), [[2, 2], [3, 3]]), (K.concatenate([x, x], 0), [[1, 2], [3, 4]] * 2),
                                (K.repeat_elements(x, 2, 1), [[1, 1, 2, 2], [3, 3, 4, 4]]), (K.argmax(x), [1, 1]),
                                (K.l2_normalize(x, 1), np.array([[1, 2], [3, 4]]) / np.sqrt([[5], [25]])), (K.max(x), 4),
                                (K.std(x), np.std([1, 2, 3, 4])), (K.batch_flatten(x[None]), [[1, 2, 3, 4]]),
                                (K.dot(x, x), [[7, 10], [15, 22]]), (K.any(x > 3), True), (K.all(x > 3), False),
                                (K.arange(3), [0, 1, 2]), (K.relu(x - 2, max_value=1.5), [[0, 0], [1, 1.5]])):
            self.near(K.get_value(value), expected)
        with self.assertRaisesRegex(AttributeError, "no_such"):
            K.no_such


if __name__ == "__main__":
    unittest.main()
