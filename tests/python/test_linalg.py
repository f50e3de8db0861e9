"""tf.linalg and tf.signal, against numpy."""

import unittest

import numpy as np

import millrace as tf

R = np.random.RandomState(0)
A = R.rand(3, 3).astype(np.float32)
P = A @ A.T + np.eye(3, dtype=np.float32)


class Case(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()

    def assert_value(self, tensor, expected, tolerance=1e-4):
        with tf.Session() as session:
            np.testing.assert_allclose(session.run(tensor), expected, atol=tolerance, rtol=tolerance)


class Matrices(Case):
    def test_of_one(self):
        self.assert_value(tf.linalg.det(P), np.linalg.det(P))
        self.assert_value(tf.linalg.inv(P), np.linalg.inv(P))
        self.assert_value(tf.linalg.logdet(P), np.linalg.slogdet(P)[1])
        self.assert_value(tf.linalg.slogdet(P)[1], np.linalg.slogdet(P)[1])
        self.assert_value(tf.linalg.cholesky(P), np.linalg.cholesky(P))
        self.assert_value(tf.linalg.eigvalsh(P), np.linalg.eigvalsh(P))
        self.assert_value(tf.linalg.adjoint(A), A.T)
        self.assert_value(tf.linalg.pinv(A[:, :2]), np.linalg.pinv(A[:, :2]))
        values, vectors = np.linalg.eigh(P)
        self.assert_value(tf.linalg.expm(P), (vectors * np.exp(values)) @ vectors.T, 1e-3)
        self.assert_value(tf.linalg.diag_part(A), np.diag(A))
        self.assert_value(tf.linalg.l2_normalize(A, 1), A / np.linalg.norm(A, axis=1, keepdims=True))

    def test_of_two(self):
        self.assert_value(tf.linalg.solve(P, A), np.linalg.solve(P, A))
        self.assert_value(tf.linalg.lstsq(P, A), np.linalg.solve(P, A), 1e-3)
        diagonals = np.array([[1, 1, 0], [4, 4, 4], [0, 1, 1]], np.float32)
        m = np.array([[4, 1, 0], [1, 4, 1], [0, 1, 4]], np.float32)
        self.assert_value(tf.linalg.tridiagonal_solve(diagonals, [1.0, 2, 3]), np.linalg.solve(m, [1, 2, 3]))

    def test_other_diagonals(self):
        self.assert_value(tf.linalg.diag([1.0, 2.0], k=1), np.diag([1.0, 2.0], 1))
        self.assert_value(tf.matrix_diag([1.0, 2.0], num_rows=3, padding_value=9.0), [[1, 9], [9, 2], [9, 9]])
        self.assert_value(tf.matrix_diag([[8.0, 9.0], [1.0, 2.0]], k=(0, 1), num_rows=2, num_cols=3), [[1, 8, 0], [0, 2, 9]])
        self.assert_value(tf.matrix_diag([True, True], k=-1), np.diag([True, True], -1))
        self.assert_value(tf.matrix_diag_part(A, k=-1), np.diag(A, -1))
        self.assert_value(tf.linalg.diag_part(A, k=(-1, 0), padding_value=7.0), [np.diag(A), list(np.diag(A, -1)) + [7]])
        expected = A.copy()
        expected[0, 1], expected[1, 2] = 5, 6
        self.assert_value(tf.matrix_set_diag(A, [5.0, 6.0], k=1), expected)
        self.assertEqual(tf.matrix_diag([1.0]).op.type, "MatrixDiag")
        with self.assertRaisesRegex(ValueError, "must be rank 1 but is rank 2"):
            tf.matrix_set_diag(A, [[5.0, 6.0]], k=1)

    def test_shapes_of_diagonals(self):
        x = tf.placeholder(tf.float32, [None, 3, None])
        self.assertEqual(tf.matrix_set_diag(x, np.zeros((2, 3), np.float32)).shape.as_list(), [2, 3, None])
        self.assertEqual(tf.matrix_set_diag(x, np.zeros((2, 3), np.float32), k=-1).shape.as_list(), [2, 3, None])
        self.assertEqual(tf.matrix_diag_part(tf.placeholder(tf.float32, [None, 0])).shape.as_list(), [0])
        with self.assertRaisesRegex(ValueError, "Dimension 0 in both shapes must be equal"):
            tf.matrix_set_diag(tf.placeholder(tf.float32, [3, None, 2]), np.zeros((2, 2), np.float32))


class Hidden(Case):
    """Matrices of shapes that only a run shows."""

    def test_products(self):
        a = np.arange(8.0).reshape(2, 2, 2)
        hidden = tf.placeholder_with_default(a, None)
        self.assert_value(tf.matmul(hidden, hidden, transpose_b=True), a @ a.transpose(0, 2, 1))

    def test_exponentials(self):
        small, large = np.array([[0.0, 1.0], [0.0, 0.0]]), np.array([[3.0, 0.0], [0.0, 5.0]])
        both = tf.placeholder_with_default(np.stack([small, large]), None)
        self.assert_value(tf.linalg.expm(both), [[[1, 1], [0, 1]], [[np.exp(3), 0], [0, np.exp(5)]]])
        self.assert_value(tf.linalg.expm(tf.placeholder_with_default(large, [None, None])), [[np.exp(3), 0], [0, np.exp(5)]])
        self.assertEqual(tf.linalg.expm(np.zeros((3, 2, 2))).shape.as_list(), [3, 2, 2])

    def test_pseudo_inverses(self):
        flat = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]])
        self.assert_value(tf.linalg.pinv(tf.placeholder_with_default(flat, None), validate_args=True), np.linalg.pinv(flat))
        self.assertRaises(TypeError, tf.linalg.pinv, [[1, 2]])
        self.assertRaises(ValueError, tf.linalg.pinv, [1.0, 2.0])

    def test_three_diagonals_of_a_matrix(self):
        a = np.array([[4.0, 1, 0], [2, 5, 1], [0, 3, 6]])
        made = tf.linalg.tridiagonal_solve(a, np.array([1.0, 2.0, 3.0]), diagonals_format="matrix")
        self.assert_value(made, np.linalg.solve(a, [1, 2, 3]))
        self.assertRaises(ValueError, tf.linalg.tridiagonal_solve, a, [1.0, 2.0, 3.0], diagonals_format="diagonal")


class Signals(Case):
    def test_transforms(self):
        x = R.rand(2, 8).astype(np.float32)
        self.assert_value(tf.signal.rfft(x), np.fft.rfft(x))
        self.assert_value(tf.spectral.irfft(tf.spectral.rfft(x)), x)
        self.assert_value(tf.signal.rfft(x, [16]), np.fft.rfft(x, 16))
        self.assert_value(tf.signal.rfft2d(x), np.fft.rfft2(x))
        self.assert_value(tf.signal.fftshift(x, 1), np.fft.fftshift(x, 1))
        self.assert_value(tf.signal.idct(tf.signal.dct(x, norm="ortho"), norm="ortho"), x)
        self.assert_value(tf.signal.dct(x)[:, 0], 2 * x.sum(1))

    def test_frames(self):
        x = np.arange(6, dtype=np.float32)
        self.assert_value(tf.signal.frame(x, 4, 2), [[0, 1, 2, 3], [2, 3, 4, 5]])
        self.assert_value(tf.signal.frame(x, 4, 4, pad_end=True), [[0, 1, 2, 3], [4, 5, 0, 0]])
        self.assert_value(tf.signal.overlap_and_add(tf.constant([[1.0, 1], [1, 1]]), 1), [1, 2, 1])
        self.assert_value(tf.signal.hann_window(4), np.hanning(5)[:4])
        self.assert_value(tf.signal.stft(x, 4, 2), np.fft.rfft(np.stack([x[:4], x[2:]]) * np.hanning(5)[:4]))
        m = tf.signal.linear_to_mel_weight_matrix(8, 65)
        self.assertEqual(m.shape.as_list(), [65, 8])


if __name__ == "__main__":
    unittest.main()
