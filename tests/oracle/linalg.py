"""tests/oracle/linalg.py -- factorizations, solves and their gradients against numpy and PyTorch."""
import numpy as np
import torch

from graph import Graph
from table import fails, op
from values import narrow, wide

RNG = np.random.default_rng(1)


def adjoint(a):
    return np.conj(np.swapaxes(a, -1, -2))


# ---- matrices that are not nearly singular, with sizes around those where the kernels change their ways ----

def size(r):
    if r.number % 8 == 7:
        return r.pick([15, 16, 17, 31, 33, 64, 65, 97])
    return 0 if r.chance(0.08) else r.int(1, 9)


def batch(r):
    return (0,) if r.chance(0.08) else tuple(r.int(1, 3) for _ in range(r.int(0, 2)))


def shifted(r, b, n, by):
    a = wide(r.finite(b + (n, n), scale=1.0))
    return narrow(a + by * np.eye(n), r.T)


def regular(r):
    return shifted(r, batch(r), size(r), 3), {"adjoint": r.chance(0.5)}


def one_matrix(r):
    return [regular(r)[0]]


def factored(r):
    """Of which only the lower triangle may be read, so what is above is anything."""
    b, n = batch(r), size(r)
    a = wide(r.finite(b + (n, n), scale=1.0))
    a = np.tril(np.matmul(a, adjoint(a)) + (1 + n / 4) * np.eye(n)) + np.triu(wide(r.finite(b + (n, n))), 1)
    return [narrow(a, r.T)]


def hermitian(a):
    low = np.tril(a, -1)
    return low + adjoint(low) + np.real(a) * np.eye(a.shape[-1])


# ---- how far off a backward stable computation may be ----

def condition(a):
    """The worst of the batch."""
    return float(np.max(np.linalg.cond(a))) if a.size else 1.0


def off_by_condition(f, matrix):
    def scale(*xs, **attrs):
        y = f(*xs, **attrs)
        factor = condition(matrix(*xs, **attrs)) * xs[0].shape[-1]
        outs = y if isinstance(y, tuple) else (y,)
        return tuple(np.full(np.shape(o), factor * (float(np.max(np.abs(o))) if np.size(o) else 1)) for o in outs)
    return scale


def judged(f, matrix=lambda a, *rest, **attrs: a):
    return dict(sums=8, scale=off_by_condition(f, matrix), zero_sign=False, n=32)


def inverse(a, adjoint):
    y = np.linalg.inv(a)
    return globals()["adjoint"](y) if adjoint else y


def determinant(a):
    return np.asarray(np.linalg.det(a)) if a.shape[-1] else np.ones(a.shape[:-2])


def log_determinant(a):
    s, l = np.linalg.slogdet(a)
    return np.asarray(s), np.asarray(l)


op("MatrixInverse", lambda r: (lambda a, attrs: ([a], attrs))(*regular(r)), inverse, **judged(inverse))
op("MatrixDeterminant", one_matrix, determinant, **judged(determinant))
op("LogMatrixDeterminant", one_matrix, log_determinant,
   **judged(lambda a: tuple(np.ones_like(v) * (1 + np.abs(v)) for v in log_determinant(a))))
op("Cholesky", factored, lambda a: np.linalg.cholesky(hermitian(a)),
   **judged(lambda a: np.linalg.cholesky(hermitian(a)), hermitian))


def system(r):
    a, attrs = regular(r)
    return [a, r.finite(a.shape[:-1] + (0 if r.chance(0.08) else r.int(1, 6),))], attrs


def solve(a, b, adjoint):
    return np.linalg.solve(globals()["adjoint"](a) if adjoint else a, b)


op("MatrixSolve", system, solve, **judged(solve))


def triangle(r):
    """The dimensions in front broadcast; the other triangle is anything."""
    front, other = r.broadcast_small()
    n = size(r)
    a = shifted(r, front, n, 3 + n / 2)
    return [a, r.finite(other + (n, r.int(1, 6)))], {"lower": r.chance(0.5), "adjoint": r.chance(0.5)}


def chosen(a, b, lower, adjoint):
    a = np.tril(a) if lower else np.triu(a)
    return globals()["adjoint"](a) if adjoint else a


def triangular_solve(a, b, lower, adjoint):
    a = chosen(a, b, lower, adjoint)
    front = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return np.linalg.solve(np.broadcast_to(a, front + a.shape[-2:]), np.broadcast_to(b, front + b.shape[-2:]))


op("MatrixTriangularSolve", triangle, triangular_solve, **judged(triangular_solve, chosen))


def factor_and_gradient(r):
    b, n = batch(r), size(r)
    return [shifted(r, b, n, 3 + n / 2), r.finite(b + (n, n))]


def cholesky_grad(l, g):
    l = np.tril(l)
    p = np.tril(np.matmul(adjoint(l), np.tril(g)))
    p = p - np.eye(l.shape[-1]) * p / 2
    i = np.linalg.inv(l)
    return np.matmul(adjoint(i), np.matmul(p + adjoint(p), i)) / 2


op("CholeskyGrad", factor_and_gradient, cholesky_grad, **judged(cholesky_grad, lambda l, g: np.tril(l)))


# ---- what is refused ----

def singular(r):
    a, attrs = regular(r)
    a = a.copy() if a.size else shifted(r, (), 3, 3)
    a[..., r.int(0, a.shape[-1] - 1)] = 0
    return a, attrs


def singular_system(r):
    a, attrs = singular(r)
    return [a, r.finite(a.shape[:-1] + (2,))], attrs


def indefinite(r):
    a = factored(r)[0]
    a = a.copy() if a.size else shifted(r, (), 2, 5)
    a[..., -1, -1] = -1
    return [a]


fails("MatrixInverse", lambda r: (lambda a, attrs: ([a], attrs))(*singular(r)), "Input is not invertible.")
fails("MatrixSolve", singular_system, "Input matrix is not invertible.")
fails("Cholesky", indefinite, "Cholesky decomposition was not successful. The input might not be valid.")
for name in ("MatrixInverse", "MatrixDeterminant", "Cholesky"):
    fails(name, lambda r: [r.finite((2, 3))], ("must be square", "Dimensions must be equal"), n=2)
    fails(name, lambda r: [r.finite((2,))], ("must have rank >= 2", "at least rank 2"), n=2)


# ---- gradients ----

def matrices(shape, by=0, complex_=False):
    a = RNG.standard_normal(shape)
    if complex_:
        a = a + 1j * RNG.standard_normal(shape)
    return a + by * np.eye(shape[-2], shape[-1])


def compare_gradients(name, attrs, arrays, torch_f):
    """Output and gradients of op and torch function, in double."""
    ts = [torch.from_numpy(a.copy()).requires_grad_() for a in arrays]
    ty = torch_f(*ts).resolve_conj()
    shape = tuple(ty.shape)
    dy = np.asarray(RNG.standard_normal(shape) + (1j * RNG.standard_normal(shape) if ty.is_complex() else 0), arrays[0].dtype)
    ty.backward(torch.from_numpy(dy))
    g = Graph()
    xs = [g.feed(a.dtype) for a in arrays]
    y = g.op(name, xs, **attrs)
    got = g.run([y] + g.gradients([y], xs, [g.const(dy)]), dict(zip(xs, arrays)))
    g.close()
    for a, b in zip(got, [ty] + [t.grad for t in ts]):
        b = b.detach().resolve_conj().numpy()
        assert a.shape == b.shape, f"{name}: {a.shape}, expected {b.shape}"
        worst = np.max(np.abs(a - b)) / max(1e-300, np.max(np.abs(b))) if b.size else 0
        assert worst < 1e-9, f"{name} {attrs}: off by {worst:.2g}"


def draw():
    return int(RNG.integers(1, 25)), tuple(int(v) for v in RNG.integers(1, 4, int(RNG.integers(0, 3)))), bool(RNG.integers(2))


def test_gradients_of_inverse_and_determinant():
    n, front, complex_ = draw()
    a = matrices(front + (n, n), 3, complex_)
    compare_gradients("MatrixInverse", {}, [a], torch.linalg.inv)
    compare_gradients("MatrixInverse", {"adjoint": True}, [a], lambda x: torch.linalg.inv(x).mH)
    compare_gradients("MatrixDeterminant", {}, [a / 3], torch.linalg.det)


def test_gradients_of_solves():
    n, front, complex_ = draw()
    a, b = matrices(front + (n, n), 3, complex_), matrices(front + (n, 3), 0, complex_)
    compare_gradients("MatrixSolve", {}, [a, b], torch.linalg.solve)
    compare_gradients("MatrixSolve", {"adjoint": True}, [a, b], lambda x, y: torch.linalg.solve(x.mH, y))


def test_gradients_of_triangular_solves():
    n, front, complex_ = draw()
    a = matrices(front + (n, n), 3 + n, complex_)
    b = matrices((front if RNG.integers(2) else (2,) * bool(not front)) + (n, 2), 0, complex_)
    for lower in (True, False):
        def cut(x):
            return torch.tril(x) if lower else torch.triu(x)
        compare_gradients("MatrixTriangularSolve", {"lower": lower}, [a, b],
                          lambda x, y: torch.linalg.solve_triangular(cut(x), y, upper=not lower))
        compare_gradients("MatrixTriangularSolve", {"lower": lower, "adjoint": True}, [a, b],
                          lambda x, y: torch.linalg.solve_triangular(cut(x).mH, y, upper=lower))


def test_gradients_of_cholesky():
    """Ours is that among Hermitian matrices."""
    n, front, complex_ = draw()
    a = matrices(front + (n, n), 0, complex_)
    compare_gradients("Cholesky", {}, [np.matmul(a, adjoint(a)) + n * np.eye(n)],
                      lambda x: torch.linalg.cholesky((x + x.mH) / 2))


def test_second_gradients_of_cholesky():
    """By differences along a random Hermitian direction."""
    n = int(RNG.integers(1, 8))
    a, w = matrices((n, n)), matrices((n, n))
    a, d = np.matmul(a, a.T) + n * np.eye(n), w + w.T
    g = Graph()
    x = g.feed(np.float64)
    dx, = g.gradients([g.op("Square", [g.op("Cholesky", [x])])], [x])
    ddx, = g.gradients([g.op("Mul", [dx, w])], [x])
    at = lambda v: float(np.sum(g.run([dx], {x: v})[0] * w))
    got = float(np.sum(g.run([ddx], {x: a})[0] * d))
    want = (at(a + 1e-5 * d) - at(a - 1e-5 * d)) / 2e-5
    g.close()
    assert abs(got - want) <= 1e-5 * (1 + abs(want)), f"{got}, by differences {want}"
