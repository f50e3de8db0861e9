"""tests/oracle/ragged.py -- ragged tensors, written out row by row."""
import numpy as np

from table import op
from values import FLOATS


def splits(r, n, total=None):
    """n rows; the last split is total, where it is given."""
    if total is None:
        return np.concatenate([[0], np.cumsum(r.rng.integers(0, 4, n))])
    return np.concatenate([[0], np.sort(r.rng.integers(0, total + 1, n - 1)), [total]]) if n else np.zeros(1, int)


def ranges(r):
    n = r.int(0, 5)
    t = r.T
    deltas = np.asarray(r.rng.integers(1, 4, n)) * r.pick([1, -1])
    return [np.asarray(r.rng.integers(-9, 9, n), t), np.asarray(r.rng.integers(-9, 9, n), t), deltas.astype(t)]


def ragged_range(a, b, c):
    rows = [np.arange(x, y, z) for x, y, z in zip(a, b, c)]
    return np.concatenate([[0], np.cumsum([len(x) for x in rows])]).astype(int), np.concatenate(rows + [np.zeros(0)])


op("RaggedRange", ranges, ragged_range, types=[np.float32, np.float64, np.int32, np.int64], n=20)


def ragged(r):
    s = splits(r, r.int(0, 5))
    return [[s.astype(r.index_type())], r.finite((int(s[-1]),) + r.shape(0, 2, least=1))]


def to_sparse(s, v):
    s = s[0]
    at = [(i, j - s[i]) + k for i in range(len(s) - 1) for j in range(int(s[i]), int(s[i + 1])) for k in np.ndindex(*v.shape[1:])]
    longest = int(max(np.diff(s), default=0))
    return np.asarray(at).reshape(-1, 1 + v.ndim), v.reshape(-1), np.asarray((len(s) - 1, longest) + v.shape[1:])


op("RaggedTensorToSparse", ragged, to_sparse, types=FLOATS)


def padded(r):
    s, v = ragged(r)
    want = [r.pick([-1, r.int(0, 6)]), r.pick([-1, r.int(0, 4)])] + [-1] * (v.ndim - 1)
    return [np.asarray(want, r.index_type()), v, r.finite(v.shape[1:] if r.chance(0.5) else ()), s], {"row_partition_types": [b"ROW_SPLITS"]}


def pad(shape, v, rest, s, row_partition_types):
    s = s[0].astype(int)
    rows = int(shape[0]) if shape[0] >= 0 else len(s) - 1
    cols = int(shape[1]) if shape[1] >= 0 else int(max(np.diff(s), default=0))
    out = np.empty((rows, cols) + v.shape[1:], v.dtype)
    out[...] = rest
    for i in range(min(rows, len(s) - 1)):
        row = v[s[i]:s[i + 1]][:cols]
        out[i, :len(row)] = row
    return out


op("RaggedTensorToTensor", padded, pad, types=FLOATS, n=20)


def gathered(r):
    s = splits(r, r.int(1, 5))
    return [[s.astype(r.index_type())], r.finite((int(s[-1]),) + r.shape(0, 2, least=1)), r.indices(len(s) - 1, (r.int(0, 6),))], {
        "OUTPUT_RAGGED_RANK": 1}


def gather(s, v, at, OUTPUT_RAGGED_RANK):
    s = s[0].astype(int)
    rows = [v[s[int(i)]:s[int(i) + 1]] for i in at]
    return np.concatenate([[0], np.cumsum([len(x) for x in rows])]).astype(int), np.concatenate(rows + [v[:0]])


op("RaggedGather", gathered, gather, types=FLOATS)


def counted(r):
    s = splits(r, r.int(0, 4))
    t = r.index_type()
    n = int(s[-1])
    w = r.finite((n,)) if n and r.chance(0.5) else np.zeros(0, r.T)
    return [s.astype(np.int64), r.indices(6, (n,), t), np.asarray(r.int(0, 7), t), w]


def bincount(s, v, size, w):
    out = np.zeros((len(s) - 1, int(size)), w.dtype)
    for i in range(len(s) - 1):
        for k in range(int(s[i]), int(s[i + 1])):
            if v[k] < size:
                out[i, int(v[k])] += w[k] if len(w) else 1
    return out


op("RaggedBincount", counted, bincount, types=[np.float32, np.float64, np.int32, np.int64], sums=3)
