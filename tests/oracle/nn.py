"""tests/oracle/nn.py -- activations, losses, convolutions, pools and normalisations, with the ops that are their gradients."""
import numpy as np
import scipy.special as sp
import torch
import torch.nn.functional as F

from table import fails, op
from values import FLOAT, FLOATS, INTS, is_float, narrow, wide

SELU, SELU_ALPHA = 1.0507009873554805, 1.7580993408473766


def tensor(a):
    return torch.from_numpy(np.ascontiguousarray(a))


# ---- activations ----

def unary(r):
    return [r.any(r.long_shape())]


def pair(r):
    s = r.long_shape()
    return [r.some_special(s), r.any(s) if not is_float(r.T) else r.some_special(s)]


def sloped(gen):
    return lambda r: (gen(r), {"alpha": float(np.float32(r.pick([0.2, 0.01, 1.0, 0.0, 1.5])))})


def relu(x):
    return np.maximum(x, np.asarray(0, x.dtype))


op("Relu", unary, relu, zero_sign=False)
op("Relu6", unary, lambda x: np.minimum(relu(x), np.asarray(6, x.dtype)), zero_sign=False)
op("Elu", unary, lambda x: np.where(x < 0, np.expm1(x), x), ulp=2)
op("Selu", unary, lambda x: np.where(x < 0, SELU_ALPHA * np.expm1(x), SELU * x), ulp=3)
op("LeakyRelu", sloped(unary), lambda x, alpha: np.where(x > 0, x, alpha * x), ulp=0.6)
op("Softplus", unary, lambda x: np.logaddexp(0, x), ulp=4)
op("Softsign", unary, lambda x: x / (1 + np.abs(x)), ulp=1.5)
op("ReluGrad", pair, lambda g, f: np.where(f > 0, g, np.asarray(0, g.dtype)), zero_sign=False)
op("Relu6Grad", pair, lambda g, f: np.where((f > 0) & (f < 6), g, np.asarray(0, g.dtype)), zero_sign=False)
op("EluGrad", pair, lambda g, y: np.where(y < 0, (y + 1) * g, g), sums=2, zero_sign=False,
   scale=lambda g, y: np.abs(g) * (1 + np.abs(y)))
op("SeluGrad", pair, lambda g, y: np.where(y < 0, (y + SELU_ALPHA) * g, SELU * g), sums=2, zero_sign=False,
   scale=lambda g, y: np.abs(g) * (2 + np.abs(y)))
op("LeakyReluGrad", sloped(pair), lambda g, f, alpha: np.where(f > 0, g, alpha * g), ulp=0.6, zero_sign=False)
op("SoftplusGrad", pair, lambda g, f: g * sp.expit(f), ulp=4, zero_sign=False)
op("SoftsignGrad", pair, lambda g, f: g / (1 + np.abs(f)) ** 2, ulp=4, zero_sign=False)


# ---- softmax and cross entropies ----

def rows(r):
    """Of any length; now and then with values far apart, an infinity or a NaN."""
    s = r.shape(1, 4) if r.number % 4 else r.pick([(3, 1000), (500, 10), (2, 3, 33)])
    x = wide(r.finite(s)) * r.pick([1, 1, 10, 1000])
    if x.size and r.number % 6 == 5:
        x.reshape(-1)[r.int(0, x.size - 1)] = r.pick([np.inf, -np.inf, np.nan])
    return [narrow(x, r.T)]


def shifted(x):
    return x - np.max(x, -1, keepdims=True) if x.size else x


def log_softmax(x):
    d = shifted(x)
    return d - np.log(np.sum(np.exp(d), -1, keepdims=True))


def softmax(x):
    e = np.exp(shifted(x))
    return e / np.sum(e, -1, keepdims=True)


def exp_scale(x):
    """The rounding of x - max counts as much as the difference is large."""
    d = np.abs(shifted(x))
    return softmax(x) * (np.where(np.isfinite(d), d, 0) + 2)


op("Softmax", rows, softmax, sums=4, scale=exp_scale)
op("LogSoftmax", rows, log_softmax, sums=4, zero_sign=False, scale=lambda x: np.abs(shifted(x)) + 2 + np.abs(log_softmax(x)))


def cross_entropy_case(r):
    n, c = r.int(0, 20), r.int(1, 30)
    labels = softmax(r.rng.standard_normal((n, c)))
    one = (n, c) if r.chance(0.7) else (1, c)
    return [r.finite((n, c)), narrow(labels if one[0] == n or n == 0 else labels[:1], r.T)]


def cross_entropy(x, labels):
    x, labels = np.broadcast_arrays(x, labels)
    return np.sum(-labels * log_softmax(x), -1), softmax(x) - labels


def cross_entropy_scale(x, labels):
    x, labels = np.broadcast_arrays(x, labels)
    return np.sum(labels * (2 + np.abs(shifted(x)) + np.abs(log_softmax(x))), -1), exp_scale(x) + labels


def sparse_case(r):
    n, c = r.int(0, 20), r.int(1, 30)
    return [r.finite((n, c)), r.indices(c, (n,))]


def one_hot(labels, c):
    return np.eye(c)[labels.astype(int)]


op("SoftmaxCrossEntropyWithLogits", cross_entropy_case, cross_entropy, sums=4, scale=cross_entropy_scale, zero_sign=False)
op("SparseSoftmaxCrossEntropyWithLogits", sparse_case, lambda x, l: cross_entropy(x, one_hot(l, x.shape[1])), sums=4,
   scale=lambda x, l: cross_entropy_scale(x, one_hot(l, x.shape[1])), zero_sign=False)
fails("SparseSoftmaxCrossEntropyWithLogits", lambda r: [r.finite((2, 3)), np.asarray([0, 3], r.index_type())],
      "Received a label value of 3 which is outside the valid range of [0, 3).")


# ---- bias ----

def biased(r):
    s = r.shape(2, 5, least=1)
    f = r.pick(["NHWC", "NCHW"])
    return [r.any(s) if not is_float(r.T) else r.some_special(s), r.finite((s[-1 if f == "NHWC" else 1],))], {"data_format": f}


def bias_add(x, b, data_format="NHWC"):
    return x + (b if data_format == "NHWC" else b.reshape((-1,) + (1,) * (x.ndim - 2)))


BIAS_TYPES = FLOATS + INTS
op("BiasAdd", biased, bias_add, types=BIAS_TYPES, n=16)
op("BiasAddV1", lambda r: (lambda s: [r.finite(s), r.finite(s[-1:])])(r.shape(2, 5, least=1)), bias_add, types=BIAS_TYPES)


# ---- windows ----

def same_pads(n, k, s, d=1):
    out, e = -(-n // s), (k - 1) * d + 1
    p = max(0, (out - 1) * s + e - n)
    return p // 2, p - p // 2


def spatial(values, data_format, first=None):
    """Numbers for two spatial dims as four in the order of the layout; `first` for batch and channels."""
    h, w = values
    one = 1 if first is None else first
    return [one, h, w, one] if data_format == "NHWC" else [one, one, h, w]


def pads_of(padding, explicit, data_format, n, k, s, d):
    """(before, after) of height and width."""
    if padding == "VALID":
        return [(0, 0), (0, 0)]
    if padding == "SAME":
        return [same_pads(n[i], k[i], s[i], d[i]) for i in range(2)]
    at = 2 if data_format == "NHWC" else 4
    return [tuple(explicit[at:at + 2]), tuple(explicit[at + 2:at + 4])]


def window_attrs(r, dilated=True, square=False, explicit=True):
    """Attrs of a convolution: k, s, d are pairs."""
    k = [r.int(1, 5), r.int(1, 5)]
    s = [r.int(1, 3), r.int(1, 3)]
    if square:
        s[1] = s[0]
    d = [r.int(1, 3), r.int(1, 3)] if dilated and r.chance(0.3) else [1, 1]
    padding = r.pick(["SAME", "VALID", "EXPLICIT"] if explicit else ["SAME", "VALID"])
    data_format = r.pick(["NHWC", "NCHW"])
    attrs = {"strides": spatial(s, data_format), "padding": padding, "data_format": data_format}
    if dilated:
        attrs["dilations"] = spatial(d, data_format)
    p = [(0, 0), (0, 0)]
    if padding == "EXPLICIT":
        p = [(r.int(0, min(2, k[i] - 1)), r.int(0, min(2, k[i] - 1))) for i in range(2)]
        zero = [0, 0]
        attrs["explicit_paddings"] = (zero + list(p[0]) + list(p[1]) + zero) if data_format == "NHWC" else (
            zero + zero + list(p[0]) + list(p[1]))
    n = [max(1, (k[i] - 1) * d[i] + 1 - sum(p[i]) + r.int(0, 7)) for i in range(2)]
    return k, n, attrs


def unpack(attrs):
    f = attrs["data_format"]
    at = (1, 3) if f == "NHWC" else (2, 4)
    s, d = attrs["strides"][at[0]:at[1]], attrs.get("dilations", [1, 1, 1, 1])[at[0]:at[1]]
    return f, s, d


def to_nchw(x, f):
    return tensor(x.transpose(0, 3, 1, 2) if f == "NHWC" else x)


def from_nchw(t, f):
    a = t.detach().numpy()
    return a.transpose(0, 2, 3, 1) if f == "NHWC" else a


def image(n, hw, c, f):
    return (n, hw[0], hw[1], c) if f == "NHWC" else (n, c, hw[0], hw[1])


def torch_conv(x, w, attrs, groups=1):
    """NCHW tensors; w is OIHW."""
    f, s, d = unpack(attrs)
    p = pads_of(attrs["padding"], attrs.get("explicit_paddings"), f, x.shape[2:], w.shape[2:], s, d)
    x = F.pad(x, list(p[1]) + list(p[0]))
    return F.conv2d(x.contiguous(), w.contiguous(), stride=s, dilation=d, groups=groups)


def conv(x, w, **attrs):
    f = attrs["data_format"]
    x = to_nchw(x, f)
    return from_nchw(torch_conv(x, tensor(w.transpose(3, 2, 0, 1)), attrs, x.shape[1] // w.shape[2]), f)


def conv_backward(shape, w, attrs, depthwise=False):
    """A function from dy and x to (dx, dw), by autograd."""
    f = attrs["data_format"]

    def back(x, dy):
        tx = to_nchw(x, f).requires_grad_()
        tw = tensor(w).requires_grad_()
        y = depthwise_of(tx, tw, attrs) if depthwise else torch_conv(tx, tw.permute(3, 2, 0, 1), attrs, tx.shape[1] // w.shape[2])
        if y.numel():
            y.backward(to_nchw(dy, f))
        dx, dw = (t.grad if t.grad is not None else torch.zeros_like(t) for t in (tx, tw))
        return from_nchw(dx, f), dw.numpy()
    return back


def depthwise_of(x, w, attrs):
    kh, kw, c, m = w.shape
    return torch_conv(x, w.permute(2, 3, 0, 1).reshape(c * m, 1, kh, kw), attrs, c)


def depthwise(x, w, **attrs):
    f = attrs["data_format"]
    return from_nchw(depthwise_of(to_nchw(x, f), tensor(w), attrs), f)


def conv_case(r, depth=False):
    k, hw, attrs = window_attrs(r, square=depth)
    groups = r.pick([1, 1, 1, 2]) if not depth else 1
    big = r.number % 8 == 7
    c, m = (r.int(8, 40), r.int(8, 70) if not depth else r.int(1, 4)) if big else (r.int(1, 6), r.int(1, 6))
    if depth:
        x = image(r.int(1, 3), hw, c, attrs["data_format"])
        return x, tuple(k) + (c, m), attrs
    x = image(r.int(0, 3) if r.chance(0.2) else r.int(1, 3), hw, c * groups, attrs["data_format"])
    return x, tuple(k) + (c, m * groups), attrs


def forward_case(depth):
    def gen(r):
        x, w, attrs = conv_case(r, depth)
        return [r.finite(x), r.finite(w)], attrs
    return gen


def backward_case(depth, which):
    def gen(r):
        x, w, attrs = conv_case(r, depth)
        y = (depthwise if depth else conv)(np.zeros(x), np.zeros(w), **attrs).shape
        if which == "input":
            return [np.asarray(x, np.int32), r.finite(w), r.finite(y)], attrs
        return [r.finite(x), np.asarray(w, np.int32), r.finite(y)], attrs
    return gen


def input_backward(depth):
    return lambda sizes, w, dy, **attrs: conv_backward(None, w, attrs, depth)(np.zeros([int(v) for v in sizes]), dy)[0]


def filter_backward(depth):
    return lambda x, sizes, dy, **attrs: conv_backward(None, np.zeros([int(v) for v in sizes]), attrs, depth)(x, dy)[1]


op("Conv2D", forward_case(False), conv, types=FLOATS, sums=4, zero_sign=False, n=40)
op("Conv2D", forward_case(False), lambda x, w, **a: conv(x.astype(float), w.astype(float), **a).astype(x.dtype),
   types=[np.int32], n=12)
op("Conv2DBackpropInput", backward_case(False, "input"), input_backward(False), types=FLOATS, sums=4, zero_sign=False, n=30)
op("Conv2DBackpropFilter", backward_case(False, "filter"), filter_backward(False), types=FLOATS, sums=4, zero_sign=False, n=30)
op("DepthwiseConv2dNative", forward_case(True), depthwise, sums=4, zero_sign=False, n=30)
op("DepthwiseConv2dNativeBackpropInput", backward_case(True, "input"), input_backward(True), sums=4, zero_sign=False, n=20)
op("DepthwiseConv2dNativeBackpropFilter", backward_case(True, "filter"), filter_backward(True), sums=4, zero_sign=False, n=20)


# ---- pools ----

def pool_attrs(r, explicit=False):
    k, hw, attrs = window_attrs(r, dilated=False, explicit=explicit)
    attrs["ksize"] = spatial(k, attrs["data_format"])
    return image(r.int(1, 3), hw, r.int(1, 9), attrs["data_format"]), attrs


def pool_parts(attrs, x):
    f, s, d = unpack(attrs)
    k = attrs["ksize"][1:3] if f == "NHWC" else attrs["ksize"][2:4]
    p = pads_of(attrs["padding"], attrs.get("explicit_paddings"), f, x.shape[2:], k, s, d)
    return f, k, s, list(p[1]) + list(p[0])


def torch_max_pool(x, attrs):
    f, k, s, p = pool_parts(attrs, x)
    return F.max_pool2d(F.pad(x, p, value=-np.inf), k, s)


def torch_avg_pool(x, attrs):
    f, k, s, p = pool_parts(attrs, x)
    count = F.avg_pool2d(F.pad(torch.ones_like(x), p), k, s)
    return F.avg_pool2d(F.pad(x, p), k, s) / count


def pooled(torch_pool):
    def oracle(x, **attrs):
        f = attrs["data_format"]
        return from_nchw(torch_pool(to_nchw(wide_int(x), f), attrs), f).astype(x.dtype)
    return oracle


def wide_int(x):
    return x.astype(np.float64)


def pool_case(explicit, values):
    def gen(r):
        s, attrs = pool_attrs(r, explicit)
        return [values(r, s)], attrs
    return gen


def exact_ints(r, s):
    """Numbers that float64 holds."""
    return r.any(s) if r.T.itemsize < 8 and not is_float(r.T) else r.finite(s)


def max_grad_case(r):
    s, attrs = pool_attrs(r, True)
    x = r.finite(s) if r.chance(0.5) else r.rng.integers(0, 4, s).astype(float)  # ties too
    x = narrow(wide(x) if x.dtype.names else x, r.T)
    y = pooled(torch_max_pool)(wide(x), **attrs)
    return [x, narrow(y, r.T), r.finite(y.shape)], attrs


def max_pool_grad(x, y, g, **attrs):
    f = attrs["data_format"]
    tx = to_nchw(wide_int(x), f).requires_grad_()
    torch_max_pool(tx, attrs).backward(to_nchw(wide_int(g), f))
    return from_nchw(tx.grad, f).astype(g.dtype)


def avg_grad_case(r):
    s, attrs = pool_attrs(r)
    y = pooled(torch_avg_pool)(np.zeros(s), **attrs)
    return [np.asarray(s, np.int32), r.finite(y.shape)], attrs


def avg_pool_grad(shape, g, **attrs):
    f = attrs["data_format"]
    tx = to_nchw(np.zeros([int(d) for d in shape]), f).requires_grad_()
    torch_avg_pool(tx, attrs).backward(to_nchw(g, f))
    return from_nchw(tx.grad, f)


op("MaxPool", pool_case(True, exact_ints), pooled(torch_max_pool), types=FLOATS + INTS, zero_sign=False, n=20)
op("MaxPoolGrad", max_grad_case, max_pool_grad, types=FLOATS + INTS, sums=3, own_eps=True, zero_sign=False, n=20,
   scale=lambda x, y, g, **attrs: max_pool_grad(x, y, np.abs(g), **attrs))
op("AvgPool", pool_case(False, lambda r, s: r.finite(s)), pooled(torch_avg_pool), sums=3, zero_sign=False, n=20)
op("AvgPoolGrad", avg_grad_case, avg_pool_grad, sums=3, own_eps=True, zero_sign=False, n=20)


# ---- local response normalisation ----

def lrn_attrs(r):
    return {"depth_radius": r.int(0, 6), "bias": float(np.float32(r.pick([1, 2, 0.5]))),
            "alpha": float(np.float32(r.pick([1, 0.1, 1e-4]))), "beta": float(np.float32(r.pick([0.5, 0.75, 1, 0.3])))}


def lrn_case(r):
    return [r.finite((r.int(0, 2), r.int(1, 4), r.int(1, 4), r.int(1, 20)))], lrn_attrs(r)


def torch_lrn(x, depth_radius, bias, alpha, beta):
    sq = F.pad(x * x, [depth_radius, depth_radius])
    n = bias + alpha * sq.unfold(-1, 2 * depth_radius + 1, 1).sum(-1)
    return x / n ** beta


def lrn_grad_case(r):
    (x,), attrs = lrn_case(r)
    if x.size == 0:
        x = r.finite((1, 1, 2, 5))
    y = torch_lrn(tensor(wide(x)), **attrs).numpy()
    return [r.finite(x.shape), x, narrow(y, r.T)], attrs


def lrn_grad(g, x, y, **attrs):
    tx = tensor(x).requires_grad_()
    torch_lrn(tx, **attrs).backward(tensor(g))
    return tx.grad.numpy()


def lrn_grad_scale(g, x, y, **attrs):
    """Terms of both signs: |g| spread over the window."""
    return np.full(x.shape, np.max(np.abs(g)) * (1 + np.max(np.abs(x)) ** 2) * 4)


op("LRN", lrn_case, lambda x, **attrs: torch_lrn(tensor(x), **attrs).numpy(), ulp=8, n=20)
op("LRNGrad", lrn_grad_case, lrn_grad, sums=4, own_eps=True, scale=lrn_grad_scale, zero_sign=False, n=20)


# ---- batch normalisation ----

def norm_shape(r, data_format):
    s = (r.int(1, 4), r.int(1, 5), r.int(1, 5), r.int(1, 7)) if r.number % 5 else (4, 9, 8, 33)
    if len(data_format) == 5:
        s = s[:1] + (r.int(1, 3),) + s[1:]
    return s if data_format.endswith("C") else s[:1] + s[-1:] + s[1:-1]


def norm_formats(name):
    return ["NHWC", "NCHW"] + (["NDHWC", "NCDHW"] if name.endswith("V3") else [])


def norm_case(name):
    def gen(r):
        f = r.pick(norm_formats(name))
        s = norm_shape(r, f)
        c = s[-1 if f.endswith("C") else 1]
        training = r.chance(0.6)
        factor = r.pick([1.0, 0.25]) if training else 1.0
        mean = r.finite((c,), FLOAT) if not training or factor != 1 else np.zeros(0, np.float32)
        var = np.abs(r.finite((c,), FLOAT)) + np.float32(0.5) if mean.size else mean
        return [r.finite(s), r.finite((c,), FLOAT), r.finite((c,), FLOAT), mean, var.astype(np.float32)], {
            "epsilon": float(np.float32(r.pick([1e-3, 1e-4]))), "exponential_avg_factor": factor, "data_format": f,
            "is_training": training}
    return gen


def last(x, f):
    return x if f.endswith("C") else np.moveaxis(x, 1, -1)


def first(x, f):
    return x if f.endswith("C") else np.moveaxis(x, -1, 1)


def batch_norm(x, scale, offset, mean, var, epsilon, exponential_avg_factor, data_format, is_training):
    """y, and the statistics; what is kept for the gradient is the backward op's business."""
    v = last(x, data_format)
    flat = v.reshape(-1, v.shape[-1])
    m, n = flat.shape[0], exponential_avg_factor
    if not is_training:
        y = (v - mean) / np.sqrt(var + epsilon) * scale + offset
        return first(y, data_format), mean, var
    mu, biased = flat.mean(0), flat.var(0)
    y = (v - mu) / np.sqrt(biased + epsilon) * scale + offset
    new = biased * m / max(m - 1, 1)
    if n != 1:
        return first(y, data_format), (1 - n) * mean + n * mu, (1 - n) * var + n * new
    return first(y, data_format), mu, new


def norm_scale(x, scale, offset, mean, var, epsilon, data_format, is_training, **_):
    v = last(x, data_format)
    flat = v.reshape(-1, v.shape[-1])
    mu, variance = (flat.mean(0), flat.var(0)) if is_training else (mean, var)
    y = (np.abs(v) + np.abs(mu)) / np.sqrt(variance + epsilon) * np.abs(scale) + np.abs(offset)
    # A channel of few almost equal values: the error of the variance is that of x squared.
    y = y * (1 + np.mean(flat ** 2, 0) / (variance + epsilon))
    return first(y, data_format), np.mean(np.abs(flat), 0) + np.abs(mu), np.mean(flat ** 2, 0) + np.abs(variance) * 2


for name in ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"):
    op(name, norm_case(name), batch_norm, sums=4, scale=norm_scale, zero_sign=False, n=30, types=FLOATS)


def norm_grad_case(name):
    def gen(r):
        (x, scale, _, _, _), attrs = norm_case(name)(r)
        f = attrs["data_format"]
        v = last(wide(x), f).reshape(-1, scale.size)
        mean, var = (v.mean(0), v.var(0)) if attrs["is_training"] else (wide(r.finite((scale.size,), FLOAT)), v.var(0) + 0.3)
        del attrs["exponential_avg_factor"]
        r1, r2 = narrow(mean, FLOAT), narrow(var, FLOAT)
        return [r.finite(x.shape), x, scale, r1, r2] + ([np.float32([])] if name.endswith("V3") else []), attrs
    return gen


def norm_grad(dy, x, scale, mean, var, r3=None, epsilon=0, data_format="", is_training=True):
    g, v = last(dy, data_format), last(x, data_format)
    c, m = scale.size, v.size // scale.size
    i = 1 / np.sqrt(var + epsilon)
    by_scale = np.sum((g * (v - mean) * i).reshape(-1, c), 0)
    by_offset = np.sum(g.reshape(-1, c), 0)
    if not is_training:
        return first(g * scale * i, data_format), by_scale, by_offset
    dx = scale * i * (g - by_offset / m - (v - mean) * i * by_scale / m)
    return first(dx, data_format), by_scale, by_offset


def norm_grad_scale(dy, x, scale, mean, var, r3=None, epsilon=0, data_format="", is_training=True):
    g, v = np.abs(last(dy, data_format)), last(x, data_format)
    c, m = scale.size, v.size // scale.size
    i, d = 1 / np.sqrt(var + epsilon), np.abs(v) + np.abs(mean)
    by_scale, by_offset = np.sum((g * d * i).reshape(-1, c), 0), np.sum(g.reshape(-1, c), 0)
    dx = np.abs(scale) * i * (g + by_offset / m + d * i * by_scale / m)
    return first(dx, data_format), by_scale, by_offset


for name in ("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3"):
    op(name, norm_grad_case(name), norm_grad, sums=4, scale=norm_grad_scale, zero_sign=False, n=30, types=FLOATS)
