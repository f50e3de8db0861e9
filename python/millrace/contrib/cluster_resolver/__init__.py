"""tf.contrib.cluster_resolver: where the tasks of a cluster are."""
import json
import os

from ...train.server import ClusterSpec

__all__ = ["ClusterResolver", "SimpleClusterResolver", "TFConfigClusterResolver", "UnionClusterResolver"]


class ClusterResolver:
    """The base: cluster_spec() says which tasks there are, master() where a session's master is."""

    task_type = task_id = None
    rpc_layer = "grpc"

    def cluster_spec(self):
        """Returns the ClusterSpec; subclasses define it."""
        raise NotImplementedError("%s has no cluster_spec" % type(self).__name__)

    def master(self, task_type=None, task_id=None, rpc_layer=None):
        """Returns the address of a task, by default this one, with the protocol if rpc_layer is set."""
        kind = self.task_type if task_type is None else task_type
        index = self.task_id if task_id is None else task_id
        if kind is None or index is None:
            return ""
        return _target(self.cluster_spec().task_address(kind, index), rpc_layer or self.rpc_layer)


def _target(address, rpc_layer):
    return "%s://%s" % (rpc_layer, address) if rpc_layer and address else address


class SimpleClusterResolver(ClusterResolver):
    """A ClusterSpec that is known."""

    def __init__(self, cluster_spec, master="", task_type=None, task_id=None, environment="", num_accelerators=None,
                 rpc_layer=None):
        if not isinstance(cluster_spec, ClusterSpec):
            raise TypeError("cluster_spec must be a ClusterSpec.")
        self._cluster_spec, self._master = cluster_spec, master
        self.task_type, self.task_id, self.environment, self.rpc_layer = task_type, task_id, environment, rpc_layer

    def cluster_spec(self):
        return self._cluster_spec

    def master(self, task_type=None, task_id=None, rpc_layer=None):
        if task_type is not None and task_id is not None:
            return super().master(task_type, task_id, rpc_layer)
        return _target(self._master, rpc_layer or self.rpc_layer)


class TFConfigClusterResolver(ClusterResolver):
    """The environment's TF_CONFIG."""

    def __init__(self, task_type=None, task_id=None, rpc_layer=None, environment=None):
        task = self._config().get("task", {})
        self.task_type = task.get("type") if task_type is None else task_type
        index = task.get("index") if task_id is None else task_id
        self.task_id = None if index is None else int(index)
        self.rpc_layer = rpc_layer or self._config().get("rpc_layer") or "grpc"
        self.environment = environment or self._config().get("environment", "")

    @staticmethod
    def _config():
        return json.loads(os.environ.get("TF_CONFIG") or "{}")

    def cluster_spec(self):
        return ClusterSpec(self._config().get("cluster", {}))

    def master(self, task_type=None, task_id=None, rpc_layer=None):
        return super().master(task_type, task_id, rpc_layer) if self.cluster_spec() else ""


class UnionClusterResolver(ClusterResolver):
    """Combines several resolvers; earlier ones take precedence."""

    def __init__(self, *resolvers, **kwargs):
        if not resolvers:
            raise ValueError("At least one ClusterResolver must be specified.")
        self._resolvers = resolvers
        self.task_type, self.task_id = kwargs.get("task_type"), kwargs.get("task_id")
        self.rpc_layer = kwargs.get("rpc_layer", "grpc")

    def cluster_spec(self):
        merged = {}
        for r in reversed(self._resolvers):
            spec = r.cluster_spec()
            for job in spec.jobs:
                tasks = merged.setdefault(job, {})
                tasks.update((i, spec.task_address(job, i)) for i in spec.task_indices(job))
        return ClusterSpec(merged)

    def master(self, task_type=None, task_id=None, rpc_layer=None):
        if task_type is not None and task_id is not None:
            return super().master(task_type, task_id, rpc_layer)
        return self._resolvers[0].master(rpc_layer=rpc_layer)
