"""tests/oracle/linalg_more.py -- decompositions put together again, and their values against numpy's."""
import numpy as np

from graph import Graph
from table import covers

RNG = np.random.default_rng(1)
TYPES = (np.float32, np.float64, np.complex64, np.complex128)


def eps(t):
    return float(np.finfo(t).eps)


def adjoint(a):
    return np.conj(np.swapaxes(a, -1, -2))


def size():
    return int(RNG.choice([1, 2, 3, 5, 8, 17, 33, 70]))


def front():
    return tuple(int(v) for v in RNG.integers(1, 3, int(RNG.integers(0, 3))))


def draw(shape, t):
    """Sometimes of low rank, sometimes with numbers of very different sizes."""
    a = RNG.standard_normal(shape)
    if np.issubdtype(t, np.complexfloating):
        a = a + 1j * RNG.standard_normal(shape)
    kind = RNG.integers(4)
    if kind == 0 and shape[-1] > 1:
        a[..., -1] = a[..., 0]
    if kind == 1:
        a = a * np.exp(RNG.uniform(-6, 6, shape[-2:-1]))[:, None]
    return a.astype(t)


def run(name, arrays, n_out, **attrs):
    g = Graph()
    xs = [g.const(a) for a in arrays]
    y = g.op(name, xs, **attrs)
    got = g.run([y[i] for i in range(n_out)], {})
    g.close()
    return got


def close(a, b, scale, t, what, factor=60):
    n = max(a.shape[-2:]) if a.ndim >= 2 else max(a.shape, default=1)
    worst = float(np.max(np.abs(a.astype(np.complex128) - b))) if a.size else 0
    limit = factor * eps(t) * max(1, n) * max(scale, 1e-30)
    assert worst <= limit, f"{what}: off by {worst:.3g}, allowed {limit:.3g}"


def orthogonal(q, t, what):
    close(np.matmul(adjoint(q), q), np.eye(q.shape[-1]), 1, t, what)


@covers("Qr")
def test_qr_factors():
    for t in TYPES:
        m, n, full = size(), size(), bool(RNG.integers(2))
        a = draw(front() + (m, n), t)
        q, r = run("Qr", [a], 2, full_matrices=full)
        orthogonal(q, t, f"Qr {t.__name__} {a.shape} Q")
        close(np.matmul(q, r), a, np.max(np.abs(a)), t, f"Qr {t.__name__} {a.shape} {full}")
        assert not np.any(np.tril(r, -1)), "R is no upper triangle"


@covers("Svd")
def test_singular_values():
    for t in TYPES:
        m, n, full = size(), size(), bool(RNG.integers(2))
        a = draw(front() + (m, n), t)
        s, u, v = run("Svd", [a], 3, full_matrices=full)
        alone, = run("Svd", [a], 1, compute_uv=False)
        want = np.linalg.svd(a.astype(np.complex128), compute_uv=False)
        top = float(np.max(want))
        close(s, want, top, t, f"Svd {t.__name__} {a.shape} values")
        close(alone, want, top, t, f"Svd {t.__name__} {a.shape} values alone")
        p = min(m, n)
        orthogonal(u, t, "U")
        orthogonal(v, t, "V")
        close(np.matmul(u[..., :p] * s[..., None, :], adjoint(v[..., :p])), a, top, t, f"Svd {t.__name__} {a.shape} {full}")


@covers("SelfAdjointEigV2")
def test_hermitian_eigenvalues():
    for t in TYPES:
        n = size()
        a = draw(front() + (n, n), t)
        h = np.tril(a, -1)
        h = h + adjoint(h) + np.real(a) * np.eye(n)
        e, v = run("SelfAdjointEigV2", [a], 2)
        want = np.linalg.eigvalsh(h.astype(np.complex128))
        top = float(np.max(np.abs(want)))
        close(e, want, top, t, f"SelfAdjointEigV2 {t.__name__} {a.shape}")
        orthogonal(v, t, "V")
        close(np.matmul(v * e[..., None, :], adjoint(v)), h, top, t, f"SelfAdjointEigV2 {t.__name__} {a.shape}")
