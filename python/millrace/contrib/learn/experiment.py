"""Experiment: an estimator with its inputs; learn_runner.run does what the task of this process is."""

from ... import logging, train
from ...framework.long_wait import LongWait


class Experiment:
    """An estimator with the data to train and to evaluate it."""

    def __init__(self, estimator, train_input_fn, eval_input_fn, eval_metrics=None, train_steps=None, eval_steps=100,
                 train_monitors=None, eval_hooks=None, local_eval_frequency=None, eval_delay_secs=120,
                 continuous_eval_throttle_secs=60, min_eval_frequency=None, delay_workers_by_global_step=False,
                 export_strategies=None, train_steps_per_iteration=None, checkpoint_and_export=False, saving_listeners=None):
        if export_strategies:
            raise NotImplementedError("Experiment with export_strategies")
        for name, value in (("delay_workers_by_global_step", delay_workers_by_global_step),
                            ("train_steps_per_iteration", train_steps_per_iteration),
                            ("checkpoint_and_export", checkpoint_and_export)):
            if value:
                raise NotImplementedError("Experiment with %s" % name)
        if saving_listeners and hasattr(estimator, "fit"):
            raise ValueError("`saving_listeners` must be `None` with `tf.contrib.learn.Estimator`.")
        self._estimator, self._train_input_fn, self._eval_input_fn = estimator, train_input_fn, eval_input_fn
        self._metrics, self._train_steps, self._eval_steps = eval_metrics, train_steps, eval_steps
        self._monitors, self._hooks = list(train_monitors or []), list(eval_hooks or [])
        self._delay, self._throttle, self._listeners = eval_delay_secs, continuous_eval_throttle_secs, saving_listeners
        self._every = min_eval_frequency or local_eval_frequency

    estimator = property(lambda self: self._estimator, doc="The estimator.")
    train_steps = property(lambda self: self._train_steps, doc="The number of training steps, or None.")
    eval_steps = property(lambda self: self._eval_steps, doc="The number of evaluation steps, or None.")

    def train(self, delay_secs=None):
        """Trains the estimator, after a delay that is longer for workers with a higher number."""
        config = self._estimator.config
        if config.master and config.cluster_spec.jobs:
            self._server()
            if not config.is_chief:
                delay = min(60, config.task_id * 5) if delay_secs is None else delay_secs
                LongWait().sleep(delay, "Still waiting %s secs before training, so that the chief begins first" % delay)
        return self._train(self._train_steps)

    def _train(self, max_steps):
        if hasattr(self._estimator, "fit"):
            return self._estimator.fit(input_fn=self._train_input_fn, max_steps=max_steps, monitors=self._monitors)
        return self._estimator.train(self._train_input_fn, max_steps=max_steps, hooks=self._monitors,
                                     saving_listeners=self._listeners)

    def evaluate(self, delay_secs=None, name=None):
        """Evaluates the estimator after a delay, and returns the metrics."""
        self._wait_before_evaluation(delay_secs)
        return self._evaluate(name)

    def _wait_before_evaluation(self, delay_secs):
        delay = self._delay if delay_secs is None else delay_secs
        LongWait().sleep(delay, "Still waiting %s secs before evaluating, so that the trainer has a checkpoint" % delay)

    def _evaluate(self, name=None):
        more = {"metrics": self._metrics} if self._metrics else {}
        return self._estimator.evaluate(input_fn=self._eval_input_fn, steps=self._eval_steps, name=name, hooks=self._hooks,
                                        **more)

    def train_and_evaluate(self):
        """Trains with evaluations every min_eval_frequency steps, and one at the end."""
        if not self._every:
            self._train(self._train_steps)
            return self._evaluate(), []
        done, found = 0, None
        while self._train_steps is None or done < self._train_steps:
            wanted = done + self._every if self._train_steps is None else min(done + self._every, self._train_steps)
            self._train(wanted)
            now = int(self._estimator.get_variable_value("global_step"))
            found = self._evaluate()
            if now <= done:  # the input has ended
                break
            done = now
        return found, []

    local_run = train_and_evaluate

    def continuous_eval(self, delay_secs=None, throttle_delay_secs=None, evaluate_checkpoint_only_once=True,
                        continuous_eval_predicate_fn=None):
        """Evaluates new checkpoints until training has made all its steps."""
        self._wait_before_evaluation(delay_secs)
        pause = self._throttle if throttle_delay_secs is None else throttle_delay_secs
        last = found = None
        wait = LongWait()
        while continuous_eval_predicate_fn is None or continuous_eval_predicate_fn(found):
            path = train.latest_checkpoint(self._estimator.model_dir)
            if path and not (evaluate_checkpoint_only_once and path == last):
                last, found, wait = path, self._evaluate("continuous"), LongWait()
                if self._train_steps and found["global_step"] >= self._train_steps:
                    break
            wait.sleep(pause, "Still waiting for the trainer: no new checkpoint to evaluate in %s" % self._estimator.model_dir)
        return found

    def test(self):
        """Runs one training step and one evaluation."""
        self._train(1)
        return self._estimator.evaluate(input_fn=self._eval_input_fn, steps=1, name="one_pass"), []

    def _server(self):
        config = self._estimator.config
        self._running = train.Server(config.cluster_spec, job_name=config.task_type, task_index=config.task_id,
                                     config=config.session_config)
        return self._running

    def run_std_server(self):
        """Runs the server of this task, and does not return."""
        self._server().join()


def run(experiment_fn, output_dir=None, schedule=None, run_config=None, hparams=None):
    """Makes the experiment and runs the schedule, which follows from the task when none is given."""
    if output_dir is not None and run_config is not None:
        raise ValueError("Cannot provide both `output_dir` and `run_config`")
    if run_config is not None:
        experiment = experiment_fn(run_config=run_config, hparams=hparams)
    else:
        if not output_dir:
            raise ValueError("Must specify an output directory")
        experiment = experiment_fn(output_dir)
    if not isinstance(experiment, Experiment):
        raise TypeError("Experiment builder did not return an Experiment instance, got %s instead." % type(experiment))
    schedule = schedule or _schedule(experiment.estimator.config)
    task = getattr(experiment, schedule, None)
    if task is None or not callable(task):
        raise ValueError("Schedule references non-existent task %s" % schedule)
    logging.info("Running the schedule %s", schedule)
    return task()


def _schedule(config):
    if not config.cluster_spec.jobs:
        return "train_and_evaluate"
    schedules = {"ps": "run_std_server", "master": "train_and_evaluate", "evaluator": "continuous_eval"}
    return schedules.get(config.task_type, "train")
