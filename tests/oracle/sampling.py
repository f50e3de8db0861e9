"""tests/oracle/sampling.py -- random numbers by their statistics, and summaries byte by byte."""
import struct

import numpy as np
import scipy.stats as stats

from graph import STRING, Graph, Type
from table import covers, op
from values import FLOATS, INTS, wide

RNG = np.random.default_rng(1)
RARE = 1e-7  # the seeds are fixed, so what passes once always passes


def draw(name, inputs, outputs=1, runs=1, **attrs):
    """The outputs of some runs of one node, with seeds of our own."""
    g = Graph()
    y = g.op(name, inputs, seed=int(RNG.integers(1, 1 << 40)), seed2=int(RNG.integers(1, 1 << 40)), **attrs)
    made = [g.run([y[i] for i in range(outputs)]) for _ in range(runs)]
    g.close()
    return made


def fits(samples, distribution, steps=None):
    """Kolmogorov and Smirnov's test, with half a step of noise where a type has few values."""
    a = wide(samples).ravel()
    if steps:
        a = a + RNG.uniform(0, steps, a.shape)
    assert stats.kstest(a, distribution).pvalue > RARE


def counts_fit(counts, p):
    expected = np.asarray(p) / np.sum(p) * np.sum(counts)
    keep = expected > 5
    if np.sum(keep) > 1:
        kept = expected[keep] * (np.sum(counts[keep]) / np.sum(expected[keep]))
        assert stats.chisquare(counts[keep], kept).pvalue > RARE


@covers("RandomUniform")
def test_random_uniform_fits_its_distribution():
    for t, steps in zip(FLOATS, (2.0 ** -10, 2.0 ** -7, 2.0 ** -23, 2.0 ** -52)):
        (x,), (y,) = draw("RandomUniform", [np.int32([100, 50])], dtype=Type(t), runs=2)
        assert np.all((wide(x) >= 0) & (wide(x) < 1)) and not np.array_equal(x, y)
        fits(x, "uniform", steps)


@covers("RandomStandardNormal", "TruncatedNormal")
def test_random_normals_fit_their_distribution():
    for t in FLOATS[2:]:
        fits(draw("RandomStandardNormal", [np.int64([5000])], dtype=Type(t))[0][0], "norm")
        x = draw("TruncatedNormal", [np.int32([5000])], dtype=Type(t))[0][0]
        assert np.max(np.abs(x)) < 2
        fits(x, stats.truncnorm(-2, 2).cdf)


@covers("RandomUniformInt")
def test_random_integers_are_all_alike():
    lo, n = int(RNG.integers(-50, 50)), int(RNG.integers(1, 40))
    for t in (np.int32, np.int64):
        x, = draw("RandomUniformInt", [np.int32([4000]), t(lo), t(lo + n)], Tout=Type(t))[0]
        counts_fit(np.bincount((x - lo).astype(int), minlength=n), np.ones(n))


@covers("RandomShuffle")
def test_shuffles_are_all_alike():
    seen = {}
    for x, in draw("RandomShuffle", [np.int32([0, 1, 2])], runs=600):
        seen[tuple(x)] = seen.get(tuple(x), 0) + 1
    assert all(sorted(k) == [0, 1, 2] for k in seen)
    counts_fit(np.array(list(seen.values()) + [0] * (6 - len(seen))), np.ones(6))


@covers("Multinomial")
def test_multinomial_fits_the_softmax():
    classes = int(RNG.integers(1, 12))
    logits = RNG.standard_normal((3, classes)) * 2
    for t in FLOATS[2:]:
        for out in (np.int32, np.int64):
            x, = draw("Multinomial", [logits.astype(t), np.int32(3000)], output_dtype=Type(out))[0]
            assert x.dtype == out and x.shape == (3, 3000)
            for row, l in zip(x, logits):
                counts_fit(np.bincount(row.astype(int), minlength=classes), np.exp(l - np.max(l)))


def log_uniform(n):
    c = np.arange(n)
    return np.log((c + 2) / (c + 1)) / np.log1p(n)


@covers("LogUniformCandidateSampler", "UniformCandidateSampler")
def test_samplers_fit_their_probabilities():
    n = int(RNG.integers(2, 30))
    true = RNG.integers(0, n, (4, 2))
    for name, p in (("LogUniformCandidateSampler", log_uniform(n)), ("UniformCandidateSampler", np.full(n, 1 / n))):
        x, at_true, at_sampled = draw(name, [true], 3, num_true=2, num_sampled=2000, unique=False, range_max=n)[0]
        counts_fit(np.bincount(x, minlength=n), p)
        assert np.allclose(at_true, 2000 * p[true], 1e-5) and np.allclose(at_sampled, 2000 * p[x], 1e-5)


def test_unique_samplers_draw_nothing_twice_and_as_often_as_they_expect():
    n = int(RNG.integers(8, 30))
    k = n // 2
    every = np.arange(n)[:, None]
    for name in ("LogUniformCandidateSampler", "UniformCandidateSampler"):
        runs = draw(name, [every], 3, runs=300, num_true=1, num_sampled=k, unique=True, range_max=n)
        assert all(len(set(x)) == k for x, _, _ in runs)
        assert all(np.allclose(at_true.ravel()[x], at_sampled) for x, at_true, at_sampled in runs)
        counts = np.bincount(np.concatenate([x for x, _, _ in runs]), minlength=n) / 300
        expected = np.mean([at_true.ravel() for _, at_true, _ in runs], axis=0)
        assert np.max(np.abs(counts - expected)) < 0.2  # what is expected is an estimate itself


def hits_case(r):
    true = r.rng.integers(0, 12, (r.int(0, 6), r.int(1, 3)))
    return [true, r.rng.integers(0, 12, r.int(0, 9))], {"num_true": true.shape[1]}


def hits(true, sampled, num_true):
    last = {int(c): i for i, c in enumerate(sampled)}
    found = [(row, last[int(c)]) for row, cs in enumerate(true) for c in cs if int(c) in last]
    rows, places = zip(*found) if found else ((), ())
    return np.array(rows, np.int32), np.array(places, np.int64), np.full(len(rows), -np.finfo(np.float32).max)


op("ComputeAccidentalHits", hits_case, hits, n=40)


# ---- summaries ----

def varint(n):
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def doubles(number, values):
    return field(number, struct.pack(f"<{len(values)}d", *values))


def strings(values, shape):
    a = np.empty(shape, STRING)
    a.reshape(-1)[:] = values
    return a


def tagged(r):
    shape = r.shape(0, 2)
    n = int(np.prod(shape, dtype=int))
    return [strings([b"tag%d" % i * r.int(0, 40) for i in range(n)], shape), r.finite(shape)]


def scalar_summary(tags, values):
    values = wide(values)
    return strings([b"".join(field(1, (field(1, t) if t else b"") + b"\x15" + struct.pack("<f", v))
                             for t, v in zip(tags.ravel(), values.ravel()))], ())


def bucket_limits():
    up, v = [], 1e-12
    while v < 1e20:
        up.append(v)
        v *= 1.1
    up.append(np.finfo(float).max)
    return np.array([-x for x in reversed(up)] + [0.0] + up)


LIMITS = bucket_limits()


def histogram_summary(tag, values):
    x = np.asarray(wide(values), np.float64).ravel()
    counts = np.bincount(np.minimum(np.searchsorted(LIMITS, x, "right"), len(LIMITS) - 1), minlength=len(LIMITS))
    keep = [i for i in range(len(LIMITS)) if counts[i] or i + 1 == len(LIMITS) or counts[i + 1]]
    low, high, total, squares = np.finfo(float).max, -np.finfo(float).max, 0.0, 0.0
    for v in x:  # in this order, as the sums are rounded
        low, high, total, squares = min(low, v), max(high, v), total + v, squares + v * v
    numbers = b"".join(varint(i << 3 | 1) + struct.pack("<d", v) for i, v in
                       enumerate((low, high, float(len(x)), total, squares), 1) if v)
    histo = numbers + doubles(6, LIMITS[keep]) + doubles(7, counts[keep].astype(float))
    return strings([field(1, field(1, tag.item()) + field(5, histo))], ())


def spread(r):
    shape = r.long_shape() if r.number % 4 == 0 else r.shape()
    return [strings([b"a"], ()), r.finite(shape) if r.number % 2 else r.any(shape) if r.T in INTS else r.finite(shape, scale=1e3)]


op("ScalarSummary", tagged, scalar_summary, types=FLOATS + INTS, raw=True, n=6)
op("HistogramSummary", spread, histogram_summary, types=FLOATS + INTS, raw=True, n=8)


def parts(r):
    """Summaries with tags that do not meet, in inputs of several shapes."""
    out, count = [], 0
    for _ in range(r.int(1, 4)):
        shape = r.shape(0, 2, most=3)
        made = []
        for _ in range(int(np.prod(shape, dtype=int))):
            count += 1
            made.append(field(1, field(1, b"t%d" % count) + b"\x15" + struct.pack("<f", count)) * r.int(0, 1))
        out.append(strings(made, shape))
    return [out]


op("MergeSummary", parts, lambda inputs: strings([b"".join(s for a in inputs for s in a.ravel())], ()), raw=True, n=20)
