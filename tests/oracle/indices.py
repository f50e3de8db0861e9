"""tests/oracle/indices.py -- gathering, scattering, searching, sorting out; matrices' diagonals; blocks of space."""
import numpy as np

from arrays import vector, zeros
from graph import STRING, Type
from table import fails, op
from values import BOOL, FLOATS, INTS, NUMBERS, flush, is_float, narrow, wide

FLAT = NUMBERS + [BOOL]


# ---- gather ----

def gathered(r):
    s = r.shape(1, 4, least=1)
    return [r.any(s), r.indices(s[0], r.shape(0, 3))]


def gathered_v2(r):
    batch = r.int(0, 2)
    s = r.shape(1 + batch, 4, least=1)
    axis = r.int(batch, len(s) - 1)
    at = r.indices(s[axis], s[:batch] + r.shape(0, 2))
    return [r.any(s), at, np.asarray(axis - len(s) if r.chance(0.4) else axis, r.index_type())], {
        "batch_dims": batch - at.ndim if r.chance(0.2) and batch < at.ndim and batch else batch}


def gather_v2(x, at, axis, batch_dims):
    axis, b = int(axis) % x.ndim, batch_dims + (at.ndim if batch_dims < 0 else 0)
    if b == 0:
        return np.take(x, at, axis)
    out = np.empty(x.shape[:axis] + at.shape[b:] + x.shape[axis + 1:], x.dtype)
    for i in np.ndindex(*x.shape[:b]):
        out[i] = np.take(x[i], at[i], axis - b)
    return out


def gathered_nd(r):
    s = r.shape(1, 5, least=1)
    k = r.int(0, len(s))
    lead = r.shape(0, 3)
    t = r.index_type()
    at = np.stack([r.indices(d, lead, t) for d in s[:k]], -1) if k else np.zeros(lead + (0,), t)
    return [r.any(s), at]


def gather_nd(x, at):
    if at.shape[-1] == 0:
        return np.broadcast_to(x, at.shape[:-1] + x.shape)
    return x[(Ellipsis,) + tuple(np.moveaxis(at, -1, 0))] if at.shape[-1] == x.ndim else x[tuple(np.moveaxis(at, -1, 0))]


op("Gather", gathered, lambda x, at: np.take(x, at, 0), raw=True)
op("GatherV2", gathered_v2, gather_v2, raw=True, n=20)
op("GatherNd", gathered_nd, gather_nd, raw=True)
fails("Gather", lambda r: [r.any((3,)), vector(r, [0, 3])], "indices[1] = 3 is not in [0, 3)", types=FLOATS)
fails("GatherV2", lambda r: [r.any((3, 2)), np.asarray(-1, r.index_type()), np.int32(0)], "indices = -1 is not in [0, 3)",
      types=FLOATS)
fails("GatherNd", lambda r: [r.any((3, 2)), np.asarray([[0, 0], [1, 2]], r.index_type())],
      "indices[1] = [1, 2] does not index into param shape [3,2]", types=FLOATS)


# ---- scatter, one hot ----

def scattered_nd(r):
    s = r.shape(1, 4, least=1)
    k = r.int(1, len(s))
    lead = r.shape(0 if k < len(s) else 1, 2)
    t = r.index_type()
    at = np.stack([r.indices(d, lead, t) for d in s[:k]], -1)
    return [at, r.finite(lead + s[k:]), np.asarray(s, t)]


def scatter_nd(at, x, shape):
    out = np.zeros([int(d) for d in shape], x.dtype)
    if x.dtype == BOOL:
        np.logical_or.at(out, tuple(np.moveaxis(at, -1, 0)), x)
    else:
        np.add.at(out, tuple(np.moveaxis(at, -1, 0)), x)
    return out


def hot(r):
    """Some indices lie outside."""
    s = r.shape(0, 4)
    depth = r.int(0, 7)
    t = r.pick([np.uint8, np.int32, np.int64])
    at = r.rng.integers(0 if t == np.uint8 else -2, depth + 2, s).astype(t)
    return [at, np.asarray(depth, np.int32), r.any(()), r.any(())], {"axis": r.int(-1, len(s))}


def one_hot(at, depth, on, off, axis):
    axis = at.ndim if axis < 0 else axis
    steps = np.arange(int(depth)).reshape([-1 if i == axis else 1 for i in range(at.ndim + 1)])
    mask = np.expand_dims(at.astype(np.int64), axis) == steps
    out = np.empty(mask.shape, on.dtype)
    out[mask], out[~mask] = on, off
    return out


op("ScatterNd", scattered_nd, scatter_nd, types=NUMBERS, sums=3, own_eps=True, zero_sign=False)
op("OneHot", hot, one_hot, raw=True)


# ---- searching ----

def sparse(r):
    s = r.shape(1, 6)
    a = narrow(flush(wide(r.any(s)), r.T), r.T)
    keep = r.rng.random(s) < r.pick([0.1, 0.5, 0.9])
    out = zeros(s, a.dtype)
    out[keep] = a[keep]
    return [out]


def repeated(r):
    n = r.int(0, 60) if r.number % 5 else 3000
    pool = r.any((r.int(1, 20),))
    return [pool[r.rng.integers(0, pool.size, n)]], {"out_idx": Type(r.index_type())}


def unique(x, out_idx):
    """In order of first appearance; NaN is not equal to itself."""
    seen, y, at = {}, [], []
    for i, v in enumerate(x):
        nan = v != v
        key = i if nan is True or (nan is not False and bool(nan)) else v
        if key not in seen:
            seen[key] = len(y)
            y.append(i)
        at.append(seen[key])
    return x[np.asarray(y, int)], np.asarray(at, int)


def lists(r):
    a, b = (r.rng.integers(0, 12, r.int(0, 20)) for _ in range(2))
    return [narrow(a, r.T), narrow(b, r.T)], {"out_idx": Type(r.index_type())}


def difference(a, b, out_idx):
    keep = ~np.isin(a, b)
    return a[keep], np.nonzero(keep)[0]


op("Where", sparse, lambda x: np.argwhere(x != 0), types=FLAT, n=16)
op("Unique", repeated, unique, types=[t for t in FLAT if not is_float(t)] + [STRING])
op("Unique", lambda r: ([narrow(r.rng.integers(-4, 4, r.int(0, 50)), r.T)], {"out_idx": Type(r.index_type())}), unique, types=FLOATS)
op("ListDiff", lists, difference, types=INTS + FLOATS)


def top(r):
    s = r.shape(1, 4, least=1) if r.number % 4 else r.pick([(3000,), (4, 500)])
    x = r.rng.integers(-6 if r.T.kind != "u" else 0, 9, s) if r.chance(0.5) else None
    a = narrow(x, r.T) if x is not None else no_nan(r, s)
    return [a, np.asarray(r.int(0, s[-1]), np.int32)]


def no_nan(r, s):
    """Nor denormals, which would tie with 0."""
    a = r.any(s)
    return narrow(np.nan_to_num(flush(wide(a), r.T), nan=1.5, posinf=np.inf, neginf=-np.inf), r.T) if is_float(r.T) else a


def top_k(x, k):
    low = x if x.dtype.kind == "f" else x.astype(object)
    at = np.argsort(-low, axis=-1, kind="stable")[..., :int(k)]
    return np.take_along_axis(x, at, -1), at


def in_top(with_k):
    def gen(r):
        n, c = r.int(0, 20), r.int(1, 12)
        p = r.rng.integers(0, 6, (n, c)).astype(np.float32)
        if n and r.chance(0.5):
            p[r.int(0, n - 1), r.int(0, c - 1)] = r.pick([np.nan, np.inf, -np.inf])
        targets, k = r.rng.integers(-1, c + 1, n).astype(r.T), r.int(0, c + 1)
        return ([p, targets, np.asarray(k, r.T)], {}) if with_k else ([p, targets], {"k": k})
    return gen


def in_top_k(p, targets, k):
    out = []
    for row, t in zip(p, targets):
        ok = 0 <= t < len(row)
        out.append(bool(ok and np.isfinite(row[t]) and np.all(np.isfinite(row)) and np.sum(row > row[t]) < k))
    return np.asarray(out, bool)


op("TopKV2", top, top_k)
fails("TopKV2", lambda r: [r.finite((2, 3)), np.int32(4)], ("input must have at least k columns. Had 3, needed 4",
      "input must have last dimension >= k = 4 but is 3"))
op("InTopK", in_top(False), in_top_k, n=30)
op("InTopKV2", in_top(True), in_top_k, n=30)


# ---- sorting out ----

def partitioned(r):
    s = r.shape(0, 4)
    n = r.int(1, 5)
    return [r.any(s), r.indices(n, s[:r.int(0, len(s))], np.int32)], {"num_partitions": n}


def partition(x, p, num_partitions):
    return [x[p == i] for i in range(num_partitions)]


def stitched(r):
    tail = r.shape(0, 2)
    at, data = [], []
    for _ in range(r.int(1, 4)):
        at.append(r.indices(12, r.shape(0, 2), np.int32))
        data.append(r.any(at[-1].shape + tail))
    names = np.concatenate([a.ravel() for a in at])
    if names.size:  # every row is named, or it would be unset
        at.append(np.arange(names.max() + 1, dtype=np.int32))
        data.append(r.any(at[-1].shape + tail))
        order = r.rng.permutation(len(at))
        at, data = [at[i] for i in order], [data[i] for i in order]
    return [at, data]


def stitch(at, data):
    tail = data[0].shape[at[0].ndim:]
    n = max([int(a.max()) + 1 for a in at if a.size], default=0)
    out = zeros((n,) + tail, data[0].dtype)
    for a, d in zip(at, data):
        for i, row in zip(a.ravel(), d.reshape((a.size,) + tail)):
            out[i] = row
    return out


op("DynamicPartition", partitioned, partition, raw=True)
op("DynamicStitch", stitched, stitch, raw=True)
fails("DynamicPartition", lambda r: ([r.any((2,)), np.int32([0, 2])], {"num_partitions": 2}), "", types=FLOATS)


# ---- diagonals ----

def matrices(r, square=False):
    return r.shape(2, 5) if r.number % 4 else r.pick([(30, 40), (3, 20, 10), (64, 64)])


def band(r):
    s = matrices(r)
    t = r.index_type()
    return [r.any(s), np.asarray(r.int(-1, s[-2]), t), np.asarray(r.int(-1, s[-1]), t)]


def band_part(x, lower, upper):
    i, j = np.indices(x.shape[-2:])
    keep = ((lower < 0) | (i - j <= lower)) & ((upper < 0) | (j - i <= upper))
    out = zeros(x.shape, x.dtype)
    out[..., keep] = x[..., keep]
    return out


def diag(d):
    out = zeros(d.shape + d.shape[-1:], d.dtype)
    i = np.arange(d.shape[-1])
    out[..., i, i] = d
    return out


def diag_part(x):
    i = np.arange(min(x.shape[-2:]))
    return x[..., i, i]


def set_diag(x, d):
    out = x.copy()
    i = np.arange(d.shape[-1])
    out[..., i, i] = d
    return out


def with_diag(r):
    s = matrices(r)
    return [r.any(s), r.any(s[:-2] + (min(s[-2:]),))]


op("MatrixBandPart", band, band_part, raw=True)
op("MatrixDiag", lambda r: [r.any(r.shape(1, 4))], diag, raw=True)
op("MatrixDiagPart", lambda r: [r.any(matrices(r))], diag_part, raw=True)
op("MatrixSetDiag", with_diag, set_diag, raw=True)


# ---- blocks of space ----

def space_batch(r):
    """(x, block, paddings) for SpaceToBatchND."""
    m = r.int(1, 3)
    block = [r.int(1, 3) for _ in range(m)]
    pads = [[r.int(0, 2), r.int(0, 2)] for _ in range(m)]
    dims = []
    for b, (p, q) in zip(block, pads):
        d = r.int(1, 4) * b - p - q
        while d < 1:
            d += b
        dims.append(d)
    s = (r.int(1, 3),) + tuple(dims) + r.shape(0, 2, least=1, most=3)
    return s, np.asarray(block), np.asarray(pads)


def space_to_batch(x, block, pads):
    m, n = len(block), x.shape[0]
    rest = x.shape[1 + m:]
    full = zeros((n,) + tuple(d + int(a) + int(b) for d, (a, b) in zip(x.shape[1:], pads)) + rest, x.dtype)
    full[(slice(None),) + tuple(slice(int(a), int(a) + d) for d, (a, b) in zip(x.shape[1:], pads))] = x
    split = [n]
    for d, b in zip(full.shape[1:], block):
        split += [d // int(b), int(b)]
    y = full.reshape(split + list(rest))
    order = [2 * i + 2 for i in range(m)] + [0] + [2 * i + 1 for i in range(m)] + list(range(2 * m + 1, y.ndim))
    y = y.transpose(order)
    return y.reshape((n * int(np.prod(block)),) + tuple(d // int(b) for d, b in zip(full.shape[1:], block)) + rest)


def batch_to_space(x, block, crops):
    m, k = len(block), int(np.prod(block))
    n, rest = x.shape[0] // k, x.shape[1 + m:]
    y = x.reshape([int(b) for b in block] + [n] + list(x.shape[1:]))
    order = [m]
    for i in range(m):
        order += [m + 1 + i, i]
    y = y.transpose(order + list(range(2 * m + 1, y.ndim)))
    y = y.reshape((n,) + tuple(d * int(b) for d, b in zip(x.shape[1:], block)) + rest)
    return y[(slice(None),) + tuple(slice(int(a), d - int(b)) for d, (a, b) in zip(y.shape[1:], crops))]


def to_batch_case(r):
    s, block, pads = space_batch(r)
    return [r.any(s), block.astype(r.index_type()), pads.astype(r.index_type())]


def to_space_case(r):
    s, block, pads = space_batch(r)
    shape = space_to_batch(np.zeros(s), block, pads).shape
    return [r.any(shape), block.astype(r.index_type()), pads.astype(r.index_type())]


def depth_case(to_depth):
    def gen(r):
        b, n, h, w, c = r.int(2, 3), r.int(0, 2), r.int(1, 4), r.int(1, 4), r.int(1, 3)
        s = (n, h * b, w * b, c) if to_depth else (n, h, w, c * b * b)
        f = r.pick(["NHWC", "NCHW"])
        s = s if f == "NHWC" else (s[0], s[3], s[1], s[2])
        return [r.any(s)], {"block_size": b, "data_format": f}
    return gen


def layout(f):
    """f of NHWC arrays, for either data_format."""
    def oracle(x, data_format, **how):
        if data_format == "NHWC":
            return f(x, **how)
        return f(x.transpose(0, 2, 3, 1), **how).transpose(0, 3, 1, 2)
    return oracle


def space_to_depth(x, block_size):
    n, h, w, c = x.shape
    b = block_size
    y = x.reshape(n, h // b, b, w // b, b, c).transpose(0, 1, 3, 2, 4, 5)
    return y.reshape(n, h // b, w // b, b * b * c)


def depth_to_space(x, block_size):
    n, h, w, c = x.shape
    b = block_size
    y = x.reshape(n, h, w, b, b, c // (b * b)).transpose(0, 1, 3, 2, 4, 5)
    return y.reshape(n, h * b, w * b, c // (b * b))


MOVED = NUMBERS + [BOOL, STRING]
op("SpaceToBatchND", to_batch_case, space_to_batch, raw=True, types=MOVED)
op("BatchToSpaceND", to_space_case, batch_to_space, raw=True, types=MOVED)
op("SpaceToDepth", depth_case(True), layout(space_to_depth), raw=True, types=MOVED)
op("DepthToSpace", depth_case(False), layout(depth_to_space), raw=True, types=MOVED)
