"""Which parameter server a variable goes to, for replica_device_setter(ps_strategy=...)."""

import random

__all__ = ["GreedyLoadBalancingStrategy", "RandomStrategy", "byte_size_load_fn"]


def byte_size_load_fn(op):
    """Returns the size in bytes of the variable of an operation; an unknown shape is an error."""
    if len(op.outputs) != 1:
        raise ValueError("Op %s must have a single output" % op)
    output = op.outputs[0]
    if op.type == "VarHandleOp":
        shape, dtype = op.get_attr("shape"), op.get_attr("dtype")
    else:
        shape, dtype = output.get_shape(), output.dtype.base_dtype
    shape.assert_is_fully_defined()
    return dtype.size * shape.num_elements()


class RandomStrategy:
    """Any, the same ones for a seed."""

    def __init__(self, num_ps_tasks, seed=0):
        self._num_ps_tasks, self._random = num_ps_tasks, random.Random(seed)

    def __call__(self, op):
        return self._random.randrange(self._num_ps_tasks)


class GreedyLoadBalancingStrategy:
    """The one with the smallest load so far."""

    def __init__(self, num_tasks, load_fn):
        self._load_fn, self._loads = load_fn, [0] * num_tasks

    def __call__(self, op):
        task = min(range(len(self._loads)), key=lambda i: self._loads[i])
        self._loads[task] += self._load_fn(op)
        return task
