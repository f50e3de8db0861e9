"""tf.contrib.learn.monitors: hooks that know the estimator."""

import time

from ... import logging, train
from ...train import LoggingTensorHook, NanTensorHook, StepCounterHook, SummarySaverHook


class BaseMonitor(train.SessionRunHook):
    """A hook that gets the estimator it works for."""

    def set_estimator(self, estimator):
        self._estimator = estimator


class ValidationMonitor(BaseMonitor):
    """Evaluates each new checkpoint, and stops training when that did not get better for some steps."""

    def __init__(self, x=None, y=None, input_fn=None, batch_size=None, eval_steps=None, every_n_steps=100, metrics=None,
                 hooks=None,
                 early_stopping_rounds=None, early_stopping_metric="loss", early_stopping_metric_minimize=True, name=None,
                 check_interval_secs=5):
        if x is None and input_fn is None:
            raise ValueError("Either x or input_fn should be provided.")
        self._what = dict(x=x, y=y, input_fn=input_fn, batch_size=batch_size, steps=eval_steps, metrics=metrics, hooks=hooks,
                          name=name)
        self._every, self._rounds = every_n_steps, early_stopping_rounds
        self._metric, self._minimize = early_stopping_metric, early_stopping_metric_minimize
        self._last_path, self._last_step = None, None
        self._pause, self._looked = check_interval_secs, None
        self.best_step = self.best_value = self.best_metrics = None
        self.early_stopped = False

    def begin(self):
        self._step = train.get_global_step()

    def before_run(self, run_context):
        return train.SessionRunArgs(self._step)

    def _may_look(self):
        """Whether the folder was not looked into for some seconds."""
        now = time.time()
        if self._looked is not None and now - self._looked < self._pause:
            return False
        self._looked = now
        return True

    def after_run(self, run_context, run_values):
        step = int(run_values.results)
        if self._last_step is not None and step - self._last_step < self._every:
            return
        if not self._may_look():
            return
        path = train.latest_checkpoint(self._estimator.model_dir)
        if not path or path == self._last_path:
            return
        self._last_path, self._last_step = path, step
        found = self._estimator.evaluate(checkpoint_path=path, **self._what)
        logging.info("Validation (step %d): %s", step, found)
        if not self._rounds:
            return
        value = found[self._metric]
        if self.best_value is None or (value < self.best_value if self._minimize else value > self.best_value):
            self.best_value, self.best_metrics, self.best_step = value, found, step
        elif step - self.best_step >= self._rounds:
            logging.info("Stopping. Best step: %d with %s = %s.", self.best_step, self._metric, self.best_value)
            self.early_stopped = True
            run_context.request_stop()
