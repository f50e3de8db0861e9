"""How an Estimator runs: where its files are, how often it saves, and which task of a cluster it is (TF_CONFIG)."""
import copy
import json
import os

_UNSET = object()


class TaskType:
    MASTER, PS, WORKER, CHIEF, EVALUATOR = "master", "ps", "worker", "chief", "evaluator"


_REPLACEABLE = ["model_dir", "tf_random_seed", "save_summary_steps", "save_checkpoints_steps", "save_checkpoints_secs",
                "session_config", "keep_checkpoint_max", "keep_checkpoint_every_n_hours", "log_step_count_steps", "train_distribute",
                "device_fn", "protocol", "eval_distribute", "experimental_distribute", "experimental_max_worker_delay_secs",
                "session_creation_timeout_secs"]


class RunConfig:
    def __init__(self, model_dir=None, tf_random_seed=None, save_summary_steps=100, save_checkpoints_steps=_UNSET,
                 save_checkpoints_secs=_UNSET, session_config=None, keep_checkpoint_max=5, keep_checkpoint_every_n_hours=10000,
                 log_step_count_steps=100, train_distribute=None, device_fn=None, protocol=None, eval_distribute=None,
                 experimental_distribute=None, experimental_max_worker_delay_secs=None, session_creation_timeout_secs=7200):
        if save_checkpoints_steps is _UNSET and save_checkpoints_secs is _UNSET:
            save_checkpoints_steps, save_checkpoints_secs = None, 600
        elif save_checkpoints_secs is _UNSET:
            save_checkpoints_secs = None
        elif save_checkpoints_steps is _UNSET:
            save_checkpoints_steps = None
        if save_checkpoints_steps is not None and save_checkpoints_secs is not None:
            raise ValueError("`save_checkpoints_steps` and `save_checkpoints_secs` cannot be both set.")
        if train_distribute is not None or eval_distribute is not None or experimental_distribute is not None:
            raise NotImplementedError("tf.estimator.RunConfig with a distribution strategy")
        tf_config = json.loads(os.environ.get("TF_CONFIG") or "{}")
        self._values = dict(
            model_dir=_folder(model_dir, tf_config), tf_random_seed=tf_random_seed, save_summary_steps=save_summary_steps,
            save_checkpoints_steps=save_checkpoints_steps, save_checkpoints_secs=save_checkpoints_secs,
            session_config=session_config, keep_checkpoint_max=keep_checkpoint_max,
            keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours, log_step_count_steps=log_step_count_steps,
            train_distribute=None, device_fn=device_fn, protocol=protocol, eval_distribute=None, experimental_distribute=None,
            experimental_max_worker_delay_secs=experimental_max_worker_delay_secs,
            session_creation_timeout_secs=session_creation_timeout_secs)
        _check(self._values)
        self._read_cluster(tf_config)

    def _read_cluster(self, tf_config):
        from ..train import ClusterSpec
        task = tf_config.get("task", {})
        self._cluster_spec = ClusterSpec(tf_config.get("cluster", {}))
        self._service = tf_config.get("service")
        self._task_type, self._task_id = task.get("type"), int(task.get("index", 0))
        jobs = self._cluster_spec.as_dict() if self._cluster_spec else {}
        if not jobs:
            if self._task_type not in (None, TaskType.WORKER):
                raise ValueError("If \"cluster\" is not set in TF_CONFIG, task type must be WORKER.")
            self._task_type, self._task_id = self._task_type or TaskType.WORKER, self._task_id
            self._master = self._evaluation_master = tf_config.get("session_master", "")
            self._is_chief, self._num_ps_replicas, self._num_worker_replicas, self._global_id = self._task_id == 0, 0, 1, 0
            return
        chief = next((j for j in (TaskType.CHIEF, TaskType.MASTER) if j in jobs), None)
        if chief is None and TaskType.WORKER not in jobs:
            raise ValueError("If \"cluster\" is set in TF_CONFIG, it must have one \"chief\" node.")
        if not task:
            raise ValueError("If \"cluster\" is set in TF_CONFIG, task type must be set.")
        self._num_ps_replicas = len(jobs.get(TaskType.PS, []))
        self._num_worker_replicas = len(jobs.get(TaskType.WORKER, [])) + (1 if chief else 0)
        self._is_chief = self._task_type in (TaskType.CHIEF, TaskType.MASTER) or (
            chief is None and self._task_type == TaskType.WORKER and self._task_id == 0)
        self._evaluation_master = ""
        if self._task_type == TaskType.EVALUATOR:
            self._cluster_spec, self._master, self._num_ps_replicas, self._num_worker_replicas = ClusterSpec({}), "", 0, 0
            self._global_id = None
            return
        if self._task_type not in jobs or not 0 <= self._task_id < len(jobs[self._task_type]):
            raise ValueError("%s:%d is no task of the cluster in TF_CONFIG" % (self._task_type, self._task_id))
        alone = sum(len(v) for v in jobs.values()) == 1
        self._master = tf_config.get("session_master") or ("" if alone else "grpc://" + jobs[self._task_type][self._task_id])
        order = [j for j in (TaskType.CHIEF, TaskType.MASTER, TaskType.WORKER, TaskType.PS) if j in jobs]
        before = sum(len(jobs[j]) for j in order[:order.index(self._task_type)])
        self._global_id = before + self._task_id

    def __getattr__(self, name):
        values = self.__dict__.get("_values", {})
        if name in values:
            return values[name]
        raise AttributeError(name)

    cluster_spec = property(lambda self: self._cluster_spec)
    evaluation_master = property(lambda self: self._evaluation_master)
    is_chief = property(lambda self: self._is_chief)
    master = property(lambda self: self._master)
    num_ps_replicas = property(lambda self: self._num_ps_replicas)
    num_worker_replicas = property(lambda self: self._num_worker_replicas)
    task_id = property(lambda self: self._task_id)
    task_type = property(lambda self: self._task_type)
    service = property(lambda self: self._service)
    global_id_in_cluster = property(lambda self: self._global_id)

    def replace(self, **kwargs):
        """The same with some values changed."""
        for key in kwargs:
            if key not in _REPLACEABLE:
                raise ValueError("Replacing %s is not supported. Allowed properties are %s." % (key, _REPLACEABLE))
        new = copy.copy(self)
        new._values = dict(self._values, **kwargs)
        if kwargs.get("save_checkpoints_steps") is not None and "save_checkpoints_secs" not in kwargs:
            new._values["save_checkpoints_secs"] = None
        if kwargs.get("save_checkpoints_secs") is not None and "save_checkpoints_steps" not in kwargs:
            new._values["save_checkpoints_steps"] = None
        if new._values["save_checkpoints_steps"] is not None and new._values["save_checkpoints_secs"] is not None:
            raise ValueError("`save_checkpoints_steps` and `save_checkpoints_secs` cannot be both set.")
        _check(new._values)
        return new

    def __copy__(self):
        new = RunConfig.__new__(type(self))
        new.__dict__.update(self.__dict__)
        return new


def _folder(model_dir, tf_config):
    named = tf_config.get("model_dir")
    if model_dir is not None:
        if model_dir == "":
            raise ValueError("model_dir should be non-empty")
        if named and os.fspath(model_dir) != named:
            raise ValueError("`model_dir` provided in RunConfig construct, if set, must have the same value as the model_dir in TF_CONFIG")
        return os.fspath(model_dir)
    return named


def _check(v):
    for key in ("save_summary_steps", "save_checkpoints_steps", "save_checkpoints_secs", "keep_checkpoint_max"):
        if v[key] is not None and v[key] < 0:
            raise ValueError("%s should be >= 0" % key)
    for key in ("keep_checkpoint_every_n_hours", "log_step_count_steps"):
        if v[key] is not None and v[key] <= 0:
            raise ValueError("%s should be > 0" % key)
    if v["tf_random_seed"] is not None and not isinstance(v["tf_random_seed"], int):
        raise ValueError("tf_random_seed must be integer.")
