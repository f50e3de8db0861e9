"""CIFAR-100: small pictures of a hundred kinds of things."""

import os

from ..utils.data_utils import get_file
from .cifar import arranged, load_batch


def load_data(label_mode="fine"):
    """Loads CIFAR-100, from the cache or the network: (x_train, y_train), (x_test, y_test).

    label_mode is "fine" for 100 classes or "coarse" for 20."""
    if label_mode not in ("fine", "coarse"):
        raise ValueError("`label_mode` must be one of `\"fine\"`, `\"coarse\"`.")
    folder = get_file("cifar-100-python", "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz", untar=True)
    x, y = load_batch(os.path.join(folder, "train"), label_mode + "_labels")
    x_test, y_test = load_batch(os.path.join(folder, "test"), label_mode + "_labels")
    return arranged(x, y, x_test, y_test)
