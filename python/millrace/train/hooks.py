"""Hooks of monitored sessions: what is done around each run.

A hook's before_run may ask for more to be fetched and fed; after_run gets the values and may ask to stop.
"""

import collections
import os
import time

import numpy as np
import _millrace as _core

from .. import logging, protos
from ..framework import ops
from ..framework.long_wait import LongWait
from . import steps

__all__ = ["CheckpointSaverHook", "CheckpointSaverListener", "FeedFnHook", "FinalOpsHook", "GlobalStepWaiterHook",
           "LoggingTensorHook", "NanLossDuringTrainingError", "NanTensorHook", "NeverTriggerTimer", "ProfilerHook",
           "SecondOrStepTimer", "SessionRunArgs", "SessionRunContext", "SessionRunHook", "SessionRunValues", "StepCounterHook",
           "StopAtStepHook", "SummarySaverHook"]


class SessionRunHook:
    """The base: does nothing."""

    def begin(self):
        """Once, before the session is made; the graph can still be added to."""

    def after_create_session(self, session, coord):
        """Whenever a session was made."""

    def before_run(self, run_context):
        """SessionRunArgs to add to a run, or None."""

    def after_run(self, run_context, run_values):
        """Is called after each run, with the values of the fetches of before_run."""

    def end(self, session):
        """Is called at the end of the session, unless there was an error."""


SessionRunArgs = collections.namedtuple("SessionRunArgs", ["fetches", "feed_dict", "options"])
SessionRunArgs.__new__.__defaults__ = (None, None)
SessionRunValues = collections.namedtuple("SessionRunValues", ["results", "options", "run_metadata"])


class SessionRunContext:
    """What a hook can see of a call of run."""

    def __init__(self, original_args, session):
        self._original_args, self._session, self._stop_requested = original_args, session, False

    original_args = property(lambda self: self._original_args,
                             doc="The arguments of the call of run, a SessionRunArgs.")
    session = property(lambda self: self._session, doc="The session that runs.")
    stop_requested = property(lambda self: self._stop_requested, doc="Whether a hook asked the loop to stop.")

    def request_stop(self):
        """Asks the loop to stop."""
        self._stop_requested = True


# ---- when ----

class SecondOrStepTimer:
    """A timer that triggers every so many seconds or steps."""

    def __init__(self, every_secs=None, every_steps=None):
        if every_secs is None and every_steps is None:
            raise ValueError("Either every_secs or every_steps should be provided.")
        if every_secs is not None and every_steps is not None:
            raise ValueError("Can not provide both every_secs and every_steps.")
        self._every_secs, self._every_steps = every_secs, every_steps
        self.reset()

    def reset(self):
        """Forgets when it was last triggered."""
        self._last_triggered_step = self._last_triggered_time = None

    def should_trigger_for_step(self, step):
        """Whether enough steps or seconds have passed since it was last triggered."""
        if self._last_triggered_step is None:
            return True
        if self._last_triggered_step == step:
            return False
        if self._every_secs is not None:
            return time.time() >= self._last_triggered_time + self._every_secs
        return step >= self._last_triggered_step + self._every_steps

    def update_last_triggered_step(self, step):
        """(seconds, steps) since the last time; Nones at the first."""
        now = time.time()
        if self._last_triggered_time is None:
            passed = None, None
        else:
            passed = now - self._last_triggered_time, step - self._last_triggered_step
        self._last_triggered_time, self._last_triggered_step = now, step
        return passed

    def last_triggered_step(self):
        """Returns the step it was last triggered at, or None."""
        return self._last_triggered_step


class NeverTriggerTimer:
    """A timer that never triggers."""

    def reset(self):
        """Does nothing."""

    def should_trigger_for_step(self, step):
        """Returns False."""
        return False

    def update_last_triggered_step(self, step):
        """Returns None and None: nothing is kept."""
        return None, None

    def last_triggered_step(self):
        """Returns None."""
        return None


def _step_read(who):
    step = steps._get_or_create_global_step_read()
    if step is None:
        raise RuntimeError("Global step should be created to use %s." % who)
    return step


def _tell_step(run_context, step):
    """Of this run, for the table of millrace launch; several hooks know it."""
    if not getattr(run_context, "_step_told", False):
        run_context._step_told = True
        _core.tell_step(int(step))


def _tell_loss(value):
    """The same for the loss, if it is one number."""
    value = np.asarray(value)
    if value.size == 1 and value.dtype.kind in "fiu":
        _core.tell_progress(float(value.item()), -1)


# ---- looking ----

class LoggingTensorHook(SessionRunHook):
    """Logs tensors now and then: a dict with names, or a list of tensors or of their names."""

    def __init__(self, tensors, every_n_iter=None, every_n_secs=None, at_end=False, formatter=None):
        only_at_end = at_end and every_n_iter is None and every_n_secs is None
        if not only_at_end and (every_n_iter is None) == (every_n_secs is None):
            raise ValueError("either at_end and/or exactly one of every_n_iter and every_n_secs must be provided.")
        if every_n_iter is not None and every_n_iter <= 0:
            raise ValueError("invalid every_n_iter=%s." % every_n_iter)
        if isinstance(tensors, dict):
            self._tag_order = sorted(tensors)
        else:
            self._tag_order = list(tensors)
            tensors = {t: t for t in tensors}
        self._tensors, self._formatter, self._at_end = tensors, formatter, at_end
        self._timer = NeverTriggerTimer() if only_at_end else SecondOrStepTimer(every_n_secs, every_n_iter)

    def begin(self):
        self._timer.reset()
        self._count = 0
        self._current = {tag: _as_element(t) for tag, t in self._tensors.items()}

    def before_run(self, run_context):
        self._due = self._timer.should_trigger_for_step(self._count)
        return SessionRunArgs(self._current) if self._due else None

    def after_run(self, run_context, run_values):
        if self._due:
            self._log(run_values.results)
        self._count += 1

    def end(self, session):
        if self._at_end:
            self._log(session.run(self._current))

    def _log(self, values):
        if "loss" in self._tag_order:
            _tell_loss(values["loss"])
        secs, _ = self._timer.update_last_triggered_step(self._count)
        if self._formatter:
            logging.info(self._formatter(values))
            return
        with np.printoptions(suppress=True):
            text = ", ".join("%s = %s" % (getattr(tag, "name", tag), values[tag]) for tag in self._tag_order)
        logging.info(text if secs is None else "%s (%.3f sec)" % (text, secs))


def _as_element(t):
    if not isinstance(t, str):
        return t
    return ops.get_default_graph().as_graph_element(t if ":" in t else t + ":0", allow_operation=False)


class NanLossDuringTrainingError(RuntimeError):
    """The loss of a training step was NaN."""

    def __str__(self):
        return "NaN loss during training."


class NanTensorHook(SessionRunHook):
    """Stops training when the loss is NaN, or raises an error."""

    def __init__(self, loss_tensor, fail_on_nan_loss=True):
        self._loss_tensor, self._fail_on_nan_loss = loss_tensor, fail_on_nan_loss

    def before_run(self, run_context):
        return SessionRunArgs(self._loss_tensor)

    def after_run(self, run_context, run_values):
        _tell_loss(run_values.results)
        if np.isnan(run_values.results):
            if self._fail_on_nan_loss:
                logging.error("Model diverged with loss = NaN.")
                raise NanLossDuringTrainingError
            logging.warning("Model diverged with loss = NaN.")
            run_context.request_stop()


class _Writes(SessionRunHook):
    """A hook with a writer of events: one that is given, or the one of a folder."""

    def __init__(self, output_dir, summary_writer):
        self._output_dir, self._summary_writer = output_dir, summary_writer

    def _open(self):
        if self._summary_writer is None and self._output_dir:
            from ..summary import FileWriterCache
            self._summary_writer = FileWriterCache.get(self._output_dir)


class StepCounterHook(_Writes):
    """A hook that logs steps per second and writes them as a summary."""

    def __init__(self, every_n_steps=100, every_n_secs=None, output_dir=None, summary_writer=None):
        if (every_n_steps is None) == (every_n_secs is None):
            raise ValueError("exactly one of every_n_steps and every_n_secs should be provided.")
        super().__init__(output_dir, summary_writer)
        self._timer = SecondOrStepTimer(every_steps=every_n_steps, every_secs=every_n_secs)

    def begin(self):
        self._open()
        self._global_step_tensor = _step_read("StepCounterHook")
        self._summary_tag = steps.get_global_step().op.name + "/sec"

    def before_run(self, run_context):
        return SessionRunArgs(self._global_step_tensor)

    def after_run(self, run_context, run_values):
        _tell_step(run_context, run_values.results + 1)
        if not self._timer.should_trigger_for_step(run_values.results + 1):
            return
        step = run_context.session.run(self._global_step_tensor)
        if self._timer.should_trigger_for_step(step):
            secs, count = self._timer.update_last_triggered_step(step)
            if secs:
                self._log_and_record(count, secs, step)

    def _log_and_record(self, elapsed_steps, elapsed_time, global_step):
        rate = elapsed_steps / elapsed_time
        if self._summary_writer is not None:
            value = protos.Summary.Value(tag=self._summary_tag, simple_value=float(rate))
            self._summary_writer.add_summary(protos.Summary(value=[value]), int(global_step))
        logging.info("%s: %g", self._summary_tag, rate)


class SummarySaverHook(_Writes):
    """Writes summaries."""

    def __init__(self, save_steps=None, save_secs=None, output_dir=None, summary_writer=None, scaffold=None, summary_op=None):
        if (scaffold is None) == (summary_op is None):
            raise ValueError("Exactly one of scaffold or summary_op must be provided.")
        super().__init__(output_dir, summary_writer)
        self._summary_op, self._scaffold = summary_op, scaffold
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)

    def begin(self):
        self._open()
        self._next_step = None
        self._global_step_tensor = _step_read("SummarySaverHook")

    def _ops(self):
        op = self._summary_op if self._summary_op is not None else self._scaffold.summary_op
        return op if op is None or isinstance(op, list) else [op]

    def before_run(self, run_context):
        self._due = self._next_step is None or self._timer.should_trigger_for_step(self._next_step)
        asked = {"global_step": self._global_step_tensor}
        if self._due and self._ops() is not None:
            asked["summary"] = self._ops()
        return SessionRunArgs(asked)

    def after_run(self, run_context, run_values):
        if not self._summary_writer:
            return
        step = run_values.results["global_step"] + 1
        if self._due:
            step = run_context.session.run(self._global_step_tensor)
        if self._next_step is None:
            self._summary_writer.add_session_log(protos.SessionLog(status=protos.SessionLog.START), int(step))
        if self._due:
            self._timer.update_last_triggered_step(step)
            for summary in run_values.results.get("summary", []):
                self._summary_writer.add_summary(summary, int(step))
        self._next_step = step + 1

    def end(self, session=None):
        if self._summary_writer:
            self._summary_writer.flush()


class ProfilerHook(SessionRunHook):
    """Writes a timeline of a run, for Chrome, now and then."""

    def __init__(self, save_steps=None, save_secs=None, output_dir="", show_dataflow=True, show_memory=False):
        self._path = os.path.join(output_dir, "timeline-%s.json")
        self._output_dir, self._show_dataflow, self._show_memory = output_dir, show_dataflow, show_memory
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)

    def begin(self):
        self._next_step = None
        self._global_step_tensor = _step_read("ProfilerHook")

    def before_run(self, run_context):
        self._due = self._next_step is not None and self._timer.should_trigger_for_step(self._next_step)
        options = protos.RunOptions(trace_level=protos.RunOptions.FULL_TRACE) if self._due else None
        return SessionRunArgs({"global_step": self._global_step_tensor}, options=options)

    def after_run(self, run_context, run_values):
        step = run_values.results["global_step"] + 1
        if self._next_step is None:
            self._timer.update_last_triggered_step(step)
        elif self._due:
            step = run_context.session.run(self._global_step_tensor)
            self._timer.update_last_triggered_step(step)
            self._save(step, run_values.run_metadata.step_stats)
        self._next_step = step + 1

    def _save(self, step, step_stats):
        from ..client import timeline
        if self._output_dir:
            os.makedirs(self._output_dir, exist_ok=True)
        trace = timeline.Timeline(step_stats).generate_chrome_trace_format(self._show_dataflow, self._show_memory)
        with open(self._path % step, "w", encoding="utf-8") as f:
            f.write(trace)


# ---- stopping and waiting ----

class StopAtStepHook(SessionRunHook):
    """Stops after so many steps from the beginning, or at a step."""

    def __init__(self, num_steps=None, last_step=None):
        if (num_steps is None) == (last_step is None):
            raise ValueError("Exactly one of num_steps or last_step must be specified.")
        self._num_steps, self._last_step = num_steps, last_step

    def begin(self):
        self._global_step_tensor = steps.get_global_step()
        if self._global_step_tensor is None:
            raise RuntimeError("Global step should be created to use StopAtStepHook.")

    def after_create_session(self, session, coord):
        if self._last_step is None:
            self._last_step = session.run(self._global_step_tensor) + self._num_steps

    def before_run(self, run_context):
        return SessionRunArgs(self._global_step_tensor)

    def after_run(self, run_context, run_values):
        _tell_step(run_context, run_values.results + 1)
        _core.tell_progress(float("nan"), int(self._last_step))
        # What was fetched may be from before or after the step; a read afterwards decides.
        if run_values.results + 1 >= self._last_step and \
                run_context.session.run(self._global_step_tensor) >= self._last_step:
            run_context.request_stop()


class GlobalStepWaiterHook(SessionRunHook):
    """Holds a worker back until the others have reached a step."""

    def __init__(self, wait_until_step):
        self._wait_until_step = wait_until_step

    def begin(self):
        self._is_reached = False
        self._global_step_tensor = _step_read("_GlobalStepWaiterHook")

    def before_run(self, run_context):
        wait = LongWait()
        while not self._is_reached and self._wait_until_step > 0:
            step = run_context.session.run(self._global_step_tensor)
            self._is_reached = step >= self._wait_until_step
            if not self._is_reached:
                wait.sleep(0.5, "Still waiting for the other workers: they are at step %d, and this one begins at %d" %
                           (step, self._wait_until_step))


class FinalOpsHook(SessionRunHook):
    """Runs operations at the end and keeps their values."""

    def __init__(self, final_ops, final_ops_feed_dict=None):
        self._final_ops, self._final_ops_feed_dict, self._final_ops_values = final_ops, final_ops_feed_dict, None

    @property
    def final_ops_values(self):
        """The values of the final operations, after the session ended."""
        return self._final_ops_values

    def end(self, session):
        if self._final_ops is not None:
            self._final_ops_values = session.run(self._final_ops, feed_dict=self._final_ops_feed_dict)


class FeedFnHook(SessionRunHook):
    """Feeds the result of a function, which is called for each run."""

    def __init__(self, feed_fn):
        self.feed_fn = feed_fn

    def before_run(self, run_context):
        return SessionRunArgs(fetches=None, feed_dict=self.feed_fn())


# ---- checkpoints ----

class CheckpointSaverListener:
    """Is notified of each checkpoint that a CheckpointSaverHook writes."""

    def begin(self):
        """Is called once before the session is made."""

    def before_save(self, session, global_step_value):
        """Is called before a checkpoint is written."""

    def after_save(self, session, global_step_value):
        """True asks the training to stop."""

    def end(self, session, global_step_value):
        """Is called when the session ends."""


class CheckpointSaverHook(SessionRunHook):
    """Writes a checkpoint at the beginning, now and then, and at the end."""

    def __init__(self, checkpoint_dir, save_secs=None, save_steps=None, saver=None, checkpoint_basename="model.ckpt",
                 scaffold=None,
                 listeners=None, save_graph_def=True):
        if saver is not None and scaffold is not None:
            raise ValueError("You cannot provide both saver and scaffold.")
        self._saver, self._scaffold, self._checkpoint_dir = saver, scaffold, checkpoint_dir
        self._save_path = os.path.join(checkpoint_dir, checkpoint_basename)
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)
        self._listeners, self._save_graph_def = list(listeners or []), save_graph_def

    def begin(self):
        from ..summary import FileWriterCache
        self._summary_writer = FileWriterCache.get(self._checkpoint_dir)
        self._global_step_tensor = _step_read("CheckpointSaverHook")
        for listener in self._listeners:
            listener.begin()

    def after_create_session(self, session, coord):
        step = int(session.run(self._global_step_tensor))
        graph = ops.get_default_graph()
        if self._save_graph_def:
            steps.write_graph(graph.as_graph_def(add_shapes=True), self._checkpoint_dir, "graph.pbtxt")
        saver = self._get_saver()
        from ..framework import meta_graph
        self._summary_writer.add_graph(graph)
        self._summary_writer.add_meta_graph(meta_graph.create_meta_graph_def(
            graph_def=graph.as_graph_def(add_shapes=True), saver_def=saver.saver_def if saver else None, graph=graph))
        self._save(session, step)
        self._timer.update_last_triggered_step(step)

    def before_run(self, run_context):
        return SessionRunArgs(self._global_step_tensor)

    def after_run(self, run_context, run_values):
        if not self._timer.should_trigger_for_step(run_values.results + 1):
            return
        step = run_context.session.run(self._global_step_tensor)
        if self._timer.should_trigger_for_step(step):
            self._timer.update_last_triggered_step(step)
            if self._save(run_context.session, int(step)):
                run_context.request_stop()

    def end(self, session):
        last = session.run(self._global_step_tensor)
        if last != self._timer.last_triggered_step():
            self._save(session, int(last))
        for listener in self._listeners:
            listener.end(session, last)

    def _save(self, session, step):
        """Whether a listener wants to stop."""
        logging.info("Saving checkpoints for %d into %s.", step, self._save_path)
        for listener in self._listeners:
            listener.before_save(session, step)
        self._get_saver().save(session, self._save_path, global_step=step, write_meta_graph=self._save_graph_def)
        self._summary_writer.add_session_log(
            protos.SessionLog(status=protos.SessionLog.CHECKPOINT, checkpoint_path=self._save_path), step)
        stop = False
        for listener in self._listeners:
            if listener.after_save(session, step):
                logging.info("A CheckpointSaverListener requested that training be stopped. listener: %s", listener)
                stop = True
        return stop

    def _get_saver(self):
        if self._saver is None and self._scaffold is not None:
            return self._scaffold.saver
        if self._saver is None:
            found = ops.get_collection(ops.GraphKeys.SAVERS)
            if len(found) != 1:
                raise RuntimeError("There must be one item in collection SAVERS, not %d. Please provide a saver or a "
                                   "scaffold." % len(found))
            self._saver = found[0]
        return self._saver
