"""tests/oracle/table.py -- one line an op: how to make its inputs, and what numpy, scipy or PyTorch say of them.

    op("Tanh", unary, np.tanh, ulp=2)
    op("Sum", reduction, lambda x, axes, keep_dims: ..., sums=4)
    op("Tile", tiled, lambda x, m: np.tile(x, m), raw=True)
    fails("FloorDiv", by_zero, "Integer division by zero")

A generator takes a Rand (values.py) and gives (inputs, attrs); a list among the inputs is a list argument.  The oracle takes
the same, as f(*inputs, **attrs), and gives the output or a tuple of them.  Each op is tried in every type its definition
allows, n times each, with the inputs now constants, now fed, their shapes now known to the graph, now partly, now not at
all; what shape inference said must agree with what came out.

How a result is judged:
    raw=True    the oracle moves elements of the type itself; the result has the same bytes
    ulp=k       the oracle computes in float64; off by at most k units in the last place of the type (default 0.5: rounded
                as well as can be; float64 gets 1 more, since the oracle rounds too).  Integers and bools: equal
    sums=k      off by at most k (ulp + eps * scale), scale being the oracle of the inputs' absolute values: for whatever adds
                up products; or scale=g, g(*inputs, **attrs).  eps is that of float for the 16-bit types, which accumulate in it,
                unless own_eps=True
types=[...] tries those of these that the definition allows; else all are, of numbers and bools only unless raw.
Denormals may have become zeros, in inputs or results.  Many cases share one graph and one run.
"""
import os
import sys
import traceback
import zlib

import numpy as np

from graph import STRING, Failure, Graph
from opdefs import OPS
from values import (BOOL, DOUBLE, FLOAT, LIMITS, NUMBERS, Rand, eps, flush, is_complex, is_float, name_of, real_of, ulp,
                    wide)

SEED = int(os.environ.get("SEED", "1"))
CASES_A_GRAPH, BYTES_A_GRAPH = 300, 1 << 25
ROWS = []


class Row:
    def __init__(self, op, gen, f, types=None, n=12, raw=False, ulp=0.5, sums=None, scale=None, own_eps=False,
                 zero_sign=True, build=None, message=None, static=True):
        self.op, self.gen, self.f, self.n, self.raw, self.ulp, self.sums = op, gen, f, n, raw, ulp, sums
        self.zero_sign, self.build, self.message, self.static, self.scale = zero_sign, build, message, static, scale
        self.own_eps = own_eps
        self.given_types, self.cases, self.worst, self.failures, self.seen = types, 0, 0.0, [], set()

    def types(self):
        attr = OPS[self.op].main_attr()
        allowed = OPS[self.op].types(attr) if attr else None
        if self.given_types is not None:
            return [t for t in map(np.dtype, self.given_types) if not allowed or t in allowed]
        return [t for t in allowed or [FLOAT] if self.raw or t in NUMBERS or t == BOOL]

    def limit(self, t):
        base = self.sums if self.sums is not None else self.ulp
        if isinstance(base, dict):
            base = base.get(t, base.get(None, 0.5))
        return base + (1 if real_of(t) == DOUBLE else 0)


def op(name, gen, f, **how):
    ROWS.append(Row(name, gen, f, **how))
    ROWS[-1].module = sys._getframe(1).f_globals["__name__"]


def fails(name, gen, message, **how):
    """Every case must fail, with a message that holds this text, or one of these: inference may be the first to see it."""
    how.setdefault("n", 3)
    ROWS.append(Row(name, gen, None, message=message, **how))
    ROWS[-1].module = sys._getframe(1).f_globals["__name__"]


def covers(*ops):
    """Says which ops a function test_* compares."""
    def mark(test):
        test.ops = ops
        return test
    return mark


def each(inputs, f):
    return [[f(v) for v in i] if isinstance(i, (list, tuple)) else f(i) for i in inputs]


# ---- judging ----

def as_tuple(y):
    """Of outputs; a string alone stays one, which numpy would cut at its last zeros."""
    ys = tuple(y) if isinstance(y, (tuple, list)) else (y,)
    return tuple(np.asarray(v, STRING) if isinstance(v, bytes) else v for v in ys)


def bounded(a, t):
    """Infinity is one step beyond the largest number."""
    if np.iscomplexobj(a):
        return bounded(a.real, t) + 1j * bounded(a.imag, t)
    end = LIMITS[t][2] + ulp(np.float64(LIMITS[t][2]), t)
    return np.where(np.isnan(a), a, np.clip(a, -end, end))


def off(got, want, t, scale=None, own_eps=False):
    """How far each element is off, in ulp, or in parts of (ulp + eps * scale)."""
    g = wide(got)
    with np.errstate(all="ignore"):
        want = np.asarray(want, np.complex128 if is_complex(t) else np.float64)
        if is_complex(t):
            same = (g == want) | (~np.isfinite(g) & ~np.isfinite(want))
        else:
            same = (g == want) | (np.isnan(g) & np.isnan(want))
        if real_of(t) != DOUBLE:
            g, want = bounded(g, t), bounded(want, t)
            same |= g == want
        unit = ulp(want, t)
        if scale is not None:
            unit = unit + (eps(t) if own_eps or real_of(t) == DOUBLE else eps(FLOAT)) * np.nan_to_num(np.abs(scale), nan=0, posinf=0)
        e = np.abs(g - want) / unit
        return np.where(same, 0, np.where(np.isnan(e), np.inf, e))


class Case:
    def __init__(self, row, t, number):
        self.row, self.t, self.number = row, t, number
        self.seed = zlib.crc32(f"{SEED} {row.op} {row.message} {name_of(t)} {number}".encode())
        r = Rand(self.seed, t, number)
        made = row.gen(r)
        self.inputs, self.attrs = made if isinstance(made, tuple) else (made, {})
        self.inputs = each(self.inputs, np.asarray)
        self.rng, self.outputs, self.error = r, None, None
        self.want = None if row.message is not None else as_tuple(self.oracle(lambda a, t: a))

    def oracle(self, change, f=None):
        inputs = each(self.inputs, lambda a: a if self.row.raw else change(wide(a), a.dtype))
        with np.errstate(all="ignore"):
            return (f or self.row.f)(*inputs, **self.attrs)

    def bytes(self):
        return sum(a.nbytes for i in self.inputs for a in (i if isinstance(i, list) else [i]))

    def input(self, g, feeds, a):
        """A constant, or a placeholder that knows a, part or nothing of its shape."""
        kind = self.rng.rng.random()
        if kind < 0.35:
            return g.const(a)
        dims = tuple(-1 if self.rng.chance(0.5) else d for d in a.shape)
        x = g.feed(a.dtype, None if kind < 0.65 else a.shape if kind < 0.8 else dims)
        feeds[x] = a
        return x

    def add_to(self, g, feeds):
        mine = {}
        try:
            xs = each(self.inputs, lambda a: self.input(g, mine, a))
            n = len(self.want) if self.want is not None else 1
            if self.row.build:
                self.outputs = self.row.build(g, xs, self.attrs)
            else:
                y = g.op(self.row.op, xs, **self.attrs)
                self.outputs = [y[i] for i in range(n)]
            self.static = [g.static_shape(o) for o in self.outputs]
        except Failure as e:
            self.error = str(e)
        self.feeds = mine
        feeds.update(mine)

    def told(self):
        shapes = each(self.inputs, lambda a: f"{name_of(a.dtype)}{list(a.shape)}")
        return f"{self.row.op} {name_of(self.t)} case {self.number}: {shapes} {self.attrs}"

    def check_failure(self):
        if self.error is None:
            self.row.failures.append(f"{self.told()}: did not fail; expected '{self.row.message}'")
        elif not any(m in self.error for m in ([self.row.message] if isinstance(self.row.message, str) else self.row.message)):
            self.row.failures.append(f"{self.told()}: '{self.error}', expected '{self.row.message}'")

    def check(self, got):
        row = self.row
        row.cases += 1
        row.seen.add(name_of(self.t))
        if row.message is not None:
            return self.check_failure()
        if self.error is not None:
            return row.failures.append(f"{self.told()}: {self.error}")
        scales = None
        if row.sums is not None:
            absolute = (lambda a, t: np.abs(a) if a.dtype.kind in "fc" else a) if not row.scale else lambda a, t: a
            scales = as_tuple(self.oracle(absolute, row.scale))
        for i, (g, w) in enumerate(zip(got, self.want)):
            if w is not None:  # nothing is said of this output
                wrong = self.wrong(i, g, np.asarray(w), scales[i] if scales else None)
                if wrong:
                    return row.failures.append(f"{self.told()}: output {i}: {wrong}")

    def wrong(self, i, g, w, scale):
        row, known = self.row, self.static[i]
        if g.shape != w.shape:
            return f"shape {list(g.shape)}, expected {list(w.shape)}"
        if row.static and known is not None and (len(known) != g.ndim or any(k not in (-1, d) for k, d in zip(known, g.shape))):
            return f"inferred shape {known}, came out {list(g.shape)}"
        if g.dtype == STRING or row.raw:
            if g.dtype != w.dtype:
                return f"type {name_of(g.dtype)}, expected {name_of(w.dtype)}"
            same = np.array_equal(g, w) if g.dtype == STRING else g.tobytes() == np.ascontiguousarray(w).tobytes()
            return None if same else f"{g.ravel()[:8]}, expected {w.ravel()[:8]}"
        if is_float(g.dtype) or is_complex(g.dtype):
            return self.wrong_float(i, g, w, scale)
        bad = wide(g) != w
        if np.any(bad):
            bad = bad & (wide(g) != self.flushed(i))
        return self.show(g, w, bad) if np.any(bad) else None

    def flushed(self, i):
        """Output i of the oracle, had the denormals of the inputs been zeros."""
        return np.asarray(as_tuple(self.oracle(flush))[i])

    def wrong_float(self, i, g, w, scale):
        t, limit = g.dtype, self.row.limit(g.dtype)
        def error(want):
            return off(g, want, t, scale, self.row.own_eps)
        e = error(w)
        if np.any(e > limit):  # perhaps denormals were flushed
            e = np.minimum(e, error(flush(w, t)))
            e = np.minimum(e, error(flush(self.flushed(i), t)))
            e = np.where(np.abs(wide(g) - w) <= 2.0 ** LIMITS[t][1], 0, e)  # or on the way
        if self.row.zero_sign and is_float(t):
            v = wide(g)
            e = np.where((v == 0) & (w == 0) & (np.signbit(v) != np.signbit(w)), np.inf, e)
        worst = float(np.max(e)) if e.size else 0.0
        if worst > limit:
            return f"off by {worst:.3g}, allowed {limit}: {self.show(g, w, e > limit)}"
        self.row.worst = max(self.row.worst, worst)
        return None

    def show(self, g, w, bad):
        """The first wrong element, with the elements of the inputs that made it where they match."""
        k = int(np.argmax(np.ravel(bad)))
        at = np.unravel_index(k, g.shape)
        of = []
        for a in (a for i in self.inputs for a in (i if isinstance(i, list) else [i])):
            try:
                of.append(str(np.broadcast_to(wide(a), g.shape)[at]))
            except ValueError:
                pass
        return f"{np.sum(bad)} of {g.size}; at {[int(v) for v in at]} {wide(g)[at]!r}, expected {w[at]!r}" + (
            f", of {' '.join(of)}" if of else "")


# ---- running ----

def run_alone(g, case):
    try:
        return g.run(case.outputs, case.feeds)
    except Failure as e:
        case.error = str(e)
        return None


def run_all(cases):
    g, feeds = Graph(), {}
    for case in cases:
        case.add_to(g, feeds)
    together = [x for x in cases if x.error is None and x.row.message is None]
    fetches = [o for x in together for o in x.outputs]
    try:
        results = g.run(fetches, feeds) if fetches else []
        for case in together:
            case.got, results = results[:len(case.outputs)], results[len(case.outputs):]
    except Failure:  # which of them?
        for case in together:
            case.got = run_alone(g, case)
    for case in cases:
        if case not in together:
            case.got = run_alone(g, case) if case.error is None else None
        try:
            case.check(case.got)
        except Exception:
            case.row.failures.append(f"{case.told()}: {last_lines()}")
    g.close()


def last_lines():
    lines = traceback.format_exc().splitlines()
    return f"{lines[-4].strip()} {lines[-1]}"


def all_cases(rows):
    for row in rows:
        for t in row.types():
            for number in range(row.n):
                try:
                    yield Case(row, t, number)
                except Exception:  # a mistake in one row must not hide the others
                    row.failures.append(f"{row.op} {name_of(t)} case {number}: {last_lines()}")


def run_rows(rows):
    batch, size = [], 0
    for case in all_cases(rows):
        batch.append(case)
        size += case.bytes()
        if len(batch) >= CASES_A_GRAPH or size > BYTES_A_GRAPH:
            run_all(batch)
            batch, size = [], 0
    if batch:
        run_all(batch)
