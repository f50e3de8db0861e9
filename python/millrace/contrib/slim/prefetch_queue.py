"""slim.prefetch_queue: a queue that is filled ahead with tensors that belong together."""

from ...framework import ops
from ...ops import math

__all__ = ["prefetch_queue"]


def prefetch_queue(tensors, capacity=8, num_threads=1, dynamic_pad=False, shared_name=None, name=None):
    """A queue of such tensors, given as a list or a dictionary; dequeue gives the same form."""
    from ... import FIFOQueue, PaddingFIFOQueue, summary, train
    names = sorted(tensors) if isinstance(tensors, dict) else None
    parts = [tensors[k] for k in names] if names else list(tensors)
    with ops.name_scope(name, "prefetch_queue", parts):
        types, shapes = [t.dtype.base_dtype for t in parts], [t.shape for t in parts]
        if not dynamic_pad and not all(s.is_fully_defined() for s in shapes):
            shapes = None
        queue = (PaddingFIFOQueue if dynamic_pad else FIFOQueue)(
            capacity=capacity, dtypes=types, shapes=shapes, names=names, shared_name=shared_name)
        enqueue = queue.enqueue(dict(zip(names, parts)) if names else parts)
        train.add_queue_runner(train.QueueRunner(queue, [enqueue] * num_threads))
        summary.scalar("fraction_of_%d_full" % capacity, math.to_float(queue.size()) * (1. / capacity))
        return queue
