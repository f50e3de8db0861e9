"""tests/oracle/arrays.py -- ops that move elements without computing, in every type, and ops on shapes."""
import numpy as np

from graph import STRING, Type
from table import fails, op
from values import BOOL, FLOATS, INTS, NUMBERS, is_float, narrow

INT32 = np.dtype(np.int32)


def zeros(shape, t):
    return np.full(shape, b"", STRING) if t == STRING else np.zeros(shape, t)


def filled(shape, v):
    out = np.empty(shape, v.dtype)
    out[...] = v
    return out


def vector(r, items):
    return np.asarray(items, r.index_type()).reshape(-1)


# ---- the same values ----

def one(r):
    return [r.any(r.shape())]


def same(x, **_):
    return x


for name in ("Identity", "StopGradient"):
    op(name, one, same, raw=True, n=4)
op("PreventGradient", lambda r: (one(r), {"message": "no"}), same, raw=True, n=4)
op("IdentityN", lambda r: ([[r.any(r.shape()), r.any(r.shape(), BOOL)]], {"T": [Type(r.T), Type(BOOL)]}), lambda xs, T: xs,
   types=NUMBERS + [STRING], raw=True, n=4)
op("EnsureShape", lambda r: (lambda x: ([x], {"shape": tuple(-1 if r.chance(.5) else d for d in x.shape)}))(r.any(r.shape())),
   same, raw=True, n=4)
op("CheckNumerics", lambda r: ([r.finite(r.long_shape())], {"message": "m"}), same, raw=True)
fails("CheckNumerics", lambda r: ([narrow(np.asarray([1, np.nan]), r.T)], {"message": "m"}), "m : Tensor had NaN values")
fails("CheckNumerics", lambda r: ([narrow(np.asarray([1, np.inf]), r.T)], {"message": "m"}), "m : Tensor had Inf values")
op("ZerosLike", one, lambda x: zeros(x.shape, x.dtype), raw=True, n=4)
op("OnesLike", one, lambda x: narrow(np.ones(x.shape), x.dtype), raw=True, n=4)


def defaulted(r):
    x = r.any(r.shape())
    return [x], {"shape": x.shape if r.chance(0.5) else None}


op("PlaceholderWithDefault", defaulted, same, raw=True, n=4)


def build_const(g, xs, attrs):
    return [g.op("Const", [], dtype=Type(attrs["value"].dtype), **attrs)]


op("Const", lambda r: ([], {"value": r.any(r.shape())}), lambda value: value, raw=True, n=6, build=build_const,
   types=NUMBERS + [BOOL, STRING])
for name in ("Placeholder", "PlaceholderV2"):
    op(name, one, same, raw=True, n=4, types=NUMBERS + [BOOL, STRING],
       build=lambda g, xs, attrs: [g.op("Identity", xs)])  # what is fed is a Placeholder half of the time


# ---- shapes ----

def out_type(r):
    return {"out_type": Type(r.index_type())}


op("Shape", lambda r: (one(r), out_type(r)), lambda x, out_type: np.asarray(x.shape, int), types=NUMBERS + [BOOL, STRING], n=6)
op("ShapeN", lambda r: ([[r.any(r.shape()) for _ in range(r.int(1, 4))]], out_type(r)),
   lambda xs, out_type: [np.asarray(x.shape, int) for x in xs], types=NUMBERS + [BOOL, STRING], n=6)
op("Size", lambda r: (one(r), out_type(r)), lambda x, out_type: np.asarray(x.size), types=NUMBERS + [BOOL, STRING], n=6)
op("Rank", one, lambda x: np.asarray(x.ndim), types=NUMBERS + [BOOL, STRING], n=6)


def reshaped(r):
    x = r.any(r.shape())
    rest, dims = x.size, []
    while rest > 1 and r.chance(0.8):
        d = r.pick([d for d in range(1, rest + 1) if rest % d == 0][:12])
        dims.append(d)
        rest //= d
    if x.size == 0:
        return [x, vector(r, [r.int(1, 4), 0, r.int(1, 3)])]
    dims.append(rest)
    if r.chance(0.5):
        dims[r.int(0, len(dims) - 1)] = -1
    return [x, vector(r, dims if x.size != 1 or r.chance(0.5) else [])]


def squeezed(r):
    s = [1 if r.chance(0.5) else d for d in r.shape()]
    ones = [i for i, d in enumerate(s) if d == 1]
    dims = [i - len(s) if r.chance(0.3) else i for i in ones if r.chance(0.5)]
    return [r.any(tuple(s))], ({"squeeze_dims": dims} if dims else {})


def squeeze(x, squeeze_dims=None):
    return np.squeeze(x, tuple(squeeze_dims) if squeeze_dims else None)


def expanded(r):
    s = r.shape(0, 5)
    return [r.any(s), np.asarray(r.int(-len(s) - 1, len(s)), r.index_type())]


op("Reshape", reshaped, lambda x, s: x.reshape([int(d) for d in s]), raw=True)
fails("Reshape", lambda r: [r.any((2, 3)), vector(r, [4, 2])], ("Input to reshape is a tensor with 6 values, but the requested "
      "shape has 8", "Cannot reshape a tensor with 6 elements to shape [4,2] (8 elements)"), types=FLOATS)
fails("Reshape", lambda r: [r.any((2, 3)), vector(r, [-1, 4])], ("requires a multiple of 4",
      "Dimension size must be evenly divisible by 4 but is 6"), types=FLOATS)
op("Squeeze", squeezed, squeeze, raw=True)
op("ExpandDims", expanded, lambda x, d: np.expand_dims(x, int(d)), raw=True)


def permutation(r):
    s = r.shape() if r.number % 4 else r.pick([(300, 200), (50, 40, 30), (3, 64, 64, 2), (2, 31, 17, 5, 3)])
    return [r.any(s), vector(r, r.rng.permutation(len(s)))]


op("Transpose", permutation, lambda x, p: x.transpose(p), raw=True)
op("ConjugateTranspose", permutation, lambda x, p: np.conj(x.transpose(p)) if x.dtype.kind == "c" else x.transpose(p), raw=True)
op("InvertPermutation", lambda r: [r.rng.permutation(r.int(0, 50)).astype(r.T)], np.argsort)
fails("InvertPermutation", lambda r: [np.asarray([0, 1, 1], r.T)], "")
fails("InvertPermutation", lambda r: [np.asarray([0, 3, 1], r.T)], "")


# ---- joining and splitting ----

def pieces(r):
    s = list(r.shape(1, 5))
    axis = r.axis(len(s))
    parts = []
    for _ in range(r.int(2, 5)):
        s[axis] = r.int(0, 4) if r.chance(0.9) else r.int(5, 90)
        parts.append(r.any(tuple(s)))
    return parts, axis


def concat_v1(r):
    parts, axis = pieces(r)
    return [np.asarray(axis % parts[0].ndim, np.int32), parts]


def concat_v2(r):
    parts, axis = pieces(r)
    return [parts, np.asarray(axis, r.index_type())]


def offsets(r):
    parts, axis = pieces(r)
    return [np.asarray(axis % parts[0].ndim, np.int32), [np.asarray(p.shape, np.int32) for p in parts]]


def concat_offset(axis, shapes):
    out, at = [], 0
    for s in shapes:
        out.append(np.where(np.arange(len(s)) == axis, at, 0))
        at += s[int(axis)]
    return out


op("Concat", concat_v1, lambda axis, xs: np.concatenate(xs, int(axis)), raw=True)
op("ConcatV2", concat_v2, lambda xs, axis: np.concatenate(xs, int(axis)), raw=True)
op("ConcatOffset", offsets, concat_offset, n=20)


def split_even(r):
    s = list(r.shape(1, 5))
    axis, n = r.axis(len(s)), r.int(1, 5)
    s[axis] = n * r.int(0, 3)
    return [np.asarray(axis, np.int32), r.any(tuple(s))], {"num_split": n}


def split_sizes(r):
    s = list(r.shape(1, 5))
    axis = r.axis(len(s))
    sizes = [r.int(0, 4) for _ in range(r.int(1, 5))]
    s[axis] = sum(sizes)
    if r.chance(0.4):
        sizes[r.int(0, len(sizes) - 1)] = -1
    return [r.any(tuple(s)), vector(r, sizes), np.asarray(axis, np.int32)], {"num_split": len(sizes)}


def split_v(x, sizes, axis, num_split):
    sizes = [x.shape[int(axis)] - sum(s for s in sizes if s >= 0) if s < 0 else int(s) for s in sizes]
    return np.split(x, np.cumsum(sizes)[:-1], int(axis))


op("Split", split_even, lambda axis, x, num_split: np.split(x, num_split, int(axis)), raw=True)
op("SplitV", split_sizes, split_v, raw=True)


def packed(r):
    s = r.shape(0, 5)
    n = r.int(1, 5)
    return [[r.any(s) for _ in range(n)]], {"axis": r.int(-len(s) - 1, len(s))}


def unpacked(r):
    s = r.shape(1, 6)
    axis = r.axis(len(s))
    s = s[:axis % len(s)] + (r.int(1, 5),) + s[axis % len(s) + 1:]
    return [r.any(s)], {"axis": axis, "num": s[axis]}


op("Pack", packed, lambda xs, axis: np.stack(xs, axis), raw=True)
op("Unpack", unpacked, lambda x, axis, num: [np.take(x, i, axis) for i in range(num)], raw=True)


# ---- repeating, padding, filling ----

def tiled(r):
    s = r.shape(0, 5)
    return [r.any(s), vector(r, [r.int(0, 3) if r.chance(0.9) else r.int(1, 20) for _ in s])]


def paddings(r, s, most=3):
    return np.asarray([[r.int(0, most), r.int(0, most)] for _ in s], r.index_type()).reshape(-1, 2)


def padded(r):
    s = r.shape(0, 6)
    return [r.any(s), paddings(r, s)]


def pad(x, p, v=None):
    out = zeros([d + int(a) + int(b) for d, (a, b) in zip(x.shape, p)], x.dtype) if v is None else filled(
        [d + int(a) + int(b) for d, (a, b) in zip(x.shape, p)], v)
    out[tuple(slice(int(a), int(a) + d) for d, (a, b) in zip(x.shape, p))] = x
    return out


def mirrored(r, least=1):
    mode = r.pick(["REFLECT", "SYMMETRIC"])
    s = r.shape(1, 5, least=1)
    most = [d - (mode == "REFLECT") for d in s]
    p = np.asarray([[r.int(0, min(m, 4)), r.int(0, min(m, 4))] for m in most], r.index_type()).reshape(-1, 2)
    return [r.any(s), p], {"mode": mode}


def mirror_places(n, a, b, mode):
    """For each element of a padded dimension, the one it repeats."""
    p = np.pad(np.arange(n), (int(a), int(b)), "reflect" if mode == "REFLECT" else "symmetric")
    return p


def mirror_pad(x, p, mode):
    for axis, (a, b) in enumerate(p):
        x = np.take(x, mirror_places(x.shape[axis], a, b, mode), axis)
    return x


def mirror_grad_case(r):
    (x, p), attrs = mirrored(r)
    return [r.finite(mirror_pad(x, p, attrs["mode"]).shape), p], attrs


def mirror_pad_grad(g, p, mode):
    for axis, (a, b) in enumerate(p):
        n = g.shape[axis] - int(a) - int(b)
        out = np.zeros(g.shape[:axis] + (n,) + g.shape[axis + 1:], g.dtype)
        np.add.at(np.moveaxis(out, axis, 0), mirror_places(n, a, b, mode), np.moveaxis(g, axis, 0))
        g = out
    return g


def broadcast_case(r):
    full = r.shape()
    s = [1 if r.chance(0.4) else d for d in full][r.int(0, len(full)) if r.chance(0.4) else 0:]
    return [r.any(tuple(s)), vector(r, full)]


op("Tile", tiled, lambda x, m: np.tile(x, [int(v) for v in m]) if len(m) else x, raw=True)
op("Pad", padded, pad, raw=True)
op("PadV2", lambda r: padded(r) + [r.any(())], pad, raw=True)
op("MirrorPad", mirrored, mirror_pad, raw=True)
op("MirrorPadGrad", mirror_grad_case, mirror_pad_grad, types=NUMBERS, sums=4, own_eps=True, zero_sign=False)
op("Fill", lambda r: [vector(r, r.shape()), r.any(())], lambda d, v: filled([int(n) for n in d], v), raw=True)
op("BroadcastTo", broadcast_case, lambda x, s: np.broadcast_to(x, [int(d) for d in s]), raw=True)


def two_shapes(r):
    return [np.asarray(s, r.T) for s in r.broadcast(2)]


def gradient_axes(a, b):
    n = max(len(a), len(b))
    if list(a) == list(b):
        return [], []
    a, b = (np.concatenate([np.ones(n - len(s), int), s]) for s in (a, b))
    return [np.nonzero((x == 1))[0] for x in (a, b)]


def spread(r):
    """Range: of few elements, from either side, in steps that divide or not."""
    if is_float(r.T):
        start, delta = r.rng.integers(-8, 8) / 4, r.pick([0.25, 0.5, 1.0, -0.25, -1.5])
        n = r.int(0, 40)
        return [narrow(np.asarray(v), r.T) for v in (start, start + n * delta - (delta / 8 if n and r.chance(0.5) else 0), delta)]
    n = r.int(0, 40)
    low = r.T.kind == "u"
    delta = r.int(1, 3) * (1 if low else r.pick([1, -1]))
    start = r.int(0 if low else -5, 5)
    return [np.asarray(v, r.T) for v in (start, start + n * delta - (r.chance(0.5) and abs(delta) > 1 and n > 0), delta)]


def arange(start, limit, delta):
    if start.dtype.kind == "f":
        n = int(np.ceil(abs((limit - start) / delta)))
        return start + np.arange(n) * delta
    return np.arange(int(start), int(limit), int(delta)).astype(start.dtype)


def lines(r):
    n = r.int(1, 40)
    return [r.finite(()), r.finite(()), np.asarray(n, r.index_type())]


op("BroadcastArgs", two_shapes, lambda a, b: np.asarray(np.broadcast_shapes(tuple(a), tuple(b)), int), n=40)
op("BroadcastGradientArgs", two_shapes, gradient_axes, n=60)
op("Range", spread, arange)
op("LinSpace", lines, lambda a, b, n: np.linspace(a, b, int(n)), sums=4, zero_sign=False,
   scale=lambda a, b, n: np.full(int(n), abs(a) + abs(b)))
fails("Range", lambda r: [np.asarray(v, r.T) for v in (0, 3, 0)], "", types=INTS)
fails("Range", lambda r: [np.asarray(v, r.T) for v in (3, 0, 1)], "", types=INTS)


# ---- parts ----

def reversed_case(r):
    s = r.shape(0, 6)
    axes = [a - len(s) if r.chance(0.4) else a for a in r.rng.permutation(len(s))[:r.int(0, len(s))]]
    return [r.any(s), vector(r, axes)]


def sliced(r):
    s = r.shape(0, 6)
    begin = [r.int(0, d) for d in s]
    size = [-1 if r.chance(0.3) else r.int(0, d - b) for b, d in zip(begin, s)]
    t = r.index_type()
    return [r.any(s), np.asarray(begin, t), np.asarray(size, t)]


def slice_of(x, begin, size):
    return x[(Ellipsis,) + tuple(slice(int(b), None if n < 0 else int(b + n)) for b, n in zip(begin, size))]


op("ReverseV2", reversed_case, lambda x, axes: np.flip(x, tuple(int(a) for a in axes)) if axes.size else x, raw=True)
fails("ReverseV2", lambda r: [r.any((2, 2)), vector(r, [0, -2])], "", types=FLOATS)
op("Slice", sliced, slice_of, raw=True)


def strided(r):
    """A random index expression: numbers, slices either way, new axes, an ellipsis."""
    shape = r.shape(1, 6) if r.number % 5 else r.pick([(300, 90), (40, 50, 60), (5000,)])
    n = r.int(1, len(shape))
    masks = dict(begin_mask=0, end_mask=0, shrink_axis_mask=0, new_axis_mask=0, ellipsis_mask=0)
    begin, end, strides = [], [], []
    ellipsis_at = r.int(0, n) if r.chance(0.4) else -1
    dims = list(shape[:n]) if ellipsis_at < 0 else list(shape[:ellipsis_at]) + [None] + list(
        shape[len(shape) - (n - ellipsis_at):])
    for d in dims:
        if r.chance(0.15):
            masks["new_axis_mask"] |= 1 << len(begin)
            begin.append(r.int(-3, 3)), end.append(r.int(-3, 3)), strides.append(1)
        bit = 1 << len(begin)
        if d is None:
            masks["ellipsis_mask"] |= bit
            begin.append(0), end.append(0), strides.append(1)
            continue
        b, e, s = r.int(-d - 2, d + 1), r.int(-d - 2, d + 2), r.pick([-3, -2, -1, 1, 1, 1, 2, 3])
        if d and r.chance(0.2):
            masks["shrink_axis_mask"] |= bit
            b, s = r.int(-d, d - 1), 1
        else:
            masks["begin_mask"] |= bit if r.chance(0.3) else 0
            masks["end_mask"] |= bit if r.chance(0.3) else 0
        begin.append(b), end.append(e), strides.append(s)
    t = r.index_type()
    return shape, [np.asarray(v, t) for v in (begin, end, strides)], masks


def index_of(begin, end, strides, begin_mask, end_mask, shrink_axis_mask, new_axis_mask, ellipsis_mask):
    out = []
    for i, (b, e, s) in enumerate(zip(begin, end, strides)):
        bit = 1 << i
        if ellipsis_mask & bit:
            out.append(Ellipsis)
        elif new_axis_mask & bit:
            out.append(None)
        elif shrink_axis_mask & bit:
            out.append(int(b))
        else:
            out.append(slice(None if begin_mask & bit else int(b), None if end_mask & bit else int(e), int(s)))
    return tuple(out)


def strided_slice(x, begin, end, strides, **masks):
    return x[index_of(begin, end, strides, **masks)]


def strided_case(r):
    shape, at, masks = strided(r)
    return [r.any(shape)] + at, masks


def strided_grad_case(r):
    shape, at, masks = strided(r)
    dy = r.any(np.empty(shape)[index_of(*at, **masks)].shape)
    return [np.asarray(shape, at[0].dtype)] + at + [dy], masks


def strided_slice_grad(shape, begin, end, strides, dy, **masks):
    out = zeros([int(d) for d in shape], dy.dtype)
    out[index_of(begin, end, strides, **masks)] = dy
    return out


op("StridedSlice", strided_case, strided_slice, raw=True, n=40)
op("StridedSliceGrad", strided_grad_case, strided_slice_grad, raw=True, types=NUMBERS + [BOOL], n=20)
