"""The MNIST digits."""

import os

import numpy as np

from ...contrib.learn.datasets import mnist as files


def load_data(path="mnist.npz"):
    """(images, labels) for training and for tests, from ~/.keras/datasets or the cache that tools/mnist fills."""
    kept = path if os.path.isabs(path) else os.path.join(os.path.expanduser("~"), ".keras", "datasets", path)
    if os.path.exists(kept):
        with np.load(kept, allow_pickle=False) as f:
            return (f["x_train"], f["y_train"]), (f["x_test"], f["y_test"])
    parts = []
    for name, extract in ((files.TRAIN_IMAGES, files.extract_images), (files.TRAIN_LABELS, files.extract_labels),
                          (files.TEST_IMAGES, files.extract_images), (files.TEST_LABELS, files.extract_labels)):
        with open(files.find_file(name), "rb") as f:
            parts.append(extract(f))
    x, y, x_test, y_test = parts
    return (x[..., 0] if x.ndim == 4 else x, y), (x_test[..., 0] if x_test.ndim == 4 else x_test, y_test)
