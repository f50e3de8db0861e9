"""tests/oracle/sparse.py -- sparse tensors: what a dense tensor of the same values says; and movers of tier B."""
import numpy as np

from table import fails, op
from values import COMPLEXES, FLOATS, NUMBERS

REALS = [t for t in NUMBERS if t not in COMPLEXES]
BOTH = FLOATS + COMPLEXES


def indices_of(r, s, repeat=False):
    """Some places of a shape, in order unless they may repeat."""
    all_of = int(np.prod(s, dtype=int))
    n = r.int(0, min(all_of, 12))
    flat = r.rng.integers(0, all_of, n) if repeat and all_of else np.sort(r.rng.permutation(all_of)[:n])
    return np.stack(np.unravel_index(flat, s), -1).astype(np.int64).reshape(-1, len(s))


def shape_of(r, lo=1, hi=3):
    return tuple(r.int(1, 5) for _ in range(r.int(lo, hi)))


def sparse(r, lo=1, hi=3, repeat=False, s=None):
    s = s or shape_of(r, lo, hi)
    at = indices_of(r, s, repeat)
    return [at, r.finite((len(at),)), np.asarray(s, np.int64)]


def dense(at, v, s):
    out = np.zeros([int(d) for d in s], v.dtype)
    np.add.at(out, tuple(np.moveaxis(at.astype(int), -1, 0)), v)
    return out


def coo(x, keep):
    """The elements of a dense tensor where keep is, in order."""
    at = np.argwhere(keep).reshape(-1, x.ndim)
    return at, x[tuple(at.T)], np.asarray(x.shape)


# ---- moved ----

def reorder(at, v, s):
    order = np.lexsort(at.T[::-1]) if len(at) else []
    return at[order], v[order]


def shuffled(r):
    at, v, s = sparse(r)
    order = r.rng.permutation(len(at))
    return [at[order], v[order], s]


op("SparseReorder", shuffled, reorder, raw=True)


def reshaped(r):
    at, v, s = sparse(r)
    n = int(np.prod(s))
    k = r.pick([d for d in range(1, n + 1) if n % d == 0])
    return [at, s, np.asarray(r.pick([(n,), (k, -1), (n // k, k), (1, -1, k)]), np.int64)]


def reshape(at, s, to):
    to = np.zeros([int(d) for d in s]).reshape([int(d) for d in to]).shape
    flat = np.ravel_multi_index(tuple(at.T.astype(int)), [int(d) for d in s])
    return np.stack(np.unravel_index(flat, to), -1).reshape(-1, len(to)), np.asarray(to)


op("SparseReshape", reshaped, reshape, n=30)


def concatenated(r):
    s = list(shape_of(r))
    d = r.int(0, len(s) - 1)
    parts = []
    for _ in range(r.int(2, 4)):
        s[d] = r.int(1, 4)
        parts.append(sparse(r, s=tuple(s)))
    return [list(p) for p in zip(*parts)], {"concat_dim": d - len(s) if r.chance(0.3) else d}


def concat(at, v, s, concat_dim):
    masks = np.concatenate([dense(a, np.ones(len(a)), k) for a, k in zip(at, s)], concat_dim)
    values = np.concatenate([dense(a, x, k) for a, x, k in zip(at, v, s)], concat_dim)
    return coo(values, masks > 0)


op("SparseConcat", concatenated, concat, types=FLOATS)


def sliced(r):
    at, v, s = sparse(r)
    start = np.asarray([r.int(0, int(d)) for d in s], np.int64)
    return [at, v, s, start, np.asarray([r.int(0, int(d) + 1) for d in s], np.int64)]


def slice_of(at, v, s, start, size):
    part = tuple(slice(int(a), int(a) + int(n)) for a, n in zip(start, size))
    return coo(dense(at, v, s)[part], dense(at, np.ones(len(at)), s)[part] > 0)


op("SparseSlice", sliced, slice_of, types=FLOATS)


def filled(r):
    at, v, s = sparse(r, 2, 2)
    return [at, v, s, r.finite(())]


def fill(at, v, s, rest):
    rows, values, empty, back = [], [], [], np.zeros(len(at), int)
    for i in range(int(s[0])):
        mine = np.flatnonzero(at[:, 0] == i)
        back[mine] = np.arange(len(rows), len(rows) + len(mine))
        rows += [tuple(at[k]) for k in mine] or [(i,) + (0,) * (len(s) - 1)]
        values += [v[k] for k in mine] or [rest]
        empty.append(len(mine) == 0)
    return np.asarray(rows).reshape(-1, len(s)), np.asarray(values, v.dtype), np.asarray(empty, bool), back


op("SparseFillEmptyRows", filled, fill, types=FLOATS)


# ---- joined ----

def pair(r):
    s = shape_of(r)
    return sparse(r, s=s) + sparse(r, s=s)


def add(a, x, s, b, y, s2, thresh):
    both = dense(a, np.ones(len(a)), s) + dense(b, np.ones(len(b)), s) > 0
    total = dense(a, x, s) + dense(b, y, s)
    return coo(total, both & (np.abs(total) >= thresh))


op("SparseAdd", lambda r: pair(r) + [np.float32(0)], add, types=BOTH, ulp=1)


def extreme(f):
    def oracle(a, x, s, b, y, s2):
        both = dense(a, np.ones(len(a)), s) + dense(b, np.ones(len(b)), s) > 0
        return coo(f(dense(a, x, s), dense(b, y, s)), both)[:2]
    return oracle


op("SparseSparseMaximum", pair, extreme(np.maximum), types=REALS)
op("SparseSparseMinimum", pair, extreme(np.minimum), types=REALS)


def beside(r):
    at, v, s = sparse(r)
    d = tuple(1 if r.chance(0.3) else int(n) for n in s)
    x = r.finite(d[r.int(0, len(d) - 1) if r.chance(0.3) else 0:])
    return [at, v, s, np.where(x == 0, x + 1, x).astype(x.dtype) if x.dtype.names is None else x]


def cwise(f):
    def oracle(at, v, s, x):
        return f(v, np.broadcast_to(x, [int(d) for d in s])[tuple(at.T.astype(int))])
    return oracle


op("SparseDenseCwiseAdd", beside, cwise(np.add), types=FLOATS, zero_sign=False)
op("SparseDenseCwiseMul", beside, cwise(np.multiply), types=FLOATS, ulp=1)
op("SparseDenseCwiseDiv", beside, cwise(np.divide), types=FLOATS, ulp=1)


def added(r):
    at, v, s = sparse(r, repeat=True)
    t = r.index_type()
    return [at.astype(t), v, s.astype(t), r.finite(tuple(int(d) for d in s))]


op("SparseTensorDenseAdd", added, lambda at, v, s, x: x + dense(at, v, s), types=BOTH, sums=6, own_eps=True, zero_sign=False)


def to_dense(r):
    s = shape_of(r)
    at = indices_of(r, s)
    t = r.index_type()
    return [at.astype(t), np.asarray(s, t), r.finite(() if r.chance(0.2) else (len(at),)), r.finite(())]


def made_dense(at, s, v, rest):
    out = np.full([int(d) for d in s], rest, v.dtype)
    out[tuple(at.T.astype(int))] = v
    return out


op("SparseToDense", to_dense, made_dense, types=NUMBERS)
fails("SparseToDense", lambda r: [np.int32([[0, 2]]), np.int32([2, 2]), r.finite((1,)), r.finite(())],
      "indices[0] = [0,2] is out of bounds", types=FLOATS)


# ---- folded ----

def folded(r):
    at, v, s = sparse(r, repeat=False)
    axes = [i for i in range(len(s)) if r.chance(0.5)] or [0]
    return [at, v, s, np.asarray([a - len(s) if r.chance(0.3) else a for a in axes], np.int32)], {"keep_dims": r.chance(0.5)}


def reduce_sum(at, v, s, axes, keep_dims):
    return dense(at, v, s).sum(tuple(int(a) % len(s) for a in axes), keepdims=keep_dims)


def reduce_max(at, v, s, axes, keep_dims):
    x = np.full([int(d) for d in s], -np.inf)
    x[tuple(at.T.astype(int))] = v
    top = x.max(tuple(int(a) % len(s) for a in axes), keepdims=keep_dims)
    return np.where(np.isneginf(top), 0, top)


op("SparseReduceSum", folded, reduce_sum, types=BOTH, sums=3, zero_sign=False)
op("SparseReduceMax", folded, reduce_max, types=FLOATS)


def softmax(at, v, s):
    x = np.full([int(d) for d in s], -np.inf)
    x[tuple(at.T.astype(int))] = v
    e = np.exp(x - x.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True))[tuple(at.T.astype(int))]


op("SparseSoftmax", lambda r: sparse(r, 2, 3), softmax, ulp=4)


# ---- products ----

def product(r):
    m, k, n = r.int(1, 6), r.int(1, 6), r.int(1, 9)
    ta, tb = r.chance(0.5), r.chance(0.5)
    at, v, s = sparse(r, s=(k, m) if ta else (m, k), repeat=True)
    return [at.astype(r.index_type()), v, s, r.finite((n, k) if tb else (k, n))], {"adjoint_a": ta, "adjoint_b": tb}


def multiply(at, v, s, b, adjoint_a, adjoint_b):
    a = dense(at, v, s)
    return (a.conj().T if adjoint_a else a) @ (b.conj().T if adjoint_b else b)


op("SparseTensorDenseMatMul", product, multiply, types=BOTH, sums=4)


def matrices(r):
    m, k, n = r.int(1, 6), r.int(1, 6), r.int(1, 9)
    ta, tb = r.chance(0.5), r.chance(0.5)
    return [r.finite((k, m) if ta else (m, k)), r.finite((n, k) if tb else (k, n), np.dtype(np.float32))], {
        "transpose_a": ta, "transpose_b": tb}


op("SparseMatMul", matrices, lambda a, b, transpose_a, transpose_b: (a.T if transpose_a else a) @ (b.T if transpose_b else b),
   types=[np.float32], sums=4)


# ---- counted ----

def counted(r):
    s = (r.int(1, 4), r.int(1, 5))
    at = indices_of(r, s)
    t = r.index_type()
    size = r.int(0, 6)
    w = r.finite((len(at),)) if r.chance(0.5) and len(at) else np.zeros(0, r.T)
    return [at, r.indices(7, (len(at),), t), np.asarray(s, np.int64), np.asarray(size, t), w], {}


def bincount(at, v, s, size, w):
    out = np.zeros((int(s[0]), int(size)), w.dtype)
    for k, (i, x) in enumerate(zip(at, v)):
        if x < size:
            out[int(i[0]), int(x)] += w[k] if len(w) else 1
    return out


op("SparseBincount", counted, bincount, types=[np.float32, np.float64, np.int32, np.int64], sums=3)


# ---- movers ----

def rolled(r):
    s = r.shape(1, 4)
    n = r.int(0, 3)
    return [r.any(s), np.asarray(r.rng.integers(-9, 10, n), r.index_type()),
            np.asarray([r.axis(len(s)) for _ in range(n)], r.index_type())]


def roll(x, by, axis):
    for b, a in zip(by, axis):
        x = np.roll(x, int(b), int(a))
    return x


op("Roll", rolled, roll, raw=True)


def sequences(r):
    s = r.shape(2, 4)
    batch, seq = r.rng.permutation(len(s))[:2]
    return [r.any(s), np.asarray(r.rng.integers(0, s[seq] + 1, s[batch]), r.index_type())], {
        "seq_dim": int(seq), "batch_dim": int(batch)}


def reverse_sequence(x, n, seq_dim, batch_dim):
    out = x.copy()
    a, b = np.moveaxis(x, (batch_dim, seq_dim), (0, 1)), np.moveaxis(out, (batch_dim, seq_dim), (0, 1))
    for i, k in enumerate(n):
        b[i, :k] = a[i, :k][::-1]
    return out


op("ReverseSequence", sequences, reverse_sequence, raw=True)


def flagged(r):
    s = r.shape(0, 4)
    return [r.any(s), r.rng.random(len(s)) < 0.5]


op("Reverse", flagged, lambda x, f: np.flip(x, tuple(i for i, b in enumerate(f) if b)), raw=True)


def unravelled(r):
    s = shape_of(r, 1, 4)
    return [r.indices(int(np.prod(s)), r.shape(0, 1), r.T), np.asarray(s, r.T)]


op("UnravelIndex", unravelled, lambda at, s: np.stack(np.unravel_index(at, s)).astype(at.dtype), raw=True)


def unique(x, axis):
    a = np.moveaxis(x, int(axis[0]), 0)
    seen, idx = [], []
    for row in a:
        k = next((i for i, s in enumerate(seen) if np.array_equal(a[s], row)), len(seen))
        if k == len(seen):
            seen.append(len(idx))
        idx.append(k)
    return np.moveaxis(a[seen], 0, int(axis[0])), np.asarray(idx, np.int32), np.bincount(idx, minlength=len(seen)).astype(np.int32)


def with_axis(r):
    s = tuple(r.int(1, 4) for _ in range(r.int(1, 3)))
    return [(r.rng.integers(0, 2, s)).astype(r.T), np.asarray([r.axis(len(s))], r.index_type())]


SMALL = [np.float32, np.float64, np.int32, np.int64, np.uint8]
op("UniqueV2", with_axis, lambda x, axis: unique(x, axis)[:2], raw=True, types=SMALL)
op("UniqueWithCountsV2", with_axis, unique, raw=True, types=SMALL)
