"""Datasets of CSV files with named columns, whose types are read off the first rows when they are not given."""

import collections
import csv
import glob
import gzip

import numpy as np

from ..framework import convert, dtypes
from . import experimental
from .dataset import Dataset
from .readers import CsvDataset


def _files(pattern):
    patterns = [pattern] if isinstance(pattern, str) else list(pattern)
    names = sorted(n for p in patterns for n in glob.glob(p))
    if not names:
        raise ValueError("No files matched %s" % (pattern,))
    return names


def _rows(name, options):
    kind = options["compression_type"]
    if kind not in (None, "", "GZIP"):
        raise ValueError("compression_type (%s) is not supported for probing columns" % kind)
    with gzip.open(name, "rt", newline="") if kind == "GZIP" else open(name, newline="") as f:
        quoting = csv.QUOTE_MINIMAL if options["use_quote_delim"] else csv.QUOTE_NONE
        yield from csv.reader(f, delimiter=options["field_delim"], quoting=quoting)


def _type_of(text, former, na_value):
    """The narrowest type that has room for this value too."""
    order = [dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64, dtypes.string]
    if text in ("", na_value):
        return former
    return order[max(order.index(former) if former else 0, order.index(_narrowest(text)))]


def _narrowest(text):
    try:
        n = int(text)
        return dtypes.int32 if -2 ** 31 <= n < 2 ** 31 else dtypes.int64
    except ValueError:
        pass
    try:
        x = float(text)
        return dtypes.float32 if -3.4e38 <= x <= 3.4e38 or x != x else dtypes.float64
    except ValueError:
        return dtypes.string


def _defaults(files, columns, width, options):
    found = [None] * len(columns)
    left = options["num_rows_for_inference"]
    for name in files:
        for i, row in enumerate(_rows(name, options)):
            if i == 0 and options["header"]:
                continue
            if left is not None:
                if left == 0:
                    break
                left -= 1
            if len(row) != width:
                raise ValueError("Problem inferring types: CSV row %s has %d fields. Expected: %d." % (row, len(row), width))
            found = [_type_of(row[c], former, options["na_value"]) for c, former in zip(columns, found)]
    return [convert.constant([""] if t in (None, dtypes.string) else np.zeros(1, t.as_numpy_dtype)) for t in found]


def dataset(**options):
    files = _files(options["file_pattern"])
    names = options["column_names"]
    if names is None:
        if not options["header"]:
            raise ValueError("Cannot infer column names without a header line.")
        names = next(_rows(files[0], options))
    names = list(names)
    if len(set(names)) != len(names):
        raise ValueError("Cannot have duplicate column names.")
    selected = options["select_columns"]
    columns = [names.index(s) if isinstance(s, str) else s for s in (names if selected is None else selected)]
    columns.sort()
    width, names = len(names), [names[c] for c in columns]
    label = options["label_name"]
    if label is not None and label not in names:
        raise ValueError("`label_name` provided must be one of the columns.")
    defaults = options["column_defaults"]
    defaults = _defaults(files, columns, width, options) if defaults is None else defaults

    def read(name):
        return CsvDataset(name, defaults, compression_type=options["compression_type"], header=options["header"],
                          field_delim=options["field_delim"], use_quote_delim=options["use_quote_delim"],
                          na_value=options["na_value"],
                          select_cols=columns if selected is not None else None)

    def named(*row):
        features = collections.OrderedDict(zip(names, row))
        return features if label is None else (features, features.pop(label))

    rows = Dataset.from_tensor_slices(files)
    rows = rows.shuffle(len(files), options["shuffle_seed"]) if options["shuffle"] else rows
    rows = rows.apply(experimental.parallel_interleave(read, options["num_parallel_reads"] or 1, sloppy=options["sloppy"]))
    rows = rows.apply(experimental.ignore_errors()) if options["ignore_errors"] else rows
    if options["shuffle"]:
        rows = rows.shuffle(options["shuffle_buffer_size"], options["shuffle_seed"])
    rows = rows.repeat(options["num_epochs"]) if options["num_epochs"] != 1 else rows
    rows = rows.batch(options["batch_size"], drop_remainder=options["num_epochs"] is None).map(named)
    ahead = options["prefetch_buffer_size"]
    return rows.prefetch(1 if ahead is None else ahead)
