"""train_and_evaluate as tasks of a cluster, each in a process of its own."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import unittest

TASK = """
import sys
import numpy as np
import millrace as tf

x = np.random.RandomState(0).rand(64, 1).astype(np.float32)
y = 3 * x[:, 0] + 1
inputs = tf.estimator.inputs.numpy_input_fn
e = tf.estimator.LinearRegressor(
    [tf.feature_column.numeric_column("x")], model_dir=sys.argv[1], optimizer=tf.train.GradientDescentOptimizer(0.01),
    config=tf.estimator.RunConfig(save_checkpoints_steps=50, experimental_max_worker_delay_secs=0))
tf.estimator.train_and_evaluate(
    e, tf.estimator.TrainSpec(inputs({"x": x}, y, batch_size=16, num_epochs=None, shuffle=True), max_steps=200),
    tf.estimator.EvalSpec(inputs({"x": x}, y, num_epochs=1, shuffle=False), steps=None, start_delay_secs=0, throttle_secs=0))
"""


def free_address():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return "127.0.0.1:%d" % s.getsockname()[1]


class Cluster(unittest.TestCase):
    def start(self, cluster, task, folder):
        environment = dict(os.environ, TF_CONFIG=json.dumps({"cluster": cluster, "task": {"type": task, "index": 0}}))
        p = subprocess.Popen([sys.executable, "-c", TASK, folder], env=environment, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT)
        self.addCleanup(self.stop, p)
        return p

    def stop(self, p):
        p.kill()
        p.communicate()

    def test_chief_worker_ps_evaluator(self):
        import millrace as tf
        cluster = {job: [free_address()] for job in ("chief", "worker", "ps")}
        with tempfile.TemporaryDirectory() as folder:
            self.start(cluster, "ps", folder)  # serves until it is killed
            tasks = {t: self.start(cluster, t, folder) for t in ("chief", "worker", "evaluator")}
            for task, p in tasks.items():
                out = p.communicate(timeout=120)[0]
                self.assertEqual(p.returncode, 0, "%s: %s" % (task, out.decode(errors="replace")))
            self.assertGreaterEqual(tf.train.load_variable(folder, "global_step"), 200)
            self.assertAlmostEqual(float(tf.train.load_variable(folder, "linear/linear_model/x/weights")[0, 0]), 3, delta=0.3)
            self.assertTrue(os.listdir(os.path.join(folder, "eval")))


if __name__ == "__main__":
    unittest.main()
