"""tf.image: images as tensors [height, width, channels], or batches of them.

Functions that compute with intensities convert to float (integers become 0..1) and back, so they can be given images of any
type.
"""

import numpy as np

from .framework import convert, dtypes, ops, shapes
from .framework.op_defs import call
from .ops import array, control_flow, math, random
from .ops.array import extract_image_patches
from .ops.op_functions import (decode_and_crop_jpeg, decode_bmp, decode_gif, decode_jpeg, decode_png, encode_jpeg,
                               encode_png, extract_jpeg_shape, hsv_to_rgb, rgb_to_hsv)


class ResizeMethod:
    """How the pixels of resized images are computed."""
    BILINEAR, NEAREST_NEIGHBOR, BICUBIC, AREA = 0, 1, 2, 3


ResizeMethodV1 = ResizeMethod


# ---- files ----



def decode_image(contents, channels=None, dtype=dtypes.uint8, name=None, expand_animations=True):
    """A BMP, GIF, JPEG or PNG; a GIF has a dimension of frames in front unless expand_animations is False."""
    if channels not in (None, 0, 1, 3, 4):
        raise ValueError("channels must be in (None, 0, 1, 3, 4)")
    dtype = dtypes.as_dtype(dtype)
    if dtype in (dtypes.uint8, dtypes.uint16, dtypes.float32):
        return call("DecodeImage", name, contents=contents, channels=channels or 0, dtype=dtype,
                    expand_animations=expand_animations)
    decoded = call("DecodeImage", name, contents=contents, channels=channels or 0, expand_animations=expand_animations)
    return convert_image_dtype(decoded, dtype)


def is_jpeg(contents, name=None):
    """Returns whether a string starts as a JPEG file does, as a tensor."""
    with ops.name_scope(name, "is_jpeg"):
        return math.equal(call("Substr", None, input=contents, pos=0, len=3), b"\xff\xd8\xff")


# ---- shapes ----

def _image(image, name="image"):
    """A tensor of rank 3 or 4, as far as is known."""
    image = convert.convert_to_tensor(image, name=name)
    if image.shape.ndims not in (None, 3, 4):
        raise ValueError("'%s' (shape %s) must have either 3 or 4 dimensions." % (name, image.shape))
    return image


def _as_batch(image):
    """(batch, whether it was a single image); what is not known to be a batch is taken for a single one"""
    image = _image(image)
    if image.shape.ndims == 4:
        return image, False
    return array.expand_dims(_as_single(image), 0), True


def _as_single(image):
    """The tensor, which has three dimensions if nothing is known of it, as what decode_image gives."""
    if image.shape.ndims is None:
        image = array.identity(image)
        image.set_shape([None, None, None])
    return image


def _back(batch, single):
    return array.squeeze(batch, [0]) if single else batch


def _sizes(batch):
    """[batch, height, width, channels], numbers where they are known."""
    dynamic = None
    out = []
    for i, d in enumerate(batch.shape.as_list()):
        if d is None:
            dynamic = array.unstack(array.shape(batch), 4) if dynamic is None else dynamic
            d = dynamic[i]
        out.append(d)
    return out


def _static(x):
    if not isinstance(x, ops.Tensor):
        return int(x)
    value = convert.constant_value(x)
    return None if value is None else int(value)


def _check(condition, message):
    """A ValueError, or an assertion of the graph when it cannot be decided now."""
    if isinstance(condition, ops.Tensor):
        value = convert.constant_value(condition)
        if value is None:
            return [control_flow.Assert(condition, [message])]
        condition = bool(value)
    if not condition:
        raise ValueError(message)
    return []


def _after(checks, tensor):
    return control_flow.with_dependencies(checks, tensor) if checks else tensor


# ---- turning ----

def _flip(image, axis, name):
    with ops.name_scope(None, name, [image]):
        image = _as_single(_image(image))
        return array.reverse(image, [axis if image.shape.ndims == 3 else axis + 1])


def flip_left_right(image):
    """Mirrors an image, or a batch of them, left to right."""
    return _flip(image, 1, "flip_left_right")


def flip_up_down(image):
    """Mirrors an image, or a batch of them, top to bottom."""
    return _flip(image, 0, "flip_up_down")


def _random_flip(image, axis, seed, name):
    with ops.name_scope(None, name, [image]) as scope:
        image = _as_single(_image(image))
        if image.shape.ndims == 4:
            n = array.shape(image)[0]
            turn = math.round(array.reshape(random.random_uniform([n], 0, 1.0, seed=seed), [n, 1, 1, 1]))
            turn = math.cast(turn, image.dtype)
            return turn * array.reverse(image, [axis + 1]) + (1 - turn) * image
        drawn = random.random_uniform([], 0, 1.0, seed=seed)
        result = control_flow.cond(math.less(drawn, 0.5), lambda: array.reverse(image, [axis]), lambda: image, name=scope)
        result.set_shape(image.shape)
        return result


def random_flip_left_right(image, seed=None):
    """Mirrors it, or not."""
    return _random_flip(image, 1, seed, "random_flip_left_right")


def random_flip_up_down(image, seed=None):
    """Mirrors an image top to bottom with probability 0.5; for a batch, decides for each image."""
    return _random_flip(image, 0, seed, "random_flip_up_down")


def rot90(image, k=1, name=None):
    """Turned counter-clockwise by k right angles."""
    with ops.name_scope(name, "rot90", [image, k]):
        batch, single = _as_batch(image)
        turns = [lambda: batch, lambda: array.reverse(array.transpose(batch, [0, 2, 1, 3]), [1]),
                 lambda: array.reverse(batch, [1, 2]),
                 lambda: array.transpose(array.reverse(batch, [1]), [0, 2, 1, 3])]
        if not isinstance(k, ops.Tensor):
            return _back(turns[k % 4](), single)
        k = math.floormod(k, 4)
        result = control_flow.case([(math.equal(k, i), turns[i]) for i in (1, 2, 3)], default=turns[0], exclusive=True)
        result.set_shape([batch.shape[0], None, None, batch.shape[3]])
        return _back(result, single)


def transpose(image, name=None):
    """Swaps height and width of an image, or of a batch of them."""
    with ops.name_scope(name, "transpose", [image]):
        batch, single = _as_batch(image)
        return _back(array.transpose(batch, [0, 2, 1, 3]), single)


transpose_image = transpose


# ---- cutting out and padding ----

def central_crop(image, central_fraction):
    """The middle, central_fraction of each side."""
    with ops.name_scope(None, "central_crop", [image]):
        if central_fraction <= 0.0 or central_fraction > 1.0:
            raise ValueError("central_fraction must be within (0, 1]")
        image = _image(image)
        if image.shape.ndims is None:
            raise ValueError("`image` should either be a Tensor with rank = 3 or rank = 4. Had rank = None.")
        if central_fraction == 1.0:
            return image
        batch, single = _as_batch(image)
        _, height, width, _ = _sizes(batch)
        top, rows = _middle(height, central_fraction)
        left, columns = _middle(width, central_fraction)
        middle = array.slice(batch, array.stack([0, top, left, 0]), array.stack([-1, rows, columns, -1]))
        middle.set_shape([batch.shape[0], None, None, batch.shape[3]])
        return _back(middle, single)


def _middle(size, fraction):
    if isinstance(size, ops.Tensor):
        begin = math.to_int32((math.to_double(size) - math.to_double(size) * fraction) / 2)
    else:
        begin = int((size - size * fraction) / 2)
    return begin, size - begin * 2


def pad_to_bounding_box(image, offset_height, offset_width, target_height, target_width):
    """Pads the image with zeros, so that it is at the offset in an image of the target size."""
    with ops.name_scope(None, "pad_to_bounding_box", [image]):
        batch, single = _as_batch(image)
        _, height, width, _ = _sizes(batch)
        below, right = target_height - offset_height - height, target_width - offset_width - width
        checks = (_check(offset_height >= 0, "offset_height must be >= 0") +
                  _check(offset_width >= 0, "offset_width must be >= 0") +
                  _check(right >= 0, "width must be <= target - offset") +
                  _check(below >= 0, "height must be <= target - offset"))
        batch = _after(checks, batch)
        paddings = array.reshape(array.stack([0, 0, offset_height, below, offset_width, right, 0, 0]), [4, 2])
        padded = array.pad(batch, paddings)
        padded.set_shape([batch.shape[0], _static(target_height), _static(target_width), batch.shape[3]])
        return _back(padded, single)


def crop_to_bounding_box(image, offset_height, offset_width, target_height, target_width):
    """The part of the target size at the offset."""
    with ops.name_scope(None, "crop_to_bounding_box", [image]):
        batch, single = _as_batch(image)
        _, height, width, _ = _sizes(batch)
        checks = (_check(offset_width >= 0, "offset_width must be >= 0.") +
                  _check(offset_height >= 0, "offset_height must be >= 0.") +
                  _check(target_width > 0, "target_width must be > 0.") +
                  _check(target_height > 0, "target_height must be > 0.") +
                  _check(width >= target_width + offset_width, "width must be >= target + offset.") +
                  _check(height >= target_height + offset_height, "height must be >= target + offset."))
        batch = _after(checks, batch)
        cut = array.slice(batch, array.stack([0, offset_height, offset_width, 0]),
                          array.stack([-1, target_height, target_width, -1]))
        cut.set_shape([batch.shape[0], _static(target_height), _static(target_width), batch.shape[3]])
        return _back(cut, single)


def _at_least_zero(x):
    return math.maximum(x, 0) if isinstance(x, ops.Tensor) else max(x, 0)


def _smaller(x, y):
    return math.minimum(x, y) if isinstance(x, ops.Tensor) or isinstance(y, ops.Tensor) else min(x, y)


def resize_image_with_crop_or_pad(image, target_height, target_width):
    """Crops an image to its middle, or pads it with zeros, to the target size."""
    with ops.name_scope(None, "resize_image_with_crop_or_pad", [image]):
        batch, single = _as_batch(image)
        checks = _check(target_width > 0, "target_width must be > 0.") + _check(target_height > 0, "target_height must be > 0.")
        batch = _after(checks, batch)
        _, height, width, _ = _sizes(batch)
        more_rows, more_columns = target_height - height, target_width - width
        cut = crop_to_bounding_box(batch, _at_least_zero(-more_rows // 2), _at_least_zero(-more_columns // 2),
                                   _smaller(target_height, height), _smaller(target_width, width))
        padded = pad_to_bounding_box(cut, _at_least_zero(more_rows // 2), _at_least_zero(more_columns // 2), target_height,
                                     target_width)
        return _back(padded, single)


resize_with_crop_or_pad = resize_image_with_crop_or_pad


def sample_distorted_bounding_box(image_size, bounding_boxes, seed=None, seed2=None, min_object_covered=0.1,
                                  aspect_ratio_range=None, area_range=None, max_attempts=None,
                                  use_image_if_no_bounding_boxes=None, name=None):
    """(begin, size, box) of a random part of an image that has enough of the boxes."""
    with ops.name_scope(name, "sample_distorted_bounding_box") as scope:
        return call("SampleDistortedBoundingBoxV2", scope, image_size=image_size, bounding_boxes=bounding_boxes, seed=seed or 0,
                    seed2=seed2 or 0, min_object_covered=min_object_covered,
                    aspect_ratio_range=[0.75, 1.33] if aspect_ratio_range is None else aspect_ratio_range,
                    area_range=[0.05, 1.0] if area_range is None else area_range,
                    max_attempts=100 if max_attempts is None else max_attempts,
                    use_image_if_no_bounding_boxes=bool(use_image_if_no_bounding_boxes))


def extract_glimpse(input, size, offsets, centered=True, normalized=True, uniform_noise=True, name=None):  # noqa: A002
    """Cuts a window out of each image of a batch.

    Args:
        input: [batch, height, width, channels]
        size: the height and width of the window
        offsets: [batch, 2], the centers of the windows as y, x
        centered: whether offsets are relative to the center of the image
        normalized: whether offsets are fractions of the size
        uniform_noise: whether points outside of the image get uniform or normal noise
    """
    return call("ExtractGlimpse", name, input=input, size=size, offsets=offsets, centered=centered, normalized=normalized,
                uniform_noise=uniform_noise)


def extract_patches(images, sizes=None, strides=None, rates=None, padding=None, name=None):
    """Returns the patches of images, each flattened into the last dimension.

    Args:
        images: [batch, height, width, channels]
        sizes: the size of the patches, a list of 4 ints
        strides: the distance between patches, a list of 4 ints
        rates: the spacing of pixels in a patch, a list of 4 ints
        padding: "SAME" or "VALID"
    """
    return call("ExtractImagePatches", name, images=images, ksizes=sizes, strides=strides, rates=rates, padding=padding)


# ---- resizing ----

def _resize_function(name, op_type, how):
    def resize_(images, size, align_corners=False, name=None, half_pixel_centers=False):
        more = {} if op_type == "ResizeArea" else {"half_pixel_centers": half_pixel_centers}
        return call(op_type, name, images=images, size=size, align_corners=align_corners, **more)
    resize_.__name__ = resize_.__qualname__ = name
    resize_.__doc__ = """Resizes a batch of images %s.

    Args:
        images: [batch, height, width, channels]
        size: the new height and width
        align_corners: whether the centers of the corner pixels stay in place
        name: the name of the operation
        half_pixel_centers: whether the center of a pixel is at 0.5 instead of 0
    """ % how
    return resize_


resize_bilinear = _resize_function("resize_bilinear", "ResizeBilinear", "with bilinear interpolation")
resize_nearest_neighbor = _resize_function("resize_nearest_neighbor", "ResizeNearestNeighbor",
                                           "by taking the nearest pixel")
resize_bicubic = _resize_function("resize_bicubic", "ResizeBicubic", "with bicubic interpolation")
resize_area = _resize_function("resize_area", "ResizeArea", "by averaging areas")

_RESIZERS = {ResizeMethod.BILINEAR: resize_bilinear, ResizeMethod.NEAREST_NEIGHBOR: resize_nearest_neighbor,
             ResizeMethod.BICUBIC: resize_bicubic, ResizeMethod.AREA: resize_area, "bilinear": resize_bilinear,
             "nearest": resize_nearest_neighbor, "bicubic": resize_bicubic, "area": resize_area}


def resize_images(images, size, method=ResizeMethod.BILINEAR, align_corners=False, preserve_aspect_ratio=False, name=None):
    """Resizes images to [height, width]; float32, except for NEAREST_NEIGHBOR or if the size is right already."""
    with ops.name_scope(name, "resize", [images, size]):
        images = convert.convert_to_tensor(images, name="images")
        if images.shape.ndims is None:
            raise ValueError("'images' contains no shape.")
        if images.shape.ndims not in (3, 4):
            raise ValueError("'images' must have either 3 or 4 dimensions.")
        batch, single = _as_batch(images)
        size = _size_tensor(size)
        if preserve_aspect_ratio:
            size = _largest_inside(batch, size)
        wanted = convert.constant_value(size)
        if wanted is not None and batch.shape.as_list()[1:3] == list(wanted):
            return images
        if method not in _RESIZERS:
            raise ValueError("Resize method is not implemented.")
        result = _RESIZERS[method](batch, size, align_corners=align_corners)
        result.set_shape([None, None if wanted is None else int(wanted[0]), None if wanted is None else int(wanted[1]), None])
        return _back(result, single)


resize = resize_images


def _size_tensor(size):
    try:
        size = convert.convert_to_tensor(size, dtypes.int32, name="size")
    except (TypeError, ValueError):
        raise ValueError("'size' must be a 1-D int32 Tensor") from None
    if not size.shape.is_compatible_with([2]):
        raise ValueError("'size' must be a 1-D Tensor of 2 elements: new_height, new_width")
    return size


def _largest_inside(batch, size):
    """The largest size of the images' form that fits."""
    _, height, width, _ = _sizes(batch)
    wanted = convert.constant_value(size)
    if wanted is not None and not isinstance(height, ops.Tensor) and not isinstance(width, ops.Tensor):
        scale = min(np.float32(wanted[0]) / np.float32(height), np.float32(wanted[1]) / np.float32(width))
        return convert.constant([int(np.round(scale * np.float32(height))), int(np.round(scale * np.float32(width)))],
                                dtypes.int32)
    sides = math.cast(array.stack([height, width]), dtypes.float32)
    scale = math.reduce_min(math.cast(size, dtypes.float32) / sides)
    return math.cast(math.round(scale * sides), dtypes.int32)


def resize_image_with_pad(image, target_height, target_width, method=ResizeMethod.BILINEAR, align_corners=False):
    """Resizes an image to fit the target size, and pads it with zeros."""
    with ops.name_scope(None, "resize_image_with_pad", [image]):
        batch, single = _as_batch(image)
        checks = _check(target_width > 0, "target_width must be > 0.") + _check(target_height > 0, "target_height must be > 0.")
        batch = _after(checks, batch)
        inside = _largest_inside_floor(batch, target_height, target_width)
        resized = resize_images(batch, inside, method, align_corners)
        return _back(resize_image_with_crop_or_pad(resized, target_height, target_width), single)


resize_with_pad = resize_image_with_pad


def _largest_inside_floor(batch, target_height, target_width):
    _, height, width, _ = _sizes(batch)
    if not any(isinstance(x, ops.Tensor) for x in (height, width, target_height, target_width)):
        ratio = max(width / target_width, height / target_height)
        return [int(height / ratio), int(width / ratio)]
    sides = math.cast(array.stack([height, width]), dtypes.float64)
    target = math.cast(array.stack([target_height, target_width]), dtypes.float64)
    return math.cast(math.floor(sides / math.reduce_max(sides / target)), dtypes.int32)


def crop_and_resize(image, boxes, box_ind=None, crop_size=None, method="bilinear", extrapolation_value=0, name=None,
                    box_indices=None):
    """Cuts boxes out of a batch of images, and scales each to crop_size.

    Args:
        image: [batch, height, width, channels]
        boxes: [number of boxes, 4] as y1, x1, y2, x2, relative to the size of the image
        box_ind: the image of each box; box_indices is another name
        crop_size: the height and width of the result
        method: "bilinear" or "nearest"
        extrapolation_value: the value of points outside of the image
    """
    box_ind = box_indices if box_ind is None else box_ind
    return call("CropAndResize", name, image=image, boxes=boxes, box_ind=box_ind, crop_size=crop_size, method=method,
                extrapolation_value=extrapolation_value)


# ---- intensities ----

def convert_image_dtype(image, dtype, saturate=False, name=None):
    """Converts images to another type, scaled so that the largest intensity stays the largest."""
    image = convert.convert_to_tensor(image, name="image")
    dtype = dtypes.as_dtype(dtype)
    if dtype == image.dtype.base_dtype:
        return array.identity(image, name=name)
    with ops.name_scope(name, "convert_image", [image]) as scope:
        cast = math.saturate_cast if saturate else math.cast
        if image.dtype.is_integer and dtype.is_integer:
            return _between_integers(image, dtype, cast, scope)
        if image.dtype.is_floating and dtype.is_floating:
            return math.cast(image, dtype, name=scope)
        if image.dtype.is_integer:
            return math.multiply(math.cast(image, dtype), 1.0 / image.dtype.max, name=scope)
        return cast(math.multiply(image, dtype.max + 0.5), dtype, name=scope)


def _between_integers(image, dtype, cast, scope):
    most_in, most_out = int(image.dtype.max), int(dtype.max)
    if most_in > most_out:
        return cast(math.div(image, (most_in + 1) // (most_out + 1)), dtype, name=scope)
    image = cast(image, dtype)
    return math.multiply(image, (most_out + 1) // (most_in + 1), name=scope)


def _in_floats(name, image, f):
    """Applies f to the image as floats and converts the result back to the image's type."""
    with ops.name_scope(None, name, [image]):
        image = convert.convert_to_tensor(image, name="image")
        wide = image if image.dtype in (dtypes.float16, dtypes.float32) else convert_image_dtype(image, dtypes.float32)
        return convert_image_dtype(f(wide), image.dtype, saturate=True)


def adjust_brightness(image, delta):
    """Adds delta to all values of an image in the range from 0 to 1."""
    return _in_floats("adjust_brightness", image, lambda x: math.add(x, math.cast(delta, x.dtype)))


def adjust_contrast(images, contrast_factor):
    """(x - mean of its channel) * factor + mean"""
    return _in_floats("adjust_contrast", images, lambda x: call("AdjustContrastv2", None, images=x,
                                                                contrast_factor=contrast_factor))


def adjust_gamma(image, gamma=1, gain=1):
    """Computes gain * image ** gamma."""
    def adjusted(x):
        checks = _check(gamma >= 0, "Gamma should be a non-negative real number.")
        return gain * _after(checks, x) ** gamma
    return _in_floats("adjust_gamma", image, adjusted)


def adjust_hue(image, delta, name=None):
    """Rotates the hue by delta, from -1 to 1."""
    return _in_floats(name or "adjust_hue", image, lambda x: call("AdjustHue", None, images=x, delta=delta))


def adjust_saturation(image, saturation_factor, name=None):
    """Multiplies the saturation by a factor."""
    return _in_floats(name or "adjust_saturation", image, lambda x: call("AdjustSaturation", None, images=x,
                                                                         scale=saturation_factor))


def adjust_jpeg_quality(image, jpeg_quality, name=None):
    """Compresses and decompresses an image as JPEG with this quality."""
    with ops.name_scope(name, "adjust_jpeg_quality", [image]):
        image = convert.convert_to_tensor(image, name="image")
        channels = image.shape.with_rank(3).as_list()[-1]
        quality = convert.convert_to_tensor(jpeg_quality, dtypes.int32)
        coded = call("EncodeJpegVariableQuality", None, images=convert_image_dtype(image, dtypes.uint8), quality=quality)
        return convert_image_dtype(decode_jpeg(coded, channels=channels or 0), image.dtype, saturate=True)


def _between(lower, upper, seed, least=None):
    if upper <= lower:
        raise ValueError("upper must be > lower.")
    if least is not None and lower < least:
        raise ValueError("lower must be non-negative.")
    return random.random_uniform([], lower, upper, seed=seed)


def random_brightness(image, max_delta, seed=None):
    """Adds a random number from -max_delta to max_delta to all values."""
    if max_delta < 0:
        raise ValueError("max_delta must be non-negative.")
    return adjust_brightness(image, random.random_uniform([], -max_delta, max_delta, seed=seed))


def random_contrast(image, lower, upper, seed=None):
    """Changes the contrast by a random factor from lower to upper."""
    return adjust_contrast(image, _between(lower, upper, seed, 0))


def random_hue(image, max_delta, seed=None):
    """Rotates the hue by a random amount from -max_delta to max_delta; at most 0.5."""
    if max_delta > 0.5:
        raise ValueError("max_delta must be <= 0.5.")
    if max_delta < 0:
        raise ValueError("max_delta must be non-negative.")
    return adjust_hue(image, random.random_uniform([], -max_delta, max_delta, seed=seed))


def random_saturation(image, lower, upper, seed=None):
    """Multiplies the saturation by a random factor from lower to upper."""
    return adjust_saturation(image, _between(lower, upper, seed, 0))


def random_jpeg_quality(image, min_jpeg_quality, max_jpeg_quality, seed=None):
    """Compresses and decompresses an image as JPEG with a random quality."""
    if not 0 <= min_jpeg_quality < max_jpeg_quality <= 100:
        raise ValueError("`min_jpeg_quality` must be less than `max_jpeg_quality`, and both between 0 and 100.")
    return adjust_jpeg_quality(image, random.random_uniform([], min_jpeg_quality, max_jpeg_quality, seed=seed,
                                                            dtype=dtypes.int32))


def per_image_standardization(image):
    """Mean 0 and variance 1; the deviation is taken for at least that of one pixel among them."""
    with ops.name_scope(None, "per_image_standardization", [image]) as scope:
        image = _image(image)
        image = math.cast(image, dtypes.float32)
        pixels = math.reduce_prod(array.shape(image)[-3:])
        axes = [-1, -2, -3]
        mean = math.reduce_mean(image, axes, keepdims=True)
        deviation = math.sqrt(math.reduce_mean(math.square(image - mean), axes, keepdims=True))
        least = math.rsqrt(math.cast(pixels, dtypes.float32))
        return math.div(image - mean, math.maximum(deviation, least), name=scope)


per_image_whitening = per_image_standardization


# ---- colours ----

def rgb_to_grayscale(images, name=None):
    """Converts images from RGB to one channel of gray."""
    def gray(x):
        return array.expand_dims(math.tensordot(x, convert.constant([0.2989, 0.5870, 0.1140], x.dtype), [[-1], [-1]]), -1)
    return _in_floats(name or "rgb_to_grayscale", images, gray)


def grayscale_to_rgb(images, name=None):
    """Converts images from one channel of gray to RGB."""
    with ops.name_scope(name, "grayscale_to_rgb", [images]) as scope:
        images = convert.convert_to_tensor(images, name="images")
        before = array.ones([math.subtract(array.rank(images), 1)], dtypes.int32)
        rgb = array.tile(images, array.concat([before, [3]], 0), name=scope)
        if images.shape.ndims is not None:
            rgb.set_shape(images.shape[:-1].concatenate([3]))
        return rgb



_RGB_TO_YIQ = np.array([[0.299, 0.59590059, 0.2115], [0.587, -0.27455667, -0.52273617], [0.114, -0.32134392, 0.31119955]])
_YIQ_TO_RGB = np.array([[1, 1, 1], [0.95598634, -0.27201283, -1.10674021], [0.6208248, -0.64720424, 1.70423049]])
_RGB_TO_YUV = np.array([[0.299, -0.14714119, 0.61497538], [0.587, -0.28886916, -0.51496512], [0.114, 0.43601035, -0.10001026]])
_YUV_TO_RGB = np.array([[1, 1, 1], [0, -0.394642334, 2.03206185], [1.13988303, -0.58062185, 0]])


def _colours(name, kernel):
    def f(images):
        images = convert.convert_to_tensor(images, name="images")
        made = math.tensordot(images, convert.constant(kernel, images.dtype, name="kernel"), [[images.shape.ndims - 1], [0]])
        made.set_shape(images.shape)
        return made
    f.__name__ = f.__qualname__ = name
    f.__doc__ = "Converts images from %s to %s; the last dimension has the 3 channels." % tuple(
        name.upper().split("_TO_"))
    return f


rgb_to_yiq, yiq_to_rgb = _colours("rgb_to_yiq", _RGB_TO_YIQ), _colours("yiq_to_rgb", _YIQ_TO_RGB)
rgb_to_yuv, yuv_to_rgb = _colours("rgb_to_yuv", _RGB_TO_YUV), _colours("yuv_to_rgb", _YUV_TO_RGB)


# ---- boxes ----

def draw_bounding_boxes(images, boxes, name=None, colors=None):
    """Draws boxes on a batch of images.

    Args:
        images: [batch, height, width, channels]
        boxes: [batch, number of boxes, 4] as y1, x1, y2, x2, relative to the size of the image
        colors: [number of colors, channels], used in turn
    """
    if colors is None:
        return call("DrawBoundingBoxes", name, images=images, boxes=boxes)
    return call("DrawBoundingBoxesV2", name, images=images, boxes=boxes, colors=colors)


def non_max_suppression(boxes, scores, max_output_size, iou_threshold=0.5, score_threshold=float("-inf"), name=None):
    """Returns the indices of boxes that remain when only the best of those that overlap is kept."""
    with ops.name_scope(name, "non_max_suppression"):
        return call("NonMaxSuppressionV3", None, boxes=boxes, scores=scores, max_output_size=max_output_size,
                    iou_threshold=iou_threshold, score_threshold=score_threshold)


def non_max_suppression_with_scores(boxes, scores, max_output_size, iou_threshold=0.5, score_threshold=float("-inf"),
                                    soft_nms_sigma=0.0, name=None):
    """Chooses boxes that overlap little, best scores first, and can lower the scores of others.

    Args:
        boxes: [number of boxes, 4] as y1, x1, y2, x2
        scores: the score of each box
        max_output_size: the largest number of boxes to choose
        iou_threshold: the overlap, intersection over union, above which a box is dropped
        score_threshold: the score that a box must exceed
        soft_nms_sigma: how much overlap lowers a score; 0 drops boxes instead

    Returns the indices of the chosen boxes and their scores.
    """
    with ops.name_scope(name, "non_max_suppression_with_scores"):
        made = call("NonMaxSuppressionV5", None, boxes=boxes, scores=scores, max_output_size=max_output_size,
                    iou_threshold=iou_threshold, score_threshold=score_threshold, soft_nms_sigma=soft_nms_sigma,
                    pad_to_max_output_size=False)
        return made[0], made[1]


def non_max_suppression_padded(boxes, scores, max_output_size, iou_threshold=0.5, score_threshold=float("-inf"),
                               pad_to_max_output_size=False, name=None):
    """Chooses boxes that overlap little, best scores first.

    The arguments are those of non_max_suppression. With pad_to_max_output_size the result has max_output_size
    indices.
    Returns the indices and how many of them are valid."""
    with ops.name_scope(name, "non_max_suppression_padded"):
        return call("NonMaxSuppressionV4", None, boxes=boxes, scores=scores, max_output_size=max_output_size,
                    iou_threshold=iou_threshold, score_threshold=score_threshold, pad_to_max_output_size=pad_to_max_output_size)


def non_max_suppression_overlaps(overlaps, scores, max_output_size, overlap_threshold=0.5, score_threshold=float("-inf"),
                                 name=None):
    """Chooses boxes that overlap little, best scores first, given the overlaps of all pairs."""
    with ops.name_scope(name, "non_max_suppression_overlaps"):
        return call("NonMaxSuppressionWithOverlaps", None, overlaps=overlaps, scores=scores, max_output_size=max_output_size,
                    overlap_threshold=overlap_threshold, score_threshold=score_threshold)


def combined_non_max_suppression(boxes, scores, max_output_size_per_class, max_total_size, iou_threshold=0.5,
                                 score_threshold=float("-inf"), pad_per_class=False, clip_boxes=True, name=None):
    """Chooses boxes that overlap little, for each class and then among all classes.

    Args:
        boxes: [batch, number of boxes, classes or 1, 4] as y1, x1, y2, x2
        scores: [batch, number of boxes, classes]
        max_output_size_per_class: the largest number of boxes of a class
        max_total_size: the largest number of boxes of an image
        pad_per_class: whether to pad the result to the smaller of max_total_size and the boxes of all classes
        clip_boxes: whether to limit coordinates to the range from 0 to 1

    Returns boxes, scores, classes, and the number of valid boxes of each image.
    """
    with ops.name_scope(name, "combined_non_max_suppression"):
        return call("CombinedNonMaxSuppression", None, boxes=boxes, scores=scores,
                    max_output_size_per_class=max_output_size_per_class,
                    max_total_size=max_total_size, iou_threshold=iou_threshold, score_threshold=score_threshold,
                    pad_per_class=pad_per_class, clip_boxes=clip_boxes)


# ---- comparing and differentiating ----

def total_variation(images, name=None):
    """The sum of the differences of neighbours, for each image."""
    with ops.name_scope(name, "total_variation"):
        images = _image(images, "images")
        axes = [1, 2, 3] if images.shape.ndims == 4 else None
        down = images[..., 1:, :, :] - images[..., :-1, :, :]
        right = images[..., 1:, :] - images[..., :-1, :]
        return math.reduce_sum(math.abs(down), axes) + math.reduce_sum(math.abs(right), axes)


def image_gradients(image):
    """(dy, dx): differences to the next row and column, zero in the last one."""
    image = convert.convert_to_tensor(image, name="image")
    if image.shape.ndims != 4:
        raise ValueError("image_gradients expects a 4D tensor [batch_size, h, w, d], not %s." % image.shape)
    n, height, width, depth = array.unstack(array.shape(image), 4)
    dy = array.concat([image[:, 1:] - image[:, :-1], array.zeros(array.stack([n, 1, width, depth]), image.dtype)], 1)
    dx = array.concat([image[:, :, 1:] - image[:, :, :-1], array.zeros(array.stack([n, height, 1, depth]), image.dtype)], 2)
    return array.reshape(dy, array.shape(image)), array.reshape(dx, array.shape(image))


def sobel_edges(image):
    """[batch, height, width, channels, 2]: the Sobel derivatives along rows and columns."""
    kernels = np.array([[[-1, -2, -1], [0, 0, 0], [1, 2, 1]], [[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]], np.float32)
    image = convert.convert_to_tensor(image, name="image")
    depth = image.shape.with_rank(4).as_list()[3]
    filters = np.tile(kernels.transpose(1, 2, 0)[:, :, None, :], [1, 1, depth, 1])
    padded = array.pad(image, [[0, 0], [1, 1], [1, 1], [0, 0]], mode="REFLECT")
    made = call("DepthwiseConv2dNative", None, input=padded, filter=convert.constant(filters), strides=[1, 1, 1, 1],
                padding="VALID")
    made = array.reshape(made, array.concat([array.shape(image), [2]], 0))
    made.set_shape(image.shape.concatenate([2]))
    return made


def _two_images(a, b):
    a, b = convert.convert_to_tensor(a, name="img1"), convert.convert_to_tensor(b, name="img2")
    if a.shape.ndims is not None and b.shape.ndims is not None:
        a.shape.with_rank_at_least(3)
        b.shape.with_rank_at_least(3)
        if not a.shape[-3:].is_compatible_with(b.shape[-3:]):
            raise ValueError("Last three dimensions of the images do not match: %s and %s" % (a.shape, b.shape))
    return a, b


def _floats_with_maximum(a, b, max_val):
    most = convert_image_dtype(math.cast(max_val, a.dtype), dtypes.float32)
    return convert_image_dtype(a, dtypes.float32), convert_image_dtype(b, dtypes.float32), most


def psnr(a, b, max_val, name=None):
    """The peak signal-to-noise ratio, in dB."""
    with ops.name_scope(name, "PSNR", [a, b]) as scope:
        a, b = _two_images(a, b)
        a, b, most = _floats_with_maximum(a, b, max_val)
        error = math.reduce_mean(math.squared_difference(a, b), [-3, -2, -1])
        return math.subtract(20 * math.log(most) / np.float32(np.log(10.0)), np.float32(10 / np.log(10)) * math.log(error),
                             name=scope)


def _gauss(size, sigma):
    x = np.arange(size) - (size - 1) / 2.0
    g = -0.5 * (x[:, None] ** 2 + x[None, :] ** 2) / sigma ** 2
    g = np.exp(g - g.max())
    return (g / g.sum()).astype(np.float32)


def _ssim_per_channel(a, b, most, filter_size, filter_sigma, k1, k2):
    """(similarity, its part of contrast and structure) a channel, averaged over windows."""
    c1, c2 = (k1 * most) ** 2, (k2 * most) ** 2
    channels = a.shape.as_list()[-1]
    kernel = convert.constant(np.tile(_gauss(filter_size, filter_sigma)[:, :, None, None], [1, 1, channels, 1]))

    def smooth(x):
        shape = array.shape(x)
        flat = array.reshape(x, array.concat([[-1], shape[-3:]], 0))
        made = call("DepthwiseConv2dNative", None, input=flat, filter=kernel, strides=[1, 1, 1, 1], padding="VALID")
        return array.reshape(made, array.concat([shape[:-3], array.shape(made)[1:]], 0))

    mean_a, mean_b = smooth(a), smooth(b)
    product, squares = mean_a * mean_b * 2.0, math.square(mean_a) + math.square(mean_b)
    luminance = (product + c1) / (squares + c1)
    structure = (smooth(a * b) * 2.0 - product + c2) / (smooth(math.square(a) + math.square(b)) - squares + c2)
    return math.reduce_mean(luminance * structure, [-3, -2]), math.reduce_mean(structure, [-3, -2])


def ssim(img1, img2, max_val, filter_size=11, filter_sigma=1.5, k1=0.01, k2=0.03):
    """The structural similarity: 1 for equal images."""
    with ops.name_scope(None, "SSIM", [img1, img2]):
        a, b = _two_images(img1, img2)
        a, b, most = _floats_with_maximum(a, b, max_val)
        return math.reduce_mean(_ssim_per_channel(a, b, most, filter_size, filter_sigma, k1, k2)[0], [-1])


_MSSSIM_WEIGHTS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)


def ssim_multiscale(img1, img2, max_val, power_factors=_MSSSIM_WEIGHTS, filter_size=11, filter_sigma=1.5, k1=0.01, k2=0.03):
    """The product of similarities at scales that are halved each time."""
    with ops.name_scope(None, "MS-SSIM", [img1, img2]):
        a, b = _two_images(img1, img2)
        a, b, most = _floats_with_maximum(a, b, max_val)
        parts = []
        for scale in range(len(power_factors)):
            if scale:
                a, b = _halved(a), _halved(b)
            whole, structure = _ssim_per_channel(a, b, most, filter_size, filter_sigma, k1, k2)
            parts.append(whole if scale == len(power_factors) - 1 else structure)
        parts = array.stack([call("Relu", None, features=p) for p in parts], axis=-1)
        return math.reduce_mean(math.reduce_prod(math.pow(parts, convert.constant(power_factors, dtypes.float32)), [-1]), [-1])


def _halved(x):
    """Means of 2 x 2; an odd row or column is doubled first."""
    shape = array.shape(x)
    flat = array.reshape(x, array.concat([[-1], shape[-3:]], 0))
    flat.set_shape(shapes.TensorShape([None]).concatenate(x.shape[-3:]))
    odd = math.floormod(shape[-3:-1], 2)
    flat = array.pad(flat, array.reshape(array.stack([0, 0, 0, odd[0], 0, odd[1], 0, 0]), [4, 2]), mode="SYMMETRIC")
    pooled = call("AvgPool", None, value=flat, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID")
    out = array.reshape(pooled, array.concat([shape[:-3], array.shape(pooled)[1:]], 0))
    out.set_shape(x.shape[:-3].concatenate([None, None, x.shape[-1]]))
    return out
