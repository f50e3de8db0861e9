"""The parameter server from Python: tables, tasks, algebra, servers that come and go."""

import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import millrace as tf


class InProcess(unittest.TestCase):
    def setUp(self):
        self.client = tf.ps.connect()

    def tearDown(self):
        self.client.close()

    def test_a_new_table_holds_its_start(self):
        t = self.client.table("t", num_keys=10, width=3, start=0.5)
        np.testing.assert_array_equal(t.values(), np.full([10, 3], 0.5, np.float32))

    def test_pushes_are_added(self):
        t = self.client.table("t", num_keys=100, update="add")
        t.push([3, 50], [[1], [2]]).wait()
        t.push(np.array([50, 99]), np.array([4, 8])).wait()
        np.testing.assert_array_equal(t.pull([3, 4, 50, 99]).wait(), [[1], [0], [6], [8]])

    def test_a_range_needs_no_list_of_keys(self):
        t = self.client.table("t", num_keys=100, width=2)
        t.push((10, 3), np.arange(6)).wait()
        np.testing.assert_array_equal(t.pull((9, 5)).wait(), [[0, 0], [0, 1], [2, 3], [4, 5], [0, 0]])

    def test_the_server_updates_as_the_optimizer_does(self):
        t = self.client.table("t", num_keys=4, update="adagrad", rate=0.5, a=0.1)
        total, value = 0.1, 0.0
        for g in (1.0, -2.0, 0.5):
            t.push([2], [g]).wait()
            total += g * g
            value -= 0.5 * g / np.sqrt(total)
        np.testing.assert_allclose(t.pull([2]).wait(), [[value]], rtol=1e-5)

    def test_tasks_begin_after_others(self):
        t = self.client.table("t", num_keys=8)
        last = t.push([0], [1.0])
        for i in range(2, 30):
            last = t.push([0], [float(i)], after=[last])
        self.assertEqual(t.pull([0], after=[last]).wait()[0, 0], 29)

    def test_tasks_of_another_client_are_not_waited_for(self):
        t = self.client.table("t", num_keys=1)
        with tf.ps.connect() as other:
            task = other.table("t", num_keys=1).push([0], [1.0])
            with self.assertRaises(TypeError):
                t.pull([0], after=[task])
            task.wait()

    def test_a_pulled_array_outlives_its_client(self):
        with tf.ps.connect() as client:
            a = client.table("t", num_keys=5, start=2).values()
        np.testing.assert_array_equal(a, np.full([5, 1], 2))

    def test_values_are_taken_once(self):
        pull = self.client.table("t", num_keys=5).pull([1])
        pull.wait()
        self.assertTrue(pull.done())
        with self.assertRaises(RuntimeError):
            pull.wait()

    def test_algebra_happens_where_the_values_are(self):
        a = self.client.table("a", num_keys=300, width=2)
        b = self.client.table("b", num_keys=300, width=2)
        x, y = np.random.RandomState(1).randn(2, 300, 2).astype(np.float32)
        a.push((0, 300), x).wait()
        b.push((0, 300), y).wait()
        self.assertAlmostEqual(a.dot(b), float((x.astype(float) * y).sum()), places=3)
        self.assertAlmostEqual(a.norm1(), float(np.abs(x).sum()), places=2)
        a.add(b, 2.0)
        a.scale(0.5)
        np.testing.assert_allclose(a.values(), (x + 2 * y) / 2, rtol=1e-5, atol=1e-6)
        a.multiply(b)
        np.testing.assert_allclose(a.values(), (x + 2 * y) / 2 * y, rtol=1e-5, atol=1e-6)
        a.copy(b)
        np.testing.assert_array_equal(a.values(), y)
        a.fill(3)
        np.testing.assert_array_equal(a.values(), np.full([300, 2], 3))

    def test_a_graph_is_an_update_function(self):
        g = tf.Graph()
        with g.as_default():
            value = tf.placeholder(tf.float32, [None, 2], name="value")
            gradient = tf.placeholder(tf.float32, [None, 2], name="gradient")
            tf.maximum(value, gradient, name="new_value")
        t = self.client.table("t", num_keys=6, width=2, update="graph", graph=g.as_graph_def())
        t.push([1], [[3, -1]]).wait()
        t.push([1], [[2, 5]]).wait()
        np.testing.assert_array_equal(t.pull([1]).wait(), [[3, 5]])

    def test_wrong_arguments_raise(self):
        t = self.client.table("t", num_keys=10, width=2, update="add")
        for keys, values in (([1, 1, 0], np.zeros([3, 2])), ([10], [[1, 2]]), ([1], [[1, 2, 3]]), ([[1]], [[1, 2]]),
                             ((9, 2), np.zeros([2, 2])), ((0, 2 ** 63), []), ([-1], [[1, 2]]), ("x", [1, 2]), ([1], "x")):
            with self.subTest(keys=keys), self.assertRaises((ValueError, TypeError, OverflowError, tf.errors.OpError)):
                t.push(keys, values).wait()
        with self.assertRaises(ValueError):
            self.client.table("u", num_keys=10, update="nonsense")
        with self.assertRaises(tf.errors.OpError):
            self.client.table("t", num_keys=11, width=2, update="add")
        with self.assertRaises(TypeError):
            t.pull([1], after=[7])
        np.testing.assert_array_equal(t.values(), np.zeros([10, 2]))

    def test_a_closed_client_says_so(self):
        client = tf.ps.connect()
        t = client.table("t", num_keys=3)
        client.close()
        with self.assertRaises(RuntimeError):
            t.pull([1])
        client.close()

    def test_a_snapshot_comes_back(self):
        t = self.client.table("t", num_keys=50, width=2, update="momentum", rate=0.1, a=0.9)
        t.push((0, 50), np.arange(100)).wait()
        with tempfile.TemporaryDirectory() as folder:
            self.client.snapshot(folder)
            with tf.ps.connect() as other:
                other.restore(folder)
                u = other.table("t", num_keys=50, width=2, update="momentum", rate=0.1, a=0.9)
                np.testing.assert_array_equal(u.values(), t.values())
                for table in (t, u):
                    table.push((0, 50), np.ones(100)).wait()
                np.testing.assert_array_equal(u.values(), t.values())

    def test_stats_count(self):
        t = self.client.table("t", num_keys=50, update="add")
        for _ in range(5):
            t.push((0, 50), np.ones(50)).wait()
        stats = self.client.stats()
        self.assertEqual((stats["pushes"], stats["servers"]), (5, 1))


WORKER = """
import sys, millrace as tf
with tf.ps.connect(sys.argv[1], name=sys.argv[2], delay=2, compress=True) as client:
    t = client.table("sum", num_keys=40, update="add")
    for i in range(20):
        t.push((0, 40), [1.0] * 40).wait()
        client.iteration()
"""


class Processes(unittest.TestCase):
    def test_workers_add_up_while_servers_come_and_go(self):
        with tf.ps.Manager(servers=2) as manager:
            servers = [tf.ps.Server(manager.address) for _ in range(2)]
            with tf.ps.connect(manager.address, observer=True) as client:
                t = client.table("sum", num_keys=40, update="add")
                workers = [subprocess.Popen([sys.executable, "-c", WORKER, manager.address, str(i)]) for i in range(2)]
                servers.append(tf.ps.Server(manager.address))
                servers[0].leave()
                servers[0].close()
                self.assertEqual([w.wait(120) for w in workers], [0, 0])
                np.testing.assert_array_equal(t.values(), np.full([40, 1], 40))
            for s in servers[1:]:
                s.close()

    def test_what_a_lost_server_held_is_with_its_replica(self):
        with tf.ps.Manager(servers=3, replicas=2) as manager:
            servers = [tf.ps.Server(manager.address) for _ in range(3)]
            with tf.ps.connect(manager.address) as client:
                t = client.table("t", num_keys=500, update="add")
                t.push((0, 500), np.arange(500)).wait()
                servers.pop().close()
                t.push((0, 500), np.ones(500)).wait()
                np.testing.assert_array_equal(t.values()[:, 0], np.arange(500) + 1)
            for s in servers:
                s.close()


if __name__ == "__main__":
    unittest.main()
