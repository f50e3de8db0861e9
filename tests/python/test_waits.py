"""Nobody waits in silence: what a task waits for, and why, is on standard error every ten seconds (here: more often)."""

import os
import socket
import subprocess
import sys
import tempfile
import textwrap
import unittest
from types import SimpleNamespace
from unittest import mock

import millrace as tf
from millrace.contrib.learn.experiment import Experiment
from millrace.contrib.slim import learning as slim_learning
from millrace.estimator import training as estimator_training
from millrace.framework import long_wait
from millrace.train import monitored_session
from tasks import lasting_hosts


def start(program, *args, **env):
    """A Python process of its own, whose errors can be read line by line."""
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)] + list(args), stderr=subprocess.PIPE, stdout=subprocess.PIPE,
                            text=True, env=dict(os.environ, MILLRACE_WAIT_LOG_MS="200", **env))


WORKER = """
    import sys
    import millrace as tf
    spec = tf.train.ClusterSpec({"ps": [sys.argv[1]], "worker": [sys.argv[2], sys.argv[3]]})
    server = tf.train.Server(spec, "worker", int(sys.argv[4]))
    with tf.device("/job:ps/task:0"):
        v = tf.Variable(1.0)
        step = tf.train.get_or_create_global_step()
"""
PS = """
    import sys
    import millrace as tf
    tf.train.Server(tf.train.ClusterSpec({"ps": [sys.argv[1]], "worker": [sys.argv[2], sys.argv[3]]}), "ps", 0).join()
"""


class Waits(unittest.TestCase):
    def setUp(self):
        self.started, self.hosts = [], lasting_hosts(3)

    def tearDown(self):
        for p in self.started:
            p.kill()
            p.communicate()

    def start(self, program, *args, **env):
        self.started.append(start(program, *args, **env))
        return self.started[-1]

    def line(self, p, part, times=1):
        """The next so many lines with this text."""
        for line in p.stderr:
            if part in line:
                times -= 1
                if times == 0:
                    return line
        self.fail("'%s' did not come" % part)

    def test_server_says_that_it_has_started(self):
        p = self.start(PS, *self.hosts)
        self.assertRegex(self.line(p, "Started server"), r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}: I millrace: Started server with target: "
                         "grpc://" + self.hosts[0])

    def test_least_level(self):
        p = self.start("""
            import sys
            import millrace as tf
            tf.train.Server({"worker": [sys.argv[1]]}, "worker", 0)
            """, self.hosts[0], TF_CPP_MIN_LOG_LEVEL="1")
        self.assertEqual(p.communicate()[1], "")

    def test_worker_before_its_ps(self):
        p = self.start(WORKER + """
    device_filters = ["/job:ps", "/job:worker/task:0"]
    with tf.Session(server.target, config=tf.ConfigProto(device_filters=device_filters)) as session:
        session.run(v.initializer)
        print(session.run(v))
""", *self.hosts, "0")
        self.line(p, "I millrace: CreateSession still waiting for response from worker: /job:ps/replica:0/task:0 (", 2)
        self.start(PS, *self.hosts)
        out, err = p.communicate()
        self.assertEqual(out, "1.0\n", err)

    def test_session_before_its_master(self):
        p = self.start("""
            import sys
            import millrace as tf
            tf.Session("grpc://" + sys.argv[1]).run(tf.constant(1))
            """, self.hosts[0])
        self.assertIn(self.hosts[0], self.line(p, "I millrace: CreateSession still waiting for the master: ", 2))

    def test_step_of_a_master_elsewhere(self):
        """The client of another process does not see the master's log."""
        self.start("""
            import sys
            import millrace as tf
            tf.train.Server({"worker": [sys.argv[1]]}, "worker", 0).join()
            """, self.hosts[0])
        p = self.start("""
            import sys
            import millrace as tf
            tf.Session("grpc://" + sys.argv[1]).run(tf.FIFOQueue(1, tf.float32).dequeue())
            """, self.hosts[0])
        self.line(p, "I millrace: RunStep still waiting for the master at %s: it is up, and has not finished; its log says why (" %
                  self.hosts[0])

    def test_worker_before_its_chief(self):
        self.start(PS, *self.hosts)
        other = WORKER + """
    config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:" + sys.argv[4]])
    creator = tf.train.ChiefSessionCreator if sys.argv[4] == "0" else tf.train.WorkerSessionCreator
    with tf.train.MonitoredSession(creator(master=server.target, config=config)) as session:
        print(session.run(v))
"""
        p = self.start(other, *self.hosts, "1")
        line = self.line(p, "I millrace: Still waiting for the chief to initialize or restore the model: ", 2)
        self.assertIn("Variables not initialized: Variable, global_step", line)
        self.start(other, *self.hosts, "0")
        out, err = p.communicate()
        self.assertEqual(out, "1.0\n", err)

    def test_supervisor_before_its_chief(self):
        self.start(PS, *self.hosts)
        p = self.start(WORKER + """
    config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:1"])
    supervisor = tf.train.Supervisor(is_chief=False, recovery_wait_secs=30)
    supervisor.prepare_or_wait_for_session(server.target, config=config)
""", *self.hosts, "1")
        self.line(p, "I millrace: Still waiting for the chief to initialize or restore the model: ", 2)

    def test_checkpoints(self):
        p = self.start("""
            import millrace as tf
            tf.train.Server({"worker": ["localhost:0"]}, "worker", 0)
            next(tf.contrib.training.checkpoints_iterator("/nowhere"))
            """)
        self.line(p, "I millrace: Still waiting for a new checkpoint in /nowhere (", 2)

    def test_taken_port_is_one_cause_and_unknown(self):
        with socket.create_server(("localhost", int(self.hosts[0].rpartition(":")[2]))):
            p = self.start("""
                import sys
                import millrace as tf
                try:
                    tf.train.Server({"worker": [sys.argv[1]]}, "worker", 0)
                except tf.errors.UnknownError as e:
                    print(e.message)
                """, self.hosts[0])
            out, err = p.communicate()
        port = self.hosts[0].rpartition(":")[2]
        self.assertEqual(out, "Could not start gRPC server: cannot listen at %s: another process uses port %s\n" % (self.hosts[0], port), err)
        self.assertEqual(err, "")


class Enough(BaseException):
    """Ends a wait that would last for ever."""


class Clock:
    """Stands in for the module time: sleeping takes no time, and nobody sleeps for ever."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        if self.now > 100:
            raise AssertionError("a wait of 100 s was not logged")


class Log:
    """Stands in for the library's log: the second line ends the wait."""

    def __init__(self):
        self.lines = []

    def tell_waiting(self, what):
        pass

    def log_info(self, line):
        self.lines.append(line)
        if len(self.lines) == 2:
            raise Enough


class Messages(unittest.TestCase):
    """Every wait of Python says every ten seconds what it waits for."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        graph = tf.Graph().as_default()
        graph.__enter__()
        self.addCleanup(graph.__exit__, None, None, None)

        self.clock = Clock()

    def check(self, text, wait, *args, **kwargs):
        log = Log()
        with mock.patch.object(long_wait, "_core", log), mock.patch.object(long_wait, "time", self.clock):
            self.clock.now = 0.0
            self.assertRaises(Enough, wait, *args, **kwargs)
        self.assertEqual(log.lines, [text + " (10 s)", text + " (20 s)"])

    def test_hook_waits_for_the_other_workers(self):
        step = tf.train.get_or_create_global_step()
        hook = tf.train.GlobalStepWaiterHook(5)
        hook.begin()
        with tf.Session() as session:
            session.run(step.initializer)
            self.check("Still waiting for the other workers: they are at step 0, and this one begins at 5", hook.before_run,
                       SimpleNamespace(session=session))

    def test_worker_waits_for_the_chief(self):
        tf.Variable(1.0, name="v")
        manager = tf.train.SessionManager(ready_op=tf.report_uninitialized_variables(), recovery_wait_secs=30)
        self.check("Still waiting for the chief to initialize or restore the model: Waiting for model to be ready.  "
                   "Ready_for_local_init_op:  None, ready: Variables not initialized: v", manager.wait_for_session, "")

    def test_worker_waits_for_a_checkpoint(self):
        tf.Variable(1.0)
        manager, saver = tf.train.SessionManager(recovery_wait_secs=30), tf.train.Saver()
        for wait in manager.recover_session, manager.prepare_session:
            self.check("Still waiting for a checkpoint to restore: there is none in " + self.folder, wait, "", saver=saver,
                       checkpoint_dir=self.folder, wait_for_checkpoint=True)

    def test_new_checkpoint(self):
        self.check("Still waiting for a new checkpoint in " + self.folder, tf.contrib.training.wait_for_new_checkpoint, self.folder)

    def test_session_that_cannot_be_made(self):
        class Creator:
            def create_session(creator):
                self.clock.sleep(5)
                raise tf.errors.UnavailableError(None, None, "ps 0 has gone")

        with mock.patch.object(monitored_session.logging, "info"):
            self.check("Still waiting for a session: ps 0 has gone", monitored_session._RecoverableSession, Creator())

    def test_evaluator_waits_for_the_trainer(self):
        spec = tf.estimator.EvalSpec(lambda: None, start_delay_secs=0, throttle_secs=0)
        estimator = SimpleNamespace(model_dir=self.folder)
        train_spec = tf.estimator.TrainSpec(lambda: None, max_steps=1)
        self.check("Still waiting for the trainer: no new checkpoint to evaluate in %s, at most one in 0 secs" % self.folder,
                   estimator_training._run_evaluator, estimator, train_spec, spec)
        spec = tf.estimator.EvalSpec(lambda: None, start_delay_secs=100)
        self.check("Still waiting 100.000000 secs before starting eval.", estimator_training._run_evaluator, estimator, train_spec,
                   spec)

    def test_worker_of_an_estimator_waits_for_the_chief(self):
        config = SimpleNamespace(master="", task_type="worker", task_id=3, experimental_max_worker_delay_secs=None)
        self.check("Still waiting 20 secs before starting training, so that workers do not begin together",
                   estimator_training._run_training, SimpleNamespace(config=config), None, None)

    def test_worker_of_slim_waits_for_the_chief(self):
        self.check("Still waiting for the chief: it is at step 2, and this worker begins at 7", slim_learning._wait_for_step,
                   SimpleNamespace(run=lambda step: 2), None, 7)

    def test_experiment(self):
        config = SimpleNamespace(master="grpc://x:1", cluster_spec=SimpleNamespace(jobs=["worker"]), is_chief=False, task_id=6)
        e = Experiment(SimpleNamespace(model_dir=self.folder, config=config), None, None)
        with mock.patch.object(e, "_server"):
            self.check("Still waiting 30 secs before training, so that the chief begins first", e.train)
        self.check("Still waiting 120 secs before evaluating, so that the trainer has a checkpoint", e.evaluate)
        self.check("Still waiting for the trainer: no new checkpoint to evaluate in " + self.folder, e.continuous_eval, 0)


class Reports(unittest.TestCase):
    def test_hooks_tell_the_launcher_step_loss_and_end(self):
        """What `millrace launch` draws its table from."""
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.bind(folder + "/status")
            p = start("""
                import time
                import millrace as tf
                step = tf.train.get_or_create_global_step()
                loss = tf.constant(0.25)
                train = tf.assign_add(step, 1)
                hooks = [tf.train.StopAtStepHook(last_step=4), tf.train.NanTensorHook(loss)]
                with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
                    while not session.should_stop():
                        session.run(train)
                        time.sleep(0.15)
                """, MILLRACE_STATUS=folder + "/status", MILLRACE_TASK="worker/0")
            self.assertEqual(p.communicate(), ("", ""))
            s.setblocking(False)
            told = []
            try:
                while True:
                    told.append(s.recv(2048).decode())
            except BlockingIOError:
                pass
        self.assertIn("progress worker/0 0.25 4", told)
        self.assertIn("worker/0 1 1 ", told)
        self.assertEqual([t for t in told if t.startswith("worker/0 ")][-1], "worker/0 4 4 ")  # each run counts once


if __name__ == "__main__":
    unittest.main()
