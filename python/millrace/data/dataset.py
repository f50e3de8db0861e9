"""tf.data.Dataset: a sequence of elements, made by an operation of the graph and changed by others.

A dataset is a variant tensor and the specs of its elements (structure.py).  Each method adds the operation of one
transformation; nothing runs before an iterator (iterator.py) asks for elements.
"""

import builtins
import functools
import os

import numpy as np

from ..framework import convert, dtypes, ops, random_seed, shapes, type_spec
from ..framework.op_defs import call
from . import structure
from .functions import built, dataset_op, returns_scalar
from .options import Options

AUTOTUNE = -1
_MAX_INT64 = 2 ** 63 - 1


def int64(value, name=None):
    """Converts a value to an int64 tensor."""
    return convert.convert_to_tensor(value, dtypes.int64, name=name)


def _count(value, default):
    return int64(default if value is None else value)


def seeds(seed):
    """The two seeds of an operation of a dataset, as tensors; a seed may be a tensor itself."""
    if isinstance(seed, ops.Tensor):
        return int64(ops.get_default_graph().seed or random_seed.DEFAULT_GRAPH_SEED), call("Cast", None, x=seed,
                                                                                           DstT=dtypes.int64)
    first, second = random_seed.get_seed(seed)
    return int64(first or 0, "seed"), int64(second or 0, "seed2")


class Dataset:
    """A sequence of elements that may be long, infinite or not known before it is read."""

    def __init__(self, variant_tensor, element_spec, options=None, inputs=()):
        """inputs: the datasets that it is made of."""
        self._variant_tensor, self.element_spec = variant_tensor, element_spec
        self._options, self._input_datasets = options or Options(), inputs

    def _inputs(self):
        return list(self._input_datasets)

    def _as_serialized_graph(self):
        """The GraphDef of the operations that make it, as a string tensor."""
        return call("DatasetToGraph", None, input_dataset=self._variant_tensor)

    def _as_variant_tensor(self):
        return self._variant_tensor

    @property
    def _graph(self):
        return self._variant_tensor.graph

    @property
    def output_types(self):
        """The types of the parts of an element."""
        return structure.legacy_types(self.element_spec)

    @property
    def output_shapes(self):
        """The shapes of the parts of an element."""
        return structure.legacy_shapes(self.element_spec)

    @property
    def output_classes(self):
        """The classes of the parts of an element: Tensor, SparseTensor or others."""
        return structure.legacy_classes(self.element_spec)

    def __repr__(self):
        return "<%s shapes: %s, types: %s>" % (type(self).__name__, self.output_shapes, self.output_types)

    def __iter__(self):
        raise RuntimeError("__iter__() is only supported inside of tf.function or when eager execution is enabled.")

    def options(self):
        """Returns the options of the dataset."""
        return self._options

    def with_options(self, options):
        """Returns the dataset with further options."""
        return Dataset(self._variant_tensor, self.element_spec, self._options.merge(options), [self])

    def _apply_options(self, variant=None):
        """The variant that an iterator goes over: this dataset's or the one given, with options that change results."""
        variant = self._variant_tensor if variant is None else variant
        if self._options.experimental_deterministic is not False:
            return variant
        return dataset_op("OptimizeDataset", self.element_spec, input_dataset=variant,
                          optimizations=convert.convert_to_tensor(["make_sloppy"], name="optimizations"))

    def _new(self, op_type, specs=None, inputs=None, **arguments):
        """The dataset of an operation on this one."""
        specs = self.element_spec if specs is None else specs
        variant = dataset_op(op_type, specs, input_dataset=self._variant_tensor, **arguments)
        return Dataset(variant, specs, self._options, inputs or [self])

    # ---- sources ----

    @staticmethod
    def from_tensors(tensors):
        """Returns a dataset with one element: the tensors."""
        values = structure.as_values(tensors)
        specs = structure.specs_of(values)
        return Dataset(call("TensorDataset", None, components=structure.encode(values),
                            output_shapes=structure.shapes_of(specs)), specs)

    @staticmethod
    def from_tensor_slices(tensors):
        """An element for each index of the tensors' first dimension, which must agree."""
        values = structure.as_values(tensors)
        if not structure.flatten(values):
            raise ValueError("A dataset needs at least one tensor")
        specs = structure.specs_of(values)
        first = shapes.Dimension(None)
        for s in structure.flatten(specs):
            if s.shape.ndims == 0:
                raise ValueError("A scalar has no slices: from_tensor_slices needs tensors of rank 1 or more")
            if s.shape.ndims is not None:
                first = first.merge_with(s.shape[0])
        specs = structure.unbatched(specs)
        return Dataset(call("TensorSliceDataset", None, components=structure.encode(values, rows=True),
                            output_shapes=structure.shapes_of(specs)), specs)

    @staticmethod
    def from_sparse_tensor_slices(sparse_tensor):
        """An element (indices, values, dense_shape) for each row."""
        rank = sparse_tensor.shape.ndims
        inner = None if rank is None else rank - 1
        specs = (type_spec.TensorSpec([None, inner], dtypes.int64), type_spec.TensorSpec([None], sparse_tensor.dtype),
                 type_spec.TensorSpec([inner], dtypes.int64))
        return Dataset(call("SparseTensorSliceDataset", None, indices=sparse_tensor.indices, values=sparse_tensor.values,
                            dense_shape=sparse_tensor.dense_shape), specs)

    @staticmethod
    def from_generator(generator, output_types, output_shapes=None, args=None):
        """Returns a dataset of what a Python generator yields; generator(*args) is called for each iteration."""
        from . import generator as generators
        return generators.dataset(generator, output_types, output_shapes, args)

    @staticmethod
    def range(*args):
        """The numbers of Python's range, as int64."""
        if not 1 <= len(args) <= 3:
            raise ValueError("range takes 1 to 3 arguments, not %d" % len(args))
        start, stop, step = ((0,) + args if len(args) == 1 else args) + (() if len(args) == 3 else (1,))
        specs = type_spec.TensorSpec([], dtypes.int64)
        return Dataset(dataset_op("RangeDataset", specs, start=int64(start, "start"), stop=int64(stop, "stop"),
                                  step=int64(step, "step")), specs)

    @staticmethod
    def zip(datasets):
        """Returns a dataset of elements of several, combined in the structure of `datasets`; the shortest ends it."""
        parts = structure.flatten(datasets)
        for d in parts:
            if not isinstance(d, Dataset):
                if isinstance(d, list):
                    raise TypeError("The argument to `Dataset.zip()` must be a nested structure of `Dataset` objects. Nested "
                                    "structures do not support Python lists; please use a tuple instead.")
                raise TypeError("The argument to `Dataset.zip()` must be a nested structure of `Dataset` objects, not %s." %
                                type(d))
        specs = structure.pack(datasets, [d.element_spec for d in parts])
        options = functools.reduce(Options.merge, [d._options for d in parts])
        variant = dataset_op("ZipDataset", specs, input_datasets=[d._variant_tensor for d in parts])
        return Dataset(variant, specs, options, parts)

    @staticmethod
    def list_files(file_pattern, shuffle=None, seed=None):
        """The names of files that match, in an order that changes from run to run unless told otherwise."""
        with ops.name_scope(None, "list_files"):
            pattern = convert.convert_to_tensor(file_pattern, dtypes.string, name="file_pattern")
            files = call("MatchingFiles", None, pattern=pattern)
            number = call("Size", None, input=files, out_type=dtypes.int64)
            message = convert.convert_to_tensor("No files matched pattern: ")
            check = call("Assert", "assert_not_empty", condition=call("Greater", None, x=number, y=int64(0)),
                         data=[message, pattern])
            with ops.control_dependencies([check]):
                files = call("Identity", None, input=files)
            dataset = Dataset.from_tensor_slices(files)
            if shuffle is None or shuffle:
                dataset = dataset.shuffle(call("Maximum", None, x=number, y=int64(1)), seed=seed)
            return dataset

    # ---- one element at a time ----

    def map(self, map_func, num_parallel_calls=None):
        """map_func of each element; the order stays, unless the options say that it does not matter."""
        f, specs = built(map_func, self.element_spec, "Dataset.map()")
        arguments = dict(f=f, other_arguments=f.captured_inputs,
                         preserve_cardinality=False)  # as in 1.x, OutOfRangeError in the function ends the dataset
        if num_parallel_calls is None:
            return self._new("MapDataset", specs, **arguments)
        calls = convert.convert_to_tensor(num_parallel_calls, dtypes.int32, name="num_parallel_calls")
        return self._new("ParallelMapDataset", specs, num_parallel_calls=calls, **arguments)

    def map_with_legacy_function(self, map_func, num_parallel_calls=None):
        """Returns a dataset of map_func of each element; the same as map."""
        return self.map(map_func, num_parallel_calls)

    def filter(self, predicate):
        """The elements that predicate is true for."""
        f, specs = built(predicate, self.element_spec, "Dataset.filter()")
        if not returns_scalar(specs, dtypes.bool_):
            raise ValueError("`predicate` must return a scalar boolean tensor, got %s" % (specs,))
        return self._new("FilterDataset", predicate=f, other_arguments=f.captured_inputs)

    filter_with_legacy_function = filter

    def flat_map(self, map_func):
        """The elements of the datasets that map_func makes of elements, one after the other."""
        f, specs = self._dataset_function(map_func, "Dataset.flat_map()")
        return self._new("FlatMapDataset", specs, f=f, other_arguments=f.captured_inputs)

    def interleave(self, map_func, cycle_length=AUTOTUNE, block_length=1, num_parallel_calls=None):
        """Works like flat_map with cycle_length datasets at a time, taking block_length elements of each in turn."""
        f, specs = self._dataset_function(map_func, "Dataset.interleave()")
        if not isinstance(cycle_length, ops.Tensor) and cycle_length == AUTOTUNE:
            cycle_length = len(os.sched_getaffinity(0))
        arguments = dict(f=f, other_arguments=f.captured_inputs, cycle_length=int64(cycle_length),
                         block_length=int64(block_length))
        if num_parallel_calls is None:
            return self._new("InterleaveDataset", specs, **arguments)
        return self._new("ParallelInterleaveDatasetV2", specs, num_parallel_calls=int64(num_parallel_calls), **arguments)

    def _dataset_function(self, map_func, what):
        f, specs = built(map_func, self.element_spec, what)
        if not isinstance(specs, structure.DatasetSpec):
            raise TypeError("`map_func` must return a `Dataset` object. Got %s" % (specs,))
        return f, specs.element_spec

    def reduce(self, initial_state, reduce_func):
        """The state after reduce_func(state, element) for all elements, as tensors."""
        values = structure.as_values(initial_state)
        state = structure.specs_of(values)
        while True:  # until the state's shape is one that reduce_func keeps
            f, returned = built(reduce_func, (state, self.element_spec), "Dataset.reduce()", several=True)
            wider = structure.relaxed(state, returned)
            if wider == state:
                break
            state = wider
        flat = call("ReduceDataset", None, input_dataset=self._variant_tensor, initial_state=structure.encode(values), f=f,
                    other_arguments=f.captured_inputs, output_types=structure.types(state),
                    output_shapes=structure.shapes_of(state))
        return structure.decode(state, flat)

    # ---- how many, in which order ----

    def repeat(self, count=None):
        """Returns a dataset that repeats this one count times; None or -1 repeats it forever."""
        return self._new("RepeatDataset", count=_count(count, -1))

    def take(self, count):
        """Returns a dataset of the first count elements; -1 takes all."""
        return self._new("TakeDataset", count=int64(count))

    def skip(self, count):
        """Returns a dataset without the first count elements; -1 skips all."""
        return self._new("SkipDataset", count=int64(count))

    def shard(self, num_shards, index):
        """Every num_shards-th element, from index on."""
        return self._new("ShardDataset", num_shards=int64(num_shards), index=int64(index))

    def shuffle(self, buffer_size, seed=None, reshuffle_each_iteration=None):
        """Returns the dataset in random order: each element is drawn from a buffer of buffer_size elements."""
        first, second = seeds(seed)
        return self._new("ShuffleDataset", buffer_size=int64(buffer_size), seed=first, seed2=second,
                         reshuffle_each_iteration=reshuffle_each_iteration is None or reshuffle_each_iteration)

    def concatenate(self, dataset):
        """Returns a dataset of the elements of this one, then those of another one."""
        for what in ("types", "classes"):
            mine, theirs = (getattr(d, "output_" + what) for d in (self, dataset))
            if mine != theirs:
                raise TypeError("Two datasets to concatenate have different %s %s and %s" % (what, mine, theirs))
        specs = structure.relaxed(self.element_spec, dataset.element_spec)
        return self._new("ConcatenateDataset", specs, another_dataset=dataset._variant_tensor, inputs=[self, dataset])

    def enumerate(self, start=0):
        """Pairs of a number and an element."""
        return Dataset.zip((Dataset.range(start, _MAX_INT64), self))

    def cache(self, filename=""):
        """Keeps the elements in memory, or in files of that name, for the next time."""
        return self._new("CacheDataset", filename=convert.convert_to_tensor(filename, dtypes.string, name="filename"))

    def prefetch(self, buffer_size):
        """Makes elements ahead of time."""
        return self._new("PrefetchDataset", buffer_size=_count(buffer_size, AUTOTUNE))

    def apply(self, transformation_func):
        """Returns transformation_func(self), which must be a dataset."""
        dataset = transformation_func(self)
        if not isinstance(dataset, Dataset):
            raise TypeError("`transformation_func` must return a Dataset. Got %s." % (dataset,))
        return dataset

    # ---- several together ----

    def batch(self, batch_size, drop_remainder=False):
        """Returns a dataset of batches of batch_size elements; the last batch may be smaller."""
        size = int64(batch_size, "batch_size")
        drop = convert.convert_to_tensor(drop_remainder, dtypes.bool_, name="drop_remainder")
        specs = structure.batched(self.element_spec, static_batch(size, drop))
        return self._new("BatchDatasetV2", specs, batch_size=size, drop_remainder=drop)

    def padded_batch(self, batch_size, padded_shapes, padding_values=None, drop_remainder=False):
        """Returns a dataset of batches padded to one shape; a dimension of None becomes that of the longest element."""
        flat = structure.flatten(self.element_spec)
        if not all(isinstance(s, type_spec.TensorSpec) for s in flat):
            raise TypeError("Batching of padded sparse tensors is not currently supported")
        wanted = [_padded_shape(p, s.shape) for p, s in builtins.zip(structure.flatten_up_to(self.element_spec, padded_shapes),
                                                                     flat)]
        given = [None] * len(flat) if padding_values is None else structure.flatten_up_to(self.element_spec, padding_values)
        values = [_padding_value(v, s.dtype) for v, s in builtins.zip(given, flat)]
        size = int64(batch_size, "batch_size")
        drop = convert.convert_to_tensor(drop_remainder, dtypes.bool_, name="drop_remainder")
        number = static_batch(size, drop)
        specs = structure.pack(self.element_spec, [
            type_spec.TensorSpec(shapes.TensorShape([number]).concatenate(convert.constant_value_as_shape(w)), s.dtype)
            for w, s in builtins.zip(wanted, flat)])
        variant = call("PaddedBatchDatasetV2", None, input_dataset=self._variant_tensor, batch_size=size, padded_shapes=wanted,
                       padding_values=values, drop_remainder=drop, output_shapes=structure.shapes_of(specs))
        return Dataset(variant, specs, self._options, [self])

    def unbatch(self):
        """The rows of elements as elements."""
        number = shapes.Dimension(None)
        for s in structure.flatten(self.element_spec):
            if s.shape.ndims is not None:
                if s.shape.ndims == 0:
                    raise ValueError("Cannot unbatch an input with scalar components.")
                number = number.merge_with(s.shape[0])
        if any(isinstance(s, type_spec.SparseTensorSpec) for s in structure.flatten(self.element_spec)):
            return self._unbatch_sparse()
        return self._new("UnbatchDataset", structure.unbatched(self.element_spec))

    def _unbatch_sparse(self):
        """A packed sparse tensor has no rows: they are packed one by one first."""
        def in_rows(*parts):
            value = parts if type(self.element_spec) is tuple else parts[0]
            return tuple(structure.encode(value, rows=True))

        specs = structure.unbatched(self.element_spec)
        variant = dataset_op("UnbatchDataset", specs, input_dataset=self.map(in_rows)._variant_tensor)
        return Dataset(variant, specs, self._options, [self])

    def window(self, size, shift=None, stride=1, drop_remainder=False):
        """Datasets of `size` elements, each beginning `shift` after the one before."""
        specs = structure.map_leaves(structure.DatasetSpec, self.element_spec)
        return self._new("WindowDataset", specs, size=int64(size), shift=_count(shift, size), stride=int64(stride),
                         drop_remainder=convert.convert_to_tensor(drop_remainder, dtypes.bool_))

    # ---- iterators ----

    def make_one_shot_iterator(self):
        """An iterator that needs no initialization and goes through the dataset once."""
        from . import iterator
        return iterator.one_shot(self)

    def make_initializable_iterator(self, shared_name=None):
        """An iterator that begins when its `initializer` runs."""
        from . import iterator
        return iterator.initializable(self, shared_name)


DatasetV1 = DatasetV2 = DatasetV1Adapter = Dataset


def static_batch(size, drop):
    """How many elements all batches have, when it is known and the same for all."""
    return convert.constant_value(size) if convert.constant_value(drop) else None


def _padded_shape(wanted, shape):
    """A vector with -1 for what the batch decides."""
    if not isinstance(wanted, ops.Tensor):
        try:
            shapes.as_shape(wanted)
        except (TypeError, ValueError):
            wanted = convert.convert_to_tensor(wanted, preferred_dtype=dtypes.int64)
    if isinstance(wanted, ops.Tensor):
        if wanted.shape.ndims not in (None, 1):
            raise ValueError("Padded shape %s must be a 1-D tensor of tf.int64 values, but its shape was %s." %
                             (wanted, wanted.shape))
        if wanted.dtype is not dtypes.int64:
            raise TypeError("Padded shape %s must be a 1-D tensor of tf.int64 values, but its element type was %s." %
                            (wanted, wanted.dtype.name))
        given = convert.constant_value_as_shape(wanted)
        if given.ndims is not None and shape.ndims is not None and given.ndims != shape.ndims:
            raise ValueError("The padded shape %s is not compatible with the corresponding input component shape %s." %
                             (given, shape))
        return wanted
    given = shapes.as_shape([None if isinstance(d, (int, np.integer)) and d == -1 else d for d in wanted]
                            if isinstance(wanted, (list, tuple, np.ndarray)) else wanted)
    if given.ndims is None or shape.ndims is not None and shape.ndims != given.ndims:
        raise ValueError("The padded shape %s is not compatible with the corresponding input component shape %s." %
                         (given, shape))
    for want, have in builtins.zip(given.as_list(), shape.as_list() if shape.ndims is not None else given.as_list()):
        if want is not None and have is not None and have > want:
            raise ValueError("The padded shape %s is not compatible with the corresponding input component shape %s." %
                             (given, shape))
    return int64([-1 if d is None else d for d in given.as_list()])


def _padding_value(value, dtype):
    if value is None:
        value = "" if dtype is dtypes.string else np.zeros((), dtype.as_numpy_dtype)
    value = convert.convert_to_tensor(value, name="padding_value")
    if value.shape.ndims not in (None, 0):
        raise ValueError("Padding value should be a scalar, but is not: %s" % value)
    if value.dtype is not dtype:
        raise TypeError("Padding value tensor (%s) does not match output type: %s" % (value, dtype))
    return value


def get_legacy_output_types(dataset_or_iterator):
    """Returns the types of the parts of an element."""
    return dataset_or_iterator.output_types


def get_legacy_output_shapes(dataset_or_iterator):
    """Returns the shapes of the parts of an element."""
    return dataset_or_iterator.output_shapes


def get_legacy_output_classes(dataset_or_iterator):
    """Returns the classes of the parts of an element."""
    return dataset_or_iterator.output_classes


def get_structure(dataset_or_iterator):
    """Returns the specs of the parts of an element."""
    return dataset_or_iterator.element_spec


def make_one_shot_iterator(dataset):
    """Returns an iterator that needs no initialization."""
    return dataset.make_one_shot_iterator()


def make_initializable_iterator(dataset, shared_name=None):
    """Returns an iterator whose initializer must be run first; shared_name shares it between sessions."""
    return dataset.make_initializable_iterator(shared_name)
