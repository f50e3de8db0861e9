"""tests/oracle/nn_more.py -- CTC, dilation, pools with places, fractional pools, padded and general convolutions."""
import itertools

import numpy as np
import torch
import torch.nn.functional as F

from graph import Graph, Type
from nn import same_pads
from table import covers

RNG = np.random.default_rng(1)


def evaluate(name, inputs, outputs=1, **attrs):
    g = Graph()
    y = g.op(name, inputs, **attrs)
    got = g.run([y[i] for i in range(outputs)])
    g.close()
    return got


def near(a, b, tol=1e-5):
    assert np.allclose(a, b, rtol=tol, atol=tol), (a, b)


# ---- CTC ----

def sparse(rows):
    at = [[b, i] for b, row in enumerate(rows) for i in range(len(row))]
    return np.int64(at).reshape(-1, 2), np.int32([v for row in rows for v in row])


@covers("CTCLoss", "CTCLossV2")
def test_ctc_loss_and_its_gradient_are_those_of_pytorch():
    time, batch, classes = int(RNG.integers(4, 9)), int(RNG.integers(1, 4)), int(RNG.integers(2, 6))
    x = RNG.standard_normal((time, batch, classes)) * 2
    lengths = RNG.integers(4, time + 1, batch).astype(np.int32)
    rows = [list(RNG.integers(0, classes - 1, RNG.integers(1, 3))) for _ in range(batch)]
    for name, t, blank in (("CTCLoss", np.float32, classes - 1), ("CTCLoss", np.float64, classes - 1), ("CTCLossV2", np.float32, 0)):
        own = rows if blank else [[v + 1 for v in row] for row in rows]
        logits = torch.tensor(x.astype(t), dtype=torch.float64, requires_grad=True)
        want = F.ctc_loss(torch.log_softmax(logits, 2), torch.tensor([v for row in own for v in row]), torch.tensor(lengths),
                          torch.tensor([len(row) for row in own]), blank=blank, reduction="none")
        want.sum().backward()
        loss, grad = evaluate(name, [x.astype(t), *sparse(own), lengths], 2)
        near(loss, want.detach().numpy(), 1e-4)
        near(grad, logits.grad.numpy(), 1e-4)


def collapse(path, blank):
    return tuple(k for k, _ in itertools.groupby(path) if k != blank)


def all_sequences(p):
    """The probability of each sequence of labels, by all paths."""
    odds = {}
    for path in itertools.product(range(p.shape[1]), repeat=len(p)):
        s = collapse(path, p.shape[1] - 1)
        odds[s] = odds.get(s, 0) + np.prod([p[t, k] for t, k in enumerate(path)])
    return sorted(odds.items(), key=lambda i: -i[1])


@covers("CTCBeamSearchDecoder")
def test_a_wide_beam_finds_the_likeliest_sequences():
    time, classes, paths = int(RNG.integers(1, 5)), int(RNG.integers(2, 4)), 2
    x = RNG.standard_normal((time, 1, classes)) * 2
    p = np.exp(x[:, 0]) / np.exp(x[:, 0]).sum(1, keepdims=True)
    want = all_sequences(p)
    got = evaluate("CTCBeamSearchDecoder", [x, np.int32([time])], 3 * paths + 1, beam_width=200, top_paths=paths,
                   merge_repeated=False)
    near(np.exp(got[-1][0]), [o for _, o in want[:paths]])
    for i in range(paths):
        assert np.isclose(dict(want)[tuple(got[paths + i])], want[i][1])
        assert list(got[2 * paths + i]) == [1, len(got[paths + i])]


@covers("CTCGreedyDecoder")
def test_greedy_decoding_takes_the_largest():
    time, batch, classes = 6, 3, 4
    x, lengths = RNG.standard_normal((time, batch, classes)), RNG.integers(0, 7, 3).astype(np.int32)
    for merge in (False, True):
        at, values, shape, score = evaluate("CTCGreedyDecoder", [x, lengths], 4, merge_repeated=merge)
        best = [list(x[:lengths[b], b].argmax(1)) for b in range(batch)]
        rows = [[k for k, _ in itertools.groupby(row)] if merge else row for row in best]
        rows = [[k for k in row if k != classes - 1] for row in rows]
        want_at, want = sparse(rows)
        assert np.array_equal(at, want_at) and np.array_equal(values, want)
        assert list(shape) == [batch, max(len(row) for row in rows)]
        near(score[:, 0], [-x[:lengths[b], b].max(1).sum() for b in range(batch)])


# ---- dilation ----

def patches(x, fh, fw, strides, rates, padding):
    """Of every window the numbers under the filter, -inf where padding is: [n, y, x, tap, c]."""
    pads = [(0, 0)] + [same_pads(x.shape[1 + i], (fh, fw)[i], strides[i], rates[i]) if padding == "SAME" else (0, 0)
                       for i in range(2)] + [(0, 0)]
    x = np.pad(x, pads, constant_values=-np.inf)
    out = [(x.shape[1 + i] - ((fh, fw)[i] - 1) * rates[i] - 1) // strides[i] + 1 for i in range(2)]
    return np.stack([x[:, i * rates[0]:i * rates[0] + (out[0] - 1) * strides[0] + 1:strides[0],
                       j * rates[1]:j * rates[1] + (out[1] - 1) * strides[1] + 1:strides[1]]
                     for i in range(fh) for j in range(fw)], 3)


@covers("Dilation2D", "Dilation2DBackpropInput", "Dilation2DBackpropFilter")
def test_dilation_and_its_gradients():
    n, h, w, c = 2, int(RNG.integers(4, 8)), int(RNG.integers(4, 8)), 2
    fh, fw = int(RNG.integers(1, 4)), int(RNG.integers(1, 4))
    strides, padding = [int(RNG.integers(1, 3)), int(RNG.integers(1, 3))], str(RNG.choice(["SAME", "VALID"]))
    rates = [1, int(RNG.integers(1, 3)) if fw <= 2 else 1]
    x, f = RNG.standard_normal((n, h, w, c)), RNG.standard_normal((fh, fw, c))
    attrs = dict(strides=[1] + strides + [1], rates=[1] + rates + [1], padding=padding)
    sums = patches(x, fh, fw, strides, rates, padding) + f.reshape(-1, c)
    y, = evaluate("Dilation2D", [x, f], **attrs)
    near(y, sums.max(3), 0)
    d = RNG.standard_normal(y.shape)
    df, = evaluate("Dilation2DBackpropFilter", [x, f, d], **attrs)
    want = np.zeros((fh * fw, c))
    for i in np.ndindex(*y.shape):
        want[sums[i[:3] + (slice(None), i[3])].argmax(), i[3]] += d[i]
    near(df, want.reshape(f.shape))
    dx, = evaluate("Dilation2DBackpropInput", [x, f, d], **attrs)
    near(dx.sum(), d.sum())
    step = 1e-6  # the sum of d y is linear around x where no two sums are equal
    moved = RNG.standard_normal(x.shape)
    slope = ((evaluate("Dilation2D", [x + step * moved, f], **attrs)[0] - y) * d).sum() / step
    assert np.isclose(slope, (dx * moved).sum(), rtol=1e-3, atol=1e-4)


# ---- pools ----

def pool_case():
    x = RNG.permutation(2 * 7 * 6 * 3).reshape(2, 7, 6, 3)
    k, s = [int(v) for v in RNG.integers(1, 4, 2)], [int(v) for v in RNG.integers(1, 4, 2)]
    return x, k, s, str(RNG.choice(["SAME", "VALID"]))


def torch_pool(x, k, s, padding):
    t = torch.tensor(x, dtype=torch.float64).permute(0, 3, 1, 2)
    pads = [same_pads(x.shape[1 + i], k[i], s[i]) if padding == "SAME" else (0, 0) for i in range(2)]
    t = F.pad(t, (*pads[1], *pads[0]), value=-1)
    y, at = F.max_pool2d(t, k, s, return_indices=True)
    row, col = at // t.shape[3] - pads[0][0], at % t.shape[3] - pads[1][0]
    place = (row * x.shape[2] + col) * x.shape[3] + torch.arange(x.shape[3]).reshape(1, -1, 1, 1)
    return y.permute(0, 2, 3, 1).numpy(), place.permute(0, 2, 3, 1).numpy()


@covers("MaxPoolWithArgmax", "MaxPoolGradWithArgmax", "MaxPoolGradGradWithArgmax")
def test_pools_tell_where_their_maxima_are():
    x, k, s, padding = pool_case()
    want, places = torch_pool(x, k, s, padding)
    size = x[0].size
    for t in (np.float32, np.int64, np.int16):
        for batch in (False, True):
            attrs = dict(ksize=[1] + k + [1], strides=[1] + s + [1], padding=padding, include_batch_in_index=batch)
            at = places + (np.arange(2).reshape(2, 1, 1, 1) * size if batch else 0)
            y, got = evaluate("MaxPoolWithArgmax", [x.astype(t)], 2, **attrs)
            assert np.array_equal(y, want.astype(t)) and np.array_equal(got, at)
            d = RNG.integers(-9, 9, y.shape).astype(t)
            flat = np.zeros(2 * size, t)
            whole = places + np.arange(2).reshape(2, 1, 1, 1) * size
            np.add.at(flat, whole.ravel(), d.ravel())
            back, = evaluate("MaxPoolGradWithArgmax", [x.astype(t), d, at.astype(np.int32)], **attrs)
            assert np.array_equal(back.ravel(), flat)
            dd, = evaluate("MaxPoolGradGradWithArgmax", [x.astype(t), back, at], **attrs)
            assert np.array_equal(dd, flat[whole])


@covers("MaxPoolV2", "MaxPoolGradV2", "MaxPoolGradGradV2")
def test_pools_with_windows_as_inputs_are_those_with_attrs():
    x, k, s, padding = pool_case()
    x = x.astype(np.float32)
    size, step = [1] + k + [1], [1] + s + [1]
    y, = evaluate("MaxPool", [x], ksize=size, strides=step, padding=padding)
    d = RNG.standard_normal(y.shape).astype(np.float32)
    dx, = evaluate("MaxPoolGrad", [x, y, d], ksize=size, strides=step, padding=padding)
    window = [np.int32(size), np.int32(step)]
    assert np.array_equal(evaluate("MaxPoolV2", [x] + window, padding=padding)[0], y)
    assert np.array_equal(evaluate("MaxPoolGradV2", [x, y, d] + window, padding=padding)[0], dx)
    dd, = evaluate("MaxPoolGradGrad", [x, y, dx], ksize=size, strides=step, padding=padding)
    assert np.array_equal(evaluate("MaxPoolGradGradV2", [x, y, dx] + window, padding=padding)[0], dd)


@covers("FractionalMaxPool", "FractionalAvgPool", "FractionalMaxPoolGrad", "FractionalAvgPoolGrad")
def test_fractional_pools_by_the_sequences_they_tell():
    x = RNG.permutation(2 * 9 * 11 * 2).reshape(2, 9, 11, 2).astype(np.float64)
    ratio = [1.0, float(RNG.uniform(1, 3)), float(RNG.uniform(1, 3)), 1.0]
    overlap, pseudo = bool(RNG.integers(2)), bool(RNG.integers(2))
    for kind, f in (("Max", np.max), ("Avg", np.mean)):
        y, rows, cols = evaluate(f"Fractional{kind}Pool", [x], 3, pooling_ratio=ratio, overlapping=overlap, pseudo_random=pseudo)
        for at, n, r in ((rows, 9, ratio[1]), (cols, 11, ratio[2])):
            out = int(np.floor(np.float32(n) / np.float32(r)))
            sizes = np.diff(at)
            assert len(at) == out + 1 and at[0] == 0 and at[-1] == n and set(sizes) <= {n // out, n // out + 1}
        d, dx = RNG.standard_normal(y.shape), np.zeros(x.shape)
        for i in range(len(rows) - 1):
            for j in range(len(cols) - 1):
                a, b = slice(rows[i], rows[i + 1] + overlap), slice(cols[j], cols[j + 1] + overlap)
                part = x[:, a, b]
                near(y[:, i, j], f(part, (1, 2)))
                share = d[:, i, j][:, None, None]
                dx[:, a, b] += (part == part.max((1, 2), keepdims=True)) * share if kind == "Max" else share / (
                    part.shape[1] * part.shape[2])
        first = [x, y] if kind == "Max" else [np.int64(x.shape)]
        back, = evaluate(f"Fractional{kind}PoolGrad", first + [d, rows, cols], overlapping=overlap)
        near(back, dx)


# ---- layouts ----

@covers("DataFormatDimMap", "DataFormatVecPermute")
def test_layouts_are_permutations_of_letters():
    letters = str(RNG.choice(["NHWC", "NDHWC"]))
    src, dst = ("".join(RNG.permutation(list(letters))) for _ in range(2))
    n = len(letters)
    x = RNG.integers(-n, n, 7)
    assert np.array_equal(evaluate("DataFormatDimMap", [x], src_format=src, dst_format=dst)[0],
                          [dst.index(src[v]) for v in x])
    v = RNG.integers(0, 99, (n, 2)).astype(np.int32)
    got, = evaluate("DataFormatVecPermute", [v], src_format=src, dst_format=dst)
    assert np.array_equal(got, [v[src.index(k)] for k in dst])


# ---- convolutions, by Conv2D, which nn.py compares ----

def conv(x, w, **attrs):
    return evaluate("Conv2D", [x, w], **attrs)[0]


@covers("FusedPadConv2D", "FusedResizeAndPadConv2D")
def test_padding_before_a_convolution():
    x, w = RNG.standard_normal((1, 5, 6, 2)), RNG.standard_normal((2, 3, 2, 4))
    pads = np.int32([[0, 0], RNG.integers(0, 4, 2), RNG.integers(0, 4, 2), [0, 0]])
    mode = str(RNG.choice(["REFLECT", "SYMMETRIC"]))
    attrs = dict(strides=[1, 1, 1, 1], padding=str(RNG.choice(["SAME", "VALID"])))
    want = conv(np.pad(x, pads, mode.lower()), w, **attrs)
    near(evaluate("FusedPadConv2D", [x, pads, w], mode=mode, **attrs)[0], want)
    size = np.int32([7, 4])
    resized, = evaluate("ResizeBilinear", [x, size], align_corners=True)
    want = conv(np.pad(resized, pads, mode.lower()).astype(float), w, **attrs) if mode == "SYMMETRIC" or pads.max() < 4 else None
    if want is not None:
        near(evaluate("FusedResizeAndPadConv2D", [x, size, pads, w], mode=mode, resize_align_corners=True, **attrs)[0], want)


@covers("Conv")
def test_general_convolution_in_one_two_and_three_dimensions():
    for n, f in ((1, F.conv1d), (2, F.conv2d), (3, F.conv3d)):
        groups = int(RNG.integers(1, 3))
        x, w = RNG.standard_normal((2, 4) + (6,) * n), RNG.standard_normal((4, 4 // groups) + (3,) * n)
        strides, dilations = [int(RNG.integers(1, 3))] * n, [int(RNG.integers(1, 3))] * n
        want = f(torch.tensor(x), torch.tensor(w), stride=strides, dilation=dilations, groups=groups).numpy()
        filters = np.moveaxis(w, (0, 1), (-1, -2))
        steps = dict(padding="VALID", groups=groups)
        near(evaluate("Conv", [x, filters], data_format="CHANNELS_FIRST", strides=[1, 1] + strides,
                      dilations=[1, 1] + dilations, **steps)[0], want)
        last, = evaluate("Conv", [np.moveaxis(x, 1, -1)[None], filters], strides=[1] + strides + [1],
                         dilations=[1] + dilations + [1], batch_dims=2, **steps)
        near(np.moveaxis(last[0], -1, 1), want)


@covers("Conv2DBackpropInputV2", "Conv2DBackpropFilterV2")
def test_gradients_by_the_tensor_are_those_by_its_shape():
    x, w = RNG.standard_normal((2, 6, 5, 2)), RNG.standard_normal((3, 2, 2, 3))
    attrs = dict(strides=[1, 2, 1, 1], padding=str(RNG.choice(["SAME", "VALID"])))
    d = RNG.standard_normal(conv(x, w, **attrs).shape)
    near(evaluate("Conv2DBackpropInputV2", [x, w, d], **attrs)[0],
         evaluate("Conv2DBackpropInput", [np.int32(x.shape), w, d], **attrs)[0], 0)
    near(evaluate("Conv2DBackpropFilterV2", [x, w, d], **attrs)[0],
         evaluate("Conv2DBackpropFilter", [x, np.int32(w.shape), d], **attrs)[0], 0)
