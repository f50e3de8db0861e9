"""tests/oracle/makers.py -- one maker an op: how a random program uses it, and what PyTorch does for it."""
import numpy as np
import torch
import torch.nn.functional as F

MAKERS = {}


def maker(name):
    def keep(f):
        MAKERS[name] = f
        return f
    return keep


def i32(*v):
    return np.asarray(v, np.int32).reshape(-1)


# ---- one input ----

def positive(b, p):
    """p * p + 0.5, by ops."""
    return b.op("Add", [b.op("Square", [p], torch.square), b.const(0.5)], torch.add)


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
    return b.op("ClipByValue", [b.any(), b.const(-0.75).out, b.const(0.875).out], lambda t: torch.clip(t, -0.75, 0.875))


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
