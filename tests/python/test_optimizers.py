"""Optimizers against the same steps in numpy, for both kinds of variables, by dense gradients and by rows; rates; steps."""

import math
import tempfile
import unittest

import numpy as np

import millrace as tf

START = np.array([[1.0, -2.0], [3.0, 0.5], [-1.5, 2.5]], np.float32)
GRAD = np.array([[0.1, -0.2], [0.3, 0.0], [-0.5, 0.7]], np.float32)


# Each in numpy: (state, gradient, step number from 1) -> new value; state is a dict that is kept between steps.

def sgd(w, g, s, t):
    return w - 0.5 * g


def momentum(w, g, s, t):
    s["a"] = s.get("a", 0) * 0.9 + g
    return w - 0.5 * s["a"]


def nesterov(w, g, s, t):
    s["a"] = s.get("a", 0) * 0.9 + g
    return w - 0.5 * (g + 0.9 * s["a"])


def adam(w, g, s, t):
    s["m"] = s.get("m", 0) * 0.9 + 0.1 * g
    s["v"] = s.get("v", 0) * 0.999 + 0.001 * g * g
    rate = 0.5 * math.sqrt(1 - 0.999 ** t) / (1 - 0.9 ** t)
    return w - rate * s["m"] / (np.sqrt(s["v"]) + 1e-8)


def adamax(w, g, s, t):
    s["m"] = s.get("m", 0) * 0.9 + 0.1 * g
    s["v"] = np.maximum(s.get("v", 0) * 0.999, np.abs(g))
    return w - 0.5 / (1 - 0.9 ** t) * s["m"] / (s["v"] + 1e-8)


def nadam(w, g, s, t):
    s["m"] = s.get("m", 0) * 0.9 + 0.1 * g
    s["v"] = s.get("v", 0) * 0.999 + 0.001 * g * g
    rate = 0.5 * math.sqrt(1 - 0.999 ** t) / (1 - 0.9 ** t)
    return w - rate * (0.9 * s["m"] + 0.1 * g) / (np.sqrt(s["v"]) + 1e-8)


def adamw(w, g, s, t):
    return adam(w * 0.9, g, s, t)


def adagrad(w, g, s, t):
    s["a"] = s.get("a", np.full_like(w, 0.1)) + g * g
    return w - 0.5 * g / np.sqrt(s["a"])


def adadelta(w, g, s, t):
    a = s["a"] = s.get("a", 0) * 0.95 + 0.05 * g * g
    u = s.get("u", 0)
    step = np.sqrt(u + 1e-8) / np.sqrt(a + 1e-8) * g
    s["u"] = u * 0.95 + 0.05 * step * step
    return w - 0.5 * step


def rmsprop(w, g, s, t):
    s["ms"] = s.get("ms", np.ones_like(w)) * 0.8 + 0.2 * g * g
    s["mom"] = s.get("mom", 0) * 0.3 + 0.5 * g / np.sqrt(s["ms"] + 1e-3)
    return w - s["mom"]


def centered(w, g, s, t):
    s["ms"] = s.get("ms", np.ones_like(w)) * 0.8 + 0.2 * g * g
    s["mg"] = s.get("mg", 0) * 0.8 + 0.2 * g
    s["mom"] = s.get("mom", 0) * 0.3 + 0.5 * g / np.sqrt(s["ms"] - s["mg"] ** 2 + 1e-3)
    return w - s["mom"]


def ftrl(w, g, s, t):
    old = s.get("a", np.full_like(w, 0.1))
    s["a"] = old + g * g
    sigma = (np.sqrt(s["a"]) - np.sqrt(old)) / 0.5
    s["z"] = s.get("z", 0) + g - sigma * w
    quadratic = np.sqrt(s["a"]) / 0.5 + 2 * 0.1
    pulled = (np.sign(s["z"]) * 0.01 - s["z"]) / quadratic
    return np.where(np.abs(s["z"]) > 0.01, pulled, 0)


def _shrunk(w, rate, l1, l2):
    return np.sign(w) * np.maximum(np.abs(w) - rate * l1, 0) / (1 + rate * l2)


def proximal(w, g, s, t):
    return _shrunk(w - 0.5 * g, 0.5, 0.01, 0.1)


def proximal_adagrad(w, g, s, t):
    s["a"] = s.get("a", np.full_like(w, 0.1)) + g * g
    rate = 0.5 / np.sqrt(s["a"])
    return _shrunk(w - rate * g, rate, 0.01, 0.1)


def adagrad_da(w, g, s, t):
    s["g"] = s.get("g", 0) + g
    s["gg"] = s.get("gg", np.full_like(w, 0.1)) + g * g
    top = np.maximum(np.abs(s["g"]) - 0.01 * t, 0) * np.sign(s["g"])
    return -0.5 * top / (0.1 * t * 0.5 + np.sqrt(s["gg"]))


RULES = [
    (lambda: tf.train.GradientDescentOptimizer(0.5), sgd),
    (lambda: tf.train.MomentumOptimizer(0.5, 0.9), momentum),
    (lambda: tf.train.MomentumOptimizer(0.5, 0.9, use_nesterov=True), nesterov),
    (lambda: tf.train.AdamOptimizer(0.5), adam),
    (lambda: tf.contrib.opt.AdaMaxOptimizer(0.5), adamax),
    (lambda: tf.contrib.opt.NadamOptimizer(0.5), nadam),
    (lambda: tf.contrib.opt.AdamWOptimizer(0.1, 0.5), adamw),
    (lambda: tf.train.AdagradOptimizer(0.5), adagrad),
    (lambda: tf.train.AdadeltaOptimizer(0.5), adadelta),
    (lambda: tf.train.RMSPropOptimizer(0.5, 0.8, 0.3, 1e-3), rmsprop),
    (lambda: tf.train.RMSPropOptimizer(0.5, 0.8, 0.3, 1e-3, centered=True), centered),
    (lambda: tf.train.FtrlOptimizer(0.5, l1_regularization_strength=0.01, l2_regularization_strength=0.1), ftrl),
    (lambda: tf.train.ProximalGradientDescentOptimizer(0.5, 0.01, 0.1), proximal),
    (lambda: tf.train.ProximalAdagradOptimizer(0.5, 0.1, 0.01, 0.1), proximal_adagrad),
    (lambda: tf.train.AdagradDAOptimizer(0.5, tf.train.get_or_create_global_step(), 0.1, 0.01, 0.1), adagrad_da),
]


class Rules(unittest.TestCase):
    def check(self, resource, sparse):
        for make, rule in RULES:
            with self.subTest(rule.__name__), tf.Graph().as_default():
                w = tf.Variable(START, name="w", use_resource=resource)
                if sparse:  # row 0 twice, row 2 once; row 1 not at all
                    g = tf.IndexedSlices(tf.constant(np.stack([GRAD[0] * 0.25, GRAD[2], GRAD[0] * 0.75])),
                                         tf.constant([0, 2, 0]),
                                         tf.constant([3, 2]))
                else:
                    g = tf.constant(GRAD)
                step = make().apply_gradients([(g, w)], global_step=tf.train.get_or_create_global_step())
                with tf.Session() as sess:
                    sess.run(tf.global_variables_initializer())
                    rows = [0, 2] if sparse and rule not in (adam, nadam, adamw) else [0, 1, 2]
                    kept, want = {}, START.copy()
                    grad = GRAD * [[1], [0], [1]] if sparse else GRAD
                    for t in range(1, 4):
                        sess.run(step)
                        want[rows] = rule(want[rows], grad[rows], kept, t)
                        np.testing.assert_allclose(sess.run(w), want, rtol=2e-5, atol=1e-5)

    def test_reference_dense(self):
        self.check(False, False)

    def test_resource_dense(self):
        self.check(True, False)

    def test_reference_rows(self):
        self.check(False, True)

    def test_resource_rows(self):
        self.check(True, True)


class Names(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()

    def names(self):
        return [v.name for v in tf.global_variables()]

    def test_adam(self):
        w = tf.get_variable("w", [2], initializer=tf.zeros_initializer())
        with tf.variable_scope("s"):
            b = tf.get_variable("b", [2], initializer=tf.zeros_initializer())
        opt = tf.train.AdamOptimizer()
        train = opt.minimize(tf.reduce_sum(w * b + w))
        self.assertEqual(self.names(), ["w:0", "s/b:0", "beta1_power:0", "beta2_power:0", "w/Adam:0", "w/Adam_1:0",
                                        "s/b/Adam:0",
                                        "s/b/Adam_1:0"])
        self.assertEqual(train.name, "Adam")
        self.assertEqual(opt.get_slot_names(), ["m", "v"])
        self.assertEqual(opt.get_slot(w, "v").name, "w/Adam_1:0")
        self.assertIsNone(opt.get_slot(w, "x"))
        self.assertEqual([v.name for v in tf.trainable_variables()], ["w:0", "s/b:0"])
        self.assertEqual(tf.get_collection(tf.GraphKeys.TRAIN_OP), [train])
        self.assertEqual([v.name for v in opt.variables()], sorted(self.names()[2:]))

    def test_resources(self):
        w = tf.get_variable("w", [2], use_resource=True)
        opt = tf.train.RMSPropOptimizer(0.1, centered=True)
        opt.minimize(tf.reduce_sum(w * w))
        self.assertEqual(self.names(), ["w:0", "w/RMSProp:0", "w/RMSProp_1:0", "w/RMSProp_2:0"])
        self.assertEqual(opt.get_slot(w, "mg").name, "w/RMSProp_1:0")

    def test_partitions(self):
        w = tf.get_variable("w", [4, 2], partitioner=tf.fixed_size_partitioner(2))
        tf.train.MomentumOptimizer(0.1, 0.9).minimize(tf.reduce_sum(tf.convert_to_tensor(w)))
        self.assertEqual(self.names(), ["w/part_0:0", "w/part_1:0", "w/part_0/Momentum:0", "w/part_1/Momentum:0"])
        info = tf.global_variables()[3]._get_save_slice_info()
        self.assertEqual((info.full_name, list(info.var_offset)), ("w/Momentum", [2, 0]))

    def test_update_is_beside_the_variable(self):
        with tf.device("/job:ps/task:1"):
            w = tf.Variable([1.0])
        with tf.device("/job:worker"):
            tf.train.MomentumOptimizer(0.1, 0.9).minimize(tf.reduce_sum(w))
        op = tf.get_default_graph().get_operation_by_name("Momentum/update_Variable/ApplyMomentum")
        self.assertEqual(op.device, "/job:ps/task:1")
        self.assertEqual(tf.global_variables()[1].device, "/job:ps/task:1")


class Steps(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()

    def test_minimize_counts(self):
        w = tf.Variable(3.0)
        step = tf.train.get_or_create_global_step()
        self.assertIs(tf.train.get_global_step(), step)
        train = tf.train.GradientDescentOptimizer(tf.constant(0.1)).minimize(w * w, global_step=step)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for _ in range(3):
                sess.run(train)
            self.assertEqual(tf.train.global_step(sess, step), 3)
            self.assertAlmostEqual(float(sess.run(w)), 3 * 0.8 ** 3, places=5)

    def test_global_step_must_be_one_integer(self):
        self.assertIsNone(tf.train.get_global_step())
        tf.Variable(0.0, name="global_step")
        self.assertRaises(TypeError, tf.train.get_global_step)
        tf.reset_default_graph()
        tf.train.create_global_step()
        self.assertRaises(ValueError, tf.train.create_global_step)

    def test_named_variable_is_found(self):
        v = tf.Variable(0, name="global_step", trainable=False)
        self.assertIs(tf.train.get_global_step(), v)

    def test_clipped_gradients_and_constraint(self):
        w = tf.Variable([3.0, 4.0], constraint=lambda x: tf.maximum(x, 2.9))
        opt = tf.train.GradientDescentOptimizer(1.0)
        pairs = opt.compute_gradients(tf.reduce_sum(w * w) / 2)
        clipped, norm = tf.clip_by_global_norm([g for g, _ in pairs], 1.0)
        train = opt.apply_gradients(zip(clipped, [v for _, v in pairs]))
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            self.assertAlmostEqual(float(sess.run(norm)), 5.0, places=5)
            sess.run(train)
            np.testing.assert_allclose(sess.run(w), [2.9, 3.2], rtol=1e-6)

    def test_reads_that_wait_for_a_step_see_it(self):
        w = tf.Variable([1.0])
        train = tf.train.GradientDescentOptimizer(1.0).minimize(w * 3.0)
        with tf.control_dependencies([train]):
            after = w * 1.0
            other = tf.cond(tf.constant(True), lambda: w + 0.5, lambda: w)
        before = tf.get_default_graph().get_operations()
        with tf.control_dependencies([tf.no_op()]):  # no change of w is waited for
            w.value()
        self.assertEqual(len(tf.get_default_graph().get_operations()), len(before) + 1)
        with tf.Session() as sess:
            for f, expected in ((after, -2.0), (other, -1.5)):
                sess.run(tf.global_variables_initializer())
                self.assertEqual(sess.run(f).tolist(), [expected])

    def test_grad_loss_and_gates(self):
        for gate in (tf.train.Optimizer.GATE_NONE, tf.train.Optimizer.GATE_OP, tf.train.Optimizer.GATE_GRAPH):
            w = tf.Variable([1.0, 2.0], use_resource=True)
            opt = tf.train.GradientDescentOptimizer(1.0)
            train = opt.minimize(w * w, var_list=[w], grad_loss=tf.constant([1.0, 10.0]), gate_gradients=gate)
            with tf.Session() as sess:
                sess.run(tf.global_variables_initializer())
                sess.run(train)
                np.testing.assert_allclose(sess.run(w), [-1.0, -38.0])

    def test_errors(self):
        opt = tf.train.GradientDescentOptimizer(1.0)
        self.assertRaisesRegex(ValueError, "No variables to optimize", opt.minimize, tf.constant(1.0))
        v = tf.Variable(1.0)
        self.assertRaisesRegex(ValueError, "No gradients provided", opt.minimize, tf.constant(1.0))
        self.assertRaisesRegex(ValueError, "Invalid type", opt.minimize, tf.constant(1))
        self.assertRaisesRegex(ValueError, "gate_gradients", opt.minimize, v * v, gate_gradients=7)
        self.assertRaisesRegex(ValueError, "No variables provided", opt.apply_gradients, [])
        self.assertRaisesRegex(ValueError, "No gradients", opt.apply_gradients, [(None, v)])
        self.assertRaises(ValueError, tf.train.AdagradOptimizer, 0.1, -1.0)

    def test_own_optimizer(self):
        class Sign(tf.train.Optimizer):
            def __init__(self):
                super().__init__(False, "Sign")

            def _apply_dense(self, grad, var):
                return tf.assign_sub(var, tf.sign(grad))

            def _apply_sparse(self, grad, var):
                return tf.scatter_sub(var, grad.indices, tf.sign(grad.values))

        v, e = tf.Variable([5.0, -5.0]), tf.Variable([[1.0], [2.0]])
        train = Sign().minimize(tf.reduce_sum(v * v) + tf.reduce_sum(tf.gather(e, [1, 1])))
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            sess.run(train)
            self.assertEqual(sess.run([v, e])[0].tolist(), [4.0, -4.0])
            self.assertEqual(sess.run(e).tolist(), [[1.0], [1.0]])


class CallableLoss(unittest.TestCase):
    def test_the_function_is_called_and_its_variables_are_trained(self):
        with tf.Graph().as_default(), tf.Session() as sess:
            x, other = tf.Variable(3.0), tf.Variable(1.0)
            calls = []

            def loss():
                calls.append(1)
                return x * x

            o = tf.train.GradientDescentOptimizer(0.5)
            self.assertEqual([v for _, v in o.compute_gradients(loss)], [x])
            self.assertEqual(o.compute_gradients(loss, [x, other])[1], (None, other))
            step = o.minimize(loss)
            self.assertEqual(len(calls), 3)
            sess.run(tf.global_variables_initializer())
            sess.run(step)
            self.assertEqual(sess.run([x, other]), [0, 1])


class Contrib(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()

    def test_signs(self):
        g = np.float32([1.0, -2.0])
        for opt, factor in ((tf.contrib.opt.AddSignOptimizer(0.1), 2.0), (tf.contrib.opt.PowerSignOptimizer(0.1), math.e)):
            w = tf.Variable([1.0, 1.0])
            train = opt.apply_gradients([(tf.constant(g), w)])
            with tf.Session() as sess:
                sess.run(tf.global_variables_initializer())
                sess.run(train)
                np.testing.assert_allclose(sess.run(w), 1 - 0.1 * factor * g, rtol=1e-5)

    def test_lazy(self):
        w = tf.Variable(START)
        g = tf.IndexedSlices(tf.constant(GRAD[:1]), tf.constant([0]), tf.constant([3, 2]))
        train = tf.contrib.opt.LazyAdamOptimizer(0.5).apply_gradients([(g, w)])
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            sess.run(train)
            np.testing.assert_allclose(sess.run(w)[0], START[0] - 0.5 * np.sign(GRAD[0]), rtol=1e-4)
            np.testing.assert_allclose(sess.run(w)[1:], START[1:])

    def test_moving_average(self):
        w = tf.Variable(1.0, name="w")
        opt = tf.contrib.opt.MovingAverageOptimizer(tf.train.GradientDescentOptimizer(1.0), average_decay=0.5)
        train = opt.minimize(w * 1.0)
        saver = opt.swapping_saver()
        with tf.Session() as sess, tempfile.TemporaryDirectory() as folder:
            sess.run(tf.global_variables_initializer())
            sess.run(train)
            path = saver.save(sess, folder + "/m", write_meta_graph=False)
            self.assertEqual(tf.train.load_variable(path, "w"), 0.5)
            self.assertEqual(tf.train.load_variable(path, "w/ExponentialMovingAverage"), 0.0)

    def test_clipping(self):
        w = tf.Variable([[3.0, 4.0], [0.3, 0.4]])
        opt = tf.contrib.opt.VariableClippingOptimizer(tf.train.GradientDescentOptimizer(0.0), {w: [1]}, 1.0)
        train = opt.minimize(tf.reduce_sum(w))
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            sess.run(train)
            np.testing.assert_allclose(sess.run(w), [[0.6, 0.8], [0.3, 0.4]], rtol=1e-6)


class Rates(unittest.TestCase):
    def at(self, f, step):
        with tf.Graph().as_default(), tf.Session() as sess:
            return float(sess.run(f(tf.constant(step))))

    def check(self, f, expected):
        for step, value in expected.items():
            self.assertAlmostEqual(self.at(f, step), value, places=5, msg=str(step))

    def test_all(self):
        t = tf.train
        self.check(lambda s: t.exponential_decay(0.1, s, 10, 0.5), {0: 0.1, 5: 0.1 * 0.5 ** 0.5, 20: 0.025})
        self.check(lambda s: t.exponential_decay(0.1, s, 10, 0.5, staircase=True), {9: 0.1, 10: 0.05, 19: 0.05})
        self.check(lambda s: t.natural_exp_decay(0.1, s, 10, 0.5), {10: 0.1 * math.exp(-0.5)})
        self.check(lambda s: t.inverse_time_decay(0.1, s, 10, 0.5), {10: 0.1 / 1.5, 5: 0.1 / 1.25})
        self.check(lambda s: t.piecewise_constant(s, [3, 6], [1.0, 0.5, 0.1]), {0: 1.0, 3: 1.0, 4: 0.5, 6: 0.5, 7: 0.1})
        self.check(lambda s: t.polynomial_decay(1.0, s, 10, 0.2, 2.0), {0: 1.0, 5: 0.4, 10: 0.2, 30: 0.2})
        self.check(lambda s: t.polynomial_decay(1.0, s, 10, 0.0, cycle=True), {0: 1.0, 15: 0.25, 20: 0.0})
        self.check(lambda s: t.cosine_decay(1.0, s, 10, 0.1), {0: 1.0, 5: 0.55, 10: 0.1, 99: 0.1})
        self.check(lambda s: t.cosine_decay_restarts(1.0, s, 10), {0: 1.0, 5: 0.5, 10: 1.0, 20: 0.5})
        self.check(lambda s: t.cosine_decay_restarts(1.0, s, 10, 1.0, 0.5), {5: 0.5, 10: 0.5, 15: 0.25})
        self.check(lambda s: t.linear_cosine_decay(1.0, s, 10, beta=0.0), {0: 1.0, 5: 0.25, 10: 0.0})

    def test_step_is_asked_for(self):
        self.assertRaises(ValueError, tf.train.exponential_decay, 0.1, None, 10, 0.5)
        self.assertRaises(ValueError, tf.train.piecewise_constant, 1, [1, 2], [0.1])


if __name__ == "__main__":
    unittest.main()
