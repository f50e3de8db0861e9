"""RunConfig: where and how often, and which task of a cluster this process is.

The cluster comes from the environment: TF_CONFIG = {"cluster": {"chief": [...], "worker": [...], "ps": [...]},
"task": {"type": "worker", "index": 0}}.
"""

import copy
import json
import os

_DEFAULT = object()


class TaskType:
    """The kinds of tasks in a cluster."""
    MASTER, PS, WORKER, CHIEF, EVALUATOR = "master", "ps", "worker", "chief", "evaluator"


class RunConfig:
    """How an Estimator runs; it is immutable, and replace() returns a changed copy."""

    _REPLACEABLE = ("model_dir", "tf_random_seed", "save_summary_steps", "save_checkpoints_steps", "save_checkpoints_secs",
                    "session_config", "keep_checkpoint_max", "keep_checkpoint_every_n_hours", "log_step_count_steps",
                    "train_distribute", "device_fn", "protocol", "eval_distribute", "experimental_distribute",
                    "experimental_max_worker_delay_secs", "session_creation_timeout_secs")

    def __init__(self, model_dir=None, tf_random_seed=None, save_summary_steps=100, save_checkpoints_steps=_DEFAULT,
                 save_checkpoints_secs=_DEFAULT, session_config=None, keep_checkpoint_max=5,
                 keep_checkpoint_every_n_hours=10000,
                 log_step_count_steps=100, train_distribute=None, device_fn=None, protocol=None, eval_distribute=None,
                 experimental_distribute=None, experimental_max_worker_delay_secs=None, session_creation_timeout_secs=7200):
        if save_checkpoints_steps is _DEFAULT and save_checkpoints_secs is _DEFAULT:
            save_checkpoints_steps, save_checkpoints_secs = None, 600
        elif save_checkpoints_secs is _DEFAULT:
            save_checkpoints_secs = None
        elif save_checkpoints_steps is _DEFAULT:
            save_checkpoints_steps = None
        elif save_checkpoints_steps is not None and save_checkpoints_secs is not None:
            raise ValueError("`save_checkpoints_steps` and `save_checkpoints_secs` cannot be both set.")
        for wish in (train_distribute, eval_distribute, experimental_distribute):
            if wish is not None:
                raise NotImplementedError("RunConfig with a DistributionStrategy")
        config = json.loads(os.environ.get("TF_CONFIG") or "{}")
        self._values = {
            "model_dir": _model_dir(model_dir, config), "tf_random_seed": tf_random_seed,
            "save_summary_steps": save_summary_steps,
            "save_checkpoints_steps": save_checkpoints_steps, "save_checkpoints_secs": save_checkpoints_secs,
            "session_config": session_config, "keep_checkpoint_max": keep_checkpoint_max,
            "keep_checkpoint_every_n_hours": keep_checkpoint_every_n_hours, "log_step_count_steps": log_step_count_steps,
            "train_distribute": None, "device_fn": device_fn, "protocol": protocol, "eval_distribute": None,
            "experimental_distribute": None, "experimental_max_worker_delay_secs": experimental_max_worker_delay_secs,
            "session_creation_timeout_secs": session_creation_timeout_secs}
        self._check()
        self._take_cluster(config)
        if session_config is None and self._master:
            self._values["session_config"] = self._config_of_task()

    def _check(self):
        v = self._values
        for name in "save_summary_steps", "save_checkpoints_steps", "save_checkpoints_secs", "log_step_count_steps":
            if v[name] is not None and v[name] < 0:
                raise ValueError("%s should be >= 0" % name)
        if v["keep_checkpoint_max"] is not None and v["keep_checkpoint_max"] < 0:
            raise ValueError("keep_checkpoint_max should be >= 0")
        if v["keep_checkpoint_every_n_hours"] <= 0:
            raise ValueError("keep_checkpoint_every_n_hours should be > 0")
        if v["device_fn"] is not None and not callable(v["device_fn"]):
            raise ValueError("device_fn must be callable")

    def _take_cluster(self, config):
        from ..train import ClusterSpec
        cluster, task = config.get("cluster") or {}, config.get("task") or {}
        self._service = config.get("service")
        self._cluster_spec = ClusterSpec(cluster)
        self._task_type, self._task_id = task.get("type"), task.get("index")
        if not cluster:
            self._take_single(config)
            return
        if self._task_type is None or self._task_id is None:
            raise ValueError("If `cluster` is set in TF_CONFIG, it must have task type and task index.")
        self._task_id = int(self._task_id)
        if TaskType.MASTER not in cluster and len(cluster.get(TaskType.CHIEF, ())) != 1:
            raise ValueError("If `cluster` is set in TF_CONFIG, it must have one `chief` node.")
        if self._task_id < 0:
            raise ValueError("Task index must be non-negative number.")
        if self._task_type == TaskType.EVALUATOR:  # it is none of the cluster's tasks
            self._cluster_spec, self._master, self._is_chief = ClusterSpec({}), "", False
            self._num_ps_replicas = self._num_worker_replicas = 0
            return
        if self._task_type not in cluster:
            raise ValueError("%s is not a valid task_type in the cluster_spec: %s" % (self._task_type, cluster))
        if self._task_id >= len(cluster[self._task_type]):
            raise ValueError("%d is not a valid task_id for task_type %s in the cluster_spec: %s" %
                             (self._task_id, self._task_type, cluster))
        alone = sum(len(tasks) for tasks in cluster.values()) == 1
        self._master = "" if alone else (config.get("session_master") or "grpc://" + cluster[self._task_type][self._task_id])
        self._is_chief = self._task_type in (TaskType.CHIEF, TaskType.MASTER)
        self._num_ps_replicas = len(cluster.get(TaskType.PS, ()))
        self._num_worker_replicas = sum(len(cluster.get(t, ())) for t in (TaskType.WORKER, TaskType.CHIEF, TaskType.MASTER))

    def _config_of_task(self):
        """Sessions that know of this task and the parameter servers only, so that they need not wait for other workers."""
        from .. import protos
        own = "/job:%s" % self._task_type if self._is_chief else "/job:%s/task:%d" % (self._task_type, self._task_id)
        return protos.ConfigProto(allow_soft_placement=True, device_filters=["/job:ps", own])

    def _take_single(self, config):
        self._task_type, self._task_id = self._task_type or TaskType.WORKER, int(self._task_id or 0)
        self._master, self._is_chief = config.get("session_master") or "", self._task_type != TaskType.EVALUATOR
        self._num_ps_replicas, self._num_worker_replicas = 0, 1

    cluster_spec = property(lambda self: self._cluster_spec, doc="The ClusterSpec of TF_CONFIG.")
    task_type = property(lambda self: self._task_type, doc="The kind of this task, one of TaskType.")
    task_id = property(lambda self: self._task_id, doc="The number of this task among those of its kind.")
    master = property(lambda self: self._master, doc="The target of the session.")
    evaluation_master = property(lambda self: "", doc="The target of the session for evaluation, \"\".")
    is_chief = property(lambda self: self._is_chief, doc="Whether this task is the chief.")
    num_ps_replicas = property(lambda self: self._num_ps_replicas, doc="The number of parameter servers.")
    num_worker_replicas = property(lambda self: self._num_worker_replicas,
                                   doc="The number of workers, including the chief.")
    service = property(lambda self: self._service, doc="The entry \"service\" of TF_CONFIG, or None.")

    @property
    def global_id_in_cluster(self):
        """The chief is 0, then the workers, then parameter servers."""
        before = 0
        order = [TaskType.CHIEF, TaskType.MASTER, TaskType.WORKER] + sorted(
            set(self._cluster_spec.jobs) - {TaskType.CHIEF, TaskType.MASTER, TaskType.WORKER, TaskType.PS}) + [TaskType.PS]
        for job in order:
            if job == self._task_type:
                return before + self._task_id
            if job in self._cluster_spec.jobs:
                before += self._cluster_spec.num_tasks(job)
        return before

    def replace(self, **kwargs):
        """Returns a copy with these settings changed."""
        for key in kwargs:
            if key not in self._REPLACEABLE:
                raise ValueError("Replacing %s is not supported. Allowed properties are %s." % (key, list(self._REPLACEABLE)))
        if kwargs.get("save_checkpoints_steps") and kwargs.get("save_checkpoints_secs"):
            raise ValueError("`save_checkpoints_steps` and `save_checkpoints_secs` cannot be both set.")
        other = copy.copy(self)
        other._values = dict(self._values, **kwargs)
        if kwargs.get("save_checkpoints_steps") is not None:
            other._values["save_checkpoints_secs"] = None
        elif kwargs.get("save_checkpoints_secs") is not None:
            other._values["save_checkpoints_steps"] = None
        other._check()
        return other


for _name in RunConfig._REPLACEABLE:
    setattr(RunConfig, _name, property(lambda self, name=_name: self._values[name],
                                       doc="The argument %s of the constructor." % _name))


def _model_dir(given, config):
    found = config.get("model_dir")
    if given is not None and found is not None and given != found:
        raise ValueError("`model_dir` provided in RunConfig construct, if set, must have the same value as the model_dir in "
                         "TF_CONFIG. "
                         "model_dir: %s TF_CONFIG[\"model_dir\"]: %s." % (given, found))
    return given if found is None else found
