"""Event files, as TensorBoard reads them: records of Event messages, the first of which has the version.

A thread writes what is put into a queue, so that a training does not wait for the disk; flush() waits until all of it is
written. Writers that are still open when the program ends are flushed.
"""
import atexit
import os
import queue
import socket
import threading
import time
import weakref

from .. import protos
from ..compat import path_to_str
from ..file_io import _Errors, as_path
from ..framework import ops
from ..python_io import framed, tf_record_iterator

_open_writers = weakref.WeakSet()


def _flush_all():
    for writer in list(_open_writers):
        writer.flush()


atexit.register(_flush_all)


class EventFileWriter:
    """Appends events to a new file in logdir, events.out.tfevents.SECONDS.HOST."""

    def __init__(self, logdir, max_queue=10, flush_secs=120, filename_suffix=None):
        self._logdir = as_path(logdir)
        self._suffix, self._flush_secs = filename_suffix or "", flush_secs
        with _Errors(self._logdir):
            os.makedirs(self._logdir, exist_ok=True)
        self._queue = queue.Queue(max_queue or 0)
        self._lock = threading.Lock()  # of the file, against reopening
        self._file = None
        self.reopen()

    def get_logdir(self):
        """Returns the folder of the event file."""
        return self._logdir

    def _new_file(self):
        name = "events.out.tfevents.%010d.%s%s" % (time.time(), socket.gethostname(), self._suffix)
        path = os.path.join(self._logdir, name)
        with _Errors(path):
            file = open(path, "ab")
            file.write(framed(protos.Event(wall_time=time.time(), file_version="brain.Event:2").SerializeToString()))
            file.flush()
        return file

    def reopen(self):
        """Begins another file, if the writer was closed."""
        if self._file is None:
            self._file = self._new_file()
            self._thread = threading.Thread(target=_write_loop, args=(self._queue, self._file, self._flush_secs), daemon=True)
            self._thread.start()
            _open_writers.add(self)

    @property
    def is_closed(self):
        """Whether the file is closed."""
        return self._file is None

    def add_event(self, event):
        """Adds an Event message to be written."""
        if self._file is not None:
            self._queue.put(event.SerializeToString())

    def flush(self):
        """Writes all events to the file."""
        if self._file is not None:
            self._put_word(_FLUSH)

    def _put_word(self, kind):
        word = kind()
        self._queue.put(word)
        while not word.done.wait(1):
            if not self._thread.is_alive():  # as it is when the interpreter ends
                return
        if word.error is not None:
            with _Errors(self._file.name):
                raise word.error

    def close(self):
        """Writes all events and closes the file."""
        if self._file is not None:
            self._put_word(_CLOSE)
            self._thread.join()
            self._file = None
            _open_writers.discard(self)


class _FLUSH:
    """To the thread: tell when all before this is written."""
    closes = False

    def __init__(self):
        self.done, self.error = threading.Event(), None


class _CLOSE(_FLUSH):
    closes = True


def _write_loop(events, file, flush_secs):
    """Runs in the thread. A disk error is raised by the next flush."""
    next_flush, error = time.monotonic() + flush_secs, None
    while True:
        try:
            item = events.get(timeout=max(0.0, next_flush - time.monotonic()))
        except queue.Empty:
            item = None
        try:
            if isinstance(item, bytes):
                file.write(framed(item))
            if not isinstance(item, bytes) or time.monotonic() >= next_flush:
                file.close() if item is not None and item.closes else file.flush()
                next_flush = time.monotonic() + flush_secs
        except OSError as e:
            error = e
        if isinstance(item, _FLUSH):
            item.error, error = error, None
            item.done.set()
            if item.closes:
                return


class SummaryToEventTransformer:
    """Makes events of summaries, graphs and the rest, for an event_writer."""

    def __init__(self, event_writer, graph=None, graph_def=None):
        self.event_writer = event_writer
        self._session_run_tags, self._seen_summary_tags = set(), set()
        if graph is not None or graph_def is not None:
            self.add_graph(graph=graph, graph_def=graph_def)
            self.add_meta_graph(_meta_graph(graph_def if graph_def is not None else graph))

    def add_summary(self, summary, global_step=None):
        """A Summary, or one as bytes.  Plugin data of a tag is only written the first time."""
        s = protos.Summary()
        if isinstance(summary, (bytes, bytearray)):
            s.ParseFromString(bytes(summary))
        else:
            s.CopyFrom(summary)
        for value in s.value:
            if value.HasField("metadata"):
                if value.tag in self._seen_summary_tags:
                    value.ClearField("metadata")
                else:
                    self._seen_summary_tags.add(value.tag)
        self._add_event(protos.Event(summary=s), global_step)

    def add_session_log(self, session_log, global_step=None):
        """Adds a SessionLog message."""
        self._add_event(protos.Event(session_log=session_log), global_step)

    def add_graph(self, graph, global_step=None, graph_def=None):
        """Adds a graph; graph_def is an old form of the argument."""
        if graph is not None and graph_def is not None:
            raise ValueError("Please pass only graph, or graph_def (deprecated), but not both.")
        given = graph_def if graph is None else graph
        if isinstance(given, ops.Graph):
            given = given.as_graph_def(add_shapes=True)
        elif not isinstance(given, protos.GraphDef):
            raise TypeError("The passed graph must be an instance of `Graph` or the deprecated `GraphDef`")
        self._add_event(protos.Event(graph_def=given.SerializeToString()), global_step)

    def add_meta_graph(self, meta_graph_def, global_step=None):
        """Adds a MetaGraphDef."""
        if not isinstance(meta_graph_def, protos.MetaGraphDef):
            raise TypeError("meta_graph_def must be type MetaGraphDef, saw type: %s" % type(meta_graph_def))
        self._add_event(protos.Event(meta_graph_def=meta_graph_def.SerializeToString()), global_step)

    def add_run_metadata(self, run_metadata, tag, global_step=None):
        """Adds the RunMetadata of a step under a tag that was not used before."""
        if tag in self._session_run_tags:
            raise ValueError("The provided tag was already used for this event type")
        self._session_run_tags.add(tag)
        event = protos.Event()
        event.tagged_run_metadata.tag = tag
        event.tagged_run_metadata.run_metadata = run_metadata.SerializeToString()
        self._add_event(event, global_step)

    def _add_event(self, event, step):
        event.wall_time = time.time()
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)


def _meta_graph(graph):
    """A MetaGraphDef with the graph and the definitions of its ops."""
    from ..framework.meta_graph import create_meta_graph_def
    return create_meta_graph_def(graph_def=graph.as_graph_def(add_shapes=True) if isinstance(graph, ops.Graph) else graph)


class FileWriter(SummaryToEventTransformer):
    """Writes summaries and graphs to a new file of events in a folder."""

    def __init__(self, logdir, graph=None, max_queue=10, flush_secs=120, graph_def=None, filename_suffix=None, session=None):
        if session is not None:
            raise NotImplementedError("tf.summary.FileWriter(session=...): writing by ops of a session's graph")
        super().__init__(EventFileWriter(path_to_str(logdir), max_queue, flush_secs, filename_suffix), graph, graph_def)

    def get_logdir(self):
        """Returns the folder of the event file."""
        return self.event_writer.get_logdir()

    def add_event(self, event):
        """Adds an Event message to be written."""
        self._warn_if_closed()
        self.event_writer.add_event(event)

    def _add_event(self, event, step):
        self._warn_if_closed()
        super()._add_event(event, step)

    def _warn_if_closed(self):
        if self.event_writer.is_closed:
            import warnings
            warnings.warn("Attempting to use a closed FileWriter. The operation will be a noop unless the FileWriter is "
                          "explicitly "
                          "reopened.", stacklevel=3)

    def flush(self):
        """Waits until everything is in the file."""
        self._warn_if_closed()
        self.event_writer.flush()

    def close(self):
        """Writes all events and closes the file."""
        self.event_writer.close()

    def reopen(self):
        """Opens a new event file after close."""
        self.event_writer.reopen()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()


class FileWriterCache:
    """Keeps one FileWriter for each folder."""

    _cache, _lock = {}, threading.RLock()

    @staticmethod
    def clear():
        """Closes all writers, and forgets them."""
        with FileWriterCache._lock:
            for writer in FileWriterCache._cache.values():
                writer.close()
            FileWriterCache._cache = {}

    @staticmethod
    def get(logdir):
        """Returns the writer of a folder, made if there is none."""
        with FileWriterCache._lock:
            if logdir not in FileWriterCache._cache:
                FileWriterCache._cache[logdir] = FileWriter(logdir, graph=ops.get_default_graph())
            return FileWriterCache._cache[logdir]


def summary_iterator(path):
    """The events of a file."""
    for record in tf_record_iterator(path):
        yield protos.Event.FromString(record)
