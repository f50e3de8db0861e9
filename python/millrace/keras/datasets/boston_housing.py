"""Prices of houses in Boston."""

import numpy as np

from ..utils.data_utils import get_file


def load_data(path="boston_housing.npz", test_split=0.2, seed=113):
    """Loads the Boston housing prices, from the cache or the network.

    Returns (x_train, y_train), (x_test, y_test); test_split is the fraction of test samples."""
    if not 0 <= test_split < 1:
        raise ValueError("test_split must be between 0 and 1, got %s" % test_split)
    path = get_file(path, "https://storage.googleapis.com/tensorflow/tf-keras-datasets/boston_housing.npz")
    with np.load(path, allow_pickle=False) as f:
        x, y = f["x"], f["y"]
    order = np.arange(len(x))
    np.random.RandomState(seed).shuffle(order)
    x, y = x[order], y[order]
    n = int(len(x) * (1 - test_split))
    return (x[:n], y[:n]), (x[n:], y[n:])
