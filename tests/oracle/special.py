"""tests/oracle/special.py -- special functions against scipy's, which computes in double."""
import numpy as np
import scipy.special as sp

from table import op
from values import COMPLEXES, DOUBLE, INTS, narrow, is_complex

# In double both sides have some rounding errors; the narrower types are rounded from it.
NEAR = {None: 0.51, DOUBLE: 60}


def ulps(double, other=0.51, of_complex=8):
    return {None: other, DOUBLE: double, COMPLEXES[0]: of_complex, COMPLEXES[1]: of_complex}


def between(lo, hi):
    def make(r):
        shape = r.long_shape()
        return [narrow(r.rng.uniform(lo, hi, shape), r.T)]
    return make


def wide_range(lo, hi, negative=False):
    """Numbers of very different sizes."""
    def make(r):
        shape = r.long_shape()
        x = np.exp(r.rng.uniform(np.log(lo), np.log(hi), shape))
        return [narrow(x * np.where(r.rng.random(shape) < 0.5, -1, 1) if negative else x, r.T)]
    return make


def mixed(*makers):
    return lambda r: r.pick(makers)(r)


def ends(r):
    return [narrow(np.asarray([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1]), r.T)]


def tame(r):
    return [r.finite(r.long_shape()) if is_complex(r.T) else r.any(r.long_shape())]


def digamma(x):
    return np.where(x == 0, np.nan, sp.digamma(x))  # scipy says inf at 0, TensorFlow NaN


op("Lgamma", mixed(between(0.1, 20), wide_range(1e-6, 1e6), ends), 
   lambda x: np.where(np.isinf(x), np.inf, sp.gammaln(x)), sums={None: 0.51, DOUBLE: 8},
   scale=lambda x: np.ones_like(x))  # scipy says -inf at -inf, C inf
op("Digamma", mixed(between(-20, 20), wide_range(1e-3, 1e6), ends), digamma, ulp=ulps(3000, 0.6))
op("Erfc", mixed(between(-6, 6), ends), sp.erfc, ulp=ulps(60))
op("Erfinv", mixed(between(-1, 1), wide_range(1e-4, 0.9, True), ends), sp.erfinv, ulp=ulps(8), zero_sign=False)
op("Ndtri", mixed(between(0, 1), wide_range(1e-30, 0.9), ends), sp.ndtri, ulp=ulps(3000, 0.6))
op("Dawsn", mixed(between(-10, 10), wide_range(1e-6, 1e6, True), ends), sp.dawsn, ulp=NEAR)
op("Expint", mixed(between(0.5, 30), wide_range(1e-6, 500, True)), sp.expi, ulp=ulps(3000))
op("FresnelCos", mixed(between(-10, 10), wide_range(1e-6, 50, True)), lambda x: sp.fresnel(x)[1], ulp=ulps(300))
op("FresnelSin", mixed(between(-10, 10), wide_range(1e-3, 50, True)), lambda x: sp.fresnel(x)[0], ulp=ulps(300))
op("Spence", mixed(between(0, 10), wide_range(1e-6, 6e4)), sp.spence, ulp=ulps(200, 0.6))
op("BesselI0", mixed(between(-10, 10), wide_range(1e-6, 80, True)), sp.i0, ulp=NEAR)
op("BesselI0e", mixed(between(-10, 10), wide_range(1e-6, 1e6, True)), sp.i0e, ulp=NEAR)
op("BesselI1", mixed(between(-10, 10), wide_range(1e-6, 80, True)), sp.i1, ulp=NEAR)
op("BesselI1e", mixed(between(-10, 10), wide_range(1e-6, 1e6, True)), sp.i1e, ulp=NEAR)
op("BesselK0", mixed(between(0, 10), wide_range(1e-6, 80)), sp.k0, ulp=NEAR)
op("BesselK0e", mixed(between(0, 10), wide_range(1e-6, 1e6)), sp.k0e, ulp=NEAR)
op("BesselK1", mixed(between(0, 10), wide_range(1e-6, 80)), sp.k1, ulp=NEAR)
op("BesselK1e", mixed(between(0, 10), wide_range(1e-6, 1e6)), sp.k1e, ulp=NEAR)
for name, f in (("BesselJ0", sp.j0), ("BesselJ1", sp.j1)):
    op(name, between(-30, 30), f, sums={None: 1, DOUBLE: 30}, scale=lambda x: np.ones_like(x))
for name, f in (("BesselY0", sp.y0), ("BesselY1", sp.y1)):
    op(name, between(0.1, 30), f, sums={None: 1, DOUBLE: 30}, scale=lambda x: np.ones_like(x))

# ---- two and three arguments ----


def pair(first, second):
    def make(r):
        a, b = r.broadcast_small()
        return [narrow(first(r, a), r.T), narrow(second(r, b), r.T)]
    return make


def sizes(lo, hi):
    return lambda r, shape: np.exp(r.rng.uniform(np.log(lo), np.log(hi), shape))


def orders(r, shape):
    return r.rng.integers(0, 8, shape).astype(np.float64)


op("Polygamma", pair(orders, sizes(0.1, 100)), sp.polygamma, ulp=ulps(500, 0.6))
op("Zeta", pair(sizes(1.1, 30), sizes(0.1, 1e4)), sp.zeta, ulp=ulps(200, 0.6))
op("Igamma", pair(sizes(0.01, 1000), sizes(0.01, 1000)), sp.gammainc, ulp=ulps(3000, 0.6))
op("Igammac", pair(sizes(0.01, 1000), sizes(0.01, 1000)), sp.gammaincc, ulp=ulps(3000, 0.6))


def beta_arguments(r):
    shape = r.shape(0, 3)
    return [narrow(sizes(0.05, 500)(r, () if r.chance(0.3) else shape), r.T) for _ in range(2)] + [
        narrow(r.rng.uniform(0, 1, shape), r.T)]


op("Betainc", beta_arguments, sp.betainc, ulp=ulps(20000, 0.6))


def igamma_slope(a, x):
    """By differences of four points; that is good to some nine digits."""
    h = 1e-3 * np.minimum(1, a)
    f = sp.gammainc
    return (8 * (f(a + h, x) - f(a - h, x)) - (f(a + 2 * h, x) - f(a - 2 * h, x))) / (12 * h)


op("IgammaGradA", pair(sizes(0.1, 50), sizes(0.1, 50)), igamma_slope, sums={None: 4, DOUBLE: 1e7},
   scale=lambda a, x: np.ones(np.broadcast(a, x).shape))
op("Xlog1py", lambda r: [r.finite(s) for s in r.broadcast_small()],
   lambda x, y: np.where(x == 0, 0, x * np.log1p(y)), types=["float32", "float64"], ulp=4)
op("Atan2", lambda r: [r.any(s) for s in r.broadcast_small()], np.arctan2, ulp=2)
op("NextAfter", lambda r: [r.finite(s) for s in r.broadcast_small()],
   lambda x, y: np.nextafter(x, y).astype(np.float64), types=["float64"])

# ---- hyperbolic functions, bits ----

for name, f in (("Sinh", np.sinh), ("Cosh", np.cosh), ("Asinh", np.arcsinh)):
    op(name, lambda r: [r.finite(r.long_shape())], f, ulp=ulps(4, 2))
for name, f in (("Acosh", np.arccosh), ("Atanh", np.arctanh)):
    op(name, lambda r: [r.finite(r.long_shape())], f, ulp=ulps(4, 2), zero_sign=False)
for name, f in (("Asin", np.arcsin), ("Acos", np.arccos)):
    op(name, lambda r: [r.finite(r.long_shape(), scale=0.7)], f, ulp=ulps(4, 2),
       types=["float16", "float32", "float64", "complex64", "complex128"])


def integers(r):
    return [r.any(s) for s in r.broadcast_small()]


def bits(t):
    return 8 * np.dtype(t).itemsize


def left_shift(x, y):
    return np.left_shift(x, np.clip(y, 0, bits(x.dtype) - 1).astype(x.dtype))


def right_shift(x, y):
    return np.right_shift(x, np.clip(y, 0, bits(x.dtype) - 1).astype(x.dtype))


for name, f in (("BitwiseAnd", np.bitwise_and), ("BitwiseOr", np.bitwise_or), ("BitwiseXor", np.bitwise_xor),
                ("LeftShift", left_shift), ("RightShift", right_shift)):
    op(name, integers, f, types=INTS, raw=True)
op("Invert", lambda r: [r.any(r.long_shape())], np.invert, types=INTS, raw=True)
op("PopulationCount", lambda r: [r.any(r.long_shape())],
   lambda x: np.asarray([bin(int(v) & (1 << bits(x.dtype)) - 1).count("1") for v in x.ravel()], np.uint8).reshape(x.shape),
   types=INTS, raw=True)
op("Cross", lambda r: (lambda s: [r.finite(s), r.finite(s)])(r.shape(0, 3) + (3,)), np.cross,
   sums=4, types=["float32", "float64"], scale=lambda a, b: np.max(np.abs(a), initial=0) * np.max(np.abs(b), initial=0) * np.ones(a.shape))
