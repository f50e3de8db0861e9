"""Waits for other tasks: one that lasts is logged every ten seconds (MILLRACE_WAIT_LOG_MS), as the library does."""
import os
import time

import _millrace as _core


def _period():
    try:
        ms = int(os.environ.get("MILLRACE_WAIT_LOG_MS", ""))
    except ValueError:
        ms = 0
    return ms / 1000 if ms > 0 else 10.0


class LongWait:
    """One wait, from its beginning."""

    def __init__(self):
        self._period = _period()
        self._begun = time.monotonic()
        self._next = self._begun + self._period

    def tell(self, what):
        """Logs what is waited for, and why, if it is time to."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self._period
            _core.log_info("%s (%d s)" % (what, now - self._begun))

    def sleep(self, seconds, what):
        """Sleeps, and reports long waits."""
        end = time.monotonic() + seconds
        _core.tell_waiting(what)
        while True:
            self.tell(what)
            left = end - time.monotonic()
            if left <= 0:
                return
            time.sleep(max(0.0, min(left, self._next - time.monotonic())))
