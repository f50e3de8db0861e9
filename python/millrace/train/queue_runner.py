"""QueueRunner: threads that fill a queue by running its enqueue operations until the input ends or the coordinator stops."""

import threading
import weakref

from .. import logging
from ..framework import errors, ops
from ..framework.session import BaseSession

__all__ = ["QueueRunner", "add_queue_runner", "start_queue_runners"]


class QueueRunner:
    """Keeps a queue filled: one thread an enqueue operation."""

    def __init__(self, queue=None, enqueue_ops=None, close_op=None, cancel_op=None, queue_closed_exception_types=None,
                 queue_runner_def=None, import_scope=None):
        if queue_runner_def is not None:
            if queue or enqueue_ops:
                raise ValueError("queue_runner_def and queue are mutually exclusive.")
            self._from_def(queue_runner_def, import_scope)
        else:
            if queue is None or not enqueue_ops:
                raise ValueError("Must provide queue and enqueue_ops.")
            self._queue, self._enqueue_ops = queue, list(enqueue_ops)
            self._close_op = queue.close() if close_op is None else close_op
            self._cancel_op = queue.close(cancel_pending_enqueues=True) if cancel_op is None else cancel_op
            self._closed_types = _checked_types(queue_closed_exception_types or (errors.OutOfRangeError,))
        self._lock = threading.Lock()
        self._exceptions_raised = []
        self._runs = weakref.WeakKeyDictionary()  # session -> threads of it that still run

    queue = property(lambda self: self._queue, doc="The queue.")
    enqueue_ops = property(lambda self: self._enqueue_ops, doc="The operations to run, a thread for each.")
    close_op = property(lambda self: self._close_op, doc="The operation that closes the queue.")
    cancel_op = property(lambda self: self._cancel_op,
                         doc="The operation that closes the queue and cancels pending enqueues.")
    queue_closed_exception_types = property(lambda self: self._closed_types,
                                            doc="The exceptions that mean that the queue was closed.")
    name = property(lambda self: getattr(self._queue, "name", None), doc="The name of the queue.")
    exceptions_raised = property(lambda self: self._exceptions_raised, doc="The exceptions that threads have raised.")

    def create_threads(self, sess, coord=None, daemon=False, start=False):
        """The threads for a session; none while those made before still run."""
        with self._lock:
            if self._runs.get(sess, 0) > 0:
                return []
            self._runs[sess] = len(self._enqueue_ops)
            self._exceptions_raised = []
        threads = [threading.Thread(target=self._run, args=(sess, op, coord), name="QueueRunnerThread-%s-%s" %
                                    (self.name, op.name))
                   for op in self._enqueue_ops]
        if coord:
            threads.append(threading.Thread(target=self._close_on_stop, args=(sess, coord),
                                            name="QueueRunnerThread-%s-close_on_stop" % self.name))
        for t in threads:
            t.daemon = daemon
            if coord:
                coord.register_thread(t)
            if start:
                t.start()
        return threads

    def _run(self, sess, enqueue_op, coord):
        ended = False
        try:
            enqueue = sess.make_callable(enqueue_op)
            while not (coord and coord.should_stop()):
                try:
                    enqueue()
                except self._closed_types:
                    ended = True
                    if self._one_less(sess):
                        self._try(sess, self._close_op)
                    return
        except Exception as e:
            if coord and coord.joined and isinstance(e, errors.CancelledError):
                pass  # the session was closed, and nobody is waiting
            elif coord:
                coord.request_stop(e)
                if not isinstance(e, errors.CancelledError):
                    logging.error("Exception in QueueRunner: %s", e)
                    self._exceptions_raised.append(e)
            else:
                self._exceptions_raised.append(e)
                raise
        finally:
            if not ended:
                self._one_less(sess)

    def _one_less(self, sess):
        """Whether this was the session's last thread."""
        with self._lock:
            self._runs[sess] -= 1
            return self._runs[sess] == 0

    def _close_on_stop(self, sess, coord):
        coord.wait_for_stop()
        self._try(sess, self._cancel_op)

    @staticmethod
    def _try(sess, op):
        try:
            sess.run(op)
        except Exception as e:  # the session may be gone, and with it the queue
            logging.vlog(1, "Ignored exception: %s", e)

    # ---- messages ----

    def to_proto(self, export_scope=None):
        """Returns a QueueRunnerDef, or None if the queue is outside of export_scope."""
        from .. import protos
        if export_scope is not None and not self.queue.name.startswith(export_scope):
            return None
        strip = lambda name: ops.strip_name_scope(name, export_scope)
        d = protos.QueueRunnerDef(queue_name=strip(self.queue.name), close_op_name=strip(self.close_op.name),
                                  cancel_op_name=strip(self.cancel_op.name),
                                  enqueue_op_name=[strip(op.name) for op in self.enqueue_ops])
        d.queue_closed_exception_types.extend(errors.error_code_from_exception_type(t) for t in self._closed_types)
        return d

    @staticmethod
    def from_proto(queue_runner_def, import_scope=None):
        """Makes a QueueRunner from a QueueRunnerDef."""
        return QueueRunner(queue_runner_def=queue_runner_def, import_scope=import_scope)

    def _from_def(self, d, import_scope):
        graph = ops.get_default_graph()
        element = lambda name: graph.as_graph_element(ops.prepend_name_scope(name, import_scope))
        self._queue = element(d.queue_name)
        self._enqueue_ops = [element(name) for name in d.enqueue_op_name]
        self._close_op, self._cancel_op = element(d.close_op_name), element(d.cancel_op_name)
        codes = [errors.exception_type_from_error_code(int(c)) for c in d.queue_closed_exception_types]
        self._closed_types = tuple(codes) or (errors.OutOfRangeError,)


def _checked_types(types):
    if not isinstance(types, tuple) or not types or not all(isinstance(t, type) and issubclass(t, errors.OpError)
                                                            for t in types):
        raise TypeError("queue_closed_exception_types, when provided, must be a tuple of tf.error types, but saw: %s" %
                        (types,))
    return types


def add_queue_runner(qr, collection=ops.GraphKeys.QUEUE_RUNNERS):
    """Adds a queue runner to a collection, for start_queue_runners."""
    ops.add_to_collection(collection, qr)


def start_queue_runners(sess=None, coord=None, daemon=True, start=True, collection=ops.GraphKeys.QUEUE_RUNNERS):
    """Starts the threads of all queue runners of the graph; the list of them."""
    if sess is None:
        sess = ops.get_default_session()
        if not sess:
            raise ValueError("Cannot start queue runners: No default session is registered. Use `with sess.as_default()` or "
                             "pass an "
                             "explicit session to tf.start_queue_runners(sess=sess)")
    if not isinstance(sess, BaseSession):
        if type(sess).__name__ in ("MonitoredSession", "SingularMonitoredSession"):
            return []  # it has started them
        raise TypeError("sess must be a `tf.Session` object. Given class: %s" % type(sess))
    runners = ops.get_collection(collection) if sess.graph is ops.get_default_graph() else sess.graph.get_collection(collection)
    if not runners:
        logging.warning("`tf.train.start_queue_runners()` was called when no queue runners were defined. You can safely remove "
                        "the call to this deprecated function.")
    with sess.graph.as_default():
        return [t for qr in runners for t in qr.create_threads(sess, coord=coord, daemon=daemon, start=start)]
