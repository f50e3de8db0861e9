"""tests/oracle/reductions.py -- sums, products, extremes and their places over axes; scans; segments."""
import numpy as np

from graph import Type
from table import fails, op
from values import BOOL, FLOATS, INTS, NUMBERS, QTYPES, is_complex, is_float, is_int, narrow

ORDERED = FLOATS + INTS + QTYPES


def axes_of(r, rank):
    """Any subset, each counted from either end; a single one may be a scalar."""
    axes = r.rng.permutation(rank)[:r.int(0, rank)]
    axes = np.where(r.rng.random(axes.shape) < 0.4, axes - rank, axes).astype(r.index_type())
    return axes[0] if axes.size == 1 and r.chance(0.5) else axes


def shape_of(r):
    """Small ones of any rank, and now and then a long one of each layout."""
    if r.number % 4 == 3:
        return r.pick([(3000, 7), (7, 3000), (20, 30, 40), (1, 5000), (5000, 1), (3, 1000, 5), (2, 3, 2, 500), (70000,)])
    return r.shape(0, 6)


def reduction(values):
    def gen(r):
        s = shape_of(r)
        return [values(r, s), axes_of(r, len(s))], {"keep_dims": r.chance(0.5)}
    return gen


def ordinary(r, s):
    return r.any(s) if is_int(r.T) or r.T in QTYPES else r.some_special(s)


def near_one(r, s):
    """Products of which stay in range."""
    if is_int(r.T) or r.T in QTYPES:
        return r.any(s)
    n = max(1, int(np.prod(s, dtype=int)))
    a = np.exp(r.rng.uniform(-1, 1, s) * min(1, 8 / n ** 0.5)) * r.rng.choice([-1, 1], s)
    return narrow(a * np.exp(1j * r.rng.uniform(0, 6, s)) if is_complex(r.T) else a, r.T)


def over(axes, x):
    return tuple(int(a) for a in np.atleast_1d(axes) % max(x.ndim, 1))


def total(x, axes, keep_dims):
    return np.sum(x, axis=over(axes, x), keepdims=keep_dims, dtype=x.dtype)


def product(x, axes, keep_dims):
    return np.prod(x, axis=over(axes, x), keepdims=keep_dims, dtype=x.dtype)


def mean(x, axes, keep_dims):
    if x.dtype.kind not in "iu":
        return np.mean(x, axis=over(axes, x), keepdims=keep_dims)
    s = np.sum(x, axis=over(axes, x), keepdims=keep_dims, dtype=np.int64 if x.dtype.kind == "i" else np.uint64)
    n = np.asarray(max(1, x.size // s.size if s.size else 1), s.dtype)
    q = s // n
    return (q + ((s < 0) & (s % n != 0)).astype(s.dtype)).astype(x.dtype)  # toward zero


def extreme(f, empty):
    def oracle(x, axes, keep_dims):
        worst = empty * np.inf if x.dtype.kind == "f" else getattr(np.iinfo(x.dtype), "min" if empty < 0 else "max")
        return f(x, axis=over(axes, x), keepdims=keep_dims, initial=worst)
    return oracle


def products_scale(x, axes, keep_dims):
    n = np.sum(np.ones(x.shape), axis=over(axes, x), keepdims=keep_dims)
    return np.abs(product(x, axes, keep_dims)) * n


op("Sum", reduction(ordinary), total, types=NUMBERS + QTYPES, sums=2, zero_sign=False, n=24)
op("Mean", reduction(ordinary), mean, types=NUMBERS + QTYPES, sums=2, zero_sign=False, n=24)
op("Prod", reduction(near_one), product, types=NUMBERS + QTYPES, sums=2, scale=products_scale, zero_sign=False, n=24)
op("Max", reduction(lambda r, s: r.any(s)), extreme(np.max, -1), types=ORDERED, zero_sign=False, n=24)
op("Min", reduction(lambda r, s: r.any(s)), extreme(np.min, 1), types=ORDERED, zero_sign=False, n=24)
for name, f in (("All", np.all), ("Any", np.any)):
    op(name, reduction(lambda r, s: r.rng.random(s) < r.pick([0.1, 0.5, 0.9]) if s else r.any(s)),
       lambda x, axes, keep_dims, f=f: f(x, axis=over(axes, x), keepdims=keep_dims), types=[BOOL], n=40)


def bad_axis(r):
    s = r.shape(0, 3)
    return [r.finite(s), np.asarray([r.pick([len(s), -len(s) - 1, 99])], r.index_type())]


for name in ("Sum", "Mean", "Prod", "Max", "Min"):
    fails(name, bad_axis, "", types=FLOATS[2:])


# ---- places of extremes ----

def with_ties(r):
    s = list(r.shape(1, 5, least=1) if r.chance(0.8) else r.pick([(3000, 3), (3, 3000), (2, 500, 3)]))
    axis = r.axis(len(s))
    x = r.rng.integers(0, 2 if r.T == BOOL else 5, s)
    a = narrow(x, r.T)
    if is_float(r.T) and r.chance(0.4):
        a = narrow(np.where(r.rng.random(s) < 0.3, np.nan, x), r.T)
    out = r.pick([np.int32, np.int64])
    return [a, np.asarray(axis, r.index_type())], {"output_type": Type(out)}


def place(f, never):
    def oracle(x, axis, output_type):
        if x.dtype.kind == "f":
            x = np.where(np.isnan(x), never, x)
        return f(x, axis=int(axis))
    return oracle


def empty_axis(r):
    return [r.finite((3, 0)), np.asarray(1, r.index_type())]


op("ArgMax", with_ties, place(np.argmax, -np.inf), types=ORDERED + [BOOL])
op("ArgMin", with_ties, place(np.argmin, np.inf), types=ORDERED + [BOOL])
for name in ("ArgMax", "ArgMin"):
    fails(name, empty_axis, "Reduction axis 1 is empty in shape [3,0]", types=FLOATS[2:])


# ---- scans ----

def scanned(values):
    def gen(r):
        s = r.shape(1, 5) if r.number % 5 else r.pick([(5000,), (700, 9), (9, 700), (4, 300, 5)])
        return [values(r, s), np.asarray(r.axis(len(s)), r.index_type())], {"exclusive": r.chance(0.5), "reverse": r.chance(0.5)}
    return gen


def scan(f, first):
    def oracle(x, axis, exclusive, reverse):
        axis = int(axis) % x.ndim
        x = np.flip(x, axis) if reverse else x
        y = f(x, axis=axis, dtype=x.dtype)
        if exclusive and x.shape[axis]:
            y = np.concatenate([np.full_like(np.take(y, [0], axis), first), np.delete(y, -1, axis)], axis)
        return np.flip(y, axis) if reverse else y
    return oracle


def scan_scale(x, axis, **how):
    """Products: the longer, the more roundings."""
    return np.abs(scan(np.cumprod, 1)(x, axis, **how)) * x.shape[int(axis)]


op("Cumsum", scanned(ordinary), scan(np.cumsum, 0), types=NUMBERS + QTYPES, sums=2, zero_sign=False, n=20,
   scale=lambda x, axis, **how: np.sum(np.where(np.isfinite(x), np.abs(x), 0), axis=int(axis), keepdims=True))
op("Cumprod", scanned(near_one), scan(np.cumprod, 1), types=NUMBERS + QTYPES, sums=2, scale=scan_scale, zero_sign=False, n=20)


# ---- segments ----

def segments(r):
    """Negative ids drop their rows."""
    s = r.shape(0, 4)
    n = r.int(1, 9)
    ids = r.rng.integers(-2 if r.chance(0.5) else 0, n, s[:r.int(0, len(s))]).astype(r.index_type())
    return [ordinary(r, s), ids, np.asarray(n, r.index_type())]


def segment_sum(x, ids, n):
    out = np.zeros((int(n),) + x.shape[ids.ndim:], x.dtype)
    ok = ids >= 0
    np.add.at(out, ids[ok], x[ok])
    return out


def out_of_segments(r):
    return [r.finite((3, 2)), np.asarray([0, 5, 1], r.index_type()), np.asarray(5, np.int32)]


op("UnsortedSegmentSum", segments, segment_sum, types=NUMBERS + QTYPES, sums=2, zero_sign=False)
fails("UnsortedSegmentSum", out_of_segments, "5 is out of range [0, 5)", types=FLOATS)
op("L2Loss", lambda r: [r.some_special(shape_of(r))], lambda x: np.asarray(np.sum(x * x) / 2), sums=4)
op("BiasAddGrad", lambda r: ([r.finite(r.shape(2, 5, least=1))], {"data_format": r.pick(["NHWC", "NCHW"])}),
   lambda x, data_format: np.sum(x, axis=tuple(i for i in range(x.ndim) if i != (x.ndim - 1 if data_format == "NHWC" else 1)),
                                 dtype=x.dtype), types=NUMBERS + QTYPES, sums=2, zero_sign=False, n=20)
