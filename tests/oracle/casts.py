"""tests/oracle/casts.py -- Cast between all pairs of types, and Bitcast.

What a float out of an integer's range becomes is undefined in C; TensorFlow on x86 gives the least int32 or int64, and narrower
types the low bits of that int32.  uint32 and uint64 are tried in range only.
"""
import numpy as np

from graph import NUMPY, Type
from table import op
from values import BFLOAT16, BOOL, COMPLEXES, FLOAT, FLOATS, HALF, INTS, LIMITS, NUMBERS, is_complex, is_int, narrow, wide

PLAIN = NUMBERS + [BOOL]


def in_range(a, t):
    """Floats that t = uint32 or uint64 can hold; others as they are."""
    if a.dtype.kind not in "fc" or t not in (np.dtype(np.uint32), np.dtype(np.uint64)):
        return a
    real = np.nan_to_num(a.real, nan=3.0, posinf=7.0, neginf=5.0)
    return np.where(real > 2.0 ** (t.itemsize * 8 - 2), 2.0 ** 15, np.where(real <= -1, -real % 1000, real)) + 0 * a.imag


def source(r):
    """From r.T to a type that changes with the number of the case, so that all pairs come up."""
    to = PLAIN[r.number % len(PLAIN)]
    x = r.any(r.shape())
    if r.T in FLOATS + COMPLEXES and to in INTS:
        x = narrow(in_range(wide(x), to), r.T)
    return [x], {"DstT": Type(to)}


def to_int(x, t):
    with np.errstate(all="ignore"):
        x = np.trunc(x)
        via = np.dtype(np.int64) if t.itemsize > 4 or t == np.uint32 else np.dtype(np.int32)
        if t == np.uint64:
            return x.astype(np.uint64)
        low, high = np.iinfo(via).min, -float(np.iinfo(via).min)
        ok = (x >= low) & (x < high)  # false for NaN
        return np.where(ok, np.where(ok, x, 0).astype(via), low).astype(via).astype(t)


def cast(x, DstT, Truncate=False):
    t = NUMPY[int(DstT)]
    if np.iscomplexobj(x) and not is_complex(t):
        x = x.real
    if t == BOOL:
        return x != 0
    if is_int(t):
        return to_int(x, t) if x.dtype.kind == "f" else x.astype(t)
    return x.astype(np.complex128 if is_complex(t) else np.float64)


op("Cast", source, cast, types=PLAIN, n=3 * len(PLAIN),
   ulp={None: 0.501, COMPLEXES[0]: 0.75, COMPLEXES[1]: 0.75})


def cut(x, DstT, Truncate):
    """The surplus bits of the significand dropped: toward zero."""
    t = NUMPY[int(DstT)]
    bits, low, top = LIMITS[t]
    m, e = np.frexp(x)
    y = np.ldexp(np.trunc(np.ldexp(m, bits)), e - bits)
    return np.where(np.isfinite(x), np.where(np.abs(y) > top, np.sign(y) * np.inf, y), x)


def cut_case(r):
    a = np.asarray(r.finite(r.shape(), FLOAT))
    to = r.pick([HALF, BFLOAT16])
    a = np.where(np.abs(a) < 1e-4, np.float32(0.5), a).astype(np.float32)
    if a.size and r.chance(0.3):
        a.reshape(-1)[0] = r.pick([np.nan, np.inf, -np.inf, 0.0, -0.0])
    return [a], {"DstT": Type(to), "Truncate": True}


op("Cast", cut_case, cut, types=[FLOAT], n=20, ulp=0)


def bits_case(r):
    """Between types of one size, and with a last dimension for what becomes smaller or larger."""
    sizes = [t for t in NUMBERS if t.itemsize in (r.T.itemsize, r.T.itemsize * 2, r.T.itemsize // 2)]
    to = r.pick(sizes)
    s = r.shape(0, 4)
    if to.itemsize > r.T.itemsize:
        s = s + (to.itemsize // r.T.itemsize,)
    return [r.any(s)], {"type": Type(to)}


def bitcast(x, type):
    t = NUMPY[int(type)]
    a, b = x.dtype.itemsize, t.itemsize
    shape = x.shape if a == b else x.shape + (a // b,) if a > b else x.shape[:-1]
    return np.frombuffer(x.tobytes(), t).reshape(shape)


op("Bitcast", bits_case, bitcast, types=NUMBERS, raw=True, n=20)
