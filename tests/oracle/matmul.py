"""tests/oracle/matmul.py -- products of matrices, alone and in batches, transposed and adjoint."""
import numpy as np

from table import fails, op
from values import FLOATS


def sizes(r):
    if r.number % 6 == 5:
        return r.pick([(130, 70, 200), (1, 300, 50), (64, 1, 64), (257, 129, 33), (3, 2000, 4), (500, 16, 1)])
    return tuple(r.int(0, 20) if r.chance(0.1) else r.int(1, 40) for _ in range(3))


def plain(r):
    m, k, n = sizes(r)
    ta, tb = r.chance(0.5), r.chance(0.5)
    return [r.finite((k, m) if ta else (m, k)), r.finite((n, k) if tb else (k, n))], {"transpose_a": ta, "transpose_b": tb}


def matmul(a, b, transpose_a, transpose_b):
    return np.matmul(a.T if transpose_a else a, b.T if transpose_b else b)


def batched(broadcast):
    def gen(r):
        m, k, n = (r.int(0, 3) if r.chance(0.1) else r.int(1, 20) for _ in range(3))
        batch, other = r.broadcast_small() if broadcast else [r.shape(0, 3, most=3)] * 2
        x, y = r.chance(0.5), r.chance(0.5)
        return [r.finite(batch + ((k, m) if x else (m, k))), r.finite(other + ((n, k) if y else (k, n)))], {"adj_x": x, "adj_y": y}
    return gen


def adjoint(a):
    return np.conj(np.swapaxes(a, -1, -2))


def batch_matmul(a, b, adj_x, adj_y):
    return np.matmul(adjoint(a) if adj_x else a, adjoint(b) if adj_y else b)


op("MatMul", plain, matmul, sums=4, zero_sign=False, n=40)
op("BatchMatMul", batched(False), batch_matmul, sums=4, zero_sign=False, n=20)
op("BatchMatMulV2", batched(True), batch_matmul, sums=4, zero_sign=False, n=30)
fails("MatMul", lambda r: [r.finite((2, 3)), r.finite((4, 5))], ("Matrix size-incompatible: In[0]: [2,3], In[1]: [4,5]",
      "Dimensions must be equal, but are 3 and 4"), types=FLOATS)
