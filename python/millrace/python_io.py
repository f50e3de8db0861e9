"""tf.python_io: files of records (TFRecord), plain or packed as a whole by zlib or gzip.

A record is its length (8 bytes), the length's checksum, the bytes, and their checksum; checksums are masked CRC-32C.
"""
import gzip
import os
import struct
import zlib

from _millrace import masked_crc32c
from .compat import as_bytes
from .file_io import _Errors, as_path
from .framework import errors

__all__ = ["TFRecordCompressionType", "TFRecordOptions", "TFRecordWriter", "tf_record_iterator"]


class TFRecordCompressionType:
    """How the records of a file are compressed."""
    NONE, ZLIB, GZIP = 0, 1, 2


_NAMES = {TFRecordCompressionType.NONE: "", TFRecordCompressionType.ZLIB: "ZLIB", TFRecordCompressionType.GZIP: "GZIP"}


class TFRecordOptions:
    """How a file is compressed: "", "ZLIB" or "GZIP", or a TFRecordCompressionType; the level is zlib's."""

    compression_type_map = _NAMES

    def __init__(self, compression_type=None, flush_mode=None, input_buffer_size=None, output_buffer_size=None,
                 window_bits=None,
                 compression_level=None, compression_method=None, mem_level=None, compression_strategy=None):
        self.get_compression_type_string(compression_type)
        self.compression_type, self.compression_level = compression_type, compression_level
        self.flush_mode, self.window_bits, self.mem_level = flush_mode, window_bits, mem_level
        self.input_buffer_size, self.output_buffer_size = input_buffer_size, output_buffer_size
        self.compression_method, self.compression_strategy = compression_method, compression_strategy

    @classmethod
    def get_compression_type_string(cls, options):
        """"", "ZLIB" or "GZIP" for whatever names it."""
        if not options:
            return ""
        if isinstance(options, TFRecordOptions):
            return cls.get_compression_type_string(options.compression_type)
        if options in _NAMES:
            return _NAMES[options]
        if options in _NAMES.values():
            return options
        raise ValueError('Not a valid compression_type: "%s"' % (options,))

    def _packer(self):
        kind = self.get_compression_type_string(self)
        level = -1 if self.compression_level is None else self.compression_level
        bits = self.window_bits or 15
        return kind and zlib.compressobj(level, zlib.DEFLATED, (16 if kind == "GZIP" else 0) + bits, self.mem_level or 8,
                                         self.compression_strategy or 0)


def framed(record):
    """The bytes of a record with its length and checksums."""
    length = struct.pack("<Q", len(record))
    return length + struct.pack("<I", masked_crc32c(length)) + record + struct.pack("<I", masked_crc32c(record))


class TFRecordWriter:
    """Writes records; `with` closes it."""

    def __init__(self, path, options=None):
        if not isinstance(options, TFRecordOptions):
            options = TFRecordOptions(options)
        self._path, self._packer = as_path(path), options._packer()
        with _Errors(self._path):
            self._file = open(self._path, "wb")

    def write(self, record):
        """Appends a record."""
        self._check_open()
        self._put(framed(as_bytes(record)))

    def _check_open(self):
        if self._file is None:
            raise errors.FailedPreconditionError(None, None, "Writer not initialized or previously closed")

    def _put(self, data):
        with _Errors(self._path):
            self._file.write(self._packer.compress(data) if self._packer else data)

    def flush(self):
        """Passes what was written to the operating system."""
        self._check_open()
        with _Errors(self._path):
            if self._packer:
                self._file.write(self._packer.flush(zlib.Z_SYNC_FLUSH))
            self._file.flush()

    def close(self):
        """Closes the file."""
        if self._file is not None:
            with _Errors(self._path):
                if self._packer:
                    self._file.write(self._packer.flush())
                self._file.close()
            self._file = None

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()


class _ZlibFile:
    """What is unpacked of a zlib file, piece by piece."""

    def __init__(self, file):
        self._file, self._unpack, self._ready = file, zlib.decompressobj(), b""

    def read(self, n):
        parts, have = [self._ready], len(self._ready)
        while have < n:
            more = self._file.read(65536)
            if not more:
                break
            parts.append(self._unpack.decompress(more))
            have += len(parts[-1])
        data = b"".join(parts)
        self._ready = data[n:]
        return data[:n]

    def close(self):
        self._file.close()


def _open(path, kind):
    with _Errors(path):
        if kind == "GZIP":
            return gzip.open(path, "rb")
        file = open(path, "rb")
        return _ZlibFile(file) if kind == "ZLIB" else file


def _read(file, n, path, at):
    try:
        data = file.read(n)
    except (zlib.error, EOFError, gzip.BadGzipFile) as e:
        raise errors.DataLossError(None, None, "%s: cannot decompress after record %d: %s" % (path, at, e)) from None
    if data and len(data) < n:
        raise errors.DataLossError(None, None, "truncated record at %d of %s" % (at, path))
    return data


def tf_record_iterator(path, options=None):
    """The records of a file, as bytes.  A damaged one is a DataLossError."""
    path = as_path(path)
    file = _open(path, TFRecordOptions.get_compression_type_string(options))
    size = os.path.getsize(path) if not options else None
    try:
        number = 0
        while True:
            head = _read(file, 12, path, number)
            if not head:
                return
            length, crc = struct.unpack("<QI", head)
            if masked_crc32c(head[:8]) != crc or size is not None and length > size:
                raise errors.DataLossError(None, None, "corrupted record at %d of %s" % (number, path))
            body = _read(file, length + 4, path, number)
            if len(body) < length + 4:
                raise errors.DataLossError(None, None, "truncated record at %d of %s" % (number, path))
            if masked_crc32c(body[:-4]) != struct.unpack("<I", body[-4:])[0]:
                raise errors.DataLossError(None, None, "corrupted record at %d of %s" % (number, path))
            yield body[:-4]
            number += 1
    finally:
        file.close()
