"""tests/oracle/scatter.py -- slices of variables and tensors, named by index tuples or ranges, changed."""
import numpy as np

from graph import Type
from indices import gather_nd
from state import name, rows, scatter, state_op, typed, untyped, with_refs, with_resources
from table import op
from values import COMPLEXES, FLOATS, NUMBERS

REALS = [t for t in NUMBERS if t not in COMPLEXES]


def few_rows(r):
    """No row twice, so that products and quotients stay small."""
    s = r.shape(1, 3, least=1)
    at = r.rng.permutation(s[0])[:r.int(0, s[0])].astype(r.index_type())
    u = r.finite(at.shape + s[1:])
    return [r.finite(s), at, np.where(u == 0, u + 1, u).astype(u.dtype) if u.dtype.names is None else u]


state_op("ScatterMul", 1, few_rows, scatter(np.multiply), types=FLOATS, ulp=2, n=10)
state_op("ScatterDiv", 1, few_rows, scatter(np.divide), types=FLOATS, ulp=2, n=10)
state_op("ScatterMin", 1, rows, scatter(np.minimum), types=REALS, n=10)
state_op("ScatterMax", 1, rows, scatter(np.maximum), types=REALS, n=10)


# ---- by tuples ----

def tuples(r):
    s = r.shape(1, 4, least=1)
    k = r.int(1, len(s))
    lead = r.shape(1, 2)
    t = r.index_type()
    at = np.stack([r.indices(d, lead, t) for d in s[:k]], -1)
    return [r.finite(s), at, r.finite(lead + s[k:])]


def scatter_nd(f):
    def oracle(x, at, u):
        out = x.copy()
        k = at.shape[-1]
        for i, row in zip(at.reshape(-1, k), u.reshape((-1,) + x.shape[k:])):
            out[tuple(i)] = f(out[tuple(i)], row)
        return out
    return oracle


def nd_scale(x, at, u, T=None):
    return scatter_nd(np.add)(np.abs(x), at, np.abs(u)) * (1 + at.size)


ND = {"Update": (lambda a, b: b, NUMBERS, {}), "Add": (np.add, NUMBERS, {"sums": 6, "own_eps": True, "scale": nd_scale}),
      "Sub": (np.subtract, NUMBERS, {"sums": 6, "own_eps": True, "scale": nd_scale}), "Min": (np.minimum, REALS, {}),
      "Max": (np.maximum, REALS, {})}
for kind, (f, types, how) in ND.items():
    op(f"ScatterNd{kind}", typed(tuples), untyped(scatter_nd(f)), build=with_refs(f"ScatterNd{kind}", 1), static=False, types=types,
       zero_sign=False, n=8, **how)
    op(f"ResourceScatterNd{kind}", typed(tuples), untyped(scatter_nd(f)), build=with_resources(f"ResourceScatterNd{kind}", 1),
       static=False, types=types, zero_sign=False, n=8, **how)
    op(f"TensorScatter{kind}", tuples, scatter_nd(f), types=types, zero_sign=False, **how)
op("ScatterNdNonAliasingAdd", tuples, scatter_nd(np.add), types=NUMBERS, zero_sign=False, sums=6, own_eps=True, scale=nd_scale)


def gather_build(g, xs, attrs):
    h = g.op("VarHandleOp", [], dtype=attrs["T"], shape=None, shared_name=name())
    set_it = g.op("AssignVariableOp", [h, xs[0]], dtype=attrs["T"])
    return [g.op("ResourceGatherNd", [h, xs[1]], controls=[set_it], dtype=attrs["T"])]


op("ResourceGatherNd", typed(lambda r: tuples(r)[:2]), untyped(gather_nd), build=gather_build, static=False, raw=True, types=NUMBERS)


# ---- by ranges ----

def ranges(r):
    s = r.shape(1, 4, least=1)
    t = r.index_type()
    step = [r.pick([-2, -1, 1, 2]) for _ in s]
    begin = [r.int(-d - 1, d) for d in s]
    end = [r.int(-d - 1, d) for d in s]
    x = r.finite(s)
    part = x[tuple(slice(b, e, k) for b, e, k in zip(begin, end, step))]
    return [x, np.asarray(begin, t), np.asarray(end, t), np.asarray(step, t), r.finite(part.shape)]


def slice_update(x, begin, end, step, value):
    out = x.copy()
    out[tuple(slice(int(b), int(e), int(k)) for b, e, k in zip(begin, end, step))] = value
    return out


op("TensorStridedSliceUpdate", ranges, slice_update, types=NUMBERS)
op("StridedSliceAssign", typed(ranges), untyped(slice_update), build=with_refs("StridedSliceAssign", 1), static=False, types=NUMBERS)
op("ResourceStridedSliceAssign", typed(ranges), untyped(slice_update), build=with_resources("ResourceStridedSliceAssign", 1),
   static=False, types=NUMBERS)


# ---- rows of tensors ----

def inplace(r):
    s = r.shape(1, 3, least=1)
    n = r.int(0, 5)
    return [r.finite(s), np.asarray(r.rng.integers(-s[0], s[0], n), np.int32), r.finite((n,) + s[1:])]


def in_place(f):
    def oracle(x, at, v):
        out = x.copy()
        for i, row in zip(at, v):
            out[i % len(out)] = f(out[i % len(out)], row)
        return out
    return oracle


op("InplaceUpdate", inplace, in_place(lambda a, b: b), types=NUMBERS)
op("InplaceAdd", inplace, in_place(np.add), types=FLOATS, sums=6, own_eps=True, zero_sign=False)
op("InplaceSub", inplace, in_place(np.subtract), types=FLOATS, sums=6, own_eps=True, zero_sign=False)
