"""tests/oracle/shape_makers.py -- makers (makers.py) of ops that move elements."""
import numpy as np
import torch
import torch.nn.functional as F

from makers import MAKERS, axes, i32, maker, untied
from programs import Pair


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
