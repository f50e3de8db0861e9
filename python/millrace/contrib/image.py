"""tf.contrib.image: turning, moving and warping images.

A transform is 8 numbers (a0 a1 a2 b0 b1 b2 c0 c1): the point (x, y) of the result is taken from ((a0 x + a1 y + a2) / k,
(b0 x + b1 y + b2) / k) of the image, where k = c0 x + c1 y + 1.
"""

import numpy as np

from ..framework import convert, dtypes, ops
from ..framework.op_defs import call
from ..ops import array, math, random


def _images_4d(images):
    """(images [n, height, width, channels], their rank)"""
    images = convert.convert_to_tensor(images, name="images")
    rank = images.shape.ndims
    if rank is None:
        raise TypeError("Images must have a known rank")
    if rank == 2:
        return images[None, :, :, None], rank
    if rank == 3:
        return images[None], rank
    if rank == 4:
        return images, rank
    raise TypeError("Images should have rank between 2 and 4.")


def _with_rank(images, rank):
    return images[0, :, :, 0] if rank == 2 else images[0] if rank == 3 else images


def transform(images, transforms, interpolation="NEAREST", output_shape=None, name=None):
    """Warps images by one transform, or each by its own."""
    with ops.name_scope(name, "transform"):
        batch, rank = _images_4d(images)
        transforms = convert.convert_to_tensor(transforms, dtypes.float32, name="transforms")
        if transforms.shape.ndims == 1:
            transforms = transforms[None]
        elif transforms.shape.ndims != 2:
            raise TypeError("Transforms should have rank 1 or 2.")
        if output_shape is None:
            known = batch.shape.as_list()[1:3]
            output_shape = known if None not in known else array.shape(batch)[1:3]
        made = call("ImageProjectiveTransformV2", None, images=batch, transforms=transforms,
                    output_shape=convert.convert_to_tensor(output_shape, dtypes.int32), interpolation=interpolation.upper())
        return _with_rank(made, rank)


def rotate(images, angles, interpolation="NEAREST", name=None):
    """Turned counter-clockwise by angles in radians, around the middle."""
    with ops.name_scope(name, "rotate"):
        batch, rank = _images_4d(images)
        sides = math.cast(array.shape(batch)[1:3], dtypes.float32)
        made = transform(batch, angles_to_projective_transforms(angles, sides[0], sides[1]), interpolation)
        return _with_rank(made, rank)


def angles_to_projective_transforms(angles, image_height, image_width, name=None):
    """Returns the transforms that rotate images around their center by angles in radians."""
    with ops.name_scope(name, "angles_to_projective_transforms"):
        angles = convert.convert_to_tensor(angles, dtypes.float32, name="angles")
        angles = angles[None] if angles.shape.ndims == 0 else angles
        cos, sin = math.cos(angles), math.sin(angles)
        x = ((image_width - 1) - (cos * (image_width - 1) - sin * (image_height - 1))) / 2.0
        y = ((image_height - 1) - (sin * (image_width - 1) + cos * (image_height - 1))) / 2.0
        zero = array.zeros_like(angles)
        return array.stack([cos, -sin, x, sin, cos, y, zero, zero], axis=1)


def translate(images, translations, interpolation="NEAREST", name=None):
    """Moved by (dx, dy)."""
    with ops.name_scope(name, "translate"):
        return transform(images, translations_to_projective_transforms(translations), interpolation)


def translations_to_projective_transforms(translations, name=None):
    """Returns the transforms that move images by [dx, dy]."""
    with ops.name_scope(name, "translations_to_projective_transforms"):
        t = convert.convert_to_tensor(translations, dtypes.float32, name="translations")
        t = t[None] if t.shape.ndims == 1 else t
        one, zero = array.ones_like(t[:, 0]), array.zeros_like(t[:, 0])
        return array.stack([one, zero, -t[:, 0], zero, one, -t[:, 1], zero, zero], axis=1)


def flat_transforms_to_matrices(transforms):
    """Converts transforms of 8 numbers to 3 x 3 matrices."""
    transforms = convert.convert_to_tensor(transforms, dtypes.float32)
    transforms = array.reshape(transforms, [-1, 8])
    return array.reshape(array.concat([transforms, array.ones([array.shape(transforms)[0], 1])], 1), [-1, 3, 3])


def matrices_to_flat_transforms(transform_matrices):
    """Converts 3 x 3 matrices to transforms of 8 numbers."""
    flat = array.reshape(convert.convert_to_tensor(transform_matrices), [-1, 9])
    return flat[:, :8] / flat[:, 8:9]


def compose_transforms(*transforms):
    """Returns one transform that does what the given ones do one after the other."""
    if not transforms:
        raise ValueError("compose_transforms needs at least one transform")
    whole = flat_transforms_to_matrices(transforms[0])
    for t in transforms[1:]:
        whole = math.matmul(whole, flat_transforms_to_matrices(t))
    return matrices_to_flat_transforms(whole)


_YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.322], [0.211, -0.523, 0.312]], np.float32)


def adjust_hsv_in_yiq(image, delta_hue=0, saturation_scale=1, value_scale=1, name=None):
    """Hue, saturation and value changed by a linear map of colours in YIQ."""
    from .. import image as images
    with ops.name_scope(name, "adjust_hsv_in_yiq", [image]):
        image = convert.convert_to_tensor(image, name="image")
        x = images.convert_image_dtype(image, dtypes.float32)
        v, s, h = (math.cast(convert.convert_to_tensor(a), dtypes.float32) for a in (value_scale, saturation_scale, delta_hue))
        cos, sin, zero = v * s * math.cos(h), v * s * math.sin(h), array.zeros([])
        turned = array.stack([array.stack([v, zero, zero]), array.stack([zero, cos, -sin]), array.stack([zero, sin, cos])])
        whole = math.matmul(math.matmul(convert.constant(np.linalg.inv(_YIQ).astype(np.float32)), turned),
                            convert.constant(_YIQ))
        shape = array.shape(x)
        made = array.reshape(math.matmul(array.reshape(x, [-1, 3]), whole, transpose_b=True), shape)
        made.set_shape(image.shape)
        return images.convert_image_dtype(made, image.dtype)


def random_hsv_in_yiq(image, max_delta_hue=0, lower_saturation=1, upper_saturation=1, lower_value=1, upper_value=1, seed=None):
    """Changes hue, saturation and value of an image by random amounts.

    Args:
        image: an RGB image
        max_delta_hue: the largest rotation of the hue, in radians
        lower_saturation: the smallest factor of the saturation; upper_saturation is the largest
        lower_value: the smallest factor of the value; upper_value is the largest
    """
    if max_delta_hue < 0 or lower_saturation < 0 or lower_value < 0:
        raise ValueError("max_delta, lower_saturation and lower_value must be non-negative.")
    if lower_saturation > upper_saturation or lower_value > upper_value:
        raise ValueError("lower must be < upper.")

    def between(low, high):
        return convert.constant(float(low)) if low == high else random.random_uniform([], low, high, seed=seed)
    return adjust_hsv_in_yiq(image, between(-max_delta_hue, max_delta_hue), between(lower_saturation, upper_saturation),
                             between(lower_value, upper_value))
