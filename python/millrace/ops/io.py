"""Readers: objects that make records of files whose names come from a queue."""

from ..framework import dtypes, ops
from ..framework.op_defs import raw

__all__ = ["FixedLengthRecordReader", "IdentityReader", "LMDBReader", "ReaderBase", "TFRecordReader", "TextLineReader",
           "WholeFileReader"]


def _queue_ref(queue):
    return queue if isinstance(queue, ops.Tensor) else queue.queue_ref


class ReaderBase:
    """The base of readers: keys tell the file and the place in it."""

    def __init__(self, reader_ref, supports_serialize=False):
        self._reader_ref, self._supports_serialize = reader_ref, supports_serialize

    reader_ref = property(lambda self: self._reader_ref, doc="The tensor that identifies the reader.")
    supports_serialize = property(lambda self: self._supports_serialize,
                                  doc="Whether the reader's state can be saved and restored.")

    def _op(self, op):
        """The function of an op for this reader.  LMDBReader has no handle but a reference: it takes the older forms."""
        return getattr(raw, op + "_v2" if self._reader_ref.dtype == dtypes.resource else op)

    def _queue(self, queue):
        """The queue as that form wants it."""
        ref = _queue_ref(queue)
        by_handle = self._reader_ref.dtype == dtypes.resource or ref.dtype != dtypes.resource
        return ref if by_handle else raw.fake_queue(ref)

    def read(self, queue, name=None):
        """(key, value) of the next record."""
        return self._op("reader_read")(self._reader_ref, self._queue(queue), name=name)

    def read_up_to(self, queue, num_records, name=None):
        """(keys, values) of up to so many records."""
        n = raw.cast(num_records, DstT=dtypes.int64)
        return self._op("reader_read_up_to")(self._reader_ref, self._queue(queue), n, name=name)

    def num_records_produced(self, name=None):
        """Returns the number of records read so far, as a tensor."""
        return self._op("reader_num_records_produced")(self._reader_ref, name=name)

    def num_work_units_completed(self, name=None):
        """Returns the number of work units, such as files, that were read to the end, as a tensor."""
        return self._op("reader_num_work_units_completed")(self._reader_ref, name=name)

    def serialize_state(self, name=None):
        """Returns the state of the reader as a string tensor, for readers that support it."""
        return self._op("reader_serialize_state")(self._reader_ref, name=name)

    def restore_state(self, state, name=None):
        """Returns an operation that sets the state to one from serialize_state."""
        return self._op("reader_restore_state")(self._reader_ref, state, name=name)

    def reset(self, name=None):
        """Returns an operation that resets the reader to its initial state."""
        return self._op("reader_reset")(self._reader_ref, name=name)


class WholeFileReader(ReaderBase):
    """A file is a record."""

    def __init__(self, name=None):
        super().__init__(raw.whole_file_reader_v2(name=name), True)


class TextLineReader(ReaderBase):
    """A line is a record, without its end."""

    def __init__(self, skip_header_lines=None, name=None):
        super().__init__(raw.text_line_reader_v2(skip_header_lines=skip_header_lines, name=name))


class FixedLengthRecordReader(ReaderBase):
    """A reader whose records all have the same number of bytes."""

    def __init__(self, record_bytes, header_bytes=None, footer_bytes=None, hop_bytes=None, name=None, encoding=None):
        super().__init__(raw.fixed_length_record_reader_v2(record_bytes=record_bytes, header_bytes=header_bytes,
                                                           footer_bytes=footer_bytes, hop_bytes=hop_bytes, encoding=encoding,
                                                           name=name))


class TFRecordReader(ReaderBase):
    """Records of TFRecord files."""

    def __init__(self, name=None, options=None):
        super().__init__(raw.tf_record_reader_v2(compression_type=compression_name(options), name=name))


def compression_name(options):
    """"", "ZLIB" or "GZIP", of TFRecordOptions or a TFRecordCompressionType."""
    from ..python_io import TFRecordOptions
    return TFRecordOptions.get_compression_type_string(options)


class LMDBReader(ReaderBase):
    """Records of an LMDB file."""

    def __init__(self, name=None, options=None):
        super().__init__(raw.lmdb_reader(name=name))


class IdentityReader(ReaderBase):
    """A reader that returns each string of its queue as both key and value."""

    def __init__(self, name=None):
        super().__init__(raw.identity_reader_v2(name=name), True)
