"""tests/oracle/parsing.py -- bytes, CSV, compressed strings, Examples and tensors as strings: what Python's own modules say."""
import csv
import gzip
import io
import struct
import zlib

import numpy as np

from graph import STRING, Graph, Type

RNG = None  # set by run.py

RAW = [np.float16, np.float32, np.float64, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.complex64,
       np.complex128]


def strings(values, shape=None):
    a = np.empty(len(values), STRING)
    a[:] = values
    return a if shape is None else a.reshape(shape)


def run(build):
    g = Graph()
    try:
        return g.run(build(g))
    finally:
        g.close()


def noise(n):
    return bytes(RNG.integers(0, 256, n, np.uint8))


# ---- raw bytes ----

def test_decode_raw():
    for t in RAW:
        n, k = int(RNG.integers(1, 4)), int(RNG.integers(0, 5))
        little = bool(RNG.integers(2))
        rows = [noise(k * np.dtype(t).itemsize) for _ in range(n)]
        got, = run(lambda g: [g.op("DecodeRaw", [strings(rows)], out_type=Type(t), little_endian=little)])
        want = np.array([np.frombuffer(r, np.dtype(t).newbyteorder("<" if little else ">")) for r in rows])
        assert got.shape == (n, k) and got.tobytes() == want.astype(t).tobytes(), (t, little)


test_decode_raw.ops = ["DecodeRaw"]


def test_decode_padded_raw():
    for t in RAW[:-2]:
        size = np.dtype(t).itemsize
        length = size * int(RNG.integers(1, 5))
        little = bool(RNG.integers(2))
        rows = [noise(int(RNG.integers(0, 20))) for _ in range(3)]
        got, = run(lambda g: [g.op("DecodePaddedRaw", [strings(rows), np.int32(length)], out_type=Type(t),
                                   little_endian=little)])
        cut = [r[:length].ljust(length, b"\0") for r in rows]
        want = np.array([np.frombuffer(r, np.dtype(t).newbyteorder("<" if little else ">")) for r in cut])
        assert got.tobytes() == want.astype(t).tobytes(), (t, little, length)


test_decode_padded_raw.ops = ["DecodePaddedRaw"]


def test_decode_compressed():
    rows = [noise(int(RNG.integers(0, 3000))) * int(RNG.integers(1, 30)) for _ in range(4)]
    for name, pack in (("ZLIB", zlib.compress), ("GZIP", gzip.compress), ("", bytes)):
        got, = run(lambda g: [g.op("DecodeCompressed", [strings([pack(r) for r in rows])], compression_type=name)])
        assert list(got) == rows, name


test_decode_compressed.ops = ["DecodeCompressed"]


def test_serialized_tensor_comes_back():
    for t in RAW + [np.bool_]:
        x = np.frombuffer(noise(6 * np.dtype(t).itemsize), t).reshape(2, 3) if t != np.bool_ else RNG.integers(0, 2, (2, 3)) > 0
        got, = run(lambda g: [g.op("ParseTensor", [g.op("SerializeTensor", [x])], out_type=Type(t))])
        assert got.shape == x.shape and got.tobytes() == x.tobytes(), t


test_serialized_tensor_comes_back.ops = ["ParseTensor", "SerializeTensor"]


# ---- CSV ----

def any_text():
    letters = np.array(list("abc ,;\"\n'"))
    return "".join(RNG.choice(letters, int(RNG.integers(0, 6))))


def written(row, delim):
    out = io.StringIO()
    csv.writer(out, delimiter=delim, lineterminator="", quoting=csv.QUOTE_NONNUMERIC).writerow(row)
    return out.getvalue().encode()


def test_decode_csv():
    delim = ",;\t|"[RNG.integers(4)]
    ints = [int(v) for v in RNG.integers(-2**31, 2**31, 5)]
    floats = [float(np.float32(v)) for v in RNG.normal(size=5)]
    texts = [any_text() for _ in range(5)]
    records = [written([i, f, t], delim) for i, f, t in zip(ints, floats, texts)]

    def build(g):
        defaults = [g.const(np.zeros(0, np.int32)), g.const(np.zeros(0, np.float32)), g.const(strings([b"none"]))]
        o = g.op("DecodeCSV", [strings(records), defaults], field_delim=delim)
        return [o, o[1], o[2]]

    got = run(build)
    assert list(got[0]) == ints and list(got[1]) == [np.float32(f) for f in floats]
    assert list(got[2]) == [t.encode() or b"none" for t in texts], (records, got[2])


test_decode_csv.ops = ["DecodeCSV"]


# ---- Examples, written by hand ----

def varint(n):
    out = b""
    n &= 2**64 - 1
    while n >= 128:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def field(n, data):
    return varint(n << 3 | 2) + varint(len(data)) + data


def feature(values, t):
    if t == np.float32:
        body = field(2, field(1, struct.pack(f"<{len(values)}f", *values)))
    elif t == np.int64:
        body = field(3, field(1, b"".join(varint(int(v)) for v in values)))
    else:
        body = field(1, b"".join(field(1, v) for v in values))
    return body


def example(features):
    entries = [field(1, field(1, k) + field(2, feature(v, t))) for k, (v, t) in features.items()]
    RNG.shuffle(entries)
    return field(1, b"".join(entries))


def some(t, n):
    if t == np.float32:
        return RNG.normal(size=n).astype(np.float32)
    if t == np.int64:
        return RNG.integers(-2**63, 2**63, n, np.int64)
    return strings([noise(int(RNG.integers(0, 30))) for _ in range(n)])


def same(got, want):
    return got.shape == want.shape and (list(got.ravel()) == list(want.ravel()) if want.dtype == STRING
                                        else got.tobytes() == want.tobytes())


def test_parse_example():
    batch = int(RNG.integers(1, 40))
    types = (np.float32, np.int64, STRING)
    dense = [[some(t, 3) for _ in range(batch)] for t in types]
    sparse = [[some(t, int(RNG.integers(0, 5))) for _ in range(batch)] for t in types]
    serialized = [example({**{b"d%d" % i: (dense[i][e], types[i]) for i in range(3)},
                           **{b"s%d" % i: (sparse[i][e], types[i]) for i in range(3)},
                           b"other": (some(np.float32, 2), np.float32)}) for e in range(batch)]

    def build(g):
        keys = [[g.const(strings([b"%s%d" % (k, i)], ())) for i in range(3)] for k in (b"s", b"d")]
        none = [g.const(np.zeros(0, np.float32)), g.const(np.zeros(0, np.int64)), g.const(strings([]))]
        o = g.op("ParseExample", [strings(serialized), strings([]), keys[0], keys[1], none], dense_shapes=[(3,)] * 3,
                 sparse_types=[Type(t) for t in types])
        return [o[i] for i in range(12)]

    got = run(build)
    for i in range(3):
        assert same(got[9 + i], np.stack(dense[i])), types[i]
        assert same(got[3 + i], np.concatenate(sparse[i])), types[i]
        want = [[e, k] for e in range(batch) for k in range(len(sparse[i][e]))]
        assert got[i].tolist() == want
        assert got[6 + i].tolist() == [batch, max(map(len, sparse[i]))]


test_parse_example.ops = ["ParseExample"]
