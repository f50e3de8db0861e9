"""tf.io: what is read, written, parsed and coded."""

import importlib

from . import lazy as _lazy
from .framework.op_defs import call
from .image import (decode_and_crop_jpeg, decode_bmp, decode_gif, decode_image, decode_jpeg, decode_png, encode_jpeg,
                    encode_png,
                    extract_jpeg_shape, is_jpeg)
from .ops.parsing import *
from .strings import decode_base64, encode_base64


def read_file(filename, name=None):
    """The bytes of a file."""
    return call("ReadFile", name, filename=filename)


def write_file(filename, contents, name=None):
    """The operation that writes a file, with the folders above it."""
    return call("WriteFile", name, filename=filename, contents=contents)


def matching_files(pattern, name=None):
    """Returns the names of files that match a pattern, or one of several, as a tensor."""
    return call("MatchingFiles", name, pattern=pattern)


def serialize_tensor(tensor, name=None):
    """Returns a tensor as a serialized TensorProto."""
    return call("SerializeTensor", name, tensor=tensor)


_LATER = dict.fromkeys("TFRecordWriter TFRecordOptions TFRecordCompressionType tf_record_iterator".split(), "python_io")
_LATER.update(dict.fromkeys("serialize_sparse serialize_many_sparse deserialize_many_sparse".split(), "sparse"))
_LATER.update(dict.fromkeys("write_graph match_filenames_once".split(), "train"))
_LATER.update(dict.fromkeys("FIFOQueue PaddingFIFOQueue PriorityQueue QueueBase RandomShuffleQueue".split(), "ops.data_flow"))


def __getattr__(name):
    if name == "__all__":
        return _lazy.exported(__name__, _LATER, "gfile")
    if name == "gfile" or name in _LATER:
        module = importlib.import_module("millrace." + _LATER.get(name, "io_gfile"))
        return getattr(module, name) if name in _LATER else module
    raise AttributeError("module 'millrace.io' has no attribute '%s'" % name)
