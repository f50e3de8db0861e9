"""tests/oracle/random_more.py -- random numbers by seed, by key and of generators: that they fit their distribution and
depend on nothing else."""
import numpy as np
import scipy.stats as stats

from graph import Graph, Type
from table import covers

RNG = np.random.default_rng(1)
RARE = 1e-7  # the seeds are fixed, so what passes once always passes


def draw(name, inputs, **attrs):
    g = Graph()
    y = g.op(name, inputs, **attrs)
    got, = g.run([y])
    g.close()
    return got


def seed():
    return RNG.integers(-1 << 60, 1 << 60, 2)


def key():
    k, c = draw_key(seed())
    return [k, c, np.int32(1)]


def draw_key(s):
    g = Graph()
    y = g.op("StatelessRandomGetKeyCounter", [s])
    got = g.run([y[0], y[1]])
    g.close()
    return got


def fits(samples, distribution):
    assert stats.kstest(np.asarray(samples, float).ravel(), distribution).pvalue > RARE


def counts_fit(samples, pmf, hi):
    """Whole numbers 0..hi-1, and all larger ones together."""
    seen = np.bincount(np.minimum(samples.astype(int), hi), minlength=hi + 1)
    p = pmf(np.arange(hi))
    want = np.append(p, max(0, 1 - p.sum())) * samples.size
    keep = want > 5
    if keep.sum() > 1:
        kept = want[keep] * (seen[keep].sum() / want[keep].sum())
        assert stats.chisquare(seen[keep], kept).pvalue > RARE


@covers("StatelessRandomUniform", "StatelessRandomUniformV2", "StatelessRandomGetKeyCounter")
def test_a_seed_and_its_key_give_the_same_numbers():
    s, n = seed(), np.int32([7, 50])
    k, c = draw_key(s)
    for name in ("RandomUniform", "RandomNormal", "TruncatedNormal"):
        for t in (np.float32, np.float64, np.float16):
            a = draw("Stateless" + name, [n, s], dtype=Type(t))
            b = draw("Stateless" + name + "V2", [n, k, c, np.int32(3)], dtype=Type(t))
            assert np.array_equal(a, b) and np.array_equal(a, draw("Stateless" + name, [n, s], dtype=Type(t)))
            assert not np.array_equal(a, draw("Stateless" + name, [n, s + 1], dtype=Type(t)))


@covers("StatelessRandomUniform", "StatelessRandomNormal", "StatelessTruncatedNormal", "StatelessRandomNormalV2",
        "StatelessTruncatedNormalV2")
def test_stateless_numbers_fit_their_distribution():
    n = np.int64([3000])
    for t in (np.float32, np.float64):
        fits(draw("StatelessRandomUniform", [n, seed()], dtype=Type(t)), "uniform")
        fits(draw("StatelessRandomNormal", [n, seed()], dtype=Type(t)), "norm")
        fits(draw("StatelessTruncatedNormal", [n, seed()], dtype=Type(t)), stats.truncnorm(-2, 2).cdf)


@covers("StatelessRandomUniformInt", "StatelessRandomUniformIntV2", "StatelessRandomUniformFullInt",
        "StatelessRandomUniformFullIntV2")
def test_stateless_integers_are_all_alike():
    lo, m = int(RNG.integers(0, 50)), int(RNG.integers(1, 30))
    for t in (np.int32, np.int64):
        x = draw("StatelessRandomUniformInt", [np.int32([4000]), seed(), t(lo), t(lo + m)])
        counts_fit(x - lo, lambda i: np.ones(len(i)) / m, m)
    for t in (np.int32, np.int64, np.uint32, np.uint64):
        x = draw("StatelessRandomUniformIntV2", [np.int32([4000])] + key() + [t(lo), t(lo + m)])
        counts_fit(x.astype(np.int64) - lo, lambda i: np.ones(len(i)) / m, m)
        for y in (draw("StatelessRandomUniformFullInt", [np.int32([4000]), seed()], dtype=Type(t)),
                  draw("StatelessRandomUniformFullIntV2", [np.int32([4000])] + key(), dtype=Type(t))):
            info = np.iinfo(t)
            fits((y.astype(float) - info.min) / (float(info.max) - info.min), "uniform")


@covers("RandomGamma", "StatelessRandomGammaV2", "StatelessRandomGammaV3")
def test_gamma_samples_fit_for_every_alpha():
    alpha = np.array([0.3, 1, 2.5, 40])
    for t in (np.float32, np.float64):
        a = alpha.astype(t)
        for x in (draw("RandomGamma", [np.int32([2000]), a], seed=int(RNG.integers(1, 1 << 40))),
                  draw("StatelessRandomGammaV2", [np.int32([2000, 4]), seed(), a]),
                  draw("StatelessRandomGammaV3", [np.int32([2000, 4])] + key() + [a])):
            for i, v in enumerate(alpha):
                fits(x[:, i], stats.gamma(v).cdf)


@covers("RandomGammaGrad")
def test_derivative_of_gamma_samples_is_that_of_the_quantile():
    alpha = np.exp(RNG.uniform(-2, 4, 40))
    p = RNG.uniform(0.02, 0.98, 40)
    x, h = stats.gamma.ppf(p, alpha), 1e-5 * alpha
    want = (stats.gamma.ppf(p, alpha + h) - stats.gamma.ppf(p, alpha - h)) / (2 * h)
    assert np.allclose(draw("RandomGammaGrad", [alpha, x]), want, rtol=1e-4, atol=1e-6)


@covers("RandomPoissonV2", "StatelessRandomPoisson")
def test_poisson_samples_fit_for_every_rate():
    rate = np.array([0, 0.4, 7, 12, 60])
    for out in (np.int64, np.float32):
        for x in (draw("RandomPoissonV2", [np.int32([2000]), rate], seed=int(RNG.integers(1, 1 << 40)), dtype=Type(out)),
                  draw("StatelessRandomPoisson", [np.int32([2000, 5]), seed(), rate], dtype=Type(out))):
            for i, v in enumerate(rate):
                counts_fit(x[:, i], stats.poisson(v).pmf, int(3 * v + 10))


@covers("StatelessRandomBinomial")
def test_binomial_samples_fit_for_every_count_and_probability():
    n, p = np.array([[3.0], [40.0], [1000.0]]), np.array([0.05, 0.4, 0.9])
    x = draw("StatelessRandomBinomial", [np.int32([2000, 3, 3]), seed(), n, p])
    for i in range(3):
        for j in range(3):
            counts_fit(x[:, i, j], stats.binom(n[i, 0], p[j]).pmf, int(n[i, 0]) + 1)


@covers("StatelessMultinomial")
def test_stateless_multinomial_fits_the_softmax():
    logits = RNG.standard_normal((2, 6)) * 2
    x = draw("StatelessMultinomial", [logits, np.int32(3000), seed()])
    for i in range(2):
        p = np.exp(logits[i]) / np.exp(logits[i]).sum()
        counts_fit(x[i], lambda k: p[k], 6)


@covers("ParameterizedTruncatedNormal", "StatelessParameterizedTruncatedNormal")
def test_bounded_normals_fit_wherever_the_bounds_are():
    mean, dev = 1.5, 2.0
    for lo, hi in ((-1, 1), (0.2, 0.5), (2, np.inf), (-np.inf, -2.5), (-0.5, 3), (4, 4.5)):
        d = stats.truncnorm(lo, hi, mean, dev)
        args = [np.float64(v) for v in (mean, dev, mean + dev * lo, mean + dev * hi)]
        fits(draw("ParameterizedTruncatedNormal", [np.int32([2000])] + args, seed=int(RNG.integers(1, 1 << 40))), d.cdf)
        fits(draw("StatelessParameterizedTruncatedNormal", [np.int32([2000]), seed()] + args), d.cdf)


@covers("StatelessShuffle", "RandomIndexShuffle")
def test_shuffles_hold_every_row_once():
    n = int(RNG.integers(1, 200))
    x = draw("StatelessShuffle", [np.arange(n)] + key())
    assert np.array_equal(np.sort(x), np.arange(n))
    for t in (np.int32, np.uint64):
        y = draw("RandomIndexShuffle", [np.arange(n, dtype=t), RNG.integers(0, 1 << 30, 3), t(n - 1)])
        assert np.array_equal(np.sort(y), np.arange(n, dtype=t))


@covers("StatefulUniform", "StatefulStandardNormalV2", "StatefulTruncatedNormal", "RngReadAndSkip", "RngSkip",
        "StatefulUniformInt", "StatefulUniformFullInt", "StatefulRandomBinomial")
def test_a_generator_in_a_variable_goes_on_as_its_key_does():
    state = RNG.integers(-1 << 60, 1 << 60, 3)
    g = Graph()
    h = g.op("VarHandleOp", [], dtype=Type(np.int64), shape=(3,))
    start = g.op("AssignVariableOp", [h, state], dtype=Type(np.int64))
    first = g.op("StatefulUniform", [h, np.int64(1), np.int64([10])], dtype=Type(np.float64))
    skip = g.op("RngSkip", [h, np.int64(1), np.int64(10)])
    read = g.op("RngReadAndSkip", [h, np.int32(1), np.uint64(0)])
    g.run([], targets=[start])
    a, = g.run([first])
    after, = g.run([read])
    assert np.array_equal(a, draw("StatelessRandomUniformV2", [np.int32([10]), state[2:].astype(np.uint64),
                                                               state[:2].astype(np.uint64), np.int32(1)], dtype=Type(np.float64)))
    g.run([], targets=[start])
    g.run([], targets=[skip])
    again, = g.run([read])
    assert np.array_equal(after, again) and after[2] == state[2] and after[0] != state[0]
    fits(g.run([g.op("StatefulStandardNormalV2", [h, np.int64(1), np.int64([2000])])])[0], "norm")
    fits(g.run([g.op("StatefulTruncatedNormal", [h, np.int64(1), np.int64([2000])])])[0], stats.truncnorm(-2, 2).cdf)
    m = g.run([g.op("StatefulUniformInt", [h, np.int64(1), np.int64([2000]), np.int64(0), np.int64(5)])])[0]
    counts_fit(m, lambda i: np.ones(len(i)) / 5, 5)
    b = g.run([g.op("StatefulRandomBinomial", [h, np.int64(1), np.int32([2000]), np.float64(9), np.float64(0.3)])])[0]
    counts_fit(b, stats.binom(9, 0.3).pmf, 10)
    g.close()


@covers("FixedUnigramCandidateSampler")
def test_fixed_unigram_sampler_draws_by_its_weights():
    w = RNG.uniform(0, 3, 7)
    g = Graph()
    y = g.op("FixedUnigramCandidateSampler", [np.int64([[2]])], num_true=1, num_sampled=4000, unique=False, range_max=7,
             unigrams=[float(v) for v in w], distortion=0.75, seed=int(RNG.integers(1, 1 << 40)))
    x, true, sampled = g.run([y[0], y[1], y[2]])
    g.close()
    p = w.astype(np.float32) ** 0.75
    p = p / p.sum()
    counts_fit(x, lambda k: p[k], 7)
    assert np.allclose(true, 4000 * p[2], rtol=1e-4) and np.allclose(sampled, 4000 * p[x], rtol=1e-4)


@covers("LearnedUnigramCandidateSampler", "ThreadUnsafeUnigramCandidateSampler")
def test_learned_samplers_come_to_draw_what_was_true():
    for name in ("LearnedUnigramCandidateSampler", "ThreadUnsafeUnigramCandidateSampler"):
        g = Graph()
        x = g.feed(np.int64, (400, 1))
        y = g.op(name, [x], num_true=1, num_sampled=3000, unique=False, range_max=5, seed=int(RNG.integers(1, 1 << 40)))
        p = np.array([1, 101, 1, 301, 1]) / 405
        true = np.repeat(np.int64([1, 3]), [100, 300])[:, None]
        g.run([y], {x: true})
        drawn, counts = g.run([y[0], y[1]], {x: true})
        g.close()
        counts_fit(drawn, lambda k: p[k], 5)
        assert np.allclose(counts, 3000 * p[true], rtol=1e-4)
