"""tests/oracle/counting.py -- counting, searching and selecting against numpy."""
import numpy as np

from graph import Type
from table import op

BINS = ["int32", "int64", "float32", "float64"]


def binned(r):
    shape, size = r.shape(0, 3), r.int(0, 9)
    x = r.rng.integers(0, 12, shape).astype(np.int32)
    w = np.zeros((0,), r.T) if r.chance(0.4) else np.asarray(r.rng.integers(-5, 6, shape), r.T)
    return [x, np.int32(size), w if w.size or not x.size else np.zeros((0,), r.T)]


def bincount(x, size, w):
    y = np.zeros(int(size))
    for i, v in enumerate(x.ravel()):
        if v < size:
            y[int(v)] += w.ravel()[i] if w.size else 1
    return y


op("Bincount", binned, bincount, types=BINS)


def dense(r):
    shape = r.pick([(), (5,), (3, 7), (0, 3), (2, 0)])
    w = np.zeros((0,), r.T) if r.chance(0.4) else np.asarray(r.rng.integers(-5, 6, shape), r.T)
    x = r.rng.integers(0, 12, shape)
    t = r.pick([np.int32, np.int64])
    return [x.astype(t), t(r.int(0, 9)), w if w.size or not x.size else np.zeros((0,), r.T)], {"binary_output": r.chance(0.3)}


def dense_bincount(x, size, w, binary_output):
    rows = x if x.ndim == 2 else x.reshape(1, x.size)
    w = w.reshape(rows.shape) if w.size else None
    y = np.stack([bincount(rows[i], size, w[i] if w is not None else np.zeros(0)) for i in range(rows.shape[0])]) if rows.shape[0] else np.zeros((0, int(size)))
    if binary_output:
        y = np.stack([bincount(rows[i], size, np.zeros(0)) > 0 for i in range(rows.shape[0])]).astype(float) if rows.shape[0] else y
    return y if x.ndim == 2 else y[0]


op("DenseBincount", dense, dense_bincount, types=BINS)


def rows_and_n(r):
    shape = r.shape(0, 3)[:2] + (r.int(1, 20),)
    return [r.any(shape) if r.chance(0.5) else r.finite(shape), np.int32(r.int(0, shape[-1] - 1))], {"reverse": r.chance(0.5)}


def nth(x, n, reverse):
    y = np.sort(x, axis=-1)  # NaN last
    return y[..., x.shape[-1] - 1 - int(n) if reverse else int(n)]


op("NthElement", rows_and_n, nth, types=["int8", "int32", "int64", "uint8", "float32", "float64"], zero_sign=False)


def sorted_rows(r):
    b, n, m = r.int(1, 4), r.int(0, 20), r.int(0, 6)
    x = np.sort(r.finite((b, n)), axis=-1)
    return [x, r.finite((b, m))], {"out_type": Type(np.dtype(r.pick([np.int32, np.int64])))}


def bound(side):
    return lambda x, v, out_type: np.stack([np.searchsorted(x[i], v[i], side) for i in range(x.shape[0])]) if v.size else np.zeros(v.shape)


ORDERED = ["int8", "int16", "int32", "int64", "uint8", "uint16", "float32", "float64"]
op("LowerBound", sorted_rows, bound("left"), types=ORDERED)
op("UpperBound", sorted_rows, bound("right"), types=ORDERED)


def packed(r):
    return [r.finite(r.shape(0, 2) + (8 * r.int(0, 4),)), r.finite(())]


op("CompareAndBitpack", packed, lambda x, t: np.packbits(x > t, axis=-1) if x.size else np.zeros(x.shape[:-1] + (x.shape[-1] // 8,)),
   types=["float16", "float32", "float64", "int8", "int16", "int32", "int64"])

def scanned(r):
    shape = r.shape(1, 3)
    return [r.finite(shape), np.int32(r.axis(len(shape)))], {"exclusive": False, "reverse": r.chance(0.5)}


def logsumexp(x, axis, exclusive, reverse):
    x = np.flip(x, int(axis)) if reverse else x
    y = np.logaddexp.accumulate(x, int(axis))
    return np.flip(y, int(axis)) if reverse else y


op("CumulativeLogsumexp", scanned, logsumexp, sums=4, scale=lambda x, a, **k: np.ones_like(x) * (1 + np.max(np.abs(x), initial=0)))


def normed(r):
    shape = r.shape(1, 4)
    axes = sorted(r.rng.choice(len(shape), r.int(1, len(shape)), replace=False).tolist())
    return [r.finite(shape), np.asarray(axes, np.int32)], {"keep_dims": r.chance(0.5)}


def euclidean_norm(x, a, keep_dims):
    """As in TensorFlow, a reduction that combines no elements returns them as they are, with their signs."""
    axes = tuple(int(v) for v in a)
    if all(x.shape[v] == 1 for v in axes):
        return np.sum(x, axis=axes, keepdims=keep_dims)
    return np.sqrt(np.sum(np.abs(x) ** 2, axis=axes, keepdims=keep_dims))


op("EuclideanNorm", normed, euclidean_norm,
   types=["float16", "float32", "float64", "complex64", "complex128"], ulp={None: 2})
