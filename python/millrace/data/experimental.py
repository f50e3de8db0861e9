"""tf.data.experimental: transformations for Dataset.apply, and datasets that are less common.

A function here returns a function of a dataset, as Dataset.apply wants it.
"""

import functools

import numpy as np

from ..framework import convert, dtypes, op_defs, ops, shapes, type_spec
from ..framework.op_defs import call
from ..ops import array, math
from . import structure
from .dataset import AUTOTUNE, Dataset, get_structure, int64, seeds, static_batch
from .functions import built, dataset_op, returns_scalar
from .optional import Optional, OptionalStructure, get_next_as_optional  # noqa: F401
from .options import DistributeOptions, MapVectorizationOptions, OptimizationOptions, StatsOptions, ThreadingOptions
from .readers import CsvDataset, SqlDataset

INFINITE_CARDINALITY, UNKNOWN_CARDINALITY = -1, -2


# ---- what methods of datasets do too ----

def unbatch():
    """Returns a transformation that splits elements along their first dimension."""
    return lambda dataset: dataset.unbatch()


def enumerate_dataset(start=0):
    """Returns a transformation that pairs each element with its number."""
    return lambda dataset: dataset.enumerate(start)


def batch_and_drop_remainder(batch_size):
    """Returns a transformation that joins batch_size elements, and drops a last batch that is smaller."""
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def padded_batch_and_drop_remainder(batch_size, padded_shapes, padding_values=None):
    """Returns a transformation that pads and joins batch_size elements, and drops a last batch that is smaller."""
    return lambda dataset: dataset.padded_batch(batch_size, padded_shapes, padding_values, drop_remainder=True)


def map_and_batch(map_func, batch_size, num_parallel_batches=None, drop_remainder=False, num_parallel_calls=None):
    """map and batch in one, with so many calls of map_func at a time."""
    if num_parallel_batches is not None and num_parallel_calls is not None:
        raise ValueError("The `num_parallel_batches` and `num_parallel_calls` arguments are mutually exclusive.")

    def apply(dataset):
        f, specs = built(map_func, dataset.element_spec, "tf.data.experimental.map_and_batch()")
        size = int64(batch_size, "batch_size")
        drop = convert.convert_to_tensor(drop_remainder, dtypes.bool_, name="drop_remainder")
        if num_parallel_calls is not None:
            calls = int64(num_parallel_calls)
        else:
            calls = call("Mul", None, x=size, y=int64(num_parallel_batches or 1))
        return dataset._new("MapAndBatchDataset", structure.batched(specs, static_batch(size, drop)), f=f,
                            other_arguments=f.captured_inputs, batch_size=size, num_parallel_calls=calls, drop_remainder=drop,
                            preserve_cardinality=True)
    return apply


map_and_batch_with_legacy_function = map_and_batch


def shuffle_and_repeat(buffer_size, count=None, seed=None):
    """Returns a transformation that shuffles with a buffer, and repeats count times in another order each time."""
    def apply(dataset):
        first, second = seeds(seed)
        return dataset._new("ShuffleAndRepeatDataset", buffer_size=int64(buffer_size), seed=first, seed2=second,
                            count=int64(-1 if count is None else count))
    return apply


def parallel_interleave(map_func, cycle_length, block_length=1, sloppy=False, buffer_output_elements=None,
                        prefetch_input_elements=None):
    """interleave whose datasets are read by threads of their own."""
    def apply(dataset):
        f, specs = dataset._dataset_function(map_func, "tf.data.experimental.parallel_interleave()")
        length = int64(cycle_length)
        buffered = call("Mul", None, x=int64(2),
                        y=int64(block_length)) if buffer_output_elements is None else buffer_output_elements
        ahead = call("Mul", None, x=int64(2), y=length) if prefetch_input_elements is None else prefetch_input_elements
        return dataset._new("ParallelInterleaveDataset", specs, f=f, other_arguments=f.captured_inputs, cycle_length=length,
                            block_length=int64(block_length), sloppy=convert.convert_to_tensor(sloppy, dtypes.bool_),
                            buffer_output_elements=int64(buffered), prefetch_input_elements=int64(ahead))
    return apply


# ---- groups ----

def group_by_window(key_func, reduce_func, window_size=None, window_size_func=None):
    """Returns a transformation that replaces window_size elements of a key by reduce_func(key, dataset of them)."""
    if (window_size is None) == (window_size_func is None):
        raise ValueError("Must pass either `window_size` or `window_size_func`, not both or none.")
    size_of = window_size_func or (lambda key: convert.convert_to_tensor(window_size, dtypes.int64))
    key_spec = type_spec.TensorSpec([], dtypes.int64)

    def apply(dataset):
        what = "tf.data.experimental.group_by_window()"
        key, key_specs = built(lambda *args: _as_int64(key_func(*args)), dataset.element_spec, what)
        if not returns_scalar(key_specs, dtypes.int64):
            raise ValueError("`key_func` must return a single tf.int64 tensor. Got %s" % (key_specs,))
        window, _ = built(lambda k: _as_int64(size_of(k)), key_spec, what)
        reduced, specs = built(reduce_func, (key_spec, structure.DatasetSpec(dataset.element_spec)), what, several=True)
        if not isinstance(specs, structure.DatasetSpec):
            raise TypeError("`reduce_func` must return a `Dataset` object.")
        return dataset._new("GroupByWindowDataset", specs.element_spec, key_func=key, reduce_func=reduced,
                            window_size_func=window,
                            key_func_other_arguments=key.captured_inputs, reduce_func_other_arguments=reduced.captured_inputs,
                            window_size_func_other_arguments=window.captured_inputs)
    return apply


def _as_int64(x):
    x = convert.convert_to_tensor(x)
    return x if x.dtype is dtypes.int64 or not x.dtype.is_integer else call("Cast", None, x=x, DstT=dtypes.int64)


class Reducer:
    """How elements are reduced: init_func(key), reduce_func(state, element), finalize_func(state)."""

    def __init__(self, init_func, reduce_func, finalize_func):
        self.init_func, self.reduce_func, self.finalize_func = init_func, reduce_func, finalize_func


def group_by_reducer(key_func, reducer):
    """Returns a transformation that reduces all elements of a key to one."""
    key_spec = type_spec.TensorSpec([], dtypes.int64)

    def apply(dataset):
        what = "tf.data.experimental.group_by_reducer()"
        key, key_specs = built(key_func, dataset.element_spec, what)
        if not returns_scalar(key_specs, dtypes.int64):
            raise ValueError("`key_func` must return a single tf.int64 tensor. Got %s" % (key_specs,))
        init, state = built(reducer.init_func, key_spec, what)
        while True:
            reduced, returned = built(reducer.reduce_func, (state, dataset.element_spec), what, several=True)
            wider = structure.relaxed(state, returned)
            if wider == state:
                break
            state = wider
        final, specs = built(reducer.finalize_func, state, what)
        return dataset._new("GroupByReducerDataset", specs, key_func=key, init_func=init, reduce_func=reduced,
                            finalize_func=final,
                            key_func_other_arguments=key.captured_inputs, init_func_other_arguments=init.captured_inputs,
                            reduce_func_other_arguments=reduced.captured_inputs,
                            finalize_func_other_arguments=final.captured_inputs)
    return apply


def bucket_by_sequence_length(element_length_func, bucket_boundaries, bucket_batch_sizes, padded_shapes=None,
                              padding_values=None,
                              pad_to_bucket_boundary=False, no_padding=False, drop_remainder=False):
    """Padded batches of elements of similar length; the i-th bucket ends before the i-th boundary."""
    if len(bucket_batch_sizes) != len(bucket_boundaries) + 1:
        raise ValueError("len(bucket_batch_sizes) must equal len(bucket_boundaries) + 1")
    sizes = np.array(bucket_batch_sizes, np.int64)
    ends = np.array(list(bucket_boundaries) + [np.iinfo(np.int32).max], np.int64)
    starts = np.array([np.iinfo(np.int32).min] + list(bucket_boundaries), np.int64)

    def bucket(*element):
        length = _as_int64(element_length_func(*element))
        inside = call("LogicalAnd", None, x=call("LessEqual", None, x=starts, y=length), y=call("Less", None, x=length, y=ends))
        return math.reduce_min(array.where(inside))

    def size_of(key):
        return call("GatherV2", None, params=sizes, indices=key, axis=0)

    def batch(key, group):
        size = size_of(key)
        if no_padding:
            return group.batch(size, drop_remainder)
        wanted = padded_shapes if padded_shapes is not None else group.output_shapes
        if pad_to_bucket_boundary:
            last = call("Assert", None, condition=call("Less", None, x=key, y=int64(len(bucket_boundaries))),
                        data=["When pad_to_bucket_boundary=True, elements must have length < max(bucket_boundaries)."])
            with ops.control_dependencies([last]):
                end = call("Sub", None, x=call("GatherV2", None, params=ends, indices=key, axis=0), y=int64(1))
            wanted = structure.pack(wanted, [_filled(s, end) for s in structure.flatten_up_to(group.element_spec, wanted)])
        return group.padded_batch(size, wanted, padding_values, drop_remainder)

    return group_by_window(bucket, batch, window_size_func=size_of)


def _filled(shape, end):
    """The shape as a tensor, with `end` for dimensions that are not known."""
    dims = shapes.as_shape(shape).as_list()
    return call("Pack", None, values=[end if d is None else int64(d) for d in dims], axis=0) if dims else int64([])


# ---- element by element ----

def ignore_errors():
    """Leaves out elements whose computation fails."""
    return lambda dataset: dataset._new("IgnoreErrorsDataset")


def scan(initial_state, scan_func):
    """scan_func(state, element) returns (next state, element of the result)."""
    def apply(dataset):
        values = structure.as_values(initial_state)
        state = structure.specs_of(values)
        while True:
            f, specs = built(scan_func, (state, dataset.element_spec), "tf.data.experimental.scan()", several=True)
            if not isinstance(specs, tuple) or len(specs) != 2:
                raise TypeError("The scan function must return a pair comprising the new state and the output value.")
            wider = structure.relaxed(state, specs[0])
            if wider == state:
                break
            state = wider
        return dataset._new("ScanDataset", specs[1], initial_state=structure.encode(values), f=f,
                            other_arguments=f.captured_inputs,
                            preserve_cardinality=True)
    return apply


def take_while(predicate):
    """Returns a transformation that ends the dataset at the first element for which the predicate is false."""
    def apply(dataset):
        f, specs = built(predicate, dataset.element_spec, "tf.data.experimental.take_while()")
        if not returns_scalar(specs, dtypes.bool_):
            raise ValueError("`predicate` must return a scalar boolean tensor.")
        return dataset._new("TakeWhileDataset", predicate=f, other_arguments=f.captured_inputs)
    return apply


def unique():
    """Returns a transformation that drops elements that came before."""
    return lambda dataset: dataset._new("UniqueDataset")


def dense_to_sparse_batch(batch_size, row_shape):
    """Returns a transformation that joins tensors of different lengths into batches of sparse tensors."""
    def apply(dataset):
        row = shapes.as_shape(row_shape)
        specs = type_spec.SparseTensorSpec(shapes.TensorShape([None]).concatenate(row), dataset.output_types)
        return dataset._new("DenseToSparseBatchDataset", specs, batch_size=int64(batch_size),
                            row_shape=int64([-1 if d is None else d for d in row.as_list()]))
    return apply


def sliding_window_batch(window_size, stride=None, window_shift=None, window_stride=1):
    """Returns a transformation that makes batches of sliding windows over the elements."""
    if stride is not None and window_shift is not None:
        raise ValueError("Cannot specify both `stride` and `window_shift`")
    shift = window_shift or stride or 1
    return lambda dataset: dataset._new("SlidingWindowDataset", structure.batched(dataset.element_spec, None),
                                        window_size=int64(window_size), window_shift=int64(shift),
                                        window_stride=int64(window_stride))


def assert_element_shape(expected_shapes):
    """Returns a transformation that checks the shapes of elements."""
    def checked(tensor, shape):
        return call("EnsureShape", None, input=tensor, shape=shape)

    def apply(dataset):
        wanted = structure.flatten_up_to(dataset.element_spec, expected_shapes)

        def check(*element):
            value = element if type(dataset.element_spec) is tuple else element[0]
            return structure.pack(value, [checked(t, s) for t, s in zip(structure.flatten(value), wanted)])
        return dataset.map(check)
    return apply


def prefetch_to_device(device, buffer_size=None):
    """Prefetches; elements are copied to the device when they are used there."""
    return lambda dataset: dataset.prefetch(buffer_size)


def copy_to_device(target_device, source_device="/cpu:0"):
    """Returns a transformation that changes nothing: sessions move data between devices."""
    return lambda dataset: dataset


def rejection_resample(class_func, target_dist, initial_dist=None, seed=None):
    """Pairs (class, element) whose classes come as target_dist says, by leaving elements out."""
    def apply(dataset):
        target = convert.convert_to_tensor(target_dist, dtypes.float32, name="target_dist")
        if initial_dist is None:
            raise NotImplementedError("rejection_resample without initial_dist: the distribution is not estimated")
        initial = convert.convert_to_tensor(initial_dist, dtypes.float32, name="initial_dist")
        ratio = call("DivNoNan", None, x=target, y=initial)
        accept = call("RealDiv", None, x=ratio, y=math.reduce_max(ratio))
        classed = dataset.map(lambda *element: (_as_int64(class_func(*element)), element if len(element) > 1 else element[0]))
        from ..framework import random_seed

        def kept(class_, *_):
            first, second = random_seed.get_seed(seed)
            drawn = call("RandomUniform", None, shape=np.zeros(0, np.int32), dtype=dtypes.float32, seed=first or 0,
                         seed2=second or 0)
            return call("Less", None, x=drawn, y=call("GatherV2", None, params=accept, indices=class_, axis=0))
        return classed.filter(kept)
    return apply


# ---- sources ----

def Counter(start=0, step=1, dtype=dtypes.int64):  # noqa: N802 -- TensorFlow's name
    """start, start + step, ... without end."""
    end = 2 ** 63 - 1 if step > 0 else -2 ** 63
    numbers = Dataset.range(start, end, step)
    return numbers if dtype is dtypes.int64 else numbers.map(lambda x: call("Cast", None, x=x, DstT=dtype))


class RandomDataset(Dataset):
    """Random int64 numbers."""

    def __init__(self, seed=None):
        first, second = seeds(seed)
        spec = type_spec.TensorSpec([], dtypes.int64)
        super().__init__(dataset_op("RandomDataset", spec, seed=first, seed2=second), spec)


def choose_from_datasets(datasets, choice_dataset):
    """Returns a dataset that takes each element from the dataset whose number choice_dataset gives."""
    if choice_dataset.output_types is not dtypes.int64:
        raise TypeError("`choice_dataset` must be a dataset of scalar `tf.int64` tensors.")
    specs = functools.reduce(structure.relaxed, [d.element_spec for d in datasets])
    return Dataset(dataset_op("DirectedInterleaveDataset", specs, selector_input_dataset=choice_dataset._variant_tensor,
                              data_input_datasets=[d._variant_tensor for d in datasets]), specs)


def sample_from_datasets(datasets, weights=None, seed=None):
    """Returns a dataset that takes elements from the datasets at random, by weight."""
    n = len(datasets)
    if isinstance(weights, Dataset):
        logits = weights.map(lambda *p: call("Log", None, x=p[0]))
    else:
        if weights is not None and not isinstance(weights, ops.Tensor) and len(weights) != n:
            raise ValueError("`weights` must be a vector of length %d." % n)
        given = convert.convert_to_tensor(np.full(n, 1.0 / n, np.float32) if weights is None else weights, name="weights")
        logits = Dataset.from_tensors(call("Log", None, x=given)).repeat()

    def draw(logit, number_seed):
        return call("Reshape", None, tensor=call("StatelessMultinomial", None,
                                                 logits=call("Reshape", None, tensor=logit, shape=[1, -1]),
                                                 num_samples=1, seed=number_seed, output_dtype=dtypes.int64),
                                                 shape=np.zeros(0, np.int32))
    return choose_from_datasets(datasets, Dataset.zip((logits, RandomDataset(seed).batch(2))).map(draw))


def make_csv_dataset(file_pattern, batch_size, column_names=None, column_defaults=None, label_name=None, select_columns=None,
                     field_delim=",", use_quote_delim=True, na_value="", header=True, num_epochs=None, shuffle=True,
                     shuffle_buffer_size=10000, shuffle_seed=None, prefetch_buffer_size=None, num_parallel_reads=None,
                     sloppy=False,
                     num_rows_for_inference=100, compression_type=None, ignore_errors=False):  # noqa: A002
    """Returns a dataset of batches {column: values}, or (these, label), from CSV files with a header."""
    from . import csv_files
    return csv_files.dataset(**locals())


def make_batched_features_dataset(file_pattern, batch_size, features, reader=None, label_key=None, reader_args=None,
                                  num_epochs=None,
                                  shuffle=True, shuffle_buffer_size=10000, shuffle_seed=None, prefetch_buffer_size=None,
                                  reader_num_threads=None, parser_num_threads=None, sloppy_ordering=False,
                                  drop_final_batch=False):
    """Returns a dataset of batches of parsed Examples from TFRecord files."""
    from .. import io
    from .readers import TFRecordDataset
    reader = reader or TFRecordDataset
    files = Dataset.list_files(file_pattern, shuffle=shuffle, seed=shuffle_seed)
    threads = reader_num_threads or 1
    read = files.apply(parallel_interleave(lambda name: reader(name, *(reader_args or [])), cycle_length=threads,
                                           sloppy=sloppy_ordering))
    if read.output_types == (dtypes.string, dtypes.string):  # (key, value)
        read = read.map(lambda _, value: value)
    read = read.repeat(num_epochs) if num_epochs != 1 else read
    read = read.shuffle(shuffle_buffer_size, shuffle_seed) if shuffle else read
    parsed = read.batch(batch_size, drop_final_batch or num_epochs is None).map(lambda s: io.parse_example(s, features),
                                                                                parser_num_threads)
    if label_key:
        if label_key not in features:
            raise ValueError("The `label_key` provided (%r) must be one of the `features` keys." % label_key)
        parsed = parsed.map(lambda x: ({k: v for k, v in x.items() if k != label_key}, x[label_key]))
    return parsed.prefetch(1 if prefetch_buffer_size is None else prefetch_buffer_size)


def parse_example_dataset(features, num_parallel_calls=1):
    """Returns a transformation that parses serialized Example messages, as tf.parse_example does."""
    from .. import io
    return lambda dataset: dataset.map(lambda s: io.parse_example(s, features), num_parallel_calls)


# ---- out of datasets ----

def get_single_element(dataset):
    """The one element of a dataset, as tensors."""
    if not isinstance(dataset, Dataset):
        raise TypeError("`dataset` must be a `tf.data.Dataset` object.")
    flat = op_defs.call("DatasetToSingleElement", None, dataset=dataset._variant_tensor,
                        output_types=structure.types(dataset.element_spec),
                        output_shapes=structure.shapes_of(dataset.element_spec))
    return structure.decode(dataset.element_spec, flat)


def reduce_dataset(dataset, reducer):
    """Reduces all elements of a dataset to one value with a Reducer."""
    state = dataset.reduce(reducer.init_func(np.int64(0)), reducer.reduce_func)
    return reducer.finalize_func(state)


def cardinality(dataset):
    """Returns the number of elements, or INFINITE_CARDINALITY or UNKNOWN_CARDINALITY."""
    return call("DatasetCardinality", None, input_dataset=dataset._variant_tensor)


class TFRecordWriter:
    """Writes a dataset of strings as a TFRecord file."""

    def __init__(self, filename, compression_type=None):
        self._filename = convert.convert_to_tensor(filename, dtypes.string, name="filename")
        self._compression = convert.convert_to_tensor(compression_type or "", dtypes.string, name="compression_type")

    def write(self, dataset):
        """The operation that writes it."""
        if not isinstance(dataset, Dataset):
            raise TypeError("`dataset` must be a `tf.data.Dataset` object.")
        if dataset.output_types is not dtypes.string or dataset.output_shapes.ndims not in (None, 0):
            raise TypeError("`dataset` must produce scalar `DT_STRING` tensors whereas it produces shape %s and types %s" %
                            (dataset.output_shapes, dataset.output_types))
        return call("DatasetToTFRecord", None, input_dataset=dataset._variant_tensor, filename=self._filename,
                    compression_type=self._compression)
