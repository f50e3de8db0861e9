"""tests/oracle/state.py -- variables of both kinds, updates of rows, and optimizers, each in a run of its own making.

A variable is set and updated in one run: the ref of an Assign is what the update is given, a resource's update waits for
its assignment by a control edge, and reads wait for the update.
"""
import numpy as np

from graph import STRING, Type
from opdefs import OPS
from table import fails, op
from values import BOOL, COMPLEXES, FLOATS, NUMBERS, is_complex, narrow, wide

COUNT = [0]


def name():
    COUNT[0] += 1
    return f"v{COUNT[0]}"


# ---- builders: the first n inputs are variables, set to the values given ----

def with_refs(op_name, n, kind="VariableV2"):
    """The op on n ref variables; outputs are the ref the op returns and what the others hold after it."""
    def build(g, xs, attrs):
        attrs, t = dict(attrs), attrs["T"]
        del attrs["T"]
        refs = []
        for x in xs[:n]:
            v = g.op(kind, [], dtype=t, shape=None if kind == "VariableV2" else (), shared_name=name())
            refs.append(g.op("Assign", [v, x], validate_shape=False))
        y = g.op(op_name, refs + xs[n:], **attrs)
        return [g.op("Identity", [y])] + [g.op("Identity", [r], controls=[y]) for r in refs[1:]]
    return build


def with_resources(op_name, n, typed="T"):
    """The op on n resource variables; outputs are what they hold after it."""
    def build(g, xs, attrs):
        attrs, t = dict(attrs), attrs["T"]
        if typed != "T":
            del attrs["T"]
            attrs[typed] = t
        handles, sets = [], []
        for x in xs[:n]:
            h = g.op("VarHandleOp", [], dtype=t, shape=None, shared_name=name())
            sets.append(g.op("AssignVariableOp", [h, x], dtype=t))
            handles.append(h)
        y = g.op(op_name, handles + xs[n:], controls=sets, **attrs)
        return [g.op("ReadVariableOp", [h], controls=[y], dtype=t) for h in handles]
    return build


def typed(gen):
    """The type goes along as an attr, for the variables."""
    def with_type(r):
        made = gen(r)
        inputs, attrs = made if isinstance(made, tuple) else (made, {})
        return inputs, dict(attrs, T=Type(r.T))
    return with_type


def untyped(f):
    return lambda *xs, T=None, **attrs: f(*xs, **attrs)


def state_op(op_name, n_variables, gen, f, **how):
    """The same comparison for a ref op and its resource form, as far as they exist."""
    resource = op_name + "VariableOp" if op_name.startswith("Assign") else "Resource" + op_name
    if op_name in OPS:
        op(op_name, typed(gen), untyped(f), build=with_refs(op_name, n_variables), static=False, **how)
    if resource in OPS:
        attr = "T" if "T" in OPS[resource].attrs else "dtype"
        op(resource, typed(gen), untyped(f), build=with_resources(resource, n_variables, attr), static=False, **how)


# ---- assigning ----

def twice(r):
    s = r.long_shape()
    return [r.any(s), r.any(s)] if not is_complex(r.T) else [r.finite(s), r.finite(s)]


ROUND = {None: 0.5, COMPLEXES[0]: 1, COMPLEXES[1]: 1}
state_op("Assign", 1, twice, lambda v, x: x, raw=True, types=NUMBERS + [BOOL, STRING], n=4)
state_op("AssignAdd", 1, twice, lambda v, x: v + x, types=NUMBERS, ulp=ROUND, n=8)
state_op("AssignSub", 1, twice, lambda v, x: v - x, types=NUMBERS, ulp=ROUND, n=8)


def read_back(g, xs, attrs):
    t = attrs["T"]
    h = g.op("VarHandleOp", [], dtype=t, shape=None, shared_name=name())
    set_it = g.op("AssignVariableOp", [h, xs[0]], dtype=t)
    return [g.op("ReadVariableOp", [h], controls=[set_it], dtype=t)]


def held(kind):
    def build(g, xs, attrs):
        v = g.op(kind, [], dtype=attrs["T"], shape=attrs["s"], shared_name=name())
        return [g.op("Identity", [g.op("Assign", [v, xs[0]])])]
    return build


def kept(r):
    x = r.any(r.shape())
    return [x], {"s": x.shape}


def temporary(g, xs, attrs):
    """Filled and added to, then its value is all that is left."""
    var = name()
    v = g.op("TemporaryVariable", [], dtype=attrs["T"], shape=attrs["s"], var_name=var)
    v = g.op("Assign", [v, xs[0]])
    return [g.op("DestroyTemporaryVariable", [v], var_name=var)]


def is_set(which):
    def build(g, xs, attrs):
        t = attrs["T"]
        if which == "IsVariableInitialized":
            v, w = (g.op("VariableV2", [], dtype=t, shape=attrs["s"], shared_name=name()) for _ in range(2))
            return [g.op(which, [g.op("Assign", [v, xs[0]])]), g.op(which, [w])]
        v, w = (g.op("VarHandleOp", [], dtype=t, shape=attrs["s"], shared_name=name()) for _ in range(2))
        set_it = g.op("AssignVariableOp", [v, xs[0]], dtype=t)
        return [g.op(which, [v], controls=[set_it]), g.op(which, [w])]
    return build


def shape_of_variable(g, xs, attrs):
    h = g.op("VarHandleOp", [], dtype=attrs["T"], shape=None, shared_name=name())
    return [g.op("VariableShape", [h], controls=[g.op("AssignVariableOp", [h, xs[0]], dtype=attrs["T"])], out_type=attrs["out"])]


def destroyed(g, xs, attrs):
    h = g.op("VarHandleOp", [], dtype=attrs["T"], shape=None, shared_name=name())
    set_it = g.op("AssignVariableOp", [h, xs[0]], dtype=attrs["T"])
    gone = g.op("DestroyResourceOp", [h], controls=[set_it])
    return [g.op("VarIsInitializedOp", [h], controls=[gone])]


ANY = NUMBERS + [BOOL, STRING]
for n in ("VarHandleOp", "ReadVariableOp"):
    op(n, typed(lambda r: [r.any(r.shape())]), untyped(lambda x: x), build=read_back, raw=True, types=ANY, n=2, static=False)
for n in ("Variable", "VariableV2"):
    op(n, typed(kept), untyped(lambda x, s: x), build=held(n), raw=True, types=ANY, n=3)
for n in ("TemporaryVariable", "DestroyTemporaryVariable"):
    op(n, typed(kept), untyped(lambda x, s: x), build=temporary, raw=True, types=NUMBERS + [BOOL], n=2)
for n in ("IsVariableInitialized", "VarIsInitializedOp"):
    op(n, typed(kept), untyped(lambda x, s: (np.asarray(True), np.asarray(False))), build=is_set(n), types=NUMBERS, n=1)
op("VariableShape", typed(lambda r: ([r.any(r.shape())], {"out": Type(r.index_type())})),
   untyped(lambda x, out: np.asarray(x.shape, int)), build=shape_of_variable, types=NUMBERS, n=3)
op("DestroyResourceOp", typed(kept), untyped(lambda x, s: np.asarray(False)), build=destroyed, types=NUMBERS, n=1)


def counted(g, xs, attrs):
    v = g.op("Assign", [g.op("VariableV2", [], dtype=attrs["T"], shape=(), shared_name=name()), xs[0]])
    y = g.op("CountUpTo", [v], limit=attrs["limit"])
    return [y, g.op("Identity", [v], controls=[y])]


op("CountUpTo", typed(lambda r: ([r.rng.integers(-5, 5, ()).astype(r.T)], {"limit": r.int(5, 9)})),
   untyped(lambda x, limit: (x, x + 1)), build=counted, n=6)
fails("CountUpTo", typed(lambda r: ([np.asarray(3, r.T)], {"limit": 3})), "Reached limit of 3", build=counted)


# ---- rows ----

def rows(r):
    """Indices may repeat; the update may be a scalar."""
    s = r.shape(1, 4, least=1)
    at = r.indices(s[0], r.shape(0, 2))
    return [r.finite(s), at, r.finite(() if r.chance(0.15) else at.shape + s[1:])]


def scatter(f):
    def oracle(v, at, u):
        v = v.copy()
        u = np.broadcast_to(u, at.shape + v.shape[1:]).reshape((-1,) + v.shape[1:])
        for i, row in zip(at.ravel(), u):
            v[i] = f(v[i], row)
        return v
    return oracle


def scatter_scale(v, at, u, T):
    return scatter(np.add)(np.abs(v), at, np.abs(u)) * (1 + at.size / 16)


state_op("ScatterUpdate", 1, rows, scatter(lambda a, b: b), types=NUMBERS, n=10)
state_op("ScatterAdd", 1, rows, scatter(np.add), types=NUMBERS, sums=6, own_eps=True, scale=scatter_scale, zero_sign=False, n=10)
state_op("ScatterSub", 1, rows, scatter(np.subtract), types=NUMBERS, sums=6, own_eps=True, scale=scatter_scale, zero_sign=False, n=10)


def gather_build(g, xs, attrs):
    h = g.op("VarHandleOp", [], dtype=attrs["T"], shape=None, shared_name=name())
    set_it = g.op("AssignVariableOp", [h, xs[0]], dtype=attrs["T"])
    return [g.op("ResourceGather", [h, xs[1]], controls=[set_it], dtype=attrs["T"])]


op("ResourceGather", typed(lambda r: (lambda s: [r.any(s), r.indices(s[0], r.shape(0, 2))])(r.shape(1, 3, least=1))),
   untyped(lambda x, at: np.take(x, at, 0)), build=gather_build, raw=True, types=ANY, n=4, static=False)


# ---- optimizers ----
# Slots and hyper-parameters as the updates are defined; each oracle gives (var, slots...) after one step.

REALS = FLOATS  # integers have kernels too, but no use


def number(r, lo, hi):
    return narrow(np.asarray(r.rng.uniform(lo, hi)), r.T)


def values(r, n_slots, positive=()):
    s = r.shape(1, 4) if r.number % 4 else (3000,)
    out = [r.finite(s) for _ in range(1 + n_slots)]
    for i in positive:
        out[i] = narrow(np.abs(wide(out[i])) + 0.2, r.T)
    return out, r.finite(s)


def descent(r):
    (v,), g = values(r, 0)
    return [v, number(r, 0, 1), g]


def momentum_case(r):
    (v, a), g = values(r, 1)
    return [v, a, number(r, 0, 1), g, number(r, 0, 1)], {"use_nesterov": r.chance(0.5)}


def momentum(v, a, lr, g, m, use_nesterov):
    a = a * m + g
    return v - (g * lr + a * m * lr if use_nesterov else lr * a), a


def adagrad_case(r):
    (v, a), g = values(r, 1, [1])
    return [v, a, number(r, 0, 1), g], {"update_slots": r.chance(0.8)}


def adagrad(v, a, lr, g, update_slots):
    a = a + g * g if update_slots else a
    return v - g * lr / np.sqrt(a), a


def adam_case(r):
    (v, m, s), g = values(r, 2, [2])
    return [v, m, s, number(r, .1, .9), number(r, .1, .9), number(r, 0, 1), number(r, .1, .9), number(r, .1, .9),
            number(r, .01, .1), g], {"use_nesterov": r.chance(0.3)}


def adam(v, m, s, p1, p2, lr, b1, b2, eps, g, use_nesterov):
    a = lr * np.sqrt(1 - p2) / (1 - p1)
    m = m + (g - m) * (1 - b1)
    s = s + (g * g - s) * (1 - b2)
    top = g * (1 - b1) + b1 * m if use_nesterov else m
    return v - top * a / (np.sqrt(s) + eps), m, s


def rmsprop_case(r):
    (v, ms, mom), g = values(r, 2, [1])
    return [v, ms, mom, number(r, 0, 1), number(r, .1, .9), number(r, 0, 1), number(r, .01, .1), g]


def rmsprop(v, ms, mom, lr, rho, momentum, eps, g):
    ms = ms + (g * g - ms) * (1 - rho)
    mom = mom * momentum + g * lr / np.sqrt(ms + eps)
    return v - mom, ms, mom


def adadelta_case(r):
    (v, a, u), g = values(r, 2, [1, 2])
    return [v, a, u, number(r, 0, 1), number(r, .1, .9), number(r, .01, .1), g]


def adadelta(v, a, u, lr, rho, eps, g):
    a = a * rho + g * g * (1 - rho)
    d = np.sqrt(u + eps) / np.sqrt(a + eps) * g
    return v - lr * d, a, u * rho + d * d * (1 - rho)


def ftrl_case(r):
    (v, a, l), g = values(r, 2, [1])
    return [v, a, l, g, number(r, .2, 1), number(r, 0, .3), number(r, 0, .3), narrow(np.asarray(-0.5), r.T)]


def ftrl(v, a, l, g, lr, l1, l2, power):
    new = a + g * g
    l = l + g - (new ** -power - a ** -power) / lr * v
    quad = new ** -power / lr + 2 * l2
    return np.where(np.abs(l) > l1, (np.sign(l) * l1 - l) / quad, 0), new, l


def loose(f):
    """A generous scale: the updates subtract terms of the size of the operands."""
    def scale(*xs, **attrs):
        big = 1 + max((float(np.max(np.abs(x))) if x.size else 0 for x in xs if x.ndim), default=0) ** 2
        return tuple(np.full(np.shape(y), big) for y in (lambda t: t if isinstance(t, tuple) else (t,))(f(*xs, **attrs)))
    return scale


APPLY = {"ApplyGradientDescent": (1, descent, lambda v, lr, g: v - lr * g), "ApplyMomentum": (2, momentum_case, momentum),
         "ApplyAdagrad": (2, adagrad_case, adagrad), "ApplyAdam": (3, adam_case, adam), "ApplyRMSProp": (3, rmsprop_case, rmsprop),
         "ApplyAdadelta": (3, adadelta_case, adadelta), "ApplyFtrl": (3, ftrl_case, ftrl)}
for n, (slots, gen, f) in APPLY.items():
    state_op(n, slots, gen, f, types=REALS, sums=16, own_eps=True, scale=untyped(loose(f)), zero_sign=False, n=10)


def sparse_case(gen, slots, at_of_gradient):
    """Of a dense case: a gradient for some rows, each named once, and the indices behind it."""
    def sparse(r):
        made = gen(r)
        inputs, attrs = made if isinstance(made, tuple) else (made, {})
        s = r.shape(1, 3, least=1)
        for i in range(slots):
            a = r.finite(s)
            inputs[i] = a if np.all(wide(inputs[i]) >= 0) is np.False_ else narrow(np.abs(wide(a)) + 0.2, r.T)
        at = r.rng.permutation(s[0])[:r.int(0, s[0])].astype(r.index_type())
        inputs[at_of_gradient] = r.finite(at.shape + s[1:])
        return inputs[:at_of_gradient + 1] + [at] + inputs[at_of_gradient + 1:], attrs
    return sparse


def sparse_of(f, slots, at_of_gradient):
    def oracle(*xs, **attrs):
        xs = list(xs)
        at = xs.pop(at_of_gradient + 1).astype(int)
        state = [x.copy() for x in xs[:slots]]
        rows = f(*[x[at] for x in state], *xs[slots:], **attrs)
        for x, y in zip(state, rows if isinstance(rows, tuple) else (rows,)):
            x[at] = y
        return tuple(state)
    return oracle


SPARSE = {"SparseApplyAdagrad": (2, adagrad_case, adagrad, 3), "SparseApplyMomentum": (2, momentum_case, momentum, 3),
          "SparseApplyFtrl": (3, ftrl_case, ftrl, 3), "SparseApplyRMSProp": (3, rmsprop_case, rmsprop, 7),
          "SparseApplyAdadelta": (3, adadelta_case, adadelta, 6)}
for n, (slots, gen, f, at) in SPARSE.items():
    sparse_f = sparse_of(f, slots, at)
    state_op(n, slots, sparse_case(gen, slots, at), sparse_f, types=REALS, sums=16, own_eps=True, scale=untyped(loose(sparse_f)),
             zero_sign=False, n=10)
