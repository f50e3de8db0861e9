"""MNIST: 70,000 handwritten digits, from the four files of its makers (idx, plain or as .gz).

They are looked for in the folder that the program names, in MNIST_DIR, and in the cache that tools/mnist (and `make run`)
fills. Nothing is fetched from here.
"""
import gzip
import os

import numpy as np

from ....framework import dtypes
from .base import Dataset, Datasets  # noqa: F401

SOURCE_URL = DEFAULT_SOURCE_URL = "https://storage.googleapis.com/cvdf-datasets/mnist/"
TRAIN_IMAGES, TRAIN_LABELS = "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"
TEST_IMAGES, TEST_LABELS = "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"


def folders(train_dir=None):
    """Where the files may be, in this order."""
    cache = os.environ.get("MILLRACE_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "millrace")
    return [d for d in (train_dir, os.environ.get("MNIST_DIR"), os.path.join(cache, "mnist")) if d]


def find_file(name, train_dir=None):
    """The path of NAME.gz, or of the same unpacked."""
    plain = name[:-3] if name.endswith(".gz") else name
    for folder in folders(train_dir):
        for n in (plain + ".gz", plain, plain.replace("-idx", ".idx")):
            path = os.path.join(folder, n)
            if os.path.exists(path):
                return path
    raise FileNotFoundError(
        "MNIST's file %s is in none of: %s. Run tools/mnist of Millrace once, which fetches the four files into the cache, or "
        "name a "
        "folder that has them in MNIST_DIR." % (plain, ", ".join(os.path.abspath(f) for f in folders(train_dir))))


def _read(f, magic, what):
    """The elements of an idx file: its magic number, the sizes, the bytes.  f may be of packed or of plain bytes."""
    data = f.read()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    n_dims = magic & 255
    head = np.frombuffer(data[:4 + 4 * n_dims], ">u4")
    if len(head) != 1 + n_dims or head[0] != magic:
        raise ValueError("Invalid magic number %s in MNIST %s file: %s" % (head[:1], what, getattr(f, "name", "")))
    values = np.frombuffer(data, np.uint8, offset=4 + 4 * n_dims)
    if values.size != np.prod(head[1:], dtype=np.int64):
        raise ValueError("The MNIST %s file %s is too short or too long" % (what, getattr(f, "name", "")))
    return values.reshape([int(d) for d in head[1:]])


def extract_images(f):
    """[images, rows, columns, 1] of bytes, from an open file."""
    return _read(f, 2051, "image")[..., np.newaxis].copy()


def extract_labels(f, one_hot=False, num_classes=10):
    """Reads a gzip file of MNIST labels into an array; one_hot makes vectors of them."""
    labels = _read(f, 2049, "label").copy()
    return dense_to_one_hot(labels, num_classes) if one_hot else labels


def dense_to_one_hot(labels_dense, num_classes):
    """Converts an array of classes to one-hot vectors."""
    return np.eye(num_classes)[np.asarray(labels_dense).ravel()]


class DataSet:
    """Images and their labels, returned in batches."""

    def __init__(self, images, labels, fake_data=False, one_hot=False, dtype=dtypes.float32, reshape=True, seed=None):
        from ....ops.random import get_seed
        first, second = get_seed(seed)
        np.random.seed(first if seed is None else second)  # numpy's own generator shuffles, as programs count on
        dtype = dtypes.as_dtype(dtype).base_dtype
        if dtype not in (dtypes.uint8, dtypes.float32):
            raise TypeError("Invalid image dtype %r, expected uint8 or float32" % dtype)
        self.one_hot, self._fake = one_hot, fake_data
        if fake_data:
            self._num_examples = 10000
        else:
            images, labels = self._taken(np.asarray(images), np.asarray(labels), dtype, reshape)
        self._images, self._labels = images, labels
        self._epochs_completed = self._index_in_epoch = 0

    def _taken(self, images, labels, dtype, reshape):
        if images.shape[0] != labels.shape[0]:
            raise AssertionError("images.shape: %s labels.shape: %s" % (images.shape, labels.shape))
        self._num_examples = images.shape[0]
        if reshape:
            if images.shape[3] != 1:
                raise AssertionError("images have %d channels, not one" % images.shape[3])
            images = images.reshape(images.shape[0], images.shape[1] * images.shape[2])
        if dtype is dtypes.float32:  # from [0, 255] to [0, 1]
            images = images.astype(np.float32) * np.float32(1.0 / 255.0)
        return images, labels

    images = property(lambda self: self._images, doc="The images, an array.")
    labels = property(lambda self: self._labels, doc="The labels, an array.")
    num_examples = property(lambda self: self._num_examples, doc="The number of examples.")
    epochs_completed = property(lambda self: self._epochs_completed,
                                doc="How often next_batch has gone through all examples.")

    def next_batch(self, batch_size, fake_data=False, shuffle=True):
        """The next images and labels.  At the end of all of them they are shuffled anew, and a batch may have some of both
        rounds.
        """
        if fake_data or self._fake:
            label = [1] + [0] * 9 if self.one_hot else 0
            return [[1] * 784 for _ in range(batch_size)], [label for _ in range(batch_size)]
        if batch_size > self._num_examples:
            raise ValueError("A batch of %d of %d examples" % (batch_size, self._num_examples))
        start = self._index_in_epoch
        if self._epochs_completed == 0 and start == 0 and shuffle:
            self._shuffle()
        if start + batch_size <= self._num_examples:
            self._index_in_epoch = start + batch_size
            return self._images[start:start + batch_size], self._labels[start:start + batch_size]
        self._epochs_completed += 1
        rest = self._images[start:], self._labels[start:]
        if shuffle:
            self._shuffle()
        self._index_in_epoch = end = batch_size - (self._num_examples - start)
        return np.concatenate([rest[0], self._images[:end]]), np.concatenate([rest[1], self._labels[:end]])

    def _shuffle(self):
        order = np.arange(self._num_examples)
        np.random.shuffle(order)
        self._images, self._labels = self._images[order], self._labels[order]


def read_data_sets(train_dir, fake_data=False, one_hot=False, dtype=dtypes.float32, reshape=True, validation_size=5000,
                   seed=None,
                   source_url=DEFAULT_SOURCE_URL):
    """Datasets(train, validation, test); the validation set is the first of the 60,000 for training."""
    if fake_data:
        def fake():
            return DataSet([], [], fake_data=True, one_hot=one_hot, dtype=dtype, seed=seed)
        return Datasets(train=fake(), validation=fake(), test=fake())
    parts = []
    for name, extract in ((TRAIN_IMAGES, extract_images), (TRAIN_LABELS, lambda f: extract_labels(f, one_hot)),
                          (TEST_IMAGES, extract_images), (TEST_LABELS, lambda f: extract_labels(f, one_hot))):
        with open(find_file(name, train_dir), "rb") as f:
            parts.append(extract(f))
    images, labels, test_images, test_labels = parts
    if not 0 <= validation_size <= len(images):
        raise ValueError("Validation size should be between 0 and %d. Received: %s." % (len(images), validation_size))
    options = dict(dtype=dtype, reshape=reshape, seed=seed)
    train = DataSet(images[validation_size:], labels[validation_size:], **options)
    validation = DataSet(images[:validation_size], labels[:validation_size], **options)
    return Datasets(train=train, validation=validation, test=DataSet(test_images, test_labels, **options))


def load_mnist(train_dir="MNIST-data"):
    """Reads MNIST from a folder; the same as read_data_sets."""
    return read_data_sets(train_dir)
