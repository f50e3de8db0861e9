"""What a field may hold beside messages: what may be assigned, how it is read and written.

A Scalar is one of protobuf's scalar types.  Repeated numbers are kept in an array.array of exactly
the type's range, so C checks, rounds and packs them; strings, bytes, bools and enums in a list.
Arrays are written as they lie in memory: like the library, this is for little-endian machines.
"""
import operator
import struct
from array import array

from . import wire

_FLOAT = struct.Struct("<f")


def wrong_type(value, wanted):
    return TypeError("%.1024r has type %s, but expected one of: %s"
                     % (value, type(value).__name__, wanted))


# ---- checks: the value as it is kept, or TypeError or ValueError --------------------------------

def _int_check(low, high):
    def check(value):
        if type(value) is not int:
            try:
                value = operator.index(value)
            except TypeError:
                raise wrong_type(value, "int") from None
        if not low <= value <= high:
            raise ValueError("Value out of range: %d" % value)
        return value
    return check


def _check_double(value):
    if type(value) is float:
        return value
    if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
        if not hasattr(value, "__index__"):
            raise wrong_type(value, "int, float")
    try:
        return float(value)
    except OverflowError as e:
        raise ValueError(str(e)) from None


def _check_float(value):
    value = _check_double(value)
    try:
        return _FLOAT.unpack(_FLOAT.pack(value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _check_bool(value):
    if type(value) is bool:
        return value
    if type(value).__name__ in ("bool_", "bool"):  # numpy's, which has no __index__
        return bool(value)
    try:
        return bool(operator.index(value))
    except TypeError:
        raise wrong_type(value, "bool, int") from None


def _check_string(value):
    if isinstance(value, str):
        if not value.isascii():
            value.encode()  # a ValueError where half a surrogate pair has no bytes
        return value if type(value) is str else str(value)
    if not isinstance(value, bytes):
        raise wrong_type(value, "bytes, str")
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise ValueError("%.1024r has type bytes, but isn't valid UTF-8 encoding" % value) from None


def _check_bytes(value):
    if not isinstance(value, bytes):
        raise wrong_type(value, "bytes")
    return value if type(value) is bytes else bytes(value)


# ---- numbers as they are on the wire ------------------------------------------------------------

def _to_int32(v):
    v &= 0xffffffff
    return v - (1 << 32) if v >> 31 else v


def _to_int64(v):
    return v - (1 << 64) if v >> 63 else v


def _to_uint32(v):
    return v & 0xffffffff


def _same(v):
    return v


def _from_zigzag(v):
    return v >> 1 ^ -(v & 1)


def _from_zigzag32(v):
    v &= 0xffffffff
    return v >> 1 ^ -(v & 1)


def _zigzag(v):
    return (v << 1 ^ v >> 63) & wire.MASK64


def _complement(v):
    return v & wire.MASK64


class Scalar:
    """One type.  code: of the array that holds many, None where a list does; from_wire, to_wire:
    between a varint and the value; form: of the fixed ones, for struct."""

    def __init__(self, name, number, cpp, wire_type, default, check, code=None,
                 from_wire=None, to_wire=None):
        self.name, self.number, self.cpp = name, number, cpp
        self.wire, self.default, self.check, self.code = wire_type, default, check, code
        self.from_wire, self.to_wire = from_wire, to_wire
        self.form = struct.Struct("<" + code) if code and not from_wire else None
        self.packable = wire_type != wire.BYTES

    def empty(self):
        return array(self.code) if self.code else []

    def check_many(self, values):
        """The values as an array or a list; all are checked before one is kept."""
        if getattr(values, "ndim", 0) == 1:
            values = values.tolist()  # numpy's scalars are slow one by one
        if self.code is None:
            check = self.check
            return [check(v) for v in values]
        out = array(self.code)
        try:
            out.extend(values if type(values) is not array else values.tolist())
        except OverflowError as e:
            raise ValueError("Value out of range: %s" % e) from None
        return out

    # ---- bytes ----

    def write(self, value):
        """The bytes of one value, its length included where it has one."""
        if self.to_wire:
            return wire.varint(self.to_wire(value))
        if self.form:
            return self.form.pack(value)
        if type(value) is str:
            value = value.encode()
        return wire.varint(len(value)) + value

    def pack(self, values):
        if self.form:
            return values.tobytes()
        if self.to_wire is _zigzag:
            values = [_zigzag(v) for v in values]
        return wire.pack_varints(values)

    def unpack(self, data):
        if self.form:
            if len(data) % self.form.size:
                raise wire.truncated()
            out = array(self.code)
            out.frombytes(data)
            return out
        convert = self.from_wire
        numbers = wire.unpack_varints(data)
        if convert is _to_int64 and type(numbers) is array:
            return array("q", numbers.tobytes())
        if convert is not _same:
            numbers = [convert(v) for v in numbers]
        return array(self.code, numbers) if self.code else numbers


_CHECKS = {
    "i": _int_check(-1 << 31, (1 << 31) - 1), "I": _int_check(0, (1 << 32) - 1),
    "q": _int_check(-1 << 63, (1 << 63) - 1), "Q": _int_check(0, (1 << 64) - 1),
}


def _integer(name, number, cpp, code, from_wire, to_wire):
    return Scalar(name, number, cpp, wire.VARINT, 0, _CHECKS[code], code, from_wire, to_wire)


def _fixed(name, number, cpp, code):
    kind = wire.FIXED32 if code == "i" or code == "I" else wire.FIXED64
    return Scalar(name, number, cpp, kind, 0, _CHECKS[code], code)


# The numbers are those of FieldDescriptor.TYPE_* and CPPTYPE_*.
SCALARS = {s.name: s for s in [
    Scalar("double", 1, 5, wire.FIXED64, 0.0, _check_double, "d"),
    Scalar("float", 2, 6, wire.FIXED32, 0.0, _check_float, "f"),
    _integer("int64", 3, 2, "q", _to_int64, _complement),
    _integer("uint64", 4, 4, "Q", _same, _same),
    _integer("int32", 5, 1, "i", _to_int32, _complement),
    _fixed("fixed64", 6, 4, "Q"),
    _fixed("fixed32", 7, 3, "I"),
    Scalar("bool", 8, 7, wire.VARINT, False, _check_bool, None, bool, int),
    Scalar("string", 9, 9, wire.BYTES, "", _check_string),
    Scalar("bytes", 12, 9, wire.BYTES, b"", _check_bytes),
    _integer("uint32", 13, 3, "I", _to_uint32, _same),
    _fixed("sfixed32", 15, 1, "i"),
    _fixed("sfixed64", 16, 2, "q"),
    _integer("sint32", 17, 1, "i", _from_zigzag32, _zigzag),
    _integer("sint64", 18, 2, "q", _from_zigzag, _zigzag),
]}


def enum_scalar(wrapper):
    """Any number is kept, known or not, as proto3 has it; names of values are numbers too."""
    int32 = _CHECKS["i"]

    def check(value):
        return wrapper.Value(value) if isinstance(value, str) else int32(value)
    return Scalar("enum", 14, 8, wire.VARINT, 0, check, None, _to_int32, _complement)
