"""tests/oracle/flows.py -- gradients of conditionals, of loops around and inside of them, of arrays of tensors in loops, of
empty tensors and of normalisations, against PyTorch."""
import numpy as np
import torch
import torch.nn.functional as F

import shape_makers  # noqa: adds to MAKERS
from graph import Graph, Type
from makers import MAKERS
from programs import Body, Nowhere, Pair, Program, checked
from table import SEED, covers

RNG = np.random.default_rng(1)


def seed():
    return [SEED, int(RNG.integers(0, 1 << 31))]


# ---- random control flow: statements on square matrices x, w, which all have one shape ----

SQUARE = {"Tanh": torch.tanh, "Sin": torch.sin, "Sigmoid": torch.sigmoid, "Neg": torch.neg, "Softmax": lambda t: torch.softmax(t, -1)}
MIXING = {"Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "MatMul": torch.matmul}


def step(b, x, w):
    """One op that keeps the shape."""
    if b.chance(0.5):
        n = list(SQUARE)[b.int(0, len(SQUARE) - 1)]
        return b.op(n, [x], SQUARE[n])
    n = list(MIXING)[b.int(0, len(MIXING) - 1)]
    y = b.op(n, [x, w] if b.chance(0.5) else [w, x], MIXING[n])
    return b.op("Tanh", [y], torch.tanh)


def under(p):
    """What a choice hangs on: whether the sum is positive."""
    return float(p.t.detach().sum()) > 0


def predicate(b, p):
    rank = np.arange(len(p.shape), dtype=np.int32)
    return b.g.op("Greater", [b.g.op("Sum", [p.out, rank]), np.float64(0)])


def branch(b, x, w, depth):
    """Switch and Merge by hand; w is switched too, or used on one side only."""
    p, taken = predicate(b, x), under(x)
    xs, ws = b.g.op("Switch", [x.out, p]), b.g.op("Switch", [w.out, p])
    sides = []
    for i in range(2):
        inner = Body([b.int(0, 1 << 30)], b.g)
        ours = [Pair(b.g.op("Identity", [v[i]]), p.t) for v, p in ((xs, x), (ws, w))]
        sides.append(statements(inner, *ours, depth + 1))
        b.said += [f"{'then' if i else 'else'}["] + inner.said + ["]"]
    merged = b.g.op("Merge", [[sides[0].out, sides[1].out]])
    return Pair(merged, sides[int(taken)].t)


def looped(b, x, w, depth):
    inner_seed, steps, number = [b.int(0, 1 << 30)], b.int(0, 3), b.int(0, 1 << 30)
    said = []

    def ours(g, v):
        inner = Body(inner_seed, g)
        y = statements(inner, Pair(v[1], x.t.detach()), Pair(v[2], w.t.detach()), depth + 1)
        said.extend(inner.said)
        return [g.op("Add", [v[0], np.int32(1)]), y.out, g.op("Identity", [v[2]])]

    out = [None, None]
    if not isinstance(b.g, Nowhere):
        start = b.g.op("Const", [], controls=[x.out], dtype=Type(np.int32), value=np.asarray(0, np.int32))  # only where x is live
        out = b.g.while_loop([start, x.out, w.out], lambda g, v: g.op("Less", [v[0], np.int32(steps)]), ours,
                             f"loop{number}")
    t = x.t
    for _ in range(steps):
        t = statements(Body(inner_seed, Nowhere()), Pair(None, t), w, depth + 1).t
    b.said += [f"{steps} times["] + said + ["]"]
    return Pair(out[1], t)


def statements(b, x, w, depth):
    for _ in range(b.int(1, 3)):
        kind = b.rng.random()
        if depth < 3 and kind < 0.2:
            x = branch(b, x, w, depth)
        elif depth < 2 and kind < 0.4:
            x = looped(b, x, w, depth)
        else:
            x = step(b, x, w)
    return x


def test_gradients_of_random_control_flow():
    for _ in range(6):
        b = Program(seed(), Graph())
        n = b.int(1, 3)
        x, w = b.new((n, n)), b.new((n, n))
        b.pool = [statements(b, x, w, 0)]
        checked(b)


# ---- arrays of tensors ----

@covers("TensorArrayV3", "TensorArrayScatterV3", "TensorArrayReadV3", "TensorArrayWriteV3", "TensorArrayGatherV3", "TensorArrayGradV3")
def test_gradients_of_a_recurrent_network_with_arrays_of_tensors():
    """x is scattered, read step by step, the states are written and gathered: as dynamic_rnn does."""
    b = Program(seed(), Graph())
    steps, n, c = b.int(1, 4), b.int(1, 3), b.int(1, 4)
    x, h, w = b.new((steps, n, c)), b.new((n, c)), b.new((c, c))
    g, double = b.g, Type(np.float64)
    rows = g.const(np.arange(steps, dtype=np.int32))
    a_in, a_out = (g.op("TensorArrayV3", [np.int32(steps)], dtype=double, tensor_array_name=t) for t in ("in", "out"))
    flow = g.op("TensorArrayScatterV3", [a_in, rows, x.out, a_in[1]])

    def body(g, v):
        t, s, kernel, into, flow_in, source, flow_source = v
        z = g.op("Add", [g.op("TensorArrayReadV3", [source, t, flow_source], dtype=double), g.op("MatMul", [s, kernel])])
        s = g.op("Tanh", [z])
        flow_in = g.op("TensorArrayWriteV3", [into, t, s, flow_in])
        return [g.op("Add", [t, np.int32(1)]), s] + [g.op("Identity", [k]) for k in (kernel, into, flow_in, source, flow_source)]

    out = g.while_loop([g.const(np.int32(0)), h.out, w.out, a_out, a_out[1], a_in, flow],
                       lambda g, v: g.op("Less", [v[0], np.int32(steps)]), body)
    y = g.op("TensorArrayGatherV3", [a_out, rows, out[4]], dtype=double)
    s, states = h.t, []
    for t in range(steps):
        s = torch.tanh(x.t[t] + s @ w.t)
        states.append(s)
    b.pool = [b.op("Sin", [Pair(y, torch.stack(states))], torch.sin), Pair(out[1], s)]
    checked(b, "rnn")


# ---- empty tensors ----

class Hollow(Program):
    """Many of whose inputs have no elements."""

    def shape(self, lo=0, hi=4):
        return tuple(0 if self.chance(0.25) else self.int(1, 3) for _ in range(self.int(lo, hi)))


FILLED = {"Max", "Min", "Conv2D", "Conv2DBackpropInput", "DepthwiseConv2dNative", "MaxPool", "AvgPool", "TopKV2", "Gather", "GatherV2",
          "GatherNd", "MirrorPad", "Slice", "StridedSlice", "SpaceToDepth", "DepthToSpace", "SpaceToBatchND", "BatchToSpaceND", "Split",
          "Unpack", "SparseSoftmaxCrossEntropyWithLogits", "Cumprod", "Cumsum", "Prod", "Pad", "MatrixSetDiag", "ScatterNd", "SplitV", "Reshape", "Mean"}


def test_gradients_of_empty_tensors():
    names = [n for n in MAKERS if n not in FILLED]
    for _ in range(20):
        b = Hollow(seed(), Graph())
        for _ in range(b.int(1, 6)):
            b.add(MAKERS[names[b.int(0, len(names) - 1)]])
        checked(b)


# ---- normalisations, in float ----

def float_gradients(made, leaves, tol):
    """made: (graph, feeds) -> our output; leaves: arrays with torch's function of them."""
    f, arrays = leaves
    g = Graph()
    feeds = [g.feed(np.float32, a.shape if RNG.random() < 0.5 else None) for a in arrays]
    y = made(g, feeds)
    ts = [torch.from_numpy(a.astype(np.float64)).requires_grad_() for a in arrays]
    ty = f(*ts)
    dy = RNG.standard_normal(ty.shape).astype(np.float32)
    used = torch.autograd.grad(ty, ts, torch.from_numpy(dy.astype(np.float64)), create_graph=True)
    got = g.gradients([y], feeds, [g.const(dy)])
    mixed = sum((d * torch.from_numpy(weights(d.shape, i))).sum() for i, d in enumerate(used))
    again = torch.autograd.grad(mixed, ts, allow_unused=True)
    ours = g.op("AddN", [[g.op("Sum", [g.op("Mul", [o, weights(a.shape, i).astype(np.float32)]),
                                       np.arange(a.ndim, dtype=np.int32)]) for i, (o, a) in enumerate(zip(got, arrays))]])
    second = g.gradients([ours], feeds[:2]) if SECOND[0] else []
    fetch = [y] + got + second
    values = iter(g.run([o for o in fetch if o.oper], dict(zip(feeds, arrays))))
    for o, w, like in zip(fetch, [ty, *used, *again], [ty, *ts, *ts]):
        w = np.zeros(like.shape) if w is None else w.detach().numpy()
        a = next(values) if o.oper else np.zeros(like.shape)
        assert a.shape == w.shape
        worst = np.max(np.abs(a - w)) / (1 + np.max(np.abs(w))) if w.size else 0
        assert worst < tol, f"off by {worst:.2g}"
    g.close()


SECOND = [True]


def weights(shape, i):
    return np.random.default_rng(i).standard_normal(shape)


def test_gradients_of_batch_norm():
    """In training and inference, of all versions, with their gradients' gradients."""
    for version in ("", "V2", "V3"):
        for training in (True, False):
            f = "NHWC" if RNG.random() < 0.6 else "NCHW"
            c = int(RNG.integers(1, 4))
            x = RNG.standard_normal((3, 4, 3, c)).astype(np.float32)
            x = x if f == "NHWC" else np.ascontiguousarray(x.transpose(0, 3, 1, 2))
            scale, offset = (RNG.standard_normal(c).astype(np.float32) for _ in range(2))
            mean, var = (np.zeros(0, np.float32),) * 2 if training else (
                RNG.standard_normal(c).astype(np.float32), RNG.uniform(0.5, 2, c).astype(np.float32))

            def normed(x, s, o):
                x = x.permute(0, 3, 1, 2) if f == "NHWC" else x
                m, v = (x.mean((0, 2, 3)), x.var((0, 2, 3), unbiased=False)) if training else (
                    torch.from_numpy(mean.astype(float)), torch.from_numpy(var.astype(float)))
                shape = (1, -1, 1, 1)
                y = (x - m.reshape(shape)) / torch.sqrt(v.reshape(shape) + float(np.float32(1e-3))) * s.reshape(shape) + o.reshape(shape)
                return y.permute(0, 2, 3, 1) if f == "NHWC" else y
            float_gradients(lambda g, v: g.op("FusedBatchNorm" + version, v + [mean, var], epsilon=1e-3, is_training=training,
                                              data_format=f), (normed, [x, scale, offset]), 2e-4)


def test_gradients_of_lrn():
    x = RNG.standard_normal((2, 3, 2, 7)).astype(np.float32)
    r = int(RNG.integers(0, 4))

    def lrn(x):
        sq = F.pad(x * x, [r, r]).unfold(-1, 2 * r + 1, 1).sum(-1)
        return x / (1.5 + 0.25 * sq) ** 0.75
    SECOND[0] = False  # its gradient has none, in TensorFlow neither
    float_gradients(lambda g, v: g.op("LRN", v, depth_radius=r, bias=1.5, alpha=0.25, beta=0.75), (lrn, [x]), 1e-4)
    SECOND[0] = True
