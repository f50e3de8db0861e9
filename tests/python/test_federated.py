"""tf.federated: rounds over clients of this process and of other threads, secure sums, and what is refused."""

import os
import signal
import subprocess
import sys
import threading
import unittest

import numpy as np

import millrace as tf


def line(optimizer=None, use_resource=None, beside=None):
    """A graph that learns y = 2x - 1; its session loads averaged models.  beside(): what else a training step runs."""
    with tf.Graph().as_default() as g:
        x = tf.placeholder(tf.float32, [None, 1])
        y = tf.placeholder(tf.float32, [None, 1])
        rate = tf.placeholder(tf.float32, [])
        with tf.variable_scope("line", use_resource=use_resource):
            w = tf.get_variable("w", [1, 1])
            b = tf.get_variable("b", [1], initializer=tf.zeros_initializer())
        loss = tf.reduce_mean(tf.square(tf.matmul(x, w) + b - y))
        train = (optimizer or tf.train.GradientDescentOptimizer)(rate).minimize(loss, tf.train.get_or_create_global_step())
        if beside:
            train = tf.group(train, tf.py_func(beside, [], []))
        work = tf.federated.Work([x, y], train, loss, rate)
        return g, work


def points(k):
    x = np.linspace(k / 3 - 1, k / 3, 10 + k, dtype=np.float32).reshape(-1, 1)
    return x, 2 * x - 1


CLIENTS = [points(k) for k in range(5)]


class Rounds(unittest.TestCase):
    def learn(self, work, rounds=40, rate=0.1, **options):
        with tf.federated.Averaging(work, CLIENTS, fraction=1, epochs=3, batch=4, seed=1, **options) as averaging:
            reports = [averaging.round(rate=rate) for _ in range(rounds)]
            w, b = averaging.weights()
            np.testing.assert_allclose([w[0, 0], b[0]], [2, -1], atol=0.05)
            with tf.Session(graph=work.graph) as sess:
                averaging.load(sess)
                np.testing.assert_array_equal(sess.run(work.variables[0]), w)
        return reports

    def test_learns(self):
        reports = self.learn(line()[1])
        self.assertEqual([r.round for r in reports], list(range(1, 41)))
        self.assertEqual((reports[0].updates, reports[0].examples, reports[0].there), (5, 60, 5))
        self.assertLess(reports[-1].loss, reports[0].loss / 100)

    def test_variables_of_both_kinds(self):
        for use_resource in (False, True):
            self.learn(line(use_resource=use_resource)[1])

    def test_slots_begin_anew(self):
        self.learn(line(tf.train.AdamOptimizer)[1], rate=0.05)

    def test_secure(self):
        self.learn(line()[1], secure=True)

    def test_lost_clients(self):
        self.learn(line()[1], lose=0.2, most_tries=100)

    def test_elsewhere(self):
        sent = []

        def work_as_client(k):
            sent.append(tf.federated.client(line()[1], points(k), averaging.address))

        _, work = line()
        with tf.federated.Averaging(work, address="127.0.0.1:0", wait_for=3, fraction=1, epochs=3, batch=4) as averaging:
            threads = [threading.Thread(target=work_as_client, args=(k,)) for k in (0, 2, 4)]
            for t in threads:
                t.start()
            for _ in range(20):
                averaging.round(rate=0.1)
            w, b = averaging.weights()
        for t in threads:
            t.join()
        self.assertTrue(len(sent) == 3 and min(sent) >= 19)
        np.testing.assert_allclose([w[0, 0], b[0]], [2, -1], atol=0.2)


ROUNDS, FATAL = 30, 3  # a round of the client that dies has 9 steps: 3 epochs of 12 points, 4 at a time


def be_client(k, address, secure, dies):
    """The program of a client.  One that dies does so within a training step of its third round: the server waits for it then."""
    steps = [0]

    def count():
        steps[0] += 1
        if dies and steps[0] == 9 * (FATAL - 1) + 4:
            os.kill(os.getpid(), signal.SIGKILL)

    tf.federated.client(line(beside=count)[1], points(k), address, secure=secure)


class Killed(unittest.TestCase):
    def lose(self, secure):
        """Clients are processes, one of which is killed in the middle of a round."""
        text = ("import sys; sys.path.insert(0, %r); import test_federated as t; t.be_client(int(sys.argv[1]), sys.argv[2], %r, "
                "sys.argv[1] == '2')" % (os.path.dirname(os.path.abspath(__file__)), secure))
        with tf.federated.Averaging(line()[1], address="127.0.0.1:0", wait_for=4, fraction=1, epochs=3, batch=4, secure=secure) as averaging:
            clients = [subprocess.Popen([sys.executable, "-c", text, str(k), averaging.address]) for k in range(5)]
            try:
                reports = [averaging.round(rate=0.1)]
                while clients[2].poll() is None or reports[-1].there == 5 or len(reports) < ROUNDS:  # it may come later than the others
                    reports.append(averaging.round(rate=0.1))
                w, b = averaging.weights()
                self.assertEqual(clients[2].returncode, -signal.SIGKILL)
                averaging.close()
                self.assertEqual([c.wait(60) for k, c in enumerate(clients) if k != 2], [0] * 4)
            finally:
                for c in clients:
                    c.kill()
                    c.wait()
        np.testing.assert_allclose([w[0, 0], b[0]], [2, -1], atol=0.2)
        self.assertEqual([r.round for r in reports], list(range(1, len(reports) + 1)))
        self.assertEqual(reports[-1].updates, 4)
        self.assertLess(max(r.seconds for r in reports), 120)  # nobody has waited for the deadline of a stage, which is ten minutes
        self.assertTrue(any(r.tries > 1 or r.updates < r.asked for r in reports))  # that one

    def test_the_round_is_made_without_it(self):
        self.lose(False)

    def test_the_sum_of_a_secure_round_is_found_without_it(self):
        self.lose(True)


class Wrong(unittest.TestCase):
    def test_options(self):
        _, work = line()
        for options in ({"fraction": 2}, {"epochs": -1}, {"server_momentum": 1}):
            with self.assertRaises(tf.errors.InvalidArgumentError):
                tf.federated.Averaging(work, CLIENTS, **options)
        with self.assertRaises(TypeError):
            tf.federated.Averaging(work, CLIENTS, colour=1)
        with self.assertRaises(tf.errors.InvalidArgumentError):
            tf.federated.Averaging(work)
        with self.assertRaises(ValueError):
            tf.federated.Averaging(work, [(np.zeros([3, 1], np.float32),)])
        with self.assertRaises(tf.errors.InvalidArgumentError):
            tf.federated.Averaging(work, [(np.zeros([0, 1], np.float32),) * 2])

    def test_shape_of_examples(self):
        _, work = line()
        with tf.federated.Averaging(work, [(np.zeros([4, 2], np.float32), np.zeros([4, 1], np.float32))]) as averaging:
            with self.assertRaises(tf.errors.InvalidArgumentError):
                averaging.round()

    def test_closed(self):
        averaging = tf.federated.Averaging(line()[1], CLIENTS)
        averaging.close()
        averaging.close()
        averaging.stop()
        self.assertEqual(averaging.address, "")
        self.assertRaises(RuntimeError, averaging.round)
        self.assertRaises(RuntimeError, averaging.weights)

    def test_no_server(self):
        with self.assertRaises(tf.errors.OpError):
            tf.federated.client(line()[1], points(0), "127.0.0.1:1", deadline=0.1)

    def test_hostile_tuples(self):
        import _millrace
        for wrong in (None, (), (1,) * 8):
            self.assertRaises(TypeError, _millrace.Federated, wrong, None)
            self.assertRaises(TypeError, _millrace.federated_client, wrong, (), "a:1", 1, False)


if __name__ == "__main__":
    unittest.main()
