"""tests/oracle/values.py -- element types, their limits, and random shapes and values for cases.

Oracles compute in float64 or complex128 (wide) whatever the type of the op; a result is then judged in units in the last
place (ulp) of the op's own type.
"""
import numpy as np

from graph import BFLOAT16, QUANTIZED, STRING

HALF, FLOAT, DOUBLE = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
FLOATS = [HALF, BFLOAT16, FLOAT, DOUBLE]
COMPLEXES = [np.dtype(np.complex64), np.dtype(np.complex128)]
SIGNED = [np.dtype(t) for t in (np.int8, np.int16, np.int32, np.int64)]
UNSIGNED = [np.dtype(t) for t in (np.uint8, np.uint16, np.uint32, np.uint64)]
INTS = SIGNED + UNSIGNED
BOOL = np.dtype(bool)
NUMBERS = FLOATS + INTS + COMPLEXES
QTYPES = list(QUANTIZED.values())
INDEX = [np.dtype(np.int32), np.dtype(np.int64)]

# By type: (bits of the significand, exponent of the least normal number, largest number)
LIMITS = {HALF: (11, -14, 65504.0), BFLOAT16: (8, -126, (2 - 2.0**-7) * 2.0**127), FLOAT: (24, -126, float(np.finfo("f").max)),
          DOUBLE: (53, -1022, np.finfo("d").max)}
LIMITS[COMPLEXES[0]], LIMITS[COMPLEXES[1]] = LIMITS[FLOAT], LIMITS[DOUBLE]


def name_of(t):
    return t.names[0] if t.names else "string" if t == STRING else t.name


def is_float(t):
    return t in FLOATS


def is_complex(t):
    return t in COMPLEXES


def is_int(t):
    return t in INTS


def real_of(t):
    return {COMPLEXES[0]: FLOAT, COMPLEXES[1]: DOUBLE}.get(t, t)


def eps(t):
    return 2.0 ** (1 - LIMITS[t][0])


def wide(a):
    """The same values in float64 or complex128; integers, bools and strings as they are."""
    if a.dtype == BFLOAT16:
        return np.asarray(a["bfloat16"].astype(np.uint32) << np.uint32(16)).view(np.float32).reshape(a.shape).astype(np.float64)
    if a.dtype in QTYPES:
        return a[a.dtype.names[0]]
    return a.astype(np.float64) if is_float(a.dtype) else a.astype(np.complex128) if is_complex(a.dtype) else a


def narrow(a, t):
    """Values in type t, to the nearest."""
    with np.errstate(all="ignore"):
        if t == BFLOAT16:
            f = np.asarray(a, np.float32)
            bits = f.view(np.uint32).astype(np.int64)
            up = bits + 0x7FFF + (bits >> 16 & 1)  # half of the cut part, and 1 more where that makes it even
            bits = np.where(np.isnan(f), 0x7FC00000, up)
            return np.asarray((bits >> 16).astype(np.uint16), order="C").view(BFLOAT16).reshape(f.shape)
        if t in QTYPES:
            a = np.asarray(a).astype(t[t.names[0]], order="C")
            return a.view(t)
        return np.asarray(a).astype(t)


def flush(a, t):
    """Denormals of t as zeros, as FTZ and DAZ make them."""
    if not (is_float(t) or is_complex(t)) or t == HALF:  # halves are normal numbers in float
        return a
    if np.iscomplexobj(a):
        return flush(a.real, t) + 1j * flush(a.imag, t)
    return np.where(np.abs(a) < 2.0 ** LIMITS[t][1], np.copysign(0.0, a), a)


def ulp(want, t):
    """The distance of neighbours of t around |want|."""
    bits, low, _ = LIMITS[t]
    _, e = np.frexp(np.abs(want))
    return np.ldexp(1.0, np.maximum(e - 1, low) - bits + 1)


SPECIAL_FLOATS = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 1e-5]


def special_floats(t):
    bits, low, top = LIMITS[t]
    return SPECIAL_FLOATS + [top, -top, 2.0 ** low, -(2.0 ** low), 2.0 ** (low - 3), -(2.0 ** (low - 2)), 1 + eps(t), 1 - eps(t) / 2]


class Rand:
    """Draws what a case is made of: r.T is the type under test, the rest are shapes and values."""

    def __init__(self, seed, T, number):
        self.rng, self.T, self.number = np.random.default_rng(seed), T, number

    def int(self, lo, hi):
        """From lo to hi, both included."""
        return int(self.rng.integers(lo, hi, endpoint=True))

    def chance(self, p):
        return bool(self.rng.random() < p)

    def pick(self, items):
        return items[self.int(0, len(items) - 1)]

    def shape(self, lo=0, hi=6, least=0, most=None):
        """Rank lo..hi.  Mostly small; now and then one long dimension, to fill vectors and split over threads."""
        rank = self.int(lo, hi)
        most = most or (4 if rank > 3 else 7)
        s = [self.int(max(least, 1), most) for _ in range(rank)]
        if rank and least == 0 and self.chance(0.12):
            s[self.int(0, rank - 1)] = 0
        if rank and self.chance(0.15):
            s[self.int(0, rank - 1)] = self.int(8, 70)
        return tuple(s)

    def long_shape(self, lo=0, hi=6):
        return (self.int(20000, 70000),) if hi and self.number % 7 == 3 else self.shape(lo, hi)

    def broadcast(self, n, hi=6):
        """n shapes that broadcast to one."""
        full = self.long_shape(0, hi)
        if self.chance(0.4):
            return [full] * n
        out = []
        for _ in range(n):
            s = [1 if self.chance(0.3) else d for d in full]
            out.append(tuple(s[self.int(0, len(s)):] if self.chance(0.4) else s))
        return out

    def broadcast_small(self):
        """Two shapes of few elements."""
        full = tuple(self.int(1, 3) for _ in range(self.int(0, 3)))
        return [tuple(1 if self.chance(0.3) else d for d in full)[self.int(0, len(full)) if self.chance(0.3) else 0:]
                for _ in range(2)]

    def axis(self, rank):
        """In [-rank, rank)."""
        return self.int(-rank, rank - 1)

    def index_type(self, *more):
        return self.pick(INDEX + [np.dtype(t) for t in more])

    def indices(self, n, shape, t=None):
        return np.asarray(self.rng.integers(0, n, shape) if n else np.zeros(shape)).astype(t or self.index_type())

    def strings(self, shape):
        a = np.empty(shape, STRING)
        a.reshape(-1)[:] = [b"ab\0c" * self.int(0, 12) + b"x" * self.int(0, 3) for _ in range(a.size)]
        return a

    def ints(self, shape, t):
        info = np.iinfo(t)
        a = self.rng.integers(max(info.min, -20), 20, shape, endpoint=True).astype(t)
        whole = self.rng.integers(info.min, info.max, shape, t, endpoint=True)
        ends = np.asarray([info.min, info.min + 1, info.max, info.max - 1, 0, 1, info.max // 2], t)
        kind = self.rng.random(shape)
        return np.where(kind < 0.4, a, np.where(kind < 0.8, whole, self.rng.choice(ends, shape))).astype(t)

    def floats(self, shape, t, specials=0.3):
        size = np.exp(self.rng.uniform(-4, 4, shape))
        a = self.rng.standard_normal(shape) * size
        return np.where(self.rng.random(shape) < specials, self.rng.choice(special_floats(t), shape), a)

    def any(self, shape, t=None):
        """Values of all kinds: extremes, NaN, infinities, denormals, both zeros."""
        t = t or self.T
        if t == STRING:
            return self.strings(shape)
        if t == BOOL:
            return self.rng.random(shape) < 0.5 if shape else np.asarray(self.chance(0.5))
        if t in QTYPES:
            return narrow(self.ints(shape, t[t.names[0]]), t)
        if is_int(t):
            return np.asarray(self.ints(shape, t))
        if is_complex(t):
            a = np.asarray(self.floats(shape, t, 0.05) + 1j * self.floats(shape, t, 0.05))
            return narrow(np.where(np.isfinite(a) & (np.abs(a) < 1e30), a, 1.5 - 2j), t)
        return narrow(self.floats(shape, t), t)

    def finite(self, shape, t=None, scale=2.0):
        """Ordinary numbers around 0."""
        t = t or self.T
        if is_int(t) or t in QTYPES:
            lo = 0 if t in UNSIGNED else -5
            return narrow(self.rng.integers(lo, 6, shape), t)
        if t == BOOL or t == STRING:
            return self.any(shape, t)
        a = self.rng.standard_normal(shape) * scale
        return narrow(a + 1j * self.rng.standard_normal(shape) * scale if is_complex(t) else a, t)

    def some_special(self, shape, t=None):
        """Ordinary numbers, with an infinity or a NaN in every third case."""
        a = self.finite(shape, t)
        if is_float(a.dtype) and a.size and self.number % 3 == 2:
            flat, v = a.reshape(-1), narrow(np.asarray([np.inf, -np.inf, np.nan, 0.0, -0.0]), a.dtype)
            for _ in range(self.int(1, 3)):
                flat[self.int(0, a.size - 1)] = v[self.int(0, 4)]
        return a

    def distinct(self, shape, t=None):
        """Numbers without ties, a quarter apart at least."""
        n = int(np.prod(shape, dtype=int))
        a = (self.rng.permutation(n) - n // 2) / 4 + 0.125
        return narrow(a.reshape(shape), t or self.T)
