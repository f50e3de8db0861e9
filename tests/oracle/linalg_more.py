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


# ---- Einsum against numpy's, and its gradients against PyTorch's ----

EQUATIONS = ["ij,jk->ik", "ij,jk->ki", "bij,bjk->bik", "bij,bkj->bki", "i,j->ij", "ij,ij->", "ij,ij->j", "ij->ji", "ij->i", "ijk->kj",
             "ii->i", "ii->", "iij->ji", "iij,jk->ik", "ab,cd->ad", "abc,cd->abd", "abcd,adbe->acbe", "...ij,...jk->...ik",
             "...i,i->...", "a...b,b...->...a", "ij...,jk...->ik...", "...ij->...ji", "abc,ab->", "aab,b->a"]


def einsum_inputs(equation, t=np.float64):
    sizes = {c: int(RNG.integers(1, 6)) for c in "abcdeijk"}
    common = [int(RNG.integers(1, 4)) for _ in range(int(RNG.integers(0, 3)))]
    arrays = []
    for term in equation.split("->")[0].split(","):
        cut = int(RNG.integers(0, len(common) + 1))
        mine = [1 if RNG.random() < 0.3 else n for n in common[cut:]]
        shape, at = [], 0
        while at < len(term):
            if term[at] == ".":
                shape += mine
                at += 3
            else:
                shape.append(sizes[term[at]])
                at += 1
        a = RNG.standard_normal(shape)
        arrays.append((a + 1j * RNG.standard_normal(shape) if np.issubdtype(t, np.complexfloating) else a).astype(t))
    return arrays


@covers("Einsum")
def test_einsum():
    for equation in EQUATIONS:
        for t in TYPES:
            arrays = einsum_inputs(equation, t)
            g = Graph()
            got, = g.run([g.op("Einsum", [[g.const(a) for a in arrays]], equation=equation)], {})
            g.close()
            want = np.einsum(equation, *[a.astype(np.complex128) for a in arrays])
            assert got.shape == want.shape, f"{equation}: {got.shape}, expected {want.shape}"
            assert np.allclose(got, want, rtol=200 * eps(t), atol=200 * eps(t)), f"{equation} {t.__name__}"


@covers("Einsum")
def test_gradients_of_einsum():
    import torch
    for equation in EQUATIONS:
        arrays = einsum_inputs(equation, np.complex128 if RNG.random() < 0.5 else np.float64)
        ts = [torch.from_numpy(a.copy()).requires_grad_() for a in arrays]
        y = torch.einsum(equation, *ts)
        dy = RNG.standard_normal(tuple(y.shape)).astype(arrays[0].dtype)
        y.backward(torch.from_numpy(dy))
        g = Graph()
        xs = [g.feed(a.dtype, a.shape if RNG.random() < 0.5 else None) for a in arrays]
        out = g.op("Einsum", [xs], equation=equation)
        got = g.run(g.gradients([out], xs, [g.const(dy)]), dict(zip(xs, arrays)))
        g.close()
        for a, b in zip(got, ts):
            b = b.grad.resolve_conj().numpy()
            assert a.shape == b.shape and np.allclose(a, b, rtol=1e-10, atol=1e-10), f"gradient of {equation}"


# ---- eigenvalues of any matrices, and functions of matrices ----

def relative(a, b, what, limit):
    worst = float(np.max(np.abs(a.astype(np.complex128) - b))) / max(float(np.max(np.abs(b))), 1e-300) if a.size else 0
    assert worst <= limit, f"{what}: off by {worst:.3g}, allowed {limit:.3g}"


@covers("Eig")
def test_eigenvalues():
    from graph import Type
    for t in TYPES:
        n = size()
        a = RNG.standard_normal(front() + (n, n))
        a = (a + 1j * RNG.standard_normal(a.shape) if np.issubdtype(t, np.complexfloating) else a).astype(t)
        out = np.complex128 if np.finfo(t).bits == 64 else np.complex64
        e, v = run("Eig", [a], 2, Tout=Type(np.dtype(out)))
        relative(np.matmul(a, v), v * e[..., None, :], f"Eig {t.__name__} {a.shape}", 400 * n * eps(t))
        assert np.allclose(np.linalg.norm(v.astype(np.complex128), axis=-2), 1, atol=1e-5)


@covers("MatrixSquareRoot", "MatrixLogarithm")
def test_functions_of_matrices():
    import scipy.linalg as sl
    for t in TYPES:
        n = int(RNG.integers(1, 12))
        a = RNG.standard_normal((n, n))
        a = (a + 1j * RNG.standard_normal((n, n)) if np.issubdtype(t, np.complexfloating) else np.matmul(a, a.T)) + 2 * np.eye(n)
        a = a.astype(t)
        root, = run("MatrixSquareRoot", [a], 1)
        relative(np.matmul(root.astype(np.complex128), root), a, f"MatrixSquareRoot {t.__name__} {n}", 500 * n * eps(t))
        if np.issubdtype(t, np.complexfloating):
            log, = run("MatrixLogarithm", [a], 1)
            relative(log, sl.logm(a.astype(np.complex128)), f"MatrixLogarithm {t.__name__} {n}", 2000 * n * eps(t))
