"""tf.cluster with synchrony all_reduce: workers that have all variables, of which some are killed and started again.

A worker is a process.  It says what it does in lines, and goes on until all workers are told to stop.  That they do at the same step:
the word to stop is fed like data, and its mean moves a variable, which all have alike.
"""

import collections
import hashlib
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy as np

import millrace as tf
from test_cluster import Cluster, Line, ports, together

LIMIT_S = 120  # for what takes a moment; nothing here waits for time to pass
OPTIMIZERS = {"sgd": lambda: tf.train.GradientDescentOptimizer(0.05), "momentum": lambda: tf.train.MomentumOptimizer(0.02, 0.9),
              "adam": lambda: tf.train.AdamOptimizer(0.05), "adagrad": lambda: tf.train.AdagradOptimizer(0.1)}


def digest(values):
    return hashlib.sha256(b"".join(np.ascontiguousarray(values[name]).tobytes() for name in sorted(values))).hexdigest()


def values_of(training):
    """All variables by name, slots and all."""
    with training.graph.as_default():
        variables = tf.global_variables()
    return {v.op.name: value for v, value in zip(variables, training.run([v.value() for v in variables]))}


def listen():
    """Events of the words that stdin says: stop, and then leave."""
    said = {"stop": threading.Event(), "leave": threading.Event()}

    def read():
        for text in sys.stdin:
            said[text.strip()].set()
            if text == "leave\n":
                return  # at the end nobody may be in stdin

    threading.Thread(target=read, daemon=True).start()
    return said


def work(ps_hosts, worker_hosts, index):
    """The program of a worker."""
    with tf.cluster.Task(ps_hosts or None, worker_hosts, "worker", int(index)) as task:
        line = Line(task, synchrony="all_reduce", seed=int(index))
        with line.graph.as_default(), tf.device(task.device("all_reduce")):
            stop = tf.placeholder(tf.float32, [])
            stopped = tf.get_variable("stopped", [], initializer=tf.zeros_initializer())
            over = stopped.value()
        training = tf.cluster.Training(tf.train.AdamOptimizer(0.05), line.loss + stop * stopped, task, synchrony="all_reduce", settle_ms=300)
        said = listen()
        with training.start():
            while not training.run(over):
                training.train((), {**line.batch(30 * training.step + 10 * task.worker, 10), stop: float(said["stop"].is_set())})
                print("step", training.step, training.size, flush=True)
            print("end", training.step, digest(values_of(training)), flush=True)
            training.finish()
            said["leave"].wait()  # who leads the group is still there for the others' last step


class Worker:
    """Such a process, and what it says."""

    def __init__(self, ps_hosts, worker_hosts, index):
        here = os.path.dirname(os.path.abspath(__file__))
        text = "import sys; sys.path.insert(0, %r); import test_elastic; test_elastic.work(*sys.argv[1:])" % here
        self.process = subprocess.Popen([sys.executable, "-c", text, ps_hosts, worker_hosts, str(index)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for text in self.process.stdout:
            self.lines.put(text.split())
        self.lines.put(None)

    def until(self, what):
        """Reads on until what(words) is true."""
        while True:
            words = self.lines.get(timeout=LIMIT_S)
            if words is None:
                raise AssertionError("A worker has ended: exit code %d" % self.process.wait())
            if what(words):
                return words

    def steps(self, n, size=None):
        """Waits until it has made n more steps in a group of this size."""
        seen = collections.deque(maxlen=n)
        self.until(lambda words: seen.append(words[0] == "step" and size in (None, int(words[2]))) or (len(seen) == n and all(seen)))

    def say(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.close()

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Team:
    def __init__(self, n, ps):
        hosts = ports(n + ps)
        self.hosts = ",".join(hosts[:ps]), ",".join(hosts[ps:])
        self.ps = [tf.cluster.Task(*self.hosts, "ps", i) for i in range(ps)]
        self.workers = {i: Worker(*self.hosts, i) for i in range(n)}

    def stop(self):
        """All that are left stop, at the same step: the steps and digests that they end with."""
        self.workers[max(self.workers)].say("stop")  # one of them is told, and that is enough
        ends = {i: w.until(lambda words: words[0] == "end")[1:] for i, w in self.workers.items()}
        for w in self.workers.values():
            w.say("leave")
            if w.process.wait(LIMIT_S) != 0:
                raise AssertionError("A worker has failed")
        return ends

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        for w in self.workers.values():
            w.close()
        for t in self.ps:
            t.close()


class KillTest(unittest.TestCase):
    def lose_and_find(self, ps, lost, comes_back):
        with Team(3, ps) as team:
            team.workers[lost].steps(5, size=3)
            team.workers.pop(lost).kill()
            for w in team.workers.values():
                w.steps(5, size=2)  # the rest goes on
            if comes_back:
                team.workers[lost] = Worker(*team.hosts, lost)
                for w in team.workers.values():
                    w.steps(5, size=3)
            ends = team.stop()
        self.assertEqual(set(ends), set(team.workers))
        self.assertEqual(len(set(map(tuple, ends.values()))), 1, ends)  # the same step and the same bits

    def test_the_rest_goes_on_and_ends(self):
        self.lose_and_find(0, 2, False)

    def test_a_worker_that_comes_back_is_in_again_and_has_the_same_bits(self):
        self.lose_and_find(0, 1, True)

    def test_any_worker_may_be_lost_where_a_parameter_server_knows_who_is_in(self):
        self.lose_and_find(1, 0, True)


class ReduceTest(unittest.TestCase):
    def train(self, optimizer, use_resource, steps=12, workers=2, **options):
        """What workers in one process end with, and what they have computed on the way."""
        with Cluster(workers, ps=0) as c:
            def make(task):
                line = Line(task, use_resource, "all_reduce", seed=task.worker)
                return line, tf.cluster.Training(optimizer(), line.loss, task, synchrony="all_reduce", **options)

            def work(training, line, i):
                losses = [training.train(line.loss, line.batch(10 * (workers * k + i), 10)) for k in range(steps)]
                self.assertEqual((training.step, training.size, training.generation, training.losses), (steps, workers, 1, 0))
                self.assertEqual(training.is_chief, i == 0)
                return losses, values_of(training)

            return together(c, make, work)

    def alone(self, optimizer, use_resource, steps=12, workers=2):
        line = Line(use_resource=use_resource)
        with line.graph.as_default(), tf.Session() as sess:
            tf.train.get_or_create_global_step()
            train = optimizer().minimize(line.loss, tf.train.get_global_step())
            sess.run(tf.global_variables_initializer())
            losses = [sess.run([line.loss, train], line.batch(10 * workers * k, 10 * workers))[0] for k in range(steps)]
            return losses, {v.op.name: value for v, value in zip(tf.global_variables(), sess.run(tf.global_variables()))}

    def check(self, name, use_resource, **options):
        optimizer = OPTIMIZERS[name]
        results = self.train(optimizer, use_resource, **options)
        self.assertEqual(digest(results[0][1]), digest(results[1][1]))
        losses, variables = self.alone(optimizer, use_resource)
        for k, one in enumerate(losses):
            self.assertAlmostEqual(float(one), float(results[0][0][k] + results[1][0][k]) / 2, delta=1e-4)
        self.assertEqual(set(variables), set(results[0][1]))
        for name, value in variables.items():
            np.testing.assert_allclose(results[0][1][name], value, atol=1e-4, err_msg=name)

    def test_workers_are_one_process_with_their_batches_together(self):
        for name in OPTIMIZERS:
            for use_resource in (False, True):
                with self.subTest(name, use_resource=use_resource):
                    self.check(name, use_resource)

    def test_each_gradient_by_itself_and_rows_made_dense(self):
        self.check("sgd", True, bucket_bytes=-1)
        self.check("sgd", True, sparse_as_dense=True)

    def test_checkpoints_are_gone_on_from(self):
        with tempfile.TemporaryDirectory() as folder:
            first = self.train(OPTIMIZERS["adam"], True, steps=3, checkpoints=folder)
            self.assertTrue(tf.train.latest_checkpoint(folder).endswith("-3"))
            with Cluster(1, ps=0) as c:
                line = Line(c.workers[0], True, "all_reduce")
                training = tf.cluster.Training(OPTIMIZERS["adam"](), line.loss, c.workers[0], synchrony="all_reduce", checkpoints=folder)
                with training.start():
                    self.assertEqual((training.step, training.size), (3, 1))
                    self.assertEqual(digest(values_of(training)), digest(first[0][1]))
                training.close()

    def test_the_flag_of_the_launcher_places_variables_too(self):
        os.environ["MILLRACE_SYNCHRONY"] = "all_reduce"
        try:
            with Cluster(2, ps=1) as c:
                self.assertEqual(c.workers[1].device(), "/job:worker/task:1")
                line = Line(c.workers[1])
                training = tf.cluster.Training(OPTIMIZERS["sgd"](), line.loss, c.workers[1])
                self.assertEqual((training.synchrony, training.size, training.generation), ("all_reduce", 0, 0))
                training.close()
        finally:
            del os.environ["MILLRACE_SYNCHRONY"]

    def test_what_cannot_be_is_refused(self):
        with Cluster(2, ps=1) as c:
            task, sgd = c.workers[0], OPTIMIZERS["sgd"]()
            with self.assertRaisesRegex(ValueError, "Variable 'line/w' is on /job:ps/task:0.*each worker must hold all"):
                tf.cluster.Training(sgd, Line(task).loss, task, synchrony="all_reduce")
            with self.assertRaisesRegex(ValueError, "'line/w' is on /job:worker/task:1"):
                tf.cluster.Training(sgd, Line(c.workers[1], synchrony="all_reduce").loss, task, synchrony="all_reduce")
            for options in (dict(settle_ms=-1), dict(join_ms=2 ** 62), dict(exchange_ms=2 ** 62)):
                with self.assertRaises(ValueError):
                    tf.cluster.Training(sgd, Line(task, synchrony="all_reduce").loss, task, synchrony="all_reduce", **options)
            with self.assertRaisesRegex(ValueError, "got 'sync'"):
                tf.cluster.Training(sgd, Line(task).loss, task, synchrony="sync", bucket_bytes=100)

    def test_without_devices_all_of_it_is_here(self):
        with Cluster(1, ps=0) as c:
            line = Line()
            with tf.cluster.Training(OPTIMIZERS["sgd"](), line.loss, c.workers[0], synchrony="all_reduce").start() as training:
                training.train((), line.batch(0, 10))
                self.assertEqual(training.step, 1)

    def test_cancel_ends_the_wait_for_others(self):
        with Cluster(2, ps=0) as c:  # the first worker never comes
            line = Line(c.workers[1], synchrony="all_reduce")
            training = tf.cluster.Training(OPTIMIZERS["sgd"](), line.loss, c.workers[1], synchrony="all_reduce", join_ms=600000)
            timer = threading.Timer(0.2, training.cancel)
            timer.start()
            with self.assertRaises(tf.errors.CancelledError):
                training.start()
            timer.join()
            training.close()

    def test_control_c_ends_the_wait_for_others(self):
        here = os.path.dirname(os.path.abspath(__file__))
        script = ("import os, signal, sys, threading\n"
                  "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
                  "sys.path.insert(0, %r)\n"
                  "import test_elastic\n"
                  "from test_elastic import tf, Line\n"
                  "with tf.cluster.Task(None, %r, 'worker', 1) as task:\n"  # the other, which knows who is in, is not there at all
                  "    line = Line(task, synchrony='all_reduce')\n"
                  "    training = tf.cluster.Training(test_elastic.OPTIMIZERS['sgd'](), line.loss, task, synchrony='all_reduce')\n"
                  "    try:\n"
                  "        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
                  "        training.start()\n"
                  "    except KeyboardInterrupt:\n"
                  "        print('interrupted')\n"
                  "    training.close()\n" % (here, ",".join(ports(2))))
        r = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual((r.stdout, r.returncode), ("interrupted\n", 0), r.stderr)


if __name__ == "__main__":
    unittest.main()
