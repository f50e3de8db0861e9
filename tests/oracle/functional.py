"""tests/oracle/functional.py -- lists and maps of tensors, truth, taps of debuggers: what numpy and Python's lists say."""
import numpy as np

from graph import STRING, Type
from state import typed, untyped
from table import op
from values import BOOL, NUMBERS

ANY = NUMBERS + [BOOL, STRING]
ANYTHING = np.int32(-1)


def rows(r):
    return [r.any((r.int(1, 5),) + r.shape(3))]


def from_tensor(g, x, t):
    return g.op("TensorListFromTensor", [x, ANYTHING], element_dtype=t)


# ---- there and back ----

def stacked(g, xs, attrs):
    return [g.op("TensorListStack", [from_tensor(g, xs[0], attrs["T"]), ANYTHING], element_dtype=attrs["T"])]


for n in ("TensorListFromTensor", "TensorListStack"):
    op(n, typed(rows), untyped(lambda x: x), build=stacked, raw=True, types=ANY, n=4)


def some(r):
    x = rows(r)[0]
    at = np.asarray([r.int(0, len(x) - 1) for _ in range(r.int(1, 6))], np.int32)
    return [x, at]


def gathered(g, xs, attrs):
    t = attrs["T"]
    return [g.op("TensorListGather", [from_tensor(g, xs[0], t), xs[1], ANYTHING], element_dtype=t)]


op("TensorListGather", typed(some), untyped(lambda x, at: x[at]), build=gathered, raw=True, types=ANY, n=4)


def parts(r):
    lengths = np.asarray([r.int(0, 3) for _ in range(r.int(1, 5))], np.int64)
    return [r.any((int(lengths.sum()),) + r.shape(2)), lengths]


def split(g, xs, t):
    return g.op("TensorListSplit", [xs[0], ANYTHING, xs[1]], element_dtype=t)


def joined(g, xs, attrs):
    y = g.op("TensorListConcat", [split(g, xs, attrs["T"])], element_dtype=attrs["T"])
    return [y[0], y[1]]


def joined_v2(g, xs, attrs):
    y = g.op("TensorListConcatV2", [split(g, xs, attrs["T"]), ANYTHING, np.zeros(0, np.int64)], element_dtype=attrs["T"])
    return [y[0], y[1]]


for n, build in (("TensorListSplit", joined), ("TensorListConcat", joined), ("TensorListConcatV2", joined_v2)):
    op(n, typed(parts), untyped(lambda x, lengths: (x, lengths)), build=build, raw=True, types=ANY, n=4)


# ---- element by element ----

def reversed_by_pops(g, xs, attrs):
    """All rows go into a list one by one, and come out from its end."""
    t, n = attrs["T"], attrs["N"]
    each = g.op("Unpack", [xs[0]], num=n)
    full = g.op("EmptyTensorList", [ANYTHING, ANYTHING], element_dtype=t)
    for i in range(n):
        full = g.op("TensorListPushBack", [full, each[i]])
    out = []
    for i in range(n):
        p = g.op("TensorListPopBack", [full, ANYTHING], element_dtype=t)
        full = p[0]
        out.append(p[1])
    return [g.op("Pack", [out]), g.op("TensorListLength", [full])]


def counted(gen):
    def made(r):
        inputs = gen(r)
        return inputs, {"T": Type(r.T), "N": len(inputs[0])}
    return made


def uncounted(f):
    return lambda *xs, T, N: f(*xs)


for n in ("EmptyTensorList", "TensorListPushBack", "TensorListPopBack", "TensorListLength"):
    op(n, counted(rows), uncounted(lambda x: (x[::-1], np.int32(0))), build=reversed_by_pops, raw=True, types=ANY, n=3)


def swapped(g, xs, attrs):
    """Element 0 gets the value of the last one; one more is missing and reads as zeros."""
    t, n = attrs["T"], attrs["N"]
    full = from_tensor(g, xs[0], t)
    last = g.op("TensorListGetItem", [full, np.int32(n - 1), ANYTHING], element_dtype=t)
    full = g.op("TensorListSetItem", [full, np.int32(0), last])
    full = g.op("TensorListResize", [full, np.int32(n + 1)])
    return [g.op("TensorListStack", [full, ANYTHING], element_dtype=t)]


def swap(x):
    zero = np.full((1,) + x.shape[1:], b"", STRING) if x.dtype == STRING else np.zeros((1,) + x.shape[1:], x.dtype)
    return np.concatenate([x[-1:], x[1:], zero])


for n in ("TensorListGetItem", "TensorListSetItem", "TensorListResize"):
    op(n, counted(rows), uncounted(swap), build=swapped, raw=True, types=NUMBERS + [BOOL], n=3)


# ---- scattered ----

def order(r):
    x = rows(r)[0]
    return [x, r.rng.permutation(len(x)).astype(np.int32)]


def scattered(op_name):
    def build(g, xs, attrs):
        t, more = attrs["T"], [np.int32(-1)] if op_name == "TensorListScatterV2" else []
        if op_name == "TensorListScatterIntoExistingList":
            full = g.op(op_name, [from_tensor(g, xs[0], t), xs[0], xs[1]])
        else:
            full = g.op(op_name, [xs[0], xs[1], ANYTHING] + more, element_dtype=t)
        return [g.op("TensorListStack", [full, ANYTHING], element_dtype=t)]
    return build


def scatter(x, at):
    y = np.empty_like(x)
    y[at] = x
    return y


for n in ("TensorListScatter", "TensorListScatterV2", "TensorListScatterIntoExistingList"):
    op(n, typed(order), untyped(scatter), build=scattered(n), raw=True, types=ANY, n=4)


def twice(g, xs, attrs):
    t = attrs["T"]
    full = from_tensor(g, xs[0], t)
    both = g.op("TensorListConcatLists", [full, full], element_dtype=t)
    return [g.op("TensorListStack", [both, ANYTHING], element_dtype=t)]


op("TensorListConcatLists", typed(rows), untyped(lambda x: np.concatenate([x, x])), build=twice, raw=True, types=ANY, n=3)


# ---- maps ----

def looked_up(g, xs, attrs):
    t, n = attrs["T"], attrs["N"]
    each, m = g.op("Unpack", [xs[0]], num=n), g.op("EmptyTensorMap", [])
    for i in range(n):
        m = g.op("TensorMapInsert", [m, np.int64(i), each[i]])
    has = g.op("TensorMapHasKey", [m, np.int64(n)])
    size = g.op("TensorMapSize", [g.op("TensorMapErase", [m, np.int64(0)], value_dtype=t)])
    found = [g.op("TensorMapLookup", [m, np.int64(i)], value_dtype=t) for i in reversed(range(n))]
    return [g.op("Pack", [found]), has, size, g.op("TensorMapStackKeys", [m], key_dtype=Type(np.int64))]


for n in ("EmptyTensorMap", "TensorMapInsert", "TensorMapLookup", "TensorMapErase", "TensorMapHasKey", "TensorMapSize",
          "TensorMapStackKeys"):
    op(n, counted(rows), uncounted(lambda x: (x[::-1], np.bool_(False), np.int32(len(x) - 1), np.arange(len(x), dtype=np.int64))),
       build=looked_up, raw=True, types=ANY, n=2)


# ---- truth and taps ----

def truth(x):
    return np.asarray(x.size > 0 if x.ndim else bool(x.item()))


def without_denormals(x):
    """They count as 0 on the threads that compute."""
    if x.dtype.kind not in "fc":
        return x
    tiny = np.finfo(x.real.dtype).tiny
    return np.where((np.abs(x.real) < tiny) & (np.abs(x.imag) < tiny), np.zeros((), x.dtype), x)


op("ToBool", lambda r: [without_denormals(r.any(() if r.chance(0.6) else r.shape()))], truth, raw=True, types=ANY, n=8)
for n in ("Copy", "CopyHost", "DebugIdentity", "DebugIdentityV2", "DebugGradientIdentity"):
    op(n, lambda r: [r.any(r.shape())], lambda x: x, raw=True, types=ANY, n=3)
op("DebugNanCount", lambda r: [r.any(r.shape())], lambda x: np.asarray([np.isnan(x).sum()], np.int64) if x.dtype.kind == "f" else
   np.zeros(1, np.int64), types=[np.float32, np.float64, np.int32, np.uint8], n=4)
