"""Supervisor: a training program's session with its checkpoints, summaries and threads, as programs did it before monitored
sessions."""

import contextlib
import os
import time

from .. import logging, protos, summary
from ..framework import ops
from ..ops import control_flow, variables
from . import coordinator, saver as saver_lib, session_manager as session_manager_lib, steps

__all__ = ["Supervisor"]


def _first(key, make=None):
    """The first of a collection; else what make() gives, which is put there."""
    found = ops.get_collection(key)
    if found:
        return found[0]
    new = make() if make is not None else None
    if new is not None:
        ops.add_to_collection(key, new)
    return new


class Supervisor:
    """Prepares the session (the chief initializes or restores, the others wait), and saves now and then."""

    USE_DEFAULT = 0

    def __init__(self, graph=None, ready_op=USE_DEFAULT, ready_for_local_init_op=USE_DEFAULT, is_chief=True,
                 init_op=USE_DEFAULT,
                 init_feed_dict=None, local_init_op=USE_DEFAULT, logdir=None, summary_op=USE_DEFAULT, saver=USE_DEFAULT,
                 global_step=USE_DEFAULT, save_summaries_secs=120, save_model_secs=600, recovery_wait_secs=30,
                 stop_grace_secs=120,
                 checkpoint_basename="model.ckpt", session_manager=None, summary_writer=USE_DEFAULT, init_fn=None,
                 local_init_run_options=None):
        self._graph = graph or ops.get_default_graph()
        self._is_chief, self._init_feed_dict, self._init_fn = is_chief, init_feed_dict, init_fn
        self._recovery_wait_secs, self._stop_grace_secs = recovery_wait_secs, stop_grace_secs
        self._coord = coordinator.Coordinator()
        with self._graph.as_default():
            self._make_operations(ready_op, ready_for_local_init_op, init_op, local_init_op, saver, summary_op, global_step)
        self._logdir = self._save_path = self._summary_writer = None
        self._save_summaries_secs = self._save_model_secs = None
        if is_chief:  # the others write nothing
            self._logdir, self._save_summaries_secs, self._save_model_secs = logdir, save_summaries_secs, save_model_secs
            if logdir:
                self._save_path = os.path.join(logdir, checkpoint_basename)
            if summary_writer is not Supervisor.USE_DEFAULT:
                self._summary_writer = summary_writer
            elif logdir:
                self._summary_writer = summary.FileWriter(logdir)
        self._session_manager = session_manager or session_manager_lib.SessionManager(
            local_init_op=self._local_init_op, ready_op=self._ready_op, ready_for_local_init_op=self._ready_for_local_init_op,
            graph=self._graph, recovery_wait_secs=recovery_wait_secs, local_init_run_options=local_init_run_options)
        self._check_devices()
        self._graph.finalize()

    def _make_operations(self, ready_op, ready_for_local_init_op, init_op, local_init_op, saver, summary_op, global_step):
        keys, default = ops.GraphKeys, Supervisor.USE_DEFAULT
        chosen = lambda given, key, make=None: _first(key, make) if given is default else given
        self._ready_op = chosen(ready_op, keys.READY_OP, variables.report_uninitialized_variables)
        self._ready_for_local_init_op = chosen(ready_for_local_init_op, keys.READY_FOR_LOCAL_INIT_OP)
        self._init_op = chosen(init_op, keys.INIT_OP, variables.global_variables_initializer)
        self._local_init_op = chosen(local_init_op, keys.LOCAL_INIT_OP, self._default_local_init)
        self._saver = chosen(saver, keys.SAVERS, lambda: saver_lib.Saver() if variables.global_variables() else None)
        self._summary_op = chosen(summary_op, keys.SUMMARY_OP, summary.merge_all)
        self._global_step = self._default_global_step() if global_step is default else global_step

    @staticmethod
    def _default_local_init():
        each = []
        if variables.local_variables():
            each.append(variables.local_variables_initializer())
        tables = ops.get_collection(ops.GraphKeys.TABLE_INITIALIZERS)
        if tables:
            each.append(control_flow.group(*tables, name="init_all_tables"))
        return control_flow.group(*each) if each else None

    @staticmethod
    def _default_global_step():
        try:
            return steps.get_global_step()
        except TypeError as e:
            logging.warning("%s", e)
            return None

    def _check_devices(self):
        if self._is_chief:
            return
        for op in self._graph.get_operations():
            if op.type in ("Variable", "VariableV2") and not op.device:
                raise ValueError("When using replicas, all Variables must have their device set: %s" % op.name)

    is_chief = property(lambda self: self._is_chief, doc="Whether this task is the chief.")
    session_manager = property(lambda self: self._session_manager, doc="The SessionManager.")
    coord = property(lambda self: self._coord, doc="The Coordinator.")
    init_op = property(lambda self: self._init_op, doc="The operation that initializes variables.")
    init_feed_dict = property(lambda self: self._init_feed_dict, doc="What is fed when init_op runs.")
    ready_op = property(lambda self: self._ready_op,
                        doc="The tensor with the names of variables that are not initialized.")
    ready_for_local_init_op = property(lambda self: self._ready_for_local_init_op,
                                       doc="The tensor with what is missing before local_init_op can run.")
    local_init_op = property(lambda self: self._local_init_op,
                             doc="The operation that initializes local variables and tables.")
    summary_writer = property(lambda self: self._summary_writer, doc="The FileWriter, or None.")
    summary_op = property(lambda self: self._summary_op, doc="The operation that gives all summaries.")
    save_summaries_secs = property(lambda self: self._save_summaries_secs, doc="The seconds between summaries.")
    save_model_secs = property(lambda self: self._save_model_secs, doc="The seconds between checkpoints.")
    global_step = property(lambda self: self._global_step, doc="The global step.")
    saver = property(lambda self: self._saver, doc="The Saver.")
    save_path = property(lambda self: self._save_path, doc="The prefix of checkpoints.")

    # ---- sessions ----

    def prepare_or_wait_for_session(self, master="", config=None, wait_for_checkpoint=False, max_wait_secs=7200,
                                    start_standard_services=True):
        """A session whose model is ready, with threads that save and fill queues."""
        self._coord.clear_stop()
        if self._summary_writer:
            self._summary_writer.reopen()
        if self._is_chief:
            sess = self._session_manager.prepare_session(
                master, init_op=self._init_op, saver=self._saver, checkpoint_dir=self._logdir,
                wait_for_checkpoint=wait_for_checkpoint, max_wait_secs=max_wait_secs, config=config,
                init_feed_dict=self._init_feed_dict, init_fn=self._init_fn)
            self._write_graph()
            if start_standard_services:
                logging.info("Starting standard services.")
                self.start_standard_services(sess)
        else:
            sess = self._session_manager.wait_for_session(master, config=config, max_wait_secs=max_wait_secs)
        if start_standard_services:
            logging.info("Starting queue runners.")
            self.start_queue_runners(sess)
        return sess

    @contextlib.contextmanager
    def managed_session(self, master="", config=None, start_standard_services=True, close_summary_writer=True):
        """A session for a with-block, at whose end everything is stopped; the end of input is a good end."""
        sess = None
        try:
            sess = self.prepare_or_wait_for_session(master=master, config=config,
                                                    start_standard_services=start_standard_services)
            yield sess
        except Exception as e:
            self.request_stop(e)
        finally:
            try:
                self.stop(close_summary_writer=close_summary_writer)  # raises what the reason was
            finally:
                try:
                    if sess is not None:
                        sess.close()
                except Exception as e:  # it may be closed, or its cluster gone
                    logging.vlog(1, "Ignored exception: %s", e)

    def _write_graph(self):
        if self._logdir:
            steps.write_graph(self._graph.as_graph_def(add_shapes=True), self._logdir, "graph.pbtxt")
        if self._summary_writer:
            self._summary_writer.add_graph(self._graph)

    def start_standard_services(self, sess):
        """The chief's threads: summaries, steps a second, checkpoints."""
        if not self._is_chief:
            raise RuntimeError("Only chief supervisor can start standard services. Because only chief supervisors can write "
                               "events.")
        if not self._logdir:
            logging.warning("Standard services need a 'logdir' passed to the SessionManager")
            return None
        if self._global_step is not None and self._summary_writer:
            step = steps.global_step(sess, self._global_step)
            self._summary_writer.add_session_log(protos.SessionLog(status=protos.SessionLog.START), step)
        threads = []
        if self._save_summaries_secs and self._summary_writer:
            if self._summary_op is not None:
                threads.append(_SummaryThread(self, sess))
            if self._global_step is not None:
                threads.append(_StepCounterThread(self, sess))
        if self._saver and self._save_model_secs:
            threads.append(_CheckpointThread(self, sess))
        for t in threads:
            t.start()
        return threads

    def start_queue_runners(self, sess, queue_runners=None):
        """Starts the threads of queue runners, by default all of the graph, and returns the threads."""
        if queue_runners is None:
            queue_runners = self._graph.get_collection(ops.GraphKeys.QUEUE_RUNNERS)
        return [t for qr in queue_runners for t in qr.create_threads(sess, coord=self._coord, daemon=True, start=True)]

    def loop(self, timer_interval_secs, target, args=None, kwargs=None):
        """Starts a thread that calls target each so many seconds, or all the time."""
        return coordinator.LooperThread.loop(self._coord, timer_interval_secs, target, args=args, kwargs=kwargs)

    # ---- stopping ----

    def stop(self, threads=None, close_summary_writer=True, ignore_live_threads=False):
        """Stops the threads, and raises the error that one of them failed with."""
        self._coord.request_stop()
        try:
            self._coord.join(threads, stop_grace_period_secs=self._stop_grace_secs, ignore_live_threads=ignore_live_threads)
        finally:
            if close_summary_writer and self._summary_writer:
                self._summary_writer.add_session_log(protos.SessionLog(status=protos.SessionLog.STOP))
                self._summary_writer.close()

    def request_stop(self, ex=None):
        """Asks the threads to stop; ex is the reason."""
        self._coord.request_stop(ex)

    def should_stop(self):
        """Whether the threads should stop."""
        return self._coord.should_stop()

    def stop_on_exception(self):
        """Returns a context manager that asks the threads to stop when an exception is raised."""
        return self._coord.stop_on_exception()

    def wait_for_stop(self):
        """Waits until the threads should stop."""
        self._coord.wait_for_stop()

    def summary_computed(self, sess, summary, global_step=None):  # noqa: A002
        """Writes a summary that the program made."""
        if not self._summary_writer:
            raise RuntimeError("Writing a summary requires a summary writer.")
        if global_step is None and self._global_step is not None:
            global_step = steps.global_step(sess, self._global_step)
        self._summary_writer.add_summary(summary, global_step)

    PrepareSession = prepare_or_wait_for_session
    StartQueueRunners, StartStandardServices, Stop = start_queue_runners, start_standard_services, stop
    RequestStop, Loop, ShouldStop, StopOnException = request_stop, loop, should_stop, stop_on_exception
    WaitForStop, SummaryComputed = wait_for_stop, summary_computed


class _SummaryThread(coordinator.LooperThread):
    def __init__(self, sv, sess):
        super().__init__(sv.coord, sv.save_summaries_secs)
        self._sv, self._sess = sv, sess

    def run_loop(self):
        if self._sv.global_step is not None:
            text, step = self._sess.run([self._sv.summary_op, self._sv.global_step])
        else:
            text, step = self._sess.run(self._sv.summary_op), None
        if self._sv.summary_writer:
            self._sv.summary_writer.add_summary(text, None if step is None else int(step))


class _StepCounterThread(coordinator.LooperThread):
    def __init__(self, sv, sess):
        super().__init__(sv.coord, sv.save_summaries_secs)
        self._sv, self._sess = sv, sess
        self._tag = "%s/sec" % sv.global_step.op.name

    def start_loop(self):
        self._last_time, self._last_step = time.time(), steps.global_step(self._sess, self._sv.global_step)

    def run_loop(self):
        step, now = steps.global_step(self._sess, self._sv.global_step), time.time()
        passed = now - self._last_time
        rate = (step - self._last_step) / passed if passed > 0 else float("inf")
        self._last_time, self._last_step = now, step
        if self._sv.summary_writer:
            value = protos.Summary.Value(tag=self._tag, simple_value=rate)
            self._sv.summary_writer.add_summary(protos.Summary(value=[value]), step)
        logging.log_first_n(logging.INFO, "%s: %g", 10, self._tag, rate)


class _CheckpointThread(coordinator.LooperThread):
    def __init__(self, sv, sess):
        super().__init__(sv.coord, sv.save_model_secs)
        self._sv, self._sess = sv, sess

    def run_loop(self):
        logging.info("Saving checkpoint to path %s", self._sv.save_path)
        self._sv.saver.save(self._sess, self._sv.save_path, global_step=self._sv.global_step)
        if self._sv.summary_writer and self._sv.global_step is not None:
            step = steps.global_step(self._sess, self._sv.global_step)
            self._sv.summary_writer.add_session_log(
                protos.SessionLog(status=protos.SessionLog.CHECKPOINT, checkpoint_path=self._sv.save_path), step)


def basic_train_loop(supervisor, train_step_fn, args=None, kwargs=None, master=""):
    """Calls train_step_fn(session, *args, **kwargs) until the supervisor stops."""
    args, kwargs = args or (), kwargs or {}
    waited = 0
    from ..framework import errors
    while True:
        try:
            with supervisor.managed_session(master) as sess:
                while not supervisor.should_stop():
                    train_step_fn(sess, *args, **kwargs)
            return
        except errors.AbortedError:  # a task was restarted: again, with a new session
            waited += 1
            logging.info("The session was aborted; creating a new one (%d)", waited)
