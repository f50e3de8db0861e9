"""What programs use of TensorFlow's own extension module: readers of checkpoints and writers of events."""
import os
import socket
import time

from . import lazy as _lazy
from . import protos
from .python_io import framed

__getattr__ = _lazy.attributes(__name__, {"NewCheckpointReader": ".train", "CheckpointReader": ".train:NewCheckpointReader"})


class EventsWriter:
    """Writes events to PREFIX.out.tfevents.SECONDS.HOST, without a thread."""

    def __init__(self, file_prefix):
        self._prefix, self._suffix, self._file = os.fsdecode(file_prefix), "", None

    def InitWithSuffix(self, suffix):  # noqa: N802
        """Sets the end of the name of the file."""
        self._suffix = os.fsdecode(suffix)

    def _open(self):
        if self._file is None:
            path = "%s.out.tfevents.%010d.%s%s" % (self._prefix, time.time(), socket.gethostname(), self._suffix)
            self._file = open(path, "ab")
            self.WriteEvent(protos.Event(wall_time=time.time(), file_version="brain.Event:2"))
        return self._file

    def FileName(self):  # noqa: N802
        """Returns the name of the file, which is opened if it is not yet."""
        return os.fsencode(self._open().name)

    def WriteEvent(self, event):  # noqa: N802
        """Appends an Event message."""
        self._open().write(framed(event.SerializeToString()))

    def Flush(self):  # noqa: N802
        """Passes what was written to the operating system."""
        if self._file is not None:
            self._file.flush()
        return True

    def Close(self):  # noqa: N802
        """Closes the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
        return True
