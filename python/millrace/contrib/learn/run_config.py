"""RunConfig of tf.contrib.learn, whose chief is the task "master", or the first worker when there is none."""

import json
import os

from ...estimator import run_config as core

_DEFAULT_UID_WHITE_LIST = ["tf_random_seed", "save_summary_steps", "save_checkpoints_steps", "save_checkpoints_secs",
                           "session_config",
                           "keep_checkpoint_max", "keep_checkpoint_every_n_hours", "log_step_count_steps"]


class TaskType:
    """The kinds of tasks in a cluster."""
    MASTER, PS, WORKER = "master", "ps", "worker"


class Environment:
    """Where a program runs."""
    CLOUD, GOOGLE, LOCAL = "cloud", "google", "local"


class RunConfig(core.RunConfig):
    """How an estimator runs: cluster, session, checkpoints and summaries."""

    def __init__(self, master=None, num_cores=0, log_device_placement=False, gpu_memory_fraction=1, tf_random_seed=None,
                 save_summary_steps=100, save_checkpoints_secs=600, save_checkpoints_steps=None, keep_checkpoint_max=5,
                 keep_checkpoint_every_n_hours=10000, log_step_count_steps=100, protocol=None, evaluation_master="",
                 model_dir=None,
                 session_config=None):
        self._given_master, self._evaluation_master = master, evaluation_master
        if session_config is None and (num_cores or log_device_placement or gpu_memory_fraction != 1):
            from ... import protos
            session_config = protos.ConfigProto(log_device_placement=log_device_placement,
                                                inter_op_parallelism_threads=num_cores,
                                                intra_op_parallelism_threads=num_cores)
            session_config.gpu_options.per_process_gpu_memory_fraction = gpu_memory_fraction
        if save_checkpoints_steps is not None:
            save_checkpoints_secs = None
        super().__init__(model_dir=model_dir, tf_random_seed=tf_random_seed, save_summary_steps=save_summary_steps,
                         save_checkpoints_steps=save_checkpoints_steps, save_checkpoints_secs=save_checkpoints_secs,
                         session_config=session_config, keep_checkpoint_max=keep_checkpoint_max,
                         keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours, log_step_count_steps=log_step_count_steps,
                         protocol=protocol)

    def _take_cluster(self, config):
        from ...train import ClusterSpec
        cluster, task = config.get("cluster") or {}, config.get("task") or {}
        self._service, self._cluster_spec = None, ClusterSpec(cluster)
        self._task_type, self._task_id = task.get("type"), int(task.get("index") or 0)
        self._num_ps_replicas = len(cluster.get("ps", ()))
        self._num_worker_replicas = sum(len(cluster.get(job, ())) for job in ("worker", "master", "chief"))
        own = cluster.get(self._task_type, ())
        default = "grpc://" + own[self._task_id] if self._task_id < len(own) and sum(map(len, cluster.values())) > 1 else ""
        self._master = default if self._given_master is None else self._given_master
        leads = self._task_type in ("master", "chief")
        self._is_chief = leads or not cluster or (self._task_type == "worker" and self._task_id == 0 and
                                                  "master" not in cluster and
                                                  "chief" not in cluster)

    evaluation_master = property(lambda self: self._evaluation_master, doc="The target of the session for evaluation.")

    @property
    def environment(self):
        """The entry "environment" of TF_CONFIG, or "local"."""
        return (json.loads(os.environ.get("TF_CONFIG") or "{}")).get("environment", Environment.LOCAL)

    @property
    def tf_config(self):
        """The ConfigProto of the session."""
        return self.session_config
