"""tests/oracle/elementwise.py -- ops that compute each element of their result from the same element of their inputs."""
import numpy as np
import scipy.special as sp

from graph import Type
from table import fails, op
from values import (BOOL, COMPLEXES, FLOATS, INTS, NUMBERS, SIGNED, STRING, is_complex, is_float, is_int, narrow, real_of,
                    wide)

TWO = {None: 0.5, COMPLEXES[0]: 2, COMPLEXES[1]: 2}  # complex arithmetic rounds several times


def fine(real, of_complex=4):
    """Ulps for functions that are not correctly rounded."""
    return {None: real, COMPLEXES[0]: of_complex, COMPLEXES[1]: of_complex}


# ---- one input ----

def unary(r):
    return [r.any(r.long_shape())]


def tame(r):
    """Complex numbers of ordinary size, others of any."""
    return [r.finite(r.long_shape()) if is_complex(r.T) else r.any(r.long_shape())]


def no_nan(r):
    a = r.any(r.long_shape())
    return [narrow(np.nan_to_num(wide(a), nan=1.0, posinf=np.inf, neginf=-np.inf), r.T) if is_float(r.T) else a]


def bools(r):
    return [r.any(r.long_shape(), BOOL)]


def sign(x):
    """In a wider type for complex numbers: numpy divides them by a complex number, which is off by more than we are."""
    if not np.iscomplexobj(x):
        return np.sign(x)
    wide = x.astype(np.clongdouble)
    return np.where(x == 0, 0, wide / np.where(x == 0, 1, np.abs(wide))).astype(x.dtype)


def round_even(x):
    return x if x.dtype.kind in "iu" else np.rint(x)


def log1p(x):
    """Of complex numbers too without rounding 1 + x first."""
    if not np.iscomplexobj(x):
        return np.log1p(x)
    near = np.log1p(x.real * (2 + x.real) + x.imag ** 2) / 2
    return np.where(np.abs(x) < 0.5, near, np.log(np.abs(1 + x))) + 1j * np.arctan2(x.imag, 1 + x.real)


def reciprocal(x):
    return 1 / x


op("Neg", unary, np.negative)
op("Abs", unary, np.abs)
op("Sign", no_nan, sign, ulp=TWO, zero_sign=False)
op("Square", unary, np.square, ulp=TWO)
op("Sqrt", tame, np.sqrt, ulp=fine(0.5))
op("Rsqrt", tame, lambda x: 1 / np.sqrt(x), ulp=fine(2))
op("Reciprocal", tame, reciprocal, types=FLOATS + COMPLEXES, ulp=fine(0.5, 2))
op("Inv", tame, reciprocal, types=FLOATS + COMPLEXES, ulp=fine(0.5, 2))
op("Exp", tame, np.exp, ulp=fine(2))
op("Expm1", tame, np.expm1, ulp=fine(2, 8))
op("Log", tame, np.log, ulp=fine(2))
op("Log1p", tame, log1p, ulp=fine(2, 8))
op("Sin", tame, np.sin, ulp=fine(2))
op("Cos", tame, np.cos, ulp=fine(2))
op("Tan", tame, np.tan, types=FLOATS + COMPLEXES, ulp=fine(3, 8))
op("Tanh", tame, np.tanh, ulp=fine(3, 6))
op("Atan", tame, np.arctan, types=FLOATS + COMPLEXES, ulp=fine(2))
op("Erf", unary, sp.erf, ulp=2)
op("Sigmoid", tame, lambda x: sp.expit(x) if not np.iscomplexobj(x) else 1 / (1 + np.exp(-x)), ulp=fine(3, 200))
op("Floor", unary, np.floor)
op("Ceil", unary, np.ceil)
op("Rint", unary, np.rint)
op("Round", unary, round_even, types=FLOATS + SIGNED)
op("IsNan", unary, np.isnan)
op("IsInf", unary, np.isinf)
op("IsFinite", unary, np.isfinite)
op("LogicalNot", bools, np.logical_not, types=[BOOL])
op("Conj", unary, np.conj, types=COMPLEXES)


# ---- two inputs, broadcast ----

def binary(r):
    return [r.any(s) for s in r.broadcast(2)]


def finite2(r):
    return [r.finite(s) for s in r.broadcast(2)]


def tame2(r):
    return finite2(r) if is_complex(r.T) else binary(r)


def equal_often(r):
    a, b = binary(r)
    if a.shape == b.shape and a.ndim:
        same = r.rng.random(a.shape) < 0.4
        b = b.copy()
        b[same] = a[same]
    return [a, b]


def nonzero(r):
    """No integer divisor is 0."""
    x, y = tame2(r)
    if is_int(r.T):
        y = np.where(y == 0, np.asarray(3, r.T), y)
    return [x, y]


def quarters(r):
    """Quotients that are whole, or clearly not: rounding them first must not matter."""
    if not is_float(r.T):
        return nonzero(r)
    a, b = (r.rng.integers(-64, 64, s) / 4 for s in r.broadcast(2))
    return [narrow(a, r.T), narrow(b, r.T)]


def by_zero(r):
    s = r.shape(1, 3, least=1)
    y = r.any(s)
    y.reshape(-1)[r.int(0, y.size - 1)] = 0
    return [r.any(s[-1:]), y]


def powers(r):
    s, t = r.broadcast(2)
    if is_int(r.T):
        return [r.any(s), r.rng.integers(0, 12, t).astype(r.T)]
    return [r.finite(s), r.finite(t)] if is_complex(r.T) else [r.any(s), r.any(t)]


def negative_power(r):
    return [r.finite((3,)), np.asarray([0, -1, 2], r.T)]


def bools2(r):
    return [r.any(s, BOOL) for s in r.broadcast(2)]


def truncate_div(x, y):
    if x.dtype.kind not in "iu":
        return x / y
    q, m = np.floor_divide(x, y), np.remainder(x, y)
    return q + ((m != 0) & ((x < 0) != (y < 0))).astype(q.dtype)


def floor_div(x, y):
    return np.floor_divide(x, y) if x.dtype.kind in "iu" else np.floor(x / y)


def floor_mod(x, y):
    m = np.fmod(x, y)
    return np.where((m != 0) & ((m < 0) != (y < 0)), m + y, m)


def square_of_difference(x, y):
    d = x - y
    return d * np.conj(d) if np.iscomplexobj(d) else d * d


def no_nan_at_0(f):
    return lambda x, y: np.where(y == 0, 0, f(x, np.where(y == 0, 1, y)))


def zero_at_0(f):
    return lambda x, y: np.where(x == 0, 0, f(x, y))


for name in ("Add", "AddV2"):
    op(name, binary, np.add, ulp=TWO)
op("Sub", binary, np.subtract, ulp=TWO)
op("Mul", tame2, np.multiply, ulp=TWO)
op("Div", nonzero, truncate_div, ulp=fine(0.5, 4))
op("RealDiv", tame2, np.true_divide, types=FLOATS + COMPLEXES, ulp=fine(0.5, 4))
op("TruncateDiv", nonzero, truncate_div, types=INTS)
op("FloorDiv", quarters, floor_div, types=FLOATS + INTS)
op("FloorMod", nonzero, floor_mod, ulp=1)
op("Mod", nonzero, np.fmod)
op("TruncateMod", nonzero, np.fmod)
for name in ("Div", "FloorDiv", "FloorMod", "TruncateDiv", "Mod"):
    fails(name, by_zero, "Integer division by zero", types=SIGNED[2:] if name == "Mod" else INTS)
op("Pow", powers, np.power, ulp=fine(2, 200))
fails("Pow", negative_power, "Integers to negative integer powers are not allowed", types=SIGNED)
op("Maximum", binary, np.maximum, zero_sign=False)
op("Minimum", binary, np.minimum, zero_sign=False)
op("SquaredDifference", tame2, square_of_difference, ulp=fine(2))
op("DivNoNan", tame2, no_nan_at_0(np.divide), ulp=fine(0.5), zero_sign=False)
op("MulNoNan", tame2, no_nan_at_0(np.multiply), ulp=fine(0.5, 2), zero_sign=False)
op("Xlogy", tame2, zero_at_0(lambda x, y: x * np.log(y)), ulp=fine(3, 6), zero_sign=False)
op("Xdivy", tame2, zero_at_0(np.divide), ulp=fine(0.5), zero_sign=False)
for name, f in (("Greater", np.greater), ("GreaterEqual", np.greater_equal), ("Less", np.less), ("LessEqual", np.less_equal)):
    op(name, equal_often, f)
for name, f in (("Equal", np.equal), ("NotEqual", np.not_equal)):
    op(name, equal_often, f, types=NUMBERS + [BOOL, STRING])
for name, answer in (("Equal", False), ("NotEqual", True)):
    op(name, lambda r: ([r.any((2, 3)), r.any((3, 2))], {"incompatible_shape_error": False}),
       lambda x, y, answer=answer, **_: np.asarray(answer), types=NUMBERS, n=2, static=False)
op("LogicalAnd", bools2, np.logical_and, types=[BOOL])
op("LogicalOr", bools2, np.logical_or, types=[BOOL])


# ---- gradients of functions of one input, given their output or input and the gradient ----

def pair(r):
    s = r.long_shape()
    return [r.some_special(s), r.some_special(s)]


def pair_nonzero(r):
    y, dy = pair(r)
    return [narrow(np.where(np.abs(wide(y)) < 0.1, 0.5, wide(y)), r.T), dy]


op("SigmoidGrad", pair, lambda y, dy: dy * y * (1 - y), sums=4, zero_sign=False,
   scale=lambda y, dy: np.abs(dy) * np.abs(y) * (1 + np.abs(y)))
op("TanhGrad", pair, lambda y, dy: dy * (1 - y * y), sums=4, zero_sign=False,
   scale=lambda y, dy: np.abs(dy) * (1 + np.abs(y) ** 2))
op("SqrtGrad", pair_nonzero, lambda y, dy: np.where(dy == 0, 0, 0.5 * dy / np.conj(y)), ulp=fine(2), zero_sign=False)
op("RsqrtGrad", pair, lambda y, dy: np.where(dy == 0, 0, -0.5 * dy * np.conj(y) ** 3), ulp=fine(3, 8), zero_sign=False)
for name in ("ReciprocalGrad", "InvGrad"):
    op(name, pair, lambda y, dy: np.where(dy == 0, 0, -dy * np.conj(y) ** 2), ulp=fine(2, 6), zero_sign=False)


# ---- three inputs, or many ----

def selected(r):
    """Select: the condition has the shape of the rest, is a scalar, or chooses rows."""
    s = r.long_shape()
    kind = r.int(0, 2)
    c = s if kind == 0 else () if kind == 1 or not s else s[:1]
    return [r.any(c, BOOL), r.any(s), r.any(s)]


def select(c, t, e):
    if c.ndim == 1 and t.ndim > 1:
        c = c.reshape(c.shape + (1,) * (t.ndim - 1))
    return np.where(c, t, e) if not t.dtype.names else pick_records(c, t, e)


def pick_records(c, t, e):
    out = np.empty(np.broadcast_shapes(c.shape, t.shape, e.shape), t.dtype)
    c, t, e = (np.broadcast_to(a, out.shape) for a in (c, t, e))
    out[c], out[~c] = t[c], e[~c]
    return out


def selected_v2(r):
    c, t, e = r.broadcast(3)
    return [r.any(c, BOOL), r.any(t), r.any(e)]


def clipped(r):
    s = r.long_shape()
    lo, hi = (s if r.chance(0.4) else () for _ in range(2))
    return [r.any(s), r.finite(lo), r.finite(hi)]


def several(r):
    s = r.long_shape()
    return [[r.finite(s) if is_complex(r.T) else r.some_special(s) for _ in range(r.int(1, 9))]]


op("Select", selected, select, raw=True)
op("SelectV2", selected_v2, lambda c, t, e: pick_records(c, t, e), raw=True)
op("ClipByValue", clipped, lambda t, lo, hi: np.where(np.isnan(t), t, np.maximum(np.minimum(t, hi), lo)) if t.dtype.kind != "c"
   else t, types=FLOATS + INTS, zero_sign=False)
op("AddN", several, lambda xs: np.sum(xs, axis=0, dtype=xs[0].dtype), sums=2, zero_sign=False,
   scale=lambda xs: np.sum(np.abs(np.asarray(xs)), axis=0))


# ---- ops whose types depend on each other ----

def parts(r):
    s, t = r.broadcast(2)
    real = real_of(r.T)
    return [r.finite(s, real), r.finite(t, real)], {"Tout": Type(r.T)}


def one_part(r):
    return [r.any(r.long_shape())], {"Tout": Type(real_of(r.T))}


op("Complex", parts, lambda x, y, Tout: x + 1j * y, types=COMPLEXES)
op("Real", one_part, lambda x, Tout: x.real)
op("Imag", one_part, lambda x, Tout: x.imag)
op("ComplexAbs", one_part, lambda x, Tout: np.abs(x), ulp=1)
