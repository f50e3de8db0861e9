"""tests/oracle/rnn.py -- single steps of recurrent cells, in numpy, and their gradients by PyTorch."""
import numpy as np
import torch

from graph import Graph
from table import covers

RNG = np.random.default_rng(1)


def some(*shape):
    return (RNG.standard_normal(shape) * 0.7).astype(np.float32)


def near(a, b, tol=2e-5):
    assert np.allclose(a, b, rtol=tol, atol=tol), np.max(np.abs(a - b))


def leaf(a):
    return torch.tensor(a, dtype=torch.float64, requires_grad=True)


def lstm(x, cs, h, w, wci, wcf, wco, b, forget, clip, hole):
    i, ci, f, o = (torch.cat([x, h], 1) @ w + b).chunk(4, 1)
    i = torch.sigmoid(i + (wci * cs if hole else 0))
    f = torch.sigmoid(f + forget + (wcf * cs if hole else 0))
    ci = torch.tanh(ci)
    new = i * ci + f * cs
    new = torch.clamp(new, -clip, clip) if clip > 0 else new
    o = torch.sigmoid(o + (wco * new if hole else 0))
    co = torch.tanh(new)
    return i, new, f, o, ci, co, o * co


@covers("LSTMBlockCell", "LSTMBlockCellGrad")
def test_lstm_block_cell_and_its_gradient():
    batch, n, cells, hole = int(RNG.integers(1, 4)), int(RNG.integers(1, 5)), int(RNG.integers(1, 6)), bool(RNG.integers(2))
    args = [some(batch, n), some(batch, cells), some(batch, cells), some(n + cells, 4 * cells), some(cells), some(cells),
            some(cells), some(4 * cells)]
    for clip in (0.0, 0.3):
        g = Graph()
        xs = [g.const(a) for a in args]
        y = g.op("LSTMBlockCell", xs, use_peephole=hole, cell_clip=clip, forget_bias=0.5)
        leaves = [leaf(a) for a in args]
        want = lstm(*leaves, 0.5, clip, hole)
        for i, v in enumerate(g.run([y[i] for i in range(7)])):
            near(v, want[i].detach().numpy())
        if clip == 0:  # the gradient does not see the clipping
            d_cs, d_h = some(batch, cells), some(batch, cells)
            got = g.run(g.gradients([y[1], y[6]], xs, [g.const(d_cs), g.const(d_h)]))
            (want[1] * torch.tensor(d_cs)).sum().add((want[6] * torch.tensor(d_h)).sum()).backward()
            for a, b in zip(got, leaves):
                near(a, np.zeros(b.shape) if b.grad is None else b.grad.numpy(), 1e-4)
        g.close()


@covers("GRUBlockCell", "GRUBlockCellGrad")
def test_gru_block_cell_and_its_gradient():
    batch, n, cells = int(RNG.integers(1, 4)), int(RNG.integers(1, 5)), int(RNG.integers(1, 6))
    args = [some(batch, n), some(batch, cells), some(n + cells, 2 * cells), some(n + cells, cells), some(2 * cells), some(cells)]
    g = Graph()
    xs = [g.const(a) for a in args]
    y = g.op("GRUBlockCell", xs)
    x, h, wru, wc, bru, bc = leaves = [leaf(a) for a in args]
    r, u = torch.sigmoid(torch.cat([x, h], 1) @ wru + bru).chunk(2, 1)
    c = torch.tanh(torch.cat([x, r * h], 1) @ wc + bc)
    want = r, u, c, u * h + (1 - u) * c
    for i, v in enumerate(g.run([y[i] for i in range(4)])):
        near(v, want[i].detach().numpy())
    d = some(batch, cells)
    got = g.run(g.gradients([y[3]], xs, [g.const(d)]))
    (want[3] * torch.tensor(d)).sum().backward()
    for a, b in zip(got, leaves):
        near(a, b.grad.numpy(), 1e-4)
    g.close()
