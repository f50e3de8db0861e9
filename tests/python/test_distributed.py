"""Clusters in this process: servers, where operations are placed, training by several workers, in step and not."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
from unittest import mock

import numpy as np

import millrace as tf
from millrace.ops.ref_variable import RefVariable


def free_ports(n):
    sockets = [socket.socket() for _ in range(n)]
    try:
        for s in sockets:
            s.bind(("localhost", 0))
        return [s.getsockname()[1] for s in sockets]
    finally:
        for s in sockets:
            s.close()


class Specs(unittest.TestCase):
    def test_forms(self):
        c = tf.train.ClusterSpec({"ps": ["h0:1", "h1:1"], "worker": {0: "h2:1", 2: "h3:1"}})
        self.assertEqual(sorted(c.jobs), ["ps", "worker"])
        self.assertEqual(c.as_dict(), {"ps": ["h0:1", "h1:1"], "worker": {0: "h2:1", 2: "h3:1"}})
        self.assertEqual((c.num_tasks("worker"), c.task_indices("worker")), (2, [0, 2]))
        self.assertEqual(c.task_address("ps", 1), "h1:1")
        self.assertEqual(c.job_tasks("worker"), ["h2:1", None, "h3:1"])
        self.assertEqual(tf.train.ClusterSpec(c.as_cluster_def()), c)
        self.assertEqual(tf.train.ClusterSpec(c), c)
        self.assertNotEqual(tf.train.ClusterSpec({}), c)
        self.assertFalse(tf.train.ClusterSpec({}))
        self.assertRaises(ValueError, c.num_tasks, "x")
        self.assertRaises(ValueError, c.task_address, "ps", 7)
        self.assertRaises(TypeError, tf.train.ClusterSpec, ["a"])
        self.assertRaises(TypeError, tf.train.ClusterSpec, {"ps": "a"})

    def test_resolvers(self):
        r = tf.contrib.cluster_resolver
        simple = r.SimpleClusterResolver(tf.train.ClusterSpec({"worker": ["a:1", "b:1"]}))
        self.assertEqual(simple.master("worker", 1, "grpc"), "grpc://b:1")
        other = r.SimpleClusterResolver(tf.train.ClusterSpec({"worker": ["x:1"], "ps": ["p:1"]}))
        self.assertEqual(r.UnionClusterResolver(simple, other).cluster_spec().as_dict(),
                         {"worker": ["a:1", "b:1"], "ps": ["p:1"]})
        os.environ["TF_CONFIG"] = '{"cluster": {"ps": ["p:1"], "worker": ["w:1"]}, "task": {"type": "worker", "index": 0}}'
        try:
            found = r.TFConfigClusterResolver()
            self.assertEqual((found.task_type, found.task_id, found.master()), ("worker", 0, "grpc://w:1"))
        finally:
            del os.environ["TF_CONFIG"]

    def test_server_def(self):
        self.assertRaises(ValueError, tf.train.Server, {"a": ["x:1"], "b": ["x:2"]})
        self.assertRaises(ValueError, tf.train.Server, {"a": ["x:1", "x:2"]})
        s = tf.train.Server.create_local_server()
        self.assertEqual((s.server_def.job_name, s.server_def.task_index, s.server_def.protocol), ("local", 0, "grpc"))
        with tf.Graph().as_default(), tf.Session(s.target) as sess:
            self.assertEqual(sess.run(tf.constant(2) + 3), 5)


class Waiting(unittest.TestCase):
    def test_a_function_that_waits_leaves_a_server_to_others(self):
        done = threading.Event()
        y = tf.py_func(lambda: done.wait(30), [], tf.bool)
        z = tf.py_func(lambda a: (done.set(), a)[1], [tf.reduce_sum(tf.ones([100]))], tf.float32)
        config = tf.ConfigProto(inter_op_parallelism_threads=1, intra_op_parallelism_threads=1)
        server = tf.train.Server.create_local_server(config=config)
        with tf.Session(server.target) as s, tf.Session(server.target) as other:
            got = []
            waiting = threading.Thread(target=lambda: got.append(s.run(y)))
            waiting.start()
            self.assertEqual(other.run(z), 100)
            waiting.join()
            self.assertEqual(got, [True])


class Devices(unittest.TestCase):
    def devices(self, **kwargs):
        with tf.Graph().as_default():
            with tf.device(tf.train.replica_device_setter(**kwargs)):
                a, b, c = tf.Variable(1.0), tf.Variable(2.0), tf.get_variable("c", [], use_resource=True)
                with tf.device("/job:worker/device:GPU:1"):
                    d = a + b
                e = d * 2
            return [x.device for x in (a, b, c, d, e)]

    def test_round_robin(self):
        cluster = {"ps": ["a:1", "b:1"], "worker": ["c:1"]}
        self.assertEqual(self.devices(cluster=cluster, worker_device="/job:worker/task:3"),
                         ["/job:ps/task:0", "/job:ps/task:1", "/job:ps/task:0", "/job:worker/task:3/device:GPU:1",
                          "/job:worker/task:3"])
        self.assertEqual(self.devices(ps_tasks=1)[:2], ["/job:ps/task:0"] * 2)
        self.assertIsNone(tf.train.replica_device_setter())
        self.assertIsNone(tf.train.replica_device_setter(cluster={"worker": ["c:1"]}))
        self.assertRaises(TypeError, tf.train.replica_device_setter, ps_tasks=2, ps_strategy=1)

    def test_by_size(self):
        greedy = tf.contrib.training.GreedyLoadBalancingStrategy(2, tf.contrib.training.byte_size_load_fn)
        with tf.Graph().as_default(), tf.device(tf.train.replica_device_setter(ps_tasks=2, ps_strategy=greedy)):
            big = tf.Variable(np.zeros((100,)))
            small = [tf.Variable(np.zeros(1)) for _ in range(3)]
        self.assertEqual(big.device, "/job:ps/task:0")
        self.assertEqual([v.device for v in small], ["/job:ps/task:1"] * 3)

    def test_slots_and_saver(self):
        with tf.Graph().as_default() as g:
            with tf.device(tf.train.replica_device_setter(ps_tasks=2)):
                a, b = tf.Variable(1.0), tf.Variable(2.0)
                tf.train.AdamOptimizer().minimize(a * b)
            self.assertEqual({v.op.name: v.device for v in tf.global_variables()},
                             {"Variable": "/job:ps/task:0", "Variable_1": "/job:ps/task:1", "beta1_power": "/job:ps/task:0",
                              "beta2_power": "/job:ps/task:0", "Variable/Adam": "/job:ps/task:0",
                              "Variable/Adam_1": "/job:ps/task:0", "Variable_1/Adam": "/job:ps/task:1",
                              "Variable_1/Adam_1": "/job:ps/task:1"})
            tf.train.Saver(sharded=True)
            shards = [op.device for op in g.get_operations() if op.type == "SaveV2"]
            self.assertEqual(shards, ["/job:ps/task:0", "/job:ps/task:1"])


class Shared(unittest.TestCase):
    """What sessions on one server have in common."""

    def setUp(self):
        tf.reset_default_graph()
        self.target = tf.train.Server.create_local_server().target

    def test_an_iterator_outlives_the_session_that_made_it(self):
        d = tf.data.Dataset.range(10).map(lambda x: x * 2, num_parallel_calls=2).prefetch(1)
        it = d.make_initializable_iterator(shared_name="shared_iterator")
        n = it.get_next()
        first, second = tf.Session(self.target), tf.Session(self.target)
        first.run(it.initializer)
        self.assertEqual([first.run(n), second.run(n)], [0, 2])
        first.close()
        self.assertEqual([second.run(n) for _ in range(8)], [4, 6, 8, 10, 12, 14, 16, 18])
        self.assertRaises(tf.errors.OutOfRangeError, second.run, n)
        second.run(it.initializer)
        self.assertEqual(second.run(n), 0)
        second.close()

    def test_a_server_stops_under_iterators_of_closed_sessions(self):
        server = tf.train.Server.create_local_server()
        it = tf.data.Dataset.range(10**9).map(lambda x: x * 2, num_parallel_calls=2).prefetch(4).make_initializable_iterator()
        own = tf.data.Dataset.range(100).map(lambda x: x + 1).prefetch(2).make_one_shot_iterator().get_next()
        for _ in range(3):
            with tf.Session(server.target) as s:
                s.run(it.initializer)
                self.assertEqual(s.run([it.get_next(), own]), [0, 1])
        server._server.stop()

    def test_closing_a_session_tells_its_steps_why(self):
        marker = tf.FIFOQueue(1, tf.float32, shared_name="marker")
        with tf.control_dependencies([marker.enqueue(1.0)]):
            y = tf.FIFOQueue(1, tf.float32).dequeue()
        begun = marker.dequeue()
        s, other = tf.Session(self.target), tf.Session(self.target)
        said = []

        def wait():
            try:
                s.run(y)
            except tf.errors.CancelledError as e:
                said.append(e.message)

        t = threading.Thread(target=wait)
        t.start()
        other.run(begun)
        s.close()
        t.join()
        self.assertEqual(len(said), 1)
        self.assertIn("Step was cancelled by an explicit call to `Session::Close()`.", said[0])
        other.close()

    def test_the_configuration_of_a_server_is_that_of_its_sessions(self):
        script = ("import millrace as tf\n"
                  "server = tf.train.Server.create_local_server(config=tf.ConfigProto(log_device_placement=True))\n"
                  "with tf.Session(server.target) as s:\n"
                  "    s.run(tf.negative(1.0, name='minus'))\n")
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
        self.assertIn("minus: (Neg): /job:local/replica:0/task:0/device:CPU:0", done.stderr)

    def test_reset_has_a_deadline(self):
        config = tf.ConfigProto(operation_timeout_in_ms=300)
        self.assertRaises(tf.errors.DeadlineExceededError, tf.Session.reset, "grpc://localhost:0", config=config)


class Cluster(unittest.TestCase):
    """Two parameter servers and two workers; each worker is a thread with its own graph, as its own process would have."""

    @classmethod
    def setUpClass(cls):
        ports = free_ports(4)
        address = ["localhost:%d" % p for p in ports]
        cls.spec = tf.train.ClusterSpec({"ps": address[:2], "worker": address[2:]})
        cls.servers = {(job, i): tf.train.Server(cls.spec, job_name=job, task_index=i)
                       for job in ("ps", "worker") for i in range(2)}

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="cluster")
        self.addCleanup(shutil.rmtree, self.dir)
        tf.Session.reset(self.servers["worker", 0].target)

    def workers(self, body):
        """body(task, target) in a thread each; what one raises is raised here."""
        failed = []

        def run(task):
            try:
                with tf.Graph().as_default():
                    body(task, self.servers["worker", task].target)
            except BaseException as e:
                failed.append(e)

        threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(2)]
        for t in threads:
            t.start()
        for _ in range(600):
            for t in threads:
                t.join(0.05)
            if failed:
                raise failed[0]
            if not any(t.is_alive() for t in threads):
                return
        self.fail("a worker did not end")

    def setter(self, task):
        return tf.device(tf.train.replica_device_setter(cluster=self.spec, worker_device="/job:worker/task:%d" % task))

    def regression(self, optimizer, sparse=False):
        """y = 2 x + 1, learned."""
        step = tf.train.get_or_create_global_step()
        w = tf.get_variable("w", [1], initializer=tf.zeros_initializer())
        b = tf.get_variable("b", [], initializer=tf.zeros_initializer())
        x = tf.random_uniform([16], seed=1)
        weight = tf.gather(w, [0, 0])[0] if sparse else w[0]
        loss = tf.reduce_mean(tf.square(weight * x + b - (2 * x + 1)))
        opt = optimizer(0.3)
        return step, loss, opt, opt.minimize(loss, global_step=step), w, b

    def test_costs_of_some_runs(self):
        config = tf.ConfigProto(graph_options=tf.GraphOptions(build_cost_model=3, build_cost_model_after=2))
        with tf.Graph().as_default():
            x = tf.placeholder(tf.float32, [2], name="x")
            with tf.device("/job:ps/task:0"):
                y = tf.exp(x, name="y")
            with tf.device("/job:worker/task:1"):
                z = tf.negative(y, name="z")
            with tf.Session(self.servers["worker", 0].target, config=config) as s:
                for step in range(9):
                    metadata = tf.RunMetadata()
                    s.run(z, {x: [0, 1]}, run_metadata=metadata)
                    self.assertEqual(metadata.HasField("cost_graph"), step in (4, 7))
                    self.assertFalse(metadata.HasField("step_stats"))
                    if step == 4:
                        nodes = {n.name: n for n in metadata.cost_graph.node}
        self.assertEqual([nodes[n].device for n in "yz"],
                         ["/job:ps/replica:0/task:0/device:CPU:0", "/job:worker/replica:0/task:1/device:CPU:0"])
        self.assertEqual([(o.size, o.dtype) for o in nodes["z"].output_info], [(8, tf.float32.as_datatype_enum)])

    def test_asynchronous(self):
        done = []

        def body(task, target):
            with self.setter(task):
                step, loss, _, train, w, b = self.regression(tf.train.GradientDescentOptimizer)
            hooks = [tf.train.StopAtStepHook(last_step=300)]
            with tf.train.MonitoredTrainingSession(master=target, is_chief=task == 0, hooks=hooks,
                                                   checkpoint_dir=self.dir if task == 0 else None) as sess:
                while not sess.should_stop():
                    sess.run(train)
            done.append(task)

        self.workers(body)
        self.assertEqual(sorted(done), [0, 1])
        self.assertAlmostEqual(float(tf.train.load_variable(self.dir, "w")[0]), 2.0, delta=0.5)
        self.assertGreaterEqual(int(tf.train.load_variable(self.dir, "global_step")), 300)

    def synchronous(self, steps, sparse=False, replicas=2):
        counts = {}

        def body(task, target):
            def sync(rate):
                return tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(rate), replicas_to_aggregate=replicas,
                                                      total_num_replicas=2)
            with self.setter(task):
                step, loss, opt, train, w, b = self.regression(sync, sparse)
            hooks = [opt.make_session_run_hook(task == 0, num_tokens=0 if replicas == 2 else -1),
                     tf.train.StopAtStepHook(last_step=steps)]
            with tf.train.MonitoredTrainingSession(master=target, is_chief=task == 0, hooks=hooks, stop_grace_period_secs=0.5,
                                                   checkpoint_dir=self.dir if task == 0 else None) as sess:
                n = 0
                while not sess.should_stop():
                    sess.run(train)
                    n += 1
                    # StopAtStepHook knows the step as it was when the run began.  A worker that waited while the other took
                    # both tokens of a step would begin one run too many, and nobody would send the second gradient.
                    if not sess.should_stop():
                        sess.run(step)
                counts[task] = n

        self.workers(body)
        return counts

    def test_synchronous(self):
        counts = self.synchronous(20)
        steps = int(tf.train.load_variable(self.dir, "global_step"))
        self.assertIn(steps, (20, 21))
        # A step takes two gradients and gives two tokens, and each run sends one and takes one; a fast worker may take both.
        # The last run of each worker may be cut off.
        self.assertLessEqual(sum(counts.values()), 2 * steps)
        self.assertGreaterEqual(sum(counts.values()), 2 * 20 - 2)

    def test_synchronous_rows(self):
        self.synchronous(5, sparse=True)
        self.assertGreaterEqual(int(tf.train.load_variable(self.dir, "global_step")), 5)

    def test_backup_worker(self):
        self.synchronous(10, replicas=1)
        self.assertGreaterEqual(int(tf.train.load_variable(self.dir, "global_step")), 10)

    def test_supervisor_synchronous(self):
        """The older form: the chief's queue runner and tokens are started by hand."""
        self.supervised()

    def test_supervisor_synchronous_with_one_read_a_variable(self):
        """Graphs as TensorFlow's front end makes them: tokens are filled from the one read of the step, which comes before the
        update, and yet have the step after it."""
        def check_tokens():
            fills = [op for op in tf.get_default_graph().get_operations() if op.type == "Fill"]
            tokens = [op for op in fills if any(c.type == "AssignAdd" for c in op.inputs[0].op.control_inputs)]
            self.assertEqual([op.inputs[1].op.name for op in tokens], ["global_step/read"])

        with mock.patch.object(RefVariable, "value", lambda v: v._snapshot):
            self.supervised(check_tokens)

    def supervised(self, check=lambda: None):
        values = {}

        def body(task, target):
            is_chief = task == 0
            with self.setter(task):
                step = tf.Variable(0, name="global_step", trainable=False)
                w = tf.Variable([0.0], name="w")
                loss = tf.reduce_sum(tf.square(w - [float(task * 2)]))  # the workers pull to 0 and to 2
                opt = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.25), replicas_to_aggregate=2,
                                                     total_num_replicas=2, replica_id=task, name="sync")
                train = opt.minimize(loss, global_step=step)
                local_init = opt.chief_init_op if is_chief else opt.local_step_init_op
                runner, tokens = opt.get_chief_queue_runner(), opt.get_init_tokens_op(num_tokens=0)
                init = tf.global_variables_initializer()
            check()
            sv = tf.train.Supervisor(is_chief=is_chief, logdir=self.dir, init_op=init, local_init_op=local_init,
                                     ready_for_local_init_op=opt.ready_for_local_init_op, recovery_wait_secs=0.1,
                                     global_step=step,
                                     save_model_secs=0, summary_op=None, stop_grace_secs=0.5)
            sess = sv.prepare_or_wait_for_session(target)
            if is_chief:
                sv.start_queue_runners(sess, [runner])
                sess.run(tokens)
            for _ in range(3):
                sess.run(train)
            barrier.wait(30)
            values[task] = sess.run([w, step])
            barrier.wait(30)
            sv.request_stop()
            sv.stop(ignore_live_threads=True)
            sess.close()

        barrier = threading.Barrier(2)
        self.workers(body)
        # w = 0 at first; the mean gradient is 2 (w - 1), so w comes half way to 1 each step.
        np.testing.assert_allclose(values[0][0], [1 - 0.5 ** 3], rtol=1e-6)
        self.assertEqual([int(values[t][1]) for t in (0, 1)], [3, 3])

    def test_sharded_checkpoint(self):
        with tf.Graph().as_default():
            with self.setter(0):
                a, b = tf.Variable([1.0], name="a"), tf.Variable([2.0], name="b")
                saver = tf.train.Saver(sharded=True)
                init = tf.global_variables_initializer()
                clear = tf.group(a.assign([0.0]), b.assign([0.0]))
            with tf.Session(self.servers["worker", 0].target) as sess:
                sess.run(init)
                path = saver.save(sess, os.path.join(self.dir, "m"))
                sess.run(clear)
                saver.restore(sess, path)
                self.assertEqual([x.tolist() for x in sess.run([a, b])], [[1.0], [2.0]])
            self.assertEqual(tf.train.list_variables(path), [("a", [1]), ("b", [1])])

    def test_checks(self):
        with tf.Graph().as_default():
            v = tf.Variable(1.0)
            opt = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(1.0), replicas_to_aggregate=3,
                                                 total_num_replicas=2)
            self.assertRaises(ValueError, opt.get_chief_queue_runner)
            self.assertRaises(ValueError, opt.minimize, v * v)
            opt.minimize(v * v, global_step=tf.train.get_or_create_global_step())
            self.assertRaises(ValueError, opt.get_init_tokens_op, 0)
            self.assertRaises(ValueError, tf.train.Supervisor, is_chief=False)


if __name__ == "__main__":
    unittest.main()
