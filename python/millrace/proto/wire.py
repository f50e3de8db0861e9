"""Protobuf's bytes: varints, tags, fields that are skipped, packed numbers.

Nothing here knows of messages.  Readers take the bytes of one whole message and a position, and
return the position behind what they read.  They do not check for the end where Python does:
bytes[i] behind it raises IndexError, which who called turns into DecodeError.
"""
from array import array

import numpy as np

from . import installed

VARINT, FIXED64, BYTES, GROUP, END_GROUP, FIXED32 = range(6)
MASK64 = (1 << 64) - 1
# As in C++: hostile bytes must not overflow the stack of code that walks a message.
MOST_LEVELS = 100
# Longer runs of varints are worth the fixed cost of numpy.
FEW = 48

_ONE_BYTE = [bytes([i]) for i in range(128)]


class Error(installed.Error):
    """Anything that is wrong with a message."""


class DecodeError(Error, installed.DecodeError):
    """The bytes are not those of a message."""


class EncodeError(Error, installed.EncodeError):
    """The message cannot be written."""


def truncated():
    return DecodeError("Error parsing message: the bytes end too early")


def read_varint(data, i):
    byte = data[i]
    i += 1
    value = byte & 127
    shift = 7
    while byte > 127:
        if shift > 63:
            raise DecodeError("Error parsing message: a varint has more than 10 bytes")
        byte = data[i]
        i += 1
        value |= (byte & 127) << shift
        shift += 7
    return value & MASK64, i


def varint(value):
    """The bytes of a number from 0 to 2**64 - 1."""
    if value < 128:
        return _ONE_BYTE[value]
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(number, wire):
    return varint(number << 3 | wire)


# ---- fields that are not looked into ------------------------------------------------------------

def skip(data, i, n, key):
    """Behind the value whose tag is key."""
    groups = []  # tags that end them; a loop, as hostile bytes nest them as deep as they are long
    while True:
        wire = key & 7
        if key < 8 or key >> 32 or wire > FIXED32:
            raise DecodeError("Error parsing message: a field has the tag %d" % key)
        if wire == GROUP:
            groups.append(key + 1)
        elif wire == END_GROUP:
            if not groups or groups.pop() != key:
                raise DecodeError("Error parsing message: a group ends that did not begin")
        else:
            i = _skip_value(data, i, n, wire)
        if not groups:
            return i
        key, i = read_varint(data, i)


def _skip_value(data, i, n, wire):
    if wire == VARINT:
        return read_varint(data, i)[1]
    if wire == BYTES:
        size, i = read_varint(data, i)
        i += size
    else:
        i += 8 if wire == FIXED64 else 4
    if i > n:
        raise truncated()
    return i


def check(data):
    """Raises DecodeError unless data is a sequence of fields; their contents are not checked."""
    i, n = 0, len(data)
    try:
        while i < n:
            key = data[i]
            if key < 128:
                i += 1
            else:
                key, i = read_varint(data, i)
            # The usual field, without calls: big graphs have thousands at the top.
            if key & 7 == BYTES and 8 <= key < 1 << 32 and data[i] < 128:
                i += 1 + data[i]
                if i > n:
                    raise truncated()
            else:
                i = skip(data, i, n, key)
    except IndexError:
        raise truncated() from None


# ---- packed numbers -----------------------------------------------------------------------------

def unpack_varints(data):
    """A list, or an array of unsigned numbers of 64 bits."""
    if type(data) is not bytes:
        data = bytes(data)
    if data.isascii():  # no byte has its upper bit: each is a number
        return list(data)
    if len(data) > FEW:
        return _unpack_many(np.frombuffer(data, np.uint8))
    out, i, n = [], 0, len(data)
    while i < n:
        value, i = read_varint(data, i)
        out.append(value)
    return out


def _unpack_many(data):
    ends = np.flatnonzero(data < 128)
    if len(ends) == 0 or ends[-1] != len(data) - 1:
        raise truncated()
    starts = np.concatenate(([0], ends[:-1] + 1))
    sizes = ends - starts + 1
    longest = int(sizes.max())
    if longest > 10:
        raise DecodeError("Error parsing message: a varint has more than 10 bytes")
    out = (data[starts] & 127).astype(np.uint64)
    for k in range(1, longest):
        at = np.flatnonzero(sizes > k)
        out[at] |= (data[starts[at] + k] & 127).astype(np.uint64) << np.uint64(7 * k)
    return array("Q", out.tobytes())


def pack_varints(values):
    """Of numbers of at most 64 bits; negative ones are written as their two's complement."""
    if len(values) > FEW:
        return _pack_many(np.array(values))
    if not values:
        return b""
    if 0 <= min(values) and max(values) < 128:
        return bytes(list(values))  # bytes() of an array would be its memory
    return _pack_few(values)


def _pack_few(values):
    return b"".join([varint(v & MASK64) for v in values])


def _pack_many(values):
    values = values.astype(np.int64 if values.dtype.kind == "i" else np.uint64).view(np.uint64)
    sizes = np.ones(len(values), np.int64)
    for k in range(1, 10):
        sizes += values >= np.uint64(1 << 7 * k)
    ends = np.cumsum(sizes)
    starts = ends - sizes
    out = np.empty(int(ends[-1]), np.uint8)
    for k in range(int(sizes.max())):
        at = np.flatnonzero(sizes > k)
        more = (sizes[at] > k + 1).astype(np.uint8) << 7
        out[starts[at] + k] = (values[at] >> np.uint64(7 * k)).astype(np.uint8) & 127 | more
    return out.tobytes()
