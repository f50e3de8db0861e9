"""Callbacks: objects that are told of each epoch and batch of training."""

import collections
import csv
import json
import os

import numpy as np

import millrace as tf

from . import backend as K
from .utils.generic_utils import Progbar


class Callback:
    """Is told what happens; a subclass has the methods it cares about."""

    def __init__(self):
        self.validation_data = self.model = None

    def set_params(self, params):
        """Receives the parameters of the run: a dict with epochs, steps, verbose and others."""
        self.params = params

    def set_model(self, model):
        """Receives the model that is run."""
        self.model = model

    def on_epoch_begin(self, epoch, logs=None):
        """Is called before each epoch of training."""

    def on_epoch_end(self, epoch, logs=None):
        """Is called after each epoch of training; logs has the losses and metrics."""

    def on_batch_begin(self, batch, logs=None):
        """Is called before each batch of training."""

    def on_batch_end(self, batch, logs=None):
        """Is called after each batch of training; logs has the losses and metrics."""

    def on_train_batch_begin(self, batch, logs=None):
        """Is called before each batch of training; calls on_batch_begin."""
        self.on_batch_begin(batch, logs=logs)

    def on_train_batch_end(self, batch, logs=None):
        """Is called after each batch of training; calls on_batch_end."""
        self.on_batch_end(batch, logs=logs)

    def on_train_begin(self, logs=None):
        """Is called when training begins."""

    def on_train_end(self, logs=None):
        """Is called when training ends."""

    def on_test_batch_begin(self, batch, logs=None):
        """Is called before each batch of evaluation."""

    def on_test_batch_end(self, batch, logs=None):
        """Is called after each batch of evaluation."""

    def on_test_begin(self, logs=None):
        """Is called when evaluation begins."""

    def on_test_end(self, logs=None):
        """Is called when evaluation ends."""

    def on_predict_batch_begin(self, batch, logs=None):
        """Is called before each batch of prediction."""

    def on_predict_batch_end(self, batch, logs=None):
        """Is called after each batch of prediction."""

    def on_predict_begin(self, logs=None):
        """Is called when prediction begins."""

    def on_predict_end(self, logs=None):
        """Is called when prediction ends."""


class CallbackList:
    """A list of callbacks that are called together."""

    def __init__(self, callbacks=None):
        self.callbacks = list(callbacks or [])
        self.params, self.model = {}, None

    def append(self, callback):
        """Adds a callback."""
        self.callbacks.append(callback)

    def set_params(self, params):
        """Passes the parameters of the run to all callbacks."""
        self.params = params
        for c in self.callbacks:
            c.set_params(params)

    def set_model(self, model):
        """Passes the model to all callbacks."""
        self.model = model
        for c in self.callbacks:
            c.set_model(model)

    def call(self, what, *args):
        """Calls the method of this name of all callbacks that have it."""
        for c in self.callbacks:
            tell = getattr(c, what, None)  # what was written for older ones may lack the newer methods
            if tell is not None:
                tell(*args)

    def on_train_begin(self, logs=None):
        """Calls on_train_begin of all callbacks."""
        self.call("on_train_begin", logs or {})

    def on_train_end(self, logs=None):
        """Calls on_train_end of all callbacks."""
        self.call("on_train_end", logs or {})

    def on_epoch_begin(self, epoch, logs=None):
        """Calls on_epoch_begin of all callbacks."""
        self.call("on_epoch_begin", epoch, logs or {})

    def on_epoch_end(self, epoch, logs=None):
        """Calls on_epoch_end of all callbacks."""
        self.call("on_epoch_end", epoch, logs if logs is not None else {})

    def on_batch_begin(self, batch, logs=None):
        """Calls on_train_batch_begin of all callbacks, or on_batch_begin."""
        for c in self.callbacks:
            getattr(c, "on_train_batch_begin", c.on_batch_begin)(batch, logs or {})

    def on_batch_end(self, batch, logs=None):
        """Calls on_train_batch_end of all callbacks, or on_batch_end."""
        for c in self.callbacks:
            getattr(c, "on_train_batch_end", c.on_batch_end)(batch, logs or {})

    def __iter__(self):
        return iter(self.callbacks)


def configure(callbacks, model, do_validation=False, batch_size=None, epochs=None, steps=None, samples=None, verbose=1,
              mode="train", names=None):
    """The callbacks of a run, with those that are always there."""
    if isinstance(callbacks, CallbackList):
        return callbacks
    given = list(callbacks) if isinstance(callbacks, (list, tuple)) else [callbacks] if callbacks else []
    if mode == "train":
        model.history = History()
        given = [BaseLogger()] + given + [model.history]
    if verbose:
        given.append(ProgbarLogger("samples" if samples is not None else "steps", mode=mode))
    everyone = CallbackList(given)
    everyone.set_model(model)
    metrics = list(names or [])
    if do_validation:
        metrics += ["val_" + n for n in metrics]
    everyone.set_params({"batch_size": batch_size, "epochs": epochs, "steps": steps, "samples": samples, "verbose": verbose,
                         "do_validation": do_validation, "metrics": metrics})
    return everyone


class BaseLogger(Callback):
    """Kept for programs that name it: the loops compute the means."""

    def __init__(self, stateful_metrics=None):
        super().__init__()
        self.stateful_metrics = set(stateful_metrics or [])


class TerminateOnNaN(Callback):
    """Stops training when the loss is not finite."""

    def on_batch_end(self, batch, logs=None):
        loss = (logs or {}).get("loss")
        if loss is not None and not np.isfinite(loss):
            print("Batch %d: Invalid loss, terminating training" % batch)
            self.model.stop_training = True


class ProgbarLogger(Callback):
    """The line that shows how far it is."""

    def __init__(self, count_mode="samples", stateful_metrics=None, mode="train"):
        super().__init__()
        if count_mode not in ("samples", "steps"):
            raise ValueError("Unknown `count_mode`: " + str(count_mode))
        self._by_steps, self._mode = count_mode == "steps", mode
        self._bar = None

    def _begin(self):
        self._target = self.params.get("steps" if self._by_steps else "samples")
        self._seen, self._values = 0, []
        self._bar = Progbar(target=self._target, verbose=self.params["verbose"],
                            unit_name="step" if self._by_steps else "sample")

    def _kept(self):
        """Metrics keep their totals themselves; what comes after a validation is shown as it is."""
        if self._mode == "predict":
            return set()
        return set(self.model._metric_names) | {"val_" + n for n in self.model.metrics_names}

    def _step(self, logs):
        if not self._seen:  # by now a model that is built by its data knows its metrics
            self._bar.stateful_metrics = self._kept()
        self._seen += 1 if self._by_steps else logs.get("size", 0)
        names = self.model.metrics_names if self._mode != "predict" else []
        self._values = [(n, logs[n]) for n in names if n in logs]
        if self.params["verbose"] and (self._target is None or self._seen < self._target):
            self._bar.update(self._seen, self._values)

    def on_epoch_begin(self, epoch, logs=None):
        if self.params["verbose"]:
            print("Epoch %d/%d" % (epoch + 1, self.params["epochs"]))
        self._begin()

    def on_batch_end(self, batch, logs=None):
        self._step(logs or {})

    def on_epoch_end(self, epoch, logs=None):
        logs = logs or {}
        more = [(n, v) for n, v in logs.items() if n.startswith("val_")]
        self._bar.target = self._target or self._seen
        self._bar.update(self._seen, self._values + more)

    def on_test_begin(self, logs=None):
        self._begin()

    def on_test_batch_end(self, batch, logs=None):
        self._step(logs or {})

    def on_test_end(self, logs=None):
        self._bar.target = self._target or self._seen
        self._bar.update(self._seen, self._values)

    on_predict_begin, on_predict_batch_end, on_predict_end = on_test_begin, on_test_batch_end, on_test_end


class History(Callback):
    """The result of fit: its attribute history has the logs of all epochs by name."""

    def __init__(self):
        super().__init__()
        self.history, self.epoch = {}, []

    def on_train_begin(self, logs=None):
        self.epoch = []

    def on_epoch_end(self, epoch, logs=None):
        self.epoch.append(epoch)
        for k, v in (logs or {}).items():
            self.history.setdefault(k, []).append(v)


class _Watch:
    """Whether a value is better than the best one."""

    def __init__(self, monitor, mode, what, min_delta=0.0):
        if mode not in ("auto", "min", "max"):
            tf.logging.warning("%s mode %s is unknown, fallback to auto mode." % (what, mode))
            mode = "auto"
        rises = mode == "max" or mode == "auto" and ("acc" in monitor or monitor.startswith("fmeasure"))
        self._sign = 1 if rises else -1
        self._delta = abs(min_delta)
        self.first = -np.inf if rises else np.inf

    def better(self, value, best):
        return self._sign * (value - best) > self._delta if np.isfinite(best) else value != best or self._sign * value > 0


class ModelCheckpoint(Callback):
    """Saves the model, or its weights, after epochs or every so many samples."""

    def __init__(self, filepath, monitor="val_loss", verbose=0, save_best_only=False, save_weights_only=False, mode="auto",
                 save_freq="epoch", load_weights_on_restart=False, period=1, **kwargs):
        super().__init__()
        if kwargs:
            raise TypeError("Unrecognized arguments: " + str(kwargs))
        if save_freq != "epoch" and not isinstance(save_freq, int):
            raise ValueError("Unrecognized save_freq: %s" % save_freq)
        self.filepath, self.monitor, self.verbose = filepath, monitor, verbose
        self.save_best_only, self.save_weights_only = save_best_only, save_weights_only
        self.save_freq, self.period = save_freq, period
        self.load_weights_on_restart = load_weights_on_restart
        self._watch = _Watch(monitor, mode, "ModelCheckpoint")
        self.best, self.epochs_since_last_save = self._watch.first, 0
        self._samples, self._epoch = 0, 0

    def on_train_begin(self, logs=None):
        if self.load_weights_on_restart and (os.path.exists(self.filepath) or os.path.exists(self.filepath + ".index")):
            self.model.load_weights(self.filepath)

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch

    def on_batch_end(self, batch, logs=None):
        if self.save_freq == "epoch":
            return
        self._samples += (logs or {}).get("size", 1)
        if self._samples >= self.save_freq:
            self._samples = 0
            self._save(self._epoch, logs)

    def on_epoch_end(self, epoch, logs=None):
        self.epochs_since_last_save += 1
        if self.save_freq == "epoch" and self.epochs_since_last_save >= self.period:
            self.epochs_since_last_save = 0
            self._save(epoch, logs)

    def _save(self, epoch, logs):
        path = self.filepath.format(epoch=epoch + 1, **(logs or {}))
        if self.save_best_only:
            now = (logs or {}).get(self.monitor)
            if now is None:
                tf.logging.warning("Can save best model only with %s available, skipping." % self.monitor)
                return
            if not self._watch.better(now, self.best):
                if self.verbose:
                    print("\nEpoch %05d: %s did not improve from %0.5f" % (epoch + 1, self.monitor, self.best))
                return
            if self.verbose:
                print("\nEpoch %05d: %s improved from %0.5f to %0.5f, saving model to %s" %
                      (epoch + 1, self.monitor, self.best, now, path))
            self.best = now
        elif self.verbose:
            print("\nEpoch %05d: saving model to %s" % (epoch + 1, path))
        if self.save_weights_only:
            self.model.save_weights(path, overwrite=True)
        else:
            self.model.save(path, overwrite=True)


class EarlyStopping(Callback):
    """Stops training when a monitored value stops improving."""

    def __init__(self, monitor="val_loss", min_delta=0, patience=0, verbose=0, mode="auto", baseline=None,
                 restore_best_weights=False):
        super().__init__()
        self.monitor, self.patience, self.verbose, self.baseline = monitor, patience, verbose, baseline
        self.min_delta, self.restore_best_weights = min_delta, restore_best_weights
        self._watch = _Watch(monitor, mode, "EarlyStopping", min_delta)
        self.wait, self.stopped_epoch, self.best_weights = 0, 0, None

    def on_train_begin(self, logs=None):
        self.wait, self.stopped_epoch = 0, 0
        self.best = self._watch.first if self.baseline is None else self.baseline

    def on_epoch_end(self, epoch, logs=None):
        now = (logs or {}).get(self.monitor)
        if now is None:
            tf.logging.warning("Early stopping conditioned on metric `%s` which is not available. Available metrics are: %s" %
                               (self.monitor, ",".join((logs or {}))))
            return
        if self._watch.better(now, self.best):
            self.best, self.wait = now, 0
            if self.restore_best_weights:
                self.best_weights = self.model.get_weights()
            return
        self.wait += 1
        if self.wait >= self.patience:
            self.stopped_epoch, self.model.stop_training = epoch, True
            if self.restore_best_weights and self.best_weights is not None:
                if self.verbose > 0:
                    print("Restoring model weights from the end of the best epoch.")
                self.model.set_weights(self.best_weights)

    def on_train_end(self, logs=None):
        if self.stopped_epoch > 0 and self.verbose > 0:
            print("Epoch %05d: early stopping" % (self.stopped_epoch + 1))


class LearningRateScheduler(Callback):
    """The learning rate as a function of the epoch (and of the rate before)."""

    def __init__(self, schedule, verbose=0):
        super().__init__()
        self.schedule, self.verbose = schedule, verbose

    def on_epoch_begin(self, epoch, logs=None):
        if not hasattr(self.model.optimizer, "lr"):
            raise ValueError('Optimizer must have a "lr" attribute.')
        try:
            lr = self.schedule(epoch, float(K.get_value(self.model.optimizer.lr)))
        except TypeError:  # the older kind has one argument
            lr = self.schedule(epoch)
        if not isinstance(lr, (float, np.float32, np.float64)):
            raise ValueError('The output of the "schedule" function should be float.')
        K.set_value(self.model.optimizer.lr, lr)
        if self.verbose > 0:
            print("\nEpoch %05d: LearningRateScheduler reducing learning rate to %s." % (epoch + 1, lr))

    def on_epoch_end(self, epoch, logs=None):
        if logs is not None:
            logs["lr"] = float(K.get_value(self.model.optimizer.lr))


class ReduceLROnPlateau(Callback):
    """A smaller learning rate when a value stops getting better."""

    def __init__(self, monitor="val_loss", factor=0.1, patience=10, verbose=0, mode="auto", min_delta=1e-4, cooldown=0,
                 min_lr=0, **kwargs):
        super().__init__()
        if factor >= 1.0:
            raise ValueError("ReduceLROnPlateau does not support a factor >= 1.0.")
        if "epsilon" in kwargs:
            min_delta = kwargs.pop("epsilon")
        if kwargs:
            raise TypeError("Unrecognized arguments: " + str(kwargs))
        self.monitor, self.factor, self.patience, self.verbose = monitor, factor, patience, verbose
        self.cooldown, self.min_lr, self.min_delta = cooldown, min_lr, min_delta
        self._watch = _Watch(monitor, mode, "Learning Rate Plateau Reducing", min_delta)
        self._reset()

    def _reset(self):
        self.best, self.wait, self.cooldown_counter = self._watch.first, 0, 0

    def on_train_begin(self, logs=None):
        self._reset()

    def on_epoch_end(self, epoch, logs=None):
        logs = logs if logs is not None else {}
        logs["lr"] = float(K.get_value(self.model.optimizer.lr))
        now = logs.get(self.monitor)
        if now is None:
            tf.logging.warning("Reduce LR on plateau conditioned on metric `%s` which is not available. Available metrics are: "
                               "%s" %
                               (self.monitor, ",".join(logs)))
            return
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.wait = 0
        if self._watch.better(now, self.best):
            self.best, self.wait = now, 0
        elif self.cooldown_counter <= 0:
            self.wait += 1
            if self.wait >= self.patience:
                self._reduce(epoch)

    def _reduce(self, epoch):
        old = float(K.get_value(self.model.optimizer.lr))
        if old <= self.min_lr:
            return
        new = max(old * self.factor, self.min_lr)
        K.set_value(self.model.optimizer.lr, new)
        if self.verbose > 0:
            print("\nEpoch %05d: ReduceLROnPlateau reducing learning rate to %s." % (epoch + 1, new))
        self.cooldown_counter, self.wait = self.cooldown, 0


class CSVLogger(Callback):
    """A line for each epoch in a file."""

    def __init__(self, filename, separator=",", append=False):
        super().__init__()
        self.filename, self.sep, self.append = filename, separator, append
        self._writer, self._keys, self._with_header = None, None, True

    def on_train_begin(self, logs=None):
        if self.append and os.path.exists(self.filename):
            with open(self.filename) as f:
                self._with_header = not f.readline()
        self._file = open(self.filename, "a" if self.append else "w", newline="")

    def on_epoch_end(self, epoch, logs=None):
        logs = logs or {}
        if self._keys is None:
            self._keys = sorted(logs)
        if self._writer is None:
            self._writer = csv.DictWriter(self._file, fieldnames=["epoch"] + self._keys, delimiter=self.sep)
            if self._with_header:
                self._writer.writeheader()
        row = collections.OrderedDict(epoch=epoch)
        row.update((k, logs.get(k, "NA")) for k in self._keys)
        self._writer.writerow(row)
        self._file.flush()

    def on_train_end(self, logs=None):
        self._file.close()
        self._writer = None


class LambdaCallback(Callback):
    """Functions in place of methods."""

    def __init__(self, on_epoch_begin=None, on_epoch_end=None, on_batch_begin=None, on_batch_end=None, on_train_begin=None,
                 on_train_end=None, **kwargs):
        super().__init__()
        self.__dict__.update(kwargs)
        given = dict(on_epoch_begin=on_epoch_begin, on_epoch_end=on_epoch_end, on_batch_begin=on_batch_begin,
                     on_batch_end=on_batch_end, on_train_begin=on_train_begin, on_train_end=on_train_end)
        self.__dict__.update((k, f) for k, f in given.items() if f is not None)


class RemoteMonitor(Callback):
    """Sends the logs of epochs to a server of the program's own."""

    def __init__(self, root="http://localhost:9000", path="/publish/epoch/end/", field="data", headers=None,
                 send_as_json=False):
        super().__init__()
        self.root, self.path, self.field, self.headers, self.send_as_json = root, path, field, headers, send_as_json

    def on_epoch_end(self, epoch, logs=None):
        import urllib.parse
        import urllib.request
        send = dict({k: float(v) for k, v in (logs or {}).items()}, epoch=epoch)
        headers = dict(self.headers or {})
        if self.send_as_json:
            body = json.dumps(send).encode()
            headers["Content-Type"] = "application/json"
        else:
            body = urllib.parse.urlencode({self.field: json.dumps(send)}).encode()
        try:
            urllib.request.urlopen(urllib.request.Request(self.root + self.path, body, headers)).close()
        except OSError:
            tf.logging.warning("Could not reach RemoteMonitor root server at " + str(self.root))


class TensorBoard(Callback):
    """Event files: logs of epochs, the graph, histograms of weights."""

    def __init__(self, log_dir="./logs", histogram_freq=0, batch_size=32, write_graph=True, write_grads=False,
                 write_images=False, embeddings_freq=0, embeddings_layer_names=None, embeddings_metadata=None,
                 embeddings_data=None, update_freq="epoch", profile_batch=2):
        super().__init__()
        if embeddings_freq:
            raise NotImplementedError("TensorBoard(embeddings_freq=...)")
        if profile_batch not in (0, 2):  # nobody asked for TensorFlow's default
            raise NotImplementedError("TensorBoard(profile_batch=%r): RunMetadata and timeline.Timeline show a step" %
                                      (profile_batch,))
        self.log_dir, self.histogram_freq, self.batch_size = log_dir, histogram_freq, batch_size
        self.write_graph, self.write_grads, self.write_images = write_graph, write_grads, write_images
        self.update_freq = 1 if update_freq == "batch" else update_freq
        self._merged = self.writer = None
        self._samples = self._written = 0

    def set_model(self, model):
        super().set_model(model)
        with model._graph.as_default():
            if self.histogram_freq and self._merged is None:
                self._merged = self._histograms()
            self.writer = tf.summary.FileWriter(self.log_dir, model._graph if self.write_graph else None)

    def _histograms(self):
        made = []
        for layer in self.model.layers:
            for w in layer.weights:
                name = w.name.replace(":", "_")
                made.append(tf.summary.histogram(name, w, collections=[]))
                if self.write_images and len(w.shape) == 2:
                    made.append(tf.summary.image(name, w[None, :, :, None], collections=[]))
                if self.write_grads and any(w is v for v in self.model.trainable_weights) and self.model.total_loss is not None:
                    grad = tf.gradients(self.model.total_loss, [w])[0]
                    if grad is not None:
                        made.append(tf.summary.histogram(name + "_grad", tf.convert_to_tensor(grad), collections=[]))
            if hasattr(layer, "output") and isinstance(getattr(layer, "output", None), tf.Tensor):
                made.append(tf.summary.histogram(layer.name + "_out", layer.output, collections=[]))
        return tf.summary.merge(made, collections=[]) if made else None

    def _scalars(self, logs, step):
        for name, value in logs.items():
            if name in ("batch", "size", "num_steps"):
                continue
            summary = tf.Summary()
            v = summary.value.add()
            v.tag, v.simple_value = name, float(value)
            self.writer.add_summary(summary, step)

    def on_batch_end(self, batch, logs=None):
        if self.update_freq == "epoch":
            return
        self._samples += (logs or {}).get("size", 1)
        if self._samples - self._written >= self.update_freq:
            self._scalars({"batch_" + k: v for k, v in (logs or {}).items() if k not in ("batch", "size")}, self._samples)
            self._written = self._samples

    def on_epoch_end(self, epoch, logs=None):
        step = epoch if self.update_freq == "epoch" else self._samples
        self._scalars({"epoch_" + k: v for k, v in (logs or {}).items()}, step)
        if self._merged is not None and epoch % self.histogram_freq == 0:
            self._write_histograms(epoch)
        self.writer.flush()

    def _write_histograms(self, epoch):
        """Of the last batch of training: outputs need inputs."""
        feeds = self.model.__dict__.get("_last_feeds", {})
        self.writer.add_summary(K.get_session().run(self._merged, feed_dict=feeds), epoch)

    def on_train_end(self, logs=None):
        self.writer.close()
