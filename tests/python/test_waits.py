"""Nobody waits in silence: what a task waits for, and why, is on standard error every ten seconds (here: more often)."""

import os
import socket
import subprocess
import sys
import tempfile
import textwrap
import unittest

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
