"""train_and_evaluate: training with an evaluation of its checkpoints, in one process or as a task of a cluster.

In one process an evaluation is made when a checkpoint was saved.  In a cluster the chief and the workers train, parameter
servers serve, and an evaluator looks for new checkpoints.
"""

import collections
import glob
import inspect
import os
import shutil
import time

from .. import logging, train
from ..framework.long_wait import LongWait
from .run_config import TaskType


class TrainSpec(collections.namedtuple("TrainSpec", ["input_fn", "max_steps", "hooks", "saving_listeners"])):
    """What train_and_evaluate trains with.

    Args:
        input_fn: a function that returns the training data
        max_steps: the number of steps to train to; None has no end
        hooks: a list of SessionRunHook
        saving_listeners: a list of CheckpointSaverListener
    """

    def __new__(cls, input_fn, max_steps=None, hooks=None, saving_listeners=None):
        _check_callable(input_fn)
        if max_steps is not None and max_steps <= 0:
            raise ValueError("Must specify max_steps > 0, given: %s" % max_steps)
        return super().__new__(cls, input_fn, max_steps, _checked(hooks), tuple(saving_listeners or ()))


class EvalSpec(collections.namedtuple("EvalSpec", ["input_fn", "steps", "name", "hooks", "exporters", "start_delay_secs",
                                                   "throttle_secs"])):
    """What train_and_evaluate evaluates with.

    Args:
        input_fn: a function that returns the evaluation data
        steps: the number of steps; None reads the data to its end
        name: the name of the evaluation, if there are several
        hooks: a list of SessionRunHook
        exporters: one or more Exporter objects to call after each evaluation
        start_delay_secs: how long to wait before the first evaluation
        throttle_secs: the shortest time between evaluations
    """

    def __new__(cls, input_fn, steps=100, name=None, hooks=None, exporters=None, start_delay_secs=120, throttle_secs=600):
        _check_callable(input_fn)
        if steps is not None and steps <= 0:
            raise ValueError("Must specify steps > 0, given: %s" % steps)
        if start_delay_secs < 0:
            raise ValueError("Must specify start_delay_secs >= 0, given: %s" % start_delay_secs)
        if throttle_secs < 0:
            raise ValueError("Must specify throttle_secs >= 0, given: %s" % throttle_secs)
        exporters = [exporters] if isinstance(exporters, Exporter) else list(exporters or [])
        if len({e.name for e in exporters}) != len(exporters):
            raise ValueError("`exporters` must have unique names.")
        return super().__new__(cls, input_fn, steps, name, _checked(hooks), tuple(exporters), start_delay_secs, throttle_secs)


def _check_callable(input_fn):
    if not callable(input_fn):
        raise TypeError("`input_fn` must be callable, given: %s" % (input_fn,))


def _checked(hooks):
    for h in hooks or ():
        if not isinstance(h, train.SessionRunHook):
            raise TypeError("All hooks must be `SessionRunHook` instances, given: %s" % (h,))
    return tuple(hooks or ())


# ---- exporters ----

class Exporter:
    """Exports a model after evaluations."""

    name = None

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        """Writes a model if it should be exported now, and returns its folder, or None.

        Args:
            estimator: the estimator to export
            export_path: the folder to export to
            checkpoint_path: the checkpoint to export
            eval_result: the metrics of the evaluation, by name
            is_the_final_export: whether training has ended
        """
        raise NotImplementedError


class _ModelExporter(Exporter):
    def __init__(self, name, serving_input_receiver_fn, assets_extra=None, as_text=False):
        self.name, self._receiver_fn = name, serving_input_receiver_fn
        self._assets_extra, self._as_text = assets_extra, as_text

    def _write(self, estimator, export_path, checkpoint_path):
        return estimator.export_saved_model(export_path, self._receiver_fn, assets_extra=self._assets_extra,
                                            as_text=self._as_text,
                                            checkpoint_path=checkpoint_path)


class FinalExporter(_ModelExporter):
    """Once, at the end."""

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        return self._write(estimator, export_path, checkpoint_path) if is_the_final_export else None


def _exports(folder):
    """The names of the exports in a folder, the oldest first."""
    return sorted((n for n in os.listdir(folder) if n.isdigit()), key=int) if os.path.isdir(folder) else []


def _keep_newest(folder, number):
    """Removes older exports."""
    for name in [] if number is None else _exports(folder)[:-number]:
        shutil.rmtree(os.path.join(folder, name), ignore_errors=True)


def _check_number(exports_to_keep):
    if exports_to_keep is not None and exports_to_keep <= 0:
        raise ValueError("`exports_to_keep`, if provided, must be positive number")


class LatestExporter(_ModelExporter):
    """Exports after each evaluation, and keeps the newest exports."""

    def __init__(self, name, serving_input_receiver_fn, assets_extra=None, as_text=False, exports_to_keep=5):
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text)
        _check_number(exports_to_keep)
        self._number = exports_to_keep

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        made = self._write(estimator, export_path, checkpoint_path)
        _keep_newest(export_path, self._number)
        return made


def _check_compare(compare_fn):
    if compare_fn is None:
        raise ValueError("`compare_fn` must not be None.")
    names = set(inspect.signature(compare_fn).parameters)
    for name in ("best_eval_result", "current_eval_result"):
        if name not in names:
            raise ValueError("compare_fn (%s) must include %s argument." % (compare_fn, name))
    unknown = names - {"best_eval_result", "current_eval_result"}
    if unknown:
        raise ValueError("compare_fn (%s) has following not expected args: %s" % (compare_fn, sorted(unknown)))


def _loss_is_smaller(best_eval_result, current_eval_result):
    return current_eval_result["loss"] < best_eval_result["loss"]


class BestExporter(_ModelExporter):
    """After each evaluation that is better than all before; those of earlier processes count too when event_file_pattern
    says where below model_dir their results are."""

    def __init__(self, name="best_exporter", serving_input_receiver_fn=None, event_file_pattern=None,
                 compare_fn=_loss_is_smaller, assets_extra=None, as_text=False, exports_to_keep=5):
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text)
        _check_compare(compare_fn)
        _check_number(exports_to_keep)
        self._compare, self._number, self._best = compare_fn, exports_to_keep, None
        self._pattern, self._model_dir = event_file_pattern, None

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        if self._pattern and self._model_dir != estimator.model_dir:
            self._model_dir = estimator.model_dir
            self._best = self._best_of_files(os.path.join(self._model_dir, self._pattern))
        # The files have this evaluation as well, which is not better than itself: what is exported first is the best so far.
        if self._best is not None and _exports(export_path) and \
                not self._compare(best_eval_result=self._best, current_eval_result=eval_result):
            return None
        self._best = eval_result
        made = self._write(estimator, export_path, checkpoint_path)
        _keep_newest(export_path, self._number)
        return made

    def _best_of_files(self, pattern):
        best = None
        for path in sorted(glob.glob(pattern)):
            for event in train.summary_iterator(path):
                found = {v.tag: v.simple_value for v in event.summary.value if v.HasField("simple_value")}
                if found and (best is None or self._compare(best_eval_result=best, current_eval_result=found)):
                    best = found
        return best


# ---- evaluations ----

class _Evaluator:
    """Evaluates each checkpoint once."""

    def __init__(self, estimator, spec, max_steps):
        self._estimator, self._spec, self._max_steps = estimator, spec, max_steps
        self._last, self._time = None, 0.0
        self.metrics, self.exports = None, []
        self.is_final = False

    def evaluate(self, at_end=False):
        """Whether there was a new checkpoint."""
        path = train.latest_checkpoint(self._estimator.model_dir)
        if not path or path == self._last:
            return False
        spec, self._last, self._time = self._spec, path, time.time()
        self.metrics = self._estimator.evaluate(spec.input_fn, steps=spec.steps, name=spec.name, checkpoint_path=path,
                                                hooks=spec.hooks)
        step = int(self.metrics["global_step"])
        self.is_final = at_end or bool(self._max_steps and step >= self._max_steps)
        self.exports = [e.export(estimator=self._estimator, export_path=os.path.join(self._estimator.model_dir, "export",
                                                                                     e.name),
                                 checkpoint_path=path, eval_result=self.metrics, is_the_final_export=self.is_final)
                        for e in spec.exporters]
        return True

    def is_due(self):
        return time.time() - self._time >= self._spec.throttle_secs


class _EvaluateWhenSaved(train.CheckpointSaverListener):
    """Evaluates when a checkpoint was written, unless that was done shortly before; always at the end."""

    def __init__(self, evaluator):
        self._evaluator, self._first = evaluator, True

    def begin(self):
        self._first = True

    def after_save(self, session, global_step_value):
        if self._first:  # what was there before any training
            self._first = False
            self._evaluator._time = time.time()
        elif self._evaluator.is_due():
            self._evaluator.evaluate()

    def end(self, session, global_step_value):
        self._evaluator.evaluate(at_end=True)


def train_and_evaluate(estimator, train_spec, eval_spec):
    """Trains up to train_spec.max_steps and evaluates on the way; (metrics, exports) of the last evaluation in one process."""
    if not isinstance(train_spec, TrainSpec):
        raise TypeError("`train_spec` must have type `tf.estimator.TrainSpec`. Got: %s" % type(train_spec))
    if not isinstance(eval_spec, EvalSpec):
        raise TypeError("`eval_spec` must have type `tf.estimator.EvalSpec`. Got: %s" % type(eval_spec))
    config = estimator.config
    if not config.cluster_spec.jobs and config.task_type != TaskType.EVALUATOR:
        return _run_local(estimator, train_spec, eval_spec)
    {TaskType.PS: _run_ps, TaskType.EVALUATOR: _run_evaluator}.get(config.task_type, _run_training)(estimator, train_spec,
                                                                                                    eval_spec)
    return None


def _run_local(estimator, train_spec, eval_spec):
    evaluator = _Evaluator(estimator, eval_spec, train_spec.max_steps)
    estimator.train(train_spec.input_fn, max_steps=train_spec.max_steps, hooks=train_spec.hooks,
                    saving_listeners=list(train_spec.saving_listeners) + [_EvaluateWhenSaved(evaluator)])
    return evaluator.metrics, evaluator.exports


def _server(config):
    logging.info("Start Tensorflow server.")
    return train.Server(config.cluster_spec, job_name=config.task_type, task_index=config.task_id, config=config.session_config,
                        protocol=config.protocol)


def _run_ps(estimator, train_spec, eval_spec):
    _server(estimator.config).join()


def _run_training(estimator, train_spec, eval_spec):
    config = estimator.config
    server = _server(config) if config.master else None  # noqa: F841 -- lives while there is training
    if config.task_type == TaskType.WORKER:  # the later ones begin later, so that they are spread
        most = config.experimental_max_worker_delay_secs
        delay = min(60 if most is None else most, (config.task_id + 1) * 5)
        LongWait().sleep(delay, "Still waiting %d secs before starting training, so that workers do not begin together" % delay)
    estimator.train(train_spec.input_fn, max_steps=train_spec.max_steps, hooks=train_spec.hooks,
                    saving_listeners=list(train_spec.saving_listeners))


def _run_evaluator(estimator, train_spec, eval_spec):
    evaluator = _Evaluator(estimator, eval_spec, train_spec.max_steps)
    LongWait().sleep(eval_spec.start_delay_secs, "Still waiting %f secs before starting eval." % eval_spec.start_delay_secs)
    wait = LongWait()
    while not evaluator.is_final:
        if evaluator.is_due() and evaluator.evaluate():
            wait = LongWait()
        wait.sleep(0.2 if eval_spec.throttle_secs == 0 else min(1.0, eval_spec.throttle_secs),
                   "Still waiting for the trainer: no new checkpoint to evaluate in %s, at most one in %s secs" %
                   (estimator.model_dir, eval_spec.throttle_secs))
