"""tf.estimator.inputs: input functions over arrays and data frames."""
import numpy as np

from ..framework import dtypes

__all__ = ["numpy_input_fn", "pandas_input_fn"]


def _batches(columns, n, batch_size, num_epochs, shuffle):
    """A function whose calls give the batches of num_epochs rounds, one behind the other; a batch may be of two rounds."""
    def order():
        index = np.arange(n)
        epoch = 0
        while num_epochs is None or epoch < num_epochs:
            if shuffle:
                np.random.shuffle(index)
            yield from index
            epoch += 1

    def generate():
        chosen = []
        for i in order():
            chosen.append(i)
            if len(chosen) == batch_size:
                yield tuple(c[chosen] for c in columns)
                chosen = []
        if chosen:
            yield tuple(c[chosen] for c in columns)
    return generate


def _tensors(columns, n, batch_size, num_epochs, shuffle):
    """Tensors that give a batch a run."""
    from ..data import Dataset
    columns = [c.astype(object) if c.dtype.kind in "SU" else c for c in columns]
    types = tuple(dtypes.as_dtype(c.dtype) for c in columns)
    shapes = tuple([None] + list(c.shape[1:]) for c in columns)
    data = Dataset.from_generator(_batches(columns, n, batch_size, num_epochs, shuffle), types, shapes)
    return list(data.prefetch(1).make_one_shot_iterator().get_next())


def _checked(shuffle):
    if not isinstance(shuffle, bool):
        raise ValueError("shuffle must be provided and explicitly set as boolean (it is recommended to set it as True for training); "
                         "got %s" % shuffle)


def numpy_input_fn(x, y=None, batch_size=128, num_epochs=1, shuffle=None, queue_capacity=1000, num_threads=1):
    """x is an array or a dict of them, y likewise or None; num_epochs None goes on for ever."""
    _checked(shuffle)

    def input_fn():
        names, columns = _named(x, "x")
        targets, more = _named(y, "y") if y is not None else (None, [])
        if isinstance(targets, list) and isinstance(names, list) and set(names) & set(targets):
            raise ValueError("%d duplicate keys are found in both x and y: %s" % (len(set(names) & set(targets)),
                                                                               sorted(set(names) & set(targets))))
        n = len(columns[0])
        for name, c in zip((names or ["x"]) + (targets or ["y"]), columns + more):
            if len(c) != n:
                raise ValueError("Length of tensors in x and y is mismatched. All elements in x and y must have the same length: "
                                 "%s has %d, others %d" % (name, len(c), n))
        tensors = _tensors(columns + more, n, batch_size, num_epochs, shuffle)
        features = tensors[0] if names is None else dict(zip(names, tensors))
        if y is None:
            return features
        rest = tensors[len(columns):]
        return features, rest[0] if targets is None else dict(zip(targets, rest))
    return input_fn


def _named(value, what):
    """(sorted names, or None for a single array; the arrays)"""
    if isinstance(value, np.ndarray):
        return None, [value]
    if isinstance(value, dict):
        if not value:
            raise ValueError("%s cannot be an empty dict" % what)
        names = sorted(value)
        for name in names:
            if not isinstance(value[name], np.ndarray):
                raise TypeError("%s must be a dict of numpy arrays; %s is %s" % (what, name, type(value[name]).__name__))
        return names, [value[n] for n in names]
    raise TypeError("%s must be a dict or array; got %s" % (what, type(value).__name__))


def pandas_input_fn(x, y=None, batch_size=128, num_epochs=1, shuffle=None, queue_capacity=1000, num_threads=1,
                    target_column="target"):
    """x is a DataFrame, y a Series or DataFrame with the same index, or None."""
    _checked(shuffle)
    if y is not None and not np.array_equal(x.index, y.index):
        raise ValueError("Index for x and y are mismatched.\nIndex for x: %s\nIndex for y: %s\n" % (x.index, y.index))
    columns = {str(name): np.asarray(x[name]) for name in x.columns}
    if y is None:
        target = None
    elif hasattr(y, "columns"):
        target = {str(name): np.asarray(y[name]) for name in y.columns}
    else:
        target = np.asarray(y)
    return numpy_input_fn(columns, target, batch_size, num_epochs, shuffle)
