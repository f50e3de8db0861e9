"""Model: a network that can be trained.

compile puts targets, losses and metrics into the graph; the operations of a step of training, of a test and of a prediction are
made when they are first needed.  A step is one run of the session: losses, then values of metrics, and what changes variables.
"""

import numpy as np

import millrace as tf

from ...framework import nest, ops
from .. import backend as K
from .. import losses as losses_lib
from .. import metrics as metrics_lib
from .. import optimizers
from ..utils import generic
from . import base_layer, data, dependence
from .network import Input, InputLayer, Network


class _Output:
    """An output that is trained: its target, weights and loss."""

    def __init__(self, name, tensor, loss, loss_weight, target=None):
        self.name, self.tensor, self.loss_weight = name, tensor, loss_weight
        self.fn = losses_lib.get(loss)
        self.is_sparse = _is_loss(self.fn, "sparse_categorical_crossentropy")
        self.is_binary = _is_loss(self.fn, "binary_crossentropy")
        self.is_fed = target is None or K.is_placeholder(target)
        self._own_target = target is None
        self.target = target if target is not None else K.placeholder(
            ndim=len(tensor.shape), name=name + "_target", dtype="int64" if self.is_sparse else K.dtype(tensor))
        self.weight = tf.placeholder_with_default(tf.constant(1.0, dtype=K.floatx()), None, name=name + "_sample_weights")
        self.mask = getattr(tensor, "_keras_mask", None)
        with ops.name_scope("loss/%s_loss" % name):
            each = self.fn.call(self.target, tensor) if isinstance(self.fn, losses_lib.Loss) else self.fn(self.target, tensor)
            self.loss_rank = each.shape.ndims
            reduction = getattr(self.fn, "reduction", losses_lib.Reduction.AUTO)
            self.value = losses_lib.reduced(losses_lib.weighted(each, self.weights_with_mask(each.dtype)), reduction)

    def weights_with_mask(self, dtype):
        weight = tf.cast(self.weight, dtype)
        return weight if self.mask is None else weight * tf.cast(self.mask, dtype)

    def metric_mask(self, dtype):
        return None if self.mask is None else tf.cast(self.mask, dtype)

    def fit_weight(self, value):
        """Weights in as many dimensions as the loss of a batch has."""
        value = np.asarray(value, K.floatx())
        while self.loss_rank and value.ndim < self.loss_rank:
            value = value[..., None]
        if self.loss_rank == 1 and value.ndim == 2 and value.shape[1] == 1:
            value = value[:, 0]
        return value

    def fit_target(self, y):
        rank = len(self.tensor.shape)
        return y[..., None] if self.is_sparse and y.ndim == rank - 1 else y

    def target_shape(self):
        if not self._own_target:
            return K.int_shape(self.target)
        shape = K.int_shape(self.tensor)
        if self.is_sparse:
            return shape[:-1] + (1,)
        named = isinstance(self.fn, losses_lib.LossFunctionWrapper) or getattr(self.fn, "__module__", "") == losses_lib.__name__
        return shape if named else (None,) * len(shape)


def _is_loss(fn, name):
    return getattr(fn, "__name__", None) == name or getattr(getattr(fn, "fn", None), "__name__", None) == name


class Model(Network):
    """A network with a loss and an optimizer."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.optimizer = self.loss = self.history = None
        self.stop_training, self._compile_arguments, self._is_compiled = False, None, False
        self.sample_weight_mode = self.metrics = self.loss_weights = None
        self._trained, self._metric_names = [], []  # outputs that have a loss; names in the order of values

    # ---- compiling ----

    def compile(self, optimizer="rmsprop", loss=None, metrics=None, loss_weights=None, sample_weight_mode=None,
                weighted_metrics=None, target_tensors=None, distribute=None, **kwargs):
        """Says what to train, and how."""
        if kwargs.pop("run_eagerly", None):
            raise ValueError("You can only set `run_eagerly=True` if eager execution is enabled.")
        if kwargs:
            raise TypeError("Invalid keyword arguments in `compile`: %s" % ", ".join(sorted(kwargs)))
        if distribute is not None:
            raise NotImplementedError("compile(distribute=...)")
        self.optimizer = optimizers.get(optimizer)
        self.loss, self.loss_weights, self.sample_weight_mode = loss, loss_weights, sample_weight_mode
        self._compile_arguments = dict(metrics=metrics, weighted_metrics=weighted_metrics, target_tensors=target_tensors)
        self.metrics = []
        self._is_compiled = self.inputs is not None
        if self._is_compiled:
            with self._graph.as_default():
                self._compile()

    def _compile(self):
        self._steps, self._told_of_change = {}, False
        self._trained = [o for o in self._make_outputs(self._compile_arguments["target_tensors"])]
        self._make_metrics()
        self._make_total_loss()
        self._to_train = list(self.trainable_weights)  # what compile finds: layers may be frozen for another model later

    def _per_output(self, given, what, default=None):
        """One entry for each output, from a list or dict."""
        names = self.output_names
        if isinstance(given, dict):
            unknown = set(given) - set(names)
            if unknown:
                raise ValueError("Unknown entries in %s dictionary: %s. Only expected following keys: %s" %
                                 (what, sorted(unknown), names))
            return [given.get(n, default) for n in names]
        if isinstance(given, (list, tuple)):
            if len(given) != len(names):
                raise ValueError("When passing a list as %s, it should have one entry per model output. The model has %d "
                                 "outputs, but you passed %s=%s" % (what, len(names), what, given))
            return list(given)
        return [given if given is not None else default] * len(names)

    def _make_outputs(self, target_tensors):
        losses = self._per_output(self.loss, "loss")
        weights = self._per_output(self.loss_weights, "loss_weights", 1.0)
        targets = [None] * len(losses)
        if target_tensors is not None:
            targets = self._per_output(target_tensors, "target_tensors")
        for name, tensor, loss, weight, target in zip(self.output_names, self.outputs, losses, weights, targets):
            if loss is not None:
                yield _Output(name, tensor, loss, weight, target)

    def _make_total_loss(self):
        with ops.name_scope("loss"):
            parts = [o.value if o.loss_weight == 1.0 else o.loss_weight * o.value for o in self._trained]
            parts += [tf.reduce_sum(x) if x.shape.ndims else x for x in dependence.for_model(self.losses, self.inputs)]
            self.total_loss = None
            if parts:
                self.total_loss = parts[0] if len(parts) == 1 else tf.add_n([tf.cast(p, parts[0].dtype) for p in parts])

    def _metric_lists(self, given):
        """A list of metrics for each output that has a loss."""
        names = [o.name for o in self._trained]
        if not given:
            return [[] for _ in names]
        if isinstance(given, dict):
            unknown = set(given) - set(self.output_names)
            if unknown:
                raise ValueError("Unknown entries in metrics dictionary: %s. Only expected following keys: %s" %
                                 (sorted(unknown), self.output_names))
            return [generic.to_list(given.get(n)) for n in names]
        if not isinstance(given, (list, tuple)):
            raise TypeError("Type of `metrics` argument not understood. Expected a list or dictionary, found: %s" % (given,))
        if any(isinstance(m, (list, tuple)) for m in given):
            if len(given) != len(self.output_names):
                raise ValueError("When passing a list of lists as `metrics`, it should have one entry per model output. The "
                                 "model has %d outputs, but you passed metrics=%s" % (len(self.output_names), given))
            return [generic.to_list(m) for n, m in zip(self.output_names, given) if n in names]
        return [list(given) for _ in names]

    def _make_metrics(self):
        self._metric_values, self.metrics, self._metric_names = [], [], []
        many = len(self.outputs) > 1
        for weighted in (False, True):
            lists = self._metric_lists(self._compile_arguments["weighted_metrics" if weighted else "metrics"])
            for output, wanted in zip(self._trained, lists):
                for m in wanted:
                    metric, name = self._as_metric(m, output)
                    self._add_metric_of(metric, self._metric_name(output.name + "_" + name if many else name), output, weighted)
        for metric, value in self._all_added_metrics:
            if any(metric is m for m in self.metrics):
                continue
            self.metrics.append(metric)
            self._metric_names.append(metric.name)
            self._metric_values.append(value)

    def _metric_name(self, name):
        base, n = name, 1
        while name in self._metric_names:
            name, n = "%s_%d" % (base, n), n + 1
        return name

    @staticmethod
    def _as_metric(given, output):
        """(metric, its name)"""
        if isinstance(given, metrics_lib.Metric):
            return given, given.name
        if given in ("accuracy", "acc", "crossentropy", "ce"):
            kind = "accuracy" if given in ("accuracy", "acc") else "crossentropy"
            if K.int_shape(output.tensor)[-1] == 1 or output.is_binary:
                fn = getattr(metrics_lib, "binary_" + kind)
            else:
                fn = getattr(metrics_lib, ("sparse_categorical_" if output.is_sparse else "categorical_") + kind)
            return metrics_lib.MeanMetricWrapper(fn, name="acc" if kind == "accuracy"
                                                 else "ce"), "acc" if kind == "accuracy" else "ce"
        fn = metrics_lib.get(given)
        if isinstance(fn, metrics_lib.Metric):
            return fn, fn.name
        if isinstance(fn, losses_lib.Loss):
            fn, given = fn.call, fn
            name = given.name
        else:
            name = getattr(fn, "__name__", type(fn).__name__)
        return metrics_lib.MeanMetricWrapper(fn, name=name), name

    def _add_metric_of(self, metric, name, output, weighted):
        weights = output.weights_with_mask(K.floatx()) if weighted else output.metric_mask(K.floatx())
        self._metric_values.append(metric(output.target, output.tensor, sample_weight=weights))
        self.metrics.append(metric)
        self._metric_names.append(name)

    @property
    def metrics_names(self):
        """The names of the values that evaluate returns."""
        losses = [o.name + "_loss" for o in self._trained] if len(self.outputs or ()) > 1 else []
        return ["loss"] + losses + self._metric_names

    def reset_metrics(self):
        """Sets the state of all metrics to zero."""
        with self._graph.as_default():
            K.batch_set_value([(v, np.zeros(v.shape.as_list())) for m in self.metrics or [] for v in m.weights])

    # ---- what is run ----

    def _feed_inputs(self):
        return [t for t in self.inputs if not isinstance(t._keras_history.layer, InputLayer)
                or t._keras_history.layer.is_placeholder]

    def _feed_names(self):
        fed = {id(t) for t in self._feed_inputs()}
        return [n for n, t in zip(self.input_names, self.inputs) if id(t) in fed]

    def _values(self):
        losses = [o.value for o in self._trained] if len(self.outputs) > 1 else []
        return [self.total_loss] + losses + self._metric_values

    def _fetches(self, kind):
        """(values, what is done besides)"""
        if kind == "predict":
            return list(self.outputs), self.state_updates
        if kind == "test":
            return self._values(), self.state_updates
        with ops.name_scope("training"), ops.control_dependencies([self.total_loss]):
            params = self._to_train
            done = list(self.optimizer.get_updates(loss=self.total_loss, params=params)) if params else []
        return self._values(), done + dependence.for_model(self.updates, self.inputs)

    def _run(self, kind, inputs, targets=(), weights=()):
        """One step: its values."""
        if kind != "predict" and self.total_loss is None:
            raise ValueError("The model cannot be compiled because it has no loss to optimize.")
        steps = self.__dict__.setdefault("_steps", {})
        if kind not in steps:
            values, done = self._fetches(kind)
            steps[kind] = values, [getattr(x, "op", x) for x in done]
        feeds = dict(zip(self._feed_inputs(), inputs))
        for output, y, w in zip([o for o in self._trained if o.is_fed] if targets else [], targets, weights):
            feeds[output.target] = y
            if w is not None:
                feeds[output.weight] = output.fit_weight(w)
        state = K._state()
        if state["phase"] is not None:
            feeds[state["phase"]] = kind == "train"
        self.__dict__["_last_feeds"] = feeds  # summaries of what depends on inputs are of these
        return K.get_session().run(steps[kind], feed_dict=feeds)[0]

    # ---- bringing data into form ----

    def _standardize(self, x, y=None, sample_weight=None, class_weight=None, with_targets=True):
        """(inputs, targets, weights), checked."""
        if self.inputs is None:
            self._build_from(x)
        names = self._feed_names()
        inputs = data.as_list(x, names, "input")
        data.check_shapes(inputs, names, [K.int_shape(t) for t in self._feed_inputs()], "input")
        if not with_targets:
            data.check_lengths(inputs, [], [])
            return inputs, [], []
        self._check_compiled()
        fed = [o for o in self._trained if o.is_fed]
        names = [o.name for o in fed]
        if y is None and names:
            raise ValueError("The model expects targets for its outputs %s, but none were given" % names)
        if isinstance(y, (list, tuple)) and len(fed) < len(self.output_names) == len(y):
            y = [v for n, v in zip(self.output_names, y) if n in names]
        targets = [o.fit_target(t) for o, t in zip(fed, data.as_list(y, names, "target"))]
        data.check_shapes(targets, names, [o.target_shape() for o in fed], "target")
        weights = [data.product(a, b) for a, b in zip(data.sample_weights(sample_weight, names),
                                                      data.class_weights(class_weight, targets, names))]
        data.check_lengths(inputs, targets, weights)
        return inputs, targets, weights

    def _check_compiled(self):
        if self._compile_arguments is None:
            raise RuntimeError("You must compile your model before training/testing. Use `model.compile(optimizer, loss)`.")
        if not self._is_compiled:
            self._compile()
            self._is_compiled = True
        elif not self._told_of_change and [id(v) for v in self._to_train] != [id(v) for v in self.trainable_weights]:
            tf.logging.warning("Discrepancy between trainable weights and collected trainable weights, did you set "
                               "`model.trainable` without calling `model.compile` after ?")
            self._told_of_change = True

    def _build_from(self, x):
        """Inputs and outputs by the shapes of the data, for a model that does not know them yet."""
        arrays = [data._as_array(a) for a in (x.values() if isinstance(x, dict) else x if isinstance(x, (list, tuple)) and
                                              hasattr(x[0], "shape") else [x])]
        with self._graph.as_default():
            self._build_for_data(arrays)

    def _build_for_data(self, arrays):
        inputs = [Input(shape=a.shape[1:], dtype=None if a.dtype.kind == "f" else a.dtype.name) for a in arrays]
        self._set_inputs(inputs)

    def _set_inputs(self, inputs):
        kwargs = {"training": K.learning_phase()} if base_layer._accepts(self, "training") else {}
        outputs = self(generic.unpack_singleton(inputs), **kwargs)
        self.inputs, self.outputs = inputs, nest.flatten(outputs)
        self.input_names = ["input_%d" % (i + 1) for i in range(len(inputs))]
        self.output_names = ["output_%d" % (i + 1) for i in range(len(self.outputs))]

    def build(self, input_shape=None):
        """Makes the weights of a subclassed model for inputs of this shape."""
        if self._is_graph_network or self.inputs is not None or input_shape is None or getattr(base_layer._calls, "building",
                                                                                               False):
            self.built = True
            return
        many = isinstance(input_shape, list)
        base_layer._calls.building = True
        try:
            self._set_inputs([Input(batch_shape=tuple(s)) for s in (input_shape if many else [input_shape])])
        finally:
            base_layer._calls.building = False
        self.built = True

    def _prepare(self, inputs, flat):
        self.built = True  # a model is called with tensors: its layers build themselves

    def _source(self, x, y, sample_weight, batch_size, steps, class_weight=None, shuffle=False, with_targets=True):
        if not data.is_batches(x):
            if x is None and not self._feed_inputs() if self.inputs is not None else False:
                return self._source_without_inputs(self._standardize([], y, sample_weight, class_weight, with_targets), steps)
            arrays = self._standardize(x, y, sample_weight, class_weight, with_targets)
            size = batch_size or (-(-len(arrays[0][0]) // steps) if steps else 32)
            return data.Arrays(*arrays, size, shuffle)
        if y is not None and not data._has_tensors(x):
            raise ValueError("`y` argument is not supported when data is a generator, a dataset or a Sequence.")
        batches, known = data.batches_of(x, y, sample_weight, shuffle)
        if steps is None and known is None and data._has_tensors(x):
            raise ValueError("When using data tensors as input to a model, you should specify the `steps_per_epoch` argument.")

        def take(batch):
            parts = batch if isinstance(batch, tuple) else (batch,)
            if len(parts) > 3:
                raise ValueError("Output of generator should be a tuple `(x, y, sample_weight)` or `(x, y)`. Found: %s" %
                                 (batch,))
            made = self._standardize(parts[0], parts[1] if len(parts) > 1 else None, parts[2] if len(parts) > 2 else None,
                                     class_weight, with_targets)
            return made + (len(made[0][0]) if made[0] else 1,)

        return data.Steps(batches, take, steps or known)

    @staticmethod
    def _source_without_inputs(fed, steps):
        """All inputs are tensors of the graph: nothing is fed, or all targets in each step."""
        if steps is None:
            raise ValueError("When using data tensors as input to a model, you should specify the `steps_per_epoch` argument.")
        return data.Steps(lambda first: iter(lambda: (), None), lambda batch: fed + (len(fed[1][0]) if fed[1] else 1,), steps)

    # ---- fit, evaluate, predict ----

    def fit(self, x=None, y=None, batch_size=None, epochs=1, verbose=1, callbacks=None, validation_split=0.0,
            validation_data=None, shuffle=True, class_weight=None, sample_weight=None, initial_epoch=0, steps_per_epoch=None,
            validation_steps=None, validation_freq=1, max_queue_size=10, workers=1, use_multiprocessing=False, **kwargs):
        """Trains the model for a number of epochs.

        Args:
            x: arrays, a dict of arrays, tensors, a dataset, a generator or a Sequence
            y: the targets, unless x gives them
            batch_size: the number of samples in a batch, 32 by default
            verbose: 0 prints nothing, 1 a progress bar, 2 a line for each epoch
            callbacks: a list of Callback objects
            validation_split: the fraction of samples, taken from the end, to validate with
            validation_data: (x, y) or (x, y, weights) to validate with after each epoch
            shuffle: whether to shuffle the samples before each epoch
            class_weight: {class: weight of its samples in the loss}
            sample_weight: an array with the weight of each sample
            initial_epoch: the epoch to start at
            steps_per_epoch: the number of batches in an epoch, where it does not follow from x
            validation_steps: the number of batches to validate with
            validation_freq: how many epochs there are between validations, or a list of epochs

        Returns:
            A History, whose attribute history has the losses and metrics of each epoch.
        """
        if "nb_epoch" in kwargs:
            epochs = kwargs.pop("nb_epoch")
        if kwargs:
            raise TypeError("Unrecognized keyword arguments: " + str(kwargs))
        from . import loops
        with self._graph.as_default():
            if validation_split and validation_data is None:
                x, y, sample_weight, validation_data = self._split(x, y, sample_weight, validation_split)
            source = self._source(x, y, sample_weight, batch_size, steps_per_epoch, class_weight, shuffle)
            validation = None
            if validation_data is not None:
                validation = self._validation_source(validation_data, batch_size, validation_steps)
            return loops.fit(self, source, validation, epochs, initial_epoch, verbose, callbacks, validation_freq)

    def _split(self, x, y, sample_weight, part):
        if not 0.0 < part < 1.0:
            raise ValueError("`validation_split` must be between 0 and 1, got %s" % part)
        if data.is_batches(x):
            raise ValueError("`validation_split` is only supported for Tensors or NumPy arrays, found: %s" % (x,))
        inputs, targets, _ = self._standardize(x, y)
        at = int(len(inputs[0]) * (1.0 - part))
        if at == 0 or at == len(inputs[0]):
            raise ValueError("validation_split=%s leaves no data for training or for validation" % part)
        single = lambda arrays: arrays[0] if len(arrays) == 1 else arrays
        names = [o.name for o in self._trained if o.is_fed]
        weights = data.sample_weights(sample_weight, names)
        cut = lambda arrays, s: [None if a is None else a[s] for a in arrays]
        first, rest = slice(0, at), slice(at, None)
        validation = (single(cut(inputs, rest)), single(cut(targets, rest)))
        if sample_weight is not None:
            validation += (single(cut(weights, rest)),)
        return (single(cut(inputs, first)), single(cut(targets, first)),
                None if sample_weight is None else single(cut(weights, first)), validation)

    def _validation_source(self, given, batch_size, steps):
        if data.is_batches(given) and not isinstance(given, (list, tuple)):
            return self._source(given, None, None, batch_size, steps)
        if len(given) not in (2, 3):
            raise ValueError("When passing a `validation_data` argument, it must contain either 2 items (x_val, y_val), or 3 "
                             "items (x_val, y_val, val_sample_weights). However we received `validation_data=%s`" % (given,))
        return self._source(given[0], given[1], given[2] if len(given) == 3 else None, batch_size, steps)

    def evaluate(self, x=None, y=None, batch_size=None, verbose=1, sample_weight=None, steps=None, callbacks=None,
                 max_queue_size=10, workers=1, use_multiprocessing=False):
        """Computes the loss and the metrics on some data; returns one number, or a list as metrics_names tells.

        Args:
            x: arrays, tensors, a dataset, a generator or a Sequence
            y: the targets, unless x gives them
            batch_size: the number of samples in a batch, 32 by default
            verbose: 0 prints nothing, 1 a progress bar
            sample_weight: an array with the weight of each sample
            steps: the number of batches, where it does not follow from x
        """
        from . import loops
        with self._graph.as_default():
            return loops.evaluate(self, self._source(x, y, sample_weight, batch_size, steps), verbose, callbacks)

    def predict(self, x, batch_size=None, verbose=0, steps=None, callbacks=None, max_queue_size=10, workers=1,
                use_multiprocessing=False):
        """Computes the outputs for some data, and returns them as arrays.

        Args:
            x: arrays, tensors, a dataset, a generator or a Sequence
            batch_size: the number of samples in a batch, 32 by default
            steps: the number of batches, where it does not follow from x
        """
        from . import loops
        with self._graph.as_default():
            return loops.predict(self, self._source(x, None, None, batch_size, steps, with_targets=False), verbose, callbacks)

    def train_on_batch(self, x, y=None, sample_weight=None, class_weight=None, reset_metrics=True):
        """Runs one training step on a batch, and returns its loss and metrics.

        With reset_metrics False, the metrics are those of all batches since the last reset."""
        return self._on_batch("train", x, y, sample_weight, class_weight, reset_metrics)

    def test_on_batch(self, x, y=None, sample_weight=None, reset_metrics=True):
        """Computes the loss and the metrics on a batch."""
        return self._on_batch("test", x, y, sample_weight, None, reset_metrics)

    def _on_batch(self, kind, x, y, sample_weight, class_weight, reset_metrics):
        with self._graph.as_default():
            arrays = self._standardize(x, y, sample_weight, class_weight)
            values = self._run(kind, *arrays)
            if reset_metrics and self.metrics:
                self.reset_metrics()
        return generic.unpack_singleton(values)

    def predict_on_batch(self, x):
        """Computes the outputs for a batch."""
        with self._graph.as_default():
            inputs = self._standardize(x, with_targets=False)[0]
            return generic.unpack_singleton(self._run("predict", inputs))

    def fit_generator(self, generator, steps_per_epoch=None, epochs=1, verbose=1, callbacks=None, validation_data=None,
                      validation_steps=None, validation_freq=1, class_weight=None, max_queue_size=10, workers=1,
                      use_multiprocessing=False, shuffle=True, initial_epoch=0):
        """Trains the model on batches of a generator or a Sequence; the other arguments are those of fit."""
        return self.fit(generator, steps_per_epoch=steps_per_epoch, epochs=epochs, verbose=verbose, callbacks=callbacks,
                        validation_data=validation_data, validation_steps=validation_steps, validation_freq=validation_freq,
                        class_weight=class_weight, shuffle=shuffle, initial_epoch=initial_epoch)

    def evaluate_generator(self, generator, steps=None, callbacks=None, max_queue_size=10, workers=1, use_multiprocessing=False,
                           verbose=0):
        """Computes the loss and the metrics on batches of a generator or a Sequence."""
        return self.evaluate(generator, steps=steps, verbose=verbose, callbacks=callbacks)

    def predict_generator(self, generator, steps=None, callbacks=None, max_queue_size=10, workers=1, use_multiprocessing=False,
                          verbose=0):
        """Computes the outputs for batches of a generator or a Sequence."""
        return self.predict(generator, steps=steps, verbose=verbose, callbacks=callbacks)
