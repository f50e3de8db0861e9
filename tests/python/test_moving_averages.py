"""Moving averages and the helpers of tf.contrib.framework."""

import unittest

import numpy as np

import millrace as tf
from millrace.train import moving_averages


class Case(unittest.TestCase):
    def setUp(self):
        self._graph = tf.Graph().as_default()
        self._graph.__enter__()

    def tearDown(self):
        self._graph.__exit__(None, None, None)

    def session(self):
        s = tf.Session()
        s.run(tf.global_variables_initializer())
        self.addCleanup(s.close)
        return s


class MovingAverages(Case):
    def test_variables(self):
        for use_resource in (False, True):
            with tf.variable_scope("scope_%d" % use_resource, use_resource=use_resource):
                v = tf.get_variable("v", initializer=[10.0, 20.0])
            ema = tf.train.ExponentialMovingAverage(0.75)
            move = ema.apply([v])
            self.assertEqual(ema.average(v).op.name, v.op.name + "/ExponentialMovingAverage")
            self.assertEqual(ema.average(v).op.type, v.op.type)
            s = self.session()
            np.testing.assert_allclose(s.run(ema.average(v)), [10, 20])
            s.run(v.assign([2.0, 4.0]).op)
            s.run(move)
            np.testing.assert_allclose(s.run(ema.average(v)), [8, 16])

    def test_tensors_begin_at_zero(self):
        x = tf.placeholder(tf.float32, [])
        y = x * 2
        y.set_shape([])
        ema = tf.train.ExponentialMovingAverage(0.5)
        move = ema.apply([y])
        s = self.session()
        s.run(move, {x: 4.0})
        self.assertEqual(s.run(ema.average(y)), 4)

    def test_tensors_without_the_bias_of_the_beginning(self):
        x = tf.placeholder(tf.float32, [])
        ema = tf.train.ExponentialMovingAverage(0.9, zero_debias=True)
        move = ema.apply([x])
        s = self.session()
        for value in (8.0, 8.0, 8.0):
            s.run(move, {x: value})
            self.assertAlmostEqual(s.run(ema.average(x)), 8, places=4)

    def test_number_of_updates(self):
        v = tf.Variable(0.0)
        ema = tf.train.ExponentialMovingAverage(0.99, num_updates=1)
        move = ema.apply([v])
        s = self.session()
        s.run(v.assign(11.0).op)
        s.run(move)
        self.assertAlmostEqual(s.run(ema.average(v)), 9, places=5)  # the decay is 2 / 11

    def test_all_that_is_trained(self):
        v, w = tf.Variable(0.0, name="v"), tf.Variable(0.0, name="w", trainable=False)
        ema = tf.train.ExponentialMovingAverage(0.9, name="mine")
        op = ema.apply()
        self.assertEqual(op.name, "mine")
        self.assertEqual(tf.moving_average_variables(), [v])
        self.assertIsNone(ema.average(w))
        self.assertEqual(ema.average_name(w), "w/mine")
        self.assertNotIn(ema.average(v), tf.trainable_variables())

    def test_what_is_restored(self):
        v, w = tf.Variable(0.0, name="v"), tf.Variable(0.0, name="w", trainable=False)
        names = tf.train.ExponentialMovingAverage(0.9).variables_to_restore()
        self.assertEqual(names, {"v/ExponentialMovingAverage": v, "w": w})

    def test_integers_are_refused(self):
        with self.assertRaises(TypeError):
            tf.train.ExponentialMovingAverage(0.9).apply([tf.Variable(1)])

    def test_weighted(self):
        out = moving_averages.weighted_moving_average(tf.constant([1.0, 3.0]), 0.5, tf.constant([2.0, 2.0]))
        np.testing.assert_allclose(self.session().run(out), [1, 3])


class ArgScope(Case):
    def setUp(self):
        super().setUp()
        framework = tf.contrib.framework

        @framework.add_arg_scope
        def f(a, b=1, c=2):
            return a, b, c

        self.f, self.scope = f, framework.arg_scope

    def test_defaults(self):
        with self.scope([self.f], b=5):
            self.assertEqual((self.f(0), self.f(0, b=6), self.f(0, c=7)), ((0, 5, 2), (0, 6, 2), (0, 5, 7)))
            with self.scope([self.f], c=8):
                self.assertEqual(self.f(0), (0, 5, 8))
        self.assertEqual(self.f(0), (0, 1, 2))

    def test_kept_scopes(self):
        with self.scope([self.f], b=5) as kept:
            pass
        with self.scope(kept):
            self.assertEqual(self.f(0), (0, 5, 2))
        with self.assertRaises(ValueError):
            with self.scope(kept, c=1):
                pass

    def test_refused(self):
        with self.assertRaises(ValueError):
            with self.scope([len], b=1):
                pass
        with self.assertRaises(TypeError):
            with self.scope(self.f, b=1):
                pass
        self.assertEqual(tf.contrib.framework.arg_scoped_arguments(self.f), ("b", "c"))


class Framework(Case):
    def test_finding(self):
        f = tf.contrib.framework
        a, b = f.model_variable("x/w", [2]), f.variable("y/w", [2])
        self.assertEqual((f.get_variables("x"), f.get_variables_by_name("w"), f.get_variables_by_suffix("w")), ([a], [a, b],
                                                                                                                [a, b]))
        self.assertEqual((f.get_model_variables(), tf.model_variables()), ([a], [a]))
        self.assertEqual(f.get_variables_to_restore(exclude=["x"]), [b])
        self.assertEqual(f.get_variables_to_restore(include=["x"]), [a])
        self.assertIs(f.get_unique_variable("y/w"), b)
        with self.assertRaises(ValueError):
            f.get_unique_variable("z")
        self.assertEqual(f.filter_variables([a, b], ["w"], ["x"]), [b])

    def test_values(self):
        f = tf.contrib.framework
        v = f.variable("v", [2, 2])
        op, feed = f.assign_from_values({"v": [1, 2, 3, 4]})
        s = self.session()
        s.run(op, feed)
        np.testing.assert_array_equal(s.run(v), [[1, 2], [3, 4]])

    def test_global_step(self):
        step = tf.contrib.framework.get_or_create_global_step()
        self.assertIs(tf.contrib.framework.get_or_create_global_step(), step)
        self.assertEqual((step.name, step.dtype.base_dtype), ("global_step:0", tf.int64))

    def test_devices_in_turn(self):
        choose = tf.contrib.framework.VariableDeviceChooser(num_tasks=2)
        self.assertEqual([choose(None) for _ in range(3)],
                         ["/job:ps/task:%d/device:CPU:0" % i for i in (0, 1, 0)])


if __name__ == "__main__":
    unittest.main()
