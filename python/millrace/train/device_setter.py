"""replica_device_setter: a device function that gives variables to parameter servers and the rest to the worker."""

from .. import protos
from ..framework import device as device_lib
from . import server

__all__ = ["replica_device_setter"]

STANDARD_PS_OPS = ("Variable", "VariableV2", "AutoReloadVariable", "MutableHashTable", "MutableHashTableV2",
                   "MutableHashTableOfTensors", "MutableHashTableOfTensorsV2", "MutableDenseHashTable",
                   "MutableDenseHashTableV2",
                   "VarHandleOp", "BoostedTreesEnsembleResourceHandleOp", "BoostedTreesQuantileStreamResourceHandleOp",
                   "ResourceConditionalAccumulator", "DecisionTreeResource")


class _RoundRobinStrategy:
    """One task after the other."""

    def __init__(self, num_tasks):
        self._num_tasks, self._next_task = num_tasks, 0

    def __call__(self, op):
        task = self._next_task
        self._next_task = (task + 1) % self._num_tasks
        return task


class _Chooser:
    def __init__(self, ps_tasks, ps_device, worker_device, merge_devices, ps_ops, ps_strategy):
        self._ps_tasks, self._ps_device, self._worker_device = ps_tasks, ps_device, worker_device
        self._merge_devices, self._ps_ops, self._ps_strategy = merge_devices, ps_ops, ps_strategy

    def device_function(self, op):
        if not self._merge_devices and op.device:
            return op.device
        asked = device_lib.DeviceSpec.from_string(op.device or "")
        kind = op.op if isinstance(op, protos.NodeDef) else op.type
        if self._ps_tasks and self._ps_device and kind in self._ps_ops:
            chosen = device_lib.DeviceSpec.from_string(self._ps_device)
            if chosen.job and (not asked.job or asked.job == chosen.job):
                chosen.task = self._ps_strategy(op)
        else:
            chosen = device_lib.DeviceSpec.from_string(self._worker_device or "")
        chosen.merge_from(asked)
        return chosen.to_string()


def replica_device_setter(ps_tasks=0, ps_device="/job:ps", worker_device="/job:worker", merge_devices=True, cluster=None,
                          ps_ops=None, ps_strategy=None):
    """Returns a device function that places variables on parameter servers; None if there are none."""
    if cluster is not None:
        tasks = server.ClusterSpec(cluster).as_dict()
        job = device_lib.DeviceSpec.from_string(ps_device).job
        if job not in tasks:
            return None
        ps_tasks = len(tasks[job])
    if ps_tasks == 0:
        return None
    if ps_strategy is None:
        ps_strategy = _RoundRobinStrategy(ps_tasks)
    if not callable(ps_strategy):
        raise TypeError("ps_strategy must be callable")
    return _Chooser(ps_tasks, ps_device, worker_device, merge_devices, STANDARD_PS_OPS if ps_ops is None else ps_ops,
                    ps_strategy).device_function
