"""CIFAR-10: small pictures of ten kinds of things."""

import os

import numpy as np

from ..utils.data_utils import get_file
from .cifar import arranged, load_batch


def load_data():
    """Loads CIFAR-10, from the cache or the network: (x_train, y_train), (x_test, y_test)."""
    folder = get_file("cifar-10-batches-py", "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz", untar=True)
    parts = [load_batch(os.path.join(folder, "data_batch_%d" % i)) for i in range(1, 6)]
    x_test, y_test = load_batch(os.path.join(folder, "test_batch"))
    return arranged(np.concatenate([x for x, _ in parts]), np.concatenate([np.asarray(y, "uint8") for _, y in parts]), x_test,
                    np.asarray(y_test, "uint8"))
