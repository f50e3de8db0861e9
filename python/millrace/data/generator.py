"""Datasets of what Python yields.

The library calls three functions: one that begins an iteration and returns its number, one that returns the next element for
such a number, one that ends it.  They are py_funcs, so the dataset is of the process that made it.
"""

import itertools
import threading

import numpy as np

import _millrace as _core
from ..framework import convert, dtypes, function, ops
from ..ops import script
from . import structure
from .dataset import Dataset
from .functions import dataset_op


class _Iterations:
    """The iterators that are open, by number."""

    def __init__(self, generator):
        self._generator, self._open = generator, {}
        self._numbers, self._lock = itertools.count(), threading.Lock()

    def begin(self, *args):
        iterator = iter(self._generator(*args))
        with self._lock:
            number = next(self._numbers)
            self._open[number] = iterator
        return np.int64(number)

    def reader(self, converted):
        """A function that returns the next element of the iterator with a number, converted.  It is called for every element."""
        iterators = self._open

        def read(number):
            return converted(next(iterators[int(number)]))

        return read

    def end(self, number):
        with self._lock:
            self._open.pop(int(number), None)
        return np.int64(0)


def _component(value, spec):
    """A yielded value as an array of the promised type and shape."""
    dtype = spec.dtype.as_numpy_dtype
    try:
        if spec.dtype is dtypes.string:
            array = np.asarray(value, dtype=object)
        elif isinstance(value, (np.ndarray, np.generic)):
            array = np.asarray(value).astype(dtype, casting="same_kind")
        else:
            array = np.asarray(value, dtype=dtype)
    except (TypeError, ValueError) as e:
        raise TypeError("`generator` yielded an element that could not be converted to the expected type. The expected type "
                        "was %s, "
                        "but the yielded element was %s." % (spec.dtype.name, value)) from e
    if not spec.shape.is_compatible_with(array.shape):
        raise ValueError("`generator` yielded an element of shape %s where an element of shape %s was expected." %
                         (array.shape, spec.shape))
    return array


def _converter(specs):
    """A function that makes the list of arrays of a yielded value."""
    parts = specs if type(specs) is tuple else (specs,)
    if not all(type(s) is structure.TensorSpec for s in parts):
        return lambda value: _flat_element(value, specs)
    fitting, count = _core.fitting, len(parts)
    wanted = tuple((np.dtype(s.dtype.as_numpy_dtype) if s.dtype.is_numpy_compatible and s.dtype is not dtypes.string else None,
                    None if s.shape.ndims is None else tuple(s.shape.as_list()), s) for s in parts)

    def convert_tuple(value):
        if type(value) is not tuple or len(value) != count:
            return _flat_element(value, specs)
        return fitting(value, wanted, _component)

    def convert_one(value):
        return fitting((value,), wanted, _component)

    return convert_tuple if parts is specs else convert_one


def _flat_element(value, specs):
    try:
        flat = structure.flatten_up_to(specs, value)
    except (TypeError, ValueError) as e:
        raise TypeError("`generator` yielded an element that did not match the expected structure. The expected structure was "
                        "%s, but "
                        "the yielded element was %s." % (structure.legacy_types(specs), value)) from e
    return [_component(v, s) for v, s in zip(flat, structure.flatten(specs))]


def dataset(generator, output_types, output_shapes, args):
    if not callable(generator):
        raise TypeError("`generator` must be callable.")
    types = tuple(output_types) if isinstance(output_types, list) else output_types
    specs = structure.from_legacy(types, output_shapes)
    args = tuple(convert.convert_n_to_tensor(args or (), name="args"))
    iterations = _Iterations(generator)
    flat_types = structure.types(specs)
    read = iterations.reader(_converter(specs))

    def begin():
        return script.py_func(iterations.begin, args, dtypes.int64, stateful=True)

    def following(number):
        values = script.converting_py_func(read, [number], flat_types)
        for v, s in zip(values, structure.flatten(specs)):
            v.set_shape(s.shape)
        return values

    def end(number):
        return script.py_func(iterations.end, [number], dtypes.int64, stateful=True)

    with ops.name_scope(None, "Generator"):
        init = function.build(begin, [], [], "Dataset_from_generator_begin")
        step = function.build(following, [dtypes.int64], [[]], "Dataset_from_generator_next")
        finalize = function.build(end, [dtypes.int64], [[]], "Dataset_from_generator_end")
        variant = dataset_op("GeneratorDataset", specs, init_func=init, next_func=step, finalize_func=finalize,
                             init_func_other_args=init.captured_inputs, next_func_other_args=step.captured_inputs,
                             finalize_func_other_args=finalize.captured_inputs)
    return Dataset(variant, specs)
