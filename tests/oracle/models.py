"""tests/oracle/models.py -- convolutions, pools, optimizers and whole networks against PyTorch, forward and backward."""
import numpy as np
import torch
import torch.nn.functional as F

from graph import Graph, Type

RNG = np.random.default_rng(1)


def rand(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def near(a, b, tol=1e-4):
    b = np.asarray(b.detach().numpy() if isinstance(b, torch.Tensor) else b)
    assert a.shape == b.shape, f"shape {a.shape}, expected {b.shape}"
    scale = max(1e-6, float(np.max(np.abs(b)))) if b.size else 1
    worst = float(np.max(np.abs(a - b))) / scale if b.size else 0
    assert worst <= tol, f"off by {worst:.2g} of {scale:.3g}"


def one(op, arrays, outputs=1, **attrs):
    g = Graph()
    y = g.op(op, list(arrays), **attrs)
    return g.run([y[i] for i in range(outputs)])


def nchw(x):
    return torch.from_numpy(np.ascontiguousarray(x.transpose(0, 3, 1, 2)))


def nhwc(t):
    return t.detach().numpy().transpose(0, 2, 3, 1)


def same_pad(x, k, s, d=1, value=0.0):
    """TensorFlow's SAME padding on an NCHW tensor: the odd cell goes behind."""
    pads = []
    for n in (x.shape[3], x.shape[2]):
        out, e = -(-n // s), (k - 1) * d + 1
        p = max(0, (out - 1) * s + e - n)
        pads += [p // 2, p - p // 2]
    return F.pad(x, pads, value=value)


def conv_case():
    k, s = int(RNG.integers(1, 6)), int(RNG.integers(1, 4))
    d = int(RNG.integers(1, 3)) if s == 1 else 1
    n, h, w = int(RNG.integers(1, 4)), int(RNG.integers(k * d, 14)), int(RNG.integers(k * d, 14))
    cin, cout = int(RNG.integers(1, 9)), int(RNG.integers(1, 20))
    return k, s, d, rand(n, h, w, cin), rand(k, k, cin, cout)


def torch_conv(x, w, s, d, padding):
    k = w.shape[2]
    if padding == "SAME":
        x = same_pad(x, k, s, d)
    return F.conv2d(x, w, stride=s, dilation=d)


def test_conv2d_and_its_gradients():
    k, s, d, x, w = conv_case()
    padding = "SAME" if RNG.random() < 0.5 else "VALID"
    tx, tw = nchw(x).requires_grad_(), torch.from_numpy(w.transpose(3, 2, 0, 1).copy()).requires_grad_()
    ty = torch_conv(tx, tw, s, d, padding)
    dy = rand(*nhwc(ty).shape)
    ty.backward(nchw(dy))
    g = Graph()
    gx, gw = g.feed(np.float32), g.feed(np.float32)
    y = g.op("Conv2D", [gx, gw], strides=[1, s, s, 1], padding=padding, dilations=[1, d, d, 1])
    dx, dw = g.gradients([y], [gx, gw], [g.const(dy)])
    y, dx, dw = g.run([y, dx, dw], {gx: x, gw: w})
    near(y, nhwc(ty))
    near(dx, nhwc(tx.grad))
    near(dw, tw.grad.numpy().transpose(2, 3, 1, 0))


def test_max_pool_and_its_gradient():
    k, s = int(RNG.integers(1, 5)), int(RNG.integers(1, 4))
    x = rand(2, int(RNG.integers(k, 12)), int(RNG.integers(k, 12)), 5)
    padding = "SAME" if RNG.random() < 0.5 else "VALID"
    tx = nchw(x).requires_grad_()
    px = same_pad(tx, k, s, value=float("-inf")) if padding == "SAME" else tx
    ty = F.max_pool2d(px, k, s)
    dy = rand(*nhwc(ty).shape)
    ty.backward(nchw(dy))
    g = Graph()
    gx = g.feed(np.float32)
    y = g.op("MaxPool", [gx], ksize=[1, k, k, 1], strides=[1, s, s, 1], padding=padding)
    dx, = g.gradients([y], [gx], [g.const(dy)])
    y, dx = g.run([y, dx], {gx: x})
    near(y, nhwc(ty))
    near(dx, nhwc(tx.grad))


def test_avg_pool_and_its_gradient():
    k, s = int(RNG.integers(1, 5)), int(RNG.integers(1, 4))
    x = rand(2, int(RNG.integers(k, 12)), int(RNG.integers(k, 12)), 5)
    padding = "SAME" if RNG.random() < 0.5 else "VALID"
    tx = nchw(x).requires_grad_()
    if padding == "SAME":  # divides by the real cells only
        ones = same_pad(torch.ones_like(tx), k, s)
        ty = F.avg_pool2d(same_pad(tx, k, s), k, s) / F.avg_pool2d(ones, k, s)
    else:
        ty = F.avg_pool2d(tx, k, s)
    dy = rand(*nhwc(ty).shape)
    ty.backward(nchw(dy))
    g = Graph()
    gx = g.feed(np.float32)
    y = g.op("AvgPool", [gx], ksize=[1, k, k, 1], strides=[1, s, s, 1], padding=padding)
    dx, = g.gradients([y], [gx], [g.const(dy)])
    y, dx = g.run([y, dx], {gx: x})
    near(y, nhwc(ty))
    near(dx, nhwc(tx.grad))


def test_batch_norm_training_and_its_gradient():
    x, scale, offset = rand(4, 5, 6, 7), rand(7), rand(7)
    tx, ts, to = nchw(x).requires_grad_(), torch.from_numpy(scale).requires_grad_(), torch.from_numpy(offset).requires_grad_()
    mean, var = torch.zeros(7), torch.ones(7)
    ty = F.batch_norm(tx, mean, var, ts, to, True, 1.0, 1e-3)
    dy = rand(4, 5, 6, 7)
    ty.backward(nchw(dy))
    g = Graph()
    gx, gs, go = g.feed(np.float32), g.feed(np.float32), g.feed(np.float32)
    empty = np.zeros(0, np.float32)
    y = g.op("FusedBatchNormV3", [gx, gs, go, empty, empty], epsilon=1e-3, is_training=True)
    grads = g.gradients([y], [gx, gs, go], [g.const(dy)])
    out = g.run([y, y[1], y[2]] + grads, {gx: x, gs: scale, go: offset})
    near(out[0], nhwc(ty))
    near(out[1], mean)
    near(out[2], var)  # both have Bessel's correction
    near(out[3], nhwc(tx.grad), 5e-4)
    near(out[4], ts.grad)
    near(out[5], to.grad)


def test_softmax_and_cross_entropy():
    x, labels = rand(6, 9) * 5, RNG.integers(0, 9, 6)
    near(one("Softmax", [x])[0], F.softmax(torch.from_numpy(x), -1))
    near(one("LogSoftmax", [x])[0], F.log_softmax(torch.from_numpy(x), -1))
    tx = torch.from_numpy(x).requires_grad_()
    tl = F.cross_entropy(tx, torch.from_numpy(labels), reduction="none")
    tl.sum().backward()
    loss, back = one("SparseSoftmaxCrossEntropyWithLogits", [x, labels.astype(np.int64)], 2)
    near(loss, tl)
    near(back, tx.grad)


class Variables:
    """Resource variables of a graph, set to arrays."""

    def __init__(self, g, arrays):
        self.g, self.handles, inits = g, [], []
        for i, a in enumerate(arrays):
            h = g.op("VarHandleOp", [], dtype=Type(a.dtype), shape=a.shape, shared_name=f"v{i}")
            inits.append(g.op("AssignVariableOp", [h, g.const(a)], dtype=Type(a.dtype)))
            self.handles.append(h)
        g.run([], targets=inits)

    def read(self):
        g = self.g
        return g.run([g.op("ReadVariableOp", [h], dtype=Type(np.float32)) for h in self.handles])


def optimizer_steps(make, torch_optimizer, arrays, steps=4):
    w = arrays[0]
    tw = torch.from_numpy(w.copy()).requires_grad_()
    opt = torch_optimizer([tw])
    g = Graph()
    v = Variables(g, arrays)
    grad = g.feed(np.float32)
    for step in range(1, steps + 1):
        d = rand(*w.shape)
        tw.grad = torch.from_numpy(d.copy())
        opt.step()
        g.run([], {grad: d}, [make(g, v.handles, grad, step)])
    near(v.read()[0], tw, 1e-5)


def test_optimizers():
    f, w = np.float32, rand(5, 7)
    zero = np.zeros_like(w)
    optimizer_steps(lambda g, h, d, t: g.op("ResourceApplyGradientDescent", [h[0], f(.1), d]),
                    lambda p: torch.optim.SGD(p, lr=.1), [w])
    optimizer_steps(lambda g, h, d, t: g.op("ResourceApplyMomentum", [h[0], h[1], f(.1), d, f(.9)]),
                    lambda p: torch.optim.SGD(p, lr=.1, momentum=.9), [w, zero])
    optimizer_steps(lambda g, h, d, t: g.op("ResourceApplyMomentum", [h[0], h[1], f(.1), d, f(.9)], use_nesterov=True),
                    lambda p: torch.optim.SGD(p, lr=.1, momentum=.9, nesterov=True), [w, zero])
    optimizer_steps(lambda g, h, d, t: g.op("ResourceApplyAdagrad", [h[0], h[1], f(.1), d]),
                    lambda p: torch.optim.Adagrad(p, lr=.1, initial_accumulator_value=.1, eps=0), [w, zero + f(.1)])
    optimizer_steps(lambda g, h, d, t: g.op("ResourceApplyAdam", [h[0], h[1], h[2], f(.9 ** t), f(.999 ** t), f(.01), f(.9),
                                                                  f(.999), f(1e-12), d]),
                    lambda p: torch.optim.Adam(p, lr=.01, eps=1e-12), [w, zero, zero])
    optimizer_steps(lambda g, h, d, t: g.op("ResourceApplyRMSProp", [h[0], h[1], h[2], f(.01), f(.9), f(0), f(0), d]),
                    lambda p: torch.optim.RMSprop(p, lr=.01, alpha=.9, eps=0), [w, zero, zero])


def test_gradients_of_a_cnn():
    x, labels = rand(4, 12, 12, 1), RNG.integers(0, 5, 4)
    w1, b1, w2, b2 = rand(5, 5, 1, 6) * .3, rand(6), rand(6 * 6 * 6, 5) * .1, rand(5)
    tp = [torch.from_numpy(v.copy()).requires_grad_() for v in (w1, b1, w2, b2)]
    h = F.conv2d(same_pad(nchw(x), 5, 1), tp[0].permute(3, 2, 0, 1)) + tp[1].view(1, -1, 1, 1)
    h = F.max_pool2d(F.relu(h), 2).permute(0, 2, 3, 1).reshape(4, -1)
    F.cross_entropy(h @ tp[2] + tp[3], torch.from_numpy(labels)).backward()
    g = Graph()
    p = [g.feed(np.float32) for _ in tp]
    y = g.op("BiasAdd", [g.op("Conv2D", [g.const(x), p[0]], strides=[1, 1, 1, 1], padding="SAME"), p[1]])
    y = g.op("MaxPool", [g.op("Relu", [y])], ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID")
    y = g.op("Reshape", [y, np.int32([4, -1])])
    y = g.op("BiasAdd", [g.op("MatMul", [y, p[2]]), p[3]])
    y = g.op("SparseSoftmaxCrossEntropyWithLogits", [y, labels.astype(np.int64)])
    loss = g.op("Mean", [y, np.int32([0])])
    got = g.run(g.gradients([loss], p), dict(zip(p, (w1, b1, w2, b2))))
    for a, b in zip(got, tp):
        near(a, b.grad)


def test_gradients_of_an_lstm_in_a_while_loop():
    steps, batch, n_in, cell = 5, 3, 4, 6
    x, w, b = rand(steps, batch, n_in), rand(n_in + cell, 4 * cell) * .5, rand(4 * cell)
    tx, tw, tb = (torch.from_numpy(v.copy()).requires_grad_() for v in (x, w, b))
    h = s = torch.zeros(batch, cell)
    for t in range(steps):
        i, j, f, o = torch.chunk(torch.cat([tx[t], h], 1) @ tw + tb, 4, 1)
        s = s * torch.sigmoid(f + 1) + torch.sigmoid(i) * torch.tanh(j)
        h = torch.tanh(s) * torch.sigmoid(o)
    (h ** 2).sum().backward()

    def body(g, v):
        t, gs, gh, gx, gw, gb = v
        row = g.op("GatherV2", [gx, t, np.int32(0)])
        z = g.op("ConcatV2", [[row, gh], g.const(np.int32(1))])
        z = g.op("BiasAdd", [g.op("MatMul", [z, gw]), gb])
        parts = g.op("Split", [np.int32(1), z], num_split=4)
        i, j, f, o = (parts[k] for k in range(4))
        f = g.op("Sigmoid", [g.op("Add", [f, np.float32(1)])])
        new_s = g.op("Add", [g.op("Mul", [gs, f]), g.op("Mul", [g.op("Sigmoid", [i]), g.op("Tanh", [j])])])
        new_h = g.op("Mul", [g.op("Tanh", [new_s]), g.op("Sigmoid", [o])])
        return [g.op("Add", [t, np.int32(1)]), new_s, new_h, g.op("Identity", [gx]), g.op("Identity", [gw]),
                g.op("Identity", [gb])]

    g = Graph()
    px, pw, pb = (g.feed(np.float32) for _ in range(3))
    zero = np.zeros((batch, cell), np.float32)
    start = [g.const(np.int32(0)), g.const(zero), g.const(zero), px, pw, pb]
    out = g.while_loop(start, lambda gc, v: gc.op("Less", [v[0], np.int32(steps)]), body)
    loss = g.op("Sum", [g.op("Square", [out[2]]), np.int32([0, 1])])
    got = g.run([out[2]] + g.gradients([loss], [px, pw, pb]), {px: x, pw: w, pb: b})
    near(got[0], h)
    for a, t in zip(got[1:], (tx, tw, tb)):
        near(a, t.grad)
