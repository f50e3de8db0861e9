"""slim.queues: queue runners for the length of a block."""

import contextlib

__all__ = ["NestedQueueRunnerError", "QueueRunners"]


class NestedQueueRunnerError(Exception):
    """A block of queue runners within another."""


@contextlib.contextmanager
def QueueRunners(session):  # noqa: N802 -- TensorFlow's name
    """A context manager that runs the queue runners of the graph in a session."""
    from ... import train
    coord = train.Coordinator()
    threads = train.start_queue_runners(session, coord)
    try:
        yield
    finally:
        coord.request_stop()
        coord.join(threads, stop_grace_period_secs=120)
