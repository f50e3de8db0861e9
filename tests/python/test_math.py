"""Arithmetic, reductions, matrices, shaping and slicing, against numpy."""

import unittest

import numpy as np

import millrace as tf


class Values(unittest.TestCase):
    """Every function on x, a placeholder that is fed a."""

    def setUp(self):
        tf.reset_default_graph()
        self.x = tf.placeholder(tf.float32, [None, 3])
        self.a = np.arange(6, dtype=np.float32).reshape(2, 3)
        self.session = tf.Session()

    def check(self, tensor, wanted):
        got = self.session.run(tensor, {self.x: self.a})
        np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6)
        if tensor.shape.ndims is not None:  # what was promised came
            self.assertTrue(tensor.shape.is_compatible_with(np.shape(got)), (tensor, np.shape(got)))

    def test_operators(self):
        x, a = self.x, self.a
        self.check(x+1, a+1)
        self.check(1-x, 1-a)
        self.check(x*2.0, a*2)
        self.check(2/(x+1), 2/(a+1))
        self.check(-x, -a)
        self.check(x**2, a**2)
        self.check(x//2, a//2)
        self.check(x%2, a%2)
        self.check(tf.constant(7)/2, 3.5)

    def test_reductions(self):
        x, a = self.x, self.a
        self.check(tf.reduce_sum(x), a.sum())
        self.check(tf.reduce_mean(x, 1), a.mean(1))
        self.check(tf.reduce_max(x, axis=0, keepdims=True), a.max(0,keepdims=True))
        self.check(tf.reduce_sum(x, reduction_indices=[1]), a.sum(1))
        self.check(tf.argmax(x,1), a.argmax(1))
        self.check(tf.reduce_logsumexp(x,1), np.log(np.exp(a).sum(1)))
        self.check(tf.argsort([3,1,2]), [1,2,0])
        self.check(tf.cumsum(x), a.cumsum(0))

    def test_slicing(self):
        x, a = self.x, self.a
        self.check(x[:, 1], a[:,1])
        self.check(x[0], a[0])
        self.check(x[..., tf.newaxis], a[...,None])
        self.check(x[::-1, 1:], a[::-1,1:])
        self.check(x[tf.constant(1)], a[1])

    def test_making(self):
        x, a = self.x, self.a
        self.check(tf.zeros([2,3]), np.zeros((2,3)))
        self.check(tf.ones_like(x), np.ones((2,3)))
        self.check(tf.fill([2,2], 7), np.full((2,2),7))
        self.check(tf.eye(3), np.eye(3))
        self.check(tf.one_hot([0,2],3), np.eye(3)[[0,2]])
        self.check(tf.range(5), np.arange(5))
        self.check(tf.range(0.,1.,.25), np.arange(0,1,.25))
        self.check(tf.linspace(0.,1.,5), np.linspace(0,1,5))
        self.check(tf.meshgrid([1,2],[3,4,5])[0], np.meshgrid([1,2],[3,4,5])[0])

    def test_matrices(self):
        x, a = self.x, self.a
        self.check(tf.matmul(x, tf.transpose(x)), a@a.T)
        self.check(tf.matmul(x, x, transpose_b=True), a@a.T)
        self.check(tf.tensordot(x, tf.transpose(x), 1), a@a.T)
        self.check(tf.einsum('ij,kj->ik', x, x), a@a.T)
        self.check(tf.norm(x), np.linalg.norm(a))

    def test_shaping(self):
        x, a = self.x, self.a
        self.check(tf.concat([x,x], 0), np.concatenate([a,a]))
        self.check(tf.concat([x,x], axis=1), np.concatenate([a,a],1))
        self.check(tf.stack([x,x]), np.stack([a,a]))
        self.check(tf.reshape(x, [-1]), a.ravel())
        self.check(tf.reshape(x,[tf.shape(x)[0], 3]), a)
        self.check(tf.expand_dims(x,-1), a[...,None])
        self.check(tf.squeeze(tf.expand_dims(x,0)), a)
        self.check(tf.split(x, 3, axis=1)[1], a[:,1:2])
        self.check(tf.split(x,[1,2],1)[1], a[:,1:])
        self.check(tf.unstack(x, axis=1, num=3)[2], a[:,2])
        self.check(tf.gather(x,[1]), a[[1]])
        self.check(tf.where(x>2, x, -x), np.where(a>2,a,-a))
        self.check(tf.boolean_mask(x, x[:,0]>1), a[a[:,0]>1])
        self.check(tf.pad(x,[[1,1],[0,0]]), np.pad(a,[(1,1),(0,0)]))
        some = tf.pad(tf.zeros([4, 4, 4]), [[1, 2], tf.placeholder(tf.int32), [tf.placeholder(tf.int32, []), 1]])
        self.assertEqual(some.shape.as_list(), [7, None, None])
        self.check(tf.tile(x,[2,1]), np.tile(a,(2,1)))
        self.check(tf.reverse(x,[1]), a[:,::-1])
        self.check(tf.roll(x,1,0), np.roll(a,1,0))
        self.check(tf.repeat([1,2],[2,3]), [1,1,2,2,2])
        with self.assertRaisesRegex(ValueError, r"axis = -4 not in \[-3, 3\)"):
            tf.stack([x, x], axis=-4)
        with self.assertRaisesRegex(ValueError, "Sliced assignment is only supported for variables"):
            x[:1].assign([[1., 2., 3.]])

    def test_other(self):
        x, a = self.x, self.a
        self.check(tf.cast(x, tf.int32), a.astype(int))
        self.check(tf.clip_by_value(x,1,3), a.clip(1,3))
        self.check(tf.clip_by_global_norm([x], 1.0)[0][0], a / np.linalg.norm(a))
        self.check(tf.clip_by_global_norm([x], 1.0)[1], np.linalg.norm(a))
        self.check(tf.clip_by_norm(x,1.0), a/np.linalg.norm(a))
        self.check(tf.sequence_mask([1,3]), [[1,0,0],[1,1,1]])
        self.check(tf.truediv(tf.constant(3), tf.constant(2)), 1.5)
        self.check(tf.div(7,2),3)
        self.check(tf.sort(x,direction='DESCENDING'), -np.sort(-a))
        self.check(tf.confusion_matrix([0,1,1],[1,1,0]), [[0,1],[1,1]])
        self.check(tf.sigmoid(x), 1/(1+np.exp(-a)))
        self.check(tf.tanh(x), np.tanh(a))
        self.check(tf.add_n([x,x]), 2*a)
        self.check(tf.square(x), a*a)
        self.check(tf.maximum(x,2.), np.maximum(a,2))
        self.check(tf.squared_difference(x,1.), (a-1)**2)
        self.check(tf.to_float(tf.constant(1)),1.)

    def test_random_numbers_follow_their_seeds(self):
        def drawn(graph_seed, op_seed):
            with tf.Graph().as_default(), tf.Session() as s:
                tf.set_random_seed(graph_seed)
                return s.run(tf.random_normal([5], seed=op_seed)).tolist()
        self.assertEqual(drawn(1, 2), drawn(1, 2))
        self.assertEqual(drawn(1, None), drawn(1, None))
        self.assertNotEqual(drawn(1, 2), drawn(2, 2))
        self.assertNotEqual(drawn(None, None), drawn(None, None))

    def test_random_numbers_lie_where_they_should(self):
        run = self.session.run
        n = run(tf.random_normal([10000], 2.0, 3.0, seed=1))
        self.assertAlmostEqual(n.mean(), 2, delta=0.2)
        self.assertAlmostEqual(n.std(), 3, delta=0.2)
        u = run(tf.random_uniform([10000], 1, 3, seed=1))
        self.assertTrue(u.min() >= 1 and u.max() < 3)
        t = run(tf.truncated_normal([10000], seed=1))
        self.assertLessEqual(np.abs(t).max(), 2)
        self.assertEqual(sorted(run(tf.random_shuffle(tf.range(9)))), list(range(9)))
        self.assertEqual(run(tf.random_crop(tf.zeros([5, 5]), [2, 3])).shape, (2, 3))
        k = run(tf.multinomial([[0.0, 100.0]], 50))
        self.assertTrue((k == 1).all())

    def test_assertions(self):
        with self.assertRaises(tf.errors.InvalidArgumentError):
            tf.assert_equal(1, 2)
        run = self.session.run
        run(tf.assert_less(self.x, 6.0), {self.x: self.a})
        with self.assertRaises(tf.errors.InvalidArgumentError):
            run(tf.assert_positive(self.x), {self.x: self.a})
        with self.assertRaises(ValueError):
            tf.assert_rank(self.x, 3)

    def test_old_names_of_arguments(self):
        x, a = self.x, self.a
        self.check(tf.reduce_sum(x, reduction_indices=1, keep_dims=True), a.sum(1, keepdims=True))
        self.check(tf.expand_dims(x, dim=1), a[:, None])
        self.check(tf.squeeze(tf.expand_dims(x, 0), squeeze_dims=[0]), a)
        self.check(tf.argmax(x, dimension=1), a.argmax(1))
        with self.assertRaises(ValueError):
            tf.reduce_sum(x, axis=1, reduction_indices=1)

    def test_an_axis_that_is_not_there_is_refused(self):
        for f in (lambda: tf.sort(self.x, axis=2), lambda: tf.argsort(self.x, axis=-3), lambda: tf.repeat(self.x, 2, axis=2),
                  lambda: tf.tensordot(self.x, self.x, [[2], [0]]), lambda: tf.tensordot(self.x, self.x, 3),
                  lambda: tf.norm(self.x, axis=[1]), lambda: tf.sort(tf.constant(1.0))):
            with self.assertRaises(ValueError):
                f()

    def test_an_index_is_an_integer(self):
        self.check(self.x[:, tf.constant(1)], self.a[:, 1])
        self.check(self.x[:np.int64(1)], self.a[:1])
        for key in (1.5, slice(1.5, None), slice(None, 1.5), tf.constant(1.5), tf.constant([0, 1]), "a"):
            with self.assertRaises(TypeError):
                self.x[key]

    def test_a_class_without_a_place_in_the_confusion_matrix_fails(self):
        self.check(tf.confusion_matrix([0, 1, 1], [0, 1, 0], num_classes=2), [[1, 0], [1, 1]])
        label = tf.placeholder(tf.int64, [1])
        for value in (-1, 2):
            with self.assertRaises(tf.errors.InvalidArgumentError):
                self.session.run(tf.confusion_matrix(label, [0], num_classes=2), {label: [value]})

    def test_gather_nd_of_a_batch(self):
        a, at = np.arange(24).reshape(2, 3, 4), np.array([[[1], [2]], [[0], [1]]])
        self.check(tf.gather_nd(a, at, batch_dims=1), np.stack([a[0, [1, 2]], a[1, [0, 1]]]))
        self.check(tf.gather_nd(a, [[1, 2]]), a[1:2, 2])
        with self.assertRaises(ValueError):
            tf.gather_nd(a, at, batch_dims=3)

    def test_sparse_segments(self):
        self.check(tf.sparse_segment_sum(self.x, [0, 1, 1], [0, 0, 1]), [self.a.sum(0), self.a[1]])
        self.check(tf.sparse_segment_mean(self.x, [0, 1], [0, 0], num_segments=2), [self.a.mean(0), [0, 0, 0]])

    def test_histograms(self):
        values = [-1.0, 0.0, 1.5, 2.0, 5.0, 15.0]
        self.check(tf.histogram_fixed_width(values, [0.0, 5.0], nbins=5), [2, 1, 1, 0, 2])
        self.check(tf.histogram_fixed_width_bins(values, [0.0, 5.0], nbins=5), [0, 0, 1, 2, 4, 4])
        self.check(tf.histogram_fixed_width_bins([1, 3], [0, 4], nbins=2), [0, 1])

    def test_ranks_that_are_tensors(self):
        self.assertEqual("NoOp", tf.assert_rank_in(self.x, [tf.constant(1), tf.constant(2)]).type)
        with self.assertRaises(ValueError):
            tf.assert_rank_in(self.x, [tf.constant(1), 3])

    def test_lists_of_tensors_are_asked_for(self):
        for f in (lambda: tf.add_n(3), lambda: tf.add_n([]), lambda: tf.concat([self.x], [0])):
            with self.assertRaises(ValueError):
                f()

    def test_accumulate_n(self):
        unknown = tf.placeholder(tf.float32)
        self.assertEqual([2, 3], tf.accumulate_n([unknown, unknown], shape=[2, 3]).shape.as_list())
        self.check(tf.accumulate_n([self.x, self.x], tensor_dtype=tf.float32), self.a * 2)
        with self.assertRaises(TypeError):
            tf.accumulate_n([self.x], tensor_dtype=tf.int32)

    def test_values_of_sparse_tensors(self):
        sparse = tf.SparseTensor([[0], [2]], [4.0, 9.0], [3])
        np.testing.assert_allclose([2, 3], self.session.run(tf.sqrt(sparse)).values)
        np.testing.assert_allclose([16, 81], self.session.run(tf.square(sparse)).values)
        np.testing.assert_allclose(np.tanh([4, 9]), self.session.run(tf.tanh(sparse)).values)

    def test_means_of_segments_of_a_rank_that_shows_later(self):
        data = tf.placeholder(tf.float32)
        means = self.session.run(tf.unsorted_segment_mean(data, [0, 0], 2), {data: self.a})
        np.testing.assert_allclose([self.a.mean(0), [0, 0, 0]], means)

    def test_names_of_what_is_clipped(self):
        clipped, norm = tf.clip_by_global_norm([self.x, None, [3.0, 4.0]], 1.0)
        self.assertEqual("clip_by_global_norm/clip_by_global_norm/_2:0", clipped[2].name)
        self.assertEqual("global_norm/global_norm:0", norm.name)
        self.check(clipped[0], self.a / np.sqrt((self.a ** 2).sum() + 25))
        self.check(tf.clip_by_global_norm([], 1.0)[1], 0)

    def test_a_missing_name_is_told(self):
        with self.assertRaisesRegex(AttributeError, "none_such"):
            tf.none_such


if __name__ == "__main__":
    unittest.main()
