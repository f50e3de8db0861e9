"""Estimator: training, evaluation, prediction and export of a model that a function builds.

Each call builds the model in a graph of its own; what was learned is passed on by checkpoints in model_dir.
"""

import inspect
import os
import tempfile
import time

import numpy as np

from .. import logging, saved_model, train
from ..data import Dataset
from ..framework import ops
from ..framework.random_seed import set_random_seed
from ..framework.session import Session
from ..ops import control_flow
from . import export
from .run_config import RunConfig
from .spec import EstimatorSpec, ModeKeys


def _arguments(function):
    """The names of a function's arguments."""
    return tuple(inspect.signature(function).parameters)


class WarmStartSettings:
    """Which variables start with values of a checkpoint."""

    def __init__(self, ckpt_to_initialize_from, vars_to_warm_start=".*", var_name_to_vocab_info=None,
                 var_name_to_prev_var_name=None):
        if not ckpt_to_initialize_from:
            raise ValueError("`ckpt_to_initialize_from` MUST be set in WarmStartSettings")
        self.ckpt_to_initialize_from, self.vars_to_warm_start = ckpt_to_initialize_from, vars_to_warm_start
        self.var_name_to_vocab_info = var_name_to_vocab_info or {}
        self.var_name_to_prev_var_name = var_name_to_prev_var_name or {}

    def apply(self):
        """Makes the variables of the current graph start with the values of the checkpoint."""
        train.warm_start(self.ckpt_to_initialize_from, self.vars_to_warm_start, self.var_name_to_vocab_info,
                         self.var_name_to_prev_var_name)


class _StopAfter(train.SessionRunHook):
    """Ends after so many runs."""

    def __init__(self, runs):
        self._left = runs

    def after_run(self, run_context, run_values):
        self._left -= 1
        if self._left <= 0:
            run_context.request_stop()


class _BeginDataset(train.SessionRunHook):
    """Runs an iterator's initializer in each new session."""

    def __init__(self, iterator):
        self._iterator = iterator

    def begin(self):
        self._initializer = self._iterator.initializer

    def after_create_session(self, session, coord):
        session.run(self._initializer)


class Estimator:
    """A model, by the function that builds it: model_fn(features, labels, mode, params, config) -> EstimatorSpec."""

    def __init__(self, model_fn, model_dir=None, config=None, params=None, warm_start_from=None):
        if model_fn is None:
            raise ValueError("model_fn must be provided to Estimator.")
        names = _arguments(model_fn)
        if "features" not in names:
            raise ValueError("model_fn (%s) must include features argument." % model_fn)
        if params is not None and "params" not in names:
            raise ValueError("model_fn (%s) does not include params argument, but params (%s) is passed to Estimator." %
                             (model_fn, params))
        unknown = set(names) - {"features", "labels", "mode", "params", "self", "config"}
        if unknown:
            raise ValueError("model_fn (%s) has following not expected args: %s" % (model_fn, sorted(unknown)))
        self._model_fn, self._params = model_fn, params if params is not None else {}
        self._config = self._configured(config, model_dir)
        self._model_dir = self._config.model_dir
        self._warm_start = _warm_start(warm_start_from)

    @staticmethod
    def _configured(config, model_dir):
        config = config if config is not None else RunConfig()
        if not isinstance(config, RunConfig):
            raise ValueError("config must be an instance of `RunConfig`, but provided %s." % (config,))
        if model_dir is not None and config.model_dir is not None and str(model_dir) != str(config.model_dir):
            raise ValueError("`model_dir` are set both in constructor and `RunConfig`, but with different values. In "
                             "constructor: '%s', in "
                             "`RunConfig`: '%s' " % (model_dir, config.model_dir))
        model_dir = model_dir or config.model_dir
        if model_dir is None:
            model_dir = tempfile.mkdtemp()
            logging.warning("Using temporary folder as model directory: %s", model_dir)
        return config.replace(model_dir=str(model_dir))

    model_dir = property(lambda self: self._model_dir, doc="The folder of checkpoints and summaries.")
    config = property(lambda self: self._config, doc="The RunConfig.")

    @property
    def params(self):
        """A copy of the parameters that model_fn gets."""
        return dict(self._params) if isinstance(self._params, dict) else self._params

    @property
    def model_fn(self):
        """The model function, with the arguments features, labels, mode and config."""
        return lambda features, labels, mode, config: self._call_model_fn(features, labels, mode, config)

    def latest_checkpoint(self):
        """Returns the path of the newest checkpoint, or None."""
        return train.latest_checkpoint(self._model_dir)

    def _trained(self):
        found = train.latest_checkpoint(self._model_dir)
        if not found:
            raise ValueError("Couldn't find trained model at %s." % self._model_dir)
        return found

    def get_variable_value(self, name):
        """Returns the value of a variable in the newest checkpoint."""
        return train.load_variable(self._trained(), name)

    def get_variable_names(self):
        """Returns the names of all variables in the newest checkpoint."""
        return [name for name, _ in train.list_variables(self._trained())]

    def eval_dir(self, name=None):
        """Returns the folder for the summaries of an evaluation of this name."""
        return os.path.join(self._model_dir, "eval" if not name else "eval_" + name)

    # ---- building ----

    def _call_input_fn(self, input_fn, mode):
        names = _arguments(input_fn)
        given = {"mode": mode, "params": self.params, "config": self._config}
        return input_fn(**{k: v for k, v in given.items() if k in names})

    def _inputs(self, input_fn, mode):
        """(features, labels, hooks)"""
        given, hooks = self._call_input_fn(input_fn, mode), []
        if isinstance(given, Dataset):
            iterator = given.make_initializable_iterator()
            hooks.append(_BeginDataset(iterator))
            given = iterator.get_next()
        if isinstance(given, (list, tuple)):
            if len(given) != 2:
                raise ValueError("input_fn should return (features, labels) as a len 2 tuple.")
            return given[0], given[1], hooks
        return given, None, hooks

    def _call_model_fn(self, features, labels, mode, config):
        names, given = _arguments(self._model_fn), {}
        if "labels" in names:
            given["labels"] = labels
        elif labels is not None:
            raise ValueError("model_fn does not take labels, but input_fn returns labels.")
        for key, value in ("mode", mode), ("params", self.params), ("config", config):
            if key in names:
                given[key] = value
        logging.info("Calling model_fn.")
        spec = self._model_fn(features=features, **given)
        logging.info("Done calling model_fn.")
        if not isinstance(spec, EstimatorSpec):
            raise ValueError("model_fn should return an EstimatorSpec.")
        return spec

    def _seeded(self):
        if self._config.tf_random_seed is not None:
            set_random_seed(self._config.tf_random_seed)

    def _device_fn(self):
        """Variables on the parameter servers, when there are any."""
        config = self._config
        if config.device_fn is not None:
            return config.device_fn
        if config.num_ps_replicas <= 0:
            return None
        return train.replica_device_setter(ps_tasks=config.num_ps_replicas, merge_devices=True, cluster=config.cluster_spec,
                                           worker_device="/job:%s/task:%d" % (config.task_type, config.task_id))

    # ---- training ----

    def train(self, input_fn, hooks=None, steps=None, max_steps=None, saving_listeners=None):
        """Trains until the input ends, for so many steps, or up to step max_steps."""
        if steps is not None and max_steps is not None:
            raise ValueError("Can not provide both steps and max_steps.")
        if steps is not None and steps <= 0:
            raise ValueError("Must specify steps > 0, given: %s" % steps)
        if max_steps is not None and max_steps <= 0:
            raise ValueError("Must specify max_steps > 0, given: %s" % max_steps)
        if max_steps is not None and self._steps_done() >= max_steps:
            logging.info("Skipping training since max_steps has already saved.")
            return self
        hooks = _checked_hooks(hooks)
        if steps is not None or max_steps is not None:
            hooks.append(train.StopAtStepHook(steps, max_steps))
        loss = self._train_model(input_fn, hooks, list(saving_listeners or []))
        logging.info("Loss for final step: %s.", loss)
        return self

    def _steps_done(self):
        try:
            return int(train.load_variable(train.latest_checkpoint(self._model_dir) or "", ops.GraphKeys.GLOBAL_STEP))
        except Exception:  # noqa: BLE001 -- no checkpoint, or one without a step
            return 0

    def _train_model(self, input_fn, hooks, listeners):
        with ops.Graph().as_default() as graph, graph.device(self._device_fn()):
            self._seeded()
            step = train.create_global_step()
            features, labels, input_hooks = self._inputs(input_fn, ModeKeys.TRAIN)
            spec = self._call_model_fn(features, labels, ModeKeys.TRAIN, self._config)
            if self._warm_start is not None and not train.latest_checkpoint(self._model_dir):
                self._warm_start.apply()
            return self._run_training(graph, spec, step, input_hooks + hooks, listeners)

    def _run_training(self, graph, spec, step, hooks, listeners):
        from .. import summary
        config = self._config
        if not any(op.name == "loss" and op.type == "ScalarSummary" for op in graph.get_operations()):
            with ops.name_scope(""):
                summary.scalar("loss", spec.loss)
        every = config.log_step_count_steps
        hooks = hooks + [train.NanTensorHook(spec.loss)]
        if every:
            hooks.append(train.LoggingTensorHook({"loss": spec.loss, "step": step}, every_n_iter=every))
        if not (spec.scaffold.saver or ops.get_collection(ops.GraphKeys.SAVERS)):
            ops.add_to_collection(ops.GraphKeys.SAVERS, train.Saver(
                sharded=True, max_to_keep=config.keep_checkpoint_max,
                keep_checkpoint_every_n_hours=config.keep_checkpoint_every_n_hours,
                defer_build=True, save_relative_paths=True))
        chief_hooks = self._saving_hooks(hooks + list(spec.training_chief_hooks), spec.scaffold, listeners)
        with train.MonitoredTrainingSession(
                master=config.master, is_chief=config.is_chief, checkpoint_dir=self._model_dir, scaffold=spec.scaffold,
                hooks=hooks + list(spec.training_hooks), chief_only_hooks=list(spec.training_chief_hooks) + chief_hooks,
                save_checkpoint_secs=0, save_summaries_steps=config.save_summary_steps, config=config.session_config,
                log_step_count_steps=every, max_wait_secs=config.session_creation_timeout_secs) as session:
            loss = None
            while not session.should_stop():
                _, loss = session.run([spec.train_op, spec.loss])
        if loss is None:
            logging.warning("Training with estimator made no steps. Perhaps input is empty or misspecified.")
        return loss

    def _saving_hooks(self, hooks, scaffold, listeners):
        """A hook that saves, unless one is there already, which then gets the listeners."""
        savers = [h for h in hooks if isinstance(h, train.CheckpointSaverHook)]
        if savers:
            savers[0]._listeners.extend(listeners)
            return []
        config = self._config
        if not (config.save_checkpoints_secs or config.save_checkpoints_steps):
            if listeners:
                raise ValueError("There should be a CheckpointSaverHook to use saving_listeners. Please set one of the "
                                 "RunConfig.save_checkpoints_steps or RunConfig.save_checkpoints_secs.")
            return []
        return [train.CheckpointSaverHook(self._model_dir, save_secs=config.save_checkpoints_secs,
                                          save_steps=config.save_checkpoints_steps,
                                          scaffold=scaffold, listeners=listeners)]

    # ---- evaluation ----

    def evaluate(self, input_fn, steps=None, hooks=None, checkpoint_path=None, name=None):
        """The metrics over the whole input or so many batches: {name: value}, with "loss" and "global_step"."""
        if steps is not None and steps <= 0:
            raise ValueError("Must specify steps > 0, given: %s" % steps)
        hooks = _checked_hooks(hooks)
        checkpoint_path = checkpoint_path or train.latest_checkpoint(self._model_dir)
        if not checkpoint_path:
            logging.info("Could not find trained model in model_dir: %s, running initialization to evaluate.", self._model_dir)
        with ops.Graph().as_default():
            self._seeded()
            step = train.create_global_step()
            features, labels, input_hooks = self._inputs(input_fn, ModeKeys.EVAL)
            spec = self._call_model_fn(features, labels, ModeKeys.EVAL, self._config)
            results = self._run_evaluation(spec, step, input_hooks + hooks + ([_StopAfter(steps)] if steps else []),
                                           checkpoint_path)
        self._write_results(results, self.eval_dir(name))
        return results

    def _run_evaluation(self, spec, step, hooks, checkpoint_path):
        from .. import metrics
        measures = dict(spec.eval_metric_ops)
        if "loss" in measures:
            raise ValueError("Metric with name \"loss\" is not allowed, because Estimator already defines a default metric "
                             "with the same "
                             "name.")
        measures["loss"] = metrics.mean(spec.loss)
        update = control_flow.group(*[m[1] for m in measures.values()])
        final = {name: m[0] for name, m in measures.items()}
        if ops.GraphKeys.GLOBAL_STEP in final:
            raise ValueError("Metric with name `global_step` is not allowed, because Estimator already defines a default "
                             "metric with the "
                             "same name.")
        final[ops.GraphKeys.GLOBAL_STEP] = step
        last = train.FinalOpsHook(final)
        creator = train.ChiefSessionCreator(scaffold=spec.scaffold, checkpoint_filename_with_path=checkpoint_path,
                                            master=self._config.evaluation_master, config=self._config.session_config)
        with train.MonitoredSession(creator, hooks=hooks + list(spec.evaluation_hooks) + [last]) as session:
            while not session.should_stop():
                session.run(update)
        logging.info("Finished evaluation")
        return last.final_ops_values

    @staticmethod
    def _write_results(results, folder):
        from .. import protos, summary
        step = int(results[ops.GraphKeys.GLOBAL_STEP])
        logging.info("Saving dict for global step %d: %s", step, ", ".join("%s = %s" % i for i in sorted(results.items())))
        event = protos.Summary()
        for name, value in results.items():
            if name != ops.GraphKeys.GLOBAL_STEP and np.ndim(value) == 0 and not isinstance(value, (bytes, str)):
                event.value.add(tag=name, simple_value=float(value))
        writer = summary.FileWriterCache.get(folder)
        writer.add_summary(event, step)
        writer.flush()

    # ---- prediction ----

    def predict(self, input_fn, predict_keys=None, hooks=None, checkpoint_path=None, yield_single_examples=True):
        """Yields the predictions of the model for each example, or for each batch."""
        hooks = _checked_hooks(hooks)
        checkpoint_path = checkpoint_path or train.latest_checkpoint(self._model_dir)
        if not checkpoint_path:
            logging.info("Could not find trained model in model_dir: %s, running initialization to predict.", self._model_dir)
        with ops.Graph().as_default():
            self._seeded()
            train.create_global_step()
            given = self._inputs(input_fn, ModeKeys.PREDICT)
            spec = self._call_model_fn(given[0], None, ModeKeys.PREDICT, self._config)
            predictions = _chosen(spec.predictions, predict_keys)
            creator = train.ChiefSessionCreator(checkpoint_filename_with_path=checkpoint_path, master=self._config.master,
                                                scaffold=spec.scaffold, config=self._config.session_config)
            with train.MonitoredSession(creator, hooks=given[2] + hooks + list(spec.prediction_hooks)) as session:
                while not session.should_stop():
                    made = session.run(predictions)
                    if not yield_single_examples:
                        yield made
                    elif not isinstance(made, dict):
                        yield from made
                    else:
                        for i in range(_batch_length(made)):
                            yield {key: value[i] for key, value in made.items()}

    # ---- export ----

    def export_saved_model(self, export_dir_base, serving_input_receiver_fn, assets_extra=None, as_text=False,
                           checkpoint_path=None, experimental_mode=ModeKeys.PREDICT):
        """Writes a SavedModel below export_dir_base, in a folder named by the time; its path, as bytes."""
        if experimental_mode != ModeKeys.PREDICT:
            raise NotImplementedError("export_saved_model for the mode %r" % experimental_mode)
        return self._export(export_dir_base, serving_input_receiver_fn, assets_extra, as_text, checkpoint_path, True)

    def _export(self, export_dir_base, serving_input_receiver_fn, assets_extra, as_text, checkpoint_path, strip_default_attrs):
        checkpoint_path = checkpoint_path or self._trained()
        folder = _time_folder(export_dir_base)
        with ops.Graph().as_default():
            train.create_global_step()
            self._seeded()
            receiver = serving_input_receiver_fn()
            spec = self._call_model_fn(receiver.features, None, ModeKeys.PREDICT, self._config)
            signatures = export.signatures(receiver.receiver_tensors, spec.export_outputs,
                                           receiver.receiver_tensors_alternatives)
            with Session(config=self._config.session_config) as session:
                saver = spec.scaffold.saver or train.Saver(sharded=True)
                saver.restore(session, checkpoint_path)
                init = spec.scaffold.local_init_op or train.Scaffold.default_local_init_op()
                builder = saved_model.builder.SavedModelBuilder(folder + ".tmp")
                builder.add_meta_graph_and_variables(session, [saved_model.tag_constants.SERVING], signature_def_map=signatures,
                                                     assets_collection=ops.get_collection(ops.GraphKeys.ASSET_FILEPATHS),
                                                     main_op=init, strip_default_attrs=strip_default_attrs)
                builder.save(as_text)
        _copy_assets(assets_extra, folder + ".tmp")
        os.rename(folder + ".tmp", folder)
        return folder.encode()

    def export_savedmodel(self, export_dir_base, serving_input_receiver_fn, assets_extra=None, as_text=False,
                          checkpoint_path=None, strip_default_attrs=False):
        """Writes a SavedModel for serving below export_dir_base, and returns its folder.

        Args:
            serving_input_receiver_fn: a function that returns a ServingInputReceiver
            assets_extra: {path in the SavedModel: file to copy}
            as_text: whether to write the graph as text
            checkpoint_path: the checkpoint to export; the newest by default
            strip_default_attrs: whether to leave out attributes that have their default
        """
        return self._export(export_dir_base, serving_input_receiver_fn, assets_extra, as_text, checkpoint_path,
                            strip_default_attrs)


def _warm_start(given):
    return WarmStartSettings(given) if isinstance(given, (str, bytes)) else given


def _checked_hooks(hooks):
    hooks = list(hooks or [])
    for h in hooks:
        if not isinstance(h, train.SessionRunHook):
            raise TypeError("Hooks must be a SessionRunHook, given: %s" % (h,))
    return hooks


def _chosen(predictions, keys):
    if not keys:
        return predictions
    if not isinstance(predictions, dict):
        raise ValueError("predict_keys argument is not valid in case of non-dict predictions.")
    keys = [keys] if isinstance(keys, str) else keys
    chosen = {k: v for k, v in predictions.items() if k in keys}
    if not chosen:
        raise ValueError("Expected to run at least one output from %s, provided %s." % (list(predictions), keys))
    return chosen


def _batch_length(made):
    lengths = {len(v) for v in made.values()}
    if len(lengths) != 1:
        raise ValueError("Batch length of predictions should be same: %s" % {k: len(v) for k, v in made.items()})
    return lengths.pop()


def _time_folder(base):
    """A folder that is not there yet, named by seconds."""
    second = int(time.time())
    while os.path.exists(os.path.join(str(base), str(second))):
        second += 1
    return os.path.join(str(base), str(second))


def _copy_assets(assets, folder):
    for target, source in (assets or {}).items():
        path = os.path.join(folder, "assets.extra", target)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(source, "rb") as f, open(path, "wb") as g:
            g.write(f.read())
