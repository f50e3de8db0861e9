"""tf.distbelief: Downpour and Sandblaster on graphs of Python, against the optimum that least squares finds, and what is refused."""

import subprocess
import sys
import threading
import unittest

import numpy as np

import millrace as tf

RANDOM = np.random.RandomState(3)
XS = RANDOM.randn(240, 4).astype(np.float32)
YS = (XS @ [[1.0], [-2.0], [0.5], [3.0]] + 0.7 + 0.1 * RANDOM.randn(240, 1)).astype(np.float32)
DESIGN = np.hstack([XS, np.ones_like(YS)])
BEST = np.linalg.lstsq(DESIGN, YS, rcond=None)[0]
LEAST = float(np.mean((DESIGN @ BEST - YS) ** 2))


class Line:
    """A linear model in a graph of its own."""

    def __init__(self, use_resource=None):
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.x = tf.placeholder(tf.float32, [None, 4])
            self.y = tf.placeholder(tf.float32, [None, 1])
            with tf.variable_scope("line", use_resource=use_resource):
                self.w = tf.get_variable("w", [4, 1], initializer=tf.zeros_initializer())
                self.b = tf.get_variable("b", [1], initializer=tf.zeros_initializer())
            self.loss = tf.reduce_mean(tf.square(tf.matmul(self.x, self.w) + self.b - self.y))

    def session(self):
        with self.graph.as_default():
            sess = tf.Session()
            sess.run(tf.global_variables_initializer())
        return sess

    def batch(self, i, n=20):
        at = np.arange(i * n, (i + 1) * n) % len(XS)
        return {self.x: XS[at], self.y: YS[at]}

    def off(self, sess):
        """How far the session's parameters are from the optimum."""
        w, b = sess.run([self.w, self.b])
        return float(np.abs(np.vstack([w, b[None]]) - BEST).max())


def train(line, downpour, client, steps, replica=0):
    with line.session() as sess, downpour.start(sess, client):
        for i in range(steps):
            downpour.train((), line.batch(i + 5 * replica))
        downpour.finish()


class DownpourTest(unittest.TestCase):
    def learn(self, line, steps=600, **options):
        downpour = tf.distbelief.Downpour(line.loss, rate=0.3, **options)
        with tf.ps.connect() as client, line.session() as sess, downpour.start(sess, client):
            losses = [downpour.train(line.loss, line.batch(i)) for i in range(steps)]
            downpour.finish()
            downpour.fetch()
            self.assertLess(line.off(sess), 0.1)
            return losses, downpour.stats()

    def test_variables_of_both_kinds(self):
        for use_resource in (False, True):
            losses, stats = self.learn(Line(use_resource))
            self.assertGreater(losses[0], 5)
            self.assertLess(np.mean(losses[-12:]), losses[0] / 20)
            self.assertEqual((stats["steps"], stats["steps_of_all"], stats["gave_values"]), (600, 0, True))

    def test_a_rate_of_its_own(self):
        for use_resource in (False, True):
            line = Line(use_resource)
            self.learn(line, steps=900, local_rate=0.01, n_fetch=3, n_push=3)
            with line.graph.as_default():
                self.assertEqual([v.op.name for v in tf.global_variables()], ["line/w", "line/b", "global_step"])

    def test_replicas_in_threads(self):
        lines = [Line() for _ in range(3)]
        replicas = [tf.distbelief.Downpour(line.loss, replica=i, rate=0.3, name="job") for i, line in enumerate(lines)]
        with tf.ps.Manager() as manager, tf.ps.Server(manager.address), tf.ps.connect(manager.address) as client:
            threads = [threading.Thread(target=train, args=(lines[i], replicas[i], client, 300, i)) for i in range(3)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            last = tf.distbelief.Downpour(lines[0].loss, replica=9, rate=0.3, name="job")
            with lines[0].session() as sess, last.start(sess, client):
                self.assertLess(lines[0].off(sess), 0.1)
                self.assertEqual((last.stats()["steps_of_all"], last.stats()["gave_values"]), (900, False))

    def test_an_embedding_is_pushed_by_rows(self):
        for use_resource in (False, True):
            with tf.Graph().as_default():
                ids = tf.placeholder(tf.int32, [None])
                with tf.variable_scope("", use_resource=use_resource):
                    table = tf.get_variable("table", [50, 2], initializer=tf.zeros_initializer())
                loss = tf.reduce_sum(tf.square(tf.nn.embedding_lookup(table, ids) - 1.0))
                downpour = tf.distbelief.Downpour(loss, update="sgd", rate=0.02)  # far from where old gradients swing
                with tf.ps.connect() as client, tf.Session() as sess:
                    sess.run(tf.global_variables_initializer())
                    with downpour.start(sess, client):
                        for _ in range(200):
                            downpour.train(feed_dict={ids: [3, 7, 7]})
                        downpour.finish()
                        downpour.fetch()
                        value = sess.run(table)
                self.assertEqual(np.flatnonzero(value.any(1)).tolist(), [3, 7])
                np.testing.assert_allclose(value[[3, 7]], 1, atol=0.02)

    def test_gradients_by_functions_of_python(self):
        with tf.Graph().as_default():
            @tf.custom_gradient
            def same(v):
                return tf.identity(v), lambda dy: 0.5 * dy

            w = tf.get_variable("w", [], initializer=tf.ones_initializer())
            loss = tf.square(same(w))
            downpour = tf.distbelief.Downpour(loss, update="sgd", rate=0.5)
            with tf.ps.connect() as client, tf.Session() as sess:
                sess.run(tf.global_variables_initializer())
                with downpour.start(sess, client):
                    self.assertEqual(downpour.train(loss), 1)
                    downpour.finish()
                    downpour.fetch()
                    self.assertAlmostEqual(sess.run(w), 0.5)

    def test_starts_again(self):
        line = Line()
        downpour = tf.distbelief.Downpour(line.loss)
        with tf.ps.connect() as client, line.session() as sess, downpour.start(sess, client):
            self.assertRaisesRegex(RuntimeError, "already", downpour.start, sess, client)
            downpour.train((), line.batch(0))
            downpour.finish()
            self.assertRaises(tf.errors.FailedPreconditionError, downpour.train, (), line.batch(0))
            downpour.start(sess, client)
            downpour.train((), line.batch(0))
            self.assertEqual(downpour.stats()["steps"], 2)

    def test_holds_what_it_was_started_with(self):
        line = Line()
        downpour = tf.distbelief.Downpour(line.loss)
        client, sess = tf.ps.connect(), line.session()
        downpour.start(sess, client)
        self.assertRaisesRegex(RuntimeError, "in use", client.close)
        sess.close()
        self.assertRaises((RuntimeError, tf.errors.OpError), downpour.train, (), line.batch(0))
        downpour.close()
        client.close()
        self.assertRaisesRegex(RuntimeError, "closed", downpour.start, line.session(), tf.ps.connect())
        self.assertRaisesRegex(RuntimeError, "closed", downpour.stats)

    def test_names_stay_free(self):
        line = Line()
        tf.distbelief.Downpour(line.loss)
        tf.distbelief.Downpour(line.loss)
        with line.graph.as_default():
            tf.gradients(line.loss, line.w)
            with tf.name_scope("distbelief"):
                self.assertEqual(tf.constant(1, name="install").op.name.split("/")[-1], "install")
            with tf.name_scope("line/w/"):
                tf.identity(line.w, name="Read")

    def test_what_is_refused(self):
        line = Line()
        with line.graph.as_default():
            whole = tf.get_variable("n", [], tf.int32, initializer=tf.zeros_initializer(), trainable=False)
            loose = tf.Variable(tf.placeholder_with_default(tf.zeros([2]), None), validate_shape=False, trainable=False)
            for kwargs, message in ((dict(update="add"), "gradients"), (dict(update="nothing"), "one of"),
                                    (dict(replica=-1), "negative"),
                                    (dict(var_list=[]), "no variables"), (dict(var_list=[whole]), "does not depend on any"),
                                    (dict(n_push=-1), "negative")):
                with self.assertRaisesRegex(ValueError, message):
                    tf.distbelief.Downpour(line.loss, **kwargs)
            with self.assertRaisesRegex(ValueError, "must be a scalar"):
                tf.distbelief.Downpour(line.w * 2.0)
            with self.assertRaisesRegex(ValueError, "shape must be known"):
                tf.distbelief.Downpour(line.loss + tf.reduce_sum(tf.reshape(loose, [-1])), var_list=[line.w, loose])
            with self.assertRaisesRegex(TypeError, "nothing"):
                tf.distbelief.Downpour(line.loss, nothing=1)
        downpour = tf.distbelief.Downpour(line.loss)
        self.assertRaisesRegex(RuntimeError, "not been started", downpour.train)
        self.assertRaisesRegex(RuntimeError, "not been started", downpour.finish)
        with tf.ps.connect() as client, line.session() as sess:
            self.assertRaises(TypeError, downpour.start, None, client)
            self.assertRaises(TypeError, downpour.start, sess, None)
            self.assertRaisesRegex(ValueError, "have different graphs", downpour.start, Line().session(), client)
            with downpour.start(sess, client):
                self.assertRaisesRegex(ValueError, "tensors", downpour.train, line.loss.op)
                self.assertRaises(tf.errors.InvalidArgumentError, downpour.train)  # nothing is fed
                downpour.train((), line.batch(0))
        line.graph.finalize()
        self.assertRaisesRegex(RuntimeError, "finalized", tf.distbelief.Downpour, line.loss)


def portion(i, n):
    return XS[i::n], YS[i::n]


class SandblasterTest(unittest.TestCase):
    def minimize(self, lines, portion=portion, weight=None, report=None, **options):
        replicas = [tf.distbelief.SandblasterReplica(line.loss, [line.x, line.y]) for line in lines]
        sessions = [line.session() for line in lines]
        failed = []

        def work(i):
            try:
                replicas[i].work(sessions[i], client, s.address, portion, weight)
            except Exception as e:
                failed.append(e)

        with tf.ps.connect() as client:
            with tf.distbelief.Sandblaster(client, portions=8, **options) as s:
                threads = [threading.Thread(target=work, args=(i,)) for i in range(len(lines))]
                for t in threads:
                    t.start()
                try:
                    loss = s.minimize(report)
                    stats = s.stats()
                finally:
                    s.close()
                    for t in threads:
                        t.join()
            replicas[0].fetch(sessions[0], client)
        return loss, stats, sessions[0], failed

    def test_the_optimum(self):
        for use_resource in (False, True):
            line = Line(use_resource)
            loss, stats, sess, failed = self.minimize([line, Line(use_resource)])
            self.assertEqual(failed, [])
            self.assertAlmostEqual(loss, LEAST, places=5)
            self.assertLess(line.off(sess), 0.001)
            self.assertEqual(stats["joined"], 2)
            sess.close()

    def test_weights_and_report(self):
        line, seen = Line(), []

        def uneven(i, n):  # the first portion is half of the data
            half = len(XS) // 2
            return (XS[:half], YS[:half]) if i == 0 else (XS[half + i - 1::n - 1], YS[half + i - 1::n - 1])

        loss, stats, _, failed = self.minimize([line], uneven, lambda i, n: len(uneven(i, n)[0]) / len(XS),
                                               report=lambda *a: seen.append(a))
        self.assertEqual(failed, [])
        self.assertAlmostEqual(loss, LEAST, places=5)
        self.assertEqual([a[0] for a in seen][-1], stats["iterations"])
        self.assertEqual([a[1] for a in seen], sorted((a[1] for a in seen), reverse=True))

    def test_what_a_portion_raises(self):
        def broken(i, n):
            raise ZeroDivisionError("no data")

        with self.assertRaisesRegex(tf.errors.OpError, "no replica has reported"):
            self.minimize([Line()], broken, deadline_ms=1000)
        for wrong in (lambda i, n: 5, lambda i, n: [XS], lambda i, n: [XS, "y"]):
            line = Line()
            replica = tf.distbelief.SandblasterReplica(line.loss, [line.x, line.y])
            with tf.ps.connect() as client, tf.distbelief.Sandblaster(client) as s, line.session() as sess:
                thread = threading.Thread(target=lambda: self.assertRaises(tf.errors.CancelledError, s.minimize))
                thread.start()
                self.assertRaises((TypeError, ValueError), replica.work, sess, client, s.address, wrong)
                s.cancel()
                thread.join()

    def test_what_report_raises(self):
        def report(*unused):
            raise ZeroDivisionError("enough")

        with self.assertRaisesRegex(ZeroDivisionError, "enough"):
            self.minimize([Line()], report=report)

    def test_what_is_refused(self):
        line = Line()
        self.assertRaises(TypeError, tf.distbelief.Sandblaster, None)
        self.assertRaises(TypeError, tf.distbelief.SandblasterReplica, line.loss, [5])
        self.assertRaisesRegex((ValueError, tf.errors.OpError), "graph", tf.distbelief.SandblasterReplica, line.loss, [Line().x])
        replica = tf.distbelief.SandblasterReplica(line.loss, [line.x, line.y])
        with tf.ps.connect() as client, line.session() as sess:
            self.assertRaises(tf.errors.InvalidArgumentError, tf.distbelief.Sandblaster, client, history=-1)
            self.assertRaises(TypeError, replica.work, sess, client, "localhost:1", None)
            s = tf.distbelief.Sandblaster(client)
            self.assertRaises(TypeError, s.minimize, 5)
            self.assertRaisesRegex(RuntimeError, "in use", client.close)
            s.close()
            self.assertRaisesRegex(RuntimeError, "closed", s.minimize)
            self.assertEqual(s.address, "")

    def test_ctrl_c(self):
        script = ("import os, signal, threading\n"
                  "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
                  "import millrace as tf\n"
                  "with tf.ps.connect() as client, tf.distbelief.Sandblaster(client) as s:\n"
                  "    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
                  "    try:\n"
                  "        s.minimize()\n"
                  "    except KeyboardInterrupt:\n"
                  "        print('interrupted')\n"
                  "w = tf.get_variable('w', [])\n"
                  "d = tf.distbelief.Downpour(tf.square(w), replica=1, patience_ms=30000)\n"
                  "with tf.ps.connect() as client, tf.Session() as sess:\n"
                  "    sess.run(w.initializer)\n"
                  "    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
                  "    try:\n"
                  "        d.start(sess, client)\n"
                  "    except KeyboardInterrupt:\n"
                  "        print('interrupted')\n"
                  "    d.close()\n")
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr, done.stdout.split()), (0, "", ["interrupted"] * 2))


if __name__ == "__main__":
    unittest.main()
