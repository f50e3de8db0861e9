"""Models of tf.keras: building, training, configuration, weights."""

import contextlib
import io
import json
import os
import sys
import tempfile
import types
import unittest
import unittest.mock

import numpy as np

import millrace as tf

K, L = tf.keras.backend, tf.keras.layers


class Case(unittest.TestCase):
    def setUp(self):
        K.clear_session()
        np.random.seed(7)
        tf.set_random_seed(7)


def quiet(f, *args, **kwargs):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        result = f(*args, **kwargs)
    return result, out.getvalue()


class Building(Case):
    def test_names_of_layers_and_variables(self):
        model = tf.keras.Sequential([L.Dense(3, input_shape=(2,)), L.Dense(1, name="end")])
        self.assertEqual(["dense/kernel:0", "dense/bias:0", "end/kernel:0", "end/bias:0"], [w.name for w in model.weights])
        self.assertEqual("dense_input:0", model.input.name)
        self.assertEqual("sequential", model.name)
        self.assertEqual("dense_1", L.Dense(1).name)

    def test_layer_on_a_plain_tensor(self):
        x = tf.placeholder(tf.float32, [None, 2])
        y = L.Dense(3, activation="relu", kernel_initializer="ones")(x)
        with tf.Session() as s:
            s.run(tf.global_variables_initializer())
            np.testing.assert_allclose(s.run(y, {x: [[1, 2], [-3, 1]]}), [[3, 3, 3], [0, 0, 0]])

    def test_shared_layer(self):
        a, b = L.Input((2,)), L.Input((2,))
        shared = L.Dense(1, use_bias=False)
        model = tf.keras.Model([a, b], L.add([shared(a), shared(b)]))
        self.assertEqual(1, len(model.weights))
        shared.set_weights([np.array([[1.0], [2.0]])])
        np.testing.assert_allclose(model.predict([np.ones((1, 2)), np.array([[3.0, 4.0]])]), [[14.0]])
        with self.assertRaisesRegex(AttributeError, "multiple inbound nodes"):
            shared.output

    def test_operations_between_layers(self):
        x = L.Input((2,))
        model = tf.keras.Model(x, tf.concat([x, 2.0 * x], 1) + 1.0)
        np.testing.assert_allclose(model.predict(np.array([[1.0, 2.0]])), [[2, 3, 3, 5]])
        other = model(tf.constant([[5.0, 6.0]]))
        np.testing.assert_allclose(K.get_value(other), [[6, 7, 11, 13]])
        copy = tf.keras.Model.from_config(json.loads(json.dumps(model.get_config())))
        np.testing.assert_allclose(copy.predict(np.array([[1.0, 2.0]])), [[2, 3, 3, 5]])

    def test_model_as_a_layer(self):
        inner = tf.keras.Sequential([L.Dense(2, input_shape=(3,), kernel_initializer="ones")])
        x = L.Input((3,))
        model = tf.keras.Model(x, L.Dense(1, kernel_initializer="ones")(inner(x)))
        np.testing.assert_allclose(model.predict(np.ones((1, 3))), [[6.0]])
        self.assertEqual(4, len(model.trainable_weights))
        inner.trainable = False
        self.assertEqual(2, len(model.trainable_weights))

    def test_disconnected_graph(self):
        a, b = L.Input((2,)), L.Input((2,))
        with self.assertRaisesRegex(ValueError, "Graph disconnected"):
            tf.keras.Model(a, L.add([a, b]))

    def test_two_layers_of_one_name(self):
        x = L.Input((2,))
        with self.assertRaisesRegex(ValueError, 'The name "d" is used 2 times'):
            tf.keras.Model(x, L.Dense(1, name="d")(L.Dense(1, name="d")(x)))

    def test_wrong_shape_of_input(self):
        model = tf.keras.Sequential([L.Dense(3, input_shape=(2,))])
        with self.assertRaisesRegex(ValueError, r"expected dense_input to have shape \(2,\) but got array with shape \(3,\)"):
            model.predict(np.ones((1, 3)))

    def test_unknown_keyword(self):
        with self.assertRaises(TypeError):
            L.Dense(3, colour="red")

    def test_summary(self):
        model = tf.keras.Sequential([L.Dense(3, input_shape=(2,)), L.Dropout(0.5)])
        lines = []
        model.summary(print_fn=lines.append)
        self.assertEqual(['Model: "sequential"', "_" * 65, "Layer (type)                 Output Shape              Param #   ",
                          "=" * 65, "dense (Dense)                (None, 3)                 9         ", "_" * 65,
                          "dropout (Dropout)            (None, 3)                 0         ", "=" * 65,
                          "Total params: 9", "Trainable params: 9", "Non-trainable params: 0", "_" * 65], lines)

    def test_add_and_pop(self):
        model = tf.keras.Sequential()
        model.add(L.InputLayer(input_shape=(4,)))
        model.add(L.Dense(3))
        model.add(L.Dense(2))
        self.assertEqual((None, 2), model.output_shape)
        model.pop()
        self.assertEqual((None, 3), model.output_shape)
        self.assertEqual(1, len(model.layers))


class Training(Case):
    def data(self):
        x = np.random.randn(400, 4).astype(np.float32)
        return x, (x[:, 0] + x[:, 1] > 0).astype(np.int64)

    def test_a_step_of_gradient_descent(self):
        model = tf.keras.Sequential([L.Dense(1, use_bias=False, kernel_initializer="zeros", input_shape=(1,))])
        model.compile(tf.keras.optimizers.SGD(lr=0.1), "mse")
        x, y = np.array([[1.0], [2.0]]), np.array([[1.0], [3.0]])
        loss = model.train_on_batch(x, y)
        self.assertAlmostEqual((1 + 9) / 2, loss, places=5)
        grad = np.mean(2 * (0 - y) * x)
        np.testing.assert_allclose(model.get_weights()[0], [[-0.1 * grad]], rtol=1e-6)

    def test_classifier_learns(self):
        x, y = self.data()
        model = tf.keras.Sequential([L.Dense(16, activation="tanh", input_shape=(4,)), L.Dense(2, activation="softmax")])
        model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
        history = model.fit(x, y, epochs=25, batch_size=20, verbose=0, validation_split=0.25)
        self.assertEqual(["loss", "acc", "val_loss", "val_acc"], list(history.history))
        self.assertEqual(25, len(history.history["loss"]))
        loss, acc = model.evaluate(x, y, verbose=0)
        self.assertGreater(acc, 0.95)
        predicted = model.predict(x).argmax(1)
        self.assertAlmostEqual((predicted == y).mean(), acc, places=5)

    def test_one_hot_and_sparse_targets_agree(self):
        x, y = self.data()
        model = tf.keras.Sequential([L.Dense(2, activation="softmax", input_shape=(4,))])
        model.compile("sgd", "categorical_crossentropy")
        a = model.evaluate(x, tf.keras.utils.to_categorical(y), verbose=0)
        model.compile("sgd", "sparse_categorical_crossentropy")
        self.assertAlmostEqual(a, model.evaluate(x, y, verbose=0), places=5)

    def test_weights_of_samples_and_classes(self):
        model = tf.keras.Sequential([L.Dense(1, use_bias=False, kernel_initializer="ones", input_shape=(1,))])
        model.compile("sgd", "mse", weighted_metrics=["mae"])
        x, y = np.array([[1.0], [2.0], [3.0]]), np.zeros((3, 1))
        loss, mae = model.test_on_batch(x, y, sample_weight=np.array([1.0, 0.0, 2.0]))
        self.assertAlmostEqual((1 + 18) / 3, loss, places=5)
        self.assertAlmostEqual((1 + 6) / 3, mae, places=5)
        x, y = np.array([[1.0], [2.0]]), np.array([0, 1])
        model.compile(tf.keras.optimizers.SGD(0.0), "mse")
        loss = model.train_on_batch(x, y, class_weight={0: 1.0, 1: 10.0})
        self.assertAlmostEqual((1 + 10) / 2, loss, places=5)

    def test_several_outputs(self):
        x = L.Input((2,), name="x")
        a, b = L.Dense(1, name="a", kernel_initializer="ones")(x), L.Dense(2, name="b", kernel_initializer="zeros")(x)
        model = tf.keras.Model(x, [a, b])
        model.compile("sgd", {"a": "mse", "b": "mae"}, metrics={"a": ["mae"]}, loss_weights={"a": 1.0, "b": 0.5})
        self.assertEqual(["loss", "a_loss", "b_loss", "a_mean_absolute_error"], model.metrics_names)
        got = model.evaluate({"x": np.ones((4, 2))}, {"a": np.zeros((4, 1)), "b": np.ones((4, 2))}, verbose=0)
        np.testing.assert_allclose(got, [4.5, 4.0, 1.0, 2.0], rtol=1e-6)

    def test_regularizers_and_added_losses(self):
        x = L.Input((1,))
        y = L.Dense(1, use_bias=False, kernel_initializer="ones", kernel_regularizer=tf.keras.regularizers.l2(0.5))(x)
        model = tf.keras.Model(x, y)
        model.add_loss(tf.reduce_mean(y) * 3.0)
        model.compile("sgd", "mse")
        self.assertAlmostEqual(0.5 + 6.0 + 4.0, model.test_on_batch(np.array([[2.0]]), np.array([[0.0]])), places=5)

    def test_constraints(self):
        model = tf.keras.Sequential([L.Dense(1, kernel_constraint="non_neg", kernel_initializer="zeros", input_shape=(1,))])
        model.compile(tf.keras.optimizers.SGD(1.0), "mse")
        model.train_on_batch(np.ones((1, 1)), -np.ones((1, 1)))
        np.testing.assert_allclose(model.layers[0].get_weights()[0], [[0.0]])

    def test_optimizer_of_tf_train(self):
        x, y = self.data()
        model = tf.keras.Sequential([L.Dense(1, activation="sigmoid", input_shape=(4,))])
        model.compile(tf.train.GradientDescentOptimizer(1.0), "binary_crossentropy", metrics=["accuracy"])
        model.fit(x, y, epochs=20, verbose=0)
        self.assertGreater(model.evaluate(x, y, verbose=0)[1], 0.95)

    def test_frozen_layers_stay(self):
        model = tf.keras.Sequential([L.Dense(2, input_shape=(4,)), L.Dense(1)])
        model.layers[0].trainable = False
        model.compile("sgd", "mse")
        before = model.get_weights()
        model.train_on_batch(np.ones((2, 4)), np.zeros((2, 1)))
        after = model.get_weights()
        np.testing.assert_array_equal(before[0], after[0])
        self.assertTrue((before[2] != after[2]).any())

    def test_a_layer_frozen_for_another_model(self):
        judge = tf.keras.Sequential([L.Dense(1, input_shape=(2,), activation="sigmoid")], name="judge")
        judge.compile(tf.keras.optimizers.SGD(0.5), "binary_crossentropy")
        judge.trainable = False
        maker = tf.keras.Sequential([L.Dense(2, input_shape=(3,))], name="maker")
        z = L.Input((3,))
        both = tf.keras.Model(z, judge(maker(z)))
        both.compile(tf.keras.optimizers.SGD(0.5), "binary_crossentropy")
        before = judge.get_weights(), maker.get_weights()
        both.train_on_batch(np.ones((4, 3)), np.ones(4))
        np.testing.assert_array_equal(before[0][0], judge.get_weights()[0])
        self.assertTrue((before[1][0] != maker.get_weights()[0]).any())
        before = judge.get_weights()
        judge.train_on_batch(np.ones((4, 2)), np.ones(4))
        self.assertTrue((before[0] != judge.get_weights()[0]).any())

    def test_inputs_of_the_graph_and_targets_of_arrays(self):
        x = L.Input(tensor=tf.constant(np.ones((4, 2), "f")))
        model = tf.keras.Model(x, L.Dense(1, kernel_initializer="zeros")(x))
        self.assertEqual(model.predict(None, steps=2).shape, (8, 1))  # which needs no compile
        model.compile("sgd", "mse")
        self.assertEqual(model.evaluate(None, np.full((4, 1), 3.0), steps=2, verbose=0), 9.0)
        self.assertRaises(ValueError, model.fit, None, None, steps_per_epoch=1)
        self.assertRaises(ValueError, model.compile, "sgd", "mse", run_eagerly=True)

    def test_inputs_that_are_tensors(self):
        x = L.Input(tensor=tf.constant(np.ones((4, 2), "f")))
        model = tf.keras.Model(x, L.Dense(1, kernel_initializer="zeros")(x))
        model.compile(tf.keras.optimizers.SGD(0.1), "mse", target_tensors=[tf.ones([4, 1])])
        history = model.fit(steps_per_epoch=2, epochs=3, verbose=0)
        self.assertAlmostEqual((1 + 0.4 ** 2) / 2, history.history["loss"][0], places=5)

    def test_generators_and_sequences(self):
        ends = []

        class Batches(tf.keras.utils.Sequence):
            def __len__(self):
                return 5

            def on_epoch_end(self):
                ends.append(1)

            def __getitem__(self, i):
                return np.full((2, 1), float(i)), np.full((2, 1), 2.0 * i)

        model = tf.keras.Sequential([L.Dense(1, use_bias=False, input_shape=(1,))])
        model.compile(tf.keras.optimizers.SGD(0.05), "mse")
        model.fit_generator(Batches(), epochs=10, verbose=0)
        self.assertEqual(10, len(ends))
        np.testing.assert_allclose(model.get_weights()[0], [[2.0]], atol=1e-3)
        endless = iter(lambda: (np.ones((2, 1)), np.ones((2, 1))), None)
        h = model.fit_generator(endless, steps_per_epoch=3, epochs=2, verbose=0, validation_data=Batches())
        self.assertEqual(2, len(h.history["val_loss"]))
        self.assertEqual((10, 1), model.predict_generator(Batches()).shape)
        self.assertIsInstance(model.evaluate_generator(Batches()), float)

    def test_datasets(self):
        data = tf.data.Dataset.from_tensor_slices((np.arange(8.0)[:, None], 3 * np.arange(8.0)[:, None])).batch(4).repeat()
        model = tf.keras.Sequential([L.Dense(1, use_bias=False, input_shape=(1,))])
        model.compile(tf.keras.optimizers.SGD(0.02), "mse")
        model.fit(data, epochs=10, steps_per_epoch=2, verbose=0)
        np.testing.assert_allclose(model.get_weights()[0], [[3.0]], atol=1e-2)

    def test_subclass(self):
        class Two(tf.keras.Model):
            def __init__(self):
                super().__init__()
                self.a, self.b = L.Dense(8, activation="tanh"), L.Dense(1, activation="sigmoid")

            def call(self, x):
                return self.b(self.a(x))

        x, y = self.data()
        model = Two()
        model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
        model.fit(x, y, epochs=20, batch_size=20, verbose=0)
        self.assertGreater(model.evaluate(x, y, verbose=0)[1], 0.9)
        self.assertEqual(4, len(model.weights))

    def test_a_subclass_is_built_by_batches(self):
        class One(tf.keras.Model):
            def __init__(self):
                super().__init__()
                self.only = L.Dense(1, kernel_initializer="zeros")

            def call(self, x):
                return self.only(x)

        model = One()
        model.compile(tf.keras.optimizers.SGD(0.0), "mse", metrics=["mae"])
        data = tf.data.Dataset.from_tensor_slices((np.ones((6, 2), "f"), 2 * np.ones((6, 1), "f"))).batch(2)
        history, text = quiet(model.fit, data, epochs=2)
        self.assertEqual({"loss": [4.0, 4.0], "mean_absolute_error": [2.0, 2.0]}, history.history)
        self.assertRegex(text, r"Epoch 2/2\n(.*\n)*.*3/3 \[={30}\] - .* - loss: 4.0000 - mean_absolute_error: 2.0000\n$")

    def test_not_compiled(self):
        with self.assertRaisesRegex(RuntimeError, "compile your model"):
            tf.keras.Sequential([L.Dense(1, input_shape=(1,))]).fit(np.ones((1, 1)), np.ones((1, 1)))

    def test_progress(self):
        model = tf.keras.Sequential([L.Dense(1, kernel_initializer="zeros", input_shape=(1,))])
        model.compile(tf.keras.optimizers.SGD(0.0), "mse")
        _, text = quiet(model.fit, np.ones((4, 1)), np.ones((4, 1)), batch_size=2, epochs=1,
                        validation_data=(np.ones((2, 1)), np.ones(2)))
        self.assertIn("Train on 4 samples, validate on 2 samples\nEpoch 1/1\n", text)
        self.assertRegex(text, r"4/4 \[={30}\] - \d+s \d+[mu]?s/sample - loss: 1.0000 - val_loss: 1.0000\n$")

    def test_same_seeds_same_weights(self):
        def train():
            K.clear_session()
            np.random.seed(1)
            tf.set_random_seed(1)
            model = tf.keras.Sequential([L.Dense(3, input_shape=(4,)), L.Dropout(0.5), L.Dense(1)])
            model.compile("adam", "mse")
            model.fit(np.ones((20, 4)), np.ones((20, 1)), epochs=2, verbose=0)
            return model.get_weights()

        for a, b in zip(train(), train()):
            np.testing.assert_array_equal(a, b)


class Files(Case):
    def make(self):
        model = tf.keras.Sequential([L.Dense(3, activation="relu", input_shape=(2,)), L.BatchNormalization(), L.Dense(1)])
        model.compile("adam", "mse", metrics=["mae"])
        return model

    def test_weights_of_the_checkpoint_format(self):
        with tempfile.TemporaryDirectory() as folder:
            model, path = self.make(), os.path.join(folder, "weights")
            model.fit(np.ones((4, 2)), np.ones((4, 1)), verbose=0)
            model.save_weights(path)
            self.assertIn("layer_with_weights-0/kernel/.ATTRIBUTES/VARIABLE_VALUE", dict(tf.train.list_variables(path)))
            other = self.make()
            other.load_weights(path)
            for a, b in zip(model.get_weights(), other.get_weights()):
                np.testing.assert_array_equal(a, b)
            other.load_weights(tf.train.latest_checkpoint(folder))
            with self.assertRaises(ValueError):
                tf.keras.Sequential([L.Dense(4, input_shape=(2,))]).load_weights(path)

    def test_names_in_checkpoints(self):
        class Own(tf.keras.Model):
            def __init__(self):
                super().__init__()
                self.a, self.many = L.Dense(2), []
                for n in (2, 1):
                    self.many.append(L.Dense(n))

            def call(self, x):
                x = self.a(x)
                for layer in self.many:
                    x = layer(x)
                return x

        end = "/.ATTRIBUTES/VARIABLE_VALUE"
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "w")
            own = Own()
            own.predict(np.ones((1, 2)))
            own.save_weights(path)
            self.assertEqual({n + end for n in ("a/kernel", "a/bias", "many/0/kernel", "many/0/bias", "many/1/kernel",
                                                "many/1/bias")},
                             {n for n, _ in tf.train.list_variables(path)})
            inner = tf.keras.Sequential([L.Dense(1, use_bias=False, input_shape=(3,))])
            row = tf.keras.Sequential([L.Bidirectional(L.GRU(2, use_bias=False), input_shape=(4, 2), merge_mode="sum"),
                                       L.Dense(3), inner])
            row.save_weights(path)
            self.assertEqual({"layer_with_weights-%s%s" % (n, end) for n in (
                "0/forward_layer/cell/kernel", "0/forward_layer/cell/recurrent_kernel", "0/backward_layer/cell/kernel",
                "0/backward_layer/cell/recurrent_kernel", "1/kernel", "1/bias", "2/layer_with_weights-0/kernel")},
                {n for n, _ in tf.train.list_variables(path)})
            before = row.get_weights()
            row.set_weights([w + 1 for w in before])
            row.load_weights(path)
            for a, b in zip(before, row.get_weights()):
                np.testing.assert_array_equal(a, b)

    def test_hdf5(self):
        """With a module in h5py's place that keeps groups in memory."""
        class Group(dict):
            def __init__(self):
                super().__init__()
                self.attrs = {}

            def create_group(self, name):
                self[name] = Group()
                return self[name]

            def create_dataset(self, name, data):
                self[name] = np.array(data)

            def __enter__(self):
                return self

            def __exit__(self, *unused):
                pass

        files = {}
        fake = types.ModuleType("h5py")
        fake.File = lambda path, mode: files.setdefault(path, Group()) if mode == "w" else files[path]
        with unittest.mock.patch.dict(sys.modules, h5py=fake), tempfile.TemporaryDirectory() as folder:
            model, path = self.make(), os.path.join(folder, "model.h5")
            model.fit(np.random.randn(8, 2), np.ones((8, 1)), verbose=0)
            x = np.random.randn(5, 2)
            expected = model.predict(x)
            model.save(path)
            model.save_weights(path + "weights.h5")
            open(path, "w").close()
            other = tf.keras.models.load_model(path)
            np.testing.assert_allclose(other.predict(x), expected, rtol=1e-6)
            other.set_weights([w * 0 for w in other.get_weights()])
            other.load_weights(path + "weights.h5")
            np.testing.assert_allclose(other.predict(x), expected, rtol=1e-6)
            self.assertEqual(1, K.get_value(other.optimizer.iterations))

    def test_estimator(self):
        x = np.random.randn(200, 2).astype(np.float32)
        y = (x.sum(1, keepdims=True) > 0).astype(np.float32)
        model = tf.keras.Sequential([L.Dense(1, activation="sigmoid", input_shape=(2,), name="only")])
        model.compile(tf.keras.optimizers.SGD(1.0), "binary_crossentropy", metrics=["accuracy"])
        with tempfile.TemporaryDirectory() as folder:
            estimator = tf.keras.estimator.model_to_estimator(model, model_dir=folder)
            given = lambda repeat: lambda: tf.data.Dataset.from_tensor_slices(({model.input_names[0]: x},
                                                                               y)).repeat(repeat).batch(50)
            estimator.train(given(None), steps=60)
            results = estimator.evaluate(given(1))
            self.assertGreater(results["acc"], 0.95)
            self.assertEqual(60, results["global_step"])
            p = np.array([r["only"] for r in estimator.predict(given(1))])
            self.assertAlmostEqual(((p > 0.5) == y).mean(), results["acc"], places=5)

    def test_hdf5_needs_h5py(self):
        try:
            import h5py  # noqa: F401
            self.skipTest("h5py is there")
        except ImportError:
            pass
        with self.assertRaisesRegex(ImportError, "requires h5py"):
            self.make().save_weights("weights.h5")

    def test_whole_model(self):
        with tempfile.TemporaryDirectory() as folder:
            model, path = self.make(), os.path.join(folder, "model")
            model.fit(np.random.randn(8, 2), np.ones((8, 1)), verbose=0)
            model.save(path, save_format="tf")
            x = np.random.randn(5, 2)
            expected = model.predict(x)
            slots = model.optimizer.get_weights()
            K.clear_session()
            other = tf.keras.models.load_model(path)
            np.testing.assert_allclose(other.predict(x), expected, rtol=1e-6)
            for a, b in zip(slots, other.optimizer.get_weights()):
                np.testing.assert_array_equal(a, b)
            self.assertEqual(["loss", "mean_absolute_error"], other.metrics_names)

    def test_json(self):
        a, b = L.Input((3,), name="a"), L.Input((3,), name="b")
        shared = L.Dense(2, activation="tanh", kernel_regularizer="l2")
        model = tf.keras.Model([a, b], L.concatenate([shared(a), shared(b), L.Flatten()(L.Reshape((3, 1))(a))]))
        copy = tf.keras.models.model_from_json(model.to_json())
        self.assertEqual([x.name for x in model.layers], [x.name for x in copy.layers])
        copy.set_weights(model.get_weights())
        x = [np.random.randn(2, 3), np.random.randn(2, 3)]
        np.testing.assert_allclose(copy.predict(x), model.predict(x), rtol=1e-6)
        self.assertEqual(model.get_config(), copy.get_config())

    def test_custom_objects(self):
        class Twice(L.Layer):
            def call(self, x):
                return 2 * x

        model = tf.keras.Sequential([Twice(input_shape=(1,))])
        with self.assertRaisesRegex(ValueError, "Unknown layer: Twice"):
            tf.keras.models.model_from_json(model.to_json())
        copy = tf.keras.models.model_from_json(model.to_json(), {"Twice": Twice})
        np.testing.assert_allclose(copy.predict(np.ones((1, 1))), [[2.0]])


if __name__ == "__main__":
    unittest.main()
