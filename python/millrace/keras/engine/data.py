"""Data for models: arrays cut into batches, or batches from wherever they come.

A source has epoch(), which gives batches (inputs, targets, weights, number of samples), and tells how many samples or steps an
epoch has where that is known.  Weights are a list with None for outputs that have none.
"""

import inspect

import numpy as np

import millrace as tf

from ...framework import nest, ops
from .. import backend as K
from ..utils.data_utils import Sequence


def as_list(data, names, what):
    """Arrays in the order of the names, whatever form they came in."""
    if data is None:
        return []
    if isinstance(data, dict):
        missing = [n for n in names if n not in data]
        if missing:
            raise ValueError('No data provided for "%s". Need data for each key in: %s' % (missing[0], names))
        data = [data[n] for n in names]
    elif isinstance(data, (list, tuple)):
        if len(names) == 1 and not (len(data) == 1 and hasattr(data[0], "shape") and np.ndim(data[0]) > 0):
            data = [data]
        data = list(data)
    else:
        data = [data]
    data = [_as_array(x) for x in data]
    if len(data) != len(names):
        raise ValueError("Error when checking model %s: the list of Numpy arrays that you are passing to your model is not the "
                         "size the model expected. Expected to see %d array(s), but instead got the following list of %d "
                         "arrays: %s..." %
                         (what, len(names), len(data), str(data)[:200]))
    return data


def _as_array(x):
    if type(x).__module__.startswith("pandas"):
        x = x.values
    if hasattr(x, "toarray"):
        x = x.toarray()
    x = np.asarray(x)
    return x[:, None] if x.ndim == 1 else x


def check_shapes(arrays, names, shapes, what):
    for x, name, shape in zip(arrays, names, shapes):
        if shape is None:
            continue
        if x.ndim != len(shape):
            raise ValueError("Error when checking %s: expected %s to have %d dimensions, but got array with shape %s" %
                             (what, name, len(shape), x.shape))
        for have, want in zip(x.shape[1:], shape[1:]):
            if want is not None and have != want:
                raise ValueError("Error when checking %s: expected %s to have shape %s but got array with shape %s" %
                                 (what, name, tuple(shape[1:]), x.shape[1:]))


def check_lengths(inputs, targets, weights):
    counts = [sorted({len(x) for x in group if x is not None}) for group in (inputs, targets, weights)]
    for n, what in zip(counts, ("input", "target", "sample_weight")):
        if len(n) > 1:
            raise ValueError("All %s arrays (x) should have the same number of samples. Got array sizes: %s" % (what, n))
    found = sorted({n[0] for n in counts if n})
    if len(found) > 1:
        raise ValueError("Input arrays should have the same number of samples as target arrays. Found %d input samples and %d "
                         "target samples." % (counts[0][0] if counts[0] else 0,
                                              next(n[0] for n in counts[1:] if n and n != counts[0])))


# ---- weights ----

def sample_weights(given, names):
    """One array or None for each output."""
    if given is None:
        return [None] * len(names)
    if isinstance(given, dict):
        unknown = set(given) - set(names)
        if unknown:
            raise ValueError("Unknown entries in sample_weight dictionary: %s. Only expected following keys: %s" %
                             (sorted(unknown), names))
        return [None if given.get(n) is None else np.asarray(given[n]) for n in names]
    if isinstance(given, (list, tuple)) and len(names) > 1:
        if len(given) != len(names):
            raise ValueError("Provided `sample_weight` was a list of %d elements, but the model has %d outputs." %
                             (len(given), len(names)))
        return [None if w is None else np.asarray(w) for w in given]
    if len(names) != 1:
        raise ValueError("The model has multiple outputs, so `sample_weight` should be either a list or a dict.")
    given = np.asarray(given)
    return [given[0] if isinstance(given, np.ndarray) and given.ndim > 1 and given.shape[0] == 1 else given]


def class_weights(given, targets, names):
    """Weights of samples by their classes."""
    if given is None:
        return [None] * len(names)
    if len(names) == 1 and not (isinstance(given, dict) and list(given) == names and isinstance(given[names[0]], dict)):
        given = {names[0]: given}
    elif isinstance(given, (list, tuple)):
        given = dict(zip(names, given))
    return [_by_class(given.get(n), y) for n, y in zip(names, targets)]


def _by_class(table, y):
    if table is None:
        return None
    if y.ndim > 2:
        raise ValueError("`class_weight` not supported for 3+ dimensional targets.")
    classes = y.argmax(axis=1) if y.ndim == 2 and y.shape[1] > 1 else y.reshape(-1)
    missing = set(np.unique(classes).tolist()) - set(table)
    if missing:
        raise ValueError("`class_weight` must contain all classes in the data. The classes %s exist in the data but not in "
                         "`class_weight`." % missing)
    return np.array([table[c] for c in classes.tolist()], dtype=K.floatx())


def product(a, b):
    return b if a is None else a if b is None else a * b


# ---- sources ----

class Arrays:
    """Arrays that are cut into batches; shuffle=True mixes samples, "batch" whole batches."""

    def __init__(self, inputs, targets, weights, batch_size, shuffle=False):
        self.inputs, self.targets, self.weights = inputs, targets, weights
        self.samples = len((inputs + targets)[0]) if inputs or targets else 0
        self.batch_size, self.shuffle = batch_size, shuffle
        self.steps = -(-self.samples // batch_size)

    def epoch(self):
        order = np.arange(self.samples)
        if self.shuffle == "batch":
            blocks = [order[i:i + self.batch_size] for i in range(0, self.samples, self.batch_size)]
            full = [b for b in blocks if len(b) == self.batch_size]
            np.random.shuffle(full)
            order = np.concatenate(full + blocks[len(full):])
        elif self.shuffle:
            np.random.shuffle(order)
        for begin in range(0, self.samples, self.batch_size):
            if self.shuffle:
                ids = order[begin:begin + self.batch_size]
            else:
                ids = slice(begin, begin + self.batch_size)
            yield ([x[ids] for x in self.inputs], [y[ids] for y in self.targets],
                   [None if w is None else w[ids] for w in self.weights], min(self.batch_size, self.samples - begin))


class Steps:
    """Batches that come one by one.  take(batch) brings one into the model's form; steps is None where they come to an end."""

    samples, batch_size = None, None

    def __init__(self, batches, take, steps):
        self._batches, self._take, self.steps = batches, take, steps

    def epoch(self):
        done = 0
        for batch in self._batches(done == 0):
            yield self._take(batch)
            done += 1
            if self.steps is not None and done >= self.steps:
                return
        if self.steps is not None and done < self.steps:
            tf.logging.warning("Your dataset iterator ran out of data; interrupting training. Make sure that your iterator can "
                               "generate at least `steps_per_epoch * epochs` batches (in this case, %d batches). You may need "
                               "to use the repeat() function when building your dataset." % self.steps)
        elif self.steps is None:
            self.steps = done


def is_batches(x):
    """Whether it gives batches, rather than being data."""
    return (isinstance(x, Sequence) or inspect.isgenerator(x) or _is_dataset(x) or hasattr(x, "get_next") or _has_tensors(x) or
            hasattr(x, "__next__") and not isinstance(x, (list, tuple, dict)))


def _is_dataset(x):
    return hasattr(x, "make_one_shot_iterator") or hasattr(x, "_as_variant_tensor")


def _has_tensors(x):
    return any(isinstance(t, (ops.Tensor, tf.Variable)) for t in nest.flatten(x)) if x is not None else False


def batches_of(x, y=None, sample_weight=None, shuffle=False):
    """(function that begins an epoch's batches, number of them if known)"""
    if isinstance(x, Sequence):
        def numbered(first):
            order = np.arange(len(x))
            if shuffle:
                np.random.shuffle(order)
            try:
                for i in order:
                    yield x[int(i)]
            finally:  # the last batch may be the last that is asked for
                x.on_epoch_end()
        return numbered, len(x)
    if _is_dataset(x):
        return _of_dataset(x), None
    if hasattr(x, "get_next"):
        element = x.get_next()
        return _of_tensors(element), None
    if _has_tensors(x):
        element = tuple(e for e in (x, y, sample_weight) if e is not None)
        return _of_tensors(element), None
    return lambda first: x, None


def _of_tensors(element):
    def batches(first):
        while True:
            try:
                yield K.get_session().run(element)
            except tf.errors.OutOfRangeError:
                return
    return batches


def _of_dataset(dataset):
    """Uses one iterator until it is exhausted; an epoch that finds it exhausted restarts it."""
    kept = {}

    def batches(first):
        if "next" not in kept:
            kept["iterator"] = dataset.make_initializable_iterator()
            kept["next"] = kept["iterator"].get_next()
            kept["fresh"] = False
        if not kept["fresh"]:
            K.get_session().run(kept["iterator"].initializer)
            kept["fresh"] = True
        while True:
            try:
                value = K.get_session().run(kept["next"])
            except tf.errors.OutOfRangeError:
                kept["fresh"] = False
                return
            yield value
    return batches
