"""tests/oracle/programs.py -- random programs, built in our graph and in PyTorch alike, and the comparison of their gradients.

A maker (makers.py) adds one op to a program; it takes its inputs from what the program has so far or makes new ones.
"""
import numpy as np
import torch

from graph import Failure, Output, Type
from values import narrow, wide


class Pair:
    """One value of both worlds."""

    def __init__(self, out, t):
        self.out, self.t, self.shape = out, t, tuple(t.shape)


class Program:
    def __init__(self, seed, g, dtype=torch.float64, type=None):
        """torch computes in dtype, we in type."""
        self.rng, self.g, self.dtype = np.random.default_rng(seed), g, dtype
        self.type = np.dtype(type or {torch.float64: np.float64, torch.complex128: np.complex128}[dtype])
        self.inputs, self.pool, self.feeds, self.said = [], [], {}, []

    def int(self, lo, hi):
        return int(self.rng.integers(lo, hi, endpoint=True))

    def chance(self, p):
        return bool(self.rng.random() < p)

    def values(self, shape):
        """Numbers that our type holds, for torch."""
        a = self.rng.standard_normal(shape)
        return wide(narrow(a + 1j * self.rng.standard_normal(shape) if self.dtype.is_complex else a, self.type))

    def new(self, shape):
        """An input: fed, its shape known to the graph or not."""
        a = self.values(shape)
        p = Pair(self.g.feed(self.type, tuple(shape) if self.chance(0.5) else None), torch.from_numpy(a.copy()).requires_grad_())
        self.feeds[p.out] = narrow(a, self.type)
        self.inputs.append(p)
        self.pool.append(p)
        return p

    def const(self, a):
        a = narrow(np.asarray(a), self.type)
        return Pair(self.g.const(a), torch.from_numpy(np.array(wide(a))))

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
                [] if self.dtype == torch.float64 else [self.const(1 / 16)]),
                torch.tanh if self.dtype == torch.float64 else torch.mul)
        return p

    def add(self, maker):
        out = maker(self)
        for p in out if isinstance(out, list) else [out]:
            self.pool.append(self.small(p))


def broadcasts(a, b):
    return all(x == y or x == 1 or y == 1 for x, y in zip(a[::-1], b[::-1]))


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
        w = b.const(w)
        y, t = b.g.op("Mul", [p.out, w.out]), p.t * w.t
        if p.t.is_complex():
            y, t = b.g.op("Real", [y], Tout=Type(np.float64)), t.real
        total.append(b.g.op("Sum", [y, np.arange(len(p.shape), dtype=np.int32)]))
        t_total = t_total + t.sum()
    return Pair(b.g.op("AddN", [total]), t_total)


def ends(b):
    """What no other op of the program took, as far as torch knows; at least the last value."""
    return [p for p in b.pool[len(b.pool) // 2:] if p.t.requires_grad] or [b.pool[-1]]


def close(name, got, want, tol):
    got, want = wide(got), want.detach().resolve_conj().numpy()
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


def checked(b, what="", second=False, tol=1e-7):
    """Compares, says which program it was when it is wrong, and ends it."""
    try:
        compare(b, second, tol)
    except (Wrong, Failure) as e:
        raise AssertionError(f"{what} {' '.join(b.said)}: {e}") from None
    finally:
        b.g.close()
