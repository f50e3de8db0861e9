"""millrace.horovod with several processes, and TensorFlow's collective_ops."""

import json
import os
import socket
import subprocess
import sys
import unittest

import numpy as np

import millrace as tf


def free_address():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return "127.0.0.1:%d" % s.getsockname()[1]


HEAD = """
import json
import sys
import numpy as np
import millrace as tf
import millrace.horovod as hvd
hvd.init()
"""

COLLECTIVES = HEAD + """
r = hvd.rank()
x = tf.constant(np.arange(6, dtype=np.float32).reshape(2, 3) + 10 * r)
mean, total = hvd.allreduce(x), hvd.allreduce(x, average=False, name="total")
most = hvd.allreduce(x, op=hvd.Max)
half = hvd.allreduce(x, compression=hvd.Compression.fp16)
small = hvd.allreduce(tf.constant([r, 1], tf.uint8), average=False)
rows = hvd.allgather(tf.fill([r + 1, 2], r))
sparse = hvd.allreduce(tf.IndexedSlices(tf.fill([1, 2], 4.0 * r), [r], dense_shape=[3, 2]))
root = hvd.broadcast(x, 1)
with tf.Session() as s:
    for _ in range(3):
        got = s.run([mean, total, most, half, small, rows, sparse.values, sparse.indices, root])
print(json.dumps([r, hvd.size(), hvd.local_rank(), hvd.local_size()] + [g.tolist() for g in got]))
"""

TRAINING = HEAD + """
tf.set_random_seed(hvd.rank())
np.random.seed(hvd.rank())
x = tf.placeholder(tf.float32, [None, 3])
y = tf.placeholder(tf.float32, [None, 1])
h = tf.layers.dense(x, 4, tf.tanh)
loss = tf.reduce_mean(tf.square(tf.layers.dense(h, 1) - y))
step = tf.train.get_or_create_global_step()
opt = hvd.DistributedOptimizer(tf.train.MomentumOptimizer(0.1, 0.9))
train = opt.minimize(loss, global_step=step)
first = None
with tf.train.MonitoredTrainingSession(hooks=[hvd.BroadcastGlobalVariablesHook(0), tf.train.StopAtStepHook(last_step=30)]) as s:
    while not s.should_stop():
        a = np.random.rand(8, 3).astype(np.float32)
        l, _ = s.run([loss, train], {x: a, y: a.sum(1, keepdims=True)})
        first = l if first is None else first
        variables = s.run(tf.trainable_variables()) if not s.should_stop() else variables
print(json.dumps([float(first), float(l), [v.tolist() for v in variables]]))
"""

# Numbers of words, and targets; now and then a process has none, and in one step nobody has.
WORDS = """
import numpy as np
def batch(step, rank):
    n = 0 if step in (4, 7) else (3 * rank + step) % 4
    ids = np.arange(n, dtype=np.int32) * (step + 1) % 7
    return ids, np.full([n, 2], float(rank + step), np.float32)
"""

EMBEDDING = HEAD + WORDS + """
table = tf.get_variable("table", initializer=np.arange(16, dtype=np.float32).reshape(8, 2) / 8)
ids, want = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.float32, [None, 2])
loss = tf.reduce_sum(tf.square(tf.nn.embedding_lookup(table, ids) - want))
opt = hvd.DistributedOptimizer(tf.train.MomentumOptimizer(0.05, 0.9), sparse_as_dense=AS_DENSE)
pairs = opt.compute_gradients(loss)
train = opt.apply_gradients(pairs)
with tf.Session() as s:
    s.run(tf.global_variables_initializer())
    for step in range(8):
        i, w = batch(step, hvd.rank())
        s.run(train, {ids: i, want: w})
    print(json.dumps([isinstance(pairs[0][0], tf.IndexedSlices), s.run(table).tolist()]))
"""


def embedding_alone(n, dense):
    """What n processes of EMBEDDING should have in the end: rows that nobody uses in a step keep their momentum, unless it is dense."""
    place = {}
    exec(WORDS, place)
    table, momentum = np.arange(16, dtype=np.float64).reshape(8, 2) / 8, np.zeros([8, 2])
    for step in range(8):
        gradient, used = np.zeros([8, 2]), np.full(8, dense)
        for rank in range(n):
            for i, want in zip(*place["batch"](step, rank)):
                gradient[i] += 2 * (table[i] - want) / n
                used[i] = True
        momentum[used] = 0.9 * momentum[used] + gradient[used]
        table[used] -= 0.05 * momentum[used]
    return table


class Processes(unittest.TestCase):
    def launch(self, n, code):
        """Each process's line."""
        cluster = {"worker": [free_address() for _ in range(n)]}
        tasks = []
        for i in range(n):
            environment = dict(os.environ, TF_CONFIG=json.dumps({"cluster": cluster, "task": {"type": "worker", "index": i}}))
            p = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.addCleanup(self.stop, p)
            tasks.append(p)
        out = []
        for i, p in enumerate(tasks):
            text, err = p.communicate(timeout=100)
            self.assertEqual(p.returncode, 0, "process %d: %s" % (i, err.decode(errors="replace")[-3000:]))
            out.append(json.loads(text.decode().strip().splitlines()[-1]))
        return out

    def stop(self, p):
        p.kill()
        p.communicate()

    def test_collectives_between_two_processes(self):
        x = np.arange(6).reshape(2, 3)
        for i, got in enumerate(self.launch(2, COLLECTIVES)):
            self.assertEqual(got[:4], [i, 2, i, 2])
            np.testing.assert_allclose(got[4], x + 5)
            np.testing.assert_allclose(got[5], 2 * x + 10)
            np.testing.assert_allclose(got[6], x + 10)
            np.testing.assert_allclose(got[7], x + 5)
            self.assertEqual(got[8], [1, 2])
            self.assertEqual(got[9], [[0, 0], [1, 1], [1, 1]])
            np.testing.assert_allclose(got[10], [[0, 0], [2, 2]])
            self.assertEqual(got[11], [0, 1])
            np.testing.assert_allclose(got[12], x + 10)

    def test_training_keeps_variables_the_same(self):
        a, b = self.launch(2, TRAINING)
        self.assertEqual(a[2], b[2])
        self.assertLess(a[1], a[0])

    def test_embeddings_are_trained_by_rows(self):
        for dense in (False, True):
            tables = []
            for sparse, table in self.launch(3, EMBEDDING.replace("AS_DENSE", str(dense))):
                self.assertEqual(sparse, not dense)
                tables.append(table)
            self.assertEqual(tables, 3 * tables[:1])
            np.testing.assert_allclose(tables[0], embedding_alone(3, dense), rtol=1e-4)

    def test_gathers_among_three(self):
        for got in self.launch(3, COLLECTIVES):
            self.assertEqual(got[9], [[0, 0]] + 2 * [[1, 1]] + 3 * [[2, 2]])


class Alone(unittest.TestCase):
    def setUp(self):
        import millrace.horovod as hvd
        self.hvd = hvd
        os.environ.pop("TF_CONFIG", None)
        self.addCleanup(hvd.shutdown)

    def test_needs_init(self):
        with self.assertRaisesRegex(ValueError, "hvd.init"):
            self.hvd.size()

    def test_one_process_changes_nothing(self):
        hvd = self.hvd
        hvd.init()
        self.assertEqual((hvd.rank(), hvd.size(), hvd.local_rank()), (0, 1, 0))
        with tf.Graph().as_default(), tf.Session() as s:
            x = tf.constant([1.0, 2.0])
            self.assertEqual(s.run(hvd.allreduce(x)).tolist(), [1, 2])
            self.assertEqual(s.run(hvd.allgather(x)).tolist(), [1, 2])
            v = tf.Variable(3.0)
            opt = hvd.DistributedOptimizer(tf.train.GradientDescentOptimizer(0.5))
            train = opt.minimize(tf.square(v))
            s.run(tf.global_variables_initializer())
            s.run(hvd.broadcast_global_variables(0))
            s.run(train)
            self.assertEqual(s.run(v), 0)

    def test_wrong_uses_are_told(self):
        hvd = self.hvd
        hvd.init()
        with tf.Graph().as_default():
            with self.assertRaises(ValueError):
                hvd.allreduce(tf.constant(1.0), average=True, op=hvd.Sum)
            with self.assertRaises(ValueError):
                hvd.broadcast(tf.constant(1.0), 1)

    def test_task_serves_others_after_shutdown_and_is_there_again(self):
        hvd = self.hvd
        os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": {"3": free_address()}}, "task": {"type": "worker", "index": 3}})
        self.addCleanup(os.environ.pop, "TF_CONFIG")
        hvd.init()
        self.assertEqual((hvd.rank(), hvd.size()), (0, 1))
        target = hvd._world.server.target
        hvd.shutdown()
        with tf.Graph().as_default():
            x = tf.constant(5.0)
            with tf.Session(target) as s:
                self.assertEqual(s.run(x), 5)
            hvd.init()
            with tf.Session() as s:
                self.assertEqual(s.run(x), 5)

    def test_process_that_is_no_worker_is_told(self):
        os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": ["localhost:1"], "ps": ["localhost:2"]},
                                              "task": {"type": "ps", "index": 0}})
        self.addCleanup(os.environ.pop, "TF_CONFIG")
        with self.assertRaisesRegex(ValueError, "not a worker"):
            self.hvd.init()


class CollectiveOps(unittest.TestCase):
    def test_two_devices_of_one_process(self):
        from tensorflow.python.ops import collective_ops
        with tf.Graph().as_default():
            sums, rows = [], []
            for i in range(2):
                with tf.device("/cpu:%d" % i):
                    x = tf.constant([1.0 + i, 2.0])
                    sums.append(collective_ops.all_reduce(x, 2, 1, 1, "Add", "Div"))
                    rows.append(collective_ops.all_gather(x, 2, 1, 2))
            with tf.device("/cpu:0"):
                sent = collective_ops.broadcast_send(tf.constant([5, 6]), [2], tf.int32, 2, 1, 3)
            with tf.device("/cpu:1"):
                came = collective_ops.broadcast_recv([2], tf.int32, 2, 1, 3)
            self.assertEqual(rows[0].shape.as_list(), [4])
            self.assertEqual(came.shape.as_list(), [2])
            with tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as s:
                a, b, c = s.run([sums, rows, [sent, came]])
        for i in range(2):
            self.assertEqual(a[i].tolist(), [1.5, 2])
            self.assertEqual(b[i].tolist(), [1, 2, 2, 2])
            self.assertEqual(c[i].tolist(), [5, 6])

    def test_sizes_are_checked(self):
        from tensorflow.python.ops import collective_ops
        with tf.Graph().as_default():
            with self.assertRaisesRegex(ValueError, "at least 1"):
                collective_ops.all_reduce(tf.constant(1.0), 0, 1, 1, "Add", "Id")
            with self.assertRaisesRegex(ValueError, "at least 2"):
                collective_ops.broadcast_recv([1], tf.float32, 1, 1, 1)
            with self.assertRaisesRegex(ValueError, "Shape of broadcast_send"):
                collective_ops.broadcast_send(tf.constant([1.0]), [2], tf.float32, 2, 1, 1)


if __name__ == "__main__":
    unittest.main()
