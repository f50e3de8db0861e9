"""Tables that are sharded over parameter servers: training goes on when a server is killed, its rows come back from a checkpoint."""

import os
import shutil
import tempfile
import threading
import unittest

import numpy as np

import millrace as tf
from tasks import Tasks

ROWS, COLUMNS, STEPS = 60, 4, 40
TARGET = np.random.RandomState(3).uniform(-1, 1, [ROWS, COLUMNS]).astype(np.float32)


class FaultTest(unittest.TestCase):
    def setUp(self):
        self.cluster = Tasks(worker=1, ps=2)
        self.addCleanup(self.cluster.close)
        self.dir = tempfile.mkdtemp(prefix="sharded")
        self.addCleanup(shutil.rmtree, self.dir)

    def build(self):
        """A training in which each step moves some rows to where they belong: (step, train_op)"""
        with tf.device(tf.train.replica_device_setter(ps_tasks=2, worker_device="/job:worker/task:0")):
            step = tf.train.get_or_create_global_step()
            table = tf.get_variable("table", [ROWS, COLUMNS], partitioner=tf.fixed_size_partitioner(2), initializer=tf.zeros_initializer())
            ids = (3 * tf.range(20, dtype=tf.int64) + step) % ROWS  # steps that are made again do the same
            found = tf.nn.embedding_lookup(table, ids, partition_strategy="div")
            loss = tf.reduce_sum(tf.square(found - tf.gather(TARGET, ids)))
            return step, tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)

    def train(self, folder, deaths=None, chief=True, steps=STEPS, after=lambda n: None):
        """Until so many steps are made by all.  deaths: {after so many runs: the server that is killed}; after each run after(their number)
        is called.  The steps that were seen."""
        made = []
        with tf.Graph().as_default():
            step, train_op = self.build()
            with tf.train.MonitoredTrainingSession(self.cluster.target, chief, folder if chief else None, save_checkpoint_steps=5,
                                                   save_checkpoint_secs=None, save_summaries_steps=None, save_summaries_secs=None,
                                                   log_step_count_steps=None, hooks=[tf.train.StopAtStepHook(last_step=steps)]) as sess:
                while not sess.should_stop():
                    made.append(sess.run([step, train_op])[0])
                    after(len(made))
                    if len(made) in (deaths or {}):
                        self.cluster.kill_and_restart("ps", deaths[len(made)])
        return made

    def saved(self, folder):
        return {n: tf.train.load_variable(folder, n) for n, _ in tf.train.list_variables(folder)}

    def test_killed_servers(self):
        """What is lost comes back from the newest checkpoint; the steps since are made again, to the same end."""
        a, b = os.path.join(self.dir, "a"), os.path.join(self.dir, "b")
        self.train(a)
        made = self.train(b, {8: 1, 17: 0, 25: 1})
        self.assertGreater(len(made), STEPS)
        self.assertEqual(self.saved(b)["global_step"], STEPS)
        np.testing.assert_allclose(self.saved(b)["table"], self.saved(a)["table"], rtol=1e-5, atol=1e-6)
        self.assertLess(np.abs(self.saved(b)["table"] - TARGET).max(), np.abs(TARGET).max())

    def test_killed_servers_of_two_workers(self):
        """Both go on: the one that is not the chief waits until the chief has brought the rows back."""
        begun, ended = threading.Event(), threading.Event()

        def other():
            self.train(None, chief=False, steps=120, after=lambda n: begun.set())
            ended.set()

        def wait_for_other(n):
            self.assertTrue(begun.wait(100), "the other worker has made no step")

        threading.Thread(target=other, daemon=True).start()
        self.train(self.dir, {8: 1, 25: 0}, steps=120, after=wait_for_other)
        self.assertTrue(ended.wait(100), "the other worker did not end")
        self.assertGreaterEqual(self.saved(self.dir)["global_step"], 120)
        self.assertLess(np.abs(self.saved(self.dir)["table"] - TARGET).max(), 0.1)


if __name__ == "__main__":
    unittest.main()
