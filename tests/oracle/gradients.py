"""tests/oracle/gradients.py -- our symbolic gradients against PyTorch's automatic ones: of each op alone, of random programs
made of many ops, of loops around such programs, and of gradients themselves."""
import numpy as np
import torch

import shape_makers  # noqa: adds to MAKERS
from graph import BFLOAT16, Failure, Graph, Type
from makers import MAKERS, two
from opdefs import OPS
from programs import Body, Nowhere, Pair, Program, Wrong, checked, compare
from table import SEED, covers
from values import FLOAT, HALF

RNG = np.random.default_rng(1)


def new_seed():
    return [SEED, int(RNG.integers(0, 1 << 31))]


def each_alone(makers, dtype, second, type=None, tol=1e-9):
    wrong = []
    for name in makers:
        b = Program(new_seed(), Graph(), dtype, type)
        try:
            b.add(makers[name])
            compare(b, second, tol)
        except (Wrong, Failure) as e:
            wrong.append(f"{name}: {str(e)[:300]}")
        b.g.close()
    assert not wrong, "\n".join(wrong)


def programs(makers, dtype, n, most, second=False, tol=1e-7):
    names = list(makers)
    for _ in range(n):
        b = Program(new_seed(), Graph(), dtype)
        for _ in range(b.int(2, most)):
            b.add(makers[names[b.int(0, len(names) - 1)]])
        checked(b, "", second, tol)


@covers(*MAKERS)
def test_gradients_of_each_op_alone():
    """Values, gradients, and gradients of gradients."""
    each_alone(MAKERS, torch.float64, True)


def allowed(name, t):
    """The op, and what its maker needs, exists in type t."""
    attr = OPS[name].main_attr()
    return not attr or t in OPS[name].types(attr)


def test_gradients_of_each_op_in_float():
    each_alone({n: m for n, m in MAKERS.items() if allowed(n, FLOAT)}, torch.float64, True, FLOAT, 1e-3)


def test_gradients_of_each_op_in_half():
    """With gradients of gradients, whose errors grow; what counts is that they have kernels and the right sign."""
    each_alone({n: m for n, m in MAKERS.items() if allowed(n, HALF)}, torch.float64, False, HALF, 0.05)


def test_gradients_of_each_op_in_bfloat16():
    each_alone({n: m for n, m in MAKERS.items() if allowed(n, BFLOAT16)}, torch.float64, False, BFLOAT16, 0.2)


def test_gradients_of_random_programs():
    programs(MAKERS, torch.float64, 15, 25)


def test_second_gradients_of_random_programs():
    programs(MAKERS, torch.float64, 8, 8, True, 1e-6)


# ---- complex numbers ----

def far(b, p):
    """Away from 0: p / 4 + 3."""
    return b.op("Add", [b.op("Mul", [p, b.const(0.25)], torch.mul), b.const(3 + 1j)], torch.add)


def complex_abs(b):
    y = b.op("ComplexAbs", [far(b, b.any())], torch.abs, Tout=Type(np.float64))
    return b.op("Cast", [y], lambda t: t.to(torch.complex128), DstT=Type(np.complex128))


def parts(b):
    p = b.any()
    re, im = b.op("Real", [p], torch.real, Tout=Type(np.float64)), b.op("Imag", [p], torch.imag, Tout=Type(np.float64))
    return b.op("Complex", [im, re], torch.complex, Tout=Type(np.complex128))


def quarter(b):
    return b.op("Mul", [b.any(), b.const(0.2)], torch.mul)


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

def body(seed, g, x, w, n_ops):
    b = Body(seed, g)
    b.pool = [x, w]
    names = [n for n in MAKERS if n not in ("Squeeze",)]
    for _ in range(n_ops):
        b.add(MAKERS[names[b.int(0, len(names) - 1)]])
    end = next((p for p in b.pool[:0:-1] if p.shape == x.shape), w)
    y = b.op("MatMul", [b.op("Tanh", [b.op("Add", [x, end], torch.add)], torch.tanh), w], torch.matmul)
    return b, b.op("Mul", [y, b.const(0.4)], torch.mul)


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
        b = Program(new_seed(), Graph())
        n = b.int(1, 3)
        x, w = b.new((n, n)), b.new((n, n))
        y = loop(b, x, w, new_seed(), b.int(1, 6), b.int(0, 4))
        b.pool = [b.op("Sin", [y], torch.sin)]
        checked(b)
