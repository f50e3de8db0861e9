"""Fashion-MNIST: pictures of clothes."""

import gzip
import os

import numpy as np

from ..utils.data_utils import get_file


def load_data():
    """(images, labels) for training and for tests."""
    folder = os.path.join("datasets", "fashion-mnist")
    origin = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/"
    parts = []
    for name, skip in (("train-images-idx3-ubyte.gz", 16), ("train-labels-idx1-ubyte.gz", 8), ("t10k-images-idx3-ubyte.gz", 16),
                       ("t10k-labels-idx1-ubyte.gz", 8)):
        with gzip.open(get_file(name, origin + name, cache_subdir=folder), "rb") as f:
            values = np.frombuffer(f.read(), np.uint8, offset=skip)
        parts.append(values.reshape(-1, 28, 28) if skip == 16 else values)
    return (parts[0], parts[1]), (parts[2], parts[3])
