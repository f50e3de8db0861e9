"""tests/oracle/fft.py -- Fourier transforms against numpy's, of lengths with small, large and mixed factors."""
import numpy as np

from graph import Type
from table import op

LENGTHS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 15, 16, 30, 37, 49, 61, 64, 67, 97, 100, 121, 125, 128, 134, 210, 240, 243, 251]


def line(r):
    return 0 if r.chance(0.05) else r.pick(LENGTHS)


def batch(r):
    return tuple(r.int(1, 3) for _ in range(r.int(0, 2)))


def sizes(r, d):
    return tuple(line(r) if i == d - 1 else r.pick(LENGTHS[:14]) for i in range(d))


def complex_input(d):
    return lambda r: [r.finite(batch(r) + sizes(r, d), scale=1.0)]




def judged(f):
    def scale(*xs, **attrs):
        y = f(*xs, **attrs)
        top = float(np.max(np.abs(y))) if np.size(y) else 0
        return np.full(np.shape(y), top)
    return dict(sums=4, scale=scale, zero_sign=False, n=40)


def axes(d):
    return tuple(range(-d, 0))


def guard(f, d):
    """numpy refuses empty lines."""
    return lambda x: f(x, axes=axes(d)) if x.size else x


for d, suffix in ((1, ""), (2, "2D"), (3, "3D")):
    op("FFT" + suffix, complex_input(d), guard(np.fft.fftn, d), **judged(guard(np.fft.fftn, d)))
    op("IFFT" + suffix, complex_input(d), guard(np.fft.ifftn, d), **judged(guard(np.fft.ifftn, d)))


def real_input(d):
    def make(r):
        want = tuple(max(1, n) for n in sizes(r, d))
        have = tuple(n + (r.int(0, 3) if r.chance(0.3) else 0) for n in want)
        kind = np.dtype(np.complex128 if r.T == np.float64 else np.complex64)
        return [r.finite(batch(r) + have, scale=1.0), np.asarray(want, np.int32)], {"Tcomplex": Type(kind)}
    return make


def half_input(d):
    def make(r):
        want = tuple(max(1, n) for n in sizes(r, d))
        have = tuple(n + (r.int(0, 3) if r.chance(0.3) else 0) for n in want[:-1] + (want[-1] // 2 + 1,))
        kind = np.dtype(np.float64 if r.T == np.complex128 else np.float32)
        return [r.finite(batch(r) + have, scale=1.0), np.asarray(want, np.int32)], {"Treal": Type(kind)}
    return make


def rfft(d):
    return lambda x, n, **attrs: np.fft.rfftn(x, s=tuple(int(v) for v in n), axes=axes(d))


def irfft(d):
    return lambda x, n, **attrs: np.fft.irfftn(x, s=tuple(int(v) for v in n), axes=axes(d))


for d, suffix in ((1, ""), (2, "2D"), (3, "3D")):
    op("RFFT" + suffix, real_input(d), rfft(d), **judged(rfft(d)))
    op("IRFFT" + suffix, half_input(d), irfft(d), **judged(irfft(d)))
