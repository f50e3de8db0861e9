"""tf.estimator.inputs: input functions over arrays in memory."""

import collections

import numpy as np

from ..data import Dataset
from ..framework import dtypes, ops


def _order(number, shuffle, num_epochs, seed):
    """Positions, epoch after epoch."""
    random = np.random.RandomState(seed)
    epoch = 0
    while num_epochs is None or epoch < num_epochs:
        yield from random.permutation(number) if shuffle else range(number)
        epoch += 1


def _batches(arrays, number, batch_size, shuffle, num_epochs, seed):
    """Batches of rows; they go on over the end of an epoch, and only the very last may be smaller."""
    rows = []
    for i in _order(number, shuffle, num_epochs, seed):
        rows.append(i)
        if len(rows) == batch_size:
            yield tuple(a[rows] for a in arrays)
            rows = []
    if rows:
        yield tuple(a[rows] for a in arrays)


def _type_of(array):
    return dtypes.string if array.dtype.kind in "OSU" else dtypes.as_dtype(array.dtype)


def _check(shuffle, batch_size):
    if not isinstance(shuffle, bool):
        raise ValueError("shuffle must be provided and explicitly set as boolean (it is recommended to set it as True for "
                         "training); "
                         "got %s" % shuffle)
    if batch_size < 1:
        raise ValueError("batch_size must be positive")


def _tensors(arrays, batch_size, num_epochs, shuffle):
    """Tensors that are the next batch whenever they are run."""
    number = len(arrays[0])
    if number == 0:
        raise ValueError("The data has no rows")
    seed = ops.get_default_graph().seed if shuffle else None
    size = batch_size if num_epochs is None else None
    dataset = Dataset.from_generator(lambda: _batches(arrays, number, batch_size, shuffle, num_epochs, seed),
                                     tuple(_type_of(a) for a in arrays), tuple([size] + list(a.shape[1:]) for a in arrays))
    return dataset.prefetch(1).make_one_shot_iterator().get_next()


def numpy_input_fn(x, y=None, batch_size=128, num_epochs=1, shuffle=None, queue_capacity=1000, num_threads=1):
    """A function that gives batches of arrays: (features, labels), or the features when there are no labels."""
    _check(shuffle, batch_size)
    if not isinstance(x, (dict, np.ndarray)):
        raise TypeError("x must be a dict or array; got %s" % type(x).__name__)

    def input_fn():
        features = collections.OrderedDict(sorted(x.items())) if isinstance(x, dict) else {None: x}
        if not features:
            raise ValueError("x cannot be an empty dict")
        if y is not None and isinstance(y, dict) and not y:
            raise ValueError("y cannot be empty dict, use None instead.")
        labels = {} if y is None else collections.OrderedDict(sorted(y.items())) if isinstance(y, dict) else {None: y}
        arrays = [np.asarray(a) for a in list(features.values()) + list(labels.values())]
        if len({len(a) for a in arrays}) != 1:
            raise ValueError("Length of tensors in x and y is mismatched. All elements in x and y must have the same length. "
                             "Shapes: %s" %
                             [a.shape for a in arrays])
        made = _tensors(arrays, batch_size, num_epochs, shuffle)
        given, wanted = dict(zip(features, made)), dict(zip(labels, made[len(features):]))
        given = given if isinstance(x, dict) else given[None]
        if y is None:
            return given
        return given, (wanted if isinstance(y, dict) else wanted[None])

    return input_fn


def pandas_input_fn(x, y=None, batch_size=128, num_epochs=1, shuffle=None, queue_capacity=1000, num_threads=1,
                    target_column="target"):
    """A function that gives batches of a DataFrame's columns."""
    _check(shuffle, batch_size)
    if not hasattr(x, "columns"):
        raise TypeError("x must be a pandas DataFrame; got %s" % type(x).__name__)
    if y is not None and not hasattr(y, "columns") and target_column in x:
        raise ValueError("Cannot use name %s for target column: DataFrame already has a column with that name: %s" %
                         (target_column, x.columns))
    if y is not None and not np.array_equal(x.index, y.index):
        raise ValueError("Index for x and y are mismatched.")
    features = {c: np.asarray(x[c]) for c in x.columns}
    labels = y if y is None else {c: np.asarray(y[c]) for c in y.columns} if hasattr(y, "columns") else np.asarray(y)
    return numpy_input_fn(features, labels, batch_size, num_epochs, shuffle, queue_capacity, num_threads)
