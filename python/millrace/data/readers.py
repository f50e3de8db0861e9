"""Datasets of the records of files."""

from ..framework import convert, dtypes, ops, type_spec
from ..framework.op_defs import call
from .dataset import Dataset, int64
from .options import Options

_BUFFER = 256 * 1024


def _text(value, name):
    return convert.convert_to_tensor("" if value is None else value, dtypes.string, name=name)


def _file_names(filenames):
    if isinstance(filenames, Dataset):
        if filenames.output_types is not dtypes.string:
            raise TypeError("`filenames` must be a `tf.data.Dataset` of `tf.string` elements.")
        return filenames
    names = convert.convert_to_tensor(filenames, dtypes.string, name="filenames")
    return Dataset.from_tensor_slices(call("Reshape", None, tensor=names, shape=[-1]))


class _Records(Dataset):
    """Strings, one after the other, of files; `make` gives the variant for names of files."""

    def _begin(self, filenames, make, num_parallel_reads=None):
        def of_file(name):
            return Dataset(make(call("Reshape", None, tensor=name, shape=[-1])), _STRING)

        if num_parallel_reads is not None:
            from .experimental import parallel_interleave
            # As in TensorFlow, the order is by turns but fixed.
            whole = _file_names(filenames).apply(parallel_interleave(of_file, num_parallel_reads, sloppy=False))
            variant = whole._variant_tensor
        elif isinstance(filenames, Dataset):
            variant = _file_names(filenames).flat_map(of_file)._variant_tensor
        else:
            variant = make(convert.convert_to_tensor(filenames, dtypes.string, name="filenames"))
        Dataset.__init__(self, variant, _STRING, Options())


_STRING = type_spec.TensorSpec([], dtypes.string)


class TextLineDataset(_Records):
    """The lines of text files, without their ends."""

    def __init__(self, filenames, compression_type=None, buffer_size=None, num_parallel_reads=None):
        self._begin(filenames, lambda names: call(
            "TextLineDataset", None, filenames=names, compression_type=_text(compression_type, "compression_type"),
            buffer_size=int64(_BUFFER if buffer_size is None else buffer_size)), num_parallel_reads)


class TFRecordDataset(_Records):
    """The records of TFRecord files."""

    def __init__(self, filenames, compression_type=None, buffer_size=None, num_parallel_reads=None):
        def make(names):
            return call("TFRecordDataset", None, filenames=names, compression_type=_text(compression_type, "compression_type"),
                        buffer_size=int64(_BUFFER if buffer_size is None else buffer_size))

        self._begin(filenames, make, num_parallel_reads)


class FixedLengthRecordDataset(_Records):
    """Records of a fixed number of bytes, between a header and a footer."""

    def __init__(self, filenames, record_bytes, header_bytes=None, footer_bytes=None, buffer_size=None, compression_type=None,
                 num_parallel_reads=None):
        sizes = dict(header_bytes=int64(header_bytes or 0), record_bytes=int64(record_bytes),
                     footer_bytes=int64(footer_bytes or 0),
                     buffer_size=int64(_BUFFER if buffer_size is None else buffer_size))
        self._begin(filenames, lambda names: call("FixedLengthRecordDatasetV2", None, filenames=names,
                                                  compression_type=_text(compression_type, "compression_type"), **sizes),
                    num_parallel_reads)


class CsvDataset(Dataset):
    """The rows of CSV files, a tuple of columns each."""

    def __init__(self, filenames, record_defaults, compression_type=None, buffer_size=None, header=False, field_delim=",",
                 use_quote_delim=True, na_value="", select_cols=None):
        defaults, given = [], list(record_defaults)
        for d in given:
            is_type = not isinstance(d, (ops.Tensor, list, str, bytes, int, float)) and _as_type(d) is not None
            defaults.append(convert.constant([], _as_type(d)) if is_type else convert.convert_to_tensor(d))
        defaults = [d if d.shape.ndims == 1 else call("Reshape", None, tensor=d, shape=[-1]) for d in defaults]
        specs = tuple(type_spec.TensorSpec([], d.dtype) for d in defaults)
        variant = call("CSVDataset", None, filenames=convert.convert_to_tensor(filenames, dtypes.string),
                       compression_type=_text(compression_type, "compression_type"),
                       buffer_size=int64(4 << 20 if buffer_size is None else buffer_size), header=header,
                       field_delim=field_delim,
                       use_quote_delim=use_quote_delim, na_value=na_value, select_cols=int64(sorted(select_cols or [])),
                       record_defaults=defaults, output_shapes=[s.shape for s in specs])
        super().__init__(variant, specs)


def _as_type(value):
    try:
        return dtypes.as_dtype(value)
    except TypeError:
        return None


class LMDBDataset(Dataset):
    """The keys and values of LMDB files, in the order of the keys."""

    def __init__(self, filenames):
        names = convert.convert_to_tensor(filenames, dtypes.string, name="filenames")
        variant = call("LMDBDataset", None, filenames=names, output_types=[dtypes.string] * 2,
                       output_shapes=[_STRING.shape] * 2)
        super().__init__(variant, (_STRING, _STRING))


class SqlDataset(Dataset):
    """The rows of a query; the library has no databases."""

    def __init__(self, driver_name, data_source_name, query, output_types):
        raise NotImplementedError("SqlDataset: %s, %s, %s, %s" % (driver_name, data_source_name, query, output_types))
