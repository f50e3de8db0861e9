"""Images: changed at random, and read from folders."""

import os

import numpy as np

from .. import backend as K
from ..utils.data_utils import Sequence


# ---- changes ----

def _shifted_origin(matrix, h, w):
    """The matrix about the middle of the image instead of its corner."""
    y, x = h / 2.0 - 0.5, w / 2.0 - 0.5
    to = np.array([[1, 0, y], [0, 1, x], [0, 0, 1]])
    back = np.array([[1, 0, -y], [0, 1, -x], [0, 0, 1]])
    return to @ matrix @ back


def _places(p, n, fill_mode):
    """Where outside places take their value from; None where it is the constant."""
    if fill_mode == "nearest":
        return np.clip(p, 0, n - 1), None
    if fill_mode == "wrap":
        return np.mod(p, n), None
    if fill_mode == "reflect":
        m = np.mod(p, 2 * n)
        return np.where(m < n, m, 2 * n - 1 - m), None
    if fill_mode == "constant":
        return np.clip(p, 0, n - 1), (p < -0.5) | (p > n - 0.5)
    raise ValueError("Unknown fill_mode: %s" % fill_mode)


def apply_affine_transform(x, theta=0, tx=0, ty=0, shear=0, zx=1, zy=1, row_axis=0, col_axis=1, channel_axis=2,
                           fill_mode="nearest", cval=0.0, order=1):
    """Turned by theta degrees, moved, sheared and zoomed, about the middle; linear between pixels (order=0: the nearest)."""
    x = np.moveaxis(x, (row_axis, col_axis, channel_axis), (0, 1, 2))
    t, s = np.deg2rad(theta), np.deg2rad(shear)
    matrix = np.array([[np.cos(t), -np.sin(t), 0], [np.sin(t), np.cos(t), 0], [0, 0, 1.0]])
    matrix = matrix @ np.array([[1, 0, tx], [0, 1, ty], [0, 0, 1.0]])
    matrix = matrix @ np.array([[1, -np.sin(s), 0], [0, np.cos(s), 0], [0, 0, 1.0]])
    matrix = matrix @ np.diag([zx, zy, 1.0])
    h, w = x.shape[:2]
    matrix = _shifted_origin(matrix, h, w)
    rows, cols = np.mgrid[0:h, 0:w]
    at = matrix @ np.stack([rows.ravel(), cols.ravel(), np.ones(h * w)])
    out = _sampled(x, at[0].reshape(h, w), at[1].reshape(h, w), fill_mode, cval, order)
    return np.moveaxis(out, (0, 1, 2), (row_axis, col_axis, channel_axis))


def _sampled(x, rows, cols, fill_mode, cval, order):
    h, w = x.shape[:2]
    rows, out_r = _places(rows, h, fill_mode)
    cols, out_c = _places(cols, w, fill_mode)
    if order == 0:
        value = x[np.rint(rows).astype(int) % h, np.rint(cols).astype(int) % w].astype(float)
    else:
        r0, c0 = np.floor(rows).astype(int), np.floor(cols).astype(int)
        fr, fc = (rows - r0)[..., None], (cols - c0)[..., None]
        limit = (lambda i, n: i % n) if fill_mode == "wrap" else (lambda i, n: np.clip(i, 0, n - 1))
        r0, r1, c0, c1 = limit(r0, h), limit(r0 + 1, h), limit(c0, w), limit(c0 + 1, w)
        value = (x[r0, c0] * (1 - fr) * (1 - fc) + x[r1, c0] * fr * (1 - fc) + x[r0, c1] * (1 - fr) * fc + x[r1, c1] * fr * fc)
    if out_r is not None:
        value[out_r | out_c] = cval
    return value.astype(x.dtype if x.dtype.kind == "f" else np.float32)


def random_rotation(x, rg, row_axis=1, col_axis=2, channel_axis=0, fill_mode="nearest", cval=0.0, interpolation_order=1):
    """Rotates an image by a random angle of at most rg degrees.

    fill_mode ("nearest", "constant", "reflect" or "wrap") says what fills the points outside of the image."""
    return apply_affine_transform(x, theta=np.random.uniform(-rg, rg), row_axis=row_axis, col_axis=col_axis,
                                  channel_axis=channel_axis, fill_mode=fill_mode, cval=cval, order=interpolation_order)


def random_shift(x, wrg, hrg, row_axis=1, col_axis=2, channel_axis=0, fill_mode="nearest", cval=0.0, interpolation_order=1):
    """Shifts an image by random fractions of at most wrg of its width and hrg of its height."""
    tx = np.random.uniform(-hrg, hrg) * x.shape[row_axis]
    ty = np.random.uniform(-wrg, wrg) * x.shape[col_axis]
    return apply_affine_transform(x, tx=tx, ty=ty, row_axis=row_axis, col_axis=col_axis, channel_axis=channel_axis,
                                  fill_mode=fill_mode, cval=cval, order=interpolation_order)


def random_shear(x, intensity, row_axis=1, col_axis=2, channel_axis=0, fill_mode="nearest", cval=0.0, interpolation_order=1):
    """Shears an image by a random angle of at most intensity degrees."""
    return apply_affine_transform(x, shear=np.random.uniform(-intensity, intensity), row_axis=row_axis, col_axis=col_axis,
                                  channel_axis=channel_axis, fill_mode=fill_mode, cval=cval, order=interpolation_order)


def random_zoom(x, zoom_range, row_axis=1, col_axis=2, channel_axis=0, fill_mode="nearest", cval=0.0, interpolation_order=1):
    """Zooms an image by random factors from zoom_range[0] to zoom_range[1]."""
    if len(zoom_range) != 2:
        raise ValueError("`zoom_range` should be a tuple or list of two floats. Received: %s" % (zoom_range,))
    zx, zy = (1, 1) if zoom_range[0] == 1 and zoom_range[1] == 1 else np.random.uniform(zoom_range[0], zoom_range[1], 2)
    return apply_affine_transform(x, zx=zx, zy=zy, row_axis=row_axis, col_axis=col_axis, channel_axis=channel_axis,
                                  fill_mode=fill_mode, cval=cval, order=interpolation_order)


def apply_channel_shift(x, intensity, channel_axis=0):
    """Adds a number to all values, within the range that the image has."""
    return np.clip(x + intensity, x.min(), x.max())


def random_channel_shift(x, intensity_range, channel_axis=0):
    """Adds a random number of at most intensity_range to all values, within the range that the image has."""
    return apply_channel_shift(x, np.random.uniform(-intensity_range, intensity_range), channel_axis)


def apply_brightness_shift(x, brightness):
    """Multiplies all values by brightness, limited to the range from 0 to 255."""
    return np.clip(x * brightness, 0, 255)


def random_brightness(x, brightness_range):
    """Multiplies all values by a random factor from brightness_range[0] to brightness_range[1]."""
    if len(brightness_range) != 2:
        raise ValueError("`brightness_range should be tuple or list of two floats. Received: %s" % (brightness_range,))
    return apply_brightness_shift(x, np.random.uniform(*brightness_range))


# ---- files ----

def load_img(path, grayscale=False, color_mode="rgb", target_size=None, interpolation="nearest"):
    """An image of PIL's."""
    try:
        from PIL import Image
    except ImportError:
        raise ImportError("Could not import PIL.Image. The use of `load_img` requires PIL.") from None
    mode = "L" if grayscale or color_mode == "grayscale" else {"rgb": "RGB", "rgba": "RGBA"}.get(color_mode)
    if mode is None:
        raise ValueError('color_mode must be "grayscale", "rgb", or "rgba"')
    image = Image.open(path).convert(mode)
    if target_size is not None and image.size != (target_size[1], target_size[0]):
        kinds = {"nearest": Image.NEAREST, "bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC}
        if interpolation not in kinds:
            raise ValueError("Invalid interpolation method %s specified. Supported methods are %s" %
                             (interpolation, ", ".join(kinds)))
        image = image.resize((target_size[1], target_size[0]), kinds[interpolation])
    return image


def img_to_array(img, data_format=None, dtype=None):
    """Converts an image of PIL to an array."""
    data_format = data_format or K.image_data_format()
    if data_format not in ("channels_first", "channels_last"):
        raise ValueError("Unknown data_format: %s" % data_format)
    x = np.asarray(img, dtype=dtype or K.floatx())
    if x.ndim == 2:
        return x[None] if data_format == "channels_first" else x[..., None]
    if x.ndim != 3:
        raise ValueError("Unsupported image shape: %s" % (x.shape,))
    return x.transpose(2, 0, 1) if data_format == "channels_first" else x


def array_to_img(x, data_format=None, scale=True, dtype=None):
    """Converts an array to an image of PIL; scale maps its range to 0 to 255."""
    try:
        from PIL import Image
    except ImportError:
        raise ImportError("Could not import PIL.Image. The use of `array_to_img` requires PIL.") from None
    x = np.asarray(x, dtype=dtype or K.floatx())
    if (data_format or K.image_data_format()) == "channels_first":
        x = x.transpose(1, 2, 0)
    if scale:
        x = x - x.min()
        x = x / x.max() * 255 if x.max() else x
    x = x.astype("uint8")
    return Image.fromarray(x[:, :, 0], "L") if x.shape[2] == 1 else Image.fromarray(x, {3: "RGB", 4: "RGBA"}[x.shape[2]])


def save_img(path, x, data_format=None, file_format=None, scale=True, **kwargs):
    """Writes an array as an image file; the format follows from the name unless it is given."""
    array_to_img(x, data_format=data_format, scale=scale).save(path, format=file_format, **kwargs)


# ---- batches ----

class Iterator(Sequence):
    """Batches of indices, in an order of its own each time; both numbered and endless."""

    def __init__(self, n, batch_size, shuffle, seed):
        self.n, self.batch_size, self.shuffle, self.seed = n, batch_size, shuffle, seed
        self.batch_index = self.total_batches_seen = 0
        self.index_array = None

    def _set_index_array(self):
        if self.seed is not None:
            np.random.seed(self.seed + self.total_batches_seen)
        self.index_array = np.random.permutation(self.n) if self.shuffle else np.arange(self.n)

    def __len__(self):
        return -(-self.n // self.batch_size)

    def __getitem__(self, i):
        if i >= len(self):
            raise ValueError("Asked to retrieve element %d, but the Sequence has length %d" % (i, len(self)))
        if self.index_array is None:
            self._set_index_array()
        self.total_batches_seen += 1
        return self._get_batches_of_transformed_samples(self.index_array[i * self.batch_size:(i + 1) * self.batch_size])

    def on_epoch_end(self):
        """Chooses the order of samples for the next epoch."""
        self._set_index_array()

    def reset(self):
        """Starts again at the first batch."""
        self.batch_index = 0

    def __iter__(self):
        return self

    def __next__(self):
        """Returns the next batch."""
        if self.batch_index == 0:
            self._set_index_array()
        i, self.batch_index = self.batch_index, (self.batch_index + 1) % len(self)
        return self[i]

    next = __next__


class NumpyArrayIterator(Iterator):
    """An iterator over batches of images from arrays."""

    def __init__(self, x, y, image_data_generator, batch_size=32, shuffle=False, sample_weight=None, seed=None,
                 data_format=None, save_to_dir=None, save_prefix="", save_format="png", subset=None, dtype=None):
        x = np.asarray(x, dtype or K.floatx())
        if y is not None and len(x) != len(y):
            raise ValueError("`x` (images tensor) and `y` (labels) should have the same length. Found: x.shape = %s, y.shape = "
                             "%s" %
                             (x.shape, np.shape(y)))
        if x.ndim != 4:
            raise ValueError("Input data in `NumpyArrayIterator` should have rank 4. You passed an array with shape %s" %
                             (x.shape,))
        part = image_data_generator._part(len(x), subset)
        self.x, self.y = x[part], None if y is None else np.asarray(y)[part]
        self.sample_weight = None if sample_weight is None else np.asarray(sample_weight)[part]
        self._generator = image_data_generator
        self._save = save_to_dir, save_prefix, save_format, data_format or image_data_generator.data_format
        super().__init__(len(self.x), batch_size, shuffle, seed)

    def _get_batches_of_transformed_samples(self, index_array):
        images = np.stack([self._generator._changed(self.x[i]) for i in index_array])
        _save_batch(images, index_array, *self._save)
        if self.y is None:
            return images
        out = (images, self.y[index_array])
        return out if self.sample_weight is None else out + (self.sample_weight[index_array],)


def _save_batch(images, index_array, folder, prefix, file_format, data_format):
    for image, i in zip(images, index_array) if folder else ():
        path = os.path.join(folder, "%s_%d_%d.%s" % (prefix, i, np.random.randint(10000), file_format))
        array_to_img(image, data_format).save(path)


class DirectoryIterator(Iterator):
    """An iterator over batches of images from folders, one folder for each class."""

    _ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".tif", ".tiff")

    def __init__(self, directory, image_data_generator, target_size=(256, 256), color_mode="rgb", classes=None,
                 class_mode="categorical", batch_size=32, shuffle=True, seed=None, data_format=None, save_to_dir=None,
                 save_prefix="", save_format="png", follow_links=False, subset=None, interpolation="nearest", dtype=None):
        if class_mode not in ("categorical", "binary", "sparse", "input", None):
            raise ValueError("Invalid class_mode: %s; expected one of: categorical, binary, sparse, input, None" % class_mode)
        classes = classes or sorted(d for d in os.listdir(directory) if os.path.isdir(os.path.join(directory, d)))
        self.class_indices = {c: i for i, c in enumerate(classes)}
        self.filenames, self.classes = [], []
        for c in classes:
            files = []
            for root, _, names in sorted(os.walk(os.path.join(directory, c), followlinks=follow_links)):
                files += [os.path.relpath(os.path.join(root, f), directory) for f in sorted(names)
                          if f.lower().endswith(self._ENDINGS)]
            files = [files[i] for i in range(len(files))[image_data_generator._part(len(files), subset)]]
            self.filenames += files
            self.classes += [self.class_indices[c]] * len(files)
        self.classes, self.num_classes, self.samples = np.array(self.classes, "int32"), len(classes), len(self.filenames)
        self.directory, self.class_mode, self.target_size = directory, class_mode, tuple(target_size)
        self._generator, self._load = image_data_generator, dict(color_mode=color_mode, target_size=target_size,
                                                                 interpolation=interpolation)
        self._data_format, self._dtype = data_format or image_data_generator.data_format, dtype
        self._save = save_to_dir, save_prefix, save_format, self._data_format
        print("Found %d images belonging to %d classes." % (self.samples, self.num_classes))
        super().__init__(self.samples, batch_size, shuffle, seed)

    def _get_batches_of_transformed_samples(self, index_array):
        images = []
        for i in index_array:
            image = load_img(os.path.join(self.directory, self.filenames[i]), **self._load)
            images.append(self._generator._changed(img_to_array(image, self._data_format), self._dtype))
        images, labels = np.stack(images), self.classes[index_array]
        _save_batch(images, index_array, *self._save)
        if self.class_mode is None:
            return images
        if self.class_mode == "input":
            return images, images.copy()
        if self.class_mode == "categorical":
            return images, np.eye(self.num_classes, dtype=K.floatx())[labels]
        return images, labels.astype(K.floatx()) if self.class_mode == "binary" else labels


class ImageDataGenerator:
    """Changes images at random, within ranges, and brings them to one scale."""

    def __init__(self, featurewise_center=False, samplewise_center=False, featurewise_std_normalization=False,
                 samplewise_std_normalization=False, zca_whitening=False, zca_epsilon=1e-6, rotation_range=0,
                 width_shift_range=0.0, height_shift_range=0.0, brightness_range=None, shear_range=0.0, zoom_range=0.0,
                 channel_shift_range=0.0, fill_mode="nearest", cval=0.0, horizontal_flip=False, vertical_flip=False,
                 rescale=None, preprocessing_function=None, data_format=None, validation_split=0.0, dtype=None):
        if zca_whitening:
            raise NotImplementedError("ImageDataGenerator(zca_whitening=True)")
        if fill_mode not in ("constant", "nearest", "reflect", "wrap"):
            raise ValueError("Unknown fill_mode: %s" % fill_mode)
        self.__dict__.update({k: v for k, v in locals().items() if k != "self"})
        self.data_format = data_format or K.image_data_format()
        first = self.data_format == "channels_first"
        self.channel_axis, self.row_axis, self.col_axis = (1, 2, 3) if first else (3, 1, 2)
        if validation_split and not 0 < validation_split < 1:
            raise ValueError("`validation_split` must be strictly between 0 and 1. Received: %s" % validation_split)
        if isinstance(zoom_range, (int, float)):
            self.zoom_range = [1 - zoom_range, 1 + zoom_range]
        elif len(zoom_range) != 2:
            raise ValueError("`zoom_range` should be a float or a tuple or list of two floats. Received: %s" % (zoom_range,))
        self.mean = self.std = None

    def _part(self, n, subset):
        if subset is None:
            return slice(None)
        if subset not in ("training", "validation"):
            raise ValueError("Invalid subset name: %s; expected \"training\" or \"validation\"." % subset)
        at = int(n * self.validation_split)
        return slice(0, at) if subset == "validation" else slice(at, None)

    def flow(self, x, y=None, batch_size=32, shuffle=True, sample_weight=None, seed=None, save_to_dir=None, save_prefix="",
             save_format="png", subset=None):
        """Returns an iterator over batches of transformed images, and their labels if y is given.

        Args:
            x: an array of images
            y: the labels
            save_to_dir: a folder that the images are also written to
            subset: "training" or "validation", if validation_split is set
        """
        return NumpyArrayIterator(x, y, self, batch_size, shuffle, sample_weight, seed, self.data_format, save_to_dir,
                                  save_prefix, save_format, subset, self.dtype)

    def flow_from_directory(self, directory, target_size=(256, 256), color_mode="rgb", classes=None, class_mode="categorical",
                            batch_size=32, shuffle=True, seed=None, save_to_dir=None, save_prefix="", save_format="png",
                            follow_links=False, subset=None, interpolation="nearest"):
        """Returns an iterator over batches of images from a folder with a subfolder for each class.

        Args:
            target_size: the height and width that images are scaled to
            color_mode: "rgb", "rgba" or "grayscale"
            classes: the names of subfolders; all of them by default
            class_mode: "categorical", "binary", "sparse", "input" or None for no labels
        """
        return DirectoryIterator(directory, self, target_size, color_mode, classes, class_mode, batch_size, shuffle, seed,
                                 self.data_format, save_to_dir, save_prefix, save_format, follow_links, subset, interpolation)

    def standardize(self, x):
        """Scaled and shifted, as it was asked for."""
        if self.preprocessing_function:
            x = self.preprocessing_function(x)
        if self.rescale:
            x = x * self.rescale
        if self.samplewise_center:
            x = x - np.mean(x, keepdims=True)
        if self.samplewise_std_normalization:
            x = x / (np.std(x, keepdims=True) + 1e-6)
        if (self.featurewise_center or self.featurewise_std_normalization) and self.mean is None:
            raise ValueError("This ImageDataGenerator specifies `featurewise_center`, but it hasn't been fit on any training "
                             "data. Fit it first by calling `.fit(numpy_data)`.")
        if self.featurewise_center:
            x = x - self.mean
        if self.featurewise_std_normalization:
            x = x / (self.std + 1e-6)
        return x

    def get_random_transform(self, img_shape, seed=None):
        """Returns a dict with the parameters of a random transformation."""
        if seed is not None:
            np.random.seed(seed)
        h, w = img_shape[self.row_axis - 1], img_shape[self.col_axis - 1]
        shift = lambda r, n: np.random.uniform(-r, r) * (n if r < 1 else 1) if np.isscalar(r) else np.random.choice(r)
        zx, zy = (1, 1) if list(self.zoom_range) == [1, 1] else np.random.uniform(self.zoom_range[0], self.zoom_range[1], 2)
        return {"theta": np.random.uniform(-self.rotation_range, self.rotation_range) if self.rotation_range else 0,
                "tx": shift(self.height_shift_range, h) if np.any(self.height_shift_range) else 0,
                "ty": shift(self.width_shift_range, w) if np.any(self.width_shift_range) else 0,
                "shear": np.random.uniform(-self.shear_range, self.shear_range) if self.shear_range else 0, "zx": zx, "zy": zy,
                "flip_horizontal": np.random.random() < 0.5 if self.horizontal_flip else False,
                "flip_vertical": np.random.random() < 0.5 if self.vertical_flip else False,
                "channel_shift_intensity": np.random.uniform(-self.channel_shift_range, self.channel_shift_range)
                if self.channel_shift_range else None,
                "brightness": np.random.uniform(*self.brightness_range) if self.brightness_range is not None else None}

    def apply_transform(self, x, transform_parameters):
        """Applies the transformation that the parameters describe to an image."""
        p = transform_parameters
        row, col, channel = self.row_axis - 1, self.col_axis - 1, self.channel_axis - 1
        moved = {k: p.get(k, d) for k, d in (("theta", 0), ("tx", 0), ("ty", 0), ("shear", 0), ("zx", 1), ("zy", 1))}
        if any(moved[k] != d for k, d in (("theta", 0), ("tx", 0), ("ty", 0), ("shear", 0), ("zx", 1), ("zy", 1))):
            x = apply_affine_transform(x, row_axis=row, col_axis=col, channel_axis=channel, fill_mode=self.fill_mode,
                                       cval=self.cval, **moved)
        if p.get("channel_shift_intensity") is not None:
            x = apply_channel_shift(x, p["channel_shift_intensity"], channel)
        if p.get("flip_horizontal"):
            x = np.flip(x, col)
        if p.get("flip_vertical"):
            x = np.flip(x, row)
        return x if p.get("brightness") is None else apply_brightness_shift(x, p["brightness"])

    def random_transform(self, x, seed=None):
        """Applies a random transformation to an image."""
        return self.apply_transform(x, self.get_random_transform(x.shape, seed))

    def _changed(self, x, dtype=None):
        return self.standardize(self.random_transform(np.asarray(x, dtype or self.dtype or K.floatx())))

    def fit(self, x, augment=False, rounds=1, seed=None):
        """Means and deviations of the data, for featurewise_*."""
        x = np.asarray(x, K.floatx())
        if x.ndim != 4:
            raise ValueError("Input to `.fit()` should have rank 4. Got array with shape: %s" % (x.shape,))
        if seed is not None:
            np.random.seed(seed)
        if augment:
            x = np.stack([self.random_transform(image) for _ in range(rounds) for image in x])
        axes = (0, self.row_axis, self.col_axis)
        self.mean = np.mean(x, axis=axes, keepdims=True)[0]
        self.std = np.std(x, axis=axes, keepdims=True)[0]
