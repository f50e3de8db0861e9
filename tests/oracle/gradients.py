"""tests/oracle/gradients.py -- our symbolic gradients against PyTorch's automatic ones: of each op alone, of random programs
made of many ops, of loops around such programs, and of gradients themselves.

A maker adds one op to a program, to our graph and to torch's alike; it takes its inputs from what the program has so far or
makes new ones.  MAKERS is the table: one line an op.
"""
import numpy as np
import torch
import torch.nn.functional as F

from graph import Failure, Graph, Output, Type
from table import SEED, covers

MAKERS = {}


class Pair:
    """One value of both worlds."""

    def __init__(self, out, t):
        self.out, self.t, self.shape = out, t, tuple(t.shape)


class Program:
    def __init__(self, seed, g, dtype=torch.float64):
        self.rng, self.g, self.dtype = np.random.default_rng(seed), g, dtype
        self.numpy = {torch.float64: np.float64, torch.complex128: np.complex128}[dtype]
        self.inputs, self.pool, self.feeds, self.said = [], [], {}, []

    def int(self, lo, hi):
        return int(self.rng.integers(lo, hi, endpoint=True))

    def chance(self, p):
        return bool(self.rng.random() < p)

    def values(self, shape):
        a = self.rng.standard_normal(shape)
        return np.asarray(a + 1j * self.rng.standard_normal(shape) if self.numpy == np.complex128 else a, self.numpy)

    def new(self, shape):
        """An input: fed, its shape known to the graph or not."""
        a = self.values(shape)
        p = Pair(self.g.feed(self.numpy, tuple(shape) if self.chance(0.5) else None), torch.from_numpy(a.copy()).requires_grad_())
        self.feeds[p.out] = a
        self.inputs.append(p)
        self.pool.append(p)
        return p

    def const(self, a):
        a = np.asarray(a)
        return Pair(self.g.const(a), torch.from_numpy(np.array(a)))

    def shape(self, lo=0, hi=4):
        return tuple(self.int(1, 4) for _ in range(self.int(lo, hi)))

    def any(self, lo=0, hi=4):
        """Of this rank: an earlier value, mostly the latest, or a new input."""
        fits = [p for p in self.pool if lo <= len(p.shape) <= hi and p.t.numel() <= 4000]
        if fits and self.chance(0.85):
            return fits[-1] if self.chance(0.5) else fits[self.int(0, len(fits) - 1)]
        return self.new(self.shape(lo, hi))

    def of_shape(self, shape):
        fits = [p for p in self.pool if p.shape == tuple(shape)]
        return fits[self.int(0, len(fits) - 1)] if fits and self.chance(0.6) else self.new(shape)

    def beside(self, p):
        """A value that broadcasts with p."""
        fits = [q for q in self.pool if broadcasts(p.shape, q.shape)]
        if fits and self.chance(0.7):
            return fits[self.int(0, len(fits) - 1)]
        s = [1 if self.chance(0.3) else d for d in p.shape]
        return self.new(tuple(s[self.int(0, len(s)):] if self.chance(0.3) else s))

    def op(self, name, inputs, f, **attrs):
        """f is given the tensors of the pairs among the inputs; lists stay lists."""
        self.said.append(name)
        outs = [[p.out for p in i] if isinstance(i, list) else i.out if isinstance(i, Pair) else i for i in inputs]
        ts = [[p.t for p in i] if isinstance(i, list) else i.t for i in inputs if isinstance(i, (Pair, list))]
        return Pair(self.g.op(name, outs, **attrs), f(*ts))

    def small(self, p):
        """Keeps values near 1, or a long program leaves the range where digits can be compared."""
        if p.t.numel() and float(p.t.detach().abs().max()) > 8:
            return self.op("Tanh" if self.dtype == torch.float64 else "Mul", [p] + (
                [] if self.dtype == torch.float64 else [self.const(self.numpy(1 / 16))]),
                torch.tanh if self.dtype == torch.float64 else torch.mul)
        return p

    def add(self, maker):
        out = maker(self)
        for p in out if isinstance(out, list) else [out]:
            self.pool.append(self.small(p))


def broadcasts(a, b):
    return all(x == y or x == 1 or y == 1 for x, y in zip(a[::-1], b[::-1]))


def maker(name):
    def keep(f):
        MAKERS[name] = f
        return f
    return keep


# ---- one input ----

def positive(b, p):
    """p * p + 0.5, by ops."""
    return b.op("Add", [b.op("Square", [p], torch.square), b.const(np.float64(0.5))], torch.add)


UNARY = {"Neg": torch.neg, "Abs": torch.abs, "Square": torch.square, "Exp": torch.exp, "Expm1": torch.expm1, "Sin": torch.sin,
         "Cos": torch.cos, "Tanh": torch.tanh, "Sigmoid": torch.sigmoid, "Atan": torch.atan, "Erf": torch.erf,
         "Softplus": F.softplus, "Softsign": F.softsign, "Elu": F.elu, "Selu": F.selu, "Relu": F.relu, "Relu6": F.relu6,
         "LeakyRelu": lambda t: F.leaky_relu(t, float(np.float32(0.2))), "Identity": lambda t: t * 1, "Sign": torch.sign,
         "CheckNumerics": lambda t: t * 1, "L2Loss": lambda t: (t * t).sum() / 2}
OF_POSITIVE = {"Sqrt": torch.sqrt, "Rsqrt": torch.rsqrt, "Reciprocal": torch.reciprocal, "Inv": torch.reciprocal, "Log": torch.log,
               "Log1p": torch.log1p}
for n, f in UNARY.items():
    MAKERS[n] = lambda b, n=n, f=f: b.op(n, [b.any()], f, **({"message": "m"} if n == "CheckNumerics" else {}))
for n, f in OF_POSITIVE.items():
    MAKERS[n] = lambda b, n=n, f=f: b.op(n, [positive(b, b.any())], f)


@maker("Tan")
def tan(b):
    return b.op("Tan", [b.op("Tanh", [b.any()], torch.tanh)], torch.tan)


# ---- two and more ----

def untied(b, p):
    """Plus numbers that no other value has: at a tie torch shares gradients otherwise."""
    return b.op("Add", [p, b.const(b.values(p.shape))], torch.add)


def two(b):
    p = b.any()
    return p, b.beside(p)


BINARY = {"Add": torch.add, "AddV2": torch.add, "Sub": torch.sub, "Mul": torch.mul,
          "SquaredDifference": lambda x, y: (x - y) ** 2}
for n, f in BINARY.items():
    MAKERS[n] = lambda b, n=n, f=f: b.op(n, list(two(b)), f)
for n in ("Div", "RealDiv", "DivNoNan", "Xdivy"):
    MAKERS[n] = lambda b, n=n: (lambda x, y: b.op(n, [x, positive(b, y)], torch.div))(*two(b))
for n, f in (("Maximum", torch.maximum), ("Minimum", torch.minimum)):
    MAKERS[n] = lambda b, n=n, f=f: (lambda x, y: b.op(n, [untied(b, x), y], f))(*two(b))
MAKERS["Xlogy"] = lambda b: (lambda x, y: b.op("Xlogy", [x, positive(b, y)], torch.xlogy))(*two(b))
MAKERS["Pow"] = lambda b: (lambda x, y: b.op("Pow", [positive(b, x), b.op("Tanh", [y], torch.tanh)], torch.pow))(*two(b))


@maker("AddN")
def add_n(b):
    p = b.any()
    ps = [p] + [b.of_shape(p.shape) for _ in range(b.int(0, 3))]
    return b.op("AddN", [ps], lambda ts: sum(ts))


@maker("Select")
def select(b):
    p = b.any()
    c = b.rng.random(p.shape) < 0.5 if p.shape else np.asarray(b.chance(0.5))
    return b.op("Select", [b.g.const(c), p, b.of_shape(p.shape)], lambda x, y: torch.where(torch.from_numpy(np.array(c)), x, y))


@maker("SelectV2")
def select_v2(b):
    x, y = two(b)
    c = b.rng.random(np.broadcast_shapes(x.shape, y.shape)) < 0.5
    return b.op("SelectV2", [b.g.const(np.asarray(c)), x, y], lambda x, y: torch.where(torch.from_numpy(np.array(c)), x, y))


@maker("ClipByValue")
def clip(b):
    lo, hi = np.float64(-0.7), np.float64(0.9)
    return b.op("ClipByValue", [b.any(), b.g.const(lo), b.g.const(hi)], lambda t: torch.clip(t, -0.7, 0.9))


# ---- matrices ----

def adjoint(t):
    return t.transpose(-1, -2).conj()


@maker("MatMul")
def matmul(b):
    x = b.any(2, 2)
    ta, tb = b.chance(0.5), b.chance(0.5)
    k = x.shape[0 if ta else 1]
    y = b.of_shape((b.int(1, 4), k) if tb else (k, b.int(1, 4)))
    return b.op("MatMul", [x, y], lambda x, y: (x.T if ta else x) @ (y.T if tb else y), transpose_a=ta, transpose_b=tb)


def batch_matmul(version):
    def make(b):
        x = b.any(2, 4)
        ax, ay = b.chance(0.5), b.chance(0.5)
        k = x.shape[-2 if ax else -1]
        lead = x.shape[:-2] if version == "" else tuple(1 if b.chance(0.4) else d for d in x.shape[:-2])[
            b.int(0, len(x.shape) - 2) if b.chance(0.3) else 0:]
        y = b.of_shape(lead + ((b.int(1, 4), k) if ay else (k, b.int(1, 4))))
        return b.op("BatchMatMul" + version, [x, y], lambda x, y: (adjoint(x) if ax else x) @ (adjoint(y) if ay else y),
                    adj_x=ax, adj_y=ay)
    return make


MAKERS["BatchMatMul"] = batch_matmul("")
MAKERS["BatchMatMulV2"] = batch_matmul("V2")
MAKERS["MatrixDiag"] = lambda b: b.op("MatrixDiag", [b.any(1, 3)], torch.diag_embed)
MAKERS["MatrixDiagPart"] = lambda b: b.op("MatrixDiagPart", [b.any(2, 4)], lambda t: t.diagonal(dim1=-2, dim2=-1))


@maker("MatrixSetDiag")
def set_diag(b):
    x = b.any(2, 4)
    m = min(x.shape[-2:])
    mask = torch.from_numpy(np.eye(*x.shape[-2:]))
    return b.op("MatrixSetDiag", [x, b.of_shape(x.shape[:-2] + (m,))],
                lambda x, d: x * (1 - mask) + F.pad(torch.diag_embed(d), [0, x.shape[-1] - m, 0, x.shape[-2] - m]))


@maker("MatrixBandPart")
def band_part(b):
    x = b.any(2, 4)
    lo, up = b.int(-1, x.shape[-2]), b.int(-1, x.shape[-1])
    i, j = np.indices(x.shape[-2:])
    mask = torch.from_numpy((((lo < 0) | (i - j <= lo)) & ((up < 0) | (j - i <= up))).astype(float))
    return b.op("MatrixBandPart", [x, np.int64(lo), np.int64(up)], lambda t: t * mask)


# ---- reductions ----

def axes(b, p):
    a = [int(v) for v in b.rng.permutation(len(p.shape))[:b.int(0, len(p.shape))]]
    return a, np.asarray([v - len(p.shape) if b.chance(0.3) else v for v in a], np.int32)


def prod_of(t, a, keep):
    for i in sorted(a, reverse=True):
        t = t.prod(i, keepdim=keep)
    return t


def reduction(n, f):
    def make(b):
        p = untied(b, b.any()) if n in ("Max", "Min") else b.any()
        a, at = axes(b, p)
        keep = b.chance(0.5)
        return b.op(n, [p, at], lambda t: f(t, a, keep) if a else t * 1, keep_dims=keep)
    return make


for n, f in (("Sum", lambda t, a, k: t.sum(a, keepdim=k)), ("Mean", lambda t, a, k: t.mean(a, keepdim=k)), ("Prod", prod_of),
             ("Max", lambda t, a, k: t.amax(a, keepdim=k)), ("Min", lambda t, a, k: t.amin(a, keepdim=k))):
    MAKERS[n] = reduction(n, f)


def scan(n, f, first):
    def make(b):
        p = b.any(1, 4) if first == 0 else positive(b, b.any(1, 4))  # at 0 TensorFlow says 0
        a, exclusive, reverse = b.int(0, len(p.shape) - 1), b.chance(0.5), b.chance(0.5)

        def torch_scan(t):
            t = t.flip(a) if reverse else t
            y = f(t, a)
            if exclusive:
                y = torch.cat([torch.full_like(y.narrow(a, 0, 1), first), y.narrow(a, 0, y.shape[a] - 1)], a)
            return y.flip(a) if reverse else y
        return b.op(n, [p, np.int32(a)], torch_scan, exclusive=exclusive, reverse=reverse)
    return make


MAKERS["Cumsum"] = scan("Cumsum", torch.cumsum, 0)
MAKERS["Cumprod"] = scan("Cumprod", torch.cumprod, 1)


# ---- shapes and places ----

def i32(*v):
    return np.asarray(v, np.int32).reshape(-1)


@maker("Reshape")
def reshape(b):
    p = b.any()
    s = list(p.shape)
    s = [-1] if b.chance(0.3) else [1] + s[::-1] if b.chance(0.5) else s + [1]
    return b.op("Reshape", [p, i32(*s)], lambda t: t.reshape(s))


@maker("ExpandDims")
def expand(b):
    p = b.any(0, 4)
    a = b.int(-len(p.shape) - 1, len(p.shape))
    return b.op("ExpandDims", [p, np.int32(a)], lambda t: t.unsqueeze(a))


@maker("Squeeze")
def squeeze(b):
    return b.op("Squeeze", [b.any()], torch.squeeze)


@maker("Transpose")
def transpose(b):
    p = b.any()
    perm = [int(v) for v in b.rng.permutation(len(p.shape))]
    return b.op("Transpose", [p, i32(*perm)], lambda t: t.permute(perm))


@maker("Tile")
def tile(b):
    p = b.any(1, 3)
    m = [b.int(1, 2) for _ in p.shape]
    return b.op("Tile", [p, i32(*m)], lambda t: t.repeat(m))


@maker("Pack")
def pack(b):
    p = b.any(0, 3)
    ps = [p] + [b.of_shape(p.shape) for _ in range(b.int(0, 3))]
    a = b.int(-len(p.shape) - 1, len(p.shape))
    return b.op("Pack", [ps], lambda ts: torch.stack(ts, a), axis=a)


@maker("Unpack")
def unpack(b):
    p = b.any(1, 4)
    a = b.int(-len(p.shape), len(p.shape) - 1)
    n = p.shape[a]
    y = b.g.op("Unpack", [p.out], num=n, axis=a)
    b.said.append("Unpack")
    return [Pair(y[i], t) for i, t in enumerate(p.t.unbind(a))]


def concat(version):
    def make(b):
        p = b.any(1, 4)
        a = b.int(-len(p.shape), len(p.shape) - 1)
        ps = [p]
        for _ in range(b.int(1, 3)):
            s = list(p.shape)
            s[a] = b.int(1, 3)
            ps.append(b.of_shape(s))
        b.said.append("Concat" + version)
        at = np.int32(a if version else a % len(p.shape))
        outs = [q.out for q in ps]
        y = b.g.op("ConcatV2", [outs, b.g.const(at)]) if version else b.g.op("Concat", [b.g.const(at), outs])
        return Pair(y, torch.cat([q.t for q in ps], a))
    return make


MAKERS["Concat"], MAKERS["ConcatV2"] = concat(""), concat("V2")


@maker("Split")
def split(b):
    p = b.any(1, 4)
    a = b.int(-len(p.shape), len(p.shape) - 1)
    n = p.shape[a]
    y = b.g.op("Split", [b.g.const(np.int32(a)), p.out], num_split=n)
    b.said.append("Split")
    return [Pair(y[i], t) for i, t in enumerate(torch.split(p.t, 1, a))]


@maker("SplitV")
def split_v(b):
    p = b.any(1, 4)
    a = b.int(-len(p.shape), len(p.shape) - 1)
    k = b.int(0, p.shape[a])
    y = b.g.op("SplitV", [p.out, b.g.const(np.int64([k, p.shape[a] - k])), b.g.const(np.int32(a))], num_split=2)
    b.said.append("SplitV")
    ts = torch.split(p.t, [k, p.shape[a] - k], a)
    return [Pair(y[i], t) for i, t in enumerate(ts) if t.numel()]


@maker("Slice")
def slice_(b):
    p = b.any()
    at = [b.int(0, d - 1) for d in p.shape]
    n = [b.int(1, d - v) for d, v in zip(p.shape, at)]
    return b.op("Slice", [p, i32(*at), i32(*n)], lambda t: t[tuple(slice(v, v + m) for v, m in zip(at, n))])


@maker("StridedSlice")
def strided_slice(b):
    p = b.any(1, 4)
    begin = [b.int(0, d - 1) for d in p.shape]
    step = [b.int(1, 2) for _ in p.shape]
    index, shrink = [], 0
    for i, (v, s) in enumerate(zip(begin, step)):
        if b.chance(0.3):
            shrink |= 1 << i
            index.append(v)
        else:
            index.append(slice(v, None, s))
    end_mask = (1 << len(begin)) - 1
    return b.op("StridedSlice", [p, i32(*begin), i32(*begin), i32(*step)], lambda t: t[tuple(index)] * 1, end_mask=end_mask,
                shrink_axis_mask=shrink)


def padding(version):
    def make(b):
        p = b.any(1, 4)
        pads = [(b.int(0, 2), b.int(0, 2)) for _ in p.shape]
        flat = [v for pair in pads[::-1] for v in pair]
        if version:
            c = b.of_shape(())
            mask = F.pad(torch.ones(p.shape, dtype=b.dtype), flat)
            return b.op("PadV2", [p, np.asarray(pads, np.int32), Pair(c.out, c.t.detach())],
                        lambda t, v: F.pad(t, flat) + (1 - mask) * v)
        return b.op("Pad", [p, np.asarray(pads, np.int32)], lambda t: F.pad(t, flat))
    return make


MAKERS["Pad"] = padding("")


@maker("MirrorPad")
def mirror_pad(b):
    p = b.any(1, 4)
    mode = ["REFLECT", "SYMMETRIC"][b.int(0, 1)]
    most = [d - (mode == "REFLECT") for d in p.shape]
    pads = [(b.int(0, m), b.int(0, m)) for m in most]

    def mirrored(t):
        for i, (lo, hi) in enumerate(pads):
            at = np.pad(np.arange(t.shape[i]), (lo, hi), mode.lower())
            t = t.index_select(i, torch.from_numpy(at))
        return t
    return b.op("MirrorPad", [p, np.asarray(pads, np.int32)], mirrored, mode=mode)


@maker("ReverseV2")
def reverse(b):
    p = b.any()
    a, at = axes(b, p)
    return b.op("ReverseV2", [p, at], lambda t: t.flip(a) * 1)


@maker("BroadcastTo")
def broadcast_to(b):
    p = b.any(0, 3)
    s = [b.int(1, 3)] + [b.int(1, 3) if d == 1 else d for d in p.shape]
    return b.op("BroadcastTo", [p, i32(*s)], lambda t: t.expand(s) * 1)


@maker("Fill")
def fill(b):
    s = b.shape(0, 3)
    return b.op("Fill", [b.g.const(i32(*s)), b.of_shape(())], lambda t: t.expand(s) * 1)


@maker("Gather")
def gather(b):
    p = b.any(1, 4)
    at = b.rng.integers(0, p.shape[0], b.shape(0, 2))
    return b.op("Gather", [p, np.asarray(at, np.int32)], lambda t: t[torch.from_numpy(np.array(at))])


@maker("GatherV2")
def gather_v2(b):
    p = b.any(1, 4)
    a = b.int(0, len(p.shape) - 1)
    at = b.rng.integers(0, p.shape[a], b.shape(1, 2))
    index = (slice(None),) * a + (torch.from_numpy(at),)
    return b.op("GatherV2", [p, np.asarray(at, np.int64), np.int32(a)], lambda t: t[index])


@maker("GatherNd")
def gather_nd(b):
    p = b.any(1, 4)
    k = b.int(1, len(p.shape))
    s = b.shape(1, 2)
    at = np.stack([b.rng.integers(0, d, s) for d in p.shape[:k]], -1)
    return b.op("GatherNd", [p, at.astype(np.int32)], lambda t: t[tuple(torch.from_numpy(v) for v in np.moveaxis(at, -1, 0))])


@maker("ScatterNd")
def scatter_nd(b):
    p = b.any(1, 4)
    n = b.int(1, 5)
    at = b.rng.integers(0, n, (p.shape[0], 1))
    return b.op("ScatterNd", [b.g.const(at.astype(np.int32)), p, i32(n, *p.shape[1:])],
                lambda t: torch.zeros((n,) + p.shape[1:], dtype=b.dtype).index_add(0, torch.from_numpy(at[:, 0]), t))


@maker("UnsortedSegmentSum")
def segment_sum(b):
    p = b.any(1, 4)
    n = b.int(1, 5)
    at = b.rng.integers(0, n, p.shape[0])
    return b.op("UnsortedSegmentSum", [p, at.astype(np.int32), np.int32(n)],
                lambda t: torch.zeros((n,) + p.shape[1:], dtype=b.dtype).index_add(0, torch.from_numpy(at), t))


@maker("DynamicPartition")
def partition(b):
    p = b.any(1, 4)
    at = b.rng.integers(0, 2, p.shape[0])
    y = b.g.op("DynamicPartition", [p.out, b.g.const(at.astype(np.int32))], num_partitions=2)
    b.said.append("DynamicPartition")
    out = [Pair(y[i], p.t[torch.from_numpy(at == i)]) for i in range(2)]
    return [q for q in out if q.t.numel()]


@maker("DynamicStitch")
def stitch(b):
    p = b.any(1, 4)
    q = b.of_shape(p.shape)
    n = p.shape[0]
    at = b.rng.permutation(2 * n)
    b.said.append("DynamicStitch")
    y = b.g.op("DynamicStitch", [[b.g.const(v.astype(np.int32)) for v in (at[:n], at[n:])], [p.out, q.out]])
    return Pair(y, torch.cat([p.t, q.t])[torch.from_numpy(np.argsort(at))])


@maker("TopKV2")
def top_k(b):
    p = untied(b, b.any(1, 4))
    k = b.int(1, p.shape[-1])
    return b.op("TopKV2", [p, np.int32(k)], lambda t: torch.topk(t, k)[0])


# ---- networks ----

MAKERS["Softmax"] = lambda b: b.op("Softmax", [b.any(1, 4)], lambda t: torch.softmax(t, -1))
MAKERS["LogSoftmax"] = lambda b: b.op("LogSoftmax", [b.any(1, 4)], lambda t: torch.log_softmax(t, -1))


@maker("BiasAdd")
def bias_add(b):
    p = b.any(2, 4)
    nchw = b.chance(0.4)
    c = p.shape[1 if nchw else -1]
    return b.op("BiasAdd", [p, b.of_shape((c,))], lambda t, v: t + (v.reshape((-1,) + (1,) * (t.dim() - 2)) if nchw else v),
                data_format="NCHW" if nchw else "NHWC")


@maker("SoftmaxCrossEntropyWithLogits")
def cross_entropy(b):
    p = b.any(2, 2)
    labels = b.op("Softmax", [b.of_shape(p.shape)], lambda t: torch.softmax(t, -1))  # the op takes for granted that they add up
    return b.op("SoftmaxCrossEntropyWithLogits", [p, labels], lambda x, l: -(l * torch.log_softmax(x, -1)).sum(-1))


@maker("SparseSoftmaxCrossEntropyWithLogits")
def sparse_cross_entropy(b):
    p = b.any(2, 2)
    labels = b.rng.integers(0, p.shape[1], p.shape[0])
    return b.op("SparseSoftmaxCrossEntropyWithLogits", [p, np.asarray(labels, np.int64)],
                lambda x: F.cross_entropy(x, torch.from_numpy(labels), reduction="none"))


def same_padded(t, k, s, value=0.0):
    """NCHW, SAME: the odd cell goes behind."""
    pads = []
    for n in (t.shape[3], t.shape[2]):
        p = max(0, (-(-n // s) - 1) * s + k - n)
        pads += [p // 2, p - p // 2]
    return F.pad(t, pads, value=value)


def nchw(t):
    return t.permute(0, 3, 1, 2).contiguous()


def nhwc(t):
    return t.permute(0, 2, 3, 1)


def window(b, p):
    k, s = b.int(1, min(3, *p.shape[1:3])), b.int(1, 2)
    return k, s, "SAME" if b.chance(0.5) else "VALID"


@maker("Conv2D")
def conv(b):
    p = b.any(4, 4)
    k, s, padding = window(b, p)
    w = b.of_shape((k, k, p.shape[3], b.int(1, 3)))
    return b.op("Conv2D", [p, w], lambda x, w: nhwc(F.conv2d(same_padded(nchw(x), k, s) if padding == "SAME" else nchw(x),
                                                            w.permute(3, 2, 0, 1).contiguous(), stride=s)),
                strides=[1, s, s, 1], padding=padding)


@maker("Conv2DBackpropInput")
def conv_transpose(b):
    p = b.any(4, 4)
    k = b.int(1, 3)
    n, h, wd, c = p.shape
    m = b.int(1, 3)
    w = b.of_shape((k, k, m, c))
    return b.op("Conv2DBackpropInput", [b.g.const(i32(n, h + k - 1, wd + k - 1, m)), w, p],
                lambda w, y: nhwc(F.conv_transpose2d(nchw(y), w.permute(3, 2, 0, 1).contiguous())), strides=[1, 1, 1, 1], padding="VALID")


@maker("DepthwiseConv2dNative")
def depthwise(b):
    p = b.any(4, 4)
    k, s, padding = window(b, p)
    c, m = p.shape[3], b.int(1, 2)
    w = b.of_shape((k, k, c, m))
    return b.op("DepthwiseConv2dNative", [p, w],
                lambda x, w: nhwc(F.conv2d(same_padded(nchw(x), k, s) if padding == "SAME" else nchw(x),
                                           w.permute(2, 3, 0, 1).reshape(c * m, 1, k, k), stride=s, groups=c)),
                strides=[1, s, s, 1], padding=padding)


@maker("MaxPool")
def max_pool(b):
    p = untied(b, b.any(4, 4))
    k, s, padding = window(b, p)
    return b.op("MaxPool", [p], lambda x: nhwc(F.max_pool2d(
        same_padded(nchw(x), k, s, -np.inf) if padding == "SAME" else nchw(x), k, s)), ksize=[1, k, k, 1], strides=[1, s, s, 1],
        padding=padding)


@maker("AvgPool")
def avg_pool(b):
    p = b.any(4, 4)
    k, s, padding = window(b, p)

    def pooled(x):
        if padding == "VALID":
            return nhwc(F.avg_pool2d(nchw(x), k, s))
        x = nchw(x)
        return nhwc(F.avg_pool2d(same_padded(x, k, s), k, s) / F.avg_pool2d(same_padded(torch.ones_like(x), k, s), k, s))
    return b.op("AvgPool", [p], pooled, ksize=[1, k, k, 1], strides=[1, s, s, 1], padding=padding)


@maker("SpaceToDepth")
def space_to_depth(b):
    n, h, w, c = b.int(1, 2), b.int(1, 2), b.int(1, 2), b.int(1, 2)
    p = b.of_shape((n, 2 * h, 2 * w, c))
    return b.op("SpaceToDepth", [p], lambda t: t.reshape(n, h, 2, w, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(n, h, w, 4 * c),
                block_size=2)


@maker("DepthToSpace")
def depth_to_space(b):
    n, h, w, c = b.int(1, 2), b.int(1, 2), b.int(1, 2), b.int(1, 2)
    p = b.of_shape((n, h, w, 4 * c))
    return b.op("DepthToSpace", [p], lambda t: t.reshape(n, h, w, 2, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(n, 2 * h, 2 * w, c),
                block_size=2)


@maker("SpaceToBatchND")
def space_to_batch(b):
    n, h, c = b.int(1, 2), b.int(1, 3), b.int(1, 3)
    p = b.of_shape((n, 2 * h - 1, c))
    return b.op("SpaceToBatchND", [p, i32(2), np.int32([[0, 1]])],
                lambda t: F.pad(t, [0, 0, 0, 1]).reshape(n, h, 2, c).permute(2, 0, 1, 3).reshape(2 * n, h, c))


@maker("BatchToSpaceND")
def batch_to_space(b):
    n, h, c = b.int(1, 2), b.int(1, 3), b.int(1, 3)
    p = b.of_shape((2 * n, h, c))
    return b.op("BatchToSpaceND", [p, i32(2), np.int32([[0, 1]])],
                lambda t: t.reshape(2, n, h, c).permute(1, 2, 0, 3).reshape(n, 2 * h, c)[:, :-1])


# ---- comparing ----

class Wrong(Exception):
    pass


def loss_of(b, outs):
    """A sum of all outputs, each weighted at random; of its real part where it is complex."""
    total, t_total = [], 0
    for p in outs:
        w = b.rng.standard_normal(p.shape)
        if p.t.is_complex():
            w = w + 1j * b.rng.standard_normal(p.shape)
        y, t = b.g.op("Mul", [p.out, np.asarray(w)]), p.t * torch.from_numpy(np.array(w))
        if p.t.is_complex():
            y, t = b.g.op("Real", [y], Tout=Type(np.float64)), t.real
        total.append(b.g.op("Sum", [y, np.arange(len(p.shape), dtype=np.int32)]))
        t_total = t_total + t.sum()
    return Pair(b.g.op("AddN", [total]), t_total)


def ends(b):
    """What no other op of the program took, as far as torch knows; at least the last value."""
    return [p for p in b.pool[len(b.pool) // 2:] if p.t.requires_grad] or [b.pool[-1]]


def close(name, got, want, tol):
    want = want.detach().resolve_conj().numpy()
    if got.shape != want.shape:
        raise Wrong(f"{name}: shape {got.shape}, expected {want.shape}")
    scale = 1 + (np.max(np.abs(want)) if want.size else 0)
    worst = np.max(np.abs(got - want)) / scale if want.size else 0
    if not worst <= tol:
        raise Wrong(f"{name}: off by {worst:.2g} of {scale:.3g}")


def attached(loss, inputs):
    """The inputs that the loss depends on."""
    grads = torch.autograd.grad(loss.t, [p.t for p in inputs], create_graph=True, allow_unused=True)
    return [(p, d) for p, d in zip(inputs, grads) if d is not None]


def compare(b, second=False, tol=1e-9):
    loss = loss_of(b, ends(b))
    used = attached(loss, b.inputs)
    if not used:
        return
    xs = [p for p, _ in used]
    grads = b.g.gradients([loss.out], [p.out for p in xs])
    want = [loss.t] + [d for _, d in used]
    fetch = [loss.out] + grads
    if second:
        bent = [Pair(o, d) for o, (_, d) in zip(grads, used) if d.requires_grad]
        again = loss_of(b, bent) if bent else None
        used2 = [(p, d) for p, d in attached(again, xs) if torch.any(d != 0)] if bent else []  # torch knows zeros where we know none
        if used2:
            fetch += b.g.gradients([again.out], [p.out for p, _ in used2])
            want += [d for _, d in used2]
    got = iter(b.g.run([o for o in fetch if o.oper], b.feeds))
    for i, (o, w) in enumerate(zip(fetch, want)):
        a = next(got) if o.oper else np.zeros(w.shape)  # no gradient arrives: that of torch is zeros
        close("value" if i == 0 else f"gradient {i} of {len(want) - 1}", a, w, tol)


def tried(f, b, what):
    try:
        return f()
    except (Wrong, Failure) as e:
        raise AssertionError(f"{what}: {' '.join(b.said)}: {e}") from None


def RNG_SEED():
    return int(RNG.integers(0, 1 << 31))


def each_alone(makers, dtype, second):
    wrong = []
    for name in makers:
        b = Program([SEED, RNG_SEED()], Graph(), dtype)
        try:
            b.add(makers[name])
            compare(b, second)
        except (Wrong, Failure) as e:
            wrong.append(f"{name}: {str(e)[:300]}")
        b.g.close()
    assert not wrong, "\n".join(wrong)


def programs(makers, dtype, n, most, second=False, tol=1e-7):
    names = list(makers)
    for _ in range(n):
        b = Program([SEED, RNG_SEED()], Graph(), dtype)
        for _ in range(b.int(2, most)):
            b.add(makers[names[b.int(0, len(names) - 1)]])
        try:
            compare(b, second, tol)
        except (Wrong, Failure) as e:
            raise AssertionError(f"{' '.join(b.said)}: {e}") from None
        b.g.close()


@covers(*MAKERS)
def test_gradients_of_each_op_alone():
    """Values, gradients, and gradients of gradients."""
    each_alone(MAKERS, torch.float64, True)


def test_gradients_of_random_programs():
    programs(MAKERS, torch.float64, 15, 25)


def test_second_gradients_of_random_programs():
    programs(MAKERS, torch.float64, 8, 8, True, 1e-6)


# ---- complex numbers ----

def far(b, p):
    """Away from 0: p / 4 + 3."""
    return b.op("Add", [b.op("Mul", [p, b.const(np.complex128(0.25))], torch.mul), b.const(np.complex128(3 + 1j))], torch.add)


def complex_abs(b):
    y = b.op("ComplexAbs", [far(b, b.any())], torch.abs, Tout=Type(np.float64))
    return b.op("Cast", [y], lambda t: t.to(torch.complex128), DstT=Type(np.complex128))


def parts(b):
    p = b.any()
    re, im = b.op("Real", [p], torch.real, Tout=Type(np.float64)), b.op("Imag", [p], torch.imag, Tout=Type(np.float64))
    return b.op("Complex", [im, re], torch.complex, Tout=Type(np.complex128))


def quarter(b):
    return b.op("Mul", [b.any(), b.const(np.complex128(0.2))], torch.mul)


COMPLEX = {n: MAKERS[n] for n in (
    "Neg", "Square", "Identity", "Add", "AddV2", "Sub", "Mul", "AddN", "MatMul", "BatchMatMul", "BatchMatMulV2", "Sum", "Mean",
    "Reshape", "ExpandDims", "Squeeze", "Transpose", "Tile", "Pack", "Unpack", "Concat", "ConcatV2", "Split", "SplitV", "Slice",
    "StridedSlice", "Pad", "ReverseV2", "BroadcastTo", "Fill", "Gather", "GatherV2", "GatherNd", "DynamicPartition",
    "DynamicStitch", "Cumsum", "MatrixDiag", "MatrixDiagPart", "Select", "SelectV2", "Prod")}
COMPLEX.update({n: lambda b, n=n, f=f: b.op(n, [quarter(b)], f) for n, f in (
    ("Exp", torch.exp), ("Sin", torch.sin), ("Cos", torch.cos), ("Tanh", torch.tanh), ("Sigmoid", torch.sigmoid))})
COMPLEX.update({n: lambda b, n=n, f=f: b.op(n, [far(b, b.any())], f) for n, f in (
    ("Sqrt", torch.sqrt), ("Rsqrt", lambda t: 1 / torch.sqrt(t)), ("Reciprocal", torch.reciprocal), ("Log", torch.log),
    ("Log1p", lambda t: torch.log(1 + t)), ("Inv", torch.reciprocal))})
COMPLEX.update({n: lambda b, n=n: (lambda x, y: b.op(n, [x, far(b, y)], torch.div))(*two(b)) for n in ("Div", "RealDiv")})
COMPLEX["Pow"] = lambda b: (lambda x, y: b.op("Pow", [far(b, x), far(b, y)], torch.pow))(*two(b))
COMPLEX["Conj"] = lambda b: b.op("Conj", [b.any()], lambda t: torch.conj(t).resolve_conj())
COMPLEX["ComplexAbs"], COMPLEX["Complex"] = complex_abs, parts


@covers("Conj", "Real", "Imag", "Complex", "ComplexAbs")
def test_gradients_of_each_op_of_complex_numbers():
    each_alone(COMPLEX, torch.complex128, False)


def test_gradients_of_random_programs_of_complex_numbers():
    programs(COMPLEX, torch.complex128, 10, 15)


# ---- loops ----

class Nowhere:
    """Stands for a graph where only torch computes."""

    def op(self, *_, **__):
        return Output(None, 0)

    feed = const = op


class Body(Program):
    """A program inside a loop: it may not feed, and what it does must not depend on values, since we build it once."""

    def new(self, shape):
        p = self.const(self.values(shape))
        self.pool.append(p)
        return p

    def small(self, p):
        return self.op("Tanh", [p], torch.tanh)


def body(seed, g, x, w, n_ops):
    b = Body(seed, g)
    b.pool = [x, w]
    names = [n for n in MAKERS if n not in ("Squeeze",)]
    for _ in range(n_ops):
        b.add(MAKERS[names[b.int(0, len(names) - 1)]])
    end = next((p for p in b.pool[:0:-1] if p.shape == x.shape), w)
    y = b.op("MatMul", [b.op("Tanh", [b.op("Add", [x, end], torch.add)], torch.tanh), w], torch.matmul)
    return b, b.op("Mul", [y, b.const(np.float64(0.4))], torch.mul)


def loop(b, x, w, seed, n_ops, steps):
    """x after some steps of a random body, x and w being loop variables."""
    said = []

    def ours(g, v):
        inner, y = body(seed, g, Pair(v[1], x.t.detach()), Pair(v[2], w.t.detach()), n_ops)
        said.extend(inner.said)
        return [g.op("Add", [v[0], np.int32(1)]), y.out, g.op("Identity", [v[2]])]

    out = b.g.while_loop([b.g.const(np.int32(0)), x.out, w.out], lambda g, v: g.op("Less", [v[0], np.int32(steps)]), ours,
                         f"loop{seed[-1]}")
    t = x.t
    for _ in range(steps):
        t = body(seed, Nowhere(), Pair(None, t), w, n_ops)[1].t
    b.said += ["While["] + said + ["]"]
    return Pair(out[1], t)


def test_gradients_of_random_loops():
    for _ in range(4):
        b = Program([SEED, RNG_SEED()], Graph())
        n = b.int(1, 3)
        x, w = b.new((n, n)), b.new((n, n))
        y = loop(b, x, w, [SEED, RNG_SEED()], b.int(1, 6), b.int(0, 4))
        b.pool = [b.op("Sin", [y], torch.sin)]
        try:
            compare(b, tol=1e-7)
        except (Wrong, Failure) as e:
            raise AssertionError(f"{' '.join(b.said)}: {e}") from None
        b.g.close()
