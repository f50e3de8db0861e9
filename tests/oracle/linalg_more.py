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


# ---- systems ----

def regular(shape, t):
    n = shape[-1]
    a = RNG.standard_normal(shape)
    return ((a + 1j * RNG.standard_normal(shape) if np.issubdtype(t, np.complexfloating) else a) + 3 * np.eye(shape[-2], n)).astype(t)


@covers("Lu")
def test_lu():
    for t in TYPES:
        n = size()
        a = regular(front() + (n, n), t)
        lu, p = run("Lu", [a], 2)
        l, u = np.tril(lu, -1) + np.eye(n), np.triu(lu)
        relative(np.matmul(l, u), np.take_along_axis(a, p[..., None].astype(np.int64), -2), f"Lu {t.__name__} {a.shape}", 100 * n * eps(t))


@covers("MatrixSolveLs")
def test_least_squares():
    for t in TYPES:
        m, n, k, fast = int(RNG.integers(1, 20)), int(RNG.integers(1, 20)), int(RNG.integers(1, 4)), bool(RNG.integers(2))
        a, b = regular((m, n), t), regular((m, k), t)
        l2 = float(RNG.choice([0, 0.5])) if fast else 0.0
        if fast and l2 == 0 and min(m, n) > 12:
            l2 = 0.1
        x, = run("MatrixSolveLs", [a, b, np.float64(l2)], 1, fast=fast)
        wide, right = a.astype(np.complex128), b.astype(np.complex128)
        if l2 > 0:
            wide, right = np.vstack([wide, np.sqrt(l2) * np.eye(n)]), np.vstack([right, np.zeros((n, k))])
        want = np.linalg.lstsq(wide, right, rcond=1e-10)[0]
        relative(x, want, f"MatrixSolveLs {t.__name__} {m} {n} {fast} {l2}", 1e4 * eps(t) * np.linalg.cond(wide) ** 2)


def tridiagonal(d):
    """[..., 3, m] as matrices."""
    m = d.shape[-1]
    a = np.zeros(d.shape[:-2] + (m, m), d.dtype)
    for i in range(m):
        a[..., i, i] = d[..., 1, i]
        if i + 1 < m:
            a[..., i, i + 1] = d[..., 0, i]
            a[..., i + 1, i] = d[..., 2, i + 1]
    return a


@covers("TridiagonalSolve", "TridiagonalMatMul")
def test_tridiagonal():
    for t in TYPES:
        m, k, b = size(), int(RNG.integers(1, 4)), front()
        d = draw(b + (3, m), t)
        d[..., 1, :] += 5
        x = draw(b + (m, k), t)
        y, = run("TridiagonalMatMul", [d[..., :1, :].copy(), d[..., 1:2, :].copy(), d[..., 2:, :].copy(), x], 1)
        relative(y, np.matmul(tridiagonal(d.astype(np.complex128)), x), f"TridiagonalMatMul {t.__name__}", 20 * eps(t))
        z, = run("TridiagonalSolve", [d, y], 1, partial_pivoting=True)
        a = tridiagonal(d.astype(np.complex128))
        relative(np.matmul(a, z), y, f"TridiagonalSolve {t.__name__} {d.shape}", 1e3 * m * eps(t) * max(1, np.max(np.linalg.cond(a))))


@covers("BandedTriangularSolve")
def test_banded_triangles():
    for t in TYPES:
        m = size()
        bands, lower, adj = int(RNG.integers(1, m + 1)), bool(RNG.integers(2)), bool(RNG.integers(2))
        d = (draw((bands, m), t) / bands).astype(t)
        d[0 if lower else -1] += 3
        a = np.zeros((m, m), np.complex128)
        for row in range(m):
            for s in range(bands):
                col = row - s if lower else row + s
                if 0 <= col < m:
                    a[row, col] = d[s if lower else bands - 1 - s, row]
        b = draw((m, 2), t)
        x, = run("BandedTriangularSolve", [d, b], 1, lower=lower, adjoint=adj)
        want = np.linalg.solve(adjoint(a) if adj else a, b.astype(np.complex128))
        relative(x, want, f"BandedTriangularSolve {t.__name__} {m} {bands} {lower} {adj}", 1e3 * m * eps(t) * np.linalg.cond(a))


# ---- gradients of decompositions, by something that does not depend on signs and phases ----

def invariant_gradient(name, a, weights, rebuild, torch_f, **attrs):
    """Of sum(weights o Re(rebuild(outputs))), against PyTorch's."""
    import torch
    ta = torch.from_numpy(a.copy()).requires_grad_()
    value = (torch.from_numpy(weights) * torch.real(torch_f(ta))).sum()
    value.backward()
    g = Graph()
    x = g.const(a)
    y = rebuild(g, g.op(name, [x], **attrs))
    dy = weights.astype(a.dtype)
    got, = g.run(g.gradients([y], [x], [g.const(dy)]), {})
    g.close()
    want = ta.grad.resolve_conj().numpy()
    worst = np.max(np.abs(got - want)) / max(1e-12, np.max(np.abs(want)))
    assert worst < 1e-7, f"gradient of {name} {a.shape} {a.dtype} {attrs}: off by {worst:.3g}"


def squares(g, v, e):
    """|v|^2 weighted by e: v diag(e) v^H, say."""
    scaled = g.op("Mul", [v, g.op("ExpandDims", [e, np.int32(-2)])])
    return g.op("BatchMatMulV2", [scaled, v], adj_y=True)


@covers("SelfAdjointEigV2", "Svd", "Qr")
def test_gradients_of_decompositions():
    import torch
    for t in (np.float64, np.complex128):
        n = int(RNG.integers(2, 7))
        m = n + int(RNG.integers(-1, 2))
        w = RNG.standard_normal((n, n))
        h = regular((n, n), t)
        h = (h + adjoint(h)) / 2
        # only the lower triangle is read by ours: compare on symmetric functions
        def cube(a):
            e, v = torch.linalg.eigh(torch.tril(a, -1) + torch.tril(a, -1).mH + torch.diag_embed(torch.real(torch.diagonal(a))))
            return (v * (e ** 3)[None, :]) @ v.mH
        def rebuilt(g, y):
            e = y[0]
            return squares(g, y[1], g.op("Mul", [g.op("Mul", [e, e]), e]))
        invariant_gradient("SelfAdjointEigV2", h, w, rebuilt, cube)
        a = regular((m, n), t)
        w = RNG.standard_normal((m, m))

        def left(x):
            u, s, v = torch.linalg.svd(x, full_matrices=False)
            return (u * (s ** 3)[None, :]) @ u.mH
        invariant_gradient("Svd", a, w, lambda g, y: squares(g, y[1], g.op("Mul", [g.op("Mul", [y[0], y[0]]), y[0]])), left)
        w = RNG.standard_normal((n, n))

        def right(x):
            u, s, v = torch.linalg.svd(x, full_matrices=False)
            return (v.mH * (s ** 3)[None, :]) @ v
        invariant_gradient("Svd", a, w, lambda g, y: squares(g, y[2], g.op("Mul", [g.op("Mul", [y[0], y[0]]), y[0]])), right)
