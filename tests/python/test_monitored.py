"""Monitored sessions, their hooks, the supervisor, and what makes sessions ready."""

import glob
import os
import shutil
import tempfile
import unittest

import numpy as np

import millrace as tf


class Base(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()
        self.dir = tempfile.mkdtemp(prefix="monitored")
        self.addCleanup(shutil.rmtree, self.dir)

    def events(self):
        out = []
        for path in sorted(glob.glob(os.path.join(self.dir, "*tfevents*"))):
            out += list(tf.train.summary_iterator(path))
        return out

    def model(self):
        """A training operation that adds one to the step and to a variable."""
        step = tf.train.get_or_create_global_step()
        self.v = tf.Variable(0.0, name="v")
        return tf.group(self.v.assign_add(1.0), step.assign_add(1))


class Recorder(tf.train.SessionRunHook):
    def __init__(self):
        self.calls = []

    def begin(self):
        self.calls.append("begin")

    def after_create_session(self, session, coord):
        self.calls.append("create")

    def before_run(self, run_context):
        self.calls.append("before")
        return tf.train.SessionRunArgs({"v": "v:0"})

    def after_run(self, run_context, run_values):
        self.calls.append("after")
        self.last = run_values.results["v"]

    def end(self, session):
        self.calls.append("end")


class Sessions(Base):
    def test_order_of_calls(self):
        train, hook = self.model(), Recorder()
        with tf.train.MonitoredSession(hooks=[hook]) as sess:
            self.assertTrue(tf.get_default_graph().finalized)
            self.assertFalse(sess.should_stop())
            sess.run(train)
        self.assertEqual(hook.calls, ["begin", "create", "before", "after", "end"])
        self.assertTrue(sess.should_stop())
        self.assertFalse(tf.get_default_graph().finalized)
        self.assertRaises(RuntimeError, sess.run, train)

    def test_stop_at_step(self):
        train = self.model()
        ran = 0
        with tf.train.MonitoredTrainingSession(hooks=[tf.train.StopAtStepHook(last_step=5)]) as sess:
            while not sess.should_stop():
                sess.run(train)
                ran += 1
        self.assertEqual(ran, 5)

    def test_checkpoints_and_summaries(self):
        train = self.model()
        tf.summary.scalar("value", self.v)

        def session(hooks):
            return tf.train.MonitoredTrainingSession(checkpoint_dir=self.dir, hooks=hooks, save_summaries_steps=2,
                                                     save_checkpoint_steps=3, log_step_count_steps=2)
        with session([tf.train.StopAtStepHook(num_steps=4)]) as sess:
            while not sess.should_stop():
                sess.run(train)
        self.assertEqual(tf.train.latest_checkpoint(self.dir), os.path.join(self.dir, "model.ckpt-4"))
        self.assertEqual(tf.train.load_variable(self.dir, "v"), 4.0)
        self.assertTrue(os.path.exists(os.path.join(self.dir, "graph.pbtxt")))
        with session([tf.train.StopAtStepHook(num_steps=4)]) as sess:  # goes on from there
            sess.run(train)
            self.assertEqual(sess.run(self.v), 5.0)
        tags = {v.tag for e in self.events() for v in e.summary.value}
        self.assertLessEqual({"value", "global_step/sec"}, tags)

    def test_end_of_input_is_a_good_end(self):
        x = tf.train.range_input_producer(3, num_epochs=1, shuffle=False).dequeue()
        got = []
        with tf.train.SingularMonitoredSession() as sess:
            while not sess.should_stop():
                got.append(int(sess.run(x)))
            self.assertIsNotNone(sess.raw_session())
        self.assertEqual(got, [0, 1, 2])

    def test_errors_come_out(self):
        x = tf.placeholder(tf.float32, [])
        y, hook = tf.check_numerics(x, "bad"), Recorder()
        self.model()
        with self.assertRaises(tf.errors.InvalidArgumentError):
            with tf.train.MonitoredSession(hooks=[hook]) as sess:
                sess.run(y, {x: float("nan")})
        self.assertNotIn("end", hook.calls)

    def test_recovery(self):
        train = self.model()
        lost = [tf.errors.AbortedError, tf.errors.UnavailableError]

        class Loses(tf.train.SessionRunHook):
            sessions = 0

            def after_create_session(self, session, coord):
                Loses.sessions += 1

            def before_run(self, run_context):
                if lost:
                    raise lost.pop()(None, None, "gone")

        with tf.train.MonitoredTrainingSession(checkpoint_dir=self.dir, hooks=[Loses()]) as sess:
            sess.run(train)
            self.assertFalse(sess.should_stop())
        self.assertEqual(Loses.sessions, 3)
        self.assertEqual(tf.train.load_variable(self.dir, "v"), 1.0)

    def test_no_recovery_of_singular(self):
        self.model()

        class Loses(tf.train.SessionRunHook):
            def before_run(self, run_context):
                raise tf.errors.AbortedError(None, None, "gone")

        with self.assertRaises(tf.errors.AbortedError):
            with tf.train.SingularMonitoredSession(hooks=[Loses()]) as sess:
                sess.run(self.v)

    def test_scaffold(self):
        self.model()
        seen = []
        local = tf.get_local_variable("l", initializer=3.0)
        s = tf.train.Scaffold(init_fn=lambda scaffold, sess: seen.append(scaffold), init_op=self.v.initializer,
                              ready_op=tf.report_uninitialized_variables([self.v]),
                              ready_for_local_init_op=tf.constant([], tf.string))
        with tf.train.MonitoredSession(tf.train.ChiefSessionCreator(scaffold=s)) as sess:
            self.assertEqual(sess.run(local), 3.0)
        self.assertEqual(seen, [s])
        self.assertIsInstance(s.saver, tf.train.Saver)

    def test_not_ready(self):
        self.model()
        s = tf.train.Scaffold(init_op=tf.no_op())
        self.assertRaisesRegex(RuntimeError, "not make model ready", tf.train.MonitoredSession,
                               tf.train.ChiefSessionCreator(scaffold=s))

    def test_step_fn(self):
        train, hook = self.model(), Recorder()
        with tf.train.MonitoredSession(hooks=[hook]) as sess:
            def step_fn(step_context):
                step_context.session.run(train)
                return step_context.run_with_hooks(train)
            sess.run_step_fn(step_fn)
            self.assertRaises(ValueError, sess.run_step_fn, lambda x: None)
        self.assertEqual(hook.calls.count("before"), 1)


class Hooks(Base):
    def run_with(self, hook, times=4, fetch=None):
        train = self.model()
        fetch = train if fetch is None else fetch
        with tf.train.SingularMonitoredSession(hooks=[hook]) as sess:
            for _ in range(times):
                if not sess.should_stop():
                    sess.run(fetch)
            return sess.should_stop()

    def test_logging(self):
        hook = tf.train.LoggingTensorHook({"value": "v:0"}, every_n_iter=2)
        with self.assertLogs("tensorflow", "INFO") as logs:
            self.run_with(hook)
        lines = [r.getMessage() for r in logs.records if "value" in r.getMessage()]
        self.assertEqual(len(lines), 2)
        self.assertRegex(lines[0], r"^value = [01]\.0$")
        self.assertRegex(lines[1], r"^value = [23]\.0 \([0-9.]+ sec\)$")
        self.assertRaises(ValueError, tf.train.LoggingTensorHook, ["v:0"])

    def test_logging_of_a_loss_that_is_no_number(self):
        with self.assertLogs("tensorflow", "INFO") as logs:
            self.run_with(tf.train.LoggingTensorHook({"loss": tf.constant("low")}, every_n_iter=1))
        self.assertTrue(any("loss = b'low'" in r.getMessage() for r in logs.records))

    def test_nan(self):
        loss = tf.constant(float("nan"))
        self.assertRaises(tf.train.NanLossDuringTrainingError, self.run_with, tf.train.NanTensorHook(loss))
        tf.reset_default_graph()
        loss = tf.constant(float("nan"))
        self.assertTrue(self.run_with(tf.train.NanTensorHook(loss, fail_on_nan_loss=False)))

    def test_final_and_feed(self):
        x = tf.placeholder(tf.float32, [])
        fetch = x * 2
        feed = tf.train.FeedFnHook(lambda: {x: 21.0})
        final = tf.train.FinalOpsHook({"y": fetch}, {x: 1.0})
        self.model()
        with tf.train.SingularMonitoredSession(hooks=[feed, final]) as sess:
            self.assertEqual(sess.run(fetch), 42.0)
            self.assertRaises(RuntimeError, sess.run, fetch, {x: 1.0})
        self.assertEqual(final.final_ops_values, {"y": 2.0})

    def test_listener(self):
        told = []

        class Listener(tf.train.CheckpointSaverListener):
            def before_save(self, session, step):
                told.append(("before", step))

            def after_save(self, session, step):
                told.append(("after", step))
                return step >= 2

        train = self.model()
        hook = tf.train.CheckpointSaverHook(self.dir, save_steps=2, scaffold=tf.train.Scaffold(), listeners=[Listener()])
        scaffold = hook._scaffold
        with tf.train.SingularMonitoredSession(hooks=[hook], scaffold=scaffold) as sess:
            while not sess.should_stop():
                sess.run(train)
        self.assertEqual(told, [("before", 0), ("after", 0), ("before", 2), ("after", 2)])

    def test_timer(self):
        t = tf.train.SecondOrStepTimer(every_steps=3)
        self.assertTrue(t.should_trigger_for_step(0))
        self.assertEqual(t.update_last_triggered_step(0), (None, None))
        self.assertEqual([t.should_trigger_for_step(i) for i in range(5)], [False, False, False, True, True])
        self.assertEqual(t.update_last_triggered_step(4)[1], 4)
        self.assertRaises(ValueError, tf.train.SecondOrStepTimer)

    def test_profiler(self):
        self.run_with(tf.train.ProfilerHook(save_steps=2, output_dir=self.dir))
        self.assertTrue(glob.glob(os.path.join(self.dir, "timeline-*.json")))

    def test_step_is_needed(self):
        self.assertRaises(RuntimeError, tf.train.SingularMonitoredSession, hooks=[tf.train.StopAtStepHook(last_step=1)])


class Supervisors(Base):
    def test_managed(self):
        train = self.model()
        tf.summary.scalar("value", self.v)
        sv = tf.train.Supervisor(logdir=self.dir, save_model_secs=600, global_step=tf.train.get_global_step())
        with sv.managed_session() as sess:
            for _ in range(3):
                sess.run(train)
            sv.saver.save(sess, sv.save_path, global_step=sv.global_step)
            sv.request_stop()
        self.assertTrue(sv.should_stop())
        self.assertTrue(tf.train.checkpoint_exists(os.path.join(self.dir, "model.ckpt-3")))
        self.assertEqual([e.session_log.status for e in self.events() if e.HasField("session_log")][0], tf.SessionLog.START)
        tf.reset_default_graph()
        self.model()
        sv = tf.train.Supervisor(logdir=self.dir)
        sess = sv.prepare_or_wait_for_session("", start_standard_services=False)
        self.assertEqual(sess.run(self.v), 3.0)
        sv.stop()
        sess.close()

    def test_errors_and_ends(self):
        x = tf.train.range_input_producer(2, num_epochs=1).dequeue()
        sv = tf.train.Supervisor(logdir=None)
        with sv.managed_session() as sess:
            while not sv.should_stop():
                sess.run(x)
        sv = tf.train.Supervisor(logdir=None)
        with self.assertRaises(KeyError):
            with sv.managed_session() as sess:
                raise KeyError("mine")

    def test_loop_and_own_operations(self):
        self.model()
        init = tf.global_variables_initializer()
        seen = []
        sv = tf.train.Supervisor(is_chief=True, logdir=None, init_op=init, summary_op=None, saver=None)
        self.assertIsNone(sv.summary_op)
        self.assertRaises(RuntimeError, tf.constant, 1)  # the graph is finalized
        sess = sv.prepare_or_wait_for_session("")

        def count():
            seen.append(1)
            if len(seen) == 3:
                sv.request_stop()
        sv.loop(None, count)
        sv.wait_for_stop()
        sv.stop()
        sess.close()
        self.assertEqual(len(seen), 3)

    def test_basic_train_loop(self):
        train = self.model()
        sv = tf.train.Supervisor(logdir=self.dir, save_model_secs=0)

        def step(sess, most):
            sess.run(train)
            if sess.run(self.v) >= most:
                sv.request_stop()
        tf.train.basic_train_loop(sv, step, args=(4.0,))
        self.assertTrue(sv.should_stop())


class Managers(Base):
    def test_wait_and_recover(self):
        self.model()
        ready = tf.report_uninitialized_variables()
        saver = tf.train.Saver()
        init = tf.global_variables_initializer()
        m = tf.train.SessionManager(ready_op=ready, recovery_wait_secs=0.05)
        self.assertRaises(tf.errors.DeadlineExceededError, m.wait_for_session, "", max_wait_secs=0.1)
        sess, restored = m.recover_session("", saver, self.dir)
        self.assertFalse(restored)
        sess.run(init)
        saver.save(sess, os.path.join(self.dir, "m"))
        sess.close()
        sess, restored = m.recover_session("", saver, self.dir)
        self.assertTrue(restored)
        sess.close()
        self.assertRaises(RuntimeError, m.prepare_session, "")
        with m.prepare_session("", init_op=init) as sess:
            self.assertEqual(sess.run(self.v), 0.0)


if __name__ == "__main__":
    unittest.main()
