"""tf.linalg: matrices, and batches of them in the last two dimensions."""

import numpy as np

from .framework import convert, dtypes, ops
from .framework.op_defs import call
from .ops import array, check, control_flow, math
from .ops.array import eye
from .ops.math import (diag as tensor_diag, diag_part as tensor_diag_part, matrix_band_part as band_part, matrix_diag as diag,
                       matrix_diag_part as diag_part, matrix_set_diag as set_diag)
from .ops.math import cholesky, cholesky_solve, cross, einsum, matmul, matvec, norm, qr, svd, tensordot, trace
from .ops.math import (matrix_determinant as det, matrix_inverse as inv, matrix_solve as solve, matrix_solve_ls as lstsq,
                       matrix_transpose, matrix_triangular_solve as triangular_solve, self_adjoint_eig as eigh,
                       self_adjoint_eigvals as eigvalsh)
from .ops.op_functions import logm, sqrtm

transpose = matrix_transpose


_PADE = (64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0, 10559470521600.0,
         670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0)


def expm(input, name=None):  # noqa: A002
    """The exponential: a rational approximation of each matrix made small, squared as often as it was halved."""
    with ops.name_scope(name, "matrix_exponential", [input]):
        a = convert.convert_to_tensor(input, name="input")
        halvings = _halvings(a)
        a = a / math.cast(array.reshape(math.pow(math.cast(2.0, halvings.dtype), halvings), _as_matrices(halvings)), a.dtype)
        one = eye(array.shape(a)[-1], dtype=a.dtype) + array.zeros_like(a)
        odd, even, power, square = _PADE[1] * one, _PADE[0] * one, one, matmul(a, a)
        for i in range(2, 14, 2):
            power = matmul(power, square)
            even, odd = even + _PADE[i] * power, odd + _PADE[i + 1] * power
        odd = matmul(a, odd)
        made = _squared(solve(even - odd, even + odd), halvings)
        made.set_shape(a.shape)
        return made


def _halvings(a):
    """How often each matrix is to be halved until no column's sum is above one; so often only that a double cannot overflow."""
    size = math.reduce_max(math.reduce_sum(math.abs(a), -2), -1)
    return math.minimum(math.maximum(math.ceil(math.log(math.maximum(size, 1e-30)) / np.log(2.0)), 0.0), 1023.0)


def _as_matrices(x):
    """The shape that makes numbers into matrices of one element."""
    return array.concat([array.shape(x), [1, 1]], 0)


def _squared(x, times):
    """Each matrix squared as often as it says."""
    times = array.reshape(times, _as_matrices(times))
    most = math.reduce_max(times) if times.shape.num_elements() != 0 else 0.0

    def again(i, x):
        wanted = math.logical_and(i < times, array.ones_like(x, dtype="bool"))
        return i + 1, array.where(wanted, matmul(x, x), x)
    first = array.zeros([], times.dtype)
    shape = x.shape if x.shape.ndims is None else x.shape[:-2].concatenate([None, None])
    return control_flow.while_loop(lambda i, x: i < most, again, (first, x), shape_invariants=(first.shape, shape))[1]


def adjoint(matrix, name=None):
    """The conjugate of the transpose."""
    with ops.name_scope(name, "adjoint", [matrix]):
        return matrix_transpose(convert.convert_to_tensor(matrix, name="matrix"), conjugate=True)


def slogdet(input, name=None):  # noqa: A002
    """(sign, log of the absolute value) of the determinant"""
    return call("LogMatrixDeterminant", name, input=input)


def logdet(matrix, name=None):
    """The log of the determinant of a positive definite matrix."""
    with ops.name_scope(name, "logdet", [matrix]):
        return 2.0 * math.reduce_sum(math.log(math.real(diag_part(cholesky(matrix)))), [-1])


def l2_normalize(x, axis=None, epsilon=1e-12, name=None, dim=None):
    """Divides by the L2 norm along an axis, which is taken as at least the square root of epsilon.

    dim is an old name of axis."""
    with ops.name_scope(name, "l2_normalize", [x]) as scope:
        x = convert.convert_to_tensor(x, name="x")
        length = math.reduce_sum(math.square(x), dim if axis is None else axis, keepdims=True)
        return math.multiply(x, math.rsqrt(math.maximum(length, epsilon)), name=scope)


def global_norm(t_list, name=None):
    """Computes the square root of the sum of squares of all elements of a list of tensors."""
    from .ops import clip
    return clip.global_norm(t_list, name)


def lu(input, output_idx_type=dtypes.int32, name=None):  # noqa: A002
    """Computes the LU decomposition of matrices; returns both factors in one matrix, and the permutation of rows."""
    return call("Lu", name, input=input, output_idx_type=output_idx_type)


def tridiagonal_solve(diagonals, rhs, diagonals_format="compact", transpose_rhs=False, conjugate_rhs=False, name=None,
                      partial_pivoting=True):
    """The solution for matrices of three diagonals: "compact" has them as rows [upper, main, lower]."""
    if diagonals_format not in ("compact", "sequence", "matrix"):
        raise ValueError("Unrecognized diagonals_format: %s" % diagonals_format)
    with ops.name_scope(name, "tridiagonal_solve"):
        if diagonals_format == "matrix":
            whole = convert.convert_to_tensor(diagonals)
            diagonals = diag_part(whole[..., :-1, 1:]), diag_part(whole), diag_part(whole[..., 1:, :-1])
            diagonals_format = "sequence"
        if diagonals_format == "sequence":
            upper, main, lower = (convert.convert_to_tensor(d) for d in diagonals)
            pad = [[0, 0]] * (main.shape.ndims - 1)
            upper = upper if upper.shape[-1] == main.shape[-1] else array.pad(upper, pad + [[0, 1]])
            lower = lower if lower.shape[-1] == main.shape[-1] else array.pad(lower, pad + [[1, 0]])
            diagonals = array.stack([upper, main, lower], axis=-2)
        diagonals, rhs = convert.convert_to_tensor(diagonals), convert.convert_to_tensor(rhs)
        is_vector = rhs.shape.ndims == diagonals.shape.ndims - 1
        rhs = array.expand_dims(rhs, -1) if is_vector else matrix_transpose(rhs) if transpose_rhs else rhs
        rhs = math.conj(rhs) if conjugate_rhs else rhs
        made = call("TridiagonalSolve", None, diagonals=diagonals, rhs=rhs, partial_pivoting=partial_pivoting)
        return array.squeeze(made, -1) if is_vector else matrix_transpose(made) if transpose_rhs else made


def pinv(a, rcond=None, validate_args=False, name=None):
    """The pseudo-inverse; singular values of at most rcond of the largest count as zero."""
    with ops.name_scope(name, "pinv", [a, rcond]):
        a = convert.convert_to_tensor(a, name="a")
        if not a.dtype.is_floating:
            raise TypeError("Input `a` must have `float`-like `dtype` (saw %s)." % a.dtype.name)
        if a.shape.ndims is not None and a.shape.ndims < 2:
            raise ValueError("Input `a` must have at least 2 dimensions (saw: %d)." % a.shape.ndims)
        if validate_args and a.shape.ndims is None:
            with ops.control_dependencies([check.assert_rank_at_least(a, 2)]):
                a = array.identity(a)
        if rcond is None:
            longest = math.cast(math.reduce_max(array.shape(a)[-2:]), a.dtype)
            rcond = longest * (10.0 * float(np.finfo(a.dtype.as_numpy_dtype).eps))
        s, u, v = svd(a)
        rcond = array.expand_dims(convert.convert_to_tensor(rcond, a.dtype), -1)  # one for each matrix
        too_small = math.less_equal(s, rcond * math.reduce_max(s, -1, keepdims=True))
        inverse = 1 / array.where(too_small, array.ones_like(s) * np.inf, s)  # the order keeps gradients finite
        return matmul(v * array.expand_dims(inverse, -2), u, adjoint_b=True)
