"""tests/oracle/opdefs.py -- what the library says of its own ops: arguments, and the types each attr may have.

Read from TF_GetAllOpList, so that a type added to an op is compared the same day, without a list to keep.
"""
import ctypes as c

from graph import NUMPY, P, lib


class Buffer(c.Structure):
    _fields_ = [("data", P), ("length", c.c_size_t), ("deallocator", P)]


def varint(b, i):
    value = shift = 0
    while True:
        value |= (b[i] & 127) << shift
        i, shift = i + 1, shift + 7
        if b[i - 1] < 128:
            return value, i


def fields(b):
    """(number, value) of each field of an encoded message; bytes or an integer."""
    i = 0
    while i < len(b):
        tag, i = varint(b, i)
        if tag & 7 == 0:
            value, i = varint(b, i)
        elif tag & 7 == 2:
            n, i = varint(b, i)
            value, i = b[i:i + n], i + n
        else:
            n = 8 if tag & 7 == 1 else 4
            value, i = b[i:i + n], i + n
        yield tag >> 3, value


def types_in(attr_value):
    """The types of an AttrValue that is a list(type): packed, or one by one."""
    out = []
    for n, items in fields(attr_value):
        for m, v in fields(items) if n == 1 else ():
            i = 0
            while m == 6 and isinstance(v, bytes) and i < len(v):
                t, i = varint(v, i)
                out.append(t)
            if m == 6 and isinstance(v, int):
                out.append(v)
    return out


class Arg:
    def __init__(self, b):
        d = dict(fields(b))
        self.name, self.type = d[1].decode(), d.get(3, 0)
        self.type_attr, self.number_attr, self.list_attr = (d.get(n, b"").decode() for n in (4, 5, 6))


class OpDef:
    def __init__(self, b):
        self.inputs, self.outputs, self.attrs = [], [], {}
        for n, v in fields(b):
            if n == 1:
                self.name = v.decode()
            elif n in (2, 3):
                (self.inputs if n == 2 else self.outputs).append(Arg(v))
            elif n == 4:
                d = dict(fields(v))
                self.attrs[d[1].decode()] = (d[2].decode(), types_in(d.get(7, b"")))

    def types(self, attr):
        """The numpy types that a type attr allows; all of those we know if it allows any."""
        kind, allowed = self.attrs[attr]
        assert kind == "type", f"{self.name}.{attr} is a {kind}"
        return list(dict.fromkeys(NUMPY[t] for t in (allowed or NUMPY) if t in NUMPY))

    def main_attr(self):
        """The type attr with the most types: the one to try all of."""
        used = [a.type_attr for a in self.inputs + self.outputs if a.type_attr]
        return max(used, key=lambda a: (len(self.types(a)), -used.index(a))) if used else None


def load():
    lib.TF_GetAllOpList.restype = c.POINTER(Buffer)
    buf = lib.TF_GetAllOpList()
    b = c.string_at(buf.contents.data, buf.contents.length)
    lib.TF_DeleteBuffer.argtypes = [P]
    lib.TF_DeleteBuffer(buf)
    return {d.name: d for d in (OpDef(v) for n, v in fields(b) if n == 1)}


OPS = load()
