"""tf.compat: text and bytes, and the interface of 1.x by the name it has in 2.x (tf.compat.v1 is this package itself)."""
import collections.abc as collections_abc  # noqa: F401 -- TensorFlow has it here
import numbers
import sys

import numpy as np

v1 = sys.modules["millrace"]


def as_bytes(bytes_or_text, encoding="utf-8"):
    """Returns bytes: a string is encoded, bytes are returned as they are."""
    if isinstance(bytes_or_text, str):
        return bytes_or_text.encode(encoding)
    if isinstance(bytes_or_text, (bytes, bytearray)):
        return bytes(bytes_or_text)
    raise TypeError("Expected binary or unicode string, got %r" % (bytes_or_text,))


def as_text(bytes_or_text, encoding="utf-8"):
    """Returns a string: bytes are decoded, a string is returned as it is."""
    if isinstance(bytes_or_text, str):
        return bytes_or_text
    if isinstance(bytes_or_text, bytes):
        return bytes_or_text.decode(encoding)
    raise TypeError("Expected binary or unicode string, got %r" % (bytes_or_text,))


as_str = as_text


def as_str_any(value):
    """Returns a string: bytes are decoded, anything else is converted by str()."""
    return as_str(value) if isinstance(value, bytes) else str(value)


def path_to_str(path):
    """A path of pathlib as text; other things as they are."""
    return as_str_any(path.__fspath__()) if hasattr(path, "__fspath__") else path


def path_to_bytes(path):
    """Returns a path, of pathlib or a string, as bytes."""
    return as_bytes(path_to_str(path))


integral_types = (numbers.Integral, np.integer)
real_types = (numbers.Real, np.integer, np.floating)
complex_types = (numbers.Complex, np.number)
bytes_or_text_types = (bytes, str)


def forward_compatible(year, month, day):
    """Whether graphs may be made that only programs of this day or later can read: 1.15 says so of the days before it came
    out.
    """
    return (year, month, day) < (2019, 10, 14)


class forward_compatibility_horizon:  # noqa: N801 -- reads like a function
    """A context manager that does nothing here."""

    def __init__(self, year, month, day):
        pass

    def __enter__(self):
        return None

    def __exit__(self, *unused):
        return False
