"""tf.pipeline: a step is that of the whole batch, stages keep to their order, and training goes on when the task of a stage is killed."""

import functools
import os
import shutil
import tempfile
import unittest

import numpy as np

import millrace as tf
from tasks import Tasks

RANDOM = np.random.RandomState(5)
XS = RANDOM.uniform(-1, 1, [24, 6]).astype(np.float32)
YS = np.sin(2 * XS[:, :3]).astype(np.float32)
CPU = "/cpu:0"


def dense(i, x, parts, units=5):
    return tf.layers.dense(x, units, tf.nn.tanh, name="layer%d" % i, kernel_initializer=tf.glorot_uniform_initializer(seed=i))


def last(x, parts):
    return tf.reduce_mean(tf.square(dense(9, x, parts, 3) - parts[1]))


def layers(n):
    """n stages, a layer each; the last one has the loss."""
    return [functools.partial(dense, i) for i in range(n - 1)] + [last]


def whole(stages, inputs, optimizer, **unused):
    """The same training without a pipeline."""
    x = inputs[0]
    for stage in stages:
        x = stage(x, inputs)
    return optimizer.minimize(x), x


def train(make, stages, optimizer, steps=6, use_resource=False, **how):
    """(losses, variables at the end)"""
    with tf.Graph().as_default(), tf.variable_scope("net", use_resource=use_resource):
        x, y = tf.placeholder(tf.float32, [None, 6]), tf.placeholder(tf.float32, [None, 3])
        step, loss = make(stages, [x, y], optimizer(), **how)
        with tf.Session(config=tf.ConfigProto(device_count={"CPU": 4})) as sess:
            sess.run(tf.global_variables_initializer())
            losses = [sess.run([loss, step], {x: XS * (1 + i), y: YS})[0] for i in range(steps)]
            return losses, sess.run(tf.trainable_variables())


class StepTest(unittest.TestCase):
    def same(self, stages, optimizer=lambda: tf.train.GradientDescentOptimizer(0.5), use_resource=False, **how):
        """As if there were no pipeline."""
        how.setdefault("devices", ["/cpu:%d" % i for i in range(len(stages))])
        for order in tf.pipeline.ORDERS:
            a, v = train(whole, stages, optimizer, use_resource=use_resource)
            b, w = train(tf.pipeline.minimize, stages, optimizer, use_resource=use_resource, order=order, **how)
            np.testing.assert_allclose(a, b, rtol=2e-5)
            self.assertLess(a[-1], a[0])
            self.assertEqual(len(v), len(w))
            for p, q in zip(v, w):
                np.testing.assert_allclose(p, q, rtol=2e-4, atol=2e-6)

    def test_is_that_of_the_whole_batch(self):
        self.same(layers(4), micro_batches=8)
        self.same(layers(2), micro_batches=3, use_resource=True)
        self.same(layers(3), lambda: tf.train.AdamOptimizer(0.05), micro_batches=4)

    def test_one_stage_or_one_micro_batch(self):
        self.same(layers(1), micro_batches=6)
        self.same(layers(3), micro_batches=1)

    def test_rows(self):
        def rows(x, parts):
            table = tf.get_variable("table", [7, 4], initializer=tf.random_uniform_initializer(-1, 1, seed=1))
            ids = tf.cast(tf.floormod(tf.abs(parts[0][:, 0]) * 50, 7), tf.int32)
            return tf.nn.embedding_lookup(table, ids)
        self.same([rows] + layers(2), micro_batches=4)
        self.same([rows] + layers(2), lambda: tf.train.AdagradOptimizer(0.3), micro_batches=4, use_resource=True)

    def test_variable_of_two_stages(self):
        """Its gradient is that of both."""
        def shared(x, parts):
            with tf.variable_scope("shared", reuse=tf.AUTO_REUSE):
                w = tf.get_variable("w", [6, 6], initializer=tf.random_uniform_initializer(-1, 1, seed=2))
            return tf.tanh(tf.matmul(x, w))
        self.same([shared, shared, last], micro_batches=4)

    def test_results_of_several_tensors(self):
        """A connection that skips a stage travels through it; numbers without gradients do so too."""
        def first(x, parts):
            return {"h": dense(0, x, parts), "skip": x, "n": tf.shape(x)[0]}

        def second(d, parts):
            return {"h": dense(1, d["h"], parts), "skip": d["skip"], "n": d["n"]}

        def third(d, parts):
            return last(tf.concat([d["h"], d["skip"]], 1) * tf.cast(d["n"] / d["n"], tf.float32), parts)
        self.same([first, second, third], micro_batches=3)

    def test_loops_and_branches(self):
        def loop(x, parts):
            w = tf.get_variable("w", [6, 6], initializer=tf.random_uniform_initializer(-1, 1, seed=3))
            return tf.while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, tf.tanh(tf.matmul(h, w))), [0, x])[1]

        def branch(x, parts):
            v = tf.get_variable("v", [6], initializer=tf.ones_initializer())
            return tf.cond(tf.shape(x)[1] > 5, lambda: x * v, lambda: x + v)
        self.same([loop, branch, last], micro_batches=4)

    def test_var_list_and_step(self):
        def scaled(name, x, parts):
            with tf.variable_scope("scales", reuse=tf.AUTO_REUSE):
                return x * tf.get_variable(name, [], initializer=tf.ones_initializer())

        def compared(x, parts):
            return tf.reduce_mean(tf.square(x[:, :3] - parts[1]))
        with tf.Graph().as_default():
            with tf.variable_scope("scales"):
                fixed, moved = [tf.get_variable(n, [], initializer=tf.ones_initializer()) for n in ("fixed", "moved")]
            step = tf.train.get_or_create_global_step()
            stages = [functools.partial(scaled, "fixed"), functools.partial(scaled, "moved"), compared]
            train_op, _ = tf.pipeline.minimize(stages, [tf.constant(XS), tf.constant(YS)], tf.train.GradientDescentOptimizer(0.1),
                                               [CPU] * 3, 4, global_step=step, var_list=[moved])
            with tf.Session() as sess:
                sess.run(tf.global_variables_initializer())
                sess.run(train_op)
                values = sess.run([step, fixed, moved])
        self.assertEqual(values[:2], [1, 1])
        self.assertNotEqual(values[2], 1)

    def test_batch_that_cannot_be_cut(self):
        with self.assertRaises(tf.errors.InvalidArgumentError):
            train(tf.pipeline.minimize, layers(2), lambda: tf.train.GradientDescentOptimizer(0.1), devices=[CPU, CPU], micro_batches=5)


class OrderTest(unittest.TestCase):
    def test_of_the_papers(self):
        orders = {("fill-drain", 0): "F0 F1 F2 B0 B1 B2", ("fill-drain", 1): "F0 F1 F2 B0 B1 B2",
                  ("1f1b", 0): "F0 F1 B0 F2 B1 B2", ("1f1b", 1): "F0 B0 F1 B1 F2 B2"}
        for (order, stage), wanted in orders.items():
            with tf.Graph().as_default() as graph:
                tf.pipeline.minimize(layers(2), [tf.constant(XS), tf.constant(YS)], tf.train.GradientDescentOptimizer(0.1),
                                     ["/cpu:0", "/cpu:1"], 3, order=order)
                gates = [op for op in graph.get_operations() if "/gate" in op.name and "stage_%d" % stage in op.name]
                self.assertTrue(all(op.device.endswith("CPU:%d" % stage) for op in gates), [op.device for op in gates])
                tasks = [t for t in wanted.split()]
                for before, behind in zip(tasks, tasks[1:]):
                    for op in gates:
                        if self.task(op) == behind:
                            self.assertTrue(op.control_inputs)
                            self.assertEqual({self.task(c) for c in op.control_inputs}, {before}, op.name)
                self.assertFalse(any(op.control_inputs for op in gates if self.task(op) == "F0"))

    @staticmethod
    def task(op):
        """pipeline/stage_1_backward_2/... is B2."""
        words = op.name.split("/")[1].split("_")
        return words[2][0].upper() + words[3]

    def test_prediction(self):
        even = tf.pipeline.predict([1, 1, 1, 1], [1, 1, 1, 1], 8)
        self.assertAlmostEqual(even["step"], 2 * (8 + 3))
        self.assertAlmostEqual(even["alone"], 2 * 4 * 8)
        self.assertAlmostEqual(even["bubble"], 3 / 11)
        self.assertEqual(even["kept"], 4)
        self.assertEqual(tf.pipeline.predict([1, 1, 1, 1], [1, 1, 1, 1], 8, order="fill-drain")["kept"], 8)
        self.assertGreater(tf.pipeline.predict([1, 1], [1, 1], 4, transfer=0.5)["step"], tf.pipeline.predict([1, 1], [1, 1], 4)["step"])


class RefusalTest(unittest.TestCase):
    def refuse(self, text, stages=None, inputs=2, devices=(CPU, CPU), micro_batches=2, **how):
        with tf.Graph().as_default():
            given = [tf.constant(XS), tf.constant(YS)][:inputs]
            with self.assertRaisesRegex(ValueError, text):
                tf.pipeline.minimize(layers(2) if stages is None else stages, given, tf.train.GradientDescentOptimizer(0.1), devices,
                                     micro_batches, **how)

    def test_what_cannot_be(self):
        self.refuse("0 stages", stages=[])
        self.refuse("2 stages and 1 devices", devices=[CPU])
        self.refuse("micro_batches must be at least 1", micro_batches=0)
        self.refuse("order must be one of", order="by chance")
        self.refuse("returned None", stages=[lambda x, parts: None, last])
        self.refuse("a scalar", stages=layers(2)[:1] * 2)
        self.refuse("does not depend on any", stages=[lambda x, parts: x, lambda x, parts: tf.reduce_sum(x)])
        self.refuse("created new variables", stages=[lambda x, parts: x * tf.Variable(1.0), last])
        self.refuse("already exists", stages=[lambda x, parts: tf.layers.dense(x, 3)] * 2 + [last], devices=[CPU] * 3)  # without names

    def test_predictions_that_cannot_be(self):
        for bad in (lambda: tf.pipeline.predict([1, 1], [1], 2), lambda: tf.pipeline.predict([1], [1], 2, order="none")):
            with self.assertRaises(ValueError):
                bad()
        for bad in (lambda: tf.pipeline.predict([], [], 2), lambda: tf.pipeline.predict([-1], [1], 2),
                    lambda: tf.pipeline.predict([1], [1], 0), lambda: tf.pipeline.predict([1], [float("nan")], 1)):
            with self.assertRaises(tf.errors.InvalidArgumentError):
                bad()
        with self.assertRaises(TypeError):
            tf.pipeline.predict(["a"], [1], 1)


# ---- stages that are tasks ----

class FaultTest(unittest.TestCase):
    STEPS = 30

    def setUp(self):
        self.cluster = Tasks(stage=3)
        self.addCleanup(self.cluster.close)
        self.dir = tempfile.mkdtemp(prefix="pipeline")
        self.addCleanup(shutil.rmtree, self.dir)

    def train(self, deaths):
        """Trains over three tasks, of which some are killed: the steps that were made, and the variables in the last checkpoint."""
        folder = os.path.join(self.dir, str(len(deaths)))
        with tf.Graph().as_default():
            step = tf.train.get_or_create_global_step()
            x, y = tf.placeholder(tf.float32, [None, 6]), tf.placeholder(tf.float32, [None, 3])
            train_op, loss = tf.pipeline.minimize(layers(3), [x, y], tf.train.AdamOptimizer(0.05),
                                                  ["/job:stage/task:%d" % i for i in range(3)], 4, global_step=step)
            hooks = [tf.train.StopAtStepHook(last_step=self.STEPS),
                     tf.train.CheckpointSaverHook(folder, save_steps=5, saver=tf.train.Saver(sharded=False))]
            scaffold = tf.train.Scaffold(saver=tf.train.Saver(sharded=False))
            made, deaths = [], dict(deaths)
            with tf.train.MonitoredSession(tf.train.ChiefSessionCreator(scaffold, self.cluster.target, checkpoint_dir=folder),
                                           hooks) as sess:
                while not sess.should_stop():
                    made.append(sess.run([step, train_op], {x: XS, y: YS})[0])
                    if len(made) in deaths:
                        self.cluster.kill_and_restart("stage", deaths.pop(len(made)))
        return made, {n: tf.train.load_variable(folder, n) for n, _ in tf.train.list_variables(folder)}

    def test_killed_stages(self):
        """What is lost comes back from the newest checkpoint; the steps since are made again, to the same end."""
        _, undisturbed = self.train({})
        made, variables = self.train({8: 2, 17: 1})
        self.assertGreater(len(made), self.STEPS)
        self.assertEqual(variables["global_step"], self.STEPS)
        self.assertEqual(sorted(variables), sorted(undisturbed))
        for name, value in undisturbed.items():
            np.testing.assert_allclose(variables[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


if __name__ == "__main__":
    unittest.main()
