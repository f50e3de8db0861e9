"""Coordinator: threads that end together.

A thread asks should_stop() now and then; the first that ends, or that gets an exception (stop_on_exception), makes all of them
stop, and join() raises the exception in the thread that waits.
"""

import contextlib
import threading
import time

from .. import logging
from ..framework import errors

__all__ = ["Coordinator", "LooperThread"]


class Coordinator:
    """Stops a group of threads together, and reports the exception that stopped them."""

    def __init__(self, clean_stop_exception_types=None):
        clean = (errors.OutOfRangeError,) if clean_stop_exception_types is None else clean_stop_exception_types
        self._clean_types = tuple(clean)
        self._lock = threading.Lock()
        self._stop_event = threading.Event()
        self._raise = None
        self._joined = False
        self._registered_threads = set()

    def request_stop(self, ex=None):
        """Asks all threads to stop; the exception that is the reason, or the triple of sys.exc_info(), is raised by join()."""
        with self._lock:
            if isinstance(ex, tuple):
                ex = ex[1]
            if self._joined and ex is not None and not isinstance(ex, self._clean_types):
                raise ex
            if not self._stop_event.is_set():
                self._joined = False
                if ex is not None and not isinstance(ex, self._clean_types):
                    logging.info("Error reported to Coordinator: %s, %s", type(ex), ex)
                    self._raise = ex
                self._stop_event.set()

    def clear_stop(self):
        """Ready for new threads."""
        with self._lock:
            self._joined, self._raise = False, None
            self._stop_event.clear()

    def should_stop(self):
        """Whether the threads should stop."""
        return self._stop_event.is_set()

    @contextlib.contextmanager
    def stop_on_exception(self):
        """An exception inside becomes the reason to stop."""
        try:
            yield
        except Exception as e:
            self.request_stop(e)

    def wait_for_stop(self, timeout=None):
        """Waits until the threads should stop, or for timeout seconds; returns whether they should."""
        return self._stop_event.wait(timeout)

    def register_thread(self, thread):
        """Adds a thread that join() waits for."""
        with self._lock:
            self._registered_threads.add(thread)

    def join(self, threads=None, stop_grace_period_secs=120, ignore_live_threads=False):
        """Waits until the threads have ended; after a request to stop only for so many seconds."""
        with self._lock:
            waited = list(self._registered_threads.union(threads or ()))
        while any(t.is_alive() for t in waited) and not self.wait_for_stop(0.1):
            pass
        self.request_stop()
        deadline = time.monotonic() + stop_grace_period_secs
        for t in waited:
            t.join(max(0.0, deadline - time.monotonic()))
        alive = [t.name for t in waited if t.is_alive()]
        with self._lock:
            self._joined = True
            self._registered_threads = set()
            reason = self._raise
        if reason is not None:
            raise reason
        if alive:
            if not ignore_live_threads:
                raise RuntimeError("Coordinator stopped with threads still running: %s" % " ".join(alive))
            logging.info("Coordinator stopped with threads still running: %s", " ".join(alive))

    @property
    def joined(self):
        """Whether join was called."""
        return self._joined

    def raise_requested_exception(self):
        """Raises the exception that stopped the threads, if there is one."""
        with self._lock:
            if self._raise is not None:
                raise self._raise


class LooperThread(threading.Thread):
    """A thread that calls run_loop() again and again, or each so many seconds, until the coordinator stops."""

    def __init__(self, coord, timer_interval_secs, target=None, args=None, kwargs=None):
        if not isinstance(coord, Coordinator):
            raise ValueError("'coord' argument must be a Coordinator: %s" % coord)
        super().__init__()
        self.daemon = True
        self._coord, self._timer_interval_secs, self._target = coord, timer_interval_secs, target
        if target:
            self._args, self._kwargs = args or (), kwargs or {}
        elif args or kwargs:
            raise ValueError("'args' and 'kwargs' argument require that you also pass 'target'")
        coord.register_thread(self)

    @staticmethod
    def loop(coord, timer_interval_secs, target, args=None, kwargs=None):
        """Starts one that calls target."""
        looper = LooperThread(coord, timer_interval_secs, target=target, args=args, kwargs=kwargs)
        looper.start()
        return looper

    def run(self):
        with self._coord.stop_on_exception():
            self.start_loop()
            if self._timer_interval_secs is None:
                while not self._coord.should_stop():
                    self.run_loop()
            else:
                due = time.time()
                while not self._coord.wait_for_stop(max(0.0, due - time.time())):
                    due += self._timer_interval_secs
                    self.run_loop()
            self.stop_loop()

    def start_loop(self):
        """Is called once before the loop."""

    def stop_loop(self):
        """Is called once after the loop."""

    def run_loop(self):
        """Is called in each round; calls the target of the thread."""
        if self._target:
            self._target(*self._args, **self._kwargs)
