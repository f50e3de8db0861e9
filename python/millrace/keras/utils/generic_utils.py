"""Progbar: a line of text that grows."""

import sys
import time

import numpy as np

from .generic import (CustomObjectScope, custom_object_scope, deserialize_keras_object, get_custom_objects,  # noqa: F401
                      serialize_keras_object, to_list, unpack_singleton)


def _eta(seconds):
    if seconds > 3600:
        return "%d:%02d:%02d" % (seconds // 3600, seconds % 3600 // 60, seconds % 60)
    return "%d:%02d" % (seconds // 60, seconds % 60) if seconds > 60 else "%ds" % seconds


class Progbar:
    """12/60 [====>.......] - ETA: 3s - loss: 0.1234, and at the end how long it took."""

    def __init__(self, target, width=30, verbose=1, interval=0.05, stateful_metrics=None, unit_name="step"):
        self.target, self.width, self.verbose, self.interval = target, width, verbose, interval
        self.stateful_metrics, self.unit_name = set(stateful_metrics or []), unit_name
        self._live = hasattr(sys.stdout, "isatty") and sys.stdout.isatty() or "ipykernel" in sys.modules
        self._order, self._sums = [], {}
        self._seen = self._shown = 0
        self._start, self._last = time.time(), 0.0

    def update(self, current, values=None):
        """Draws the bar at step current; values are averaged, except for stateful metrics."""
        for k, v in values or []:
            if k not in self._order:
                self._order.append(k)
            if k in self.stateful_metrics:
                self._sums[k] = v
            else:
                total, n = self._sums.get(k, (0.0, 0))
                self._sums[k] = [total + v * (current - self._seen), n + current - self._seen]
        self._seen = current
        now, done = time.time(), self.target is not None and current >= self.target
        if self.verbose == 1:
            if now - self._last >= self.interval or done:
                self._show(current, now, done)
                self._last = now
        elif self.verbose == 2 and done:
            sys.stdout.write("%d/%d - %ds%s\n" % (current, self.target, now - self._start, self._values()))
            sys.stdout.flush()

    def _show(self, current, now, done):
        line = self._bar(current) if self.target is not None else "%7d/Unknown" % current
        each = (now - self._start) / current if current else 0
        if self.target is not None and current < self.target:
            line += " - ETA: " + _eta(each * (self.target - current))
        else:
            line += " - %ds" % (now - self._start)
            unit = each if each >= 1 or each == 0 else each * 1e3 if each >= 1e-3 else each * 1e6
            line += " %.0f%s/%s" % (unit, "s" if each >= 1 or each == 0 else "ms" if each >= 1e-3 else "us", self.unit_name)
        line += self._values()
        if self._live:
            sys.stdout.write("\r" + line.ljust(self._shown) + ("\n" if done else ""))
        else:
            sys.stdout.write("\n" + line if not done else "\n" + line + "\n")
        self._shown = len(line)
        sys.stdout.flush()

    def _bar(self, current):
        digits = len(str(self.target))
        filled = int(self.width * float(current) / self.target) if self.target else self.width
        bar = "=" * self.width if current >= self.target else ("=" * max(filled - 1,
                                                                         0) + (">" if filled else "")).ljust(self.width, ".")
        return "%*d/%d [%s]" % (digits, current, self.target, bar)

    def _values(self):
        out = ""
        for k in self._order:
            v = self._sums[k]
            if isinstance(v, list):
                v = v[0] / max(1, v[1])
            v = np.mean(v)
            out += " - %s: %s" % (k, "%.4f" % v if abs(v) > 1e-3 else "%.4e" % v)
        return out

    def add(self, n, values=None):
        """Moves the bar forward by n steps."""
        self.update(self._seen + n, values)
