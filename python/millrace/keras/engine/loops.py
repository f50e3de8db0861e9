"""The loops over epochs and batches."""

import numpy as np

from .. import callbacks as callbacks_lib
from ..utils import generic


class _Totals:
    """Losses as means over samples; a metric keeps its own totals, so its last value is the one."""

    def __init__(self, number_of_losses):
        self._n, self._sums, self._count, self._last = number_of_losses, None, 0, []

    def add(self, values, samples):
        head = np.array([float(v) for v in values[:self._n]]) * samples
        self._sums = head if self._sums is None else self._sums + head
        self._count += samples
        self._last = list(values[self._n:])

    def values(self):
        if not self._count:
            return []
        return [float(v) for v in self._sums / self._count] + self._last


def _number_of_losses(model):
    return 1 + (len(model._trained) if len(model.outputs) > 1 else 0)


def fit(model, source, validation, epochs, initial_epoch, verbose, callbacks, validation_freq):
    model.stop_training = False
    names = model.metrics_names if model._is_compiled else None
    watchers = callbacks_lib.configure(
        callbacks, model, do_validation=validation is not None, batch_size=source.batch_size, epochs=epochs, steps=source.steps,
        samples=source.samples, verbose=verbose, mode="train", names=names)
    if verbose and source.samples is not None:
        told = "Train on %d samples" % source.samples
        print(told + (", validate on %d samples" % validation.samples if validation is not None and validation.samples else ""))
    watchers.on_train_begin()
    for epoch in range(initial_epoch, epochs):
        model.reset_metrics()
        watchers.on_epoch_begin(epoch)
        logs = _epoch(model, source, watchers)
        if validation is not None and _is_due(validation_freq, epoch):
            model.reset_metrics()
            values = _test(model, validation, callbacks_lib.CallbackList([]))
            logs.update(("val_" + n, v) for n, v in zip(model.metrics_names, values))
        watchers.on_epoch_end(epoch, logs)
        if model.stop_training:
            break
    watchers.on_train_end()
    return model.history


def _is_due(frequency, epoch):
    if isinstance(frequency, int):
        return (epoch + 1) % frequency == 0
    return epoch + 1 in frequency


def _epoch(model, source, watchers):
    totals = None
    for i, (inputs, targets, weights, n) in enumerate(source.epoch()):
        watchers.on_batch_begin(i, {"batch": i, "size": n})
        values = model._run("train", inputs, targets, weights)
        totals = totals or _Totals(_number_of_losses(model))
        totals.add(values, n)
        watchers.on_batch_end(i, dict(zip(model.metrics_names, values), batch=i, size=n))
        if model.stop_training:
            break
    return dict(zip(model.metrics_names, totals.values())) if totals else {}


def _test(model, source, watchers, progress=None):
    totals = None
    for i, (inputs, targets, weights, n) in enumerate(source.epoch()):
        watchers.call("on_test_batch_begin", i, {"batch": i, "size": n})
        values = model._run("test", inputs, targets, weights)
        totals = totals or _Totals(_number_of_losses(model))
        totals.add(values, n)
        watchers.call("on_test_batch_end", i, dict(zip(model.metrics_names, values), batch=i, size=n))
    return totals.values() if totals else []


def evaluate(model, source, verbose, callbacks):
    watchers = callbacks_lib.configure(callbacks, model, batch_size=source.batch_size, steps=source.steps,
                                       samples=source.samples, verbose=verbose, mode="test", epochs=1)
    model.reset_metrics()
    watchers.call("on_test_begin")
    values = _test(model, source, watchers)
    watchers.call("on_test_end")
    return generic.unpack_singleton(values)


def predict(model, source, verbose, callbacks):
    watchers = callbacks_lib.configure(callbacks, model, batch_size=source.batch_size, steps=source.steps,
                                       samples=source.samples, verbose=verbose, mode="predict", epochs=1)
    watchers.call("on_predict_begin")
    parts = []
    for i, (inputs, _, _, n) in enumerate(source.epoch()):
        watchers.call("on_predict_batch_begin", i, {"batch": i, "size": n})
        parts.append(model._run("predict", inputs))
        watchers.call("on_predict_batch_end", i, {"batch": i, "size": n})
    watchers.call("on_predict_end")
    return generic.unpack_singleton([np.concatenate(p, axis=0) for p in zip(*parts)])
