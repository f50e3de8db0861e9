"""tf.image and tf.contrib.image, against numpy."""

import unittest

import numpy as np

import millrace as tf
from millrace.contrib import image as contrib_image


class Case(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()

    def value(self, fetches, feeds=None):
        with tf.Session() as session:
            return session.run(fetches, feeds)

    def assert_value(self, tensor, expected, tolerance=0):
        np.testing.assert_allclose(self.value(tensor), expected, atol=tolerance, rtol=tolerance)


X = np.arange(24, dtype=np.float32).reshape(2, 4, 3)


class Files(Case):
    def test_there_and_back(self):
        x = np.arange(27, dtype=np.uint8).reshape(3, 3, 3)
        png = tf.image.encode_png(x)
        self.assert_value(tf.image.decode_png(png, channels=3), x)
        self.assert_value(tf.image.decode_image(png), x)
        jpeg = tf.image.encode_jpeg(np.full([8, 8, 3], 100, np.uint8), format="rgb", quality=100)
        self.assert_value(tf.image.decode_jpeg(jpeg, channels=3), np.full([8, 8, 3], 100), 1)
        self.assertEqual(self.value([tf.image.is_jpeg(jpeg), tf.image.is_jpeg(png)]), [True, False])
        self.assert_value(tf.image.extract_jpeg_shape(jpeg), [8, 8, 3])


class Shapes(Case):
    def test_turning(self):
        self.assert_value(tf.image.flip_left_right(X), X[:, ::-1])
        self.assert_value(tf.image.flip_up_down(X[None]), X[::-1][None])
        for k in range(5):
            self.assert_value(tf.image.rot90(X, k), np.rot90(X, k))
            self.assert_value(tf.image.rot90(X, tf.constant(k)), np.rot90(X, k))
        self.assert_value(tf.image.transpose_image(X), X.transpose(1, 0, 2))

    def test_random_flip_is_one_or_the_other(self):
        tf.set_random_seed(1)
        flipped = tf.image.random_flip_left_right(X)
        self.assertEqual(flipped.shape.as_list(), [2, 4, 3])
        seen = set()
        with tf.Session() as session:
            for _ in range(20):
                v = session.run(flipped)
                seen.add(0 if (v == X).all() else 1 if (v == X[:, ::-1]).all() else 2)
        self.assertEqual(seen, {0, 1})

    def test_cutting_and_padding(self):
        self.assert_value(tf.image.crop_to_bounding_box(X, 0, 1, 2, 2), X[:2, 1:3])
        padded = tf.image.pad_to_bounding_box(X, 1, 2, 4, 7)
        self.assertEqual(padded.shape.as_list(), [4, 7, 3])
        self.assert_value(padded, np.pad(X, [[1, 1], [2, 1], [0, 0]]))
        self.assert_value(tf.image.resize_image_with_crop_or_pad(X, 4, 2), np.pad(X[:, 1:3], [[1, 1], [0, 0], [0, 0]]))
        self.assert_value(tf.image.central_crop(X, 0.5), X[0:2, 1:3])
        self.assertRaises(ValueError, tf.image.crop_to_bounding_box, X, 0, 3, 2, 2)
        self.assertRaises(ValueError, tf.image.pad_to_bounding_box, X, 0, 0, 1, 4)
        self.assertRaises(ValueError, tf.image.central_crop, X, 0.0)

    def test_unknown_sizes(self):
        p = tf.placeholder(tf.float32, [None, None, 3])
        v = self.value(tf.image.resize_image_with_crop_or_pad(p, 4, 2), {p: X})
        np.testing.assert_array_equal(v, np.pad(X[:, 1:3], [[1, 1], [0, 0], [0, 0]]))
        cut = tf.image.crop_to_bounding_box(p, 0, 3, 2, 2)
        with self.assertRaises(tf.errors.InvalidArgumentError):
            self.value(cut, {p: X})

    def test_resizing(self):
        x = np.array([[0, 2], [4, 6]], np.float32)[:, :, None]
        nearest = tf.image.resize_images(x.astype(np.uint8), [4, 4], method=tf.image.ResizeMethod.NEAREST_NEIGHBOR)
        self.assertEqual(nearest.dtype, tf.uint8)
        self.assert_value(nearest[:, :, 0], np.repeat(np.repeat(x[:, :, 0], 2, 0), 2, 1))
        self.assert_value(tf.image.resize_images(x, [2, 3], align_corners=True)[:, :, 0], [[0, 1, 2], [4, 5, 6]])
        self.assert_value(tf.image.resize_bilinear(x[None], [1, 1]), [[[[0]]]])
        self.assert_value(tf.image.resize_images(x, [1, 1], method=tf.image.ResizeMethod.AREA), [[[3]]])
        self.assertEqual(tf.image.resize_images(x.astype(np.uint8), [2, 2]).dtype, tf.uint8)
        self.assertEqual(tf.image.resize_images(X, [8, 8], preserve_aspect_ratio=True).shape.as_list(), [4, 8, 3])
        self.assertEqual(tf.image.resize_image_with_pad(X, 8, 8).shape.as_list(), [8, 8, 3])
        self.assertRaises(ValueError, tf.image.resize_images, X, [1, 2, 3])
        self.assertRaises(ValueError, tf.image.resize_images, X[0], [1, 2])


class Intensities(Case):
    def test_types(self):
        self.assert_value(tf.image.convert_image_dtype(np.array([0, 255], np.uint8), tf.float32), [0, 1])
        self.assert_value(tf.image.convert_image_dtype(np.array([0, 0.5, 1], np.float32), tf.uint8), [0, 127, 255])
        self.assert_value(tf.image.convert_image_dtype(np.array([1.5], np.float32), tf.uint8, saturate=True), [255])
        self.assert_value(tf.image.convert_image_dtype(np.array([256], np.int16), tf.uint8), [2])

    def test_adjusting(self):
        x = np.random.RandomState(0).rand(3, 4, 3).astype(np.float32)
        self.assert_value(tf.image.adjust_brightness(x, 0.25), x + 0.25, 1e-6)
        mean = x.mean((0, 1))
        self.assert_value(tf.image.adjust_contrast(x, 2.0), (x - mean) * 2 + mean, 1e-5)
        self.assert_value(tf.image.adjust_gamma(x, 2.0, 3.0), 3 * x ** 2, 1e-5)
        self.assert_value(tf.image.adjust_saturation(x, 1.0), x, 1e-5)
        self.assert_value(tf.image.adjust_hue(x, 0.0), x, 1e-5)
        self.assert_value(tf.image.adjust_brightness(np.array([[[250]]], np.uint8), 0.5), [[[255]]])
        standard = tf.image.per_image_standardization(x)
        self.assert_value(standard, (x - x.mean()) / x.std(), 1e-4)

    def test_random_ones(self):
        x = np.full([2, 2, 3], 0.5, np.float32)
        v = self.value([tf.image.random_brightness(x, 0.2, seed=1), tf.image.random_contrast(X, 0.5, 1.5),
                        tf.image.random_hue(x, 0.1), tf.image.random_saturation(x, lower=0.5, upper=1.5)])
        self.assertTrue((abs(v[0] - 0.5) <= 0.2).all() and (v[0] == v[0].flat[0]).all())
        self.assertRaises(ValueError, tf.image.random_brightness, x, -1)
        self.assertRaises(ValueError, tf.image.random_contrast, x, 1, 0.5)
        self.assertRaises(ValueError, tf.image.random_hue, x, 0.7)

    def test_colours(self):
        x = np.random.RandomState(0).rand(3, 4, 3).astype(np.float32)
        self.assert_value(tf.image.rgb_to_grayscale(x)[:, :, 0], x @ [0.2989, 0.5870, 0.1140], 1e-5)
        self.assert_value(tf.image.grayscale_to_rgb(x[:, :, :1]), np.repeat(x[:, :, :1], 3, 2))
        self.assert_value(tf.image.hsv_to_rgb(tf.image.rgb_to_hsv(x)), x, 1e-5)
        self.assert_value(tf.image.yiq_to_rgb(tf.image.rgb_to_yiq(x)), x, 1e-4)
        self.assert_value(tf.image.yuv_to_rgb(tf.image.rgb_to_yuv(x)), x, 1e-4)


class Comparing(Case):
    def test_similarity(self):
        x = np.random.RandomState(0).rand(2, 192, 192, 1).astype(np.float32)
        self.assert_value(tf.image.ssim(x, x, 1.0), [1, 1], 1e-5)
        self.assert_value(tf.image.ssim_multiscale(x, x, 1.0), [1, 1], 1e-5)
        y = np.clip(x + 0.1, 0, 1)
        self.assert_value(tf.image.psnr(x, y, 1.0), 10 * np.log10(1 / ((x - y) ** 2).mean((1, 2, 3))), 1e-4)
        less = self.value(tf.image.ssim(x, y, 1.0))
        self.assertTrue((less < 1).all() and (less > 0.5).all())

    def test_variation_and_gradients(self):
        self.assert_value(tf.image.total_variation(X), abs(np.diff(X, axis=0)).sum() + abs(np.diff(X, axis=1)).sum())
        dy, dx = self.value(tf.image.image_gradients(tf.constant(X[None])))
        np.testing.assert_array_equal(dy[0], np.concatenate([np.diff(X, axis=0), np.zeros([1, 4, 3])]))
        np.testing.assert_array_equal(dx[0], np.concatenate([np.diff(X, axis=1), np.zeros([2, 1, 3])], 1))
        flat = tf.constant(np.tile(np.arange(5, dtype=np.float32)[None, None, :, None], [1, 4, 1, 2]))
        edges = self.value(tf.image.sobel_edges(flat))
        self.assertEqual(edges.shape, (1, 4, 5, 2, 2))
        np.testing.assert_array_equal(edges[0, 1, 1:4, 0], [[0, 8]] * 3)

    def test_boxes(self):
        boxes = np.array([[0, 0, 1, 1], [0, 0, 1, 0.9], [2, 2, 3, 3]], np.float32)
        self.assert_value(tf.image.non_max_suppression(boxes, [0.9, 0.8, 0.7], 3), [0, 2])
        begin, size, box = tf.image.sample_distorted_bounding_box([10, 10, 3], np.array([[[0, 0, 1, 1]]], np.float32),
                                                                  min_object_covered=0.5)
        b, s = self.value([begin, size])
        self.assertTrue((b + s <= [10, 10, 3])[:2].all())
        crops = tf.image.crop_and_resize(X[None], [[0, 0, 1, 1]], [0], [2, 4])
        self.assert_value(crops, X[None])


class Contrib(Case):
    def test_transforms(self):
        x = np.arange(9, dtype=np.float32).reshape(3, 3)
        self.assert_value(contrib_image.rotate(x, np.pi / 2), np.rot90(x))
        self.assert_value(contrib_image.translate(x, [1, 0]), [[0, 0, 1], [0, 3, 4], [0, 6, 7]])
        once = contrib_image.angles_to_projective_transforms(0.3, 3.0, 3.0)
        back = contrib_image.angles_to_projective_transforms(-0.3, 3.0, 3.0)
        self.assert_value(contrib_image.compose_transforms(once, back), [[1, 0, 0, 0, 1, 0, 0, 0]], 1e-6)
        y = np.random.RandomState(0).rand(2, 2, 3).astype(np.float32)
        self.assert_value(contrib_image.adjust_hsv_in_yiq(y), y, 1e-5)

    def test_images_of_unknown_rank_are_taken_for_single_ones(self):
        pixels = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
        unknown = tf.placeholder_with_default(pixels, None)
        flipped = tf.image.flip_left_right(unknown)
        self.assertEqual(flipped.shape.as_list(), [None, None, None])
        cut = tf.image.resize_image_with_crop_or_pad(unknown, 2, 2)
        self.assertEqual(tf.image.random_flip_up_down(unknown).shape.ndims, 3)
        self.assertEqual(cut.shape.as_list(), [2, 2, None])
        with tf.Session() as session:
            np.testing.assert_array_equal(session.run(flipped), pixels[:, ::-1])
            np.testing.assert_array_equal(session.run(cut), pixels[:, 1:3])
        self.assertRaises(ValueError, tf.image.central_crop, unknown, 0.5)
        self.assertRaises(ValueError, tf.image.resize_images, unknown, [2, 2])

    def test_arrays_have_edges_too(self):
        pixels = np.arange(9, dtype=np.float32).reshape(1, 3, 3, 1)
        with tf.Session() as session:
            dy, _ = session.run(tf.image.image_gradients(pixels))
            self.assertEqual(dy[0, :, 0, 0].tolist(), [3, 3, 0])
            self.assertEqual(session.run(tf.image.sobel_edges(pixels))[0, 1, 1, 0].tolist(), [24, 8])
        self.assertRaises(ValueError, tf.image.sobel_edges, pixels[0])
        self.assertRaises(ValueError, tf.image.adjust_jpeg_quality, pixels, 50)

    def test_central_crop_keeps_the_channels(self):
        self.assertEqual(tf.image.central_crop(tf.placeholder(tf.float32, [None, None, 3]), 0.5).shape.as_list(),
                         [None, None, 3])


if __name__ == "__main__":
    unittest.main()
