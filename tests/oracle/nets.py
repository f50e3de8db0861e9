"""tests/oracle/nets.py -- resized images, volumes, LSTM over sequences, large convolutions."""
import numpy as np
import torch
import torch.nn.functional as F

from nn import conv, from_nchw, pooled, same_pads, tensor, to_nchw, torch_max_pool, wide_int
from nn import pool_attrs as flat_pool_attrs
from table import op
from values import DOUBLE, FLOAT, FLOATS, HALF, INTS, is_float, narrow, wide


# ---- resizing: a matrix for each of height and width ----

def sample_points(n_in, n_out, align_corners, half_pixel_centers):
    """Where the results lie in the input; in float, as the choice of a neighbour hangs on it."""
    f = np.float32
    scale = f(n_in - 1) / f(n_out - 1) if align_corners and n_out > 1 else f(n_in) / f(n_out)
    at = np.arange(n_out, dtype=f)
    return (at + f(0.5)) * scale, at * scale, scale


def bilinear_matrix(n_in, n_out, align_corners, half_pixel_centers):
    half, plain, _ = sample_points(n_in, n_out, align_corners, half_pixel_centers)
    at = half - np.float32(0.5) if half_pixel_centers else plain
    low = np.floor(at)
    w = np.zeros((n_out, n_in))
    for i in range(n_out):
        lo, hi = int(max(low[i], 0)), int(min(low[i] + 1, n_in - 1)) if low[i] >= 0 else 0
        t = float(at[i] - low[i])
        w[i, lo] += 1 - t
        w[i, max(hi, 0)] += t
    return w


def nearest_matrix(n_in, n_out, align_corners, half_pixel_centers):
    half, plain, _ = sample_points(n_in, n_out, align_corners, half_pixel_centers)
    at = np.floor(half) if half_pixel_centers else np.floor(plain + np.float32(0.5)) if align_corners else np.floor(plain)
    w = np.zeros((n_out, n_in))
    w[np.arange(n_out), np.clip(at.astype(int), 0, n_in - 1)] = 1
    return w


def resize_case(r):
    n, h, w, c = r.int(0, 2) if r.chance(0.1) else r.int(1, 2), r.int(1, 9), r.int(1, 9), r.int(1, 5)
    how = r.pick([{}, {"align_corners": True}, {"half_pixel_centers": True}])
    return [r.finite((n, h, w, c)), np.asarray([r.int(1, 20), r.int(1, 20)], np.int32)], dict(
        {"align_corners": False, "half_pixel_centers": False}, **how)


def resized(matrix):
    def oracle(x, size, **how):
        wy, wx = matrix(x.shape[1], int(size[0]), **how), matrix(x.shape[2], int(size[1]), **how)
        y = np.einsum("yh,nhwc,xw->nyxc", wy, x.astype(float), wx)
        return y if matrix is bilinear_matrix else y.astype(x.dtype)
    return oracle


def bilinear_grad_case(r):
    (x, size), how = resize_case(r)
    return [r.finite((x.shape[0],) + tuple(size) + x.shape[3:], FLOAT), x], how


def bilinear_grad(g, x, **how):
    wy, wx = bilinear_matrix(x.shape[1], g.shape[1], **how), bilinear_matrix(x.shape[2], g.shape[2], **how)
    return np.einsum("yh,nyxc,xw->nhwc", wy, g, wx)


def nearest_grad_case(r):
    (x, size), how = resize_case(r)
    return [r.finite((x.shape[0],) + tuple(size) + x.shape[3:]), np.asarray(x.shape[1:3], np.int32)], how


def nearest_grad(g, size, **how):
    wy, wx = nearest_matrix(int(size[0]), g.shape[1], **how), nearest_matrix(int(size[1]), g.shape[2], **how)
    return np.einsum("yh,nyxc,xw->nhwc", wy, g.astype(float), wx).astype(g.dtype)


op("ResizeBilinear", resize_case, resized(bilinear_matrix), sums=16,
   scale=lambda x, size, **how: resized(bilinear_matrix)(np.abs(x.astype(float)), size, **how), zero_sign=False, n=20, types=FLOATS + INTS)
op("ResizeBilinearGrad", bilinear_grad_case, bilinear_grad, sums={None: 4, DOUBLE: 2 ** 31}, zero_sign=False, n=20, own_eps=True)
op("ResizeNearestNeighbor", resize_case, resized(nearest_matrix), zero_sign=False, n=20)
op("ResizeNearestNeighborGrad", nearest_grad_case, nearest_grad, sums=4, own_eps=True, zero_sign=False, n=20, types=FLOATS + INTS)


# ---- volumes ----

def first5(x, f):
    return tensor(np.moveaxis(x, -1, 1) if f == "NDHWC" else x)


def last5(t, f):
    a = t.detach().numpy()
    return np.moveaxis(a, 1, -1) if f == "NDHWC" else a


def five(values, f):
    return [1] + list(values) + [1] if f == "NDHWC" else [1, 1] + list(values)


def middle(values, f):
    return values[1:4] if f == "NDHWC" else values[2:5]


def volume_attrs(r, dilated):
    k, s = [r.int(1, 3) for _ in range(3)], [r.int(1, 2) for _ in range(3)]
    d = [r.int(1, 2) for _ in range(3)] if dilated and r.chance(0.3) else [1, 1, 1]
    f = r.pick(["NDHWC", "NCDHW"])
    attrs = {"strides": five(s, f), "padding": r.pick(["SAME", "VALID"]), "data_format": f}
    if dilated:
        attrs["dilations"] = five(d, f)
    else:
        attrs["ksize"] = five(k, f)
    return k, [(a - 1) * b + 1 + r.int(0, 3) for a, b in zip(k, d)], attrs


def volume(n, dims, c, f):
    return (n,) + tuple(dims) + (c,) if f == "NDHWC" else (n, c) + tuple(dims)


def pads5(dims, k, attrs):
    f = attrs["data_format"]
    if attrs["padding"] == "VALID":
        return [0] * 6
    s, d = middle(attrs["strides"], f), middle(attrs.get("dilations", [1] * 5), f)
    return [v for n, a, b, c in zip(dims[::-1], list(k)[::-1], s[::-1], d[::-1]) for v in same_pads(n, a, b, c)]


def torch_conv3d(x, w, attrs):
    f = attrs["data_format"]
    x = F.pad(x, pads5(x.shape[2:], w.shape[2:], attrs))
    return F.conv3d(x.contiguous(), w.contiguous(), stride=middle(attrs["strides"], f), dilation=middle(attrs["dilations"], f))


def conv3d(x, w, **attrs):
    f = attrs["data_format"]
    return last5(torch_conv3d(first5(x, f), tensor(w.transpose(4, 3, 0, 1, 2)), attrs), f)


def conv3d_shapes(r):
    k, dims, attrs = volume_attrs(r, True)
    c = r.int(1, 5)
    return volume(r.int(1, 2), dims, c, attrs["data_format"]), tuple(k) + (c, r.int(1, 5)), attrs


def conv3d_case(r):
    x, w, attrs = conv3d_shapes(r)
    return [r.finite(x), r.finite(w)], attrs


def conv3d_back(x, w, dy, attrs):
    f = attrs["data_format"]
    tx, tw = first5(x, f).requires_grad_(), tensor(w).requires_grad_()
    y = torch_conv3d(tx, tw.permute(4, 3, 0, 1, 2), attrs)
    y.backward(first5(dy, f))
    return last5(tx.grad, f), tw.grad.numpy()


def conv3d_back_case(which):
    def gen(r):
        x, w, attrs = conv3d_shapes(r)
        y = conv3d(np.zeros(x), np.zeros(w), **attrs).shape
        if which == "input":
            return [np.asarray(x, np.int32), r.finite(w), r.finite(y)], attrs
        return [r.finite(x), np.asarray(w, np.int32), r.finite(y)], attrs
    return gen


def sizes(v):
    return np.zeros([int(d) for d in v])


op("Conv3D", conv3d_case, conv3d, sums=4, zero_sign=False, n=12)
op("Conv3DBackpropInputV2", conv3d_back_case("input"), lambda s, w, dy, **a: conv3d_back(sizes(s), w, dy, a)[0], sums=4,
   zero_sign=False, n=12)
op("Conv3DBackpropFilterV2", conv3d_back_case("filter"), lambda x, s, dy, **a: conv3d_back(x, sizes(s), dy, a)[1], sums=4,
   zero_sign=False, n=12)


def max3d(x, attrs):
    f = attrs["data_format"]
    k = middle(attrs["ksize"], f)
    return F.max_pool3d(F.pad(x, pads5(x.shape[2:], k, attrs), value=-np.inf), k, middle(attrs["strides"], f))


def avg3d(x, attrs):
    f = attrs["data_format"]
    k, s, p = middle(attrs["ksize"], f), middle(attrs["strides"], f), pads5(x.shape[2:], middle(attrs["ksize"], f), attrs)
    return F.avg_pool3d(F.pad(x, p), k, s) / F.avg_pool3d(F.pad(torch.ones_like(x), p), k, s)


def pooled3d(f3d):
    return lambda x, **attrs: last5(f3d(first5(x, attrs["data_format"]), attrs), attrs["data_format"])


def volume_case(r):
    k, dims, attrs = volume_attrs(r, False)
    return volume(r.int(1, 2), dims, r.int(1, 4), attrs["data_format"]), attrs


def max3d_case(r):
    s, attrs = volume_case(r)
    x = r.distinct(s, FLOAT) if r.T != HALF else r.finite(s, FLOAT)
    x = narrow(wide(x), r.T)
    y = pooled3d(max3d)(wide(x), **attrs)
    return x, narrow(y, r.T), attrs


def max3d_grad_case(r):
    x, y, attrs = max3d_case(r)
    return [x, y, r.finite(y.shape)], attrs


def max3d_grad(x, y, g, **attrs):
    f = attrs["data_format"]
    tx = first5(x, f).requires_grad_()
    max3d(tx, attrs).backward(first5(g, f))
    return last5(tx.grad, f)


def avg3d_grad_case(r):
    s, attrs = volume_case(r)
    return [np.asarray(s, np.int32), r.finite(pooled3d(avg3d)(np.zeros(s), **attrs).shape)], attrs


def avg3d_grad(s, g, **attrs):
    f = attrs["data_format"]
    tx = first5(sizes(s), f).requires_grad_()
    avg3d(tx, attrs).backward(first5(g, f))
    return last5(tx.grad, f)


op("MaxPool3D", lambda r: (lambda s, a: ([r.finite(s)], a))(*volume_case(r)), pooled3d(max3d), zero_sign=False)
op("AvgPool3D", lambda r: (lambda s, a: ([r.finite(s)], a))(*volume_case(r)), pooled3d(avg3d), sums=3, zero_sign=False)
op("MaxPool3DGrad", max3d_grad_case, max3d_grad, sums=3, own_eps=True, zero_sign=False,
   scale=lambda x, y, g, **a: max3d_grad(x, y, np.abs(g), **a))
op("AvgPool3DGrad", avg3d_grad_case, avg3d_grad, sums=3, own_eps=True, zero_sign=False)


# ---- second gradients of pools: the values at the places of the maxima ----

def taken(x, g, pool):
    """g where pool found the maxima of x: its derivative in the direction of g."""
    tx = x.clone().requires_grad_()
    y = pool(tx)
    seed = torch.zeros_like(y, requires_grad=True)
    back, = torch.autograd.grad(y, tx, seed, create_graph=True)
    out, = torch.autograd.grad(back, seed, g)
    return out


def flat_case(r):
    s, attrs = flat_pool_attrs(r, False)
    x = narrow(wide(r.distinct(s, FLOAT)), r.T) if is_float(r.T) else r.finite(s)
    y = pooled(torch_max_pool)(wide(x), **attrs)
    return [x, narrow(y, r.T), r.finite(s)], attrs


def max_grad_grad(x, y, g, **attrs):
    f = attrs["data_format"]
    return from_nchw(taken(to_nchw(wide_int(x), f), to_nchw(wide_int(g), f), lambda t: torch_max_pool(t, attrs)), f).astype(g.dtype)


op("MaxPoolGradGrad", flat_case, max_grad_grad, types=FLOATS[2:], zero_sign=False)


def max3d_grad_grad(x, y, g, **attrs):
    f = attrs["data_format"]
    return last5(taken(first5(x, f), first5(g, f), lambda t: max3d(t, attrs)), f)


op("MaxPool3DGradGrad", lambda r: (lambda x, y, a: ([x, y, r.finite(x.shape)], a))(*max3d_case(r)), max3d_grad_grad,
   types=FLOATS[2:], zero_sign=False)


# ---- LSTM over sequences ----

def lstm_case(version):
    def gen(r):
        t, n, i, c = r.int(1, 5), r.int(1, 4), r.int(1, 6), r.int(1, 6)
        length = r.int(0, t)
        peep = r.chance(0.5)
        attrs = {"use_peephole": peep, "cell_clip": r.pick([0.0, 0.5])}
        if not version:
            attrs["forget_bias"] = float(r.pick([0.0, 1.0]))
        shapes = [(t, n, i), (n, c), (n, c), (i + c, 4 * c), (c,), (c,), (c,), (4 * c,)]
        return [np.asarray(length, np.int64)] + [r.finite(s, scale=0.7) for s in shapes], attrs
    return gen


def torch_lstm(x, cs, h, w, wci, wcf, wco, b, order, length, use_peephole, cell_clip=0.0, forget_bias=0.0):
    """Lists over time of i, cs, f, o, ci, co, h."""
    out = []
    for t in range(length):
        z = dict(zip(order, torch.chunk(torch.cat([x[t], h], 1) @ w + b, 4, 1)))
        zi, zf, zo = z["i"], z["f"] + forget_bias, z["o"]
        if use_peephole:
            zi, zf = zi + cs * wci, zf + cs * wcf
        i, f, ci = torch.sigmoid(zi), torch.sigmoid(zf), torch.tanh(z["c"])
        cs = i * ci + f * cs
        if cell_clip > 0:
            cs = torch.clip(cs, -cell_clip, cell_clip)
        o = torch.sigmoid(zo + cs * wco if use_peephole else zo)
        co = torch.tanh(cs)
        h = o * co
        out.append((i, cs, f, o, ci, co, h))
    return out


def lstm(order):
    """cs and h; the gates beyond the length are nobody's business."""
    def oracle(length, *xs, **attrs):
        steps = torch_lstm(*[tensor(x) for x in xs], order, int(length), **attrs)
        zero = np.zeros((xs[0].shape[0],) + xs[1].shape)
        out = [None] * 7
        for k in (1, 6):
            out[k] = zero.copy()
            for t, s in enumerate(steps):
                out[k][t] = s[k].numpy()
        return out
    return oracle


def lstm_scale(length, x, cs, *rest, **attrs):
    return [np.full((x.shape[0],) + cs.shape, 8.0 * (1 + x.shape[2]))] * 7


def lstm_grad_case(version, order):
    def gen(r):
        (length, *xs), attrs = lstm_case(version)(r)
        attrs["cell_clip"] = 0.0
        steps = torch_lstm(*[tensor(wide(x)) for x in xs], order, int(length), **attrs)
        saved = []
        for k in range(7):
            a = np.zeros((xs[0].shape[0],) + xs[1].shape)
            for t, s in enumerate(steps):
                a[t] = s[k].numpy()
            saved.append(narrow(a, r.T))
        return [length] + xs + saved + [r.finite(saved[0].shape), r.finite(saved[0].shape)], {"use_peephole": attrs["use_peephole"]}
    return gen


def lstm_grad(order):
    """By autograd; a forget bias would be in the saved gates, from which the op goes back."""
    def oracle(length, x, cs, h, w, wci, wcf, wco, b, *rest, use_peephole):
        saved, (dcs, dh) = rest[:7], rest[7:]
        leaves = [tensor(a).requires_grad_() for a in (x, cs, h, w, wci, wcf, wco, b)]
        bias = forget_bias_of(order, saved, leaves, int(length), use_peephole)
        steps = torch_lstm(*leaves, order, int(length), use_peephole, 0.0, bias)
        total = sum(((s[1] * tensor(dcs[t])).sum() + (s[6] * tensor(dh[t])).sum() for t, s in enumerate(steps)), torch.zeros(()))
        grads = torch.autograd.grad(total, leaves, allow_unused=True) if steps else [None] * 8
        return [np.zeros(a.shape) if g is None else g.numpy() for g, a in zip(grads, leaves)]
    return oracle


def forget_bias_of(order, saved, leaves, length, use_peephole):
    """0 or 1, whichever the saved gates were made with."""
    if not length:
        return 0.0
    with torch.no_grad():
        errors = [np.abs(torch_lstm(*leaves, order, 1, use_peephole, 0.0, v)[0][2].numpy() - saved[2][0]).max() for v in (0.0, 1.0)]
    return float(np.argmin(errors))


def lstm_grad_scale(length, x, cs, h, w, *rest, **attrs):
    big = 16 * (1 + np.abs(rest[-1]).max() + np.abs(rest[-2]).max()) * (1 + np.abs(w).max()) ** 2 * (1 + x.shape[2]) * x.shape[0]
    return [np.full(np.shape(a), big) for a in (x, cs, h, w, *rest[:4])]


ORDERS = {"": "icfo", "V2": "ifco"}
for v, order in ORDERS.items():
    op("BlockLSTM" + v, lstm_case(v), lstm(order), sums=4, scale=lstm_scale, own_eps=True, zero_sign=False, n=20)
    op("BlockLSTMGrad" + v, lstm_grad_case(v, order), lstm_grad(order), sums=4, scale=lstm_grad_scale, own_eps=True, zero_sign=False,
       n=20)


# ---- large convolutions: those that take other ways through the library ----

def large_case(r):
    k, s, c, m, n = r.pick([(3, 1, 64, 64, 14), (3, 1, 16, 32, 33), (1, 1, 64, 128, 20), (7, 2, 3, 64, 40), (5, 1, 1, 32, 28),
                            (3, 2, 32, 48, 31), (11, 4, 3, 24, 60), (5, 1, 32, 64, 14)])
    f = r.pick(["NHWC", "NCHW"])
    x = (2, n, n, c) if f == "NHWC" else (2, c, n, n)
    return [r.finite(x), r.finite((k, k, c, m))], {"strides": [1, s, s, 1] if f == "NHWC" else [1, 1, s, s],
                                                  "padding": r.pick(["SAME", "VALID"]), "data_format": f}


op("Conv2D", large_case, conv, types=FLOATS, sums=6, zero_sign=False, n=8)
