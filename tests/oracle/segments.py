"""tests/oracle/segments.py -- rows joined by segment, sorted or not, chosen or all."""
import numpy as np

from table import fails, op
from values import COMPLEXES, FLOATS, NUMBERS

REALS = [t for t in NUMBERS if t not in COMPLEXES]
LOWEST = {}


def ids_of(r, n, segments):
    return np.sort(r.indices(segments, (n,))) if n else r.indices(1, (0,))


def rows(r):
    s = r.shape(1, 4)
    return s, r.finite(s)


def sorted_rows(r):
    s, x = rows(r)
    return [x, ids_of(r, s[0], r.int(1, 6))]


def joined(f, empty, x, ids, n):
    out = np.full((n,) + x.shape[ids.ndim:], empty, x.dtype)
    for k in range(n):
        mine = x[ids == k]
        if len(mine):
            out[k] = f(mine)
    return out


def sorted_op(f, empty):
    return lambda x, ids: joined(f, empty, x, ids, int(ids[-1]) + 1 if len(ids) else 0)


def total(x):
    return x.sum(0)


def product(x):
    return x.prod(0)


op("SegmentSum", sorted_rows, sorted_op(total, 0), types=NUMBERS, sums=3)
op("SegmentMean", sorted_rows, sorted_op(lambda x: x.mean(0), 0), types=FLOATS + COMPLEXES, sums=3)
op("SegmentProd", sorted_rows, sorted_op(product, 1), types=FLOATS, sums=60)
op("SegmentMin", sorted_rows, sorted_op(lambda x: x.min(0), 0), types=REALS)
op("SegmentMax", sorted_rows, sorted_op(lambda x: x.max(0), 0), types=REALS)
fails("SegmentSum", lambda r: [r.finite((2,)), np.int32([1, 0])], "segment ids are not increasing", types=FLOATS)


def unsorted_rows(full):
    """With `full` every segment has a row, since an empty one holds the end of the type."""
    def gen(r):
        s = r.shape(1, 4, least=1)
        lead = s[:r.int(1, len(s))]
        n = r.int(1, 5)
        ids = r.indices(n, lead)
        if full:
            ids = np.unique(ids, return_inverse=True)[1].reshape(lead).astype(ids.dtype)
            n = int(ids.max()) + 1
        ids = np.where(r.rng.random(lead) < 0.2, -1, ids).astype(ids.dtype) if not full else ids
        return [r.finite(s), ids, np.asarray(n, r.index_type())]
    return gen


def unsorted_op(f, empty):
    return lambda x, ids, n: joined(f, empty, x, ids, int(n))


op("UnsortedSegmentProd", unsorted_rows(False), unsorted_op(product, 1), types=FLOATS, sums=200)
op("UnsortedSegmentMin", unsorted_rows(True), unsorted_op(lambda x: x.min(0), 0), types=REALS)
op("UnsortedSegmentMax", unsorted_rows(True), unsorted_op(lambda x: x.max(0), 0), types=REALS)


def given_count(r):
    x, ids = sorted_rows(r)
    return [x, ids, np.asarray((int(ids[-1]) + 1 if len(ids) else 0) + r.int(0, 2), r.index_type())]


op("SegmentSumV2", given_count, unsorted_op(total, 0), types=NUMBERS, sums=3)
op("SegmentProdV2", given_count, unsorted_op(product, 1), types=FLOATS, sums=60)


# ---- chosen rows ----

def chosen(r):
    s = r.shape(1, 3, least=1)
    n = r.int(0, 9)
    return [r.finite(s), r.indices(s[0], (n,)), ids_of(r, n, r.int(1, 5))]


def chosen_count(r):
    x, at, ids = chosen(r)
    return [x, at, ids, np.asarray((int(ids[-1]) + 1 if len(ids) else 0) + r.int(0, 2), r.index_type())]


SCALES = {"Sum": lambda x: x.sum(0), "Mean": lambda x: x.mean(0), "SqrtN": lambda x: x.sum(0) / np.sqrt(len(x))}


def sparse_segment(f):
    def oracle(x, at, ids, n=None):
        n = int(ids[-1]) + 1 if n is None and len(ids) else int(n or 0)
        return joined(f, 0, x[at], ids, n)
    return oracle


def backward(r):
    s = r.shape(1, 3, least=1)
    n, rows_out = r.int(0, 9), r.int(1, 6)
    return [r.finite(s), r.indices(rows_out, (n,)), r.indices(s[0], (n,)), np.int32(rows_out)]


def gradient(scale):
    def oracle(dy, at, ids, n):
        out = np.zeros((int(n),) + dy.shape[1:], dy.dtype)
        counts = np.bincount(ids, minlength=dy.shape[0]) if len(ids) else np.zeros(dy.shape[0])
        by = {"Sum": lambda c: 1.0, "Mean": lambda c: 1 / c, "SqrtN": lambda c: 1 / np.sqrt(c)}[scale]
        for i, k in zip(at, ids):
            out[i] += dy[k] * by(counts[k])
        return out
    return oracle


def gradient_v2(scale):
    def oracle(dy, at, ids, n):
        used = np.unique(at)
        return gradient(scale)(dy, at, ids, n)[used.astype(int)], used
    return oracle


for name, f in SCALES.items():
    op(f"SparseSegment{name}", chosen, sparse_segment(f), types=FLOATS, sums=3)
    op(f"SparseSegment{name}WithNumSegments", chosen_count, sparse_segment(f), types=FLOATS, sums=3)
    op(f"SparseSegment{name}Grad", backward, gradient(name), types=FLOATS, sums=4)
    op(f"SparseSegment{name}GradV2", backward, gradient_v2(name), types=FLOATS, sums=4)
