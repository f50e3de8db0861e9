"""tf.cluster: workers that train together by one flag, on graphs of Python with optimizers of Python."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

import numpy as np

import millrace as tf

RANDOM = np.random.RandomState(5)
XS = RANDOM.randn(240, 4).astype(np.float32)
YS = (XS @ [[1.0], [-2.0], [0.5], [3.0]] + 0.7).astype(np.float32)
WORDS = ["async", "sync", "backup", "backup:1", "bounded", "bounded:0", "bounded:2"]


def ports(n):
    """Hosts that were free just now."""
    sockets = [socket.socket() for _ in range(n)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    hosts = ["127.0.0.1:%d" % s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return hosts


class Cluster:
    """One parameter server and some workers, all in this process."""

    def __init__(self, workers, ps=1):
        hosts = ports(ps + workers)
        self.ps_hosts, self.worker_hosts = ",".join(hosts[:ps]), ",".join(hosts[ps:])
        self.ps = [self.task("ps", i) for i in range(ps)]
        self.workers = [self.task("worker", i) for i in range(workers)]

    def task(self, job, index):
        return tf.cluster.Task(self.ps_hosts, self.worker_hosts, job, index)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        for t in self.workers + self.ps:
            t.close()


class Line:
    """A linear model of a worker, and rows that the points choose."""

    def __init__(self, task=None, use_resource=None, synchrony=None, seed=0):
        self.graph = tf.Graph()
        with self.graph.as_default(), tf.device(task.device(synchrony) if task else None):
            self.x = tf.placeholder(tf.float32, [None, 4])
            self.y = tf.placeholder(tf.float32, [None, 1])
            with tf.variable_scope("line", use_resource=use_resource):
                self.w = tf.get_variable("w", [4, 1], initializer=tf.constant_initializer(seed))
                self.b = tf.get_variable("b", [1], initializer=tf.zeros_initializer())
                rows = tf.get_variable("rows", [6, 1], initializer=tf.ones_initializer())
            which = tf.cast(tf.clip_by_value(self.x[:, 0] + 3, 0, 5), tf.int32)
            self.loss = tf.reduce_mean(tf.square(tf.matmul(self.x, self.w) + self.b - self.y))
            self.loss += tf.reduce_mean(tf.square(tf.nn.embedding_lookup(rows, which)))

    def batch(self, first, n):
        at = np.arange(first, first + n) % len(XS)
        return {self.x: XS[at], self.y: YS[at]}


def together(cluster, make, work):
    """work(training, line, worker) in a thread for each worker; what they returned."""
    results, trouble = {}, []

    def run(i, line, training):
        try:
            with training.start():
                results[i] = work(training, line, i)
                training.finish()
        except Exception as e:  # told by the main thread
            trouble.append(e)

    made = []
    for i, task in enumerate(cluster.workers):  # graphs are made by one thread
        line = make(task)
        made.append((i, *line))
    threads = [threading.Thread(target=run, args=m) for m in made]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for _, _, training in made:
        training.close()
    if trouble:
        raise trouble[0]
    return results


class SynchronyTest(unittest.TestCase):
    def test_every_word_trains(self):
        for word in WORDS:
            with self.subTest(word), Cluster(2) as c:
                def make(task):
                    line = Line(task)
                    return line, tf.cluster.Training(tf.train.AdamOptimizer(0.05), line.loss, task, synchrony=word)

                def work(training, line, i):
                    losses = []
                    while training.step < 120:
                        losses.append(training.train(line.loss, line.batch(10 * len(losses) + 5 * i, 20)))
                    return losses, [training.figures(k) for k in range(2)] if training.is_chief else None

                results = together(c, make, work)
                self.assertLess(np.mean(results[0][0][-5:]), 0.5 * results[0][0][0])
                figures = [f for _, f in results.values() if f is not None]
                self.assertEqual(len(figures), 1)
                if word != "async":
                    self.assertTrue(all(f and f["iterations"] > 0 for f in figures[0]))

    def test_sync_is_one_process_with_a_larger_batch(self):
        for use_resource in (False, True):
            for optimizer in (lambda: tf.train.GradientDescentOptimizer(0.05), lambda: tf.train.AdagradOptimizer(0.1)):
                with self.subTest(use_resource=use_resource), Cluster(2, ps=2) as c:
                    def make(task):
                        line = Line(task, use_resource)
                        return line, tf.cluster.Training(optimizer(), line.loss, task, synchrony="sync")

                    def work(training, line, i):
                        return [training.train(line.loss, line.batch(20 * k + 10 * i, 10)) for k in range(20)]

                    results = together(c, make, work)
                    alone = Line(use_resource=use_resource)
                    with alone.graph.as_default(), tf.Session() as sess:
                        train = optimizer().minimize(alone.loss)
                        sess.run(tf.global_variables_initializer())
                        for k in range(20):
                            value, _ = sess.run([alone.loss, train], alone.batch(20 * k, 20))
                            self.assertAlmostEqual(float(value), float(results[0][k] + results[1][k]) / 2, delta=1e-5)

    def test_the_flag_of_the_launcher(self):
        os.environ["MILLRACE_SYNCHRONY"] = "bounded:3"
        try:
            with Cluster(1) as c:
                line = Line(c.workers[0])
                training = tf.cluster.Training(tf.train.GradientDescentOptimizer(0.1), line.loss, c.workers[0])
                self.assertEqual(training.synchrony, "bounded:3")
                training.close()
        finally:
            del os.environ["MILLRACE_SYNCHRONY"]

    def test_nobody_is_further_ahead_than_the_bound(self):
        ahead, done = [], [0, 0]
        with Cluster(2) as c:
            def make(task):
                line = Line(task)
                return line, tf.cluster.Training(tf.train.GradientDescentOptimizer(0.01), line.loss, task, synchrony="bounded:2")

            both = threading.Barrier(2)

            def work(training, line, i):
                training.step  # both are in
                both.wait()
                for k in range(15):
                    if i == 1 and k == 5:
                        time.sleep(0.5)  # whatever the other can do in this time
                        ahead.append(done[0] - done[1])
                    training.train((), line.batch(k, 10))
                    done[i] = k + 1

            together(c, make, work)
        self.assertLessEqual(ahead[0], 3)  # the third is under way: its token is behind it

    def test_what_cannot_be_is_refused(self):
        with Cluster(1) as c:
            line, task = Line(c.workers[0]), c.workers[0]
            sgd = tf.train.GradientDescentOptimizer(0.1)
            for word in ("", "syncc", "backup:1", "bounded:-1", "sync\0"):
                with self.assertRaises(ValueError):
                    tf.cluster.Training(sgd, Line(task).loss, task, synchrony=word)
            with self.assertRaises(ValueError):
                tf.cluster.Training(sgd, line.loss, task, lease_ms=2 ** 62)
            with self.assertRaises(TypeError):
                tf.cluster.Training(sgd, line.loss, None)
            with self.assertRaises(ValueError):
                c.ps[0].device()
            training = tf.cluster.Training(sgd, Line(task).loss, task)
            with self.assertRaises(tf.errors.FailedPreconditionError):
                training.train()
            with self.assertRaises(RuntimeError):
                task.close()  # it is in use
            training.close()
            with self.assertRaises(RuntimeError):
                training.start()

    def test_ctrl_c_ends_serving(self):
        """Also when it comes before anybody serves."""
        script = ("import signal\n"
                  "signal.signal(signal.SIGALRM, signal.default_int_handler)\n"
                  "import millrace as tf\n"
                  "for _ in range(20):\n"
                  "    with tf.cluster.Task('127.0.0.1:0', '127.0.0.1:0', 'ps', 0) as task:\n"
                  "        try:\n"
                  "            signal.setitimer(signal.ITIMER_REAL, 0.001)\n"
                  "            task.serve()\n"
                  "        except KeyboardInterrupt:\n"
                  "            pass\n"
                  "print('ended')\n")
        out = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, timeout=200, check=True).stdout
        self.assertEqual(out, "ended\n")

    def test_cancel_ends_a_wait(self):
        with Cluster(2) as c:  # the second worker never comes
            line = Line(c.workers[0])
            training = tf.cluster.Training(tf.train.GradientDescentOptimizer(0.1), line.loss, c.workers[0], synchrony="sync", join_ms=600000)
            with training.start():
                timer = threading.Timer(0.3, training.cancel)
                timer.start()
                with self.assertRaises(tf.errors.CancelledError):
                    training.train((), line.batch(0, 10))
                timer.join()
                with self.assertRaises(tf.errors.CancelledError):
                    training.finish()


LOSER = """
import sys, time
import millrace as tf
sys.path.insert(0, %r)
import test_cluster
task = tf.cluster.Task(%r, %r, "worker", 1)
line = test_cluster.Line(task)
training = tf.cluster.Training(tf.train.GradientDescentOptimizer(0.01), line.loss, task, synchrony=%r, lease_ms=500)
training.start()
for i in range(1000000):
    training.train((), line.batch(i, 10))
    if i == 5:
        print("works", flush=True)
"""


class FaultTest(unittest.TestCase):
    def lose(self, word):
        """A worker, in a process of its own, is killed; the other is not kept waiting by it."""
        hosts = ports(3)
        ps_hosts, worker_hosts = hosts[0], ",".join(hosts[1:])
        with tf.cluster.Task(ps_hosts, worker_hosts, "ps", 0), tf.cluster.Task(ps_hosts, worker_hosts, "worker", 0) as task:
            line = Line(task)
            text = LOSER % (os.path.dirname(os.path.abspath(__file__)), ps_hosts, worker_hosts, word)
            training = tf.cluster.Training(tf.train.GradientDescentOptimizer(0.01), line.loss, task, synchrony=word, lease_ms=500)
            other = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
            try:
                with training.start():
                    said = threading.Event()
                    threading.Thread(target=lambda: other.stdout.readline() and said.set(), daemon=True).start()
                    while not said.is_set():
                        training.train((), line.batch(training.step, 10))
                    other.send_signal(signal.SIGKILL)
                    other.wait()
                    for _ in range(30):
                        training.train((), line.batch(training.step, 10))
                    step = training.step
                    self.assertEqual(training.finish(), step)
            finally:
                other.kill()
                other.wait()
                other.stdout.close()

    def test_sync_goes_on_without_a_worker(self):
        self.lose("sync")

    def test_backup_goes_on_without_a_worker(self):
        self.lose("backup")

    def test_bounded_goes_on_without_a_worker(self):
        self.lose("bounded:1")


if __name__ == "__main__":
    unittest.main()
