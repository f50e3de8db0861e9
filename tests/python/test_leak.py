"""200,000 runs, failed ones among them, and graphs that come and go: memory stays where it was."""

import gc
import os
import unittest

import numpy as np

import millrace as tf


def resident_kib():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


class Memory(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()

    def assert_flat(self, work, first, then, kib):
        """After `first` rounds, `then` more may add no more than so many KiB."""
        work(first)
        gc.collect()
        before = resident_kib()
        work(then)
        gc.collect()
        self.assertLess(resident_kib() - before, kib)

    def test_200000_runs(self):
        x = tf.placeholder(tf.float32, [None, 4])
        w = tf.Variable(tf.zeros([4, 1]))
        loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - 1))
        step = w.assign_sub(0.01 * tf.gradients(loss, w)[0])
        text = tf.placeholder(tf.string)
        both = tf.identity(text)
        s = tf.Session()
        s.run(tf.global_variables_initializer())
        small, large = np.ones([2, 4], np.float32), np.ones([5000, 4], np.float32)

        def work(n):
            for i in range(n // 10):
                for _ in range(8):
                    s.run([step, {"loss": loss}], {x: small})
                s.run(both, {text: ["a", "longer than what fits into a small string"]})
                s.run(loss, {x: large if i % 10 == 0 else small})

        self.assert_flat(work, 20000, 200000, 4096)  # 21 bytes a run

    def test_runs_that_fail(self):
        x = tf.placeholder(tf.float32, [None])
        checked = tf.check_numerics(x, "bad")
        s = tf.Session()

        def work(n):
            for _ in range(n):
                with self.assertRaises(tf.errors.InvalidArgumentError):
                    s.run(checked, {x: [np.nan]})
                with self.assertRaises(ValueError):
                    s.run(checked, {x: [[1.0]]})

        self.assert_flat(work, 1000, 10000, 4096)

    def test_graphs_and_sessions_that_go(self):
        def work(n):
            for _ in range(n):
                with tf.Graph().as_default(), tf.Session() as s:
                    v = tf.Variable(tf.ones([1000]))
                    s.run(v.initializer)
                    s.run(tf.gradients(tf.reduce_sum(v * v), v))

        self.assert_flat(work, 30, 300, 12000)  # 40 KiB a graph would be all of it

    def test_python_functions(self):
        x = tf.placeholder(tf.float32, [None])
        y = tf.py_func(lambda a: a * 2, [x], tf.float32)
        s = tf.Session()
        large = np.ones(3000, np.float32)

        def work(n):
            for _ in range(n):
                s.run(y, {x: large})

        self.assert_flat(work, 1000, 10000, 4096)


if __name__ == "__main__":
    unittest.main()
